"""The `@tool` decorator, and what a tool is when nothing is said."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import pytest
from typing_extensions import TypeAliasType

from holdfast import Agent
from holdfast.kernel import tool as module
from holdfast.kernel.errors import ConfigError, MissingDescription
from holdfast.kernel.schema import BadArguments
from holdfast.kernel.tool import Tool, ToolContext, tool
from holdfast.kernel.tool import ToolContext as Renamed
from holdfast.testing import ScriptedModel

Alias = TypeAliasType("Alias", ToolContext)


@tool
async def weather(city: Annotated[str, "where"], days: int = 3) -> str:
    """Tell the weather."""
    return f"{city} {days}"


def test_a_bare_decorator_takes_name_and_description_from_the_function() -> None:
    assert isinstance(weather, Tool)
    assert weather.name == weather.label == "weather"
    assert weather.description == "Tell the weather."
    assert weather.spec.name == "weather"
    assert weather.spec.description == "Tell the weather."


def test_the_spec_shows_the_schema_of_the_arguments() -> None:
    assert weather.arguments.schema["properties"] == {
        "city": {"type": "string", "description": "where"},
        "days": {"type": "integer", "default": 3},
    }
    assert weather.arguments.schema["required"] == ["city"]
    assert weather.spec.schema == weather.arguments.schema


async def call(made: Tool, text: str) -> Any:
    assert made.function is not None
    return await made.function(**made.arguments.parse(text))


@pytest.mark.anyio
async def test_the_function_gets_its_arguments_by_name_and_keeps_its_own_defaults() -> None:
    assert await call(weather, '{"city": "Rome"}') == "Rome 3"
    assert await call(weather, '{"city": "Rome", "days": "5"}') == "Rome 5"


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(BadArguments, match="city: missing"):
        weather.arguments.parse("{}")


def test_what_is_said_wins_over_what_the_function_says() -> None:
    @tool(name="sky", description="Look up.", label="Sky", effect="pure", timeout=5)
    def weather() -> str:
        """Tell the weather."""
        return ""

    assert (weather.name, weather.description, weather.label) == ("sky", "Look up.", "Sky")
    assert (weather.effect, weather.timeout) == ("pure", 5)


def test_a_tool_is_cautious_unless_it_is_pure() -> None:
    def act() -> None: ...

    careful, pure = tool(act), tool(effect="pure")(act)
    assert (careful.effect, careful.parallel, careful.on_steer) == ("once", False, "finish")
    assert (pure.effect, pure.parallel, pure.on_steer) == ("pure", True, "cancel")
    assert not tool(effect="pure", parallel=False)(act).parallel
    assert tool(effect="pure", on_steer="finish")(act).on_steer == "finish"


@pytest.mark.parametrize("effect", ["pure", "idempotent", "commit"])
def test_only_a_tool_that_runs_once_may_leave_somebody_in_doubt(effect: Any) -> None:
    with pytest.raises(ConfigError, match=f"cheap is {effect}.*leave on_lost out"):
        Tool(name="cheap", schema={"type": "object"}, effect=effect, on_lost="ask")
    with pytest.raises(ConfigError, match="on_lost of dear is 'hope': use tell or ask"):
        Tool(name="dear", schema={"type": "object"}, on_lost="hope")  # type: ignore[arg-type]


def test_arguments_are_built_once() -> None:
    assert weather.arguments is weather.arguments


def test_what_the_docstring_says_of_a_parameter_is_told_once() -> None:
    @tool
    def search(query: str, limit: int = 3) -> None:
        """Search the archive.

        Args:
            query: what to look for
            limit: how many to show,
                at most 50

        Returns:
            The titles.
        """

    assert search.description == "Search the archive.\n\nReturns:\n    The titles."
    assert search.spec.description == search.description
    shown = search.spec.schema["properties"]
    assert shown["query"]["description"] == "what to look for"
    assert shown["limit"]["description"] == "how many to show, at most 50"


def test_a_docstring_may_have_nothing_but_parameters() -> None:
    @tool
    def search(query: str, **more: int) -> None:
        """
        Args:
            query: what to look for
            **more: further filters
        """

    assert search.description == ""
    assert search.spec.schema["properties"]["query"]["description"] == "what to look for"
    assert search.spec.schema["additionalProperties"]["description"] == "further filters"


def test_a_docstring_is_kept_whole_where_no_parameter_is_taken_from_it() -> None:
    def search(**arguments: Any) -> None:
        """Search.

        Args:
            n: how many
        """

    def loose() -> None:
        """Search.

        Args:
            None at all
        """

    assert tool(schema=SCHEMA)(search).description == "Search.\n\nArgs:\n    n: how many"
    assert tool(loose).description == "Search.\n\nArgs:\n    None at all"


# --- The context --------------------------------------------------------------------------------


def test_a_context_as_first_parameter_is_no_argument() -> None:
    @tool
    def resolved(context: ToolContext, city: str) -> None: ...

    @tool
    def through_a_module(context: module.ToolContext, city: str) -> None: ...

    for made in (resolved, through_a_module):
        assert made.takes_context
        assert list(made.arguments.schema["properties"]) == ["city"]
    assert not weather.takes_context


def test_a_context_is_known_also_where_annotations_are_not_strings() -> None:
    def act(context: ToolContext, city: str) -> None: ...

    act.__annotations__ = {"context": ToolContext, "city": str}
    assert tool(act).takes_context


def test_a_context_is_known_under_another_name() -> None:
    Local: TypeAlias = ToolContext

    @tool
    def renamed(context: Renamed, city: str) -> None: ...

    @tool
    def aliased(context: Alias, city: str) -> None: ...

    @tool
    def local(context: Local, city: str) -> type:
        return Local

    def plain(context: object, city: str) -> None: ...

    plain.__annotations__ = {"context": Alias, "city": str}

    for made in (renamed, aliased, local, tool(plain)):
        assert made.takes_context
        assert list(made.arguments.schema["properties"]) == ["city"]


def test_a_context_is_known_by_its_name_where_only_a_type_checker_imports_it() -> None:
    def act(context: str, city: str) -> None: ...

    for text in ("ToolContext", "nowhere.ToolContext"):
        act.__annotations__ = {"context": text, "city": str}
        assert tool(act).takes_context


def test_a_first_parameter_of_an_unknown_type_is_an_argument_and_refused_as_one() -> None:
    def act(context: str) -> None: ...

    act.__annotations__ = {"context": "Nowhere"}
    assert not tool(act).takes_context
    with pytest.raises(ConfigError, match=r"'context' of .*Nowhere"):
        tool(act).arguments  # noqa: B018


# --- Where it runs ------------------------------------------------------------------------------


class Searching:
    """Search."""

    async def __call__(self, query: str) -> str:
        return query


def blocking(query: str) -> None: ...


async def waiting(query: str) -> None: ...


@pytest.mark.parametrize(
    ("function", "in_thread"),
    [
        (blocking, True),
        (waiting, False),
        (Searching(), False),
        (functools.partial(waiting), False),
    ],
)
def test_only_what_is_not_async_runs_beside_the_event_loop(
    function: Callable[..., Any], in_thread: bool
) -> None:
    assert tool(name="search")(function).in_thread is in_thread


def test_an_object_that_can_be_called_is_a_tool_named_for_its_class() -> None:
    made = tool(Searching())
    assert (made.name, made.description) == ("Searching", "Search.")
    assert list(made.arguments.schema["properties"]) == ["query"]


def test_a_partial_has_the_name_and_the_docstring_of_its_function() -> None:
    def search(engine: str, query: str) -> None:
        """Search.

        Args:
            engine: with what
            query: for what
        """

    made = tool(functools.partial(functools.partial(search), "fast"))
    assert (made.name, made.description) == ("search", "Search.")
    assert made.spec.schema["properties"] == {
        "query": {"type": "string", "description": "for what"}
    }


def test_a_partial_may_be_given_a_name_and_a_docstring_of_its_own() -> None:
    def search(engine: str, query: str) -> None:
        """Search."""

    fast: Any = functools.partial(search, "fast")
    fast.__name__ = "search_fast"
    assert (tool(fast).name, tool(fast).description) == ("search_fast", "Search.")
    fast.__doc__ = "Search fast."
    assert tool(fast).description == "Search fast."


# --- From a JSON schema -------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_a_raw_schema_takes_the_place_of_the_annotations() -> None:
    @tool(schema=SCHEMA)
    def count(**arguments: Any) -> None: ...

    assert count.spec.schema == SCHEMA
    assert count.arguments.parse('{"n": "5"}') == {"n": 5}


def test_a_tool_may_be_declared_as_a_provider_does_and_is_run_by_its_function() -> None:
    native = {"acme": {"type": "bash_1", "name": "bash"}}

    @tool(native=native)
    async def bash(command: str) -> str:
        return command

    assert bash.spec.native == native
    assert bash.spec.schema["required"] == ["command"]
    assert bash.action is None
    assert weather.spec.native == {}


def test_a_tool_without_a_function_is_the_clients() -> None:
    made = Tool(name="pick", schema=SCHEMA)
    assert made.action == "client"
    assert not made.takes_context
    assert made.arguments.parse('{"n": 5}') == {"n": 5}


# --- What is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"name": ""}, "cannot be a tool's name"),
        ({"name": "a b"}, "cannot be a tool's name"),
        ({"name": "é"}, "cannot be a tool's name"),
        ({"name": "x" * 65}, "cannot be a tool's name"),
        ({"effect": "sometimes"}, "effect of act .* use one of pure, idempotent, once, commit"),
        ({"on_steer": "wait"}, "on_steer of act"),
        ({"approval": "always"}, "approval of act"),
        ({"timeout": 0}, "timeout of act"),
        ({"timeout": -1}, "timeout of act"),
        ({"function": None}, "neither a function nor a schema"),
        ({"action": "answer"}, "give it no function"),
        ({"native": "bash"}, "native of act"),
        ({"native": {"acme": "bash"}}, "native of act"),
        ({"native": {1: {}}}, "native of act"),
    ],
)
def test_a_property_that_cannot_be_right_is_refused_by_name(
    properties: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        Tool(**{"name": "act", "function": blocking, **properties})


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(ConfigError, match="cannot be a tool's name"):
        tool(lambda: None)
    assert tool(name="nothing")(lambda: None).arguments.parse("") == {}


@pytest.mark.parametrize("schema", [None, SCHEMA])
@pytest.mark.parametrize("builtin", [max, range])
def test_a_function_whose_signature_cannot_be_read_is_to_be_wrapped(
    builtin: Callable[..., Any], schema: dict[str, Any] | None
) -> None:
    made = tool(schema=schema)(builtin)
    with pytest.raises(ConfigError, match=rf"{made.name} .*: wrap it in a function"):
        made.spec  # noqa: B018


# --- A tool without a description ---------------------------------------------------------------


def bare() -> None:
    pass


def also_bare() -> None:
    pass


def described() -> None:
    """Look."""


def test_a_tool_without_a_description_warns_at_the_line_that_defines_it() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tool(bare)
        tool(effect="pure")(bare)
        Agent(model=ScriptedModel([]), tools=[also_bare])
    assert [warned.category for warned in caught] == [MissingDescription] * 3
    assert [warned.filename for warned in caught] == [__file__] * 3
    assert str(caught[0].message).startswith("the tool bare has no description, by which a model")


def test_a_tool_with_a_description_or_an_empty_one_on_purpose_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tool(description="Look.")(bare)
        tool(description="")(bare)
        tool(described)
