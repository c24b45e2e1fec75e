"""The fake of OpenAI's Responses API: the official SDK believes it, and it is as strict."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
import openai
import pytest
from openai.types.responses import (
    Response,
    ResponseCodeInterpreterToolCall,
    ResponseFunctionToolCall,
    ResponseFunctionWebSearch,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)

from holdfast.kernel.messages import File, Reasoning, Text, ToolCall, ToolResult
from holdfast.kernel.model import CallEnded, CallStarted, Notice, PartAdded, PartEnded
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
from holdfast.testing.fake.dialect_interface import FakeDialect, Problem, ReceivedRequest
from holdfast.testing.fake.openai_responses import new_dialect
from holdfast.testing.fake.provider import FakeProvider

Json = dict[str, Any]


# --- The official SDK ---------------------------------------------------------------------------


@asynccontextmanager
async def client_of(fake: FakeProvider) -> AsyncIterator[openai.AsyncOpenAI]:
    async with fake.serve() as base_url:
        async with openai.AsyncOpenAI(
            api_key="k", base_url=f"{base_url}/v1", max_retries=0, timeout=None
        ) as client:
            yield client


def sdk_response(turn: ScriptedTurn, **options: Any) -> Response:
    """What the SDK makes of a turn. On a real event loop, which its client needs."""

    async def ask() -> Response | openai.APIError:
        fake = FakeProvider("openai_responses", [turn])
        async with client_of(fake) as client:
            try:
                async with client.responses.stream(model="gpt-5", input="Hi", **options) as stream:
                    response = await stream.get_final_response()
            except openai.APIError as error:
                return error
        assert fake.problems == []
        return response

    result = asyncio.run(ask())
    if isinstance(result, openai.APIError):
        raise result
    return result


def test_the_sdk_hears_text_and_usage() -> None:
    counted = usage(input=10, output=20, cache_read=30, cache_write=40, reasoning=5)
    response = sdk_response([say("Hello there.", chunks=4), counted])
    assert response.output_text == "Hello there."
    assert (response.status, response.model) == ("completed", "gpt-5")
    assert response.usage is not None
    assert response.usage.input_tokens == 80
    assert response.usage.input_tokens_details.cached_tokens == 30
    assert response.usage.input_tokens_details.cache_write_tokens == 40
    assert response.usage.output_tokens_details.reasoning_tokens == 5
    assert response.usage.total_tokens == 100


def test_the_sdk_hears_reasoning_and_calls() -> None:
    response = sdk_response(
        [
            think("One.\n\nTwo.", signature="secret", chunks=2),
            say("I look."),
            call("look", at="this"),
            call_raw("look", "", id="call_9"),
        ]
    )
    thought, said, first, second = response.output
    assert isinstance(thought, ResponseReasoningItem)
    assert [part.text for part in thought.summary] == ["One.", "Two."]
    assert thought.encrypted_content == "secret"
    assert isinstance(said, ResponseOutputMessage)
    assert isinstance(first, ResponseFunctionToolCall)
    assert (first.call_id, first.name, first.arguments) == ("call_1", "look", '{"at":"this"}')
    assert isinstance(second, ResponseFunctionToolCall)
    assert (second.call_id, second.arguments) == ("call_9", "")


def test_the_sdk_hears_what_the_provider_ran() -> None:
    ran = ToolResult("b", "code_execution", (Text("1\n"),), provider_executed=True)
    response = sdk_response(
        [
            CallStarted("a", "web_search", True),
            CallEnded("a", {"openai": {"item": {"action": {"type": "search", "query": "x"}}}}),
            PartAdded(ToolCall("b", "code_execution", '{"code":"print(1)"}', None, 0, True)),
            PartAdded(ran),
            say("It is 1."),
            source("https://a.org", "A"),
        ]
    )
    search, code, said = response.output
    assert isinstance(search, ResponseFunctionWebSearch)
    assert search.action.to_dict() == {"type": "search", "query": "x"}
    assert isinstance(code, ResponseCodeInterpreterToolCall)
    assert code.code == "print(1)"
    assert code.outputs is not None
    assert code.outputs[0].to_dict() == {"type": "logs", "logs": "1\n"}
    assert isinstance(said, ResponseOutputMessage)
    [text] = said.content
    assert isinstance(text, ResponseOutputText)
    assert text.annotations[0].to_dict()["url"] == "https://a.org"


def test_the_sdk_hears_parts_that_come_whole() -> None:
    response = sdk_response(
        [
            PartAdded(Reasoning("Hm.", "secret")),
            PartAdded(Text("See:", {"openai": {"item": {"phase": "commentary"}}})),
            PartAdded(File("image/png", None, b"png")),
            PartAdded(ToolCall("m", "roll", '{"n":2}', None, 0, True)),
            PartAdded(ToolResult("m", "roll", (Text("7"),), provider_executed=True)),
        ]
    )
    kinds = [item.type for item in response.output]
    assert kinds == ["reasoning", "message", "image_generation_call", "mcp_call"]
    message, picture, mcp = (item.to_dict() for item in response.output[1:])
    assert message["phase"] == "commentary"
    assert (picture["result"], picture["output_format"]) == ("cG5n", "png")
    assert (mcp["name"], mcp["arguments"], mcp["output"]) == ("roll", '{"n":2}', "7")


@pytest.mark.parametrize("chunks", range(1, 12))
def test_a_blank_line_begins_a_new_part_of_a_summary(chunks: int) -> None:
    response = answered(new_dialect(), [think("One.\n\nTwo\n", chunks=chunks), say("Hi")])
    assert [part["text"] for part in response["output"][0]["summary"]] == ["One.", "Two\n"]


def test_reasoning_that_nobody_is_shown() -> None:
    response = sdk_response([PartEnded("secret"), say("Hi")])
    thought = response.output[0]
    assert isinstance(thought, ResponseReasoningItem)
    assert (thought.summary, thought.encrypted_content) == ([], "secret")


def test_reasoning_is_encrypted_when_it_is_asked_for() -> None:
    deltas = sdk_response([think("hm"), say("Hi")], include=["reasoning.encrypted_content"])
    thought = deltas.output[0]
    assert isinstance(thought, ResponseReasoningItem)
    assert thought.encrypted_content
    thought = sdk_response([think("hm"), say("Hi")]).output[0]
    assert isinstance(thought, ResponseReasoningItem)
    assert thought.encrypted_content is None


def test_the_sdk_passes_over_pings() -> None:
    async def ask() -> list[str]:
        fake = FakeProvider("openai_responses", [[ping(), say("Hi"), Notice("nothing to send")]])
        async with client_of(fake) as client:
            stream = await client.responses.create(model="gpt-5", input="Hi", stream=True)
            return [event.type async for event in stream]

    heard_types = asyncio.run(ask())
    assert "keepalive" in heard_types
    assert heard_types[-1] == "response.completed"


def test_the_sdk_hears_how_an_answer_ended() -> None:
    for turn, status, reason in (
        ([say("Hi"), finish("length")], "incomplete", "max_output_tokens"),
        ([say("Hi"), finish("content_filter")], "incomplete", "content_filter"),
        ([say("Hi")], "completed", None),
    ):

        async def ask(turn: ScriptedTurn = turn) -> Response:
            fake = FakeProvider("openai_responses", [turn])
            async with client_of(fake) as client:
                stream = await client.responses.create(model="gpt-5", input="Hi", stream=True)
                last = [event async for event in stream][-1]
                assert last.type in ("response.completed", "response.incomplete")
                return last.response

        response = asyncio.run(ask())
        assert response.status == status
        details = response.incomplete_details
        assert (details and details.reason) == reason


@pytest.mark.parametrize(
    ("failing", "error"),
    [
        (fail("No", status=400), openai.BadRequestError),
        (fail("No", status=401), openai.AuthenticationError),
        (fail("No", status=404), openai.NotFoundError),
        (fail("No", status=429), openai.RateLimitError),
        (fail("No", status=500), openai.InternalServerError),
        (fail("No", status=503), openai.InternalServerError),
    ],
)
def test_the_sdk_hears_refusals(failing: ScriptedTurn, error: type[openai.APIStatusError]) -> None:
    with pytest.raises(error, match="No"):
        sdk_response(failing)


def test_the_sdk_hears_codes() -> None:
    with pytest.raises(openai.RateLimitError) as caught:
        sdk_response(fail("No credits", status=429, code="insufficient_quota"))
    assert (caught.value.code, caught.value.type) == ("insufficient_quota", "insufficient_quota")


def test_the_sdk_hears_an_error_inside_the_stream() -> None:
    async def ask() -> list[Any]:
        turn = [say("Half"), fail("Oh no", status=500)]
        async with client_of(FakeProvider("openai_responses", [turn])) as client:
            stream = await client.responses.create(model="gpt-5", input="Hi", stream=True)
            return [event async for event in stream]

    *_, error, failed = asyncio.run(ask())
    assert (error.type, error.code, error.message) == ("error", "server_error", "Oh no")
    assert failed.type == "response.failed"
    assert failed.response.error.message == "Oh no"


def test_the_sdk_can_build_upon_an_answer() -> None:
    async def ask() -> list[str]:
        fake = FakeProvider("openai_responses", [[think("hm"), say("One.")], say("Two.")])
        async with client_of(fake) as client:
            id = None
            texts = []
            for prompt in ("Hi", "More"):
                async with client.responses.stream(
                    model="gpt-5", input=prompt, previous_response_id=id or openai.omit
                ) as stream:
                    response = await stream.get_final_response()
                id = response.id
                texts.append(response.output_text)
        assert fake.problems == []
        return texts

    assert asyncio.run(ask()) == ["One.", "Two."]


# --- What it objects to -------------------------------------------------------------------------

HI: Final[Json] = {"role": "user", "content": "Hi"}
THOUGHT: Final[Json] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
SAID: Final[Json] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Ho", "annotations": []}],
}
CALL: Final[Json] = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT: Final[Json] = {"type": "function_call_output", "call_id": "c", "output": "it"}
TOOL: Final[Json] = {
    "type": "function",
    "name": "f",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}
OPEN: Final[Json] = {"type": "object", "properties": {"a": {"type": "string"}}}


def received(body: Any, path: str = "/v1/responses", **headers: str) -> ReceivedRequest:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return ReceivedRequest(path, {}, headers or {"Authorization": "Bearer k"}, data)


def shown(url: str) -> Json:
    return {"role": "user", "content": [{"type": "input_image", "image_url": url}]}


def problem_with(spoken: FakeDialect | None = None, **fields: Any) -> Problem | None:
    body = {"model": "gpt-5", "stream": True, "store": False, "input": [HI], **fields}
    return (spoken or new_dialect()).problem(received(body))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"input": "Hi"},
        {"input": [HI, THOUGHT, SAID, HI]},
        {"input": [HI, THOUGHT, CALL, OUTPUT]},
        {"input": [HI, CALL, {**CALL, "call_id": "d"}, {**OUTPUT, "call_id": "d"}, OUTPUT]},
        {"tools": [TOOL, {"type": "web_search"}]},
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": OPEN}}},
        {"reasoning": {"effort": "xhigh", "summary": "auto"}, "max_output_tokens": 16},
        {"model": "gpt-5.1", "reasoning": {"effort": "none"}, "temperature": 1, "top_p": 1},
        {"model": "gpt-5.1", "temperature": 1},
        {"input": [shown("data:image/jpeg;base64,eA=="), shown("https://a.test/a.png")]},
    ],
    ids=str,
)
def test_what_is_right_is_taken(fields: Json) -> None:
    assert problem_with(**fields) is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"temprature": 1}, "Unknown parameter: 'temprature'"),
        ({"model": None}, "Missing required parameter: 'model'"),
        ({"input": None}, "Missing required parameter: 'input'"),
        ({"input": {}}, "Invalid type for 'input'"),
        ({"stream": False}, "only streams"),
        ({"include": ["everything"]}, "'everything'"),
        ({"prompt_cache_key": "k" * 65}, "string too long"),
        ({"max_output_tokens": 1}, "below minimum"),
        ({"temperature": 3}, "'temperature'"),
        ({"reasoning": {"effort": "extreme"}}, "'extreme'"),
        ({"reasoning": {"budget": 1}}, "reasoning.budget"),
        (
            {"model": "gpt-5.1", "reasoning": {"effort": "low"}, "temperature": 1},
            "'temperature' is not supported",
        ),
        (
            {"model": "gpt-5.4", "reasoning": {"effort": "high"}, "top_p": 1},
            "'top_p' is not supported",
        ),
        (
            {
                "text": {
                    "format": {
                        "type": "json_schema",
                        "name": "n",
                        "strict": True,
                        "schema": {**OPEN, "anyOf": [OPEN]},
                    }
                }
            },
            "at the root",
        ),
        ({"tools": [{"name": "f"}]}, "tools[0].type"),
        ({"tools": [{**TOOL, "name": "not a name"}]}, "tools[0].name"),
        ({"tools": [TOOL, TOOL]}, "Duplicate tool name"),
        ({"tools": [{**TOOL, "parameters": {"type": "object"}}]}, "missing properties"),
        ({"tools": [{**TOOL, "parameters": {"type": "array"}}]}, '"object"'),
        ({"tools": [{**TOOL, "parameters": OPEN, "strict": True}]}, "additionalProperties"),
        (
            {
                "text": {
                    "format": {
                        "type": "json_schema",
                        "name": "n",
                        "strict": True,
                        "schema": {**OPEN, "additionalProperties": False},
                    }
                }
            },
            "'required' is required",
        ),
        ({"text": {"format": {"type": "json_schema", "name": "a b"}}}, "text.format.name"),
        ({"text": {"format": {"type": "xml"}}}, "text.format"),
        ({"input": [{"type": "telepathy"}]}, "'telepathy'"),
        ({"input": [{**HI, "role": "robot"}]}, "'robot'"),
        ({"input": [{"role": "user", "content": [{"type": "output_text"}]}]}, "'output_text'"),
        ({"input": [{"role": "assistant", "content": [{"type": "input_text"}]}]}, "'input_text'"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "Missing required"),
        ({"input": [shown("data:image/png;base64,")]}, "Missing required"),
        ({"input": [shown("data:image/jpg;base64,eA==")]}, "Missing required"),
        ({"input": [shown("data:IMAGE/PNG;base64,eA==")]}, "Missing required"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_data": "x"}]}]},
            "Missing required",
        ),
        ({"input": [HI, {**SAID, "id": "x_1"}]}, "begins with 'msg'"),
        ({"input": [HI, {**CALL, "id": "msg_1"}, OUTPUT]}, "begins with 'fc'"),
        ({"input": [HI, {**SAID, "phase": None}]}, "got null"),
        ({"input": [HI, {**CALL, "call_id": "c" * 65}]}, "string too long"),
        ({"input": [HI, {**CALL, "arguments": {}}, OUTPUT]}, "input[1].arguments"),
        ({"input": [HI, {"type": "reasoning", "id": "rs_1"}, SAID]}, "input[1].summary"),
        ({"input": [HI, CALL]}, "No tool output found for function call c"),
        ({"input": [HI, OUTPUT]}, "No tool call found for function call output"),
        ({"input": [HI, OUTPUT, CALL]}, "No tool call found for function call output"),
        ({"input": [HI, CALL, OUTPUT, OUTPUT]}, "Duplicate tool output"),
        ({"input": [HI, CALL, OUTPUT, CALL, OUTPUT]}, "Duplicate function call"),
        ({"input": [HI, SAID, SAID]}, "Duplicate item found with id msg_1"),
        ({"input": [HI, THOUGHT]}, "without its required following item"),
        ({"input": [HI, THOUGHT, HI]}, "without its required following item"),
        ({"input": [HI, CALL, THOUGHT, OUTPUT]}, "without its required following item"),
        (
            {"input": [HI, {**THOUGHT, "encrypted_content": ""}, SAID]},
            "Items are not persisted when `store` is set to false",
        ),
        (
            {"store": True, "input": [HI, {**THOUGHT, "encrypted_content": ""}, SAID]},
            "Item with id 'rs_1' not found",
        ),
        ({"previous_response_id": "resp_0"}, "Previous response with id 'resp_0' not found"),
    ],
    ids=str,
)
def test_what_is_wrong_is_refused(fields: Json, said: str) -> None:
    problem = problem_with(**fields)
    assert problem is not None
    assert problem.status == 400
    assert said in problem.message


def test_a_stored_answer_that_is_not_known_has_its_own_code() -> None:
    problem = problem_with(previous_response_id="resp_0")
    assert problem is not None
    assert problem.code == "previous_response_not_found"


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (received({}, path="/v1/chat/completions"), 404),
        (received({}, Other="x"), 401),
        (received({}, Authorization="Bearer "), 401),
        (received(b"{"), 400),
        (received([]), 400),
    ],
    ids=["path", "no key", "empty key", "no JSON", "no object"],
)
def test_what_is_no_request_at_all(asked: ReceivedRequest, status: int) -> None:
    problem = new_dialect().problem(asked)
    assert problem is not None
    assert problem.status == status


# --- What it remembers --------------------------------------------------------------------------


def answered(spoken: FakeDialect, turn: Any, **fields: Any) -> Json:
    """The response to a request, which the language has then given."""
    body = {"model": "gpt-5", "stream": True, "store": True, "input": [HI], **fields}
    speaker = spoken.encoder(received(body), None)
    fake = FakeProvider("openai_responses", [turn])
    data = [*speaker.opening()]
    for step in fake._script.steps(0, None):
        assert not callable(step)
        data += speaker.encode_delta(step)  # type: ignore[arg-type]
    last = data[-1].split(b"data: ", 1)[1]
    response: Json = msgspec.json.decode(last)["response"]
    return response


SEARCHED: Final = [think("hm"), CallStarted("ws", "web_search", True), CallEnded("ws"), say("Ho")]


def test_a_search_must_directly_follow_its_reasoning() -> None:
    dialect = new_dialect()
    response = answered(dialect, SEARCHED, include=["reasoning.encrypted_content"])
    thought, search, said = response["output"]
    assert problem_with(dialect, input=[HI, thought, search, said, HI]) is None
    for wrong in ([HI, search, said], [HI, thought, said, search], [HI, search, thought, said]):
        problem = problem_with(dialect, input=wrong)
        assert problem is not None
        assert "'web_search_call' was provided without its required" in problem.message
        assert f"'reasoning' item: '{thought['id']}'" in problem.message


def test_any_item_needs_the_reasoning_it_came_of() -> None:
    dialect = new_dialect()
    response = answered(dialect, [think("hm"), say("Ho")], include=["reasoning.encrypted_content"])
    thought, said = response["output"]
    assert problem_with(dialect, input=[HI, thought, said]) is None
    problem = problem_with(dialect, input=[HI, said])
    assert problem is not None
    assert "'message' was provided without its required 'reasoning' item" in problem.message
    anonymous = {key: value for key, value in said.items() if key != "id"}
    assert problem_with(dialect, input=[HI, anonymous]) is None


def test_a_stored_answer_can_be_built_upon() -> None:
    dialect = new_dialect()
    response = answered(dialect, call("f"))
    output = {"type": "function_call_output", "call_id": "call_1", "output": "it"}
    linked = {"previous_response_id": response["id"], "store": True}
    assert problem_with(dialect, **linked, input=[output]) is None
    problem = problem_with(dialect, **linked, input=[HI])
    assert problem is not None
    assert "No tool output found for function call call_1" in problem.message


def test_stored_reasoning_is_known_by_its_id() -> None:
    dialect = new_dialect()
    thought, said = answered(dialect, [think("hm"), say("Ho")])["output"]
    assert "encrypted_content" not in thought
    assert problem_with(dialect, store=True, input=[HI, thought, said]) is None
    assert problem_with(dialect, store=False, input=[HI, thought, said]) is not None


def test_what_was_not_stored_cannot_be_built_upon() -> None:
    dialect = new_dialect()
    response = answered(dialect, say("Ho"), store=False)
    assert problem_with(dialect, previous_response_id=response["id"]) is not None


def test_two_fakes_do_not_share_their_memory() -> None:
    response = answered(new_dialect(), say("Ho"))
    assert problem_with(new_dialect(), previous_response_id=response["id"]) is not None
