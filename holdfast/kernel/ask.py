"""Asking a model: one attempt at a time, and the wait between two."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
from msgspec.structs import replace

from holdfast.kernel import retry
from holdfast.kernel.assemble import Assembly
from holdfast.kernel.channel import Sink
from holdfast.kernel.errors import Failure
from holdfast.kernel.events import Event, Retrying
from holdfast.kernel.generate import Caller
from holdfast.kernel.inbox import Inbox
from holdfast.kernel.messages import ToolCall
from holdfast.kernel.model import Model, Request
from holdfast.kernel.outcome import Failed, Tally
from holdfast.kernel.policy import Policy
from holdfast.kernel.ports import Ports


class Asking:
    """What all model calls of a run share."""

    def __init__(
        self, policy: Policy, ports: Ports, inbox: Inbox, sink: Sink, tally: Tally
    ) -> None:
        self._policy = policy
        self._ports = ports
        self._inbox = inbox
        self._sink = sink
        self._tally = tally
        self._caller = Caller(policy.stream, sink, inbox.interruption)

    def close(self) -> None:
        self._caller.close()

    async def attempt(
        self,
        model: Model,
        request: Request,
        assembly: Assembly,
        *,
        on_call: Callable[[ToolCall], None] | None = None,
        show: Callable[[Event], Event | None] | None = None,
    ) -> float | None:
        """One try; see `Caller.call`."""
        try:
            return await self._caller.call(model, request, assembly, on_call, show)
        finally:
            self._tally.usage(assembly.usage)

    async def wait_or_give_up(self, failure: Failure, attempt: int, *, steerable: bool) -> None:
        """Wait for the next attempt as `retry` says, or raise `Failed`.

        What is said meanwhile changes the next request for an answer, so it ends the wait if that
        is `steerable`; it does not change one for a summary.
        """
        end_if_cancelled()
        policy, now = self._policy.retry, self._ports.now()
        verdict = retry.after(failure, attempt, policy, random=self._ports.random(), now=now)
        if isinstance(verdict, retry.GiveUp):
            message = f"{failure.message} {verdict.why}" if verdict.why else failure.message
            raise Failed(replace(failure, message=message))
        self._sink.put(
            Retrying(
                attempt,
                policy.attempts,
                verdict.seconds,
                now + int(verdict.seconds * 1_000_000),
                failure.kind,
                failure.message,
            )
        )
        await self._pause(verdict.seconds, steerable)

    async def _pause(self, seconds: float, steerable: bool) -> None:
        inbox = self._inbox
        with anyio.move_on_after(seconds) as scope, inbox.interruption.stops(scope.cancel):
            inbox.on_steer = scope.cancel if steerable else None
            try:
                if not (inbox.interruption.requested or (steerable and inbox.steering)):
                    await anyio.sleep_forever()
            finally:
                inbox.on_steer = None


def end_if_cancelled() -> None:
    """A model or a hook that kept our cancellation to itself does not make the run go on."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
