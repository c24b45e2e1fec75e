"""The events of OpenAI's Responses API as deltas, from what comes over the wire."""

from __future__ import annotations

from base64 import b64encode
from itertools import pairwise
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.kernel.assemble import Assembly
from holdfast.kernel.errors import FailureKind, ProviderError
from holdfast.kernel.messages import (
    File,
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
    ReasoningDelta,
    TextDelta,
)
from holdfast.providers.openai_responses.decoder import ResponsesDecoder
from holdfast.providers.openai_responses.event_types import ERROR_CODES
from holdfast.providers.profile import Price
from holdfast.providers.sse import EventParser
from holdfast.testing import ports

Json = dict[str, Any]


def wire(*events: Json | bytes) -> list[bytes]:
    return [item if isinstance(item, bytes) else msgspec.json.encode(item) for item in events]


def decoded(*events: Json | bytes, **options: Any) -> list[Delta]:
    decoder = ResponsesDecoder("openai", **options)
    return [*decoder.feed(wire(*events)), *decoder.end()]


def assembled(deltas: list[Delta]) -> Message:
    assembly = Assembly("openai:gpt-5", ports())
    for delta in deltas:
        assembly.feed(delta)
    return assembly.message()


def message(*events: Json | bytes, **options: Any) -> Message:
    return assembled(decoded(*events, **options))


def ev(type: str, at: int = 0, **fields: Any) -> Json:
    return {"type": f"response.{type}", "output_index": at, "sequence_number": 0, **fields}


def added(at: int, **item: Any) -> Json:
    return ev("output_item.added", at, item=item)


def done(at: int, **item: Any) -> Json:
    return ev("output_item.done", at, item=item)


def delta(text: str, at: int = 0, index: int = 0) -> Json:
    return ev("output_text.delta", at, content_index=index, item_id="msg_1", delta=text)


def message_item(text: str, id: str = "msg_1", **more: Any) -> Json:
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": id, "role": "assistant", "status": "completed"}
    return {**item, "content": [part], **more}


def completed(*output: Json, **more: Any) -> Json:
    response = {"id": "resp_1", "status": "completed", "output": list(output), **more}
    return {"type": "response.completed", "response": response}


def kept(part: Any) -> Json:
    made: Json = part.metadata["openai"]
    return made


# --- The usual answer ---------------------------------------------------------------------------

TALK: Final = (
    {"type": "response.created", "response": {"id": "resp_1", "output": [], "usage": None}},
    {"type": "response.in_progress", "response": {"id": "resp_1"}},
    added(0, type="reasoning", id="rs_1", summary=[]),
    ev("reasoning_summary_part.added", item_id="rs_1", summary_index=0, part={}),
    ev("reasoning_summary_text.delta", item_id="rs_1", summary_index=0, delta="I sh"),
    ev("reasoning_summary_text.delta", item_id="rs_1", summary_index=0, delta="ould."),
    ev("reasoning_summary_text.done", item_id="rs_1", summary_index=0, text="I should."),
    ev("reasoning_summary_part.done", item_id="rs_1", summary_index=0, part={}),
    ev("reasoning_summary_part.added", item_id="rs_1", summary_index=1, part={}),
    ev("reasoning_summary_text.delta", item_id="rs_1", summary_index=1, delta="I will."),
    done(
        0,
        type="reasoning",
        id="rs_1",
        encrypted_content="secret",
        summary=[
            {"type": "summary_text", "text": "I should."},
            {"type": "summary_text", "text": "I will."},
        ],
    ),
    added(1, type="message", id="msg_1", role="assistant", status="in_progress", content=[]),
    ev("content_part.added", 1, item_id="msg_1", content_index=0, part={"type": "output_text"}),
    delta("One ", 1),
    delta("moment.", 1),
    ev("output_text.done", 1, item_id="msg_1", content_index=0, text="One moment."),
    ev("content_part.done", 1, item_id="msg_1", content_index=0, part={}),
    done(1, **message_item("One moment.", phase="commentary")),
    added(2, type="function_call", id="fc_1", call_id="call_1", name="look", arguments=""),
    ev("function_call_arguments.delta", 2, item_id="fc_1", delta='{"at":'),
    ev("function_call_arguments.delta", 2, item_id="fc_1", delta='"x"}'),
    ev("function_call_arguments.done", 2, item_id="fc_1", arguments='{"at":"x"}'),
    done(
        2,
        type="function_call",
        id="fc_1",
        call_id="call_1",
        name="look",
        arguments='{"at":"x"}',
        status="completed",
    ),
    completed(
        usage={
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
            "output_tokens": 50,
            "output_tokens_details": {"reasoning_tokens": 20},
            "total_tokens": 150,
        }
    ),
)


