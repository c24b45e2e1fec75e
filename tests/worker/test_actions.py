"""Calls that wait for somebody: a person who agrees, a client, an answer."""

from __future__ import annotations

from functools import partial
from itertools import permutations
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from holdfast.chat.errors import NothingWaits, TransitionNotAllowed, WrongAnswer
from holdfast.chat.journal import put_call
from holdfast.chat.locked_chat import lock
from holdfast.chat.rows import ActionAnswer, ChatRow, JournalCall, Rule
from holdfast.chat.transitions import user
from holdfast.hooks import Context
from holdfast.kernel.approval import digest
from holdfast.kernel.decide import Approved, Recorded
from holdfast.kernel.messages import Text, ToolResult, user_message
from holdfast.kernel.tool import Rewrite, Tool, tool
from holdfast.store.database import Database, Tx
from holdfast.testing import Clock, ScriptedModel, call
from tests.worker.workers import SECOND, Life, asks, living, results_of

SCHEMA = {"type": "object", "properties": {}}
answers = Tool(name="answers", schema=SCHEMA, action="answer")
limited = Tool(name="limited", schema=SCHEMA, timeout=10)


class Mail:
    """A tool that asks before it sends, and remembers what it sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

        @tool(effect="once", approval="ask")
        async def mail(to: str) -> str:
            self.sent.append(to)
            return f"sent to {to}"

        self.tool = mail


@pytest.fixture
def mail() -> Mail:
    return Mail()


async def waiting(life: Life, chat_id: str) -> dict[str, JournalCall]:
    """What the chat waits for, by tool, once it does."""
    await life.until(chat_id, lambda chat: chat.status == "requires_action")
    return await life.journal(chat_id)


def answer_text(row: JournalCall, text: str = "here") -> ActionAnswer:
    return Recorded(ToolResult(row.call_id, row.tool, (Text(text),)))


def denied(row: JournalCall) -> ActionAnswer:
    return Recorded(ToolResult(row.call_id, row.tool, (Text("No."),), "refused"))


def allowed(row: JournalCall, **changed: Any) -> ActionAnswer:
    assert row.asked is not None
    return Approved(row.asked.digest, changed or None)


async def resolve(
    life: Life, chat_id: str, row: JournalCall, answer: ActionAnswer, rule: Rule | None = None
) -> ChatRow:
    return await life.do(user.resolve, chat_id, {row.call_id: answer}, rule)


async def outcomes(life: Life, chat_id: str) -> dict[str, tuple[str, str]]:
    made = results_of(await life.history(chat_id))
    return {one.call_id: (one.outcome, one.text) for one in made}


# --- approvals ----------------------------------------------------------------------------------


async def test_a_call_runs_once_a_person_agrees(db: Database, clock: Clock, mail: Mail) -> None:
    async with living(db, [call("mail", to="ann"), "Sent."], [mail.tool], clock=clock) as life:
        chat_id = await life.begin()
        row = (await waiting(life, chat_id))["mail"]
        assert row.asked is not None
        assert row.asked.arguments == '{"to":"ann"}'
        assert (await life.chat(chat_id)).worker_id is None
        await anyio.sleep(600)
        assert mail.sent == []
        before = clock.now()
        await resolve(life, chat_id, row, allowed(row))
        await life.rest(chat_id)
        assert clock.now() - before < SECOND
        assert mail.sent == ["ann"]
        assert await outcomes(life, chat_id) == {"call_1": ("ok", "sent to ann")}
        assert await life.journal(chat_id) == {}


async def test_a_person_may_change_the_arguments_and_the_model_is_told(
    db: Database, clock: Clock, mail: Mail
) -> None:
    async with living(db, [call("mail", to="ann"), "Sent."], [mail.tool], clock=clock) as life:
        chat_id = await life.begin()
        row = (await waiting(life, chat_id))["mail"]
        await resolve(life, chat_id, row, allowed(row, to="bob"))
        await life.rest(chat_id)
        assert mail.sent == ["bob"]
        ((outcome, text),) = (await outcomes(life, chat_id)).values()
        assert outcome == "ok"
        assert '[A person changed the arguments to {"to":"bob"}]' in text


async def test_arguments_of_a_person_that_do_not_fit_are_not_used(
    db: Database, clock: Clock, mail: Mail
) -> None:
    async with living(db, [call("mail", to="ann"), "Hm."], [mail.tool], clock=clock) as life:
        chat_id = await life.begin()
        row = (await waiting(life, chat_id))["mail"]
        await resolve(life, chat_id, row, allowed(row, to=["bob"]))
        await life.rest(chat_id)
        assert mail.sent == []
        ((outcome, text),) = (await outcomes(life, chat_id)).values()
        assert outcome == "failed"
        assert "a person set do not fit" in text


async def test_what_a_person_denies_is_not_run(db: Database, clock: Clock, mail: Mail) -> None:
    async with living(db, [call("mail", to="ann"), "Fine."], [mail.tool], clock=clock) as life:
        chat_id = await life.begin()
        row = (await waiting(life, chat_id))["mail"]
        await resolve(life, chat_id, row, denied(row))
        await life.rest(chat_id)
        assert mail.sent == []
        assert await outcomes(life, chat_id) == {"call_1": ("refused", "No.")}


async def test_an_approval_is_for_exactly_what_was_shown(
    db: Database, clock: Clock, mail: Mail
) -> None:
    script = [[call("mail", to="ann"), call("mail", to="bob")], "Sent."]
    async with living(db, script, [mail.tool], clock=clock) as life:
        chat_id = await life.begin()
        await waiting(life, chat_id)
        one, two = await life.actions(chat_id)
        before = await life.chat(chat_id)
        for wrong in (allowed(two), Approved("x")):
            with pytest.raises(WrongAnswer):
                await resolve(life, chat_id, one, wrong)
        assert await life.chat(chat_id) == before
        await resolve(life, chat_id, one, allowed(one))
        await life.until(chat_id, lambda chat: chat.status == "requires_action")
        assert mail.sent == ["ann"]
        await resolve(life, chat_id, two, allowed(two))
        await life.rest(chat_id)
        assert mail.sent == ["ann", "bob"]


async def test_an_approval_is_used_once(db: Database, clock: Clock, mail: Mail) -> None:
    script = [call("mail", to="ann"), call("mail", to="ann"), "Sent."]
    async with living(db, script, [mail.tool], clock=clock) as life:
        chat_id = await life.begin()
        first = (await waiting(life, chat_id))["mail"]
        await resolve(life, chat_id, first, allowed(first))
        await life.until(chat_id, lambda chat: chat.status == "requires_action")
        with pytest.raises(NothingWaits):
            await resolve(life, chat_id, first, allowed(first))
        second = (await waiting(life, chat_id))["mail"]
        assert second.call_id != first.call_id
        assert mail.sent == ["ann"]
        await life.interrupted(chat_id)


async def test_a_rule_allows_such_calls_for_the_rest_of_the_chat(
    db: Database, clock: Clock, mail: Mail
) -> None:
    script = [call("mail", to=to) for to in ("ann", "bob", "ann")]
    async with living(db, [*script, "Sent."], [mail.tool], clock=clock) as life:
        chat_id = await life.begin()
        row = (await waiting(life, chat_id))["mail"]
        await resolve(life, chat_id, row, allowed(row), rule=Rule("mail"))
        await life.rest(chat_id)
        assert mail.sent == ["ann", "bob", "ann"]


async def test_a_rule_may_be_for_the_same_arguments_only(
    db: Database, clock: Clock, mail: Mail
) -> None:
    script = [call("mail", to=to) for to in ("ann", "ann", "bob")]
    async with living(db, script, [mail.tool], clock=clock) as life:
        chat_id = await life.begin()
        row = (await waiting(life, chat_id))["mail"]
        await resolve(life, chat_id, row, allowed(row), rule=Rule("mail", '{"to":"ann"}'))
        await life.until(
            chat_id, lambda chat: chat.status == "requires_action" and chat.messages > 3
        )
        assert mail.sent == ["ann", "ann"]
        await life.interrupted(chat_id)


async def test_a_rule_that_comes_while_others_run_counts_from_then_on(
    db: Database, clock: Clock
) -> None:
    """The runner is told of it by no write of its own."""
    sent: list[str] = []

    @tool(effect="pure", approval="ask")
    async def look(at: str) -> str:
        sent.append(at)
        await anyio.sleep(5)
        return at

    script = [[call("look", at="a"), call("look", at="b")], call("look", at="c"), "Done."]
    async with living(db, script, [look], clock=clock) as life:
        chat_id = await life.begin()
        await waiting(life, chat_id)
        one, two = await life.actions(chat_id)
        await resolve(life, chat_id, one, allowed(one))
        await anyio.sleep(1)
        await resolve(life, chat_id, two, allowed(two), rule=Rule("look"))
        chat = await life.rest(chat_id)
        assert chat.status == "idle"
        assert sent == ["a", "b", "c"]


@pytest.mark.parametrize("how", ["interrupt", "edit"])
async def test_an_approval_is_void_when_the_turn_is(
    db: Database, clock: Clock, mail: Mail, how: str
) -> None:
    async with living(db, [call("mail", to="ann"), "Else."], [mail.tool], clock=clock) as life:
        chat_id = await life.begin()
        row = (await waiting(life, chat_id))["mail"]
        life.faulty_db.hold("start_calls")
        await resolve(life, chat_id, row, allowed(row))
        await anyio.sleep(1)
        assert life.faulty_db.waiting == ["start_calls"]
        if how == "edit":
            await life.do(user.edit, chat_id, 1, user_message("else"))
        else:
            await life.do(user.interrupt, chat_id)
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert mail.sent == []
        assert await life.journal(chat_id) == {}
        with pytest.raises((NothingWaits, TransitionNotAllowed)):
            await resolve(life, chat_id, row, allowed(row))


async def test_another_worker_takes_an_approval_for_what_it_is(
    db: Database, clock: Clock, mail: Mail
) -> None:
    model = ScriptedModel([call("mail", to="ann"), "Sent."])
    async with living(db, model, [mail.tool], clock=clock) as first:
        chat_id = await first.begin()
        row = (await waiting(first, chat_id))["mail"]
        first.faulty_db.hold("start_calls")
        await resolve(first, chat_id, row, allowed(row))
        await anyio.sleep(1)
        await first.die()
    async with living(db, model, [mail.tool], clock=clock, seed=1) as second:
        await second.rest(chat_id)
        assert mail.sent == ["ann"]


async def test_what_the_gate_changes_since_is_asked_again(
    db: Database, clock: Clock, mail: Mail
) -> None:
    """The way up to the approval is walked again: other arguments are another question."""

    def gate(_context: Context, call: object, arguments: object) -> Rewrite:
        return Rewrite({"to": "the lawyer"})

    model = ScriptedModel([call("mail", to="ann"), "Sent."])
    async with living(db, model, [mail.tool], clock=clock) as first:
        chat_id = await first.begin()
        row = (await waiting(first, chat_id))["mail"]
        first.faulty_db.hold("start_calls")
        await resolve(first, chat_id, row, allowed(row))
        await anyio.sleep(1)
        await first.die()
    async with living(db, model, [mail.tool], clock=clock, seed=1, gate=gate) as second:
        row = (await waiting(second, chat_id))["mail"]
        assert mail.sent == []
        assert row.asked is not None
        assert row.asked.arguments == '{"to":"the lawyer"}'
        await resolve(second, chat_id, row, allowed(row))
        await second.rest(chat_id)
        assert mail.sent == ["the lawyer"]


async def test_an_approved_call_that_was_cut_by_a_crash_is_not_run_again(
    db: Database, clock: Clock
) -> None:
    sent: list[str] = []

    @tool(effect="once", approval="ask")
    async def mail(to: str) -> str:
        sent.append(to)
        await anyio.sleep(3600)
        return "never"

    model = ScriptedModel([call("mail", to="ann"), "Hm."])
    async with living(db, model, [mail], clock=clock) as first:
        chat_id = await first.begin()
        row = (await waiting(first, chat_id))["mail"]
        await resolve(first, chat_id, row, allowed(row))
        await anyio.sleep(1)
        await first.die()
    async with living(db, model, [mail], clock=clock, seed=1) as second:
        await second.rest(chat_id)
        assert sent == ["ann"]
        ((outcome, _),) = (await outcomes(second, chat_id)).values()
        assert outcome == "lost"


# --- calls that a crash left in doubt -----------------------------------------------------------


class Doubt:
    """A tool that dies with its first lives and works in those after them."""

    def __init__(self, lives: int = 1, **properties: Any) -> None:
        self.sent: list[str] = []

        @tool(effect="once", on_lost="ask", **properties)
        async def mail(to: str) -> str:
            self.sent.append(to)
            if len(self.sent) <= lives:
                await anyio.sleep(3600)
            return f"sent to {to}"

        self.tool = mail
        self.model = ScriptedModel([call("mail", to="ann")], default="End.")

    async def cut(self, db: Database, clock: Clock, rule: Rule | None = None) -> str:
        """A chat whose worker died while the call ran."""
        async with living(db, self.model, [self.tool], clock=clock) as first:
            chat_id = await first.begin()
            if self.tool.approval == "ask":
                row = (await waiting(first, chat_id))["mail"]
                await resolve(first, chat_id, row, allowed(row), rule=rule)
            await anyio.sleep(1)
            assert self.sent == ["ann"]
            await first.die()
        return chat_id


@pytest.mark.parametrize("approval", ["never", "ask"])
async def test_a_call_in_doubt_runs_again_once_a_person_says_so(
    db: Database, clock: Clock, approval: str
) -> None:
    doubt = Doubt(approval=approval)
    chat_id = await doubt.cut(db, clock)
    async with living(db, doubt.model, [doubt.tool], clock=clock, seed=1) as second:
        row = (await waiting(second, chat_id))["mail"]
        assert row.asked is not None
        assert row.asked.again
        assert "may have taken effect" in (row.asked.preview or "")
        assert doubt.sent == ["ann"]
        await resolve(second, chat_id, row, allowed(row))
        await second.rest(chat_id)
        assert doubt.sent == ["ann", "ann"]
        assert await outcomes(second, chat_id) == {"call_1": ("ok", "sent to ann")}
        assert await second.journal(chat_id) == {}


async def test_a_call_in_doubt_may_run_again_with_other_arguments(
    db: Database, clock: Clock
) -> None:
    doubt = Doubt()
    chat_id = await doubt.cut(db, clock)
    async with living(db, doubt.model, [doubt.tool], clock=clock, seed=1) as second:
        row = (await waiting(second, chat_id))["mail"]
        await resolve(second, chat_id, row, allowed(row, to="bob"))
        await second.rest(chat_id)
        assert doubt.sent == ["ann", "bob"]


async def test_a_call_in_doubt_that_may_not_run_again_is_lost(db: Database, clock: Clock) -> None:
    doubt = Doubt()
    chat_id = await doubt.cut(db, clock)
    async with living(db, doubt.model, [doubt.tool], clock=clock, seed=1) as second:
        row = (await waiting(second, chat_id))["mail"]
        await resolve(second, chat_id, row, denied(row))
        await second.rest(chat_id)
        assert doubt.sent == ["ann"]
        ((outcome, text),) = (await outcomes(second, chat_id)).values()
        assert outcome == "lost"
        assert "may or may not have taken effect" in text
        assert text.endswith("It does not run again. No.")


async def test_what_was_allowed_before_is_no_word_about_a_call_in_doubt(
    db: Database, clock: Clock
) -> None:
    doubt = Doubt(approval="ask")
    chat_id = await doubt.cut(db, clock, Rule("mail"))
    async with living(db, doubt.model, [doubt.tool], clock=clock, seed=1) as second:
        row = (await waiting(second, chat_id))["mail"]
        assert row.asked is not None
        first = digest("call_1", "mail", row.asked.arguments)
        with pytest.raises(WrongAnswer):
            await resolve(second, chat_id, row, Approved(first))
        assert doubt.sent == ["ann"]


async def test_a_call_in_doubt_that_is_interrupted_may_have_taken_effect(
    db: Database, clock: Clock
) -> None:
    doubt = Doubt()
    chat_id = await doubt.cut(db, clock)
    async with living(db, doubt.model, [doubt.tool], clock=clock, seed=1) as second:
        await waiting(second, chat_id)
        await second.do(user.interrupt, chat_id)
        await second.rest(chat_id)
        ((outcome, text),) = (await outcomes(second, chat_id)).values()
        assert (outcome, text[-26:]) == ("interrupted", " It may have taken effect.")


async def test_a_call_in_doubt_is_asked_about_again_after_another_crash(
    db: Database, clock: Clock
) -> None:
    doubt = Doubt()
    chat_id = await doubt.cut(db, clock)
    async with living(db, doubt.model, [doubt.tool], clock=clock, seed=1) as second:
        await waiting(second, chat_id)
        await second.die()
    async with living(db, doubt.model, [doubt.tool], clock=clock, seed=2) as third:
        row = (await waiting(third, chat_id))["mail"]
        await resolve(third, chat_id, row, allowed(row))
        await third.rest(chat_id)
        assert doubt.sent == ["ann", "ann"]


@pytest.mark.parametrize("approval", ["never", "ask"])
async def test_an_answer_about_one_cut_run_is_refused_for_the_next(
    db: Database, clock: Clock, approval: str
) -> None:
    doubt = Doubt(lives=2, approval=approval)
    chat_id = await doubt.cut(db, clock)
    async with living(db, doubt.model, [doubt.tool], clock=clock, seed=1) as second:
        first = allowed((await waiting(second, chat_id))["mail"])
        await resolve(second, chat_id, (await second.journal(chat_id))["mail"], first)
        await anyio.sleep(1)
        assert doubt.sent == ["ann", "ann"]
        await second.die()
    async with living(db, doubt.model, [doubt.tool], clock=clock, seed=2) as third:
        row = (await waiting(third, chat_id))["mail"]
        with pytest.raises(WrongAnswer, match="read the action again"):
            await resolve(third, chat_id, row, first)
        await anyio.sleep(60)
        assert doubt.sent == ["ann", "ann"]
        assert row.asked is not None
        assert (row.asked.again, row.asked.attempt) == (True, 2)
        await resolve(third, chat_id, row, allowed(row))
        await third.rest(chat_id)
        assert doubt.sent == ["ann", "ann", "ann"]


async def test_a_call_in_doubt_with_other_arguments_since_is_asked_about_again(
    db: Database, clock: Clock
) -> None:
    """No other tool than one that never asks shows it: what asks anyway asks in any case."""
    doubt = Doubt()
    chat_id = await doubt.cut(db, clock)
    model, tools = doubt.model, [doubt.tool]
    async with living(db, model, tools, clock=clock, seed=1) as second:
        row = (await waiting(second, chat_id))["mail"]
        await second.die()
    gate = lambda context, call, values: Rewrite({"to": "eve"})  # noqa: E731
    async with living(db, model, tools, clock=clock, seed=2, gate=gate) as third:
        await resolve(third, chat_id, row, allowed(row))
        await anyio.sleep(60)
        assert doubt.sent == ["ann"]
        row = (await waiting(third, chat_id))["mail"]
        assert row.asked is not None
        assert (row.asked.again, row.asked.arguments) == (True, '{"to":"eve"}')
        await resolve(third, chat_id, row, allowed(row))
        await third.rest(chat_id)
        assert doubt.sent == ["ann", "eve"]


async def test_a_question_stored_before_attempts_were_counted_can_be_answered(
    db: Database, clock: Clock
) -> None:
    doubt = Doubt(lives=2)
    chat_id = await doubt.cut(db, clock)
    async with living(db, doubt.model, [doubt.tool], clock=clock, seed=1) as second:
        row = (await waiting(second, chat_id))["mail"]
        await second.die()
    assert row.asked is not None
    old = replace(
        row.asked, attempt=0, digest=digest("call_1", "mail", row.asked.arguments, again=True)
    )
    row = replace(row, asked=old)
    await db.write(partial(store_call, chat_id, row))
    async with living(db, doubt.model, [doubt.tool], clock=clock, seed=2) as third:
        await resolve(third, chat_id, row, allowed(row))
        await anyio.sleep(1)
        assert doubt.sent == ["ann", "ann"]
        await third.die()
    async with living(db, doubt.model, [doubt.tool], clock=clock, seed=3) as fourth:
        new = (await waiting(fourth, chat_id))["mail"]
        with pytest.raises(WrongAnswer):
            await resolve(fourth, chat_id, new, allowed(row))
        assert doubt.sent == ["ann", "ann"]


async def store_call(chat_id: str, row: JournalCall, tx: Tx) -> None:
    await put_call(await lock(tx, chat_id), row)


# --- clients and answers ------------------------------------------------------------------------


@pytest.mark.parametrize("waits", [asks, answers], ids=["client", "answer"])
async def test_what_somebody_outside_says_is_the_result(
    db: Database, clock: Clock, waits: Tool
) -> None:
    async with living(db, [call(waits.name), "Thanks."], [waits], clock=clock) as life:
        chat_id = await life.begin()
        row = (await waiting(life, chat_id))[waits.name]
        with pytest.raises(WrongAnswer):
            await resolve(life, chat_id, row, Approved("x"))
        await resolve(life, chat_id, row, answer_text(row))
        await life.rest(chat_id)
        assert (await life.lines(chat_id))[2:] == ["results: ok here", "answer: Thanks."]


@pytest.mark.parametrize("order", list(permutations(("mail", "asks", "answers"))))
async def test_actions_are_resolved_one_by_one_in_any_order(
    db: Database, clock: Clock, mail: Mail, order: tuple[str, ...]
) -> None:
    tools = [mail.tool, asks, answers]
    script = [[call("mail", to="ann"), call("asks"), call("answers")], "All."]
    async with living(db, script, tools, clock=clock) as life:
        chat_id = await life.begin()
        rows = await waiting(life, chat_id)
        for place, name in enumerate(order):
            assert (await life.chat(chat_id)).status == "requires_action"
            answer = allowed(rows[name]) if name == "mail" else answer_text(rows[name], name)
            await resolve(life, chat_id, rows[name], answer)
            if place < 2:
                await anyio.sleep(2)
        await life.rest(chat_id)
        assert await outcomes(life, chat_id) == {
            "call_1": ("ok", "sent to ann"),
            "call_2": ("ok", "asks"),
            "call_3": ("ok", "answers"),
        }
        assert mail.sent == ["ann"]
        assert len(life.agent.model.requests) == 2  # type: ignore[union-attr]


async def test_many_at_once_are_resolved_all_or_not_at_all(db: Database, clock: Clock) -> None:
    async with living(
        db, [[call("asks"), call("answers")], "All."], [asks, answers], clock=clock
    ) as life:
        chat_id = await life.begin()
        rows = await waiting(life, chat_id)
        given = {row.call_id: answer_text(row) for row in rows.values()}
        with pytest.raises(NothingWaits):
            await life.do(user.resolve, chat_id, given | {"call_9": answer_text(rows["asks"])})
        assert await life.journal(chat_id) == rows
        await life.do(user.resolve, chat_id, given)
        await life.rest(chat_id)
        assert len(await outcomes(life, chat_id)) == 2


async def test_an_answer_while_others_run_touches_nothing_but_the_journal(
    db: Database, clock: Clock
) -> None:
    runs: list[str] = []

    @tool(effect="once", approval="ask")
    async def slow() -> str:
        runs.append("slow")
        await anyio.sleep(20)
        return "slow"

    async with living(
        db, [[call("slow"), call("asks")], "Both."], [slow, asks], clock=clock
    ) as life:
        chat_id = await life.begin()
        rows = await waiting(life, chat_id)
        await resolve(life, chat_id, rows["slow"], allowed(rows["slow"]))
        await anyio.sleep(5)
        before = await life.chat(chat_id)
        after = await resolve(life, chat_id, rows["asks"], answer_text(rows["asks"]))
        assert before.status == after.status == "running"
        assert before.history_version == after.history_version
        await anyio.sleep(5)
        assert (await life.chat(chat_id)).history_version == before.history_version
        await life.rest(chat_id)
        assert runs == ["slow"]
        assert await outcomes(life, chat_id) == {"call_1": ("ok", "slow"), "call_2": ("ok", "here")}
        assert await life.journal(chat_id) == {}


async def test_an_answer_that_comes_before_the_chat_rests_is_not_left_behind(
    db: Database, clock: Clock
) -> None:
    async with living(
        db, [[call("asks"), call("answers")], "All."], [asks, answers], clock=clock
    ) as life:
        chat_id = await life.begin()
        rows = await waiting(life, chat_id)
        await resolve(life, chat_id, rows["asks"], answer_text(rows["asks"]))
        assert (await life.chat(chat_id)).status == "requires_action"
        await resolve(life, chat_id, rows["answers"], answer_text(rows["answers"]))
        await life.rest(chat_id)
        assert len(await outcomes(life, chat_id)) == 2


async def test_an_approval_that_comes_before_the_chat_rests_is_not_left_behind(
    db: Database, clock: Clock, mail: Mail
) -> None:
    async with living(db, [call("mail", to="ann"), "Sent."], [mail.tool], clock=clock) as life:
        life.faulty_db.hold("require_action")
        chat_id = await life.begin()
        await anyio.sleep(1)
        assert life.faulty_db.waiting == ["require_action"]
        row = (await life.journal(chat_id))["mail"]
        await resolve(life, chat_id, row, allowed(row))
        life.faulty_db.resume()
        await life.rest(chat_id)
        assert mail.sent == ["ann"]


# --- deadlines and restarts ---------------------------------------------------------------------


async def test_a_deadline_ends_only_what_it_is_for(db: Database, clock: Clock) -> None:
    async with living(
        db, [[call("limited"), call("asks")], "Hm."], [limited, asks], clock=clock
    ) as life:
        chat_id = await life.begin()
        rows = await waiting(life, chat_id)
        await anyio.sleep(16)
        assert await outcomes(life, chat_id) == {"call_1": ("timed_out", "No answer came in time.")}
        chat = await life.chat(chat_id)
        assert (chat.status, chat.worker_id, chat.deadline) == ("requires_action", None, None)
        with pytest.raises(NothingWaits):
            await resolve(life, chat_id, rows["limited"], answer_text(rows["limited"]))
        await resolve(life, chat_id, rows["asks"], answer_text(rows["asks"]))
        await life.rest(chat_id)
        assert (await outcomes(life, chat_id))["call_2"] == ("ok", "here")


async def test_a_deadline_that_passes_goes_on_with_the_turn(db: Database, clock: Clock) -> None:
    async with living(db, [call("limited"), "Nobody."], [limited], clock=clock) as life:
        chat_id = await life.begin()
        await waiting(life, chat_id)
        before = clock.now()
        await life.rest(chat_id)
        assert 9 * SECOND < clock.now() - before <= 16 * SECOND
        assert (await life.lines(chat_id))[-1] == "answer: Nobody."


async def test_an_approval_has_no_deadline_but_its_tool_has(db: Database, clock: Clock) -> None:
    @tool(effect="once", approval="ask", timeout=5)
    async def slow() -> str:
        await anyio.sleep(60)
        return "never"

    async with living(db, [call("slow"), "Hm."], [slow], clock=clock) as life:
        chat_id = await life.begin()
        row = (await waiting(life, chat_id))["slow"]
        await anyio.sleep(600)
        assert (await life.chat(chat_id)).status == "requires_action"
        await resolve(life, chat_id, row, allowed(row))
        await life.rest(chat_id)
        ((outcome, _),) = (await outcomes(life, chat_id)).values()
        assert outcome == "timed_out"


async def test_nothing_is_lost_when_everything_restarts_while_it_waits(
    db: Database, clock: Clock, mail: Mail
) -> None:
    tools = [mail.tool, asks]
    model = ScriptedModel([[call("mail", to="ann"), call("asks")], "Both."])
    async with living(db, model, tools, clock=clock) as first:
        chat_id = await first.begin()
        rows = await waiting(first, chat_id)
        await first.die()
        await resolve(first, chat_id, rows["asks"], answer_text(rows["asks"]))
    async with living(db, model, tools, clock=clock, seed=1) as second:
        await anyio.sleep(60)
        chat = await second.chat(chat_id)
        assert (chat.status, chat.epoch, chat.crashes) == ("requires_action", 1, 0)
        await resolve(second, chat_id, rows["mail"], allowed(rows["mail"]))
        await second.rest(chat_id)
        assert mail.sent == ["ann"]
        assert (await second.lines(chat_id))[-1] == "answer: Both."


async def test_calls_that_need_nobody_run_before_the_chat_waits(
    db: Database, clock: Clock, mail: Mail
) -> None:
    ran: list[str] = []

    @tool(effect="once")
    async def act() -> str:
        ran.append("act")
        return "acted"

    script = [[call("mail", to="ann"), call("act"), call("asks")], "All."]
    async with living(db, script, [mail.tool, act, asks], clock=clock) as life:
        chat_id = await life.begin()
        rows = await waiting(life, chat_id)
        assert ran == ["act"]
        assert set(rows) == {"mail", "asks"}
        assert await outcomes(life, chat_id) == {"call_2": ("ok", "acted")}
        given = {"mail": allowed(rows["mail"]), "asks": answer_text(rows["asks"])}
        await life.do(
            user.resolve, chat_id, {rows[name].call_id: answer for name, answer in given.items()}
        )
        await life.rest(chat_id)
        request = life.agent.model.requests[-1]  # type: ignore[union-attr]
        results = [one for message in request.messages for one in message.results]
        # However they came in, the model reads them in the order of its calls.
        assert [one.call_id for one in results] == ["call_1", "call_2", "call_3"]
