"""Three replicas as processes: what readers see when one is killed, or all are restarted."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from holdfast.chat.stream import ChatChanged
from holdfast.server.event_codec import StreamEnd, event_of
from holdfast.server.wire_format import API_PREFIX
from holdfast.store.postgres.database import open_postgres
from tests.server.api import USER, session
from tests.server.relay.child import ANSWER, HALF
from tests.server.relay.cluster import run, until
from tests.server.streams.client import Connection, Watching

ROOT: Final = Path(__file__).resolve().parents[3]
ANN: Final = {USER: "ann"}
SAID: Final = "".join(f"word {number} " for number in range(HALF))
"""Of the answer, while the gate is closed."""


@dataclass
class Child:
    process: asyncio.subprocess.Process
    url: str
    worker: str

    async def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        await self.process.wait()


@asynccontextmanager
async def child(database: str, *gate: Path) -> AsyncIterator[Child]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.server.relay.child", database, *map(str, gate),
        cwd=ROOT, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url, worker = (await process.stdout.readline()).decode().split()
        yield Child(process, url, worker)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class Reader(Watching):
    """Reads a chat at whichever replica answers, until it is idle after so many answers."""

    def was_told(self, text: str, owner: int) -> bool:
        """Whether this is what it has of the answer, by this owner of the chat, from 1."""
        return self.chat is not None and self.chat.epoch == owner and self.text == text

    async def read(self, places: Sequence[str], chat: str, answers: int = 1) -> None:
        async with session() as client:
            while not (self.done and len(self.messages) > answers):
                for place in list(places):
                    try:
                        await self._read_at(client, place, chat, answers)
                    except (aiohttp.ClientError, ConnectionError):
                        await asyncio.sleep(0.02)

    async def _read_at(
        self, client: aiohttp.ClientSession, place: str, chat: str, answers: int
    ) -> None:
        headers = ANN if self.last is None else {**ANN, "Last-Event-ID": self.last}
        url = f"{place}{API_PREFIX}/chats/{chat}/stream"
        async with client.get(url, headers=headers) as response:
            self.connections += 1
            async for wire in Connection(response).events():
                event = event_of(wire)
                if event is None or isinstance(event, StreamEnd):
                    return
                self.see(event)
                if self.done and len(self.messages) > answers:
                    return


async def create(client: aiohttp.ClientSession, place: str, prompt: str = "go") -> str:
    url = f"{place}{API_PREFIX}/chats"
    async with client.post(url, headers=ANN, json={"prompt": prompt}) as response:
        made: dict[str, Any] = await response.json()
        assert response.status == 201, made
        return str(made["id"])


def test_when_the_owner_is_killed_readers_elsewhere_keep_their_connection(
    postgres_url: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"

    async def test() -> None:
        async with (
            child(postgres_url, gate) as a,
            child(postgres_url, gate) as b,
            child(postgres_url, gate) as c,
            open_postgres(postgres_url) as db,
            session() as client,
        ):
            chat = await create(client, a.url)

            async def owner() -> str | None:
                row = await db.read(
                    lambda tx: tx.one("SELECT worker_id FROM chats WHERE id = :id", {"id": chat})
                )
                return None if row is None else row[0]

            while (driving := await owner()) is None:  # noqa: ASYNC110 - another process does it
                await asyncio.sleep(0.01)
            others = [one for one in (a, b, c) if one.worker != driving]
            (killed,) = [one for one in (a, b, c) if one.worker == driving]
            readers = [Reader() for _ in range(4)]
            async with asyncio.TaskGroup() as group:
                for number, reader in enumerate(readers):
                    group.create_task(reader.read([others[number % 2].url], chat))
                await until(lambda: all(reader.was_told(SAID, 1) for reader in readers))
                await killed.end(signal.SIGKILL)
                await until(lambda: all(reader.was_told(SAID, 2) for reader in readers))
                gate.touch()
            async with client.get(
                f"{others[0].url}{API_PREFIX}/chats/{chat}/messages", headers=ANN
            ) as response:
                page = await response.json()
            numbers = [one["number"] for one in page["messages"]]
            for reader in readers:
                assert reader.connections == 1, "it lost its connection"
                again, became = reader.finished[-1]
                assert became == ANSWER
                assert ANSWER.startswith(again)
                assert again.startswith(SAID), "it saw nothing of what the next owner says"
                assert reader.numbers == numbers
                assert isinstance(reader.events[0], ChatChanged)
            assert page["messages"][-1]["message"]["parts"][0]["text"] == ANSWER

    run(test())


def test_no_turn_fails_while_three_replicas_are_restarted_one_after_the_other(
    postgres_url: str,
) -> None:
    async def test() -> None:
        async with AsyncExitStack() as stack, session() as client:
            alive = [await stack.enter_async_context(child(postgres_url)) for _ in range(3)]
            places = [one.url for one in alive]
            chats = [await create(client, places[number % 3]) for number in range(12)]
            readers = [Reader() for _ in chats]
            async with asyncio.TaskGroup() as group:
                for reader, chat in zip(readers, chats, strict=True):
                    group.create_task(reader.read(places, chat))
                await until(lambda: all(reader.chat is not None for reader in readers))
                for number in range(3):
                    await alive[number].end(signal.SIGTERM)
                    assert alive[number].process.returncode == 0
                    new = await stack.enter_async_context(child(postgres_url))
                    places[number] = new.url
                    chats.append(await create(client, new.url, f"more {number}"))
                    readers.append(Reader())
                    group.create_task(readers[-1].read(places, chats[-1]))
            for reader in readers:
                assert reader.chat is not None
                assert reader.chat.status == "idle", reader.chat.error
                answers = [text for _, text in reader.finished] or [
                    stored.message.text for stored in reader.messages.values()
                ]
                assert answers[-1] == ANSWER
            assert sum("word 5" in shown for reader in readers for shown, _ in reader.finished) > 5

    run(test())
