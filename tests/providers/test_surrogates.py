"""Characters that a provider has cut in two: in JSON as such, and in answers of each protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.assemble import Assembly
from holdfast.kernel.messages import Message
from holdfast.providers.anthropic import decoder as anthropic
from holdfast.providers.google import decoder as google
from holdfast.providers.http_stream import AnswerDecoder
from holdfast.providers.openai_chat import decoder as openai_chat
from holdfast.providers.openai_responses import decoder as openai_responses
from holdfast.providers.profile import UNKNOWN
from holdfast.providers.split_surrogates import SurrogateJoiner
from holdfast.testing import ports


def joined(*events: bytes) -> list[bytes]:
    halves = SurrogateJoiner()
    return [halves.joined(event) for event in events]


# --- JSON ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cut", "whole"),
    [
        ((rb'{"a":"x\ud83d"}', rb'{"a":"\ude00y"}'), (rb'{"a":"x"}', rb'{"a":"\ud83d\ude00y"}')),
        ((rb'{"a":"\uD83D"}', rb'{"a":"\uDE00"}'), (rb'{"a":""}', rb'{"a":"\uD83D\uDE00"}')),
        ((rb'["\ud83d","\ude00"]',), (rb'["","\ud83d\ude00"]',)),
        # The same twice, as some say it.
        ((rb'["\ud83d","\ud83d"]', rb'["\ude00","\ude00"]'), (b'["",""]', rb'["X","X"]')),
        # One after the other.
        ((rb'["\ud83d"]', rb'["\ude00\ud83d"]', rb'["\ude00"]'), (b'[""]', b'["X"]', b'["X"]')),
        # Words of an event between them do not part them.
        ((rb'["\ud83d"]', rb'["a"]', rb'["\ude00"]'), (b'[""]', b'["a"]', b'["X"]')),
        # Half of a character without the other one is none.
        ((rb'["a\ude00b"]',), (b'["ab"]',)),
        ((rb'["a\ud83db"]', rb'["\ude00"]'), (b'["ab"]', b'[""]')),
        ((rb'["\ud83d"]', rb'["a\"\ude00"]'), (b'[""]', rb'["a\""]')),
        ((rb'["\ud83d"]', rb'["\ud83dx"]', rb'["\ude00"]'), (b'[""]', b'["x"]', b'[""]')),
        ((rb'["\ud83d"]', rb'["\ude00"]', rb'["\ude00"]'), (b'[""]', b'["X"]', b'[""]')),
        # No half at all.
        ((rb'["\ud83d\ude00", "\\ud83d", "\u00e9\n", "\\\\ude00"]',), None),
        ((rb'["\\\ud83d"]', rb'["\ude00"]'), (rb'["\\"]', rb'["X"]')),
        ((b"[", b"\xff", b"", b'"\\'), None),
    ],
)
def test_the_halves_of_a_character_are_put_together(
    cut: tuple[bytes, ...], whole: tuple[bytes, ...] | None
) -> None:
    expected = cut if whole is None else whole
    assert joined(*cut) == [event.replace(b"X", rb"\ud83d\ude00") for event in expected]


@given(st.text(st.characters(exclude_categories=["Cs"])), st.data())
def test_a_text_is_whole_wherever_it_was_cut(text: str, data: st.DataObject) -> None:
    units = text.encode("utf-16-be", "surrogatepass")
    at = 2 * data.draw(st.integers(0, len(units) // 2))
    pieces = [part.decode("utf-16-be", "surrogatepass") for part in (units[:at], units[at:])]
    events = joined(*(json.dumps([piece]).encode() for piece in pieces))
    assert "".join(msgspec.json.decode(event)[0] for event in events) == text


# --- Protocols ----------------------------------------------------------------------------------


class Spoken(NamedTuple):
    """How one protocol says an answer: `@` stands for a piece of JSON text."""

    decoder: Callable[[], AnswerDecoder]
    before: Sequence[bytes]
    piece: bytes
    after: Sequence[bytes]


CHAT: Final = b'{"id":"1","choices":[{"index":0,"delta":{%s},"finish_reason":%s}]}'
ITEM: Final = b'{"type":"response.%s","output_index":0,"item_id":"i",'
COMPLETED: Final = b'{"type":"response.completed","response":{"id":"r","status":"completed"}}'
ENDED: Final = (
    b'{"type":"content_block_stop","index":0}',
    b'{"type":"message_delta","delta":{"stop_reason":"end_turn"}}',
    b'{"type":"message_stop"}',
)
DELTA: Final = b'{"type":"content_block_delta","index":0,"delta":'
GEMINI: Final = b'{"candidates":[{"content":{"parts":[{"text":"@"}]}}]}'

TEXTS: Final = {
    "anthropic": Spoken(
        lambda: anthropic.AnthropicDecoder("p"),
        [b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'],
        DELTA + b'{"type":"text_delta","text":"@"}}',
        ENDED,
    ),
    "google": Spoken(
        lambda: google.GoogleDecoder("p", UNKNOWN),
        [],
        GEMINI,
        [b'{"candidates":[{"finishReason":"STOP"}]}'],
    ),
    "openai_chat": Spoken(
        lambda: openai_chat.ChatDecoder("p"),
        [],
        CHAT % (b'"content":"@"', b"null"),
        [CHAT % (b"", b'"stop"'), b"[DONE]"],
    ),
    "openai_responses": Spoken(
        lambda: openai_responses.ResponsesDecoder("p"),
        [],
        ITEM % b"output_text.delta" + b'"content_index":0,"delta":"@"}',
        [
            ITEM % b"output_text.done" + rb'"content_index":0,"text":"I \ud83d\ude00 see."}',
            COMPLETED,
        ],
    ),
}
ARGUMENTS: Final = {
    "anthropic": Spoken(
        lambda: anthropic.AnthropicDecoder("p"),
        [
            b'{"type":"content_block_start","index":0,'
            b'"content_block":{"type":"tool_use","id":"c","name":"look","input":{}}}'
        ],
        DELTA + b'{"type":"input_json_delta","partial_json":"@"}}',
        ENDED,
    ),
    "openai_chat": Spoken(
        lambda: openai_chat.ChatDecoder("p"),
        [CHAT % (b'"tool_calls":[{"index":0,"id":"c","function":{"name":"look"}}]', b"null")],
        CHAT % (b'"tool_calls":[{"index":0,"function":{"arguments":"@"}}]', b"null"),
        [CHAT % (b"", b'"tool_calls"'), b"[DONE]"],
    ),
    "openai_responses": Spoken(
        lambda: openai_responses.ResponsesDecoder("p"),
        [
            ITEM % b"output_item.added"
            + b'"item":{"type":"function_call","id":"i","call_id":"c","name":"look"}}'
        ],
        ITEM % b"function_call_arguments.delta" + b'"delta":"@"}',
        [
            ITEM % b"output_item.done"
            + b'"item":{"type":"function_call","id":"i","call_id":"c","name":"look",'
            + rb'"arguments":"{\"at\":\"\ud83d\ude00\"}"}}',
            COMPLETED,
        ],
    ),
}


def answer(spoken: Spoken, *pieces: bytes) -> Message:
    """The answer whose text or arguments come in these pieces, an event each."""
    decoder = spoken.decoder()
    assembly = Assembly("p:m", ports())
    said = [spoken.piece.replace(b"@", piece) for piece in pieces]
    for event in (*spoken.before, *said, *spoken.after):
        for delta in decoder.feed([event]):
            assembly.feed(delta)
    for delta in decoder.end():
        assembly.feed(delta)
    return assembly.message()


@pytest.mark.parametrize("protocol", TEXTS)
def test_a_character_that_was_cut_in_two_comes_whole(protocol: str) -> None:
    assert answer(TEXTS[protocol], rb"I \ud83d", rb"\ude00 see.").text == "I 😀 see."


@pytest.mark.parametrize("protocol", ["anthropic", "google", "openai_chat"])
def test_half_of_a_character_costs_nothing_but_itself(protocol: str) -> None:
    assert answer(TEXTS[protocol], b"I", rb"\ude00 see", rb" you\ud83d", b".").text == "I see you."


@pytest.mark.parametrize("protocol", ARGUMENTS)
def test_arguments_come_whole_when_a_character_of_theirs_was_cut_in_two(protocol: str) -> None:
    (call,) = answer(ARGUMENTS[protocol], rb"{\"at\":\"\ud83d", rb"\ude00\"}").calls
    assert call.complaint is None
    assert json.loads(call.arguments) == {"at": "😀"}
