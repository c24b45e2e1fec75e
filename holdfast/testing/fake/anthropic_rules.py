"""Request checks of the Anthropic Messages API, as far as its rules are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.providers.request_body import JsonObject
from holdfast.testing.fake.dialect_interface import InvalidRequest, Problem, ReceivedRequest

API_VERSIONS: Final = ("2023-06-01", "2026-10-21")
BODY_FIELDS: Final = frozenset(
    {
        "cache_control",
        "container",
        "diagnostics",
        "inference_geo",
        "max_tokens",
        "messages",
        "metadata",
        "model",
        "output_config",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
    }
)
BETA_FIELDS: Final = frozenset({"context_management", "mcp_servers"})
"""Fields that need an `anthropic-beta` header."""
EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
THINKING_BLOCKS: Final = ("thinking", "redacted_thinking")
ROLES: Final = ("user", "assistant", "system")
"""Roles of messages. Newer models accept system messages between the others."""
USER_BLOCKS: Final = ("text", "image", "document", "search_result", "tool_result")
IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
ARGUMENT_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Valid names of a tool's arguments."""
TOOL_CHOICE_FIELDS: Final[Mapping[str, Sequence[str]]] = {
    "any": ("type", "disable_parallel_tool_use"),
    "auto": ("type", "disable_parallel_tool_use"),
    "none": ("type",),
    "tool": ("type", "name", "disable_parallel_tool_use"),
}
TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
TOOL_USE_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
SERVER_TOOL_TYPE: Final = re.compile(r"[a-z_]+_20\d{6}")
UNSUPPORTED_KEYWORDS: Final = frozenset(
    {
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxItems",
        "maxLength",
        "maximum",
        "minLength",
        "minimum",
        "multipleOf",
        "oneOf",
        "pattern",
    }
)
PYTHON_TYPES: Final[Mapping[str, Sequence[type]]] = {
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "string": (str,),
}
"""Python types of the values that a schema may list."""


def request_problem(received: ReceivedRequest) -> Problem | None:
    """The first problem of a request, or None."""
    try:
        _check_head(received)
        body = _body(received)
        for check in BODY_CHECKS:
            check(body, received)
    except InvalidRequest as objection:
        return objection.problem
    return None


def _demand(holds: object, message: str) -> None:
    if not holds:
        raise InvalidRequest(message)


def _check_head(received: ReceivedRequest) -> None:
    headers = received.headers
    if received.path != "/v1/messages":
        raise InvalidRequest(f"there is nothing at {received.path}", 404)
    bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
    if not headers.get("x-api-key", "").strip() and not bearer:
        raise InvalidRequest("x-api-key header is required", 401)
    version = headers.get("anthropic-version")
    _demand(version in API_VERSIONS, f"anthropic-version: {version!r} is not a version")
    kind = headers.get("content-type", "")
    _demand(kind.startswith("application/json"), f"content-type: {kind!r} is not JSON")


def _body(received: ReceivedRequest) -> JsonObject:
    try:
        body = received.json
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the request body is not valid JSON: {error}") from None
    _demand(isinstance(body, dict), "the request body is not an object")
    assert isinstance(body, dict)
    return body


# --- Fields other than messages -------------------------------------------------------------


def _check_fields(body: JsonObject, received: ReceivedRequest) -> None:
    for name, kind in (("model", str), ("max_tokens", int), ("messages", list)):
        _demand(name in body, f"{name}: Field required")
        _demand(isinstance(body[name], kind) and body[name], f"{name}: Input should be valid")
    fields = BODY_FIELDS | (BETA_FIELDS if received.headers.get("anthropic-beta") else frozenset())
    for name in body:
        _demand(name in fields, f"{name}: Extra inputs are not permitted")
    _demand(body.get("stream") is True, "stream: this fake only streams")


def _check_thinking(body: JsonObject, received: ReceivedRequest) -> None:
    thinking = body.get("thinking", {"type": "disabled"})
    kind = thinking.get("type")
    kinds = ("adaptive", "between_tools", "disabled", "enabled")
    _demand(kind in kinds, f"thinking: {kind!r} is not one of {kinds}")
    if kind == "enabled":
        budget = thinking.get("budget_tokens", 0)
        _demand(budget >= 1_024, "thinking.enabled.budget_tokens: should be at least 1024")
        _demand(
            budget < body["max_tokens"], "`max_tokens` must be greater than the thinking budget"
        )
    is_on = kind in ("adaptive", "enabled")
    _demand(
        not is_on or body.get("temperature", 1) == 1, "`temperature` may only be 1 with thinking"
    )
    _demand(not is_on or "top_k" not in body, "`top_k` must be unset with thinking")
    _demand(
        not is_on or body.get("top_p", 1) >= 0.95, "`top_p` must be at least 0.95 with thinking"
    )
    both = "temperature" in body and "top_p" in body
    _demand(not both, "`temperature` and `top_p` cannot both be specified for this model")
    old = received.headers["anthropic-version"] == API_VERSIONS[0]
    for name in ("temperature", "top_p", "top_k"):
        _demand(old or name not in body, f"{name}: Extra inputs are not permitted")


