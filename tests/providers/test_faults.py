"""Every trouble that a connection can have, with every protocol, through a whole run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Agent, RunResult
from holdfast.kernel.errors import FailureKind
from holdfast.kernel.events import Event, Retrying
from holdfast.kernel.messages import Message, Usage
from holdfast.kernel.model import Finished, Ping, TextDelta
from holdfast.options import Policy, Stream
from holdfast.providers.provider_catalog import WireProtocol
from holdfast.testing import call_raw, cut, fail, finish, pause, ports, say, think, usage
from holdfast.testing.conformance.bench import ask, collect, described
from holdfast.testing.fake.dialect_interface import ReceivedRequest
from holdfast.testing.fake.faults import (
    dripping,
    endless,
    garbled,
    lost,
    opens,
    raw,
    respond,
    swapped,
)
from holdfast.testing.fake.provider import STREAM_HEADERS, FakeProvider
from holdfast.testing.script import ScriptedTurn, ScriptItem
from tests.kernel.runs import act, check_events, events_of, later, now, only, outcome
from tests.providers.makers import PROTOCOLS, talk
from tests.providers.makers import model_of as model_over
from tests.providers.wire_recording import Playback, recorded

RICH: Final[ScriptItem] = [
    think("First I look, then I speak.", signature="c2lnbmVk", chunks=2),
    say("Grüße aus 東京 👋🏽.", chunks=3),
    call_raw("act", '{"what": "ä"}', id="call_a", chunks=2),
    call_raw("act", '{"what": "b"}', id="call_b", chunks=2),
    usage(input=120, output=30),
]
"""An answer with something of everything."""

each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


class Story:
    """What became of a run, and how often its provider was asked."""

    def __init__(self, events: Sequence[Event], result: RunResult, fake: FakeProvider) -> None:
        self.result = result
        self.attempts = len(fake.requests)
        self.retried: list[FailureKind] = [event.kind for event in only(Retrying, events)]
        """The failures that were tried again."""

    @property
    def failed(self) -> FailureKind | None:
        return self.result.failure.kind if self.result.failure is not None else None

    @property
    def texts(self) -> list[list[str]]:
        """What the models see of the history, without times and ids."""
        seen = [message for message in self.result.history if message.visibility != "user"]
        return [described(message) for message in seen]


async def story(
    protocol: WireProtocol,
    *script: ScriptedTurn,
    default: ScriptedTurn = "Done.",
    policy: Policy | None = None,
    check: bool = True,
) -> Story:
    fake, model = talk(protocol, script, default=default, check=check)
    agent = Agent(model=model, tools=[act], ports=ports(), policy=policy or Policy())
    run = agent.run("?")
    events = await events_of(run)
    result = await outcome(run)
    check_events(events)
    assert fake.open == 0
    assert fake.problems == []
    return Story(events, result, fake)


def is_done(story: Story, attempts: int, *retried: FailureKind) -> None:
    """It came to its end after these failures."""
    assert story.retried == list(retried)
    assert story.attempts == attempts
    assert (story.result.reason, story.result.text) == ("stop", "Done.")


def is_over(story: Story, kind: FailureKind) -> None:
    """It failed at once, and for good."""
    assert (story.failed, story.retried, story.attempts) == (kind, [], 1)


# --- Answers that are none ----------------------------------------------------------------------

RETRIED: Final[dict[str, tuple[ScriptedTurn, FailureKind]]] = {
    "408": (respond(408), "timeout"),
    "409": (respond(409, {"error": {"message": "Twice."}}), "server"),
    "425": (respond(425), "server"),
    "429": (respond(429, {"error": {"message": "Slow down."}}), "rate_limit"),
    "500": (
        respond(500, "<html><title>Oh</title></html>", {"Content-Type": "text/html"}),
        "server",
    ),
    "502": (respond(502, "Bad gateway"), "server"),
    "503": (respond(503, b"", {"Retry-After": "2"}), "overloaded"),
    "504": (respond(504, b"\xff\xfe"), "timeout"),
    "520": (respond(520, "error code: 520"), "server"),
    "524": (respond(524, "error code: 524"), "server"),
    "529": (respond(529, {"error": {"message": "Overloaded"}}), "overloaded"),
    "said": (fail("Too much to do.", status=529), "overloaded"),
    "limited": (fail("Slow down.", status=429), "rate_limit"),
}
TERMINAL: Final[dict[str, tuple[ScriptedTurn, FailureKind]]] = {
    "302": (respond(302, b"", {"Location": "https://elsewhere.example/v1"}), "config"),
    "400": (respond(400, {"error": {"message": "What?"}}), "invalid_request"),
    "401": (respond(401, {"error": {"message": "Wrong key."}}), "auth"),
    "402": (respond(402, {"error": {"message": "Pay."}}), "quota"),
    "403": (respond(403, "Forbidden"), "permission"),
    "404": (respond(404, "404 page not found"), "not_found"),
    "413": (respond(413, {"error": {"message": "Request too large"}}), "still_over_limit"),
    "422": (respond(422, {"detail": [{"loc": ["body"], "msg": "bad"}]}), "invalid_request"),
    "501": (respond(501), "unknown"),
    "told_not_to": (respond(500, b"", {"x-should-retry": "false"}), "server"),
    "said": (fail("Wrong key.", status=401), "auth"),
}


@each_protocol
@pytest.mark.parametrize("status", RETRIED)
async def test_a_refusal_that_may_pass_is_tried_again(protocol: WireProtocol, status: str) -> None:
    turn, kind = RETRIED[status]
    is_done(await story(protocol, turn), 2, kind)


@each_protocol
@pytest.mark.parametrize("status", TERMINAL)
async def test_a_refusal_that_stays_ends_the_run(protocol: WireProtocol, status: str) -> None:
    turn, kind = TERMINAL[status]
    is_over(await story(protocol, turn), kind)


@each_protocol
async def test_a_retry_after_is_waited_for(protocol: WireProtocol) -> None:
    began = now()
    is_done(await story(protocol, fail("Slow down.", status=429, retry_after=17)), 2, "rate_limit")
    assert now() - began == pytest.approx(17, abs=0.01)


@each_protocol
async def test_an_error_in_a_body_with_status_200_is_an_error(protocol: WireProtocol) -> None:
    body = {"error": {"message": "Overloaded", "code": 529, "status": "UNAVAILABLE"}}
    is_done(await story(protocol, respond(200, body)), 2, "overloaded")


@each_protocol
async def test_a_web_page_is_no_answer(protocol: WireProtocol) -> None:
    page = respond(200, "<html><title>Sign in</title></html>", {"Content-Type": "text/html"})
    outcome = await story(protocol, page)
    is_over(outcome, "unknown")
    assert outcome.result.failure is not None
    assert "Sign in" in outcome.result.failure.detail


# --- Delays -------------------------------------------------------------------------------------


@each_protocol
async def test_a_slow_beginning_is_waited_for(protocol: WireProtocol) -> None:
    is_done(await story(protocol, [pause(59), say("Done.")]), 1)


@each_protocol
async def test_a_provider_that_sends_no_headers_is_given_up(protocol: WireProtocol) -> None:
    began = now()
    is_done(await story(protocol, [pause(61), say("Late.")]), 2, "stream_silent")
    assert 60 <= now() - began <= 61


async def _patience(protocol: WireProtocol) -> float:
    """Seconds that may pass behind the headers: more when something has been said with them."""
    opening = await recorded(protocol, [opens(), cut()])
    return 600 if opening else 60


@each_protocol
async def test_a_slow_first_delta_is_waited_for(protocol: WireProtocol) -> None:
    seconds = await _patience(protocol) - 1
    is_done(await story(protocol, [opens(), pause(seconds), say("Done.")]), 1)


@each_protocol
async def test_a_provider_that_says_nothing_is_given_up(protocol: WireProtocol) -> None:
    seconds = await _patience(protocol) + 1
    is_done(await story(protocol, [opens(), pause(seconds), say("Late.")]), 2, "stream_silent")


@each_protocol
async def test_a_pause_between_deltas_is_waited_for(protocol: WireProtocol) -> None:
    is_done(await story(protocol, [say("Do"), pause(599), say("ne.")]), 1)


@each_protocol
async def test_a_provider_that_falls_silent_is_given_up(protocol: WireProtocol) -> None:
    is_done(await story(protocol, [say("Half"), pause(601), say(" late.")]), 2, "stream_silent")


@each_protocol
async def test_a_slow_drip_is_read_to_its_end(protocol: WireProtocol) -> None:
    slow = await story(protocol, [dripping(1, 0.02), RICH])
    is_done(slow, 2)
    assert slow.texts == (await story(protocol, RICH)).texts


@each_protocol
async def test_bytes_that_come_to_no_event_are_silence(protocol: WireProtocol) -> None:
    is_done(await story(protocol, [dripping(1, 40), RICH]), 2, "stream_silent")


# --- Cuts ---------------------------------------------------------------------------------------


def the_whole_story(received: ReceivedRequest) -> ScriptItem:
    """Asked anew it says everything, and asked with results that it is done."""
    return "Done." if b"did b" in received.body else RICH


def is_same_after(broken: Story, whole: Story, *retried: FailureKind) -> None:
    """After these failures it came to the same end, with the whole answer."""
    assert broken.retried == list(retried)
    assert broken.attempts == whole.attempts + len(retried)
    assert broken.texts == whole.texts
    assert broken.result.reason == "stop"


LAST_WORDS: Final[dict[WireProtocol, int]] = {"openai_chat": 2}
"""Events behind the reason for the end (usage, a last word) that may be missing: without them the
answer is whole. Everywhere else the reason is the last event, or the last event is the end."""


def kinds_of_cuts(protocol: WireProtocol, events: Sequence[bytes]) -> list[list[FailureKind]]:
    """What is tried again when only this many events came, for each number of them."""
    needed = len(events) - LAST_WORDS.get(protocol, 0)
    return [["stream_cut"] if count < needed else [] for count in range(len(events))]


@each_protocol
async def test_a_polite_cut_at_any_event_is_tried_again(protocol: WireProtocol) -> None:
    whole = await story(protocol, RICH)
    events = await recorded(protocol, RICH)
    assert len(events) > 8
    for count, kinds in enumerate(kinds_of_cuts(protocol, events)):
        part = respond(200, b"".join(events[:count]), STREAM_HEADERS)
        broken = await story(protocol, part, default=the_whole_story)
        is_same_after(broken, whole, *kinds)


@each_protocol
async def test_a_lost_connection_at_any_event_is_tried_again(protocol: WireProtocol) -> None:
    whole = await story(protocol, RICH)
    opening = await recorded(protocol, [opens(), cut()])
    events = (await recorded(protocol, RICH))[len(opening) :]
    is_same_after(await story(protocol, lost(), default=the_whole_story), whole, "network")
    for count, kinds in enumerate(kinds_of_cuts(protocol, events)):
        broken = await story(
            protocol, [opens(), *map(raw, events[:count]), lost()], default=the_whole_story
        )
        is_same_after(broken, whole, *kinds)


@each_protocol
async def test_a_cut_inside_a_character_is_tried_again(protocol: WireProtocol) -> None:
    whole = await story(protocol, RICH)
    opening = b"".join(await recorded(protocol, [opens(), cut()]))
    sent = b"".join(await recorded(protocol, RICH))
    inside = [at for at, byte in enumerate(sent) if 0x80 <= byte < 0xC0]
    assert len(inside) > 10
    for at in inside:
        politely = respond(200, sent[:at], STREAM_HEADERS)
        suddenly = [opens(), raw(sent[len(opening) : at]), lost()]
        for turn in (politely, suddenly):
            broken = await story(protocol, turn, default=the_whole_story)
            is_same_after(broken, whole, "stream_cut")


@each_protocol
async def test_an_answer_may_be_split_inside_any_character(protocol: WireProtocol) -> None:
    pieces = await recorded(protocol, RICH)
    whole = (await collect(model_over(protocol, Playback(pieces)), ask())).message
    sent = b"".join(pieces)
    for at, byte in enumerate(sent):
        if byte >= 0x80:
            halves = Playback([sent[:at], sent[at:]])
            assert (await collect(model_over(protocol, halves), ask())).message == whole


# --- Nonsense -----------------------------------------------------------------------------------


@each_protocol
async def test_malformed_json_is_tried_again(protocol: WireProtocol) -> None:
    is_done(await story(protocol, [say("Half"), garbled(), say(" an answer.")]), 2, "server")
    is_done(await story(protocol, [say("Half"), garbled()]), 2, "server")  # in the last event


@each_protocol
async def test_what_is_garbled_is_the_next_event_that_has_json(protocol: WireProtocol) -> None:
    is_done(await story(protocol, [say("Half"), garbled(), Ping(), say(" of it.")]), 2, "server")


@each_protocol
@pytest.mark.parametrize(
    "data",
    [
        b"data: {\n\n",
        b"data: \xff\xfe\n\n",
        b"data: []\n\n",
        b"data: 7\n\n",
        b"data: null\n\n",
        b'data: "text"\n\n',
    ],
)
async def test_an_event_that_is_none_is_tried_again(protocol: WireProtocol, data: bytes) -> None:
    is_done(await story(protocol, [say("Half"), raw(data), say(" of it.")]), 2, "server")


@each_protocol
@pytest.mark.parametrize(
    "data",
    [
        b": a comment\n\n",
        b"event: novelty\ndata: {}\n\n",
        b'data: {"type": "novelty", "about": {"nobody": ["knows"]}}\n\n',
        b"\n\n\n",
        b"id: 7\nretry: 100\n\n",
        b"data:\n\n",
        b"event: ping\r\ndata: \r\n\r\n",
        b"data: [DONE]\n\n",
    ],
)
async def test_an_event_that_nobody_knows_is_skipped(protocol: WireProtocol, data: bytes) -> None:
    is_done(await story(protocol, [say("Do"), raw(data), say("ne.")]), 1)


def _steps(items: Any) -> list[Any]:
    """The items of a turn, without lists in lists."""
    if isinstance(items, list):
        return [step for item in items for step in _steps(item)]
    return [items]


DISORDER: Final[dict[WireProtocol, list[FailureKind]]] = {
    "anthropic": ["stream_cut"],  # message_stop without a reason before it
    "openai_responses": ["server", "server"],  # each call is said to be whole before its last piece
}
"""Where two events that changed places are noticed. Elsewhere the answer is taken as it came."""


@each_protocol
async def test_events_in_the_wrong_order_do_no_harm(protocol: WireProtocol) -> None:
    events = await recorded(protocol, RICH)
    noticed: list[FailureKind] = []
    for at in range(len(events) - 1):
        wrong = [*events[:at], events[at + 1], events[at], *events[at + 2 :]]
        # What was mixed up may be missing in what is sent back: only what is received counts here.
        outcome = await story(protocol, respond(200, b"".join(wrong), STREAM_HEADERS), check=False)
        is_done(outcome, 2, *outcome.retried)
        noticed += outcome.retried
        answers = [result for message in outcome.result.new for result in message.results]
        done = [result.text for result in answers if result.outcome == "ok"]
        assert len(answers) >= 2 or outcome.retried
        assert set(done) <= {"did ä", "did b"}, f"events {at} and {at + 1}"  # never something else
    assert noticed == DISORDER.get(protocol, [])


@each_protocol
async def test_what_is_swapped_is_the_next_two_events(protocol: WireProtocol) -> None:
    outcome = await story(protocol, [say("ne."), swapped(), say(" by"), say("Do"), say(".")])
    assert outcome.result.text == "ne.Do by."


# --- Too much, and too little -------------------------------------------------------------------


def kept_for_people(result: RunResult) -> Message:
    """What is shown of an answer that failed. No model sees it."""
    (kept,) = [message for message in result.new if message.finish == "error"]
    assert kept.visibility == "user"
    return kept


@each_protocol
async def test_an_answer_without_an_end_ends_the_run(protocol: WireProtocol) -> None:
    limits = Policy(stream=Stream(max_bytes=10_000))
    outcome = await story(
        protocol, [say("Begun. "), endless(TextDelta("more " * 20))], policy=limits
    )
    is_over(outcome, "stream_too_long")
    text = kept_for_people(outcome.result).text
    assert text.startswith("Begun. more more ")
    assert 10_000 < len(text) < 10_200


@each_protocol
async def test_signs_of_life_without_an_end_end_the_run(protocol: WireProtocol) -> None:
    limits = Policy(stream=Stream(max_events=500))
    outcome = await story(protocol, [say("Begun."), endless(Ping(), 1.0)], policy=limits)
    is_over(outcome, "stream_too_long")
    assert kept_for_people(outcome.result).text == "Begun."


COUNTED: Final = {"anthropic": Usage(7, 1), "google": Usage(7)}
"""What is known of an answer that was cut: these protocols say at its beginning what went in."""


@pytest.mark.parametrize("protocol", COUNTED)
async def test_what_was_counted_of_an_answer_that_was_cut_is_counted(
    protocol: WireProtocol,
) -> None:
    outcome = await story(protocol, [say("Half"), lost(), usage(input=7, output=9)])
    is_done(outcome, 2, "stream_cut")
    assert outcome.result.summary.usage == COUNTED[protocol]


@pytest.mark.parametrize("protocol", COUNTED)
async def test_what_was_counted_of_an_answer_that_is_stopped_is_counted(
    protocol: WireProtocol,
) -> None:
    _, model = talk(protocol, [[say("Half"), pause(9), usage(input=7, output=9)]])
    run = Agent(model=model, ports=ports()).run("?")
    later(5, run.interrupt)
    result = await outcome(run)
    (half,) = [message for message in result.history if message.kind == "answer"]
    assert (half.text, half.finish, half.usage) == ("Half", "interrupted", COUNTED[protocol])
    assert result.summary.usage == COUNTED[protocol]


@each_protocol
async def test_an_empty_answer_is_tried_again(protocol: WireProtocol) -> None:
    is_done(await story(protocol, finish("stop")), 2, "empty_response")
    is_done(await story(protocol, [think("Hm.")]), 2, "empty_response")


@each_protocol
async def test_a_body_without_anything_is_a_cut(protocol: WireProtocol) -> None:
    is_done(await story(protocol, respond(200, b"", STREAM_HEADERS)), 2, "stream_cut")


@each_protocol
async def test_two_calls_with_one_id_are_both_run(protocol: WireProtocol) -> None:
    twice = [call_raw("act", f'{{"what": "{what}"}}', id="call_a") for what in ("a", "b")]
    outcome = await story(protocol, twice)
    is_done(outcome, 2)
    answer, results = outcome.result.history[1:3]
    assert [result.text for result in results.results] == ["did a", "did b"]
    ids = [call.id for call in answer.calls]
    assert len(set(ids)) == 2
    assert [result.call_id for result in results.results] == ids


@each_protocol
@pytest.mark.parametrize(
    ("status", "kind"), [(529, "overloaded"), (429, "rate_limit"), (500, "server")]
)
@pytest.mark.parametrize("said", [[opens()], [say("Half")], RICH], ids=["opened", "half", "whole"])
async def test_an_error_inside_the_stream_is_tried_again(
    protocol: WireProtocol, status: int, kind: FailureKind, said: list[ScriptItem]
) -> None:
    outcome = await story(protocol, [*_steps(said), fail("Sorry.", status=status)], RICH)
    is_done(outcome, 3, kind)


@each_protocol
async def test_an_error_inside_the_stream_may_be_final(protocol: WireProtocol) -> None:
    kind: FailureKind = "invalid_request"
    code = None
    if protocol == "openai_responses":  # inside a stream it objects to nothing else
        kind, code = "content_filter", "invalid_prompt"
    outcome = await story(protocol, [say("Half"), fail("What is this?", status=400, code=code)])
    is_over(outcome, kind)
    assert kept_for_people(outcome.result).text == "Half"


@each_protocol
async def test_an_error_in_the_words_of_a_gateway_is_one_in_every_protocol(
    protocol: WireProtocol,
) -> None:
    said = b'data: {"error": {"message": "No.", "type": "insufficient_quota", "code": "429"}}\n\n'
    is_over(await story(protocol, [say("Half"), raw(said)]), "quota")


@each_protocol
@pytest.mark.parametrize("before", [[opens()], [say("Half")]], ids=["opened", "half"])
async def test_an_error_that_is_no_event_is_one_all_the_same(
    protocol: WireProtocol, before: list[ScriptItem]
) -> None:
    """Google's own client looks for such, and servers behind a gateway write them too."""
    said = b'{\n  "error": {\n    "code": 402,\n    "message": "Pay.",\n    "status": "NO"\n  }\n}'
    is_over(await story(protocol, [*before, raw(said), cut()]), "quota")


