"""Asks the user at a terminal for pending approvals, answers and results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Final, Literal, Protocol

from holdfast.agent import Resolution, approve
from holdfast.cli import run_texts
from holdfast.kernel.decide import Approved
from holdfast.kernel.errors import FormatError
from holdfast.kernel.escape import escape
from holdfast.kernel.events import Action
from holdfast.kernel.tool import Deny
from holdfast.tools import ask_user
from holdfast.tools.ask_user import Question, UserAnswer

ApprovalMode = Literal[
    "ask",  # the user at the terminal decides
    "yes",  # approve everything
    "deny",  # deny everything
]
"""How approvals are resolved. Questions are asked at the terminal, or not at all."""

MAX_ARGUMENTS_SHOWN: Final = 100
"""Characters of arguments shown next to a preview."""
EMPTY_ANSWER: Final = "The answer is empty. Press Enter again to leave it unanswered."


class Terminal(Protocol):
    """The user's terminal: see `Tty`."""

    def write(self, text: str) -> None: ...

    async def ask(self, question: str) -> str | None:
        """Ask and return the line; None if the input has ended."""


class _InputEnded(Exception):
    """The user ended the input instead of answering."""


class Asker:
    """Resolves the actions a run waits for, one after the other."""

    def __init__(
        self,
        terminal: Terminal | None,
        answers: ApprovalMode,
        note: Callable[[str], None],
        *,
        previews_seen: bool = False,
        within: Literal["run", "chat"] = "run",
    ) -> None:
        """`note` prints a line for the user; `previews_seen`: the user has seen all previews.

        `within`: how long an "always" holds.
        """
        self._terminal = terminal
        self._answers = answers
        self._note = note
        self.previews_seen = previews_seen
        """Whether the user has just seen the previews of the calls."""
        self._within = within
        self._always: set[str] = set()
        """Tools that need no more approval."""
        self._approved: set[str] = set()
        """Ids of approved calls. A call that is asked again has other arguments."""

    @property
    def always(self) -> frozenset[str]:
        """Tools that the user has allowed for the rest of the run or chat."""
        return frozenset(self._always)

    async def resolve(self, actions: Sequence[Action]) -> dict[str, Resolution]:
        """Resolutions by call id. An action without one was left unanswered.

        Ending the input (Ctrl-D) also withdraws the answers to the other actions.
        """
        resolutions: dict[str, Resolution] = {}
        always = frozenset(self._always)
        # With several actions, the first previews have scrolled away.
        seen = self.previews_seen and len(actions) == 1
        try:
            for action in actions:
                answer = await self._answer(action, seen)
                if answer is not None:
                    resolutions[action.call.id] = answer
        except _InputEnded:
            self._always.intersection_update(always)
            return {}
        approved = {id for id, answer in resolutions.items() if isinstance(answer, Approved)}
        self._approved |= approved
        return resolutions

    async def _answer(self, action: Action, seen: bool) -> Resolution | None:
        if action.kind == "child":
            return None  # a child chat finishes by itself
        if action.kind == "approval":
            return await self._approval(action, seen)
        if self._terminal is None:
            return None
        questions = _questions(action)
        if questions is None:
            return await self._result(self._terminal, action)
        answers = [await self._question(self._terminal, question) for question in questions]
        return ask_user.answered(questions, answers)

    async def _approval(self, action: Action, seen: bool) -> Resolution | None:
        tool = action.call.tool
        again = action.call.id in self._approved
        if self._answers == "deny":
            return Deny("denied by --deny")
        if self._answers == "yes":
            return Deny("its arguments changed each time") if again else approve(action)
        if tool in self._always and not (again or action.again):
            self._note(f"{tool} is allowed, as you chose before.")
            return approve(action)
        if self._terminal is None:
            return None
        self._terminal.write(approval_text(action, seen))
        match (text := await self._decision(self._terminal, action, seen)).lower():
            case "y" | "yes":
                return approve(action)
            case "n" | "no":
                return Deny("they gave no reason")
            case "a" | "always" if not action.again:
                self._always.add(tool)
                return approve(action)
            case _:
                return Deny(text)

    async def _decision(self, terminal: Terminal, action: Action, seen: bool) -> str:
        """The user's decision on a call, after viewing as much of it as they want."""
        preview = action.preview or ""
        view = "[v]iew all of it, " if seen and not run_texts.seen_whole(preview) else ""
        tool = escape(action.call.tool)
        always = "" if action.again else f"[a]lways for {tool} in this {self._within}, "
        question = f"Allow? [y]es, [n]o, {always}{view}or type what to do instead: "
        while (text := await _something(terminal, question)).lower() in ("v", "view"):
            terminal.write(_quoted(preview) if preview.strip() else laid_out(action.arguments))
        return text

    async def _question(self, terminal: Terminal, question: Question) -> UserAnswer:
        """Ask once more if the line is not a valid answer, then accept it as it is."""
        terminal.write(question_text(question))
        ask = _how_to_answer(question)
        answer = parse_answer(question, await _line(terminal, ask))
        if isinstance(answer, str):
            terminal.write(f"{answer}\n")
            text = await _line(terminal, ask)
            answer = parse_answer(question, text)
            return UserAnswer(text=text.strip()) if isinstance(answer, str) else answer
        return answer

    async def _result(self, terminal: Terminal, action: Action) -> str:
        terminal.write(
            f"\n{escape(action.call.tool)} needs an answer to:\n{laid_out(action.arguments)}"
        )
        return await _something(terminal, "Your answer: ")


