"""Who I am, to this server."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from holdfast.server.identity.users import find_user
from holdfast.server.operation import Call, operation
from holdfast.server.policy import LOCAL, Role, Scope


class Me(Struct, frozen=True):
    user: str
    """The id of the user; empty for the only one of a local server."""
    name: str
    role: Role
    scopes: tuple[Scope, ...]
    """What the token is good for that was shown, or that the session was begun with."""
    mode: Literal["local", "team"]
    csrf: str | None = None
    """Of a session: to be sent as X-CSRF-Token with everything but GET."""


@operation("GET", "/me", "Who is asking")
async def get_me(call: Call) -> Me:
    caller = call.caller
    assert caller is not None
    name = ""
    if caller.user != LOCAL:
        name = (await call.server.db.read(lambda tx: find_user(tx, caller.user))).name
    mode: Literal["local", "team"] = "local" if call.server.access.local else "team"
    return Me(caller.user, name, caller.role, tuple(sorted(caller.scopes)), mode, caller.csrf)
