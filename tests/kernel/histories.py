"""Messages for tests, one short word for each kind, and strategies for whole histories."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from holdfast.kernel.limits import LimitReached
from holdfast.kernel.messages import (
    AskedBy,
    Checkpoint,
    Evaluation,
    File,
    FinishReason,
    Message,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    Usage,
    Visibility,
    injected,
    note,
    results_message,
)

IDS: Final = ("a", "b", "c", "d")
TOOLS: Final = ("read", "write", "ask")


def prompt(text: str = "Do it.", visibility: Visibility = "both") -> Message:
    return Message("user", (Text(text),), "prompt", visibility)


def call(id: str = "a", tool: str = "read", arguments: str = "{}") -> ToolCall:
    return ToolCall(id, tool, arguments)


def provider_call(id: str = "p") -> ToolCall:
    return ToolCall(id, "web_search", "{}", provider_executed=True)


def provider_result(id: str = "p", text: str = "found") -> ToolResult:
    return ToolResult(id, "web_search", (Text(text),), provider_executed=True)


def answer(
    *parts: str | Part,
    finish: FinishReason = "stop",
    usage: int | None = None,
    visibility: Visibility = "both",
) -> Message:
    """An answer of these parts; `usage` is what it and its request filled of the window."""
    return Message(
        "assistant",
        tuple(Text(part) if isinstance(part, str) else part for part in parts),
        "answer",
        visibility,
        finish,
        None if usage is None else Usage(input=usage),
    )


def result(
    id: str = "a",
    outcome: ToolOutcome = "ok",
    *,
    tool: str = "read",
    text: str = "done",
    stops: bool = False,
    expected: bool = False,
) -> ToolResult:
    return ToolResult(id, tool, (Text(text),), outcome, stops, expected=expected)


def results(*made: str | ToolResult) -> Message:
    """Results; one that is only an id went well."""
    return results_message([result(one) if isinstance(one, str) else one for one in made])


def marker(text: str = "[The user interrupted.]") -> Message:
    return Message("user", (Text(text),), "marker", "model")


def context(text: str = "Use tabs.") -> Message:
    return Message("user", (Text(text),), "context", "model")


def instructions(text: str = "It is Monday.") -> Message:
    """Evaluated instructions of an agent with one function."""
    evaluation = Evaluation("agent", (1,))
    return Message("system", (Text(text),), "instructions", "model", evaluation=evaluation)


def checkpoint(
    covers: int = 0,
    *,
    text: str = "Summary.",
    trims: int | None = None,
    before: int = 1_000,
    after: int = 100,
    summarized: bool = True,
    pinned: int | None = None,
    asked_by: AskedBy | None = None,
    context: tuple[int, ...] = (),
    context_tokens: int = 1_000,
) -> Message:
    cut = Checkpoint(
        covers,
        covers if trims is None else trims,
        before,
        after,
        summarized,
        pinned,
        asked_by,
        context,
        context_tokens,
    )
    parts = (Text(text),) if text else ()
    return Message("user", parts, "checkpoint", "model", checkpoint=cut)


# --- Strategies ---------------------------------------------------------------------------------

OUTCOMES: Final[tuple[ToolOutcome, ...]] = (
    "ok",
    "failed",
    "refused",
    "skipped",
    "interrupted",
    "edited",
    "forked",
    "lost",
    "timed_out",
)
FINISHES: Final[tuple[FinishReason, ...]] = (
    "stop",
    "tool_calls",
    "length",
    "content_filter",
    "interrupted",
    "error",
)

ids: Final = st.sampled_from(IDS)
tools: Final = st.sampled_from(TOOLS)
words: Final = st.sampled_from(("", "yes", "a longer text of several words", "語" * 20, "x" * 300))
shown: Final[st.SearchStrategy[Visibility]] = st.sampled_from(("both", "both", "both", "user"))

times: Final = st.none() | st.integers(0, 9).map(lambda second: second * 1_000_000)

calls: Final = st.builds(ToolCall, ids, tools, st.just("{}"))
made_results: Final = st.builds(
    ToolResult,
    ids,
    tools,
    st.tuples(st.builds(Text, words)),
    st.sampled_from(OUTCOMES),
    st.booleans(),
    expected=st.booleans(),
    started_at=times,
    finished_at=times,
)
said: Final[st.SearchStrategy[Part]] = st.one_of(
    st.builds(Text, words),
    st.builds(Reasoning, words),
    st.builds(Source, st.just("https://example.org")),
    st.builds(File, st.just("image/png"), data=st.just(b"png")),
)
of_the_provider: Final[st.SearchStrategy[Part]] = st.one_of(
    st.builds(provider_call, ids), st.builds(provider_result, ids)
)
usages: Final = st.none() | st.builds(
    Usage,
    input=st.integers(0, 900),
    output=st.integers(0, 300),
    reasoning=st.integers(0, 50),
    cache_read=st.integers(0, 300),
    cache_write=st.integers(0, 300),
    cost=st.sampled_from((None, 0.25, 0.5)),
)

prompts: Final = st.builds(prompt, words, shown)
injections: Final = st.builds(
    injected, words, st.sampled_from((None, "recovery", "repair", "guard"))
)
answers: Final = st.builds(
    Message,
    st.just("assistant"),
    st.lists(said | calls | of_the_provider, max_size=4).map(tuple),
    st.just("answer"),
    shown,
    st.sampled_from(FINISHES),
    usages,
    runtime=st.sampled_from((None, 1_000, 2_000)),
)
result_messages: Final = st.lists(made_results, max_size=3).map(results_message)
asides: Final = st.one_of(
    st.builds(marker, words),
    st.builds(context, words),
    st.builds(instructions, words),
    st.builds(note, words, st.sampled_from((None, LimitReached("steps", "turn", 2, 2)))),
)
checkpoints: Final = st.builds(
    checkpoint,
    st.integers(0, 8),
    text=words,
    trims=st.integers(0, 8),
    after=st.integers(0, 1_500),
    summarized=st.booleans(),
    pinned=st.none() | st.integers(0, 8),
    context=st.lists(st.integers(0, 8), max_size=3, unique=True).map(sorted).map(tuple),
    context_tokens=st.integers(0, 200),
)

histories: Final[st.SearchStrategy[list[Message]]] = st.lists(
    st.one_of(
        prompts, injections, answers, answers, result_messages, result_messages, asides, checkpoints
    ),
    max_size=12,
)
"""Any sequence of messages, also such as no run would produce."""


@st.composite
def conversations(draw: st.DrawFn, turns: int = 3) -> list[Message]:
    """What a run may produce: every call has an id of its own, and a result before the next."""
    history: list[Message] = []
    numbers = iter(range(1_000))
    for _ in range(draw(st.integers(1, turns))):
        history.append(draw(st.builds(prompt, words)))
        for _ in range(draw(st.integers(0, 3))):
            history += _step(draw, numbers)
        if draw(st.booleans()):
            history.append(answer("All done.", usage=draw(st.none() | st.integers(0, 1_500))))
    return history


def _step(draw: st.DrawFn, numbers: Any) -> list[Message]:
    """One answer, the results of its calls in one message or in several, and what stands around."""
    asked = [call(f"call_{next(numbers)}", draw(tools)) for _ in range(draw(st.integers(0, 3)))]
    pair: list[Part] = [provider_call("p"), provider_result("p")] if draw(st.booleans()) else []
    usage = draw(st.none() | st.integers(0, 1_500))
    step = [answer(draw(words) or "Well.", *pair, *asked, usage=usage)]
    made = [
        result(
            one.id,
            draw(st.sampled_from(OUTCOMES)),
            tool=one.tool,
            text=draw(words),
            stops=draw(st.booleans()),
        )
        for one in draw(st.permutations(asked))
    ]
    while made:
        together = draw(st.integers(1, len(made)))
        step.append(results(*made[:together]))
        made = made[together:]
        if draw(st.booleans()):
            step.append(note("For people."))
    if draw(st.booleans()):
        step.append(draw(asides))
    if not asked:
        step.append(injected("Go on."))
    return step
