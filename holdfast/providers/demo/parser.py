"""Parses plain requests into the parts of an answer, by a table of phrases. Pure.

A text that fits no row of the table is not understood: the demo never guesses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Final, TypeAlias, Union

import msgspec

from holdfast.kernel.errors import FAILURE_KINDS, FailureKind
from holdfast.kernel.messages import Reasoning, Text, ToolCall, Value
from holdfast.providers.demo import texts


class Help(Value, frozen=True):
    """The list of requests that work with the tools at hand."""


class Slow(Value, frozen=True):
    """Half a second for each word, from here to the end of the turn."""


class Pause(Value, frozen=True):
    """Silence in the middle of an answer."""

    seconds: float


class FailedAttempts(Value, frozen=True):
    """Attempts that fail before one succeeds; None: every attempt fails."""

    kind: FailureKind
    count: int | None


ReplyParts: TypeAlias = tuple[
    Union[Text, Reasoning, ToolCall, Help, Slow, Pause, FailedAttempts], ...
]
"""What one phrase asks for. Its calls have no ids yet, and are made in one message."""

INTRODUCTION: Final = Text(texts.SPEECH)
"""Before everything but text that was asked for word by word; sent in the first answer only."""
NO_SUCH_TOOL: Final = "no_such_tool"
FAILURES: Final[tuple[FailureKind, ...]] = (
    *("server", "rate_limit", "overloaded", "quota", "auth", "permission", "not_found"),
    *("invalid_request", "context_overflow", "content_filter", "timeout", "network"),
    *("stream_cut", "stream_silent", "empty_response"),
)
NUMBERS: Final = {"once": 1, "twice": 2, "two": 2, "three": 3, "four": 4, "five": 5}


# --- From the words of a phrase to the parts of an answer ---------------------------------------


def call(tool: str, /, **arguments: object) -> ReplyParts:
    text = json.dumps(arguments, ensure_ascii=False)
    if not text.isprintable():  # half of a surrogate pair can only be sent as an escape
        text = json.dumps(arguments)
    return (INTRODUCTION, ToolCall("", tool, text))


def list_files(path: str = ".") -> ReplyParts:
    return call("list_files", **{"pattern" if "*" in path else "path": path})


def read_file(path: str, first: str = "", last: str = "") -> ReplyParts:
    if not first:
        return call("read_file", path=path)
    limit = max(1, int(last or first) - int(first) + 1)
    return call("read_file", path=path, offset=int(first), limit=limit)


def write_file(path: str, content: str = "") -> ReplyParts:
    return call("write_file", path=path, content=content)


def edit_file(separator: str, path: str, change: str) -> ReplyParts:
    old, found, new = change.partition(separator)
    edit = {"old_text": unquoted(old), "new_text": unquoted(new)}
    return call("edit_file", path=path, edits=[edit]) if found else ()


def ask_user(question: str = "Which colour do you like best? Red, Green or Blue") -> ReplyParts:
    """The options follow the last colon or question mark; `ask_user` accepts six."""
    match = re.fullmatch(r"(.*[:?])\s+(.+)", question, re.DOTALL)
    labels = re.split(r",\s+(?:or\s+)?|\sor\s|\n", match[2]) if match else []
    options = [{"label": text} for label in labels if (text := label.strip(" \t-*•?.!"))][:6]
    if match is None or len(options) < 2:
        return call("ask_user", questions=[{"question": question}])
    return call("ask_user", questions=[{"question": match[1].rstrip(":"), "options": options}])


def call_tool(tool: str, arguments: str = "") -> ReplyParts:
    """The arguments are JSON, which is sent as it was typed, or pairs `key=value`."""
    if arguments.startswith("{"):
        return (INTRODUCTION, ToolCall("", tool, arguments))
    pair = r"""(?<![\w.-])([\w.-]++)=("[^"]*"|'[^']*'|[^\s,)]*)[\s,)]*+"""
    if re.sub(pair, "", arguments).strip(" .)"):
        return ()
    return call(tool, **{name: as_value(text) for name, text in re.findall(pair, arguments)})


