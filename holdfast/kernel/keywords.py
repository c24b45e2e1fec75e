"""Keyword arguments that do not exist: the error says what to write instead.

An argument of another library is answered with ours, a misspelt one with the nearest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from holdfast.kernel.errors import TooManyArguments, UnknownKeyword
from holdfast.kernel.suggest import nearest

MOST_NAMED: Final = 3
"""Arguments that the error for too many positional ones shows by name."""
_STEPS: Final = "limits=Limits(steps=…)"
_OTHER_STEPS: Final = (
    "max_turns",
    "max_iterations",
    "max_iter",
    "max_steps",
    "recursion_limit",
    "request_limit",
)
_RETRY: Final = "policy=Policy(retry=Retry(attempts=…))"
_REPAIRS: Final = "policy=Policy(repairs=…) for answers of a wrong type"
_EVENTS: Final = "`async for event in agent.run(…)`, or observer=…"
_PROVIDER: Final = "holdfast.open(…, deps=provider), a function of the chat's ChatInfo"
_SETTINGS: Final = {
    name: f"settings=Settings({name}=…)"
    for name in (
        "temperature",
        "top_p",
        "top_k",
        "presence_penalty",
        "frequency_penalty",
        "seed",
        "stop",
        "tool_choice",
        "parallel_tool_calls",
    )
}
_TOOL: Final[Mapping[str, str]] = {
    "name_override": "name=…",
    "description_override": "description=…",
    **dict.fromkeys(("requires_approval", "needs_approval", "require_approval"), "approval='ask'"),
    **dict.fromkeys(("parameters", "args_schema", "input_schema", "json_schema"), "schema=…"),
    **dict.fromkeys(("retries", "max_retries"), "raise ToolFailed(…): the model tries again"),
    **dict.fromkeys(("readonly", "read_only", "pure"), "effect='pure'"),
    "idempotent": "effect='idempotent'",
    **dict.fromkeys(("return_direct", "end_turn"), "stop_after=True"),
    "sequential": "parallel=False",
}
_RUN: Final[Mapping[str, str]] = {
    **dict.fromkeys(("input", "user_prompt", "message", "query"), "prompt=…"),
    **dict.fromkeys(("message_history", "messages"), "history=result.history"),
    **dict.fromkeys(_OTHER_STEPS, _STEPS),
    **dict.fromkeys(("usage_limits", "usage_limit", "limit"), "limits=Limits(…)"),
    **dict.fromkeys(
        ("model", "tools", "instructions", "output", "effort", "settings", "policy"),
        "agent.replace(…).run(…), which changes the agent for one run",
    ),
    **dict.fromkeys(("output_type", "result_type"), "agent.replace(output=…).run(…)"),
    "model_settings": "agent.replace(settings=Settings(…)).run(…)",
    "usage": "within=context in a tool, or limits=limits.minus(result) after another run",
    "deferred_tool_results": "resolve={call id: answer}",
    "event_stream_handler": "`async for event in agent.run(…)`, or Agent(observer=…)",
    "deps_type": "Agent(deps_type=…), and deps=… here",
    "stream": "`async for event in agent.run(…)`, or agent.stream_sync(…)",
    "session": "history=…, or a durable chat of holdfast.open(…)",
}

FOREIGN_KEYWORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "Agent": {
        **dict.fromkeys(("system_prompt", "system", "system_message"), "instructions=…"),
        "prompt": "instructions=…, or pass the prompt to agent.run(…)",
        **dict.fromkeys(
            ("output_type", "result_type", "response_format", "response_model", "output_schema"),
            "output=…",
        ),
        **dict.fromkeys(
            ("retries", "max_retries"), f"{_REPAIRS}, or {_RETRY} for failed model calls"
        ),
        **dict.fromkeys(("output_retries", "result_retries"), _REPAIRS),
        "tool_retries": f"{_REPAIRS}; the model reads why a call failed, and may call again",
        "end_strategy": "stop_after=True of a tool, or leave it out: all calls of an answer run",
        "instrument": "holdfast.instrument(…) once in the program, or observer=…",
        "event_stream_handler": _EVENTS,
        "capabilities": "tools=[…], provider_tools=[…], instructions=[…] and hooks",
        "prepare_tools": "active=…, a function that returns the names of the tools",
        "tool_timeout": "@tool(timeout=…)",
        "max_concurrency": "policy=Policy(calls=Calls(concurrency=…))",
        "deps": "deps_type=…, and pass the deps to agent.run(…, deps=…)",
        **dict.fromkeys(_OTHER_STEPS, _STEPS),
        **dict.fromkeys(("usage_limits", "usage_limit", "budget"), "limits=Limits(…)"),
        **dict.fromkeys(("max_budget", "max_cost", "max_budget_usd"), "limits=Limits(cost=…)"),
        **dict.fromkeys(("functions", "toolsets"), "tools=[…]"),
        "builtin_tools": "provider_tools=[ProviderTool(…)]",
        "model_settings": "settings=Settings(…)",
        **_SETTINGS,
        **dict.fromkeys(
            ("max_tokens", "max_output_tokens"), "settings=Settings(max_output_tokens=…)"
        ),
        "reasoning_effort": "effort=…",
        **dict.fromkeys(("llm", "model_name"), "model=…"),
        "handoffs": "tools=[handoff([…])]",
        "sub_agents": "tools=subagents([…]) in a durable chat",
        "input_guardrails": "gate=…",
        **dict.fromkeys(
            ("output_guardrails", "output_validator", "result_validator", "output_validators"),
            "validate=…",
        ),
        "history_processors": "project=…",
        "timeout": "policy=Policy(stream=Stream(…)), or asyncio.timeout around the run",
    },
    **dict.fromkeys(("agent.run", "agent.run_sync", "agent.stream_sync"), _RUN),
    "Settings": {
        **dict.fromkeys(
            ("max_tokens", "max_completion_tokens", "max_new_tokens"), "max_output_tokens=…"
        ),
        **dict.fromkeys(("stop_sequences", "stop_words"), "stop=[…]"),
        "logit_bias": "options={'openai': {…}}",
        "extra_body": "options={'openai': {…}}",
        "extra_headers": "holdfast.model(…, headers={…})",
        **dict.fromkeys(("effort", "reasoning_effort", "thinking"), "Agent(effort=…)"),
        "timeout": "Agent(policy=Policy(stream=Stream(…)))",
    },
    "Policy": {
        **dict.fromkeys((*_OTHER_STEPS, "steps"), f"Agent({_STEPS})"),
        **dict.fromkeys(
            ("retries", "max_retries", "attempts", "max_attempts"), "retry=Retry(attempts=…)"
        ),
        **dict.fromkeys(("timeout", "request_timeout"), "stream=Stream(…)"),
        "tool_timeout": "@tool(timeout=…)",
        "concurrency": "calls=Calls(concurrency=…)",
        **dict.fromkeys(("window", "context_window"), "context=ContextLimits(window=…)"),
    },
    "Limits": {
        **dict.fromkeys((*_OTHER_STEPS, "requests"), "steps=…"),
        **dict.fromkeys(
            ("total_tokens_limit", "request_tokens_limit", "max_tokens", "token_limit"), "tokens=…"
        ),
        **dict.fromkeys(("max_cost", "budget", "usd", "max_budget_usd"), "cost=…"),
        **dict.fromkeys(("timeout", "time", "duration", "max_seconds"), "seconds=…"),
        **dict.fromkeys(
            ("input_tokens_limit", "output_tokens_limit", "response_tokens_limit"),
            "tokens=…, which counts input and output",
        ),
        "tool_calls_limit": "steps=…, the number of model answers",
    },
    "Retry": dict.fromkeys(("retries", "max_retries", "max_attempts", "tries"), "attempts=…"),
    "tool": _TOOL,
    "Tool": _TOOL,
    "open": {
        **dict.fromkeys(("path", "database", "db", "dsn"), "url='sqlite:///chats.db'"),
        "agent": "agents=[…]",
        "workers": "worker=WorkerOptions(…)",
        "title_model": "titles=…",
    },
    "host.create": {
        "deps": _PROVIDER,
        **dict.fromkeys(("message", "input", "user_prompt"), "prompt=…"),
        **dict.fromkeys(("metadata", "tags"), "labels={…}"),
        **dict.fromkeys(("user", "user_id"), "owner=…"),
        "name": "title=…",
        **dict.fromkeys(
            ("instructions", "tools", "output", "settings", "limits"), "Agent(…) with it, in agent="
        ),
    },
    "chat.send": {"deps": _PROVIDER},
    "connect": {
        **dict.fromkeys(("base_url", "address"), "url=…"),
        "api_key": "token=…",
        "timeout": "patience=…",
    },
    "model": {
        **dict.fromkeys(("key", "token"), "api_key=…"),
        **dict.fromkeys(("url", "api_base", "endpoint"), "base_url=…"),
        **{name: f"Agent({setting})" for name, setting in _SETTINGS.items()},
        "max_tokens": "Agent(settings=Settings(max_output_tokens=…))",
        "effort": "Agent(effort=…)",
        "timeout": "Agent(policy=Policy(stream=Stream(…)))",
        "max_retries": f"Agent({_RETRY})",
    },
}
"""Arguments that other libraries have, by the name of our function or class: what to write."""


def check_keywords(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise `UnknownKeyword` for the arguments that `what` does not have."""
    unknown = [name for name in given if name not in known]
    if not unknown:
        return
    listed = f"it takes {', '.join(known)}"
    remedies = {name: suggestion(what, name, known) for name in unknown}
    if len(unknown) == 1:
        raise UnknownKeyword(
            f"{what} has no argument {unknown[0]!r}: {remedies[unknown[0]] or listed}"
        )
    lines = [f"\n  {name}{how and ': '}{how}" for name, how in remedies.items()]
    end = "" if all(remedies.values()) else f"\n{listed}"
    raise UnknownKeyword(f"{what} does not have these arguments:{''.join(lines)}{end}")


