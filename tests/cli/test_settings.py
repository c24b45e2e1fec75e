"""What a server is set up by is read once, and everything wrong with it is said at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.cli.agents import DEFAULT, INSTRUCTIONS, Place, agents_of
from holdfast.cli.settings import AgentSettings, Settings, read_settings
from holdfast.kernel.errors import ConfigError
from holdfast.worker.options import WorkerOptions

NO_KEYS: Mapping[str, str] = {}


def written(directory: Path, text: str) -> str:
    path = directory / "holdfast.toml"
    path.write_text(text)
    return str(path)


def refused(directory: Path, text: str) -> list[str]:
    """The lines of what is said about a file."""
    with pytest.raises(ConfigError) as told:
        read_settings(written(directory, text))
    return str(told.value).splitlines()


def test_without_a_file_everything_has_its_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_settings(None) == (Settings(), str(tmp_path))


def test_a_file_of_the_usual_name_is_found_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, 'database = "sqlite:///other.db"')
    monkeypatch.chdir(tmp_path)
    assert read_settings(None)[0].database == "sqlite:///other.db"


def test_a_file_says_who_answers_and_how_it_is_served(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        [agents.helper]
        model = "demo"
        tools = ["ask_user"]
        effort = "low"
        [agents.other]
        [server]
        listen = "0.0.0.0:80"
        team = true
        urls = ["https://chat.example.org"]
        [worker]
        chats = 3
        [providers.ollama]
        base_url = "http://127.0.0.1:1"
        """,
    )
    settings, directory = read_settings(path)
    assert directory == str(tmp_path)
    assert settings.agents == {
        "helper": AgentSettings(model="demo", tools=("ask_user",), effort="low"),
        "other": AgentSettings(),
    }
    assert (settings.server.listen, settings.server.team) == ("0.0.0.0:80", True)
    assert settings.worker == WorkerOptions(chats=3)
    assert settings.providers == {"ollama": {"base_url": "http://127.0.0.1:1"}}


def test_every_mistake_is_told_with_its_place(tmp_path: Path) -> None:
    told = refused(
        tmp_path,
        """
        colour = 1
        [server]
        lisen = "x"
        team = "yes"
        [worker]
        lease = 5
        [agents.a]
        model = 3
        effort = "hi"
        instructions = "a"
        instructions_file = "b"
        [agents]
        b = 3
        """,
    )
    assert told[0] == f"{tmp_path}/holdfast.toml cannot be used (8 mistakes):"
    assert [line.split(": ")[0].strip() for line in told[1:]] == [
        "server.lisen",
        "server.team",
        "worker",
        "agents.a.model",
        "agents.a.effort",
        "agents.a",
        "agents.b",
        "colour",
    ]
    assert told[1].endswith("did you mean listen?")
    assert told[5].endswith("use one of none, minimal, low, medium, high, xhigh, max")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[agents", "is no TOML"),
        ("agents = 3", "write a table for each"),
        ("server = 3", "write a table, as in [server]"),
        ('[agents.a]\napproval = "no"', "use one of ask, never"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path: Path, text: str, says: str) -> None:
    assert says in "\n".join(refused(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read: No such file"):
        read_settings(str(tmp_path / "none.toml"))


# --- agents ---------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "project").mkdir()
    (tmp_path / "data").mkdir()
    return Place(str(tmp_path / "project"), str(tmp_path / "data"))


def test_without_settings_one_agent_answers_with_the_tools_of_this_directory(place: Place) -> None:
    (agent,) = agents_of(Settings(), place, NO_KEYS)
    assert (agent.name, agent.instructions) == (DEFAULT, INSTRUCTIONS)
    assert set(agent.toolset) >= {"read_file", "write_file", "execute", "ask_user"}


def test_tools_never_work_in_a_home_by_accident(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    place = Place(str(tmp_path), str(tmp_path / "data"))
    assert place.workspace() == str(tmp_path / "data" / "workspace")
    assert (tmp_path / "data" / "workspace").is_dir()


def test_instructions_come_from_a_file_beside_the_settings(place: Place) -> None:
    Path(place.directory, "me.md").write_text("Be kind.")
    settings = Settings(agents={"a": AgentSettings(instructions_file="me.md", tools=())})
    (agent,) = agents_of(settings, place, NO_KEYS)
    assert agent.instructions == "Be kind."
    assert not agent.tools


def test_the_options_of_a_provider_reach_its_models(place: Place) -> None:
    settings = Settings(
        agents={"a": AgentSettings(model="ollama:small", tools=())},
        providers={"ollama": {"base_url": "http://127.0.0.1:9/v1"}},
    )
    (agent,) = agents_of(settings, place, NO_KEYS)
    assert "127.0.0.1:9" in repr(vars(agent.model))


def test_what_is_wrong_with_agents_is_said_of_all_of_them(place: Place) -> None:
    settings = Settings(
        agents={
            "a": AgentSettings(model="nobody:x"),
            "b": AgentSettings(dir="nowhere"),
            "c": AgentSettings(instructions_file="none.md"),
            "d": AgentSettings(tools=("nonsense",)),
            "e": AgentSettings(model="ollama:x"),
        },
        providers={"ollama": {"api_key": "secret"}},
    )
    with pytest.raises(ConfigError) as told:
        agents_of(settings, place, NO_KEYS)
    first, *lines = str(told.value).splitlines()
    assert first == "the settings cannot be used (5 mistakes):"
    assert [line.strip().split(":")[0] for line in lines] == [f"agents.{name}" for name in "abcde"]
    assert "nowhere is no directory" in lines[1]
    assert "none.md cannot be read" in lines[2]
    assert "write module:name" in lines[3]
    assert "a key does not belong in a file" in lines[4]
    assert "secret" not in str(told.value)
