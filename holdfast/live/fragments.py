"""What is shown of a running attempt, piece by piece. Pure.

A fragment is the event itself, so that whoever can show a run of this process can show one that
runs elsewhere with the same code. `Omitted` is the one thing that only a stream says.
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
    MessageCommitted,
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
    """Stands for output of running calls that took more room than an attempt has for it."""

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


Shown: TypeAlias = Union[Event, Fragment]


def fragment_of(event: Shown) -> Fragment | None:
    """What is shown live of an event. None when it says nothing, or is told by the database."""
    kind = type(event)
    if kind is TextDelta or kind is ReasoningDelta or kind is ArgumentsDelta:
        return event if event.text else None  # type: ignore[union-attr, return-value]
    return _rare(event)


def _rare(event: Shown) -> Fragment | None:
    """Of what does not come with every token: there a match takes too long."""
    match event:
        case TextDelta() | ReasoningDelta() | ArgumentsDelta():
            return event  # not reached: here so that the list is complete
        case CallStarted() | ToolCalled() | ToolStarted() | ToolProgressed() | ToolFinished():
            return event
        case Compacting() | Warned() | Omitted():
            return event
        case RunStarted() | StepStarted() | Retrying() | RunEnded():
            return None
        case MessageCommitted() | Delivered() | Compacted():
            return None
        case _:
            assert_never(event)


def of_calls(events: Iterable[Shown]) -> list[Fragment]:
    """What calls that run here say of themselves, and no answer of a model has in it."""
    said = [event for event in events if type(event) in _OF_CALLS and not _ran_elsewhere(event)]
    return cast("list[Fragment]", said)


def _ran_elsewhere(event: Shown) -> bool:
    return type(event) is ToolFinished and event.result.provider_executed


_OF_CALLS: Final = frozenset((ToolStarted, ToolProgressed, ToolFinished, Omitted))


# --- joining ------------------------------------------------------------------------------------


def kin(fragment: Fragment) -> object:
    """Equal for neighbours that can be one fragment, and for no others.

    Asked of every delta, so classes are compared: `isinstance` of a frozen value takes longer.
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
    """Neighbours that are kin, as one."""
    first = fragments[0]
    if isinstance(first, Omitted):
        ids = [id for part in fragments if isinstance(part, Omitted) for id in part.call_ids]
        return Omitted(tuple(dict.fromkeys(ids)))
    return _with_text(first, "".join(texts(fragments)))


def texts(pieces: Sequence[Fragment]) -> list[str]:
    """What each of some pieces says that are kin."""
    if type(pieces[0]) is Compacting:
        return [piece.delta for piece in pieces]  # type: ignore[union-attr]
    return [piece.text for piece in pieces]  # type: ignore[union-attr]


def without_start(piece: Fragment, length: int) -> Fragment:
    """The rest of a piece, from a place in its text on."""
    (text,) = texts([piece])
    return _with_text(piece, text[length:])


def pieces(whole: Fragment, ends: Sequence[int]) -> Iterator[Fragment]:
    """The pieces that were joined, from where in its text each of them ended."""
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
    """Output of a call with `room` characters at either end. It says what is missing."""
    if isinstance(output, ToolFinished):
        return replace(output, result=_short_result(output.result, room))
    assert isinstance(output, ToolProgressed)
    return replace(output, text=_ends(output.text, room))


def _short_result(result: ToolResult, room: int) -> ToolResult:
    text = _ends(result.text, room)
    for part in result.content:
        if isinstance(part, File):
            text += f"\n[{part.media_type} left out here: it comes with the message]"
            break
    return replace(result, content=(Text(text),), metadata=None)


def _ends(text: str, room: int) -> str:
    gone = len(text) - 2 * room
    if gone <= 0:
        return text
    return f"{text[:room]}\n[… {gone} characters left out here …]\n{text[-room:]}"


# --- what an answer would be --------------------------------------------------------------------


def parts_of(fragments: Iterable[Fragment]) -> tuple[Part, ...]:
    """The answer that an attempt has shown so far. A call that is still being written goes.

    Only what was shown: a signature, for example, is not among it.
    """
    parts: list[Part | None] = []
    places: dict[str, int] = {}
    for fragment in fragments:
        match fragment:
            case TextDelta(text):
                parts.append(Text(text))
            case ReasoningDelta(text):
                parts.append(Reasoning(text))
            case CallStarted(call_id):
                places[call_id] = len(parts)
                parts.append(None)
            case ToolCalled(call) if call.id in places:
                parts[places.pop(call.id)] = call
            case ToolCalled(call):
                parts.append(call)
            case ToolFinished(result) if result.provider_executed:
                parts.append(result)
            case _:
                pass  # happens beside the answer
    return tuple(chain.from_iterable(_run(group) for _, group in groupby(parts, type)))


def _run(group: Iterable[Part | None]) -> list[Part]:
    """Parts of one kind that follow each other; text and reasoning in one."""
    run = [part for part in group if part is not None]
    if run and isinstance(run[0], (Text, Reasoning)):
        text = "".join(part.text for part in run if isinstance(part, (Text, Reasoning)))
        return [replace(run[0], text=text)]
    return run
