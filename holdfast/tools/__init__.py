"""The bundled tools: files and commands of a workspace, questions to a person.

Each tool is a module with the tool's name. Next to it, a Markdown file has the description that the
model reads. Read `read_file.py` first: it is the smallest complete tool.

- The tools reach files and commands only through `kernel/workspace.py`. `workspace/` is the kind
  `directory`, `files/` has the pure functions on text, and `commands/` runs a command.
  `subagents/` has the tools that spawn other chats.
- A tool raises `ToolFailed` with a message for the model: the fact, then what to do. A negative
  answer, such as a missing file, is an `ExpectedFailure`.
- A path is never checked first and opened afterwards. Blocking work runs in a thread
  (`blocking_work.py`), and a search in a process of its own, which can be killed.

Only `subagents/` imports chats. No module here imports a worker, the server or the command line.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.kernel.tool import Tool
    from holdfast.kernel.workspace import Workspace


def bundled(
    workspace: str | PathLike[str] | Workspace,
    *,
    approval: Literal["ask", "never"] = "ask",
    pass_env: Sequence[str] = (),
) -> tuple[Tool, ...]:
    """All bundled tools, for a workspace: the path of a directory, or a `Workspace`.

    Reading, listing and searching need no approval; writing, editing and running commands do,
    unless `approval` is "never". Commands in a directory run as you: they are not confined.
    `pass_env`: names of additional variables that commands get, or patterns such as `AWS_*`.
    """
    from holdfast.tools.ask_user import ask_user
    from holdfast.tools.edit_file import edit_file
    from holdfast.tools.execute import execute
    from holdfast.tools.list_files import list_files
    from holdfast.tools.read_file import read_file
    from holdfast.tools.search_files import search_files
    from holdfast.tools.workspace.directory_workspace import DirectoryWorkspace
    from holdfast.tools.write_file import write_file

    if isinstance(workspace, (str, PathLike)):
        workspace = DirectoryWorkspace(workspace)
    return (
        list_files(workspace),
        search_files(workspace),
        read_file(workspace),
        write_file(workspace, approval=approval),
        edit_file(workspace, approval=approval),
        execute(workspace, approval=approval, pass_env=pass_env),
        ask_user(),
    )
