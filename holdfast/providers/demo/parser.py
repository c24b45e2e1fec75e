"""Parses plain words into intents, by a table of phrases. Pure.

Nobody guesses: what fits no row of the table is not understood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from holdfast.kernel.errors import FAILURE_KINDS, FailureKind
from holdfast.providers.demo.intents import (
    FAILURES,
    Calls,
    Fail,
    Help,
    Slow,
    Think,
    Unknown,
    Use,
    Wait,
    Wish,
    Words,
)
from holdfast.providers.demo.texts import HELLO, MARKDOWN, long, plan


def _vocabulary(words: str) -> frozenset[str]:
    return frozenset(words.split())


MAX_REQUESTS: Final = 200
"""In one prompt. With more joints than that it is a text, and no list of requests."""
MAX_WORDS: Final = 20_000
MAX_WAIT: Final = 3_600.0
MAX_OPTIONS: Final = 6
"""That `ask_user` takes."""

# Matched only where white space begins, and then all of it: a prompt of many blanks is looked
# through once, and not once for each of them.
_BLANK: Final = r"(?:(?<!\s)\s++)"
_END: Final = r"(?:(?<![.!?])[.!?]++)?"
_FLAGS: Final = re.IGNORECASE | re.DOTALL
_POLITE: Final = (
    r"(?:(?:please|now|okay|ok|hey|so|just|also|and|then|first|next|finally"
    r"|(?:can|could|would|will) you|give me (?:an?|some))\b[,:!]*\s+)*+"
)
_SLOWLY: Final = r"(?:(?:be|go|answer|speak)\s+)?slow(?:ly|er)?\b[\s,:.!]*(?:and\s+)?"
_VERB: Final = r"(\$(?=\s)|\?|[a-z]+)?[\s:]*"


# --- One phrase ---------------------------------------------------------------------------------


def understood(phrase: str) -> tuple[Wish, ...]:
    """What one phrase asks for; nothing when it is not understood."""
    slow, verb, rest = _parted(phrase)
    for pattern, make in _ROWS.get(verb, ()):
        match = re.fullmatch(pattern, rest, _FLAGS)
        wish = None if match is None else make(*match.groups(""))
        if wish is not None:
            return (Slow(), wish) if slow else (wish,)
    return (Slow(),) if slow and not verb and not rest else ()


def _parted(phrase: str) -> tuple[bool, str, str]:
    """Whether it is to be done slowly, the first word that counts, and what stands behind it."""
    match = re.match(f"{_POLITE}({_SLOWLY})?{_VERB}", text := phrase.strip(), _FLAGS)
    assert match is not None  # it may be empty
    return match[1] is not None, (match[2] or "").lower(), text[match.end() :]


def unquoted(text: str) -> str:
    """What is meant by a text that may be quoted as a whole, or be a block of code."""
    text = text.strip()
    block = re.fullmatch(r"```[^\n`]*\n(.*)```", text, re.DOTALL)
    if block is not None:
        return block[1]
    quoted = text[:1] in ('"', "'", "`") and text[-1] == text[0] and text.count(text[0]) == 2
    return text[1:-1] if quoted else text


_FILLERS: Final = _vocabulary(
    "the a an new file files called named in of from at to into me all my this here there"
    " directory folder contents please"
)


def path(text: str) -> str | None:
    """The only word that is no filler, as a path; `""` when there is none, None for several."""
    words = re.findall(r"""`[^`]+`\S*|"[^"]+"\S*|'[^']+'\S*|\S+""", text)
    left = [word for word in words if word.lower().strip(".,:;!?") not in _FILLERS]
    if len(left) > 1:
        return None
    return unquoted(re.sub(r"""(?<=[\w"'`)*])[.,;:!?]+$""", "", left[0])) if left else ""


# --- Calls of tools -----------------------------------------------------------------------------


def as_json(value: object) -> str:
    """As people read it, unless it holds what only an escape can say."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(value)
    return text


def call(tool: str, /, **arguments: object) -> Calls:
    return Calls((Use(tool, as_json(arguments)),))


def _list(rest: str) -> Wish | None:
    where = path(rest)
    if where is None:
        return None
    globbed = any(sign in where for sign in "*?[")
    return call("list_files", **{"pattern" if globbed else "path": where or "."})


