"""The check of an answer in a durable chat: its rejections outlive the process that made them."""

from __future__ import annotations

from dataclasses import dataclass

import anyio
import pytest

from holdfast.errors import Rejected
from holdfast.hooks import Context
from holdfast.options import Policy, Retry
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, pause
from tests.kernel.runs import look
from tests.worker.workers import living


@dataclass
class Shop:
    closed: tuple[str, ...] = ("Monday",)


async def is_open(context: Context[Shop], output: str) -> None:
    await anyio.sleep(1)
    if output in context.deps.closed:
        raise Rejected(f"The shop is closed on {output}.")


REPAIR = "injected: Your last answer was not accepted"


async def test_a_rejected_answer_of_a_chat_is_repaired(db: Database, clock: Clock) -> None:
    model = ScriptedModel(["Monday", "Tuesday"])
    async with living(
        db, model, clock=clock, deps_type=Shop, deps=lambda info: Shop(), validate=is_open
    ) as life:
        chat_id = await life.begin()
        chat = await life.rest(chat_id)
        assert chat.error is None
        prompt, first, repair, second = await life.lines(chat_id)
    assert (prompt, first, second) == ("prompt: ?", "answer: Monday", "answer: Tuesday")
    assert repair.startswith(REPAIR)
    assert repair.endswith("The shop is closed on Monday.")


async def test_rejections_before_a_crash_count_in_the_process_that_takes_over(
    db: Database, clock: Clock
) -> None:
    def never(context: Context, output: object) -> None:
        raise Rejected("Never.")

    policy = Policy(repairs=1)
    first = ScriptedModel(["One.", [pause(100)]])
    async with living(db, first, clock=clock, validate=never, policy=policy) as life:
        chat_id = await life.begin()
        await anyio.sleep(10)
        await life.die()
    second = ScriptedModel(["Two."])
    async with living(db, second, clock=clock, seed=1, validate=never, policy=policy) as life:
        chat = await life.rest(chat_id, 1_000)
        assert chat.error is not None
        assert chat.error.kind == "invalid_output"
        lines = await life.lines(chat_id)
    assert len(second.requests) == 1
    assert [line for line in lines if line.startswith(REPAIR)] == [lines[2]]
    assert lines[3:4] == ["answer: Two."]


async def test_a_check_that_a_crash_interrupted_is_called_again(db: Database, clock: Clock) -> None:
    seconds = [100.0, 0.0]

    async def slow(context: Context, output: str) -> None:
        await anyio.sleep(seconds.pop(0))
        if output == "Monday":
            raise Rejected("Closed.")

    policy = Policy(validate_timeout=200)
    async with living(db, ["Monday"], clock=clock, validate=slow, policy=policy) as life:
        chat_id = await life.begin()
        await anyio.sleep(10)
        await life.die()
    seconds.append(0.0)
    async with living(db, ["Tuesday"], clock=clock, seed=1, validate=slow, policy=policy) as life:
        chat = await life.rest(chat_id, 1_000)
        assert chat.error is None
        assert (await life.lines(chat_id))[-1] == "answer: Tuesday"


@pytest.mark.parametrize("attempts", [1, 2])
async def test_a_check_that_fails_otherwise_is_retried_like_a_model_call(
    db: Database, clock: Clock, attempts: int
) -> None:
    failures = [ConnectionError("refused")]

    def check(context: Context, output: str) -> None:
        if failures:
            raise failures.pop()

    policy = Policy(retry=Retry(attempts=attempts, first_delay=1))
    async with living(db, ["Yes."], clock=clock, validate=check, policy=policy) as life:
        chat_id = await life.begin()
        chat = await life.rest(chat_id)
        assert (await life.lines(chat_id))[1] == "answer: Yes."
    if attempts == 1:
        assert chat.error is not None
        assert chat.error.kind == "prepare"
    else:
        assert chat.error is None


async def test_an_interrupt_ends_the_check_of_a_chat(db: Database, clock: Clock) -> None:
    async def forever(context: Context, output: str) -> None:
        await anyio.sleep_forever()

    async with living(db, ["Yes."], [look], clock=clock, validate=forever) as life:
        chat_id = await life.begin()
        await anyio.sleep(5)
        await life.interrupted(chat_id)
        assert (await life.lines(chat_id))[1] == "answer: Yes."
