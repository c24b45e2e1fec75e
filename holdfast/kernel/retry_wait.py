"""Backoff: the wait between two attempts, and what ends it early. `retry.py` decides whether."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio

from holdfast.kernel import retry
from holdfast.kernel.channel import Sink
from holdfast.kernel.errors import Failure
from holdfast.kernel.events import Retrying
from holdfast.kernel.failure_log import log_retry
from holdfast.kernel.inbox import Inbox, Interruption
from holdfast.kernel.policy import Retry
from holdfast.kernel.ports import Ports
from holdfast.kernel.result import Failed


class Backoff:
    """The wait between two attempts."""

    def __init__(
        self,
        policy: Retry,
        ports: Ports,
        interruption: Interruption,
        sink: Sink,
        on_retry: Callable[[Failure], None] | None = None,
        chat: str | None = None,
    ) -> None:
        self._policy = policy
        self._ports = ports
        self._interruption = interruption
        self._sink = sink
        self._on_retry = on_retry
        self._chat = chat

    async def wait_or_give_up(
        self, failure: Failure, attempt: int, *, inbox: Inbox | None = None
    ) -> None:
        """Wait until the next attempt, as `retry.after` decides, or raise `Failed`.

        A steering message in `inbox` ends the wait: it changes the next request for an answer. It
        does not change a request for a summary.
        """
        end_if_cancelled(asyncio.current_task())
        policy, now = self._policy, self._ports.now()
        verdict = retry.after(failure, attempt, policy, random=self._ports.random(), now=now)
        if isinstance(verdict, retry.GiveUp):
            raise Failed(verdict.failure)
        if self._on_retry is not None:
            self._on_retry(failure)
        most = retry.most(failure, policy)
        log_retry(failure, verdict.seconds, attempt, most, chat=self._chat)
        self._sink.put(
            Retrying(
                attempt,
                most,
                verdict.seconds,
                now + int(verdict.seconds * 1_000_000),
                failure.kind,
                failure.message,
                failure.detail,
            )
        )
        await self._pause(verdict.seconds, inbox)

    async def _pause(self, seconds: float, inbox: Inbox | None) -> None:
        interruption = self._interruption
        with anyio.move_on_after(seconds) as scope, interruption.stops(scope.cancel):
            if inbox is None:
                if not interruption.requested:
                    await anyio.sleep_forever()
                return
            with inbox.steers(scope.cancel):
                if not (interruption.requested or inbox.steering):
                    await anyio.sleep_forever()


def end_if_cancelled(task: asyncio.Task[object] | None) -> None:
    """Raise the cancellation that a model or hook swallowed."""
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
