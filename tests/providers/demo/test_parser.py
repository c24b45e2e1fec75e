"""Plain requests become parts of an answer: one by one, and several in a prompt."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.kernel.errors import FailureKind
from holdfast.kernel.messages import Text, ToolCall
from holdfast.kernel.tool import Tool
from holdfast.providers.demo.parser import (
    FAILURES,
    INTRODUCTION,
    MAX_JOINTS,
    NO_SUCH_TOOL,
    FailedAttempts,
    Help,
    ReplyParts,
    Slow,
    call,
    not_understood,
    parse,
    pause,
    think,
)
from holdfast.providers.demo.texts import HELLO, MARKDOWN, help_text
from holdfast.tools import bundled
from tests.providers.demo.requests import specs


@pytest.fixture
def ours(tmp_path: Path) -> tuple[Tool, ...]:
    """The tools that come with holdfast."""
    return bundled(tmp_path)


def lines(path: str, **which: int) -> ReplyParts:
    return call("read_file", path=path, **which)


def write(path: str, content: str) -> ReplyParts:
    return call("write_file", path=path, content=content)


def edit(path: str, old: str, new: str) -> ReplyParts:
    return call("edit_file", path=path, edits=[{"old_text": old, "new_text": new}])


def run(command: str) -> ReplyParts:
    return call("execute", command=command)


def ask(question: str, *options: str) -> ReplyParts:
    labels = {"options": [{"label": option} for option in options]} if options else {}
    return call("ask_user", questions=[{"question": question, **labels}])


def say(text: str) -> ReplyParts:
    return (Text(text),)


def fail(kind: FailureKind, count: int | None) -> ReplyParts:
    return (INTRODUCTION, FailedAttempts(kind, count))


def raw(tool: str, arguments: str) -> ReplyParts:
    return (INTRODUCTION, ToolCall("", tool, arguments))


LIST, READ = call("list_files", path="."), call("read_file", path="a.txt")
SRC = call("list_files", path="src")

CALLS: list[tuple[str, ReplyParts]] = [
    ("list", LIST),
    ("List the files in src.", SRC),
    ("list *.py", call("list_files", pattern="*.py")),
    ('list "files"', call("list_files", path="files")),
    ("what files are here?", LIST),
    ("read a.txt", READ),
    ("Hey, can you please read the file a.txt?", READ),
    ("read 'a b.txt'.", call("read_file", path="a b.txt")),
    ("read a.txt lines 10-20", lines("a.txt", offset=10, limit=11)),
    ("read a.txt lines 10 to 20", lines("a.txt", offset=10, limit=11)),
    ("read a.txt lines 20-10", lines("a.txt", offset=20, limit=1)),
    ("read a.txt line 7", lines("a.txt", offset=7, limit=1)),
    ("write hello world to a.txt", write("a.txt", "hello world")),
    ("write hi\n\nto a.txt", write("a.txt", "hi")),
    ('write "to be or not to be" to a.txt.', write("a.txt", "to be or not to be")),
    ("save hello into `notes`", write("notes", "hello")),
    ("write a.txt: buy milk", write("a.txt", "buy milk")),
    ("write todo.md:\n- list\n- b; then list", write("todo.md", "- list\n- b; then list")),
    ("create a new file called a.txt with the text hello", write("a.txt", "hello")),
    ("create empty.txt", write("empty.txt", "")),
    ("create a.py with:\n```python\nx = 1; y = 2\n```", write("a.py", "x = 1; y = 2\n")),
    ("replace foo with bar in a.py", edit("a.py", "foo", "bar")),
    ('replace foo with "" in a.py', edit("a.py", "foo", "")),
    ("change foo to bar in the file a.py", edit("a.py", "foo", "bar")),
    ("replace 'a and b' with c and d in f", edit("f", "a and b", "c and d")),
    ("replace x with y and z in a.py", edit("a.py", "x", "y and z")),
    ("replace `x; then list` with y in a.py", edit("a.py", "x; then list", "y")),
    ("search TODO", call("search_files", pattern="TODO")),
    (
        "search for 'def in' in the src directory",
        call("search_files", pattern="def in", path="src"),
    ),
    ("run make test", run("make test")),
    ("run the command `ls -l`", run("ls -l")),
    ("run\n```\nls\n```", run("ls\n")),
    ("run cd src; ls; sleep 5", run("cd src; ls; sleep 5")),
    ("run if true; then echo hi; fi", run("if true; then echo hi; fi")),
    ("ask me What is your name?", ask("What is your name?")),
    ("ask me Which one: A, B or C", ask("Which one", "A", "B", "C")),
    ("ask me Which?\n- one\n- two", ask("Which?", "one", "two")),
    ("ask me Which of several: A or B", ask("Which of several", "A", "B")),
    ("ask me: Which? a, b, c, d, e, f, g, h", ask("Which?", *"abcdef")),
]
OTHERS: list[tuple[str, ReplyParts]] = [
    ('call weather {"city":  "Oslo", ', raw("weather", '{"city":  "Oslo",')),
    ("call the tool `weather` with city=Oslo", call("weather", city="Oslo")),
    ("use weather city='New York', days=3", call("weather", city="New York", days=3)),
    (
        'call x tool=a=b s="5" n=null o=NaN z=01',
        call("x", tool="a=b", s="5", n=None, o="NaN", z="01"),
    ),
    ("call weather(city=Oslo)", call("weather", city="Oslo")),
    ("call an unknown tool", raw(NO_SUCH_TOOL, "{}")),
    ("wrong arguments for weather", call("weather", no_such_field=True)),
    ("help", (Help(),)),
    ("What can you do?", (Help(),)),
    ("Hello!", say(HELLO)),
    ("Who are you?", say(HELLO)),
    ("say Hello there!", say("Hello there!")),
    ("say hello\nworld", say("hello\nworld")),
    ("say first this then that", say("first this then that")),
    ("think about trees for 5 steps", think("trees", "5")),
    ("wait for 1.5s", pause("1.5")),
    ("sleep 2 minutes", pause("120")),
    ("wait 100 hours", pause("3600")),
    ("show me some markdown!", say(MARKDOWN)),
    ("give me a long answer of 2 words", say("This text")),
    ("fail", fail("server", 1)),
    ("fail three times with a rate limit", fail("rate_limit", 3)),
    ("fail with a network error twice", fail("network", 2)),
    ("fail 2 times with rate_limit", fail("rate_limit", 2)),
    ("fail for good with overloaded", fail("overloaded", None)),
    ("fail with auth", fail("auth", None)),
    ("fail with context overflow", fail("context_overflow", 1)),
    ("cut", fail("stream_cut", 1)),
]


@pytest.mark.parametrize(("prompt", "parts"), [*CALLS, *OTHERS], ids=lambda value: str(value)[:40])
def test_a_plain_phrase_is_understood(prompt: str, parts: ReplyParts) -> None:
    assert parse(prompt) == (parts,)


@pytest.mark.parametrize(("prompt", "parts"), CALLS, ids=lambda value: str(value)[:40])
def test_the_tools_that_come_with_holdfast_take_what_they_are_given(
    ours: tuple[Tool, ...], prompt: str, parts: ReplyParts
) -> None:
    assert parse(f"Please, {prompt}") == (parts,)
    (tool_call,) = (part for part in parts if isinstance(part, ToolCall))
    schema = next(tool.spec.schema for tool in ours if tool.name == tool_call.tool)
    jsonschema_rs.validate(dict(schema), json.loads(tool_call.arguments))


def test_everything_that_help_names_is_understood(ours: tuple[Tool, ...]) -> None:
    others = {"--dir", *(one.name for one in ours)}
    quoted = re.findall("`([^`]+)`", help_text(specs(*ours)))
    phrases = [phrase for phrase in quoted if phrase not in others]
    assert len(phrases) > 25
    assert not [phrase for phrase in phrases if parse(phrase) == (not_understood(phrase),)]


def test_every_kind_of_failure_has_a_name() -> None:
    for kind in FAILURES:
        assert parse(f"fail 2 times with {kind.replace('_', ' ')}") == (fail(kind, 2),)


def test_a_failure_that_nobody_knows_is_answered_with_those_that_are_known() -> None:
    ((part,),) = parse("fail with bananas")
    assert isinstance(part, Text)
    assert all(kind in part.text for kind in FAILURES)


@pytest.mark.parametrize(
    "prompt",
    [
        "blah",
        "write a letter to Santa",
        "write a poem about life in Python",
        "create a plan with three steps",
        "List all the countries in Europe",
        "call me maybe",
        "wait for me",
        "replace this in a.txt",
        "I went home, and then I slept; that was all.",
    ],
)
def test_what_is_not_understood_is_said_to_be_so_as_a_whole(prompt: str) -> None:
    assert parse(prompt) == (not_understood(prompt),)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("list src, then read a.txt, then run make", (SRC, READ, run("make"))),
        ("list; read a.txt; say done", (LIST, READ, say("done"))),
        ("List src. Then read a.txt and then say done!", (SRC, READ, say("done!"))),
        ("1. list\n2. read a.txt\n3) run make", (LIST, READ, run("make"))),
        ("Please do this:\n- list\n* read a.txt", (LIST, READ)),
        ("list src\n\nread a.txt\n", (SRC, READ)),
        (
            "create a.py with:\n```\nx; then list\n```\nthen run `python a.py; list`",
            (write("a.py", "x; then list\n"), run("python a.py; list")),
        ),
        ("say a; b then list", (say("a; b"), LIST)),
        ('say "a, then list"', (say("a, then list"),)),
        ("slowly list src, then say hi", ((Slow(), *SRC), say("hi"))),
        ("be slow and say a b", ((Slow(), *say("a b")),)),
        ("list; blah; say hi", (LIST, not_understood("blah"), say("hi"))),
        ("; then list;", (LIST,)),
    ],
)
def test_several_requests_are_done_in_order(prompt: str, expected: tuple[ReplyParts, ...]) -> None:
    assert parse(prompt) == expected


ITS_WORDS = (
    *("say", "list", "then", ";", "write", "to", "a.txt", ":", "`", '"', "'", "```", "call"),
    *("\n", "run", "in", "->", "with", "edit", "ask", "me", "and", "{", "=", "slowly", "fail"),
)


@given(st.text() | st.lists(st.sampled_from(ITS_WORDS), max_size=30).map(" ".join))
@example("say \ud800")
@example("\x00; then")
@example("edit x: -> ")
@example("wait ٣")
def test_any_text_is_answered(prompt: str) -> None:
    assert parse(prompt)


@pytest.mark.parametrize(
    "piece", ["list; ", " ", "`", "- x\n", "\n", "a to ", "a with b and ", "and ", ".", "```", '"']
)
@pytest.mark.parametrize(
    "verb",
    ["", "write ", "edit x: ", "replace ", "ask me ", "think ", "call x ", "search ", "read "],
)
def test_a_long_prompt_is_read_in_no_time(verb: str, piece: str) -> None:
    prompt = verb + piece * (100_000 // len(piece)) + "x"
    began = time.process_time()
    parse(prompt)
    assert time.process_time() - began < 3  # read again at each blank, it takes minutes


def test_what_has_very_many_joints_is_a_text() -> None:
    assert len(parse("list; " * MAX_JOINTS + "list")) == MAX_JOINTS + 1
    assert len(parse("list; " * MAX_JOINTS + "list; list")) == 1
