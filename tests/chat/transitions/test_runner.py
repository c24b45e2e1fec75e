"""What a runner writes, and the fence around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import anyio
import pytest
from msgspec import structs

from holdfast.chat import queries
from holdfast.chat.errors import Fenced
from holdfast.chat.journal import NO_RESULT_TEXT
from holdfast.chat.rows import Charge, ChatRow, Status, TurnOutcome, fence_of
from holdfast.chat.state_machine import Transition
from holdfast.chat.transitions import lifecycle, runner, user
from holdfast.chat.transitions.commit_step import (
    COMMIT_STEP,
    FENCE_LOST,
    Committed,
    FenceLost,
    StepCommit,
)
from holdfast.kernel.messages import Message, Text, Usage, results_message
from holdfast.kernel.tool_results import TOOK_EFFECT
from holdfast.store.database import NO_PARAMS, Changed, Dialect, Params, Row, Tx
from tests.chat.cells import ACTS, CELLS, RUNNERS, bring, cell
from tests.chat.chats import (
    FAILURE,
    ME,
    SECOND,
    Chats,
    answer,
    asks,
    given_result,
    leftover,
    made,
    prompt,
    row_of_call,
)
from tests.chat.sessions import until_blocked

# --- the fence ---

STALE: dict[str, Callable[[ChatRow], ChatRow]] = {
    "epoch": lambda chat: structs.replace(chat, epoch=chat.epoch - 1),
    "status": lambda chat: structs.replace(
        chat,
        status=Status.RUNNING if chat.status is not Status.RUNNING else Status.INTERRUPTING,
    ),
    "history_version": lambda chat: structs.replace(chat, history_version=chat.history_version - 1),
    "attempt": lambda chat: structs.replace(chat, attempt=chat.attempt + 1),
    "chat": lambda chat: structs.replace(chat, id="nowhere"),
}


@pytest.mark.parametrize("part", STALE)
async def test_a_runner_that_was_started_on_something_else_writes_nothing(
    chats: Chats, part: str
) -> None:
    places = {(transition, status) for status, transition, _ in CELLS if transition in RUNNERS}
    for transition, status in sorted(places):
        if transition is Transition.FINISH_CALL and part not in ("epoch", "chat"):
            continue  # a result is kept also when the chat has moved on
        with cell(transition, status, part):
            chat = await bring(chats, f"{transition}-{status}", status, transition)
            before = await chats.everything()
            chats.take_notices()
            with pytest.raises(Fenced):
                await ACTS[transition](chats, STALE[part](chat))
            assert (await chats.everything(), chats.take_notices()) == (before, [])


@pytest.mark.parametrize("part", STALE)
async def test_a_plain_step_of_a_runner_that_was_started_on_something_else_is_lost(
    chats: Chats, part: str
) -> None:
    if part == "status":
        chat = structs.replace(await chats.interrupting("c1"), status=Status.RUNNING)
    else:
        chat = STALE[part](await chats.running("c1"))
    before = await chats.everything()
    chats.take_notices()
    step = StepCommit(fence_of(chat), (answer("too late"),))
    assert isinstance(await chats.db.write_together(COMMIT_STEP, step), FenceLost)
    assert isinstance(await chats.do(COMMIT_STEP.alone, step), FenceLost)
    assert (await chats.everything(), chats.take_notices()) == (before, [])


async def test_a_runner_that_let_go_of_its_chat_writes_nothing_more(chats: Chats) -> None:
    for transition in sorted(RUNNERS - {Transition.SETTLE, Transition.EXPIRE}):
        with cell(transition):
            chat = await bring(chats, transition, Status.RUNNING, transition)
            await chats.do(runner.release, fence_of(chat))
            before = await chats.everything()
            with pytest.raises(Fenced):
                await ACTS[transition](chats, chat)
            step = StepCommit(fence_of(chat), (answer("too late"),))
            assert isinstance(await chats.db.write_together(COMMIT_STEP, step), FenceLost)
            await chats.do(runner.write_partial, fence_of(chat), 1, answer("half"))
            assert await chats.everything() == before


async def test_a_commit_whose_acknowledgement_was_lost_is_not_made_twice(chats: Chats) -> None:
    chat = await chats.running("c1")
    step = StepCommit(fence_of(chat), (answer("once"),))
    assert isinstance(await chats.db.write_together(COMMIT_STEP, step), Committed)
    assert isinstance(await chats.db.write_together(COMMIT_STEP, step), FenceLost)
    assert await chats.texts() == ["hello", "once"]


# --- committing a step, in three forms ---

USED = Usage(10, 5, 2, 3, 1, 0.25)
MESSAGES = (
    answer("first", asks("a"), usage=USED, runtime=42),
    results_message([made("a")]),
    answer("unpriced", usage=structs.replace(USED, cost=None)),
)


async def test_one_step_many_steps_and_a_step_that_does_more_are_written_alike(
    chats: Chats,
) -> None:
    alone = await chats.running("alone")
    more = await chats.running("more")
    for id in ("many1", "many2"):
        await chats.running(id)
    await chats.do(COMMIT_STEP.alone, StepCommit(fence_of(alone), MESSAGES))
    await chats.do(runner.commit_step, fence_of(more), runner.Outcome(messages=MESSAGES))

    async def one(id: str) -> None:
        step = StepCommit(fence_of(await chats.row(id)), MESSAGES)
        assert isinstance(await chats.db.write_together(COMMIT_STEP, step), Committed)

    async with anyio.create_task_group() as group:
        group.start_soon(one, "many1")
        group.start_soon(one, "many2")
    everything = await chats.everything()
    rows = {
        table: {id: [row for row in everything[table] if row[0] == id] for id in NAMED}
        for table in ("chats", "messages")
    }
    for table, of in rows.items():
        shown = {id: [str(row).replace(f"'{id}'", "'-'") for row in of[id]] for id in NAMED}
        assert all(shown[id] == shown["alone"] for id in NAMED), table
    assert [row[1:3] for row in rows["messages"]["alone"]] == [(1, 1), (2, 3), (3, 3), (4, 3)]


NAMED = ("alone", "more", "many1", "many2")


async def test_one_bad_step_of_many_is_its_owners_alone(postgres: Chats) -> None:
    chats = postgres
    fine, locked = await chats.running("fine"), await chats.running("locked")
    stale = [STALE[part](await chats.running(part)) for part in ("epoch", "history_version")]
    stale.append(STALE["attempt"](await chats.running("attempt")))
    stale.append(await chats.running("released"))
    await chats.do(runner.release, fence_of(stale[-1]))
    stale.append(await chats.running("stopped"))
    await chats.do(user.interrupt, "stopped")
    before = {chat.id: await chats.row(chat.id) for chat in stale}
    hold, go = anyio.Event(), anyio.Event()

    async def keep_locked(tx: Tx) -> None:
        await user.update(tx, "locked", {"title": "meanwhile"})
        hold.set()
        await go.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(chats.db.write, keep_locked)
        await hold.wait()
        steps = [StepCommit(fence_of(chat), MESSAGES) for chat in (*stale, locked, fine)]
        chats.take_notices()
        outcomes = await chats.do(COMMIT_STEP.together, steps)
        told = chats.take_notices()
        go.set()
    *lost, waits, committed = outcomes
    assert lost == [FENCE_LOST] * 5
    assert waits is None
    assert isinstance(committed, Committed)
    assert told == [Changed("fine", committed.version)]
    assert (await chats.row("fine")).messages == committed.messages == fine.messages + 3
    assert {chat.id: await chats.row(chat.id) for chat in stale} == before
    assert (await chats.row("locked")).messages == locked.messages
    assert isinstance(await chats.do(COMMIT_STEP.alone, steps[-2]), Committed)
    assert (await chats.row("locked")).snapshot_version == locked.snapshot_version + 2


# One step with one message is given to the same statement as plain values, more as arrays.


async def test_a_step_alone_in_its_group_is_written_as_among_others(postgres: Chats) -> None:
    chats = postgres
    for id in ("alone", "among", "other"):
        await chats.running(id, queue=["queue"])
    for version, message in enumerate(MESSAGES, start=4):
        alone, among, other = [
            StepCommit(fence_of(await chats.row(id)), (message,))
            for id in ("alone", "among", "other")
        ]
        chats.take_notices()
        outcomes = [
            *await chats.do(COMMIT_STEP.together, [alone]),
            *await chats.do(COMMIT_STEP.together, [among, other]),
        ]
        assert outcomes == [Committed(version, version - 2, 3)] * 3
        assert chats.take_notices() == [
            Changed(step.chat, version) for step in (alone, among, other)
        ]
    everything = await chats.everything()
    for table in ("chats", "messages"):
        written = {
            id: [str(row).replace(f"'{id}'", "'-'") for row in everything[table] if row[0] == id]
            for id in ("alone", "among")
        }
        assert written["alone"] == written["among"] != [], table


@pytest.mark.parametrize("why", [*STALE, "released"])
async def test_a_step_alone_in_its_group_is_refused_as_among_others(
    postgres: Chats, why: str
) -> None:
    chats = postgres
    stale, fine = await chats.running("stale"), await chats.running("fine")
    if why == "released":
        await chats.do(runner.release, fence_of(stale))
    elif why == "status":
        await chats.do(user.interrupt, "stale")
    else:
        stale = STALE[why](stale)
    before = await chats.everything()
    chats.take_notices()
    step = StepCommit(fence_of(stale), (answer("too late"),))
    assert await chats.do(COMMIT_STEP.together, [step]) == [None if why == "chat" else FENCE_LOST]
    assert (await chats.everything(), chats.take_notices()) == (before, [])
    both = [step, StepCommit(fence_of(fine), (answer("done"),))]
    refused, committed = await chats.do(COMMIT_STEP.together, both)
    assert refused == (None if why == "chat" else FENCE_LOST)
    assert isinstance(committed, Committed)


async def test_a_step_alone_in_its_group_does_not_wait_for_its_chat(postgres: Chats) -> None:
    chats = postgres
    locked = await chats.running("locked")
    hold, go = anyio.Event(), anyio.Event()

    async def keep_locked(tx: Tx) -> None:
        await user.update(tx, "locked", {"title": "meanwhile"})
        hold.set()
        await go.wait()

    step = StepCommit(fence_of(locked), (answer("done"),))
    async with anyio.create_task_group() as group:
        group.start_soon(chats.db.write, keep_locked)
        await hold.wait()
        assert await chats.do(COMMIT_STEP.together, [step]) == [None]
        go.set()
    (committed,) = await chats.do(COMMIT_STEP.together, [step])
    assert isinstance(committed, Committed)
    assert committed.version == locked.snapshot_version + 2


class Explaining:
    """How the server would go about the one statement of a transaction."""

    def __init__(self, inner: Tx) -> None:
        self._inner = inner
        self.plan = ""

    @property
    def dialect(self) -> Dialect:
        return self._inner.dialect

    async def fetch(self, sql: str, params: Params = NO_PARAMS) -> Sequence[Row]:
        rows = await self._inner.fetch(f"EXPLAIN {sql}", params)
        self.plan = "\n".join(row[0] for row in rows)
        return []


class Plan:
    """The way of `COMMIT_STEP` on the committer's own connection."""

    async def alone(self, tx: Tx, steps: Sequence[StepCommit]) -> str:
        raise AssertionError("it takes part")

    async def together(self, tx: Tx, many: Sequence[Sequence[StepCommit]]) -> Sequence[str]:
        explaining = Explaining(tx)
        await COMMIT_STEP.together(cast(Tx, explaining), many[0])
        return [explaining.plan]


