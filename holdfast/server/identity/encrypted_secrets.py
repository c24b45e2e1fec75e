"""Secrets at rest: encrypted with a key that is not in the database, and never returned.

AES-256-GCM. The kind and name of a secret are authenticated with it, so a ciphertext moved to
another row does not decrypt there. Every row names its key, so keys can be rotated.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode, urlsafe_b64decode
from binascii import Error
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.chat.rows import check_text
from holdfast.kernel.errors import ConfigError, HoldfastError
from holdfast.server.identity.private_file import make_private, read_private
from holdfast.server.problem import Conflict
from holdfast.store.database import Tx

SECRET_KEY_VARIABLE: Final = "HOLDFAST_SECRET_KEY"
KEY_BYTES: Final = 32
"""Length of an encryption key."""
NONCE_BYTES: Final = 12
"""Length of the nonce before each ciphertext."""
PROVIDER_KIND: Final = "provider"
"""The kind of a stored provider key; the name of the secret is the provider's."""


class NoSecretKey(Conflict):
    """The server has no key to encrypt secrets with, and stores none in plain text."""

    kind = "no_secret_key"

    def __init__(self) -> None:
        super().__init__(
            f"this server has no key to encrypt secrets with: set {SECRET_KEY_VARIABLE} to 32 "
            "random bytes in base64 (openssl rand -base64 32), or put them into the file "
            "secret.key of its data directory, readable by its owner alone; then restart the server"
        )


class DecryptionFailed(HoldfastError):
    """The secret cannot be decrypted: its key is missing, or the ciphertext was altered."""


class EncryptionKey:
    """An encryption key. Not a Struct, so that nothing ever prints it."""

    __slots__ = ("bytes", "id")

    def __init__(self, key: bytes) -> None:
        self.bytes = key
        self.id = sha256(b"holdfast key id:" + key).hexdigest()[:16]
        """Id that is stored with each secret the key encrypted; does not reveal the key."""

    def __repr__(self) -> str:
        return f"<key {self.id}>"


class Keyring(Struct, frozen=True):
    """Encryption keys: the first encrypts, all decrypt."""

    keys: tuple[EncryptionKey, ...]

    @property
    def current(self) -> EncryptionKey:
        """The key that encrypts."""
        return self.keys[0]

    def key(self, id: str) -> EncryptionKey | None:
        """The key with this id, if it is here."""
        return next((key for key in self.keys if key.id == id), None)


def keyring(text: str, where: str = SECRET_KEY_VARIABLE) -> Keyring:
    """Parse keys in base64, separated by commas or white space, the current one first."""
    keys = tuple(_key(each, where) for each in text.replace(",", " ").split())
    if not keys:
        raise ConfigError(f"{where} is empty: put 32 random bytes in base64 there, or remove it")
    return Keyring(keys)


