"""Looks up the profile of a model by its name; the data are in `profiles.json`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.errors import ConfigError
from holdfast.providers.profile import UNKNOWN, Profile


class ProfileFile(Struct, frozen=True, forbid_unknown_fields=True):
    """Contents of `profiles.json`. Unknown models, and unknown fields of a model, are left out."""

    date: str
    """Day on which the data were checked."""
    source: str
    models: Mapping[str, Mapping[str, Profile]]
    """Profiles by provider and model, the newest first."""
    aliases: Mapping[str, Mapping[str, str]]
    """Other names of the same models, by provider."""


@cache
def profile_file() -> ProfileFile:
    """The parsed file. It is read once."""
    from importlib import resources  # slow to import, and needed once

    data = resources.files("holdfast.providers").joinpath("profiles.json").read_bytes()
    return msgspec.json.decode(data, type=ProfileFile)


def models(provider: str) -> tuple[str, ...]:
    """Names of the models of a provider that are in the file."""
    return tuple(profile_file().models.get(provider, ()))


def lookup(provider: str, model: str) -> Profile:
    """Profile of a model; `UNKNOWN` if the file has none. Such a model can be used all the same."""
    model = model.removeprefix("models/")  # the form in which Google lists its models
    profile = _find(_SAME_MODELS.get(provider, provider), model)
    if profile is None and provider in _GATEWAYS:
        profile = _resold(provider, model)
    return UNKNOWN if profile is None else profile


def with_changes(profile: Profile, changes: Mapping[str, Any]) -> Profile:
    """A profile with some fields replaced, validated like the profiles of the file."""
    unknown = changes.keys() - set(Profile.__struct_fields__)
    if unknown:
        names = ", ".join(Profile.__struct_fields__)
        raise ConfigError(f"a profile has no field {', '.join(sorted(unknown))}: use {names}")
    try:
        fields = {**msgspec.to_builtins(profile), **msgspec.to_builtins(changes)}
        return msgspec.convert(fields, Profile)
    except (msgspec.ValidationError, TypeError) as error:
        raise ConfigError(f"profile={dict(changes)!r} is not valid: {error}") from None


# --- By name ------------------------------------------------------------------------------------

_RELEASE: Final = re.compile(
    r"(?:-\d{8}|-\d{4}-\d{2}-\d{2}|-\d{2}-\d{4}|-\d{3,4}|-latest|-preview|-v\d+|@[^@]*|:[^:]*)$"
)
"""Suffixes that do not make another model: a date, a revision, the place where it runs.

A short number is a version, and so another model.
"""
_POINT: Final = re.compile(r"(?<=\d)\.(?=\d)")


def _plain(name: str) -> str:
    """Normalized name: some providers write `claude-opus-4.5`, and some write capitals."""
    return _POINT.sub("-", name.lower())


@cache
def _index(provider: str) -> Mapping[str, Profile]:
    profiles = profile_file().models.get(provider, {})
    others = profile_file().aliases.get(provider, {})
    return {
        **{_plain(other): profiles[name] for other, name in others.items()},
        **{_plain(name): profile for name, profile in profiles.items()},
    }


def _find(provider: str, model: str) -> Profile | None:
    """The profile whose name is the longest prefix of this one."""
    index = _index(provider)
    name = _plain(model)
    while name not in index:
        shorter = _RELEASE.sub("", name)
        if shorter == name:
            return None
        name = shorter
    return index[name]


# --- Resold models --------------------------------------------------------------------------------

_SAME_MODELS: Final = {"azure": "openai", "openai-chat": "openai"}
_GATEWAYS: Final = frozenset({"openai-compatible", "openrouter", "perplexity"})
_VENDORS: Final = {
    "anthropic": "anthropic",
    "deepseek": "deepseek",
    "google": "google",
    "mistral": "mistral",
    "mistralai": "mistral",
    "moonshotai": "moonshot",
    "openai": "openai",
    "x-ai": "xai",
    "xai": "xai",
}
"""Vendors by the names that gateways use for them."""
_SOLD: Final = re.compile(rf"(?:^|[/.])({'|'.join(_VENDORS)})[/.](.+)$", re.IGNORECASE)
"""`anthropic/claude-opus-5.5`, or `us.anthropic.claude-opus-5-5-v1:0`."""
_AT_LIST_PRICE: Final = frozenset({"anthropic", "google", "openai", "xai"})
"""Vendors whose models no other company serves, so that OpenRouter charges their prices."""


def _resold(provider: str, model: str) -> Profile | None:
    """The vendor's profile of a model that a gateway resells."""
    sold = _SOLD.search(model)
    if sold is None:
        return None
    vendor = _VENDORS[sold[1].lower()]
    profile = _find(vendor, sold[2])
    if profile is None:
        return None
    at_list_price = provider == "openrouter" and vendor in _AT_LIST_PRICE and ":free" not in model
    # Options belong to the vendor's own protocol, which the gateway does not use.
    return replace(profile, price=profile.price if at_list_price else None, options={})
