from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.kernel.decide import (
    Approved,
    AwaitingAction,
    CallModel,
    CallState,
    Compact,
    DeliverSteering,
    Facts,
    Fail,
    Finish,
    LoadContext,
    Recorded,
    Recover,
    RefuseCalls,
    RefuseSpawns,
    RequireAction,
    Rules,
    RunCalls,
    SkipCalls,
    Started,
    Step,
    decide,
    over_limit,
    size,
)
from holdfast.kernel.events import Action
from holdfast.kernel.limits import LimitReached, Limits
from holdfast.kernel.messages import AskedBy, Message, ToolCall, injected, note
from holdfast.kernel.model_context import estimate
from holdfast.kernel.turn import Turn, fold, fold_all
from tests.kernel.histories import (
    IDS,
    TOOLS,
    answer,
    call,
    checkpoint,
    context,
    conversations,
    histories,
    marker,
    prompt,
    provider_call,
    provider_result,
    result,
    results,
)

LIMIT: Final = 1_000
RULES: Final = Rules(limits=Limits(steps=10), recoveries=3, limit=LIMIT, overhead=0)
"""`ask` below is a tool of the client, `alone` an exclusive one."""


def rules(**changes: Any) -> Rules:
    return replace(RULES, waits=frozenset({"ask"}), exclusive=frozenset({"alone"}), **changes)


def stopped_after(steps: int | None) -> Finish:
    """The end of a turn that reached this limit of steps."""
    assert steps is not None
    return Finish("limit", LimitReached("steps", "turn", steps, steps))


def step_after(
    *history: Message,
    steering: bool = False,
    compaction: AskedBy | None = None,
    calls: Mapping[str, CallState] | None = None,
    context_due: bool = False,
    resumed: bool = False,
    **changes: Any,
) -> Step:
    """What is decided on a history, with these facts beside it."""
    facts = Facts(steering, compaction, calls or {}, context_due, resumed=resumed)
    return decide(fold_all(history), facts, rules(**changes))


def waiting(of: ToolCall) -> AwaitingAction:
    return AwaitingAction(Action("approval", of, of.arguments, "digest"))


A: Final = call("a")
B: Final = call("b")
ASK: Final = call("q", "ask")
ALONE: Final = call("x", "alone")

CUT: Final = answer("half", finish="length")
OVER: Final = LIMIT + 200
UNDER: Final = LIMIT - 200
STOPPED: Final = results(result("a", stops=True))


def compacted(usage: int) -> list[Message]:
    """A summary, and the step behind it."""
    return [checkpoint(1, after=100), answer(A, usage=usage), results("a")]


# --- 1: open calls that have not started, and steering waits ------------------------------------


def test_1_open_calls_are_skipped_when_steering_waits() -> None:
    assert step_after(prompt(), answer(A, B), steering=True) == SkipCalls((A, B))


def test_1_a_call_that_waits_is_skipped_too() -> None:
    states: dict[str, CallState] = {"a": waiting(A), "b": Approved("digest")}
    step = step_after(prompt(), answer(A, B, ASK), calls=states, steering=True)
    assert step == SkipCalls((A, B, ASK))


def test_1_a_call_that_started_or_has_its_result_is_not_skipped() -> None:
    states: dict[str, CallState] = {"a": Started(), "b": Recorded(result("b"))}
    step = step_after(prompt(), answer(A, B, ASK), calls=states, steering=True)
    assert step == SkipCalls((ASK,))
    assert step_after(prompt(), answer(A, B), calls=states, steering=True) == RunCalls((A, B))


def test_1_before_2_steering_skips_a_batch_that_would_be_refused() -> None:
    assert step_after(prompt(), answer(ALONE, B), steering=True) == SkipCalls((ALONE, B))


# --- 2: open calls of ours ----------------------------------------------------------------------


def test_2_open_calls_are_run() -> None:
    assert step_after(prompt(), answer(A, B)) == RunCalls((A, B))


def test_2_only_calls_without_a_result_are_run() -> None:
    assert step_after(prompt(), answer(A, B), results("a")) == RunCalls((B,))


