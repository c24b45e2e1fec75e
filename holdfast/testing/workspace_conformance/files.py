"""Conformance cases: files of a workspace."""

from __future__ import annotations

import asyncio
import errno
from typing import Final

from holdfast.kernel.workspace import PathRefused, Workspace
from holdfast.testing.workspace_conformance.case import (
    WorkspaceCase,
    all_refused,
    case,
    refusal,
    require,
    run,
)

LIMIT: Final = 1 << 20
LARGE: Final = 20 << 20
OUTSIDE: Final = "workspace-conformance-outside"
ODD_NAMES: Final = (
    "long" * 50,
    *("a b", " lead", "trail ", "-rf", "--", "q'uo\"te", "back\\slash", "new\nline", "tab\t"),
    *(
        "star*",
        "[x]",
        "?",
        "$HOME",
        "`id`",
        "a;b",
        "a|b",
        "#c",
        "ünï",
        "日本",
        ".hidden",
        "a" * 200,
    ),
)


@case()
async def a_file_is_read_as_it_was_written(workspace: Workspace) -> None:
    """The bytes that `replace` wrote are those that `read` returns, with the same version."""
    for data in (b"", b"one\n", bytes(range(256)), b"\r\n\0"):
        version = await workspace.replace("file", data)
        found = await workspace.read("file", LIMIT)
        require(found.data == data, f"{found.data!r} was read instead of {data!r}")
        require(found.version == version, "read and replace disagree about the version")


@case()
async def a_version_changes_with_the_bytes(workspace: Workspace) -> None:
    """The version differs whenever the bytes differ, also for a file of the same size."""
    contents = (b"", b"a", b"b", b"ab", b"ba")
    versions = [await workspace.replace("file", data) for data in contents]
    require(len(set(versions)) == len(contents), f"the versions are {versions}")


@case()
async def a_missing_path_is_refused_as_missing(workspace: Workspace) -> None:
    """A path that does not exist is refused with `ENOENT`, which does not count as a failure."""
    for path in ("missing", "missing/file"):
        works = (
            workspace.read(path, LIMIT),
            workspace.open(path),
            workspace.stat(path),
            workspace.list(path),
            workspace.remove(path),
        )
        await all_refused(works, errno.ENOENT)
    refused = await refusal(workspace.read("missing", LIMIT))
    require(refused.expected, "the refusal counts as a failure")


@case()
async def missing_directories_are_created(workspace: Workspace) -> None:
    """`replace` and `create` create the directories of a new file."""
    await workspace.replace("a/b/c.txt", b"c")
    file = await workspace.create("a/d/e.txt")
    await file.close()
    names = [entry.name for entry in await workspace.list("a")]
    require(names == ["b", "d"], f"the directory has {names}")
    await refusal(workspace.replace("a/b/c.txt/d", b""), errno.ENOTDIR)


@case()
async def paths_that_lead_outside_are_refused(workspace: Workspace) -> None:
    """A path that leaves the top directory is refused by every method."""
    await workspace.replace("a/file", b"inside")
    for path in ("..", f"../{OUTSIDE}", f"a/../../{OUTSIDE}", "/", "/etc/passwd"):
        works = (
            workspace.read(path, LIMIT),
            workspace.open(path),
            workspace.stat(path),
            workspace.list(path),
        )
        await all_refused(works)
    # What is written here harms nothing, if it is written.
    for path in (f"../{OUTSIDE}", f"a/../../{OUTSIDE}", f"/{OUTSIDE}"):
        works_on_files = (
            workspace.replace(path, b"outside"),
            workspace.create(path),
            workspace.remove(path),
        )
        await all_refused(works_on_files)


@case()
async def paths_that_cannot_exist_are_refused(workspace: Workspace) -> None:
    """An empty path, and one with a NUL character, are refused."""
    for path in ("", "a\0b"):
        await refusal(workspace.read(path, LIMIT))
        await refusal(workspace.replace(path, b""))
        try:
            relative = workspace.relative(path)
        except PathRefused:
            continue
        raise AssertionError(f"relative({path!r}) is {relative!r}")


