"""Request checks of OpenAI's Responses API, as far as its rules are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.providers.request_body import JsonObject
from holdfast.testing.fake.dialect_interface import InvalidRequest, Problem, ReceivedRequest

BODY_FIELDS: Final = frozenset(
    {
        "background",
        "context_management",
        "conversation",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    }
)
INCLUDE_VALUES: Final = frozenset(
    {
        "code_interpreter_call.outputs",
        "computer_call_output.output.image_url",
        "file_search_call.results",
        "message.input_image.image_url",
        "message.output_text.logprobs",
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
        "web_search_call.results",
    }
)
EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
REQUIRED_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "apply_patch_call": ("call_id", "operation", "status"),
    "apply_patch_call_output": ("call_id", "status"),
    "code_interpreter_call": ("id", "code", "container_id", "outputs", "status"),
    "compaction": ("encrypted_content",),
    "computer_call": ("id", "call_id", "status"),
    "computer_call_output": ("call_id", "output"),
    "custom_tool_call": ("call_id", "name", "input"),
    "custom_tool_call_output": ("call_id", "output"),
    "file_search_call": ("id", "queries", "status"),
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
    "image_generation_call": ("id", "result", "status"),
    "local_shell_call": ("id", "call_id", "action", "status"),
    "local_shell_call_output": ("id", "output"),
    "mcp_call": ("id", "arguments", "name", "server_label"),
    "mcp_list_tools": ("id", "server_label", "tools"),
    "message": ("role", "content"),
    "reasoning": ("id", "summary"),
    "shell_call": ("call_id", "action"),
    "shell_call_output": ("call_id", "output"),
    "web_search_call": ("id", "action", "status"),
}
"""Types of items that may be sent, with their required fields."""
ITEMS_WITHOUT_NULLS: Final = ("message", "reasoning", "function_call")
ID_PREFIXES: Final = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
CALLS_WITH_OUTPUT: Final = frozenset(
    kind for kind in REQUIRED_FIELDS if f"{kind}_output" in REQUIRED_FIELDS
)
CONTENT_OUTPUTS: Final = ("function_call_output", "custom_tool_call_output")
"""Types of outputs that may contain more than text."""
CONTENT_TYPES: Final = {
    "user": ("input_text", "input_image", "input_file"),
    "system": ("input_text", "input_image", "input_file"),
    "developer": ("input_text", "input_image", "input_file"),
    "assistant": ("output_text", "refusal"),
}
IMAGE_URL: Final = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,.|https?://")
TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SAMPLES_OR_EFFORT: Final = re.compile(r"gpt-5\.[1-4]")
"""Models that accept a temperature only while they do not reason."""
NON_REASONING_MODELS: Final = re.compile(r"gpt-4|gpt-3\.5|chatgpt")
"""Models that do not reason."""
TOOLS_REFUSED_AT_MINIMAL: Final = frozenset(
    {"code_interpreter", "file_search", "image_generation", "web_search", "web_search_preview"}
)
KEYWORDS_REFUSED_AT_ROOT: Final = ("oneOf", "anyOf", "allOf", "enum", "not")
MAX_ID_LENGTH: Final = 64


class ResponseMemory:
    """Items that the fake has sent, and answers that it has stored."""

    def __init__(self) -> None:
        self.stored: dict[str, list[JsonObject]] = {}
        """Conversations by response id, including the response."""
        self.led_by: dict[str, str] = {}
        """Reasoning items by the id of the item directly after them."""

    def context(self, body: JsonObject) -> list[JsonObject]:
        """The items that the model reads: the stored ones, and those of the request."""
        items = body["input"]
        if isinstance(items, str):
            items = [{"type": "message", "role": "user", "content": items}]
        earlier = body.get("previous_response_id")
        return [*self.stored.get(earlier or "", ()), *items]


def _demand(holds: object, message: str, code: str | None = None) -> None:
    if not holds:
        raise InvalidRequest(message, code=code)


def request_problem(received: ReceivedRequest, memory: ResponseMemory) -> Problem | None:
    """The first problem of a request, or None."""
    try:
        _check_head(received)
        body = _body(received)
        for check in BODY_CHECKS:
            check(body)
        _check_link(body, memory)
        _check_order(body, memory)
    except InvalidRequest as objection:
        return objection.problem
    return None


def _check_head(received: ReceivedRequest) -> None:
    if not received.path.endswith("/responses"):
        raise InvalidRequest(f"Invalid URL (POST {received.path})", 404)
    key = received.headers.get("api-key") or received.headers.get("Authorization", "")
    if not key.removeprefix("Bearer ").strip():
        raise InvalidRequest("You didn't provide an API key.", 401, "invalid_api_key")


def _body(received: ReceivedRequest) -> dict[str, Any]:
    try:
        body = received.json
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"We could not parse the JSON body of your request: {error}") from None
    if not isinstance(body, dict):
        raise InvalidRequest("The body of a request has to be a JSON object.")
    return body


# --- Fields -------------------------------------------------------------------------------------


def _check_fields(body: JsonObject) -> None:
    for name in body:
        _demand(name in BODY_FIELDS, f"Unknown parameter: '{name}'.", "unknown_parameter")
    for name in ("model", "input"):
        missing = f"Missing required parameter: '{name}'."
        _demand(body.get(name) is not None, missing, "missing_required_parameter")
    _demand(body.get("stream") is True, "This fake only streams: set 'stream' to true.")
    for name in body.get("include") or ():
        _demand(name in INCLUDE_VALUES, f"Invalid value: '{name}' for 'include'.", "invalid_value")
    key = body.get("prompt_cache_key")
    _demand(
        key is None or len(key) <= MAX_ID_LENGTH, "Invalid 'prompt_cache_key': string too long."
    )
    tokens = body.get("max_output_tokens")
    low = "Invalid 'max_output_tokens': integer below minimum value."
    _demand(tokens is None or tokens >= 16, low, "integer_below_min_value")
    for name, most in (("temperature", 2), ("top_p", 1)):
        value = body.get(name)
        fits = value is None or 0 <= value <= most
        _demand(fits, f"Invalid '{name}': decimal above maximum value.", "decimal_above_max_value")


def _check_reasoning(body: JsonObject) -> None:
    reasoning = body.get("reasoning") or {}
    for name in reasoning:
        is_known = name in ("effort", "summary", "context", "mode", "generate_summary")
        _demand(is_known, f"Unknown parameter: 'reasoning.{name}'.", "unknown_parameter")
    effort = reasoning.get("effort")
    fits = effort is None or effort in EFFORTS
    _demand(fits, f"Invalid value: '{effort}' for 'reasoning.effort'.", "invalid_value")
    if effort not in (None, "none") and SAMPLES_OR_EFFORT.match(str(body["model"])):
        for name in ("temperature", "top_p"):
            problem = f"Unsupported parameter: '{name}' is not supported with this model."
            _demand(name not in body, problem, "unsupported_parameter")
    if effort == "minimal":
        tools = {
            str(tool.get("type")) for tool in body.get("tools") or ()
        } & TOOLS_REFUSED_AT_MINIMAL
        names = ", ".join(sorted(tools))
        problem = f"The following tools cannot be used with reasoning.effort 'minimal': {names}."
        _demand(not tools, problem)
    if NON_REASONING_MODELS.match(str(body["model"])):
        _check_non_reasoning(body)


def _check_non_reasoning(body: JsonObject) -> None:
    wants_encrypted = "reasoning.encrypted_content" in (body.get("include") or ())
    _demand(not wants_encrypted, "Encrypted content is not supported with this model.")
    items = body["input"] if isinstance(body["input"], list) else []
    has_reasoning = any(item.get("type") == "reasoning" for item in items)
    _demand(
        not has_reasoning,
        "Reasoning input items can only be provided to a reasoning or computer use model. Remove "
        "reasoning items from your input and try again.",
    )


def _check_tools(body: JsonObject) -> None:
    names: set[str] = set()
    for at, tool in enumerate(body.get("tools") or ()):
        kind = tool.get("type")
        _demand(kind, f"Missing required parameter: 'tools[{at}].type'.")
        if kind not in ("function", "custom"):
            continue
        name = tool.get("name") or ""
        invalid = f"Invalid 'tools[{at}].name': string does not match pattern."
        _demand(TOOL_NAME.fullmatch(name), invalid, "invalid_value")
        _demand(name not in names, f"Duplicate tool name: '{name}'.")
        names.add(name)
        schema = tool.get("parameters")
        if kind == "function" and schema is not None:
            _check_schema(f"function '{name}'", schema, tool.get("strict", True))


def _check_tool_choice(body: JsonObject) -> None:
    tools = body.get("tools") or ()
    parallel = body.get("parallel_tool_calls", True)
    _demand(isinstance(parallel, bool), "Invalid type for 'parallel_tool_calls'.", "invalid_type")
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, str):
        fits = choice in ("auto", "none", "required")
        _demand(fits, f"Invalid value: '{choice}' for 'tool_choice'.", "invalid_value")
        _demand(tools or choice != "required", "Tool choice 'required' must be with 'tools'.")
        return
    found = [
        tool
        for tool in tools
        if tool["type"] == choice.get("type") and choice.get("name") in (None, tool.get("name"))
    ]
    _demand(found, f"Tool choice '{choice.get('name')}' not found in 'tools' parameter.")


def _check_text(body: JsonObject) -> None:
    format = (body.get("text") or {}).get("format") or {"type": "text"}
    _demand(format.get("type") in ("text", "json_object", "json_schema"), "Invalid 'text.format'.")
    if format["type"] == "json_schema":
        name = format.get("name") or ""
        _demand(TOOL_NAME.fullmatch(name), "Invalid 'text.format.name'.", "invalid_value")
        _check_schema(f"response_format '{name}'", format.get("schema"), format.get("strict"))


def _check_schema(about: str, schema: Any, strict: object) -> None:
    invalid = f"Invalid schema for {about}: "
    code = "invalid_function_parameters" if about.startswith("function") else None
    fits = isinstance(schema, dict) and schema.get("type") == "object"
    _demand(fits, f"{invalid}schema must be a JSON Schema of 'type: \"object\"'.", code)
    _demand("properties" in schema, f"{invalid}object schema missing properties.", code)
    if about.startswith("function"):
        forbidden = "/".join(f"'{word}'" for word in KEYWORDS_REFUSED_AT_ROOT)
        problem = (
            f"{invalid}schema must have type 'object' and not have {forbidden} at the top level."
        )
        _demand(not set(KEYWORDS_REFUSED_AT_ROOT) & schema.keys(), problem, code)
    if not strict:
        return
    _demand("anyOf" not in schema, f"{invalid}'anyOf' is not permitted at the root.", code)
    for path, inner in _objects(schema):
        closed = inner.get("additionalProperties") is False
        problem = f"{invalid}In context={path}, 'additionalProperties' is required to be false."
        _demand(closed, problem, code)
        names = set(inner.get("properties") or ())
        problem = f"{invalid}In context={path}, 'required' is required to have every property."
        _demand(set(inner.get("required") or ()) == names, problem, code)


def _objects(
    schema: Any, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], JsonObject]]:
    """All schemas of objects inside a schema, with their paths."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield path, schema
        for key, inner in schema.items():
            yield from _objects(inner, (*path, key))
    elif isinstance(schema, list):
        for inner in schema:
            yield from _objects(inner, path)


