"""What a model said goes back to it as it came, whatever happened to the history meanwhile."""

from __future__ import annotations

from base64 import b64encode
from copy import deepcopy
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast import Agent, tool
from holdfast.kernel.assemble import Assembly
from holdfast.kernel.messages import (
    File,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    dump,
    load,
    results_message,
    user_message,
)
from holdfast.kernel.model import CallEnded, CallStarted, PartAdded, PartEnded, Request
from holdfast.providers.openai_responses import OpenAIResponses
from holdfast.providers.openai_responses.decoder import ResponsesDecoder
from holdfast.providers.openai_responses.request import encode
from holdfast.providers.profile import UNKNOWN, Profile
from holdfast.testing import call, ports, say, source, think
from holdfast.testing.fake.provider import FakeProvider

Json = dict[str, Any]

HI: Final = user_message("Hi")


def stored_answer(*items: Json, end: str = "completed", **options: Any) -> Message:
    """The answer that is made of these items, as it comes back from a store."""
    assembly = Assembly("openai:gpt-5", ports())
    events: list[Json] = []
    for at, item in enumerate(items):
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    events.append({"type": f"response.{end}", "response": {"id": "resp_1", "output": items}})
    decoder = ResponsesDecoder("openai", **options)
    for delta in decoder.feed([msgspec.json.encode(event) for event in events]):
        assembly.feed(delta)
    [message] = load(dump([assembly.message()]))
    return message


def sent(
    *messages: Message,
    provider: str = "openai",
    model: str = "gpt-5",
    profile: Profile = UNKNOWN,
) -> list[Json]:
    request = Request(messages=messages)
    encoded = encode(request, model, provider, profile, False)
    made: list[Json] = msgspec.json.decode(encoded.body(encoded.items))["input"]
    return made


def reasoning(id: str = "rs_1", **more: Any) -> Json:
    summary = [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}]
    item = {"id": id, "type": "reasoning", "summary": summary, "encrypted_content": "gAAA="}
    return {**item, **more}


def message(*texts: str, id: str = "msg_1", **more: Any) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": content,
        **more,
    }


def called(id: str = "fc_1", call_id: str = "call_1", **more: Any) -> Json:
    return {
        "id": id,
        "type": "function_call",
        "status": "completed",
        "call_id": call_id,
        "name": "look",
        "arguments": '{ "at" : "é" }',
        **more,
    }


def searched(id: str = "ws_1") -> Json:
    action = {"type": "search", "query": "x", "sources": [{"type": "url", "url": "https://a.org"}]}
    return {"id": id, "type": "web_search_call", "status": "completed", "action": action}


CODE: Final[Json] = {
    "id": "ci_1",
    "type": "code_interpreter_call",
    "status": "completed",
    "code": "print(1)",
    "container_id": "cntr_1",
    "outputs": None,
}
PICTURE: Final[Json] = {
    "id": "ig_1",
    "type": "image_generation_call",
    "status": "completed",
    "result": b64encode(bytes(range(256))).decode(),
    "revised_prompt": "a cat",
}
MCP: Final[Json] = {
    "id": "mcp_1",
    "type": "mcp_call",
    "status": "completed",
    "server_label": "dice",
    "name": "roll",
    "arguments": '{"n": 2}',
    "output": "7",
    "error": None,
}
FILES: Final[Json] = {
    "id": "fs_1",
    "type": "file_search_call",
    "status": "completed",
    "queries": ["x"],
    "results": [{"file_id": "f", "filename": "a.txt", "score": 0.5, "text": "t"}],
}
CITED: Final = {
    "type": "output_text",
    "text": "As A says.",
    "annotations": [
        {"type": "url_citation", "url": "https://a.org", "title": "A", "start_index": 3}
    ],
}
REFUSED: Final = {"type": "refusal", "refusal": "Not that."}


# --- The same items in the same order -----------------------------------------------------------


