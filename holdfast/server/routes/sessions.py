"""Browser sessions: signing in and out."""

from __future__ import annotations

from msgspec import Struct, structs

from holdfast.server.access_policy import ApiCaller
from holdfast.server.identity import sessions
from holdfast.server.identity.audit import entry, record
from holdfast.server.identity.authenticator import owner_of
from holdfast.server.identity.credential_format import (
    bound,
    download_key_of,
    new_secret,
    new_session_key,
)
from holdfast.server.operation import ApiCall, operation
from holdfast.server.problem import BadRequest
from holdfast.store.database import Tx


class SignIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token to sign in with."""

    token: str


class CreatedSession(Struct, frozen=True):
    """A new browser session."""

    user: str
    key: str
    """The second half of the session, sent as X-Session-Key with every request: browsers send the
    cookie to every port of a host, so it is not enough alone. Returned only here."""
    download_key: str
    """Key for URLs of files and exports, as ?download_key=, where a browser sends no header."""


@operation("POST", "/session", "Sign in: exchange a token for a cookie", status=201, keyed=False)
async def post_session(call: ApiCall, body: SignIn) -> CreatedSession:
    """Scripts cannot read the cookie. It is useless without the key."""
    id, secret, key = call.server.ports.new_id(), new_secret("session"), new_session_key()
    download_key = download_key_of(key)

    async def change(tx: Tx) -> ApiCaller:
        owner = await owner_of(tx, body.token, call.server.access)
        assert owner.token is not None
        await sessions.begin(tx, id, owner.token, bound(secret, download_key))
        await record(tx, entry(structs.replace(call, caller=owner), "session.begin", id))
        return owner

    owner = await call.server.db.write(change)
    call.headers["Set-Cookie"] = call.server.access.cookie.holding(secret)
    return CreatedSession(owner.user, key, download_key)


@operation("DELETE", "/session", "Sign out", keyed=False)
async def delete_session(call: ApiCall) -> None:
    caller = call.caller
    assert caller is not None
    if caller.download_key is None or caller.token is None:
        raise BadRequest("there is no session to end: this request was authenticated by a token")
    id = caller.token

    async def change(tx: Tx) -> None:
        if await sessions.end(tx, id):
            await record(tx, entry(call, "session.end", id))

    await call.server.db.write(change)
    call.headers["Set-Cookie"] = call.server.access.cookie.gone()
