"""The Model protocol: a request in, a stream of deltas out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Iterable, Mapping
from inspect import iscoroutinefunction
from typing import Any, Final, Literal, Protocol, TypeAlias, Union, get_args

from msgspec import structs

from holdfast.kernel.entry_point import EntryMeta
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.messages import (
    File,
    FinishReason,
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
ToolChoiceFor = Literal["first_answer", "every_answer"]
EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)
"""Efforts from the lowest to the highest."""


class Block(Value, frozen=True):
    """A block of the system prefix. `cache` marks the end of what should be cached."""

    text: str
    cache: bool = False


class ToolSpec(Value, frozen=True):
    """Declaration of a tool as it is sent to a model."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """JSON schema of the arguments, of type object."""
    native: Mapping[str, Mapping[str, Any]] = {}
    """A provider's own declaration of this tool, as `{provider: declaration}`, sent in place of the
    schema; the tool still runs here."""


class ProviderTool(Value, frozen=True):
    """A tool that the provider runs: `web_search`, `web_fetch`, `code_execution`, ….

    `options` are options that several providers share (`max_uses`, `allowed_domains`,
    `blocked_domains`, `user_location`); `native` is a declaration exactly as one provider takes it,
    as `{provider: declaration}`.
    """

    name: str
    options: Mapping[str, Any] = {}
    native: Mapping[str, Mapping[str, Any]] = {}


def is_native(value: object) -> bool:
    """Whether this is a mapping `{provider: declaration}`."""
    return isinstance(value, Mapping) and all(
        isinstance(provider, str) and isinstance(declaration, Mapping)
        for provider, declaration in value.items()
    )


class Shape(Value, frozen=True):
    """Required form of an answer: JSON that fits a schema."""

    schema: Mapping[str, Any]
    name: str = "answer"
    description: str = ""


class Settings(Value, metaclass=EntryMeta, frozen=True, kw_only=True):
    """Parameters of a model call. None leaves a parameter to the provider."""

    temperature: float | None = None
    """Randomness of the answer; 0 is the least random."""
    top_p: float | None = None
    """Only the likeliest tokens, up to this total probability."""
    top_k: int | None = None
    """Only this many of the likeliest tokens."""
    presence_penalty: float | None = None
    """Penalty for tokens that the text contains already."""
    frequency_penalty: float | None = None
    """Penalty for tokens, by how often the text contains them."""
    max_output_tokens: int | None = None
    """Maximum length of an answer in tokens, including its reasoning."""
    seed: int | None = None
    """Seed of the sampling: equal requests mostly get equal answers."""
    stop: tuple[str, ...] = ()
    """Texts at which the model stops writing. They are not part of the answer."""
    tool_choice: str | None = None
    """`auto`, `none`, `required` (at least one call), or the name of the tool to call."""
    tool_choice_for: ToolChoiceFor = "first_answer"
    """Answers of a turn for which a required call is required; later ones choose freely."""
    parallel_tool_calls: bool | None = None
    """Whether an answer may have several calls."""
    options: Mapping[str, Mapping[str, Any]] = {}
    """Options of single providers, as `{provider: options}`."""

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, (int, float)):
                raise ConfigError(f"{name} is {value!r}: use a number, or None")
        structs.force_setattr(self, "stop", _stop(self.stop))
        _check_choice(self)
        if not isinstance(self.options, Mapping):
            raise ConfigError(f"options is {self.options!r}: use {{'anthropic': {{…}}}}")
        for provider, options in self.options.items():
            if not isinstance(options, Mapping):
                raise ConfigError(
                    f"options has {provider!r}: {options!r}, but is keyed by provider: "
                    "use {'anthropic': {…}}"
                )

    @property
    def forces_call(self) -> bool:
        """Whether the answer must have a call."""
        return self.tool_choice not in (None, "auto", "none")


_NUMBERS: Final = (
    "temperature",
    "top_p",
    "top_k",
    "presence_penalty",
    "frequency_penalty",
    "max_output_tokens",
)


def _stop(given: Any) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(f"stop is {given!r}: use a list of texts, even for one")
    texts = tuple(given)
    for text in texts:
        if not (isinstance(text, str) and text.strip()):
            raise ConfigError(f"stop has {text!r}: use texts that are not only spaces")
    return texts


def _check_choice(settings: Settings) -> None:
    if not isinstance(settings.seed, int | None):
        raise ConfigError(f"seed is {settings.seed!r}: use a whole number, or None")
    choice, answers = settings.tool_choice, settings.tool_choice_for
    if choice is not None and not (isinstance(choice, str) and choice):
        raise ConfigError(
            f"tool_choice is {choice!r}: use 'auto', 'none', 'required' or a tool's name"
        )
    if answers not in get_args(ToolChoiceFor):
        raise ConfigError(f"tool_choice_for is {answers!r}: use 'first_answer' or 'every_answer'")
    if not isinstance(settings.parallel_tool_calls, bool | None):
        raise ConfigError(
            f"parallel_tool_calls is {settings.parallel_tool_calls!r}: use True, False or None"
        )


def settings_for(settings: Settings, answers: int, tools: Container[str]) -> Settings:
    """The settings of the next request of a turn that has this many answers.

    A call is only required of the first answer, unless the settings say otherwise: the model would
    call tools until the limit of steps. A tool that may not be called now is not required.
    """
    if not settings.forces_call:
        return settings
    later = answers > 0 and settings.tool_choice_for == "first_answer"
    if later or (settings.tool_choice != "required" and settings.tool_choice not in tools):
        return structs.replace(settings, tool_choice=None)
    return settings


class Request(Value, frozen=True, kw_only=True):
    """One model call. Its messages are repaired: the result of a tool call directly follows it."""

    system: tuple[Block, ...] = ()
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    provider_tools: tuple[ProviderTool, ...] = ()
    output: Shape | None = None
    """Required form of an answer without tool calls; the caller checks the answer."""
    settings: Settings = Settings()
    effort: Effort | None = None
    cache_key: str | None = None
    """Equal for requests with the same prefix: helps a provider to find its cache."""
    stay_with: str | None = None
    """Model that gave this turn's last answer; `Fallback` calls it first."""
    avoid: frozenset[str] = frozenset()
    """Names of models that already failed at this step; `Fallback` tries the others first."""


