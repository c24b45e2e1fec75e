"""Models behind OpenAI's Responses API, against a fake of it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from holdfast import Agent, __version__, tool
from holdfast.errors import RunFailed
from holdfast.kernel.errors import ConfigError, FailureKind, ProviderError, classify
from holdfast.kernel.messages import Reasoning, Text, ToolCall, Usage, user_message
from holdfast.kernel.model import Delta, Finished, Notice, Request, Settings, TextDelta, check_model
from holdfast.options import Policy, Retry
from holdfast.providers.http import HttpClient
from holdfast.providers.openai_responses import OpenAIResponses
from holdfast.providers.profile import Price, Profile
from holdfast.testing import call, call_raw, cut, fail, finish, ping, ports, say, think, usage
from holdfast.testing.fake.faults import dripping, garbled, lost, opens, raw, respond
from holdfast.testing.fake.provider import FakeProvider

HI: Final = user_message("Hi")


def model_of(fake: FakeProvider, **options: Any) -> OpenAIResponses:
    return OpenAIResponses("gpt-5", **{"api_key": "sk-secret-key", "http": fake, **options})


async def deltas(model: OpenAIResponses, **fields: Any) -> list[Delta]:
    return [delta async for delta in model.stream(Request(messages=(HI,), **fields))]


async def refusal(fake: FakeProvider) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await deltas(model_of(fake))
    return caught.value


# --- Who is asked -------------------------------------------------------------------------------


def test_a_model_says_what_it_is() -> None:
    model = model_of(FakeProvider("openai_responses"), profile=Profile(window=400_000))
    check_model(model)
    assert (model.name, model.window) == ("openai:gpt-5", 400_000)
    assert OpenAIResponses("m", api_key=None, provider="azure").name == "azure:m"
    assert OpenAIResponses("m", api_key="k").window is None


def test_a_key_is_shown_to_nobody() -> None:
    assert repr(model_of(FakeProvider("openai_responses"))) == "OpenAIResponses('openai:gpt-5')"
    with pytest.raises(ConfigError) as caught:
        OpenAIResponses("m", api_key="sk-secret-key\n")
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": ""},
        {"model": None},
        {"api_key": ""},
        {"api_key": "  "},
        {"api_key": "kéy"},
        {"api_key": "a\r\nb"},
        {"base_url": "api.openai.com/v1"},
        {"base_url": None},
        {"base_url": "https://api.openai.com/v1/responses"},
        {"provider": ""},
        {"provider": "a:b"},
    ],
    ids=str,
)
def test_what_cannot_be_right_is_refused_at_once(wrong: dict[str, Any]) -> None:
    given = {"model": "m", "api_key": "k", **wrong}
    with pytest.raises(ConfigError):
        OpenAIResponses(given.pop("model"), **given)


@pytest.mark.parametrize(
    ("base_url", "path", "query"),
    [
        ("https://api.openai.com/v1", "/v1/responses", {}),
        ("https://api.openai.com/v1/", "/v1/responses", {}),
        ("https://a.openai.azure.com/openai/v1", "/openai/v1/responses", {}),
        (
            "https://a.openai.azure.com/openai/v1/?api-version=preview",
            "/openai/v1/responses",
            {"api-version": "preview"},
        ),
    ],
)
async def test_where_it_is_asked(base_url: str, path: str, query: dict[str, str]) -> None:
    fake = FakeProvider("openai_responses", [say("Ho.")])
    await deltas(model_of(fake, base_url=base_url))
    assert (fake.requests[0].path, fake.requests[0].query) == (path, query)


async def test_what_it_is_asked_with() -> None:
    fake = FakeProvider("openai_responses", default=say("Ho."))
    await deltas(model_of(fake))
    assert dict(fake.requests[0].headers) == {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "User-Agent": f"holdfast/{__version__}",
        "Authorization": "Bearer sk-secret-key",
    }
    await deltas(model_of(fake, headers={"authorization": "Bearer other", "X-Team": "red"}))
    sent = fake.requests[1].headers
    assert sent["x-team"] == "red"
    assert sent.getall("Authorization") == ["Bearer other"]  # type: ignore[attr-defined]


async def test_azure_has_its_key_in_a_header_of_its_own() -> None:
    fake = FakeProvider("openai_responses", [say("Ho.")])
    model = model_of(fake, api_key=None, provider="azure", headers={"api-key": "k"})
    last = (await deltas(model))[-1]
    assert "Authorization" not in fake.requests[0].headers
    assert isinstance(last, Finished)
    assert last.metadata is not None
    assert list(last.metadata) == ["azure"]


# --- What it answers ----------------------------------------------------------------------------


async def test_an_agent_talks_thinks_and_calls() -> None:
    @tool
    async def weather(city: str) -> str:
        """The weather of a city."""
        return f"It is sunny in {city}."

    fake = FakeProvider(
        "openai_responses",
        [
            [
                think("I should look.\n\nIn Oslo.", signature="sig", chunks=3),
                say("One moment."),
                call("weather", city="Oslo"),
                usage(input=10, output=20, cache_write=30, reasoning=5),
            ],
            [dripping(3), say("It is sunny.", chunks=4), usage(input=1, output=2, cache_read=40)],
        ],
    )
    model = model_of(fake, profile=Profile(price=Price(1, 1)))
    agent = Agent(model=model, instructions="Be brief.", tools=[weather], effort="high")
    result = await agent.replace(ports=ports()).run("How is the weather in Oslo?")
    assert fake.problems == []
    _, asked, _, told = result.history
    thought, said, called = asked.parts
    assert isinstance(thought, Reasoning)
    assert isinstance(said, Text)
    assert isinstance(called, ToolCall)
    assert thought.text == "I should look.\n\nIn Oslo."
    assert said.text == "One moment."
    assert called.arguments == '{"city":"Oslo"}'
    assert asked.usage == Usage(10, 20, 5, 0, 30, 0.00006)
    assert told.text == "It is sunny."
    assert told.usage == Usage(1, 2, 0, 40, 0, 0.000043)
    first = fake.requests[0].json
    assert first["instructions"] == "Be brief."
    assert first["reasoning"] == {"effort": "high", "summary": "auto"}
    assert first["prompt_cache_key"] == fake.requests[1].json["prompt_cache_key"]
    output = fake.requests[1].json["input"][-1]
    assert output == {
        "type": "function_call_output",
        "call_id": called.id,
        "output": "It is sunny in Oslo.",
    }


async def test_what_could_not_be_sent_is_told_once_the_provider_is_heard() -> None:
    fake = FakeProvider("openai_responses", [say("Ho.")])
    first, *rest = await deltas(model_of(fake), settings=Settings(top_k=3))
    assert first == Notice("top_k was not sent to openai:gpt-5, which does not know it.")
    assert TextDelta("Ho.") in rest


async def test_pings_are_no_part_of_an_answer() -> None:
    fake = FakeProvider("openai_responses", [[ping(), say("Ho"), ping(), say(".")]])
    result = await Agent(model=model_of(fake), ports=ports()).run("Hi")
    [said] = result.history[-1].parts
    assert isinstance(said, Text)
    assert said.text == "Ho."


async def test_over_real_sockets() -> None:
    fake = FakeProvider("openai_responses", [[think("hm"), dripping(7), say("Ho.", chunks=3)]])
    connections = HttpClient()
    async with fake.serve() as url:
        model = model_of(fake, http=connections, base_url=f"{url}/v1")
        result = await Agent(model=model, ports=ports()).run("Hi")
        await connections.close()
    assert result.history[-1].text == "Ho."


async def test_an_answer_that_is_cut_by_its_length_goes_on() -> None:
    half = [say("Half an "), call_raw("look", '{"a', ended=False), finish("length")]
    fake = FakeProvider("openai_responses", [half, say("answer.")])
    result = await Agent(model=model_of(fake), ports=ports()).run("Hi")
    assert fake.problems == []
    assert [message.text for message in result.history if message.role == "assistant"] == [
        "Half an ",
        "answer.",
    ]


# --- What it refuses ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, {"type": "invalid_request_error"}, "invalid_request"),
        (400, {"code": "unknown_parameter"}, "invalid_request"),
        (400, {"code": "context_length_exceeded"}, "context_overflow"),
        (400, {"message": "Your input exceeds the context window."}, "context_overflow"),
        (400, {"code": "invalid_prompt"}, "content_filter"),
        (400, {"code": "content_filter"}, "content_filter"),
        (401, {"code": "invalid_api_key"}, "auth"),
        (401, {}, "auth"),
        (403, {"code": "unsupported_country_region_territory"}, "permission"),
        (403, {}, "permission"),
        (404, {"code": "model_not_found"}, "not_found"),
        (404, {"code": "DeploymentNotFound"}, "not_found"),
        (409, {}, "server"),
        (422, {}, "invalid_request"),
        (429, {"code": "rate_limit_exceeded", "type": "tokens"}, "rate_limit"),
        (429, {"code": "slow_down", "type": "rate_limit_error"}, "rate_limit"),
        (429, {"code": "insufficient_quota", "type": "insufficient_quota"}, "quota"),
        (429, {"code": "credit_balance_exhausted", "type": "insufficient_quota"}, "quota"),
        (429, {"code": "project_spend_limit_exceeded"}, "quota"),
        (429, {"code": "organization_usage_limit_exceeded"}, "quota"),
        (500, {"type": "server_error"}, "server"),
        (502, {}, "server"),
        (503, {"code": "server_is_overloaded", "type": "service_unavailable_error"}, "overloaded"),
        (503, {}, "overloaded"),
        (504, {}, "timeout"),
    ],
    ids=str,
)
async def test_refusals(status: int, error: dict[str, str], kind: FailureKind) -> None:
    body = {"error": {"message": "No.", **error}}
    failure = await refusal(FakeProvider("openai_responses", [respond(status, body)]))
    assert (failure.kind, failure.status) == (kind, status)


async def test_when_to_try_again() -> None:
    failing = fail("Slow down", status=429, retry_after=7)
    failure = await refusal(FakeProvider("openai_responses", [failing]))
    assert (failure.kind, failure.code, failure.retry_after) == (
        "rate_limit",
        "rate_limit_exceeded",
        7,
    )


async def test_a_failure_inside_the_stream_is_tried_again() -> None:
    failing = [opens(), say("Half"), fail("Oh no", status=500)]
    fake = FakeProvider("openai_responses", [failing, say("Whole.")])
    result = await Agent(model=model_of(fake), ports=ports()).run("Hi")
    assert result.history[-1].text == "Whole."


async def test_the_key_is_in_no_error() -> None:
    said = "Incorrect API key provided: sk-secret-key-and-more."
    failure = await refusal(FakeProvider("openai_responses", [fail(said, status=401)]))
    assert "sk-secret" not in classify(failure, "openai:gpt-5").detail


# --- Answers that break off ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "ending",
    [
        [say("Half an"), cut()],
        [say("Half an"), lost()],
        [think("hm"), cut()],
        [call_raw("look", "{}"), cut()],
        [say("Half"), garbled(), say(" an answer")],
        [say("Half"), raw("data: {nonsense}\n\n")],
    ],
    ids=["cut", "lost", "only thought", "call", "garbled", "nonsense"],
)
async def test_an_answer_that_breaks_off_is_none(ending: Any) -> None:
    fake = FakeProvider("openai_responses", [ending])
    once = Policy(retry=Retry(attempts=1))
    with pytest.raises(RunFailed) as caught:
        await Agent(model=model_of(fake), policy=once, ports=ports()).run("Hi")
    assert caught.value.result.failure is not None
    assert caught.value.result.failure.kind in ("stream_cut", "server")
    assert fake.open == 0


async def test_an_answer_that_was_filtered_is_a_failure_of_its_own() -> None:
    fake = FakeProvider("openai_responses", [[opens(), finish("content_filter")]])
    with pytest.raises(RunFailed) as caught:
        await Agent(model=model_of(fake), ports=ports()).run("Hi")
    assert caught.value.result.failure is not None
    assert caught.value.result.failure.kind == "content_filter"
