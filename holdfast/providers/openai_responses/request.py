"""Encodes requests for OpenAI's Responses API. Pure: the same request gives the same bytes.

Everything a model said goes back as the items it came in, with their ids and in their order. What
is not stored over there may only be sent back if it brings all that is needed: reasoning has to
carry its encrypted content, be followed by what it led to, and go to a model that thinks.
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
    asked_in_words,
    data_url,
    family,
    file_in_words,
    in_words,
    left_out,
    media_type,
    provider_of,
    readable,
    sendable,
    url_of,
)
from holdfast.providers.json_body import encoded, merged
from holdfast.providers.openai_responses.items import (
    Item,
    call_item,
    output_of,
    taken_back,
    with_picture,
)
from holdfast.providers.profile import Family, Profile
from holdfast.providers.strict import strict_schema
from holdfast.providers.tool_schema import nameable, one_object

FILES: Final[tuple[Family, ...]] = ("image", "pdf")
"""What every model takes, as far as nothing else is known."""
PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MAX_ID: Final = 64
"""Characters of a call's id and of a cache key. Other providers have longer ones."""
ENCRYPTED: Final = "reasoning.encrypted_content"

PROVIDER_TOOLS: Final[Mapping[str, Item]] = {
    "web_search": {"type": "web_search"},
    "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
    "image_generation": {"type": "image_generation"},
}
INCLUDES: Final[Mapping[str, str]] = {"code_interpreter": "code_interpreter_call.outputs"}
"""What has to be asked for, so that the outcome of a tool is told."""
NOT_AT_MINIMAL: Final = frozenset(
    {"code_interpreter", "file_search", "image_generation", "web_search", "web_search_preview"}
)
"""Tools that are refused beside the effort "minimal"."""


class Encoded(Struct, frozen=True):
    """A request taken apart: the items of each message, and all that is said beside them."""

    items: tuple[tuple[Item, ...], ...]
    fields: Item
    notices: tuple[str, ...]

    def body(self, items: Sequence[Sequence[Item]], **more: Any) -> bytes:
        """The request as bytes, with these items. They come last: a history grows at its end."""
        return encoded({**self.fields, **more, "input": [item for some in items for item in some]})


def encode(
    request: Request,
    model: str,
    provider: str,
    profile: Profile,
    store: bool,
    *,
    thoughts: bool = True,
) -> Encoded:
    """`thoughts=False` sends no reasoning back, and does not ask for what sending it back takes."""
    encoder = _Encoder(f"{provider}:{model}", provider, profile, thoughts)
    items = tuple(tuple(encoder.items(message)) for message in request.messages)
    fields: Item = {"model": model, "stream": True, "store": store}
    fields |= encoder.fields(request)
    options = request.settings.options.get(provider, {})
    include = [*fields.get("include", ()), *options.get("include", ())]  # ours is still needed
    fields = merged(fields, options)
    if include:
        fields["include"] = list(dict.fromkeys(include))
    return Encoded(items, fields, tuple(dict.fromkeys(encoder.notices)))


def digest(items: object) -> str:
    """A short name for items: the same only for the same."""
    return blake2b(encoded(items), digest_size=16).hexdigest()


# --- Messages -----------------------------------------------------------------------------------


class _Said(Struct):
    """An item on its way out."""

    item: Item
    own: bool = False
    """It came from this provider as it is."""
    words: str = ""
    """What can be said in its place."""


