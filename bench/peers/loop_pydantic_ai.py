"""The loop of pydantic-ai: FunctionModel(stream_function), Agent.run_stream_events."""

import os

from pydantic_ai import Agent
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.usage import UsageLimits

from bench.measure import Steps, measure_steps

S = Steps()
MODE = os.environ.get("MODE", "events")


async def stream(messages, info):
    if S.asked < S.wanted:
        S.asked += 1
        yield {0: DeltaToolCall(name="tick", json_args="", tool_call_id=f"c{S.asked}")}
        yield {0: DeltaToolCall(json_args='{"x": 1}')}
    else:
        yield "done"


agent = Agent(FunctionModel(stream_function=stream))


@agent.tool_plain
async def tick(x: int) -> str:
    S.ran += 1
    return "ok"


LIMITS = UsageLimits(request_limit=None)


async def run(n):
    S.begin(n)
    if MODE == "events":
        async with agent.run_stream_events("go", usage_limits=LIMITS) as events:
            async for ev in events:
                pass
        result = ev.result
    else:
        async with agent.iter("go", usage_limits=LIMITS) as r:
            async for node in r:
                if Agent.is_model_request_node(node) or Agent.is_call_tools_node(node):
                    async with node.stream(r.ctx) as s:
                        async for _ in s:
                            pass
        result = r.result
    assert result.output == "done" and len(result.all_messages()) == 2 * n + 2
    return S.ran


measure_steps("pydantic_ai", run)