def test_an_answer_as_it_streams() -> None:
    deltas = decoded(*TALK)
    shown = [delta for delta in deltas if not hasattr(delta, "metadata")]
    assert shown == [
        ReasoningDelta("I sh"),
        ReasoningDelta("ould."),
        ReasoningDelta("\n\n"),
        ReasoningDelta("I will."),
        TextDelta("One "),
        TextDelta("moment."),
        CallStarted("call_1", "look"),
        ArgumentsDelta("call_1", '{"at":'),
        ArgumentsDelta("call_1", '"x"}'),
    ]


def test_what_has_to_be_sent_back_is_kept_beside_it() -> None:
    thought, text, call = message(*TALK).parts
    assert isinstance(thought, Reasoning)
    assert thought.text == "I should.\n\nI will."
    assert kept(thought)["item"]["encrypted_content"] == "secret"
    assert [part["text"] for part in kept(thought)["item"]["summary"]] == ["I should.", "I will."]
    assert isinstance(text, Text)
    assert text.text == "One moment."
    assert kept(text) == {
        "id": "msg_1",
        "index": 0,
        "item": {"status": "completed", "phase": "commentary"},
    }
    assert isinstance(call, ToolCall)
    assert (call.id, call.tool, call.arguments) == ("call_1", "look", '{"at":"x"}')
    assert kept(call) == {"item": {"id": "fc_1", "status": "completed"}}


def test_usage_counts_cached_tokens_apart() -> None:
    answered = message(*TALK, price=Price(input=10, output=100, cache_read=1, cache_write=20))
    counted = Usage(30, 50, 20, 60, 10)
    assert message(*TALK).usage == counted
    assert answered.usage is not None
    assert answered.usage.cost == pytest.approx(0.00556)
    assert replace(answered.usage, cost=None) == counted
    assert answered.metadata == {"openai": {"response_id": "resp_1"}}
    assert answered.finish == "tool_calls"


def test_an_answer_that_failed_has_taken_what_was_counted() -> None:
    decoder = ResponsesDecoder("openai")
    assert decoder.spent() is None
    used = {"input_tokens": 9, "output_tokens": 4}
    error = {"code": "server_error", "message": "Oh."}
    response = {"id": "resp_1", "status": "failed", "error": error, "usage": used}
    with pytest.raises(ProviderError):
        decoder.feed(wire({"type": "response.failed", "response": response}))
    assert decoder.spent() == Usage(9, 4)


def test_what_a_provider_says_it_charges_is_what_it_costs() -> None:
    tokens = {"input_tokens": 10, "output_tokens": 5}
    price = Price(input=10, output=100)
    for charged, cost in (
        ({"currency": "USD", "total_cost": 0.25, "tool_calls_cost": 0.2}, 0.25),
        ({"currency": "USD"}, 0.0006),
        (0.25, 0.0006),
        (None, 0.0006),
    ):
        end = completed(message_item("Hi"))
        end["response"]["usage"] = {**tokens, "cost": charged}
        usage = message(end, price=price).usage
        assert usage is not None
        assert usage.cost == pytest.approx(cost)


