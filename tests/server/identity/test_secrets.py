"""Secrets at rest: sealed to their row, opened by their key alone, never given out."""

from __future__ import annotations

import stat
import subprocess
import sys
from base64 import b64decode, b64encode, urlsafe_b64encode
from pathlib import Path

import pytest
from msgspec import structs

from holdfast.kernel.errors import ConfigError
from holdfast.server.identity.auth_config import AuthConfig
from holdfast.server.identity.encrypted_secrets import (
    PROVIDER_KIND,
    SECRET_KEY_VARIABLE,
    DecryptionFailed,
    Keyring,
    NoSecretKey,
    decrypt,
    encrypt,
    encrypted_secrets,
    find_keyring,
    keyring,
    make_key_file,
    rotate,
    store_secret,
    stored_at,
)
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.server.identity.team_server import TEAM, house

VALUE = "sk-a-key-that-nobody-may-see"


def ring(*letters: str) -> Keyring:
    return keyring(",".join(b64encode(letter.encode() * 32).decode() for letter in letters))


def test_what_was_sealed_is_opened_by_its_key() -> None:
    sealed = encrypt(ring("a"), PROVIDER_KIND, "openai", VALUE)
    assert decrypt(ring("a"), sealed) == VALUE
    assert VALUE.encode() not in b64decode(sealed.sealed)


def test_the_same_secret_is_sealed_differently_each_time() -> None:
    made = {encrypt(ring("a"), PROVIDER_KIND, "openai", VALUE).sealed for _ in range(100)}
    assert len(made) == 100


@pytest.mark.parametrize("moved", [{"name": "groq"}, {"kind": "mcp"}, {"name": "openai "}])
def test_a_ciphertext_that_was_moved_to_another_row_does_not_open(moved: dict[str, str]) -> None:
    sealed = structs.replace(encrypt(ring("a"), PROVIDER_KIND, "openai", VALUE), **moved)
    with pytest.raises(DecryptionFailed, match="was altered"):
        decrypt(ring("a"), sealed)


def test_a_ciphertext_that_was_changed_anywhere_does_not_open() -> None:
    sealed = encrypt(ring("a"), PROVIDER_KIND, "openai", VALUE)
    data = b64decode(sealed.sealed)
    for place in range(len(data)):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(DecryptionFailed):
            decrypt(ring("a"), structs.replace(sealed, sealed=b64encode(changed).decode()))
    for nonsense in ("", "a", "no base64!", "ä"):
        with pytest.raises(DecryptionFailed, match="was altered"):
            decrypt(ring("a"), structs.replace(sealed, sealed=nonsense))
    for cut in (0, 5, 12, len(data) - 1):
        with pytest.raises(DecryptionFailed):
            decrypt(ring("a"), structs.replace(sealed, sealed=b64encode(data[:cut]).decode()))


def test_another_key_opens_nothing_and_the_message_says_which_is_missing() -> None:
    sealed = encrypt(ring("a"), PROVIDER_KIND, "openai", VALUE)
    for keys in (ring("b"), None):
        with pytest.raises(DecryptionFailed, match=f"key {sealed.key_id}, which is missing"):
            decrypt(keys, sealed)
    pretended = structs.replace(sealed, key_id=ring("b").current.id)
    with pytest.raises(DecryptionFailed, match="was altered"):
        decrypt(ring("b"), pretended)


def test_without_a_key_nothing_is_sealed() -> None:
    with pytest.raises(NoSecretKey, match=SECRET_KEY_VARIABLE):
        encrypt(None, PROVIDER_KIND, "openai", VALUE)


def test_no_key_is_ever_printed() -> None:
    keys = ring("k")
    for text in (repr(keys), str(keys.current), repr(AuthConfig(keyring=keys))):
        assert "kkkk" not in text
        assert keys.current.id in text


# --- where keys come from ---


