"""Frozen option values built from the command line and the environment; nothing else reads those.

Imports only the standard library at module level, so early errors can be reported quickly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.kernel.model import Effort
    from holdfast.server.access_policy import Role, Scope

Color = Literal["auto", "always", "never"]
NAMED_BY_OPTION = "chosen by --model"
"""The reason given for a model named on the command line."""


LAST = "last"
"""Names the newest chat, in place of an id."""
LAST_HERE = "last here"
"""Names the newest chat of the current directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """Options of `holdfast run` that make an agent. That of a server has its own."""

    tools: tuple[str, ...] = ()
    """Additional tools, each as `module:name`."""
    bundled_tools: bool = True
    dir: str | None = None
    """Directory the tools work in; None if not given."""
    pass_env: tuple[str, ...] = ()
    """Names of additional environment variables passed to commands."""
    instructions: str | None = None
    max_steps: int | None = None
    """Limit of steps; None: the agent's."""
    deps: str | None = None
    """Provider of the deps of agents written in Python, as `module:name`."""

    def changed(self) -> Iterator[str]:
        """The options that were given, as on the command line."""
        names = {"bundled_tools": "no_tools"}
        for field in fields(AgentOptions):
            if getattr(self, field.name) != field.default:
                yield f"--{names.get(field.name, field.name).replace('_', '-')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(AgentOptions):
    """Options of `holdfast run`."""

    prompt: str = ""
    """The words of the command line, joined by spaces; `-` reads standard input."""
    python: str | None = None
    """The agent, if it is written in Python: `module:name`."""
    model: str
    model_reason: str
    """Why this model was chosen, shown to the user: "ANTHROPIC_API_KEY is set"."""
    effort: Effort | None = None
    """Reasoning effort; None: the provider's default."""
    files: tuple[str, ...] = ()
    """Paths of files attached to the prompt."""
    approve: Literal["ask", "yes", "deny"] = "ask"
    """How calls that need approval are resolved."""
    json: bool = False
    quiet: bool = False
    reasoning: bool = False
    """Whether the reasoning is shown in full."""
    color: Color = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Options of `holdfast serve` and `holdfast worker`. None: use the settings."""

    agents: tuple[str, ...] = ()
    """Agents written in Python, each as `module:name`, in addition to those of the settings."""
    deps: str | None = None
    """Provider of the deps of agents written in Python, as `module:name`."""
    model: str | None = None
    """Model of all agents, instead of their own."""
    settings: str | None = None
    """Path of the settings file."""
    database: str | None = None
    listen_url: str | None = None
    """`HOLDFAST_LISTEN_URL`: the database URL for LISTEN that bypasses a pooler."""
    listen: str | None = None
    data: str
    """The user's data directory."""
    api: bool = True
    worker: bool = True
    """Whether the process drives chats; a server without a worker needs others that do."""
    log: str | None = None
    """`HOLDFAST_LOG`: log format, text or json."""
    traces: bool = False
    """`HOLDFAST_TRACES`: enable traces even if the settings do not."""
    record: str | None = None
    """Directory to record model requests and responses in."""
    metrics: str | None = None
    """Address where a worker serves its metrics; a server has /metrics."""
    metrics_open: bool = False
    """Whether `metrics` may be reachable from other machines."""
    open: bool = False
    """Whether to open the page in a browser if there is a screen."""
    reload: bool = False
    """Whether to restart when files of the user change."""
    restarted: bool = False
    """Whether it replaces a process that served before: announces only that."""


