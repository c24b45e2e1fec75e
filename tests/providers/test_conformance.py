"""Every model of ours does what the loop demands of a model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

import anyio
import pytest

from holdfast.kernel.messages import Message
from holdfast.kernel.model import Delta, Finished, Request
from holdfast.providers.provider_catalog import WireProtocol
from holdfast.testing import ScriptedModel, ScriptedTurn
from holdfast.testing.conformance import CASES as DEMANDS
from holdfast.testing.conformance import Case, Subject, cases, check_all
from tests.providers.makers import PROTOCOLS, WITHOUT, in_memory, on_loopback

CASES: Final = [
    pytest.param(protocol, case, id=f"{protocol}-{case}")
    for protocol in PROTOCOLS
    for case in cases(without=WITHOUT[protocol])
]

SOCKETS: Final = {
    "finished_comes_last_and_once",
    "deltas_come_as_they_arrive",
    "the_order_of_parts_survives",
    "an_answer_that_was_cut_is_no_answer",
    "a_lost_connection_is_no_answer",
    "a_refusal_says_what_it_is",
    "a_rate_limit_says_when_to_come_back",
    "a_failure_inside_the_stream_raises",
    "a_model_answers_after_a_failure",
    "cancelled_in_the_middle_it_lets_go",
    "cancelled_before_the_answer_it_lets_go",
    "closed_half_way_it_lets_go",
    "two_streams_do_not_mix",
    "an_answer_can_be_replayed",
}
"""What a real connection may make a difference to."""


@pytest.mark.parametrize(("protocol", "case"), CASES)
async def test_a_model_conforms(protocol: WireProtocol, case: Case) -> None:
    await case.check(in_memory(protocol))


@pytest.mark.parametrize(
    ("protocol", "case"),
    [param for param in CASES if param.values[1].name in SOCKETS],  # type: ignore[union-attr]
)
async def test_a_model_conforms_over_sockets(protocol: WireProtocol, case: Case) -> None:
    await case.check(on_loopback(protocol))


# --- What the suite finds -----------------------------------------------------------------------

BY_NAME: Final = {case.name: case for case in DEMANDS}


class Hangs(ScriptedModel):
    """Waits for ever where an answer ends too early."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        done = False
        try:
            async for delta in super().stream(request):
                done = isinstance(delta, Finished)
                yield delta
        finally:
            if not done:
                await anyio.sleep_forever()


@pytest.mark.parametrize(
    "name",
    [
        "an_answer_that_was_cut_is_no_answer",
        "a_refusal_says_what_it_is",
        "a_failure_inside_the_stream_raises",
        "a_failed_request_is_not_tried_again",
    ],
)
async def test_a_model_that_hangs_when_it_should_fail_is_caught(name: str) -> None:
    with pytest.raises(AssertionError, match="it did not end within 30 s"):
        await BY_NAME[name].check(Hangs)


async def test_a_model_that_breaks_is_one_finding_among_others() -> None:
    class Broken(ScriptedModel):
        async def stream(self, request: Request) -> AsyncIterator[Delta]:
            raise ZeroDivisionError("a bug of its own")
            yield Finished()

    with pytest.raises(AssertionError) as caught:
        await check_all(Broken)
    found = str(caught.value)
    assert "deltas_come_as_they_arrive: A delta is yielded before" in found
    assert "a_model_says_its_name: " in found
    assert found.count("a bug of its own") > 40


async def test_a_maker_that_breaks_is_a_finding() -> None:
    def make(script: Sequence[ScriptedTurn]) -> ScriptedModel:
        raise LookupError("no key is set")

    with pytest.raises(AssertionError, match="text_survives: LookupError: no key is set"):
        await check_all(make)


class Forgetful(ScriptedModel):
    """Sends everything, but of each message only this many calls and results."""

    def __init__(self, script: Sequence[ScriptedTurn], calls: int, results: int) -> None:
        super().__init__(script)
        self.calls, self.results = calls, results

    def body(self, message: Message) -> str:
        said = [part for part in message.parts if part not in (*message.calls, *message.results)]
        return str((said, message.calls[: self.calls], message.results[: self.results]))

    @property
    def sent(self) -> list[bytes]:
        return [
            "".join(map(self.body, request.messages)).encode() + b"look"
            for request in self.requests
        ]


@pytest.mark.parametrize(("calls", "results"), [(1, 2), (2, 1)])
async def test_a_model_that_forgets_a_call_or_a_result_is_caught(calls: int, results: int) -> None:
    def make(script: Sequence[ScriptedTurn], calls: int = calls, results: int = results) -> Subject:
        model = Forgetful(script, calls, results)
        return Subject(model, sent=lambda: model.sent)

    await BY_NAME["an_answer_can_be_replayed"].check(lambda script: make(script, 2, 2))
    with pytest.raises(AssertionError, match="is not in"):
        await BY_NAME["an_answer_can_be_replayed"].check(make)
