"""Request checks of the Gemini API, as far as its rules are known."""

from __future__ import annotations

import re
from base64 import b64decode
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from typing import Any, Final

from holdfast.testing.fake.dialect_interface import InvalidRequest, Problem, ReceivedRequest

RPC_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""Status words of google.rpc by HTTP status."""

_PATH: Final = re.compile(r"/v1(?:alpha|beta)?/(?:models|tunedModels)/([^/:]+):(\w+)$")
_NEW_MODELS: Final = re.compile(r"gemini-(?:[3-9]|\d\d)")
_OLD_MODELS: Final = re.compile(r"gemini-[12]\b")
_NON_REASONING_MODELS: Final = re.compile(r"gemini-(?:1|2\.0|2\.5-.*(?:image|tts))\b")
_THINKS_ON_REQUEST_MODELS: Final = re.compile(r"gemini-2\.5-flash-lite")
"""Models that think only on request."""
_ALWAYS_THINKING_MODELS: Final = re.compile(r"gemini-2\.5-pro")
"""Models that cannot stop thinking."""
_FUNCTION_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}$")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]*={0,2}$")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ERROR_REASONS: Final = _words(
    "ACCESS_TOKEN_EXPIRED API_KEY_EXPIRED API_KEY_INVALID API_KEY_SERVICE_BLOCKED BILLING_DISABLED "
    "CONSUMER_INVALID CONSUMER_SUSPENDED CREDENTIALS_MISSING RATE_LIMIT_EXCEEDED SERVICE_DISABLED"
)
"""Reasons in the details of an error, in addition to its status."""
_BODY_FIELDS: Final = _words(
    "cachedContent contents generationConfig labels model safetySettings serviceTier store "
    "systemInstruction toolConfig tools"
)
_CONFIG_FIELDS: Final = _words(
    "candidateCount enableEnhancedCivicAnswers frequencyPenalty imageConfig logprobs "
    "maxOutputTokens mediaResolution presencePenalty responseJsonSchema responseLogprobs "
    "responseMimeType responseModalities responseSchema seed speechConfig stopSequences "
    "temperature thinkingConfig topK topP"
)
_TOOL_FIELDS: Final = _words(
    "codeExecution computerUse fileSearch functionDeclarations googleMaps googleSearch "
    "googleSearchRetrieval mcpServers urlContext"
)
_TOOL_CONFIG_FIELDS: Final = _words(
    "functionCallingConfig includeServerSideToolInvocations retrievalConfig"
)
_CALLING_FIELDS: Final = _words("allowedFunctionNames mode streamFunctionCallArguments")
_CALLING_MODES: Final = _words("ANY AUTO NONE VALIDATED")
_FUNCTION_FIELDS: Final = _words(
    "behavior description name parameters parametersJsonSchema response responseJsonSchema"
)
_SCHEMA_FIELDS: Final = _words(
    "anyOf default description enum example format items maxItems maxLength maxProperties maximum "
    "minItems minLength minProperties minimum nullable pattern properties propertyOrdering "
    "required title type"
)
_PART_KINDS: Final = _words(
    "codeExecutionResult executableCode fileData functionCall functionResponse inlineData text "
    "toolCall toolResponse"
)
_PART_EXTRAS: Final = _words("mediaResolution partMetadata thought thoughtSignature videoMetadata")
_MODEL_PART_KINDS: Final = _words(
    "codeExecutionResult executableCode functionCall toolCall toolResponse"
)
_IMAGE_TYPES: Final = frozenset(
    {"image/heic", "image/heif", "image/jpeg", "image/png", "image/webp"}
)


def request_problem(received: ReceivedRequest) -> Problem | None:
    """The first problem of a request, or None."""
    try:
        _check(received)
    except InvalidRequest as objection:
        return objection.problem
    return None


def model_of(path: str) -> str:
    """Name of the model in a path; empty if there is none."""
    match = _PATH.search(path)
    return match[1] if match else ""


def demands_signatures(model: str) -> bool:
    """Whether calls must be sent back with the signature they came with."""
    return _NEW_MODELS.match(model) is not None


def _check(received: ReceivedRequest) -> None:
    match = _PATH.search(received.path)
    if match is None or match[2] != "streamGenerateContent":
        raise InvalidRequest(f"{received.path} is not found", 404)
    if received.query.get("alt") != "sse":
        raise InvalidRequest("this fake streams server-sent events only: use alt=sse")
    if not (received.headers.get("x-goog-api-key") or received.query.get("key")):
        raise InvalidRequest("Method doesn't allow unregistered callers: use an API key", 403)
    try:
        body = _camel(received.json)
    except (ValueError, RecursionError):
        raise InvalidRequest("Invalid JSON payload received. It cannot be parsed.") from None
    if not isinstance(body, dict):
        raise InvalidRequest("Invalid JSON payload received. The root element has to be an object.")
    _check_fields(body, _BODY_FIELDS, "")
    model = match[1]
    functions = _check_tools(body, model)
    _check_config(body.get("generationConfig") or {}, model, functions)
    if "systemInstruction" in body:
        _check_system(body["systemInstruction"])
    _check_contents(body.get("contents"), model)


_USER_DEFINED_FIELDS: Final = _words(
    "args labels parametersJsonSchema partMetadata response responseJsonSchema"
)
"""Fields with names that users define, which are not normalized."""


def _camel(value: Any) -> Any:
    """The body with camelCase field names: the API accepts two spellings."""
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    result: dict[str, Any] = {}
    for name, item in value.items():
        first, *rest = name.split("_")
        name = first + "".join(word[:1].upper() + word[1:] for word in rest)
        if name == "properties" and isinstance(item, dict):
            result[name] = {key: _camel(inner) for key, inner in item.items()}
        else:
            result[name] = item if name in _USER_DEFINED_FIELDS else _camel(item)
    return result


def _check_fields(value: Any, names: frozenset[str], where: str) -> None:
    if not isinstance(value, dict):
        raise InvalidRequest(f"Invalid value at '{where}': an object is required")
    for name in value:
        if name not in names:
            at = f" at '{where}'" if where else ""
            raise InvalidRequest(
                f'Invalid JSON payload received. Unknown name "{name}"{at}: Cannot find field.'
            )


# --- Tools and settings -------------------------------------------------------------------------


def _check_tools(body: Mapping[str, Any], model: str) -> bool:
    """Check the tools. Returns whether there are functions among them."""
    config = body.get("toolConfig", {})
    _check_fields(config, _TOOL_CONFIG_FIELDS, "tool_config")
    names: Counter[str] = Counter()
    own = False
    for at, tool in enumerate(body.get("tools", ())):
        _check_fields(tool, _TOOL_FIELDS, f"tools[{at}]")
        own = own or bool(tool.keys() - {"functionDeclarations", "computerUse"})
        for number, function in enumerate(tool.get("functionDeclarations", ())):
            where = f"tools[{at}].function_declarations[{number}]"
            _check_function(function, where)
            names[function["name"]] += 1
    for name, times in names.items():
        if times > 1:
            raise InvalidRequest(f"Duplicate function declaration found: {name}")
    if names and own and _OLD_MODELS.match(model):
        raise InvalidRequest("Tool use with function calling is unsupported")
    if names and own and not config.get("includeServerSideToolInvocations"):
        raise InvalidRequest(
            "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools "
            "with Function calling."
        )
    if config.get("includeServerSideToolInvocations") and _OLD_MODELS.match(model):
        raise InvalidRequest("Tool call context circulation is not enabled for this model")
    _check_calling(config.get("functionCallingConfig"), names)
    return bool(names)


def _check_calling(calling: Any, names: Container[str]) -> None:
    if calling is None:
        return
    _check_fields(calling, _CALLING_FIELDS, "tool_config.function_calling_config")
    mode, allowed = calling.get("mode", "AUTO"), calling.get("allowedFunctionNames", ())
    if mode not in _CALLING_MODES:
        raise InvalidRequest(f"Invalid value at 'tool_config.function_calling_config.mode': {mode}")
    if allowed and mode not in ("ANY", "VALIDATED"):
        raise InvalidRequest("Please set the mode to ANY to use allowed_function_names.")
    for name in allowed:
        if name not in names:
            raise InvalidRequest(f"allowed_function_names has {name}, which is not declared")


def _check_function(function: Any, where: str) -> None:
    _check_fields(function, _FUNCTION_FIELDS, where)
    if not _FUNCTION_NAME.match(function.get("name") or ""):
        raise InvalidRequest(
            f"* GenerateContentRequest.{where}.name: Invalid function name. Must start with a "
            "letter or an underscore."
        )
    if "parameters" in function and "parametersJsonSchema" in function:
        raise InvalidRequest(
            f"{where}: only one of parameters and parameters_json_schema can be set"
        )
    schema = function.get("parametersJsonSchema")
    if schema is not None and schema.get("type") != "object" and "$ref" not in schema:
        raise InvalidRequest(f"{where}.parameters_json_schema: schema must be of type object")
    if "parameters" in function:
        _check_schema(function["parameters"], f"{where}.parameters")
        if not function["parameters"].get("properties"):
            raise InvalidRequest(
                f"{where}.parameters.properties: should be non-empty for OBJECT type"
            )


def _check_schema(schema: Any, where: str) -> None:
    """Check a schema object of OpenAPI, of which a subset is supported."""
    _check_fields(schema, _SCHEMA_FIELDS, where)
    if not isinstance(schema.get("type", ""), str):
        raise InvalidRequest(f"Proto field is not repeating, cannot start list at '{where}.type'")
    if any(not isinstance(value, str) for value in schema.get("enum", ())):
        raise InvalidRequest(f"Invalid value at '{where}.enum' (TYPE_STRING)")
    for name, inner in schema.get("properties", {}).items():
        _check_schema(inner, f"{where}.properties[{name}]")
    for at, inner in enumerate(schema.get("anyOf", ())):
        _check_schema(inner, f"{where}.any_of[{at}]")
    if "items" in schema:
        _check_schema(schema["items"], f"{where}.items")


def _check_config(config: Any, model: str, functions: bool) -> None:
    _check_fields(config, _CONFIG_FIELDS, "generation_config")
    if not 0 <= config.get("temperature", 0) <= 2:
        raise InvalidRequest("generation_config.temperature must be in the range [0.0, 2.0]")
    if len(config.get("stopSequences", ())) > 5:
        raise InvalidRequest("generation_config.stop_sequences: at most 5 are supported")
    if not isinstance(config.get("seed", 0), int):
        raise InvalidRequest("Invalid value at 'generation_config.seed' (TYPE_INT32)")
    if config.get("maxOutputTokens", 1) < 1:
        raise InvalidRequest("max_output_tokens must be positive.")
    is_json = config.get("responseMimeType") == "application/json"
    if is_json and functions and _OLD_MODELS.match(model):
        raise InvalidRequest(
            "Function calling with a response mime type: 'application/json' is unsupported"
        )
    if "responseSchema" in config and "responseJsonSchema" in config:
        raise InvalidRequest("only one of response_schema and response_json_schema can be set")
    if not is_json and ("responseSchema" in config or "responseJsonSchema" in config):
        raise InvalidRequest("a response schema needs the response mime type application/json")
    if "responseSchema" in config:
        _check_schema(config["responseSchema"], "generation_config.response_schema")
    _check_references(config.get("responseJsonSchema"))
    _check_thinking(config.get("thinkingConfig", {}), model)


def _check_references(schema: Any) -> None:
    """Check the documented rule that no keyword stands next to a reference."""
    if isinstance(schema, list):
        for inner in schema:
            _check_references(inner)
    if not isinstance(schema, dict):
        return
    if isinstance(schema.get("$ref"), str):
        others = [key for key in schema if not key.startswith("$")]
        if others:
            raise InvalidRequest(
                f"response_json_schema: {others[0]} cannot be combined with a $ref"
            )
    for inner in schema.values():
        _check_references(inner)


def _check_thinking(thinking: Any, model: str) -> None:
    fields = frozenset({"includeThoughts", "thinkingBudget", "thinkingLevel"})
    _check_fields(thinking, fields, "generation_config.thinking_config")
    if thinking and _NON_REASONING_MODELS.match(model):
        raise InvalidRequest("Thinking is not supported for this model.")
    level = thinking.get("thinkingLevel")
    if level is None:
        _check_budget(thinking, model)
    elif "thinkingBudget" in thinking:
        raise InvalidRequest("You can only set only one of thinking budget and thinking level.")
    elif _OLD_MODELS.match(model):
        raise InvalidRequest("Thinking level is not supported for this model.")
    elif level.lower() not in ("minimal", "low", "medium", "high"):
        raise InvalidRequest(f"Invalid value at 'thinking_level': {level}")


def _check_budget(thinking: Mapping[str, Any], model: str) -> None:
    budget = thinking.get("thinkingBudget", 0 if _THINKS_ON_REQUEST_MODELS.match(model) else -1)
    if budget == 0 and _ALWAYS_THINKING_MODELS.match(model):
        raise InvalidRequest("Budget 0 is invalid. This model only works in thinking mode.")
    if budget == 0 and thinking.get("includeThoughts"):
        raise InvalidRequest(
            "Thinking_config.include_thoughts is only enabled when thinking is enabled."
        )


def _check_system(system: Any) -> None:
    parts = system.get("parts") if isinstance(system, dict) else None
    if not parts or any(not isinstance(part.get("text"), str) for part in parts):
        raise InvalidRequest("system_instruction has to be text")


# --- Contents -----------------------------------------------------------------------------------


def _check_contents(contents: Any, model: str) -> None:
    if not isinstance(contents, list) or not contents:
        raise InvalidRequest("* GenerateContentRequest.contents: contents is not specified")
    for at, content in enumerate(contents):
        _check_content(content, f"contents[{at}]")
    _check_turns(contents)
    if demands_signatures(model):
        _check_signatures(contents)


def _check_content(content: Any, where: str) -> None:
    _check_fields(content, frozenset({"parts", "role"}), where)
    role = content.get("role", "user")
    if role not in ("user", "model"):
        raise InvalidRequest("Please use a valid role: user, model.")
    parts = content.get("parts")
    if not isinstance(parts, list) or not parts:
        raise InvalidRequest(
            f"* GenerateContentRequest.{where}.parts: contents.parts must not be empty."
        )
    for number, part in enumerate(parts):
        _check_part(part, role, f"{where}.parts[{number}]")


def _check_part(part: Any, role: str, where: str) -> None:
    _check_fields(part, _PART_KINDS | _PART_EXTRAS, where)
    data = part.keys() & _PART_KINDS
    if len(data) != 1:
        raise InvalidRequest(
            f"* GenerateContentRequest.{where}.data: required oneof field 'data' must have one "
            "initialized field"
        )
    kind = data.pop()
    if (kind in _MODEL_PART_KINDS and role != "model") or (
        kind == "functionResponse" and role == "model"
    ):
        raise InvalidRequest(f"{where}: a {kind} cannot be sent by the {role}")
    if not _BASE64.match(part.get("thoughtSignature", "")):
        raise InvalidRequest(f"Invalid value at '{where}.thought_signature' (TYPE_BYTES)")
    if kind == "text" and not isinstance(part["text"], str):
        raise InvalidRequest(f"Invalid value at '{where}.text' (TYPE_STRING)")
    if kind == "inlineData":
        _check_blob(part["inlineData"], where)
    if kind in ("functionCall", "functionResponse"):
        _check_call(part[kind], kind, where)


def _check_blob(blob: Any, where: str) -> None:
    kind = blob.get("mimeType") or ""
    if not blob.get("data"):
        raise InvalidRequest(f"Invalid value at '{where}.inline_data.data': it is empty")
    try:
        b64decode(blob["data"], validate=True)
    except ValueError:
        raise InvalidRequest(f"Invalid value at '{where}.inline_data.data' (TYPE_BYTES)") from None
    if "/" not in kind or (kind.startswith("image/") and kind not in _IMAGE_TYPES):
        raise InvalidRequest(f"Unsupported MIME type: {kind}")


def _check_call(called: Any, kind: str, where: str) -> None:
    if not called.get("name"):
        raise InvalidRequest(f"* GenerateContentRequest.{where}.{kind}.name: Name cannot be empty.")
    if not _FUNCTION_NAME.match(called["name"]):
        raise InvalidRequest(
            f"* GenerateContentRequest.{where}.{kind}.name: Invalid function name."
        )
    value = called.get("args", {}) if kind == "functionCall" else called.get("response")
    if not isinstance(value, dict):
        raise InvalidRequest(f"Invalid value at '{where}.{kind}': an object is wanted")
    for part in called.get("parts", ()):
        _check_fields(part, frozenset({"inlineData"}), f"{where}.{kind}.parts")
        if not part:
            raise InvalidRequest(f"{where}.{kind}.parts: 'data' must have one initialized field")
        _check_blob(part["inlineData"], where)


def _names_and_ids(content: Any, kind: str) -> list[tuple[str, str]]:
    """Names and ids of the calls or responses in a content."""
    calls = [part[kind] for part in content["parts"] if kind in part]
    return [(called["name"], called.get("id") or "") for called in calls]


def _check_turns(contents: list[Any]) -> None:
    """Check that roles alternate, and that each call is answered by the next content."""
    calls: list[tuple[str, str]] = []
    previous = "model"
    for content in contents:
        role = content.get("role", "user")
        responses = _names_and_ids(content, "functionResponse")
        if bool(responses) != bool(calls):
            raise InvalidRequest(
                "Please ensure that function response turn comes immediately after a function call "
                "turn."
            )
        if len(responses) != len(calls):
            raise InvalidRequest(
                "Please ensure that the number of function response parts is equal to the number "
                "of function call parts of the function call turn."
            )
        if Counter(responses) != Counter(calls):
            raise InvalidRequest("the function responses are not those of the function calls")
        if role == previous:
            raise InvalidRequest(
                "Please ensure that multiturn requests alternate between user and model."
            )
        calls = _names_and_ids(content, "functionCall")
        previous = "results" if responses else role
    if previous == "model":
        raise InvalidRequest(
            "Please ensure that multiturn requests end with a user role or a function response."
        )


def _check_signatures(contents: list[Any]) -> None:
    """Check that the first call of each step in the current turn is signed."""
    for at, content in _current_turn(contents):
        first = next((part for part in content["parts"] if "functionCall" in part), None)
        if first is not None and not first.get("thoughtSignature"):
            name = first["functionCall"]["name"]
            raise InvalidRequest(
                f"Function call is missing a thought_signature in functionCall parts: "
                f"function call `{name}` in the {at}. content block"
            )


def _current_turn(contents: list[Any]) -> Iterator[tuple[int, Any]]:
    started = max(
        at
        for at, content in enumerate(contents)
        if content.get("role", "user") == "user" and not _names_and_ids(content, "functionResponse")
    )
    return ((at, content) for at, content in enumerate(contents) if at > started)
