"""Numbers of this process and of its database, for Prometheus."""

from __future__ import annotations

from holdfast.observe.meters import MEDIA
from holdfast.server.operation import Call, Content, operation
from holdfast.server.scrape import scrape


@operation("GET", "/metrics", "Numbers of this process, for Prometheus", media=MEDIA)
async def metrics(call: Call) -> Content:
    """What the database says of all processes is left out while it does not answer."""
    server = call.server
    return Content(await scrape(server.meters, server.db, server.host, server.hub), MEDIA)
