"""Encodes requests for the Gemini API. Pure: the same request gives the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.kernel.model import Effort, ProviderTool, Request, Shape, ToolSpec
from holdfast.providers.foreign_messages import shape_instruction
from holdfast.providers.google.answer_schema import answer_schema
from holdfast.providers.google.contents import ContentsEncoder
from holdfast.providers.profile import Profile
from holdfast.providers.request_body import JsonObject, encoded, merged

_SAMPLING: Final = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
_PROVIDER_TOOLS: Final = {
    "code_execution": "codeExecution",
    "web_fetch": "urlContext",
    "web_search": "googleSearch",
}
"""The API's own tools by their shared names. None of them takes options."""
_THINKING_LEVELS: Final[Mapping[Effort, str]] = {
    "none": "minimal",  # the lowest level: these models cannot stop thinking
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}
_THINKING_BUDGETS: Final[Mapping[Effort, int]] = {
    "none": 0,
    "minimal": 1_024,
    "low": 1_024,
    "medium": 8_192,
    "high": 24_576,
    "xhigh": 24_576,
    "max": 24_576,
}
"""Thinking budgets in tokens by effort, as Google documents them."""


def encode(
    request: Request, name: str, provider: str, profile: Profile
) -> tuple[bytes, tuple[str, ...]]:
    """The body of a request, and notices for people about what was left out."""
    encoder = _Encoder(name, provider, profile)
    body = encoder.body(request)
    notices = tuple(dict.fromkeys(encoder.notices))
    return encoded(body), notices


class _Encoder:
    def __init__(self, name: str, provider: str, profile: Profile) -> None:
        self.notices: list[str] = []
        self._name = name
        self._provider = provider
        self._profile = profile

    def body(self, request: Request) -> JsonObject:
        """The body. For the cache, stable fields come first; the messages come last."""
        tools, mixed = self._tools(request)
        config = self._config(request)
        system = [block.text for block in request.system if block.text]
        if request.output is not None and self._takes_shape(request):
            config |= _shape_config(request.output)
        elif request.output is not None:
            system.append(shape_instruction(request.output))
        contents = ContentsEncoder(self._name, self._provider, self._profile, self.notices)
        parts: JsonObject = {
            "systemInstruction": {"parts": [{"text": text} for text in system]} if system else None,
            "tools": tools,
            "toolConfig": self._tool_config(request, tools, mixed),
            "generationConfig": config,
            "contents": contents.encode(request.messages),
        }
        body = {key: value for key, value in parts.items() if value}
        return merged(body, request.settings.options.get(self._provider, {}))

    # --- Tools ---

    def _tools(self, request: Request) -> tuple[list[JsonObject], bool]:
        """The tools, and whether user functions and the API's own tools are combined."""
        functions: list[JsonObject] = []
        tools: list[JsonObject] = []
        for spec in request.tools:
            native = spec.native.get(self._provider)
            if native is None:
                functions.append(_function(spec))
            else:  # a function, or a tool of the API that runs here
                (functions if "name" in native else tools).append(dict(native))
        if functions:
            tools.insert(0, {"functionDeclarations": functions})
        own = [declared for tool in request.provider_tools for declared in self._provided(tool)]
        if not tools or not own:
            return tools or own, False
        if not self._profile.options.get("mix_tools", True):
            for tool in request.provider_tools:
                self._leave_out(f"{tool.name} together with other tools")
            return tools, False
        return tools + own, True

    def _tool_config(
        self, request: Request, tools: Sequence[JsonObject], mixed: bool
    ) -> JsonObject:
        config: JsonObject = {"includeServerSideToolInvocations": True} if mixed else {}
        settings = request.settings
        if settings.parallel_tool_calls is False:
            self._leave_out("parallel_tool_calls")
        if settings.tool_choice is None:
            return config
        functions = next(
            (tool["functionDeclarations"] for tool in tools[:1] if "functionDeclarations" in tool),
            (),
        )
        calling = _function_calling(settings.tool_choice, [one["name"] for one in functions])
        if calling is None:
            self._leave_out(f"tool_choice {settings.tool_choice}")
            return config
        return {**config, "functionCallingConfig": calling}

    def _provided(self, tool: ProviderTool) -> list[JsonObject]:
        native = tool.native.get(self._provider)
        if native is not None:
            return [dict(native)]
        if tool.name not in _PROVIDER_TOOLS:
            self._leave_out(f"the tool {tool.name}")
            return []
        for option in tool.options:
            self._leave_out(f"{option} of {tool.name}")
        return [{_PROVIDER_TOOLS[tool.name]: {}}]

    # --- Settings ---

    def _config(self, request: Request) -> JsonObject:
        config: JsonObject = {}
        for field, word in _SAMPLING.items():
            value = getattr(request.settings, field)
            if value is not None and self._profile.sampling:
                config[word] = value
            elif value is not None:
                self._leave_out(field)
        if request.settings.max_output_tokens is not None:
            config["maxOutputTokens"] = request.settings.max_output_tokens
        if request.settings.seed is not None:
            config["seed"] = request.settings.seed
        if request.settings.stop:
            config["stopSequences"] = list(request.settings.stop)
        thinking = thinking_config(request.effort, self._profile)
        return {**config, "thinkingConfig": thinking} if thinking else config

    def _takes_shape(self, request: Request) -> bool:
        mixes = self._profile.options.get("mix_output", True)
        return self._profile.structured and (mixes or not (request.tools or request.provider_tools))

    def _leave_out(self, what: str) -> None:
        self.notices.append(f"{self._name} does not take {what}: it was left out.")


def _function_calling(choice: str, functions: Sequence[str]) -> JsonObject | None:
    """The choice of a function; None if it cannot be made: the API chooses its own tools."""
    if not functions:
        return None
    if choice in ("auto", "none"):
        return {"mode": choice.upper()}
    if choice == "required":
        return {"mode": "ANY"}
    return {"mode": "ANY", "allowedFunctionNames": [choice]} if choice in functions else None


def _function(spec: ToolSpec) -> JsonObject:
    return {
        "name": spec.name,
        "description": spec.description,
        "parametersJsonSchema": spec.schema,
    }


def _shape_config(shape: Shape) -> JsonObject:
    return {
        "responseMimeType": "application/json",
        "responseJsonSchema": answer_schema(shape.schema),
    }


def thinking_config(requested: Effort | None, profile: Profile) -> JsonObject:
    """Thinking options for an effort, in the model's style.

    Thoughts are requested only if the model has any: the API refuses the option otherwise.
    """
    effort = profile.effort(requested)
    if effort is None:
        thinks = profile.efforts and profile.options.get("thinks", True)
        return {"includeThoughts": True} if thinks else {}
    if profile.options.get("thinking", "level") == "level":
        thinking: JsonObject = {"thinkingLevel": _THINKING_LEVELS[effort]}
    else:
        least = profile.options.get("min_budget", 0)
        # a budget can be lower than the lowest effort
        effort = "none" if requested == "none" else effort
        thinking = {"thinkingBudget": max(least, _THINKING_BUDGETS[effort])}
    return thinking if effort == "none" else {**thinking, "includeThoughts": True}
