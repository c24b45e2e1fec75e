"""Message lists of OpenAI's Chat Completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.kernel.messages import File, FinishReason, Message, Part, Reasoning, Text, ToolCall
from holdfast.providers.message_formats.list_reader import Fields, ListReader, sendable


def from_openai(
    messages: Sequence[Mapping[str, Any]], *, model: str | None = None
) -> tuple[Message, ...]:
    """Convert messages of Chat Completions to a history.

    System messages become context that the model reads at that position. `model` is the model that
    wrote the answers, as `provider:model`. All problems are reported at once, with positions.
    """
    reader = ListReader("Chat Completions")
    for where, fields in reader.messages(messages):
        _read_message(reader, where, fields, model)
    return reader.done()


def to_openai(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Convert a history to messages of Chat Completions, as a model would get them.

    Content that the format cannot hold is described in words; reasoning is left out.
    """
    from holdfast.kernel.model import Request
    from holdfast.providers.openai_chat.messages import ChatEndpoint, conversation
    from holdfast.providers.openai_chat.quirks import Quirks
    from holdfast.providers.profile import Profile

    profile = Profile(files=("image", "pdf", "audio"))
    endpoint = ChatEndpoint("openai-chat", "", profile, Quirks(max_call_id=None))
    return conversation(Request(messages=sendable(messages)), endpoint)[0]


def _read_message(reader: ListReader, where: str, fields: Fields, model: str | None) -> None:
    match fields.get("role"):
        case "system" | "developer":
            parts = _content(reader, where, fields.get("content"))
            reader.history.append(Message("system", parts, "context", "model"))
        case "user":
            parts = _content(reader, where, fields.get("content"))
            reader.history.append(Message("user", parts, "prompt"))
        case "assistant":
            _read_answer(reader, where, fields, model)
        case "tool":
            id = reader.text(where, fields, "tool_call_id")
            content = _content(reader, where, fields.get("content"), empty=True)
            reader.add_result(f"{where}.tool_call_id", id, content)
        case "function":
            reader.problem(where, "is a result of the old function calls: use the role tool")
        case None if "type" in fields:
            reader.problem(where, "is an item of the Responses API: use Chat Completions messages")
        case role:
            reader.problem(
                f"{where}.role", f"is {role!r}: use system, developer, user, assistant or tool"
            )


def _read_answer(reader: ListReader, where: str, fields: Fields, model: str | None) -> None:
    parts: list[Part] = []
    reasoning = fields.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning:
        parts.append(Reasoning(reasoning))
    parts += _content(reader, where, fields.get("content"), empty=True)
    if isinstance(fields.get("refusal"), str):
        parts.append(Text(fields["refusal"]))
    if fields.get("function_call"):
        reader.problem(f"{where}.function_call", "is of the old function calls: use tool_calls")
    calls = fields.get("tool_calls") or ()
    for here, call in reader.objects(f"{where}.tool_calls", calls):
        parts.append(_call(reader, here, call))
    if not parts and not fields.get("function_call"):
        reader.problem(where, "has neither content nor tool_calls")
    finish: FinishReason = "tool_calls" if calls else "stop"
    reader.history.append(Message("assistant", tuple(parts), "answer", finish=finish, model=model))


def _call(reader: ListReader, where: str, fields: Fields) -> ToolCall:
    function = fields.get("function")
    if not isinstance(function, Mapping):
        reader.problem(f"{where}.function", "is missing: only function calls are supported")
        function = {"name": "", "arguments": ""}
    id = reader.text(where, fields, "id")
    tool = reader.text(f"{where}.function", function, "name")
    return reader.call(
        f"{where}.id", id, tool, reader.text(f"{where}.function", function, "arguments")
    )


def _content(
    reader: ListReader, where: str, content: Any, *, empty: bool = False
) -> tuple[Text | File, ...]:
    """Content as parts. Unless it may be empty, empty content is a problem."""
    where = f"{where}.content"
    if isinstance(content, str):
        parts: list[Text | File | None] = [Text(content)] if content else []
    elif content is None:
        parts = []
    else:
        parts = [_part(reader, *one) for one in reader.objects(where, content)]
        empty = True  # a part with a problem is reported by itself
    if not (parts or empty):
        reader.problem(where, "is empty")
    return tuple(part for part in parts if part is not None)


def _part(reader: ListReader, where: str, fields: Fields) -> Text | File | None:
    match fields.get("type"):
        case "text" | "refusal" as kind:
            return Text(reader.text(where, fields, kind))
        case "image_url":
            return _image(reader, where, fields)
        case "file":
            return _file(reader, where, fields)
        case "input_audio":
            return _audio(reader, where, fields)
        case kind:
            reader.problem(
                f"{where}.type", f"is {kind!r}: use text, image_url, file or input_audio"
            )
            return None


def _inner(reader: ListReader, where: str, fields: Fields, name: str) -> Fields:
    """An object with content; an empty one if it is missing, which is a problem."""
    inner = fields.get(name)
    if isinstance(inner, Mapping) and inner:
        return inner
    reader.problem(f"{where}.{name}", "is missing")
    return {}


def _image(reader: ListReader, where: str, fields: Fields) -> File | None:
    image = _inner(reader, where, fields, "image_url")
    url = reader.text(f"{where}.image_url", image, "url") if image else ""
    if url.startswith("data:"):
        return _from_data_url(reader, f"{where}.image_url.url", url, None)
    if not url.startswith(("https://", "http://")):
        if url:
            reader.problem(f"{where}.image_url.url", f"is {url!r:.60}: use https://… or data:…")
        return None
    guessed = _media_type_of(url)
    return File(guessed if guessed.startswith("image/") else "image/jpeg", ref=url)


def _audio(reader: ListReader, where: str, fields: Fields) -> File | None:
    audio, here = _inner(reader, where, fields, "input_audio"), f"{where}.input_audio"
    if not audio:
        return None
    form, data = reader.text(here, audio, "format"), reader.text(here, audio, "data")
    media_type = "audio/mpeg" if form == "mp3" else f"audio/{form}"
    return File(media_type, data=reader.bytes(f"{here}.data", data))


def _media_type_of(url: str) -> str:
    from holdfast.kernel.media_type import guess

    return guess(url.partition("?")[0], None) or ""


def _file(reader: ListReader, where: str, fields: Fields) -> File | None:
    file = _inner(reader, where, fields, "file")
    if not file:
        return None
    if "file_data" not in file:
        reader.problem(f"{where}.file", "has no file_data: pass the bytes of the stored file")
        return None
    data = reader.text(f"{where}.file", file, "file_data")
    return _from_data_url(reader, f"{where}.file.file_data", data, file.get("filename"))


def _from_data_url(reader: ListReader, where: str, url: str, name: str | None) -> File | None:
    head, comma, data = url.partition(",")
    media_type = head.removeprefix("data:").removesuffix(";base64")
    if not (comma and head.endswith(";base64") and "/" in media_type):
        reader.problem(where, "is not a data URL: use data:image/png;base64,…")
        return None
    return File(media_type, name, reader.bytes(where, data))
