"""Measures the time of a step in chats with few and with many messages."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Final

from bench.durable_work import Bench, opened, show
from holdfast.chat.locked_chat import lock
from holdfast.kernel.messages import Message, Text, ToolCall, ToolResult
from holdfast.kernel.ports import Ports
from holdfast.store.database import Database, Tx

LENGTHS: Final = (10, 1_000, 10_000)
STEPS: Final = 100


def steps_before(messages: int) -> list[Message]:
    """The messages after the prompt of a chat of this length."""
    history = []
    for number in range(1, messages - 1, 2):
        call = ToolCall(f"c{number}", "tick", '{"x": 1}')
        result = ToolResult(call.id, "tick", (Text("ok"),))
        history.append(
            Message("assistant", (call,), "answer", finish="tool_calls", model="bench:model")
        )
        history.append(Message("tool", (result,), "results"))
    return history


async def fill(db: Database, chat: str, messages: int) -> None:
    async def change(tx: Tx) -> None:
        locked = await lock(tx, chat)
        await locked.append(steps_before(messages))
        await locked.close()

    await db.write(change)


async def main() -> None:
    ports = Ports()
    async with opened(os.environ["BENCH_TARGET"], ports) as db:
        for messages in LENGTHS:
            bench = Bench(db, ports)
            chat = await bench.create()
            await fill(db, chat, messages)
            began = time.perf_counter()
            bench.expect(1, len(steps_before(messages)) // 2 + STEPS)
            async with bench.worker.running():
                await bench.rest()
            show(
                who="holdfast",
                messages=messages,
                step=per_step(bench.times) * 1e3,
                cpu=per_step(bench.spent) * 1e6,
                first=(bench.times[0] - began) * 1e3,
            )


def per_step(taken: Sequence[float]) -> float:
    """Time per step, without the first one, which includes reading the chat."""
    return (taken[-1] - taken[0]) / (len(taken) - 1)


if __name__ == "__main__":
    asyncio.run(main())
