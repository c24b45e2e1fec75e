from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, get_args

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from holdfast.kernel.messages import (
    Checkpoint,
    File,
    Message,
    MessageRole,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    dump,
    injected,
    note,
)
from holdfast.kernel.model_context import (
    FILE_TOKENS,
    NO_RESULT,
    CompactionPlan,
    Projection,
    Trim,
    covered,
    estimate,
    estimate_all,
    estimate_text,
    last_checkpoint,
    plan_cut,
    repair,
    shorten,
    size_after,
    trim_before,
    view,
    whole_pairs,
    without_summary,
)
from tests.kernel.histories import (
    answer,
    asides,
    call,
    calls,
    checkpoint,
    checkpoints,
    context,
    conversations,
    histories,
    instructions,
    made_results,
    marker,
    of_the_provider,
    prompt,
    provider_call,
    provider_result,
    result,
    results,
    said,
    shown,
)

TRIM: Final = Trim(over=100, to=30)

wild: Final[st.SearchStrategy[list[Message]]] = st.lists(
    st.one_of(
        st.builds(
            Message,
            st.sampled_from(get_args(MessageRole)),
            st.lists(said | calls | made_results | of_the_provider, max_size=4).map(tuple),
            st.sampled_from(("prompt", "answer", "results", "injected", "marker")),
            shown,
        ),
        asides,
        checkpoints,
    ),
    max_size=8,
)
"""Sequences in which anything may stand in a message of any role."""


def projected(*history: Message) -> tuple[Message, ...]:
    return Projection(history, TRIM).messages()


def is_a_sequence_that_providers_accept(messages: Sequence[Message]) -> None:
    for before, message in pairwise([None, *messages]):
        assert message is not None
        assert message.visibility != "user"
        assert message.parts
        match message.role:
            case "assistant":
                pairs_are_whole(message)
            case "tool":
                assert before is not None
                assert len(message.results) == len(message.parts)
                assert [each.call_id for each in message.results] == ids_to_answer(before)
            case _:
                assert not message.calls
                assert not message.results
        if before is not None and ids_to_answer(before):
            assert message.role == "tool"
    assert not messages or not ids_to_answer(messages[-1])


def ids_to_answer(message: Message) -> list[str]:
    """The calls that have to be answered right behind a message: each once."""
    ids = [each.id for each in message.calls if not each.provider_executed]
    assert len(set(ids)) == len(ids)
    return ids if message.role == "assistant" else []


def pairs_are_whole(message: Message) -> None:
    """A result stands directly behind its call, and both are the provider's."""
    executed = [each.id for each in message.calls if each.provider_executed]
    assert len({each.id for each in message.calls}) == len(message.calls)
    assert [each.call_id for each in message.results] == executed
    for one, two in pairwise([*message.parts, None]):
        if isinstance(one, ToolCall) and one.provider_executed:
            assert isinstance(two, ToolResult)
            assert two.provider_executed
            assert two.call_id == one.id


def waits_for_a_result(messages: Sequence[Message]) -> bool:
    """Of the last answer: what came behind it since, a marker for example, does not change that."""
    for message in reversed(messages):
        if message.role == "assistant":
            return False
        if any(each.text == NO_RESULT for each in message.results):
            return True
    return False


# --- The sequence -------------------------------------------------------------------------------


@given(histories | wild | conversations())
@example([answer(call("a"), call("b")), marker(), results("b"), note("x"), results("a")])
@example([answer(call("a"), call("a")), results("a")])
@example([answer(call("a")), answer(call("a")), results("a")])
@example([answer(provider_call("a"), call("a"), provider_result("a")), results("a")])
def test_any_history_is_sent_in_a_sequence_that_providers_accept(history: list[Message]) -> None:
    is_a_sequence_that_providers_accept(Projection(history, TRIM).messages())
    is_a_sequence_that_providers_accept(repair(history, TRIM))


@given(histories | wild | conversations())
def test_growing_gives_the_same_as_starting_over(history: list[Message]) -> None:
    grown: list[Message] = []
    projection = Projection(grown, TRIM)
    for message in history:
        grown.append(message)
        projection.add(message)
        assert projection.messages() == Projection(tuple(grown), TRIM).messages()


