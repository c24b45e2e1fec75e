"""Transitions of a runner: commit, retry, journal, finish, settle, fail. Each is fenced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.chat import queue
from holdfast.chat.child_reports import children_rest, report_of_children
from holdfast.chat.errors import ChatNotFound, Fenced
from holdfast.chat.journal import (
    WHY,
    answer_open,
    close_calls,
    earliest,
    open_calls,
    put_call,
    read_journal,
)
from holdfast.chat.row_lock import Locked, begin_fenced, fence_of, lock, lock_if_there
from holdfast.chat.rows import Call, Charge, Chat, Fence, Rest, Retry, Status, Stored, can_hold
from holdfast.chat.state_machine import TRANSITIONS, Transition
from holdfast.chat.transitions.lifecycle import Write, carry_out
from holdfast.chat.transitions.user import answered, go_on_if_possible
from holdfast.kernel.decide import Recorded
from holdfast.kernel.errors import Failure
from holdfast.kernel.messages import Message, ToolResult, encode, results_message
from holdfast.kernel.results import result
from holdfast.store.database import Claimable, Tx


class Advanced(Struct, frozen=True):
    """The chat after a write of its runner, and the messages that were appended."""

    chat: Chat
    appended: tuple[Stored, ...] = ()

    @property
    def fence(self) -> Fence:
        """The fence for the next write."""
        return fence_of(self.chat)


async def _end(locked: Locked, *, partial: bool = True, children_rest: bool = False) -> Advanced:
    """Close the chat with what every commit does: reset crashes, delete the partial answer."""
    locked.set(crashes=0)
    if partial:
        await locked.tx.execute("DELETE FROM partials WHERE chat_id = :id", {"id": locked.chat.id})
    chat = await locked.close(children_rest=children_rest)
    return Advanced(chat, tuple(locked.appended))


class Outcome(Struct, frozen=True, kw_only=True):
    """A step that does more than append: it finishes calls, carries out writes, or has
    compacted."""

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
    await _take(locked, fence, outcome)
    return await _end(locked)


async def _take(locked: Locked, fence: Fence, outcome: Outcome) -> None:
    await locked.append(outcome.messages, epoch=fence.epoch)
    if outcome.results:
        for call_id, writes in outcome.writes.items():
            await carry_out(locked, call_id, writes)
        await _take_known(locked, fence, outcome.results)
    if outcome.compacted:
        locked.set(compaction=None)
    await charge(locked, outcome.charges)


async def charge(locked: Locked, charges: Sequence[Charge]) -> None:
    """Count usage that no message carries. Its id makes this idempotent."""
    for one in charges:
        usage = one.usage
        values: dict[str, Any] = {
            "chat_id": locked.chat.id,
            "id": one.id,
            "purpose": one.purpose,
            "model": one.model,
            "input": usage.input,
            "output": usage.output,
            "reasoning": usage.reasoning,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
            "cost": usage.cost,
            "created_at": locked.now,
        }
        await locked.tx.execute(
            f"""
            INSERT INTO usage ({", ".join(values)})
            VALUES ({", ".join(f":{name}" for name in values)})
            ON CONFLICT (chat_id, id) DO NOTHING
            """,
            values,
        )


async def charge_abandoned(tx: Tx, fence: Fence, last: int, charges: Sequence[Charge]) -> None:
    """Count the usage of a step that was abandoned, unless its answer was committed after all.

    `last` is the number of the last message when the step began. Nothing else of the chat changes.
    """
    locked = await lock_if_there(tx, fence.chat)
    if locked is None or locked.chat.epoch != fence.epoch:
        return
    answered = await tx.one(
        """
        SELECT 1 FROM messages
         WHERE chat_id = :id AND number > :last AND epoch = :epoch AND kind = 'answer'
        """,
        {"id": fence.chat, "last": last, "epoch": fence.epoch},
    )
    if answered is None:
        await charge(locked, charges)


async def deliver(tx: Tx, fence: Fence) -> Advanced:
    """Deliver all queued steer and interrupt messages at a step boundary."""
    locked = await begin_fenced(tx, fence, Transition.DELIVER)
    waiting = queue.steering(await queue.read_queue(tx, fence.chat))
    if waiting:
        await queue.deliver(locked, waiting, "skipped")
        locked.set(outcome=None)
    else:
        locked.leave()  # the message was removed meanwhile
    return await _end(locked, partial=bool(waiting))


async def record_retry(
    tx: Tx,
    fence: Fence,
    failure: Failure,
    attempts: int,
    wait: int,
    charges: Sequence[Charge] = (),
    *,
    overflow: bool = False,
    release: bool = False,
) -> Advanced:
    """Record a failed attempt; the next begins after `wait` µs. A long wait releases the chat."""
    locked = await begin_fenced(tx, fence, Transition.RECORD_RETRY)
    await charge(locked, charges)
    at = locked.now + wait
    retry = Retry(locked.chat.attempt, attempts, failure, at)
    locked.set(attempt=locked.chat.attempt + 1, retry=retry, retry_at=at)
    if overflow:
        locked.set(compaction="overflow", retry=None, retry_at=None)
    elif queue.steering(await queue.read_queue(tx, fence.chat)):
        locked.wait_no_longer()
    if release and locked.chat.retry_at is not None:
        locked.set(worker_id=None)
    await tx.execute("DELETE FROM partials WHERE chat_id = :id", {"id": fence.chat})
    return Advanced(await locked.close())


async def start_calls(
    tx: Tx, fence: Fence, calls: Sequence[Call], patience: Mapping[str, int] | None = None
) -> Advanced:
    """Record that calls start or wait, before they have any effect.

    `patience` has the microseconds after which a waiting call times out.
    """
    locked = await begin_fenced(tx, fence, Transition.START_CALLS)
    known = await read_journal(tx, fence.chat)
    if any(_answered_meanwhile(known.get(call.call_id), call) for call in calls):
        raise Fenced
    for call in calls:
        await put_call(locked, _dated(locked, call, patience))
    return Advanced(await locked.close())


def _answered_meanwhile(known: Call | None, call: Call) -> bool:
    """Return whether this would overwrite an answer: answers do not change what a fence names."""
    if known is None:
        return False
    if call.state == "waiting" and known.state == "approved":
        assert known.approved is not None  # guaranteed by a CHECK of the table
        assert call.asked is not None
        return known.approved.digest == call.asked.digest
    return known.state == "finished"


def _dated(locked: Locked, call: Call, patience: Mapping[str, int] | None) -> Call:
    seconds = (patience or {}).get(call.call_id)
    return call if seconds is None else replace(call, deadline=locked.now + seconds)


async def finish_call(tx: Tx, chat_id: str, call: Call) -> bool:
    """Record the result of a call as soon as it is there. Returns whether it was still open.

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
    if not any(one.id == call.call_id for one in await open_calls(tx, chat_id)):
        return False
    if not await _put_result(locked, call):
        return False
    locked.transition = Transition.FINISH_CALL
    locked.set(crashes=0)
    await locked.close()
    return True


