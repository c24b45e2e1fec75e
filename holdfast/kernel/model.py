"""The Model protocol: a request in, a stream of deltas out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from inspect import iscoroutinefunction
from typing import Any, Final, Literal, Protocol, TypeAlias, Union, get_args

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.messages import (
    File,
    Finish,
    Message,
    Metadata,
    Reasoning,
    Source,
    Tagged,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    Value,
)

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)
"""From the least to the most."""


class Block(Value, frozen=True):
    """A piece of the system prefix. `cache` marks the end of what should be cached."""

    text: str
    cache: bool = False


class ToolSpec(Value, frozen=True):
    """What a model is told about a tool."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """JSON schema of the arguments: an object."""
    native: Mapping[str, Mapping[str, Any]] = {}
    """How a provider declares this tool itself, as `{provider: declaration}`. It is sent there in
    place of the schema; we run the tool all the same."""


class ProviderTool(Value, frozen=True):
    """A tool that a provider has and runs: `web_search`, `web_fetch`, `code_execution`, ….

    `options` are words that several providers share (`max_uses`, `allowed_domains`,
    `blocked_domains`, `user_location`); `native` is a declaration exactly as one provider wants it,
    as `{provider: declaration}`.
    """

    name: str
    options: Mapping[str, Any] = {}
    native: Mapping[str, Mapping[str, Any]] = {}


def is_native(given: object) -> bool:
    """Whether this says for each of some providers how it declares a tool."""
    return isinstance(given, Mapping) and all(
        isinstance(provider, str) and isinstance(declaration, Mapping)
        for provider, declaration in given.items()
    )


class Shape(Value, frozen=True):
    """The form that an answer has to have: JSON that fits a schema."""

    schema: Mapping[str, Any]
    name: str = "answer"
    description: str = ""


class Settings(Value, frozen=True, kw_only=True):
    """How a model is called. What is None is left to the provider."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    max_output_tokens: int | None = None
    options: Mapping[str, Mapping[str, Any]] = {}
    """What only one provider knows, as `{provider: options}`."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            fits = isinstance(value, Mapping if name == "options" else (int, float))
            if value is not None and not fits:
                raise ConfigError(f"{name} is {value!r}: use a number, or None")
        for provider, options in self.options.items():
            if not isinstance(options, Mapping):
                raise ConfigError(
                    f"options has {provider!r}: {options!r}, and it is by provider: "
                    "use {'anthropic': {…}}"
                )


class Request(Value, frozen=True, kw_only=True):
    """One call of a model. The messages are repaired: every call has its result right behind it."""

    system: tuple[Block, ...] = ()
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    provider_tools: tuple[ProviderTool, ...] = ()
    output: Shape | None = None
    """Asked of every answer that calls no tool; whether it came so is for the caller to check."""
    settings: Settings = Settings()
    effort: Effort | None = None
    cache_key: str | None = None
    """The same for requests that begin alike: helps a provider to find what it has cached."""
    stay_with: str | None = None
    """The model that gave this turn's last answer: `Fallback` asks it first."""
    avoid: frozenset[str] = frozenset()
    """Names of models that already failed at this step: `Fallback` tries the others first."""


# --- What a stream is made of -------------------------------------------------------------------
# A frequent delta is shown to people as it is, so three of these are events too.


class TextDelta(Tagged, frozen=True, tag="text_delta"):
    """A piece of the answer as it arrives. Shown, never stored."""

    text: str


class ReasoningDelta(Tagged, frozen=True, tag="reasoning_delta"):
    """A piece of the reasoning as it arrives. Shown, never stored."""

    text: str


class CallStarted(Tagged, frozen=True, tag="call_started"):
    """The model begins to write a call. Its arguments follow."""

    call_id: str
    tool: str
    provider_executed: bool = False


class ArgumentsDelta(Tagged, frozen=True, tag="arguments_delta"):
    """A piece of the arguments of a call as it arrives."""

    call_id: str
    text: str


class CallEnded(Value, frozen=True):
    """The arguments of a call are complete. One that never ends is dropped with a cut answer."""

    call_id: str
    metadata: Metadata | None = None


class PartEnded(Value, frozen=True):
    """Closes the text or reasoning that was open, with what must be replayed beside it."""

    signature: str | None = None
    metadata: Metadata | None = None


class PartAdded(Value, frozen=True):
    """A part that comes whole: a source, a file, the result of a call the provider executed."""

    part: Text | Reasoning | ToolCall | ToolResult | File | Source


class Ping(Value, frozen=True):
    """The provider is alive and has nothing to say, except perhaps what it has counted so far."""

    usage: Usage | None = None
    """Of the whole answer, and counted if it is cut: `Finished` says it again, with the rest."""


class Opened(Value, frozen=True):
    """From here on this model is asked. Says nothing about whether it is alive."""

    model: str


class Notice(Value, frozen=True):
    """Something that people should be told, for example a file that the provider does not take."""

    text: str


class Finished(Value, frozen=True):
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

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """An `async def` with `yield` in it, or a `def` that returns such a stream."""
        ...


async def close(stream: AsyncIterator[Delta]) -> None:
    """Let a stream go of what it holds, here and now. A plain iterator holds nothing."""
    aclose = getattr(stream, "aclose", None)
    if aclose is not None:
        await aclose()


def check_model(model: object) -> None:
    """Refuse what is no model, before it is asked for an answer."""
    if isinstance(model, str):
        raise ConfigError(f"model is the text {model!r}: use holdfast.model({model!r})")
    if isinstance(model, type):
        raise ConfigError(f"model is the class {model.__name__}: make one, {model.__name__}(…)")
    for part in ("stream", "name", "window"):
        if not hasattr(model, part):
            raise ConfigError(
                f"model is a {type(model).__name__}, which has no {part}: "
                "use 'provider:model', or something with a name, a window (or None) and a stream"
            )
    if iscoroutinefunction(model.stream):  # type: ignore[attr-defined]
        raise ConfigError(
            f"the stream of {type(model).__name__} has no yield: "
            "yield deltas, or use def without async to return another's stream"
        )


def check_effort(effort: object) -> None:
    """Refuse what nobody can think as hard as."""
    if effort is not None and effort not in EFFORTS:
        raise ConfigError(f"effort is {effort!r}: use one of {', '.join(EFFORTS)}, or None")
