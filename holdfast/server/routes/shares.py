"""Shares of a chat: create, list and revoke them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.chat.rows import read_chat
from holdfast.kernel.messages import prepare_to_decode
from holdfast.server.idempotency import once
from holdfast.server.identity.audit import entry, record
from holdfast.server.identity.credential_format import new_secret
from holdfast.server.identity.shares import NewShare, Share, list_shares, share, unshare
from holdfast.server.identity.users import find_user_called
from holdfast.server.operation import ApiCall, operation
from holdfast.server.problem import BadBody
from holdfast.store.database import Tx

prepare_to_decode(Share)
MAX_SHARE_LIFETIME = 366 * 24 * 3600


class CreateShare(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A share to create."""

    user: str | None = None
    """Name of the user to share it with; None: create a link."""
    expires_in: Annotated[int, Meta(ge=1, le=MAX_SHARE_LIFETIME)] | None = None
    """Seconds until it expires; None: never."""


class CreatedShare(Struct, frozen=True):
    """A share that was created."""

    info: Share
    link: str | None
    """For a link: the credential to send as Authorization: Bearer. Returned only here."""


class ShareList(Struct, frozen=True):
    """Shares of a chat."""

    shares: tuple[Share, ...]


@operation("GET", "/chats/{chat}/shares", "List the shares of a chat")
async def get_shares(call: ApiCall, chat: str) -> ShareList:
    return ShareList(await call.server.db.read(lambda tx: list_shares(tx, chat)))


@operation("POST", "/chats/{chat}/shares", "Share a chat read-only", status=201)
async def post_share(call: ApiCall, chat: str, body: CreateShare) -> CreatedShare:
    """With a user, or with anyone who has the link. Includes the child chats."""
    id = call.server.ports.new_id()
    secret = new_secret("link") if body.user is None else None

    async def change(tx: Tx) -> Share:
        await read_chat(tx, chat)
        user = None if body.user is None else (await find_user_called(tx, body.user)).id
        if user is not None and user == call.user:
            raise BadBody("the chat is yours already: share it with another user")
        created = await share(
            tx,
            NewShare(
                id=id,
                chat=chat,
                by=call.user,
                user=user,
                secret=secret,
                lifetime=body.expires_in,
            ),
        )
        await record(tx, entry(call, "share.create", chat, share=created.id, user=user))
        return created

    created = await once(call, f"POST /chats/{chat}/shares", body, Share, change)
    return CreatedShare(created, secret if created.id == id else None)


@operation("DELETE", "/chats/{chat}/shares/{id}", "Revoke a share of a chat")
async def delete_share(call: ApiCall, chat: str, id: str) -> None:
    """Streams opened by it end within seconds."""

    async def change(tx: Tx) -> Share:
        revoked = await unshare(tx, chat, id)
        await record(tx, entry(call, "share.revoke", chat, share=id, user=revoked.user))
        return revoked

    await once(call, f"DELETE /chats/{chat}/shares", id, Share, change)