def test_2_calls_that_the_provider_executes_are_not_ours_to_run() -> None:
    assert step_after(prompt(), answer(provider_call(), A)) == RunCalls((A,))
    assert step_after(prompt(), answer(provider_call(), provider_result())) == Finish("stop")


@pytest.mark.parametrize("state", [Approved("digest"), Started(), Recorded(result("a"))])
def test_2_a_call_that_no_longer_waits_is_run(state: CallState) -> None:
    assert step_after(prompt(), answer(A), calls={"a": state}) == RunCalls((A,))


def test_2_a_result_from_outside_is_taken_while_another_call_waits() -> None:
    states: dict[str, CallState] = {"q": Recorded(result("q", tool="ask")), "a": waiting(A)}
    assert step_after(prompt(), answer(A, ASK), calls=states) == RunCalls((ASK,))


def test_2_before_3_what_can_run_runs_beside_what_waits() -> None:
    step = step_after(prompt(), answer(A, ASK, B), calls={"b": waiting(B)})
    assert step == RunCalls((A,))


def test_2_a_batch_with_an_exclusive_tool_is_refused_whole() -> None:
    step = step_after(prompt(), answer(A, ALONE, ASK))
    assert step == RefuseCalls((A, ALONE, ASK), "alone")


def test_2_an_exclusive_tool_alone_is_run() -> None:
    assert step_after(prompt(), answer("See.", provider_call(), ALONE)) == RunCalls((ALONE,))


def test_2_the_rest_of_a_refused_batch_is_refused_although_it_is_alone_now() -> None:
    step = step_after(prompt(), answer(A, ALONE), results("a"))
    assert step == RefuseCalls((ALONE,), "alone")


# --- 3: every open call waits -------------------------------------------------------------------


def test_3_the_run_waits_when_every_open_call_does() -> None:
    step = step_after(prompt(), answer(A, ASK), calls={"a": waiting(A)})
    assert step == RequireAction((A, ASK), unchecked=(ASK,))


def test_3_before_4_an_overflow_waits_for_open_calls() -> None:
    history = (prompt(), answer("a"), checkpoint(1), answer(ASK))
    assert step_after(*history, compaction="overflow") == RequireAction((ASK,), unchecked=(ASK,))


def test_3_before_5_a_compaction_waits_for_open_calls() -> None:
    assert step_after(prompt(), answer(ASK), compaction="person") == RequireAction(
        (ASK,), unchecked=(ASK,)
    )
    assert step_after(prompt(), answer(A), compaction="person") == RunCalls((A,))


# --- 4: an overflow that a compaction cannot mend -----------------------------------------------


def test_4_an_overflow_fails_when_there_is_nothing_to_compact() -> None:
    assert step_after(prompt(), compaction="overflow") == Fail("still_over_limit")


def test_4_an_overflow_fails_when_it_follows_a_summary_without_an_answer_between() -> None:
    history = (prompt(), answer("a"), prompt(), checkpoint(2), note("Summarized."))
    assert step_after(*history, compaction="overflow") == Fail("still_over_limit")


def test_4_an_overflow_with_an_answer_since_the_last_summary_is_compacted_every_time() -> None:
    history = [prompt()]
    for position in range(50):
        history += (answer("a"), checkpoint(position + 1))
    step = step_after(*history, answer("a"), compaction="overflow")
    assert step == Compact("overflow", finish=False)
    assert step_after(*history, compaction="overflow") == Fail("still_over_limit")


def test_4_an_overflow_after_shortening_alone_is_summarized() -> None:
    history = (prompt(), answer("a"), prompt(), checkpoint(0, trims=1, summarized=False))
    assert step_after(*history, compaction="overflow") == Compact("overflow", finish=False)


def test_4_before_6_an_overflow_fails_although_steering_waits() -> None:
    step = step_after(prompt(), compaction="overflow", steering=True)
    assert step == Fail("still_over_limit")


def test_4_a_person_who_asks_when_there_is_nothing_to_compact_stops_nothing() -> None:
    assert step_after(prompt(), compaction="person") == CallModel()


