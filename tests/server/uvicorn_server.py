"""Applications behind uvicorn: its protocols, in the event loop of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from uvicorn.server import ServerState

from holdfast.server.api_state import ApiState
from holdfast.server.asgi.application import AsgiApplication
from holdfast.server.operation import OPERATIONS

MOUNTED_AT: Final = "/agents"


@asynccontextmanager
async def mounted(server: ApiState) -> AsyncIterator[str]:
    """The URL of the API as it is mounted into an application of Starlette."""
    app = AsgiApplication(lambda: server, OPERATIONS.values())
    async with served(Starlette(routes=[Mount(MOUNTED_AT, app)])) as url:
        try:
            yield url + MOUNTED_AT
        finally:
            await app.close()


@asynccontextmanager
async def served(app: Any, **settings: Any) -> AsyncIterator[str]:
    """The URL that an application is served at.

    Without the server's main loop: that is a timer ten times a second, and virtual time would have
    to go through all of them.
    """
    config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False, **settings)
    config.load()
    state, loop = ServerState(), asyncio.get_running_loop()

    kind: Any = config.http_protocol_class
    protocol = partial(kind, config=config, server_state=state, app_state={})
    listening = await loop.create_server(protocol, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()
        for connection in list(state.connections):
            connection.shutdown()
        while state.tasks:
            await asyncio.wait(state.tasks)
