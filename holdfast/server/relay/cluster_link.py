"""Connects a process to the others of its cluster: what it listens on, serves and subscribes to."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from holdfast.chat.host import Host
from holdfast.observe.metrics import MetricRegistry
from holdfast.server.listening import url_of
from holdfast.server.relay.cluster_secret import ClusterSecret

if TYPE_CHECKING:
    from aiohttp import web

    from holdfast.server.identity.origin_check import Front


class RelayLink(NamedTuple):
    """Secret and sockets with which a process reaches the other replicas of its cluster."""

    secret: ClusterSecret
    listening: socket.socket
    """A bound socket: its port is known before the worker announces it."""
    url: str | None
    """URL where the others reach this one; None if unknown."""
    front: Front | None
    """Host names the others use for it."""
    tick: float


def link_at(
    listening: socket.socket,
    name: str,
    secret: ClusterSecret,
    *,
    advertise: str | None,
    tick: float,
) -> RelayLink:
    """The link of a process with a socket that is bound to an address of this name."""
    from holdfast.server.identity.origin_check import public_front

    url = advertise or url_of(name, listening.getsockname()[1])
    front = None if url is None else public_front([url])
    return RelayLink(secret, listening, url, front, tick)


def attach(
    app: web.Application, link: RelayLink | None, host: Host, meters: MetricRegistry
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
async def subscribed(
    secret: ClusterSecret | None, host: Host, meters: MetricRegistry
) -> AsyncIterator[None]:
    """Subscribe to other replicas for the chats that are read here."""
    from holdfast.server.relay.replica_subscriber import RelaySubscriber

    if secret is None:
        yield
        return
    async with RelaySubscriber(host.feed, secret).running() as relay:
        replicas = "Replicas this one subscribes to for chats that are read here."
        meters.gauge("holdfast_relay_asked_replicas", replicas, lambda: len(relay))
        failing = "Replicas this one subscribes to that do not respond."
        meters.gauge("holdfast_relay_failing_replicas", failing, lambda: relay.failing)
        chats = "Chats that are read here and run on another replica."
        meters.gauge("holdfast_relay_asked_chats", chats, lambda: relay.chats)
        yield


@asynccontextmanager
async def published(link: RelayLink, host: Host, meters: MetricRegistry) -> AsyncIterator[int]:
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