def _read(rest: str) -> Wish | None:
    lines = re.search(r"\b(from )?lines? (\d{1,9})(?: ?(?:-|to) ?(\d{1,9}))?\b", rest)
    if lines is None:
        where = path(rest)
        return call("read_file", path=where) if where else None
    where = path(f"{rest[: lines.start()].strip(' ,(')} {rest[lines.end() :].strip(' ,)')}")
    first = max(1, int(lines[2]))
    last = int(lines[3] or first)
    limit: dict[str, int] = {} if lines[1] else {"limit": max(1, last - first + 1)}
    return call("read_file", path=where, offset=first, **limit) if where else None


def _write(file: str, text: str) -> Wish | None:
    """A letter to Santa is no file: it has to look like one, or to be quoted."""
    where = path(file)
    if not where or not re.search(r"""[./]\w|[`'"]""", file):
        return None
    meant = unquoted(text)
    ended = f"{meant}\n" if "\n" in meant and not meant.endswith("\n") else meant
    return call("write_file", path=where, content=ended)


def _edit(text: str, file: str, becomes: str) -> Wish | None:
    """`A becomes B and C becomes D` in a file."""
    where = path(file)
    parts = [re.split(becomes, pair, maxsplit=1) for pair in _pairs(text, becomes)]
    if not where or any(len(part) != 2 or not part[0].strip() for part in parts):
        return None
    edits = [{"old_text": unquoted(old), "new_text": unquoted(new)} for old, new in parts]
    return call("edit_file", path=where, edits=edits)


def _pairs(text: str, becomes: str) -> list[str]:
    """Cut where a new pair begins. What is none belongs to the one before it."""
    pairs: list[list[str]] = [[]]
    begun = False
    for piece in re.split(rf"((?:,|;)\s|{_BLANK}and\s|\n)", text):
        is_pair = re.search(becomes, piece) is not None
        if is_pair and begun:
            pairs[-1].pop()  # what stood between the two
            pairs.append([])
        begun = begun or is_pair
        pairs[-1].append(piece)
    return ["".join(pieces) for pieces in pairs]


def _search(pattern: str, where: str = "") -> Wish | None:
    found = path(where)
    if found is None:
        return None
    return call("search_files", pattern=unquoted(pattern), **({"path": found} if found else {}))


def _ask(rest: str) -> Wish:
    """Options come behind the last colon or question mark."""
    match = re.fullmatch(r"(.*[:?])\s+(.+)", rest, re.DOTALL)
    split = rf",\s+(?:or\s+)?|{_BLANK}or\s+|\n"
    labels = [one.strip(" \t-*•?.!") for one in re.split(split, match[2])] if match else []
    options = [{"label": unquoted(label)} for label in dict.fromkeys(labels) if label]
    question: dict[str, Any] = {"question": rest or "Which colour do you like best?"}
    if not rest:
        question["options"] = [{"label": colour} for colour in ("Red", "Green", "Blue")]
    elif match is not None and len(options) > 1:
        question = {"question": match[1].removesuffix(":"), "options": options[:MAX_OPTIONS]}
    if re.search(r"\bseveral\b", rest):
        question["multiple"] = True
    return call("ask_user", questions=[question])


def _call(tool: str, given: str) -> Wish | None:
    """Any tool: JSON goes as it was typed, else there are `key=value` pairs or nothing."""
    if given.startswith("{"):
        return Calls((Use(tool, given),))
    pair = r"""(?<![\w.-])([\w.-]++)=("[^"]*"|'[^']*'|[^\s,)]*)[\s,]*+"""
    if re.sub(pair, "", given).strip(" .)"):
        return None
    return call(tool, **{name: _value(text) for name, text in re.findall(pair, given)})


def _value(text: str) -> object:
    if text[:1] in ('"', "'"):
        return text[1:-1]
    plain = r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?|true|false|null"
    return json.loads(text) if re.fullmatch(plain, text, re.ASCII) else text


_MANY: Final = Calls(
    (
        Use("list_files", '{"path": "."}'),
        Use("read_file", '{"path": "README.md"}'),
        Use("search_files", '{"pattern": "TODO"}'),
    )
)
_NO_SUCH_TOOL: Final = Calls((Use("no_such_tool", "{}"),), anyway=True)


# --- Words, time and trouble --------------------------------------------------------------------


def _say(text: str) -> Wish | None:
    meant = unquoted(text)
    return Words(meant, exact=True) if meant.strip() else None