# --- 5: a compaction was asked for --------------------------------------------------------------


@pytest.mark.parametrize("asked_by", ["person", "overflow"])
@pytest.mark.parametrize("limit", [None, 1_000_000])
def test_5_a_compaction_that_was_asked_for_does_not_look_at_the_threshold(
    asked_by: AskedBy, limit: int | None
) -> None:
    step = step_after(prompt(), answer(A), results("a"), compaction=asked_by, limit=limit)
    assert step == Compact(asked_by, finish=False)


@pytest.mark.parametrize(
    "history",
    [
        [prompt(), answer("done")],
        [prompt(), answer("done"), marker(), note("x")],
        [prompt(), answer(A), STOPPED],
        [prompt(), *[answer(A), results("a")] * 10],
    ],
    ids=["stop", "stop-and-asides", "stop_after_tool", "limit"],
)
def test_5_asked_for_while_idle_it_finishes_the_turn(history: list[Message]) -> None:
    assert step_after(*history, compaction="person") == Compact("person", finish=True)


@pytest.mark.parametrize(
    "history",
    [[answer("a"), prompt()], [prompt(), answer(A), results("a")], [prompt(), CUT]],
    ids=["prompt", "results", "cut"],
)
def test_5_asked_for_in_the_middle_of_a_turn_the_turn_goes_on(history: list[Message]) -> None:
    assert step_after(*history, compaction="person") == Compact("person", finish=False)


def test_5_an_overflow_never_finishes_the_turn() -> None:
    step = step_after(prompt(), answer("done"), compaction="overflow")
    assert step == Compact("overflow", finish=False)


def test_5_an_overflow_after_results_were_only_shortened_asks_for_a_summary() -> None:
    history = (prompt(), answer(A), results("a"), checkpoint(0, trims=3, summarized=False))
    assert step_after(*history, compaction="overflow") == Compact("overflow", finish=False)


def test_5_before_6_a_compaction_comes_before_steering() -> None:
    step = step_after(prompt(), answer(A), results("a"), compaction="person", steering=True)
    assert step == Compact("person", finish=False)


# --- 6: steering waits --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "history",
    [
        [prompt(), answer(A), STOPPED],
        [prompt(), CUT],
        [prompt(), answer("done")],
        [prompt(), *[answer(A), results("a")] * 10],
        [prompt(), answer(A, usage=OVER), results("a")],
        [prompt()],
    ],
    ids=["before-7", "before-8", "before-9", "before-10", "before-13", "before-14"],
)
def test_6_steering_is_delivered_before_anything_ends_or_goes_on(history: list[Message]) -> None:
    assert step_after(*history, steering=True, context_due=True) == DeliverSteering()


# --- 7: a stop-after tool succeeded -------------------------------------------------------------


def test_7_a_successful_stop_after_tool_finishes() -> None:
    assert step_after(prompt(), answer(A), STOPPED) == Finish("stop_after_tool")


def test_7_it_finishes_once_every_call_beside_it_has_a_result() -> None:
    assert step_after(prompt(), answer(A, B), STOPPED) == RunCalls((B,))
    assert step_after(prompt(), answer(A, B), STOPPED, results("b")) == Finish("stop_after_tool")


@pytest.mark.parametrize("since", [prompt("More."), injected("Not yet.")])
def test_7_what_was_delivered_or_injected_since_goes_on(since: Message) -> None:
    assert step_after(prompt(), answer(A), STOPPED, since) == CallModel()


@pytest.mark.parametrize("aside", [marker(), context(), note("x"), checkpoint(1)])
def test_7_what_is_transparent_does_not_make_it_go_on(aside: Message) -> None:
    assert step_after(prompt(), answer(A), STOPPED, aside) == Finish("stop_after_tool")


def test_7_before_10_it_finishes_for_its_own_reason_at_the_limit_of_steps() -> None:
    step = step_after(prompt(), answer(A), STOPPED, limits=Limits(steps=1))
    assert step == Finish("stop_after_tool")


