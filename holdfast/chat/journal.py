"""The journal of tool calls: the durable state of each call until its result is in the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from holdfast.chat.locked_chat import LockedChat
from holdfast.chat.rows import SELECT_MESSAGE, JournalCall, Stored, document, stored_of
from holdfast.kernel.decide import Approved
from holdfast.kernel.events import Action
from holdfast.kernel.messages import (
    ToolCall,
    ToolOutcome,
    ToolResult,
    encode,
    results_message,
)
from holdfast.kernel.tool_results import TOOK_EFFECT, result
from holdfast.kernel.turn import Turn, fold_all
from holdfast.store.database import Row, Tx

NO_RESULT_TEXT: Final[Mapping[ToolOutcome, str]] = {
    "interrupted": "Interrupted by the user.",
    "skipped": "Skipped because of a new message from the user.",
    "edited": "Void: the user edited an earlier message.",
    "forked": "Not run here: the conversation was copied before it had a result.",
    "lost": "Interrupted by a restart; it may or may not have taken effect.",
    "timed_out": "No answer came in time.",
}
"""Text of the result that the model reads for a call that produced none."""

SELECT_CALL: Final = """
    SELECT call_id, number, tool, effect, state, action, asked, deadline, approved, epoch,
           started_at, finished_at, result, outcome
      FROM tool_calls
    """
NOT_IN_HISTORY: Final = "(state <> 'finished' OR result IS NOT NULL)"
"""SQL condition: the result is not in the history. Must match the index's condition literally."""


def _call_of(chat: str, row: Row) -> JournalCall:
    action, approved, result = row[6], row[8], row[12]
    where = f"call {row[0]}"
    return JournalCall(
        call_id=row[0],
        number=row[1],
        tool=row[2],
        effect=row[3],
        state=row[4],
        action=row[5],
        asked=None if action is None else document(chat, where, action, Action),
        deadline=row[7],
        approved=None if approved is None else document(chat, where, approved, Approved),
        epoch=row[9],
        started_at=row[10],
        finished_at=row[11],
        result=None if result is None else document(chat, where, result, ToolResult),
        outcome=row[13],
    )


async def read_journal(tx: Tx, chat_id: str) -> dict[str, JournalCall]:
    """Read the calls that are not in the history yet, by id."""
    rows = await tx.fetch(
        f"{SELECT_CALL} WHERE chat_id = :id AND {NOT_IN_HISTORY}", {"id": chat_id}
    )
    return {row[0]: _call_of(chat_id, row) for row in rows}


async def read_tail(tx: Tx, chat_id: str) -> list[Stored]:
    """Read the live history from the last answer that models see."""
    rows = await tx.fetch(
        f"""
        {SELECT_MESSAGE}
         WHERE chat_id = :id AND superseded_at IS NULL
           AND number >= COALESCE((SELECT number FROM messages
                                    WHERE chat_id = :id AND superseded_at IS NULL
                                      AND kind = 'answer' AND visibility <> 'user'
                                    ORDER BY number DESC LIMIT 1), 1)
         ORDER BY number
        """,
        {"id": chat_id},
    )
    return [stored_of(chat_id, row) for row in rows]


def turn_of(tail: Sequence[Stored]) -> Turn:
    """Fold the end of a history. Only its open calls and its last message are valid."""
    return fold_all(stored.message for stored in tail)


async def open_calls(tx: Tx, chat_id: str) -> tuple[ToolCall, ...]:
    """Read the calls of the last answer that have no result in the history."""
    return turn_of(await read_tail(tx, chat_id)).open


async def answer_open(locked: LockedChat, outcome: ToolOutcome, why: str | None = None) -> None:
    """Give every open call a result: the recorded one, or one that explains why there is none."""
    calls = await open_calls(locked.tx, locked.chat.id)
    if not calls:
        return
    journal = await read_journal(locked.tx, locked.chat.id)
    await take_results(
        locked, [_final_result(call, journal.get(call.id), outcome, why) for call in calls]
    )
    locked.set(deadline=None)


def _final_result(
    call: ToolCall, row: JournalCall | None, outcome: ToolOutcome, why: str | None
) -> ToolResult:
    if row is not None and row.result is not None:
        return row.result
    text = why or NO_RESULT_TEXT[outcome]
    if row is not None and row.started_at is not None and outcome != "lost":
        text += TOOK_EFFECT
    return replace(result(call, outcome, text), started_at=None if row is None else row.started_at)


async def take_results(
    locked: LockedChat, results: Sequence[ToolResult], epoch: int | None = None
) -> None:
    """Append results to the history and close their calls in the journal."""
    if results:
        await close_calls(locked, results)
        await locked.append([results_message(results)], epoch=epoch)


async def close_calls(locked: LockedChat, results: Sequence[ToolResult]) -> None:
    """Mark calls as finished, with the result removed from the journal."""
    chat_id = locked.chat.id
    await locked.tx.execute_many(
        """
        UPDATE tool_calls
           SET state = 'finished', outcome = :outcome, result = NULL,
               finished_at = COALESCE(finished_at, :at)
         WHERE chat_id = :id AND call_id = :call
        """,
        [
            {"id": chat_id, "call": result.call_id, "outcome": result.outcome, "at": locked.now}
            for result in results
        ],
    )
    await locked.tx.execute(
        f"""
        DELETE FROM awaited
         WHERE chat_id = :id AND {locked.tx.dialect.one_of("call_id", "calls")}
        """,
        {"id": chat_id, "calls": [result.call_id for result in results]},
    )


async def put_call(locked: LockedChat, call: JournalCall) -> None:
    """Insert or update a row of the journal."""
    values: dict[str, Any] = {
        "chat_id": locked.chat.id,
        "call_id": call.call_id,
        "number": call.number,
        "tool": call.tool,
        "effect": call.effect,
        "state": call.state,
        "action": call.action,
        "asked": _json(call.asked),
        "deadline": call.deadline,
        "approved": _json(call.approved),
        "epoch": call.epoch,
        "started_at": call.started_at,
        "finished_at": call.finished_at,
        "result": _json(call.result),
        "outcome": call.outcome,
    }
    names = ", ".join(values)
    assignments = ", ".join(
        f"{name} = excluded.{name}" for name in values if name not in ("chat_id", "call_id")
    )
    await locked.tx.execute(
        f"""
        INSERT INTO tool_calls ({names}) VALUES ({", ".join(f":{name}" for name in values)})
        ON CONFLICT (chat_id, call_id) DO UPDATE SET {assignments}
        """,
        values,
    )


def _json(value: object) -> str | None:
    return None if value is None else encode(value).decode()


def earliest(calls: Mapping[str, JournalCall]) -> int | None:
    """Return the earliest deadline of the waiting actions."""
    deadlines = [c.deadline for c in calls.values() if c.state == "waiting" and c.deadline]
    return min(deadlines, default=None)