def serve_options(arguments: Namespace, environ: Mapping[str, str], *, api: bool) -> ServeOptions:
    metrics = None if api else arguments.metrics or _set(environ, "HOLDFAST_METRICS")
    return ServeOptions(
        agents=tuple(arguments.agents),
        deps=arguments.deps,
        model=arguments.model,
        settings=settings_file(arguments, environ),
        database=arguments.database or _set(environ, "HOLDFAST_DATABASE"),
        listen_url=_set(environ, "HOLDFAST_LISTEN_URL"),
        listen=(arguments.listen if api else None) or _set(environ, "HOLDFAST_LISTEN"),
        data=data_directory(environ),
        api=api,
        worker=not (api and arguments.no_worker),
        log=_set(environ, "HOLDFAST_LOG"),
        traces=_wants(environ, "HOLDFAST_TRACES"),
        record=arguments.record or _set(environ, "HOLDFAST_RECORD"),
        metrics=metrics,
        metrics_open=not api
        and (arguments.metrics_open or _wants(environ, "HOLDFAST_METRICS_OPEN")),
        open=api and not arguments.no_open,
        reload=arguments.reload,
    )


def program_options(
    environ: Mapping[str, str],
    *,
    api: bool,
    worker: bool,
    database: str | None,
    listen: str | None,
    data: str | None,
    open: bool,
) -> ServeOptions:
    """Options of a program that serves its own agents: its arguments, then the environment."""
    from os.path import abspath

    return ServeOptions(
        database=database or _set(environ, "HOLDFAST_DATABASE"),
        listen_url=_set(environ, "HOLDFAST_LISTEN_URL"),
        listen=(listen if api else None) or _set(environ, "HOLDFAST_LISTEN"),
        data=abspath(data) if data else data_directory(environ),
        api=api,
        worker=worker,
        log=_set(environ, "HOLDFAST_LOG"),
        traces=_wants(environ, "HOLDFAST_TRACES"),
        record=_set(environ, "HOLDFAST_RECORD"),
        open=api and open,
    )


def settings_file(arguments: Namespace, environ: Mapping[str, str]) -> str | None:
    """The settings file of a local server, if one was named."""
    return arguments.config or _set(environ, "HOLDFAST_CONFIG")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTarget:
    """Where the chats of a verb are: at a running server, or in a database. None: not specified."""

    url: str | None = None
    token: str | None = None
    database: str | None = None
    serve_database: str | None = None
    """`HOLDFAST_DATABASE`, for a verb that prefers a running server to the database."""
    listen_url: str | None = None
    """`HOLDFAST_LISTEN_URL`: the database URL for LISTEN that bypasses a pooler."""
    settings: str | None = None
    """Path of the settings file."""
    listen: str | None = None
    """`HOLDFAST_LISTEN`: address of the user's own server."""
    data: str
    """The user's data directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOptions:
    """Options of `holdfast token`."""

    what: Literal["create", "list", "revoke"] = "create"
    id: str | None = None
    """Id of the token to revoke."""
    where: ChatTarget
    user: str | None = None
    """Name of the token's owner; None: the caller."""
    role: Role | None = None
    """Role of the user to create if there is none with this name."""
    name: str = "command line"
    scopes: tuple[Scope, ...] = ("read", "write")
    days: int | None = None
    """Lifetime in days; None: 90, or that of the token used to create it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Options of `holdfast export`."""

    chat: str
    where: ChatTarget
    format: Literal["jsonl", "markdown", "json"] = "jsonl"
    output: str | None = None
    """Path of the output file; None: standard output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Options of `holdfast import`."""

    files: tuple[str, ...]
    where: ChatTarget
    agent: str | None = None
    """Agent of the imported chats; None: the one each chat had."""
    user: str | None = None
    """Name of the owner of the imported chats, in a database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Options of `holdfast chat`, and of a `holdfast run` whose chat is stored."""

    verb: Literal["chat", "run"] = "chat"

    prompt: str = ""
    """The words of the command line, joined by spaces; `-` reads standard input."""
    where: ChatTarget
    chat: str | None = None
    """Id of the chat to continue, `LAST` or `LAST_HERE`; None: a new one."""
    agent_name: str | None = None
    python: str | None = None
    """An agent written in Python, as `module:name`, without a server."""
    agent: AgentOptions = AgentOptions()
    """Changes of the agent, without a server."""
    model: str | None = None
    effort: Effort | None = None
    files: tuple[str, ...] = ()
    approve: Literal["ask", "yes", "deny"] = "ask"
    json: bool = False
    quiet: bool = False
    reasoning: bool = False
    color: Color = "auto"
    keys: Literal["vi", "emacs"] = "emacs"
    """Keys of the line editor."""


