from __future__ import annotations

import json
import time
from collections.abc import Container, Iterable, Sequence
from typing import Final, TypeVar, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.kernel.assemble import Assembly
from holdfast.kernel.events import Event, ToolCalled, ToolFinished, Warned
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
    dump,
    load,
)
from holdfast.kernel.model import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    Notice,
    Opened,
    PartAdded,
    PartEnded,
    Ping,
    ReasoningDelta,
    TextDelta,
)
from holdfast.kernel.model_context import whole_pairs
from holdfast.testing import START, Clock, ports

E = TypeVar("E")


class Fed:
    """An answer after some deltas, and what people were shown of them."""

    def __init__(
        self, deltas: Iterable[Delta], taken: Container[str] = (), clock: Clock | None = None
    ) -> None:
        self.assembly = Assembly("scripted:model", ports(clock=clock), taken)
        self.shown: list[Event] = []
        for delta in deltas:
            self.feed(delta)

    def feed(self, delta: Delta) -> None:
        event = self.assembly.feed(delta)
        if event is not None:
            self.shown.append(event)
        self.shown += map(ToolCalled, self.assembly.unannounced)
        self.assembly.unannounced = []

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.shown if isinstance(event, kind)]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.of(TextDelta))

    @property
    def reasoning(self) -> str:
        return "".join(event.text for event in self.of(ReasoningDelta))

    @property
    def called(self) -> list[ToolCall]:
        return [event.call for event in self.of(ToolCalled)]

    def arguments(self, call_id: str) -> str:
        return "".join(e.text for e in self.of(ArgumentsDelta) if e.call_id == call_id)


def message_of(*deltas: Delta, taken: Container[str] = ()) -> Message:
    """The finished answer; with `Finished()` at its end unless it has one."""
    ended = any(isinstance(delta, Finished) for delta in deltas)
    return Fed(deltas if ended else (*deltas, Finished()), taken).assembly.message()


def spelled(id: str, *pieces: str, tool: str = "read") -> list[Delta]:
    """A complete call, its arguments in these pieces."""
    written = [ArgumentsDelta(id, piece) for piece in pieces]
    return [CallStarted(id, tool), *written, CallEnded(id)]


def reasoning_in(message: Message) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, Reasoning))


# --- Text and reasoning -------------------------------------------------------------------------


def test_pieces_of_text_become_one_part() -> None:
    message = message_of(TextDelta("Hel"), TextDelta("lo"), TextDelta("."))
    assert message.parts == (Text("Hello."),)
    assert (message.role, message.kind, message.visibility) == ("assistant", "answer", "both")


def test_text_reasoning_and_calls_keep_their_order() -> None:
    message = message_of(
        ReasoningDelta("hm"),
        ReasoningDelta("m"),
        PartEnded("sig1"),
        TextDelta("Let me "),
        TextDelta("look."),
        *spelled("a", "{}"),
        ReasoningDelta("again"),
        PartEnded("sig2"),
        *spelled("b", "{}"),
        TextDelta("Done."),
    )
    kinds = [type(part) for part in message.parts]
    assert kinds == [Reasoning, Text, ToolCall, Reasoning, ToolCall, Text]
    signatures = [part.signature for part in message.parts if isinstance(part, Reasoning)]
    assert signatures == ["sig1", "sig2"]
    assert reasoning_in(message) == "hmmagain"
    assert message.text == "Let me look.Done."


def test_text_and_reasoning_that_alternate_without_an_end_are_kept_apart() -> None:
    message = message_of(ReasoningDelta("a"), TextDelta("b"), ReasoningDelta("c"), TextDelta("d"))
    assert [part.text for part in message.parts if isinstance(part, Text | Reasoning)] == [*"abcd"]


def test_a_part_that_was_ended_is_followed_by_a_new_one() -> None:
    message = message_of(TextDelta("a"), PartEnded(metadata={"x": 1}), TextDelta("b"))
    assert message.parts == (Text("a", {"x": 1}), Text("b"))


