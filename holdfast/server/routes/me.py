"""The authenticated caller."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from holdfast.server.access_policy import LOCAL, Role, Scope
from holdfast.server.identity.users import find_user
from holdfast.server.operation import ApiCall, operation


class CurrentUser(Struct, frozen=True):
    """The authenticated caller."""

    user: str
    """Id of the user; empty for the only one of a local server."""
    name: str
    role: Role
    scopes: tuple[Scope, ...]
    """Scopes of the token, or of the token that the session was started with."""
    mode: Literal["local", "team"]
    download_key: str | None = None
    """For a session: key for URLs of files and exports, as ?download_key=."""


@operation("GET", "/me", "Read who the caller is")
async def get_me(call: ApiCall) -> CurrentUser:
    caller = call.caller
    assert caller is not None
    name = caller.name or ""
    if caller.name is None and caller.user != LOCAL:
        name = (await call.server.db.read(lambda tx: find_user(tx, caller.user))).name
    mode: Literal["local", "team"] = "local" if call.server.access.local else "team"
    scopes = tuple(sorted(caller.scopes))
    return CurrentUser(caller.user, name, caller.role, scopes, mode, caller.download_key)
