"""Deps of agents written in Python: behind a server, of a worker, and of a run in a terminal."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast import Agent, ToolContext, tool
from holdfast.cli.main import main
from holdfast.cli.python_deps import load_deps
from holdfast.errors import ConfigError
from holdfast.hooks import ChatInfo
from holdfast.testing import ScriptedModel, call
from tests.cli.test_serve import serving
from tests.cli.test_serve_python import Api, results

APP = '''
from contextlib import asynccontextmanager
from dataclasses import dataclass

from holdfast import Agent, ToolContext, tool
from holdfast.testing import ScriptedModel, call

@dataclass
class Shop:
    name: str

@tool(effect="pure")
async def shop_name(context: ToolContext[Shop]) -> str:
    """The name of the shop."""
    return context.deps.name

clerk = Agent(
    ScriptedModel([call("shop_name"), "Tea."], name="scripted:clerk"),
    name="clerk",
    tools=[shop_name],
    deps_type=Shop,
)
plain = Agent("demo", name="plain")
agents = [clerk, plain]

@asynccontextmanager
async def shop_of(info):
    yield Shop(f"shop of {info.agent}")

providers = {"clerk": lambda info: Shop("mapped shop")}
number = 5
'''


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "app.py").write_text(APP)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "settings", "name"),
    [
        (("app:agents", "--deps", "app:shop_of"), "", "shop of clerk"),
        (("app:agents",), 'deps = "app:providers"\n', "mapped shop"),
        (("app:agents", "--deps", "app:providers"), 'deps = "app:shop_of"\n', "mapped shop"),
    ],
)
def test_agents_behind_a_server_have_the_deps_of_the_provider_that_is_named(
    home: Path, arguments: tuple[str, ...], settings: str, name: str
) -> None:
    (home / "work" / "team.toml").write_text(settings)
    with serving(home, *arguments, "--listen", "0", "--config", "team.toml") as server:
        api = Api(server, server.started())
        assert results(api.get(f"{api.chat('clerk')}/messages")) == [
            ("shop_name", f"[{{'type': 'text', 'text': '{name}'}}]")
        ]


@pytest.mark.parametrize("verb", ["serve", "worker"])
def test_a_server_without_a_provider_does_not_start(home: Path, verb: str) -> None:
    more = ("--listen", "0") if verb == "serve" else ()
    with serving(home, "app:agents", *more, verb=verb) as server:
        server.until("clerk needs deps of type Shop, which a durable chat gets from a provider")
        assert server.child.wait(30) == 2


def test_a_wrong_name_of_a_provider_says_what_to_name(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home / "work")
    monkeypatch.syspath_prepend(str(home / "work"))
    for spec, problem in {
        "app:shop_off": "--deps app:shop_off: app has no 'shop_off'",
        "app:number": "--deps app:number: that is a value of type int; name a function of a chat's",
        "app": "write module:name, as in app:provider",
        "nowhere:shop": "module 'nowhere' was not found",
    }.items():
        with pytest.raises(ConfigError) as caught:
            load_deps(spec, "--deps")
        assert problem in str(caught.value)
    monkeypatch.delitem(sys.modules, "app", raising=False)


def test_a_wrong_provider_in_the_settings_is_one_of_their_mistakes(tmp_path: Path) -> None:
    settings = {"deps": "nowhere:shop", "server": {"listen": "nowhere"}}
    with pytest.raises(ConfigError, match=r"\(2 mistakes\)(?s:.*)module 'nowhere' was not found"):
        holdfast.serve_sync(Agent("demo"), settings=settings, data=tmp_path)


# --- Programs -----------------------------------------------------------------------------------


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name


@tool(effect="pure")
async def shop_name(context: ToolContext[Shop]) -> str:
    """The name of the shop."""
    return context.deps.name


def clerk() -> Agent[Shop, str]:
    model = ScriptedModel([call("shop_name"), "Tea."])
    return Agent(model, name="clerk", tools=[shop_name], deps_type=Shop)


def test_a_program_serves_its_agents_with_deps(tmp_path: Path) -> None:
    infos: list[ChatInfo] = []

    async def provide(info: ChatInfo) -> Shop:
        infos.append(info)
        return Shop("served shop")

    async def ask(url: str) -> list[str]:
        async with holdfast.connect(url) as host:
            chat = await host.create("?", labels={"tenant": "7"})
            await chat.rest()
            return [one.text for message in await chat.history() for one in message.results]

    async def program() -> list[str]:
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serve = holdfast.serve(
            clerk(),
            deps=provide,
            listen=0,
            data=tmp_path,
            settings={"titles": False},
            on_start=started.set_result,
        )
        task = asyncio.create_task(serve)
        try:
            async with asyncio.timeout(30):
                return await ask(await started)
        finally:
            task.cancel()
            await asyncio.wait([task])

    tmp_path.chmod(0o700)
    assert asyncio.run(program()) == ["served shop"]
    assert [(info.agent, info.labels) for info in infos] == [("clerk", {"tenant": "7"})]


def test_a_chat_in_the_terminal_of_a_program_has_deps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("What is it called?\n"))
    history = clerk().chat_sync(deps=Shop("my shop"))
    assert [one.text for message in history for one in message.results] == ["my shop"]
    with pytest.raises(ConfigError, match="clerk needs deps of type Shop"):
        clerk().chat_sync()


# --- holdfast run -------------------------------------------------------------------------------


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", "run", "--agent", "app:clerk", *arguments, "?"],
        cwd=home / "work",
        env={"PATH": "", "HOLDFAST_HOME": str(home), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("save", [(), ("--save",)], ids=["in_memory", "saved"])
def test_a_run_has_the_deps_of_the_provider_that_is_named(
    home: Path, save: tuple[str, ...]
) -> None:
    home.chmod(0o700)
    ended = run(home, "--deps", "app:shop_of", *save)
    assert (ended.stdout, ended.returncode) == ("Tea.\n", 0), ended.stderr
    assert "shop of clerk" in run(home, "--deps", "app:shop_of", "--json").stdout


def test_a_run_without_a_provider_says_how_to_name_one(home: Path) -> None:
    ended = run(home)
    assert ended.returncode == 2
    assert "clerk needs deps of type Shop: add --deps MODULE:NAME" in ended.stderr


def test_deps_for_a_server_that_answers_with_its_own_agents_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = ("--url", "http://127.0.0.1:1", "--token", "t")
    assert main(["run", "--save", *where, "--deps", "app:x", "?"]) == 2
    assert "--deps: the agent of the server at http://127.0.0.1:1" in capsys.readouterr().err
