"""Assembles the tool calls of a streamed chat completion, in every server's variant. Pure.

OpenAI gives each call an index, says its id and name once and then only pieces of its arguments.
Servers that are compatible with it leave out the index or always say 0, repeat id and name in every
piece, give a whole call at once, or no id at all. What belongs together is found here. Which server
is asked is not known here, so every rule holds for all of them; beside each stands who needs it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.kernel.model import ArgumentsDelta, CallEnded, CallStarted, Delta


class FunctionPiece(Struct, gc=False):
    name: Any = None
    arguments: Any = None
    """Text; from some an object."""


class CallPiece(Struct, gc=False):
    """What one event says about one call."""

    index: Any = None
    id: Any = None
    function: FunctionPiece | None = None
    extra_content: Any = None
    """Wanted back with the call: Gemini's signatures, behind an endpoint of this protocol."""


_NOTHING: Final = FunctionPiece()


class _Call:
    """A call that is being written."""

    __slots__ = ("ended", "extra", "id", "index", "name", "pieces", "server_id", "started")

    def __init__(self, index: Any, server_id: str, id: str) -> None:
        self.index = index
        self.server_id = server_id
        """The id that the server uses for it; empty when it has none."""
        self.id = id
        self.name = ""
        self.pieces: list[str] = []
        self.extra: Any = None
        self.started = False
        self.ended = False

    @property
    def complete(self) -> bool:
        """Whether its arguments are a JSON object: nothing can follow that."""
        try:
            return isinstance(msgspec.json.decode("".join(self.pieces)), dict)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return False


class CallAssembler:
    """The calls of one answer so far."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._calls: list[_Call] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, pieces: list[CallPiece], deltas: list[Delta]) -> None:
        """Take in what one event says about calls."""
        touched: list[_Call] = []
        for piece in pieces:
            function = piece.function or _NOTHING
            id = str(piece.id) if piece.id is not None else ""
            name = function.name if isinstance(function.name, str) else ""
            text = _text(function.arguments)
            call = self._find(piece.index, id, name)
            if call is None or (name and _is_another(call, name, text, touched)):
                call = self._begin(piece.index, id, deltas)
            touched.append(call)
            call.name = call.name or name
            call.extra = piece.extra_content or call.extra
            _append_arguments(call, text, deltas)

    def end(self, deltas: list[Delta], *, cut: bool) -> None:
        """No more will come. Of an answer that was `cut`, half a call is no call."""
        for call in self._calls:
            # Announced by an id alone, and nothing followed: no call.
            if call.ended or not (call.name or call.pieces) or (cut and not call.complete):
                continue
            _start(call, deltas)  # one without a name, too: the model is told that it needs one
            self._end(call, deltas)

    def _find(self, index: Any, id: str, name: str) -> _Call | None:
        """The call that is meant, if it has begun."""
        # By its id, for servers that repeat it in every piece. The index has to fit as well: some
        # give two calls of one answer the same id.
        for call in reversed(self._calls):
            if id and call.server_id == id and (index is None or index == call.index):
                return call
        # A new id with a name is a new call, for servers whose index is always 0.
        if id and name:
            return None
        # The last one, for servers without an index.
        if index is None:
            return self._calls[-1] if self._calls else None
        # By its index: OpenAI itself; and servers that make up a new id for every piece.
        return next((call for call in reversed(self._calls) if call.index == index), None)

    def _begin(self, index: Any, server_id: str, deltas: list[Delta]) -> _Call:
        """A new call. Those before it that are complete can be told so, and started early."""
        for call in self._calls:
            if call.started and not call.ended and call.complete:
                self._end(call, deltas)
        # For servers that give no ids, or one id to several calls: the result has to name the call.
        taken = {call.id for call in self._calls}
        id = server_id if server_id not in taken else ""
        number = len(self._calls)
        while not id or id in taken:
            id = f"call_{number}"
            number += 1
        call = _Call(index, server_id, id)
        self._calls.append(call)
        return call

    def _end(self, call: _Call, deltas: list[Delta]) -> None:
        call.ended = True
        extra = {self._provider: {"extra_content": call.extra}} if call.extra else None
        deltas.append(CallEnded(call.id, extra))


def _is_another(call: _Call, name: str, text: str, touched: list[_Call]) -> bool:
    """Whether a piece with a name begins another call than the one it seems to belong to.

    For servers without ids, and with no index or one that is always 0.
    """
    if call.name and name != call.name:
        return True
    if call in touched:  # those that give all calls in one event: nobody speaks of one twice in it
        return bool(call.name)
    # Those that give each call whole. One that repeats the name beside each piece is not mistaken
    # for them: its call is not complete yet.
    return text.lstrip()[:1] == "{" and call.complete


def _append_arguments(call: _Call, text: str, deltas: list[Delta]) -> None:
    if text and not call.ended:
        call.pieces.append(text)
    if call.name and not call.started:  # some say the name later than the id, or than arguments
        _start(call, deltas)
    elif text and call.started and not call.ended:
        deltas.append(ArgumentsDelta(call.id, text))


def _start(call: _Call, deltas: list[Delta]) -> None:
    """Say that a call has begun, and what is known of its arguments."""
    if not call.started:
        call.started = True
        deltas.append(CallStarted(call.id, call.name))
        deltas += [ArgumentsDelta(call.id, piece) for piece in call.pieces]


def _text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else msgspec.json.encode(arguments).decode()