def test_keys_are_read_from_the_environment_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    assert find_keyring({}, file) is None
    assert find_keyring({}, None) is None
    made = make_key_file(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert make_key_file(file).current.id == made.current.id
    found = find_keyring({}, file)
    assert found is not None
    assert found.current.id == made.current.id
    of_environment = b64encode(b"e" * 32).decode()
    found = find_keyring({SECRET_KEY_VARIABLE: of_environment}, file)
    assert found is not None
    assert found.current.id == ring("e").current.id


def test_a_key_is_taken_in_both_kinds_of_base64() -> None:
    key = bytes(range(224, 256))
    plain, safe = b64encode(key).decode(), urlsafe_b64encode(key).decode()
    assert plain != safe
    ids = {keyring(text).current.id for text in (plain, safe, safe.rstrip("="), f" {plain}\n")}
    assert len(ids) == 1


@pytest.mark.parametrize("text", ["", " ", ",", "short", "?" * 44, "A" * 44, "ü" * 43])
def test_a_key_that_is_none_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(ConfigError, match=SECRET_KEY_VARIABLE) as refused:
        keyring(text)
    assert len(text) < 5 or text not in str(refused.value)


# --- rows ---


async def test_a_key_of_a_provider_is_stored_sealed_and_never_given_out(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        for value in ("an older one", VALUE):
            answer = await here.ask("PUT", "/providers/openai", {"key": value}, by="root")
            assert (answer.status, answer.body) == (204, None)
        assert set(await here.db.read(stored_at)) == {"openai"}
        ((kind, name, key_id, sealed),) = await here.rows(
            "SELECT kind, name, key_id, sealed FROM secrets"
        )
        assert (kind, name) == (PROVIDER_KIND, "openai")
        assert TEAM.keyring is not None
        assert key_id == TEAM.keyring.current.id
        assert VALUE not in sealed
        (kept,) = await here.db.read(lambda tx: encrypted_secrets(tx, PROVIDER_KIND))
        assert decrypt(TEAM.keyring, kept) == VALUE
        assert (await here.ask("DELETE", "/providers/openai", by="root")).status == 204
        assert await here.db.read(stored_at) == {}
        again = await here.ask("DELETE", "/providers/openai", by="root")
        assert (again.status, again.kind) == (404, "provider_not_found")


async def test_without_a_key_nothing_is_stored_and_the_answer_says_what_to_set(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock, access=AuthConfig(local=False)) as here:
        await here.user("root", "admin")
        answer = await here.ask("PUT", "/providers/openai", {"key": VALUE}, by="root")
        assert (answer.status, answer.kind) == (409, "no_secret_key")
        assert SECRET_KEY_VARIABLE in answer.body["detail"]
        assert VALUE not in repr(answer.body)
        assert await here.rows("SELECT name FROM secrets") == []


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("nobody", {"key": VALUE}, 404),
        ("openai", {"key": ""}, 422),
        ("openai", {"key": "sk a"}, 204),
        ("openai", {"key": "sk\n"}, 422),
        ("openai", {"key": "sk\x00"}, 422),
        ("openai", {"key": "ключ"}, 422),
        ("openai", {"key": "x" * 9000}, 422),
        ("openai", {"secret": VALUE}, 422),
        ("openai", {}, 422),
    ],
)
async def test_a_key_that_cannot_be_is_refused(
    db: Database, clock: Clock, name: str, body: dict[str, str], status: int
) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        answer = await here.ask("PUT", f"/providers/{name}", body, by="root")
        assert answer.status == status
        assert VALUE not in repr(answer.body)


async def test_rotation_seals_everything_with_the_new_key_and_the_old_one_may_go(
    db: Database,
) -> None:
    for name, letter in (("openai", "a"), ("groq", "b"), ("mistral", "c")):
        sealed = encrypt(ring(letter), PROVIDER_KIND, name, f"key of {name}")
        await db.write(lambda tx, sealed=sealed: store_secret(tx, sealed))  # type: ignore[misc]
    new = ring("c", "b", "a")
    assert await db.write(lambda tx: rotate(tx, new)) == 2
    assert await db.write(lambda tx: rotate(tx, new)) == 0
    for kept in await db.read(lambda tx: encrypted_secrets(tx, PROVIDER_KIND)):
        assert kept.key_id == new.current.id
        assert decrypt(ring("c"), kept) == f"key of {kept.name}"


async def test_a_rotation_that_lacks_a_key_changes_nothing(db: Database) -> None:
    for name, letter in (("anthropic", "a"), ("openai", "b")):
        sealed = encrypt(ring(letter), PROVIDER_KIND, name, VALUE)
        await db.write(lambda tx, sealed=sealed: store_secret(tx, sealed))  # type: ignore[misc]
    before = await db.read(lambda tx: encrypted_secrets(tx, PROVIDER_KIND))
    with pytest.raises(DecryptionFailed):
        await db.write(lambda tx: rotate(tx, ring("c", "a")))
    assert await db.read(lambda tx: encrypted_secrets(tx, PROVIDER_KIND)) == before


async def test_a_row_that_somebody_swapped_does_not_open(db: Database) -> None:
    keys = ring("a")
    for name in ("groq", "openai"):
        sealed = encrypt(keys, PROVIDER_KIND, name, f"key of {name}")
        await db.write(lambda tx, sealed=sealed: store_secret(tx, sealed))  # type: ignore[misc]
    await db.write(
        lambda tx: tx.execute(
            "UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE name = 'groq') "
            "WHERE name = 'openai'"
        )
    )
    groq, openai = await db.read(lambda tx: encrypted_secrets(tx, PROVIDER_KIND))
    assert decrypt(keys, groq) == "key of groq"
    with pytest.raises(DecryptionFailed):
        decrypt(keys, openai)


def test_a_server_that_seals_nothing_does_not_import_the_cipher() -> None:
    program = "import sys, holdfast.server.app; print('cryptography' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
