"""A worker takes a chat from its first message to its rest."""

from __future__ import annotations

from math import nan

import anyio
import pytest

from holdfast import Limits
from holdfast.chat.journal import read_journal
from holdfast.chat.queries import read_messages, spent
from holdfast.chat.rows import ChatRow
from holdfast.chat.transitions import user
from holdfast.hooks import Context
from holdfast.kernel import tool_results
from holdfast.kernel.decide import Recorded
from holdfast.kernel.errors import ExpectedFailure
from holdfast.kernel.messages import Usage, user_message
from holdfast.kernel.model import Ping
from holdfast.kernel.policy import Policy, Retry
from holdfast.kernel.stop_guard import Inject, Stopping
from holdfast.kernel.summary_checkpoint import SUMMARY_SECTIONS
from holdfast.kernel.tool import tool
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptItem, call, call_raw, cut, fail, finish, hang, pause, say
from holdfast.testing import usage as reports
from tests.worker.workers import Life, asks, in_short, living, results_of, soon


@tool(effect="pure")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_a_message_is_answered(db: Database, clock: Clock) -> None:
    async with living(db, ["Hello."], clock=clock) as life:
        chat = await life.rest(await life.begin("Hi"))
        assert chat.status == "idle"
        assert chat.outcome is not None
        assert (chat.outcome.reason, chat.outcome.steps) == ("stop", 1)
        assert await life.lines(chat.id) == ["prompt: Hi", "answer: Hello."]
        assert chat.worker_id is None


@pytest.mark.parametrize(
    "odd",
    [
        Usage(input=-5, output=3),
        Usage(cache_read=2**70, output=3),
        Usage(output=3, cost=-1.0),
        Usage(output=3, cost=nan),
    ],
    ids=["less than nothing", "more than can be stored", "a price below zero", "no price at all"],
)
async def test_what_no_model_can_have_used_is_not_counted_and_costs_no_answer(
    db: Database, clock: Clock, odd: Usage
) -> None:
    async with living(db, [["Hello.", odd]], clock=clock) as life:
        chat = await life.rest(await life.begin("Hi"))
        assert chat.status == "idle"
        assert await life.lines(chat.id) == ["prompt: Hi", "answer: Hello."]
        used = (await db.read(lambda tx: spent(tx, chat.id))).usage
        assert (used.input, used.output, used.cost) == (0, 3, None)
        assert 0 <= used.cache_read <= 2**53


async def test_a_call_is_run_and_its_result_read(db: Database, clock: Clock) -> None:
    async with living(db, [call("add", a=1, b=2), "Three."], [add], clock=clock) as life:
        chat = await life.rest(await life.begin())
        assert await life.lines(chat.id) == [
            "prompt: ?",
            "answer: →add",
            "results: ok 3",
            "answer: Three.",
        ]


async def test_a_pure_call_costs_two_transactions_a_step(db: Database, clock: Clock) -> None:
    script = [*(call("add", a=n, b=n) for n in range(5)), "Done."]
    async with living(db, script, [add], clock=clock) as life:
        chat = await life.rest(await life.begin())
    # create, claim, five times two, the last answer, the finish
    assert chat.snapshot_version == 1 + 1 + 5 * 2 + 1 + 1
    assert chat.attempt == 1


async def test_a_tool_that_keeps_failing_is_refused_for_some_answers_and_tried_again(
    db: Database, clock: Clock
) -> None:
    @tool
    async def shaky(path: str = "") -> str:
        if path:
            raise ExpectedFailure(f"{path} is not there")
        raise OSError("no disk")

    miss = [call("shaky", path=name) for name in "abc"]
    script = [*[miss] * 4, *[call("shaky")] * 8, "Done."]
    async with living(db, script, [shaky], clock=clock) as life:
        chat = await life.rest(await life.begin())
        told = [line.split(" ")[1] for line in await life.lines(chat.id) if "results" in line]
    assert told == [
        *["failed"] * 4,  # the first of three expected failures
        *["failed"] * 3,
        *["refused"] * 3,
        "failed",
        "refused",
    ]


async def test_a_message_sent_meanwhile_is_delivered_at_the_end(db: Database, clock: Clock) -> None:
    async with living(db, [[pause(5), "One."], "Two."], clock=clock) as life:
        chat_id = await life.begin("1")
        await soon(1, lambda: life.send(chat_id, "2"))
        await life.rest(chat_id)
        assert await life.lines(chat_id) == [
            "prompt: 1",
            "answer: One.",
            "prompt: 2",
            "answer: Two.",
        ]