def _check_output(body: JsonObject, received: ReceivedRequest) -> None:
    config = body.get("output_config", {})
    for name in config:
        _demand(name in ("effort", "format"), f"output_config.{name}: Extra inputs not permitted")
    effort = config.get("effort", "high")
    _demand(effort in EFFORTS, f"output_config.effort: {effort!r} is not one of {EFFORTS}")
    shape = config.get("format")
    if shape is not None:
        _demand(shape.get("type") == "json_schema", "output_config.format.type: 'json_schema'")
        _demand(isinstance(shape.get("schema"), dict), "output_config.format.schema: required")
        _check_schema(shape["schema"])


def _check_schema(schema: JsonObject) -> None:
    optional = unions = 0
    for one in _schemas(schema):
        for name in UNSUPPORTED_KEYWORDS & one.keys():
            raise InvalidRequest(f"output_config.format.schema: property '{name}' is not supported")
        kind = one.get("type")
        closed = kind != "object" or one.get("additionalProperties") is False
        _demand(closed, "output_config.format.schema: 'additionalProperties' must be false")
        _check_values(one)
        optional += len(one.get("properties", {}).keys() - set(one.get("required", ())))
        unions += "anyOf" in one or isinstance(kind, list)
    limits = "output_config.format.schema: Schemas contains too many"
    _demand(optional <= 24, f"{limits} optional parameters ({optional}), limit: 24")
    _demand(unions <= 16, f"{limits} parameters with union types ({unions}), limit: 16")


def _schemas(schema: JsonObject) -> Iterator[JsonObject]:
    """A schema and all schemas inside it."""
    yield schema
    inner = [*schema.get("anyOf", ()), *schema.get("allOf", ())]
    for name in ("properties", "$defs", "definitions"):
        inner += schema.get(name, {}).values()
    if "items" in schema:
        inner.append(schema["items"])
    for one in inner:
        yield from _schemas(one)


def _check_values(schema: JsonObject) -> None:
    kind = schema.get("type")
    if kind is None:
        return
    kinds = kind if isinstance(kind, list) else [kind]
    for value in (*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())):
        fits = any(type(value) in PYTHON_TYPES.get(one, ()) for one in kinds)
        where = "output_config.format.schema"
        _demand(fits, f"{where}: Enum value {value!r} does not match declared type {kind!r}")


def _check_system(body: JsonObject, received: ReceivedRequest) -> None:
    system = body.get("system", "x")
    if isinstance(system, str):
        return
    _demand(isinstance(system, list), "system: Input should be a valid list")
    for block in system:
        _demand(block.get("type") == "text", "system: only text blocks")
        _check_text(block, "system")


def _check_tools(body: JsonObject, received: ReceivedRequest) -> None:
    names: set[str] = set()
    for at, tool in enumerate(body.get("tools", ())):
        name = tool.get("name", "")
        _demand(
            TOOL_NAME.fullmatch(name),
            f"tools.{at}.name: String should match pattern '{TOOL_NAME.pattern}'",
        )
        _demand(name not in names, "tools: Tool names must be unique.")
        names.add(name)
        kind = tool.get("type", "custom")
        if kind != "custom":
            _demand(SERVER_TOOL_TYPE.fullmatch(kind), f"tools.{at}.type: {kind!r} is not a tool")
            lists = ("allowed_domains", "blocked_domains")
            _demand(not all(map(tool.get, lists)), f"tools.{at}: use one of {lists}")
            continue
        schema = tool.get("input_schema")
        _demand(isinstance(schema, dict), f"tools.{at}.custom.input_schema: Field required")
        _demand(schema.get("type") == "object", f"tools.{at}.custom.input_schema.type: 'object'")
        combinators = {"oneOf", "allOf", "anyOf"} & schema.keys()
        _demand(
            not combinators,
            f"tools.{at}: input_schema does not support {combinators} at the top level",
        )
        for key in schema.get("properties") or ():
            problem = f"Property keys should match pattern '{ARGUMENT_NAME.pattern}'"
            _demand(
                ARGUMENT_NAME.fullmatch(key),
                f"tools.{at}.custom.input_schema.properties: {problem}",
            )


