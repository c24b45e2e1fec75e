"""Implements `holdfast serve` and `holdfast worker`, the long-running processes.

From the settings to a listening server, and from the first signal to a clean shutdown: streams are
told to reconnect, requests finish, steps get a grace period.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.cli.allocator import return_large_blocks
from holdfast.cli.cluster import Link, answering, asking, attach, linked
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.serve_config import Setup, set_up
from holdfast.cli.settings import Settings, base_urls_of
from holdfast.cli.telemetry import provider_keys
from holdfast.cli.trust_prompt import settle_settings
from holdfast.config import ServeOptions, default_model
from holdfast.host import serving
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import Ports
from holdfast.store.metered import Timed
from holdfast.store.url import open_database, warn_of_polling

if TYPE_CHECKING:
    from aiohttp import web

    from holdfast.chat.host import Host
    from holdfast.server.app import Limits
    from holdfast.store.database import Database

LOG: Final = logging.getLogger("holdfast.serve")
FINISH: Final = 5.0
"""Seconds that requests have to finish after a signal to stop."""


def main(options: ServeOptions) -> int:
    settle_settings(options.settings, options.data)
    setup = set_up(options, os.environ)
    return_large_blocks()
    with setup.observing.logging():
        asyncio.run(_until_stopped(setup))
    return ExitCode.FINISHED


# --- the process ---------------------------------------------------------------------------------


async def _until_stopped(setup: Setup) -> None:
    ports, say, observer = Ports(), setup.observing.say, setup.observing.observer
    async with AsyncExitStack() as stack:
        opening = open_database(
            setup.database,
            now=ports.now,
            wait=setup.settings.database_wait,
            listen_url=setup.listen_url,
            new_id=ports.new_id,
        )
        opened = await stack.enter_async_context(opening)
        warn_of_polling(opened, setup.settings.worker.poll)
        stop = _stop_signal()  # before this, a signal ends the process: there is nothing to finish
        db = Timed(opened, setup.observing.meters)
        await stack.enter_async_context(_stored_keys(setup, db))
        setup.crew.complete()
        link = None if db.exclusive else await stack.enter_async_context(_linked(setup))
        host = await stack.enter_async_context(
            serving(
                db,
                setup.crew.agents,
                ports=ports,
                worker=setup.settings.worker,
                observer=observer,
                url=None if link is None else link.url,
            )
        )
        if setup.options.api:
            await stack.enter_async_context(asking(link, host, setup.observing.meters))
            listening = _listening(setup, db, host, ports, link)
            url, port = await stack.enter_async_context(listening)
            say(f"Holdfast is at {url}")
            if setup.settings.server.team:
                say(f"  listening at {setup.listen[0]}:{port}")
        else:
            await stack.enter_async_context(_reachable(setup, db, host, link))
        say(f"  {_who_answers(setup)}")
        say("  Press Ctrl-C to stop; accepted messages are never lost")
        if setup.options.api and _seen_here(setup):
            from holdfast.cli.browser import open_browser

            await asyncio.to_thread(open_browser, url, Path(setup.options.data))
        await stop.wait()
        say(f"stopping: {'closing streams, ' if setup.options.api else ''}finishing steps")


def _seen_here(setup: Setup) -> bool:
    """Whether to open the page: only for a single user's own server."""
    from holdfast.cli.browser import has_screen

    wanted = setup.options.open and not setup.settings.server.team
    return wanted and sys.stdout.isatty() and has_screen(os.environ)


