"""The argument parser shared by all verbs: errors as exceptions, with suggestions.

Imported for every verb, so it imports nothing but argparse.
"""

from __future__ import annotations

import os
import re
import sys
from argparse import (
    ArgumentError,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from holdfast.kernel.suggest import did_you_mean

if TYPE_CHECKING:
    from argparse import Action

    from _typeshed import SupportsWrite

_ELSEWHERE: Final = {"--port": "--listen", "--host": "--listen", "--settings": "--config"}
"""Names other programs use for our options."""
_REMOVED: Final = {
    "--history": "use --save, --continue or --chat; `holdfast import FILE` makes a chat of a "
    "saved history"
}
"""Options that a verb no longer has, and what to use."""
_MARK: Final = "\0"  # no argument of a process can hold it


class UsageError(Exception):
    """Invalid command line. The message says what to do."""


class _Help(RawDescriptionHelpFormatter):
    """Help in the form of newer Pythons: `-m, --model MODEL`, with the value once."""

    def __init__(self, prog: str) -> None:
        # argparse makes one formatter for every option that is added, and without a width each
        # imports slow modules to find it.
        super().__init__(prog, max_help_position=28, width=min(_columns(), 100) - 2)

    def _format_action_invocation(self, action: Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        return f"{', '.join(action.option_strings)} {action.metavar}"


class Parser(ArgumentParser):
    """argparse that raises `UsageError` instead of exiting, and suggests close names."""

    def __init__(self, prog: str, **more: Any) -> None:
        super().__init__(prog, allow_abbrev=False, formatter_class=_Help, **more)

    def read(self, argv: Sequence[str]) -> Namespace:
        """Parse; options may precede, separate or follow the words. After `--`, all are words."""
        at = argv.index("--") if "--" in argv else len(argv)
        # Marked, because argparse loses words after -- when options separate others.
        marked = [f"{_MARK}{word}" if word.startswith("-") else word for word in argv[at + 1 :]]
        found, unknown = self.parse_known_intermixed_args([*argv[:at], *marked])
        if unknown:
            self.error(self._unknown(unknown[0].removeprefix(_MARK)))
        for name, value in vars(found).items():
            if isinstance(value, list):
                setattr(found, name, [word.removeprefix(_MARK) for word in value])
        return found

    def error(self, message: str) -> NoReturn:
        message = message.removeprefix("argument ")
        raise UsageError(f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        (file or sys.stdout).write(message)  # argparse would hide a failed write

    def _unknown(self, word: str) -> str:
        name = word.partition("=")[0]
        if not name.startswith("-"):
            return f"{word!r} is an unexpected argument"
        if name in _REMOVED and self.prog == "holdfast run":
            return f"{name} was removed: {_REMOVED[name]}"
        known = [option for action in self._actions for option in action.option_strings]
        ours = _ELSEWHERE.get(name)
        near = f": did you mean {ours}?" if ours in known else did_you_mean(name, known)
        return f"unknown option {name}{near}"

    def _check_value(self, action: Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            near = did_you_mean(str(value), action.choices)
            raise ArgumentError(
                action, f"{value!r} is not one of {', '.join(action.choices)}{near}"
            )


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


class Verb(NamedTuple):
    summary: str
    parser: Callable[[], Parser]
    call: Callable[[Namespace, Mapping[str, str]], int]
    """Runs the verb with its arguments and the environment; returns the exit code.

    Imports what it needs when called.
    """


# --- Values -------------------------------------------------------------------------------------


def number(most: int) -> Callable[[str], int]:
    """Argument type: a whole number from 1 to `most`."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= most:
            raise ArgumentTypeError(f"{text!r} is not a number from 1 to {most:,}")
        return int(text)

    return read


def something(text: str) -> str:
    """Argument type: non-empty text. An empty value is usually an unset shell variable."""
    if not text.strip():
        raise ArgumentTypeError("is empty")
    return text
