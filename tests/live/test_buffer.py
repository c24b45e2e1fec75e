from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.events import ToolFinished, ToolProgressed
from holdfast.kernel.messages import File, Text, ToolResult, encode
from holdfast.kernel.model import ReasoningDelta, TextDelta
from holdfast.live.buffer import MAX_LOOSE, OUTPUT_LIMIT, DeltaBuffer, DeltaRange
from holdfast.live.delta_fragments import Fragment, Omitted
from tests.live.fixtures import FIRST, Client, finished, in_few, progress


def replay_of(*fragments: Fragment, limit: int = OUTPUT_LIMIT) -> DeltaBuffer:
    replay = DeltaBuffer(FIRST, limit)
    for fragment in fragments:
        replay.put(fragment)
    return replay


def output_in(deltas: list[DeltaRange]) -> str:
    return "".join(
        delta.fragment.text for delta in deltas if isinstance(delta.fragment, ToolProgressed)
    )


def size_of(deltas: list[DeltaRange]) -> int:
    return sum(
        len(encode(delta.fragment))
        for delta in deltas
        if isinstance(delta.fragment, ToolProgressed | ToolFinished)
    )


def kept_by(make: Callable[[], DeltaBuffer]) -> tuple[int, DeltaBuffer]:
    """Bytes that are held by what `make` gives, and that."""
    tracemalloc.start()
    try:
        made = make()
        return tracemalloc.get_traced_memory()[0], made
    finally:
        tracemalloc.stop()


def test_what_many_deltas_said_is_replayed_as_one() -> None:
    replay = replay_of(*(TextDelta(f"{number} ") for number in range(5 * MAX_LOOSE + 3)))
    text = "".join(f"{number} " for number in range(5 * MAX_LOOSE + 3))
    assert replay.after(0) == [DeltaRange(FIRST, 1, 5 * MAX_LOOSE + 3, TextDelta(text))]


@pytest.mark.parametrize("size", [1, MAX_LOOSE - 1, MAX_LOOSE, MAX_LOOSE + 1, 3 * MAX_LOOSE])
def test_it_goes_on_exactly_after_any_delta_however_it_was_folded(size: int) -> None:
    pieces = ["ab", "c", "déf", "🙂"]
    said = [TextDelta(pieces[number % 4]) for number in range(size)]
    replay = replay_of(*said)
    for seq in range(size):
        rest = "".join(delta.text for delta in said[seq:])
        assert replay.after(seq) == [DeltaRange(FIRST, seq + 1, size, TextDelta(rest))]
    assert replay.after(size) == []


def test_who_is_at_the_same_place_gets_the_same_values() -> None:
    replay = replay_of(TextDelta("a"), TextDelta("b"))
    assert replay.after(0)[0] is replay.after(0)[0]


def test_what_was_given_once_is_not_given_again_after_more_was_said() -> None:
    replay = replay_of(TextDelta("a"))
    assert replay.after(0) == [DeltaRange(FIRST, 1, 1, TextDelta("a"))]
    replay.put(TextDelta("b"))
    assert replay.after(0) == [DeltaRange(FIRST, 1, 2, TextDelta("ab"))]


def test_its_size_follows_what_was_said_and_not_the_number_of_deltas() -> None:
    count = 50_000
    kept, _ = kept_by(lambda: replay_of(*(TextDelta("four") for _ in range(count))))
    assert kept < 3 * 4 * count


# --- the limit of output ---


