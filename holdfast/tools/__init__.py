"""Tools that come with holdfast: files of one directory, commands in it, questions to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from holdfast.kernel.tool import Tool


def bundled(
    directory: str | os.PathLike[str],
    *,
    approval: Literal["ask", "never"] = "ask",
    pass_env: Sequence[str] = (),
) -> tuple[Tool, ...]:
    """All of them, confined to a directory.

    Reading, listing and searching need no agreement; writing, editing and running ask for it unless
    `approval` is "never". Commands run as you: they are not confined. `pass_env`: names of
    variables that commands get beside the usual ones, also patterns such as `AWS_*`.
    """
    from holdfast.tools.ask_user import ask_user
    from holdfast.tools.edit_file import edit_file
    from holdfast.tools.execute import execute
    from holdfast.tools.list_files import list_files
    from holdfast.tools.read_file import read_file
    from holdfast.tools.search_files import search_files
    from holdfast.tools.workspace.directory import Directory
    from holdfast.tools.write_file import write_file

    root = Directory(directory)
    return (
        list_files(root),
        search_files(root),
        read_file(root),
        write_file(root, approval=approval),
        edit_file(root, approval=approval),
        execute(root, approval=approval, pass_env=pass_env),
        ask_user(),
    )
