"""The floor of the loop: the same work by hand, without anything that makes it safe."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from bench.measure import Steps, measure_steps

STEPS = Steps()


async def tick(x: int) -> str:
    STEPS.ran += 1
    return "ok"


TOOLS = {"tick": tick}


async def model(messages: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    if STEPS.asked < STEPS.wanted:
        STEPS.asked += 1
        yield {"call": {"id": f"c{STEPS.asked}", "name": "tick", "arguments": ""}}
        yield {"call": {"id": None, "name": None, "arguments": '{"x": 1}'}}
    else:
        yield {"text": "done"}


async def agent(prompt: str) -> AsyncIterator[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    while True:
        text: list[str] = []
        call: dict[str, Any] | None = None
        async for delta in model(messages):
            yield delta
            if "text" in delta:
                text.append(delta["text"])
            elif call is None:
                call = dict(delta["call"])
            else:
                call["arguments"] += delta["call"]["arguments"]
        messages.append(
            {"role": "assistant", "content": "".join(text), "calls": [call] if call else []}
        )
        if call is None:
            yield {"result": messages}
            return
        output = await TOOLS[call["name"]](**json.loads(call["arguments"]))
        messages.append({"role": "tool", "call_id": call["id"], "content": output})
        yield {"tool_result": output}


async def run(size: int) -> int:
    STEPS.begin(size)
    event: dict[str, Any] = {}
    async for event in agent("go"):  # noqa: B007  (the last one is checked)
        pass
    assert len(event["result"]) == 2 * size + 2
    return STEPS.ran


if __name__ == "__main__":
    measure_steps("floor", run)
