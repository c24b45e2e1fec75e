"""Encodes our requests for pydantic-ai. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace
from pydantic import TypeAdapter, ValidationError
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    SystemPromptPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.native_tools import (
    NATIVE_TOOL_TYPES,
    SUPPORTED_NATIVE_TOOLS,
    AbstractNativeTool,
)
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.messages import (
    File,
    Message,
    Part,
    Source,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
)
from holdfast.kernel.model import Block, Effort, ProviderTool, Request, Settings
from holdfast.providers.foreign_messages import (
    family,
    left_out,
    provider_of,
    readable,
    spelled_out,
    url_of,
)
from holdfast.providers.profile import Family
from holdfast.providers.pydantic_ai.parts import PROVIDER, clean, response_of, restored

_FITS: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")

FAILED: Final[frozenset[ToolOutcome]] = frozenset({"failed", "timed_out", "lost", "refused"})
"""Outcomes that a provider is told as an error."""


class Asked(Struct, frozen=True):
    """What pydantic-ai is called with."""

    messages: list[ModelMessage]
    parameters: ModelRequestParameters
    settings: ModelSettings
    notices: tuple[str, ...]
    """What could not be said: people are told."""


def asked(request: Request, model: Model[Any], name: str, settings: ModelSettings) -> Asked:
    """The request, for this model. `settings` are the user's defaults."""
    writer = _Writer(model.profile, name)
    parameters = ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                parameters_json_schema=dict(tool.schema),
                description=tool.description or None,
            )
            for tool in request.tools
        ],
        native_tools=list(writer.native_tools(model, request.provider_tools)),
        instruction_parts=_instructions(request.system),
        **_shaped(request, model.profile),
    )
    messages = model.prepare_messages(writer.messages(request.messages), parameters)
    return Asked(messages, parameters, _settings(request, model, settings), tuple(writer.notices))


def _instructions(system: Sequence[Block]) -> list[InstructionPart]:
    """The system prefix. What stands before the last cache mark does not change."""
    last = max((at for at, block in enumerate(system) if block.cache), default=len(system) - 1)
    return [
        InstructionPart(content=clean(block.text), dynamic=at > last)
        for at, block in enumerate(system)
    ]


def _shaped(request: Request, profile: ModelProfile) -> dict[str, Any]:
    """How an answer of a given shape is asked for: natively, or in words."""
    shape = request.output
    if shape is None:
        return {}
    native = profile.get("supports_json_schema_output", False)
    return {
        "output_mode": "native" if native else "prompted",
        "output_object": OutputObjectDefinition(
            json_schema=dict(shape.schema),
            name=shape.name,
            description=shape.description or None,
        ),
    }


# --- Settings -----------------------------------------------------------------------------------

_NAMES: Final = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "max_output_tokens": "max_tokens",
}


def _settings(request: Request, model: Model[Any], defaults: ModelSettings) -> ModelSettings:
    """The most particular last: ours, the user's defaults, the request's, those for pydantic-ai."""
    made: dict[str, Any] = {}
    if "max_retries" not in model.unsupported_settings:
        made["max_retries"] = 0  # the loop tries again, and says so
    if any(block.cache for block in request.system):
        made["cache"] = True
    if request.cache_key is not None:
        made["openai_prompt_cache_key"] = request.cache_key
    made |= cast("dict[str, Any]", defaults)
    made |= _given(request.settings, request.effort)
    made |= request.settings.options.get(PROVIDER, {})
    return cast(ModelSettings, made)


def _given(settings: Settings, effort: Effort | None) -> dict[str, Any]:
    values = {name: getattr(settings, ours) for ours, name in _NAMES.items()}
    if effort is not None:
        values["thinking"] = False if effort == "none" else effort
    return {name: value for name, value in values.items() if value is not None}


# --- Messages -----------------------------------------------------------------------------------

_FLAGS: Final[Mapping[Family, str]] = {
    "image": "supports_image_input",
    "audio": "supports_audio_file_input",
    "video": "supports_video_input",
    "pdf": "supports_document_input",
}
_URLS: Final[Mapping[Family, type[ImageUrl | AudioUrl | VideoUrl | DocumentUrl]]] = {
    "image": ImageUrl,
    "audio": AudioUrl,
    "video": VideoUrl,
    "pdf": DocumentUrl,
    "text": DocumentUrl,
}


