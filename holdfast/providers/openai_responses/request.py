"""Encodes requests for OpenAI's Responses API. Pure: the same request gives the same bytes.

An answer is sent back as the items in which it arrived, with their ids and in their order. Unless
the provider stores answers, an item must bring all that it needs: reasoning must have its encrypted
content, be followed by what it led to, and go to a model that reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from msgspec import Struct

from holdfast.kernel.messages import (
    Content,
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
from holdfast.kernel.model import Effort, ProviderTool, Request, Shape, ToolSpec
from holdfast.providers.foreign_messages import (
    call_as_text,
    data_url,
    family,
    file_text_or_notice,
    file_url,
    is_sendable,
    media_type,
    omitted_file,
    provider_of,
    replayable_parts,
    shape_instruction,
)
from holdfast.providers.openai_responses.call_items import (
    ResponseItem,
    call_item,
    output_of,
    with_picture,
    without_output_fields,
)
from holdfast.providers.profile import Family, Profile
from holdfast.providers.request_body import encoded, merged
from holdfast.providers.strict import strict_schema
from holdfast.providers.tool_schema import nameable, one_object

DEFAULT_FILES: Final[tuple[Family, ...]] = ("image", "pdf")
"""Kinds of files that a model without a known profile accepts."""
IMAGE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MAX_ID_LENGTH: Final = 64
"""Maximum length of a call's id and of a cache key. Other providers have longer ids."""
ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"

PROVIDER_TOOLS: Final[Mapping[str, ResponseItem]] = {
    "web_search": {"type": "web_search"},
    "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
    "image_generation": {"type": "image_generation"},
}
TOOL_INCLUDES: Final[Mapping[str, str]] = {"code_interpreter": "code_interpreter_call.outputs"}
"""Values of `include` that return the outcome of a tool."""
TOOLS_REFUSED_AT_MINIMAL: Final = frozenset(
    {"code_interpreter", "file_search", "image_generation", "web_search", "web_search_preview"}
)
"""Tools that the API refuses together with the effort "minimal"."""


class EncodedRequest(Struct, frozen=True):
    """An encoded request: the items of each message, and the other fields."""

    items: tuple[tuple[ResponseItem, ...], ...]
    fields: ResponseItem
    notices: tuple[str, ...]

    def body(self, items: Sequence[Sequence[ResponseItem]], **more: Any) -> bytes:
        """The request as bytes, with these items.

        They come last, because a history grows at its end.
        """
        return encoded({**self.fields, **more, "input": [item for some in items for item in some]})


def encode(
    request: Request,
    model: str,
    provider: str,
    profile: Profile,
    store: bool,
    *,
    thoughts: bool = True,
) -> EncodedRequest:
    """Encode a request.

    `thoughts=False` leaves out reasoning, and does not request encrypted content.
    """
    encoder = _Encoder(f"{provider}:{model}", provider, profile, thoughts)
    items = tuple(tuple(encoder.items(message)) for message in request.messages)
    fields: ResponseItem = {"model": model, "stream": True, "store": store}
    fields |= encoder.fields(request)
    options = request.settings.options.get(provider, {})
    include = [*fields.get("include", ()), *options.get("include", ())]  # ours are still needed
    fields = merged(fields, options)
    if include:
        fields["include"] = list(dict.fromkeys(include))
    return EncodedRequest(items, fields, tuple(dict.fromkeys(encoder.notices)))


def digest(items: object) -> str:
    """Digest of items, to compare them."""
    return blake2b(encoded(items), digest_size=16).hexdigest()


# --- Messages -----------------------------------------------------------------------------------


class _OutgoingItem(Struct):
    """An item of the request, before it is checked."""

    item: ResponseItem
    own: bool = False
    """Whether this provider sent the item."""
    words: str = ""
    """Text that can replace the item."""


