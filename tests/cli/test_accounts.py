"""Users and tokens at a server, over a bad line."""

from __future__ import annotations

from holdfast.cli.account_backends import ServerAccounts, TokenRequest
from holdfast.client.connect import reach
from holdfast.server.identity.api_tokens import list_tokens
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.client.served import ANN, connected, proxied
from tests.server.api import agent
from tests.server.test_any_request import add_user


async def test_a_token_whose_answer_was_lost_is_revoked_and_another_is_made(
    db: Database, clock: Clock
) -> None:
    await db.write(add_user)
    asked: list[bytes] = []

    def cut_the_first(request: bytes) -> int | None:
        if request.startswith(b"POST "):
            asked.append(request)
        return 0 if len(asked) == 1 else None

    async with (
        connected(db, [agent((), clock)], clock, worker=None) as (api, _),
        proxied(api.url) as proxy,
        reach(proxy.url, ANN) as line,
    ):
        proxy.cut_after = cut_the_first
        made = await ServerAccounts(line).issue(None, TokenRequest("ci", ("read",), 1))
        assert made.secret.startswith("hf_")
        known = {one.id: one for one in await db.read(lambda tx: list_tokens(tx, "ann"))}
        del known["test"]
        assert known.pop(made.token.id).revoked_at is None
        assert [one.revoked_at is not None for one in known.values()] == [True]
