"""A change that a request names with its key is carried out once: asked again, it answers again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.chat import machine
from holdfast.chat.handle import key_of
from holdfast.chat.machine import Key, Machine
from holdfast.server.operation import Call
from holdfast.store.database import Tx

T = TypeVar("T")


def key_for(call: Call, what: str, body: object) -> Key | None:
    """The key of a request. It belongs to whoever calls, and to what they ask."""
    return key_of(call.user, call.key, what, (body,))


async def once(
    call: Call,
    what: str,
    body: object,
    kind: type[T],
    change: Callable[[Tx], Awaitable[T]],
    makes: str | None = None,
) -> T:
    """Carry out a change, or answer what it answered the first time. `kind`: of the answer."""
    key = key_for(call, what, body)
    return await machine.once(call.server.db, key, kind, change, makes)


async def answered(call: Call, what: str, body: object, kind: type[T]) -> T | None:
    """What the request was answered the first time, if there was one."""
    known = Machine(call.server.db, call.server.ports)
    return await known.remembered(key_for(call, what, body), kind)
