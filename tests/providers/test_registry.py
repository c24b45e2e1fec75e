"""`provider:model` becomes a model that asks the right host with the right key, or says why not."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from inspect import signature
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import pytest

from holdfast.agent import Agent
from holdfast.kernel.errors import ConfigError, ProviderError
from holdfast.kernel.messages import Message, Text
from holdfast.kernel.model import Model, Request, Settings, check_usable, known_efforts
from holdfast.providers.http import HttpResponse
from holdfast.providers.model_factory import (
    configured_model,
    model,
    unusable_providers,
    usable_providers,
)
from holdfast.providers.openai_chat.quirks import COMPATIBLE, QUIRKS
from holdfast.providers.profile import UNKNOWN, Price, Profile
from holdfast.providers.profile_lookup import lookup, models
from holdfast.providers.provider_catalog import PROVIDERS, WireProtocol
from holdfast.testing import usage
from holdfast.testing.fake.provider import FakeProvider

HELLO: Final = Request(
    messages=(Message("user", (Text("Hello?"),), "prompt"),),
    settings=Settings(max_output_tokens=100),
)
ROOT: Final = Path(__file__).resolve().parent.parent.parent
SECRET: Final = "sk-0123456789abcdef"


class Caught:
    """An `Http` that writes down where a request would have gone."""

    def __init__(self) -> None:
        self.url = ""
        self.headers: Mapping[str, str] = {}
        self.body: Any = None

    @asynccontextmanager
    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[HttpResponse]:
        self.url, self.headers = url, {name.lower(): value for name, value in headers.items()}
        self.body = msgspec.json.decode(body)
        raise ProviderError("caught", status=418)
        yield


async def first_request(name: str, environ: Mapping[str, str], **given: Any) -> Caught:
    """Where the first request to this model goes."""
    http = Caught()
    resolved = model(name, environ=environ, http=http, **given)
    with pytest.raises(ProviderError, match="caught"):
        async for _ in resolved.stream(HELLO):
            pass
    return http


def refusal(name: str, environ: Mapping[str, str] | None = None, **given: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        configured_model(name, environ=environ or {}, **given)
    return str(raised.value)


def key_for(name: str) -> dict[str, str]:
    """An environment in which this provider can be asked."""
    facts = PROVIDERS[name]
    environ = {facts.keys[0]: SECRET} if facts.needs_key else {}
    if facts.base_url is None:
        environ[facts.urls[0]] = "https://models.example"
    return environ


# --- Every provider -----------------------------------------------------------------------------


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_every_provider_is_asked_where_it_is_with_its_key(provider: str) -> None:
    facts = PROVIDERS[provider]
    caught = await first_request(f"{provider}:some-model", key_for(provider))
    assert caught.url.startswith(facts.base_url or "https://models.example")
    said = " ".join(caught.headers.values())
    assert (SECRET in said) == facts.needs_key
    assert SECRET not in caught.url


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_provider_names_its_models_after_itself(provider: str) -> None:
    resolved = model(f"{provider}:some-model", environ=key_for(provider))
    assert resolved.name == f"{provider}:some-model"
    assert resolved.window is None
    assert SECRET not in repr(resolved)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_every_base_url_can_be_set_in_the_environment(provider: str) -> None:
    for variable in PROVIDERS[provider].urls:
        environ = {**key_for(provider), variable: "https://elsewhere.example/api/"}
        if variable != PROVIDERS[provider].urls[0]:
            environ.pop(PROVIDERS[provider].urls[0], None)
        caught = await first_request(f"{provider}:some-model", environ)
        assert caught.url.startswith("https://elsewhere.example/api/")
        assert "//" not in caught.url.removeprefix("https://")


def test_every_protocol_has_a_provider() -> None:
    assert {facts.protocol for facts in PROVIDERS.values()} == set(get_args(WireProtocol))


def test_the_table_is_sound() -> None:
    for name, facts in PROVIDERS.items():
        assert name == facts.name == name.lower()
        assert ":" not in name
        assert facts.keys
        if facts.base_url is not None:
            assert re.fullmatch(r"https://[^?]+[^/?]|http://localhost:\d+/v1", facts.base_url)


def test_it_is_known_how_every_endpoint_like_openai_differs() -> None:
    chat = {name for name, facts in PROVIDERS.items() if facts.protocol == "openai_chat"}
    assert chat - {"openai-chat", "openai-compatible"} <= QUIRKS.keys()


def test_the_guide_names_every_provider_and_every_variable() -> None:
    guide = (ROOT / "docs/models.md").read_text("utf-8")
    for name, facts in PROVIDERS.items():
        assert f"`{name}`" in guide
        usual = f"{name.upper()}_API_KEY"
        for variable in (*facts.keys, *facts.more_urls):
            assert variable in guide or variable == usual


# --- Keys ---------------------------------------------------------------------------------------


async def test_a_key_that_is_given_wins_over_the_environment() -> None:
    caught = await first_request("openai:gpt-5", {"OPENAI_API_KEY": "sk-other"}, api_key=SECRET)
    assert caught.headers["authorization"] == f"Bearer {SECRET}"


async def test_the_first_variable_that_says_anything_is_taken() -> None:
    environ = {"GOOGLE_API_KEY": "  ", "GEMINI_API_KEY": SECRET}
    caught = await first_request("google:gemini-2.5-pro", environ)
    assert SECRET in caught.headers.values()


async def test_blanks_and_line_ends_around_a_key_are_no_part_of_it() -> None:
    caught = await first_request("groq:llama", {"GROQ_API_KEY": f" {SECRET}\r\n"})
    assert caught.headers["authorization"] == f"Bearer {SECRET}"


async def test_a_local_server_needs_no_key_but_may_have_one() -> None:
    assert "authorization" not in (await first_request("vllm:m", {})).headers
    caught = await first_request("vllm:m", {"VLLM_API_KEY": SECRET})
    assert caught.headers["authorization"] == f"Bearer {SECRET}"


async def test_a_key_may_be_set_after_the_model_was_made() -> None:
    environ: dict[str, str] = {}
    http = Caught()
    late = model("anthropic:claude-opus-5-5", environ=environ, http=http)
    known = lookup("anthropic", "claude-opus-5-5")
    assert (late.name, late.window) == ("anthropic:claude-opus-5-5", known.window)
    assert known_efforts(late) == known.efforts
    with pytest.raises(ConfigError, match="anthropic needs a key: set ANTHROPIC_API_KEY"):
        late.stream(HELLO)
    environ["ANTHROPIC_API_KEY"] = SECRET
    with pytest.raises(ProviderError, match="caught"):
        async for _ in late.stream(HELLO):
            pass
    assert http.headers["x-api-key"] == SECRET


def test_a_missing_address_is_an_error_when_the_model_is_used() -> None:
    late = model("azure:mine", environ={})
    assert late.name == "azure:mine"
    with pytest.raises(ConfigError, match="azure needs a key"):
        check_usable(late)
    late = model("azure:mine", environ={"AZURE_OPENAI_API_KEY": SECRET})
    with pytest.raises(ConfigError, match="azure has no address"):
        check_usable(late)


def test_an_agent_is_made_without_a_key_and_runs_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    agent = Agent(model="anthropic:claude-opus-5-5")
    with pytest.raises(ConfigError, match="anthropic needs a key"):
        agent.run("?")
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    agent.run("?").close()


@pytest.mark.parametrize("key", [None, "", "  \n"])
def test_a_missing_key_names_the_variables_to_set(key: str | None) -> None:
    environ = {"GOOGLE_API_KEY": key} if key is not None else {}
    said = refusal("google:gemini-2.5-pro", environ, api_key=key)
    keys = "GOOGLE_API_KEY or GEMINI_API_KEY"
    assert said == f"google needs a key: set {keys} (in a program: api_key=…)"


@pytest.mark.parametrize("broken", [f"{SECRET}\nX-Other: 1", f"Bearer {SECRET}", f"“{SECRET}”"])
def test_a_key_that_can_be_none_is_refused_and_not_shown(broken: str) -> None:
    for said in (
        refusal("openai:gpt-5", {"OPENAI_API_KEY": broken}),
        refusal("openai:gpt-5", api_key=broken),
    ):
        assert re.match("(OPENAI_API_KEY|api_key) contains a line break", said)
        assert SECRET not in said
        assert "X-Other" not in said


# --- Addresses ----------------------------------------------------------------------------------


async def test_a_base_url_that_is_given_wins_over_the_environment() -> None:
    environ = {"OPENAI_BASE_URL": "https://one.example/v1"}
    caught = await first_request(
        "openai:m", environ, api_key="k", base_url="https://two.example/v1/"
    )
    assert caught.url.startswith("https://two.example/v1/")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://localhost:11434/v1/"),
        ("192.168.0.7", "http://192.168.0.7:11434/v1/"),
        ("gpu:9000", "http://gpu:9000/v1/"),
        (":9000", "http://localhost:9000/v1/"),
        ("[::1]:9000", "http://[::1]:9000/v1/"),
        ("https://ollama.example", "https://ollama.example/v1/"),
        ("http://gpu:9000/", "http://gpu:9000/v1/"),
    ],
)
async def test_where_ollama_listens_is_where_it_is_asked(host: str, url: str) -> None:
    assert (await first_request("ollama:qwen3", {"OLLAMA_HOST": host})).url.startswith(url)


async def test_the_api_of_a_local_server_is_found_on_a_bare_host() -> None:
    bare, whole = {"VLLM_BASE_URL": "http://gpu:8000"}, {"VLLM_BASE_URL": "http://gpu:8000/x"}
    assert (await first_request("vllm:m", bare)).url.startswith("http://gpu:8000/v1/")
    assert (await first_request("vllm:m", whole)).url.startswith("http://gpu:8000/x/")


@pytest.mark.parametrize(
    "endpoint",
    ["https://mine.openai.azure.com", "https://mine.openai.azure.com/openai/v1/"],
)
async def test_azure_is_asked_at_its_v1_address(endpoint: str) -> None:
    environ = {"AZURE_OPENAI_API_KEY": SECRET, "AZURE_OPENAI_ENDPOINT": endpoint}
    caught = await first_request("azure:my-deployment", environ)
    assert caught.url == "https://mine.openai.azure.com/openai/v1/responses"
    assert caught.headers["api-key"] == SECRET
    assert "authorization" not in caught.headers


def test_a_missing_base_url_names_its_variable() -> None:
    said = refusal("openai-compatible:m")
    assert "OPENAI_COMPATIBLE_BASE_URL (in a program: base_url=…)" in said
    said = refusal("azure:m", {"AZURE_OPENAI_API_KEY": SECRET})
    assert "set AZURE_BASE_URL or AZURE_OPENAI_ENDPOINT" in said


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000",
        "ftp://host/v1",
        "https://",
        "http://[::1/v1",
        "/v1",
        "http://gpu:http/v1",
        "http://gpu:99999/v1",
        "http://gpu:0/v1",
        "http://g pu/v1",
    ],
)
def test_what_is_no_address_is_refused_with_where_it_was_said(url: str) -> None:
    assert refusal("vllm:m", base_url=url).startswith("base_url is not an address")
    assert refusal("vllm:m", {"VLLM_BASE_URL": url}).startswith("VLLM_BASE_URL is not an address")
    assert usable_providers({"VLLM_BASE_URL": url}) == ()


def test_a_port_that_is_none_is_refused() -> None:
    assert refusal("ollama:m", {"OLLAMA_HOST": "gpu:http"}).startswith(
        "OLLAMA_HOST is not an address"
    )


async def test_extra_headers_are_sent() -> None:
    caught = await first_request("openrouter:m", {}, api_key="k", headers={"X-Title": "Mine"})
    assert caught.headers["x-title"] == "Mine"


# --- Names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("claude-opus-5-5", "anthropic:claude-opus-5-5"),
        ("gpt-5", "openai:gpt-5"),
        ("o3", "openai:o3"),
        ("gemini-2.5-pro", "google:gemini-2.5-pro"),
        ("grok-4.7", "xai:grok-4.7"),
        ("anthropic/claude-opus-5-5", "anthropic:claude-opus-5-5"),
        ("gemini/gemini-2.5-pro", "google:gemini-2.5-pro"),
    ],
)
def test_a_name_without_a_provider_is_refused_with_a_guess(name: str, meant: str) -> None:
    said = refusal(name)
    assert "names no provider" in said
    assert f"did you mean {meant!r}?" in said


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("antropic:claude-opus-5-5", "anthropic:claude-opus-5-5"),
        ("OpenAI:gpt-5", "openai:gpt-5"),
        ("gemini:gemini-2.5-pro", "google:gemini-2.5-pro"),
        ("openai_chat:gpt-5", "openai-chat:gpt-5"),
        ("llama3.3:70b", "ollama:llama3.3:70b"),
    ],
)
def test_an_unknown_provider_is_refused_with_the_nearest_and_all(name: str, meant: str) -> None:
    said = refusal(name)
    assert f"did you mean {meant!r}?" in said
    assert all(provider in said for provider in PROVIDERS)


@pytest.mark.parametrize("name", ["my-model", "nobody:my-model", "anthropic", ":m", ""])
def test_what_cannot_be_guessed_is_told_the_form(name: str) -> None:
    assert ":model'" in refusal(name)


def test_a_provider_that_is_gone_is_told_of() -> None:
    assert "GitHub Models ended" in refusal("github:openai/gpt-5")


def test_an_empty_model_is_refused_with_an_example() -> None:
    assert "such as 'anthropic:claude-" in refusal("anthropic: ", api_key=SECRET)
    assert "write 'vllm:model'" in refusal("vllm:")
    assert "no model's name has" in refusal("vllm:a\nb")


async def test_a_model_may_have_colons_and_slashes_in_its_name() -> None:
    resolved = model("ollama:hf.co/some/model:Q4_K_M", environ={})
    assert resolved.name == "ollama:hf.co/some/model:Q4_K_M"


# --- Profiles and options -----------------------------------------------------------------------


def window(made: Model) -> int | None:
    return made.window


def test_a_known_model_brings_its_profile() -> None:
    resolved = model("anthropic:claude-sonnet-4-5-20250929", api_key=SECRET, environ={})
    assert window(resolved) == lookup("anthropic", "claude-sonnet-4-5").window == 200_000


def test_what_is_known_can_be_replaced_or_changed() -> None:
    def made(profile: Profile | Mapping[str, Any] | None) -> Any:
        return model("openai:gpt-5", api_key=SECRET, environ={}, profile=profile)

    known = lookup("openai", "gpt-5")
    assert made(None).profile == known
    assert made(Profile(window=10)).profile == Profile(window=10)
    assert made(UNKNOWN).profile == UNKNOWN
    changed = made({"window": 32_768, "price": {"input": 1, "output": 2}}).profile
    assert (changed.window, changed.price) == (32_768, Price(1, 2))
    assert changed.efforts == known.efforts
    assert "a profile has no field windows" in refusal(
        "openai:gpt-5", api_key=SECRET, profile={"windows": 1}
    )


def test_options_go_to_the_class_that_has_them() -> None:
    model("openai:gpt-5", api_key=SECRET, environ={}, chain=True)
    said = refusal("anthropic:claude-opus-5-5", api_key=SECRET, chain=True)
    assert said.startswith("anthropic has no option chain: it takes betas")
    assert "no option provider" in refusal("openai:gpt-5", api_key=SECRET, provider="mine")


async def test_openai_is_asked_for_a_chat_as_it_wants_to_be() -> None:
    openai = await first_request("openai-chat:gpt-5.2", {"OPENAI_API_KEY": SECRET})
    other = await first_request("openai-compatible:m", {}, base_url="https://models.example/v1")
    assert openai.url == "https://api.openai.com/v1/chat/completions"
    assert openai.body["max_completion_tokens"] == other.body["max_tokens"] == 100
    compatible = await first_request("openai-chat:m", {}, api_key=SECRET, quirks=COMPATIBLE)
    assert compatible.body["max_tokens"] == 100


@pytest.mark.parametrize(
    "name",
    [
        "anthropic:claude-opus-5-5",
        "google:gemini-3.8-flash",
        "openai-chat:gpt-5.2",
        "openai:gpt-5.2",
    ],
)
async def test_an_answer_costs_what_the_profile_says(name: str) -> None:
    provider, _, id = name.partition(":")
    fake = FakeProvider(PROVIDERS[provider].protocol, [["Yes.", usage(input=1_000, output=50)]])
    resolved = model(name, environ=key_for(provider), http=fake)

    result = await Agent(model=resolved, effort="low").run("Is it so?")

    price = lookup(provider, id).price
    assert price is not None
    assert (result.text, fake.problems) == ("Yes.", [])
    assert result.summary.cost == pytest.approx((1_000 * price.input + 50 * price.output) / 1e6)


# --- Discovery ----------------------------------------------------------------------------------


def test_nobody_is_usable_without_an_environment() -> None:
    assert usable_providers({}) == ()
    assert usable_providers({"OPENAI_API_KEY": " ", "OLLAMA_HOST": ""}) == ()


def test_a_key_makes_a_provider_usable() -> None:
    (google,) = usable_providers({"GEMINI_API_KEY": SECRET})
    assert (google.name, google.variable) == ("google", "GEMINI_API_KEY")
    assert "google:gemini-2.5-pro" in google.models
    assert SECRET not in repr(google)


def test_a_local_server_is_usable_when_a_variable_says_where_it_is() -> None:
    (ollama,) = usable_providers({"OLLAMA_HOST": "gpu", "VLLM_API_KEY": SECRET})
    assert (ollama.name, ollama.variable, ollama.models) == ("ollama", "OLLAMA_HOST", ())


def test_a_provider_without_an_address_of_its_own_needs_one() -> None:
    assert usable_providers({"AZURE_OPENAI_API_KEY": SECRET}) == ()
    environ = {"AZURE_OPENAI_API_KEY": SECRET, "AZURE_OPENAI_ENDPOINT": "https://mine.example"}
    assert [found.name for found in usable_providers(environ)] == ["azure"]


def test_a_key_that_can_be_none_makes_nobody_usable() -> None:
    assert usable_providers({"OPENAI_API_KEY": f"{SECRET}\nmore"}) == ()


def test_an_address_that_is_none_makes_nobody_usable() -> None:
    assert usable_providers({"OLLAMA_BASE_URL": "gpu:11434"}) == ()
    assert usable_providers({"OPENAI_API_KEY": SECRET, "OPENAI_BASE_URL": "nowhere"}) == ()


def test_the_default_model_of_a_provider_has_a_profile() -> None:
    for name, facts in PROVIDERS.items():
        if facts.default:
            assert facts.default in models(name)
    assert all(PROVIDERS[name].default for name in ("anthropic", "openai", "google"))


@pytest.mark.parametrize(
    "environ", [{}, {"OPENAI_API_KEY": SECRET}, {"OLLAMA_HOST": "gpu", "GROQ_API_KEY": "a b"}]
)
def test_everybody_is_either_usable_or_not(environ: Mapping[str, str]) -> None:
    able = [one.name for one in usable_providers(environ)]
    others = [one.name for one in unusable_providers(environ)]
    assert sorted([*able, *others]) == sorted(PROVIDERS)


@pytest.mark.parametrize(
    ("environ", "provider", "remedy"),
    [
        ({}, "groq", "set GROQ_API_KEY"),
        ({}, "google", "set GOOGLE_API_KEY or GEMINI_API_KEY"),
        (
            {},
            "azure",
            "set AZURE_OPENAI_API_KEY, and AZURE_BASE_URL or AZURE_OPENAI_ENDPOINT",
        ),
        (
            {"AZURE_OPENAI_API_KEY": SECRET},
            "azure",
            "set AZURE_BASE_URL or AZURE_OPENAI_ENDPOINT",
        ),
        ({"AZURE_BASE_URL": "https://a.example"}, "azure", "set AZURE_OPENAI_API_KEY"),
        ({}, "openai-compatible", "set OPENAI_COMPATIBLE_BASE_URL"),
        (
            {},
            "vllm",
            "needs no key: expected at http://localhost:8000/v1; "
            "set VLLM_BASE_URL if it runs elsewhere, or to let the chats of a server use it",
        ),
    ],
)
def test_it_is_said_what_is_missing(environ: Mapping[str, str], provider: str, remedy: str) -> None:
    (found,) = [one for one in unusable_providers(environ) if one.name == provider]
    assert (found.remedy, found.broken) == (remedy, False)


@pytest.mark.parametrize(
    ("environ", "remedy"),
    [
        ({"GROQ_API_KEY": f"{SECRET} {SECRET}"}, "GROQ_API_KEY contains a line break"),
        ({"GROQ_BASE_URL": f"{SECRET}"}, "GROQ_BASE_URL is not an address"),
        (
            {"GROQ_API_KEY": "k", "GROQ_BASE_URL": f"https://me:{SECRET}@host/v1"},
            "GROQ_BASE_URL contains a user or a password",
        ),
    ],
)
def test_what_is_broken_is_said_and_not_shown(environ: Mapping[str, str], remedy: str) -> None:
    (found,) = [one for one in unusable_providers(environ) if one.broken]
    assert found.name == "groq"
    assert found.remedy.startswith(remedy)
    assert SECRET not in found.remedy


@pytest.mark.parametrize("provider", PROVIDERS)
def test_whoever_is_usable_can_be_made(provider: str) -> None:
    facts = PROVIDERS[provider]
    environ = {**key_for(provider), facts.urls[0]: "https://models.example"}
    found = {usable.name: usable for usable in usable_providers(environ)}
    for name in found[provider].models or (f"{provider}:some-model",):
        assert model(name, environ=environ).name == name


# --- What it costs ------------------------------------------------------------------------------


def test_importing_the_registry_imports_nothing_slow() -> None:
    program = "import holdfast.providers.model_factory, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    heavy = {"aiohttp", "asyncio", "ssl", "anyio", "pydantic", "jsonschema_rs"}
    assert not loaded & heavy
    assert not {name for name in loaded if name.startswith("holdfast.providers.openai")}


def test_no_signature_holds_the_environment() -> None:
    for function in (model, usable_providers):
        assert signature(function).parameters["environ"].default is None


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"api_key": 5}, "api_key is a int"),
        ({"base_url": 5}, "base_url is of type int"),
        ({"profile": [1]}, "use Profile"),
        ({"headers": ["a"]}, "headers are a list"),
    ],
)
def test_what_is_of_another_type_is_refused_with_advice(wrong: dict[str, Any], advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        model("openai:gpt-5", **{"api_key": "k", **wrong})


@pytest.mark.parametrize("name", ["bedrock:claude", "vertex:gemini", "cohere:command"])
def test_who_is_reached_over_the_bridge_is_told_so(name: str) -> None:
    with pytest.raises(ConfigError, match="bridge"):
        model(name, api_key="k")


def test_who_keeps_no_answers_cannot_be_asked_to_build_upon_them() -> None:
    with pytest.raises(ConfigError, match="leave chain out"):
        model("perplexity:sonar", api_key="k", chain=True)


@pytest.mark.parametrize("name", ["dmeo", "Demo", "demos"])
def test_whoever_nearly_says_demo_is_told_its_name(name: str) -> None:
    with pytest.raises(ConfigError, match="did you mean 'demo'"):
        model(name)


def test_a_provider_alone_is_a_model_that_is_missing() -> None:
    with pytest.raises(ConfigError, match="'anthropic' names no model: write 'anthropic:model'"):
        model("anthropic")
