"""API tokens."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, structs

from holdfast.kernel.messages import prepare_to_decode
from holdfast.server.identity.audit import entry, record
from holdfast.server.identity.credential import new_secret
from holdfast.server.identity.tokens import (
    LONGEST,
    NewToken,
    Token,
    issue,
    lifetime_by,
    list_tokens,
    revoke,
)
from holdfast.server.identity.users import find_user
from holdfast.server.once import once
from holdfast.server.operation import Call, operation
from holdfast.server.policy import Caller, Scope
from holdfast.server.problem import Forbidden
from holdfast.store.database import Tx

prepare_to_decode(Token)


class AskedToken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    """What it is for."""
    scopes: frozenset[Scope] = frozenset(("read", "write"))
    expires_in: Annotated[int, Meta(ge=1, le=LONGEST)] | None = None
    """Seconds: not more than what it is asked for with has left. Left out: 90 days, or that."""
    user: str | None = None
    """The id of somebody else, for an administrator."""


class IssuedToken(Struct, frozen=True):
    info: Token
    token: str | None
    """The token itself, this once. None when it was given already, for the same key."""


class TokensQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    user: str | None = None
    """The id of somebody else, for an administrator."""


class Tokens(Struct, frozen=True):
    tokens: tuple[Token, ...]


@operation("GET", "/tokens", "List tokens")
async def get_tokens(call: Call, query: TokensQuery) -> Tokens:
    """The newest first; never the tokens themselves."""
    user = _whose(call, query.user)

    async def read(tx: Tx) -> tuple[Token, ...]:
        await _check_there(tx, call, user)
        return await list_tokens(tx, user)

    return Tokens(await call.server.db.read(read))


@operation("POST", "/tokens", "Make a token", status=201)
async def post_token(call: Call, body: AskedToken) -> IssuedToken:
    """It is shown once. What it was asked for with is good for as much, and for as long."""
    caller = call.caller
    assert caller is not None
    if not body.scopes <= caller.scopes:
        more = ", ".join(sorted(body.scopes - caller.scopes))
        raise Forbidden(f"a token without the scope {more} makes none with it")
    new = NewToken(
        id=call.server.ports.new_id(),
        user=_whose(call, body.user),
        name=body.name,
        secret=new_secret("token"),
        scopes=body.scopes,
    )

    async def change(tx: Tx) -> Token:
        await _check_there(tx, call, new.user)
        lifetime = await lifetime_by(tx, caller.token or "", body.expires_in)
        made = await issue(tx, structs.replace(new, lifetime=lifetime))
        detail = {"user": new.user, "name": made.name, "scopes": made.scopes}
        await record(tx, entry(call, "token.issue", made.id, **detail))
        return made

    asked = (body.name, sorted(body.scopes), body.expires_in, body.user)
    made = await once(call, "POST /tokens", asked, Token, change)
    return IssuedToken(made, new.secret if made.id == new.id else None)


@operation("DELETE", "/tokens/{id}", "Revoke a token")
async def delete_token(call: Call, id: str) -> None:
    """It ends, with its sessions and their streams. Again: nothing more happens."""
    whose = None if _is_admin(call.caller) else call.user

    async def change(tx: Tx) -> Token:
        made = await revoke(tx, id, whose)
        await record(tx, entry(call, "token.revoke", id, user=made.user))
        return made

    await once(call, "DELETE /tokens", id, Token, change)


def _whose(call: Call, user: str | None) -> str:
    if user is None or user == call.user:
        return call.user
    if not _is_admin(call.caller):
        raise Forbidden("these are somebody else's tokens: ask an administrator")
    return user


async def _check_there(tx: Tx, call: Call, user: str) -> None:
    """Whoever calls is, also the user of a local server, who is not found."""
    if user != call.user:
        await find_user(tx, user)


def _is_admin(caller: Caller | None) -> bool:
    return caller is not None and caller.role == "admin" and "admin" in caller.scopes
