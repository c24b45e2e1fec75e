from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.kernel.errors import ConfigError, FormatError, HoldfastError
from holdfast.kernel.messages import (
    ESCAPE,
    MESSAGE_FORMAT,
    TRANSPARENT,
    Checkpoint,
    Content,
    Evaluation,
    File,
    FinishReason,
    Injection,
    Message,
    MessageKind,
    MessageRole,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    Usage,
    Visibility,
    decode,
    dump,
    encode,
    injected,
    load,
    note,
    results_message,
    user_message,
)

# --- Strategies ---------------------------------------------------------------------------------

HARD: Final = (
    "\x00",
    "\ud800",
    "\udbff",
    "\udc00",
    "\udfff",
    ESCAPE,
    "\\",
    "u",
    "0",
    "e",
    '"',
    "e000",
)
"""What stored text cannot hold, and what could be mistaken for the way in which it is written."""

every_character: Final = st.characters(exclude_categories=())
texts: Final = st.one_of(
    st.text(every_character),
    st.lists(st.sampled_from(HARD) | every_character, max_size=12).map("".join),
)
numbers: Final = st.integers(0, 2**53)
plain: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
costs: Final = st.none() | st.floats(0, 1_000)
metadata: Final = st.none() | st.dictionaries(texts, plain, max_size=3)