async def test_steering_is_delivered_between_two_steps(db: Database, clock: Clock) -> None:
    script = [[pause(5), call("add", a=1, b=1)], "I see.", "And later."]
    async with living(db, script, [add], clock=clock) as life:
        chat_id = await life.begin("1")
        await soon(1, lambda: life.send(chat_id, "later", "queue"))
        await life.send(chat_id, "now", "steer")
        await life.rest(chat_id)
        told = await life.lines(chat_id)
        assert told[:4] == [
            "prompt: 1",
            "answer: →add",
            "results: skipped Skipped because of a new message from the user.",
            "prompt: now",
        ]
        assert told[4:] == ["answer: I see.", "prompt: later", "answer: And later."]


async def test_a_failed_attempt_is_shown_and_tried_again(db: Database, clock: Clock) -> None:
    policy = Policy(retry=Retry(first_delay=8))
    script = [[reports(input=7), fail(kind="overloaded")], "Here."]
    async with living(db, script, clock=clock, policy=policy) as life:
        chat_id = await life.begin()
        waiting = await life.until(chat_id, lambda chat: chat.retry is not None)
        assert waiting.retry is not None
        assert (waiting.retry.attempt, waiting.retry.failure.kind) == (1, "overloaded")
        assert waiting.retry_at is not None
        assert waiting.status == "running"
        assert waiting.attempt == 2
        chat = await life.rest(chat_id)
        assert await life.lines(chat_id) == ["prompt: ?", "answer: Here."]
        assert (chat.retry, chat.retry_at, chat.attempt) == (None, None, 1)


async def test_the_last_failed_attempt_ends_in_an_error_that_says_why(
    db: Database, clock: Clock
) -> None:
    policy = Policy(retry=Retry(attempts=2))
    script = [[say("Half"), cut()], [say("Half an"), cut()], "Whole."]
    async with living(db, script, clock=clock, policy=policy) as life:
        chat = await life.rest(await life.begin())
        assert chat.status == "error"
        assert chat.error is not None
        assert chat.error.kind == "stream_cut"
        assert "Given up after 2 attempts" in chat.error.message
        (_, partial) = await life.history(chat.id)
        assert (partial.text, partial.visibility) == ("Half an", "user")
        await life.do(user.retry, chat.id)
        await life.rest(chat.id)
        assert (await life.lines(chat.id))[-1] == "answer: Whole."
        request = life.agent.model.requests[-1]  # type: ignore[union-attr]
        assert [message.text for message in request.messages] == ["?"]


async def test_a_long_wait_belongs_to_nobody(db: Database, clock: Clock) -> None:
    script = [fail(kind="rate_limit", retry_after=120), "At last."]
    async with living(db, script, clock=clock) as life:
        chat_id = await life.begin()
        waiting = await life.until(chat_id, lambda chat: chat.retry is not None)
        assert (waiting.status, waiting.worker_id) == ("running", None)
        before = clock.now()
        await life.rest(chat_id)
        assert clock.now() - before > 100_000_000
        assert (await life.lines(chat_id))[-1] == "answer: At last."


async def test_what_is_said_meanwhile_ends_the_wait_for_the_next_attempt(
    db: Database, clock: Clock
) -> None:
    script = [fail(kind="rate_limit", retry_after=20), "Now."]
    async with living(db, script, clock=clock) as life:
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.retry is not None)
        before = clock.now()
        await life.send(chat_id, "hurry", "steer")
        await life.rest(chat_id)
        assert clock.now() - before < 2_000_000
        assert await life.lines(chat_id) == ["prompt: ?", "prompt: hurry", "answer: Now."]


async def test_a_turn_that_reaches_its_limit_says_so(db: Database, clock: Clock) -> None:
    script = [call("add", a=1, b=1)] * 3
    async with living(db, script, [add], clock=clock, limits=Limits(steps=2)) as life:
        chat = await life.rest(await life.begin())
        assert chat.outcome is not None
        assert chat.outcome.reason == "limit"
        assert (await life.lines(chat.id))[-1] == (
            "note: Stopped: this turn used 2 of 2 steps. Continue to allow the same again, or "
            "raise limits.steps of the agent."
        )


async def test_the_guard_is_asked_before_the_end(db: Database, clock: Clock) -> None:
    asked: list[int] = []

    async def guard(_context: Context, about: Stopping) -> Inject | None:
        asked.append(about.steps)
        return Inject("Are you sure?") if len(asked) == 1 else None

    async with living(db, ["Yes.", "Sure."], clock=clock, guard=guard) as life:
        chat = await life.rest(await life.begin())
        assert await life.lines(chat.id) == [
            "prompt: ?",
            "answer: Yes.",
            "injected: Are you sure?",
            "answer: Sure.",
        ]
        assert asked == [1, 2]


