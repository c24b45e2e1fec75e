"""Requests as OpenAI's Responses API takes them."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.kernel.messages import (
    Checkpoint,
    File,
    Message,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    injected,
    results_message,
    user_message,
)
from holdfast.kernel.model import Block, Effort, ProviderTool, Request, Settings, Shape, ToolSpec
from holdfast.providers.openai_responses.request import encode
from holdfast.providers.profile import UNKNOWN, Profile
from holdfast.providers.profile_lookup import lookup
from holdfast.testing.fake.dialect_interface import ReceivedRequest
from holdfast.testing.fake.openai_responses import new_dialect

Json = dict[str, Any]

NAME: Final = "openai:gpt-5"
HI: Final = user_message("Hi")
PNG: Final = File("image/png", "cat.png", b"png")
PDF: Final = File("application/pdf", "a.pdf", b"pdf")


def encoded_request(
    request: Request, profile: Profile = UNKNOWN, *, store: bool = False
) -> tuple[Json, tuple[str, ...]]:
    """The body as the provider reads it, which finds nothing wrong with it, and the notices."""
    encoded = encode(request, "gpt-5", "openai", profile, store)
    body = encoded.body(encoded.items)
    assert encode(request, "gpt-5", "openai", profile, store).body(encoded.items) == body
    received = ReceivedRequest("/v1/responses", {}, {"Authorization": "Bearer key"}, body)
    assert new_dialect().problem(received) is None
    return msgspec.json.decode(body), encoded.notices


def body(*messages: Message, profile: Profile = UNKNOWN, **fields: Any) -> Json:
    body, notices = encoded_request(Request(messages=messages or (HI,), **fields), profile)
    assert notices == ()
    return body


def items(*messages: Message, profile: Profile = UNKNOWN) -> list[Json]:
    made: list[Json] = body(*messages, profile=profile)["input"]
    return made


def answer(*parts: Any, model: str = NAME, **fields: Any) -> Message:
    return Message("assistant", parts, "answer", model=model, **fields)


def assistant_item(text: str) -> Json:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content}


def asks(text: str, role: str = "user") -> Json:
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": role, "content": content}


# --- The frame ----------------------------------------------------------------------------------


def test_the_smallest_request() -> None:
    assert body() == {
        "model": "gpt-5",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "input": [asks("Hi")],
    }


def test_the_system_prefix_becomes_instructions() -> None:
    system = (Block("Be brief.", cache=True), Block("Be kind."))
    assert body(system=system)["instructions"] == "Be brief.\n\nBe kind."
    assert "instructions" not in body(system=(Block(""),))


def test_a_growing_history_begins_with_the_same_bytes() -> None:
    system = (Block("Be brief."),)
    short = Request(system=system, messages=(HI,))
    long = Request(system=system, messages=(HI, answer(Text("Ho")), user_message("More")))
    first, second = (encode(r, "gpt-5", "openai", UNKNOWN, False) for r in (short, long))
    assert second.body(second.items).startswith(first.body(first.items).removesuffix(b"]}"))


def test_stored_where_answers_are_built_upon() -> None:
    body, _ = encoded_request(Request(messages=(HI,)), store=True)
    assert body["store"] is True
    assert body["include"] == ["reasoning.encrypted_content"]


def test_a_model_that_does_not_think_is_not_asked_for_its_thoughts() -> None:
    assert "include" not in body(profile=Profile(efforts=()), effort="high")
    assert "reasoning" not in body(profile=Profile(efforts=()), effort="high")


def test_a_cache_key_is_sent_and_not_too_long() -> None:
    assert body(cache_key="chat-1")["prompt_cache_key"] == "chat-1"
    long = body(cache_key="k" * 65)["prompt_cache_key"]
    assert len(long) <= 64
    assert long == body(cache_key="k" * 65)["prompt_cache_key"]
    assert long != body(cache_key="k" * 66)["prompt_cache_key"]


def test_half_a_character_does_not_break_a_request() -> None:
    assert items(user_message("a\ud800b")) == [asks("a\ufffdb")]


# --- Settings -----------------------------------------------------------------------------------


def test_settings_are_passed_on() -> None:
    encoded = body(settings=Settings(temperature=0.5, top_p=0.9, max_output_tokens=100))
    assert (encoded["temperature"], encoded["top_p"], encoded["max_output_tokens"]) == (
        0.5,
        0.9,
        100,
    )


def test_settings_that_the_protocol_does_not_know_are_told_of() -> None:
    settings = Settings(top_k=3, presence_penalty=0.1, frequency_penalty=0.2)
    made, notices = encoded_request(Request(messages=(HI,), settings=settings))
    assert made == body()
    assert notices == (
        f"top_k was not sent to {NAME}, which does not know it.",
        f"presence_penalty was not sent to {NAME}, which does not know it.",
        f"frequency_penalty was not sent to {NAME}, which does not know it.",
    )


def test_a_model_without_sampling_is_not_sent_a_temperature() -> None:
    request = Request(messages=(HI,), settings=Settings(temperature=0.0, top_p=0.5))
    made, notices = encoded_request(request, Profile(sampling=False))
    assert made == body()
    assert [notice.split()[0] for notice in notices] == ["temperature", "top_p"]


def test_a_temperature_is_left_out_beside_an_effort_where_it_is_refused() -> None:
    request = Request(messages=(HI,), settings=Settings(temperature=0.0, top_p=0.5))
    profile = lookup("openai", "gpt-5.2")
    for effort in (None, "none"):
        body, notices = encoded_request(replace(request, effort=effort), profile)
        assert (body["temperature"], body["top_p"], notices) == (0.0, 0.5, ())
    body, notices = encoded_request(replace(request, effort="max"), profile)
    assert body.keys().isdisjoint({"temperature", "top_p"})
    assert notices == (
        f"temperature was not sent to {NAME}, which does not take it together with an effort.",
        f"top_p was not sent to {NAME}, which does not take it together with an effort.",
    )


def problem_of(request: Request, model: str, profile: Profile = UNKNOWN) -> str:
    """What the fake says of a request."""
    encoded = encode(request, model, "openai", profile, False)
    received = ReceivedRequest(
        "/v1/responses", {}, {"Authorization": "Bearer key"}, encoded.body(encoded.items)
    )
    problem = new_dialect().problem(received)
    return "" if problem is None else problem.message


def test_the_fake_refuses_a_temperature_beside_an_effort() -> None:
    request = Request(messages=(HI,), settings=Settings(temperature=0.0), effort="low")
    assert "'temperature' is not supported" in problem_of(request, "gpt-5.2")
    assert problem_of(replace(request, effort="none"), "gpt-5.2") == ""
    assert problem_of(request, "gpt-5.2", lookup("openai", "gpt-5.2")) == ""


@pytest.mark.parametrize(
    ("wanted", "efforts", "reasoning"),
    [
        (None, None, None),
        ("high", None, {"effort": "high", "summary": "auto"}),
        ("max", None, {"effort": "max", "summary": "auto"}),
        ("none", None, {"effort": "none"}),
        ("none", ("none", "low", "high"), {"effort": "none"}),
        ("none", ("minimal", "low"), {"effort": "minimal", "summary": "auto"}),
        ("max", ("low", "medium", "high"), {"effort": "high", "summary": "auto"}),
        ("high", (), None),
    ],
)
def test_effort(
    wanted: Effort | None, efforts: tuple[Effort, ...] | None, reasoning: Json | None
) -> None:
    assert body(profile=Profile(efforts=efforts), effort=wanted).get("reasoning") == reasoning


TOOLS_OVER_THERE: Final = (ProviderTool("web_search"), ProviderTool("image_generation"))


def test_a_tool_of_the_provider_is_not_sent_beside_an_effort_that_it_is_refused_with() -> None:
    request = Request(messages=(HI,), provider_tools=TOOLS_OVER_THERE, effort="none")
    body, notices = encoded_request(
        request, lookup("openai", "gpt-5")
    )  # whose least effort is "minimal"
    assert body["reasoning"]["effort"] == "low"
    assert notices == (f"{NAME} uses the effort low: its tools do not work with minimal.",)
    body, notices = encoded_request(replace(request, provider_tools=(), tools=(LOOK,)), Profile())
    assert (body["reasoning"]["effort"], notices) == ("none", ())
    alone = replace(request, provider_tools=(), tools=(LOOK,), effort="minimal")
    assert encoded_request(alone)[0]["reasoning"]["effort"] == "minimal"


def test_the_fake_refuses_a_tool_of_the_provider_beside_an_effort_of_minimal() -> None:
    options: Json = {"openai": {"reasoning": {"effort": "minimal"}}}
    settings = Settings(options=options)
    request = Request(messages=(HI,), provider_tools=TOOLS_OVER_THERE, settings=settings)
    assert "'minimal': image_generation, web_search" in problem_of(request, "gpt-5")


def test_options_of_the_provider_are_merged_in_last() -> None:
    options: Json = {
        "openai": {
            "service_tier": "flex",
            "store": True,
            "reasoning": {"summary": "detailed"},
            "include": ["file_search_call.results", "reasoning.encrypted_content"],
            "text": {"verbosity": "low"},
        },
        "anthropic": {"speed": "fast"},
    }
    shape = Shape({"type": "object", "properties": {}, "additionalProperties": False})
    encoded = body(effort="low", output=shape, settings=Settings(options=options))
    assert encoded["service_tier"] == "flex"
    assert encoded["store"] is True
    assert encoded["reasoning"] == {"effort": "low", "summary": "detailed"}
    assert encoded["include"] == ["reasoning.encrypted_content", "file_search_call.results"]
    assert set(encoded["text"]) == {"format", "verbosity"}
    assert "speed" not in encoded


# --- Tools --------------------------------------------------------------------------------------

LOOK: Final = ToolSpec("look", "Look it up.", {"type": "object", "properties": {"at": {}}})


def test_tools_are_functions_that_we_check_ourselves() -> None:
    assert body(tools=(LOOK, ToolSpec("ping", "Ping.", {"type": "object"})))["tools"] == [
        {
            "type": "function",
            "name": "look",
            "description": "Look it up.",
            "parameters": {"type": "object", "properties": {"at": {}}},
            "strict": False,
        },
        {
            "type": "function",
            "name": "ping",
            "description": "Ping.",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        },
    ]


AREA: Final = {"type": "object", "properties": {"area": {"type": "string"}}}
PLACE: Final = {"type": "object", "properties": {"x": {"type": "number"}, "at": {}}}


@pytest.mark.parametrize(
    ("schema", "fields"),
    [
        ({"type": "object", "anyOf": [{"required": ["at"]}], "properties": {"at": {}}}, {"at"}),
        ({"oneOf": [AREA, PLACE]}, {"area", "x", "at"}),
        ({"type": "object", "allOf": [AREA, {"not": PLACE}]}, {"area"}),
        ({"$ref": "#/$defs/Area", "$defs": {"Area": AREA}}, {"area"}),
        ({"anyOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"anyOf": [AREA]}}}, {"area"}),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, set()),
        ({"$ref": "https://a.org/schema"}, set()),
        ({}, set()),
    ],
)
def test_a_root_that_is_more_than_an_object_is_told_in_words(
    schema: Json, fields: set[str]
) -> None:
    [made] = body(tools=(ToolSpec("look", "Look.", schema),))["tools"]
    assert made["parameters"]["type"] == "object"
    assert set(made["parameters"]["properties"]) == fields
    assert made["parameters"].get("$defs") == schema.get("$defs")
    described, *told = made["description"].split("\nThe arguments also have to fit")
    assert described == "Look."
    rules = {key: schema[key] for key in schema.keys() & {"$ref", "allOf", "anyOf", "oneOf"}}
    assert [msgspec.json.decode(rule.partition(": ")[2]) for rule in told] == (
        [rules] if rules else []
    )


def test_what_a_root_says_of_its_fields_wins_over_its_parts() -> None:
    at = {"type": "string"}
    schema = {"type": "object", "properties": {"at": at}, "oneOf": [PLACE]}
    [made] = body(tools=(ToolSpec("look", "", schema),))["tools"]
    assert made["parameters"]["properties"] == {"x": {"type": "number"}, "at": at}
    assert schema == {"type": "object", "properties": {"at": at}, "oneOf": [PLACE]}


def test_the_fake_refuses_a_root_that_is_more_than_an_object() -> None:
    function = {"type": "function", "name": "look", "parameters": {**AREA, "anyOf": []}}
    settings = Settings(options={"openai": {"tools": [function]}})
    request = Request(messages=(HI,), settings=settings)
    assert "at the top level" in problem_of(request, "gpt-5")


def test_a_native_declaration_replaces_ours() -> None:
    native = replace(LOOK, native={"openai": {"type": "apply_patch"}, "google": {}})
    assert body(tools=(native,))["tools"] == [{"type": "apply_patch"}]


def test_tools_that_the_provider_runs() -> None:
    search = {"allowed_domains": ["a.org"], "user_location": {"city": "Oslo"}}
    vectors = {"type": "file_search", "vector_store_ids": ["vs_1"]}
    encoded = body(
        provider_tools=(
            ProviderTool("web_search", options=search),
            ProviderTool("code_execution"),
            ProviderTool("image_generation"),
            ProviderTool("file_search", native={"openai": vectors}),
        )
    )
    assert encoded["tools"] == [
        {
            "type": "web_search",
            "filters": {"allowed_domains": ["a.org"]},
            "user_location": {"type": "approximate", "city": "Oslo"},
        },
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "image_generation"},
        vectors,
    ]
    assert "code_interpreter_call.outputs" in encoded["include"]


def test_a_tool_or_an_option_that_it_does_not_have_is_told_of() -> None:
    tools = (ProviderTool("web_fetch"), ProviderTool("web_search", options={"max_uses": 3}))
    body, notices = encoded_request(Request(messages=(HI,), provider_tools=tools))
    assert body["tools"] == [{"type": "web_search"}]
    assert notices == (
        f"The tool web_fetch was not sent to {NAME}, which does not know it.",
        f"max_uses of web_search was not sent to {NAME}, which does not know it.",
    )


# --- The form of the answer ---------------------------------------------------------------------

CITY: Final = {"type": "object", "properties": {"city": {"type": "string"}}}


def test_an_answer_is_held_to_its_form() -> None:
    encoded = body(output=Shape(CITY, "The city!", "Where it is."))
    assert encoded["text"]["format"] == {
        "type": "json_schema",
        "name": "The_city_",
        "description": "Where it is.",
        "schema": {**CITY, "required": ["city"], "additionalProperties": False},
        "strict": True,
    }
    assert "instructions" not in encoded


def test_a_form_that_strict_mode_cannot_say_is_sent_without_it() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}
    made = body(output=Shape(schema))["text"]["format"]
    assert (made["strict"], made["schema"]) == (False, schema)


@pytest.mark.parametrize(
    ("schema", "profile"),
    [(CITY, Profile(structured=False)), ({"type": "array", "items": {}}, UNKNOWN)],
)
def test_where_a_model_cannot_be_held_to_it_the_form_is_asked_for(
    schema: Json, profile: Profile
) -> None:
    encoded = body(system=(Block("Be brief."),), output=Shape(schema), profile=profile)
    assert "text" not in encoded
    asked_for, _, form = encoded["instructions"].rpartition("\n")
    assert asked_for.startswith("Be brief.\n\n")
    assert msgspec.json.decode(form) == schema


# --- Messages -----------------------------------------------------------------------------------


def test_who_says_what() -> None:
    checkpoint = Message(
        "user", (Text("So far."),), "checkpoint", "model", checkpoint=Checkpoint(2, 0, 9, 1)
    )
    context = Message("system", (Text("In Oslo."),), "context")
    assert items(checkpoint, context, HI, injected("Go on."), answer(Text("Ho"), model="x:y")) == [
        asks("So far."),
        asks("In Oslo.", "system"),
        asks("Hi"),
        asks("Go on."),
        assistant_item("Ho"),
    ]


def test_a_message_that_says_nothing_is_left_out() -> None:
    empty = Message("user", (Text(""),), "prompt")
    assert items(HI, empty, answer(Text("")), answer(Reasoning("hm"))) == [asks("Hi")]


def test_a_source_in_a_prompt_is_said() -> None:
    prompt = user_message([Text("Read"), Source("https://a.org", "A"), Source("https://b.org")])
    assert [part["text"] for part in items(prompt)[0]["content"]] == [
        "Read",
        "A: https://a.org",
        "https://b.org",
    ]


def test_calls_and_results_of_another_provider() -> None:
    call = ToolCall("toolu_1", "look", '{"at": "this', metadata={"anthropic": {"item": 1}})
    empty = ToolCall("toolu_2", "ping", "")
    results = results_message(
        [
            ToolResult("toolu_1", "look", (Text("No "), Text("JSON")), "failed"),
            ToolResult("toolu_2", "ping", ()),
        ]
    )
    history = (HI, answer(Reasoning("hm"), Text("I look."), call, empty, model="a:b"), results)
    assert items(*history)[1:] == [
        assistant_item("I look."),
        {
            "type": "function_call",
            "call_id": "toolu_1",
            "name": "look",
            "arguments": '{"at": "this',
        },
        {"type": "function_call", "call_id": "toolu_2", "name": "ping", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "toolu_1", "output": "No JSON"},
        {"type": "function_call_output", "call_id": "toolu_2", "output": ""},
    ]


@pytest.mark.parametrize(
    ("called", "sent"), [("", "unnamed"), ("my.tool", "my_tool"), ("x" * 65, "x" * 64)]
)
@pytest.mark.parametrize("model", [NAME, "google:gemini-3.8-flash"])
def test_a_call_by_a_name_that_no_tool_can_have_is_sent_by_one_that_can(
    called: str, sent: str, model: str
) -> None:
    result = results_message([ToolResult("c1", called, (Text("No such tool."),), "failed")])
    _, call, _ = items(HI, answer(ToolCall("c1", called, "{}"), model=model), result)
    assert call["name"] == sent


def test_an_id_that_is_too_long_is_the_same_short_one_for_call_and_result() -> None:
    long = "x" * 100
    result = results_message([ToolResult(long, "look", (Text("it"),))])
    call, output = items(HI, answer(ToolCall(long, "look", "{}")), result)[1:]
    assert call["call_id"] == output["call_id"]
    assert len(call["call_id"]) <= 64


def test_what_another_provider_ran_is_told_in_words() -> None:
    call = ToolCall("srv_1", "web_search", '{"query":"x"}', provider_executed=True)
    result = ToolResult("srv_1", "web_search", (Text("y"),), provider_executed=True)
    content = items(HI, answer(Text("I look."), call, result, model="a:b"))[1]["content"]
    assert [part["text"] for part in content] == ["I look.", '[web_search {"query":"x"} → y]']


# --- Files --------------------------------------------------------------------------------------


def data_url(file: File) -> str:
    assert file.data is not None
    return f"data:{file.media_type};base64,{b64encode(file.data).decode()}"


@pytest.mark.parametrize(
    ("file", "sent"),
    [
        (PNG, {"type": "input_image", "image_url": data_url(PNG), "detail": "auto"}),
        (
            replace(PNG, metadata={"openai": {"detail": "high"}, "google": {"x": 1}}),
            {"type": "input_image", "image_url": data_url(PNG), "detail": "high"},
        ),
        (
            File("image/jpeg", ref="https://a.org/b.jpg"),
            {"type": "input_image", "image_url": "https://a.org/b.jpg", "detail": "auto"},
        ),
        (PDF, {"type": "input_file", "filename": "a.pdf", "file_data": data_url(PDF)}),
        (
            replace(PDF, name=None),
            {"type": "input_file", "filename": "document.pdf", "file_data": data_url(PDF)},
        ),
        (
            File("application/pdf", ref="https://a.org/b.pdf"),
            {"type": "input_file", "file_url": "https://a.org/b.pdf"},
        ),
        (
            File("text/csv", "t.csv", b"a,b"),
            {"type": "input_text", "text": "<file name='t.csv'>\na,b\n</file>"},
        ),
    ],
    ids=str,
)
def test_files_that_are_read(file: File, sent: Json) -> None:
    assert items(user_message([file]))[0]["content"] == [sent]
    result = results_message([ToolResult("c", "look", (Text("See:"), file))])
    output = items(HI, answer(ToolCall("c", "look", "{}")), result)[-1]["output"]
    assert output == [{"type": "input_text", "text": "See:"}, sent]


@pytest.mark.parametrize(
    ("file", "profile"),
    [
        (File("audio/wav", "a.wav", b"wav"), UNKNOWN),
        (File("image/svg+xml", "a.svg", b"<svg/>"), UNKNOWN),
        (File("image/png", "a.png"), UNKNOWN),
        (File("image/png", "a.png", b""), UNKNOWN),
        (File("application/pdf", "a.pdf", b""), UNKNOWN),
        (PNG, Profile(files=())),
        (PDF, Profile(files=("image",))),
    ],
    ids=str,
)
def test_files_that_are_not_read_are_told_of(file: File, profile: Profile) -> None:
    stored = Message("user", (file,), "prompt")  # as a history may have it
    body, notices = encoded_request(Request(messages=(stored,)), profile)
    [part] = body["input"][0]["content"]
    assert part["type"] == "input_text"
    assert file.name is not None
    assert file.name in part["text"]
    assert len(notices) == 1
    assert file.name in notices[0]


@pytest.mark.parametrize("spelled", ["image/jpg", "IMAGE/JPEG", "Image/Jpg; q=1"])
def test_media_types_are_sent_as_they_are_usually_spelled(spelled: str) -> None:
    (sent,) = items(user_message([File(spelled, "a", b"bytes")]))[0]["content"]
    assert sent["image_url"] == data_url(File("image/jpeg", "a", b"bytes"))


def test_a_notice_is_given_once() -> None:
    wav = user_message([File("audio/wav", "a.wav", b"wav")])
    assert len(encoded_request(Request(messages=(wav, wav)))[1]) == 1


def test_a_picture_of_another_provider_is_told_of() -> None:
    body, notices = encoded_request(
        Request(messages=(HI, answer(Text("See:"), PNG, model="google:g")))
    )
    texts = [part["text"] for part in body["input"][1]["content"]]
    assert texts == ["See:", "[cat.png (image/png) was left out: this model cannot read it]"]
    assert len(notices) == 1


# --- Tools of ours that the provider declares ---------------------------------------------------


def native_call(item: Json, arguments: str) -> ToolCall:
    return ToolCall(item["call_id"], "it", arguments, metadata={"openai": {"item": item}})


@pytest.mark.parametrize(
    ("item", "result", "output"),
    [
        (
            {"type": "custom_tool_call", "id": "ctc_1", "name": "it", "input": "x"},
            ToolResult("c", "it", (Text("done"),)),
            {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
        ),
        (
            {"type": "apply_patch_call", "id": "apc_1", "operation": {}, "status": "completed"},
            ToolResult("c", "it", (Text("no such file"),), "failed"),
            {
                "type": "apply_patch_call_output",
                "call_id": "c",
                "status": "failed",
                "output": "no such file",
            },
        ),
        (
            {"type": "shell_call", "id": "sh_1", "action": {"commands": ["ls"]}},
            ToolResult("c", "it", (Text("a.txt"),)),
            {
                "type": "shell_call_output",
                "call_id": "c",
                "output": [
                    {
                        "stdout": "a.txt",
                        "stderr": "",
                        "outcome": {"type": "exit", "exit_code": 0},
                    }
                ],
            },
        ),
        (
            {"type": "local_shell_call", "id": "lsh_1", "action": {}, "status": "completed"},
            ToolResult("c", "it", (Text("a.txt"),)),
            {"type": "local_shell_call_output", "id": "c", "output": "a.txt"},
        ),
        (
            {"type": "computer_call", "id": "cu_1", "action": {}, "status": "completed"},
            ToolResult("c", "it", (Text("clicked"), PNG)),
            {
                "type": "computer_call_output",
                "call_id": "c",
                "output": {"type": "computer_screenshot", "image_url": data_url(PNG)},
            },
        ),
    ],
    ids=lambda value: value.get("type") if isinstance(value, dict) else "",
)
def test_a_call_is_answered_in_its_own_form(item: Json, result: ToolResult, output: Json) -> None:
    item = {**item, "call_id": "c"}
    history = (HI, answer(native_call(item, "{}")), results_message([result]))
    assert items(*history)[1:] == [item, output]
