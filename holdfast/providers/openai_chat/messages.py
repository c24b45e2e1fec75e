"""Encodes a conversation as the messages of a chat completion. Pure."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from string import ascii_letters, digits
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.kernel.messages import (
    File,
    Message,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Value,
)
from holdfast.kernel.model import Effort, Request
from holdfast.providers.foreign_messages import (
    call_as_text,
    data_url,
    family,
    file_text_or_notice,
    file_url,
    is_sendable,
    media_type,
    provider_of,
    replayable_parts,
)
from holdfast.providers.openai_chat.quirks import Quirks
from holdfast.providers.openai_chat.reasoning_details import add_detail
from holdfast.providers.profile import Profile
from holdfast.providers.request_body import JsonObject
from holdfast.providers.tool_schema import nameable

BRIDGE_TEXT: Final = "I have read the results."
"""Answer that is inserted where a user may not follow results."""
EMPTY_RESULT_TEXT: Final = "[no text]"
FILES_FOLLOW_TEXT: Final = "[sent in the next message]"

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")
_NINE_CHARACTERS: Final = re.compile(r"[A-Za-z0-9]{9}")
_LETTERS: Final = digits + ascii_letters


class ChatEndpoint(Value, frozen=True):
    """The endpoint and model that a request is for."""

    provider: str
    model: str
    profile: Profile
    quirks: Quirks

    @property
    def name(self) -> str:
        return f"{self.provider}:{self.model}"

    @property
    def efforts(self) -> tuple[Effort, ...] | None:
        """Efforts of the model, or else of the endpoint; None if unknown."""
        efforts = self.profile.efforts
        return self.quirks.efforts if efforts is None else efforts

    @property
    def ignores_efforts(self) -> bool:
        """Whether an unsupported effort is ignored instead of refused: a template skips it."""
        return self.quirks.effort == "template"

    def effort(self, requested: Effort | None) -> Effort | None:
        """The effort to send: the requested one, or the nearest supported one."""
        return replace(self.profile, efforts=self.efforts).effort(requested)


def conversation(
    request: Request, endpoint: ChatEndpoint, instruction: str | None = None
) -> tuple[list[JsonObject], list[str]]:
    """The messages, and notices for people.

    `instruction` is added at the end of the system prefix.
    """
    writer = _ConversationEncoder(endpoint)
    system = [block.text for block in request.system if block.text]
    if instruction is not None:
        system.append(instruction)
    if system:
        role = endpoint.quirks.system_role
        writer.messages.append({"role": role, "content": "\n\n".join(system)})
    for message in request.messages:
        writer.write(message)
    return writer.done(), writer.notices


class _ConversationEncoder:
    """Encodes the messages of one conversation."""

    def __init__(self, endpoint: ChatEndpoint) -> None:
        self.messages: list[JsonObject] = []
        self.notices: list[str] = []
        self._endpoint = endpoint
        self._quirks = endpoint.quirks
        files = endpoint.profile.files
        self._files = self._quirks.files if files is None else files
        self._ids: dict[str, str] = {}
        """Ids of calls as they are sent, by their ids in the history."""

    def write(self, message: Message) -> None:
        match message.role:
            case "assistant":
                self._add_answer(message)
            case "tool":
                self._add_results(message.results)
            case "system" if self._quirks.system_anywhere:
                if text := message.text:
                    self.messages.append({"role": self._quirks.system_role, "content": text})
            case _:
                self._add_user_parts([part for part in map(self._user_part, message.parts) if part])

    def done(self) -> list[JsonObject]:
        """The messages.

        User content is merged only now, because later messages may have added to it.
        """
        for message in self.messages:
            if message["role"] == "user":
                message["content"] = _content(message["content"])
        return self.messages

    # --- the user ---

    def _user_part(self, part: Part) -> JsonObject | None:
        """A part of a user message."""
        match part:
            case Text(text=text):
                return _text(text) if text else None
            case File():
                return self._file(part)
            case Source(url=url, title=title):
                return _text(f"{title}: {url}" if title else url)
            case _:
                return None

    def _add_user_parts(self, parts: list[JsonObject]) -> None:
        if not parts:
            return
        last = self.messages[-1]["role"] if self.messages else None
        if last == "user" and self._quirks.merges_user:
            self.messages[-1]["content"] += parts
            return
        if last == "tool" and self._quirks.bridges_results:
            self.messages.append({"role": "assistant", "content": BRIDGE_TEXT})
        self.messages.append({"role": "user", "content": parts})

    def _file(self, file: File) -> JsonObject:
        """A file as a part: as a file, as text, or as a note that it was left out."""
        part = None
        if is_sendable(file) and family(file.media_type) in self._files:
            part = self._native_part(file)
        return _text(self._file_as_text(file)) if part is None else part

    def _file_as_text(self, file: File) -> str:
        return file_text_or_notice(file, self._endpoint.name, self.notices)

    def _native_part(self, file: File) -> JsonObject | None:
        kind, type = family(file.media_type), media_type(file)
        url = file_url(file) if kind in self._quirks.urls else None
        url = url or data_url(file)
        if url is None:
            return None
        if kind == "image" and type in _IMAGES:
            return {"type": "image_url", "image_url": {"url": url}}
        if kind == "pdf":
            name = file.name or "document.pdf"
            return {"type": "file", "file": {"filename": name, "file_data": url}}
        form = _AUDIO.get(type)
        if form is None or file.data is None:
            return None
        audio = {"data": b64encode(file.data).decode(), "format": form}
        return {"type": "input_audio", "input_audio": audio}

    # --- results ---

    def _add_results(self, results: Iterable[ToolResult]) -> None:
        """Add results as text. Files in them follow in a user message that names the result."""
        file_parts: list[JsonObject] = []
        for result in results:
            if result.provider_executed:
                continue
            parts = [part for part in map(self._user_part, result.content) if part]
            rich = [part for part in parts if part["type"] != "text"]
            text = "\n".join(part["text"] for part in parts if part["type"] == "text")
            id = self._ids.get(result.call_id) or self._call_id(result.call_id, own=False)
            content = text or (FILES_FOLLOW_TEXT if rich else EMPTY_RESULT_TEXT)
            self.messages.append({"role": "tool", "tool_call_id": id, "content": content})
            if rich:
                file_parts += [_text(f"From the result of {result.tool} (call {id}):"), *rich]
        self._add_user_parts(file_parts)

    # --- the model ---

    def _add_answer(self, message: Message) -> None:
        own = provider_of(message) == self._endpoint.provider
        parts = [
            self._as_text(part)
            for part in _with_provider_calls_as_text(
                replayable_parts(message, self._endpoint.provider)
            )
        ]
        text = "".join(part.text for part in parts if isinstance(part, Text))
        calls = [self._encoded_call(part, own) for part in parts if isinstance(part, ToolCall)]
        if not text and not calls:
            return  # nothing that can be sent: reasoning alone is not a message
        encoded: JsonObject = {"role": "assistant", "content": text or None}
        self._replay_reasoning(encoded, parts, message if own else None)
        if calls:
            encoded["tool_calls"] = calls
        self.messages.append(encoded)

    def _as_text(self, part: Part) -> Part:
        """A file that a model created as text, because it cannot be sent back as a file."""
        return Text(self._file_as_text(part)) if isinstance(part, File) else part

    def _replay_reasoning(
        self, encoded: JsonObject, parts: Sequence[Part], own: Message | None
    ) -> None:
        """Add the reasoning in the form in which its provider wants it back."""
        thoughts = [part for part in parts if isinstance(part, Reasoning)] if own else []
        match self._quirks.replay:
            case "reasoning_content" | "reasoning" as field:
                text = "".join(part.text for part in thoughts) or self._quirks.reasoning_filler
                if text is not None:
                    encoded[field] = text
            case "reasoning_details" as field if own and own.model == self._endpoint.name:
                # Signed by one model, and useless to another.
                if details := self._reasoning_details(thoughts):
                    encoded[field] = details
            case "thinking" if thoughts:
                encoded["content"] = [
                    _mistral_chunk(part) for part in parts if isinstance(part, _TEXT_PARTS)
                ]
            case _:
                pass

    def _reasoning_details(self, thoughts: Sequence[Reasoning]) -> list[JsonObject]:
        """All reasoning details of an answer. A signature may be in a part after the text."""
        details: list[JsonObject] = []
        for part in thoughts:
            own_details = _own_metadata(part.metadata, self._endpoint.provider).get(
                "reasoning_details"
            )
            for detail in own_details if isinstance(own_details, list) else ():
                add_detail(details, detail)
        return details

    def _encoded_call(self, call: ToolCall, own: bool) -> JsonObject:
        id = self._ids[call.id] = self._call_id(call.id, own)
        arguments = call.arguments
        if self._quirks.json_arguments:
            arguments = _object_text(arguments)
        encoded = {
            "id": id,
            "type": "function",
            # A model may have called a tool by an invalid name.
            "function": {"name": nameable(call.tool) or "unnamed", "arguments": arguments},
        }
        if own and (
            extra := _own_metadata(call.metadata, self._endpoint.provider).get("extra_content")
        ):
            encoded["extra_content"] = extra
        return encoded

    def _call_id(self, id: str, own: bool) -> str:
        """An id that the endpoint accepts, always the same for the same id."""
        if self._quirks.call_ids == "nine":
            return id if _NINE_CHARACTERS.fullmatch(id) else _nine_characters(id)
        limit = self._quirks.max_call_id
        fits = limit is None or len(id) <= limit
        if id and fits and (own or _PLAIN.fullmatch(id)):
            return id
        return f"call_{sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


_IMAGES: Final = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
"""Image types that are accepted. Another type would have the whole conversation refused."""
_AUDIO: Final = {
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
    "audio/vnd.wave": "wav",
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
}
_TEXT_PARTS: Final = (Text, Reasoning)


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _mistral_chunk(part: Text | Reasoning) -> JsonObject:
    """Content in Mistral's form, which can include reasoning."""
    if isinstance(part, Text):
        return _text(part.text)
    return {"type": "thinking", "thinking": [_text(part.text)]}


