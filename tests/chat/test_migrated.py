"""What earlier versions stored is read by this one."""

from __future__ import annotations

from typing import Final

import pytest

from holdfast.chat.export import EXPORT_FORMAT, jsonl, parse
from holdfast.chat.rows import TurnOutcome
from holdfast.chat.snapshots import snapshot_of
from holdfast.kernel.errors import FormatError
from holdfast.kernel.limits import LimitReached
from holdfast.store.migrate import migrations
from tests.chat.chats import Chats

LIMITS: Final = 11
"""Number of the migration that renames the reason `max_steps`."""


async def test_a_turn_that_ended_at_the_limit_of_steps_says_so(chats: Chats) -> None:
    """Limits had no names then, and the limit of steps was a reason of its own."""
    await chats.idle()
    await chats.idle("other")
    earlier = '{"reason":"max_steps","steps":50}'
    await chats.db.write(
        lambda tx: tx.execute("UPDATE chats SET outcome = :o WHERE id = 'c1'", {"o": earlier})
    )
    (migration,) = (one for one in migrations(chats.db.dialect) if one.number == LIMITS)
    await chats.db.write(lambda tx: tx.execute(migration.sql))
    limit = LimitReached("steps", "turn", 50, 50)
    assert (await chats.row()).outcome == TurnOutcome("limit", 50, limit=limit)
    assert (await chats.row("other")).outcome == TurnOutcome("stop", 1)


async def test_an_export_of_such_a_chat_can_be_restored(chats: Chats) -> None:
    chat = snapshot_of(await chats.limited())
    text = "".join(f"{line}\n" for line in jsonl(chat, await chats.history()))
    start, end = text.index('{"reason":"limit"'), text.index("}}", text.index('"limit":{')) + 2
    now = text[:start] + '{"reason":"max_steps","steps":1}' + text[end:]
    earlier = now.replace(f'"format":{EXPORT_FORMAT}', '"format":4', 1)
    assert parse(earlier).chat.outcome == TurnOutcome("limit", 1)
    with pytest.raises(FormatError):
        parse(now)