class _Encoder:
    def __init__(self, name: str, provider: str, profile: Profile, thoughts: bool) -> None:
        self.notices: list[str] = []
        self._name = name
        self._provider = provider
        self._profile = profile
        # A model that does not reason refuses reasoning, and the request for it.
        self._replays_reasoning = thoughts and profile.efforts != ()
        self._kinds: dict[str, str] = {}
        """Types of items of calls that are not functions, by call id."""

    def items(self, message: Message) -> list[ResponseItem]:
        if message.role == "assistant":
            return self._answer_items(message)
        if message.role == "tool":
            return [self._result_item(part) for part in message.results]
        content = self._content([part for part in message.parts if not isinstance(part, ToolCall)])
        if not content:
            return []
        return [{"type": "message", "role": message.role, "content": content}]

    def _own_metadata(self, metadata: Metadata | None) -> Mapping[str, Any]:
        """Metadata of a part that belongs to this provider."""
        own = metadata.get(self._provider) if metadata else None
        return own if isinstance(own, Mapping) else {}

    # --- answers ---

    def _answer_items(self, message: Message) -> list[ResponseItem]:
        entries: list[_OutgoingItem] = []
        own = provider_of(message) == self._provider
        results = {part.call_id: part for part in message.results}
        for part in replayable_parts(message, self._provider):
            own_metadata = self._own_metadata(getattr(part, "metadata", None)) if own else {}
            match part:
                case Text() if part.text:
                    self._add_text(entries, part, own_metadata)
                case Reasoning() if own_metadata.get("item"):
                    entries.append(_OutgoingItem(_without_nulls(own_metadata["item"]), True))
                case ToolCall(provider_executed=True):
                    words = call_as_text(part, results.get(part.id))
                    item = without_output_fields(own_metadata.get("item", {}))
                    if item.get("id"):
                        entries.append(_OutgoingItem(item, True, words))
                    else:  # of another provider, or an item that cannot be sent back
                        entries.append(_OutgoingItem(_message_item(words)))
                case ToolCall():
                    entries.append(self._call_entry(part, own_metadata))
                case File() if own_metadata.get("item") and part.data:
                    words = omitted_file(part, self._name)[0]
                    entries.append(
                        _OutgoingItem(with_picture(own_metadata["item"], part), True, words)
                    )
                case File():
                    self._add_text(entries, Text(self._file_in_words(part)), {})
                case _:
                    pass  # sources are annotations of the text
        return [entry.item for entry in _replayable(entries, self._replays_reasoning)]

    def _add_text(self, entries: list[_OutgoingItem], text: Text, own: Mapping[str, Any]) -> None:
        """Add text to the message it came in.

        The pieces of one message are one item again.
        """
        content: ResponseItem = {"type": "output_text", "text": text.text}
        if own.get("refusal"):
            content = {"type": "refusal", "refusal": text.text}
        elif own:
            content["annotations"] = own.get("annotations", [])
        message = _open_message(entries, own.get("id"))
        if message is None:
            id = {"id": own["id"]} if own.get("id") else {}
            message = {**_message_item(), **id}
            entries.append(_OutgoingItem(message, bool(own)))
        message["content"].append(content)
        message.update(_without_nulls(own.get("item", {})))

    def _call_entry(self, call: ToolCall, own: Mapping[str, Any]) -> _OutgoingItem:
        item = call_item(call, shortened(call.id), own.get("item", {}))
        if item["type"] != "function_call":
            self._kinds[call.id] = item["type"]
        return _OutgoingItem(item, bool(own))

    # --- other messages ---

    def _result_item(self, result: ToolResult) -> ResponseItem:
        output: str | list[ResponseItem] = result.text
        if any(isinstance(part, File) for part in result.content):
            output = self._content(result.content)
        kind = self._kinds.get(result.call_id, "function_call")
        return output_of(kind, shortened(result.call_id), result, output)

    def _content(self, parts: Sequence[Part] | Sequence[Content]) -> list[ResponseItem]:
        content: list[ResponseItem] = []
        for part in parts:
            match part:
                case Text(text=text) | Reasoning(text=text) if text:
                    content.append({"type": "input_text", "text": text})
                case File():
                    content.append(self._file(part))
                case Source(url=url, title=title):
                    line = f"{title}: {url}" if title else url
                    content.append({"type": "input_text", "text": line})
                case _:
                    pass
        return content

    def _file(self, file: File) -> ResponseItem:
        kind = family(file.media_type)
        supported = DEFAULT_FILES if self._profile.files is None else self._profile.files
        url = file_url(file) or data_url(file)
        if kind in supported and url is not None and is_sendable(file):
            own = self._own_metadata(file.metadata)
            if kind == "image" and media_type(file) in IMAGE_TYPES:
                return {"type": "input_image", "image_url": url, "detail": "auto", **own}
            if kind == "pdf" and file.data is None:
                return {"type": "input_file", "file_url": url, **own}
            if kind == "pdf":
                name = file.name or "document.pdf"
                return {"type": "input_file", "filename": name, "file_data": url, **own}
        return {"type": "input_text", "text": self._file_in_words(file)}

    def _file_in_words(self, file: File) -> str:
        return file_text_or_notice(file, self._name, self.notices)

    # --- other fields ---

    def fields(self, request: Request) -> ResponseItem:
        fields: ResponseItem = {}
        system = [block.text for block in request.system if block.text]
        tools = [self._tool(tool) for tool in request.tools]
        tools += [
            declared for tool in request.provider_tools if (declared := self._provider_tool(tool))
        ]
        include = [
            TOOL_INCLUDES[declared["type"]]
            for declared in tools
            if declared.get("type") in TOOL_INCLUDES
        ]
        if self._replays_reasoning:
            include.insert(0, ENCRYPTED_REASONING)
        if request.output is not None:
            shape = self._shape(request.output)
            if shape is None:
                system.append(shape_instruction(request.output))
            else:
                fields["text"] = {"format": shape}
        if system:
            fields = {"instructions": "\n\n".join(system), **fields}
        if tools:
            fields["tools"] = tools
            fields |= self._tool_choice(request, tools)
        if include:
            fields["include"] = list(dict.fromkeys(include))
        fields |= self._settings(request, self._effort(request, tools))
        if request.cache_key:
            fields["prompt_cache_key"] = shortened(request.cache_key)
        return fields

    def _effort(self, request: Request, tools: Sequence[ResponseItem]) -> Effort | None:
        effort = self._profile.effort(request.effort)
        if effort == "minimal" and any(
            tool.get("type") in TOOLS_REFUSED_AT_MINIMAL for tool in tools
        ):
            self.notices.append(
                f"{self._name} uses the effort low: its tools do not work with minimal."
            )
            return "low"
        return effort

    def _settings(self, request: Request, effort: Effort | None) -> ResponseItem:
        fields: ResponseItem = {}
        if effort == "none":
            fields["reasoning"] = {"effort": "none"}
        elif effort is not None:
            fields["reasoning"] = {"effort": effort, "summary": "auto"}
        settings = request.settings
        if settings.max_output_tokens is not None:
            fields["max_output_tokens"] = settings.max_output_tokens
        for name in ("temperature", "top_p"):
            value = getattr(settings, name)
            if value is None:
                continue
            if self._profile.samples(effort):
                fields[name] = value
            elif self._profile.sampling:
                self._note_omitted(name, "does not take it together with an effort")
            else:
                self._note_omitted(name)
        for name in ("top_k", "presence_penalty", "frequency_penalty", "seed", "stop"):
            if getattr(settings, name) not in (None, ()):
                self._note_omitted(name)
        return fields

    def _note_omitted(self, name: str, why: str = "does not know it") -> None:
        self.notices.append(f"{name} was not sent to {self._name}, which {why}.")

    def _tool(self, tool: ToolSpec) -> ResponseItem:
        native = tool.native.get(self._provider)
        if native is not None:
            return dict(native)
        schema, rules = one_object(tool.schema)
        return {
            "type": "function",
            "name": tool.name,
            "description": "\n".join(filter(None, (tool.description, rules))),
            "parameters": schema,
            "strict": False,  # invalid arguments are found, and coerced, where the tool runs
        }

    def _tool_choice(self, request: Request, tools: Sequence[ResponseItem]) -> ResponseItem:
        """Which tool to call, and whether several may be called. Refused without tools."""
        settings, fields = request.settings, dict[str, Any]()
        if settings.parallel_tool_calls is not None:
            fields["parallel_tool_calls"] = settings.parallel_tool_calls
        choice = settings.tool_choice
        if choice in ("auto", "none", "required"):
            fields["tool_choice"] = choice
        elif choice is not None:
            kind = PROVIDER_TOOLS.get(choice, {}).get("type")
            found = [one for one in tools if choice == one.get("name") or kind == one["type"]]
            if found:
                fields["tool_choice"] = {
                    key: found[0][key] for key in ("type", "name") if key in found[0]
                }
            else:
                self._note_omitted(f"tool_choice {choice}")
        return fields

    def _provider_tool(self, tool: ProviderTool) -> ResponseItem | None:
        native = tool.native.get(self._provider)
        if native is not None:
            return dict(native)
        declared = PROVIDER_TOOLS.get(tool.name)
        if declared is None:
            self._note_omitted(f"The tool {tool.name}")
            return None
        encoded = dict(declared)
        for option, value in tool.options.items():
            if tool.name == "web_search" and option == "allowed_domains":
                encoded["filters"] = {"allowed_domains": list(value)}
            elif tool.name == "web_search" and option == "user_location":
                encoded["user_location"] = {"type": "approximate", **value}
            else:
                self._note_omitted(f"{option} of {tool.name}")
        return encoded

    def _shape(self, shape: Shape) -> ResponseItem | None:
        """The format of the answer, or None if the model cannot be constrained to it."""
        schema, strict = strict_schema(shape.schema)
        if not self._profile.structured or schema.get("type") != "object":
            return None
        name = nameable(shape.name) or "answer"
        text_format: ResponseItem = {
            "type": "json_schema",
            "name": name,
            "schema": schema,
            "strict": strict,
        }
        if shape.description:
            text_format["description"] = shape.description
        return text_format