@pytest.mark.parametrize("ids", [["a"], ["a", "b"]], ids=len)
async def test_a_step_looks_at_no_chat_but_its_own(postgres: Chats, ids: list[str]) -> None:
    steps = [StepCommit(fence_of(await postgres.running(id)), (answer("done"),)) for id in ids]
    plan = await postgres.db.write_together(Plan(), steps)
    assert plan.count("Index Scan using chats_pkey") == 2
    assert "Seq Scan" not in plan
    assert "chats_busy" not in plan


async def test_a_step_that_finds_its_chat_locked_waits_for_it_alone(postgres: Chats) -> None:
    chats = postgres
    fine, locked = await chats.running("fine"), await chats.running("locked")
    hold, go = anyio.Event(), anyio.Event()
    done: dict[str, Any] = {}

    async def keep_locked(tx: Tx) -> None:
        await user.interrupt(tx, "locked")
        hold.set()
        await go.wait()

    async def commit(chat: ChatRow) -> None:
        step = StepCommit(fence_of(chat), (answer("done"),))
        done[chat.id] = await chats.db.write_together(COMMIT_STEP, step)

    async with anyio.create_task_group() as group:
        group.start_soon(chats.db.write, keep_locked)
        await hold.wait()
        group.start_soon(commit, locked)
        group.start_soon(commit, fine)
        await until_blocked(chats.db)
        assert isinstance(done["fine"], Committed)
        assert "locked" not in done
        go.set()
    assert isinstance(done["locked"], FenceLost)  # the interrupt came first
    assert await chats.texts("locked") == ["hello"]


