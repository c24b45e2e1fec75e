"""No attempt to leave a sandbox succeeds, and the machine is afterwards as it was before."""

from __future__ import annotations

import os
import select
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.tools.sandbox.attempts import ONLY_WITH_MOUNTS, PRELUDE, PYTHON, SHELL
from tests.tools.sandbox.conftest import Result, Surroundings

INTERPRETER: Final = "/usr/bin/python3"
needs_python = pytest.mark.skipif(
    not os.path.exists(INTERPRETER), reason=f"no {INTERPRETER}, which a sandbox would contain"
)


def refuses(surroundings: Surroundings, command: str, **policy: object) -> Result:
    """Run an attempt that has to fail."""
    exports = " ".join(f"{k}={shlex.quote(v)}" for k, v in surroundings.variables().items())
    script = f"export {exports}; echo TRIED\n{command}"
    result = surroundings.run(["/bin/sh", "-c", script], **policy)
    assert "TRIED" in result.output, result
    assert "ESCAPED" not in result.output, result
    assert surroundings.canary not in result.output + result.errors, result
    assert surroundings.snapshot() == surroundings.before
    assert surroundings.sockets.reached == []
    return result


@needs_python
@pytest.mark.parametrize(
    "name",
    [
        *("write_outside", "read_outside", "change_the_mode_of_a_file_outside", "delete_outside"),
        *("write_through_a_link", "rename_from_outside", "environment_of_a_process"),
        *("files_of_a_process", "kill_a_process", "read_a_private_file", "memory_file"),
        *("connect_to_a_service", "send_a_datagram", "abstract_socket", "socket_with_a_name"),
        *("datagram_of_a_pair", "swap_a_link_and_a_directory", "hook"),
        *("hook_by_moving_the_repository", "masked_file", "truncate_outside", "clone3"),
        *("inherited_descriptors", "key_ring", "variables_of_the_server"),
    ],
)
def test_an_attempt_is_a_real_one(unprotected: Surroundings, name: str) -> None:
    """Without a sandbox it succeeds: so it is the sandbox that stops it."""
    surroundings = unprotected
    name = "clone3_into_a_namespace" if name == "clone3" else name
    if name in PYTHON:
        command = f"exec {INTERPRETER} -I -c {shlex.quote(f'{PRELUDE}{PYTHON[name]}')}"
    else:
        command = {**SHELL, **ONLY_WITH_MOUNTS}[name]
    with pytest.raises(AssertionError):
        refuses(surroundings, command)


@pytest.mark.parametrize("name", SHELL)
def test_an_attempt_of_the_shell_fails(surroundings: Surroundings, name: str) -> None:
    refuses(surroundings, SHELL[name])


@needs_python
@pytest.mark.parametrize("name", PYTHON)
def test_an_attempt_by_system_calls_fails(surroundings: Surroundings, name: str) -> None:
    code = f"{PRELUDE}\nprint('RUNS', flush=True)\n{PYTHON[name]}"
    result = refuses(surroundings, f"exec {INTERPRETER} -I -c {shlex.quote(code)}")
    assert "RUNS" in result.output, result


@pytest.mark.parametrize("name", ONLY_WITH_MOUNTS)
def test_an_attempt_that_mounts_stop_fails(surroundings: Surroundings, name: str) -> None:
    if surroundings.profile != "bubblewrap":
        pytest.skip("the fallback has no mounts, and refuses a policy that needs them")
    refuses(surroundings, ONLY_WITH_MOUNTS[name])


def test_the_fallback_refuses_a_policy_that_it_cannot_keep(surroundings: Surroundings) -> None:
    if surroundings.profile == "bubblewrap":
        pytest.skip("namespaces can keep every policy")
    for name, value in (("protected", [".git/hooks"]), ("masked", [".env"]), ("network", ["a.b"])):
        result = surroundings.run(["/bin/sh", "-c", ":"], **{name: value})
        assert result.code == 99
        assert f"cannot have {name}" in result.errors


def test_a_placeholder_is_removed_afterwards(surroundings: Surroundings) -> None:
    refuses(surroundings, "true")
    assert not (surroundings.work / "late").exists()