# --- 8: an answer was cut by length -------------------------------------------------------------


def test_8_an_answer_cut_by_length_is_asked_to_go_on() -> None:
    assert step_after(prompt(), CUT) == Recover()
    assert step_after(prompt(), CUT, marker(), note("x")) == Recover()


def test_8_before_9_three_times_in_a_turn_and_then_it_is_an_answer_like_any_other() -> None:
    recovery = (CUT, injected("Go on."))
    assert step_after(prompt(), *recovery * 2, CUT) == Recover()
    assert step_after(prompt(), *recovery * 3, CUT) == Finish("stop")
    assert step_after(prompt(), *recovery * 3, CUT, prompt(), CUT) == Recover()


def test_8_a_complete_call_in_a_cut_answer_is_run() -> None:
    assert step_after(prompt(), answer(A, finish="length")) == RunCalls((A,))
    assert step_after(prompt(), answer(A, finish="length"), results("a")) == CallModel()


def test_8_before_10_a_cut_answer_at_the_limit_of_steps_is_asked_before_the_limit_ends_it() -> None:
    assert step_after(prompt(), CUT, limits=Limits(steps=1)) == Recover()
    assert step_after(prompt(), CUT, injected("Go on."), limits=Limits(steps=1)) == stopped_after(1)


# --- 9: any other answer ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "last",
    [
        answer("done"),
        answer("done", finish="content_filter"),
        answer("half", finish="interrupted"),
        answer("half", finish="error"),
        answer("of calls there are none", finish="tool_calls"),
        answer(provider_call(), provider_result(), "found"),
    ],
)
def test_9_any_other_answer_finishes(last: Message) -> None:
    assert step_after(prompt(), last) == Finish("stop")


@pytest.mark.parametrize("aside", [marker(), context(), note("x"), checkpoint(1)])
def test_9_what_is_transparent_behind_the_answer_changes_nothing(aside: Message) -> None:
    assert step_after(prompt(), answer("done"), aside) == Finish("stop")


def test_9_an_answer_that_only_people_see_is_none() -> None:
    half = answer("half", finish="error", visibility="user")
    assert step_after(prompt(), half) == CallModel()
    assert step_after(prompt(), answer(A), half) == RunCalls((A,))


def test_9_before_10_an_answer_at_the_limit_of_steps_is_a_normal_end() -> None:
    assert step_after(prompt(), answer("done"), limits=Limits(steps=1)) == Finish("stop")


def test_9_before_12_a_turn_that_ends_over_the_threshold_is_not_compacted_at_its_end() -> None:
    assert step_after(prompt(), answer("done", usage=OVER)) == Finish("stop")
    assert step_after(prompt(), answer("done", usage=OVER), prompt()) == Compact(None, finish=False)


# --- 10: the limit of steps ---------------------------------------------------------------------


def test_10_the_limit_of_steps_finishes() -> None:
    steps = [answer(A), results("a")]
    assert step_after(prompt(), *steps * 9) == CallModel()
    assert step_after(prompt(), *steps * 10) == stopped_after(10)


def test_10_the_limit_is_of_this_turn() -> None:
    steps = [answer(A), results("a")]
    assert step_after(prompt(), *steps * 10, prompt()) == CallModel()
    assert step_after(prompt(), *steps * 10, injected("Go on.")) == stopped_after(10)


def test_10_before_11_no_context_is_loaded_for_a_turn_that_ends() -> None:
    step = step_after(prompt(), answer(A), results("a"), context_due=True, limits=Limits(steps=1))
    assert step == stopped_after(1)


def test_10_before_12_the_limit_of_steps_is_no_failure() -> None:
    history = (prompt(), answer("x"), *compacted(OVER))
    assert step_after(*history) == Fail("still_over_limit")
    assert step_after(*history, limits=Limits(steps=2)) == stopped_after(2)


# --- 11: context is due -------------------------------------------------------------------------


def test_11_context_is_loaded_before_the_model_is_called() -> None:
    assert step_after(prompt(), context_due=True) == LoadContext()
    assert step_after(prompt(), answer(A), results("a"), context_due=True) == LoadContext()


