"""The audit log: every change has its entry, and no refusal can flood it."""

from __future__ import annotations

import anyio
import pytest

from holdfast.server.identity import audit
from holdfast.server.identity.authenticator import SESSION_KEY_HEADER
from holdfast.server.identity.refusal_audit import (
    MAX_ENTRIES_PER_ADDRESS,
    MAX_ENTRIES_PER_MINUTE,
    RefusalCounter,
)
from holdfast.store.database import Database, Tx, Unavailable, Violation
from holdfast.testing import Clock
from tests.server.identity.team_server import cookie_of, house, id_of


async def test_whatever_is_changed_stands_in_the_log(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        chat = await here.chat("root")
        made = await here.ask("POST", "/users", {"name": "ann"}, by="root")
        ann = made.body["id"]
        await here.ask("PATCH", f"/users/{ann}", {"role": "viewer"}, by="root")
        asked = {"name": "x", "user": ann, "scopes": ["read"]}
        token = (await here.ask("POST", "/tokens", asked, by="root")).body["info"]["id"]
        await here.ask("DELETE", f"/tokens/{token}", by="root")
        shared = await here.ask("POST", f"/chats/{chat}/shares", {"user": "ann"}, by="root")
        await here.ask("DELETE", f"/chats/{chat}/shares/{shared.body['info']['id']}", by="root")
        await here.ask("PUT", "/providers/openai", {"key": "sk-secret-value"}, by="root")
        await here.ask("DELETE", "/providers/openai", by="root")
        await here.ask("DELETE", f"/chats/{chat}", by="root")
        begun = await here.ask("POST", "/session", {"token": here.tokens["root"]})
        ((session,),) = await here.rows("SELECT id FROM sessions")
        headers = {SESSION_KEY_HEADER: begun.body["key"]}
        await here.ask("DELETE", "/session", cookie=cookie_of(begun), headers=headers)
        assert await here.audited() == [
            ("user.create", ann, "root"),
            ("user.change", ann, "root"),
            ("token.issue", token, "root"),
            ("token.revoke", token, "root"),
            ("share.create", chat, "root"),
            ("share.revoke", chat, "root"),
            ("secret.store", "provider/openai", "root"),
            ("secret.remove", "provider/openai", "root"),
            ("chat.delete", chat, "root"),
            ("session.begin", session, "root"),
            ("session.end", session, "root"),
        ]
        log = await here.rows("SELECT detail, token_id, address, at FROM audit")
        assert "sk-secret" not in repr(log)
        shown = {id_of(here.tokens["root"]), session}
        assert all(token in shown and address == "127.0.0.1" for _, token, address, _ in log)
        assert all(at == clock.now() for *_, at in log)


async def test_a_chat_that_was_deleted_is_in_the_log_with_all_below_it(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        top, below = await here.chat("ann"), await here.chat("ann")
        await here.write(
            "UPDATE chats SET parent_id = :top, root_id = :top WHERE id = :id", top=top, id=below
        )
        for _ in range(2):
            key = {"Idempotency-Key": "k"}
            answer = await here.ask("DELETE", f"/chats/{top}", by="ann", headers=key)
            assert answer.status == 204
        rows = await here.rows("SELECT action, subject, user_id, detail FROM audit")
        assert rows == [("chat.delete", top, "ann", f'{{"below":["{below}"]}}')]


async def test_what_was_not_done_is_not_in_the_log(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        for answer in (
            await here.ask("POST", "/users", {"name": "root"}, by="root"),
            await here.ask("PATCH", "/users/root", {"role": "member"}, by="root"),
            await here.ask("DELETE", "/tokens/nothing", by="root"),
            await here.ask("DELETE", "/providers/openai", by="root"),
            await here.ask("DELETE", "/chats/nothing", by="root"),
        ):
            assert answer.status in (404, 409)
        assert await here.audited() == []


async def test_what_a_key_gives_again_is_in_the_log_once(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        for _ in range(3):
            key = {"Idempotency-Key": "k"}
            await here.ask("POST", "/users", {"name": "ann"}, by="root", headers=key)
        assert [action for action, _, _ in await here.audited()] == ["user.create"]


async def test_the_log_is_read_in_pages_the_latest_first(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        for n in range(5):
            await here.ask("POST", "/users", {"name": f"u{n}"}, by="root")
            clock.advance(0 if n % 2 else 1)
        seen, asked = [], "/audit?limit=2"
        while True:
            page = (await here.ask("GET", asked, by="root")).body
            seen += [each["detail"]["name"] for each in page["entries"]]
            if page["next"] is None:
                break
            asked = f"/audit?limit=2&before={page['next']}"
        assert sorted(seen) == [f"u{n}" for n in range(5)]
        assert [name for name in seen if name in ("u4", "u0")] == ["u4", "u0"]
        first = page["entries"][0] if page["entries"] else {}
        assert first.get("address", "127.0.0.1") == "127.0.0.1"


async def test_the_log_is_narrowed_to_a_user_and_to_an_action(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        await here.user("ann")
        await here.ask("POST", "/users", {"name": "bob"}, by="root")
        await here.ask("POST", "/tokens", {"name": "x"}, by="ann")

        async def actions(query: str) -> list[str]:
            page = (await here.ask("GET", f"/audit?{query}", by="root")).body
            return [each["action"] for each in page["entries"]]

        assert await actions("user=ann") == ["token.issue"]
        assert await actions("action=user.create") == ["user.create"]
        assert await actions("user=ann&action=user.create") == []
        wrong = await here.ask("GET", "/audit?action=everything", by="root")
        assert wrong.status == 400


@pytest.mark.parametrize("before", ["x", "-1.a", "9999999999999999999.a", "."])
async def test_a_place_that_is_not_in_the_log_is_refused(
    db: Database, clock: Clock, before: str
) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        answer = await here.ask("GET", f"/audit?before={before}", by="root")
        assert answer.status == 400


async def test_an_entry_does_not_change(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        await here.ask("POST", "/users", {"name": "bob"}, by="root")
        with pytest.raises(Violation, match="does not change"):
            await here.write("UPDATE audit SET user_id = 'ann'")


# --- refusals ---


async def test_a_refusal_worth_knowing_is_in_the_log(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        await here.ask("GET", "/users", by="ann")
        await here.ask("GET", "/me", token="hf_" + "x" * 43)
        await here.ask("GET", "/me", by="ann", headers={"Host": "evil.example"})
        await here.ask("GET", "/me", by="ann", headers={"Origin": "https://evil.example"})
        await here.ask("POST", "/session", {"token": "nonsense"})
        rows = await here.rows(
            "SELECT subject, user_id, detail FROM audit ORDER BY at, length(id), id"
        )
        assert rows == [
            ("GET /api/v1/users", "ann", '{"kind":"forbidden"}'),
            ("GET /api/v1/me", None, '{"kind":"unauthenticated"}'),
            ("GET /api/v1/me", None, '{"kind":"misdirected"}'),
            ("GET /api/v1/me", None, '{"kind":"cross_site"}'),
            ("POST /api/v1/session", None, '{"kind":"unauthenticated"}'),
        ]


async def test_what_is_no_refusal_is_not(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        await here.ask("GET", "/me")
        await here.ask("GET", "/nowhere", by="ann")
        await here.ask("GET", "/chats/nothing/shares", by="ann")
        assert await here.audited() == []


async def test_nobody_fills_the_log_by_being_refused(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        for _ in range(MAX_ENTRIES_PER_ADDRESS * 3):
            await here.ask("GET", "/me", token="hf_" + "x" * 43)
        assert len(await here.audited()) == MAX_ENTRIES_PER_ADDRESS
        await anyio.sleep(60)
        await here.ask("GET", "/me", token="hf_" + "x" * 43)
        assert len(await here.audited()) == MAX_ENTRIES_PER_ADDRESS + 1


async def test_not_even_many_together() -> None:
    tally = RefusalCounter()
    allowed = [tally.room(f"10.0.0.{n}") for n in range(MAX_ENTRIES_PER_MINUTE * 2)]
    assert sum(allowed) == MAX_ENTRIES_PER_MINUTE


async def test_a_path_that_no_column_holds_is_written_down_all_the_same(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        headers = {"Origin": "https://evil.example"}
        answer = await here.ask("GET", "/a%00b" + "x" * 300, by="ann", headers=headers)
        assert answer.status == 403
        ((_, subject, _),) = await here.audited()
        assert "\\0" in subject
        assert len(subject) == 200


async def test_what_is_too_old_is_removed_and_nothing_else(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann", "admin")
        await here.ask("POST", "/users", {"name": "old"}, by="ann")
        clock.advance(364 * 24 * 3600)
        await here.user("eve", "admin")
        await here.ask("POST", "/users", {"name": "young"}, by="eve")
        assert len(await here.audited()) == 2
        clock.advance(1.5 * 24 * 3600)
        await anyio.sleep(audit.PRUNE_INTERVAL + 60)
        (left,) = await here.audited()
        assert left[2] == "eve"


async def test_more_than_is_removed_at_once_is_removed(db: Database, clock: Clock) -> None:
    async def fill(tx: Tx) -> None:
        values = "('old' || :n, 1, '', 'refused', '', '{}')"
        await tx.execute_many(
            f"INSERT INTO audit (id, at, address, action, subject, detail) VALUES {values}",
            [{"n": str(n)} for n in range(2 * audit.PRUNE_BATCH + 1)],
        )

    await db.write(fill)
    async with house(db, clock) as here:
        await anyio.sleep(1)
        assert await here.audited() == []


async def test_the_log_is_kept_short_again_when_the_database_is_back(clock: Clock) -> None:
    asked = 0

    class Down:
        async def write(self, change: object) -> int:
            nonlocal asked
            asked += 1
            raise Unavailable("it is away")

    with anyio.move_on_after(2.5 * audit.PRUNE_INTERVAL):
        await audit.keep_pruned(Down(), 365)  # type: ignore[arg-type]
    assert asked == 3
