"""Message lists of the Anthropic Messages API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.kernel.messages import (
    File,
    FinishReason,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.providers.message_formats.list_reader import Fields, ListReader, sendable

PROVIDER: Final = "anthropic"
STANDARD_CALL_FIELDS: Final = frozenset({"type", "id", "name", "input", "cache_control"})


def from_anthropic(
    messages: Sequence[Mapping[str, Any]], *, model: str = PROVIDER
) -> tuple[Message, ...]:
    """Convert messages of the Anthropic Messages API to a history.

    Pass its `system` field as `instructions` of the agent. `model` is the model that wrote the
    answers, as `provider:model`: reasoning is sent back to its provider only. All problems are
    reported at once, with positions.
    """
    reader = ListReader("the Anthropic Messages API")
    for where, fields in reader.messages(messages):
        match fields.get("role"):
            case "assistant":
                _read_answer(reader, where, fields, model)
            case "user":
                _read_user(reader, where, fields)
            case "system":
                parts = _plain(reader, f"{where}.content", fields.get("content"))
                reader.history.append(Message("system", parts, "context", "model"))
            case role:
                reader.problem(f"{where}.role", f"is {role!r}: use user, assistant or system")
    return reader.done()


def to_anthropic(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Convert a history to messages of the Anthropic Messages API, as a model would get them.

    Content that the format cannot hold is described in words. Reasoning of other providers is left
    out.
    """
    from holdfast.providers.anthropic.messages import MessageEncoder

    written = MessageEncoder(PROVIDER, PROVIDER, None).write(sendable(messages))
    plain: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(written))
    return plain


def _blocks(reader: ListReader, where: str, content: Any) -> list[tuple[str, Fields]]:
    if isinstance(content, str):
        return [(where, {"type": "text", "text": content})]
    return list(reader.objects(where, () if content is None else content))


def _read_user(reader: ListReader, where: str, fields: Fields) -> None:
    """Results become a message of their own, before the prompt."""
    prompt: list[Part] = []
    blocks = _blocks(reader, f"{where}.content", fields.get("content"))
    if not blocks:
        reader.problem(f"{where}.content", "is empty")
    for here, block in blocks:
        if block.get("type") == "tool_result":
            content = _plain(reader, f"{here}.content", block.get("content"))
            id = reader.text(here, block, "tool_use_id")
            failed = bool(block.get("is_error"))
            reader.add_result(f"{here}.tool_use_id", id, content, failed=failed)
        else:
            prompt += _part(reader, here, block)
    if prompt:
        reader.history.append(Message("user", tuple(prompt), "prompt"))


def _plain(reader: ListReader, where: str, content: Any) -> tuple[Text | File, ...]:
    """Content of a result or a system message."""
    blocks = _blocks(reader, where, content)
    return tuple(part for here, block in blocks for part in _part(reader, here, block))


def _part(reader: ListReader, where: str, block: Fields) -> list[Text | File]:
    match block.get("type"):
        case "text":
            return [Text(reader.text(where, block, "text"))]
        case "image" | "document":
            file = _file(reader, where, block)
            return [] if file is None else [file]
        case kind:
            reader.problem(
                f"{where}.type", f"is {kind!r}: use text, image, document or tool_result"
            )
            return []


def _file(reader: ListReader, where: str, block: Fields) -> File | None:
    source = block.get("source")
    source = source if isinstance(source, Mapping) else {}
    here, name, image = f"{where}.source", block.get("title"), block["type"] == "image"
    match source.get("type"):
        case "base64":
            media_type = reader.text(here, source, "media_type")
            data = reader.text(here, source, "data")
            return File(media_type, name, reader.bytes(f"{here}.data", data))
        case "text":
            return File("text/plain", name, reader.text(here, source, "data").encode())
        case "url":
            url = reader.text(here, source, "url")
            return File(_type_of_url(url) if image else "application/pdf", name, ref=url)
        case "file":
            reader.problem(here, "is a stored file: pass its bytes as base64")
        case kind:
            reader.problem(f"{here}.type", f"is {kind!r}: use base64, text or url")
    return None


def _type_of_url(url: str) -> str:
    from holdfast.kernel.media_type import guess

    guessed = guess(url.partition("?")[0], None) or ""
    return guessed if guessed.startswith("image/") else "image/jpeg"


def _read_answer(reader: ListReader, where: str, fields: Fields, model: str) -> None:
    parts: list[Part] = []
    blocks = _blocks(reader, f"{where}.content", fields.get("content"))
    for at, (here, block) in enumerate(blocks):
        parts += _answer_part(reader, here, block, at)
    if not blocks:
        reader.problem(f"{where}.content", "is empty")
    own = any(isinstance(part, ToolCall) and not part.provider_executed for part in parts)
    finish: FinishReason = "tool_calls" if own else "stop"
    reader.history.append(Message("assistant", tuple(parts), "answer", finish=finish, model=model))


def _answer_part(reader: ListReader, where: str, block: Fields, at: int) -> list[Part]:
    kind = str(block.get("type"))
    if kind == "text":
        return [Text(reader.text(where, block, "text"), _metadata(at, block, "citations"))]
    if kind == "thinking":
        text = reader.text(where, block, "thinking")
        return [Reasoning(text, block.get("signature"), metadata=_note(at, {}))]
    if kind == "redacted_thinking":
        return [Reasoning("", metadata=_note(at, {"block": dict(block)}))]
    if kind.endswith("tool_use"):
        return [_call(reader, where, block, at)]
    if kind.endswith("_tool_result"):
        return [_provider_result(reader, where, block, at)]
    reader.problem(f"{where}.type", f"is {kind!r}, which is not a block of an answer")
    return []


def _note(at: int, note: Mapping[str, Any]) -> Mapping[str, Any]:
    """Metadata of a block, with its position: text and tools of the provider may alternate."""
    return {PROVIDER: {**note, "index": at}}


def _metadata(at: int, block: Fields, *names: str) -> Mapping[str, Any]:
    return _note(at, {name: block[name] for name in names if block.get(name)})


def _call(reader: ListReader, where: str, block: Fields, at: int) -> ToolCall:
    kind, arguments = str(block["type"]), block.get("input")
    if not isinstance(arguments, Mapping):
        reader.problem(f"{where}.input", "is missing" if arguments is None else "is not an object")
        arguments = {}
    id, tool = reader.text(where, block, "id"), reader.text(where, block, "name")
    call = reader.call(f"{where}.id", id, tool, msgspec.json.encode(arguments).decode())
    own = kind == "tool_use"
    note: dict[str, Any] = {} if own else {"type": kind}
    extra = {key: value for key, value in block.items() if key not in STANDARD_CALL_FIELDS}
    if extra:
        note["extra"] = extra
    return msgspec.structs.replace(call, provider_executed=not own, metadata=_note(at, note))


def _provider_result(reader: ListReader, where: str, block: Fields, at: int) -> ToolResult:
    """The result of a tool that the provider ran, kept exactly as it came."""
    from holdfast.providers.anthropic.decoder import result_text

    text = result_text(block.get("content"))
    return ToolResult(
        reader.text(where, block, "tool_use_id"),
        str(block["type"]).removesuffix("_tool_result"),
        (Text(text),),
        "failed" if block.get("is_error") else "ok",
        provider_executed=True,
        metadata=_note(at, {"block": dict(block)}),
    )