@given(histories | wild | conversations())
@example([answer(call("a")), marker(), results("a")])
def test_what_was_sent_stays_the_beginning_of_what_is_sent_until_a_checkpoint(
    history: list[Message],
) -> None:
    grown: list[Message] = []
    projection = Projection(grown, TRIM)
    sent: tuple[Message, ...] = ()
    for message in history:
        grown.append(message)
        projection.add(message)
        now = projection.messages()
        if message.kind == "checkpoint":
            sent = ()
        assert now[: len(sent)] == sent
        if not waits_for_a_result(now):  # the model is only called when nothing is open
            sent = now


@given(histories | wild)
def test_the_history_is_left_as_it_is(history: list[Message]) -> None:
    before = dump(history)
    Projection(history, TRIM).messages()
    repair(history, TRIM)
    assert dump(history) == before


@given(histories | wild)
def test_what_is_repaired_needs_no_repair(history: list[Message]) -> None:
    once = repair(history, TRIM)
    assert repair(once, TRIM) == once


@given(conversations())
def test_nothing_of_a_conversation_is_lost(history: list[Message]) -> None:
    sent = projected(*history)
    for_models = [m for m in history if m.visibility != "user" and m.kind != "instructions"]
    assert [m for m in sent if m.role != "tool"] == [m for m in for_models if m.role != "tool"]
    made = {each.call_id: each for m in for_models if m.role == "tool" for each in m.results}
    asked = [each for m in sent for each in m.calls if not each.provider_executed]
    told = [each for m in sent if m.role == "tool" for each in m.results]
    assert told == [made[each.id] for each in asked]


def test_a_missing_result_is_said_to_be_missing() -> None:
    *_, told = projected(prompt(), answer(call("a", "write")), prompt("Go on."))[:-1]
    (missing,) = told.results
    assert missing.call_id == "a"
    assert missing.tool == "write"
    assert missing.outcome == "interrupted"
    assert missing.text == NO_RESULT


def test_results_that_came_one_by_one_are_sent_together_in_call_order() -> None:
    a, b = result("a", text="1"), result("b", text="2")
    sent = projected(prompt(), answer(call("a"), call("b")), results(b), note("x"), results(a))
    assert sent[2:] == (results(a, b),)


@pytest.mark.parametrize("aside", [marker(), context()], ids=["marker", "context"])
def test_an_aside_between_a_call_and_its_result_is_sent_behind_both(aside: Message) -> None:
    asked, alone = answer(call("a"), call("b")), answer(call("c"))
    history = (asked, results("a"), aside, results("b"), alone, aside, results("c"), aside)
    assert projected(*history) == (
        asked,
        results("a", "b"),
        aside,
        alone,
        results("c"),
        aside,
        aside,
    )


def test_a_usual_message_is_sent_as_it_is() -> None:
    history = [prompt(), answer(call("a")), results("a"), answer("done")]
    for given_message, sent in zip(history, projected(*history), strict=True):
        assert sent is given_message


def test_of_two_results_the_first_counts() -> None:
    first, second = result("a", text="1"), result("a", text="2")
    asked = answer(call("a"), call("b"))
    assert projected(asked, results(first, "b"), results(second))[1] == results(first, "b")
    assert projected(answer(call("a")), results(first), results(second))[1:] == (results(first),)


def test_a_result_that_comes_too_late_is_left_out() -> None:
    sent = projected(prompt(), answer(call("a")), prompt("Never mind."), results("a"))
    assert [m.role for m in sent] == ["user", "assistant", "tool", "user"]
    assert sent[2].results[0].text == NO_RESULT


def test_a_result_without_a_call_is_left_out() -> None:
    assert projected(results("a"), prompt(), results("b")) == (prompt(),)


def test_what_people_alone_see_is_not_sent() -> None:
    half = answer("half", call("a"), finish="error", visibility="user")
    assert projected(prompt(), half, note("Failed."), prompt("x", "user")) == (prompt(),)


