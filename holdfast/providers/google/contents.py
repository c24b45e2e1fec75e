"""Encodes messages for the Gemini API: contents, each made of parts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.kernel.messages import (
    File,
    Message,
    Metadata,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.providers.foreign_messages import (
    family,
    file_in_words,
    in_words,
    media_type,
    readable,
    sendable,
    url_of,
)
from holdfast.providers.profile import Family, Profile

Wire = dict[str, Any]
"""A JSON object as it goes over the wire."""

UNSIGNED: Final = "skip_thought_signature_validator"
"""What Google documents as the signature of calls that no Gemini wrote."""
BEGINNING: Final = "(The conversation begins with an answer.)"
"""Said first where a history does not begin with its user, who has to."""
FILES: Final[tuple[Family, ...]] = ("image", "pdf", "audio", "video")
"""Taken as files. Text is spelled out instead: not every kind of it is taken."""
IMAGES: Final = frozenset({"image/heic", "image/heif", "image/jpeg", "image/png", "image/webp"})
IN_RESULTS: Final = frozenset({"application/pdf", "image/jpeg", "image/png", "image/webp"})
"""What the result of a call can hold."""
_SAME: Final = {"audio/x-wav": "audio/wav"}
MAX_NAME: Final = 128
_UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9_.:-]")


class Contents:
    """The messages of one request. Remembers the ids of calls, because results repeat them."""

    def __init__(self, name: str, provider: str, profile: Profile, notices: list[str]) -> None:
        self._name = name
        self._provider = provider
        self._files = FILES if profile.files is None else profile.files
        self._notices = notices
        options = profile.options
        self._signs = options.get("signatures", options.get("thinking", "level") == "level")
        self._rich = options.get("result_files", options.get("signatures", False))
        self._mixes = options.get("mix_tools", True)
        self._ids: dict[str, str | None] = {}
        """Of each call so far: the id that the API gave it."""

    def of(self, messages: Sequence[Message]) -> list[Wire]:
        contents: list[Wire] = []
        last = ""
        for message in messages:
            for speaker, parts in self._said(message):
                if not parts:
                    continue
                if speaker == last:
                    contents[-1]["parts"] += parts
                else:
                    role = "model" if speaker == "model" else "user"
                    contents.append({"role": role, "parts": parts})
                    last = speaker
        if not contents or contents[0]["role"] == "model":
            contents.insert(0, {"role": "user", "parts": [{"text": BEGINNING}]})
        return contents

    def _said(self, message: Message) -> Iterator[tuple[str, list[Wire]]]:
        """Who says what. Results are a content of their own: the API takes whatever else is in it
        for the model's own words."""
        match message.role:
            case "assistant":
                yield "model", self._answer(message)
            case "tool":
                files: list[Wire] = []
                yield "results", [self._result(result, files) for result in message.results]
                yield "user", files
            case _:
                yield "user", [said for part in message.parts for said in self._prompt(part)]

    def _prompt(self, part: Part) -> list[Wire]:
        match part:
            case Text(text=text):
                return [{"text": text}] if text else []
            case File():
                return [self._file(part)]
            case Source(url=url, title=title):
                return [{"text": f"[{title or 'source'}: {url}]"}]
            case _:
                return []

    # --- Answers ---

    def _answer(self, message: Message) -> list[Wire]:
        results = {part.call_id: part for part in message.results}
        parts: list[Wire] = []
        for part in readable(message, self._provider):
            parts += self._answered(part, results)
        if self._signs:
            _sign(parts)
        return parts

    def _answered(self, part: Part, results: Mapping[str, ToolResult]) -> list[Wire]:
        own = self._own(part.metadata)
        match part:
            case Text(text=text):
                return _texts(text, own.get("thoughtSignature"), own.get("signed"))
            case Reasoning() if "part" in own:
                return [dict(own["part"])]
            case Reasoning(text=text, signature=str(signature)):
                return _texts(text, signature, own.get("signed"), thought=True)
            case ToolCall(provider_executed=True) | ToolResult():
                return self._executed(part, own.get("part"), results)
            case ToolCall():
                return [self._call(part, own)]
            case File():
                return [self._file(part)]
            case _:  # reasoning that nobody signed is not taken back, and sources never were said
                return []

    def _call(self, call: ToolCall, own: Metadata) -> Wire:
        id = self._ids[call.id] = own.get("id")
        said = {"name": nameable(call.tool), "args": _arguments(call.arguments)}
        part: Wire = {"functionCall": said if id is None else {"id": id, **said}}
        if "thoughtSignature" in own:
            part["thoughtSignature"] = own["thoughtSignature"]
        return part

    def _executed(
        self, part: ToolCall | ToolResult, raw: Metadata | None, results: Mapping[str, ToolResult]
    ) -> list[Wire]:
        """What the API ran itself: as it came, or in words for a model that does not take that."""
        if part.tool == "media_processing":
            return []  # refused when it is sent back; the model looks at the file again
        if raw is not None and (self._mixes or raw.keys().isdisjoint(("toolCall", "toolResponse"))):
            return [dict(raw)]
        if isinstance(part, ToolCall):
            return [{"text": in_words(part, results.get(part.id))}]
        return []

    def _own(self, metadata: Metadata | None) -> Metadata:
        own = metadata.get(self._provider) if metadata else None
        return own if isinstance(own, Mapping) else {}

    # --- Results and files ---

    def _result(self, result: ToolResult, files: list[Wire]) -> Wire:
        """The result of a call. What it cannot hold is added to `files`, to be said behind it."""
        texts: list[str] = []
        held: list[Wire] = []
        for content in result.content:
            if isinstance(content, Text):
                texts.append(content.text)
                continue
            said = self._file(content)
            if "text" in said:
                texts.append(said["text"])
            elif self._rich and "inlineData" in said and _media_type(content) in IN_RESULTS:
                held.append({"inlineData": said["inlineData"]})
            else:
                files += ({"text": f"[{content.name or 'a file'}, from {result.tool}:]"}, said)
        key = "output" if result.outcome == "ok" else "error"
        response: Wire = {"name": nameable(result.tool), "response": {key: "\n".join(texts)}}
        id = self._ids.get(result.call_id)
        if id is not None:
            response = {"id": id, **response}
        if held:
            response["parts"] = held
        return {"functionResponse": response}

    def _file(self, file: File) -> Wire:
        if self._takes(file):
            kind, own = _media_type(file), self._own(file.metadata)
            if file.data is None:
                return {"fileData": {"mimeType": kind, "fileUri": url_of(file)}, **own}
            return {"inlineData": {"mimeType": kind, "data": file.data}, **own}
        return {"text": file_in_words(file, self._name, self._notices)}

    def _takes(self, file: File) -> bool:
        kind = family(file.media_type)
        taken = kind in self._files and kind in FILES
        return taken and sendable(file) and (kind != "image" or _media_type(file) in IMAGES)