def token_options(arguments: Namespace, environ: Mapping[str, str]) -> TokenOptions:
    from holdfast.kernel.errors import ConfigError

    if arguments.what == "revoke" and arguments.id is None:
        raise ConfigError(
            "missing token id: holdfast token revoke ID (holdfast token list shows the ids)"
        )
    if arguments.what != "revoke" and arguments.id is not None:
        raise ConfigError(f"{arguments.id!r} is an unexpected argument (see holdfast token --help)")
    if arguments.role is not None and arguments.user is None:
        raise ConfigError("--role needs a user: add --user")
    scopes: tuple[Scope, ...] = ("read", "write")
    if arguments.role == "admin":
        scopes = (*scopes, "admin")
    return TokenOptions(
        what=arguments.what,
        id=arguments.id,
        where=_where(arguments, environ, prefers_database=True),
        user=arguments.user,
        role=arguments.role,
        name=arguments.name or "command line",
        scopes=tuple(dict.fromkeys(arguments.scope)) if arguments.scope else scopes,
        days=arguments.days,
    )


def database_options(arguments: Namespace, environ: Mapping[str, str]) -> ChatTarget:
    return ChatTarget(
        database=arguments.database or _set(environ, "HOLDFAST_DATABASE"),
        settings=settings_file(arguments, environ),
        data=data_directory(environ),
    )


def export_options(arguments: Namespace, environ: Mapping[str, str]) -> ExportOptions:
    return ExportOptions(
        chat=_text("the chat id", arguments.chat),
        where=_where(arguments, environ),
        format=arguments.format,
        output=arguments.output,
    )


def import_options(arguments: Namespace, environ: Mapping[str, str]) -> ImportOptions:
    from holdfast.kernel.errors import ConfigError

    if arguments.user is not None and arguments.database is None:
        raise ConfigError(
            "--user needs --database: at a server, the owner of the token owns the chats"
        )
    return ImportOptions(
        files=tuple(arguments.files),
        where=_where(arguments, environ),
        agent=arguments.agent,
        user=arguments.user,
    )


def chat_options(arguments: Namespace, environ: Mapping[str, str]) -> ChatOptions:
    python, name = _agent(arguments.agent)
    return ChatOptions(
        prompt=_text("the prompt", " ".join(arguments.prompt or ())),
        where=_where(arguments, environ),
        chat=LAST if arguments.last else arguments.chat,
        agent_name=name,
        python=python,
        agent=AgentOptions(deps=arguments.deps),
        model=arguments.model,
        effort=arguments.effort,
        files=tuple(arguments.file or ()),
        approve="yes" if arguments.yes else "deny" if arguments.deny else "ask",
        quiet=arguments.quiet,
        reasoning=arguments.reasoning,
        color=arguments.color,
        keys=editor_keys(environ),
    )


def editor_keys(environ: Mapping[str, str]) -> Literal["vi", "emacs"]:
    """`HOLDFAST_KEYS`, then the editing mode of readline, then a vi named as the user's editor."""
    import re
    from os.path import basename, expanduser

    from holdfast.kernel.errors import ConfigError

    named = _set(environ, "HOLDFAST_KEYS")
    if named not in (None, "vi", "emacs"):
        raise ConfigError(f"HOLDFAST_KEYS is {named!r}: use vi or emacs")
    if named is None:
        try:
            with open(environ.get("INPUTRC") or expanduser("~/.inputrc"), errors="replace") as file:
                modes = re.findall(r"^\s*set\s+editing-mode\s+(vi|emacs)", file.read(), re.M)
        except OSError:
            modes = []
        editor = basename((_set(environ, "VISUAL") or _set(environ, "EDITOR") or "").split(" ")[0])
        named = modes[-1] if modes else "vi" if re.fullmatch(r"n?vim?", editor) else "emacs"
    return "vi" if named == "vi" else "emacs"