def test_an_answer_that_does_not_go_on_from_the_stored_one_is_refused_at_once() -> None:
    def created(previous: str | None) -> Json:
        response = {"id": "resp_2", "previous_response_id": previous}
        return {"type": "response.created", "response": response}

    assert decoded(created("resp_1"), *TALK[1:], previous="resp_1") == decoded(*TALK)
    assert decoded(created(None), *TALK[1:]) == decoded(*TALK)
    for previous in (None, "resp_0"):
        decoder = ResponsesDecoder("openai", previous="resp_1")
        with pytest.raises(ProviderError) as caught:
            decoder.feed(wire(created(previous), *TALK[1:]))
        assert caught.value.code == "previous_response_not_found"
        assert decoder.deltas == []


def test_an_answer_that_is_to_be_built_upon_says_what_it_was_given_for() -> None:
    metadata = message(*TALK, input="abc").metadata
    assert metadata is not None
    assert metadata["openai"]["input"] == "abc"
    assert set(metadata["openai"]) == {"response_id", "input", "output"}


# --- Every end ----------------------------------------------------------------------------------

CALLED: Final = done(
    0, type="function_call", id="fc_1", call_id="c", name="f", arguments="{}", status="completed"
)


def incomplete(reason: str | None) -> Json:
    details = {"reason": reason} if reason else None
    response = {"id": "resp_1", "status": "incomplete", "incomplete_details": details}
    return {"type": "response.incomplete", "response": response}


@pytest.mark.parametrize(
    ("events", "finish"),
    [
        ((delta("Hi"), completed(message_item("Hi"))), "stop"),
        ((CALLED, completed()), "tool_calls"),
        ((delta("Hi"), incomplete("max_output_tokens")), "length"),
        ((delta("Hi"), incomplete("max_messages")), "length"),
        ((delta("Hi"), incomplete(None)), "length"),
        ((delta("Hi"), incomplete("content_filter")), "content_filter"),
        ((incomplete("content_filter"),), "content_filter"),
        ((delta("Hi"), {**incomplete("content_filter"), "type": "response.completed"}), None),
        ((ev("refusal.delta", content_index=0, delta="No."), completed()), "content_filter"),
        ((completed(),), "stop"),
    ],
    ids=str,
)
def test_why_an_answer_ended(events: tuple[Json, ...], finish: FinishReason | None) -> None:
    last = decoded(*events)[-1]
    assert isinstance(last, Finished)
    assert last.finish == (finish or "content_filter")


def test_a_call_that_was_cut_off_is_none() -> None:
    cut = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f"}
    events = (
        added(0, **cut, arguments=""),
        ev("function_call_arguments.delta", item_id="fc_1", delta='{"a'),
        done(0, **cut, arguments='{"a', status="incomplete"),
        incomplete("max_output_tokens"),
    )
    assert not any(isinstance(delta, CallEnded) for delta in decoded(*events))
    assert message(*events).parts == ()


def test_a_call_that_only_the_end_tells_was_being_written_is_none() -> None:
    cut = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f"}
    whole = {**cut, "id": "fc_0", "call_id": "b", "arguments": "{}", "status": "completed"}
    end = incomplete("max_output_tokens")
    end["response"]["output"] = [whole, {**cut, "arguments": '{"a', "status": "in_progress"}]
    [call] = message(end).parts
    assert isinstance(call, ToolCall)
    assert call.id == "b"
    # Of an answer that is complete it is as complete as the answer is.
    late = {**cut, "arguments": "{}", "status": "in_progress"}
    assert len(message(completed(late)).parts) == 1


def test_an_answer_without_its_last_event_is_none() -> None:
    for end in range(len(TALK)):
        assert not any(isinstance(delta, Finished) for delta in decoded(*TALK[:end]))
    assert isinstance(decoded(*TALK)[-1], Finished)


def test_nothing_counts_behind_the_end() -> None:
    assert decoded(*TALK, delta("more"), completed(message_item("more")), b"[DONE]") == decoded(
        *TALK
    )


