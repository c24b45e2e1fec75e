"""The conformance suite: a good model passes all of it, and each case catches a bad one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, get_args

import anyio
import pytest
from msgspec.structs import replace

from holdfast.kernel.errors import ConfigError, ProviderError
from holdfast.kernel.messages import File, Reasoning, Source, ToolCall
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
    Request,
    TextDelta,
    close,
)
from holdfast.testing import ScriptedModel, conformance, fail
from holdfast.testing.conformance import CASES, Case, Feature, ModelFactory, Subject
from holdfast.testing.fake.faults import BrokenConnection
from holdfast.testing.script import ScriptedTurn

Stream = AsyncIterator[Delta]


# --- Good models --------------------------------------------------------------------------------


def connected(item: Any) -> Any:
    """With a connection that can be lost, as far as a script can have one."""
    if isinstance(item, (list, tuple)):
        return [connected(inner) for inner in item]
    broken = ProviderError("the connection was lost", kind="stream_cut")
    return fail(broken) if isinstance(item, BrokenConnection) else item


def scripted(script: Sequence[ScriptedTurn]) -> ScriptedModel:
    return ScriptedModel(connected(script))


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_scripted_model_conforms(case: Case) -> None:
    await case.check(scripted)


async def test_all_cases_can_be_checked_without_a_test_runner() -> None:
    report = await conformance.check_all(ScriptedModel, without={"connection"})

    assert report.left_out == ("a_lost_connection_is_no_answer",)
    assert {*report.passed, *report.left_out} == {case.name for case in CASES}


async def test_a_maker_may_be_a_context_manager() -> None:
    closed: list[bool] = []

    @asynccontextmanager
    async def make(script: Sequence[ScriptedTurn]) -> AsyncIterator[Subject]:
        yield Subject(scripted(script))
        closed.append(True)

    await conformance.check_all(make)
    assert len(closed) >= len(CASES)


def test_what_a_model_cannot_do_is_left_out_by_name() -> None:
    some = conformance.cases(without={"reasoning", "cut"})
    left = {case.name for case in CASES} - {case.name for case in some}
    assert left == {case.name for case in CASES if case.needs & {"reasoning", "cut"}}
    assert "reasoning_survives" in left


def test_a_feature_that_no_case_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match="no case needs telepathy: use some of reasoning"):
        conformance.cases(without={"telepathy"})  # type: ignore[arg-type]


def test_every_case_says_what_it_demands() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(case.demand.endswith(".") for case in CASES)
    assert {need for case in CASES for need in case.needs} == set(get_args(Feature))


async def test_a_model_without_reasoning_is_not_asked_for_any() -> None:
    def make(script: Sequence[ScriptedTurn]) -> ScriptedModel:
        assert "ReasoningDelta" not in repr(script)
        return scripted(script)

    await conformance.check_all(make, without={"reasoning", "signatures"})


# --- Bad models ---------------------------------------------------------------------------------


def changed(change: Callable[[Stream, Request], Stream]) -> ModelFactory:
    """Models whose stream is what this makes of a good one's."""

    class Changed(ScriptedModel):
        def stream(self, request: Request) -> Stream:
            return change(super().stream(request), request)

    return lambda script: Changed(connected(script))


def each(change: Callable[[Delta], Sequence[Delta]]) -> ModelFactory:
    """Models that get single deltas wrong."""

    async def changing(stream: Stream, request: Request) -> Stream:
        async for delta in stream:
            for made in change(delta):
                yield made

    return changed(changing)


def refusing(object_to: Callable[[Request], object]) -> ModelFactory:
    """Models that fail for some requests."""

    async def checking(stream: Stream, request: Request) -> Stream:
        if object_to(request):
            raise ProviderError("I do not understand", status=400)
        async for delta in stream:
            yield delta

    return changed(checking)


async def talks_on(stream: Stream, request: Request) -> Stream:
    async for delta in stream:
        yield delta
        if isinstance(delta, Finished):
            yield TextDelta("And another thing.")


async def waits_for_all(stream: Stream, request: Request) -> Stream:
    for delta in [delta async for delta in stream]:
        yield delta


async def joins_text(stream: Stream, request: Request) -> Stream:
    held = ""
    async for delta in stream:
        if isinstance(delta, TextDelta):
            held += delta.text
            continue
        if held:
            yield TextDelta(held)
            held = ""
        yield delta


async def puts_calls_first(stream: Stream, request: Request) -> Stream:
    deltas = [delta async for delta in stream]
    calls = [delta for delta in deltas if isinstance(delta, (CallStarted, ArgumentsDelta))]
    for delta in [*calls, *(delta for delta in deltas if delta not in calls)]:
        yield delta


