"""The agent: a model, instructions, tools and policies, as one immutable value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from itertools import chain
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    overload,
)

from msgspec import Struct, structs

from holdfast.blocking import SyncRun, result_of, value_of
from holdfast.kernel.agent_deps import check_deps, check_deps_type, check_uses
from holdfast.kernel.agent_tool import OnAction, agent_tool, as_child, team_of
from holdfast.kernel.attribute_hints import answer_foreign_attributes
from holdfast.kernel.call_account import CallAccount
from holdfast.kernel.call_admission import Eager, Gate, Middleware
from holdfast.kernel.decide import Approved, CallState, Recorded
from holdfast.kernel.entry_point import EntryMeta, entry_point
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.events import Action
from holdfast.kernel.handoff import agent_after
from holdfast.kernel.history import History
from holdfast.kernel.inbox import Inbox
from holdfast.kernel.instructions import DynamicBlock, Instructions, instruction_blocks
from holdfast.kernel.keywords import check_keywords
from holdfast.kernel.limits import UNLIMITED, Limits
from holdfast.kernel.loop import Loop
from holdfast.kernel.messages import Message, Prompt, ToolCall, ToolResult, user_message
from holdfast.kernel.model import (
    Block,
    Effort,
    Model,
    ProviderTool,
    Settings,
    ToolSpec,
    check_effort,
    check_model,
    check_priced,
    check_usable,
    is_native,
)
from holdfast.kernel.model_context import Trim, estimate_text
from holdfast.kernel.named_model import named_model
from holdfast.kernel.observer import Observer
from holdfast.kernel.output import Output
from holdfast.kernel.output_check import OutputCheck
from holdfast.kernel.override import overridden, overridden_deps, override
from holdfast.kernel.policy import Policy
from holdfast.kernel.ports import Ports
from holdfast.kernel.prepare import Active, Project, model_of, trim_of
from holdfast.kernel.result import RunResult
from holdfast.kernel.run import Run
from holdfast.kernel.schema import BadArguments
from holdfast.kernel.stop_guard import Guard
from holdfast.kernel.terminal import terminal_chat
from holdfast.kernel.tool import TOOL_PROPERTIES, Deny, Tool, ToolContext, tool
from holdfast.kernel.tool_results import Unencodable, mark_stop, result, result_from_value
from holdfast.kernel.turn import Turn
from holdfast.kernel.type_parameters import DepsT, OutputT

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from holdfast.kernel.argument_types import AgentFields, ChangedFields, RunArguments

D = TypeVar("D")
T = TypeVar("T")

_KINDS: Final = (
    ("settings", Settings),
    ("limits", Limits),
    ("policy", Policy),
    ("ports", Ports),
)
SHOWN_TOOLS: Final = 5
"""Number of tools that the `repr` of an agent names."""
Resolution: TypeAlias = Union[Approved, Deny, ToolResult, Any]
"""Answer to an action: an approval, a denial, or a result (anything a tool may return)."""


class _Positional(Struct, metaclass=EntryMeta, frozen=True):
    """The fields of an agent that need no name: `Agent("anthropic:…")`."""

    model: Model | str
    """The model, or its name as `provider:model`; a name is resolved when the agent is built."""


@answer_foreign_attributes
class Agent(_Positional, Generic[DepsT, OutputT], frozen=True, kw_only=True, dict=True):
    """An agent: model, instructions, tools and policy. Build variants with `agent.replace(…)`.

    `Agent[Deps, Output]` is its type: of the deps that it takes, and of its final answer.
    """

    models: Callable[[str], Model] | None = None
    """Resolves a model's name: this one's, and those that chats choose. None: `holdfast.model`,
    configured by the environment."""
    instructions: Instructions[DepsT] = ""
    """System prefix of every request: text, functions of the context, or a list of these. Functions
    are called once in each turn, and what they return is part of the history."""
    tools: Sequence[Tool | Callable[..., Any]] = ()
    """Tools that the model may call."""
    provider_tools: Sequence[ProviderTool] = ()
    """Tools that the provider runs. They are in every request, regardless of `active`."""
    output: Any = None
    """Required form of the final answer: a type, or a JSON schema as a dict. None: any text."""
    deps_type: type[DepsT] | None = None
    """Type of the deps, which tools and hooks have as `context.deps`. None: the agent has none."""
    effort: Effort | None = None
    """Reasoning effort of the model. None leaves it to the provider."""
    settings: Settings = Settings()
    limits: Limits = Limits(steps=100)
    """Limits of one turn: of what follows one message of a person."""
    policy: Policy = Policy()
    gate: Gate[DepsT] | None = None
    """Hook before each tool call: may deny it or rewrite its arguments."""
    validate: OutputCheck[DepsT, Any] | None = None
    """Hook that checks the final answer, a value of the output type or text: raises `Rejected` if
    the model is to answer again."""
    guard: Guard[DepsT] | None = None
    """Hook before a run stops: may let it continue, or end it with an error."""
    middleware: Sequence[Middleware[DepsT]] = ()
    """Hooks around the run of each tool call, the outermost first."""
    active: Active[DepsT] | None = None
    """Function of the history that returns the names of the tools available now. None: all."""
    project: Project[DepsT] | None = None
    """Function that changes the messages sent to the model; the history stays unchanged."""
    eager: Eager = "pure"
    """Which calls start while the answer is still streamed. With `all`, a stream that fails after
    a call with an effect started is not retried."""
    ports: Ports = Ports()
    name: str = "agent"
    """Name under which a durable host knows the agent."""
    description: str = ""
    """Purpose of the agent, for models that may give it a task, and for people."""
    observer: Observer | None = None
    """Observer of this agent, in memory and in durable chats: traces, metrics, recordings."""

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            model: Model | str,
            *,
            output: type[OutputT] | None = None,
            deps_type: type[DepsT] | None = None,
            validate: OutputCheck[DepsT, OutputT] | None = None,
            **fields: Unpack[AgentFields[DepsT]],
        ) -> None: ...

        @overload  # a union or a JSON schema, whose value has no type that can be derived
        def __init__(
            self: Agent[None, Any],
            model: Model | str,
            *,
            output: object,
            deps_type: None = None,
            validate: OutputCheck[None, Any] | None = None,
            **fields: Unpack[AgentFields[None]],
        ) -> None: ...

        @overload
        def __init__(
            self: Agent[D, Any],
            model: Model | str,
            *,
            output: object,
            deps_type: type[D],
            validate: OutputCheck[D, Any] | None = None,
            **fields: Unpack[AgentFields[D]],
        ) -> None: ...

        def __init__(self, model: Any, **fields: Any) -> None: ...

    def __post_init__(self) -> None:
        if not isinstance(self.description, str):
            raise ConfigError(f"description is {self.description!r}: use text")
        for name in ("models", "gate", "validate", "guard", "active", "project"):
            if not (getattr(self, name) is None or callable(getattr(self, name))):
                raise ConfigError(f"{name} is {getattr(self, name)!r}: use a function, or None")
        named = self.models or named_model
        model = named(self.model) if isinstance(self.model, str) else self.model
        check_model(model)
        if self.eager not in get_args(Eager):
            raise ConfigError(f"eager is {self.eager!r}: use 'pure' or 'all'")
        check_effort(self.effort)
        if not isinstance(self.description, str):
            raise ConfigError(f"description is {self.description!r}: use text")
        for name, kind in _KINDS:
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(f"{name} is {getattr(self, name)!r}: use {kind.__name__}(…)")
        self._check_prices(self.limits, model)
        if not isinstance(self.observer, Observer | None):
            raise ConfigError(f"observer is {self.observer!r}: use an Observer, or None")
        middleware: tuple[Middleware, ...] = _several("middleware", self.middleware)
        for one in middleware:
            if not callable(one):
                raise ConfigError(f"{one!r} is not a middleware: use an async function")
        tools = tuple(_as_tool(given) for given in _several("tools", self.tools))
        toolset = _by_name(tools)
        provided = _provided(_several("provider_tools", self.provider_tools), toolset)
        _check_tool_choice(self.settings, toolset, provided)
        # Built now, so that errors in them are raised here.
        _ = [tool.spec for tool in toolset.values()], self.form
        check_deps_type(self.deps_type)
        structs.force_setattr(self, "model", model)
        # Copies: the caller may still change what it passed.
        structs.force_setattr(self, "provider_tools", provided)
        structs.force_setattr(self, "tools", tools)
        structs.force_setattr(self, "middleware", middleware)
        given, blocks = self.instructions, instruction_blocks(self.instructions)
        structs.force_setattr(self, "instructions", given if isinstance(given, str) else blocks)
        check_uses(self)

    def __repr__(self) -> str:
        names = [tool.name for tool in cast(tuple[Tool, ...], self.tools)]
        more = f" and {len(names) - SHOWN_TOOLS} more" if len(names) > SHOWN_TOOLS else ""
        tools = f" tools={', '.join(names[:SHOWN_TOOLS])}{more}" if names else ""
        return f"<Agent {self.name} model={model_of(self).name}{tools}>"

    def _check_prices(self, limits: Limits, model: Model) -> None:
        """Refuse a limit of cost that would not count some of the calls."""
        if limits.cost is not None:
            check_priced(model)
            if self.policy.context.model is not None:
                check_priced(self.policy.context.model)

    def _check_prices_of_tools(self) -> None:
        """Check agents that run within calls. In a durable chat they have turns of their own."""
        if self.limits.cost is None:
            return
        for one in self.toolset.values():
            inner = overridden(one.agents.get(one.runs)) if one.runs is not None else None
            if inner is not None:
                inner._check_prices(self.limits, model_of(inner))

    @cached_property
    def toolset(self) -> Mapping[str, Tool]:
        """The tools by name."""
        return _by_name(cast(tuple[Tool, ...], self.tools))

    @cached_property
    def team(self) -> Mapping[str, Agent[Any, Any]]:
        """This agent and all that it can reach by its tools, by name."""
        return team_of(self)

    @cached_property
    def durable(self) -> Agent[DepsT, OutputT]:
        """The agent in a durable chat: an agent that it has as a tool is a child chat."""
        if not any(tool.runs for tool in self.toolset.values()):
            return self
        return self.replace(tools=[as_child(t) if t.runs else t for t in self.toolset.values()])

    @cached_property
    def trim(self) -> Trim:
        """Limits by which bulky tool results are shortened."""
        return trim_of(self)

    @cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Declarations of the tools as they are sent to a model."""
        return tuple(tool.spec for tool in self.toolset.values())

    @cached_property
    def form(self) -> Output | None:
        """Required form of the final answer; None for any text."""
        return None if self.output is None else Output(self.output)

    @cached_property
    def cache_key(self) -> str:
        """Key that is equal for all requests with the same prefix: instructions and tools. What
        functions return does not change it."""
        from hashlib import blake2b  # brings OpenSSL: not before an agent runs

        begins = repr((self.system, self.specs, self.provider_tools))
        return blake2b(begins.encode(errors="backslashreplace"), digest_size=16).hexdigest()

    @cached_property
    def prefix(self) -> tuple[Block | DynamicBlock, ...]:
        """The blocks of the instructions."""
        return instruction_blocks(self.instructions)

    @cached_property
    def system(self) -> tuple[Block, ...]:
        """The blocks of the instructions that are the same in every request."""
        return tuple(block for block in self.prefix if isinstance(block, Block))

    @cached_property
    def dynamic(self) -> tuple[DynamicBlock, ...]:
        """The blocks of the instructions that functions return."""
        return tuple(block for block in self.prefix if isinstance(block, DynamicBlock))

    @cached_property
    def overhead(self) -> int:
        """Estimated tokens of the prefix of every request: text of the instructions, and tools."""
        described = [(spec.description, str(spec.schema)) for spec in self.specs]
        texts = [block.text for block in self.system]
        return sum(map(estimate_text, chain(texts, *described)))

    @overload
    def replace(
        self,
        *,
        validate: OutputCheck[DepsT, OutputT] | None = ...,
        **changes: Unpack[ChangedFields[DepsT]],
    ) -> Agent[DepsT, OutputT]: ...

    @overload
    def replace(
        self,
        *,
        output: type[T],
        validate: OutputCheck[DepsT, T] | None = ...,
        **changes: Unpack[ChangedFields[DepsT]],
    ) -> Agent[DepsT, T]: ...

    @overload
    def replace(
        self,
        *,
        output: None,
        validate: OutputCheck[DepsT, str] | None = ...,
        **changes: Unpack[ChangedFields[DepsT]],
    ) -> Agent[DepsT, str]: ...

    @overload
    def replace(
        self,
        *,
        deps_type: type[D],
        validate: OutputCheck[D, OutputT] | None = ...,
        **changes: Unpack[ChangedFields[D]],
    ) -> Agent[D, OutputT]: ...

    @overload
    def replace(
        self,
        *,
        output: object,
        deps_type: object = ...,
        validate: OutputCheck[Any, Any] | None = ...,
        **changes: Unpack[ChangedFields[Any]],
    ) -> Agent[Any, Any]: ...

    @entry_point("agent.replace")
    def replace(self, **changes: Any) -> Any:
        """A copy of the agent with some fields changed."""
        return self._changed(changes)

    def _changed(self, changes: Mapping[str, Any]) -> Agent[Any, Any]:
        check_keywords("Agent", changes, self.__struct_fields__)
        return structs.replace(self, **changes)

    @entry_point("agent.as_tool")
    def as_tool(
        self,
        name: str | None = None,
        description: str | None = None,
        *,
        timeout: float | None = None,
        on_action: OnAction | None = None,
    ) -> Tool:
        """The agent as a tool of another: a call runs it on a prompt and returns its answer.

        Name and description are the agent's own by default. In memory, the inner run counts for the
        result and the limits of the outer run, and ends at them. `on_action` answers approvals and
        questions of the inner agent, as `resolve` does; without it, they are denied. In a durable
        chat, a call spawns a child chat, which asks people itself.
        """
        return agent_tool(
            self, name=name, description=description, timeout=timeout, on_action=on_action
        )

    @overload
    def override(
        self,
        *,
        deps: DepsT | None = None,
        validate: OutputCheck[DepsT, OutputT] | None = ...,
        **changes: Unpack[ChangedFields[DepsT]],
    ) -> AbstractContextManager[Agent[DepsT, OutputT]]: ...

    @overload
    def override(
        self,
        *,
        deps: object = None,
        output: object,
        deps_type: object = ...,
        validate: OutputCheck[Any, Any] | None = ...,
        **changes: Unpack[ChangedFields[Any]],
    ) -> AbstractContextManager[Agent[Any, Any]]: ...

    @overload
    def override(
        self,
        *,
        deps: object = None,
        deps_type: object,
        validate: OutputCheck[Any, Any] | None = ...,
        **changes: Unpack[ChangedFields[Any]],
    ) -> AbstractContextManager[Agent[Any, Any]]: ...

    @entry_point("agent.override")
    def override(self, *, deps: Any = None, **changes: Any) -> AbstractContextManager[Any]:
        """Within the `with` block, use a changed copy wherever this object is used: for tests.

        `deps` are used instead of those that a run is given, or that a host's provider returns.
        It reaches runs, and hosts that are opened in the block, of this task, its threads and the
        tasks that it starts. `replace` of the agent in the block is not affected.
        """
        substitute = overridden(self)._changed(changes)
        if deps is not None:
            check_deps(substitute, substitute.team, deps)
        return override(self, substitute, deps)

    @overload
    def run(
        self: Agent[None, OutputT],
        prompt: Prompt | None = None,
        *,
        deps: None = None,
        **arguments: Unpack[RunArguments],
    ) -> Run[OutputT]: ...

    @overload
    def run(
        self, prompt: Prompt | None = None, *, deps: DepsT, **arguments: Unpack[RunArguments]
    ) -> Run[OutputT]: ...

    @entry_point("agent.run")
    def run(
        self,
        prompt: Prompt | None = None,
        *,
        deps: Any = None,
        history: Sequence[Message] = (),
        resolve: Mapping[str, Resolution] | None = None,
        compact: bool = False,
        limits: Limits | None = None,
        within: ToolContext[Any] | None = None,
    ) -> Run[OutputT]:
        """Run the agent on a prompt, or continue a history.

        Without a prompt the history alone decides the next step. `deps` is what tools and hooks
        have as `context.deps`. `resolve` answers, by call id, the actions of a run that ended with
        `requires_action`. `compact` summarizes the history first; if nothing else is to be done,
        the run ends after that. `limits` are those of the whole run; each takes precedence over the
        agent's limit of a turn. `within` is the context of the tool call that makes this run: the
        run counts for the limits of the outer run, and ends at them, and when the call is stopped.
        """
        return self._made_run(prompt, deps, history, resolve, compact, limits, within)

    def _made_run(
        self,
        prompt: Prompt | None,
        deps: Any,
        history: Sequence[Message],
        resolve: Mapping[str, Resolution] | None,
        compact: bool,
        limits: Limits | None,
        within: ToolContext[Any] | None,
    ) -> Run[Any]:
        agent, deps = overridden(self), overridden_deps(self, deps)
        team = {name: overridden(member) for name, member in agent.team.items()}
        if limits is not None:
            team = {name: member._within(limits) for name, member in team.items()}
        check_deps(agent, team, deps)
        messages = _checked(history)
        name = agent_after(messages) if len(team) > 1 else None
        current = team.get(name or agent.name, agent)
        return current._run_in(
            team,
            prompt,
            messages,
            resolve or {},
            compact,
            deps,
            limits or UNLIMITED,
            _account_of(within),
        )

    def _within(self, limits: Limits) -> Agent[Any, Any]:
        """The agent in a run with these limits."""
        if not isinstance(limits, Limits):
            raise ConfigError(f"limits is {limits!r}: use Limits(…)")
        self._check_prices(limits, model_of(self))
        return structs.replace(self, limits=self.limits.without(limits))

    def _run_in(
        self,
        team: Mapping[str, Agent[Any, Any]],
        prompt: Prompt | None,
        history: Sequence[Message],
        answers: Mapping[str, Resolution],
        compact: bool,
        deps: Any,
        limits: Limits,
        outer: CallAccount | None,
    ) -> Run[Any]:
        """Run the agent as a member of a team, any of which may take the conversation over."""
        for member in team.values():
            check_usable(member.model)
            _refuse_commit_tools(member, team)
        self._check_prices_of_tools()
        committed = History(tuple(history), self.trim)
        if prompt is None and not committed:
            raise ConfigError("there is nothing to do: pass a prompt, or a history to continue")
        if prompt is not None and any(isinstance(one, Approved) for one in answers.values()):
            raise ConfigError(
                "a prompt skips all open calls, including approved ones: resolve first, and pass "
                "the prompt to the next run"
            )
        if compact:
            _check_compaction(committed.turn, answers)
        inbox = Inbox()
        loop = Loop(
            self,
            committed,
            inbox,
            prompt=None if prompt is None else user_message(prompt),
            journal=self._journal(committed.turn.open, answers),
            compaction="person" if compact else None,
            team=team,
            deps=deps,
            limits=limits,
            outer=outer,
        )
        return Run(loop, inbox, self.policy.buffer)

    @overload
    def run_sync(
        self: Agent[None, OutputT],
        prompt: Prompt | None = None,
        *,
        deps: None = None,
        **arguments: Unpack[RunArguments],
    ) -> RunResult[OutputT]: ...

    @overload
    def run_sync(
        self, prompt: Prompt | None = None, *, deps: DepsT, **arguments: Unpack[RunArguments]
    ) -> RunResult[OutputT]: ...

    @entry_point("agent.run_sync")
    def run_sync(
        self,
        prompt: Prompt | None = None,
        *,
        deps: Any = None,
        history: Sequence[Message] = (),
        resolve: Mapping[str, Resolution] | None = None,
        compact: bool = False,
        limits: Limits | None = None,
        within: ToolContext[Any] | None = None,
    ) -> RunResult[OutputT]:
        """Run the agent to the end, without `await`: for scripts and notebooks.

        Ctrl-C cancels the run. In an async program it would block the event loop: `await
        agent.run(…)` there.
        """
        return result_of(self._made_run(prompt, deps, history, resolve, compact, limits, within))

    @overload
    def stream_sync(
        self: Agent[None, OutputT],
        prompt: Prompt | None = None,
        *,
        deps: None = None,
        **arguments: Unpack[RunArguments],
    ) -> SyncRun[OutputT]: ...

    @overload
    def stream_sync(
        self, prompt: Prompt | None = None, *, deps: DepsT, **arguments: Unpack[RunArguments]
    ) -> SyncRun[OutputT]: ...

    @entry_point("agent.stream_sync")
    def stream_sync(
        self,
        prompt: Prompt | None = None,
        *,
        deps: Any = None,
        history: Sequence[Message] = (),
        resolve: Mapping[str, Resolution] | None = None,
        compact: bool = False,
        limits: Limits | None = None,
        within: ToolContext[Any] | None = None,
    ) -> SyncRun[OutputT]:
        """Run the agent and iterate over its events, without `await`: for scripts and notebooks.

        The `result` of the returned iterator is available after the last event.
        """
        return SyncRun(self._made_run(prompt, deps, history, resolve, compact, limits, within))

    @entry_point("agent.chat")
    async def chat(
        self, *, deps: DepsT | None = None, history: Sequence[Message] = ()
    ) -> tuple[Message, ...]:
        """Chat with the agent in the terminal; returns the history of the chat at the end.

        It is the editor of `holdfast chat`, with its commands: the user may type during answers,
        Ctrl-C interrupts the answer, Ctrl-D ends the chat, and approvals are asked. Nothing is
        stored. Without a terminal, each line of standard input is a prompt or an answer.
        """
        agent, deps = overridden(self), overridden_deps(self, deps)
        check_deps(agent, agent.team, deps)
        return await terminal_chat()(agent, _checked(history), deps)

    @entry_point("agent.chat_sync")
    def chat_sync(
        self, *, deps: DepsT | None = None, history: Sequence[Message] = ()
    ) -> tuple[Message, ...]:
        """Chat with the agent in the terminal, without `await`: see `chat`."""
        return value_of(
            partial(self.chat, deps=deps, history=history), instead="await agent.chat(…)"
        )

    def _journal(
        self, open_calls: Sequence[ToolCall], resolve: Mapping[str, Resolution]
    ) -> dict[str, CallState]:
        calls = {call.id: call for call in open_calls}
        for call_id in resolve:
            if call_id not in calls:
                waiting = ", ".join(calls) or "none"
                raise ConfigError(f"no call {call_id!r} is waiting. Waiting: {waiting}")
        return {call_id: self.answer(calls[call_id], value) for call_id, value in resolve.items()}

    def answer(self, call: ToolCall, value: Resolution) -> Approved | Recorded:
        """Convert the answer to a waiting call to the state that is recorded."""
        known = self.toolset.get(call.tool)
        ours = known is not None and known.action is None
        if isinstance(value, Approved):
            if known is None:
                raise ConfigError(
                    f"{self.name} has no tool {call.tool!r} any more, so the call cannot run: "
                    "use Deny(reason), or add the tool again"
                )
            if not ours:
                raise ConfigError(f"{call.tool} is not run here: pass its result, not an approval")
            if value.arguments is not None and known is not None:
                _check_change(call, known, value.arguments)
            return value
        if isinstance(value, Deny):
            return Recorded(result(call, "refused", f"Denied by a person: {value.reason}"))
        if ours and not isinstance(value, ToolResult):
            # As a result, a plain "yes" would tell the model that the tool has run.
            raise ConfigError(
                f"{call.tool} waits for an approval, and {value!r:.80} is not one: "
                "use approve(action), or Deny(reason)"
            )
        try:
            outcome = result_from_value(call, value)
        except Unencodable as error:
            raise ConfigError(
                f"the result for {call.id} is {error}: "
                "pass text, parts, or a value that can be encoded as JSON"
            ) from None
        return Recorded(mark_stop(outcome, known) if known is not None else outcome)


