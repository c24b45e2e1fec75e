"""Computes the demo model's answer from the request and the number of failures so far. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, Union, assert_never

from holdfast.kernel.errors import FailureKind
from holdfast.kernel.messages import Value
from holdfast.kernel.model import EFFORTS, Request, ToolSpec
from holdfast.kernel.title import is_title_request
from holdfast.providers.demo import texts
from holdfast.providers.demo.example import example
from holdfast.providers.demo.history import Turn, is_summary, summary, title, turn_of
from holdfast.providers.demo.intents import (
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
from holdfast.providers.demo.parser import as_json, wishes
from holdfast.providers.demo.texts import SPEECH


class Thoughts(Value, frozen=True):
    """Reasoning."""

    text: str


class Failure(Value, frozen=True):
    """The answer ends here, and not well."""

    kind: FailureKind
    attempt: int


Item: TypeAlias = Union[Words, Thoughts, Wait, Use, Failure]


class Answer(Value, frozen=True):
    """An answer, before it is spelled out."""

    items: tuple[Item, ...]
    slow: bool = False
    said: str = ""
    """What of the words was heard already: an earlier answer was cut by its length."""


class Task(Value, frozen=True):
    """What one answer does: some wishes of a turn, the last of which may call tools."""

    turn: Turn
    wishes: tuple[Wish, ...]
    uses: tuple[Use, ...] = ()
    slow: bool = False

    @property
    def fail(self) -> Fail | None:
        """The first failure that is asked for."""
        return next((wish for wish in self.wishes if isinstance(wish, Fail)), None)


def task_of(request: Request) -> Task | None:
    """What a request asks for next; None for a summary or a title."""
    if is_summary(request) or is_title_request(request):
        return None
    turn = turn_of(request.messages)
    tasks = list(_tasks(turn, request.tools))
    return tasks[min(turn.done, len(tasks) - 1)]


def answer(request: Request, task: Task | None, failed: int = 0) -> Answer:
    """The answer. `failed`: how many attempts at this task did, as they were asked to."""
    if task is None:
        return Answer((Words(title(request) if is_title_request(request) else summary(request)),))
    failure = _failure(task, failed)
    if failure is not None:
        half = (Words("This answer breaks off in the middle of"),)
        return Answer((*half, failure) if failure.kind == "stream_cut" else (failure,), task.slow)
    items = (*_thoughts(request, task), *_content(request, task, failed))
    return Answer(items, task.slow, task.turn.said)


# --- What comes next ----------------------------------------------------------------------------


def _tasks(turn: Turn, tools: Sequence[ToolSpec]) -> Iterator[Task]:
    """Each answer that this turn takes: a call ends one, and the last has none."""
    asked = wishes(turn.text) if turn.text.strip() else ()
    files = tuple(Words(texts.seen(file)) for file in turn.files)
    together: list[Wish] = []
    slow = False
    for wish in (*files, *asked) or (Words(texts.HELLO),):
        together.append(wish)
        slow = slow or isinstance(wish, Slow)
        uses = _offered(wish, tools) if isinstance(wish, Calls) else ()
        if uses:
            yield Task(turn, tuple(together), uses, slow)
            together = []
    yield Task(turn, tuple(together), (), slow)


def _offered(wish: Calls, tools: Sequence[ToolSpec]) -> tuple[Use, ...]:
    """The calls that can be made with these tools."""
    names = [tool.name for tool in tools]
    named = (use if use.tool or not names else Use(names[0], use.arguments) for use in wish.uses)
    return tuple(use for use in named if wish.anyway or use.tool in names)


def _failure(task: Task, failed: int) -> Failure | None:
    """How this attempt fails, when it does: each wish to fail has its attempts, in order."""
    before = 0
    for wish in task.wishes:
        if isinstance(wish, Fail):
            if wish.times is None or failed < before + wish.times:
                return Failure(wish.kind, failed + 1)
            before += wish.times
    return None


# --- What is said -------------------------------------------------------------------------------


def _thoughts(request: Request, task: Task) -> Iterator[Item]:
    """Reasoning: as much as is asked for, and none when the effort is none."""
    if request.effort == "none":
        return
    asked = [wish for wish in task.wishes if isinstance(wish, Think)]
    for wish in asked:
        yield Thoughts(texts.thoughts(texts.shortened(wish.about, 100), wish.steps))
    if request.effort is not None and not asked:
        about = "a call of a tool" if task.uses else "an answer in words"
        yield Thoughts(texts.thoughts(about, EFFORTS.index(request.effort)))


def _content(request: Request, task: Task, failed: int) -> Iterator[Item]:
    items = list(_items(request, task, failed))
    if request.output is not None and not task.uses:
        yield from (item for item in items if isinstance(item, Wait))
        yield Words(_in_form(task, request.output.schema))
        return
    labelled = any(isinstance(item, Words) and SPEECH in item.text for item in items)
    if task.turn.first and not labelled and not all(map(_is_exact, task.wishes)):
        yield Words(SPEECH)
    yield from items
    yield from task.uses


def _is_exact(wish: Wish) -> bool:
    return wish.exact if isinstance(wish, Words) else isinstance(wish, (Slow, Wait))


def _in_form(task: Task, schema: object) -> str:
    """JSON of the form that is asked for. Words to say are said as they are, the first time."""
    last = task.wishes[-1] if task.wishes else None
    if isinstance(last, Words) and last.exact and not task.turn.repair:
        return last.text
    return as_json(example(schema))


def _items(request: Request, task: Task, failed: int) -> Iterator[Item]:
    news = [Words(text) for text in texts.told(task.turn.calls, task.turn.results)]
    yield from news
    for wish in task.wishes[: -1 if task.uses else None]:
        yield from _said(wish, request, failed)
    if task.uses:
        yield Words(texts.doing(task.uses))
    elif task.wishes and all(isinstance(wish, Slow) for wish in task.wishes):
        yield Words(f"I take my time. {texts.long(30)}")
    elif not task.wishes and not news:
        yield Words("That is all.")


def _said(wish: Wish, request: Request, failed: int) -> Iterator[Item]:
    match wish:
        case Words():
            yield wish
        case Help():
            yield Words(texts.help_text(request.tools))
        case Think(about, steps):
            what = f" about {texts.shortened(about, 100)}" if about else ""
            yield Words(f"I thought{what} for {steps} steps: there is nothing more to it.")
        case Slow():
            pass  # it is how the others are done
        case Wait(seconds):
            yield Words(f"I wait for {seconds:g} seconds.")
            yield wish
            yield Words("That was the wait.")
        case Fail():
            yield Words(f"Attempt {failed + 1} went through.")
        case Unknown(text, hint):
            what = f"I did not understand “{texts.shortened(text)}”."
            yield Words(" ".join(filter(None, (SPEECH, what, hint, texts.SAY_HELP))))
        case Calls(uses):
            yield Words(texts.missing(uses[0].tool, request.tools))
        case _:
            assert_never(wish)
