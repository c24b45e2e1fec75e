"""What the tests of the tools that read and change files share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from holdfast.kernel.hook_context import ChatInfo, Context
from holdfast.kernel.messages import Message, Text, ToolResult, results_message
from holdfast.kernel.tool import CompletedAwaitable, Tool, ToolContext
from holdfast.kernel.turn import Turn


def context(history: Sequence[Message] = ()) -> ToolContext:
    about = Context(ChatInfo(agent="agent"), Turn(), lambda: history)
    return ToolContext("call_1", lambda _: CompletedAwaitable(), about)


async def run(tool: Tool, history: Sequence[Message] = (), /, **values: Any) -> ToolResult:
    """Call the function of a tool, as if the history was what is committed."""
    assert tool.function is not None
    checked = tool.arguments.check(values)
    made = await tool.function(context(history), **checked)
    assert isinstance(made, ToolResult)
    return made


async def preview(tool: Tool, history: Sequence[Message] = (), /, **values: Any) -> str:
    """What people are shown before the tool is run."""
    assert tool.preview is not None
    shown: Any = tool.ask(tool.preview, context(history), values)
    return str(await shown)


def committed(*results: ToolResult) -> list[Message]:
    """A history with these results, one after another."""
    return [results_message([result]) for result in results]


def text_of(result: ToolResult) -> str:
    (part,) = result.content
    assert isinstance(part, Text)
    return part.text


def patched(old: str, diff: str) -> str:
    """What a unified diff makes of a text. Every line of it has to fit."""
    lines = re.findall("[^\n]*\n|[^\n]+", old)
    made: list[str] = []
    at = 0
    said = diff.split("\n")[2:]
    for line, following in zip(said, [*said[1:], ""], strict=False):
        mark, text = line[:1], line[1:] + ("" if following.startswith("\\") else "\n")
        if mark == "@":
            start, _, count = line.split(" ")[1][1:].partition(",")
            here = int(start) - (count != "0")
            made += lines[at:here]
            at = here
        elif mark in (" ", "-"):
            assert lines[at] == text, f"does not fit at line {at + 1}"
            at += 1
        if mark in (" ", "+"):
            made.append(text)
    return "".join([*made, *lines[at:]])
