"""A request with a key is carried out once, however often it is made."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from holdfast.chat import idempotency as machines
from holdfast.chat import queries
from holdfast.chat.errors import ChatArchived, ChatError, KeyReused
from holdfast.chat.idempotency import KEY_LIFETIME, Key, once
from holdfast.chat.rows import ChatRow, Queued, Status, Stored, fence_of
from holdfast.chat.transitions import lifecycle, runner, user
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.chat.transitions.user import Edited, Sent
from holdfast.kernel.messages import Message
from holdfast.store.database import (
    NO_PARAMS,
    Database,
    OutcomeUnknown,
    Params,
    Transaction,
    Tx,
)
from tests.chat.chats import Chats, given_result, leftover, prompt, restore
from tests.chat.sessions import until_blocked


def key(name: str = "k", fingerprint: str = "POST /chats hello", caller: str = "ann") -> Key:
    return Key(caller, name, fingerprint)


def new(id: str) -> NewChat:
    return NewChat(id=id, agent="agent", message=prompt("hello"))


def empty(id: str) -> NewChat:
    return NewChat(id=id, agent="agent", message=None)


EXPORTED = Stored(1, 1, prompt("hello"), None, 5)

Change = Callable[[Tx], Awaitable[Any]]
REQUESTS: dict[str, tuple[str, Any, Callable[[str], Change]]] = {
    "create": ("idle", ChatRow, lambda id: lambda tx: lifecycle.create(tx, new("new"))),
    "send": ("idle", Sent, lambda id: lambda tx: user.send(tx, id, waiting("more"))),
    "interrupt": ("running", ChatRow, lambda id: lambda tx: user.interrupt(tx, id)),
    "edit": ("running", Edited, lambda id: lambda tx: user.edit(tx, id, 1, prompt("else"))),
    "fork": ("error", ChatRow, lambda id: lambda tx: lifecycle.fork(tx, id, 1, new("new"))),
    "restore": (
        "idle",
        ChatRow,
        lambda id: lambda tx: restore(tx, empty("restored"), [EXPORTED]),
    ),
    "retry": ("error", ChatRow, lambda id: lambda tx: user.retry(tx, id)),
    "compact": ("idle", ChatRow, lambda id: lambda tx: user.compact(tx, id)),
    "resolve": (
        "waits",
        ChatRow,
        lambda id: lambda tx: user.resolve(tx, id, {"a": given_result("a")}),
    ),
    "update": ("idle", ChatRow, lambda id: lambda tx: user.update(tx, id, {"labels": {"x": "y"}})),
    "archive": ("error", ChatRow, lambda id: lambda tx: lifecycle.archive(tx, id)),
    "delete": ("idle", tuple[str, ...], lambda id: lambda tx: lifecycle.delete(tx, id)),
    "promote": ("running", Sent, lambda id: lambda tx: user.promote(tx, id, "q1")),
    "edit_queued": (
        "running",
        list[Queued],
        lambda id: lambda tx: user.edit_queued(tx, id, "q1", prompt("x")),
    ),
    "reorder": ("running", list[Queued], lambda id: lambda tx: user.reorder(tx, id, ["q2", "q1"])),
    "remove_queued": ("running", Queued, lambda id: lambda tx: user.remove_queued(tx, id, "q1")),
}
_IDS = itertools.count(1)


def waiting(text: str | Message) -> Queued:
    message = prompt(text) if isinstance(text, str) else text
    return Queued(f"m{next(_IDS)}", "queue", message, 0)


async def ask(chats: Chats, name: str, id: str, key: Key) -> Any:
    _, kind, change = REQUESTS[name]
    creates = "new" if name in ("create", "fork") else None
    return await once(chats.db, key, kind, change(id), creates)


async def send(
    db: Database, text: str | Message, key: Key | None = None, *, id: str = "c1"
) -> Sent:
    queued = waiting(text)
    return await once(db, key, Sent, lambda tx: user.send(tx, id, queued))


async def create(db: Database, new_chat: NewChat, key: Key) -> ChatRow:
    change = partial(lifecycle.create, new_chat=new_chat)
    return await once(db, key, ChatRow, change, creates=new_chat.id)


async def bring(chats: Chats, id: str, state: str) -> None:
    ways: dict[str, Callable[[], Awaitable[Any]]] = {
        "idle": lambda: chats.idle(id),
        "running": lambda: chats.running(id, queue=("queue", "queue")),
        "error": lambda: chats.error(id, calls={"a": "started"}),
        "waits": lambda: chats.requires_action(id),
    }
    await ways[state]()


async def test_a_repeated_request_gives_the_first_answer_and_changes_nothing(chats: Chats) -> None:
    for name, (state, _, _) in REQUESTS.items():
        await bring(chats, name, state)
        first = await ask(chats, name, name, key(name))
        before = await chats.everything()
        chats.take_notices()
        assert await ask(chats, name, name, key(name)) == first, name
        assert (await chats.everything(), chats.take_notices()) == (before, []), name
        if name in ("create", "fork"):
            await chats.do(user.interrupt, "new")
            chats.clock.advance(1)
            await chats.claim("urgent")
            await _forget(chats, "new")


async def _forget(chats: Chats, id: str) -> None:

    chat = await chats.row(id)
    if chat.status is Status.INTERRUPTING:
        await chats.do(runner.settle, fence_of(chat), leftover())
    await chats.do(lifecycle.delete, id)


async def test_unarchiving_twice_with_a_key_is_no_error(chats: Chats) -> None:
    await chats.archived("c1")
    unarchive = partial(lifecycle.unarchive, chat_id="c1")
    first = await once(chats.db, key(), ChatRow, unarchive)
    assert await once(chats.db, key(), ChatRow, unarchive) == first


async def test_a_key_that_was_used_for_something_else_is_refused(chats: Chats) -> None:
    await chats.idle("c1")
    await send(chats.db, "one", key=key(fingerprint="one"))
    before = await chats.everything()
    with pytest.raises(KeyReused) as refusal:
        await send(chats.db, "two", key=key(fingerprint="two"))
    assert refusal.value.key == "k"
    assert await chats.everything() == before


async def test_the_keys_of_different_callers_are_different(chats: Chats) -> None:
    await chats.running("c1")
    await send(chats.db, "mine", key=key(caller="ann"))
    await send(chats.db, "yours", key=key(caller="bob", fingerprint="other"))
    assert await chats.queued() == ["mine", "yours"]


async def test_a_refusal_leaves_no_trace_so_that_the_same_key_asks_again(chats: Chats) -> None:
    await chats.archived("c1")
    before = await chats.everything()
    with pytest.raises(ChatArchived):
        await send(chats.db, "hello?", key=key())
    assert await chats.everything() == before
    await chats.do(lifecycle.unarchive, "c1")
    sent = await send(chats.db, "hello?", key=key())
    assert sent.number == 3


async def test_a_message_without_a_key_is_sent_as_often_as_it_is_sent(chats: Chats) -> None:
    await chats.running("c1")
    await send(chats.db, "again")
    await send(chats.db, "again")
    assert await chats.queued() == ["again", "again"]
    assert (await chats.everything())["requests"] == []


async def test_keys_are_forgotten_after_a_week(chats: Chats) -> None:
    await chats.running("c1")
    await send(chats.db, "old", key=key("old"))
    chats.clock.advance(1)
    await send(chats.db, "young", key=key("young"))
    chats.clock.advance(KEY_LIFETIME / 1e6 - 0.5)
    await chats.do(machines.forget_old_keys)
    assert [row[1] for row in (await chats.everything())["requests"]] == ["young"]


async def test_the_same_request_many_times_at_once_is_carried_out_once(chats: Chats) -> None:
    await chats.running("c1")
    answers: list[Any] = []

    async def send_once() -> None:
        answers.append(await send(chats.db, "once", key=key()))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(send_once)
    assert await chats.queued() == ["once"]
    assert len(answers) == 5
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("refused", [False, True])
async def test_the_same_key_in_flight_waits_for_the_first(postgres: Chats, refused: bool) -> None:
    chats = postgres
    await chats.running("c1")
    asked, go = anyio.Event(), anyio.Event()
    answers: list[Any] = []

    async def first_change(tx: Tx) -> Any:
        sent = await user.send(tx, "c1", Queued("m1", "queue", prompt("first"), 0))
        asked.set()
        await go.wait()
        if refused:
            raise ChatError("refused after all")
        return sent

    async def first() -> None:
        try:
            answers.append(await once(chats.db, key(), Sent, first_change))
        except ChatError:
            answers.append(None)

    async def second() -> None:
        answers.append(await send(chats.db, "second", key=key()))

    async with anyio.create_task_group() as group:
        group.start_soon(first)
        await asked.wait()
        group.start_soon(second)
        await until_blocked(chats.db)
        assert answers == []
        go.set()
    assert len(answers) == 2
    if refused:
        assert await chats.queued() == ["second"]
    else:
        assert await chats.queued() == ["first"]
        assert answers[0] == answers[1]


class Forgetful:
    """A database that commits, and loses the first acknowledgements."""

    def __init__(self, db: Database, times: int) -> None:
        self._db = db
        self.times = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    async def write(self, transaction: Transaction[Any], *, short: bool = False) -> Any:
        made = await self._db.write(transaction, short=short)
        if self.times:
            self.times -= 1
            raise OutcomeUnknown("the connection was lost")
        return made


async def test_a_key_heals_a_lost_acknowledgement(chats: Chats) -> None:
    await chats.running("c1")
    forgetful: Any = Forgetful(chats.db, 3)
    sent = await send(forgetful, "once", key=key())
    assert sent.queued is not None
    assert await chats.queued() == ["once"]


async def test_an_acknowledgement_that_stays_lost_is_said_so(chats: Chats) -> None:
    await chats.running("c1")
    forgetful: Any = Forgetful(chats.db, 5)
    with pytest.raises(OutcomeUnknown):
        await send(forgetful, "once", key=key())
    with pytest.raises(OutcomeUnknown):
        await send(forgetful, "without a key")
    assert await chats.queued() == ["once", "without a key"]


async def test_an_answer_with_odd_text_in_it_comes_back_as_it_was(chats: Chats) -> None:
    await chats.running("c1")
    odd: Message = prompt("nul \x00, half a pair \ud800")
    await send(chats.db, odd)
    reorder = partial(user.reorder, chat_id="c1", ids=[await _only(chats)])
    (queued,) = await once(chats.db, key(), list[Queued], reorder)
    again = await once(chats.db, key(), list[Queued], reorder)
    assert again == [queued]
    assert again[0].message == odd


async def _only(chats: Chats) -> str:
    (queued,) = (await chats.load()).queue
    return queued.id


class Late:
    """A transaction whose statements that delete anything come when they may."""

    def __init__(self, tx: Tx, found: anyio.Event, go: anyio.Event) -> None:
        self._tx = tx
        self._found = found
        self._go = go

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    async def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        if "DELETE" in sql:
            self._found.set()
            await self._go.wait()
        return await self._tx.execute(sql, params)


async def test_the_same_key_of_a_chat_that_is_gone_makes_one_chat_however_many_ask(
    postgres: Chats,
) -> None:
    """Both have found that it is gone before either goes on."""
    chats = postgres
    await create(chats.db, empty("c1"), key())
    await chats.do(lifecycle.delete, "c1")
    found, go = anyio.Event(), anyio.Event()
    answers: list[ChatRow] = []

    async def slowly(tx: Tx) -> ChatRow:
        late: Any = Late(tx, found, go)
        return await machines._with_key(
            late, key(), ChatRow, lambda tx: lifecycle.create(tx, empty("c2")), "c2"
        )

    async def second() -> None:
        answers.append(await chats.db.write(slowly))

    async with anyio.create_task_group() as group:
        group.start_soon(second)
        await found.wait()
        answers.append(await create(chats.db, empty("c3"), key()))
        go.set()
    assert [chat.id for chat in answers] == ["c3", "c3"]
    assert [chat.id for chat in await chats.ask(queries.list_chats)] == ["c3"]