def test_hooks_cannot_be_created_where_there_are_none(surroundings: Surroundings) -> None:
    if surroundings.profile != "bubblewrap":
        pytest.skip("the fallback has no mounts, and refuses a policy that needs them")
    (surroundings.work / ".git" / "hooks").rmdir()
    command = (
        "rm -rf .git/hooks; mkdir .git/hooks; mv .git .git2; mkdir -p .git/hooks;"
        "echo evil > .git/hooks/pre-commit && echo ESCAPED; ls .git"
    )
    result = surroundings.run(["/bin/sh", "-c", command])
    assert "ESCAPED" not in result.output, result
    assert "config" in result.output, result
    assert [path.name for path in (surroundings.work / ".git").iterdir()] == ["config"]


def test_work_is_done_inside(surroundings: Surroundings) -> None:
    command = 'mkdir a && echo hello > a/b && cat a/b && pwd && test -w "$TMPDIR" && echo fine'
    result = surroundings.run(["/bin/sh", "-c", command])
    assert result.output.splitlines() == ["hello", str(surroundings.work), "fine"], result
    assert result.code == 0
    made = surroundings.work / "a" / "b"
    assert made.read_text() == "hello\n"
    assert made.stat().st_uid == surroundings.owner


def test_the_exit_code_is_the_commands(surroundings: Surroundings) -> None:
    assert surroundings.run(["/bin/sh", "-c", "exit 7"]).code == 7


@needs_python
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("bytearray(400_000_000)", "MemoryError"),
        ("f = open('f', 'wb')\nfor _ in range(30): f.write(bytes(1_000_000))", "File too large"),
        ("x = [open('/dev/null') for _ in range(1000)]", "Too many open files"),
        (
            "import os\nfor _ in range(300):\n  if not os.fork(): import time; time.sleep(20)",
            "temporarily unavailable",
        ),
    ],
    ids=["memory", "file_size", "open_files", "processes"],
)
def test_a_bomb_stops_at_its_limit(surroundings: Surroundings, code: str, message: str) -> None:
    limits = {"memory": 200_000_000, "file_size": 10_000_000, "open_files": 100, "processes": 40}
    whole = f"import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n{code}"
    script = f"{INTERPRETER} -I -c {shlex.quote(whole)}; kill -9 -1"
    result = surroundings.run(["/bin/sh", "-c", script], limits=limits)
    assert message in result.errors, result


def test_the_private_directory_in_memory_is_limited(surroundings: Surroundings) -> None:
    if surroundings.profile != "bubblewrap":
        pytest.skip("the fallback has no directory in memory")
    command = "head -c 20000000 /dev/zero > /tmp/f; head -c 80000000 /dev/zero > /dev/shm/f"
    limits = {"temporary": 10_000_000}
    result = surroundings.run(["/bin/sh", "-c", command], limits=limits)
    assert result.errors.count("No space left") == 2, result


def test_a_daemon_does_not_outlive_the_command(surroundings: Surroundings) -> None:
    if surroundings.profile != "bubblewrap":
        pytest.skip("the fallback has no process namespace: the supervisor ends the processes")
    seconds = f"300.{os.getpid()}"
    surroundings.run(["/bin/sh", "-c", f"setsid sleep {seconds} & echo $!"])
    # The system ends the namespace together with its first process, shortly after the command.
    assert all(map(_ends, _sleeping(seconds)))


def _sleeping(seconds: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes().split(b"\0")[:2] == [b"sleep", seconds.encode()]:
                found.append(int(path.parent.name))
    return found


def _ends(pid: int) -> bool:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 2)[0])
    finally:
        os.close(descriptor)


def test_the_directory_of_root_is_refused_with_a_remedy(surroundings: Surroundings) -> None:
    if os.geteuid() or surroundings.user:
        pytest.skip("needs a server of root")
    os.chown(surroundings.work, 0, 0)
    result = surroundings.run(["/bin/sh", "-c", ":"])
    assert result.code == 99
    assert "chown" in result.errors