def test_reasoning_keeps_its_signature_its_metadata_and_its_times() -> None:
    clock = Clock(at=1_000_000)
    fed = Fed([], clock=clock)
    fed.feed(ReasoningDelta("hm"))
    clock.advance(3)
    fed.feed(PartEnded("sig", {"provider": {"x": 1}}))
    fed.feed(TextDelta("Yes."))
    fed.feed(Finished())
    part = fed.assembly.message().parts[0]
    assert part == Reasoning("hm", "sig", 1_000_000, 4_000_000, {"provider": {"x": 1}})


@pytest.mark.parametrize(
    "end", [PartEnded("sig"), PartEnded(None, {"redacted": "…"})], ids=["signature", "metadata"]
)
@pytest.mark.parametrize(
    "before",
    [[], [ReasoningDelta("")], [TextDelta("Hi."), PartEnded()], [TextDelta("")]],
    ids=["nothing", "empty reasoning", "text", "empty text"],
)
def test_reasoning_without_text_is_kept_for_what_must_be_replayed(
    before: list[Delta], end: PartEnded
) -> None:
    message = message_of(*before, end, TextDelta("Yes."))
    (part,) = (part for part in message.parts if isinstance(part, Reasoning))
    assert (part.text, part.signature, part.metadata) == ("", end.signature, end.metadata)
    assert message.text.endswith("Yes.")


def test_an_empty_piece_of_text_does_not_come_between_reasoning_and_its_signature() -> None:
    message = message_of(ReasoningDelta("hm"), TextDelta(""), PartEnded("sig"), TextDelta("Yes."))
    assert [part.signature for part in message.parts if isinstance(part, Reasoning)] == ["sig"]
    assert reasoning_in(message) == "hm"


def test_nothing_is_made_of_an_end_without_a_beginning() -> None:
    assert message_of(PartEnded(), TextDelta("a"), PartEnded(), PartEnded()).parts == (Text("a"),)


def test_empty_pieces_make_no_part() -> None:
    assert message_of(TextDelta(""), ReasoningDelta(""), TextDelta("")).parts == ()


# --- Calls --------------------------------------------------------------------------------------


def test_a_call_is_put_together_from_its_pieces() -> None:
    fed = Fed([*spelled("a", '{"x"', ": 1}"), Finished("tool_calls")])
    expected = ToolCall("a", "read", '{"x": 1}', called_at=START)
    assert fed.assembly.message().parts == (expected,)
    assert fed.shown == [
        CallStarted("a", "read"),
        ArgumentsDelta("a", '{"x"'),
        ArgumentsDelta("a", ": 1}"),
        ToolCalled(expected),
    ]


def test_calls_whose_pieces_alternate_are_told_apart() -> None:
    message = message_of(
        CallStarted("a", "read"),
        CallStarted("b", "write"),
        ArgumentsDelta("b", "[1"),
        ArgumentsDelta("a", '{"x"'),
        ArgumentsDelta("b", "]"),
        CallEnded("b"),
        ArgumentsDelta("a", ":2}"),
        CallEnded("a"),
    )
    assert [(c.id, c.tool, c.arguments) for c in message.calls] == [
        ("a", "read", '{"x":2}'),
        ("b", "write", "[1]"),
    ]


def test_a_call_keeps_its_place_among_the_parts() -> None:
    message = message_of(
        CallStarted("a", "read"),
        TextDelta("meanwhile"),
        ArgumentsDelta("a", "{}"),
        CallEnded("a", {"provider": {"signature": "s"}}),
    )
    assert [type(part) for part in message.parts] == [ToolCall, Text]
    assert message.calls[0].metadata == {"provider": {"signature": "s"}}


