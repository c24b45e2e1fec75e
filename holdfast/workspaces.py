"""Workspaces: where the bundled tools act, and the protocol for a kind of your own."""

from __future__ import annotations

from holdfast.kernel.workspace import (
    CannotAttach as CannotAttach,
)
from holdfast.kernel.workspace import (
    Command as Command,
)
from holdfast.kernel.workspace import (
    CommandExit as CommandExit,
)
from holdfast.kernel.workspace import (
    DirectoryEntry as DirectoryEntry,
)
from holdfast.kernel.workspace import (
    FileContent as FileContent,
)
from holdfast.kernel.workspace import (
    NewFile as NewFile,
)
from holdfast.kernel.workspace import (
    OpenFile as OpenFile,
)
from holdfast.kernel.workspace import (
    PathRefused as PathRefused,
)
from holdfast.kernel.workspace import (
    Workspace as Workspace,
)
from holdfast.kernel.workspace import (
    WorkspaceInfo as WorkspaceInfo,
)
from holdfast.tools.sandbox.policy import (
    SandboxLimits as SandboxLimits,
)
from holdfast.tools.sandbox.policy import (
    SandboxMount as SandboxMount,
)
from holdfast.tools.sandbox.policy import (
    SandboxPolicy as SandboxPolicy,
)
from holdfast.tools.sandbox.workspace import (
    SandboxWorkspace as SandboxWorkspace,
)
from holdfast.tools.workspace.directory_workspace import (
    DirectoryWorkspace as DirectoryWorkspace,
)
