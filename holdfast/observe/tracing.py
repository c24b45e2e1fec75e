"""Traces by OpenTelemetry's conventions for generative AI: a turn, its model calls, its tools.

Only OpenTelemetry's API is used: without an SDK in the process every span is a no-op. Content of
messages is left out unless it is enabled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import Token
from typing import TYPE_CHECKING, Any, Final

from holdfast.kernel.call_admission import Proceed
from holdfast.kernel.errors import ConfigError, Failure, classify
from holdfast.kernel.hook_context import Context as HookContext
from holdfast.kernel.messages import ToolCall, encode
from holdfast.kernel.model import Model, Request
from holdfast.kernel.tool import Values
from holdfast.observe.observer import ChatObserver, ModelCallOutcome, Observer, Stretch

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, Tracer, TracerProvider

OTEL_PROVIDERS: Final[Mapping[str, str]] = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Names of providers in the conventions, where they differ from ours."""
OTEL_FINISH_REASONS: Final[Mapping[str, str]] = {"tool_calls": "tool_call"}
"""Finish reasons in the conventions, where they differ from ours."""


class Tracing(Observer):
    """Observer that records turns, model calls and tool calls as spans."""

    def __init__(
        self,
        redact: Callable[[str], str],
        *,
        content: bool = False,
        provider: TracerProvider | None = None,
    ) -> None:
        """`content` includes messages. Without `provider`, the one of the process is used."""
        try:
            from opentelemetry import trace
        except ImportError:
            raise ConfigError(
                "traces need OpenTelemetry: install holdfast[otel], or disable traces"
            ) from None
        self._tracer = trace.get_tracer("holdfast", tracer_provider=provider)
        self._content = redact if content else None

    def drives(self, stretch: Stretch) -> ChatObserver:
        return _Traced(self._tracer, stretch, self._content)

    def names(self, stretch: Stretch) -> ChatObserver:
        return _Traced(self._tracer, stretch, self._content, turns=False)


