"""Errors of the driver become errors of the store, by a table."""

from __future__ import annotations

import asyncpg
import pytest
from asyncpg.exceptions import InternalClientError

from holdfast.store.database import NotWritable, StoreError, Unavailable, Violation
from holdfast.store.postgres.errors import (
    ERRORS_BY_SQLSTATE,
    LostConnection,
    TransactionConflict,
    store_error,
)


def server_says(code: str) -> asyncpg.PostgresError:
    error: asyncpg.PostgresError = asyncpg.PostgresError.new(
        {"C": code, "M": "so it is", "S": "ERROR"}
    )
    assert getattr(error, "sqlstate", None) == code
    return error


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("23505", Violation, "so it is"),
        ("23503", Violation, "so it is"),
        ("P0001", Violation, "so it is"),
        ("HF001", Violation, "so it is"),
        ("22021", Violation, "cannot hold this value: so it is"),
        ("40001", TransactionConflict, "so it is"),
        ("40P01", TransactionConflict, "so it is"),
        ("55P03", TransactionConflict, "locked by others"),
        ("53100", NotWritable, "disk of the database is full"),
        ("53300", Unavailable, "too many connections"),
        ("53400", Unavailable, "out of resources"),
        ("25006", NotWritable, "read-only"),
        ("57014", Unavailable, "took too long"),
        ("57P01", LostConnection, "shutting down"),
        ("57P03", LostConnection, "starting up"),
        ("08006", LostConnection, "lost"),
        ("42P01", StoreError, "42P01"),
    ],
)
def test_a_refusal_of_the_server_has_a_kind_and_a_sentence(
    code: str, kind: type[StoreError], words: str
) -> None:
    error = store_error(server_says(code), closed=False)
    assert type(error) is kind
    assert words in str(error)
    assert "so it is" in str(error)


def test_every_refusal_that_ended_the_connection_is_a_lost_connection() -> None:
    for code in ERRORS_BY_SQLSTATE:
        assert type(store_error(server_says(code.ljust(5, "0")), closed=True)) is LostConnection


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError("reset"),
        TimeoutError(),
        InternalClientError("out of step"),
    ],
)
def test_a_connection_that_cannot_be_used_any_more_is_lost(error: Exception) -> None:
    assert type(store_error(error, closed=False)) is LostConnection


def test_what_the_driver_says_of_a_closed_connection_means_that_it_is_lost() -> None:
    error = asyncpg.InterfaceError("connection is closed")
    assert type(store_error(error, closed=True)) is LostConnection
    assert type(store_error(error, closed=False)) is StoreError


def test_what_is_no_error_of_the_database_stays_what_it_is() -> None:
    error = KeyError("mine")
    assert store_error(error, closed=False) is error
