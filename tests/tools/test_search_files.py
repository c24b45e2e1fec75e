"""The tool that searches in files, on real directories and with a real process."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import holdfast
from holdfast.kernel.errors import ToolFailed
from holdfast.kernel.workspace import PathRefused
from holdfast.tools import search_child, search_process
from holdfast.tools.search_child import FileSearch
from holdfast.tools.search_files import label, search_files
from holdfast.tools.search_query import SearchQuery
from holdfast.tools.workspace.directory import Directory
from holdfast.tools.workspace.directory_workspace import DirectoryWorkspace

CATASTROPHE = "(a+)+$"
"""Takes longer than anybody can wait, in a file like this:"""
ENDLESS = "a" * 60 + "b\n"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "top").mkdir()
    return tmp_path / "top"


@pytest.fixture
def directory(top: Path) -> Iterator[Directory]:
    with Directory(top) as directory:
        yield directory


def write(top: Path, files: dict[str, str | bytes]) -> None:
    for path, content in files.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(content if isinstance(content, bytes) else content.encode())


async def ask(directory: Directory, *, seconds: float = 60.0, **arguments: Any) -> str:
    """Through the tool, and so through a process."""
    tool = search_files(DirectoryWorkspace(directory), seconds=seconds)
    assert tool.function is not None
    text = await tool.function(**tool.arguments.check(arguments))
    assert isinstance(text, str)
    return text


def found(directory: Directory, **query: Any) -> list[str]:
    """What the process would answer, line by line."""
    return FileSearch(directory, SearchQuery(**query)).text().split("\n")


# --- What is found ------------------------------------------------------------------------------


async def test_a_match_is_a_line_with_its_path_and_number(directory: Directory, top: Path) -> None:
    write(top, {"src/b.py": "x\ndef main():\n", "a.py": "def main(): pass", "c.py": "undefined"})
    assert await ask(directory, pattern=r"def \w+\(") == (
        "a.py:1: def main(): pass\nsrc/b.py:2: def main():\n2 matches in 2 files."
    )


async def test_every_argument_reaches_the_search(directory: Directory, top: Path) -> None:
    write(top, {".gitignore": "out\n", "out/a.py": "x\nA+B\nx\na+b\n", "out/a.txt": "a+b"})
    text = await ask(
        directory,
        pattern="a+b",
        path=str(top),
        literal=True,
        glob="*.py",
        ignore_case=True,
        context=1.0,
        all=True,
        max_results=1,
    )
    assert text.split("\n") == [
        "out/a.py-1- x",
        "out/a.py:2: A+B",
        "out/a.py-3- x",
        "2 matches in 1 file; 1 shown: narrow it by path, glob or pattern.",
    ]


def test_a_line_that_matches_twice_is_one_match(directory: Directory, top: Path) -> None:
    write(top, {"a": "x x x\n"})
    assert found(directory, pattern="x") == ["a:1: x x x", "1 match in 1 file."]


def test_an_expression_sees_one_line_at_a_time(directory: Directory, top: Path) -> None:
    write(top, {"a": "one\ntwo\nthree"})
    assert found(directory, pattern=r"^t\w+$")[:2] == ["a:2: two", "a:3: three"]
    assert found(directory, pattern=r"one\stwo")[0].startswith("No match")


def test_no_match_says_how_many_files_were_looked_at(directory: Directory, top: Path) -> None:
    write(top, {"a": "x", "b": "y", "node_modules/c": "z"})
    assert found(directory, pattern="z") == [
        "No match for 'z' in 2 files.",
        "Ignored files were not searched; set all=true to include them.",
    ]
    assert found(directory, pattern="z", path="node_modules")[0] == "node_modules/c:1: z"


def test_one_file_can_be_searched(directory: Directory, top: Path) -> None:
    write(top, {"a.log": "x", "b": "x", ".gitignore": "*.log"})
    assert found(directory, pattern="x", path="a.log") == ["a.log:1: x", "1 match in 1 file."]


def test_only_files_that_match_the_glob_are_searched(directory: Directory, top: Path) -> None:
    write(top, {"a.py": "x", "b.txt": "x", "src/c.py": "x"})
    assert found(directory, pattern="x", glob="*.py")[:-1] == ["a.py:1: x", "src/c.py:1: x"]
    assert found(directory, pattern="x", path="src", glob="c.*")[:-1] == ["src/c.py:1: x"]


def test_line_ends_of_every_kind_and_text_that_is_none_are_fine(
    directory: Directory, top: Path
) -> None:
    write(top, {"crlf": "one\r\ntwo\r\n", "mark": b"\xef\xbb\xbfone", "odd": b"caf\xe9 one\n"})
    assert found(directory, pattern="one$")[:-1] == [
        "crlf:1: one",
        "mark:1: one",
        "odd:1: caf\ufffd one",
    ]
    assert found(directory, pattern="^one")[:-1] == ["crlf:1: one", "mark:1: one"]


def test_a_shown_line_is_one_line(directory: Directory, top: Path) -> None:
    write(top, {"a": "x\tone\rtwo\x1b[31m\u2028\n"})
    assert found(directory, pattern="one")[0] == "a:1: x\tone\\rtwo\\x1b[31m\\u2028"


def test_any_name_is_one_line(directory: Directory, top: Path) -> None:
    write(top, {"two\nlines": "x", os.fsdecode(b"caf\xe9"): "x", "grün": "x"})
    assert found(directory, pattern="x")[:-1] == [
        r"'caf\udce9':1: x",
        "grün:1: x",
        r"'two\nlines':1: x",
    ]


def test_a_long_line_is_cut_around_the_match(directory: Directory, top: Path) -> None:
    write(top, {"a": "-" * 1000 + "needle" + "-" * 1000, "b": "needle" + "-" * 1000})
    middle, start, _ = found(directory, pattern="needle")
    assert middle == "a:1: …" + "-" * 100 + "needle" + "-" * 194 + "…"
    assert start == "b:1: needle" + "-" * 294 + "…"


def test_an_expression_is_tried_on_the_start_of_a_very_long_line(
    directory: Directory, top: Path
) -> None:
    write(top, {"a": "x" * 20_000 + "needle"})
    assert found(directory, pattern="needle") == [
        "No match for 'needle' in 1 file.",
        "Only the first 20,000 characters of 1 long lines were searched.",
    ]
    assert found(directory, pattern="needle", literal=True)[-1] == "1 match in 1 file."


# --- Context ------------------------------------------------------------------------------------


def test_context_is_shown_once_and_gaps_are_marked(directory: Directory, top: Path) -> None:
    write(top, {"a": "1\nx\n3\nx\n5\n6\n7\nx\n", "b": "x\n"})
    assert found(directory, pattern="x", context=1) == [
        "a-1- 1",
        "a:2: x",
        "a-3- 3",
        "a:4: x",
        "a-5- 5",
        "--",
        "a-7- 7",
        "a:8: x",
        "--",
        "b:1: x",
        "4 matches in 2 files.",
    ]


def test_a_match_that_is_too_many_is_no_context_either(directory: Directory, top: Path) -> None:
    write(top, {"a": "x\nx\n3\n"})
    assert found(directory, pattern="x", context=2, max_results=1)[:-1] == [
        "a:1: x",
        "--",
        "a-3- 3",
    ]


# --- Bounds -------------------------------------------------------------------------------------


def test_matches_that_are_not_shown_are_counted(directory: Directory, top: Path) -> None:
    write(top, {"a": "x\n" * 60, "b": "x\n" * 60, "c": "x\n"})
    lines = found(directory, pattern="x")
    assert len(lines) == 101
    assert lines[-2:] == [
        "b:40: x",
        "121 matches in 3 files; 100 shown: narrow it by path, glob or pattern.",
    ]


def test_the_answer_is_bounded_in_bytes(directory: Directory, top: Path) -> None:
    write(top, {"a": ("€" * 250 + "\n") * 200})
    *lines, last = found(directory, pattern="€", max_results=1000)
    size = len("\n".join(lines).encode())
    assert search_child.MAX_BYTES - 800 < size < search_child.MAX_BYTES
    assert last.startswith(f"200 matches in 1 file; {len(lines)} shown")


def test_what_is_no_text_or_too_large_is_skipped_and_counted(
    directory: Directory, top: Path
) -> None:
    write(top, {"bin": b"x\0", "text": "x", "two/bin": b"\0x"})
    with (top / "large").open("wb") as large:
        large.truncate(search_child.MAX_FILE + 1)
    os.mkfifo(top / "pipe")
    assert found(directory, pattern="x") == [
        "text:1: x",
        "1 match in 1 file.",
        "Skipped: 2 binary, 1 larger than 64 MB.",
    ]
    assert found(directory, pattern="x", path="large") == [
        "No match for 'x' in 0 files.",
        "Skipped: 1 larger than 64 MB.",
        "A command such as grep can search it.",
    ]


def test_the_model_is_told_how_large_a_file_may_be(directory: Directory) -> None:
    assert (
        f"larger than {search_child.MAX_FILE // 1024**2} MB"
        in search_files(DirectoryWorkspace(directory)).description
    )


def test_a_file_that_vanishes_is_counted(top: Path) -> None:
    class Vanishing(Directory):
        def open(self, path: str, flags: int = os.O_RDONLY) -> int:
            if path == "a":
                (top / "a").unlink()
            return super().open(path, flags)

    write(top, {"a": "x", "b": "x"})
    with Vanishing(top) as directory:
        assert found(directory, pattern="x") == [
            "b:1: x",
            "1 match in 1 file.",
            "Skipped: 1 unreadable.",
        ]


def test_a_search_whose_time_is_up_tells_what_it_has(directory: Directory, top: Path) -> None:
    write(top, {"a": "x"})
    assert found(directory, pattern="x", seconds=0)[1:] == [
        "Incomplete, stopped after 0 s: narrow the path."
    ]


# --- Confinement and refusals -------------------------------------------------------------------


def test_links_are_neither_followed_nor_read(
    directory: Directory, top: Path, tmp_path: Path
) -> None:
    write(tmp_path, {"outside/secret": "x", "secret": "x"})
    write(top, {"inside/a": "x"})
    (top / "file").symlink_to(tmp_path / "secret")
    (top / "folder").symlink_to(tmp_path / "outside")
    (top / "twice").symlink_to("inside")
    assert found(directory, pattern="x", all=True) == ["inside/a:1: x", "1 match in 1 file."]
    for path in ("file", "folder", "folder/secret", "../secret", str(tmp_path / "secret")):
        with pytest.raises(PathRefused, match="outside"):
            found(directory, pattern="x", path=path)


async def test_a_refusal_comes_through_the_process_in_words(
    directory: Directory, top: Path
) -> None:
    (top / "out").symlink_to("/etc")
    with pytest.raises(ToolFailed, match="out is outside of the directory"):
        await ask(directory, pattern="x", path="out")
    with pytest.raises(PathRefused, match="is outside of the directory"):
        await ask(directory, pattern="x", path="/etc")
    with pytest.raises(ToolFailed, match=r"at position 4.*literal=true"):
        await ask(directory, pattern="main(")


@pytest.mark.parametrize(
    "pattern", ["(", "[z-a]", "*x", "(?P<n>x)(?P<n>y)", "x{99999999999}", "(" * 1000 + ")" * 1000]
)
def test_a_bad_expression_is_refused_with_what_is_wrong(directory: Directory, pattern: str) -> None:
    with pytest.raises(ToolFailed, match="literal=true"):
        found(directory, pattern=pattern)


async def test_half_a_character_matches_nothing(directory: Directory, top: Path) -> None:
    write(top, {"a": "x"})
    tool = search_files(DirectoryWorkspace(directory))
    assert tool.function is not None
    for literal in (True, False):
        text = await tool.function(pattern="\udcff", literal=literal)
        assert text == r"No match for '\udcff' in 1 file."


async def test_the_directory_is_searched_that_is_held_whatever_its_name_means(
    directory: Directory, top: Path, tmp_path: Path
) -> None:
    write(top, {"a": "x"})
    os.rename(top, tmp_path / "moved")
    write(tmp_path, {"top/other": "x"})
    assert (await ask(directory, pattern="x")).startswith("a:1: x\n")


# --- The process --------------------------------------------------------------------------------


Processes = asyncio.Queue[asyncio.subprocess.Process]


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    """Those that are started from now on."""
    started = Processes()
    start = asyncio.create_subprocess_exec

    async def starting(*args: Any, **options: Any) -> asyncio.subprocess.Process:
        process = await start(*args, **options)
        started.put_nowait(process)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", starting)
    return started


def is_gone(process: asyncio.subprocess.Process) -> bool:
    """It has ended, and was waited for."""
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_an_expression_that_never_ends_is_ended_while_the_event_loop_goes_on(
    directory: Directory, top: Path, processes: Processes
) -> None:
    write(top, {"a": ENDLESS})
    search = asyncio.create_task(ask(directory, seconds=0.5, pattern=CATASTROPHE))
    turns = 0
    while not search.done():
        await asyncio.sleep(1)  # virtual: it takes a few milliseconds
        turns += 1
    with pytest.raises(ToolFailed, match=r"longer than 0.5 s: use a simpler pattern or a narr"):
        await search
    assert turns > 5
    assert is_gone(await processes.get())


async def test_a_cancelled_search_ends_its_process_first(
    directory: Directory, top: Path, processes: Processes
) -> None:
    write(top, {"a": ENDLESS})
    search = asyncio.create_task(ask(directory, pattern=CATASTROPHE))
    process = await processes.get()
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert process.returncode == -signal.SIGKILL
    assert is_gone(process)
    del search, process
    gc.collect()  # what was not closed would warn


async def test_a_process_that_broke_is_told_as_that(
    directory: Directory, top: Path, processes: Processes
) -> None:
    write(top, {"a": ENDLESS})
    search = asyncio.create_task(ask(directory, pattern=CATASTROPHE))
    process = await processes.get()
    process.terminate()
    with pytest.raises(ToolFailed, match=r"failed \(exit code -15\)"):
        await search


async def test_many_searches_run_side_by_side(directory: Directory, top: Path) -> None:
    write(top, {"a": "x\ny\n"})
    answers = await asyncio.gather(*(ask(directory, pattern=each) for each in "xyz"))
    assert [answer.split("\n")[0] for answer in answers] == [
        "a:1: x",
        "a:2: y",
        "No match for 'z' in 1 file.",
    ]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_process_that_matches_ends_when_whoever_asked_is_gone(
    directory: Directory, top: Path
) -> None:
    write(top, {"a": ENDLESS})
    opened = directory.open(".")
    process = subprocess.Popen(
        search_process._command(opened, 60), stdin=subprocess.PIPE, pass_fds=(opened,), env={}
    )
    os.close(opened)
    assert process.stdin is not None
    process.stdin.write(json.dumps({"pattern": CATASTROPHE}).encode() + b"\n")
    process.stdin.flush()
    until = time.monotonic() + 30
    while cpu_seconds(process.pid) < 0.5:  # more than it takes to start: it is in the expression
        assert time.monotonic() < until
        time.sleep(0.01)
    process.stdin.close()
    assert process.wait(30) == -signal.SIGIO


def test_a_process_whose_asker_is_gone_before_it_asks_ends_too(directory: Directory) -> None:
    opened = directory.open(".")
    command = search_process._command(opened, 60)
    ended = subprocess.run(
        command, input=b"", pass_fds=(opened,), env={}, stderr=subprocess.PIPE, check=False
    )
    os.close(opened)
    assert (ended.returncode, ended.stderr) == (1, b"")


def environment(pid: int) -> str:
    return Path(f"/proc/{pid}/environ").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_the_process_knows_nothing_of_our_environment(
    directory: Directory,
    top: Path,
    monkeypatch: pytest.MonkeyPatch,
    processes: Processes,
) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_KEY", "secret")
    write(top, {"a": ENDLESS})
    search = asyncio.create_task(ask(directory, pattern=CATASTROPHE))
    process = await processes.get()
    known = environment(process.pid)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert "secret" not in known


PROGRAM = """
import asyncio, sys
from holdfast.tools.workspace.directory_workspace import DirectoryWorkspace
from holdfast.tools.search_files import search_files
directory, pattern = sys.argv[1:]
print(asyncio.run(search_files(DirectoryWorkspace(directory)).function(pattern=pattern)))
"""


def test_the_process_runs_the_same_holdfast_as_we_do_and_nothing_that_lies_around(
    top: Path, tmp_path: Path
) -> None:
    """From wherever it was installed; here, from a copy that is on PYTHONPATH."""
    shutil.copytree(Path(holdfast.__file__).parent, tmp_path / "site/holdfast")
    code = tmp_path / "site/holdfast/tools/search_child.py"
    code.write_text(code.read_text("utf-8").replace("No match for", "The copy has no"), "utf-8")
    broken = "raise RuntimeError('taken from the directory')"
    write(top, {f"{name}.py": broken for name in ("holdfast", "json", "msgspec", "re", "signal")})
    libraries = str(Path(msgspec.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, str(top), "nowhere to be seen"],
        cwd=top,
        env={"PYTHONPATH": os.pathsep.join((str(tmp_path / "site"), libraries))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "The copy has no 'nowhere to be seen' in 5 files.\n", done.stderr


def test_the_process_imports_nothing_slow() -> None:
    report = "import sys, holdfast.tools.search_child; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True
    )
    slow = {"anyio", "asyncio", "pydantic", "jsonschema_rs", "subprocess"}
    assert slow.isdisjoint(done.stdout.split())


# --- Against a plain model ----------------------------------------------------------------------

PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)
TEXTS = st.text(st.sampled_from("xyé \n\r\0"), max_size=12)


def plainly(files: dict[str, str], needle: str, ignore_case: bool) -> list[str]:
    """What a search for plain text means, without any care for speed or size."""
    lines = []
    for path in sorted(files, key=lambda path: path.split("/")):
        if "\0" in files[path]:
            continue
        text = files[path] if "\n" in files[path] else files[path].replace("\r", "\n")
        for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
            if (needle.lower() in line.lower()) if ignore_case else (needle in line):
                lines.append(f"{path}:{number}: {line}".replace("\r", "\\r"))
    return lines


@given(
    st.dictionaries(PATHS, TEXTS, max_size=6),
    st.text(st.sampled_from("xyé."), min_size=1, max_size=2),
    st.booleans(),
)
@example({"a": "x\n\nx"}, "x", False)
@example({"a": "É"}, "é", True)
@example({"a": "x\rx"}, "x", False)
@example({"a": "x\r\r\nx\r"}, "x", False)
def test_a_search_for_plain_text_finds_what_a_plain_search_finds(
    files: dict[str, str], needle: str, ignore_case: bool
) -> None:
    # Of a file and a directory of the same name only one can be.
    folders = {path[: at.start()] for path in files for at in re.finditer("/", path)}
    files = {path: text for path, text in files.items() if path not in folders}
    literal = SearchQuery(pattern=needle, literal=True, ignore_case=ignore_case)
    escaped = SearchQuery(pattern=re.escape(needle), ignore_case=ignore_case)
    with tempfile.TemporaryDirectory() as name, Directory(name) as directory:
        write(Path(name), dict(files))
        for query in (literal, escaped):
            lines = FileSearch(directory, query).text().split("\n")
            matches = [line for line in lines if re.match(r"[abc/]+:\d+: ", line)]
            assert matches == plainly(files, needle, ignore_case)


# --- For people and for the model ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pattern": "def main", "path": "src"}, "Search for 'def main' in src"),
        ({"pattern": "def main"}, "Search for 'def main'"),
        ({"pattern": "x" * 80}, f"Search for '{'x' * 59}…'"),
        ({"pattern": "a\nb", "path": "c\nd"}, r"Search for 'a\nb' in 'c\nd'"),
    ],
)
def test_people_are_told_what_is_searched_for(arguments: dict[str, str], words: str) -> None:
    assert label(arguments) == words


async def test_the_model_is_told_what_each_argument_means(directory: Directory) -> None:
    spec = search_files(DirectoryWorkspace(directory)).spec
    assert spec.description.startswith("Search for text in files")
    assert all(each["description"] for each in spec.schema["properties"].values())


# --- The same text and the same lines as read_file -----------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        "one\ntwo\n".encode("utf-16"),
        b"\xfe\xff" + "one\r\ntwo".encode("utf-16-be"),
        b"one\rtwo\r",
        b"\xef\xbb\xbfone\ntwo",
    ],
)
@pytest.mark.parametrize("literal", [False, True])
def test_lines_are_those_that_read_file_shows(
    top: Path, directory: Directory, data: bytes, literal: bool
) -> None:
    write(top, {"a": data})
    assert found(directory, pattern="two", literal=literal)[0] == "a:2: two"
    assert found(directory, pattern="one", literal=literal)[0] == "a:1: one"


def test_an_empty_file_has_no_line(top: Path, directory: Directory) -> None:
    write(top, {"a": b"", "b": b"\xef\xbb\xbf", "c": b"\n"})
    assert found(directory, pattern="^$")[0] == "c:1: "
    assert found(directory, pattern="^$")[1] == "1 match in 1 file."


async def test_an_expression_that_cannot_be_used_is_not_repeated_at_length(
    directory: Directory,
) -> None:
    with pytest.raises(ToolFailed) as caught:
        await ask(directory, pattern="(" * 2_000)
    assert len(str(caught.value)) < 500
