"""The loop of openai-agents: custom Model subclass, Runner.run_streamed, tracing disabled (the favourable case)."""

from agents import Agent, Model, Runner, function_tool, set_tracing_disabled
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionToolCall,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
)

from bench.measure import Steps, measure_steps

set_tracing_disabled(True)
S = Steps()


def response(items):
    return Response(
        id="r",
        created_at=0.0,
        model="fake",
        object="response",
        output=items,
        parallel_tool_calls=False,
        tool_choice="auto",
        tools=[],
    )


class Fake(Model):
    async def get_response(self, *a, **k):
        raise NotImplementedError

    async def stream_response(self, *a, **k):
        if S.asked < S.wanted:
            S.asked += 1
            i = f"c{S.asked}"
            empty = ResponseFunctionToolCall(
                id="f" + i, call_id=i, name="tick", arguments="", type="function_call"
            )
            full = ResponseFunctionToolCall(
                id="f" + i, call_id=i, name="tick", arguments='{"x": 1}', type="function_call"
            )
            yield ResponseOutputItemAddedEvent(
                item=empty, output_index=0, sequence_number=0, type="response.output_item.added"
            )
            yield ResponseFunctionCallArgumentsDeltaEvent(
                delta='{"x": 1}',
                item_id="f" + i,
                output_index=0,
                sequence_number=1,
                type="response.function_call_arguments.delta",
            )
            yield ResponseOutputItemDoneEvent(
                item=full, output_index=0, sequence_number=2, type="response.output_item.done"
            )
            yield ResponseCompletedEvent(
                response=response([full]), sequence_number=3, type="response.completed"
            )
        else:
            msg = ResponseOutputMessage(
                id="m",
                role="assistant",
                status="completed",
                type="message",
                content=[ResponseOutputText(text="done", type="output_text", annotations=[])],
            )
            yield ResponseCompletedEvent(
                response=response([msg]), sequence_number=0, type="response.completed"
            )


@function_tool
async def tick(x: int) -> str:
    S.ran += 1
    return "ok"


agent = Agent(name="a", tools=[tick], model=Fake())


async def run(n):
    S.begin(n)
    r = Runner.run_streamed(agent, "go", max_turns=n + 2)
    async for ev in r.stream_events():
        pass
    assert r.final_output == "done"
    return S.ran


measure_steps("openai_agents", run)