def _refuse_commit_tools(agent: Agent, team: Mapping[str, Agent]) -> None:
    tools = agent.toolset.values()
    names = [tool.name for tool in tools if tool.effect == "commit" and not tool.hands_off]
    if names:
        raise ConfigError(
            f"{', '.join(names)}: a tool with effect 'commit' needs a durable host, "
            "and this run is in memory"
        )
    targets = {name for tool in tools if tool.hands_off for name in tool.agents}
    unknown = sorted(targets - team.keys())
    if unknown:
        raise ConfigError(
            f"{agent.name} can hand over to {', '.join(unknown)}, which no agent of this "
            "run has: pass the agent itself instead of its name"
        )


def _check_change(call: ToolCall, tool: Tool, arguments: Mapping[str, object]) -> None:
    """Report invalid changed arguments to the caller rather than to the model."""
    try:
        tool.arguments.check(arguments)
    except BadArguments as error:
        raise ConfigError(f"the changed arguments of {call.id} do not fit: {error}") from None


def _account_of(within: ToolContext[Any] | None) -> CallAccount | None:
    if within is None:
        return None
    if not isinstance(within, ToolContext):
        kind = type(within).__name__
        raise ConfigError(f"within is a {kind}: pass the ToolContext of the call")
    return within._account


def _checked(history: Sequence[Message]) -> tuple[Message, ...]:
    what = "use the history of a result, or load(…)"
    if isinstance(history, (str, bytes)) or not isinstance(history, Iterable):
        raise ConfigError(f"history is a {type(history).__name__}: {what}")
    messages = tuple(history)
    for message in messages:
        if not isinstance(message, Message):
            raise ConfigError(f"the history contains {message!r}: {what}")
    return messages


