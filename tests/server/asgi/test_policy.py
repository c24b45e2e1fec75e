"""Every mounted operation gives every kind of user what the access policy says."""

from __future__ import annotations

import re

import aiohttp
import pytest

from holdfast import Host
from holdfast.host import serving
from holdfast.server.access_policy import (
    POLICY,
    AccessDecision,
    ApiCaller,
    ChatRelation,
    Role,
    authorise,
)
from holdfast.server.asgi.mounted_operations import OF_A_SERVER, mounted_operations
from holdfast.server.operation import Operation
from holdfast.server.wire_format import API_PREFIX
from holdfast.store.database import Database
from holdfast.testing import Clock
from holdfast.web import AsgiRequest, AsgiUser
from tests.server.api import agent
from tests.server.asgi.test_mounted import MADE, application, mounted

ROLES: dict[str, Role] = {"ann": "member", "bob": "member", "vic": "viewer", "ada": "admin"}
"""Users of the application; ann owns the chat."""
REFUSED = {
    AccessDecision.UNAUTHENTICATED: (401, "unauthenticated"),
    AccessDecision.FORBIDDEN: (403, "forbidden"),
    AccessDecision.HIDDEN: (404, "chat_not_found"),
}


def identify(request: AsgiRequest) -> AsgiUser | None:
    name = request.headers.get("X-User", "")
    return AsgiUser(name, ROLES[name]) if name else None


def test_all_operations_are_mounted_but_those_of_the_users_of_a_server() -> None:
    served = {(each.method, each.path) for each in mounted_operations()}
    assert {path for method, path in POLICY.keys() - served} == {
        path for _, path in POLICY if path.startswith(OF_A_SERVER)
    }


@pytest.mark.parametrize("user", ["", *ROLES])
async def test_everybody_gets_what_the_policy_says(user: str, db: Database, clock: Clock) -> None:
    async with serving(db, [agent((), clock)], worker=None, titles=False) as host:
        async with application(mounted(host, identify)) as client:
            for operation in mounted_operations():
                decision = decided(operation, user)
                status, kind = await asked(client, host, operation, user)
                told = f"{operation.method} {operation.path}: {status} {kind}"
                if decision is AccessDecision.ALLOWED:
                    assert (status, kind) not in REFUSED.values(), told
                else:
                    assert (status, kind) == REFUSED[decision], told
        assert not MADE


def decided(operation: Operation, user: str) -> AccessDecision:
    caller = ApiCaller(user, ROLES[user]) if user else None
    relation = ChatRelation(owns=True) if user == "ann" else None
    return authorise(POLICY[operation.method, operation.path], caller, relation)


async def asked(
    client: aiohttp.ClientSession, host: Host, operation: Operation, user: str
) -> tuple[int, str]:
    """Status and kind of the answer. The chat is a new one of ann's."""
    chat = await host.create(None, owner="ann")
    path = re.sub(r"\{\w+\}", "1", operation.path.replace("{chat}", chat.id))
    headers = {"X-User": user} if user else {}
    async with client.request(
        operation.method, f"/agents{API_PREFIX}{path}", headers=headers
    ) as response:
        if response.content_type != "application/problem+json":
            return response.status, ""
        return response.status, (await response.json(content_type=None))["kind"]
