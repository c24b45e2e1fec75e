"""`:named` parameters become `$1`, or values in an order, and nothing else does."""

from __future__ import annotations

import pytest

from holdfast.store.database import StoreError
from holdfast.store.named_parameters import Statement, numbered, value_order


def test_names_are_numbered_in_the_order_in_which_they_come() -> None:
    assert numbered("UPDATE t SET a = :b WHERE c=:a AND (:c_1)") == Statement(
        "UPDATE t SET a = $1 WHERE c=$2 AND ($3)", ("b", "a", "c_1")
    )


def test_a_name_that_comes_twice_is_one_parameter() -> None:
    assert numbered("SELECT :a, :b, :a") == Statement("SELECT $1, $2, $1", ("a", "b"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1::bigint, x::text[]",
        "SELECT ':a', 'it''s :a', ''':a'",
        r"SELECT E'it\'s :a', e'\\:a'",
        'SELECT ":a", "x"":a"',
        "SELECT 1 -- :a, it's :b\n",
        "SELECT /* :a 'x */ 1",
        "SELECT $$ :a ' $$, $tag$ :a $$ :b $tag$",
        "SELECT a[1:n], a[x[1]:n]",
        "SELECT 10:20",
    ],
)
def test_a_colon_elsewhere_is_left_alone(sql: str) -> None:
    assert numbered(sql) == Statement(sql, ())


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT :a::bigint", "SELECT $1::bigint"),
        ("SELECT 'x', :a -- :b", "SELECT 'x', $1 -- :b"),
        ("SELECT x'00', :a", "SELECT x'00', $1"),
        ("SELECT ''||:a||''", "SELECT ''||$1||''"),
        ("/* ' */ SELECT :a /* ' */", "/* ' */ SELECT $1 /* ' */"),
        (r"SELECT '\', :a", r"SELECT '\', $1"),
        ("SELECT $$ :b $$, ANY(:a)", "SELECT $$ :b $$, ANY($1)"),
    ],
)
def test_a_parameter_beside_such_a_colon_is_found(sql: str, text: str) -> None:
    assert numbered(sql) == Statement(text, ("a",))


def test_values_are_taken_in_the_order_of_their_names_each_once() -> None:
    take = value_order("SELECT :b, :a, :b, :c")
    assert take.values({"a": 1, "b": 2, "c": 3, "more": 4}, now=9) == (2, 1, 3)
    assert value_order("SELECT :a").values({"a": 1}, now=9) == (1,)
    assert value_order("SELECT 1").values({}, now=9) == ()


def test_the_time_is_in_its_place_and_given_by_nobody() -> None:
    assert value_order("SELECT :a, :now, :b, :now").values({"a": 1, "b": 2}, now=9) == (1, 9, 2)
    assert value_order("SELECT :now").values({"now": 1}, now=9) == (9,)


@pytest.mark.parametrize("sql", ["SELECT :a", "SELECT :b, :a, :now"])
def test_a_value_that_is_missing_is_named(sql: str) -> None:
    with pytest.raises(StoreError, match="no value was given for :a"):
        value_order(sql).values({"b": 1}, now=9)
