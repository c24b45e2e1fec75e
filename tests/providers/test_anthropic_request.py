"""How requests are written for the Anthropic Messages API."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.kernel.messages import (
    Checkpoint,
    Content,
    File,
    Message,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    injected,
    results_message,
    user_message,
)
from holdfast.kernel.model import (
    Block,
    Effort,
    ProviderTool,
    Request,
    Settings,
    Shape,
    ToolSpec,
)
from holdfast.kernel.model_context import Trim, repair, view
from holdfast.providers.anthropic.messages import EMPTY_MESSAGE_TEXT
from holdfast.providers.anthropic.request import DEFAULT_MAX_TOKENS, AnthropicTarget, encode
from holdfast.providers.profile import UNKNOWN, Profile
from holdfast.testing.fake.anthropic import DIALECT
from holdfast.testing.fake.dialect_interface import ReceivedRequest
from tests.kernel.histories import conversations, histories

OPUS: Final = "anthropic:claude-opus-5"
MARK: Final = {"type": "ephemeral"}
HI: Final = user_message("Hi")
WEATHER: Final = ToolSpec("weather", "Of a city.", {"type": "object", "properties": {}})
NO_TRIM: Final = Trim(over=10**9, to=10**9)
HEADERS: Final = {
    "x-api-key": "k",
    "anthropic-version": "2023-06-01",
    "content-type": "application/json",
}
BUDGET: Final = Profile(options={"thinking": "budget"})


def written(
    *messages: Message, profile: Profile = UNKNOWN, provider: str = "anthropic", **fields: Any
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The body that is sent, which the API takes, and the notices."""
    request = Request(messages=messages or (HI,), **fields)
    data, notices = encode(request, AnthropicTarget(provider, "claude-opus-5", profile))
    assert DIALECT.problem(ReceivedRequest("/v1/messages", {}, HEADERS, data)) is None
    return msgspec.json.decode(data), notices


def body(*messages: Message, **fields: Any) -> dict[str, Any]:
    body, notices = written(*messages, **fields)
    assert notices == ()
    return body


def unmarked(value: Any) -> Any:
    """Without cache marks."""
    if isinstance(value, dict):
        return {k: unmarked(v) for k, v in value.items() if k != "cache_control"}
    return [unmarked(one) for one in value] if isinstance(value, list) else value


