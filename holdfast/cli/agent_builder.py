"""Builds one agent from its settings, which may change an agent written in Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from holdfast.agent import Agent
from holdfast.cli.agent_fields import ModelNames, check_names, field_values
from holdfast.cli.config_mistakes import Mistakes
from holdfast.cli.import_tools import load_tools
from holdfast.cli.server_models import ServerModels
from holdfast.cli.settings import AgentSettings
from holdfast.cli.user_modules import find_object
from holdfast.kernel.errors import ConfigError, NeedsKey
from holdfast.kernel.handoff import handoff
from holdfast.kernel.model import check_usable
from holdfast.kernel.suggest import no_agent

if TYPE_CHECKING:
    from holdfast.kernel.model import Model
    from holdfast.kernel.tool import Tool

T = TypeVar("T")
SERVER_INSTRUCTIONS: Final = """\
You are a helpful assistant. Be brief, and write Markdown.
When there are tools, look before you answer, and do what is asked instead of describing it.
Say at the end what you did and what is left to do."""
BUNDLED: Final = "bundled"
ONLY_BUNDLED: Final = ("dir", "approval", "pass_env")
"""Settings of the bundled tools."""


class BaseDirectories:
    """Base directories: for relative names in the settings, and for files we create."""

    def __init__(self, directory: str, data: str) -> None:
        self.directory = directory
        """Directory of the settings file."""
        self.data = data
        """The user's data directory."""

    def path(self, name: str) -> str:
        return os.path.join(self.directory, os.path.expanduser(name))

    def workspace(self) -> str:
        """Default directory of the tools: this one, unless it is the home directory or the root."""
        here = os.path.realpath(self.directory)
        if here not in (os.path.realpath(os.path.expanduser("~")), "/"):
            return here
        workspace = os.path.join(self.data, "workspace")
        os.makedirs(workspace, exist_ok=True)
        return workspace


class AgentSource(NamedTuple):
    """Name, settings and base of an agent to build."""

    name: str
    settings: AgentSettings
    base: Agent | None
    """The agent written in Python that the settings change."""
    agents: Mapping[str, str]
    """Names of all agents, with their descriptions: those that may be spawned."""
    in_table: bool
    """Whether the settings have a table of this agent."""


