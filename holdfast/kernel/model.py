"""The Model protocol: a request in, a stream of deltas out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, Protocol, TypeAlias, Union

from msgspec import Struct

from holdfast.kernel.messages import (
    File,
    Finish,
    Message,
    Metadata,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Block(Struct, frozen=True, gc=False):
    """A piece of the system prefix. `cache` marks the end of what should be cached."""

    text: str
    cache: bool = False


class ToolSpec(Struct, frozen=True, gc=False):
    """What a model is told about a tool."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """JSON schema of the arguments: an object."""


class Settings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a model is called. What is None is left to the provider."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    max_output_tokens: int | None = None
    options: Mapping[str, Mapping[str, Any]] = {}
    """What only one provider knows, as `{provider: options}`."""


class Request(Struct, frozen=True, kw_only=True, gc=False):
    """One call of a model. The messages are repaired: every call has its result right behind it."""

    system: tuple[Block, ...] = ()
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    settings: Settings = Settings()
    effort: Effort | None = None
    stay_with: str | None = None
    """The model that gave this turn's last answer: `Fallback` asks it first."""
    avoid: frozenset[str] = frozenset()
    """Names of models that already failed at this step: `Fallback` tries the others first."""


# --- What a stream is made of -------------------------------------------------------------------
# A frequent delta is shown to people as it is, so three of these are events too.


class TextDelta(Struct, frozen=True, gc=False, tag_field="type", tag="text_delta"):
    """A piece of the answer as it arrives. Shown, never stored."""

    text: str


class ReasoningDelta(Struct, frozen=True, gc=False, tag_field="type", tag="reasoning_delta"):
    text: str


class CallStarted(Struct, frozen=True, gc=False, tag_field="type", tag="call_started"):
    """The model begins to write a call. Its arguments follow."""

    call_id: str
    tool: str
    provider_executed: bool = False


class ArgumentsDelta(Struct, frozen=True, gc=False, tag_field="type", tag="arguments_delta"):
    call_id: str
    text: str


class CallEnded(Struct, frozen=True, gc=False):
    """The arguments of a call are complete. One that never ends is dropped with a cut answer."""

    call_id: str
    metadata: Metadata | None = None


class PartEnded(Struct, frozen=True, gc=False):
    """Closes the text or reasoning that was open, with what must be replayed beside it."""

    signature: str | None = None
    metadata: Metadata | None = None


class PartAdded(Struct, frozen=True, gc=False):
    """A part that comes whole: a source, a file, the result of a call the provider executed."""

    part: Text | Reasoning | ToolCall | ToolResult | File | Source


class Ping(Struct, frozen=True, gc=False):
    """The provider is alive and has nothing to say."""


class Opened(Struct, frozen=True, gc=False):
    """From here on this model is asked. Says nothing about whether it is alive."""

    model: str


class Notice(Struct, frozen=True, gc=False):
    """Something that people should be told, for example a file that the provider does not take."""

    text: str


class Finished(Struct, frozen=True, gc=False):
    """The answer is complete. A stream that ends without it was cut, whatever it brought."""

    finish: Finish = "stop"
    usage: Usage | None = None
    metadata: Metadata | None = None
    window: int | None = None
    """The model's context limit, when the provider says it."""


Delta: TypeAlias = Union[
    TextDelta,
    ReasoningDelta,
    CallStarted,
    ArgumentsDelta,
    CallEnded,
    PartEnded,
    PartAdded,
    Ping,
    Opened,
    Notice,
    Finished,
]


class Model(Protocol):
    """Anything that answers.

    `stream` is called once for each attempt. It yields deltas, `Finished` last, and raises when the
    provider fails, best a `ProviderError` with the facts. It never retries: the loop does. When it
    is cancelled or closed it lets go of its connection. It holds no cancel scope across a `yield`.
    """

    @property
    def name(self) -> str:
        """`provider:model`."""
        ...

    @property
    def window(self) -> int | None:
        """How many tokens fit, or None when nobody knows."""
        ...

    def stream(self, request: Request) -> AsyncIterator[Delta]: ...


async def close(stream: AsyncIterator[Delta]) -> None:
    """Let a stream go of what it holds, here and now. A plain iterator holds nothing."""
    aclose = getattr(stream, "aclose", None)
    if aclose is not None:
        await aclose()
