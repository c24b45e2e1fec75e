"""Text for terminals and pipes: what is dangerous is spelled, what cannot be written is said."""

from __future__ import annotations

import errno
import io
import os
import pty
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.output_stream import RESET, OutputStream, StreamEscaper
from holdfast.kernel.escape import escape

ANY_TEXT = st.text(st.characters(exclude_categories=()))


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def plain(stream: io.StringIO | io.TextIOWrapper | None) -> OutputStream:
    return OutputStream(stream, terminal=False, color=False, width=80)


def encoded(encoding: str, errors: str = "strict") -> tuple[io.BytesIO, OutputStream]:
    data = io.BytesIO()
    return data, plain(io.TextIOWrapper(data, encoding=encoding, errors=errors, newline=""))


# --- Harmless text ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b2J", r"\x9b2J"),
        ("rm -rf \u202e/", r"rm -rf \u202e/"),
        ("\u2066a\u2069\u200e\u200f\u061c", r"\u2066a\u2069\u200e\u200f\u061c"),
        ("a\u2028b\u2029c", r"a\u2028b\u2029c"),
        ("a\rb", r"a\x0db"),
        ("a\x00b\x7f\x08", r"a\x00b\x7f\x08"),
        ("\ud800 \udcff", r"\ud800 \udcff"),
        ("one\r\ntwo\n\tthree", "one\ntwo\n\tthree"),
    ],
)
def test_what_a_terminal_would_obey_is_spelled(text: str, shown: str) -> None:
    assert escape(text) == shown


@pytest.mark.parametrize("text", ["", "Grüße, 世界! ✓", "a\n\tb", "👩‍👩‍👧", "می‌خواهم"])
def test_ordinary_text_is_the_same_object(text: str) -> None:
    assert escape(text) is text


@given(ANY_TEXT)
def test_safe_text_has_no_control_and_no_direction_characters(text: str) -> None:
    for char in escape(text):
        assert char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp")
        assert unicodedata.bidirectional(char) not in (
            {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
        )


@given(st.lists(ANY_TEXT | st.sampled_from(["\r", "\n", "\r\n"])))
def test_pieces_are_as_safe_as_the_whole(pieces: list[str]) -> None:
    fold = StreamEscaper()
    assert "".join(map(fold.feed, pieces)) + fold.end() == escape("".join(pieces))


# --- Who reads ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "terminal", "color"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"CLICOLOR_FORCE": "1"}, False, True),
        ({"CLICOLOR": "0"}, True, False),
    ],
)
def test_colours_are_for_terminals_unless_the_environment_says_otherwise(
    environ: dict[str, str], terminal: bool, color: bool
) -> None:
    out = OutputStream.of(FakeTerminal() if terminal else io.StringIO(), environ)
    assert (out.terminal, out.color) == (terminal, color)


def test_a_dumb_terminal_has_no_line_that_is_written_anew() -> None:
    assert OutputStream.of(FakeTerminal(), {}).cursor
    assert not OutputStream.of(FakeTerminal(), {"TERM": "dumb"}).cursor
    assert not OutputStream.of(io.StringIO(), {"FORCE_COLOR": "1"}).cursor


def test_a_style_is_ended_where_it_began_and_left_out_without_colours() -> None:
    colored = OutputStream(io.StringIO(), terminal=True, color=True, width=80)
    assert colored.style("bold", "x") == f"\x1b[1mx{RESET}"
    assert colored.style("bold", "") == ""
    assert plain(io.StringIO()).style("bold", "x") == "x"


def test_the_width_is_that_of_the_terminal_written_to() -> None:
    import termios

    main, other = pty.openpty()
    with os.fdopen(other, "w") as stream, os.fdopen(main, "rb"):
        assert OutputStream.of(stream, {}).width == 80  # it does not say
        termios.tcsetwinsize(stream.fileno(), (24, 123))
        out = OutputStream.of(stream, {})
        assert (out.terminal, out.width) == (True, 123)
        termios.tcsetwinsize(stream.fileno(), (24, 40))
        assert out.width == 40  # somebody has resized it
        termios.tcsetwinsize(stream.fileno(), (24, 123))
        assert OutputStream.of(stream, {"COLUMNS": "50"}).width == 50
        assert OutputStream.of(stream, {"COLUMNS": "wide"}).width == 123


