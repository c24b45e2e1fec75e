"""Asking somebody at a terminal what a run waits for: approvals, answers, results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Final, Literal, Protocol

from holdfast.agent import Resolution, approve
from holdfast.cli import wording
from holdfast.cli.terminal import safe
from holdfast.kernel.decide import Approved
from holdfast.kernel.errors import FormatError
from holdfast.kernel.events import Action
from holdfast.kernel.tool import Deny
from holdfast.tools import ask_user
from holdfast.tools.ask_user import Answer, Question

Answers = Literal[
    "ask",  # somebody at the terminal decides
    "yes",  # everything is approved
    "deny",  # nothing is
]
"""What is said to approvals. Questions are asked at the terminal, or not at all."""

SUMMARY: Final = 100
"""Characters of arguments beside a preview that shows what they come to."""
EMPTY: Final = "Nothing was said. Say nothing again to leave it unanswered."


class Terminal(Protocol):
    """Where somebody sits: see `Tty`."""

    def write(self, text: str) -> None: ...

    async def ask(self, question: str) -> str | None:
        """The line that answers; None when the input has ended."""


class _Nobody(Exception):
    """Whoever was asked ended the input instead."""


class Asker:
    """Answers what runs wait for, one action after the other."""

    def __init__(
        self,
        terminal: Terminal | None,
        answers: Answers,
        note: Callable[[str], None],
        *,
        previews_seen: bool = False,
        within: Literal["run", "chat"] = "run",
    ) -> None:
        """`note` takes a line for whoever watches; `previews_seen`: they also saw all previews.

        `within`: how long it holds when somebody says always.
        """
        self._terminal = terminal
        self._answers = answers
        self._note = note
        self.previews_seen = previews_seen
        """Whoever watches has just seen what the calls would do."""
        self._within = within
        self._always: set[str] = set()
        """Tools that need no more approval."""
        self._approved: set[str] = set()
        """Calls that were approved. One that comes back wants to run with other arguments."""

    @property
    def always(self) -> frozenset[str]:
        """Tools that somebody has allowed for good."""
        return frozenset(self._always)

    async def resolve(self, actions: Sequence[Action]) -> dict[str, Resolution]:
        """What to tell a run, by call id. What is not in it was answered by nobody.

        Whoever ends the input (Ctrl-D) takes back what they said to the other actions, too.
        """
        said: dict[str, Resolution] = {}
        always = frozenset(self._always)
        # Of several, the first previews are far up by now.
        seen = self.previews_seen and len(actions) == 1
        try:
            for action in actions:
                answer = await self._answer(action, seen)
                if answer is not None:
                    said[action.call.id] = answer
        except _Nobody:
            self._always.intersection_update(always)
            return {}
        self._approved |= {id for id, answer in said.items() if isinstance(answer, Approved)}
        return said

    async def _answer(self, action: Action, seen: bool) -> Resolution | None:
        if action.kind == "child":
            return None  # it comes to its end without anybody's help
        if action.kind == "approval":
            return await self._approval(action, seen)
        if self._terminal is None:
            return None
        asked = _questions(action)
        if asked is None:
            return await self._result(self._terminal, action)
        answers = [await self._question(self._terminal, question) for question in asked]
        return ask_user.answered(asked, answers)

    async def _approval(self, action: Action, seen: bool) -> Resolution | None:
        tool = action.call.tool
        again = action.call.id in self._approved
        if self._answers == "deny":
            return Deny("denied by --deny")
        if self._answers == "yes":
            return Deny("its arguments were others each time") if again else approve(action)
        if tool in self._always and not (again or action.again):
            self._note(f"{tool} is allowed, as you said before.")
            return approve(action)
        if self._terminal is None:
            return None
        self._terminal.write(wanted(action, seen))
        match (said := await self._decision(self._terminal, action, seen)).lower():
            case "y" | "yes":
                return approve(action)
            case "n" | "no":
                return Deny("they gave no reason")
            case "a" | "always" if not action.again:
                self._always.add(tool)
                return approve(action)
            case _:
                return Deny(said)

    async def _decision(self, terminal: Terminal, action: Action, seen: bool) -> str:
        """What somebody says to a call, once they have seen as much of it as they want."""
        preview = action.preview or ""
        view = "[v]iew all of it, " if seen and not wording.seen_whole(preview) else ""
        tool = safe(action.call.tool)
        always = "" if action.again else f"[a]lways for {tool} in this {self._within}, "
        question = f"Allow? [y]es, [n]o, {always}{view}or say what to do instead: "
        while (said := await _something(terminal, question)).lower() in ("v", "view"):
            terminal.write(_quoted(preview) if preview.strip() else laid_out(action.arguments))
        return said

    async def _question(self, terminal: Terminal, question: Question) -> Answer:
        """What does not answer it is asked for once more, and then taken as it is."""
        terminal.write(listed(question))
        ask = _how_to_answer(question)
        answer = understood(question, await _line(terminal, ask))
        if isinstance(answer, str):
            terminal.write(f"{answer}\n")
            said = await _line(terminal, ask)
            answer = understood(question, said)
            return Answer(text=said.strip()) if isinstance(answer, str) else answer
        return answer

    async def _result(self, terminal: Terminal, action: Action) -> str:
        terminal.write(
            f"\n{safe(action.call.tool)} wants an answer to:\n{laid_out(action.arguments)}"
        )
        return await _something(terminal, "Your answer: ")


async def _line(terminal: Terminal, question: str) -> str:
    line = await terminal.ask(question)
    if line is None:
        raise _Nobody
    return line


async def _something(terminal: Terminal, question: str) -> str:
    """A line that is not empty."""
    while not (said := (await _line(terminal, question)).strip()):
        pass
    return said


# --- What is shown ------------------------------------------------------------------------------


def wanted(action: Action, preview_seen: bool) -> str:
    """What somebody is asked to approve: all of it, unless they have just seen it."""
    return _what(action, preview_seen) + (
        _LOST.format(safe(action.call.tool)) if action.again else ""
    )


_LOST: Final = (
    "{} was begun before, and may have been done: allow it only if it was not, "
    "or if twice does no harm.\n"
)


def _what(action: Action, preview_seen: bool) -> str:
    tool = safe(action.call.tool)
    preview = action.preview or ""
    if not preview.strip():  # there was nothing to see
        return f"\n{tool} wants to run with:\n{laid_out(action.arguments)}"
    if preview_seen:
        return "\n"
    brief = safe(action.arguments)
    brief = brief if len(brief) <= SUMMARY else f"{brief[: SUMMARY - 1]}…"
    return f"\n{tool} wants to run: {brief}\n{_quoted(preview)}"


def laid_out(arguments: str) -> str:
    """Arguments for people, a line or more for each; nothing in them looks like another."""
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):  # more than we can walk
        return _quoted(arguments)
    shown = []
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        one_line = "\n" not in safe(text)
        shown.append(
            f"  {_flat(name)}:" + (f" {safe(text)}\n" if one_line else f"\n{_quoted(text)}")
        )
    return "".join(shown) or "  nothing\n"


def listed(question: Question) -> str:
    """A question with its options."""
    header = f"{_flat(question.header)}: " if question.header.strip() else ""
    options = [
        f"  {number}. {_flat(option.label)}"
        + (f" ({_flat(option.description)})" if option.description.strip() else "")
        for number, option in enumerate(question.options, 1)
    ]
    return "\n".join(["", f"{header}{safe(question.question)}", *options, ""])


def _how_to_answer(question: Question) -> str:
    if not question.options:
        return "Your answer: "
    numbers = "Numbers with commas between them" if question.multiple else "A number"
    return f"{numbers}, or your own words: "


def _quoted(text: str) -> str:
    return "".join(f"  | {line}\n" for line in safe(text).split("\n"))


def _flat(text: str) -> str:
    return safe(" ".join(text.split()))


# --- What is said -------------------------------------------------------------------------------


def understood(question: Question, line: str) -> Answer | str:
    """What somebody means by a line; or, when it can hardly be what they mean, why."""
    said = line.strip()
    if not said:
        return EMPTY
    labels = {_key(option.label): option.label for option in question.options}
    if _key(said) in labels:
        return Answer((labels[_key(said)],))
    numbers = _numbers(said)
    if question.options and numbers:
        count = len(question.options)
        if not all(1 <= number <= count for number in numbers):
            return f"The options have numbers from 1 to {count}. Say the same again to mean it."
        if len(numbers) > 1 and not question.multiple:
            return "Only one of them can be chosen. Say the same again to mean it."
        return Answer(tuple(question.options[number - 1].label for number in numbers))
    named = [_key(piece) for piece in said.split(",")]
    if question.multiple and all(name in labels for name in named):
        return Answer(tuple(labels[name] for name in dict.fromkeys(named)))
    return Answer(text=said)


def _key(label: str) -> str:
    return " ".join(label.split()).casefold()


def _numbers(said: str) -> tuple[int, ...]:
    """Each once, in the order they were said; none when there is anything else, too."""
    pieces = re.split(r"[,\s]+", said.strip(", "))
    if not all(piece.isascii() and piece.isdigit() and len(piece) < 4 for piece in pieces):
        return ()
    return tuple(dict.fromkeys(map(int, pieces)))


def _questions(action: Action) -> Sequence[Question] | None:
    """The questions of `ask_user`; None for a tool of somebody else's."""
    if action.call.tool != ask_user.NAME:
        return None
    try:
        return ask_user.questions(action.arguments)
    except FormatError:  # a tool of theirs that has the same name
        return None
