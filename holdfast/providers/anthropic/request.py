"""Encodes a `Request` as the body of a call to the Anthropic Messages API. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.kernel.messages import Value
from holdfast.kernel.model import Effort, ProviderTool, Request, ToolSpec
from holdfast.providers.anthropic.answer_schema import answer_schema
from holdfast.providers.anthropic.messages import THINKING_BLOCKS, MessageEncoder, text_block
from holdfast.providers.foreign_messages import shape_instruction
from holdfast.providers.profile import Profile
from holdfast.providers.request_body import JsonObject, encoded, merged
from holdfast.providers.tool_schema import CHOICE_KEYWORDS, one_object, with_names

DEFAULT_MAX_TOKENS: Final = 32_000
"""Limit of an answer's tokens if neither the settings nor the profile has one: the API requires it.

Every model offered today can write more.
"""
MAX_CACHE_MARKS: Final = 4
"""Maximum number of cache marks per request."""
CACHE_MARK: Final = {"type": "ephemeral"}
MIN_THINKING_BUDGET: Final = 1_024
"""Smallest thinking budget in tokens that the API accepts."""
THINKING_BUDGETS: Final[Mapping[Effort, int]] = {
    "minimal": MIN_THINKING_BUDGET,
    "low": 4_096,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 65_536,
}
"""Thinking budgets in tokens by effort, for models that take a budget instead of an effort."""
ARGUMENT_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Valid names of a tool's arguments. An invalid one has the whole request refused."""
MIN_TOP_P_WHILE_THINKING: Final = 0.95
"""Smallest `top_p` that the API accepts while thinking."""
UNSUPPORTED_SETTINGS: Final = ("presence_penalty", "frequency_penalty", "seed")

# Only the model itself may call these. If provider-side code called them, half of an answer could
# wait in a sandbox for a tool of ours; models that cannot do that refuse the permission.
DIRECT_CALLS_ONLY: Final = {"allowed_callers": ["direct"]}
PROVIDER_TOOLS: Final[Mapping[str, JsonObject]] = {
    "web_search": {"type": "web_search_20260318", "name": "web_search", **DIRECT_CALLS_ONLY},
    "web_fetch": {"type": "web_fetch_20260318", "name": "web_fetch", **DIRECT_CALLS_ONLY},
    "code_execution": {"type": "code_execution_20250825", "name": "code_execution"},
}
PROVIDER_TOOL_OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "web_search": frozenset({"max_uses", "allowed_domains", "blocked_domains", "user_location"}),
    "web_fetch": frozenset({"max_uses", "allowed_domains", "blocked_domains"}),
}


class AnthropicTarget(Value, frozen=True):
    """The model that a request is for."""

    provider: str
    model: str
    profile: Profile

    @property
    def name(self) -> str:
        return f"{self.provider}:{self.model}"


def encode(
    request: Request, target: AnthropicTarget, container: str | None = None
) -> tuple[bytes, tuple[str, ...]]:
    """The body of a request, and notices for people about what was left out."""
    composer = _Composer(request, target)
    body = composer.body()
    if container is not None:
        body["container"] = container
    body = merged(body, request.settings.options.get(target.provider, {}))
    return encoded(body), tuple(dict.fromkeys(composer.notices))


