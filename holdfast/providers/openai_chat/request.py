"""Encodes a request as the body of a chat completion. Pure."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final, Literal

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.model import Effort, ProviderTool, Request, Shape, ToolSpec
from holdfast.providers.foreign_messages import shape_instruction
from holdfast.providers.openai_chat.messages import ChatEndpoint, conversation
from holdfast.providers.openai_chat.quirks import EffortStyle
from holdfast.providers.request_body import JsonObject, encoded, merged
from holdfast.providers.strict import strict_schema
from holdfast.providers.tool_schema import nameable, one_object

MAX_CACHE_KEY: Final = 64
"""Maximum length of a cache key at OpenAI."""

AnswerFormat = Literal["json_schema", "json_object", "in words"]

_OPTION_SOURCES: Final = {"openai-chat": ("openai", "openai-chat")}
"""Providers whose options apply, the last with the highest precedence, if not only its own."""


def encode(request: Request, endpoint: ChatEndpoint) -> tuple[bytes, tuple[str, ...]]:
    """The body, and notices for people about what was left out.

    The same request gives the same bytes. Messages come last, so that a longer conversation begins
    with the bytes of a shorter one.
    """
    notices: list[str] = []
    quirks = endpoint.quirks
    body: JsonObject = {"model": endpoint.model, "stream": True}
    if quirks.stream_usage:
        body["stream_options"] = {"include_usage": True}
    body |= _tools(request, endpoint, notices)
    structure = _answer_format(request, endpoint)
    if request.output is not None and structure != "in words":
        body["response_format"] = _format(request.output, structure, quirks.strict)
    effort = _effort(request, endpoint, "tools" in body, notices)
    body |= _settings(request, endpoint, effort, notices)
    body |= _tool_choice(request, endpoint, "tools" in body, notices)
    if effort is not None and quirks.effort is not None:
        body |= _effort_as(quirks.effort, effort)
    body |= _caching(request, endpoint)
    for name in _OPTION_SOURCES.get(endpoint.provider, (endpoint.provider,)):
        body = merged(body, request.settings.options.get(name, {}))
    instruction = None
    if request.output is not None and structure != "json_schema":
        instruction = shape_instruction(request.output)
    messages, message_notices = conversation(request, endpoint, instruction)
    body.setdefault("messages", messages)
    return encoded(body), (*notices, *message_notices)


# --- Tools --------------------------------------------------------------------------------------


def _tools(request: Request, endpoint: ChatEndpoint, notices: list[str]) -> JsonObject:
    fields: JsonObject = {}
    tools = [_declared(tool, endpoint.provider) for tool in request.tools]
    for tool in request.provider_tools:
        if native := tool.native.get(endpoint.provider):
            tools.append(dict(native))
        elif tool.name == "web_search" and _can_search(endpoint):
            fields |= _web_search(tool, endpoint, notices)
        else:
            notices.append(f"{endpoint.name} has no {tool.name} of its own: it was left out.")
    return {"tools": tools, **fields} if tools else fields


def _declared(tool: ToolSpec, provider: str) -> JsonObject:
    if native := tool.native.get(provider):
        return dict(native)
    parameters, rest = one_object(tool.schema)
    about = "\n".join(filter(None, (tool.description, rest)))
    function: JsonObject = {"name": tool.name, "parameters": parameters}
    if about:
        function["description"] = about
    return {"type": "function", "function": function}


def _can_search(endpoint: ChatEndpoint) -> bool:
    if endpoint.quirks.web_search == "options":
        return "-search" in endpoint.model  # gpt-5-search-api: other models refuse the option
    return endpoint.quirks.web_search is not None


def _web_search(tool: ProviderTool, endpoint: ChatEndpoint, notices: list[str]) -> JsonObject:
    """Fields for a provider's web search, with the options that it has."""
    allowed = list(tool.options.get("allowed_domains") or ())
    blocked = list(tool.options.get("blocked_domains") or ())
    location = tool.options.get("user_location")
    if endpoint.quirks.web_search == "plugin":
        supported = {"allowed_domains", "blocked_domains"}
        domains = {"include_domains": allowed, "exclude_domains": blocked}
        plugin: JsonObject = {
            "id": "web",
            **{key: value for key, value in domains.items() if value},
        }
        options: JsonObject = {"plugins": [plugin]}
    else:
        supported = {"user_location"}
        near = {"type": "approximate", "approximate": dict(location or {})}
        options = {"web_search_options": {"user_location": near} if location else {}}
    notices += [
        f"{endpoint.name} does not know {name} of web_search: it was left out."
        for name in tool.options
        if name not in supported
    ]
    return options


# --- The form of the answer ---------------------------------------------------------------------


def _answer_format(request: Request, endpoint: ChatEndpoint) -> AnswerFormat:
    """How the form of the answer is enforced."""
    quirks = endpoint.quirks
    if request.output is None or quirks.structured is None or not endpoint.profile.structured:
        return "in words"
    if request.tools and not quirks.structured_with_tools:
        return "in words"
    if quirks.structured == "json_schema" and _root_type(request.output) != "object":
        return "in words"  # only an object is accepted as a root
    return quirks.structured


def _root_type(shape: Shape) -> Any:
    schema, _ = strict_schema(shape.schema)
    return schema.get("type")


