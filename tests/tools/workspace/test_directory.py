"""What an agent may do in its directory, what it is told when it may not, and what then stays."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.workspace import DirectoryEntry, PathRefused
from holdfast.tools.workspace import atomic_replace
from holdfast.tools.workspace.directory import Directory
from holdfast.tools.workspace.openat import openat2, opener, walk

LIMIT: Final = 1_000
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """The directory, with an `outside` beside it that nothing may touch."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    top = tmp_path / "top"
    (top / "dir").mkdir(parents=True)
    (top / "file").write_text("old")
    (top / "dir" / "inner").write_text("inner")
    return top


@pytest.fixture(
    params=[
        pytest.param(openat2, marks=pytest.mark.skipif(opener() is walk, reason="no openat2 here")),
        walk,
        partial(walk, through=os.O_RDONLY),
    ],
    ids=["openat2", "walk", "walk-without-O_PATH"],
)
def directory(request: pytest.FixtureRequest, top: Path) -> Iterator[Directory]:
    with Directory(top, opener=request.param) as directory:
        yield directory
    assert (top.parent / "outside" / "secret").read_text() == "secret"
    assert os.listdir(top.parent / "outside") == ["secret"]


def contents(top: Path) -> dict[str, object]:
    """Everything in a directory: all that must be as before when something was refused."""
    return {
        str(path.relative_to(top)): os.readlink(path)
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else None
        for path in top.rglob("*")
    }


def refused(top: Path, act: Callable[[], object]) -> str:
    """The words of a refusal that has changed nothing."""
    before = contents(top)
    with pytest.raises(PathRefused) as refusal:
        act()
    assert contents(top) == before
    return str(refusal.value)


# --- The directory itself -----------------------------------------------------------------------


