"""Streamed chat completions, as OpenAI sends them and as others do."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.kernel.assemble import Assembly
from holdfast.kernel.errors import FailureKind, ProviderError
from holdfast.kernel.messages import File, FinishReason, Message, Reasoning, Source, Text, Usage
from holdfast.kernel.model import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    PartEnded,
    ReasoningDelta,
    Request,
    TextDelta,
)
from holdfast.providers.openai_chat.decoder import ChatDecoder
from holdfast.providers.openai_chat.messages import ChatEndpoint
from holdfast.providers.openai_chat.quirks import quirks_of
from holdfast.providers.openai_chat.request import encode
from holdfast.providers.openai_chat.think_tags import ThinkTags
from holdfast.providers.openai_chat.usage import usage_of
from holdfast.providers.profile import UNKNOWN, Price
from holdfast.providers.sse import EventParser
from holdfast.testing import ports

DONE = b"data: [DONE]\n\n"


def chunk(delta: Any = None, reason: str | None = None, **more: Any) -> bytes:
    """One event, as OpenAI writes it."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": reason}
    return event({"id": "chatcmpl-1", "model": "gpt", "choices": [choice], **more})


def event(data: Any) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


def calling(*pieces: Any, reason: str | None = None) -> bytes:
    return chunk({"tool_calls": list(pieces)}, reason)


def piece(index: Any = None, id: Any = None, name: Any = None, arguments: Any = None) -> Any:
    """What a chunk says of a call, without what is None."""
    function = {"name": name, "arguments": arguments}
    given = {key: value for key, value in function.items() if value is not None}
    said = {"index": index, "id": id, "function": given}
    return {key: value for key, value in said.items() if value is not None}


def decode(*events: bytes, decoder: ChatDecoder | None = None) -> list[Delta]:
    """The deltas of a stream that closes after these events."""
    decoder = decoder or ChatDecoder("openai")
    splitter = EventParser()
    deltas: list[Delta] = []
    for data in events:
        deltas += decoder.feed(splitter.feed(data))
    deltas += decoder.feed(splitter.end())
    return deltas + decoder.end()


def assembled(deltas: Sequence[Delta]) -> Message:
    assembly = Assembly("openai:gpt", ports())
    for delta in deltas:
        assembly.feed(delta)
    return assembly.message()


def answer(*events: bytes, decoder: ChatDecoder | None = None) -> Message:
    """The message of an answer that is complete."""
    return assembled(decode(*events, DONE, decoder=decoder))


def calls_of(*events: bytes) -> list[tuple[str, str, str]]:
    return [(call.id, call.tool, call.arguments) for call in answer(*events).calls]


# --- Text ---------------------------------------------------------------------------------------


def test_text_arrives_in_the_pieces_it_was_sent_in() -> None:
    deltas = decode(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({}, "stop"),
        DONE,
    )
    assert deltas == [
        TextDelta("Hel"),
        TextDelta("lo"),
        Finished("stop", metadata={"openai": {"id": "chatcmpl-1", "model": "gpt"}}),
    ]


def test_a_chunk_with_a_role_alone_says_nothing() -> None:
    assert decode(chunk({"role": "assistant"})) == []


def test_the_reason_may_come_together_with_the_last_text() -> None:
    assert answer(chunk({"content": "a"}), chunk({"content": "b"}, "stop")).text == "ab"


def test_what_comes_first_may_have_no_choices() -> None:
    filtered = event({"id": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]})
    message = answer(filtered, chunk({"content": "Hi"}), chunk({}, "stop"))
    assert message.text == "Hi"
    assert message.metadata == {"openai": {"id": "chatcmpl-1", "model": "gpt"}}


def test_a_second_choice_is_not_mixed_in() -> None:
    other = event({"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": None}]})
    assert answer(chunk({"content": "yes"}), other, chunk({}, "stop")).text == "yes"


def test_comments_between_events_say_nothing() -> None:
    processing = b": OPENROUTER PROCESSING\n\n"
    message = answer(
        processing, chunk({"content": "Hi"}), processing, chunk({}, "stop"), processing
    )
    assert message.text == "Hi"


def test_unknown_fields_and_forms_break_nothing() -> None:
    message = answer(
        event({}),
        event({"choices": [{"index": 0}], "new": {"deep": [1]}}),
        event({"choices": [{"index": 0, "delta": None, "content_filter_results": {}}]}),
        chunk({"content": [{"type": "new", "new": 1}, 7], "novel": [], "reasoning": {"a": 1}}),
        chunk({"content": "Hi", "annotations": [7], "images": [7, {"image_url": 1}]}),
        chunk({"annotations": 1, "images": "x", "reasoning_details": "x", "refusal": 3}),
        b"data:\n\n",
        b"data:  \n\n",
        chunk({}, "stop", x_groq=3, citations=3, search_results=[3, {"url": 1}]),
    )
    assert message.parts == (Text("Hi"),)


