"""Resolves `provider:model` to a `Model`: its protocol, address and key.

Only this module reads the environment for that. Creating a model sends no request: whether the key
and the model are valid shows with the first answer. A missing key is found when the model is used,
or by `configured_model`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from holdfast.kernel.entry_point import entry_point
from holdfast.kernel.errors import ConfigError, NeedsKey, NotConfigured
from holdfast.kernel.keywords import suggestion
from holdfast.kernel.labelled_model import LabelledModel
from holdfast.kernel.messages import Value
from holdfast.kernel.model import Model
from holdfast.kernel.suggest import nearest
from holdfast.providers import profile_lookup
from holdfast.providers.deferred_model import UnkeyedModel
from holdfast.providers.endpoint import is_address
from holdfast.providers.profile import Profile
from holdfast.providers.provider_catalog import PROVIDERS, ProviderFacts, WireProtocol

if TYPE_CHECKING:
    from holdfast.providers.http import Http

COMMON_OPTIONS: Final = ("api_key", "base_url", "headers", "profile", "http", "label")
DEMO_NAME: Final = "demo"
"""Name of the demo model, the only one without a provider. It needs neither a key nor a network."""


@entry_point("model")
def model(
    name: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    profile: Profile | Mapping[str, Any] | None = None,
    http: Http | None = None,
    environ: Mapping[str, str] | None = None,
    label: str | None = None,
    **options: Any,
) -> Model:
    """Create the model that `provider:model` names.

    The key and the base URL come from the environment unless they are given. A missing one is
    looked for again when the model is first used, and is an error only then. `profile` replaces the
    known facts about the model, or some of them: `{"window": 32_768}`. `label` is added to its
    name, to tell it from others of the same name. `options` are those of the provider's own class,
    such as `chain` of `OpenAIResponses`. `demo` is a model that sends no requests.
    """
    make = partial(
        configured_model,
        name,
        api_key=api_key,
        base_url=base_url,
        headers=headers,
        profile=profile,
        http=http,
        environ=environ,
        **options,
    )
    made: Model
    try:
        made = make()
    except NotConfigured:
        made = UnkeyedModel(make)
    return made if label is None else LabelledModel(made, label)


def configured_model(
    name: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    profile: Profile | Mapping[str, Any] | None = None,
    http: Http | None = None,
    environ: Mapping[str, str] | None = None,
    **options: Any,
) -> Model:
    """The model of a name. `NotConfigured` if its key or address is missing."""
    if isinstance(name, str) and name.partition(":")[0].strip() == DEMO_NAME:
        options_without_use = {"api_key": api_key, "base_url": base_url, "headers": headers}
        return _demo(name, {**options_without_use, "profile": profile, "http": http}, options)
    # not as a default: help() would print the keys
    environ = os.environ if environ is None else environ
    facts, id = _parsed(name)
    make = _class_of(facts.protocol)
    _check_options(facts, make, options)
    if http is not None:
        options["http"] = http
    key = _key(facts, api_key, environ)
    if facts.key_header and key is not None:
        headers, key = {facts.key_header: key, **(headers or {})}, None
    return make(
        id,
        provider=facts.name,
        api_key=key,
        base_url=_base_url(facts, base_url, environ),
        headers=headers,
        profile=_profile(facts.name, id, profile),
        **options,
    )


def options_of(provider: str) -> tuple[str, ...]:
    """Names of the options that `model` accepts for a provider, except the key and `http`."""
    return (
        "base_url",
        "headers",
        "profile",
        *_own_options(_class_of(PROVIDERS[provider].protocol)),
    )


class UsableProvider(Value, frozen=True):
    """A provider that can be used, according to the environment."""

    name: str
    variable: str | None
    """Environment variable with its key or address; None if the address was given as an
    argument."""
    models: tuple[str, ...]
    """Names of its known models, as `model` takes them. There may be others."""


def usable_providers(
    environ: Mapping[str, str] | None = None, base_urls: Mapping[str, str] | None = None
) -> tuple[UsableProvider, ...]:
    """The providers that can be used with this environment. No request checks that.

    A local server counts only if something names its address. `base_urls`: base URLs by provider
    name, as they are given to `model`.
    """
    environ = os.environ if environ is None else environ
    usable = []
    for facts in PROVIDERS.values():
        base_url = (base_urls or {}).get(facts.name)
        if _is_usable(facts, environ, base_url):
            names = tuple(f"{facts.name}:{id}" for id in profile_lookup.models(facts.name))
            usable.append(UsableProvider(facts.name, _variable(facts, environ, base_url), names))
    return tuple(usable)


class UnusableProvider(Value, frozen=True):
    """A provider that cannot be used, or for which nothing is configured."""

    name: str
    remedy: str
    """What to do about it, for people: "set GROQ_API_KEY". Contains no key."""
    broken: bool = False
    """Whether its configuration is invalid, rather than missing."""


def unusable_providers(
    environ: Mapping[str, str] | None = None, base_urls: Mapping[str, str] | None = None
) -> tuple[UnusableProvider, ...]:
    """The providers that `usable_providers` leaves out, each with what to do about it."""
    environ = os.environ if environ is None else environ
    unusable = []
    for facts in PROVIDERS.values():
        base_url = (base_urls or {}).get(facts.name)
        if not _is_usable(facts, environ, base_url):
            broken = _misconfiguration(facts, environ, base_url)
            remedy = broken or _remedy(facts, environ, base_url)
            unusable.append(UnusableProvider(facts.name, remedy, broken is not None))
    return tuple(unusable)


def is_configured(
    provider: str, environ: Mapping[str, str] | None = None, base_url: str | None = None
) -> bool:
    """Whether there is a key for the provider, or an address where it needs no key."""
    return _is_usable(PROVIDERS[provider], os.environ if environ is None else environ, base_url)


def address_variables(provider: str) -> tuple[str, ...]:
    """Environment variables that may hold the provider's base URL, in order."""
    return PROVIDERS[provider].urls


