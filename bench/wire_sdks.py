"""Measures the same streamed answers, read with the providers' own SDKs."""

from __future__ import annotations

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from bench.measure import API, measure_chunks


async def stream(base_url: str, api: API) -> list[str]:
    return await (anthropic if api == "anthropic" else openai)(base_url)


async def openai(base_url: str) -> list[str]:
    async with AsyncOpenAI(base_url=f"{base_url}/v1", api_key="x") as client:
        chunks = await client.chat.completions.create(
            model="gpt-4.1", messages=[{"role": "user", "content": "go"}], stream=True
        )
        deltas = [chunk.choices[0].delta.content async for chunk in chunks if chunk.choices]
    return [text for text in deltas if text]


async def anthropic(base_url: str) -> list[str]:
    async with AsyncAnthropic(base_url=base_url, api_key="x") as client:
        events = await client.messages.create(
            model="claude-opus-5-5",
            max_tokens=100,
            messages=[{"role": "user", "content": "go"}],
            stream=True,
        )
        texts = []
        async for event in events:
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                texts.append(event.delta.text)
    return texts


if __name__ == "__main__":
    measure_chunks("sdk", stream)
