"""What the environment and the command line say, as frozen values. Nothing else reads them.

It imports the standard library alone: what goes wrong early is told with its help.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.kernel.model import Effort
    from holdfast.server.policy import Role, Scope

Color = Literal["auto", "always", "never"]
NAMED = "--model says so"
"""Why it is the model that the command line names."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What `holdfast serve` and `holdfast worker` were asked to do. None: the settings say it."""

    settings: str | None = None
    """The file with them."""
    database: str | None = None
    listen: str | None = None
    data: str
    """The directory for what is this user's own."""
    api: bool = True
    log: str | None = None
    """`HOLDFAST_LOG`: text or json."""
    traces: bool = False
    """`HOLDFAST_TRACES`: also when the settings do not say so."""
    record: str | None = None
    """A directory for what models are asked and say."""
    metrics: str | None = None
    """Where a worker tells its numbers; a server has /metrics."""
    metrics_open: bool = False
    """Also where others than this machine can ask."""
    open: bool = False
    """Open the page in a browser, if somebody is there to see it."""


def serve_options(said: Namespace, environ: Mapping[str, str], *, api: bool) -> ServeOptions:
    metrics = None if api else said.metrics or _set(environ, "HOLDFAST_METRICS")
    return ServeOptions(
        settings=settings_file(said, environ),
        database=said.database or _set(environ, "HOLDFAST_DATABASE"),
        listen=(said.listen if api else None) or _set(environ, "HOLDFAST_LISTEN"),
        data=data_directory(environ),
        api=api,
        log=_set(environ, "HOLDFAST_LOG"),
        traces=_wants(environ, "HOLDFAST_TRACES"),
        record=said.record or _set(environ, "HOLDFAST_RECORD"),
        metrics=metrics,
        metrics_open=not api and (said.metrics_open or _wants(environ, "HOLDFAST_METRICS_OPEN")),
        open=api and not said.no_open,
    )


def settings_file(said: Namespace, environ: Mapping[str, str]) -> str | None:
    """The file with the settings of a server here, if one was named."""
    return said.config or _set(environ, "HOLDFAST_CONFIG")


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where chats are: at a server that runs, or in a database. None: nobody has said so."""

    url: str | None = None
    token: str | None = None
    database: str | None = None
    settings: str | None = None
    """The file with them."""
    listen: str | None = None
    """`HOLDFAST_LISTEN`: where a server of this user's own is."""
    data: str
    """The directory for what is this user's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOptions:
    """What `holdfast token` was asked to do."""

    what: Literal["create", "list", "revoke"] = "create"
    id: str | None = None
    """Of the token to revoke."""
    where: Where
    user: str | None = None
    """The name of whoever it is for. None: whoever asks."""
    role: Role | None = None
    """Given: the user is made if there is none."""
    name: str = "command line"
    scopes: tuple[Scope, ...] = ("read", "write")
    days: int | None = None
    """None for what is usual: 90, or as long as the token that it is made with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What `holdfast export` was asked to do."""

    chat: str
    where: Where
    format: Literal["jsonl", "markdown"] = "jsonl"
    output: str | None = None
    """A file. None: standard output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What `holdfast import` was asked to do."""

    files: tuple[str, ...]
    where: Where
    agent: str | None = None
    """Who goes on with the chats. None: the one that each had."""
    user: str | None = None
    """The name of whoever they belong to, in a database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """What `holdfast chat` was asked to do."""

    prompt: str = ""
    """The words of the command line, joined by blanks; `-` asks for standard input."""
    where: Where
    chat: str | None = None
    """The id of the chat to go on with, or `last`. None: a new one."""
    agent: str | None = None
    model: str | None = None
    effort: Effort | None = None
    files: tuple[str, ...] = ()
    approve: Literal["ask", "yes", "deny"] = "ask"
    quiet: bool = False
    reasoning: bool = False
    color: Color = "auto"


def token_options(said: Namespace, environ: Mapping[str, str]) -> TokenOptions:
    from holdfast.kernel.errors import ConfigError

    if said.what == "revoke" and said.id is None:
        raise ConfigError("which one: holdfast token revoke ID (holdfast token list shows them)")
    if said.what != "revoke" and said.id is not None:
        raise ConfigError(f"{said.id!r} is one word too many (see holdfast token --help)")
    if said.role is not None and said.user is None:
        raise ConfigError("--role is what a user may: say --user too")
    scopes: tuple[Scope, ...] = ("read", "write")
    if said.role == "admin":
        scopes = (*scopes, "admin")
    return TokenOptions(
        what=said.what,
        id=said.id,
        where=_where(said, environ, database=environ.get("HOLDFAST_DATABASE")),
        user=said.user,
        role=said.role,
        name=said.name or "command line",
        scopes=tuple(dict.fromkeys(said.scope)) if said.scope else scopes,
        days=said.days,
    )


def database_options(said: Namespace, environ: Mapping[str, str]) -> Where:
    return Where(
        database=said.database or _set(environ, "HOLDFAST_DATABASE"),
        settings=settings_file(said, environ),
        data=data_directory(environ),
    )