# --- How it ends --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("content_filter", "content_filter"),
        ("max_tokens", "length"),
        ("model_length", "length"),
        ("sensitive", "content_filter"),
        ("eos", "stop"),
        ("never_heard_of", "stop"),
    ],
)
def test_every_reason_is_said_in_our_words(reason: str, finish: FinishReason) -> None:
    assert answer(chunk({"content": "Hi"}), chunk({}, reason)).finish == finish


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("error", "server"),
        ("network_error", "server"),
        ("abort", "server"),
        ("insufficient_system_resource", "overloaded"),
    ],
)
def test_some_reasons_mean_that_there_is_no_answer(reason: str, kind: FailureKind) -> None:
    with pytest.raises(ProviderError, match=reason) as caught:
        decode(chunk({"content": "Half"}), chunk({}, reason))
    assert caught.value.kind == kind


def test_a_stop_with_calls_is_no_stop() -> None:
    deltas = decode(calling(piece(0, "c1", "look", "{}")), chunk({}, "stop"), DONE)
    assert isinstance(deltas[-1], Finished)
    assert deltas[-1].finish == "tool_calls"


def test_done_without_a_reason_is_a_cut_stream() -> None:
    assert decode(chunk({"content": "Half"}), DONE) == [TextDelta("Half")]


def test_an_empty_reason_is_none() -> None:
    assert decode(chunk({"content": "Half"}, ""), DONE) == [TextDelta("Half")]


@pytest.mark.parametrize("end", [b"", b"data: [DONE]", b"data:[DONE]\n", b"data:  [DONE] \r\n\r\n"])
def test_done_may_be_missing_or_cut_off_when_there_was_a_reason(end: bytes) -> None:
    deltas = decode(chunk({"content": "Hi"}), chunk({}, "stop"), end)
    assert isinstance(deltas[-1], Finished)
    assert sum(isinstance(delta, Finished) for delta in deltas) == 1


def test_nothing_comes_behind_the_end() -> None:
    deltas = decode(chunk({}, "stop"), DONE, chunk({"content": "more"}), DONE)
    assert [type(delta) for delta in deltas] == [Finished]


def test_text_behind_the_reason_belongs_to_the_answer() -> None:
    assert answer(chunk({"content": "a"}, "stop"), chunk({"content": "b"}, "stop")).text == "ab"


def test_a_call_behind_the_reason_belongs_to_the_answer() -> None:
    late = calling(piece(0, "c1", "look", '{"a":1}'))
    assert calls_of(chunk({}, "tool_calls"), late) == [("c1", "look", '{"a":1}')]


def test_a_refusal_is_text_of_an_answer_that_was_filtered() -> None:
    message = answer(
        chunk({"refusal": "I cannot "}), chunk({"refusal": "do that."}), chunk({}, "stop")
    )
    assert (message.text, message.finish) == ("I cannot do that.", "content_filter")


# --- Errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        ({"error": {"message": "No.", "type": "server_error"}}, "server", "No."),
        ({"error": {"message": "No.", "code": 429}}, "rate_limit", "No."),
        ({"error": {"message": "No.", "code": "slow_down"}}, "rate_limit", "No."),
        ({"error": "It broke."}, "unknown", "It broke."),
        ({"object": "error", "message": "No.", "type": "rate_limited"}, "rate_limit", "No."),
        ({"object": "error", "message": "No.", "type": "BadRequestError"}, "invalid_request", "No"),
        ({"choices": [], "x_groq": {"error": "over capacity"}}, "unknown", "over capacity"),
        (
            {
                "error": {"code": 502, "message": "Upstream", "metadata": {"raw": "dead"}},
                "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
            },
            "server",
            "Upstream: dead",
        ),
        (
            {"choices": [{"delta": {}, "finish_reason": "error", "error": {"message": "Mid."}}]},
            "unknown",
            "Mid.",
        ),
    ],
)
def test_an_error_inside_the_stream_raises(data: Any, kind: FailureKind, words: str) -> None:
    with pytest.raises(ProviderError, match=words) as caught:
        decode(chunk({"content": "Half"}), event(data))
    assert caught.value.kind == kind


def test_an_error_that_is_null_is_none() -> None:
    assert answer(chunk({"content": "Hi"}, error=None), chunk({}, "stop")).text == "Hi"


def test_what_is_no_json_cannot_be_read() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(chunk({"content": "Half"}), b'data: {"choices": [{"del\n\n')
    with pytest.raises(msgspec.DecodeError):
        decode(b"data: what?\n\n")


@pytest.mark.parametrize("broken", [event({"error": {"message": "No."}}), b"data: {\n\n"])
def test_what_comes_in_one_read_with_an_error_is_shown_first(broken: bytes) -> None:
    decoder = ChatDecoder("openai")
    read = EventParser().feed(chunk({"content": "Half"}) + broken)
    with pytest.raises((ProviderError, msgspec.DecodeError)):
        decoder.feed(read)
    assert decoder.deltas == [TextDelta("Half")]


# --- Calls --------------------------------------------------------------------------------------

