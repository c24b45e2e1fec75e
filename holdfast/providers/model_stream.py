"""Sends a request and streams its deltas: the part shared by the four protocols."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Final, Protocol

import anyio
import msgspec

from holdfast.kernel.errors import ProviderError
from holdfast.kernel.messages import Usage, Value
from holdfast.kernel.model import Delta, Finished, Notice, Ping
from holdfast.providers import context_limits
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
"""Seconds that a complete answer may take to say what it cost, and a refusal to say why."""
CLOSE_TIMEOUT: Final = 0.25
"""Seconds that a stream which has said everything may take to close."""
CONNECTION_ERRORS: Final = frozenset({"network", "stream_cut", "timeout"})
"""How a connection ends that was lost."""


class WireRequest(Value, frozen=True):
    """One request as it goes over the wire."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    notices: tuple[str, ...] = ()
    """What could not be said in this protocol: people are told."""
    model: str = ""
    """Name of the model that is asked, as `provider:model`."""

    def __repr__(self) -> str:
        return f"Call({address(self.url)!r}, {len(self.body)} bytes)"  # no key, no conversation


class AnswerDecoder(Protocol):
    """The state of one answer in one protocol. Has no I/O, so it can be fed anything."""

    deltas: list[Delta]
    """What the last `feed` made. When it raised: what came before the error."""

    @property
    def complete(self) -> bool:
        """Whether the provider has said why it stopped. Only words about the answer may follow."""
        ...

    def feed(self, events: list[bytes]) -> list[Delta]:
        """Take in the data of some events. Raises `ProviderError` for an error among them, and
        `msgspec.DecodeError` for what cannot be read."""
        ...

    def end(self) -> list[Delta]:
        """The stream has closed: what is still to be said of an answer that is complete. Nothing
        of one that is not, or that has said all."""
        ...

    def spent(self) -> Usage | None:
        """What the provider has counted so far. Asked of an answer that was cut."""
        ...


async def stream_answer(
    http: Http, call: WireRequest, decoder: AnswerDecoder, codes: ErrorCodes
) -> AsyncGenerator[Delta]:
    """The deltas of one answer. Nothing is done here for each that could be done for each read."""
    events = EventParser()
    notices = call.notices
    try:
        async with http.post(call.url, call.headers, call.body) as reply:
            if reply.status != 200 or _is_no_stream(reply):
                body = await _read(reply, MAX_ERROR_BODY, partly=reply.status != 200)
                raise response_error(call.url, reply.status, reply.headers, body, codes)
            chunks, patience = reply.chunks(), TRAILER_TIMEOUT
            while True:
                if decoder.complete:
                    data = await _soon(chunks, patience)
                else:
                    data = await anext(chunks, None)
                if data is None:
                    break
                deltas, failure = _decode(decoder, events.feed(data))
                if notices:  # not before the provider is heard: our notice is no sign of its life
                    deltas = [*map(Notice, notices), *deltas]
                    notices = ()
                for delta in deltas:
                    yield delta
                if failure is not None:
                    raise failure
                if not deltas and b"\n" in data:  # a piece of a line is no event, however many come
                    yield PING
                if deltas and type(deltas[-1]) is Finished:
                    patience = CLOSE_TIMEOUT
        last, failure = _decode(decoder, list(filter(_is_whole, events.end())))
        if failure is not None:
            raise failure
        last += decoder.end()
        if not decoder.complete and not last:
            failure = unframed_error(events.unframed, codes)
            if failure is not None:
                raise failure
            last = _counted(decoder)
    except ProviderError as error:
        context_limits.report_limit(http, call.url, call.model, error)
        last = decoder.end() if error.kind in CONNECTION_ERRORS else []
        if not last:  # of an answer that is complete it does not matter how the connection ended
            for delta in _counted(decoder):
                yield delta
            raise
    for delta in last:
        yield delta


async def _soon(chunks: AsyncIterator[bytes], seconds: float) -> bytes | None:
    """What follows the end of an answer, unless nothing does: some servers then keep quiet instead
    of closing. The connection is used again only if they close."""
    with anyio.move_on_after(seconds):
        return await anext(chunks, None)
    return None


def _counted(decoder: AnswerDecoder) -> list[Delta]:
    """What an answer that was cut has taken, if the provider has said anything of that."""
    spent = decoder.spent()
    return [] if spent is None else [Ping(spent)]


def _decode(
    decoder: AnswerDecoder, events: list[bytes]
) -> tuple[list[Delta], ProviderError | None]:
    """The deltas of some events, and why there are no more when one of them is an error."""
    try:
        return decoder.feed(events), None
    except ProviderError as error:
        return decoder.deltas, error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return decoder.deltas, unreadable_event(events[-1], str(error))


def _is_whole(event: bytes) -> bool:
    """Whether an event that lacks its end is one: a closed stream may have been cut in it."""
    data = event.strip()
    if data[:1] not in (b"{", b"[") or data == b"[DONE]":
        return True  # no JSON: whoever sends it knows what it means
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True


def _is_no_stream(reply: HttpResponse) -> bool:
    """An error with status 200, or a page of whoever stands between us and the provider."""
    kind = (reply.headers.get("Content-Type") or "").lower()
    return "json" in kind or "html" in kind


async def _read(reply: HttpResponse, limit: int, *, partly: bool) -> bytes:
    """The body, as much of it as anybody wants to know. `partly`: what there is of it will do. That
    we are refused is known, however long it takes to say why, and whatever breaks meanwhile."""
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
