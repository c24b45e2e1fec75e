"""Differences between endpoints that claim compatibility with OpenAI's chat completions.

`QUIRKS` has those we know by name. An endpoint that nobody has told us about is asked as
`COMPATIBLE` says: with what nearly every one of them understands. `Quirks()` is OpenAI itself.

What an answer looks like is not among this: every form that is known is read, whoever sends it.
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
    "thinking",  # thinking {type} beside reasoning_effort
    "reasoning",  # reasoning {effort}, "none" too
    "enabled",  # reasoning {enabled} beside reasoning_effort
    "template",  # chat_template_kwargs, which the model's own template reads
]
Replay = Literal["reasoning_content", "reasoning", "reasoning_details", "thinking"]
WebSearch = Literal["options", "plugin"]


class Quirks(Value, frozen=True, kw_only=True):
    """How an endpoint wants to be asked. The defaults are those of OpenAI."""

    # --- reaching it ---

    auth_header: str = "Authorization"
    """Where the key goes. With another name than this it goes there bare: `api-key` on Azure."""
    query: Mapping[str, str] = {}
    """Added to the address: `api-version` for the deployments of Azure. Its v1 needs none."""

    # --- the conversation ---

    system_role: Literal["system", "developer"] = "system"
    """What instructions are called. OpenAI takes `system` for `developer`; hardly anybody else
    knows `developer`."""
    system_anywhere: bool = True
    """Whether instructions may stand in the middle. Chat templates of open models mostly refuse it,
    and then the user says them."""
    merges_user: bool = False
    """Messages of the user that follow each other are sent as one: the templates of some open
    models (Gemma, Mistral) want user and assistant to take turns."""
    bridges_results: bool = False
    """The model says a word before a user speaks after results: Mistral refuses a user there."""
    call_ids: Literal["plain", "nine"] = "plain"
    """`nine`: ids of calls are exactly nine letters and digits (Mistral)."""
    max_call_id: int | None = 40
    """Characters that an id of a call may have. None: as many as it has. OpenRouter's are longer,
    and those of Gemini's calls have to stay, since its reasoning names them."""
    json_arguments: bool = False
    """The arguments of earlier calls are parsed over there (vLLM, llama.cpp, Ollama, and gateways
    to providers that want an object), so they have to be a JSON object. OpenAI takes any text."""
    files: tuple[Family, ...] = ("image", "pdf")
    """What it takes beside text, unless the model's profile says otherwise. Content without files
    is always sent as plain text: DeepSeek refuses anything else."""
    urls: tuple[Family, ...] = ("image",)
    """Of these, what it fetches itself. Moonshot wants the bytes; OpenRouter fetches PDFs too."""

    # --- reasoning ---

    effort: EffortStyle | None = "effort"
    """How it is told how hard to think; None when it cannot be."""
    efforts: tuple[Effort, ...] | None = None
    """How hard it can be told to think, where the model's profile does not say. Ollama refuses a
    level that it does not know."""
    replay: Replay | None = None
    """Where an answer's own reasoning goes back to. DeepSeek and Moonshot refuse a conversation
    with tools without it, OpenRouter passes it on to whoever signed it, Mistral and open models go
    on from it. None: nowhere, as on OpenAI, which does not show any."""
    reasoning_filler: str | None = None
    """Stands where an answer has no reasoning of its own, since DeepSeek and Moonshot want the
    field in any case. Moonshot takes an empty one for none."""
    think_tags: bool = False
    """Reasoning comes as `<think>…</think>` before the text: servers without a reasoning parser,
    and Groq, unless it is asked otherwise."""

    # --- settings ---

    max_tokens: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    """OpenAI's newer models refuse `max_tokens`; many others know nothing else."""
    stream_usage: bool = True
    """`stream_options.include_usage` is known. Mistral refuses it and reports usage without."""
    top_k: bool = False
    """Known to vLLM, llama.cpp, LM Studio, OpenRouter, Together and Fireworks."""
    penalties: bool = True
    """Whether presence and frequency penalties may be set. Cerebras and xAI refuse them."""
    structured: Literal["json_schema", "json_object"] | None = "json_schema"
    """The most that an answer can be held to. DeepSeek promises JSON, but no schema."""
    strict: bool = True
    """Whether a schema can be marked as strict, and has to be in OpenAI's subset then."""
    structured_with_tools: bool = True
    """Whether that leaves the model free to call tools. Servers that hold it to a grammar (vLLM,
    llama.cpp, Ollama, LM Studio) keep it from calling, Groq and Cerebras refuse both at once."""
    web_search: WebSearch | None = "options"
    """How a search of the provider's own is asked for: `web_search_options`, which only OpenAI's
    search models take, or OpenRouter's plugin. None where there is none."""

    # --- caching ---

    cache_key: str | None = "prompt_cache_key"
    """The field for a key that is the same for requests that begin alike."""
    cache_header: str | None = None
    """The header for such a key: xAI and Fireworks route by it."""
    cache_control: tuple[str, ...] = ()
    """Models, by how their names begin, whose prompt is cached only when that is asked for: Claude
    on OpenRouter."""


COMPATIBLE: Final = Quirks(
    system_anywhere=False,
    max_call_id=None,
    json_arguments=True,
    files=("image",),
    max_tokens="max_tokens",
    strict=False,
    structured_with_tools=False,
    web_search=None,
    cache_key=None,
)
"""What nearly every endpoint understands."""

_TEMPLATES: Final = replace(COMPATIBLE, merges_user=True, effort="template", top_k=True)
"""Servers that run an open model's own chat template."""

QUIRKS: Final[Mapping[str, Quirks]] = {
    "openai": Quirks(),
    "openai-chat": Quirks(),
    "azure": Quirks(auth_header="api-key", web_search=None),
    # --- on one's own machine ---
    "ollama": replace(
        COMPATIBLE, efforts=("none", "low", "medium", "high", "max"), replay="reasoning"
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
        top_k=True,
        strict=True,
        structured_with_tools=True,
        web_search="plugin",
        cache_key="session_id",
        cache_control=("anthropic/",),
    ),
    "huggingface": COMPATIBLE,  # what is behind it differs from model to model
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
        cache_key="prompt_cache_key",
    ),
    "deepseek": replace(
        COMPATIBLE,
        files=(),
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
        cache_key="prompt_cache_key",
    ),
    "nvidia": replace(COMPATIBLE, effort="template"),
}
"""By the name of the provider. Where nothing certain is known, it is as `COMPATIBLE` says."""


def quirks_of(provider: str) -> Quirks:
    """How a provider of this name is best asked."""
    return QUIRKS.get(provider, COMPATIBLE)