def turns(*messages: Message, **fields: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    made = unmarked(body(*messages, **fields))
    return [(message["role"], message["content"]) for message in made["messages"]]


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def answer(*parts: Part, model: str | None = OPUS) -> Message:
    return Message("assistant", parts, "answer", model=model)


def results(*given: ToolResult) -> Message:
    return results_message(given)


# --- The whole ----------------------------------------------------------------------------------


def test_the_least_that_is_asked() -> None:
    assert unmarked(body()) == {
        "model": "claude-opus-5",
        "max_tokens": DEFAULT_MAX_TOKENS,
        "stream": True,
        "messages": [{"role": "user", "content": [text("Hi")]}],
    }


def test_the_same_request_gives_the_same_bytes() -> None:
    request = Request(messages=(HI, answer(Text("Ho")), HI), tools=(WEATHER,), effort="high")
    target = AnthropicTarget("anthropic", "claude-opus-5", UNKNOWN)
    assert encode(request, target) == encode(request, target)


def test_a_history_that_grows_begins_as_before() -> None:
    calls = answer(Reasoning("Hm.", "s"), ToolCall("t1", "weather", '{"a": 1}'))
    history = [HI, calls, results(ToolResult("t1", "weather", (Text("Sunny"),))), answer(Text("!"))]
    history += [user_message("And now?"), injected("Go on."), answer(Text("Done.")), HI]
    sent = unmarked(body(*history))["messages"]
    for length in (1, 3, 6):
        shorter = unmarked(body(*history[:length]))["messages"]
        assert sent[: len(shorter)] == shorter


def test_options_of_this_provider_are_merged_last() -> None:
    options: dict[str, dict[str, Any]] = {
        "anthropic": {"metadata": {"user_id": "u"}, "output_config": {"effort": "max"}},
        "openai": {"store": True},
    }
    encoded = body(settings=Settings(options=options), effort="low")
    assert encoded["metadata"] == {"user_id": "u"}
    assert encoded["output_config"] == {"effort": "max"}
    assert "store" not in encoded


@pytest.mark.parametrize(
    ("given", "sent"),
    [("a\ud83d\ude42b", "a🙂b"), ("a\ud800b", "a\ufffdb"), ("a\x00b", "a\x00b")],
)
def test_any_text_can_be_sent(given: str, sent: str) -> None:
    assert turns(user_message(given)) == [("user", [text(sent)])]


def test_what_was_given_is_left_as_it_is() -> None:
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    call = ToolCall(
        "s1",
        "web_search",
        "{}",
        provider_executed=True,
        metadata={"anthropic": {"type": "x_tool_use"}},
    )
    note: dict[str, Any] = {"anthropic": {"block": found}}
    result = ToolResult("s1", "web_search", (), provider_executed=True, metadata=note)
    native: dict[str, Any] = {"type": "bash_20250124", "name": "bash"}
    request = Request(
        system=(Block("Be brief.", cache=True),),
        messages=(HI, answer(call, result)),
        tools=(ToolSpec("bash", "", {}, native={"anthropic": native}),),
        output=Shape({"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}}),
        settings=Settings(options={"anthropic": {"metadata": {}}}),
    )
    before = deepcopy(request)
    encode(request, AnthropicTarget("anthropic", "m", UNKNOWN))
    assert request == before
    assert native == {"type": "bash_20250124", "name": "bash"}
    assert found == {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}


@given(
    histories | conversations(),
    st.sampled_from((None, OPUS, "openai:gpt")),
    st.sampled_from((UNKNOWN, BUDGET)),
    st.sampled_from((None, "none", "high")),
)
def test_any_history_that_the_kernel_repaired_is_taken(
    history: list[Message], model: str | None, profile: Profile, effort: Effort | None
) -> None:
    named = [replace(one, model=model) if one.role == "assistant" else one for one in history]
    messages = repair(view([*named, HI], NO_TRIM), NO_TRIM)
    data, _ = encode(
        Request(messages=messages, tools=(WEATHER,), effort=effort),
        AnthropicTarget("anthropic", "claude-opus-5", profile),
    )
    problem = DIALECT.problem(ReceivedRequest("/v1/messages", {}, HEADERS, data))
    # Ids are told apart when an answer is taken in, and these histories never were.
    assert problem is None or "ids must be unique" in problem.message


# --- Messages -----------------------------------------------------------------------------------


def test_everybody_but_the_model_is_a_user() -> None:
    summary = Message(
        "user", (Text("Summary."),), "checkpoint", "model", checkpoint=Checkpoint(0, 0, 0, 0)
    )
    marker = Message("system", (Text("Interrupted."),), "marker", "model")
    context = Message("system", (Text("Files."),), "context", "model")
    assert turns(summary, HI, answer(Text("Ho")), marker, context, injected("Go on.")) == [
        ("user", [text("Summary."), text("Hi")]),
        ("assistant", [text("Ho")]),
        ("user", [text("Interrupted."), text("Files."), text("Go on.")]),
    ]


def test_answers_in_a_row_are_one() -> None:
    assert turns(HI, answer(Text("a")), answer(Text("b")), HI)[1] == (
        "assistant",
        [text("a"), text("b")],
    )


def test_a_conversation_that_begins_with_an_answer_is_given_a_beginning() -> None:
    first, second, _ = turns(answer(Text("Welcome.")), HI)
    assert first[0] == "user"
    assert second == ("assistant", [text("Welcome.")])


def test_text_without_a_letter_is_left_out() -> None:
    prompt = user_message([Text(" \n"), Text("Hi")])
    assert turns(HI, answer(Text("\n\n"), Text("Ho")), prompt) == [
        ("user", [text("Hi")]),
        ("assistant", [text("Ho")]),
        ("user", [text("Hi")]),
    ]
    assert turns(HI, answer(Text("")), HI) == [("user", [text("Hi"), text("Hi")])]


BLANK: Final = Message("user", (Text(" \n"),), "prompt")


@pytest.mark.parametrize("blank", [BLANK, replace(BLANK, parts=())])
def test_a_prompt_without_a_word_is_still_a_prompt(blank: Message) -> None:
    """Without it nobody would have asked, or the model last."""
    empty = ("user", [text(EMPTY_MESSAGE_TEXT)])
    assert turns(blank) == [empty]
    assert turns(HI, answer(Text("Ho")), blank)[-1] == empty
    assert turns(blank, HI) == [("user", [text(EMPTY_MESSAGE_TEXT), text("Hi")])]


def test_a_source_in_a_prompt_is_told() -> None:
    prompt = user_message([Source("https://a.example", "A"), Source("https://b.example")])
    assert turns(prompt) == [("user", [text("A: https://a.example"), text("https://b.example")])]


def test_results_come_first_in_the_message_behind_their_calls() -> None:
    calls = answer(ToolCall("t1", "a", "{}"), ToolCall("t2", "b", "{}"))
    both = results(ToolResult("t1", "a", (Text("1"),)), ToolResult("t2", "b", (Text("2"),)))
    assert turns(HI, calls, both, user_message("Stop."))[2] == (
        "user",
        [
            {"type": "tool_result", "tool_use_id": "t1", "content": "1"},
            {"type": "tool_result", "tool_use_id": "t2", "content": "2"},
            text("Stop."),
        ],
    )


def test_what_came_before_the_results_is_told_behind_them() -> None:
    call = answer(ToolCall("t1", "a", "{}"))
    marker = Message("user", (Text("Interrupted."),), "marker", "model")
    sent = turns(HI, call, marker, results(ToolResult("t1", "a", (Text("1"),))))
    assert [block["type"] for block in sent[2][1]] == ["tool_result", "text"]


def sent_result(*content: Content, outcome: ToolOutcome = "ok", **fields: Any) -> dict[str, Any]:
    call = answer(ToolCall("t1", "a", "{}"))
    body, _ = written(HI, call, results(ToolResult("t1", "a", content, outcome)), **fields)
    (block,) = unmarked(body)["messages"][-1]["content"]
    assert (block.pop("type"), block.pop("tool_use_id")) == ("tool_result", "t1")
    return dict(block)


def test_a_result_without_a_word_has_no_content() -> None:
    assert sent_result() == {}
    assert sent_result(Text(" ")) == {}


def test_a_result_of_several_texts_keeps_them_apart() -> None:
    assert sent_result(Text("a"), Text("b")) == {"content": [text("a"), text("b")]}


@pytest.mark.parametrize(
    "outcome", ["failed", "refused", "skipped", "interrupted", "lost", "timed_out"]
)
def test_a_result_that_is_none_is_an_error(outcome: ToolOutcome) -> None:
    assert sent_result(Text("No."), outcome=outcome) == {"content": "No.", "is_error": True}


PNG: Final = File("image/png", "a.png", b"\x89PNG")
PNG_BLOCK: Final = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="},
}
PDF: Final = File("application/pdf", "a.pdf", b"%PDF")
PDF_BLOCK: Final = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
    "title": "a.pdf",
}


def test_a_result_may_have_pictures_and_documents() -> None:
    assert sent_result(Text("Look:"), PNG, PDF) == {
        "content": [text("Look:"), PNG_BLOCK, PDF_BLOCK]
    }


def test_an_error_with_a_picture_is_not_called_one() -> None:
    assert sent_result(Text("No:"), PNG, outcome="failed") == {"content": [text("No:"), PNG_BLOCK]}


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
        ("", {}),
        ("  ", {}),
        ('{"a": ', {"_raw": '{"a": '}),
        ("[1]", {"_raw": "[1]"}),
        ('"x"', {"_raw": '"x"'}),
        ("null", {"_raw": "null"}),
        ('{"a": NaN}', {"_raw": '{"a": NaN}'}),
        ('{"a": "\\ud800"}', {"_raw": '{"a": "\\ud800"}'}),
        ('{"a": "\ud800"}', {"_raw": '{"a": "\ufffd"}'}),
        ("{" * 5_000, {"_raw": "{" * 5_000}),
    ],
)
def test_arguments_are_sent_as_an_object_and_never_lost(arguments: str, sent: Any) -> None:
    messages = (HI, answer(ToolCall("t1", "a", arguments)), results(ToolResult("t1", "a", ())))
    assert turns(*messages)[1][1][0]["input"] == sent


