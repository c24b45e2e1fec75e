"""Prometheus metrics of a process, and a separate port for them where there is no API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

import anyio
from aiohttp import web

from holdfast.chat.backlog import Backlog, read_backlog
from holdfast.chat.host import Host
from holdfast.chat.transitions.claims import LiveWorkers
from holdfast.observe.metrics import METRICS_MEDIA_TYPE, Gauge, MetricRegistry
from holdfast.server.fanout import Hub
from holdfast.server.identity.slow_clients import limited_runner
from holdfast.store.database import Database, StoreError

SCRAPE_TIMEOUT: Final = 2.0
"""Seconds to wait for the database; then its metrics are left out."""


async def scrape(meters: MetricRegistry, db: Database, host: Host, hub: Hub | None = None) -> bytes:
    """All metrics as text. Those read from the database are left out while it is unavailable."""
    try:
        with anyio.fail_after(SCRAPE_TIMEOUT):
            load: Backlog | None = await db.read(read_backlog)
            living: LiveWorkers | None = await host.workers()
    except (StoreError, TimeoutError):
        load = living = None
    gauges = [*_of_streams(hub), *_of_database(load, living)]
    return (meters.text() + "".join(gauge.text() for gauge in gauges)).encode()


def _of_streams(hub: Hub | None) -> Iterator[Gauge]:
    if hub is not None:
        yield _gauge("holdfast_stream_readers", "Readers of streams on this server.", len(hub))
        waiting = "Bytes written to stream readers and not yet sent."
        yield _gauge("holdfast_stream_buffered_bytes", waiting, hub.buffered)


def _of_database(load: Backlog | None, living: LiveWorkers | None) -> Iterator[Gauge]:
    yield _gauge(
        "holdfast_database_up", "Whether the database responds (1 or 0).", load is not None
    )
    if load is None or living is None:
        return
    yield _gauge("holdfast_live_workers", "Live workers of all processes.", len(living.ids))
    yield _gauge("holdfast_waiting_chats", "Chats waiting for a worker.", load.waiting)
    longest = "Age in seconds of the oldest chat waiting for a worker."
    yield _gauge("holdfast_longest_wait_seconds", longest, load.longest)
    yield _gauge("holdfast_driven_chats", "Chats that a worker is driving.", load.driven)
    asking = "Chats waiting for an approval, an answer or a client tool."
    yield _gauge("holdfast_asking_chats", asking, load.asking)
    yield _gauge("holdfast_queued_messages", "Messages waiting in queues of chats.", load.queued)


def _gauge(name: str, meaning: str, value: float) -> Gauge:
    gauge = Gauge(name, meaning)
    gauge.value = value
    return gauge


@asynccontextmanager
async def scraped_at(
    name: str, port: int, meters: MetricRegistry, db: Database, host: Host
) -> AsyncIterator[int]:
    """Serve /metrics and /healthz, without authentication; yield the port. Raises `OSError`."""

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(
            body=await scrape(meters, db, host), headers={"Content-Type": METRICS_MEDIA_TYPE}
        )

    async def healthz(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", healthz)
    runner = limited_runner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, name, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
