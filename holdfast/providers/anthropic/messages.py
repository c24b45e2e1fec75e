"""Messages of the Anthropic Messages API: a history in, users and the model in turns out. Pure."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, TypeAlias

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
    family,
    in_words,
    left_out,
    media_type,
    provider_of,
    readable,
    sendable,
    spelled_out,
    url_of,
)
from holdfast.providers.profile import Family

Json: TypeAlias = dict[str, Any]

FILES: Final[tuple[Family, ...]] = ("image", "pdf", "text")
IMAGES: Final = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
THINKING: Final = frozenset({"thinking", "redacted_thinking"})
BEGINNING: Final = "[The conversation begins with an answer.]"
"""The API wants the user to speak first."""
EMPTY: Final = "[empty message]"
"""The API takes no message without a word, and wants the user to speak last."""


class Writer:
    """Writes messages for one provider. `notices` are what people should be told about it."""

    def __init__(self, provider: str, name: str, files: tuple[Family, ...] | None) -> None:
        self.notices: list[str] = []
        self._provider = provider
        self._name = name
        self._files = FILES if files is None else files

    def write(self, messages: Sequence[Message]) -> list[Json]:
        """Users and the model in turns, whoever else wrote something."""
        wires: list[Json] = []
        for message in messages:
            is_answer = message.role == "assistant"
            role = "assistant" if is_answer else "user"
            blocks = self._answer(message) if is_answer else self._said(message)
            if wires and wires[-1]["role"] == role:
                wires[-1]["content"] += blocks
            elif blocks:
                wires.append({"role": role, "content": blocks})
        for wire in wires:
            if wire["role"] == "user":  # results stand right behind their calls
                wire["content"].sort(key=lambda block: block["type"] != "tool_result")
        if wires and wires[0]["role"] == "assistant":
            wires.insert(0, {"role": "user", "content": [text_block(BEGINNING)]})
        return wires

    def _said(self, message: Message) -> list[Json]:
        blocks: list[Json] = []
        for part in message.parts:
            match part:
                case Text(text=text) if text.strip():
                    blocks.append(text_block(text))
                case File():
                    blocks.append(self._file(part))
                case Source(url=url, title=title):
                    blocks.append(text_block(f"{title}: {url}" if title else url))
                case ToolResult():
                    blocks.append(self._result(part))
                case _:
                    pass
        return blocks or [text_block(EMPTY)]

    def _result(self, result: ToolResult) -> Json:
        content: list[Json] = []
        for part in result.content:
            if isinstance(part, File):
                content.append(self._file(part))
            elif part.text.strip():
                content.append(text_block(part.text))
        block: Json = {"type": "tool_result", "tool_use_id": _id(result.call_id)}
        only_text = all(part["type"] == "text" for part in content)
        if content:
            block["content"] = content[0]["text"] if only_text and len(content) == 1 else content
        if result.outcome != "ok" and only_text:  # the API takes no picture of an error
            block["is_error"] = True
        return block

    def _answer(self, message: Message) -> list[Json]:
        if provider_of(message) == self._provider:
            blocks = self._own(message)
        else:
            blocks = [self._foreign(part) for part in readable(message, self._provider)]
        made = [block for block in blocks if block is not None]
        while made and made[-1]["type"] in THINKING:  # the API wants something behind a thought
            made.pop()
        return made

    def _foreign(self, part: Part) -> Json | None:
        match part:
            case Text(text=text) if text.strip():
                return text_block(text)
            case ToolCall():
                return _call(part, {})
            case File():
                return self._left_out(part)
            case _:
                return None

    def _own(self, message: Message) -> list[Json | None]:
        """An answer that came from there, block for block as it came."""
        parts = self._in_order(message.parts)
        ids = {part.id for part in parts if isinstance(part, ToolCall)}
        results = {part.call_id: part for part in message.results}
        blocks: list[Json | None] = []
        for part in parts:
            note = self._note(part)
            match part:
                case Text(text=text) if text.strip() and "citations" in note:
                    blocks.append({**text_block(text), "citations": note["citations"]})
                case Reasoning():
                    blocks.append(_thought(part, note))
                case ToolCall(provider_executed=True) if not self._kept(part, results):
                    blocks.append(text_block(in_words(part, results.get(part.id))))
                case ToolCall():
                    blocks.append(_call(part, _reachable(note, ids)))
                case ToolResult(call_id=id) if "block" in note:
                    blocks.append({**note["block"], "tool_use_id": _id(id)})
                case _:
                    blocks.append(self._foreign(part))
        return blocks

    def _kept(self, call: ToolCall, results: Mapping[str, ToolResult]) -> bool:
        """Whether we have what the API wants back. A record that others made may lack it."""
        result = results.get(call.id)
        return "type" in self._note(call) and (result is None or "block" in self._note(result))

    def _in_order(self, parts: Sequence[Part]) -> list[Part]:
        """As the blocks came. One without a number stood behind all that are before it here."""
        last = -1
        placed: list[tuple[int, Part]] = []
        for part in parts:
            place = self._note(part).get("index", last)
            last = max(last, place)
            placed.append((place, part))
        return [part for _, part in sorted(placed, key=lambda pair: pair[0])]

    def _note(self, part: Part) -> Mapping[str, Any]:
        note = (part.metadata or {}).get(self._provider)
        return note if isinstance(note, Mapping) else {}

    # --- files ---

    def _file(self, file: File) -> Json:
        kind = family(file.media_type)
        block = None
        if kind in self._files and sendable(file):
            block = _image(file) if kind == "image" else _document(file, kind)
        if block is not None:
            return block
        text = spelled_out(file)
        return self._left_out(file) if text is None else text_block(text)

    def _left_out(self, file: File) -> Json:
        text, notice = left_out(file, self._name)
        if family(file.media_type) in self._files and _is_insecure(file):
            name = file.name or "a file"
            text = f"[{name} ({file.media_type}) was left out: it could not be fetched]"
            only = "which fetches only from https:// addresses"
            notice = f"{name} was not sent to {self._name}, {only}."
        self.notices.append(notice)
        return text_block(text)


# --- Blocks -------------------------------------------------------------------------------------


def text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def _thought(part: Reasoning, note: Mapping[str, Any]) -> Json | None:
    if "block" in note:
        return dict(note["block"])
    if part.signature is None:  # an answer that was cut off: the API takes no unsigned thought
        return None
    return {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _call(call: ToolCall, note: Mapping[str, Any]) -> Json:
    return {
        "type": note.get("type", "tool_use"),
        "id": _id(call.id),
        "name": _NOT_IN_NAMES.sub("_", call.tool)[:128] or "_",
        "input": _input(call.arguments),
        **note.get("extra", {}),
    }


def _reachable(note: Mapping[str, Any], ids: set[str]) -> Mapping[str, Any]:
    """A call that code made over there, without that code when it is no longer told."""
    extra = note.get("extra", {})
    caller = extra.get("caller")
    by = caller.get("tool_id") if isinstance(caller, Mapping) else None
    if by is None or by in ids:
        return note
    return {**note, "extra": {key: extra[key] for key in extra if key != "caller"}}


def _input(arguments: str) -> Json | msgspec.Raw:
    """The arguments letter by letter, where they are an object. The API takes nothing else."""
    if not arguments.strip():
        return {}
    try:
        msgspec.json.decode(arguments, type=dict)
    except (ValueError, RecursionError):
        return {"_raw": arguments}
    return msgspec.Raw(arguments.encode())


_NOT_IN_NAMES: Final = re.compile("[^a-zA-Z0-9_-]")


def _id(id: str) -> str:
    """Ids of other providers may have letters that are not taken here."""
    plain = _NOT_IN_NAMES.sub("_", id)
    if plain == id:
        return id
    return f"{plain}_{sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _image(file: File) -> Json | None:
    if media_type(file) not in IMAGES:
        return None
    source = _source(file)
    return None if source is None else {"type": "image", "source": source}


def _document(file: File, kind: Family | None) -> Json | None:
    source: Json | None = None
    if kind == "pdf":
        source = _source(file)
    elif kind == "text" and spelled_out(file) is not None and file.data and file.data.strip():
        source = {"type": "text", "media_type": "text/plain", "data": file.data.decode()}
    if source is None:
        return None
    title = {"title": file.name[:500]} if file.name else {}
    return {"type": "document", "source": source, **title}


def _source(file: File) -> Json | None:
    if file.data:
        data = b64encode(file.data).decode()
        return {"type": "base64", "media_type": media_type(file), "data": data}
    return None if _is_insecure(file) else {"type": "url", "url": url_of(file)}


def _is_insecure(file: File) -> bool:
    """The API fetches nothing that anybody on the way could have changed."""
    return (url_of(file) or "").startswith("http://")