async def test_a_step_of_a_chat_that_is_gone_is_lost(chats: Chats) -> None:
    await chats.running("c1")
    await chats.running("c2")
    gone = structs.replace(fence_of(await chats.row("c1")), chat="gone")
    outcomes: list[Any] = []

    async def commit(fence: Any) -> None:
        outcomes.append(await chats.db.write_together(COMMIT_STEP, StepCommit(fence, MESSAGES)))

    async with anyio.create_task_group() as group:
        group.start_soon(commit, gone)
        group.start_soon(commit, fence_of(await chats.row("c2")))
    assert {type(one) for one in outcomes} == {Committed, FenceLost}


async def test_a_commit_takes_the_journal_along_and_forgets_crashes(chats: Chats) -> None:
    chat = await chats.running("c1", calls={"a": "started", "b": "recorded", "c": "open"})
    results = (made("a"), made("b"), made("c"))
    outcome = runner.Outcome(
        results=results,
        charges=(Charge("attempt:1", "attempt", USED),),
    )
    advanced = await chats.do(runner.commit_step, fence_of(chat), outcome)
    assert (await chats.texts())[2:] == ["a=ok b=ok c=ok"]
    assert [s.number for s in advanced.appended] == [3]
    assert (await chats.load()).journal == {}
    calls = {row[1]: (row[5], row[-2], row[-1]) for row in (await chats.everything())["tool_calls"]}
    assert calls == {"a": ("finished", None, "ok"), "b": ("finished", None, "ok")}


