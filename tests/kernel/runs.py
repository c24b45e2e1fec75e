"""What the tests of a run share: tools, agents with a script, ways to look at what happened."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import anyio

from holdfast import Agent, Run, RunResult, Tool, tool
from holdfast.errors import LimitExceeded, RunFailed
from holdfast.events import Event
from holdfast.kernel.events import MessageCommitted, RunEnded, RunStarted, ToolFinished, ToolStarted
from holdfast.messages import Message
from holdfast.models import Request
from holdfast.options import Policy
from holdfast.testing import ScriptedModel, ports
from holdfast.testing.script import ScriptedTurn

E = TypeVar("E")


# --- Tools --------------------------------------------------------------------------------------


@tool(effect="pure")
async def look(what: str = "", seconds: float = 0.0) -> str:
    """Look at something. May be run any number of times."""
    await anyio.sleep(seconds)
    return f"saw {what}"


@tool
async def act(what: str = "", seconds: float = 0.0) -> str:
    """Do something that must not be done twice."""
    await anyio.sleep(seconds)
    return f"did {what}"


@tool
async def stumble(why: str = "no reason") -> str:
    """Fail."""
    raise RuntimeError(why)


asks_client = Tool(
    name="asks_client",
    schema={
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    },
)
"""A tool that the client runs."""


# --- Agents and runs ----------------------------------------------------------------------------


def scripted(
    script: Sequence[ScriptedTurn], *tools: Any, default: ScriptedTurn | None = None, **more: Any
) -> Agent[Any, Any]:
    """An agent whose model plays this script, in a world that answers the same each time."""
    model = ScriptedModel(script, default=default)
    return Agent(model=model, tools=tools, ports=ports(), **more)


def model_of(agent: Agent[Any, Any]) -> ScriptedModel:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


def requests_of(agent: Agent[Any, Any]) -> list[Request]:
    return model_of(agent).requests


def later(seconds: float, action: Callable[[], object]) -> None:
    """Do something after this much virtual time, whatever the test waits for then."""
    asyncio.get_running_loop().call_later(seconds, action)


def now() -> float:
    return asyncio.get_running_loop().time()


def running() -> set[str]:
    """Names of the tasks that have not ended, beside those of the test and its runner."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    return {task.get_name() for task in others if "TestRunner" not in repr(task.get_coro())}


async def a_few_turns() -> None:
    """Of the event loop: virtual time stands still meanwhile."""
    began = now()
    for _ in range(10):
        await asyncio.sleep(0)
    assert now() == began


async def outcome(run: Run[Any]) -> RunResult[Any]:
    """What a run came to, also when it failed or reached a limit."""
    try:
        return await run
    except (LimitExceeded, RunFailed) as error:
        return error.result


async def events_of(run: Run) -> list[Event]:
    return [event async for event in run]


async def held_up_after_its_answer(make: Callable[[Policy], Agent]) -> Run:
    """A run that waits for its reader just when its first answer is committed, one second on."""
    events = await events_of(make(Policy()).run("?"))
    answer = only(MessageCommitted, events)[1]
    run = make(Policy(buffer=events.index(answer) + 1)).run("?")
    aiter(run)
    await anyio.sleep(2)
    assert kinds(run.history) == ["prompt", "answer"]
    return run


# --- What happened ------------------------------------------------------------------------------


def only(kind: type[E], events: Iterable[object]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def names(events: Iterable[object]) -> list[str]:
    return [type(event).__name__ for event in events]


def kinds(messages: Iterable[Message]) -> list[str]:
    return [message.kind for message in messages]


def texts(messages: Iterable[Message], kind: str) -> list[str]:
    return [message.text for message in messages if message.kind == kind]


def results_in(messages: Iterable[Message]) -> dict[str, tuple[str, str]]:
    """Outcome and text of each result, by call id. Fails on a call that has two."""
    found: dict[str, tuple[str, str]] = {}
    for message in messages:
        for result in message.results:
            assert result.call_id not in found, f"{result.call_id} has two results"
            found[result.call_id] = (result.outcome, result.text)
    return found


def outcomes(messages: Iterable[Message]) -> dict[str, str]:
    return {call_id: outcome for call_id, (outcome, _) in results_in(messages).items()}


def finished(events: Iterable[object]) -> Counter[str]:
    """How many end events each call has."""
    return Counter(event.result.call_id for event in only(ToolFinished, events))


def check_events(events: Sequence[Event], history: Sequence[Message] = ()) -> RunEnded:
    """What holds for the events of every run over a given history; gives back the last of them."""
    assert isinstance(events[0], RunStarted)
    assert events[0].messages == len(history)
    assert len(only(RunStarted, events)) == 1
    last = events[-1]
    assert isinstance(last, RunEnded)
    assert len(only(RunEnded, events)) == 1
    numbers = [event.number for event in only(MessageCommitted, events)]
    assert numbers == list(range(len(history), len(history) + len(numbers)))
    ended = finished(events)
    for event in only(ToolStarted, events):
        assert ended[event.call_id] == 1, f"{event.call_id} started and ended {ended}"
    return last
