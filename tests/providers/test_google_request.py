from __future__ import annotations

import warnings
from typing import Any

import msgspec
import pytest

from holdfast.kernel.messages import Message, Text
from holdfast.kernel.model import Block, Effort, ProviderTool, Request, Settings, Shape, ToolSpec
from holdfast.providers.google.request import encode
from holdfast.providers.profile import UNKNOWN, Profile

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its source warns when it is compiled
    from google.genai import types

Json = dict[str, Any]

ASKED = Message("user", (Text("Hi"),), "prompt")
SCHEMA: Json = {
    "type": "object",
    "properties": {"city": {"type": ["string", "null"]}},
    "additionalProperties": False,
}
WEATHER = ToolSpec("weather", "Today's weather.", SCHEMA)
SEARCH = ProviderTool("web_search")
CITY = Shape({"type": "object", "properties": {"kind": {"const": "city"}}}, description="a city")


def request(**fields: Any) -> Request:
    return Request(messages=(ASKED,), **fields)


def encoded(asked: Request, profile: Profile = UNKNOWN) -> tuple[Json, list[str]]:
    body, notices = encode(asked, "google:gemini", "google", profile)
    return msgspec.json.decode(body), list(notices)


def body(profile: Profile = UNKNOWN, **fields: Any) -> Json:
    """The body of a request of which there is nothing to tell, without its messages."""
    body, notices = encoded(request(**fields), profile)
    assert notices == []
    assert body.pop("contents") == [{"role": "user", "parts": [{"text": "Hi"}]}]
    return body


def options(**fields: Any) -> Profile:
    return Profile(options=fields)


def test_a_plain_request_has_nothing_but_its_messages() -> None:
    assert body() == {}


def test_the_system_prefix_comes_block_by_block() -> None:
    blocks = (Block("Be brief.", cache=True), Block(""), Block("Be kind."))
    assert body(system=blocks) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}, {"text": "Be kind."}]}
    }


# --- Tools --------------------------------------------------------------------------------------


def test_tools_are_functions_with_their_whole_schema() -> None:
    declared = {
        "name": "weather",
        "description": "Today's weather.",
        "parametersJsonSchema": SCHEMA,
    }
    assert body(tools=(WEATHER,)) == {"tools": [{"functionDeclarations": [declared]}]}


def test_a_tool_may_be_declared_as_the_provider_does() -> None:
    function = ToolSpec("f", "", SCHEMA, native={"google": {"name": "f", "parameters": {}}})
    computer = ToolSpec("c", "", SCHEMA, native={"google": {"computerUse": {"environment": "E"}}})
    elsewhere = ToolSpec("e", "", SCHEMA, native={"openai": {"type": "shell"}})
    assert body(tools=(function, computer, elsewhere))["tools"] == [
        {
            "functionDeclarations": [
                {"name": "f", "parameters": {}},
                {"name": "e", "description": "", "parametersJsonSchema": SCHEMA},
            ]
        },
        {"computerUse": {"environment": "E"}},
    ]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("web_search", "googleSearch"),
        ("web_fetch", "urlContext"),
        ("code_execution", "codeExecution"),
    ],
)
def test_tools_of_the_api_are_declared_by_its_own_names(name: str, word: str) -> None:
    assert body(provider_tools=(ProviderTool(name),)) == {"tools": [{word: {}}]}


def test_a_tool_of_the_api_may_be_declared_as_it_wants_it() -> None:
    native = {"google": {"googleMaps": {"enableWidget": True}}}
    assert body(provider_tools=(ProviderTool("maps", native=native),)) == {
        "tools": [{"googleMaps": {"enableWidget": True}}]
    }


def test_options_and_tools_that_the_api_does_not_have_are_left_out_and_told() -> None:
    asked = request(
        provider_tools=(
            ProviderTool("web_search", {"max_uses": 3, "allowed_domains": ["a.test"]}),
            ProviderTool("image_generation"),
        )
    )
    body, notices = encoded(asked)
    assert body["tools"] == [{"googleSearch": {}}]
    assert notices == [
        "google:gemini does not take max_uses of web_search: it was left out.",
        "google:gemini does not take allowed_domains of web_search: it was left out.",
        "google:gemini does not take the tool image_generation: it was left out.",
    ]