def test_the_best_way_to_open_is_taken_by_itself(top: Path) -> None:
    with Directory(str(top)) as directory:
        assert directory.read("dir/inner", LIMIT).data == b"inner"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing", "does not exist: create it, or name another directory"),
        ("file", "is not a directory: name one"),
        ("nul\0", "contains a NUL character"),
        ("", "does not exist"),
    ],
)
def test_what_is_no_directory_is_refused_at_once(
    top: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    monkeypatch.chdir(top)
    with pytest.raises(ConfigError, match=words):
        Directory(name)


def test_its_path_is_absolute_and_without_links(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (top.parent / "link").symlink_to("top")
    monkeypatch.chdir(top.parent)
    with Directory("link") as directory:
        assert directory.path == str(top.resolve())
        assert directory.relative(f"{top.parent}/link/file") == "file"
        assert directory.relative(f"{top.resolve()}/file") == "file"


def test_it_stays_the_same_directory_when_its_name_is_given_to_another(
    top: Path, directory: Directory
) -> None:
    moved = top.rename(top.parent / "moved")
    top.symlink_to("outside")
    try:
        directory.write("new/file", b"new")
        assert (moved / "new" / "file").read_bytes() == b"new"
        assert "does not exist" in refused(moved, lambda: directory.read("secret", LIMIT))
    finally:
        top.unlink()
        moved.rename(top)


def test_a_file_stays_the_same_when_its_parent_is_renamed(top: Path, directory: Directory) -> None:
    descriptor = directory.open("dir/inner")
    (top / "dir").rename(top / "other")
    (top / "dir").mkdir()
    (top / "dir" / "inner").write_text("another")
    assert os.read(descriptor, 100) == b"inner"
    os.close(descriptor)


def test_a_directory_that_was_removed_says_so(top: Path, directory: Directory) -> None:
    shutil.rmtree(top)
    top.mkdir()
    with pytest.raises(PathRefused, match=r"file cannot be used: the directory .* was removed"):
        directory.write("file", b"new")


def test_what_is_closed_refuses_everything_and_can_be_closed_again(
    top: Path, directory: Directory
) -> None:
    directory.close()
    directory.close()
    acts: list[Callable[[], object]] = [
        lambda: directory.read("file", LIMIT),
        lambda: directory.write("file", b""),
        lambda: directory.create("new"),
        lambda: directory.open("file"),
        directory.entries,
    ]
    for act in acts:
        assert "the directory is closed" in refused(top, act)


def test_closing_does_not_pull_the_directory_from_under_a_thread_that_uses_it(top: Path) -> None:
    outside = top.parent / "outside"
    others: list[int] = []

    def closing(top: int, path: str, flags: int, mode: int = 0) -> int:
        held.close()
        others.append(os.open(outside, os.O_RDONLY))  # takes the next free number
        return walk(top, path, flags, mode)

    held = Directory(top, opener=closing)
    try:
        assert held.read("file", LIMIT).data == b"old"
    finally:
        for other in others:
            os.close(other)


def test_one_that_is_forgotten_is_closed(top: Path) -> None:
    before = os.listdir("/dev/fd")
    directory = Directory(top)
    assert len(os.listdir("/dev/fd")) == len(before) + 1
    del directory
    assert os.listdir("/dev/fd") == before


def test_a_child_process_does_not_inherit_it(top: Path) -> None:
    with Directory(top):
        descriptors = set(os.listdir("/dev/fd")) - {"0", "1", "2"}
        assert not any(
            os.get_inheritable(int(number)) for number in descriptors if is_directory(number)
        )


def is_directory(number: str) -> bool:
    try:
        return stat.S_ISDIR(os.fstat(int(number)).st_mode)
    except OSError:  # the one that listed them
        return False


# --- Paths --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "relative"),
    [
        (".", "."),
        ("./", "."),
        ("file", "file"),
        ("./dir//inner", "dir/inner"),
        ("dir/", "dir/"),
        ("dir/.", "dir/"),
        ("dir/..", "dir/.."),
        ("../x", "../x"),
        ("./~/x", "./~/x"),
        ("~x", "~x"),
        ("{top}", "."),
        ("{top}/", "."),
        ("{top}/dir/inner", "dir/inner"),
        ("//{top}//./dir/", "dir/"),
        ("{top}/../outside", "../outside"),
    ],
)
def test_a_path_is_made_relative(directory: Directory, path: str, relative: str) -> None:
    assert directory.relative(path.format(top=directory.path)) == relative


@pytest.mark.parametrize("path", ["/", "/etc/passwd", "{top}x", "{top}/../top2", "{top}.old/file"])
def test_an_absolute_path_to_elsewhere_is_refused(directory: Directory, path: str) -> None:
    path = path.format(top=directory.path)
    words = f"{path} is outside of the directory {directory.path}: use a path inside it"
    with pytest.raises(PathRefused, match=re.escape(words)):
        directory.read(path, LIMIT)


def test_of_the_root_every_absolute_path_is_inside() -> None:
    with Directory("/") as root:
        assert root.relative("/etc/passwd") == "etc/passwd"
        assert root.relative("/") == "."


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "'' is not a path: use . for the directory itself"),
        ("file\0", r"'file\x00' contains a NUL character"),
        ("\ud800", r"'\ud800' contains a character that no name can have here"),
        ("x" * 300, "…"),
        ("x" * 300, "has a name that is too long: use a shorter one"),
        ("dir/" * 2_000, "has a name that is too long: use a shorter one"),
    ],
)
def test_a_path_that_cannot_be_is_refused(
    top: Path, directory: Directory, path: str, words: str
) -> None:
    acts: list[Callable[[], object]] = [
        lambda: directory.read(path, LIMIT),
        lambda: directory.write(f"{path}/x" if path.endswith("/") else path, b"new"),
        lambda: directory.create(f"{path}/x" if path.endswith("/") else path),
        lambda: directory.entries(path),
    ]
    for act in acts:
        message = refused(top, act)
        assert words in message
        assert len(message) < 600
        message.encode()  # it can be sent to a model


OUTSIDE: Final = {
    "link": "../outside/secret",
    "absolute": "{outside}/secret",
    "dir/up": "../../outside/secret",
    "new": "../outside/new",
    "absolute-new": "{outside}/new",
    "chain": "dir/up",
    "root": "/proc/self/root",
}
"""Links, and where they point to."""


