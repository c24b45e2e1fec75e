"""The settings file of a server, `holdfast.toml`.

Everything has a default, so the file is optional. All mistakes in it are reported at once, each
with its position.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct, structs

from holdfast.agent import Agent
from holdfast.chat.budgets import NO_BUDGETS, Budgets
from holdfast.cli.agent_fields import model_names, read_fields
from holdfast.cli.config_mistakes import Mistakes
from holdfast.cli.settings_trust import SETTINGS_FILE, find_settings, refuse_untrusted
from holdfast.cli.toml_values import read_struct
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.limits import Limits
from holdfast.kernel.suggest import did_you_mean, unknown_name
from holdfast.observe.logs import LogFormat, LogLevel
from holdfast.providers.provider_catalog import PROVIDERS
from holdfast.worker.options import WorkerOptions


class AgentSettings(Struct, frozen=True, kw_only=True):
    """Settings of one agent, `[agents.name]`: fields of `Agent`, and what others are made from."""

    python: str | None = None
    """An agent written in Python, as `module:name`; the other settings change it."""
    instructions_file: str | None = None
    """Path relative to the settings file, unless absolute."""
    tools: tuple[str, ...] | None = None
    """`bundled` for the file and command tools, `ask_user`, or `module:name` for your own."""
    dir: str | None = None
    """Directory the bundled tools work in."""
    approval: Literal["ask", "never"] = "ask"
    """Whether writing files and running commands needs approval."""
    pass_env: tuple[str, ...] = ()
    """Additional variables passed to commands; `AWS_*` matches all with that prefix."""
    subagents: tuple[str, ...] = ()
    """Names of the agents that it may spawn; the first is the default. The model reads their
    descriptions."""
    handoffs: tuple[str, ...] = ()
    """Names of the agents to which it may hand the conversation over."""
    output: str | Mapping[str, Any] | None = None
    """Required form of the final answer: a type, as `module:name`, or a JSON schema."""
    more_tools: tuple[str, ...] = ()
    """Tools in addition to `tools`, or to those of the agent written in Python."""
    fields: Mapping[str, Any] = {}
    """Values of fields of `Agent`, by name, as `agent_fields.read_fields` returns them."""

    @property
    def models(self) -> Sequence[str]:
        """Names of the models that it uses."""
        return model_names(self.fields)

    def with_fields(self, **fields: Any) -> AgentSettings:
        """The settings with other fields of `Agent`; None keeps the field."""
        changed = {name: value for name, value in fields.items() if value is not None}
        return structs.replace(self, fields={**self.fields, **changed})


AGENT_KEYS: Final = tuple(
    name for name in AgentSettings.__struct_fields__ if name not in ("fields", "more_tools")
)
"""Settings of an agent that are not fields of `Agent`."""


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
    deps: str | None = None
    """Provider of the deps of agents written in Python, as `module:name`: a function of a chat's
    `ChatInfo`, or a mapping of agents' names to such functions."""
    titles: bool | str | tuple[str, ...] = True
    """Whether a model writes titles, or the name of the model that does; true: each chat's own."""
    server: ServerSettings = ServerSettings()
    limits: LimitSettings = LimitSettings()
    budgets: Budgets = NO_BUDGETS
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
        return without_file()
    mistakes = Mistakes(path)
    settings = parse_settings(path, content, mistakes)
    return ParsedSettings(settings, os.path.dirname(os.path.abspath(path)), mistakes)


def examine_given(given: str | os.PathLike[str] | Mapping[str, Any] | None) -> ParsedSettings:
    """The settings that a program names: a file, its content as a mapping, or the defaults."""
    if isinstance(given, Mapping):
        mistakes = Mistakes()
        return ParsedSettings(settings_of(given, mistakes), os.getcwd(), mistakes)
    return without_file() if given is None else examine(os.fspath(given))


def without_file() -> ParsedSettings:
    """The default settings, in which only the agents can be wrong."""
    return ParsedSettings(HoldfastSettings(), os.getcwd(), Mistakes("the agents"))


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
            sections[name] = read_struct(rest.pop(name), kind, name, mistakes)
    if "budgets" in rest:
        sections["budgets"] = _budgets(rest.pop("budgets"), mistakes)
    if "agents" in rest:
        sections["agents"] = dict(_agents(rest.pop("agents"), mistakes))
    whole: HoldfastSettings = read_struct(rest, HoldfastSettings, "", mistakes)
    providers = {
        name: dict(_options(name, table, mistakes)) for name, table in whole.providers.items()
    }
    return structs.replace(whole, providers=providers, **sections)


def _budgets(table: object, mistakes: Mistakes) -> Budgets:
    if not isinstance(table, dict):
        mistakes.add("budgets", "write a table for each, as in [budgets.day]")
        return NO_BUDGETS
    known = {field.name for field in structs.fields(Budgets)}
    budgets = {}
    for name, limits in table.items():
        if name in known:
            budgets[name] = read_struct(limits, Limits, f"budgets.{name}", mistakes)
        else:
            mistakes.add(f"budgets.{name}", f"unknown setting{unknown_name(name, known)}")
    return Budgets(**budgets)


def _agents(tables: object, mistakes: Mistakes) -> Iterator[tuple[str, AgentSettings]]:
    if not isinstance(tables, dict):
        mistakes.add("agents", "write a table for each, as in [agents.helper]")
        return
    for name, table in tables.items():
        if not name.strip():
            mistakes.add("agents", "an agent has no name: write [agents.helper]")
        yield name, _agent(table, f"agents.{name}", mistakes)


def _agent(table: object, setting: str, mistakes: Mistakes) -> AgentSettings:
    if not isinstance(table, dict):
        mistakes.add(setting, f"write a table, as in [{setting}]")
        return AgentSettings()
    own = {name: value for name, value in table.items() if name in AGENT_KEYS}
    others = {name: value for name, value in table.items() if name not in AGENT_KEYS}
    agent: AgentSettings = read_struct(own, AgentSettings, setting, mistakes)
    agent = agent.with_fields(**read_fields(others, Agent, setting, mistakes, AGENT_KEYS))
    if "instructions" in agent.fields and agent.instructions_file is not None:
        mistakes.add(setting, "give instructions or instructions_file, not both")
    return agent


def _options(name: str, table: Mapping[str, Any], mistakes: Mistakes) -> Iterator[tuple[str, Any]]:
    """The valid options of a provider, each checked on a model that is never called."""
    from holdfast.providers.model_factory import configured_model, options_of

    if name not in PROVIDERS:
        mistakes.add(f"providers.{name}", f"unknown provider{did_you_mean(name, PROVIDERS)}")
        return
    known = options_of(name)
    for option, value in table.items():
        where = f"providers.{name}.{option}"
        if option in KEY_OPTIONS:
            mistakes.add(where, "a key does not belong in a file: set it in the environment")
        elif option not in known:
            mistakes.add(where, f"unknown option{unknown_name(option, known)}")
        else:
            arguments = {"api_key": "none", "base_url": "http://localhost", option: value}
            make = partial(configured_model, f"{name}:none", environ={}, **arguments)
            if mistakes.tried(where, make):
                yield option, value