class _Writer:
    """Writes messages, and notes what could not be written."""

    def __init__(self, profile: ModelProfile, name: str) -> None:
        self.notices: list[str] = []
        self._profile = profile
        self._name = name
        self._ids: dict[str, str] = {}
        """Of calls that are sent under another id than they have, by the one they have."""

    def messages(self, messages: Iterable[Message]) -> list[ModelMessage]:
        """The history. What we say in a row is one request."""
        written: list[ModelMessage] = []
        pending: list[ModelRequestPart] = []
        for message in messages:
            if message.role != "assistant":
                pending += self._said(message)
                continue
            parts = [restored(part) for part in self._readable(message)]
            spoken = [part for part in parts if part is not None]
            if not spoken:
                continue
            if pending:
                written.append(ModelRequest(parts=pending))
                pending = []
            written.append(response_of(spoken, message.metadata))
        if pending:
            written.append(ModelRequest(parts=pending))
        return written

    def _readable(self, message: Message) -> Iterator[Part]:
        """The parts of an answer. An id that somebody else gave may not fit here."""
        own = provider_of(message) == PROVIDER
        for part in readable(message, PROVIDER):
            if not own and isinstance(part, ToolCall) and not _FITS.fullmatch(part.id):
                self._ids[part.id] = fitting(part.id)
                yield replace(part, id=self._ids[part.id])
            else:
                yield part

    def _said(self, message: Message) -> Iterator[ModelRequestPart]:
        if message.role == "tool":
            for result in message.results:
                yield self._result(result)
        elif message.role == "system":
            yield SystemPromptPart(clean(message.text))
        else:
            content = list(self._content(message.parts))
            texts = [item for item in content if isinstance(item, str)]
            if content:
                yield UserPromptPart(texts[0] if content == texts[:1] else content)

    def _result(self, result: ToolResult) -> ToolReturnPart:
        content = list(self._content(result.content))
        texts = [item for item in content if isinstance(item, str)]
        plain = "\n\n".join(texts) if len(texts) == len(content) else content
        return ToolReturnPart(
            tool_name=result.tool,
            content=plain,
            tool_call_id=self._ids.get(result.call_id, result.call_id),
            outcome="failed" if result.outcome in FAILED else "success",
        )

    def _content(self, parts: Iterable[object]) -> Iterator[UserContent]:
        for part in parts:
            match part:
                case Text(text) if text:
                    yield clean(text)
                case Source(url, title):
                    yield clean(f"{title}: {url}" if title else url)
                case File():
                    yield self._file(part)

    def _file(self, file: File) -> UserContent:
        text = spelled_out(file)
        if text is not None:
            return clean(text)
        kind, url = family(file.media_type), url_of(file)
        if kind is not None and self._profile.get(_FLAGS.get(kind, ""), True):
            if url is not None:
                return _URLS[kind](url, media_type=file.media_type)
            if file.data is not None:
                return BinaryContent(data=file.data, media_type=file.media_type)
        instead, notice = left_out(file, self._name)
        self.notices.append(notice)
        return clean(instead)

    # --- what the provider runs ---

    def native_tools(
        self, model: Model[Any], tools: Iterable[ProviderTool]
    ) -> Iterator[AbstractNativeTool]:
        supported = self._profile.get("supported_native_tools", SUPPORTED_NATIVE_TOOLS)
        for tool in tools:
            native = _native(tool)
            if native is None or type(native) not in supported:
                self.notices.append(f"{self._name} has no {tool.name}.")
            elif cannot := model.unsupported_native_tool_settings(native):
                without = ", ".join(sorted(cannot))
                self.notices.append(f"{self._name} has {tool.name} only without {without}.")
            else:
                yield native


_NATIVE: Final[TypeAdapter[AbstractNativeTool]] = TypeAdapter(AbstractNativeTool)


def _native(tool: ProviderTool) -> AbstractNativeTool | None:
    """A provider's tool by our name or in pydantic-ai's own words; None when it knows no such."""
    declared = tool.native.get(PROVIDER)
    if declared is None and tool.name not in NATIVE_TOOL_TYPES:
        return None
    options = tool.options if declared is None else declared
    try:
        return _NATIVE.validate_python({"kind": tool.name, **options})
    except ValidationError as error:
        raise ConfigError(f"the options of {tool.name} do not fit pydantic-ai: {error}") from None


def fitting(id: str) -> str:
    """An id that every provider takes, the same each time."""
    digest = sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{re.sub(r'[^a-zA-Z0-9_-]', '_', id)[:40]}_{digest}"
