"""What there is to choose from: agents, models, providers."""

from __future__ import annotations

from msgspec import Struct

from holdfast.agent import Agent
from holdfast.kernel.events import ActionKind
from holdfast.kernel.model import Effort
from holdfast.kernel.prepare import model_of
from holdfast.providers.registry import DEMO, unusable_providers, usable_providers
from holdfast.server.identity.secrets import configured
from holdfast.server.operation import Call, operation


class ToolShown(Struct, frozen=True):
    name: str
    description: str
    waits_for: ActionKind | None
    """Who carries it out, when that is somebody outside."""


class AgentShown(Struct, frozen=True):
    name: str
    model: str
    effort: Effort | None
    tools: tuple[ToolShown, ...]


class Agents(Struct, frozen=True):
    agents: tuple[AgentShown, ...]
    """The first answers chats that name none."""


@operation("GET", "/agents", "Who can answer")
async def list_agents(call: Call) -> Agents:
    return Agents(tuple(_agent(agent) for agent in call.server.host.agents.values()))


def _agent(agent: Agent) -> AgentShown:
    tools = tuple(
        ToolShown(tool.name, tool.spec.description, tool.action) for tool in agent.toolset.values()
    )
    return AgentShown(agent.name, model_of(agent).name, agent.effort, tools)


class ModelShown(Struct, frozen=True):
    name: str
    """As `model` of a chat or a message takes it."""
    provider: str
    used_by: tuple[str, ...]
    """The agents that have it when nothing else is said."""


class Models(Struct, frozen=True):
    models: tuple[ModelShown, ...]
    """Those that are known. A provider may have others, which can be named too."""


@operation("GET", "/models", "What can be asked")
async def list_models(call: Call) -> Models:
    used: dict[str, list[str]] = {}
    for agent in call.server.host.agents.values():
        used.setdefault(model_of(agent).name, []).append(agent.name)
    usable = [name for provider in usable_providers() for name in provider.models]
    names = dict.fromkeys((*used, *usable, DEMO))
    return Models(
        tuple(ModelShown(name, name.partition(":")[0], tuple(used.get(name, ()))) for name in names)
    )


class ProviderShown(Struct, frozen=True):
    name: str
    usable: bool
    remedy: str | None
    """What to do when it is not."""
    broken: bool = False
    """Whether something is set for it that cannot be right."""
    stored: bool = False
    """Whether a key for it is kept here."""


class Providers(Struct, frozen=True):
    providers: tuple[ProviderShown, ...]


@operation("GET", "/providers", "Who can be asked, and what is missing for the others")
async def list_providers(call: Call) -> Providers:
    kept = await call.server.db.read(configured)
    able = [
        ProviderShown(one.name, True, None, stored=one.name in kept) for one in usable_providers()
    ]
    others = [
        ProviderShown(one.name, False, one.remedy, one.broken, one.name in kept)
        for one in unusable_providers()
    ]
    return Providers(tuple(sorted((*able, *others), key=lambda one: one.name)))