@case()
async def a_path_is_made_relative(workspace: Workspace) -> None:
    """`relative` removes empty names and `.`, and makes an absolute path inside relative."""
    for path in ("a/b", "./a//b", "a/./b"):
        require(workspace.relative(path) == "a/b", f"{path} is {workspace.relative(path)}")
    require(workspace.relative(".") == ".", "the top directory is not `.`")
    root = workspace.info.root
    if root.startswith("/"):
        require(workspace.relative(f"{root}/a") == "a", "an absolute path inside is refused")


@case()
async def a_file_is_replaced_only_in_the_expected_version(workspace: Workspace) -> None:
    """`replace` refuses if the file has another version, or exists although none is expected."""
    first = await workspace.replace("file", b"first", expected="")
    second = await workspace.replace("file", b"other", expected=first)
    await refusal(workspace.replace("file", b"stale", expected=first), errno.ESTALE)
    await refusal(workspace.replace("file", b"new", expected=""), errno.EEXIST)
    require((await workspace.read("file", LIMIT)).data == b"other", "a refused change was made")
    await workspace.remove("file")
    await refusal(workspace.replace("file", b"late", expected=second), errno.ESTALE)
    await refusal(workspace.read("file", LIMIT), errno.ENOENT)


@case()
async def of_concurrent_changes_one_succeeds(workspace: Workspace) -> None:
    """Of concurrent calls of `replace` that expect the same version, exactly one succeeds."""
    version = await workspace.replace("file", b"old")
    changes = [b"new %d" % number for number in range(8)]
    work = [workspace.replace("file", data, expected=version) for data in changes]
    results = await asyncio.gather(*work, return_exceptions=True)
    made = [data for data, it in zip(changes, results, strict=True) if isinstance(it, str)]
    require(len(made) == 1, f"{len(made)} of {len(changes)} succeeded: {results}")
    require((await workspace.read("file", LIMIT)).data == made[0], "another change was made")


@case()
async def a_file_is_replaced_atomically(workspace: Workspace) -> None:
    """A reader sees all of the old content or all of the new one, and no file is left behind."""
    contents = [bytes([letter]) * LIMIT for letter in b"ab"]
    await workspace.replace("file", contents[0])

    async def write() -> None:
        for number in range(12):
            await workspace.replace("file", contents[number % 2])

    writing = asyncio.create_task(write())
    try:
        while not writing.done():
            data = (await workspace.read("file", LIMIT)).data
            require(data in contents, f"{len(data)} bytes, {set(data)}, were read in between")
            await asyncio.sleep(0)
    finally:
        await writing
    names = [entry.name for entry in await workspace.list(".")]
    require(names == ["file"], f"the directory has {names}")


@case()
async def a_file_above_the_limit_is_refused(workspace: Workspace) -> None:
    """`read` refuses a file of more than `limit` bytes with `EFBIG`."""
    await workspace.replace("file", b"x" * 100)
    require(len((await workspace.read("file", 100)).data) == 100, "a byte is missing")
    await refusal(workspace.read("file", 99), errno.EFBIG)


