"""Tools: functions that a model may call, with their schema, effect and hooks."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from functools import cached_property
from typing import (
    Any,
    Final,
    Generic,
    Literal,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    overload,
)

from msgspec import Struct

from holdfast.kernel.attribute_hints import answer_foreign_attributes
from holdfast.kernel.call_account import CallAccount
from holdfast.kernel.entry_point import entry_point, level_of_caller
from holdfast.kernel.errors import ConfigError, MissingDescription, ToolFailed
from holdfast.kernel.hook_context import NO_CONTEXT, Context
from holdfast.kernel.keywords import check_keywords
from holdfast.kernel.messages import ToolResult, Usage
from holdfast.kernel.model import ToolSpec, is_native
from holdfast.kernel.schema import Arguments, from_function, from_schema
from holdfast.kernel.schema import Values as Values
from holdfast.kernel.type_parameters import ContextDepsT, FunctionT

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

Effect = Literal[
    "pure",  # may be run any number of times
    "idempotent",  # may be run again with the same call id
    "once",  # is not run again if its outcome is unknown
    "commit",  # returns writes that are committed with its result; only in a durable host
]
WaitsFor = Literal["client", "answer", "child"]
OnSteer = Literal["cancel", "finish"]
OnLost = Literal["tell", "ask"]


class Commit(Struct, frozen=True):
    """Return value of a tool with effect `commit`: its result, and the writes committed with it."""

    value: Any
    writes: tuple[Any, ...] = ()


class HandOff(Struct, frozen=True):
    """Write of a `commit` call: from the next step on, another agent continues the conversation."""

    agent: str


class CompletedAwaitable:
    """An awaitable that completes at once; may be dropped without awaiting."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


Children: TypeAlias = Callable[[], Awaitable[Sequence[Mapping[str, Any]]]]
"""Function that reads the chats that a chat has spawned."""


class ToolContext(Context[ContextDepsT]):
    """Context of a tool call, passed to a tool whose first parameter is annotated with this type.

    `ToolContext[Deps]` says of which type the deps are.

    `validate`, `preview` and `approval` hooks can take it in the same way; progress they report is
    ignored.
    """

    __slots__ = ("_account", "_children", "_report", "call_id", "deadline", "workspace")

    def __init__(
        self,
        call_id: str,
        report: Callable[..., Awaitable[None]],
        context: Context[Any] = NO_CONTEXT,
        *,
        deadline: float | None = None,
        children: Children | None = None,
        account: CallAccount | None = None,
        workspace: object = None,
    ) -> None:
        super().__init__(context.info, context.turn, lambda: context.history, context.deps)
        self.call_id = call_id
        """Id of the call; also the idempotency key of a tool whose effect is `idempotent`."""
        self.deadline = deadline
        """Time at which the call will be cancelled, on the event loop's clock; None without one."""
        self.workspace = workspace
        self._children = children
        self._report = report
        self._account = account
        """Usage of the call; None outside of a run."""

    def charge(self, usage: Usage) -> None:
        """Count tokens that the call used, as those of a model call.

        They count for the limits of the turn, of the run, and for the budgets of a durable chat.
        """
        if self._account is not None:
            self._account.charge(usage)

    async def children(self) -> Sequence[Mapping[str, Any]]:
        """The agents that this chat has spawned, oldest first: id, name, title, status, error."""
        if self._children is None:
            raise ToolFailed("there are no child agents here: only a durable chat has them")
        return await self._children()

    def progress(self, text: str = "", data: object = None) -> Awaitable[None]:
        """Report progress to people. Await it in an `async` tool; just call it in others.

        `data`: a JSON value for programs, such as `{"done": 3, "of": 10}`.
        """
        return self._report(text) if data is None else self._report(text, data)