def has_key(provider: str, environ: Mapping[str, str] | None = None) -> bool:
    """Whether the environment has a key for a provider, also if it needs none."""
    environ = os.environ if environ is None else environ
    return _first_set(environ, PROVIDERS[provider].keys) is not None


def base_url_of(
    provider: str, given: str | None = None, environ: Mapping[str, str] | None = None
) -> str | None:
    """Base URL of a provider, for people. None if there is none, or if it is not valid.

    Secrets in it are left out: a password, which no model accepts, and the query.
    """
    environ = os.environ if environ is None else environ
    try:
        parts = urlsplit(_address(PROVIDERS[provider], given, environ)[1])
    except ConfigError:
        return None
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="", fragment="").geturl()


def _misconfiguration(
    facts: ProviderFacts, environ: Mapping[str, str], base_url: str | None
) -> str | None:
    """Error in the configuration of a provider, or None."""
    try:
        if _first_set(environ, facts.keys):
            _key(facts, None, environ)
        if _has_address(facts, environ, base_url):
            _base_url(facts, base_url, environ)
    except ConfigError as error:
        return str(error)
    return None


def _remedy(facts: ProviderFacts, environ: Mapping[str, str], base_url: str | None) -> str:
    key, url = " or ".join(facts.keys), " or ".join(facts.urls)
    if facts.base_url is not None and not facts.needs_key:
        return (
            f"needs no key: expected at {facts.base_url}; set {url} if it runs elsewhere, "
            "or to let the chats of a server use it"
        )
    missing = [key] if facts.needs_key and _first_set(environ, facts.keys) is None else []
    if facts.base_url is None and not _has_address(facts, environ, base_url):
        missing.append(url)
    return f"set {', and '.join(missing)}"


def _is_usable(facts: ProviderFacts, environ: Mapping[str, str], base_url: str | None) -> bool:
    if _misconfiguration(facts, environ, base_url) is not None:
        return False
    is_placed = _has_address(facts, environ, base_url)
    if not facts.needs_key:
        return is_placed
    return (is_placed or facts.base_url is not None) and _first_set(environ, facts.keys) is not None


def _has_address(facts: ProviderFacts, environ: Mapping[str, str], base_url: str | None) -> bool:
    """Whether an address of the provider is configured."""
    return bool(base_url) or _first_set(environ, facts.urls) is not None


def _variable(facts: ProviderFacts, environ: Mapping[str, str], base_url: str | None) -> str | None:
    if base_url and not facts.needs_key:
        return None
    variable = _first_set(environ, facts.keys if facts.needs_key else facts.urls)
    return variable[0] if variable else None


# --- Names --------------------------------------------------------------------------------------

