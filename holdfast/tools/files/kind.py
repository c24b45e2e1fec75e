"""Detects the kind of a file that is not text by its first bytes. Pure."""

from __future__ import annotations

from typing import Final

PICTURE_SIGNATURES: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
OTHER_SIGNATURES: Final[tuple[tuple[bytes, str], ...]] = (
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive, or a document in one"),
    (b"\x1f\x8b", "compressed with gzip"),
    (b"BZh", "compressed with bzip2"),
    (b"\xfd7zXZ\0", "compressed with xz"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x7fELF", "a compiled program or library"),
    (b"MZ", "a compiled program or library"),
    (b"\xca\xfe\xba\xbe", "a compiled program or library"),
    (b"\xcf\xfa\xed\xfe", "a compiled program or library"),
    (b"\0asm", "a WebAssembly module"),
    (b"OggS", "sound or video"),
    (b"ID3", "sound"),
    (b"RIFF", "sound, video or a picture"),
)


def picture(data: bytes) -> str | None:
    """The media type of a picture that models can see; None otherwise."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in PICTURE_SIGNATURES if data.startswith(start)), None)


def kind(data: bytes) -> str:
    """The kind of bytes, as words that follow "is"."""
    if media_type := picture(data):
        return f"a picture ({media_type})"
    return next(
        (words for start, words in OTHER_SIGNATURES if data.startswith(start)), "binary data"
    )


def size(count: int) -> str:
    """A number of bytes in readable form."""
    if count < 1024:
        return f"{count} B"
    amount = count / 1024
    for unit in ("KB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.1f} {unit}" if amount < 10 else f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TB"
