"""Keys of providers that were stored through the API, as this process uses them.

They are put into its environment, where everything that asks a provider looks for a key. What the
environment said before comes back when a stored key is removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, MutableMapping
from typing import Final

from holdfast.providers.known import PROVIDERS
from holdfast.server.identity.secrets import (
    PROVIDER,
    CannotOpenSecret,
    Keyring,
    Sealed,
    sealed_secrets,
    unseal,
)
from holdfast.store.database import Database, StoreError

LOG: Final = logging.getLogger("holdfast.serve")
EVERY: Final = 5.0
"""Seconds until a key that another process stored is used here."""


class StoredKeys:
    def __init__(
        self,
        db: Database,
        keyring: Keyring | None,
        environ: MutableMapping[str, str],
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when the environment is another than before."""
        self._db = db
        self._keyring = keyring
        self._environ = environ
        self._changed = changed
        self._seen: tuple[Sealed, ...] = ()
        self._before: dict[str, str | None] = {}
        """What the environment said of each variable that was set here."""

    async def look(self) -> None:
        """Use what is stored now."""
        stored = await self._db.read(lambda tx: sealed_secrets(tx, PROVIDER))
        if stored != self._seen:
            self._seen = stored
            self._put(dict(self._opened(stored)))
            self._changed()

    async def follow(self) -> None:
        """Look again and again, for as long as the task lives."""
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.look()
            except StoreError as error:
                LOG.warning("stored keys could not be read: %s", error)

    def _opened(self, stored: tuple[Sealed, ...]) -> list[tuple[str, str]]:
        opened = []
        for one in stored:
            facts = PROVIDERS.get(one.name)
            if facts is None or not facts.keys:
                continue
            try:
                opened.append((facts.keys[0], unseal(self._keyring, one)))
            except CannotOpenSecret as error:
                LOG.error("the key of %s is not used: %s", one.name, error)
        return opened

    def _put(self, keys: dict[str, str]) -> None:
        for variable in [name for name in self._before if name not in keys]:
            before = self._before.pop(variable)
            if before is None:
                self._environ.pop(variable, None)
            else:
                self._environ[variable] = before
        for variable, key in keys.items():
            self._before.setdefault(variable, self._environ.get(variable))
            self._environ[variable] = key