# --- Files --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "block"),
    [
        (PNG, PNG_BLOCK),
        (PDF, PDF_BLOCK),
        (
            File("image/jpg; q=1", None, b"x"),
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/jpeg", "data": "eA=="},
            },
        ),
        (
            File("image/webp", ref="https://a.example/b.webp"),
            {"type": "image", "source": {"type": "url", "url": "https://a.example/b.webp"}},
        ),
        (
            File("application/pdf", ref="https://a.example/b.pdf"),
            {"type": "document", "source": {"type": "url", "url": "https://a.example/b.pdf"}},
        ),
        (
            File("application/json", "a.json", b'{"a": 1}'),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": '{"a": 1}'},
                "title": "a.json",
            },
        ),
        (File("text/csv", "e.csv", b" \n"), text("<file name='e.csv'>\n \n\n</file>")),
    ],
)
def test_files_go_as_they_are(file: File, block: dict[str, Any]) -> None:
    assert turns(user_message([Text("See:"), file]))[0][1] == [text("See:"), block]


def test_a_text_file_is_spelled_out_for_a_model_that_takes_no_files() -> None:
    sent = turns(user_message(File("text/plain", "a.txt", b"Hello")), profile=Profile(files=()))
    assert sent == [("user", [text("<file name='a.txt'>\nHello\n</file>")])]


