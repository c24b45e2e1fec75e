"""The check of a final answer by a function of the agent, which may use its deps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeAlias, Union

from holdfast.kernel.awaiting import awaited
from holdfast.kernel.errors import ToolFailed, describe
from holdfast.kernel.hook_call import call_hook
from holdfast.kernel.hook_context import Context
from holdfast.kernel.inbox import Interruption
from holdfast.kernel.tool_results import explain
from holdfast.kernel.type_parameters import CheckedT, HookDepsT

OutputCheck: TypeAlias = Callable[[Context[HookDepsT], CheckedT], Union[Awaitable[None], None]]
"""Function that raises `Rejected` for an answer that the model is to give again."""


async def rejection(
    check: OutputCheck[Any, Any],
    context: Context,
    output: Any,
    interruption: Interruption,
    seconds: float,
) -> str | None:
    """The text by which the check rejects an answer, if it does.

    Raises `PrepareError` if the check fails otherwise, and `Interrupted`.
    """

    @wraps(check)  # so that an error names its line
    async def ask(context: Context, output: Any) -> str | None:
        try:
            returned: object = await awaited(check(context, output))
        except ToolFailed as error:
            return explain(error) or describe(error)
        if returned is not None:
            raise TypeError(
                f"it returned a {type(returned).__name__}: return None to accept the answer, "
                "raise Rejected(reason) to reject it; the value cannot be changed"
            )
        return None

    problem: str | None = await call_hook(
        "validate", interruption, ask, context, output, seconds=seconds
    )
    return problem
