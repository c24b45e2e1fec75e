"""A file with a secret in it, which only the user who runs this can read."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from holdfast.kernel.errors import ConfigError


def read_private(path: Path) -> str | None:
    """What is in it; None when there is no such file. Refuses one that others can read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
    try:
        _refuse_open(path, os.fstat(descriptor))
        return os.read(descriptor, 64 * 1024).decode(errors="replace").strip()
    finally:
        os.close(descriptor)


def _refuse_open(path: Path, facts: os.stat_result) -> None:
    if os.name != "posix":
        return
    if not stat.S_ISREG(facts.st_mode):
        raise ConfigError(f"{path} is no file: remove it, and a new one is made")
    if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        raise ConfigError(
            f"{path} is open to others, who may know by now what is in it: remove it, and a new "
            "one is made"
        )


def make_private(path: Path, text: str) -> str:
    """Make it with this text. Whoever comes second gets what the first has put there.

    Nobody ever sees half of it: it gets its name when it is complete.
    """
    if (there := read_private(path)) is not None:
        return there
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(descriptor)
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
    made = read_private(path)
    if made is None:
        raise ConfigError(f"{path} was removed while it was being made: start again")
    return made