def test_a_message_without_parts_is_not_sent() -> None:
    assert projected(prompt(), answer(finish="length"), injected("Go on.")) == (
        prompt(),
        injected("Go on."),
    )


def test_calls_and_results_in_a_message_of_a_person_are_not_sent() -> None:
    odd = Message("user", (Text("Look."), call("a"), result("a")), "prompt")
    assert projected(odd) == (prompt("Look."),)


# --- What the provider executed -----------------------------------------------------------------


def test_a_pair_of_the_provider_stays_whole() -> None:
    message = answer("Let me see.", provider_call(), provider_result(), "Found.")
    assert whole_pairs(message) == message
    assert projected(prompt(), message) == (prompt(), message)


def test_a_result_of_the_provider_stands_directly_behind_its_call() -> None:
    apart = answer(provider_call("p"), "text", provider_call("q"), provider_result("q"))
    late = answer(provider_result("p"), *apart.parts)
    whole = answer(
        provider_call("p"), provider_result("p"), "text", provider_call("q"), provider_result("q")
    )
    assert whole_pairs(late) == whole


@pytest.mark.parametrize(
    "broken",
    [
        answer("text", provider_call("p")),
        answer("text", provider_result("p")),
        answer("text", provider_call("p"), provider_result("q")),
        answer("text", provider_call("p"), result("p")),
        answer("text", result("p")),
    ],
    ids=["no result", "no call", "another id", "a result of ours", "only a result of ours"],
)
def test_half_a_pair_of_the_provider_is_left_out(broken: Message) -> None:
    assert whole_pairs(broken) == answer("text")
    assert projected(broken) == (answer("text"),)


def test_an_answer_that_was_only_half_a_pair_is_not_sent() -> None:
    assert projected(prompt(), answer(provider_call()), prompt("x")) == (prompt(), prompt("x"))


def test_a_pair_of_the_provider_does_not_take_the_result_of_our_call() -> None:
    asked = answer(provider_call("p"), provider_result("p"), call("a"))
    assert projected(asked, results("a")) == (asked, results("a"))


def test_an_id_that_ours_and_the_provider_s_share_is_ours() -> None:
    asked = answer(provider_call("a"), provider_result("a"), call("a"))
    assert projected(asked, results("a")) == (answer(call("a")), results("a"))


# --- Checkpoints --------------------------------------------------------------------------------


def test_a_checkpoint_stands_for_what_it_covers() -> None:
    history = [
        prompt("1"),
        answer("2"),
        prompt("3"),
        answer("4"),
        checkpoint(2),
        note("Summarized."),
    ]
    assert view(history, TRIM) == [history[4], history[2], history[3]]
    assert covered(history) == 2
    assert last_checkpoint(history) is history[4]


def test_the_pinned_prompt_follows_the_summary() -> None:
    history = [prompt("1"), answer("2"), prompt("3"), answer("4"), checkpoint(4, pinned=2)]
    assert view(history, TRIM) == [history[4], history[2]]


def test_only_the_last_checkpoint_counts() -> None:
    history = [prompt("1"), answer("2"), checkpoint(1), prompt("3"), checkpoint(3), prompt("4")]
    assert view(history, TRIM) == [history[4], history[3], history[5]]
    assert covered(history) == 3


def test_without_a_checkpoint_everything_for_models_is_seen() -> None:
    history = [prompt("1"), note("x"), answer("2"), marker()]
    assert view(history, TRIM) == [history[0], history[2], history[3]]
    assert covered(history) == 0
    assert last_checkpoint(history) is None


def test_a_checkpoint_that_only_shortens_carries_the_earlier_summary_along() -> None:
    earlier = checkpoint(1, text="Summary.")
    cut = Checkpoint(1, 3, 1_000, 500, summarized=False)
    later = without_summary(earlier, cut)
    assert (later.text, later.checkpoint, later.visibility) == ("Summary.", cut, "model")
    assert view([prompt(), earlier, answer("x"), later], TRIM) == [later, answer("x")]


def test_a_checkpoint_without_a_summary_adds_nothing() -> None:
    history = [prompt(), answer("x")]
    bare = without_summary(None, Checkpoint(0, 1, 1_000, 500, summarized=False))
    assert view([*history, bare], TRIM) == history


