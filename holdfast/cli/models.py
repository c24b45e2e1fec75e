"""Implements `holdfast models`: usable models, and what to set for the others."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.run_texts import columns
from holdfast.cli.settings import HoldfastSettings, base_urls_of, read_settings
from holdfast.cli.settings_trust import SETTINGS_FILE, Untrusted
from holdfast.config import data_directory, default_model
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.messages import Value, encode
from holdfast.kernel.suggest import did_you_mean
from holdfast.providers import profile_lookup
from holdfast.providers.model_factory import DEMO_NAME, unusable_providers, usable_providers
from holdfast.providers.profile import Price, Profile
from holdfast.providers.provider_catalog import PROVIDERS

_DEMO_NOTE = "always available; not a language model"


def main(
    provider: str | None,
    *,
    as_json: bool,
    environ: Mapping[str, str],
    settings: str | None = None,
) -> int:
    """Print all providers or one. `settings`: a server's settings file; None: the default."""
    if provider is None:
        found = survey(environ, settings)
        lines = [encode(found).decode()] if as_json else survey_lines(found)
    else:
        one = listing(provider, environ, settings)
        lines = [encode(one).decode()] if as_json else listing_lines(one)
    print("\n".join(lines))
    return ExitCode.FINISHED


class ProviderStatus(Value, frozen=True):
    """Whether a provider can be used here."""

    name: str
    usable: bool
    because: str
    """Why it can be used; otherwise what to do."""
    default: str | None
    """Its default model, if it has one."""


class ProviderSurvey(Value, frozen=True):
    """All providers, and the default model."""

    model: str
    """The model used when none is named."""
    because: str
    providers: tuple[ProviderStatus, ...]


class KnownModel(Value, frozen=True):
    """Known facts about a model; None for an unknown fact."""

    name: str
    window: int | None
    max_output: int | None
    price: Price | None
    efforts: tuple[str, ...] | None


class ProviderModels(Value, frozen=True):
    """A provider and its known models."""

    provider: ProviderStatus
    date: str
    """Date of the profile data."""
    models: tuple[KnownModel, ...]


def survey(environ: Mapping[str, str], settings: str | None) -> ProviderSurvey:
    model, because = default_model(environ)  # as in a run, which reads no settings
    return ProviderSurvey(model, because, tuple(_statuses(environ, settings)))


def _statuses(environ: Mapping[str, str], settings: str | None) -> Iterator[ProviderStatus]:
    """The state of each provider, usable ones first."""
    base_urls = base_urls_of(_trusted(settings, environ))
    anyway = {one.name: f"{one.variable} is set" for one in usable_providers(environ)}
    by_settings = f"{settings or SETTINGS_FILE} has its address, for holdfast serve"
    for usable in usable_providers(environ, base_urls):
        because = anyway.get(usable.name, by_settings)
        yield ProviderStatus(usable.name, True, because, _default(usable.name))
    yield ProviderStatus(DEMO_NAME, True, _DEMO_NOTE, DEMO_NAME)
    for other in unusable_providers(environ, base_urls):
        yield ProviderStatus(other.name, False, other.remedy, _default(other.name))


def _trusted(settings: str | None, environ: Mapping[str, str]) -> HoldfastSettings:
    """The settings of a local server. Settings that are not trusted yet are ignored."""
    try:
        return read_settings(settings, data_directory(environ))[0]
    except Untrusted:
        print(f"holdfast: {SETTINGS_FILE} is not trusted yet and was ignored", file=sys.stderr)
        return HoldfastSettings()


def _default(provider: str) -> str | None:
    default = PROVIDERS[provider].default
    return f"{provider}:{default}" if default else None


def listing(provider: str, environ: Mapping[str, str], settings: str | None) -> ProviderModels:
    statuses = {one.name: one for one in _statuses(environ, settings)}
    if provider not in statuses:
        name = provider.partition(":")[0]
        near = f": did you mean {name}?" if name in statuses else did_you_mean(name, statuses)
        raise ConfigError(f"unknown provider {provider!r}{near} (holdfast models lists them)")
    known = tuple(_known(provider, id) for id in profile_lookup.models(provider))
    return ProviderModels(statuses[provider], profile_lookup.profile_file().date, known)


def _known(provider: str, id: str) -> KnownModel:
    it: Profile = profile_lookup.lookup(provider, id)
    return KnownModel(f"{provider}:{id}", it.window, it.max_output, it.price, it.efforts)


# --- For people ---------------------------------------------------------------------------------


def survey_lines(found: ProviderSurvey) -> Iterator[str]:
    yield f"holdfast run uses {found.model}: {found.because}"
    usable = [one for one in found.providers if one.usable]
    others = [one for one in found.providers if not one.usable]
    yield from ("", "ready to use, with the default model")
    yield from table([(one.name, one.default or "(name a model)", one.because) for one in usable])
    yield from ("", "need a key, an address, or a local server that is running")
    yield from table([(one.name, one.because) for one in others])
    yield from (
        "",
        "holdfast models PROVIDER lists the models of a provider; holdfast run -m MODEL uses one",
    )


def listing_lines(found: ProviderModels) -> Iterator[str]:
    name = found.provider.name
    yield f"{name}: {found.provider.because}"
    if not found.models:
        if name != DEMO_NAME:
            yield f"its models are not known here: name one that it offers, as {name}:model"
        return
    yield ""
    head = ("model", "window", "input", "output", "effort")
    yield from table([head, *(row for one in found.models for row in _rows(one))], right=(1, 2, 3))
    yield ""
    yield f"prices in US dollars per million tokens, as of {found.date}; ? means unknown"
    yield "other models of this provider work too"


def _rows(one: KnownModel) -> Iterator[tuple[str, ...]]:
    """The row of a model, and one for the prices of long prompts where they differ."""
    window = f"{one.window:,}" if one.window else "?"
    efforts = "?" if one.efforts is None else " ".join(one.efforts) or "cannot be set"
    price = one.price
    yield (one.name, window, *(("?", "?") if price is None else _prices(price)), efforts)
    while price is not None and price.long is not None:
        price = price.long
        yield (f"  prompts over {price.above:,}", "", *_prices(price), "")


def _prices(price: Price) -> tuple[str, str]:
    return _dollars(price.input), _dollars(price.output)


def _dollars(amount: float) -> str:
    """A price with at least two decimals: 4.00, 0.075."""
    whole, _, rest = f"{amount:.4f}".partition(".")
    return f"{whole}.{rest.rstrip('0'):0<2}"


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> Iterator[str]:
    return (f"  {line}" for line in columns(rows, right))
