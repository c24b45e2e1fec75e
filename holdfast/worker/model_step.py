"""The model steps: one attempt at an answer, and compaction. They commit nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast.chat.errors import ChatError
from holdfast.chat.rows import Charge
from holdfast.chat.transitions.runner import Leftover
from holdfast.kernel import summary_checkpoint
from holdfast.kernel.assemble import Assembly
from holdfast.kernel.errors import Failure, classify
from holdfast.kernel.inbox import Interrupted
from holdfast.kernel.messages import Message, ToolCall, Usage, with_runtime
from holdfast.kernel.model import Request
from holdfast.kernel.model_call import ModelCaller
from holdfast.kernel.observed_call import caller_of
from holdfast.kernel.observer import Compaction
from holdfast.kernel.prepare import PreparedAgent, summary_model
from holdfast.kernel.result import RunCounters
from holdfast.kernel.retry_wait import Backoff
from holdfast.kernel.summarize import Summarizer
from holdfast.store.database import StoreError
from holdfast.worker.step_scope import StepScope, charge_of_attempt

OnCall: TypeAlias = Callable[[ToolCall], None]
"""Callback for each complete call of an answer."""
PrepareCall: TypeAlias = Callable[[], Awaitable[tuple[Request, OnCall]]]
"""Builds the request, and returns it with the callback for the calls of its answer."""


class Attempt(Struct, frozen=True, kw_only=True):
    """Outcome of an attempt at an answer: `leftover` is complete, interrupted or failed."""

    leftover: Leftover
    window: int | None = None
    """Context window that the provider reported."""
    error: Exception | None = None
    failure: Failure | None = None
    """The classified error; None for an error of the database."""
    model: str | None = None
    """Name of the model that failed."""
    for_people: Message | None = None
    """What people see of the answer if the turn ends with this failure."""


async def model_step(
    scope: StepScope, prepared: PreparedAgent, prepare_call: PrepareCall
) -> Attempt:
    """Make one attempt at an answer. Until the caller has handled the outcome and calls
    `scope.partials.end()`, what has arrived is saved."""
    fenced = scope.fenced
    assembly = Assembly(prepared.model.name, prepared.agent.ports, fenced.history.call_ids)
    scope.screen.open(fenced.fence)
    started_at = scope.loop.time()
    scope.partials.begin(assembly, started_at)
    try:
        request, on_call = await prepare_call()
        await scope.caller.call(prepared.model, request, assembly, on_call)
    except Interrupted:
        pass
    except Exception as error:
        return _failed(scope, assembly, started_at, error)
    complete = assembly.finish is not None
    received = assembly.message() if complete else assembly.partial("interrupted")
    received = _timed(received, scope.loop.time() - started_at)
    leftover = fenced.leftover(
        answer=received,
        half_written=None if complete else assembly.half_written("interrupted"),
        complete=complete,
        calling_model=True,
        charges=() if received is not None else _charges(scope, assembly),
    )
    return Attempt(leftover=leftover, window=assembly.window)


def _failed(scope: StepScope, assembly: Assembly, started_at: float, error: Exception) -> Attempt:
    """The outcome of a failed attempt. Its usage is charged when the failure is recorded, and must
    not be counted twice if the acknowledgement of that is lost: the partial answer has none."""
    received = _timed(assembly.partial("interrupted"), scope.loop.time() - started_at)
    for_people = assembly.failed()
    if for_people is not None:
        for_people = replace(for_people, runtime=None if received is None else received.runtime)
    leftover = scope.fenced.leftover(
        answer=None if received is None else replace(received, usage=None),
        half_written=assembly.half_written("interrupted"),
        calling_model=True,
        charges=_charges(scope, assembly),
    )
    database_failed = isinstance(error, (StoreError, ChatError))
    return Attempt(
        leftover=leftover,
        error=error,
        failure=None if database_failed else classify(error, assembly.model),
        model=assembly.model,
        for_people=for_people,
    )


def _timed(answer: Message | None, seconds: float) -> Message | None:
    return None if answer is None else with_runtime(answer, seconds)


def _charges(scope: StepScope, assembly: Assembly) -> tuple[Charge, ...]:
    return charge_of_attempt(scope.fenced.fence, assembly.usage, assembly.model)


# --- compaction ---


class CompactionOutcome(Struct, frozen=True, kw_only=True):
    """Outcome of a compaction: messages to be committed, or why there are none."""

    messages: tuple[Message, ...] = ()
    charges: tuple[Charge, ...] = ()
    """Usage of the summary, also of one that failed or was interrupted."""
    error: Exception | None = None
    """Why there is no summary; None if it was interrupted."""


async def compaction_step(scope: StepScope, prepared: PreparedAgent) -> CompactionOutcome:
    """Make a checkpoint: with shortened results, or with a summary if that is not enough."""
    fenced = scope.fenced
    scope.screen.open(fenced.fence)
    now = prepared.compaction_input(fenced.history, fenced.chat.compaction)
    trimmed = summary_checkpoint.by_trimming(now)
    if trimmed is not None:
        scope.observer.compacted("trim")
        return CompactionOutcome(messages=_with_entry(trimmed))
    outcome: Compaction = "failed"
    tally = RunCounters()
    limits, screen, interruption = prepared.agent.policy.stream, scope.screen, scope.interruption
    caller = caller_of(limits, screen, interruption, tally, scope.observer, "summary")
    try:
        summary = await _summarizer(scope, prepared, caller).checkpoint(now)
        outcome = "summary"
        return CompactionOutcome(messages=_with_entry(summary), charges=_charge(prepared, tally))
    except Interrupted:
        outcome = "interrupted"
        return CompactionOutcome(charges=_charge(prepared, tally))
    except Exception as error:
        return CompactionOutcome(error=error, charges=_charge(prepared, tally))
    finally:
        caller.close()
        scope.observer.compacted(outcome)


def _summarizer(scope: StepScope, prepared: PreparedAgent, caller: ModelCaller) -> Summarizer:
    policy, ports = prepared.agent.policy, prepared.agent.ports
    model = summary_model(prepared.agent)
    retries = scope.observer.retries
    chat = scope.fenced.chat.id
    backoff = Backoff(policy.retry, ports, scope.interruption, scope.screen, retries, chat)
    return Summarizer(model, ports, caller, backoff, scope.interruption, scope.screen)


def _with_entry(checkpoint: Message) -> tuple[Message, Message]:
    """A checkpoint, with its entry for people."""
    assert checkpoint.checkpoint is not None
    return checkpoint, summary_checkpoint.entry_for_people(checkpoint.checkpoint)


def _charge(prepared: PreparedAgent, tally: RunCounters) -> tuple[Charge, ...]:
    """The charge for a summary. If the summary is repeated, that has another id."""
    usage = tally.summary(0).usage
    id = f"summary {prepared.agent.ports.new_id()}"
    model = summary_model(prepared.agent).name
    return (Charge(id, "summary", usage, model),) if usage != Usage() else ()