def test_11_before_12_context_is_loaded_although_the_request_is_too_large() -> None:
    history = (prompt(), answer("x"), *compacted(OVER))
    assert step_after(*history, context_due=True) == LoadContext()


def test_11_no_context_is_loaded_while_calls_are_open_or_when_the_turn_is_over() -> None:
    assert step_after(prompt(), answer(A), context_due=True) == RunCalls((A,))
    assert step_after(prompt(), answer("done"), context_due=True) == Finish("stop")


# --- 12: a compaction did not help --------------------------------------------------------------


def test_4_and_12_a_retry_is_advised_only_where_it_summarizes_again() -> None:
    over = fold_all((prompt(), answer("x"), *compacted(OVER)))
    assert "Retry to summarize it again" in str(over_limit(over, RULES).sentence)
    overflowed = fold_all((prompt(), answer("x"), checkpoint(1, after=OVER)))
    said = str(over_limit(overflowed, RULES).sentence)
    assert "Retry" not in said
    assert "Use a model with a larger window" in said


def test_12_the_first_answer_after_a_compaction_was_still_over_the_threshold() -> None:
    assert step_after(prompt(), answer("x"), *compacted(OVER)) == Fail("still_over_limit")
    assert step_after(prompt(), answer("x"), *compacted(LIMIT)) == Fail("still_over_limit")


def test_12_before_13_a_later_answer_over_the_threshold_is_compacted_again() -> None:
    later = (*compacted(UNDER), answer(B, usage=OVER), results("b"))
    assert step_after(prompt(), answer("x"), *later) == Compact(None, finish=False)


def test_12_a_turn_is_compacted_as_often_as_it_helps() -> None:
    later = (*compacted(UNDER), answer(B, usage=OVER), results("b"))
    history = (prompt(), answer("x"), *later * 50)
    assert step_after(*history, limits=Limits(steps=1_000)) == Compact(None, finish=False)
    over = (*history, *compacted(OVER))
    assert step_after(*over, limits=Limits(steps=1_000)) == Fail("still_over_limit")


def test_12_a_history_that_is_taken_up_again_is_compacted_once_more() -> None:
    """It failed before, and a person asked for another try."""
    history = (prompt(), answer("x"), *compacted(OVER))
    assert step_after(*history, resumed=True) == Compact(None, finish=False)
    again = (*history, *compacted(OVER))
    assert step_after(*again) == Fail("still_over_limit")


def test_12_a_trimming_that_helped_is_progress_too() -> None:
    history = (
        prompt(),
        answer("x"),
        *compacted(OVER),
        checkpoint(1, after=UNDER, summarized=False),
    )
    later = (*history, answer(B, usage=UNDER), results("b"), answer(A, usage=OVER), results("a"))
    assert step_after(*later) == Compact(None, finish=False)
    assert step_after(*history, answer(B, usage=OVER), results("b")) == Fail("still_over_limit")


def test_12_compactions_of_earlier_turns_do_not_count() -> None:
    later = (*compacted(UNDER), answer(B, usage=OVER), results("b"))
    history = (prompt(), answer("x"), *later * 3, prompt())
    assert step_after(*history) == Compact(None, finish=False)
    over = (prompt(), answer("x"), *compacted(OVER), prompt())
    assert step_after(*over) == Compact(None, finish=False)


def test_12_without_an_answer_since_the_model_is_asked_first() -> None:
    big = checkpoint(1, after=OVER)
    assert step_after(prompt(), answer("x"), prompt(), big) == CallModel()


def test_12_under_the_threshold_nothing_fails() -> None:
    history = (prompt(), answer("x"), *compacted(OVER), answer(B, usage=UNDER), results("b"))
    assert step_after(*history) == CallModel()


# --- 13: over the threshold ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "step"), [(LIMIT, Compact(None, finish=False)), (LIMIT - 1, CallModel())]
)
def test_13_a_history_that_reaches_the_threshold_is_compacted(tokens: int, step: Step) -> None:
    history = (answer("x", usage=tokens - estimate(prompt())), prompt())
    assert fold_all(history).size == tokens
    assert step_after(*history) == step