# --- Items --------------------------------------------------------------------------------------


def _check_items(body: JsonObject) -> None:
    items = body["input"]
    if isinstance(items, str):
        return
    _demand(isinstance(items, list), "Invalid type for 'input': expected a string or a list.")
    for at, item in enumerate(items):
        where = f"input[{at}]"
        kind = str(item.get("type") or ("message" if "role" in item else None))
        _demand(
            kind in REQUIRED_FIELDS, f"Invalid value: '{kind}' for '{where}.type'.", "invalid_value"
        )
        for name in REQUIRED_FIELDS[kind]:
            missing = f"Missing required parameter: '{where}.{name}'."
            _demand(name in item, missing, "missing_required_parameter")
        unknown = f"Unknown parameter: '{where}.created_by'."
        _demand("created_by" not in item, unknown, "unknown_parameter")
        if kind in ITEMS_WITHOUT_NULLS:
            for name, value in item.items():
                null = f"Invalid type for '{where}.{name}': got null instead."
                _demand(value is not None, null, "invalid_type")
        _check_ids(where, kind, item)
        if kind == "message":
            _check_message(where, item)
        elif kind in CONTENT_OUTPUTS and isinstance(item["output"], list):
            _check_content(f"{where}.output", item["output"], CONTENT_TYPES["user"])


