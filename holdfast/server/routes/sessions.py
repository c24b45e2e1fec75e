"""Signing in and out, of a browser."""

from __future__ import annotations

from msgspec import Struct, structs

from holdfast.server.identity import sessions
from holdfast.server.identity.audit import entry, record
from holdfast.server.identity.credential import csrf_of, new_secret
from holdfast.server.identity.people import owner_of
from holdfast.server.operation import Call, operation
from holdfast.server.policy import Caller
from holdfast.server.problem import BadRequest
from holdfast.store.database import Tx


class SignIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: str


class Session(Struct, frozen=True):
    user: str
    csrf: str
    """To be sent as X-CSRF-Token with everything but GET. GET /me gives it again."""


@operation("POST", "/session", "Sign in: exchange a token for a cookie", status=201, keyed=False)
async def post_session(call: Call, body: SignIn) -> Session:
    """The cookie is for this server alone, and no script can read it."""
    id, secret = call.server.ports.new_id(), new_secret("session")

    async def change(tx: Tx) -> Caller:
        owner = await owner_of(tx, body.token, call.server.access)
        assert owner.token is not None
        await sessions.begin(tx, id, owner.token, secret)
        await record(tx, entry(structs.replace(call, caller=owner), "session.begin", id))
        return owner

    owner = await call.server.db.write(change)
    call.headers["Set-Cookie"] = call.server.access.cookie.holding(secret)
    return Session(owner.user, csrf_of(secret))


@operation("DELETE", "/session", "Sign out", keyed=False)
async def delete_session(call: Call) -> None:
    caller = call.caller
    assert caller is not None
    if caller.csrf is None or caller.token is None:
        raise BadRequest("there is no session to end: this request showed a token")
    id = caller.token

    async def change(tx: Tx) -> None:
        if await sessions.end(tx, id):
            await record(tx, entry(call, "session.end", id))

    await call.server.db.write(change)
    call.headers["Set-Cookie"] = call.server.access.cookie.gone()
