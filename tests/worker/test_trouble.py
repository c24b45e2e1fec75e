"""Errors of our own: tried a few times, then shown; nothing that was done is done again."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from holdfast.chat.queries import spent
from holdfast.kernel.compact import SECTIONS
from holdfast.kernel.policy import Context, Policy
from holdfast.kernel.tool import tool
from holdfast.store.database import Database
from holdfast.testing import Clock, call, fail, hang, say
from holdfast.testing import usage as reports
from tests.worker.lives import living, results_of

SUMMARY = "\n".join(f"## {section}\n-" for section in SECTIONS)


@pytest.mark.parametrize("name", ["commit", "finish_turn"])
async def test_an_error_that_passes_is_not_seen(db: Database, clock: Clock, name: str) -> None:
    async with living(db, ["One."] * 3, clock=clock) as life:
        life.link.refuse(name, 2)
        chat = await life.rest(await life.begin())
        assert chat.status == "idle"
        assert await life.told(chat.id) == ["prompt: ?", "answer: One."]


async def test_an_error_that_stays_is_shown_with_a_reference_into_the_log(
    db: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with living(db, ["One."], clock=clock) as life:
        life.link.refuse("finish_turn", 3)
        chat = await life.rest(await life.begin())
        assert chat.error is not None
        assert chat.error.kind == "internal"
        (reference,) = [word for word in chat.error.detail.split() if word.startswith("0-id")]
        assert reference in caplog.text
        await life.machine.retry(chat.id)
        assert (await life.rest(chat.id)).status == "idle"


async def test_a_call_that_has_ended_is_not_lost_with_the_step(db: Database, clock: Clock) -> None:
    ran: list[str] = []

    @tool(effect="once")
    async def act() -> str:
        ran.append("act")
        return "done"

    async with living(db, [call("act"), "Done."], [act], clock=clock) as life:
        life.link.refuse("commit_step")
        chat_id = await life.begin()
        await life.rest(chat_id)
        (made,) = results_of(await life.history(chat_id))
        assert (made.outcome, made.text) == ("ok", "done")
        assert ran == ["act"]


async def test_a_call_of_whose_end_nothing_could_be_written_is_not_run_again(
    db: Database, clock: Clock
) -> None:
    ran: list[str] = []

    @tool(effect="once")
    async def act() -> str:
        ran.append("act")
        return "done"

    async with living(db, [call("act"), "Hm."], [act], clock=clock) as life:
        life.link.refuse("commit_step")
        life.link.refuse("finish_call")
        chat_id = await life.begin()
        await life.rest(chat_id)
        (made,) = results_of(await life.history(chat_id))
        assert made.outcome == "lost"
        assert ran == ["act"]


async def test_a_call_whose_runner_is_gone_is_not_run_again_by_the_next_of_the_same_worker(
    db: Database, clock: Clock
) -> None:
    """The row is of the same claim: that alone does not say that nobody called the function."""
    ran: list[str] = []

    @tool(effect="once")
    async def act() -> str:
        ran.append("act")
        await anyio.sleep(3600)
        return "never"

    async with living(db, [call("act"), "Hm."], [act], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(2)
        (runner,) = life.worker._runners.values()
        runner._group.cancel_scope.cancel()
        chat = await life.rest(chat_id)
        assert chat.epoch == 1
        (made,) = results_of(await life.history(chat_id))
        assert made.outcome == "lost"
        assert ran == ["act"]


# --- what was spent is counted ------------------------------------------------------------------


async def test_what_a_summary_cost_that_was_stopped_is_counted(db: Database, clock: Clock) -> None:
    script = [
        "One. " * 500,
        [reports(input=3, output=1), say("no summary at all"), say("")],
        [say("## Go"), hang()],
        [reports(input=5, output=1), say(SUMMARY)],
    ]
    policy = Policy(context=Context(summary_attempts=5))
    async with living(db, script, clock=clock, policy=policy) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        await life.machine.compact(chat_id)
        await anyio.sleep(600)
        await life.interrupted(chat_id)
        counted = await db.read(lambda tx: spent(tx, chat_id))
        assert counted.usage.input == 3
        await life.machine.compact(chat_id)
        await life.rest(chat_id)
        counted = await db.read(lambda tx: spent(tx, chat_id))
        assert counted.usage.input == 8


@pytest.mark.parametrize("asked_by", ["a person", "an overflow"])
async def test_what_a_summary_cost_that_failed_is_counted(
    db: Database, clock: Clock, asked_by: str
) -> None:
    script: list[Any] = ["One. " * 500, [reports(input=3, output=1), say("")], [fail(kind="auth")]]
    if asked_by == "an overflow":
        script.insert(1, fail(kind="context_overflow"))
    async with living(db, script, clock=clock) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        if asked_by == "a person":
            await life.machine.compact(chat_id)
        else:
            await life.send(chat_id, "and?")
        chat = await life.rest(chat_id)
        # A person who wanted one still has a chat at rest.
        assert chat.status == ("idle" if asked_by == "a person" else "error")
        counted = await db.read(lambda tx: spent(tx, chat_id))
        assert counted.usage.input == 3