def _open_message(entries: Sequence[_OutgoingItem], id: str | None) -> ResponseItem | None:
    """The message with this id; without an id, the message that is still open."""
    for entry in reversed(entries):
        if entry.item.get("type") == "message" and entry.item.get("id") == id:
            return entry.item
        if id is None:
            break
    return None


def _message_item(text: str = "") -> ResponseItem:
    content = [{"type": "output_text", "text": text}] if text else []
    return {"type": "message", "role": "assistant", "content": content}


def _replayable(entries: list[_OutgoingItem], thoughts: bool) -> list[_OutgoingItem]:
    """The items without the reasoning that the API refuses.

    Items that followed such reasoning are sent without their ids, because the ids refer to it.
    """
    result: list[_OutgoingItem] = []
    orphaned = False
    for at, entry in enumerate(entries):
        if entry.item["type"] == "reasoning":
            is_kept = (
                thoughts
                and _is_self_contained(entry.item)
                and _has_own_successor(entries[at + 1 :])
            )
            orphaned = not is_kept
            if is_kept:
                result.append(entry)
        elif orphaned and entry.own:
            result.append(_without_id(entry))
        else:
            result.append(entry)
    return result


def _is_self_contained(item: ResponseItem) -> bool:
    return bool(item.get("encrypted_content") or item.get("content"))


def _has_own_successor(rest: list[_OutgoingItem]) -> bool:
    """Whether another item of the provider follows, so that the answer was not cut off here."""
    following = next((entry for entry in rest if entry.item["type"] != "reasoning"), None)
    return following is not None and following.own


def _without_id(entry: _OutgoingItem) -> _OutgoingItem:
    if entry.words:
        return _OutgoingItem(_message_item(entry.words))
    return _OutgoingItem({key: value for key, value in entry.item.items() if key != "id"})


def _without_nulls(item: ResponseItem) -> ResponseItem:
    """The item without null fields, which the API sends and refuses."""
    return {key: value for key, value in item.items() if value is not None}


def shortened(id: str) -> str:
    """The id, or its digest if it is too long."""
    return id if len(id) <= MAX_ID_LENGTH else blake2b(encoded(id), digest_size=16).hexdigest()
