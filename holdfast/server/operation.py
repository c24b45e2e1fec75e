"""An operation of the API: what is asked, what is answered, and the function that does it.

The function says it all: parameters named in the path, `query` and `body` with their types, and
what it returns. Requests are checked against it and the OpenAPI document is made from it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_type_hints
from urllib.parse import quote

import msgspec
from msgspec import Struct, structs

from holdfast.server.policy import Caller

if TYPE_CHECKING:
    from holdfast.server.app import Server

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Handler: TypeAlias = Callable[..., Awaitable[Any]]

_NAMES: Final = re.compile(r"\{(\w+)\}")


class Call(Struct, frozen=True):
    """A request that was let in."""

    server: Server
    caller: Caller | None
    """None where anybody may ask."""
    key: str | None = None
    """What the caller named the request, so that it is carried out once."""
    address: str = ""
    """Where the request came from."""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    """To be added to the answer."""

    @property
    def user(self) -> str:
        """Whose things this is about."""
        assert self.caller is not None  # the policy says so for all that ask for it
        return self.caller.user


class Content(Struct, frozen=True):
    """An answer that is not JSON of ours."""

    body: bytes
    media: str
    name: str | None = None
    """Of the file that a browser should save it as; None to show it."""


def headers_of(media: str, name: str | None = None) -> dict[str, str]:
    """Of an answer that is not JSON of ours. `name`: of the file that a browser should save."""
    headers = {"Content-Type": media, "X-Content-Type-Options": "nosniff"}
    if name is not None:
        quoted = quote(name, safe="", errors="replace")
        headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quoted}"
    return headers


class Operation(Struct, frozen=True, kw_only=True):
    method: Method
    path: str
    """Below /api/v1."""
    summary: str
    handle: Handler
    status: int
    names: Mapping[str, type]
    """The parameters in the path, with their types."""
    query: type | None
    body: type | None
    gives: Any
    """The type of the answer; None for no content."""
    media: str
    """Of the answer."""
    raw: bool
    """The function gets the request itself, and may give the response itself."""
    takes: str | None = None
    """The media type of a body that is not JSON, and that a raw function reads by itself."""
    events: Mapping[str, Any] | None = None
    """Of a stream: the type of the data of each event, by its name."""
    keyed: bool = True
    """Whether a request that changes something may be named by a key."""
    was_done: Handler | None = None
    """Of what takes its chat away: whether this very request has done so already."""

    @property
    def id(self) -> str:
        return self.handle.__name__


OPERATIONS: Final[dict[tuple[str, str], Operation]] = {}
"""All of them, by method and path, in the order of their definition."""


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
) -> Callable[[Handler], Handler]:
    """Make a function an operation of the API."""

    def register(handle: Handler) -> Handler:
        if (method, path) in OPERATIONS:
            raise ValueError(f"{method} {path} is there already")
        made = described(method, path, summary, handle, status, media, raw)
        OPERATIONS[method, path] = structs.replace(
            made,
            takes=takes,
            events=events,
            keyed=keyed and method != "GET",
            was_done=was_done,
        )
        return handle

    return register


def described(
    method: Method, path: str, summary: str, handle: Handler, status: int, media: str, raw: bool
) -> Operation:
    hints = get_type_hints(handle, include_extras=True)
    gives = hints.pop("return")
    names = {name: hints.pop(name) for name in _NAMES.findall(path)}
    query, body = hints.pop("query", None), hints.pop("body", None)
    first, *_ = inspect.signature(handle).parameters
    hints.pop(first)
    left = set(hints) - {"request"}
    if left:
        raise TypeError(f"{handle.__name__}: where do {', '.join(sorted(left))} come from?")
    return Operation(
        method=method,
        path=path,
        summary=summary,
        handle=handle,
        status=204 if gives is type(None) else status,
        names=names,
        query=query,
        body=body,
        gives=None if gives is type(None) else gives,
        media=media,
        raw=raw,
    )