@pytest.mark.parametrize(
    "items",
    [
        (message("Hi"),),
        (reasoning(), message("Hi")),
        (reasoning(summary=[]), called()),
        (reasoning(), searched(), reasoning("rs_2"), message("Hi"), called()),
        (reasoning(), searched(), searched("ws_2"), message("Hi")),
        (message("Hi", phase="commentary"), called(), called("fc_2", "call_2")),
        (message("One", "Two"), message("Three", id="msg_2", phase="final_answer")),
        (message("", content=[CITED, {**CITED, "text": "So it is."}]),),
        (message("", content=[REFUSED]),),
        (message("Hi", status="incomplete"),),
        (reasoning(), CODE, message("Hi")),
        (reasoning(), PICTURE, message("Hi")),
        (reasoning(), {**PICTURE, "result": "QR=="}, message("Hi")),  # as nobody else writes it
        (reasoning(), {**PICTURE, "result": None, "status": "failed"}, message("Hi")),
        (MCP, FILES, message("Hi")),
        (reasoning(), reasoning("rs_2"), message("Hi")),
        (reasoning(content=[{"type": "reasoning_text", "text": "hm"}]), message("Hi")),
        (reasoning(), called(namespace="crm", caller={"type": "direct"})),
        (reasoning(), {"id": "cmp_1", "type": "compaction", "encrypted_content": "x"}),
    ],
)
def test_the_items_of_an_answer_go_back_as_they_came(items: tuple[Json, ...]) -> None:
    assert sent(HI, stored_answer(*deepcopy(items)))[1:] == list(items)


def test_a_field_that_came_as_null_is_not_sent() -> None:
    came = [reasoning(status=None), message("Hi", phase=None), called(namespace=None)]
    assert sent(HI, stored_answer(*came))[1:] == [reasoning(), message("Hi"), called()]


def test_two_messages_that_are_said_at_the_same_time_stay_two() -> None:
    assembly = Assembly("openai:gpt-5", ports())
    events: list[Json] = []
    for at, text in ((0, "One "), (1, "Two "), (0, "one"), (1, "two")):
        where = {"output_index": at, "content_index": 0, "item_id": f"msg_{at}"}
        events.append({"type": "response.output_text.delta", **where, "delta": text})
    events.append({"type": "response.completed", "response": {}})
    for delta in ResponsesDecoder("openai").feed([msgspec.json.encode(event) for event in events]):
        assembly.feed(delta)
    first, second = sent(HI, *load(dump([assembly.message()])))[1:]
    assert (first["id"], second["id"]) == ("msg_0", "msg_1")
    assert [part["text"] for part in first["content"]] == ["One ", "one"]
    assert [part["text"] for part in second["content"]] == ["Two ", "two"]


def item_of(kind: str, number: int) -> Json:
    return {
        "message": message(f"Text {number}", id=f"msg_{number}"),
        "two": message("One", "Two", id=f"msg_{number}"),
        "call": called(f"fc_{number}", f"call_{number}"),
        "search": searched(f"ws_{number}"),
        "code": {**CODE, "id": f"ci_{number}"},
    }[kind]


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from(["message", "two", "call", "search", "code"])),
        min_size=1,
        max_size=8,
    )
)
def test_any_answer_goes_back_as_it_came(kinds: list[tuple[bool, str]]) -> None:
    items: list[Json] = []
    for number, (thought, kind) in enumerate(kinds):
        items += [reasoning(f"rs_{number}")] if thought else []
        items.append(item_of(kind, number))
    assert sent(HI, stored_answer(*deepcopy(items)))[1:] == items


