"""Measures a streamed answer, from the socket through the loop to the reader of the events."""

from __future__ import annotations

from bench.measure import API, measure_chunks
from holdfast import Agent
from holdfast.events import TextDelta
from holdfast.models import Model
from holdfast.providers.anthropic import Anthropic
from holdfast.providers.openai_chat import OpenAIChat


def model(base_url: str, api: API) -> Model:
    if api == "anthropic":
        return Anthropic("claude-sonnet-4-5", api_key="x", base_url=base_url)
    return OpenAIChat("gpt-4.1", api_key="x", base_url=f"{base_url}/v1")


async def stream(base_url: str, api: API) -> list[str]:
    out: list[str] = []
    async for event in Agent(model=model(base_url, api)).run("go"):
        if isinstance(event, TextDelta):
            out.append(event.text)
    return out


if __name__ == "__main__":
    measure_chunks("holdfast", stream)
