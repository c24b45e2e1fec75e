"""How answers of the Anthropic Messages API are read."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, get_args

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast import Agent, tool
from holdfast.errors import RunFailed
from holdfast.kernel.assemble import Assembly
from holdfast.kernel.errors import FailureKind, ProviderError, classify
from holdfast.kernel.messages import (
    FinishReason,
    Message,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from holdfast.kernel.model import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    PartAdded,
    PartEnded,
    Ping,
    ReasoningDelta,
    TextDelta,
)
from holdfast.options import Policy, Retry
from holdfast.providers.anthropic import Anthropic
from holdfast.providers.anthropic.decoder import FINISH_REASONS, AnthropicDecoder, result_text
from holdfast.providers.profile import Price
from holdfast.providers.sse import EventParser
from holdfast.testing import ScriptItem, ports, say
from holdfast.testing.fake.faults import raw, respond
from holdfast.testing.fake.provider import FakeProvider


def ev(type: str, **fields: Any) -> bytes:
    return msgspec.json.encode({"type": type, **fields})


def start(index: int, **block: Any) -> bytes:
    return ev("content_block_start", index=index, content_block=block)


def piece(index: int, type: str, **fields: Any) -> bytes:
    return ev("content_block_delta", index=index, delta={"type": type, **fields})


def stop(index: int) -> bytes:
    return ev("content_block_stop", index=index)


def wire(*events: bytes) -> bytes:
    return b"".join(b"data: " + one + b"\n\n" for one in events)


def end(reason: str | None = "end_turn", **usage: Any) -> list[bytes]:
    return [ev("message_delta", delta={"stop_reason": reason}, usage=usage), ev("message_stop")]


BEGIN: Final = ev(
    "message_start",
    message={"id": "msg_1", "usage": {"input_tokens": 3, "output_tokens": 1}},
)
HELLO: Final = [start(0, type="text", text=""), piece(0, "text_delta", text="Hello."), stop(0)]


def read(*events: bytes, decoder: AnthropicDecoder | None = None) -> list[Delta]:
    decoder = decoder or AnthropicDecoder("anthropic")
    return [*decoder.feed(list(events)), *decoder.end()]


def assembled(deltas: list[Delta]) -> Message:
    assembly = Assembly("anthropic:model", ports())
    for delta in deltas:
        assembly.feed(delta)
    return assembly.message()


def finished(deltas: list[Delta]) -> Finished:
    last = deltas[-1]
    assert isinstance(last, Finished)
    return last


# --- Blocks -------------------------------------------------------------------------------------


def test_text_arrives_in_pieces() -> None:
    deltas = read(
        BEGIN,
        ev("ping"),
        start(0, type="text", text=""),
        piece(0, "text_delta", text="Hel"),
        piece(0, "text_delta", text=""),
        piece(0, "text_delta", text="lo."),
        stop(0),
        *end(),
    )
    assert deltas[:-1] == [Ping(Usage(3, 1)), TextDelta("Hel"), TextDelta("lo."), PartEnded()]
    assert finished(deltas).metadata == {"anthropic": {"id": "msg_1", "stop_reason": "end_turn"}}


def test_text_and_thoughts_may_come_with_the_start_of_their_block() -> None:
    deltas = read(
        start(0, type="thinking", thinking="Hm.", signature="s"),
        stop(0),
        start(1, type="text", text="Hello."),
        stop(1),
    )
    assert deltas == [ReasoningDelta("Hm."), PartEnded("s"), TextDelta("Hello."), PartEnded()]


def test_two_texts_in_a_row_stay_two() -> None:
    second = [start(1, type="text", text=""), piece(1, "text_delta", text="Bye."), stop(1)]
    message = assembled(read(BEGIN, *HELLO, *second, *end()))
    assert message.parts == (Text("Hello."), Text("Bye."))


def test_an_empty_text_is_nothing() -> None:
    citation = {"type": "char_location", "cited_text": ""}
    empty = [start(0, type="text", text=""), piece(0, "citations_delta", citation=citation)]
    message = assembled(read(BEGIN, *empty, stop(0), *end()))
    assert message.parts == ()


def test_a_signature_closes_its_thought() -> None:
    deltas = read(
        start(0, type="thinking", thinking="", signature=""),
        piece(0, "thinking_delta", thinking="Hm"),
        piece(0, "thinking_delta", thinking="."),
        piece(0, "signature_delta", signature="sig=="),
        stop(0),
    )
    assert deltas == [ReasoningDelta("Hm"), ReasoningDelta("."), PartEnded("sig==")]


def test_a_call_starts_goes_on_and_ends() -> None:
    deltas = read(
        start(0, type="tool_use", id="t1", name="weather", input={}),
        piece(0, "input_json_delta", partial_json=""),
        piece(0, "input_json_delta", partial_json='{"city":'),
        piece(0, "input_json_delta", partial_json='"Oslo"}'),
        stop(0),
    )
    assert deltas == [
        CallStarted("t1", "weather"),
        ArgumentsDelta("t1", '{"city":'),
        ArgumentsDelta("t1", '"Oslo"}'),
        CallEnded("t1"),
    ]


def test_the_arguments_of_a_call_may_come_whole() -> None:
    deltas = read(start(0, type="tool_use", id="t1", name="weather", input={"a": 1}), stop(0))
    assert deltas[1:] == [ArgumentsDelta("t1", '{"a":1}'), CallEnded("t1")]


@pytest.mark.parametrize("written", ["", '{"city": "Os'])
def test_a_call_that_the_length_cut_off_never_ends(written: str) -> None:
    events = [
        start(0, type="tool_use", id="t1", name="weather", input={}),
        piece(0, "input_json_delta", partial_json=written),
        stop(0),
    ]
    cut = read(BEGIN, *events, *end("max_tokens"))
    assert not any(isinstance(delta, CallEnded) for delta in cut)
    assert assembled(cut).parts == ()
    whole = read(BEGIN, *events, *end("tool_use"))
    assert CallEnded("t1") in whole
    (call,) = assembled(whole).calls
    assert call.arguments == written
    assert (call.complaint is None) == (written == "")


def test_a_call_that_is_whole_is_kept_when_the_length_cuts_what_follows() -> None:
    deltas = read(
        BEGIN,
        start(0, type="tool_use", id="t1", name="a", input={}),
        piece(0, "input_json_delta", partial_json="{}"),
        stop(0),
        start(1, type="tool_use", id="t2", name="b", input={}),
        piece(1, "input_json_delta", partial_json='{"x'),
        stop(1),
        *end("max_tokens"),
    )
    message = assembled(deltas)
    assert [call.id for call in message.calls] == ["t1"]
    assert message.finish == "length"


WIPE: Final = [
    start(0, type="tool_use", id="t1", name="wipe", input={}),
    piece(0, "input_json_delta", partial_json=""),
    stop(0),
]
"""A call without arguments."""


def ended(deltas: list[Delta]) -> list[str]:
    return [delta.call_id for delta in deltas if isinstance(delta, CallEnded)]


@pytest.mark.parametrize("written", ["", '{"x'])
def test_a_call_has_ended_when_something_comes_behind_it(written: str) -> None:
    """Only what comes last can have been cut off. Nobody waits for the end of the answer."""
    decoder = AnthropicDecoder("anthropic")
    first = [*WIPE[:1], piece(0, "input_json_delta", partial_json=written), stop(0)]
    assert ended(decoder.feed(first)) == []
    assert decoder.feed([start(1, type="text", text="")]) == [CallEnded("t1")]


def test_calls_end_in_the_order_they_were_made() -> None:
    second = [
        start(1, type="tool_use", id="t2", name="look", input={}),
        piece(1, "input_json_delta", partial_json='{"x": 1}'),
        stop(1),
    ]
    third = [start(2, type="tool_use", id="t3", name="wipe", input={}), stop(2)]
    assert ended(read(BEGIN, *WIPE, *second, *third, *end("tool_use"))) == ["t1", "t2", "t3"]


def test_a_call_without_arguments_is_kept_when_the_length_cuts_what_follows() -> None:
    second = [start(1, type="tool_use", id="t2", name="wipe", input={}), stop(1)]
    assert ended(read(BEGIN, *WIPE, *second, *end("max_tokens"))) == ["t1"]


def test_a_call_that_a_refusal_cut_off_never_ends() -> None:
    assert ended(read(BEGIN, *WIPE, *end("refusal"))) == []


async def test_a_pure_call_does_not_overtake_the_call_before_it() -> None:
    ran: list[str] = []

    @tool
    async def wipe() -> str:
        """Empties the table."""
        ran.append("wipe")
        return "ok"

    @tool(effect="pure")
    async def look() -> str:
        """Looks at the table."""
        ran.append("look")
        return "ok"

    async def wait(_: Any) -> None:
        await anyio.sleep(1)

    second = start(1, type="tool_use", id="t2", name="look", input={})
    arguments = piece(1, "input_json_delta", partial_json="{}")
    answer: list[ScriptItem] = [
        raw(wire(*WIPE, second, arguments, stop(1))),
        wait,
        raw(wire(*end("tool_use"))),
    ]
    fake = FakeProvider("anthropic", [answer, say("Done.")])
    model = Anthropic("claude-opus-5", api_key="k", http=fake)
    await Agent(model=model, tools=[wipe, look], ports=ports()).run("Go.")
    assert ran == ["wipe", "look"]


def test_blocks_that_were_never_closed_end_with_the_answer() -> None:
    message = assembled(
        read(
            BEGIN,
            start(0, type="thinking", thinking="Hm.", signature="sig"),
            start(1, type="tool_use", id="t1", name="a", input={}),
            *end("tool_use"),
        )
    )
    first, second = message.parts
    assert isinstance(first, Reasoning)
    assert first.signature == "sig"
    assert isinstance(second, ToolCall)


SEARCH: Final = [
    start(0, type="server_tool_use", id="s1", name="web_search", input={}),
    piece(0, "input_json_delta", partial_json='{"query":"x"}'),
    stop(0),
]


def test_what_the_provider_ran_is_a_call_and_its_result() -> None:
    content = [{"type": "web_search_result", "url": "https://a.example", "title": "A"}]
    block = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": content}
    call, result = assembled(read(BEGIN, *SEARCH, start(1, **block), stop(1), *end())).parts
    assert call == ToolCall(
        "s1",
        "web_search",
        '{"query":"x"}',
        None,
        call.called_at,  # type: ignore[union-attr]
        provider_executed=True,
        metadata={"anthropic": {"type": "server_tool_use", "index": 0}},
    )
    assert result == ToolResult(
        "s1",
        "web_search",
        (Text("A: https://a.example"),),
        provider_executed=True,
        metadata={"anthropic": {"block": block, "index": 1}},
    )


@pytest.mark.parametrize(
    ("type", "fields"),
    [
        ("web_search_tool_result", {"content": {"type": "…_error", "error_code": "max_uses"}}),
        ("mcp_tool_result", {"content": [{"type": "text", "text": "no"}], "is_error": True}),
    ],
)
def test_what_failed_over_there_failed(type: str, fields: dict[str, Any]) -> None:
    block = {"type": type, "tool_use_id": "s1", **fields}
    *_, result = assembled(read(BEGIN, *SEARCH, start(1, **block), stop(1), *end())).parts
    assert isinstance(result, ToolResult)
    assert result.outcome == "failed"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ({"type": "code_execution_result", "stdout": "1\n", "stderr": "", "content": []}, "1\n"),
        ({"stdout": "1", "stderr": "oops", "return_code": 1}, "1\noops"),
        (
            {
                "type": "web_fetch_result",
                "url": "https://a.example",
                "content": {
                    "type": "document",
                    "title": "A",
                    "source": {"type": "text", "media_type": "text/plain", "data": "Text."},
                },
            },
            "https://a.example\nText.",
        ),
        (
            {
                "type": "web_fetch_result",
                "url": "https://a.example/a.pdf",
                "content": {
                    "type": "document",
                    "title": "A",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="},
                },
            },
            "https://a.example/a.pdf\nA",
        ),
        (
            {"type": "web_search_tool_result_error", "error_code": "unavailable"},
            "failed: unavailable",
        ),
        ({"type": "hologram"}, ""),
        (None, ""),
        (7, ""),
    ],
)
def test_results_can_be_told_in_words(content: Any, words: str) -> None:
    assert result_text(content) == words


def test_a_source_is_told_once() -> None:
    citation = {"type": "web_search_result_location", "url": "https://a.example", "title": "A"}
    other = {"type": "search_result_location", "source": "https://b.example", "title": None}
    local = {"type": "search_result_location", "source": "notes.txt", "title": "Notes"}
    pieces = [
        piece(0, "citations_delta", citation=one) for one in (citation, other, local, citation)
    ]
    deltas = read(*HELLO[:2], *pieces, stop(0))
    assert deltas[2:] == [
        PartAdded(Source("https://a.example", "A")),
        PartAdded(Source("https://b.example")),
    ]


def test_a_piece_of_a_kind_that_is_not_known_stays_with_its_block() -> None:
    events = [
        start(0, type="compaction", content=None),
        piece(0, "compaction_delta", content="Summary.", encrypted_content="x=="),
        stop(0),
    ]
    kept = {"type": "compaction", "content": "Summary.", "encrypted_content": "x=="}
    assert read(*events) == [
        PartAdded(Reasoning("", metadata={"anthropic": {"block": kept}})),
    ]


@pytest.mark.parametrize(
    "event",
    [
        ev(
            "content_block_delta", index=7, delta={"type": "input_json_delta", "partial_json": "{}"}
        ),
        ev("content_block_delta", index=7, delta={"type": "signature_delta", "signature": "s"}),
        ev("content_block_delta", index=7, delta={"type": "new_delta", "x": 1}),
        ev("content_block_delta", index=0),
        ev("content_block_stop", index=7),
        ev("content_block_start", index=7),
        ev("message_start"),
        ev("message_delta"),
        ev("ping"),
        ev("weather_report", wind=3),
        b"{}",
        b"[DONE]",
    ],
)
def test_what_says_nothing_is_passed_over(event: bytes) -> None:
    decoder = AnthropicDecoder("anthropic")
    assert decoder.feed([event]) == []
    assert assembled(read(BEGIN, *HELLO, *end(), decoder=decoder)).text == "Hello."


def test_new_fields_break_nothing() -> None:
    deltas = read(
        ev("message_start", message={"id": "m", "usage": {"new": {}}, "new": [1]}, new=1),
        start(0, type="text", text="Hello.", new={"a": 1}),
        stop(0),
        ev("message_delta", delta={"stop_reason": "new_reason", "new": 1}, usage={"new": 1}),
        ev("message_stop", new=None),
    )
    assert assembled(deltas).text == "Hello."
    assert finished(deltas).finish == "stop"


def test_fields_that_are_null_say_nothing() -> None:
    """Some gateways send all the fields they know."""
    nulls = dict.fromkeys(("partial_json", "thinking", "signature", "citation", "stop_reason"))
    deltas = read(
        ev("ping", index=None, delta=None, content_block=None, message=None, usage=None),
        ev("message_start", message={"id": None, "usage": None}),
        start(0, type="text", text=None, citations=None),
        piece(0, "text_delta", text="Hello.", **nulls),
        piece(0, "text_delta", **{**nulls, "text": None}),
        ev("content_block_delta", index=0, delta={"type": None, **nulls}),
        stop(0),
        start(1, type="tool_use", id=None, name=None, input=None),
        piece(1, "input_json_delta", partial_json=None),
        stop(1),
        ev("message_delta", delta={"type": None, "stop_reason": "end_turn", "text": None}),
        ev("message_stop"),
        ev(None),  # type: ignore[arg-type]
    )
    assert assembled(deltas).text == "Hello."


def test_half_of_a_character_may_come_in_any_block() -> None:
    new = rb'{"type":"content_block_delta","index":1,"delta":{"type":"new_delta","x":"\ud83db"}}'
    call = rb"""{"type":"content_block_start","index":0,"content_block":
        {"type":"tool_use","id":"t1","name":"a","input":{"x":"a\ud83d"}}}"""
    deltas = read(call, stop(0), start(1, type="hologram"), new, stop(1))
    assert deltas[1:3] == [ArgumentsDelta("t1", '{"x":"a"}'), CallEnded("t1")]
    kept = {"type": "hologram", "x": "b"}
    assert deltas[3:] == [PartAdded(Reasoning("", metadata={"anthropic": {"block": kept}}))]


BROKEN: Final = (b"{", b'{"type":', b"\xff", b'["a"]', b'{"type":1}')
HALVES: Final = (rb'{"type":"\ud83d', rb'{"type":["\ud83d"]}')


@pytest.mark.parametrize("event", [*BROKEN, *HALVES])
def test_what_cannot_be_read_is_an_error(event: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        read(event)


# --- The end ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "length"),
        ("compaction", "length"),
        ("something_new", "stop"),
    ],
)
def test_why_an_answer_ended(reason: str, finish: FinishReason) -> None:
    assert finished(read(BEGIN, *HELLO, *end(reason))).finish == finish


def test_every_reason_of_the_sdk_is_known() -> None:
    from anthropic.types.beta.beta_stop_reason import BetaStopReason
    from anthropic.types.stop_reason import StopReason

    assert {*get_args(StopReason), *get_args(BetaStopReason)} == set(FINISH_REASONS)


def test_an_answer_without_its_end_has_none() -> None:
    events = [BEGIN, *HELLO, *end()]
    for length in range(len(events)):
        assert not any(isinstance(delta, Finished) for delta in read(*events[:length]))


@pytest.mark.parametrize("events", [end(None), [ev("message_stop")]])
async def test_an_answer_that_does_not_say_why_it_ended_is_not_complete(
    events: list[bytes],
) -> None:
    decoder = AnthropicDecoder("anthropic")
    with pytest.raises(ProviderError) as caught:
        read(BEGIN, *HELLO, *events, decoder=decoder)
    assert caught.value.kind == "stream_cut"
    assert decoder.deltas == [Ping(Usage(3, 1)), TextDelta("Hello."), PartEnded()]
    assert await run_with(wire(BEGIN, *HELLO, *events)) == "stream_cut"


def test_why_it_was_refused_is_kept() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "No."}
    delta = {"stop_reason": "refusal", "stop_details": details}
    deltas = read(BEGIN, ev("message_delta", delta=delta), ev("message_stop"))
    assert finished(deltas).metadata == {
        "anthropic": {"id": "msg_1", "stop_reason": "refusal", "stop_details": details}
    }


# --- Usage --------------------------------------------------------------------------------------


def usage(begin: dict[str, Any], final: dict[str, Any], price: Price | None = None) -> Usage | None:
    decoder = AnthropicDecoder("anthropic", price)
    first = ev("message_start", message={"id": "m", "usage": begin})
    return finished(read(first, *HELLO, *end(**final), decoder=decoder)).usage


def test_the_beginning_says_what_went_in_and_the_end_what_came_out() -> None:
    begin = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 30,
        "output_tokens": 1,
    }
    final = {"output_tokens": 40, "output_tokens_details": {"thinking_tokens": 15}}
    assert usage(begin, final) == Usage(10, 40, 15, 30, 20)


@pytest.mark.parametrize(
    ("begin", "final"),
    [
        ({"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 10, "output_tokens": 4}),
        ({}, {"input_tokens": 10, "output_tokens": 4}),
        ({"input_tokens": 10}, {"input_tokens": 0, "output_tokens": 4}),
        ({"input_tokens": 10}, {"input_tokens": None, "output_tokens": 4}),
        ({"input_tokens": 10, "cache_read_input_tokens": None}, {"output_tokens": 4}),
        ({"input_tokens": 10, "output_tokens": 4}, {"output_tokens_details": None}),
    ],
)
def test_counts_may_come_with_either_end(begin: dict[str, Any], final: dict[str, Any]) -> None:
    assert usage(begin, final) == Usage(10, 4)


def test_a_provider_that_counts_nothing_reports_nothing() -> None:
    assert usage({}, {}) is None
    assert not any(isinstance(delta, Ping) for delta in read(ev("message_start", message={})))


def test_an_answer_that_was_cut_has_taken_what_was_counted_until_then() -> None:
    decoder = AnthropicDecoder("anthropic", Price(1, 1), resumable=True)
    assert decoder.spent() is None
    read(BEGIN, *HELLO, decoder=decoder)
    assert decoder.spent() == Usage(3, 1, cost=4 / 1_000_000)
    read(*end("pause_turn", output_tokens=5), decoder=decoder)
    decoder.resume()
    assert read(BEGIN, decoder=decoder) == [Ping(Usage(3, 6, cost=12 / 1_000_000))]


def test_an_answer_costs_what_its_tokens_cost() -> None:
    price = Price(3, 15, cache_read=0.3, cache_write=3.75)
    counted = usage({"input_tokens": 1_000_000}, {"output_tokens": 1_000_000}, price)
    assert counted is not None
    assert counted.cost == pytest.approx(18)


WRITES: Final = {
    "cache_creation_input_tokens": 1_000_000,
    "cache_creation": {"ephemeral_5m_input_tokens": 400_000, "ephemeral_1h_input_tokens": 600_000},
}


@pytest.mark.parametrize(("begin", "final"), [(WRITES, {}), ({}, WRITES), (WRITES, WRITES)])
def test_what_is_written_to_the_cache_for_an_hour_has_its_own_price(
    begin: dict[str, Any], final: dict[str, Any]
) -> None:
    counted = usage(begin, final, Price(3, 15, 0.3, cache_write=3.75, cache_write_1h=6))
    assert counted is not None
    assert counted.cache_write == 1_000_000
    assert counted.cost == pytest.approx(0.4 * 3.75 + 0.6 * 6)


@pytest.mark.parametrize("said", [None, {}, {"ephemeral_1h_input_tokens": None}])
def test_what_is_not_said_to_be_written_for_an_hour_is_not(said: Any) -> None:
    begin = {"cache_creation_input_tokens": 1_000_000, "cache_creation": said}
    counted = usage(begin, {}, Price(3, 15, 0.3, cache_write=3.75, cache_write_1h=6))
    assert counted is not None
    assert counted.cost == pytest.approx(3.75)


def test_each_go_of_a_paused_answer_pays_for_what_it_has_written_for_an_hour() -> None:
    decoder = AnthropicDecoder(
        "anthropic", Price(3, 15, cache_write=3.75, cache_write_1h=6), resumable=True
    )
    first = ev("message_start", message={"id": "m1", "usage": WRITES})
    read(first, *HELLO, *end("pause_turn"), decoder=decoder)
    decoder.resume()
    second = ev("message_start", message={"id": "m2", "usage": {"input_tokens": 1_000_000}})
    last = finished(read(second, *HELLO, *end(), decoder=decoder))
    assert last.usage is not None
    assert last.usage.cost == pytest.approx(0.4 * 3.75 + 0.6 * 6 + 3)


def test_a_paused_answer_counts_all_that_was_written_and_what_was_read_last() -> None:
    decoder = AnthropicDecoder("anthropic", Price(1, 1), resumable=True)
    first = ev("message_start", message={"id": "m1", "usage": {"input_tokens": 1_000_000}})
    thoughts = {"output_tokens_details": {"thinking_tokens": 200_000}}
    pause = end("pause_turn", output_tokens=500_000, **thoughts)
    deltas = read(first, *HELLO, *pause, decoder=decoder)
    assert decoder.paused
    assert not any(isinstance(delta, Finished) for delta in deltas)
    decoder.resume()
    read_last = {"input_tokens": 300_000, "cache_read_input_tokens": 1_200_000}
    second = ev("message_start", message={"id": "m2", "usage": read_last})
    last = finished(read(second, *HELLO, *end(output_tokens=7), decoder=decoder))
    assert last.usage is not None
    assert last.usage.cost == pytest.approx(3.000007)
    assert replace(last.usage, cost=None) == Usage(300_000, 500_007, 200_000, 1_200_000)
    assert last.metadata == {
        "anthropic": {
            "id": "m2",
            "stop_reason": "end_turn",
            "earlier_usage": [{"input": 1_000_000, "output": 500_000, "reasoning": 200_000}],
        }
    }


def test_a_go_that_does_not_say_why_it_ended_did_not_pause() -> None:
    decoder = AnthropicDecoder("anthropic", resumable=True)
    read(BEGIN, *HELLO, *end("pause_turn"), decoder=decoder)
    decoder.resume()
    with pytest.raises(ProviderError):
        read(BEGIN, *HELLO, *end(None), decoder=decoder)
    assert not decoder.paused


# --- Errors inside a stream ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type", "message", "kind", "retryable"),
    [
        ("overloaded_error", "Overloaded", "overloaded", True),
        ("rate_limit_error", "Slow down", "rate_limit", True),
        ("api_error", "Internal server error", "server", True),
        ("timeout_error", "Too long", "timeout", True),
        ("invalid_request_error", "No", "invalid_request", False),
        ("invalid_request_error", "prompt is too long: 9 tokens > 8", "context_overflow", False),
        ("authentication_error", "No", "auth", False),
        ("permission_error", "No", "permission", False),
        ("billing_error", "No", "quota", False),
        ("not_found_error", "No", "not_found", False),
        ("request_too_large", "No", "context_overflow", False),
        ("conflict_error", "No", "server", True),
        ("new_error", "What?", "unknown", False),
    ],
)
def test_an_error_inside_a_stream_is_what_its_type_says(
    type: str, message: str, kind: FailureKind, retryable: bool
) -> None:
    error = ev("error", error={"type": type, "message": message})
    with pytest.raises(ProviderError) as caught:
        read(BEGIN, *HELLO, error)
    assert caught.value.kind == kind
    assert caught.value.code == type
    assert str(caught.value) == message
    assert classify(caught.value).retryable is retryable


def test_an_error_that_says_nothing_is_one_all_the_same() -> None:
    for event in (ev("error"), ev("error", error="no")):
        with pytest.raises(ProviderError):
            read(event)


# --- However it is cut --------------------------------------------------------------------------

LONG: Final = [
    BEGIN,
    ev("ping"),
    start(0, type="thinking", thinking="", signature=""),
    piece(0, "thinking_delta", thinking="Größe\n 🙂"),
    piece(0, "signature_delta", signature="s=="),
    stop(0),
    start(1, type="text", text=""),
    piece(1, "text_delta", text="data: \n\n é"),
    piece(1, "citations_delta", citation={"url": "https://a.example", "title": "Ä"}),
    stop(1),
    start(2, type="server_tool_use", id="s1", name="web_search", input={}),
    piece(2, "input_json_delta", partial_json='{"query":'),
    piece(2, "input_json_delta", partial_json='"🙂"}'),
    stop(2),
    start(3, type="web_search_tool_result", tool_use_id="s1", content=[{"title": "x" * 300}]),
    stop(3),
    start(4, type="redacted_thinking", data="abc=="),
    stop(4),
    start(5, type="tool_use", id="t1", name="weather", input={}),
    piece(5, "input_json_delta", partial_json='{"city": "Oslo"}'),
    stop(5),
    start(6, type="tool_use", id="t2", name="clock", input={}),
    stop(6),
    *end("tool_use", output_tokens=9),
]
WIRE: Final = b"".join(b"event: x\ndata: " + one + b"\n\n" for one in LONG)
WHOLE: Final = assembled(read(*LONG))


@given(st.lists(st.integers(0, len(WIRE)), max_size=30))
def test_wherever_the_bytes_are_cut_the_message_is_the_same(cuts: list[int]) -> None:
    events, decoder = EventParser(), AnthropicDecoder("anthropic")
    deltas: list[Delta] = []
    places = [0, *sorted(cuts), len(WIRE)]
    for begin, until in pairwise(places):
        deltas += decoder.feed(events.feed(WIRE[begin:until]))
    deltas += [*decoder.feed(events.end()), *decoder.end()]
    assert assembled(deltas) == WHOLE


def test_the_long_answer_has_a_bit_of_everything() -> None:
    assert [type(part) for part in WHOLE.parts] == [
        Reasoning,
        Text,
        Source,
        ToolCall,
        ToolResult,
        Reasoning,
        ToolCall,
        ToolCall,
    ]


async def run_with(data: bytes) -> str:
    """What an agent makes of an answer of these bytes."""
    headers = {"Content-Type": "text/event-stream"}
    fake = FakeProvider("anthropic", default=respond(200, data, headers))
    model = Anthropic("claude-opus-5", api_key="k", http=fake)
    agent = Agent(model=model, policy=Policy(retry=Retry(attempts=1)), ports=ports())
    try:
        result = await agent.run("Hello?")
    except RunFailed as failed:
        return failed.failure.kind
    return result.history[-1].text


@pytest.mark.parametrize("length", range(len(LONG)))
async def test_a_stream_cut_behind_any_event_is_no_answer(length: int) -> None:
    assert await run_with(wire(*LONG[:length])) == "stream_cut"


async def test_the_same_stream_with_its_end_is_one() -> None:
    assert await run_with(wire(BEGIN, *HELLO, *end())) == "Hello."


async def test_an_event_that_is_no_json_ends_the_attempt() -> None:
    fake = FakeProvider("anthropic", [[raw(b"data: {oops\n\n")]])
    model = Anthropic("claude-opus-5", api_key="k", http=fake)
    agent = Agent(model=model, policy=Policy(retry=Retry(attempts=1)), ports=ports())
    with pytest.raises(RunFailed) as caught:
        await agent.run("Hello?")
    assert caught.value.failure.kind == "server"
    assert "oops" in caught.value.failure.detail
