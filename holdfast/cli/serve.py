"""`holdfast serve` and `holdfast worker`: a process that lasts.

From the settings to a server that listens, and from the first signal to a clean end: streams are
told to reconnect, requests are finished, steps get their grace.
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

from holdfast.cli.cluster import Link, answering, asking, attach, linked
from holdfast.cli.codes import ExitCode
from holdfast.cli.observing import provider_keys
from holdfast.cli.settings import Settings, base_urls_of
from holdfast.cli.setup import Setup, set_up
from holdfast.config import ServeOptions, default_model
from holdfast.host import serving
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import Ports
from holdfast.store.timed import Timed
from holdfast.store.url import open_database

if TYPE_CHECKING:
    from aiohttp import web

    from holdfast.chat.host import Host
    from holdfast.server.app import Limits
    from holdfast.store.database import Database

LOG: Final = logging.getLogger("holdfast.serve")
FINISH: Final = 5.0
"""Seconds that requests have to finish once the process was told to stop."""


def main(options: ServeOptions) -> int:
    setup = set_up(options, os.environ)
    with setup.observing.logging():
        asyncio.run(_until_stopped(setup))
    return ExitCode.FINISHED


# --- the process ---------------------------------------------------------------------------------


async def _until_stopped(setup: Setup) -> None:
    ports, say, observer = Ports(), setup.observing.say, setup.observing.observer
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(open_database(setup.database, now=ports.now))
        stop = _stop_signal()  # before, there is nothing to finish: a signal ends the process
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
        say("  Ctrl-C stops it; nothing that was accepted is lost")
        if setup.options.api and _seen_here(setup):
            from holdfast.cli.browser import open_browser

            await asyncio.to_thread(open_browser, url, Path(setup.options.data))
        await stop.wait()
        say(f"stopping: {'streams reconnect, ' if setup.options.api else ''}steps finish")


def _seen_here(setup: Setup) -> bool:
    """Whether the page is to be opened: for the one person whose own server this is."""
    from holdfast.cli.browser import has_screen

    wanted = setup.options.open and not setup.settings.server.team
    return wanted and sys.stdout.isatty() and has_screen(os.environ)


def _stop_signal() -> asyncio.Event:
    """Set by the first signal. A second one ends the process as it would without us."""
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
    """How other replicas reach this one."""
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
    why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
    do = "say --listen" if setup.options.api else "set HOLDFAST_LISTEN"
    return ConfigError(f"{name}:{port} {why}: {do} with another port, or 0 for a free one")


@asynccontextmanager
async def _listening(
    setup: Setup, db: Database, host: Host, ports: Ports, link: Link | None
) -> AsyncIterator[tuple[str, int]]:
    """The API, until the end of the block; the URL to open, and the port."""
    from aiohttp import web

    from holdfast.server.identity.patience import patient_runner

    app = _application(setup, db, host, ports, link)
    runner = patient_runner(app, access_log=None, handle_signals=False, shutdown_timeout=FINISH)
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
        yield await _url(setup, db, taken), taken
    finally:
        await runner.cleanup()


def limits_of(settings: Settings) -> Limits:
    from holdfast.server.app import Limits
    from holdfast.server.fanout import StreamOptions

    given = settings.limits
    streams = StreamOptions(tick=settings.server.tick, per_user=given.streams)
    return Limits(streams=streams, quota=given.files * 1024 * 1024, audit=given.audit)


def _application(
    setup: Setup, db: Database, host: Host, ports: Ports, link: Link | None
) -> web.Application:
    """The API, with all that stands in front of it."""
    from holdfast.server.app import Server, application
    from holdfast.server.identity.access import Access
    from holdfast.server.identity.door import protect
    from holdfast.server.identity.people import People
    from holdfast.server.page import serve_page

    team, front = setup.settings.server.team, setup.front
    access = Access(
        local=not team,
        secure=front is not None and front.secure,
        port=None if team else setup.listen[1] or None,
        keyring=setup.keyring,
        proxies=setup.settings.server.proxies,
    )
    limits = limits_of(setup.settings)
    meters = setup.observing.meters
    base_urls = base_urls_of(setup.settings)
    server = Server(host, db, People(db, access), ports, limits, access, meters, base_urls)
    app = serve_page(attach(application(server), link, host, meters))
    return protect(app, server, front, None if link is None else link.front)


@asynccontextmanager
async def _reachable(
    setup: Setup, db: Database, host: Host, link: Link | None
) -> AsyncIterator[None]:
    """What there is to reach of a worker, until the end of the block."""
    say, meters = setup.observing.say, setup.observing.meters
    say("this worker drives chats")
    async with AsyncExitStack() as stack:
        if link is not None:
            port = await stack.enter_async_context(answering(link, host, meters))
            say(f"  other replicas reach it at port {port}")
        if setup.metrics is not None:
            port = await stack.enter_async_context(_metered(setup, db, host))
            say(f"  its numbers are at port {port}, /metrics")
        yield


@asynccontextmanager
async def _metered(setup: Setup, db: Database, host: Host) -> AsyncIterator[int]:
    """The numbers of a worker, until the end of the block; their port."""
    from holdfast.server.scrape import scraped_at

    assert setup.metrics is not None
    name, port = setup.metrics
    async with AsyncExitStack() as stack:
        try:
            told = scraped_at(name, port, setup.observing.meters, db, host)
            port = await stack.enter_async_context(told)
        except OSError as error:
            raise ConfigError(
                f"{name}:{port} cannot be used ({error.strerror}): say --metrics with another port"
            ) from None
        yield port


async def _url(setup: Setup, db: Database, port: int) -> str:
    """Where to go, with what lets a person in: one who has the machine's own token, or a user."""
    from holdfast.server.identity.local import let_in, token_of, url_to_open

    name = setup.listen[0]
    if setup.settings.server.team:
        return setup.settings.server.urls[0]
    token = token_of(Path(setup.options.data, "token"))
    await db.write(lambda tx: let_in(tx, token))
    return url_to_open(port, token, name)


@asynccontextmanager
async def _stored_keys(setup: Setup, db: Database) -> AsyncIterator[None]:
    """Use the keys that people have stored, and those that they will store until its end."""
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
    words = f"{first.name} answers, with {model}"
    if model.startswith("demo"):
        _, reason = default_model(os.environ, base_urls_of(setup.settings))
        words += f", which is no language model: {reason}"
    return words
