"""A conversation in a file: saved after every message, and gone on with by the next run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Agent, RunResult, Tool, tool
from holdfast.cli.history import LOST_RESULT, SavedHistory
from holdfast.cli.locked_file import NotSaved
from holdfast.errors import ConfigError, RunFailed
from holdfast.events import MessageCommitted
from holdfast.messages import Message, ToolResult, dump, load
from holdfast.testing import ScriptedModel, call, pause
from tests.cli.test_locked_file import at_most
from tests.kernel import histories
from tests.kernel.histories import answer, prompt, results

DIES: Final = """
import asyncio, os, signal, sys
from holdfast import Agent, MessageCommitted, ToolContext, tool
from holdfast.cli.history import SavedHistory
from holdfast.testing import ScriptedModel, call

path, log, dies = sys.argv[1:]

def ran(name, call_id=""):
    with open(log, "a") as file:
        print(name, call_id, file=file)
    if name == dies:
        os.kill(os.getpid(), signal.SIGKILL)
    return name

@tool(effect="pure")
async def look() -> str:
    return ran("look")

@tool(effect="idempotent")
async def put(context: ToolContext) -> str:
    return ran("put", context.call_id)

@tool
async def pay() -> str:
    return ran("pay")

async def main():
    saved = SavedHistory.open(path)
    asked = any(message.calls for message in saved.messages)
    answers = [] if asked else [[call("look"), call("put"), call("pay")]]
    agent = Agent(model=ScriptedModel([*answers, "Done."]), tools=[look, put, pay])
    agent = agent.replace(middleware=(saved.middleware(agent.toolset),))
    prompt = None if saved.messages else "Do it."
    run = agent.run(prompt, history=saved.messages, resolve=saved.lost)
    async for event in run:
        if isinstance(event, MessageCommitted):
            saved.save(run.history)

