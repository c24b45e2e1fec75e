"""A chat can be made of what is a history of a chat, and of nothing else.

What these tests leave behind is looked at by the doctor, as after every test here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import pytest
from msgspec import structs

from holdfast.chat import queries
from holdfast.chat.errors import InvalidInput
from holdfast.chat.rows import ChatRow, Status, Stored
from holdfast.chat.transitions import lifecycle, user
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.kernel.messages import Message
from tests.chat.chats import Chats, restore
from tests.kernel.histories import answer, call, checkpoint, prompt, result, results

NEW: Final = NewChat(id="c1", agent="agent", message=None)


def exported(messages: Sequence[Message], gone: range = range(0)) -> list[Stored]:
    """Messages as an export has them; `gone`: the numbers of those that are superseded."""
    return [
        Stored(number, 1, message, None, 1, 2 if number in gone else None)
        for number, message in enumerate(messages, start=1)
    ]


async def restore_new(chats: Chats, messages: Sequence[Stored]) -> ChatRow:
    return await chats.do(restore, NEW, messages)


ASKED: Final = (prompt(), answer(call("a")))

BROKEN: Final[Mapping[str, list[Stored]]] = {
    "a checkpoint for more than there is": exported([prompt(), answer("x"), checkpoint(3)]),
    "a checkpoint for less than nothing": exported([prompt(), answer("x"), checkpoint(-1)]),
    "a checkpoint that shortens what is not there": exported(
        [prompt(), answer("x"), checkpoint(0, trims=9)]
    ),
    "a checkpoint over a call without its result": exported(
        [*ASKED, results("a"), answer(call("b")), checkpoint(4, pinned=0), results("b")]
    ),
    "a checkpoint that keeps what is no prompt": exported(
        [prompt(), answer("x"), checkpoint(2, pinned=1)]
    ),
    "a checkpoint that keeps what is in front of all": exported(
        [prompt(), answer("x"), checkpoint(2, pinned=-9)]
    ),
    "a result without its call": exported([prompt(), results("a")]),
    "two results of a call": exported([*ASKED, results("a"), results("a")]),
    "a call without a result in the middle": exported([*ASKED, prompt("and?"), answer("x")]),
    "two calls of one id": exported([*ASKED, results("a"), answer(call("a")), results("a")]),
    "an answer with two calls of one id": exported([prompt(), answer(call("a"), call("a"))]),
    "an answer of the user": exported([prompt(), Message("user", (), "answer")]),
    "a result in a prompt": exported([Message("user", (result("a"),), "prompt")]),
    "an edit that begins with an answer": exported([*ASKED, prompt()], range(2, 3)),
    "an edit that nothing stands for": exported([*ASKED, results("a")], range(1, 4)),
    "an edit that an answer stands for": exported([prompt(), answer("x")], range(1, 2)),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_what_no_chat_can_have_said_is_refused(chats: Chats, what: str) -> None:
    with pytest.raises(InvalidInput):
        await restore_new(chats, BROKEN[what])
    assert (await chats.everything())["chats"] == []


async def edited(chats: Chats) -> None:
    """With a call that has no result in what is superseded."""
    await chats.running(calls={"a": "started"})
    await chats.do(user.edit, "c1", 1, prompt("instead"))


async def summarized(chats: Chats) -> None:
    await chats.running()
    for message in (answer(call("a")), results("a"), answer("so"), checkpoint(4, pinned=0)):
        await chats.commit("c1", message)


STATES: Final[Mapping[str, Callable[[Chats], Awaitable[object]]]] = {
    "idle": lambda chats: chats.idle(),
    "running": lambda chats: chats.running(calls={"a": "recorded", "b": "started", "c": "open"}),
    "interrupting": lambda chats: chats.interrupting(calls={"a": "open"}),
    "requires action": lambda chats: chats.requires_action(queue=("queue",)),
    "in error": lambda chats: chats.error(calls={"a": "started"}),
    "edited": edited,
    "summarized": summarized,
}


@pytest.mark.parametrize("state", STATES)
async def test_a_chat_in_any_state_can_be_made_again(chats: Chats, state: str) -> None:
    await STATES[state](chats)
    said = await chats.ask(queries.read_messages, "c1", limit=100, superseded=True)
    new = NewChat(id="c2", agent="agent", message=None)
    made = await chats.do(restore, new, said)
    assert made.status is Status.IDLE
    again = await chats.ask(queries.read_messages, "c2", limit=100, superseded=True)
    assert [one.message for one in again[: len(said)]] == [one.message for one in said]
    assert [one.message.kind for one in again[len(said) :]] in ([], ["results"])


@pytest.mark.parametrize("title", [None, "a title"])
@pytest.mark.parametrize("message", [None, prompt()])
async def test_a_chat_of_no_history_is_what_a_new_one_is(
    chats: Chats, message: Message | None, title: str | None
) -> None:
    """Two ways to write the first rows of a chat, and one of them is short."""
    new = structs.replace(NEW, message=message, title=title, author="ann")
    await chats.do(lifecycle.create, new)
    created, told = await chats.everything(), chats.take_notices()
    await chats.db.write(lambda tx: tx.execute("DELETE FROM chats"))
    await chats.do(restore, new, [])
    assert (await chats.everything(), chats.take_notices()) == (created, told)


def test_rows_are_inserted_in_batches_of_bounded_size() -> None:
    rows = [{"number": n, "body": "x" * size} for n, size in enumerate([3, 3, 3, 20, 1, 1, 1, 1])]
    made = [[row["number"] for row in batch] for batch in lifecycle.batches(rows, limit=3, size=7)]
    assert made == [[0, 1], [2], [3], [4, 5, 6], [7]]
    assert list(lifecycle.batches([])) == []
