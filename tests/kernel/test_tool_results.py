"""What a tool returned as a result that the model can read, and never more of it than fits."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from decimal import Decimal
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Tool, tool
from holdfast.errors import ConfigError
from holdfast.kernel.messages import Content, ToolCall, results_message
from holdfast.kernel.policy import max_result
from holdfast.kernel.tool_results import cut_middle, returned
from holdfast.messages import File, Text, ToolResult, dump, load
from holdfast.options import Calls, ContextLimits, Policy
from holdfast.testing import ScriptedModel, call, finish
from tests.kernel.toolkit import agent_for, result_of, results_in


def returning(value: object, **properties: Any) -> Tool:
    async def give() -> object:
        return value

    return tool(name="give", **properties)(give)


async def given_back(value: object, **properties: Any) -> ToolResult:
    """The result of a tool that returns this. Whatever it is, the history can be stored."""
    made = await result_of(returning(value, **properties))
    history = (results_message((made,)),)
    assert load(dump(history)) == history
    return made


# --- what a tool may return ---------------------------------------------------------------------


class Person(pydantic.BaseModel):
    name: str


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Pydantic(pydantic.BaseModel):
    name: str
    when: datetime


class Structured(msgspec.Struct):
    name: str
    tags: list[str]


class Colour(enum.Enum):
    RED = "red"


class Markup(str):
    """A text that remembers something, as template engines and parsers return it."""

    __slots__ = ()


class Word(enum.StrEnum):
    YES = "yes"


class Code(str, enum.Enum):  # noqa: UP042  # str() of it is not its value
    NO = "no"


class Count(int):
    pass


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        (None, "done"),
        (True, "true"),
        (7, "7"),
        (10**30, "1" + "0" * 30),
        (1.5, "1.5"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ({1: "one"}, '{"1":"one"}'),
        ([], "[]"),
        ([1, "two"], '[1,"two"]'),
        ((1, 2), "[1,2]"),
        (Point(1, 2), '{"x":1,"y":2}'),
        ([Point(1, 2)], '[{"x":1,"y":2}]'),
        (Pydantic(name="n", when=NOON), '{"name":"n","when":"2026-01-01T12:00:00Z"}'),
        (
            {"in": Pydantic(name="n", when=NOON)},
            '{"in":{"name":"n","when":"2026-01-01T12:00:00Z"}}',
        ),
        (Structured("n", ["t"]), '{"name":"n","tags":["t"]}'),
        (Colour.RED, '"red"'),
        (Word.YES, "yes"),
        (Code.NO, "no"),
        (Markup("<b>"), "<b>"),
        ({"html": Markup("<b>"), "count": Count(3)}, '{"html":"<b>","count":3}'),
        (NOON, '"2026-01-01T12:00:00Z"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Decimal("1.50"), '"1.50"'),
        ({7}, "[7]"),
        (b"bytes", '"Ynl0ZXM="'),
        (Path("/a/b"), '"/a/b"'),
        (deque([1, Path("b")]), '[1,"b"]'),
        ({Path("a"): float("nan")}, '{"a":null}'),
        ({(1, 2): 3}, '{"1,2":3}'),
        (
            {"at": IPv4Address("127.0.0.1"), "who": Person(name="Ann")},
            '{"at":"127.0.0.1","who":{"name":"Ann"}}',
        ),
        (float("nan"), "null"),
        ({"x": float("inf")}, '{"x":null}'),
        ("NUL \x00", "NUL \x00"),
        ("half \ud800", "half \ud800"),
        (Text("as it is"), "as it is"),
        ([Text("one "), Text("two")], "one two"),
    ],
    ids=repr,
)
async def test_a_value_becomes_text_or_json(value: object, text: str) -> None:
    made = await given_back(value)
    assert (made.outcome, made.text) == ("ok", text)
    assert type(made.text) is str


async def test_json_with_half_a_character_is_still_json() -> None:
    made = await given_back({"a": "half \ud800", "b": Point(1, 2)})
    assert json.loads(made.text) == {"a": "half \ud800", "b": {"x": 1, "y": 2}}


async def test_parts_are_kept_as_parts() -> None:
    picture = File("image/png", "a.png", b"\x89PNG")
    made = await given_back([Text("Here:"), picture])
    assert made.content == (Text("Here:"), picture)
    assert (await given_back(picture)).content == (picture,)


async def test_a_list_of_parts_and_other_things_is_json() -> None:
    made = await given_back([Text("a"), 1])
    assert made.outcome == "ok"
    assert json.loads(made.text)[1] == 1


async def test_a_result_of_the_tool_s_own_making_keeps_outcome_content_and_metadata() -> None:
    value = ToolResult("", "", (Text("no such file"),), "failed", metadata={"mine": {"code": 2}})
    made = await given_back(value, stop_after=True)
    assert (made.call_id, made.tool) == ("call_1", "give")
    assert (made.outcome, made.text) == ("failed", "no such file")
    assert made.metadata == {"mine": {"code": 2}}
    assert not made.stops


# --- what nobody can read -----------------------------------------------------------------------


def contains_itself() -> object:
    value: dict[str, object] = {}
    value["me"] = value
    return value


def deep() -> object:
    value: list[object] = []
    for _ in range(10_000):
        value = [value]
    return value


class Broken(pydantic.BaseModel):
    def model_dump(self, **options: Any) -> dict[str, Any]:
        raise OSError("no dump today")


async def generator() -> AsyncIterator[int]:
    yield 1


def bad_result(**fields: Any) -> Callable[[], ToolResult]:
    return lambda: ToolResult(**{"call_id": "", "tool": "", "content": (Text("x"),), **fields})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(object, "object", id="object"),
        pytest.param(lambda: object, "type", id="class"),
        pytest.param(generator, "generator", id="async generator"),
        pytest.param(lambda: ValueError("returned, not raised"), "ValueError", id="exception"),
        pytest.param(lambda: {"a": object()}, "dict", id="inside"),
        pytest.param(contains_itself, "contains itself", id="contains itself"),
        pytest.param(deep, "nested too deeply", id="deep"),
        pytest.param(lambda: ["\ud800", deep()], "nested too deeply", id="deep and half"),
        pytest.param(Broken, "no dump today", id="dump raises"),
        pytest.param(lambda: Text(5), "Text", id="text of no text"),  # type: ignore[arg-type]
        pytest.param(lambda: Text("x", {"a": object()}), "Text", id="metadata"),
        pytest.param(
            lambda: File("image/png", data="text"),  # type: ignore[arg-type]
            "File",
            id="file of no bytes",
        ),
        pytest.param(bad_result(content="text"), "ToolResult", id="content is text"),
        pytest.param(bad_result(content=("text",)), "ToolResult", id="content of text"),
        pytest.param(bad_result(content=None), "ToolResult", id="no content"),
        pytest.param(bad_result(outcome="success"), "ToolResult", id="no outcome"),
        pytest.param(bad_result(metadata={"a": object()}), "ToolResult", id="result's metadata"),
    ],
)
async def test_what_cannot_be_written_down_is_a_failure_that_says_so(
    make: Callable[[], object], words: str
) -> None:
    made = await given_back(make())
    assert made.outcome == "failed"
    assert words in made.text
    assert "may have taken effect" in made.text
    assert len(made.text) < 5_000


async def test_a_pure_tool_that_returns_nonsense_has_had_no_effect() -> None:
    made = await given_back(object(), effect="pure")
    assert made.outcome == "failed"
    assert "effect" not in made.text


async def test_an_awaitable_that_a_plain_function_returns_is_awaited() -> None:
    async def later(name: str) -> str:
        await asyncio.sleep(1)
        return f"hello {name}"

    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    greet = Tool(name="greet", schema=schema, function=lambda **values: later(**values))

    assert (await result_of(greet, {"name": "you"})).text == "hello you"


async def test_an_object_with_an_async_call_is_a_tool() -> None:
    class Greeter:
        name = "greet"
        schema: dict[str, Any] = {"type": "object"}  # noqa: RUF012

        async def __call__(self) -> str:
            return "hello"

    agent = agent_for([call("greet"), "."]).replace(tools=[Greeter()])
    (made,) = results_in((await agent.run("Go.")).history)
    assert made.text == "hello"


# --- never more than fits -----------------------------------------------------------------------


def size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def size_of(made: ToolResult) -> int:
    return sum(size(part.text) for part in made.content if isinstance(part, Text))


async def test_a_long_result_is_cut_in_the_middle_with_a_word_about_it() -> None:
    text = "".join(f"line {n}\n" for n in range(100_000))
    made = await given_back(text, max_result=1_000)

    assert made.outcome == "ok"
    assert size(made.text) <= 1_000
    head, marker, tail = made.text.split("\n[")[0], made.text.split("[")[1], made.text[-100:]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert f"{size(text)}"[:3] in marker
    assert "cut" in marker
    assert len(head) > len(tail), "the beginning says more than the end"


async def test_a_result_that_just_fits_is_not_touched() -> None:
    for text in ("x" * 1_000, "é" * 500, "🦔" * 250):
        assert (await given_back(text, max_result=1_000)).text == text


async def test_a_long_json_result_is_cut_like_text() -> None:
    made = await given_back({"numbers": list(range(100_000))}, max_result=1_000)
    assert size(made.text) <= 1_000
    assert made.text.startswith('{"numbers":[0,1,')


async def test_the_texts_of_one_result_share_the_room() -> None:
    parts = [Text("é" * 400) for _ in range(50)]
    made = await given_back(parts, max_result=1_000)
    assert size_of(made) <= 1_000
    assert made.text.startswith("é" * 100)
    assert "cut" in made.text


async def test_files_are_not_cut() -> None:
    picture = File("image/png", "a.png", b"x" * 10_000)
    made = await given_back([Text("y" * 5_000), picture], max_result=1_000)
    assert picture in made.content
    assert size_of(made) <= 1_000


async def test_a_result_of_the_tool_s_own_making_is_cut_too() -> None:
    made = await given_back(ToolResult("", "", (Text("x" * 5_000),), "failed"), max_result=1_000)
    assert (made.outcome, size_of(made) <= 1_000) == ("failed", True)


async def test_the_policy_says_how_much_fits_where_the_tool_does_not() -> None:
    policy = Policy(calls=Calls(max_result=2_000))
    made = await result_of(returning("x" * 50_000), policy=policy)
    assert 1_800 < size(made.text) <= 2_000
    made = await result_of(returning("x" * 50_000, max_result=3_000), policy=policy)
    assert 2_800 < size(made.text) <= 3_000


@pytest.mark.parametrize("limit", [0, -1, 255])
def test_a_tool_cannot_ask_for_results_too_short_to_say_anything(limit: int) -> None:
    with pytest.raises(ConfigError, match="max_result"):
        returning("x", max_result=limit)


@pytest.mark.parametrize(
    ("window", "limit"),
    [(None, 65_536), (1_000, 16_384), (16_384, 16_384), (200_000, 200_000), (1_000_000, 1_000_000)],
)
def test_what_fits_is_about_a_third_of_the_window(window: int | None, limit: int) -> None:
    assert max_result(window) == limit


@pytest.mark.parametrize(("window", "limit"), [(None, 65_536), (100_000, 100_000)])
async def test_the_window_says_how_much_fits_where_nobody_does(
    window: int | None, limit: int
) -> None:
    policy = Policy(context=ContextLimits(window=window))
    made = await result_of(returning("x" * 300_000), policy=policy)
    assert limit - 200 < size(made.text) <= limit


async def test_a_window_that_the_provider_reports_counts_from_then_on() -> None:
    model = ScriptedModel(
        [[call("give"), finish("tool_calls", window=20_000)], [call("give")], "Done."]
    )
    agent = agent_for([], returning("x" * 300_000)).replace(
        model=model, policy=Policy(context=ContextLimits(threshold=100))
    )
    result = await agent.run("Go.")
    assert size(results_in(result.history)[-1].text) <= 20_000


ANY_TEXT = st.text(
    st.characters() | st.sampled_from(["\x00", "\ud800", "\udfff", "é", "€", "🦔", "\n"])
)
BIG_TEXT = st.tuples(ANY_TEXT, st.integers(0, 200)).map(lambda pair: pair[0] * pair[1])


@given(text=BIG_TEXT, limit=st.integers(0, 2_000))
def test_cut_text_is_never_longer_than_the_limit_and_keeps_whole_characters(
    text: str, limit: int
) -> None:
    cut = cut_middle(text, limit)

    assert size(cut) <= limit
    if size(text) <= limit:
        assert cut == text
    elif limit >= 256:
        head, _, rest = cut.partition("\n[… ")
        _, _, tail = rest.partition(" …]\n")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert size(head) + size(tail) > limit - 256, "as much as fits is kept"
        gone = int(rest.split(" ")[0])
        assert gone == size(text) - size(head) - size(tail)
    else:
        assert text.startswith(cut.partition("\n[… ")[0])


PARTS = st.lists(
    BIG_TEXT.map(Text) | st.binary(max_size=10).map(lambda data: File("a/b", None, data)),
    min_size=1,
    max_size=20,
)


@given(parts=PARTS, limit=st.integers(256, 3_000))
def test_all_texts_of_a_result_together_fit_and_every_file_stays(
    parts: list[Content], limit: int
) -> None:
    made = returned(ToolCall("c", "give", "{}"), returning(None), parts, limit)

    assert made.outcome == "ok"
    assert size_of(made) <= limit
    files = [part for part in parts if isinstance(part, File)]
    assert [part for part in made.content if isinstance(part, File)] == files
    total = sum(size(part.text) for part in parts if isinstance(part, Text))
    if total <= limit:
        assert made.content == tuple(parts)
    else:
        assert "cut" in made.text
    assert load(dump([results_message((made,))])) == (results_message((made,)),)
