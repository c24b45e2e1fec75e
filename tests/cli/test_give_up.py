"""A script does not wait for ever for a server that is gone."""

from __future__ import annotations

import anyio
import pytest

from holdfast.cli.one_answer import MAX_SERVER_OUTAGE, ServerUnreachable, give_up


async def test_a_server_that_stays_away_is_given_up_and_the_chat_is_named() -> None:
    began = anyio.current_time()
    with pytest.raises(ServerUnreachable, match="run holdfast chat --chat c1 to see the result"):
        await give_up("c1", lambda: True)
    assert anyio.current_time() - began == pytest.approx(MAX_SERVER_OUTAGE)


async def test_a_server_that_comes_back_in_time_is_not() -> None:
    began = anyio.current_time()

    def away() -> bool:  # nearly all of the time
        return (anyio.current_time() - began) % (MAX_SERVER_OUTAGE - 1) > 2

    with anyio.move_on_after(10 * MAX_SERVER_OUTAGE) as waited:
        await give_up("c1", away)
    assert waited.cancelled_caught