# --- Refusals and sources -----------------------------------------------------------------------


def test_a_refusal_is_text_that_is_known_as_one() -> None:
    content = [{"type": "refusal", "refusal": "I will not."}]
    answered = message(
        ev("refusal.delta", item_id="msg_1", content_index=0, delta="I will "),
        ev("refusal.delta", item_id="msg_1", content_index=0, delta="not."),
        ev("refusal.done", item_id="msg_1", content_index=0, refusal="I will not."),
        done(0, type="message", id="msg_1", role="assistant", status="completed", content=content),
        completed(),
    )
    [text] = answered.parts
    assert isinstance(text, Text)
    assert text.text == "I will not."
    assert kept(text)["refusal"] is True
    assert answered.finish == "content_filter"


CITED: Final = [
    {"type": "url_citation", "url": "https://a.org", "title": "A", "start_index": 0},
    {"type": "file_citation", "file_id": "file_1", "filename": "f", "index": 3},
    {"type": "url_citation", "url": "https://a.org", "title": "A", "start_index": 5},
    {"type": "url_citation", "url": "https://b.org", "title": None, "start_index": 9},
]


def test_sources_stand_behind_the_text_that_has_them() -> None:
    annotations = [
        ev("output_text.annotation.added", item_id="msg_1", content_index=0, annotation=one)
        for one in CITED
    ]
    item = message_item("As A and B say.")
    item["content"][0]["annotations"] = CITED
    for events in (
        (delta("As A "), *annotations, delta("and B say."), done(0, **item), completed()),
        (delta("As A and B say."), *annotations, completed()),  # known only from their events
        (completed(item),),
    ):
        text, *sources = message(*events).parts
        assert isinstance(text, Text)
        assert text.text == "As A and B say."
        assert kept(text)["annotations"] == CITED
        assert sources == [Source("https://a.org", "A"), Source("https://b.org")]


# --- What the provider ran ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "tool", "arguments", "text"),
    [
        (
            {"type": "web_search_call", "action": {"type": "search", "query": "x"}},
            "web_search",
            {"action": {"type": "search", "query": "x"}},
            "completed",
        ),
        (
            {
                "type": "web_search_call",
                "action": {"type": "search", "sources": [{"type": "url", "url": "https://a.org"}]},
            },
            "web_search",
            None,
            "https://a.org",
        ),
        (
            {
                "type": "file_search_call",
                "queries": ["x"],
                "results": [{"filename": "f", "text": "t"}],
            },
            "file_search",
            {"queries": ["x"]},
            "f: t",
        ),
        (
            {
                "type": "code_interpreter_call",
                "code": "print(1)",
                "container_id": "cntr_1",
                "outputs": [{"type": "logs", "logs": "1\n"}, {"type": "image", "url": "u"}],
            },
            "code_execution",
            {"code": "print(1)"},
            "1\n",
        ),
        (
            {
                "type": "mcp_call",
                "name": "roll",
                "server_label": "dice",
                "arguments": '{"n": 2}',
                "output": "7",
            },
            "roll",
            {"n": 2},
            "7",
        ),
        (
            {"type": "mcp_list_tools", "server_label": "dice", "tools": [{"name": "roll"}]},
            "mcp_list_tools",
            {"server_label": "dice"},
            "completed",
        ),
        (
            {"type": "newest_call", "what": {"a": 1}, "output": {"b": 2}},
            "newest",
            {"what": {"a": 1}},
            '{"b":2}',
        ),
        (
            {"type": "image_generation_call", "result": None, "error": {"message": "blocked"}},
            "image_generation",
            {},
            '{"message":"blocked"}',
        ),
    ],
    ids=lambda value: value.get("type") if isinstance(value, dict) else "",
)
def test_a_call_that_the_provider_ran(item: Json, tool: str, arguments: Any, text: str) -> None:
    item = {"id": "it_1", "status": "completed", **item}
    call, result = message(added(0, **item), done(0, **item), completed()).parts
    assert isinstance(call, ToolCall)
    assert isinstance(result, ToolResult)
    assert (call.tool, call.id, call.provider_executed) == (tool, "it_1", True)
    if arguments is not None:
        assert msgspec.json.decode(call.arguments) == arguments
    assert kept(call) == {"item": item}
    assert (result.call_id, result.tool, result.text) == ("it_1", tool, text)
    assert (result.outcome, result.provider_executed) == ("ok", True)