@pytest.mark.parametrize(
    ("file", "profile"),
    [
        (File("image/svg+xml", "a", b"\xff"), UNKNOWN),
        (File("audio/mpeg", "a", b"x"), UNKNOWN),
        (File("audio/mpeg", "a", b"x"), Profile(files=("audio",))),
        (File("application/zip", "a", b"x"), UNKNOWN),
        (File("text/plain", "a", b"\xff\xfe"), UNKNOWN),
        (File("image/png", "a", ref="blob:1"), UNKNOWN),
        (File("image/png", "a", b""), UNKNOWN),
        (File("image/png", "a", ref="http://a.example/b.png"), UNKNOWN),
        (File("application/pdf", "a", ref="http://a.example/b.pdf"), UNKNOWN),
        (File("image/png", "a", b"x"), Profile(files=("pdf",))),
    ],
)
def test_a_file_that_is_not_taken_is_said_to_be_missing(file: File, profile: Profile) -> None:
    body, notices = written(user_message(file), profile=profile)
    (block,) = unmarked(body)["messages"][0]["content"]
    assert block["type"] == "text"
    assert file.media_type in block["text"]
    (notice,) = notices
    assert notice.startswith("a was not sent to anthropic:claude-opus-5")


def test_a_file_that_cannot_be_fetched_is_not_called_unreadable() -> None:
    body, notices = written(user_message(File("image/png", "a", ref="http://a.example/b.png")))
    assert notices == (f"a was not sent to {OPUS}, which fetches only https:// URLs.",)
    (block,) = body["messages"][0]["content"]
    assert block["text"] == "[a (image/png) was left out: it could not be fetched]"


def test_a_file_in_an_answer_is_said_to_be_missing() -> None:
    body, notices = written(HI, answer(PNG, Text("Here."), model="google:gemini"), HI)
    assert len(notices) == 1
    assert [one["type"] for one in body["messages"][1]["content"]] == ["text", "text"]


# --- Tools --------------------------------------------------------------------------------------


