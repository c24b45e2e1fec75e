"""Conformance cases: streams that end early."""

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
"""What a stream may be said to have died of. All of them are worth another try."""


def _beginnings(answer: Sequence[ScriptItem]) -> Iterator[list[ScriptItem]]:
    """Everything that may have been said of an answer before it broke off."""
    said = [step for step in ScriptPlayer([list(answer)]).steps(0, ask()) if not callable(step)]
    whole: list[ScriptItem] = [step for step in said if not isinstance(step, Finished)]
    for length in range(len(whole) + 1):
        yield whole[:length]


def _is_no_answer(heard: StreamRecord, said: Sequence[ScriptItem]) -> None:
    after = f"after {said[-1]!r}" if said else "at the very beginning"
    demand(heard.finished is None, f"Finished came, although the stream broke off {after}")
    if heard.error is not None:
        kind = heard.failure.kind
        demand(
            kind in BROKEN_STREAM_KINDS,
            f"broken off {after}, it was said to be {kind}: {heard.error!r}",
        )
        demand(heard.failure.retryable, f"broken off {after}, it may not be tried again")


@case("cut")
async def an_answer_that_was_cut_is_no_answer(bench: Bench) -> None:
    """A stream that ends without its terminal event, wherever that is, brings no Finished."""
    for said in _beginnings(bench.rich()):
        _is_no_answer(await bench.collect([*said, cut()]), said)


@case("connection")
async def a_lost_connection_is_no_answer(bench: Bench) -> None:
    """A connection that is lost, wherever that is, brings no Finished and may be tried again."""
    for said in _beginnings(bench.rich()):
        heard = await bench.collect([*said, lost()])
        _is_no_answer(heard, said)
        demand(heard.error is not None, f"a connection lost after {said[-1:]} raised nothing")


@case("cut")
async def what_came_before_a_cut_is_not_lost(bench: Bench) -> None:
    """What was said before a stream broke off has been yielded: people may have read it."""
    heard = await bench.collect([say("Half an ans"), cut()])
    text = "".join(delta.text for delta in heard.deltas if isinstance(delta, TextDelta))
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
"""Each with the kinds that it may be taken for."""


@case()
async def a_refusal_says_what_it_is(bench: Bench) -> None:
    """A request that is refused raises, with the kind of failure that it is, and yields nothing."""
    for refusal, kinds in REFUSALS:
        heard = await bench.collect(refusal)
        demand(not heard.content, f"before it failed ({kinds[0]}) it yielded {heard.content}")
        kind = heard.failure.kind
        demand(kind in kinds, f"{kinds[0]} was taken for {kind}: {heard.error!r}")


@case()
async def a_rate_limit_says_when_to_come_back(bench: Bench) -> None:
    """How long a provider asks us to wait is passed on."""
    failure = (await bench.collect(fail("Slow down.", status=429, retry_after=17))).failure
    demand(failure.kind == "rate_limit", f"the failure is {failure}")
    demand(failure.retry_after == 17, f"17 seconds became {failure.retry_after}")


@case("failures_inside")
async def a_failure_inside_the_stream_raises(bench: Bench) -> None:
    """A provider that fails in the middle of an answer is no end of it."""
    kinds: tuple[tuple[int, FailureKind], ...] = (
        (529, "overloaded"),
        (429, "rate_limit"),
        (500, "server"),
    )
    for status, kind in kinds:
        heard = await bench.collect([say("Half an ans"), fail("Sorry.", status=status)])
        said: list[Delta] = heard.content[:1]
        demand(said == [TextDelta("Half an ans")], f"before it failed it yielded {heard.content}")
        demand(heard.finished is None, "Finished came, although the provider failed")
        failure = heard.failure
        demand(failure.retryable, f"{kind} was taken for {failure.kind}: {heard.error!r}")


@case()
async def a_failed_request_is_not_tried_again(bench: Bench) -> None:
    """A model asks once: whether to ask again is for the loop to decide."""
    async with bench.playing(fail(status=503), say("Too late.")) as subject:
        heard = await collect(subject.model, ask())
        demand(heard.error is not None, f"it asked again, and brought {heard.deltas}")
        _ = heard.failure
        if subject.sent is not None:
            demand(len(subject.sent()) == 1, f"it sent {len(subject.sent())} requests")
        await demand_all_closed(subject)


@case()
async def a_model_answers_after_a_failure(bench: Bench) -> None:
    """A failure leaves nothing behind that the next request would suffer from."""
    async with bench.playing(fail(status=500), [say("Half"), cut()], say("Here I am.")) as subject:
        for _ in range(2):
            await collect(subject.model, ask())
        message = (await collect(subject.model, ask())).message
        demand(message.text == "Here I am.", f"after two failures it said {message.text!r}")
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
