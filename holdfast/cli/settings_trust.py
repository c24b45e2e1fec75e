"""Trust in settings files found in the current directory.

Settings decide which code is run and where keys and tokens are sent. A named file was chosen
by the user. A file that is merely in the current directory may have come with a repository of
another author: it is used after the user has read it and agreed. The consent is kept in the data
directory and holds for this path with this content.
"""

from __future__ import annotations

import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.kernel.errors import ConfigError

SETTINGS_FILE: Final = "holdfast.toml"
TRUST_FOLDER: Final = "trusted"
"""The folder of the data directory with one file for each consent."""


class Untrusted(ConfigError):
    """The settings of the current directory have not been agreed to."""


class LocalSettings(NamedTuple):
    """A settings file of the current directory, read once: what is agreed to is what is used."""

    path: str
    content: bytes

    @property
    def digest(self) -> str:
        return sha256(os.fsencode(self.path) + b"\0" + self.content).hexdigest()


def find_settings() -> LocalSettings | None:
    """The settings file of the current directory; None if there is none. Raises `ConfigError`."""
    path = os.path.join(_current_directory(), SETTINGS_FILE)
    try:
        # Without waiting: a pipe at this path may never have a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{path} is not a regular file: remove it, or use --config")
        with open(descriptor, "rb", closefd=False) as file:
            return LocalSettings(path, file.read())
    finally:
        os.close(descriptor)


def _current_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise ConfigError(
            "the current directory was removed: go to another, or name the settings with --config"
        ) from None


def is_trusted(found: LocalSettings, data: str) -> bool:
    from holdfast.server.identity.private_file import read_private

    return read_private(_consent(found, data)) is not None


def trust(found: LocalSettings, data: str) -> None:
    """Remember that the user agreed to this content at this path."""
    from holdfast.server.identity.private_file import make_private

    make_private(_consent(found, data), repr(found.path))


def refuse_untrusted(found: LocalSettings, data: str | None) -> None:
    """Raise `Untrusted` for a file that was not agreed to. Without `data`, none was."""
    if data is None or not is_trusted(found, data):
        raise Untrusted(
            f"{found.path} is not trusted yet, and settings decide which code is run and "
            f"where keys are sent: read it, then name it (--config {SETTINGS_FILE}, or "
            "HOLDFAST_CONFIG), or answer the question that is asked at a terminal"
        )


def _consent(found: LocalSettings, data: str) -> Path:
    return Path(data, TRUST_FOLDER, found.digest)