def test_a_call_that_the_provider_ran_and_gave_no_id_is_one_call() -> None:
    """As Perplexity tells what it has found."""
    search = {
        "type": "search_results",
        "queries": ["x"],
        "results": [{"id": 1, "url": "https://a.org", "title": "A", "snippet": "…"}],
    }
    fetch = {"type": "fetch_url_results", "contents": [{"url": "https://b.org", "snippet": "…"}]}
    events = (
        added(0, type="search_results", results=[]),
        done(0, **search),
        added(1, type="fetch_url_results", contents=[]),
        done(1, **fetch),
        completed(search, fetch),
    )
    encoded, pages, fetched, page = message(*events).parts
    assert isinstance(encoded, ToolCall)
    assert isinstance(fetched, ToolCall)
    assert isinstance(pages, ToolResult)
    assert isinstance(page, ToolResult)
    assert (encoded.tool, msgspec.json.decode(encoded.arguments)) == (
        "web_search",
        {"queries": ["x"]},
    )
    assert (pages.call_id, pages.text) == (encoded.id, "https://a.org")
    assert (fetched.tool, fetched.arguments) == ("fetch_url", "{}")
    assert (page.call_id, page.text) == (fetched.id, "https://b.org")


def test_a_call_that_failed_over_there() -> None:
    item = {"type": "web_search_call", "id": "ws_1", "status": "failed", "action": {}}
    _, result = message(done(0, **item), completed()).parts
    assert isinstance(result, ToolResult)
    assert result.outcome == "failed"


def test_code_is_seen_while_it_is_written() -> None:
    item = {"type": "code_interpreter_call", "id": "ci_1", "container_id": "c"}
    code = 'print("é\n")'
    deltas = decoded(
        added(0, **item, code="", status="in_progress"),
        ev("code_interpreter_call.in_progress", item_id="ci_1"),
        ev("code_interpreter_call_code.delta", item_id="ci_1", delta=code[:8]),
        ev("code_interpreter_call_code.delta", item_id="ci_1", delta=code[8:]),
        ev("code_interpreter_call_code.done", item_id="ci_1", code=code),
        ev("code_interpreter_call.completed", item_id="ci_1"),
        done(0, **item, code=code, status="completed", outputs=None),
        completed(),
    )
    pieces = [delta.text for delta in deltas if isinstance(delta, ArgumentsDelta)]
    assert len(pieces) == 3
    assert msgspec.json.decode("".join(pieces)) == {"code": code}


def test_a_picture_is_a_part_of_the_answer_and_kept_once() -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "status": "completed"}
    result = b64encode(b"jpeg").decode()
    deltas = decoded(
        added(0, **item, result=None),
        ev("image_generation_call.generating", item_id="ig_1"),
        ev("image_generation_call.partial_image", item_id="ig_1", partial_image_b64=result),
        done(0, **item, result=result, output_format="jpeg"),
        completed(),
    )
    [file] = assembled(deltas).parts
    assert isinstance(file, File)
    assert (file.media_type, file.data) == ("image/jpeg", b"jpeg")
    assert kept(file) == {"item": {**item, "result": None, "output_format": "jpeg"}}


