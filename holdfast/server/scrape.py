"""The numbers of a process as Prometheus reads them, and a port for them where there is no API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

import anyio
from aiohttp import web

from holdfast.chat.claims import Living
from holdfast.chat.host import Host
from holdfast.chat.load import Load, read_load
from holdfast.observe.meters import MEDIA, Gauge, Meters
from holdfast.server.fanout import Hub
from holdfast.server.identity.patience import patient_runner
from holdfast.store.database import Database, StoreError

PATIENCE: Final = 2.0
"""Seconds that the database may take: the rest of the numbers does not wait for it."""


async def scrape(meters: Meters, db: Database, host: Host, hub: Hub | None = None) -> bytes:
    """What the database says of all processes is left out while it does not answer."""
    try:
        with anyio.fail_after(PATIENCE):
            load: Load | None = await db.read(read_load)
            living: Living | None = await host.workers()
    except (StoreError, TimeoutError):
        load = living = None
    gauges = [*_of_streams(hub), *_of_database(load, living)]
    return (meters.text() + "".join(gauge.text() for gauge in gauges)).encode()


def _of_streams(hub: Hub | None) -> Iterator[Gauge]:
    if hub is not None:
        yield _gauge("holdfast_stream_readers", "Who reads a stream here.", len(hub))
        waiting = "Written to readers, not yet sent."
        yield _gauge("holdfast_stream_buffered_bytes", waiting, hub.buffered)


def _of_database(load: Load | None, living: Living | None) -> Iterator[Gauge]:
    yield _gauge("holdfast_database_up", "Whether the database answers.", load is not None)
    if load is None or living is None:
        return
    yield _gauge("holdfast_live_workers", "Workers that live.", len(living.ids))
    yield _gauge("holdfast_waiting_chats", "Chats that want a worker and have none.", load.waiting)
    longest = "How long the first of them has waited."
    yield _gauge("holdfast_longest_wait_seconds", longest, load.longest)
    yield _gauge("holdfast_driven_chats", "Chats that some worker has.", load.driven)
    yield _gauge("holdfast_asking_chats", "Chats that wait for somebody outside.", load.asking)
    yield _gauge("holdfast_queued_messages", "Messages that wait for their turn.", load.queued)


def _gauge(name: str, meaning: str, value: float) -> Gauge:
    gauge = Gauge(name, meaning)
    gauge.value = value
    return gauge


@asynccontextmanager
async def scraped_at(
    name: str, port: int, meters: Meters, db: Database, host: Host
) -> AsyncIterator[int]:
    """/metrics and /healthz and nothing else, for whoever asks; the port. Raises `OSError`."""

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(body=await scrape(meters, db, host), headers={"Content-Type": MEDIA})

    async def healthz(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", healthz)
    runner = patient_runner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, name, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
