"""Users: administration."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.kernel.messages import prepare_to_decode
from holdfast.server.access_policy import Role
from holdfast.server.idempotency import once
from holdfast.server.identity.audit import entry, record
from holdfast.server.identity.users import User, change_user, create_user, list_users
from holdfast.server.operation import ApiCall, operation
from holdfast.server.pagination import cut
from holdfast.store.database import Tx

prepare_to_decode(User)


class CreateUser(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user to create."""

    name: str
    role: Role = "member"


class ChangeUser(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a user; None keeps a value."""

    role: Role | None = None
    disabled: bool | None = None
    """Whether the user and their tokens are refused."""


class UsersQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Query of `GET /users`."""

    after: str = ""
    """Name of the last user seen."""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class UserPage(Struct, frozen=True):
    """A page of users."""

    users: tuple[User, ...]
    next: str | None = None
    """Value of `after` for the next page; None on the last page."""


@operation("GET", "/users", "List the users")
async def get_users(call: ApiCall, query: UsersQuery) -> UserPage:
    """By name, including disabled users."""
    rows = await call.server.db.read(
        lambda tx: list_users(tx, after=query.after, limit=query.limit + 1)
    )
    page, more = cut(rows, query.limit)
    return UserPage(page, page[-1].name if more else None)


@operation("POST", "/users", "Create a user", status=201)
async def post_user(call: ApiCall, body: CreateUser) -> User:
    """The user can sign in once a token is created for them."""
    id = call.server.ports.new_id()

    async def change(tx: Tx) -> User:
        saved = await create_user(tx, id, body.name, body.role)
        await record(tx, entry(call, "user.create", saved.id, name=saved.name, role=saved.role))
        return saved

    return await once(call, "POST /users", body, User, change)


@operation("PATCH", "/users/{user}", "Change a user's role, or disable or enable them")
async def patch_user(call: ApiCall, user: str, body: ChangeUser) -> User:
    """The last administrator cannot be demoted or disabled."""

    async def change(tx: Tx) -> User:
        saved = await change_user(tx, user, role=body.role, disabled=body.disabled)
        detail = {"role": body.role, "disabled": body.disabled}
        changes = {name: value for name, value in detail.items() if value is not None}
        await record(tx, entry(call, "user.change", user, **changes))
        return saved

    return await once(call, f"PATCH /users/{user}", body, User, change)
