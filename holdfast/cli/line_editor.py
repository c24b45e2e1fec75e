"""Line editor of `holdfast chat`: prompt_toolkit with our keys, completions and history.

Imported only at a terminal: prompt_toolkit takes longer to import than other verbs take to run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.cursor_shapes import ModalCursorShapeConfig
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER, EditingMode
from prompt_toolkit.filters import Condition, Filter, emacs_insert_mode, has_focus, vi_insert_mode
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import Output

from holdfast.cli.completion import model_names
from holdfast.cli.graphemes import JOINERS, letters
from holdfast.cli.slash_commands import COMMANDS, SLASH
from holdfast.kernel.model import EFFORTS

CONTINUATION: Final = "  "
"""Start of the second and of later lines of a message."""
GRAPHEME_WINDOW: Final = 100
"""Characters examined to find where a grapheme ends. None is that long."""
MAX_HISTORY_BYTES: Final = 1024 * 1024
"""Size from which on the older half of the history is dropped."""


def line_editor(
    message: Callable[[], str],
    *,
    keys: Literal["vi", "emacs"],
    bindings: KeyBindings,
    history: History,
    input: Input,
    output: Output,
) -> PromptSession[str]:
    """An editor whose application runs until the session ends, over many lines."""
    return PromptSession(
        message,
        editing_mode=EditingMode.VI if keys == "vi" else EditingMode.EMACS,
        completer=ChatCompleter(),
        complete_while_typing=Condition(lambda: get_app().current_buffer.text.startswith(SLASH)),
        enable_open_in_editor=True,
        enable_suspend=True,
        tempfile_suffix=".md",
        prompt_continuation=CONTINUATION,
        key_bindings=bindings,
        history=history,
        cursor=ModalCursorShapeConfig() if keys == "vi" else None,
        erase_when_done=True,
        input=input,
        output=output,
    )


# --- keys ----------------------------------------------------------------------------------------


def key_bindings(
    on_line: Callable[[Buffer], None], on_end: Callable[[], None], on_stop: Callable[[], None]
) -> KeyBindings:
    """Our keys, which take precedence over those of prompt_toolkit."""
    bindings = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)
    inserting = typing & (emacs_insert_mode | vi_insert_mode)

    empty = Condition(lambda: not get_app().current_buffer.text)

    @bindings.add("enter", filter=typing)
    def _enter(event: KeyPressEvent) -> None:
        menu = event.current_buffer.complete_state
        if menu is not None and menu.current_completion is not None:
            event.current_buffer.complete_state = None  # it was chosen, and is not sent yet
        else:
            on_line(event.current_buffer)

    @bindings.add("escape", "enter", filter=inserting)
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("c-d", filter=typing & empty)
    def _end(event: KeyPressEvent) -> None:
        on_end()

    @bindings.add("c-c", filter=typing, eager=True)
    def _stop(event: KeyPressEvent) -> None:
        on_stop()

    @bindings.add("c-@", filter=inserting)
    def _nothing(event: KeyPressEvent) -> None:
        """Start no selection: what is typed during one is lost."""

    @bindings.add(Keys.BracketedPaste, filter=typing)
    def _paste(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(tidy(event.data))

    _add_grapheme_keys(bindings, inserting)
    return bindings


def _add_grapheme_keys(bindings: KeyBindings, inserting: Filter) -> None:
    """Keys that move over or delete a whole grapheme, as an emoji of several characters."""

    @bindings.add("backspace", filter=inserting)
    def _rub_out(event: KeyPressEvent) -> None:
        event.current_buffer.delete_before_cursor(_before(event.current_buffer))

    @bindings.add("delete", filter=inserting)
    def _delete(event: KeyPressEvent) -> None:
        event.current_buffer.delete(_after(event.current_buffer))

    @bindings.add("left", filter=inserting)
    def _left(event: KeyPressEvent) -> None:
        event.current_buffer.cursor_position -= _before(event.current_buffer)

    @bindings.add("right", filter=inserting)
    def _right(event: KeyPressEvent) -> None:
        event.current_buffer.cursor_position += _after(event.current_buffer)


def _before(buffer: Buffer) -> int:
    """Length of the grapheme before the cursor."""
    near = letters(buffer.document.text_before_cursor[-GRAPHEME_WINDOW:])
    return len(near[-1]) if near else 0


def _after(buffer: Buffer) -> int:
    """Length of the grapheme after the cursor."""
    near = letters(buffer.document.text_after_cursor[:GRAPHEME_WINDOW])
    return len(near[0]) if near else 0


def tidy(pasted: str) -> str:
    """Pasted text without control characters."""
    plain = pasted.replace("\r\n", "\n").replace("\r", "\n").replace("\t", "    ").strip("\n")
    return "".join(one for one in plain if one in f"\n{JOINERS}" or one.isprintable())


# --- completions and history ---------------------------------------------------------------------


class ChatCompleter(Completer):
    """Completes commands, models and efforts; with Tab, also paths of files."""

    def __init__(self) -> None:
        self._paths = PathCompleter(expanduser=True)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        text = document.text_before_cursor
        command, space, rest = text.partition(" ")
        if text.startswith(SLASH) and not space:
            yield from _commands(text)
        elif command in _CHOICES and " " not in rest:
            yield from (
                Completion(one, -len(rest)) for one in _CHOICES[command]() if one.startswith(rest)
            )
        elif complete_event.completion_requested:
            word = text[len(text.rstrip()) :] or text.split()[-1] if text.split() else ""
            path = Document("" if word.isspace() else word)
            yield from self._paths.get_completions(path, complete_event)


def _commands(text: str) -> Iterator[Completion]:
    for name, about in COMMANDS.items():
        if name.startswith(text[1:]):
            shown = f"/{name} {about.takes}".rstrip()
            yield Completion(f"/{name}", -len(text), display=shown, display_meta=about.does)


_CHOICES: Final[dict[str, Callable[[], Iterable[str]]]] = {
    "/model": model_names,
    "/effort": lambda: EFFORTS,
}


def open_history(directory: str) -> History:
    """Lines of earlier sessions, in a file that only the user can read."""
    path = os.path.join(directory, "input.history")
    try:
        with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b") as file:
            data = file.read()
            if len(data) > MAX_HISTORY_BYTES:
                file.seek(0)
                file.write(data[data.find(b"\n# ", len(data) // 2) :])
                file.truncate()
    except OSError:  # no data directory, as with a server elsewhere
        return InMemoryHistory()
    return FileHistory(path)
