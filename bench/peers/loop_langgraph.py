"""The loop of langchain.create_agent (langgraph): fake BaseChatModel with _astream, graph.astream(["messages","updates"])."""

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool

from bench.measure import Steps, measure_steps

S = Steps()


class Fake(BaseChatModel):
    @property
    def _llm_type(self):
        return "fake"

    def bind_tools(self, tools, **k):
        return self

    def _generate(self, *a, **k):
        raise NotImplementedError

    async def _astream(self, messages, stop=None, run_manager=None, **k):
        def chunk(name, args, id, last=False):
            return ChatGenerationChunk(
                message=AIMessageChunk(
                    content="",
                    chunk_position="last" if last else None,
                    tool_call_chunks=[
                        {
                            "name": name,
                            "args": args,
                            "id": id,
                            "index": 0,
                            "type": "tool_call_chunk",
                        }
                    ],
                )
            )

        if S.asked < S.wanted:
            S.asked += 1
            chunks = [chunk("tick", "", f"c{S.asked}"), chunk(None, '{"x": 1}', None, True)]
        else:
            chunks = [
                ChatGenerationChunk(message=AIMessageChunk(content="done", chunk_position="last"))
            ]
        for c in chunks:
            if run_manager:
                await run_manager.on_llm_new_token(c.message.content, chunk=c)
            yield c


@tool
async def tick(x: int) -> str:
    """tick"""
    S.ran += 1
    return "ok"


agent = create_agent(Fake(), [tick])


async def run(n):
    S.begin(n)
    count = 0
    async for mode, ev in agent.astream(
        {"messages": [("user", "go")]},
        {"recursion_limit": 4 * n + 10},
        stream_mode=["messages", "updates"],
    ):
        count += mode == "updates"
        last = ev
    assert count == 2 * n + 1, count
    return S.ran


measure_steps("langgraph", run)