async def test_an_agent_sends_everything_back_and_nothing_is_objected_to() -> None:
    @tool
    async def look(at: str) -> str:
        """Look at it."""
        return f"I see {at}."

    fake = FakeProvider(
        "openai_responses",
        [
            [
                think("I search.\n\nAnd then?", signature="first"),
                CallStarted("ws_9", "web_search", True),
                CallEnded("ws_9"),
                think("Now look.", signature="second"),
                say("Let me see."),
                source("https://a.org", "A"),
                call("look", at="this"),
            ],
            [think("Done.", signature="third"), say("It is this.")],
            say("Yes."),
        ],
    )
    model = OpenAIResponses("gpt-5", api_key="k", http=fake)
    agent = Agent(model=model, tools=[look], ports=ports())
    first = await agent.run("What is it?")
    await agent.run("Sure?", history=load(dump(first.history)))
    assert fake.problems == []
    asked = [request.json["input"] for request in fake.requests]
    assert [item["type"] for item in asked[2]] == [
        "message",
        "reasoning",
        "web_search_call",
        "reasoning",
        "message",
        "function_call",
        "function_call_output",
        "reasoning",
        "message",
        "message",
    ]
    assert asked[2][: len(asked[1])] == asked[1]
    assert [i["encrypted_content"] for i in asked[2] if i["type"] == "reasoning"] == [
        "first",
        "second",
        "third",
    ]
    [annotation] = asked[2][4]["content"][0]["annotations"]
    assert (annotation["url"], annotation["title"]) == ("https://a.org", "A")
    assert [part["text"] for part in asked[2][1]["summary"]] == ["I search.", "And then?"]


# --- From one model to another ------------------------------------------------------------------


def test_another_model_of_the_provider_is_given_the_reasoning_too() -> None:
    answer = stored_answer(reasoning(), message("Hi"))
    assert sent(HI, answer, model="gpt-6")[1:] == [reasoning(), message("Hi")]


def test_a_model_that_does_not_think_is_given_what_was_said_and_not_what_was_thought() -> None:
    answer = stored_answer(reasoning(), searched(), message("Hi"), reasoning("rs_2"), called())
    results = results_message([ToolResult("call_1", "look", (Text("it"),))])
    body = sent(HI, answer, results, model="gpt-4.1", profile=Profile(efforts=()))
    assert [item["type"] for item in body] == [
        "message",
        "message",
        "message",
        "function_call",
        "function_call_output",
    ]
    assert not any("id" in item for item in body)
    assert body[1]["content"][0]["text"].startswith("[web_search")


def test_another_provider_is_not_and_gives_it_back() -> None:
    ours = stored_answer(reasoning(), searched(), message("Hi"))
    signed = Reasoning("hm", "sig", metadata={"anthropic": {"x": 1}})
    theirs = Message("assistant", (signed, Text("Ho")), "answer", model="anthropic:claude")
    elsewhere = sent(HI, ours, provider="azure")
    [told] = elsewhere[1:]
    assert "id" not in told
    assert [part["text"].split()[0] for part in told["content"]] == ["[web_search", "Hi"]

    history = load(dump([HI, ours, HI, theirs, HI]))
    back = sent(*history)
    assert back[1:4] == [reasoning(), searched(), message("Hi")]
    assert back[5] == {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Ho"}],
    }


def test_what_is_said_to_be_ours_counts_only_in_an_answer_of_ours() -> None:
    stray = Text("Ho", {"openai": {"id": "msg_1", "index": 0}})
    theirs = Message("assistant", (stray,), "answer", model="anthropic:claude")
    assert "id" not in sent(HI, theirs)[1]


# --- What is not taken back ---------------------------------------------------------------------


def test_reasoning_without_its_encrypted_content_stays_here_with_all_that_asks_for_it() -> None:
    bare = reasoning()
    del bare["encrypted_content"]
    items = (bare, searched(), message("Hi"), called(), reasoning("rs_2"), called("fc_2", "c2"))
    search, text, call, *rest = sent(HI, stored_answer(*items))[1:]
    assert search["content"][0]["text"].startswith("[web_search")
    assert "id" not in search
    assert text == {key: value for key, value in message("Hi").items() if key != "id"}
    assert call == {key: value for key, value in called().items() if key != "id"}
    assert rest == [reasoning("rs_2"), called("fc_2", "c2")]


