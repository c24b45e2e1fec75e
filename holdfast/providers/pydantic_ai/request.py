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
    file_as_text,
    file_url,
    omitted_file,
    provider_of,
    replayable_parts,
)
from holdfast.providers.profile import Family
from holdfast.providers.pydantic_ai.parts import PROVIDER, clean, response_of, restored

_VALID_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")

FAILED_OUTCOMES: Final[frozenset[ToolOutcome]] = frozenset(
    {"failed", "timed_out", "lost", "refused"}
)
"""Outcomes that are sent as errors."""


class PydanticRequest(Struct, frozen=True):
    """Arguments of a pydantic-ai call."""

    messages: list[ModelMessage]
    parameters: ModelRequestParameters
    settings: ModelSettings
    notices: tuple[str, ...]
    """Notices for people: what was left out."""


def encoded_request(
    request: Request, model: Model[Any], name: str, settings: ModelSettings
) -> PydanticRequest:
    """The request in pydantic-ai's form. `settings`: the user's defaults."""
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
        **_output_parameters(request, model.profile),
    )
    messages = model.prepare_messages(writer.messages(request.messages), parameters)
    return PydanticRequest(
        messages, parameters, _settings(request, model, settings), tuple(writer.notices)
    )


def _instructions(system: Sequence[Block]) -> list[InstructionPart]:
    """The system prefix. Blocks up to the last cache mark are static."""
    last = max((at for at, block in enumerate(system) if block.cache), default=len(system) - 1)
    return [
        InstructionPart(content=clean(block.text), dynamic=at > last)
        for at, block in enumerate(system)
    ]


def _output_parameters(request: Request, profile: ModelProfile) -> dict[str, Any]:
    """Parameters for a shaped answer: native, or as an instruction."""
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

_SETTING_NAMES: Final = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "max_output_tokens": "max_tokens",
    "seed": "seed",
}


def _settings(request: Request, model: Model[Any], defaults: ModelSettings) -> ModelSettings:
    """The merged settings.

    In ascending precedence: ours, the user's defaults, the request's, those for pydantic-ai.
    """
    merged: dict[str, Any] = {}
    if "max_retries" not in model.unsupported_settings:
        merged["max_retries"] = 0  # the loop retries, and reports it
    if any(block.cache for block in request.system):
        merged["cache"] = True
    if request.cache_key is not None:
        merged["openai_prompt_cache_key"] = request.cache_key
    merged |= cast("dict[str, Any]", defaults)
    merged |= _setting_values(request.settings, request.effort)
    if request.tools:
        merged |= _tool_choice(request.settings)
    merged |= request.settings.options.get(PROVIDER, {})
    return cast(ModelSettings, merged)


def _setting_values(settings: Settings, effort: Effort | None) -> dict[str, Any]:
    values = {name: getattr(settings, ours) for ours, name in _SETTING_NAMES.items()}
    if settings.stop:
        values["stop_sequences"] = list(settings.stop)
    if effort is not None:
        values["thinking"] = False if effort == "none" else effort
    return {name: value for name, value in values.items() if value is not None}


def _tool_choice(settings: Settings) -> dict[str, Any]:
    """Which tool to call, and whether several may be called. Refused without tools."""
    values: dict[str, Any] = {}
    choice = settings.tool_choice
    if choice is not None:
        values["tool_choice"] = choice if choice in ("auto", "none", "required") else [choice]
    if settings.parallel_tool_calls is not None:
        values["parallel_tool_calls"] = settings.parallel_tool_calls
    return values


# --- Messages -----------------------------------------------------------------------------------

_FILE_FLAGS: Final[Mapping[Family, str]] = {
    "image": "supports_image_input",
    "audio": "supports_audio_file_input",
    "video": "supports_video_input",
    "pdf": "supports_document_input",
}
_FILE_URL_CLASSES: Final[Mapping[Family, type[ImageUrl | AudioUrl | VideoUrl | DocumentUrl]]] = {
    "image": ImageUrl,
    "audio": AudioUrl,
    "video": VideoUrl,
    "pdf": DocumentUrl,
    "text": DocumentUrl,
}


class _Writer:
    """Encodes messages, and collects notices about what was left out."""

    def __init__(self, profile: ModelProfile, name: str) -> None:
        self.notices: list[str] = []
        self._profile = profile
        self._name = name
        self._ids: dict[str, str] = {}
        """Ids under which calls are sent, by their own ids, if these are not valid."""

    def messages(self, messages: Iterable[Message]) -> list[ModelMessage]:
        """The history. Consecutive messages that are not answers are one request."""
        encoded: list[ModelMessage] = []
        pending: list[ModelRequestPart] = []
        for message in messages:
            if message.role != "assistant":
                pending += self._user_parts(message)
                continue
            parts = [restored(part) for part in self._readable(message)]
            sendable = [part for part in parts if part is not None]
            if not sendable:
                continue
            if pending:
                encoded.append(ModelRequest(parts=pending))
                pending = []
            encoded.append(response_of(sendable, message.metadata))
        if pending:
            encoded.append(ModelRequest(parts=pending))
        return encoded

    def _readable(self, message: Message) -> Iterator[Part]:
        """The parts of an answer. An id of another provider is replaced if it is not valid."""
        own = provider_of(message) == PROVIDER
        for part in replayable_parts(message, PROVIDER):
            if not own and isinstance(part, ToolCall) and not _VALID_ID.fullmatch(part.id):
                self._ids[part.id] = valid_id(part.id)
                yield replace(part, id=self._ids[part.id])
            else:
                yield part

    def _user_parts(self, message: Message) -> Iterator[ModelRequestPart]:
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
            outcome="failed" if result.outcome in FAILED_OUTCOMES else "success",
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
        text = file_as_text(file)
        if text is not None:
            return clean(text)
        kind, url = family(file.media_type), file_url(file)
        if kind is not None and self._profile.get(_FILE_FLAGS.get(kind, ""), True):
            if url is not None:
                return _FILE_URL_CLASSES[kind](url, media_type=file.media_type)
            if file.data is not None:
                return BinaryContent(data=file.data, media_type=file.media_type)
        instead, notice = omitted_file(file, self._name)
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
    """A provider's tool, by our name or pydantic-ai's options.

    None if pydantic-ai has no such tool.
    """
    declared = tool.native.get(PROVIDER)
    if declared is None and tool.name not in NATIVE_TOOL_TYPES:
        return None
    options = tool.options if declared is None else declared
    try:
        return _NATIVE.validate_python({"kind": tool.name, **options})
    except ValidationError as error:
        raise ConfigError(
            f"the options of {tool.name} are not valid in pydantic-ai: {error}"
        ) from None


def valid_id(id: str) -> str:
    """An id that every provider accepts, always the same for the same id."""
    digest = sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{re.sub(r'[^a-zA-Z0-9_-]', '_', id)[:40]}_{digest}"
