"""The work that is measured: chats in which every step is one tool call and its result.

A step is two commits, one of the answer with the call and one of the result. The model and the tool
answer at once, so only the cost of durability remains.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from holdfast import Limits
from holdfast.agent import Agent
from holdfast.chat.rows import ChatRow
from holdfast.chat.transitions import lifecycle
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.kernel.messages import user_message
from holdfast.kernel.model import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    Request,
    TextDelta,
)
from holdfast.kernel.ports import Ports
from holdfast.kernel.tool import tool
from holdfast.live.broadcast import Live
from holdfast.store.database import Database
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker

DEFAULT: Final = WorkerOptions()


def opened(target: str, ports: Ports) -> AbstractAsyncContextManager[Database]:
    """Open PostgreSQL by its URL, or a SQLite file by its path."""
    if target.startswith("postgresql:"):
        from holdfast.store.postgres.database import open_postgres

        return open_postgres(target)
    from holdfast.store.sqlite.database import open_sqlite

    return open_sqlite(target, now=ports.now)


class Scripted:
    """A model that requests one call per step, until the chat has the wanted number of steps."""

    name = "bench:model"
    window = None

    def __init__(self, steps: int = 0) -> None:
        self.steps = steps

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        length = len(request.messages)
        if length < 2 * self.steps + 1:
            call_id = f"c{length}"
            yield CallStarted(call_id, "tick")
            yield ArgumentsDelta(call_id, '{"x": 1}')
            yield CallEnded(call_id)
            yield Finished("tool_calls")
        else:
            yield TextDelta("done")
            yield Finished()


class Bench:
    """A worker on a database, and the chats that it drives."""

    def __init__(
        self,
        db: Database,
        ports: Ports,
        options: WorkerOptions = DEFAULT,
        *,
        pause: float | None = None,
    ) -> None:
        """`pause`: seconds that each call of the tool takes."""
        self.model = Scripted()
        self.times: list[float] = []
        """Times of the tool calls."""
        self.spent: list[float] = []
        """CPU time of this process at each call."""
        self._ports = ports
        self._pause = pause
        self._db = db
        self._busy = 0
        self._failed: ChatRow | None = None
        self._all_idle = asyncio.Event()
        agents = {"agent": self._agent()}
        self.worker = Worker(db, Live(), agents, ports, options, on_idle=self._rested)

    def _agent(self) -> Agent:
        @tool(effect="pure")
        async def tick(x: int) -> str:
            """Tick."""
            if self._pause is not None:
                await asyncio.sleep(self._pause)
            self.times.append(time.perf_counter())
            self.spent.append(time.process_time())
            return "ok"

        return Agent(model=self.model, tools=[tick], limits=Limits(), ports=self._ports)

    async def _rested(self, chat: ChatRow) -> None:
        self._busy -= 1
        if chat.outcome is None or chat.outcome.reason != "stop":
            self._failed = chat
        if not self._busy or self._failed is not None:
            self._all_idle.set()

    async def create(self) -> str:
        new = NewChat(id=self._ports.new_id(), agent="agent", message=user_message("go"))
        chat = await self._db.write(lambda tx: lifecycle.create(tx, new), short=True)
        return chat.id

    async def drive(self, chats: int, steps: int) -> None:
        """Create chats, and wait until all have made their steps and are idle."""
        self.expect(chats, steps)
        await asyncio.gather(*(self.create() for _ in range(chats)))
        await self.rest()
        assert len(self.times) == chats * steps, f"{len(self.times)} calls of {chats * steps}"

    def expect(self, chats: int, steps: int) -> None:
        """Set how many chats will run, and after how many steps each ends."""
        self.model.steps, self._busy = steps, chats
        self.times.clear()
        self.spent.clear()
        self._all_idle.clear()

    async def rest(self) -> None:
        await self._all_idle.wait()
        assert self._failed is None, self._failed


def sizes() -> list[tuple[int, int]]:
    """Numbers of parallel chats, and of steps of each, as in `1x200,50x40`."""
    pairs = os.environ.get("BENCH_SIZES", "1x200,50x40").split(",")
    return [(int(chats), int(steps)) for chats, steps in (each.split("x") for each in pairs)]


def show(**row: Any) -> None:
    print(json.dumps(row), flush=True)


class Taken:
    """Measures wall time and CPU time of this process from now on."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def per(self, count: int) -> dict[str, float]:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"per_second": count / wall, "cpu": cpu / count * 1e6}