def test_tools_are_declared() -> None:
    native = {"anthropic": {"type": "bash_20250124", "name": "bash"}, "openai": {"type": "shell"}}
    bash = ToolSpec("bash", "Run.", {"type": "object"}, native=native)
    bare = ToolSpec("clock", "", {})
    assert unmarked(body(tools=(WEATHER, bash, bare)))["tools"] == [
        {
            "name": "weather",
            "description": "Of a city.",
            "input_schema": {"type": "object", "properties": {}},
        },
        {"type": "bash_20250124", "name": "bash"},
        {"name": "clock", "input_schema": {"type": "object"}},
    ]


@pytest.mark.parametrize("choice", ["allOf", "anyOf", "oneOf"])
def test_arguments_that_are_a_choice_are_one_object_and_the_choice_is_told(choice: str) -> None:
    by_id = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    by_name = {"type": "object", "properties": {"name": {"type": "string"}}}
    schema = {"type": "object", "properties": {"full": {}}, choice: [by_id, by_name]}
    (tool,) = body(tools=(ToolSpec("look", "Look up.", schema),))["tools"]
    assert tool["input_schema"] == {
        "type": "object",
        "properties": {"full": {}, "id": {"type": "integer"}, "name": {"type": "string"}},
    }
    assert tool["description"].startswith("Look up.\nThe arguments also have to fit")
    assert msgspec.json.encode({choice: [by_id, by_name]}).decode() in tool["description"]


def test_arguments_by_names_that_are_not_taken_are_told_beside_the_others() -> None:
    fields = {"full": {"type": "boolean"}, "filter[id]": {"type": "integer"}, "$top": {}}
    schema = {
        "type": "object",
        "properties": fields,
        "required": ["full", "filter[id]"],
        "additionalProperties": False,
    }
    (tool,) = body(tools=(ToolSpec("look", "Look up.", schema),))["tools"]
    assert tool["input_schema"] == {
        "type": "object",
        "properties": {"full": {"type": "boolean"}},
        "required": ["full"],
    }
    told = {"properties": {"filter[id]": {"type": "integer"}, "$top": {}}}
    told_json = msgspec.json.encode({**told, "required": ["filter[id]"]}).decode()
    assert tool["description"] == (
        f"Look up.\nThe arguments also have to fit this JSON schema: {told_json}"
    )


@pytest.mark.parametrize(
    ("tool", "declared"),
    [
        (
            ProviderTool("web_search"),
            {"type": "web_search_20260318", "name": "web_search", "allowed_callers": ["direct"]},
        ),
        (
            ProviderTool(
                "web_search",
                {
                    "max_uses": 3,
                    "blocked_domains": ["a.example"],
                    "user_location": {"city": "Oslo", "country": "NO"},
                },
            ),
            {
                "type": "web_search_20260318",
                "name": "web_search",
                "allowed_callers": ["direct"],
                "max_uses": 3,
                "blocked_domains": ["a.example"],
                "user_location": {"type": "approximate", "city": "Oslo", "country": "NO"},
            },
        ),
        (
            ProviderTool("web_fetch", {"allowed_domains": ["a.example"]}),
            {
                "type": "web_fetch_20260318",
                "name": "web_fetch",
                "allowed_callers": ["direct"],
                "allowed_domains": ["a.example"],
            },
        ),
        (
            ProviderTool("code_execution"),
            {"type": "code_execution_20250825", "name": "code_execution"},
        ),
        (
            ProviderTool("x", native={"anthropic": {"type": "memory_20250818", "name": "memory"}}),
            {"type": "memory_20250818", "name": "memory"},
        ),
    ],
)
def test_tools_of_the_provider_are_declared(tool: ProviderTool, declared: dict[str, Any]) -> None:
    assert unmarked(body(provider_tools=(tool,)))["tools"] == [declared]


def test_declared_tools_are_those_of_the_sdk() -> None:
    from anthropic.types import (
        CodeExecutionTool20250825Param,
        WebFetchTool20260318Param,
        WebSearchTool20260318Param,
    )

    options = {"max_uses": 1, "allowed_domains": ["a.example"]}
    tools = (
        ProviderTool("web_search", {**options, "user_location": {}}),
        ProviderTool("web_fetch", options),
        ProviderTool("code_execution"),
    )
    kinds = (WebSearchTool20260318Param, WebFetchTool20260318Param, CodeExecutionTool20250825Param)
    for declared, kind in zip(body(provider_tools=tools)["tools"], kinds, strict=True):
        known = kind.__annotations__
        assert declared.keys() <= known.keys()
        assert declared["type"] in str(known["type"])


