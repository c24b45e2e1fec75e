"""A request with a key is carried out once, however often it is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from holdfast.chat import idempotency as machines
from holdfast.chat import queries
from holdfast.chat.errors import ChatArchived, ChatError, InvalidInput, KeyReused
from holdfast.chat.idempotency import KEY_LIFETIME, Key, UserOperations
from holdfast.chat.rows import ChatRow, Status, Stored
from holdfast.chat.transitions import lifecycle
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.kernel.messages import Message
from holdfast.store.database import (
    NO_PARAMS,
    Database,
    OutcomeUnknown,
    Params,
    Transaction,
    Tx,
)
from holdfast.testing import ports
from tests.chat.chats import Chats, given_result, leftover, prompt
from tests.chat.sessions import until_blocked


@pytest.fixture
def machine(chats: Chats) -> UserOperations:
    return UserOperations(chats.db, ports())


def key(name: str = "k", fingerprint: str = "POST /chats hello", caller: str = "ann") -> Key:
    return Key(caller, name, fingerprint)


def new(id: str) -> NewChat:
    return NewChat(id=id, agent="agent", message=prompt("hello"))


def empty(id: str) -> NewChat:
    return NewChat(id=id, agent="agent", message=None)


EXPORTED = Stored(1, 1, prompt("hello"), None, 5)

Ask = Callable[[UserOperations, str, Key], Awaitable[Any]]
REQUESTS: dict[str, tuple[str, Ask]] = {
    "create": ("idle", lambda m, id, k: m.create(new("new"), key=k)),
    "send": ("idle", lambda m, id, k: m.send(id, prompt("more"), key=k)),
    "interrupt": ("running", lambda m, id, k: m.interrupt(id, key=k)),
    "edit": ("running", lambda m, id, k: m.edit(id, 1, prompt("else"), key=k)),
    "fork": ("error", lambda m, id, k: m.fork(id, 1, new("new"), key=k)),
    "restore": ("idle", lambda m, id, k: m.restore(empty("restored"), [EXPORTED], key=k)),
    "retry": ("error", lambda m, id, k: m.retry(id, key=k)),
    "compact": ("idle", lambda m, id, k: m.compact(id, key=k)),
    "resolve": ("waits", lambda m, id, k: m.resolve(id, {"a": given_result("a")}, key=k)),
    "update": ("idle", lambda m, id, k: m.update(id, {"labels": {"x": "y"}}, key=k)),
    "archive": ("error", lambda m, id, k: m.archive(id, key=k)),
    "delete": ("idle", lambda m, id, k: m.delete(id, key=k)),
    "promote": ("running", lambda m, id, k: m.promote(id, "q1", key=k)),
    "edit_queued": ("running", lambda m, id, k: m.edit_queued(id, "q1", prompt("x"), key=k)),
    "reorder": ("running", lambda m, id, k: m.reorder(id, ["q2", "q1"], key=k)),
    "remove_queued": ("running", lambda m, id, k: m.remove_queued(id, "q1", key=k)),
}


async def bring(chats: Chats, id: str, state: str) -> None:
    ways: dict[str, Callable[[], Awaitable[Any]]] = {
        "idle": lambda: chats.idle(id),
        "running": lambda: chats.running(id, queue=("queue", "queue")),
        "error": lambda: chats.error(id, calls={"a": "started"}),
        "waits": lambda: chats.requires_action(id),
    }
    await ways[state]()


async def test_a_repeated_request_gives_the_first_answer_and_changes_nothing(
    chats: Chats, machine: UserOperations
) -> None:
    for name, (state, ask) in REQUESTS.items():
        await bring(chats, name, state)
        first = await ask(machine, name, key(name))
        before = await chats.everything()
        chats.take_notices()
        assert await ask(machine, name, key(name)) == first, name
        assert (await chats.everything(), chats.take_notices()) == (before, []), name
        if name in ("create", "fork"):
            await machine.interrupt("new")
            chats.clock.advance(1)
            await chats.claim("urgent")
            await _forget(chats, "new")


async def _forget(chats: Chats, id: str) -> None:
    from holdfast.chat.row_lock import fence_of
    from holdfast.chat.transitions import lifecycle, runner

    chat = await chats.row(id)
    if chat.status is Status.INTERRUPTING:
        await chats.do(runner.settle, fence_of(chat), leftover())
    await chats.do(lifecycle.delete, id)


async def test_unarchiving_twice_with_a_key_is_no_error(
    chats: Chats, machine: UserOperations
) -> None:
    await chats.archived("c1")
    first = await machine.unarchive("c1", key=key())
    assert await machine.unarchive("c1", key=key()) == first


async def test_every_request_can_have_a_key() -> None:
    public = {name for name in vars(UserOperations) if not name.startswith("_")}
    assert public - {"read", "unarchive", "stored_response"} == set(REQUESTS)


async def test_a_key_that_was_used_for_something_else_is_refused(
    chats: Chats, machine: UserOperations
) -> None:
    await chats.idle("c1")
    await machine.send("c1", prompt("one"), key=key(fingerprint="one"))
    before = await chats.everything()
    with pytest.raises(KeyReused) as refusal:
        await machine.send("c1", prompt("two"), key=key(fingerprint="two"))
    assert refusal.value.key == "k"
    assert await chats.everything() == before


async def test_the_keys_of_different_callers_are_different(
    chats: Chats, machine: UserOperations
) -> None:
    await chats.running("c1")
    await machine.send("c1", prompt("mine"), key=key(caller="ann"))
    await machine.send("c1", prompt("yours"), key=key(caller="bob", fingerprint="other"))
    assert await chats.queued() == ["mine", "yours"]


async def test_a_refusal_leaves_no_trace_so_that_the_same_key_asks_again(
    chats: Chats, machine: UserOperations
) -> None:
    await chats.archived("c1")
    before = await chats.everything()
    with pytest.raises(ChatArchived):
        await machine.send("c1", prompt("hello?"), key=key())
    assert await chats.everything() == before
    await machine.unarchive("c1")
    sent = await machine.send("c1", prompt("hello?"), key=key())
    assert sent.number == 3


async def test_a_message_without_a_key_is_sent_as_often_as_it_is_sent(
    chats: Chats, machine: UserOperations
) -> None:
    await chats.running("c1")
    await machine.send("c1", prompt("again"))
    await machine.send("c1", prompt("again"))
    assert await chats.queued() == ["again", "again"]
    assert (await chats.everything())["requests"] == []


async def test_an_unknown_way_to_deliver_is_refused(chats: Chats, machine: UserOperations) -> None:
    await chats.idle("c1")
    with pytest.raises(InvalidInput, match="queue, steer, interrupt"):
        await machine.send("c1", prompt("now"), "at once")  # type: ignore[arg-type]


async def test_keys_are_forgotten_after_a_week(chats: Chats, machine: UserOperations) -> None:
    await chats.running("c1")
    await machine.send("c1", prompt("old"), key=key("old"))
    chats.clock.advance(1)
    await machine.send("c1", prompt("young"), key=key("young"))
    chats.clock.advance(KEY_LIFETIME / 1e6 - 0.5)
    await chats.do(machines.forget_old_keys)
    assert [row[1] for row in (await chats.everything())["requests"]] == ["young"]


async def test_the_same_request_many_times_at_once_is_carried_out_once(
    chats: Chats, machine: UserOperations
) -> None:
    await chats.running("c1")
    answers: list[Any] = []

    async def send() -> None:
        answers.append(await machine.send("c1", prompt("once"), key=key()))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(send)
    assert await chats.queued() == ["once"]
    assert len(answers) == 5
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("refused", [False, True])
async def test_the_same_key_in_flight_waits_for_the_first(postgres: Chats, refused: bool) -> None:
    chats, machine = postgres, UserOperations(postgres.db, ports())
    await chats.running("c1")
    asked, go = anyio.Event(), anyio.Event()
    answers: list[Any] = []

    async def first_change(tx: Tx) -> Any:
        from holdfast.chat.rows import Queued
        from holdfast.chat.transitions import user

        sent = await user.send(tx, "c1", Queued("m1", "queue", prompt("first"), 0))
        asked.set()
        await go.wait()
        if refused:
            raise ChatError("refused after all")
        return sent

    async def first() -> None:
        from holdfast.chat.transitions.user import Sent

        try:
            answers.append(await machine._once(key(), Sent, first_change))
        except ChatError:
            answers.append(None)

    async def second() -> None:
        answers.append(await machine.send("c1", prompt("second"), key=key()))

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
    machine = UserOperations(Forgetful(chats.db, 3), ports())
    sent = await machine.send("c1", prompt("once"), key=key())
    assert sent.queued is not None
    assert await chats.queued() == ["once"]


async def test_an_acknowledgement_that_stays_lost_is_said_so(chats: Chats) -> None:
    await chats.running("c1")
    machine = UserOperations(Forgetful(chats.db, 5), ports())
    with pytest.raises(OutcomeUnknown):
        await machine.send("c1", prompt("once"), key=key())
    with pytest.raises(OutcomeUnknown):
        await machine.send("c1", prompt("without a key"))
    assert await chats.queued() == ["once", "without a key"]


async def test_an_answer_with_odd_text_in_it_comes_back_as_it_was(
    chats: Chats, machine: UserOperations
) -> None:
    await chats.running("c1")
    odd: Message = prompt("nul \x00, half a pair \ud800")
    await machine.send("c1", odd)
    (waiting,) = await machine.reorder("c1", [await _only(chats)], key=key())
    again = await machine.reorder("c1", [waiting.id], key=key())
    assert again == [waiting]
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
    chats, machine = postgres, UserOperations(postgres.db, ports())
    await machine.create(empty("c1"), key())
    await machine.delete("c1")
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
        answers.append(await machine.create(empty("c3"), key()))
        go.set()
    assert [chat.id for chat in answers] == ["c3", "c3"]
    assert [chat.id for chat in await chats.ask(queries.list_chats)] == ["c3"]
