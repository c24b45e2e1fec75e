"""The API over real HTTP on loopback, in one process with its worker: what tests of it start from.

async with serving_api(db, [agent]) as api:
    status, chat, _ = await api.post("/chats", {"prompt": "hi"})
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, NamedTuple

import aiohttp
import anyio
from aiohttp import web
from msgspec import structs

import holdfast.server.routes  # noqa: F401 - so that there are operations
from holdfast.agent import Agent
from holdfast.chat.budgets import NO_BUDGETS, Budgets
from holdfast.chat.errors import ChatNotFound
from holdfast.chat.host import Host
from holdfast.chat.rows import read_chat
from holdfast.host import serving
from holdfast.kernel.ports import Ports
from holdfast.server.access_policy import ALL_SCOPES, ApiCaller, ChatAccess, ChatRelation, Role
from holdfast.server.api_state import ApiState, Identity, ServerLimits
from holdfast.server.app import application
from holdfast.server.http_request import HttpRequest
from holdfast.server.problem import Unauthenticated
from holdfast.server.wire_format import API_PREFIX, from_json, to_json
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, ports
from holdfast.worker.options import WorkerOptions

USER: Final = "X-Test-User"
"""The header that says who asks: `ann`, or `ann:viewer` for a role of theirs."""

MOUNTED = False
"""Whether the API is mounted into another application. Set by the fixture `each_server`."""


class Named:
    """An identity that believes what it is told."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def caller(self, request: HttpRequest) -> ApiCaller | None:
        name = request.headers.get(USER)
        if name is None:
            return None
        user, _, role = name.partition(":")
        known: Mapping[str, Role] = {"": "member", "admin": "admin", "viewer": "viewer"}
        if role not in known:
            raise Unauthenticated(f"nobody has the role {role!r}")
        return ApiCaller(user, known[role], ALL_SCOPES, token="test")

    async def access(self, caller: ApiCaller, chat_id: str) -> ChatAccess | None:
        """From the owner. A chat with the label `shared` = the user's name is shared with them."""
        try:
            row = await self._db.read(lambda tx: read_chat(tx, chat_id))
        except ChatNotFound:
            return None
        shared = row.labels.get("shared") == caller.user
        return ChatAccess(row, ChatRelation(owns=row.owner == caller.user, shared=shared))


class Answer(NamedTuple):
    status: int
    body: Any
    """JSON as Python has it; bytes where it is none; None for nothing."""
    headers: Mapping[str, str]


class Api:
    """A client that takes paths below /api/v1."""

    def __init__(
        self, url: str, session: aiohttp.ClientSession, server: ApiState, user: str = "ann"
    ) -> None:
        self.url = url
        """Without the prefix."""
        self.server = server
        self.user = user
        self.session = session

    @property
    def host(self) -> Host:
        return self.server.host

    def of(self, user: str) -> Api:
        """The same server, asked by somebody else."""
        return Api(self.url, self.session, self.server, user)

    async def get(self, path: str, **query: Any) -> Answer:
        return await self.ask("GET", path, query=query)

    async def post(self, path: str, body: Any = None, *, key: str | None = None) -> Answer:
        return await self.ask("POST", path, body, key=key)

    async def put(self, path: str, body: Any = None, *, key: str | None = None) -> Answer:
        return await self.ask("PUT", path, body, key=key)

    async def patch(self, path: str, body: Any = None, *, key: str | None = None) -> Answer:
        return await self.ask("PATCH", path, body, key=key)

    async def delete(self, path: str, *, key: str | None = None) -> Answer:
        return await self.ask("DELETE", path, key=key)

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] = {},
        key: str | None = None,
        headers: Mapping[str, str] = {},
        prefix: str = API_PREFIX,
    ) -> Answer:
        """`body`: bytes go as they are, anything else but None as JSON."""
        sent = {USER: self.user} if self.user else {}
        if key is not None:
            sent["Idempotency-Key"] = key
        if body is not None and not isinstance(body, bytes):
            sent["Content-Type"], body = "application/json", to_json(body)
        asked = {name: _text(value) for name, value in query.items() if value is not None}
        async with self.session.request(
            method, self.url + prefix + path, data=body, params=asked, headers={**sent, **headers}
        ) as response:
            data = await response.read()
            return Answer(response.status, _parsed(response, data), response.headers)

    async def rest(self, chat_id: str) -> Mapping[str, Any]:
        """The chat, once it rests."""
        await (await self.host.chat(chat_id)).rest()
        return (await self.get(f"/chats/{chat_id}")).body  # type: ignore[no-any-return]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parsed(response: aiohttp.ClientResponse, data: bytes) -> Any:
    if not data:
        return None
    if response.content_type in ("application/json", "application/problem+json"):
        return from_json(data, Any)
    return data


@asynccontextmanager
async def serving_api(
    db: Database,
    agents: Iterable[Agent],
    *,
    clock: Clock | None = None,
    user: str = "ann",
    worker: WorkerOptions | None = WorkerOptions(),  # noqa: B008 - frozen
    limits: ServerLimits = ServerLimits(),  # noqa: B008 - frozen
    identity: Identity | None = None,
    world: Ports | None = None,
    base_urls: Mapping[str, str] = {},
    titles: bool = False,
    budgets: Budgets = NO_BUDGETS,
) -> AsyncIterator[Api]:
    """A worker, the API over it, and a client to it, for as long as the block lasts."""
    world = world or _world(clock)
    async with serving(
        db, agents, ports=world, worker=worker, titles=titles, budgets=budgets
    ) as host:
        server = ApiState(host, db, identity or Named(db), world, limits, base_urls=base_urls)
        async with _reachable(server) as url, session() as client:
            yield Api(url, client, server, user)


def _reachable(server: ApiState) -> AbstractAsyncContextManager[str]:
    if not MOUNTED:
        return listening(application(server))
    from tests.server.uvicorn_server import mounted

    return mounted(server)


def _world(clock: Clock | None) -> Ports:
    """Ids that sort as they are made, as real ones do."""
    numbers = itertools.count(1)
    made = ports() if clock is None else ports(clock=clock)
    return structs.replace(made, new_id=lambda: f"id-{next(numbers):06}")


@asynccontextmanager
async def listening(app: web.Application) -> AsyncIterator[str]:
    """The URL that an application is served at."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


def session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False, trust_env=False
    )


def agent(script: Iterable[Any] = (), clock: Clock | None = None, **more: Any) -> Agent:
    """One that says what the script says."""
    world = ports() if clock is None else ports(clock=clock)
    return Agent(model=ScriptedModel(list(script)), ports=world, **more)
