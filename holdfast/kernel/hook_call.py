"""The call of a hook: an interrupt ends it, and an exception becomes a `PrepareError`.

An error that may pass is retried like a failed model call. An exception that Python itself has for
a mistake in code, such as an `AttributeError`, fails the turn at once.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from math import inf
from os.path import basename, dirname, join
from traceback import walk_tb
from typing import Any, Final

import anyio

from holdfast.kernel.awaiting import awaited
from holdfast.kernel.entry_point import OURS
from holdfast.kernel.errors import (
    ConfigError,
    ModelError,
    PrepareError,
    classify,
    describe,
    ungrouped,
)
from holdfast.kernel.hook_context import Context
from holdfast.kernel.inbox import Interrupted, Interruption
from holdfast.kernel.ports import wants_debug
from holdfast.kernel.result import RunFailed

MISTAKES: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""Exceptions that Python itself raises for a mistake in code."""
_INSTALLED: Final = (*OURS, join(dirname(contextlib.__file__), ""))
MAX_DESCRIPTION: Final = 300


async def call_hook(
    name: str,
    interruption: Interruption,
    hook: Callable[..., Any],
    context: Context,
    *args: object,
    seconds: float = inf,
) -> Any:
    """Call a hook. A failure, or no answer after so many seconds, becomes a `PrepareError`. Raises
    `Interrupted`."""
    try:
        answer = hook(context, *args)
        if not inspect.isawaitable(answer):
            return answer
        with anyio.move_on_after(seconds) as scope, interruption.stops(scope.cancel):
            if interruption.requested:
                scope.cancel()
            return await awaited(answer)
    except Exception as error:
        raise hook_error(name, context.agent, hook, error) from error
    if interruption.requested:
        raise Interrupted
    raise PrepareError(f"{name} took longer than {seconds:g} s", agent=context.agent)


def hook_error(
    name: str, agent: str, function: Callable[..., Any], error: Exception
) -> PrepareError:
    """The error for an exception of a function of the user, whose traceback then begins there."""
    _drop_our_first_frames(error)
    text, where = describe(error), location(error, function)
    if len(text) > MAX_DESCRIPTION:
        text = text[:MAX_DESCRIPTION] + "…"
    return PrepareError(
        f"{name} failed: {text}{where and f' ({where})'}", agent=agent, retryable=may_pass(error)
    )


def may_pass(error: BaseException) -> bool:
    """Whether the same call may succeed later: the error is not a mistake in code.

    Only Python's own classes count as one: those that libraries derive from them are often about
    data from elsewhere, such as `json.JSONDecodeError`.
    """
    error = ungrouped(error)
    if isinstance(error, RunFailed):
        return error.failure.retryable
    if isinstance(error, ModelError):
        return classify(error).retryable
    is_mistake = isinstance(error, MISTAKES) and type(error).__module__ == "builtins"
    return not (is_mistake or isinstance(error, ConfigError))


def location(error: Exception, function: Callable[..., Any]) -> str:
    """The line of the user's own code where an exception was raised, as `app.py, line 8`.

    An exception without such a line was raised by the call of the function, so it is there.
    """
    lines = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    own = [
        one for one in lines if not one[0].startswith(_INSTALLED) and "site-packages" not in one[0]
    ]
    code = getattr(inspect.unwrap(function), "__code__", None)
    if not own and code is not None:
        own = [(code.co_filename, code.co_firstlineno)]
    return f"{basename(own[-1][0])}, line {own[-1][1]}" if own else ""


def _drop_our_first_frames(error: Exception) -> None:
    """Let the traceback begin where the user's own code does."""
    entry = error.__traceback__
    while entry is not None and entry.tb_frame.f_code.co_filename.startswith(OURS):
        entry = entry.tb_next
    if not wants_debug():
        error.__traceback__ = entry
