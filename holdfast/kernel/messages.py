"""Messages and their parts: the history of a conversation, as frozen values.

The only module that encodes them to JSON and decodes them. Any Python string survives the round
trip: characters that a database refuses (NUL, lone surrogates) are escaped as `ESCAPE` describes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias, TypeVar, Union

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import ConfigError, FormatError
from holdfast.kernel.limits import LimitReached

MessageRole = Literal["user", "assistant", "tool", "system"]
MessageKind = Literal[
    "prompt",  # written by a person: starts a turn
    "answer",  # written by a model
    "results",  # results of the tool calls of an answer
    "checkpoint",  # replaces earlier messages in requests to the model
    "injected",  # written by the loop for the model: see `Injection`
    "marker",  # tells the model what happened, for example that the user interrupted
    "context",  # instructions of a workspace; survives a compaction
    "instructions",  # what functions of the agent's instructions returned: see `Evaluation`
    "note",  # tells people what happened
]
Injection = Literal[
    "recovery",  # an answer was cut by length: the model is asked to continue
    "repair",  # an answer did not have the required form: it is asked for again
    "guard",  # the stop guard objects to ending the turn
]
MarkerKind = Literal[
    "interrupted_answer",  # the user interrupted while the model was answering
    "interrupted_tools",  # the user interrupted while tool calls were running
]
"""What a marker tells the model."""
Visibility = Literal["both", "user", "model"]
FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "interrupted", "error"]
CutBy = Literal["content_filter", "length"]
"""Finish reasons of an answer that is shown but incomplete."""
ToolOutcome = Literal[
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
"""Data that a provider requires back verbatim, as `{provider: any JSON value}`."""

MAX_FILE: Final = 32 * 1024 * 1024
"""Maximum bytes of a file that `File.from_path` reads, unless it is told otherwise."""
TRANSPARENT: Final = frozenset({"checkpoint", "marker", "context", "instructions", "note"})
"""Message kinds that are ignored when *the last message* decides the next step."""
MARKER_TEXTS: Final[Mapping[MarkerKind, str]] = {
    "interrupted_answer": "[The user interrupted while you were answering.]",
    "interrupted_tools": "[The user interrupted while your tool calls were running.]",
}
"""Text by which a history names the kind of a marker. Requests have the agent's wording instead."""


