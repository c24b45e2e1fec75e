"""Implements `holdfast serve` and `holdfast worker`, the long-running processes.

`main` turns the settings into a listening server. The first signal starts a clean shutdown: readers
of streams are told to reconnect, requests finish, steps get a grace period.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.cli.allocator import return_large_blocks
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.local_host import opened, who_answers
from holdfast.cli.replica_link import linked
from holdfast.cli.serve_config import ServeConfig, resolve_config
from holdfast.cli.settings import HoldfastSettings, base_urls_of
from holdfast.cli.trust_prompt import ensure_trusted_settings
from holdfast.config import ServeOptions
from holdfast.host import serving
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import Ports

if TYPE_CHECKING:
    from aiohttp import web

    from holdfast.chat.host import Host
    from holdfast.server.api_state import ServerLimits
    from holdfast.server.relay.cluster_link import RelayLink
    from holdfast.store.database import Database

LOG: Final = logging.getLogger("holdfast.serve")
REQUEST_GRACE: Final = 5.0
"""Seconds that requests have to finish after a signal to stop."""


def main(options: ServeOptions) -> int:
    if options.reload:
        from holdfast.cli import reload

        return reload.main(options)
    ensure_trusted_settings(options.settings, options.data)
    config = resolve_config(options, os.environ)
    return_large_blocks()
    with config.telemetry.logging():
        asyncio.run(run_until_stopped(config))
    return ExitCode.FINISHED


# --- the process ---------------------------------------------------------------------------------


async def run_until_stopped(
    config: ServeConfig, on_start: Callable[[str], object] | None = None
) -> None:
    """Serve until a signal, or until cancelled. `on_start` is called with the URL."""
    ports, announce, observer = Ports(), config.telemetry.announce, config.telemetry.observer
    async with AsyncExitStack() as stack:
        db = await stack.enter_async_context(opened(config, ports))
        # Before this, a signal ends the process: there is nothing to finish.
        stop = stack.enter_context(_stop_signal())
        link = None if db.exclusive else await stack.enter_async_context(_linked(config))
        host = await stack.enter_async_context(
            serving(
                db,
                config.registry.agents,
                ports=ports,
                worker=config.settings.worker if config.options.worker else None,
                titles=config.registry.titles,
                budgets=config.settings.budgets,
                observer=observer,
                url=None if link is None else link.url,
                deps=config.deps,
            )
        )
        url, port = "", 0
        if config.options.api:
            from holdfast.server.relay.cluster_link import subscribed

            secret = None if link is None else link.secret
            await stack.enter_async_context(subscribed(secret, host, config.telemetry.meters))
            listening = _listening(config, db, host, ports, link)
            url, port = await stack.enter_async_context(listening)
        else:
            await stack.enter_async_context(_reachable(config, db, host, link))
        _announce_start(config, url, port)
        if config.options.api and _seen_here(config):
            from holdfast.cli.browser import open_browser

            await asyncio.to_thread(open_browser, url, Path(config.options.data))
        if on_start is not None:
            on_start(url)
        await stop.wait()
        announce(f"stopping: {'closing streams, ' if config.options.api else ''}finishing steps")


def _announce_start(config: ServeConfig, url: str, port: int) -> None:
    announce, answers = config.telemetry.announce, who_answers(config)
    if config.options.restarted:
        announce(f"restarted: {answers}")
        return
    if config.options.api:
        announce(f"Holdfast is at {url}")
        if config.settings.server.team:
            announce(f"  listening at {config.listen[0]}:{port}")
    announce(f"  {answers}")
    announce("  Press Ctrl-C to stop; accepted messages are never lost")


def _seen_here(config: ServeConfig) -> bool:
    """Whether to open the page: only for a single user's own server."""
    from holdfast.cli.browser import has_screen

    wanted = config.options.open and not config.settings.server.team
    return wanted and sys.stdout.isatty() and has_screen(os.environ)


@contextmanager
def _stop_signal() -> Iterator[asyncio.Event]:
    """An event set by the first signal. A second one ends the process by default.

    Only the main thread of a program receives signals: elsewhere a server ends when cancelled.
    """
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ignore_signals() -> None:
        for each in signals:
            loop.remove_signal_handler(each)

    def on_signal() -> None:
        stop.set()
        ignore_signals()

    for each in signals:
        loop.add_signal_handler(each, on_signal)
    try:
        yield stop
    finally:
        ignore_signals()


@asynccontextmanager
async def _linked(config: ServeConfig) -> AsyncIterator[RelayLink | None]:
    """The link through which other replicas reach this one."""
    async with AsyncExitStack() as stack:
        try:
            link = await stack.enter_async_context(
                linked(config.secret, config.settings.server, config.listen)
            )
        except OSError as error:
            raise _cannot_listen(config, error) from None
        yield link


def _cannot_listen(config: ServeConfig, error: OSError) -> ConfigError:
    name, port = config.listen
    why = (
        "is already in use"
        if error.errno == errno.EADDRINUSE
        else f"cannot be used ({error.strerror})"
    )
    do = "use --listen" if config.options.api else "set HOLDFAST_LISTEN"
    return ConfigError(f"{name}:{port} {why}: {do} with another port, or 0 for a free one")


