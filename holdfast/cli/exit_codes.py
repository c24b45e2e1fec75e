"""Exit codes of the `holdfast` program."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The one list of exit codes: `holdfast run --help` prints it, every verb returns from it."""

    FINISHED = 0
    FAILED = 1
    USAGE = 2
    WAITING = 3
    LIMIT = 4
    INTERRUPTED = 130
    READER_GONE = 141

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.FINISHED: "finished",
    ExitCode.FAILED: "failed",
    ExitCode.USAGE: "usage error: invalid option, name or file",
    ExitCode.WAITING: "waiting for an approval or an answer",
    ExitCode.LIMIT: "a limit was reached",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.READER_GONE: "the reader of the output closed it",
}
