"""Each kind of workspace fulfils the contract, and the suite catches one that does not."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.kernel.errors import ConfigError, ToolFailed
from holdfast.kernel.workspace import Command, CommandExit, FileContent, PathRefused
from holdfast.testing import workspace_conformance
from holdfast.testing.workspace_conformance import CASES, WorkspaceCase, cases
from holdfast.tools import bundled
from holdfast.tools.search_process import search_workspace
from holdfast.tools.search_query import SearchQuery
from holdfast.tools.workspace.directory_workspace import DirectoryWorkspace
from tests.tools.real_time import in_real_time
from tests.tools.workspace_kinds import memory_workspace


@pytest.mark.parametrize("case", cases(without={"attach"}), ids=str)
def test_a_directory_fulfils_the_contract(case: WorkspaceCase, tmp_path: Path) -> None:
    asyncio.run(case.check(lambda: DirectoryWorkspace(tmp_path)))


@pytest.mark.parametrize("case", cases(without={"commands", "links", "attach"}), ids=str)
async def test_the_kind_of_the_documentation_fulfils_the_contract(case: WorkspaceCase) -> None:
    await case.check(memory_workspace)


def test_a_feature_that_no_case_needs_is_refused() -> None:
    with pytest.raises(ConfigError, match="no case needs wings: use some of commands"):
        cases(without={"wings"})  # type: ignore[arg-type]  # what is tested


async def test_all_cases_can_be_checked_at_once(tmp_path: Path) -> None:
    without = frozenset[workspace_conformance.WorkspaceFeature]({"commands", "links", "attach"})
    passed = await workspace_conformance.check_all(memory_workspace, without=without)
    assert passed == tuple(case.name for case in cases(without=without))


# --- The suite catches a workspace that breaks the contract ------------------------------------


class Broken(DirectoryWorkspace):
    """A directory without care for one part of the contract."""

    async def close(self) -> None:
        """Stop what was not stopped."""


class Following(Broken):
    """Checks a path and opens it afterwards, as if nothing could change."""

    async def read(self, path: str, limit: int) -> FileContent:
        found = Path(self.info.root, self.relative(path))
        try:
            data = await asyncio.to_thread(found.read_bytes)
        except OSError as error:
            raise PathRefused(str(error), error.errno or 0) from None
        return FileContent(data, str(hash(data)), self.relative(path))


class Overwriting(Broken):
    async def replace(self, path: str, data: bytes, *, expected: str | None = None) -> str:
        return await super().replace(path, data)


class InPlace(Broken):
    async def replace(self, path: str, data: bytes, *, expected: str | None = None) -> str:
        found = Path(self.info.root, path)
        for start in range(0, len(data), 1 << 18):
            await asyncio.to_thread(found.write_bytes, data[: start + (1 << 18)])
        return ""


class Limitless(Broken):
    async def read(self, path: str, limit: int) -> FileContent:
        return await super().read(path, 1 << 40)


class Passing(Broken):
    """Gives a command all variables of this process."""

    async def start(
        self,
        command: str,
        *,
        directory: str = ".",
        variables: Mapping[str, str] | None = None,
        time_limit: float,
    ) -> Command:
        more = {**os.environ, **(variables or {})}
        return await super().start(
            command, directory=directory, variables=more, time_limit=time_limit
        )


class Forgetful:
    """A command that says that it has ended when it is asked to stop, and goes on."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._stopped = False
        self.id = command.id

    async def read(self, seconds: float | None = None) -> bytes | None:
        return None if self._stopped else await self._command.read(seconds)

    async def stop(self) -> None:
        self._stopped = True

    async def kill(self) -> None:
        pass

    async def wait(self) -> CommandExit:
        return CommandExit(-15) if self._stopped else await self._command.wait()

    async def close(self) -> None:
        if not self._stopped:
            await self._command.close()


class NotStopping(Broken):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._left: list[Command] = []

    async def start(self, command: str, **options: Any) -> Command:
        started = await super().start(command, **options)
        self._left.append(started)
        return Forgetful(started)

    async def close(self) -> None:
        for command in self._left:
            await command.stop()
            await command.wait()
            await command.close()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Following, "links_do_not_lead_outside"),
        (Overwriting, "a_file_is_replaced_only_in_the_expected_version"),
        (Overwriting, "of_concurrent_changes_one_succeeds"),
        (InPlace, "a_file_is_replaced_atomically"),
        (Limitless, "a_file_above_the_limit_is_refused"),
        (Passing, "secrets_of_this_process_are_not_passed"),
        (NotStopping, "a_command_that_is_stopped_leaves_nothing_running"),
    ],
)
def test_a_workspace_that_breaks_the_contract_is_caught(
    kind: type[Broken], name: str, tmp_path: Path
) -> None:
    (case,) = (case for case in CASES if case.name == name)
    with pytest.raises(AssertionError, match=case.demand.split(".")[0][:40]):
        asyncio.run(case.check(lambda: closing(kind(tmp_path))))


@asynccontextmanager
async def closing(workspace: Broken) -> AsyncIterator[Broken]:
    try:
        yield workspace
    finally:
        await workspace.close()


# --- The bundled tools over a kind that only has the protocol -----------------------------------


async def tools_of_memory() -> dict[str, Any]:
    workspace = memory_workspace()
    files = {
        "src/a.py": b"import os\nprint(os.name)\n",
        "src/deep/b.py": b"import sys\n",
        "notes.txt": b"nothing\n",
        ".gitignore": b"*.log\n",
        "x.log": b"import this\n",
        "caf\udce9.txt": b"import that\n",
    }
    for path, data in files.items():
        await workspace.replace(path, data)
    return {tool.name: tool.function for tool in bundled(workspace)}


@in_real_time
async def test_any_workspace_can_be_listed() -> None:
    tools = await tools_of_memory()
    listed = await tools["list_files"](pattern="*.{py,log}")
    assert listed.splitlines() == [
        "src/a.py  25 B",
        "src/deep/b.py  11 B",
        "Ignored entries not listed: 1; set all=true to list them.",
    ]
    with pytest.raises(PathRefused, match=r"notes\.txt is a file: read it"):
        await tools["list_files"](path="notes.txt")
    with pytest.raises(PathRefused) as refused:
        await tools["list_files"](path="missing")
    assert refused.value.code == errno.ENOENT


@in_real_time
async def test_any_workspace_can_be_searched() -> None:
    tools = await tools_of_memory()
    found = await tools["search_files"](pattern="import (os|sys|this|that)")
    assert found.splitlines() == [
        "'caf\\udce9.txt':1: import that",
        "src/a.py:1: import os",
        "src/deep/b.py:1: import sys",
        "3 matches in 3 files.",
    ]
    with pytest.raises(ToolFailed, match="missing does not exist"):
        await tools["search_files"](pattern="x", path="missing")
    in_one = await tools["search_files"](pattern="import", path="src/a.py")
    assert in_one.splitlines() == ["src/a.py:1: import os", "1 match in 1 file."]


@in_real_time
async def test_a_search_of_any_workspace_ends_when_its_time_is_up() -> None:
    workspace = memory_workspace()
    await workspace.replace("a", b"x" * 40 + b"!\n")
    with pytest.raises(ToolFailed, match="the search took longer than 1 s"):
        await search_workspace(workspace, SearchQuery("(x+x+)+y"), 1.0)
