"""Messages about paths that cannot be used: they follow the path, and say what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.tools.display_text import on_one_line

ERROR_MESSAGES: Final[Mapping[int, str]] = {
    errno.EACCES: "may not be used: there is no permission for it",
    errno.EAGAIN: "is being changed by something else: try again",
    errno.EBADF: "can no longer be used: the directory is closed",
    errno.EBUSY: "is in use by something else: try again later",
    errno.EDQUOT: "could not be written, the disk quota is used up: free some space",
    errno.EEXIST: "already exists: use another name, or replace it",
    errno.EFBIG: "could not be written, it would be larger than files may be here: write less",
    errno.EILSEQ: "has a name that cannot be used here: use other letters",
    errno.EINVAL: "has a name that cannot be used here: use another name",
    errno.EIO: "cannot be used: the disk failed",
    errno.EISDIR: "is a directory: name a file in it",
    errno.ELOOP: "is a loop of links: use the path of the file itself",
    errno.EMFILE: "cannot be used, too many files are open: try again later",
    errno.ENAMETOOLONG: "has a name that is too long: use a shorter one",
    errno.ENFILE: "cannot be used, too many files are open: try again later",
    errno.ENODEV: "is not a regular file: it is a device, a socket or a FIFO",
    errno.ENOSPC: "could not be written, the disk is full: free some space",
    errno.ENOTDIR: "needs a directory where there is a file: check the path",
    errno.ENOTEMPTY: "is a directory: name a file in it",
    errno.ENXIO: "is not a regular file: it is a device, a socket or a FIFO",
    errno.EOPNOTSUPP: "is not a regular file: it is a device, a socket or a FIFO",
    errno.EPERM: "may not be used: there is no permission for it",
    errno.EROFS: "could not be written, the file system is read-only: write elsewhere",
}
"""Messages by error number. ENOENT and EXDEV get theirs where they occur: more is known there."""

MAX_PATH_SHOWN: Final = 200


class PathError(OSError):
    """An error with a message of ours, raised next to those of the system."""

    def __init__(self, words: str, number: int = 0) -> None:
        super().__init__(number, words)
        self.words = words


def in_words(error: OSError) -> str:
    if isinstance(error, PathError):
        return error.words
    return ERROR_MESSAGES.get(error.errno or 0) or f"cannot be used: {error.strerror or error}"


def unusable(path: str) -> str:
    """Why a path cannot exist on any system; empty if it can."""
    if not path:
        return "is not a path: use . for the directory itself"
    if "\0" in path:
        return "contains a NUL character, which no name may have: leave it out"
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return "contains a character that no name can have here: use another name"
    return ""


def shown(path: str) -> str:
    """A path as shown in a sentence."""
    return on_one_line(path, MAX_PATH_SHOWN)


def similar(name: str, names: Sequence[str]) -> list[str]:
    """Up to three names that may have been meant."""
    from difflib import get_close_matches

    folded = {other.casefold(): other for other in names}
    return [folded[match] for match in get_close_matches(name.casefold(), folded)]


def is_missing(paths_alike: Sequence[str]) -> str:
    if not paths_alike:
        return "does not exist"
    *others, last = map(shown, paths_alike)
    return f"does not exist: there is {', '.join(others) + ' and ' if others else ''}{last}"
