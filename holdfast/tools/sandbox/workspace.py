"""The workspace of kind `sandbox`: a directory of this machine, and commands confined to it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Final

import msgspec

from holdfast.kernel.errors import ToolFailed
from holdfast.kernel.workspace import Command, CommandExit, WorkspaceInfo
from holdfast.tools.commands.process import Launch, start
from holdfast.tools.sandbox import launcher
from holdfast.tools.sandbox.command import (
    PreparedCommand,
    check_landlock,
    check_user,
    in_bubblewrap,
    in_landlock,
)
from holdfast.tools.sandbox.policy import SandboxPolicy
from holdfast.tools.sandbox.proxy import INTERNET, EgressProxy, Outside, proxy_variables
from holdfast.tools.sandbox.support import SandboxSupport
from holdfast.tools.sandbox.support import support as supported
from holdfast.tools.workspace.directory import Directory
from holdfast.tools.workspace.directory_workspace import DirectoryWorkspace

MAX_SIGNAL: Final = 64
SHELLS: Final = ("/bin/bash", "/bin/sh")


class SandboxWorkspace(DirectoryWorkspace):
    """A directory of this machine, whose commands run in a sandbox.

    The file tools work in this process, as in a `DirectoryWorkspace`. Raises `ConfigError` if the
    machine has no layer that can keep the policy, with a remedy: it never runs with less.
    """

    def __init__(
        self,
        policy: SandboxPolicy,
        *,
        support: SandboxSupport | None = None,
        outside: Outside = INTERNET,
    ) -> None:
        """`support`: the layers to use, instead of those found on this machine."""
        directory = Directory(policy.directory)
        super().__init__(directory)
        self._policy = msgspec.structs.replace(policy, directory=directory.path)
        self._support = support or supported()
        self._outside = outside
        self._support.require()
        if self._support.profile == "landlock":
            check_landlock(policy)
        check_user(directory.path)
        self.info = info(self._policy)

    async def start(
        self,
        command: str,
        *,
        directory: str = ".",
        variables: Mapping[str, str] | None = None,
        time_limit: float,
    ) -> Command:
        proxy = EgressProxy(self._policy.network, self._outside)
        environ = {**self._policy.environ, **(variables or {})}
        if self._policy.network:
            environ |= proxy_variables()
        policy = msgspec.structs.replace(self._policy, environ=environ)
        folder = self._directory.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        async with AsyncExitStack() as stack:
            stack.callback(os.close, folder)
            prepared = self._prepare(policy, command, directory, folder, stack)
            inner = start(
                prepared.argv[0],
                command,
                folder,
                {},
                time_limit=time_limit,
                launch=Launch(launcher.__file__, prepared.plan, prepared.descriptors),
            )
            stack.push_async_callback(inner.close)
            if prepared.channel:
                await stack.enter_async_context(proxy.serve(prepared.channel))
            has_monitor = self._support.profile == "bubblewrap"
            return SandboxedCommand(inner, proxy, stack.pop_all(), has_monitor=has_monitor)

    def _prepare(
        self,
        policy: SandboxPolicy,
        command: str,
        directory: str,
        folder: int,
        stack: AsyncExitStack,
    ) -> PreparedCommand:
        argv = [_shell(), "-c", command]
        if self._support.profile == "landlock":
            return stack.enter_context(in_landlock(policy, argv, folder))
        where = os.path.normpath(os.path.join(policy.directory, self._directory.settled(directory)))
        return stack.enter_context(in_bubblewrap(policy, self._support.program, argv, where))


class SandboxedCommand:
    """A command in a sandbox. At the end of its output are the connections that were refused."""

    def __init__(
        self, inner: Command, proxy: EgressProxy, stack: AsyncExitStack, *, has_monitor: bool
    ) -> None:
        """`has_monitor`: bubblewrap waits for the command, and ends with 128 plus its signal."""
        self._inner = inner
        self._has_monitor = has_monitor
        self._proxy = proxy
        self._stack = stack
        self._reported = False

    @property
    def id(self) -> str:
        return self._inner.id

    async def read(self, seconds: float | None = None) -> bytes | None:
        data = await self._inner.read(seconds)
        if data is not None or self._reported or not self._proxy.refusals:
            return data
        self._reported = True
        lines = (f"[refused by the sandbox: {refusal}]\n" for refusal in self._proxy.refusals)
        return "".join(lines).encode(errors="replace")

    async def stop(self) -> None:
        await self._inner.stop()

    async def kill(self) -> None:
        await self._inner.kill()

    async def wait(self) -> CommandExit:
        end = await self._inner.wait()
        if self._has_monitor and end.code is not None and 128 < end.code <= 128 + MAX_SIGNAL:
            return CommandExit(128 - end.code, end.left, end.alive)
        return end

    async def close(self) -> None:
        await self._stack.aclose()


def info(policy: SandboxPolicy) -> WorkspaceInfo:
    """Description of a sandbox, for people and models."""
    hosts = ", ".join(policy.network)
    network = f"with network access to {hosts} only" if hosts else "without network"
    places = [policy.directory, *(mount.path for mount in policy.mounts if mount.writable)]
    writes = " and ".join(places)
    return WorkspaceInfo(
        "sandbox",
        policy.directory,
        f"in a sandbox {network}, writes only to {writes}",
        f"It runs in a sandbox {network}. It can write only to {writes} and to the directory in "
        "TMPDIR,\nwhich is deleted afterwards; most other files of the machine are not visible.",
    )


def _shell() -> str:
    for path in SHELLS:
        if os.path.exists(path):
            return path
    raise ToolFailed(f"neither {' nor '.join(SHELLS)} was found: install one")