@pytest.mark.parametrize("path", ["../outside/secret", "dir/../../outside/new", "..", *OUTSIDE])
def test_nothing_outside_is_read_or_written(top: Path, directory: Directory, path: str) -> None:
    for name, target in OUTSIDE.items():
        (top / name).symlink_to(target.format(outside=top.parent / "outside"))
    acts = [lambda: directory.read(path, LIMIT), lambda: directory.entries(path)]
    if path != "..":
        acts.append(lambda: directory.write(path, b"new"))
        acts.append(lambda: directory.write(f"{path}/x", b"new"))
        acts.append(lambda: directory.create(f"{path}/x"))
    for act in acts:
        assert "is outside of the directory" in refused(top, act)


def test_a_link_to_an_outside_directory_is_no_way_out(top: Path, directory: Directory) -> None:
    (top / "out").symlink_to("../outside")
    for path in ("out/secret", "out/new", "out/a/b/new", "dir/../out/new"):
        assert "is outside" in refused(top, partial(directory.write, path, b"new"))
        assert "is outside" in refused(top, partial(directory.create, path))
    assert "is outside" in refused(top, lambda: directory.entries("out"))


# --- Reading ------------------------------------------------------------------------------------


def test_a_file_is_read_through_links_that_stay_inside(top: Path, directory: Directory) -> None:
    (top / "dir" / "link").symlink_to("../file")
    (top / "other").symlink_to("dir")
    assert directory.read("other/link", LIMIT).data == b"old"
    assert directory.read(f"{directory.path}/other/link", LIMIT).data == b"old"


def test_the_version_differs_when_the_bytes_do(top: Path, directory: Directory) -> None:
    (top / "same").write_bytes(b"old")
    (top / "other").write_bytes(b"odl")
    version = directory.read("file", LIMIT).version
    assert directory.read("same", LIMIT).version == version
    assert directory.read("other", LIMIT).version != version
    assert version


def test_a_file_that_is_too_large_is_refused_with_its_size(top: Path, directory: Directory) -> None:
    (top / "large").write_bytes(b"x" * 1_001)
    assert len(directory.read("large", 1_001).data) == 1_001
    assert refused(top, lambda: directory.read("large", 1_000)) == (
        "large has 1,001 bytes, and at most 1,000 can be read: read a part of it with a "
        "command, such as grep or sed"
    )


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs such a file")
def test_a_file_that_hides_its_size_is_read_up_to_the_limit() -> None:
    with Directory("/proc") as proc:
        path = f"{os.getpid()}/status"
        assert b"Pid:" in proc.read(path, 100_000).data
        with pytest.raises(PathRefused, match="has more than 10 bytes"):
            proc.read(path, 10)


def test_a_fifo_is_refused_without_waiting_for_its_other_end(
    top: Path, directory: Directory
) -> None:
    os.mkfifo(top / "fifo")
    for act in (
        lambda: directory.read("fifo", LIMIT),
        lambda: directory.open("fifo"),
        lambda: directory.write("fifo", b"new"),
    ):
        with pytest.raises(PathRefused, match="fifo is not a regular file: it is a FIFO"):
            act()
    with pytest.raises(PathRefused, match="fifo is not a regular file"):
        directory.open("fifo", os.O_WRONLY)
    assert stat.S_ISFIFO((top / "fifo").stat().st_mode)


def test_a_socket_is_refused(
    top: Path, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(top)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for act in (
            lambda: directory.read("socket", LIMIT),
            lambda: directory.write("socket", b"new"),
        ):
            with pytest.raises(PathRefused, match="socket is not a regular file: it is a"):
                act()


def test_a_device_is_refused() -> None:
    with Directory("/dev") as devices:
        for name in ("null", "zero", "tty"):
            with pytest.raises(PathRefused, match=f"^{name} is not a regular file: it is a device"):
                devices.read(name, LIMIT)
        with pytest.raises(PathRefused, match="null is not a regular file: it is a device"):
            devices.write("null", b"")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("dir", "dir is a directory: name a file in it"),
        ("file/", "file/ needs a directory where there is a file: check the path"),
        ("file/x", "file/x needs a directory where there is a file: check the path"),
        ("loop", "loop is a loop of links: use the path of the file itself"),
        ("dangling", "dangling is a link to something that does not exist: use another path"),
        ("nothing", "nothing does not exist"),
        ("FILE", "FILE does not exist: there is file"),
        ("dir/iner", "dir/iner does not exist: there is dir/inner"),
        ("dri/inner", "dri/inner does not exist: there is dir"),
        ("~/file", "~/file would be in a directory named ~ here: use a path inside {top}"),
        ("repotr-0", "repotr-0 does not exist: there is report-0, report-{n} and report-{n}"),
    ],
)
def test_a_refusal_says_what_to_do(top: Path, directory: Directory, path: str, words: str) -> None:
    (top / "loop").symlink_to("loop")
    (top / "dangling").symlink_to("dir/gone")
    for number in range(5):
        (top / f"report-{number}").touch()
    words = words.replace("{top}", str(top))
    pattern = re.escape(words).replace(re.escape("{n}"), "[0-4]")
    assert re.fullmatch(pattern, refused(top, lambda: directory.read(path, LIMIT)))


