"""Requests of the Anthropic Messages API: a `Request` in, the body of a call out. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.kernel.messages import Value
from holdfast.kernel.model import Effort, ProviderTool, Request, ToolSpec
from holdfast.providers.anthropic.messages import THINKING, Json, Writer, text_block
from holdfast.providers.anthropic.schema import held_schema
from holdfast.providers.foreign_messages import asked_in_words
from holdfast.providers.json_body import encoded, merged
from holdfast.providers.profile import Profile
from holdfast.providers.tool_schema import CHOICES, one_object, with_names

MAX_TOKENS: Final = 32_000
"""Of an answer, when neither the settings nor the profile say: the API wants to be told. Every
model that is offered today can write more."""
MAX_MARKS: Final = 4
"""Places that a request may mark for the cache."""
MARK: Final = {"type": "ephemeral"}
LEAST_BUDGET: Final = 1_024
"""Tokens of thinking below which the API does not go."""
BUDGETS: Final[Mapping[Effort, int]] = {
    "minimal": LEAST_BUDGET,
    "low": 4_096,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 65_536,
}
"""For models that are told how many tokens to think instead of how hard."""
FIELD: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""What an argument of a tool may be called. One that is not has the whole request refused."""
LEAST_TOP_P: Final = 0.95
"""While thinking."""
UNKNOWN_SETTINGS: Final = ("presence_penalty", "frequency_penalty")

# Called by the model alone: when they may also be called by code that the provider runs, half of an
# answer can wait in a sandbox for a tool of ours, and models that cannot do this refuse them.
DIRECT: Final = {"allowed_callers": ["direct"]}
PROVIDER_TOOLS: Final[Mapping[str, Json]] = {
    "web_search": {"type": "web_search_20260318", "name": "web_search", **DIRECT},
    "web_fetch": {"type": "web_fetch_20260318", "name": "web_fetch", **DIRECT},
    "code_execution": {"type": "code_execution_20250825", "name": "code_execution"},
}
OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "web_search": frozenset({"max_uses", "allowed_domains", "blocked_domains", "user_location"}),
    "web_fetch": frozenset({"max_uses", "allowed_domains", "blocked_domains"}),
}


class Target(Value, frozen=True):
    """Who is asked."""

    provider: str
    model: str
    profile: Profile

    @property
    def name(self) -> str:
        return f"{self.provider}:{self.model}"


def encode(
    request: Request, target: Target, container: str | None = None
) -> tuple[bytes, tuple[str, ...]]:
    """The body of a call, and what people should be told about what it leaves out."""
    composer = _Composer(request, target)
    body = composer.body()
    if container is not None:
        body["container"] = container
    body = merged(body, request.settings.options.get(target.provider, {}))
    return encoded(body), tuple(dict.fromkeys(composer.notices))


