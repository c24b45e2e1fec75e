"""Sharing a chat for reading."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.chat.locked import read_chat
from holdfast.kernel.messages import prepare_to_decode
from holdfast.server.identity.audit import entry, record
from holdfast.server.identity.credential import new_secret
from holdfast.server.identity.shares import NewShare, Share, list_shares, share, unshare
from holdfast.server.identity.users import find_user_called
from holdfast.server.once import once
from holdfast.server.operation import Call, operation
from holdfast.server.problem import BadBody
from holdfast.store.database import Tx

prepare_to_decode(Share)
YEAR = 366 * 24 * 3600


class AskedShare(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    user: str | None = None
    """The name of the user to share it with; without one, a link is made."""
    expires_in: Annotated[int, Meta(ge=1, le=YEAR)] | None = None
    """Seconds; without a limit when left out."""


class MadeShare(Struct, frozen=True):
    info: Share
    link: str | None
    """Of a link: what to show as Authorization: Bearer, this once."""


class Shares(Struct, frozen=True):
    shares: tuple[Share, ...]


@operation("GET", "/chats/{chat}/shares", "List whom a chat is shared with")
async def get_shares(call: Call, chat: str) -> Shares:
    return Shares(await call.server.db.read(lambda tx: list_shares(tx, chat)))


@operation("POST", "/chats/{chat}/shares", "Share a chat for reading", status=201)
async def post_share(call: Call, chat: str, body: AskedShare) -> MadeShare:
    """With a user, or with whoever has the link. What is below the chat is shared with it."""
    id = call.server.ports.new_id()
    secret = new_secret("link") if body.user is None else None

    async def change(tx: Tx) -> Share:
        await read_chat(tx, chat)
        user = None if body.user is None else (await find_user_called(tx, body.user)).id
        if user is not None and user == call.user:
            raise BadBody("the chat is yours already: share it with somebody else")
        made = await share(
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
        await record(tx, entry(call, "share.create", chat, share=made.id, user=user))
        return made

    made = await once(call, f"POST /chats/{chat}/shares", body, Share, change)
    return MadeShare(made, secret if made.id == id else None)


@operation("DELETE", "/chats/{chat}/shares/{id}", "Share a chat no longer")
async def delete_share(call: Call, chat: str, id: str) -> None:
    """Streams that are open by it end within seconds."""

    async def change(tx: Tx) -> Share:
        gone = await unshare(tx, chat, id)
        await record(tx, entry(call, "share.revoke", chat, share=id, user=gone.user))
        return gone

    await once(call, f"DELETE /chats/{chat}/shares", id, Share, change)