def test_reasoning_that_led_to_nothing_is_left_out() -> None:
    assert sent(HI, stored_answer(reasoning(), end="incomplete")) == sent(HI)
    cut = stored_answer(message("Hi"), reasoning())
    assert sent(HI, cut)[1:] == [message("Hi")]


def test_an_answer_that_was_interrupted_is_text_without_an_id() -> None:
    assembly = Assembly("openai:gpt-5", ports())
    events: list[Json] = [
        {"type": "response.output_item.done", "output_index": 0, "item": reasoning()},
        {"type": "response.output_item.added", "output_index": 1, "item": message()},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "Half an"},
    ]
    for delta in ResponsesDecoder("openai").feed([msgspec.json.encode(event) for event in events]):
        assembly.feed(delta)
    partial = assembly.partial("interrupted")
    assert partial is not None
    content = [{"type": "output_text", "text": "Half an"}]
    assert sent(HI, *load(dump([partial])))[1:] == [
        {"type": "message", "role": "assistant", "content": content}
    ]


def test_what_was_found_and_has_no_id_goes_back_in_words_and_ends_nothing() -> None:
    found = {"type": "search_results", "queries": ["x"], "results": [{"url": "https://a.org"}]}
    [told, text] = sent(HI, stored_answer(found, message("Hi")))[1:]
    assert told == {
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "output_text", "text": '[web_search {"queries":["x"]} → https://a.org]'}
        ],
    }
    assert text == message("Hi")


def test_a_picture_whose_bytes_are_not_here_goes_back_in_words() -> None:
    answer = stored_answer(reasoning(), PICTURE, message("Hi"))
    thought, picture, text = answer.parts
    assert isinstance(picture, File)
    away = replace(answer, parts=(thought, replace(picture, data=None, ref="store:1"), text))
    told, said = sent(HI, away)[1:]
    assert "is not available" in told["content"][0]["text"]
    assert said == {key: value for key, value in message("Hi").items() if key != "id"}


def test_who_made_an_item_is_not_sent_back() -> None:
    shell = {
        "id": "sh_1",
        "type": "shell_call",
        "call_id": "call_1",
        "status": "completed",
        "action": {"commands": ["ls"]},
        "environment": None,
    }
    compacted = {"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAA="}
    by = {"created_by": "user_1"}
    made = sent(HI, stored_answer({**compacted, **by}, {**shell, **by}))[1:]
    assert made == [compacted, shell]  # what the provider ran, null and all
    names = {"shell_call": "run"}
    ours = stored_answer({**shell, **by}, names=names)
    results = results_message([ToolResult("call_1", "run", (Text("a b"),))])
    del shell["environment"]
    assert sent(HI, ours, results)[1] == shell


def test_a_call_that_was_given_another_id_is_answered_under_that() -> None:
    answer = stored_answer(reasoning(), called())
    [thought, call] = answer.parts
    assert isinstance(call, ToolCall)
    renamed = replace(answer, parts=(thought, replace(call, id="new")))
    results = results_message([ToolResult("new", "look", (Text("it"),))])
    _, sent_call, output = sent(HI, renamed, results)[1:]
    assert (sent_call["id"], sent_call["call_id"], output["call_id"]) == ("fc_1", "new", "new")


async def test_a_search_without_its_reasoning_would_be_refused() -> None:
    """The fake knows the rule that all this is for."""
    fake = FakeProvider(
        "openai_responses",
        [
            [
                think("hm"),
                CallStarted("ws_9", "web_search", True),
                CallEnded("ws_9"),
                PartAdded(ToolResult("ws_9", "web_search", (), provider_executed=True)),
                say("Hi"),
            ],
            [PartEnded("secret"), say("Ho")],
        ],
    )
    model = OpenAIResponses("gpt-5", api_key="k", http=fake)
    first = await Agent(model=model, ports=ports()).run("Hi")
    _, answer = first.history
    without = replace(answer, parts=answer.parts[1:])
    with pytest.raises(Exception, match="provided without its required 'reasoning' item"):
        async for _ in model.stream(Request(messages=(HI, without, HI))):
            pass
    assert fake.left == 1
