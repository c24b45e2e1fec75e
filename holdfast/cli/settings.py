"""The settings file of a server, `holdfast.toml`.

Everything has a default, so the file is optional. All mistakes in it are reported at once, each
with its position.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import UnionType
from typing import Any, Final, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct, structs

from holdfast.cli.suggest import did_you_mean
from holdfast.cli.trust import SETTINGS_FILE, find_settings, refuse_untrusted
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.model import Effort
from holdfast.observe.logs import LogFormat, LogLevel
from holdfast.providers.provider_catalog import PROVIDERS
from holdfast.worker.options import WorkerOptions

T = TypeVar("T")


class AgentSettings(Struct, frozen=True, kw_only=True):
    """Settings of one agent, `[agents.name]`."""

    model: str | None = None
    """`provider:model`. None: `HOLDFAST_MODEL`, the first provider with a key, or the demo."""
    instructions: str | None = None
    instructions_file: str | None = None
    """Path relative to the settings file, unless absolute."""
    tools: tuple[str, ...] = ("bundled",)
    """`bundled` for the file and command tools, `ask_user`, or `module:name` for your own."""
    dir: str | None = None
    """Directory the bundled tools work in."""
    approval: Literal["ask", "never"] = "ask"
    """Whether writing files and running commands needs approval."""
    pass_env: tuple[str, ...] = ()
    """Additional variables passed to commands; `AWS_*` matches all with that prefix."""
    effort: Effort | None = None
    max_steps: int | None = None


class ServerSettings(Struct, frozen=True, kw_only=True):
    """Settings of the server, `[server]`."""

    listen: str = "127.0.0.1:8765"
    """Address and port; port 0 picks a free one."""
    urls: tuple[str, ...] = ()
    """Public URLs, if they differ from the address it listens on."""
    proxies: tuple[str, ...] = ()
    """Addresses and networks of trusted proxies: their `X-Forwarded-For` is believed."""
    team: bool = False
    """Whether several people use it, each with their own token."""
    tick: float = 0.025
    """Seconds between two writes to the reader of a stream."""
    advertise: str | None = None
    """Address where other replicas reach this one; default: the one it listens on."""
    cluster_secret_file: str | None = None
    """File with the cluster secret; default: HOLDFAST_CLUSTER_SECRET, then `cluster.secret`."""


class LimitSettings(Struct, frozen=True, kw_only=True):
    """Limits per user and process, `[limits]`."""

    files: int = 5 * 1024
    """Megabytes of stored files per user."""
    streams: int = 500
    """Open streams per user and process."""
    audit: int = 365
    """Days that entries of the audit log are kept."""

    def __post_init__(self) -> None:
        low = [name for name in self.__struct_fields__ if getattr(self, name) < 1]
        if low:
            raise ConfigError(f"{', '.join(low)}: use 1 or more")


class LogSettings(Struct, frozen=True, kw_only=True):
    """Settings of logs, `[log]`."""

    format: LogFormat = "text"
    """`json` writes one object per line."""
    level: LogLevel = "warning"


class TraceSettings(Struct, frozen=True, kw_only=True):
    """Settings of traces, `[traces]`, which need OpenTelemetry to be installed."""

    enabled: bool = False
    content: bool = False
    """Whether traces include the text of messages and tool results."""


class HoldfastSettings(Struct, frozen=True, kw_only=True):
    """The whole settings file."""

    database: str | None = None
    listen_url: str | None = None
    """Direct URL of the same PostgreSQL database, without a pooler, for LISTEN."""
    database_wait: float = 30.0
    """Seconds that a starting server waits for an unreachable PostgreSQL."""
    agents: Mapping[str, AgentSettings] = {}
    server: ServerSettings = ServerSettings()
    limits: LimitSettings = LimitSettings()
    worker: WorkerOptions = WorkerOptions()
    log: LogSettings = LogSettings()
    traces: TraceSettings = TraceSettings()
    record: str | None = None
    """Directory to record model requests and responses in, for debugging."""
    providers: Mapping[str, Mapping[str, Any]] = {}
    """Options of each provider by name: `base_url`, `headers`, `profile`. Never keys."""


def base_urls_of(settings: HoldfastSettings) -> dict[str, str]:
    """Base URLs set for providers, by provider name."""
    named = settings.providers.items()
    return {name: options["base_url"] for name, options in named if "base_url" in options}


KEY_OPTIONS: Final = frozenset(("api_key", "apikey", "key", "secret", "token"))
"""Option names mistaken for a place to put a provider's key."""
SECTIONS: Final[Mapping[str, type]] = {
    "server": ServerSettings,
    "limits": LimitSettings,
    "worker": WorkerOptions,
    "log": LogSettings,
    "traces": TraceSettings,
}


class Mistakes:
    """Collects configuration mistakes, to report them together."""

    def __init__(self, where: str = "the settings") -> None:
        self.where = where
        """The file, or other source, that the mistakes are in."""
        self._found: list[str] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, setting: str, what: str) -> None:
        self._found.append(f"{setting}: {what}")

    def tried(self, setting: str, make: Callable[[], T]) -> T | None:
        """The result of `make`; None if it raised a `ConfigError`, which is recorded."""
        try:
            return make()
        except ConfigError as error:
            self.add(setting, str(error))
            return None

    def end(self) -> None:
        """Raise a `ConfigError` with all mistakes, if there were any."""
        if not self._found:
            return
        lines = "".join(f"\n  {found}" for found in self._found)
        several = "" if len(self._found) == 1 else f" ({len(self._found)} mistakes)"
        raise ConfigError(f"{self.where} cannot be used{several}:{lines}")


