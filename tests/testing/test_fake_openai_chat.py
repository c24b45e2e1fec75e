"""The fake of Chat Completions: the official client hears it, and it objects as the real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import openai
import pytest
from multidict import CIMultiDict
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion

from holdfast.kernel.messages import File, Metadata, Reasoning, Text, ToolCall, Usage
from holdfast.kernel.model import CallEnded, CallStarted, Finished, Opened, PartAdded, PartEnded
from holdfast.testing import (
    call,
    call_raw,
    cut,
    fail,
    finish,
    notice,
    ping,
    say,
    source,
    think,
    usage,
)
from holdfast.testing.fake.dialect_interface import Problem, ReceivedRequest
from holdfast.testing.fake.openai_chat import DIALECT, ChatEncoder
from holdfast.testing.fake.provider import FakeProvider
from holdfast.testing.script import ScriptedTurn

HI: Any = [{"role": "user", "content": "Hi"}]
LOOK: Any = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}
COUNTED: Any = {"include_usage": True}

# --- The official client ------------------------------------------------------------------------


@asynccontextmanager
async def client_of(fake: FakeProvider) -> AsyncIterator[openai.AsyncOpenAI]:
    async with fake.serve() as base_url:
        async with openai.AsyncOpenAI(
            api_key="k", base_url=f"{base_url}/v1", max_retries=0, timeout=None
        ) as client:
            yield client


def asked_by_client(
    turn: ScriptedTurn, messages: Any, fields: dict[str, Any]
) -> ChatCompletion | openai.APIError:
    """What the client makes of an answer. On a real event loop, which its client needs."""

    async def ask() -> ChatCompletion | openai.APIError:
        state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
        async with client_of(FakeProvider("openai_chat", [turn])) as client:
            try:
                stream = await client.chat.completions.create(
                    model="gpt", messages=messages, stream=True, **fields
                )
                async for chunk in stream:
                    state.handle_chunk(chunk)
            except openai.APIError as error:
                return error
        return state.get_final_completion()

    return asyncio.run(ask())


def sdk_completion(turn: ScriptedTurn, messages: Any = HI, **fields: Any) -> ChatCompletion:
    body = asked_by_client(turn, messages, fields)
    assert isinstance(body, ChatCompletion)
    return body


def failed(turn: ScriptedTurn, messages: Any = HI) -> openai.APIError:
    body = asked_by_client(turn, messages, {})
    assert isinstance(body, openai.APIError)
    return body


def test_the_client_hears_text_and_usage() -> None:
    deltas = sdk_completion(
        [
            say("Grüße aus 東京.", chunks=4),
            ping(),
            usage(input=70, output=9, reasoning=4, cache_read=30, cache_write=10),
        ],
        stream_options=COUNTED,
    )
    (choice,) = deltas.choices
    assert (choice.message.content, choice.finish_reason) == ("Grüße aus 東京.", "stop")
    assert deltas.model == "gpt"
    assert deltas.usage is not None
    assert (deltas.usage.prompt_tokens, deltas.usage.completion_tokens) == (110, 9)
    assert deltas.usage.total_tokens == 119
    assert deltas.usage.prompt_tokens_details is not None
    assert deltas.usage.prompt_tokens_details.cached_tokens == 30
    assert deltas.usage.prompt_tokens_details.cache_write_tokens == 10
    assert deltas.usage.completion_tokens_details is not None
    assert deltas.usage.completion_tokens_details.reasoning_tokens == 4


def test_usage_comes_only_when_it_is_asked_for() -> None:
    assert sdk_completion([say("Hi"), usage(input=7, output=1)]).usage is None


def test_the_client_hears_thoughts_beside_the_text() -> None:
    (choice,) = sdk_completion([think("Hm. ", chunks=2), say("Yes.")]).choices
    extra = choice.message.model_extra or {}
    assert (choice.message.content, extra["reasoning_content"]) == ("Yes.", "Hm. ")


def test_the_client_hears_calls() -> None:
    (choice,) = sdk_completion(
        [
            say("Let me look. "),
            call("look", what="a"),
            call_raw("look", '{"what": "never clo', id="call_b", chunks=3),
        ],
        tools=[LOOK],
    ).choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Let me look. "
    made = [call.to_dict() for call in choice.message.tool_calls or ()]
    assert [(call["id"], call["type"], call["index"]) for call in made] == [
        ("call_1", "function", 0),
        ("call_b", "function", 1),
    ]
    functions: list[Any] = [call["function"] for call in made]
    assert [(function["name"], function["arguments"]) for function in functions] == [
        ("look", '{"what":"a"}'),
        ("look", '{"what": "never clo'),
    ]


def test_the_client_hears_sources() -> None:
    (choice,) = sdk_completion([say("Sunny."), source("https://met.test", "Met")]).choices
    extra = choice.message.model_extra or {}
    notes = choice.message.annotations or extra.get("annotations")
    assert "https://met.test" in str(notes)


def test_the_client_hears_why_it_ended() -> None:
    with pytest.raises(openai.LengthFinishReasonError):
        sdk_completion([say("So f"), finish("length")])
    with pytest.raises(openai.ContentFilterFinishReasonError):
        sdk_completion([say("So f"), finish("content_filter")])


def test_what_the_client_heard_it_may_send_back() -> None:
    (choice,) = sdk_completion([call("look", what="a")], tools=[LOOK]).choices
    answer = choice.message.to_dict()
    assert choice.message.tool_calls is not None
    (made,) = choice.message.tool_calls
    answer.pop("parsed", None)
    history = [*HI, answer, {"role": "tool", "tool_call_id": made.id, "content": "a tree"}]
    (choice,) = sdk_completion(say("A tree."), messages=history, tools=[LOOK]).choices
    assert choice.message.content == "A tree."


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (503, openai.InternalServerError),
    ],
)
def test_the_client_hears_refusals(status: int, kind: type[openai.APIError]) -> None:
    error = failed(fail("Not so.", status=status))
    assert type(error) is kind
    assert "Not so." in str(error)


def test_the_client_hears_the_word_for_an_error() -> None:
    error = failed(fail("Pay.", status=429, code="insufficient_quota"))
    assert (error.code, error.type) == ("insufficient_quota", "insufficient_quota")


def test_the_client_hears_an_error_inside_the_stream() -> None:
    assert "Sorry." in str(failed([say("Half"), fail("Sorry.", status=500)]))


def test_the_client_is_refused_like_anybody() -> None:
    error = failed(say("Hi"), messages=[{"role": "tool", "tool_call_id": "x", "content": ""}])
    assert isinstance(error, openai.BadRequestError)
    assert "must be a response to a preceding message" in str(error)


def test_a_stream_that_is_cut_has_no_end() -> None:
    assert (
        sdk_completion([say("Half"), cut()]).choices[0].finish_reason is None
    )  # the client does not mind


# --- What it says -------------------------------------------------------------------------------


def received(
    body: Any, path: str = "/v1/chat/completions", **headers: str | None
) -> ReceivedRequest:
    """A request. A header that is None is left out."""
    given = {"Authorization": "Bearer k", "Content-Type": "application/json", **headers}
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    sent = {name: value for name, value in given.items() if value is not None}
    return ReceivedRequest(path, {}, CIMultiDict(sent), data)


def spoken(*deltas: Any, options: Any = None) -> list[Any]:
    speaker = ChatEncoder(received({"model": "gpt", "stream_options": options}), None)
    events = [event for delta in deltas for event in speaker.encode_delta(delta)]
    return [
        msgspec.json.decode(event.removeprefix(b"data: "))
        for event in events
        if event.startswith(b"data: {")
    ]


def deltas_of(*deltas: Any) -> list[Any]:
    return [event["choices"][0]["delta"] for event in spoken(*deltas)]


def test_a_call_under_an_id_that_is_there_twice_has_its_own_index() -> None:
    deltas = deltas_of(CallStarted("c", "a"), CallEnded("c"), CallStarted("c", "b"))
    assert [delta["tool_calls"][0]["index"] for delta in deltas] == [0, 1]


def test_what_must_be_replayed_is_said_as_others_say_it() -> None:
    kept: Metadata = {"openrouter": {"reasoning_details": [{"type": "reasoning.encrypted"}]}}
    assert deltas_of(PartEnded("c2ln"), PartEnded(metadata=kept), PartEnded()) == [
        {
            "reasoning_details": [
                {"type": "reasoning.text", "text": "", "signature": "c2ln", "index": 0}
            ]
        },
        {"reasoning_details": [{"type": "reasoning.encrypted"}]},
    ]
    extra: Metadata = {"x": {"extra_content": {"google": {}}}}
    deltas = deltas_of(CallStarted("c", "a"), CallEnded("c", extra))
    assert deltas[1] == {"tool_calls": [{"index": 0, "extra_content": {"google": {}}}]}


def test_parts_that_come_whole() -> None:
    deltas = deltas_of(
        PartAdded(Text("Hi")), PartAdded(Reasoning("Hm")), PartAdded(File("image/png", data=b"x"))
    )
    assert deltas == [
        {"content": "Hi"},
        {"reasoning_content": "Hm"},
        {"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}}]},
    ]


def test_what_has_no_word_is_not_said() -> None:
    assert deltas_of(notice("x"), Opened("x:y"), PartEnded()) == []


@pytest.mark.parametrize(
    "delta",
    [
        CallStarted("c", "web_search", provider_executed=True),
        PartAdded(ToolCall("c", "look", "{}")),
        PartAdded(File("image/png", ref="store:1")),
    ],
)
def test_what_cannot_be_said_is_a_mistake_in_the_script(delta: Any) -> None:
    with pytest.raises(TypeError):
        spoken(delta)


def test_a_cost_is_reported_where_the_script_has_one() -> None:
    finished = Finished("stop", Usage(3, 2, cost=0.5))
    assert spoken(finished, options=COUNTED)[-1]["usage"]["cost"] == 0.5


def test_an_interrupted_answer_ended_with_an_error() -> None:
    (said,) = spoken(Finished("interrupted"))
    assert said["choices"][0]["finish_reason"] == "error"


def test_a_body_that_is_none_is_answered_where_nobody_checks() -> None:
    assert [*ChatEncoder(received(b"?"), None).opening()]


# --- What it objects to -------------------------------------------------------------------------


def problem_with(fields: dict[str, Any]) -> Problem | None:
    return DIALECT.problem(received({"model": "gpt", "stream": True, "messages": HI, **fields}))


def calls(*ids: str, **more: Any) -> dict[str, Any]:
    made = [
        {"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}, **more}
        for id in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(id: str, content: Any = "a tree") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def talk(*messages: Any) -> dict[str, Any]:
    return {"messages": [*HI, *messages]}


def form(schema: Any, **more: Any) -> dict[str, Any]:
    made = {"name": "answer", "schema": schema, **more}
    return {"response_format": {"type": "json_schema", "json_schema": made}}


CLOSED: Any = {
    "type": "object",
    "properties": {"a": {"type": "array", "items": {"enum": [{"type": "object"}]}}},
    "required": ["a"],
    "additionalProperties": False,
}


def shown(url: str) -> dict[str, Any]:
    image = {"type": "image_url", "image_url": {"url": url}}
    return talk({"role": "user", "content": [image]})


IMAGE: Any = {"type": "image_url", "image_url": {"url": "https://a.test/a.png"}}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 2, "top_p": 0, "presence_penalty": -2, "max_tokens": 1, "top_k": 3},
        {"stream_options": COUNTED, "reasoning_effort": "xhigh", "prompt_cache_key": "k" * 64},
        {"tools": [LOOK, {"type": "openrouter:web_search"}]},
        {"response_format": {"type": "text"}},
        form(CLOSED, strict=True),
        form({"type": "object"}, strict=False),
        {
            "response_format": {"type": "json_object"},
            "messages": [{"role": "system", "content": "Answer in JSON."}],
        },
        talk({"role": "user", "content": [{"type": "text", "text": "Look:"}, IMAGE]}),
        shown("data:image/jpeg;base64,eA=="),
        {"model": "gpt-5.3", "reasoning_effort": "high", "tools": [LOOK]},
        {"model": "gpt-5.4", "tools": [LOOK]},
        {"model": "gpt-5.6", "reasoning_effort": "none", "tools": [LOOK]},
        {"model": "gpt-5.6", "reasoning_effort": "high"},
        {"model": "gpt-5.2", "reasoning_effort": "none", "temperature": 1, "top_p": 1},
        {"model": "gpt-5.2", "temperature": 1},
        talk({"role": "developer", "content": "Be terse."}, {"role": "system", "content": "x"}),
        talk(calls("a", "b"), result("b"), result("a", [{"type": "text", "text": "x"}])),
        talk(calls("a"), result("a"), calls("a"), result("a")),
        talk({"role": "assistant", "content": [{"type": "thinking", "thinking": []}]}),
        talk({"role": "assistant", "content": "Hm.", "reasoning_content": "x"}),
    ],
)
def test_what_is_right_is_taken(fields: dict[str, Any]) -> None:
    assert problem_with(fields) is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": ""}, "model"),
        ({"stream": False}, "stream"),
        ({"max_output_tokens": 3}, "Unrecognized request argument supplied: max_output_tokens"),
        ({"stream_options": {"usage": True}}, "stream_options"),
        ({"n": 2}, "'n'"),
        ({"temperature": 2.1}, "temperature"),
        ({"top_p": "high"}, "top_p"),
        ({"max_tokens": 3, "max_completion_tokens": 3}, "not supported"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"reasoning_effort": "extreme"}, "reasoning_effort"),
        ({"reasoning_effort": None}, "reasoning_effort"),
        ({"model": "gpt-5.4", "reasoning_effort": "low", "tools": [LOOK]}, "Function tools"),
        ({"model": "gpt-5.6-terra", "tools": [LOOK]}, "Function tools"),
        ({"model": "gpt-5.1", "reasoning_effort": "low", "temperature": 1}, "'temperature'"),
        ({"model": "gpt-5.4", "reasoning_effort": "low", "top_p": 1}, "'top_p'"),
        ({"prompt_cache_key": "k" * 65}, "string too long"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        (talk("Hi"), "role"),
        (talk({"role": "robot", "content": "x"}), "role"),
        (talk({"role": "user"}), "content"),
        (talk({"role": "user", "content": []}), "content"),
        (talk({"role": "user", "content": [{"type": "thinking", "thinking": []}]}), "type"),
        (talk({"role": "user", "content": [{"type": "text"}]}), "text"),
        (talk({"role": "user", "content": ["x"]}), "type"),
        (talk({"role": "system", "content": [IMAGE]}), "type"),
        (shown("x"), "image_url"),
        (shown("data:image/png;base64,"), "image_url"),
        (shown("data:image/jpg;base64,eA=="), "image_url"),
        (shown("data:IMAGE/PNG;base64,eA=="), "image_url"),
        (talk({"role": "assistant", "content": None}), "null"),
        (talk({"role": "assistant", "content": "x", "tool_calls": []}), "empty array"),
        (talk(result("a")), "preceding message"),
        (talk(calls("a")), "did not have response messages: a"),
        (talk(calls("a"), {"role": "user", "content": "x"}), "must be followed by tool messages"),
        (talk(calls("a", "b"), result("a"), {"role": "user", "content": "x"}), "messages: b"),
        (talk(calls("a"), result("b")), "preceding message"),
        (talk(calls("a"), result("a"), result("a")), "preceding message"),
        (talk(calls("a"), result("a", [IMAGE])), "type"),
        (talk(calls("a", "a"), result("a")), "Duplicate"),
        (talk(calls("x" * 41), result("x" * 41)), "maximum length 40"),
        (talk(calls(""), result("")), "id"),
        (talk(calls("a", type="custom"), result("a")), "type"),
        (talk(calls("a", function={"name": "look", "arguments": {}}), result("a")), "arguments"),
        (talk(calls("a", function={"name": "", "arguments": ""}), result("a")), "pattern"),
        ({"tools": []}, "tools"),
        ({"tools": [LOOK] * 129}, "128"),
        ({"tools": [LOOK, LOOK]}, "twice"),
        ({"tools": ["look"]}, "type"),
        ({"tools": [{"type": "function"}]}, "function"),
        ({"tools": [{"type": "function", "function": {"name": "my tool"}}]}, "pattern"),
        (
            {"tools": [{"type": "function", "function": {"name": "a", "parameters": {}}}]},
            "JSON Schema",
        ),
        ({"response_format": {"type": "yaml"}}, "response_format"),
        ({"response_format": {"type": "json_object"}}, "the word 'json'"),
        (form({"type": "array"}), "object"),
        (form(CLOSED, name="my answer"), "name"),
        (form({"type": "object"}, strict=True), "additionalProperties"),
        (form({**CLOSED, "required": []}, strict=True), "required"),
        (form({**CLOSED, "anyOf": [CLOSED]}, strict=True), "at the root"),
        (
            form({**CLOSED, "properties": {"a": {"anyOf": [{"type": "object"}]}}}, strict=True),
            "additionalProperties",
        ),
    ],
)
def test_what_is_wrong_is_refused(fields: dict[str, Any], words: str) -> None:
    problem = problem_with(fields)
    assert problem is not None
    assert problem.status == 400
    assert words in problem.message


def head_problem(
    body: Any = None, path: str = "/v1/chat/completions", **headers: str | None
) -> Problem:
    body = {"model": "gpt", "stream": True, "messages": HI} if body is None else body
    problem = DIALECT.problem(received(body, path, **headers))
    assert problem is not None
    return problem


def test_the_head_of_a_request_is_looked_at() -> None:
    for half in ("", "k", "Bearer", "Bearer ", "Bearerk", "Basic k"):
        assert (head_problem(Authorization=half).status, head_problem(Authorization=half).code) == (
            401,
            "invalid_api_key",
        )
    assert head_problem(Authorization=None, **{"api-key": ""}).status == 401
    assert head_problem(path="/v1/completions").status == 404
    assert head_problem(**{"Content-Type": "text/plain"}).status == 400


@pytest.mark.parametrize("headers", [{}, {"api-key": "k"}, {"authorization": "Bearer k"}])
def test_a_key_may_be_in_another_header_or_in_none(headers: dict[str, str]) -> None:
    body = {"model": "m", "stream": True, "messages": HI}
    assert DIALECT.problem(received(body, Authorization=None, **headers)) is None


@pytest.mark.parametrize("body", [b"{", b"[]", b"7"])
def test_a_body_that_is_none_is_refused(body: bytes) -> None:
    assert head_problem(body).status == 400


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (
            Problem("No.", 429),
            {"type": "invalid_request_error", "code": "rate_limit_exceeded"},
        ),
        (Problem("No.", 500), {"type": "server_error", "code": None}),
        (Problem("No.", 400, "own_word"), {"type": "invalid_request_error", "code": "own_word"}),
    ],
)
def test_a_refusal_looks_like_the_real_one(problem: Problem, error: dict[str, Any]) -> None:
    deltas = msgspec.json.decode(DIALECT.refusal(problem))
    assert deltas == {"error": {"message": "No.", "param": None, **error}}
