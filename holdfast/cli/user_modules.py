"""Imports modules of the user, and shows their errors with the user's own lines."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NamedTuple

import holdfast.kernel
from holdfast.kernel.errors import ConfigError

OURS: Final = os.path.dirname(os.path.dirname(holdfast.kernel.__file__)) + os.sep
"""The directory of this package: its frames are not shown."""
IMPORTING: Final[ContextVar[str | None]] = ContextVar("importing", default=None)
"""Name of the module of a user that is being imported."""


class UserObject(NamedTuple):
    """An object of a user's module. `value` is None if the module does not have it."""

    module: ModuleType
    name: str
    value: Any


def find_object(spec: str, where: str, directory: str, example: str) -> UserObject:
    """The object that `module:name` names. Raises `ConfigError` if the module cannot be imported.

    Modules are looked up in `directory` first; an empty one is the current one. Error messages
    begin with `where`, and have an `example` of a name.
    """
    module_name, colon, name = spec.partition(":")
    if not (module_name and colon and name):
        raise ConfigError(f"{where}: write module:name, as in {example}")
    value: Any = import_named(where, module_name, directory)
    module = value
    for part in name.split("."):
        value = getattr(value, part, None)
    return UserObject(module, name, value)


def import_named(where: str, name: str, directory: str) -> ModuleType:
    """The module of this name, looked up in `directory` first. Raises `ConfigError`."""
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        with _importing(name):
            return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            here = f"in {directory}" if directory else "here"
            raise ConfigError(
                f"{where}: module {name!r} was not found {here} or among installed packages: "
                "put it there, or add its directory to PYTHONPATH"
            ) from None
        shown = user_traceback(error)
        raise ConfigError(f"{where}: {name} needs {error.name!r}: install it\n{shown}") from error
    except (Exception, SystemExit) as error:  # anything a user's module does on import
        raise user_error(f"{where}: {name} cannot be imported", error) from error


@contextmanager
def _importing(name: str) -> Iterator[None]:
    token = IMPORTING.set(name)
    try:
        yield
    finally:
        IMPORTING.reset(token)


def user_error(what: str, error: BaseException) -> ConfigError:
    """An error of the user's code as a configuration error, of the same class if it was one."""
    kind = type(error) if isinstance(error, ConfigError) else ConfigError
    text = f"{what}\n{user_traceback(error)}"
    try:
        return kind(text)
    except TypeError:  # a class of the user, with arguments of its own
        return ConfigError(text)


def user_traceback(error: BaseException) -> str:
    """The traceback of an error without the frames of this package and of the import system.

    The message of our own errors is written for people, and is shown without its class.
    """
    whole = traceback.TracebackException.from_exception(error)
    _shorten(whole)
    if isinstance(error, ConfigError):
        return f"{''.join(whole.stack.format())}{error}"
    return "".join(whole.format()).rstrip()


def _shorten(whole: traceback.TracebackException) -> None:
    """Remove frames, from the errors that led to this one as well."""
    whole.stack[:] = [frame for frame in whole.stack if is_users(frame.filename)]
    causes = (whole.__cause__, whole.__context__, *(whole.exceptions or ()))
    for one in causes:
        if one is not None:
            _shorten(one)


def is_users(path: str) -> bool:
    """Whether a file is neither of this package nor of the import system."""
    return not (path.startswith(("<frozen ", OURS)) or f"{os.sep}importlib{os.sep}" in path)