def test_a_terminal_gets_what_is_written_when_it_is_flushed() -> None:
    main, other = pty.openpty()
    with os.fdopen(other, "w") as stream, os.fdopen(main, "rb", buffering=0) as read:
        out = OutputStream.of(stream, {})
        out.write("thin")
        out.flush()
        assert read.read(100) == b"thin"


# --- What cannot be written ---------------------------------------------------------------------


def test_without_a_stream_text_goes_nowhere() -> None:
    closed = io.StringIO()
    closed.close()
    for out in (OutputStream.of(None, {}), OutputStream.of(closed, {"FORCE_COLOR": "1"})):
        out.write("x")
        out.flush()
        assert (out.terminal, out.color) == (False, False)


def test_a_full_disk_is_told_once() -> None:
    with open("/dev/full", "w") as stream:
        out = plain(stream)
        out.write("x")
        with pytest.raises(OSError, match="No space left on device"):
            out.flush()
        out.write("more")
        out.flush()


def test_a_reader_that_has_gone_is_told_from_trouble() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stream:
        out = plain(stream)
        out.write("x")
        with pytest.raises(BrokenPipeError):
            out.flush()
        out.write("more")
        out.flush()


def test_a_reader_behind_a_socket_that_has_gone_is_one_too() -> None:
    class Reset(io.StringIO):
        def flush(self) -> None:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")

    with pytest.raises(BrokenPipeError):
        plain(Reset()).flush()


def test_text_too_long_for_a_buffer_fails_where_it_is_written() -> None:
    with open("/dev/full", "w") as stream:
        with pytest.raises(OSError, match="No space left"):
            plain(stream).write("x" * 1_000_000)


PROGRAM = """
import sys
from holdfast.cli.output_stream import OutputStream
out = OutputStream.of(sys.stdout, {})
try:
    out.write("x" * 100 + "\\n")
    out.flush()
except OSError as error:
    print(error.strerror, file=sys.stderr)
    sys.exit(7)
"""


def run(shell: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environ = {**os.environ, "PYTHON": sys.executable, "PROGRAM": str(program), "PYTHONPATH": "."}
    return subprocess.run(
        ["sh", "-c", shell], env=environ, capture_output=True, text=True, check=False, timeout=30
    )


def test_python_does_not_complain_again_at_its_exit(tmp_path: Path) -> None:
    full = run('"$PYTHON" "$PROGRAM" > /dev/full', tmp_path)
    assert full.returncode == 7
    assert full.stderr == "No space left on device\n"


def test_a_program_started_without_output_works(tmp_path: Path) -> None:
    closed = run('"$PYTHON" "$PROGRAM" >&-', tmp_path)
    assert (closed.returncode, closed.stderr) == (0, "")


# --- What an encoding cannot hold ---------------------------------------------------------------


@pytest.mark.parametrize("errors", ["strict", "backslashreplace", "surrogateescape"])
def test_symbols_have_a_plain_form_where_they_cannot_be_said(errors: str) -> None:
    data, out = encoded("ascii", errors)
    out.write("● ✓ ✗ ↻ · … → • │ ─ 世\n")
    out.flush()
    assert data.getvalue() == b"* + x ~ - ... -> * | - ?\n"


def test_what_an_encoding_can_say_stays() -> None:
    data, out = encoded("latin-1")
    out.write("é·\n")
    out.write("é●\n")
    out.flush()
    assert data.getvalue() == b"\xe9\xb7\n\xe9*\n"


@pytest.mark.parametrize("errors", ["strict", "backslashreplace", "surrogateescape"])
def test_a_lone_surrogate_becomes_no_stray_byte(errors: str) -> None:
    data, out = encoded("utf-8", errors)
    out.write("é\udcff\ud800\n")
    out.flush()
    assert data.getvalue() == "é??\n".encode()


@given(ANY_TEXT, st.sampled_from(["utf-8", "ascii", "latin-1", "cp1252", "shift_jis"]))
def test_no_text_raises_in_any_encoding(text: str, encoding: str) -> None:
    data, out = encoded(encoding)
    out.write(text)
    out.flush()
    data.getvalue().decode(encoding)
