"""Building upon a stored answer: when only what is new is sent, and when all of it."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from holdfast import Agent, tool
from holdfast.errors import RunFailed
from holdfast.kernel.errors import ProviderError
from holdfast.kernel.events import Retrying
from holdfast.kernel.messages import (
    File,
    Message,
    Text,
    dump,
    injected,
    load,
    user_message,
)
from holdfast.kernel.model import CallEnded, CallStarted, Notice, Request, Settings
from holdfast.options import Policy, Retry
from holdfast.providers.openai_responses import OpenAIResponses
from holdfast.testing import ScriptedTurn, call, fail, file, finish, ports, say, think
from holdfast.testing.fake.faults import opens, raw, respond
from holdfast.testing.fake.provider import FakeProvider

Json = dict[str, Any]
History = tuple[Message, ...]

MORE: Final = user_message("More")
GONE: Final = {
    "error": {
        "message": "Previous response with id 'resp_1' not found.",
        "type": "invalid_request_error",
        "param": "previous_response_id",
        "code": "previous_response_not_found",
    }
}


def model_of(fake: FakeProvider, name: str = "gpt-5", **options: Any) -> OpenAIResponses:
    return OpenAIResponses(name, api_key="k", http=fake, **{"chain": True, **options})


async def talked(
    *turns: ScriptedTurn, prompt: str = "Hi", **options: Any
) -> tuple[FakeProvider, History]:
    """A conversation of one turn, as it comes back from a store; and a fake with more to say."""
    fake = FakeProvider("openai_responses", turns, default=say("More."))
    result = await agent_of(fake, **options).run(prompt)
    return fake, load(dump(result.history))


def agent_of(fake: FakeProvider, **options: Any) -> Agent:
    return Agent(model=model_of(fake), ports=ports(), **options)


async def sent_body(fake: FakeProvider, *messages: Message, **options: Any) -> Json:
    """What is sent for these messages, which the fake does not object to."""
    async for _ in model_of(fake, **options).stream(Request(messages=messages)):
        pass
    assert fake.problems == []
    body: Json = fake.requests[-1].json
    return body


def roles(body: Json) -> list[str]:
    return [item.get("role") or item["type"] for item in body["input"]]


@tool
async def look(at: str) -> str:
    """Look at it."""
    return f"I see {at}."


# --- When only what is new is sent --------------------------------------------------------------


async def test_a_turn_that_goes_on_from_an_answer_sends_only_what_is_new() -> None:
    fake, history = await talked([think("hm"), say("Ho.")], instructions="Be brief.")
    agent = agent_of(fake, instructions="Be brief.", tools=[look])
    second = await agent.run("More", history=history)
    third = await agent.run("And more", history=load(dump(second.history)))
    assert third.history[-1].text == "More."
    assert fake.problems == []
    first, linked, again = (request.json for request in fake.requests)
    assert first["store"] is linked["store"] is again["store"] is True
    assert "previous_response_id" not in first
    assert linked["previous_response_id"].startswith("resp_")
    assert again["previous_response_id"] != linked["previous_response_id"]
    assert [len(body["input"]) for body in (first, linked, again)] == [1, 1, 1]
    # What is not carried over is sent each time.
    assert linked["instructions"] == "Be brief."
    assert [declared["name"] for declared in linked["tools"]] == ["look"]


async def test_several_messages_of_people_are_new_together() -> None:
    fake, history = await talked(say("Ho."))
    body = await sent_body(fake, *history, MORE, injected("Go on."))
    assert "previous_response_id" in body
    assert roles(body) == ["user", "user"]


async def test_what_the_provider_ran_is_no_hindrance() -> None:
    search = (CallStarted("ws", "web_search", True), CallEnded("ws"))
    fake, history = await talked([think("hm"), *search, say("Ho.")])
    assert "previous_response_id" in await sent_body(fake, *history, MORE)


async def test_the_answer_says_what_it_is_stored_as_and_what_it_was_given_for() -> None:
    _, history = await talked(say("Ho."))
    metadata = history[-1].metadata
    assert metadata is not None
    assert set(metadata["openai"]) == {"response_id", "input", "output"}


async def test_other_settings_are_no_hindrance() -> None:
    fake, history = await talked(say("Ho."))
    settings = Settings(max_output_tokens=500)
    request = Request(messages=(*history, MORE), settings=settings, effort="low")
    async for _ in model_of(fake).stream(request):
        pass
    body = fake.requests[-1].json
    assert "previous_response_id" in body
    assert body["max_output_tokens"] == 500


# --- When all of it is sent ---------------------------------------------------------------------


async def test_nothing_is_stored_unless_it_is_wanted() -> None:
    fake, history = await talked(say("Ho."))
    body = await sent_body(fake, *history, MORE, chain=False)
    assert "previous_response_id" not in body
    assert body["store"] is False
    assert roles(body) == ["user", "assistant", "user"]


async def test_an_answer_that_was_not_stored_is_not_built_upon() -> None:
    fake = FakeProvider("openai_responses", default=say("Ho."))
    result = await Agent(model=model_of(fake, chain=False), ports=ports()).run("Hi")
    body = await sent_body(fake, *result.history, MORE)
    assert "previous_response_id" not in body
    assert roles(body) == ["user", "assistant", "user"]


async def test_results_of_tools_are_sent_with_the_full_history() -> None:
    fake, history = await talked(call("look", at="this"), say("I see."), tools=[look])
    _, continued = (request.json for request in fake.requests)
    assert "previous_response_id" not in continued
    assert roles(continued) == ["user", "function_call", "function_call_output"]
    # The next turn goes on from the last answer again.
    body = await sent_body(fake, *history, MORE)
    assert "previous_response_id" in body
    assert roles(body) == ["user"]


async def test_an_edit_breaks_the_chain() -> None:
    fake, history = await talked(say("Ho."))
    prompt, answer = history
    for changed in (
        (replace(prompt, parts=(Text("Hello"),)), answer, MORE),
        (prompt, replace(answer, parts=(Text("Something else."),)), MORE),
        (user_message("Before"), prompt, answer, MORE),
        (answer, MORE),
    ):
        body = await sent_body(fake, *changed)
        assert "previous_response_id" not in body
        assert len(body["input"]) == len(changed)
    assert "previous_response_id" in await sent_body(fake, prompt, answer, MORE)


async def test_a_part_that_was_taken_out_of_the_answer_breaks_the_chain() -> None:
    fake, history = await talked([file("image/png", b"png"), say("Ho.")])
    prompt, answer = history
    assert "previous_response_id" in await sent_body(fake, prompt, answer, MORE)
    without = replace(answer, parts=tuple(p for p in answer.parts if not isinstance(p, File)))
    assert len(without.parts) < len(answer.parts)
    assert "previous_response_id" not in await sent_body(fake, prompt, without, MORE)


async def test_a_compaction_breaks_the_chain() -> None:
    fake, history = await talked(say("Ho. " * 1_000))
    agent = agent_of(fake)
    second = await agent.run("And", history=history)
    assert "previous_response_id" in fake.requests[-1].json
    before = len(fake.requests)
    third = await agent.run("More", history=second.history, compact=True)
    assert fake.problems == []
    assert any(message.kind == "checkpoint" for message in third.history)
    bodies = [request.json for request in fake.requests[before:]]
    assert not any("previous_response_id" in body for body in bodies)
    # From the answer that was given for the summary, the next turn goes on.
    await agent.run("And", history=load(dump(third.history)))
    assert "previous_response_id" in fake.requests[-1].json


async def test_a_result_that_was_shortened_breaks_the_chain() -> None:
    fake, history = await talked(call("look", at="this"), say("I see."), tools=[look])
    prompt, called, results, answer = history
    [result] = results.results
    shorter = replace(results, parts=(replace(result, content=(Text("…"),)),))
    assert "previous_response_id" not in await sent_body(
        fake, prompt, called, shorter, answer, MORE
    )


async def test_a_system_message_since_then_breaks_the_chain() -> None:
    fake, history = await talked(say("Ho."))
    marker = Message("system", (Text("Interrupted."),), "marker")
    assert "previous_response_id" not in await sent_body(fake, *history, marker, MORE)


async def test_an_answer_that_did_not_come_to_its_end_is_not_built_upon() -> None:
    cut = [say("Half an"), finish("length")]
    fake, history = await talked(cut, policy=Policy(recoveries=0))
    assert history[-1].finish == "length"
    assert "previous_response_id" not in await sent_body(fake, *history, MORE)


async def test_another_model_and_another_provider_are_given_all_of_it() -> None:
    fake, history = await talked(say("Ho."))
    for options in ({"name": "gpt-6"}, {"provider": "azure"}):
        body = await sent_body(fake, *history, MORE, **options)
        assert "previous_response_id" not in body
        assert roles(body) == ["user", "assistant", "user"]


async def test_going_back_to_a_model_does_not_skip_what_another_said() -> None:
    fake, history = await talked(say("Ho."))
    theirs = Message("assistant", (Text("Aha"),), "answer", finish="stop", model="a:b")
    body = await sent_body(fake, *history, MORE, theirs, MORE)
    assert "previous_response_id" not in body
    assert roles(body) == ["user", "assistant", "user", "assistant", "user"]


async def test_nothing_new_is_nothing_to_build_on() -> None:
    fake, history = await talked(say("Ho."))
    empty = Message("user", (Text(""),), "prompt")
    assert "previous_response_id" not in await sent_body(fake, *history, empty)


# --- When the stored answer is gone -------------------------------------------------------------


def refusals() -> list[Any]:
    def refusal(status: int, message: str, code: str | None = None) -> Any:
        error = {"message": message, "type": "invalid_request_error", "code": code}
        return respond(status, {"error": error})

    inside = fail("Previous response with id 'x' not found.", code="previous_response_not_found")
    return [
        respond(400, GONE),
        respond(404, GONE),
        refusal(404, "Previous response with id 'resp_1' not found."),
        refusal(400, "Invalid `previous_response_id`."),
        refusal(400, "Previous response cannot be used by this organization."),
        [opens(), inside],
    ]


@pytest.mark.parametrize("refusal", refusals(), ids=range(len(refusals())))
async def test_a_broken_chain_is_asked_again_in_full_and_is_no_failed_attempt(refusal: Any) -> None:
    _, history = await talked(say("Ho."))
    fake = FakeProvider("openai_responses", [refusal, say("Back.")], check=False)
    agent = agent_of(
        fake, policy=Policy(retry=Retry(attempts=1))
    )  # a failed attempt would end the run
    run = agent.run("More", history=history)
    events = [event async for event in run]
    result = await run
    assert result.history[-1].text == "Back."
    linked, whole = (request.json for request in fake.requests)
    assert roles(linked) == ["user"]
    assert "previous_response_id" not in whole
    assert roles(whole) == ["user", "assistant", "user"]
    assert not any(isinstance(event, Retrying) for event in events)


async def test_a_provider_that_has_forgotten_is_told_everything() -> None:
    _, history = await talked(say("Ho."))
    forgetful = FakeProvider("openai_responses", [say("Back.")])
    result = await agent_of(forgetful).run("More", history=history)
    assert result.history[-1].text == "Back."
    [problem] = forgetful.problems
    assert problem.code == "previous_response_not_found"
    # The new answer is stored again, for what it was given for.
    await asked_again(forgetful, load(dump(result.history)))


async def asked_again(fake: FakeProvider, history: History) -> None:
    fake.problems.clear()
    with pytest.raises(Exception, match="the script has 1 turn"):
        await sent_body(fake, *history, MORE)
    assert "previous_response_id" in fake.requests[-1].json


async def test_a_server_that_takes_the_id_and_does_nothing_with_it_is_told_everything() -> None:
    _, history = await talked(say("Ho."))
    created = {"type": "response.created", "response": {"id": "r", "previous_response_id": None}}
    ignorant = raw(b"data: " + msgspec.json.encode(created) + b"\n\n")
    fake = FakeProvider("openai_responses", [[ignorant, say("Who?")], say("Back.")], check=False)
    result = await agent_of(fake).run("More", history=history)
    assert result.history[-1].text == "Back."
    assert [roles(request.json) for request in fake.requests] == [
        ["user"],
        ["user", "assistant", "user"],
    ]


async def test_what_could_not_be_sent_is_told_once() -> None:
    _, history = await talked(say("Ho."))
    inside = fail("Previous response with id 'x' not found.", code="previous_response_not_found")
    fake = FakeProvider("openai_responses", [[opens(), inside], say("Back.")], check=False)
    request = Request(messages=(*history, MORE), settings=Settings(top_k=3))
    deltas = [delta async for delta in model_of(fake).stream(request)]
    assert len(fake.requests) == 2
    assert len([delta for delta in deltas if isinstance(delta, Notice)]) == 1


async def test_it_is_asked_again_once_only() -> None:
    _, history = await talked(say("Ho."))
    fake = FakeProvider("openai_responses", default=respond(400, GONE), check=False)
    with pytest.raises(ProviderError) as caught:
        await sent_body(fake, *history, MORE)
    assert caught.value.code == "previous_response_not_found"
    assert len(fake.requests) == 2


@pytest.mark.parametrize(
    "refusal",
    [
        respond(400, {"error": {"message": "Unknown parameter.", "code": "unknown_parameter"}}),
        respond(429, {"error": {"message": "previous_response later", "code": "slow_down"}}),
        respond(500, {"error": {"message": "Oh no"}}),
        [say("Half an"), fail("Previous response not found", code="previous_response_not_found")],
    ],
    ids=["unknown", "busy", "broken", "shown"],
)
async def test_any_other_failure_is_a_failure(refusal: Any) -> None:
    _, history = await talked(say("Ho."))
    fake = FakeProvider("openai_responses", [refusal], check=False)
    agent = agent_of(fake, policy=Policy(retry=Retry(attempts=1)))
    with pytest.raises(RunFailed):
        await agent.run("More", history=history)
    assert len(fake.requests) == 1


async def test_leaving_early_lets_go_of_the_connection() -> None:
    fake, history = await talked(say("Ho."), say("One two three", chunks=3))
    stream = model_of(fake).stream(Request(messages=(*history, MORE)))
    async for _ in stream:
        break
    assert fake.open == 1
    await stream.aclose()  # type: ignore[attr-defined]
    assert fake.open == 0
