"""Messages and their parts: the history of a conversation, as frozen values.

The only place where they become JSON and come back. Whatever text Python can hold survives the
trip: what a database refuses (NUL, lone surrogates) is written with the escape described at
`ESCAPE`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar, Union

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import ConfigError, FormatError

Role = Literal["user", "assistant", "tool", "system"]
Kind = Literal[
    "prompt",  # a person wrote it: a turn begins
    "answer",  # a model wrote it
    "results",  # what the tools of an answer returned
    "checkpoint",  # stands for earlier messages when a model is asked
    "injected",  # we wrote it for the model: see `Injection`
    "marker",  # tells the model what happened, for example that the user interrupted
    "context",  # what a workspace says about itself
    "note",  # tells people what happened
]
Injection = Literal[
    "recovery",  # an answer was cut by length, and is to go on
    "repair",  # an answer did not have the form that was asked for
    "guard",  # the stop guard objects to the end
]
Visibility = Literal["both", "user", "model"]
Finish = Literal["stop", "tool_calls", "length", "content_filter", "interrupted", "error"]
Outcome = Literal[
    "ok",
    "failed",
    "refused",
    "skipped",
    "interrupted",
    "edited",
    "forked",
    "lost",
    "timed_out",
]
Metadata: TypeAlias = Mapping[str, Any]
"""What a provider wants back verbatim, as `{provider: anything that is JSON}`."""

TRANSPARENT: Final = frozenset({"checkpoint", "marker", "context", "note"})
"""Kinds that do not count as *the last message* when the next step is decided."""


class Value(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A frozen value. None can be part of itself, so the garbage collector need not look."""


class Tagged(Value, frozen=True, tag_field="type"):
    """One of a closed union: its JSON says which."""


class Text(Tagged, frozen=True, tag="text"):
    """Text, of a prompt, an answer or a result."""

    text: str
    metadata: Metadata | None = None


class Reasoning(Tagged, frozen=True, tag="reasoning"):
    """What a model thought before it answered, where its provider shows it."""

    text: str
    signature: str | None = None
    """Opaque proof of origin, replayed verbatim."""
    started_at: int | None = None
    finished_at: int | None = None
    metadata: Metadata | None = None


class ToolCall(Tagged, frozen=True, tag="call"):
    """What a model asks for: a tool, by name, with arguments."""

    id: str
    tool: str
    arguments: str
    """JSON text exactly as the model wrote it; also when it is not JSON (see `complaint`)."""
    complaint: str | None = None
    """What the parser said, when the arguments are not JSON."""
    called_at: int | None = None
    provider_executed: bool = False
    metadata: Metadata | None = None


class File(Tagged, frozen=True, tag="file"):
    """A picture, a document or anything else with a media type: the bytes, or where they are."""

    media_type: str
    name: str | None = None
    data: bytes | None = None
    ref: str | None = None
    """Where the bytes are stored, when they are not here."""
    metadata: Metadata | None = None


class Source(Tagged, frozen=True, tag="source"):
    """Where an answer has something from."""

    url: str
    title: str | None = None
    metadata: Metadata | None = None


Content: TypeAlias = Union[Text, File]
"""What a tool result is made of."""


class ToolResult(Tagged, frozen=True, tag="result"):
    """What the model reads about a call, and how the call ended."""

    call_id: str
    tool: str
    content: tuple[Content, ...]
    outcome: Outcome = "ok"
    stops: bool = False
    """Ends the turn: an `ok` result of a stop-after tool."""
    provider_executed: bool = False
    metadata: Metadata | None = None

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content if isinstance(part, Text))


Part: TypeAlias = Union[Text, Reasoning, ToolCall, ToolResult, File, Source]


class Usage(Value, frozen=True):
    """Tokens of one model call. `input` is what was neither read from nor written to a cache."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    """Of the output, how much was reasoning."""
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = None
    """In US dollars. A sum is of the calls whose price is known; None when no price is."""

    @property
    def context(self) -> int:
        """How much of the model's window the request and its answer fill."""
        return self.input + self.cache_read + self.cache_write + self.output

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.reasoning + other.reasoning,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            other.cost if self.cost is None else self.cost + (other.cost or 0.0),
        )


AskedBy = Literal["person", "overflow"]


class Checkpoint(Value, frozen=True):
    """What a checkpoint message stands for, by position in the history it was appended to."""

    covers: int
    """The summary replaces this many leading messages; 0 when nothing was ever summarized."""
    trims: int
    """Bulky tool results among this many leading messages are sent shortened."""
    before: int
    """Estimated tokens of the next request before."""
    after: int
    """... and after."""
    summarized: bool = True
    """False when shortening old tool results was enough; the earlier summary is carried along."""
    pinned: int | None = None
    """Among the covered messages, the last prompt: kept verbatim behind the summary."""
    asked_by: AskedBy | None = None
    """None when the threshold asked."""


class Message(Value, frozen=True):
    """One entry of a history. `kind` says where it came from, `visibility` who may see it."""

    role: Role
    parts: tuple[Part, ...]
    kind: Kind
    visibility: Visibility = "both"
    finish: Finish | None = None
    usage: Usage | None = None
    model: str | None = None
    """The model that wrote it, as `provider:model`."""
    checkpoint: Checkpoint | None = None
    metadata: Metadata | None = None
    why: Injection | None = None
    """Of what we injected: what for."""

    def __post_init__(self) -> None:
        if self.kind == "checkpoint" and self.checkpoint is None:
            raise ConfigError("a checkpoint message has to say what it stands for: set checkpoint")

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolResult))


