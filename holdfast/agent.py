"""The agent: a model, instructions, tools and policies, as one immutable value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias, Union, cast

from msgspec import Struct, structs

from holdfast.kernel.decide import Approved, CallState, Recorded
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.events import Action
from holdfast.kernel.execute import Eager, Gate, Middleware
from holdfast.kernel.loop import Active, Guard, Inbox, Loop, Project
from holdfast.kernel.messages import Message, Prompt, ToolCall, ToolResult, user_message
from holdfast.kernel.model import Block, Effort, Model, Settings
from holdfast.kernel.policy import Policy
from holdfast.kernel.ports import Ports
from holdfast.kernel.results import content, mark_stop, result
from holdfast.kernel.run import Run
from holdfast.kernel.tool import Deny, Tool, tool
from holdfast.kernel.turn import fold_all

Resolution: TypeAlias = Union[Approved, Deny, ToolResult, Any]
"""The answer to an action: an approval, a denial, or a result (anything a tool may return)."""


class Agent(Struct, frozen=True, kw_only=True, dict=True):
    """What answers, and how. Build variants of it with `agent.replace(…)`."""

    model: Model
    instructions: str | Sequence[Block] = ""
    tools: Sequence[Tool | Callable[..., Any]] = ()
    effort: Effort | None = None
    settings: Settings = Settings()
    policy: Policy = Policy()
    gate: Gate | None = None
    guard: Guard | None = None
    middleware: tuple[Middleware, ...] = ()
    active: Active | None = None
    """Names of the tools that may be used now, given the history. Others are not shown or run."""
    project: Project | None = None
    """Changes what is sent to the model; the history stays as it is."""
    eager: Eager = "pure"
    """`all` starts every tool as soon as its call is complete; a stream that fails then is not
    retried."""
    ports: Ports = Ports()

    def __post_init__(self) -> None:
        if isinstance(self.model, str):
            raise ConfigError(
                f"model is the text {self.model!r}: pass a Model, such as "
                "holdfast.testing.ScriptedModel(…)"
            )
        if not callable(getattr(self.model, "stream", None)):
            raise ConfigError(
                f"model is a {type(self.model).__name__}, which has no stream() method"
            )
        if self.eager not in ("pure", "all"):
            raise ConfigError(f"eager is {self.eager!r}: use 'pure' or 'all'")
        tools = tuple(_as_tool(given) for given in self.tools)
        structs.force_setattr(self, "tools", tools)
        _by_name(tools)
        structs.force_setattr(self, "middleware", tuple(self.middleware))

    @cached_property
    def toolset(self) -> Mapping[str, Tool]:
        """The tools by name."""
        return _by_name(cast(tuple[Tool, ...], self.tools))

    @cached_property
    def system(self) -> tuple[Block, ...]:
        """The instructions as the system prefix of every request."""
        return _blocks(self.instructions)

    def replace(self, **changes: Any) -> Agent:
        """The same agent with some things changed."""
        return structs.replace(self, **changes)

    def run(
        self,
        prompt: Prompt | None = None,
        *,
        history: Sequence[Message] = (),
        resolve: Mapping[str, Resolution] | None = None,
        compact: bool = False,
    ) -> Run:
        """Go on with a conversation: from a prompt, from its history, or from what was waited for.

        Without a prompt the history alone says what comes next. `resolve` answers the actions of a
        run that ended with `requires_action`, by call id. `compact` summarizes the history first;
        one that is at rest is only summarized.
        """
        self._refuse_commit_tools()
        history = tuple(history)
        if prompt is None and not history:
            raise ConfigError("there is nothing to do: give a prompt, or a history to go on with")
        inbox = Inbox()
        open_calls = fold_all(history).open
        journal = self._journal(open_calls, resolve or {})
        loop = Loop(
            self,
            history,
            inbox,
            prompt=None if prompt is None else user_message(prompt),
            journal=journal,
            compaction="person" if compact else None,
        )
        return Run(loop, inbox, self.policy.buffer)

    def _journal(
        self, open_calls: Sequence[ToolCall], resolve: Mapping[str, Resolution]
    ) -> dict[str, CallState]:
        calls = {call.id: call for call in open_calls}
        for call_id in resolve:
            if call_id not in calls:
                known = ", ".join(calls) or "none"
                raise ConfigError(f"no call {call_id!r} waits for anything. Waiting: {known}")
        return {call_id: self._state(calls[call_id], given) for call_id, given in resolve.items()}

    def _state(self, call: ToolCall, given: Resolution) -> CallState:
        if isinstance(given, Approved):
            return given
        if isinstance(given, Deny):
            return Recorded(result(call, "refused", f"A person said no: {given.reason}"))
        if isinstance(given, ToolResult):
            made = structs.replace(given, call_id=call.id, tool=call.tool)
        else:
            made = ToolResult(call.id, call.tool, content(given))
        known = self.toolset.get(call.tool)
        return Recorded(mark_stop(made, known) if known is not None else made)

    def _refuse_commit_tools(self) -> None:
        names = [tool.name for tool in self.toolset.values() if tool.effect == "commit"]
        if names:
            raise ConfigError(
                f"{', '.join(names)}: a tool with effect 'commit' needs a durable host, "
                "and this run is in memory"
            )


def approve(action: Action, arguments: Mapping[str, object] | None = None) -> Approved:
    """Agree to exactly what an action shows, or to the same call with other arguments."""
    return Approved(action.digest, arguments)


def _as_tool(given: Tool | Callable[..., Any]) -> Tool:
    if isinstance(given, Tool):
        return given
    if not callable(given):
        raise ConfigError(f"{given!r} is no tool: use @tool on a function, or make a Tool")
    schema = getattr(given, "schema", None)
    if schema is None:
        return tool(given)
    return Tool(
        name=getattr(given, "name", type(given).__name__),
        description=getattr(given, "description", "") or "",
        schema=schema,
        function=given,
        effect=getattr(given, "effect", "once"),
    )


def _by_name(tools: Iterable[Tool]) -> Mapping[str, Tool]:
    named: dict[str, Tool] = {}
    for one in tools:
        if one.name in named:
            raise ConfigError(f"two tools are named {one.name!r}: rename one")
        named[one.name] = one
    return named


def _blocks(instructions: str | Sequence[Block]) -> tuple[Block, ...]:
    if isinstance(instructions, str):
        return (Block(instructions, cache=True),) if instructions else ()
    return tuple(instructions)
