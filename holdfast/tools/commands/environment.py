"""The environment variables of a command.

A command gets variables from an allow-list, so that secrets of the process (cloud credentials,
tokens, passwords in URLs) do not end up in a log or in a model's context by accident. This isolates
nothing: a command can read whatever its user can, the variables of this process too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Final

from holdfast.kernel.errors import ConfigError

PASSED_VARIABLES: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_*"),
    *("XDG_*", "HOSTNAME", "MANPATH", "INFOPATH", "COLUMNS", "LINES"),
    # Certificates, without which nothing can be downloaded in some networks.
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"),
    *("NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"),
    # Toolchains.
    *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "PYENV_VERSION"),
    *("PYTHONPATH", "PYTHONHOME", "NVM_DIR", "NODE_PATH", "CARGO_HOME", "RUSTUP_HOME"),
    *("RUSTUP_TOOLCHAIN", "GOPATH", "GOROOT", "GOBIN", "JAVA_HOME", "ANDROID_HOME", "GEM_HOME"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CPATH", "LIBRARY_PATH"),
    *("NIX_PATH", "NIX_SSL_CERT_FILE", "HOMEBREW_PREFIX", "DEVELOPER_DIR", "SDKROOT"),
)
"""Names of variables that are passed to a command, some with a wildcard."""

NON_INTERACTIVE: Final[Mapping[str, str]] = {
    "HOLDFAST": "1",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "EDITOR": "true",
    "VISUAL": "true",
}
"""Variables set for every command: no person is there to use a pager, an editor or a prompt."""


def usual(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables on the allow-list."""
    return _matching(environ, PASSED_VARIABLES)


def named(environ: Mapping[str, str], pass_env: Iterable[str]) -> dict[str, str]:
    """The variables that a person has named, or that match a pattern of theirs.

    A pattern such as `AWS_*` never matches a provider's key or a setting of ours, which have to be
    named in full.
    """
    names = frozenset(pass_env)
    if not names:
        return {}
    exact = {name: environ[name] for name in names if name in environ}
    return {**_matching(environ, names), **exact}


def variables(pass_env: Iterable[str]) -> dict[str, str]:
    """Variables for every command in any workspace: those named of this process, and those
    for use without a person."""
    return {**named(os.environ, pass_env), **NON_INTERACTIVE}


def without_directories(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables without those that name the directory of another process."""
    return {name: value for name, value in environ.items() if name not in ("PWD", "OLDPWD")}


def _matching(environ: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if not _is_secret(name) and any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def check(pass_env: Iterable[str]) -> None:
    """Raises `ConfigError` for an invalid variable name."""
    for name in pass_env:
        if not name or "=" in name or "\0" in name or name != name.strip():
            raise ConfigError(
                f"{name!r} is not the name of a variable: use a name such as AWS_PROFILE, or a "
                "pattern such as AWS_*"
            )


def _is_secret(name: str) -> bool:
    return name.startswith("HOLDFAST_") or name == "PGPASSWORD" or name in _keys()


@cache
def _keys() -> frozenset[str]:
    from holdfast.providers.provider_catalog import PROVIDERS

    return frozenset(key for facts in PROVIDERS.values() for key in facts.keys)
