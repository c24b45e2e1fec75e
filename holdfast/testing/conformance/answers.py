"""Conformance cases: the content of an answer, and the order of its deltas."""

from __future__ import annotations

from typing import Final

import anyio

from holdfast.kernel.messages import FinishReason, Reasoning, Text, ToolResult
from holdfast.kernel.model import (
    CallStarted,
    Finished,
    PartAdded,
    ProviderTool,
    Request,
    TextDelta,
)
from holdfast.testing.conformance.bench import Bench, ask, collect, demand, described, until_content
from holdfast.testing.conformance.case import Case, case
from holdfast.testing.script import (
    ScriptedModel,
    call_raw,
    file,
    finish,
    ping,
    say,
    source,
    think,
    usage,
)

AWKWARD_TEXT: Final = (
    'ä é ß 東京 🏳️‍🌈 e\u0301 \u2028 \u00a0 "quoted" \\n <b>&amp;</b> \t\r\n data: {"x": 1}\n\nend'
)


@case()
async def finished_comes_last_and_once(bench: Bench) -> None:
    """A complete answer ends with exactly one Finished, and nothing follows it."""
    record = await bench.collect(bench.rich())
    _ = record.message
    ends = [at for at, delta in enumerate(record.deltas) if isinstance(delta, Finished)]
    demand(len(ends) == 1, f"Finished came {len(ends)} times")
    later = record.deltas[ends[0] + 1 :]
    demand(not later, f"after Finished came {later}")


@case()
async def deltas_come_as_they_arrive(bench: Bench) -> None:
    """A delta is yielded before the provider sends the next one."""
    gate = anyio.Event()
    async with bench.playing([say("At once."), gate, say(" Later.")]) as subject:
        stream = subject.model.stream(ask())
        first = await until_content(stream)
        demand(first == TextDelta("At once."), f"the first delta is {first}")
        gate.set()
        rest = [delta async for delta in stream]
        demand(TextDelta(" Later.") in rest, f"after that came {rest}")


@case()
async def text_survives(bench: Bench) -> None:
    """Text arrives unchanged, whatever it contains and wherever it is split."""
    message = await bench.demand_same(say(AWKWARD_TEXT, chunks=len(AWKWARD_TEXT)))
    demand(message.text == AWKWARD_TEXT, f"{AWKWARD_TEXT!r} arrived as {message.text!r}")


@case()
async def text_comes_in_the_pieces_it_was_sent_in(bench: Bench) -> None:
    """Deltas are passed on one by one, so that people can read along."""
    record = await bench.collect(say("one two three four", chunks=6))
    pieces = [delta.text for delta in record.deltas if isinstance(delta, TextDelta)]
    demand("".join(pieces) == record.message.text, f"the pieces are {pieces}")
    demand(len(pieces) >= 6, f"six pieces came as {pieces}")


@case("reasoning")
async def reasoning_survives(bench: Bench) -> None:
    """Reasoning arrives as reasoning, separate from the text."""
    # How its paragraphs are joined is left to the model.
    text = AWKWARD_TEXT.replace("\n\n", " ")
    await bench.demand_same(think(f"So: {text}", chunks=5), say("Yes."))


@case("signatures")
async def signatures_survive(bench: Bench) -> None:
    """Data that a provider wants back with its reasoning is kept with it."""
    message = await bench.demand_same(think("Hm.", signature="c2lnbmVkLTE="), say("Yes."))
    reasoning = [part for part in message.parts if isinstance(part, Reasoning)]
    signatures = [part.signature or part.metadata for part in reasoning]
    demand(signatures and all(signatures), f"the reasoning is {reasoning}")
    demand("c2lnbmVkLTE=" in str(reasoning), f"the signature is not in {reasoning}")


@case()
async def the_order_of_parts_survives(bench: Bench) -> None:
    """Text and calls stay in the order in which the model wrote them."""
    await bench.demand_same(
        say("First "),
        call_raw("look", '{"what": "a"}', id="call_a"),
        call_raw("look", '{"what": "b"}', id="call_b"),
    )
    await bench.demand_same(*bench.rich())


