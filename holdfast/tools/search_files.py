"""The `search_files` tool. The search runs in a process of its own: `search_process.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.kernel.tool import Tool, Values
from holdfast.kernel.workspace import Workspace
from holdfast.tools.description_file import description
from holdfast.tools.display_text import on_one_line
from holdfast.tools.search_query import SearchQuery

TIME_LIMIT: Final = 30.0
SOFT_LIMIT: Final = 0.8
"""Fraction of its time after which a search returns what it has, unless stuck in one line."""
MAX_LABEL: Final = 60

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "pattern": {
            "type": "string",
            "minLength": 1,
            "maxLength": 2000,
            "description": "A regular expression; with `literal`, plain text.",
        },
        "path": {
            "type": "string",
            "description": "The directory or file to search in. Default: the working directory.",
        },
        "literal": {
            "type": "boolean",
            "description": "Treat the pattern as plain text. Default: false.",
        },
        "glob": {
            "type": "string",
            "maxLength": 500,
            "description": "Only files that match, e.g. `*.py` or `src/**/*.ts`.",
        },
        "ignore_case": {
            "type": "boolean",
            "description": "Ignore case. Default: false.",
        },
        "context": {
            "type": "integer",
            "minimum": 0,
            "maximum": 5,
            "description": "Lines to show before and after each match. Default: 0.",
        },
        "all": {
            "type": "boolean",
            "description": "Include ignored files (.gitignore, .git, node_modules …).",
        },
        "max_results": {
            "type": "integer",
            "minimum": 1,
            "maximum": 1000,
            "description": "Maximum number of matches to show. Default: 100.",
        },
    },
    "required": ["pattern"],
    "additionalProperties": False,
}


def search_files(workspace: Workspace, *, seconds: float = TIME_LIMIT) -> Tool:
    """The `search_files` tool. `seconds`: time limit of a search."""

    async def run(
        pattern: str,
        path: str = ".",
        literal: bool = False,
        glob: str = "",
        ignore_case: bool = False,
        context: float = 0,
        all: bool = False,
        max_results: float = 100,
    ) -> str:
        from holdfast.tools.search_process import search_workspace

        query = SearchQuery(
            pattern=pattern,
            path=workspace.relative(path),
            literal=literal,
            glob=glob,
            ignore_case=ignore_case,
            context=int(context),  # JSON schema counts 2.0 as an integer
            all=all,
            max_results=int(max_results),
            seconds=SOFT_LIMIT * seconds,
        )
        return await search_workspace(workspace, query, seconds)

    return Tool(
        name="search_files",
        description=description(__file__),
        schema=SCHEMA,
        function=run,
        effect="pure",
        describe=label,
    )


def label(values: Values) -> str:
    """Title of a call, for people."""
    pattern, path = values["pattern"], values.get("path", ".")
    short = pattern if len(pattern) <= MAX_LABEL else pattern[: MAX_LABEL - 1] + "…"
    return f"Search for {short!r}" + ("" if path == "." else f" in {on_one_line(path)}")
