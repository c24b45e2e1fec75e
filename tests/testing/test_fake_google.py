"""The fake Gemini API: the official client can use it, and it objects to what the real one does."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import msgspec
import pytest

from holdfast.kernel.messages import Reasoning, Text, ToolCall, ToolResult
from holdfast.kernel.model import CallEnded, CallStarted, PartAdded
from holdfast.testing import call, call_raw, fail, file, finish, say, source, think, usage
from holdfast.testing.fake.dialect_interface import Problem, ReceivedRequest
from holdfast.testing.fake.google import DIALECT, FAKE_SIGNATURE
from holdfast.testing.fake.provider import FakeProvider
from holdfast.testing.script import ScriptedTurn, ScriptItem, ScriptPlayer

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its source warns when it is compiled
    from google import genai
    from google.genai import errors, types

Json = dict[str, Any]

PATH = "/v1beta/models/{}:streamGenerateContent"
KEY = {"x-goog-api-key": "k"}
SSE = {"alt": "sse"}


# --- The official client ------------------------------------------------------------------------


def streamed(*script: ScriptedTurn, **config: Any) -> list[types.GenerateContentResponse]:
    """What the official client makes of an answer. It needs real time."""

    async def ask(base_url: str) -> list[types.GenerateContentResponse]:
        options = types.HttpOptions(base_url=base_url, api_version="v1beta")
        client = genai.Client(api_key="k", http_options=options)
        try:
            stream = await client.aio.models.generate_content_stream(
                model="gemini-3-flash",
                contents="Hi",
                config=types.GenerateContentConfig(**config),
            )
            return [chunk async for chunk in stream]
        finally:
            await client.aio.aclose()
            client.close()

    async def served() -> list[types.GenerateContentResponse] | errors.APIError:
        async with FakeProvider("google", script).serve() as base_url:
            try:
                return await ask(base_url)
            except errors.APIError as error:
                return error  # raised outside, where no task group wraps it

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Inheritance class", DeprecationWarning)  # of aiohttp's
        answer = asyncio.run(served())
    if isinstance(answer, errors.APIError):
        raise answer
    return answer


def parts(chunks: list[types.GenerateContentResponse]) -> list[types.Part]:
    found: list[types.Part] = []
    for chunk in chunks:
        for candidate in chunk.candidates or ():
            if candidate.content is not None:
                found += candidate.content.parts or ()
    return found


def test_the_official_client_reads_an_answer_as_the_script_says_it() -> None:
    chunks = streamed(
        [
            think("Let me think.", signature="QUJD", chunks=2),
            say("It is sunny.", chunks=3),
            call("weather", city="Oslo"),
            file("image/png", b"hi"),
            source("https://a.test", "A"),
            usage(input=5, output=7, reasoning=2, cache_read=3),
        ],
        system_instruction="Be brief.",
        thinking_config=types.ThinkingConfig(include_thoughts=True),
    )
    encoded = parts(chunks)
    assert "".join(part.text or "" for part in encoded if part.thought) == "Let me think."
    assert "".join(part.text or "" for part in encoded if not part.thought) == "It is sunny."
    assert b"ABC" in [part.thought_signature for part in encoded]
    (called,) = [part.function_call for part in encoded if part.function_call]
    assert (called.id, called.name, called.args) == ("call_1", "weather", {"city": "Oslo"})
    (blob,) = [part.inline_data for part in encoded if part.inline_data]
    assert (blob.mime_type, blob.data) == ("image/png", b"hi")
    last = chunks[-1]
    assert last.candidates is not None
    assert last.candidates[0].finish_reason == types.FinishReason.STOP
    grounding = last.candidates[0].grounding_metadata
    assert grounding is not None
    assert grounding.grounding_chunks is not None
    web = grounding.grounding_chunks[0].web
    assert web is not None
    assert (web.uri, web.title) == ("https://a.test", "A")
    counts = last.usage_metadata
    assert counts is not None
    assert counts.prompt_token_count == 8
    assert counts.cached_content_token_count == 3
    assert counts.candidates_token_count == 5
    assert counts.thoughts_token_count == 2
    assert counts.total_token_count == 15


def test_the_official_client_reads_what_the_api_ran_itself() -> None:
    code = call_raw("code_execution", '{"code":"1"}', id="x", provider_executed=True)
    search = call_raw("web_search", '{"queries":["a"]}', id="t", provider_executed=True)
    encoded = parts(
        streamed(
            [
                code,
                PartAdded(ToolResult("x", "code_execution", (Text("1"),), "failed")),
                search,
                PartAdded(ToolResult("t", "web_search", (Text("found"),))),
            ]
        )
    )
    (ran,) = [part.executable_code for part in encoded if part.executable_code]
    assert (ran.code, ran.language) == ("1", types.Language.PYTHON)
    (output,) = [part.code_execution_result for part in encoded if part.code_execution_result]
    assert (output.output, output.outcome) == ("1", types.Outcome.OUTCOME_FAILED)
    (asked,) = [part.tool_call for part in encoded if part.tool_call]
    assert (asked.id, asked.tool_type) == ("t", types.ToolType.GOOGLE_SEARCH_WEB)
    (found,) = [part.tool_response for part in encoded if part.tool_response]
    assert found.response == {"output": "found"}


def test_the_official_client_may_declare_tools_and_forms() -> None:
    declared = types.FunctionDeclaration(
        name="weather", parameters_json_schema={"type": "object", "properties": {}}
    )
    chunks = streamed(
        say("Hello."),
        tools=[types.Tool(function_declarations=[declared])],
        response_mime_type="application/json",
        response_json_schema={"type": "object"},
        thinking_config=types.ThinkingConfig(thinking_level=types.ThinkingLevel.LOW),
        temperature=1.0,
    )
    assert "".join(part.text or "" for part in parts(chunks)) == "Hello."


def test_the_official_client_raises_the_error_that_the_script_says() -> None:
    with pytest.raises(errors.ClientError) as caught:
        streamed(fail("slow down", status=429))
    assert (caught.value.code, caught.value.status) == (429, "RESOURCE_EXHAUSTED")
    assert caught.value.message == "slow down"


def test_the_official_client_raises_an_error_inside_the_stream() -> None:
    with pytest.raises(errors.APIError) as caught:
        streamed([say("So"), fail("busy", status=503)])
    assert (caught.value.code, caught.value.status) == (503, "UNAVAILABLE")


def test_the_official_client_is_told_what_is_wrong_with_its_request() -> None:
    both = types.Tool(
        google_search=types.GoogleSearch(),
        function_declarations=[types.FunctionDeclaration(name="weather")],
    )
    with pytest.raises(errors.ClientError, match="include_server_side_tool_invocations"):
        streamed(say("Hello."), tools=[both])


# --- What it says -------------------------------------------------------------------------------


def chunks(turn: ScriptItem, model: str = "gemini-3-flash") -> list[Json]:
    speaker = DIALECT.encoder(ReceivedRequest(PATH.format(model), SSE, KEY, b""), None)
    events = list(speaker.opening())
    for step in ScriptPlayer([turn]).steps(0, None):
        events += speaker.encode_delta(step)  # type: ignore[arg-type]
    return [msgspec.json.decode(event.removeprefix(b"data: ")) for event in events]


def wire_parts(turn: ScriptItem, model: str = "gemini-3-flash") -> list[Json]:
    """The parts of an answer, without the last chunk, which says only that it ends."""
    said = chunks(turn, model)[:-1]
    return [part for chunk in said for part in chunk["candidates"][0]["content"]["parts"]]


def test_newer_models_sign_the_first_call_and_older_ones_do_not() -> None:
    turn: ScriptItem = [call("a"), call("b")]
    assert [part.get("thoughtSignature") for part in wire_parts(turn)] == [FAKE_SIGNATURE, None]
    assert [part.get("thoughtSignature") for part in wire_parts(turn, "gemini-2.5-pro")] == [
        None,
        None,
    ]


def own(**fields: Any) -> Json:
    return {"google": fields}


def test_a_script_may_say_what_stands_beside_or_in_place_of_a_part() -> None:
    turn: ScriptItem = [
        PartAdded(Text("a", own(thoughtSignature="QQ=="))),
        PartAdded(Reasoning("b", "Qg==")),
        CallStarted("c", "look"),
        CallEnded("c", own(thoughtSignature="Qw==")),
        PartAdded(ToolCall("d", "x", "{}", metadata=own(part={"aNewKind": {}}))),
    ]
    assert wire_parts(turn) == [
        {"text": "a", "thoughtSignature": "QQ=="},
        {"text": "b", "thought": True, "thoughtSignature": "Qg=="},
        {"functionCall": {"name": "look", "args": {}, "id": "c"}, "thoughtSignature": "Qw=="},
        {"aNewKind": {}},
    ]


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", "nonsense"])
def test_a_call_that_the_api_could_not_read_ends_the_answer(arguments: str) -> None:
    data = chunks(call_raw("look", arguments))
    assert [chunk["candidates"][0]["finishReason"] for chunk in data] == ["MALFORMED_FUNCTION_CALL"]


def test_an_end_may_be_any_that_the_api_has() -> None:
    (data,) = chunks(finish("stop", metadata={"google": {"finishReason": "SPII"}}))
    assert data["candidates"][0]["finishReason"] == "SPII"
    (blocked,) = chunks(
        finish("stop", metadata={"google": {"promptFeedback": {"blockReason": "OTHER"}}})
    )
    assert blocked["promptFeedback"] == {"blockReason": "OTHER"}
    assert "candidates" not in blocked


@pytest.mark.parametrize(
    ("problem", "status", "reason"),
    [
        (Problem("no", 404), "NOT_FOUND", None),
        (Problem("no", 418), "UNKNOWN", None),
        (Problem("no", 400, "FAILED_PRECONDITION"), "FAILED_PRECONDITION", None),
        (Problem("no", 400, "API_KEY_INVALID"), "INVALID_ARGUMENT", "API_KEY_INVALID"),
        (Problem("no", 500, "own-word"), "own-word", None),
    ],
)
def test_a_refusal_has_the_words_of_the_api(
    problem: Problem, status: str, reason: str | None
) -> None:
    error = msgspec.json.decode(DIALECT.refusal(problem))["error"]
    assert (error["code"], error["message"], error["status"]) == (problem.status, "no", status)
    assert [detail["reason"] for detail in error.get("details", ())] == ([reason] if reason else [])


# --- What it objects to -------------------------------------------------------------------------

USER: Json = {"role": "user", "parts": [{"text": "Hi"}]}
MODEL: Json = {"role": "model", "parts": [{"text": "Hello."}]}
FUNCTION: Json = {"name": "look", "parametersJsonSchema": {"type": "object", "properties": {}}}
SEARCH: Json = {"googleSearch": {}}
MIXED: Json = {"tools": [{"functionDeclarations": [FUNCTION]}, SEARCH]}
AWAY: Json = {"fileData": {"mimeType": "image/png", "fileUri": "https://a.test/a.png"}}
PNG: Json = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
FLAG: Json = {"toolConfig": {"includeServerSideToolInvocations": True}}


def called(*names: str, signature: str | None = "QQ==") -> Json:
    parts: list[Json] = [{"functionCall": {"name": name, "args": {}}} for name in names]
    if signature:
        parts[0]["thoughtSignature"] = signature
    return {"role": "model", "parts": parts}


def responded(*names: str, **more: Any) -> Json:
    responses = [{"name": name, "response": {"output": "x"}, **more} for name in names]
    return {"role": "user", "parts": [{"functionResponse": response} for response in responses]}


def told(*contents: Json) -> Json:
    return {"contents": [USER, *contents]}


def part(part: Json, role: str = "user") -> Json:
    contents = [USER, {"role": "model", "parts": [part]}, USER]
    return {"contents": [{"role": "user", "parts": [part]}] if role == "user" else contents}


def config(**fields: Any) -> Json:
    return {"contents": [USER], "generationConfig": fields}


def shape(field: Json) -> Json:
    schema = {"type": "object", "properties": {"a": field}, "$defs": {"A": {"type": "object"}}}
    return config(responseMimeType="application/json", responseJsonSchema=schema)


def functions(*declared: Json) -> Json:
    return {"contents": [USER], "tools": [{"functionDeclarations": list(declared)}]}


def problem_with(
    body: object,
    *,
    model: str = "gemini-3-flash",
    path: str = PATH,
    query: Json = SSE,
    headers: Json = KEY,
) -> Problem | None:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return DIALECT.problem(ReceivedRequest(path.format(model), query, headers, data))


WRONG: list[tuple[object, str]] = [
    (b"{", "Invalid JSON payload"),
    ([], "Invalid JSON payload"),
    ({}, "contents is not specified"),
    ({"contents": []}, "contents is not specified"),
    ({"contents": [USER], "messages": []}, 'Unknown name "messages"'),
    ({"contents": [{"role": "assistant", "parts": [{"text": "x"}]}]}, "valid role"),
    ({"contents": [{"role": "user", "parts": []}]}, "must not be empty"),
    ({"contents": [{**USER, "name": "x"}]}, 'Unknown name "name"'),
    ({"contents": [MODEL, USER]}, "alternate"),
    ({"contents": [USER, USER]}, "alternate"),
    ({"contents": [USER, MODEL, MODEL, USER]}, "alternate"),
    ({"contents": [USER, MODEL]}, "end with a user role"),
    (part({}), "required oneof field 'data'"),
    (part({"text": "x", "inlineData": {}}), "required oneof field 'data'"),
    (part({"text": 7}), "TYPE_STRING"),
    (part({"text": "x", "cache": True}), 'Unknown name "cache"'),
    (part({"text": "x", "thoughtSignature": "not bytes"}), "thought_signature"),
    (part({"inlineData": {"mimeType": "image/png", "data": "***"}}), "inline_data.data"),
    (part({"inlineData": {"mimeType": "image/gif", "data": "aGk="}}), "Unsupported MIME type"),
    (part({"inlineData": {"data": "aGk="}}), "Unsupported MIME type"),
    (part({"inlineData": {"mimeType": "image/png", "data": ""}}), "it is empty"),
    (part({"functionCall": {"name": "look"}}), "cannot be sent by the user"),
    (part({"functionResponse": {"name": "look"}}, "model"), "cannot be sent by the model"),
    (part({"functionCall": {"args": {}}}, "model"), "Name cannot be empty"),
    (part({"functionCall": {"name": "a b"}}, "model"), "Invalid function name"),
    (part({"functionCall": {"name": "look", "args": "{}"}}, "model"), "an object is wanted"),
    ({"contents": [USER], "systemInstruction": {"parts": []}}, "system_instruction"),
    # Calls and their responses.
    (told(called("look"), USER), "comes immediately after a function call turn"),
    (told(responded("look")), "comes immediately after a function call turn"),
    (told(called("a", "b"), responded("a")), "number of function response parts is equal"),
    (told(called("a"), responded("a", "a")), "number of function response parts is equal"),
    (told(called("a"), responded("b")), "not those of the function calls"),
    (told(called("a"), responded("a", id="x")), "not those of the function calls"),
    (told(called("a"), responded("a", response="x")), "an object is wanted"),
    (told(called("a"), responded("a", parts=[{}])), "'data' must have one initialized field"),
    (told(called("a"), responded("a", parts=[AWAY])), 'Unknown name "fileData"'),
    (told(called("a"), responded("a", parts=[{**PNG, "thought": True}])), 'Unknown name "thought"'),
    (told(called("a", signature=None), responded("a")), "missing a thought_signature"),
    (
        told(called("a"), responded("a"), called("a", signature=None), responded("a")),
        "missing a thought_signature",
    ),
    # Tools.
    (functions(FUNCTION, FUNCTION), "Duplicate function declaration"),
    (functions({"name": "7up"}), "Invalid function name"),
    (functions({**FUNCTION, "strict": True}), 'Unknown name "strict"'),
    (functions({**FUNCTION, "parameters": {}}), "only one of"),
    (functions({"name": "f", "parametersJsonSchema": {"type": "string"}}), "of type object"),
    (functions({"name": "f", "parameters": {"type": "object"}}), "non-empty for OBJECT"),
    (
        functions({"name": "f", "parameters": {"properties": {"a": {"$ref": "#/$defs/A"}}}}),
        'Unknown name "$ref"',
    ),
    (
        functions({"name": "f", "parameters": {"properties": {"a": {"type": ["string"]}}}}),
        "not repeating",
    ),
    (
        functions({"name": "f", "parameters": {"properties": {"a": {"items": {"enum": [1]}}}}}),
        "TYPE_STRING",
    ),
    ({"contents": [USER], "tools": [{"webSearch": {}}]}, 'Unknown name "webSearch"'),
    ({"contents": [USER], "toolConfig": {"toolChoice": "auto"}}, 'Unknown name "toolChoice"'),
    ({"contents": [USER], **MIXED}, "include_server_side_tool_invocations"),
    # Settings.
    (config(max_tokens=1), 'Unknown name "maxTokens"'),
    (config(temperature=3), "temperature must be in the range"),
    (config(maxOutputTokens=0), "max_output_tokens must be positive"),
    (config(responseJsonSchema={}), "needs the response mime type"),
    (
        config(responseMimeType="application/json", responseSchema={}, responseJsonSchema={}),
        "only one of",
    ),
    (
        config(responseMimeType="application/json", responseSchema={"const": 1}),
        'Unknown name "const"',
    ),
    (
        shape({"$ref": "#/$defs/A", "description": "a"}),
        "description cannot be combined with a $ref",
    ),
    (
        shape({"anyOf": [{"$ref": "#/$defs/A", "title": "A"}]}),
        "title cannot be combined with a $ref",
    ),
    (
        config(thinkingConfig={"thinkingLevel": "low", "thinkingBudget": 1}),
        "only one of thinking budget and thinking level",
    ),
    (config(thinkingConfig={"thinkingLevel": "huge"}), "thinking_level"),
    (config(thinkingConfig={"effort": "low"}), 'Unknown name "effort"'),
]


@pytest.mark.parametrize(("body", "words"), WRONG)
def test_what_the_real_one_refuses_is_refused(body: object, words: str) -> None:
    problem = problem_with(body)
    assert problem is not None
    assert words in problem.message
    assert problem.status == 400


RIGHT: list[Json] = [
    {"contents": [USER]},
    {"contents": [{"parts": [{"text": "Hi"}]}]},
    told(MODEL, USER),
    told(called("a", "b"), responded("a", "b"), USER),
    told(called("a"), responded("a"), MODEL, USER),
    told(called("a"), responded("a", parts=[PNG])),
    told(called("a", signature=None), responded("a"), MODEL, USER),  # of an earlier turn
    {"contents": [USER], **MIXED, **FLAG},
    {"contents": [USER], "tools": [SEARCH, {"codeExecution": {}}]},
    {"contents": [USER], "generation_config": {"thinking_config": {"thinking_level": "LOW"}}},
    functions({"name": "f", "parameters": {"properties": {"snake_case": {"any_of": [{}]}}}}),
    config(responseMimeType="application/json", responseJsonSchema={"const": 1}),
    shape({"anyOf": [{"$ref": "#/$defs/A"}], "description": "a"}),
    shape({"properties": {"$ref": {"type": "string"}, "title": {"type": "string"}}}),
    part({"executableCode": {"code": "1"}}, "model"),
    part({"fileData": {"fileUri": "https://a.test"}}),
]


@pytest.mark.parametrize("body", RIGHT)
def test_what_the_real_one_takes_is_taken(body: Json) -> None:
    assert problem_with(body) is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"contents": [USER], **MIXED}, "function calling is unsupported"),
        ({"contents": [USER], **FLAG}, "circulation is not enabled"),
        (config(thinkingConfig={"thinkingLevel": "low"}), "Thinking level is not supported"),
        (
            {**functions(FUNCTION), **config(responseMimeType="application/json")},
            "response mime type: 'application/json' is unsupported",
        ),
    ],
)
def test_older_models_refuse_more(body: Json, words: str) -> None:
    problem = problem_with(body, model="gemini-2.5-flash")
    assert problem is not None
    assert words in problem.message


@pytest.mark.parametrize(
    ("model", "thinking", "words"),
    [
        ("gemini-2.0-flash", {"includeThoughts": True}, "Thinking is not supported"),
        ("gemini-2.0-flash", {"thinkingBudget": 0}, "Thinking is not supported"),
        ("gemini-2.5-flash-image", {"thinkingBudget": 0}, "Thinking is not supported"),
        ("gemini-2.5-flash-lite", {"includeThoughts": True}, "when thinking is enabled"),
        (
            "gemini-2.5-flash",
            {"includeThoughts": True, "thinkingBudget": 0},
            "when thinking is enabled",
        ),
        ("gemini-2.5-pro", {"thinkingBudget": 0}, "only works in thinking mode"),
    ],
)
def test_a_model_refuses_thinking_that_it_does_not_have(
    model: str, thinking: Json, words: str
) -> None:
    problem = problem_with(config(thinkingConfig=thinking), model=model)
    assert problem is not None
    assert words in problem.message


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("gemini-2.5-flash", {"includeThoughts": True}),
        ("gemini-2.5-flash", {"thinkingBudget": 0}),
        ("gemini-2.5-flash-lite", {"thinkingBudget": 0}),
        ("gemini-2.5-flash-lite", {"includeThoughts": True, "thinkingBudget": 512}),
        ("gemini-2.5-pro", {"includeThoughts": True, "thinkingBudget": 128}),
    ],
)
def test_a_model_takes_thinking_that_it_has(model: str, thinking: Json) -> None:
    assert problem_with(config(thinkingConfig=thinking), model=model) is None


def test_older_models_do_not_ask_for_signatures() -> None:
    unsigned = told(called("a", signature=None), responded("a"))
    assert problem_with(unsigned, model="gemini-2.5-flash") is None


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"path": "/v1beta/models/{}:generateContent"}, 404),
        ({"path": "/v1/chat/completions"}, 404),
        ({"headers": {}}, 403),
        ({"query": {}}, 400),
    ],
)
def test_only_requests_for_a_stream_with_a_key_are_taken(asked: Json, status: int) -> None:
    problem = problem_with({"contents": [USER]}, **asked)
    assert problem is not None
    assert problem.status == status
    assert problem_with({"contents": [USER]}, headers={}, query={**SSE, "key": "k"}) is None
