"""The messages of a chat as of one version, read in pages: a long chat is never in memory whole.

Other transactions may write between two pages. Messages are only appended, and an edit gives the
messages that it supersedes a new revision, so later changes can be recognized and left out.
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
from holdfast.chat.snapshots import Snapshot, Watch, read_snapshot
from holdfast.store.database import Database, Tx

PAGE: Final = 200
"""Messages per page."""
SIZE: Final = 2 * 1024 * 1024
"""Maximum bytes of messages per page, unless one alone has more. On PostgreSQL they are decoded on
the event loop, which takes a few milliseconds."""


class Transcript(Struct, frozen=True):
    """A chat at one version, with its messages in pages."""

    chat: Snapshot
    """Snapshot of the chat. In a live transcript it counts live messages only."""
    files: tuple[StoredFile, ...]
    """Files that the messages refer to."""
    version: int
    last: int
    """Number of the last message."""
    live: bool

    async def pages(self, db: Database) -> AsyncGenerator[Sequence[Stored], None]:
        """Yield the messages in order. Live ones are renumbered. Raises `ChatNotFound` when the
        chat is deleted meanwhile."""
        after = count = 0
        while after < self.last:
            page, _ = await db.read(partial(self._read, after=after))
            if not page:
                raise ChatNotFound(self.chat.id)
            after = page[-1].number
            found = [self._as_of(one) for one in page if one.number <= self.last]
            if self.live:
                kept = [one for one in found if one.superseded_at is None]
                found = [structs.replace(it, number=count + n) for n, it in enumerate(kept, 1)]
                count += len(found)
            yield found

    async def _read(self, tx: Tx, *, after: int) -> tuple[Sequence[Stored], bool]:
        return await read_page(tx, self.chat.id, PAGE, SIZE, after=after, superseded=True)

    def _as_of(self, stored: Stored) -> Stored:
        """Return the message without an edit that came later."""
        if stored.superseded_at is None or stored.revision <= self.version:
            return stored
        return structs.replace(stored, superseded_at=None)


async def read_transcript(tx: Tx, chat_id: str, watch: Watch, *, live: bool = False) -> Transcript:
    """Read the transcript of a chat. `live` leaves superseded messages out."""
    chat = await read_snapshot(tx, chat_id, watch)
    files = await files_named_in(tx, chat.owner, chat_id, live=live)
    last, version = chat.messages, chat.snapshot_version
    if live:
        chat = structs.replace(chat, messages=await _count_live(tx, chat_id))
    return Transcript(chat, files, version, last, live)


async def _count_live(tx: Tx, chat_id: str) -> int:
    row = await tx.one(
        "SELECT count(*) FROM messages WHERE chat_id = :id AND superseded_at IS NULL",
        {"id": chat_id},
    )
    assert row is not None
    return int(row[0])
