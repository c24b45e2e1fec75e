"""Implements `holdfast secrets`: re-encrypts stored secrets with a new key."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Final

from holdfast.cli.accounts import ADDRESS
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.target import database_of, key_file, refuse_missing, writing
from holdfast.cli.trust_prompt import settle_place
from holdfast.cli.wording import count
from holdfast.config import Where
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import Ports
from holdfast.server.identity.audit import AuditEntry, record
from holdfast.server.identity.secrets import (
    SECRET_KEY_VARIABLE,
    DecryptionFailed,
    Keyring,
    find_keyring,
    rotate,
)
from holdfast.store.database import Database, Tx

STOP: Final = "stop it, do this, and start it again"


def main(where: Where) -> int:
    keys = found(where, os.environ)
    settle_place(where)
    print(told(asyncio.run(_rotate(where, keys)), keys), file=sys.stderr)
    return ExitCode.FINISHED


def found(where: Where, environ: Mapping[str, str]) -> Keyring:
    """The keys that a server would use here. Raises `ConfigError`."""
    file = key_file(where.data)
    keys = find_keyring(environ, file)
    if keys is None:
        raise ConfigError(
            f"no encryption key: set {SECRET_KEY_VARIABLE}, or put it into {file}, the new key "
            "before the old one (see holdfast secrets --help)"
        )
    return keys


async def _rotate(where: Where, keys: Keyring) -> int:
    database = database_of(where, makes=False)
    refuse_missing(database, where.data, "--database or --config")
    async with writing(database, STOP) as db:
        try:
            return await sealed_anew(db, keys, Ports())
        except DecryptionFailed as error:
            raise DecryptionFailed(f"nothing was changed: {error}") from None


async def sealed_anew(db: Database, keys: Keyring, ports: Ports) -> int:
    """Re-encrypt all secrets or none; returns how many an older key had encrypted."""

    async def change(tx: Tx) -> int:
        sealed = await rotate(tx, keys)
        if sealed:
            detail = {"secrets": sealed}
            entry = AuditEntry(
                ports.new_id(), "secret.rotate", keys.current.id, None, None, ADDRESS, detail
            )
            await record(tx, entry)
        return sealed

    return await db.write(change)


def told(sealed: int, keys: Keyring) -> str:
    first = f"the first key ({keys.current.id})"
    if sealed:
        return f"{count(sealed, 'secret')} re-encrypted with {first}: remove the other keys"
    only = len(keys.keys) == 1
    do = " It is the only key: to replace it, put a new one before it." if only else ""
    return f"all secrets are already encrypted with {first}.{do}"