class _Encoder:
    def __init__(self, name: str, provider: str, profile: Profile, thoughts: bool) -> None:
        self.notices: list[str] = []
        self._name = name
        self._provider = provider
        self._profile = profile
        # A model that does not think refuses thoughts, and to be asked for them.
        self._thoughts = thoughts and profile.efforts != ()
        self._kinds: dict[str, str] = {}
        """The items of calls that are no functions, by the id of the call."""

    def items(self, message: Message) -> list[Item]:
        if message.role == "assistant":
            return self._answer(message)
        if message.role == "tool":
            return [self._result(part) for part in message.results]
        content = self._content([part for part in message.parts if not isinstance(part, ToolCall)])
        if not content:
            return []
        return [{"type": "message", "role": message.role, "content": content}]

    def _kept(self, metadata: Metadata | None) -> Mapping[str, Any]:
        """What this provider wants back of a part."""
        kept = metadata.get(self._provider) if metadata else None
        return kept if isinstance(kept, Mapping) else {}

    # --- what a model said ---

    def _answer(self, message: Message) -> list[Item]:
        said: list[_Said] = []
        own = provider_of(message) == self._provider
        results = {part.call_id: part for part in message.results}
        for part in readable(message, self._provider):
            kept = self._kept(getattr(part, "metadata", None)) if own else {}
            match part:
                case Text() if part.text:
                    self._say(said, part, kept)
                case Reasoning() if kept.get("item"):
                    said.append(_Said(_without_nulls(kept["item"]), True))
                case ToolCall(provider_executed=True):
                    words = in_words(part, results.get(part.id))
                    item = taken_back(kept.get("item", {}))
                    if item.get("id"):
                        said.append(_Said(item, True, words))
                    else:  # of another provider, or an item that is only ever shown
                        said.append(_Said(_message(words)))
                case ToolCall():
                    said.append(self._call(part, kept))
                case File() if kept.get("item") and part.data:
                    words = left_out(part, self._name)[0]
                    said.append(_Said(with_picture(kept["item"], part), True, words))
                case File():
                    self._say(said, Text(self._file_in_words(part)), {})
                case _:
                    pass  # sources are told beside the text that has them
        return [entry.item for entry in _replayable(said, self._thoughts)]

    def _say(self, said: list[_Said], text: Text, kept: Mapping[str, Any]) -> None:
        """Text, in the message it came in: several pieces of one message are one item again."""
        content: Item = {"type": "output_text", "text": text.text}
        if kept.get("refusal"):
            content = {"type": "refusal", "refusal": text.text}
        elif kept:
            content["annotations"] = kept.get("annotations", [])
        message = _message_of(said, kept.get("id"))
        if message is None:
            id = {"id": kept["id"]} if kept.get("id") else {}
            message = {**_message(), **id}
            said.append(_Said(message, bool(kept)))
        message["content"].append(content)
        message.update(_without_nulls(kept.get("item", {})))

    def _call(self, call: ToolCall, kept: Mapping[str, Any]) -> _Said:
        item = call_item(call, short(call.id), kept.get("item", {}))
        if item["type"] != "function_call":
            self._kinds[call.id] = item["type"]
        return _Said(item, bool(kept))

    # --- what people and tools said ---

    def _result(self, result: ToolResult) -> Item:
        output: str | list[Item] = result.text
        if any(isinstance(part, File) for part in result.content):
            output = self._content(result.content)
        kind = self._kinds.get(result.call_id, "function_call")
        return output_of(kind, short(result.call_id), result, output)

    def _content(self, parts: Sequence[Part] | Sequence[Content]) -> list[Item]:
        content: list[Item] = []
        for part in parts:
            match part:
                case Text(text=text) | Reasoning(text=text) if text:
                    content.append({"type": "input_text", "text": text})
                case File():
                    content.append(self._file(part))
                case Source(url=url, title=title):
                    named = f"{title}: {url}" if title else url
                    content.append({"type": "input_text", "text": named})
                case _:
                    pass
        return content

    def _file(self, file: File) -> Item:
        kind = family(file.media_type)
        taken = FILES if self._profile.files is None else self._profile.files
        url = url_of(file) or data_url(file)
        if kind in taken and url is not None and sendable(file):
            own = self._kept(file.metadata)
            if kind == "image" and media_type(file) in PICTURES:
                return {"type": "input_image", "image_url": url, "detail": "auto", **own}
            if kind == "pdf" and file.data is None:
                return {"type": "input_file", "file_url": url, **own}
            if kind == "pdf":
                name = file.name or "document.pdf"
                return {"type": "input_file", "filename": name, "file_data": url, **own}
        return {"type": "input_text", "text": self._file_in_words(file)}

    def _file_in_words(self, file: File) -> str:
        return file_in_words(file, self._name, self.notices)

    # --- beside the messages ---

    def fields(self, request: Request) -> Item:
        fields: Item = {}
        system = [block.text for block in request.system if block.text]
        tools = [self._tool(tool) for tool in request.tools]
        tools += [made for tool in request.provider_tools if (made := self._provider_tool(tool))]
        include = [INCLUDES[made["type"]] for made in tools if made.get("type") in INCLUDES]
        if self._thoughts:
            include.insert(0, ENCRYPTED)
        if request.output is not None:
            shape = self._shape(request.output)
            if shape is None:
                system.append(asked_in_words(request.output))
            else:
                fields["text"] = {"format": shape}
        if system:
            fields = {"instructions": "\n\n".join(system), **fields}
        if tools:
            fields["tools"] = tools
        if include:
            fields["include"] = list(dict.fromkeys(include))
        fields |= self._settings(request, self._effort(request, tools))
        if request.cache_key:
            fields["prompt_cache_key"] = short(request.cache_key)
        return fields

    def _effort(self, request: Request, tools: Sequence[Item]) -> Effort | None:
        effort = self._profile.effort(request.effort)
        if effort == "minimal" and any(tool.get("type") in NOT_AT_MINIMAL for tool in tools):
            self.notices.append(f"{self._name} has an effort of low: its tools need that.")
            return "low"
        return effort

    def _settings(self, request: Request, effort: Effort | None) -> Item:
        fields: Item = {}
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
                self._left_out(name, "does not take it beside an effort")
            else:
                self._left_out(name)
        for name in ("top_k", "presence_penalty", "frequency_penalty"):
            if getattr(settings, name) is not None:
                self._left_out(name)
        return fields

    def _left_out(self, name: str, why: str = "does not know it") -> None:
        self.notices.append(f"{name} was not sent to {self._name}, which {why}.")

    def _tool(self, tool: ToolSpec) -> Item:
        native = tool.native.get(self._provider)
        if native is not None:
            return dict(native)
        schema, told = one_object(tool.schema)
        return {
            "type": "function",
            "name": tool.name,
            "description": "\n".join(filter(None, (tool.description, told))),
            "parameters": schema,
            "strict": False,  # what a model gets wrong is found, and repaired, where the tool runs
        }

    def _provider_tool(self, tool: ProviderTool) -> Item | None:
        native = tool.native.get(self._provider)
        if native is not None:
            return dict(native)
        declared = PROVIDER_TOOLS.get(tool.name)
        if declared is None:
            self._left_out(f"The tool {tool.name}")
            return None
        made = dict(declared)
        for option, value in tool.options.items():
            if tool.name == "web_search" and option == "allowed_domains":
                made["filters"] = {"allowed_domains": list(value)}
            elif tool.name == "web_search" and option == "user_location":
                made["user_location"] = {"type": "approximate", **value}
            else:
                self._left_out(f"{option} of {tool.name}")
        return made

    def _shape(self, shape: Shape) -> Item | None:
        """The form of the answer, or None when the model cannot be held to it."""
        schema, strict = strict_schema(shape.schema)
        if not self._profile.structured or schema.get("type") != "object":
            return None
        name = nameable(shape.name) or "answer"
        made: Item = {"type": "json_schema", "name": name, "schema": schema, "strict": strict}
        if shape.description:
            made["description"] = shape.description
        return made


