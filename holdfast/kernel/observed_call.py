"""A model caller that notifies an observer of each call. Unobserved calls do not pass here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.kernel.assemble import Assembly
from holdfast.kernel.channel import Sink
from holdfast.kernel.events import Event
from holdfast.kernel.inbox import Interruption
from holdfast.kernel.messages import ToolCall
from holdfast.kernel.model import Model, Request
from holdfast.kernel.model_call import ModelCaller
from holdfast.kernel.observer import UNOBSERVED_CHAT, ChatObserver, ModelCallOutcome, Purpose
from holdfast.kernel.policy import Stream
from holdfast.kernel.result import RunCounters


def caller_of(
    limits: Stream,
    sink: Sink,
    interruption: Interruption,
    counters: RunCounters,
    observer: ChatObserver,
    why: Purpose = "answer",
) -> ModelCaller:
    """A model caller that notifies `observer`, if there is one."""
    if observer is UNOBSERVED_CHAT:
        return ModelCaller(limits, sink, interruption, counters)
    return _ObservedCaller(limits, sink, interruption, counters, observer, why)


class _ObservedCaller(ModelCaller):
    def __init__(
        self,
        limits: Stream,
        sink: Sink,
        interruption: Interruption,
        counters: RunCounters,
        observer: ChatObserver,
        why: Purpose,
    ) -> None:
        super().__init__(limits, sink, interruption, counters)
        self._observer = observer
        self._why: Purpose = why
        self._clock = asyncio.get_running_loop().time

    async def call(
        self,
        model: Model,
        request: Request,
        assembly: Assembly,
        on_call: Callable[[ToolCall], None] | None = None,
        show: Callable[[Event], Event | None] | None = None,
    ) -> float | None:
        model = self._observer.asks(model, request)
        began, first, error = self._clock(), None, None
        try:
            first = await super().call(model, request, assembly, on_call, show)
        except BaseException as raised:
            error = raised
            raise
        finally:
            message = assembly.message if error is None else None
            self._observer.answered(
                ModelCallOutcome(
                    assembly.model,
                    self._clock() - began,
                    first,
                    assembly.usage,
                    assembly.finish,
                    error,
                    message,
                    self._why,
                )
            )
            del error  # its traceback refers to this frame
        return first
