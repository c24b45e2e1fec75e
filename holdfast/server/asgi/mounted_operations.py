"""The operations that are mounted, and their OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from msgspec import structs

import holdfast.server.routes  # noqa: F401 - registers the operations
from holdfast.server.asgi.asgi_request import AsgiRequest
from holdfast.server.http_request import HttpRequest
from holdfast.server.openapi import described
from holdfast.server.operation import OPERATIONS, ApiCall, Operation

OF_A_SERVER: Final = ("/users", "/tokens", "/session", "/providers", "/chats/{chat}/shares")
"""Paths of operations that manage the users of a server, and its keys: the application has its
own."""
DOCUMENT: Final = ("GET", "/openapi.json")


@cache
def mounted_operations() -> tuple[Operation, ...]:
    """The operations of a mounted application."""
    return tuple(
        structs.replace(each, handle=openapi, raw=True) if key == DOCUMENT else each
        for key, each in OPERATIONS.items()
        if not each.path.startswith(OF_A_SERVER)
    )


async def openapi(call: ApiCall, request: HttpRequest) -> dict[str, Any]:
    assert isinstance(request, AsgiRequest)
    return {**_document(), "servers": [{"url": request.root_path or "/"}]}


@cache
def _document() -> Mapping[str, Any]:
    return described(mounted_operations())
