"""Redaction: removes secrets from logs, traces and recordings, by value and by name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote

import msgspec

HIDDEN: Final = "[hidden]"
MIN_SECRET: Final = 6
"""Minimum length of a secret: a shorter value would match ordinary text."""
SECRET_NAMES: Final = (
    "authorization", "proxy-authorization", "api-key", "x-api-key",
    "x-goog-api-key", "x-session-key", "download-key", "x-auth-token", "access-token",
    "refresh-token",
    "client-secret", "password", "passwd", "secret-key", "private-key",
)  # fmt: skip
"""Headers and fields whose value is secret, with `-`, `_` or nothing between words."""
SUGGESTIVE: Final = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|DSN)(_\d+)?$", re.IGNORECASE
)
"""Endings of names of environment variables that hold a secret."""

_WORDS: Final = "|".join(name.replace("-", "[-_]?") for name in SECRET_NAMES)
_NAMED: Final = re.compile(
    rf"""(?<![a-z0-9])(?P<name>(?:{_WORDS})\\*["']?\s*[:=]\s*\\*["']?(?:(?:bearer|basic|token)\s+)?)
         (?P<value>[^\s"'\\,;&}}\])]+)""",
    re.IGNORECASE | re.VERBOSE,
)
_COOKIE: Final = re.compile(r"""(cookie\\*["']?\s*[:=]\s*\\*["']?)[^"'\\\r\n]+""", re.IGNORECASE)
"""Cookies, to the end of the value: each of several may be a credential."""
_BEARER: Final = re.compile(r"\b(bearer\s+)[a-z0-9._~+/=-]{8,}", re.IGNORECASE)
_OURS: Final = re.compile(r"\bhf[sldk]?_[A-Za-z0-9_-]{43}")
"""Tokens, sessions, their keys, and links that the server issued."""
_IN_URL: Final = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@\"'\\]*:)[^\s@/\"'\\]+(?=@)", re.I)


class Redactor:
    """Replaces the secrets of a process in text."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._known: re.Pattern[str] | None = None

    def know(self, *secrets: str) -> None:
        """Add values to redact."""
        for secret in secrets:
            if len(secret.strip()) >= MIN_SECRET:
                self._values.update(_spellings(secret.strip()))
        longest_first = sorted(self._values, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, text: str) -> str:
        """The text without secrets. JSON stays valid: quotes and backslashes are kept."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        text = _OURS.sub(HIDDEN, text)
        text = _NAMED.sub(rf"\g<name>{HIDDEN}", text)
        text = _COOKIE.sub(rf"\g<1>{HIDDEN}", text)
        text = _BEARER.sub(rf"\g<1>{HIDDEN}", text)
        return _IN_URL.sub(rf"\g<1>{HIDDEN}", text)


def default_redactor() -> Redactor:
    """A redactor that knows the secrets in the environment of this process."""
    redactor = Redactor()
    redactor.know(*secrets_in(os.environ))
    return redactor


def _spellings(secret: str) -> Iterator[str]:
    """Spellings of a secret: as it is, in a URL, in JSON, and in JSON inside JSON."""
    yield secret
    yield quote(secret, safe="")
    once = msgspec.json.encode(secret).decode()[1:-1]
    yield once
    yield msgspec.json.encode(once).decode()[1:-1]


def secrets_in(environ: Mapping[str, str]) -> list[str]:
    """Values of environment variables that are named like secrets."""
    return [value for name, value in environ.items() if SUGGESTIVE.search(name)]