@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
def test_a_call_without_an_end_ends_with_the_answer(finish: FinishReason) -> None:
    deltas: list[Delta] = [
        CallStarted("a", "read"),
        ArgumentsDelta("a", "{}"),
        CallStarted("b", "read"),
        ArgumentsDelta("b", "[]"),
    ]
    fed = Fed([*deltas, Finished(finish)])
    assert [call.id for call in fed.assembly.message().calls] == ["a", "b"]
    assert fed.called == list(fed.assembly.message().calls)


@pytest.mark.parametrize("finish", ["length", "content_filter", "error", "interrupted"])
def test_of_an_answer_that_was_cut_the_incomplete_calls_are_dropped(finish: FinishReason) -> None:
    cut: list[Delta] = [CallStarted("b", "read"), ArgumentsDelta("b", '{"x": "half')]
    fed = Fed([TextDelta("See."), *spelled("a", "{}"), *cut, Finished(finish)])
    message = fed.assembly.message()
    assert [call.id for call in message.calls] == ["a"]
    assert message.text == "See."
    assert fed.called == list(message.calls)


def test_an_answer_that_was_cut_in_its_only_call_has_none() -> None:
    message = message_of(TextDelta("a"), CallStarted("a", "read"), Finished("length"))
    assert message.parts == (Text("a"),)
    assert message.finish == "length"


@pytest.mark.parametrize(
    ("said", "meant"),
    [("stop", "tool_calls"), ("tool_calls", "tool_calls"), ("length", "length")],
)
def test_that_there_are_calls_decides_why_the_answer_ended(
    said: FinishReason, meant: FinishReason
) -> None:
    assert message_of(*spelled("a", "{}"), Finished(said)).finish == meant


def test_calls_of_the_provider_do_not_change_why_the_answer_ended() -> None:
    message = message_of(CallStarted("a", "web", True), CallEnded("a"), TextDelta("x"))
    assert message.finish == "stop"
    assert message.calls[0].provider_executed


@pytest.mark.parametrize("arguments", ['{"x": ', "{'x': 1}", "{} {}", "NaN", '{"x": "\n"}', "…"])
def test_arguments_that_are_no_json_are_kept_with_the_complaint(arguments: str) -> None:
    (call,) = message_of(*spelled("a", arguments)).calls
    assert call.arguments == arguments
    assert call.complaint


@pytest.mark.parametrize("arguments", ["", "{}", '{"x": "\\ud800"}', "[1]", " {} ", "1e400"[:3]])
def test_arguments_that_are_json_have_no_complaint(arguments: str) -> None:
    (call,) = message_of(*spelled("a", arguments)).calls
    assert (call.arguments, call.complaint) == (arguments, None)


def test_pieces_and_ends_of_calls_that_nobody_began_are_ignored() -> None:
    fed = Fed([ArgumentsDelta("x", "{}"), CallEnded("x"), TextDelta("a"), Finished()])
    assert fed.assembly.message().parts == (Text("a"),)
    assert fed.shown == [TextDelta("a")]


def test_pieces_that_come_after_the_end_of_a_call_are_ignored() -> None:
    message = message_of(*spelled("a", "{}"), ArgumentsDelta("a", "more"), CallEnded("a"))
    assert [call.arguments for call in message.calls] == ["{}"]


# --- Ids ----------------------------------------------------------------------------------------


def test_a_call_without_an_id_gets_one_and_what_is_shown_carries_it() -> None:
    fed = Fed([*spelled("", "{", "}"), Finished()])
    (call,) = fed.assembly.message().calls
    assert call.id
    assert fed.shown == [
        CallStarted(call.id, "read"),
        ArgumentsDelta(call.id, "{"),
        ArgumentsDelta(call.id, "}"),
        ToolCalled(call),
    ]


def test_an_id_that_is_used_twice_is_replaced_the_second_time() -> None:
    fed = Fed([*spelled("a", "1"), *spelled("a", "2"), Finished()])
    one, two = fed.assembly.message().calls
    assert (one.id, one.arguments, two.arguments) == ("a", "1", "2")
    assert two.id not in ("", "a")
    assert fed.arguments(two.id) == "2"
    assert fed.called == [one, two]


