"""Reports about child chats: the state of each, and the last answer of those that are idle."""

from __future__ import annotations

from collections.abc import Sequence
from json import loads
from typing import Any

from msgspec import json

from holdfast.chat.rows import BUSY, IS_BUSY, TurnOutcome, document
from holdfast.kernel.errors import Failure
from holdfast.kernel.events import Action
from holdfast.kernel.limits import LimitReached
from holdfast.kernel.messages import Message, ToolResult, encode
from holdfast.kernel.title_request import cleaned
from holdfast.kernel.tool_results import content, result
from holdfast.store.database import Tx


async def children_are_idle(tx: Tx, chat_id: str, call_id: str | None = None) -> bool:
    """Return whether all awaited children of the chat, or of one of its calls, are idle."""
    row = await tx.one(
        f"""
        SELECT sum(CASE WHEN c.{IS_BUSY} THEN 1 ELSE 0 END)
          FROM awaited a JOIN chats c ON c.id = a.child_id
         WHERE a.chat_id = :id {"" if call_id is None else "AND a.call_id = :call"}
        """,
        {"id": chat_id} if call_id is None else {"id": chat_id, "call": call_id},
    )
    return row is not None and not row[0]


async def report_of_children(tx: Tx, chat_id: str, action: Action) -> ToolResult:
    """Return the reports of the awaited children that are idle, and the state of the others."""
    call = action.call
    rows = await tx.fetch(
        """
        SELECT c.id, c.title, c.status, c.error,
               (SELECT m.body FROM messages m
                 WHERE m.chat_id = c.id AND m.superseded_at IS NULL AND m.kind = 'answer'
                   AND m.visibility <> 'user'
                 ORDER BY m.number DESC LIMIT 1),
               c.outcome, c.spawned_by
          FROM awaited a JOIN chats c ON c.id = a.child_id
         WHERE a.chat_id = :id AND a.call_id = :call ORDER BY c.created_at, c.id
        """,
        {"id": chat_id, "call": call.id},
    )
    ids = awaited_by(action)
    if rows[0][6] == call.id if rows else not ids:  # the call runs an agent
        return _answer(action, *rows[0][:6]) if rows else _answer(action)
    reports = {row[0]: _report(*row[:6]) for row in rows}
    # First in the order of the model's arguments, then any other awaited child.
    order = dict.fromkeys((*ids, *reports))
    entries = [reports.get(id, {"agent": id, "status": "unknown"}) for id in order]
    return ToolResult(call.id, call.tool, content(entries))


def _answer(
    action: Action,
    id: str = "",
    title: str | None = None,
    status: str | None = None,
    error: str | None = None,
    body: str | None = None,
    outcome: str | None = None,
) -> ToolResult:
    """Return the result of a call that runs an agent: the answer of its child chat."""
    call = action.call
    if status in BUSY:
        return result(call, "timed_out", f"{call.tool} has not finished yet.")
    if error is not None:
        why = document(id, "error", error, Failure).message
        return result(call, "failed", f"{call.tool} failed: {why}")
    if limit := _limit_of(id, outcome):
        return result(call, "failed", f"{call.tool} failed: no final answer. {limit.event}")
    if status is None or body is None:
        return result(call, "failed", f"{call.tool} was stopped before it answered.")
    return ToolResult(call.id, call.tool, content(document(id, "last answer", body, Message).text))


def _limit_of(id: str, outcome: str | None) -> LimitReached | None:
    """Return the limit that ended the last turn of a child chat, if that is how it ended."""
    return None if outcome is None else document(id, "outcome", outcome, TurnOutcome).limit


def _report(
    id: str,
    title: str | None,
    status: str,
    error: str | None,
    body: str | None,
    outcome: str | None,
) -> dict[str, Any]:
    report: dict[str, Any] = {"agent": id, "status": status}
    if title is not None:
        report["title"] = title
    if error is not None:
        report["error"] = document(id, "error", error, Failure).message
    if limit := _limit_of(id, outcome):
        report["limit"] = limit.event
    if body is not None and status not in BUSY:  # until then its answers are only intermediate
        report["answer"] = document(id, "last answer", body, Message).text
    return report


def awaited_by(action: Action) -> list[str]:
    """Return the ids of the chats that a call waits for, from its validated arguments."""
    # Text that a database cannot hold is not the id of any chat.
    arguments = json.decode(encode(loads(action.arguments)))
    agents = arguments.get("agents") if isinstance(arguments, dict) else None
    return [agent for agent in agents if isinstance(agent, str)] if isinstance(agents, list) else []


async def list_children(tx: Tx, chat_id: str) -> Sequence[dict[str, Any]]:
    """Return the chats that this chat spawned, oldest first, with the state of each."""
    rows = await tx.fetch(
        """
        SELECT c.id, c.agent, c.title, c.status, c.error,
               (SELECT m.body FROM messages m
                 WHERE m.chat_id = c.id AND m.superseded_at IS NULL AND m.kind = 'prompt'
                 ORDER BY m.number LIMIT 1)
          FROM chats c WHERE c.parent_id = :id ORDER BY c.created_at, c.id
        """,
        {"id": chat_id},
    )
    return [_entry(*row) for row in rows]


def _entry(
    id: str, agent: str, title: str | None, status: str, error: str | None, body: str | None
) -> dict[str, Any]:
    entry: dict[str, Any] = {"agent": id, "name": agent}
    if title is None and body is not None:
        title = cleaned(document(id, "prompt", body, Message).text)
    if title is not None:
        entry["title"] = title
    entry["status"] = status
    if error is not None:
        entry["error"] = document(id, "error", error, Failure).message
    return entry