ONE = [("c1", "look", '{"what":"a"}')]
TWO = [*ONE, ("c2", "act", '{"n":2}')]
END = chunk({}, "tool_calls")


def test_calls_as_openai_streams_them() -> None:
    deltas = decode(
        calling(piece(0, "c1", "look", "")),
        calling(piece(0, arguments='{"what"')),
        calling(piece(0, arguments=':"a"}')),
        calling(piece(1, "c2", "act", "")),
        calling(piece(1, arguments='{"n":2}')),
        END,
        DONE,
    )
    assert deltas[:-1] == [
        CallStarted("c1", "look"),
        ArgumentsDelta("c1", '{"what"'),
        ArgumentsDelta("c1", ':"a"}'),
        CallEnded("c1"),  # before the next begins, so that it can be started
        CallStarted("c2", "act"),
        ArgumentsDelta("c2", '{"n":2}'),
        CallEnded("c2"),
    ]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(
            [
                calling(piece(None, "c1", "look", "")),
                calling(piece(arguments='{"what":"a"}')),
                calling(piece(None, "c2", "act", "")),
                calling(piece(arguments='{"n":2}')),
            ],
            id="no index",
        ),
        pytest.param(
            [
                calling(piece(0, "c1", "look", "")),
                calling(piece(0, arguments='{"what":"a"}')),
                calling(piece(0, "c2", "act", "")),
                calling(piece(0, "", arguments='{"n":2}')),
            ],
            id="index always 0",
        ),
        pytest.param(
            [
                calling(piece(0, "c1", "look", '{"what"')),
                calling(piece(0, "c1", "look", ':"a"}')),
                calling(piece(1, "c2", "act", '{"n"')),
                calling(piece(1, "c2", "act", ":2}")),
            ],
            id="id and name in every chunk",
        ),
        pytest.param(
            [
                calling(piece(0, "c1", "look", "")),
                calling(piece(0, "zz", "", '{"what":"a"}')),
                calling(piece(1, "c2", "act", "")),
                calling(piece(1, "yy", None, '{"n":2}')),
            ],
            id="another id in every chunk",
        ),
        pytest.param(
            [
                calling(piece(0, "c1", "look", '{"what":"a"}')),
                calling(piece(1, "c2", "act", '{"n":2}')),
            ],
            id="whole calls",
        ),
        pytest.param(
            [
                calling(
                    piece(None, "c1", "look", '{"what":"a"}'), piece(None, "c2", "act", '{"n":2}')
                )
            ],
            id="all in one chunk, no index",
        ),
        pytest.param(
            [calling(piece(0, "c1", "look", '{"what":"a"}'), piece(0, "c2", "act", '{"n":2}'))],
            id="all in one chunk, index 0",
        ),
        pytest.param(
            [calling(piece(0, "c1", "look", {"what": "a"}), piece(1, "c2", "act", {"n": 2}))],
            id="arguments as an object",
        ),
        pytest.param(
            [
                calling(piece(0, "c1", "look", "")),
                calling(piece(1, "c2", "act", "")),
                calling(piece(1, arguments='{"n"'), piece(0, arguments='{"what"')),
                calling(piece(0, arguments=':"a"}')),
                calling(piece(1, arguments=":2}")),
            ],
            id="interleaved",
        ),
        pytest.param(
            [
                calling(piece(0, "c1", None, "")),
                calling(piece(0, None, "look", "")),
                calling(piece(0, None, None, '{"what":"a"}')),
                calling(piece(1, "c2", None, '{"n"')),
                calling(piece(1, None, "act", ":2}")),
            ],
            id="name later than the id",
        ),
    ],
)
def test_calls_however_they_are_spelled(events: list[bytes]) -> None:
    assert calls_of(*events, END) == TWO


def test_calls_without_ids_get_some() -> None:
    calls = calls_of(
        calling(piece(0, None, "look", "")),
        calling(piece(0, arguments='{"what":"a"}')),
        calling(piece(1, "", "act", '{"n":2}')),
        END,
    )
    assert calls == [("call_0", "look", '{"what":"a"}'), ("call_1", "act", '{"n":2}')]


@pytest.mark.parametrize("index", [None, 0])
def test_whole_calls_without_ids_and_indexes_are_told_apart(index: int | None) -> None:
    calls = calls_of(
        calling(piece(index, None, "look", '{"n":1}')),
        calling(piece(index, None, "look", '{"n":2}')),
        END,
    )
    assert [arguments for _, _, arguments in calls] == ['{"n":1}', '{"n":2}']


def test_whole_calls_of_one_chunk_without_ids_and_indexes_are_told_apart() -> None:
    calls = calls_of(calling(piece(None, None, "look", ""), piece(None, None, "look", "")), END)
    assert [tool for _, tool, _ in calls] == ["look", "look"]


def test_a_name_that_is_repeated_without_an_id_is_no_new_call() -> None:
    calls = calls_of(
        calling(piece(None, None, "look", "")),
        calling(piece(None, None, "look", '{"a":')),
        calling(piece(None, None, "look", '{"b":1}}')),
        calling(piece(None, None, "look", "")),
        END,
    )
    assert [arguments for _, _, arguments in calls] == ['{"a":{"b":1}}']


