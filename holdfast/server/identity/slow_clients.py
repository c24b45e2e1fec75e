"""Limits on slow clients: how long a request may take to arrive, and how large its headers may be.

aiohttp limits how long an idle connection is kept and how large one header may be. It does not
limit how long a request may take to arrive, nor the size of all its headers together.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.streams import StreamReader
from msgspec import Struct

from holdfast.server.identity.origin_check import (
    HSTS_HEADERS,
    MAX_HEADER_BYTES,
    SECURITY_HEADERS,
    add_headers,
)
from holdfast.server.problem import INTERNAL_ERROR, STATUS_TITLES, ProblemDetails, RequestRefused
from holdfast.server.problem_response import problem_response

TIMEOUT_STATUS: Final = "408 Request Timeout"
HEADERS_TOO_LARGE_STATUS: Final = "431 Request Header Fields Too Large"
NOT_HTTP: Final = "the request is not valid HTTP/1.1: check the client and the proxies in between"


class SlowClientLimits(Struct, frozen=True, kw_only=True):
    """How slow a client may be. Times are in seconds."""

    head: float = 10.0
    """Limit for the headers, from the first byte; and for a first byte, from connecting."""
    body: float = 30.0
    """Limit for a body, extended as it arrives: see `rate`."""
    rate: int = 32 * 1024
    """Bytes of body that each further second has to bring."""
    idle: float = 75.0
    """Limit between two requests on one connection."""


class SlowBody(RequestRefused, TimeoutError):
    """A request body arrived too slowly. A TimeoutError, so that aiohttp drops the rest at once."""

    kind = "timed_out"
    status = 408


def limited_runner(
    app: web.Application,
    limits: SlowClientLimits = SlowClientLimits(),  # noqa: B008 - frozen
    *,
    secure: bool = False,
    **options: Any,
) -> web.AppRunner:
    """A runner for an application, with limits on how slow and how large a request may be.

    `secure`: the server is reached by https only, as in `origin_check.secured`.
    """
    bounds = {"keepalive_timeout": limits.idle, "max_headers": 100}
    return _Runner(app, limits, secure, **{**bounds, **options})


class _Runner(web.AppRunner):
    __slots__ = ("_limits", "_secure")

    def __init__(
        self, app: web.Application, limits: SlowClientLimits, secure: bool, **options: Any
    ) -> None:
        super().__init__(app, **options)
        self._limits = limits
        self._secure = secure

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        return _Server(server, self._limits, self._secure)


class _Server(web.Server):
    """A copy of a server whose connections have the limits."""

    def __init__(self, like: web.Server, limits: SlowClientLimits, secure: bool) -> None:
        super().__init__(
            like.request_handler,
            request_factory=like.request_factory,
            handler_cancellation=like.handler_cancellation,
            **like._kwargs,
        )
        self._limits = limits
        self._secure = secure

    def __call__(self) -> web.RequestHandler:
        return _Connection(self._limits, self._secure, self, loop=self._loop, **self._kwargs)


class _Connection(web.RequestHandler):
    """A connection that tracks which part of a request it waits for, and for how long."""

    __slots__ = ("_body", "_head", "_limits", "_secure", "_since", "_taken", "_timer")

    def __init__(self, limits: SlowClientLimits, secure: bool, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._secure = secure
        self._timer: asyncio.TimerHandle | None = None
        self._head = 0
        """Bytes received of a request whose headers are incomplete."""
        self._body: StreamReader | None = None
        """The body that is still arriving, if any."""
        self._taken = 0
        """Bytes received of that body."""
        self._since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._wait(self._limits.head, self._no_head)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def log_exception(self, *args: Any, **more: Any) -> None:
        # Invalid HTTP from a client is answered with a 4xx: it is not an error of ours.
        if isinstance(more.get("exc_info"), (web.RequestPayloadError, HttpProcessingError)):
            self.logger.debug(*args, **more)
        else:
            super().log_exception(*args, **more)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that never reaches the application with a problem, like any other."""
        super().handle_error(request, status, exc, message)  # logs it
        title = STATUS_TITLES.get(status, STATUS_TITLES[400])
        problem = ProblemDetails("bad_request", status, title, NOT_HTTP)
        response = problem_response(INTERNAL_ERROR if status >= 500 else problem)
        add_headers(response, self._secure)
        response.force_close()
        return response

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
        if self._head > MAX_HEADER_BYTES:
            self._refuse(HEADERS_TOO_LARGE_STATUS)
        elif self._timer is None:
            self._wait(self._limits.head, self._no_head)

    def _more_body(self, size: int) -> None:
        assert self._body is not None
        self._taken += size
        if self._body.is_eof():
            self._stop_waiting()
            self._body = None

    def _begin(self) -> None:
        """The headers of a request are complete: of the last one, if several came at once."""
        self._stop_waiting()
        self._head, self._taken, self._body = 0, 0, None
        if self._messages:
            body = self._messages[-1][1]
            if not body.is_eof():
                self._body, self._since = body, self._loop.time()
                self._wait(self._limits.body, self._slow_body)

    def _no_head(self) -> None:
        self._timer = None
        if self._request_count == 0 or (self._waiter is not None and not self._waiter.done()):
            self._refuse(TIMEOUT_STATUS if self._head else "")

    def _slow_body(self) -> None:
        self._timer = None
        body = self._body
        if body is None or body.is_eof() or body.exception() is not None:
            self._body = None
            return
        due = self._since + self._limits.body + self._taken / self._limits.rate
        left = due - self._loop.time()
        if self._reading_paused:  # we are not reading: not the client's fault
            left = max(left, self._limits.body)
        if left > 0:
            self._wait(left, self._slow_body)
            return
        self._body = None
        body.set_exception(SlowBody("the request body arrived too slowly: send it again"))

    def _wait(self, seconds: float, then: Any) -> None:
        self._timer = self._loop.call_later(seconds, then)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: str) -> None:
        self._stop_waiting()
        if self.transport is not None and status:
            self.transport.write(_empty_answer(status, self._secure))
        self.force_close()


def _empty_answer(status: str, secure: bool) -> bytes:
    """A response to a request that has not arrived, for which aiohttp has no response object."""
    ours = {**SECURITY_HEADERS, **(HSTS_HEADERS if secure else {})}
    headers = {"Server": "holdfast", **ours, "Connection": "close", "Content-Length": "0"}
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()
