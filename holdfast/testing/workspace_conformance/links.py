"""Conformance cases: links and special files, which commands in the workspace have made."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from holdfast.kernel.workspace import PathRefused, Workspace
from holdfast.testing.workspace_conformance.case import (
    TIMEOUT,
    WorkspaceCase,
    all_refused,
    case,
    finished,
    refusal,
    require,
    run,
)

LIMIT: Final = 1 << 20
OUTSIDE: Final = "workspace-conformance-outside"
RACES: Final = 300
SWAP: Final = """\
while [ ! -e stop ]; do
    mv -T d inside && ln -s "$outside" d && rm d && mv -T inside d
done
"""


@asynccontextmanager
async def outside_directory(workspace: Workspace) -> AsyncIterator[str]:
    """A directory outside the workspace, with a file in it. Harming it harms nothing."""
    made = await run(workspace, "cd $(mktemp -d) && pwd -P && echo outside > file")
    outside = made.decode().strip()
    try:
        yield outside
        await run(workspace, f"test ! -e {outside}/absent && grep -q outside {outside}/file")
    finally:
        await run(workspace, f"rm -r {outside}")


@case("commands", "links")
async def links_do_not_lead_outside(workspace: Workspace) -> None:
    """A link that leads outside is refused by every method, wherever it is in a path."""
    async with outside_directory(workspace) as outside:
        await run(
            workspace, f"ln -s {outside} out; ln -s .. up; ln -s {outside}/file file; mkdir a"
        )
        await run(workspace, f"ln -s ../../ a/up; ln -s out twice; ln -s {outside}/absent new")
        await all_refused([workspace.read(f"{up}/{OUTSIDE}", LIMIT) for up in ("up", "a/up")])
        for path in ("out/file", "file", "twice/file", "new", "out/absent"):
            works = (
                workspace.read(path, LIMIT),
                workspace.open(path),
                workspace.stat(path),
                workspace.list(path),
                workspace.replace(path, b"changed"),
                workspace.create(path),
            )
            await all_refused(works)
        await refusal(workspace.remove("out/file"))


@case("commands", "links")
async def links_inside_are_followed_and_kept(workspace: Workspace) -> None:
    """A link to a file inside is read and replaced as that file, and stays a link."""
    await workspace.replace("real/file", b"old")
    await run(workspace, "ln -s real/file link; ln -s real folder")
    for path in ("link", "folder/file"):
        found = await workspace.read(path, LIMIT)
        require(found.data == b"old", f"{path} has the content {found.data!r}")
        require(found.file == "real/file", f"{path} is known as {found.file}")
        require(await workspace.resolve(path) == "real/file", f"{path} resolves to another file")
    await workspace.replace("link", b"new")
    require((await workspace.read("real/file", LIMIT)).data == b"new", "another file was replaced")
    entries = {it.name: it for it in await workspace.list(".")}
    require(entries["link"].kind == "link", "the link was replaced by a file")
    require(entries["link"].target in ("real/file", ""), f"it leads to {entries['link'].target}")
    await workspace.remove("link")
    require((await workspace.read("real/file", LIMIT)).data == b"new", "the file was removed")


@case("commands", "links")
async def a_loop_of_links_ends(workspace: Workspace) -> None:
    """A loop of links is refused."""
    await run(workspace, "ln -s b a; ln -s a b; ln -s . dot")
    await refusal(workspace.read("a", LIMIT), errno.ELOOP)
    await refusal(workspace.replace("a", b""), errno.ELOOP)


@case("commands", "links")
async def a_link_that_appears_meanwhile_does_not_lead_outside(workspace: Workspace) -> None:
    """A directory that becomes a link while a path is opened never leads outside."""
    async with outside_directory(workspace) as outside:
        await workspace.replace("d/file", b"inside")
        command = await workspace.start(f"outside={outside}\n{SWAP}", time_limit=TIMEOUT)
        try:
            for number in range(RACES):
                try:
                    data = (await workspace.read("d/file", LIMIT)).data
                    require(data == b"inside", f"a file outside was read, at try {number}")
                    await workspace.replace("d/absent", b"")
                except PathRefused:
                    continue
            await workspace.replace("stop", b"")
            await finished(command)
        finally:
            await command.close()


@case("commands")
async def special_files_are_refused_at_once(workspace: Workspace) -> None:
    """A FIFO is neither read nor written, and nothing waits for its other end."""
    await run(workspace, "mkfifo pipe")
    works = (
        workspace.read("pipe", LIMIT),
        workspace.open("pipe"),
        workspace.replace("pipe", b""),
        workspace.create("pipe"),
    )
    async with asyncio.timeout(TIMEOUT / 4):
        await all_refused(works)
    kinds = [it.kind for it in await workspace.list(".")]
    require(kinds == ["other"], f"its kind is {kinds}")


CASES: Final[tuple[WorkspaceCase, ...]] = tuple(
    each for each in tuple(globals().values()) if isinstance(each, WorkspaceCase)
)