class ParsedSettings(NamedTuple):
    """Settings as far as they are valid. Users of them may find more mistakes."""

    settings: HoldfastSettings
    directory: str
    """Directory of the file; relative names in it are resolved there."""
    mistakes: Mistakes


def read_settings(path: str | None, data: str | None = None) -> tuple[HoldfastSettings, str]:
    """The settings of a file and its directory; without a file, the defaults and this directory."""
    settings, directory, mistakes = examine(path, data)
    mistakes.end()
    return settings, directory


def examine(path: str | None, data: str | None = None) -> ParsedSettings:
    """Read settings without raising for mistakes. Raises `ConfigError` if the file is not TOML.

    Without a path it reads the file of the current directory. Raises `Untrusted` if the data
    directory holds no consent to it.
    """
    if path is not None:
        content = _content(path)
    elif (found := find_settings()) is not None:
        refuse_untrusted(found, data)
        path, content = SETTINGS_FILE, found.content
    else:
        return ParsedSettings(HoldfastSettings(), os.getcwd(), Mistakes())
    mistakes = Mistakes(path)
    settings = parse_settings(path, content, mistakes)
    return ParsedSettings(settings, os.path.dirname(os.path.abspath(path)), mistakes)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None


def parse_settings(path: str, content: bytes, mistakes: Mistakes) -> HoldfastSettings:
    """The content of a settings file. Raises `ConfigError` if it is not TOML."""
    try:
        document = tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not TOML: it is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    return settings_of(document, mistakes)


def settings_of(document: Mapping[str, Any], mistakes: Mistakes) -> HoldfastSettings:
    """Convert a TOML document. Invalid values go to `mistakes` and keep their default. Pure."""
    rest = dict(document)
    sections: dict[str, Any] = {}
    for name, kind in SECTIONS.items():
        if name in rest:
            sections[name] = _section(rest.pop(name), kind, name, mistakes)
    if "agents" in rest:
        sections["agents"] = dict(_agents(rest.pop("agents"), mistakes))
    whole: HoldfastSettings = _section(rest, HoldfastSettings, "", mistakes)
    providers = {
        name: dict(_options(name, table, mistakes)) for name, table in whole.providers.items()
    }
    return structs.replace(whole, providers=providers, **sections)


def _agents(tables: object, mistakes: Mistakes) -> Iterator[tuple[str, AgentSettings]]:
    if not isinstance(tables, dict):
        mistakes.add("agents", "write a table for each, as in [agents.helper]")
        return
    for name, table in tables.items():
        setting = f"agents.{name}"
        if not name.strip():
            mistakes.add("agents", "an agent has no name: write [agents.helper]")
        agent = _section(table, AgentSettings, setting, mistakes)
        if agent.instructions is not None and agent.instructions_file is not None:
            mistakes.add(setting, "give instructions or instructions_file, not both")
        yield name, agent


def _options(name: str, table: Mapping[str, Any], mistakes: Mistakes) -> Iterator[tuple[str, Any]]:
    """The valid options of a provider, each checked on a model that is never called."""
    from holdfast.providers.model_factory import model, options_of

    if name not in PROVIDERS:
        near = did_you_mean(name, PROVIDERS)
        mistakes.add(f"providers.{name}", f"unknown provider{near}")
        return
    known = options_of(name)
    for option, value in table.items():
        where = f"providers.{name}.{option}"
        if option in KEY_OPTIONS:
            mistakes.add(where, "a key does not belong in a file: set it in the environment")
        elif option not in known:
            mistakes.add(where, f"unknown option: use {', '.join(known)}")
        else:
            arguments = {"api_key": "none", "base_url": "http://localhost", option: value}
            if mistakes.tried(where, partial(model, f"{name}:none", environ={}, **arguments)):
                yield option, value


def _section(table: object, kind: type[Any], setting: str, mistakes: Mistakes) -> Any:
    """Convert a table; invalid fields keep their default."""
    if not isinstance(table, dict):
        mistakes.add(setting, f"write a table, as in [{setting}]")
        return kind()
    known = {field.name: field for field in structs.fields(kind)}
    fields: dict[str, Any] = {}
    for name, value in table.items():
        where = f"{setting}.{name}" if setting else name
        if name not in known:
            mistakes.add(where, f"unknown setting{did_you_mean(name, known)}")
            continue
        try:
            fields[name] = msgspec.convert(value, known[name].type)
        except msgspec.ValidationError as error:
            mistakes.add(where, _in_words(error, known[name].type))
    try:
        return kind(**fields)
    except ConfigError as error:
        mistakes.add(setting, str(error))
        return kind()


def _in_words(error: msgspec.ValidationError, kind: Any) -> str:
    choices = [choice for one in (kind, *get_args(kind)) for choice in _choices(one)]
    if choices:
        return f"use one of {', '.join(choices)}"
    wanted = next((words for one, words in _WANTED.items() if one in _kinds(kind)), None)
    return f"write {wanted}" if wanted else str(error)


_WANTED: Final[Mapping[Any, str]] = {
    tuple: 'a list of strings, as in ["a", "b"]',
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text in quotes",
    Mapping: "a table",
}


def _kinds(kind: Any) -> set[Any]:
    """The types in a union, without their parameters."""
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        return {one for each in get_args(kind) for one in _kinds(each)}
    return {get_origin(kind) or kind}


def _choices(kind: object) -> Sequence[str]:
    return [one for one in get_args(kind) if isinstance(one, str)]
