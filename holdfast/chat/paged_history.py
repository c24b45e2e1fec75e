"""The messages of a chat at one version, read in pages, so that a long chat needs little memory.

Other transactions may write between two pages. Messages are only appended, and an edit gives the
messages that it supersedes a new revision, so later changes are recognized and left out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Final

from msgspec import Struct, structs

from holdfast.chat.errors import ChatNotFound
from holdfast.chat.files import StoredFile, files_named_in
from holdfast.chat.queries import read_page
from holdfast.chat.rows import Stored
from holdfast.chat.snapshots import Snapshot, StrandedLimits, read_snapshot
from holdfast.store.database import Database, Tx

PAGE_MESSAGES: Final = 200
"""Maximum number of messages per page."""
PAGE_BYTES: Final = 2 * 1024 * 1024
"""Maximum size in bytes of a page, except for a single larger message. On PostgreSQL they are
decoded on the event loop, which takes a few milliseconds."""


class Transcript(Struct, frozen=True):
    """A chat at one version, with its messages in pages."""

    chat: Snapshot
    """Snapshot of the chat. In a live transcript it counts live messages only."""
    files: tuple[StoredFile, ...]
    """Files that the messages refer to."""
    version: int
    last_number: int
    """Number of the last message."""
    live: bool

    async def pages(self, db: Database) -> AsyncGenerator[Sequence[Stored], None]:
        """Yield the messages in order; a live transcript renumbers them.

        Raises `ChatNotFound` when the chat is deleted meanwhile.
        """
        after = count = 0
        while after < self.last_number:
            page, _ = await db.read(partial(self._read, after=after))
            if not page:
                raise ChatNotFound(self.chat.id)
            after = page[-1].number
            messages = [self._as_of(stored) for stored in page if stored.number <= self.last_number]
            if self.live:
                live_messages = [stored for stored in messages if stored.superseded_at is None]
                messages = [
                    structs.replace(stored, number=count + n)
                    for n, stored in enumerate(live_messages, 1)
                ]
                count += len(messages)
            yield messages

    async def _read(self, tx: Tx, *, after: int) -> tuple[Sequence[Stored], bool]:
        return await read_page(
            tx, self.chat.id, PAGE_MESSAGES, PAGE_BYTES, after=after, superseded=True
        )

    def _as_of(self, stored: Stored) -> Stored:
        """Return the message as of this version, before any later edit."""
        if stored.superseded_at is None or stored.revision <= self.version:
            return stored
        return structs.replace(stored, superseded_at=None)


async def read_transcript(
    tx: Tx, chat_id: str, limits: StrandedLimits, *, live: bool = False
) -> Transcript:
    """Read the transcript of a chat. `live` leaves superseded messages out."""
    chat = await read_snapshot(tx, chat_id, limits)
    files = await files_named_in(tx, chat.owner, chat_id, live=live)
    last_number, version = chat.messages, chat.snapshot_version
    if live:
        chat = structs.replace(chat, messages=await _count_live(tx, chat_id))
    return Transcript(chat, files, version, last_number, live)


async def _count_live(tx: Tx, chat_id: str) -> int:
    row = await tx.one(
        "SELECT count(*) FROM messages WHERE chat_id = :id AND superseded_at IS NULL",
        {"id": chat_id},
    )
    assert row is not None
    return int(row[0])
