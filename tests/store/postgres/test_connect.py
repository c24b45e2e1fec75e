"""Why there is no connection, said without the password."""

from __future__ import annotations

import pytest

from holdfast.store.postgres.connect import explain_connect_error


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("postgresql://me:secret@db.example:5433/chats?sslmode=require", "db.example:5433"),
        ("postgresql://me:secret@one:1,two:2/chats", "one:1,two:2"),
        ("postgresql://db.example/chats?password=secret", "db.example"),
        ("postgresql:///chats", "PostgreSQL cannot be reached"),
        ("postgresql://me:secret/1@db.example/chats", "PostgreSQL cannot be reached"),
        ("postgresql://[secret", "PostgreSQL cannot be reached"),
    ],
)
def test_the_address_is_shown_and_the_password_is_not(url: str, where: str) -> None:
    said = explain_connect_error(ConnectionRefusedError("refused"), url)
    assert where in said
    assert "refused" in said
    assert "secret" not in said


def test_a_server_that_does_not_answer_is_told_from_one_that_refuses() -> None:
    assert "did not answer within 10 s" in explain_connect_error(
        TimeoutError(), "postgresql://db/chats"
    )
