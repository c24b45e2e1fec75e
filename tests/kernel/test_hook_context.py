"""Every hook is called with the context: where it is called, for whom, after which messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from holdfast import ToolContext, tool
from holdfast.hooks import Context, Stopping
from holdfast.messages import Message, ToolCall
from holdfast.testing import call
from tests.kernel.runs import act, kinds, later, look, requests_of, scripted

Values = Any
Proceed = Any


class Recorder:
    """The hooks of an agent, each of which notes what its context says."""

    def __init__(self) -> None:
        self.contexts: dict[str, Context] = {}
        self.steps: list[tuple[str, int, int]] = []

    def note(self, hook: str, context: Context) -> None:
        self.contexts[hook] = context
        self.steps.append((hook, context.turn.steps, len(context.history)))

    def hooks(self) -> dict[str, Any]:
        async def gate(context: Context, called: ToolCall, values: Values) -> None:
            self.note("gate", context)

        async def middleware(
            context: Context, called: ToolCall, values: Values, proceed: Proceed
        ) -> object:
            self.note("middleware", context)
            return await proceed()

        async def validate(context: Context, output: object) -> None:
            self.note("validate", context)

        async def guard(context: Context, stopping: Stopping) -> None:
            self.note("guard", context)

        async def active(context: Context) -> list[str]:
            await anyio.sleep(1)
            self.note("active", context)
            return ["work"]

        async def project(context: Context, messages: Sequence[Message]) -> Sequence[Message]:
            await anyio.sleep(1)
            self.note("project", context)
            return messages

        return {
            "gate": gate,
            "middleware": (middleware,),
            "validate": validate,
            "guard": guard,
            "active": active,
            "project": project,
        }

    def tool(self) -> Any:
        async def approval(context: Context, values: Values) -> bool:
            await anyio.sleep(1)
            self.note("approval", context)
            return False

        def preview(context: ToolContext, values: Values) -> None:
            self.note("preview", context)

        @tool(effect="pure", approval=approval, preview=preview)
        async def work(context: ToolContext) -> str:
            """Work."""
            self.note("tool", context)
            return "done"

        return work


HOOKS = {
    "gate",
    "middleware",
    "validate",
    "guard",
    "active",
    "project",
    "approval",
    "preview",
    "tool",
}


async def test_in_memory_a_hook_knows_its_agent_and_no_chat() -> None:
    recorder = Recorder()
    agent = scripted([call("work"), "Done."], recorder.tool(), name="ops", **recorder.hooks())
    result = await agent.run("Go.")
    assert result.text == "Done."
    assert recorder.contexts.keys() == HOOKS
    for context in recorder.contexts.values():
        assert (context.agent, context.chat, context.owner) == ("ops", None, "")
        assert context.labels == {}


async def test_a_hook_sees_the_turn_and_the_history_as_they_are_when_it_is_called() -> None:
    recorder = Recorder()
    agent = scripted([call("work"), "Done."], recorder.tool(), **recorder.hooks())
    await agent.run("Go.")
    assert recorder.steps == [
        ("active", 0, 1),
        ("project", 0, 1),
        ("gate", 0, 2),
        ("preview", 0, 2),
        ("approval", 0, 2),
        ("middleware", 0, 2),
        ("tool", 0, 2),
        ("active", 1, 3),
        ("project", 1, 3),
        ("validate", 2, 4),
        ("guard", 2, 4),
    ]


@pytest.mark.parametrize("hook", ["active", "project"])
async def test_an_interrupt_ends_a_hook_that_prepares_a_request(hook: str) -> None:
    ended: list[str] = []

    async def forever(*_: object) -> Any:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(hook)

    agent = scripted(["Never."], look, **{hook: forever})
    run = agent.run("Go.")
    later(2, run.interrupt)
    result = await run
    assert result.reason == "interrupted"
    assert ended == [hook]
    assert requests_of(agent) == []


async def test_an_interrupt_ends_the_hook_that_is_asked_about_calls_of_an_earlier_run() -> None:
    first = await scripted([call("act"), "Done."], act).run("Go.")
    before = first.history[:2]

    async def forever(context: Context) -> list[str]:
        await anyio.sleep_forever()
        return []

    run = scripted(["Never."], act, active=forever).run(history=before)
    later(2, run.interrupt)
    result = await run
    assert result.reason == "interrupted"
    assert kinds(result.history)[:3] == ["prompt", "answer", "results"]


async def test_an_approval_function_may_ask_and_may_fail() -> None:
    async def large(context: Context, values: Values) -> bool:
        await anyio.sleep(1)
        return bool(values["amount"] > 100)

    @tool(approval=large)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    small = await scripted([call("pay", amount=5), "Done."], pay).run("Pay.")
    assert small.text == "Done."
    much = await scripted([call("pay", amount=500)], pay).run("Pay.")
    assert (much.reason, much.actions[0].kind) == ("requires_action", "approval")
