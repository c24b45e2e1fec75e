"""Tool choice, parallel calls, seed and stop sequences, as each protocol takes them."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from holdfast.kernel.messages import user_message
from holdfast.kernel.model import ProviderTool, Request, Settings, ToolSpec
from holdfast.providers.anthropic.request import AnthropicTarget
from holdfast.providers.anthropic.request import encode as encode_anthropic
from holdfast.providers.google.request import encode as encode_google
from holdfast.providers.openai_chat.messages import ChatEndpoint
from holdfast.providers.openai_chat.quirks import quirks_of
from holdfast.providers.openai_chat.request import encode as encode_chat
from holdfast.providers.openai_responses.request import encode as encode_responses
from holdfast.providers.profile import UNKNOWN, Profile
from holdfast.testing.fake.anthropic import DIALECT as ANTHROPIC
from holdfast.testing.fake.dialect_interface import ReceivedRequest
from holdfast.testing.fake.google_rules import request_problem as google_problem
from holdfast.testing.fake.openai_chat_rules import request_problem as chat_problem
from holdfast.testing.fake.openai_responses import new_dialect

Json = dict[str, Any]

LOOK: Final = ToolSpec("look", "Look.", {"type": "object", "properties": {}})
ACT: Final = ToolSpec("act", "Act.", {"type": "object", "properties": {}})


def encoded(
    provider: str, request: Request, profile: Profile = UNKNOWN
) -> tuple[Json, tuple[str, ...]]:
    """The body of a request that the provider accepts, and the notices."""
    name = f"{provider}:m"
    match provider:
        case "anthropic":
            data, notices = encode_anthropic(request, AnthropicTarget(provider, "m", profile))
            head = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
            headers = {**head, "content-type": "application/json"}
            problem = ANTHROPIC.problem(ReceivedRequest("/v1/messages", {}, headers, data))
        case "openai":
            parts = encode_responses(request, "m", provider, profile, False)
            data, notices = parts.body(parts.items), parts.notices
            auth = {"Authorization": "Bearer k"}
            problem = new_dialect().problem(ReceivedRequest("/v1/responses", {}, auth, data))
        case "google":
            data, notices = encode_google(request, name, provider, profile)
            path = "/v1beta/models/gemini-3-pro:streamGenerateContent"
            received = ReceivedRequest(path, {"alt": "sse"}, {"x-goog-api-key": "k"}, data)
            problem = google_problem(received)
        case _:
            data, notices = encode_chat(
                request, ChatEndpoint(provider, "m", profile, quirks_of(provider))
            )
            headers = {"Authorization": "Bearer k", "Content-Type": "application/json"}
            problem = chat_problem(ReceivedRequest("/v1/chat/completions", {}, headers, data))
    assert problem is None
    return msgspec.json.decode(data), tuple(notices)


def asked(*tools: ToolSpec, **settings: Any) -> Request:
    return Request(messages=(user_message("Hi"),), tools=tools, settings=Settings(**settings))


def chosen(provider: str, **settings: Any) -> Json:
    """The fields that a request with tools gains by these settings."""
    plain, _ = encoded(provider, asked(LOOK, ACT))
    body, notices = encoded(provider, asked(LOOK, ACT, **settings))
    assert notices == ()
    return {key: value for key, value in body.items() if plain.get(key) != value}


@pytest.mark.parametrize(
    ("choice", "anthropic", "responses", "chat", "google"),
    [
        ("auto", {"type": "auto"}, "auto", "auto", {"mode": "AUTO"}),
        ("none", {"type": "none"}, "none", "none", {"mode": "NONE"}),
        ("required", {"type": "any"}, "required", "required", {"mode": "ANY"}),
        (
            "act",
            {"type": "tool", "name": "act"},
            {"type": "function", "name": "act"},
            {"type": "function", "function": {"name": "act"}},
            {"mode": "ANY", "allowedFunctionNames": ["act"]},
        ),
    ],
)
def test_a_tool_choice_is_written_as_each_protocol_has_it(
    choice: str, anthropic: Json, responses: object, chat: object, google: Json
) -> None:
    assert chosen("anthropic", tool_choice=choice) == {"tool_choice": anthropic}
    assert chosen("openai", tool_choice=choice) == {"tool_choice": responses}
    assert chosen("openai-chat", tool_choice=choice) == {"tool_choice": chat}
    assert chosen("google", tool_choice=choice) == {"toolConfig": {"functionCallingConfig": google}}


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-chat", "google"])
def test_without_tools_no_choice_is_sent(provider: str) -> None:
    body, _ = encoded(provider, asked(tool_choice="none", parallel_tool_calls=True))
    assert not {"tool_choice", "toolConfig", "parallel_tool_calls"} & body.keys()


def test_parallel_calls_can_be_disabled_where_the_protocol_allows_it() -> None:
    both = {"tool_choice": "required", "parallel_tool_calls": False}
    assert chosen("anthropic", parallel_tool_calls=False)["tool_choice"] == {
        "type": "auto",
        "disable_parallel_tool_use": True,
    }
    assert chosen("anthropic", **both)["tool_choice"] == {
        "type": "any",
        "disable_parallel_tool_use": True,
    }
    assert chosen("openai", **both) == both
    assert chosen("openai-chat", **both) == both
    _, notices = encoded("google", asked(LOOK, parallel_tool_calls=False))
    assert notices == ("google:m does not take parallel_tool_calls: it was left out.",)


@pytest.mark.parametrize("effort", ["high", "max"])
def test_claude_does_not_think_while_a_call_is_required(effort: Any) -> None:
    request = Request(
        messages=(user_message("Hi"),),
        tools=(LOOK,),
        settings=Settings(tool_choice="look"),
        effort=effort,
    )
    for profile in (UNKNOWN, Profile(options={"thinking": "budget"})):
        body, notices = encoded("anthropic", request, profile)
        assert "thinking" not in body
        assert notices == (
            "anthropic:m was asked without thinking, because tool_choice requires a call.",
        )


@pytest.mark.parametrize(
    ("provider", "sent", "left_out"),
    [
        ("anthropic", {"stop_sequences": ["END"]}, ["seed"]),
        ("openai", {}, ["seed", "stop"]),
        ("openai-chat", {"seed": 7, "stop": ["END"]}, []),
        ("mistral", {"random_seed": 7, "stop": ["END"]}, []),
        ("deepseek", {"stop": ["END"]}, ["seed"]),
        ("xai", {"seed": 7}, ["stop"]),
        ("google", {"generationConfig": {"seed": 7, "stopSequences": ["END"]}}, []),
    ],
)
def test_seed_and_stop_are_sent_where_they_are_known_and_reported_where_not(
    provider: str, sent: Json, left_out: list[str]
) -> None:
    plain, _ = encoded(provider, asked())
    body, notices = encoded(provider, asked(seed=7, stop=["END"]))
    assert {key: value for key, value in body.items() if plain.get(key) != value} == sent
    assert len(notices) == len(left_out)
    assert all(name in notice for name, notice in zip(left_out, notices, strict=True))


def test_a_model_of_openai_that_refuses_a_temperature_is_not_sent_stop_sequences() -> None:
    body, notices = encoded("openai-chat", asked(stop=["END"]), Profile(sampling=False))
    assert "stop" not in body
    assert notices == ("openai-chat:m does not take stop: it was left out.",)


@pytest.mark.parametrize("provider", ["ollama", "moonshot"])
def test_an_endpoint_that_cannot_require_a_call_is_not_asked_to(provider: str) -> None:
    body, notices = encoded(provider, asked(LOOK, tool_choice="required"))
    assert "tool_choice" not in body
    assert notices == (f"{provider}:m cannot be made to call required: it was left out.",)


def test_a_tool_of_the_provider_can_be_required_where_the_protocol_allows_it() -> None:
    request = Request(
        messages=(user_message("Hi"),),
        tools=(LOOK,),
        provider_tools=(ProviderTool("web_search"),),
        settings=Settings(tool_choice="web_search"),
    )
    assert encoded("openai", request)[0]["tool_choice"] == {"type": "web_search"}
    assert encoded("anthropic", request)[0]["tool_choice"]["name"] == "web_search"
    body, notices = encoded("google", request)
    assert "functionCallingConfig" not in body["toolConfig"]
    assert notices == ("google:m does not take tool_choice web_search: it was left out.",)
