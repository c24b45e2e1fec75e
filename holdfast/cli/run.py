"""Implements `holdfast run`: one prompt, answered in the terminal."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, redirect_stdout
from typing import Any, Final

from msgspec import structs

from holdfast.agent import Agent
from holdfast.cli.ask import Asker
from holdfast.cli.controlling_terminal import Tty
from holdfast.cli.conversation import Conversation, RunView
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.import_tools import load_tools
from holdfast.cli.json_lines import JsonView
from holdfast.cli.output_stream import OutputStream
from holdfast.cli.prompt_sources import prompt_of, read_stdin
from holdfast.cli.python_agents import load_agents
from holdfast.cli.python_deps import load_deps
from holdfast.cli.view import View
from holdfast.config import NAMED_BY_OPTION, Color, RunOptions
from holdfast.kernel import prepare
from holdfast.kernel.agent_deps import check_deps_of, provided_deps, providers_of
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.escape import escape
from holdfast.kernel.events import Action, EndReason
from holdfast.kernel.hook_context import ChatInfo
from holdfast.kernel.model import Model
from holdfast.kernel.result import RunResult
from holdfast.kernel.tool import Tool

EXIT_CODES: Final[Mapping[EndReason, ExitCode]] = {
    "stop": ExitCode.FINISHED,
    "stop_after_tool": ExitCode.FINISHED,
    "requires_action": ExitCode.WAITING,
    "limit": ExitCode.LIMIT,
    "interrupted": ExitCode.INTERRUPTED,
    "error": ExitCode.FAILED,
}

DEMO_MODEL: Final = "demo:demo"
RUN_INSTRUCTIONS: Final = """\
You answer a user at a terminal. Be brief, and write Markdown.
When there are tools, look before you answer, and do what is asked instead of describing it.
At the end, say what you did and what is left to do."""


def main(options: RunOptions) -> int:
    """Answer a prompt; returns the exit code."""
    environ = colored(options.color)
    answer, status = (
        OutputStream.of(sys.stdout, environ),
        OutputStream.of(sys.stderr, environ, needed=False),
    )
    view = view_of(options, answer, status)
    with ExitStack() as held:
        # Output printed by a user's tool is not part of the answer.
        held.enter_context(redirect_stdout(sys.stderr))
        piped = read_stdin(options.prompt, view.note)
        prompt = prompt_of(options.prompt, piped, options.files)
        if prompt is None:
            raise ConfigError('no prompt: use holdfast run "your question"')
        tty = Tty.open()
        if tty is not None:
            held.enter_context(tty)
        seen = status.terminal and not (options.json or options.quiet)
        asker = Asker(tty, options.approve, view.note, previews_seen=seen)
        held.enter_context(quiet_logs())

        async def answered() -> tuple[Conversation, RunResult[Any]]:
            spec = options.python
            agent = await agent_of_module(options, spec) if spec else agent_of(options, view.note)
            introduce(options, agent, status, view.note)
            async with deps_of(options, agent) as deps:
                conversation = Conversation(agent, view, asker, deps)
                return conversation, await conversation.go(prompt)

        conversation, result = asyncio.run(answered())
        if result.reason == "requires_action" and conversation.stopped is None:
            words = waiting(result.actions, asked=tty is not None)
            status.write(f"holdfast: {words}\n")
    return exit_code(conversation, result)


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Attach a handler to the log: the view shows failures, and Python would print them again."""
    log, handler = logging.getLogger("holdfast"), logging.NullHandler()
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def view_of(options: RunOptions, answer: OutputStream, status: OutputStream) -> RunView:
    if options.json:
        return JsonView(answer)
    return View(answer, status, reasoning=options.reasoning, quiet=options.quiet)


def colored(color: Color) -> Mapping[str, str]:
    """The environment, with the color option of the command line applied."""
    variables = {"always": {"NO_COLOR": "", "FORCE_COLOR": "1"}, "never": {"NO_COLOR": "1"}}
    return {**os.environ, **variables.get(color, {})}


