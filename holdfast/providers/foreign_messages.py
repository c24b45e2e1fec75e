"""Converts messages of one provider into what another provider can be sent. Pure."""

from __future__ import annotations

from base64 import b64encode
from typing import Final

from holdfast.kernel.messages import (
    File,
    Message,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.kernel.model import Shape
from holdfast.providers.profile import Family
from holdfast.providers.request_body import encoded


def provider_of(message: Message) -> str | None:
    """Provider that wrote an answer, if the answer names one."""
    return message.model.partition(":")[0] if message.model else None


def replayable_parts(message: Message, provider: str) -> tuple[Part, ...]:
    """The parts of an answer that this provider accepts.

    Answers of this provider are replayed as they are. From answers of other providers, reasoning is
    left out, since only the provider that signed it accepts it, and tools that the other provider
    ran are described as text. The history keeps everything, so a chat that returns to the other
    provider loses nothing.
    """
    if provider_of(message) == provider:
        return message.parts
    results = {part.call_id: part for part in message.results if part.provider_executed}
    parts: list[Part] = []
    for part in message.parts:
        match part:
            case Reasoning() | Source():
                continue
            case ToolResult(provider_executed=True):
                continue
            case ToolCall(provider_executed=True):
                parts.append(Text(call_as_text(part, results.get(part.id))))
            case _:
                parts.append(part)
    return tuple(parts)


def call_as_text(call: ToolCall, result: ToolResult | None) -> str:
    """Text that describes a call that a provider ran, for a provider that does not know it."""
    outcome = result.text if result is not None else "no result"
    return f"[{call.tool} {call.arguments} → {outcome}]"


def shape_instruction(shape: Shape) -> str:
    """Instruction to answer in a given shape, for a model that cannot be held to a schema."""
    about = f"\n{shape.description}" if shape.description else ""
    return (
        "When you give your answer, give it as JSON that fits the following JSON schema, and "
        f"nothing else: no text around it, no code fence.{about}\n{encoded(shape.schema).decode()}"
    )


# --- Files --------------------------------------------------------------------------------------

_TEXT_TYPES: Final = frozenset(
    {
        "application/javascript",
        "application/json",
        "application/sql",
        "application/toml",
        "application/x-sh",
        "application/x-yaml",
        "application/xml",
        "application/yaml",
    }
)
"""Media types of text that do not begin with `text/`."""


def media_type(file: File) -> str:
    """Media type of a file, as providers spell it."""
    return _normalized(file.media_type)


def _normalized(media_type: str) -> str:
    kind = media_type.partition(";")[0].strip().lower()
    return "image/jpeg" if kind == "image/jpg" else kind


def is_sendable(file: File) -> bool:
    """Whether a file can be sent: it has bytes, or a URL that the provider can fetch."""
    return bool(file.data) or file_url(file) is not None


def family(media_type: str) -> Family | None:
    """Kind of a file by its media type; None for kinds that no model reads."""
    kind = _normalized(media_type)
    top = kind.partition("/")[0]
    if top in ("image", "audio", "video"):
        return top  # type: ignore[return-value]
    if kind == "application/pdf":
        return "pdf"
    if top == "text" or kind in _TEXT_TYPES or kind.endswith(("+json", "+xml")):
        return "text"
    return None


def file_url(file: File) -> str | None:
    """URL at which the provider can fetch a file whose bytes are not in the history."""
    ref = file.ref or ""
    return ref if file.data is None and ref.startswith(("https://", "http://")) else None


def file_as_text(file: File) -> str | None:
    """A text file as text; None for other files."""
    if file.data is None or family(file.media_type) != "text":
        return None
    try:
        text = file.data.decode()
    except UnicodeDecodeError:
        return None
    return f"<file name={file.name or 'unnamed'!r}>\n{text}\n</file>"


def data_url(file: File) -> str | None:
    """A file as a `data:` URL; None if its bytes are not in the history."""
    if file.data is None:
        return None
    return f"data:{media_type(file)};base64,{b64encode(file.data).decode()}"


def file_text_or_notice(file: File, model: str, notices: list[str]) -> str:
    """Text for a model that does not take this file as a file.

    The file itself if it is text; otherwise a note, with a notice for people.
    """
    text = file_as_text(file)
    if text is None:
        text, notice = omitted_file(file, model)
        notices.append(notice)
    return text


def omitted_file(file: File, model: str) -> tuple[str, str]:
    """Text that the model reads in place of a file it does not take, and the notice for people."""
    name, kind = file.name or "a file", file.media_type or "of no type"
    if file.data is None and file_url(file) is None:
        return (
            f"[{name} ({kind}) is not available]",
            f"{name} was not sent to {model}: its bytes are missing, give them as data=…",
        )
    if file.data == b"":
        return f"[{name} ({kind}) is empty]", f"{name} was not sent to {model}: it is empty."
    if file.data is not None and family(file.media_type) == "text":
        return (
            f"[{name} ({kind}) was left out: it is not encoded in UTF-8]",
            f"{name} was not sent to {model}: it is not encoded in UTF-8.",
        )
    return (
        f"[{name} ({kind}) was left out: this model cannot read it]",
        f"{name} was not sent to {model}, which does not take {kind}.",
    )
