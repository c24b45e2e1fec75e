"""A person stops a chat: it really stops, and what it had produced is kept."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from holdfast.chat.export import markdown
from holdfast.chat.queries import spent
from holdfast.chat.rows import TurnOutcome
from holdfast.chat.snapshots import snapshot_of
from holdfast.chat.transitions import lifecycle, user
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.hooks import Context
from holdfast.kernel.assemble import HALF_WRITTEN
from holdfast.kernel.messages import Reasoning, Usage
from holdfast.kernel.model import ArgumentsDelta, CallEnded, CallStarted, Finished, Ping
from holdfast.kernel.policy import Wording
from holdfast.kernel.summary_checkpoint import SUMMARY_SECTIONS
from holdfast.kernel.tool import tool
from holdfast.store.database import Database
from holdfast.testing import (
    Clock,
    ScriptedModel,
    ScriptItem,
    call,
    call_raw,
    cut,
    fail,
    hang,
    pause,
    say,
    think,
)
from holdfast.testing import usage as reports
from tests.worker.workers import SECOND, Life, asks, living, results_of, soon

DURING_ANSWER = f"marker: {Wording().interrupted_answer}"
DURING_TOOLS = f"marker: {Wording().interrupted_tools}"
STOPPED = "Interrupted by the user."
PERHAPS = f"{STOPPED} It may have taken effect."


async def stop_after(life: Life, chat_id: str, seconds: float, clock: Clock) -> None:
    """Stop the chat; it rests within a second."""
    await anyio.sleep(seconds)
    before = clock.now()
    chat = await life.interrupted(chat_id)
    assert clock.now() - before < SECOND
    assert chat.status == "idle"
    assert chat.outcome is not None
    assert chat.outcome.reason == "interrupted"
    assert chat.worker_id is None


# --- while the model answers --------------------------------------------------------------------


async def test_what_had_arrived_of_an_answer_is_kept(db: Database, clock: Clock) -> None:
    script = [[think("hm", signature="s"), say("Half"), hang()], "Next."]
    async with living(db, script, clock=clock) as life:
        chat_id = await life.begin()
        await stop_after(life, chat_id, 5, clock)
        _, partial, marker = await life.history(chat_id)
        assert (partial.text, partial.finish) == ("Half", "interrupted")
        assert [p.text for p in partial.parts if isinstance(p, Reasoning)] == ["hm"]
        assert (marker.kind, marker.visibility) == ("marker", "model")
        assert marker.text == Wording().interrupted_answer
        await life.send(chat_id, "go on")
        await life.rest(chat_id)
        request = life.agent.model.requests[-1]  # type: ignore[union-attr]
        assert [m.text for m in request.messages] == ["?", "Half", marker.text, "go on"]


async def test_nothing_visible_leaves_no_message(db: Database, clock: Clock) -> None:
    async with living(db, [[hang()]], clock=clock) as life:
        chat_id = await life.begin()
        await stop_after(life, chat_id, 5, clock)
        assert await life.lines(chat_id) == ["prompt: ?", DURING_ANSWER]


async def test_before_the_first_word_after_tools_the_model_was_answering(
    db: Database, clock: Clock
) -> None:
    @tool(effect="pure")
    async def look() -> str:
        return "found"

    async with living(db, [call("look"), [hang()]], [look], clock=clock) as life:
        chat_id = await life.begin()
        await stop_after(life, chat_id, 5, clock)
        assert (await life.lines(chat_id))[2:] == ["results: ok found", DURING_ANSWER]


async def test_a_chat_that_nobody_has_begun_with_is_stopped(db: Database, clock: Clock) -> None:
    async with living(db, [], clock=clock) as life:
        await life.hold("claim")
        chat_id = await life.begin()
        await life.do(user.interrupt, chat_id)
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert await life.lines(chat_id) == ["prompt: ?", DURING_ANSWER]


async def test_complete_calls_of_half_an_answer_are_kept_and_answered(
    db: Database, clock: Clock
) -> None:
    @tool
    async def act() -> str:
        return "never"

    script: list[Any] = [
        [say("Let me."), call("act"), call_raw("act", '{"a', ended=False), hang()],
        "I see.",
    ]
    async with living(db, script, [act], clock=clock) as life:
        chat_id = await life.begin()
        await stop_after(life, chat_id, 5, clock)
        assert await life.lines(chat_id) == [
            "prompt: ?",
            "answer: Let me. →act",
            f"answer: →act interrupted {HALF_WRITTEN}",
            f"results: interrupted {STOPPED}",
            DURING_ANSWER,
        ]
        await life.send(chat_id, "and?")
        assert (await life.rest(chat_id)).error is None


@pytest.mark.parametrize("before", [[], [say("Let me.")]], ids=["alone", "after text"])
async def test_a_half_written_call_is_kept_for_people_and_never_sent(
    db: Database, clock: Clock, before: list[Any]
) -> None:
    half: list[Any] = [*before, CallStarted("same", "act"), ArgumentsDelta("same", '{"a'), hang()]
    again = [CallStarted("same", "act"), ArgumentsDelta("same", "{}"), CallEnded("same")]
    script: list[Any] = [half, [*again, Finished("tool_calls")], "Done."]

    @tool
    async def act() -> str:
        return "acted"

    async with living(db, script, [act], clock=clock) as life:
        chat_id = await life.begin()
        # What is queued is delivered by the same runner, right after the settlement.
        await soon(1, lambda: life.send(chat_id, "and?"))
        await soon(5, lambda: life.do(user.interrupt, chat_id))
        await life.rest(chat_id)
        (kept,) = [one for one in await life.history(chat_id) if one.visibility == "user"]
        assert (kept.kind, kept.finish, kept.text) == ("answer", "interrupted", "")
        (asked,), (made,) = kept.calls, kept.results
        assert (asked.id, asked.arguments, made.outcome) == ("same", '{"a', "interrupted")
        ids = [call.id for one in await life.history(chat_id) for call in one.calls]
        assert len(ids) == len(set(ids)) == 2
        model = life.agent.model
        assert isinstance(model, ScriptedModel)
        sent = [call.id for message in model.requests[-1].messages for call in message.calls]
        assert "same" not in sent
        stored = await life.stored(chat_id)
        exported = "\n".join(markdown(snapshot_of(await life.chat(chat_id)), stored))
        assert "(interrupted)" in exported
        assert '{"a' in exported


async def test_what_a_pure_call_of_half_an_answer_found_is_kept(db: Database, clock: Clock) -> None:
    @tool(effect="pure")
    async def look() -> str:
        return "found"

    async with living(db, [[call("look"), hang()]], [look], clock=clock) as life:
        chat_id = await life.begin()
        await stop_after(life, chat_id, 5, clock)
        assert (await life.lines(chat_id))[1:3] == ["answer: →look", "results: ok found"]


async def test_what_was_counted_of_half_an_answer_is_kept_with_it_and_counted_once(
    db: Database, clock: Clock
) -> None:
    script = [[Ping(Usage(7, 1)), say("Half"), hang()]]
    async with living(db, script, clock=clock) as life:
        chat_id = await life.begin()
        await stop_after(life, chat_id, 5, clock)
        half = next(one for one in await life.history(chat_id) if one.kind == "answer")
        assert (half.text, half.finish, half.usage) == ("Half", "interrupted", Usage(7, 1))
        counted = await db.read(lambda tx: spent(tx, chat_id))
        assert (counted.usage.input, counted.usage.output, counted.calls) == (7, 1, 1)


@pytest.mark.parametrize("said", [[], [say("Half")]], ids=["nothing", "half"])
async def test_what_was_counted_of_answers_that_were_cut_is_counted(
    db: Database, clock: Clock, said: list[ScriptItem]
) -> None:
    lost = fail(status=503)
    script = [[Ping(Usage(7)), *said, lost], [Ping(Usage(7)), *said, cut()], "Done."]
    async with living(db, script, clock=clock) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        counted = await db.read(lambda tx: spent(tx, chat_id))
        assert (counted.usage.input, counted.calls) == (14, 2)


async def test_a_whole_answer_whose_commit_came_too_late_is_kept_whole(
    db: Database, clock: Clock
) -> None:
    async with living(db, [[reports(input=7, output=3), "Whole."]], clock=clock) as life:
        life.faulty_db.hold("commit")
        chat_id = await life.begin()
        await anyio.sleep(5)
        await life.do(user.interrupt, chat_id)
        life.faulty_db.resume()
        chat = await life.rest(chat_id)
        assert await life.lines(chat_id) == ["prompt: ?", "answer: Whole."]
        answer = (await life.history(chat_id))[-1]
        assert answer.finish == "stop"
        assert answer.usage is not None
        assert (answer.usage.input, answer.usage.output) == (7, 3)
        counted = await db.read(lambda tx: spent(tx, chat_id))
        assert (counted.usage.input, counted.calls) == (7, 1)
        assert chat.outcome is not None
        assert chat.outcome.reason == "interrupted"


async def test_calls_of_an_answer_whose_commit_came_too_late_are_not_run(
    db: Database, clock: Clock
) -> None:
    ran: list[str] = []

    @tool
    async def act() -> str:
        ran.append("act")
        return "done"

    async with living(db, [call("act")], [act], clock=clock) as life:
        life.faulty_db.hold("commit")
        chat_id = await life.begin()
        await anyio.sleep(5)
        await life.do(user.interrupt, chat_id)
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert await life.lines(chat_id) == [
            "prompt: ?",
            "answer: →act",
            f"results: interrupted {STOPPED}",
            DURING_TOOLS,
        ]
        assert ran == []


# --- while tools run ----------------------------------------------------------------------------


async def test_finished_results_are_kept_and_running_calls_are_stopped(
    db: Database, clock: Clock
) -> None:
    undone: list[str] = []

    @tool(effect="once", parallel=True)
    async def quick() -> str:
        return "quick"

    @tool(effect="once", parallel=True)
    async def slow() -> str:
        try:
            await anyio.sleep(3600)
        except BaseException:
            undone.append("slow")
            raise
        return "never"

    @tool(effect="pure", parallel=True)
    async def look() -> str:
        await anyio.sleep(3600)
        return "never"

    @tool(effect="once", parallel=False)
    async def later() -> str:
        raise AssertionError

    script = [[call("quick"), call("slow"), call("look"), call("later")], "Next."]
    async with living(db, script, [quick, slow, look, later], clock=clock) as life:
        chat_id = await life.begin()
        await stop_after(life, chat_id, 5, clock)
        made = {
            one.tool: (one.outcome, one.text) for one in results_of(await life.history(chat_id))
        }
        assert made == {
            "quick": ("ok", "quick"),
            "slow": ("interrupted", PERHAPS),
            "look": ("interrupted", STOPPED),
            "later": ("interrupted", STOPPED),
        }
        assert (await life.lines(chat_id))[-1] == DURING_TOOLS
        assert undone == ["slow"]
        assert await life.journal(chat_id) == {}
        await life.send(chat_id, "and?")
        assert (await life.rest(chat_id)).error is None


async def test_a_tool_that_does_not_obey_is_left_behind_after_its_grace(
    db: Database, clock: Clock
) -> None:
    let_go = anyio.Event()

    @tool(effect="once")
    async def stubborn() -> str:
        with anyio.CancelScope(shield=True):
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except BaseException:
                    continue
        return "too late"

    async with living(db, [call("stubborn"), "Next."], [stubborn], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(5)
        before = clock.now()
        await life.interrupted(chat_id)
        assert 4.9 * SECOND < clock.now() - before < 5.5 * SECOND
        (made,) = results_of(await life.history(chat_id))
        assert made.outcome == "interrupted"
        assert made.text == f"{STOPPED} It may still be running. It may have taken effect."
        history = await life.history(chat_id)
        let_go.set()
        await anyio.sleep(10)
        assert await life.history(chat_id) == history
        assert await life.journal(chat_id) == {}
        await life.send(chat_id, "and?")
        await life.rest(chat_id)
        assert len(results_of(await life.history(chat_id))) == 1


async def test_a_result_that_arrives_while_the_chat_is_being_stopped_is_kept(
    db: Database, clock: Clock
) -> None:
    @tool(effect="once")
    async def careful() -> str:
        try:
            await anyio.sleep(3600)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
        return "stopped half way, and this is how far it came"

    async with living(db, [call("careful")], [careful], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(5)
        await life.interrupted(chat_id)
        (made,) = results_of(await life.history(chat_id))
        assert made.outcome == "ok"
        assert made.text == "stopped half way, and this is how far it came"


# --- while nothing runs -------------------------------------------------------------------------


async def test_the_wait_for_the_next_attempt_is_stopped(db: Database, clock: Clock) -> None:
    script = [[say("Half"), fail(kind="rate_limit", retry_after=25)], "Never."]
    async with living(db, script, clock=clock) as life:
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.retry is not None)
        await stop_after(life, chat_id, 5, clock)
        chat = await life.chat(chat_id)
        assert (chat.retry, chat.retry_at) == (None, None)
        assert await life.lines(chat_id) == ["prompt: ?", DURING_ANSWER]
        assert len(life.agent.model.requests) == 1  # type: ignore[union-attr]


async def test_a_long_wait_that_belongs_to_nobody_is_stopped(db: Database, clock: Clock) -> None:
    async with living(
        db, [fail(kind="rate_limit", retry_after=250), "Never."], clock=clock
    ) as life:
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.retry is not None and chat.worker_id is None)
        await stop_after(life, chat_id, 5, clock)
        assert await life.lines(chat_id) == ["prompt: ?", DURING_ANSWER]


async def test_a_summary_that_was_asked_for_is_stopped(db: Database, clock: Clock) -> None:
    summary = "\n".join(f"## {section}\n-" for section in SUMMARY_SECTIONS)
    script = ["One. " * 500, [say("## Go"), hang()], say(summary)]
    async with living(db, script, clock=clock) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        before = await life.history(chat_id)
        await life.do(user.compact, chat_id)
        await anyio.sleep(5)
        began = clock.now()
        chat = await life.interrupted(chat_id)
        assert clock.now() - began < SECOND
        assert chat.compaction is None
        assert await life.history(chat_id) == before
        await life.do(user.compact, chat_id)
        await life.rest(chat_id)
        assert [m.kind for m in await life.history(chat_id)][2:] == ["checkpoint", "note"]


async def test_a_turn_that_had_ended_is_not_interrupted_by_stopping_a_summary(
    db: Database, clock: Clock
) -> None:
    async with living(db, ["One. " * 500, hang(), hang(), "Two."], clock=clock) as life:
        chat_id = await life.begin()
        before = await life.rest(chat_id)
        assert before.outcome == TurnOutcome("stop", 1)
        await life.do(user.compact, chat_id)
        await anyio.sleep(1)
        await life.do(user.interrupt, chat_id)
        assert (await life.rest(chat_id)).outcome == before.outcome
        await life.do(user.compact, chat_id)
        await anyio.sleep(1)
        await life.send(chat_id, "more", "interrupt")
        assert (await life.rest(chat_id)).outcome == TurnOutcome("stop", 1)
        assert (await life.history(chat_id))[-1].text == "Two."


@pytest.mark.parametrize("busy_with", ["an answer", "a tool"])
async def test_a_summary_of_what_was_stopped_does_not_go_on_with_it(
    db: Database, clock: Clock, busy_with: str
) -> None:
    @tool(effect="pure")
    async def slow() -> str:
        await anyio.sleep(3600)
        return "never"

    summary = "\n".join(f"## {section}\n-" for section in SUMMARY_SECTIONS)
    stopped = [hang()] if busy_with == "an answer" else [call("slow")]
    model = ScriptedModel(["One. " * 500, stopped, say(summary), "Not asked."])
    async with living(db, model, [slow], clock=clock) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        await life.send(chat_id, "more")
        await stop_after(life, chat_id, 5, clock)
        await life.do(user.compact, chat_id)
        chat = await life.rest(chat_id)
        assert chat.outcome is not None
        assert chat.outcome.reason == "interrupted"
        assert [m.kind for m in await life.history(chat_id)][-2:] == ["checkpoint", "note"]
        assert len(model.requests) == 3


async def test_a_summary_of_a_copy_that_ends_in_the_middle_does_not_go_on_with_it(
    db: Database, clock: Clock
) -> None:
    summary = "\n".join(f"## {section}\n-" for section in SUMMARY_SECTIONS)
    model = ScriptedModel(["One. " * 500, "Two.", say(summary), "Not asked."])
    async with living(db, model, clock=clock) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        await life.send(chat_id, "more")
        await life.rest(chat_id)
        new = NewChat(id=life.ports.new_id(), agent=life.agent.name, message=None)
        copy = (await life.do(lifecycle.fork, chat_id, 3, new)).id
        await life.do(user.compact, copy)
        await life.rest(copy)
        kinds = [m.kind for m in await life.history(copy)]
        assert kinds == ["prompt", "answer", "prompt", "checkpoint", "note"]


async def test_a_chat_that_waits_for_somebody_rests_at_once(db: Database, clock: Clock) -> None:
    async with living(db, [[call("asks"), call("asks")]], [asks], clock=clock) as life:
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.status == "requires_action")
        await stop_after(life, chat_id, 5, clock)
        made = results_of(await life.history(chat_id))
        assert [(one.outcome, one.text) for one in made] == [("interrupted", STOPPED)] * 2
        assert await life.journal(chat_id) == {}


async def test_the_guard_is_stopped(db: Database, clock: Clock) -> None:
    async def guard(_context: Context, about: object) -> None:
        await anyio.sleep(20)

    async with living(db, ["Done."], clock=clock, guard=guard) as life:
        chat_id = await life.begin()
        await stop_after(life, chat_id, 5, clock)
        assert await life.lines(chat_id) == ["prompt: ?", "answer: Done."]


# --- what follows -------------------------------------------------------------------------------


async def test_what_waits_in_the_queue_comes_next(db: Database, clock: Clock) -> None:
    script = [[say("Half"), hang()], "Two.", "Three."]
    async with living(db, script, clock=clock) as life:
        chat_id = await life.begin("1")
        await anyio.sleep(2)
        await life.send(chat_id, "2")
        await life.send(chat_id, "3")
        before = clock.now()
        await life.interrupted(chat_id)
        assert clock.now() - before < SECOND
        assert await life.lines(chat_id) == [
            "prompt: 1",
            "answer: Half",
            DURING_ANSWER,
            "prompt: 2",
            "answer: Two.",
            "prompt: 3",
            "answer: Three.",
        ]


async def test_what_comes_next_does_not_wait_for_an_attempt_that_is_over(
    db: Database, clock: Clock
) -> None:
    async with living(db, [fail(kind="rate_limit", retry_after=25), "Two."], clock=clock) as life:
        chat_id = await life.begin("1")
        await life.until(chat_id, lambda chat: chat.retry is not None)
        await life.send(chat_id, "2")
        before = clock.now()
        await life.interrupted(chat_id)
        assert clock.now() - before < SECOND
        assert (await life.lines(chat_id))[-1] == "answer: Two."


@pytest.mark.parametrize("busy_with", ["an answer", "a tool", "an action", "a retry"])
async def test_a_message_that_interrupts_is_the_very_next(
    db: Database, clock: Clock, busy_with: str
) -> None:
    @tool
    async def slow() -> str:
        await anyio.sleep(3600)
        return "never"

    first: dict[str, Any] = {
        "an answer": [say("Half"), hang()],
        "a tool": call("slow"),
        "an action": call("asks"),
        "a retry": fail(kind="rate_limit", retry_after=25),
    }
    async with living(db, [first[busy_with], "Yes.", "Old."], [slow, asks], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(5)
        await life.send(chat_id, "old")
        await life.send(chat_id, "no!", "interrupt")
        before = clock.now()
        await life.rest(chat_id)
        assert clock.now() - before < SECOND
        told = [
            line for line in await life.lines(chat_id) if line.startswith(("prompt", "answer: Y"))
        ]
        assert told == ["prompt: ?", "prompt: no!", "answer: Yes.", "prompt: old"]


async def test_stopping_twice_is_stopping_once(db: Database, clock: Clock) -> None:
    async with living(db, [[say("Half"), hang()]], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(2)
        once = await life.do(user.interrupt, chat_id)
        twice = await life.do(user.interrupt, chat_id)
        rested = await life.rest(chat_id)
        assert twice in (once, rested)  # the worker may have been between them
        assert await life.do(user.interrupt, chat_id) == rested
        assert await life.lines(chat_id) == ["prompt: ?", "answer: Half", DURING_ANSWER]


# --- and a crash --------------------------------------------------------------------------------


async def test_after_a_crash_what_was_written_down_of_the_answer_is_kept(
    db: Database, clock: Clock
) -> None:
    model = ScriptedModel([[think("hm"), say("One"), pause(3), say(" two"), hang()]])
    async with living(db, model, clock=clock) as first:
        chat_id = await first.begin()
        await anyio.sleep(2)
        await first.die()
        await first.do(user.interrupt, chat_id)
    async with living(db, model, clock=clock, seed=1) as second:
        await second.rest(chat_id)
        _, partial, marker = await second.history(chat_id)
        assert (partial.text, partial.finish) == ("One", "interrupted")
        assert marker.text == Wording().interrupted_answer
        assert await second.partial(chat_id) is None


async def test_what_was_written_down_before_a_crash_is_kept_until_there_is_more(
    db: Database, clock: Clock
) -> None:
    """The next worker has asked again, and nothing has arrived yet when the chat is stopped."""
    model = ScriptedModel([[say("Half"), hang()], [hang()]])
    async with living(db, model, clock=clock) as first:
        chat_id = await first.begin()
        await anyio.sleep(3)
        await first.die()
    async with living(db, model, clock=clock, seed=1) as second:
        await anyio.sleep(30)
        assert len(model.requests) == 2
        await second.interrupted(chat_id)
        assert await second.lines(chat_id) == ["prompt: ?", "answer: Half", DURING_ANSWER]


@pytest.mark.parametrize("busy_with", ["an answer", "a tool"])
async def test_a_crash_before_the_settlement_loses_nothing_that_was_written_down(
    db: Database, clock: Clock, busy_with: str
) -> None:
    @tool(effect="once", parallel=True)
    async def quick() -> str:
        return "quick"

    @tool(effect="once", parallel=True)
    async def slow() -> str:
        await anyio.sleep(3600)
        return "never"

    turn = [say("Half"), hang()] if busy_with == "an answer" else [call("quick"), call("slow")]
    model = ScriptedModel([turn])
    async with living(db, model, [quick, slow], clock=clock) as first:
        chat_id = await first.begin()
        await anyio.sleep(3)
        first.faulty_db.hold("settle")
        await first.do(user.interrupt, chat_id)
        await anyio.sleep(1)
        assert first.faulty_db.waiting == ["settle"]
        await first.die()
    async with living(db, model, [quick, slow], clock=clock, seed=1) as second:
        chat = await second.rest(chat_id)
        assert chat.outcome is not None
        assert chat.outcome.reason == "interrupted"
        told = await second.lines(chat_id)
        if busy_with == "an answer":
            assert told[1:] == ["answer: Half", DURING_ANSWER]
        else:
            made = [(one.outcome, one.text) for one in results_of(await second.history(chat_id))]
            assert made == [("ok", "quick"), ("interrupted", PERHAPS)]
            assert told[-1] == DURING_TOOLS


async def test_what_arrives_is_written_down_once_a_second_and_forgotten_with_the_commit(
    db: Database, clock: Clock
) -> None:
    drip = [[say("x"), pause(0.1)] for _ in range(55)]
    async with living(db, [drip], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(3.05)
        partial = await life.partial(chat_id)
        assert partial is not None
        assert 20 <= len(partial.text) <= 31
        await life.rest(chat_id)
        assert life.faulty_db.writes["write_partial"] == 5
        rows = await db.read(lambda tx: tx.fetch("SELECT chat_id FROM partials"))
        assert not rows


async def test_what_was_written_down_of_an_answer_is_gone_when_its_calls_run(
    db: Database, clock: Clock
) -> None:
    @tool(effect="once")
    async def look() -> str:
        assert life.faulty_db.writes["write_partial"] == 1
        seen.extend(await db.read(lambda tx: tx.fetch("SELECT chat_id FROM partials")))
        return "seen"

    seen: list[object] = []
    script = [[say("x"), pause(1.5), call("look")], "Done."]
    async with living(db, script, [look], clock=clock) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        assert [one.text for one in results_of(await life.history(chat_id))] == ["seen"]
        assert seen == []


async def test_an_answer_that_does_not_grow_is_not_written_again(
    db: Database, clock: Clock
) -> None:
    async with living(db, [[say("x"), pause(30), say("y")]], clock=clock) as life:
        await life.rest(await life.begin())
        assert life.faulty_db.writes["write_partial"] == 1
