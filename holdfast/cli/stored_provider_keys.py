"""Provider keys stored through the API, as this process uses them.

They are put into the environment, where providers look for keys. The previous value of a variable
is restored when a stored key is removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, MutableMapping
from typing import Final

from holdfast.providers.provider_catalog import PROVIDERS
from holdfast.server.identity.encrypted_secrets import (
    PROVIDER_KIND,
    DecryptionFailed,
    EncryptedSecret,
    Keyring,
    decrypt,
    encrypted_secrets,
)
from holdfast.store.database import Database, StoreError

LOG: Final = logging.getLogger("holdfast.serve")
RELOAD_INTERVAL: Final = 5.0
"""Seconds until a key stored by another process is used here."""


class StoredKeys:
    """Copies the stored provider keys to the environment, and follows changes."""

    def __init__(
        self,
        db: Database,
        keyring: Keyring | None,
        environ: MutableMapping[str, str],
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when the environment has changed."""
        self._db = db
        self._keyring = keyring
        self._environ = environ
        self._changed = changed
        self._seen: tuple[EncryptedSecret, ...] = ()
        self._before: dict[str, str | None] = {}
        """Previous value of each variable set here."""

    async def load(self) -> None:
        """Load the stored keys into the environment."""
        stored = await self._db.read(lambda tx: encrypted_secrets(tx, PROVIDER_KIND))
        if stored != self._seen:
            self._seen = stored
            self._put(dict(self._opened(stored)))
            self._changed()

    async def follow(self) -> None:
        """Reload the keys periodically, until cancelled."""
        while True:
            await asyncio.sleep(RELOAD_INTERVAL)
            try:
                await self.load()
            except StoreError as error:
                LOG.warning("cannot read stored provider keys, will retry: %s", error)

    def _opened(self, stored: tuple[EncryptedSecret, ...]) -> list[tuple[str, str]]:
        opened = []
        for one in stored:
            facts = PROVIDERS.get(one.name)
            if facts is None or not facts.keys:
                continue
            try:
                opened.append((facts.keys[0], decrypt(self._keyring, one)))
            except DecryptionFailed as error:
                LOG.error("stored key of %s was not used: %s", one.name, error)
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