class _Composer:
    """Builds the body of one request."""

    def __init__(self, request: Request, target: AnthropicTarget) -> None:
        self.notices: list[str] = []
        self._request = request
        self._target = target
        self._provider = target.provider
        self._profile = target.profile

    def body(self) -> JsonObject:
        request = self._request
        settings = request.settings
        limit = settings.max_output_tokens or self._profile.max_output or DEFAULT_MAX_TOKENS
        body: JsonObject = {"model": self._target.model, "max_tokens": limit, "stream": True}
        writer = MessageEncoder(self._provider, self._target.name, self._profile.files)
        messages = writer.write(request.messages)
        self.notices += writer.notices
        body |= self._thinking(limit, messages)
        body |= self._sampling(body.get("thinking"))
        shape = self._shape()
        if shape is not None:
            body.setdefault("output_config", {})["format"] = shape
        tools = self._tools()
        system, stable = self._system(shape is None)
        options = settings.options.get(self._provider, {})
        # A mark for the whole request is a mark too, at its end, and no mark before it may have a
        # shorter lifetime.
        mark = options.get("cache_control")
        _add_cache_marks(
            tools,
            stable,
            messages,
            MAX_CACHE_MARKS - ("cache_control" in options),
            mark or CACHE_MARK,
        )
        if system:
            body["system"] = system
        if tools:
            body["tools"] = tools
            body |= self._tool_choice(tools)
        if settings.stop:
            body["stop_sequences"] = list(settings.stop)
        body["messages"] = messages
        return body

    def _system(self, instruct: bool) -> tuple[list[JsonObject], list[JsonObject]]:
        """The system prefix, and those of its blocks that end a cached part."""
        blocks: list[JsonObject] = []
        stable: list[JsonObject] = []
        for prefix in self._request.system:
            if prefix.text.strip():
                blocks.append(text_block(prefix.text))
                stable += blocks[-1:] if prefix.cache else ()
        if self._request.output is not None and instruct:
            blocks.append(text_block(shape_instruction(self._request.output)))
        return blocks, stable

    # --- settings ---

    def _thinking(self, limit: int, messages: Sequence[JsonObject]) -> JsonObject:
        effort = self._profile.effort(self._request.effort)
        if effort is None:
            return {}
        if effort == "none":
            return {"thinking": {"type": "disabled"}}
        if self._request.settings.forces_call:
            self._left_out("thinking, because tool_choice requires a call")
            return {}
        if self._profile.options.get("thinking", "adaptive") != "budget":
            level = "low" if effort == "minimal" else effort
            # Some models send no thinking unless a summary is requested.
            return {
                "thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": {"effort": level},
            }
        if not _may_think(messages):
            return {}
        if limit <= MIN_THINKING_BUDGET:
            self._left_out("thinking, because the token limit of the answer is too low")
            return {}
        budget = min(THINKING_BUDGETS[effort], max(MIN_THINKING_BUDGET, limit * 3 // 4))
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}

    def _sampling(self, thinking: JsonObject | None) -> JsonObject:
        settings = self._request.settings
        names = ("temperature", "top_p", "top_k")
        wanted = {name: getattr(settings, name) for name in names}
        wanted = {name: value for name, value in wanted.items() if value is not None}
        sent = dict(wanted)
        if not self._profile.sampling:
            sent = {}
        elif thinking is not None and thinking["type"] != "disabled":
            sent = (
                {"top_p": wanted["top_p"]}
                if wanted.get("top_p", 0.0) >= MIN_TOP_P_WHILE_THINKING
                else {}
            )
        elif "temperature" in sent:
            sent.pop("top_p", None)  # newer models accept only one of the two
        for name in (*wanted, *UNSUPPORTED_SETTINGS):
            if name not in sent and getattr(settings, name) is not None:
                self._left_out(name)
        return sent

    def _shape(self) -> JsonObject | None:
        shape = self._request.output
        if shape is None or not self._profile.structured:
            return None
        schema = answer_schema(shape.schema)
        if schema is None:
            return None
        if shape.description:
            schema.setdefault("description", shape.description)
        return {"type": "json_schema", "schema": schema}

    def _left_out(self, what: str) -> None:
        self.notices.append(f"{self._target.name} was asked without {what}.")

    # --- tools ---

    def _tools(self) -> list[JsonObject]:
        tools = [self._declared(spec) for spec in self._request.tools]
        for tool in self._request.provider_tools:
            native = tool.native.get(self._provider)
            if native is not None:
                tools.append(dict(native))
            elif tool.name in PROVIDER_TOOLS:
                tools.append({**PROVIDER_TOOLS[tool.name], **self._options(tool)})
            else:
                self._left_out(f"{tool.name}, which it does not have")
        return tools

    def _tool_choice(self, tools: Sequence[JsonObject]) -> JsonObject:
        """Which tool to call, and whether several may be called, as one field."""
        settings = self._request.settings
        choice: JsonObject = {}
        match settings.tool_choice:
            case None:
                pass
            case "none" | "auto" as word:
                choice = {"type": word}
            case "required":
                choice = {"type": "any"}
            case name if any(tool.get("name") == name for tool in tools):
                choice = {"type": "tool", "name": name}
            case name:
                self._left_out(f"tool_choice {name}")
        if settings.parallel_tool_calls is False and settings.tool_choice != "none":
            choice = {"type": "auto", **choice, "disable_parallel_tool_use": True}
        return {"tool_choice": choice} if choice else {}

    def _declared(self, spec: ToolSpec) -> JsonObject:
        native = spec.native.get(self._provider)
        if native is not None:
            return dict(native)
        schema, rest = {"type": "object", **spec.schema}, ""
        if not CHOICE_KEYWORDS.isdisjoint(schema):
            schema, rest = one_object(schema, CHOICE_KEYWORDS)
        schema, odd = with_names(schema, ARGUMENT_NAME)
        about = "\n".join(filter(None, (spec.description, rest, odd)))
        tool: JsonObject = {"name": spec.name}
        if about:
            tool["description"] = about
        tool["input_schema"] = schema
        return tool

    def _options(self, tool: ProviderTool) -> JsonObject:
        supported = PROVIDER_TOOL_OPTIONS.get(tool.name, frozenset())
        options = {name: value for name, value in tool.options.items() if name in supported}
        if "allowed_domains" in options:
            options.pop("blocked_domains", None)  # one or the other
        if isinstance(options.get("user_location"), Mapping):
            options["user_location"] = {"type": "approximate", **options["user_location"]}
        for name in tool.options:
            if name not in options:
                self._left_out(f"{name} of {tool.name}")
        return options


# --- The whole ----------------------------------------------------------------------------------


def _may_think(messages: Sequence[JsonObject]) -> bool:
    """Whether the conversation allows thinking.

    Models with a budget refuse it in a turn that began without thinking.
    """
    beginning: JsonObject | None = None
    for wire in reversed(messages):
        if wire["role"] == "assistant":
            beginning = wire
        elif wire["content"][0]["type"] != "tool_result":
            break
    return beginning is None or beginning["content"][0]["type"] in THINKING_BLOCKS


def _add_cache_marks(
    tools: list[JsonObject],
    system: list[JsonObject],
    messages: list[JsonObject],
    available: int,
    mark: Mapping[str, str],
) -> None:
    """Mark the prefix that the next request will share.

    Marks go to the last two messages, the tools and, as far as marks are left, the system prefix,
    its end first.
    """
    ends = [
        end
        for wire in reversed(messages[-2:])
        if (end := _last_markable_block(wire["content"])) is not None
    ]
    ends += [tool for tool in tools[-1:] if not tool.get("defer_loading")]
    ends += reversed(system)
    used = sum("cache_control" in tool for tool in tools)
    for block in ends[: max(0, available - used)]:
        block.setdefault("cache_control", mark)


def _last_markable_block(content: list[JsonObject]) -> JsonObject | None:
    """The last block that may carry a mark: not thinking, and not of an unknown type."""
    for block in reversed(content):
        kind = block["type"]
        if kind in ("text", "image", "document") or "tool" in kind:
            return block
    return None
