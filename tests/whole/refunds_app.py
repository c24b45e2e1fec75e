"""A FastAPI application that mounts the program of `test_everywhere.py`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

import holdfast
from examples.refunds import agent, shop
from holdfast.options import RelayOptions, WorkerOptions
from holdfast.web import AsgiRequest


def identify(request: AsgiRequest) -> str | None:
    """The user, who needs no password here."""
    return request.headers.get("Authorization", "").removeprefix("Bearer ") or None


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    worker = WorkerOptions(heartbeat=0.3, lease=1.0, poll=0.5)
    async with holdfast.open(
        os.environ["DATABASE"], [agent], deps=shop, worker=worker, relay=RelayOptions()
    ) as host:
        app.state.host = host
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/agents", holdfast.asgi(lambda: app.state.host, identify=identify))
