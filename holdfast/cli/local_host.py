"""Opens the database of a process, with the agents and keys that a server has."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from holdfast.cli.serve_config import ServeConfig
from holdfast.cli.settings import base_urls_of
from holdfast.cli.telemetry import provider_keys
from holdfast.config import default_model
from holdfast.kernel.ports import Ports
from holdfast.store.metered import MeteredDatabase
from holdfast.store.url import open_database, warn_of_polling

if TYPE_CHECKING:
    from holdfast.store.database import Database


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
            config.registry.complete()
            yield db


@asynccontextmanager
async def _stored_keys(config: ServeConfig, db: Database) -> AsyncIterator[None]:
    """Use stored provider keys, and follow changes to them during the block."""
    from holdfast.cli.keys import StoredKeys

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


def who_answers(config: ServeConfig) -> str:
    """The agent that answers by default, and its model."""
    first = next(iter(config.registry.agents.values()))
    model = getattr(first.model, "name", "")
    words = f"{first.name} answers with {model}"
    if model.startswith("demo"):
        settings = config.settings.agents.get(first.name)
        _, reason = default_model(os.environ, base_urls_of(config.settings))
        if settings is not None and settings.model is not None:
            reason = "its settings name it"
        words += f" (not a language model: {reason})"
    return words
