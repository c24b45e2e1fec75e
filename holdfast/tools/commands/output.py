"""Output of a command: cleaned as it arrives, shortened to its ends, kept in a file if long."""

from __future__ import annotations

import codecs
import re
import time
from contextlib import suppress
from secrets import token_hex
from typing import Final

from holdfast.kernel.workspace import NewFile, PathRefused, Workspace

HEAD_BYTES: Final = 16 * 1024
TAIL_BYTES: Final = 16 * 1024
"""Bytes of the beginning and of the end shown to the model."""
MAX_LOG: Final = 64 * 1024 * 1024
"""Maximum bytes of a file with long output: the most that search_files can search."""
MAX_UNSEEN: Final = 4 * 1024
"""Characters of new output shown to people at once."""
MAX_HELD_LINE: Final = 8 * 1024
"""Characters after which an unfinished line is passed on."""

MAX_UNSAVED: Final = 256 * 1024
"""Bytes of output kept until they are written to a file at once."""

HOLDFAST_FOLDER: Final = ".holdfast"
OUTPUT_FOLDER: Final = f"{HOLDFAST_FOLDER}/output"
MAX_LOG_FILES: Final = 50
"""Number of log files kept in a directory; older ones are deleted."""
_LOG: Final = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}\.log", re.ASCII)

_COLOUR: Final = "\x1b\\[[0-9;:]*m"
_RAW: Final = re.compile(f"(?!{_COLOUR})[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters other than tab, newline and those that start a color."""
_COLOURS: Final = re.compile(_COLOUR)
_ESCAPES: Final = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, the cursor
    "|\x1b[\\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?"  # titles, links
    "|\x1b[ -/]*[0-~]"
)
_OPEN_ESCAPE: Final = 64
"""Characters at the end of a piece in which an escape sequence may be incomplete."""


