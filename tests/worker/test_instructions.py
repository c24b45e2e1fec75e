"""The instructions of a turn outlive the process that evaluated them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from traceback import extract_tb

import anyio
import pytest

import holdfast
from holdfast import Agent, handoff
from holdfast.chat.snapshots import ChatResult
from holdfast.chat.transitions import user
from holdfast.hooks import Context
from holdfast.host import serving
from holdfast.kernel.messages import user_message
from holdfast.options import Policy, Retry
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, call, pause
from tests.kernel.runs import look
from tests.kernel.test_instructions import counting, systems
from tests.worker.workers import living


def always(text: str) -> Callable[[Context], str]:
    return lambda context: text


async def test_another_process_continues_the_turn_with_the_same_instructions(
    db: Database, clock: Clock
) -> None:
    first = ScriptedModel([[call("look", seconds=100)]])
    async with living(db, first, [look], clock=clock, instructions=always("It is day.")) as life:
        chat_id = await life.begin()
        await anyio.sleep(10)
        await life.die()
    assert systems(first.requests) == ["It is day."]
    second = ScriptedModel(["Done.", "Good night."])
    night = always("It is night.")
    async with living(db, second, [look], clock=clock, seed=1, instructions=night) as life:
        chat = await life.rest(chat_id, 1_000)
        assert chat.error is None
        await life.send(chat_id, "More.")
        await life.rest(chat_id)
        lines = await life.lines(chat_id)
    assert systems(second.requests) == ["It is day.", "It is night."]
    assert lines == [
        "prompt: ?",
        "instructions: It is day.",
        "answer: →look",
        "results: ok saw",
        "answer: Done.",
        "prompt: More.",
        "instructions: It is night.",
        "answer: Good night.",
    ]


async def test_equal_instructions_are_committed_once_however_many_processes_evaluate_them(
    db: Database, clock: Clock
) -> None:
    prefixes = set()
    for seed in range(3):
        model = ScriptedModel(["Yes."])
        told = always("Be brief.")
        async with living(db, model, clock=clock, seed=seed, instructions=told) as life:
            if not seed:
                chat_id = await life.begin()
            else:
                await life.send(chat_id, "More.")
            await life.rest(chat_id)
            lines = await life.lines(chat_id)
        prefixes |= {request.system for request in model.requests}
    assert [line for line in lines if line.startswith("instructions")] == [
        "instructions: Be brief."
    ]
    assert len(prefixes) == 1


async def test_a_function_that_raises_is_called_again_and_then_fails_the_chat(
    db: Database, clock: Clock
) -> None:
    working = anyio.Event()

    async def unreliable(context: Context) -> str:
        if not working.is_set():
            raise OSError("no profile")
        return f"For {context.chat}."

    policy = Policy(retry=Retry(attempts=3))
    model = ScriptedModel(["Done."])
    async with living(db, model, clock=clock, instructions=unreliable, policy=policy) as life:
        chat_id = await life.begin()
        retrying = await life.until(chat_id, lambda chat: chat.retry is not None)
        assert retrying.retry is not None
        assert retrying.retry.failure.kind == "prepare"
        failed = await life.rest(chat_id)
        assert failed.error is not None
        assert (failed.error.kind, model.requests) == ("prepare", [])
        working.set()
        await life.do(user.retry, chat_id)
        assert (await life.rest(chat_id)).error is None
    assert systems(model.requests) == [f"For {chat_id}."]


async def test_a_mistake_in_a_function_fails_the_chat_at_once_and_is_logged_once(
    db: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    told: dict[str, str] = {}

    def customer(context: Context) -> str:
        return told[context.owner]

    model = ScriptedModel(["Done."])
    async with living(db, model, clock=clock, instructions=customer) as life:
        began = anyio.current_time()
        chat_id = await life.begin()
        failed = await life.rest(chat_id)
        assert anyio.current_time() - began < 1
        assert failed.error is not None
        assert (failed.error.kind, failed.error.retryable) == ("prepare", False)
        assert "KeyError: '' (test_instructions.py, line " in failed.error.detail
        (record,) = (record for record in caplog.records if record.exc_info)
        assert record.exc_info is not None
        assert [frame.name for frame in extract_tb(record.exc_info[2])] == ["customer"]
        told[""] = "Be brief."
        await life.do(user.retry, chat_id)
        assert (await life.rest(chat_id)).error is None


async def test_an_interrupt_ends_a_function_of_the_instructions(db: Database, clock: Clock) -> None:
    async def forever(context: Context) -> str:
        await anyio.sleep_forever()
        return ""

    async with living(db, ["Never."], clock=clock, instructions=forever) as life:
        chat_id = await life.begin()
        await anyio.sleep(2)
        await life.interrupted(chat_id)
        prompt, marker = await life.lines(chat_id)
        assert (prompt, marker.partition(":")[0]) == ("prompt: ?", "marker")


async def test_an_edited_turn_is_told_anew_and_what_the_other_was_told_stays_readable(
    db: Database, clock: Clock
) -> None:
    model = ScriptedModel(["One.", [pause(20)], "Three."])
    async with living(db, model, clock=clock, instructions=counting()) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        await life.send(chat_id, "More.")
        await anyio.sleep(5)
        await life.do(user.edit, chat_id, 4, user_message("Less."))
        await life.rest(chat_id)
        stored = await life.db.read(
            lambda tx: tx.fetch(
                "SELECT number, superseded_at IS NULL FROM messages "
                "WHERE chat_id = :id AND kind = 'instructions' ORDER BY number",
                {"id": chat_id},
            )
        )
    assert systems(model.requests) == ["Evaluation 1.", "Evaluation 2.", "Evaluation 3."]
    assert [(number, bool(live)) for number, live in stored] == [
        (2, True),
        (5, False),
        (7, True),
    ]


async def test_instructions_that_await_what_was_cancelled_fail_only_their_chat(
    db: Database, clock: Clock
) -> None:
    """The cancellation would end the task group of all chats, and leave the block of the host."""
    results: list[ChatResult] = []

    async def cancelled_once(context: Context) -> str:
        lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        if context.labels.get("lost"):
            lost.cancel()
        else:
            lost.set_result("Be brief.")
        return await lost

    agent = Agent(
        model=ScriptedModel(["Yes."]),
        instructions=cancelled_once,
        policy=Policy(retry=Retry(attempts=1)),
    )
    async with serving(db, [agent], titles=False) as host:
        for labels in ({"lost": "yes"}, {}):
            chat = await host.create("Go.", labels=labels)
            results.append(await chat.rest())
    failed, answered = results
    assert failed.failure is not None
    assert "a future that was cancelled" in failed.failure.detail
    assert answered.text == "Yes."


async def test_exports_and_forks_continue_with_the_instructions_of_their_history() -> None:
    model = ScriptedModel([call("look"), "One.", "Two.", "Three."])
    agent = Agent(model=model, tools=[look], instructions=always("Be brief."))
    async with holdfast.open("sqlite:///:memory:", agents=[agent], titles=False) as host:
        chat = await host.create("Go.")
        await chat.rest()
        fork = await chat.fork(3)
        for other in (fork, await host.restore(await chat.export())):
            await other.send("More.")
            await other.rest()
            page = await other.messages()
            assert [one.message.kind for one in page].count("instructions") == 1
    assert set(systems(model.requests)) == {"Be brief."}


async def test_an_agent_that_takes_the_chat_over_has_its_own_instructions(
    db: Database, clock: Clock
) -> None:
    model = ScriptedModel(["Paid.", "Bye."])
    billing = Agent(name="billing", model=model, instructions=lambda it: f"I am {it.agent}.")
    script = [call("handoff", agent="billing")]
    async with living(
        db, script, [handoff([billing])], clock=clock, instructions=counting()
    ) as life:
        chat_id = await life.begin("Pay.")
        await life.rest(chat_id)
        await life.send(chat_id, "Thanks.")
        await life.rest(chat_id)
        lines = await life.lines(chat_id)
    assert systems(model.requests) == ["I am billing."] * 2
    assert [line for line in lines if line.startswith("instructions")] == [
        "instructions: Evaluation 1.",
        "instructions: I am billing.",
    ]
