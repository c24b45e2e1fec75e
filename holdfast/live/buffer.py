"""Buffer of one attempt's deltas, readable from any position.

Its size depends on the text, not on the number of deltas: deltas that continue each other are
merged into one, plus four bytes per delta for the position where it ended. Tool output has a limit
of its own. Nothing here waits or knows its readers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby, repeat
from typing import Final

from msgspec.structs import replace

from holdfast.kernel.events import ToolFinished, ToolProgressed
from holdfast.kernel.messages import Part, Tagged, Value, encode
from holdfast.kernel.model import TextDelta
from holdfast.live.delta_fragments import (
    EventOrFragment,
    Fragment,
    Omitted,
    fragment_of,
    joined,
    kin,
    of_calls,
    parts_of,
    pieces,
    shortened,
    texts,
    without_start,
)

OUTPUT_LIMIT: Final = 1024 * 1024
"""Maximum bytes (as JSON) of tool progress and results kept for one attempt."""
MAX_UNREAD: Final = 32
"""Number of events that are collected before they are numbered."""
MAX_LOOSE: Final = 256
"""Number of deltas that are collected before they are merged."""
MAX_OMITTED_RESULT: Final = 256
"""Characters kept at either end of a result that does not fit."""
_OUTPUT: Final = frozenset((ToolProgressed, ToolFinished))


class AttemptId(Value, frozen=True, order=True):
    """Identity of one attempt at a step. A later attempt compares greater, also a later owner's."""

    epoch: int
    history_version: int
    attempt: int


class DeltaRange(Tagged, frozen=True, tag="delta"):
    """Content of the deltas `first` to `last` of an attempt, both included, from 1."""

    attempt: AttemptId
    first: int
    last: int
    fragment: Fragment


class RelayDelta(Value, frozen=True, array_like=True):
    """A delta for another process, with what it needs to continue from any number."""

    first: int
    last: int
    fragment: Fragment
    ends: tuple[int, ...] = ()
    """End of each number's text; empty for a single number, or without text."""