# --- calls ---


async def test_the_start_of_a_call_is_written_down_before_anything_comes_of_it(
    chats: Chats,
) -> None:
    chat = await chats.running("c1", calls={"a": "started", "b": "waiting"})
    journal = (await chats.load()).journal
    assert (journal["a"].state, journal["a"].epoch) == ("started", chat.epoch)
    assert journal["b"].state == "waiting"
    assert fence_of(await chats.row()) == fence_of(chat)


@pytest.mark.parametrize("again", ["started", "waiting"])
async def test_a_start_that_is_written_again_does_not_undo_what_somebody_answered(
    chats: Chats, again: Any
) -> None:
    chat = await chats.running("c1", calls={"a": "waiting", "b": "waiting"})
    rows = [row_of_call(chat, call, again) for call in ("a", "b")]
    await chats.do(user.resolve, "c1", {"a": given_result("a", "my answer")})
    before = await chats.everything()
    with pytest.raises(Fenced):
        await chats.do(runner.start_calls, fence_of(chat), rows)
    assert await chats.everything() == before
    await chats.do(runner.start_calls, fence_of(chat), rows[1:])
    journal = (await chats.load()).journal
    assert journal["a"].result is not None
    assert journal["b"].state == again


async def test_waiting_again_does_not_undo_an_approval(chats: Chats) -> None:
    chat = await chats.running("c1", calls={"a": "approved"})
    with pytest.raises(Fenced):
        await chats.do(
            runner.start_calls,
            fence_of(chat),
            [row_of_call(chat, "a", "waiting", action="approval")],
        )
    await chats.do(runner.start_calls, fence_of(chat), [row_of_call(chat, "a", "started")])
    assert (await chats.load()).journal["a"].state == "started"