def test_13_what_was_added_since_the_last_report_counts() -> None:
    bulky = results(result("a", text="x" * 4 * LIMIT))
    assert step_after(prompt(), answer(A, usage=UNDER), bulky) == Compact(None, finish=False)


def test_13_the_system_prefix_and_the_tools_count_until_a_provider_has_counted_them() -> None:
    assert step_after(answer("x"), prompt(), overhead=LIMIT) == Compact(None, finish=False)
    assert step_after(answer("x", usage=UNDER), prompt(), overhead=LIMIT) == CallModel()
    turn = fold_all([prompt()])
    assert size(turn, rules(overhead=50)) == turn.size + 50


def test_13_before_14_with_nothing_to_compact_the_model_is_called() -> None:
    assert step_after(prompt("x" * 8 * LIMIT)) == CallModel()


@pytest.mark.parametrize("summarized", [True, False])
def test_13_once_is_enough_before_the_next_answer(summarized: bool) -> None:
    big = checkpoint(1, after=OVER, summarized=summarized)
    assert step_after(prompt(), answer("x"), prompt(), big) == CallModel()
    assert step_after(prompt(), answer("x"), big, prompt()) == CallModel()


def test_13_a_threshold_that_is_off_never_compacts() -> None:
    assert step_after(answer("x", usage=10**9), prompt(), limit=None) == CallModel()


# --- 14: otherwise ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "history",
    [
        [prompt()],
        [prompt(), answer("half", finish="error", visibility="user"), note("Failed.")],
        [prompt(), answer("done"), injected("Not yet.")],
        [prompt(), answer("done"), prompt("And now?")],
        [prompt(), answer(A), results("a")],
        [prompt(), answer(A, B), results("b"), results("a")],
        [prompt(), answer(A), results(result("a", "failed", stops=True))],
        [prompt(), answer(A), results(result("a", "skipped"))],
    ],
    ids=["prompt", "failed", "vetoed", "next", "results", "one by one", "no stop", "skipped"],
)
def test_14_the_model_is_called(history: list[Message]) -> None:
    assert step_after(*history) == CallModel()


# --- Rules that hold for every history ----------------------------------------------------------

states: Final = st.one_of(
    st.just(Started()),
    st.just(Approved("digest")),
    st.sampled_from(IDS).map(lambda id: waiting(call(id))),
    st.sampled_from(IDS).map(lambda id: Recorded(result(id))),
)
any_facts: Final = st.builds(
    Facts,
    st.booleans(),
    st.sampled_from((None, "person", "overflow")),
    st.dictionaries(st.sampled_from(IDS), states),
    st.booleans(),
)
any_rules: Final = st.builds(
    Rules,
    limits=st.builds(Limits, steps=st.integers(1, 4)),
    recoveries=st.integers(0, 3),
    limit=st.none() | st.integers(1, 1_500),
    overhead=st.integers(0, 500),
    exclusive=st.frozensets(st.sampled_from(TOOLS)),
    waits=st.frozensets(st.sampled_from(TOOLS)),
    spawns=st.frozensets(st.sampled_from(TOOLS)),
)


def open_calls(history: Sequence[Message]) -> list[ToolCall]:
    """Calls that nothing answers and behind which nobody said anything."""
    open: list[ToolCall] = []
    for message in history:
        if message.visibility == "user":
            continue
        if message.kind in ("answer", "prompt", "injected"):
            open = [each for each in message.calls if not each.provider_executed]
        elif message.kind == "results":
            answered = {each.call_id for each in message.results}
            open = [each for each in open if each.id not in answered]
    return open


