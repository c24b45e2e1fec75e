"""Resolves and checks the configuration of `holdfast serve` and `holdfast worker`.

All mistakes are reported before a database is opened or a port is bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from holdfast.agent import Agent
from holdfast.cli.agent_builder import BaseDirectories
from holdfast.cli.agent_registry import DEFAULT_AGENT, AgentRegistry, AgentSources, NamedInPython
from holdfast.cli.config_mistakes import Mistakes
from holdfast.cli.python_agents import PythonAgents
from holdfast.cli.python_deps import load_deps
from holdfast.cli.replica_link import cluster_secret
from holdfast.cli.settings import (
    AgentSettings,
    HoldfastSettings,
    ParsedSettings,
    ServerSettings,
    examine,
)
from holdfast.cli.target import create_data_directory, is_loopback, key_file, own_database
from holdfast.cli.telemetry import Telemetry, TelemetryContext, set_up_telemetry
from holdfast.config import ServeOptions
from holdfast.kernel.agent_deps import DepsProviders
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import wall_clock
from holdfast.server.listening import parse_address
from holdfast.store.url import parse

if TYPE_CHECKING:
    from holdfast.server.identity.encrypted_secrets import Keyring
    from holdfast.server.identity.origin_check import Front
    from holdfast.server.relay.cluster_secret import ClusterSecret


class ServedProgram(NamedTuple):
    """A program that serves its own agents."""

    agents: tuple[Agent, ...]
    settings: ParsedSettings
    deps: DepsProviders | None = None


class ServeConfig(NamedTuple):
    """The checked configuration of a process."""

    options: ServeOptions
    settings: HoldfastSettings
    database: str
    listen_url: str | None
    """URL of the database without a pooler, for LISTEN."""
    registry: AgentRegistry
    deps: DepsProviders | None
    """Providers of the agents' deps."""
    listen: tuple[str, int]
    metrics: tuple[str, int] | None
    """Address where a worker serves its metrics."""
    front: Front | None
    """Public URLs of a server for a team."""
    telemetry: Telemetry
    keyring: Keyring | None
    secret: ClusterSecret | None
    """The secret shared by the replicas of a cluster."""


def resolve_config(
    options: ServeOptions,
    environ: Mapping[str, str],
    adapt: Callable[[AgentSettings], AgentSettings] = lambda agent: agent,
    program: ServedProgram | None = None,
) -> ServeConfig:
    """Check everything. Raises `ConfigError` with all mistakes of the settings in one message.

    `adapt` changes the settings of each agent. A `program` has settings of its own.
    """
    adapt = partial(_with_model, options.model, adapt)
    listen = None if options.listen is None else parse_address(options.listen)
    metrics = None if options.metrics is None else _metrics(options.metrics, options)
    parsed = examine(options.settings, options.data) if program is None else program.settings
    given = () if program is None else program.agents
    settings, directory, mistakes = parsed
    named = NamedInPython(options.agents, given, adapt(AgentSettings()))
    settings = _adapted(settings, adapt, named)
    create_data_directory(options.data)
    directories = BaseDirectories(directory, options.data)
    sources = AgentSources(settings, directories, environ, named, PythonAgents())
    registry = AgentRegistry(sources, mistakes)
    deps = _deps(settings, options, program, directory, mistakes)
    listen = listen or _own_address(settings.server, options, mistakes)
    front = _front(settings.server, listen[0], options, mistakes)
    mistakes.end()
    database = options.database or settings.database or own_database(options.data)
    _check_worker(options, database)
    listen_url = options.listen_url or settings.listen_url
    where = TelemetryContext(directory, database, wall_clock, listen_url)
    telemetry = set_up_telemetry(settings, options, where, environ)
    keys = _keyring(settings, options, environ)
    secret = cluster_secret(settings.server, environ, directory, options.data)
    return ServeConfig(
        options,
        settings,
        database,
        listen_url,
        registry,
        deps,
        listen,
        metrics,
        front,
        telemetry,
        keys,
        secret,
    )


