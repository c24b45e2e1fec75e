"""The demo model: a small program, not a language model, that answers like one.

It needs no key and no network, it is the same each time, and it really calls the tools, so that
everything around a model can be tried by hand and in tests. `help` says what it understands.

From a prompt to an answer: `phrases` reads wishes off the prompt, `history` says how many of them
are done, `answer` decides what comes next, `spell` turns that into deltas, and this streams them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from holdfast.kernel.errors import ConfigError, ProviderError
from holdfast.kernel.model import (
    ArgumentsDelta,
    Delta,
    Finished,
    ReasoningDelta,
    Request,
    TextDelta,
)
from holdfast.providers.demo.answer import Failure, Task, answer, task_of
from holdfast.providers.demo.history import mark
from holdfast.providers.demo.intents import FAILURES, Wait
from holdfast.providers.demo.pacing import input_tokens, spelled
from holdfast.providers.demo.texts import SPEECH

__all__ = ["NAME", "SPEECH", "Demo"]

NAME: Final = "demo:demo"
SLOW: Final = 0.5
"""Seconds between words when it is asked to be slow."""
REMEMBERED: Final = 256
"""Requests that failed as they were asked to, and how often."""


class Demo:
    """A `Model`. It is no language model, and says so."""

    def __init__(self, *, pace: float = 0.01, window: int = 32_000) -> None:
        """`pace`: seconds between words, so that an answer can be seen to arrive; 0 for none."""
        for name, value, least in (("pace", pace, 0), ("window", window, 1)):
            fits = isinstance(value, (int, float)) and least <= value < float("inf")
            if isinstance(value, bool) or not fits:
                raise ConfigError(f"{name} is {value!r}: use a number, at least {least}")
        self._pace = pace
        self._window = int(window)
        self._failed: dict[str, int] = {}

    @property
    def name(self) -> str:
        return NAME

    @property
    def window(self) -> int:
        return self._window

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        import anyio  # slow to import, and not needed before there is an answer to give

        self._check_size(request)
        task = task_of(request)
        key = _key(request, task)
        reply = answer(request, task, self._failed.get(key, 0))
        pace = max(self._pace, SLOW) if reply.slow else self._pace
        for happening in spelled(reply, request):
            match happening:
                case Wait(seconds):
                    await anyio.sleep(seconds)
                    continue
                case Failure(kind):
                    self._remember(key)
                    if kind == "stream_silent":
                        await anyio.sleep_forever()
                    elif kind == "empty_response":
                        yield Finished()
                    elif kind != "stream_cut":
                        raise _error(happening)
                    return
                case TextDelta() | ReasoningDelta() | ArgumentsDelta():
                    if pace:
                        await anyio.sleep(pace)
                case Finished():
                    self._failed.pop(key, None)
            yield happening

    def _check_size(self, request: Request) -> None:
        size = input_tokens(request)
        if size > self._window:
            raise ProviderError(
                f"the request has about {size} tokens, and {self._window} fit",
                kind="context_overflow",
                window=self._window,
            )

    def _remember(self, key: str) -> None:
        """One more failure of this step, which is tried again with the same request."""
        self._failed[key] = self._failed.pop(key, 0) + 1
        if len(self._failed) > REMEMBERED:
            del self._failed[next(iter(self._failed))]


def _key(request: Request, task: Task | None) -> str:
    """What tells this step from others when it is tried again."""
    if task is None or task.fail is None:
        return ""
    if task.fail.kind == "context_overflow":  # tried again with fewer messages
        return f"{task.turn.done} {task.turn.text}"
    return mark(request.messages)


def _error(failure: Failure) -> ProviderError:
    """What a provider's client would raise."""
    return ProviderError(
        f"the demo model was asked to fail, and this is attempt {failure.attempt}",
        kind=failure.kind,
        status=FAILURES[failure.kind],
    )
