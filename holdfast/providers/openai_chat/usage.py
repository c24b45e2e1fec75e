"""Reads tokens and costs as reported by chat completions. Pure."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.kernel.messages import Usage
from holdfast.providers.profile import Price


def usage_of(reported: Any, price: Price | None) -> Usage | None:
    """Reported usage as a `Usage`.

    Cache reads and writes are counted separately from other input.
    """
    if not isinstance(reported, dict) or not (
        "prompt_tokens" in reported or "completion_tokens" in reported
    ):
        return None
    prompt, output = _count(reported, "prompt_tokens"), _count(reported, "completion_tokens")
    detail = reported.get("prompt_tokens_details")
    read = (
        _count(detail, "cached_tokens")
        or _count(reported, "prompt_cache_hit_tokens")  # DeepSeek
        or _count(reported, "cached_tokens")  # Moonshot
    )
    written = _count(detail, "cache_write_tokens")
    reasoning = _count(reported.get("completion_tokens_details"), "reasoning_tokens")
    reasoning = reasoning or _count(reported, "reasoning_tokens")  # Perplexity
    if reasoning and _count(reported, "total_tokens") == prompt + output + reasoning:
        output += reasoning  # xAI counts it separately
    usage = Usage(max(0, prompt - read - written), output, reasoning, read, written)
    cost = _cost(reported)
    if cost is None and price is not None:
        cost = price.of(usage)
    return usage if cost is None else replace(usage, cost=cost)


def _count(reported: Any, name: str) -> int:
    value = reported.get(name) if isinstance(reported, dict) else None
    return int(value) if isinstance(value, (int, float)) else 0


def _cost(reported: dict[str, Any]) -> float | None:
    """Cost that the provider reports itself: OpenRouter, and in more detail Perplexity."""
    cost = reported.get("cost")
    if isinstance(cost, dict):
        cost = cost.get("total_cost")
    if not isinstance(cost, (int, float)):
        return None
    details = reported.get("cost_details")
    if reported.get("is_byok") is True and isinstance(details, dict):
        # With the user's own key, OpenRouter's cost is its fee: the model is paid separately.
        upstream = details.get("upstream_inference_cost")
        cost += upstream if isinstance(upstream, (int, float)) else 0
    return float(cost)