@answer_foreign_attributes
class Tool(Generic[FunctionT]):
    """A tool, made by `@tool` or from a JSON schema. Without a function, the client runs it.

    Calling a tool calls its function, as in a test of it: nothing is checked or approved.

    Properties that may depend on the arguments accept a function of the validated arguments, which
    it gets as a mapping by name.
    """

    @entry_point("Tool")
    def __init__(
        self,
        *,
        name: str,
        description: str = "",
        function: FunctionT | None = None,
        schema: Mapping[str, Any] | None = None,
        effect: Effect = "once",
        action: WaitsFor | None = None,
        parallel: bool | Callable[[Values], bool] | None = None,
        exclusive: bool = False,
        on_steer: OnSteer | None = None,
        on_lost: OnLost = "tell",
        approval: Literal["never", "ask"] | Callable[..., bool | Awaitable[bool]] = "never",
        timeout: float | None = None,
        stop_after: bool | Callable[[ToolResult], bool] = False,
        max_result: int | None = None,
        label: str | None = None,
        describe: Callable[[Values], str] | None = None,
        validate: Callable[..., object] | None = None,
        preview: Callable[..., object] | None = None,
        native: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        pure = effect == "pure"
        self.name = name
        self.description = description
        self.function: Any = function
        self.effect: Effect = effect
        self.action: WaitsFor | None = action or ("client" if function is None else None)
        self.parallel = pure if parallel is None else parallel
        self.exclusive = exclusive
        self.on_steer: OnSteer = on_steer or ("cancel" if pure else "finish")
        self.on_lost: OnLost = on_lost
        self.approval = approval
        self.timeout = timeout
        self.stop_after = stop_after
        self.max_result = max_result
        self.label = label or name
        self.describe = describe
        self.validate = validate
        self.preview = preview
        self.native = native or {}
        self._schema = schema
        self.agents: Mapping[str, Any] = {}
        """Agents that a call may run, or hand the conversation over to, by name. None: the agent is
        only known by its name."""
        self.runs: str | None = None
        """Name of the agent that a call runs, if the tool is an agent."""
        self.hands_off = False
        """Whether a call hands the conversation over."""
        self._check()

    def _check(self) -> None:
        if not _is_name(self.name):
            raise ConfigError(
                f"{self.name!r} cannot be a tool's name: use 1 to 64 letters, digits, '_' or '-'"
            )
        if self.effect not in get_args(Effect):
            known = ", ".join(get_args(Effect))
            raise ConfigError(f"effect of {self.name} is {self.effect!r}: use one of {known}")
        if self.on_steer not in get_args(OnSteer):
            raise ConfigError(f"on_steer of {self.name} is {self.on_steer!r}: use cancel or finish")
        if self.on_lost not in get_args(OnLost):
            raise ConfigError(f"on_lost of {self.name} is {self.on_lost!r}: use tell or ask")
        if self.on_lost == "ask" and self.effect != "once":
            raise ConfigError(
                f"on_lost='ask' only applies to effect='once', and {self.name} is {self.effect}: "
                "leave on_lost out, or set effect='once'"
            )
        if self.approval not in ("never", "ask") and not callable(self.approval):
            raise ConfigError(f"approval of {self.name}: use 'never', 'ask' or a function")
        if self.timeout is not None and not (
            isinstance(self.timeout, (int, float)) and self.timeout > 0
        ):
            raise ConfigError(f"timeout of {self.name} is {self.timeout!r}: use seconds, or None")
        if self.max_result is not None and self.max_result < 256:
            raise ConfigError(
                f"max_result of {self.name} is {self.max_result}: use at least 256 bytes, or None"
            )
        if self.function is None and self._schema is None:
            raise ConfigError(f"{self.name} has neither a function nor a schema: give it one")
        if self.function is not None and self.action is not None:
            raise ConfigError(
                f"{self.name} waits for {self.action}: it is never run, give it no function"
            )
        if not is_native(self.native):
            raise ConfigError(
                f"native of {self.name} is {self.native!r}: use {{provider: declaration}}"
            )

    @cached_property
    def arguments(self) -> Arguments:
        """Schema and validator of the arguments, built on first use."""
        context = self.takes_context  # first: it also finds whether we can read the function
        if self._schema is not None:
            return from_schema(self._schema)
        assert self.function is not None  # _check
        return from_function(self.function, skip_first=context)

    @cached_property
    def takes_context(self) -> bool:
        return self.function is not None and _first_is_context(self.function)

    @cached_property
    def deps_type(self) -> Any:
        """Type of the deps that the function uses, as in `ToolContext[Deps]`; None if unknown."""
        from holdfast.kernel.schema.signature import first_annotation

        if not self.takes_context:
            return None
        assert self.function is not None  # takes_context
        return next(iter(get_args(first_annotation(self.function))), None)

    def ask(self, hook: Callable[..., object], context: ToolContext, values: Values) -> object:
        """Call a hook of this tool, with the context if it takes one."""
        return hook(context, values) if hook in self._want_context else hook(values)

    @cached_property
    def _want_context(self) -> tuple[Callable[..., object], ...]:
        hooks = (self.validate, self.preview, self.approval)
        return tuple(hook for hook in hooks if callable(hook) and _first_is_context(hook))

    @cached_property
    def in_thread(self) -> bool:
        """Whether the function is not `async`: it may block, so it runs in a thread."""
        function = self.function
        return not (
            inspect.iscoroutinefunction(function)
            or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
        )

    @cached_property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.arguments.schema, self.native)

    def __call__(self: Tool[Callable[P, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        if self.function is None:
            raise TypeError(f"{self.name} has no function: the client runs it")
        returned: T = self.function(*args, **kwargs)
        return returned

    def __repr__(self) -> str:
        return f"<Tool {self.name} effect={self.effect}>"


@overload
def tool(function: F, /) -> Tool[F]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
    effect: Effect = "once",
    parallel: bool | Callable[[Values], bool] | None = None,
    exclusive: bool = False,
    on_steer: OnSteer | None = None,
    on_lost: OnLost = "tell",
    approval: Literal["never", "ask"] | Callable[..., bool | Awaitable[bool]] = "never",
    timeout: float | None = None,
    stop_after: bool | Callable[[ToolResult], bool] = False,
    max_result: int | None = None,
    label: str | None = None,
    describe: Callable[[Values], str] | None = None,
    validate: Callable[..., object] | None = None,
    preview: Callable[..., object] | None = None,
    native: Mapping[str, Mapping[str, Any]] | None = None,
) -> Callable[[F], Tool[F]]: ...


@entry_point("tool")
def tool(function: Callable[..., Any] | None = None, /, **properties: Any) -> Any:
    """Decorator that makes a typed function a tool.

    The schema comes from its annotations, the description from its docstring. `properties` are
    those of `Tool`: `@tool(effect="pure", timeout=5)`.
    """

    check_keywords("tool", properties, TOOL_PROPERTIES)

    @entry_point("tool")
    def make(function: Callable[..., Any], /) -> Tool:
        if isinstance(function, str) or not callable(function):
            raise ConfigError(f"{function!r} is not a function: use @tool, or @tool(name=…)")
        if isinstance(function, Tool):
            raise ConfigError(
                f"{function.name} is a tool already: use it, or make another of {function.name}"
                ".function"
            )
        chosen = {key: value for key, value in properties.items() if value is not None}
        chosen.setdefault("name", _name(function))
        if "description" not in chosen:
            chosen["description"] = _description(function, whole="schema" in chosen)
            _warn_if_empty(chosen["description"], chosen["name"])
        return Tool(function=function, **chosen)

    return make if function is None else make(function)


TOOL_PROPERTIES: Final = tuple(
    name for name in inspect.signature(Tool).parameters if name not in ("function", "action")
)
"""Names of the properties that `@tool` takes."""


def _warn_if_empty(description: str, name: str) -> None:
    if not description.strip():
        warnings.warn(
            f"the tool {name} has no description, by which a model decides when to call it: write "
            "a docstring, or use @tool(description=…)",
            MissingDescription,
            stacklevel=level_of_caller(),
        )


_NAME_CHARACTERS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
)


def _is_name(text: str) -> bool:
    return 1 <= len(text) <= 64 and _NAME_CHARACTERS.issuperset(text)


def _name(function: Callable[..., Any]) -> str:
    from holdfast.kernel.schema.signature import attribute_owner

    named = attribute_owner(function, "__name__")
    return str(getattr(named, "__name__", type(named).__name__))


def _description(function: Callable[..., Any], *, whole: bool) -> str:
    """The docstring; unless `whole`, without the section about parameters, which the schema has."""
    from holdfast.kernel.schema import docstring

    return docstring.of(function) if whole else docstring.split(function)[0]


def _first_is_context(function: Callable[..., Any]) -> bool:
    from holdfast.kernel.schema.signature import first_annotation

    annotation = first_annotation(function)
    if isinstance(annotation, str):  # imported for type checkers alone
        return annotation.partition("[")[0].rpartition(".")[2] == "ToolContext"
    return (get_origin(annotation) or annotation) in (Context, ToolContext)


# --- Decisions of a gate ------------------------------------------------------------------------


class Allow(Struct, frozen=True):
    """Decision: run the call."""


class Deny(Struct, frozen=True):
    """Decision of a gate or a person: do not run the call."""

    reason: str = "denied"


class Rewrite(Struct, frozen=True):
    """Decision: run the call with other arguments."""

    arguments: Mapping[str, Any]


Decision: TypeAlias = Union[Allow, Deny, Rewrite, None]
"""Decision of a gate. None allows the call."""
