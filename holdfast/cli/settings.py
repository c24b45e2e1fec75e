"""The file that a server is set up by: `holdfast.toml`.

Everything in it has a default, so there need not be one. What is wrong with it is said all at once,
each with its place.
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

from holdfast.cli.guess import did_you_mean
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.model import Effort
from holdfast.observe.logs import LogFormat, LogLevel
from holdfast.providers.known import PROVIDERS
from holdfast.worker.options import WorkerOptions

T = TypeVar("T")
NAME: Final = "holdfast.toml"


class AgentSettings(Struct, frozen=True, kw_only=True):
    """One agent, `[agents.name]`."""

    model: str | None = None
    """As provider:model. None: `HOLDFAST_MODEL`, the first provider that has a key, or the demo."""
    instructions: str | None = None
    instructions_file: str | None = None
    """Beside the file that names it, unless it is absolute."""
    tools: tuple[str, ...] = ("bundled",)
    """`bundled` for those of a directory, `ask_user`, or module:name for one of your own."""
    dir: str | None = None
    """Where the bundled tools work."""
    approval: Literal["ask", "never"] = "ask"
    """Whether writing and running ask a person first."""
    effort: Effort | None = None
    max_steps: int | None = None


class ServerSettings(Struct, frozen=True, kw_only=True):
    """`[server]`."""

    listen: str = "127.0.0.1:8765"
    """Address and port; port 0 takes a free one."""
    urls: tuple[str, ...] = ()
    """Where people reach it, when that is not the address it listens at."""
    proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies in front: they are believed whom they speak for."""
    team: bool = False
    """Several people, each with a token of their own."""
    tick: float = 0.025
    """Seconds between two writes to a reader of a stream."""
    advertise: str | None = None
    """Where other replicas reach this one; otherwise the address that it listens at."""
    cluster_secret_file: str | None = None
    """Holds what all replicas share; otherwise HOLDFAST_CLUSTER_SECRET, or `cluster.secret`."""


class LimitSettings(Struct, frozen=True, kw_only=True):
    """`[limits]`."""

    files: int = 5 * 1024
    """Megabytes of all files of a user."""
    streams: int = 500
    """Streams that a user may have open at one process."""
    audit: int = 365
    """Days that an entry of the audit log is kept."""

    def __post_init__(self) -> None:
        low = [name for name in self.__struct_fields__ if getattr(self, name) < 1]
        if low:
            raise ConfigError(f"{', '.join(low)}: use 1 or more")


class LogSettings(Struct, frozen=True, kw_only=True):
    """`[log]`."""

    format: LogFormat = "text"
    """`json` writes one object a line."""
    level: LogLevel = "warning"


class TraceSettings(Struct, frozen=True, kw_only=True):
    """`[traces]`: by OpenTelemetry, which has to be installed."""

    enabled: bool = False
    content: bool = False
    """Also what people, models and tools say."""


class Settings(Struct, frozen=True, kw_only=True):
    """The whole file."""

    database: str | None = None
    agents: Mapping[str, AgentSettings] = {}
    server: ServerSettings = ServerSettings()
    limits: LimitSettings = LimitSettings()
    worker: WorkerOptions = WorkerOptions()
    log: LogSettings = LogSettings()
    traces: TraceSettings = TraceSettings()
    record: str | None = None
    """A directory: what models are asked and say is written down there, for looking into it."""
    providers: Mapping[str, Mapping[str, Any]] = {}
    """Options of a provider by its name: `base_url`, `headers`, `profile`. Keys are never here."""


def base_urls_of(settings: Settings) -> dict[str, str]:
    """By the name of the provider."""
    named = settings.providers.items()
    return {name: options["base_url"] for name, options in named if "base_url" in options}


KEYS: Final = frozenset(("api_key", "apikey", "key", "secret", "token"))
"""What people call the key of a provider."""
SECTIONS: Final[Mapping[str, type]] = {
    "server": ServerSettings,
    "limits": LimitSettings,
    "worker": WorkerOptions,
    "log": LogSettings,
    "traces": TraceSettings,
}


class Mistakes:
    """What is wrong, collected."""

    def __init__(self, where: str = "the settings") -> None:
        self.where = where
        """The file, or what else it is that cannot be used."""
        self._found: list[str] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, place: str, what: str) -> None:
        self._found.append(f"{place}: {what}")

    def tried(self, place: str, make: Callable[[], T]) -> T | None:
        """What it makes. None when it raises a `ConfigError`, which is added."""
        try:
            return make()
        except ConfigError as error:
            self.add(place, str(error))
            return None

    def end(self) -> None:
        """Raise if there were any."""
        if not self._found:
            return
        lines = "".join(f"\n  {found}" for found in self._found)
        several = "" if len(self._found) == 1 else f" ({len(self._found)} mistakes)"
        raise ConfigError(f"{self.where} cannot be used{several}:{lines}")


