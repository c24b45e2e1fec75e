"""Files that hold a secret and that only their owner can read."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from holdfast.kernel.errors import ConfigError


def read_private(path: Path) -> str | None:
    """The text of a private file; None if it does not exist. Raises if others can read it."""
    # Non-blocking, because opening a pipe would wait: the type is known only once it is open.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
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
        raise ConfigError(f"{path} is not a regular file: remove it to have a new one created")
    if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        raise ConfigError(
            f"{path} is accessible to others, who may know the secret in it: remove it to have a "
            "new one created"
        )


def make_private(path: Path, text: str) -> str:
    """Create the file with this text, or return the text of the one that exists.

    The file gets its name once it is complete, so no reader ever sees half of it, and of two
    processes that create it at once both return the same text.
    """
    if (existing := read_private(path)) is not None:
        return existing
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
    stored = read_private(path)
    if stored is None:
        raise ConfigError(f"{path} was removed while it was being created: start again")
    return stored