def test_a_refusal_tells_its_reason_to_programs_too(directory: Directory) -> None:
    with pytest.raises(PathRefused) as missing:
        directory.read("missing", LIMIT)
    with pytest.raises(PathRefused) as outside:
        directory.read("../outside", LIMIT)
    assert (missing.value.code, outside.value.code) == (errno.ENOENT, errno.EXDEV)


def test_what_may_not_be_read_is_refused_as_such(top: Path, directory: Directory) -> None:
    (top / "file").chmod(0)
    with bound(), pytest.raises(PathRefused, match="file may not be used: there is no perm"):
        directory.read("file", LIMIT)


@contextmanager
def bound() -> Iterator[None]:
    """As somebody whom permissions bind, which they do not for root."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def test_a_descriptor_is_opened_as_asked_and_not_inherited(top: Path, directory: Directory) -> None:
    for path, flags in (("dir", os.O_RDONLY | os.O_DIRECTORY), ("file", os.O_WRONLY)):
        descriptor = directory.open(path, flags)
        assert os.path.samestat(os.fstat(descriptor), (top / path).stat())
        assert not os.get_inheritable(descriptor)
        os.close(descriptor)


def test_opening_makes_no_file(top: Path, directory: Directory) -> None:
    refused(top, lambda: directory.open("new", os.O_WRONLY | os.O_CREAT))


# --- Entries ------------------------------------------------------------------------------------


def test_entries_are_sorted_and_links_are_not_followed(top: Path, directory: Directory) -> None:
    (top / "Z").touch()
    (top / "line\nbreak").write_text("12345")
    (top / "ö").mkdir()
    (top / "to-dir").symlink_to("dir")
    (top / "out").symlink_to("../outside/secret")
    (top / "dangling").symlink_to("gone")
    os.mkfifo(top / "fifo")
    assert directory.entries() == [
        DirectoryEntry("Z", "file", 0),
        DirectoryEntry("dangling", "link", 0),
        DirectoryEntry("dir", "directory", 0),
        DirectoryEntry("fifo", "other", 0),
        DirectoryEntry("file", "file", 3),
        DirectoryEntry("line\nbreak", "file", 5),
        DirectoryEntry("out", "link", 0),
        DirectoryEntry("to-dir", "link", 0),
        DirectoryEntry("ö", "directory", 0),
    ]
    assert (
        directory.entries("to-dir")
        == directory.entries("dir")
        == [DirectoryEntry("inner", "file", 5)]
    )
    assert directory.entries("ö/") == []


def test_a_name_that_is_not_utf8_is_listed_read_and_written(
    top: Path, directory: Directory
) -> None:
    name = os.fsdecode(b"caf\xe9")
    try:
        (top / "dir" / name).write_text("latin")
    except OSError:
        pytest.skip("this file system has only names of text")
    assert [entry.name for entry in directory.entries("dir")] == [name, "inner"]
    assert directory.read(f"dir/{name}", LIMIT).data == b"latin"
    directory.write(f"dir/{name}", b"new")
    assert (top / "dir" / name).read_bytes() == b"new"
    message = refused(top, lambda: directory.read("dir/caf", LIMIT))
    assert message.encode() == rb"dir/caf does not exist: there is 'dir/caf\udce9'"


def test_entries_of_what_is_no_directory_are_refused(top: Path, directory: Directory) -> None:
    assert "needs a directory" in refused(top, lambda: directory.entries("file"))
    assert "there is dir" in refused(top, lambda: directory.entries("dirr"))


def test_a_file_that_vanishes_while_it_is_listed_is_left_out(
    top: Path, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    @contextmanager
    def vanishing(descriptor: int) -> Iterator[Iterator[os.DirEntry[str]]]:
        with scandir(descriptor) as found:
            names = list(found)
        (top / "dir" / "inner").unlink()
        yield iter(names)

    (top / "dir" / "stays").touch()
    monkeypatch.setattr(os, "scandir", vanishing)
    assert [entry.name for entry in directory.entries("dir")] == ["stays"]


# --- Writing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"new", b"\0\xff" * 2_000_000])
@pytest.mark.parametrize("path", ["file", "new", "dir/new", "a/b/c/new", "./dir/../new"])
def test_a_file_is_written_whole(top: Path, directory: Directory, path: str, data: bytes) -> None:
    directory.write(path, data)
    assert (top / path).read_bytes() == data
    assert directory.read(path, len(data)).data == data
    assert not [name for name in contents(top) if name.endswith(".tmp")]


def test_a_file_can_be_written_by_its_absolute_path(top: Path, directory: Directory) -> None:
    directory.write(f"{directory.path}/dir/new", b"new")
    assert (top / "dir" / "new").read_bytes() == b"new"


def test_whoever_has_the_old_file_open_keeps_the_old_bytes(top: Path, directory: Directory) -> None:
    with (top / "file").open("rb") as old:
        directory.write("file", b"new content")
        assert old.read() == b"old"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o604])
def test_the_mode_of_a_file_is_kept(top: Path, directory: Directory, mode: int) -> None:
    (top / "file").chmod(mode)
    directory.write("file", b"new")
    assert stat.S_IMODE((top / "file").stat().st_mode) == mode


def test_what_only_the_owner_may_read_is_never_open_to_others(
    top: Path, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, modes = os.write, []

    def watched(descriptor: int, data: bytes) -> int:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return write(descriptor, data)

    (top / "file").chmod(0o600)
    monkeypatch.setattr(os, "write", watched)
    directory.write("file", b"new")
    assert modes == [0o600]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_mode_that_new_files_have(
    top: Path, directory: Directory, umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        directory.write("made/new", b"new")
        os.close(directory.create("made/created"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((top / "made" / "new").stat().st_mode) == mode
    assert stat.S_IMODE((top / "made" / "created").stat().st_mode) == 0o600
    assert stat.S_IMODE((top / "made").stat().st_mode) == 0o777 & ~umask


@as_root
def test_the_owner_and_the_group_of_a_file_are_kept(top: Path, directory: Directory) -> None:
    os.chown(top / "file", 1234, 2345)
    directory.write("file", b"new")
    found = (top / "file").stat()
    assert (found.st_uid, found.st_gid) == (1234, 2345)


@as_root
def test_where_the_group_cannot_be_kept_its_permissions_go_to_nobody(
    top: Path, directory: Directory
) -> None:
    top.chmod(0o777)
    os.chown(top / "file", 65534, 2345)
    (top / "file").chmod(0o664)
    with bound():
        directory.write("file", b"new")
    found = (top / "file").stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (65534, 65534, 0o644)


def test_the_file_behind_a_link_is_replaced_and_the_link_stays(
    top: Path, directory: Directory
) -> None:
    (top / "dir" / "up").symlink_to("../file")
    (top / "chain").symlink_to("dir/up")
    directory.write("chain", b"new")
    assert (top / "file").read_bytes() == b"new"
    assert (top / "chain").is_symlink()
    assert (top / "dir" / "up").is_symlink()


def test_the_file_that_a_dangling_link_wants_is_made(top: Path, directory: Directory) -> None:
    (top / "dir" / "dangling").symlink_to("../made/too/new")
    directory.write("dir/dangling", b"new")
    assert (top / "dir" / "dangling").is_symlink()
    assert (top / "made" / "too" / "new").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (".", ". is a directory"),
        ("dir", "dir is a directory"),
        ("dir/", "dir/ is a directory"),
        ("dir/..", "dir/.. is a directory"),
        ("to-dir", "to-dir is a directory"),
        ("to-new", "to-new is a directory"),
        ("new/", "new/ is a directory"),
        ("file/x", "file/x needs a directory where there is a file"),
        ("loop", "loop is a loop of links"),
        ("loop/x", "loop/x is a loop of links"),
        ("dangling/x", "dangling/x cannot be created: dangling is a link to something that"),
        ("made/../x", "made/../x does not exist"),
        ("made/" + "x" * 255 + "y", "has a name that is too long"),
        ("made/too/" + "x" * 300 + "/y", "has a name that is too long"),
    ],
)
def test_what_cannot_be_written_is_refused_and_leaves_nothing(
    top: Path, directory: Directory, path: str, words: str
) -> None:
    for name, target in {
        "to-dir": "dir",
        "to-new": "new/",
        "loop": "loop",
        "dangling": "gone",
    }.items():
        (top / name).symlink_to(target)
    message = refused(top, lambda: directory.write(path, b"new"))
    assert message.startswith("nothing was changed: ")
    assert words in message


def test_a_file_with_more_than_one_name_is_refused(top: Path, directory: Directory) -> None:
    os.link(top / "file", top / "dir" / "hard")
    assert refused(top, lambda: directory.write("dir/hard", b"new")) == (
        "nothing was changed: dir/hard has 2 names (hard links), and only this one would get the "
        "new content: remove this name first, or write to another"
    )


def test_a_file_is_replaced_only_in_the_version_that_was_read(
    top: Path, directory: Directory
) -> None:
    version = directory.read("file", LIMIT).version
    directory.write("file", b"new", unless_changed=version)
    for other in (b"odl", b"a longer one"):  # of the same size, and of another
        directory.write("file", b"old")
        (top / "file").write_bytes(other)
        assert refused(top, lambda: directory.write("file", b"mine", unless_changed=version)) == (
            "nothing was changed: file was changed since it was read: read it again"
        )
    (top / "file").unlink()
    message = refused(top, lambda: directory.write("file", b"mine", unless_changed=version))
    assert "file was removed since it was read" in message


def test_a_huge_file_is_not_read_to_see_that_it_changed(
    top: Path, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = directory.read("file", LIMIT).version
    os.truncate(top / "file", 1 << 40)
    monkeypatch.setattr(os, "read", None)
    with pytest.raises(PathRefused, match="file was changed since it was read"):
        directory.write("file", b"mine", unless_changed=version)


def test_what_became_a_fifo_was_changed_and_is_not_waited_for(top: Path) -> None:
    os.mkfifo(top / "fifo")
    folder = os.open(top, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="was changed since it was read"):
            atomic_replace.refuse_changed(folder, "fifo", "3-version")
    finally:
        os.close(folder)


def test_a_file_is_on_the_disk_before_its_name_and_then_its_name(
    top: Path, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, rename = os.fsync, os.rename

    def synced(descriptor: int) -> None:
        found = os.fstat(descriptor)
        steps.append("names" if stat.S_ISDIR(found.st_mode) else f"{found.st_size} bytes")
        fsync(descriptor)

    def renamed(old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        steps.append(f"now {new}")
        rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    directory.write("made/file", b"new")
    assert steps == ["names", "3 bytes", "now file", "names"]


def test_a_file_is_made_only_where_none_is(top: Path, directory: Directory) -> None:
    directory.write("made/new", b"new", unless_changed="")
    for path in ("made/new", "file"):
        act = partial(directory.write, path, b"mine", unless_changed="")
        assert f"{path} already exists: read it before you replace it" in refused(top, act)


@pytest.mark.parametrize("together", [True, False])
def test_of_threads_that_replace_the_same_version_one_succeeds(
    top: Path, directory: Directory, together: bool
) -> None:
    (top / "file").write_bytes(bytes(8_000_000))  # takes a while to compare
    version = directory.read("file", 8_000_000).version
    start = threading.Barrier(8)
    won: list[int] = []

    def compete(number: int) -> None:
        with Directory(top) as own:
            start.wait(30)
            try:
                used = directory if together else own
                used.write("file", b"%d" % number, unless_changed=version)
            except PathRefused:
                return
            won.append(number)

    threads = [threading.Thread(target=compete, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert (top / "file").read_bytes() == b"%d" % won[0]


def test_threads_make_the_same_directories_at_once(top: Path, directory: Directory) -> None:
    start = threading.Barrier(8)

    def write(number: int) -> None:
        start.wait(30)
        directory.write(f"a/b/c/{number}", b"%d" % number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(os.listdir(top / "a" / "b" / "c")) == [str(number) for number in range(8)]


# --- Creating -----------------------------------------------------------------------------------


def test_a_file_is_created_for_its_owner_alone(top: Path, directory: Directory) -> None:
    descriptor = directory.create("logs/today/output")
    os.write(descriptor, b"output")
    os.close(descriptor)
    made = top / "logs" / "today" / "output"
    assert made.read_bytes() == b"output"
    assert stat.S_IMODE(made.stat().st_mode) == 0o600


def test_what_exists_is_not_created_again_nor_followed(top: Path, directory: Directory) -> None:
    (top / "dangling").symlink_to("new")
    (top / "out").symlink_to("../outside/new")
    for path in ("file", "dir", "dangling", "out"):
        message = refused(top, partial(directory.create, path))
        assert message == (
            f"nothing was changed: {path} already exists: use another name, or replace it"
        )
    assert "is a directory" in refused(top, lambda: directory.create("made/"))


# --- Failing half-way ---------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["file", "new", "a/b/new"])
def test_in_a_directory_that_may_not_be_changed_nothing_is(
    top: Path, directory: Directory, path: str
) -> None:
    (top / "file").chmod(0o666)
    top.chmod(0o555)
    with bound(), pytest.raises(PathRefused, match=f"{path} may not be used: there is no permis"):
        directory.write(path, b"new")
    top.chmod(0o755)
    assert contents(top) == {"file": b"old", "dir": None, "dir/inner": b"inner"}


def test_a_file_that_may_not_be_written_is_not_replaced_either(
    top: Path, directory: Directory
) -> None:
    top.chmod(0o777)
    (top / "file").chmod(0o444)
    with bound(), pytest.raises(PathRefused, match="file may not be used: there is no perm"):
        directory.write("file", b"new")
    assert contents(top) == {"file": b"old", "dir": None, "dir/inner": b"inner"}


ATTEMPT: Final = """
import os, sys
from holdfast.kernel.workspace import PathRefused
from holdfast.tools.workspace.directory import Directory
def attempt(top, path):
    try:
        Directory(top).write(path, b"x" * 1_000_000)
    except PathRefused as refusal:
        print(refusal, sorted(os.listdir(top)), open(top + "/file").read())
