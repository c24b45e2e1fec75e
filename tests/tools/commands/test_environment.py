"""The environment of a command: an allow-list that can be extended by name."""

from __future__ import annotations

import pytest

from holdfast.kernel.errors import ConfigError
from holdfast.tools.commands.environment import check, named, usual, without_directories

SECRETS = ["ANTHROPIC_API_KEY", "HOLDFAST_SECRET_KEY", "HOLDFAST_DATABASE", "PGPASSWORD"]


def test_only_what_the_list_names_is_passed() -> None:
    given = {"HOME": "/x", "LC_ALL": "C", "AWS_SECRET_ACCESS_KEY": "s", "DATABASE_URL": "s"}
    assert usual(given) == {"HOME": "/x", "LC_ALL": "C"}


def test_more_can_be_named_also_by_a_pattern() -> None:
    given = {"AWS_PROFILE": "a", "AWS_REGION": "b", "GH_TOKEN": "c", "OTHER": "d"}
    more = named(given, ["AWS_*", "GH_TOKEN"])
    assert more == {"AWS_PROFILE": "a", "AWS_REGION": "b", "GH_TOKEN": "c"}


@pytest.mark.parametrize("name", SECRETS)
def test_a_key_or_a_setting_is_passed_only_when_it_is_named_in_full(name: str) -> None:
    assert named({name: "secret"}, ["*"]) == {}
    assert named({name: "secret"}, [name]) == {name: "secret"}


def test_nothing_is_changed_in_place() -> None:
    given = {"HOME": "/x", "PWD": "/gone"}
    assert "PWD" not in without_directories(given)
    assert given == {"HOME": "/x", "PWD": "/gone"}


@pytest.mark.parametrize("name", ["", "A=b", " A", "a\0b"])
def test_what_cannot_be_a_variable_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is not the name of a variable: use a name such as"):
        check([name])