def test_a_tool_of_ours_that_the_provider_declares_is_called() -> None:
    names = {"shell_call": "run", "draw": "draw"}
    shell = {
        "type": "shell_call",
        "id": "sh_1",
        "call_id": "c1",
        "status": "completed",
        "action": {"commands": ["ls"]},
    }
    custom = {"type": "custom_tool_call", "id": "ct_1", "call_id": "c2", "name": "draw"}
    events = (
        done(0, **shell),
        added(1, **custom, input=""),
        ev("custom_tool_call_input.delta", 1, item_id="ct_1", delta="a cat"),
        done(1, **custom, input="a cat"),
        completed(),
    )
    run, draw = message(*events, names=names).calls
    assert (run.tool, run.arguments) == ("run", '{"action":{"commands":["ls"]}}')
    assert (draw.tool, draw.arguments) == ("draw", '{"input":"a cat"}')
    assert kept(run)["item"] == shell
    assert not run.provider_executed
    assert message(*events).calls[0].provider_executed  # nobody here has a shell


# --- Servers that leave something out -----------------------------------------------------------

SHORT: Final = (
    done(0, type="reasoning", id="rs_1", encrypted_content="s", summary=[{"text": "hm"}]),
    done(1, **message_item("Hello")),
    done(2, type="function_call", id="fc_1", call_id="c", name="f", arguments='{"a":1}'),
)
OUTPUT: Final = tuple(event["item"] for event in SHORT)


def other_ids(event: Json) -> Json:
    item = {**event["item"], "id": "another_" + event["item"]["id"]}
    return {**event, "item": item}


@pytest.mark.parametrize(
    "events",
    [
        (*SHORT, completed(*OUTPUT)),
        (*SHORT, *SHORT, completed(*OUTPUT)),
        (*SHORT, completed()),
        (completed(*OUTPUT),),
        (SHORT[0], completed(*OUTPUT)),
        (SHORT[0], delta("Hel", 1), completed(*OUTPUT)),
        (SHORT[0], delta("Hel", 1), SHORT[1], SHORT[1], completed(*OUTPUT[1:])),
        (SHORT[0], delta("Hello", 1), *SHORT[1:], completed(*OUTPUT)),
        (*SHORT, completed(*(other_ids(event)["item"] for event in SHORT))),
        (*SHORT, completed(*OUTPUT[1:])),
        (
            SHORT[0],
            ev("output_text.done", 1, content_index=0, text="Hello"),
            *SHORT[1:],
            completed(),
        ),
        tuple({k: v for k, v in e.items() if k != "output_index"} | {"item_id": str(n)}
              for n, e in enumerate((*SHORT, completed()))),
    ],
)  # fmt: skip
def test_nothing_is_lost_and_nothing_is_said_twice(events: tuple[Json, ...]) -> None:
    thought, text, call = message(*events).parts
    assert isinstance(thought, Reasoning)
    assert isinstance(text, Text)
    assert isinstance(call, ToolCall)
    assert (thought.text, text.text, call.arguments) == ("hm", "Hello", '{"a":1}')
    assert kept(thought)["item"]["encrypted_content"] == "s"
    assert call.id == "c"


def test_a_message_that_was_not_streamed_is_told_apart_from_one_that_was() -> None:
    first, second = message_item("One.", "msg_1"), message_item("Two.", "msg_2")
    assert message(done(1, **second), completed(first, second)).text == "Two.One."


def test_items_that_end_only_at_the_end_do_not_repeat_their_text() -> None:
    answered = message(
        added(0, **message_item("")),
        delta("Hello"),
        added(1, type="function_call", id="fc_1", call_id="c", name="f", arguments=""),
        ev("function_call_arguments.delta", 1, item_id="fc_1", delta="{}"),
        ev("output_text.done", 0, item_id="msg_1", content_index=0, text="Hello"),
        done(0, **message_item("Hello")),
        done(1, type="function_call", id="fc_1", call_id="c", name="f", arguments="{}"),
        completed(),
    )
    text, call = answered.parts
    assert isinstance(text, Text)
    assert text.text == "Hello"
    assert kept(text)["id"] == "msg_1"
    assert isinstance(call, ToolCall)