@pytest.mark.parametrize(
    ("tool", "left_out"),
    [
        (ProviderTool("image_generation"), "image_generation, which it does not have"),
        (ProviderTool("code_execution", {"max_uses": 1}), "max_uses of code_execution"),
        (ProviderTool("web_fetch", {"user_location": {}}), "user_location of web_fetch"),
        (
            ProviderTool("web_search", {"allowed_domains": ["a"], "blocked_domains": ["b"]}),
            "blocked_domains of web_search",
        ),
    ],
)
def test_what_the_provider_does_not_have_is_told(tool: ProviderTool, left_out: str) -> None:
    _, notices = written(provider_tools=(tool,))
    assert notices == (f"anthropic:claude-opus-5 was asked without {left_out}.",)


# --- Settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "profile", "limit"),
    [
        (Settings(), UNKNOWN, DEFAULT_MAX_TOKENS),
        (Settings(), Profile(max_output=64_000), 64_000),
        (Settings(max_output_tokens=7), Profile(max_output=64_000), 7),
    ],
)
def test_how_long_an_answer_may_be(settings: Settings, profile: Profile, limit: int) -> None:
    assert body(settings=settings, profile=profile)["max_tokens"] == limit


@pytest.mark.parametrize(
    ("effort", "thinking", "level"),
    [
        (None, None, None),
        ("none", {"type": "disabled"}, None),
        ("minimal", {"type": "adaptive", "display": "summarized"}, "low"),
        ("low", {"type": "adaptive", "display": "summarized"}, "low"),
        ("medium", {"type": "adaptive", "display": "summarized"}, "medium"),
        ("high", {"type": "adaptive", "display": "summarized"}, "high"),
        ("xhigh", {"type": "adaptive", "display": "summarized"}, "xhigh"),
        ("max", {"type": "adaptive", "display": "summarized"}, "max"),
    ],
)
@pytest.mark.parametrize("profile", [UNKNOWN, Profile(options={"thinking": "adaptive"})])
def test_how_hard_to_think(
    effort: Effort | None, thinking: Any, level: str | None, profile: Profile
) -> None:
    encoded = body(effort=effort, profile=profile)
    assert encoded.get("thinking") == thinking
    assert encoded.get("output_config", {}).get("effort") == level


def test_a_model_is_asked_for_no_more_than_it_can() -> None:
    profile = Profile(efforts=("low", "high"))
    assert body(effort="max", profile=profile)["output_config"] == {"effort": "high"}
    assert body(effort="none", profile=profile)["thinking"]["type"] == "adaptive"
    assert "thinking" not in body(effort="high", profile=Profile(efforts=()))


