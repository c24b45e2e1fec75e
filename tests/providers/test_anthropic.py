"""Models that speak the Anthropic Messages API, against a fake of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from holdfast import Agent, __version__, tool
from holdfast.errors import RunFailed
from holdfast.kernel.errors import ConfigError, FailureKind, ProviderError, classify
from holdfast.kernel.messages import Reasoning, Text, ToolCall, Usage, user_message
from holdfast.kernel.model import Delta, Finished, Notice, Request, Settings, TextDelta, check_model
from holdfast.options import Policy, Retry
from holdfast.providers.anthropic import Anthropic
from holdfast.providers.http import HttpClient
from holdfast.providers.profile import Price, Profile
from holdfast.testing import ScriptedTurn, call, conformance, fail, ports, say, think, usage
from holdfast.testing.fake.faults import dripping, lost, respond
from holdfast.testing.fake.provider import FakeProvider

HI: Final = user_message("Hi")


def model_of(fake: FakeProvider, **options: Any) -> Anthropic:
    return Anthropic("claude-opus-5", **{"api_key": "sk-ant-secret", "http": fake, **options})


async def deltas(model: Anthropic, **fields: Any) -> list[Delta]:
    return [delta async for delta in model.stream(Request(messages=(HI,), **fields))]


async def refusal(fake: FakeProvider) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await deltas(model_of(fake))
    return caught.value


def in_memory(script: Sequence[ScriptedTurn]) -> conformance.Subject:
    fake = FakeProvider("anthropic", script)
    return conformance.Subject(
        model_of(fake), lambda: fake.open, lambda: [received.body for received in fake.requests]
    )


@pytest.mark.parametrize("case", conformance.cases(without={"files"}), ids=str)
async def test_it_does_what_the_loop_demands(case: conformance.Case) -> None:
    await case.check(in_memory)


# --- Who is asked -------------------------------------------------------------------------------


def test_a_model_says_what_it_is() -> None:
    model = model_of(FakeProvider("anthropic"), profile=Profile(window=200_000))
    check_model(model)
    assert model.name == "anthropic:claude-opus-5"
    assert model.window == 200_000
    assert Anthropic("m", api_key="k", provider="gateway").name == "gateway:m"
    assert Anthropic("m", api_key="k").window is None


def test_a_key_is_shown_to_nobody() -> None:
    model = model_of(FakeProvider("anthropic"))
    assert repr(model) == "Anthropic('anthropic:claude-opus-5')"
    with pytest.raises(ConfigError) as caught:
        Anthropic("m", api_key="sk-ant-secret\n")
    assert "sk-ant" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": ""},
        {"model": None},
        {"api_key": ""},
        {"api_key": "  "},
        {"api_key": None},
        {"api_key": "kéy"},
        {"api_key": "a\r\nb"},
        {"base_url": "api.anthropic.com"},
        {"base_url": None},
        {"provider": ""},
        {"provider": "a:b"},
        {"profile": Profile(options={"thinking": "hard"})},
        {"betas": "files-api-2025-04-14"},
        {"betas": 5},
        {"betas": [5]},
    ],
)
def test_what_cannot_be_right_is_refused_at_once(wrong: dict[str, Any]) -> None:
    given = {"model": "m", "api_key": "k", **wrong}
    with pytest.raises(ConfigError):
        Anthropic(given.pop("model"), **given)


@pytest.mark.parametrize(
    ("base_url", "path"),
    [
        ("https://api.anthropic.com", "/v1/messages"),
        ("https://api.anthropic.com/", "/v1/messages"),
        ("https://api.anthropic.com/v1", "/v1/messages"),
        ("https://gateway.example/anthropic", "/anthropic/v1/messages"),
    ],
)
async def test_where_it_is_asked(base_url: str, path: str) -> None:
    fake = FakeProvider("anthropic", [say("Ho.")], check=False)
    await deltas(model_of(fake, base_url=base_url))
    assert fake.requests[0].path == path


async def test_what_it_is_asked_with() -> None:
    fake = FakeProvider("anthropic", default=say("Ho."))
    await deltas(model_of(fake))
    assert dict(fake.requests[0].headers) == {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "User-Agent": f"holdfast/{__version__}",
        "anthropic-version": "2023-06-01",
        "x-api-key": "sk-ant-secret",
    }
    headers = {"X-API-Key": "other", "user-agent": "mine", "X-Team": "red"}
    await deltas(model_of(fake, betas=["a-1", "b-2"], headers=headers))
    sent = fake.requests[1].headers
    assert sent["anthropic-beta"] == "a-1,b-2"
    assert sent["x-team"] == "red"
    assert sent.getall("x-api-key") == ["other"]  # type: ignore[attr-defined]
    assert sent.getall("user-agent") == ["mine"]  # type: ignore[attr-defined]


# --- What it answers ----------------------------------------------------------------------------


async def test_an_agent_talks_thinks_and_calls() -> None:
    @tool
    async def weather(city: str) -> str:
        """The weather of a city."""
        return f"It is sunny in {city}."

    fake = FakeProvider(
        "anthropic",
        [
            [
                think("I should look.", signature="sig", chunks=3),
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
    assert (thought.text, thought.signature) == ("I should look.", "sig")
    assert said == Text("One moment.")
    assert isinstance(called, ToolCall)
    assert called.arguments == '{"city":"Oslo"}'
    assert asked.usage == Usage(10, 20, 5, 0, 30, cost=(asked.usage and asked.usage.cost) or None)
    assert asked.usage is not None
    assert asked.usage.cost == pytest.approx(60 / 1_000_000)
    assert told.text == "It is sunny."
    assert told.usage is not None
    assert told.usage.cache_read == 40
    assert told.metadata == {"anthropic": {"id": "msg_fake", "stop_reason": "end_turn"}}
    second = fake.requests[1].json["messages"]
    assert [message["role"] for message in second] == ["user", "assistant", "user"]
    assert second[2]["content"][0]["content"] == "It is sunny in Oslo."


async def test_what_is_left_out_is_told_once_the_provider_is_heard() -> None:
    fake = FakeProvider("anthropic", [say("Ho.")])
    first, *rest = await deltas(model_of(fake), settings=Settings(presence_penalty=1.0))
    assert first == Notice("anthropic:claude-opus-5 was asked without presence_penalty.")
    assert TextDelta("Ho.") in rest
    assert isinstance(rest[-1], Finished)


async def test_a_refusal_of_the_model_is_a_content_filter() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": None}
    note = {"anthropic": {"stop_reason": "refusal", "stop_details": details}}
    fake = FakeProvider("anthropic", default=Finished("content_filter", metadata=note))
    agent = Agent(model=model_of(fake), ports=ports())
    with pytest.raises(RunFailed) as caught:
        await agent.run("Hi")
    assert caught.value.failure.kind == "content_filter"
    assert len(fake.requests) == 1


# --- How it fails -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "type", "message", "kind"),
    [
        (400, "invalid_request_error", "messages: nonsense", "invalid_request"),
        (400, "invalid_request_error", "prompt is too long: 9 tokens > 8", "context_overflow"),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, "
            "decrease input length or `max_tokens` and try again",
            "context_overflow",
        ),
        (400, "invalid_request_error", "Your credit balance is too low to access", "quota"),
        (
            400,
            "invalid_request_error",
            "You have reached your specified API usage limits. You will regain access on 1 May",
            "quota",
        ),
        (401, "authentication_error", "invalid x-api-key", "auth"),
        (402, "billing_error", "There is an issue with your payment", "quota"),
        (403, "permission_error", "Your API key may not", "permission"),
        (404, "not_found_error", "model: claude-opus-9", "not_found"),
        (408, "timeout_error", "Timeout", "timeout"),
        (409, "conflict_error", "Conflict", "server"),
        (413, "request_too_large", "Request exceeds the maximum size", "context_overflow"),
        (429, "rate_limit_error", "This would exceed your limit", "rate_limit"),
        (500, "api_error", "Internal server error", "server"),
        (503, "api_error", "Service unavailable", "overloaded"),
        (504, "timeout_error", "The request timed out", "timeout"),
        (529, "overloaded_error", "Overloaded", "overloaded"),
    ],
)
async def test_what_each_refusal_means(
    status: int, type: str, message: str, kind: FailureKind
) -> None:
    error = await refusal(FakeProvider("anthropic", [fail(message, status=status, code=type)]))
    assert error.kind == kind
    assert (error.status, error.code) == (status, type)
    assert str(error) == message


@pytest.mark.parametrize(
    ("status", "type", "code", "kind"),
    [
        (429, "rate_limit_error", "enforced_spend_limit_reached", "quota"),
        (429, "rate_limit_error", "ramp_limit_exceeded", "rate_limit"),
        (400, "invalid_request_error", "organization_on_hold", "permission"),
        (413, "invalid_request_error", "request_body_too_large_after_decoding", "context_overflow"),
        (400, "invalid_request_error", "a_new_code", "invalid_request"),
    ],
)
async def test_a_code_says_more_than_a_type(
    status: int, type: str, code: str, kind: FailureKind
) -> None:
    body = {
        "type": "error",
        "error": {"type": type, "message": "No.", "details": {"error_code": code}},
    }
    error = await refusal(FakeProvider("anthropic", [respond(status, body)]))
    assert error.kind == kind


@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 205000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease",
    ],
)
async def test_an_overflow_says_how_much_fits(message: str) -> None:
    error = await refusal(FakeProvider("anthropic", [fail(message, status=400)]))
    assert error.window == 200_000


async def test_how_long_to_wait_is_heard() -> None:
    fake = FakeProvider("anthropic", [fail("Slow", status=429, retry_after=7)])
    assert (await refusal(fake)).retry_after == 7
    fake = FakeProvider("anthropic", [fail("No", status=529, should_retry=False)])
    assert not classify(await refusal(fake)).retryable


async def test_a_key_that_is_wrong_is_not_told() -> None:
    message = "invalid x-api-key: sk-ant-api03-abcdefghijklmnop"
    error = await refusal(FakeProvider("anthropic", [fail(message, status=401)]))
    assert "abcdefgh" not in classify(error).detail


@pytest.mark.parametrize(
    ("turn", "kind"),
    [
        ([say("Half"), lost()], "stream_cut"),
        ([say("Half"), fail("Overloaded", status=529, code="overloaded_error")], "overloaded"),
        (lost(), "network"),
        (respond(200, {"type": "error", "error": {"type": "api_error", "message": "x"}}), "server"),
        (respond(502, "<html><title>Bad gateway</title>", {"Content-Type": "text/html"}), "server"),
    ],
)
async def test_trouble_on_the_way_is_tried_again(turn: Any, kind: FailureKind) -> None:
    fake = FakeProvider("anthropic", [turn, say("Whole.")])
    agent = Agent(model=model_of(fake), ports=ports())
    result = await agent.run("Hi")
    assert result.history[-1].text == "Whole."
    fake = FakeProvider("anthropic", [turn])
    once = agent.replace(model=model_of(fake), policy=Policy(retry=Retry(attempts=1)))
    with pytest.raises(RunFailed) as caught:
        await once.run("Hi")
    assert caught.value.failure.kind == kind


async def test_a_stream_that_is_left_lets_go_of_its_connection() -> None:
    fake = FakeProvider("anthropic", [[say("a"), say("b")]])
    stream = model_of(fake).stream(Request(messages=(HI,)))
    await anext(stream)
    assert fake.open == 1
    await stream.aclose()  # type: ignore[attr-defined]
    assert fake.open == 0


async def test_over_a_real_connection_it_is_the_same() -> None:
    script = [think("Hm.", signature="s"), say("Hello.", chunks=3), call("clock")]
    fake = FakeProvider("anthropic", [script, script])
    in_memory = await deltas(model_of(fake))
    http = HttpClient()
    async with fake.serve() as base_url:
        over_loopback = await deltas(model_of(fake, base_url=base_url, http=http))
        await http.close()
    assert fake.problems == []
    spoken = [delta for delta in over_loopback if type(delta).__name__ != "Ping"]
    assert [str(delta) for delta in spoken] == [
        str(delta).replace("call_1", "call_2")
        for delta in in_memory
        if type(delta).__name__ != "Ping"
    ]