def test_an_id_of_an_earlier_answer_is_replaced() -> None:
    (call,) = message_of(*spelled("a", "{}"), taken={"a"}).calls
    assert call.id not in ("", "a")


def test_a_replacement_is_itself_no_id_that_is_taken() -> None:
    taken = {ports().new_id()}
    first, second = message_of(*spelled("", "1"), *spelled("", "2"), taken=taken).calls
    assert len({first.id, second.id, *taken}) == 3


def test_a_call_that_begins_under_an_open_id_completes_the_first() -> None:
    deltas: list[Delta] = [
        CallStarted("", "read"),
        ArgumentsDelta("", "1"),
        CallStarted("", "write"),
        ArgumentsDelta("", "2"),
        CallEnded(""),
    ]
    fed = Fed([*deltas, Finished("tool_calls")])
    assert [(c.tool, c.arguments) for c in fed.assembly.message().calls] == [
        ("read", "1"),
        ("write", "2"),
    ]
    assert fed.called == list(fed.assembly.message().calls)


@pytest.mark.parametrize("id", ["", "taken"])
def test_a_result_of_the_provider_follows_its_call_to_the_new_id(id: str) -> None:
    found = ToolResult(id, "web", (Text("found"),), provider_executed=True)
    message = message_of(
        CallStarted(id, "web", True),
        CallEnded(id),
        PartAdded(found),
        TextDelta("Yes."),
        taken={"taken"},
    )
    assert [made.text for made in whole_pairs(message).results] == ["found"]
    assert message.results[0].call_id == message.calls[0].id != id


# --- Parts that come whole ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "part",
    [
        Source("https://example.org", "Example"),
        File("image/png", "cat.png", b"png"),
        ToolResult("p", "web", (Text("found"),), provider_executed=True),
        ToolCall("p", "web", "{}", provider_executed=True, called_at=START),
        ToolCall("a", "read", "{}", called_at=START),
        Text("whole"),
        Reasoning("whole", "sig"),
    ],
    ids=["source", "file", "result", "call of the provider", "call", "text", "reasoning"],
)
def test_a_part_that_comes_whole_stands_where_it_came(
    part: Source | File | ToolResult | ToolCall | Text | Reasoning,
) -> None:
    message = message_of(TextDelta("before"), PartAdded(part), TextDelta("after"))
    assert message.parts == (Text("before"), part, Text("after"))


def test_a_call_that_comes_whole_is_shown_and_gets_an_id_of_its_own() -> None:
    deltas: list[Delta] = [
        *spelled("a", "{}"),
        PartAdded(ToolCall("a", "read", "{}")),
        PartAdded(ToolCall("", "read", "no JSON")),
        *spelled("b", "{}"),
        Finished(),
    ]
    fed = Fed(deltas)
    calls = fed.assembly.message().calls
    assert fed.called == list(calls)
    assert len({call.id for call in calls} - {""}) == 4
    assert [bool(call.complaint) for call in calls] == [False, False, True, False]
    assert {call.id for call in calls} <= fed.assembly.ids


def test_text_and_reasoning_that_come_whole_are_shown() -> None:
    fed = Fed([PartAdded(Reasoning("hm")), PartAdded(Text("Yes.")), Finished()])
    assert (fed.reasoning, fed.text) == ("hm", "Yes.")


# --- The rest of the deltas ---------------------------------------------------------------------


ONE_OF_EACH: Final[tuple[Delta, ...]] = (
    Opened("other:model"),
    Ping(),
    ReasoningDelta("hm"),
    PartEnded("sig"),
    TextDelta("text"),
    CallStarted("a", "read"),
    ArgumentsDelta("a", "{}"),
    CallEnded("a"),
    PartAdded(Source("https://example.org")),
    Notice("careful"),
    Finished("tool_calls"),
)


