"""Models of pydantic-ai behind our protocol: its own, which play a script, and those of its real
providers, which talk to fakes of ours."""

from __future__ import annotations

import inspect
import ssl
import warnings
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import httpx2
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, NativeToolCallPart, NativeToolReturnPart
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingPart,
    DeltaToolCall,
    FunctionModel,
)
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from holdfast.kernel.errors import ProviderError
from holdfast.kernel.model import (
    ArgumentsDelta,
    CallStarted,
    Finished,
    PartEnded,
    ReasoningDelta,
    TextDelta,
)
from holdfast.providers.provider_catalog import WireProtocol
from holdfast.providers.pydantic_ai import PydanticAI
from holdfast.testing.conformance import Feature, ModelFactory, Subject
from holdfast.testing.fake.provider import FakeProvider
from holdfast.testing.script import ScriptedTurn, ScriptPlayer

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the source of google-genai warns when it is compiled
    from google.genai import Client
    from google.genai.types import HttpOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

Said: TypeAlias = (
    str
    | dict[int, DeltaToolCall]
    | dict[int, DeltaThinkingPart]
    | dict[int, NativeToolCallPart | NativeToolReturnPart]
)
Speech: TypeAlias = Callable[[list[ModelMessage], AgentInfo], AsyncIterator[Said]]


# --- Its model for tests ------------------------------------------------------------------------

FUNCTION_CANNOT: Final[frozenset[Feature]] = frozenset(
    {"connection", "cut", "files", "provider_tools", "sources", "unfinished_calls", "usage"}
)
"""A function has no connection that could be cut, and counts tokens as it likes."""


def functioning(script: Sequence[ScriptedTurn]) -> PydanticAI:
    """A `FunctionModel` that plays a script of ours."""
    played = ScriptPlayer(script)

    async def speak(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Said]:
        calls = 0
        for step in played.steps(played.take(), messages):
            if callable(step):
                await _do(step, messages)
            elif isinstance(step, CallStarted):
                calls += 1
                yield {calls: DeltaToolCall(step.tool, tool_call_id=step.call_id)}
            elif isinstance(step, ArgumentsDelta):
                yield {calls: DeltaToolCall(json_args=step.text)}
            elif isinstance(step, TextDelta):
                yield step.text
            elif isinstance(step, ReasoningDelta):
                yield {0: DeltaThinkingPart(content=step.text)}
            elif isinstance(step, PartEnded) and step.signature:
                yield {0: DeltaThinkingPart(signature=step.signature)}
            elif isinstance(step, Finished):
                yield ""  # it has to say something

    return PydanticAI(FunctionModel(stream_function=speak, model_name="played"))


async def _do(step: Callable[[Any], object], messages: object) -> None:
    try:
        done = step(messages)
        if inspect.isawaitable(done):
            await done
    except ProviderError as error:
        headers = {"retry-after": f"{error.retry_after:g}"} if error.retry_after else {}
        body = {"error": {"message": error.message}}
        raise ModelHTTPError(error.status or 500, "played", body, headers=headers) from None


# --- Its real providers -------------------------------------------------------------------------

BRIDGED_CANNOT: Final[Mapping[WireProtocol, frozenset[Feature]]] = {
    "anthropic": frozenset({"files"}),
    "google": frozenset({"exact_arguments", "sources"}),
    "openai_chat": frozenset({"files", "provider_tools", "signatures"}),
    "openai_responses": frozenset(),
}


_TRUST: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Empty, and made once: google-genai reads all certificates, twice, whenever a client is made."""


def real(protocol: WireProtocol, base_url: str, client: httpx2.AsyncClient) -> Model[Any]:
    match protocol:
        case "anthropic":
            provider = AnthropicProvider(api_key="k", base_url=base_url, http_client=client)
            return AnthropicModel("claude-sonnet-4-6", provider=provider)
        case "google":
            options = HttpOptions(
                base_url=base_url,
                httpx_async_client=client,
                client_args={"verify": _TRUST},
                async_client_args={"verify": _TRUST, "ssl": _TRUST},
            )
            google = GoogleProvider(client=Client(api_key="k", http_options=options))
            return GoogleModel("gemini-3-pro-preview", provider=google)
        case "openai_chat" | "openai_responses":
            kind = OpenAIChatModel if protocol == "openai_chat" else OpenAIResponsesModel
            openai = OpenAIProvider(api_key="k", base_url=f"{base_url}/v1", http_client=client)
            return kind("gpt-5", provider=openai)


@asynccontextmanager
async def talking(fake: FakeProvider, protocol: WireProtocol) -> AsyncIterator[PydanticAI]:
    """A bridged model that talks to this fake, over sockets."""
    # How long to wait is decided in the loop, and trusted is nobody whom this client meets.
    async with fake.serve() as base_url, httpx2.AsyncClient(verify=False, timeout=None) as client:
        yield PydanticAI(real(protocol, base_url, client))


def bridged(protocol: WireProtocol) -> ModelFactory:
    @asynccontextmanager
    async def make(script: Sequence[ScriptedTurn]) -> AsyncIterator[Subject]:
        fake = FakeProvider(protocol, script)
        async with talking(fake, protocol) as model:
            yield Subject(model, sent=lambda: [received.body for received in fake.requests])

    return make
