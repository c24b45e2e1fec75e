"""Encodes prompts and answers as request bodies. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.agent import Resolution
from holdfast.chat.errors import InvalidInput
from holdfast.chat.files import REF_PREFIX
from holdfast.kernel.decide import Approved
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.messages import (
    File,
    Message,
    Part,
    Prompt,
    Source,
    Text,
    ToolCall,
    user_message,
)
from holdfast.kernel.tool import Deny
from holdfast.kernel.tool_results import Unencodable, result_from_value
from holdfast.providers.request_body import JsonObject

_OUTCOMES: Final = ("ok", "failed")


def without_none(**fields: Any) -> JsonObject:
    """A body without the fields that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def check_owner(owner: object) -> None:
    """Refuse an owner: over the wire it is always the owner of the token."""
    if owner not in ("", None):
        raise InvalidInput(
            f"owner is {owner!r:.80}: over the wire it is the owner of the token; leave it out"
        )


def parts_of(prompt: Prompt) -> list[JsonObject]:
    """Encode a prompt. Raises `InvalidInput`."""
    message = user_message(prompt)
    if message != Message("user", message.parts, "prompt"):
        raise InvalidInput("the message has more than its parts: pass these, as message.parts")
    return [_part(part) for part in message.parts]


def _part(part: Part) -> JsonObject:
    if part.metadata is not None:
        raise InvalidInput("a part has metadata, which cannot be sent: pass it without")
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Source(url, title):
            return {"type": "source", **without_none(url=url, title=title)}
        case File():
            return {"type": "file", **_file(part)}
        case _:
            raise InvalidInput(f"a prompt has {part!r:.80} in it: use Text, File or Source")


def _file(file: File) -> JsonObject:
    if file.ref is not None and file.ref.startswith(REF_PREFIX):
        return {"file": file.ref.removeprefix(REF_PREFIX)}
    return without_none(data=file.data, url=file.ref, media_type=file.media_type, name=file.name)


def answer_of(call_id: str, value: Resolution) -> JsonObject:
    """Encode the answer to an action."""
    if isinstance(value, Approved):
        return {"type": "allow", **without_none(digest=value.digest, arguments=value.arguments)}
    if isinstance(value, Deny):
        return {"type": "deny", "reason": value.reason}
    try:
        result = result_from_value(ToolCall(call_id, "", ""), value)
    except Unencodable as error:
        raise ConfigError(
            f"the result for {call_id} is {error}: "
            "give text, parts, or something that can be written as JSON"
        ) from None
    if result.outcome not in _OUTCOMES or not all(isinstance(p, Text) for p in result.content):
        raise InvalidInput(
            f"the result for {call_id} is more than text: over the wire, pass text or JSON"
        )
    failed = result.outcome == "failed"
    more = {"expected": True} if result.expected else {}
    return {"type": "result", "result": result.text, "failed": failed, **more}


def answers_of(answers: Mapping[str, Resolution]) -> dict[str, JsonObject]:
    """Encode answers by call id."""
    return {call_id: answer_of(call_id, value) for call_id, value in answers.items()}
