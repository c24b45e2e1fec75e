"""Conformance cases: a request is sent completely, deterministically, and without being changed."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.kernel.messages import (
    Checkpoint,
    File,
    Message,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    dump,
    encode,
    injected,
    load,
    results_message,
    user_message,
)
from holdfast.kernel.model import Block, ProviderTool, Request, Settings, Shape
from holdfast.testing.conformance.bench import (
    LOOK_TOOL,
    Bench,
    Subject,
    ask,
    collect,
    demand,
    described,
)
from holdfast.testing.conformance.case import Case, case
from holdfast.testing.script import call_raw, say

PIXEL: Final = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360"
    "0000000200015e0d2a2b0000000049454e44ae426082"
)
SYSTEM: Final = (Block("You are terse.", cache=True), Block("Today is Monday."))


def _foreign_step() -> tuple[Message, ...]:
    """A step of another provider, with everything that it can leave in a history."""
    parts = (
        Reasoning("They thought this.", "bm90LXlvdXJz", metadata={"other": {"id": "rs_1"}}),
        Text("Let me look.", metadata={"other": {"id": "msg_1"}}),
        ToolCall("srv_7", "web_search", '{"query": "Oslo"}', provider_executed=True),
        ToolResult("srv_7", "web_search", (Text("Oslo: sunny"),), provider_executed=True),
        Source("https://met.example/oslo", "Met"),
        ToolCall("call_x|fc_1", "look", '{"what": "a"}', metadata={"other": {"id": "fc_1"}}),
        ToolCall("call_y", "look", '{"what": ', "it ends too early"),
    )
    results = (
        ToolResult("call_x|fc_1", "look", (Text("a tree"), File("image/png", "a.png", PIXEL))),
        ToolResult("call_y", "look", (Text("The arguments are no JSON."),), "failed"),
    )
    answer = Message(
        "assistant",
        parts,
        "answer",
        finish="tool_calls",
        model="other:model",
        metadata={"other": {"id": "resp_1"}},
    )
    return answer, results_message(results)


def everything() -> Request:
    """A request with everything that the loop may send."""
    image, page = File("image/png", "a.png", PIXEL), File("text/plain", "b.txt", b"b as text")
    unread, elsewhere = File("application/x-thing", "c", b"\x00"), File("image/png", ref="store:9")
    return Request(
        system=SYSTEM,
        messages=(
            Message("system", (Text("The workspace is in Oslo."),), "context", "model"),
            Message(
                "user",
                (Text("Summary of what was before."),),
                "checkpoint",
                "model",
                checkpoint=Checkpoint(2, 2, 900, 90),
            ),
            Message("user", (Text("Look:"), image, page, unread, elsewhere), "prompt"),
            *_foreign_step(),
            Message("assistant", (Text("A tre"),), "answer", finish="interrupted", model="other:m"),
            Message("user", (Text("[The user interrupted.]"),), "marker", "model"),
            injected("Go on."),
            Message("system", (Text("The workspace has a README."),), "context", "model"),
            user_message("Well?"),
        ),
        tools=(LOOK_TOOL,),
        settings=Settings(max_output_tokens=1_000),
        cache_key="chat-1",
    )


async def _demand_answer(bench: Bench, request: Request) -> None:
    message = await bench.answer(say("Well."), request)
    demand(message.text == "Well.", f"it answered {message.text!r}")


@case()
async def any_history_is_accepted(bench: Bench) -> None:
    """Every history that the loop can produce can be sent: no part of it is refused."""
    await _demand_answer(bench, everything())


@case()
async def settings_are_accepted(bench: Bench) -> None:
    """Settings that a provider does not know are left out, not refused."""
    variants = (
        Settings(temperature=0.5, presence_penalty=0.1, frequency_penalty=0.1),
        Settings(top_p=0.9, top_k=40, max_output_tokens=2_000),
        Settings(options={"other": {"not": "yours"}}),
        Settings(seed=7, stop=("END",)),
        Settings(tool_choice="auto", parallel_tool_calls=True),
        Settings(tool_choice="none", parallel_tool_calls=False),
        Settings(tool_choice="required"),
        Settings(tool_choice=LOOK_TOOL.name, parallel_tool_calls=False),
    )
    for settings in variants:
        await _demand_answer(bench, Request(messages=ask().messages, settings=settings))
        with_tools = Request(messages=ask().messages, tools=(LOOK_TOOL,), settings=settings)
        await _demand_answer(bench, with_tools)
    for effort in ("none", "minimal", "low", "medium", "high", "xhigh", "max"):
        await _demand_answer(
            bench,
            Request(system=SYSTEM, messages=ask().messages, tools=(LOOK_TOOL,), effort=effort),
        )


@case()
async def a_shape_is_accepted(bench: Bench) -> None:
    """An answer in a given shape can be requested, with tools or without."""
    shape = Shape(
        {
            "type": "object",
            "properties": {"sunny": {"type": "boolean"}},
            "required": ["sunny"],
        }
    )
    for tools in ((), (LOOK_TOOL,)):
        request = Request(messages=ask().messages, tools=tools, output=shape)
        message = await bench.answer(say('{"sunny": true}'), request)
        demand(message.text == '{"sunny": true}', f"it answered {message.text!r}")


@case()
async def an_unknown_provider_tool_is_no_error(bench: Bench) -> None:
    """A tool that this provider does not have is left out: another provider may have it."""
    tools = (ProviderTool("no_such_tool"), ProviderTool("web_search", {"max_uses": 3}))
    await _demand_answer(bench, Request(messages=ask().messages, provider_tools=tools))


@case()
async def text_that_is_no_unicode_can_be_sent(bench: Bench) -> None:
    """A single surrogate or a NUL, as in a file's name, does not make a history unsendable."""
    odd = "caf\udce9 \x00 \ud83d"
    call = ToolCall("call_a", "look", '{"what": "caf\udce9"}')
    answer = Message("assistant", (Text(odd), call), "answer")
    result = results_message([ToolResult("call_a", "look", (Text(odd),))])
    await _demand_answer(bench, ask(odd, user_message(odd), answer, result))


