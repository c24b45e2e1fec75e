"""Agents written in Python, named as `module:name`: each is imported once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from inspect import isawaitable, iscoroutinefunction
from types import ModuleType
from typing import Any, Final, NamedTuple

from holdfast.agent import Agent
from holdfast.cli.user_modules import UserObject, find_object, import_named, user_error
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.suggest import did_you_mean
from holdfast.kernel.tool import Tool

EXAMPLE: Final = "app:agent"


class _Later(NamedTuple):
    """A function of a user that needs an event loop."""

    call: Callable[[], Awaitable[Any]]


class NotCalledYet(ConfigError):
    """An async function makes the agents: it is called once the event loop of the server runs."""


class PythonAgents:
    """The agents of the modules of a user.

    A name refers to an agent, a list or mapping of agents, or a function that returns them.
    """

    def __init__(self) -> None:
        self._loaded: dict[tuple[str, str], list[Agent]] = {}
        self._pending: dict[tuple[str, str], Callable[[], Awaitable[Any]]] = {}

    def load(self, spec: str, directory: str) -> list[Agent]:
        """All agents of `module:name`. Raises `ConfigError`, or `NotCalledYet` before `finish`."""
        key = spec, directory
        if key not in self._loaded:
            if key not in self._pending:
                if not all(spec.partition(":")):
                    raise ConfigError(_unnamed(spec, directory))
                value = _made(find_object(spec, spec, directory, EXAMPLE), spec)
                if not isinstance(value, _Later):
                    self._loaded[key] = agents_in(value, spec)
                    return self._loaded[key]
                self._pending[key] = value.call
            raise NotCalledYet(f"{spec} is an async function, which is called later")
        return self._loaded[key]

    async def finish(self) -> None:
        """Call the async functions. Raises `ConfigError`."""
        for key, function in tuple(self._pending.items()):
            try:
                value = await function()
            except Exception as error:  # anything that a user's function does
                raise user_error(f"{key[0]}: the function raised an error", error) from error
            self._loaded[key] = agents_in(value, key[0])
            del self._pending[key]


async def load_agents(spec: str) -> list[Agent]:
    """The agents of `module:name`, found from the current directory. Raises `ConfigError`."""
    python = PythonAgents()
    with suppress(NotCalledYet):
        return python.load(spec, "")
    await python.finish()
    return python.load(spec, "")


async def agents_of_program(value: object) -> list[Agent]:
    """The agents that a program serves: as in a module, or a function that returns them."""
    if callable(value) and not isinstance(value, Agent | Tool | type):
        value = value()
    if isawaitable(value):
        value = await value
    return agents_in(value, "agents")


def agents_in(value: object, where: str) -> list[Agent]:
    """The agents in a value: one, a list of them, or a mapping of names to them."""
    if isinstance(value, Agent):
        return [value]
    if isinstance(value, Mapping):
        agents = [_checked(agent, where).replace(name=name) for name, agent in value.items()]
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        agents = [_checked(one, where) for one in value]
    else:
        raise ConfigError(
            f"{where} is a value of type {type(value).__name__}: name an Agent, a list or "
            "mapping of agents, or a function that returns them"
        )
    if not agents:
        raise ConfigError(f"{where} has no agents: add at least one")
    return agents


def _checked(value: object, where: str) -> Agent:
    if not isinstance(value, Agent):
        raise ConfigError(
            f"{where} contains a value of type {type(value).__name__}: use only agents"
        )
    return value


def _made(found: UserObject, spec: str) -> Any:
    """The object, or what it returns if it is a function; an async function as it is."""
    value = found.value
    if value is None:
        raise ConfigError(_missing(found, spec))
    if isinstance(value, Agent | Tool | type) or not callable(value):
        return value
    if iscoroutinefunction(value):
        return _Later(value)
    try:
        returned = value()
    except Exception as error:  # anything that a user's function does
        raise user_error(f"{spec}: the function raised an error", error) from error
    return _Later(lambda: returned) if isawaitable(returned) else returned


def _unnamed(spec: str, directory: str) -> str:
    """The message for a module without the name of an object."""
    stem = spec.partition(":")[0].removesuffix(".py").replace("/", ".").strip(".")
    words = f"{spec}: write module:name, as in {EXAMPLE}"
    known = names_of_agents(import_named(words, stem, directory)) if stem else []
    return f"{words} (agents in {stem}: {', '.join(known)})" if known else words


def _missing(found: UserObject, spec: str) -> str:
    known = names_of_agents(found.module)
    near = did_you_mean(found.name, known)
    listed = f"agents in it: {', '.join(known) or 'none'}"
    return f"{spec}: {found.module.__name__} has no {found.name!r}{near} ({listed})"


def names_of_agents(module: ModuleType) -> list[str]:
    """Names in a module that stand for an agent, or for several."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and (isinstance(value, Agent) or _has_agents(value))
    ]


def _has_agents(value: object) -> bool:
    if not isinstance(value, list | tuple | dict) or not value:
        return False
    return all(
        isinstance(one, Agent) for one in (value.values() if isinstance(value, dict) else value)
    )