def test_a_text_that_is_said_to_be_complete_too_late_is_not_repeated() -> None:
    two = message_item("", content=[{"type": "output_text", "text": t} for t in ("One", "Two")])
    answered = message(
        delta("One"),
        delta("Two", index=1),
        ev("output_text.done", item_id="msg_1", content_index=0, text="One"),
        done(0, **two),
        delta("Thr", 1),
        ev("output_text.done", item_id="msg_1", content_index=1, text="Two"),
        delta("One", 0),
        delta("ee", 1),
        completed(),
    )
    texts = [part.text for part in answered.parts if isinstance(part, Text)]
    assert texts == ["One", "Two", "Three"]


def test_content_that_is_none_breaks_nothing() -> None:
    strange = message_item("Hi", content=[None, {"type": "output_text", "text": "Hi"}, {"text": 5}])
    assert message(done(0, **strange), completed(strange)).text == "Hi"
    assert message(delta("Hi"), done(0, **message_item("", content="Hi")), completed()).text == "Hi"


def test_events_in_another_order() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f"}
    answered = message(
        ev("function_call_arguments.delta", item_id="fc_1", delta='{"a":'),
        added(0, **call, arguments=""),
        ev("function_call_arguments.delta", item_id="fc_1", delta="1}"),
        done(0, **call, arguments='{"a":1}'),
        done(1, **message_item("Hello")),
        delta("Hello", 1),
        completed(),
    )
    [made] = answered.calls
    assert made.arguments == '{"a":1}'
    assert answered.text == "Hello"


def test_a_call_whose_pieces_do_not_fit_does_not_run() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f"}
    pieces = [
        added(0, **call, arguments=""),
        ev("function_call_arguments.delta", item_id="fc_1", delta='{"a": 1}'),
    ]
    with pytest.raises(ProviderError, match="do not match") as caught:
        decoded(*pieces, done(0, **call, arguments='{"a": 2}'))
    assert caught.value.kind == "server"
    [made] = message(*pieces, done(0, **call, arguments='{"a":1}'), completed()).calls
    assert made.arguments == '{"a": 1}'  # written otherwise, and the same
    [made] = message(*pieces, done(0, **call), completed()).calls
    assert made.arguments == '{"a": 1}'
    [made] = message(done(0, **call, arguments={"a": 1}), completed()).calls
    assert made.arguments == '{"a":1}'


def test_a_call_without_an_id_of_its_own_has_that_of_its_item() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "", "name": "f", "arguments": "{}"}
    assert message(done(0, **call), completed()).calls[0].id == "fc_1"


def test_reasoning_that_is_no_summary() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": []}
    content = [{"type": "reasoning_text", "text": "One"}, {"type": "reasoning_text", "text": "Two"}]
    streamed = (
        ev("reasoning_text.delta", item_id="rs_1", content_index=0, delta="One"),
        ev("reasoning_text.delta", item_id="rs_1", content_index=1, delta="Two"),
        ev("reasoning_text.done", item_id="rs_1", content_index=1, text="Two"),
    )
    for events in (streamed, ()):
        [thought] = message(*events, done(0, **item, content=content), completed()).parts
        assert isinstance(thought, Reasoning)
        assert thought.text == "One\n\nTwo"
        assert kept(thought)["item"]["content"] == content


def test_several_texts_and_several_messages() -> None:
    two = message_item("", content=[{"type": "output_text", "text": t} for t in ("One", "Two")])
    answered = message(
        delta("One"),
        delta("Two", index=1),
        done(0, **two),
        delta("Three", 1),
        done(1, **message_item("Three", "msg_2")),
        completed(),
    )
    assert [part.text for part in answered.parts if isinstance(part, Text)] == [
        "One",
        "Two",
        "Three",
    ]
    assert [(kept(part)["id"], kept(part)["index"]) for part in answered.parts] == [
        ("msg_1", 0),
        ("msg_1", 1),
        ("msg_2", 0),
    ]


