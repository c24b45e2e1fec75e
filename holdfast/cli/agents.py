"""The agents that a server has, as its settings name them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from holdfast.agent import Agent
from holdfast.cli.load import load_tools
from holdfast.cli.settings import AgentSettings, Mistakes, Settings
from holdfast.config import default_model
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.policy import Policy

if TYPE_CHECKING:
    from holdfast.kernel.model import Model
    from holdfast.kernel.tool import Tool

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


def agents_of(settings: Settings, place: Place, environ: Mapping[str, str]) -> list[Agent]:
    """Each of them, the first being who answers by default. Everything wrong is said at once."""
    mistakes = Mistakes("the settings")
    made = []
    for name, one in (settings.agents or {DEFAULT: AgentSettings()}).items():
        try:
            made.append(_agent(name, one, settings, place, environ))
        except ConfigError as error:
            mistakes.add(f"agents.{name}", str(error))
    mistakes.end()
    return made


def _agent(
    name: str,
    settings: AgentSettings,
    whole: Settings,
    place: Place,
    environ: Mapping[str, str],
) -> Agent:
    return Agent(
        name=name,
        model=_model(settings.model or default_model(environ)[0], whole, environ),
        instructions=_instructions(settings, place),
        tools=[tool for spec in settings.tools for tool in _tools(spec, settings, place)],
        effort=settings.effort,
        policy=Policy() if settings.max_steps is None else Policy(max_steps=settings.max_steps),
    )


def _model(name: str, settings: Settings, environ: Mapping[str, str]) -> Model:
    from holdfast.providers.registry import model

    options = dict(settings.providers.get(name.partition(":")[0], {}))
    if "api_key" in options:
        raise ConfigError("a key does not belong in a file: set it in the environment")
    return model(name, environ=environ, **options)


def _instructions(settings: AgentSettings, place: Place) -> str:
    if settings.instructions_file is None:
        return INSTRUCTIONS if settings.instructions is None else settings.instructions
    path = place.path(settings.instructions_file)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"instructions_file: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"instructions_file: {path} is no UTF-8 text") from None


def _tools(spec: str, settings: AgentSettings, place: Place) -> list[Tool | Callable[..., Any]]:
    if spec == "ask_user":
        from holdfast.tools.ask_user import ask_user

        return [ask_user()]
    if spec != "bundled":
        return load_tools([spec], "tools:")
    from holdfast.tools import bundled

    directory = place.workspace() if settings.dir is None else place.path(settings.dir)
    if not os.path.isdir(directory):
        raise ConfigError(f"dir: {directory} is no directory: make it, or name another")
    return list(bundled(directory, approval=settings.approval))