def _check_compaction(turn: Turn, resolve: Mapping[str, Resolution]) -> None:
    if any(call.id not in resolve for call in turn.open):
        raise ConfigError("calls are still open: resolve them first, then compact")
    if not turn.compactable:
        raise ConfigError("there is nothing to compact: there is no answer since the last summary")


@entry_point("approve")
def approve(action: Action, arguments: Mapping[str, object] | None = None) -> Approved:
    """Approve exactly the call that an action shows, or the same call with other arguments."""
    if not isinstance(action, Action):
        raise ConfigError(f"{action!r:.80} is not an action: use one of result.actions")
    return Approved(action.digest, arguments)


def _several(name: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(f"{name} is {given!r}: use a list, even for one")
    return tuple(given)


def _as_tool(given: Tool | Callable[..., Any]) -> Tool:
    if isinstance(given, Tool):
        return given
    if isinstance(given, type):
        raise ConfigError(f"{given.__name__} is a class: pass an instance of it")
    if isinstance(given, Agent):
        raise ConfigError(f"{given.name} is an agent: use agent.as_tool(), or handoff([agent])")
    if not callable(given):
        raise ConfigError(f"{given!r} is not a tool: use @tool on a function, or make a Tool")
    if not hasattr(given, "schema"):
        return tool(given)
    properties: dict[str, Any] = {key: getattr(given, key, None) for key in TOOL_PROPERTIES}
    return tool(**properties)(given)


def _by_name(tools: Iterable[Tool]) -> Mapping[str, Tool]:
    named: dict[str, Tool] = {}
    for one in tools:
        if one.name in named:
            raise ConfigError(f"two tools are named {one.name!r}: rename one")
        named[one.name] = one
    return MappingProxyType(named)


def _provided(given: tuple[Any, ...], tools: Mapping[str, Tool]) -> tuple[ProviderTool, ...]:
    names = set(tools)
    for one in given:
        if not isinstance(one, ProviderTool):
            raise ConfigError(f"{one!r} is not a provider tool: use ProviderTool(name)")
        if not (isinstance(one.name, str) and one.name):
            raise ConfigError(f"a provider tool is named {one.name!r}: use its name, as text")
        if not (isinstance(one.options, Mapping) and is_native(one.native)):
            raise ConfigError(
                f"{one!r}: use options={{name: value}} and native={{provider: declaration}}"
            )
        if one.name in names:
            raise ConfigError(f"two tools are named {one.name!r}: rename or leave out one")
        names.add(one.name)
    return given


def _check_tool_choice(
    settings: Settings, tools: Mapping[str, Tool], provided: Sequence[ProviderTool]
) -> None:
    if not settings.forces_call:
        return
    names = [*tools, *(one.name for one in provided)]
    if not names:
        raise ConfigError(
            f"tool_choice is {settings.tool_choice!r}, and the agent has no tools: give it tools, "
            "or leave tool_choice out"
        )
    if settings.tool_choice != "required" and settings.tool_choice not in names:
        raise ConfigError(
            f"tool_choice is {settings.tool_choice!r}, and no tool has this name: "
            f"use 'auto', 'none', 'required' or one of {', '.join(names)}"
        )