def _long(count: str) -> Wish:
    number = int(count.replace(",", "") or 500)
    return Words(long(max(1, min(number, MAX_WORDS))), exact=True)


def _think(about: str, steps: str) -> Wish:
    return Think(about, int(steps or 0) or 3)


def _wait(count: str, unit: str) -> Wish:
    seconds = {"": 1, "s": 1, "m": 60, "h": 3_600}[unit[:1].lower()]
    return Wait(min(float(count or 5) * seconds, MAX_WAIT))


_OFTEN: Final = r"\b(?:(\d{1,3}|two|three|four|five) times?|once|twice|for good|always)\b"
_COUNTS: Final = {"once": 1, "twice": 2, "two": 2, "three": 3, "four": 4, "five": 5}
_KINDS: Final[Mapping[str, FailureKind]] = {
    **{kind: kind for kind in FAILURES},
    **{str(status): kind for kind, status in FAILURES.items() if status is not None},
    "": "server",
    "cut": "stream_cut",
    "silence": "stream_silent",
    "empty": "empty_response",
    "nothing": "empty_response",
    "overflow": "context_overflow",
}


def _fail(rest: str) -> Wish:
    """What stands behind `fail`: how often, and with what."""
    said = rest.lower()
    often = re.search(_OFTEN, said)
    words = re.findall(r"[a-z0-9]+", re.sub(_OFTEN, "", said, count=1))
    fillers = ("with", "a", "an", "the", "error", "answer")
    kind = _KINDS.get("_".join(word for word in words if word not in fillers))
    if kind is None:
        return Unknown(f"fail {rest}", f"I can fail with: {', '.join(FAILURES)}.")
    if often is None:  # what nobody tries again fails for good
        again = FAILURE_KINDS[kind].retryable or kind == "context_overflow"
        return Fail(kind, 1 if again else None)
    count = often[1] or often[0]
    return Fail(kind, int(count) if count.isdecimal() else _COUNTS.get(count))


# --- The table ----------------------------------------------------------------------------------

PHRASES: Final[tuple[tuple[str, str, Callable[..., Wish | None]], ...]] = (
    # First words, what stands behind them (a blank is any white space), and what makes a wish of
    # the groups. The first row that fits and makes one is taken.
    ("help ? commands", "", Help),
    ("what", "can (?:you|i) (?:do|ask)|do you understand", Help),
    ("hello hi hey", "(?:there|demo)?", lambda: Words(HELLO)),
    ("who what", "are you", lambda: Words(HELLO)),
    ("list ls", "(.*)", _list),
    ("what which", "files are (?:here|there|in (.+))", _list),
    ("markdown", "(?:sample|example)?", lambda: Words(MARKDOWN, exact=True)),
    ("show", "(?:me )?(?:some )?markdown", lambda: Words(MARKDOWN, exact=True)),
    ("read open cat view show", "(.+)", _read),
    (
        "write save put create",
        r"(.+?)(?::| with| containing|(?=\n))(?: the (?:text|content|following)\b)?:?(?:\s(.*))?",
        _write,
    ),
    ("write save put", "(.+) (?:to|into|in) (.+)", lambda text, file: _write(file, text)),
    ("create", "(.+)", lambda file: _write(file, "")),
    ("replace", "(.+) in (.+)", lambda text, file: _edit(text, file, r"\swith\s")),
    ("change", "(.+) in (.+)", lambda text, file: _edit(text, file, r"\sto\s")),
    ("edit", r"(\S+?)[:,]? (.+)", lambda file, text: _edit(text, file, r"\s?(?:->|=>|→)\s?")),
    ("search grep find", "(?:for )?(.+) in (.+)", _search),
    ("search grep find", "(?:for )?(.+)", _search),
    ("run execute $", "(?:the command )?(.+)", lambda it: call("execute", command=unquoted(it))),
    ("ask", r"(?:me|the user)\b[\s,:]*(.*)", _ask),
    ("use call try", "(?:many|several|all)(?: the)? tools(?: at once| together)?", lambda: _MANY),
    ("call use", "an unknown tool", lambda: _NO_SUCH_TOOL),
    ("bad", r"arguments(?: for (\S+))?", lambda tool: Calls((Use(tool, '{"not": "JSON", '),))),
    ("wrong", r"arguments(?: for (\S+))?", lambda tool: call(tool, no_such_field=True)),
    ("call use", r"(?:the tool )?[`'\"]?([\w.:/-]*\w)[`'\"]?[\s(]*+(?:with\s+)?(.*)", _call),
    ("say echo repeat", "(?:after me:? )?(.+)", _say),
    ("long", r"(?:answer|text)(?: (?:of|with))?(?: (\d[\d,]{0,9}) words?)?", _long),
    ("think", r"(?:hard )?(?:about )?(.*?)(?:(?: |^)for (\d\d?) steps?)?", _think),
    ("plan", "(.*)", lambda about: Words(plan(about))),
    ("make", "a plan(?: for)?(.*)", lambda about: Words(plan(about))),
    (
        "wait sleep pause",
        r"(?:for )?(?:(\d{1,6}(?:\.\d{1,3})?) ?(s|sec|seconds?|m|min|minutes?|h|hours?)?)?",
        _wait,
    ),
    ("fail", "(.{0,200})", _fail),
    ("cut", "(?:off)?", lambda: Fail("stream_cut", 1)),
    ("empty", "(?:answer)?", lambda: Fail("empty_response", 1)),
    ("silence", "", lambda: Fail("stream_silent", 1)),
    ("be", "silent", lambda: Fail("stream_silent", 1)),
)