class Read(NamedTuple):
    """A file as far as it can be read. More mistakes may be found by whoever uses it."""

    settings: Settings
    directory: str
    """Of the file: what is named in it is looked for there."""
    mistakes: Mistakes


def read_settings(path: str | None) -> tuple[Settings, str]:
    """The settings of a file and its directory; without a file, the defaults and this one."""
    settings, directory, mistakes = examine(path)
    mistakes.end()
    return settings, directory


def examine(path: str | None) -> Read:
    """The same, with what is wrong not said yet. Raises `ConfigError` for what is no TOML."""
    if path is None:
        if not os.path.exists(NAME):
            return Read(Settings(), _here(), Mistakes())
        path = NAME
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is no TOML: it is no UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is no TOML: {error}") from None
    mistakes = Mistakes(path)
    settings = settings_of(document, mistakes)
    return Read(settings, os.path.dirname(os.path.abspath(path)), mistakes)


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise ConfigError(
            "the current directory was removed: go to another, or name the settings with --config"
        ) from None


def settings_of(document: Mapping[str, Any], mistakes: Mistakes) -> Settings:
    """Pure. What is wrong goes to `mistakes`, and is left at its default."""
    given = dict(document)
    made: dict[str, Any] = {}
    for name, kind in SECTIONS.items():
        if name in given:
            made[name] = _section(given.pop(name), kind, name, mistakes)
    if "agents" in given:
        made["agents"] = dict(_agents(given.pop("agents"), mistakes))
    whole: Settings = _section(given, Settings, "", mistakes)
    providers = {
        name: dict(_options(name, table, mistakes)) for name, table in whole.providers.items()
    }
    return structs.replace(whole, providers=providers, **made)


def _agents(tables: object, mistakes: Mistakes) -> Iterator[tuple[str, AgentSettings]]:
    if not isinstance(tables, dict):
        mistakes.add("agents", "write a table for each, as in [agents.helper]")
        return
    for name, table in tables.items():
        place = f"agents.{name}"
        if not name.strip():
            mistakes.add("agents", "one has no name: write [agents.helper]")
        agent = _section(table, AgentSettings, place, mistakes)
        if agent.instructions is not None and agent.instructions_file is not None:
            mistakes.add(place, "give instructions or instructions_file, not both")
        yield name, agent


def _options(name: str, table: Mapping[str, Any], mistakes: Mistakes) -> Iterator[tuple[str, Any]]:
    """Those of a provider that are right, each tried on a model that nobody asks."""
    from holdfast.providers.registry import model, options_of

    if name not in PROVIDERS:
        near = did_you_mean(name, PROVIDERS)
        mistakes.add(f"providers.{name}", f"there is no such provider{near}")
        return
    known = options_of(name)
    for option, value in table.items():
        where = f"providers.{name}.{option}"
        if option in KEYS:
            mistakes.add(where, "a key does not belong in a file: set it in the environment")
        elif option not in known:
            mistakes.add(where, f"there is no such option: use {', '.join(known)}")
        else:
            given = {"api_key": "none", "base_url": "http://localhost", option: value}
            if mistakes.tried(where, partial(model, f"{name}:none", environ={}, **given)):
                yield option, value


def _section(table: object, kind: type[Any], place: str, mistakes: Mistakes) -> Any:
    """A table as a value, its right fields at least."""
    if not isinstance(table, dict):
        mistakes.add(place, f"write a table, as in [{place}]")
        return kind()
    known = {field.name: field for field in structs.fields(kind)}
    made: dict[str, Any] = {}
    for name, value in table.items():
        where = f"{place}.{name}" if place else name
        if name not in known:
            mistakes.add(where, f"there is no such setting{did_you_mean(name, known)}")
            continue
        try:
            made[name] = msgspec.convert(value, known[name].type)
        except msgspec.ValidationError as error:
            mistakes.add(where, _in_words(error, known[name].type))
    try:
        return kind(**made)
    except ConfigError as error:
        mistakes.add(place, str(error))
        return kind()


def _in_words(error: msgspec.ValidationError, kind: Any) -> str:
    choices = [choice for one in (kind, *get_args(kind)) for choice in _choices(one)]
    if choices:
        return f"use one of {', '.join(choices)}"
    wanted = next((words for one, words in _WANTED.items() if one in _kinds(kind)), None)
    return f"write {wanted}" if wanted else str(error)


_WANTED: Final[Mapping[Any, str]] = {
    tuple: 'a list of texts, as ["a", "b"]',
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text in quotes",
    Mapping: "a table",
}


def _kinds(kind: Any) -> set[Any]:
    """What a type is made of, without what that is made of."""
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        return {one for each in get_args(kind) for one in _kinds(each)}
    return {get_origin(kind) or kind}


def _choices(kind: object) -> Sequence[str]:
    return [one for one in get_args(kind) if isinstance(one, str)]
