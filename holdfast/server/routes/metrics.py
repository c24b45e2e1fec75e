"""Prometheus metrics of this process and of the database."""

from __future__ import annotations

from holdfast.observe.metrics import METRICS_MEDIA_TYPE
from holdfast.server.operation import ApiCall, BytesResponse, operation
from holdfast.server.prometheus import scrape


@operation("GET", "/metrics", "Prometheus metrics of this process", media=METRICS_MEDIA_TYPE)
async def metrics(call: ApiCall) -> BytesResponse:
    """Metrics read from the database are left out while it is unavailable."""
    server = call.server
    return BytesResponse(
        await scrape(server.meters, server.db, server.host, server.hub), METRICS_MEDIA_TYPE
    )