def _stop_signal() -> asyncio.Event:
    """An event set by the first signal. A second one ends the process by default."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def told() -> None:
        stop.set()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)

    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, told)
    return stop


@asynccontextmanager
async def _linked(setup: Setup) -> AsyncIterator[Link | None]:
    """The link through which other replicas reach this one."""
    async with AsyncExitStack() as stack:
        try:
            link = await stack.enter_async_context(
                linked(setup.secret, setup.settings.server, setup.listen)
            )
        except OSError as error:
            raise _cannot_listen(setup, error) from None
        yield link


def _cannot_listen(setup: Setup, error: OSError) -> ConfigError:
    name, port = setup.listen
    why = (
        "is already in use"
        if error.errno == errno.EADDRINUSE
        else f"cannot be used ({error.strerror})"
    )
    do = "use --listen" if setup.options.api else "set HOLDFAST_LISTEN"
    return ConfigError(f"{name}:{port} {why}: {do} with another port, or 0 for a free one")


@asynccontextmanager
async def _listening(
    setup: Setup, db: Database, host: Host, ports: Ports, link: Link | None
) -> AsyncIterator[tuple[str, int]]:
    """Serve the API during the block; yields the URL to open, and the port."""
    from aiohttp import web

    from holdfast.server.identity.slow_clients import limited_runner

    app = _application(setup, db, host, ports, link)
    runner = limited_runner(
        app,
        secure=setup.front is not None and setup.front.secure,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=FINISH,
    )
    await runner.setup()
    try:
        try:
            if link is None:
                await web.TCPSite(runner, *setup.listen).start()
            else:
                await web.SockSite(runner, link.listening).start()
        except OSError as error:
            raise _cannot_listen(setup, error) from None
        taken: int = runner.addresses[0][1]
        async with _own_socket(setup, runner, taken):
            yield await _url(setup, db, taken), taken
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _own_socket(setup: Setup, runner: web.AppRunner, port: int) -> AsyncIterator[None]:
    """Serve the API on a Unix socket too, for the local command line, which trusts no port."""
    from aiohttp import web

    from holdfast.server.identity.local_socket import bound_socket

    async with AsyncExitStack() as stack:
        if not setup.settings.server.team:
            try:
                made = stack.enter_context(bound_socket(Path(setup.options.data), port))
                site = web.SockSite(runner, made)
                await site.start()
                stack.push_async_callback(site.stop)
            except OSError as error:
                LOG.warning(
                    "no Unix socket in %s (%s): the command line needs --url and --token "
                    "to reach this server",
                    setup.options.data,
                    error,
                )
        yield


def limits_of(settings: Settings) -> Limits:
    from holdfast.server.app import Limits
    from holdfast.server.fanout import StreamOptions

    given = settings.limits
    streams = StreamOptions(tick=settings.server.tick, per_user=given.streams)
    return Limits(streams=streams, quota=given.files * 1024 * 1024, audit=given.audit)


def _application(
    setup: Setup, db: Database, host: Host, ports: Ports, link: Link | None
) -> web.Application:
    """The API with its middleware."""
    from holdfast.server.app import ApiServer, application
    from holdfast.server.identity.auth_config import AuthConfig
    from holdfast.server.identity.authenticator import Authenticator
    from holdfast.server.identity.middleware import protect
    from holdfast.server.static_files import serve_page

    team, front = setup.settings.server.team, setup.front
    access = AuthConfig(
        local=not team,
        secure=front is not None and front.secure,
        port=None if team else setup.listen[1] or None,
        keyring=setup.keyring,
        proxies=setup.settings.server.proxies,
    )
    limits = limits_of(setup.settings)
    meters = setup.observing.meters
    base_urls = base_urls_of(setup.settings)
    server = ApiServer(
        host, db, Authenticator(db, access), ports, limits, access, meters, base_urls
    )
    app = serve_page(attach(application(server), link, host, meters))
    return protect(app, server, front, None if link is None else link.front)


@asynccontextmanager
async def _reachable(
    setup: Setup, db: Database, host: Host, link: Link | None
) -> AsyncIterator[None]:
    """Serve a worker's endpoints during the block."""
    say, meters = setup.observing.say, setup.observing.meters
    say("worker started")
    async with AsyncExitStack() as stack:
        if link is not None:
            port = await stack.enter_async_context(answering(link, host, meters))
            say(f"  other replicas reach it on port {port}")
        if setup.metrics is not None:
            port = await stack.enter_async_context(_metered(setup, db, host))
            say(f"  metrics are on port {port}, /metrics")
        yield


@asynccontextmanager
async def _metered(setup: Setup, db: Database, host: Host) -> AsyncIterator[int]:
    """Serve a worker's metrics during the block; yields the port."""
    from holdfast.server.prometheus import scraped_at

    assert setup.metrics is not None
    name, port = setup.metrics
    async with AsyncExitStack() as stack:
        try:
            told = scraped_at(name, port, setup.observing.meters, db, host)
            port = await stack.enter_async_context(told)
        except OSError as error:
            raise ConfigError(
                f"{name}:{port} cannot be used ({error.strerror}): use --metrics with another port"
            ) from None
        yield port


async def _url(setup: Setup, db: Database, port: int) -> str:
    """The URL to open, including the credentials of the local user if there is one."""
    from holdfast.server.identity.local_token import let_in, token_of, url_to_open

    name = setup.listen[0]
    if setup.settings.server.team:
        return setup.settings.server.urls[0]
    token = token_of(Path(setup.options.data, "token"))
    await db.write(lambda tx: let_in(tx, token))
    return url_to_open(port, token, name)


@asynccontextmanager
async def _stored_keys(setup: Setup, db: Database) -> AsyncIterator[None]:
    """Use stored provider keys, and follow changes to them during the block."""
    from holdfast.cli.keys import StoredKeys

    def changed() -> None:
        setup.observing.redact.know(*provider_keys(os.environ))
        setup.crew.renew()

    keys = StoredKeys(db, setup.keyring, os.environ, changed)
    await keys.look()
    following = asyncio.create_task(keys.follow())
    try:
        yield
    finally:
        following.cancel()


def _who_answers(setup: Setup) -> str:
    first = next(iter(setup.crew.agents.values()))
    model = getattr(first.model, "name", "")
    words = f"{first.name} answers with {model}"
    if model.startswith("demo"):
        settings = setup.settings.agents.get(first.name)
        _, reason = default_model(os.environ, base_urls_of(setup.settings))
        if settings is not None and settings.model is not None:
            reason = "its settings name it"
        words += f" (not a language model: {reason})"
    return words
