"""How the program ends, as scripts see it."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The one list of exit codes: `holdfast run --help` prints it, every verb returns from it."""

    FINISHED = 0
    FAILED = 1
    USAGE = 2
    WAITING = 3
    STEP_LIMIT = 4
    INTERRUPTED = 130
    READER_GONE = 141

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.FINISHED: "finished",
    ExitCode.FAILED: "failed",
    ExitCode.USAGE: "wrong usage: an option, a name or a file that cannot be right",
    ExitCode.WAITING: "something is waited for: an approval or an answer",
    ExitCode.STEP_LIMIT: "the step limit was reached",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.READER_GONE: "whoever read the output is gone",
}
