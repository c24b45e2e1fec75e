"""Encodes messages for the Gemini API, as contents that consist of parts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

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
    call_as_text,
    family,
    file_text_or_notice,
    file_url,
    is_sendable,
    media_type,
    replayable_parts,
)
from holdfast.providers.profile import Family, Profile
from holdfast.providers.request_body import JsonObject

FOREIGN_SIGNATURE: Final = "skip_thought_signature_validator"
"""Signature that Google documents for calls that another provider's model wrote."""
LEADING_USER_TEXT: Final = "(The conversation begins with an answer.)"
"""First message of a history that does not begin with the user, as the API requires."""
SUPPORTED_FILES: Final[tuple[Family, ...]] = ("image", "pdf", "audio", "video")
"""Kinds of files that are sent as files. Text files are sent as text: not all types are
accepted."""
IMAGE_TYPES: Final = frozenset(
    {"image/heic", "image/heif", "image/jpeg", "image/png", "image/webp"}
)
RESULT_FILE_TYPES: Final = frozenset({"application/pdf", "image/jpeg", "image/png", "image/webp"})
"""Media types that the result of a call can contain."""
_MEDIA_TYPE_ALIASES: Final = {"audio/x-wav": "audio/wav"}
MAX_NAME_LENGTH: Final = 128
_UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9_.:-]")


class ContentsEncoder:
    """Encodes the messages of one request.

    Remembers the ids of calls, because results repeat them.
    """

    def __init__(self, name: str, provider: str, profile: Profile, notices: list[str]) -> None:
        self._name = name
        self._provider = provider
        self._files = SUPPORTED_FILES if profile.files is None else profile.files
        self._notices = notices
        options = profile.options
        self._needs_signatures = options.get(
            "signatures", options.get("thinking", "level") == "level"
        )
        self._files_in_results = options.get("result_files", options.get("signatures", False))
        self._mixes_tools = options.get("mix_tools", True)
        self._ids: dict[str, str | None] = {}
        """API ids of the calls so far, by our ids; None if the API gave none."""

    def encode(self, messages: Sequence[Message]) -> list[JsonObject]:
        """The contents of a request, with alternating roles."""
        contents: list[JsonObject] = []
        last = ""
        for message in messages:
            for speaker, parts in self._turns_of(message):
                if not parts:
                    continue
                if speaker == last:
                    contents[-1]["parts"] += parts
                else:
                    role = "model" if speaker == "model" else "user"
                    contents.append({"role": role, "parts": parts})
                    last = speaker
        if not contents or contents[0]["role"] == "model":
            contents.insert(0, {"role": "user", "parts": [{"text": LEADING_USER_TEXT}]})
        return contents

    def _turns_of(self, message: Message) -> Iterator[tuple[str, list[JsonObject]]]:
        """The turns in a message: speaker and parts.

        Results are a separate content: the API takes other parts in it for the model's own words.
        """
        match message.role:
            case "assistant":
                yield "model", self._answer_parts(message)
            case "tool":
                files: list[JsonObject] = []
                yield "results", [self._result_part(result, files) for result in message.results]
                yield "user", files
            case _:
                yield (
                    "user",
                    [encoded for part in message.parts for encoded in self._user_parts(part)],
                )

    def _user_parts(self, part: Part) -> list[JsonObject]:
        match part:
            case Text(text=text):
                return [{"text": text}] if text else []
            case File():
                return [self._file_part(part)]
            case Source(url=url, title=title):
                return [{"text": f"[{title or 'source'}: {url}]"}]
            case _:
                return []

    # --- Answers ---

    def _answer_parts(self, message: Message) -> list[JsonObject]:
        results = {part.call_id: part for part in message.results}
        parts: list[JsonObject] = []
        for part in replayable_parts(message, self._provider):
            parts += self._replayed_parts(part, results)
        if self._needs_signatures:
            _sign_first_call(parts)
        return parts

    def _replayed_parts(self, part: Part, results: Mapping[str, ToolResult]) -> list[JsonObject]:
        own = self._own_metadata(part.metadata)
        match part:
            case Text(text=text):
                return _text_parts(text, own.get("thoughtSignature"), own.get("signed"))
            case Reasoning() if "part" in own:
                return [dict(own["part"])]
            case Reasoning(text=text, signature=str(signature)):
                return _text_parts(text, signature, own.get("signed"), thought=True)
            case ToolCall(provider_executed=True) | ToolResult():
                return self._executed_parts(part, own.get("part"), results)
            case ToolCall():
                return [self._call_part(part, own)]
            case File():
                return [self._file_part(part)]
            case _:  # unsigned reasoning is refused, and sources have no form in a request
                return []

    def _call_part(self, call: ToolCall, own: Metadata) -> JsonObject:
        id = self._ids[call.id] = own.get("id")
        function = {"name": nameable(call.tool), "args": _arguments(call.arguments)}
        part: JsonObject = {"functionCall": function if id is None else {"id": id, **function}}
        if "thoughtSignature" in own:
            part["thoughtSignature"] = own["thoughtSignature"]
        return part

    def _executed_parts(
        self, part: ToolCall | ToolResult, raw: Metadata | None, results: Mapping[str, ToolResult]
    ) -> list[JsonObject]:
        """Parts of a tool that the API ran.

        They are sent back unchanged, or as text to a model that does not accept them.
        """
        if part.tool == "media_processing":
            return []  # refused in a request; the model reads the file again
        if raw is not None and (
            self._mixes_tools or raw.keys().isdisjoint(("toolCall", "toolResponse"))
        ):
            return [dict(raw)]
        if isinstance(part, ToolCall):
            return [{"text": call_as_text(part, results.get(part.id))}]
        return []

    def _own_metadata(self, metadata: Metadata | None) -> Metadata:
        own = metadata.get(self._provider) if metadata else None
        return own if isinstance(own, Mapping) else {}

    # --- Results and files ---

    def _result_part(self, result: ToolResult, files: list[JsonObject]) -> JsonObject:
        """The result of a call. Files that it cannot contain are added to `files`, to follow it."""
        texts: list[str] = []
        inline: list[JsonObject] = []
        for content in result.content:
            if isinstance(content, Text):
                texts.append(content.text)
                continue
            encoded = self._file_part(content)
            if "text" in encoded:
                texts.append(encoded["text"])
            elif (
                self._files_in_results
                and "inlineData" in encoded
                and _media_type(content) in RESULT_FILE_TYPES
            ):
                inline.append({"inlineData": encoded["inlineData"]})
            else:
                files += ({"text": f"[{content.name or 'a file'}, from {result.tool}:]"}, encoded)
        key = "output" if result.outcome == "ok" else "error"
        response: JsonObject = {"name": nameable(result.tool), "response": {key: "\n".join(texts)}}
        id = self._ids.get(result.call_id)
        if id is not None:
            response = {"id": id, **response}
        if inline:
            response["parts"] = inline
        return {"functionResponse": response}

    def _file_part(self, file: File) -> JsonObject:
        if self._accepts_file(file):
            kind, own = _media_type(file), self._own_metadata(file.metadata)
            if file.data is None:
                return {"fileData": {"mimeType": kind, "fileUri": file_url(file)}, **own}
            return {"inlineData": {"mimeType": kind, "data": file.data}, **own}
        return {"text": file_text_or_notice(file, self._name, self._notices)}

    def _accepts_file(self, file: File) -> bool:
        kind = family(file.media_type)
        is_supported = kind in self._files and kind in SUPPORTED_FILES
        return (
            is_supported
            and is_sendable(file)
            and (kind != "image" or _media_type(file) in IMAGE_TYPES)
        )