def test_one_id_for_two_calls_loses_none() -> None:
    calls = calls_of(
        calling(piece(0, "c1", "look", '{"n":1}')), calling(piece(1, "c1", "look", '{"n":2}')), END
    )
    assert [arguments for _, _, arguments in calls] == ['{"n":1}', '{"n":2}']
    assert len({id for id, _, _ in calls}) == 2


def test_one_id_for_calls_that_are_written_side_by_side_mixes_nothing() -> None:
    calls = calls_of(
        calling(piece(0, "c1", "look", '{"n"'), piece(1, "c1", "act", '{"m"')),
        calling(piece(0, arguments=":1}"), piece(1, arguments=":2}")),
        END,
    )
    assert [(tool, arguments) for _, tool, arguments in calls] == [
        ("look", '{"n":1}'),
        ("act", '{"m":2}'),
    ]


def test_a_call_may_have_no_arguments() -> None:
    assert calls_of(calling(piece(0, "c1", "look")), END) == [("c1", "look", "")]
    assert calls_of(calling(piece(0, "c1", "look", "")), END) == [("c1", "look", "")]


def test_arguments_that_are_no_json_are_passed_on() -> None:
    written = '{"what": "never clo'
    assert calls_of(calling(piece(0, "c1", "look", written)), END) == [("c1", "look", written)]


def test_a_call_without_a_name_is_passed_on_for_the_model_to_be_told() -> None:
    assert calls_of(calling(piece(0, "c1", None, "{}")), END) == [("c1", "", "{}")]
    assert calls_of(calling(piece(0, "c1")), chunk({}, "stop")) == []


def test_an_id_may_be_a_number() -> None:
    assert calls_of(calling(piece(0, 17, "look", "{}")), END) == [("17", "look", "{}")]


def test_the_old_form_of_a_call_is_read() -> None:
    calls = calls_of(
        chunk({"function_call": {"name": "look", "arguments": ""}}),
        chunk({"function_call": {"arguments": '{"what"'}}),
        chunk({"function_call": {"arguments": ':"a"}'}}),
        chunk({}, "function_call"),
    )
    assert calls == [("call_0", "look", '{"what":"a"}')]


def test_a_call_may_come_with_the_reason() -> None:
    assert calls_of(calling(piece(0, "c1", "look", '{"what":"a"}'), reason="tool_calls")) == ONE


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_half_a_call_is_not_ended(reason: str) -> None:
    deltas = decode(
        calling(piece(0, "c1", "look", '{"what":"a"}')),
        calling(piece(1, "c2", "act", '{"n"')),
        chunk({}, reason),
        DONE,
    )
    assert [delta.call_id for delta in deltas if isinstance(delta, CallEnded)] == ["c1"]
    assert [call.id for call in assembled(deltas).calls] == ["c1"]


def test_a_call_is_not_ended_before_its_arguments_are_complete() -> None:
    deltas = decode(
        calling(piece(0, "c1", "look", '{"what"')), calling(piece(1, "c2", "act", '{"n"'))
    )
    assert not any(isinstance(delta, CallEnded) for delta in deltas)


def test_what_a_call_wants_back_is_kept_with_it() -> None:
    signed = {**piece(0, "c1", "look", "{}"), "extra_content": {"google": {"thought": "c2ln"}}}
    (call,) = answer(calling(signed), END).calls
    assert call.metadata == {"openai": {"extra_content": {"google": {"thought": "c2ln"}}}}


def test_text_and_calls_keep_their_order() -> None:
    message = answer(
        chunk({"content": "First. "}),
        calling(piece(0, "c1", "look", "{}")),
        chunk({"content": "Then."}),
        END,
    )
    assert [type(part).__name__ for part in message.parts] == ["Text", "ToolCall", "Text"]


PIECES = st.lists(
    st.builds(
        piece,
        st.sampled_from([None, 0, 1, 2, "x"]),
        st.sampled_from([None, "", "c1", "c2", 7]),
        st.sampled_from([None, "", "look", "act"]),
        st.sampled_from([None, "", "{}", '{"a":', "1}", {"a": 1}, [1], 0]),
    ),
    max_size=3,
)


@given(st.lists(PIECES, max_size=6), st.sampled_from(["stop", "tool_calls", "length"]))
def test_whatever_is_said_of_calls_makes_a_message(said: list[list[Any]], reason: str) -> None:
    deltas = decode(*(calling(*pieces) for pieces in said), chunk({}, reason), DONE)
    started = [delta.call_id for delta in deltas if isinstance(delta, CallStarted)]
    assert len(set(started)) == len(started)
    begun: set[str] = set()
    for delta in deltas:
        if isinstance(delta, CallStarted):
            begun.add(delta.call_id)
        elif isinstance(delta, ArgumentsDelta):
            assert delta.call_id in begun
        elif isinstance(delta, CallEnded):
            begun.remove(delta.call_id)  # once, and nothing of it after that
    message = assembled(deltas)
    if reason != "length":
        assert len(message.calls) == len(started)


