"""Implements `holdfast secrets`: re-encrypts stored secrets with a new key."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Final

from holdfast.cli.account_backends import AUDIT_ADDRESS
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.run_texts import count
from holdfast.cli.target import database_of, key_file, refuse_missing, writing
from holdfast.cli.trust_prompt import ensure_trusted
from holdfast.config import ChatTarget
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import Ports
from holdfast.server.identity.audit import AuditEntry, record
from holdfast.server.identity.encrypted_secrets import (
    SECRET_KEY_VARIABLE,
    DecryptionFailed,
    Keyring,
    find_keyring,
    rotate,
)
from holdfast.store.database import Database, Tx

STOP_FIRST: Final = "stop it, do this, and start it again"


def main(where: ChatTarget) -> int:
    keys = keyring_of(where, os.environ)
    ensure_trusted(where)
    print(summary(asyncio.run(_rotate(where, keys)), keys), file=sys.stderr)
    return ExitCode.FINISHED


def keyring_of(where: ChatTarget, environ: Mapping[str, str]) -> Keyring:
    """The keys that a server would use here. Raises `ConfigError`."""
    file = key_file(where.data)
    keys = find_keyring(environ, file)
    if keys is None:
        raise ConfigError(
            f"no encryption key: set {SECRET_KEY_VARIABLE}, or write the keys to {file}, "
            "the new one first (see holdfast secrets --help)"
        )
    return keys


async def _rotate(where: ChatTarget, keys: Keyring) -> int:
    database = database_of(where, makes=False)
    refuse_missing(database, where.data, "--database or --config")
    async with writing(database, STOP_FIRST) as db:
        try:
            return await reencrypt(db, keys, Ports())
        except DecryptionFailed as error:
            raise DecryptionFailed(f"nothing was changed: {error}") from None


async def reencrypt(db: Database, keys: Keyring, ports: Ports) -> int:
    """Re-encrypt all secrets or none; returns how many an older key had encrypted."""

    async def change(tx: Tx) -> int:
        sealed = await rotate(tx, keys)
        if sealed:
            detail = {"secrets": sealed}
            entry = AuditEntry(
                ports.new_id(), "secret.rotate", keys.current.id, None, None, AUDIT_ADDRESS, detail
            )
            await record(tx, entry)
        return sealed

    return await db.write(change)


def summary(sealed: int, keys: Keyring) -> str:
    first = f"the first key ({keys.current.id})"
    if sealed:
        return f"{count(sealed, 'secret')} re-encrypted with {first}: remove the other keys"
    only = len(keys.keys) == 1
    do = " It is the only key: to replace it, put a new one before it." if only else ""
    return f"all secrets are already encrypted with {first}.{do}"
