"""Credentials: generating secrets, recognising their kind, hashing them for storage."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Final, Literal, TypeAlias

CredentialKind: TypeAlias = Literal["token", "session", "link"]

SECRET_PREFIXES: Final[dict[str, CredentialKind]] = {
    "hf_": "token",
    "hfs_": "session",
    "hfl_": "link",
}
"""What a secret starts with, so that people and secret scanners recognise one."""
SECRET_LENGTH: Final = 43
"""Length of 32 random bytes in base64."""


def new_secret(kind: CredentialKind) -> str:
    """Generate a credential of this kind."""
    from secrets import token_urlsafe

    (prefix,) = (prefix for prefix, each in SECRET_PREFIXES.items() if each == kind)
    return prefix + token_urlsafe(32)


def kind_of(secret: str) -> CredentialKind | None:
    """The kind of a credential, by its form alone; None if it is not one of ours."""
    prefix, _, rest = secret.partition("_")
    return (
        SECRET_PREFIXES.get(f"{prefix}_")
        if len(rest) == SECRET_LENGTH and secret.isascii()
        else None
    )


def hash_of(secret: str) -> str:
    """The hash that is stored. Plain SHA-256 is enough for 32 random bytes."""
    return sha256(secret.encode()).hexdigest()


# --- sessions -----------------------------------------------------------------------------------
#
# A browser sends cookies to every port of a host, so a program on any of them can read the cookie
# of a session. Therefore a session has a second secret: its key, which the page keeps in the
# storage of its origin (scheme, host and port) and sends in a header. Only both together are the
# session.

KEY_PREFIX: Final = "hfk_"
DOWNLOAD_PREFIX: Final = "hfd_"


def new_session_key() -> str:
    """Generate the key of a session."""
    from secrets import token_urlsafe

    return KEY_PREFIX + token_urlsafe(32)


def is_session_key(text: str) -> bool:
    """Whether this has the form of a session key."""
    return _is_secret(text, KEY_PREFIX)


def is_download_key(text: str) -> bool:
    """Whether this has the form of a download key."""
    return _is_secret(text, DOWNLOAD_PREFIX)


def _is_secret(text: str, prefix: str) -> bool:
    return text.startswith(prefix) and len(text) == len(prefix) + SECRET_LENGTH and text.isascii()


def download_key_of(key: str) -> str:
    """The key for URLs, where a browser sends no header. Does not reveal the session key."""
    digest = sha256(f"download:{key}".encode()).digest()
    return DOWNLOAD_PREFIX + urlsafe_b64encode(digest).rstrip(b"=").decode()


def bound(cookie: str, download_key: str) -> str:
    """The secret of a session: its cookie and its download key together."""
    return f"{cookie}.{download_key}"
