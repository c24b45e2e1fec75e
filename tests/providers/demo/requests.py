"""How the tests ask the demo model: tools, requests, and what came of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.kernel.assemble import Assembly
from holdfast.kernel.messages import File, Message, Text, user_message
from holdfast.kernel.model import Delta, Request, ToolSpec
from holdfast.kernel.tool import Tool, tool
from holdfast.providers.demo import Demo
from holdfast.testing import ports


@tool(effect="pure")
async def list_files(path: str = ".") -> str:
    """List a directory."""
    return f"{path}/a.txt\n{path}/b.txt"


@tool(effect="pure")
async def read_file(path: str, offset: int = 1, limit: int = 100) -> str:
    """Read a file."""
    return "\n".join(f"line {number} of {path}" for number in range(offset, offset + limit))


@tool(effect="pure")
async def search_files(pattern: str, path: str = ".") -> str:
    """Search."""
    return f"{path}/a.txt:3: {pattern}"


@tool(approval="ask")
async def write_file(path: str, content: str) -> str:
    """Write a file."""
    return f"wrote {len(content)} characters to {path}"


@tool
async def execute(command: str) -> str:
    """Run a command."""
    if command == "false":
        raise RuntimeError("exit code 1")
    return f"$ {command}"


@tool(effect="pure")
async def weather(city: str, days: int = 1) -> str:
    """The weather."""
    return f"sun in {city} for {days} days"


ALL: Sequence[Tool] = (list_files, read_file, search_files, write_file, execute, weather)


def specs(*tools: Tool) -> tuple[ToolSpec, ...]:
    return tuple(one.spec for one in tools)


def ask(prompt: str | Sequence[Text | File], *tools: Tool, **more: Any) -> Request:
    """The first request of a conversation."""
    return Request(messages=(user_message(prompt),), tools=specs(*tools), **more)


async def deltas(request: Request, model: Demo | None = None) -> list[Delta]:
    return [delta async for delta in (model or Demo(pace=0)).stream(request)]


def message_of(heard: Sequence[Delta]) -> Message:
    assembly = Assembly("demo:demo", ports())
    for delta in heard:
        assembly.feed(delta)
    return assembly.message()


async def answer(request: Request, model: Demo | None = None) -> Message:
    return message_of(await deltas(request, model))


def called(message: Message) -> list[tuple[str, Mapping[str, Any]]]:
    return [(call.tool, json.loads(call.arguments)) for call in message.calls]