def test_bulky_results_before_the_line_are_shortened_and_newer_ones_are_not() -> None:
    old, new = result("a", text="x" * 500), result("b", text="y" * 500)
    history = [answer(call("a")), results(old), answer(call("b")), results(new)]
    seen = view([*history, checkpoint(0, text="", trims=3, summarized=False)], TRIM)
    assert seen[1] == shorten(results(old), TRIM) != results(old)
    assert seen[3] is history[3]
    assert view(history, TRIM)[1] is history[1]


@given(conversations(), st.data())
def test_a_checkpoint_of_a_planned_cut_is_sent_in_a_sequence_that_providers_accept(
    history: list[Message], data: st.DataObject
) -> None:
    cut = plan_cut(history, keep=data.draw(st.integers(0, 400)), keep_results=1)
    summary = checkpoint(cut.covers, trims=cut.trims, pinned=cut.pinned)
    sent = projected(*history, summary, prompt("Next."))
    is_a_sequence_that_providers_accept(sent)
    assert (sent[0], sent[-1]) == (summary, prompt("Next."))
    assert not any(NO_RESULT in each.text for message in sent for each in message.results)


def test_what_follows_a_checkpoint_is_sent_although_the_caller_cut_off_its_past() -> None:
    whole = [prompt("1"), answer("2"), prompt("3"), answer("4"), checkpoint(4, pinned=2)]
    cut_off = [*whole[3:], prompt("5"), answer("6")]
    assert projected(*cut_off) == (whole[4], prompt("5"), answer("6"))


def test_what_a_hook_gives_back_is_not_taken_for_a_history() -> None:
    sent = projected(*[prompt(), answer("x")] * 5, checkpoint(9, pinned=8), prompt("Next."))
    assert len(sent) == 4
    assert repair(sent, TRIM) == sent


# --- Shortening ---------------------------------------------------------------------------------


def test_a_long_result_keeps_its_beginning_and_its_end() -> None:
    text = "BEGIN" + "x" * 500 + "END"
    (short,) = shorten(results(result("a", text=text)), TRIM).results
    assert short.text.startswith("BEGIN")
    assert short.text.endswith("END")
    assert f"{508 - 30} characters cut" in short.text
    assert (short.call_id, short.tool, short.outcome) == ("a", "read", "ok")


@given(st.text(), st.integers(1, 50), st.integers(0, 50))
def test_no_result_grows_by_more_than_the_word_about_the_cut(text: str, to: int, more: int) -> None:
    trim = Trim(over=to + more, to=to)
    (short,) = shorten(results(result("a", text=text)), trim).results
    if len(text) <= trim.over:
        assert short.text == text
    else:
        assert len(short.text) <= to + len(f"\n[… {len(text)} characters cut …]\n")


def test_a_file_in_an_old_result_is_named_instead_of_sent() -> None:
    picture = ToolResult("a", "look", (Text("See:"), File("image/png", "cat.png", b"png")))
    (short,) = shorten(results(picture), TRIM).results
    assert short.content[0] == Text("See:")
    assert "image/png cat.png" in short.text
    assert not any(isinstance(each, File) for each in short.content)


@pytest.mark.parametrize("message", [prompt("x" * 999), answer("x" * 999), results("a")])
def test_only_bulky_results_are_shortened(message: Message) -> None:
    assert shorten(message, TRIM) is message


# --- Where to cut -------------------------------------------------------------------------------


def step(number: int, length: int = 0) -> list[Message]:
    """An answer with a call, and its result: 10 tokens and a quarter of `length` more."""
    made = result(f"{number}", text="x" * length)
    return [answer(call(f"{number}", "t", "")), results(made)]


def test_a_cut_keeps_the_newest_steps_that_fit() -> None:
    history = [prompt(), *step(1, 400), *step(2, 400), *step(3, 400)]
    room = estimate_all(history[3:])
    assert plan_cut(history, keep=room, keep_results=9).covers == 3
    assert plan_cut(history, keep=room - 1, keep_results=9).covers == 5
    assert plan_cut(history, keep=0, keep_results=9).covers == 7


