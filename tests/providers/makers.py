"""The four protocols, each as a model that talks to a fake of its provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, Final, NamedTuple, get_args

from holdfast.kernel.model import Model
from holdfast.providers.http import Http, HttpClient
from holdfast.providers.provider_catalog import WireProtocol
from holdfast.testing.conformance import Feature, ModelFactory, Subject
from holdfast.testing.fake.provider import FakeProvider
from holdfast.testing.script import ScriptedTurn

PROTOCOLS: Final[tuple[WireProtocol, ...]] = get_args(WireProtocol)

_MODELS: Final[Mapping[WireProtocol, tuple[str, str]]] = {
    "anthropic": ("Anthropic", "claude-sonnet-4-5"),
    "google": ("Google", "gemini-3-pro"),
    "openai_chat": ("OpenAIChat", "gpt-5"),
    "openai_responses": ("OpenAIResponses", "gpt-5"),
}
"""The class in the module of that name, and a model to ask for."""

WITHOUT: Final[Mapping[WireProtocol, frozenset[Feature]]] = {
    "anthropic": frozenset({"files"}),
    "google": frozenset({"exact_arguments"}),
    "openai_chat": frozenset({"signatures", "provider_tools"}),
    "openai_responses": frozenset(),
}
"""What a protocol has no words for."""


class Talk(NamedTuple):
    """A model, and whom it talks to."""

    fake: FakeProvider
    model: Model


def model_of(protocol: WireProtocol, http: Http, **more: Any) -> Model:
    name, asked_for = _MODELS[protocol]
    made = getattr(import_module(f"holdfast.providers.{protocol}"), name)
    model: Model = made(asked_for, api_key="key-for-tests", http=http, **more)
    return model


def talk(
    protocol: WireProtocol,
    script: Sequence[ScriptedTurn] = (),
    *,
    default: ScriptedTurn | None = None,
    check: bool = True,
    **more: Any,
) -> Talk:
    """In memory, in virtual time."""
    fake = FakeProvider(protocol, script, default=default, check=check)
    return Talk(fake, model_of(protocol, fake, **more))


def subject(fake: FakeProvider, model: Model) -> Subject:
    return Subject(
        model,
        open=lambda: fake.open,
        sent=lambda: [received.body for received in fake.requests],
    )


def in_memory(protocol: WireProtocol) -> ModelFactory:
    return lambda script: subject(*talk(protocol, script))


def on_loopback(protocol: WireProtocol) -> ModelFactory:
    """Over real sockets. A server does not hear at once that a client has left."""

    @asynccontextmanager
    async def make(script: Sequence[ScriptedTurn]) -> AsyncIterator[Subject]:
        fake, connections = FakeProvider(protocol, script), HttpClient()
        async with fake.serve() as base_url:
            try:
                model = model_of(protocol, connections, base_url=base_url + _PATHS[protocol])
                yield Subject(model, sent=lambda: [received.body for received in fake.requests])
            finally:
                await connections.close()

    return make


_PATHS: Final[Mapping[WireProtocol, str]] = {
    "anthropic": "",
    "google": "",
    "openai_chat": "/v1",
    "openai_responses": "/v1",
}
