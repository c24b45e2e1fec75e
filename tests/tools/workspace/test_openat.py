"""Opening a path beneath a directory: by the kernel, and name by name, with the same results."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.tools.workspace.openat import MAX_LINKS, O_PATH, Opener, openat2, opener, walk

BY_KERNEL: Final = opener() is openat2
needs_openat2 = pytest.mark.skipif(not BY_KERNEL, reason="no openat2 here")
OPENERS: Final = [
    pytest.param(openat2, id="openat2", marks=needs_openat2),
    pytest.param(walk, id="walk"),
    pytest.param(partial(walk, through=os.O_RDONLY), id="walk-without-O_PATH"),
]
READ: Final = os.O_RDONLY
MAKE: Final = os.O_WRONLY | os.O_CREAT
NEW: Final = MAKE | os.O_EXCL


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory `top` with what people and attackers put there, and `outside` beside it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    top = tmp_path / "top"
    (top / "dir" / "sub").mkdir(parents=True)
    (top / "file").write_text("file")
    (top / "dir" / "inner").write_text("inner")
    (top / "dir" / "sub" / "deep").write_text("deep")
    (top / "name\nwith line").write_text("line")
    (top / "größe ☃").write_text("snow")
    for name, target in {
        "to-file": "file",
        "to-dir": "dir",
        "to-dir-slash": "dir/",
        "to-file-slash": "file/",
        "dir/up": "../file",
        "dir/sub/up2": "../../to-file",
        "chain": "to-dir/up",
        "loop": "loop",
        "ping": "pong",
        "pong": "ping",
        "dangling": "dir/new",
        "dangling-slash": "new/",
        "out": "../outside",
        "out-file": "../outside/secret",
        "out-new": "../outside/new",
        "out-deep": "dir/../../outside/secret",
        "out-and-back": "../top/file",
        "absolute": str(outside / "secret"),
        "absolute-in": str(top / "file"),
        "absolute-new": str(outside / "new"),
        "root": "/proc/self/root",
        "cwd": "/proc/self/cwd",
    }.items():
        (top / name).symlink_to(target)
    (top / f"chain{MAX_LINKS}").symlink_to("file")
    for number in range(MAX_LINKS):
        (top / f"chain{number}").symlink_to(f"chain{number + 1}")
    os.mkfifo(top / "fifo")
    os.link(top / "file", top / "dir" / "hard")
    return top


def attempt(way: Opener, top: int, path: str, flags: int) -> int | str:
    """A descriptor, or the name of the error."""
    try:
        return way(top, path, flags, 0o600)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def result(way: Opener, top: Path, path: str, flags: int) -> str:
    """What was opened, from its content or its kind, or the name of the error."""
    descriptor = os.open(top, O_PATH | os.O_DIRECTORY)
    opened = attempt(way, descriptor, path, flags | os.O_NONBLOCK)
    os.close(descriptor)
    if isinstance(opened, str):
        return opened
    try:
        found = os.fstat(opened)
        if stat.S_ISREG(found.st_mode):
            return os.read(opened, 100).decode() if not flags & os.O_WRONLY else "written"
        where = [str(at.relative_to(top)) for at in (top, *top.rglob("*")) if same(at, found)]
        return where[0] if where else "ESCAPED"
    finally:
        os.close(opened)


def same(path: Path, found: os.stat_result) -> bool:
    return os.path.samestat(path.lstat(), found)


CORPUS: Final = [
    ("file", READ, "file"),
    ("./file", READ, "file"),
    (".//dir/./inner", READ, "inner"),
    (".", READ, "."),
    ("./", READ, "."),
    ("dir", READ, "dir"),
    ("dir/", READ, "dir"),
    ("dir//", READ, "dir"),
    ("dir/.", READ, "dir"),
    ("dir/..", READ, "."),
    ("dir/../file", READ, "file"),
    ("dir/sub/../../dir/inner", READ, "inner"),
    ("name\nwith line", READ, "line"),
    ("größe ☃", READ, "snow"),
    ("dir/hard", READ, "file"),
    ("fifo", READ, "fifo"),
    # Links that stay inside.
    ("to-file", READ, "file"),
    ("to-dir", READ, "dir"),
    ("to-dir/", READ, "dir"),
    ("to-dir/inner", READ, "inner"),
    ("to-dir-slash/inner", READ, "inner"),
    ("to-dir/sub/up2", READ, "file"),
    ("to-dir/..", READ, "."),
    ("dir/up", READ, "file"),
    ("chain", READ, "file"),
    ("chain0", READ, "ELOOP"),
    ("chain1", READ, "file"),
    ("loop", READ, "ELOOP"),
    ("ping", READ, "ELOOP"),
    ("loop/x", READ, "ELOOP"),
    ("dangling", READ, "ENOENT"),
    ("to-file", READ | os.O_NOFOLLOW, "ELOOP"),
    ("to-dir/inner", READ | os.O_NOFOLLOW, "inner"),
    ("to-dir/", READ | os.O_NOFOLLOW, "dir"),
    # Ways out.
    ("..", READ, "EXDEV"),
    ("../", READ, "EXDEV"),
    ("../outside/secret", READ, "EXDEV"),
    ("dir/../../outside/secret", READ, "EXDEV"),
    ("../top/file", READ, "EXDEV"),
    ("out", READ, "EXDEV"),
    ("out/secret", READ, "EXDEV"),
    ("out/../top/file", READ, "EXDEV"),
    ("out-file", READ, "EXDEV"),
    ("out-deep", READ, "EXDEV"),
    ("out-and-back", READ, "EXDEV"),
    ("absolute", READ, "EXDEV"),
    ("absolute-in", READ, "EXDEV"),
    ("absolute/x", READ, "EXDEV"),
    ("root", READ, "EXDEV"),
    ("root/etc/passwd", READ, "EXDEV"),
    ("cwd", READ, "EXDEV"),
    ("/", READ, "EXDEV"),
    ("/etc/passwd", READ, "EXDEV"),
    ("//etc/passwd", READ, "EXDEV"),
    # What is not there, or is something else.
    ("", READ, "ENOENT"),
    ("missing", READ, "ENOENT"),
    ("missing/..", READ, "ENOENT"),
    ("missing/../../x", READ, "ENOENT"),
    ("file/", READ, "ENOTDIR"),
    ("file/.", READ, "ENOTDIR"),
    ("file/..", READ, "ENOTDIR"),
    ("file/x", READ, "ENOTDIR"),
    ("to-file/", READ, "ENOTDIR"),
    ("to-file/..", READ, "ENOTDIR"),
    ("to-file-slash", READ, "ENOTDIR"),
    ("file", READ | os.O_DIRECTORY, "ENOTDIR"),
    ("to-file", READ | os.O_DIRECTORY, "ENOTDIR"),
    ("to-dir", READ | os.O_DIRECTORY, "dir"),
    ("to-dir", READ | os.O_DIRECTORY | os.O_NOFOLLOW, "ENOTDIR"),
    ("x" * 300, READ, "ENAMETOOLONG"),
    ("dir/" + "x" * 300 + "/y", READ, "ENAMETOOLONG"),
    ("./" * 2100, READ, "ENAMETOOLONG"),
    ("./" * 2000, READ, "."),
    ("file\0", READ, "EINVAL"),
    ("file\0/../../outside", READ, "EINVAL"),
    ("\ud800", READ, "EINVAL"),
    ("\udcff", READ, "ENOENT"),
    # Writing.
    ("file", os.O_WRONLY, "written"),
    ("dir", os.O_WRONLY, "EISDIR"),
    (".", MAKE, "EISDIR"),
    ("..", MAKE, "EXDEV"),
    ("dir", MAKE, "EISDIR"),
    ("dir/", MAKE, "EISDIR"),
    ("new", MAKE, "written"),
    ("new/", MAKE, "EISDIR"),
    ("to-file/", MAKE, "EISDIR"),
    ("missing/new", MAKE, "ENOENT"),
    ("dangling", MAKE, "written"),
    ("dangling-slash", MAKE, "EISDIR"),
    ("dangling", MAKE | os.O_NOFOLLOW, "ELOOP"),
    ("out-new", MAKE, "EXDEV"),
    ("absolute-new", MAKE, "EXDEV"),
    ("out/new", MAKE, "EXDEV"),
    ("../outside/new", MAKE, "EXDEV"),
    ("new", NEW, "written"),
    ("file", NEW, "EEXIST"),
    ("dir", NEW, "EEXIST"),
    (".", NEW, "EEXIST"),
    ("to-dir/..", NEW, "EEXIST"),
    ("dangling", NEW, "EEXIST"),
    ("out-new", NEW, "EEXIST"),
    ("out/new", NEW, "EXDEV"),
]


@pytest.mark.parametrize("way", OPENERS)
@pytest.mark.parametrize(("path", "flags", "expected"), CORPUS)
def test_a_path_is_opened_beneath_or_refused(
    tree: Path, way: Opener, path: str, flags: int, expected: str
) -> None:
    assert result(way, tree, path, flags) == expected
    assert os.listdir(tree.parent / "outside") == ["secret"]


@pytest.mark.skipif(not O_PATH, reason="no O_PATH here")
@pytest.mark.parametrize("way", OPENERS)
def test_a_link_is_opened_itself_only_when_asked(tree: Path, way: Opener) -> None:
    top = os.open(tree, O_PATH)
    followed = way(top, "to-dir/up", O_PATH)
    link = way(top, "to-dir/up", O_PATH | os.O_NOFOLLOW)
    try:
        assert same(tree / "file", os.fstat(followed))
        assert same(tree / "dir" / "up", os.fstat(link))
    finally:
        for descriptor in (top, followed, link):
            os.close(descriptor)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of the Linux kernel")
@pytest.mark.parametrize("way", OPENERS)
@pytest.mark.parametrize("path", ["root", "root/etc", "cwd", "cwd/..", "exe", "fd/{fd}", "ns/mnt"])
def test_a_link_of_the_kernels_own_is_refused(way: Opener, path: str) -> None:
    top = os.open("/proc/self", O_PATH)
    try:
        with pytest.raises(OSError, match=r"Errno") as refused:
            os.close(way(top, path.format(fd=top), READ))
        # Whose name leads nowhere when it is read as a path, so it may also not be there.
        assert refused.value.errno in (errno.ELOOP, errno.EXDEV, errno.ENOENT)
    finally:
        os.close(top)


@pytest.mark.parametrize("way", OPENERS)
def test_a_name_that_is_not_utf8_is_opened(tree: Path, way: Opener) -> None:
    name = os.fsdecode(b"\xff\xfe")
    try:
        (tree / name).write_text("bytes")
    except OSError:
        pytest.skip("this file system has only names of text")
    assert result(way, tree, name, READ) == "bytes"


@pytest.mark.parametrize("way", OPENERS)
def test_a_deep_path_is_opened(tree: Path, way: Opener) -> None:
    depth = 300
    deepest = tree.joinpath(*["d"] * depth)
    deepest.mkdir(parents=True)
    (deepest / "end").write_text("end")
    assert result(way, tree, "d/" * depth + "end", READ) == "end"
    assert result(way, tree, "d/" * depth + "../" * depth + "file", READ) == "file"
    assert result(way, tree, "d/" * depth + "../" * (depth + 1) + "top", READ) == "EXDEV"


@pytest.mark.parametrize("way", OPENERS)
def test_a_descriptor_is_not_inherited(tree: Path, way: Opener) -> None:
    top = os.open(tree, os.O_RDONLY)
    opened = way(top, "file", READ)
    try:
        assert not os.get_inheritable(opened)
    finally:
        os.close(opened)
        os.close(top)


@pytest.mark.parametrize("way", OPENERS)
def test_the_mode_of_a_new_file_is_the_one_asked_for(tree: Path, way: Opener) -> None:
    top = os.open(tree, os.O_RDONLY)
    os.close(way(top, "dir/new", NEW, 0o400))
    os.close(top)
    assert stat.S_IMODE((tree / "dir" / "new").stat().st_mode) == 0o400


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
@pytest.mark.parametrize("way", [OPENERS[0], OPENERS[1]])
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("searched/open/inner", "inner"),
        ("searched", "EACCES"),
        ("shut/..", "EACCES"),
        ("shut/../file", "EACCES"),
        ("shut/.", "EACCES"),
        ("shut/x", "EACCES"),
        ("unread", "EACCES"),
    ],
)
def test_permissions_bind_as_they_do_for_any_path(
    tree: Path, way: Opener, path: str, expected: str
) -> None:
    (tree / "searched" / "open").mkdir(parents=True)
    (tree / "searched" / "open" / "inner").write_text("inner")
    (tree / "searched").chmod(0o711)
    (tree / "shut").mkdir(0o700)
    (tree / "unread").write_text("unread")
    (tree / "unread").chmod(0o600)
    top = os.open(tree, O_PATH | os.O_DIRECTORY)
    os.seteuid(65534)
    opened = attempt(way, top, path, READ)
    os.seteuid(0)
    os.close(top)
    if isinstance(opened, int):
        content = os.read(opened, 10).decode()
        os.close(opened)
        opened = content
    assert opened == expected


@pytest.mark.parametrize("way", OPENERS)
def test_a_directory_that_was_renamed_is_still_the_same(tree: Path, way: Opener) -> None:
    top = os.open(tree, os.O_RDONLY)
    moved = tree.rename(tree.parent / "moved")
    tree.symlink_to("outside")
    try:
        opened = way(top, "file", READ)
        assert same(moved / "file", os.fstat(opened))
        os.close(opened)
        with pytest.raises(FileNotFoundError):
            way(top, "secret", READ)
    finally:
        os.close(top)


# --- Which way is taken -------------------------------------------------------------------------

FORBID: Final = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
errno = int(sys.argv[1])
program = b"".join(struct.pack("HBBI", *step) for step in [
    (0x20, 0, 0, 0),             # load the number of the call
    (0x15, 0, 1, 437),           # openat2?
    (0x06, 0, 0, 0x50000 | errno),  # refuse it
    (0x06, 0, 0, 0x7FFF0000),    # allow the others
])
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_char_p)]
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(Filter(4, program)), 0, 0):
    sys.exit(77)
from holdfast.tools.workspace.openat import opener
top = os.open(sys.argv[2], os.O_RDONLY)
print(opener().__name__, os.read(opener()(top, "to-dir/up", os.O_RDONLY), 10).decode())
"""