class _Composer:
    """Puts one request together."""

    def __init__(self, request: Request, target: Target) -> None:
        self.notices: list[str] = []
        self._request = request
        self._target = target
        self._provider = target.provider
        self._profile = target.profile

    def body(self) -> Json:
        request = self._request
        settings = request.settings
        limit = settings.max_output_tokens or self._profile.max_output or MAX_TOKENS
        body: Json = {"model": self._target.model, "max_tokens": limit, "stream": True}
        writer = Writer(self._provider, self._target.name, self._profile.files)
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
        # One that is given for the whole request is a mark of its own, at its end; and none before
        # it may be for a shorter time.
        given = options.get("cache_control")
        _mark(tools, stable, messages, MAX_MARKS - ("cache_control" in options), given or MARK)
        if system:
            body["system"] = system
        if tools:
            body["tools"] = tools
        body["messages"] = messages
        return body

    def _system(self, instruct: bool) -> tuple[list[Json], list[Json]]:
        """The system prefix, and those of its blocks that end something to be cached."""
        blocks: list[Json] = []
        stable: list[Json] = []
        for given in self._request.system:
            if given.text.strip():
                blocks.append(text_block(given.text))
                stable += blocks[-1:] if given.cache else ()
        if self._request.output is not None and instruct:
            blocks.append(text_block(asked_in_words(self._request.output)))
        return blocks, stable

    # --- settings ---

    def _thinking(self, limit: int, messages: Sequence[Json]) -> Json:
        effort = self._profile.effort(self._request.effort)
        if effort is None:
            return {}
        if effort == "none":
            return {"thinking": {"type": "disabled"}}
        if self._profile.options.get("thinking", "adaptive") != "budget":
            level = "low" if effort == "minimal" else effort
            # Some models keep their thoughts to themselves unless they are asked for a summary.
            return {
                "thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": {"effort": level},
            }
        if not _may_think(messages):
            return {}
        if limit <= LEAST_BUDGET:
            self._left_out("thinking, because the answer may have so few tokens")
            return {}
        budget = min(BUDGETS[effort], max(LEAST_BUDGET, limit * 3 // 4))
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}

    def _sampling(self, thinking: Json | None) -> Json:
        settings = self._request.settings
        names = ("temperature", "top_p", "top_k")
        wanted = {name: getattr(settings, name) for name in names}
        given = {name: value for name, value in wanted.items() if value is not None}
        sent = dict(given)
        if not self._profile.sampling:
            sent = {}
        elif thinking is not None and thinking["type"] != "disabled":
            sent = {"top_p": given["top_p"]} if given.get("top_p", 0.0) >= LEAST_TOP_P else {}
        elif "temperature" in sent:
            sent.pop("top_p", None)  # newer models take one of the two
        for name in (*given, *UNKNOWN_SETTINGS):
            if name not in sent and getattr(settings, name) is not None:
                self._left_out(name)
        return sent

    def _shape(self) -> Json | None:
        shape = self._request.output
        if shape is None or not self._profile.structured:
            return None
        schema = held_schema(shape.schema)
        if schema is None:
            return None
        if shape.description:
            schema.setdefault("description", shape.description)
        return {"type": "json_schema", "schema": schema}

    def _left_out(self, what: str) -> None:
        self.notices.append(f"{self._target.name} was asked without {what}.")

    # --- tools ---

    def _tools(self) -> list[Json]:
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

    def _declared(self, spec: ToolSpec) -> Json:
        native = spec.native.get(self._provider)
        if native is not None:
            return dict(native)
        schema, rest = {"type": "object", **spec.schema}, ""
        if not CHOICES.isdisjoint(schema):
            schema, rest = one_object(schema, CHOICES)
        schema, odd = with_names(schema, FIELD)
        about = "\n".join(filter(None, (spec.description, rest, odd)))
        tool: Json = {"name": spec.name}
        if about:
            tool["description"] = about
        tool["input_schema"] = schema
        return tool

    def _options(self, tool: ProviderTool) -> Json:
        known = OPTIONS.get(tool.name, frozenset())
        made = {name: value for name, value in tool.options.items() if name in known}
        if "allowed_domains" in made:
            made.pop("blocked_domains", None)  # one or the other
        if isinstance(made.get("user_location"), Mapping):
            made["user_location"] = {"type": "approximate", **made["user_location"]}
        for name in tool.options:
            if name not in made:
                self._left_out(f"{name} of {tool.name}")
        return made


# --- The whole ----------------------------------------------------------------------------------


def _may_think(messages: Sequence[Json]) -> bool:
    """Models with a budget refuse to go on thinking in a turn that began without a thought."""
    beginning: Json | None = None
    for wire in reversed(messages):
        if wire["role"] == "assistant":
            beginning = wire
        elif wire["content"][0]["type"] != "tool_result":
            break
    return beginning is None or beginning["content"][0]["type"] in THINKING


def _mark(
    tools: list[Json], system: list[Json], messages: list[Json], left: int, mark: Mapping[str, str]
) -> None:
    """Mark what the next request will begin with too: the last two messages, the tools, and as far
    as marks are left the system prefix, its end first."""
    ends = [end for wire in reversed(messages[-2:]) if (end := _last(wire["content"])) is not None]
    ends += [tool for tool in tools[-1:] if not tool.get("defer_loading")]
    ends += reversed(system)
    taken = sum("cache_control" in tool for tool in tools)
    for block in ends[: max(0, left - taken)]:
        block.setdefault("cache_control", mark)


def _last(content: list[Json]) -> Json | None:
    """The last block that can be marked: no thought, and nothing that we do not know."""
    for block in reversed(content):
        kind = block["type"]
        if kind in ("text", "image", "document") or "tool" in kind:
            return block
    return None
