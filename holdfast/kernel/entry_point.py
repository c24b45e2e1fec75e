"""Entry points: functions and classes that users call. Their errors are about the caller's code.

A `ConfigError` that leaves an entry point, and the failure that `run_sync` raises, have no frames
of this library in their tracebacks, so that these end at the line to change; `HOLDFAST_DEBUG=1`
keeps them. A keyword argument that does not exist is answered with the one that was meant.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from os.path import dirname, join
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

from msgspec import StructMeta

from holdfast.kernel.errors import ConfigError, HoldfastError
from holdfast.kernel.keywords import check_keywords, too_many
from holdfast.kernel.ports import wants_debug

P = ParamSpec("P")
T = TypeVar("T")

OURS: Final = (
    join(dirname(dirname(__file__)), ""),
    join(dirname(contextlib.__file__), "asyncio", ""),
    contextlib.__file__,
    functools.__file__,
)
"""Where code is not the caller's: in this package, and where blocks, properties or loops call."""


BY_POSITION: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def entry_point(what: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator of a public function; `what` is its name for people."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        parameters = inspect.signature(function).parameters
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        known = tuple(name for name in parameters if name != "self")
        by_position = [name for name, one in parameters.items() if one.kind in BY_POSITION]
        most = len(by_position)

        def check(args: tuple[object, ...], kwargs: Iterable[str]) -> None:
            if len(args) > most:
                positional = [name for name in by_position if name != "self"]
                raise too_many(what, positional, known[len(positional) :])
            if kwargs and not takes_any:
                check_keywords(what, kwargs, known)

        @functools.wraps(function)
        def entry(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                check(args, kwargs)
                return function(*args, **kwargs)
            except HoldfastError as error:
                hide_our_frames(error)
                raise  # a bare raise does not add this frame

        @functools.wraps(function)
        async def entry_async(*args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                check(args, kwargs)
                return await cast(Awaitable[Any], function(*args, **kwargs))
            except HoldfastError as error:
                hide_our_frames(error)
                raise

        is_async = inspect.iscoroutinefunction(function)
        return cast(Callable[P, T], entry_async) if is_async else entry

    return decorate


class EntryMeta(StructMeta):
    """Class of public structs: their constructors are entry points."""

    if not TYPE_CHECKING:  # type checkers know the fields

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            try:
                if args:
                    check_positional(cls, args)
                if kwargs:
                    check_keywords(cls.__name__, kwargs, cls.__struct_fields__)
                return super().__call__(*args, **kwargs)
            except ConfigError as error:
                hide_our_frames(error)
                raise


def check_positional(cls: StructMeta, given: Sequence[object]) -> None:
    """Raise `TooManyArguments` if a struct takes fewer positional arguments."""
    parameters = inspect.signature(cls).parameters
    positional = [name for name, one in parameters.items() if one.kind in BY_POSITION]
    if len(given) > len(positional):
        others = [name for name in parameters if name not in positional]
        raise too_many(cls.__name__, positional, others)


class EntryContext(AbstractAsyncContextManager[T]):
    """An async context manager whose beginning is an entry point."""

    def __init__(self, manager: AbstractAsyncContextManager[T]) -> None:
        self._manager = manager

    async def __aenter__(self) -> T:
        try:
            return await self._manager.__aenter__()
        except ConfigError as error:
            hide_our_frames(error)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._manager.__aexit__(kind, error, traceback)


def entry_context(
    what: str,
) -> Callable[[Callable[P, AsyncIterator[T]]], Callable[P, AbstractAsyncContextManager[T]]]:
    """Decorator of a public async generator, as `asynccontextmanager`."""

    def decorate(function: Callable[P, AsyncIterator[T]]) -> Callable[P, EntryContext[T]]:
        manager = contextlib.asynccontextmanager(function)

        @entry_point(what)
        @functools.wraps(function)
        def enter(*args: P.args, **kwargs: P.kwargs) -> EntryContext[T]:
            return EntryContext(manager(*args, **kwargs))

        return enter

    return decorate


def hide_our_frames(error: HoldfastError) -> None:
    """Leave only the frames of the caller's own functions in a traceback."""
    if wants_debug():
        return
    frames, entry = [], error.__traceback__
    while entry is not None:
        frames.append(entry)
        entry = entry.tb_next
    kept: TracebackType | None = None
    for entry in reversed(frames):
        if not entry.tb_frame.f_code.co_filename.startswith(OURS):
            entry.tb_next, kept = kept, entry
    error.__traceback__ = kept


def level_of_caller() -> int:
    """The `stacklevel` by which a warning points at the caller's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OURS):
        frame, level = frame.f_back, level + 1
    return level