# --- What cannot be read ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "strange",
    [
        {"type": "keepalive", "sequence_number": 3},
        {"type": "response.queued", "response": {"id": "resp_1"}},
        {"type": "response.brand_new.delta", "delta": {"not": "text"}, "output_index": "x"},
        {"type": "response.web_search_call.searching", "item_id": "ws_1", "output_index": 0},
        {"hello": "world"},
        b"[DONE]",
        {**delta(""), "new_field": [1, 2]},
        {**delta(""), "item_id": None},
    ],
    ids=str,
)
def test_what_is_new_breaks_nothing(strange: Json | bytes) -> None:
    deltas = decoded(delta("Hi"), strange, delta(" there"), completed())
    assert assembled(deltas).text == "Hi there"


@pytest.mark.parametrize(
    "garbage", [b'{"type":"response.output_te', b"\xff\xfe", b"null", b"[]", b"5"]
)
def test_what_is_no_event_is_an_error(garbage: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        decoded(delta("Hi"), garbage)


def test_a_known_event_with_the_wrong_content_is_an_error() -> None:
    with pytest.raises(msgspec.DecodeError):
        decoded({**delta("Hi"), "delta": {"text": "Hi"}})


# --- Errors inside a stream ---------------------------------------------------------------------

KINDS: Final[dict[str, FailureKind]] = {
    **ERROR_CODES,
    "server_error": "server",
    "rate_limit_exceeded": "rate_limit",
    "insufficient_quota": "quota",
    "context_length_exceeded": "context_overflow",
    "model_not_found": "not_found",
    "invalid_api_key": "auth",
}


@pytest.mark.parametrize(("code", "kind"), KINDS.items())
def test_every_error_is_known_by_its_code(code: str, kind: FailureKind) -> None:
    error = {"code": code, "message": "It did not work."}
    for event in (
        {"type": "error", "sequence_number": 2, "param": None, **error},
        {"type": "error", "error": {"type": "invalid_request_error", **error}},
        {"error": error},
        {"type": "response.failed", "response": {"status": "failed", "error": error}},
        {"type": "response.failed", "error": error},
    ):
        with pytest.raises(ProviderError, match="It did not work") as caught:
            decoded(delta("Hi"), event)
        assert (caught.value.code, caught.value.kind) == (code, kind)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.failed", "response": {"status": "failed", "error": None}},
        {"type": "response.failed"},
    ],
)
def test_a_failure_that_says_nothing_may_be_tried_again(event: Json) -> None:
    with pytest.raises(ProviderError) as caught:
        decoded(event)
    assert caught.value.kind == "server"


def test_what_came_before_an_error_is_not_lost_with_it() -> None:
    decoder = ResponsesDecoder("openai")
    with pytest.raises(ProviderError):
        decoder.feed(wire(delta("Half"), {"type": "error", "message": "Oh no"}))
    assert decoder.deltas == [TextDelta("Half")]


def test_an_overflow_inside_a_stream_says_how_much_fits() -> None:
    said = "This model's maximum context length is 128000 tokens, and you asked for 150000."
    with pytest.raises(ProviderError) as caught:
        decoded({"type": "error", "code": "context_length_exceeded", "message": said})
    assert (caught.value.kind, caught.value.window) == ("context_overflow", 128_000)


# --- However it is cut --------------------------------------------------------------------------

BYTES: Final = b"".join(b"event: x\ndata: " + data + b"\n\n" for data in wire(*TALK))


@given(st.lists(st.integers(0, len(BYTES)), max_size=20))
def test_where_the_bytes_are_cut_makes_no_difference(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(BYTES)]
    events, decoder = EventParser(), ResponsesDecoder("openai")
    deltas: list[Delta] = []
    for start, end in pairwise(places):
        deltas += decoder.feed(events.feed(BYTES[start:end]))
    deltas += [*decoder.feed(events.end()), *decoder.end()]
    assert deltas == decoded(*TALK)
