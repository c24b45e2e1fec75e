"""Secrets that callers show: made here, kept by their hash alone."""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["token", "session", "link"]

PREFIXES: Final[dict[str, Kind]] = {"hf_": "token", "hfs_": "session", "hfl_": "link"}
"""What a secret starts with, so that people and scanners know one when they see it."""
LENGTH: Final = 43
"""Characters of 32 random bytes."""


def new_secret(kind: Kind) -> str:
    from secrets import token_urlsafe

    (prefix,) = (prefix for prefix, each in PREFIXES.items() if each == kind)
    return prefix + token_urlsafe(32)


def kind_of(secret: str) -> Kind | None:
    """None for what cannot be one of ours, whatever it is."""
    prefix, _, rest = secret.partition("_")
    return PREFIXES.get(f"{prefix}_") if len(rest) == LENGTH and secret.isascii() else None


def hash_of(secret: str) -> str:
    """A plain hash will do: 32 random bytes cannot be guessed, however fast the guessing is."""
    return sha256(secret.encode()).hexdigest()


def csrf_of(session: str) -> str:
    """What a page has to say beside its cookie. Another site can send the cookie, not read this."""
    return sha256(f"csrf:{session}".encode()).hexdigest()[:32]


def same(shown: str, wanted: str) -> bool:
    """However much of it is right, it takes the same time."""
    return compare_digest(shown.encode(errors="replace"), wanted.encode())