def test_a_cut_pins_the_last_prompt_when_it_is_covered() -> None:
    history = [prompt("1"), answer("a"), prompt("2"), *step(1), *step(2)]
    assert plan_cut(history, keep=0, keep_results=9) == CompactionPlan(7, 2, 7)
    assert plan_cut(history, keep=10**6, keep_results=9) == CompactionPlan(2, None, 2)


def test_a_cut_covers_something_new_however_much_may_be_kept() -> None:
    history = [prompt(), *step(1), *step(2)]
    assert plan_cut(history, keep=10**6, keep_results=9).covers == 3
    again = [*history, checkpoint(3, pinned=0), *step(3)]
    assert plan_cut(again, keep=10**6, keep_results=9).covers == 6


def test_what_only_people_see_is_not_something_new() -> None:
    half = answer("half", finish="error", visibility="user")
    history = [prompt(), half, *step(1), *step(2)]
    assert plan_cut(history, keep=10**6, keep_results=9).covers == 4


def test_what_is_not_sent_takes_no_room_from_what_is_kept() -> None:
    aside = note("x" * 4_000)
    history = [prompt(), *step(1), *step(2), aside, *step(3)]
    keep = estimate_all([*step(2), *step(3)])
    assert plan_cut(history, keep=keep, keep_results=9).covers == 3


def test_a_cut_does_not_fall_between_a_call_and_its_results_whatever_stands_between() -> None:
    asked = answer(call("a"), call("b"))
    history = [prompt(), answer("x"), asked, results("a"), marker(), results("b")]
    for keep in range(estimate_all(history)):
        assert plan_cut(history, keep=keep, keep_results=9).covers in (2, 6)


@given(histories | conversations(), st.integers(0, 500), st.integers(0, 4))
def test_a_cut_never_separates_a_call_from_its_result(
    history: list[Message], keep: int, keep_results: int
) -> None:
    cut = plan_cut(history, keep=keep, keep_results=keep_results)
    for asked_at, answered_at in pairs(history):
        assert not asked_at < cut.covers <= answered_at


@given(histories | conversations(), st.integers(0, 500), st.integers(0, 4))
def test_a_cut_covers_an_answer_that_no_checkpoint_covered(
    history: list[Message], keep: int, keep_results: int
) -> None:
    start = covered(history)
    new = [at for at in range(start, len(history)) if seen_answer(history[at])]
    assume(new)
    cut = plan_cut(history, keep=keep, keep_results=keep_results)
    assert start <= new[0] < cut.covers <= len(history)


@given(histories | conversations(), st.integers(0, 500), st.integers(0, 4))
def test_a_cut_keeps_the_last_prompt(history: list[Message], keep: int, keep_results: int) -> None:
    cut = plan_cut(history, keep=keep, keep_results=keep_results)
    prompts = [at for at, m in enumerate(history) if m.kind == "prompt" and m.visibility != "user"]
    if not prompts or prompts[-1] >= cut.covers:
        assert cut.pinned is None
    else:
        assert cut.pinned == prompts[-1]


@given(conversations(), st.integers(0, 500))
@example([prompt(), answer("a"), *step(1), instructions("x" * 400), *step(2)], 30)
def test_what_a_cut_keeps_fits_and_no_further_step_would(history: list[Message], keep: int) -> None:
    cut = plan_cut(history, keep=keep, keep_results=0)
    waiting = history[cut.covers :]  # prompts without an answer are kept whether they fit or not
    unanswered = bool(waiting) and not any(map(seen_answer, waiting))
    assert for_models(waiting) <= keep or (unanswered and waiting[0].kind in ("prompt", "injected"))
    new = next((at for at, m in enumerate(history) if seen_answer(m)), len(history))
    starts = [at for at in range(new + 1, cut.covers) if history[at].kind in ("answer", "prompt")]
    if starts:
        assert for_models(history[starts[-1] :]) > keep


