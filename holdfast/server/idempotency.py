"""Idempotency of requests: a change with an `Idempotency-Key` is made once, and answered again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.chat import idempotency
from holdfast.chat.handle import key_of
from holdfast.chat.idempotency import Key
from holdfast.server.operation import ApiCall
from holdfast.store.database import Tx

T = TypeVar("T")


def key_for(call: ApiCall, what: str, body: object) -> Key | None:
    """The key of a request, bound to the caller, the operation and the body."""
    return key_of(call.user, call.key, what, (body,))


async def once(
    call: ApiCall,
    what: str,
    body: object,
    kind: type[T],
    change: Callable[[Tx], Awaitable[T]],
    makes: str | None = None,
) -> T:
    """Make a change, or return the response of the first time. `kind`: type of the response."""
    key = key_for(call, what, body)
    return await idempotency.once(call.server.db, key, kind, change, makes)


async def stored_response(call: ApiCall, what: str, body: object, kind: type[T]) -> T | None:
    """The response of the first time, if the request was made before."""
    key = key_for(call, what, body)
    return await idempotency.stored_response(call.server.db, key, kind)
