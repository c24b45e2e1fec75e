"""Commands of an agent in a sandbox: what they can do, and what people and models read of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from holdfast.kernel.errors import ConfigError, ToolFailed
from holdfast.kernel.messages import ToolResult
from holdfast.kernel.tool import ToolContext
from holdfast.testing import no_leaked_tasks
from holdfast.testing.workspace_conformance import WorkspaceCase, cases
from holdfast.tools.execute import execute
from holdfast.tools.sandbox.command import NOBODY
from holdfast.tools.sandbox.policy import SandboxMount, SandboxPolicy
from holdfast.tools.sandbox.support import SandboxLayer, SandboxSupport, support
from holdfast.tools.sandbox.workspace import SandboxWorkspace

T = TypeVar("T")


def profiles() -> list[Any]:
    return [
        pytest.param(
            SandboxSupport((layer,), support().program),
            id=layer.name,
            marks=[] if layer.works else pytest.mark.skip(reason=f"{layer.name}: {layer.problem}"),
        )
        for layer in support().layers
    ]


@pytest.fixture(params=profiles())
def layers(request: pytest.FixtureRequest) -> SandboxSupport:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def work() -> Iterator[Path]:
    path = Path(os.path.realpath(tempfile.mkdtemp(prefix="workspace-")))
    if not os.geteuid():
        os.chown(path, NOBODY, NOBODY)
    yield path
    shutil.rmtree(path)


def policy(work: Path, layers: SandboxSupport, **more: Any) -> SandboxPolicy:
    protected = {} if layers.profile == "bubblewrap" else {"protected": ()}
    return SandboxPolicy(directory=str(work), **{**protected, **more})


def in_real_time(test: Coroutine[Any, Any, T]) -> T:
    async def run() -> T:
        return await test

    with asyncio.Runner() as runner:
        return runner.run(no_leaked_tasks()(run)())


async def called(workspace: SandboxWorkspace, command: str, **values: Any) -> ToolResult:
    async def ignore(*_: object) -> None: ...

    tool = execute(workspace, approval="never")
    assert tool.function
    return await tool.function(ToolContext("call_1", ignore), command=command, **values)  # type: ignore[no-any-return]


def run(work: Path, layers: SandboxSupport, command: str, **values: Any) -> ToolResult:
    workspace = SandboxWorkspace(policy(work, layers), support=layers)
    return in_real_time(called(workspace, command, **values))


PRIVATE_TMP: Final = frozenset(
    {"links_do_not_lead_outside", "a_link_that_appears_meanwhile_does_not_lead_outside"}
)
PRIVATE_PROCESSES: Final = frozenset(
    {
        "an_endless_flood_can_be_stopped",
        "a_command_ends_when_its_time_is_up",
        "processes_left_behind_are_stopped",
    }
)


@pytest.mark.parametrize("case", cases(without={"attach"}), ids=str)
def test_a_sandbox_fulfils_the_contract(
    case: WorkspaceCase, work: Path, layers: SandboxSupport
) -> None:
    if case.name in PRIVATE_TMP:
        pytest.skip("the next command does not see the directory that one makes in /tmp")
    if layers.profile == "bubblewrap" and case.name in PRIVATE_PROCESSES:
        pytest.skip("a number of a process stands for another one in the next command")
    asyncio.run(case.check(lambda: SandboxWorkspace(policy(work, layers), support=layers)))


def test_a_command_works_in_the_directory_and_nowhere_else(
    work: Path, layers: SandboxSupport
) -> None:
    outside = work.parent / f"{work.name}-outside"
    command = f"echo hello > file; cat file; touch {outside}; pwd; exit 3"
    result = run(work, layers, command)
    assert result.outcome == "ok"
    assert "hello\n" in result.text
    assert f"\n{work}\n" in result.text
    assert "[exit code 3, " in result.text
    assert not outside.exists()


def test_a_command_starts_in_a_directory_inside(work: Path, layers: SandboxSupport) -> None:
    (work / "a" / "b").mkdir(parents=True)
    assert f"{work}/a/b\n" in run(work, layers, "pwd", directory="a/b").text


def test_no_descriptor_is_left_open(work: Path, layers: SandboxSupport) -> None:
    run(work, layers, "true")
    before = len(os.listdir("/proc/self/fd"))
    run(work, layers, "true")
    assert len(os.listdir("/proc/self/fd")) == before


def test_nothing_of_the_command_outlives_its_time_limit(work: Path, layers: SandboxSupport) -> None:
    seconds = f"4000.{os.getpid()}"
    command = f"setsid sleep {seconds} & (sleep {seconds} &) ; sleep {seconds}"
    began = time.monotonic()
    result = run(work, layers, command, timeout=0.5)
    assert result.outcome == "timed_out"
    assert time.monotonic() - began < 10
    found = subprocess.run(["pgrep", "-f", f"^sleep {seconds}"], capture_output=True, check=False)
    assert found.stdout == b""


def test_a_file_written_by_a_tool_can_be_changed_by_a_command(
    work: Path, layers: SandboxSupport
) -> None:
    workspace = SandboxWorkspace(policy(work, layers), support=layers)

    async def test() -> ToolResult:
        await workspace.replace("new/file", b"one\n")
        return await called(workspace, "echo two >> new/file && touch new/other && cat new/file")

    assert "one\ntwo\n" in in_real_time(test()).text


def test_a_refused_connection_is_in_the_result(work: Path, layers: SandboxSupport) -> None:
    if layers.profile != "bubblewrap":
        pytest.skip("the fallback has no network")
    if not os.path.exists("/usr/bin/curl"):
        pytest.skip("no /usr/bin/curl, which a sandbox would contain")
    workspace = SandboxWorkspace(policy(work, layers, network=("allowed.test",)), support=layers)
    result = in_real_time(called(workspace, "curl -s http://evil.test/"))
    assert "[refused by the sandbox: evil.test:80 is not allowed" in result.text


def test_people_and_models_read_how_a_command_is_confined(
    work: Path, layers: SandboxSupport
) -> None:
    workspace = SandboxWorkspace(policy(work, layers), support=layers)
    tool = execute(workspace)
    assert tool.preview
    preview = tool.preview({"command": "ls"})
    assert isinstance(preview, str)
    assert preview.startswith(
        f"Runs in a sandbox without network, writes only to {work}, in {work}"
    )
    assert "It runs in a sandbox without network." in tool.description


def test_writable_mounts_and_hosts_are_named(work: Path) -> None:
    if support().profile != "bubblewrap":
        pytest.skip("the fallback has no network")
    given = SandboxPolicy(
        directory=str(work), mounts=(SandboxMount("/srv", writable=True),), network=("a.org",)
    )
    isolation = SandboxWorkspace(given).info.isolation
    assert isolation == (
        f"in a sandbox with network access to a.org only, writes only to {work} and /srv"
    )


def test_a_machine_without_layers_is_refused(work: Path) -> None:
    lacks = SandboxLayer("bubblewrap", False, "it was not found", "install it")
    with pytest.raises(ConfigError, match="this machine has no sandbox"):
        SandboxWorkspace(SandboxPolicy(directory=str(work)), support=SandboxSupport((lacks,)))


def test_the_fallback_refuses_protected_paths_when_it_is_created(work: Path) -> None:
    only = SandboxSupport((SandboxLayer("landlock", True),))
    with pytest.raises(ConfigError, match="cannot have protected"):
        SandboxWorkspace(SandboxPolicy(directory=str(work)), support=only)


def test_a_mount_that_does_not_exist_is_a_failure_of_the_call(
    work: Path, layers: SandboxSupport
) -> None:
    given = policy(work, layers, mounts=(SandboxMount("/srv/does-not-exist"),))
    workspace = SandboxWorkspace(given, support=layers)
    with pytest.raises(ToolFailed, match="cannot show /srv/does-not-exist"):
        in_real_time(called(workspace, "true"))
