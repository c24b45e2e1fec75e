"""What Anthropic gave, it gets back: block for block, also from storage and after others spoke."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest
from msgspec.structs import replace

from holdfast.kernel.assemble import Assembly
from holdfast.kernel.errors import ProviderError
from holdfast.kernel.messages import (
    Message,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    dump,
    load,
    results_message,
    user_message,
)
from holdfast.kernel.model import Finished, Notice, PartAdded, PartEnded, ProviderTool, Request
from holdfast.kernel.model_context import Trim, repair
from holdfast.providers.anthropic import Anthropic
from holdfast.testing import ScriptItem, call_raw, cut, fail, finish, ports, say, think
from holdfast.testing.fake.faults import lost
from holdfast.testing.fake.provider import FakeProvider

OPUS: Final = "anthropic:claude-opus-5"
NO_TRIM: Final = Trim(over=10**9, to=10**9)
ASK: Final = user_message("What is the weather?")


def note(**fields: Any) -> dict[str, Any]:
    return {"anthropic": fields}


def whole_call(id: str, tool: str, arguments: str, **fields: Any) -> ScriptItem:
    return PartAdded(ToolCall(id, tool, arguments, metadata=note(**fields)))


def block(raw: dict[str, Any]) -> ScriptItem:
    """A block that comes whole."""
    if raw["type"].endswith("_tool_result"):
        return PartAdded(ToolResult("", "", (), metadata=note(block=raw)))
    return PartAdded(Reasoning("", metadata=note(block=raw)))


async def answer(fake: FakeProvider, *messages: Message) -> Message:
    """Ask, and keep the answer as a store would."""
    model = Anthropic("claude-opus-5", api_key="k", http=fake)
    tools = (ProviderTool("web_search"),)
    assembly = Assembly(model.name, ports())
    async for delta in model.stream(Request(messages=messages, provider_tools=tools)):
        assembly.feed(delta)
    assert assembly.finish is not None
    return load(dump([assembly.message()]))[0]


async def sent_back(answer: Message, after: Sequence[Message] = ()) -> list[dict[str, Any]]:
    """The blocks of an answer as the next request has them."""
    fake = FakeProvider("anthropic", default=say("Fine."))
    model = Anthropic("claude-opus-5", api_key="k", http=fake)
    if not after:
        results = [
            ToolResult(call.id, call.tool, (Text("ok"),))
            for call in answer.calls
            if not call.provider_executed
        ]
        after = [results_message(results)] if results else [user_message("Go on.")]
    history = repair((ASK, answer, *after), NO_TRIM)
    async for _ in model.stream(Request(messages=history)):
        pass
    assert fake.problems == []
    (sent,) = [m for m in fake.requests[0].json["messages"] if m["role"] == "assistant"]
    return [{k: v for k, v in one.items() if k != "cache_control"} for one in sent["content"]]


FOUND: Final = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {
            "type": "web_search_result",
            "url": "https://weather.example/oslo",
            "title": "Oslo \ue000 \u2028",
            "encrypted_content": "EqgfCioIARgBIiQ3YTAwMjY1Mi1mZjM5LTQ1NGUtODgxNC1kNjNj+/==",
            "page_age": None,
        }
    ],
}
NINE: Final[list[dict[str, Any]]] = [
    {"type": "thinking", "thinking": "I should search.", "signature": "sig+1/=="},
    {"type": "text", "text": "Let me look."},
    {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "weather oslo"},
    },
    FOUND,
    {"type": "redacted_thinking", "data": "cmVkYWN0ZWQ="},
    {"type": "thinking", "thinking": "Now the tools.", "signature": "sig+2/=="},
    {"type": "text", "text": "Calling."},
    {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo", "n": 1.0}},
    {"type": "tool_use", "id": "toolu_2", "name": "clock", "input": {}},
]
SCRIPT: Final[list[ScriptItem]] = [
    think("I should search.", signature="sig+1/==", chunks=3),
    [say("Let me look.", chunks=4), PartEnded()],
    call_raw("web_search", '{"query":"weather oslo"}', id="srvtoolu_1", provider_executed=True),
    block(FOUND),
    block(NINE[4]),
    think("Now the tools.", signature="sig+2/=="),
    say("Calling."),
    call_raw("weather", '{"city": "Oslo", "n": 1.0}', id="toolu_1"),
    call_raw("clock", "", id="toolu_2"),
]


async def test_nine_blocks_come_back_as_they_came() -> None:
    fake = FakeProvider("anthropic", [SCRIPT])
    message = await answer(fake, ASK)
    assert await sent_back(message) == NINE


async def test_the_arguments_of_a_call_come_back_letter_by_letter() -> None:
    written = '{ "b":1.0,"a": 12345678901234567890, "e":"\\u00e9" }'
    fake = FakeProvider("anthropic", [call_raw("weather", written, id="toolu_1", chunks=7)])
    message = await answer(fake, ASK)
    again = FakeProvider("anthropic", [say("Fine.")])
    model = Anthropic("claude-opus-5", api_key="k", http=again)
    results = results_message([ToolResult("toolu_1", "weather", (Text("ok"),))])
    async for _ in model.stream(Request(messages=(ASK, message, results))):
        pass
    assert f'"input":{written}'.encode() in again.requests[0].body


async def test_a_thought_that_is_not_shown_comes_back_with_its_signature() -> None:
    fake = FakeProvider("anthropic", [[PartEnded("sig"), say("Hello.")]])
    message = await answer(fake, ASK)
    thought = message.parts[0]
    assert isinstance(thought, Reasoning)
    assert (thought.text, thought.signature) == ("", "sig")
    assert (await sent_back(message))[0] == {"type": "thinking", "thinking": "", "signature": "sig"}


CITED: Final = {
    "type": "web_search_result_location",
    "url": "https://weather.example/oslo",
    "title": "Oslo",
    "cited_text": "Sunny.",
    "encrypted_index": "Eo8BCioIAhgBIiQyYjQ0OWJmZi1lNm..",
}
IN_A_FILE: Final = {
    "type": "char_location",
    "cited_text": "x",
    "document_index": 0,
    "document_title": "notes",
    "start_char_index": 0,
    "end_char_index": 1,
}


async def test_citations_come_back_and_are_told_as_sources() -> None:
    script = [
        [say("It is "), PartEnded()],
        [say("sunny"), PartEnded(metadata=note(citations=[CITED, IN_A_FILE]))],
        [say(" and warm"), PartEnded(metadata=note(citations=[CITED]))],
        say("."),
    ]
    message = await answer(FakeProvider("anthropic", [script]), ASK)
    assert [part for part in message.parts if isinstance(part, Source)] == [
        Source("https://weather.example/oslo", "Oslo")
    ]
    assert message.text == "It is sunny and warm."
    assert await sent_back(message) == [
        {"type": "text", "text": "It is "},
        {"type": "text", "text": "sunny", "citations": [CITED, IN_A_FILE]},
        {"type": "text", "text": " and warm", "citations": [CITED]},
        {"type": "text", "text": "."},
    ]


async def test_sources_of_a_script_are_citations() -> None:
    message = await answer(
        FakeProvider("anthropic", [[say("Sunny."), PartAdded(Source("https://a.example", "A"))]]),
        ASK,
    )
    assert Source("https://a.example", "A") in message.parts


async def test_calls_that_code_made_over_there_come_back_nested_as_they_were() -> None:
    """The kernel puts a result next to its call. Here that would pull a search out of its code."""
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_c"}
    nested: list[dict[str, Any]] = [
        {"type": "text", "text": "I write a program."},
        {"type": "server_tool_use", "id": "srvtoolu_c", "name": "code_execution", "input": {}},
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "a"},
            "caller": caller,
        },
        {**FOUND, "caller": caller},
        {
            "type": "server_tool_use",
            "id": "srvtoolu_2",
            "name": "web_search",
            "input": {"query": "b"},
            "caller": caller,
        },
        {**FOUND, "tool_use_id": "srvtoolu_2", "caller": caller},
        {"type": "thinking", "thinking": "Done.", "signature": "sig"},
        {
            "type": "code_execution_tool_result",
            "tool_use_id": "srvtoolu_c",
            "content": {
                "type": "encrypted_code_execution_result",
                "encrypted_stdout": "abc==",
                "stderr": "",
                "return_code": 0,
                "content": [],
            },
        },
        {"type": "text", "text": "It is sunny."},
    ]
    server = {"type": "server_tool_use"}
    script: ScriptItem = [
        [say("I write a program."), PartEnded()],
        whole_call("srvtoolu_c", "code_execution", "{}", **server),
        whole_call("srvtoolu_1", "web_search", '{"query":"a"}', **server, extra={"caller": caller}),
        block(nested[3]),
        whole_call("srvtoolu_2", "web_search", '{"query":"b"}', **server, extra={"caller": caller}),
        block(nested[5]),
        think("Done.", signature="sig"),
        block(nested[7]),
        say("It is sunny."),
    ]
    message = await answer(FakeProvider("anthropic", [script]), ASK)
    assert await sent_back(message) == nested


async def test_blocks_that_nobody_knows_come_back() -> None:
    new = {"type": "hologram", "pixels": [1, 2.5, None], "sig": "x=="}
    message = await answer(FakeProvider("anthropic", [[say("Look:"), block(new)]]), ASK)
    assert await sent_back(message) == [{"type": "text", "text": "Look:"}, new]


async def test_a_call_of_the_provider_without_a_result_is_left_out() -> None:
    pending = call_raw("web_search", '{"query":"x"}', id="srvtoolu_9", provider_executed=True)
    script = [say("Hm."), pending, call_raw("clock", "{}", id="toolu_1")]
    message = await answer(FakeProvider("anthropic", [script]), ASK)
    assert [one["type"] for one in await sent_back(message)] == ["text", "tool_use"]


async def test_an_id_that_was_taken_is_another_one_for_the_call_and_its_result() -> None:
    call = ToolCall("id-1", "web_search", "{}", provider_executed=True)
    server = replace(call, metadata=note(type="server_tool_use", index=0))
    found = ToolResult("id-1", "web_search", (), metadata=note(block=FOUND, index=1))
    stored = Message(
        "assistant", (server, replace(found, provider_executed=True)), "answer", model=OPUS
    )
    ran, result = await sent_back(stored)
    assert ran["id"] == result["tool_use_id"] == "id-1"


async def test_a_call_forgets_the_code_that_made_it_when_that_is_left_out() -> None:
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_gone"}
    call = ToolCall("toolu_1", "clock", "{}", metadata=note(extra={"caller": caller}))
    stored = Message("assistant", (call,), "answer", model=OPUS)
    assert await sent_back(stored) == [
        {"type": "tool_use", "id": "toolu_1", "name": "clock", "input": {}}
    ]


async def test_who_made_a_call_comes_back() -> None:
    extra = {"caller": {"type": "direct"}, "toolset_name": "browser"}
    script = whole_call("toolu_1", "click", '{"x":1}', extra=extra)
    message = await answer(FakeProvider("anthropic", [script]), ASK)
    assert await sent_back(message) == [
        {"type": "tool_use", "id": "toolu_1", "name": "click", "input": {"x": 1}, **extra}
    ]


# --- Interrupted and incomplete answers ---------------------------------------------------------


async def test_a_thought_that_was_cut_off_is_left_out() -> None:
    stored = Message(
        "assistant",
        (Reasoning("I sho"), Text("Let me")),
        "answer",
        finish="interrupted",
        model=OPUS,
    )
    assert await sent_back(stored) == [{"type": "text", "text": "Let me"}]


@pytest.mark.parametrize(
    "parts",
    [
        (Reasoning("I sho"),),
        (Reasoning("I should.", "sig"),),
        (Text(" \n"), Reasoning("", metadata=note(block=NINE[4]))),
    ],
)
async def test_an_answer_of_which_nothing_can_be_sent_is_left_out(parts: tuple[Any, ...]) -> None:
    fake = FakeProvider("anthropic", [say("Fine.")])
    model = Anthropic("claude-opus-5", api_key="k", http=fake)
    stored = Message("assistant", parts, "answer", finish="interrupted", model=OPUS)
    history = (ASK, stored, user_message("And now?"))
    async for _ in model.stream(Request(messages=history)):
        pass
    (sent,) = fake.requests[0].json["messages"]
    assert [one["text"] for one in sent["content"]] == ["What is the weather?", "And now?"]


async def test_a_text_that_was_cut_off_stays_behind_the_results_before_it() -> None:
    fake = FakeProvider("anthropic", [[*SCRIPT[:4], say("So it is sun"), cut()]])
    model = Anthropic("claude-opus-5", api_key="k", http=fake)
    assembly = Assembly(model.name, ports())
    async for delta in model.stream(Request(messages=(ASK,))):
        assembly.feed(delta)
    message = assembly.partial("interrupted")
    assert message is not None
    assert [one["type"] for one in await sent_back(message)] == [
        "thinking",
        "text",
        "server_tool_use",
        "web_search_tool_result",
        "text",
    ]


# --- Other providers ----------------------------------------------------------------------------


async def test_what_others_thought_and_ran_is_told_in_words_or_not_at_all() -> None:
    stored = Message(
        "assistant",
        (
            Reasoning("Secret.", "their-sig", metadata={"openai": {"id": "rs_1"}}),
            ToolCall("ws_1", "web_search", '{"q":"x"}', provider_executed=True),
            ToolResult("ws_1", "web_search", (Text("Sunny."),), provider_executed=True),
            Text("It is sunny.", {"anthropic": {"citations": ["not ours"]}}),
        ),
        "answer",
        model="openai:gpt-5",
    )
    assert await sent_back(stored) == [
        {"type": "text", "text": '[web_search {"q":"x"} → Sunny.]'},
        {"type": "text", "text": "It is sunny."},
    ]


async def test_a_record_without_the_block_is_told_in_words() -> None:
    """As some other adapter for the same provider may have made it."""
    stored = Message(
        "assistant",
        (
            ToolCall("ws_1", "web_search", '{"q":"x"}', provider_executed=True),
            ToolResult("ws_1", "web_search", (Text("Sunny."),), provider_executed=True),
        ),
        "answer",
        model=OPUS,
    )
    assert await sent_back(stored) == [{"type": "text", "text": '[web_search {"q":"x"} → Sunny.]'}]


async def test_after_another_provider_spoke_everything_is_there_again() -> None:
    message = await answer(FakeProvider("anthropic", [SCRIPT]), ASK)
    results = [ToolResult(call.id, call.tool, (Text("ok"),)) for call in message.calls[1:]]
    other = Message(
        "assistant", (Reasoning("Mine."), Text("Sunny.")), "answer", model="openai:gpt-5"
    )
    fake = FakeProvider("anthropic", [say("Fine.")])
    model = Anthropic("claude-opus-5", api_key="k", http=fake)
    history = (ASK, message, results_message(results), other, user_message("Sure?"))
    async for _ in model.stream(Request(messages=load(dump(history)))):
        pass
    assert fake.problems == []
    sent = [m for m in fake.requests[0].json["messages"] if m["role"] == "assistant"]
    assert sent[0]["content"] == NINE
    assert [one["text"] for one in sent[1]["content"]] == ["Sunny."]


@pytest.mark.parametrize("id", ["call:1", "functions.x:0", "héllo", "a/b", "\ud800"])
async def test_ids_of_others_are_spelled_with_letters_that_are_taken(id: str) -> None:
    calls = (ToolCall(id, "fs.read", "{}"), ToolCall(f"{id}!", "clock", "{}"))
    stored = Message("assistant", calls, "answer", model="other:model")
    fake = FakeProvider("anthropic", [say("Fine.")])
    model = Anthropic("claude-opus-5", api_key="k", http=fake)
    results = results_message([ToolResult(call.id, call.tool, (Text("ok"),)) for call in calls])
    async for _ in model.stream(Request(messages=(ASK, stored, results))):
        pass
    assert fake.problems == []
    _, assistant, user = fake.requests[0].json["messages"]
    sent = [one["id"] for one in assistant["content"]]
    assert sent == [one["tool_use_id"] for one in user["content"]]
    assert len(set(sent)) == 2
    assert assistant["content"][0]["name"] == "fs_read"


# --- Pauses -------------------------------------------------------------------------------------


def paused(**fields: Any) -> ScriptItem:
    return finish("stop", metadata=note(stop_reason="pause_turn", **fields))


async def test_a_paused_answer_is_asked_on_and_is_one_answer() -> None:
    pending = call_raw("web_search", '{"query":"b"}', id="srvtoolu_2", provider_executed=True)
    late = {**FOUND, "tool_use_id": "srvtoolu_2"}
    container = {"id": "container_1", "expires_at": "2026-11-16T00:00:00Z"}
    fake = FakeProvider(
        "anthropic",
        [
            [*SCRIPT[:4], pending, paused(container=container)],
            [block(late), think("Good.", signature="sig3"), say("It is sunny.")],
        ],
    )
    message = await answer(fake, ASK)
    assert fake.problems == []
    call = {"type": "server_tool_use", "id": "srvtoolu_2", "name": "web_search"}
    so_far = [*NINE[:4], {**call, "input": {"query": "b"}}]
    again = fake.requests[1].json
    assert [
        {k: v for k, v in one.items() if k != "cache_control"}
        for one in again["messages"][-1]["content"]
    ] == so_far
    assert again["container"] == "container_1"
    assert "container" not in fake.requests[0].json
    assert message.finish == "stop"
    assert await sent_back(message) == [
        *so_far,
        late,
        {"type": "thinking", "thinking": "Good.", "signature": "sig3"},
        {"type": "text", "text": "It is sunny."},
    ]


async def test_a_connection_that_breaks_behind_a_pause_loses_nothing() -> None:
    fake = FakeProvider("anthropic", [[*SCRIPT[:4], paused(), lost()], say("It is sunny.")])
    message = await answer(fake, ASK)
    assert message.text == "Let me look.It is sunny."
    assert [len(received.json["messages"]) for received in fake.requests] == [1, 2]


async def test_a_connection_that_breaks_before_the_pause_breaks_the_answer() -> None:
    fake = FakeProvider("anthropic", [[*SCRIPT[:4], lost()]])
    with pytest.raises(ProviderError):
        await answer(fake, ASK)


async def test_an_error_behind_a_pause_is_one() -> None:
    fake = FakeProvider("anthropic", [[say("More."), paused(), fail("No.", status=500)]])
    with pytest.raises(ProviderError, match="No"):
        await answer(fake, ASK)


async def test_what_is_left_out_is_told_once_however_often_it_pauses() -> None:
    fake = FakeProvider("anthropic", [[say("More. "), paused()], say("Done.")])
    model = Anthropic("claude-opus-5", api_key="k", http=fake)
    tools = (ProviderTool("web_search"), ProviderTool("teleport"))
    request = Request(messages=(ASK,), provider_tools=tools)
    deltas = [delta async for delta in model.stream(request)]
    assert len([delta for delta in deltas if isinstance(delta, Notice)]) == 1


async def test_an_answer_that_pauses_for_ever_is_taken_as_one_that_was_too_long() -> None:
    fake = FakeProvider("anthropic", default=[say("More. "), paused()])
    message = await answer(fake, ASK)
    assert len(fake.requests) == 11
    assert message.finish == "length"
    assert message.text == "More. " * 11


async def test_a_pause_without_tools_of_the_provider_is_a_cut() -> None:
    fake = FakeProvider("anthropic", [[say("More."), paused()]])
    model = Anthropic("claude-opus-5", api_key="k", http=fake)
    *_, last = [delta async for delta in model.stream(Request(messages=(ASK,)))]
    assert isinstance(last, Finished)
    assert last.finish == "length"


async def test_a_pause_after_nothing_is_no_answer() -> None:
    fake = FakeProvider("anthropic", [paused()])
    model = Anthropic("claude-opus-5", api_key="k", http=fake)
    request = Request(messages=(ASK,), provider_tools=(ProviderTool("web_search"),))
    deltas = [delta async for delta in model.stream(request)]
    assert not any(isinstance(delta, Finished) for delta in deltas)
    assert len(fake.requests) == 1


async def test_a_stream_that_is_left_while_it_pauses_lets_go_of_its_connection() -> None:
    fake = FakeProvider("anthropic", [[say("a"), say("b"), paused()], say("c")])
    model = Anthropic("claude-opus-5", api_key="k", http=fake)
    request = Request(messages=(ASK,), provider_tools=(ProviderTool("web_search"),))
    stream = model.stream(request)
    await anext(stream)
    assert fake.open == 1
    await stream.aclose()  # type: ignore[attr-defined]
    assert fake.open == 0
