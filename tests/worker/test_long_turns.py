"""A turn is compacted as often as it needs, and its last steps cost no more than its first."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.chat.rows import Status
from holdfast.chat.transitions import user
from holdfast.kernel.limits import Limits
from holdfast.kernel.summary_checkpoint import SUMMARY_SECTIONS
from holdfast.kernel.tool import tool
from holdfast.options import ContextLimits, Policy
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, call, fail, say, usage
from tests.kernel.long_turns import POLICY, TOOLS, WINDOW, LongTurn
from tests.worker.workers import living

STEPS = 2_000
NOTICES = 8


@pytest.mark.timeout(300)
async def test_a_turn_of_thousands_of_steps_comes_to_its_end(db: Database, clock: Clock) -> None:
    turn = LongTurn(STEPS)
    model = turn.model()
    rows: list[int] = []
    statements: list[int] = []
    stream = model.stream
    async with living(db, model, TOOLS, clock=clock, policy=POLICY, limits=Limits()) as life:

        def marked(request: Any) -> Any:
            model.requests.clear()
            rows.append(life.faulty_db.rows)
            statements.append(life.faulty_db.statements)
            return stream(request)

        model.stream = marked  # type: ignore[method-assign]
        chat_id = await life.begin("Go through all of it.")
        chat = await life.rest(chat_id, 100_000)
        assert chat.error is None
        assert chat.outcome is not None
        assert (chat.outcome.reason, chat.outcome.steps) == ("stop", STEPS + 1)
    assert turn.summaries > 100
    assert max(turn.sizes) <= WINDOW
    assert max(turn.lengths[-300:]) <= max(turn.lengths[:300])
    for counts in rows, statements:
        first, last = counts[310] - counts[10], counts[-1] - counts[-301]
        assert last <= 1.05 * first + NOTICES


SUMMARY = "\n".join(f"## {section}\nSome." for section in SUMMARY_SECTIONS)
OVER = [say("Words. " * 200), call("look"), usage(input=7_100)]
UNDER = [say("Words. " * 200), call("look"), usage(input=3_000)]


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "found"


async def failed_chat(life: Any) -> str:
    """A chat that was still over the limit right after it was summarized."""
    chat_id: str = await life.begin()
    await life.rest(chat_id)
    await life.send(chat_id, "and?")
    chat = await life.rest(chat_id)
    assert chat.error is not None
    assert chat.error.kind == "still_over_limit"
    assert chat.error.message.endswith(
        " a model with a larger window, or start a new conversation."
    )
    return chat_id


FAILS: list[Any] = [["One. " * 500, usage(input=9_000)], SUMMARY, OVER]
NARROW = Policy(context=ContextLimits(window=10_000))


async def test_a_retry_after_a_compaction_that_did_not_help_tries_again(
    db: Database, clock: Clock
) -> None:
    model = ScriptedModel([*FAILS, SUMMARY, UNDER, "Done."])
    async with living(db, model, [look], clock=clock, policy=NARROW) as life:
        chat_id = await failed_chat(life)
        await life.do(user.retry, chat_id)
        chat = await life.rest(chat_id)
        assert chat.status is Status.IDLE
        assert (await life.lines(chat_id))[-1] == "answer: Done."
    assert model.left == 0


async def test_a_retry_that_does_not_help_either_fails_again(db: Database, clock: Clock) -> None:
    model = ScriptedModel([*FAILS, SUMMARY, OVER, "never asked"])
    async with living(db, model, [look], clock=clock, policy=NARROW) as life:
        chat_id = await failed_chat(life)
        await life.do(user.retry, chat_id)
        chat = await life.rest(chat_id)
        assert chat.error is not None
        assert chat.error.kind == "still_over_limit"
    assert model.left == 1


async def test_a_retry_after_an_overflow_that_could_not_be_helped_asks_again(
    db: Database, clock: Clock
) -> None:
    overflow = fail(kind="context_overflow")
    model = ScriptedModel(["One. " * 500, overflow, SUMMARY, overflow, "Done."])
    async with living(db, model, [look], clock=clock) as life:
        chat_id = await failed_chat(life)
        await life.do(user.retry, chat_id)
        chat = await life.rest(chat_id)
        assert chat.status is Status.IDLE
        assert (await life.lines(chat_id))[-1] == "answer: Done."
