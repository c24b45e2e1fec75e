"""A key that was stored through the API is used by every process, until it is removed."""

from __future__ import annotations

import logging

import anyio
import pytest

from holdfast.cli.stored_provider_keys import RELOAD_INTERVAL, StoredKeys
from holdfast.server.identity.encrypted_secrets import (
    PROVIDER_KIND,
    encrypt,
    keyring,
    remove_secret,
    store_secret,
)
from holdfast.store.database import Database

KEYS = keyring("A" * 43)
OTHER = keyring("B" * 42 + "A")


class Process:
    """Something that looks for keys in its environment."""

    def __init__(self, db: Database, **environ: str) -> None:
        self.environ = environ
        self.changes = 0
        self.keys = StoredKeys(db, KEYS, self.environ, self._changed)

    def _changed(self) -> None:
        self.changes += 1


async def store(db: Database, name: str, key: str) -> None:
    sealed = encrypt(KEYS, PROVIDER_KIND, name, key)
    await db.write(lambda tx: store_secret(tx, sealed))


async def test_a_stored_key_goes_before_the_one_of_the_environment_and_after_it_comes_back(
    db: Database,
) -> None:
    process = Process(db, OPENAI_API_KEY="given", HOME="/x")
    await store(db, "openai", "stored")
    await store(db, "anthropic", "another")
    await process.keys.load()
    assert process.environ == {
        "OPENAI_API_KEY": "stored",
        "ANTHROPIC_API_KEY": "another",
        "HOME": "/x",
    }
    await store(db, "openai", "newer")
    await process.keys.load()
    assert process.environ["OPENAI_API_KEY"] == "newer"
    for name in ("openai", "anthropic"):
        await db.write(lambda tx, name=name: remove_secret(tx, PROVIDER_KIND, name))  # type: ignore[misc]
    await process.keys.load()
    assert process.environ == {"OPENAI_API_KEY": "given", "HOME": "/x"}


async def test_whoever_uses_keys_is_told_when_they_change_and_only_then(db: Database) -> None:
    process = Process(db)
    await process.keys.load()
    assert process.changes == 0
    await store(db, "openai", "stored")
    await process.keys.load()
    await process.keys.load()
    assert process.changes == 1


async def test_a_key_that_another_process_stored_is_used_within_seconds(db: Database) -> None:
    process = Process(db)
    async with anyio.create_task_group() as group:
        group.start_soon(process.keys.follow)
        await anyio.sleep(1)
        await store(db, "openai", "stored")
        await anyio.sleep(RELOAD_INTERVAL)
        assert process.environ == {"OPENAI_API_KEY": "stored"}
        group.cancel_scope.cancel()


async def test_a_key_that_cannot_be_opened_is_left_out_and_logged(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    process = Process(db)
    sealed = encrypt(OTHER, PROVIDER_KIND, "openai", "secret")
    await db.write(lambda tx: store_secret(tx, sealed))
    await store(db, "anthropic", "fine")
    with caplog.at_level(logging.ERROR):
        await process.keys.load()
    assert process.environ == {"ANTHROPIC_API_KEY": "fine"}
    assert "stored key of openai was not used" in caplog.text
