"""How notices are put into notifications and read out of them again, and when they are sent."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.store.database import Changed, ChangeNotice, Claimable, NoticesLost
from holdfast.store.postgres.notification_sender import (
    CHANGED,
    CLAIMABLE,
    MAX_NOTIFICATION_BYTES,
    SEND_INTERVAL,
    Notifier,
    parse_notification,
    payloads,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
notices = st.one_of(
    st.builds(Changed, texts, st.integers(1, 2**53)),
    st.builds(Claimable, texts),
)


@given(st.lists(notices, max_size=400))
def test_what_is_told_is_heard_once_for_each_chat(told: list[ChangeNotice]) -> None:
    said: list[ChangeNotice] = []
    for channel, payload in payloads("me", 7, told):
        assert len(payload.encode()) <= MAX_NOTIFICATION_BYTES
        found = parse_notification(channel, payload)
        assert found
        assert (found.sender, found.serial) == ("me", 7)
        said.extend(found.notices)
    latest: dict[str, int] = {}
    for notice in told:
        if isinstance(notice, Changed):
            latest[notice.chat] = max(notice.version, latest.get(notice.chat, 0))
    chats = {notice.chat for notice in told if isinstance(notice, Claimable)}
    assert sorted(said, key=repr) == sorted(
        [*(Changed(*each) for each in latest.items()), *map(Claimable, chats)], key=repr
    )


def test_many_chats_share_few_notifications() -> None:
    told = [Changed(f"{number:036}", number) for number in range(1, 1_001)]
    assert len(payloads("0" * 32, 1, told)) < 10


def test_that_something_was_missed_here_concerns_nobody_else() -> None:
    assert payloads("me", 1, [NoticesLost()]) == []


@pytest.mark.parametrize("channel", [CHANGED, CLAIMABLE])
@pytest.mark.parametrize("payload", ["", "hello", "{}", '["me"]', '["me",1,[3]]', '["me",1,3]'])
def test_what_nobody_of_us_has_sent_is_not_heard(channel: str, payload: str) -> None:
    assert parse_notification(channel, payload) is None


class Line:
    """A connection that keeps what is sent, and when."""

    def __init__(self) -> None:
        self.sent: list[list[str]] = []
        self.times: list[float] = []
        """When the sending began."""
        self.failures = 0

    async def notify(self, channels: Sequence[str], texts: Sequence[str]) -> None:
        await asyncio.sleep(0)
        self.times.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)
        if self.failures:
            self.failures -= 1
            raise ConnectionResetError("gone")
        self.sent.append(list(texts))


@asynccontextmanager
async def notifying(line: Line) -> AsyncIterator[Notifier]:
    notifier = Notifier("me", line.notify)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(notifier.run())
        yield notifier
        await notifier.flushed()
        task.cancel()


async def test_what_is_told_while_others_are_on_their_way_is_sent_together() -> None:
    line = Line()
    async with notifying(line) as mine:
        mine.send_soon([Claimable("a")])
        await asyncio.sleep(0.5)
        mine.send_soon([Claimable("b")])
        mine.send_soon([Claimable("c")])
    assert line.sent == [['["me",1,["a"]]'], ['["me",2,["b","c"]]']]


async def test_what_comes_up_within_a_pause_is_sent_together_when_it_is_over() -> None:
    line, loop = Line(), asyncio.get_running_loop()
    async with notifying(line) as mine:
        began = loop.time()
        mine.send_soon([Changed("a", 1)])
        await asyncio.sleep(1 + SEND_INTERVAL / 10)
        for version in range(2, 9):
            mine.send_soon([Changed("a", version)])
            await asyncio.sleep(SEND_INTERVAL / 10)
        await asyncio.sleep(10)
        assert line.sent == [['["me",1,[["a",1]]]'], ['["me",2,[["a",8]]]']]
    assert line.times == pytest.approx([began, began + 1 + SEND_INTERVAL], abs=SEND_INTERVAL / 100)


async def test_what_comes_up_after_a_pause_is_sent_at_once() -> None:
    line, loop = Line(), asyncio.get_running_loop()
    async with notifying(line) as mine:
        for _ in range(3):
            mine.send_soon([Claimable("a")])
            told = loop.time()
            await asyncio.sleep(1 + 2 * SEND_INTERVAL)
            assert line.times[-1] == told
    assert len(line.sent) == 3


async def test_whoever_wants_all_to_be_sent_waits_for_no_pause() -> None:
    line, loop = Line(), asyncio.get_running_loop()
    async with notifying(line) as mine:
        began = loop.time()
        mine.send_soon([Claimable("a")])
        await asyncio.sleep(0.5)
        mine.send_soon([Claimable("b")])  # while the first is on its way
        await mine.flushed()
        assert loop.time() == began + 2
        mine.send_soon([Claimable("c")])  # in the pause
        await asyncio.sleep(0)
        await mine.flushed()
        assert loop.time() == began + 3
    assert line.sent == [['["me",1,["a"]]'], ['["me",2,["b"]]'], ['["me",3,["c"]]']]


@given(
    st.lists(
        st.sampled_from(
            [0, 0.3, SEND_INTERVAL, SEND_INTERVAL / 2, 1, 1 + SEND_INTERVAL, 1 + SEND_INTERVAL / 2]
        )
    )
)
async def test_nothing_stays_behind_however_the_notices_come(waits: list[float]) -> None:
    line = Line()
    async with notifying(line) as mine:
        for version, wait in enumerate(waits, start=1):
            mine.send_soon([Changed("a", version), Changed(f"b{version}", 1)])
            await asyncio.sleep(wait)
        await asyncio.sleep(10)  # nobody asks for it, and nothing else comes
        said: dict[str, int] = {}
        for text in itertools.chain(*line.sent):
            found = parse_notification(CHANGED, text)
            assert found
            said |= {each.chat: each.version for each in found.notices if isinstance(each, Changed)}
        told = {f"b{version + 1}": 1 for version in range(len(waits))}
        assert said == (told | {"a": len(waits)} if waits else {})


async def test_what_cannot_be_sent_is_tried_again_once() -> None:
    line = Line()
    line.failures = 1
    async with notifying(line) as mine:
        mine.send_soon([Claimable("a")])
    assert line.sent == [['["me",1,["a"]]']]


async def test_what_cannot_be_sent_twice_is_dropped_and_the_next_is_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    line = Line()
    line.failures = 2
    async with notifying(line) as mine:
        with caplog.at_level(logging.WARNING, "holdfast"):
            mine.send_soon([Claimable("a")])
            await mine.flushed()
        assert "were not notified" in caplog.text
        mine.send_soon([Claimable("b")])
    assert line.sent == [['["me",2,["b"]]']]