class OutputDecoder:
    """Converts bytes to text in whole lines: without escapes except colors, each line as a
    terminal would finally show it."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""

    def feed(self, data: bytes) -> str:
        text = self._line + self._decoder.decode(data)
        end = text.rfind("\n") + 1
        self._line = text[end:]
        return readable(text[:end]) + self._overlong()

    def end(self) -> str:
        rest, self._line = self._line + self._decoder.decode(b"", True), ""
        return readable(rest)

    def _overlong(self) -> str:
        """The beginning of a long line, passed on before its end: it need not be kept."""
        line = self._line
        if len(line) <= MAX_HELD_LINE:
            return ""
        line = line[line.rstrip("\r").rfind("\r") + 1 :]  # all before it is overwritten
        if len(line) <= MAX_HELD_LINE:
            self._line = line
            return ""
        escape = line.find("\x1b", -_OPEN_ESCAPE)
        end = len(line) if escape < 0 else escape
        self._line = line[end:]
        return readable(line[:end])


def readable(text: str) -> str:
    """Text without control characters except colors: applied, or replaced by a mark."""
    if not _RAW.search(text):  # the usual case
        return text
    lines = map(_last_state, _ESCAPES.sub(_colour_alone, text).split("\n"))
    return _RAW.sub("\ufffd", "\n".join(lines))


def uncoloured(text: str) -> str:
    return _COLOURS.sub("", text) if "\x1b" in text else text


def _colour_alone(escape: re.Match[str]) -> str:
    return escape[0] if _COLOURS.fullmatch(escape[0]) else ""


def _last_state(line: str) -> str:
    """A line after all overwriting, as by progress bars."""
    line = line.rstrip("\r").rpartition("\r")[2]
    if "\b" not in line:
        return line
    kept: list[str] = []
    for character in uncoloured(line):
        if character != "\b":
            kept.append(character)
        elif kept:
            kept.pop()
    return "".join(kept)


class HeadAndTail:
    """The beginning and the end of a byte stream of any length."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self.total = 0
        self._limits = head, tail
        self._head = bytearray()
        self._tail = bytearray()

    @property
    def long(self) -> bool:
        """Whether the middle was dropped."""
        return self.total > sum(self._limits)

    def add(self, data: bytes) -> None:
        head, tail = self._limits
        self.total += len(data)
        room = head - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * tail:
            del self._tail[:-tail]

    def whole(self) -> bytes:
        """All bytes, if the stream is not `long`."""
        return bytes(self._head + self._tail)

    def cut(self) -> tuple[str, int, str]:
        """For long UTF-8: the beginning and the end, in whole lines if possible, and how many bytes
        are missing between them."""
        head, tail = bytes(self._head), bytes(self._tail[-self._limits[1] :])
        end = head.rfind(b"\n", len(head) // 2) + 1 or len(head)
        start = tail.find(b"\n", 0, len(tail) // 2) + 1
        # The rest of a character that was cut in two is not UTF-8, and is dropped.
        first, last = head[:end].decode(errors="ignore"), tail[start:].decode(errors="ignore")
        return first, self.total - len(first.encode()) - len(last.encode()), last


class OutputLog:
    """A file with the whole output, in the workspace of the command."""

    def __init__(self, workspace: Workspace) -> None:
        self.path = ""
        """Path of the file; empty until something is written."""
        self.problem = ""
        """Why the file is incomplete; empty if it is complete."""
        self._workspace = workspace
        self._file: NewFile | None = None
        self._unsaved: list[bytes] = []
        self._unsaved_bytes = 0
        self._room = MAX_LOG

    def write(self, data: bytes) -> None:
        """Append output, which `save` writes to the file."""
        if self.problem or self._room < 0:
            return
        self._unsaved.append(data[: self._room])
        self._unsaved_bytes += len(data)
        self._room -= len(data)

    @property
    def is_full(self) -> bool:
        """Whether there is enough to be saved."""
        return self._unsaved_bytes >= MAX_UNSAVED

    async def save(self) -> None:
        """Write the output to the file, if possible: a full disk is not the command's fault."""
        data = b"".join(self._unsaved)
        self._unsaved.clear()
        self._unsaved_bytes = 0
        if self.problem or not data:
            return
        try:
            if self._file is None:
                self._file = await self._open()
            await self._file.write(data)
        except PathRefused as error:
            self.problem = str(error)
        except OSError as error:
            self.problem = error.strerror or str(error)
        if self._room < 0 and not self.problem:
            self.problem = f"the file is limited to {MAX_LOG // 2**20} MiB"

    async def close(self) -> None:
        await self.save()
        file, self._file = self._file, None
        if file is not None:
            await file.close()

    async def _open(self) -> NewFile:
        await self._ignore()
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{token_hex(4)}.log"
        path = f"{OUTPUT_FOLDER}/{name}"
        file = await self._workspace.create(path)
        self.path = path
        await self._forget_oldest(name)
        return file

    async def _forget_oldest(self, newest: str) -> None:
        """Delete the oldest log files, by the time in their names.

        A file with another name is not ours. The new file is kept even if the clock was set back.
        """
        with suppress(PathRefused):  # then old files stay
            names = {entry.name for entry in await self._workspace.list(OUTPUT_FOLDER)}
            logs = sorted(name for name in names - {newest} if _LOG.fullmatch(name))
            for name in logs[: 1 - MAX_LOG_FILES]:
                await self._workspace.remove(f"{OUTPUT_FOLDER}/{name}")

    async def _ignore(self) -> None:
        """Keep our files out of the user's version control."""
        try:
            file = await self._workspace.create(f"{HOLDFAST_FOLDER}/.gitignore")
        except PathRefused:
            return  # it exists; otherwise creating the log fails too, and reports why
        try:
            await file.write(b"*\n")
        finally:
            await file.close()


class UnseenOutput:
    """Output not shown to people yet, limited to what they can read."""

    def __init__(self) -> None:
        self._text = ""
        self._skipped = 0

    def __bool__(self) -> bool:
        return bool(self._text)

    def add(self, text: str) -> None:
        self._text += text
        if len(self._text) > 2 * MAX_UNSEEN:
            self._shorten()

    def take(self) -> str:
        if len(self._text) > MAX_UNSEEN:
            self._shorten()
        text, skipped = self._text, self._skipped
        self._text, self._skipped = "", 0
        return f"[… {skipped} characters not shown …]\n{text}" if skipped else text

    def _shorten(self) -> None:
        last = self._text[-MAX_UNSEEN:]
        last = last[last.find("\n", 0, -1) + 1 :]
        self._skipped += len(self._text) - len(last)
        self._text = last


class CommandOutput:
    """The output of one command, from its bytes to what people and the model see."""

    def __init__(self, workspace: Workspace) -> None:
        self.unseen = UnseenOutput()
        self._readable = OutputDecoder()
        self._ends = HeadAndTail()
        self._shown = HeadAndTail()
        """The same output with its colors."""
        self._is_coloured = False
        self._log = OutputLog(workspace)

    def feed(self, data: bytes) -> None:
        self._add(self._readable.feed(data))

    def end(self) -> None:
        """Mark the end of the output."""
        self._add(self._readable.end())

    async def save(self) -> None:
        """Save what has come of a long output, from time to time."""
        if self._log.is_full:
            await self._log.save()

    async def close(self) -> None:
        """Save the rest. Before this, `text` does not know whether all was saved."""
        self.end()
        await self._log.close()

    def _add(self, text: str) -> None:
        if not text:
            return
        self.unseen.add(text)
        plain = uncoloured(text)
        self._is_coloured = self._is_coloured or plain is not text
        data = plain.encode()
        self._shown.add(data if plain is text else text.encode())
        if self._ends.total + len(data) > HEAD_BYTES + TAIL_BYTES:
            if not self._ends.long:
                self._log.write(self._ends.whole())
            self._log.write(data)
        self._ends.add(data)

    def text(self) -> str:
        """The output for the model."""
        return self._shortened(self._ends)

    def coloured(self) -> str | None:
        """The output for people; None if it is the same."""
        return self._shortened(self._shown) if self._is_coloured else None

    def _shortened(self, ends: HeadAndTail) -> str:
        if not ends.long:
            return ends.whole().decode()
        head, missing, tail = ends.cut()
        gap = f"[… {missing} bytes omitted …]"
        where = f"[{self._where()}]\n" if self._ends.long else ""
        return f"{ended(head)}{gap}\n{ended(tail)}{where}"

    def _where(self) -> str:
        """Where the whole output is. Put last: a result that is too long loses its middle."""
        log = self._log
        if not log.path:
            return f"the output could not be saved to a file: {log.problem}"
        what = "the beginning" if log.problem else "all"
        reason = f"; {log.problem}" if log.problem else ""
        can = "which read_file and search_files can read"
        return f"{what} of the output is in {log.path}, {can}{reason}"


def ended(text: str) -> str:
    """The text, with a newline at its end."""
    return text if text.endswith("\n") else text + "\n"
