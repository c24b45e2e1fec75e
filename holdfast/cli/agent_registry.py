"""The agents of a process: those of its settings, and those written in Python."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.agent import Agent
from holdfast.cli.agent_builder import AgentBuilder, AgentSource, BaseDirectories
from holdfast.cli.agent_fields import check_names
from holdfast.cli.config_mistakes import Mistakes
from holdfast.cli.python_agents import NotCalledYet, PythonAgents
from holdfast.cli.server_models import ServerModels, title_models
from holdfast.cli.settings import AgentSettings, HoldfastSettings
from holdfast.host import with_teams
from holdfast.kernel.errors import ConfigError, NeedsKey

if TYPE_CHECKING:
    from holdfast.kernel.model import Model

LOG: Final = logging.getLogger("holdfast.serve")
DEFAULT_AGENT: Final = "assistant"


class NamedInPython(NamedTuple):
    """Agents written in Python that are served without a table in the settings."""

    specs: tuple[str, ...] = ()
    """Each as `module:name`, found from the current directory."""
    given: tuple[Agent, ...] = ()
    """Agents of the program that serves them."""
    settings: AgentSettings = AgentSettings()
    """What the command line changes of them."""


class AgentSources(NamedTuple):
    """All that agents are built from."""

    settings: HoldfastSettings
    directories: BaseDirectories
    environ: Mapping[str, str]
    named: NamedInPython
    python: PythonAgents


async def complete_agents(
    settings: HoldfastSettings,
    directories: BaseDirectories,
    environ: Mapping[str, str],
    where: str = "the settings",
) -> Mapping[str, Agent]:
    """All agents of the settings, the default one first. Raises `ConfigError` with all mistakes."""
    mistakes = Mistakes(where)
    sources = AgentSources(settings, directories, environ, NamedInPython(), PythonAgents())
    registry = AgentRegistry(sources, mistakes)
    mistakes.end()
    await registry.complete()
    return registry.agents


def make_agents(sources: AgentSources, mistakes: Mistakes, keyless: Mistakes) -> list[Agent]:
    """The agents that can be built. Mistakes in the others go to `mistakes`.

    `keyless` collects what is not a mistake yet: models that only lack a key, which may be stored
    in the database, and agents of async functions, which need an event loop.
    """
    before, settings = len(keyless), sources.settings
    named = _named(sources, None if keyless is mistakes else keyless)
    tables = dict(_of_tables(sources, mistakes, keyless))
    if len(keyless) > before:  # agents without a name yet, which the settings may change
        return []
    bases, models = {**named, **tables}, ServerModels(settings, sources.environ)
    members = {one.name: one for one in with_teams(bases.values())}
    bases = {**members, **bases}
    names = [*dict.fromkeys((*named, *settings.agents, *members))] or [DEFAULT_AGENT]
    descriptions = {
        name: _description(settings.agents.get(name), bases.get(name)) for name in names
    }
    agents = []
    for name in names:
        own = settings.agents.get(name, sources.named.settings)
        in_table = name in settings.agents
        source = AgentSource(name, own, bases.get(name), descriptions, in_table)
        builder = AgentBuilder(source, models, sources.directories, mistakes, keyless)
        if own.python is None or name in tables:  # otherwise its module is the mistake
            agents.append(builder.agent())
    return [agent for agent in agents if agent is not None]


def _description(settings: AgentSettings | None, base: Agent | None) -> str:
    """What an agent is for: from its table, or else from Python."""
    written = None if settings is None else settings.fields.get("description")
    return str(written or ("" if base is None else base.description))


def _named(sources: AgentSources, keyless: Mistakes | None) -> dict[str, Agent]:
    """The agents of the program or of the command line, by name. Raises `ConfigError`.

    `keyless` collects what is not a mistake yet.
    """
    agents = list(sources.named.given)
    for spec in sources.named.specs:
        try:
            agents += sources.python.load(spec, "")
        except (NeedsKey, NotCalledYet) as error:
            if keyless is None:
                raise
            keyless.add(spec, str(error))
    found: dict[str, Agent] = {}
    for agent in agents:
        if found.get(agent.name, agent) is not agent:
            raise ConfigError(f"two agents are named {agent.name!r}: set another name=…")
        found[agent.name] = agent
    return found


def _of_tables(
    sources: AgentSources, mistakes: Mistakes, keyless: Mistakes
) -> Iterator[tuple[str, Agent]]:
    """The agents written in Python that tables of the settings name."""
    for name, agent in sources.settings.agents.items():
        if agent.python is None:
            continue
        setting = f"agents.{name}.python"
        try:
            several = sources.python.load(agent.python, sources.directories.directory)
            yield name, _one_of(several, agent.python, name)
        except (NeedsKey, NotCalledYet) as error:
            keyless.add(setting, str(error))
        except ConfigError as error:
            mistakes.add(setting, str(error))


def _one_of(agents: Sequence[Agent], spec: str, name: str) -> Agent:
    """The only agent, or the one of this name, with this name."""
    same = [agent for agent in agents if agent.name == name]
    if len(agents) > 1 and not same:
        listed = ", ".join(agent.name for agent in agents)
        raise ConfigError(
            f"{spec} has several agents ({listed}): give the table one of their names"
        )
    return (same or agents)[0].replace(name=name)


def make_title_model(sources: AgentSources, mistakes: Mistakes, keyless: Mistakes) -> Model | None:
    """The model that writes titles; None if each chat's own does, or none."""
    names = title_models(sources.settings)
    if isinstance(sources.settings.titles, bool):
        return None
    models = ServerModels(sources.settings, sources.environ)
    try:
        return models.first_of(check_names(names))
    except NeedsKey as error:
        keyless.add("titles", str(error))
    except ConfigError as error:
        mistakes.add("titles", str(error))
    return None


class AgentRegistry:
    """The agents of a process, rebuilt when a key is stored or removed."""

    def __init__(self, sources: AgentSources, mistakes: Mistakes) -> None:
        """Build the agents that need neither a stored key nor an event loop; `complete` builds the
        others."""
        keyless = Mistakes()
        self.sources = sources
        self._where = mistakes.where
        self.agents = {one.name: one for one in make_agents(sources, mistakes, keyless)}
        """Agents by name. The first is the default."""
        self._title_model = make_title_model(sources, mistakes, keyless)
        self._whole = len(keyless) == 0

    @property
    def titles(self) -> bool | Model:
        """Whether titles are written, or the model that writes them, for `serving`."""
        return self._title_model or bool(self.sources.settings.titles)

    async def complete(self) -> None:
        """Build the agents that need stored keys, now in the environment, or an event loop.

        Raises `ConfigError`.
        """
        if not self._whole:
            await self.sources.python.finish()
            self._make()

    def renew(self) -> None:
        """Rebuild the agents from the settings and the current environment.

        An agent written in Python keeps the model that it was made with.
        """
        try:
            self._make()
        except ConfigError as error:
            LOG.error("agents not rebuilt, the previous ones stay: %s", error)

    def _make(self) -> None:
        mistakes = Mistakes(self._where)
        agents = make_agents(self.sources, mistakes, mistakes)
        self._title_model = make_title_model(self.sources, mistakes, mistakes)
        mistakes.end()
        self.agents.clear()  # and not only updated, to keep the order of the settings
        self.agents.update((one.name, one) for one in agents)
        self._whole = True