def literal(type: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(get_args(type))


text_parts: Final = st.builds(Text, texts, metadata)
file_parts: Final = st.builds(
    File, texts, st.none() | texts, st.none() | st.binary(), st.none() | texts, metadata
)
parts: Final[st.SearchStrategy[Part]] = st.one_of(
    text_parts,
    file_parts,
    st.builds(
        Reasoning, texts, st.none() | texts, st.none() | numbers, st.none() | numbers, metadata
    ),
    st.builds(
        ToolCall,
        texts,
        texts,
        texts,
        st.none() | texts,
        st.none() | numbers,
        st.booleans(),
        metadata,
    ),
    st.builds(
        ToolResult,
        texts,
        texts,
        st.lists(text_parts | file_parts, max_size=3).map(tuple),
        literal(ToolOutcome),
        st.booleans(),
        st.booleans(),
        metadata,
    ),
    st.builds(Source, texts, st.none() | texts, metadata),
)
messages: Final = st.builds(
    Message,
    literal(MessageRole),
    st.lists(parts, max_size=4).map(tuple),
    literal(MessageKind).filter(lambda kind: kind not in ("checkpoint", "instructions")),
    literal(Visibility),
    st.none() | literal(FinishReason),
    st.none() | st.builds(Usage, numbers, numbers, numbers, numbers, numbers, costs),
    st.none() | texts,
    st.none(),
    metadata,
    st.none() | literal(Injection),
)
evaluations: Final = st.builds(
    Message,
    st.just("system"),
    st.lists(st.builds(Text, texts), max_size=3).map(tuple),
    st.just("instructions"),
    evaluation=st.builds(
        Evaluation,
        texts,
        st.lists(st.integers(0, 3), max_size=3).map(tuple),
        st.lists(st.integers(0, 3), max_size=3).map(tuple),
    ),
)
checkpoints: Final = st.builds(
    Message,
    st.just("user"),
    st.lists(text_parts, max_size=1).map(tuple),
    st.just("checkpoint"),
    st.just("model"),
    checkpoint=st.builds(
        Checkpoint,
        numbers,
        numbers,
        numbers,
        numbers,
        st.booleans(),
        st.none() | numbers,
        st.sampled_from((None, "person", "overflow")),
    ),
)


def strings(tree: Any) -> Iterator[str]:
    """Every string in a JSON value, keys too."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, list):
        for item in tree:
            yield from strings(item)
    elif isinstance(tree, dict):
        for key, item in tree.items():
            yield key
            yield from strings(item)


def storable(text: str) -> bool:
    return not any(character == "\x00" or "\ud800" <= character <= "\udfff" for character in text)


# --- Values -------------------------------------------------------------------------------------

EACH: Final[tuple[msgspec.Struct, ...]] = (
    Text("hello"),
    Reasoning("hmm", "signature"),
    ToolCall("a", "read", "{}"),
    ToolResult("a", "read", (Text("done"),)),
    File("image/png", "cat.png", b"png"),
    Source("https://example.org", "Example"),
    Usage(1),
    Checkpoint(1, 1, 100, 10),
    Message("user", (Text("hello"),), "prompt"),
)


@pytest.mark.parametrize("value", EACH, ids=lambda value: type(value).__name__)
def test_no_field_of_a_value_can_be_changed(value: msgspec.Struct) -> None:
    for field in value.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(value, field, None)


def test_equal_values_are_interchangeable() -> None:
    one, other = Message("user", (Text("a"),), "prompt"), Message("user", (Text("a"),), "prompt")
    assert one == other
    assert len({one, other}) == 1


def test_a_message_gives_its_text_calls_and_results_in_order() -> None:
    first, second = ToolCall("a", "read", "{}"), ToolCall("b", "read", "{}")
    found = ToolResult("a", "read", (Text("1"), File("image/png"), Text("2")))
    message = Message(
        "assistant", (Text("x"), first, Reasoning("no"), found, Text("y"), second), "answer"
    )
    assert message.text == "xy"
    assert message.calls == (first, second)
    assert message.results == (found,)
    assert found.text == "12"


def test_usage_adds_up() -> None:
    used = Usage(1, 2, 3, 4, 5) + Usage(10, 20, 30, 40, 50)
    assert used == Usage(11, 22, 33, 44, 55)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [(None, None, None), (0.5, None, 0.5), (None, 0.5, 0.5), (0.5, 0.25, 0.75), (0.0, None, 0.0)],
)
def test_a_cost_that_nobody_knows_adds_nothing(
    one: float | None, other: float | None, both: float | None
) -> None:
    assert (Usage(1, cost=one) + Usage(1, cost=other)).cost == both


def test_reasoning_is_part_of_the_output_and_does_not_fill_the_window_twice() -> None:
    used = Usage(input=100, output=20, reasoning=15, cache_read=30, cache_write=7)
    assert used.context == 157


def test_a_prompt_may_be_given_in_any_form() -> None:
    picture = File("image/png", data=b"png")
    whole = Message("user", (Text("a"), picture), "prompt")
    assert user_message("a") == Message("user", (Text("a"),), "prompt")
    assert user_message(picture) == Message("user", (picture,), "prompt")
    assert user_message([Text("a"), picture]) == whole
    assert user_message(whole) is whole


def test_what_we_write_is_seen_by_whom_it_is_for() -> None:
    assert (injected("go on").kind, injected("go on").visibility) == ("injected", "model")
    assert (note("stopped").kind, note("stopped").visibility) == ("note", "user")
    assert results_message([ToolResult("a", "read", ())]).role == "tool"


def test_what_is_transparent_is_what_nobody_has_to_answer() -> None:
    assert set(get_args(MessageKind)) - TRANSPARENT == {"prompt", "answer", "results", "injected"}


# --- Closed unions ------------------------------------------------------------------------------


def test_every_kind_of_part_is_known_again_by_its_type() -> None:
    seen = {type(value) for value in EACH if isinstance(value, get_args(Part))}
    assert seen == set(get_args(Part))
    for value in EACH:
        if isinstance(value, get_args(Part)):
            message = Message("assistant", (value,), "answer")
            assert load(dump([message])) == (message,)


def test_a_result_consists_of_text_and_files_only() -> None:
    assert set(get_args(Content)) == {Text, File}
    stored = {"type": "result", "call_id": "a", "tool": "read", "content": [{"type": "source"}]}
    with pytest.raises(FormatError):
        decode(json.dumps(stored), ToolResult)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("role", "robot"),
        ("kind", "poem"),
        ("visibility", "nobody"),
        ("finish", "boredom"),
        ("parts", [{"type": "hologram"}]),
        ("parts", [{"text": "of no type"}]),
        ("parts", [{"type": "result", "call_id": "a", "tool": "t", "content": [], "outcome": "x"}]),
        ("parts", "not a list"),
        ("usage", {"input": "many"}),
    ],
)
def test_a_value_outside_its_union_is_refused(field: str, value: object) -> None:
    stored: dict[str, object] = {"role": "user", "kind": "prompt", "parts": []}
    assert decode(json.dumps(stored), Message)
    with pytest.raises(FormatError):
        decode(json.dumps({**stored, field: value}), Message)


# --- JSON ---------------------------------------------------------------------------------------


@given(st.lists(messages | checkpoints | evaluations, max_size=4))
@example([Message("user", (Text(ESCAPE + "0000"), Text("\x00"), Text("\\u0000")), "prompt")])
@example([Message("user", (Text("\ud83d\ude00"), Text("\U0001f600")), "prompt")])
@example([Message("user", (Text("", {"\x00": 1, ESCAPE + "0000": 2, "\ud800": {}}),), "prompt")])
def test_a_history_comes_back_unchanged(history: list[Message]) -> None:
    assert load(dump(history)) == tuple(history)


@given(parts)
def test_a_part_comes_back_unchanged(part: Part) -> None:
    assert decode(encode(part), type(part)) == part


@given(texts)
@example(ESCAPE + "0000")
@example(ESCAPE + "e000")
@example("\ud83d\ude00")
def test_any_text_comes_back_unchanged(text: str) -> None:
    again = decode(encode(Text(text)), Text).text
    assert again == text
    assert len(again) == len(text)  # two surrogates are not made one character


@given(st.lists(messages, max_size=3))
def test_stored_json_holds_nothing_that_a_database_refuses(history: list[Message]) -> None:
    data = dump(history)
    assert b"\x00" not in data
    assert data.decode("utf-8")
    assert all(storable(text) for text in strings(json.loads(data)))


@given(parts)
def test_json_is_known_again_after_a_database_has_written_it_in_its_own_way(part: Part) -> None:
    tree = json.loads(encode(part))
    for ascii_only in (True, False):
        rewritten = json.dumps(tree, ensure_ascii=ascii_only, indent=1, sort_keys=True)
        assert decode(rewritten, type(part)) == part
        assert decode(rewritten.encode(), type(part)) == part


def test_the_hexadecimal_digits_of_an_escape_may_be_written_either_way() -> None:
    stored = encode(Text("\x00")).replace(ESCAPE.encode(), b"\\uE000")
    assert decode(stored, Text) == Text("\x00")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00" + ESCAPE)))
def test_ordinary_text_is_stored_as_it_is(text: str) -> None:
    assert json.loads(encode(Text(text)))["text"] == text


def test_the_bytes_of_a_file_come_back_beside_text_that_needs_escaping() -> None:
    every_byte = File("image/png", "\x00.png", bytes(range(256)))
    assert decode(encode(every_byte), File) == every_byte


def test_a_stored_history_says_its_format() -> None:
    assert json.loads(dump([]))["format"] == MESSAGE_FORMAT


@pytest.mark.parametrize("version", [MESSAGE_FORMAT + 1, 99, 0, -1, 2**80])
def test_an_unknown_format_is_refused_by_name(version: int) -> None:
    with pytest.raises(FormatError, match=str(version)) as refused:
        load(json.dumps({"format": version, "messages": [{"new": "shape"}]}))
    assert f"reads up to {MESSAGE_FORMAT}" in str(refused.value)
    assert isinstance(refused.value, HoldfastError)


def test_a_history_of_format_1_is_read_and_written_in_the_current_one() -> None:
    old = Path(__file__).parents[1] / "stored" / "history_1.json"
    history = load(old.read_bytes())
    assert [message.kind for message in history] == ["prompt", "answer", "results", "answer"]
    assert [message.runtime for message in history] == [None] * 4
    (result,) = history[2].results
    assert (result.text, result.started_at, result.seconds) == ("Oslo: sunny", None, None)
    again = dump(history)
    assert json.loads(again)["format"] == MESSAGE_FORMAT
    assert load(again) == history
    assert json.loads(again)["messages"] == json.loads(old.read_bytes())["messages"]


def test_times_come_back_from_a_stored_history() -> None:
    result = ToolResult("a", "work", (Text("x"),), started_at=1_000_000, finished_at=3_500_000)
    answer = Message("assistant", (Text("y"),), "answer", runtime=1_234)
    history = load(dump([results_message([result]), answer]))
    assert history == (results_message([result]), answer)
    assert history[0].results[0].seconds == 2.5


@pytest.mark.parametrize("data", [b"{}", b"[]", b'{"messages": []}', b'{"format": "1"}', b"1"])
def test_a_history_without_a_format_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="not JSON written by holdfast"):
        load(data)


ONE: Final = dump([Message("user", (Text("@"),), "prompt")])
ESCAPED: Final = dump([Message("user", (Text("@\x00"),), "prompt")])
GARBAGE: Final[dict[str, bytes | str]] = {
    "nothing": b"",
    "no text": b"\xff\xfe",
    "no JSON": b"nonsense",
    "too deep": b"[" * 100_000,
    "messages too deep": b'{"format": 1, "messages": ' + b"[" * 100_000,
    "a part without its text": b'{"format": 1, "messages": [{"parts": [{"type": "text"}]}]}',
    "cut": ONE[:-3],
    "no UTF-8": ONE.replace(b"@", b"\xff"),
    "no UTF-8 beside an escape": ESCAPED.replace(b"@", b"\xff"),
    "a lone surrogate in JSON": ONE.replace(b"@", b"\\ud800"),
    "a lone surrogate": "\ud800",
    "a lone surrogate in text": ONE.decode().replace("@", "\udfff"),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_is_refused(data: bytes | str) -> None:
    with pytest.raises(FormatError):
        load(data)


@given(st.binary() | st.text(every_character))
def test_any_garbage_is_refused(data: bytes | str) -> None:
    with pytest.raises(FormatError):
        load(data)


HARMLESS: Final = dump(
    [
        Message("user", (Text("hello\x00", {"a": [1, "b"]}),), "prompt"),
        Message("assistant", (ToolCall("a", "read", "{}"),), "answer", usage=Usage(1, 2)),
    ]
)


@given(st.lists(st.tuples(st.integers(0, len(HARMLESS) - 1), st.integers(0, 255)), min_size=1))
def test_a_damaged_history_is_refused_or_read_but_never_crashes(
    damages: list[tuple[int, int]],
) -> None:
    damaged = bytearray(HARMLESS)
    for at, byte in damages:
        damaged[at] = byte
    try:
        read = load(bytes(damaged))
    except FormatError:
        return
    assert all(isinstance(message, Message) for message in read)


def test_evaluated_instructions_say_which_functions_returned_them() -> None:
    with pytest.raises(ConfigError, match="evaluation"):
        Message("system", (Text("Be brief."),), "instructions", "model")


def test_a_checkpoint_says_what_it_stands_for() -> None:
    with pytest.raises(ConfigError, match="checkpoint"):
        Message("user", (Text("Summary."),), "checkpoint", "model")
    with pytest.raises(FormatError, match="checkpoint"):
        load('{"format": 1, "messages": [{"role": "user", "kind": "checkpoint", "parts": []}]}')