@each_protocol
@pytest.mark.parametrize(
    "said", [b'{"error": {"message": "Hm."}}', b'{"error": {"code": 402', b"{}\n", b"[]", b"{\xff}"]
)
async def test_what_is_no_event_and_says_nothing_that_is_known_is_a_cut(
    protocol: WireProtocol, said: bytes
) -> None:
    is_done(await story(protocol, [say("Half"), raw(said), cut()]), 2, "stream_cut")


@each_protocol
async def test_an_answer_that_comes_to_its_end_is_one_whatever_is_written_before_it(
    protocol: WireProtocol,
) -> None:
    said = b'{"error": {"code": 402, "message": "Pay."}}\n'
    is_done(await story(protocol, [raw(said), say("Done.")]), 1)


# --- Any pieces ---------------------------------------------------------------------------------


@each_protocol
@settings(max_examples=60)
@given(data=st.data())
async def test_an_answer_may_come_in_any_pieces(protocol: WireProtocol, data: Any) -> None:
    pieces = await recorded(protocol, RICH)
    whole = (await collect(model_over(protocol, Playback(pieces)), ask())).message
    sent = b"".join(pieces)
    cuts = data.draw(st.lists(st.integers(0, len(sent)), max_size=40).map(sorted))
    split = [sent[at:to] for at, to in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    record = await collect(model_over(protocol, Playback(split)), ask())
    assert record.message == whole
    assert sum(isinstance(delta, Finished) for delta in record.deltas) == 1