def nameable(name: str) -> str:
    """A name that a function can have. Of a call and of its result, so that they stay together:
    a model may call what does not exist by any name, and the history keeps that."""
    made = _UNNAMEABLE.sub("_", name) or "unnamed"
    return (made if made[0].isalpha() or made[0] == "_" else f"_{made}")[:MAX_NAME]


def _texts(
    text: str, signature: str | None, signed: int | None, *, thought: bool = False
) -> list[Wire]:
    """Text as it came. The end of it that was signed is a part of its own: nothing may be merged
    with that."""
    kind = {"thought": True} if thought else {}
    if signature is None:
        return [{"text": text, **kind}] if text else []
    at = 0 if signed is None else max(0, len(text) - signed)
    before = [{"text": text[:at], **kind}] if at else []
    return [*before, {"text": text[at:], **kind, "thoughtSignature": signature}]


def _sign(parts: list[Wire]) -> None:
    """The first call of an answer has to be signed itself, which one that no Gemini wrote is not,
    nor one of an older Gemini, which signed what came first."""
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None:
        first.setdefault("thoughtSignature", UNSIGNED)


def _arguments(text: str) -> msgspec.Raw | Wire:
    """Arguments as the model wrote them. The API takes an object: what is none is kept in one."""
    try:
        if isinstance(msgspec.json.decode(text), dict):
            return msgspec.Raw(text.encode())
    except (ValueError, RecursionError):
        pass
    return {"_raw": text} if text.strip() else {}


def _media_type(file: File) -> str:
    kind = media_type(file)
    return _SAME.get(kind, kind)
