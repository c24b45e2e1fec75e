"""Histories as JSON files, as `holdfast.messages.dump` writes them: converted to chats. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.chat.export import jsonl
from holdfast.chat.journal import NO_RESULT_TEXT
from holdfast.chat.rows import Status, Stored
from holdfast.chat.snapshots import Snapshot
from holdfast.cli.agent_registry import DEFAULT_AGENT
from holdfast.kernel.errors import FormatError
from holdfast.kernel.messages import Message, Value, decode, load
from holdfast.kernel.tool_results import result
from holdfast.kernel.turn import fold_all


class _Started(Value, frozen=True):
    """Calls that were started and had no result yet, which `holdfast run --history` recorded."""

    started: tuple[str, ...] = ()


def is_history(data: bytes) -> bool:
    """Whether this is a history, and not an exported chat."""
    try:
        return bool(load(data))
    except FormatError:
        return False


def exported(data: bytes, labels: dict[str, str], now: int) -> str:
    """A history as an exported chat, in which the calls that a crash cut off are lost."""
    messages, started = load(data), decode(data, _Started).started
    cut_off = [call for call in fold_all(messages).open if call.id in started]
    if lost := tuple(result(call, "lost", NO_RESULT_TEXT["lost"]) for call in cut_off):
        messages = (*messages, Message("tool", lost, "results"))
    stored = [Stored(number, 1, one, None, now) for number, one in enumerate(messages, 1)]
    lines = jsonl(_chat(labels, messages, now), stored)
    return "".join(f"{line}\n" for line in lines)


def _chat(labels: dict[str, str], messages: Sequence[Message], now: int) -> Snapshot:
    """The chat of an export: only its agent and its labels are read."""
    return Snapshot(
        id="history",
        owner="",
        agent=DEFAULT_AGENT,
        title=None,
        titled_by=None,
        labels=labels,
        model=None,
        effort=None,
        workspace=None,
        rules=(),
        parent_id=None,
        root_id="history",
        status=Status.IDLE,
        archived=False,
        error=None,
        retry=None,
        outcome=None,
        deadline=None,
        compaction=None,
        snapshot_version=1,
        history_version=1,
        queue_version=0,
        epoch=0,
        attempt=0,
        messages=len(messages),
        created_at=now,
        updated_at=now,
    )
