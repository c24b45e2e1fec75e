"""Runs commands in sandboxes, as root or as a user, for the tests: requests on standard input.

Each command is forked off this process, which has imported everything: the interpreter and this
checkout may be out of reach for the user that the child becomes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from holdfast.kernel.errors import ConfigError, ToolFailed
from holdfast.tools.sandbox import launcher
from holdfast.tools.sandbox.command import in_bubblewrap, in_landlock
from holdfast.tools.sandbox.policy import SandboxLimits, SandboxMount, SandboxPolicy

ROOT: Final = Path(__file__).resolve().parents[3]
REFUSED: Final = 99
SECONDS: Final = 20
LISTS: Final = ("network", "masked", "protected")


class CommandServer:
    """A process that runs commands in sandboxes."""

    def __init__(self) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "tests.tools.sandbox.contained"],
            cwd=ROOT,
            env={**os.environ, "HOLDFAST_CANARY": "x"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """The exit code, the output and the errors; exit code 99: the policy was refused."""
        assert self._popen.stdin
        assert self._popen.stdout
        self._popen.stdin.write(json.dumps(request).encode() + b"\n")
        self._popen.stdin.flush()
        done: dict[str, Any] = json.loads(self._popen.stdout.readline())
        return done

    def close(self) -> None:
        with self._popen:
            assert self._popen.stdin
            self._popen.stdin.close()
            self._popen.kill()


def main() -> None:
    for line in sys.stdin:
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            child = os.fork()
            if not child:
                _redirect(output.fileno(), errors.fileno())
                os._exit(_handle(json.loads(line)))
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            texts = []
            for file in (output, errors):
                file.seek(0)
                texts.append(file.read(1_000_000).decode(errors="replace"))
        print(json.dumps({"code": code, "output": texts[0], "errors": texts[1]}), flush=True)


def _redirect(output: int, errors: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((null, output, errors)):
        os.dup2(descriptor, number)


def _handle(request: dict[str, Any]) -> int:
    given = request["policy"]
    limits = SandboxLimits(**given.pop("limits", {}))
    mounts = tuple(SandboxMount(**mount) for mount in given.pop("mounts", ()))
    lists: dict[str, Any] = {key: tuple(given.pop(key)) for key in LISTS if key in given}
    if request["user"]:
        os.setgroups([])
        os.setresgid(*[request["user"]] * 3)
        os.setresuid(*[request["user"]] * 3)
    try:
        return run(request, SandboxPolicy(**given, **lists, limits=limits, mounts=mounts))
    except (ConfigError, ToolFailed, OSError) as error:
        os.write(2, f"{error}\n".encode())
        return REFUSED


def run(request: dict[str, Any], policy: SandboxPolicy) -> int:
    folder = os.open(policy.directory, os.O_RDONLY | os.O_DIRECTORY)
    os.set_inheritable(folder, True)  # a descriptor that must not reach the command
    if request["profile"] == "none":
        os.chdir(policy.directory)
        os.execve(request["command"][0], request["command"], dict(os.environ))
    if request["profile"] == "bubblewrap":
        prepared = in_bubblewrap(policy, request["program"], request["command"], policy.directory)
    else:
        prepared = in_landlock(policy, request["command"], folder)
    with prepared as command:
        child = os.fork()
        if not child:
            os.setsid()
            signal.alarm(SECONDS)  # kept by the program that it becomes
            launcher.main(command.plan)
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) & 0xFF


if __name__ == "__main__":
    main()
