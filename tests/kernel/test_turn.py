from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from holdfast.kernel.limits import Totals
from holdfast.kernel.messages import (
    Message,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    Usage,
    injected,
    note,
)
from holdfast.kernel.model_context import estimate
from holdfast.kernel.turn import FailureStreak, Turn, fold, fold_all
from tests.kernel.histories import (
    OUTCOMES,
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


def turn_of(*history: Message) -> Turn:
    return fold_all(history)


# --- The same by looking at the whole history ---------------------------------------------------


class Rescan:
    """What `Turn` says, found the slow way: each from its definition, by looking at everything."""

    def __init__(self, history: Sequence[Message]) -> None:
        self.history = history
        self.seen = [m for m in history if m.visibility != "user"]
        """By models. The rest is transparent to everything."""
        self.counting = counting(self.seen)
        self.this_turn = self.after_last("prompt")

    def after_last(self, *kinds: str) -> list[Message]:
        """What models see behind the last message of one of these kinds; all of it without one."""
        at = max((i for i, m in enumerate(self.seen) if m.kind in kinds), default=-1)
        return self.seen[at + 1 :]

    def turn(self) -> Turn:
        return Turn(
            length=len(self.history),
            last=self.last(),
            calls=self.calls(),
            open=self.open(),
            cut=bool(self.counting) and cut_by_length(self.counting[-1]),
            model=next((m.model for m in reversed(self.this_turn) if m.kind == "answer"), None),
            stopped=self.stopped(),
            steps=sum(m.kind == "answer" for m in self.this_turn),
            recoveries=self.recoveries(),
            repairs=sum(m.kind == "injected" and m.why == "repair" for m in self.this_turn),
            failures=self.failures(),
            passed=self.passed(),
            size=self.size(),
            measured=any(reports_size(m) for m in self.seen),
            compactable=self.compactable(),
            summarized=any(is_summary(m) for m in self.this_turn),
            size_after=self.size_after(),
            relieved=any(m.kind == "checkpoint" for m in self.after_last("answer")),
            began=max((at for at, m in enumerate(self.history, 1) if is_prompt(m)), default=0),
            instructions=self.instructions(self.history),
            instructed=any(m.kind == "instructions" for m in self.this_turn),
            used=self.used(),
        )

    def used(self) -> Totals:
        begins = (at for at, m in enumerate(self.history, 1) if is_prompt(m) or m.limit is not None)
        total = Totals()
        for message in self.history[max(begins, default=0) :]:
            hidden, usage = message.visibility == "user", message.usage or Usage()
            spent = Totals(
                steps=int(message.kind == "answer" and not hidden),
                tokens=usage.context,
                cost=usage.cost or 0.0,
                seconds=(message.runtime or 0) / 1_000,
            )
            total += spent
            if message.kind == "results" and not hidden:
                total += Totals(seconds=seconds_of(message.results))
        return total

    def instructions(self, messages: Sequence[Message]) -> Message | None:
        return next((m for m in reversed(messages) if m.kind == "instructions"), None)

    def last(self) -> Literal["prompt", "answer", "results"] | None:
        if not self.counting:
            return None
        kind = self.counting[-1].kind
        if kind == "injected":
            return "prompt"
        assert kind in ("prompt", "answer", "results")
        return kind

    def calls(self) -> tuple[ToolCall, ...]:
        """Ours of the last answer. What is said after it leaves them behind."""
        spoken = [m for m in self.counting if m.kind != "results"]
        if not spoken or spoken[-1].kind != "answer":
            return ()
        return tuple(each for each in spoken[-1].calls if not each.provider_executed)

    def open(self) -> tuple[ToolCall, ...]:
        answered = {r.call_id for r in results_in(self.after_last("answer"))}
        return tuple(each for each in self.calls() if each.id not in answered)

    def stopped(self) -> bool:
        since = self.after_last("answer", "prompt", "injected")
        return any(r.stops and r.outcome == "ok" for r in results_in(since))

    def recoveries(self) -> int:
        turn = counting(self.this_turn)
        asked_to = [m.kind == "injected" and m.why != "repair" for m in turn[1:]]
        return sum(cut_by_length(one) and on for one, on in zip(turn, asked_to, strict=False))

    def failures(self) -> dict[str, FailureStreak]:
        """For each tool: its answers without a success since the last one with one."""
        streaks: dict[str, FailureStreak] = {}
        for step, made in enumerate(by_answer(self.this_turn)):
            for tool in dict.fromkeys(r.tool for r in made):
                own = [r for r in made if r.tool == tool]
                if any(succeeded(r) for r in own):
                    streaks.pop(tool, None)
                elif any(r.outcome in ("failed", "timed_out") for r in own):
                    before = streaks.get(tool)
                    streaks[tool] = FailureStreak(before.answers + 1 if before else 1, step)
        return streaks

    def passed(self) -> tuple[str, ...]:
        last = by_answer(self.this_turn)[-1]
        return tuple(dict.fromkeys(r.tool for r in last if succeeded(r)))

    def size(self) -> int:
        at = max((i for i, m in enumerate(self.seen) if reports_size(m)), default=-1)
        told = 0
        if at >= 0 and (said := self.seen[at]).usage is not None and said.kind == "answer":
            used = said.usage
            assert used is not None
            wrote = estimate(said) if said.finish == "interrupted" else 0
            told = used.input + used.cache_read + used.cache_write + max(used.output, wrote)
        elif at >= 0:
            cut = self.seen[at].checkpoint
            assert cut is not None
            told = cut.after
        for place, message in enumerate(self.seen[at + 1 :], at + 1):
            told += estimate(message)
            if message.kind == "instructions":
                before = self.instructions(self.seen[:place])
                told = max(0, told - (0 if before is None else estimate(before)))
        return told

    def compactable(self) -> int:
        at = max((i for i, m in enumerate(self.seen) if is_summary(m)), default=-1)
        return sum(m.kind == "answer" for m in self.seen[at + 1 :])

    def size_after(self) -> int | None:
        if not any(is_summary(message) for message in self.this_turn):
            return None
        at = max(i for i, m in enumerate(self.this_turn) if m.kind == "checkpoint")
        behind = self.this_turn[at + 1 :]
        first = next((i for i, m in enumerate(behind) if m.kind == "answer"), None)
        if first is None:
            return None
        used = behind[first].usage
        if used is not None and used.context:
            return used.context - used.output
        return Rescan(self.seen[: len(self.seen) - len(behind) + first]).size()


def seconds_of(made: Sequence[ToolResult]) -> float:
    """Seconds in which at least one of these calls ran."""
    ran = {
        second
        for one in made
        if one.started_at is not None and one.finished_at is not None
        for second in range(one.started_at // 1_000_000, one.finished_at // 1_000_000)
    }
    return float(len(ran))


def counting(messages: Sequence[Message]) -> list[Message]:
    return [m for m in messages if m.kind in ("prompt", "injected", "answer", "results")]


def is_prompt(message: Message) -> bool:
    return message.kind == "prompt" and message.visibility != "user"


def results_in(messages: Sequence[Message]) -> list[ToolResult]:
    return [r for m in messages if m.kind == "results" for r in m.results]


def by_answer(messages: Sequence[Message]) -> list[list[ToolResult]]:
    """Results before the first answer, after it, after the second, and so on."""
    groups: list[list[ToolResult]] = [[]]
    for message in messages:
        if message.kind == "answer":
            groups.append([])
        elif message.kind == "results":
            groups[-1] += message.results
    return groups


def succeeded(made: ToolResult) -> bool:
    return made.outcome == "ok" or made.expected


def cut_by_length(message: Message) -> bool:
    ours = [each for each in message.calls if not each.provider_executed]
    return message.kind == "answer" and message.finish == "length" and not ours


def is_summary(message: Message) -> bool:
    return message.checkpoint is not None and message.checkpoint.summarized


def reports_size(message: Message) -> bool:
    if message.kind == "checkpoint":
        return True
    return message.kind == "answer" and message.usage is not None and message.usage.context > 0


@given(histories)
@example([])
@example([answer(call("a"), finish="length"), results(result("a", stops=True)), injected("No.")])
@example([prompt(), checkpoint(1), answer("a", usage=5), checkpoint(2, summarized=False)])
@example([prompt(), answer("a", finish="length"), note("x"), injected("on"), prompt("2", "user")])
@example([prompt(), answer("a", finish="length"), injected("no", "repair"), answer("b")])
def test_keeping_it_up_to_date_gives_what_looking_at_everything_gives(
    history: list[Message],
) -> None:
    turns = accumulate(history, fold, initial=Turn())
    for length, turn in enumerate(turns):
        assert turn == Rescan(history[:length]).turn()


@given(conversations())
def test_it_is_the_same_over_what_a_run_produces(history: list[Message]) -> None:
    assert fold_all(history) == Rescan(history).turn()


@given(histories, st.integers(0, 12))
def test_going_on_from_any_point_gives_the_same_turn(history: list[Message], at: int) -> None:
    assert fold_all(history[at:], fold_all(history[:at])) == fold_all(history)


@given(histories, histories)
def test_a_turn_is_never_changed_by_what_follows(
    history: list[Message], more: list[Message]
) -> None:
    turn = fold_all(history)
    fold_all(more, turn)
    assert turn == fold_all(history)


# --- Open calls ---------------------------------------------------------------------------------


def test_the_calls_of_the_last_answer_are_open_until_each_has_a_result() -> None:
    a, b = call("a"), call("b")
    asked = turn_of(prompt(), answer(a, b))
    assert asked.open == (a, b)
    half = fold(asked, results("b"))
    assert half.open == (a,)
    assert half.calls == (a, b)
    assert fold(half, results("a")).open == ()


def test_a_call_that_the_provider_executes_is_never_open() -> None:
    ours = call("a")
    turn = turn_of(prompt(), answer(provider_call("p"), provider_result("p"), ours))
    assert turn.open == (ours,)
    assert turn_of(prompt(), answer(provider_call("p"))).open == ()


def test_a_result_counts_for_calls_before_it_only() -> None:
    turn = turn_of(prompt(), answer(call("a")), results("a"), answer(call("a")))
    assert turn.open == (call("a"),)


def test_a_result_for_another_call_closes_nothing() -> None:
    assert turn_of(prompt(), answer(call("a")), results("b")).open == (call("a"),)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_result_of_any_outcome_closes_its_call(outcome: ToolOutcome) -> None:
    assert not turn_of(prompt(), answer(call("a")), results(result("a", outcome))).open


@pytest.mark.parametrize("said", [prompt("Never mind."), injected("Go on.")])
def test_nothing_is_open_behind_what_was_said_since(said: Message) -> None:
    assert turn_of(prompt(), answer(call("a")), said).open == ()


# --- What is passed over ------------------------------------------------------------------------

ASIDES: Final = (
    marker(),
    context(),
    note("For people."),
    checkpoint(1),
    prompt("hidden", "user"),
    answer("half of an ans", call("z"), finish="error", usage=9_999, visibility="user"),
)


@pytest.mark.parametrize("aside", ASIDES, ids=lambda aside: f"{aside.kind}-{aside.visibility}")
def test_what_is_transparent_changes_neither_the_last_message_nor_the_open_calls(
    aside: Message,
) -> None:
    for history in (
        [prompt()],
        [prompt(), answer("cut", finish="length")],
        [prompt(), answer(call("a"), call("b")), results("a")],
        [prompt(), answer(call("a")), results(result("a", stops=True))],
    ):
        before, after = fold_all(history), fold_all([*history, aside])
        assert (after.last, after.open, after.calls) == (before.last, before.open, before.calls)
        assert (after.cut, after.stopped, after.steps) == (before.cut, before.stopped, before.steps)
        assert after.length == before.length + 1


@pytest.mark.parametrize("message", [prompt(), answer("a"), results("a"), injected("on")])
def test_what_the_model_said_or_must_answer_is_the_last_message(message: Message) -> None:
    last = {"prompt": "prompt", "injected": "prompt", "answer": "answer", "results": "results"}
    assert fold(Turn(), message).last == last[message.kind]


def test_the_model_of_the_last_answer_is_known_until_the_turn_ends() -> None:
    said = Message("assistant", (Text("a"),), "answer", model="x:y")
    assert fold_all([prompt(), said]).model == "x:y"
    assert fold_all([prompt(), said, injected("on")]).model == "x:y"
    assert fold_all([prompt(), said, prompt()]).model is None


def test_a_usage_of_zeros_is_no_report() -> None:
    said = Message("assistant", (Text("a" * 400),), "answer", usage=Usage())
    turn = fold_all([prompt(), said])
    assert not turn.measured
    assert turn.size > 100


def test_of_an_answer_that_was_stopped_the_provider_has_not_counted_all() -> None:
    said = Message("assistant", (Text("a" * 4_000),), "answer", "both", "interrupted", Usage(90, 1))
    turn = fold_all([prompt(), said])
    assert turn.measured
    assert turn.size == 90 + estimate(said) > 1_000


def test_what_only_people_see_takes_no_room() -> None:
    assert fold(turn_of(prompt()), note("x" * 4_000)).size == turn_of(prompt()).size


# --- This turn ----------------------------------------------------------------------------------


def test_steps_are_counted_from_the_last_message_that_a_person_wrote() -> None:
    turn = turn_of(prompt(), answer(call("a")), results("a"), answer("done"))
    assert turn.steps == 2
    assert fold(turn, injected("Really?")).steps == 2
    assert fold(turn, prompt("And now?")).steps == 0


def test_failures_are_counted_by_answers_in_a_row_for_each_tool() -> None:
    failed = [result("a", "failed"), result("b", "failed"), result("c", "failed", tool="write")]
    turn = turn_of(prompt(), answer("1"), results(*failed), answer("2"), results(*failed[:2]))
    streaks = {"read": FailureStreak(2, 2), "write": FailureStreak(1, 1)}
    assert turn.failures == streaks
    assert fold_all([answer("3"), results(result("a", "ok"))], turn).failures == {
        "write": FailureStreak(1, 1)
    }
    assert fold(turn, injected("Go on.")).failures == streaks
    assert fold(turn, prompt()).failures == {}


def test_results_of_one_answer_that_are_committed_apart_count_once() -> None:
    turn = turn_of(prompt(), answer("1"), results(result("a", "failed")))
    assert fold(turn, results(result("b", "timed_out"))).failures == {"read": FailureStreak(1, 1)}
    passed = fold(turn, results(result("b", "ok")))
    assert passed.failures == {}
    assert fold(passed, results(result("c", "failed"))).failures == {}


@pytest.mark.parametrize("outcome", sorted(set(OUTCOMES) - {"ok", "failed", "timed_out"}))
def test_only_failures_and_timeouts_count_and_only_a_success_resets(outcome: ToolOutcome) -> None:
    turn = turn_of(prompt(), answer("1"), results(result("a", "failed")), answer("2"))
    assert fold(turn, results(result("a", outcome))).failures == {"read": FailureStreak(1, 1)}


def test_an_expected_failure_resets() -> None:
    turn = turn_of(prompt(), answer("1"), results(result("a", "failed")), answer("2"))
    assert fold(turn, results(result("a", "failed", expected=True))).failures == {}


def test_an_answer_cut_by_length_is_one_without_a_complete_call() -> None:
    assert turn_of(prompt(), answer("half", finish="length")).cut
    assert not turn_of(prompt(), answer("whole")).cut
    assert not turn_of(prompt(), answer("half", call("a"), finish="length")).cut


def test_a_recovery_is_what_we_inject_behind_a_cut_answer() -> None:
    cut = (answer("half", finish="length"), injected("Go on."))
    turn = turn_of(prompt(), *cut, *cut)
    assert turn.recoveries == 2
    assert fold_all([answer("whole"), injected("Really?")], turn).recoveries == 2
    assert fold(turn, prompt()).recoveries == 0


def test_a_repair_is_one_because_it_says_so() -> None:
    repair = (answer("?"), injected("No.", "repair"))
    turn = turn_of(prompt(), *repair, answer("!"), injected("Not yet.", "guard"), *repair)
    assert turn.repairs == 2
    assert fold_all([answer(call("a")), results("a")], turn).repairs == 2
    assert fold(turn, prompt()).repairs == 0


def test_a_repair_behind_a_cut_answer_is_no_recovery() -> None:
    turn = turn_of(prompt(), answer("half", finish="length"), injected("No.", "repair"))
    assert (turn.repairs, turn.recoveries) == (1, 0)


def test_a_stop_after_tool_stops_until_something_is_delivered_or_injected() -> None:
    stopped = turn_of(prompt(), answer(call("a")), results(result("a", stops=True)))
    assert stopped.stopped
    assert fold(stopped, results("b")).stopped
    assert not fold(stopped, prompt()).stopped
    assert not fold(stopped, injected("Not yet.")).stopped


@pytest.mark.parametrize("outcome", sorted(set(OUTCOMES) - {"ok"}))
def test_a_stop_after_tool_that_did_not_succeed_does_not_stop(outcome: ToolOutcome) -> None:
    assert not turn_of(prompt(), results(result("a", outcome, stops=True))).stopped


# --- Size and compaction ------------------------------------------------------------------------


def test_the_size_is_the_last_reported_usage_and_an_estimate_of_what_came_since() -> None:
    big = results(result("a", text="x" * 4_000))
    turn = turn_of(prompt(), answer(call("a"), usage=500), big, marker())
    assert turn.size == 500 + estimate(big) + estimate(marker())
    assert turn.measured


def test_an_answer_without_usage_adds_to_what_is_known() -> None:
    first, last = answer("a", usage=500), answer("b" * 400)
    assert turn_of(prompt(), first, last).size == 500 + estimate(last)


def test_without_a_report_the_size_is_an_estimate() -> None:
    turn = turn_of(prompt(), answer("a"))
    assert turn.size == estimate(prompt()) + estimate(answer("a"))
    assert not turn.measured


def test_a_checkpoint_sets_the_size_to_what_is_left() -> None:
    turn = turn_of(prompt(), answer("a", usage=5_000), checkpoint(1, after=700), prompt())
    assert turn.size == 700 + estimate(prompt())


def test_only_answers_since_the_last_summary_can_be_compacted() -> None:
    turn = turn_of(prompt(), answer("a"), answer("b"))
    assert turn.compactable == 2
    assert fold(turn, checkpoint(2, summarized=False)).compactable == 2
    assert fold(turn, checkpoint(2)).compactable == 0
    assert fold_all([checkpoint(2), prompt(), answer("c")], turn).compactable == 1


def test_a_summary_is_of_the_turn_that_it_was_made_in() -> None:
    turn = turn_of(prompt(), answer("a"), checkpoint(1, summarized=False))
    assert not turn.summarized
    turn = fold(turn, checkpoint(2))
    assert turn.summarized
    assert not fold(turn, prompt()).summarized


def test_the_size_after_a_compaction_leaves_the_answer_out() -> None:
    """An answer that is long by itself says nothing about what was compacted."""
    turn = turn_of(prompt(), answer("a"), checkpoint(1, after=100))
    used = Usage(input=100, cache_read=200, cache_write=300, output=5_000)
    assert fold(turn, structs.replace(answer("b"), usage=used)).size_after == 600
    assert fold(turn, answer("b" * 10_000)).size_after == 100


def test_the_size_after_a_compaction_is_that_of_the_first_answer_behind_it() -> None:
    turn = turn_of(prompt(), answer("a"), checkpoint(1, after=100))
    assert turn.size_after is None
    turn = fold(turn, answer("b", usage=400))
    assert turn.size_after == 400
    assert fold(turn, answer("c", usage=900)).size_after == 400
    assert fold(turn, checkpoint(2)).size_after is None
    assert fold(turn, checkpoint(2, summarized=False)).size_after is None
    assert fold(turn, prompt()).size_after is None


def test_a_checkpoint_relieves_until_the_next_answer() -> None:
    turn = turn_of(prompt(), answer("a"), checkpoint(1, summarized=False))
    assert turn.relieved
    assert fold(turn, prompt()).relieved
    assert not fold(turn, answer("b")).relieved
