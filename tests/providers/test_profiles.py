"""Profiles are found by name, and the file that holds them is sound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from importlib import resources
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.model import EFFORTS
from holdfast.providers.profile import UNKNOWN, Price, Profile
from holdfast.providers.profile_lookup import (
    ProfileFile,
    lookup,
    models,
    profile_file,
    with_changes,
)
from holdfast.providers.provider_catalog import PROVIDERS

ENTRIES = [
    pytest.param(provider, name, profile, id=f"{provider}:{name}")
    for provider, known in profile_file().models.items()
    for name, profile in known.items()
]
OPTIONS = {
    "anthropic": {"thinking"},
    "openai": {"chat_tools"},
    "google": {"thinking", "min_budget", "mix_tools", "mix_output", "signatures", "thinks"},
}


def raw() -> dict[str, Any]:
    path = resources.files("holdfast.providers").joinpath("profiles.json")
    decoded: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    return decoded


# --- The file -----------------------------------------------------------------------------------


def test_the_file_says_when_it_was_true_and_where_it_comes_from() -> None:
    assert date.fromisoformat(profile_file().date) > date(2026, 1, 1)
    assert "list price" in profile_file().source


def test_every_provider_in_the_file_can_be_asked() -> None:
    assert profile_file().models.keys() <= PROVIDERS.keys()
    assert profile_file().aliases.keys() <= profile_file().models.keys()


def test_the_file_has_no_field_that_nobody_reads() -> None:
    for entry in (entry for known in raw()["models"].values() for entry in known.values()):
        assert entry.keys() <= set(Profile.__struct_fields__)
        price = entry.get("price", {})
        for one in (price, price.get("long", {})):
            assert one.keys() <= set(Price.__struct_fields__)


def test_a_file_with_a_wrong_type_is_refused() -> None:
    wrong = {**raw(), "models": {"openai": {"gpt": {"window": "large"}}}}
    with pytest.raises(msgspec.ValidationError, match="window"):
        msgspec.convert(wrong, ProfileFile)


@pytest.mark.parametrize(("provider", "name", "profile"), ENTRIES)
def test_what_is_known_can_be_true(provider: str, name: str, profile: Profile) -> None:
    assert profile != UNKNOWN
    assert profile.window is None or 8_000 <= profile.window <= 10_000_000
    if profile.max_output is not None:
        assert profile.window is not None
        assert 1_000 <= profile.max_output <= profile.window
    if profile.efforts is not None:
        ranks = [EFFORTS.index(level) for level in profile.efforts]
        assert ranks == sorted(set(ranks))
    assert set(profile.options) <= OPTIONS.get(provider, set())


@pytest.mark.parametrize(("provider", "name", "profile"), ENTRIES)
def test_what_is_cached_is_read_for_less(provider: str, name: str, profile: Profile) -> None:
    for price in prices(profile):
        check_price(provider, price)


def prices(profile: Profile) -> Iterator[Price]:
    """Of short prompts, and of longer ones."""
    price = profile.price
    while price is not None:
        yield price
        price = price.long


def check_price(provider: str, price: Price) -> None:
    assert 0 < price.input <= price.output <= 1_000
    assert price.cache_read is None or 0 < price.cache_read < price.input
    assert price.cache_write is None or price.input <= price.cache_write <= 2 * price.input
    if provider == "anthropic":
        assert price.cache_write_1h == pytest.approx(2 * price.input)
    else:
        assert price.cache_write_1h is None


@pytest.mark.parametrize(("provider", "name", "profile"), ENTRIES)
def test_a_longer_prompt_costs_more(provider: str, name: str, profile: Profile) -> None:
    for short, long in pairwise(prices(profile)):
        assert short.above < long.above
        for kind in ("input", "output", "cache_read", "cache_write", "cache_write_1h"):
            less, more = getattr(short, kind), getattr(long, kind)
            assert (less is None) == (more is None)
            assert less is None or less < more


@pytest.mark.parametrize(
    ("provider", "model", "above", "input", "output"),
    [
        ("anthropic", "claude-haiku-5-5", 100_000, 0.5, 2.5),
        ("anthropic", "claude-sonnet-4-5", 200_000, 6, 22.5),
        ("google", "gemini-2.5-pro", 200_000, 2.5, 15),
        ("google", "gemini-pro-latest", 200_000, 4, 18),
        ("openai", "gpt-6-sol", 272_000, 4, 15),
        ("xai", "grok-4.20", 199_999, 2.5, 5),
    ],
)
def test_the_price_of_a_long_prompt_is_known(
    provider: str, model: str, above: int, input: float, output: float
) -> None:
    price = lookup(provider, model).price
    assert price is not None
    assert price.long is not None
    assert (price.long.above, price.long.input, price.long.output) == (above, input, output)


@pytest.mark.parametrize(("provider", "name", "profile"), ENTRIES)
def test_every_model_is_found_by_its_own_name(provider: str, name: str, profile: Profile) -> None:
    assert lookup(provider, name) == profile
    assert name in models(provider)


def test_every_alias_leads_to_a_model() -> None:
    for provider, aliases in profile_file().aliases.items():
        for alias, name in aliases.items():
            assert alias not in profile_file().models[provider]
            assert lookup(provider, alias) == profile_file().models[provider][name]


# --- By name ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "model", "known"),
    [
        ("anthropic", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("anthropic", "claude-opus-5-5-20260901", "claude-opus-5-5"),
        ("anthropic", "claude-opus-5-20260724", "claude-opus-5"),
        ("anthropic", "claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("anthropic", "Claude-Opus-4.5", "claude-opus-4-5"),
        ("openai", "gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("openai", "gpt-5.4-2026-03-05", "gpt-5.4"),
        ("google", "gemini-2.5-flash-preview-09-2025", "gemini-2.5-flash"),
        ("google", "gemini-2.5-flash-lite-001", "gemini-2.5-flash-lite"),
        ("deepseek", "deepseek-v4-pro-0813", "deepseek-v4-pro"),
        ("together", "moonshotai/kimi-k3", "moonshotai/Kimi-K3"),
    ],
)
def test_a_dated_name_is_found_by_the_longest_that_it_begins_with(
    provider: str, model: str, known: str
) -> None:
    assert lookup(provider, model) == profile_file().models[provider][known]


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-opus-5-7"),  # a version that is not out
        ("anthropic", "claude-opus"),
        ("openai", "gpt-5.9"),
        ("openai", "gpt-5-turbo"),  # a sibling of what is known, and priced otherwise
        ("openai", "gpt-55"),
        ("google", "gemini-2.5-flash-image"),
        ("ollama", "llama3.3:70b"),
        ("openai", ""),
        ("nobody", "gpt-5"),
    ],
)
def test_nothing_is_guessed_about_another_model(provider: str, model: str) -> None:
    assert lookup(provider, model) is UNKNOWN


# --- Sold by others -----------------------------------------------------------------------------


def test_azure_and_chat_completions_have_the_same_models() -> None:
    profile = lookup("openai", "gpt-5.2")
    assert lookup("azure", "gpt-5.2") == profile
    assert lookup("openai-chat", "gpt-5.2") == profile


def test_chat_completions_knows_the_highest_effort() -> None:
    assert lookup("openai-chat", "gpt-6-sol").effort("max") == "max"
    assert lookup("openai-chat", "gpt-4o").efforts == ()


@pytest.mark.parametrize(
    ("model", "option"),
    [
        ("gpt-5.3-codex", None),
        ("gpt-5.4", "no_effort"),
        ("gpt-5.5-2026-04-23", "no_effort"),
        ("gpt-5.6", "no_effort"),
        ("gpt-6.1-sol", "no_effort"),
    ],
)
def test_newer_models_have_tools_or_an_effort_over_chat_completions(
    model: str, option: str | None
) -> None:
    assert lookup("openai-chat", model).options.get("chat_tools") == option
    assert lookup("openrouter", f"openai/{model}").options == {}


@pytest.mark.parametrize("model", ["gpt-5.1", "gpt-5.2", "gpt-5.4", "gpt-5.4-mini"])
def test_some_models_sample_only_while_they_do_not_think(model: str) -> None:
    assert lookup("openai", model).sampling == "without effort"


@pytest.mark.parametrize(
    ("provider", "model"), [("xai", "grok-build-0.1"), ("groq", "qwen/qwen3.8-27b")]
)
def test_some_models_think_as_hard_as_they_want(provider: str, model: str) -> None:
    assert lookup(provider, model).efforts == ()


@pytest.mark.parametrize(
    ("model", "vendor", "known"),
    [
        ("anthropic/claude-opus-5.5", "anthropic", "claude-opus-5-5"),
        ("openai/gpt-6.1-sol", "openai", "gpt-6.1-sol"),
        ("google/gemini-3.8-flash", "google", "gemini-3.8-flash"),
        ("x-ai/grok-4.7", "xai", "grok-4.7"),
    ],
)
def test_openrouter_sells_at_the_price_of_the_vendor(model: str, vendor: str, known: str) -> None:
    own, resold = lookup(vendor, known), lookup("openrouter", model)
    assert resold.window == own.window is not None
    assert resold.price == own.price is not None
    assert resold.options == {}  # those are words of another protocol


def test_what_several_hosts_serve_or_is_free_has_no_known_price() -> None:
    assert lookup("openrouter", "deepseek/deepseek-v4-pro").window == 1_000_000
    assert lookup("openrouter", "deepseek/deepseek-v4-pro").price is None
    assert lookup("openrouter", "google/gemini-3.8-flash:free").price is None


def test_a_gateway_of_ones_own_may_name_the_vendor_in_any_way() -> None:
    own = lookup("anthropic", "claude-sonnet-4-5")
    for name in (
        "anthropic/claude-sonnet-4-5",
        "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
    ):
        profile = lookup("openai-compatible", name)
        assert (profile.window, profile.files) == (own.window, own.files)
        assert profile.price is None
    assert lookup("openai-compatible", "my-model") is UNKNOWN
    assert lookup("vllm", "openai/gpt-4o") is UNKNOWN  # a server of one's own is no gateway


# --- Changes ------------------------------------------------------------------------------------


def test_one_field_can_be_changed() -> None:
    known = lookup("openai", "gpt-5")
    profile = with_changes(known, {"window": 8_192, "efforts": ["low"], "price": None})
    assert profile == msgspec.structs.replace(known, window=8_192, efforts=("low",), price=None)
    assert with_changes(UNKNOWN, {"price": Price(1, 2)}).price == Price(1, 2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"windows": 8_192}, "no field windows: use window, max_output"),
        ({"window": "8k"}, "`int | null`, got `str`"),
        ({"efforts": ["hard"]}, "Invalid enum value 'hard'"),
        ({"window": object()}, "is not valid"),
    ],
)
def test_a_change_that_cannot_be_right_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        with_changes(UNKNOWN, changes)


def test_a_model_of_google_is_found_as_google_lists_it() -> None:
    assert lookup("google", "models/gemini-2.5-flash") == lookup("google", "gemini-2.5-flash")
    assert lookup("google", "models/gemini-2.5-flash") is not UNKNOWN
