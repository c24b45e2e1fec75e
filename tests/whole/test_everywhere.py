"""One program, unchanged: as a script, in a durable chat, behind a server, on replicas, in FastAPI.

The program is `examples/refunds.py`. Its model is a provider on loopback.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import anyio
import pytest

import holdfast
from examples.refunds import Decision, agent, shop
from holdfast import approve, connect
from holdfast.chats import ChatHandle
from holdfast.events import LiveDelta, TextDelta
from holdfast.store.postgres.database import open_postgres
from holdfast.testing import FakeProvider, ScriptItem, call, hang
from holdfast.testing.fake.dialect_interface import ReceivedRequest
from tests.server.relay.cluster import run, until

ROOT: Final = Path(__file__).resolve().parents[2]
PROGRAM: Final = ROOT / "examples" / "refunds.py"
AGENT: Final = "examples.refunds:agent"
DEPS: Final = "examples.refunds:shop"
PROMPT: Final = "Refund 12 euros of order 7."
HALF: Final = '{"order": 7'
"""First half of the decision."""
ONE_REFUND: Final = "ann: 12 for order 7\n"
DECIDED: Final = "Refunded 12 euros of order 7.\n"
SHORT_LEASE: Final = "[worker]\nheartbeat = 0.3\nlease = 1.0\npoll = 0.5\n"


class Surroundings:
    """What the program runs in: a provider of its model, a ledger, processes."""

    def __init__(self, home: Path, provider_url: str, provider: FakeProvider) -> None:
        self.home = home
        self.ledger = home / "ledger.txt"
        self.provider = provider
        self.environment = {
            **_without_settings(os.environ),
            "HOLDFAST_HOME": str(home / "data"),
            "OPENAI_BASE_URL": provider_url,
            "OPENAI_API_KEY": "example",
            "HOLDFAST_CLUSTER_SECRET": "a secret of the replicas alone",
            "LEDGER": str(self.ledger),
            "PYTHONPATH": str(ROOT),
        }

    @property
    def refunds(self) -> str:
        return self.ledger.read_text()

    @asynccontextmanager
    async def process(self, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """A Python process in a directory of its own, killed at the end."""
        child = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, cwd=self.home, env=self.environment,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            yield child
        finally:
            if child.returncode is None:
                child.kill()
            await child.communicate()

    @asynccontextmanager
    async def server(self, *arguments: str) -> AsyncIterator[Server]:
        """`holdfast serve` with the program."""
        serve = ("-m", "holdfast", "serve", AGENT, "--deps", DEPS, "--listen", "0", *arguments)
        async with self.process(*serve) as child:
            line = await first_line_with("Holdfast is at", child)
            yield Server(child, line.split()[-1])

    @asynccontextmanager
    async def application(self, database: str) -> AsyncIterator[Server]:
        """The FastAPI application with the program."""
        self.environment["DATABASE"] = database
        uvicorn = ("-m", "uvicorn", "tests.whole.refunds_app:app", "--port", "0")
        async with self.process(*uvicorn) as child:
            line = await first_line_with("Uvicorn running on", child)
            url = next(word for word in line.split() if word.startswith("http://"))
            yield Server(child, f"{url}/agents#token=ann")


@dataclass
class Server:
    process: asyncio.subprocess.Process
    url: str
    """Address with a token."""

    @property
    def port(self) -> int | None:
        return urlsplit(self.url).port


async def first_line_with(words: str, child: asyncio.subprocess.Process) -> str:
    """The first line with these words that a process writes to its standard error."""
    assert child.stderr is not None
    lines = []
    async for line in child.stderr:
        lines.append(line.decode())
        if words in lines[-1]:
            return lines[-1]
    raise AssertionError(f"it ended: {''.join(lines)}")


def _without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without keys and settings of this machine."""
    hidden = ("_API_KEY", "_BASE_URL", "HOLDFAST_")
    return {k: v for k, v in environment.items() if not any(part in k for part in hidden)}


class RefundModel:
    """The answers of the model: a call of `refund`, then the decision."""

    def __init__(self) -> None:
        self.decides = True
        """Whether it answers after the refund; otherwise it hangs."""
        self.half_is_read = anyio.Event()
        """Set when readers have the first half of an answer, which has no end before."""
        self.half_is_read.set()

    def __call__(self, request: ReceivedRequest) -> ScriptItem:
        kinds = [item.get("type") for item in request.json["input"]]
        if "function_call_output" not in kinds:
            return call("refund", order=7, amount=12)
        if not self.decides:
            return hang()
        return [HALF, self.half_is_read, ', "refunded": 12}']


