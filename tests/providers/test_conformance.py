"""Every model of ours does what the loop demands of a model."""

from __future__ import annotations

from typing import Final

import pytest

from holdfast.testing.conformance import Case, cases
from holdfast.testing.fake.provider import WireProtocol
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
