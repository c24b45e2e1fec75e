"""Connects a process of `holdfast serve` or `holdfast worker` to the other replicas."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.cli.settings import ServerSettings
from holdfast.kernel.errors import ConfigError

if TYPE_CHECKING:
    from aiohttp import web

    from holdfast.chat.host import Host
    from holdfast.observe.metrics import MetricRegistry
    from holdfast.server.identity.origin_check import Front
    from holdfast.server.relay.cluster_secret import ClusterSecret

LOG: Final = logging.getLogger("holdfast.serve")
SECRET_FILE: Final = "cluster.secret"


class ClusterLink(NamedTuple):
    """Secret and sockets with which a process reaches the other replicas of its cluster."""

    secret: ClusterSecret
    listening: socket.socket
    """A bound socket: its port is known before the worker announces it."""
    url: str | None
    """URL where the others reach this one; None if unknown."""
    front: Front | None
    """Host names the others use for it."""
    tick: float


def cluster_secret(
    server: ServerSettings, environ: Mapping[str, str], directory: str, data: str
) -> ClusterSecret | None:
    """The cluster secret: from the environment, the settings' file, or the data directory."""
    from holdfast.server.relay.cluster_secret import find_secret

    if server.cluster_secret_file is None:
        return find_secret(environ, Path(data, SECRET_FILE))
    file = Path(directory, server.cluster_secret_file)
    secret = find_secret(environ, file)
    if secret is None:
        raise ConfigError(
            f"server.cluster_secret_file names {file}, which does not exist: create it with "
            "`openssl rand -base64 32`, the same for all replicas"
        )
    return secret


@asynccontextmanager
async def linked(
    secret: ClusterSecret | None, server: ServerSettings, listen: tuple[str, int]
) -> AsyncIterator[ClusterLink | None]:
    """The link of this process to its cluster; None without a secret, which is logged once."""
    from holdfast.server.identity.origin_check import public_front

    if secret is None:
        LOG.warning(
            "no cluster secret: answers run by another process are shown here step by step, "
            "not word by word. Set HOLDFAST_CLUSTER_SECRET to the same value everywhere"
        )
        yield None
        return
    with closing(_bound(*listen)) as listening:
        url = server.advertise or _url_of(listen[0], listening.getsockname()[1])
        if url is None:
            LOG.warning(
                "other replicas cannot reach this one, which listens on all addresses: set "
                "server.advertise to a URL like http://10.0.0.5:8765"
            )
        front = None if url is None else public_front([url])
        yield ClusterLink(secret, listening, url, front, server.tick)


def _bound(name: str, port: int) -> socket.socket:
    # IPv4 first: `localhost` is both, and only one is advertised.
    addresses = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = min(addresses, key=lambda one: one[0] != socket.AF_INET)
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def _url_of(name: str, port: int) -> str | None:
    """The URL of an address, unless it is a wildcard."""
    try:
        if ip_address(name).is_unspecified:
            return None
    except ValueError:
        pass  # a host name
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"


def attach(
    app: web.Application, link: ClusterLink | None, host: Host, meters: MetricRegistry
) -> web.Application:
    """Add the endpoints for other replicas to an application."""
    from holdfast.server.relay.replica_publisher import PublisherOptions, RelayPublisher

    if link is not None:
        owner = RelayPublisher(host.feed, link.secret, PublisherOptions(tick=link.tick))
        owner.attach(app)
        replicas = "Replicas subscribed to chats that run here."
        meters.gauge("holdfast_relay_told_replicas", replicas, lambda: len(owner))
        chats = "Subscriptions of other replicas to chats that run here."
        meters.gauge("holdfast_relay_told_chats", chats, lambda: owner.subscriptions)
    return app


@asynccontextmanager
async def asking(
    link: ClusterLink | None, host: Host, meters: MetricRegistry
) -> AsyncIterator[None]:
    """Subscribe to other replicas for the chats that are read here."""
    from holdfast.server.relay.replica_subscriber import RelaySubscriber

    if link is None:
        yield
        return
    async with RelaySubscriber(host.feed, link.secret).running() as relay:
        replicas = "Replicas this one subscribes to for chats that are read here."
        meters.gauge("holdfast_relay_asked_replicas", replicas, lambda: len(relay))
        failing = "Replicas this one subscribes to that do not respond."
        meters.gauge("holdfast_relay_failing_replicas", failing, lambda: relay.failing)
        chats = "Chats that are read here and run on another replica."
        meters.gauge("holdfast_relay_asked_chats", chats, lambda: relay.chats)
        yield


@asynccontextmanager
async def answering(link: ClusterLink, host: Host, meters: MetricRegistry) -> AsyncIterator[int]:
    """Serve other replicas only; yields the port."""
    from aiohttp import web

    from holdfast.server.app import problems
    from holdfast.server.identity.origin_check import origin_checker
    from holdfast.server.identity.slow_clients import limited_runner

    app = web.Application(middlewares=[problems, origin_checker(link.front, link.front)])
    runner = limited_runner(
        attach(app, link, host, meters), access_log=None, handle_signals=False, shutdown_timeout=1.0
    )
    await runner.setup()
    try:
        await web.SockSite(runner, link.listening).start()
        yield link.listening.getsockname()[1]
    finally:
        await runner.cleanup()