def _check_ids(where: str, kind: str, item: JsonObject) -> None:
    id = item.get("id")
    prefix = ID_PREFIXES.get(kind, "")
    if id is not None:
        begins = f"Invalid '{where}.id': '{id}'. Expected an ID that begins with '{prefix}'."
        _demand(id.startswith(prefix), begins, "invalid_value")
    call_id = item.get("call_id")
    fits = call_id is None or 0 < len(call_id) <= MAX_ID_LENGTH
    _demand(fits, f"Invalid '{where}.call_id': string too long.", "string_above_max_length")
    for name in ("arguments", "name"):
        value = item.get(name, "")
        _demand(isinstance(value, str), f"Invalid type for '{where}.{name}'.", "invalid_type")
    if kind == "function_call":
        invalid = f"Invalid '{where}.name': string does not match pattern."
        _demand(TOOL_NAME.fullmatch(item["name"]), invalid, "invalid_value")


def _check_message(where: str, item: JsonObject) -> None:
    role = item["role"]
    _demand(role in CONTENT_TYPES, f"Invalid value: '{role}' for '{where}.role'.", "invalid_value")
    if not isinstance(item["content"], str):
        _check_content(f"{where}.content", item["content"], CONTENT_TYPES[role])
    if role == "assistant" and "id" in item:
        for content in item["content"]:
            is_complete = content["type"] == "refusal" or "annotations" in content
            _demand(is_complete, f"Missing required parameter: '{where}.content.annotations'.")


