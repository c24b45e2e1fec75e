"""What a server is going to be is found out beforehand, and everything wrong is said at once."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast import Agent
from holdfast.cli.command_line import parse
from holdfast.cli.local_host import who_answers
from holdfast.cli.serve_config import ServeConfig, ServedProgram, resolve_config
from holdfast.cli.settings import examine_given
from holdfast.config import ServeOptions, serve_options
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.prepare import model_of


def made(
    home: Path, *argv: str, verb: str = "serve", text: str = "", **environ: str
) -> ServeConfig:
    settings = home / "holdfast.toml"
    settings.write_text(text)
    full: Mapping[str, str] = {
        "HOLDFAST_HOME": str(home / "data"),
        "HOLDFAST_CONFIG": str(settings),
        **environ,
    }
    return resolve_config(serve_options(parse([verb, *argv])[1], full, api=verb == "serve"), full)


def refused(home: Path, *argv: str, verb: str = "serve", text: str = "") -> str:
    with pytest.raises(ConfigError) as told:
        made(home, *argv, verb=verb, text=text)
    return str(told.value)


def test_mistakes_of_the_file_its_agents_and_its_server_are_one_message(tmp_path: Path) -> None:
    first, *lines = refused(
        tmp_path,
        text="""
        colour = 1
        [agents.a]
        model = "nobody:x"
        effort = "much"
        [server]
        listen = "nowhere"
        tick = -1
        proxies = ["me"]
        team = true
        advertise = "me"
        """,
    ).splitlines()
    assert first == f"{tmp_path}/holdfast.toml cannot be used (8 mistakes):"
    assert [line.strip().partition(": ")[0] for line in lines] == [
        "agents.a.effort",
        "colour",
        "agents.a.model",
        "server.listen",
        "server.advertise",
        "server.tick",
        "server.proxies",
        "server.urls",
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('urls = ["https://x.example"]', "server.urls: only used by a team: add team = true"),
        ("team = true", "server.urls: a server for a team needs its public URL"),
        ('team = true\nurls = ["x"]', "server.urls: 'x' is not a server URL"),
        ('listen = "0.0.0.0:80"', "server.listen: 0.0.0.0 can be reached from the network"),
    ],
)
def test_a_server_that_could_not_be_reached_as_it_is_meant_is_not_started(
    tmp_path: Path, line: str, says: str
) -> None:
    assert says in refused(tmp_path, text=f"[server]\n{line}\n")


def test_what_a_team_calls_its_server_is_known_from_the_start(tmp_path: Path) -> None:
    text = '[server]\nteam = true\nurls = ["https://x.example"]\n'
    front = made(tmp_path, text=text).front
    assert front is not None
    assert front.secure
    assert front.hosts == {"x.example", "x.example:443"}
    assert made(tmp_path).front is None


# --- the numbers of a worker ----------------------------------------------------------------------


@pytest.mark.parametrize("where", ["0.0.0.0:9100", "10.0.0.5:9100", "[::]:9100", "box:9100"])
def test_the_numbers_of_a_worker_are_not_told_to_the_network_by_accident(
    tmp_path: Path, where: str
) -> None:
    said = refused(tmp_path, "--metrics", where, verb="worker")
    assert "metrics without a token" in said
    assert "use --metrics 127.0.0.1:9100, or add --metrics-open" in said


def test_the_numbers_of_a_worker_are_told_to_this_machine_or_to_whom_it_was_said(
    tmp_path: Path,
) -> None:
    for where in ("9100", "127.0.0.1:9100", "localhost:9100", "[::1]:9100"):
        assert made(tmp_path, "--metrics", where, verb="worker").metrics is not None
    everybody = ("0.0.0.0", 9100)
    opened = made(tmp_path, "--metrics", "0.0.0.0:9100", "--metrics-open", verb="worker")
    assert opened.metrics == everybody
    environ = {"HOLDFAST_METRICS": "0.0.0.0:9100", "HOLDFAST_METRICS_OPEN": "1"}
    assert made(tmp_path, verb="worker", **environ).metrics == everybody


# --- the data directory ---------------------------------------------------------------------------


def test_a_file_where_the_data_directory_should_be_is_called_that(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    assert refused(tmp_path) == (
        f"{tmp_path}/data is not a directory: set HOLDFAST_HOME to a directory of yours"
    )


AS_NOBODY = """
import os, sys
from holdfast.cli.target import create_data_directory

if os.geteuid() == 0:
    os.setuid(65534)
try:
    create_data_directory(sys.argv[1])
except Exception as error:
    print(error)
"""


def test_a_data_directory_of_somebody_else_is_refused_with_what_to_do() -> None:
    with tempfile.TemporaryDirectory() as home:  # one that other users can get to
        os.chmod(home, 0o755)
        data = Path(home, "data")
        data.mkdir(mode=0o555)
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, str(data)], capture_output=True, text=True, check=True
        )
    assert done.stdout == (
        f"{data} is not writable for you: set HOLDFAST_HOME to a directory of yours\n"
    )


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775, 0o702])
def test_a_data_directory_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(mode)
    assert refused(tmp_path).startswith(
        f"{data} can be written to by other users (mode {mode:03o})"
    )
    assert f"run `chmod go-w {data}`" in refused(tmp_path)
    assert not list(data.iterdir())


def test_a_data_directory_that_others_can_only_read_is_used(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)
    made(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory of another user")
def test_a_data_directory_that_belongs_to_another_user_is_refused() -> None:
    with tempfile.TemporaryDirectory() as home:
        os.chmod(home, 0o755)
        data = Path(home, "data")
        data.mkdir()
        os.chown(data, 65533, 65534)
        data.chmod(0o700)
        program = AS_NOBODY.replace("create_data_directory(s", "refuse_shared(s").replace(
            "import create_data_directory", "import refuse_shared"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, str(data)], capture_output=True, text=True, check=True
        )
    assert done.stdout.startswith(f"{data} belongs to another user")


def program(*agents: Agent) -> ServedProgram:
    return ServedProgram(agents, examine_given(None), None)


async def test_an_agent_without_a_key_is_refused_by_its_name_and_the_variable(
    tmp_path: Path,
) -> None:
    options = ServeOptions(data=str(tmp_path / "data"))
    clerk = Agent("openai:any", name="clerk")
    config = resolve_config(options, {}, program=program(clerk))
    with pytest.raises(ConfigError) as raised:
        await config.registry.complete()
    first, line = str(raised.value).splitlines()
    assert first == "the agents cannot be used:"
    assert line.startswith("  agent clerk: openai needs a key: set OPENAI_API_KEY")


@pytest.mark.parametrize("verb", ["serve", "worker"])
def test_a_model_of_the_command_line_is_the_model_of_all_agents(tmp_path: Path, verb: str) -> None:
    text = '[agents.a]\nmodel = "openai:any"\n[agents.b]\n'
    config = made(tmp_path, "--model", "demo", verb=verb, text=text)
    agents = config.registry.agents
    assert {name: model_of(agent).name for name, agent in agents.items()} == {
        "a": "demo:demo",
        "b": "demo:demo",
    }
    given = program(Agent("openai:any", name="clerk"))
    options = ServeOptions(data=str(tmp_path / "data"), model="demo")
    clerk = resolve_config(options, {}, program=given).registry.agents["clerk"]
    assert model_of(clerk).name == "demo:demo"
    assert (
        who_answers(config) == "a answers with demo:demo (not a language model: chosen by --model)"
    )
