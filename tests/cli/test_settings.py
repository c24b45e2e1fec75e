"""What a server is set up by is read once, and everything wrong with it is said at once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec import structs

from holdfast.agent import Agent
from holdfast.chat.budgets import Budgets
from holdfast.cli.agent_builder import SERVER_INSTRUCTIONS, BaseDirectories
from holdfast.cli.agent_registry import DEFAULT_AGENT, complete_agents
from holdfast.cli.settings import AgentSettings, HoldfastSettings, read_settings
from holdfast.cli.settings_trust import Untrusted, find_settings, trust
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.limits import Limits
from holdfast.kernel.prepare import model_of
from holdfast.providers.provider_catalog import PROVIDERS
from holdfast.worker.options import WorkerOptions

NO_KEYS: Mapping[str, str] = {}
OLLAMA = AgentSettings(tools=(), fields={"model": "ollama:small"})


def agents_of(
    settings: HoldfastSettings, directories: BaseDirectories, environ: Mapping[str, str]
) -> list[Agent]:
    return list(asyncio.run(complete_agents(settings, directories, environ)).values())


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
    assert read_settings(None) == (HoldfastSettings(), str(tmp_path))


def test_a_directory_that_was_removed_has_no_settings_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match="the current directory was removed: go to another"):
        read_settings(None)
    named = written(tmp_path, 'database = "sqlite:///other.db"')
    assert read_settings(named)[0].database == "sqlite:///other.db"


def test_a_file_of_the_usual_name_is_found_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, 'database = "sqlite:///other.db"')
    monkeypatch.chdir(tmp_path)
    data = str(tmp_path / "data")
    with pytest.raises(Untrusted):
        read_settings(None, data)
    found = find_settings()
    assert found is not None
    trust(found, data)
    assert read_settings(None, data)[0].database == "sqlite:///other.db"


def test_an_agent_without_a_model_knows_the_addresses_of_the_settings(tmp_path: Path) -> None:
    text = '[providers.groq]\nbase_url = "https://gateway.example"'
    settings, directory = read_settings(written(tmp_path, text))
    environ = {"GROQ_API_KEY": "sk-0123456789abcdef", "GROQ_BASE_URL": "no address"}
    (made,) = agents_of(settings, BaseDirectories(directory, str(tmp_path)), environ)
    assert model_of(made).name == f"groq:{PROVIDERS['groq'].default}"


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
        "helper": AgentSettings(tools=("ask_user",), fields={"model": "demo", "effort": "low"}),
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


def test_every_mistake_of_the_worker_is_told_too(tmp_path: Path) -> None:
    _, told = refused(tmp_path, "[worker]\nheartbeat = 9\npoll = 0\nchats = 0\ngrace = -1")
    assert told.strip() == (
        "worker: poll is 0.0: use seconds, more than 0; chats is 0: use at least 1; "
        "grace is -1.0: use seconds, or 0 for none; lease is 15 s and heartbeat 9: a lease shorter "
        "than three heartbeats would take chats from a worker that is only slow"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[agents", "is not TOML"),
        ("agents = 3", "write a table for each"),
        ("server = 3", "write a table, as in [server]"),
        ('[agents.a]\napproval = "no"', "use one of ask, never"),
        ("database = 5", "database: write text in quotes"),
        ('[worker]\nlease = "x"', "worker.lease: write a number"),
        ('[agents.a]\ntools = "x"', 'agents.a.tools: write a list of strings, as in ["a", "b"]'),
        ("[agents.a.limits]\nsteps = 1.5", "agents.a.limits.steps: write a whole number"),
        ("[server]\nteam = 1", "server.team: write true or false"),
        ("providers = 1", "providers: write a table"),
        ('[agents.""]', "agents: an agent has no name"),
        ("[limits]\naudit = 0\nfiles = -1", "limits: files, audit: use 1 or more"),
        ("[providers.opnai]", "unknown provider: did you mean openai?"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path: Path, text: str, says: str) -> None:
    assert says in "\n".join(refused(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[agents.a.policy.retry]\nattemps = 3", "policy.retry.attemps: … did you mean attempts?"),
        ("[agents.a.settings]\ntemprature = 1", "settings.temprature: … did you mean temperature?"),
        ("[agents.a]\nMODLE = 'demo'", "agents.a.MODLE: … did you mean model?"),
        ("[[agents.a.provider_tools]]\nnam = 'x'", "tools[0].nam: … did you mean name?"),
        ("[agents.a]\nattempts = 3", "agents.a.attempts: … did you mean policy.retry.attempts?"),
        ("[agents.a]\nsystem_prompt = 'x'", "agents.a.system_prompt: … write instructions"),
        ("[agents.a]\ntemperature = 1", "agents.a.temperature: … write settings.temperature"),
        ("[agents.a]\nmax_turns = 3", "agents.a.max_turns: … write limits.steps"),
        (
            "[agents.a]\nretries = 3",
            "agents.a.retries: … write policy.repairs, for answers of a wrong type, or",
        ),
        ("[agents.a.policy.retry]\nmax_retries = 3", "retry.max_retries: … write attempts"),
        ("[agents.a]\nfallback = ['x']", 'a.fallback: … write model = ["first", "second"]'),
        ("[agents.a.policy.stream]\nx = 1", "stream.x: … use one of between_events, closing, "),
        ("[worker]\nhartbeat = 1", "worker.hartbeat: … did you mean heartbeat?"),
        ("[worker]\nx = 1", "worker.x: … use one of heartbeat, lease, "),
    ],
)
def test_an_unknown_setting_is_answered_with_the_one_to_write(
    tmp_path: Path, text: str, says: str
) -> None:
    told = "\n".join(refused(tmp_path, text))
    assert says.replace("…", "unknown setting:") in told


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read: No such file"):
        read_settings(str(tmp_path / "none.toml"))


def test_a_key_does_not_belong_in_a_file_and_is_not_repeated(tmp_path: Path) -> None:
    told = "\n".join(refused(tmp_path, '[providers.openai]\napi_key = "sk-1234"'))
    assert "providers.openai.api_key: a key does not belong in a file" in told
    assert "sk-1234" not in told


def test_options_of_a_provider_are_checked_although_no_agent_asks_it(tmp_path: Path) -> None:
    told = refused(
        tmp_path,
        """
        [providers.anthropic]
        timeout = 5
        betas = 5
        [providers.openai]
        base_url = 5
        headers = ["X-Team"]
        [providers.azure]
        headers = {X-Team = 5}
        environ = "x"
        profile = {windw = 3}
        [providers.ollama]
        base_url = "localhost"
        [providers.groq]
        headers = {X-Team = "weather"}
        """,
    )
    assert [line.strip() for line in told[1:]] == [
        "providers.anthropic.timeout: unknown option: use one of base_url, headers, profile, betas",
        "providers.anthropic.betas: betas is 5: use a list of names",
        "providers.openai.base_url: base_url is of type int: use text, as in https://host/path",
        "providers.openai.headers: headers are a list: use {name: value}",
        "providers.azure.headers: the header X-Team has to be text in one line",
        "providers.azure.environ: unknown option: use one of base_url, headers, profile, chain",
        "providers.azure.profile: a profile has no field windw: use window, max_output, price, "
        "efforts, files, sampling, structured, options",
        "providers.ollama.base_url: base_url is not an address: use http(s)://host/path",
    ]


@pytest.mark.parametrize("name", ["api_key", "key", "apikey", "token"])
def test_whatever_a_key_is_called_it_does_not_belong_in_a_file(tmp_path: Path, name: str) -> None:
    told = "\n".join(refused(tmp_path, f'[providers.openai]\n{name} = "sk-1234"'))
    assert f"providers.openai.{name}: a key does not belong in a file" in told
    assert "sk-1234" not in told


def test_bytes_that_are_no_text_are_no_settings(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not TOML: it is not UTF-8 text"):
        read_settings(str(path))


# --- agents ---------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> BaseDirectories:
    (tmp_path / "project").mkdir()
    (tmp_path / "data").mkdir()
    return BaseDirectories(str(tmp_path / "project"), str(tmp_path / "data"))


def test_without_settings_one_agent_answers_with_the_tools_of_this_directory(
    place: BaseDirectories,
) -> None:
    (agent,) = agents_of(HoldfastSettings(), place, NO_KEYS)
    assert (agent.name, agent.instructions) == (DEFAULT_AGENT, SERVER_INSTRUCTIONS)
    assert set(agent.toolset) >= {"read_file", "write_file", "execute", "ask_user"}


def test_tools_never_work_in_a_home_by_accident(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    place = BaseDirectories(str(tmp_path), str(tmp_path / "data"))
    assert place.workspace() == str(tmp_path / "data" / "workspace")
    assert (tmp_path / "data" / "workspace").is_dir()


def test_instructions_come_from_a_file_beside_the_settings(place: BaseDirectories) -> None:
    Path(place.directory, "me.md").write_text("Be kind.")
    settings = HoldfastSettings(agents={"a": AgentSettings(instructions_file="me.md", tools=())})
    (agent,) = agents_of(settings, place, NO_KEYS)
    assert agent.instructions == "Be kind."
    assert not agent.tools


def test_the_options_of_a_provider_reach_its_models(place: BaseDirectories) -> None:
    settings = HoldfastSettings(
        agents={"a": AgentSettings(tools=(), fields={"model": "ollama:small"})},
        providers={"ollama": {"base_url": "http://127.0.0.1:9/v1"}},
    )
    (agent,) = agents_of(settings, place, NO_KEYS)
    assert "127.0.0.1:9" in repr(vars(agent.model))


def test_the_options_of_a_provider_hold_for_every_model_that_a_chat_names(
    place: BaseDirectories,
) -> None:
    settings = HoldfastSettings(
        agents={"a": AgentSettings(tools=(), fields={"model": "demo"})},
        providers={
            "openai-chat": {"base_url": "http://127.0.0.1:9/v1", "headers": {"X-Team": "a"}}
        },
    )
    (agent,) = agents_of(settings, place, {"OPENAI_API_KEY": "sk-1"})
    chosen = agent.replace(model="openai-chat:any").model
    assert "127.0.0.1:9" in repr(vars(chosen))
    assert "X-Team" in repr(vars(chosen))


def test_a_chat_may_name_a_model_whose_key_was_stored_since(place: BaseDirectories) -> None:
    environ: dict[str, str] = {}
    (agent,) = agents_of(HoldfastSettings(), place, environ)
    with pytest.raises(ConfigError, match="needs a key"):
        agent.replace(model="openai-chat:any")
    environ["OPENAI_API_KEY"] = "sk-1"
    assert model_of(agent.replace(model="openai-chat:any")).name == "openai-chat:any"


@pytest.mark.parametrize("name", ["vllm:x", "ollama:x", " lmstudio :x", "llamacpp:x"])
def test_a_chat_may_not_name_a_local_provider_that_is_not_configured(
    place: BaseDirectories, name: str
) -> None:
    (agent,) = agents_of(HoldfastSettings(), place, NO_KEYS)
    with pytest.raises(ConfigError, match=r"is not configured on this server: set \w+_BASE_URL"):
        agent.replace(model=name)


@pytest.mark.parametrize(
    ("settings", "environ"),
    [
        (HoldfastSettings(), {"OLLAMA_HOST": "gpu"}),
        (HoldfastSettings(), {"OLLAMA_BASE_URL": "http://gpu"}),
        (HoldfastSettings(), {"HOLDFAST_MODEL": "ollama:small"}),
        (HoldfastSettings(providers={"ollama": {"base_url": "http://gpu"}}), NO_KEYS),
        (HoldfastSettings(providers={"ollama": {"headers": {"X-Team": "a"}}}), NO_KEYS),
        (
            HoldfastSettings(
                agents={"b": AgentSettings(tools=(), fields={"model": "ollama:small"})}
            ),
            NO_KEYS,
        ),
    ],
    ids=["host", "base url", "default model", "settings", "settings without url", "agent"],
)
def test_a_chat_may_name_any_model_of_a_local_provider_that_is_configured(
    place: BaseDirectories, settings: HoldfastSettings, environ: Mapping[str, str]
) -> None:
    agents = {"a": AgentSettings(tools=(), fields={"model": "demo"}), **settings.agents}
    first, *_ = agents_of(structs.replace(settings, agents=agents), place, environ)
    assert model_of(first.replace(model="ollama:any")).name == "ollama:any"
    with pytest.raises(ConfigError, match="vllm is not configured on this server"):
        first.replace(model="vllm:any")
    assert model_of(first.replace(model="demo")).name == "demo:demo"


def test_what_is_wrong_with_agents_is_said_of_all_of_them(place: BaseDirectories) -> None:
    settings = HoldfastSettings(
        agents={
            "a": AgentSettings(dir="nowhere", fields={"model": "nobody:x"}),
            "b": AgentSettings(instructions_file="none.md", fields={"limits": {"steps": 0}}),
            "c": AgentSettings(tools=("nonsense", "none:x")),
        },
    )
    with pytest.raises(ConfigError) as told:
        agents_of(settings, place, NO_KEYS)
    first, *lines = str(told.value).splitlines()
    assert first == "the settings cannot be used (6 mistakes):"
    assert [line.strip().split(":")[0] for line in lines] == [
        "agents.a.model",
        "agents.a.dir",
        "agents.b.limits",
        "agents.b.instructions_file",
        "agents.c.tools",
        "agents.c.tools",
    ]
    assert "nowhere is not a directory" in lines[1]
    assert "none.md cannot be read" in lines[3]
    assert "nonsense: write bundled, ask_user, or module:name" in lines[4]
    assert f"module 'none' was not found in {place.directory}" in lines[5]


def test_a_model_of_the_environment_is_blamed_on_the_environment(place: BaseDirectories) -> None:
    with pytest.raises(ConfigError, match=r"names no provider: .* \(HOLDFAST_MODEL is set\)"):
        agents_of(HoldfastSettings(), place, {"HOLDFAST_MODEL": "nobody"})


def test_a_tool_is_looked_for_beside_the_settings_and_not_where_one_happens_to_be(
    place: BaseDirectories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for directory in (elsewhere, Path(place.directory)):
        text = f'async def place(): """{directory}"""'
        Path(directory, "tools_of_these_settings.py").write_text(text)
    monkeypatch.chdir(elsewhere)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    settings = HoldfastSettings(
        agents={"a": AgentSettings(tools=("tools_of_these_settings:place",))}
    )
    try:
        (agent,) = agents_of(settings, place, NO_KEYS)
    finally:
        sys.modules.pop("tools_of_these_settings", None)
    assert agent.toolset["place"].description == place.directory


# --- budgets ---


def test_budgets_have_a_table_for_each_scope(tmp_path: Path) -> None:
    text = """
    [budgets]
    user = {tokens = 5_000_000}
    [budgets.day]
    cost = 2.50
    steps = 500
    """
    settings, _ = read_settings(written(tmp_path, text))
    expected = Budgets(user=Limits(tokens=5_000_000), day=Limits(cost=2.5, steps=500))
    assert settings.budgets == expected


def test_all_mistakes_in_budgets_are_found_at_once(tmp_path: Path) -> None:
    text = """
    [budgets]
    week = {tokens = 5}
    user = 5
    [budgets.day]
    cost = -1
    [budgets.chat]
    token = 5
    steps = "many"
    """
    lines = refused(tmp_path, text)
    for words in (
        "budgets.week: unknown setting",
        "budgets.user: write a table, as in [budgets.user]",
        "budgets.day: cost is -1.0: use a number greater than 0",
        "budgets.chat.token: unknown setting: did you mean tokens?",
        "budgets.chat.steps: write a whole number",
    ):
        assert any(words in line for line in lines), (words, lines)
    assert "budgets: write a table for each" in "".join(refused(tmp_path, "budgets = 5"))
