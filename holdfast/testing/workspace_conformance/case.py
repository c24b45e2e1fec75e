"""A conformance case of a workspace: one requirement, and the code that checks it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from holdfast.kernel.errors import ToolFailed
from holdfast.kernel.workspace import Command, CommandExit, PathRefused, Workspace
from holdfast.testing.leaks import no_leaked_tasks

WorkspaceFeature = Literal[
    "commands",  # runs commands, in a POSIX shell
    "links",  # its files may be symbolic links; needs commands, which create them
    "raw_names",  # names that are not UTF-8
    "attach",  # a command outlives its handle, and can be attached to
]
TIMEOUT: Final = 60.0
"""Seconds after which a case fails."""

WorkspaceFactory: TypeAlias = Callable[[], Workspace | AbstractAsyncContextManager[Workspace]]
"""Returns an empty workspace, or an async context manager that yields one."""
WorkspaceCheck: TypeAlias = Callable[[Workspace], Awaitable[None]]


class WorkspaceCase(Struct, frozen=True):
    """One requirement. `str(case)` is its name, as pytest wants it for `ids=str`."""

    name: str
    demand: str
    """The requirement, as a sentence."""
    needs: frozenset[WorkspaceFeature]
    run: WorkspaceCheck

    async def check(self, make: WorkspaceFactory) -> None:
        """Raise `AssertionError` unless the workspace that `make` returns is as required."""
        try:
            async with no_leaked_tasks(), asyncio.timeout(TIMEOUT), _opened(make) as workspace:
                await self.run(workspace)
        except TimeoutError as error:
            raise AssertionError(f"{self.demand}\nit took longer than {TIMEOUT:g} s") from error
        except (AssertionError, ToolFailed) as error:
            raise AssertionError(f"{self.demand}\n{error}") from error

    def __str__(self) -> str:
        return self.name


@asynccontextmanager
async def _opened(make: WorkspaceFactory) -> AsyncIterator[Workspace]:
    made = make()
    if isinstance(made, AbstractAsyncContextManager):
        async with made as workspace:
            yield workspace
    else:
        yield made


def case(*needs: WorkspaceFeature) -> Callable[[WorkspaceCheck], WorkspaceCase]:
    """Decorator that creates a case from a function: its name, and its docstring as requirement."""

    def made(check: WorkspaceCheck) -> WorkspaceCase:
        demand = " ".join((check.__doc__ or "").split())
        return WorkspaceCase(check.__name__, demand, frozenset(needs), check)

    return made


def require(condition: object, message: str) -> None:
    """Raise `AssertionError` with a message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


async def refusal(work: Awaitable[object], *codes: int) -> PathRefused:
    """The refusal that a call must raise, with one of these codes if any are given."""
    try:
        result = await work
    except PathRefused as refused:
        require(not codes or refused.code in codes, f"the code is {refused.code}: {refused}")
        require(str(refused).strip(), "the refusal has no message")
        return refused
    raise AssertionError(f"it was not refused, and returned {result!r:.200}")


async def all_refused(works: Sequence[Coroutine[Any, Any, object]], *codes: int) -> None:
    """Require that each of these calls is refused, as by `refusal`."""
    try:
        for work in works:
            await refusal(work, *codes)
    finally:
        for work in works:
            work.close()  # after a failure the others are not run


async def output_of(command: Command) -> bytes:
    """The rest of the output of a command."""
    pieces = []
    while (piece := await command.read()) is not None:
        pieces.append(piece)
    return b"".join(pieces)


async def finished(command: Command) -> tuple[bytes, CommandExit]:
    """Read a command to its end, and let go of it."""
    try:
        output = await output_of(command)
        return output, await command.wait()
    finally:
        await command.close()


async def run(workspace: Workspace, command: str) -> bytes:
    """The output of a command that must succeed."""
    output, end = await finished(await workspace.start(command, time_limit=TIMEOUT))
    require(end.code == 0, f"{command!r} ended with {end.code}: {output[-500:]!r}")
    return output
