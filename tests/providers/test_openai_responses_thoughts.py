"""Reasoning that is not taken back: what was said goes on without what was thought."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from holdfast import Agent
from holdfast.errors import RunFailed
from holdfast.kernel.events import Retrying
from holdfast.kernel.messages import Message, dump, load, user_message
from holdfast.kernel.model import Notice, Request, Settings
from holdfast.options import Policy, Retry
from holdfast.providers.openai_responses import OpenAIResponses
from holdfast.providers.profile_lookup import lookup
from holdfast.testing import fail, ports, say, think
from holdfast.testing.fake.dialect_interface import ReceivedRequest
from holdfast.testing.fake.faults import opens, respond
from holdfast.testing.fake.openai_responses import new_dialect
from holdfast.testing.fake.provider import FakeProvider

Json = dict[str, Any]

MORE: Final = user_message("More")
ENCRYPTED: Final = "reasoning.encrypted_content"
UNVERIFIED: Final = (
    "The encrypted content for item rs_1 could not be verified. Reason: Encrypted content "
    "organization_id did not match the target organization."
)


def model_of(fake: FakeProvider, name: str = "gpt-5", **options: Any) -> OpenAIResponses:
    return OpenAIResponses(name, api_key="k", http=fake, **options)


def agent_of(model: OpenAIResponses) -> Agent:
    # A failed attempt would end the run.
    return Agent(model=model, ports=ports(), policy=Policy(retry=Retry(attempts=1)))


async def thought() -> tuple[Message, ...]:
    """A conversation with a model that thinks, as it comes back from a store."""
    fake = FakeProvider("openai_responses", [[think("hm"), say("Ho.")]])
    result = await agent_of(model_of(fake)).run("Hi")
    return load(dump(result.history))


def kinds(body: Json) -> list[str]:
    return [item["type"] for item in body["input"]]


def refusal(message: str, code: str | None = None) -> Any:
    error = {"message": message, "type": "invalid_request_error", "code": code}
    return respond(400, {"error": error})


@pytest.mark.parametrize(
    "refused",
    [
        refusal(UNVERIFIED, "invalid_encrypted_content"),
        refusal(UNVERIFIED),
        [opens(), fail(UNVERIFIED, code="invalid_encrypted_content")],
    ],
    ids=["code", "words", "inside"],
)
async def test_reasoning_of_another_account_is_left_out_and_that_is_no_failed_attempt(
    refused: Any,
) -> None:
    fake = FakeProvider("openai_responses", [refused, say("Back.")], check=False)
    run = agent_of(model_of(fake)).run("More", history=await thought())
    events = [event async for event in run]
    assert (await run).history[-1].text == "Back."
    assert not any(isinstance(event, Retrying) for event in events)
    first, second = (request.json for request in fake.requests)
    assert kinds(first) == ["message", "reasoning", "message", "message"]
    assert kinds(second) == ["message", "message", "message"]
    assert "id" in first["input"][2]
    assert "id" not in second["input"][1]


async def test_what_cannot_be_read_is_sent_again_with_the_next_question() -> None:
    """It is said of one request: whoever wrote the reasoning may be asked again."""
    script = [refusal(UNVERIFIED), say("Back."), say("And again.")]
    fake = FakeProvider("openai_responses", script, check=False)
    model = model_of(fake)
    history = await thought()
    for _ in range(2):
        await agent_of(model).run("More", history=history)
    assert ["reasoning" in kinds(request.json) for request in fake.requests] == [True, False, True]


async def test_a_model_that_nobody_knows_and_that_does_not_think_is_asked_without() -> None:
    fake = FakeProvider("openai_responses", [say("One."), say("Two.")])
    model = model_of(fake, "gpt-4.9-of-ours")
    first = await agent_of(model).run("Hi")
    await agent_of(model).run("More", history=first.history)
    assert [problem.message for problem in fake.problems] == [
        "Encrypted content is not supported with this model."
    ]
    asked = [ENCRYPTED in request.json.get("include", ()) for request in fake.requests]
    assert asked == [True, False, False]  # it is refused once, and remembered


async def test_a_model_that_is_known_not_to_think_refuses_nothing() -> None:
    fake = FakeProvider("openai_responses", [say("Back.")])
    model = model_of(fake, "gpt-4.1", profile=lookup("openai", "gpt-4.1"))
    await agent_of(model).run("More", history=await thought())
    assert fake.problems == []
    assert kinds(fake.requests[0].json) == ["message", "message", "message"]


def test_the_fake_refuses_reasoning_that_is_for_a_model_that_does_not_think() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    body = {"model": "gpt-4.1", "stream": True, "input": [item]}
    sent = ReceivedRequest(
        "/v1/responses", {}, {"Authorization": "Bearer key"}, msgspec.json.encode(body)
    )
    problem = new_dialect().problem(sent)
    assert problem is not None
    assert "can only be provided to a reasoning" in problem.message


async def test_an_answer_that_is_built_upon_is_asked_for_without_too() -> None:
    fake = FakeProvider("openai_responses", [say("One."), say("Two.")])
    first = await agent_of(model_of(fake, "gpt-4.9", chain=True)).run("Hi")
    fresh = model_of(fake, "gpt-4.9", chain=True)  # has not heard yet that it does not think
    second = await agent_of(fresh).run("More", history=load(dump(first.history)))
    assert second.history[-1].text == "Two."
    asked = [ENCRYPTED in request.json.get("include", ()) for request in fake.requests]
    assert asked == [True, False, True, True, False]


async def test_it_is_asked_without_once_only() -> None:
    fake = FakeProvider("openai_responses", default=refusal(UNVERIFIED), check=False)
    with pytest.raises(RunFailed):
        await agent_of(model_of(fake)).run("More", history=await thought())
    assert len(fake.requests) == 2


@pytest.mark.parametrize(
    "refused",
    [
        refusal("Unknown parameter."),
        respond(429, {"error": {"message": UNVERIFIED, "code": "slow_down"}}),
        [say("Half an"), fail(UNVERIFIED, code="invalid_encrypted_content")],
    ],
    ids=["unknown", "busy", "shown"],
)
async def test_any_other_failure_is_a_failure(refused: Any) -> None:
    fake = FakeProvider("openai_responses", [refused], check=False)
    with pytest.raises(RunFailed):
        await agent_of(model_of(fake)).run("More", history=await thought())
    assert len(fake.requests) == 1


async def test_what_could_not_be_sent_is_told_once() -> None:
    inside = fail(UNVERIFIED, code="invalid_encrypted_content")
    fake = FakeProvider("openai_responses", [[opens(), inside], say("Back.")], check=False)
    request = Request(messages=(*await thought(), MORE), settings=Settings(top_k=3))
    deltas = [delta async for delta in model_of(fake).stream(request)]
    assert len(fake.requests) == 2
    assert len([delta for delta in deltas if isinstance(delta, Notice)]) == 1


async def test_leaving_early_lets_go_of_the_connection() -> None:
    script = [refusal(UNVERIFIED), say("One two three", chunks=3)]
    fake = FakeProvider("openai_responses", script, check=False)
    stream = model_of(fake).stream(Request(messages=(*await thought(), MORE)))
    async for _ in stream:
        break
    assert fake.open == 1
    await stream.aclose()  # type: ignore[attr-defined]
    assert fake.open == 0
