"""Models of pydantic-ai do, behind the bridge, what the loop demands of a model."""

from __future__ import annotations

from typing import Final

import pytest

from holdfast.providers.provider_catalog import WireProtocol
from holdfast.testing.conformance import Case, cases
from tests.providers.bridges import BRIDGED_CANNOT, FUNCTION_CANNOT, bridged, functioning
from tests.providers.makers import PROTOCOLS

# What pydantic-ai and the clients below it warn of is theirs to say.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

BUT: Final = {
    # google-genai takes U+2028 for the end of a line.
    ("google", "text_survives"),
    ("google", "reasoning_survives"),
    # The newest version of the API, which Anthropic's client asks for, has no temperature.
    ("anthropic", "settings_are_accepted"),
    # A FunctionModel never says why it stopped, so that every answer is a good one.
    ("function", "finish_reasons_survive"),
}
"""What they cannot help."""

SLOW: Final = {
    "a_long_answer_survives",
    "an_answer_that_was_cut_is_no_answer",
    "a_lost_connection_is_no_answer",
}
"""Asked of one provider, because what they look at is the bridge: see also `test_pydantic_ai`."""


def is_selected(protocol: WireProtocol, case: Case) -> bool:
    if (protocol, case.name) in BUT:
        return False
    return protocol == "anthropic" or case.name not in SLOW


@pytest.mark.parametrize(
    ("protocol", "case"),
    [
        pytest.param(protocol, case, id=f"{protocol}-{case}")
        for protocol in PROTOCOLS
        for case in cases(without=BRIDGED_CANNOT[protocol])
        if is_selected(protocol, case)
    ],
)
async def test_a_bridged_provider_conforms(protocol: WireProtocol, case: Case) -> None:
    await case.check(bridged(protocol))


@pytest.mark.parametrize(
    "case",
    [case for case in cases(without=FUNCTION_CANNOT) if ("function", case.name) not in BUT],
    ids=str,
)
async def test_a_function_model_conforms(case: Case) -> None:
    await case.check(functioning)
