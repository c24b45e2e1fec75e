"""A request of an ASGI server, with the interface of `HttpRequest`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from functools import cached_property
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote

from multidict import CIMultiDict, MultiDict, MultiMapping

from holdfast.server.problem import RequestRefused

AsgiScope: TypeAlias = MutableMapping[str, Any]
"""What an ASGI server says of a connection."""
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]


class ClientDisconnected(Exception):
    """The client closed the connection before it had sent the whole body."""


class UnsupportedEncoding(RequestRefused):
    """The body is compressed, which ASGI servers leave to the application."""

    kind = "unsupported_media_type"
    status = 415


class AsgiRequest:
    """A request to a mounted application: method, path, headers, cookies and query.

    `scope` is the ASGI scope, for what a framework adds to it: `scope["session"]`, or
    `starlette.requests.HTTPConnection(request.scope)`.
    """

    def __init__(self, scope: AsgiScope, receive: Receive) -> None:
        self.scope = scope
        self.method: str = scope.get("method", "GET")  # a WebSocket has none
        self.path: str = scope["path"]
        """Decoded path, with the one that the application is mounted at."""
        self.root_path: str = scope.get("root_path", "").rstrip("/")
        """Path that the application is mounted at; empty for the root."""
        self.match_info: Mapping[str, str] = {}
        """Parameters in the path."""
        self.content = AsgiBody(self, receive)
        self._values: dict[Any, Any] = {}

    def get(self, key: Any, default: Any, /) -> Any:
        return self._values.get(key, default)

    def __setitem__(self, key: Any, value: Any, /) -> None:
        self._values[key] = value

    @property
    def is_websocket(self) -> bool:
        """Whether this is a WebSocket handshake."""
        return bool(self.scope["type"] == "websocket")

    @cached_property
    def headers(self) -> MultiMapping[str]:
        """The headers; names in any case."""
        return CIMultiDict(
            (name.decode("latin-1"), value.decode("utf-8", "surrogateescape"))
            for name, value in self.scope["headers"]
        )

    @cached_property
    def query(self) -> MultiMapping[str]:
        """The parameters in the query."""
        text = self.scope.get("query_string", b"").decode("latin-1")
        return MultiDict(parse_qsl(text, keep_blank_values=True))

    @cached_property
    def cookies(self) -> Mapping[str, str]:
        """The cookies by name."""
        pairs = (
            one.partition("=")
            for line in self.headers.getall("Cookie", [])
            for one in line.split(";")
        )
        return {name.strip(): value.strip().strip('"') for name, sign, value in pairs if sign}

    @property
    def remote(self) -> str | None:
        """Address of the client, as the web server says; None for a Unix socket."""
        client = self.scope.get("client")
        return None if client is None else str(client[0])

    @property
    def content_type(self) -> str:
        """Media type of the body."""
        given = self.headers.get("Content-Type", "application/octet-stream")
        return given.partition(";")[0].strip().lower()

    @property
    def content_length(self) -> int | None:
        """Bytes of the body; None if they are not known beforehand."""
        given = self.headers.get("Content-Length", "")
        return int(given) if given.isascii() and given.isdecimal() else None

    @property
    def can_read_body(self) -> bool:
        """Whether the headers announce a body."""
        return bool(self.content_length) or "Transfer-Encoding" in self.headers

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """The decoded segments of the path below the one that the application is mounted at."""
        raw = self.scope.get("raw_path")
        text = self.path if raw is None else raw.decode("latin-1")
        below = text.split("/")[1:]
        # Some frameworks leave the path as it was, others cut off where they mount.
        if self.root_path and f"{self.path}/".startswith(f"{self.root_path}/"):
            below = below[self.root_path.count("/") :]
        if raw is None:
            return tuple(below)
        return tuple(unquote(segment) for segment in below)


class AsgiBody:
    """The body of a request, while it arrives."""

    def __init__(self, request: AsgiRequest, receive: Receive) -> None:
        self._request = request
        self._receive = receive
        self._ended = False

    async def iter_any(self) -> AsyncIterator[bytes]:
        """The pieces of the body, as they arrive. Raises `ClientDisconnected`."""
        encoding = self._request.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            raise UnsupportedEncoding(f"the body is encoded as {encoding}: send it as it is")
        while not self._ended:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            self._ended = not message.get("more_body", False)
            if piece := message.get("body", b""):
                yield piece
