"""An attempt that runs in one process, and what another makes of it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.model import TextDelta
from holdfast.live.broadcast import AttemptReset, DeltaBatch, Live, LiveCursor, Mirror, Tap
from holdfast.live.buffer import MAX_LOOSE, AttemptId, DeltaBuffer, RelayDelta
from tests.live.fixtures import CHAT, FIRST, SECOND, THIRD, in_few, progress, say, text_of
from tests.live.test_any_reader import events


def replayed(pieces: Iterable[object], limit: int = 10_000) -> DeltaBuffer:
    replay = DeltaBuffer(FIRST, limit)
    for piece in pieces:
        replay.put(piece)  # type: ignore[arg-type]
    return replay


@given(
    st.lists(st.tuples(events, st.sampled_from([1, 1, 2, 7, MAX_LOOSE + 1])), max_size=20),
    st.sampled_from([200, 10**9]),
    st.floats(0, 1),
)
def test_whoever_continues_elsewhere_is_shown_the_same(
    put: list[tuple[object, int]], limit: int, part: float
) -> None:
    here = DeltaBuffer(FIRST, limit)
    half = len(put) // 2
    for event, times in put[:half]:
        for _ in range(times):
            here.put(event)  # type: ignore[arg-type]
    there = DeltaBuffer(FIRST, 10**9, mirrored=True)
    for run in here.runs(0):
        there.add(run)
    for event, times in put[half:]:
        for _ in range(times):
            here.put(event)  # type: ignore[arg-type]
    for run in here.runs(there.seq):
        there.add(run)
    assert there.seq == here.seq
    if limit == 10**9:  # otherwise the one has left out by now what the other was told
        seq = round(part * here.seq)
        shown = [in_few(d.fragment for d in each.after(seq)) for each in (here, there)]
        assert shown[0] == shown[1]


def test_runs_from_any_number_say_the_rest() -> None:
    here = replayed(TextDelta(f"{number} ") for number in range(2 * MAX_LOOSE + 10))
    for seq in (
        0,
        1,
        MAX_LOOSE - 1,
        MAX_LOOSE,
        MAX_LOOSE + 1,
        2 * MAX_LOOSE,
        2 * MAX_LOOSE + 9,
        2 * MAX_LOOSE + 10,
    ):
        runs = here.runs(seq)
        said = "".join(run.fragment.text for run in runs if isinstance(run.fragment, TextDelta))
        assert said == "".join(f"{number} " for number in range(seq, 2 * MAX_LOOSE + 10))
        assert [run.first for run in runs] == [seq + 1, *(run.last + 1 for run in runs[:-1])][
            : len(runs)
        ]


@pytest.mark.parametrize(
    "run",
    [
        RelayDelta(1, 1, TextDelta("again")),
        RelayDelta(3, 3, TextDelta("too far")),
        RelayDelta(2, 1, TextDelta("none")),
        RelayDelta(2, 3, TextDelta("ab"), (1,)),
    ],
)
def test_what_does_not_follow_is_refused(run: RelayDelta) -> None:
    replay = replayed([TextDelta("a")])
    with pytest.raises(ValueError, match="do not follow 1"):
        replay.add(run)


# --- taps and mirrors ---------------------------------------------------------------------------


def tell(tap: Tap, live: Live, mirror: Mirror | None) -> Mirror | None:
    """What a relay does."""
    for taken in tap.take():
        match taken:
            case DeltaBatch(attempt, runs):
                if mirror is None or mirror.cursor.attempt != attempt:
                    mirror = live.mirror(CHAT, attempt)
                assert mirror is not None
                mirror.add(runs)
            case AttemptReset():
                assert mirror is not None
                mirror.close()
    return mirror


async def test_a_mirror_is_read_like_what_runs_here() -> None:
    here, there = Live(), Live()
    tap = here.tap(CHAT)
    async with there.read(CHAT) as reader:
        writer = here.open(CHAT, FIRST)
        say(writer, "one ", "two ")
        mirror = tell(tap, there, None)
        assert text_of(reader.take()) == "one two "
        say(writer, "three")
        writer.close()
        tell(tap, there, mirror)
        *rest, reset = reader.take()
        assert text_of(rest) == "three"
        assert reset == AttemptReset(FIRST)
    tap.close()
    here.forget(CHAT)
    assert (len(here), len(there)) == (0, 0)


async def test_a_tap_that_sleeps_costs_its_place_and_then_gets_the_rest_at_once() -> None:
    live = Live()
    tap, writer = live.tap(CHAT), live.open(CHAT, FIRST)
    say(writer, *"abc")
    (batch,) = tap.take()
    assert isinstance(batch, DeltaBatch)
    say(writer, *("x" for _ in range(1000)))
    writer.close()
    say(live.open(CHAT, SECOND), "new")
    rest, over, new = tap.take()
    assert isinstance(rest, DeltaBatch)
    assert isinstance(new, DeltaBatch)
    assert sum(run.last - run.first + 1 for run in rest.runs) == 1000
    assert over == AttemptReset(FIRST)
    assert new.attempt == SECOND
    assert tap.take() == []


async def test_a_tap_gets_the_rest_of_an_attempt_whose_calls_go_on_in_the_next() -> None:
    live = Live()
    writer = live.open(CHAT, FIRST)
    tap = live.tap(CHAT)
    say(writer, "old")
    say(live.open(CHAT, SECOND, after=writer), "new")
    assert tap.take() == [
        DeltaBatch(FIRST, (RelayDelta(1, 1, TextDelta("old")),)),
        AttemptReset(FIRST),
        DeltaBatch(SECOND, (RelayDelta(1, 1, TextDelta("new")),)),
    ]


async def test_a_tap_goes_on_behind_a_cursor_or_says_that_it_cannot() -> None:
    live = Live()
    say(live.open(CHAT, FIRST), *"abcde")
    (batch,) = live.tap(CHAT, LiveCursor(FIRST, 3)).take()
    assert batch == DeltaBatch(FIRST, (RelayDelta(4, 5, TextDelta("de"), (1, 2)),))
    over, batch = live.tap(CHAT, LiveCursor(SECOND, 3)).take()
    assert over == AttemptReset(SECOND)
    assert isinstance(batch, DeltaBatch)
    assert batch.runs[0].first == 1


async def test_what_was_told_is_not_told_on() -> None:
    live = Live()
    async with live.read(CHAT):
        mirror = live.mirror(CHAT, FIRST)
        assert mirror is not None
        mirror.add([RelayDelta(1, 1, TextDelta("a"))])
        assert live.tap(CHAT).take() == []
        assert live.partial(CHAT) is None
        assert not live.runs(CHAT)


async def test_nothing_is_mirrored_that_nobody_reads_or_that_is_old() -> None:
    live = Live()
    assert live.mirror(CHAT, FIRST) is None
    async with live.read(CHAT):
        live.open(CHAT, SECOND)
        assert live.mirror(CHAT, FIRST) is None
        assert live.mirror(CHAT, SECOND) is None, "it runs here"
        assert live.mirror(CHAT, THIRD) is not None


async def test_a_mirror_ends_when_the_chat_is_driven_here() -> None:
    live = Live()
    async with live.read(CHAT) as reader:
        mirror = live.mirror(CHAT, FIRST)
        assert mirror is not None
        mirror.add([RelayDelta(1, 1, TextDelta("a"))])
        reader.take()
        say(live.open(CHAT, THIRD), "new")
        assert mirror.closed
        mirror.add([RelayDelta(2, 2, TextDelta("late"))])
        reset, delta = reader.take()
        assert reset == AttemptReset(FIRST)
        assert text_of([delta]) == "new"


async def test_letting_go_of_a_chat_leaves_the_next_owners_attempt_alone() -> None:
    live = Live()
    async with live.read(CHAT):
        live.open(CHAT, FIRST)
        mirror = live.mirror(CHAT, THIRD)
        assert mirror is not None
        live.forget(CHAT)
        assert not mirror.closed


async def test_a_mirror_outlives_a_moment_without_readers() -> None:
    live = Live()
    first = live.watch(CHAT)
    mirror = live.mirror(CHAT, FIRST)
    assert mirror is not None
    mirror.add([RelayDelta(1, 1, TextDelta("a"))])
    first.close()
    async with live.read(CHAT) as again:
        assert text_of(again.take()) == "a"
    mirror.close()
    assert len(live) == 0


async def test_a_cursor_from_elsewhere_waits_until_it_is_known_what_runs() -> None:
    live = Live()
    live.on_watch = lambda chat: None
    async with (
        live.read(CHAT, LiveCursor(FIRST, 2)) as reader,
        live.read(CHAT, LiveCursor(FIRST, 9)) as far,
    ):
        assert reader.take() == []
        mirror = live.mirror(CHAT, FIRST)
        assert mirror is not None
        mirror.add([RelayDelta(1, 3, TextDelta("abc"), (1, 2, 3))])
        assert text_of(reader.take()) == "c"
        reset, delta = far.take()
        assert reset == AttemptReset(FIRST)
        assert text_of([delta]) == "abc"


async def test_it_is_said_when_somebody_begins_to_read_and_when_nobody_does_any_more() -> None:
    live, told = Live(), list[str]()
    live.on_watch = told.append
    first, second = live.watch("a"), live.watch("a")
    live.tap("b")
    assert (told, live.watched()) == (["a"], ["a"])
    first.close()
    assert told == ["a"]
    second.close()
    assert told == ["a", "a"]
    assert not live.is_watched("a")


def test_output_that_takes_too_much_room_is_left_out_on_both_sides() -> None:
    here, there = replayed([], 4_000), DeltaBuffer(AttemptId(1, 1, 1), 4_000, mirrored=True)
    for number in range(100):
        here.put(progress(f"{number}" * 50))
        for run in here.runs(there.seq):
            there.add(run)
    assert here.after(0) == there.after(0)
    late = DeltaBuffer(FIRST, 4_000, mirrored=True)
    for run in here.runs(0):
        late.add(run)
    assert late.seq == here.seq