@given(histories | conversations(), any_facts, any_rules)
def test_open_calls_are_dealt_with_before_anything_else(
    history: list[Message], facts: Facts, given_rules: Rules
) -> None:
    step = decide(fold_all(history), facts, given_rules)
    open = open_calls(history)
    about_calls = isinstance(
        step, RunCalls | SkipCalls | RefuseCalls | RefuseSpawns | RequireAction
    )
    assert about_calls == bool(open)
    if isinstance(step, RunCalls | SkipCalls | RefuseCalls | RefuseSpawns | RequireAction):
        assert step.calls
        assert set(step.calls) <= set(open)


@given(histories | conversations(), any_facts, any_rules)
def test_a_call_that_waits_is_never_run(
    history: list[Message], facts: Facts, given_rules: Rules
) -> None:
    step = decide(fold_all(history), facts, given_rules)
    if isinstance(step, RunCalls):
        for each in step.calls:
            state = facts.calls.get(each.id)
            assert not isinstance(state, AwaitingAction)
            assert each.tool not in given_rules.waits or state is not None


@given(histories | conversations(), any_facts, any_rules)
def test_a_call_that_started_is_never_skipped(
    history: list[Message], facts: Facts, given_rules: Rules
) -> None:
    step = decide(fold_all(history), facts, given_rules)
    if isinstance(step, SkipCalls):
        assert facts.steering
        assert not any(
            isinstance(facts.calls.get(each.id), Started | Recorded) for each in step.calls
        )


@given(histories | conversations(), any_facts, any_rules)
def test_the_same_is_decided_again_after_a_crash(
    history: list[Message], facts: Facts, given_rules: Rules
) -> None:
    turns = fold_all(history), fold_all(history)
    assert decide(turns[0], facts, given_rules) == decide(turns[1], facts, given_rules)


# --- A run that always makes progress comes to rest ---------------------------------------------


class Drive:
    """Does what is decided, with outcomes that hypothesis chooses, and nothing else."""

    def __init__(self, data: st.DataObject, history: list[Message], given_rules: Rules) -> None:
        self.draw = data.draw
        self.rules = given_rules
        self.history = history
        self.turn: Turn = fold_all(history)
        self.facts = Facts(
            steering=self.draw(st.booleans()),
            compaction=self.draw(st.sampled_from((None, "person", "overflow"))),
            context_due=self.draw(st.booleans()),
        )
        self.messages_to_come = self.draw(st.integers(0, 2))
        """What people will still say, or settle, while it goes on."""
        self.asked = 0
        self.steps: list[Step] = []

    @property
    def bound(self) -> int:
        """Far more steps than can be useful in this many turns of this many answers."""
        turns = 2 + self.messages_to_come
        return 25 * turns * ((self.rules.limits.steps or 0) + 1)

    def run(self) -> Step:
        bound = self.bound
        while True:
            step = decide(self.turn, self.facts, self.rules)
            self.steps.append(step)
            assert len(self.steps) <= bound, self.steps
            before = (len(self.history), self.facts)
            if self.rests(step):
                return step
            assert (len(self.history), self.facts) != before, f"{step} changed nothing"

    def rests(self, step: Step) -> bool:
        """Do one step; whether it was the last."""
        match step:
            case CallModel():
                self.call_model()
            case RunCalls(calls):
                self.run_calls(calls)
            case SkipCalls(calls) | RefuseCalls(calls) | RefuseSpawns(calls):
                self.commit(results(*[result(each.id, "skipped") for each in calls]))
            case RequireAction(calls):
                return not self.resolve(calls)
            case Compact(asked_by, finish):
                self.compact(asked_by)
                return finish and not self.facts.steering
            case DeliverSteering():
                self.commit(prompt("And this."))
                self.facts = replace(self.facts, steering=False)
            case Recover():
                self.commit(injected("Go on."))
            case LoadContext():
                self.commit(context())
                self.facts = replace(self.facts, context_due=False)
            case Finish(reason):
                return not self.goes_on(reason)
            case Fail():
                return True
        self.hear()
        return False

    def commit(self, message: Message) -> None:
        self.history.append(message)
        self.turn = fold(self.turn, message)

    def hear(self) -> None:
        """Now and then somebody says something."""
        if self.messages_to_come and not self.facts.steering and self.draw(st.booleans()):
            self.messages_to_come -= 1
            self.facts = replace(self.facts, steering=True)

    def call_model(self) -> None:
        assert not open_calls(self.history)
        assert not self.facts.steering
        outcome = self.draw(st.sampled_from(("text", "calls", "cut", "overflow")))
        usage = self.draw(st.none() | st.integers(0, 3_000))
        match outcome:
            case "overflow":
                self.facts = replace(self.facts, compaction="overflow")
            case "calls":
                asked = [self.new_call() for _ in range(self.draw(st.integers(1, 3)))]
                self.commit(answer(*asked, usage=usage))
            case "cut":
                self.commit(answer("half", finish="length", usage=usage))
            case _:
                self.commit(answer("done", usage=usage))

    def new_call(self) -> ToolCall:
        self.asked += 1
        return call(f"call_{self.asked}", self.draw(st.sampled_from(TOOLS)))

    def run_calls(self, calls: Sequence[ToolCall]) -> None:
        states = dict(self.facts.calls)
        made = []
        for each in calls:
            state = states.get(each.id)
            assert not isinstance(state, AwaitingAction)
            if state is None and self.draw(st.booleans()):
                states[each.id] = waiting(each)
            else:
                states.pop(each.id, None)
                made.append(result(each.id, stops=self.draw(st.booleans()), tool=each.tool))
        if made:
            self.commit(results(*made))
        self.facts = replace(self.facts, calls=states)

    def resolve(self, calls: Sequence[ToolCall]) -> bool:
        """Somebody outside answers everything at once, or the run rests."""
        if not self.messages_to_come:
            return False
        self.messages_to_come -= 1
        answered = {each.id: Recorded(result(each.id, tool=each.tool)) for each in calls}
        self.facts = replace(self.facts, calls={**self.facts.calls, **answered})
        return True

    def compact(self, asked_by: AskedBy | None) -> None:
        only_shortened = asked_by is None and self.draw(st.booleans())
        after = self.draw(st.integers(1, 3_000))
        self.commit(checkpoint(len(self.history), after=after, summarized=not only_shortened))
        self.commit(note("Compacted."))
        self.facts = replace(self.facts, compaction=None)

    def goes_on(self, reason: str) -> bool:
        """The stop guard objects as often as it likes. It is not asked about the limit of steps."""
        if reason == "limit" or not self.draw(st.booleans()):
            return False
        self.commit(injected("Not yet."))
        return True