def _rows() -> dict[str, list[tuple[str, Callable[..., Wish | None]]]]:
    found: dict[str, list[tuple[str, Callable[..., Wish | None]]]] = {}
    for verbs, pattern, make in PHRASES:
        for verb in verbs.split():
            row = (f"(?:{pattern.replace(' ', _BLANK)}){_END}", make)
            found.setdefault(verb, []).append(row)
    return found


_ROWS: Final = _rows()


# --- A prompt -----------------------------------------------------------------------------------

_OPEN: Final = _vocabulary(
    "say echo repeat write save put create replace change edit search grep find run execute $ ask"
    " think plan call use"
)
"""First words of phrases that any text can belong to, also text that looks like a joint."""
_THEN: Final = r"(?<!\s)[,;.]?\s*+(?:\band\s+)?\b(?:then|after that|finally)\b[,:]?\s+"
_JOINT: Final = rf"{_THEN}|;(?:\s+|$)|(?:^|\n)[ \t]*+(?:[-*•]|\d{{1,3}}[.)])[ \t]+|\n"
_HIDDEN: Final = (  # code, quotes, and the text of a file that goes on to the end
    r"```.*?(?:```|\Z)|`[^`\n]*`|\"[^\"\n]*\""
    r"|\b(?:write|save|create)\b[^\n]{0,200}:[ \t]*\n(?!\s*```).*"
)


def wishes(prompt: str) -> tuple[Wish, ...]:
    """Everything that a prompt asks for, in order. What is not understood is among it."""
    found: list[Wish] = []
    for piece in filter(None, map(str.strip, _pieces(prompt))):
        meant = understood(piece)
        if meant or not piece.endswith(":"):  # else it is what stands above a list
            found += meant or (Unknown(piece),)
    if all(isinstance(wish, Unknown) and not wish.hint for wish in found):
        return (Unknown(prompt.strip()),)
    return tuple(found)


def _pieces(prompt: str) -> Iterator[str]:
    """The prompt, cut at each joint behind which something new begins."""
    hidden = re.sub(_HIDDEN, lambda match: "x" * len(match[0]), prompt, flags=_FLAGS)
    joints = list(islice(re.finditer(_JOINT, hidden, re.IGNORECASE), MAX_REQUESTS + 1))
    joints = joints if len(joints) <= MAX_REQUESTS else []
    ends = [*(joint.start() for joint in joints[1:]), len(prompt)]
    start = 0
    for joint, end in zip(joints, ends, strict=False):
        head = prompt[start : joint.start()]
        if not _goes_on(head, joint[0], prompt[joint.end() : end]):
            yield head
            start = joint.end()
    yield prompt[start:]


def _goes_on(head: str, joint: str, piece: str) -> bool:
    """Whether what stands behind a joint belongs to what stands before it."""
    verb = _parted(head)[1]
    if verb in ("run", "execute", "$") and joint.startswith(";"):
        return True  # of the shell's, until a `then`
    return (verb in _OPEN or joint == "\n") and not understood(piece)
