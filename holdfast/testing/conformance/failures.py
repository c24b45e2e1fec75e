"""Conformance cases: truncated streams, and errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.kernel.errors import FailureKind
from holdfast.kernel.model import Delta, Finished, TextDelta
from holdfast.testing.conformance.bench import (
    Bench,
    StreamRecord,
    ask,
    collect,
    demand,
    demand_all_closed,
)
from holdfast.testing.conformance.case import Case, case
from holdfast.testing.fake.faults import lost
from holdfast.testing.script import ScriptItem, ScriptPlayer, cut, fail, say

BROKEN_STREAM_KINDS: Final = frozenset({"stream_cut", "network", "timeout", "server"})
"""Kinds of failure that a broken stream may have. All of them are retryable."""


def _beginnings(answer: Sequence[ScriptItem]) -> Iterator[list[ScriptItem]]:
    """Every beginning of an answer at which it can break off."""
    steps = [step for step in ScriptPlayer([list(answer)]).steps(0, ask()) if not callable(step)]
    content: list[ScriptItem] = [step for step in steps if not isinstance(step, Finished)]
    for length in range(len(content) + 1):
        yield content[:length]


def _demand_no_answer(record: StreamRecord, sent: Sequence[ScriptItem]) -> None:
    after = f"after {sent[-1]!r}" if sent else "at the very beginning"
    demand(record.finished is None, f"Finished came, although the stream broke off {after}")
    if record.error is not None:
        kind = record.failure.kind
        demand(
            kind in BROKEN_STREAM_KINDS,
            f"broken off {after}, its failure was of the kind {kind}: {record.error!r}",
        )
        demand(record.failure.retryable, f"broken off {after}, it may not be tried again")


@case("cut")
async def an_answer_that_was_cut_is_no_answer(bench: Bench) -> None:
    """A stream that ends without its terminal event, wherever that is, yields no Finished."""
    for beginning in _beginnings(bench.rich()):
        _demand_no_answer(await bench.collect([*beginning, cut()]), beginning)


@case("connection")
async def a_lost_connection_is_no_answer(bench: Bench) -> None:
    """A connection that is lost, wherever that is, yields no Finished and a retryable failure."""
    for beginning in _beginnings(bench.rich()):
        record = await bench.collect([*beginning, lost()])
        _demand_no_answer(record, beginning)
        demand(record.error is not None, f"a connection lost after {beginning[-1:]} raised nothing")


@case("cut")
async def what_came_before_a_cut_is_not_lost(bench: Bench) -> None:
    """Deltas before a stream broke off have been yielded: people may have read them."""
    record = await bench.collect([say("Half an ans"), cut()])
    text = "".join(delta.text for delta in record.deltas if isinstance(delta, TextDelta))
    demand(text == "Half an ans", f"only {text!r} was yielded")


# --- Failures -----------------------------------------------------------------------------------

REFUSALS: Final[tuple[tuple[ScriptItem, tuple[FailureKind, ...]], ...]] = (
    (fail("Slow down.", status=429), ("rate_limit",)),
    (fail("Too much to do.", status=529), ("overloaded",)),
    (fail("Not now.", status=503), ("overloaded", "server")),
    (fail("Something broke.", status=500), ("server",)),
    (fail("Wrong key.", status=401), ("auth",)),
    (fail("Not with this key.", status=403), ("permission",)),
    (fail("No such model.", status=404), ("not_found",)),
    (fail("What is this?", status=400), ("invalid_request",)),
    (
        fail("prompt is too long: 210000 tokens > 200000 maximum context length", status=400),
        ("context_overflow",),
    ),
)
"""Refusals, each with the kinds of failure that are accepted for it."""


@case()
async def a_refusal_says_what_it_is(bench: Bench) -> None:
    """A refused request raises an error of the right kind, and yields nothing."""
    for refusal, kinds in REFUSALS:
        record = await bench.collect(refusal)
        demand(not record.content, f"before it failed ({kinds[0]}) it yielded {record.content}")
        kind = record.failure.kind
        demand(kind in kinds, f"{kinds[0]} was taken for {kind}: {record.error!r}")


@case()
async def a_rate_limit_says_when_to_come_back(bench: Bench) -> None:
    """The wait that a provider asks for is passed on."""
    failure = (await bench.collect(fail("Slow down.", status=429, retry_after=17))).failure
    demand(failure.kind == "rate_limit", f"the failure is {failure}")
    demand(failure.retry_after == 17, f"17 seconds became {failure.retry_after}")


@case("failures_inside")
async def a_failure_inside_the_stream_raises(bench: Bench) -> None:
    """An error of the provider inside a stream is raised, and does not finish the answer."""
    kinds: tuple[tuple[int, FailureKind], ...] = (
        (529, "overloaded"),
        (429, "rate_limit"),
        (500, "server"),
    )
    for status, kind in kinds:
        record = await bench.collect([say("Half an ans"), fail("Sorry.", status=status)])
        first: list[Delta] = record.content[:1]
        demand(first == [TextDelta("Half an ans")], f"before it failed it yielded {record.content}")
        demand(record.finished is None, "Finished came, although the provider failed")
        failure = record.failure
        demand(failure.retryable, f"{kind} was taken for {failure.kind}: {record.error!r}")


@case()
async def a_failed_request_is_not_tried_again(bench: Bench) -> None:
    """A model sends a request once: the loop decides about retries."""
    async with bench.playing(fail(status=503), say("Too late.")) as subject:
        record = await collect(subject.model, ask())
        demand(record.error is not None, f"it sent the request again, and yielded {record.deltas}")
        _ = record.failure
        if subject.sent is not None:
            demand(len(subject.sent()) == 1, f"it sent {len(subject.sent())} requests")
        await demand_all_closed(subject)


@case()
async def a_model_answers_after_a_failure(bench: Bench) -> None:
    """A failure does not affect the next request."""
    async with bench.playing(fail(status=500), [say("Half"), cut()], say("Here I am.")) as subject:
        for _ in range(2):
            await collect(subject.model, ask())
        message = (await collect(subject.model, ask())).message
        demand(message.text == "Here I am.", f"after two failures the answer is {message.text!r}")
        await demand_all_closed(subject)


CASES: Final[tuple[Case, ...]] = (
    an_answer_that_was_cut_is_no_answer,
    a_lost_connection_is_no_answer,
    what_came_before_a_cut_is_not_lost,
    a_refusal_says_what_it_is,
    a_rate_limit_says_when_to_come_back,
    a_failure_inside_the_stream_raises,
    a_failed_request_is_not_tried_again,
    a_model_answers_after_a_failure,
)