def _format(shape: Shape, structure: AnswerFormat, knows_strict: bool) -> JsonObject:
    if structure == "json_object":
        return {"type": "json_object"}
    json_schema: JsonObject = {"name": nameable(shape.name) or "answer"}
    if shape.description:
        json_schema["description"] = shape.description
    schema, strict = strict_schema(shape.schema)
    if knows_strict:
        json_schema |= {"schema": schema, "strict": strict}
    else:
        json_schema["schema"] = dict(shape.schema)
    return {"type": "json_schema", "json_schema": json_schema}


# --- Settings -----------------------------------------------------------------------------------


def _settings(
    request: Request, endpoint: ChatEndpoint, effort: Effort | None, notices: list[str]
) -> JsonObject:
    settings, quirks = request.settings, endpoint.quirks
    sampling = endpoint.profile.samples(effort)
    supported = {
        "temperature": True,
        "top_p": True,
        "top_k": quirks.top_k,
        "presence_penalty": quirks.penalties,
        "frequency_penalty": quirks.penalties,
    }
    fields: JsonObject = {}
    for name, is_supported in supported.items():
        value = getattr(settings, name)
        if value is None:
            continue
        if is_supported and sampling:
            fields[name] = value
        else:
            condition = (
                " together with an effort" if is_supported and endpoint.profile.sampling else ""
            )
            notices.append(f"{endpoint.name} does not take {name}{condition}: it was left out.")
    if settings.max_output_tokens is not None:
        fields[quirks.max_tokens] = settings.max_output_tokens
    if settings.seed is not None and quirks.seed is not None:
        fields[quirks.seed] = settings.seed
    elif settings.seed is not None:
        notices.append(f"{endpoint.name} does not take seed: it was left out.")
    if settings.stop and (quirks.stop == "always" or (quirks.stop and sampling)):
        fields["stop"] = list(settings.stop)
    elif settings.stop:
        notices.append(f"{endpoint.name} does not take stop: it was left out.")
    return fields


def _tool_choice(
    request: Request, endpoint: ChatEndpoint, tools: bool, notices: list[str]
) -> JsonObject:
    """Which tool to call, and whether several may be called. Refused without tools."""
    settings, fields = request.settings, dict[str, Any]()
    if not tools:
        return {}
    if settings.parallel_tool_calls is not None and endpoint.quirks.parallel_calls:
        fields["parallel_tool_calls"] = settings.parallel_tool_calls
    elif settings.parallel_tool_calls is False:
        notices.append(f"{endpoint.name} does not take parallel_tool_calls: it was left out.")
    choice = settings.tool_choice
    names = {spec.name for spec in request.tools}
    if settings.forces_call and not (
        endpoint.quirks.forces_calls and (choice == "required" or choice in names)
    ):
        notices.append(f"{endpoint.name} cannot be made to call {choice}: it was left out.")
    elif choice in ("auto", "none", "required"):
        fields["tool_choice"] = choice
    elif choice is not None:
        fields["tool_choice"] = {"type": "function", "function": {"name": choice}}
    return fields


def _effort(
    request: Request, endpoint: ChatEndpoint, tools: bool, notices: list[str]
) -> Effort | None:
    """The effort to send, or None."""
    name, level = endpoint.name, endpoint.effort(request.effort)
    if level is not None and endpoint.quirks.effort is None:
        notices.append(f"{name} cannot be told how hard to think: {level} was left out.")
        return None
    if not tools or endpoint.profile.options.get("chat_tools") != "no_effort" or level == "none":
        return level
    # OpenAI's newer models accept tools here only with the effort "none", which must be sent.
    instead = f"use openai:{endpoint.model}, which uses the Responses API"
    if "none" not in (endpoint.profile.efforts or ("none",)):
        raise ConfigError(f"{name} takes no tools over Chat Completions: {instead}")
    notices.append(f"{name} does not think over Chat Completions when it has tools: {instead}.")
    return "none"


def _effort_as(style: EffortStyle, level: Effort) -> JsonObject:
    thinks = level != "none"
    match style:
        case "effort_or_thinking" if not thinks:
            return {"thinking": {"type": "disabled"}}
        case "effort" | "effort_or_thinking":
            return {"reasoning_effort": level}
        case "reasoning":
            return {"reasoning": {"effort": level}}
        case "thinking":
            fields: JsonObject = {"thinking": {"type": "enabled" if thinks else "disabled"}}
        case "enabled":
            fields = {"reasoning": {"enabled": thinks}}
        case "template":
            # Two names of the same switch: a template reads the one it knows.
            words: JsonObject = {"enable_thinking": thinks, "thinking": thinks}
            if thinks:
                words["reasoning_effort"] = level
            fields = {"chat_template_kwargs": words}
    return {**fields, "reasoning_effort": level} if thinks else fields


def _caching(request: Request, endpoint: ChatEndpoint) -> JsonObject:
    fields: JsonObject = {}
    quirks = endpoint.quirks
    if quirks.cache_key is not None and request.cache_key is not None:
        fields[quirks.cache_key] = cache_key(request.cache_key)
    is_wanted = request.cache_key is not None or any(block.cache for block in request.system)
    if is_wanted and endpoint.model.startswith(quirks.cache_control):
        fields["cache_control"] = {"type": "ephemeral"}
    return fields


def cache_key(key: str) -> str:
    """A cache key that is short enough, and valid in a header."""
    if len(key) <= MAX_CACHE_KEY and key.isascii() and key.isprintable():
        return key
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
