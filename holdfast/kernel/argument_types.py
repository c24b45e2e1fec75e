"""Arguments of agents and runs, for type checkers: never imported when a program runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic

from typing_extensions import TypedDict

from holdfast.kernel.call_admission import Eager, Gate, Middleware
from holdfast.kernel.instructions import Instructions
from holdfast.kernel.limits import Limits
from holdfast.kernel.messages import Message
from holdfast.kernel.model import Effort, Model, ProviderTool, Settings
from holdfast.kernel.observer import Observer
from holdfast.kernel.policy import Policy
from holdfast.kernel.ports import Ports
from holdfast.kernel.prepare import Active, Project
from holdfast.kernel.stop_guard import Guard
from holdfast.kernel.tool import Tool, ToolContext
from holdfast.kernel.type_parameters import HookDepsT


class AgentFields(TypedDict, Generic[HookDepsT], total=False):
    """Fields of an agent that do not determine its types, with deps of one type."""

    models: Callable[[str], Model] | None
    instructions: Instructions[HookDepsT]
    tools: Sequence[Tool | Callable[..., Any]]
    provider_tools: Sequence[ProviderTool]
    effort: Effort | None
    settings: Settings
    limits: Limits
    policy: Policy
    gate: Gate[HookDepsT] | None
    guard: Guard[HookDepsT] | None
    middleware: Sequence[Middleware[HookDepsT]]
    active: Active[HookDepsT] | None
    project: Project[HookDepsT] | None
    eager: Eager
    ports: Ports
    name: str
    description: str
    observer: Observer | None


class ChangedFields(AgentFields[HookDepsT], Generic[HookDepsT], total=False):
    """Fields of an agent that can change without its types."""

    model: Model | str


class RunArguments(TypedDict, total=False):
    """Arguments of a run besides its prompt and its deps."""

    history: Sequence[Message]
    resolve: Mapping[str, Any] | None
    compact: bool
    limits: Limits | None
    within: ToolContext[Any] | None