def test_every_kind_of_delta_is_taken() -> None:
    kinds = {type(delta) for delta in ONE_OF_EACH}
    assert kinds == set(get_args(Delta))
    message = Fed(ONE_OF_EACH).assembly.message()
    assert message.text == "text"
    assert reasoning_in(message) == "hm"
    assert [call.id for call in message.calls] == ["a"]
    assert message.model == "other:model"


def test_a_notice_is_shown_as_a_warning_and_not_kept() -> None:
    fed = Fed([Notice("no PDF here"), TextDelta("a"), Finished()])
    assert fed.shown == [Warned("no PDF here"), TextDelta("a")]
    assert fed.assembly.message().parts == (Text("a"),)


@pytest.mark.parametrize("ping", [Ping(), Ping(Usage(9))])
def test_a_ping_changes_nothing_of_what_is_said(ping: Ping) -> None:
    assert message_of(TextDelta("a"), ping, TextDelta("b")).parts == (Text("ab"),)


@pytest.mark.parametrize(
    ("deltas", "usage"),
    [
        ([Ping(Usage(9, 1))], Usage(9, 1)),
        ([Ping(Usage(9, 1)), Ping()], Usage(9, 1)),
        ([Ping(Usage(9, 1)), Ping(Usage(9, 5))], Usage(9, 5)),
        ([Ping(Usage(9, -1, cost=-1.0))], Usage(9)),
        ([Ping(Usage(9, 1)), Opened("other:model")], None),
        ([Ping(Usage(9, 1)), Finished(usage=Usage(9, 7))], Usage(9, 7)),
        ([Ping(Usage(9, 1)), Finished()], Usage(9, 1)),
    ],
)
def test_what_is_counted_last_is_what_an_answer_has_taken(
    deltas: list[Delta], usage: Usage | None
) -> None:
    fed = Fed([TextDelta("a"), *deltas])
    assert fed.assembly.usage == usage
    half = fed.assembly.partial("interrupted")
    assert half is not None
    assert half.usage == usage


def test_the_answer_says_which_model_wrote_it_and_what_it_took() -> None:
    end = Finished("stop", Usage(10, 5), {"provider": {"id": "r1"}}, window=1_000)
    fed = Fed([Opened("a:one"), Opened("b:two"), TextDelta("x"), end])
    message = fed.assembly.message()
    assert message.model == "b:two"
    assert message.usage == Usage(10, 5)
    assert message.metadata == {"provider": {"id": "r1"}}
    assert fed.assembly.window == 1_000
    assert message_of(TextDelta("x")).model == "scripted:model"


@pytest.mark.parametrize("late", ONE_OF_EACH, ids=lambda delta: type(delta).__name__)
def test_what_comes_after_the_end_is_ignored(late: Delta) -> None:
    fed = Fed([TextDelta("x"), *spelled("a", "{}"), Finished("stop", Usage(1))])
    before, shown = fed.assembly.message(), list(fed.shown)
    fed.feed(late)
    assert fed.assembly.message() == before
    assert fed.shown == shown


# --- Empty answers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "deltas",
    [
        [],
        [TextDelta(" \n")],
        [ReasoningDelta("hm"), PartEnded("sig")],
        [Notice("x"), Ping()],
    ],
    ids=["nothing", "blank", "reasoning", "no content"],
)
def test_an_answer_without_text_and_call_is_empty(deltas: list[Delta]) -> None:
    assert Fed(deltas).assembly.empty
    assert Fed([*deltas, Finished("length")]).assembly.empty


def test_half_a_call_is_no_answer_unless_length_cut_it() -> None:
    half: list[Delta] = [CallStarted("a", "read"), ArgumentsDelta("a", "{")]
    assert Fed([*half, Finished("content_filter")]).assembly.empty
    assert not Fed([*half, Finished("length")]).assembly.empty
    assert Fed([*half, Finished("length")]).assembly.message().parts == ()