async def knows_one_call(stream: Stream, request: Request) -> Stream:
    first: str | None = None
    async for delta in stream:
        id = getattr(delta, "call_id", None)
        first = first or id
        if id in (None, first):
            yield delta


async def takes_ids_for_calls(stream: Stream, request: Request) -> Stream:
    seen: set[str] = set()
    ended: set[str] = set()
    async for delta in stream:
        id = getattr(delta, "call_id", "")
        if isinstance(delta, CallStarted) and id in seen:
            continue
        if isinstance(delta, ArgumentsDelta) and id in ended:
            continue
        seen |= {id}
        ended |= {id} if isinstance(delta, CallEnded) else set()
        yield delta


async def parses_arguments(stream: Stream, request: Request) -> Stream:
    held = ""
    async for delta in stream:
        if isinstance(delta, ArgumentsDelta):
            held += delta.text
            continue
        if isinstance(delta, CallEnded):
            try:
                yield ArgumentsDelta(delta.call_id, json.dumps(json.loads(held)))
            except ValueError:
                yield ArgumentsDelta(delta.call_id, held)
            held = ""
        yield delta


async def empties_bad_arguments(stream: Stream, request: Request) -> Stream:
    held = ""
    async for delta in stream:
        if isinstance(delta, ArgumentsDelta):
            held += delta.text
            continue
        if isinstance(delta, CallEnded):
            good = held.startswith("{") and held.endswith("}")
            yield ArgumentsDelta(delta.call_id, held if good else "{}")
            held = ""
        yield delta


async def starts_calls_with_arguments(stream: Stream, request: Request) -> Stream:
    waiting: Delta | None = None
    async for delta in stream:
        if isinstance(delta, CallStarted):
            waiting = delta
            continue
        if isinstance(delta, ArgumentsDelta) and waiting is not None:
            yield waiting
            waiting = None
        yield delta


async def starts_calls_late(stream: Stream, request: Request) -> Stream:
    waiting: Delta | None = None
    async for delta in stream:
        if isinstance(delta, CallStarted):
            waiting = delta
            continue
        yield delta
        if isinstance(delta, CallEnded) and waiting is not None:
            yield waiting


async def ends_every_call(stream: Stream, request: Request) -> Stream:
    open: set[str] = set()
    async for delta in stream:
        if isinstance(delta, CallStarted):
            open.add(delta.call_id)
        if isinstance(delta, Finished):
            for id in open:
                yield CallEnded(id)
        yield delta


async def needs_content(stream: Stream, request: Request) -> Stream:
    empty = True
    async for delta in stream:
        if empty and isinstance(delta, Finished):
            return
        empty = False
        yield delta


async def tires(stream: Stream, request: Request) -> Stream:
    left = 1_000
    async for delta in stream:
        left -= 1
        if left > 0 or isinstance(delta, Finished):
            yield delta


async def always_finishes(stream: Stream, request: Request) -> Stream:
    """Takes the end of a stream for the end of an answer, whatever ended it."""
    done = False
    try:
        async for delta in stream:
            done = done or isinstance(delta, Finished)
            yield delta
    except ProviderError:
        pass
    if not done:
        yield Finished()


async def shows_only_whole_answers(stream: Stream, request: Request) -> Stream:
    deltas = [delta async for delta in stream]
    for delta in deltas if isinstance(deltas[-1], Finished) else []:
        yield delta


async def hides_the_failure(stream: Stream, request: Request) -> Stream:
    try:
        async for delta in stream:
            yield delta
    except ProviderError as error:
        raise RuntimeError("something went wrong") from error


async def forgets_to_wait(stream: Stream, request: Request) -> Stream:
    try:
        async for delta in stream:
            yield delta
    except ProviderError as error:
        raise ProviderError(error.message, status=error.status) from None


async def swallows_cancellation(stream: Stream, request: Request) -> Stream:
    try:
        async for delta in stream:
            yield delta
    except asyncio.CancelledError:
        return


async def reads_in_a_task(stream: Stream, request: Request) -> Stream:
    """Leaves whoever reads behind when it is closed."""
    send, receive = anyio.create_memory_object_stream[Delta](1)

    async def read() -> None:
        with send:
            async for delta in stream:
                await send.send(delta)
            await anyio.sleep_forever()

    reading = asyncio.create_task(read())
    with receive:
        async for delta in receive:
            yield delta
            if isinstance(delta, Finished):
                break
    reading.cancel()


class Retries(ScriptedModel):
    async def stream(self, request: Request) -> Stream:
        for last in (False, True):
            try:
                async for delta in super().stream(request):
                    yield delta
                return
            except ProviderError:
                if last:
                    raise


class SulksAfterAFailure(ScriptedModel):
    _failed = False

    async def stream(self, request: Request) -> Stream:
        if self._failed:
            raise ProviderError("never again")
        try:
            async for delta in super().stream(request):
                yield delta
        except ProviderError:
            self._failed = True
            raise


