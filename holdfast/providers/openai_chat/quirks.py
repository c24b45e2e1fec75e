"""Differences between endpoints that claim compatibility with OpenAI's chat completions.

`QUIRKS` has the known endpoints by name. Requests to other endpoints follow `COMPATIBLE`: what
nearly every endpoint understands. `Quirks()` is OpenAI itself.

Answers are not described here: a decoder reads every known form from any endpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec.structs import replace

from holdfast.kernel.messages import Value
from holdfast.kernel.model import Effort
from holdfast.providers.profile import Family

EffortStyle = Literal[
    "effort",  # reasoning_effort, "none" too
    "effort_or_thinking",  # reasoning_effort; none is thinking {type: disabled}, never both
    "thinking",  # thinking {type} and reasoning_effort
    "reasoning",  # reasoning {effort}, "none" too
    "enabled",  # reasoning {enabled} and reasoning_effort
    "template",  # chat_template_kwargs, which the model's own template reads
]
Replay = Literal["reasoning_content", "reasoning", "reasoning_details", "thinking"]
WebSearch = Literal["options", "plugin"]


class Quirks(Value, frozen=True, kw_only=True):
    """Differences of one endpoint. The defaults are those of OpenAI."""

    # --- reaching it ---

    auth_header: str = "Authorization"
    """Header for the key. Under any other name than this, the key is sent without `Bearer`:
    `api-key` on Azure."""
    query: Mapping[str, str] = {}
    """Query parameters: `api-version` for the deployments of Azure. Its v1 API needs none."""

    # --- the conversation ---

    system_role: Literal["system", "developer"] = "system"
    """Role of instructions. OpenAI accepts `system` for `developer`; few other endpoints know
    `developer`."""
    system_anywhere: bool = True
    """Whether system messages may follow other messages.

    Chat templates of open models mostly refuse them there, so they are sent as user messages.
    """
    merges_user: bool = False
    """Whether consecutive user messages are merged: templates of some open models (Gemma, Mistral)
    require alternating roles."""
    bridges_results: bool = False
    """Whether an assistant message is inserted between results and a user message: Mistral requires
    it."""
    call_ids: Literal["plain", "nine"] = "plain"
    """Form of call ids. `nine`: exactly nine letters and digits (Mistral)."""
    max_call_id: int | None = 40
    """Maximum length of a call id; None: unlimited.

    OpenRouter's ids are longer, and those of Gemini's calls have to stay, since its reasoning
    refers to them.
    """
    json_arguments: bool = False
    """Whether the arguments of earlier calls must be a JSON object, because the server parses them:
    vLLM, llama.cpp, Ollama, and gateways to providers that want an object. OpenAI accepts any
    text."""
    files: tuple[Family, ...] = ("image", "pdf")
    """Kinds of files that it accepts, unless the model's profile lists them.

    Content without files is always sent as plain text: DeepSeek refuses anything else.
    """
    urls: tuple[Family, ...] = ("image",)
    """Kinds of files that it fetches by URL. Moonshot wants the bytes; OpenRouter fetches PDFs
    too."""

    # --- reasoning ---

    effort: EffortStyle | None = "effort"
    """Form in which the effort is sent; None if it cannot be."""
    efforts: tuple[Effort, ...] | None = None
    """Efforts that it accepts, if the model's profile does not list them. Ollama refuses unknown
    ones."""
    replay: Replay | None = None
    """Field in which an answer's reasoning is sent back; None: it is not, as on OpenAI, which shows
    none.

    DeepSeek and Moonshot refuse a conversation with tools without it, OpenRouter passes it on to
    the model that signed it, Mistral and open models continue from it.
    """
    reasoning_filler: str | None = None
    """Reasoning that is sent for an answer without any: DeepSeek and Moonshot require the field.

    Moonshot treats an empty one as missing.
    """
    think_tags: bool = False
    """Whether reasoning arrives as `<think>…</think>` before the text: servers without a reasoning
    parser, and Groq by default."""

    # --- settings ---

    max_tokens: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    """Name of the limit. OpenAI's newer models refuse `max_tokens`; many other endpoints know
    nothing else."""
    stream_usage: bool = True
    """Whether `stream_options.include_usage` is known. Mistral refuses it and reports usage without
    it."""
    reports_cost: bool = False
    """Whether each answer states its cost."""
    top_k: bool = False
    """Whether `top_k` is known: on vLLM, llama.cpp, LM Studio, OpenRouter, Together and
    Fireworks."""
    penalties: bool = True
    """Whether presence and frequency penalties may be set. Cerebras and xAI refuse them."""
    seed: str | None = "seed"
    """Field for the seed; None if there is none."""
    stop: Literal["always", "with sampling"] | None = "with sampling"
    """When stop sequences are accepted. OpenAI's reasoning models refuse them, like a
    temperature."""
    forces_calls: bool = True
    """Whether a call can be required. Ollama ignores the field, Moonshot refuses `required`."""
    parallel_calls: bool = True
    """Whether parallel calls can be disabled."""
    structured: Literal["json_schema", "json_object"] | None = "json_schema"
    """Strongest constraint on an answer's form. DeepSeek guarantees JSON, but no schema."""
    strict: bool = True
    """Whether a schema can be marked as strict; it must then be in OpenAI's subset."""
    structured_with_tools: bool = True
    """Whether a constrained model can still call tools.

    Servers that use a grammar (vLLM, llama.cpp, Ollama, LM Studio) keep it from calling; Groq and
    Cerebras refuse both at once.
    """
    web_search: WebSearch | None = "options"
    """Form in which the provider's web search is requested; None if there is none.

    `web_search_options` works only with OpenAI's search models; OpenRouter has a plugin.
    """

    # --- caching ---

    cache_key: str | None = "prompt_cache_key"
    """Field for the cache key, which requests with the same prefix share."""
    cache_header: str | None = None
    """Header for the cache key: xAI and Fireworks route by it."""
    cache_control: tuple[str, ...] = ()
    """Prefixes of models whose prompt is cached only on request: Claude on OpenRouter."""


