"""Users and tokens as the command line manages them: in a database, or at a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from msgspec import Struct

from holdfast.kernel.messages import prepare_to_decode
from holdfast.kernel.ports import Ports
from holdfast.server.identity.credential import new_secret
from holdfast.server.identity.tokens import (
    DAY_SECONDS,
    DEFAULT_TOKEN_LIFETIME,
    NewToken,
    Token,
    TokenNotFound,
    issue,
    list_tokens,
    revoke,
)
from holdfast.server.identity.users import (
    User,
    UserNotFound,
    create_user,
    find_user_called,
    local_user,
)
from holdfast.server.policy import LOCAL, Role, Scope

if TYPE_CHECKING:
    from holdfast.client.transport import Transport
    from holdfast.server.identity.audit import AuditAction
    from holdfast.store.database import Database, Tx

ADDRESS: Final = "command line"
"""Address in audit entries that were not caused by a request."""


class Wanted(NamedTuple):
    """Description of a token to create."""

    name: str
    scopes: tuple[Scope, ...]
    days: int | None
    """Lifetime in days; None for the default."""


class Made(NamedTuple):
    token: Token
    secret: str


class Registry(Protocol):
    """Operations on users and tokens. `user` is an id; None for the caller."""

    async def find(self, name: str) -> User | None: ...
    async def add(self, name: str, role: Role) -> User: ...
    async def issue(self, user: str | None, wanted: Wanted) -> Made: ...
    async def tokens(self, user: str | None) -> Sequence[Token]: ...
    async def revoke(self, id: str) -> None: ...


class InDatabase:
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
            made = await create_user(tx, self._ports.new_id(), name, role)
            await self._note(tx, "user.create", made.id, name=made.name, role=made.role)
            return made

        return await self._db.write(change)

    async def issue(self, user: str | None, wanted: Wanted) -> Made:
        new = NewToken(
            id=self._ports.new_id(),
            user=user or LOCAL,
            name=wanted.name,
            secret=new_secret("token"),
            scopes=frozenset(wanted.scopes),
            lifetime=DEFAULT_TOKEN_LIFETIME if wanted.days is None else wanted.days * DAY_SECONDS,
        )

        async def change(tx: Tx) -> Token:
            if user is None:
                await local_user(tx)
            made = await issue(tx, new)
            detail = {"user": made.user, "name": made.name, "scopes": made.scopes}
            await self._note(tx, "token.issue", made.id, **detail)
            return made

        return Made(await self._db.write(change), new.secret)

    async def tokens(self, user: str | None) -> Sequence[Token]:
        return await self._db.read(lambda tx: list_tokens(tx, user or LOCAL))

    async def revoke(self, id: str) -> None:
        async def change(tx: Tx) -> None:
            made = await revoke(tx, id)
            await self._note(tx, "token.revoke", id, user=made.user)

        try:
            await self._db.write(change)
        except TokenNotFound:
            raise TokenNotFound(_no_token(id), token=id) from None

    async def _note(self, tx: Tx, action: AuditAction, subject: str, **detail: Any) -> None:
        from holdfast.server.identity.audit import AuditEntry, record

        await record(
            tx, AuditEntry(self._ports.new_id(), action, subject, None, None, ADDRESS, detail)
        )


class Users(Struct, frozen=True):
    users: tuple[User, ...]
    next: str | None = None


class Tokens(Struct, frozen=True):
    tokens: tuple[Token, ...]


class Issued(Struct, frozen=True):
    info: Token
    token: str | None
    """The secret; None if it was shown before, in a response that was lost."""


class AtServer:
    """Accounts at a server, within the permissions of the token used there."""

    def __init__(self, line: Transport) -> None:
        self._line = line

    async def find(self, name: str) -> User | None:
        after: str | None = ""
        while after is not None:
            page = await self._line.get("/users", Users, after=after)
            for user in page.users:
                if user.name == name:
                    return user
            after = page.next
        return None

    async def add(self, name: str, role: Role) -> User:
        body = {"name": name, "role": role}
        return await self._line.change("POST", "/users", User, body, key=None)

    async def issue(self, user: str | None, wanted: Wanted) -> Made:
        body: dict[str, Any] = {
            "name": wanted.name,
            "scopes": wanted.scopes,
        }
        if wanted.days is not None:
            body["expires_in"] = wanted.days * DAY_SECONDS
        if user is not None:
            body["user"] = user
        while True:
            made = await self._line.change("POST", "/tokens", Issued, body, key=None)
            if made.token is not None:
                return Made(made.info, made.token)
            await self.revoke(made.info.id)  # its secret is lost

    async def tokens(self, user: str | None) -> Sequence[Token]:
        return (await self._line.get("/tokens", Tokens, user=user)).tokens

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


prepare_to_decode(Users, Tokens, Issued)
