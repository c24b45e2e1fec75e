"""The catalog: agents, models and providers to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct, structs

from holdfast.agent import Agent
from holdfast.kernel.events import ActionKind
from holdfast.kernel.model import Effort
from holdfast.kernel.prepare import model_of, rules_of, window_of
from holdfast.kernel.tool import Effect, Tool
from holdfast.providers import model_factory, profile_lookup
from holdfast.providers.model_factory import (
    DEMO_NAME,
    UsableProvider,
    base_url_of,
    has_key,
    unusable_providers,
    usable_providers,
)
from holdfast.providers.profile import Family, Price, Profile
from holdfast.providers.provider_catalog import PROVIDERS
from holdfast.server.identity.encrypted_secrets import stored_at
from holdfast.server.operation import ApiCall, operation

# --- agents ---

Approval: TypeAlias = Literal["never", "ask", "depends"]
"""Whether a tool needs approval; `depends`: on its arguments."""


class CatalogTool(Struct, frozen=True):
    """A tool of an agent."""

    name: str
    description: str
    waits_for: ActionKind | None
    """What runs the tool, if that is outside the server."""
    effect: Effect
    """Effect of running it. `pure`: none. `idempotent`: the same if it is run again. `once`: never
    to be repeated. `commit`: a change of the chat itself."""
    approval: Approval
    """Whether approval is required before it runs. `depends`: on the arguments."""
    label: str
    """Text shown to people while it runs."""


class CatalogAgent(Struct, frozen=True):
    """An agent of the server."""

    name: str
    description: str
    """What it is for, in a sentence; may be empty."""
    model: str
    effort: Effort | None
    tools: tuple[CatalogTool, ...]
    provider_tools: tuple[str, ...]
    """Tools that the model's provider runs."""
    window: int | None
    """Context window of its model in tokens; None if unknown."""
    threshold: int | None
    """Percent of the window at which the conversation is summarized; None: never."""
    compacts_at: int | None
    """The threshold in tokens of its model, comparable with `context` of a chat."""


class AgentList(Struct, frozen=True):
    """The agents of the server."""

    agents: tuple[CatalogAgent, ...]
    """All agents; the first is the default for chats that name none."""


@operation("GET", "/agents", "List the agents")
async def list_agents(call: ApiCall) -> AgentList:
    return AgentList(tuple(_agent(agent) for agent in call.server.host.agents.values()))


def _agent(agent: Agent) -> CatalogAgent:
    window, threshold = window_of(agent, None), agent.policy.context.threshold
    return CatalogAgent(
        agent.name,
        agent.description,
        model_of(agent).name,
        agent.effort,
        tuple(_tool(tool) for tool in agent.toolset.values()),
        tuple(tool.name for tool in agent.provider_tools),
        window,
        threshold if threshold < 100 else None,
        rules_of(agent, window).limit,
    )


def _tool(tool: Tool) -> CatalogTool:
    approval: Approval = "depends" if callable(tool.approval) else tool.approval
    return CatalogTool(
        tool.name, tool.spec.description, tool.action, tool.effect, approval, tool.label
    )


# --- models ---


class CatalogModel(Struct, frozen=True):
    """A model. Facts that are not known are null."""

    name: str
    """Name, as used for `model` of a chat or a message."""
    provider: str
    used_by: tuple[str, ...]
    """Agents that use it by default."""
    window: int | None
    """Context window in tokens, including the answer."""
    max_output: int | None
    efforts: tuple[Effort, ...] | None
    """Levels of reasoning effort, lowest first; empty if it has none."""
    files: tuple[Family, ...] | None
    """Kinds of files it accepts besides text."""
    price: Price | None
    """US dollars per million tokens."""


class ModelList(Struct, frozen=True):
    """The models that can be used."""

    models: tuple[CatalogModel, ...]
    """Known models. A provider may have others, which can be used by name."""
    priced_on: str
    """Date of the prices."""


DEMO_PROFILE: Final = Profile(efforts=(), price=Price(0, 0))
"""Profile of the demo, which calls no provider."""


