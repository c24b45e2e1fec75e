"""Assembles the tool calls of a streamed chat completion, in every server's variant. Pure.

OpenAI gives each call an index, sends its id and name once, and then only pieces of its arguments.
Compatible servers leave out the index or always send 0, repeat id and name in every piece, send a
whole call at once, or send no id. `CallAssembler` matches the pieces. The server is unknown here,
so every rule holds for all of them; a comment beside each names the servers that need it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.kernel.model import ArgumentsDelta, CallEnded, CallStarted, Delta


class FunctionPiece(Struct, gc=False):
    """Name and arguments in a piece of a call."""

    name: Any = None
    arguments: Any = None
    """A piece of the arguments as text; from some servers an object."""


class CallPiece(Struct, gc=False):
    """A piece of one call in one event."""

    index: Any = None
    id: Any = None
    function: FunctionPiece | None = None
    extra_content: Any = None
    """Data that must be sent back with the call: Gemini's signatures, at a compatible
    endpoint."""


_NOTHING: Final = FunctionPiece()


class _Call:
    """A call whose pieces are arriving."""

    __slots__ = ("ended", "extra", "id", "index", "name", "pieces", "server_id", "started")

    def __init__(self, index: Any, server_id: str, id: str) -> None:
        self.index = index
        self.server_id = server_id
        """Id of the call at the server; empty if it has none."""
        self.id = id
        self.name = ""
        self.pieces: list[str] = []
        self.extra: Any = None
        self.started = False
        self.ended = False

    @property
    def complete(self) -> bool:
        """Whether the arguments are a JSON object, after which nothing can follow."""
        try:
            return isinstance(msgspec.json.decode("".join(self.pieces)), dict)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return False


class CallAssembler:
    """Assembles the calls of one answer."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._calls: list[_Call] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, pieces: list[CallPiece], deltas: list[Delta]) -> None:
        """Add the pieces of one event."""
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
        """End the calls. In an answer that was `cut`, incomplete calls are dropped."""
        for call in self._calls:
            # Only an id arrived: not a call.
            if call.ended or not (call.name or call.pieces) or (cut and not call.complete):
                continue
            _start(call, deltas)  # also without a name: the model is told that a call needs one
            self._end(call, deltas)

    def _find(self, index: Any, id: str, name: str) -> _Call | None:
        """The call that a piece belongs to, if it has begun."""
        # By its id, for servers that repeat it in every piece. The index must match as well: some
        # servers use one id for two calls of an answer.
        for call in reversed(self._calls):
            if id and call.server_id == id and (index is None or index == call.index):
                return call
        # A new id with a name is a new call, for servers whose index is always 0.
        if id and name:
            return None
        # The last call, for servers without an index.
        if index is None:
            return self._calls[-1] if self._calls else None
        # By its index: OpenAI itself, and servers that create a new id for every piece.
        return next((call for call in reversed(self._calls) if call.index == index), None)

    def _begin(self, index: Any, server_id: str, deltas: list[Delta]) -> _Call:
        """Begin a new call, and end the complete calls before it, so that they can start early."""
        for call in self._calls:
            if call.started and not call.ended and call.complete:
                self._end(call, deltas)
        # For servers that send no ids, or one id for several calls: the result must name its call.
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
    if call in touched:  # all calls in one event: no server sends two pieces of a call in one
        return bool(call.name)
    # For servers that send whole calls. A server that repeats the name in each piece is not
    # affected: its call is not complete yet.
    return text.lstrip()[:1] == "{" and call.complete


def _append_arguments(call: _Call, text: str, deltas: list[Delta]) -> None:
    if text and not call.ended:
        call.pieces.append(text)
    # some servers send the name after the id, or after arguments
    if call.name and not call.started:
        _start(call, deltas)
    elif text and call.started and not call.ended:
        deltas.append(ArgumentsDelta(call.id, text))


def _start(call: _Call, deltas: list[Delta]) -> None:
    """Emit the beginning of a call, and the arguments so far."""
    if not call.started:
        call.started = True
        deltas.append(CallStarted(call.id, call.name))
        deltas += [ArgumentsDelta(call.id, piece) for piece in call.pieces]


def _text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else msgspec.json.encode(arguments).decode()
