"""The key that secrets are sealed with is replaced, for all of them or for none."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path

import pytest

from holdfast.cli.secrets import keyring_of, reencrypt, summary
from holdfast.config import ChatTarget
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import Ports, wall_clock
from holdfast.server.identity.encrypted_secrets import (
    PROVIDER_KIND,
    SECRET_KEY_VARIABLE,
    DecryptionFailed,
    decrypt,
    encrypt,
    encrypted_secrets,
    keyring,
    store_secret,
)
from holdfast.store.url import open_database
from tests.cli.test_main import environ, holdfast
from tests.cli.test_serve import serving


def new_key() -> str:
    return b64encode(os.urandom(32)).decode()


OLD, NEW = new_key(), new_key()


def rotate(home: Path, keys: str, *argv: str, code: int = 0) -> str:
    env = environ(HOLDFAST_HOME=str(home), **({SECRET_KEY_VARIABLE: keys} if keys else {}))
    done = holdfast("secrets", "rotate", *argv, env=env)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    return done.stderr


async def test_what_an_older_key_has_sealed_is_sealed_with_the_first_and_written_down(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/chats.db"
    async with open_database(url, now=wall_clock) as db:
        for name, value in (("openai", "sk-1"), ("groq", "sk-2")):
            sealed = encrypt(keyring(OLD), PROVIDER_KIND, name, value)
            await db.write(lambda tx, sealed=sealed: store_secret(tx, sealed))  # type: ignore[misc]
        both = keyring(f"{NEW} {OLD}")
        assert await reencrypt(db, both, Ports()) == 2
        kept = await db.read(lambda tx: encrypted_secrets(tx, PROVIDER_KIND))
        assert [decrypt(keyring(NEW), one) for one in kept] == ["sk-2", "sk-1"]
        audit = "SELECT action, subject, address FROM audit"
        written = await db.read(lambda tx: tx.fetch(audit))
        assert [tuple(row) for row in written] == [
            ("secret.rotate", both.current.id, "command line")
        ]
        assert await reencrypt(db, both, Ports()) == 0
        assert len(await db.read(lambda tx: tx.fetch(audit))) == 1


def test_it_is_done_to_the_database_that_the_server_has_here(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "0") as server:
        url = server.started()
        server.put(f"{url}/api/v1/providers/openai", {"key": "sk-stored"})
        said = rotate(tmp_path, "", code=1)
        assert "is open in another process: stop it, do this, and start it again" in said
        assert server.end() == 0
    file = tmp_path / "secret.key"
    old = file.read_text()
    assert "It is the only key: to replace it, put a new one before it." in rotate(tmp_path, "")
    file.write_text(f"{NEW} {old}")
    assert "1 secret re-encrypted with the first key" in rotate(tmp_path, "")
    file.write_text(NEW)
    with serving(tmp_path, "--listen", "0") as again:
        again.started()
        assert "assistant answers with openai:" in again.until("answers")


async def test_without_the_older_key_nothing_is_changed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/chats.db"
    sealed = encrypt(keyring(OLD), PROVIDER_KIND, "openai", "sk-1")
    async with open_database(url, now=wall_clock) as db:
        await db.write(lambda tx: store_secret(tx, sealed))
        with pytest.raises(DecryptionFailed):
            await reencrypt(db, keyring(NEW), Ports())
        assert await db.read(lambda tx: encrypted_secrets(tx, PROVIDER_KIND)) == (sealed,)
    said = rotate(tmp_path, NEW, "--database", url, code=1)
    assert "nothing was changed: the secret provider 'openai' was encrypted with the key" in said


def test_where_there_is_no_database_none_is_made(tmp_path: Path) -> None:
    home = tmp_path / "none"
    said = rotate(home, NEW, code=2)
    assert f"there is no database in {home} yet" in said
    assert not home.exists()


def test_without_any_key_it_says_where_one_is_put(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=f"set {SECRET_KEY_VARIABLE}, or write the keys to {tmp_path}/secret.key"
    ):
        keyring_of(ChatTarget(data=str(tmp_path)), {})


@pytest.mark.parametrize(
    ("count", "says"), [(1, "1 secret re-encrypted"), (1200, "1,200 secrets re-encrypted")]
)
def test_it_says_how_many_and_what_to_do_next(count: int, says: str) -> None:
    words = summary(count, keyring(f"{NEW} {OLD}"))
    assert words.startswith(says)
    assert words.endswith("remove the other keys")
