"""Transitions of a runner: commit, retry, journal, finish, settle, fail. Each is fenced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.chat import queue
from holdfast.chat.charges import charge
from holdfast.chat.child_reports import children_are_idle, report_of_children
from holdfast.chat.errors import ChatNotFound, Fenced
from holdfast.chat.journal import (
    NO_RESULT_TEXT,
    answer_open,
    close_calls,
    earliest,
    open_calls,
    put_call,
    read_journal,
)
from holdfast.chat.locked_chat import LockedChat, begin_fenced, lock, lock_if_exists
from holdfast.chat.rows import (
    Charge,
    ChatRow,
    Fence,
    JournalCall,
    PendingRetry,
    Status,
    Stored,
    TurnOutcome,
    can_hold,
    fence_of,
)
from holdfast.chat.state_machine import TRANSITIONS, Transition
from holdfast.chat.transitions.lifecycle import NewChat, Write, carry_out, spawn
from holdfast.chat.transitions.user import continue_if_possible, with_answer
from holdfast.kernel.decide import Recorded
from holdfast.kernel.errors import Failure
from holdfast.kernel.messages import Message, ToolResult, encode, results_message
from holdfast.kernel.tool_results import result
from holdfast.store.database import Claimable, Tx

FAILED: Final = TurnOutcome("error")


class Advanced(Struct, frozen=True, gc=False):
    """The chat after a write of its runner, and the messages that were appended."""

    chat: ChatRow
    appended: tuple[Stored, ...] = ()

    @property
    def fence(self) -> Fence:
        """The fence for the next write."""
        return fence_of(self.chat)


async def _end(
    locked: LockedChat, *, partial: bool = True, children_are_idle: bool = False
) -> Advanced:
    """Close the chat after a commit: reset `crashes`, and delete the partial answer."""
    locked.set(crashes=0)
    if partial:
        await locked.tx.execute("DELETE FROM partials WHERE chat_id = :id", {"id": locked.chat.id})
    chat = await locked.close(children_are_idle=children_are_idle)
    return Advanced(chat, tuple(locked.appended))


class Outcome(Struct, frozen=True, gc=False, kw_only=True):
    """Outcome of a step. It may finish calls, carry out writes and end a compaction."""

    messages: tuple[Message, ...] = ()
    """Messages before the results."""
    results: tuple[ToolResult, ...] = ()
    writes: Mapping[str, tuple[Write, ...]] = {}
    """Writes of calls with effect `commit`, by call id; carried out together with their results."""
    compacted: bool = False
    """Whether the requested compaction is done."""
    charges: tuple[Charge, ...] = ()


async def commit_step(tx: Tx, fence: Fence, outcome: Outcome) -> Advanced:
    """Commit a step as a whole. Steps that only append use `commit_step.COMMIT_STEP`."""
    locked = await begin_fenced(tx, fence, Transition.COMMIT_STEP)
    await _take_outcome(locked, fence, outcome)
    if locked.chat.next_agent is not None:
        await _switch_if_no_call_is_open(locked)
    return await _end(locked)


async def switch_agent(tx: Tx, fence: Fence) -> Advanced:
    """Give the chat the agent that was chosen while calls of the current one were open."""
    locked = await begin_fenced(tx, fence, Transition.COMMIT_STEP)
    await _switch_if_no_call_is_open(locked)
    return await _end(locked)


async def _switch_if_no_call_is_open(locked: LockedChat) -> None:
    agent = locked.chat.next_agent
    if agent is not None and not await open_calls(locked.tx, locked.chat.id):
        await locked.use_agent(agent)


async def _take_outcome(locked: LockedChat, fence: Fence, outcome: Outcome) -> None:
    await locked.append(outcome.messages, epoch=fence.epoch)
    if outcome.results:
        for call_id, writes in outcome.writes.items():
            await carry_out(locked, call_id, writes)
        await _take_results(locked, fence, outcome.results)
    if outcome.compacted:
        locked.set(compaction=None)
    await charge(locked, outcome.charges)


async def charge_abandoned(
    tx: Tx, fence: Fence, last_number: int, charges: Sequence[Charge]
) -> None:
    """Record the usage of an abandoned step, unless its answer was committed after all.

    `last_number` is the number of the last message when the step began. Nothing else changes.
    """
    locked = await lock_if_exists(tx, fence.chat)
    if locked is None or locked.chat.epoch != fence.epoch:
        return
    answer = await tx.one(
        """
        SELECT 1 FROM messages
         WHERE chat_id = :id AND number > :last AND epoch = :epoch AND kind = 'answer'
        """,
        {"id": fence.chat, "last": last_number, "epoch": fence.epoch},
    )
    if answer is None:
        await charge(locked, charges)


async def deliver(tx: Tx, fence: Fence) -> Advanced:
    """Deliver all queued steer and interrupt messages at a step boundary."""
    locked = await begin_fenced(tx, fence, Transition.DELIVER)
    messages = queue.steering(await queue.read_queue(tx, fence.chat))
    if messages:
        await queue.deliver(locked, messages, "skipped")
        locked.set(outcome=None)
    else:
        locked.discard()  # the message was removed meanwhile
    return await _end(locked, partial=bool(messages))


async def record_retry(
    tx: Tx,
    fence: Fence,
    failure: Failure,
    attempts: int,
    delay: int,
    charges: Sequence[Charge] = (),
    *,
    overflow: bool = False,
    release: bool = False,
) -> Advanced:
    """Record a failed attempt; the next begins after `delay` µs. A long wait releases the chat."""
    locked = await begin_fenced(tx, fence, Transition.RECORD_RETRY)
    await charge(locked, charges)
    retry_at = locked.now + delay
    retry = PendingRetry(locked.chat.attempt, attempts, failure, retry_at)
    locked.set(attempt=locked.chat.attempt + 1, retry=retry, retry_at=retry_at)
    if overflow:
        locked.set(compaction="overflow", retry=None, retry_at=None)
    elif queue.steering(await queue.read_queue(tx, fence.chat)):
        locked.retry_now()
    if release and locked.chat.retry_at is not None:
        locked.set(worker_id=None)
    await tx.execute("DELETE FROM partials WHERE chat_id = :id", {"id": fence.chat})
    return Advanced(await locked.close())


async def start_calls(
    tx: Tx, fence: Fence, calls: Sequence[JournalCall], timeouts: Mapping[str, int] | None = None
) -> Advanced:
    """Record that calls start or wait, before they have any effect.

    `timeouts` has the microseconds after which a waiting call times out.
    """
    locked = await begin_fenced(tx, fence, Transition.START_CALLS)
    journal = await read_journal(tx, fence.chat)
    if any(_answered_meanwhile(journal.get(call.call_id), call) for call in calls):
        raise Fenced
    for call in calls:
        await put_call(locked, _with_deadline(locked, call, timeouts))
    return Advanced(await locked.close())


def _answered_meanwhile(row: JournalCall | None, call: JournalCall) -> bool:
    """Return whether writing `call` would overwrite an answer, which a fence does not detect."""
    if row is None:
        return False
    if call.state == "waiting" and row.state == "approved":
        assert row.approved is not None  # guaranteed by a CHECK of the table
        assert call.asked is not None
        return row.approved.digest == call.asked.digest
    return row.state == "finished"


def _with_deadline(
    locked: LockedChat, call: JournalCall, timeouts: Mapping[str, int] | None
) -> JournalCall:
    seconds = (timeouts or {}).get(call.call_id)
    return call if seconds is None else replace(call, deadline=locked.now + seconds)


async def finish_call(tx: Tx, chat_id: str, call: JournalCall) -> bool:
    """Record the result of a call as soon as it exists. Returns whether the call was still open.

    The fence is only the epoch, and that the call is open and unfinished: a result that arrives
    while the chat is being interrupted is kept.
    """
    try:
        locked = await lock(tx, chat_id)
    except ChatNotFound:
        return False
    chat = locked.chat
    if chat.epoch != call.epoch or chat.worker_id is None:
        return False
    if (chat.status, Transition.FINISH_CALL) not in TRANSITIONS:
        return False
    # Checked under the lock: an edit may have superseded the call, a settlement answered it.
    if not any(open_call.id == call.call_id for open_call in await open_calls(tx, chat_id)):
        return False
    if not await _put_result(locked, call):
        return False
    locked.transition = Transition.FINISH_CALL
    locked.set(crashes=0)
    await locked.close()
    return True


async def _put_result(locked: LockedChat, call: JournalCall) -> bool:
    """Write the result of a call, unless it has one. Returns whether it was written."""
    assert call.result is not None
    count = await locked.tx.execute(
        """
        INSERT INTO tool_calls (chat_id, call_id, number, tool, effect, state, epoch, started_at,
                                finished_at, result, outcome)
        VALUES (:chat, :call, :number, :tool, :effect, 'finished', :epoch, :started, :at, :result,
                :outcome)
        ON CONFLICT (chat_id, call_id) DO UPDATE
           SET state = 'finished', epoch = excluded.epoch, finished_at = excluded.finished_at,
               result = excluded.result, outcome = excluded.outcome
         WHERE tool_calls.state <> 'finished'
        """,
        {
            "chat": locked.chat.id,
            "call": call.call_id,
            "number": call.number,
            "tool": call.tool,
            "effect": call.effect,
            "epoch": call.epoch,
            "started": call.started_at,
            "at": locked.now,
            "result": encode(call.result).decode(),
            "outcome": call.result.outcome,
        },
    )
    return count > 0


async def require_action(
    tx: Tx,
    fence: Fence,
    waiting: Sequence[JournalCall],
    children: Mapping[str, Sequence[str]] | None = None,
    timeouts: Mapping[str, int] | None = None,
    spawned: Mapping[str, NewChat] | None = None,
) -> Advanced:
    """Let the chat wait for actions, unless a call can run after all.

    `spawned` has the child chats of calls that run an agent. They are created together with the
    rows of their calls, and so only once.
    """
    locked = await begin_fenced(tx, fence, Transition.REQUIRE_ACTION)
    journal = await read_journal(tx, fence.chat)
    for call in waiting:
        if call.call_id not in journal:
            await put_call(locked, _with_deadline(locked, call, timeouts))
            if spawned is not None and call.call_id in spawned:
                await spawn(locked, call.call_id, spawned[call.call_id])
    for call_id, child_ids in (children or {}).items():
        await tx.execute_many(
            """
            INSERT INTO awaited (chat_id, call_id, child_id)
            SELECT parent_id, CAST(:call AS TEXT), id
              FROM chats WHERE id = :child AND parent_id = :chat
            ON CONFLICT (chat_id, call_id, child_id) DO NOTHING
            """,
            [
                {"chat": fence.chat, "call": call_id, "child": child}
                for child in child_ids
                if can_hold(child)
            ],
        )
    if queue.steering(await queue.read_queue(tx, fence.chat)):
        return await _end(locked)
    journal = await read_journal(tx, fence.chat)
    calls = await open_calls(tx, fence.chat)
    if calls and all(c.id in journal and journal[c.id].state == "waiting" for c in calls):
        locked.set(status=Status.REQUIRES_ACTION, deadline=earliest(journal))
        waits_for_children = any(journal[c.id].action == "child" for c in calls)
        all_idle = waits_for_children and await children_are_idle(tx, fence.chat)
        if waits_for_children:  # a child may become idle in a transaction not visible to this one
            tx.notify(Claimable(fence.chat))
        return await _end(locked, children_are_idle=all_idle)
    return await _end(locked)


async def finish_turn(
    tx: Tx,
    fence: Fence,
    turn_outcome: TurnOutcome | None,
    outcome: Outcome | None = None,
    *,
    only_to_deliver: bool = False,
    partial: bool = True,
) -> Advanced:
    """Finish the turn, and deliver messages that were queued since the decision to finish.

    `turn_outcome` is None when the turn had ended before: its outcome stays. `only_to_deliver`:
    if the queue is empty, the turn does not end and nothing changes. `partial`: there may be a
    partial answer to delete.
    """
    locked = await begin_fenced(tx, fence, Transition.FINISH_TURN)
    if only_to_deliver and not await queue.read_queue(tx, fence.chat):
        locked.discard()
        return Advanced(await locked.close())
    if outcome is not None:
        await _take_outcome(locked, fence, outcome)
    delivered = await queue.deliver_head_or_idle(locked, "skipped")
    locked.set(compaction=None, retry=None, retry_at=None)
    if delivered:
        locked.set(outcome=None)
    elif turn_outcome is not None:
        locked.set(outcome=turn_outcome)
    return await _end(locked, partial=partial)


class Leftover(Struct, frozen=True, gc=False, kw_only=True):
    """Output of a step that is not committed yet."""

    fence: Fence
    """Fence that the step started from."""
    last_number: int
    """Number of the last message that was committed then."""
    answer: Message | None = None
    """The received part of the answer, which may be all of it."""
    half_written: Message | None = None
    """Incomplete calls of the answer, shown to people only."""
    complete: bool = False
    """Whether the answer is complete and only needs to be committed."""
    calling_model: bool = False
    """Whether a model was being called."""
    results: tuple[ToolResult, ...] = ()
    """Results of calls that had finished, or were stopped while they ran."""
    charges: tuple[Charge, ...] = ()
    """Usage that no message of this carries."""


async def settle(
    tx: Tx, fence: Fence, leftover: Leftover, marker: Message | None = None
) -> Advanced:
    """End an interrupted turn: commit what it produced, and a result for every open call.

    `marker` tells the model of the interrupt.
    """
    locked = await begin_fenced(tx, fence, Transition.SETTLE)
    if leftover.answer is not None:
        await locked.append([leftover.answer], epoch=fence.epoch)
    if leftover.half_written is not None:
        await locked.append([leftover.half_written], epoch=fence.epoch)
    await _take_results(locked, fence, leftover.results)
    await answer_open(locked, "interrupted")
    await charge(locked, leftover.charges)
    if marker is not None:
        await locked.append([marker])
    delivered = await queue.deliver_head_or_idle(locked, "interrupted")
    # A turn that had ended before has its outcome: only its summary was interrupted.
    locked.set(outcome=None if delivered else locked.chat.outcome or TurnOutcome("interrupted"))
    locked.set(compaction=None, retry=None, retry_at=None, deadline=None)
    return await _end(locked)


async def _take_results(
    locked: LockedChat, fence: Fence, step_results: Sequence[ToolResult]
) -> None:
    """Append the results of open calls, from the step or from the journal, in call order."""
    calls = await open_calls(locked.tx, locked.chat.id)
    journal = await read_journal(locked.tx, locked.chat.id)
    by_call = {result.call_id: result for result in step_results}
    results = []
    for call in calls:
        row = journal.get(call.id)
        recorded = row.result if row is not None else None
        result = recorded or by_call.get(call.id)
        if result is not None:
            results.append(result)
    if results:
        await close_calls(locked, results)
        await locked.append([results_message(results)], epoch=fence.epoch)


async def fail(
    tx: Tx,
    fence: Fence,
    failure: Failure,
    partial: Message | None = None,
    charges: Sequence[Charge] = (),
    *,
    outcome: TurnOutcome = FAILED,
) -> Advanced:
    """Set the chat to an error. Open calls stay open, and get results when the chat continues."""
    locked = await begin_fenced(tx, fence, Transition.FAIL)
    if partial is not None:
        await locked.append([partial], epoch=fence.epoch)
    await charge(locked, charges)
    locked.set(
        status=Status.ERROR,
        error=failure,
        outcome=outcome,
        compaction=None,
        retry=None,
        retry_at=None,
        deadline=None,
    )
    return await _end(locked)


async def write_partial(tx: Tx, fence: Fence, seq: int, message: Message) -> None:
    """Save a partial answer, so that it can be settled after a crash.

    Two saves may be under way at once and overtake each other: the longer one stays. Each runs
    under the lock of the chat, so that none follows the commit that deletes the partial answer.
    """
    await tx.execute(
        f"""
        INSERT INTO partials (chat_id, epoch, history_version, attempt, seq, body, updated_at)
        SELECT id, epoch, history_version, attempt, :seq, :body, {tx.dialect.now}
          FROM chats
         WHERE id = :id AND epoch = :epoch AND history_version = :history_version
           AND attempt = :attempt AND worker_id IS NOT NULL
        {tx.dialect.lock}
        ON CONFLICT (chat_id) DO UPDATE
           SET epoch = excluded.epoch, history_version = excluded.history_version,
               attempt = excluded.attempt, seq = excluded.seq, body = excluded.body,
               updated_at = excluded.updated_at
         WHERE (partials.epoch, partials.history_version, partials.attempt, partials.seq)
             < (excluded.epoch, excluded.history_version, excluded.attempt, excluded.seq)
        """,
        {
            "id": fence.chat,
            "epoch": fence.epoch,
            "history_version": fence.history_version,
            "attempt": fence.attempt,
            "seq": seq,
            "body": encode(message).decode(),
        },
    )


async def expire(tx: Tx, fence: Fence) -> Advanced:
    """Answer overdue actions: the deadline has passed, or the awaited children are idle."""
    locked = await begin_fenced(tx, fence, Transition.EXPIRE)
    for call in (await read_journal(tx, fence.chat)).values():
        result = await _overdue_result(locked, call) if call.state == "waiting" else None
        if result is not None:
            await put_call(locked, with_answer(call, Recorded(result), locked.now))
    await continue_if_possible(locked)
    return await _end(locked)


async def _overdue_result(locked: LockedChat, call: JournalCall) -> ToolResult | None:
    """Return the result of an overdue call; None if the call still waits."""
    assert call.asked is not None
    tx, chat_id = locked.tx, locked.chat.id
    expired = call.deadline is not None and call.deadline <= locked.now
    if call.action == "child" and (expired or await children_are_idle(tx, chat_id, call.call_id)):
        return await report_of_children(tx, chat_id, call.asked)
    return result(call.asked.call, "timed_out", NO_RESULT_TEXT["timed_out"]) if expired else None


async def release(tx: Tx, fence: Fence) -> ChatRow:
    """Release the chat to other workers. The fence is only the epoch."""
    try:
        locked = await lock(tx, fence.chat)
    except ChatNotFound:
        raise Fenced from None
    if locked.chat.epoch != fence.epoch or locked.chat.worker_id is None:
        raise Fenced
    locked.set(worker_id=None)
    return await locked.close()
