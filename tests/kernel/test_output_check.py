"""The check of an answer by a function of the agent: what it rejects, the model repairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from holdfast import ToolContext, tool
from holdfast.errors import ConfigError, Rejected, RunFailed
from holdfast.hooks import Context, Stopping
from holdfast.kernel.policy import Retry, Wording
from holdfast.options import Policy
from holdfast.testing import call, finish, say
from tests.kernel.runs import later, look, outcome, requests_of, results_in, scripted, texts


class Query(BaseModel):
    sql: str


@dataclass
class Database:
    tables: tuple[str, ...] = ("records",)

    async def explain(self, sql: str) -> None:
        await anyio.sleep(1)
        if not any(table in sql for table in self.tables):
            raise LookupError(f"no such table in {sql}")


GOOD, BAD = '{"sql": "SELECT * FROM records"}', '{"sql": "SELECT * FROM logs"}'


async def explained(context: Context[Database], output: Query) -> None:
    try:
        await context.deps.explain(output.sql)
    except LookupError as error:
        raise Rejected(f"The query cannot run: {error}") from error


def always(context: Context, output: object) -> None:
    raise Rejected("Never.")


async def test_an_answer_that_the_check_rejects_is_repaired_with_its_text() -> None:
    agent = scripted([BAD, GOOD], output=Query, validate=explained, deps_type=Database)
    result = await agent.run("All records?", deps=Database())
    assert result.output == Query(sql="SELECT * FROM records")
    (repair,) = [message for message in result.history if message.why == "repair"]
    assert repair.text == "\n- ".join(
        (Wording().rejection, "The query cannot run: no such table in SELECT * FROM logs")
    )


async def test_the_check_is_called_with_values_of_the_type_only() -> None:
    seen: list[object] = []

    def check(context: Context, output: Query) -> None:
        seen.append(output)

    agent = scripted(["Hm.", GOOD], output=Query, validate=check)
    await agent.run("?")
    assert seen == [Query(sql="SELECT * FROM records")]


async def test_without_an_output_type_the_check_gets_the_text() -> None:
    def check(context: Context, output: str) -> None:
        if "please" not in output:
            raise Rejected("Be polite.")

    result = await scripted(["Sit.", "Sit, please."], validate=check).run("?")
    assert result.output == "Sit, please."
    assert len([message for message in result.history if message.why == "repair"]) == 1


@pytest.mark.parametrize("repairs", [0, 1, 2])
async def test_rejections_count_as_repairs_and_the_last_one_ends_the_run(repairs: int) -> None:
    agent = scripted(
        [], default=GOOD, output=Query, validate=always, policy=Policy(repairs=repairs)
    )
    with pytest.raises(RunFailed) as caught:
        await agent.run("?")
    assert caught.value.failure.kind == "invalid_output"
    assert "Never." in caught.value.failure.detail
    assert len(requests_of(agent)) == repairs + 1


async def test_misfits_and_rejections_share_the_repairs() -> None:
    agent = scripted(["Hm.", GOOD], output=Query, validate=always, policy=Policy(repairs=1))
    with pytest.raises(RunFailed, match="after 1 repairs: Never"):
        await agent.run("?")


async def test_the_guard_and_follow_ups_come_after_the_check() -> None:
    guarded: list[object] = []

    def guard(context: Context, stopping: Stopping) -> None:
        guarded.append(stopping.output)

    def check(context: Context, output: str) -> None:
        if output == "No.":
            raise Rejected("Yes?")

    run = scripted(["No.", "Yes.", "Two."], validate=check, guard=guard).run("One?")
    run.follow_up("Two?")
    result = await run
    assert guarded == ["Two."]
    assert texts(result.history, "answer") == ["No.", "Yes.", "Two."]


async def test_answers_with_calls_are_not_checked() -> None:
    result = await scripted([call("look"), "Done."], look, validate=_only_done).run("?")
    assert result.output == "Done."


def _only_done(context: Context, output: str) -> None:
    if output != "Done.":
        raise Rejected("Not done.")


async def test_a_check_that_fails_otherwise_is_retried_and_is_no_repair() -> None:
    failures = [ConnectionError("refused"), ConnectionError("refused")]

    def check(context: Context, output: str) -> None:
        if failures:
            raise failures.pop()

    agent = scripted(["Yes."], validate=check, policy=Policy(repairs=0))
    assert (await agent.run("?")).output == "Yes."
    assert failures == []


@pytest.mark.parametrize(
    ("returned", "words"),
    [("better", "returned a str: return None"), (Query(sql=""), "returned a Query: return None")],
)
async def test_a_check_cannot_change_the_answer(returned: object, words: str) -> None:
    check: Any = lambda context, output: returned  # noqa: E731
    result = await outcome(scripted(["Yes."], validate=check).run("?"))
    assert result.failure is not None
    assert result.failure.kind == "prepare"
    assert words in result.failure.detail


async def test_a_check_that_takes_too_long_ends_the_run_with_an_error() -> None:
    async def check(context: Context, output: str) -> None:
        await anyio.sleep(100)

    policy = Policy(validate_timeout=10, retry=Retry(attempts=1))
    result = await outcome(scripted(["Yes."], validate=check, policy=policy).run("?"))
    assert result.failure is not None
    assert "validate took longer than 10 s" in result.failure.detail


async def test_an_interrupt_ends_the_check() -> None:
    async def check(context: Context, output: str) -> None:
        await anyio.sleep_forever()

    run = scripted(["Yes."], validate=check).run("?")
    later(5, run.interrupt)
    result = await run
    assert result.reason == "interrupted"


async def test_a_filtered_answer_is_not_asked_for_again() -> None:
    agent = scripted([[say("I will"), finish("content_filter")]], validate=always)
    with pytest.raises(RunFailed) as caught:
        await agent.run("?")
    assert caught.value.failure.kind == "content_filter"
    assert len(requests_of(agent)) == 1


def test_a_check_that_is_not_a_function_is_refused() -> None:
    with pytest.raises(ConfigError, match="validate is 5: use a function"):
        scripted([], validate=5)


async def test_the_check_of_a_tool_rejects_a_call_in_the_same_way() -> None:
    def check(context: ToolContext, values: Any) -> None:
        raise Rejected("Not today.")

    @tool(validate=check)
    async def pay(context: ToolContext) -> str:
        """Pay."""
        return "paid"

    result = await scripted([call("pay"), "Well."], pay).run("?")
    assert results_in(result.history) == {"call_1": ("failed", "pay was not run: Not today.")}


@pytest.mark.parametrize("name", ["output_validator", "result_validator", "output_guardrails"])
def test_names_of_other_libraries_lead_to_the_check(name: str) -> None:
    hooks: dict[str, Any] = {name: always}
    with pytest.raises(ConfigError, match=r"validate=…"):
        scripted([], **hooks)


def test_the_decorator_of_another_library_leads_to_the_check() -> None:
    agent: Any = scripted([])
    with pytest.raises(AttributeError, match=r"Agent\(validate=…\)"):
        agent.output_validator(always)


async def test_the_answer_of_an_agent_that_is_a_tool_is_checked_by_its_own_check() -> None:
    inner = scripted(["No.", "Done."], name="clerk", description="A clerk.", validate=_only_done)
    outer = scripted([call("clerk", prompt="Go."), "Well."], inner.as_tool())
    result = await outer.run("?")
    assert results_in(result.history) == {"call_1": ("ok", "Done.")}
    assert len(requests_of(inner)) == 2


async def test_a_copy_of_an_agent_with_other_settings_keeps_the_check() -> None:
    agent = scripted(["No.", "Done."], validate=_only_done).replace(name="other")
    assert (await agent.run("?")).output == "Done."
