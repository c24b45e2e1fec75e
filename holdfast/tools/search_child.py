"""The search process started by `search_files`.

`re` holds the interpreter while it matches, cannot be interrupted, and can take years for some
expressions. Here it blocks no other work, and the system ends it when its time is up or its parent
has died. Nothing slow is imported.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from holdfast.kernel.errors import ToolFailed
from holdfast.kernel.workspace import DirectoryEntry, PathRefused
from holdfast.tools.display_text import clipped, on_one_line
from holdfast.tools.files.text_file import decode, is_binary, shown
from holdfast.tools.search_query import SearchQuery
from holdfast.tools.workspace.directory import Directory
from holdfast.tools.workspace.glob import Glob
from holdfast.tools.workspace.tree import Tree
from holdfast.tools.workspace.walk import DirectoryWalk

MAX_BYTES: Final = 50_000
MAX_FILE: Final = 64 * 1024 * 1024
MAX_LINE_SEARCHED: Final = 20_000
"""Characters of a line that are searched: the time may grow with their square."""
MAX_LINE_SHOWN: Final = 300
"""Characters of a line that are shown."""
MAX_PATTERN_SHOWN: Final = 200
"""Characters of a pattern that are repeated in messages."""

UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")

_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class FileSearch:
    """One search. Raises `ToolFailed` with a message for the model."""

    def __init__(self, tree: Tree, query: SearchQuery) -> None:
        self._tree = tree
        self._query = query
        glob = Glob(query.glob) if query.glob else None
        literally = query.literal and not query.ignore_case
        self._needle = query.pattern.encode(errors="surrogatepass") if literally else b""
        """Bytes without which there is no match, unless it is UTF-16."""
        self._expression = compiled(query)
        self._walk = DirectoryWalk(tree, query.path, all=query.all, glob=glob)
        self._until = time.monotonic() + query.seconds
        self._late = False
        self._lines: list[str] = []
        self._bytes = 0
        self._full = False
        self._searched = self._with_hits = self._hits = self._shown = 0
        self._binary = self._large = self._unreadable = self._long = 0

    def text(self) -> str:
        for path in self._files():
            if time.monotonic() >= self._until:
                self._late = True
                break
            data = self._read(path)
            if data is not None:
                self._search(path, data)
        return "\n".join((*self._lines, *self._words()))

    # --- Which files ----------------------------------------------------------------------------

    def _files(self) -> Iterator[str]:
        if self._tree.is_file(self._walk.start):  # named explicitly
            yield self._walk.start
            return
        for seen in self._walk:
            if seen.left_out or seen.entry.kind != "file" or not self._walk.wants(seen):
                continue
            if seen.entry.size <= MAX_FILE:
                yield seen.path
            else:
                self._large += 1

    def _read(self, path: str) -> bytes | None:
        """The bytes of a file; None if it cannot be searched, which is counted."""
        try:
            data = self._tree.read_limited(path, MAX_FILE)
        except (OSError, PathRefused):
            self._unreadable += 1
            return None
        self._large += data is None
        return data

    # --- What is in them ------------------------------------------------------------------------

    def _search(self, path: str, data: bytes) -> None:
        if self._needle not in data and not data.startswith(UTF_16) and not is_binary(data):
            self._searched += 1
            return  # without looking at lines
        document = decode(data)
        if document is None:
            self._binary += 1
            return
        self._searched += 1
        query = self._query
        text = shown(document.text)
        lines = text.removesuffix("\n").split("\n") if text else []
        room = 0 if self._full else query.max_results - self._shown
        columns: dict[int, int] = {}
        hidden: set[int] = set()
        before = self._hits
        for number, column in self._hits_in(lines):
            self._hits += 1
            if len(columns) < room:
                columns[number] = column
            elif len(hidden) < query.context:  # more of them cannot be near a shown line
                hidden.add(number)
        self._with_hits += self._hits > before
        if columns:
            self._show(path, lines, columns, hidden)

    def _hits_in(self, lines: list[str]) -> Iterator[tuple[int, int]]:
        """Each matching line, counted from 0, and the column of the match."""
        search, limit = self._expression.search, MAX_LINE_SEARCHED
        for number, line in enumerate(lines):
            if len(line) > limit and not self._query.literal:
                self._long += 1
                line = line[:limit]
            if found := search(line):
                yield number, found.start()

    def _show(self, path: str, lines: list[str], columns: dict[int, int], hidden: set[int]) -> None:
        name, context = on_one_line(path), self._query.context
        before = None
        for number in shown_lines(columns, hidden, len(lines), context):
            if context and before != number - 1 and self._lines:
                self._add("--")
            before = number
            column = columns.get(number)
            mark = "-" if column is None else ":"
            shown = excerpt(lines[number], column or 0)
            if not self._add(f"{name}{mark}{number + 1}{mark} {shown}"):
                return
            self._shown += column is not None
        self._full = self._shown >= self._query.max_results

    def _add(self, line: str) -> bool:
        self._bytes += len(line.encode()) + 1
        if self._bytes > MAX_BYTES:
            self._full = True
        else:
            self._lines.append(line)
        return not self._full

    # --- What the lines do not show -------------------------------------------------------------

    def _words(self) -> Iterator[str]:
        query, walk = self._query, self._walk
        if not self._hits:
            pattern = clipped(query.pattern, MAX_PATTERN_SHOWN)
            yield f"No match for {pattern!r} in {_counted(self._searched, 'file')}."
        else:
            counts = f"{_counted(self._hits, 'match')} in {_counted(self._with_hits, 'file')}"
            narrow = f"; {self._shown:,} shown: narrow it by path, glob or pattern."
            yield counts + ("." if self._shown == self._hits else narrow)
        if self._late:
            yield f"Incomplete, stopped after {query.seconds:g} s: narrow the path."
        if walk.stopped:
            yield f"Incomplete, stopped after {walk.visited:,} entries: narrow the path."
        skipped = {
            "binary": self._binary,
            f"larger than {MAX_FILE // 1024**2} MB": self._large,
            "unreadable": self._unreadable + walk.unreadable,
        }
        if any(skipped.values()):
            counts = ", ".join(f"{count:,} {what}" for what, count in skipped.items() if count)
            yield f"Skipped: {counts}."
        if self._large and not walk.visited:  # named explicitly
            yield "A command such as grep can search it."
        if self._long:
            long = f"{self._long:,} long lines"
            yield f"Only the first {MAX_LINE_SEARCHED:,} characters of {long} were searched."
        if walk.left_out and not self._hits:
            yield "Ignored files were not searched; set all=true to include them."


# --- Pure ---------------------------------------------------------------------------------------


def compiled(query: SearchQuery) -> re.Pattern[str]:
    flags = re.IGNORECASE if query.ignore_case else re.NOFLAG
    if query.literal:
        return re.compile(re.escape(query.pattern), flags)
    try:
        return re.compile(query.pattern, flags)
    except (re.error, OverflowError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        pattern = clipped(query.pattern, MAX_PATTERN_SHOWN)
        raise ToolFailed(
            f"{pattern!r} is not a regular expression: {why}. Fix it, or search for plain text "
            "with literal=true."
        ) from None


def shown_lines(hits: dict[int, int], hidden: set[int], count: int, context: int) -> list[int]:
    """The lines with hits and their context, in order, without the hits beyond the limit."""
    around = {
        number
        for line in hits
        for number in range(max(0, line - context), min(count, line + context + 1))
    }
    return sorted(around - hidden)


def excerpt(line: str, column: int) -> str:
    """A line for the model: around the match if it is long, and escaped."""
    start = max(0, min(column - MAX_LINE_SHOWN // 3, len(line) - MAX_LINE_SHOWN))
    end = start + MAX_LINE_SHOWN
    text = _UNPRINTABLE.sub(lambda found: repr(found[0])[1:-1], line[start:end])
    return ("…" if start else "") + text + ("…" if end < len(line) else "")


def _counted(count: int, noun: str) -> str:
    plural = "es" if noun.endswith("ch") else "s"
    return f"{count:,} {noun}{'' if count == 1 else plural}"


# --- The process --------------------------------------------------------------------------------


def main(directory: int) -> None:
    """Answer the query on standard input about the directory of a descriptor.

    Without one (-1), the parent is asked for each file.
    """
    question = sys.stdin.buffer.readline()
    if not question:  # the parent has died
        os._exit(1)
    query = SearchQuery(**json.loads(question))
    if directory < 0:
        answer = _answer(ParentTree(), query)
    else:
        _exit_with_parent()
        os.fchdir(directory)  # by its descriptor: its name may have changed
        with Directory(".") as tree:
            answer = _answer(tree, query)
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)  # nothing to clean up


def _answer(tree: Tree, query: SearchQuery) -> dict[str, Any]:
    try:
        return {"text": FileSearch(tree, query).text()}
    except ToolFailed as refused:
        return {"refused": str(refused), "expected": refused.expected}


class ParentTree:
    """The files of a workspace that only the parent can read: each call is a question to it.

    A question is a line of JSON. The answer is one too, followed by as many bytes as its `size`.
    """

    def relative(self, path: str) -> str:
        return path  # the parent has made it relative

    def entries(self, path: str = ".", most: int | None = None) -> list[DirectoryEntry]:
        answer, _ = self._ask("list", path, most)
        return [DirectoryEntry(**entry) for entry in answer["entries"]]

    def link_target(self, path: str) -> str:
        return "?"  # a search follows no link

    def is_file(self, path: str) -> bool:
        answer, _ = self._ask("stat", path)
        return bool(answer["kind"] == "file")

    def read_if_there(self, path: str, limit: int) -> bytes | None:
        try:
            return self.read_limited(path, limit)
        except PathRefused:
            return None

    def read_limited(self, path: str, limit: int) -> bytes | None:
        return self._ask("read", path, limit)[1]

    def _ask(self, *question: object) -> tuple[dict[str, Any], bytes | None]:
        sys.stdout.write(json.dumps(question) + "\n")
        sys.stdout.flush()
        line = sys.stdin.buffer.readline()
        if not line:  # the parent has died
            os._exit(1)
        answer = json.loads(line)
        if "refused" in answer:
            raise PathRefused(answer["refused"], answer["code"], expected=answer["expected"])
        size = answer.get("size")
        return answer, None if size is None else sys.stdin.buffer.read(size)


def _exit_with_parent() -> None:
    """Have the system end us when the other end of standard input is closed.

    By a signal: a thread that waits for it would not run while `re` matches.
    """
    import fcntl
    import select
    import signal

    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([0], [], [], 0)[0]:  # it was closed before
        os._exit(1)