def _check_tool_choice(body: JsonObject, received: ReceivedRequest) -> None:
    for text in body.get("stop_sequences", ()):
        _demand(str(text).strip(), "stop_sequences: each stop sequence must contain non-whitespace")
    choice = body.get("tool_choice")
    if choice is None:
        return
    kind, tools = choice.get("type"), body.get("tools", ())
    _demand(tools, "tool_choice may only be specified while providing tools")
    _demand(kind in TOOL_CHOICE_FIELDS, f"tool_choice: {kind!r} is not a valid type")
    for name in choice:
        extra = f"tool_choice.{kind}.{name}: Extra inputs are not permitted"
        _demand(name in TOOL_CHOICE_FIELDS[kind], extra)
    if kind == "tool":
        known = choice.get("name") in [tool["name"] for tool in tools]
        _demand(known, f"Tool '{choice.get('name')}' not found in provided tools")
    thinks = body.get("thinking", {}).get("type", "disabled") != "disabled"
    forces = kind in ("any", "tool")
    _demand(not (thinks and forces), "Thinking may not be enabled when tool_choice forces tool use")


def _check_marks(body: JsonObject, received: ReceivedRequest) -> None:
    system = body.get("system")
    blocks = [*body.get("tools", ()), *(system if isinstance(system, list) else ())]
    for message in body["messages"]:
        for block in _content(message):
            blocks.append(block)
            inner = block.get("content")
            blocks += inner if isinstance(inner, list) else ()
    marked = [block for block in blocks if isinstance(block, dict) and "cache_control" in block]
    count = len(marked) + ("cache_control" in body)
    _demand(count <= 4, f"A maximum of 4 blocks with cache_control may be provided. Found {count}.")
    for block in marked:
        kind = block.get("type")
        _demand(kind not in THINKING_BLOCKS, f"{kind} blocks cannot have cache_control")
        _demand(block["cache_control"].get("type") == "ephemeral", "cache_control: no such type")
    whole = [body] if "cache_control" in body else []  # marks its last block
    lifetimes = [block["cache_control"].get("ttl", "5m") for block in (*marked, *whole)]
    problem = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."
    _demand(lifetimes == sorted(lifetimes), problem)


# --- Messages -----------------------------------------------------------------------------------


def _content(message: JsonObject) -> Sequence[JsonObject]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _turns(messages: Sequence[JsonObject]) -> list[tuple[str, list[JsonObject]]]:
    """The turns of a conversation: consecutive messages of a role count as one."""
    turns: list[tuple[str, list[JsonObject]]] = []
    for message in messages:
        if not turns or turns[-1][0] != message["role"]:
            turns.append((message["role"], []))
        turns[-1][1].extend(_content(message))
    return turns


def _check_messages(body: JsonObject, received: ReceivedRequest) -> None:
    messages = body["messages"]
    for at, message in enumerate(messages):
        role = message.get("role")
        _demand(role in ROLES, f"messages.{at}: unexpected role {role!r}")
        content = _content(message)
        _demand(content, f"messages.{at}: all messages must have non-empty content")
        for position, block in enumerate(content):
            where = f"messages.{at}.content.{position}"
            _check_block(block, role, where)
        final = content[-1].get("type")
        _demand(
            role != "assistant" or final not in THINKING_BLOCKS,
            f"messages.{at}: {FINAL_BLOCK} cannot be {final!r}",
        )
    _demand(messages[0]["role"] == "user", 'messages: first message must use the "user" role')
    _demand(
        messages[-1]["role"] != "assistant" or _goes_on(body),
        "This model does not support assistant message prefill. "
        "The conversation must end with a user message.",
    )


def _goes_on(body: JsonObject) -> bool:
    """Whether the last answer may have paused. Calls in it are checked elsewhere."""
    last = _content(body["messages"][-1])[-1].get("type", "")
    runs_there = any(tool.get("type", "custom") != "custom" for tool in body.get("tools", ()))
    return runs_there or last.endswith("tool_use")


FINAL_BLOCK: Final = "The final block in an assistant message"


def _check_block(block: JsonObject, role: str, where: str) -> None:
    kind = block.get("type", "")
    ours = kind in USER_BLOCKS
    fits = {"user": ours, "assistant": kind == "text" or not ours, "system": kind == "text"}
    _demand(fits[role], f"{where}: a {role} message cannot have {kind!r}")
    if kind == "text":
        _check_text(block, where)
    elif kind == "thinking":
        signed = isinstance(block.get("thinking"), str) and block.get("signature")
        _demand(signed, f"{where}: Invalid `signature` in `thinking` block")
    elif kind == "redacted_thinking":
        _demand(block.get("data"), f"{where}: Invalid `data` in `redacted_thinking` block")
    elif kind.endswith("tool_use"):
        _demand(
            TOOL_USE_ID.fullmatch(block.get("id", "")),
            f"{where}.{kind}.id: should match {TOOL_USE_ID.pattern!r}",
        )
        _demand(
            TOOL_NAME.fullmatch(block.get("name", "")),
            f"{where}.{kind}.name: not the name of a tool",
        )
        _demand(isinstance(block.get("input"), dict), f"{where}.{kind}.input: valid dictionary")
    elif kind == "tool_result":
        _check_result(block, where)
    elif kind in ("image", "document"):
        _check_file(block, where)


