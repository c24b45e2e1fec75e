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
from holdfast.providers.message_formats.anthropic import (
    from_anthropic as from_anthropic,
    to_anthropic as to_anthropic,
)
from holdfast.providers.message_formats.openai import (
    from_openai as from_openai,
    to_openai as to_openai,
)
