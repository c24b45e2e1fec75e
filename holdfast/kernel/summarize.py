"""The summarizer: calls a model for a summary, with retries."""

from __future__ import annotations

from holdfast.kernel.assemble import Assembly
from holdfast.kernel.channel import Sink
from holdfast.kernel.errors import ModelError, classify, ungrouped
from holdfast.kernel.events import Compacting, Event
from holdfast.kernel.inbox import Interrupted, Interruption
from holdfast.kernel.messages import AskedBy, Message
from holdfast.kernel.model import Model, Request, TextDelta
from holdfast.kernel.model_call import ModelCaller
from holdfast.kernel.ports import Ports
from holdfast.kernel.result import Failed
from holdfast.kernel.retry_wait import Backoff
from holdfast.kernel.summary_checkpoint import CompactionInput, SummaryAnswer, by_summary


class Summarizer:
    """Requests summaries from one model, with the same backoff as any model call."""

    def __init__(
        self,
        model: Model,
        ports: Ports,
        caller: ModelCaller,
        backoff: Backoff,
        interruption: Interruption,
        sink: Sink,
    ) -> None:
        self._model = model
        self._ports = ports
        self._caller = caller
        self._backoff = backoff
        self._interruption = interruption
        self._sink = sink
        self._asked_by: AskedBy | None = None

    async def checkpoint(self, now: CompactionInput) -> Message:
        """A checkpoint with a summary. Raises `Interrupted`, or `Failed` if there is no summary."""
        self._asked_by = now.asked_by
        try:
            message, problem = await by_summary(now, self._ask)
        except ModelError as error:
            raise Failed(classify(error, self._model.name)) from error
        if problem is not None:
            self._sink.warn(f"The conversation was summarized, but {problem}.")
        return message

    async def _ask(self, request: Request) -> SummaryAnswer:
        attempt = 0
        while True:
            attempt += 1
            assembly = Assembly(self._model.name, self._ports)
            self._sink.put(Compacting(self._asked_by))
            try:
                await self._caller.call(self._model, request, assembly, show=self._show)
                message = assembly.message()
                return SummaryAnswer(message.text, message.finish == "length")
            except Interrupted:
                raise
            except Exception as error:
                failure = classify(error, assembly.model)
                if failure.kind in ("empty_response", "context_overflow"):
                    cause = ungrouped(error)
                    raise cause from cause.__cause__  # the same input would give the same
                await self._backoff.wait_or_give_up(failure, attempt)
                if self._interruption.requested:
                    raise Interrupted from None

    def _show(self, event: Event) -> Event | None:
        return Compacting(self._asked_by, event.text) if isinstance(event, TextDelta) else None