class HasOneStream(ScriptedModel):
    _stream: Stream

    async def stream(self, request: Request) -> Stream:
        self._stream = super().stream(request)
        while True:
            try:
                yield await anext(self._stream)
            except StopAsyncIteration:
                return


class ChangesTheSchema(ScriptedModel):
    def stream(self, request: Request) -> Stream:
        for tool in request.tools:
            tool.schema["additionalProperties"] = True  # type: ignore[index]
        return super().stream(request)


class Nameless(ScriptedModel):
    def __init__(self, script: Sequence[ScriptedTurn]) -> None:
        super().__init__(script, name="model")


class Counted:
    """A model over something that can be looked at, with a fault in how it uses it."""

    def __init__(self, script: Sequence[ScriptedTurn]) -> None:
        self._inner = scripted(script)
        self.name, self.window = self._inner.name, None
        self.open = 0
        self.sent: list[bytes] = []
        self._known: set[int] = set()

    async def stream(self, request: Request) -> Stream:
        self.sent.append(self.encode(request))
        self.open += 1
        stream = self._inner.stream(request)
        try:
            async for delta in stream:
                yield delta
            self.close()
        finally:
            await close(stream)
            if self.lets_go:
                self.open -= 1

    lets_go = True

    def close(self) -> None:
        """Called when a stream has come to its end."""

    def encode(self, request: Request) -> bytes:
        return b" ".join(
            json.dumps([self.encode_part(part) for part in message.parts]).encode()
            for message in request.messages
        )

    def encode_part(self, part: Any) -> str:
        if isinstance(part, Reasoning):
            return f"{part.text} {part.signature}"
        if isinstance(part, ToolCall):
            return f"{part.tool} {part.arguments}"
        return str(getattr(part, "text", ""))


class HoldsOn(Counted):
    """Lets go only of what it has read to the end."""

    lets_go = False

    def close(self) -> None:
        self.open -= 1


class NeverLetsGo(Counted):
    lets_go = False


class NumbersRequests(Counted):
    def encode(self, request: Request) -> bytes:
        return super().encode(request) + str(len(self.sent)).encode()


class ForgetsSignatures(Counted):
    def encode_part(self, part: Any) -> str:
        return part.text if isinstance(part, Reasoning) else super().encode_part(part)


class KnowsItsOwnObjects(Counted):
    """Replays what it remembers, and that is gone when a history was stored."""

    def encode_part(self, part: Any) -> str:
        signed = isinstance(part, Reasoning) and part.started_at is not None
        known = signed and (not self._known or id(part) in self._known)
        self._known |= {id(part)} if signed and not self._known else set()
        return super().encode_part(part) if known or not signed else part.text


def looked_at(kind: type[Counted]) -> ModelFactory:
    def make(script: Sequence[ScriptedTurn]) -> Subject:
        model = kind(script)
        return Subject(model, lambda: model.open, lambda: model.sent)

    return make


def has_surrogates(request: Request) -> bool:
    return any("\udce9" in message.text for message in request.messages)


def has_bad_arguments(request: Request) -> bool:
    calls = [call for message in request.messages for call in message.calls]
    return any(call.arguments.endswith("clo") for call in calls)


def without_part(*kinds: type) -> ModelFactory:
    def change(delta: Delta) -> Sequence[Delta]:
        return () if isinstance(delta, PartAdded) and isinstance(delta.part, kinds) else (delta,)

    return each(change)


