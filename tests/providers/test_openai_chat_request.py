"""Requests as the bodies of chat completions."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from holdfast.kernel.messages import (
    File,
    Message,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    dump,
    injected,
    load,
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
from holdfast.providers.openai_chat.messages import BRIDGE_TEXT, ChatEndpoint
from holdfast.providers.openai_chat.quirks import COMPATIBLE, Quirks, quirks_of
from holdfast.providers.openai_chat.request import encode
from holdfast.providers.profile import UNKNOWN, Profile

PROMPT = user_message("Well?")
LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {"a": {"type": "string"}}})
SHAPE = Shape(
    {"type": "object", "properties": {"sunny": {"type": "boolean"}}, "additionalProperties": False},
    name="the weather",
    description="What it is like.",
)


def endpoint(
    provider: str = "openai",
    model: str = "m",
    profile: Profile = UNKNOWN,
    quirks: Quirks | None = None,
) -> ChatEndpoint:
    return ChatEndpoint(provider, model, profile, quirks_of(provider) if quirks is None else quirks)


def encoded_request(
    request: Request, to: ChatEndpoint | None = None
) -> tuple[dict[str, Any], list[str]]:
    body, notices = encode(request, to or endpoint())
    return msgspec.json.decode(body), list(notices)


def body_of(request: Request, to: ChatEndpoint | None = None) -> dict[str, Any]:
    """The body of a request that can be said whole."""
    body, notices = encoded_request(request, to)
    assert notices == []
    return body


def messages_of(*messages: Message, to: ChatEndpoint | None = None) -> list[dict[str, Any]]:
    sent = body_of(Request(messages=messages), to)["messages"]
    assert isinstance(sent, list)
    return sent


def said_by(model: str, *parts: Part) -> Message:
    """An answer, as it comes back from the store."""
    return load(dump([Message("assistant", parts, "answer", model=model)]))[0]


def results(*given: ToolResult) -> Message:
    return load(dump([results_message(given)]))[0]


# --- The whole ----------------------------------------------------------------------------------


def test_a_plain_request() -> None:
    assert body_of(Request(system=(Block("Be terse."),), messages=(PROMPT,))) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "Be terse."},
            {"role": "user", "content": "Well?"},
        ],
    }


def test_usage_is_not_asked_for_where_that_is_refused() -> None:
    assert "stream_options" not in body_of(Request(messages=(PROMPT,)), endpoint("mistral"))


def test_system_blocks_are_one_message() -> None:
    system = (Block("One.", cache=True), Block(""), Block("Two."))
    body = body_of(Request(system=system, messages=(PROMPT,)))
    assert body["messages"][0] == {"role": "system", "content": "One.\n\nTwo."}


def test_instructions_may_be_called_otherwise() -> None:
    to = endpoint(quirks=Quirks(system_role="developer"))
    body = body_of(Request(system=(Block("One."),), messages=(PROMPT,)), to)
    assert body["messages"][0]["role"] == "developer"


def test_a_longer_conversation_begins_with_the_bytes_of_a_shorter_one() -> None:
    settings = Settings(temperature=0.5, options={"openai": {"seed": 1}})
    history = (
        PROMPT,
        said_by("openai:m", Text("Hm."), ToolCall("c1", "look", "{}")),
        results(ToolResult("c1", "look", (Text("a tree"),))),
        user_message("And?"),
    )
    shorter = b""
    for length in (1, 3, 4):
        request = Request(
            system=(Block("Be terse."),),
            messages=history[:length],
            tools=(LOOK,),
            settings=settings,
            effort="low",
            cache_key="k",
        )
        body, _ = encode(request, endpoint())
        assert body == encode(request, endpoint())[0]
        assert body.startswith(shorter)
        shorter = body.removesuffix(b"]}")


def test_options_of_this_provider_are_merged_in_last() -> None:
    options: dict[str, Any] = {
        "openai": {"seed": 7, "stream_options": {"include_obfuscation": False}, "model": "other"},
        "elsewhere": {"not": "mine"},
    }
    body = body_of(Request(messages=(PROMPT,), settings=Settings(options=options)))
    assert body["seed"] == 7
    assert body["stream_options"] == {"include_usage": True, "include_obfuscation": False}
    assert body["model"] == "other"
    assert "not" not in body


def test_options_of_openai_are_for_its_chat_completions_too() -> None:
    options: dict[str, Any] = {
        "openai-chat": {"verbosity": "low"},
        "openai": {"verbosity": "high", "seed": 7},
    }
    request = Request(messages=(PROMPT,), settings=Settings(options=options))
    body = body_of(request, endpoint("openai-chat"))
    assert (body["verbosity"], body["seed"]) == ("low", 7)
    assert "verbosity" not in body_of(request, endpoint("groq"))


def test_text_that_is_no_unicode_is_sent_as_far_as_it_goes() -> None:
    odd = "caf\udce9 \x00 \ud83d"
    sent = messages_of(
        Message("user", (Text(odd),), "prompt"),
        Message("assistant", (ToolCall("c\udce9", odd, odd),), "answer"),
        results_message([ToolResult("c\udce9", odd, (Text(odd),))]),
        to=endpoint(quirks=replace(COMPATIBLE, call_ids="nine")),
    )
    assert sent[0]["content"] == "caf\ufffd \x00 \ufffd"
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"]


# --- Users --------------------------------------------------------------------------------------


def test_what_we_tell_the_model_is_said_by_the_user() -> None:
    marker = Message("user", (Text("[interrupted]"),), "marker", "model")
    assert messages_of(PROMPT, marker, injected("Go on.")) == [
        {"role": "user", "content": "Well?"},
        {"role": "user", "content": "[interrupted]"},
        {"role": "user", "content": "Go on."},
    ]


def test_instructions_in_the_middle_stay_there_where_they_may() -> None:
    context = Message("system", (Text("There is a README."),), "context", "model")
    assert messages_of(PROMPT, context)[1] == {"role": "system", "content": "There is a README."}
    assert messages_of(PROMPT, context, to=endpoint("groq"))[1]["role"] == "user"


def test_users_that_follow_each_other_are_merged_where_that_is_wanted() -> None:
    image = File("image/png", data=b"x")
    sent = messages_of(
        PROMPT, injected("Go on."), user_message([Text("Look:"), image]), to=endpoint("vllm")
    )
    assert [message["role"] for message in sent] == ["user"]
    assert [part["type"] for part in sent[0]["content"]] == ["text", "text", "text", "image_url"]
    assert messages_of(PROMPT, injected("Go on."), to=endpoint("vllm")) == [
        {"role": "user", "content": "Well?\n\nGo on."}
    ]


def test_parts_without_files_are_plain_text() -> None:
    prompt = user_message([Text("One."), Source("https://a.test", "A"), Source("https://b.test")])
    assert messages_of(prompt) == [
        {"role": "user", "content": "One.\n\nA: https://a.test\n\nhttps://b.test"}
    ]


def test_a_message_with_nothing_in_it_is_left_out() -> None:
    assert messages_of(PROMPT, Message("user", (Text(""),), "prompt")) == messages_of(PROMPT)


# --- Files --------------------------------------------------------------------------------------

DATA = b64encode(b"bytes").decode()


@pytest.mark.parametrize(
    ("provider", "files", "file", "part"),
    [
        (
            "openai",
            None,
            File("image/png", "a.png", b"bytes"),
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
        ),
        (
            "openai",
            None,
            File("image/png", ref="https://a.test/a.png"),
            {"type": "image_url", "image_url": {"url": "https://a.test/a.png"}},
        ),
        (
            "openai",
            None,
            File("application/pdf", "a.pdf", b"bytes"),
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{DATA}"},
            },
        ),
        (
            "openrouter",
            None,
            File("application/pdf", ref="https://a.test/a.pdf"),
            {
                "type": "file",
                "file": {"filename": "document.pdf", "file_data": "https://a.test/a.pdf"},
            },
        ),
        (
            "openai",
            ("audio",),
            File("audio/mpeg; rate=1", "a.mp3", b"bytes"),
            {"type": "input_audio", "input_audio": {"data": DATA, "format": "mp3"}},
        ),
    ],
)
def test_files_go_as_they_are_where_they_are_taken(
    provider: str, files: Any, file: File, part: dict[str, Any]
) -> None:
    to = endpoint(provider, profile=Profile(files=files))
    (sent,) = messages_of(user_message([Text("Look:"), file]), to=to)
    assert sent["content"] == [{"type": "text", "text": "Look:"}, part]


@pytest.mark.parametrize("spelled", ["image/jpg", "IMAGE/JPEG", "Image/Jpg; q=1"])
def test_media_types_are_sent_as_they_are_usually_spelled(spelled: str) -> None:
    (sent,) = messages_of(user_message([File(spelled, "a", b"bytes")]))
    (part,) = sent["content"]
    assert part["image_url"]["url"] == f"data:image/jpeg;base64,{DATA}"


def test_text_files_are_spelled_out() -> None:
    (sent,) = messages_of(user_message([File("application/json", "a.json", b'{"a": 1}')]))
    assert sent["content"] == "<file name='a.json'>\n{\"a\": 1}\n</file>"


@pytest.mark.parametrize(
    ("provider", "files", "file"),
    [
        ("openai", None, File("application/x-thing", "a", b"bytes")),
        ("openai", None, File("audio/mpeg", "a", b"bytes")),
        ("openai", ("audio",), File("audio/flac", "a", b"bytes")),
        ("openai", ("audio",), File("audio/mpeg", "a", ref="https://a.test/a.mp3")),
        ("openai", ("video",), File("video/mp4", "a", b"bytes")),
        ("openai", (), File("image/png", "a", b"bytes")),
        ("openai", None, File("image/svg+xml", "a", b"<svg/>")),
        ("openai", None, File("application/pdf", "a", ref="https://a.test/a.pdf")),
        ("openai", None, File("image/png", "a", ref="store:9")),
        ("openai", None, File("image/png", "a", b"")),
        ("openai", None, File("application/pdf", "a", b"")),
        ("openai", ("audio",), File("audio/mpeg", "a", b"")),
        ("deepseek", None, File("image/png", "a", b"bytes")),
        ("vllm", None, File("application/pdf", "a", b"bytes")),
        ("moonshot", None, File("image/png", "a", ref="https://a.test/a.png")),
    ],
)
def test_files_that_are_not_taken_are_told_of(provider: str, files: Any, file: File) -> None:
    to = endpoint(provider, profile=Profile(files=files))
    body, notices = encoded_request(Request(messages=(user_message([Text("Look:"), file]),)), to)
    (sent,) = body["messages"]
    assert isinstance(sent["content"], str)
    assert sent["content"].startswith("Look:\n\n[a (")
    assert len(notices) == 1
    assert f"was not sent to {provider}:m" in notices[0]


def test_a_profile_knows_better_than_the_endpoint() -> None:
    image = File("image/png", "a", b"bytes")
    seeing = endpoint("deepseek", profile=Profile(files=("image",)))
    (sent,) = messages_of(user_message([Text("Look:"), image]), to=seeing)
    assert sent["content"][1]["type"] == "image_url"


# --- Calls and results --------------------------------------------------------------------------


def test_calls_and_results() -> None:
    assert messages_of(
        PROMPT,
        said_by("openai:m", Text("Let me "), Text("look."), ToolCall("c1", "look", '{ "a":1 }')),
        results(ToolResult("c1", "look", (Text("a tree"), Text("a bird")), "failed")),
    )[1:] == [
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{ "a":1 }'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a tree\na bird"},
    ]


def test_an_answer_that_only_calls_has_no_content() -> None:
    sent = messages_of(said_by("openai:m", ToolCall("c1", "look", "")))[0]
    assert sent["content"] is None
    assert sent["tool_calls"][0]["function"]["arguments"] == ""


@pytest.mark.parametrize(
    ("called", "sent"), [("", "unnamed"), ("my.tool", "my_tool"), ("x" * 65, "x" * 64)]
)
def test_a_call_of_what_no_tool_can_be_called_can_be_sent(called: str, sent: str) -> None:
    (message,) = messages_of(said_by("openai:m", ToolCall("c1", called, "{}")))
    assert message["tool_calls"][0]["function"]["name"] == sent


def test_an_answer_with_nothing_to_send_is_left_out() -> None:
    thoughts = said_by("openai:m", Reasoning("Hm."), Source("https://a.test"))
    assert messages_of(PROMPT, thoughts, PROMPT) == messages_of(PROMPT, PROMPT)


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ('{ "a": 1 }', '{ "a": 1 }'),
        ("", "{}"),
        (" \n", "{}"),
        ('{"a": ', '{"_raw":"{\\"a\\": "}'),
        ("[1]", '{"_raw":"[1]"}'),
        ("a\udce9", '{"_raw":"a?"}'),
    ],
)
def test_arguments_that_are_parsed_over_there_are_an_object(written: str, sent: str) -> None:
    (message,) = messages_of(said_by("vllm:m", ToolCall("c1", "l", written)), to=endpoint("vllm"))
    assert message["tool_calls"][0]["function"]["arguments"] == sent


def test_results_are_text_and_what_else_they_hold_is_shown_behind_all_of_them() -> None:
    image = File("image/png", "a.png", b"bytes")
    sent = messages_of(
        said_by("openai:m", ToolCall("c1", "look", "{}"), ToolCall("c2", "look", "{}")),
        results(
            ToolResult("c1", "look", (Text("a tree"), image)),
            ToolResult("c2", "look", (image, File("text/plain", "b", b"as text"))),
            ToolResult("c3", "look", (image,)),
            ToolResult("c4", "look", ()),
        ),
        user_message("And?"),
    )
    assert [message["role"] for message in sent] == ["assistant", *["tool"] * 4, "user", "user"]
    assert [message["content"] for message in sent[1:5]] == [
        "a tree",
        "<file name='b'>\nas text\n</file>",
        "[sent in the next message]",
        "[no text]",
    ]
    shown = sent[5]["content"]
    assert [part.get("text") for part in shown] == [
        "From the result of look (call c1):",
        None,
        "From the result of look (call c2):",
        None,
        "From the result of look (call c3):",
        None,
    ]
    assert shown[1]["type"] == "image_url"


def test_results_of_what_a_provider_ran_are_not_sent_as_ours() -> None:
    ran = ToolResult("s1", "web_search", (Text("sunny"),), provider_executed=True)
    assert messages_of(PROMPT, results(ran)) == messages_of(PROMPT)


def test_an_image_in_a_result_that_is_not_taken_is_told_of_there() -> None:
    result = ToolResult("c1", "look", (Text("a tree"), File("image/png", "a.png", b"bytes")))
    request = Request(messages=(said_by("x:m", ToolCall("c1", "look", "{}")), results(result)))
    body, notices = encoded_request(request, endpoint("deepseek"))
    assert [message["role"] for message in body["messages"]] == ["assistant", "tool"]
    assert "left out" in body["messages"][1]["content"]
    assert len(notices) == 1


def test_the_model_says_a_word_before_a_user_where_that_is_wanted() -> None:
    history = (
        said_by("mistral:m", ToolCall("abcdefghi", "look", "{}")),
        results(ToolResult("abcdefghi", "look", (File("image/png", "a", b"bytes"),))),
    )
    sent = messages_of(*history, to=endpoint("mistral"))
    assert [message["role"] for message in sent] == ["assistant", "tool", "assistant", "user"]
    assert sent[2]["content"] == BRIDGE_TEXT
    assert [m["role"] for m in messages_of(*history)] == ["assistant", "tool", "user"]


# --- Ids ----------------------------------------------------------------------------------------


def ids_of(id: str, model: str, to: ChatEndpoint) -> tuple[str, str]:
    """The id of a call and of its result, as they are sent."""
    sent = messages_of(
        said_by(model, ToolCall(id, "look", "{}")), results(ToolResult(id, "look", ())), to=to
    )
    return sent[0]["tool_calls"][0]["id"], sent[1]["tool_call_id"]


@pytest.mark.parametrize(
    ("id", "model", "kept"),
    [
        ("call_1-a", "other:m", True),
        ("functions.look:0", "openai:m", True),
        ("functions.look:0", "other:m", False),
        ("call_x|fc_1", "other:m", False),
        ("x" * 40, "openai:m", True),
        ("x" * 41, "openai:m", False),
    ],
)
def test_ids_are_kept_where_they_can_be(id: str, model: str, kept: bool) -> None:
    call, result = ids_of(id, model, endpoint())
    assert call == result
    assert (call == id) == kept
    assert kept or re.fullmatch(r"call_[0-9a-f]{24}", call)
    assert ids_of(id, model, endpoint()) == (call, result)


@pytest.mark.parametrize("model", ["openrouter:m", "other:m"])
def test_ids_are_as_long_as_they_are_where_nobody_limits_them(model: str) -> None:
    id = "tool_0_search_the_whole_knowledge_base_NtMkC5jTl6Xc4rVnSSCd"
    assert ids_of(id, model, endpoint("openrouter")) == (id, id)


@given(st.text(min_size=1), st.text(min_size=1))
def test_mistral_gets_nine_letters_and_digits(one: str, other: str) -> None:
    to = endpoint("mistral")
    call, result = ids_of(one, "other:m", to)
    assert call == result
    assert re.fullmatch("[A-Za-z0-9]{9}", call)
    assert (ids_of(other, "other:m", to)[0] == call) == (one == other)


def test_an_id_that_mistral_gave_is_kept() -> None:
    assert ids_of("aB3dE6gH9", "mistral:m", endpoint("mistral")) == ("aB3dE6gH9", "aB3dE6gH9")


# --- Reasoning ----------------------------------------------------------------------------------

THOUGHT = Reasoning("Hm.")
CALL = ToolCall("c1", "look", "{}")


@pytest.mark.parametrize(
    ("provider", "field"),
    [
        ("deepseek", "reasoning_content"),
        ("moonshot", "reasoning_content"),
        ("fireworks", "reasoning_content"),
        ("llamacpp", "reasoning_content"),
        ("vllm", "reasoning"),
        ("ollama", "reasoning"),
        ("groq", "reasoning"),
    ],
)
def test_own_reasoning_goes_back_to_where_it_is_wanted(provider: str, field: str) -> None:
    own = said_by(f"{provider}:m", THOUGHT, Reasoning(" So."), Text("Yes."), CALL)
    (sent,) = messages_of(own, to=endpoint(provider))
    assert sent[field] == "Hm. So."
    assert sent["content"] == "Yes."


@pytest.mark.parametrize("provider", ["openai", "azure", "xai", "together"])
def test_reasoning_goes_nowhere_where_it_is_not_wanted(provider: str) -> None:
    (sent,) = messages_of(said_by(f"{provider}:m", THOUGHT, Text("Yes.")), to=endpoint(provider))
    assert sent == {"role": "assistant", "content": "Yes."}


@pytest.mark.parametrize(("provider", "filler"), [("deepseek", ""), ("moonshot", " ")])
def test_an_answer_without_reasoning_has_the_field_where_it_must(
    provider: str, filler: str
) -> None:
    for answer in (said_by("other:m", THOUGHT, CALL), said_by(f"{provider}:m", CALL)):
        (sent,) = messages_of(answer, to=endpoint(provider))
        assert sent["reasoning_content"] == filler


def test_mistral_gets_its_thoughts_among_the_content() -> None:
    own = said_by("mistral:m", THOUGHT, Text("Yes."), CALL)
    (sent,) = messages_of(own, to=endpoint("mistral"))
    assert sent["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "Yes."},
    ]
    (sent,) = messages_of(said_by("mistral:m", Text("Yes.")), to=endpoint("mistral"))
    assert sent["content"] == "Yes."


def detailed(*details: Mapping[str, Any]) -> Reasoning:
    return Reasoning("Hm.", metadata={"openrouter": {"reasoning_details": list(details)}})


def test_openrouter_gets_the_details_as_they_came() -> None:
    first = {"type": "reasoning.text", "text": "Hm.", "signature": "c2ln", "index": 0}
    second = {"type": "reasoning.encrypted", "data": "YQ==", "id": "c1"}
    own = said_by("openrouter:m", detailed(first), CALL, detailed(second))
    (sent,) = messages_of(own, to=endpoint("openrouter"))
    assert sent["reasoning_details"] == [first, second]


def test_a_signature_that_came_behind_the_text_goes_back_with_what_it_signs() -> None:
    first = {"type": "reasoning.text", "text": "Hm.", "index": 0, "format": "anthropic-claude-v1"}
    second = {"type": "reasoning.encrypted", "data": "YQ==", "index": 1}
    late = {"type": "reasoning.text", "signature": "c2ln", "index": 0}
    own = said_by("openrouter:m", detailed(first, second), Text("Yes."), detailed(late), CALL)
    before = dump([own])
    (sent,) = messages_of(own, to=endpoint("openrouter"))
    assert sent["reasoning_details"] == [{**first, "signature": "c2ln"}, second]
    assert dump([own]) == before


def test_what_one_model_signed_is_of_no_use_to_another() -> None:
    signed = detailed({"type": "reasoning.text", "text": "Hm.", "signature": "c2ln"})
    for model in ("openrouter:other", "elsewhere:m"):
        (sent,) = messages_of(said_by(model, signed, Text("Yes.")), to=endpoint("openrouter"))
        assert sent == {"role": "assistant", "content": "Yes."}


def test_details_in_a_form_that_nobody_knows_are_left_out() -> None:
    odd = Reasoning("Hm.", metadata={"openrouter": {"reasoning_details": "odd"}})
    for thought in (odd, Reasoning("Hm.", metadata={"openrouter": 7})):
        own = said_by("openrouter:m", thought, Text("Yes."))
        assert "reasoning_details" not in messages_of(own, to=endpoint("openrouter"))[0]


def test_what_a_call_wants_back_goes_back_to_its_own() -> None:
    extra = {"google": {"thought_signature": "c2ln"}}
    call = ToolCall("c1", "look", "{}", metadata={"openai": {"extra_content": extra}})
    assert messages_of(said_by("openai:m", call))[0]["tool_calls"][0]["extra_content"] == extra
    (sent,) = messages_of(said_by("other:m", call))
    assert "extra_content" not in sent["tool_calls"][0]


def test_leaving_and_coming_back_restores_everything() -> None:
    history = (
        PROMPT,
        said_by("deepseek:m", THOUGHT, Text("Yes."), CALL),
        results(ToolResult("c1", "look", (Text("a tree"),))),
    )
    before = messages_of(*history, to=endpoint("deepseek"))
    away = load(dump([*history, said_by("openai:m", Text("Elsewhere.")), user_message("Back.")]))
    elsewhere = messages_of(*away, to=endpoint("openai"))
    assert "reasoning_content" not in elsewhere[1]
    assert messages_of(*away, to=endpoint("deepseek"))[:3] == before


@pytest.mark.parametrize("model", ["openai:m", "other:m"])
def test_what_a_provider_ran_is_told_in_words(model: str) -> None:
    parts = (
        ToolCall("s1", "web_search", '{"query": "Oslo"}', provider_executed=True),
        ToolResult("s1", "web_search", (Text("Oslo: sunny"),), provider_executed=True),
        Source("https://met.test"),
        Text("Sunny."),
    )
    (sent,) = messages_of(said_by(model, *parts))
    assert sent == {
        "role": "assistant",
        "content": '[web_search {"query": "Oslo"} → Oslo: sunny]Sunny.',
    }


def test_a_file_that_a_model_made_is_told_in_words() -> None:
    parts = (Text("Here:"), File("image/png", "a.png", b"bytes"), File("text/plain", "b", b"hi"))
    body, notices = encoded_request(Request(messages=(said_by("openai:m", *parts),)))
    assert body["messages"][0]["content"].startswith("Here:[a.png (image/png) was left out")
    assert body["messages"][0]["content"].endswith("<file name='b'>\nhi\n</file>")
    assert len(notices) == 1


# --- Tools --------------------------------------------------------------------------------------


def test_tools_are_declared() -> None:
    bare = ToolSpec("bare", "", MappingProxyType({"properties": MappingProxyType({})}))
    native = replace(LOOK, native={"openai": {"type": "custom", "custom": {"name": "look"}}})
    assert body_of(Request(messages=(PROMPT,), tools=(LOOK, bare)))["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "look",
                "description": "Look.",
                "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
            },
        },
        {
            "type": "function",
            "function": {"name": "bare", "parameters": {"type": "object", "properties": {}}},
        },
    ]
    request = Request(messages=(PROMPT,), tools=(native,))
    assert body_of(request)["tools"] == [{"type": "custom", "custom": {"name": "look"}}]
    assert body_of(request, endpoint("groq"))["tools"][0]["type"] == "function"


SEARCHING = "gpt-5-search-api"
SEARCH = ProviderTool(
    "web_search",
    {
        "max_uses": 3,
        "allowed_domains": ["a.test"],
        "blocked_domains": ["b.test"],
        "user_location": {"city": "Oslo"},
    },
)


@pytest.mark.parametrize(
    ("provider", "sent", "unknown"),
    [
        (
            "openai",
            {
                "web_search_options": {
                    "user_location": {"type": "approximate", "approximate": {"city": "Oslo"}}
                }
            },
            ["max_uses", "allowed_domains", "blocked_domains"],
        ),
        (
            "openrouter",
            {
                "plugins": [
                    {"id": "web", "include_domains": ["a.test"], "exclude_domains": ["b.test"]}
                ]
            },
            ["max_uses", "user_location"],
        ),
    ],
)
def test_a_search_is_asked_for_with_the_options_that_are_known(
    provider: str, sent: dict[str, Any], unknown: list[str]
) -> None:
    to = endpoint(provider, SEARCHING)
    body, notices = encoded_request(Request(messages=(PROMPT,), provider_tools=(SEARCH,)), to)
    assert {key: body[key] for key in sent} == sent
    assert notices == [
        f"{to.name} does not know {name} of web_search: it was left out." for name in unknown
    ]


def test_a_search_without_options() -> None:
    request = Request(messages=(PROMPT,), provider_tools=(ProviderTool("web_search"),))
    assert body_of(request, endpoint("openai", SEARCHING))["web_search_options"] == {}
    assert body_of(request, endpoint("openrouter"))["plugins"] == [{"id": "web"}]


@pytest.mark.parametrize("provider", ["openai", "openai-chat"])
def test_a_search_is_not_asked_for_of_a_model_that_has_none(provider: str) -> None:
    to = endpoint(provider, "gpt-5")
    body, notices = encoded_request(Request(messages=(PROMPT,), provider_tools=(SEARCH,)), to)
    assert "web_search_options" not in body
    assert notices == [f"{provider}:gpt-5 has no web_search of its own: it was left out."]


def test_a_tool_that_the_provider_does_not_have_is_told_of() -> None:
    tools = (ProviderTool("code_execution"), ProviderTool("web_search"))
    body, notices = encoded_request(
        Request(messages=(PROMPT,), provider_tools=tools), endpoint("groq")
    )
    assert "tools" not in body
    assert len(notices) == 2


def test_a_providers_own_declaration_wins() -> None:
    native = {"moonshot": {"type": "builtin_function", "function": {"name": "$web_search"}}}
    request = Request(
        messages=(PROMPT,), provider_tools=(ProviderTool("web_search", native=native),)
    )
    assert body_of(request, endpoint("moonshot"))["tools"] == [native["moonshot"]]


# --- The form of the answer ---------------------------------------------------------------------


def test_an_answer_is_held_to_a_strict_schema_where_that_can_be() -> None:
    assert body_of(Request(messages=(PROMPT,), output=SHAPE))["response_format"] == {
        "type": "json_schema",
        "json_schema": {
            "name": "the_weather",
            "description": "What it is like.",
            "schema": {
                "type": "object",
                "properties": {"sunny": {"type": "boolean"}},
                "required": ["sunny"],
                "additionalProperties": False,
            },
            "strict": True,
        },
    }


def test_a_schema_that_cannot_be_strict_is_sent_as_it_is() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    sent = body_of(Request(messages=(PROMPT,), output=Shape(schema)))["response_format"]
    assert sent["json_schema"] == {"name": "answer", "schema": schema, "strict": False}


def test_strict_is_not_said_where_nobody_knows_it() -> None:
    to = endpoint("together")
    sent = body_of(Request(messages=(PROMPT,), output=SHAPE), to)["response_format"]
    assert sent["json_schema"]["schema"] == SHAPE.schema
    assert "strict" not in sent["json_schema"]


@pytest.mark.parametrize(
    ("to", "tools", "shape", "form"),
    [
        (endpoint("deepseek"), (), SHAPE, {"type": "json_object"}),
        (endpoint("vllm"), (LOOK,), SHAPE, None),
        (endpoint(quirks=Quirks(structured=None)), (), SHAPE, None),
        (endpoint(profile=Profile(structured=False)), (), SHAPE, None),
        (endpoint(), (), Shape({"type": "array", "items": {}}), None),
    ],
)
def test_what_nothing_holds_it_to_the_model_is_told(
    to: ChatEndpoint, tools: tuple[ToolSpec, ...], shape: Shape, form: Any
) -> None:
    request = Request(system=(Block("Be terse."),), messages=(PROMPT,), tools=tools, output=shape)
    body = body_of(request, to)
    assert body.get("response_format") == form
    said = body["messages"][0]["content"]
    assert said.startswith("Be terse.\n\n")
    assert "JSON schema" in said
    assert said.endswith(msgspec.json.encode(shape.schema).decode())


def test_a_schema_may_go_with_tools_where_that_leaves_them_free() -> None:
    body = body_of(Request(messages=(PROMPT,), tools=(LOOK,), output=SHAPE))
    assert body["response_format"]["type"] == "json_schema"
    assert body["messages"][0]["role"] == "user"


# --- Settings -----------------------------------------------------------------------------------

ALL = Settings(
    temperature=0.5,
    top_p=0.9,
    top_k=40,
    presence_penalty=0.1,
    frequency_penalty=0.2,
    max_output_tokens=100,
)


@pytest.mark.parametrize(
    ("to", "left_out", "limit"),
    [
        (endpoint(), ["top_k"], "max_completion_tokens"),
        (endpoint("openrouter"), [], "max_tokens"),
        (endpoint("vllm"), [], "max_tokens"),
        (
            endpoint("cerebras"),
            ["top_k", "presence_penalty", "frequency_penalty"],
            "max_completion_tokens",
        ),
        (
            endpoint("xai"),
            ["top_k", "presence_penalty", "frequency_penalty"],
            "max_completion_tokens",
        ),
        (
            endpoint("vllm", profile=Profile(sampling=False)),
            ["temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty"],
            "max_tokens",
        ),
    ],
)
def test_settings_that_are_not_taken_are_left_out_and_told_of(
    to: ChatEndpoint, left_out: list[str], limit: str
) -> None:
    body, notices = encoded_request(Request(messages=(PROMPT,), settings=ALL), to)
    wanted = {name: value for name, value in asdict(ALL).items() if isinstance(value, int | float)}
    wanted[limit] = wanted.pop("max_output_tokens")
    sent = {name: body[name] for name in wanted if name in body}
    assert sent == {name: value for name, value in wanted.items() if name not in left_out}
    assert notices == [f"{to.name} does not take {name}: it was left out." for name in left_out]


@pytest.mark.parametrize(
    ("provider", "effort", "sent"),
    [
        ("openai", "high", {"reasoning_effort": "high"}),
        ("openai", "none", {"reasoning_effort": "none"}),
        ("openrouter", "low", {"reasoning": {"effort": "low"}}),
        ("openrouter", "none", {"reasoning": {"effort": "none"}}),
        ("deepseek", "max", {"thinking": {"type": "enabled"}, "reasoning_effort": "max"}),
        ("deepseek", "none", {"thinking": {"type": "disabled"}}),
        ("moonshot", "low", {"reasoning_effort": "low"}),
        ("moonshot", "none", {"thinking": {"type": "disabled"}}),
        ("together", "low", {"reasoning": {"enabled": True}, "reasoning_effort": "low"}),
        ("together", "none", {"reasoning": {"enabled": False}}),
        (
            "vllm",
            "low",
            {
                "chat_template_kwargs": {
                    "enable_thinking": True,
                    "thinking": True,
                    "reasoning_effort": "low",
                },
                "reasoning_effort": "low",
            },
        ),
        (
            "vllm",
            "none",
            {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}},
        ),
        ("openai", None, {}),
    ],
)
def test_effort_is_said_as_each_wants_it(
    provider: str, effort: Effort | None, sent: dict[str, Any]
) -> None:
    plain = body_of(Request(messages=(PROMPT,)), endpoint(provider))
    body = body_of(Request(messages=(PROMPT,), effort=effort), endpoint(provider))
    assert {key: value for key, value in body.items() if key not in plain} == sent


def test_effort_is_the_nearest_that_the_model_has() -> None:
    to = endpoint(profile=Profile(efforts=("low", "high")))
    assert body_of(Request(messages=(PROMPT,), effort="max"), to)["reasoning_effort"] == "high"
    deaf = endpoint(profile=Profile(efforts=()))
    assert "reasoning_effort" not in body_of(Request(messages=(PROMPT,), effort="max"), deaf)


@pytest.mark.parametrize(
    ("wanted", "sent"),
    [("none", "none"), ("minimal", "none"), ("high", "high"), ("xhigh", "high"), ("max", "max")],
)
def test_effort_is_one_that_the_endpoint_takes(wanted: Effort, sent: str) -> None:
    body = body_of(Request(messages=(PROMPT,), effort=wanted), endpoint("ollama"))
    assert body["reasoning_effort"] == sent
    known = endpoint("ollama", profile=Profile(efforts=("xhigh",)))
    body = body_of(Request(messages=(PROMPT,), effort=wanted), known)
    assert body["reasoning_effort"] == "xhigh"


def test_what_is_not_taken_beside_an_effort_is_told_from_what_is_never_taken() -> None:
    to = endpoint(profile=Profile(sampling="without effort"))
    body, notices = encoded_request(Request(messages=(PROMPT,), settings=ALL, effort="low"), to)
    assert body.keys().isdisjoint({"temperature", "top_p", "top_k"})
    assert notices[:3] == [
        "openai:m does not take temperature together with an effort: it was left out.",
        "openai:m does not take top_p together with an effort: it was left out.",
        "openai:m does not take top_k: it was left out.",
    ]


def test_effort_that_cannot_be_said_is_told_of() -> None:
    to = endpoint(quirks=Quirks(effort=None))
    body, notices = encoded_request(Request(messages=(PROMPT,), effort="high"), to)
    assert "reasoning_effort" not in body
    assert notices == ["openai:m cannot be told how hard to think: high was left out."]


# --- Caching ------------------------------------------------------------------------------------


def test_the_cache_key_goes_where_it_is_known() -> None:
    request = Request(messages=(PROMPT,), cache_key="chat-1")
    assert body_of(request)["prompt_cache_key"] == "chat-1"
    assert body_of(request, endpoint("openrouter"))["session_id"] == "chat-1"
    assert body_of(request, endpoint("groq")) == body_of(
        Request(messages=(PROMPT,)), endpoint("groq")
    )


@pytest.mark.parametrize("key", ["k" * 65, "schlüssel", "a\nb"])
def test_a_cache_key_is_short_and_plain(key: str) -> None:
    sent = body_of(Request(messages=(PROMPT,), cache_key=key))["prompt_cache_key"]
    assert re.fullmatch("[0-9a-f]{64}", sent)


def test_claude_on_openrouter_is_asked_to_cache() -> None:
    cached = Request(system=(Block("Long.", cache=True),), messages=(PROMPT,))
    claude = endpoint("openrouter", "anthropic/claude-sonnet-5")
    assert body_of(cached, claude)["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in body_of(Request(messages=(PROMPT,)), claude)
    assert "cache_control" not in body_of(cached, endpoint("openrouter", "openai/gpt-5"))
    assert "cache_control" not in body_of(cached, endpoint("openai", "anthropic/x"))
