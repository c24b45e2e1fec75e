"""Going back in a chat: an edit supersedes, a fork copies, and neither rewrites anything."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.chat import queries
from holdfast.chat.errors import ChatNotFound, MessageNotFound, NotAPrompt
from holdfast.chat.journal import NO_RESULT_TEXT
from holdfast.chat.rows import Status, fence_of
from holdfast.chat.transitions import lifecycle, runner, user
from holdfast.chat.transitions.lifecycle import NewChat
from tests.chat.chats import FAILURE, ME, Chats, answer, asks, made, prompt, texts_of


async def long_chat(chats: Chats, id: str = "c1") -> None:
    """hello, answer with a call, its result, answer; second, an answer with a call that runs."""
    await chats.running(id)
    await chats.commit(id, answer("let me see", asks("a")))
    await chats.results(id, made("a"))
    await chats.commit(id, answer("that is it"))
    await chats.finish(id)
    await chats.send(id, "second")
    assert id in await chats.claim()
    await chats.commit(id, answer("once more", asks("b"), asks("c")))
    await chats.bring_calls(id, {"b": "started", "c": "recorded"})


# --- edit ---


async def test_an_edit_supersedes_the_message_and_all_behind_it(chats: Chats) -> None:
    await long_chat(chats)
    before = await chats.ask(queries.read_messages, "c1", superseded=True)
    edited = await chats.do(user.edit, "c1", 5, prompt("rather this"), author="ann")
    assert (edited.number, edited.superseded, edited.chat.status) == (7, (5, 6), Status.RUNNING)
    assert (await chats.texts())[-2:] == ["that is it", "rather this"]
    assert (await chats.history())[-1].author == "ann"
    after = await chats.ask(queries.read_messages, "c1", superseded=True)
    assert [s.number for s in after] == [1, 2, 3, 4, 5, 6, 7]
    assert [s.message for s in after[:6]] == [s.message for s in before]
    marked = [s.number for s in after if s.superseded_at is not None]
    assert marked == [5, 6]
    assert {s.revision for s in after[4:]} == {edited.chat.snapshot_version}


async def test_an_edit_of_the_first_message_begins_anew(chats: Chats) -> None:
    await long_chat(chats)
    await chats.do(user.edit, "c1", 1, prompt("from the start"))
    assert await chats.texts() == ["from the start"]
    assert (await chats.row()).messages == 7


async def test_an_edit_gives_back_the_queue_that_it_drops(chats: Chats) -> None:
    await chats.running("c1", queue=("queue", "steer"))
    edited = await chats.do(user.edit, "c1", 1, prompt("else"))
    assert [queued.id for queued in edited.dropped] == ["q2", "q1"]
    assert await chats.queued() == []


async def test_an_edit_ends_the_calls_of_superseded_messages(chats: Chats) -> None:
    await long_chat(chats)
    await chats.do(user.edit, "c1", 5, prompt("else"))
    assert (await chats.load()).journal == {}
    calls = {row[1]: row for row in (await chats.everything())["tool_calls"]}
    assert {id: row[-1] for id, row in calls.items()} == {"b": "edited", "c": "ok"}


async def test_the_result_of_a_superseded_call_that_comes_late_is_not_kept(chats: Chats) -> None:
    from tests.chat.chats import row_of_call

    await long_chat(chats)
    chat = await chats.row()
    await chats.do(user.edit, "c1", 5, prompt("else"))
    before = await chats.everything()
    late = row_of_call(chat, "b", "finished", number=6, result=made("b"))
    assert not await chats.do(runner.finish_call, "c1", late)
    assert await chats.everything() == before


async def test_a_running_step_cannot_commit_over_an_edit(chats: Chats) -> None:
    from holdfast.chat.errors import Fenced

    chat = await chats.running("c1")
    await chats.do(user.edit, "c1", 1, prompt("else"))
    with pytest.raises(Fenced):
        await chats.do(
            runner.commit_step, fence_of(chat), runner.Outcome(messages=(answer("too late"),))
        )
    assert await chats.texts() == ["else"]
    assert (await chats.row()).worker_id == ME


@pytest.mark.parametrize("status", Status)
async def test_an_edit_leaves_nothing_of_the_state_before(chats: Chats, status: Status) -> None:
    ways: dict[Status, Any] = {
        Status.IDLE: chats.idle,
        Status.RUNNING: chats.running,
        Status.INTERRUPTING: chats.interrupting,
        Status.REQUIRES_ACTION: chats.requires_action,
        Status.ERROR: chats.error,
    }
    await ways[status]("c1")
    edited = await chats.do(user.edit, "c1", 1, prompt("else"), model="big", effort="low")
    chat = edited.chat
    assert (chat.status, chat.error, chat.outcome, chat.deadline) == (
        Status.RUNNING,
        None,
        None,
        None,
    )
    assert (chat.attempt, chat.retry, chat.model, chat.effort) == (1, None, "big", "low")
    assert await chats.texts() == ["else"]


@pytest.mark.parametrize(
    ("number", "refusal"),
    [(99, MessageNotFound), (0, MessageNotFound), (2, NotAPrompt), (3, NotAPrompt)],
)
async def test_only_a_live_prompt_can_be_edited(
    chats: Chats, number: int, refusal: type[Exception]
) -> None:
    await long_chat(chats)
    before = await chats.everything()
    with pytest.raises(refusal):
        await chats.do(user.edit, "c1", number, prompt("else"))
    assert await chats.everything() == before


async def test_a_superseded_message_is_not_edited_again(chats: Chats) -> None:
    await long_chat(chats)
    await chats.do(user.edit, "c1", 5, prompt("else"))
    with pytest.raises(MessageNotFound) as refusal:
        await chats.do(user.edit, "c1", 5, prompt("and again"))
    assert refusal.value.number == 5


async def test_what_changed_since_a_snapshot_includes_what_an_edit_superseded(
    chats: Chats,
) -> None:
    await long_chat(chats)
    seen = (await chats.row()).snapshot_version
    await chats.do(user.edit, "c1", 5, prompt("else"))
    changes = await chats.ask(queries.changes, "c1", seen)
    assert changes is not None
    assert [(s.number, s.superseded_at is None) for s in changes.messages] == [
        (5, False),
        (6, False),
        (7, True),
    ]
    later = await chats.ask(queries.changes, "c1", changes.chat.snapshot_version)
    assert later is not None
    assert (later.messages, later.queue) == ((), None)


async def test_more_changes_than_the_limit_are_not_told_one_by_one(chats: Chats) -> None:
    await long_chat(chats)
    assert await chats.ask(queries.changes, "c1", 0, limit=5) is None
    changes = await chats.ask(queries.changes, "c1", 0, limit=6)
    assert changes is not None
    assert len(changes.messages) == 6


# --- fork ---


def new(text: str | None = None, **more: Any) -> NewChat:
    message = None if text is None else prompt(text)
    return NewChat(id="f", agent="agent", message=message, **more)


async def test_a_fork_has_the_live_history_numbered_anew_and_the_original_is_untouched(
    chats: Chats,
) -> None:
    await long_chat(chats)
    await chats.do(user.edit, "c1", 1, prompt("anew"))
    await chats.commit("c1", answer("yes"))
    before = await chats.row()
    chats.take_notices()
    fork = await chats.do(lifecycle.fork, "c1", 8, new())
    assert (fork.status, fork.messages, fork.snapshot_version, fork.history_version) == (
        Status.IDLE,
        2,
        1,
        1,
    )
    assert await chats.texts("f") == ["anew", "yes"]
    assert [s.number for s in await chats.history("f")] == [1, 2]
    assert (fork.parent_id, fork.root_id, fork.workspace, fork.rules) == (None, "f", None, ())
    assert await chats.row() == before
    assert {getattr(notice, "chat", None) for notice in chats.take_notices()} == {"f"}


async def test_a_fork_with_a_prompt_has_the_history_before_it_and_runs(chats: Chats) -> None:
    await long_chat(chats)
    fork = await chats.do(lifecycle.fork, "c1", 5, new("rather this"))
    assert fork.status is Status.RUNNING
    assert await chats.texts("f") == [
        "hello",
        "let me see ?a",
        "a=ok",
        "that is it",
        "rather this",
    ]
    assert "f" in await chats.claim()


async def test_a_fork_with_another_first_prompt_begins_anew(chats: Chats) -> None:
    await long_chat(chats)
    fork = await chats.do(lifecycle.fork, "c1", 1, new("from the start"))
    assert (fork.messages, await chats.texts("f")) == (1, ["from the start"])


async def test_calls_that_are_open_where_a_chat_is_forked_are_answered_there_alone(
    chats: Chats,
) -> None:
    await long_chat(chats)
    fork = await chats.do(lifecycle.fork, "c1", 6, new())
    assert (await chats.texts("f"))[-2:] == ["once more ?b ?c", "b=forked c=forked"]
    assert (await chats.history("f"))[-1].message.results[0].text == NO_RESULT_TEXT["forked"]
    assert fork.status is Status.IDLE
    assert sorted((await chats.load("c1")).journal) == ["b", "c"]
    loaded = await chats.load("f")
    assert (loaded.journal, loaded.queue, loaded.partial) == ({}, (), None)


async def test_a_fork_takes_no_queue_no_error_and_no_owner_along(chats: Chats) -> None:
    await chats.error("c1", queue=("queue",))
    fork = await chats.do(lifecycle.fork, "c1", 1, new(owner="ann", title="Copy", model="big"))
    assert (fork.error, fork.worker_id, fork.owner, fork.title) == (None, None, "ann", "Copy")
    assert await chats.queued("f") == []
    assert (await chats.row("c1")).error == FAILURE


@pytest.mark.parametrize(
    ("number", "text", "refusal"),
    [(99, None, MessageNotFound), (2, "instead", NotAPrompt), (99, "instead", MessageNotFound)],
)
async def test_a_fork_needs_a_live_message_and_with_a_prompt_a_prompt(
    chats: Chats, number: int, text: str | None, refusal: type[Exception]
) -> None:
    await long_chat(chats)
    before = await chats.everything()
    with pytest.raises(refusal):
        await chats.do(lifecycle.fork, "c1", number, new(text))
    with pytest.raises(ChatNotFound):
        await chats.do(lifecycle.fork, "nowhere", 1, new(text))
    assert await chats.everything() == before


async def test_a_fork_and_its_original_go_their_own_ways(chats: Chats) -> None:
    await chats.idle("c1")
    await chats.do(lifecycle.fork, "c1", 2, new())
    await chats.send("f", "here")
    await chats.send("c1", "there")
    assert (await chats.texts("f"))[-1] == "here"
    assert texts_of(await chats.history("c1"))[-1] == "there"
    await chats.do(user.edit, "c1", 1, prompt("else"))
    assert await chats.texts("f") == ["hello", "here you are", "here"]