def _where(
    arguments: Namespace, environ: Mapping[str, str], *, prefers_database: bool = False
) -> ChatTarget:
    """Options take precedence over the environment, and a server in it over a database."""
    from holdfast.kernel.errors import ConfigError

    named = getattr(arguments, "database", None)
    if named is not None and arguments.url is not None:
        raise ConfigError("--url and --database exclude each other: use one of them")
    url = arguments.url or (None if named else _set(environ, "HOLDFAST_URL"))
    database = None if url else _set(environ, "HOLDFAST_DATABASE")
    return ChatTarget(
        url=url,
        token=arguments.token or _set(environ, "HOLDFAST_TOKEN"),
        database=named or (database if prefers_database else None),
        serve_database=database,
        listen_url=_set(environ, "HOLDFAST_LISTEN_URL"),
        settings=settings_file(arguments, environ),
        listen=_set(environ, "HOLDFAST_LISTEN"),
        data=data_directory(environ),
    )


def data_directory(environ: Mapping[str, str]) -> str:
    """The user's data directory: `HOLDFAST_HOME`, or the platform's usual one."""
    from os.path import abspath, expanduser, join
    from sys import platform

    if named := environ.get("HOLDFAST_HOME", "").strip():
        return abspath(expanduser(named))
    if platform == "darwin":
        return join(expanduser("~"), "Library", "Application Support", "holdfast")
    return join(environ.get("XDG_DATA_HOME") or join(expanduser("~"), ".local/share"), "holdfast")


def wants_debug(environ: Mapping[str, str]) -> bool:
    """`HOLDFAST_DEBUG`: print a traceback for internal errors."""
    return _wants(environ, "HOLDFAST_DEBUG")


def _set(environ: Mapping[str, str], variable: str) -> str | None:
    """The value of a variable; None if unset or empty."""
    return environ.get(variable, "").strip() or None


def _wants(environ: Mapping[str, str], variable: str) -> bool:
    """Whether a variable is set to anything but 0."""
    return _set(environ, variable) not in (None, "0")


def default_model(
    environ: Mapping[str, str], base_urls: Mapping[str, str] | None = None
) -> tuple[str, str]:
    """The model used when none is named, and the reason for it, shown to the user.

    Chosen by `HOLDFAST_MODEL`, then the first provider that has a key. `base_urls`: those of a
    server's settings, by provider.
    """
    from holdfast.providers.model_factory import DEMO_NAME, usable_providers
    from holdfast.providers.provider_catalog import PROVIDERS

    if named := environ.get("HOLDFAST_MODEL", "").strip():
        return named, "HOLDFAST_MODEL is set"
    for one in usable_providers(environ, base_urls):
        if default := PROVIDERS[one.name].default:
            return f"{one.name}:{default}", f"{one.variable} is set"
    return DEMO_NAME, _why_demo(environ, base_urls)


def _why_demo(environ: Mapping[str, str], base_urls: Mapping[str, str] | None) -> str:
    from holdfast.providers.model_factory import unusable_providers, usable_providers

    for one in unusable_providers(environ, base_urls):
        if one.broken:
            return one.remedy
    for able in usable_providers(environ, base_urls):
        known = f"{able.variable} is set, but no model of {able.name}"
        if able.variable is None:
            known = f"the settings have an address for {able.name}, but no model"
        return f"{known}: name one, as in {able.name}:model"
    return "no key in the environment"


