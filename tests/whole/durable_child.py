"""A process that drives chats and is killed: the child of `test_durable.py`.

It reads orders from standard input (`create KEY PROMPT`, `send CHAT KEY PROMPT`, `rest COUNT`) and
says what was acknowledged. A tool with an effect makes it, in a file outside, says that it has
begun, and then that it is done; where `hold` stands in the prompt it waits for ever in between.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from holdfast.agent import Agent
from holdfast.chat.idempotency import Key, once
from holdfast.chat.queries import list_chats
from holdfast.chat.rows import ChatRow, Queued
from holdfast.chat.transitions.lifecycle import NewChat, create
from holdfast.chat.transitions.user import Sent, send
from holdfast.kernel.messages import Usage, user_message
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
from holdfast.kernel.tool import ToolContext, tool
from holdfast.live.broadcast import Live
from holdfast.store.database import Database
from holdfast.store.url import open_database
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker

QUICK = WorkerOptions(heartbeat=0.3, lease=1.5, poll=0.3, grace=0.5)


class Stepper:
    """Calls the tool as often as the prompt says (`3`, or `3 hold`), then says how it went."""

    name = "test:stepper"
    window = None

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        prompt, results = "0", 0
        for message in request.messages:
            if message.kind == "prompt":
                prompt, results = message.text, 0
            results += len(message.results)
        count, _, how = prompt.partition(" ")
        await asyncio.sleep(0)
        if results < int(count):
            call_id = f"c{len(request.messages)}"
            yield CallStarted(call_id, "effect")
            hold = how == "hold" and results == int(count) - 1
            yield ArgumentsDelta(call_id, f'{{"hold": {"true" if hold else "false"}}}')
            yield CallEnded(call_id)
            yield Finished("tool_calls", Usage(input=1))
        else:
            yield TextDelta(f"Made {results}.")
            yield Finished("stop", Usage(input=1))


def say(*words: object) -> None:
    print(*words, flush=True)


def the_tool(effects: Path) -> object:
    @tool(effect="once")
    async def effect(context: ToolContext, hold: bool = False) -> str:
        line = f"{context.chat} {context.call_id}"
        with effects.open("a") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())
        say("begin", line)
        if hold:
            await asyncio.sleep(3_600)
        say("done", line)
        return "made"

    return effect


async def main(url: str, effects: Path) -> None:
    ports = Ports()
    agent = Agent(model=Stepper(), tools=[the_tool(effects)])  # type: ignore[list-item]
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with open_database(url, now=ports.now) as db:
        worker = Worker(db, Live(), {"agent": agent}, ports, QUICK)
        async with worker.running():
            say("ready")
            orders = asyncio.create_task(listen(db, ports))
            await stop.wait()
            orders.cancel()
        say("stopped")


async def at_rest(db: Database, count: int) -> None:
    """Return when this many chats are there, and none of them is busy."""
    while True:
        chats = await db.read(lambda tx: list_chats(tx, limit=1_000))
        if len(chats) == count and not any(chat.busy for chat in chats):
            return
        await asyncio.sleep(0.02)


async def listen(db: Database, ports: Ports) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := (await reader.readline()).decode().strip():
        order, *words = line.split(" ", 3 if line.startswith("send") else 2)
        if order == "create":
            key, prompt = words
            new = NewChat(id=ports.new_id(), agent="agent", message=user_message(prompt))
            chat = await once(db, Key("test", key, prompt), ChatRow, partial(create, new_chat=new))
            say("ack", key, chat.id)
        elif order == "rest":
            await at_rest(db, int(words[0]))
            say("resting")
        else:
            chat_id, key, prompt = words
            queued = Queued(ports.new_id(), "queue", user_message(prompt), 0)
            change = partial(send, chat_id=chat_id, message=queued)
            await once(db, Key("test", key, prompt), Sent, change)
            say("ack", key, chat_id)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