async def test_a_result_is_kept_as_soon_as_there_is_one_and_once(chats: Chats) -> None:
    chat = await chats.running("c1", calls={"a": "started", "b": "open"})
    for call in ("a", "b"):
        result = row_of_call(chat, call, "finished", result=made(call))
        assert await chats.do(runner.finish_call, "c1", result)
    now = await chats.row()
    assert now.snapshot_version == chat.snapshot_version + 2
    assert fence_of(now) == fence_of(chat)
    before = await chats.everything()
    assert not await chats.do(
        runner.finish_call,
        "c1",
        row_of_call(chat, "a", "finished", result=made("a", "another one")),
    )
    assert await chats.everything() == before
    journal = (await chats.load()).journal
    assert {id: call.result and call.result.text for id, call in journal.items()} == {
        "a": "done",
        "b": "done",
    }


async def test_a_result_that_comes_during_an_interrupt_is_kept(chats: Chats) -> None:
    running_chat = await chats.running("c1", calls={"a": "started", "b": "started"})
    chat = await chats.do(user.interrupt, "c1")
    assert await chats.do(
        runner.finish_call, "c1", row_of_call(running_chat, "a", "finished", result=made("a"))
    )
    await chats.do(runner.settle, fence_of(chat), leftover())
    assert (await chats.texts())[2:] == ["a=ok", "b=interrupted"]


async def test_a_result_of_another_epoch_is_not_kept(chats: Chats) -> None:
    chat = await chats.running("c1", calls={"a": "started"})
    await chats.do(runner.release, fence_of(chat))
    assert await chats.claim(worker="w2") == ["c1"]
    before = await chats.everything()
    late = row_of_call(chat, "a", "finished", result=made("a"))
    assert not await chats.do(runner.finish_call, "c1", late)
    assert await chats.everything() == before


@pytest.mark.parametrize("state", ["started", "open"])
async def test_a_result_that_comes_after_its_call_was_answered_is_not_kept(
    chats: Chats, state: Any
) -> None:
    chat = await chats.running("c1", calls={"a": state}, queue=("queue",))
    stopped = await chats.do(user.interrupt, "c1")
    await chats.do(runner.settle, fence_of(stopped), leftover())
    assert (await chats.row()).status is Status.RUNNING
    before = await chats.everything()
    late = row_of_call(chat, "a", "finished", result=made("a"))
    assert not await chats.do(runner.finish_call, "c1", late)
    assert await chats.everything() == before


async def test_a_result_that_waits_for_an_edit_finds_its_call_superseded(postgres: Chats) -> None:
    chats = postgres
    chat = await chats.running("c1", calls={"a": "open", "b": "started"})
    edited, go = anyio.Event(), anyio.Event()
    kept: list[bool] = []

    async def edit(tx: Tx) -> None:
        await user.edit(tx, "c1", 1, prompt("else"))
        edited.set()
        await go.wait()

    async def finish(call: str) -> None:
        row = row_of_call(chat, call, "finished", result=made(call))
        kept.append(await chats.do(runner.finish_call, "c1", row))

    async with anyio.create_task_group() as group:
        group.start_soon(chats.db.write, edit)
        await edited.wait()
        group.start_soon(finish, "a")
        group.start_soon(finish, "b")
        await until_blocked(chats.db, 2)
        go.set()
    assert kept == [False, False]
    assert (await chats.load()).journal == {}