class AgentBuilder:
    """Builds one agent, piece by piece, so that all of its mistakes are found."""

    def __init__(
        self,
        source: AgentSource,
        models: ServerModels,
        directories: BaseDirectories,
        mistakes: Mistakes,
        keyless: Mistakes,
    ) -> None:
        self._source = source
        self._settings = source.settings
        self._base = source.base
        self._models = models
        self._directories = directories
        self._mistakes = mistakes
        self._keyless = keyless
        name = source.name
        self._where = f"agents.{name}" if source.in_table else f"agent {name}"

    def agent(self) -> Agent | None:
        before = len(self._mistakes), len(self._keyless)
        values = self._values()
        if (len(self._mistakes), len(self._keyless)) != before:
            return None
        made = self._mistakes.tried(self._where, lambda: self._made(values))
        if made is None:
            return None
        return self._try("model", lambda: self._keyed(lambda: _with_key(made)))

    def _made(self, values: Mapping[str, Any]) -> Agent:
        return Agent(**values) if self._base is None else self._base.replace(**values)

    def _values(self) -> dict[str, Any]:
        """The arguments of a new agent, or the changes of the one written in Python."""
        base, settings = self._base, self._settings
        values: dict[str, Any] = {"name": self._source.name, **self._of_fields()}
        if base is None and "model" not in values:
            values["model"] = self._try("model", lambda: self._keyed(self._models.default))
        if base is None or base.models is None:
            own = None if base is None else base.model
            values["models"] = partial(self._models.chosen, own)
        if settings.instructions_file is not None:
            values["instructions"] = self._try("instructions_file", self._instructions)
        elif base is None:
            values.setdefault("instructions", SERVER_INSTRUCTIONS)
        if (tools := self._tools()) is not None:
            values["tools"] = tools
        if settings.output is not None:
            values["output"] = self._try("output", self._output)
        return values

    def _of_fields(self) -> dict[str, Any]:
        fields = self._settings.fields
        return field_values(fields, Agent, self._base, self._where, self._model_of, self._mistakes)

    def _try(self, setting: str, make: Callable[[], T]) -> T | None:
        return self._mistakes.tried(self._named(setting), make)

    def _named(self, setting: str) -> str:
        """A setting for people; the agent itself if no settings mention it."""
        return f"{self._where}.{setting}" if self._source.in_table else self._where

    # --- models ---

    def _model_of(self, names: ModelNames) -> Model | None:
        return self._keyed(lambda: self._models.first_of(check_names(names)))

    def _keyed(self, make: Callable[[], T]) -> T | None:
        """The model, or the agent with it; None if it only lacks a key, which is noted."""
        try:
            return make()
        except NeedsKey as error:
            self._keyless.add(self._named("model"), str(error))
            return None

    # --- the rest ---

    def _instructions(self) -> str:
        path = self._directories.path(self._settings.instructions_file or "")
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{path} is not UTF-8 text") from None

    def _output(self) -> Any:
        """The output type: a JSON schema, or an object of a module."""
        output = self._settings.output
        if not isinstance(output, str):
            return output
        found = find_object(output, output, self._directories.directory, "app:Invoice")
        if found.value is None:
            raise ConfigError(f"{output}: {found.module.__name__} has no {found.name!r}")
        return found.value

    def _tools(self) -> list[Tool | Callable[..., Any]] | None:
        """The tools; None if those of the agent written in Python stay."""
        settings, base = self._settings, self._base
        specs = settings.tools
        if specs is None and base is None:
            specs = (BUNDLED,)
        if base is not None and BUNDLED not in (specs or ()):
            self._refuse_settings_of_bundled()
        others = settings.subagents or settings.handoffs or settings.more_tools
        if specs is None and not others:
            return None
        tools = list(base.tools) if specs is None and base is not None else []
        for spec in (*(specs or ()), *settings.more_tools):
            tools += self._tools_of(spec)
        return [*tools, *self._subagents(), *self._handoffs()]

    def _tools_of(self, spec: str) -> Sequence[Tool | Callable[..., Any]]:
        if spec == BUNDLED:
            return self._try("dir", self._bundled) or ()
        if spec == "ask_user":
            from holdfast.tools.ask_user import ask_user

            return (ask_user(),)
        return self._try("tools", partial(self._own, spec)) or ()

    def _own(self, spec: str) -> Sequence[Tool | Callable[..., Any]]:
        if ":" not in spec:
            raise ConfigError(
                f"{spec}: write bundled, ask_user, or module:name, as in mytools:weather"
            )
        return load_tools([spec], directory=self._directories.directory)

    def _bundled(self) -> Sequence[Tool]:
        from holdfast.tools import bundled

        named, directories = self._settings.dir, self._directories
        directory = directories.workspace() if named is None else directories.path(named)
        if not os.path.isdir(directory):
            raise ConfigError(f"{directory} is not a directory: create it, or name another")
        settings = self._settings
        return bundled(directory, approval=settings.approval, pass_env=settings.pass_env)

    def _refuse_settings_of_bundled(self) -> None:
        default = AgentSettings()
        for name in ONLY_BUNDLED:
            if getattr(self._settings, name) != getattr(default, name):
                self._mistakes.add(
                    f"{self._where}.{name}",
                    "only the bundled tools use this, and the agent has tools of its own: "
                    'add tools = ["bundled"], or leave it out',
                )

    def _subagents(self) -> Iterator[Tool]:
        from holdfast.tools.subagents import subagents

        if spawned := self._existing("subagents", self._settings.subagents):
            yield from subagents(spawned)

    def _handoffs(self) -> Iterator[Tool]:
        if targets := self._existing("handoffs", self._settings.handoffs):
            yield handoff(targets)

    def _existing(self, setting: str, names: Sequence[str]) -> Mapping[str, str]:
        """The names with the descriptions of these agents, if all exist."""
        agents = self._source.agents
        unknown = [name for name in names if name not in agents]
        for name in unknown:
            self._mistakes.add(f"{self._where}.{setting}", no_agent(name, agents))
        return {} if unknown else {name: agents[name] for name in names}


def _with_key(agent: Agent) -> Agent:
    """The agent; `NeedsKey` if its model was made without a key."""
    check_usable(agent.model)
    return agent