def test_tools_of_the_api_beside_functions_are_allowed_for() -> None:
    encoded = body(tools=(WEATHER,), provider_tools=(SEARCH,))
    assert [list(tool) for tool in encoded["tools"]] == [["functionDeclarations"], ["googleSearch"]]
    assert encoded["toolConfig"] == {"includeServerSideToolInvocations": True}


def test_a_model_that_does_not_mix_tools_is_given_the_functions() -> None:
    older = options(mix_tools=False)
    made, notices = encoded(request(tools=(WEATHER,), provider_tools=(SEARCH,)), older)
    assert [list(tool) for tool in made["tools"]] == [["functionDeclarations"]]
    assert "toolConfig" not in made
    assert notices == [
        "google:gemini does not take web_search together with other tools: it was left out."
    ]
    assert body(older, provider_tools=(SEARCH,)) == {"tools": [{"googleSearch": {}}]}


# --- Thinking -----------------------------------------------------------------------------------


def thinking(effort: Effort | None, profile: Profile) -> Json | None:
    thought: Json | None = (
        body(profile, effort=effort).get("generationConfig", {}).get("thinkingConfig")
    )
    return thought


@pytest.mark.parametrize(
    ("effort", "level"),
    [
        ("minimal", "minimal"),
        ("low", "low"),
        ("medium", "medium"),
        ("high", "high"),
        ("xhigh", "high"),
        ("max", "high"),
    ],
)
def test_effort_is_a_level(effort: Effort, level: str) -> None:
    assert thinking(effort, UNKNOWN) == {"thinkingLevel": level, "includeThoughts": True}


def test_no_effort_is_the_least_level() -> None:
    assert thinking("none", UNKNOWN) == {"thinkingLevel": "minimal"}


@pytest.mark.parametrize(
    ("effort", "level"), [("none", "low"), ("minimal", "low"), ("medium", "low"), ("max", "high")]
)
def test_a_level_is_one_that_the_model_has(effort: Effort, level: str) -> None:
    profile = Profile(efforts=("low", "high"))
    assert thinking(effort, profile) == {"thinkingLevel": level, "includeThoughts": True}


@pytest.mark.parametrize(
    ("effort", "budget"),
    [
        ("minimal", 1_024),
        ("low", 1_024),
        ("medium", 8_192),
        ("high", 24_576),
        ("xhigh", 24_576),
        ("max", 24_576),
    ],
)
def test_effort_is_a_budget_for_older_models(effort: Effort, budget: int) -> None:
    said = thinking(effort, options(thinking="budget"))
    assert said == {"thinkingBudget": budget, "includeThoughts": True}


def test_no_effort_turns_thinking_off_or_down_to_what_the_model_needs() -> None:
    assert thinking("none", options(thinking="budget")) == {"thinkingBudget": 0}
    pro = Profile(efforts=("minimal", "low"), options={"thinking": "budget", "min_budget": 128})
    assert thinking("none", pro) == {"thinkingBudget": 128}


def test_a_model_that_is_not_told_how_hard_to_think_shows_its_thoughts_if_it_has_any() -> None:
    assert thinking(None, UNKNOWN) is None
    assert thinking(None, Profile(efforts=("low", "high"))) == {"includeThoughts": True}
    assert thinking(None, Profile(efforts=())) is None
    assert thinking("high", Profile(efforts=())) is None


def test_a_model_that_thinks_only_when_told_to_is_not_asked_for_thoughts() -> None:
    """Where thinking is off, the API refuses to be asked for them."""
    quiet = Profile(efforts=("none", "low"), options={"thinking": "budget", "thinks": False})
    assert thinking(None, quiet) is None
    assert thinking("none", quiet) == {"thinkingBudget": 0}
    assert thinking("low", quiet) == {"thinkingBudget": 1_024, "includeThoughts": True}


# --- Settings -----------------------------------------------------------------------------------