@case()
async def a_large_file_is_read_in_pieces(workspace: Workspace) -> None:
    """`open` reads a file of any size, in pieces of at most the bytes asked for."""
    line = b"0123456789abcde\n"
    await workspace.replace("large", line * (LARGE // len(line)))
    file = await workspace.open("large")
    try:
        require(file.size == LARGE, f"the size is {file.size}")
        total = 0
        while piece := await file.read(LIMIT - 3):
            require(len(piece) <= LIMIT - 3, f"a piece has {len(piece)} bytes")
            at = total % len(line)
            expected = (line * (len(piece) // len(line) + 2))[at : at + len(piece)]
            require(piece == expected, f"the bytes from {total} on are wrong")
            total += len(piece)
        require(total == LARGE, f"{total} bytes were read")
    finally:
        await file.close()


@case()
async def a_new_file_is_written_in_pieces(workspace: Workspace) -> None:
    """`create` refuses a file that exists, and otherwise appends the pieces that are written."""
    file = await workspace.create("log")
    pieces = [b"%d\n" % number * 1000 for number in range(50)]
    for piece in pieces:
        await file.write(piece)
    await file.close()
    require((await workspace.read("log", LIMIT)).data == b"".join(pieces), "bytes are missing")
    await refusal(workspace.create("log"), errno.EEXIST)


@case("commands")
async def a_new_file_is_for_its_owner_alone(workspace: Workspace) -> None:
    """A file made by `create` cannot be read by other users."""
    await (await workspace.create("private")).close()
    mode = (await run(workspace, "ls -l private")).split()[0]
    require(mode.startswith(b"-rw-------"), f"its mode is {mode!r}")


@case()
async def a_file_is_removed(workspace: Workspace) -> None:
    """`remove` removes a file, and refuses a directory."""
    await workspace.replace("a/file", b"")
    await workspace.replace("a/other", b"")
    await refusal(workspace.remove("a"))
    await workspace.remove("a/file")
    names = [entry.name for entry in await workspace.list("a")]
    require(names == ["other"], f"the directory has {names}")


@case()
async def a_directory_is_listed(workspace: Workspace) -> None:
    """`list` returns the entries sorted by name, with their kinds and sizes; a file is refused."""
    for path in ("b.txt", "a/file", "c", "B"):
        await workspace.replace(path, b"x" * len(path))
    found = [(it.name, it.kind, it.size) for it in await workspace.list(".")]
    expected = [("B", "file", 1), ("a", "directory", 0), ("b.txt", "file", 5), ("c", "file", 1)]
    require(found == expected, f"the entries are {found}")
    require(len(await workspace.list(".", 2)) == 2, "more were listed than asked for")
    require(not await workspace.list(".", 0), "more were listed than asked for")
    await refusal(workspace.list("c"), errno.ENOTDIR)


@case()
async def a_path_has_a_kind(workspace: Workspace) -> None:
    """`stat` tells files from directories; a directory cannot be read or replaced."""
    await workspace.replace("a/file", b"xyz")
    file, directory = await workspace.stat("a/file"), await workspace.stat("a")
    require((file.kind, file.size) == ("file", 3), f"the file is {file}")
    require((directory.kind, directory.size) == ("directory", 0), f"the directory is {directory}")
    require((await workspace.stat(".")).kind == "directory", "the top is not a directory")
    works = (workspace.read("a", LIMIT), workspace.open("a"), workspace.replace("a", b""))
    await all_refused(works, errno.EISDIR)


@case()
async def all_names_of_a_file_resolve_to_one(workspace: Workspace) -> None:
    """`resolve` returns the same for all paths of a file, and `read` tells it, too."""
    await workspace.replace("a/file", b"")
    await workspace.replace("b/other", b"")
    for path in ("a/file", "./a//file", "b/../a/file"):
        require(await workspace.resolve(path) == "a/file", f"{path} resolves to another file")
        require((await workspace.read(path, LIMIT)).file == "a/file", f"{path} is another file")
    require(await workspace.resolve("a/new") == "a/new", "a missing file does not resolve")


@case()
async def any_name_can_be_used(workspace: Workspace) -> None:
    """Names with blanks, quotes, wildcards and other odd characters are taken literally."""
    await workspace.replace("names/usual", b"")
    for name in ODD_NAMES:
        await workspace.replace(f"names/{name}", name.encode())
    for name in ODD_NAMES:
        found = await workspace.read(f"names/{name}", LIMIT)
        require(found.data == name.encode(), f"{name!r} has the content {found.data!r}")
    listed = [entry.name for entry in await workspace.list("names")]
    require(listed == sorted([*ODD_NAMES, "usual"]), f"the names are {listed}")
    for name in ODD_NAMES:
        await workspace.remove(f"names/{name}")
    require(len(await workspace.list("names")) == 1, "a file is left")


@case("raw_names")
async def names_need_not_be_utf_8(workspace: Workspace) -> None:
    """A name that is not UTF-8 is decoded as by `os.fsdecode`, and can be used like any other."""
    name = "caf\udce9\udcff.txt"
    await workspace.replace(f"a/{name}", b"coffee")
    require([it.name for it in await workspace.list("a")] == [name], "it is listed otherwise")
    require((await workspace.read(f"a/{name}", LIMIT)).data == b"coffee", "it is another file")
    require((await workspace.stat(f"a/{name}")).size == 6, "it is another file")
    await workspace.remove(f"a/{name}")
    await refusal(workspace.read(f"a/{name}", LIMIT), errno.ENOENT)


CASES: Final[tuple[WorkspaceCase, ...]] = tuple(
    each for each in tuple(globals().values()) if isinstance(each, WorkspaceCase)
)