@asynccontextmanager
async def surroundings(home: Path) -> AsyncIterator[tuple[Surroundings, RefundModel]]:
    model = RefundModel()
    provider = FakeProvider("openai_responses", default=model)
    async with provider.serve() as url:
        yield Surroundings(home, url, provider), model
    assert provider.problems == []


async def approve_refund(chat: ChatHandle) -> None:
    """Wait for the refund of a new chat, and approve it."""
    waiting = await chat.rest()
    assert waiting.reason == "requires_action", waiting
    await chat.resolve({action.call.id: approve(action) for action in await chat.actions()})


# --- the five ways ------------------------------------------------------------------------------


def test_it_runs_as_a_script(tmp_path: Path) -> None:
    async def test() -> None:
        async with surroundings(tmp_path) as (place, _), place.process(str(PROGRAM)) as script:
            output, errors = await script.communicate()
            assert (output.decode(), script.returncode) == (DECIDED, 0), errors.decode()
            assert place.refunds == ONE_REFUND

    run(test())


def test_it_runs_in_a_durable_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with surroundings(tmp_path) as (place, _):
            for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "LEDGER"):
                monkeypatch.setenv(name, place.environment[name])
            url = f"sqlite:///{tmp_path}/chats.db"
            async with holdfast.open(url, [agent], deps=shop) as host:
                chat = await host.create(PROMPT, owner="ann")
                await approve_refund(chat)
                assert (await chat.rest()).output_as(Decision) == Decision(7, 12)
            assert place.refunds == ONE_REFUND

    run(test())


def test_it_runs_behind_a_server(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            surroundings(tmp_path) as (place, _),
            place.server() as server,
            connect(server.url) as host,
        ):
            chat = await host.create(PROMPT)
            await approve_refund(chat)
            assert (await chat.rest()).output_as(Decision) == Decision(7, 12)
            assert place.refunds.endswith("12 for order 7\n")
            assert place.refunds.count("\n") == 1

    run(test())


def test_it_runs_on_two_replicas_of_which_one_is_killed(tmp_path: Path, postgres_url: str) -> None:
    async def test() -> None:
        async with surroundings(tmp_path) as (place, model):
            settings = tmp_path / "cluster.toml"
            settings.write_text(SHORT_LEASE)
            options = ("--database", postgres_url, "--config", str(settings))
            async with (
                place.server(*options) as first,
                place.server(*options) as second,
                connect(first.url) as at_first,
                connect(second.url) as at_second,
            ):
                model.decides = False
                chat = await at_first.create(PROMPT)
                await approve_refund(chat)
                await until(lambda: len(place.provider.requests) == 2)
                owner = await port_of_owner(postgres_url, chat.id)
                killed, other = (first, at_second) if owner == first.port else (second, at_first)
                killed.process.kill()
                model.decides = True
                decided = await (await other.chat(chat.id)).rest()
            assert decided.output_as(Decision) == Decision(7, 12)
            assert place.refunds.count("\n") == 1

    run(test())


async def port_of_owner(database: str, chat: str) -> int:
    """The port of the replica that drives a chat."""
    async with open_postgres(database) as db:
        row = await db.read(
            lambda tx: tx.one(
                "SELECT w.url FROM chats c JOIN workers w ON w.id = c.worker_id WHERE c.id = :id",
                {"id": chat},
            )
        )
    assert row is not None, "no replica drives the chat"
    port = urlsplit(row[0]).port
    assert port is not None
    return port


def test_it_runs_in_two_processes_of_a_fastapi_application(
    tmp_path: Path, postgres_url: str
) -> None:
    async def test() -> None:
        async with (
            surroundings(tmp_path) as (place, model),
            place.application(postgres_url) as first,
            place.application(postgres_url) as second,
            connect(first.url) as at_first,
            connect(second.url) as at_second,
        ):
            model.half_is_read = anyio.Event()
            chat = await at_first.create(PROMPT)
            elsewhere = await at_second.chat(chat.id)
            await approve_refund(elsewhere)
            await asyncio.gather(read_half(chat), read_half(elsewhere))
            model.half_is_read.set()
            assert (await chat.rest()).output_as(Decision) == Decision(7, 12)
            assert place.refunds == ONE_REFUND

    run(test())


async def read_half(chat: ChatHandle) -> None:
    """Read the stream of a chat until it has the first half of the decision."""
    text = ""
    async with chat.stream() as events:
        async for event in events:
            if isinstance(event, LiveDelta) and isinstance(event.fragment, TextDelta):
                text += event.fragment.text
            if text == HALF:
                return
    raise AssertionError(f"the stream ended with {text!r}")
