"""The row of a message, and the statement that inserts it."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from holdfast.kernel.messages import Message, encode

INSERT_MESSAGE: Final = """
    INSERT INTO messages (chat_id, number, revision, role, kind, visibility, body, author, epoch,
                          runtime, input, output, reasoning, cache_read, cache_write, cost,
                          created_at)
    VALUES (:chat_id, :number, :revision, :role, :kind, :visibility, :body, :author, :epoch,
            :runtime, :input, :output, :reasoning, :cache_read, :cache_write, :cost, :created_at)
    """


def message_row(
    chat: str,
    number: int,
    revision: int,
    message: Message,
    now: int,
    *,
    author: str | None = None,
    epoch: int | None = None,
    charged: bool = True,
) -> dict[str, Any]:
    """Return the row of a message. `charged` is False for a message copied from another chat."""
    usage = (message.usage if charged else None) or UNKNOWN_USAGE
    return {
        "chat_id": chat,
        "number": number,
        "revision": revision,
        "role": message.role,
        "kind": message.kind,
        "visibility": message.visibility,
        "body": encode(message).decode(),
        "author": author,
        "epoch": epoch,
        "runtime": message.runtime if message.kind == "answer" else None,
        "input": usage.input,
        "output": usage.output,
        "reasoning": usage.reasoning,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "cost": usage.cost,
        "created_at": now,
    }


class _UnknownUsage(Struct, frozen=True):
    """The usage of a message without usage, which differs from zero."""

    input: int | None = None
    output: int | None = None
    reasoning: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cost: float | None = None


UNKNOWN_USAGE: Final = _UnknownUsage()
