"""A named request to a chat inside a program is carried out once."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import pytest

from holdfast.chat.errors import InvalidInput, KeyReused
from holdfast.chat.handle import Chat, Queue
from holdfast.store.database import Database
from holdfast.testing import Clock, call
from tests.test_host import ask_user, hosting

REQUESTS: Final[Mapping[str, Callable[[Chat, str], Awaitable[Any]]]] = {
    "rename": lambda chat, what: chat.rename(what, key="k"),
    "update": lambda chat, what: chat.update(labels={"a": what}, key="k"),
    "archive": lambda chat, what: (chat.archive if what == "one" else chat.delete)(key="k"),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_the_same_key_gives_the_first_answer_and_another_request_is_refused(
    db: Database, clock: Clock, name: str
) -> None:
    async with hosting(db, clock, ["Hello"]) as host:
        chat = await host.create("hi")
        await chat.rest()
        first = await REQUESTS[name](chat, "one")
        assert await REQUESTS[name](chat, "one") == first
        with pytest.raises(KeyReused):
            await REQUESTS[name](chat, "other")


async def test_an_answer_that_was_given_is_not_asked_for_again(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, [call("ask_user"), "thanks"], [ask_user]) as host:
        chat = await host.create("hi")
        (action,) = (await chat.rest()).actions
        first = await chat.resolve({action.call.id: "blue"}, key="k")
        await chat.rest()
        assert await chat.resolve({action.call.id: "blue"}, key="k") == first
        with pytest.raises(KeyReused):
            await chat.resolve({action.call.id: "red"}, key="k")


async def test_a_chat_is_deleted_once(db: Database, clock: Clock) -> None:
    async with hosting(db, clock) as host:
        chat = await host.create(None)
        for _ in range(2):
            await chat.delete(key="k")


async def test_every_change_of_a_chat_can_have_a_key() -> None:
    reads = {"read", "messages", "history", "actions", "usage", "budget", "export", "rest", "list"}
    for handle in (Chat, Queue):
        for name, method in inspect.getmembers(handle, inspect.iscoroutinefunction):
            if not name.startswith("_") and name not in reads | {"set_budget"}:  # sets a value
                assert "key" in inspect.signature(method).parameters, name


async def test_an_unknown_way_to_deliver_is_refused(db: Database, clock: Clock) -> None:
    async with hosting(db, clock) as host:
        chat = await host.create(None)
        with pytest.raises(InvalidInput, match="queue, steer, interrupt"):
            await chat.send("now", "at once")  # type: ignore[arg-type]