def as_value(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return unquoted(text)


def many_calls() -> ReplyParts:
    return (*list_files(), *read_file("README.md"), *call("search_files", pattern="TODO"))


def say(text: str) -> ReplyParts:
    return (Text(text),) if text.strip() else ()


def long_answer(count: str = "500") -> ReplyParts:
    return say(texts.long_text(min(int(count.replace(",", "")), 20_000)))


def think(about: str = "", steps: str = "3") -> ReplyParts:
    thoughts = Reasoning(texts.thoughts(about, int(steps)))
    subject = f" about {texts.shortened(about, 100)}" if about else ""
    thought = f"I thought{subject} for {steps} steps: there is nothing more to it."
    return (thoughts, INTRODUCTION, Text(thought))


def plan(about: str = "it") -> ReplyParts:
    return (INTRODUCTION, Text(texts.plan(about)))


def pause(count: str = "5", unit: str = "s") -> ReplyParts:
    seconds = min(float(count) * {"s": 1, "m": 60, "h": 3_600}[unit.lower()], 3_600.0)
    before, after = Text(f"I wait for {seconds:g} seconds."), Text("That was the wait.")
    return (before, Pause(seconds), after)


def fail(how: str = "") -> ReplyParts:
    """How many attempts fail, and the kind of failure, or a word of it."""
    times = r"\b(?:(\d{1,3}|two|three|four|five) times?|once|twice|for good)\b"
    match = re.search(times, how.lower())
    words = re.findall("[a-z]+", re.sub(times, "", how.lower()))
    name = "_".join(word for word in words if word not in ("with", "a", "an", "the", "error"))
    kind = next((kind for kind in FAILURES if name in kind), None)
    if kind is None:
        return (Text(f"{texts.SPEECH} I can fail with: {', '.join(FAILURES)}."),)
    if match is None:
        retried = FAILURE_KINDS[kind].retryable or kind == "context_overflow"
        return (INTRODUCTION, FailedAttempts(kind, 1 if retried else None))
    number = match[1] or match[0]
    count = int(number) if number.isdecimal() else NUMBERS.get(number)
    return (INTRODUCTION, FailedAttempts(kind, count))


# --- The table ----------------------------------------------------------------------------------

FLAGS: Final = re.IGNORECASE | re.DOTALL
BLANK: Final = r"(?:(?<!\s)\s++)"
"""What a blank in a pattern stands for: a long run of white space is read once."""
BEGIN: Final = (  # words that do not matter, whether to be slow, and the first word that matters
    r"\s*(?:(?:(?:please|now|hey|so|and|then|(?:can|could|would) you|give me an?)\b[,:!]*|\d+[.)]"
    r"|[-*•])\s+)*+((?:(?:be|go)\s+)?slow(?:ly)?\b[\s,:.!]*+(?:and\s+)?)?(\$(?=\s)|\?|[a-z]+)?[\s:]*+"
)
END: Final = r"(?:(?<![.!?])[.!?]++)?"
PATH: Final = (  # after words that name no file, as in `read the file called a.txt`
    r"(?:(?:the|an?|all|new|files?|called|named|in|from|of|directory|here)(?: |(?=[.!?]*$))){0,5}+"
    r"""(?:(?P<path>`[^`]+`|"[^"]+"|'[^']+'|[^\s?!]\S*?)(?: directory| folder)?)"""
)
FILE: Final = PATH.replace(r"[^\s?!]\S*?", r"\S*?[./]\w\S*?")  # not `write a letter to Santa`
LINES: Final = r"(?: lines? (?P<first>\d{1,9})(?:(?:-| to )(?P<last>\d{1,9}))?)?"
TOOL: Final = r"arguments(?: for (?P<tool>\S+))?"
ANY_CALL: Final = r"(?:the tool )?`?(?P<tool>[\w.:/-]*\w)`?[\s(]*+(?:with )?(?P<arguments>.*)"
DURATION: Final = r"(?P<count>\d{1,6}(?:\.\d{1,3})?) ?(?P<unit>[smh])?(?:ec|in|our)?\w*"

search_files: Final = partial(call, "search_files")

PHRASES: Final[tuple[tuple[str, str, Callable[..., ReplyParts]], ...]] = (
    # First words, the rest, and what makes parts of its groups. The first row that fits is taken.
    ("help ? commands", "", lambda: (Help(),)),
    ("what", "can (?:you|i) do", lambda: (Help(),)),
    ("hello hi", "(?:there)?", lambda: (Text(texts.HELLO),)),
    ("who what", "are you", lambda: (Text(texts.HELLO),)),
    ("list ls", f"{PATH}?", list_files),
    ("what", f"files are {PATH}?", list_files),
    ("show", "(?:me )?(?:some )?markdown", lambda: say(texts.MARKDOWN)),
    ("markdown", "", lambda: say(texts.MARKDOWN)),
    ("read open cat show", PATH + LINES, read_file),
    ("write save create", rf"{FILE}(?::| with(?: the text)?:?)\s(?P<content>.+)", write_file),
    ("write save", f"(?P<content>.+) (?:to|into) {FILE}", write_file),
    ("create", FILE, write_file),
    ("replace", f"(?P<change>.+) in {PATH}", partial(edit_file, " with ")),
    ("change", f"(?P<change>.+) in {PATH}", partial(edit_file, " to ")),
    ("search grep find", f"(?:for )?(?P<pattern>.+) in {PATH}", search_files),
    ("search grep find", "(?:for )?(?P<pattern>.+)", search_files),
    ("run execute $", "(?:the command )?(?P<command>.+)", partial(call, "execute")),
    ("ask", r"me\b[\s:]*+(?P<question>.+)?", ask_user),
    ("use call", "many tools(?: at once)?", many_calls),
    ("use call", "an unknown tool", partial(call, NO_SUCH_TOOL)),
    ("bad", TOOL, lambda tool="": call_tool(tool, '{"not": "JSON", ')),
    ("wrong", TOOL, lambda tool="": call(tool, no_such_field=True)),
    ("use call", ANY_CALL, call_tool),
    ("say echo repeat", "(?P<text>.+)", say),
    ("long", r"answer(?: of (?P<count>\d[\d,]{0,9}) words?)?", long_answer),
    ("think", r"(?:about )?(?P<about>.*?)(?:(?: |^)for (?P<steps>\d\d?) steps?)?", think),
    ("plan", "(?P<about>.*)", plan),
    ("wait sleep", rf"(?:for )?(?:{DURATION})?", pause),
    ("fail", "(?P<how>.{0,200})", fail),
    *((word, "", partial(fail, word)) for word in ("cut", "empty", "silent")),
)


def understood(phrase: str) -> ReplyParts:
    """The parts that one phrase requests; empty if it is not understood."""
    begin = re.match(BEGIN, phrase, FLAGS)
    assert begin is not None  # all of it is optional
    slow: ReplyParts = (Slow(),) if begin[1] else ()
    verb, rest = (begin[2] or "").lower(), phrase[begin.end() :].rstrip()
    for verbs, pattern, build in PHRASES:
        pattern = pattern.replace(" ", BLANK)
        if verb in verbs.split() and (match := re.fullmatch(f"(?:{pattern}){END}", rest, FLAGS)):
            groups = {name: unquoted(text) for name, text in match.groupdict().items() if text}
            if parts := build(**groups):
                return slow + parts
    return () if verb or rest else slow


def unquoted(text: str) -> str:
    """The content of a text that is quoted as a whole, or is a block of code."""
    text = text.strip()
    if block := re.fullmatch(r"```[^\n`]*\n(.*)```", text, re.DOTALL):
        return block[1]
    quoted = text[:1] in ('"', "'", "`") and text[-1] == text[0] and text.count(text[0]) == 2
    return text[1:-1] if quoted else text


# --- A prompt of several phrases ----------------------------------------------------------------

MAX_JOINTS: Final = 200
"""A prompt with more of them is one text."""
JOINT: Final = r"(?<!\s)[,;.]?\s*+(?:\band\s+)?\bthen\b[,:]?\s+|;(?:\s+|$)|\n"
OPAQUE: Final = (  # code, quotes, a shell command, and a file's text that begins on the next line
    r"```.*?(?:```|\Z)|`[^`\n]*`|\"[^\"\n]*\""
    r"|(?:\brun|\bexecute|\$)[ \t](?:(?!(?<!;),?(?: and)? then\b)[^\n])*"
    r"|\b(?:write|save|create)\b[^\n]{0,200}:[ \t]*\n(?!\s*```).*"
)


def parse(prompt: str) -> tuple[ReplyParts, ...]:
    """The parts that each phrase of a prompt requests, in order; none for the heading of a list."""
    phrases = [(phrase, understood(phrase)) for phrase in split(prompt)]
    if not any(parts for _, parts in phrases):
        return (not_understood(prompt),)
    answered = [(phrase, parts) for phrase, parts in phrases if parts or phrase[-1] != ":"]
    return tuple(parts or not_understood(phrase) for phrase, parts in answered)


def not_understood(text: str) -> ReplyParts:
    return (Text(texts.not_understood(text)),)


def split(prompt: str) -> list[str]:
    """Cut a prompt into phrases. Text that depends on the preceding phrase stays with it."""
    visible = re.sub(OPAQUE, lambda match: "x" * len(match[0]), prompt, flags=FLAGS)
    joints = [match.span() for match in re.finditer(JOINT, visible, FLAGS)]
    joints = joints if len(joints) <= MAX_JOINTS else []
    phrases: list[tuple[int, int]] = []
    for (_, start), (end, _) in pairwise([(0, 0), *joints, (len(prompt), 0)]):
        if not prompt[start:end].strip():
            continue
        whole = prompt[phrases[-1][0] : end] if phrases else ""
        if understood(whole) and not understood(prompt[start:end]):
            start, _ = phrases.pop()
        phrases.append((start, end))
    return [prompt[start:end].strip() for start, end in phrases]
