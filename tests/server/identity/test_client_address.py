"""Where a request came from: a proxy of ours is believed, nobody else is."""

from __future__ import annotations

import pytest

from holdfast.kernel.errors import ConfigError
from holdfast.server.identity.auth_config import AuthConfig
from holdfast.server.identity.client_address import came_from
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.server.identity.team_server import TEAM, house

PROXIES = ("10.0.0.0/8", "::1")


@pytest.mark.parametrize(
    ("remote", "forwarded", "address"),
    [
        ("203.0.113.9", [], "203.0.113.9"),
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["1.1.1.1, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["1.1.1.1", "198.51.100.1, 10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["198.51.100.1, nonsense"], "10.0.0.1"),
        ("::1", ["2001:db8::1"], "2001:db8::1"),
        ("", ["198.51.100.1"], ""),
    ],
)
def test_the_nearest_that_is_no_proxy_of_ours_is_where_it_came_from(
    remote: str, forwarded: list[str], address: str
) -> None:
    assert came_from(remote, forwarded, PROXIES) == address


def test_without_proxies_nobody_is_believed() -> None:
    assert came_from("127.0.0.1", ["1.1.1.1"], ()) == "127.0.0.1"


def test_a_proxy_that_is_no_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="use addresses or networks"):
        AuthConfig(proxies=("balancer",))


async def test_the_audit_log_has_the_address_in_front_of_the_proxy(
    db: Database, clock: Clock
) -> None:
    access = AuthConfig(local=False, keyring=TEAM.keyring, proxies=("127.0.0.1",))
    async with house(db, clock, access=access) as here:
        await here.user("root", "admin")
        headers = {"X-Forwarded-For": "198.51.100.1"}
        await here.ask("POST", "/users", {"name": "ann"}, by="root", headers=headers)
        await here.ask("GET", "/me", token="hf_" + "x" * 43, headers=headers)
        assert await here.rows("SELECT address FROM audit") == [("198.51.100.1",)] * 2
