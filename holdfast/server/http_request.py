"""A request as the operations read it, whichever server received it.

`HttpRequest` is the part of aiohttp's `web.Request` that operations and identities use; the request
of an ASGI server (`asgi/asgi_request.py`) has the same shape. So an operation is written once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from multidict import MultiMapping

from holdfast.server.problem import TooLarge


class RequestBody(Protocol):
    """The body of a request, while it arrives."""

    def iter_any(self) -> AsyncIterator[bytes]:
        """The pieces of the body, as they arrive."""
        ...


class HttpRequest(Protocol):
    """A request. It also keeps values by key, which later layers add."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def remote(self) -> str | None: ...
    @property
    def match_info(self) -> Mapping[str, str]: ...
    @property
    def query(self) -> MultiMapping[str]: ...
    @property
    def headers(self) -> MultiMapping[str]: ...
    @property
    def cookies(self) -> Mapping[str, str]: ...
    @property
    def content(self) -> RequestBody: ...
    @property
    def content_type(self) -> str: ...
    @property
    def content_length(self) -> int | None: ...
    @property
    def can_read_body(self) -> bool: ...
    def get(self, key: Any, default: Any, /) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...


async def body_pieces(request: HttpRequest, limit: int) -> AsyncIterator[bytes]:
    """The pieces of a body as they arrive, but not beyond the limit. Raises `TooLarge`."""
    too_large = TooLarge(f"the body has more than {limit} bytes: send less", limit=limit)
    if (request.content_length or 0) > limit:
        raise too_large
    size = 0
    async for piece in request.content.iter_any():
        size += len(piece)
        if size > limit:
            raise too_large
        yield piece


async def read_body(request: HttpRequest, limit: int) -> bytearray:
    """Read a body into memory. Raises `TooLarge`."""
    data = bytearray()
    async for piece in body_pieces(request, limit):
        data += piece
    return data