@pytest.mark.parametrize(
    "deltas",
    [
        [TextDelta("a")],
        spelled("a", "{}"),
        [CallStarted("p", "web", True), CallEnded("p")],
        [PartAdded(File("image/png", data=b"x"))],
    ],
    ids=["text", "a call", "a call of the provider", "a file"],
)
def test_an_answer_with_text_or_a_call_is_not_empty(deltas: list[Delta]) -> None:
    assert not Fed(deltas).assembly.empty
    assert not Fed([*deltas, Finished("content_filter")]).assembly.empty


# --- Halves -------------------------------------------------------------------------------------


def test_a_half_keeps_text_reasoning_and_complete_calls() -> None:
    fed = Fed(
        [
            ReasoningDelta("hm"),
            TextDelta("Let me"),
            *spelled("a", "{}"),
            TextDelta(" see"),
            CallStarted("b", "read"),
            ArgumentsDelta("b", '{"x'),
        ]
    )
    half = fed.assembly.partial("interrupted")
    assert half is not None
    assert (half.text, reasoning_in(half), half.finish) == ("Let me see", "hm", "interrupted")
    assert [call.id for call in half.calls] == ["a"]
    assert half.model == "scripted:model"


@pytest.mark.parametrize(
    "deltas",
    [
        [],
        [Ping(), Opened("other:model"), Notice("x")],
        [TextDelta("")],
        [TextDelta(" \n")],
        [CallStarted("a", "read"), ArgumentsDelta("a", "{}")],
    ],
    ids=["nothing", "no content", "no text", "blank", "an open call"],
)
def test_there_is_no_half_of_nothing(deltas: list[Delta]) -> None:
    assert Fed(deltas).assembly.partial("interrupted") is None


# --- Rules that hold for every stream -----------------------------------------------------------

given_ids: Final = st.sampled_from(("", "a", "b", "taken"))
pieces: Final = st.sampled_from(("", " ", "x", '{"a":', "1}", "{}", "\x00", "\ud800", "語"))
deltas_before_the_end: Final[st.SearchStrategy[Delta]] = st.one_of(
    st.builds(TextDelta, pieces),
    st.builds(ReasoningDelta, pieces),
    st.builds(CallStarted, given_ids, st.sampled_from(("read", "web")), st.booleans()),
    st.builds(ArgumentsDelta, given_ids, pieces),
    st.builds(CallEnded, given_ids, st.none() | st.just({"p": 1})),
    st.builds(PartEnded, st.none() | st.just("sig"), st.none() | st.just({"p": 1})),
    st.builds(
        PartAdded,
        st.one_of(
            st.builds(Text, pieces),
            st.builds(Reasoning, pieces),
            st.builds(ToolCall, given_ids, st.just("read"), pieces),
            st.builds(ToolResult, given_ids, st.just("web"), st.just(())),
            st.just(Source("https://example.org")),
            st.just(File("image/png", data=b"png")),
        ),
    ),
    st.just(Ping()),
    st.just(Opened("other:model")),
    st.just(Notice("careful")),
)
ends: Final = st.builds(
    Finished, st.sampled_from(get_args(FinishReason)), st.none() | st.just(Usage(1))
)
streams: Final = st.lists(deltas_before_the_end, max_size=20)

TAKEN: Final = frozenset({"taken", "id-2"})