def _check_content(where: str, content: Any, kinds: Sequence[str]) -> None:
    _demand(isinstance(content, list), f"Invalid type for '{where}'.", "invalid_type")
    for at, part in enumerate(content):
        kind = part.get("type")
        supported = ", ".join(f"'{name}'" for name in kinds)
        invalid = (
            f"Invalid value: '{kind}' for '{where}[{at}].type'. Supported values: {supported}."
        )
        _demand(kind in kinds, invalid, "invalid_value")
        is_complete = {
            "input_image": IMAGE_URL.match(part.get("image_url") or "") or part.get("file_id"),
            "input_file": (part.get("file_data") and part.get("filename"))
            or part.get("file_url")
            or part.get("file_id"),
            "refusal": isinstance(part.get("refusal"), str),
        }.get(kind, isinstance(part.get("text"), str))
        _demand(
            is_complete,
            f"Missing required parameter in '{where}[{at}]'.",
            "missing_required_parameter",
        )


# --- What belongs together ----------------------------------------------------------------------


def _check_link(body: JsonObject, memory: ResponseMemory) -> None:
    id = body.get("previous_response_id")
    if id is not None and id not in memory.stored:
        missing = f"Previous response with id '{id}' not found."
        raise InvalidRequest(missing, 400, "previous_response_not_found")


def _check_order(body: JsonObject, memory: ResponseMemory) -> None:
    items = memory.context(body)
    ids = [item["id"] for item in items if item.get("id")]
    for id in ids:
        again = f"Duplicate item found with id {id}. Remove duplicate items from your input."
        _demand(ids.count(id) == 1, again)
    _check_pairs(items)
    for at, item in enumerate(items):
        kind = item.get("type")
        if kind == "reasoning":
            _check_reasoning_item(items, at, body, memory)
        led_by = memory.led_by.get(item.get("id") or "")
        if led_by is not None:
            before = items[at - 1] if at else {}
            direct = before.get("id") == led_by
            fits = direct if kind == "web_search_call" else led_by in ids
            prefix = f"Item '{item['id']}' of type '{kind}' was provided without its required "
            _demand(fits, f"{prefix}'reasoning' item: '{led_by}'.")


def _check_reasoning_item(
    items: Sequence[JsonObject], at: int, body: JsonObject, memory: ResponseMemory
) -> None:
    item = items[at]
    id = item["id"]
    if not item.get("encrypted_content") and not item.get("content"):
        is_stored = any(item in context for context in memory.stored.values())
        if body.get("store") is False:
            _demand(
                False,
                f"Item with id '{id}' not found. Items are not persisted when `store` is set to "
                "false. Try again with `store` set to true, or remove this item from your input.",
            )
        _demand(is_stored, f"Item with id '{id}' not found.")
    rest = [other for other in items[at + 1 :] if other.get("type") != "reasoning"]
    following = rest[0] if rest else {"role": "nobody"}
    spoke = following.get("role", "assistant") == "assistant"
    answered = str(following.get("type")).endswith("_output")
    context = f"Item '{id}' of type 'reasoning' was provided without its required following item."
    _demand(spoke and not answered, context)


def _check_pairs(items: Sequence[JsonObject]) -> None:
    """Check that every call has one output after it, and every output a call before it."""
    waiting: set[str] = set()
    called: set[str] = set()
    for item in items:
        kind = str(item.get("type"))
        id = item.get("call_id") or item.get("id") or ""
        if kind in CALLS_WITH_OUTPUT:
            _demand(id not in called, f"Duplicate function call with call_id {id}.")
            called.add(id)
            waiting.add(id)
        elif kind.removesuffix("_output") in CALLS_WITH_OUTPUT:
            lost = f"No tool call found for function call output with call_id {id}."
            _demand(id in called, lost)
            _demand(id in waiting, f"Duplicate tool output for function call {id}.")
            waiting.remove(id)
    for id in sorted(waiting):
        _demand(False, f"No tool output found for function call {id}.")


BODY_CHECKS: Final[tuple[Callable[[JsonObject], None], ...]] = (
    _check_fields,
    _check_reasoning,
    _check_tools,
    _check_tool_choice,
    _check_text,
    _check_items,
)
