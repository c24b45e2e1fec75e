"""Agents written in Python behind `holdfast serve` and `holdfast worker`, as processes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Agent
from holdfast.errors import ConfigError
from tests.cli.test_serve import Process, events, serving, wait_until_idle
from tests.databases import Databases

APP = '''
import os
from dataclasses import dataclass
from pathlib import Path

import anyio

from holdfast import Agent, Limits, handoff, tool
from holdfast.events import Finished, TextDelta
from holdfast.hooks import Deny, Inject
from holdfast.models import Fallback, ProviderTool
from holdfast.testing import ScriptedModel, call, fail

@dataclass
class Weather:
    city: str
    degrees: int

@tool(approval="ask")
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"

@tool
def drop(table: str) -> str:
    """Drop a table."""
    return f"dropped {table}"

class Echo:
    """A model of one's own, which answers with its instructions and its process."""

    name = "own:echo"
    window = None

    async def stream(self, request):
        yield TextDelta(f"{request.system[0].text} {os.getpid()}")
        yield Finished()

class Slow:
    """A model that finishes its answer when a file appears."""

    name = "own:slow"
    window = None

    async def stream(self, request):
        yield TextDelta("Half")
        while not Path("may-end").exists():
            await anyio.sleep(0.02)
        yield TextDelta(" and half.")
        yield Finished()

async def instructions(context):
    return f"I am {context.agent}, and greet {context.owner or 'you'}."

def guard(context, stopping):
    return Inject("Say all of it.") if stopping.steps == 1 else None

async def louder(context, call, arguments, proceed):
    return (await proceed()).upper()

def gate(context, call, arguments):
    return Deny("no tables are dropped here") if call.tool == "drop" else None

billing = Agent(ScriptedModel(default="Billed."), name="billing", description="Bills.")

async def agents():
    down = ScriptedModel([fail("down", status=503)], name="down:model")
    typed = '{"city": "Oslo", "degrees": 9}'
    return {
        "weather": Agent(
            model=Fallback([down, ScriptedModel([typed], name="scripted:weather")]),
            output=Weather,
            description="Reports the weather.",
            provider_tools=[ProviderTool("web_search")],
        ),
        "payer": Agent(model=ScriptedModel([call("pay", amount=3), "It is paid."]), tools=[pay]),
        "gated": Agent(
            model=ScriptedModel([call("drop", table="users"), "I may not."]),
            tools=[drop],
            gate=gate,
        ),
        "echo": Agent(Echo(), instructions=instructions),
        "slow": Agent(Slow()),
        "guarded": Agent(ScriptedModel(["Half.", "Whole."]), guard=guard),
        "triage": Agent(
            ScriptedModel([call("handoff", agent="billing", message="An invoice.")]),
            tools=[handoff([billing])],
        ),
        "lead": Agent(
            ScriptedModel([call("billing", prompt="An invoice.")], default="It is billed."),
            tools=[billing.as_tool()],
        ),
        "limited": Agent(
            ScriptedModel([call("drop", table="a"), call("drop", table="b"), "Never."]),
            tools=[drop],
            middleware=(louder,),
            limits=Limits(steps=2),
        ),
    }
