"""How a turn ends: what its outcome says, and what a failed one leaves in the log."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final, Literal

import pytest

from holdfast.chat.rows import TurnOutcome
from holdfast.chat.snapshots import ChatResult, StrandedLimits, read_result
from holdfast.hooks import Context
from holdfast.kernel.errors import ProviderError
from holdfast.kernel.policy import Policy, Retry
from holdfast.store.database import Database
from holdfast.testing import Clock, cut, fail, finish, say
from tests.kernel.runs import scripted
from tests.worker.workers import Life, living

ONCE: Final = Policy(retry=Retry(attempts=1))
WATCH: Final = StrandedLimits(60_000_000, 60_000_000)


async def result_of(life: Life, chat_id: str) -> ChatResult:
    made = await life.db.read(lambda tx: read_result(tx, chat_id, WATCH))
    assert made is not None
    return made


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


async def test_a_model_that_finishes_with_an_error_fails_the_turn(
    db: Database, clock: Clock
) -> None:
    script = [[say("Half"), finish("error")]]
    async with living(db, script, clock=clock, policy=ONCE) as life:
        chat = await life.rest(await life.begin())
        assert (chat.status, chat.outcome) == ("error", TurnOutcome("error"))
        assert chat.error is not None
        assert chat.error.kind == "server"
        assert await life.lines(chat.id) == ["prompt: ?", "answer: Half"]


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (["One."], "One."),
        (
            [[say("Once"), finish("length")], [say(" upon"), finish("length")], " a."],
            "Once upon a.",
        ),
        ([*[[say("x"), finish("length")]] * 3, [say("y"), cut()]], "xxxy"),
        ([fail(kind="auth")], ""),
    ],
    ids=["whole", "in pieces", "failed after pieces", "nothing"],
)
async def test_the_text_of_a_result_is_all_pieces_of_the_answer(
    db: Database, clock: Clock, script: Sequence[Any], text: str
) -> None:
    async with living(db, ["Before.", *script], clock=clock, policy=ONCE) as life:
        chat = await life.rest(await life.begin("Tell"))
        await life.send(chat.id, "And?")
        await life.until(chat.id, lambda row: row.messages > chat.messages and not row.busy)
        assert (await result_of(life, chat.id)).text == text


@pytest.mark.parametrize("why", ["content_filter", "length"])
async def test_an_answer_that_was_cut_is_in_the_outcome(
    db: Database, clock: Clock, why: Literal["content_filter", "length"]
) -> None:
    policy = Policy(recoveries=0)
    async with living(db, [[say("Visible"), finish(why)]], clock=clock, policy=policy) as life:
        chat = await life.rest(await life.begin())
        assert chat.outcome == TurnOutcome("stop", 1, why)
        result = await result_of(life, chat.id)
        assert (result.text, result.cut_by) == ("Visible", why)


@pytest.mark.parametrize("kind", ["auth", "overloaded"])
async def test_a_failed_turn_leaves_one_line_in_the_log(
    db: Database, clock: Clock, caplog: pytest.LogCaptureFixture, kind: Any
) -> None:
    policy = Policy(retry=Retry(attempts=3))
    script = [fail("sorry", kind=kind)] * 3
    async with living(db, script, clock=clock, policy=policy) as life:
        chat = await life.rest(await life.begin())
    attempt = 1 if kind == "auth" else 3
    assert [line for line in warnings(caplog) if not line.startswith("Retrying")] == [
        f"turn failed: kind {kind}, chat {chat.id}, model scripted:model, attempt {attempt}: "
        "ProviderError: sorry"
    ]


async def test_a_failed_run_in_memory_leaves_the_same_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy = Policy(retry=Retry(attempts=3))
    agent = scripted([fail("sorry", kind="overloaded")] * 3, policy=policy)
    async for _ in agent.run("?"):
        pass
    assert [line for line in warnings(caplog) if not line.startswith("Retrying")] == [
        "turn failed: kind overloaded, chat none, model scripted:model, attempt 3: "
        "ProviderError: sorry"
    ]


async def test_every_retry_leaves_a_line_in_the_log(
    db: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    script = [fail("sorry", status=529, retry_after=7), fail("again", status=429), "Done."]
    async with living(db, script, clock=clock) as life:
        chat = await life.rest(await life.begin())
    first, second = warnings(caplog)
    facts = f"kind overloaded, chat {chat.id}, model scripted:model: ProviderError: sorry"
    assert first == f"Retrying in 7 s (attempt 2 of 10): {facts}"
    assert "(attempt 3 of 10): kind rate_limit" in second


async def test_every_retry_of_a_run_in_memory_leaves_the_same_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await scripted([fail("sorry", status=529, retry_after=7), "Done."]).run("?")
    (line,) = warnings(caplog)
    facts = "kind overloaded, chat none, model scripted:model: ProviderError: sorry"
    assert line == f"Retrying in 7 s (attempt 2 of 10): {facts}"


async def test_a_model_that_refuses_connections_here_fails_the_chat_within_seconds(
    db: Database, clock: Clock
) -> None:
    def refused() -> ProviderError:
        return ProviderError("refused", kind="network", attempts=3, sentence="Is it running?")

    async with living(db, [fail(refused()) for _ in range(3)], clock=clock) as life:
        chat = await life.rest(await life.begin(), seconds=10)
    assert chat.error is not None
    assert chat.error.message == "Is it running? Given up after 3 attempts."


async def test_a_turn_that_fails_between_two_model_calls_leaves_one_line_too(
    db: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    def guard(_context: Context, about: object) -> object:
        raise ValueError("no guard")

    async with living(db, ["Done."], clock=clock, guard=guard) as life:
        chat = await life.rest(await life.begin())
    assert chat.error is not None
    (line,) = warnings(caplog)
    expected = f"turn failed: kind {chat.error.kind}, chat {chat.id}, model scripted:model, "
    assert line.startswith(expected)


async def test_an_unexpected_error_of_a_model_has_its_traceback_in_that_line(
    db: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with living(db, [fail(ValueError("a bug"))], clock=clock) as life:
        chat = await life.rest(await life.begin())
    (record,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert record.exc_info is not None
    assert "a bug" in str(record.exc_info[1])
    assert f"kind internal, chat {chat.id}" in record.getMessage()


async def test_a_turn_that_stops_or_is_interrupted_leaves_none(
    db: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with living(db, ["One.", [say("Two"), finish("stop")]], clock=clock) as life:
        chat = await life.rest(await life.begin())
        await life.send(chat.id, "And?")
        await life.interrupted(chat.id)
    assert warnings(caplog) == []