async def test_a_wrong_setup_fails_at_once(db: Database, clock: Clock) -> None:
    async with living(db, ["Hi"], clock=clock) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        await life.do(user.update, chat_id, {"model": "nobody:nothing"})
        await life.send(chat_id, "again")
        chat = await life.rest(chat_id)
        assert chat.error is not None
        assert chat.error.kind == "config"
        assert "nobody" in chat.error.detail + chat.error.message


@tool(effect="once")
async def note(text: str) -> str:
    """Write something down."""
    return f"noted {text}"


def notes(text: str) -> ScriptItem:
    """A call by a provider that gives every call of every answer the same id."""
    return call_raw("note", f'{{"text": "{text}"}}', id="same")


async def noted(life: Life, chat_id: str) -> list[str]:
    """What came of each call, in order, also of those that were edited away. Their ids differ."""
    stored = await life.db.read(lambda tx: read_messages(tx, chat_id, limit=100, superseded=True))
    made = results_of([one.message for one in stored])
    assert len({one.call_id for one in made}) == len(made)
    return [one.text for one in made]


async def test_a_call_id_that_an_earlier_answer_had_is_another_call(
    db: Database, clock: Clock
) -> None:
    """The journal has a finished call of this id: without one of its own it would not run."""
    script = [notes("one"), notes("two"), "Done.", notes("three"), "Done."]
    async with living(db, script, [note], clock=clock) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        await life.send(chat_id, "more")
        await life.rest(chat_id)
        assert await noted(life, chat_id) == ["noted one", "noted two", "noted three"]


