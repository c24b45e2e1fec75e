"""The table of transitions, walked cell by cell on both databases."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.chat import queries
from holdfast.chat.errors import ChatArchived, Fenced, NotArchived, TransitionNotAllowed
from holdfast.chat.rows import ChatRow, Queued, Status, TurnOutcome, fence_of
from holdfast.chat.state_machine import Transition, check
from holdfast.chat.transitions import lifecycle, runner, user
from holdfast.chat.transitions.lifecycle import NewChat
from tests.chat.cells import (
    ACTS,
    ACTS_FOR,
    CELLS,
    REFUSED,
    RUNNERS,
    SENDS,
    UNTOUCHED,
    bring,
    cell,
)
from tests.chat.chats import Chats, expected_notices, prompt, runnable_now


@pytest.mark.parametrize("status", Status)
async def test_every_allowed_cell_leads_to_each_of_its_outcomes(
    chats: Chats, status: Status
) -> None:
    bystander = await chats.requires_action("bystander")
    executed = set()
    for number, (start, transition, outcome) in enumerate(CELLS):
        if start is status:
            with cell(start, transition, outcome):
                await _walk(chats, f"c{number}", start, transition, outcome)
                executed.add((start, transition, outcome))
    assert executed == {each for each in CELLS if each[0] is status}
    assert await chats.row("bystander") == bystander


async def _walk(
    chats: Chats, id: str, start: Status, transition: Transition, outcome: Status
) -> None:
    chat = await bring(chats, id, start, transition, outcome)
    assert chat.status is start
    before = await chats.everything()
    chats.take_notices()
    act = ACTS_FOR.get((start, transition, outcome), ACTS[transition])
    await act(chats, chat)
    after, now = await chats.everything(), await chats.row(id)
    assert now.status is outcome
    if (start, transition) in UNTOUCHED:
        assert (after, chats.take_notices()) == (before, [])
        return
    assert chats.take_notices() == expected_notices(now, chats.clock.now())
    assert now.snapshot_version == chat.snapshot_version + 1
    _check_versions(chat, now, transition, before, after)
    if not runnable_now(now, chats.clock.now()) and transition in RUNNERS:
        assert now.worker_id is None


def _check_versions(
    chat: ChatRow, now: ChatRow, transition: Transition, before: Any, after: Any
) -> None:
    """Each version is the snapshot at which its part last changed, and none goes unsaid."""

    def part(dump: Any, table: str) -> dict[Any, Any]:
        return {row[1]: row for row in dump[table] if row[0] == chat.id}

    history = part(after, "messages")
    changed = {k: v for k, v in history.items() if part(before, "messages").get(k) != v}
    assert now.history_version == (now.snapshot_version if changed else chat.history_version)
    assert all(row[2] == now.snapshot_version for row in changed.values())  # its revision
    assert sorted(history) == list(range(1, now.messages + 1))
    if part(after, "queue") != part(before, "queue"):
        assert now.queue_version == now.snapshot_version
    elif transition not in SENDS:  # a message may pass through the queue and leave it as it was
        assert now.queue_version == chat.queue_version
    if changed:
        assert (now.attempt, now.retry, now.retry_at) == (1, None, None)
    if now.status is Status.IDLE:
        assert not part(after, "queue")


@pytest.mark.parametrize("status", Status)
async def test_what_the_table_does_not_name_is_refused_and_leaves_no_trace(
    chats: Chats, status: Status
) -> None:
    for start, transition in REFUSED:
        if start is status:
            with cell(start, transition):
                chat = await bring(chats, f"{transition}", start, transition)
                assert chat.status is start
                owned = chat.worker_id is not None
                await _is_refused(chats, chat, transition, owned or transition not in RUNNERS)


async def _is_refused(
    chats: Chats, chat: ChatRow, transition: Transition, by_the_table: bool
) -> None:
    before = await chats.everything()
    chats.take_notices()
    with pytest.raises((TransitionNotAllowed, Fenced)) as refusal:
        await ACTS[transition](chats, chat)
    # A call's result is kept or not: no runner is told why, and the statement alone decides.
    if by_the_table and transition is not Transition.FINISH_CALL:
        assert isinstance(refusal.value, TransitionNotAllowed)
        assert (refusal.value.transition, refusal.value.status) == (transition, chat.status)
    assert (await chats.everything(), chats.take_notices()) == (before, [])


@pytest.mark.parametrize("status", [Status.IDLE, Status.ERROR])
async def test_an_archived_chat_refuses_every_transition(chats: Chats, status: Status) -> None:
    chat = await chats.archived("c1", status)
    before = await chats.everything()
    chats.take_notices()
    for transition, act in ACTS.items():
        with cell("archived", status, transition):
            kept_out = Fenced if transition in RUNNERS else ChatArchived
            with pytest.raises(kept_out):
                await act(chats, chat)
    assert (await chats.everything(), chats.take_notices()) == (before, [])


@pytest.mark.parametrize("status", [Status.IDLE, Status.ERROR])
async def test_an_archived_chat_can_be_read_forked_unarchived_and_deleted(
    chats: Chats, status: Status
) -> None:
    chat = await chats.archived("c1", status)
    loaded = await chats.ask(queries.load, "c1")
    assert (loaded.chat, len(loaded.history)) == (chat, chat.messages)
    fork = await chats.do(lifecycle.fork, "c1", 1, NewChat(id="f", agent="agent", message=None))
    assert (fork.archived, fork.status) == (False, Status.IDLE)
    chats.take_notices()
    back = await chats.do(lifecycle.unarchive, "c1")
    assert chats.take_notices() == expected_notices(back, chats.clock.now())
    assert (back.archived, back.status, back.error) == (False, status, chat.error)
    assert back.history_version == chat.history_version
    with pytest.raises(NotArchived):
        await chats.do(lifecycle.unarchive, "c1")
    await chats.do(lifecycle.archive, "c1")
    assert await chats.do(lifecycle.delete, "c1") == ("c1",)
    left = await chats.everything()
    assert [(id, reader) for id, reader, _ in left.pop("gone")] == [("c1", "")]
    left.pop("deleted_spending")
    assert "c1" not in str(left)


def test_a_refusal_names_the_transition_and_the_status() -> None:
    with pytest.raises(TransitionNotAllowed) as refusal:
        check(Status.REQUIRES_ACTION, Transition.RECORD_RETRY)
    assert str(refusal.value) == "cannot record retry while the chat is requires action"
    assert refusal.value.kind == "transition_not_allowed"


DESIGN = """
                   idle            running       interrupting  requires_action  error