COMPATIBLE: Final = Quirks(
    system_anywhere=False,
    max_call_id=None,
    json_arguments=True,
    files=("image",),
    max_tokens="max_tokens",
    stop="always",
    strict=False,
    structured_with_tools=False,
    web_search=None,
    cache_key=None,
)
"""Quirks of an unknown endpoint: what nearly every endpoint understands."""

_TEMPLATES: Final = replace(COMPATIBLE, merges_user=True, effort="template", top_k=True)
"""Quirks of servers that use an open model's own chat template."""

QUIRKS: Final[Mapping[str, Quirks]] = {
    "openai": Quirks(),
    "openai-chat": Quirks(),
    "azure": Quirks(auth_header="api-key", web_search=None),
    # --- on one's own machine ---
    "ollama": replace(
        COMPATIBLE,
        efforts=("none", "low", "medium", "high", "max"),
        replay="reasoning",
        forces_calls=False,
        parallel_calls=False,
    ),
    "vllm": replace(_TEMPLATES, replay="reasoning"),
    "llamacpp": replace(_TEMPLATES, replay="reasoning_content"),
    "lmstudio": replace(_TEMPLATES, effort="effort"),
    # --- gateways ---
    "openrouter": replace(
        COMPATIBLE,
        system_anywhere=True,
        files=("image", "pdf"),
        urls=("image", "pdf"),
        effort="reasoning",
        replay="reasoning_details",
        reports_cost=True,
        top_k=True,
        strict=True,
        structured_with_tools=True,
        web_search="plugin",
        cache_key="session_id",
        cache_control=("anthropic/",),
    ),
    "huggingface": COMPATIBLE,  # the server differs from model to model
    # --- providers ---
    "groq": replace(
        COMPATIBLE, max_tokens="max_completion_tokens", replay="reasoning", think_tags=True
    ),
    "mistral": replace(
        COMPATIBLE,
        bridges_results=True,
        call_ids="nine",
        replay="thinking",
        stream_usage=False,
        seed="random_seed",
        cache_key="prompt_cache_key",
    ),
    "deepseek": replace(
        COMPATIBLE,
        files=(),
        seed=None,
        parallel_calls=False,
        effort="thinking",
        replay="reasoning_content",
        reasoning_filler="",
        structured="json_object",
    ),
    "xai": replace(
        COMPATIBLE,
        system_anywhere=True,
        max_tokens="max_completion_tokens",
        penalties=False,
        stop=None,
        strict=True,
        structured_with_tools=True,
        cache_header="x-grok-conv-id",
    ),
    "together": replace(COMPATIBLE, effort="enabled", top_k=True),
    "fireworks": replace(
        COMPATIBLE, replay="reasoning_content", top_k=True, cache_header="x-session-affinity"
    ),
    "cerebras": replace(
        COMPATIBLE, max_tokens="max_completion_tokens", penalties=False, strict=True
    ),
    "moonshot": replace(
        COMPATIBLE,
        urls=(),
        effort="effort_or_thinking",
        replay="reasoning_content",
        reasoning_filler=" ",
        seed=None,
        forces_calls=False,
        parallel_calls=False,
        cache_key="prompt_cache_key",
    ),
    "nvidia": replace(COMPATIBLE, effort="template"),
}
"""Quirks by provider name. Where nothing certain is known, `COMPATIBLE` applies."""


def quirks_of(provider: str) -> Quirks:
    """Quirks of a provider, by name."""
    return QUIRKS.get(provider, COMPATIBLE)