BAD: Final[dict[str, ModelFactory]] = {
    "finished_comes_last_and_once": changed(talks_on),
    "deltas_come_as_they_arrive": changed(waits_for_all),
    "text_survives": each(
        lambda delta: (
            [TextDelta(delta.text.replace("\r", ""))] if isinstance(delta, TextDelta) else [delta]
        )
    ),
    "text_comes_in_the_pieces_it_was_sent_in": changed(joins_text),
    "reasoning_survives": each(
        lambda delta: [TextDelta(delta.text)] if isinstance(delta, ReasoningDelta) else [delta]
    ),
    "signatures_survive": each(
        lambda delta: [PartEnded()] if isinstance(delta, PartEnded) else [delta]
    ),
    "the_order_of_parts_survives": changed(puts_calls_first),
    "parallel_calls_survive": changed(knows_one_call),
    "call_ids_survive": each(
        lambda delta: (
            [replace(delta, call_id=f"x_{delta.call_id}")]
            if isinstance(delta, (CallStarted, ArgumentsDelta, CallEnded))
            else [delta]
        )
    ),
    "a_repeated_id_loses_no_call": changed(takes_ids_for_calls),
    "arguments_are_passed_on_as_written": changed(parses_arguments),
    "arguments_that_are_no_json_are_passed_on": changed(empties_bad_arguments),
    "a_call_may_have_no_arguments": changed(starts_calls_with_arguments),
    "a_call_begins_before_its_arguments": changed(starts_calls_late),
    "a_call_that_was_cut_by_length_is_dropped": changed(ends_every_call),
    "what_the_provider_ran_survives": each(
        lambda delta: (
            [CallStarted(delta.call_id, delta.tool)] if isinstance(delta, CallStarted) else [delta]
        )
    ),
    "sources_survive": without_part(Source),
    "files_survive": without_part(File),
    "an_empty_answer_is_an_answer": changed(needs_content),
    "a_ping_is_no_part": each(
        lambda delta: [TextDelta(".")] if isinstance(delta, Ping) else [delta]
    ),
    "finish_reasons_survive": each(
        lambda delta: [Finished()] if isinstance(delta, Finished) else [delta]
    ),
    "usage_survives": each(
        lambda delta: (
            [replace(delta, usage=replace(delta.usage, input=1_000))]
            if isinstance(delta, Finished) and delta.usage is not None
            else [delta]
        )
    ),
    "a_long_answer_survives": changed(tires),
    "an_answer_that_was_cut_is_no_answer": changed(always_finishes),
    "a_lost_connection_is_no_answer": changed(always_finishes),
    "what_came_before_a_cut_is_not_lost": changed(shows_only_whole_answers),
    "a_refusal_says_what_it_is": changed(hides_the_failure),
    "a_rate_limit_says_when_to_come_back": changed(forgets_to_wait),
    "a_failure_inside_the_stream_raises": changed(always_finishes),
    "a_failed_request_is_not_tried_again": Retries,
    "a_model_answers_after_a_failure": SulksAfterAFailure,
    "cancelled_in_the_middle_it_lets_go": changed(swallows_cancellation),
    "cancelled_before_the_answer_it_lets_go": looked_at(HoldsOn),
    "closed_half_way_it_lets_go": changed(reads_in_a_task),
    "read_to_its_end_it_lets_go": looked_at(NeverLetsGo),
    "two_streams_do_not_mix": HasOneStream,
    "any_history_is_accepted": refusing(
        lambda request: any(message.kind == "checkpoint" for message in request.messages)
    ),
    "settings_are_accepted": refusing(lambda request: request.effort == "max"),
    "a_shape_is_accepted": refusing(lambda request: request.output and request.tools),
    "an_unknown_provider_tool_is_no_error": refusing(lambda request: request.provider_tools),
    "text_that_is_no_unicode_can_be_sent": refusing(has_surrogates),
    "a_request_is_left_as_it_was": ChangesTheSchema,
    "the_same_request_gives_the_same_bytes": looked_at(NumbersRequests),
    "an_answer_can_be_replayed": looked_at(ForgetsSignatures),
    "storing_an_answer_changes_nothing": looked_at(KnowsItsOwnObjects),
    "bad_arguments_can_be_replayed": refusing(has_bad_arguments),
    "a_model_says_its_name": Nameless,
}
"""For each case, a model that gets it wrong."""


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_each_case_catches_a_model_that_gets_it_wrong(case: Case) -> None:
    before = asyncio.all_tasks()
    with pytest.raises(AssertionError) as caught:
        await case.check(BAD[case.name])
    for left in asyncio.all_tasks() - before:
        left.cancel()

    assert str(caught.value).startswith(case.demand)
    assert str(caught.value) != case.demand


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_what_the_bad_models_are_made_of_is_good(case: Case) -> None:
    await case.check(looked_at(Counted))


async def test_a_model_that_says_nothing_for_ever_is_caught() -> None:
    async def silent(stream: Stream, request: Request) -> Stream:
        await anyio.sleep_forever()
        yield Ping()

    with pytest.raises(AssertionError, match="the stream failed: TimeoutError"):
        await CASES[0].check(changed(silent))


async def test_a_model_that_yields_no_delta_is_caught() -> None:
    with pytest.raises(AssertionError, match=r"yielded 'Hello', which is not a Delta"):
        await CASES[0].check(each(lambda delta: ["Hello"]))  # type: ignore[list-item]


async def test_a_model_that_drops_the_end_is_caught() -> None:
    dropping = each(lambda delta: [] if isinstance(delta, Finished) else [delta])
    with pytest.raises(AssertionError, match="no Finished came, only"):
        await CASES[0].check(dropping)


async def test_everything_that_was_found_is_said_at_once() -> None:
    with pytest.raises(AssertionError) as caught:
        await conformance.check_all(changed(always_finishes))
    said = str(caught.value)
    assert "an_answer_that_was_cut_is_no_answer: A stream that ends without" in said
    assert "a_lost_connection_is_no_answer: " in said
    assert "text_survives" not in said
