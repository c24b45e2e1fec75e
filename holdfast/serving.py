"""Serves the agents of a program: the API, the page and a worker, as `holdfast serve` does.

async def main():
    await holdfast.serve(agent, database="sqlite:///chats.db")
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias, Union

from msgspec import structs

from holdfast.agent import Agent
from holdfast.chat.budgets import Budgets
from holdfast.kernel.agent_deps import DepsProviders
from holdfast.kernel.errors import ConfigError

Agents: TypeAlias = Union[Agent[Any, Any], Iterable[Agent[Any, Any]], Mapping[str, Agent[Any, Any]]]
"""One agent, several, or a mapping of names to agents. The first is the default."""
AgentsToServe: TypeAlias = Union[Agents, Callable[[], Union[Agents, Awaitable[Agents]]]]
"""Agents, or a function that returns them."""


async def serve(
    agents: AgentsToServe,
    *,
    deps: DepsProviders | None = None,
    database: str | None = None,
    listen: str | int | None = None,
    budgets: Budgets | None = None,
    settings: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    data: str | os.PathLike[str] | None = None,
    api: bool = True,
    worker: bool = True,
    browser: bool = False,
    on_start: Callable[[str], object] | None = None,
) -> None:
    """Serve agents until the process is asked to stop (Ctrl-C, SIGTERM) or the call is cancelled.

    `deps` returns the deps of a chat, as for `holdfast.open`. `database` is `sqlite:///chats.db` or
    `postgresql://…`; by default a file in the data directory. `listen` is an address, as
    `127.0.0.1:8765`, or a port; 0 picks a free one. `settings` is the path of a settings file, or
    its content as a mapping; by default no file is read, not even `holdfast.toml`. `budgets` are
    limits of each chat, of each user and of a user's day. `data` is the data directory. With
    `api=False` it is a worker, without API and page; with `worker=False` it drives no chats, which
    needs PostgreSQL. `browser` opens the page. `on_start` is called with the URL to open, which
    signs in; it is empty without an API. Arguments take precedence over the environment, and the
    environment over the settings.
    """
    from holdfast.cli.python_agents import agents_of_program
    from holdfast.cli.serve import run_until_stopped
    from holdfast.cli.serve_config import ServedProgram, resolve_config
    from holdfast.cli.settings import examine_given
    from holdfast.config import program_options

    _refuse_on_import()
    if not (api or worker):
        raise ConfigError("api and worker are both False: a process needs one of them")
    options = program_options(
        os.environ,
        api=api,
        worker=worker,
        database=database,
        listen=None if listen is None else str(listen),
        data=None if data is None else os.fspath(data),
        open=browser,
    )
    parsed = examine_given(settings)
    if budgets is not None:
        parsed = parsed._replace(settings=structs.replace(parsed.settings, budgets=budgets))
    program = ServedProgram(tuple(await agents_of_program(agents)), parsed, deps)
    config = resolve_config(options, os.environ, program=program)
    with config.telemetry.logging():
        await run_until_stopped(config, on_start)


def serve_sync(
    agents: AgentsToServe,
    *,
    deps: DepsProviders | None = None,
    database: str | None = None,
    listen: str | int | None = None,
    budgets: Budgets | None = None,
    settings: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    data: str | os.PathLike[str] | None = None,
    api: bool = True,
    worker: bool = True,
    browser: bool = False,
    on_start: Callable[[str], object] | None = None,
) -> None:
    """Serve agents from a program that is not async, with the arguments of `serve`."""
    import asyncio

    _refuse_on_import()
    asyncio.run(
        serve(
            agents,
            deps=deps,
            database=database,
            listen=listen,
            budgets=budgets,
            settings=settings,
            data=data,
            api=api,
            worker=worker,
            browser=browser,
            on_start=on_start,
        )
    )


def _refuse_on_import() -> None:
    """A module that is imported for its agents must not start a server of its own."""
    from holdfast.cli.user_modules import IMPORTING

    module = IMPORTING.get()
    if module is not None:
        raise ConfigError(
            f"{module} starts a server while it is imported: put the call after "
            'if __name__ == "__main__":'
        )
