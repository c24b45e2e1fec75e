"""Bridge to pydantic-ai: uses any of its models, for providers we do not support directly.

    Agent(model=PydanticAI("bedrock:amazon.nova-pro-v1:0"))

Needs `pip install "holdfast[pydantic-ai]"`. Nothing of pydantic-ai is imported before a model is
created, and nothing outside this folder imports it. Retries stay with our loop: the bridge switches
those of pydantic-ai off.

Ideas:

- A history contains our parts only. Fields that only pydantic-ai understands are kept as JSON in
  their metadata, under `pydantic-ai`, and restored for a replay.
- Events of pydantic-ai become deltas; its exceptions become `ProviderError` or `ConfigError`.
- A paused answer is continued here, so that callers see one answer.

Read `parts.py` first. `request.py` encodes requests, `decoder.py` decodes events, and `failure.py`
converts exceptions.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from holdfast.kernel.errors import ConfigError, ProviderError
from holdfast.kernel.model import Delta, Notice, Ping, Request

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model, StreamedResponse
    from pydantic_ai.settings import ModelSettings

    from holdfast.providers.pydantic_ai.request import PydanticRequest

PING: Final = Ping()
MAX_PAUSES: Final = 10
"""How often a provider may pause in one answer and be asked to continue."""
CANCELLED_READ_TIMEOUT: Final = 0.01
"""Seconds after which the last read is cancelled when a stream is closed. It has to be in
progress."""
MAX_DRAINED_EVENTS: Final = 10_000
"""Maximum number of buffered events that are dropped when a stream is closed."""


class PydanticAI:
    """A model of pydantic-ai, as a `Model` of ours: `PydanticAI("bedrock:amazon.nova-pro-v1:0")`.

    Its name is `pydantic-ai:provider:model`. Metadata of its answers is kept under `pydantic-ai`:
    see `PROVIDER` in `parts`.
    """

    def __init__(
        self,
        model: Model[Any] | str,
        *,
        name: str | None = None,
        window: int | None = None,
        settings: ModelSettings | Mapping[str, Any] | None = None,
    ) -> None:
        """Create the model. `model` may also be a name that pydantic-ai knows.

        `name` replaces the model's own name, and `window` its context window if pydantic-ai does
        not know it. `settings` are pydantic-ai's, and apply unless a request sets the same.
        """
        self._model = _resolved_model(model)
        self.name = f"pydantic-ai:{name or self._model.model_id}"
        self.window = window or self._model.context_window
        self._settings = cast("ModelSettings", dict(settings or {}))

    @property
    def priced(self) -> bool:
        """Whether pydantic-ai knows the price of the model."""
        from pydantic_ai.messages import ModelResponse

        from holdfast.providers.pydantic_ai.decoder import cost_of

        name, provider = self._model.model_name, self._model.system
        nothing = ModelResponse(parts=[], model_name=name, provider_name=provider)
        return cost_of(nothing) is not None

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        from holdfast.providers.pydantic_ai.decoder import PydanticDecoder, is_complete, joined
        from holdfast.providers.pydantic_ai.failure import translated
        from holdfast.providers.pydantic_ai.request import encoded_request

        begun = False
        paused: ModelResponse | None = None
        try:
            encoded = encoded_request(request, self._model, self.name, self._settings)
            for _ in range(MAX_PAUSES):
                decoder = PydanticDecoder()
                async with self._streaming(encoded, paused) as stream:
                    async for event in stream:
                        # only after the provider's first event: a notice is not a sign of life
                        if not begun:
                            begun = True
                            for notice in encoded.notices:
                                yield Notice(notice)
                        deltas = decoder.feed(event)
                        for delta in deltas:
                            yield delta
                        if not deltas:
                            yield PING
                response = joined(paused, stream.get())
                if response.state != "suspended":
                    break
                for delta in decoder.settle():
                    yield delta
                paused = self._continuing(response)
            else:
                raise ProviderError(f"the answer paused {MAX_PAUSES} times", kind="server")
        except Exception as error:
            raise translated(error, begun=begun) from error
        if is_complete(stream, response):
            for delta in decoder.finish(response, stream.get().usage):
                yield delta

    @asynccontextmanager
    async def _streaming(
        self, encoded: PydanticRequest, paused: ModelResponse | None
    ) -> AsyncIterator[StreamedResponse]:
        messages = encoded.messages if paused is None else [*encoded.messages, paused]
        async with self._model.request_stream(
            messages, encoded.settings, encoded.parameters
        ) as stream:
            try:
                yield stream
            except GeneratorExit:  # the caller closed the stream
                await _cancel_read(stream)
                raise

    def _continuing(self, response: ModelResponse) -> ModelResponse:
        """The paused answer, if pydantic-ai continues it at once."""
        if self._model.continuation_delay(response) is not None:
            raise ConfigError(
                f"{self.name} answers in the background, which needs polling: "
                "switch its background mode off"
            )
        return response


async def _cancel_read(stream: StreamedResponse) -> None:
    """Cancel a read in progress, so that the client releases its connection.

    A client whose generators are closed between two reads may keep its connection until they are
    garbage-collected.
    """
    with anyio.move_on_after(CANCELLED_READ_TIMEOUT, shield=True), suppress(Exception):
        events = aiter(stream)
        for _ in range(MAX_DRAINED_EVENTS):
            await anext(events)


def _resolved_model(model: Model[Any] | str) -> Model[Any]:
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import Model, infer_model
    except ImportError:
        raise ConfigError(
            'PydanticAI needs pydantic-ai: run pip install "holdfast[pydantic-ai]"'
        ) from None
    if isinstance(model, str):
        try:
            return infer_model(model)
        except (ImportError, UserError, ValueError) as error:
            raise ConfigError(f"pydantic-ai has no model {model!r}: {error}") from None
    if not isinstance(model, Model):
        raise ConfigError(
            f"model is a {type(model).__name__}: use a model of pydantic-ai, or its name"
        )
    return model
