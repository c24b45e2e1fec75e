"""The context limit that a provider reports is used by every later request."""

from __future__ import annotations

import pytest

from holdfast import Agent
from holdfast.kernel.summary_checkpoint import SUMMARY_SECTIONS
from holdfast.providers.provider_catalog import WireProtocol
from holdfast.testing import ports, say
from holdfast.testing.fake.faults import respond
from holdfast.testing.fake.provider import FakeProvider
from tests.providers.makers import PROTOCOLS, model_of

OVERFLOW = respond(
    400, {"error": {"message": "This model's maximum context length is 4096 tokens."}}
)
SUMMARIZE = "You write the memory of an assistant"
"""How the request for a summary begins."""
SUMMARY = "\n".join(f"## {section}\nSome." for section in SUMMARY_SECTIONS)

each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


@each_protocol
async def test_a_reported_limit_is_the_window_from_then_on(protocol: WireProtocol) -> None:
    story = say("A long story. " * 900)
    fake = FakeProvider(
        protocol, [story, OVERFLOW, say(SUMMARY), story, say(SUMMARY), say("Done.")]
    )
    agent = Agent(model=model_of(protocol, fake), ports=ports())
    assert agent.model.window != 4_096  # type: ignore[union-attr]
    first = await agent.run("Tell me.")
    second = await agent.run("And then?", history=first.history)
    # Another model at the same address knows it too, as that of the next turn of a durable chat.
    other = Agent(model=model_of(protocol, fake), ports=ports())
    assert other.model.window == 4_096  # type: ignore[union-attr]
    third = await other.run("Go on.", history=second.history)
    assert third.text == "Done."
    summaries = [SUMMARIZE in str(request.body) for request in fake.requests]
    assert summaries == [False, False, True, False, True, False]


@each_protocol
async def test_a_limit_is_that_of_the_model_and_address_that_reported_it(
    protocol: WireProtocol,
) -> None:
    fake = FakeProvider(protocol, [say("Hello. " * 900), OVERFLOW, say(SUMMARY), say("Done.")])
    agent = Agent(model=model_of(protocol, fake), ports=ports())
    first = await agent.run("Tell me.")
    await agent.run("And then?", history=first.history)
    elsewhere = model_of(protocol, fake, base_url="https://elsewhere.example/v1")
    assert elsewhere.window == model_of(protocol, FakeProvider(protocol, [])).window != 4_096


@each_protocol
@pytest.mark.parametrize("status", [413, 429])
async def test_a_rate_limit_of_one_key_is_not_the_limit_of_the_model(
    protocol: WireProtocol, status: int
) -> None:
    message = (
        "Request too large for gpt-4o in organization org-1 on tokens per min (TPM): "
        "Limit 4096, Requested 46832. The input or output tokens must be reduced."
    )
    error = {"error": {"message": message, "code": "rate_limit_exceeded"}}
    story = say("A long story. " * 900)
    fake = FakeProvider(protocol, [story, respond(status, error), say(SUMMARY), say("Done.")])
    agent = Agent(model=model_of(protocol, fake), ports=ports())
    first = await agent.run("Tell me.")
    assert (await agent.run("And then?", history=first.history)).text == "Done."
    other = model_of(protocol, fake)
    assert other.window == model_of(protocol, FakeProvider(protocol, [])).window != 4_096