_PROVIDER_BY_PREFIX: Final = (
    ("claude", "anthropic"),
    ("gpt", "openai"),
    ("chatgpt", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("gemini", "google"),
    ("gemma", "google"),
    ("grok", "xai"),
    ("deepseek", "deepseek"),
    ("mistral", "mistral"),
    ("ministral", "mistral"),
    ("codestral", "mistral"),
    ("magistral", "mistral"),
    ("kimi", "moonshot"),
    ("llama", "ollama"),
    ("qwen", "ollama"),
)
"""Providers by the prefixes of their models' names. Used in error messages, never to choose one."""

_PROVIDER_ALIASES: Final = {
    "claude": "anthropic",
    "gemini": "google",
    "grok": "xai",
    "hf": "huggingface",
    "kimi": "moonshot",
    "llama.cpp": "llamacpp",
    "moonshotai": "moonshot",
    "x-ai": "xai",
}
"""Other names that people use for providers."""

_UNSUPPORTED_PROVIDERS: Final = {
    "github": "GitHub Models ended on 30 July 2026",
    **dict.fromkeys(
        ("aws", "bedrock", "cohere", "google-vertex", "vertex", "vertexai"),
        "use the bridge to pydantic-ai, see docs/bridge.md",
    ),
}
"""Providers that are not supported directly, and what to tell people about them."""


def _parsed(name: str) -> tuple[ProviderFacts, str]:
    if not isinstance(name, str):
        raise ConfigError(f"the name of a model is text, not {name!r}: use 'provider:model'")
    provider, colon, id = (part.strip() for part in name.partition(":"))
    facts = PROVIDERS.get(provider)
    if not colon and facts is None:
        raise ConfigError(f"{name!r} names no provider: {_suggestion(name)}")
    if facts is None:
        names = ", ".join((*PROVIDERS, DEMO_NAME))
        why = _UNSUPPORTED_PROVIDERS.get(provider.lower()) or _suggestion(name)
        raise ConfigError(f"there is no provider {provider!r}: {why} (the known ones are {names})")
    if not id:
        names = "".join(
            f", such as '{provider}:{one}'" for one in profile_lookup.models(provider)[:1]
        )
        raise ConfigError(f"{name!r} names no model: write '{provider}:model'{names}")
    if not id.isprintable():
        raise ConfigError(f"{name!r} contains a character that no model's name has")
    return facts, id


def _suggestion(name: str) -> str:
    """A sentence that suggests what an invalid name was meant to be."""
    if nearest(name, [DEMO_NAME], 0.75):
        return f"did you mean {DEMO_NAME!r}?"
    provider, _, id = name.partition(":" if ":" in name else "/")
    near = _PROVIDER_ALIASES.get(provider.lower()) or nearest(provider, PROVIDERS, 0.75)
    if near and id:
        return f"did you mean {f'{near}:{id}'!r}?"
    for beginning, maker in _PROVIDER_BY_PREFIX:
        if name.lower().startswith(beginning):
            return f"did you mean {f'{maker}:{name}'!r}?"
    return "write 'provider:model', such as 'anthropic:claude-opus-5-5'"


# --- The key and the address --------------------------------------------------------------------


def _first_set(environ: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str] | None:
    """The first of these variables that is set and not empty, with its value."""
    for name in names:
        value = environ.get(name, "").strip()
        if value:
            return name, value
    return None


def _key(facts: ProviderFacts, given: str | None, environ: Mapping[str, str]) -> str | None:
    if not isinstance(given, str | None):
        raise ConfigError(f"api_key is a {type(given).__name__}: use text")
    given = (given or "").strip()
    source, key = ("api_key", given) if given else _first_set(environ, facts.keys) or ("", "")
    if _is_broken(key):
        raise ConfigError(
            f"{source} contains a line break, a blank or another character that no key has: "
            "was something else copied along with it?"  # the value is not shown
        )
    if not key and facts.needs_key:
        variables = " or ".join(facts.keys)
        raise NeedsKey(f"{facts.name} needs a key: set {variables} (in a program: api_key=…)")
    return key or None


def _is_broken(key: str) -> bool:
    """Whether a text cannot be a key. It would become part of a header."""
    return not (key.isascii() and key.isprintable()) or " " in key


def _base_url(facts: ProviderFacts, given: str | None, environ: Mapping[str, str]) -> str:
    source, url = _address(facts, given, environ)
    if "@" in urlsplit(url).netloc:
        raise ConfigError(
            f"{source} contains a user or a password: leave it out "
            "(in a program: headers={'Authorization': …})"
        )
    return url


def _address(
    facts: ProviderFacts, given: str | None, environ: Mapping[str, str]
) -> tuple[str, str]:
    """The source of the base URL, for error messages, and the URL."""
    if not isinstance(given, str | None):
        raise ConfigError(
            f"base_url is of type {type(given).__name__}: use text, as in https://host/path"
        )
    given = (given or "").strip()
    source, url = ("base_url", given) if given else _first_set(environ, facts.urls) or ("", "")
    if not url:
        if facts.base_url is None:
            variables = " or ".join(facts.urls)
            raise NotConfigured(
                f"{facts.name} has no address: set {variables} (in a program: base_url=…)"
            )
        return "", facts.base_url
    try:
        url = _reachable_url(url) if source == "OLLAMA_HOST" else url
    except ValueError:  # a port that is not a number, a bracket that is not closed
        url = ""
    if not is_address(url):
        raise ConfigError(f"{source} is not an address: use http(s)://host/path")
    parts = urlsplit(url)
    return source, parts._replace(path=parts.path.rstrip("/") or facts.path).geturl()


def _reachable_url(host: str) -> str:
    """URL of a server that listens at this address: `0.0.0.0`, `host:port` or a whole URL."""
    if "://" in host:
        return host
    parts = urlsplit(f"//{host}")
    name = parts.hostname or "localhost"
    if name in ("0.0.0.0", "::"):  # every address of this machine
        name = "localhost"
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{parts.port or 11434}{parts.path}"


def _profile(provider: str, id: str, profile: Profile | Mapping[str, Any] | None) -> Profile:
    if isinstance(profile, Profile):
        return profile
    if not isinstance(profile, Mapping | None):
        raise ConfigError(
            f"profile is {profile!r}: use Profile(…), or a dict with the fields that differ"
        )
    listed = profile_lookup.lookup(provider, id)
    return profile_lookup.with_changes(listed, profile) if profile else listed


# --- Making one ---------------------------------------------------------------------------------


def _class_of(protocol: WireProtocol) -> Callable[..., Model]:
    """The class of a protocol. Imported on demand: using one provider loads the code of one."""
    match protocol:
        case "anthropic":
            from holdfast.providers.anthropic import Anthropic

            return Anthropic
        case "google":
            from holdfast.providers.google import Google

            return Google
        case "openai_chat":
            from holdfast.providers.openai_chat import OpenAIChat

            return OpenAIChat
        case "openai_responses":
            from holdfast.providers.openai_responses import OpenAIResponses

            return OpenAIResponses


def _demo(name: str, options_without_use: Mapping[str, Any], options: Mapping[str, Any]) -> Model:
    from holdfast.providers.demo import Demo

    _, colon, id = name.partition(":")
    if colon and id.strip() != DEMO_NAME:
        raise ConfigError(f"there is no model {name!r}: write {DEMO_NAME!r}")
    useless = [option for option, value in options_without_use.items() if value is not None]
    if useless:
        raise ConfigError(f"{DEMO_NAME} sends no requests: leave {', '.join(useless)} out")
    _refuse_unknown(DEMO_NAME, Demo, options)
    return Demo(**options)


def _check_options(
    facts: ProviderFacts, make: Callable[..., Model], options: Mapping[str, Any]
) -> None:
    if not options:
        return
    responses = facts.protocol == "openai_responses"
    if responses and options.get("chain") and facts.name not in ("openai", "azure"):
        raise ConfigError(f"{facts.name} does not store answers: leave chain out")
    _refuse_unknown(facts.name, make, options)


def _refuse_unknown(provider: str, make: Callable[..., Model], options: Mapping[str, Any]) -> None:
    supported = _own_options(make)
    unknown = [name for name in options if name not in supported]
    if unknown:
        takes = f"it takes {', '.join(supported)}" if supported else "it takes none of its own"
        hint = suggestion("model", unknown[0], (*supported, *COMMON_OPTIONS)) or takes
        raise ConfigError(f"{provider} has no option {', '.join(unknown)}: {hint}")


def _own_options(make: Callable[..., Model]) -> list[str]:
    """Names of the options of a provider's class that `model` itself does not have."""
    from inspect import signature

    ours = {"model", "provider", *signature(model).parameters}
    return [name for name in signature(make).parameters if name not in ours]
