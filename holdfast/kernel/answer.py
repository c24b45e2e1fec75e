"""The last answer of a history: one message, or several if it was cut by length. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.kernel.messages import TRANSPARENT, CutBy, Message


def pieces(history: Sequence[Message], *, shown: bool = False) -> list[Message]:
    """The messages of the last answer. `shown` includes one that only people see, as after a
    failure."""
    messages: list[Message] = []
    continues = True
    for message in reversed(history):
        if continues and speaks(message, shown=shown):
            messages.append(message)
            continues = False
        elif not messages or message.visibility == "user" or message.kind in TRANSPARENT:
            continue
        elif message.why == "recovery" and not continues:
            continues = True
        else:
            break
    return messages[::-1]


def speaks(message: Message, *, shown: bool = True) -> bool:
    """Whether a message is an answer. One for people only counts if `shown` is true and it has
    text: it may contain nothing but half-written calls."""
    if message.kind != "answer":
        return False
    return message.visibility != "user" or (shown and bool(message.text))


def text(history: Sequence[Message]) -> str:
    """Text of the last answer as people see it; empty without one."""
    return "".join(message.text for message in pieces(history, shown=True))


def cut_by(answer: Message | None) -> CutBy | None:
    """Cause that cut an answer short; None if it is complete."""
    if answer is None or (answer.finish != "content_filter" and answer.finish != "length"):
        return None
    return answer.finish
