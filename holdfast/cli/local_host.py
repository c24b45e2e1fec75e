"""The chats of a database in this process, with the agents and keys that a server would have."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import structs

from holdfast.cli.agent_builder import BUNDLED
from holdfast.cli.serve_config import ServeConfig, resolve_config
from holdfast.cli.settings import AgentSettings, base_urls_of
from holdfast.cli.target import name_of
from holdfast.cli.telemetry import provider_keys
from holdfast.config import NAMED_BY_OPTION, ChatOptions, ServeOptions, default_model
from holdfast.host import serving
from holdfast.kernel.ports import Ports
from holdfast.store.database import InUse
from holdfast.store.metered import MeteredDatabase
from holdfast.store.url import open_database, warn_of_polling

if TYPE_CHECKING:
    from holdfast.chat.host import Host
    from holdfast.store.database import Database

LEAVING_GRACE: Final = 2.0
"""Seconds that running steps have when a user leaves the terminal. The rest is done later."""


class LocalHost(NamedTuple):
    """The chats of the local database."""

    host: Host
    database: str
    """Name of the database, for the user."""
    agent: str
    """Which agent answers, for the user."""


@asynccontextmanager
async def opened(config: ServeConfig, ports: Ports) -> AsyncIterator[Database]:
    """The database of a process. Stored provider keys are in use, and all agents are built."""
    async with open_database(
        config.database,
        now=ports.now,
        wait=config.settings.database_wait,
        listen_url=config.listen_url,
        new_id=ports.new_id,
    ) as database:
        warn_of_polling(database, config.settings.worker.poll)
        db = MeteredDatabase(database, config.telemetry.meters)
        async with _stored_keys(config, db):
            await config.registry.complete()
            yield db


@asynccontextmanager
async def _stored_keys(config: ServeConfig, db: Database) -> AsyncIterator[None]:
    """Use stored provider keys, and follow changes to them during the block."""
    from holdfast.cli.stored_provider_keys import StoredKeys

    def changed() -> None:
        config.telemetry.redact.know(*provider_keys(os.environ))
        config.registry.renew()

    keys = StoredKeys(db, config.keyring, os.environ, changed)
    await keys.load()
    following = asyncio.create_task(keys.follow())
    try:
        yield
    finally:
        following.cancel()


@asynccontextmanager
async def local_host(options: ChatOptions) -> AsyncIterator[LocalHost]:
    """The chats of the local database, driven by a worker in this process.

    Raises `InUse` if another process has a SQLite file open.
    """
    where = options.where
    serve = ServeOptions(
        agents=() if options.python is None else (options.python,),
        deps=options.agent.deps,
        settings=where.settings,
        database=where.serve_database,
        listen_url=where.listen_url,
        data=where.data,
        api=False,
    )
    config, ports = resolve_config(serve, os.environ, partial(_adapted, options)), Ports()
    worker = config.settings.worker
    worker = structs.replace(worker, grace=min(worker.grace, LEAVING_GRACE))
    try:
        async with (
            opened(config, ports) as db,
            serving(
                db,
                config.registry.agents,
                ports=ports,
                worker=worker,
                titles=config.registry.titles,
                budgets=config.settings.budgets,
                observer=config.telemetry.observer,
                deps=config.deps,
            ) as host,
        ):
            answers = who_answers(config, by_option=options.model is not None)
            yield LocalHost(host, name_of(config.database), answers)
    except InUse as error:
        raise InUse(
            f"{str(error).partition(' (')[0]}: wait until it ends. With `holdfast serve` running, "
            "several terminals can use it"
        ) from None


def _adapted(options: ChatOptions, agent: AgentSettings) -> AgentSettings:
    """The settings of an agent with what the command line says about it."""
    own, text, limits = options.agent, options.agent.instructions, None
    if own.max_steps is not None:
        limits = {**agent.fields.get("limits", {}), "steps": own.max_steps}
    agent = structs.replace(
        agent.with_fields(model=options.model, instructions=text, limits=limits),
        instructions_file=agent.instructions_file if text is None else None,
        more_tools=own.tools,
    )
    if agent.python is not None or options.python is not None:  # it has tools of its own
        return agent
    tools = agent.tools or ((BUNDLED,) if agent.tools is None else ())
    return structs.replace(
        agent,
        tools=tuple(one for one in tools if one != BUNDLED or own.bundled_tools),
        dir=agent.dir if own.dir is None else os.path.abspath(own.dir),
        pass_env=(*agent.pass_env, *own.pass_env),
    )


def who_answers(config: ServeConfig, *, by_option: bool = False) -> str:
    """The agent that answers by default, its model, and why, if it is not a language model."""
    first = next(iter(config.registry.agents.values()))
    model = getattr(first.model, "name", "")
    words = f"{first.name} answers with {model}"
    if not model.startswith("demo"):
        return words
    settings = config.settings.agents.get(first.name, AgentSettings())
    _, reason = default_model(os.environ, base_urls_of(config.settings))
    if by_option or config.options.model is not None:
        reason = NAMED_BY_OPTION
    elif "model" in settings.fields:
        reason = "its settings name it"
    elif settings.python is not None or first.name not in config.settings.agents:
        reason = "its module names it"
    return f"{words} (not a language model: {reason})"
