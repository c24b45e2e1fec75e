"""What of a message is said to a provider that did not write it."""

from __future__ import annotations

import pytest

from holdfast.kernel.messages import (
    File,
    Message,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.kernel.model import Shape
from holdfast.providers.foreign_messages import (
    family,
    file_as_text,
    file_url,
    is_sendable,
    media_type,
    omitted_file,
    replayable_parts,
    shape_instruction,
)

SEARCH = ToolCall("s1", "web_search", '{"query":"kelp"}', provider_executed=True)
FOUND = ToolResult("s1", "web_search", (Text("Kelp holds fast."),), provider_executed=True)
OURS = ToolCall("c1", "look", "{}")
PARTS: tuple[Part, ...] = (
    Reasoning("hm", "signed"),
    Text("Let me look."),
    SEARCH,
    FOUND,
    Source("https://kelp.example"),
    OURS,
)


def answer(model: str | None, parts: tuple[Part, ...] = PARTS) -> Message:
    return Message("assistant", parts, "answer", model=model)


def test_whoever_wrote_an_answer_gets_it_back_as_it_is() -> None:
    assert replayable_parts(answer("anthropic:claude"), "anthropic") == PARTS
    assert replayable_parts(answer("anthropic:another-model"), "anthropic") == PARTS


@pytest.mark.parametrize("model", ["openai:gpt", "anthropic-like:x", None])
def test_anybody_else_is_told_in_words_what_they_cannot_read(model: str | None) -> None:
    assert replayable_parts(answer(model), "anthropic") == (
        Text("Let me look."),
        Text('[web_search {"query":"kelp"} → Kelp holds fast.]'),
        OURS,
    )


def test_a_call_without_a_result_is_told_as_one() -> None:
    assert replayable_parts(answer("x:y", (SEARCH,)), "z") == (
        Text('[web_search {"query":"kelp"} → no result]'),
    )


@pytest.mark.parametrize(
    ("media_type", "what"),
    [
        ("image/png", "image"),
        ("IMAGE/JPEG; q=1", "image"),
        ("application/pdf", "pdf"),
        ("text/markdown", "text"),
        ("application/json", "text"),
        ("application/ld+json", "text"),
        ("image/svg+xml", "image"),
        ("audio/wav", "audio"),
        ("video/mp4", "video"),
        ("application/zip", None),
        ("", None),
    ],
)
def test_a_media_type_says_what_a_file_is(media_type: str, what: str | None) -> None:
    assert family(media_type) == what


def test_a_text_file_can_be_spelled_out() -> None:
    assert file_as_text(File("text/csv", "a.csv", b"1,2")) == "<file name='a.csv'>\n1,2\n</file>"
    assert file_as_text(File("text/plain", None, "ü".encode())) == (
        "<file name='unnamed'>\nü\n</file>"
    )


@pytest.mark.parametrize(
    "file",
    [
        File("text/plain", "a.txt", b"\xff\xfe\xfa"),
        File("image/png", "a.png", b"png"),
        File("text/plain", "a.txt", ref="stored:7"),
    ],
)
def test_what_is_no_text_is_not_spelled_out(file: File) -> None:
    assert file_as_text(file) is None


def test_a_reference_on_the_web_can_be_fetched_by_the_provider() -> None:
    assert file_url(File("image/png", ref="https://a.example/b.png")) == "https://a.example/b.png"
    assert file_url(File("image/png", ref="stored:7")) is None
    assert file_url(File("image/png", data=b"x", ref="https://a.example/b.png")) is None


def test_a_file_that_is_left_out_is_named_to_the_model_and_to_people() -> None:
    placeholder, notice = omitted_file(File("video/mp4", "a.mp4", b"x"), "openai:gpt")
    assert placeholder == "[a.mp4 (video/mp4) was left out: this model cannot read it]"
    assert notice == "a.mp4 was not sent to openai:gpt, which does not take video/mp4."
    placeholder, notice = omitted_file(File("image/png", "b.png", ref="stored:7"), "openai:gpt")
    assert placeholder == "[b.png (image/png) is not available]"
    assert notice.startswith("b.png was not sent to openai:gpt: its bytes are missing")
    placeholder, notice = omitted_file(File("image/png", "b.png", b""), "openai:gpt")
    assert (placeholder, notice) == (
        "[b.png (image/png) is empty]",
        "b.png was not sent to openai:gpt: it is empty.",
    )
    placeholder, notice = omitted_file(File("text/csv", "b.csv", b"\xe9"), "openai:gpt")
    assert "not encoded in UTF-8" in placeholder
    assert "not encoded in UTF-8" in notice


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("image/jpg", "image/jpeg"),
        ("IMAGE/PNG", "image/png"),
        ("text/csv; charset=utf-8", "text/csv"),
    ],
)
def test_a_media_type_is_sent_as_providers_spell_it(given: str, sent: str) -> None:
    assert media_type(File(given)) == sent


def test_a_file_can_be_sent_when_there_is_something_of_it() -> None:
    assert is_sendable(File("image/png", data=b"x"))
    assert is_sendable(File("image/png", ref="https://a.example/b.png"))
    assert not is_sendable(File("image/png", data=b""))
    assert not is_sendable(File("image/png", ref="stored:7"))


def test_a_form_can_be_asked_for_in_words() -> None:
    instruction = shape_instruction(Shape({"type": "object"}, "answer", "A person."))
    assert instruction.endswith('no code fence.\nA person.\n{"type":"object"}')
    assert shape_instruction(Shape({"type": "object"})).endswith(
        'no code fence.\n{"type":"object"}'
    )