def _key(text: str, where: str) -> EncryptionKey:
    decode = urlsafe_b64decode if set("-_") & set(text) else b64decode
    try:
        key = decode(text + "=" * (-len(text) % 4))
    except (Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(
            f"{where} has a key that is not 32 bytes in base64: make one with "
            "`openssl rand -base64 32`"
        )
    return EncryptionKey(key)


def find_keyring(environ: Mapping[str, str], file: Path | None) -> Keyring | None:
    """The keys of the environment, or else of the key file; None if there are none."""
    if SECRET_KEY_VARIABLE in environ:
        return keyring(environ[SECRET_KEY_VARIABLE])
    text = None if file is None else read_private(file)
    return None if text is None else keyring(text, str(file))


def make_key_file(file: Path) -> Keyring:
    """Create a key file with a new key, or read the one that exists."""
    return keyring(make_private(file, b64encode(os.urandom(KEY_BYTES)).decode()), str(file))


# --- encryption ----------------------------------------------------------------------------------


class EncryptedSecret(Struct, frozen=True):
    """An encrypted secret, as stored."""

    kind: str
    name: str
    key_id: str
    sealed: str
    """Nonce and ciphertext, in base64."""


def encrypt(keys: Keyring | None, kind: str, name: str, value: str) -> EncryptedSecret:
    """Encrypt a secret with the current key. Raises `NoSecretKey`."""
    if keys is None:
        raise NoSecretKey
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # slow to import, seldom needed

    check_text("name", name)
    key, nonce = keys.current, os.urandom(NONCE_BYTES)
    ciphertext = AESGCM(key.bytes).encrypt(nonce, value.encode(), _row(kind, name, key.id))
    return EncryptedSecret(kind, name, key.id, b64encode(nonce + ciphertext).decode())


def decrypt(keys: Keyring | None, sealed: EncryptedSecret) -> str:
    """Decrypt a secret. Raises `DecryptionFailed`."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    what = f"the secret {sealed.kind} {sealed.name!r}"
    key = None if keys is None else keys.key(sealed.key_id)
    if key is None:
        raise DecryptionFailed(
            f"{what} was encrypted with the key {sealed.key_id}, which is missing: add it to "
            f"{SECRET_KEY_VARIABLE} after the current one, or store the secret again"
        )
    row = _row(sealed.kind, sealed.name, key.id)
    try:
        data = b64decode(sealed.sealed)
        return AESGCM(key.bytes).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], row).decode()
    except (InvalidTag, ValueError):
        raise DecryptionFailed(f"{what} was altered in the database: store it again") from None


def _row(kind: str, name: str, key_id: str) -> bytes:
    """Data authenticated with a secret. As JSON, so that no two rows have the same bytes."""
    return msgspec.json.encode(["holdfast secret", kind, name, key_id])


# --- rows ----------------------------------------------------------------------------------------


async def store_secret(tx: Tx, sealed: EncryptedSecret) -> None:
    """Insert or replace an encrypted secret."""
    await tx.execute(
        f"""
        INSERT INTO secrets (kind, name, key_id, sealed, updated_at)
        VALUES (:kind, :name, :key_id, :sealed, {tx.dialect.now})
        ON CONFLICT (kind, name) DO UPDATE
           SET key_id = excluded.key_id, sealed = excluded.sealed, updated_at = excluded.updated_at
        """,
        msgspec.structs.asdict(sealed),
    )


async def remove_secret(tx: Tx, kind: str, name: str) -> bool:
    """Delete a secret; return whether it existed."""
    check_text("name", name)
    statement = "DELETE FROM secrets WHERE kind = :kind AND name = :name"
    return bool(await tx.execute(statement, {"kind": kind, "name": name}))


async def encrypted_secrets(tx: Tx, kind: str) -> tuple[EncryptedSecret, ...]:
    """All secrets of a kind, still encrypted. Decrypt with `decrypt`, outside the transaction."""
    rows = await tx.fetch(
        "SELECT kind, name, key_id, sealed FROM secrets WHERE kind = :kind ORDER BY name",
        {"kind": kind},
    )
    return tuple(EncryptedSecret(*row) for row in rows)


async def stored_at(tx: Tx) -> dict[str, int]:
    """The providers with a stored key, and when each was stored."""
    rows = await tx.fetch(
        "SELECT name, updated_at FROM secrets WHERE kind = :kind", {"kind": PROVIDER_KIND}
    )
    return {row[0]: row[1] for row in rows}


async def rotate(tx: Tx, keys: Keyring) -> int:
    """Re-encrypt with the current key all secrets that use an older one; return how many.

    After that the older keys can be removed.
    """
    rows = await tx.fetch(
        f"""
        SELECT kind, name, key_id, sealed FROM secrets WHERE key_id <> :current
         ORDER BY kind, name {tx.dialect.lock}
        """,
        {"current": keys.current.id},
    )
    for old in (EncryptedSecret(*row) for row in rows):
        await store_secret(tx, encrypt(keys, old.kind, old.name, decrypt(keys, old)))
    return len(rows)