# --- the end of an interrupted turn ---


async def settled(
    chats: Chats, *, marker: Message | None = None, **produced: Any
) -> runner.Advanced:
    fence = fence_of(await chats.row())
    return await chats.do(runner.settle, fence, leftover(**produced), marker)


MARKER = Message("user", (Text("The user interrupted."),), "marker", "model")


async def test_an_interrupted_turn_keeps_results_and_answers_every_other_call(
    chats: Chats,
) -> None:
    calls = {"a": "recorded", "b": "started", "c": "waiting", "d": "open", "e": "started"}
    await chats.interrupting("c1", calls=calls)
    advanced = await settled(chats, results=(made("e", "just in time"),), marker=MARKER)
    assert (await chats.texts())[2:] == [
        "a=ok e=ok",
        "b=interrupted c=interrupted d=interrupted",
        "The user interrupted.",
    ]
    texts = {r.call_id: r.text for s in await chats.history() for r in s.message.results}
    assert texts["b"] == NO_RESULT_TEXT["interrupted"] + TOOK_EFFECT
    assert texts["c"] == texts["d"] == NO_RESULT_TEXT["interrupted"]
    assert advanced.chat.status is Status.IDLE
    assert (advanced.chat.outcome, advanced.chat.worker_id) == (TurnOutcome("interrupted"), None)
    assert (await chats.load()).journal == {}


async def test_an_answer_whose_commit_lost_to_the_interrupt_is_kept_whole(chats: Chats) -> None:
    await chats.interrupting("c1")
    whole = answer("all of it", asks("a"), usage=USED)
    await settled(chats, answer=whole, marker=MARKER)
    assert (await chats.texts())[1:] == ["all of it ?a", "a=interrupted", "The user interrupted."]
    spent = await chats.ask(queries.spent, "c1")
    assert spent.usage == USED


async def test_an_interrupted_turn_that_left_nothing_adds_nothing(chats: Chats) -> None:
    before = await chats.interrupting("c1")
    advanced = await settled(chats)
    assert advanced.appended == ()
    assert advanced.chat.history_version == before.history_version
    assert advanced.chat.status is Status.IDLE


@pytest.mark.parametrize("by", ["a settlement", "a commit"])
async def test_what_is_recorded_of_a_call_is_its_result_whatever_its_runner_says(
    chats: Chats, by: str
) -> None:
    calls: dict[str, Any] = {"a": "recorded", "b": "open"}
    told = (made("a", "cut off", "interrupted"), made("b"))
    if by == "a commit":
        chat = await chats.running("c1", calls=calls)
        outcome = runner.Outcome(results=told)
        advanced = await chats.do(runner.commit_step, fence_of(chat), outcome)
    else:
        await chats.interrupting("c1", calls=calls)
        advanced = await settled(chats, results=told)
    results = advanced.appended[0].message.results
    assert [(one.call_id, one.outcome) for one in results] == [("a", "ok"), ("b", "ok")]


async def test_a_settled_chat_goes_on_with_what_waits(chats: Chats) -> None:
    await chats.running("c1", calls={"a": "open"})
    await chats.send("c1", "do this instead", "interrupt")
    advanced = await settled(chats, marker=MARKER)
    assert (await chats.texts())[2:] == [
        "a=interrupted",
        "The user interrupted.",
        "do this instead",
    ]
    assert (advanced.chat.status, advanced.chat.outcome, advanced.chat.worker_id) == (
        Status.RUNNING,
        None,
        ME,
    )


# --- failing, and trying again ---


async def test_an_error_keeps_calls_open_and_the_partial_answer_for_people_alone(
    chats: Chats,
) -> None:
    chat = await chats.running("c1", calls={"a": "started"})
    half = structs.replace(answer("half an"), visibility="user", finish="error")
    charges = (Charge("attempt:1", "attempt", USED),)
    advanced = await chats.do(runner.fail, fence_of(chat), FAILURE, half, charges)
    assert (advanced.chat.status, advanced.chat.error) == (Status.ERROR, FAILURE)
    assert (advanced.chat.outcome, advanced.chat.worker_id) == (TurnOutcome("error"), None)
    assert (await chats.load()).journal["a"].state == "started"
    await chats.send("c1", "go on")
    assert (await chats.texts())[2:] == ["half an", "a=skipped", "go on"]
    assert (await chats.ask(queries.spent, "c1")).usage == USED


