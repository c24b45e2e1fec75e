"""The connection to a server: requests that are retried, and connections for streams.

Every change carries an idempotency key, so it takes effect once however often it is sent: a request
without a response is sent again.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

import anyio
import msgspec

from holdfast.chat.errors import InvalidInput
from holdfast.client.errors import NotHoldfast, RemoteError, Unreachable, error_of
from holdfast.client.explain_connection_error import explain
from holdfast.client.retry import UNAVAILABLE_STATUSES, delay
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ports import Ports
from holdfast.observe.caller_trace import TRACEPARENT, caller_trace
from holdfast.server.problem import PROBLEM_MEDIA_TYPE, ProblemDetails
from holdfast.server.wire_format import API_PREFIX as API_PREFIX
from holdfast.server.wire_format import IDEMPOTENCY_HEADER, from_json, to_json

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

T = TypeVar("T")
CHUNKED_BODY_BYTES: Final = 1024 * 1024
"""Bytes of a body above which it is sent in pieces."""
RESPONSE_TIMEOUT: Final = 60.0
"""Timeout of one request in seconds."""
JSON_TYPE: Final = "application/json"


class ServerResponse(NamedTuple):
    """A response, read completely."""

    status: int
    media: str
    body: bytes
    retry_after: float = 0.0


class Transport:
    """Sends requests to one server, with retries."""

    def __init__(self, session: ClientSession, url: str, ports: Ports, patience: float) -> None:
        self.url = url
        self.ports = ports
        self.patience = patience
        """Seconds for which a server that does not respond is retried."""
        self._session = session

    # --- requests ---

    async def get(self, path: str, kind: type[T], **query: Any) -> T:
        """Read a resource."""
        return self.decoded(await self.reply("GET", path, query=query), kind)

    async def change(
        self, method: str, path: str, kind: type[T], body: object = None, *, key: str | None
    ) -> T:
        """Make a change, once. Without a key it gets one of its own."""
        sent = b"" if body is None else to_json(body)
        return self.decoded(await self.reply(method, path, sent, key=self.key(key)), kind)

    def key(self, key: str | None) -> str:
        """Check an idempotency key, or make a new one."""
        if key is None:
            return self.ports.new_id()
        if not isinstance(key, str) or not (key and key.isprintable()):
            raise InvalidInput(f"key is {key!r:.80}: use printable text that is not empty, or None")
        return key

    def decoded(self, reply: ServerResponse, kind: type[T]) -> T:
        """Decode a response, or raise the error it carries."""
        if reply.status >= 300:
            raise self.refused(reply)
        try:
            return from_json(reply.body, kind)
        except msgspec.MsgspecError:
            raise self._foreign(reply) from None

    def refused(self, reply: ServerResponse) -> HoldfastError:
        """The exception for a response that is not a success."""
        if reply.media == PROBLEM_MEDIA_TYPE:
            try:
                return error_of(from_json(reply.body, ProblemDetails))
            except msgspec.MsgspecError:
                pass
        return self._foreign(reply)

    def _foreign(self, reply: ServerResponse) -> NotHoldfast:
        return NotHoldfast(self.url, reply.status, reply.media or "nothing")

    async def reply(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        query: Mapping[str, Any] = {},
        key: str | None = None,
        media: str = JSON_TYPE,
    ) -> ServerResponse:
        """Send a request until there is a response, within `patience`. Raises `Unreachable`."""
        headers = {"Content-Type": media} if body else {}
        if key is not None:
            headers[IDEMPOTENCY_HEADER] = key
        if (trace := caller_trace()) is not None:
            headers[TRACEPARENT] = trace
        ends, tries = anyio.current_time() + self.patience, 0
        while True:
            tries += 1
            reply = await self._send_once(method, path, body, query, headers)
            if isinstance(reply, ServerResponse) and reply.status not in UNAVAILABLE_STATUSES:
                return reply
            retry_after = reply.retry_after if isinstance(reply, ServerResponse) else 0.0
            pause = max(retry_after, delay(tries, self.ports.random()))
            if anyio.current_time() + pause > ends:
                break
            await anyio.sleep(pause)
        if isinstance(reply, ServerResponse):
            return reply
        raise reply

    async def _send_once(
        self, method: str, path: str, body: bytes, query: Mapping[str, Any], headers: dict[str, str]
    ) -> ServerResponse | Unreachable:
        from aiohttp import ClientTimeout

        self._check_open()
        try:
            async with self._session.request(
                method,
                self._address(path),
                data=_data(body),
                params=_params(query),
                headers=headers,
                allow_redirects=False,
                timeout=ClientTimeout(total=RESPONSE_TIMEOUT),
            ) as response:
                return await _read(response)
        except Exception as error:
            return self._unreachable(error)

    # --- streams ---

    async def open(
        self, path: str, cursor: str | None
    ) -> ClientResponse | ServerResponse | Unreachable:
        """Open a stream; returns the response instead if it is something else."""
        self._check_open()
        headers = {"Accept": "text/event-stream"}
        if cursor is not None:
            headers["Last-Event-ID"] = cursor
        try:
            with anyio.fail_after(RESPONSE_TIMEOUT):
                response = await self._session.get(
                    self._address(path), headers=headers, allow_redirects=False
                )
                if response.status == 200 and response.content_type == "text/event-stream":
                    return response
                async with response:
                    return await _read(response)
        except Exception as error:
            return self._unreachable(error)

    # --- both ---

    def _address(self, path: str) -> Any:
        from yarl import URL

        return URL(self.url + API_PREFIX + path, encoded=True)

    def _check_open(self) -> None:
        if self._session.closed:
            raise RemoteError(
                "closed", "the connection is closed: use it inside the block that opened it"
            )

    def _unreachable(self, error: Exception) -> Unreachable:
        """The error for a lost connection. Any other exception is raised as it is."""
        if not is_lost(error):
            raise error
        unreachable = Unreachable(self.url, *explain(error))
        unreachable.__cause__ = error
        return unreachable


def is_lost(error: Exception) -> bool:
    """Whether an exception means that a connection failed or was lost."""
    from aiohttp import ClientError

    return isinstance(error, (ClientError, TimeoutError, OSError))


def at(*names: object) -> str:
    """A path of these names, quoted."""
    return "".join(f"/{quote(str(name), safe='', errors='replace')}" for name in names)


async def _read(response: ClientResponse) -> ServerResponse:
    after = response.headers.get("Retry-After", "")
    seconds = float(after) if after.isdecimal() and len(after) < 6 else 0.0
    return ServerResponse(response.status, response.content_type, await response.read(), seconds)


def _data(body: bytes) -> Any:
    """A body in the form that aiohttp sends without blocking the event loop."""
    return BytesIO(body) if len(body) > CHUNKED_BODY_BYTES else body or None


def _params(query: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in query.items()
        if value is not None
    }
