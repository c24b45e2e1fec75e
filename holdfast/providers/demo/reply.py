"""Decides what one answer says and does: the parts of a prompt, up to its next calls. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from holdfast.kernel.errors import FailureKind
from holdfast.kernel.messages import Reasoning, Text, ToolCall, Value
from holdfast.kernel.model import EFFORTS, Request, ToolSpec
from holdfast.providers.demo import texts
from holdfast.providers.demo.parser import (
    INTRODUCTION,
    NO_SUCH_TOOL,
    FailedAttempts,
    Help,
    Pause,
    ReplyParts,
    Slow,
    parse,
)
from holdfast.providers.demo.request_progress import Progress, progress, title_or_summary
from holdfast.providers.demo.schema_example import example


class Task(Value, frozen=True):
    """The parts of one answer, and the calls at its end."""

    parts: ReplyParts
    calls: tuple[ToolCall, ...] = ()
    slow: bool = False
    progress: Progress = Progress(first=False)

    @property
    def key(self) -> str:
        """The same for each attempt at this task."""
        return f"{self.progress.steps} {self.progress.prompt}"

    def failure(self, attempt: int) -> FailureKind | None:
        """How an attempt fails; several failures of a task follow one another."""
        for part in self.parts:
            if isinstance(part, FailedAttempts):
                if part.count is None or attempt <= part.count:
                    return part.kind
                attempt -= part.count
        return None


def task_of(request: Request) -> Task:
    if (text := title_or_summary(request)) is not None:
        return Task((Text(text),))
    now = progress(request.messages)
    tasks = [*tasks_of(now, request.tools)]
    return tasks[min(now.steps, len(tasks) - 1)]


def tasks_of(now: Progress, tools: Sequence[ToolSpec]) -> Iterator[Task]:
    """One task for each answer of the turn. All but the last make calls."""
    names = [tool.name for tool in tools]
    phrases = parse(now.prompt) if now.prompt.strip() else ()
    parts: ReplyParts = tuple(Text(texts.describe(file)) for file in now.files)
    if not phrases and not parts:
        parts = (Text(texts.HELLO),)
    slow = False
    for phrase in phrases:
        wanted = [part for part in phrase if isinstance(part, ToolCall)]
        named = [ToolCall("", each.tool or "".join(names[:1]), each.arguments) for each in wanted]
        calls = tuple(each for each in named if each.tool in (*names, NO_SUCH_TOOL))
        parts += tuple(part for part in phrase if not isinstance(part, ToolCall))
        slow = slow or Slow() in phrase
        if calls:
            sentences = (Text(texts.announce(each)) for each in calls)
            yield Task((*parts, *sentences), calls, slow, now)
            parts = ()
        elif wanted:
            parts += (Text(texts.missing(wanted[0].tool, tools)),)
    yield Task(parts, (), slow, now)


def reply(task: Task, request: Request, attempt: int) -> Iterator[Text | Reasoning | Pause]:
    """Everything before the calls of a task: reasoning, then text with pauses."""
    content: list[Text | Pause] = [Text(texts.report(*each)) for each in task.progress.outcomes]
    thoughts: list[Reasoning] = []
    for part in task.parts:
        match part:
            case Reasoning():
                thoughts.append(part)
            case Help():
                content.append(Text(texts.help_text(request.tools)))
            case FailedAttempts():
                content.append(Text(f"Attempt {attempt} went through."))
            case Text() | Pause() if part != INTRODUCTION:
                content.append(part)
    introduced = any(isinstance(part, Text) and texts.SPEECH in part.text for part in content)
    if INTRODUCTION in task.parts and task.progress.first and not introduced:
        content.insert(0, INTRODUCTION)
    if request.output is not None and not task.calls:
        content = [part for part in content if isinstance(part, Pause)]
        content.append(Text(output(task, request.output.schema)))
    if request.effort is not None and not thoughts:
        about = "which tool to call" if task.calls else "what to say"
        thoughts.append(Reasoning(texts.thoughts(about, EFFORTS.index(request.effort))))
    yield from thoughts if request.effort != "none" else ()
    yield from content or [Text("That is all.")]


def output(task: Task, schema: object) -> str:
    """JSON of the required form, or text that was asked for, unless a repair of it is required."""
    match task.parts[-2:]:
        case (*before, Text(text)) if INTRODUCTION not in before and texts.SPEECH not in text:
            return json.dumps(example(schema)) if task.progress.repair else text
        case _:
            return json.dumps(example(schema))