"""
FILE_SIZE: Final = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
attempt(sys.argv[1], "file")
attempt(sys.argv[1], "a/b")
"""
FULL: Final = """
import subprocess
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", sys.argv[1]], check=True)
os.mkdir(sys.argv[1] + "/dir")
open(sys.argv[1] + "/file", "w").write("old")
attempt(sys.argv[1], "file")
attempt(sys.argv[1], "a/b")
subprocess.run(["mount", "-o", "remount,bind,ro", sys.argv[1]], check=True)
attempt(sys.argv[1], "file")
attempt(sys.argv[1], "a/b")
"""


def run(command: list[str], code: str, top: Path) -> list[str]:
    done = subprocess.run(
        [*command, sys.executable, "-c", ATTEMPT + code, str(top)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_file_that_may_not_grow_that_large_leaves_the_old_one(top: Path) -> None:
    why = "could not be written, it would be larger than files may be here: write less"
    assert run([], FILE_SIZE, top) == [
        f"nothing was changed: file {why} ['dir', 'file'] old",
        f"nothing was changed: a/b {why} ['dir', 'file'] old",
    ]


def test_a_full_disk_and_a_read_only_one_leave_the_old_file(top: Path) -> None:
    private = ["unshare", "--user", "--map-root-user", "--mount"]
    probe = [*private, "mount", "-t", "tmpfs", "none", str(top / "dir")]
    if not shutil.which("unshare") or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    full = "could not be written, the disk is full: free some space"
    read_only = "could not be written, the file system is read-only: write elsewhere"
    assert run(private, FULL, top) == [
        f"nothing was changed: file {full} ['dir', 'file'] old",
        f"nothing was changed: a/b {full} ['dir', 'file'] old",
        f"nothing was changed: file {read_only} ['dir', 'file'] old",
        f"nothing was changed: a/b {read_only} ['dir', 'file'] old",
    ]
