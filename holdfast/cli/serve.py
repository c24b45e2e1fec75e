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
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.agent import Agent
from holdfast.cli.agents import Place, agents_of
from holdfast.cli.cluster import Link, answering, asking, attach, cluster_secret, linked
from holdfast.cli.codes import ExitCode
from holdfast.cli.observing import Observing, Where, observing, provider_keys
from holdfast.cli.place import make_data_directory, own_database
from holdfast.cli.settings import ServerSettings, Settings, read_settings
from holdfast.config import ServeOptions, default_model
from holdfast.host import serving
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import Ports, wall_clock
from holdfast.store.timed import Timed
from holdfast.store.url import open_database

if TYPE_CHECKING:
    from aiohttp import web

    from holdfast.chat.host import Host
    from holdfast.server.identity.secrets import Keyring
    from holdfast.server.relay.secret import Secret
    from holdfast.store.database import Database

LOG: Final = logging.getLogger("holdfast.serve")
FINISH: Final = 5.0
"""Seconds that requests have to finish once the process was told to stop."""


class Setup(NamedTuple):
    """What the process is going to be."""

    options: ServeOptions
    settings: Settings
    database: str
    agents: dict[str, Agent]
    """By name. Others take their places when a key is stored that they can be asked with."""
    renew: Callable[[], None]
    """Have them be as settings and environment say now."""
    listen: tuple[str, int]
    observing: Observing
    keyring: Keyring | None
    secret: Secret | None
    """What the replicas of a cluster share."""


def main(options: ServeOptions) -> int:
    setup = set_up(options, os.environ)
    with setup.observing.logging():
        asyncio.run(_until_stopped(setup))
    return ExitCode.FINISHED


def set_up(options: ServeOptions, environ: Mapping[str, str]) -> Setup:
    """Everything that can be wrong before a database is opened or a port is taken."""
    settings, directory = read_settings(options.settings)
    make_data_directory(options.data)
    place = Place(directory, options.data)
    agents = {agent.name: agent for agent in agents_of(settings, place, environ)}

    def renew() -> None:
        try:
            agents.update((agent.name, agent) for agent in agents_of(settings, place, environ))
        except ConfigError as error:
            LOG.error("the agents stay as they were: %s", error)

    database = options.database or settings.database or own_database(options.data)
    listen = address(options.listen or settings.server.listen)
    if not options.api and options.listen is None:
        listen = (listen[0], 0)  # that port is the server's
    if options.metrics is not None:
        address(options.metrics)
    if options.api:
        _check_server(settings.server, listen[0])
    watched = observing(settings, options, Where(directory, database, wall_clock), environ)
    keys = _keyring(settings, options, environ)
    secret = cluster_secret(settings.server, environ, directory, options.data)
    return Setup(options, settings, database, agents, renew, listen, watched, keys, secret)


def _check_server(server: ServerSettings, host: str) -> None:
    """What would be found out only when somebody asks."""
    from holdfast.server.identity.address import networks
    from holdfast.server.identity.guard import public_front
    from holdfast.server.identity.local import refuse_network

    networks(server.proxies)
    if server.team:
        public_front(server.urls)
    elif server.urls:
        raise ConfigError(
            "server.urls are those of a server for a team: say team = true, or leave them out"
        )
    else:
        refuse_network(host)


def _keyring(
    settings: Settings, options: ServeOptions, environ: Mapping[str, str]
) -> Keyring | None:
    """What secrets are sealed with. One person's own server makes a key for itself."""
    from holdfast.server.identity.secrets import VARIABLE, find_keyring, make_key_file

    file = Path(options.data, "secret.key")
    if settings.server.team or VARIABLE in environ:
        return find_keyring(environ, file)
    return make_key_file(file)


def address(text: str) -> tuple[str, int]:
    """`127.0.0.1:8765`, `[::1]:8765`, or a port alone."""
    host, colon, port = text.rpartition(":")
    if not colon:
        host = "127.0.0.1"
    if not port.isdecimal() or int(port) > 65_535 or not host.strip("[]"):
        raise ConfigError(f"{text!r} is no address to listen at: write 127.0.0.1:8765, or 8765")
    return host.strip("[]"), int(port)


# --- the process ---------------------------------------------------------------------------------


async def _until_stopped(setup: Setup) -> None:
    stop = _stop_signal()
    ports, say, observer = Ports(), setup.observing.say, setup.observing.observer
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(open_database(setup.database, now=ports.now))
        db = Timed(opened, setup.observing.meters)
        await stack.enter_async_context(_stored_keys(setup, db))
        link = None if db.exclusive else await stack.enter_async_context(_linked(setup))
        host = await stack.enter_async_context(
            serving(
                db,
                setup.agents,
                ports=ports,
                worker=setup.settings.worker,
                observer=observer,
                url=None if link is None else link.url,
            )
        )
        if setup.options.api:
            await stack.enter_async_context(asking(link, host))
            listening = _listening(setup, db, host, ports, link)
            url, port = await stack.enter_async_context(listening)
            say(f"Holdfast is at {url}")
            if setup.settings.server.team:
                say(f"  listening at {setup.listen[0]}:{port}")
        else:
            say("this worker drives chats")
            if link is not None:
                port = await stack.enter_async_context(answering(link, host))
                say(f"  other replicas reach it at port {port}")
            if setup.options.metrics is not None:
                port = await stack.enter_async_context(_metered(setup, db, host))
                say(f"  its numbers are at port {port}, /metrics")
        say(f"  {_who_answers(setup.agents)}")
        say("  Ctrl-C stops it; nothing that was accepted is lost")
        await stop.wait()
        say("stopping: streams reconnect, steps finish")


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
    return ConfigError(f"{name}:{port} {why}: say --listen with another port, or 0 for a free one")


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


def _application(
    setup: Setup, db: Database, host: Host, ports: Ports, link: Link | None
) -> web.Application:
    """The API, with all that stands in front of it."""
    from holdfast.server.app import Limits, Server, application
    from holdfast.server.fanout import StreamOptions
    from holdfast.server.identity.access import Access
    from holdfast.server.identity.door import protect
    from holdfast.server.identity.guard import public_front
    from holdfast.server.identity.people import People

    team, urls = setup.settings.server.team, setup.settings.server.urls
    front = public_front(urls) if team else None
    access = Access(
        local=not team,
        secure=front is not None and front.secure,
        port=None if team else setup.listen[1] or None,
        keyring=setup.keyring,
        proxies=setup.settings.server.proxies,
    )
    limits = Limits(streams=StreamOptions(tick=setup.settings.server.tick))
    meters = setup.observing.meters
    server = Server(host, db, People(db, access), ports, limits, access, meters)
    app = attach(application(server), link, host)
    return protect(app, server, front, None if link is None else link.front)


@asynccontextmanager
async def _metered(setup: Setup, db: Database, host: Host) -> AsyncIterator[int]:
    """The numbers of a worker, until the end of the block; their port."""
    from holdfast.server.scrape import scraped_at

    assert setup.options.metrics is not None
    name, port = address(setup.options.metrics)
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
        setup.renew()

    keys = StoredKeys(db, setup.keyring, os.environ, changed)
    await keys.look()
    following = asyncio.create_task(keys.follow())
    try:
        yield
    finally:
        following.cancel()


def _who_answers(agents: Mapping[str, Agent]) -> str:
    first = next(iter(agents.values()))
    model = getattr(first.model, "name", "")
    words = f"{first.name} answers, with {model}"
    if model.startswith("demo"):
        words += f", which is no language model: {default_model(os.environ)[1]}"
    return words