async def test_a_retry_is_shown_and_counted_and_ends_with_the_next_commit(chats: Chats) -> None:
    chat = await chats.running("c1")
    first = await chats.do(
        runner.record_retry,
        fence_of(chat),
        FAILURE,
        5,
        2 * SECOND,
        (Charge("attempt:1", "attempt", USED),),
    )
    assert first.chat.retry is not None
    assert (first.chat.retry.attempt, first.chat.retry.of, first.chat.retry.at) == (
        1,
        5,
        chats.after(2),
    )
    assert (first.chat.attempt, first.chat.worker_id) == (2, ME)
    second = await chats.do(runner.record_retry, first.fence, FAILURE, 5, 4 * SECOND)
    assert second.chat.retry is not None
    assert (second.chat.retry.attempt, second.chat.attempt) == (2, 3)
    assert second.chat.history_version == chat.history_version
    await chats.commit("c1", answer("at last"))
    now = await chats.row()
    assert (now.attempt, now.retry, now.retry_at) == (1, None, None)


async def test_whatever_enters_the_history_is_followed_by_a_first_attempt(chats: Chats) -> None:
    async def commits(chat: ChatRow) -> None:
        outcome = runner.Outcome(messages=(answer("at last"),))
        await chats.do(runner.commit_step, fence_of(chat), outcome)

    async def steers(chat: ChatRow) -> None:
        await chats.send(chat.id, "rather this", "steer")
        await chats.do(runner.deliver, fence_of(chat))

    async def edits(chat: ChatRow) -> None:
        await chats.do(user.edit, chat.id, 1, prompt("else"))

    for number, change in enumerate([commits, steers, edits]):
        chat = await chats.running(f"c{number}")
        tried = await chats.do(runner.record_retry, fence_of(chat), FAILURE, 5, SECOND)
        assert tried.chat.attempt == 2
        await change(tried.chat)
        now = await chats.row(chat.id)
        assert (now.attempt, now.retry, now.retry_at) == (1, None, None), change.__name__


async def test_a_long_wait_for_the_next_attempt_belongs_to_nobody(chats: Chats) -> None:
    chat = await chats.running("c1")
    chats.take_notices()
    advanced = await chats.do(
        runner.record_retry, fence_of(chat), FAILURE, 5, 60 * SECOND, release=True
    )
    assert advanced.chat.worker_id is None
    assert [type(notice).__name__ for notice in chats.take_notices()] == ["Changed"]
    assert await chats.claim() == []
    chats.clock.advance(60)
    assert await chats.claim() == ["c1"]
    assert (await chats.row()).crashes == 0


# --- partial answers ---


async def test_what_has_arrived_of_an_answer_is_there_until_it_is_committed(chats: Chats) -> None:
    chat = await chats.running("c1")
    await chats.do(runner.write_partial, fence_of(chat), 1, answer("half"))
    await chats.do(runner.write_partial, fence_of(chat), 2, answer("half an"))
    partial = (await chats.load()).partial
    assert partial is not None
    assert (partial.seq, partial.message.text) == (2, "half an")
    assert (await chats.row()).snapshot_version == chat.snapshot_version
    outcome = runner.Outcome(messages=(answer("half an answer"),))
    await chats.do(runner.commit_step, fence_of(chat), outcome)
    assert (await chats.load()).partial is None
    assert (await chats.everything())["partials"] == []


async def test_what_has_arrived_of_an_attempt_that_failed_is_not_kept(chats: Chats) -> None:
    chat = await chats.running("c1")
    await chats.do(runner.write_partial, fence_of(chat), 1, answer("half"))
    await chats.do(runner.record_retry, fence_of(chat), FAILURE, 5, SECOND)
    assert (await chats.everything())["partials"] == []