def export_options(said: Namespace, environ: Mapping[str, str]) -> ExportOptions:
    return ExportOptions(
        chat=_text("the chat", said.chat),
        where=_where(said, environ),
        format=said.format,
        output=said.output,
    )


def import_options(said: Namespace, environ: Mapping[str, str]) -> ImportOptions:
    from holdfast.kernel.errors import ConfigError

    if said.user is not None and said.database is None:
        raise ConfigError("--user goes with --database: a server takes them for who has the token")
    return ImportOptions(
        files=tuple(said.files), where=_where(said, environ), agent=said.agent, user=said.user
    )


def chat_options(said: Namespace, environ: Mapping[str, str]) -> ChatOptions:
    return ChatOptions(
        prompt=_text("the prompt", " ".join(said.prompt or ())),
        where=_where(said, environ),
        chat="last" if said.last else said.chat,
        agent=said.agent,
        model=said.model,
        effort=said.effort,
        files=tuple(said.file or ()),
        approve="yes" if said.yes else "deny" if said.deny else "ask",
        quiet=said.quiet,
        reasoning=said.reasoning,
        color=said.color,
    )


def _where(said: Namespace, environ: Mapping[str, str], database: str | None = None) -> Where:
    """What is said wins over the environment, and there a server over a `database`."""
    from holdfast.kernel.errors import ConfigError

    named = getattr(said, "database", None)
    if named is not None and said.url is not None:
        raise ConfigError("--url names a server, and --database a database: say one of them")
    url = said.url or (None if named else _set(environ, "HOLDFAST_URL"))
    return Where(
        url=url,
        token=said.token or _set(environ, "HOLDFAST_TOKEN"),
        database=named or (None if url else (database or "").strip() or None),
        settings=settings_file(said, environ),
        listen=_set(environ, "HOLDFAST_LISTEN"),
        data=data_directory(environ),
    )


def data_directory(environ: Mapping[str, str]) -> str:
    """Where this user's chats are: `HOLDFAST_HOME`, or where programs keep such things here."""
    from os.path import abspath, expanduser, join
    from sys import platform

    if named := environ.get("HOLDFAST_HOME", "").strip():
        return abspath(expanduser(named))
    if platform == "darwin":
        return join(expanduser("~"), "Library", "Application Support", "holdfast")
    return join(environ.get("XDG_DATA_HOME") or join(expanduser("~"), ".local/share"), "holdfast")


def wants_debug(environ: Mapping[str, str]) -> bool:
    """`HOLDFAST_DEBUG`: an error that is ours shows where it happened."""
    return _wants(environ, "HOLDFAST_DEBUG")


def _set(environ: Mapping[str, str], variable: str) -> str | None:
    """What a variable says; one that is empty says nothing."""
    return environ.get(variable, "").strip() or None


def _wants(environ: Mapping[str, str], variable: str) -> bool:
    """Whether a variable says yes: anything but nothing and 0."""
    return _set(environ, variable) not in (None, "0")


def default_model(
    environ: Mapping[str, str], base_urls: Mapping[str, str] | None = None
) -> tuple[str, str]:
    """Who answers when no model is named, and why, for people.

    `HOLDFAST_MODEL` says it, or the first provider that has a key. `base_urls`: those of a server's
    settings, by provider.
    """
    from holdfast.providers.known import PROVIDERS
    from holdfast.providers.registry import DEMO, usable_providers

    if named := environ.get("HOLDFAST_MODEL", "").strip():
        return named, "HOLDFAST_MODEL is set"
    for one in usable_providers(environ, base_urls):
        if default := PROVIDERS[one.name].default:
            return f"{one.name}:{default}", f"{one.variable} is set"
    return DEMO, _nobody_else(environ, base_urls)


def _nobody_else(environ: Mapping[str, str], base_urls: Mapping[str, str] | None) -> str:
    from holdfast.providers.registry import unusable_providers, usable_providers

    for one in unusable_providers(environ, base_urls):
        if one.broken:
            return one.remedy
    for able in usable_providers(environ, base_urls):
        known = f"{able.variable} is set, but which model of {able.name} to use is not"
        if able.variable is None:
            known = f"the settings say where {able.name} is, but not which model to use"
        return f"{known}: name one as {able.name}:model"
    return "no key in the environment"


def run_options(said: Namespace, environ: Mapping[str, str]) -> RunOptions:
    """What `holdfast run` was asked to do: the command line, and the environment below it."""
    named = said.model is not None
    model, reason = (said.model, NAMED) if named else default_model(environ)
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
    from holdfast.kernel.model import EFFORTS

    text = environ.get("HOLDFAST_EFFORT", "").strip()
    if text and text not in EFFORTS:
        raise ConfigError(f"HOLDFAST_EFFORT is {text!r}: use one of {', '.join(EFFORTS)}")
    return next((effort for effort in EFFORTS if effort == text), None)


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