async def test_a_call_id_that_an_answer_before_a_takeover_had_is_another_call(
    db: Database, clock: Clock
) -> None:
    async with living(db, [notes("one"), hang()], [note], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(1)
        await life.die()
    async with living(db, [notes("two"), "Done."], [note], clock=clock, seed=1) as life:
        await life.rest(chat_id)
        assert await noted(life, chat_id) == ["noted one", "noted two"]


@pytest.mark.parametrize("busy", [True, False], ids=["while it runs", "at rest"])
async def test_a_call_id_of_an_answer_that_was_edited_away_is_another_call(
    db: Database, clock: Clock, busy: bool
) -> None:
    script = [notes("one"), hang() if busy else "Done.", notes("two"), "Done."]
    async with living(db, script, [note], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(1)
        await life.do(user.edit, chat_id, 1, user_message("else"))
        await life.rest(chat_id)
        assert await noted(life, chat_id) == ["noted one", "noted two"]


async def test_a_call_id_of_an_answer_that_was_interrupted_is_another_call(
    db: Database, clock: Clock
) -> None:
    script = [[notes("one"), hang()], notes("two"), "Done."]
    async with living(db, script, [note], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(1)
        await life.send(chat_id, "stop", "interrupt")
        await life.rest(chat_id)
        first, second = await noted(life, chat_id)
        assert first.startswith("Interrupted")
        assert second == "noted two"


async def test_usage_of_a_last_attempt_that_leaves_something_to_show_is_counted_once(
    db: Database, clock: Clock
) -> None:
    """It is in the message that people are shown, and therefore not beside it."""
    script = [[Ping(Usage(5, 1)), say("Half"), fail(status=401)]]
    async with living(db, script, clock=clock) as life:
        chat = await life.rest(await life.begin())
        assert chat.status == "error"
        assert (await life.history(chat.id))[-1].visibility == "user"
        counted = await db.read(lambda tx: spent(tx, chat.id))
        assert (counted.usage.input, counted.usage.output, counted.calls) == (5, 1, 1)


async def test_usage_is_counted_once_for_each_attempt(db: Database, clock: Clock) -> None:
    script = [
        [reports(input=5, output=1), fail(kind="overloaded")],
        [reports(input=10, output=2), call("add", a=1, b=1)],
        [reports(input=20, output=3), say("Two.")],
    ]
    async with living(db, script, [add], clock=clock) as life:
        chat = await life.rest(await life.begin())
        counted = await db.read(lambda tx: spent(tx, chat.id))
    assert (counted.usage.input, counted.usage.output) == (30, 5)
    assert counted.usage.cost is None
    assert counted.unpriced == counted.calls == 2


async def test_many_chats_run_at_once(db: Database, clock: Clock) -> None:
    async with living(db, [[pause(10), "Done."]] * 20, clock=clock) as life:
        before = clock.now()
        chats = [await life.begin(str(number)) for number in range(20)]
        for chat_id in chats:
            await life.rest(chat_id)
        assert clock.now() - before < 30_000_000


async def test_a_request_that_cannot_be_prepared_is_tried_again_and_then_shown(
    db: Database, clock: Clock
) -> None:
    def broken(context: Context) -> list[str]:
        raise ValueError("boom")

    policy = Policy(retry=Retry(attempts=2))
    async with living(db, ["?"], [add], clock=clock, active=broken, policy=policy) as life:
        chat = await life.rest(await life.begin())
    assert chat.error is not None
    assert chat.error.kind == "prepare"
    assert "boom" in chat.error.detail


async def test_a_summary_that_was_asked_for_ends_where_it_began(db: Database, clock: Clock) -> None:
    summary = "\n".join(f"## {section}\n-" for section in SUMMARY_SECTIONS)
    script = ["One. " * 500, [reports(input=3, output=1), say(summary)], "Two."]
    async with living(db, script, clock=clock) as life:
        chat_id = await life.begin()
        rested = await life.rest(chat_id)
        await life.do(user.compact, chat_id)
        chat = await life.rest(chat_id)
        assert chat.error is None
        assert chat.outcome == rested.outcome
        assert chat.compaction is None
        assert [in_short(m).split(":")[0] for m in await life.history(chat_id)] == [
            "prompt",
            "answer",
            "checkpoint",
            "note",
        ]
        await life.send(chat_id, "go on")
        await life.rest(chat_id)
        assert (await life.lines(chat_id))[-1] == "answer: Two."


async def test_a_finished_call_is_kept_beside_a_slow_one(db: Database, clock: Clock) -> None:
    go_on = anyio.Event()

    @tool(effect="once", parallel=True)
    async def slow() -> str:
        await go_on.wait()
        return "slow"

    @tool(effect="once", parallel=True)
    async def quick() -> str:
        return "quick"

    async with living(
        db, [[call("slow"), call("quick")], "Both."], [slow, quick], clock=clock
    ) as life:
        chat_id = await life.begin()
        await anyio.sleep(3)
        journal = await db.read(lambda tx: read_journal(tx, chat_id))
        states = {row.tool: (row.state, row.result and row.result.text) for row in journal.values()}
        assert states == {"slow": ("started", None), "quick": ("finished", "quick")}
        go_on.set()
        await life.rest(chat_id)
        assert [one.text for one in results_of(await life.history(chat_id))] == ["slow", "quick"]
        assert await db.read(lambda tx: read_journal(tx, chat_id)) == {}


async def test_an_answer_cut_by_length_is_asked_for_its_rest(db: Database, clock: Clock) -> None:
    async with living(db, [[say("Half"), finish("length")], " done."], clock=clock) as life:
        chat = await life.rest(await life.begin())
        kinds = [message.kind for message in await life.history(chat.id)]
        assert kinds == ["prompt", "answer", "injected", "answer"]


class Told:
    """Hears of chats that have come to rest."""

    def __init__(self) -> None:
        self.how: list[str] = []

    async def __call__(self, chat: ChatRow) -> None:
        assert chat.outcome is not None
        self.how.append(f"{chat.status} {chat.outcome.reason}")


async def test_whoever_wants_to_know_is_told_once_how_each_turn_ended(
    db: Database, clock: Clock
) -> None:
    told = Told()
    script = ["One.", fail(kind="auth"), call("asks"), [say("Half"), hang()], "Two."]
    async with living(db, script, [asks], clock=clock) as life:
        life.worker._on_idle = told
        chat_id = await life.begin()
        await life.rest(chat_id)
        await life.send(chat_id, "and?")
        await life.rest(chat_id)
        await life.do(user.retry, chat_id)
        await life.until(chat_id, lambda chat: chat.status == "requires_action")
        await life.do(user.resolve, chat_id, await answers(life, chat_id))
        await anyio.sleep(5)
        await life.interrupted(chat_id)
        life.faulty_db.refuse("finish_turn", 3)
        await life.send(chat_id, "again")
        await life.rest(chat_id)
        await anyio.sleep(1)
    assert told.how == [
        "idle stop",
        "error error",
        "idle interrupted",
        "error error",
    ]


async def answers(life: Life, chat_id: str) -> dict[str, Recorded]:
    waiting = [row.asked.call for row in await life.actions(chat_id) if row.asked is not None]
    return {one.id: Recorded(tool_results.result(one, "ok", "yes")) for one in waiting}