@pytest.mark.parametrize("piece", [1_000, 10_000_000])
def test_of_ten_megabytes_of_progress_one_is_kept(piece: int) -> None:
    def fill() -> DeltaBuffer:
        return replay_of(*(progress("x" * piece) for _ in range(10_000_000 // piece)))

    kept, replay = kept_by(fill)
    assert kept < 1.5 * OUTPUT_LIMIT
    assert size_of(replay.after(0)) <= OUTPUT_LIMIT


def test_progress_in_tiny_pieces_is_bounded_too() -> None:
    kept, _ = kept_by(lambda: replay_of(*(progress("x") for _ in range(20_000)), limit=100_000))
    assert kept < 5 * 100_000


def test_over_the_limit_the_head_and_the_tail_are_kept_and_the_gap_is_told() -> None:
    replay = replay_of(*(progress(f"{number} ") for number in range(1_000)), limit=10_000)
    deltas = replay.after(0)
    (gap,) = [delta for delta in deltas if isinstance(delta.fragment, Omitted)]
    at = deltas.index(gap)
    assert gap.fragment == Omitted(("a",))
    assert output_in(deltas[:at]) == "".join(f"{number} " for number in range(gap.first - 1))
    assert output_in(deltas[at:]) == "".join(f"{number} " for number in range(gap.last, 1_000))
    assert 4_000 < size_of(deltas[:at]) <= 5_000
    assert 4_000 < size_of(deltas[at:]) <= 5_000


def test_there_is_one_gap_however_the_sizes_fall() -> None:
    large, small = progress("x" * 1_500), progress("y")
    deltas = replay_of(*[large] * 4, small, *[large] * 20, limit=10_000).after(0)
    assert [type(delta.fragment) for delta in deltas].count(Omitted) == 1


def test_up_to_the_limit_nothing_is_left_out() -> None:
    said = [progress("x" * 100) for _ in range(10)]
    size = sum(len(encode(output)) for output in said)
    assert [delta.fragment for delta in replay_of(*said, limit=size).after(0)] == said
    less = replay_of(*said, limit=size - 2).after(0)
    assert Omitted(("a",)) in [delta.fragment for delta in less]


def test_text_is_never_left_out_for_output() -> None:
    said: list[Fragment] = []
    for number in range(200):
        said += [TextDelta(f"{number},"), progress("x" * 100, str(number % 3))]
    deltas = replay_of(*said, limit=4_000).after(0)
    text = [delta.fragment for delta in deltas if isinstance(delta.fragment, TextDelta)]
    assert text == [fragment for fragment in said if isinstance(fragment, TextDelta)]


def test_a_gap_names_every_call_whose_output_is_missing() -> None:
    said = [progress("x" * 50, f"call{number % 3}") for number in range(300)]
    deltas = replay_of(*said, limit=4_000).after(0)
    (gap,) = [delta.fragment for delta in deltas if isinstance(delta.fragment, Omitted)]
    assert isinstance(gap, Omitted)
    assert sorted(gap.call_ids) == ["call0", "call1", "call2"]


def test_every_call_that_ended_is_told_even_where_there_is_no_room() -> None:
    said = [finished(f"{number}" * 500, f"call{number}") for number in range(100)]
    deltas = replay_of(*said, limit=8_000).after(0)
    results = [
        delta.fragment.result for delta in deltas if isinstance(delta.fragment, ToolFinished)
    ]
    assert [result.call_id for result in results] == [output.result.call_id for output in said]
    assert results[0] == said[0].result
    assert results[-1] == said[-1].result
    assert "left out here" in results[50].text
    assert len(results[50].text) < 600


def test_one_output_that_is_too_large_keeps_both_its_ends() -> None:
    replay = replay_of(progress("<" + "x" * 10_000_000 + ">"), progress("next"))
    (large, next) = replay.after(0)
    assert isinstance(large.fragment, ToolProgressed)
    assert large.fragment.text.startswith("<x")
    assert large.fragment.text.endswith("x>")
    assert "characters left out here" in large.fragment.text
    assert len(encode(large)) < OUTPUT_LIMIT // 4
    assert next.fragment == progress("next")


def test_the_bytes_of_a_large_file_are_left_to_the_message() -> None:
    picture = File("image/png", data=b"x" * 2 * OUTPUT_LIMIT)
    (delta,) = replay_of(ToolFinished(ToolResult("a", "draw", (Text("here"), picture)), 1.0)).after(
        0
    )
    assert isinstance(delta.fragment, ToolFinished)
    assert delta.fragment.result.text.startswith("here\n[image/png left out here")
    assert len(encode(delta)) < 1_000


@given(
    st.lists(
        st.one_of(
            st.sampled_from(["x", "y" * 40, "\x00" * 300]).map(TextDelta),
            st.builds(
                progress, st.sampled_from(["p", "q" * 90, "\x00" * 700]), st.sampled_from("ab")
            ),
            st.builds(finished, st.sampled_from(["r", "s" * 400]), st.sampled_from("ab")),
            st.just(ReasoningDelta("hm")),
        ),
        max_size=150,
    ),
    st.data(),
)
def test_every_number_is_accounted_for_from_wherever_one_looks(
    said: list[Fragment], data: st.DataObject
) -> None:
    replay = DeltaBuffer(FIRST, 3_000)
    keeping_up = Client()
    for fragment in said:
        replay.put(fragment)
        if data.draw(st.booleans()):
            for delta in replay.after(keeping_up.last):
                keeping_up.see(delta)
    for delta in replay.after(keeping_up.last):
        keeping_up.see(delta)
    assert keeping_up.last == len(said)
    late = Client()
    for delta in replay.after(0):
        late.see(delta)
    assert late.last == len(said)
    for kind in (TextDelta, ReasoningDelta):
        text = in_few(fragment for fragment in said if isinstance(fragment, kind))
        for client in (keeping_up, late):
            assert in_few(f for f in client.fragments if isinstance(f, kind)) == text
    from_anywhere = Client(FIRST, data.draw(st.integers(0, len(said))))
    for delta in replay.after(from_anywhere.last):
        from_anywhere.see(delta)
    assert from_anywhere.last == len(said)
    results = sum(isinstance(fragment, ToolFinished) for fragment in said)
    assert sum(isinstance(fragment, ToolFinished) for fragment in late.fragments) == results