# --- Reasoning ----------------------------------------------------------------------------------


def _text(text: str) -> Any:
    return [{"type": "reasoning.text", "text": text}]


FIELDS: dict[str, Callable[[str], Any]] = {
    "reasoning_content": lambda text: {"reasoning_content": text, "content": None},
    "reasoning": lambda text: {"reasoning": text, "content": ""},
    "both": lambda text: {"reasoning": text, "reasoning_content": text},
    "details": lambda text: {"reasoning_details": _text(text)},
    "summary": lambda text: {"reasoning_details": [{"type": "x", "summary": text}]},
    "reasoning and details": lambda text: {"reasoning": text, "reasoning_details": _text(text)},
    "one text": lambda text: {"content": [{"type": "thinking", "thinking": text}]},
    "chunks": lambda text: {"content": [{"type": "thinking", "thinking": [{"text": text}]}]},
}


@pytest.mark.parametrize("said", FIELDS.values(), ids=FIELDS)
def test_reasoning_is_read_once_from_whichever_field_it_comes_in(said: Any) -> None:
    deltas = decode(
        chunk(said("So ")), chunk(said("it is.")), chunk({"content": "Yes."}), chunk({}, "stop")
    )
    assert deltas[:3] == [ReasoningDelta("So "), ReasoningDelta("it is."), TextDelta("Yes.")]
    assert [type(part).__name__ for part in assembled(deltas).parts] == ["Reasoning", "Text"]


def test_content_in_chunks_is_text_too() -> None:
    chunks = [{"type": "text", "text": "Hel"}, {"type": "reference", "reference_ids": [1]}]
    assert answer(chunk({"content": chunks}), chunk({"content": "lo"}), END).text == "Hello"


def router() -> ChatDecoder:
    return ChatDecoder("openrouter", keeps_details=True)


def detailed(**detail: Any) -> bytes:
    return chunk({"reasoning": detail.get("text", ""), "reasoning_details": [detail]})


def test_details_of_reasoning_are_kept_as_if_they_had_come_whole() -> None:
    message = answer(
        detailed(type="reasoning.text", text="So ", index=0, format="anthropic-claude-v1"),
        detailed(type="reasoning.text", text="it is.", index=0, format="anthropic-claude-v1"),
        detailed(type="reasoning.text", signature="c2ln", index=0),
        detailed(type="reasoning.encrypted", data="YQ==", index=1),
        detailed(type="reasoning.encrypted", data="Yg==", index=1),
        chunk({"content": "Yes."}),
        chunk({}, "stop"),
        decoder=router(),
    )
    thought, text = message.parts
    assert isinstance(thought, Reasoning)
    assert (thought.text, text) == ("So it is.", Text("Yes."))
    assert thought.metadata == {
        "openrouter": {
            "reasoning_details": [
                {
                    "type": "reasoning.text",
                    "text": "So it is.",
                    "index": 0,
                    "format": "anthropic-claude-v1",
                    "signature": "c2ln",
                },
                {"type": "reasoning.encrypted", "data": "YQ==", "index": 1},
                {"type": "reasoning.encrypted", "data": "Yg==", "index": 1},
            ]
        }
    }


def test_thoughts_of_another_index_are_other_thoughts() -> None:
    message = answer(
        detailed(type="reasoning.summary", summary="One.", index=0),
        detailed(type="reasoning.summary", summary="Two.", index=1),
        chunk({"content": "Yes."}, "stop"),
        decoder=router(),
    )
    (details,) = [p.metadata["openrouter"] for p in message.parts if p.metadata]  # type: ignore[union-attr,unused-ignore]
    assert [detail["summary"] for detail in details["reasoning_details"]] == ["One.", "Two."]


def details_of(message: Message) -> list[Any]:
    """Of all of its thoughts."""
    kept = [part.metadata for part in message.parts if isinstance(part, Reasoning)]
    return [one for meta in kept if meta for one in meta["openrouter"]["reasoning_details"]]


def test_thoughts_of_another_id_are_other_thoughts() -> None:
    message = answer(
        detailed(type="reasoning.summary", summary="One, ", index=0, id="rs_1"),
        detailed(type="reasoning.summary", summary="still.", index=0),
        detailed(type="reasoning.summary", summary="Two.", index=0, id="rs_2"),
        chunk({"content": "Yes."}, "stop"),
        decoder=router(),
    )
    assert [(one["id"], one["summary"]) for one in details_of(message)] == [
        ("rs_1", "One, still."),
        ("rs_2", "Two."),
    ]


def test_thoughts_behind_a_signature_are_other_thoughts() -> None:
    message = answer(
        detailed(type="reasoning.text", text="One.", index=0),
        detailed(type="reasoning.text", text="", index=0, signature="YQ=="),
        detailed(type="reasoning.text", text="Two.", index=0),
        detailed(type="reasoning.text", text="", index=0, signature="Yg=="),
        chunk({"content": "Yes."}, "stop"),
        decoder=router(),
    )
    assert [(one["text"], one["signature"]) for one in details_of(message)] == [
        ("One.", "YQ=="),
        ("Two.", "Yg=="),
    ]


