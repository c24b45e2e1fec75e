"""Users: their roles, and that somebody can always let others in."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from holdfast.server.identity.expiring_cache import CACHE_SECONDS
from holdfast.server.identity.users import LastAdmin, change_user
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.server.identity.team_server import house


async def test_an_administrator_makes_a_user_and_lets_them_in(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        made = await here.ask("POST", "/users", {"name": " Ann  Bell "}, by="root")
        assert made.status == 201
        assert (made.body["name"], made.body["role"]) == ("Ann Bell", "member")
        asked = {"name": "first", "user": made.body["id"]}
        token = (await here.ask("POST", "/tokens", asked, by="root")).body["token"]
        me = (await here.ask("GET", "/me", token=token)).body
        assert (me["user"], me["name"], me["mode"]) == (made.body["id"], "Ann Bell", "team")


async def test_a_name_is_one_users_alone(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        answer = await here.ask("POST", "/users", {"name": "root"}, by="root")
        assert (answer.status, answer.kind) == (409, "name_taken")


async def test_a_user_is_made_once_for_a_key(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        key = {"Idempotency-Key": "k"}
        first = await here.ask("POST", "/users", {"name": "ann"}, by="root", headers=key)
        again = await here.ask("POST", "/users", {"name": "ann"}, by="root", headers=key)
        assert (again.status, again.body) == (201, first.body)


async def test_who_is_not_found_is_told_by_what_they_were_looked_for(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        await here.ask("POST", "/users", {"name": "bob"}, by="root")
        for method, path, body in (
            ("POST", "/tokens", {"name": "laptop", "user": "bob"}),
            ("PATCH", "/users/bob", {"disabled": True}),
        ):
            answer = await here.ask(method, path, body, by="root")
            assert answer.kind == "user_not_found"
            assert "no user with the id 'bob': GET /users lists them" in answer.body["detail"]


async def test_users_are_listed_in_pages_by_name(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        for name in ("cid", "ann", "bob"):
            await here.user(name)
        seen: list[str] = []
        after: Any = ""
        while after is not None:
            page = (await here.ask("GET", f"/users?limit=2&after={after}", by="root")).body
            seen += [user["name"] for user in page["users"]]
            after = page["next"]
        assert seen == ["ann", "bob", "cid", "root"]


async def test_a_disabled_user_is_out_within_five_seconds_and_back_when_let_in(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        await here.user("ann")
        assert (await here.ask("GET", "/me", by="ann")).status == 200
        out = await here.ask("PATCH", "/users/ann", {"disabled": True}, by="root")
        assert out.body["disabled_at"] == clock.now()
        await anyio.sleep(CACHE_SECONDS)
        answer = await here.ask("GET", "/me", by="ann")
        assert answer.status == 401
        assert "disabled" in answer.body["detail"]
        back = await here.ask("PATCH", "/users/ann", {"disabled": False}, by="root")
        assert back.body["disabled_at"] is None
        await anyio.sleep(CACHE_SECONDS)
        assert (await here.ask("GET", "/me", by="ann")).status == 200


async def test_a_new_role_is_taken_up_within_five_seconds(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        await here.user("ann", "admin")
        assert (await here.ask("GET", "/users", by="ann")).status == 200
        await here.ask("PATCH", "/users/ann", {"role": "viewer"}, by="root")
        await anyio.sleep(CACHE_SECONDS)
        assert (await here.ask("GET", "/users", by="ann")).status == 403


@pytest.mark.parametrize("change", [{"role": "member"}, {"disabled": True}, {"role": "viewer"}])
async def test_the_last_administrator_stays(
    db: Database, clock: Clock, change: dict[str, Any]
) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        await here.user("out", "admin")
        await here.ask("PATCH", "/users/out", {"disabled": True}, by="root")
        answer = await here.ask("PATCH", "/users/root", change, by="root")
        assert (answer.status, answer.kind) == (409, "last_admin")
        await here.ask("PATCH", "/users/out", {"disabled": False}, by="root")
        assert (await here.ask("PATCH", "/users/root", change, by="root")).status == 200


async def test_the_user_of_a_local_server_is_no_administrator_of_a_team(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        await here.write(
            "INSERT INTO users (id, name, role, created_at) VALUES ('', '', 'admin', 1)"
        )
        answer = await here.ask("PATCH", "/users/root", {"role": "member"}, by="root")
        assert answer.kind == "last_admin"
        users = (await here.ask("GET", "/users", by="root")).body["users"]
        assert [user["id"] for user in users] == ["root"]


async def test_two_administrators_cannot_both_leave_at_once(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("a", "admin")
        await here.user("b", "admin")
        outcomes: list[str] = []

        async def leave(id: str) -> None:
            try:
                await here.db.write(lambda tx: change_user(tx, id, role="member"))
                outcomes.append("left")
            except LastAdmin:
                outcomes.append("stays")

        async with anyio.create_task_group() as group:
            group.start_soon(leave, "a")
            group.start_soon(leave, "b")
        assert sorted(outcomes) == ["left", "stays"]


async def test_a_user_that_is_not_there_is_not_changed(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        answer = await here.ask("PATCH", "/users/nobody", {"role": "admin"}, by="root")
        assert (answer.status, answer.kind) == (404, "user_not_found")


@pytest.mark.parametrize("body", [{"name": ""}, {"name": "x", "role": "god"}, {"name": "x\x00"}])
async def test_a_user_that_cannot_be_is_refused(
    db: Database, clock: Clock, body: dict[str, Any]
) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        assert (await here.ask("POST", "/users", body, by="root")).status == 422
