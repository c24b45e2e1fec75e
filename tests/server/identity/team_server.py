"""A server with real people: users, tokens, chats, and a client that shows what it has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import aiohttp
from aiohttp import web

from holdfast.host import serving
from holdfast.server.access_policy import ALL_SCOPES, Role, Scope
from holdfast.server.api_state import ApiState
from holdfast.server.app import application
from holdfast.server.identity.api_tokens import NewToken, issue
from holdfast.server.identity.auth_config import AuthConfig
from holdfast.server.identity.authenticator import SESSION_KEY_HEADER, Authenticator
from holdfast.server.identity.credential_format import new_secret
from holdfast.server.identity.encrypted_secrets import keyring
from holdfast.server.identity.origin_check import Front
from holdfast.server.identity.request_protection import protect
from holdfast.server.identity.shares import NewShare, share
from holdfast.server.identity.users import create_user
from holdfast.server.operation import Operation
from holdfast.server.routes import (  # noqa: F401 - so that there are operations
    audit,
    me,
    provider_keys,
    sessions,
    shares,
    tokens,
    users,
)
from holdfast.server.wire_format import API_PREFIX, from_json, to_json
from holdfast.store.database import Database, Tx
from holdfast.testing import Clock, ports
from tests.server.api import agent, listening, session

TEAM: Final = AuthConfig(local=False, keyring=keyring("A" * 43))


class Answer(NamedTuple):
    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def kind(self) -> str:
        return str(self.body["kind"])


class House:
    """The server, and ways to come to it."""

    def __init__(self, url: str, client: aiohttp.ClientSession, server: ApiState) -> None:
        self.url = url
        self.client = client
        self.server = server
        self.tokens: dict[str, str] = {}

    @property
    def db(self) -> Database:
        return self.server.db

    @property
    def authenticator(self) -> Authenticator:
        assert isinstance(self.server.identity, Authenticator)
        return self.server.identity

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        by: str | None = None,
        token: str | None = None,
        cookie: str | None = None,
        key: str | None = None,
        headers: Mapping[str, str] = {},
    ) -> Answer:
        """`by`: the name of a user, whose token is shown. `key`: of the cookie's session."""
        token = self.tokens[by] if by is not None else token
        sent = dict(headers)
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        if cookie is not None:
            sent["Cookie"] = cookie
        if key is not None:
            sent[SESSION_KEY_HEADER] = key
        if body is not None:
            sent["Content-Type"], body = "application/json", to_json(body)
        async with self.client.request(
            method, self.url + API_PREFIX + path, data=body, headers=sent
        ) as response:
            data = await response.read()
            is_json = "json" in response.content_type
            made = from_json(data, Any) if data and is_json else data or None
            return Answer(response.status, made, response.headers)

    async def user(self, name: str, role: Role = "member", **token: Any) -> str:
        """A new one, with a token; its id."""
        await self.db.write(lambda tx: create_user(tx, name, name, role))
        self.tokens[name] = await self.token(name, **token)
        return name

    async def token(
        self, user: str, scopes: frozenset[Scope] = ALL_SCOPES, lifetime: int | None = None
    ) -> str:
        """A new one: its id is `of-` and the last of it."""
        secret = new_secret("token")
        new = NewToken(
            id=id_of(secret),
            user=user,
            name="test",
            secret=secret,
            scopes=scopes,
            lifetime=lifetime,
        )
        await self.db.write(lambda tx: issue(tx, new))
        return secret

    async def chat(self, owner: str) -> str:
        return (await self.server.host.create(None, owner=owner)).id

    async def link(self, chat: str, by: str, lifetime: int | None = None) -> str:
        secret = new_secret("link")
        new = NewShare(id=id_of(secret), chat=chat, by=by, secret=secret, lifetime=lifetime)
        await self.db.write(lambda tx: share(tx, new))
        return secret

    async def share_with(self, chat: str, by: str, user: str) -> str:
        new = NewShare(id=f"{chat}-{user}", chat=chat, by=by, user=user)
        return (await self.db.write(lambda tx: share(tx, new))).id

    async def rows(self, sql: str, **params: Any) -> Sequence[Any]:
        async def read(tx: Tx) -> Sequence[Any]:
            return await tx.fetch(sql, params)

        return [tuple(row) for row in await self.db.read(read)]

    async def write(self, sql: str, **params: Any) -> int:
        return await self.db.write(lambda tx: tx.execute(sql, params))

    async def audited(self) -> list[tuple[str, str, str | None]]:
        """Action, subject and user of every entry, the first first."""
        order = "at, length(id), id"  # in tests, ids are counted
        rows = await self.rows(f"SELECT action, subject, user_id FROM audit ORDER BY {order}")
        return list(rows)


def id_of(secret: str) -> str:
    return f"of-{secret[-8:]}"


@asynccontextmanager
async def house(
    db: Database,
    clock: Clock,
    *,
    access: AuthConfig = TEAM,
    front: Front | None = None,
    operations: Sequence[Operation] | None = None,
) -> AsyncIterator[House]:
    """Open for as long as the block lasts. Nobody lives there yet."""
    world = ports(clock=clock)
    async with serving(db, [agent()], ports=world, worker=None, titles=False) as host:
        server = ApiState(host, db, Authenticator(db, access), world, access=access)
        app = protect(application(server, operations), server, front)
        async with listening(app) as url, session() as client:
            yield House(url, client, server)


def cookie_of(answer: Answer) -> str:
    """What a browser would send back."""
    return answer.headers["Set-Cookie"].partition(";")[0]


def handler(text: str = "") -> Any:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=text)

    return answer
