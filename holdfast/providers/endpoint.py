"""Address and headers of an endpoint: checks and errors shared by the four protocols."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from holdfast.kernel.errors import ConfigError

_BLANK: Final = re.compile(r"[\s\x00-\x1f]")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
USER_AGENT: Final = f"holdfast/{sys.modules['holdfast'].__version__}"


def check_endpoint(
    model: str, provider: str, base_url: str, api_key: str | None, *, needs_key: bool = True
) -> None:
    """Validate the arguments of a model before its first request."""
    if not isinstance(model, str) or not model.strip():
        raise ConfigError(f"model is {model!r}: use the name that {provider} uses")
    if not isinstance(provider, str) or not provider or ":" in provider:
        raise ConfigError(f"provider is {provider!r}: use a name without a colon")
    if not isinstance(base_url, str) or not is_address(base_url):
        # Not shown: it may hold a password.
        raise ConfigError("base_url is not an address: use http(s)://host/path")
    if "@" in urlsplit(base_url).netloc:
        raise ConfigError("base_url holds a user or a password: pass headers={'Authorization': …}")
    if api_key is None and not needs_key:
        return
    if not isinstance(api_key, str) or not api_key.strip():
        raise ConfigError(f"{provider} needs a key: pass api_key")
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise ConfigError("api_key contains characters that no key has: was a line end copied too?")


def is_address(base_url: str) -> bool:
    """Whether a base URL is a valid HTTP address."""
    try:
        parts = urlsplit(base_url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port, a bracket that is not closed
        return False
    return parts.scheme in ("http", "https") and has_host and not _BLANK.search(base_url)


def address(base_url: str, path: str) -> str:
    """The URL to post to. A query of the base URL stays."""
    parts = urlsplit(base_url)
    folder = parts.path.rstrip("/")
    if folder.endswith(path):
        raise ConfigError(f"base_url ends in {path}, which is added anyway: leave it out")
    return parts._replace(path=folder + path, fragment="").geturl()


def headers_for(ours: Mapping[str, str], own: Mapping[str, str] | None) -> dict[str, str]:
    """Headers of a request. The user's replace ours, regardless of case."""
    _check_headers(own or {})
    defaults = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "User-Agent": USER_AGENT,
        **ours,
    }
    replaced = {name.lower() for name in own or ()}
    unreplaced = {name: value for name, value in defaults.items() if name.lower() not in replaced}
    return {**unreplaced, **(own or {})}


def _check_headers(headers: Mapping[str, str]) -> None:
    if not isinstance(headers, Mapping):
        raise ConfigError(f"headers are a {type(headers).__name__}: use {{name: value}}")
    for name, value in headers.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(f"{name!r} is not a valid name of a header")
        if not isinstance(value, str) or not value.isprintable():
            # the value may be a key, so it is not shown
            raise ConfigError(f"the header {name} has to be text in one line")
