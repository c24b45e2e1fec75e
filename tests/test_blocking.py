"""Runs without an event loop: in scripts, in notebooks whose thread has one, and under Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, SyncRun, tool
from holdfast.errors import RunFailed, RunOver
from holdfast.events import RunEnded, RunStarted, TextDelta
from holdfast.options import Policy
from holdfast.testing import ScriptedModel, call, fail, hang, say

ROOT = Path(__file__).resolve().parent.parent
SPOKEN_BY: ContextVar[str] = ContextVar("SPOKEN_BY", default="nobody")


def agent_with(*script: Any, **options: Any) -> Agent:
    return Agent(model=ScriptedModel(script), **options)


def run_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "holdfast run"]


@tool
async def who() -> str:
    """The speaker."""
    return SPOKEN_BY.get()


# --- run_sync -----------------------------------------------------------------------------------


def test_a_script_gets_a_result_without_an_event_loop() -> None:
    agent = agent_with("One.", "Two.")
    first = agent.run_sync("?")
    second = agent.run_sync("??", history=first.history)
    assert (first.text, second.text, len(second.history)) == ("One.", "Two.", 4)


async def test_a_notebook_whose_thread_has_an_event_loop_gets_a_result_too() -> None:
    assert agent_with("Hi").run_sync("?").text == "Hi"
    assert run_threads() == []


@pytest.mark.parametrize("in_loop", [False, True])
def test_a_failed_run_raises(in_loop: bool) -> None:
    async def in_a_loop() -> None:
        agent_with(fail(status=401)).run_sync("?")

    with pytest.raises(RunFailed):
        if in_loop:
            asyncio.run(in_a_loop())
        else:
            agent_with(fail(status=401)).run_sync("?")
    assert run_threads() == []


async def test_tools_see_the_context_variables_of_the_caller() -> None:
    token = SPOKEN_BY.set("Ann")
    result = agent_with(call("who"), "Done.", tools=[who]).run_sync("?")
    SPOKEN_BY.reset(token)
    assert [part.text for part in result.history[2].results] == ["Ann"]


# --- stream_sync --------------------------------------------------------------------------------


def test_events_come_one_by_one_and_the_result_is_there_afterwards() -> None:
    stream = agent_with([say("Hello there", chunks=3)]).stream_sync("?")
    events = list(stream)
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunEnded)
    assert "".join(one.text for one in events if isinstance(one, TextDelta)) == "Hello there"
    assert stream.result.text == "Hello there"
    assert list(stream) == []
    assert run_threads() == []


def test_the_result_of_a_block_is_waited_for() -> None:
    with agent_with("Hi").stream_sync("?") as stream:
        assert next(stream) == RunStarted(0)
        assert stream.result.text == "Hi"
    assert stream.result.text == "Hi"
    assert run_threads() == []


def test_the_result_of_a_failed_stream_raises() -> None:
    stream = agent_with(fail(status=401)).stream_sync("?")
    assert [one.reason for one in stream if isinstance(one, RunEnded)] == ["error"]
    with pytest.raises(RunFailed):
        _ = stream.result


def test_a_loop_that_is_left_ends_its_run() -> None:
    agent = agent_with([say("Hello"), hang()])
    for event in agent.stream_sync("?"):
        if isinstance(event, TextDelta):
            break
    assert run_threads() == []


def test_a_block_that_is_left_ends_its_run_with_what_it_had() -> None:
    with agent_with([say("Hello"), hang()]).stream_sync("?") as stream:
        assert isinstance(next(one for one in stream if isinstance(one, TextDelta)), TextDelta)
    assert run_threads() == []
    with pytest.raises(RunFailed, match="cancelled"):
        _ = stream.result
    with pytest.raises(RunOver):
        stream.steer("More")


def test_a_stream_can_be_interrupted_and_keeps_what_was_said() -> None:
    stream = agent_with([say("Hello"), hang()]).stream_sync("?")
    for event in stream:
        if isinstance(event, TextDelta):
            stream.interrupt()
    assert (stream.result.reason, stream.result.text) == ("interrupted", "Hello")


def test_a_stream_can_be_steered() -> None:
    stream = agent_with("One.", "Two.", policy=Policy(buffer=1)).stream_sync("?")
    for event in stream:
        if isinstance(event, RunStarted):
            stream.follow_up("And?")
    assert stream.result.text == "Two."
    assert len(stream.history) == 4


def test_a_stream_that_never_starts_has_no_thread_and_is_over_when_closed() -> None:
    stream = agent_with("Hi").stream_sync("?")
    assert run_threads() == []
    stream.close()
    assert list(stream) == []
    with pytest.raises(RunOver):
        _ = stream.result


async def test_a_stream_works_where_an_event_loop_runs() -> None:
    stream = agent_with("Hi").stream_sync("?")
    assert isinstance(list(stream)[-1], RunEnded)
    assert isinstance(stream, SyncRun)


# --- Ctrl-C and the end of a program ------------------------------------------------------------

PROGRAM = """
import anyio, sys
from holdfast import Agent, tool
from holdfast.testing import ScriptedModel, call

@tool
async def wait() -> str:
    "Wait."
    try:
        print("waiting", flush=True)
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.01)
        print("cleaned up", flush=True)

agent = Agent(model=ScriptedModel([call("wait")]), tools=[wait])
"""
WAYS = {
    "run": "agent.run_sync('?')",
    "stream": "for event in agent.stream_sync('?'): pass",
    "block": "with agent.stream_sync('?') as stream: stream.result",
    "notebook": "import asyncio\nasync def cell(): agent.run_sync('?')\nasyncio.run(cell())",
}


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_ends_the_tools_and_then_the_program(way: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM + WAYS[way]],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "waiting\n"
        os.kill(program.pid, signal.SIGINT)
        output, errors = program.communicate(timeout=30)
    assert output == "cleaned up\n"
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert "never" not in errors


def test_a_stream_that_is_still_open_ends_with_the_program() -> None:
    began = time.monotonic()
    opened = PROGRAM + "stream = agent.stream_sync('?')\nfor _ in range(6): next(stream)"
    done = subprocess.run(
        [sys.executable, "-c", opened], cwd=ROOT, text=True, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("cleaned up\n")
    assert time.monotonic() - began < 30
