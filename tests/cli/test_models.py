"""`holdfast models` says who can be asked here, and what to do about the others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.cli.models import main, table
from holdfast.cli.settings_trust import find_settings, trust
from holdfast.kernel.errors import ConfigError
from holdfast.providers import profile_lookup
from holdfast.providers.model_factory import DEMO_NAME
from holdfast.providers.provider_catalog import PROVIDERS

KEY: Final = "sk-0123456789abcdef"
OTHERS: Final = "need a key, an address, or a local server that is running"


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    def show(environ: Mapping[str, str], provider: str | None = None, as_json: bool = False) -> Any:
        environ = {"HOLDFAST_HOME": "home", **environ}
        assert main(provider, as_json=as_json, environ=environ) == 0
        out: str = capsys.readouterr().out
        return json.loads(out) if as_json else out

    return show


def line_of(name: str, text: str) -> str:
    (found,) = [line for line in text.splitlines() if line.startswith(f"  {name} ")]
    return " ".join(found.split())


def test_everybody_is_named_once(shown: Any) -> None:
    text = shown({"GROQ_API_KEY": KEY})
    for name in {*PROVIDERS, DEMO_NAME}:
        assert line_of(name, text)


def test_who_can_be_asked_comes_first_with_the_variable_and_the_default(shown: Any) -> None:
    usable, _, others = shown({"GEMINI_API_KEY": KEY, "HF_TOKEN": KEY}).partition(OTHERS)
    default = PROVIDERS["google"].default
    assert line_of("google", usable) == f"google google:{default} GEMINI_API_KEY is set"
    assert line_of("huggingface", usable) == "huggingface (name a model) HF_TOKEN is set"
    assert line_of("demo", usable) == "demo demo always available; not a language model"
    assert "google" not in others.replace("GOOGLE", "")


def test_it_is_said_which_model_a_run_would_use(shown: Any) -> None:
    assert shown({}).startswith("holdfast run uses demo: no key in the environment\n")
    found = shown({"XAI_API_KEY": KEY})
    assert found.startswith(f"holdfast run uses xai:{PROVIDERS['xai'].default}: XAI_API_KEY is set")
    assert shown({"HOLDFAST_MODEL": "xai:x"}).startswith("holdfast run uses xai:x: HOLDFAST_MODEL")


def test_the_others_come_with_what_to_do(shown: Any) -> None:
    text = shown({})
    assert line_of("groq", text) == "groq set GROQ_API_KEY"
    ollama = line_of("ollama", text)
    assert "http://localhost:11434/v1" in ollama
    assert "set OLLAMA_BASE_URL or OLLAMA_HOST if it runs elsewhere" in ollama


def test_a_broken_key_is_said_to_be_broken_and_not_shown(shown: Any) -> None:
    text = shown({"GROQ_API_KEY": f"{KEY} {KEY}"})
    assert "GROQ_API_KEY contains a line break, a blank" in line_of("groq", text)
    assert KEY not in text


def test_no_key_is_ever_shown(shown: Any) -> None:
    environ = {variable: KEY for facts in PROVIDERS.values() for variable in facts.keys}
    assert KEY not in shown(environ)
    assert KEY not in json.dumps(shown(environ, as_json=True))
    assert not any(KEY in shown(environ, name) for name in PROVIDERS)


def test_the_same_can_be_had_as_json(shown: Any) -> None:
    found = shown({"XAI_API_KEY": KEY}, as_json=True)
    default = f"xai:{PROVIDERS['xai'].default}"
    assert (found["model"], found["because"]) == (default, "XAI_API_KEY is set")
    xai, demo, *others = found["providers"]
    assert xai == {
        "name": "xai",
        "usable": True,
        "because": "XAI_API_KEY is set",
        "default": default,
    }
    assert (demo["name"], demo["usable"]) == (DEMO_NAME, True)
    assert {one["name"] for one in others} == set(PROVIDERS) - {"xai", DEMO_NAME}
    assert not any(one["usable"] for one in others)
    assert all(one["because"] and "default" in one for one in others)


# --- What a server's settings say ---------------------------------------------------------------

ADDRESSES: Final = """
[providers.ollama]
base_url = "http://gpu.example:11434"
[providers.azure]
base_url = "https://us.example"
[providers.groq]
base_url = "https://gateway.example"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that has settings."""
    monkeypatch.chdir(tmp_path)
    trusted(tmp_path, ADDRESSES)
    return tmp_path


def trusted(here: Path, text: str) -> None:
    (here / "holdfast.toml").write_text(text)
    found = find_settings()
    assert found is not None
    trust(found, str(here / "home"))


def test_who_can_be_asked_because_of_the_settings_is_shown_with_them(
    shown: Any, here: Path
) -> None:
    usable, _, others = shown({"AZURE_OPENAI_API_KEY": KEY}).partition(OTHERS)
    because = "(name a model) holdfast.toml has its address, for holdfast serve"
    assert line_of("ollama", usable) == f"ollama {because}"
    assert line_of("azure", usable) == f"azure {because}"
    assert line_of("groq", others) == "groq set GROQ_API_KEY"


def test_who_can_be_asked_anyway_is_shown_with_the_variable(shown: Any, here: Path) -> None:
    text = shown({"GROQ_API_KEY": KEY, "OLLAMA_HOST": "0.0.0.0"})
    assert line_of("groq", text).endswith("GROQ_API_KEY is set")
    assert line_of("ollama", text).endswith("OLLAMA_HOST is set")


def test_what_a_run_would_use_does_not_come_from_the_settings(shown: Any, here: Path) -> None:
    assert shown({}).startswith("holdfast run uses demo: no key in the environment\n")


def test_one_provider_and_json_know_the_settings_too(shown: Any, here: Path) -> None:
    assert shown({}, "ollama").startswith("ollama: holdfast.toml has its address")
    found = {one["name"]: one["usable"] for one in shown({}, as_json=True)["providers"]}
    assert (found["ollama"], found["azure"]) == (True, False)


def test_other_settings_can_be_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "team.toml").write_text('[providers.vllm]\nbase_url = "http://gpu.example"')
    assert main(None, as_json=False, environ={}, settings="team.toml") == 0
    text = capsys.readouterr().out
    assert line_of("vllm", text).endswith("team.toml has its address, for holdfast serve")
    assert "needs no key" in line_of("ollama", text)


def test_settings_that_cannot_be_used_are_refused(here: Path) -> None:
    trusted(here, '[providers.olama]\nbase_url = "http://gpu.example"')
    with pytest.raises(ConfigError, match="did you mean ollama"):
        main(None, as_json=False, environ={"HOLDFAST_HOME": "home"})


def test_settings_that_are_not_trusted_are_left_out_and_that_is_said(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(None, as_json=False, environ={"HOLDFAST_HOME": "another"}) == 0
    told = capsys.readouterr()
    assert "gpu.example" not in told.out
    assert "holdfast.toml says" not in told.out
    assert told.err == "holdfast: holdfast.toml is not trusted yet and was ignored\n"


# --- One provider -------------------------------------------------------------------------------


def test_the_models_of_a_provider_are_listed_as_their_profiles_say(shown: Any) -> None:
    text = shown({}, "groq")
    assert text.startswith("groq: set GROQ_API_KEY\n")
    row = line_of("groq:openai/gpt-oss-20b", text)
    assert row == "groq:openai/gpt-oss-20b 131,072 0.075 0.30 low medium high"
    assert line_of("groq:qwen/qwen3.8-27b", text).endswith("4.00 cannot be set")
    assert profile_lookup.profile_file().date in text
    assert [line_of(f"groq:{id}", text) for id in profile_lookup.models("groq")]


def test_what_a_long_prompt_costs_stands_below_the_model(shown: Any) -> None:
    price = profile_lookup.lookup("google", "gemini-2.5-pro").price
    assert price is not None
    assert price.long is not None
    assert (price.long.above, price.long.input, price.long.output) == (200_000, 2.5, 15)
    lines = [" ".join(line.split()) for line in shown({}, "google").splitlines()]
    at = next(at for at, line in enumerate(lines) if line.startswith("google:gemini-2.5-pro "))
    assert lines[at + 1] == "prompts over 200,000 2.50 15.00"
    assert lines[at + 2].startswith("google:")


def test_what_is_not_known_of_a_model_is_marked(shown: Any) -> None:
    assert line_of("perplexity:perplexity/sonar", shown({}, "perplexity")).endswith("? 0.25 2.50 ?")
    assert line_of("openrouter:z-ai/glm-5.3", shown({}, "openrouter")).endswith("1,048,576 ? ? ?")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_listing_as_json_has_every_known_model(provider: str, shown: Any) -> None:
    found = shown({}, provider, as_json=True)
    assert found["provider"]["name"] == provider
    assert [one["name"] for one in found["models"]] == [
        f"{provider}:{id}" for id in profile_lookup.models(provider)
    ]
    for one in found["models"]:
        known = profile_lookup.lookup(provider, one["name"].partition(":")[2])
        assert one["window"] == known.window
        assert (one["price"] or {}).get("input") == (known.price and known.price.input)
        assert one["efforts"] == (None if known.efforts is None else list(known.efforts))


def test_a_provider_without_known_models_says_how_to_name_one(shown: Any) -> None:
    text = shown({"AZURE_OPENAI_API_KEY": KEY}, "azure")
    assert text.startswith("azure: set AZURE_BASE_URL or AZURE_OPENAI_ENDPOINT\n")
    assert "as azure:model" in text


def test_the_demo_is_a_provider_of_one(shown: Any) -> None:
    assert shown({}, DEMO_NAME) == "demo: always available; not a language model\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gogle", "unknown provider 'gogle': did you mean google?"),
        ("nope", "unknown provider 'nope' (holdfast models lists them)"),
        ("groq:openai/gpt-oss-20b", "did you mean groq?"),
        ("zzz", "unknown provider 'zzz' (holdfast models lists them)"),
    ],
)
def test_an_unknown_provider_is_refused_with_the_nearest(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        main(name, as_json=False, environ={})
    assert said in str(raised.value)


def test_columns_are_as_wide_as_what_is_in_them() -> None:
    rows = [("a", "1", "x"), ("long", "100", "")]
    assert list(table(rows, right=(1,))) == ["  a       1  x", "  long  100"]