def _content(parts: Sequence[JsonObject]) -> str | list[JsonObject]:
    """Content as plain text if there is nothing else: some endpoints refuse lists."""
    if all(part["type"] == "text" for part in parts):
        return "\n\n".join(part["text"] for part in parts)
    return list(parts)


def _with_provider_calls_as_text(parts: Sequence[Part]) -> list[Part]:
    """The parts of an answer, with the calls that its provider ran described as text."""
    results = {part.call_id: part for part in parts if isinstance(part, ToolResult)}
    converted: list[Part] = []
    for part in parts:
        if isinstance(part, ToolCall) and part.provider_executed:
            converted.append(Text(call_as_text(part, results.get(part.id))))
        elif not isinstance(part, ToolResult):
            converted.append(part)
    return converted


def _own_metadata(metadata: Any, provider: str) -> JsonObject:
    own = (metadata or {}).get(provider)
    return own if isinstance(own, dict) else {}


def _object_text(arguments: str) -> str:
    """The arguments if they are a JSON object; otherwise an object that contains them."""
    if not arguments.strip():
        return "{}"
    try:
        if isinstance(msgspec.json.decode(arguments), dict):
            return arguments
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    return msgspec.json.encode({"_raw": arguments.encode("utf-8", "replace").decode()}).decode()


def _nine_characters(id: str) -> str:
    """Nine letters and digits derived from an id."""
    number = int.from_bytes(sha256(id.encode("utf-8", "surrogatepass")).digest())
    characters = ""
    for _ in range(9):
        number, at = divmod(number, len(_LETTERS))
        characters += _LETTERS[at]
    return characters
