"""The floor of a streamed answer: aiohttp and msgspec, splitting lines and decoding."""

from __future__ import annotations

from typing import Any, Final

import aiohttp
import msgspec

from bench.measure import API, measure_chunks


class Delta(msgspec.Struct):
    content: str | None = None
    tool_calls: list[Any] | None = None
    text: str | None = None


class Choice(msgspec.Struct):
    delta: Delta
    finish_reason: str | None = None


class Chunk(msgspec.Struct):
    choices: list[Choice] = []
    usage: dict[str, Any] | None = None


class Event(msgspec.Struct):
    type: str
    delta: Delta | None = None


CHUNKS: Final = msgspec.json.Decoder(Chunk)
EVENTS: Final = msgspec.json.Decoder(Event)
PATHS: Final = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}
BODY: Final = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "go"}]}


class Splitter:
    def __init__(self) -> None:
        self.rest = b""
        self.out: list[str] = []

    def feed(self, data: bytes, api: API) -> None:
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        for line in lines:
            if line[:6] != b"data: " or line == b"data: [DONE]":
                continue
            if api == "openai":
                chunk = CHUNKS.decode(line[6:])
                if chunk.choices and (text := chunk.choices[0].delta.content):
                    self.out.append(text)
            else:
                event = EVENTS.decode(line[6:])
                if event.delta is not None and (text := event.delta.text):
                    self.out.append(text)


async def stream(base_url: str, api: API) -> list[str]:
    splitter = Splitter()
    async with (
        aiohttp.ClientSession() as session,
        session.post(base_url + PATHS[api], json=BODY) as response,
    ):
        assert response.status == 200
        async for data in response.content.iter_any():
            splitter.feed(data, api)
    return splitter.out


if __name__ == "__main__":
    measure_chunks("floor", stream)