def _with_model(
    model: str | None, adapt: Callable[[AgentSettings], AgentSettings], agent: AgentSettings
) -> AgentSettings:
    """The settings of an agent with the model of the command line."""
    return adapt(agent).with_fields(model=model)


def _check_worker(options: ServeOptions, database: str) -> None:
    """Refuse a server whose chats no process could drive."""
    if not options.worker and parse(database).kind == "sqlite":
        raise ConfigError(
            "a server without a worker needs PostgreSQL, because only one process can open a "
            "SQLite file: name another database, or leave out --no-worker (worker=False in a "
            "program)"
        )


def _adapted(
    settings: HoldfastSettings,
    adapt: Callable[[AgentSettings], AgentSettings],
    named: NamedInPython,
) -> HoldfastSettings:
    """The settings with each agent changed; without any agent, with the default one."""
    tables = settings.agents
    if not (tables or named.specs or named.given):
        tables = {DEFAULT_AGENT: AgentSettings()}
    return structs.replace(settings, agents={name: adapt(one) for name, one in tables.items()})


def _deps(
    settings: HoldfastSettings,
    options: ServeOptions,
    program: ServedProgram | None,
    directory: str,
    mistakes: Mistakes,
) -> DepsProviders | None:
    """The providers of the agents' deps: of the program, the command line, or the settings."""
    if program is not None and program.deps is not None:
        return program.deps
    if options.deps is not None:
        return load_deps(options.deps, "--deps")
    spec = settings.deps
    if spec is None:
        return None
    return mistakes.tried("deps", lambda: load_deps(spec, "deps =", directory))


def _own_address(
    server: ServerSettings, options: ServeOptions, mistakes: Mistakes
) -> tuple[str, int]:
    """The address of the settings. The port is the server's: a worker takes another."""
    named = mistakes.tried("server.listen", lambda: parse_address(server.listen))
    host, port = named or parse_address(ServerSettings().listen)
    return host, port if options.api else 0


def _metrics(text: str, options: ServeOptions) -> tuple[str, int]:
    """Address of the metrics. They need no token, so only loopback is allowed by default."""
    host, port = parse_address(text)
    if not options.metrics_open and not is_loopback(host):
        raise ConfigError(
            f"a worker serves its metrics without a token, and {host} can be reached from "
            f"the network: use --metrics 127.0.0.1:{port}, or add --metrics-open if everyone "
            "who can reach it may read them"
        )
    return host, port


def _front(
    server: ServerSettings, host: str, options: ServeOptions, mistakes: Mistakes
) -> Front | None:
    """Check what would otherwise fail on the first request; returns a team server's URLs."""
    from holdfast.server.fanout import StreamOptions
    from holdfast.server.identity.client_address import networks
    from holdfast.server.identity.local_token import refuse_network
    from holdfast.server.identity.origin_check import public_front

    if server.advertise is not None:
        url = server.advertise
        mistakes.tried("server.advertise", lambda: public_front([url]))
    mistakes.tried("server.tick", lambda: StreamOptions(tick=server.tick))
    mistakes.tried("server.proxies", lambda: networks(server.proxies))
    if not options.api:
        return None
    if server.team:
        return mistakes.tried("server.urls", lambda: public_front(server.urls))
    if server.urls:
        mistakes.add("server.urls", "only used by a team: add team = true, or remove them")
    elif options.listen is None:
        mistakes.tried("server.listen", lambda: refuse_network(host))
    else:
        refuse_network(host)
    return None


def _keyring(
    settings: HoldfastSettings, options: ServeOptions, environ: Mapping[str, str]
) -> Keyring | None:
    """The keys that encrypt secrets. A single user's server generates one."""
    from holdfast.server.identity.encrypted_secrets import (
        SECRET_KEY_VARIABLE,
        find_keyring,
        make_key_file,
    )

    file = key_file(options.data)
    if settings.server.team or SECRET_KEY_VARIABLE in environ:
        return find_keyring(environ, file)
    return make_key_file(file)
