"""Sizes in bytes of what is sent to models and of what tools return."""

from __future__ import annotations

from holdfast.kernel.messages import File, Part, Reasoning, Source, Text, ToolCall, ToolResult
from holdfast.kernel.model import Request


def prompt_bytes(request: Request) -> int:
    """Bytes of the instructions and of all messages, without the schemas of tools."""
    total = 0
    for block in request.system:
        total += _bytes(block.text)
    for message in request.messages:
        for part in message.parts:
            total += _part(part)
    return total


def result_bytes(result: ToolResult) -> int:
    """Bytes of the content of a tool result."""
    total = 0
    for content in result.content:
        total += _part(content)
    return total


def _part(part: Part) -> int:
    if type(part) is ToolResult:
        return result_bytes(part)
    if type(part) is Text or type(part) is Reasoning:
        text = part.text
    elif type(part) is ToolCall:
        text = part.arguments
    elif type(part) is Source:
        text = part.url
    else:
        assert type(part) is File
        return len(part.data or b"")
    return len(text) if text.isascii() else _bytes(text)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