async def _line(terminal: Terminal, question: str) -> str:
    line = await terminal.ask(question)
    if line is None:
        raise _InputEnded
    return line


async def _something(terminal: Terminal, question: str) -> str:
    """Ask for a line that is not empty."""
    while not (text := (await _line(terminal, question)).strip()):
        pass
    return text


# --- What is shown ------------------------------------------------------------------------------


def approval_text(action: Action, preview_seen: bool) -> str:
    """The text of an approval: all of the call, unless the user has just seen it."""
    return _what(action, preview_seen) + (
        _LOST.format(escape(action.call.tool)) if action.again else ""
    )


_LOST: Final = (
    "{} was started before and may have completed: allow it only if it did not, "
    "or if running it twice does no harm.\n"
)


def _what(action: Action, preview_seen: bool) -> str:
    tool = escape(action.call.tool)
    preview = action.preview or ""
    if not preview.strip():  # no preview
        return f"\n{tool} wants to run with:\n{laid_out(action.arguments)}"
    if preview_seen:
        return "\n"
    brief = escape(action.arguments)
    brief = brief if len(brief) <= MAX_ARGUMENTS_SHOWN else f"{brief[: MAX_ARGUMENTS_SHOWN - 1]}…"
    return f"\n{tool} wants to run: {brief}\n{_quoted(preview)}"


def laid_out(arguments: str) -> str:
    """Arguments laid out for people, escaped, a line or more for each."""
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):  # nested too deeply
        return _quoted(arguments)
    shown = []
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        one_line = "\n" not in escape(text)
        shown.append(
            f"  {_flat(name)}:" + (f" {escape(text)}\n" if one_line else f"\n{_quoted(text)}")
        )
    return "".join(shown) or "  nothing\n"


def question_text(question: Question) -> str:
    """A question with its numbered options."""
    header = f"{_flat(question.header)}: " if question.header.strip() else ""
    options = [
        f"  {number}. {_flat(option.label)}"
        + (f" ({_flat(option.description)})" if option.description.strip() else "")
        for number, option in enumerate(question.options, 1)
    ]
    return "\n".join(["", f"{header}{escape(question.question)}", *options, ""])


def _how_to_answer(question: Question) -> str:
    if not question.options:
        return "Your answer: "
    numbers = "Numbers separated by commas" if question.multiple else "A number"
    return f"{numbers}, or your own answer: "


def _quoted(text: str) -> str:
    return "".join(f"  | {line}\n" for line in escape(text).split("\n"))


def _flat(text: str) -> str:
    return escape(" ".join(text.split()))


# --- What the user answers ----------------------------------------------------------------------


def parse_answer(question: Question, line: str) -> UserAnswer | str:
    """Parse a line as an answer; if it is likely a mistake, return why as text."""
    text = line.strip()
    if not text:
        return EMPTY_ANSWER
    labels = {_key(option.label): option.label for option in question.options}
    if _key(text) in labels:
        return UserAnswer((labels[_key(text)],))
    numbers = _numbers(text)
    if question.options and numbers:
        count = len(question.options)
        if not all(1 <= number <= count for number in numbers):
            return f"The options are numbered from 1 to {count}. Enter the same again to confirm."
        if len(numbers) > 1 and not question.multiple:
            return "Only one option can be chosen. Enter the same again to confirm."
        return UserAnswer(tuple(question.options[number - 1].label for number in numbers))
    named = [_key(piece) for piece in text.split(",")]
    if question.multiple and all(name in labels for name in named):
        return UserAnswer(tuple(labels[name] for name in dict.fromkeys(named)))
    return UserAnswer(text=text)


def _key(label: str) -> str:
    return " ".join(label.split()).casefold()


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers in a line, each once and in order; empty if there is any other text."""
    pieces = re.split(r"[,\s]+", text.strip(", "))
    if not all(piece.isascii() and piece.isdigit() and len(piece) < 4 for piece in pieces):
        return ()
    return tuple(dict.fromkeys(map(int, pieces)))


def _questions(action: Action) -> Sequence[Question] | None:
    """The questions of `ask_user`; None for any other tool."""
    if action.call.tool != ask_user.NAME:
        return None
    try:
        return ask_user.questions(action.arguments)
    except FormatError:  # a user's tool with the same name
        return None