def nameable(name: str) -> str:
    """A valid name of a function, the same for a call and its result.

    A model may call a function by any name, and the history keeps it.
    """
    valid = _UNNAMEABLE.sub("_", name) or "unnamed"
    return (valid if valid[0].isalpha() or valid[0] == "_" else f"_{valid}")[:MAX_NAME_LENGTH]


def _text_parts(
    text: str, signature: str | None, signed: int | None, *, thought: bool = False
) -> list[JsonObject]:
    """Parts of a text. Its signed end is a part of its own: nothing may be merged with that."""
    kind = {"thought": True} if thought else {}
    if signature is None:
        return [{"text": text, **kind}] if text else []
    at = 0 if signed is None else max(0, len(text) - signed)
    before = [{"text": text[:at], **kind}] if at else []
    return [*before, {"text": text[at:], **kind, "thoughtSignature": signature}]


def _sign_first_call(parts: list[JsonObject]) -> None:
    """Sign the first call of an answer if it is not signed.

    It is unsigned if another provider's model wrote it, or an older Gemini, which signed whichever
    part came first.
    """
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None:
        first.setdefault("thoughtSignature", FOREIGN_SIGNATURE)


def _arguments(text: str) -> msgspec.Raw | JsonObject:
    """Arguments as the model wrote them, or an object that contains them.

    The API accepts only objects.
    """
    try:
        if isinstance(msgspec.json.decode(text), dict):
            return msgspec.Raw(text.encode())
    except (ValueError, RecursionError):
        pass
    return {"_raw": text} if text.strip() else {}


def _media_type(file: File) -> str:
    kind = media_type(file)
    return _MEDIA_TYPE_ALIASES.get(kind, kind)
