"""The loop of agno: custom Model subclass (OpenAI-shaped tool-call dicts), Agent.arun(stream=True, stream_events=True), no db."""

from dataclasses import dataclass

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse

from bench.measure import Steps, measure_steps

S = Steps()


@dataclass
class Fake(Model):
    id: str = "fake"

    def invoke(self, *a, **k):
        raise NotImplementedError

    async def ainvoke(self, *a, **k):
        raise NotImplementedError

    def invoke_stream(self, *a, **k):
        raise NotImplementedError

    def _parse_provider_response(self, response, **k):
        return response

    def _parse_provider_response_delta(self, response):
        return response

    async def ainvoke_stream(self, *a, **k):
        if S.asked < S.wanted:
            S.asked += 1
            # agno's own provider classes merge the argument deltas before parse_tool_calls; one delta carries the call
            yield ModelResponse(
                role="assistant",
                tool_calls=[
                    {
                        "id": f"c{S.asked}",
                        "type": "function",
                        "function": {"name": "tick", "arguments": '{"x": 1}'},
                    }
                ],
            )
        else:
            yield ModelResponse(role="assistant", content="done")


async def tick(x: int) -> str:
    """tick"""
    S.ran += 1
    return "ok"


agent = Agent(model=Fake(), tools=[tick], telemetry=False)


async def run(n):
    S.begin(n)
    events = 0
    async for ev in agent.arun("go", stream=True, stream_events=True):
        events += 1
    assert events > n and ev.event == "RunCompleted" and ev.content == "done", ev
    return S.ran


measure_steps("agno", run)
