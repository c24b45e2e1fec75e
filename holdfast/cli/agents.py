"""The agents that a server has, as its settings name them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.agent import Agent
from holdfast.cli.load import load_tools
from holdfast.cli.settings import AgentSettings, Mistakes, Settings, base_urls_of
from holdfast.config import default_model
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.policy import Policy

if TYPE_CHECKING:
    from holdfast.kernel.model import Model
    from holdfast.kernel.tool import Tool

LOG: Final = logging.getLogger("holdfast.serve")
T = TypeVar("T")
DEFAULT: Final = "assistant"
INSTRUCTIONS: Final = """\
You are a helpful assistant. Be brief, and write Markdown.
When there are tools, look before you answer, and do what is asked instead of describing it.
Say at the end what you did and what is left to do."""


class Place:
    """Where relative names in the settings are looked for, and where files may be put."""

    def __init__(self, directory: str, data: str) -> None:
        self.directory = directory
        """Of the file with the settings."""
        self.data = data
        """This user's own."""

    def path(self, name: str) -> str:
        return os.path.join(self.directory, os.path.expanduser(name))

    def workspace(self) -> str:
        """Where tools work when nobody says so: here, unless here is a home or everything."""
        here = os.path.realpath(self.directory)
        if here not in (os.path.realpath(os.path.expanduser("~")), "/"):
            return here
        made = os.path.join(self.data, "workspace")
        os.makedirs(made, exist_ok=True)
        return made


def agents_of(
    settings: Settings,
    place: Place,
    environ: Mapping[str, str],
    where: str = "the settings",
) -> list[Agent]:
    """Each of them, the first being who answers by default. Everything wrong is said at once."""
    mistakes = Mistakes(where)
    made = make_agents(settings, place, environ, mistakes)
    mistakes.end()
    return made


def make_agents(
    settings: Settings,
    place: Place,
    environ: Mapping[str, str],
    mistakes: Mistakes,
    keyless: Mistakes | None = None,
) -> list[Agent]:
    """Those that can be made. What is wrong with the others goes to `mistakes`.

    `keyless` is told of models that lack nothing but a key, where that is no mistake yet.
    """
    named = settings.agents or {DEFAULT: AgentSettings()}
    both = mistakes, mistakes if keyless is None else keyless
    made = [Making(name, settings, place, *both).agent(environ) for name in named]
    return [agent for agent in made if agent is not None]


class Crew:
    """The agents of a process. Others take their places when a key is stored or removed."""

    def __init__(
        self, settings: Settings, place: Place, environ: Mapping[str, str], mistakes: Mistakes
    ) -> None:
        """Not all of them yet: the key of some may be one that is stored."""
        keyless = Mistakes()
        made = make_agents(settings, place, environ, mistakes, keyless)
        self.agents = {one.name: one for one in made}
        """By name. The first one answers when none is named."""
        self._whole = len(keyless) == 0
        self._made_of = settings, place, environ, mistakes.where

    def complete(self) -> None:
        """Have all of them, now that stored keys are in the environment. Raises `ConfigError`."""
        if not self._whole:
            self._make()

    def renew(self) -> None:
        """Have them be as settings and environment say now."""
        try:
            self._make()
        except ConfigError as error:
            LOG.error("the agents stay as they were: %s", error)

    def _make(self) -> None:
        made = agents_of(*self._made_of)
        self.agents.clear()  # and not only updated, so that they stand as in the settings
        self.agents.update((one.name, one) for one in made)
        self._whole = True


class Making:
    """One agent, piece by piece, so that all of its mistakes are found."""

    def __init__(
        self, name: str, whole: Settings, place: Place, mistakes: Mistakes, keyless: Mistakes
    ) -> None:
        self._name = name
        self._whole = whole
        self._settings = whole.agents.get(name) or AgentSettings()
        self._place = place
        self._mistakes = mistakes
        self._keyless = keyless

    def agent(self, environ: Mapping[str, str]) -> Agent | None:
        before = len(self._mistakes)
        models = partial(self._named, environ)
        model = self._try("model", lambda: self._keyed(environ))
        instructions = self._try("instructions_file", self._instructions)
        tools = self._tools()
        policy = self._try("max_steps", lambda: _policy(self._settings.max_steps))
        if model is None or instructions is None or policy is None:
            return None
        if len(self._mistakes) > before:  # of its tools
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
        from holdfast.providers.registry import NeedsKey

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
        """The model of this name, asked as the settings say: also one that a chat names later."""
        from holdfast.providers.registry import model

        options = self._whole.providers.get(name.partition(":")[0].strip(), {})
        return model(name, environ=environ, **options)

    def _instructions(self) -> str:
        settings = self._settings
        if settings.instructions_file is None:
            return INSTRUCTIONS if settings.instructions is None else settings.instructions
        path = self._place.path(settings.instructions_file)
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{path} is no UTF-8 text") from None

    def _tools(self) -> list[Tool | Callable[..., Any]]:
        made: list[Tool | Callable[..., Any]] = []
        for spec in self._settings.tools:
            if spec == "bundled":
                made += self._try("dir", self._bundled) or ()
            elif spec == "ask_user":
                from holdfast.tools.ask_user import ask_user

                made.append(ask_user())
            else:
                made += self._try("tools", partial(self._own, spec)) or ()
        return made

    def _own(self, spec: str) -> Sequence[Tool | Callable[..., Any]]:
        if ":" not in spec:
            raise ConfigError(
                f"{spec}: write bundled, ask_user, or module:name, as in mytools:weather"
            )
        return load_tools([spec], directory=self._place.directory)

    def _bundled(self) -> Sequence[Tool]:
        from holdfast.tools import bundled

        named = self._settings.dir
        directory = self._place.workspace() if named is None else self._place.path(named)
        if not os.path.isdir(directory):
            raise ConfigError(f"{directory} is no directory: make it, or name another")
        return bundled(directory, approval=self._settings.approval)


def _policy(max_steps: int | None) -> Policy:
    return Policy() if max_steps is None else Policy(max_steps=max_steps)