SETTINGS = Settings(
    temperature=0.5,
    top_p=0.9,
    top_k=40,
    presence_penalty=0.1,
    frequency_penalty=0.2,
    max_output_tokens=100,
)


def test_settings_have_their_own_names() -> None:
    assert body(settings=SETTINGS) == {
        "generationConfig": {
            "temperature": 0.5,
            "topP": 0.9,
            "topK": 40,
            "presencePenalty": 0.1,
            "frequencyPenalty": 0.2,
            "maxOutputTokens": 100,
        }
    }


def test_sampling_is_left_out_and_told_where_the_model_does_not_take_it() -> None:
    body, notices = encoded(request(settings=SETTINGS), Profile(sampling=False))
    assert body["generationConfig"] == {"maxOutputTokens": 100}
    assert [notice.split(" ")[4] for notice in notices] == [
        "temperature:",
        "top_p:",
        "top_k:",
        "presence_penalty:",
        "frequency_penalty:",
    ]


def test_a_users_own_options_are_put_over_the_body() -> None:
    given: dict[str, Json] = {
        "google": {
            "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
            "generationConfig": {"seed": 7, "thinkingConfig": {"thinkingLevel": "high"}},
        },
        "openai": {"seed": 8},
    }
    assert body(effort="low", settings=Settings(top_k=1, options=given)) == {
        "generationConfig": {
            "topK": 1,
            "thinkingConfig": {"thinkingLevel": "high", "includeThoughts": True},
            "seed": 7,
        },
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
    }
    assert given["google"]["generationConfig"] == {
        "seed": 7,
        "thinkingConfig": {"thinkingLevel": "high"},
    }


# --- The form of the answer ---------------------------------------------------------------------


def test_an_answer_is_held_to_its_schema() -> None:
    assert body(output=CITY) == {
        "generationConfig": {
            "responseMimeType": "application/json",
            "responseJsonSchema": {
                "type": "object",
                "properties": {"kind": {"enum": ["city"], "type": "string"}},
            },
        }
    }


@pytest.mark.parametrize(
    ("profile", "fields"),
    [
        (Profile(structured=False), {}),
        (options(mix_output=False), {"tools": (WEATHER,)}),
        (options(mix_output=False), {"provider_tools": (SEARCH,)}),
    ],
)
def test_a_model_that_cannot_be_held_to_a_schema_is_asked(profile: Profile, fields: Json) -> None:
    encoded = body(profile, output=CITY, system=(Block("Be brief."),), **fields)
    first, asked = encoded["systemInstruction"]["parts"]
    assert first == {"text": "Be brief."}
    assert "a city" in asked["text"]
    assert '{"type":"object","properties":{"kind":{"const":"city"}}}' in asked["text"]
    assert "generationConfig" not in encoded


@pytest.mark.parametrize("fields", [{}, {"tools": (WEATHER,)}])
def test_a_schema_beside_tools_is_native_unless_the_model_says_no(fields: Json) -> None:
    profile = UNKNOWN if fields else options(mix_output=False)
    assert "responseJsonSchema" in body(profile, output=CITY, **fields)["generationConfig"]


# --- The whole ----------------------------------------------------------------------------------


def everything() -> Request:
    return request(
        system=(Block("Be brief."),),
        tools=(WEATHER,),
        provider_tools=(SEARCH,),
        output=CITY,
        settings=SETTINGS,
        effort="low",
        cache_key="k",
    )


def test_what_is_sent_is_what_the_official_types_know() -> None:
    body, notices = encoded(everything())
    assert notices == []
    types.GenerateContentConfig.model_validate(
        {
            **body["generationConfig"],
            "tools": body["tools"],
            "toolConfig": body["toolConfig"],
            "systemInstruction": body["systemInstruction"],
        }
    )
    for content in body["contents"]:
        types.Content.model_validate(content)


def test_the_same_request_gives_the_same_bytes_and_the_messages_stand_last() -> None:
    first, _ = encode(everything(), "google:gemini", "google", UNKNOWN)
    again, _ = encode(everything(), "google:gemini", "google", UNKNOWN)
    assert first == again
    assert list(msgspec.json.decode(first))[-1] == "contents"