asyncio.run(main())
"""


def run_script(path: Path, log: Path, dies: str) -> int:
    done = subprocess.run([sys.executable, "-c", DIES, path, log, dies], check=False)
    return done.returncode


def results_of(messages: tuple[Message, ...]) -> dict[str, str]:
    return {one.tool: one.outcome for message in messages for one in message.results}


async def follow(saved: SavedHistory, agent: Agent, say: str | None = None) -> RunResult:
    """Run an agent as the command line does: each committed message is saved."""
    agent = agent.replace(middleware=(*agent.middleware, saved.middleware(agent.toolset)))
    run = agent.run(say, history=saved.messages, resolve=saved.lost)
    async with run:
        async for event in run:
            if isinstance(event, MessageCommitted):
                saved.save(run.history)
        return await run


def on_disk(path: Path) -> Any:
    return json.loads(path.read_bytes())


def counting(ran: list[str], **properties: Any) -> Tool:
    async def pay(amount: int = 1) -> str:
        """Pay."""
        ran.append(f"paid {amount}")
        return "paid"

    return tool(**properties)(pay)


# --- Saving and going on ------------------------------------------------------------------------


async def test_a_conversation_goes_on_where_it_was_left(tmp_path: Path) -> None:
    path = str(tmp_path / "history.json")
    with SavedHistory.open(path) as saved:
        assert saved.messages == ()
        await follow(saved, Agent(model=ScriptedModel(["Hello, Ada."])), "I am Ada.")
    model = ScriptedModel(["You are Ada."])
    with SavedHistory.open(path) as saved:
        result = await follow(saved, Agent(model=model), "Who am I?")

    assert [m.text for m in model.requests[0].messages] == ["I am Ada.", "Hello, Ada.", "Who am I?"]
    assert load((tmp_path / "history.json").read_bytes()) == result.history


async def test_each_message_is_in_the_file_when_the_next_step_begins(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    seen: list[int] = []

    def look(_: object) -> None:
        seen.append(len(load(path.read_bytes())))

    ran: list[str] = []
    model = ScriptedModel([[pause(1), look, call("pay")], [pause(1), look, "Done."]])
    with SavedHistory.open(str(path)) as saved:
        await follow(saved, Agent(model=model, tools=[counting(ran)]), "Pay.")

    assert seen == [1, 3]  # the prompt; then the answer and the result
    assert len(load(path.read_bytes())) == 4


def test_what_dump_wrote_can_be_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_bytes(dump([prompt("Hello")]))
    with SavedHistory.open(str(path)) as saved:
        assert saved.messages == (prompt("Hello"),)
        assert saved.lost == {}


@pytest.mark.parametrize("content", [b"", b" \n"])
def test_an_empty_file_is_an_empty_history(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "history.json"
    path.write_bytes(content)
    with SavedHistory.open(str(path)) as saved:
        assert saved.messages == ()


@pytest.mark.parametrize(
    "content",
    [
        b"Dear diary,",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"format":1}',
        b'{"format":3,"messages":[]}',
        b'{"format":1,"messages":[],"started":1}',
    ],
)
def test_what_is_no_history_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    for _ in range(2):  # the second time would be in use, had the first kept its lock
        with pytest.raises(ConfigError, match=r"not a saved history and was not changed"):
            SavedHistory.open(str(path))
    assert path.read_bytes() == content


def test_nobody_else_has_the_history_meanwhile(tmp_path: Path) -> None:
    path = str(tmp_path / "history.json")
    with SavedHistory.open(path) as saved:
        saved.save([prompt()])
        with pytest.raises(ConfigError, match=r"history\.json is in use by another run"):
            SavedHistory.open(path)
    SavedHistory.open(path).close()


def test_what_is_saved_twice_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    with SavedHistory.open(str(path)) as saved:
        saved.save([prompt()])
        first = path.stat().st_ino
        saved.save([prompt()])
        assert path.stat().st_ino == first
        saved.save([prompt(), answer("Yes.")])
        assert path.stat().st_ino != first


def test_a_history_that_is_not_json_is_not_saved(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    with SavedHistory.open(str(path)) as saved:
        saved.save([prompt()])
        odd = Message("user", (), "prompt", metadata={"provider": object()})
        with pytest.raises(NotSaved, match="cannot be encoded as JSON"):
            saved.save([odd])
    assert load(path.read_bytes()) == (prompt(),)


texts = st.text(st.characters(codec=None)) | st.just("\0\ud800\ue000")


@given(histories.histories, texts, st.data())
def test_what_is_saved_is_what_is_read(
    messages: list[Message], said: str, data: st.DataObject
) -> None:
    messages = [*messages, prompt(said)]
    cut = data.draw(st.integers(0, len(messages)))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "history.json")
        with SavedHistory.open(str(path)) as saved:
            for upto in range(cut):
                saved.save(messages[: upto + 1])  # as it grows
        with SavedHistory.open(str(path)) as saved:
            saved.save(messages)
        with SavedHistory.open(str(path)) as saved:
            assert saved.messages == tuple(messages)
            assert saved.lost == {}
        assert load(path.read_bytes()) == tuple(messages)


def test_a_history_that_did_not_grow_out_of_the_saved_one_takes_its_place(tmp_path: Path) -> None:
    with SavedHistory.open(str(tmp_path / "history.json")) as saved:
        saved.save([prompt("One"), answer("1")])
        saved.save([prompt("Two")])
        saved.save([prompt("Two"), answer("2")])
    assert load((tmp_path / "history.json").read_bytes()) == (prompt("Two"), answer("2"))


def test_saving_costs_what_is_new_and_not_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[object] = []

    def encode(value: object) -> bytes:
        encoded.append(value)
        return b"{}"

    monkeypatch.setattr("holdfast.cli.history.encode", encode)
    with SavedHistory.open(str(tmp_path / "history.json")) as saved:
        messages = [prompt(str(number)) for number in range(50)]
        for upto in range(50):
            saved.save(messages[: upto + 1])
    assert encoded == messages


# --- What a crash does to a call ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("dies", "ran", "outcome"),
    [
        ("look", ["look", "look", "put", "pay"], "ok"),
        ("put", ["look", "put", "look", "put", "pay"], "ok"),
        ("pay", ["look", "put", "pay", "look", "put"], "lost"),
    ],
)
def test_of_a_process_that_was_killed_only_what_may_be_is_done_again(
    tmp_path: Path, dies: str, ran: list[str], outcome: str
) -> None:
    path, log = tmp_path / "history.json", tmp_path / "log"

    assert run_script(path, log, dies) == -signal.SIGKILL
    if dies == "pay":
        assert [message.kind for message in load(path.read_bytes())] == ["prompt", "answer"]
        assert len(on_disk(path)["started"]) == 1
    assert run_script(path, log, "nobody") == 0

    assert [line.split()[0] for line in log.read_text().splitlines()] == ran
    assert len({line for line in log.read_text().splitlines() if "put" in line}) == 1  # same id
    history = load(path.read_bytes())
    assert results_of(history) == {"look": "ok", "put": "ok", "pay": outcome}
    assert history[-1].text == "Done."
    assert "started" not in on_disk(path)


async def test_a_lost_call_is_told_to_the_model_also_behind_a_new_prompt(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    asked = answer(histories.call("a", "pay"), histories.call("b", "pay"))
    saved_so_far = json.loads(dump([prompt(), asked])) | {"started": ["a", "gone"]}
    path.write_text(json.dumps(saved_so_far))
    ran: list[str] = []
    with SavedHistory.open(str(path)) as saved:
        (lost,) = saved.lost.values()
        agent = Agent(model=ScriptedModel(["I see."]), tools=[counting(ran)])
        result = await follow(saved, agent, "Stop that.")
        assert saved.lost == {}

    assert (lost.call_id, lost.outcome, lost.text) == ("a", "lost", LOST_RESULT)
    made = {one.call_id: one.outcome for message in result.history for one in message.results}
    assert made == {"a": "lost", "b": "skipped"}
    assert ran == []


async def test_a_call_is_in_the_file_while_it_runs_and_not_after(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    seen: list[Any] = []

    @tool
    async def pay() -> str:
        """Pay."""
        seen.append(on_disk(path))
        return "paid"

    with SavedHistory.open(str(path)) as saved:
        model = ScriptedModel([[call("pay"), call("pay")], "Done."])
        result = await follow(saved, Agent(model=model, tools=[pay]), "Pay twice.")

    ids = [one.id for message in result.history for one in message.calls]
    assert [one["started"] for one in seen] == [ids[:1], ids]
    assert all(len(one["messages"]) == 2 for one in seen)
    assert "started" not in on_disk(path)


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_what_may_be_run_again_is_not_recorded(tmp_path: Path, effect: str) -> None:
    path = tmp_path / "history.json"
    properties: dict[str, Any] = {"effect": effect}
    seen: list[bool] = []

    async def look() -> str:
        await anyio.sleep(1)
        seen.append("started" in on_disk(path))
        return "seen"

    with SavedHistory.open(str(path)) as saved:
        model = ScriptedModel([call("look"), "Done."])
        await follow(saved, Agent(model=model, tools=[tool(**properties)(look)]), "Look.")
    assert seen == [False]


async def test_a_call_that_begins_before_its_answer_is_complete_waits_for_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "history.json"
    ran: list[str] = []

    def nothing_yet(_: object) -> None:
        ran.append("still talking")

    model = ScriptedModel([[call("pay"), pause(5), nothing_yet], "Done."])
    with SavedHistory.open(str(path)) as saved:
        agent = Agent(model=model, tools=[counting(ran)], eager="all")
        await follow(saved, agent, "Pay.")
    assert ran == ["still talking", "paid 1"]


async def test_a_call_that_cannot_be_recorded_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    ran: list[str] = []
    model = ScriptedModel([[pause(1), call("pay")]])
    with SavedHistory.open(str(path)) as saved:
        agent = Agent(model=model, tools=[counting(ran)])
        with at_most(250):  # enough for the prompt
            with pytest.raises(NotSaved, match="Free some space"):
                await follow(saved, agent, "Pay.")
    assert ran == []
    assert len(load(path.read_bytes())) == 1


@pytest.mark.parametrize("late", [0, 1], ids=["before it waits", "while it waits"])
async def test_a_call_hears_that_it_cannot_be_recorded(tmp_path: Path, late: float) -> None:
    ran: list[str] = []
    model = ScriptedModel([call("pay"), "What a pity."])
    with SavedHistory.open(str(tmp_path / "history.json")) as saved:
        agent = Agent(model=model, tools=[counting(ran)])
        agent = agent.replace(middleware=(saved.middleware(agent.toolset),))
        run = agent.run("Pay.")
        async for event in run:
            if isinstance(event, MessageCommitted) and event.message.calls:
                if late:
                    await anyio.sleep(late)
                with at_most(10), pytest.raises(NotSaved):
                    saved.save(run.history)
        result = await run
    (refused,) = (one for message in result.history for one in message.results)
    assert refused.outcome == "failed"
    assert "pay was not run" in refused.text
    assert ran == []


async def test_a_call_that_is_answered_by_another_middleware_was_not_begun(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    seen: list[bool] = []

    async def cached(*_: object) -> str:
        await anyio.sleep(1)
        seen.append("started" in on_disk(path))
        return "from the cache"

    with SavedHistory.open(str(path)) as saved:
        model = ScriptedModel([call("pay"), "Done."])
        agent = Agent(model=model, tools=[counting([])], middleware=(cached,))
        await follow(saved, agent, "Pay.")
    assert seen == [False]


async def test_a_call_that_is_interrupted_while_it_waits_was_not_begun(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    ran: list[str] = []
    model = ScriptedModel([call("pay")])
    with SavedHistory.open(str(path)) as saved:
        agent = Agent(model=model, tools=[counting(ran)])
        agent = agent.replace(middleware=(saved.middleware(agent.toolset),))
        run = agent.run("Pay.")
        async for event in run:  # and nobody saves
            if isinstance(event, MessageCommitted) and event.message.calls:
                run.interrupt()
        result = await run
        saved.save(result.history)
    assert result.reason == "interrupted"
    assert ran == []
    assert "started" not in on_disk(path)


async def test_an_approval_is_asked_for_again_by_whoever_goes_on(tmp_path: Path) -> None:
    path = str(tmp_path / "history.json")
    pay = counting([], approval="ask")
    with SavedHistory.open(path) as saved:
        first = await follow(saved, Agent(model=ScriptedModel([call("pay")]), tools=[pay]), "Pay.")
    with SavedHistory.open(path) as saved:
        assert saved.lost == {}
        second = await follow(saved, Agent(model=ScriptedModel([]), tools=[pay]))
    assert first.actions == second.actions
    assert len(second.actions) == 1


async def test_a_run_that_fails_leaves_what_it_had(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    with SavedHistory.open(str(path)) as saved:
        with pytest.raises(RunFailed):
            await follow(saved, Agent(model=ScriptedModel([])), "Hello?")
    assert load(path.read_bytes()) == (prompt("Hello?"),)


@given(histories.histories, st.sets(histories.ids))
def test_only_calls_that_are_open_and_begun_are_lost(
    messages: list[Message], begun: set[str]
) -> None:
    """Whatever a file says, its `lost` is something that a run takes."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "history.json")
        path.write_text(json.dumps(json.loads(dump(messages)) | {"started": sorted(begun)}))
        with SavedHistory.open(str(path)) as saved:
            lost = saved.lost
            assert lost.keys() <= begun
            assert all(isinstance(one, ToolResult) for one in lost.values())
            if messages:
                Agent(model=ScriptedModel([])).run(history=messages, resolve=lost)._closed = True
            saved.save([*messages, results(*lost)])
            assert saved.lost == {}