async def test_a_partial_answer_that_was_overtaken_is_not_written_over_a_longer_one(
    chats: Chats,
) -> None:
    chat = await chats.running("c1")
    await chats.do(runner.write_partial, fence_of(chat), 2, answer("half an"))
    await chats.do(runner.write_partial, fence_of(chat), 1, answer("half"))
    partial = (await chats.load()).partial
    assert partial is not None
    assert (partial.seq, partial.message.text) == (2, "half an")


async def test_a_partial_answer_outlives_the_worker_that_wrote_it(chats: Chats) -> None:
    chat = await chats.running("c1")
    await chats.do(runner.write_partial, fence_of(chat), 1, answer("half"))
    await chats.do(user.interrupt, "c1")
    chats.clock.advance(60)
    assert await chats.claim("urgent", worker="w2") == ["c1"]
    loaded = await chats.load()
    assert loaded.partial is not None
    assert (loaded.partial.message.text, loaded.partial.epoch) == ("half", chat.epoch)


async def test_a_partial_answer_to_another_history_or_attempt_is_not_given(chats: Chats) -> None:
    for id in ("edited", "committed"):
        chat = await chats.running(id)
        await chats.do(runner.write_partial, fence_of(chat), 1, answer("half"))
    await chats.do(user.edit, "edited", 1, prompt("else"))
    await chats.commit("committed", answer("whole"))
    assert (await chats.load("edited")).partial is None
    assert (await chats.load("committed")).partial is None


async def test_a_late_partial_answer_is_not_written(chats: Chats) -> None:
    chat = await chats.running("c1")
    await chats.commit("c1", answer("whole"))
    before = await chats.everything()
    await chats.do(runner.write_partial, fence_of(chat), 1, answer("half"))
    assert await chats.everything() == before


# --- letting go ---


async def test_a_released_chat_is_anothers_at_once_and_no_crash(chats: Chats) -> None:
    chat = await chats.running("c1")
    chats.take_notices()
    released = await chats.do(runner.release, fence_of(chat))
    assert (released.worker_id, released.status) == (None, Status.RUNNING)
    assert [type(notice).__name__ for notice in chats.take_notices()] == ["Changed", "Claimable"]
    assert await chats.claim(worker="w2") == ["c1"]
    assert (await chats.row()).crashes == 0


async def test_a_chat_that_moved_on_can_be_released_all_the_same(chats: Chats) -> None:
    chat = await chats.running("c1")
    await chats.do(user.interrupt, "c1")
    released = await chats.do(runner.release, fence_of(chat))
    assert (released.worker_id, released.status) == (None, Status.INTERRUPTING)
    with pytest.raises(Fenced):
        await chats.do(runner.release, fence_of(chat))


async def test_a_chat_that_is_gone_cannot_be_released(chats: Chats) -> None:
    chat = await chats.requires_action("c1", owned=True)
    await chats.do(lifecycle.delete, "c1")
    with pytest.raises(Fenced):
        await chats.do(runner.release, fence_of(chat))
    with pytest.raises(Fenced):
        await chats.do(runner.expire, fence_of(chat))


# --- dead ends of other systems ---


async def test_an_interrupt_ends_also_when_a_call_waits_for_a_client(chats: Chats) -> None:
    """A turn must not hang on a result that nobody will bring any more."""
    await chats.interrupting("c1", calls={"local": "started", "client": "waiting"})
    advanced = await settled(chats)
    assert advanced.chat.status is Status.IDLE
    assert (await chats.texts())[2:] == ["local=interrupted client=interrupted"]


async def test_finished_results_are_kept_although_a_sibling_was_interrupted(chats: Chats) -> None:
    await chats.interrupting("c1", calls={"quick": "recorded", "slow": "started"})
    await settled(chats)
    assert (await chats.texts())[2:] == ["quick=ok", "slow=interrupted"]