def run_options(arguments: Namespace, environ: Mapping[str, str]) -> RunOptions:
    """Options of `holdfast run`: the command line, with defaults from the environment."""
    from holdfast.kernel.errors import ConfigError

    where = [f"--{name}" for name in ("url", "token", "config") if getattr(arguments, name)]
    if where and not stores_chat(arguments):
        raise ConfigError(f"{where[0]} needs --save, --continue or --chat: other runs are not kept")
    python, name = _agent(arguments.agent)
    if name is not None and not stores_chat(arguments):
        raise ConfigError(
            f"--agent {name}: a run that is not saved takes an agent written in Python, as "
            "module:name. With --save, name an agent of the settings"
        )
    named = arguments.model is not None
    model, reason = default_model(environ)
    if named:
        model, reason = arguments.model, NAMED_BY_OPTION
    elif python is not None:
        reason = f"{python} names it"
    approve: Literal["ask", "yes", "deny"] = (
        "yes" if arguments.yes else "deny" if arguments.deny else "ask"
    )
    options = RunOptions(
        prompt=_text("the prompt", " ".join(arguments.prompt or ())),
        python=python,
        model=_text("--model", model),
        model_reason=reason,
        effort=arguments.effort or _effort(environ),
        tools=tuple(arguments.tools or ()),
        bundled_tools=not arguments.no_tools,
        dir=_directory(arguments.dir),
        pass_env=tuple(arguments.pass_env or ()),
        instructions=_instructions(arguments.instructions),
        files=tuple(arguments.file or ()),
        approve=approve,
        json=arguments.json,
        quiet=arguments.quiet,
        reasoning=arguments.reasoning,
        max_steps=arguments.max_steps,
        deps=arguments.deps,
        color=arguments.color,
    )
    if python is not None and (refused := [one for one in options.changed() if one in _OF_TOOLS]):
        raise ConfigError(
            f"{', '.join(refused)}: {python} has tools of its own; --tools adds others"
        )
    return options


_OF_TOOLS: Final = ("--no-tools", "--dir", "--pass-env")
"""Options of the bundled tools, which an agent written in Python may not have."""


def _agent(named: str | None) -> tuple[str | None, str | None]:
    """The agent of the command line: `module:name`, or a name."""
    return (named, None) if named is not None and ":" in named else (None, named)


def stores_chat(arguments: Namespace) -> bool:
    """Whether a run is a chat in a database."""
    return bool(arguments.save or arguments.last or arguments.chat)


def saved_options(arguments: Namespace, environ: Mapping[str, str]) -> ChatOptions:
    """Options of a `holdfast run` whose chat is stored."""
    run = run_options(arguments, environ)
    return ChatOptions(
        verb="run",
        prompt=run.prompt,
        where=_where(arguments, environ),
        chat=LAST_HERE if arguments.last else arguments.chat,
        agent_name=_agent(arguments.agent)[1],
        python=run.python,
        agent=run,
        model=arguments.model,
        effort=arguments.effort,
        files=run.files,
        approve=run.approve,
        json=run.json,
        quiet=run.quiet,
        reasoning=run.reasoning,
        color=run.color,
    )


def _effort(environ: Mapping[str, str]) -> Effort | None:
    """`HOLDFAST_EFFORT`: the default reasoning effort."""
    from holdfast.kernel.errors import ConfigError
    from holdfast.kernel.model import EFFORTS

    text = environ.get("HOLDFAST_EFFORT", "").strip()
    if text and text not in EFFORTS:
        raise ConfigError(f"HOLDFAST_EFFORT is {text!r}: use one of {', '.join(EFFORTS)}")
    return next((effort for effort in EFFORTS if effort == text), None)


def _instructions(text: str | None) -> str | None:
    """The text, or the content of the file named after `@`. `@@` stands for a leading @."""
    if text is None or not text.startswith("@"):
        return text if text is None else _text("--instructions", text)
    if text.startswith("@@"):
        return _text("--instructions", text[1:])
    from holdfast.kernel.errors import ConfigError

    try:
        with open(text[1:], encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        why = f"{text[1:]} cannot be read: {error.strerror}"
        hint = "; text that begins with @ is written as @@"
        raise ConfigError(f"--instructions: {why}{hint}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--instructions: {text[1:]} is not UTF-8 text") from None


def _directory(path: str | None) -> str | None:
    from os.path import exists, isdir

    from holdfast.kernel.errors import ConfigError

    if path is not None and not isdir(path):
        why = "is not a directory" if exists(path) else "does not exist"
        raise ConfigError(f"--dir: {path} {why}: name a directory that exists")
    return path


def _text(what: str, text: str) -> str:
    """Return the text; refuse invalid UTF-8, which no provider accepts."""
    from holdfast.kernel.errors import ConfigError

    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{what} is not UTF-8 text") from None
    return text