def pairs(history: Sequence[Message]) -> list[tuple[int, int]]:
    """Where each answered call stands, and where its result does."""
    found: list[tuple[int, int]] = []
    asked: dict[str, int] = {}
    for at, message in enumerate(history):
        if message.visibility == "user":
            continue
        if message.kind in ("prompt", "injected", "answer"):
            asked = {each.id: at for each in message.calls if not each.provider_executed}
        elif message.kind == "results":
            found += [
                (asked[each.call_id], at) for each in message.results if each.call_id in asked
            ]
    return found


def seen_answer(message: Message) -> bool:
    return message.kind == "answer" and message.visibility != "user"


def for_models(messages: Sequence[Message]) -> int:
    """The size of messages in a request. Instructions are in its system prefix instead."""
    sent = (m for m in messages if m.kind != "instructions")
    return estimate_all([m for m in sent if m.visibility != "user"])


def test_the_newest_results_are_never_shortened() -> None:
    history = [message for number in range(4) for message in step(number)]
    assert trim_before(history, 0) == 8
    assert trim_before(history, 1) == 6
    assert trim_before(history, 3) == 2
    assert trim_before(history, 4) == 0
    assert trim_before([], 1) == 0


def test_newest_results_that_came_together_stay_together() -> None:
    history = [answer(call("a")), results("a"), answer(call("b"), call("c")), results("b", "c")]
    assert trim_before(history, 1) == 2
    assert trim_before(history, 3) == 0


@given(conversations(), st.integers(0, 6))
def test_as_many_of_the_newest_results_stay_whole_as_the_policy_says(
    history: list[Message], keep_results: int
) -> None:
    line = trim_before(history, keep_results)
    everything = [each for m in history if m.role == "tool" for each in m.results]
    whole = [each for m in history[line:] if m.role == "tool" for each in m.results]
    assert len(whole) >= min(keep_results, len(everything))


# --- Size ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("x" * 400, 100), ("x" * 401, 101), ("é" * 400, 200), ("語" * 400, 600)],
    ids=["none", "one", "many", "rounded up", "accents", "no alphabet"],
)
def test_a_text_is_estimated_by_its_bytes_and_its_script(text: str, tokens: int) -> None:
    assert estimate_text(text) == tokens


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_can_be_estimated(text: str) -> None:
    assert len(text) // 4 <= estimate_text(text) <= 2 * len(text)
    assert bool(estimate_text(text)) == bool(text)


def test_every_part_of_a_message_is_estimated() -> None:
    long = "x" * 400
    for part in (
        Text(long),
        Reasoning(long),
        call(arguments=long),
        result(text=long),
        Source(long),
        Source("", long),
    ):
        assert estimate(Message("assistant", (part,), "answer")) >= 100
    assert estimate(Message("user", (File("image/png", data=b"x"),), "prompt")) == FILE_TOKENS


def test_a_message_is_never_free() -> None:
    assert estimate(answer()) == 1
    assert estimate_all([answer(), answer()]) == 2


def test_the_size_after_is_in_proportion_to_what_is_left() -> None:
    sent, kept = [prompt("x" * 4_000), answer("x" * 4_000)], [prompt("x" * 4_000)]
    assert size_after(8_000, sent, kept, 0) == 4_000
    assert size_after(8_000, sent, sent, 0) == 8_000


def test_the_system_prefix_and_the_tools_stay() -> None:
    sent, kept = [prompt("x" * 4_000)], [prompt("")]
    overhead = estimate_all(sent)
    assert size_after(2_000, sent, kept, overhead) >= 1_000


@given(histories, histories, st.integers(0, 10**6), st.integers(0, 10**4))
def test_the_size_after_is_at_least_one_and_grows_with_what_is_kept(
    sent: list[Message], more: list[Message], before: int, overhead: int
) -> None:
    less = size_after(before, sent, sent[:1], overhead)
    assert 1 <= less <= max(1, size_after(before, sent, [*sent, *more], overhead))


def test_prompts_that_wait_for_the_same_answer_are_all_kept() -> None:
    history = [prompt("a"), answer("b"), prompt("c"), prompt("d" * 10_000)]
    cut = plan_cut(history, keep=1, keep_results=9)
    assert (cut.covers, cut.pinned) == (2, None)
