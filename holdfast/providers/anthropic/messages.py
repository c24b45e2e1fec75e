"""Encodes a history as messages of the Anthropic Messages API, with alternating roles. Pure."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

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
from holdfast.providers.foreign_messages import (
    call_as_text,
    family,
    file_as_text,
    file_url,
    is_sendable,
    media_type,
    omitted_file,
    provider_of,
    replayable_parts,
)
from holdfast.providers.profile import Family
from holdfast.providers.request_body import JsonObject

DEFAULT_FILES: Final[tuple[Family, ...]] = ("image", "pdf", "text")
"""Files that a model without a known profile accepts."""
IMAGE_TYPES: Final = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
THINKING_BLOCKS: Final = frozenset({"thinking", "redacted_thinking"})
LEADING_USER_TEXT: Final = "[The conversation begins with an answer.]"
"""First message of a conversation that begins with an answer: the API wants a user's."""
EMPTY_MESSAGE_TEXT: Final = "[empty message]"
"""Content of an empty message: the API refuses one without text."""


class MessageEncoder:
    """Encodes messages for one provider. `notices` are for people: what could not be sent."""

    def __init__(self, provider: str, name: str, files: tuple[Family, ...] | None) -> None:
        self.notices: list[str] = []
        self._provider = provider
        self._name = name
        self._files = DEFAULT_FILES if files is None else files

    def write(self, messages: Sequence[Message]) -> list[JsonObject]:
        """The messages with alternating roles: consecutive messages of a role are merged."""
        turns: list[JsonObject] = []
        for message in messages:
            is_answer = message.role == "assistant"
            role = "assistant" if is_answer else "user"
            blocks = self._answer_blocks(message) if is_answer else self._user_blocks(message)
            if turns and turns[-1]["role"] == role:
                turns[-1]["content"] += blocks
            elif blocks:
                turns.append({"role": role, "content": blocks})
        for turn in turns:
            if turn["role"] == "user":  # results must follow their calls directly
                turn["content"].sort(key=lambda block: block["type"] != "tool_result")
        if turns and turns[0]["role"] == "assistant":
            turns.insert(0, {"role": "user", "content": [text_block(LEADING_USER_TEXT)]})
        return turns

    def _user_blocks(self, message: Message) -> list[JsonObject]:
        blocks: list[JsonObject] = []
        for part in message.parts:
            match part:
                case Text(text=text) if text.strip():
                    blocks.append(text_block(text))
                case File():
                    blocks.append(self._file_block(part))
                case Source(url=url, title=title):
                    blocks.append(text_block(f"{title}: {url}" if title else url))
                case ToolResult():
                    blocks.append(self._result_block(part))
                case _:
                    pass
        return blocks or [text_block(EMPTY_MESSAGE_TEXT)]

    def _result_block(self, result: ToolResult) -> JsonObject:
        content: list[JsonObject] = []
        for part in result.content:
            if isinstance(part, File):
                content.append(self._file_block(part))
            elif part.text.strip():
                content.append(text_block(part.text))
        block: JsonObject = {"type": "tool_result", "tool_use_id": _valid_id(result.call_id)}
        only_text = all(part["type"] == "text" for part in content)
        if content:
            block["content"] = content[0]["text"] if only_text and len(content) == 1 else content
        if result.outcome != "ok" and only_text:  # the API accepts no images in a failed result
            block["is_error"] = True
        return block

    def _answer_blocks(self, message: Message) -> list[JsonObject]:
        if provider_of(message) == self._provider:
            blocks = self._own_blocks(message)
        else:
            blocks = [
                self._foreign_block(part) for part in replayable_parts(message, self._provider)
            ]
        sendable = [block for block in blocks if block is not None]
        while (
            sendable and sendable[-1]["type"] in THINKING_BLOCKS
        ):  # the API refuses thinking at the end
            sendable.pop()
        return sendable

    def _foreign_block(self, part: Part) -> JsonObject | None:
        match part:
            case Text(text=text) if text.strip():
                return text_block(text)
            case ToolCall():
                return _call_block(part, {})
            case File():
                return self._omitted_block(part)
            case _:
                return None

    def _own_blocks(self, message: Message) -> list[JsonObject | None]:
        """Blocks of an answer of this provider, exactly as they came."""
        parts = self._in_block_order(message.parts)
        ids = {part.id for part in parts if isinstance(part, ToolCall)}
        results = {part.call_id: part for part in message.results}
        blocks: list[JsonObject | None] = []
        for part in parts:
            note = self._own_metadata(part)
            match part:
                case Text(text=text) if text.strip() and "citations" in note:
                    blocks.append({**text_block(text), "citations": note["citations"]})
                case Reasoning():
                    blocks.append(_thinking_block(part, note))
                case ToolCall(provider_executed=True) if not self._has_raw_block(part, results):
                    blocks.append(text_block(call_as_text(part, results.get(part.id))))
                case ToolCall():
                    blocks.append(_call_block(part, _without_lost_caller(note, ids)))
                case ToolResult(call_id=id) if "block" in note:
                    blocks.append({**note["block"], "tool_use_id": _valid_id(id)})
                case _:
                    blocks.append(self._foreign_block(part))
        return blocks

    def _has_raw_block(self, call: ToolCall, results: Mapping[str, ToolResult]) -> bool:
        """Whether the raw blocks of a call and its result are known.

        An imported history may lack them.
        """
        result = results.get(call.id)
        return "type" in self._own_metadata(call) and (
            result is None or "block" in self._own_metadata(result)
        )

    def _in_block_order(self, parts: Sequence[Part]) -> list[Part]:
        """The parts in the order of their blocks.

        A part without an index follows those before it.
        """
        highest = -1
        indexed: list[tuple[int, Part]] = []
        for part in parts:
            index = self._own_metadata(part).get("index", highest)
            highest = max(highest, index)
            indexed.append((index, part))
        return [part for _, part in sorted(indexed, key=lambda pair: pair[0])]

    def _own_metadata(self, part: Part) -> Mapping[str, Any]:
        note = (part.metadata or {}).get(self._provider)
        return note if isinstance(note, Mapping) else {}

    # --- files ---

    def _file_block(self, file: File) -> JsonObject:
        kind = family(file.media_type)
        block = None
        if kind in self._files and is_sendable(file):
            block = _image_block(file) if kind == "image" else _document_block(file, kind)
        if block is not None:
            return block
        text = file_as_text(file)
        return self._omitted_block(file) if text is None else text_block(text)

    def _omitted_block(self, file: File) -> JsonObject:
        text, notice = omitted_file(file, self._name)
        if family(file.media_type) in self._files and _is_insecure(file):
            name = file.name or "a file"
            text = f"[{name} ({file.media_type}) was left out: it could not be fetched]"
            only = "which fetches only https:// URLs"
            notice = f"{name} was not sent to {self._name}, {only}."
        self.notices.append(notice)
        return text_block(text)


