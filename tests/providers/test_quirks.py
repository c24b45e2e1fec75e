"""What is known of endpoints that are compatible with OpenAI's."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from holdfast.kernel.model import EFFORTS
from holdfast.providers.openai_chat import quirks as module
from holdfast.providers.openai_chat.quirks import COMPATIBLE, QUIRKS, Quirks, quirks_of
from holdfast.providers.provider_catalog import PROVIDERS

NAMES = {
    "azure",
    "cerebras",
    "deepseek",
    "fireworks",
    "groq",
    "huggingface",
    "llamacpp",
    "lmstudio",
    "mistral",
    "moonshot",
    "nvidia",
    "ollama",
    "openai",
    "openrouter",
    "together",
    "vllm",
    "xai",
}


def test_the_usual_endpoints_are_known() -> None:
    assert set(QUIRKS) >= NAMES


def test_every_endpoint_can_be_asked_in_this_protocol() -> None:
    """Azure and OpenAI are, too, though their models are mostly asked otherwise."""
    speaking = {name for name, facts in PROVIDERS.items() if facts.protocol == "openai_chat"}
    assert set(QUIRKS) <= speaking | {"azure", "openai"}


@pytest.mark.parametrize("name", QUIRKS)
def test_every_value_is_one_that_there_is(name: str) -> None:
    given = QUIRKS[name]
    assert msgspec.convert(msgspec.to_builtins(given), Quirks) == given


def test_openai_is_the_measure() -> None:
    assert QUIRKS["openai"] == Quirks()


def test_an_endpoint_that_nobody_knows_is_asked_carefully() -> None:
    assert quirks_of("never-heard-of") == COMPATIBLE
    assert quirks_of("groq") == QUIRKS["groq"]


def test_what_must_be_filled_in_is_replayed_too() -> None:
    for name, given in QUIRKS.items():
        if given.reasoning_filler is not None:
            assert given.replay in ("reasoning_content", "reasoning"), name


def test_only_openai_and_azure_limit_the_ids_of_calls() -> None:
    limited = {name for name, given in QUIRKS.items() if given.max_call_id is not None}
    assert limited == {"openai", "openai-chat", "azure"}


def test_efforts_go_from_the_least_to_the_most() -> None:
    for name, given in QUIRKS.items():
        ranks = [EFFORTS.index(level) for level in given.efforts or ()]
        assert ranks == sorted(set(ranks)), name


def test_what_is_fetched_is_also_taken() -> None:
    for name, given in QUIRKS.items():
        assert set(given.urls) <= {*given.files, "image"}, name


def test_every_quirk_says_who_needs_it() -> None:
    """Each field is followed by its description."""
    tree = ast.parse(Path(module.__file__).read_text())
    (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef)]
    for field, behind in pairwise(body):
        if isinstance(field, ast.AnnAssign):
            assert isinstance(behind, ast.Expr), ast.unparse(field.target)
    described = [node for node in body[1:] if isinstance(node, ast.Expr)]
    assert len(described) == len(Quirks.__struct_fields__)
