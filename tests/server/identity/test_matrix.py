"""The access matrix: every operation there is, asked by everybody there can be, over real HTTP.

What each operation does is replaced by an answer that says it was reached; everything in front of
it is real.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

from msgspec import structs

import holdfast.server.routes
from holdfast.server.access_policy import OF_A_CHAT, POLICY, Need
from holdfast.server.app import application
from holdfast.server.dispatch import UNPREFIXED_PATHS
from holdfast.server.http_request import HttpRequest
from holdfast.server.operation import OPERATIONS, ApiCall, Operation
from holdfast.server.wire_format import API_PREFIX
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.server.identity.team_server import House, house, id_of

for _module in iter_modules(holdfast.server.routes.__path__):
    import_module(f"{holdfast.server.routes.__name__}.{_module.name}")

REACHED: Final = 299
WHO, NO, UNKNOWN = 401, 403, 404

EXPECTED: Final[Mapping[Need, Mapping[str, int]]] = {
    Need.NOTHING: {},
    Need.READ: {"link": NO},
    Need.WRITE: {"link": NO, "viewer": NO, "read-only": NO},
    Need.READ_CHAT: {"viewer": UNKNOWN, "stranger": UNKNOWN, "admin": UNKNOWN},
    Need.MARK_CHAT: {"viewer": UNKNOWN, "stranger": UNKNOWN, "admin": UNKNOWN, "link": NO},
    Need.READ_OWN_CHAT: {
        "viewer": UNKNOWN,
        "stranger": UNKNOWN,
        "admin": UNKNOWN,
        "link": NO,
        "guest": NO,
    },
    Need.WRITE_CHAT: {
        "viewer": UNKNOWN,
        "stranger": UNKNOWN,
        "admin": UNKNOWN,
        "link": NO,
        "guest": NO,
        "read-only": NO,
    },
    Need.ADMIN: {
        "link": NO,
        "viewer": NO,
        "stranger": NO,
        "guest": NO,
        "owner": NO,
        "read-only": NO,
        "not for admin": NO,
    },
}
"""Who is refused, and how. All who show something good and are not listed are let in."""
SHOW_NOTHING_GOOD: Final = ("nobody", "nonsense", "unknown", "expired", "revoked", "disabled")
SHOW_SOMETHING: Final = (
    "viewer",
    "stranger",
    "guest",
    "owner",
    "admin",
    "link",
    "read-only",
    "not for admin",
)


def expected(need: Need, who: str) -> int:
    if need is Need.NOTHING:
        return REACHED
    if who in SHOW_NOTHING_GOOD:
        return WHO
    if who == "not for admin" and need in OF_A_CHAT:
        return UNKNOWN  # an administrator owns no chat of others
    return EXPECTED[need].get(who, REACHED)


async def _reached(call: ApiCall, request: HttpRequest, **names: Any) -> str:
    return "reached"


def probes() -> list[Operation]:
    """Every row of the table, reached but not carried out."""
    made = []
    for method, path in POLICY:
        names = {part[1:-1]: str for part in path.split("/") if part.startswith("{")}
        known = OPERATIONS.get((method, path))
        made.append(
            structs.replace(
                known, handle=_reached, raw=True, names=names, status=REACHED, gives=str
            )
            if known is not None
            else Operation(
                method=method,  # type: ignore[arg-type]
                path=path,
                summary="",
                handle=_reached,
                status=REACHED,
                names=names,
                query=None,
                body=None,
                gives=str,
                media="",
                raw=True,
            )
        )
    return made


@asynccontextmanager
async def everybody(db: Database, clock: Clock) -> AsyncIterator[tuple[House, str, dict[str, Any]]]:
    """A house, a chat of the owner's in it, and what each shows."""
    async with house(db, clock, operations=probes()) as here:
        for name in ("owner", "stranger", "guest"):
            await here.user(name)
        await here.user("admin", "admin")
        await here.user("viewer", "viewer")
        await here.user("disabled")
        await here.write("UPDATE users SET disabled_at = 1 WHERE id = 'disabled'")
        chat = await here.chat("owner")
        await here.share_with(chat, "owner", "guest")
        shown: dict[str, Any] = {
            "nobody": None,
            "nonsense": "letmein",
            "unknown": "hf_" + "x" * 43,
            "expired": await here.token("owner", lifetime=1),
            "revoked": await here.token("owner"),
            "link": await here.link(chat, "owner"),
            "read-only": await here.token("owner", frozenset(("read",))),
            "not for admin": await here.token("admin", frozenset(("read", "write"))),
        }
        gone = id_of(shown["revoked"])
        await here.write("UPDATE tokens SET revoked_at = 1 WHERE id = :id", id=gone)
        clock.advance(2)
        yield here, chat, {**here.tokens, **shown}


def _at(path: str, chat: str) -> str:
    return path.replace("{chat}", chat).replace("{", "").replace("}", "")


async def test_everybody_gets_exactly_what_the_policy_says_everywhere(
    db: Database, clock: Clock
) -> None:
    wrong = []
    async with everybody(db, clock) as (here, chat, shown):
        for (method, path), need in POLICY.items():
            at = _at(path, chat)
            for who in (*SHOW_NOTHING_GOOD, *SHOW_SOMETHING):
                answer = await here.ask(method, at, token=shown[who])
                if answer.status != expected(need, who):
                    wrong.append(f"{method} {path} by {who}: {answer.status} {answer.body}")
    assert not wrong, "\n" + "\n".join(wrong)


async def test_what_one_may_not_know_is_as_if_it_were_not_there(db: Database, clock: Clock) -> None:
    async with everybody(db, clock) as (here, chat, _):
        for (method, path), need in POLICY.items():
            if need not in OF_A_CHAT:
                continue
            there = await here.ask(method, _at(path, chat), by="stranger")
            nowhere = await here.ask(method, _at(path, "x" * len(chat)), by="stranger")
            told = {**nowhere.body, "facts": {}, "detail": ""}
            assert {**there.body, "facts": {}, "detail": ""} == told
            assert there.body["detail"].replace(chat, "") == f"there is no chat {''!r}"
            assert nowhere.status == there.status == UNKNOWN


def test_the_matrix_has_an_answer_for_every_need() -> None:
    assert set(EXPECTED) == set(Need)
    for refused in EXPECTED.values():
        assert set(refused) <= set(SHOW_SOMETHING)


def test_every_route_stands_in_the_table_and_every_row_has_its_route() -> None:
    assert set(OPERATIONS) - set(POLICY) == set(), "routes that the policy does not know"
    assert set(POLICY) - set(OPERATIONS) == set(), "rows of the policy without a route"


async def test_the_router_serves_what_the_table_lists_and_nothing_else(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock, operations=probes()) as here:
        app = application(here.server, probes())
        served = {
            (route.method, route.resource.canonical)
            for route in app.router.routes()
            if route.resource is not None
        }
        listed = {(method, API_PREFIX + path) for method, path in POLICY}
        rooted = {(method, path) for method, path in POLICY if path in UNPREFIXED_PATHS}
        assert served - {("HEAD", path) for _, path in served} == listed | rooted
