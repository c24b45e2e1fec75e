"""`demo` is a name that needs no provider, no key and no network."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from holdfast import model
from holdfast.errors import ConfigError
from holdfast.providers.demo import Demo
from holdfast.providers.model_factory import usable_providers
from holdfast.providers.provider_catalog import PROVIDERS


@pytest.mark.parametrize("name", ["demo", "demo:demo", " demo "])
def test_it_is_found_by_its_name(name: str) -> None:
    made = model(name, environ={})
    assert isinstance(made, Demo)
    assert made.name == "demo:demo"


def test_it_is_no_provider() -> None:
    assert "demo" not in PROVIDERS
    assert usable_providers({}) == ()


@pytest.mark.parametrize("name", ["demo:x", "demo:", "demo:demo:demo"])
def test_there_is_only_one(name: str) -> None:
    with pytest.raises(ConfigError, match=r"there is no model .* write 'demo'"):
        model(name)


@pytest.mark.parametrize(
    "given",
    [{"api_key": "k"}, {"base_url": "http://x"}, {"headers": {}}, {"profile": {"window": 1}}],
    ids=str,
)
def test_what_it_has_no_use_for_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"demo sends no requests: leave {next(iter(given))} out"):
        model("demo", **given)


def test_its_options_are_its_own() -> None:
    assert model("demo", pace=0, window=5_000).window == 5_000
    with pytest.raises(ConfigError, match="demo has no option speed: it takes pace, window"):
        model("demo", speed=3)


def test_importing_it_is_cheap() -> None:
    program = "import sys, holdfast.providers.demo; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    slow = {"anyio", "asyncio", "aiohttp", "pydantic", "jsonschema_rs", "ssl", "difflib"}
    assert slow.isdisjoint(loaded.stdout.decode().split())
