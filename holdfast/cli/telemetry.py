"""Logs, metrics, traces and recordings of a server, from its settings and the environment."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple, get_args
from urllib.parse import unquote, urlsplit

from holdfast.cli.settings import HoldfastSettings
from holdfast.config import ServeOptions
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.observer import Observer, several
from holdfast.observe.logs import LogFormat, LogLevel, set_up_logs
from holdfast.observe.metrics import MetricRegistry
from holdfast.observe.metrics_observer import MetricsObserver
from holdfast.observe.redact import Redactor, secrets_in
from holdfast.providers.provider_catalog import PROVIDERS

LOG: Final = logging.getLogger("holdfast.serve")


class TelemetryContext(NamedTuple):
    """What telemetry needs to know of its process: directories, database, clock."""

    settings: str
    """Directory of the settings file."""
    database: str
    now: Callable[[], int]
    listen_url: str | None = None


class Telemetry(NamedTuple):
    """Logs, metrics and observers of a process."""

    meters: MetricRegistry
    observer: Observer
    redact: Redactor
    log: LogFormat
    level: LogLevel
    recorded: str | None
    """Directory where model requests and responses are recorded."""

    @contextmanager
    def logging(self) -> Iterator[None]:
        take_back = set_up_logs(self.log, self.level, self.redact)
        try:
            if self.recorded is not None:
                LOG.warning("recording model requests and responses in %s", self.recorded)
            yield
        finally:
            take_back()

    def announce(self, line: str) -> None:
        """Print a line for the operator, whatever the log level."""
        if self.log == "text":
            print(line, file=sys.stderr, flush=True)
            return
        record = LOG.makeRecord(LOG.name, logging.INFO, "", 0, line.strip(), (), None)
        logging.getLogger().handle(record)


def set_up_telemetry(
    settings: HoldfastSettings,
    options: ServeOptions,
    where: TelemetryContext,
    environ: Mapping[str, str],
) -> Telemetry:
    """Set up logs, and return the observers of a worker and a server. Raises `ConfigError`."""
    redact, meters = Redactor(), MetricRegistry()
    redact.know(*_secrets(settings, environ))
    for url in (where.database, where.listen_url or ""):
        if password := urlsplit(url).password:
            redact.know(unquote(password))
    observers: list[Observer] = [MetricsObserver(meters)]
    if settings.traces.enabled or options.traces:
        from holdfast.observe.tracing import Tracing

        observers.append(Tracing(redact, content=settings.traces.content))
    directory = options.record
    if directory is None and settings.record is not None:
        directory = os.path.join(where.settings, settings.record)
    if directory is not None:
        from holdfast.observe.model_call_recorder import Recorder

        observers.append(Recorder(directory, redact, where.now))
    log = _format(options.log) or settings.log.format
    return Telemetry(meters, several(observers), redact, log, settings.log.level, directory)


def _format(name: str | None) -> LogFormat | None:
    for known in get_args(LogFormat):
        if name == known:
            return known  # type: ignore[no-any-return]
    if name is not None:
        raise ConfigError(f"HOLDFAST_LOG is {name!r}: use text or json")
    return None


def provider_keys(environ: Mapping[str, str]) -> Iterator[str]:
    for provider in PROVIDERS.values():
        yield from (environ[name] for name in provider.keys if name in environ)


def _secrets(settings: HoldfastSettings, environ: Mapping[str, str]) -> Iterator[str]:
    """All secrets known to this process."""
    yield from secrets_in(environ)
    yield from provider_keys(environ)
    for options in settings.providers.values():
        headers = options.get("headers")
        if isinstance(headers, Mapping):
            yield from (value for value in headers.values() if isinstance(value, str))