def test_a_signature_that_comes_late_joins_its_thought() -> None:
    message = answer(
        detailed(type="reasoning.text", text="So.", index=0),
        detailed(type="reasoning.encrypted", data="YQ==", index=1),
        detailed(type="reasoning.text", signature="c2ln", index=0),
        chunk({"content": "Yes."}, "stop"),
        decoder=router(),
    )
    first, second = details_of(message)
    assert (first["text"], first["signature"]) == ("So.", "c2ln")
    assert second == {"type": "reasoning.encrypted", "data": "YQ==", "index": 1}


def test_a_signature_behind_the_text_goes_back_as_if_it_had_come_before() -> None:
    message = answer(
        detailed(type="reasoning.text", text="So.", index=0),
        chunk({"content": "Ye"}),
        detailed(type="reasoning.text", signature="c2ln", index=0),
        chunk({"content": "s."}, "stop"),
        decoder=router(),
    )
    assert message.text == "Yes."
    own = replace(message, model="openrouter:m")
    to = ChatEndpoint("openrouter", "m", UNKNOWN, quirks_of("openrouter"))
    body = msgspec.json.decode(encode(Request(messages=(own,)), to)[0])
    assert body["messages"][0]["reasoning_details"] == [
        {"type": "reasoning.text", "text": "So.", "index": 0, "signature": "c2ln"}
    ]


def test_details_beside_tags_belong_to_the_thoughts() -> None:
    message = answer(
        detailed(type="reasoning.text", text="So.", index=0),
        chunk({"content": "Yes."}, "stop"),
        decoder=ChatDecoder("openrouter", think_tags=True, keeps_details=True),
    )
    assert message.parts[1] == Text("Yes.")
    assert [one["text"] for one in details_of(message)] == ["So."]


def test_details_that_come_late_do_not_split_the_text() -> None:
    message = answer(
        chunk({"content": "Hel"}),
        detailed(type="reasoning.encrypted", data="YQ==", index=0),
        chunk({"content": "lo"}),
        calling(piece(0, "c1", "look", "{}")),
        detailed(type="reasoning.encrypted", data="Yg==", id="c1", index=0),
        END,
        decoder=router(),
    )
    assert message.text == "Hello"
    kinds = [type(part).__name__ for part in message.parts]
    assert kinds == ["Text", "Reasoning", "ToolCall", "Reasoning"]
    kept = [part.metadata for part in message.parts if isinstance(part, Reasoning)]
    assert [meta["openrouter"]["reasoning_details"][0]["data"] for meta in kept if meta] == [
        "YQ==",
        "Yg==",
    ]


def test_details_in_odd_forms_break_nothing() -> None:
    odd: Any = [7, {"type": "reasoning.text", "text": 1}, {"type": "reasoning.text", "text": "a"}]
    message = answer(chunk({"reasoning_details": odd}), chunk({}, "stop"), decoder=router())
    (thought,) = message.parts
    assert isinstance(thought, Reasoning)
    assert thought.text == "a"


def test_json_that_is_nested_too_deeply_cannot_be_read() -> None:
    deep = b'data: {"usage": ' + b"[" * 100_000 + b"\n\n"
    with pytest.raises(RecursionError):
        decode(deep)


def test_details_are_kept_only_where_they_are_wanted_back() -> None:
    deltas = decode(detailed(type="reasoning.text", text="So.", index=0), chunk({}, "stop"))
    assert not any(isinstance(delta, PartEnded) for delta in deltas)


# --- Tags ---------------------------------------------------------------------------------------


def tagged() -> ChatDecoder:
    return ChatDecoder("local", think_tags=True)


def test_groq_thinks_in_tags() -> None:
    decoder = ChatDecoder("groq", think_tags=quirks_of("groq").think_tags)
    deltas = chunk({"content": "<think>\nHm.\n</think>\n\nYes."})
    assert answer(deltas, chunk({}, "stop"), decoder=decoder).text == "Yes."


def test_tags_are_text_where_nobody_says_otherwise() -> None:
    said = "<think>Hm.</think>Yes."
    assert answer(chunk({"content": said}), chunk({}, "stop")).text == said


TAGGED = [
    ("<think>\nHm, a < b.\n</think>\n\nYes.", "\nHm, a < b.\n", "Yes."),
    ("  \n<think>Hm.</think>Yes. <think>no</think>", "Hm.", "Yes. <think>no</think>"),
    ("<think></think>Yes.", "", "Yes."),
    ("<think>Hm, and </thin", "Hm, and </thin", ""),
    ("<thinking about it>", "", "<thinking about it>"),
    ("  Yes, <think>x</think>", "", "  Yes, <think>x</think>"),
    ("<thi", "", "<thi"),
    ("  ", "", "  "),
    ("<think>a</think></think>b", "a", "</think>b"),
]


