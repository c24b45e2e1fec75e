"""The provider of the deps of agents written in Python, named as `module:name`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.cli.user_modules import find_object
from holdfast.kernel.agent_deps import DepsProviders
from holdfast.kernel.errors import ConfigError

EXAMPLE: Final = "app:provider"


def load_deps(spec: str, option: str, directory: str = "") -> DepsProviders:
    """The function of `module:name`, or the mapping of agents' names to functions.

    `option` is the option or setting that names it. Raises `ConfigError`.
    """
    where = f"{option} {spec}"
    module, name, value = find_object(spec, where, directory, EXAMPLE)
    if value is None:
        raise ConfigError(f"{where}: {module.__name__} has no {name!r}")
    if isinstance(value, Mapping) or callable(value):
        providers: DepsProviders = value
        return providers
    raise ConfigError(
        f"{where}: that is a value of type {type(value).__name__}; name a function of a chat's "
        "ChatInfo that returns the deps, or a mapping of agents' names to such functions"
    )
