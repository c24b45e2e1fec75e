"""Sends a request and streams its deltas: the part that the four protocols share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Final, Protocol

import anyio
import msgspec

from holdfast.kernel.errors import ProviderError
from holdfast.kernel.messages import Usage, Value
from holdfast.kernel.model import Delta, Finished, Notice, Ping
from holdfast.providers import reported_context_limits
from holdfast.providers.failure import (
    MAX_ERROR_BODY,
    ErrorCodes,
    response_error,
    unframed_error,
    unreadable_event,
)
from holdfast.providers.http import Http, HttpResponse, address
from holdfast.providers.sse import EventParser

PING: Final = Ping()
TRAILER_TIMEOUT: Final = 5.0
"""Seconds that a complete answer may take to report its usage, and an error response to arrive."""
CLOSE_TIMEOUT: Final = 0.25
"""Seconds that a stream may take to close after its last delta."""
CONNECTION_ERRORS: Final = frozenset({"network", "stream_cut", "timeout"})
"""Kinds of error that mean that the connection was lost."""


class WireRequest(Value, frozen=True):
    """An encoded request: address, headers, body, and the notices for people."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    notices: tuple[str, ...] = ()
    """Notices for people: what this protocol could not express."""
    model: str = ""
    """Name of the requested model, as `provider:model`."""

    def __repr__(self) -> str:
        # neither the key nor the conversation
        return f"WireRequest({address(self.url)!r}, {len(self.body)} bytes)"


class AnswerDecoder(Protocol):
    """Decodes one answer of one protocol. Has no I/O, so tests can feed it anything."""

    deltas: list[Delta]
    """Deltas of the last `feed`. If it raised: those before the error."""

    @property
    def complete(self) -> bool:
        """Whether the finish reason has arrived. Only metadata of the answer may follow."""
        ...

    def feed(self, events: list[bytes]) -> list[Delta]:
        """Decode the data of some events.

        Raises `ProviderError` for an error among them, and `msgspec.DecodeError` for data that
        cannot be read.
        """
        ...

    def end(self) -> list[Delta]:
        """Last deltas of a complete answer, after its stream has closed.

        Empty if the answer is incomplete, or if all its deltas were returned before.
        """
        ...

    def spent(self) -> Usage | None:
        """Usage that the provider has reported so far. Used for truncated answers."""
        ...


async def stream_answer(
    http: Http, call: WireRequest, decoder: AnswerDecoder, codes: ErrorCodes
) -> AsyncGenerator[Delta]:
    """Send a request and stream the deltas of its answer.

    The work is done per network read, not per delta.
    """
    events = EventParser()
    notices = call.notices
    try:
        async with http.post(call.url, call.headers, call.body) as reply:
            if reply.status != 200 or _is_no_stream(reply):
                body = await _read(reply, MAX_ERROR_BODY, partly=reply.status != 200)
                raise response_error(call.url, reply.status, reply.headers, body, codes)
            chunks, timeout = reply.chunks(), TRAILER_TIMEOUT
            while True:
                data = await (_soon(chunks, timeout) if decoder.complete else anext(chunks, None))
                if data is None:
                    break
                deltas, failure = _decode(decoder, events.feed(data))
                # only after the provider's first data: our notice is not a sign of life
                if notices:
                    deltas = [*map(Notice, notices), *deltas]
                    notices = ()
                for delta in deltas:
                    yield delta
                if failure is not None:
                    raise failure
                # a piece of a line is not an event, however many arrive
                if not deltas and b"\n" in data:
                    yield PING
                if deltas and type(deltas[-1]) is Finished:
                    timeout = CLOSE_TIMEOUT
        last = _last_deltas(decoder, events, codes)
    except ProviderError as error:
        reported_context_limits.report_limit(http, call.url, call.model, error)
        last = decoder.end() if error.kind in CONNECTION_ERRORS else []
        if not last:  # how the connection ends does not matter to a complete answer
            for delta in _counted(decoder):
                yield delta
            raise
    for delta in last:
        yield delta


def _last_deltas(decoder: AnswerDecoder, events: EventParser, codes: ErrorCodes) -> list[Delta]:
    """The deltas at the end of a stream. Raises an error that was written into it."""
    deltas, failure = _decode(decoder, list(filter(_is_whole, events.end())))
    if failure is not None:
        raise failure
    deltas += decoder.end()
    if decoder.complete or deltas:
        return deltas
    failure = unframed_error(events.unframed, codes)
    if failure is not None:
        raise failure
    return _counted(decoder)


async def _soon(chunks: AsyncIterator[bytes], seconds: float) -> bytes | None:
    """The next data after the end of an answer, or None after some seconds.

    Some servers keep the stream open. The connection is reused only if the server ends the stream.
    """
    with anyio.move_on_after(seconds):
        return await anext(chunks, None)
    return None


def _counted(decoder: AnswerDecoder) -> list[Delta]:
    """A ping with the usage of a truncated answer, if the provider reported any."""
    spent = decoder.spent()
    return [] if spent is None else [Ping(spent)]


def _decode(
    decoder: AnswerDecoder, events: list[bytes]
) -> tuple[list[Delta], ProviderError | None]:
    """The deltas of some events, and the error that ended them, if any."""
    try:
        return decoder.feed(events), None
    except ProviderError as error:
        return decoder.deltas, error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return decoder.deltas, unreadable_event(events[-1], str(error))


def _is_whole(event: bytes) -> bool:
    """Whether an event without a blank line is complete: the closed stream may have cut it."""
    data = event.strip()
    if data[:1] not in (b"{", b"[") or data == b"[DONE]":
        return True  # not JSON, such as a marker of a gateway
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True


def _is_no_stream(reply: HttpResponse) -> bool:
    """Whether a response is an error with status 200, or a web page of a proxy."""
    kind = (reply.headers.get("Content-Type") or "").lower()
    return "json" in kind or "html" in kind


async def _read(reply: HttpResponse, limit: int, *, partly: bool) -> bytes:
    """The body up to a limit.

    With `partly`, a timeout or a broken connection leaves what has arrived: the status is known
    already.
    """
    body = b""
    try:
        with anyio.move_on_after(TRAILER_TIMEOUT if partly else None):
            async for data in reply.chunks():
                body += data
                if len(body) >= limit:
                    break
    except Exception:
        if not partly:
            raise
    return body[:limit]
