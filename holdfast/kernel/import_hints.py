"""Names that other libraries have: the error of an import says what to use."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Final

FOREIGN_NAMES: Final[Mapping[str, str]] = {
    "Runner": "`await agent.run(…)`, or agent.run_sync(…)",
    **dict.fromkeys(("function_tool", "FunctionTool", "StructuredTool", "BaseTool"), "@tool"),
    **dict.fromkeys(("RunContext", "RunContextWrapper", "ToolRuntime"), "ToolContext"),
    "ModelRetry": "Rejected of holdfast.errors in a check, and ToolFailed in a tool",
    "ModelSettings": "Settings of holdfast.models",
    "FallbackModel": "Fallback of holdfast.models",
    **dict.fromkeys(("TestModel", "FunctionModel"), "ScriptedModel of holdfast.testing"),
    **dict.fromkeys(
        ("AgentRunResult", "RunResultStreaming", "StreamedRunResult"), "RunResult, or Run"
    ),
    **dict.fromkeys(
        ("DeferredToolRequests", "DeferredToolResults", "ToolApproved"),
        "result.actions, and agent.run(history=…, resolve={call id: approve(action)})",
    ),
    "ToolDenied": "Deny of holdfast.hooks",
    "ApprovalRequired": "@tool(approval=…), with 'ask' or a function of the arguments",
    "CallDeferred": "Tool(…) without a function, which a client runs",
    "ToolReturn": "ToolResult of holdfast.messages, or a list of Text and File as the result",
    **dict.fromkeys(
        ("ToolOutput", "NativeOutput", "TextOutput", "PromptedOutput", "StructuredDict"),
        "Agent(output=…), which takes the type itself",
    ),
    "UsageLimits": "Limits",
    "UsageLimitExceeded": "LimitExceeded of holdfast.errors",
    **dict.fromkeys(("RunUsage", "RequestUsage"), "Usage of holdfast.messages"),
    **dict.fromkeys(
        ("ModelMessage", "ModelRequest", "ModelResponse"), "Message of holdfast.messages"
    ),
    "ModelMessagesTypeAdapter": "dump and load of holdfast.messages",
    **dict.fromkeys(("UnexpectedModelBehavior", "AgentRunError"), "RunFailed of holdfast.errors"),
    "UserError": "ConfigError of holdfast.errors",
    "ModelHTTPError": "RunFailed of holdfast.errors, with error.failure.status",
    "capture_run_messages": "error.result.history of the RunFailed that a run raises",
    "format_as_xml": "json.dumps(…), or an XML library",
    **dict.fromkeys(("BinaryContent", "ImageUrl", "DocumentUrl"), "File of holdfast.messages"),
    **dict.fromkeys(("create_agent", "create_react_agent"), "Agent"),
    "init_chat_model": "model",
    **dict.fromkeys(("WebSearchTool", "CodeExecutionTool"), "ProviderTool of holdfast.models"),
    **dict.fromkeys(("SQLiteSession", "Session", "InMemorySaver"), "open, for durable chats"),
}
"""Names that other libraries have: what to use."""


def missing_name(module: str, name: str, remedy: str) -> Exception:
    """The error for a name that a module does not have, made by its `__getattr__`."""
    missing = f"module {module!r} has no attribute {name!r}{remedy and ': '}{remedy}"
    if remedy and _is_import():
        # Of an AttributeError, `from holdfast import …` would not show the message.
        return ImportError(missing, name=module)
    return AttributeError(missing, name=name)


def _is_import() -> bool:
    frame: FrameType | None = sys._getframe(1)
    for _ in range(4):
        if frame is None or frame.f_code.co_name == "_handle_fromlist":
            break
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == "_handle_fromlist"