@pytest.mark.parametrize(
    ("effort", "limit", "budget"),
    [
        ("minimal", 32_000, 1_024),
        ("low", 32_000, 4_096),
        ("medium", 32_000, 8_192),
        ("high", 32_000, 16_384),
        ("xhigh", 32_000, 24_000),
        ("max", 128_000, 65_536),
        ("max", 1_025, 1_024),
        ("high", 2_000, 1_500),
    ],
)
def test_how_many_tokens_to_think(effort: Effort, limit: int, budget: int) -> None:
    settings = Settings(max_output_tokens=limit)
    encoded = body(effort=effort, settings=settings, profile=BUDGET)
    assert encoded["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert "output_config" not in encoded


def test_an_answer_that_may_hardly_be_long_is_not_thought_about() -> None:
    body, notices = written(
        effort="high", settings=Settings(max_output_tokens=1_024), profile=BUDGET
    )
    assert "thinking" not in body
    assert len(notices) == 1


def test_no_effort_turns_thinking_off_for_every_model() -> None:
    assert body(effort="none", profile=BUDGET)["thinking"] == {"type": "disabled"}


def test_a_turn_that_began_without_a_thought_goes_on_without() -> None:
    """Another provider began it. Models with a budget refuse to think from there on."""
    call = ToolCall("t1", "a", "{}")
    result = results(ToolResult("t1", "a", (Text("1"),)))
    foreign, own = answer(call, model="openai:gpt"), answer(Reasoning("Hm.", "s"), call)
    assert "thinking" not in body(HI, foreign, result, effort="high", profile=BUDGET)
    assert "thinking" in body(HI, foreign, result, effort="high")
    assert "thinking" in body(HI, own, result, effort="high", profile=BUDGET)
    done = (HI, foreign, result, answer(Text("Ho.")), HI)
    assert "thinking" in body(*done, effort="high", profile=BUDGET)
    second = answer(ToolCall("t2", "a", "{}"))
    more = (HI, own, result, second, results(ToolResult("t2", "a", (Text("2"),))))
    assert "thinking" in body(*more, effort="high", profile=BUDGET)


@pytest.mark.parametrize(
    ("settings", "fields", "sent", "left_out"),
    [
        ({"temperature": 0.0}, {}, {"temperature": 0.0}, []),
        ({"top_p": 0.5, "top_k": 9}, {}, {"top_p": 0.5, "top_k": 9}, []),
        ({"temperature": 0.2, "top_p": 0.5}, {}, {"temperature": 0.2}, ["top_p"]),
        ({"temperature": 0.2, "top_k": 3}, {"effort": "low"}, {}, ["temperature", "top_k"]),
        ({"top_p": 0.5}, {"effort": "low"}, {}, ["top_p"]),
        ({"top_p": 0.95}, {"effort": "low"}, {"top_p": 0.95}, []),
        ({"temperature": 0.2}, {"effort": "none"}, {"temperature": 0.2}, []),
        ({"temperature": 0.2}, {"effort": "low", "profile": BUDGET}, {}, ["temperature"]),
        (
            {"temperature": 0.2, "top_p": 0.99, "top_k": 1},
            {"profile": Profile(sampling=False)},
            {},
            ["temperature", "top_p", "top_k"],
        ),
        (
            {"presence_penalty": 0.1, "frequency_penalty": 0.2},
            {},
            {},
            ["presence_penalty", "frequency_penalty"],
        ),
    ],
)
def test_what_a_model_does_not_take_is_left_out_and_told(
    settings: dict[str, Any], fields: dict[str, Any], sent: dict[str, Any], left_out: list[str]
) -> None:
    body, notices = written(settings=Settings(**settings), **fields)
    names = ("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty")
    assert {name: body[name] for name in names if name in body} == sent
    assert list(notices) == [f"{OPUS} was asked without {name}." for name in left_out]


# --- The form of an answer ----------------------------------------------------------------------

SHAPE: Final = Shape(
    {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]},
    description="A number.",
)


def test_an_answer_is_held_to_its_form() -> None:
    assert body(output=SHAPE, effort="low")["output_config"] == {
        "effort": "low",
        "format": {
            "type": "json_schema",
            "schema": {
                "type": "object",
                "properties": {"n": {"type": "integer", "description": "minimum: 1"}},
                "required": ["n"],
                "additionalProperties": False,
                "description": "A number.",
            },
        },
    }


@pytest.mark.parametrize(
    ("shape", "profile"),
    [
        (SHAPE, Profile(structured=False)),
        (Shape({"type": "object", "additionalProperties": {"type": "integer"}}), UNKNOWN),
        (
            Shape({"type": "object", "properties": {f"f{n}": {"const": n} for n in range(25)}}),
            UNKNOWN,
        ),
    ],
)
def test_a_form_that_cannot_be_held_is_asked_for_in_words(shape: Shape, profile: Profile) -> None:
    encoded = body(output=shape, profile=profile, system=(Block("Be brief."),))
    assert "output_config" not in encoded
    first, second = encoded["system"]
    assert first == text("Be brief.")
    assert msgspec.json.encode(shape.schema).decode() in second["text"]
    assert shape.description in second["text"]