# --- Blocks -------------------------------------------------------------------------------------


def text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _thinking_block(part: Reasoning, note: Mapping[str, Any]) -> JsonObject | None:
    if "block" in note:
        return dict(note["block"])
    if part.signature is None:  # a truncated answer: the API refuses unsigned thinking
        return None
    return {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _call_block(call: ToolCall, note: Mapping[str, Any]) -> JsonObject:
    return {
        "type": note.get("type", "tool_use"),
        "id": _valid_id(call.id),
        "name": _NOT_IN_NAMES.sub("_", call.tool)[:128] or "_",
        "input": _call_input(call.arguments),
        **note.get("extra", {}),
    }


def _without_lost_caller(note: Mapping[str, Any], ids: set[str]) -> Mapping[str, Any]:
    """Metadata of a call that provider-side code made, without the caller if that is not sent."""
    extra = note.get("extra", {})
    caller = extra.get("caller")
    by = caller.get("tool_id") if isinstance(caller, Mapping) else None
    if by is None or by in ids:
        return note
    return {**note, "extra": {key: extra[key] for key in extra if key != "caller"}}


def _call_input(arguments: str) -> JsonObject | msgspec.Raw:
    """The arguments as the model wrote them if they are an object; the API accepts nothing else."""
    if not arguments.strip():
        return {}
    try:
        msgspec.json.decode(arguments, type=dict)
    except (ValueError, RecursionError):
        return {"_raw": arguments}
    return msgspec.Raw(arguments.encode())


_NOT_IN_NAMES: Final = re.compile("[^a-zA-Z0-9_-]")


def _valid_id(id: str) -> str:
    """A valid id: ids of other providers may contain characters that the API refuses."""
    plain = _NOT_IN_NAMES.sub("_", id)
    if plain == id:
        return id
    return f"{plain}_{sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _image_block(file: File) -> JsonObject | None:
    if media_type(file) not in IMAGE_TYPES:
        return None
    source = _source(file)
    return None if source is None else {"type": "image", "source": source}


def _document_block(file: File, kind: Family | None) -> JsonObject | None:
    source: JsonObject | None = None
    if kind == "pdf":
        source = _source(file)
    elif kind == "text" and file_as_text(file) is not None and file.data and file.data.strip():
        source = {"type": "text", "media_type": "text/plain", "data": file.data.decode()}
    if source is None:
        return None
    title = {"title": file.name[:500]} if file.name else {}
    return {"type": "document", "source": source, **title}


def _source(file: File) -> JsonObject | None:
    if file.data:
        data = b64encode(file.data).decode()
        return {"type": "base64", "media_type": media_type(file), "data": data}
    return None if _is_insecure(file) else {"type": "url", "url": file_url(file)}


def _is_insecure(file: File) -> bool:
    """Whether the file has an http:// URL: the API fetches only https://."""
    return (file_url(file) or "").startswith("http://")