def is_valid(message: Message) -> None:
    assert (message.role, message.kind) == ("assistant", "answer")
    ids = [call.id for call in message.calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    assert not TAKEN & set(ids)
    assert all(part.text for part in message.parts if isinstance(part, Text))
    for call in message.calls:
        assert (call.complaint is None) == is_json(call.arguments)
    assert load(dump([message])) == (message,)


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return not text.strip()
    return True


def calls_were_shown(fed: Fed, calls: Sequence[ToolCall]) -> None:
    """Each call was announced once, under the id that it is committed under."""
    assert sorted(call.id for call in fed.called) == sorted(call.id for call in calls)
    assert all(call in fed.called for call in calls)
    begun = {event.call_id for event in fed.of(CallStarted)}
    for call in calls:
        if call.id in begun:
            assert fed.arguments(call.id) == call.arguments


@given(streams)
@example([TextDelta("a"), CallStarted("a", "read"), TextDelta("b"), CallStarted("a", "read")])
@example([ReasoningDelta("a"), PartEnded("sig"), PartEnded("sig"), TextDelta(" ")])
def test_what_there_is_at_any_point_is_a_valid_message(stream: list[Delta]) -> None:
    for length in range(len(stream) + 1):
        fed = Fed(stream[:length], TAKEN)
        half = fed.assembly.partial("interrupted")
        if half is None:
            assert not fed.text.strip()
            assert not fed.reasoning
            assert not fed.called
        else:
            is_valid(half)
            assert half.parts
            assert half.finish == "interrupted"
            assert (half.text, reasoning_in(half)) == (fed.text, fed.reasoning)
            calls_were_shown(fed, half.calls)


@given(streams, ends, streams)
def test_what_is_committed_is_what_was_shown(
    stream: list[Delta], end: Finished, late: list[Delta]
) -> None:
    fed = Fed([*stream, end, *late], TAKEN)
    message = fed.assembly.message()
    is_valid(message)
    assert (message.text, reasoning_in(message)) == (fed.text, fed.reasoning)
    assert message.usage == end.usage
    calls_were_shown(fed, message.calls)
    assert {call.id for call in message.calls} <= fed.assembly.ids
    if end.finish == "length":
        assert message.finish == "length"


@given(streams, ends)
def test_an_interrupt_after_the_end_keeps_all_that_is_complete(
    stream: list[Delta], end: Finished
) -> None:
    fed = Fed([*stream, end], TAKEN)
    message, half = fed.assembly.message(), fed.assembly.partial("interrupted")
    if half is not None:
        assert half.parts == message.parts


@given(streams, ends)
def test_an_answer_that_is_not_empty_has_something_to_show(
    stream: list[Delta], end: Finished
) -> None:
    fed = Fed([*stream, end], TAKEN)
    message = fed.assembly.message()
    visible = [p for p in message.parts if not isinstance(p, Text | Reasoning | ToolResult)]
    if fed.assembly.empty:
        assert not message.text.strip()
        assert not visible
    elif message.finish != "length":  # which may have cut off all there was: half a call
        assert message.text.strip() or visible


def test_ten_megabytes_of_arguments_take_no_longer_per_byte_than_a_few() -> None:
    piece = "x" * 50
    count = 10_000_000 // len(piece)
    assembly = Assembly("scripted:model", ports())
    began = time.process_time()
    assembly.feed(CallStarted("a", "write"))
    assembly.feed(ArgumentsDelta("a", '"'))
    for _ in range(count):
        assembly.feed(ArgumentsDelta("a", piece))
    assembly.feed(ArgumentsDelta("a", '"'))
    assembly.feed(CallEnded("a"))
    assembly.feed(Finished())
    seconds = time.process_time() - began
    (call,) = assembly.message().calls
    assert len(call.arguments) == 10_000_002
    assert call.complaint is None
    assert seconds < 20  # copying what is there for each piece would take hours


def test_a_result_of_the_provider_is_told_as_one() -> None:
    assembly = Assembly("m", ports())
    assembly.feed(CallStarted("s1", "web_search", provider_executed=True))
    assembly.feed(CallEnded("s1"))
    result = ToolResult("s1", "web_search", (Text("found"),), provider_executed=True)
    event = assembly.feed(PartAdded(result))
    assert isinstance(event, ToolFinished)
    assert event.result == result
