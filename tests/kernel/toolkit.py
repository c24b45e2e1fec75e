"""What the tests of tool calls share, beside `runs`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast import Agent, Run, RunResult, Tool
from holdfast.kernel.events import Event, ToolFinished, ToolProgressed
from holdfast.messages import Message, ToolResult
from holdfast.testing import ScriptedModel, ScriptedTurn, call_raw, ports
from tests.kernel.runs import events_of, only


def agent_for(script: Sequence[ScriptedTurn], *tools: Tool, **options: Any) -> Agent:
    """An agent whose model plays the script, in a world that answers the same each time."""
    options.setdefault("ports", ports())
    return Agent(model=ScriptedModel(script), tools=tools, **options)


async def result_of(
    tool: Tool, arguments: str | Mapping[str, Any] = "{}", **options: Any
) -> ToolResult:
    """What the model reads when it calls the tool once. The run goes on and ends as usual."""
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    result = await agent_for([call_raw(tool.name, text), "Done."], tool, **options).run("Go.")
    assert result.reason == "stop"
    assert result.text == "Done."
    (made,) = results_in(result.history)
    return made


def results_in(history: Iterable[Message]) -> list[ToolResult]:
    """Every result of a history, in the order in which they were committed."""
    return [result for message in history if message.role == "tool" for result in message.results]


def outcomes(history: Iterable[Message]) -> list[str]:
    return [result.outcome for result in results_in(history)]


async def watched(run: Run) -> tuple[list[Event], RunResult]:
    events = await events_of(run)
    return events, await run


def finished(events: Iterable[Event]) -> list[tuple[str, str]]:
    """Calls and their outcomes, in the order in which people saw them end."""
    return [(event.result.call_id, event.result.outcome) for event in only(ToolFinished, events)]


def progress(events: Iterable[Event]) -> list[str]:
    return [event.text for event in only(ToolProgressed, events)]


async def turns(count: int = 10) -> None:
    """Let everything happen that can happen without time going by."""
    for _ in range(count):
        await asyncio.sleep(0)


def assert_valid(history: Sequence[Message]) -> None:
    """Every call of ours has exactly one result, before the next prompt or answer."""
    seen: set[str] = set()
    open: list[str] = []
    for message in history:
        if message.visibility == "user":
            continue
        if message.kind in ("prompt", "injected", "answer"):
            assert not open, f"no result for {open}"
        for part in message.calls:
            if not part.provider_executed:
                assert part.id, "a call without an id"
                assert part.id not in seen, f"two calls have the id {part.id!r}"
                seen.add(part.id)
                open.append(part.id)
        if message.kind == "results":
            for result in message.results:
                assert result.call_id in open, f"a result of no open call: {result.call_id!r}"
                open.remove(result.call_id)
    assert not open, f"no result for {open}"