# --- Cache marks --------------------------------------------------------------------------------


def marks(made: dict[str, Any]) -> list[str]:
    """Where the marks are."""
    found = [f"system.{at}" for at, one in enumerate(made.get("system", ())) if is_marked(one)]
    found += [f"tools.{at}" for at, one in enumerate(made.get("tools", ())) if is_marked(one)]
    for at, message in enumerate(made["messages"]):
        found += [
            f"messages.{at}.{position}"
            for position, one in enumerate(message["content"])
            if is_marked(one)
        ]
    return found


def is_marked(block: dict[str, Any]) -> bool:
    assert block.get("cache_control", MARK) == MARK
    return "cache_control" in block


TALK: Final = (HI, answer(Text("a")), HI, answer(Reasoning("Hm.", "s"), Text("b")), HI)


def test_the_prefix_and_the_last_two_messages_are_marked() -> None:
    system = (Block("a", cache=True), Block("b"), Block("c", cache=True), Block("d"))
    assert marks(body(*TALK, system=system, tools=(WEATHER,))) == [
        "system.2",
        "tools.0",
        "messages.3.1",
        "messages.4.0",
    ]


def test_marks_that_are_left_go_to_the_end_of_the_system_prefix() -> None:
    system = tuple(Block(letter, cache=True) for letter in "abcd")
    assert marks(body(*TALK, system=system)) == [
        "system.2",
        "system.3",
        "messages.3.1",
        "messages.4.0",
    ]
    assert marks(body(HI, system=system)) == ["system.1", "system.2", "system.3", "messages.0.0"]


def test_no_thought_is_marked() -> None:
    new = Reasoning("", metadata={"anthropic": {"block": {"type": "hologram"}}})
    talk = (HI, answer(Text("a"), Reasoning("Hm.", "s"), new), HI)
    assert marks(body(*talk)) == ["messages.1.0", "messages.2.0"]
    only = (HI, answer(Reasoning("Hm.", "s"), new), HI)
    assert marks(body(*only)) == ["messages.2.0"]


def test_results_and_calls_can_be_marked() -> None:
    calls = answer(Reasoning("Hm.", "s"), ToolCall("t1", "a", "{}"))
    result = results(ToolResult("t1", "a", (PNG,)))
    assert marks(body(HI, calls, result)) == ["messages.1.1", "messages.2.0"]


def test_marks_that_somebody_else_set_are_counted() -> None:
    native = {"anthropic": {"type": "bash_20250124", "name": "bash", "cache_control": MARK}}
    system = (Block("a", cache=True), Block("b", cache=True))
    tools = (ToolSpec("bash", "", {}, native=native), WEATHER)
    assert marks(body(*TALK, system=system, tools=tools)) == [
        "tools.0",
        "tools.1",
        "messages.3.1",
        "messages.4.0",
    ]
    automatic = Settings(options={"anthropic": {"cache_control": MARK}})
    assert marks(body(*TALK, system=system, tools=(WEATHER,), settings=automatic)) == [
        "tools.0",
        "messages.3.1",
        "messages.4.0",
    ]


def test_marks_last_as_long_as_the_one_that_is_set_for_the_whole_request() -> None:
    hour = {"type": "ephemeral", "ttl": "1h"}
    settings = Settings(options={"anthropic": {"cache_control": hour}})
    encoded = body(*TALK, tools=(WEATHER,), settings=settings)
    assert encoded["cache_control"] == encoded["tools"][0]["cache_control"] == hour
    assert encoded["messages"][-1]["content"][-1]["cache_control"] == hour


def test_a_tool_that_is_loaded_later_is_not_marked() -> None:
    native = {"anthropic": {"name": "x", "input_schema": {"type": "object"}, "defer_loading": True}}
    assert marks(body(tools=(ToolSpec("x", "", {}, native=native),))) == ["messages.0.0"]


def test_empty_system_blocks_are_left_out() -> None:
    encoded = body(system=(Block(""), Block(" ", cache=True), Block("a")))
    assert encoded["system"] == [text("a")]
    assert "system" not in body(system=(Block(""),))