# --- Deltas of a stream -------------------------------------------------------------------------
# A frequent delta is shown to people as it is, so three of these are events too.


class TextDelta(Tagged, frozen=True, tag="text_delta"):
    """A piece of the answer as it arrives. Shown, never stored."""

    text: str


class ReasoningDelta(Tagged, frozen=True, tag="reasoning_delta"):
    """A piece of the reasoning as it arrives. Shown, never stored."""

    text: str


class CallStarted(Tagged, frozen=True, tag="call_started"):
    """The model started to write a tool call. Its arguments follow."""

    call_id: str
    tool: str
    provider_executed: bool = False


class ArgumentsDelta(Tagged, frozen=True, tag="arguments_delta"):
    """A piece of a call's arguments as it arrives. Shown, never stored."""

    call_id: str
    text: str


class CallEnded(Value, frozen=True):
    """The arguments of a call are complete. A truncated answer keeps only such calls."""

    call_id: str
    metadata: Metadata | None = None


class PartEnded(Value, frozen=True):
    """Ends the open text or reasoning part, with what must be sent back with it."""

    signature: str | None = None
    metadata: Metadata | None = None


class PartAdded(Value, frozen=True):
    """A complete part: a source, a file, the result of a call that the provider executed."""

    part: Text | Reasoning | ToolCall | ToolResult | File | Source


class Ping(Value, frozen=True):
    """A sign of life without content; may carry the usage so far."""

    usage: Usage | None = None
    """Usage of the answer so far, counted if the answer is cut; `Finished` carries the total."""


class Opened(Value, frozen=True):
    """A call of this model starts. It does not reset the idle timeout."""

    model: str


class Notice(Value, frozen=True):
    """A warning for people, for example about a file that the provider does not accept."""

    text: str


class Finished(Value, frozen=True):
    """The answer is complete. A stream that ends without this event was truncated."""

    finish: FinishReason = "stop"
    usage: Usage | None = None
    metadata: Metadata | None = None
    window: int | None = None
    """The model's context limit in tokens, if the provider reports it."""


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
"""An item of a model's stream: a fragment of the answer or, at the end, `Finished`."""


class Model(Protocol):
    """A model: a name, a context window and a stream of deltas for each request.

    `stream` is called once for each attempt. It yields deltas, `Finished` last, and raises when the
    provider fails, preferably a `ProviderError` with the facts. It never retries: the loop does.
    When cancelled or closed, it releases its connection. It holds no cancel scope across a `yield`.
    """

    @property
    def name(self) -> str:
        """Name of the model, as `provider:model`."""
        ...

    @property
    def window(self) -> int | None:
        """Context window in tokens; None if unknown."""
        ...

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Stream the answer: an `async def` with `yield`, or a `def` that returns such a stream."""
        ...


async def close(stream: AsyncIterator[Delta]) -> None:
    """Close a stream now, so that it releases its connection. A plain iterator holds none."""
    aclose = getattr(stream, "aclose", None)
    if aclose is not None:
        await aclose()


def check_model(model: object) -> None:
    """Raise a `ConfigError` unless this is a model."""
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


def check_usable(model: object) -> None:
    """Raise a `ConfigError` if the model cannot be called: its key is missing.

    Optional, unlike the rest of the protocol: a method `check_usable` of the model.
    """
    check = getattr(model, "check_usable", None)
    if check is not None:
        check()


def is_priced(model: Model) -> bool:
    """Whether the cost of the model's calls is known.

    Optional, unlike the rest of the protocol: an attribute `priced` of the model.
    """
    return getattr(model, "priced", False) is True


def check_priced(model: Model) -> None:
    """Raise a `ConfigError` if a limit of cost would not count the model's calls."""
    if not is_priced(model):
        raise ConfigError(
            f"limits.cost needs a known price, and the price of {model.name} is unknown: limit "
            "tokens instead, or state its price per million tokens, as in "
            "holdfast.model(…, profile={'price': {'input': 1.0, 'output': 4.0}}); a model of your "
            "own that reports the cost of its calls needs an attribute priced=True"
        )


def known_efforts(model: Model) -> tuple[Effort, ...] | None:
    """The efforts that a model supports; None if unknown.

    Optional, unlike the rest of the protocol: an attribute `efforts` of the model.
    """
    efforts: tuple[Effort, ...] | None = getattr(model, "efforts", None)
    return efforts


def check_effort(effort: object) -> None:
    """Raise a `ConfigError` for an unknown effort."""
    if effort is not None and effort not in EFFORTS:
        raise ConfigError(f"effort is {effort!r}: use one of {', '.join(EFFORTS)}, or None")