class DeltaBuffer:
    """The deltas of one attempt, in order and without a gap."""

    __slots__ = (
        "_cached",
        "_ends",
        "_folded",
        "_head",
        "_limit",
        "_loose",
        "_seq",
        "_tail",
        "_tail_size",
        "_unread",
        "attempt",
        "mirrored",
    )

    def __init__(
        self, attempt: AttemptId, limit: int = OUTPUT_LIMIT, *, mirrored: bool = False
    ) -> None:
        self.attempt = attempt
        self.mirrored = mirrored
        """Whether the attempt runs in another process and is copied here."""
        self._seq = 0
        self._unread: list[EventOrFragment] = []
        """Events not numbered yet: most attempts end before a reader asks."""
        self._folded: list[DeltaRange] = []
        self._ends: dict[int, array[int]] = {}
        """End of each delta's text, by the first number of the merged delta."""
        self._loose: list[Fragment] = []
        """The newest fragments, one for each number."""
        self._cached: tuple[int, int, list[DeltaRange]] = (0, 0, [])
        self._limit = limit
        self._head = 0
        """Size of the tool output that is kept permanently."""
        self._tail: deque[tuple[int, int]] = deque()
        """Number and size of each later tool output that is still kept."""
        self._tail_size = 0

    @property
    def seq(self) -> int:
        """Sequence number of the last delta."""
        if self._unread:
            self._number()
        return self._seq

    def put(self, event: EventOrFragment) -> None:
        unread = self._unread
        unread.append(event)
        if len(unread) >= MAX_UNREAD or type(event) is ToolProgressed:  # that can be large
            self._number()

    def of_calls(self) -> list[Fragment]:
        """Fragments reported by the calls that run here."""
        events: Iterable[EventOrFragment] = self._unread
        if self._seq:
            events = (delta.fragment for delta in self.after(0))
        return of_calls(events)

    def becomes(self, attempt: AttemptId) -> bool:
        """Become another attempt, keeping fragments of calls. Refused once a delta has a number: a
        reader may have seen it."""
        if self._seq:
            return False
        self.attempt = attempt
        self._unread = list(of_calls(self._unread))
        return True

    def after(self, seq: int) -> list[DeltaRange]:
        """All deltas after this number, merged to as few as possible. Do not change the list.

        Readers at the same position get the same values, so that each is encoded once.
        """
        start, end, deltas = self._cached
        if start != seq or end != self.seq:
            deltas = self._after(seq)
            self._cached = (seq, self._seq, deltas)
        return deltas

    def runs(self, seq: int) -> list[RelayDelta]:
        """All deltas after this number, for a buffer in another process to `add`."""
        folded, runs = self.seq - len(self._loose), []
        if self._seq == seq + 1 > folded:  # the usual case
            return [RelayDelta(self._seq, self._seq, self._loose[-1])]
        if seq < folded:
            for delta in self._folded[self._index(seq + 1) :]:
                runs.append(self._run(delta, max(seq, delta.first - 1)))
        start = max(seq, folded)
        loose = self._loose[start - folded :]
        for delta in self._runs(loose, start + 1):
            group = loose[delta.first - start - 1 : delta.last - start]
            runs.append(RelayDelta(delta.first, delta.last, delta.fragment, _ends_of(group)))
        return runs

    def add(self, run: RelayDelta) -> None:
        """Append the next deltas of a buffer in another process."""
        count = run.last - run.first + 1
        if run.first != self.seq + 1 or count < 1 or (run.ends and len(run.ends) != count):
            raise ValueError(f"{run.first} to {run.last} do not follow {self.seq}")
        if count == 1:
            self._add(run.fragment)
            return
        fragments = pieces(run.fragment, run.ends) if run.ends else repeat(run.fragment, count)
        for fragment in fragments:
            self._add(fragment)

    def _run(self, delta: DeltaRange, seq: int) -> RelayDelta:
        """The part of a merged delta after this number, for another process."""
        ends: tuple[int, ...] = ()
        if delta.last > delta.first and not isinstance(delta.fragment, Omitted):
            every, skipped = self._ends[delta.first], seq + 1 - delta.first
            start = every[skipped - 1] if skipped else 0
            ends = tuple(end - start for end in every[skipped:])
        if seq >= delta.first:
            delta = self._cut(delta, seq)
        return RelayDelta(delta.first, delta.last, delta.fragment, ends if len(ends) > 1 else ())

    def parts(self) -> tuple[Part, ...]:
        """The answer so far."""
        return parts_of(delta.fragment for delta in self._after(0))

    def _number(self) -> None:
        unread, self._unread = self._unread, []
        for event in unread:
            fragment = fragment_of(event)
            if fragment is not None:
                self._add(fragment)

    def _add(self, fragment: Fragment) -> None:
        self._seq += 1
        self._loose.append(fragment)
        if type(fragment) in _OUTPUT:
            self._add_output()
        elif len(self._loose) >= MAX_LOOSE:
            self._fold()

    def _after(self, seq: int) -> list[DeltaRange]:
        folded = self.seq - len(self._loose)
        if seq >= folded:  # the usual case: the reader keeps up
            return self._runs(self._loose[seq - folded :], seq + 1)
        index = self._index(seq + 1)
        rest = self._folded[index:]
        if rest[0].first <= seq:
            rest[0] = self._cut(rest[0], seq)
        return merged(rest + self._runs(self._loose, folded + 1))

    def _runs(self, fragments: Sequence[Fragment], first: int) -> list[DeltaRange]:
        """Fragments as deltas numbered from `first`, merging those that continue each other."""
        if len(fragments) == 1:
            return [DeltaRange(self.attempt, first, first, fragments[0])]
        if fragments and all(type(fragment) is TextDelta for fragment in fragments):  # the usual
            whole = TextDelta("".join([fragment.text for fragment in fragments]))  # type: ignore[union-attr]
            return [DeltaRange(self.attempt, first, first + len(fragments) - 1, whole)]
        deltas = []
        for _, group in groupby(fragments, kin):
            run = list(group)
            fragment = run[0] if len(run) == 1 else joined(run)
            deltas.append(DeltaRange(self.attempt, first, first + len(run) - 1, fragment))
            first += len(run)
        return deltas

    # --- what is folded ---

    def _fold(self) -> None:
        first = self._seq - len(self._loose) + 1
        for delta in self._runs(self._loose, first):
            if delta.last > delta.first and not isinstance(delta.fragment, Omitted):
                fragments = self._loose[delta.first - first : delta.last - first + 1]
                self._ends[delta.first] = array("I", accumulate(map(len, texts(fragments))))
            self._folded.append(delta)
        self._loose.clear()

    def _index(self, seq: int) -> int:
        """Index of the merged delta with this number."""
        return bisect_left(self._folded, seq, key=_last)

    def _cut(self, delta: DeltaRange, seq: int) -> DeltaRange:
        """The part of a merged delta after this number."""
        fragment = delta.fragment
        if not isinstance(fragment, Omitted):  # which is the same wherever it is cut
            fragment = without_start(fragment, self._ends[delta.first][seq - delta.first])
        return DeltaRange(delta.attempt, seq + 1, delta.last, fragment)

    # --- the limit of output ---

    def _add_output(self) -> None:
        """Keep the first and the last half of what fits, with a marker where output is omitted."""
        output = self._loose[-1]
        size = len(encode(output))
        if size > self._limit // 4:
            output = self._loose[-1] = shortened(output, self._limit // 32)
            size = len(encode(output))
        self._fold()
        if not self._tail and self._head + size <= self._limit // 2:
            self._head += size
            return
        self._tail.append((self._seq, size))
        self._tail_size += size
        while self._tail_size > self._limit // 2:
            seq, size = self._tail.popleft()
            self._tail_size -= size
            self._leave_out(self._index(seq))

    def _leave_out(self, index: int) -> None:
        """Omit progress, or shorten a result: that the call has ended must remain visible."""
        delta = self._folded[index]
        output = delta.fragment
        if not isinstance(output, ToolProgressed):
            self._folded[index] = replace(delta, fragment=shortened(output, MAX_OMITTED_RESULT))
            return
        omitted = [replace(delta, fragment=Omitted((output.call_id,)))]
        if index and type(self._folded[index - 1].fragment) is Omitted:
            index -= 1
            omitted = merged([self._folded[index], *omitted])
            del self._folded[index + 1]
        self._folded[index] = omitted[0]


def merged(deltas: Iterable[DeltaRange]) -> list[DeltaRange]:
    """Deltas with neighbours merged that continue each other."""
    whole = []
    for _, group in groupby(deltas, lambda delta: kin(delta.fragment)):
        first, *more = group
        if more:
            fragment = joined([first.fragment, *(delta.fragment for delta in more)])
            first = DeltaRange(first.attempt, first.first, more[-1].last, fragment)
        whole.append(first)
    return whole


def _ends_of(fragments: Sequence[Fragment]) -> tuple[int, ...]:
    """End of each fragment's text, for fragments that continue each other."""
    if len(fragments) == 1 or isinstance(fragments[0], Omitted):
        return ()
    return tuple(accumulate(map(len, texts(fragments))))


def _last(delta: DeltaRange) -> int:
    return delta.last
