"""Fragments: the content of deltas, and how they are merged, cut and shortened. Pure.

A fragment is the event itself, so that code which shows a run of this process can show one that
runs elsewhere with the same code. Only `Omitted` is not an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Final, TypeAlias, Union, assert_never, cast

from msgspec.structs import replace

from holdfast.kernel.events import (
    Compacted,
    Compacting,
    Delivered,
    Event,
    HandedOver,
    MessageCommitted,
    OutputDelta,
    Retrying,
    RunEnded,
    RunStarted,
    StepStarted,
    ToolCalled,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    Warned,
)
from holdfast.kernel.messages import File, Part, Reasoning, Tagged, Text, ToolResult
from holdfast.kernel.model import ArgumentsDelta, CallStarted, ReasoningDelta, TextDelta


class Omitted(Tagged, frozen=True, tag="omitted"):
    """Marker for tool output that was omitted because it exceeded the attempt's limit."""

    call_ids: tuple[str, ...]


Fragment: TypeAlias = Union[
    TextDelta,
    ReasoningDelta,
    CallStarted,
    ArgumentsDelta,
    ToolCalled,
    ToolStarted,
    ToolProgressed,
    ToolFinished,
    Compacting,
    Warned,
    Omitted,
]
"""Content of a delta."""

EventOrFragment: TypeAlias = Union[Event, Fragment]
"""An event of a run, or a fragment that is kept from an earlier attempt."""


def fragment_of(event: EventOrFragment) -> Fragment | None:
    """The fragment of an event; None if it is empty or reaches readers through the database."""
    kind = type(event)
    if kind is TextDelta or kind is ReasoningDelta or kind is ArgumentsDelta:
        return event if event.text else None  # type: ignore[union-attr, return-value]
    return _rare(event)


def _rare(event: EventOrFragment) -> Fragment | None:
    """Fragments of rare events; for frequent ones a match is too slow."""
    match event:
        case TextDelta() | ReasoningDelta() | ArgumentsDelta():
            return event  # not reached: here so that the list is complete
        case CallStarted() | ToolCalled() | ToolStarted() | ToolProgressed() | ToolFinished():
            return event
        case Compacting() | Warned() | Omitted():
            return event
        case RunStarted() | StepStarted() | Retrying() | RunEnded():
            return None
        case MessageCommitted() | Delivered() | Compacted() | HandedOver() | OutputDelta():
            return None
        case _:
            assert_never(event)


def of_calls(events: Iterable[EventOrFragment]) -> list[Fragment]:
    """Fragments reported by calls that run here, which are not part of a model's answer."""
    output = [event for event in events if type(event) in _OF_CALLS and not _ran_elsewhere(event)]
    return cast("list[Fragment]", output)


def _ran_elsewhere(event: EventOrFragment) -> bool:
    return type(event) is ToolFinished and event.result.provider_executed


_OF_CALLS: Final = frozenset((ToolStarted, ToolProgressed, ToolFinished, Omitted))


# --- joining ------------------------------------------------------------------------------------


def kin(fragment: Fragment) -> object:
    """Key that is equal for neighbours that can be merged, and for no others.

    Called for every delta, so classes are compared: `isinstance` is slower.
    """
    kind = type(fragment)
    if kind is TextDelta or kind is ReasoningDelta or kind is Omitted:
        return kind
    if kind is ArgumentsDelta:
        return fragment.call_id  # type: ignore[union-attr]
    if kind is Compacting and fragment.delta:  # type: ignore[union-attr]
        return (fragment.asked_by,)  # type: ignore[union-attr]
    return object()  # also for an empty piece of a summary: it begins anew


def joined(fragments: Sequence[Fragment]) -> Fragment:
    """Merge fragments of equal `kin`."""
    first = fragments[0]
    if isinstance(first, Omitted):
        ids = [id for part in fragments if isinstance(part, Omitted) for id in part.call_ids]
        return Omitted(tuple(dict.fromkeys(ids)))
    return _with_text(first, "".join(texts(fragments)))


def texts(pieces: Sequence[Fragment]) -> list[str]:
    """The texts of fragments of equal `kin`."""
    if type(pieces[0]) is Compacting:
        return [piece.delta for piece in pieces]  # type: ignore[union-attr]
    return [piece.text for piece in pieces]  # type: ignore[union-attr]


def without_start(piece: Fragment, length: int) -> Fragment:
    """A fragment without the first `length` characters of its text."""
    (text,) = texts([piece])
    return _with_text(piece, text[length:])


def pieces(whole: Fragment, ends: Sequence[int]) -> Iterator[Fragment]:
    """Split a merged fragment again, given the end of each piece's text."""
    (text,), start = texts([whole]), 0
    for end in ends:
        yield _with_text(whole, text[start:end])
        start = end


def _with_text(piece: Fragment, text: str) -> Fragment:
    if isinstance(piece, Compacting):
        return replace(piece, delta=text)
    return replace(piece, text=text)


# --- shortening ---------------------------------------------------------------------------------


def shortened(output: Fragment, room: int) -> Fragment:
    """Tool output cut to `room` characters at either end, with a note of what is missing."""
    if isinstance(output, ToolFinished):
        return replace(output, result=_short_result(output.result, room))
    assert isinstance(output, ToolProgressed)
    return replace(output, text=_ends(output.text, room), data=None)


def _short_result(result: ToolResult, room: int) -> ToolResult:
    text = _ends(result.text, room)
    for part in result.content:
        if isinstance(part, File):
            text += f"\n[{part.media_type} left out here: it comes with the message]"
            break
    return replace(result, content=(Text(text),), metadata=None)


def _ends(text: str, room: int) -> str:
    omitted = len(text) - 2 * room
    if omitted <= 0:
        return text
    return f"{text[:room]}\n[… {omitted} characters left out here …]\n{text[-room:]}"


# --- what an answer would be --------------------------------------------------------------------


def parts_of(fragments: Iterable[Fragment]) -> tuple[Part, ...]:
    """The answer that an attempt has shown so far, without calls that are still being written.

    Only what was shown: signatures, for example, are not included.
    """
    parts: list[Part | None] = []
    positions: dict[str, int] = {}
    for fragment in fragments:
        match fragment:
            case TextDelta(text):
                parts.append(Text(text))
            case ReasoningDelta(text):
                parts.append(Reasoning(text))
            case CallStarted(call_id):
                positions[call_id] = len(parts)
                parts.append(None)
            case ToolCalled(call) if call.id in positions:
                parts[positions.pop(call.id)] = call
            case ToolCalled(call):
                parts.append(call)
            case ToolFinished(result) if result.provider_executed:
                parts.append(result)
            case _:
                pass  # not part of the answer
    return tuple(chain.from_iterable(_run(group) for _, group in groupby(parts, type)))


def _run(group: Iterable[Part | None]) -> list[Part]:
    """Neighbouring parts of one kind, with text and reasoning merged."""
    run = [part for part in group if part is not None]
    if run and isinstance(run[0], (Text, Reasoning)):
        text = "".join(part.text for part in run if isinstance(part, (Text, Reasoning)))
        return [replace(run[0], text=text)]
    return run
