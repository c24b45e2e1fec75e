"""Splits an answer into deltas, with pauses and failures between them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeAlias, Union, assert_never

from holdfast.kernel.context import estimate_all, estimate_text
from holdfast.kernel.messages import FinishReason, Usage
from holdfast.kernel.model import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    PartEnded,
    ReasoningDelta,
    Request,
    TextDelta,
)
from holdfast.providers.demo.answer import Answer, Failure, Thoughts
from holdfast.providers.demo.history import mark
from holdfast.providers.demo.intents import Use, Wait, Words

PIECES: Final = 50
"""In which arguments arrive, at most."""

Happening: TypeAlias = Union[Delta, Wait, Failure]


def spelled(answer: Answer, request: Request) -> Iterator[Happening]:
    """What a stream of this answer consists of. It ends with `Finished`, or with a failure."""
    limit = request.settings.max_output_tokens
    finish: FinishReason = (
        "tool_calls" if any(isinstance(one, Use) for one in answer.items) else "stop"
    )
    said = reasoned = 0
    for happening in _happenings(answer, request):
        size = _size(happening)
        if limit is not None and size and _tokens(said + size) > max(1, limit):
            finish = "length"
            break
        said += size
        reasoned += size if isinstance(happening, ReasoningDelta) else 0
        yield happening
        if isinstance(happening, Failure):
            return
    # Known to cost nothing, which is not the same as not known to cost.
    usage = Usage(input_tokens(request), _tokens(said), _tokens(reasoned), cost=0.0)
    yield Finished(finish, usage)


def _happenings(answer: Answer, request: Request) -> Iterator[Happening]:
    words = "\n\n".join(item.text for item in answer.items if isinstance(item, Words))
    heard = len(answer.said) if words.startswith(answer.said) else 0
    told = number = 0
    for item in answer.items:
        match item:
            case Words(text):
                text = f"\n\n{text}" if told else text
                yield from map(TextDelta, _words(text[max(0, heard - told) :]))
                told += len(text)
            case Thoughts(text):
                yield from map(ReasoningDelta, _words(text))
                yield PartEnded()
            case Use():
                number += 1
                yield from _call(item, f"demo_{mark(request.messages)}_{number}")
            case Wait() | Failure():
                yield item
            case _:
                assert_never(item)


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+$", text)


def _call(use: Use, id: str) -> Iterator[Delta]:
    yield CallStarted(id, use.tool)
    size = max(12, len(use.arguments) // PIECES + 1)
    for at in range(0, len(use.arguments), size):
        yield ArgumentsDelta(id, use.arguments[at : at + size])
    yield CallEnded(id)


# --- Tokens -------------------------------------------------------------------------------------


def input_tokens(request: Request) -> int:
    tools = (estimate_text(f"{tool.description}{tool.schema}") for tool in request.tools)
    system = (estimate_text(block.text) for block in request.system)
    return estimate_all(request.messages) + sum(tools) + sum(system)


def _tokens(size: int) -> int:
    """Of so many bytes."""
    return (size + 3) // 4


def _size(happening: Happening) -> int:
    """Of what is sent, in bytes."""
    if isinstance(happening, (TextDelta, ReasoningDelta, ArgumentsDelta)):
        return len(happening.text.encode("utf-8", "surrogatepass"))
    return 0
