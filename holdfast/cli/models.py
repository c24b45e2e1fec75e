"""`holdfast models`: which models can be used here, and what to set for the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.cli.codes import ExitCode
from holdfast.cli.guess import did_you_mean
from holdfast.cli.settings import NAME, base_urls_of, read_settings
from holdfast.cli.wording import columns
from holdfast.config import default_model
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.messages import Value, encode
from holdfast.providers import profiles
from holdfast.providers.known import PROVIDERS
from holdfast.providers.profile import Price, Profile
from holdfast.providers.registry import DEMO, unusable_providers, usable_providers

_DEMO_NOTE = "always there; not a language model"


def main(
    provider: str | None,
    *,
    as_json: bool,
    environ: Mapping[str, str],
    settings: str | None = None,
) -> int:
    """`settings`: the file of a server here; None for the one of the usual name, if any."""
    if provider is None:
        found = survey(environ, settings)
        lines = [encode(found).decode()] if as_json else survey_lines(found)
    else:
        one = listing(provider, environ, settings)
        lines = [encode(one).decode()] if as_json else listing_lines(one)
    print("\n".join(lines))
    return ExitCode.FINISHED


class Standing(Value, frozen=True):
    """Whether a provider can be asked here."""

    name: str
    usable: bool
    because: str
    """Why it can be asked; otherwise what to do about it."""
    default: str | None
    """The model to ask when none is named, if it has one."""


class Survey(Value, frozen=True):
    """Everybody who could be asked."""

    model: str
    """Who answers now when no model is named."""
    because: str
    providers: tuple[Standing, ...]


class Known(Value, frozen=True):
    """A model, as far as it is known. What is None is not."""

    name: str
    window: int | None
    max_output: int | None
    price: Price | None
    efforts: tuple[str, ...] | None


class Listing(Value, frozen=True):
    """A provider and its models."""

    provider: Standing
    date: str
    """The day on which it was true."""
    models: tuple[Known, ...]


def survey(environ: Mapping[str, str], settings: str | None) -> Survey:
    model, because = default_model(environ)  # of a run, which reads no settings
    return Survey(model, because, tuple(_standings(environ, settings)))


def _standings(environ: Mapping[str, str], settings: str | None) -> Iterator[Standing]:
    """Those that can be asked first."""
    base_urls = base_urls_of(read_settings(settings)[0])
    anyway = {one.name: f"{one.variable} is set" for one in usable_providers(environ)}
    by_settings = f"{settings or NAME} says where it is, for holdfast serve"
    for usable in usable_providers(environ, base_urls):
        because = anyway.get(usable.name, by_settings)
        yield Standing(usable.name, True, because, _default(usable.name))
    yield Standing(DEMO, True, _DEMO_NOTE, DEMO)
    for other in unusable_providers(environ, base_urls):
        yield Standing(other.name, False, other.remedy, _default(other.name))


def _default(provider: str) -> str | None:
    default = PROVIDERS[provider].default
    return f"{provider}:{default}" if default else None


def listing(provider: str, environ: Mapping[str, str], settings: str | None) -> Listing:
    standings = {one.name: one for one in _standings(environ, settings)}
    if provider not in standings:
        name = provider.partition(":")[0]
        near = f": did you mean {name}?" if name in standings else did_you_mean(name, standings)
        raise ConfigError(
            f"there is no provider {provider!r}{near} (holdfast models lists them all)"
        )
    known = tuple(_known(provider, id) for id in profiles.models(provider))
    return Listing(standings[provider], profiles.facts().date, known)


def _known(provider: str, id: str) -> Known:
    it: Profile = profiles.lookup(provider, id)
    return Known(f"{provider}:{id}", it.window, it.max_output, it.price, it.efforts)


# --- For people ---------------------------------------------------------------------------------


def survey_lines(found: Survey) -> Iterator[str]:
    yield f"holdfast run uses {found.model}: {found.because}"
    usable = [one for one in found.providers if one.usable]
    others = [one for one in found.providers if not one.usable]
    yield from ("", "can be used here, with the model that is asked when none is named")
    yield from table([(one.name, one.default or "(name one)", one.because) for one in usable])
    yield from ("", "can be used when something is set or started")
    yield from table([(one.name, one.because) for one in others])
    yield from ("", "holdfast models PROVIDER lists its models; holdfast run -m MODEL uses one")


def listing_lines(found: Listing) -> Iterator[str]:
    name = found.provider.name
    yield f"{name}: {found.provider.because}"
    if not found.models:
        if name != DEMO:
            yield f"none of its models is known here: name one that it has, as {name}:model"
        return
    yield ""
    head = ("model", "window", "input", "output", "effort")
    yield from table([head, *(row for one in found.models for row in _rows(one))], right=(1, 2, 3))
    yield ""
    yield f"prices in US dollars for a million tokens, as of {found.date}; ? is not known here"
    yield "it may have other models, and they work all the same"


def _rows(one: Known) -> Iterator[tuple[str, ...]]:
    """The model, and below it what its long prompts cost where they cost more."""
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
    """Two decimals, and more where there are more: 4.00, 0.075."""
    whole, _, rest = f"{amount:.4f}".partition(".")
    return f"{whole}.{rest.rstrip('0'):0<2}"


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> Iterator[str]:
    return (f"  {line}" for line in columns(rows, right))
