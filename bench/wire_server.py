"""A fake model server that uses little CPU time: whole answers, encoded in advance.

Prints its port. Sends one HTTP chunk per event, as the providers do.

POST …/chat/completions     OpenAI's chunks        POST …/messages   Anthropic's events
POST /hold/1000/…           a short answer, whose second half waits until 1,000 have started
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from typing import Any, Final

CHUNKS: Final = int(os.environ.get("BENCH_CHUNKS", "4000"))
HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)


def openai(chunks: int) -> Iterator[str]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return "data: " + json.dumps({**same, "choices": [choice], "usage": None}) + "\n\n"

    same = {
        "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
        "object": "chat.completion.chunk",
        "created": 1741569952,
        "model": "gpt-4.1-2025-04-14",
        "service_tier": "default",
        "system_fingerprint": "fp_44709d6fcb",
    }
    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for number in range(chunks):
        yield chunk({"content": f" t{number:04}"})
    yield chunk({}, "stop")
    usage = {"prompt_tokens": 10, "completion_tokens": chunks, "total_tokens": chunks + 10}
    yield "data: " + json.dumps({**same, "choices": [], "usage": usage}) + "\n\n"
    yield "data: [DONE]\n\n"


def anthropic(chunks: int) -> Iterator[str]:
    def event(kind: str, **data: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"

    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "claude-sonnet-4-5",
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    yield event("message_start", message=message)
    yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for number in range(chunks):
        delta = {"type": "text_delta", "text": f" t{number:04}"}
        yield event("content_block_delta", index=0, delta=delta)
    yield event("content_block_stop", index=0)
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    yield event("message_delta", delta=stop, usage={"output_tokens": chunks})
    yield event("message_stop")


def body(events: Iterator[str]) -> list[bytes]:
    """The body in pieces of 32 events, sent as fast as the reader takes them."""
    frames = [b"%x\r\n%b\r\n" % (len(data), data) for data in map(str.encode, events)]
    frames.append(b"0\r\n\r\n")
    return [b"".join(frames[at : at + 32]) for at in range(0, len(frames), 32)]


LONG: Final = {True: body(anthropic(CHUNKS)), False: body(openai(CHUNKS))}
SHORT: Final = {True: body(anthropic(40)), False: body(openai(40))}


class Gate:
    """A barrier that opens when enough tasks wait at it."""

    def __init__(self) -> None:
        self.waiting = 0
        self.open = asyncio.Event()

    async def wait(self, enough: int) -> None:
        self.waiting += 1
        if self.waiting >= enough:
            self.open.set()
            self.waiting, self.open = 0, asyncio.Event()
        else:
            await self.open.wait()


GATE: Final = Gate()


async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            lengths = [line for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
            await reader.readexactly(int(lengths[0].split(b":")[1]))
            path = head.split(b" ", 2)[1]
            held = int(path.split(b"/")[2]) if path.startswith(b"/hold/") else 0
            first, *rest = (SHORT if held else LONG)[b"/messages" in path]
            writer.write(HEAD + first)
            if held:
                await GATE.wait(held)
            for piece in rest:
                writer.write(piece)
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