@asynccontextmanager
async def _listening(
    config: ServeConfig, db: Database, host: Host, ports: Ports, link: RelayLink | None
) -> AsyncIterator[tuple[str, int]]:
    """Serve the API during the block; yields the URL to open, and the port."""
    from aiohttp import web

    from holdfast.server.identity.slow_clients import limited_runner

    app = _application(config, db, host, ports, link)
    runner = limited_runner(
        app,
        secure=config.front is not None and config.front.secure,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=REQUEST_GRACE,
    )
    await runner.setup()
    try:
        try:
            if link is None:
                await web.TCPSite(runner, *config.listen).start()
            else:
                await web.SockSite(runner, link.listening).start()
        except OSError as error:
            raise _cannot_listen(config, error) from None
        taken: int = runner.addresses[0][1]
        async with _own_socket(config, runner, taken):
            yield await _url(config, db, taken), taken
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _own_socket(config: ServeConfig, runner: web.AppRunner, port: int) -> AsyncIterator[None]:
    """Serve the API on a Unix socket too, for the local command line, which trusts no port."""
    from aiohttp import web

    from holdfast.server.identity.local_socket import bound_socket

    async with AsyncExitStack() as stack:
        if not config.settings.server.team:
            try:
                bound = stack.enter_context(bound_socket(Path(config.options.data), port))
                site = web.SockSite(runner, bound)
                await site.start()
                stack.push_async_callback(site.stop)
            except OSError as error:
                LOG.warning(
                    "no Unix socket in %s (%s): the command line needs --url and --token "
                    "to reach this server",
                    config.options.data,
                    error,
                )
        yield


def limits_of(settings: HoldfastSettings) -> ServerLimits:
    from holdfast.server.api_state import ServerLimits
    from holdfast.server.fanout import StreamOptions

    limits = settings.limits
    streams = StreamOptions(tick=settings.server.tick, per_user=limits.streams)
    return ServerLimits(streams=streams, quota=limits.files * 1024 * 1024, audit=limits.audit)


def _application(
    config: ServeConfig, db: Database, host: Host, ports: Ports, link: RelayLink | None
) -> web.Application:
    """The API with its middleware."""
    from holdfast.server.api_state import ApiState
    from holdfast.server.app import application
    from holdfast.server.identity.auth_config import AuthConfig
    from holdfast.server.identity.authenticator import Authenticator
    from holdfast.server.identity.request_protection import protect
    from holdfast.server.relay.cluster_link import attach
    from holdfast.server.static_files import serve_page

    team, front = config.settings.server.team, config.front
    access = AuthConfig(
        local=not team,
        secure=front is not None and front.secure,
        port=None if team else config.listen[1] or None,
        keyring=config.keyring,
        proxies=config.settings.server.proxies,
    )
    limits = limits_of(config.settings)
    meters = config.telemetry.meters
    base_urls = base_urls_of(config.settings)
    server = ApiState(host, db, Authenticator(db, access), ports, limits, access, meters, base_urls)
    app = serve_page(attach(application(server), link, host, meters))
    return protect(app, server, front, None if link is None else link.front)


@asynccontextmanager
async def _reachable(
    config: ServeConfig, db: Database, host: Host, link: RelayLink | None
) -> AsyncIterator[None]:
    """Serve a worker's endpoints during the block."""
    from holdfast.server.relay.cluster_link import published

    announce, meters = config.telemetry.announce, config.telemetry.meters
    announce("worker started")
    async with AsyncExitStack() as stack:
        if link is not None:
            port = await stack.enter_async_context(published(link, host, meters))
            announce(f"  other replicas reach it on port {port}")
        if config.metrics is not None:
            port = await stack.enter_async_context(_metered(config, db, host))
            announce(f"  metrics are on port {port}, /metrics")
        yield


@asynccontextmanager
async def _metered(config: ServeConfig, db: Database, host: Host) -> AsyncIterator[int]:
    """Serve a worker's metrics during the block; yields the port."""
    from holdfast.server.prometheus import scraped_at

    assert config.metrics is not None
    name, port = config.metrics
    async with AsyncExitStack() as stack:
        try:
            scraping = scraped_at(name, port, config.telemetry.meters, db, host)
            port = await stack.enter_async_context(scraping)
        except OSError as error:
            raise ConfigError(
                f"{name}:{port} cannot be used ({error.strerror}): use --metrics with another port"
            ) from None
        yield port


async def _url(config: ServeConfig, db: Database, port: int) -> str:
    """The URL to open, including the credentials of the local user if there is one."""
    from holdfast.server.identity.local_token import let_in, token_of, url_to_open

    name = config.listen[0]
    if config.settings.server.team:
        return config.settings.server.urls[0]
    token = token_of(Path(config.options.data, "token"))
    await db.write(lambda tx: let_in(tx, token))
    return url_to_open(port, token, name)
