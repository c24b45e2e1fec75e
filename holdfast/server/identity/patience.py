"""Bounds on slow clients: a connection that sends next to nothing is not kept for ever.

aiohttp bounds how long an idle connection is kept and how large one header may be. Missing there
is a bound on how long a request may take to arrive, and on all its headers together.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.streams import StreamReader
from msgspec import Struct

from holdfast.server.identity.guard import HEADERS
from holdfast.server.problem import Refused

_REST: Final = b"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
LATE: Final = b"HTTP/1.1 408 Request Timeout" + _REST
LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large" + _REST


class Patience(Struct, frozen=True, kw_only=True):
    """How slow a client may be. Seconds."""

    head: float = 10.0
    """For the headers of a request, from its first byte; for a first byte, from connecting."""
    body: float = 30.0
    """For a body, and more the more of it has come: see `rate`."""
    rate: int = 32 * 1024
    """Bytes of body that each further second has to bring."""
    idle: float = 75.0
    """Between two requests."""


class SlowBody(Refused, TimeoutError):
    """Also a TimeoutError, because aiohttp then gives up the rest of the body at once."""

    kind = "timed_out"
    status = 408


def patient_runner(
    app: web.Application,
    patience: Patience = Patience(),  # noqa: B008 - frozen
    **options: Any,
) -> web.AppRunner:
    """Runs an application, with bounds on how slow and how large a request may be."""
    bounds = {"keepalive_timeout": patience.idle, "max_headers": 100}
    return _Runner(app, patience, **{**bounds, **options})


class _Runner(web.AppRunner):
    __slots__ = ("_patience",)

    def __init__(self, app: web.Application, patience: Patience, **options: Any) -> None:
        super().__init__(app, **options)
        self._patience = patience

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(made, self._patience)


class _Server(web.Server):
    """The same as another, with patient connections."""

    def __init__(self, like: web.Server, patience: Patience) -> None:
        super().__init__(
            like.request_handler,
            request_factory=like.request_factory,
            handler_cancellation=like.handler_cancellation,
            **like._kwargs,
        )
        self._patience = patience

    def __call__(self) -> web.RequestHandler:
        return _Connection(self._patience, self, loop=self._loop, **self._kwargs)


class _Connection(web.RequestHandler):
    """Knows from the bytes that come, and the requests they make, what is being waited for."""

    __slots__ = ("_body", "_head", "_patience", "_since", "_taken", "_timer")

    def __init__(self, patience: Patience, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._patience = patience
        self._timer: asyncio.TimerHandle | None = None
        self._head = 0
        """Bytes of a request whose headers are not all here."""
        self._body: StreamReader | None = None
        """That is still arriving."""
        self._taken = 0
        """Bytes of it."""
        self._since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._wait(self._patience.head, self._no_head)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def log_exception(self, *args: Any, **more: Any) -> None:
        # What a client sends that is no HTTP is answered, and is no failure of ours.
        if isinstance(more.get("exc_info"), (web.RequestPayloadError, HttpProcessingError)):
            self.logger.debug(*args, **more)
        else:
            super().log_exception(*args, **more)

    def data_received(self, data: bytes) -> None:
        idle = self._waiter is not None and not self._waiter.done()
        before = self._request_count
        super().data_received(data)
        if self._request_count > before:
            self._begin()
        elif self._body is not None:
            self._more_body(len(data))
        elif idle and data:
            self._more_head(len(data))

    def _more_head(self, size: int) -> None:
        self._head += size
        if self._head > HEADERS:
            self._refuse(LARGE)
        elif self._timer is None:
            self._wait(self._patience.head, self._no_head)

    def _more_body(self, size: int) -> None:
        assert self._body is not None
        self._taken += size
        if self._body.is_eof():
            self._stop_waiting()
            self._body = None

    def _begin(self) -> None:
        """The headers of a request are here: of the last, when several came at once."""
        self._stop_waiting()
        self._head, self._taken, self._body = 0, 0, None
        if self._messages:
            body = self._messages[-1][1]
            if not body.is_eof():
                self._body, self._since = body, self._loop.time()
                self._wait(self._patience.body, self._slow_body)

    def _no_head(self) -> None:
        self._timer = None
        if self._request_count == 0 or (self._waiter is not None and not self._waiter.done()):
            self._refuse(LATE if self._head else b"")

    def _slow_body(self) -> None:
        self._timer = None
        body = self._body
        if body is None or body.is_eof() or body.exception() is not None:
            self._body = None
            return
        due = self._since + self._patience.body + self._taken / self._patience.rate
        left = due - self._loop.time()
        if self._reading_paused:  # it is we who do not read
            left = max(left, self._patience.body)
        if left > 0:
            self._wait(left, self._slow_body)
            return
        self._body = None
        body.set_exception(SlowBody("the body of the request came too slowly: send it again"))

    def _wait(self, seconds: float, then: Any) -> None:
        self._timer = self._loop.call_later(seconds, then)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, answer: bytes) -> None:
        self._stop_waiting()
        if self.transport is not None and answer:
            self.transport.write(answer)
        self.force_close()
