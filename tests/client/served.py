"""A real server on loopback and a client of it: what tests of the client start from.

async with connected(db, [agent], clock) as (api, host):
    chat = await host.create("hi")
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
from aiohttp import web
from anyio.abc import SocketAttribute, SocketStream

from holdfast.agent import Agent
from holdfast.client.connect import connect
from holdfast.client.remote_host import RemoteHost
from holdfast.kernel.ports import Ports
from holdfast.server.access_policy import ALL_SCOPES, ApiCaller
from holdfast.server.http_request import HttpRequest
from holdfast.server.problem import Unauthenticated
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.server.api import Api, Named, serving_api

ANN: Final = "hf_ann"
STEADY: Final = Ports(random=lambda: 1.0)
"""Waits as long as it ever would."""


class Bearer(Named):
    """An identity that takes `hf_` and a name for a token."""

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self.revoked: set[str] = set()

    async def caller(self, request: HttpRequest) -> ApiCaller | None:
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not shown.startswith("hf_") or shown in self.revoked:
            raise Unauthenticated("this token is no good: ask for another")
        role: Any = "viewer" if shown.endswith("viewer") else "member"
        return ApiCaller(shown.removeprefix("hf_"), role, ALL_SCOPES, token="test")

    async def still(self, caller: ApiCaller, chat_id: str | None = None) -> bool:
        return f"hf_{caller.user}" not in self.revoked


@asynccontextmanager
async def connected(
    db: Database,
    agents: Iterable[Agent],
    clock: Clock,
    *,
    token: str = ANN,
    ports: Ports | None = None,
    **more: Any,
) -> AsyncIterator[tuple[Api, RemoteHost]]:
    more.setdefault("identity", Bearer(db))
    async with serving_api(db, agents, clock=clock, **more) as api:
        async with connect(api.url, token, ports=ports) as host:
            yield api, host


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Proxy:
    """Stands between a client and a server, and cuts what it is told to."""

    def __init__(self, target: str) -> None:
        host, _, port = target.removeprefix("http://").partition(":")
        self.target = (host, int(port))
        self.url = ""
        self.connections = 0
        self.requests: list[bytes] = []
        """The head and what arrived with it, of each that was asked."""
        self.cut_after: Callable[[bytes], int | None] = lambda asked: None
        """How many bytes of the answer get through, by what is asked."""
        self._open: list[SocketStream] = []

    async def cut(self) -> None:
        """Everything that is open."""
        for client in self._open:
            await client.aclose()

    async def serve(self, client: SocketStream) -> None:
        self.connections += 1
        answer = Answer()
        self._open.append(client)
        try:
            async with client, await anyio.connect_tcp(*self.target) as server:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._up, client, server, answer)
                    await self._down(server, client, answer)
                    group.cancel_scope.cancel()
        except* (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            self._open.remove(client)

    async def _up(self, client: SocketStream, server: SocketStream, answer: Answer) -> None:
        try:
            async for data in client:
                self.requests.append(data)
                answer.left = self.cut_after(data)
                await server.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass

    async def _down(self, server: SocketStream, client: SocketStream, answer: Answer) -> None:
        async for data in server:
            if answer.left is None:
                await client.send(data)
                continue
            if answer.left:
                await client.send(data[: answer.left])
            answer.left -= len(data)
            if answer.left <= 0:
                return


@dataclass
class Answer:
    """What is being given on a connection."""

    left: int | None = None
    """Bytes of it that get through; None: all."""


@asynccontextmanager
async def proxied(target: str) -> AsyncIterator[Proxy]:
    proxy = Proxy(target)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(SocketAttribute.local_port)
        proxy.url = f"http://127.0.0.1:{port}"
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, proxy.serve)
            yield proxy
            group.cancel_scope.cancel()


@asynccontextmanager
async def answering(
    answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
) -> AsyncIterator[str]:
    """The URL of somebody who answers everything like this."""
    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()
