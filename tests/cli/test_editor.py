"""What somebody types becomes a line."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import to_plain_text

from holdfast.cli import line_editor
from holdfast.cli.line_editor import ChatCompleter, open_history, tidy
from holdfast.cli.slash_commands import COMMANDS
from holdfast.kernel.model import EFFORTS
from tests.cli.typing_at import typing_at

LEFT, RIGHT, UP, DOWN = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B"
ALT_ENTER = "\x1b\r"


def typed(*keys: str, **more: Any) -> str:
    """The line after these keys."""

    async def go() -> str:
        async with typing_at(**more) as terminal:
            await terminal.types(*keys)
            return terminal.screen.text

    return asyncio.run(go())


def entered(*keys: str, **more: Any) -> list[str | None]:
    """The lines that these keys send."""

    async def go() -> list[str | None]:
        async with typing_at(**more) as terminal:
            await terminal.types(*keys)
            await terminal.types("\x15\x0b", "\x04")
            lines = []
            while (line := await terminal.screen.next()) is not None:
                lines.append(line)
            return [*lines, None]

    return asyncio.run(go())


# --- keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (["grüße 你"], "grüße 你"),
        (["abc", "\x7f"], "ab"),
        (["\x7f", "\x1b[3~", LEFT, RIGHT, "a"], "a"),
        (["ac", LEFT, "b"], "abc"),
        (["abc", "\x01", "\x1b[3~"], "bc"),
        (["bc", "\x1b[H", "a", "\x1b[F", "d"], "abcd"),
        (["one two", "\x17"], "one "),
        (["one two  ", "\x17"], "one "),
        ([" ", "\x17"], ""),
        (["one two", LEFT, LEFT, LEFT, "\x15"], "two"),
        (["one two", LEFT, LEFT, LEFT, "\x0b"], "one "),
        (["a", ALT_ENTER, "b"], "a\nb"),
        (["a", "\x1b[15~", "\x00", "b"], "ab"),
        (["a", "\x04"], "a"),
        (["a", LEFT, "\x04"], ""),
    ],
)
def test_keys_edit_the_line(keys: list[str], text: str) -> None:
    assert typed(*keys) == text


def test_enter_sends_the_line_and_begins_another() -> None:
    assert entered("one\rtwo\rthr") == ["one", "two", None]
    assert typed("one\rthr") == "thr"


def test_the_end_of_the_input_is_only_that_of_an_empty_line() -> None:
    assert entered("\x04") == [None]
    assert entered("ab", "\x01", "\x04", "\r") == ["b", None]


def test_ctrl_c_comes_in_its_place_among_the_keys() -> None:
    async def go() -> list[str | None]:
        async with typing_at() as terminal:
            terminal.screen.on_stop = lambda: lines.append(str(terminal.screen.clear()))
            lines: list[str | None] = []
            await terminal.types("wrong\x03right\r")
            return [*lines, await terminal.screen.next()]

    assert asyncio.run(go()) == ["True", "right"]


def test_characters_and_keys_may_arrive_in_pieces() -> None:
    async def go() -> str:
        async with typing_at() as terminal:
            for byte in "ü\x1b[Dx\x1b[200~1\n2\x1b[201~".encode():
                terminal._pipe.send_bytes(bytes([byte]))
                await terminal.settles()
            return terminal.screen.text

    assert asyncio.run(go()) == "x1\n2ü"


def test_what_is_pasted_is_not_sent_line_by_line_and_gives_no_orders() -> None:
    pasted = "\x1b[200~one\r\ntwo\x07\tx\n\x1b[201~"
    assert typed(pasted) == "one\ntwo    x"
    assert entered(pasted, "\r") == ["one\ntwo    x", None]
    assert tidy("\x1b]0;title\x07a\x9b2Jb\n") == "]0;titlea2Jb"


def test_what_was_said_can_be_had_again() -> None:
    async def go() -> list[str]:
        seen = []
        async with typing_at() as terminal:
            await terminal.types("one\r", "two\r", "two\r", " \r", "draft")
            for key in (UP, UP, UP, DOWN, DOWN, DOWN):
                await terminal.types(key)
                seen.append(terminal.screen.text)
        return seen

    assert asyncio.run(go()) == ["two", "one", "one", "two", "draft", "draft"]


def test_a_message_of_several_lines_is_edited_before_others_are_recalled() -> None:
    assert typed("said\r", "one", ALT_ENTER, "two", UP, "x") == "onex\ntwo"
    assert typed("said\r", "one", ALT_ENTER, "two", UP, UP) == "said"


def test_what_was_said_is_searched() -> None:
    assert typed("fix the tests\r", "list the files\r", "\x12", "test", "\r") == "fix the tests"
    assert typed("fix the tests\r", "draft", "\x12", "fix", "\x07") == "draft"


FAMILY, THUMB, FLAG, HEART = "👨\u200d👩\u200d👧", "👍🏽", "🇳🇴", "❤\ufe0f"


@pytest.mark.parametrize(
    "letter", [FAMILY, THUMB, FLAG, HEART, "e\u0301", "🏳\ufe0f\u200d🌈", "1\ufe0f\u20e3"]
)
def test_what_is_seen_as_one_letter_is_one_to_the_keys(letter: str) -> None:
    assert typed(f"a{letter}b", LEFT, "\x7f") == "ab"
    assert typed(f"a{letter}b", LEFT, LEFT, "\x1b[3~") == "ab"
    assert typed(f"{letter}{letter}", LEFT, "x") == f"{letter}x{letter}"
    assert typed(f"{letter}{letter}", "\x01", RIGHT, "x") == f"{letter}x{letter}"
    assert typed(f"{letter}{letter}\r", UP, "\x7f") == letter


def test_what_is_not_seen_and_joins_letters_is_kept() -> None:
    persian = "\u0645\u06cc\u200c\u062e\u0648"
    assert typed(persian + FAMILY) == persian + FAMILY
    assert typed(f"\x1b[200~{persian}{FAMILY}\x1b[201~") == persian + FAMILY
    assert typed("\x1b[200~a\u202eb\u200b\x1b[201~") == "ab"


def test_a_line_can_be_taken_back_and_put_there() -> None:
    async def go() -> tuple[bool, str, bool, str]:
        async with typing_at() as terminal:
            screen = terminal.screen
            await terminal.types("some")
            cleared, empty, again = screen.clear(), screen.text, screen.clear()
            screen.put("other")
            await terminal.types("!")
            return cleared, empty, again, screen.text

    assert asyncio.run(go()) == (True, "", False, "other!")


def test_vi_keys_are_those_of_vi() -> None:
    # Two keys after Escape, so that it is not waited whether more follows.
    assert typed("one two", "\x1bbd", "w", keys="vi") == "one "
    assert entered("hello", "\r", keys="vi") == ["hello", None]


# --- completions ---------------------------------------------------------------------------------


def completions(text: str, *, tab: bool = True) -> list[str]:
    event = CompleteEvent(text_inserted=not tab, completion_requested=tab)
    found = ChatCompleter().get_completions(Document(text), event)
    return [text[: len(text) + one.start_position] + one.text for one in found]


def test_commands_are_offered_with_what_they_do() -> None:
    assert completions("/", tab=False) == [f"/{name}" for name in COMMANDS]
    assert completions("/st", tab=False) == ["/steer", "/stop"]
    event = CompleteEvent(text_inserted=True)
    (one,) = ChatCompleter().get_completions(Document("/edi"), event)
    assert to_plain_text(one.display) == "/edit N TEXT"
    assert to_plain_text(one.display_meta) == "replace queued message N"


def test_models_and_efforts_are_offered_behind_their_commands() -> None:
    assert completions("/effort ", tab=False) == [f"/effort {one}" for one in EFFORTS]
    assert completions("/effort m", tab=False) == [
        "/effort minimal",
        "/effort medium",
        "/effort max",
    ]
    assert "/model groq:qwen/qwen3.8-27b" in completions("/model groq:", tab=False)
    assert completions("/model groq: x") == []


def test_files_are_offered_when_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.md").touch()
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "more.md").touch()
    assert completions("read no", tab=False) == []
    assert completions("read no") == ["read notes.md"]
    assert completions("read deep/") == ["read deep/more.md"]
    assert completions("read ") == ["read deep", "read notes.md"]
    assert completions("/steer read no") == ["/steer read notes.md"]
    assert completions("read none") == []


def test_a_completion_that_was_chosen_is_sent_by_the_next_enter() -> None:
    assert typed("/stee", "\t", "\r") == "/steer"
    assert entered("/stee", "\t", "\r", " hi\r") == ["/steer hi", None]
    assert entered("/help\r") == ["/help", None]


# --- history -------------------------------------------------------------------------------------


def test_what_was_said_in_an_earlier_session_can_be_had_again(tmp_path: Path) -> None:
    assert entered("one\r", "two\nlines\r", history=open_history(str(tmp_path)))
    assert typed(UP, UP, history=open_history(str(tmp_path))) == "two"
    assert stat.S_IMODE((tmp_path / "input.history").stat().st_mode) == 0o600


def test_an_answer_is_not_kept(tmp_path: Path) -> None:
    async def go() -> str | None:
        async with typing_at(history=open_history(str(tmp_path))) as terminal:
            asked = asyncio.ensure_future(terminal.screen.ask("The password?"))
            await terminal.types("secret\r")
            return await asked

    assert asyncio.run(go()) == "secret"
    assert (tmp_path / "input.history").read_text() == ""


def test_a_long_history_loses_its_older_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "input.history"
    file.write_text("".join(f"\n# then\n+line {number}\n" for number in range(100)))
    monkeypatch.setattr(line_editor, "MAX_HISTORY_BYTES", 1_000)
    lines = list(open_history(str(tmp_path)).load_history_strings())
    assert lines[0] == "line 99"
    assert 40 < len(lines) < 60
    assert lines[-1] == f"line {100 - len(lines)}"


def test_without_a_data_directory_nothing_is_written(tmp_path: Path) -> None:
    assert entered("one\r", history=open_history(str(tmp_path / "none"))) == ["one", None]
    assert os.listdir(tmp_path) == []