@case()
async def parallel_calls_survive(bench: Bench) -> None:
    """Several calls of one answer all arrive, each with its own arguments."""
    ids = [f"call_{number}" for number in range(5)]
    calls = [call_raw("look", f'{{"what": "{id}"}}', id=id) for id in ids]
    message = await bench.demand_same(*calls)
    demand(message.finish == "tool_calls", f"the answer finished with {message.finish}")
    demand(len({call.id for call in message.calls}) == 5, f"the calls are {message.calls}")


@case("call_ids")
async def call_ids_survive(bench: Bench) -> None:
    """A call keeps the id that the provider gave it, because its result is sent with that id."""
    message = await bench.demand_same(call_raw("look", '{"what": "a"}', id="call_9Zx"))
    ids = [call.id for call in message.calls]
    demand(ids == ["call_9Zx"], f"the ids are {ids}")


@case("call_ids")
async def a_repeated_id_loses_no_call(bench: Bench) -> None:
    """Two calls under one id are two calls."""
    message = await bench.demand_same(
        call_raw("look", '{"what": "a"}', id="call_a"),
        call_raw("look", '{"what": "b"}', id="call_a"),
    )
    demand(len({call.id for call in message.calls}) == 2, f"the calls are {message.calls}")


@case("exact_arguments")
async def arguments_are_passed_on_as_written(bench: Bench) -> None:
    """Arguments are exactly the text that the model wrote, including spaces."""
    text = '{ "what":"\\u00e9 \\" é 🏳️‍🌈",\n"n" : 1.0, "big": 12345678901234567890,"n":2 }'
    message = await bench.answer(call_raw("look", text, id="call_a", chunks=17))
    arguments = [call.arguments for call in message.calls]
    demand(arguments == [text], f"{text!r} arrived as {arguments}")


@case("exact_arguments")
async def arguments_that_are_no_json_are_passed_on(bench: Bench) -> None:
    """Arguments that are not JSON are passed on too: the loop tells the model."""
    for text in ('{"what": ', "look there", '["a"]', '{"what": "a"} and more'):
        message = await bench.answer(call_raw("look", text, id="call_a"))
        arguments = [call.arguments for call in message.calls]
        demand(arguments == [text], f"{text!r} arrived as {arguments}")


@case()
async def a_call_may_have_no_arguments(bench: Bench) -> None:
    """A call without arguments is a call."""
    for text in ("", "{}"):
        message = await bench.answer(call_raw("look", text, id="call_a"))
        arguments = [call.arguments for call in message.calls]
        demand(arguments in ([""], ["{}"]), f"{text!r} arrived as {arguments}")


@case()
async def a_call_begins_before_its_arguments(bench: Bench) -> None:
    """CallStarted comes before the arguments, and all deltas of a call have its id."""
    record = await bench.collect(bench.rich())
    started: set[str] = set()
    for delta in record.deltas:
        if isinstance(delta, CallStarted):
            started.add(delta.call_id)
        elif (id := getattr(delta, "call_id", None)) is not None:
            demand(id in started, f"{delta} came before its CallStarted")


@case("unfinished_calls")
async def a_call_that_was_cut_by_length_is_dropped(bench: Bench) -> None:
    """An incomplete call is dropped when the answer reaches its length limit."""
    half = call_raw("look", '{"what": "a', id="call_b", ended=False)
    whole = call_raw("look", '{"what": "a"}', id="call_a")
    message = await bench.answer([say("Wait."), whole, half, finish("length")])
    demand(message.finish == "length", f"the answer finished with {message.finish}")
    demand(len(message.calls) == 1, f"the calls are {message.calls}")


