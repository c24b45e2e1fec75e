"""A conversation in a file: saved after every message, and continued by the next run.

A killed process loses nothing that was committed, and no side effect is silently repeated: a call
is recorded in the file, as started, before it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import anyio
import msgspec
from msgspec import Raw, Struct

from holdfast.cli.locked_file import LockedFile, NotSaved
from holdfast.kernel import results
from holdfast.kernel.admission import Middleware, Proceed
from holdfast.kernel.context import Context
from holdfast.kernel.errors import ConfigError, FormatError
from holdfast.kernel.messages import (
    MESSAGE_FORMAT,
    Message,
    ToolCall,
    ToolResult,
    Value,
    encode,
    load,
)
from holdfast.kernel.messages import decode as decoded
from holdfast.kernel.tool import Tool, Values
from holdfast.kernel.turn import Turn, fold_all

LOST_RESULT: Final = "Interrupted by a restart; it may or may not have taken effect."
REPEATABLE_EFFECTS: Final = frozenset({"pure", "idempotent"})
"""Effects of tools that are run again without asking."""


class _EncodedHistory(Struct, frozen=True):
    """A history and its encoding, kept as it grows: a save costs what is new, not all of it."""

    messages: tuple[Message, ...] = ()
    turn: Turn = Turn()
    encoded: tuple[Raw, ...] = ()

    def grown(self, messages: tuple[Message, ...]) -> _EncodedHistory:
        known = len(self.messages)
        if messages[:known] != self.messages:
            return _EncodedHistory().grown(messages)
        new = messages[known:]
        encoded = tuple(Raw(encode(message)) for message in new)
        return _EncodedHistory(messages, fold_all(new, self.turn), self.encoded + encoded)


class _File(Value, frozen=True):
    """The file format: messages, and the calls that were started and have no result yet."""

    format: int
    messages: tuple[Raw, ...]
    started: Raw | None = None


class _Started(Value, frozen=True):
    started: tuple[str, ...] = ()


class SavedHistory:
    """The history of one conversation and its file, which one process has at a time."""

    def __init__(self, file: LockedFile, kept: _EncodedHistory, started: tuple[str, ...]) -> None:
        self._file = file
        self._kept = kept
        self._started = started
        self._starting: dict[str, anyio.Event] = {}
        """Calls that will run once they are recorded."""
        self._failure: NotSaved | None = None
        """Error of the last save, if it failed."""

    @classmethod
    def open(cls, path: str) -> SavedHistory:
        """Open a file to continue its conversation; a missing or empty one has no messages yet."""
        file = LockedFile(path)
        try:
            return cls(file, *_read(path, file.content))
        except BaseException:
            file.close()
            raise

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages in the file."""
        return self._kept.messages

    @property
    def lost(self) -> Mapping[str, ToolResult]:
        """Results for the calls an earlier run started and did not finish, for its `resolve`."""
        return {
            call.id: results.result(call, "lost", LOST_RESULT)
            for call in self._kept.turn.open
            if call.id in self._started
        }

    def save(self, messages: Sequence[Message]) -> None:
        """Save the history: all that a run has committed, as in `run.history`."""
        try:
            self._write(tuple(messages))
        except NotSaved as error:
            self._failure = error
            for waiting in self._starting.values():
                waiting.set()
            raise

    def middleware(self, tools: Mapping[str, Tool]) -> Middleware:
        """Middleware for the agent, after its others: no call runs before it is recorded.

        A call waits until the answer that requests it is saved, by the reader of the run's
        events.
        """

        async def recorded(
            context: Context, call: ToolCall, values: Values, proceed: Proceed
        ) -> object:
            tool = tools.get(call.tool)
            if tool is None or tool.effect not in REPEATABLE_EFFECTS:
                await self._record(call)
            return await proceed()

        return recorded

    async def _record(self, call: ToolCall) -> None:
        """Record that a call was started, and wait until it is saved. Raises if it cannot be."""
        self._starting[call.id] = recorded = anyio.Event()
        try:
            if any(call.id == other.id for other in self._kept.turn.open):
                self.save(self.messages)
            if self._failure is None:
                await recorded.wait()
            if self._failure is not None:
                raise self._failure
        except NotSaved as error:
            raise NotSaved(f"{call.tool} was not run: {error}") from error
        finally:
            del self._starting[call.id]

    def _write(self, messages: tuple[Message, ...]) -> None:
        try:
            kept = self._kept.grown(messages)
        except (TypeError, ValueError, RecursionError) as error:
            raise NotSaved(
                f"{self._file.path} was not saved: it cannot be encoded as JSON ({error})"
            ) from error
        begun = (*self._started, *self._starting)
        started = tuple(call.id for call in kept.turn.open if call.id in begun)
        if (messages, started) != (self._kept.messages, self._started):
            started_raw = Raw(encode(started)) if started else None
            content = _File(MESSAGE_FORMAT, kept.encoded, started_raw)
            self._file.replace(msgspec.json.encode(content))
        self._kept, self._started, self._failure = kept, started, None
        for call_id in started:
            if call_id in self._starting:
                self._starting[call_id].set()

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def __enter__(self) -> SavedHistory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read(path: str, content: bytes) -> tuple[_EncodedHistory, tuple[str, ...]]:
    if not content.strip():
        return _EncodedHistory(), ()
    try:
        return _EncodedHistory().grown(load(content)), decoded(content, _Started).started
    except FormatError as error:
        raise ConfigError(
            f"{path} is not a saved history and was not changed: name another file. ({error})"
        ) from None