@needs_openat2
@pytest.mark.parametrize("refusal", [errno.ENOSYS, errno.EPERM])
def test_where_openat2_is_forbidden_the_names_are_walked(tree: Path, refusal: int) -> None:
    command = [sys.executable, "-c", FORBID, str(refusal), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode == 77:
        pytest.skip("calls cannot be filtered here")
    assert (done.stdout, done.stderr) == ("walk file\n", "")


def test_nothing_slow_is_imported_until_a_path_is_opened() -> None:
    imported = "import sys, holdfast.tools.workspace.directory"
    code = f"{imported}; print({{'ctypes', 'difflib'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout == "set()\n", done.stderr


# --- Any tree, any path -------------------------------------------------------------------------

NAMES: Final = ("a", "b", "c")
PATHS: Final = st.builds(
    lambda names, end: "/".join(names) + end,
    st.lists(st.sampled_from((*NAMES, *NAMES, "..", ".", "", "outside")), min_size=1, max_size=6),
    st.sampled_from(("", "", "", "/", "/.", "/..")),
)
"""No name is that of the top, so what leaves it never comes back."""
PLACES: Final = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
TREES: Final = st.dictionaries(
    PLACES, st.one_of(st.none(), st.just(""), PATHS.filter(bool)), max_size=10
)
"""What is where: a directory (None), a file (""), or a link and its target."""
FLAGS: Final = (
    READ,
    READ | os.O_DIRECTORY,
    READ | os.O_NOFOLLOW,
    O_PATH,
    O_PATH | os.O_NOFOLLOW,
    os.O_WRONLY,
    MAKE,
    MAKE | os.O_NOFOLLOW,
    NEW,
)


def plant(top: Path, tree: dict[str, str | None]) -> None:
    outside = top.parent / "outside"
    outside.mkdir(parents=True)
    (outside / "a").write_text("outside")
    (outside / "b").symlink_to("a")
    top.mkdir()
    for place, what in sorted(tree.items()):
        path = top / place
        parents = [
            top.joinpath(*Path(place).parts[:depth]) for depth in range(place.count("/") + 1)
        ]
        if path.is_symlink() or path.exists() or any(at.is_symlink() for at in parents):
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            continue  # there is a file in the way
        if what is None:
            path.mkdir()
        elif what == "":
            path.write_text(place)
        else:
            path.symlink_to(what)


def outcome(way: Opener, top: Path, path: str, flags: int) -> tuple[str, object]:
    """What was opened, by its place in the tree, or the error; and what is outside then."""
    descriptor = os.open(top, O_PATH | os.O_DIRECTORY)
    opened = attempt(way, descriptor, path, flags)
    os.close(descriptor)
    if isinstance(opened, int):
        found = os.fstat(opened)
        os.close(opened)
        everything = (top, *top.parent.rglob("*"))
        opened = next(os.path.relpath(at, top) for at in everything if same(at, found))
    return opened, sorted(os.path.relpath(at, top) for at in top.parent.rglob("*"))


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as path:
        yield Path(path).resolve()


@needs_openat2
@given(tree=TREES, path=PATHS, flags=st.sampled_from(FLAGS))
@example(tree={"a": "b/", "b": ""}, path="a", flags=READ)
@example(tree={"a": "../outside/c"}, path="a", flags=MAKE)
@example(tree={"a": "b/"}, path="a", flags=MAKE)
@example(tree={"a": "a"}, path="a/", flags=O_PATH | os.O_NOFOLLOW)
def test_both_ways_agree_on_any_tree(
    scratch: Path, tree: dict[str, str | None], path: str, flags: int
) -> None:
    outcomes = []
    for way in (openat2, walk, partial(walk, through=os.O_RDONLY)):
        here = scratch / "agree"
        plant(here / "top", tree)
        try:
            outcomes.append(outcome(way, here / "top", path, flags))
        finally:
            shutil.rmtree(here)
    assert outcomes[0] == outcomes[1] == outcomes[2]


@pytest.mark.parametrize("way", OPENERS)
@given(tree=TREES, path=PATHS)
@example(tree={"a": "../outside"}, path="a/b")
@example(tree={"a/b": None, "b": "a/b"}, path="b/../..")
def test_a_path_is_opened_if_and_only_if_it_is_there_and_beneath(
    scratch: Path, way: Opener, tree: dict[str, str | None], path: str
) -> None:
    top = scratch / "model" / "top"
    plant(top, tree)
    try:
        what, _ = outcome(way, top, path, READ)
        there = unconfined(top, path)
        if isinstance(there, str):  # it may have left the top before it came to that
            assert what in (there, "EXDEV")
        else:
            beneath = os.path.commonpath([top, there]) == str(top)
            assert what == (os.path.relpath(there, top) if beneath else "EXDEV")
    finally:
        shutil.rmtree(scratch / "model")


def unconfined(top: Path, path: str) -> Path | str:
    """What a path leads to in a quiet tree if nothing is refused, or the name of the error."""
    if path.startswith("/"):
        return Path("/")
    try:
        os.stat(f"{top}/{path}" if path else "")
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return Path(os.path.realpath(f"{top}/{path}"))
