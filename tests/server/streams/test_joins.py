"""Two places in a chat become one when both have told the same, and not before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.chat.stream import ChatEvents, Cursor
from holdfast.kernel.model import TextDelta
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.chat.chats import Chats, answer
from tests.chat.test_stream import Stage, attempt


@pytest.fixture
def chats(db: Database, clock: Clock) -> Chats:
    return Chats(db, clock)


@pytest.fixture
def stage(chats: Chats) -> Iterator[Stage]:
    made = Stage(chats)
    yield made
    made.close()


async def told(stage: Stage, after: Cursor | None = None) -> ChatEvents:
    """One that has told everything there is."""
    stream = ChatEvents(stage.feed, "c1", after)
    await stream.look()
    assert stream.take()
    return stream


async def test_who_has_told_the_same_joins(chats: Chats, stage: Stage) -> None:
    row = await chats.running()
    first, fresh = await told(stage), await told(stage)
    resumed = await told(stage, Cursor(row.snapshot_version))
    assert fresh.joins(first)
    assert resumed.joins(first)


async def test_who_has_told_nothing_yet_does_not_join(chats: Chats, stage: Stage) -> None:
    await chats.running()
    first, new = await told(stage), ChatEvents(stage.feed, "c1")
    assert not new.joins(first)
    await new.look()
    assert not new.joins(first), "there is something to take"
    new.take()
    assert new.joins(first)


async def test_who_knows_of_another_version_does_not_join(chats: Chats, stage: Stage) -> None:
    await chats.running()
    first = await told(stage)
    await chats.commit("c1", answer("more"))
    new = await told(stage)
    assert not new.joins(first)
    assert not first.joins(new)
    await first.look()
    first.take()
    assert new.joins(first)


async def test_who_has_shown_another_part_of_the_answer_does_not_join(
    chats: Chats, stage: Stage
) -> None:
    row = await chats.running()
    first, other = await told(stage), await told(stage)
    with stage.live.open("c1", attempt(row)) as writer:
        writer.put(TextDelta("some"))
        assert first.take()
        assert not other.joins(first)
        assert other.take()
        assert other.joins(first)