@case()
async def a_request_is_left_as_it_was(bench: Bench) -> None:
    """The caller's request is not changed when it is sent."""
    request = everything()
    before = encode(request.messages), encode(request.tools), encode(request.system)
    await _demand_answer(bench, request)
    after = encode(request.messages), encode(request.tools), encode(request.system)
    demand(before == after, "the request was changed while it was being sent")


@case()
async def the_same_request_gives_the_same_bytes(bench: Bench) -> None:
    """Equal requests are the same bytes on the wire, so that a provider's cache finds them."""
    async with bench.playing(say("Well."), say("Well.")) as subject:
        for _ in range(2):
            _ = (await collect(subject.model, everything())).message
        if subject.sent is not None:
            one, other = subject.sent()
            demand(one == other, f"{one!r}\nand then\n{other!r}")


# --- The second turn ----------------------------------------------------------------------------


async def _first_turn(bench: Bench, subject: Subject) -> tuple[Message, ...]:
    """A prompt, this model's answer to it, and the results."""
    answer = (await collect(subject.model, ask())).message
    results = [
        ToolResult(call.id, call.tool, (Text(f"seen: number {number}"),))
        for number, call in enumerate(answer.calls)
    ]
    return (*ask().messages, answer, results_message(results))


@case()
async def an_answer_can_be_replayed(bench: Bench) -> None:
    """A model accepts its own answer with the results of its calls, and answers again."""
    async with bench.playing(bench.rich(), say("A tree.")) as subject:
        history = await _first_turn(bench, subject)
        request = Request(messages=history, tools=(LOOK_TOOL,))
        message = (await collect(subject.model, request)).message
        demand(message.text == "A tree.", f"the second answer is {message.text!r}")
        if subject.sent is not None:
            _demand_all_in_body(subject.sent()[-1], history)


def _demand_all_in_body(body: bytes, history: tuple[Message, ...]) -> None:
    for part in history[1].parts:
        if isinstance(part, Text):
            demand(_contains_text(part.text, body), f"{part.text!r} is not in {body!r}")
        if isinstance(part, Reasoning) and part.signature:
            demand(part.signature.encode() in body, f"{part.signature} is not in {body!r}")
        if isinstance(part, ToolCall):
            demand(part.tool.encode() in body, f"{part.tool} is not in {body!r}")
            for value in msgspec.json.decode(part.arguments).values():
                demand(_contains_text(value, body), f"{value!r} is not in {body!r}")
    for result in history[2].results:
        demand(_contains_text(result.text, body), f"{result.text!r} is not in {body!r}")


def _contains_text(text: str, body: bytes) -> bool:
    """Whether JSON contains a text, plain or with escapes."""
    plain = encode(text)[1:-1]
    escaped = "".join(
        char if ord(char) < 128 else _escape(char) for char in plain.decode()
    ).encode()
    return plain in body or escaped in body


def _escape(char: str) -> str:
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


@case()
async def storing_an_answer_changes_nothing(bench: Bench) -> None:
    """An answer that was stored and loaded is replayed exactly like one that was not."""
    async with bench.playing(bench.rich(), say("Yes."), say("Yes.")) as subject:
        history = await _first_turn(bench, subject)
        stored = load(dump(history))
        demand(
            described(stored[1]) == described(history[1]),
            f"once stored, it is {described(stored[1])}",
        )
        for messages in (history, stored):
            _ = (
                await collect(subject.model, Request(messages=messages, tools=(LOOK_TOOL,)))
            ).message
        if subject.sent is not None:
            one, other = subject.sent()[-2:]
            demand(one == other, f"{one!r}\nand, stored,\n{other!r}")


@case("exact_arguments")
async def bad_arguments_can_be_replayed(bench: Bench) -> None:
    """A call whose arguments are not JSON is replayed with the text that the model wrote."""
    text = '{"what": "never clo'
    async with bench.playing(call_raw("look", text, id="call_a"), say("Sorry.")) as subject:
        history = await _first_turn(bench, subject)
        message = (
            await collect(subject.model, Request(messages=history, tools=(LOOK_TOOL,)))
        ).message
        demand(message.text == "Sorry.", f"the second answer is {message.text!r}")
        if subject.sent is not None:
            demand(b"never clo" in subject.sent()[-1], f"sent was {subject.sent()[-1]!r}")


@case()
async def a_model_says_its_name(bench: Bench) -> None:
    """A model's name is `provider:model`, and its window is a positive number or None."""
    async with bench.playing(say("Yes.")) as subject:
        name, window = subject.model.name, subject.model.window
        provider, _, rest = name.partition(":")
        demand(provider and rest, f"the name is {name!r}")
        demand(window is None or (type(window) is int and window > 0), f"the window is {window!r}")
        _ = (await collect(subject.model, ask())).message


CASES: Final[tuple[Case, ...]] = (
    any_history_is_accepted,
    settings_are_accepted,
    a_shape_is_accepted,
    an_unknown_provider_tool_is_no_error,
    text_that_is_no_unicode_can_be_sent,
    a_request_is_left_as_it_was,
    the_same_request_gives_the_same_bytes,
    an_answer_can_be_replayed,
    storing_an_answer_changes_nothing,
    bad_arguments_can_be_replayed,
    a_model_says_its_name,
)
