"""What people do to a chat, beside its queue."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.chat.errors import ChatNotFound, InvalidInput, NothingToCompact, NothingToResume
from holdfast.chat.journal import NO_RESULT_TEXT
from holdfast.chat.rows import ChatRow, Queued, Rule, Status, TurnOutcome, fence_of
from holdfast.chat.transitions import runner, user
from holdfast.kernel.messages import MARKER_TEXTS, Checkpoint, Message, Text
from holdfast.kernel.tool_results import TOOK_EFFECT
from tests.chat.chats import (
    FAILURE,
    SECOND,
    Chats,
    answer,
    asks,
    leftover,
    made,
    prompt,
    row_of_call,
)

INTERRUPTED_TOOLS = MARKER_TEXTS["interrupted_tools"]
COVERS = Checkpoint(covers=2, trims=2, before=100, after=10, pinned=0)
SUMMARY = Message("user", (Text("in short"),), "checkpoint", checkpoint=COVERS)


async def texts_of_results(chats: Chats, id: str = "c1") -> dict[str, str]:
    history = await chats.history(id)
    return {result.call_id: result.text for s in history for result in s.message.results}


# --- sending ---


async def test_nobody_can_send_to_a_chat_that_does_not_exist(chats: Chats) -> None:
    with pytest.raises(ChatNotFound) as refusal:
        await chats.send("nowhere", "hello")
    assert refusal.value.chat == "nowhere"


async def test_messages_of_many_senders_at_once_are_all_taken_one_after_the_other(
    chats: Chats,
) -> None:
    import anyio

    chat = await chats.running("c1")
    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(chats.send, "c1", f"m{number}")
    assert (await chats.row()).snapshot_version == chat.snapshot_version + 8
    assert sorted(await chats.queued()) == [f"m{number}" for number in range(8)]


async def test_a_message_after_an_error_comes_behind_results_for_the_calls_that_were_open(
    chats: Chats,
) -> None:
    calls = {"a": "started", "b": "waiting", "c": "recorded", "d": "open"}
    await chats.error("c1", calls=calls)
    sent = await chats.send("c1", "never mind")
    assert (await chats.texts())[2:] == ["a=skipped b=skipped c=ok d=skipped", "never mind"]
    texts = await texts_of_results(chats)
    assert texts["b"] == texts["d"] == NO_RESULT_TEXT["skipped"]
    assert texts["a"] == NO_RESULT_TEXT["skipped"] + TOOK_EFFECT
    assert texts["c"] == "done"
    assert (await chats.load()).journal == {}
    assert (sent.chat.error, sent.chat.outcome, sent.chat.attempt) == (None, None, 1)


async def test_a_steering_message_is_seen_next_by_a_chat_that_waits(chats: Chats) -> None:
    await chats.requires_action("c1", queue=("queue",))
    sent = await chats.send("c1", "forget it", "steer")
    assert (await chats.texts())[2:] == ["a=skipped b=skipped", "forget it"]
    assert (sent.chat.status, sent.number) == (Status.RUNNING, 4)
    assert await chats.queued() == ["q1"]


async def test_an_interrupting_message_is_seen_next_by_a_chat_that_waits(chats: Chats) -> None:
    await chats.requires_action("c1", queue=("queue",))
    sent = await chats.send("c1", "stop", "interrupt")
    assert (await chats.texts())[2:] == ["a=interrupted b=interrupted", "stop"]
    assert (sent.chat.status, sent.number, sent.chat.deadline) == (Status.RUNNING, 4, None)


async def test_a_plain_message_waits_while_actions_do(chats: Chats) -> None:
    await chats.requires_action("c1")
    sent = await chats.send("c1", "later")
    assert (sent.chat.status, sent.number) == (Status.REQUIRES_ACTION, None)
    assert await chats.queued() == ["later"]
    assert sorted((await chats.load()).journal) == ["a", "b"]


# --- stopping ---


async def test_an_interrupt_really_stops_a_chat_that_waits(chats: Chats) -> None:
    await chats.requires_action("c1")
    chat = await chats.do(user.interrupt, "c1")
    assert (chat.status, chat.outcome, chat.worker_id) == (
        Status.IDLE,
        TurnOutcome("interrupted"),
        None,
    )
    history = await chats.history()
    assert (await chats.texts())[2:] == ["a=interrupted b=interrupted", INTERRUPTED_TOOLS]
    assert (history[-1].message.kind, history[-1].message.visibility) == ("marker", "model")
    assert (await chats.load()).journal == {}
    assert (await texts_of_results(chats))["a"] == NO_RESULT_TEXT["interrupted"]


async def test_an_interrupt_of_a_chat_that_waits_goes_on_with_its_queue(chats: Chats) -> None:
    await chats.requires_action("c1", queue=("queue", "queue"))
    chat = await chats.do(user.interrupt, "c1")
    assert (chat.status, chat.outcome) == (Status.RUNNING, None)
    assert (await chats.texts())[2:] == ["a=interrupted b=interrupted", INTERRUPTED_TOOLS, "q1"]
    assert await chats.queued() == ["q2"]


async def test_an_interrupt_ends_the_wait_for_the_next_attempt(chats: Chats) -> None:
    chat = await chats.running("c1")
    await chats.do(runner.record_retry, fence_of(chat), FAILURE, 3, 60 * SECOND, release=True)
    chat = await chats.do(user.interrupt, "c1")
    assert (chat.status, chat.retry, chat.retry_at) == (Status.INTERRUPTING, None, None)
    assert await chats.claim("urgent") == ["c1"]


# --- going on ---


async def test_a_retry_has_the_same_history_and_a_new_budget(chats: Chats) -> None:
    before = await chats.error("c1", calls={"a": "started"}, queue=("queue",))
    chat = await chats.do(user.retry, "c1")
    assert (chat.status, chat.error, chat.outcome, chat.attempt) == (Status.RUNNING, None, None, 1)
    assert chat.history_version == before.history_version
    assert await chats.queued() == ["q1"]
    assert (await chats.load()).journal["a"].state == "started"


async def test_a_turn_that_ended_at_a_limit_resumes_with_the_same_history(chats: Chats) -> None:
    before = await chats.limited("c1")
    chat = await chats.do(user.resume, "c1")
    assert (chat.status, chat.outcome) == (Status.RUNNING, None)
    assert chat.history_version == before.history_version
    assert await chats.claim() == ["c1"]


async def test_a_turn_that_ended_otherwise_is_not_resumed(chats: Chats) -> None:
    await chats.idle("c1")
    await chats.create("c2", None)
    before = await chats.everything()
    for id in ("c1", "c2"):
        with pytest.raises(NothingToResume):
            await chats.do(user.resume, id)
    assert await chats.everything() == before


async def test_there_is_nothing_to_compact_before_the_first_answer_and_after_a_summary(
    chats: Chats,
) -> None:
    await chats.error("c1")
    before = await chats.everything()
    with pytest.raises(NothingToCompact):
        await chats.do(user.compact, "c1")
    assert await chats.everything() == before
    await chats.idle("c2")
    await chats.do(user.compact, "c2")
    assert "c2" in await chats.claim()
    outcome = runner.Outcome(messages=(SUMMARY,), compacted=True)
    await chats.do(runner.finish_turn, fence_of(await chats.row("c2")), None, outcome)
    with pytest.raises(NothingToCompact):
        await chats.do(user.compact, "c2")


async def test_a_compaction_of_a_chat_at_rest_is_one_commit_and_keeps_the_last_outcome(
    chats: Chats,
) -> None:
    idle = await chats.idle("c1")
    asked = await chats.do(user.compact, "c1")
    assert (asked.status, asked.compaction, asked.outcome) == (
        Status.RUNNING,
        "person",
        idle.outcome,
    )
    assert await chats.claim() == ["c1"]
    claimed = await chats.row()
    assert claimed.compaction == "person"
    outcome = runner.Outcome(messages=(SUMMARY,), compacted=True)
    done = await chats.do(runner.finish_turn, fence_of(claimed), None, outcome)
    assert (done.chat.status, done.chat.compaction) == (Status.IDLE, None)
    assert done.chat.outcome == idle.outcome == TurnOutcome("stop", 1)
    assert await chats.texts() == ["hello", "here you are", "in short"]


async def compaction_asked(chats: Chats, id: str) -> ChatRow:
    await chats.running(id)
    await chats.commit(id, answer("so far"))
    await chats.do(runner.fail, fence_of(await chats.row(id)), FAILURE)
    await chats.do(user.compact, id)
    assert id in await chats.claim()
    return await chats.row(id)


async def test_a_compaction_that_was_asked_for_outlives_what_does_not_end_it(
    chats: Chats,
) -> None:
    chat = await compaction_asked(chats, "c1")
    assert chat.compaction == "person"
    await chats.send("c1", "later")
    await chats.send("c1", "soon", "steer")
    await chats.commit("c1", answer("something"))
    await chats.do(user.update, "c1", {"title": "x"})
    assert (await chats.row()).compaction == "person"


async def test_a_compaction_that_was_asked_for_is_over_with_its_commit_or_the_turns_end(
    chats: Chats,
) -> None:
    async def commits(chat: ChatRow) -> None:
        outcome = runner.Outcome(messages=(SUMMARY,), compacted=True)
        await chats.do(runner.commit_step, fence_of(chat), outcome)

    async def edits(chat: ChatRow) -> None:
        await chats.do(user.edit, chat.id, 1, prompt("else"))

    async def finishes(chat: ChatRow) -> None:
        await chats.do(runner.finish_turn, fence_of(chat), TurnOutcome("stop"))

    async def fails(chat: ChatRow) -> None:
        await chats.do(runner.fail, fence_of(chat), FAILURE)

    async def settles(chat: ChatRow) -> None:
        stopped = await chats.do(user.interrupt, chat.id)
        await chats.do(runner.settle, fence_of(stopped), leftover())

    async def stops_waiting(chat: ChatRow) -> None:
        await chats.commit(chat.id, answer("let me ask", asks("a")))
        asking = await chats.row(chat.id)
        rows = [row_of_call(asking, "a", "waiting")]
        await chats.do(runner.require_action, fence_of(asking), rows)
        await chats.send(chat.id, "and then this")
        assert (await chats.do(user.interrupt, chat.id)).status is Status.RUNNING

    ends = [commits, edits, finishes, fails, settles, stops_waiting]
    for number, end in enumerate(ends):
        chat = await compaction_asked(chats, f"c{number}")
        await end(chat)
        assert (await chats.row(chat.id)).compaction is None, end.__name__


async def test_a_request_that_does_not_fit_asks_for_a_compaction(chats: Chats) -> None:
    chat = await chats.running("c1")
    advanced = await chats.do(
        runner.record_retry, fence_of(chat), FAILURE, 3, 60 * SECOND, overflow=True
    )
    assert (advanced.chat.compaction, advanced.chat.attempt) == ("overflow", 2)
    assert (advanced.chat.retry, advanced.chat.retry_at) == (None, None)


# --- what a chat is called and made of ---


async def test_changes_are_made_all_or_none(chats: Chats) -> None:
    await chats.idle("c1")
    chat = await chats.do(
        user.update,
        "c1",
        {
            "title": "A title",
            "labels": {"project": "x"},
            "model": "big",
            "effort": "high",
            "rules": (Rule("read"),),
        },
    )
    assert (chat.title, chat.titled_by, chat.model, chat.effort) == (
        "A title",
        "person",
        "big",
        "high",
    )
    assert (await chats.row()).rules == (Rule("read"),)
    before = await chats.everything()
    with pytest.raises(InvalidInput):
        await chats.do(user.update, "c1", {"title": "Another", "colour": "red"})
    assert await chats.everything() == before


@pytest.mark.parametrize("name", ["status", "epoch", "owner", "id", "archived"])
async def test_an_update_changes_nothing_that_transitions_are_for(chats: Chats, name: str) -> None:
    await chats.idle("c1")
    before = await chats.everything()
    change: dict[str, Any] = {name: getattr(await chats.row(), name)}
    with pytest.raises(InvalidInput, match=name):
        await chats.do(user.update, "c1", change)
    assert await chats.everything() == before


async def test_a_title_by_a_model_never_replaces_one_by_a_person(chats: Chats) -> None:
    await chats.idle("c1")
    assert await chats.do(user.set_generated_title, "c1", "Generated")
    chat = await chats.row()
    assert (chat.title, chat.titled_by) == ("Generated", "model")
    await chats.do(user.update, "c1", {"title": "Mine"})
    before = await chats.everything()
    assert not await chats.do(user.set_generated_title, "c1", "Generated again")
    assert await chats.everything() == before
    cleared = await chats.do(user.update, "c1", {"title": None})
    assert (cleared.title, cleared.titled_by) == (None, None)


async def test_a_title_disturbs_no_running_step(chats: Chats) -> None:
    chat = await chats.running("c1")
    await chats.do(user.update, "c1", {"title": "Mine", "model": "big"})
    await chats.do(runner.commit_step, fence_of(chat), runner.Outcome(messages=(answer("ok"),)))
    assert await chats.texts() == ["hello", "ok"]


@pytest.mark.parametrize("title", ["nul \x00", "half a pair \ud800"])
async def test_a_title_that_a_database_cannot_hold_is_refused(chats: Chats, title: str) -> None:
    await chats.idle("c1")
    before = await chats.everything()
    with pytest.raises(InvalidInput, match="title"):
        await chats.do(user.update, "c1", {"title": title})
    with pytest.raises(InvalidInput, match="title"):
        await chats.create("c2", title=title)
    assert await chats.everything() == before


async def test_text_that_databases_refuse_comes_back_as_it_was(chats: Chats) -> None:
    odd = "nul \x00, half a pair \ud800, private \ue000, 😀"
    await chats.running("c1", text=odd)
    await chats.commit("c1", answer(odd, asks("a")))
    await chats.results("c1", made("a", odd))
    await chats.send("c1", odd)
    assert await chats.queued() == [odd]
    await chats.do(user.update, "c1", {"labels": {"k": odd}})
    assert (await chats.row()).labels == {"k": odd}
    history = await chats.history()
    assert [history[0].message.text, history[2].message.results[0].text] == [odd, odd]


@pytest.mark.parametrize("name", ["a\x00b", "\ud800"])
async def test_a_model_whose_name_cannot_be_stored_is_refused(chats: Chats, name: str) -> None:
    await chats.running("c1")
    before = await chats.everything()
    queued = Queued("m", "queue", prompt("more"), 0, model=name)
    with pytest.raises(InvalidInput, match="the model has a character that cannot be stored"):
        await chats.do(user.send, "c1", queued)
    with pytest.raises(InvalidInput, match="the model has a character that cannot be stored"):
        await chats.do(user.edit, "c1", 1, prompt("else"), model=name)
    assert await chats.everything() == before
