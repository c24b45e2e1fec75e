"""API tokens: create, list and revoke them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, structs

from holdfast.kernel.messages import prepare_to_decode
from holdfast.server.access_policy import ApiCaller, Scope
from holdfast.server.idempotency import once
from holdfast.server.identity.api_tokens import (
    MAX_TOKEN_LIFETIME,
    NewToken,
    Token,
    issue,
    lifetime_by,
    list_tokens,
    revoke,
)
from holdfast.server.identity.audit import entry, record
from holdfast.server.identity.credential_format import new_secret
from holdfast.server.identity.users import find_user
from holdfast.server.operation import ApiCall, operation
from holdfast.server.problem import Forbidden
from holdfast.store.database import Tx

prepare_to_decode(Token)


class CreateToken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token to create."""

    name: str
    """What the token is for."""
    scopes: frozenset[Scope] = frozenset(("read", "write"))
    expires_in: Annotated[int, Meta(ge=1, le=MAX_TOKEN_LIFETIME)] | None = None
    """Seconds until it expires: at most what the token used to create it has left. Default: 90
    days, or that if it is less."""
    user: str | None = None
    """Id of another user, for administrators."""


class CreatedToken(Struct, frozen=True):
    """A token that was created."""

    info: Token
    token: str | None
    """The token itself, returned once; None if this request, by its key, returned it before."""


class TokensQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Query of `GET /tokens`."""

    user: str | None = None
    """Id of another user, for administrators."""


class TokenList(Struct, frozen=True):
    """Tokens of a user."""

    tokens: tuple[Token, ...]


@operation("GET", "/tokens", "List tokens")
async def get_tokens(call: ApiCall, query: TokensQuery) -> TokenList:
    """Newest first, without their secrets."""
    user = _whose(call, query.user)

    async def read(tx: Tx) -> tuple[Token, ...]:
        await _check_there(tx, call, user)
        return await list_tokens(tx, user)

    return TokenList(await call.server.db.read(read))


@operation("POST", "/tokens", "Create a token", status=201)
async def post_token(call: ApiCall, body: CreateToken) -> CreatedToken:
    """Returned once. It has no more scopes and no later expiry than the token used to create it."""
    caller = call.caller
    assert caller is not None
    if not body.scopes <= caller.scopes:
        more = ", ".join(sorted(body.scopes - caller.scopes))
        raise Forbidden(f"your token lacks the scope {more}: a new token cannot have it either")
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
        token = await issue(tx, structs.replace(new, lifetime=lifetime))
        detail = {"user": new.user, "name": token.name, "scopes": token.scopes}
        await record(tx, entry(call, "token.issue", token.id, **detail))
        return token

    request = (body.name, sorted(body.scopes), body.expires_in, body.user)
    token = await once(call, "POST /tokens", request, Token, change)
    return CreatedToken(token, new.secret if token.id == new.id else None)


@operation("DELETE", "/tokens/{id}", "Revoke a token")
async def delete_token(call: ApiCall, id: str) -> None:
    """Ends its sessions and their streams too. Revoking it again changes nothing."""
    whose = None if _is_admin(call.caller) else call.user

    async def change(tx: Tx) -> Token:
        token = await revoke(tx, id, whose)
        await record(tx, entry(call, "token.revoke", id, user=token.user))
        return token

    await once(call, "DELETE /tokens", id, Token, change)


def _whose(call: ApiCall, user: str | None) -> str:
    if user is None or user == call.user:
        return call.user
    if not _is_admin(call.caller):
        raise Forbidden("these tokens belong to another user: ask an administrator")
    return user


async def _check_there(tx: Tx, call: ApiCall, user: str) -> None:
    """The caller exists, including the user of a local server, who cannot be found by id."""
    if user != call.user:
        await find_user(tx, user)


def _is_admin(caller: ApiCaller | None) -> bool:
    return caller is not None and caller.role == "admin" and "admin" in caller.scopes
