"""Models that speak Chat Completions, with a fake on the other side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast import Agent, tool
from holdfast.errors import RunFailed
from holdfast.kernel.errors import ConfigError, FailureKind, ProviderError, StreamCut, classify
from holdfast.kernel.messages import Message, Reasoning, Text, Usage, dump, load, user_message
from holdfast.kernel.model import (
    Delta,
    Effort,
    Finished,
    Notice,
    Request,
    Settings,
    TextDelta,
    ToolSpec,
)
from holdfast.options import Policy, Retry
from holdfast.providers.failure import response_error
from holdfast.providers.openai_chat import OpenAIChat
from holdfast.providers.openai_chat.decoder import ERROR_CODES
from holdfast.providers.openai_chat.quirks import QUIRKS, Quirks
from holdfast.providers.profile import UNKNOWN, Price, Profile
from holdfast.providers.profile_lookup import lookup
from holdfast.testing import call_raw, conformance, cut, fail, ports, say, think, usage
from holdfast.testing.fake.faults import garbled, lost, opens, raw, respond
from holdfast.testing.fake.provider import FakeProvider
from holdfast.testing.script import ScriptedTurn

KEY = "sk-test-0123456789"
ASK = Request(messages=(user_message("Well?"),))


def chat(fake: FakeProvider, provider: str = "openai", **more: Any) -> OpenAIChat:
    return OpenAIChat("gpt", **{"api_key": KEY, "provider": provider, "http": fake, **more})


async def answer_deltas(model: OpenAIChat, request: Request = ASK) -> list[Delta]:
    return [delta async for delta in model.stream(request)]


# --- Where a request goes -----------------------------------------------------------------------


async def test_a_request_goes_to_chat_completions_with_the_key() -> None:
    fake = FakeProvider("openai_chat", [say("Hi")])
    deltas = await answer_deltas(chat(fake))
    assert TextDelta("Hi") in deltas
    assert isinstance(deltas[-1], Finished)
    (request,) = fake.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.headers["User-Agent"].startswith("holdfast/")
    assert request.headers["Content-Type"] == "application/json"


async def test_without_a_key_none_is_sent() -> None:
    fake = FakeProvider("openai_chat", [say("Hi")])
    await answer_deltas(chat(fake, "ollama", api_key=None, base_url="http://localhost:11434/v1/"))
    (request,) = fake.requests
    assert "Authorization" not in request.headers
    assert request.path == "/v1/chat/completions"


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Basic {KEY}"},
        {"Authorization": KEY},
        {"api-key": ""},
    ],
)
async def test_half_a_key_is_refused(headers: dict[str, str]) -> None:
    fake = FakeProvider("openai_chat", [say("Hi")])
    with pytest.raises(ProviderError) as caught:
        await answer_deltas(chat(fake, api_key=None, headers=headers))
    assert caught.value.kind == "auth"


async def test_azure_has_its_own_header_and_a_version() -> None:
    fake = FakeProvider("openai_chat", [say("Hi"), say("Hi")])
    base_url = "https://me.openai.azure.com/openai/v1?api-version=preview"
    await answer_deltas(chat(fake, "azure", base_url=base_url))
    quirks = replace(QUIRKS["azure"], query={"api-version": "2026-01-01"})
    await answer_deltas(chat(fake, "azure", base_url=base_url, quirks=quirks))
    assert [request.query for request in fake.requests] == [
        {"api-version": "preview"},
        {"api-version": "2026-01-01"},
    ]
    for request in fake.requests:
        assert request.headers["api-key"] == KEY
        assert "Authorization" not in request.headers


async def test_given_headers_win_over_ours() -> None:
    fake = FakeProvider("openai_chat", [say("Hi")])
    given = {"authorization": "Bearer other", "X-Title": "mine"}
    await answer_deltas(chat(fake, headers=given))
    assert fake.requests[0].headers["Authorization"] == "Bearer other"
    assert fake.requests[0].headers["X-Title"] == "mine"


async def test_some_are_told_the_cache_key_in_a_header() -> None:
    fake = FakeProvider("openai_chat", [say("Hi"), say("Hi")])
    model = chat(fake, "xai")
    await answer_deltas(model, replace(ASK, cache_key="chat-1"))
    await answer_deltas(model)
    assert [request.headers.get("x-grok-conv-id") for request in fake.requests] == ["chat-1", None]


async def test_quirks_are_those_of_the_provider_unless_they_are_given() -> None:
    fake = FakeProvider("openai_chat", [say("Hi")] * 3)
    limited = replace(ASK, settings=Settings(max_output_tokens=9))
    await answer_deltas(chat(fake, "deepseek"), limited)
    await answer_deltas(chat(fake, "nobody-knows"), limited)
    await answer_deltas(chat(fake, "deepseek", quirks=Quirks()), limited)
    sent = [
        set(request.json) & {"max_tokens", "max_completion_tokens"} for request in fake.requests
    ]
    assert sent == [{"max_tokens"}, {"max_tokens"}, {"max_completion_tokens"}]


def test_a_model_says_its_name_and_window_but_not_its_key() -> None:
    model = chat(FakeProvider("openai_chat"), "groq", profile=Profile(window=1_000))
    assert (model.name, model.window) == ("groq:gpt", 1_000)
    assert repr(model) == "OpenAIChat('groq:gpt')"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model": ""}, "model"),
        ({"model": None}, "model"),
        ({"api_key": ""}, "pass api_key"),
        ({"api_key": " "}, "pass api_key"),
        ({"api_key": "sk-secret\n"}, "line end"),
        ({"api_key": "sk-sécret"}, "line end"),
        ({"provider": ""}, "provider"),
        ({"provider": "a:b"}, "provider"),
        ({"base_url": "api.openai.com/v1"}, "base_url"),
        ({"base_url": "https://api.openai.com/v1/chat/completions/"}, "leave it out"),
    ],
)
def test_arguments_that_cannot_be_right_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        OpenAIChat(**{"model": "gpt", "api_key": KEY, **given})
    assert "cret" not in str(caught.value)


# --- What OpenAI's newer models refuse over Chat Completions ------------------------------------

LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {}})
NEWER = ["gpt-5.4", "gpt-5.4-mini", "gpt-5.5", "gpt-5.6", "gpt-6.1-terra"]


def openai_chat(fake: FakeProvider, model: str, **more: Any) -> OpenAIChat:
    profile = lookup("openai-chat", model)
    return OpenAIChat(
        model, api_key=KEY, provider="openai-chat", **{"profile": profile, "http": fake, **more}
    )


@pytest.mark.parametrize("model", NEWER)
@pytest.mark.parametrize("effort", [None, "none", "low", "max"])
async def test_newer_models_get_tools_without_an_effort(model: str, effort: Effort | None) -> None:
    fake = FakeProvider("openai_chat", [say("Hi"), say("Hi")])
    deltas = await answer_deltas(
        openai_chat(fake, model), replace(ASK, tools=(LOOK,), effort=effort)
    )
    assert fake.requests[0].json["reasoning_effort"] == "none"
    notices = [delta.text for delta in deltas if isinstance(delta, Notice)]
    assert len(notices) == (effort != "none")
    assert all(f"use openai:{model}" in notice for notice in notices)
    await answer_deltas(openai_chat(fake, model), replace(ASK, effort=effort))
    assert (fake.requests[1].json.get("reasoning_effort") is None) == (effort is None)


@pytest.mark.parametrize(
    ("model", "effort"), [("gpt-5.4", "low"), ("gpt-5.6", None), ("gpt-6.1-terra", "high")]
)
async def test_the_fake_refuses_what_newer_models_refuse(model: str, effort: Effort | None) -> None:
    fake = FakeProvider("openai_chat", [say("Hi")])
    with pytest.raises(ProviderError, match="Function tools with reasoning_effort"):
        await answer_deltas(
            openai_chat(fake, model, profile=UNKNOWN), replace(ASK, tools=(LOOK,), effort=effort)
        )


@pytest.mark.parametrize("model", ["gpt-5.5-pro", "gpt-6-astra"])
async def test_a_model_that_cannot_but_think_gets_no_tools(model: str) -> None:
    fake = FakeProvider("openai_chat", [say("Hi")])
    with pytest.raises(ConfigError, match=f"use openai:{model}"):
        await answer_deltas(openai_chat(fake, model), replace(ASK, tools=(LOOK,)))
    await answer_deltas(openai_chat(fake, model), replace(ASK, effort="high"))
    assert len(fake.requests) == 1


@pytest.mark.parametrize("model", ["gpt-5.1", "gpt-5.2", "gpt-5.4"])
async def test_a_temperature_is_left_out_beside_an_effort(model: str) -> None:
    settings = Settings(temperature=0.2, top_p=0.9)
    fake = FakeProvider("openai_chat", [say("Hi")] * 4)
    chatting = openai_chat(fake, model)
    for effort in (None, "none", "high"):
        deltas = await answer_deltas(chatting, replace(ASK, effort=effort, settings=settings))
    assert [Notice(text=delta.text) for delta in deltas if isinstance(delta, Notice)] == [
        Notice(
            f"openai-chat:{model} does not take {name} together with an effort: it was left out."
        )
        for name in ("temperature", "top_p")
    ]
    assert ["temperature" in request.json for request in fake.requests] == [True, True, False]
    with pytest.raises(ProviderError, match="'temperature' is not supported"):
        await answer_deltas(
            openai_chat(fake, model, profile=UNKNOWN),
            replace(ASK, effort="high", settings=settings),
        )


# --- Answers ------------------------------------------------------------------------------------


async def test_notices_come_with_the_answer() -> None:
    fake = FakeProvider("openai_chat", [say("Hi")])
    deltas = await answer_deltas(chat(fake), replace(ASK, settings=Settings(top_k=3)))
    assert deltas[0] == Notice("openai:gpt does not take top_k: it was left out.")


async def test_usage_costs_what_the_profile_says() -> None:
    fake = FakeProvider("openai_chat", [[say("Hi"), usage(input=600, output=20, cache_read=400)]])
    model = chat(fake, profile=Profile(price=Price(1.0, 10.0, cache_read=0.1)))
    finished = (await answer_deltas(model))[-1]
    assert isinstance(finished, Finished)
    assert finished.usage == Usage(600, 20, 0, 400, cost=(600 + 200 + 40) / 1_000_000)


async def test_a_reason_before_the_connection_is_lost_is_an_answer() -> None:
    reason = raw('data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n')
    fake = FakeProvider("openai_chat", [[say("Hi"), reason, lost()]])
    assert isinstance((await answer_deltas(chat(fake)))[-1], Finished)


async def test_an_event_that_is_half_there_may_be_tried_again() -> None:
    fake = FakeProvider("openai_chat", [[say("Hi"), garbled(), say("there")]])
    with pytest.raises(ProviderError, match="cannot be read") as caught:
        await answer_deltas(chat(fake))
    assert classify(caught.value).retryable


async def test_a_web_page_is_no_answer() -> None:
    page = respond(200, b"<title>Sign in</title>", {"Content-Type": "text/html"})
    with pytest.raises(ProviderError, match="is base_url right"):
        await answer_deltas(chat(FakeProvider("openai_chat", [page])))


# --- Errors -------------------------------------------------------------------------------------


def refusal(status: int, error: Any) -> ProviderError:
    made = response_error("https://a.test", status, {}, msgspec.json.encode(error), ERROR_CODES)
    assert isinstance(made, ProviderError)
    return made


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (401, {"code": "invalid_api_key", "type": "invalid_request_error"}, "auth"),
        (401, {"code": "invalid_organization"}, "auth"),
        (401, {"type": "invalid_request_error", "code": None}, "auth"),
        (401, {"code": "account_deactivated"}, "permission"),
        (403, {"code": "unsupported_country_region_territory"}, "permission"),
        (404, {"code": "model_not_found", "type": "invalid_request_error"}, "not_found"),
        (404, {"type": "invalid_request_error", "message": "Invalid URL"}, "not_found"),
        (429, {"code": "rate_limit_exceeded", "type": "tokens"}, "rate_limit"),
        (429, {"code": "insufficient_quota", "type": "insufficient_quota"}, "quota"),
        (429, {"code": "credit_balance_exhausted", "type": "insufficient_quota"}, "quota"),
        (429, {"code": "billing_hard_limit_reached"}, "quota"),
        (429, {"code": "billing_not_active"}, "quota"),
        (429, {"code": "slow_down", "type": "rate_limit_error"}, "rate_limit"),
        (500, {"type": "server_error"}, "server"),
        (503, {"code": "server_is_overloaded", "type": "service_unavailable_error"}, "overloaded"),
        (400, {"code": "context_length_exceeded"}, "context_overflow"),
        (400, {"code": "content_policy_violation"}, "content_filter"),
        (400, {"code": "content_filter", "type": None}, "content_filter"),
        (400, {"code": "unsupported_value", "type": "invalid_request_error"}, "invalid_request"),
        (404, {"code": "DeploymentNotFound"}, "not_found"),
        (429, {"code": "429", "message": "have exceeded token rate limit"}, "rate_limit"),
        (401, {"code": "wrong_api_key", "type": "invalid_request_error"}, "auth"),
        (429, {"code": "queue_exceeded", "type": "too_many_requests_error"}, "overloaded"),
        (429, {"code": "token_quota_exceeded", "type": "too_many_tokens_error"}, "rate_limit"),
        (429, {"code": "request_quota_exceeded", "type": "x"}, "rate_limit"),
        (429, {"type": "too_many_requests_error"}, "rate_limit"),
        (400, {"code": "tool_use_failed", "type": "invalid_request_error"}, "empty_response"),
        (400, {"code": "json_validate_failed", "type": "invalid_request_error"}, "empty_response"),
        (400, {"code": "model_decommissioned", "type": "invalid_request_error"}, "not_found"),
        (498, {"code": "capacity_exceeded"}, "overloaded"),
        (413, {"code": "request_too_large", "type": "invalid_request_error"}, "context_overflow"),
        (503, {"code": 503, "type": "unavailable_error", "message": "Loading model"}, "overloaded"),
        (400, {"code": 400, "type": "exceed_context_size_error", "n_ctx": 4}, "context_overflow"),
        (402, {"type": "unknown_error", "code": "invalid_request_error"}, "quota"),
        (401, {"type": "invalid_authentication_error"}, "auth"),
        (401, {"type": "incorrect_api_key_error"}, "auth"),
        (403, {"type": "permission_denied_error"}, "permission"),
        (404, {"type": "resource_not_found_error"}, "not_found"),
        (429, {"type": "exceeded_current_quota_error"}, "quota"),
        (429, {"type": "rate_limit_reached_error"}, "rate_limit"),
        (429, {"type": "engine_overloaded_error"}, "overloaded"),
        (402, {"code": 402, "message": "Insufficient credits"}, "quota"),
        (408, {"code": 408, "message": "Timed out"}, "timeout"),
        (502, {"code": 502, "message": "Provider returned error"}, "server"),
        (404, {"type": "NotFoundError", "code": 404}, "not_found"),
        (
            400,
            {
                "type": "BadRequestError",
                "code": 400,
                "message": "This model's maximum context length is 4096 tokens",
            },
            "context_overflow",
        ),
        (
            400,
            {
                "type": "invalid_request_error",
                "message": "Your request exceeded model token limit: 262144 (requested: 269030)",
            },
            "context_overflow",
        ),
    ],
)  # fmt: skip
def test_a_refusal_is_known_by_what_it_is_called(
    status: int, error: dict[str, Any], kind: FailureKind
) -> None:
    assert refusal(status, {"error": {"message": "No.", **error}}).kind == kind


@pytest.mark.parametrize(
    ("status", "type", "kind"),
    [
        (429, "rate_limited", "rate_limit"),
        (429, "invalid_request_error", "rate_limit"),
        (429, "service_tier_capacity_exceeded", "overloaded"),
        (503, "unreachable_backend", "overloaded"),
        (400, "invalid_model", "not_found"),
        (400, "invalid_request_message_order", "invalid_request"),
    ],
)
def test_mistral_wraps_its_errors_otherwise(status: int, type: str, kind: FailureKind) -> None:
    error = {"object": "error", "message": "No.", "type": type, "param": None, "code": "3230"}
    assert refusal(status, error).kind == kind


async def test_an_overflow_says_how_much_fits() -> None:
    said = "This model's maximum context length is 8192 tokens. However, you asked for 9000."
    fake = FakeProvider("openai_chat", [fail(said, status=400, code="context_length_exceeded")])
    with pytest.raises(ProviderError) as caught:
        await answer_deltas(chat(fake))
    assert (caught.value.kind, caught.value.window) == ("context_overflow", 8192)


async def test_an_error_inside_the_stream_is_known_by_what_it_is_called() -> None:
    fake = FakeProvider("openai_chat", [[say("Half"), fail("Sorry.", status=503)]])
    with pytest.raises(ProviderError, match="Sorry") as caught:
        await answer_deltas(chat(fake))
    assert caught.value.kind == "overloaded"


# --- In a run -----------------------------------------------------------------------------------


@tool(effect="pure")
async def look(what: str = "") -> str:
    """Look at something."""
    return f"saw {what}"


def agent(model: OpenAIChat, **more: Any) -> Agent:
    return Agent(model=model, tools=[look], ports=ports(), **more)


async def test_a_run_with_tools_and_reasoning() -> None:
    fake = FakeProvider(
        "openai_chat",
        [
            [
                think("Let me see."),
                say("Looking. "),
                call_raw("look", '{"what": "a"}', id="c1"),
                call_raw("look", '{"what": "b"}', id="c2"),
            ],
            say("A tree."),
        ],
    )
    result = await agent(chat(fake, "deepseek")).run("What is there?")
    assert result.text == "A tree."
    assert fake.problems == []
    sent = fake.requests[1].json["messages"]
    assert sent[1]["reasoning_content"] == "Let me see."
    assert sent[1]["content"] == "Looking. "
    assert [(message["tool_call_id"], message["content"]) for message in sent[2:]] == [
        ("c1", "saw a"),
        ("c2", "saw b"),
    ]
    assert load(dump(result.history)) == result.history


async def test_a_stream_without_its_end_is_cut_and_tried_again() -> None:
    fake = FakeProvider("openai_chat", [[say("Half an ans"), cut()], say("The answer.")])
    result = await agent(chat(fake)).run("Well?")
    assert result.text == "The answer."
    assert len(fake.requests) == 2


async def test_a_stream_that_is_always_cut_fails_as_that() -> None:
    fake = FakeProvider("openai_chat", default=[opens(), cut()])
    with pytest.raises(RunFailed) as caught:
        await agent(chat(fake), policy=Policy(retry=Retry(attempts=2))).run("Well?")
    assert caught.value.failure.kind == StreamCut.kind


async def test_calls_that_are_spelled_badly_are_run_and_answered() -> None:
    spelled: ScriptedTurn = [
        raw(
            'data: {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": '
            '{"name": "look", "arguments": {"what": "a"}}}]}}]}\n\n'
            'data: {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": '
            '{"name": "look", "arguments": {"what": "b"}}}]}, "finish_reason": "stop"}]}\n\n'
        ),
        cut(),
    ]
    fake = FakeProvider("openai_chat", [spelled, spelled, say("Trees.")])
    result = await agent(chat(fake, "vllm")).run("What is there?")
    assert result.text == "Trees."
    assert fake.problems == []  # every call had an id of its own, and its result
    said = [part.text for message in result.history for part in message.results]
    assert said == ["saw a", "saw b"] * 2


async def test_a_history_goes_from_one_to_the_other_and_back() -> None:
    history: Sequence[Message] = ()
    signed = {"openrouter": {"reasoning_details": [{"type": "reasoning.encrypted", "data": "YQ"}]}}
    for provider in ("openrouter", "mistral", "openrouter"):
        thoughts = Reasoning("Hm.", metadata=signed if provider == "openrouter" else None)
        fake = FakeProvider("openai_chat", [say("Hi")])
        request = Request(messages=(*history, user_message("Well?")))
        await answer_deltas(chat(fake, provider), request)
        answer = Message("assistant", (thoughts, Text("Hi")), "answer", model=f"{provider}:gpt")
        history = load(dump([*request.messages, answer]))
    sent = fake.requests[0].json["messages"]
    assert sent[1]["reasoning_details"] == signed["openrouter"]["reasoning_details"]
    assert sent[3] == {"role": "assistant", "content": "Hi"}


# --- What the loop demands of any model, of whichever endpoint ----------------------------------

LACKS: dict[str, set[conformance.Feature]] = {
    "openrouter": {"provider_tools"},
    "deepseek": {"provider_tools", "signatures"},
    "mistral": {"provider_tools", "signatures", "usage"},
    "moonshot": {"provider_tools", "signatures"},
    "groq": {"provider_tools", "signatures"},
    "vllm": {"provider_tools", "signatures"},
}


@pytest.mark.parametrize(
    ("provider", "case"),
    [
        pytest.param(provider, case, id=f"{provider}-{case}")
        for provider, lacks in LACKS.items()
        for case in conformance.cases(without=lacks)
    ],
)
async def test_the_demands_on_a_model_are_met(provider: str, case: conformance.Case) -> None:
    def make(script: Sequence[ScriptedTurn]) -> conformance.Subject:
        fake = FakeProvider("openai_chat", script)
        return conformance.Subject(
            chat(fake, provider),
            lambda: fake.open,
            lambda: [request.body for request in fake.requests],
        )

    await case.check(make)