class _Traced(ChatObserver):
    def __init__(
        self,
        tracer: Tracer,
        stretch: Stretch,
        content: Callable[[str], str] | None,
        *,
        turns: bool = True,
    ) -> None:
        """Without `turns`, each model call is a separate trace."""
        from opentelemetry import context, trace

        self._tracer, self._stretch, self._content = tracer, stretch, content
        self._api, self._contexts = trace, context
        self._turns = turns
        self._turn: Span | None = None
        # A turn is a trace of its own, unrelated to whatever started the worker.
        self._above: Context = context.Context()
        self._model_call: tuple[Span, Token[Any]] | None = None
        self.around = (self._call,)

    # --- a turn ---

    def begins(self) -> None:
        self._below()

    def _below(self) -> Context:
        """The context of the turn's span, which is started on first use."""
        if not self._turns:
            return self._above
        if self._turn is None:
            stretch = self._stretch
            self._turn = self._start(
                f"invoke_agent {stretch.agent}", self._api.SpanKind.INTERNAL, self._above,
                {
                    "gen_ai.operation.name": "invoke_agent",
                    "gen_ai.agent.name": stretch.agent,
                    "gen_ai.conversation.id": stretch.chat,
                    "holdfast.worker.id": stretch.worker,
                    "holdfast.epoch": stretch.epoch,
                },
            )  # fmt: skip
        return self._api.set_span_in_context(self._turn, self._above)

    def turned(self, reason: str, failure: Failure | None = None) -> None:
        self._end_turn(reason, failure)

    def ends(self) -> None:
        self._end_turn("handed_over")

    def _end_turn(self, reason: str, failure: Failure | None = None) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        turn.set_attribute("holdfast.turn.end", reason)
        if failure is not None:
            self._fail(turn, failure.kind, failure.message)
        turn.end()

    # --- a model call ---

    def asks(self, model: Model, request: Request) -> Model:
        provider, _, name = model.name.partition(":")
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": OTEL_PROVIDERS.get(provider, provider),
            "gen_ai.request.model": name or provider,
            "gen_ai.request.stream": True,
            "gen_ai.conversation.id": self._stretch.chat,
            "holdfast.attempt": self._stretch.attempt(),
            **_settings(request),
        }
        if self._content is not None:
            attributes["gen_ai.system_instructions"] = self._encoded(request.system)
            attributes["gen_ai.input.messages"] = self._encoded(request.messages)
        kind, below = self._api.SpanKind.CLIENT, self._below()
        span = self._start(f"chat {name or provider}", kind, below, attributes)
        # Current during the call, so that spans of an HTTP client become its children.
        token = self._contexts.attach(self._api.set_span_in_context(span, below))
        self._model_call = span, token
        return model

    def answered(self, outcome: ModelCallOutcome) -> None:
        if self._model_call is None:
            return
        (span, token), self._model_call = self._model_call, None
        self._contexts.detach(token)
        span.set_attribute(
            "gen_ai.response.model", outcome.model.partition(":")[2] or outcome.model
        )
        for name, value in _facts(outcome).items():
            span.set_attribute(name, value)
        if self._content is not None and outcome.message is not None:
            span.set_attribute("gen_ai.output.messages", self._encoded([outcome.message()]))
        if outcome.error is not None:
            self._fail_by(span, outcome.error)
        span.end()

    # --- a tool call ---

    async def _call(
        self, context: HookContext, call: ToolCall, values: Values, proceed: Proceed
    ) -> object:
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.tool,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
            "gen_ai.conversation.id": self._stretch.chat,
        }
        if self._content is not None:
            attributes["gen_ai.tool.call.arguments"] = self._content(call.arguments)
        kind, below = self._api.SpanKind.INTERNAL, self._below()
        span = self._start(f"execute_tool {call.tool}", kind, below, attributes)
        token = self._contexts.attach(self._api.set_span_in_context(span, below))
        try:
            value = await proceed()
        except BaseException as error:
            self._fail_by(span, error)
            raise
        finally:
            self._contexts.detach(token)
            span.end()
        return value

    # --- spans ---

    def _start(
        self, name: str, kind: SpanKind, below: Context, attributes: Mapping[str, Any]
    ) -> Span:
        return self._tracer.start_span(name, below, kind, attributes)

    def _fail(self, span: Span, kind: str, message: str = "") -> None:
        span.set_attribute("error.type", kind)
        span.set_status(self._api.StatusCode.ERROR, message or None)

    def _fail_by(self, span: Span, error: BaseException) -> None:
        if not isinstance(error, Exception):
            self._fail(span, "cancelled")
            return
        kind = classify(error).kind
        self._fail(span, type(error).__name__ if kind in ("internal", "unknown") else kind)

    def _encoded(self, value: object) -> str:
        assert self._content is not None
        return self._content(encode(value).decode())


def _settings(request: Request) -> dict[str, Any]:
    settings = request.settings
    attributes = {
        "gen_ai.request.max_tokens": settings.max_output_tokens,
        "gen_ai.request.temperature": settings.temperature,
        "gen_ai.request.top_p": settings.top_p,
        "gen_ai.request.top_k": settings.top_k,
        "gen_ai.request.frequency_penalty": settings.frequency_penalty,
        "gen_ai.request.presence_penalty": settings.presence_penalty,
        "gen_ai.output.type": None if request.output is None else "json",
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _facts(outcome: ModelCallOutcome) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if outcome.finish is not None:
        facts["gen_ai.response.finish_reasons"] = (
            OTEL_FINISH_REASONS.get(outcome.finish, outcome.finish),
        )
    if outcome.first is not None:
        facts["gen_ai.response.time_to_first_chunk"] = outcome.first
    usage = outcome.usage
    if usage is None:
        return facts
    # By the conventions the input includes what came from a cache; ours does not.
    facts["gen_ai.usage.input_tokens"] = usage.input + usage.cache_read + usage.cache_write
    facts["gen_ai.usage.output_tokens"] = usage.output
    if usage.cache_read:
        facts["gen_ai.usage.cache_read.input_tokens"] = usage.cache_read
    if usage.cache_write:
        facts["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write
    if usage.reasoning:
        facts["gen_ai.usage.reasoning.output_tokens"] = usage.reasoning
    return facts
