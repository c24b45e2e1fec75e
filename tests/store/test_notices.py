"""Everybody who listens is told, whatever the others do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.store.database import Changed, ChangeNotice, Claimable, NoticesLost
from holdfast.store.notice_listeners import NoticeListeners


def test_everybody_hears_everything_in_order() -> None:
    notices, first, second = NoticeListeners(), list[ChangeNotice](), list[ChangeNotice]()
    notices.listen(first.append)
    notices.listen(second.append)
    told: list[ChangeNotice] = [Changed("c1", 3), Claimable("c1"), NoticesLost()]
    notices.notify(told)
    assert first == second == told


def test_whoever_has_ended_hears_no_more() -> None:
    notices, heard = NoticeListeners(), list[ChangeNotice]()
    end = notices.listen(heard.append)
    notices.notify([Claimable("c1")])
    end()
    end()
    notices.notify([Claimable("c2")])
    assert heard == [Claimable("c1")]


def test_listening_twice_is_hearing_twice_and_each_ends_alone() -> None:
    notices, heard = NoticeListeners(), list[ChangeNotice]()
    end = notices.listen(heard.append)
    notices.listen(heard.append)
    notices.notify([NoticesLost()])
    end()
    notices.notify([NoticesLost()])
    assert len(heard) == 3


def test_one_that_raises_is_logged_and_the_others_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notices, heard = NoticeListeners(), list[ChangeNotice]()

    def fail(notice: ChangeNotice) -> None:
        raise LookupError("who?")

    notices.listen(fail)
    notices.listen(heard.append)
    notices.notify([Claimable("c1"), Claimable("c2")])
    assert heard == [Claimable("c1"), Claimable("c2")]
    assert caplog.text.count("LookupError: who?") == 2
    assert "Claimable(chat='c1')" in caplog.text


def test_a_listener_may_end_itself_and_others_while_it_is_told() -> None:
    notices, heard = NoticeListeners(), list[str]()
    ends: list[Callable[[], None]] = []

    def first(notice: ChangeNotice) -> None:
        heard.append("first")
        for end in ends[:2]:
            end()

    ends.append(notices.listen(first))
    ends.append(notices.listen(lambda _: heard.append("second")))
    ends.append(notices.listen(lambda _: heard.append("third")))
    notices.notify([NoticesLost()])
    notices.notify([NoticesLost()])
    assert heard == ["first", "third", "third"]


def test_whoever_begins_while_others_are_told_hears_what_comes_after() -> None:
    notices, heard = NoticeListeners(), list[ChangeNotice]()

    def begin(notice: ChangeNotice) -> None:
        if notice == Claimable("c1"):
            notices.listen(heard.append)

    notices.listen(begin)
    notices.notify([Claimable("c1"), Claimable("c2")])
    assert heard == [Claimable("c2")]