def too_many(what: str, positional: Sequence[str], others: Sequence[str]) -> TooManyArguments:
    """The error for more positional arguments than `what` takes."""
    takes = f"only {', '.join(positional)} by position" if positional else "its arguments by name"
    some = ", ".join((*positional, *(f"{name}=…" for name in others[:MOST_NAMED])))
    example = _EXAMPLES.get(what, f"{what}({some}{', …' if len(others) > MOST_NAMED else ''})")
    return TooManyArguments(f"{what} takes {takes}: write {example}")


_EXAMPLES: Final = {
    "Agent": "Agent('provider:model', instructions=…, tools=[…], …)",
    "Fallback": "Fallback([first, second])",
    "tool": "@tool, or @tool(name=…, …)",
}
"""Calls of functions and classes whose first parameters are not the ones to show."""


def suggestion(what: str, name: str, known: Collection[str]) -> str:
    """A remedy for an argument that does not exist; empty if no other is similar."""
    foreign = FOREIGN_KEYWORDS.get(what, {})
    if name in foreign:
        return f"use {foreign[name]}"
    if near := nearest(name, known, 0.7):
        return f"did you mean {near}?"
    # Short words are similar by chance, as `speed` is to `seed`.
    if len(name) > 5 and (near := nearest(name, foreign, 0.85)):
        return f"use {foreign[near]}"
    return ""