async def _put_result(locked: Locked, call: Call) -> bool:
    """Write the result of a call, unless it has one. Returns whether it was written."""
    assert call.result is not None
    written = await locked.tx.execute(
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
    return written > 0


async def require_action(
    tx: Tx,
    fence: Fence,
    waiting: Sequence[Call],
    children: Mapping[str, Sequence[str]] | None = None,
    patience: Mapping[str, int] | None = None,
) -> Advanced:
    """Wait for actions, unless something can run after all."""
    locked = await begin_fenced(tx, fence, Transition.REQUIRE_ACTION)
    known = await read_journal(tx, fence.chat)
    for call in waiting:
        if call.call_id not in known:
            await put_call(locked, _dated(locked, call, patience))
    for call_id, awaited in (children or {}).items():
        await tx.execute_many(
            """
            INSERT INTO awaited (chat_id, call_id, child_id)
            SELECT parent_id, CAST(:call AS TEXT), id
              FROM chats WHERE id = :child AND parent_id = :chat
            ON CONFLICT (chat_id, call_id, child_id) DO NOTHING
            """,
            [
                {"chat": fence.chat, "call": call_id, "child": child}
                for child in awaited
                if can_hold(child)
            ],
        )
    if queue.steering(await queue.read_queue(tx, fence.chat)):
        return await _end(locked)
    known = await read_journal(tx, fence.chat)
    left = await open_calls(tx, fence.chat)
    if left and all(c.id in known and known[c.id].state == "waiting" for c in left):
        locked.set(status=Status.REQUIRES_ACTION, deadline=earliest(known))
        awaits = any(known[c.id].action == "child" for c in left)
        rest = awaits and await children_rest(tx, fence.chat)
        if awaits:  # the last child may be idle by now, in a transaction that this one cannot see
            tx.tell(Claimable(fence.chat))
        return await _end(locked, children_rest=rest)
    return await _end(locked)


async def finish_turn(
    tx: Tx,
    fence: Fence,
    rest: Rest | None,
    outcome: Outcome | None = None,
    *,
    only_to_deliver: bool = False,
    partial: bool = True,
) -> Advanced:
    """Finish the turn. Messages that arrived since that was decided are delivered.

    `rest` is None when the turn had ended before: its outcome stays. `only_to_deliver`: if the
    queue is empty, the turn has not ended and nothing changes. `partial`: there may be a partial
    answer to delete.
    """
    locked = await begin_fenced(tx, fence, Transition.FINISH_TURN)
    if only_to_deliver and not await queue.read_queue(tx, fence.chat):
        locked.leave()
        return Advanced(await locked.close())
    if outcome is not None:
        await _take(locked, fence, outcome)
    delivered = await queue.deliver_head_or_rest(locked, "skipped")
    locked.set(compaction=None, retry=None, retry_at=None)
    if delivered:
        locked.set(outcome=None)
    elif rest is not None:
        locked.set(outcome=rest)
    return await _end(locked, partial=partial)


class Settlement(Struct, frozen=True, kw_only=True):
    """What is left of a step that was interrupted."""

    message: Message | None = None
    """The partial answer, or the whole answer whose commit came too late."""
    half_written: Message | None = None
    """Incomplete calls of the answer, shown to people only."""
    results: tuple[ToolResult, ...] = ()
    """Results of calls that had finished, or were stopped while they ran."""
    marker: Message | None = None
    charges: tuple[Charge, ...] = ()


async def settle(tx: Tx, fence: Fence, left: Settlement) -> Advanced:
    """End an interrupted turn: commit what it produced, and a result for every open call."""
    locked = await begin_fenced(tx, fence, Transition.SETTLE)
    if left.message is not None:
        await locked.append([left.message], epoch=fence.epoch)
    if left.half_written is not None:
        await locked.append([left.half_written], epoch=fence.epoch)
    await _take_known(locked, fence, left.results)
    await answer_open(locked, "interrupted")
    await charge(locked, left.charges)
    if left.marker is not None:
        await locked.append([left.marker])
    delivered = await queue.deliver_head_or_rest(locked, "interrupted")
    # A turn that had ended before has its outcome: only its summary was interrupted.
    locked.set(outcome=None if delivered else locked.chat.outcome or Rest("interrupted"))
    locked.set(compaction=None, retry=None, retry_at=None, deadline=None)
    return await _end(locked)


async def _take_known(locked: Locked, fence: Fence, made: Sequence[ToolResult]) -> None:
    """Return results of open calls, and those in the journal of their siblings, in call order."""
    calls = await open_calls(locked.tx, locked.chat.id)
    known = await read_journal(locked.tx, locked.chat.id)
    own = {one.call_id: one for one in made}
    chosen = []
    for call in calls:
        row = known.get(call.id)
        recorded = row.result if row is not None else None
        one = recorded or own.get(call.id)
        if one is not None:
            chosen.append(one)
    if chosen:
        await close_calls(locked, chosen)
        await locked.append([results_message(chosen)], epoch=fence.epoch)


async def fail(
    tx: Tx,
    fence: Fence,
    failure: Failure,
    partial: Message | None = None,
    charges: Sequence[Charge] = (),
) -> Advanced:
    """Stop with an error. Open calls stay open, and are answered when the chat continues."""
    locked = await begin_fenced(tx, fence, Transition.FAIL)
    if partial is not None:
        await locked.append([partial], epoch=fence.epoch)
    await charge(locked, charges)
    locked.set(
        status=Status.ERROR,
        error=failure,
        outcome=Rest("error"),
        compaction=None,
        retry=None,
        retry_at=None,
        deadline=None,
    )
    return await _end(locked)


async def write_partial(tx: Tx, fence: Fence, seq: int, message: Message) -> None:
    """Save the part of an answer that has arrived, to be settled after a crash.

    Two saves may be under way at once and overtake each other: the longer one stays. Runs under the
    lock of the chat, so that none comes after the commit that is to delete it.
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
    """Answer overdue actions: deadlines that passed, and children that are idle."""
    locked = await begin_fenced(tx, fence, Transition.EXPIRE)
    for call in (await read_journal(tx, fence.chat)).values():
        made = await _overdue(locked, call) if call.state == "waiting" else None
        if made is not None:
            await put_call(locked, answered(call, Recorded(made), locked.now))
    await go_on_if_possible(locked)
    return await _end(locked)


async def _overdue(locked: Locked, call: Call) -> ToolResult | None:
    """Return the result of an overdue call; None if an answer may still come."""
    assert call.asked is not None
    tx, chat_id = locked.tx, locked.chat.id
    expired = call.deadline is not None and call.deadline <= locked.now
    if call.action == "child" and (expired or await children_rest(tx, chat_id, call.call_id)):
        return await report_of_children(tx, chat_id, call.asked)
    return result(call.asked.call, "timed_out", WHY["timed_out"]) if expired else None


async def release(tx: Tx, fence: Fence) -> Chat:
    """Release the chat to other workers. The fence is only the epoch."""
    try:
        locked = await lock(tx, fence.chat)
    except ChatNotFound:
        raise Fenced from None
    if locked.chat.epoch != fence.epoch or locked.chat.worker_id is None:
        raise Fenced
    locked.set(worker_id=None)
    return await locked.close()
