"""Catalog of the named providers: address, protocol and key variable of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from holdfast.kernel.messages import Value

WireProtocol = Literal["anthropic", "google", "openai_chat", "openai_responses"]


class ProviderFacts(Value, frozen=True):
    """How a provider is reached: protocol, address, and environment variables."""

    name: str
    protocol: WireProtocol
    base_url: str | None
    """Base URL; None if every user has an address of their own."""
    keys: tuple[str, ...]
    """Environment variables that may hold the key, in order of precedence."""
    more_urls: tuple[str, ...] = ()
    """Environment variables for the base URL, in addition to `<NAME>_BASE_URL`."""
    needs_key: bool = True
    path: str = ""
    """Path of the API, for an address without a path."""
    key_header: str = ""
    """Header for the key, if it differs from that of the protocol."""
    default: str = ""
    """Default model: the newest for everyday work, not the most expensive. Empty if there is
    none."""

    @property
    def urls(self) -> tuple[str, ...]:
        """Environment variables that may hold the base URL, in order of precedence."""
        return (f"{self.name.upper().replace('-', '_')}_BASE_URL", *self.more_urls)


def _chat(name: str, base_url: str, *keys: str, default: str = "") -> ProviderFacts:
    return ProviderFacts(name, "openai_chat", base_url, keys, default=default)


def _local(name: str, port: int, *more_urls: str) -> ProviderFacts:
    key = f"{name.upper()}_API_KEY"
    url = f"http://localhost:{port}/v1"
    return ProviderFacts(name, "openai_chat", url, (key,), more_urls, needs_key=False, path="/v1")


PROVIDERS: Final[Mapping[str, ProviderFacts]] = {
    facts.name: facts
    for facts in (
        ProviderFacts(
            "anthropic",
            "anthropic",
            "https://api.anthropic.com",
            ("ANTHROPIC_API_KEY",),
            default="claude-opus-5-5",
        ),
        ProviderFacts(
            "openai",
            "openai_responses",
            "https://api.openai.com/v1",
            ("OPENAI_API_KEY",),
            default="gpt-6.1-sol",
        ),
        ProviderFacts(
            "openai-chat",
            "openai_chat",
            "https://api.openai.com/v1",
            ("OPENAI_API_KEY",),
            ("OPENAI_BASE_URL",),
        ),
        ProviderFacts(
            "google",
            "google",
            "https://generativelanguage.googleapis.com",
            ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
            ("GOOGLE_GEMINI_BASE_URL",),
            default="gemini-3.8-flash",
        ),
        ProviderFacts(
            "azure",
            "openai_responses",
            None,
            ("AZURE_OPENAI_API_KEY",),
            ("AZURE_OPENAI_ENDPOINT",),
            path="/openai/v1",
            key_header="api-key",
        ),
        _chat("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", default="gpt-oss-120b"),
        _chat(
            "deepseek", "https://api.deepseek.com", "DEEPSEEK_API_KEY", default="deepseek-v4-pro"
        ),
        _chat("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
        _chat(
            "groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", default="openai/gpt-oss-120b"
        ),
        _chat("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN", "HUGGINGFACE_API_KEY"),
        _chat("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", default="mistral-large-4"),
        _chat(
            "moonshot",
            "https://api.moonshot.ai/v1",
            "MOONSHOT_API_KEY",
            "MOONSHOTAI_API_KEY",
            default="kimi-k3.1-pro",
        ),
        _chat("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
        _chat("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        ProviderFacts(
            "perplexity",
            "openai_responses",
            "https://api.perplexity.ai/v1",
            ("PERPLEXITY_API_KEY", "PPLX_API_KEY"),
        ),
        _chat("together", "https://api.together.ai/v1", "TOGETHER_API_KEY"),
        _chat("xai", "https://api.x.ai/v1", "XAI_API_KEY", default="grok-4.7"),
        _local("llamacpp", 8080),
        _local("lmstudio", 1234),
        _local("ollama", 11434, "OLLAMA_HOST"),
        _local("vllm", 8000),
        ProviderFacts(
            "openai-compatible",
            "openai_chat",
            None,
            ("OPENAI_COMPATIBLE_API_KEY",),
            needs_key=False,
        ),
    )
}
