"""The fake of the Anthropic Messages API: the official SDK believes it, and it is as strict."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anthropic
import msgspec
import pytest
from anthropic.types import Message, ServerToolUseBlock, TextBlock, WebSearchToolResultBlock

from holdfast.kernel.messages import File, Reasoning, Text, ToolCall, ToolResult
from holdfast.kernel.model import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Finished,
    Notice,
    PartAdded,
    PartEnded,
)
from holdfast.testing import (
    ScriptedTurn,
    call,
    call_raw,
    fail,
    finish,
    ping,
    say,
    source,
    think,
    usage,
)
from holdfast.testing.fake.anthropic import DIALECT
from holdfast.testing.fake.dialect_interface import ReceivedRequest
from holdfast.testing.fake.provider import FakeProvider

HI: Final[Any] = [{"role": "user", "content": "Hi"}]


# --- The official SDK ---------------------------------------------------------------------------


@asynccontextmanager
async def client_of(fake: FakeProvider) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with fake.serve() as base_url:
        async with anthropic.AsyncAnthropic(
            api_key="k", base_url=base_url, max_retries=0, timeout=None
        ) as client:
            yield client


def sdk_message(*turns: ScriptedTurn, messages: Any = HI) -> Message:
    """What the SDK makes of the last turn. On a real event loop, which its client needs."""

    async def ask() -> Message | anthropic.APIError:
        fake = FakeProvider("anthropic", turns)
        async with client_of(fake) as client:
            for _ in turns:
                try:
                    async with client.messages.stream(
                        model="claude-opus-5", max_tokens=100, messages=messages
                    ) as stream:
                        message = await stream.get_final_message()
                except anthropic.APIError as error:
                    return error
        assert fake.problems == []
        return message

    result = asyncio.run(ask())
    if isinstance(result, anthropic.APIError):
        raise result
    return result


def blocks(message: Message) -> list[dict[str, Any]]:
    dumped: list[dict[str, Any]] = message.to_dict()["content"]  # type: ignore[assignment]
    return dumped


def test_the_sdk_hears_text_and_usage() -> None:
    message = sdk_message(
        [
            say("Hello there.", chunks=4),
            ping(),
            usage(input=10, output=20, cache_read=30, cache_write=40, reasoning=5),
        ]
    )
    assert blocks(message) == [text("Hello there.")]
    assert message.stop_reason == "end_turn"
    assert message.usage.input_tokens == 10
    assert message.usage.output_tokens == 20
    assert message.usage.cache_read_input_tokens == 30
    assert message.usage.cache_creation_input_tokens == 40
    assert message.usage.output_tokens_details is not None
    assert message.usage.output_tokens_details.thinking_tokens == 5


def test_the_sdk_hears_thoughts() -> None:
    hidden = {"type": "redacted_thinking", "data": "abc"}
    message = sdk_message(
        [
            think("Hm, well.", signature="sig", chunks=2),
            PartAdded(Reasoning("", metadata={"anthropic": {"block": hidden}})),
            PartAdded(Reasoning("More.", "sig2")),
            say("Hello."),
        ]
    )
    assert blocks(message) == [
        {"type": "thinking", "thinking": "Hm, well.", "signature": "sig"},
        hidden,
        {"type": "thinking", "thinking": "More.", "signature": "sig2"},
        text("Hello."),
    ]


def test_the_sdk_hears_calls() -> None:
    message = sdk_message([say("Look."), call("weather", city="Oslo", days=[1, 2]), call("clock")])
    asked = {"city": "Oslo", "days": [1, 2]}
    assert blocks(message) == [
        text("Look."),
        {"type": "tool_use", "id": "call_1", "name": "weather", "input": asked},
        {"type": "tool_use", "id": "call_2", "name": "clock", "input": {}},
    ]
    assert message.stop_reason == "tool_use"


def test_the_sdk_hears_what_the_provider_ran() -> None:
    message = sdk_message(
        [
            call_raw("web_search", '{"query":"x"}', id="srv_1", provider_executed=True),
            PartAdded(ToolResult("srv_1", "web_search", (Text("Found."),), provider_executed=True)),
            say("It is so."),
            source("https://a.example", "A"),
        ]
    )
    ran, found, said = message.content
    assert isinstance(ran, ServerToolUseBlock)
    assert ran.input == {"query": "x"}
    assert isinstance(found, WebSearchToolResultBlock)
    assert isinstance(found.content, list)
    assert found.content[0].title == "Found."
    assert isinstance(said, TextBlock)
    assert said.citations is not None
    assert [citation.model_dump()["url"] for citation in said.citations] == ["https://a.example"]


def test_the_sdk_hears_why_it_ended() -> None:
    assert sdk_message([say("a"), finish("length")]).stop_reason == "max_tokens"
    assert sdk_message([say("a"), finish("content_filter")]).stop_reason == "refusal"
    note = {"anthropic": {"stop_reason": "stop_sequence", "stop_sequence": "###"}}
    message = sdk_message([say("a"), Finished("stop", metadata=note)])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "###")


def test_what_the_sdk_heard_it_may_send_back() -> None:
    first = sdk_message([think("Hm.", signature="s"), say("a"), call("clock")])
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": "noon"}
    history = [*HI, first.to_param(), {"role": "user", "content": [result]}]
    assert blocks(sdk_message(say("Noon."), messages=history)) == [text("Noon.")]


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (429, None, anthropic.RateLimitError),
        (529, "overloaded_error", anthropic.APIStatusError),
        (400, None, anthropic.BadRequestError),
        (401, None, anthropic.AuthenticationError),
        (503, None, anthropic.APIStatusError),
    ],
)
def test_the_sdk_hears_refusals(
    status: int, code: str | None, error: type[anthropic.APIStatusError]
) -> None:
    with pytest.raises(error) as caught:
        sdk_message(fail("Not now.", status=status, code=code))
    assert caught.value.status_code == status
    assert caught.value.api_message == "Not now."
    if code is not None:
        assert caught.value.type == code


def test_the_sdk_hears_an_error_inside_the_stream() -> None:
    with pytest.raises(anthropic.APIStatusError) as caught:
        sdk_message([say("Half an"), fail("Overloaded", status=529)])
    assert caught.value.type == "overloaded_error"


def test_the_sdk_is_refused_like_anybody() -> None:
    with pytest.raises(anthropic.BadRequestError, match="non-empty"):
        sdk_message(say("a"), messages=[{"role": "user", "content": ""}])


# --- What is said -------------------------------------------------------------------------------


def events(*deltas: Any) -> list[dict[str, Any]]:
    speaker = DIALECT.encoder(ReceivedRequest("", {}, {}, b'{"model":"m"}'), None)
    lines = [
        line
        for delta in deltas
        for data in speaker.encode_delta(delta)
        for line in data.split(b"\n")
    ]
    return [msgspec.json.decode(line[6:]) for line in lines if line.startswith(b"data: ")]


def test_a_call_that_is_cut_off_is_closed_as_the_real_one_does() -> None:
    data = events(CallStarted("t1", "a"), ArgumentsDelta("t1", '{"x'), Finished("length"))
    assert [one["type"] for one in data][2:] == [
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_text_that_comes_whole_is_a_block_of_its_own() -> None:
    data = events(PartAdded(Text("a")), PartAdded(Text("b")))
    assert [one["index"] for one in data if one["type"] == "content_block_start"] == [0, 1]


def test_a_call_that_comes_whole_may_say_who_made_it() -> None:
    note = {"anthropic": {"type": "server_tool_use", "extra": {"caller": {"type": "direct"}}}}
    started, *_ = events(PartAdded(ToolCall("s1", "web_search", "{}", metadata=note)))
    assert started["content_block"] == {
        "type": "server_tool_use",
        "id": "s1",
        "name": "web_search",
        "input": {},
        "caller": {"type": "direct"},
    }


def test_what_has_no_word_is_not_said() -> None:
    assert events(Notice("x")) == []
    assert events(PartEnded()) == []
    assert events(CallStarted("t1", "a"), CallEnded("t1"))[1]["type"] == "content_block_stop"


@pytest.mark.parametrize("part", [File("image/png", None, b"x"), Reasoning("", metadata={"a": {}})])
def test_what_cannot_be_said_is_a_mistake_in_the_script(part: Any) -> None:
    if isinstance(part, Reasoning):
        assert events(PartAdded(part))[0]["content_block"]["type"] == "thinking"
    else:
        with pytest.raises(TypeError):
            events(PartAdded(part))


# --- What is refused ----------------------------------------------------------------------------

HEADERS: Final = {
    "x-api-key": "k",
    "anthropic-version": "2023-06-01",
    "content-type": "application/json",
}
CALL: Final = {"type": "tool_use", "id": "t1", "name": "a", "input": {}}
RESULT: Final = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
SEARCH: Final = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
FOUND: Final = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
THOUGHT: Final = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
TOOL: Final = {"name": "a", "input_schema": {"type": "object"}}
SEARCHING: Final = {"type": "web_search_20260318", "name": "web_search"}
MARK: Final = {"cache_control": {"type": "ephemeral"}}
PICTURE: Final = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "eA=="},
}


def text(said: str = "Hi", **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **fields}


def talk(*contents: Any) -> list[dict[str, Any]]:
    """Users and the model in turns."""
    roles = ("user", "assistant")
    return [{"role": roles[at % 2], "content": content} for at, content in enumerate(contents)]


def problem_with(
    headers: dict[str, str] | None = None, path: str = "/v1/messages", **fields: Any
) -> str:
    body = {"model": "m", "max_tokens": 2_000, "stream": True, "messages": HI, **fields}
    kept = {name: value for name, value in body.items() if value is not ...}
    received = ReceivedRequest(path, {}, {**HEADERS, **(headers or {})}, msgspec.json.encode(kept))
    problem = DIALECT.problem(received)
    return "" if problem is None else f"{problem.status} {problem.message}"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"system": "Be brief.", "tools": [TOOL], "temperature": 0.5},
        {"system": [text("a", **MARK)], "thinking": {"type": "adaptive", "display": "omitted"}},
        {"thinking": {"type": "enabled", "budget_tokens": 1_024}, "top_p": 0.95},
        {"messages": talk("Hi", [THOUGHT, text(), CALL], [RESULT, text("now")], "Ho", "Hi")},
        {"messages": talk("Hi", [SEARCH, FOUND, text()], "Hi")},
        {"messages": talk("Hi", [text(), SEARCH])},
        {"messages": talk("Hi", [text()]), "tools": [SEARCHING]},
        {"messages": [*talk("Hi", "Ho"), {"role": "system", "content": "Be brief."}, *HI]},
        {"messages": talk([{"type": "image", "source": {"type": "url", "url": "https://a.b"}}])},
        {"messages": talk([text(), PICTURE, text()])},
        {"messages": [*HI, *HI]},
        {"tools": [SEARCHING]},
        {"headers": {"x-api-key": "", "authorization": "Bearer k"}},
        {"headers": {"anthropic-beta": "context-management-2025-06-27"}, "context_management": {}},
        {"headers": {"anthropic-version": "2026-10-21"}},
    ],
)
def test_what_is_right_is_taken(fields: dict[str, Any]) -> None:
    assert problem_with(**fields) == ""


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"path": "/v1/complete"}, "404"),
        ({"headers": {"x-api-key": ""}}, "401 x-api-key"),
        ({"headers": {"anthropic-version": "2024-01-01"}}, "anthropic-version"),
        ({"headers": {"content-type": "text/plain"}}, "content-type"),
        ({"model": ...}, "model: Field required"),
        ({"max_tokens": ...}, "max_tokens: Field required"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"messages": ...}, "messages: Field required"),
        ({"messages": []}, "messages"),
        ({"stream": False}, "stream"),
        ({"presence_penalty": 1}, "presence_penalty: Extra inputs"),
        ({"context_management": {}}, "Extra inputs"),
        ({"thinking": {"type": "hard"}}, "thinking"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1_000}}, "at least 1024"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2_000}}, "max_tokens"),
        ({"thinking": {"type": "adaptive"}, "temperature": 0.5}, "temperature"),
        ({"thinking": {"type": "adaptive"}, "top_k": 5}, "top_k"),
        ({"thinking": {"type": "adaptive"}, "top_p": 0.5}, "top_p"),
        ({"temperature": 0.5, "top_p": 0.5}, "cannot both be specified"),
        ({"headers": {"anthropic-version": "2026-10-21"}, "top_k": 1}, "top_k: Extra inputs"),
        ({"output_config": {"effort": "none"}}, "output_config.effort"),
        ({"output_config": {"verbosity": 1}}, "output_config.verbosity"),
        ({"output_config": {"format": {"type": "json"}}}, "json_schema"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "schema"),
        ({"system": [text(" ")]}, "non-empty"),
        ({"system": [PICTURE]}, "only text"),
        ({"system": 7}, "system"),
        ({"tools": [TOOL, TOOL]}, "must be unique"),
        ({"tools": [{**TOOL, "name": "a b"}]}, "tools.0.name"),
        ({"tools": [{"name": "a"}]}, "input_schema: Field required"),
        ({"tools": [{"name": "a", "input_schema": {"type": "string"}}]}, "input_schema.type"),
        ({"tools": [{"name": "a", "input_schema": {"type": "object", "anyOf": []}}]}, "top level"),
        ({"tools": [{"name": "a", "type": "sql"}]}, "not a tool"),
        (
            {
                "tools": [
                    {
                        "name": "web_search",
                        "type": "web_search_20260318",
                        "allowed_domains": ["a"],
                        "blocked_domains": ["b"],
                    }
                ]
            },
            "use one of",
        ),
        ({"system": [text("a", **MARK)] * 5}, "maximum of 4 blocks"),
        ({"system": [text("a", **MARK)] * 4, **MARK}, "maximum of 4 blocks"),
        ({"messages": talk("Hi", [{**THOUGHT, **MARK}, text()], "Hi")}, "cache_control"),
        ({"system": [text("a", cache_control={"type": "forever"})]}, "cache_control"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "unexpected role"),
        ({"messages": [{"role": "system", "content": "x"}]}, "first message"),
        ({"messages": [*HI, {"role": "system", "content": [PICTURE]}]}, "cannot have 'image'"),
        ({"messages": talk("Hi", "Ho")}, "must end with a user message"),
        ({"messages": talk("Hi", [SEARCH, FOUND])}, "must end with a user message"),
        ({"messages": talk("Hi", "Ho"), "tools": [TOOL]}, "must end with a user message"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "first message"),
        ({"messages": talk([])}, "non-empty content"),
        ({"messages": talk([text("\n")])}, "non-empty"),
        ({"messages": talk("Hi", [THOUGHT], "Hi")}, "The final block"),
        ({"messages": talk("Hi", [{**THOUGHT, "signature": ""}, text()], "Hi")}, "`signature`"),
        ({"messages": talk("Hi", [{"type": "redacted_thinking"}, text()], "Hi")}, "`data`"),
        ({"messages": talk("Hi", [PICTURE], "Hi")}, "cannot have 'image'"),
        ({"messages": talk([CALL])}, "cannot have 'tool_use'"),
        ({"messages": talk("Hi", [{**CALL, "id": "a:b"}], [RESULT])}, "should match"),
        ({"messages": talk("Hi", [{**CALL, "name": "a.b"}], [RESULT])}, "not the name"),
        ({"messages": talk("Hi", [{**CALL, "input": "{}"}], [RESULT])}, "dictionary"),
        ({"messages": talk("Hi", [CALL])}, "without `tool_result`"),
        ({"messages": talk("Hi", [CALL], "Hi")}, "without `tool_result`"),
        ({"messages": talk("Hi", [CALL], [text(), RESULT])}, "without `tool_result`"),
        ({"messages": talk("Hi", [CALL], [RESULT, RESULT])}, "single result"),
        ({"messages": talk("Hi", "Ho", [RESULT])}, "unexpected `tool_use_id`"),
        ({"messages": talk([RESULT])}, "unexpected `tool_use_id`"),
        ({"messages": talk("Hi", [CALL], [RESULT], [CALL], [RESULT])}, "must be unique"),
        ({"messages": talk("Hi", [SEARCH, text()], "Hi")}, "without a corresponding result"),
        ({"messages": talk("Hi", [FOUND, SEARCH, text()], "Hi")}, "without its"),
        (
            {"messages": talk("Hi", [CALL], [{**RESULT, "content": [PICTURE], "is_error": True}])},
            "must be type 'text'",
        ),
        ({"messages": talk("Hi", [CALL], [{**RESULT, "content": [THOUGHT]}])}, "cannot have"),
        ({"messages": talk([{"type": "image", "source": {"type": "blob"}}])}, "source"),
        (
            {"messages": talk([{"type": "image", "source": {"type": "url", "url": "http://a.b"}}])},
            "Only HTTPS",
        ),
        (
            {"messages": talk([{**PICTURE, "source": {**PICTURE["source"], "media_type": "a/b"}}])},  # type: ignore[dict-item]
            "media_type",
        ),
        (
            {
                "thinking": {"type": "enabled", "budget_tokens": 1_024},
                "messages": talk("Hi", [CALL], [RESULT]),
            },
            "Expected `thinking`",
        ),
    ],
)
def test_what_is_wrong_is_refused(fields: dict[str, Any], words: str) -> None:
    assert words in problem_with(**fields)


def closed(properties: dict[str, Any], *, required: bool = False) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(properties)} if required else schema


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "object", "properties": {}}, "additionalProperties"),
        ({"type": "array", "items": {"type": "object"}}, "additionalProperties"),
        ({"type": "integer", "minimum": 1}, "'minimum'"),
        ({"anyOf": [{"type": "string", "pattern": "a"}]}, "'pattern'"),
        ({"type": "null", "enum": ["a", None]}, "does not match declared type"),
        ({"type": "string", "const": True}, "does not match declared type"),
        (closed({f"f{at}": {"type": "string"} for at in range(25)}), "optional parameters"),
        (
            {"anyOf": [closed({f"f{at}": {"type": "string"} for at in range(13)})] * 2},
            "optional parameters",
        ),
        (
            closed({f"f{at}": {"type": ["string", "null"]} for at in range(17)}, required=True),
            "union types",
        ),
        (closed({f"f{at}": {"anyOf": []} for at in range(17)}, required=True), "union types"),
    ],
)
def test_schemas_that_cannot_be_held_are_refused(schema: dict[str, Any], words: str) -> None:
    assert words in problem_with(
        output_config={"format": {"type": "json_schema", "schema": schema}}
    )


def test_schemas_that_can_be_held_are_taken() -> None:
    kinds = {"type": ["string", "null"], "enum": ["a", None]}
    many = {f"f{at}": kinds if at < 16 else {"type": "number", "enum": [1]} for at in range(24)}
    shape = {"type": "json_schema", "schema": closed(many)}
    assert problem_with(output_config={"format": shape}) == ""


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[]"])
def test_a_body_that_is_none_is_refused(body: bytes) -> None:
    assert DIALECT.problem(ReceivedRequest("/v1/messages", {}, HEADERS, body)) is not None


def test_a_refusal_looks_like_the_real_one() -> None:
    problem = DIALECT.problem(ReceivedRequest("/v1/messages", {}, HEADERS, b"{}"))
    assert problem is not None
    assert msgspec.json.decode(DIALECT.refusal(problem)) == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "model: Field required"},
        "request_id": "req_fake",
    }
