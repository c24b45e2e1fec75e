"""The media type of a file, guessed from its name and its first bytes. Pure."""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = "application/octet-stream"
_SIGNATURES: Final = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (0, b"%PDF-", "application/pdf"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (4, b"ftyp", "video/mp4"),
    (0, b"PK\x03\x04", "application/zip"),
)
"""Bytes by which a kind of file is recognized, each with its position."""
_NEW_TYPES: Final = {
    ".md": "text/markdown",
    ".toml": "application/toml",
    ".webp": "image/webp",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
"""Extensions that not every version of Python knows."""
_SCANNED: Final = 8_192
"""Number of bytes that are checked for characters of a binary file."""


def guess(name: str | None, data: bytes | None) -> str | None:
    """Media type by content, or else by name; None if neither shows it.

    The content takes precedence where it is certain: a picture is often named wrong.
    """
    signed = None if data is None else _by_signature(data)
    if signed is not None and signed != "application/zip":
        return signed
    named = None if name is None else _by_name(name)
    if named is not None or signed is not None or data is None:
        return named or signed  # an office document is a zip file, too
    return UNKNOWN if b"\0" in data[:_SCANNED] else "text/plain"


def _by_signature(data: bytes) -> str | None:
    for position, signature, media_type in _SIGNATURES:
        if data.startswith(signature, position):
            return media_type
    return None


def _by_name(name: str) -> str | None:
    from mimetypes import MimeTypes

    # Without the tables of the machine: the same file has the same type everywhere.
    known = MimeTypes()
    for extension, media_type in _NEW_TYPES.items():
        known.add_type(media_type, extension)
    kind, encoding = known.guess_type(name)
    return None if encoding is not None else kind
