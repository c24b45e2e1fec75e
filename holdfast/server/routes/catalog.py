"""What there is to choose from: agents, models, providers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct, structs

from holdfast.agent import Agent
from holdfast.kernel.events import ActionKind
from holdfast.kernel.model import Effort
from holdfast.kernel.prepare import model_of, rules_of, window_of
from holdfast.kernel.tool import Effect, Tool
from holdfast.providers import profiles, registry
from holdfast.providers.known import PROVIDERS
from holdfast.providers.profile import Family, Price, Profile
from holdfast.providers.registry import (
    DEMO,
    UsableProvider,
    base_url_of,
    has_key,
    unusable_providers,
    usable_providers,
)
from holdfast.server.identity.secrets import stored_at
from holdfast.server.operation import Call, operation

# --- agents ---

Approval: TypeAlias = Literal["never", "ask", "depends"]


class ToolShown(Struct, frozen=True):
    name: str
    description: str
    waits_for: ActionKind | None
    """Who carries it out, when that is somebody outside."""
    effect: Effect
    """What running it does. `pure`: nothing. `idempotent`: something, and the same when it is run
    again. `once`: something that is never done twice. `commit`: something in the chat itself."""
    approval: Approval
    """Whether a person is asked before it runs. `depends`: on the arguments."""
    label: str
    """What people are shown while it runs."""


class AgentShown(Struct, frozen=True):
    name: str
    model: str
    effort: Effort | None
    tools: tuple[ToolShown, ...]
    provider_tools: tuple[str, ...]
    """Tools that the model's provider has and runs."""
    window: int | None
    """Tokens that fit into its own model; None when nobody knows."""
    threshold: int | None
    """Percent of the window at which the conversation is summarized; None when it never is."""
    compacts_at: int | None
    """The same in tokens of its own model, to be compared with `context` of a chat."""


class Agents(Struct, frozen=True):
    agents: tuple[AgentShown, ...]
    """The first answers chats that name none."""


@operation("GET", "/agents", "Who can answer")
async def list_agents(call: Call) -> Agents:
    return Agents(tuple(_agent(agent) for agent in call.server.host.agents.values()))


def _agent(agent: Agent) -> AgentShown:
    window, threshold = window_of(agent, None), agent.policy.context.threshold
    return AgentShown(
        agent.name,
        model_of(agent).name,
        agent.effort,
        tuple(_tool(tool) for tool in agent.toolset.values()),
        tuple(tool.name for tool in agent.provider_tools),
        window,
        threshold if threshold < 100 else None,
        rules_of(agent, window).limit,
    )


def _tool(tool: Tool) -> ToolShown:
    approval: Approval = "depends" if callable(tool.approval) else tool.approval
    return ToolShown(
        tool.name, tool.spec.description, tool.action, tool.effect, approval, tool.label
    )


# --- models ---


class ModelShown(Struct, frozen=True):
    """What is not known of a model is null."""

    name: str
    """As `model` of a chat or a message takes it."""
    provider: str
    used_by: tuple[str, ...]
    """The agents that have it when nothing else is said."""
    window: int | None
    """Tokens that fit, the answer included."""
    max_output: int | None
    efforts: tuple[Effort, ...] | None
    """How hard it can be told to think, from the least to the most; empty when it cannot be."""
    files: tuple[Family, ...] | None
    """What it takes beside text."""
    price: Price | None
    """US dollars for a million tokens."""


class Models(Struct, frozen=True):
    models: tuple[ModelShown, ...]
    """Those that are known. A provider may have others, which can be named too."""
    priced_on: str
    """The day on which the prices were true."""


FREE: Final = Profile(efforts=(), price=Price(0, 0))
"""Of the demo, which asks nobody."""


@operation("GET", "/models", "What can be asked")
async def list_models(call: Call) -> Models:
    """The agents' own first, then all that are known of each provider that can be asked."""
    users: dict[str, list[Agent]] = {}
    for agent in call.server.host.agents.values():
        users.setdefault(model_of(agent).name, []).append(agent)
    able = usable_providers(base_urls=call.server.base_urls)
    usable = [name for provider in able for name in provider.models]
    names = dict.fromkeys((*users, *usable, f"{DEMO}:{DEMO}"))
    shown = tuple(_model(name, users.get(name, ())) for name in names)
    return Models(shown, profiles.facts().date)


def _model(name: str, users: Sequence[Agent]) -> ModelShown:
    """As its first user has it, where there is one."""
    provider, _, id = name.partition(":")
    model = model_of(users[0]) if users else None
    profile = getattr(model, "profile", None)
    if not isinstance(profile, Profile):
        profile = FREE if provider == DEMO else profiles.lookup(provider, id)
    window = registry.model(DEMO).window if provider == DEMO else profile.window
    return ModelShown(
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


class ProviderShown(Struct, frozen=True, kw_only=True):
    name: str
    usable: bool
    remedy: str | None
    """What to do when it is not."""
    broken: bool = False
    """Whether something is set for it that cannot be right."""
    key: Literal["stored", "environment"] | None = None
    """Where its key comes from; one that is stored goes first. None: there is none."""
    stored: bool = False
    """Whether a key for it is kept here."""
    stored_at: int | None = None
    needs_key: bool = True
    variables: tuple[str, ...]
    """Of the environment, that its key is looked for in."""
    url: str | None
    """Where it is asked: as the settings or the environment say, or else at its own address. None:
    they have to say it."""
    default: str | None
    """The model to begin with, as provider:model."""


class Providers(Struct, frozen=True):
    providers: tuple[ProviderShown, ...]
    can_store: bool
    """Whether this server can keep keys: it has a key of its own to encrypt them with."""


@operation("GET", "/providers", "Who can be asked, and what is missing for the others")
async def list_providers(call: Call) -> Providers:
    kept = await call.server.db.read(stored_at)
    base_urls = call.server.base_urls
    usable = {one.name: one for one in usable_providers(base_urls=base_urls)}
    others = {one.name: one for one in unusable_providers(base_urls=base_urls)}
    shown = []
    for name in sorted(PROVIDERS):
        url = base_url_of(name, base_urls.get(name))
        made = _provider(name, kept.get(name), usable.get(name), url)
        if name in others:
            remedy = STORED if name in kept else others[name].remedy
            made = structs.replace(made, remedy=remedy, broken=others[name].broken)
        shown.append(made)
    return Providers(tuple(shown), call.server.access.keyring is not None)


STORED: Final = "a key is stored and not in use: wait a few seconds, or see why in the server's log"


def _provider(
    name: str, kept: int | None, usable: UsableProvider | None, url: str | None
) -> ProviderShown:
    facts = PROVIDERS[name]
    source: Literal["stored", "environment"] | None = None
    if kept is not None:
        source = "stored"
    elif usable is not None and has_key(name):
        source = "environment"
    return ProviderShown(
        name=name,
        usable=usable is not None,
        remedy=None,
        key=source,
        stored=kept is not None,
        stored_at=kept,
        needs_key=facts.needs_key,
        variables=facts.keys,
        url=url,
        default=f"{name}:{facts.default}" if facts.default else None,
    )