send_queue         running         same          same          same             running
send_steer         running         same          same          running          running
send_interrupt     running         interrupting  same          running          running
interrupt          same            interrupting  same          idle,running     same
promote            -               interrupting  same          running          running
edit_queued        -               same          same          same             same
reorder            -               same          same          same             same
remove_queued      -               same          same          same             same
edit               running         running       running       running          running
retry              -               -             -             -                running
resume             running         -             -             -                -
compact            running         -             -             -                running
resolve            -               same          -             same,running     -
expire             -               -             -             same,running     -
deliver            -               same          -             -                -
commit_step        -               same          -             -                -
record_retry       -               same          -             -                -
start_calls        -               same          -             -                -
finish_call        -               same          same          -                -
require_action     -               same,requires_action  -     -                -
finish_turn        -               idle,running  -             -                -
settle             -               -             idle,running  -                -
fail               -               error         error         error            -
update             same            same          same          same             same
archive            same            -             -             -                same
"""
"""Written down a second time, on purpose: a cell that changes has to change twice."""


def test_the_table_is_the_one_of_the_design() -> None:
    first, *rows = [line.split() for line in DESIGN.strip().splitlines()]
    columns = [Status(name) for name in first]
    designed = {
        (status, Transition(name), status if outcome == "same" else Status(outcome))
        for name, *cells in rows
        for status, written in zip(columns, cells, strict=True)
        if written != "-"
        for outcome in written.split(",")
    }
    assert designed == set(CELLS)


def test_every_status_can_be_reached_and_left() -> None:
    reached = {end for _, _, end in CELLS}
    assert reached == set(Status)
    assert {start for start, _, end in CELLS if end is not start} == set(Status)


def test_every_transition_is_in_the_table() -> None:
    assert {transition for _, transition, _ in CELLS} == set(Transition) == set(ACTS)


async def test_a_chat_that_is_created_runs_and_wants_a_worker(chats: Chats) -> None:
    chat = await chats.create("c1", "hello")
    assert (chat.status, chat.snapshot_version, chat.history_version) == (Status.RUNNING, 1, 1)
    assert (chat.queue_version, chat.messages, chat.worker_id) == (0, 1, None)
    assert [stored.revision for stored in await chats.history("c1")] == [1]
    assert chats.take_notices() == expected_notices(chat, chats.clock.now())


async def test_a_chat_that_is_created_without_a_message_rests(chats: Chats) -> None:
    chat = await chats.create("c1", None)
    assert (chat.status, chat.snapshot_version, chat.messages) == (Status.IDLE, 1, 0)
    assert chats.take_notices() == expected_notices(chat, chats.clock.now())
    sent = await chats.send("c1", "hello")
    assert (sent.number, sent.chat.status) == (1, Status.RUNNING)


async def test_transitions_of_one_transaction_see_each_other(chats: Chats) -> None:
    chat = await chats.running("c1")

    async def twice(tx: Any) -> None:
        advanced = await runner.finish_turn(tx, fence_of(chat), TurnOutcome("stop"))
        await runner.finish_turn(tx, advanced.fence, TurnOutcome("stop"))

    chats.take_notices()
    with pytest.raises(Fenced):
        await chats.db.write(twice)
    assert (await chats.row("c1"), chats.take_notices()) == (chat, [])


async def test_a_transaction_that_fails_after_a_transition_undoes_it_and_tells_nobody(
    chats: Chats,
) -> None:
    await chats.idle("c1")
    before = await chats.everything()
    chats.take_notices()

    async def send_and_fail(tx: Any) -> None:
        await user.send(tx, "c1", Queued("m", "queue", prompt("lost"), 0))
        raise LookupError("something else went wrong")

    with pytest.raises(LookupError):
        await chats.db.write(send_and_fail)
    assert (await chats.everything(), chats.take_notices()) == (before, [])