def _check_text(block: JsonObject, where: str) -> None:
    text = block.get("text")
    _demand(
        isinstance(text, str) and text.strip(), f"{where}: text content blocks must be non-empty"
    )


def _check_result(block: JsonObject, where: str) -> None:
    content = block.get("content", "")
    if isinstance(content, str):
        return
    for inner in content:
        fits = inner.get("type") in USER_BLOCKS and inner.get("type") != "tool_result"
        _demand(fits, f"{where}: a result cannot have {inner.get('type')!r}")
        _check_block(inner, "user", where)
        plain = inner.get("type") == "text" or not block.get("is_error")
        _demand(plain, f"{where}: all content must be type 'text' if 'is_error' is true")


def _check_file(block: JsonObject, where: str) -> None:
    source = block.get("source", {})
    kind = source.get("type")
    if kind == "url":
        url = str(source.get("url"))
        _demand(url.startswith("https://"), f"{where}.source.url: Only HTTPS URLs are supported")
    elif kind == "text":
        _demand(source.get("media_type") == "text/plain" and source.get("data"), f"{where}.source")
    else:
        _demand(kind == "base64" and source.get("data"), f"{where}.source: no {kind!r}")
        media_types = IMAGE_TYPES if block["type"] == "image" else ("application/pdf",)
        _demand(
            source.get("media_type") in media_types,
            f"{where}.source.media_type: not one of {media_types}",
        )


# --- Calls and their results --------------------------------------------------------------------


def _check_pairs(body: JsonObject, received: ReceivedRequest) -> None:
    turns = _turns(body["messages"])
    seen: set[str] = set()
    for at, (role, content) in enumerate(turns):
        after = turns[at + 1][1] if at + 1 < len(turns) else None
        if role == "assistant":
            calls = [block["id"] for block in content if block["type"] == "tool_use"]
            for id in calls:
                _demand(id not in seen, "messages: `tool_use` ids must be unique")
                seen.add(id)
            if calls or after is not None:
                _check_results(calls, after or [], f"messages.{at}")
            _check_server_tools(content, at, last=after is None)
        elif at == 0:
            _check_results([], content, "messages.0")


def _check_results(calls: Sequence[str], after: Sequence[JsonObject], where: str) -> None:
    results = [block["tool_use_id"] for block in after if block["type"] == "tool_result"]
    for id in results:
        _demand(
            id in calls, f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {id}"
        )
        _demand(results.count(id) == 1, f"{where}: each tool_use must have a single result: {id}")
    first = [block["type"] for block in after[: len(results)]]
    answered = set(calls) <= set(results) and first == ["tool_result"] * len(results)
    _demand(answered, f"{where}: `tool_use` ids without `tool_result` blocks immediately after")


def _check_server_tools(content: Sequence[JsonObject], at: int, *, last: bool) -> None:
    """Require a result after each call that the provider ran, except at the very end."""
    waiting: dict[str, str] = {}
    for block in content:
        kind = block["type"]
        if kind.endswith("_tool_use"):
            waiting[block["id"]] = block["name"]
        elif kind.endswith("_tool_result"):
            id = block.get("tool_use_id", "")
            tool = waiting.pop(id, None)
            _demand(tool, f"messages.{at}: `{kind}` without its `server_tool_use`: {id}")
    for id, tool in waiting.items():
        what = f"`{tool}` tool use with id `{id}` was found without a corresponding result block"
        _demand(last, f"messages.{at}: {what}")


def _check_turn_begins_with_a_thought(body: JsonObject, received: ReceivedRequest) -> None:
    """Require thinking at the beginning of a turn, for models with a thinking budget."""
    if body.get("thinking", {}).get("type") != "enabled":
        return
    beginning: Iterator[JsonObject] = iter(())
    for role, content in reversed(_turns(body["messages"])):
        if role == "user" and content[0]["type"] != "tool_result":
            break
        if role == "assistant":
            beginning = iter(content)
    first = next(beginning, {"type": "thinking"})["type"]
    _demand(
        first in THINKING_BLOCKS, f"Expected `thinking` or `redacted_thinking`, but found `{first}`"
    )


BODY_CHECKS: Final[Sequence[Callable[[JsonObject, ReceivedRequest], None]]] = (
    _check_fields,
    _check_thinking,
    _check_output,
    _check_system,
    _check_tools,
    _check_tool_choice,
    _check_messages,
    _check_marks,
    _check_pairs,
    _check_turn_begins_with_a_thought,
)