class Value(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """Base of frozen values. No value can contain itself, so the garbage collector ignores them."""


class Tagged(Value, frozen=True, tag_field="type"):
    """Base of the members of a closed union; the JSON field `type` names the member."""


class Text(Tagged, frozen=True, tag="text"):
    """Text of a prompt, an answer or a tool result."""

    text: str
    metadata: Metadata | None = None


class Reasoning(Tagged, frozen=True, tag="reasoning"):
    """The model's reasoning before its answer, where the provider exposes it."""

    text: str
    signature: str | None = None
    """Opaque proof of origin, sent back to the provider verbatim."""
    started_at: int | None = None
    """Arrival of the first piece, in microseconds since 1970."""
    finished_at: int | None = None
    """Arrival of the last piece, in microseconds since 1970."""
    metadata: Metadata | None = None


class ToolCall(Tagged, frozen=True, tag="call"):
    """A model's request to run a tool: its name and arguments."""

    id: str
    tool: str
    arguments: str
    """Arguments exactly as the model wrote them, valid JSON or not (see `complaint`)."""
    complaint: str | None = None
    """The parser's error message, if the arguments are not valid JSON."""
    called_at: int | None = None
    """Time at which the call was completely written, in microseconds since 1970."""
    provider_executed: bool = False
    """Whether the provider runs the call itself; holdfast then never runs it."""
    metadata: Metadata | None = None


class File(Tagged, frozen=True, tag="file"):
    """An image, document or other content with a media type: its bytes, or a reference."""

    media_type: str
    name: str | None = None
    data: bytes | None = None
    ref: str | None = None
    """Reference to the stored bytes, if `data` is None."""
    metadata: Metadata | None = None

    @classmethod
    def from_path(
        cls,
        path: str | PathLike[str],
        media_type: str | None = None,
        *,
        name: str | None = None,
        max_bytes: int = MAX_FILE,
    ) -> File:
        """Read a file. Without a media type, it is guessed from the content and the name."""
        from os import fspath
        from os.path import basename

        given = fspath(path)
        try:
            with open(given, "rb") as opened:
                data = opened.read(max_bytes + 1)
        except OSError as error:
            raise ConfigError(f"cannot read {given}: {error.strerror or error}") from None
        if len(data) > max_bytes:
            raise ConfigError(
                f"{given} is larger than {max_bytes:,} bytes: pass a part of it, or max_bytes=…"
            )
        return cls.from_bytes(data, media_type, name=name or basename(given))

    @classmethod
    def from_bytes(
        cls,
        data: bytes | bytearray | memoryview,
        media_type: str | None = None,
        *,
        name: str | None = None,
    ) -> File:
        """A file of these bytes. Without a media type, it is guessed from them and the name."""
        from holdfast.kernel.media_type import guess

        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise ConfigError(f"the data is a {type(data).__name__}: use bytes")
        data = bytes(data)
        if not data:
            raise ConfigError(f"{name or 'the file'} is empty: pass a file with content")
        file = cls(media_type or guess(name, data) or "", name, data)
        _check_file(file)
        return file

    @classmethod
    def from_url(cls, url: str, media_type: str | None = None, *, name: str | None = None) -> File:
        """A file that the provider fetches. Without a media type, it is guessed from the URL."""
        from urllib.parse import unquote, urlsplit

        from holdfast.kernel.media_type import guess

        if not url.startswith(("https://", "http://")):
            raise ConfigError(f"{url!r} is not a URL of a file: use https://…, or File.from_path")
        last = unquote(urlsplit(url).path).rpartition("/")[2] or None
        media_type = media_type or guess(last, None)
        if media_type is None:
            raise ConfigError(f"{url} does not show what it is: pass media_type='image/png' or so")
        file = cls(media_type, name or last, ref=url)
        _check_file(file)
        return file


class Source(Tagged, frozen=True, tag="source"):
    """A source that an answer cites."""

    url: str
    title: str | None = None
    metadata: Metadata | None = None


Content: TypeAlias = Union[Text, File]
"""Content of a tool result."""


class ToolResult(Tagged, frozen=True, tag="result"):
    """The result of a tool call: what the model reads, and how the call ended."""

    call_id: str
    tool: str
    content: tuple[Content, ...]
    outcome: ToolOutcome = "ok"
    stops: bool = False
    """Whether the result ends the turn: an `ok` result of a stop-after tool."""
    provider_executed: bool = False
    metadata: Metadata | None = None
    expected: bool = False
    """Whether a failure is a regular negative answer of the tool, such as *not found* or *no
    match*. The model can act on it, and the circuit breaker does not count it."""
    started_at: int | None = None
    """Start of the tool's function, in microseconds since 1970; None for a call that never ran, or
    that a client or a provider ran."""
    finished_at: int | None = None
    """End of the call, in microseconds since 1970; None if unknown, as after a crash."""
    usage: Usage | None = None
    """Tokens and cost that the call used: those of the runs within it, and what it charged."""
    steps: int = 0
    """Number of model answers of the runs within the call."""

    @property
    def text(self) -> str:
        """The text parts of the content, joined."""
        return "".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def seconds(self) -> float | None:
        """Run time of the call; None if unknown."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at) / 1_000_000


Part: TypeAlias = Union[Text, Reasoning, ToolCall, ToolResult, File, Source]
"""Any part of a message."""


class Usage(Value, frozen=True):
    """Tokens of one model call, or the sum of several."""

    input: int = 0
    """Input tokens neither read from nor written to a cache."""
    output: int = 0
    """Output tokens, including reasoning."""
    reasoning: int = 0
    """Reasoning tokens, a part of `output`."""
    cache_read: int = 0
    """Input tokens read from the provider's cache."""
    cache_write: int = 0
    """Input tokens written to the provider's cache."""
    cost: float | None = None
    """Cost in US dollars; None without a known price. A sum covers the calls with a known price."""

    @property
    def context(self) -> int:
        """Tokens of the model's context window that the request and its answer fill."""
        return self.input + self.cache_read + self.cache_write + self.output

    if not TYPE_CHECKING:

        def __call__(self) -> NoReturn:
            raise TypeError("usage is an attribute: write result.usage, without parentheses")

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
    """Positions in the history that a checkpoint message replaces or shortens."""

    covers: int
    """Number of leading messages that the summary replaces; 0 if nothing was ever summarized."""
    trims: int
    """Number of leading messages whose bulky tool results are sent shortened."""
    before: int
    """Estimated tokens of the next request before the compaction."""
    after: int
    """Estimated tokens of the next request after the compaction."""
    summarized: bool = True
    """Whether a summary was written; False when shortening old tool results was enough."""
    pinned: int | None = None
    """Position of the last prompt if it is covered: sent verbatim after the summary."""
    asked_by: AskedBy | None = None
    """Cause of the compaction; None for the threshold."""
    context: tuple[int, ...] = ()
    """Positions of covered messages of kind `context` that are sent before the summary."""
    context_tokens: int = 0
    """Maximum tokens of those context messages; the oldest is cut to fit."""


class Evaluation(Value, frozen=True):
    """Which functions of an agent's instructions returned the parts of a message."""

    agent: str
    """Name of the agent."""
    counts: tuple[int, ...]
    """Number of parts that each function returned, in the order of the functions."""
    cached: tuple[int, ...] = ()
    """Indexes of the parts that end a cached part of the system prefix."""


class Message(Value, frozen=True):
    """One entry of a history. `kind` is its origin; `visibility` states who may see it."""

    role: MessageRole
    parts: tuple[Part, ...]
    kind: MessageKind
    visibility: Visibility = "both"
    finish: FinishReason | None = None
    """Why an answer ended; None for other messages."""
    usage: Usage | None = None
    """Tokens of the model call that produced an answer."""
    model: str | None = None
    """Model that wrote the answer, as `provider:model`."""
    checkpoint: Checkpoint | None = None
    metadata: Metadata | None = None
    why: Injection | None = None
    """Purpose of an injected message."""
    runtime: int | None = None
    """Milliseconds from the request to the end of the answer."""
    evaluation: Evaluation | None = None
    """Origin of the parts of evaluated instructions."""
    limit: LimitReached | None = None
    """Limit that ended the turn, in the note about it."""

    def __post_init__(self) -> None:
        if self.kind == "checkpoint" and self.checkpoint is None:
            raise ConfigError("a checkpoint message needs its positions: set checkpoint")
        if self.kind == "instructions" and self.evaluation is None:
            raise ConfigError(
                "evaluated instructions need the origin of their parts: set evaluation"
            )

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls among the parts."""
        return tuple([part for part in self.parts if isinstance(part, ToolCall)])

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results among the parts."""
        return tuple([part for part in self.parts if isinstance(part, ToolResult)])


Prompt: TypeAlias = Union[str, Part, Message, Sequence[Part]]
"""Forms in which a caller may pass a user's message."""


def user_message(prompt: Prompt) -> Message:
    """Convert a prompt of any accepted form to a message that starts a turn."""
    if isinstance(prompt, Message):
        if (prompt.role, prompt.kind) != ("user", "prompt"):
            raise ConfigError(
                f"the prompt is a message with role {prompt.role} and kind {prompt.kind}: pass it "
                "as history"
            )
        return prompt
    if not prompt or (isinstance(prompt, str) and not prompt.strip()):
        raise ConfigError(
            "the prompt is empty: pass some text, or no prompt to continue the history"
        )
    if isinstance(prompt, str):
        return Message("user", (Text(prompt),), "prompt")
    parts: tuple[Any, ...]
    listed = isinstance(prompt, Sequence) and not isinstance(prompt, bytes)
    parts = tuple(prompt) if listed else (prompt,)  # type: ignore[arg-type]
    for part in parts:
        if not isinstance(part, (Text, File, Source)):
            how = "use text, or parts such as Text(…)"
            if isinstance(part, Mapping) and "role" in part:
                how = "pass messages as history=, with holdfast.messages.from_openai(…)"
            raise ConfigError(f"a prompt has {part!r} in it: {how}")
        if isinstance(part, File):
            _check_file(part)
    return Message("user", parts, "prompt")


def _check_file(file: File) -> None:
    """Refuse an unusable file here, where the caller can still fix it."""
    name = file.name or "a file"
    if not isinstance(file.data, bytes | None):
        raise ConfigError(f"the data of {name} is a {type(file.data).__name__}: use bytes")
    if file.data is None and file.ref is None:
        raise ConfigError(f"{name} has no bytes: pass data=…, or a reference as ref=…")
    if not isinstance(file.media_type, str) or "/" not in file.media_type:
        raise ConfigError(f"{file.media_type!r} is not a media type: use one such as image/png")


def with_runtime(answer: Message, seconds: float) -> Message:
    """The answer with the duration of its attempt."""
    return msgspec.structs.replace(answer, runtime=round(seconds * 1_000))


def results_message(results: Sequence[ToolResult]) -> Message:
    """A message with the results of tool calls."""
    usages = [result.usage for result in results if result.usage is not None]
    usage = sum(usages[1:], usages[0]) if usages else None
    return Message("tool", tuple(results), "results", usage=usage)


def injected(text: str, why: Injection | None = None) -> Message:
    """A message from the loop to the model. People do not see it, and it does not start a turn."""
    return Message("user", (Text(text),), "injected", "model", why=why)


def marker(kind: MarkerKind) -> Message:
    """A marker: tells the model what happened, in the wording of the agent that continues."""
    return Message("user", (Text(MARKER_TEXTS[kind]),), "marker", "model")


def marker_kind(message: Message) -> MarkerKind | None:
    """The kind of a marker; None for another message, and for a marker with a text of its own."""
    if message.kind != "marker":
        return None
    text = message.text
    return next((kind for kind, stored in MARKER_TEXTS.items() if stored == text), None)


def note(text: str, limit: LimitReached | None = None) -> Message:
    """A message for people; models do not see it."""
    return Message("system", (Text(text),), "note", "user", limit=limit)


# --- JSON ---------------------------------------------------------------------------------------

MESSAGE_FORMAT: Final = 5
"""Version of the message format. 2 added the times of tool results and the runtime of answers; 3
added evaluated instructions; 4 the limit that ended a turn; 5 what tool calls used."""
READABLE_FORMATS: Final = frozenset({1, 2, 3, 4, 5})
"""Versions that can be read. Each is the newest without what later ones added."""

ESCAPE: Final = "\ue000"
"""Escape character: followed by four hexadecimal digits, a code point that stores cannot hold.

Escaped are NUL, lone surrogates and this character itself. It is a private-use character, so real
text hardly ever contains it, and text without any of the three is stored unchanged.
"""
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff\ue000]")
_ESCAPED: Final = re.compile("\ue000([0-9a-f]{4})")
_ESCAPE_UTF8: Final = ESCAPE.encode()
_ESCAPE_ASCII: Final = re.compile(rb"\\u[eE]000")
"""The escape character as a store may write it that re-encodes JSON."""

