"""A walk as a question and its answer, so a workspace may do all of it at once."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from holdfast.tools.workspace.glob import Glob
from holdfast.tools.workspace.tree import Tree
from holdfast.tools.workspace.walk import DirectoryWalk, WalkEntry

if TYPE_CHECKING:
    from holdfast.kernel.workspace import Workspace
    from holdfast.tools.search_query import SearchQuery


class WalkQuery(Struct, frozen=True):
    """Which entries are wanted."""

    most: int
    """Maximum number of entries returned; the others are counted."""
    seconds: float
    """Time after which the walk stops."""
    path: str = "."
    glob: str = ""
    depth: int | None = None
    all: bool = False


class WalkResult(Struct, frozen=True):
    """The entries, and what they do not show."""

    entries: tuple[WalkEntry, ...]
    more: int
    """Number of further entries."""
    ignored: int
    """Number of matching files that are ignored."""
    left_out: int
    """Number of all ignored entries."""
    visited: int
    unreadable: int
    """Number of directories that could not be listed."""
    stopped: bool
    """Whether the walk stopped early."""


@runtime_checkable
class FileSearcher(Protocol):
    """A workspace that walks and searches by itself, faster than by one call per file."""

    async def walk(self, query: WalkQuery) -> WalkResult: ...

    async def search(self, query: SearchQuery, seconds: float) -> str:
        """Text for the model. `seconds`: after which the search is ended."""
        ...


async def walk_workspace(workspace: Workspace, query: WalkQuery) -> WalkResult:
    """Walk the tree of a workspace. Raises `PathRefused` or `BadGlob`."""
    if isinstance(workspace, FileSearcher):
        return await workspace.walk(query)
    import asyncio

    from holdfast.tools.blocking_work import to_end
    from holdfast.tools.workspace.tree import WorkspaceTree

    tree = WorkspaceTree(workspace, asyncio.get_running_loop())
    return await to_end(partial(walk, tree, query))


def walk(tree: Tree, query: WalkQuery) -> WalkResult:
    """Walk a tree in this thread."""
    until = time.monotonic() + query.seconds
    glob = Glob(query.glob) if query.glob else None
    entries: list[WalkEntry] = []
    more = ignored = 0
    steps = DirectoryWalk(tree, query.path, all=query.all, depth=query.depth, glob=glob)
    late = False
    for seen in steps:
        if steps.wants(seen):
            if seen.left_out and seen.entry.kind != "directory":
                ignored += 1
            elif len(entries) == query.most:
                more += 1
            else:
                entries.append(_with_target(tree, seen))
        if late := time.monotonic() >= until:
            break
    stopped = late or steps.stopped
    counts = (steps.left_out, steps.visited, steps.unreadable)
    return WalkResult(tuple(entries), more, ignored, *counts, stopped)


def _with_target(tree: Tree, seen: WalkEntry) -> WalkEntry:
    if seen.entry.kind != "link" or seen.entry.target:
        return seen
    entry = msgspec.structs.replace(seen.entry, target=tree.link_target(seen.path))
    return msgspec.structs.replace(seen, entry=entry)
