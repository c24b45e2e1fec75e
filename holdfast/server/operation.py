"""Operations of the API: a route, its types, and the function that handles it.

The function's signature defines the operation: parameters named in the path, `query` and `body`
with their types, and the type of the response. Requests are validated against it and the OpenAPI
document is generated from it. A parameter `chat` of type `Chat` is the handle of the chat in the
path, made from what the authorisation has read; one of type `Id` is its id.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_type_hints
from urllib.parse import quote

import msgspec
from aiohttp import web
from msgspec import Struct, structs

from holdfast.chat.handle import Chat
from holdfast.server.access_policy import ApiCaller
from holdfast.server.fanout import StreamSubject
from holdfast.server.shared_request_types import Id

if TYPE_CHECKING:
    from holdfast.server.api_state import ApiState

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Handler: TypeAlias = Callable[..., Awaitable[Any]]
"""The function that handles an operation."""

DOWNLOAD: Final = web.RequestKey("download", bool)
"""Request key: whether the operation accepts a download key."""
DOWNLOAD_KEY: Final = "download_key"
"""Name of the query parameter that carries a download key."""

_NAMES: Final = re.compile(r"\{(\w+)\}")


class ApiCall(Struct, frozen=True):
    """An authorised request."""

    server: ApiState
    caller: ApiCaller | None
    """The authenticated caller; None where no authentication is required."""
    key: str | None = None
    """The `Idempotency-Key` of the request."""
    address: str = ""
    """Address of the client."""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    """Headers to add to the response."""

    @property
    def user(self) -> str:
        """Id of the calling user."""
        assert self.caller is not None  # the policy requires one for all operations that read this
        return self.caller.user


class BytesResponse(Struct, frozen=True):
    """A response that is not JSON."""

    body: bytes
    media: str
    name: str | None = None
    """Name under which a browser saves the content; None to display it."""


class EncodedResponse(Struct, frozen=True):
    """A whole response, as it is sent."""

    status: int
    body: bytes | None = None
    headers: Mapping[str, str] = {}


class PiecesResponse(Struct, frozen=True):
    """A response that is sent while it is produced. If producing fails, it must not look whole."""

    headers: Mapping[str, str]
    first: str
    rest: AsyncGenerator[str, None]

    async def encoded(self) -> AsyncIterator[bytes]:
        """The pieces as they are sent."""
        yield self.first.encode(errors="replace")
        async for piece in self.rest:
            yield piece.encode(errors="replace")


class EventsResponse(Struct, frozen=True):
    """A stream of events, sent over SSE or WebSocket until it ends."""

    subject: StreamSubject
    cursor: Any
    caller: ApiCaller | None

    @property
    def user(self) -> str:
        """Id of the user whose open streams are counted."""
        assert self.caller is not None  # the policy requires one for all streams
        return self.caller.user


def headers_of(media: str, name: str | None = None) -> dict[str, str]:
    """Headers of a response that is not JSON. `name`: of the file that a browser should save."""
    headers = {"Content-Type": media, "X-Content-Type-Options": "nosniff"}
    if name is not None:
        quoted = quote(name, safe="", errors="replace")
        headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quoted}"
    return headers


class Operation(Struct, frozen=True, kw_only=True):
    """One operation of the API: a method and a path, its types, and its handler."""

    method: Method
    path: str
    """Path below /api/v1."""
    summary: str
    handle: Handler
    status: int
    names: Mapping[str, Any]
    """Parameters in the path, with their types."""
    takes_chat: bool = False
    """The handler takes the chat in the path as its handle, not as its id."""
    query: type | None
    body: type | None
    gives: Any
    """Type of the response; None for no content."""
    media: str
    """Media type of the response."""
    raw: bool
    """The handler gets the request itself, and may return a `PiecesResponse` or an
    `EventsResponse`."""
    takes: str | None = None
    """Media type of a body that is not JSON, which a raw handler reads by itself."""
    events: Mapping[str, Any] | None = None
    """For a stream: the type of the data of each event, by its name."""
    keyed: bool = True
    """Whether the operation accepts an `Idempotency-Key`."""
    was_done: Handler | None = None
    """For an operation that deletes its chat: whether this very request has already done so."""
    download: bool = False
    """Whether browsers request it by URL alone: a session may then send its download key in the
    query."""

    @property
    def id(self) -> str:
        """The operation id: the name of the handler."""
        return self.handle.__name__


OPERATIONS: Final[dict[tuple[str, str], Operation]] = {}
"""All operations, by method and path, in the order of their definition."""


def operation(
    method: Method,
    path: str,
    summary: str,
    *,
    status: int = 200,
    media: str = "application/json",
    raw: bool = False,
    takes: str | None = None,
    events: Mapping[str, Any] | None = None,
    keyed: bool = True,
    was_done: Handler | None = None,
    download: bool = False,
) -> Callable[[Handler], Handler]:
    """Register a function as an operation of the API."""

    def register(handle: Handler) -> Handler:
        if (method, path) in OPERATIONS:
            raise ValueError(f"{method} {path} is already registered")
        signature = described(method, path, summary, handle, status, media, raw)
        OPERATIONS[method, path] = structs.replace(
            signature,
            takes=takes,
            events=events,
            keyed=keyed and method != "GET",
            was_done=was_done,
            download=download,
        )
        return handle

    return register


def described(
    method: Method, path: str, summary: str, handle: Handler, status: int, media: str, raw: bool
) -> Operation:
    """The operation that a handler's signature describes."""
    hints = get_type_hints(handle, include_extras=True)
    gives = hints.pop("return")
    names = {name: hints.pop(name) for name in _NAMES.findall(path)}
    takes_chat = names.get("chat") is Chat
    if takes_chat:
        names["chat"] = Id
    query, body = hints.pop("query", None), hints.pop("body", None)
    first, *_ = inspect.signature(handle).parameters
    hints.pop(first)
    left = set(hints) - {"request"}
    if left:
        raise TypeError(f"{handle.__name__}: unknown parameters {', '.join(sorted(left))}")
    return Operation(
        method=method,
        path=path,
        summary=summary,
        handle=handle,
        status=204 if gives is type(None) else status,
        names=names,
        takes_chat=takes_chat,
        query=query,
        body=body,
        gives=None if gives is type(None) else gives,
        media=media,
        raw=raw,
    )
