"""The history: messages and their parts, and its JSON form."""

from __future__ import annotations

from holdfast.kernel.messages import (
    File as File,
    Message as Message,
    Reasoning as Reasoning,
    Source as Source,
    Text as Text,
    ToolCall as ToolCall,
    ToolResult as ToolResult,
    Usage as Usage,
    dump as dump,
    load as load,
)