def _message_of(said: Sequence[_Said], id: str | None) -> Item | None:
    """The message with this id; without one, the message that is being said."""
    for entry in reversed(said):
        if entry.item.get("type") == "message" and entry.item.get("id") == id:
            return entry.item
        if id is None:
            break
    return None


def _message(text: str = "") -> Item:
    content = [{"type": "output_text", "text": text}] if text else []
    return {"type": "message", "role": "assistant", "content": content}


def _replayable(said: list[_Said], thoughts: bool) -> list[_Said]:
    """Without reasoning that is not taken back. What had come of it then goes without its ids,
    because they would ask for it."""
    made: list[_Said] = []
    orphaned = False
    for at, entry in enumerate(said):
        if entry.item["type"] == "reasoning":
            kept = thoughts and _carries_itself(entry.item) and _led_on(said[at + 1 :])
            orphaned = not kept
            if kept:
                made.append(entry)
        elif orphaned and entry.own:
            made.append(_anonymous(entry))
        else:
            made.append(entry)
    return made


def _carries_itself(item: Item) -> bool:
    return bool(item.get("encrypted_content") or item.get("content"))


def _led_on(rest: list[_Said]) -> bool:
    """Whether something of the provider's own follows, and not the end of a cut answer."""
    following = next((entry for entry in rest if entry.item["type"] != "reasoning"), None)
    return following is not None and following.own


def _anonymous(entry: _Said) -> _Said:
    if entry.words:
        return _Said(_message(entry.words))
    return _Said({key: value for key, value in entry.item.items() if key != "id"})


def _without_nulls(item: Item) -> Item:
    """As it came; but a field that is null when it comes is refused when it is sent."""
    return {key: value for key, value in item.items() if value is not None}


def short(id: str) -> str:
    """An id that is not too long."""
    return id if len(id) <= MAX_ID else blake2b(encoded(id), digest_size=16).hexdigest()