def agent_of(options: RunOptions, note: Callable[[str], None]) -> Agent:
    """The agent of a run: its model, instructions and tools."""
    tools: list[Any] = [*bundled_tools(options, note), *load_tools(options.tools, "--tools")]
    agent = Agent(
        model=_model(options),
        instructions=RUN_INSTRUCTIONS if options.instructions is None else options.instructions,
        tools=tools,
        effort=options.effort,
    )
    return agent if options.max_steps is None else with_steps(agent, options.max_steps)


def with_steps(agent: Agent, steps: int) -> Agent:
    """The agent with another limit of steps."""
    return agent.replace(limits=structs.replace(agent.limits, steps=steps))


async def agent_of_module(options: RunOptions, spec: str) -> Agent:
    """The agent of a module, or the first of its agents, changed by the options."""
    agent = (await load_agents(spec))[0]
    changes: dict[str, Any] = {"instructions": options.instructions, "effort": options.effort}
    if options.model_reason == NAMED_BY_OPTION:
        changes["model"] = options.model
    if options.max_steps is not None:
        agent = with_steps(agent, options.max_steps)
    if options.tools:
        changes["tools"] = [*agent.tools, *load_tools(options.tools, "--tools")]
    return agent.replace(**{name: new for name, new in changes.items() if new is not None})


@asynccontextmanager
async def deps_of(options: RunOptions, agent: Agent) -> AsyncIterator[Any]:
    """The deps of the run, from the provider that the command line names."""
    if options.deps is None:
        check_deps_of(agent, None, "add --deps MODULE:NAME")
        yield None
        return
    providers = providers_of(agent.team, load_deps(options.deps, "--deps"), needed=True)
    taker = agent if agent.name in providers else agent.team[next(iter(providers))]
    async with provided_deps(taker, providers[taker.name], ChatInfo(agent=agent.name)) as deps:
        yield deps


def _model(options: RunOptions) -> Model:
    """The model of a run. An error names the variable that chose the model."""
    from holdfast.providers.model_factory import configured_model

    try:
        return configured_model(options.model)
    except ConfigError as error:
        if options.model_reason == NAMED_BY_OPTION:
            raise
        raise type(error)(f"{error} ({options.model_reason})") from None


def bundled_tools(options: RunOptions, note: Callable[[str], None]) -> tuple[Tool, ...]:
    """The tools for a directory: the named one, or the current one.

    A home directory has to be named explicitly, so that it is never exposed by accident.
    """
    if not options.bundled_tools:
        return ()
    directory = options.dir
    if directory is None:
        directory = _here()
        if os.path.realpath(directory) in (os.path.realpath(os.path.expanduser("~")), "/"):
            note(f"no tools for files and commands in {directory}: name a directory with --dir")
            from holdfast.tools.ask_user import ask_user

            return (ask_user(),)
    from holdfast.tools import bundled

    return bundled(directory, pass_env=options.pass_env)


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise ConfigError(
            "the current directory was removed: change to another, or name one with --dir"
        ) from None


def introduce(
    options: RunOptions, agent: Agent, status: OutputStream, note: Callable[[str], None]
) -> None:
    """Print which model answers. The demo is always labelled as not a language model."""
    name = prepare.model_of(agent).name
    if name == DEMO_MODEL:
        note(f"Demo, not a language model: {options.model_reason} (see holdfast models).")
    elif status.terminal:
        note(f"{name}: {options.model_reason}.")


def waiting(actions: Sequence[Action], asked: bool) -> str:
    """The unanswered actions and what to do about them; `asked`: the user was asked."""
    tools = ", ".join(dict.fromkeys(action.call.tool for action in actions))
    approval = any(action.kind == "approval" for action in actions)
    do = [] if asked else ["run it in a terminal"]
    if approval and not asked:
        do.append("use --yes or --deny")
    what = f"{escape(tools)} waits for an {'approval' if approval else 'answer'}"
    return f"{what}: {', or '.join(do)}" if do else what


def exit_code(conversation: Conversation, result: RunResult[Any]) -> int:
    """The exit code of a run. Raises the error that kept us from its end."""
    if conversation.failure is not None:
        raise conversation.failure
    if conversation.stopped is not None:
        return 128 + conversation.stopped
    return EXIT_CODES[result.reason]