@operation("GET", "/models", "List the models that can be used")
async def list_models(call: ApiCall) -> ModelList:
    """The agents' own models first, then all known models of each usable provider."""
    users: dict[str, list[Agent]] = {}
    for agent in call.server.host.agents.values():
        users.setdefault(model_of(agent).name, []).append(agent)
    able = usable_providers(base_urls=call.server.base_urls)
    usable = [name for provider in able for name in provider.models]
    names = dict.fromkeys((*users, *usable, f"{DEMO_NAME}:{DEMO_NAME}"))
    models = tuple(_model(name, users.get(name, ())) for name in names)
    return ModelList(models, profile_lookup.profile_file().date)


def _model(name: str, users: Sequence[Agent]) -> CatalogModel:
    """A model as its first agent has it, if any does."""
    provider, _, id = name.partition(":")
    model = model_of(users[0]) if users else None
    profile = getattr(model, "profile", None)
    if not isinstance(profile, Profile):
        profile = DEMO_PROFILE if provider == DEMO_NAME else profile_lookup.lookup(provider, id)
    window = model_factory.model(DEMO_NAME).window if provider == DEMO_NAME else profile.window
    return CatalogModel(
        name=name,
        provider=provider,
        used_by=tuple(agent.name for agent in users),
        window=window if model is None else model.window,
        max_output=profile.max_output,
        efforts=profile.efforts,
        files=profile.files,
        price=profile.price,
    )


# --- providers ---


class CatalogProvider(Struct, frozen=True, kw_only=True):
    """A provider, and whether it can be used."""

    name: str
    usable: bool
    remedy: str | None
    """What to do if it is not usable."""
    broken: bool = False
    """Whether its configuration is invalid."""
    key: Literal["stored", "environment"] | None = None
    """Where its key comes from; a stored one takes precedence. None: it has none."""
    stored: bool = False
    """Whether a key for it is stored on this server."""
    stored_at: int | None = None
    needs_key: bool = True
    variables: tuple[str, ...]
    """Environment variables that its key is read from."""
    url: str | None
    """Base URL, from the settings, the environment or the provider's default. None: it has to be
    set."""
    default: str | None
    """Model to start with, as provider:model."""


class ProviderList(Struct, frozen=True):
    """The known providers."""

    providers: tuple[CatalogProvider, ...]
    can_store: bool
    """Whether this server can store keys: it has a key of its own to encrypt them with."""


@operation("GET", "/providers", "List the providers, and what the unusable ones lack")
async def list_providers(call: ApiCall) -> ProviderList:
    stored = await call.server.db.read(stored_at)
    base_urls = call.server.base_urls
    usable = {one.name: one for one in usable_providers(base_urls=base_urls)}
    others = {one.name: one for one in unusable_providers(base_urls=base_urls)}
    entries = []
    for name in sorted(PROVIDERS):
        url = base_url_of(name, base_urls.get(name))
        entry = _provider(name, stored.get(name), usable.get(name), url)
        if name in others:
            remedy = KEY_NOT_IN_USE_YET if name in stored else others[name].remedy
            entry = structs.replace(entry, remedy=remedy, broken=others[name].broken)
        entries.append(entry)
    return ProviderList(tuple(entries), call.server.access.keyring is not None)


KEY_NOT_IN_USE_YET: Final = (
    "a key is stored but not in use yet: wait a few seconds, or see the server's log"
)


def _provider(
    name: str, stored: int | None, usable: UsableProvider | None, url: str | None
) -> CatalogProvider:
    facts = PROVIDERS[name]
    source: Literal["stored", "environment"] | None = None
    if stored is not None:
        source = "stored"
    elif usable is not None and has_key(name):
        source = "environment"
    return CatalogProvider(
        name=name,
        usable=usable is not None,
        remedy=None,
        key=source,
        stored=stored is not None,
        stored_at=stored,
        needs_key=facts.needs_key,
        variables=facts.keys,
        url=url,
        default=f"{name}:{facts.default}" if facts.default else None,
    )