T = TypeVar("T")


def encode(value: object) -> bytes:
    """Encode any value of the kernel as JSON that every store can hold."""
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate
        return msgspec.json.encode(_escape(msgspec.to_builtins(value)))
    # Searched in the bytes: almost no text needs the escape, and walking every value is slow.
    if b"\\u0000" in data or _ESCAPE_UTF8 in data:
        return msgspec.json.encode(_escape(msgspec.to_builtins(value)))
    return data


def decode(data: bytes | str, type: type[T]) -> T:
    """Decode a value from the JSON that `encode` wrote."""
    try:
        raw = data.encode() if isinstance(data, str) else data
        if _ESCAPE_UTF8 in raw or (b"\\u" in raw and _ESCAPE_ASCII.search(raw)):
            return msgspec.convert(_unescape(msgspec.json.decode(raw)), type)
        return msgspec.json.decode(raw, type=type)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise FormatError(f"this is not JSON written by holdfast: {error}") from None


def prepare_to_decode(*types: Any) -> None:
    """Let msgspec analyze types now, in one thread: doing so in two threads crashes the process."""
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
    """Encode a history as JSON, with the version of its format."""
    history = tuple(messages) if isinstance(messages, Sequence) else (messages,)
    for message in history:
        if not isinstance(message, Message):
            raise FormatError(
                f"{message!r:.80} is not a message: pass the messages of a history, as in "
                "dump(result.history)"
            )
    try:
        return encode(_Stored(MESSAGE_FORMAT, history))
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"the history contains a value that is not JSON: {error}") from error


def load(data: bytes | str) -> tuple[Message, ...]:
    """Decode a history from the JSON that `dump` wrote."""
    if not isinstance(data, (bytes, str)):
        raise FormatError(
            f"a {type(data).__name__} is not a stored history: pass what dump(…) returned"
        )
    version = decode(data, _Version).format
    if version not in READABLE_FORMATS:
        raise FormatError(
            f"this history has format {version}, and this version of holdfast reads up to "
            f"{MESSAGE_FORMAT}: upgrade holdfast"
        )
    return decode(data, _Stored).messages
