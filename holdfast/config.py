"""What the environment and the command line say, as frozen values. Nothing else reads them.

It imports the standard library alone: what goes wrong early is told with its help.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.kernel.model import Effort

Color = Literal["auto", "always", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What `holdfast run` was asked to do."""

    prompt: str = ""
    """The words of the command line, joined by blanks; `-` asks for standard input."""
    model: str
    model_reason: str
    """Why it is this model, for people: "ANTHROPIC_API_KEY is set"."""
    effort: Effort | None = None
    """None: the provider decides."""
    tools: tuple[str, ...] = ()
    """`module:name` each, beside the bundled ones."""
    bundled_tools: bool = True
    dir: str | None = None
    """Where the tools work. None: nobody has named a directory."""
    instructions: str | None = None
    files: tuple[str, ...] = ()
    """Paths of what goes with the prompt."""
    history: str | None = None
    """The file that the conversation is read from and kept in."""
    approve: Literal["ask", "yes", "deny"] = "ask"
    """What becomes of calls that need an approval."""
    json: bool = False
    quiet: bool = False
    reasoning: bool = False
    """Show it in full."""
    max_steps: int | None = None
    """None: the policy's own limit."""
    color: Color = "auto"


def wants_debug(environ: Mapping[str, str]) -> bool:
    """`HOLDFAST_DEBUG`: an error that is ours shows where it happened."""
    return environ.get("HOLDFAST_DEBUG", "").strip() not in ("", "0")


def default_model(environ: Mapping[str, str]) -> tuple[str, str]:
    """Who answers when no model is named, and why, for people.

    `HOLDFAST_MODEL` says it, or the first provider that has a key.
    """
    from holdfast.providers.known import PROVIDERS
    from holdfast.providers.registry import DEMO, usable_providers

    if named := environ.get("HOLDFAST_MODEL", "").strip():
        return named, "HOLDFAST_MODEL is set"
    usable = usable_providers(environ)
    for one in usable:
        if default := PROVIDERS[one.name].default:
            return f"{one.name}:{default}", f"{one.variable} is set"
    return DEMO, _nobody_else(environ)


def _nobody_else(environ: Mapping[str, str]) -> str:
    from holdfast.providers.registry import unusable_providers, usable_providers

    for one in unusable_providers(environ):
        if one.broken:
            return one.remedy
    for able in usable_providers(environ):
        return (
            f"{able.variable} is set, but which model of {able.name} to use is not: "
            f"name one as {able.name}:model"
        )
    return "no key in the environment"


def database_url(said: Namespace, environ: Mapping[str, str]) -> str:
    """The database: `--database`, then `HOLDFAST_DATABASE`."""
    from holdfast.kernel.errors import ConfigError

    named = said.database or environ.get("HOLDFAST_DATABASE", "").strip()
    if not named:
        raise ConfigError(
            "no database is named: say --database sqlite:///chats.db, or set HOLDFAST_DATABASE"
        )
    return _text("the URL of the database", named)


def run_options(said: Namespace, environ: Mapping[str, str]) -> RunOptions:
    """What `holdfast run` was asked to do: the command line, and the environment below it."""
    named = said.model is not None
    model, reason = (said.model, "--model says so") if named else default_model(environ)
    approve: Literal["ask", "yes", "deny"] = "yes" if said.yes else "deny" if said.deny else "ask"
    return RunOptions(
        prompt=_text("the prompt", " ".join(said.prompt or ())),
        model=_text("--model", model),
        model_reason=reason,
        effort=said.effort or _effort(environ),
        tools=tuple(said.tools or ()),
        bundled_tools=not said.no_tools,
        dir=_directory(said.dir),
        instructions=_instructions(said.instructions),
        files=tuple(said.file or ()),
        history=said.history,
        approve=approve,
        json=said.json,
        quiet=said.quiet,
        reasoning=said.reasoning,
        max_steps=said.max_steps,
        color=said.color,
    )


def _effort(environ: Mapping[str, str]) -> Effort | None:
    """`HOLDFAST_EFFORT`: how hard it thinks when nothing else is said."""
    from holdfast.kernel.errors import ConfigError
    from holdfast.kernel.model import Effort

    text = environ.get("HOLDFAST_EFFORT", "").strip()
    known = get_args(Effort)
    if text and text not in known:
        raise ConfigError(f"HOLDFAST_EFFORT is {text!r}: use one of {', '.join(known)}")
    return next((effort for effort in known if effort == text), None)


def _instructions(said: str | None) -> str | None:
    """The text, or what the file behind `@` holds. Text that begins with @ is said as `@@`."""
    if said is None or not said.startswith("@"):
        return said if said is None else _text("--instructions", said)
    if said.startswith("@@"):
        return _text("--instructions", said[1:])
    from holdfast.kernel.errors import ConfigError

    try:
        with open(said[1:], encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        why = f"{said[1:]} cannot be read: {error.strerror}"
        hint = "; text that begins with @ is written as @@"
        raise ConfigError(f"--instructions: {why}{hint}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--instructions: {said[1:]} is no UTF-8 text") from None


def _directory(path: str | None) -> str | None:
    from os.path import exists, isdir

    from holdfast.kernel.errors import ConfigError

    if path is not None and not isdir(path):
        why = "is no directory" if exists(path) else "does not exist"
        raise ConfigError(f"--dir: {path} {why}")
    return path


def _text(what: str, said: str) -> str:
    """Refuse bytes that are no text: no provider could be sent them."""
    from holdfast.kernel.errors import ConfigError

    try:
        said.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{what} is no UTF-8 text") from None
    return said