Prompt: TypeAlias = Union[str, Part, Message, Sequence[Part]]
"""What a caller may hand over as a user's message."""


def user_message(prompt: Prompt) -> Message:
    """A prompt, in whichever form it was given, as a message that starts a turn."""
    if isinstance(prompt, Message):
        if (prompt.role, prompt.kind) != ("user", "prompt"):
            raise ConfigError(
                f"a prompt is of the user, and this message is {prompt.kind} of the {prompt.role}: "
                "give it as history"
            )
        return prompt
    if not prompt or (isinstance(prompt, str) and not prompt.strip()):
        raise ConfigError("the prompt is empty: say something, or give none to go on as it is")
    if isinstance(prompt, str):
        return Message("user", (Text(prompt),), "prompt")
    parts: tuple[Any, ...]
    listed = isinstance(prompt, Sequence) and not isinstance(prompt, bytes)
    parts = tuple(prompt) if listed else (prompt,)  # type: ignore[arg-type]
    for part in parts:
        if not isinstance(part, (Text, File, Source)):
            raise ConfigError(f"a prompt has {part!r} in it: use text, or parts such as Text(…)")
        if isinstance(part, File):
            _check_file(part)
    return Message("user", parts, "prompt")


def _check_file(file: File) -> None:
    """Refuse here what every model would only be told of: whoever gave it can still mend it."""
    name = file.name or "a file"
    if not isinstance(file.data, bytes | None):
        raise ConfigError(f"the data of {name} is a {type(file.data).__name__}: use bytes")
    if file.data is None and file.ref is None:
        raise ConfigError(f"{name} has no bytes: give them as data=…, or where they are as ref=…")
    if not isinstance(file.media_type, str) or "/" not in file.media_type:
        raise ConfigError(f"{file.media_type!r} is no media type: use one such as image/png")


def results_message(results: Sequence[ToolResult]) -> Message:
    return Message("tool", tuple(results), "results")


def injected(text: str, why: Injection | None = None) -> Message:
    """A prompt of our own: the model sees it, people do not, and no turn begins with it."""
    return Message("user", (Text(text),), "injected", "model", why=why)


def note(text: str) -> Message:
    return Message("system", (Text(text),), "note", "user")


# --- JSON ---------------------------------------------------------------------------------------

FORMAT: Final = 1

ESCAPE: Final = "\ue000"
"""Stands in front of four hexadecimal digits: a code point that stored text cannot hold.

That is NUL, a surrogate on its own, or this very character. It is a private-use character, so real
text hardly ever has it, and text without any of the three is stored as it is.
"""
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff\ue000]")
_ESCAPED: Final = re.compile("\ue000([0-9a-f]{4})")
_ESCAPE_UTF8: Final = ESCAPE.encode()
_ESCAPE_ASCII: Final = re.compile(rb"\\u[eE]000")
"""As a store may say it that writes JSON in its own way."""

T = TypeVar("T")


def encode(value: object) -> bytes:
    """JSON that every store can hold, for any value of the kernel."""
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate
        return msgspec.json.encode(_escape(msgspec.to_builtins(value)))
    # Looked for in the bytes, because nearly no text needs it and walking every value costs.
    if b"\\u0000" in data or _ESCAPE_UTF8 in data:
        return msgspec.json.encode(_escape(msgspec.to_builtins(value)))
    return data


def decode(data: bytes | str, type: type[T]) -> T:
    """The value that `encode` was given."""
    try:
        raw = data.encode() if isinstance(data, str) else data
        if _ESCAPE_UTF8 in raw or (b"\\u" in raw and _ESCAPE_ASCII.search(raw)):
            return msgspec.convert(_unescape(msgspec.json.decode(raw)), type)
        return msgspec.json.decode(raw, type=type)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise FormatError(f"this is not JSON that holdfast wrote: {error}") from None


def prepare_to_decode(*types: Any) -> None:
    """Have msgspec look at types now, in one thread: two that do so at once crash the process."""
    for each in types:
        msgspec.json.Decoder(each)


def _escape(value: Any) -> Any:
    return _map_text(value, _escape_text)


def _unescape(value: Any) -> Any:
    return _map_text(value, _unescape_text)


def _escape_text(text: str) -> str:
    return _UNSTORABLE.sub(lambda match: f"{ESCAPE}{ord(match[0]):04x}", text)


def _unescape_text(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def _map_text(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_map_text(key, change): _map_text(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_map_text(item, change) for item in value]
    return value


class _Stored(Value, frozen=True):
    format: int
    messages: tuple[Message, ...]


class _Version(Value, frozen=True):
    format: int


def dump(messages: Sequence[Message]) -> bytes:
    """A history as JSON, with the version of its format."""
    history = tuple(messages) if isinstance(messages, Sequence) else (messages,)
    for message in history:
        if not isinstance(message, Message):
            raise FormatError(
                f"{message!r:.80} is no message: give the messages of a history, as in "
                "dump(result.history)"
            )
    try:
        return encode(_Stored(FORMAT, history))
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"the history holds something that is not JSON: {error}") from error


def load(data: bytes | str) -> tuple[Message, ...]:
    """The history that `dump` was given."""
    if not isinstance(data, (bytes, str)):
        raise FormatError(f"a {type(data).__name__} is no stored history: give what dump(…) gave")
    version = decode(data, _Version).format
    if version != FORMAT:
        raise FormatError(
            f"this history has format {version}, and this version of holdfast reads {FORMAT}: "
            "upgrade holdfast"
        )
    return decode(data, _Stored).messages