@pytest.mark.parametrize(("said", "thought", "text"), TAGGED)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_tags_are_told_apart_wherever_they_are_cut(
    said: str, thought: str, text: str, size: int
) -> None:
    pieces = [said[at : at + size] for at in range(0, len(said), size)]
    deltas = decode(
        *(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"), DONE, decoder=tagged()
    )
    thoughts = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
    texts = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    assert (thoughts, texts) == (thought, text)


@given(st.text(alphabet="<think>/ \nx", max_size=40), st.lists(st.integers(1, 5), max_size=40))
def test_cuts_change_nothing_in_what_tags_mean(text: str, sizes: list[int]) -> None:
    def split(pieces: list[str]) -> tuple[str, str]:
        tags = ThinkTags()
        said = [delta for piece in pieces for delta in tags.feed(piece)] + tags.end()
        thoughts = "".join(delta.text for delta in said if isinstance(delta, ReasoningDelta))
        return thoughts, "".join(delta.text for delta in said if isinstance(delta, TextDelta))

    pieces, at = [], 0
    for size in sizes:
        pieces.append(text[at : at + size])
        at += size
    assert split([*pieces, text[at:]]) == split([text])


# --- Sources and pictures -----------------------------------------------------------------------


def test_citations_become_sources_behind_the_text() -> None:
    cited = {"type": "url_citation", "url_citation": {"url": "https://a.test", "title": "A"}}
    message = answer(
        chunk({"content": "It is "}),
        chunk({"annotations": [cited, {"type": "file_citation"}]}),
        chunk({"content": "so.", "annotations": [cited]}),
        chunk({}, "stop"),
    )
    assert message.parts == (Text("It is so."), Source("https://a.test", "A"))


def test_sources_that_come_with_every_chunk_are_told_once() -> None:
    found: Any = {
        "citations": ["https://a.test", "https://b.test"],
        "search_results": [{"url": "https://a.test", "title": "A", "date": None}],
    }
    message = answer(chunk({"content": "It "}, **found), chunk({"content": "is."}, "stop", **found))
    assert message.parts == (
        Text("It is."),
        Source("https://a.test", "A"),
        Source("https://b.test"),
    )


def test_a_picture_that_the_model_made_is_a_file() -> None:
    url = f"data:image/png;base64,{b64encode(b'png').decode()}"
    message = answer(
        chunk({"content": "Here:"}),
        chunk({"images": [{"type": "image_url", "image_url": {"url": url}}]}),
        chunk({"images": [{"type": "image_url", "image_url": {"url": "https://a.test/b"}}]}),
        chunk({"images": [{"type": "image_url", "image_url": {"url": "data:x;base64,%"}}]}),
        chunk({"images": [{"type": "image_url", "image_url": {"url": "data:x;base64,A"}}]}),
        chunk({"content": "So."}, "stop"),
    )
    assert message.parts == (
        Text("Here:"),
        File("image/png", data=b"png"),
        File("image/png", ref="https://a.test/b"),
        File("x", data=b""),
        Text("So."),
    )


# --- Usage --------------------------------------------------------------------------------------

COUNTS = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


@pytest.mark.parametrize(
    ("said", "usage"),
    [
        (COUNTS, Usage(100, 20)),
        ({**COUNTS, "prompt_tokens_details": {"cached_tokens": 60}}, Usage(40, 20, 0, 60)),
        (
            {**COUNTS, "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}},
            Usage(10, 20, 0, 60, 30),
        ),
        (
            {**COUNTS, "prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40},
            Usage(40, 20, 0, 60),
        ),
        ({**COUNTS, "cached_tokens": 60}, Usage(40, 20, 0, 60)),
        ({**COUNTS, "completion_tokens_details": {"reasoning_tokens": 5}}, Usage(100, 20, 5)),
        ({**COUNTS, "reasoning_tokens": 5}, Usage(100, 20, 5)),
        (
            {
                **COUNTS,
                "total_tokens": 150,
                "completion_tokens_details": {"reasoning_tokens": 30},
            },
            Usage(100, 50, 30),
        ),
        ({**COUNTS, "cost": 0.5}, Usage(100, 20, cost=0.5)),
        ({**COUNTS, "cost": {"total_cost": 0.25, "input": 0.1}}, Usage(100, 20, cost=0.25)),
        (
            {
                **COUNTS,
                "cost": 0.01,
                "is_byok": True,
                "cost_details": {"upstream_inference_cost": 0.25},
            },
            Usage(100, 20, cost=0.26),
        ),
        (
            {
                **COUNTS,
                "cost": 0.25,
                "is_byok": False,
                "cost_details": {"upstream_inference_cost": 0.25},
            },
            Usage(100, 20, cost=0.25),
        ),
        (
            {
                **COUNTS,
                "cost": 0,
                "is_byok": True,
                "cost_details": {"upstream_inference_cost": None},
            },
            Usage(100, 20, cost=0.0),
        ),
        ({**COUNTS, "cost": 0.5, "is_byok": True, "cost_details": "?"}, Usage(100, 20, cost=0.5)),
        ({**COUNTS, "cost": "?", "prompt_tokens_details": None}, Usage(100, 20)),
        ({"prompt_tokens": None, "completion_tokens": 3.0}, Usage(0, 3)),
        ({}, None),
        (None, None),
        ("?", None),
    ],
)
def test_tokens_are_counted_as_we_count_them(said: Any, usage: Usage | None) -> None:
    assert usage_of(said, None) == usage


def test_an_answer_that_was_cut_has_taken_what_was_counted_until_then() -> None:
    """Some count with every chunk."""
    decoder = ChatDecoder("openai")
    counts = {"prompt_tokens": 9, "completion_tokens": 1}
    decode(chunk({"content": "a"}), decoder=decoder)
    assert decoder.spent() is None
    decode(chunk({"content": "b"}, usage=counts), decoder=decoder)
    assert decoder.spent() == Usage(9, 1)


def test_the_providers_own_figure_wins_over_our_price() -> None:
    price = Price(1.0, 2.0)
    assert usage_of({**COUNTS, "cost": 0.5}, price) == Usage(100, 20, cost=0.5)
    assert usage_of(COUNTS, price) == Usage(100, 20, cost=140 / 1_000_000)


@pytest.mark.parametrize(
    "events",
    [
        [chunk({}, "stop", usage=None), event({"choices": [], "usage": COUNTS})],
        [chunk({}, "stop"), event({"usage": COUNTS})],
        [chunk({}, "stop", usage=COUNTS)],
        [chunk({"content": "a"}, usage={**COUNTS, "cost": 1}), chunk({}, "stop", usage=COUNTS)],
        [chunk({}, "stop", x_groq={"id": "req", "usage": COUNTS})],
        [event({"choices": [{"delta": {}, "finish_reason": "stop", "usage": COUNTS}]})],
        [event({"choices": [], "usage": COUNTS}), chunk({}, "stop", usage=None)],
    ],
)
def test_usage_is_found_wherever_it_comes(events: list[bytes]) -> None:
    assert answer(chunk({"content": "Hi"}), *events).usage == Usage(100, 20)


# --- Cuts ---------------------------------------------------------------------------------------

RICH = [
    b": OPENROUTER PROCESSING\r\n\r\n",
    chunk({"role": "assistant", "content": ""}),
    detailed(type="reasoning.text", text="Grüße ", index=0),
    detailed(type="reasoning.text", text="aus 東京.", index=0, signature="c2ln"),
    chunk({"content": "Hällo 👋🏽 "}),
    chunk({"content": "data: {}\n\n[DONE]"}),
    chunk({"annotations": [{"type": "url_citation", "url_citation": {"url": "https://a.test"}}]}),
    calling(piece(0, "c1", "look", "")),
    calling(piece(0, arguments='{"what":"é')),
    calling(piece(0, arguments='🏳️‍🌈"}')),
    calling(piece(1, "c2", "act", '{"n":2}')),
    END,
    event({"choices": [], "usage": COUNTS}),
    DONE,
]
WHOLE = assembled(decode(*RICH, decoder=router()))


@given(st.lists(st.integers(1, 400), max_size=60))
def test_where_the_bytes_are_cut_changes_nothing(sizes: list[int]) -> None:
    data = b"".join(RICH)
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    assert assembled(decode(*pieces, data[at:], decoder=router())) == WHOLE


def test_bytes_one_by_one_give_the_same_message() -> None:
    data = b"".join(RICH)
    pieces = [data[at : at + 1] for at in range(len(data))]
    assert assembled(decode(*pieces, decoder=router())) == WHOLE


@pytest.mark.parametrize("count", range(len(RICH)))
def test_a_stream_that_is_cut_brings_no_message_before_its_reason(count: int) -> None:
    deltas = decode(*RICH[:count], decoder=router())
    finished = any(isinstance(delta, Finished) for delta in deltas)
    assert finished == (END in RICH[:count])


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_an_error(data: bytes) -> None:
    with suppress(ProviderError, msgspec.DecodeError, UnicodeDecodeError):
        decode(chunk({"content": "Hi"}), b"data: " + data + b"\n\n")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 600)
    | st.text(max_size=5)
    | st.sampled_from(["error", "reasoning.text", "thinking", "url_citation", "stop"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            [
                "choices", "delta", "content", "tool_calls", "function", "name", "arguments", "id",
                "index", "finish_reason", "usage", "prompt_tokens", "error", "message", "object",
                "reasoning", "reasoning_details", "type", "text", "annotations", "url", "images",
                "image_url", "x_groq", "citations", "refusal", "cost", "thinking",
            ]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=20,
)  # fmt: skip


@given(st.lists(JSON, max_size=3), JSON)
def test_any_json_is_an_answer_or_an_error(events: list[Any], delta: Any) -> None:
    said = [event(data) for data in events]
    with suppress(ProviderError, msgspec.DecodeError):
        decode(*said, chunk(delta), chunk({}, "stop"), DONE, decoder=router())