@settings(max_examples=300)
@given(st.data())
def test_a_run_comes_to_rest_whatever_happens(data: st.DataObject) -> None:
    history = data.draw(histories | conversations())
    drive = Drive(data, list(history), data.draw(any_rules))
    last = drive.run()
    assert isinstance(last, Finish | Fail | RequireAction | Compact)


@given(any_rules)
def test_a_model_that_only_calls_tools_is_stopped_by_the_limit(given_rules: Rules) -> None:
    history = [prompt()]
    given_rules = replace(given_rules, limit=None, waits=frozenset())
    for number in range(given_rules.limits.steps or 0):
        assert decide(fold_all(history), Facts(), given_rules) == CallModel()
        history += [answer(call(f"{number}")), results(f"{number}")]
    assert decide(fold_all(history), Facts(), given_rules) == stopped_after(
        given_rules.limits.steps
    )


def test_a_guard_that_never_agrees_is_stopped_by_the_limit() -> None:
    history = [prompt()]
    for _ in range(10):
        assert step_after(*history) == CallModel()
        history.append(answer("done"))
        assert step_after(*history) == Finish("stop")
        history.append(injected("Not yet."))
    assert step_after(*history) == stopped_after(10)


def test_an_overflow_after_every_request_ends_in_a_failure() -> None:
    history = [prompt(), answer("x"), prompt()]
    assert step_after(*history) == CallModel()
    assert step_after(*history, compaction="overflow") == Compact("overflow", finish=False)
    history.append(checkpoint(2, asked_by="overflow"))
    assert step_after(*history) == CallModel()
    assert step_after(*history, compaction="overflow") == Fail("still_over_limit")
