"""The demo as a `Model`: its pace, its window and its failures."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Final
from zlib import crc32

from holdfast.kernel.errors import ConfigError, ProviderError
from holdfast.kernel.messages import FinishReason, Reasoning, Text, ToolCall, Usage, encode
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
from holdfast.kernel.model_context import estimate_all, estimate_text
from holdfast.providers.demo.parser import Pause
from holdfast.providers.demo.reply import Task, reply, task_of

SLOW_PACE: Final = 0.5
"""Seconds between the words of an answer that was asked to be slow."""
MAX_FAILED: Final = 256
"""Tasks whose failed attempts are counted at the same time."""


class Demo:
    """The demo model. It is not a language model, and says so."""

    name: Final = "demo:demo"
    priced: Final = True

    def __init__(self, *, pace: float = 0.01, window: int = 32_000) -> None:
        """`pace`: seconds between words, so that an answer can be seen to arrive; 0 for none."""
        for option, value, least in (("pace", pace, 0), ("window", window, 1)):
            fits = isinstance(value, (int, float)) and least <= value < float("inf")
            if isinstance(value, bool) or not fits:
                raise ConfigError(f"{option} is {value!r}: use a number, at least {least}")
        self.window = int(window)
        self._pace = pace
        self._failed: dict[str, int] = {}
        """Failed attempts by task. The next attempt is the same request."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        import anyio  # slow to import, and not needed before the first answer

        size = input_tokens(request)
        if size > self.window:
            message = f"the request has about {size} tokens, and {self.window} fit"
            raise ProviderError(message, kind="context_overflow", window=self.window)
        task = task_of(request)
        pace = max(self._pace, SLOW_PACE) if task.slow else self._pace
        for delta in answer(request, task, self._count_attempt(task)):
            if isinstance(delta, Pause):
                await anyio.sleep(delta.seconds)
                continue
            if pace and isinstance(delta, (TextDelta, ReasoningDelta, ArgumentsDelta)):
                await anyio.sleep(pace)
            yield delta

    def _count_attempt(self, task: Task) -> int:
        attempt = self._failed.pop(task.key, 0) + 1
        if task.failure(attempt) is not None:
            self._failed[task.key] = attempt
        if len(self._failed) > MAX_FAILED:
            del self._failed[next(iter(self._failed))]
        return attempt


def answer(request: Request, task: Task, attempt: int) -> Iterator[Delta | Pause]:
    """One answer, or the failure that was asked for."""
    match task.failure(attempt):
        case None:
            yield from limited(request, task, attempt)
        case "stream_cut":
            yield TextDelta("This answer breaks off in the middle of")
        case "stream_silent":
            yield Pause(float("inf"))
        case "empty_response":
            yield Finished()
        case kind:
            message = f"the demo model was asked to fail, and this is attempt {attempt}"
            raise ProviderError(message, kind=kind)


def limited(request: Request, task: Task, attempt: int) -> Iterator[Delta | Pause]:
    """A complete answer, cut at the limit of the request, with its usage."""
    limit = request.settings.max_output_tokens
    finish: FinishReason = "tool_calls" if task.calls else "stop"
    size = reasoning = 0
    for delta in deltas(request, task, attempt):
        text = getattr(delta, "text", "")
        added = len(text.encode("utf-8", "surrogatepass"))
        if limit is not None and added and tokens(size + added) > max(1, limit):
            finish = "length"
            break
        size += added
        reasoning += added if isinstance(delta, ReasoningDelta) else 0
        yield delta
    # A cost of 0 is known, None would be unknown.
    yield Finished(finish, Usage(input_tokens(request), tokens(size), tokens(reasoning), cost=0.0))


def deltas(request: Request, task: Task, attempt: int) -> Iterator[Delta | Pause]:
    parts = (*reply(task, request, attempt), *task.calls)
    # Ids of calls differ from those of earlier requests.
    digest = crc32(b"".join(encode((m.kind, m.parts)) for m in request.messages))
    text = "\n\n".join(part.text for part in parts if isinstance(part, Text))
    sent = len(task.progress.cut) if text.startswith(task.progress.cut) else 0
    position = 0
    for number, part in enumerate(parts):
        match part:
            case Text(paragraph):
                paragraph = f"\n\n{paragraph}" if position else paragraph
                yield from map(TextDelta, words(paragraph[max(0, sent - position) :]))
                position += len(paragraph)
            case Reasoning(thoughts):
                yield from map(ReasoningDelta, words(thoughts))
                yield PartEnded()
            case ToolCall(_, tool, arguments):
                id = f"demo_{len(request.messages)}_{digest:08x}_{number}"
                yield CallStarted(id, tool)
                size = max(12, len(arguments) // 50 + 1)
                for start in range(0, len(arguments), size):
                    yield ArgumentsDelta(id, arguments[start : start + size])
                yield CallEnded(id)
            case Pause():
                yield part


def words(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+$", text)


def tokens(size: int) -> int:
    return (size + 3) // 4


def input_tokens(request: Request) -> int:
    tools = (estimate_text(f"{tool.description}{tool.schema}") for tool in request.tools)
    system = (estimate_text(block.text) for block in request.system)
    return estimate_all(request.messages) + sum(tools) + sum(system)
