"""Every page of a list is its caller's own, not only the first.

The lists are those of the table of operations; the rows of two users are interleaved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from holdfast.server.operation import OPERATIONS
from holdfast.store.database import Database
from holdfast.testing import Clock, call, usage
from tests.server.api import Api, agent, serving_api
from tests.server.test_talking import waiting
from tests.test_host import ask_user

pytestmark = pytest.mark.usefixtures("each_server")

USERS: Final = ("ann", "bob")
ROUNDS: Final = 4
DAY: Final = 24 * 3600


class Listed(NamedTuple):
    """How a list is read to its end."""

    items: str
    """The field of a page that has them."""
    owner: Callable[[Any, Mapping[str, str]], str | None]
    """Whose a row is: by the row, and by the owners of chats and files."""
    by: str = "cursor"
    """The parameter that takes `next`."""
    role: str = ""
    query: Mapping[str, str] = {}
    """What is asked for beside the page; `{user}` is the caller."""


LISTS: Final[Mapping[str, Listed]] = {
    "/chats": Listed("chats", lambda row, owners: owners[row["id"]]),
    "/actions": Listed("actions", lambda row, owners: owners[row["chat_id"]]),
    "/files": Listed("files", lambda row, owners: owners[row["id"]]),
    "/audit": Listed("entries", lambda row, _: row["user"], "before", ":admin", {"user": "{user}"}),
    "/chats/{chat}/messages": Listed(
        "messages", lambda row, _: author_of(row["message"]), "before"
    ),
}
OF_ADMINISTRATORS: Final = frozenset(("/users",))
"""Its rows are the same for every caller."""


def author_of(message: Any) -> str | None:
    """By what a prompt says here; None of an answer."""
    text = message["parts"][0].get("text")
    return None if text is None else str(text).partition(" ")[0]


def paged() -> set[str]:
    """Paths of all operations that give pages."""
    return {
        one.path
        for one in OPERATIONS.values()
        if one.method == "GET"
        and one.query is not None
        and "limit" in {field.name for field in msgspec.structs.fields(one.query)}
    }


async def seeded(api: Api, clock: Clock) -> dict[str, str]:
    """Chats that wait for an answer, files, deleted chats: of both users in turn. Owners by id."""
    owners: dict[str, str] = {}
    for number in range(ROUNDS):
        for user in USERS:
            of = api.of(user)
            chat = (await of.post("/chats", {"prompt": f"{user} {number}"})).body["id"]
            await waiting(of, chat)
            gone = (await of.post("/chats", {})).body["id"]
            assert (await of.delete(f"/chats/{gone}")).status == 204
            file = (await of.ask("POST", "/files", f"{user} {number}".encode())).body["id"]
            owners |= {chat: user, file: user}
        clock.advance(DAY)
    return owners


async def pages(api: Api, path: str, listed: Listed) -> list[Any]:
    """All rows of a list, read one by one."""
    found: list[Any] = []
    cursor: Any = None
    asked = {name: value.format(user=api.user) for name, value in listed.query.items()}
    while True:
        by = Api(api.url, api.session, api.server, api.user + listed.role)
        page = await by.get(path, limit=1, **{listed.by: cursor}, **asked)
        assert page.status == 200, page.body
        assert len(page.body[listed.items]) <= 1
        found += page.body[listed.items]
        cursor = page.body["next"]
        if cursor is None:
            return found


def agent_that_asks(clock: Clock) -> Any:
    script = [[call("ask_user"), usage(input=7, output=3)]] * (ROUNDS * len(USERS))
    return agent(script, clock, tools=[ask_user])


def test_every_list_with_pages_is_tried() -> None:
    assert paged() - OF_ADMINISTRATORS == set(LISTS)


async def test_every_page_of_a_list_is_its_callers_own(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent_that_asks(clock)], clock=clock) as api:
        owners = await seeded(api, clock)
        for path, listed in LISTS.items():
            if "{chat}" in path:
                continue
            for user in USERS:
                rows = await pages(api.of(user), path, listed)
                assert [listed.owner(row, owners) for row in rows] == [user] * ROUNDS, path


async def test_every_page_of_messages_is_of_its_chat(db: Database, clock: Clock) -> None:
    listed = LISTS["/chats/{chat}/messages"]
    async with serving_api(db, [agent_that_asks(clock)], clock=clock) as api:
        owners = await seeded(api, clock)
        for user, other in (USERS, USERS[::-1]):
            for chat in (await api.of(user).get("/chats")).body["chats"]:
                path = f"/chats/{chat['id']}/messages"
                rows = await pages(api.of(user), path, listed)
                assert [listed.owner(row, owners) for row in rows] == [None, user]
                assert (await api.of(other).get(path, limit=1, before=2)).status == 404


async def test_usage_of_each_part_of_the_time_is_its_callers_own(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent_that_asks(clock)], clock=clock) as api:
        await seeded(api, clock)
        for user in USERS:
            whole = (await api.of(user).get("/usage")).body
            assert whole["total"]["calls"] == ROUNDS
            start = clock.now() - ROUNDS * DAY * 1_000_000
            calls = []
            for number in range(ROUNDS):
                since = start + number * DAY * 1_000_000
                part = await api.of(user).get("/usage", since=since, until=since + DAY * 1_000_000)
                calls.append(part.body["total"]["calls"])
            assert calls == [1] * ROUNDS