'''


class Api:
    """A server with the agents of `APP`."""

    def __init__(self, server: Process, url: str, driver: Process | None = None) -> None:
        self.server = server
        self.driver = driver or server
        """The process that drives the chats."""
        self.url = f"{url}/api/v1"

    def get(self, path: str) -> Any:
        return self.server.ask(f"{self.url}{path}")

    def post(self, path: str, body: object) -> Any:
        return self.server.ask(f"{self.url}{path}", body)

    def chat(self, agent: str) -> str:
        """The path of a chat of this agent whose first turn has ended or waits."""
        made = self.post("/chats", {"prompt": "Go.", "agent": agent})
        path = f"/chats/{made['id']}"
        wait_until_idle(self.server, f"{self.url}{path}")
        return path


@pytest.fixture(scope="module", params=["server", "worker"])
def api(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    databases: Databases,
    postgres_template: str,
) -> Iterator[Api]:
    """A server that drives chats itself, and one without a worker, next to a worker."""
    home = tmp_path_factory.mktemp("home")
    (home / "work").mkdir()
    (home / "work" / "app.py").write_text(APP)
    if request.param == "server":
        with serving(home, "app:agents", "--listen", "0") as server:
            yield Api(server, server.started())
        return
    name = databases.take(postgres_template)
    shared = ("app:agents", "--database", databases.url(name))
    environ = {"HOLDFAST_CLUSTER_SECRET": "0" * 64, "HOLDFAST_LISTEN": "127.0.0.1:0"}
    with (
        serving(home, *shared, "--no-worker", **environ) as server,
        serving(home, *shared, verb="worker", **environ) as worker,
    ):
        yield Api(server, server.started(), worker)
    databases.give(name)


def results(messages: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The tools of a chat's results, each with what the model read."""
    return [
        (part["tool"], str(part["content"]))
        for one in messages["messages"]
        for part in one["message"]["parts"]
        if part["type"] == "result"
    ]


def test_agents_of_a_module_are_listed_with_their_description_and_model(api: Api) -> None:
    weather, payer, gated, *_ = api.get("/agents")["agents"]
    assert (weather["name"], weather["model"]) == ("weather", "down:model")
    assert weather["description"] == "Reports the weather."
    assert weather["provider_tools"] == ["web_search"]
    assert [tool["approval"] for tool in payer["tools"]] == ["ask"]
    assert gated["name"] == "gated"


def test_an_output_type_and_a_fallback_work_behind_the_server(api: Api) -> None:
    result = api.get(f"{api.chat('weather')}/result")["result"]
    assert result["reason"] == "stop"
    assert result["text"] == '{"city": "Oslo", "degrees": 9}'


def test_a_gate_written_in_python_denies_a_call_behind_the_server(api: Api) -> None:
    chat = api.chat("gated")
    ((tool, text),) = results(api.get(f"{chat}/messages"))
    assert tool == "drop"
    assert "no tables are dropped here" in text


def test_a_call_of_an_own_tool_waits_for_approval_and_runs_after_it(api: Api) -> None:
    chat = api.chat("payer")
    (action,) = api.get(f"{chat}/actions")["actions"]
    assert action["kind"] == "approval"
    answer = {"answer": {"type": "allow", "digest": action["digest"]}}
    api.post(f"{chat}/actions/{action['call']['id']}", answer)
    wait_until_idle(api.server, f"{api.url}{chat}")
    ((tool, text),) = results(api.get(f"{chat}/messages"))
    assert tool == "pay"
    assert "paid 3" in text


def test_an_own_model_and_functions_as_instructions_run_in_the_process_that_drives(
    api: Api,
) -> None:
    result = api.get(f"{api.chat('echo')}/result")["result"]
    assert result["text"].startswith("I am echo, and greet ")
    assert int(result["text"].split()[-1]) == api.driver.child.pid


def test_an_answer_is_streamed_while_it_is_written_wherever_it_is_driven(api: Api) -> None:
    chat = f"{api.url}/chats/{api.post('/chats', {'agent': 'slow', 'prompt': 'Go.'})['id']}"
    with api.server.open(f"{chat}/stream") as stream:
        next(data for name, data in events(stream) if name == "delta" and "Half" in str(data))
        assert api.server.ask(f"{chat}/result")["result"] is None
        (api.driver.home / "work" / "may-end").touch()
    wait_until_idle(api.server, chat)
    assert api.server.ask(f"{chat}/result")["result"]["text"] == "Half and half."


def test_a_guard_continues_a_turn_behind_the_server(api: Api) -> None:
    chat = api.chat("guarded")
    assert api.get(f"{chat}/result")["result"]["text"] == "Whole."
    texts = [one["message"]["parts"][0]["text"] for one in api.get(f"{chat}/messages")["messages"]]
    assert texts == ["Go.", "Half.", "Say all of it.", "Whole."]


def test_an_agent_takes_a_conversation_over_behind_the_server(api: Api) -> None:
    chat = api.chat("triage")
    assert api.get(chat)["agent"] == "billing"
    assert api.get(f"{chat}/result")["result"]["text"] == "Billed."


def test_an_agent_as_a_tool_answers_behind_the_server(api: Api) -> None:
    chat = api.chat("lead")
    ((tool, text),) = results(api.get(f"{chat}/messages"))
    assert tool == "billing"
    assert "Billed." in text


def test_middleware_and_a_limit_work_behind_the_server(api: Api) -> None:
    chat = api.chat("limited")
    assert api.get(f"{chat}/result")["result"]["reason"] == "limit"
    texts = [text for _, text in results(api.get(f"{chat}/messages"))]
    assert ["DROPPED A" in texts[0], "DROPPED B" in texts[1]] == [True, True]


def test_a_server_without_a_worker_needs_a_database_that_others_can_open(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "0", "--no-worker") as server:
        server.until("a server without a worker needs PostgreSQL, because only one process")
        assert server.child.wait(30) == 2


def test_a_broken_module_stops_the_start_with_the_traceback_and_code_2(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "app.py").write_text("agent = 1 / 0\n")
    with serving(tmp_path, "app:agent", "--listen", "0") as server:
        server.until("app cannot be imported")
        assert server.until("ZeroDivisionError") == "ZeroDivisionError: division by zero"
        assert server.child.wait(30) == 2
    frames = [line for line in server.said if line.startswith("  File ")]
    module = tmp_path / "work" / "app.py"
    assert frames == [f'  File "{module}", line 1, in <module>']


def test_a_worker_drives_the_agents_of_a_module_on_postgresql(
    tmp_path: Path, postgres_url: str
) -> None:
    app = 'from holdfast import Agent\nagent = Agent(name="{}", model="demo")\n'
    for name in ("one", "two"):
        (tmp_path / name / "work").mkdir(parents=True)
        (tmp_path / name / "work" / "app.py").write_text(app.format(name))
    database = ("--database", postgres_url)
    with (
        serving(tmp_path / "one", "app:agent", "--listen", "0", *database) as server,
        serving(tmp_path / "two", "app:agent", *database, verb="worker") as worker,
    ):
        api = Api(server, server.started())
        worker.until("two answers with demo:demo")
        assert api.get(f"{api.chat('one')}/result")["result"]["reason"] == "stop"
        assert worker.end() == 0


def test_a_program_serves_its_own_agents(tmp_path: Path) -> None:
    agent = Agent(name="mine", model="demo", description="Mine.")

    async def ask(url: str) -> tuple[str, str]:
        async with holdfast.connect(url) as host:
            chat = await host.create("say hello")
            return chat.agent, (await chat.rest()).text

    async def program() -> tuple[str, str]:
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        settings = {"agents": {"mine": {"effort": "low"}}, "titles": False}
        serving = asyncio.create_task(
            holdfast.serve(
                [agent], listen=0, data=tmp_path, settings=settings, on_start=started.set_result
            )
        )
        try:
            async with asyncio.timeout(30):
                return await ask(await started)
        finally:
            serving.cancel()
            await asyncio.wait([serving])

    tmp_path.chmod(0o700)
    assert asyncio.run(program()) == ("mine", "hello")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"worker": False}, "needs PostgreSQL"), ({"worker": False, "api": False}, "both False")],
)
def test_a_program_that_could_not_serve_says_so(
    tmp_path: Path, wrong: dict[str, bool], says: str
) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(ConfigError, match=says):
        holdfast.serve_sync(Agent(model="demo"), data=tmp_path, **wrong)  # type: ignore[arg-type]


def test_mistakes_in_the_settings_of_a_program_are_told_together(tmp_path: Path) -> None:
    settings = {"agents": {"a": {"effrt": "low"}}, "server": {"listen": "nowhere"}}
    with pytest.raises(ConfigError, match=r"\(2 mistakes\)(?s:.*)did you mean effort"):
        holdfast.serve_sync(Agent(model="demo"), settings=settings, data=tmp_path)