@case("provider_tools")
async def what_the_provider_ran_survives(bench: Bench) -> None:
    """A call that the provider executed arrives with its result, and is marked as such."""
    result = ToolResult("srv_1", "web_search", (Text("Oslo: sunny"),), provider_executed=True)
    answer = [
        call_raw("web_search", '{"query": "Oslo"}', id="srv_1", provider_executed=True),
        PartAdded(result),
        say("It is sunny."),
    ]
    request = Request(messages=ask().messages, provider_tools=(ProviderTool("web_search"),))
    message = await bench.answer(answer, request)
    calls, results = message.calls, message.results
    demand(len(calls) == 1 and calls[0].provider_executed, f"the calls are {calls}")
    demand(len(results) == 1 and results[0].provider_executed, f"the results are {results}")
    demand(results[0].call_id == calls[0].id, f"{results[0]} is not of {calls[0]}")
    demand(message.text == "It is sunny.", f"the text is {message.text!r}")
    demand(message.finish == "stop", f"the answer finished with {message.finish}")


@case("sources")
async def sources_survive(bench: Bench) -> None:
    """An answer's sources are parts of it."""
    message = await bench.answer([say("It is sunny."), source("https://met.example/oslo", "Met")])
    demand(
        "source: https://met.example/oslo" in described(message), f"the parts are {message.parts}"
    )


@case("files")
async def files_survive(bench: Bench) -> None:
    """A file that a model created is a part of its answer."""
    picture = b"\x89PNG\r\n\x1a\n"
    message = await bench.answer([say("Here:"), file("image/png", picture)])
    demand(f"file: image/png {picture!r}" in described(message), f"the parts are {message.parts}")


@case()
async def an_empty_answer_is_an_answer(bench: Bench) -> None:
    """An empty answer finishes. The loop decides what an empty answer means."""
    record = await bench.collect([finish("stop")])
    demand(not described(record.message), f"the parts are {record.message.parts}")


@case()
async def a_ping_is_no_part(bench: Bench) -> None:
    """A ping in the middle of an answer changes nothing in it."""
    await bench.demand_same(ping(), say("Still "), ping(), say("here."), ping())


@case()
async def finish_reasons_survive(bench: Bench) -> None:
    """The finish reason of a provider is converted to ours."""
    reasons: tuple[FinishReason, ...] = ("stop", "length", "content_filter")
    for reason in reasons:
        message = await bench.answer([say("So far."), finish(reason)])
        demand(message.finish == reason, f"{reason} arrived as {message.finish}")


@case("usage")
async def usage_survives(bench: Bench) -> None:
    """Tokens are reported, and those read from a cache do not count as input again."""
    message = await bench.answer([say("Yes."), usage(input=700, output=42, cache_read=300)])
    used = message.usage
    demand(used is not None, "no usage was reported")
    assert used is not None
    counts = (used.input, used.cache_read, used.output)
    demand(counts == (700, 300, 42), f"input, cache read and output are {counts}")


@case()
async def a_long_answer_survives(bench: Bench) -> None:
    """An answer in thousands of pieces arrives whole."""
    text = "".join(f"{number:05d} " for number in range(2_000))
    expected = await collect(ScriptedModel([say(text, chunks=2_000)]), ask())
    message = await bench.answer(say(text, chunks=2_000))
    demand(
        message.text == expected.message.text, f"{len(message.text)} of {len(text)} characters came"
    )


CASES: Final[tuple[Case, ...]] = (
    finished_comes_last_and_once,
    deltas_come_as_they_arrive,
    text_survives,
    text_comes_in_the_pieces_it_was_sent_in,
    reasoning_survives,
    signatures_survive,
    the_order_of_parts_survives,
    parallel_calls_survive,
    call_ids_survive,
    a_repeated_id_loses_no_call,
    arguments_are_passed_on_as_written,
    arguments_that_are_no_json_are_passed_on,
    a_call_may_have_no_arguments,
    a_call_begins_before_its_arguments,
    a_call_that_was_cut_by_length_is_dropped,
    what_the_provider_ran_survives,
    sources_survive,
    files_survive,
    an_empty_answer_is_an_answer,
    a_ping_is_no_part,
    finish_reasons_survive,
    usage_survives,
    a_long_answer_survives,
)
