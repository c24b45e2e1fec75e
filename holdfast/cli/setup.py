"""What a process of `holdfast serve` or `holdfast worker` is going to be, found out beforehand.

Everything that can be wrong is said before a database is opened or a port is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from holdfast.cli.agents import Crew, Place
from holdfast.cli.cluster import cluster_secret
from holdfast.cli.observing import Observing, Where, observing
from holdfast.cli.place import is_loopback, key_file, make_data_directory, own_database
from holdfast.cli.settings import Mistakes, ServerSettings, Settings, examine
from holdfast.config import ServeOptions
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import wall_clock

if TYPE_CHECKING:
    from holdfast.server.identity.guard import Front
    from holdfast.server.identity.secrets import Keyring
    from holdfast.server.relay.secret import Secret


class Setup(NamedTuple):
    """What the process is going to be."""

    options: ServeOptions
    settings: Settings
    database: str
    crew: Crew
    listen: tuple[str, int]
    metrics: tuple[str, int] | None
    """Where a worker tells its numbers."""
    front: Front | None
    """What people call a server for a team."""
    observing: Observing
    keyring: Keyring | None
    secret: Secret | None
    """What the replicas of a cluster share."""


def set_up(options: ServeOptions, environ: Mapping[str, str]) -> Setup:
    """Raises `ConfigError`, with all mistakes of the settings in one message."""
    listen = None if options.listen is None else address(options.listen)
    metrics = None if options.metrics is None else _metrics(options.metrics, options)
    settings, directory, mistakes = examine(options.settings)
    make_data_directory(options.data)
    crew = Crew(settings, Place(directory, options.data), environ, mistakes)
    listen = listen or _own_address(settings.server, options, mistakes)
    front = _front(settings.server, listen[0], options, mistakes)
    mistakes.end()
    database = options.database or settings.database or own_database(options.data)
    watched = observing(settings, options, Where(directory, database, wall_clock), environ)
    keys = _keyring(settings, options, environ)
    secret = cluster_secret(settings.server, environ, directory, options.data)
    return Setup(options, settings, database, crew, listen, metrics, front, watched, keys, secret)


def address(text: str) -> tuple[str, int]:
    """`127.0.0.1:8765`, `[::1]:8765`, or a port alone."""
    host, colon, port = text.rpartition(":")
    if not colon:
        host = "127.0.0.1"
    if not port.isdecimal() or int(port) > 65_535 or not host.strip("[]"):
        raise ConfigError(f"{text!r} is no address to listen at: write 127.0.0.1:8765, or 8765")
    return host.strip("[]"), int(port)


def _own_address(
    server: ServerSettings, options: ServeOptions, mistakes: Mistakes
) -> tuple[str, int]:
    """As the settings say it. The port is the server's: a worker takes another."""
    named = mistakes.tried("server.listen", lambda: address(server.listen))
    host, port = named or address(ServerSettings().listen)
    return host, port if options.api else 0


def _metrics(text: str, options: ServeOptions) -> tuple[str, int]:
    """Nobody is asked for a token there, so by default others than this machine are kept out."""
    host, port = address(text)
    if not options.metrics_open and not is_loopback(host):
        raise ConfigError(
            f"the numbers of a worker are told without a token, and {host} can be reached from "
            f"the network: say --metrics 127.0.0.1:{port}, or --metrics-open too if everybody "
            "who can reach it may read them"
        )
    return host, port


def _front(
    server: ServerSettings, host: str, options: ServeOptions, mistakes: Mistakes
) -> Front | None:
    """What would be found out only when somebody asks; and what a team's server is called."""
    from holdfast.server.fanout import StreamOptions
    from holdfast.server.identity.address import networks
    from holdfast.server.identity.guard import public_front
    from holdfast.server.identity.local import refuse_network

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
        mistakes.add("server.urls", "they are for a team: say team = true too, or leave them out")
    elif options.listen is None:
        mistakes.tried("server.listen", lambda: refuse_network(host))
    else:
        refuse_network(host)
    return None


def _keyring(
    settings: Settings, options: ServeOptions, environ: Mapping[str, str]
) -> Keyring | None:
    """What secrets are sealed with. One person's own server makes a key for itself."""
    from holdfast.server.identity.secrets import VARIABLE, find_keyring, make_key_file

    file = key_file(options.data)
    if settings.server.team or VARIABLE in environ:
        return find_keyring(environ, file)
    return make_key_file(file)
