"""The environment of a chat's steps, and the charge for a step that is not committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.agent import Agent
from holdfast.chat.rows import Charge, Fence
from holdfast.chat.transitions.runner import Leftover
from holdfast.kernel.inbox import Interruption
from holdfast.kernel.messages import Usage
from holdfast.kernel.model_call import ModelCaller
from holdfast.kernel.observed_call import caller_of
from holdfast.kernel.observer import ChatObserver
from holdfast.kernel.result import RunCounters
from holdfast.live.broadcast import Live
from holdfast.worker.attempt_stream import Screen
from holdfast.worker.fenced_chat import FencedChat
from holdfast.worker.options import WorkerOptions
from holdfast.worker.partial_saver import PartialSaver


class Stopped(Exception):
    """The step was stopped from outside. The runner has what it produced."""


class StepScope(NamedTuple):
    """Values that the steps of one chat share, for as long as a runner drives it."""

    fenced: FencedChat
    screen: Screen
    interruption: Interruption
    caller: ModelCaller
    partials: PartialSaver
    observer: ChatObserver
    loop: asyncio.AbstractEventLoop

    @classmethod
    def of(
        cls,
        fenced: FencedChat,
        live: Live,
        agent: Agent,
        options: WorkerOptions,
        in_background: Callable[..., Any],
        observer: ChatObserver,
    ) -> StepScope:
        screen, interruption = Screen(live), Interruption()
        limits = agent.policy.stream
        caller = caller_of(limits, screen, interruption, RunCounters(), observer)
        partials = PartialSaver(fenced, screen, options.partial, in_background)
        loop = asyncio.get_running_loop()
        return cls(fenced, screen, interruption, caller, partials, observer, loop)


def charge_of_attempt(fence: Fence, usage: Usage | None, model: str | None) -> tuple[Charge, ...]:
    """The charge for an attempt whose usage no message carries."""
    if usage is None:
        return ()
    # After a shutdown another worker repeats the same attempt, and that is charged separately.
    id = f"attempt {fence.history_version}.{fence.attempt} of epoch {fence.epoch}"
    return (Charge(id, "attempt", usage, model),)


def charges_of(leftover: Leftover) -> tuple[Charge, ...]:
    """The charges for what a step produced, if none of it is committed."""
    answer = leftover.answer
    if answer is None:
        return leftover.charges
    return leftover.charges + charge_of_attempt(leftover.fence, answer.usage, answer.model)
