"""Request checks of Chat Completions, as far as its rules are known.

They are as strict as OpenAI, except that fields of other documented endpoints are accepted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.providers.request_body import JsonObject
from holdfast.testing.fake.dialect_interface import InvalidRequest, Problem, ReceivedRequest

OPENAI_FIELDS: Final = frozenset(
    {
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "metadata",
        "modalities",
        "model",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    }
)
COMPATIBLE_FIELDS: Final = frozenset(
    {
        "cache_control",  # OpenRouter, as the next five
        "models",
        "plugins",
        "provider",
        "reasoning",
        "session_id",
        "random_seed",  # Mistral
        "chat_template_kwargs",  # vLLM, llama.cpp
        "thinking",  # DeepSeek, Moonshot
        "top_k",
    }
)
"""Fields of endpoints that are compatible with OpenAI."""
EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
SETTING_RANGES: Final = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
}
USER_PARTS: Final = ("text", "image_url", "input_audio", "file")
ASSISTANT_PARTS: Final = ("text", "refusal", "thinking")
ROLES: Final = ("developer", "system", "user", "assistant", "tool")
IMAGE_URL: Final = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,.|https?://")
TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
TOOLS_OR_EFFORT: Final = re.compile(r"gpt-(?:5\.[4-9]|[6-9])")
"""Models that accept tools here only while they do not reason."""
THINKS_BY_DEFAULT: Final = re.compile(r"gpt-(?:5\.[6-9]|[6-9])")
"""Those of these models that reason unless told otherwise."""
SAMPLES_OR_EFFORT: Final = re.compile(r"gpt-5\.[1-4]")
"""Models that accept a temperature only while they do not reason."""
MAX_CALL_ID: Final = 40


def _demand(met: object, message: str, status: int = 400, code: str | None = None) -> None:
    if not met:
        raise InvalidRequest(message, status, code)


def request_problem(received: ReceivedRequest) -> Problem | None:
    """The first problem of a request, or None."""
    try:
        _check_head(received)
        body = _body(received)
        for check in BODY_CHECKS:
            check(body)
    except InvalidRequest as objection:
        return objection.problem
    return None


def _check_head(received: ReceivedRequest) -> None:
    _demand(
        received.path.endswith("/chat/completions"),
        f"Invalid URL (POST {received.path})",
        404,
        "unknown_url",
    )
    _check_key(received.headers)
    kind = received.headers.get("Content-Type") or ""
    _demand(kind.startswith("application/json"), f"the content type {kind!r} is not JSON")


def _check_key(headers: Mapping[str, str]) -> None:
    """Check the key. It may be missing, since local servers need none, but not be incomplete."""
    key, auth = headers.get("api-key"), headers.get("Authorization")
    if key is None and auth is None:
        return
    scheme, _, token = (auth or "").partition(" ")
    _demand(
        (key or "").strip() or (scheme == "Bearer" and token.strip()),
        "You didn't provide an API key: give one as a bearer token",
        401,
        "invalid_api_key",
    )


def _body(received: ReceivedRequest) -> JsonObject:
    try:
        body = received.json
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"We could not parse the JSON body of your request: {error}") from None
    _demand(isinstance(body, dict), "the body is not a JSON object")
    return body  # type: ignore[no-any-return]


def _check_fields(body: JsonObject) -> None:
    for name in body:
        _demand(
            name in OPENAI_FIELDS or name in COMPATIBLE_FIELDS,
            f"Unrecognized request argument supplied: {name}",
            code="unknown_parameter",
        )
    _demand(isinstance(body.get("model"), str) and body["model"], "you must provide a model")
    _demand(body.get("stream") is True, "this fake only streams: 'stream' must be true")
    options = body.get("stream_options", {})
    _demand(
        isinstance(options, dict) and set(options) <= {"include_usage", "include_obfuscation"},
        "Unknown parameter in 'stream_options'",
        code="unknown_parameter",
    )
    _demand(body.get("n", 1) == 1, "'n' must be 1 here")


def _check_settings(body: JsonObject) -> None:
    for name, (least, most) in SETTING_RANGES.items():
        value = body.get(name)
        fits = value is None or (isinstance(value, (int, float)) and least <= value <= most)
        _demand(fits, f"Invalid '{name}': expected a value between {least} and {most}")
    limits = [name for name in ("max_tokens", "max_completion_tokens") if name in body]
    _demand(len(limits) < 2, "Setting 'max_tokens' and 'max_completion_tokens' is not supported")
    for name in limits:
        fits = type(body[name]) is int and body[name] > 0
        _demand(fits, f"Invalid '{name}': expected a whole number above 0")
    _check_effort(body)
    seed, stop = body.get("seed"), body.get("stop")
    _demand(isinstance(seed, int | None), "Invalid type for 'seed': expected an integer.")
    stop = [stop] if isinstance(stop, str) else stop or []
    _demand(len(stop) <= 4, "Invalid 'stop': array too long. Expected at most 4 items.")
    key = body.get("prompt_cache_key", "")
    _demand(
        isinstance(key, str) and len(key) <= 64,
        "Invalid 'prompt_cache_key': string too long. Expected at most 64 characters",
        code="string_above_max_length",
    )


def _check_effort(body: JsonObject) -> None:
    model, effort = body["model"], body.get("reasoning_effort")
    fits = effort in EFFORTS or "reasoning_effort" not in body
    _demand(fits, f"Invalid value: {effort!r} for 'reasoning_effort'")
    thinks = effort not in (None, "none")
    if "tools" in body and TOOLS_OR_EFFORT.match(model):
        unasked = effort is None and THINKS_BY_DEFAULT.match(model)
        _demand(
            not thinks and not unasked,
            f"Function tools with reasoning_effort are not supported for {model} in "
            "/v1/chat/completions. To use function tools, use /v1/responses or set "
            "reasoning_effort to 'none'.",
        )
    for name in ("temperature", "top_p", "stop"):
        refused = thinks and name in body and SAMPLES_OR_EFFORT.match(model)
        _demand(
            not refused,
            f"Unsupported parameter: '{name}' is not supported with this model.",
            code="unsupported_parameter",
        )


# --- Tools and formats --------------------------------------------------------------------------


def _check_tools(body: JsonObject) -> None:
    tools = body.get("tools")
    if tools is None:
        for field in ("tool_choice", "parallel_tool_calls"):
            _demand(field not in body, f"'{field}' is only allowed when 'tools' are specified.")
        return
    _demand(isinstance(tools, list) and tools, "[] is too short - 'tools'")
    _demand(len(tools) <= 128, "Invalid 'tools': array too long, at most 128", code="array_above")
    names = [_tool_name(tool, f"tools[{at}]") for at, tool in enumerate(tools)]
    for name in names:
        _demand(names.count(name) == 1, f"Invalid 'tools': the name {name!r} is used twice")
    _check_tool_choice(body, names)


def _check_tool_choice(body: JsonObject, names: Sequence[str]) -> None:
    parallel = body.get("parallel_tool_calls", True)
    _demand(isinstance(parallel, bool), "Invalid type for 'parallel_tool_calls'")
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, str):
        fits = choice in ("auto", "none", "required")
        _demand(fits, f"Invalid value: '{choice}' for 'tool_choice'.")
        return
    fits = isinstance(choice, dict) and choice.get("type") == "function"
    _demand(fits, "Invalid value for 'tool_choice'.")
    name = (choice.get("function") or {}).get("name")
    _demand(name in names, f"Invalid value for 'tool_choice': no function is named {name!r}.")


def _tool_name(tool: Any, where: str) -> str:
    kind = tool.get("type") if isinstance(tool, dict) else None
    _demand(isinstance(kind, str), f"Missing required parameter: '{where}.type'.")
    if kind != "function":
        return str(kind)  # declared in the provider's own form
    function = tool.get("function")
    _demand(isinstance(function, dict), f"Missing required parameter: '{where}.function'.")
    name = function.get("name")
    _demand(
        isinstance(name, str) and TOOL_NAME.fullmatch(name),
        f"Invalid '{where}.function.name': string does not match pattern",
        code="invalid_value",
    )
    schema = function.get("parameters", {"type": "object"})
    _demand(
        isinstance(schema, dict) and schema.get("type") == "object",
        f"Invalid schema for function {name!r}: schema must be a JSON Schema of 'type: \"object\"'",
        code="invalid_function_parameters",
    )
    return str(name)


def _check_format(body: JsonObject) -> None:
    format = body.get("response_format")
    if format is None:
        return
    kind = format.get("type") if isinstance(format, dict) else None
    _demand(kind in ("text", "json_object", "json_schema"), "Invalid 'response_format.type'")
    if kind == "json_object":
        messages = msgspec.json.encode(body.get("messages")).lower()
        _demand(
            b"json" in messages,
            "'messages' must contain the word 'json', to use 'response_format' 'json_object'",
        )
    if kind != "json_schema":
        return
    form = format.get("json_schema") or {}
    name, schema = form.get("name"), form.get("schema")
    _demand(
        isinstance(name, str) and TOOL_NAME.fullmatch(name),
        "Missing required parameter: 'response_format.json_schema.name'.",
    )
    _demand(
        isinstance(schema, dict) and schema.get("type") == "object",
        f"Invalid schema for response_format {name!r}: schema must be of 'type: \"object\"'",
    )
    if form.get("strict"):
        _demand(
            "anyOf" not in (schema or {}),
            f"Invalid schema for response_format {name!r}: 'anyOf' is not permitted at the root.",
        )
        _check_strict(schema, name)


def _check_strict(schema: Any, name: Any) -> None:
    """Check that objects are closed and have all of their fields, at every depth."""
    if isinstance(schema, list):
        for inner in schema:
            _check_strict(inner, name)
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object":
        prefix = f"Invalid schema for response_format {name!r}: "
        _demand(
            schema.get("additionalProperties") is False,
            f"{prefix}'additionalProperties' is required to be supplied and to be false.",
        )
        _demand(
            set(schema.get("required", ())) == set(schema.get("properties", {})),
            f"{prefix}'required' has to include every key in properties.",
        )
    for key, inner in schema.items():
        if key in ("properties", "$defs", "definitions"):
            inner = list(inner.values())
        if key not in ("enum", "const", "required"):
            _check_strict(inner, name)


# --- The conversation ---------------------------------------------------------------------------


def _check_messages(body: JsonObject) -> None:
    messages = body.get("messages")
    _demand(isinstance(messages, list) and messages, "[] is too short - 'messages'")
    pending: list[str] = []
    """Ids of calls that have no result yet."""
    for at, message in enumerate(messages or ()):
        where = f"messages[{at}]"
        role = message.get("role") if isinstance(message, dict) else None
        _demand(role in ROLES, f"Invalid value: {role!r} for '{where}.role'")
        if role == "tool":
            _check_result(message, where, pending)
            continue
        _demand(
            not pending,
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            f"to each 'tool_call_id'. These did not have response messages: {', '.join(pending)}",
        )
        if role == "assistant":
            pending = _check_answer(message, where)
        else:
            _check_content(
                message.get("content"), where, USER_PARTS if role == "user" else ("text",)
            )
    _demand(not pending, f"tool_call_ids did not have response messages: {', '.join(pending)}")


def _check_result(message: JsonObject, where: str, pending: list[str]) -> None:
    id = message.get("tool_call_id")
    _demand(
        id in pending,
        f"Invalid parameter: {where} with role 'tool' must be a response to a preceding message "
        "with 'tool_calls'.",
    )
    pending.remove(str(id))
    _check_content(message.get("content"), where, ("text",))


def _check_answer(message: JsonObject, where: str) -> list[str]:
    """Check an assistant message. Returns the ids of its calls."""
    calls = message.get("tool_calls")
    content = message.get("content")
    _demand(calls is None or calls, f"Invalid '{where}.tool_calls': empty array")
    _demand(content is not None or calls, f"Invalid value for '{where}.content': got null")
    if content is not None:
        _check_content(content, where, ASSISTANT_PARTS)
    ids = [_call_id(call, f"{where}.tool_calls[{at}]") for at, call in enumerate(calls or ())]
    for id in ids:
        _demand(ids.count(id) == 1, f"Duplicate value for 'tool_call_id' of {id!r}")
    return ids


def _call_id(call: Any, where: str) -> str:
    _demand(isinstance(call, dict) and call.get("type") == "function", f"Invalid '{where}.type'")
    id, function = call.get("id"), call.get("function")
    _demand(isinstance(id, str) and id, f"Missing required parameter: '{where}.id'.")
    _demand(
        len(str(id)) <= MAX_CALL_ID,
        f"Invalid '{where}.id': string too long. "
        f"Expected a string with maximum length {MAX_CALL_ID}",
        code="string_above_max_length",
    )
    _demand(
        isinstance(function, dict)
        and isinstance(function.get("name"), str)
        and isinstance(function.get("arguments"), str),
        f"Missing required parameter: '{where}.function.arguments'.",
    )
    _demand(
        TOOL_NAME.fullmatch(function["name"]),
        f"Invalid '{where}.function.name': string does not match pattern",
        code="invalid_value",
    )
    return str(id)


def _check_content(content: Any, where: str, kinds: tuple[str, ...]) -> None:
    if isinstance(content, str):
        return
    _demand(isinstance(content, list) and content, f"Invalid type for '{where}.content'")
    for at, part in enumerate(content or ()):
        kind = part.get("type") if isinstance(part, dict) else None
        at_part = f"{where}.content[{at}]"
        _demand(kind in kinds, f"Invalid value: {kind!r} for '{at_part}.type'")
        _demand(isinstance(part.get(kind), (str, dict, list)), f"Missing '{at_part}.{kind}'.")
        if kind == "image_url":
            url = part["image_url"].get("url", "")
            _demand(
                IMAGE_URL.match(url), f"Invalid '{at_part}.image_url.url'", code="invalid_image_url"
            )


BODY_CHECKS: Final[tuple[Callable[[JsonObject], None], ...]] = (
    _check_fields,
    _check_settings,
    _check_messages,
    _check_tools,
    _check_format,
)
