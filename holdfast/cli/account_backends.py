"""Users and tokens as the command line manages them: in a database, or at a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from msgspec import Struct

from holdfast.kernel.messages import prepare_to_decode
from holdfast.kernel.ports import Ports
from holdfast.server.access_policy import LOCAL, Role, Scope
from holdfast.server.identity.api_tokens import (
    DAY_SECONDS,
    DEFAULT_TOKEN_LIFETIME,
    NewToken,
    Token,
    TokenNotFound,
    issue,
    list_tokens,
    revoke,
)
from holdfast.server.identity.credential_format import new_secret
from holdfast.server.identity.users import (
    User,
    UserNotFound,
    create_user,
    find_user_called,
    local_user,
)

if TYPE_CHECKING:
    from holdfast.client.transport import Transport
    from holdfast.server.identity.audit import AuditAction
    from holdfast.store.database import Database, Tx

AUDIT_ADDRESS: Final = "command line"
"""Address in audit entries that were not caused by a request."""


class TokenRequest(NamedTuple):
    """Description of a token to create."""

    name: str
    scopes: tuple[Scope, ...]
    days: int | None
    """Lifetime in days; None for the default."""


class TokenAndSecret(NamedTuple):
    """A new token, and its secret, which is shown once."""

    token: Token
    secret: str


class Accounts(Protocol):
    """Operations on users and tokens. `user` is an id; None for the caller."""

    async def find(self, name: str) -> User | None: ...
    async def add(self, name: str, role: Role) -> User: ...
    async def issue(self, user: str | None, request: TokenRequest) -> TokenAndSecret: ...
    async def tokens(self, user: str | None) -> Sequence[Token]: ...
    async def revoke(self, id: str) -> None: ...


class DatabaseAccounts:
    """Accounts in a database, with full permissions. The caller is the local user."""

    def __init__(self, db: Database, ports: Ports) -> None:
        self._db = db
        self._ports = ports

    async def find(self, name: str) -> User | None:
        try:
            return await self._db.read(lambda tx: find_user_called(tx, name))
        except UserNotFound:
            return None

    async def add(self, name: str, role: Role) -> User:
        async def change(tx: Tx) -> User:
            user = await create_user(tx, self._ports.new_id(), name, role)
            await self._note(tx, "user.create", user.id, name=user.name, role=user.role)
            return user

        return await self._db.write(change)

    async def issue(self, user: str | None, request: TokenRequest) -> TokenAndSecret:
        new = NewToken(
            id=self._ports.new_id(),
            user=user or LOCAL,
            name=request.name,
            secret=new_secret("token"),
            scopes=frozenset(request.scopes),
            lifetime=DEFAULT_TOKEN_LIFETIME if request.days is None else request.days * DAY_SECONDS,
        )

        async def change(tx: Tx) -> Token:
            if user is None:
                await local_user(tx)
            token = await issue(tx, new)
            detail = {"user": token.user, "name": token.name, "scopes": token.scopes}
            await self._note(tx, "token.issue", token.id, **detail)
            return token

        return TokenAndSecret(await self._db.write(change), new.secret)

    async def tokens(self, user: str | None) -> Sequence[Token]:
        return await self._db.read(lambda tx: list_tokens(tx, user or LOCAL))

    async def revoke(self, id: str) -> None:
        async def change(tx: Tx) -> None:
            token = await revoke(tx, id)
            await self._note(tx, "token.revoke", id, user=token.user)

        try:
            await self._db.write(change)
        except TokenNotFound:
            raise TokenNotFound(_no_token(id), token=id) from None

    async def _note(self, tx: Tx, action: AuditAction, subject: str, **detail: Any) -> None:
        from holdfast.server.identity.audit import AuditEntry, record

        await record(
            tx, AuditEntry(self._ports.new_id(), action, subject, None, None, AUDIT_ADDRESS, detail)
        )


class UsersResponse(Struct, frozen=True):
    """Response of `GET /users`."""

    users: tuple[User, ...]
    next: str | None = None


class TokensResponse(Struct, frozen=True):
    """Response of `GET /tokens`."""

    tokens: tuple[Token, ...]


class TokenResponse(Struct, frozen=True):
    """Response of `POST /tokens`."""

    info: Token
    token: str | None
    """The secret; None if it was shown before, in a response that was lost."""


class ServerAccounts:
    """Accounts at a server, within the permissions of the token used there."""

    def __init__(self, line: Transport) -> None:
        self._line = line

    async def find(self, name: str) -> User | None:
        after: str | None = ""
        while after is not None:
            page = await self._line.get("/users", UsersResponse, after=after)
            for user in page.users:
                if user.name == name:
                    return user
            after = page.next
        return None

    async def add(self, name: str, role: Role) -> User:
        body = {"name": name, "role": role}
        return await self._line.change("POST", "/users", User, body, key=None)

    async def issue(self, user: str | None, request: TokenRequest) -> TokenAndSecret:
        body: dict[str, Any] = {
            "name": request.name,
            "scopes": request.scopes,
        }
        if request.days is not None:
            body["expires_in"] = request.days * DAY_SECONDS
        if user is not None:
            body["user"] = user
        while True:
            response = await self._line.change("POST", "/tokens", TokenResponse, body, key=None)
            if response.token is not None:
                return TokenAndSecret(response.info, response.token)
            await self.revoke(response.info.id)  # its secret is lost

    async def tokens(self, user: str | None) -> Sequence[Token]:
        return (await self._line.get("/tokens", TokensResponse, user=user)).tokens

    async def revoke(self, id: str) -> None:
        from holdfast.client.errors import RemoteError
        from holdfast.client.transport import at

        key = self._line.key(None)
        reply = await self._line.reply("DELETE", "/tokens" + at(id), key=key)
        if reply.status != 204:
            error = self._line.refused(reply)
            if isinstance(error, RemoteError) and error.kind == TokenNotFound.kind:
                raise TokenNotFound(_no_token(id), token=id)
            raise error


def _no_token(id: str) -> str:
    return f"unknown token {id!r}: holdfast token list shows the ids"


prepare_to_decode(UsersResponse, TokensResponse, TokenResponse)
