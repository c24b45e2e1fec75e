"""Builds the agents of a server from its settings."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.agent import Agent
from holdfast.cli.import_tools import load_tools
from holdfast.cli.settings import AgentSettings, HoldfastSettings, Mistakes, base_urls_of
from holdfast.config import default_model
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.policy import Policy

if TYPE_CHECKING:
    from holdfast.kernel.model import Model
    from holdfast.kernel.tool import Tool

LOG: Final = logging.getLogger("holdfast.serve")
T = TypeVar("T")
DEFAULT_AGENT: Final = "assistant"
SERVER_INSTRUCTIONS: Final = """\
You are a helpful assistant. Be brief, and write Markdown.
When there are tools, look before you answer, and do what is asked instead of describing it.
Say at the end what you did and what is left to do."""


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


def agents_of(
    settings: HoldfastSettings,
    directories: BaseDirectories,
    environ: Mapping[str, str],
    where: str = "the settings",
) -> list[Agent]:
    """All agents, the default one first. Raises `ConfigError` with all mistakes at once."""
    mistakes = Mistakes(where)
    agents = make_agents(settings, directories, environ, mistakes)
    mistakes.end()
    return agents


def make_agents(
    settings: HoldfastSettings,
    directories: BaseDirectories,
    environ: Mapping[str, str],
    mistakes: Mistakes,
    keyless: Mistakes | None = None,
) -> list[Agent]:
    """The agents that can be built. Mistakes in the others go to `mistakes`.

    `keyless` collects models that only lack a key, where that is not a mistake yet.
    """
    named = settings.agents or {DEFAULT_AGENT: AgentSettings()}
    both = mistakes, mistakes if keyless is None else keyless
    agents = [AgentBuilder(name, settings, directories, *both).agent(environ) for name in named]
    return [agent for agent in agents if agent is not None]


class AgentRegistry:
    """The agents of a process, rebuilt when a key is stored or removed."""

    def __init__(
        self,
        settings: HoldfastSettings,
        directories: BaseDirectories,
        environ: Mapping[str, str],
        mistakes: Mistakes,
    ) -> None:
        """Build the agents that need no stored key; `complete` builds the others."""
        keyless = Mistakes()
        agents = make_agents(settings, directories, environ, mistakes, keyless)
        self.agents = {one.name: one for one in agents}
        """Agents by name. The first is the default."""
        self._whole = len(keyless) == 0
        self._sources = settings, directories, environ, mistakes.where

    def complete(self) -> None:
        """Build the agents that need stored keys, now in the environment. Raises `ConfigError`."""
        if not self._whole:
            self._make()

    def renew(self) -> None:
        """Rebuild the agents from the settings and the current environment."""
        try:
            self._make()
        except ConfigError as error:
            LOG.error("agents not rebuilt, the previous ones stay: %s", error)

    def _make(self) -> None:
        agents = agents_of(*self._sources)
        self.agents.clear()  # and not only updated, to keep the order of the settings
        self.agents.update((one.name, one) for one in agents)
        self._whole = True


class AgentBuilder:
    """Builds one agent, piece by piece, so that all of its mistakes are found."""

    def __init__(
        self,
        name: str,
        whole: HoldfastSettings,
        directories: BaseDirectories,
        mistakes: Mistakes,
        keyless: Mistakes,
    ) -> None:
        self._name = name
        self._whole = whole
        self._settings = whole.agents.get(name) or AgentSettings()
        self._directories = directories
        self._mistakes = mistakes
        self._keyless = keyless

    def agent(self, environ: Mapping[str, str]) -> Agent | None:
        before = len(self._mistakes)
        models = partial(self._chosen, environ)
        model = self._try("model", lambda: self._keyed(environ))
        instructions = self._try("instructions_file", self._instructions)
        tools = self._tools()
        policy = self._try("max_steps", lambda: _policy(self._settings.max_steps))
        if model is None or instructions is None or policy is None:
            return None
        if len(self._mistakes) > before:  # in its tools
            return None
        return self._mistakes.tried(
            f"agents.{self._name}",
            lambda: Agent(
                name=self._name,
                model=model,
                models=models,
                instructions=instructions,
                tools=tools,
                effort=self._settings.effort,
                policy=policy,
            ),
        )

    def _try(self, setting: str, make: Callable[[], T]) -> T | None:
        return self._mistakes.tried(f"agents.{self._name}.{setting}", make)

    def _keyed(self, environ: Mapping[str, str]) -> Model | None:
        from holdfast.providers.model_factory import NeedsKey

        try:
            return self._model(environ)
        except NeedsKey as error:
            self._keyless.add(f"agents.{self._name}.model", str(error))
            return None

    def _model(self, environ: Mapping[str, str]) -> Model:
        if self._settings.model is not None:
            return self._named(environ, self._settings.model)
        name, reason = default_model(environ, base_urls_of(self._whole))
        try:
            return self._named(environ, name)
        except ConfigError as error:
            raise type(error)(f"{error} ({reason})") from None

    def _named(self, environ: Mapping[str, str], name: str) -> Model:
        """The model of this name, with the provider options of the settings."""
        from holdfast.providers.model_factory import model

        options = self._whole.providers.get(provider_of(name), {})
        return model(name, environ=environ, **options)

    def _chosen(self, environ: Mapping[str, str], name: str) -> Model:
        """The model named by a chat. Its provider has to be configured on this server.

        A local provider needs no key and has a default address: naming it would be enough to make
        the server send requests to a port of its own machine.
        """
        from holdfast.providers.model_factory import DEMO_NAME, address_variables, is_configured

        model = self._named(environ, name)  # raises for an unknown name or a missing key
        provider = provider_of(name)
        if provider == DEMO_NAME or provider in providers_named(self._whole, environ):
            return model
        if not is_configured(provider, environ):
            variables = " or ".join(address_variables(provider))
            raise ConfigError(
                f"{provider} is not configured on this server: set {variables}, "
                f"or base_url in [providers.{provider}] of the settings"
            )
        return model

    def _instructions(self) -> str:
        settings = self._settings
        if settings.instructions_file is None:
            return SERVER_INSTRUCTIONS if settings.instructions is None else settings.instructions
        path = self._directories.path(settings.instructions_file)
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{path} is not UTF-8 text") from None

    def _tools(self) -> list[Tool | Callable[..., Any]]:
        tools: list[Tool | Callable[..., Any]] = []
        for spec in self._settings.tools:
            if spec == "bundled":
                tools += self._try("dir", self._bundled) or ()
            elif spec == "ask_user":
                from holdfast.tools.ask_user import ask_user

                tools.append(ask_user())
            else:
                tools += self._try("tools", partial(self._own, spec)) or ()
        return tools

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


def provider_of(model: str) -> str:
    return model.partition(":")[0].strip()


def providers_named(settings: HoldfastSettings, environ: Mapping[str, str]) -> frozenset[str]:
    """Providers named by the settings or the default model, and configured by that alone."""
    models = [one.model for one in settings.agents.values() if one.model is not None]
    models.append(environ.get("HOLDFAST_MODEL", ""))
    return frozenset((*settings.providers, *map(provider_of, models)))


def _policy(max_steps: int | None) -> Policy:
    return Policy() if max_steps is None else Policy(max_steps=max_steps)
