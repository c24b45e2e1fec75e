"""Traces by OpenTelemetry's conventions for generative AI: a turn, its model calls, its tools.

Only OpenTelemetry's API is used: without an SDK in the process every span is a no-op. Content of
messages is left out unless it is enabled.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import Token
from typing import TYPE_CHECKING, Any, Final

from holdfast.kernel.call_admission import Proceed
from holdfast.kernel.errors import ConfigError, Failure
from holdfast.kernel.hook_context import Context as HookContext
from holdfast.kernel.messages import Message, ToolCall, Usage, encode
from holdfast.kernel.model import Model, Request
from holdfast.kernel.observer import (
    ChatObserver,
    Compaction,
    ModelCallOutcome,
    Observer,
    Stretch,
    ToolCallOutcome,
)
from holdfast.kernel.tool import Values
from holdfast.observe.genai_conventions import (
    conventional,
    definitions,
    error_type,
    finish_reason,
    instructions,
    model_name,
    parsed,
    provider_name,
    request_attributes,
    response,
    usage_attributes,
)
from holdfast.observe.redact import default_redactor

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Tracer, TracerProvider

MAX_REMEMBERED: Final = 1_000
"""Number of chats whose last turn is remembered, for links from the turns of their children."""
NOT_ERRORS: Final = frozenset({"ok", "interrupted", "skipped"})
"""Outcomes of tool calls that are not errors."""


class Tracing(Observer):
    """Observer that records turns, model calls and tool calls as OpenTelemetry spans."""

    def __init__(
        self,
        redact: Callable[[str], str] | None = None,
        *,
        content: bool = False,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        """`content` includes messages, arguments and results, with secrets removed by `redact`: by
        default, values of environment variables that are named like secrets. Without
        `tracer_provider`, the one of the process is used."""
        try:
            from opentelemetry import trace
        except ImportError:
            raise ConfigError(
                "traces need OpenTelemetry: install holdfast[otel], or disable traces"
            ) from None
        self.tracer: Tracer = trace.get_tracer("holdfast", tracer_provider=tracer_provider)
        self.content = (redact or default_redactor()) if content else None
        self._last_turns: OrderedDict[str, SpanContext] = OrderedDict()

    def drives(self, stretch: Stretch) -> ChatObserver:
        return _Traced(self, stretch)

    def names(self, stretch: Stretch) -> ChatObserver:
        return _Traced(self, stretch, turns=False)

    def remember(self, chat: str, turn: SpanContext) -> None:
        """Remember the last turn of a chat."""
        self._last_turns[chat] = turn
        self._last_turns.move_to_end(chat)
        if len(self._last_turns) > MAX_REMEMBERED:
            self._last_turns.popitem(last=False)

    def last_turn(self, chat: str | None) -> SpanContext | None:
        """The last turn of a chat in this process; None if it is not known."""
        return None if chat is None else self._last_turns.get(chat)


class _Traced(ChatObserver):
    def __init__(self, tracing: Tracing, stretch: Stretch, *, turns: bool = True) -> None:
        """Without `turns`, each model call is a separate trace."""
        from opentelemetry import context, trace

        self._tracing, self._stretch, self._content = tracing, stretch, tracing.content
        self._api, self._contexts = trace, context
        self._turns = turns
        self._turn: Span | None = None
        self._turn_token: Token[Any] | None = None
        # A turn of a chat is a trace of its own, unrelated to whatever started the worker.
        self._above: Context = context.Context()
        self._model_call: tuple[Span, Token[Any]] | None = None
        self._tool_calls: dict[str, Span] = {}
        self._tool_errors: dict[str, str] = {}
        """Values of `error.type` for tool calls that raised, by call id."""
        self._usage: Usage | None = None
        self._prompted = False
        self._linked: set[str] = set()
        """Trace contexts of callers that a turn is linked to."""
        self.around = (self._call,)

    # --- a turn ---

    def begins(self) -> None:
        if self._stretch.worker is None:
            self._above = self._contexts.get_current()
        self._enter_turn()

    def _enter_turn(self) -> None:
        """Make the turn's span current in this task: spans of hooks become its children."""
        if self._turns and self._turn_token is None:
            self._turn_token = self._contexts.attach(self._below())

    def _below(self) -> Context:
        """The context of the turn's span, which is started on first use."""
        if not self._turns:
            return self._above
        if self._turn is None:
            self._turn = self._start_turn()
        return self._api.set_span_in_context(self._turn, self._above)

    def _start_turn(self) -> Span:
        stretch = self._stretch
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": stretch.agent,
            "gen_ai.provider.name": provider_name(stretch.model),
            "gen_ai.request.model": model_name(stretch.model),
            **self._conversation(),
        }
        if stretch.worker is not None:
            attributes["holdfast.worker.id"] = stretch.worker
            attributes["holdfast.epoch"] = stretch.epoch
        links: list[Link] = []
        if stretch.parent is not None:
            attributes["holdfast.parent.conversation.id"] = stretch.parent
            parent = self._tracing.last_turn(stretch.parent)
            links = [] if parent is None else [self._api.Link(parent)]
        links += self._links_to_callers()
        kind = self._api.SpanKind.INTERNAL
        span = self._start(f"invoke_agent {stretch.agent}", kind, self._above, attributes, links)
        if stretch.worker is not None:
            self._tracing.remember(stretch.id, span.get_span_context())
        return span

    def _links_to_callers(self) -> Iterator[Link]:
        """Links to the callers that made the chat work since the turn before this one."""
        for trace in self._stretch.causes():
            if trace not in self._linked:
                self._linked.add(trace)
                _, trace_id, span_id, flags = trace.split("-")
                yield self._api.Link(
                    self._api.SpanContext(
                        int(trace_id, 16),
                        int(span_id, 16),
                        is_remote=True,
                        trace_flags=self._api.TraceFlags(int(flags, 16)),
                    )
                )

    def turned(self, reason: str, failure: Failure | None = None) -> None:
        self._end_turn(reason, failure)

    def ends(self) -> None:
        self._end_turn("handed_over")

    def _end_turn(self, reason: str, failure: Failure | None = None) -> None:
        turn, self._turn = self._turn, None
        if self._turn_token is not None:
            self._contexts.detach(self._turn_token)
            self._turn_token = None
        if turn is None:
            return
        for span in self._tool_calls.values():  # abandoned by the run: their end is not observed
            span.end()
        self._tool_calls.clear()
        turn.set_attributes(usage_attributes(self._usage))
        self._usage, self._prompted = None, False
        turn.set_attribute("holdfast.turn.end", reason)
        if failure is not None:
            self._fail(turn, failure.kind, failure.message)
        turn.end()

    # --- a model call ---

    def asks(self, model: Model, request: Request) -> Model:
        self._enter_turn()
        name = model_name(model.name)
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider_name(model.name),
            "gen_ai.request.model": name,
            "gen_ai.request.stream": True,
            "holdfast.attempt": self._stretch.attempt(),
            **self._conversation(),
            **request_attributes(request),
        }
        if self._content is not None:
            attributes["gen_ai.system_instructions"] = self._encoded(instructions(request.system))
            attributes["gen_ai.input.messages"] = self._encoded(conventional(request.messages))
            attributes["gen_ai.tool.definitions"] = self._encoded(definitions(request.tools))
            self._note_prompt(request.messages)
        kind, below = self._api.SpanKind.CLIENT, self._below()
        span = self._start(f"chat {name}", kind, below, attributes)
        # Current during the call, so that spans of an HTTP client become its children.
        token = self._contexts.attach(self._api.set_span_in_context(span, below))
        self._model_call = span, token
        return model

    def _note_prompt(self, messages: Sequence[Message]) -> None:
        """Show the prompt of the turn in the turn's span."""
        prompts = [message for message in messages if message.kind == "prompt"]
        if prompts and self._turn is not None and not self._prompted:
            self._prompted = True
            prompt = self._encoded(conventional(prompts[-1:]))
            self._turn.set_attribute("gen_ai.input.messages", prompt)

    def answered(self, outcome: ModelCallOutcome) -> None:
        if self._model_call is None:
            return
        (span, token), self._model_call = self._model_call, None
        self._contexts.detach(token)
        if outcome.usage is not None:
            self._usage = outcome.usage if self._usage is None else self._usage + outcome.usage
        span.set_attributes(_facts(outcome))
        if self._content is not None and outcome.message is not None:
            answer = self._encoded(conventional([outcome.message()]))
            span.set_attribute("gen_ai.output.messages", answer)
            if self._turn is not None and outcome.why == "answer":
                self._turn.set_attribute("gen_ai.output.messages", answer)
        if outcome.error is not None:
            self._fail_by(span, outcome.error)
        span.end()

    def retries(self, failure: Failure) -> None:
        self._note("holdfast.retry", {"error.type": failure.kind})

    def compacted(self, outcome: Compaction) -> None:
        self._note("holdfast.compaction", {"holdfast.compaction.outcome": outcome})

    # --- a tool call ---

    async def _call(
        self, context: HookContext, call: ToolCall, values: Values, proceed: Proceed
    ) -> object:
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.tool,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
            "gen_ai.agent.name": self._stretch.agent,
            **self._conversation(),
        }
        if self._content is not None:
            attributes["gen_ai.tool.call.arguments"] = self._encoded(parsed(call.arguments))
        kind, below = self._api.SpanKind.INTERNAL, self._below()
        span = self._start(f"execute_tool {call.tool}", kind, below, attributes)
        token = self._contexts.attach(self._api.set_span_in_context(span, below))
        self._tool_calls[call.id] = span
        try:
            return await proceed()
        except Exception as error:
            if self._tool_calls.get(call.id) is span:  # it was not abandoned
                self._tool_errors[call.id] = type(error).__name__
            raise
        finally:
            self._contexts.detach(token)

    def called(self, outcome: ToolCallOutcome) -> None:
        result = outcome.result
        span = self._tool_calls.pop(result.call_id, None)
        if span is None:
            if result.outcome != "ok":
                tool = result.tool if outcome.known else "unknown"
                attributes = {"gen_ai.tool.name": tool, "holdfast.tool.outcome": result.outcome}
                self._note("holdfast.tool_not_run", attributes)
            return
        span.set_attribute("holdfast.tool.outcome", result.outcome)
        if self._content is not None:
            span.set_attribute("gen_ai.tool.call.result", self._encoded(response(result)))
        if result.outcome not in NOT_ERRORS:
            self._fail(span, self._tool_errors.get(result.call_id, result.outcome))
        self._tool_errors.pop(result.call_id, None)
        span.end()

    # --- spans ---

    def _conversation(self) -> dict[str, Any]:
        id = self._stretch.conversation
        return {} if id is None else {"gen_ai.conversation.id": id}

    def _start(
        self,
        name: str,
        kind: SpanKind,
        below: Context,
        attributes: Mapping[str, Any],
        links: Sequence[Link] = (),
    ) -> Span:
        return self._tracing.tracer.start_span(name, below, kind, attributes, links)

    def _note(self, name: str, attributes: Mapping[str, Any]) -> None:
        """Add an event to the span of the turn."""
        if self._turn is not None:
            self._turn.add_event(name, attributes)

    def _fail(self, span: Span, kind: str, message: str = "") -> None:
        span.set_attribute("error.type", kind)
        span.set_status(self._api.StatusCode.ERROR, message or None)

    def _fail_by(self, span: Span, error: BaseException) -> None:
        kind = error_type(error)
        if kind is not None:
            self._fail(span, kind)
        else:
            span.set_attribute("gen_ai.response.finish_reasons", ("interrupted",))

    def _encoded(self, value: object) -> str:
        assert self._content is not None
        return self._content(encode(value).decode())


def _facts(outcome: ModelCallOutcome) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "gen_ai.response.model": model_name(outcome.model),
        "holdfast.purpose": outcome.why,
        **usage_attributes(outcome.usage),
    }
    if outcome.finish is not None:
        facts["gen_ai.response.finish_reasons"] = (finish_reason(outcome.finish),)
    if outcome.first is not None:
        facts["gen_ai.response.time_to_first_chunk"] = outcome.first
    return facts
