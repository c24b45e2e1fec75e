"""Generate the tables of docs/http.md, docs/server.md and docs/policies.md from the code.

`python -m tests.server.reference` rewrites them; a test fails when they are out of date. Each table
is in its page between two comments with its name. Texts that the code does not have are here.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, get_args

import msgspec
from aiohttp import web
from msgspec import NODEFAULT, Struct, structs

import holdfast.server.identity.request_protection
import holdfast.server.identity.slow_clients
import holdfast.server.routes  # noqa: F401 - which makes all operations and their refusals
from holdfast.agent import Agent
from holdfast.chat import queue as chat_queue
from holdfast.chat import stream as chat_stream
from holdfast.chat.budgets import SCOPES
from holdfast.chat.errors import ChatError
from holdfast.cli import settings
from holdfast.cli.agent_fields import data_fields
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.limits import Limits
from holdfast.kernel.policy import Calls, ContextLimits, Policy, Retry, Stream, Wording
from holdfast.live import buffer
from holdfast.live.delta_fragments import Fragment
from holdfast.server import (
    api_state,
    app,
    chat_list_stream,
    dispatch,
    event_codec,
    shared_request_types,
)
from holdfast.server.access_policy import POLICY
from holdfast.server.fanout import StreamOptions
from holdfast.server.identity import api_tokens, origin_check, sessions, shares
from holdfast.server.identity.slow_clients import SlowClientLimits
from holdfast.server.operation import OPERATIONS, Operation
from holdfast.server.problem import (
    _STATUS,
    INTERNAL_ERROR,
    ProblemDetails,
    RequestRefused,
    problem_of,
)
from holdfast.store.database import OutcomeUnknown, StoreError, Unavailable
from holdfast.worker.options import WorkerOptions

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
COMMAND: Final = "python -m tests.server.reference"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("|  |", "| |")


# --- routes --------------------------------------------------------------------------------------


def routes() -> str:
    """The routes, in the order of the access policy."""
    rows = [_route(OPERATIONS[route]) for route in POLICY if route in OPERATIONS]
    return table(("route", "who", "takes", "gives", "does"), rows)


def _route(each: Operation) -> list[str]:
    need = POLICY[each.method, each.path]
    gives = f"{each.status}"
    if each.gives is not None and each.media == "application/json":
        gives = f"{each.status} `{each.gives.__name__}`"
    elif each.media != "application/json":
        gives = f"{each.status} {each.media.partition(';')[0]}"
    return [f"`{each.method} {each.path}`", f"`{need}`", _takes(each), gives, each.summary]


def _takes(each: Operation) -> str:
    body = [f"**`{name}`**" if needed else f"`{name}`" for name, needed in _fields(each.body)]
    query = [f"`?{name}`" for name, _ in _fields(each.query)]
    if each.takes is not None:
        body = ["bytes" if each.takes == "*/*" else each.takes]
    return ", ".join((*query, *body))


def _fields(kind: type | None) -> list[tuple[str, bool]]:
    if kind is None:
        return []
    return [(field.encode_name, field.required) for field in structs.fields(kind)]


# --- problems ------------------------------------------------------------------------------------

WHEN: Final[Mapping[str, str]] = {
    "bad_cursor": "the cursor is not a cursor of this list",
    "bad_request": "the path, the query, a header or the JSON is malformed: a field name or a "
    "choice, for example, has half of a surrogate pair",
    "chat_archived": "the chat is archived: unarchive or fork it first",
    "chat_not_found": "there is no such chat, or the caller may not know that it exists",
    "conflict": "the request conflicts with the current state",
    "corrupt": "a stored row is inconsistent: run `holdfast doctor`",
    "cross_site": "the request came from a page of another site",
    "database_refused": "the database refused the operation; the server's log says why",
    "database_unavailable": "the database does not answer: try again",
    "family_busy": "the chat, or a child chat, is busy: interrupt it first",
    "file_in_use": "a chat of the caller refers to the file: delete the chat first",
    "file_not_found": "the caller has no such file, or the chat does not refer to it",
    "forbidden": "the caller may not do this: role, token scope, or another owner",
    "headers_too_large": "the request headers are too large",
    "http": "refused by aiohttp itself, for example because of an unknown `Expect`",
    "internal": "a bug: the server's log has the details",
    "invalid_body": "the body is JSON of the wrong shape: the detail names the field",
    "invalid_input": "an impossible value: an unknown model or agent, or a malformed stream cursor",
    "key_reused": "the `Idempotency-Key` was used for another request",
    "last_admin": "the last administrator cannot be removed",
    "message_not_found": "there is no such message, or an edit superseded it",
    "method_not_allowed": "the path does not have this method; `Allow` lists its methods",
    "misdirected": "`Host` is not a name of this server",
    "name_taken": "another user has the name",
    "no_secret_key": "the server has no key to encrypt secrets with",
    "no_such_path": "the server has no such path",
    "not_a_prompt": "only a user's prompt can be edited",
    "not_a_root": "the parent chat is archived: unarchive the parent",
    "not_archived": "the chat is not archived",
    "not_found": "the resource does not exist",
    "not_ready": "the database does not answer, or no worker is alive: `part` says which",
    "nothing_to_compact": "there is no new answer since the last summary",
    "nothing_to_resume": "the last turn did not end at a limit",
    "nothing_waits": "the action is not pending, or was already answered",
    "outcome_unknown": "the database connection was lost during the commit: repeat with the "
    "same key",
    "provider_not_found": "there is no such provider, or no key of it is stored",
    "quota_exceeded": "the caller's files together would exceed the quota: delete some",
    "queue_full": "the queue is full",
    "queued_not_found": "no such message is queued: it may have been delivered",
    "share_not_found": "the chat has no such share",
    "stranded": "no live worker has the chat's agent",
    "timed_out": "the body arrived too slowly",
    "title_failed": "the model returned no usable title: the facts say why",
    "token_not_found": "the caller has no such token",
    "too_deep": "chats would be nested too deeply",
    "too_large": "the body is too large",
    "too_many": "the maximum number is reached",
    "too_many_streams": "the caller has too many streams open at this process: close some",
    "transition_not_allowed": "the chat's status does not allow the operation: the facts name both",
    "unauthenticated": "the token, session or link is missing or not valid",
    "unsupported_media_type": "the body is not `application/json`",
    "user_not_found": "there is no such user",
    "wrong_answer": "the action needs another kind of answer, or has changed since it was shown",
    "wrong_order": "the order must name every queued message exactly once",
}


def problems() -> str:
    """Every kind that the server may answer with."""
    found = dict(_kinds())
    rows = [(f"`{kind}`", _status(kind, found[kind]), WHEN[kind]) for kind in sorted(found)]
    return table(("kind", "status", "when"), rows)


def _status(kind: str, status: int) -> str:
    return "its own" if kind == "http" else f"{status}"


def _kinds() -> Iterator[tuple[str, int]]:
    for refused in _below(RequestRefused):
        yield refused.kind, refused.status
    for error in _below(ChatError):
        if "kind" in vars(error):
            yield error.kind, _STATUS.get(error, 409)
    others = [ConfigError(""), OutcomeUnknown(""), Unavailable(""), StoreError("")]
    for problem in (*map(problem_of, others), *_of_aiohttp(), INTERNAL_ERROR):
        assert problem is not None
        yield problem.kind, problem.status


def _of_aiohttp() -> Iterator[ProblemDetails]:
    request: Any = SimpleNamespace(path="/", method="GET")
    yield app._of_aiohttp(request, web.HTTPNotFound())
    yield app._of_aiohttp(request, web.HTTPMethodNotAllowed("GET", ["POST"]))
    yield app._of_aiohttp(request, web.HTTPExpectationFailed())


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    """The subclasses that Holdfast defines; tests define some of their own."""
    for each in kind.__subclasses__():
        if each.__module__.startswith("holdfast."):
            yield each
        yield from _below(each)


# --- streams -------------------------------------------------------------------------------------

OF_CHAT: Final[Mapping[str, str]] = {
    "chat": "the chat itself; first on every connection, and again on each change",
    "message": "a committed message; it replaces one with the same `number`",
    "superseded": "numbers of the messages that an edit superseded",
    "queue": "the whole queue, in order",
    "actions": "all pending actions",
    "delta": "output of the running attempt: its deltas `first` to `last`, merged into one "
    "fragment",
    "reset": "`live`: discard the fragments. `history`: discard everything, the newest page "
    "follows; "
    "messages before `more_before` exist",
    "end": "the server ends the stream; has no id",
}
OF_LIST: Final[Mapping[str, str]] = {
    "chat": "a chat that the caller owns or may read is new or changed; ignore it if its "
    "`snapshot_version` is older than yours",
    "deleted": "the chat was deleted, or is no longer shared",
    "reset": "too many changes to send one by one, or a cursor from the future: read "
    "`GET /chats` again",
    "end": "as in the stream of a chat",
}
ENDS: Final[Mapping[str, str]] = {
    "shutdown": "this process is stopping: reconnect, to another replica or later",
    "slow": "the client read nothing for too long",
    "failed": "an error in the server",
    "revoked": "the token, session, share or user no longer gives access",
    "deleted": "the chat was deleted",
}
SHOWN: Final[Mapping[str, str]] = {
    "text_delta": "a piece of the answer",
    "reasoning_delta": "a piece of the reasoning",
    "call_started": "the model starts to write a call",
    "arguments_delta": "a piece of a call's arguments, as JSON text",
    "tool_called": "the model finished writing a call",
    "tool_started": "a call started to run",
    "tool_progressed": "progress of a running call; `data` is JSON, for programs",
    "tool_finished": "a call finished, with its result",
    "compacting": "the conversation is being summarized; a piece of the summary",
    "warning": "an anomaly that does not end the turn",
    "omitted": "output of these calls was left out of the stream: the committed message has it",
}


def stream_events() -> str:
    rows = [
        (f"`{name}`", _data(name, kind), OF_CHAT[name])
        for name, kind in event_codec.PAYLOADS.items()
    ]
    return table(("event", "data", "meaning"), rows)


def list_events() -> str:
    rows = [
        (f"`{name}`", _data(name, kind), OF_LIST[name])
        for name, kind in event_codec.LIST_PAYLOADS.items()
    ]
    return table(("event", "data", "meaning"), rows)


def _data(name: str, kind: type[Struct]) -> str:
    fields = [f"`{field}`" for field in kind.__struct_fields__]
    return f"`{kind.__name__}`" if len(fields) > 6 else ", ".join(fields)


def fragments() -> str:
    rows = []
    for kind in get_args(Fragment):
        tag = str(kind.__struct_config__.tag)
        fields = ", ".join(f"`{field}`" for field in kind.__struct_fields__)
        rows.append((f"`{tag}`", fields, SHOWN[tag]))
    return table(("`type`", "fields", "meaning"), rows)


def ends() -> str:
    known = {
        end.reason: end
        for end in vars(event_codec).values()
        if isinstance(end, event_codec.StreamEnd)
    }
    rows = [
        (f"`{reason}`", "yes" if known[reason].reconnect else "no", ENDS[reason])
        for reason in get_args(event_codec.StreamEndReason)
    ]
    return table(("`reason`", "`reconnect`", "cause"), rows)


# --- limits --------------------------------------------------------------------------------------


def limits() -> str:
    bounds, patience, streams = api_state.ServerLimits(), SlowClientLimits(), StreamOptions()
    (page,) = get_args(shared_request_types.Limit)[1:]
    rows = [
        ("a JSON body", _size(bounds.body), "`too_large`"),
        ("an upload", _size(bounds.file), "`too_large`"),
        ("an import", _size(bounds.transfer), "`too_large`"),
        (
            "all files of a user",
            f"{bounds.quota // 2**30} GiB",
            "`quota_exceeded`: delete some",
        ),
        (
            "all headers of a request",
            _size(origin_check.MAX_HEADER_BYTES),
            "`headers_too_large`, or 431 without a body",
        ),
        ("time for the headers to arrive", _seconds(patience.head), "408"),
        (
            "time for a body to arrive",
            f"{_seconds(patience.body)}, and 1 s more for each {_size(patience.rate)}",
            "`timed_out`",
        ),
        ("an idle connection", _seconds(patience.idle), "the connection is closed"),
        ("an `Idempotency-Key`", f"{dispatch.MAX_KEY_LENGTH} characters", "`bad_request`"),
        ("a page", f"{page.le} entries; 1000 for users and for the audit log", "`bad_request`"),
        (
            "messages on a page",
            f"{_size(chat_stream.MAX_RESULT_SIZE)}, or one message",
            "a shorter page; continue with `next`",
        ),
        ("queued messages of a chat", f"{chat_queue.MAX_QUEUED}", "`queue_full`"),
        ("tokens of a user", f"{api_tokens.MAX_TOKENS_PER_USER} at the same time", "`too_many`"),
        ("shares of a chat", f"{shares.MAX_SHARES}", "`too_many`"),
        (
            "open streams of a user at one process",
            f"{streams.per_user}",
            "`too_many_streams`: close some",
        ),
        ("an entry of the audit log", f"{bounds.audit} days", "the entry is removed"),
        (
            "the lifetime of a token",
            f"{api_tokens.MAX_TOKEN_LIFETIME // api_tokens.DAY_SECONDS} days",
            "`invalid_body`",
        ),
        ("… created with another token", "the lifetime of that token", "`forbidden`"),
        (
            "an unused session",
            f"{sessions.MAX_SESSION_IDLE // (api_tokens.DAY_SECONDS * 10**6)} days",
            "`unauthenticated`",
        ),
        (
            "a session",
            f"{sessions.MAX_SESSION_LIFETIME // (api_tokens.DAY_SECONDS * 10**6)} days",
            "`unauthenticated`",
        ),
        (
            "the first page of a long chat",
            f"{chat_stream.NEWEST_PAGE} messages",
            "`reset` with `more_before`",
        ),
        (
            "missed messages sent on reconnect",
            f"{chat_stream.MAX_CHANGED_MESSAGES}",
            "`reset` with `history`",
        ),
        ("missed chats sent on reconnect", f"{chat_list_stream.MAX_CHATS_SENT}", "`reset`"),
        (
            "output of running calls in a stream",
            _size(buffer.OUTPUT_LIMIT),
            "head and tail are kept, with an `omitted` event",
        ),
        (
            "bytes that a reader has not read yet",
            _size(streams.buffer),
            f"writing pauses; after {_seconds(streams.slow)}, `end` with `slow`",
        ),
        (
            "silence on a stream",
            _seconds(streams.heartbeat),
            "the server sends a comment, or a ping",
        ),
    ]
    return table(("limit on", "at most", "beyond that"), rows)


def _size(number: int) -> str:
    return f"{number // 2**20} MiB" if number >= 2**20 else f"{number // 2**10} KiB"


def _seconds(number: float) -> str:
    return f"{number:g} s"


# --- settings ------------------------------------------------------------------------------------

AGENT: Final = "agents.NAME."
SECTIONS: Final[Mapping[str, type[Struct]]] = {
    "": settings.HoldfastSettings,
    AGENT: settings.AgentSettings,
    **{f"{name}.": kind for name, kind in settings.SECTIONS.items()},
    **{f"budgets.{scope}.": Limits for scope in SCOPES},
}
INSTEAD: Final[Mapping[str, str]] = {
    "database": "`sqlite:///chats.db`, `postgresql://user@host/name`; by default a file in the "
    "data directory",
    "record": "a directory for recordings of model requests and answers "
    "([recordings](operations.md#recordings))",
    "providers": "options of a provider, as in `[providers.openai]`: `base_url`, "
    "`headers`, `profile`. Never keys",
    "agents.NAME.python": "an [agent written in Python](#agents-written-in-python), as "
    "`module:name`; the other settings change it",
    "agents.NAME.model": "in the form `provider:model`, or a list: the next one is used if one "
    "fails. By default `HOLDFAST_MODEL`, then the first provider that has a key, then the demo",
    "agents.NAME.instructions": "the system prompt: text, or a list of tables with `text` and "
    "`cache`",
    "agents.NAME.provider_tools": "[tools that the provider "
    "runs](tools.md#tools-that-the-provider-has): names, or tables with `name`, `options` and "
    "`native`",
    "agents.NAME.tools": "`bundled` for the file and command tools, `ask_user`, or `module:name` "
    'for your own; by default `["bundled"]`, or the tools of the agent written in Python',
    "agents.NAME.settings.options": "options of single providers, as in "
    "`[agents.NAME.settings.options.anthropic]`",
    "agents.NAME.policy.context.model": "the model that writes summaries, or a list; by default "
    "the agent's",
    "agents.NAME.instructions_file": "the system prompt, from a file next to this one",
    "agents.NAME.dir": "the directory of the bundled tools; by default the directory of this file, "
    "or `workspace` in the data directory if this file is in a home directory or `/`",
    "agents.NAME.effort": "reasoning effort; by default the provider's",
    "agents.NAME.limits.steps": "maximum number of model answers in one turn; by default 100",
    "agents.NAME.limits.tokens": "maximum tokens in one turn: input, cached input and output",
    "agents.NAME.limits.cost": "maximum cost of one turn in US dollars, for models with a known "
    "price",
    "agents.NAME.limits.seconds": "maximum seconds in one turn: answers of models and calls of "
    "tools",
    "server.urls": "public URLs, if they differ from the listening address",
    "server.team": "several users, each with their own token ([team mode](#team-mode))",
    "log.level": "lowest level that is logged: `debug`, `info`, `warning`, `error`",
    "worker.children": "how many child chats a process drives in addition",
    "traces.enabled": "[traces](operations.md#traces) with OpenTelemetry, which must be installed",
}


LONG_DEFAULT: Final = 40
"""Length of a default from which the table does not show it."""


def settings_table() -> str:
    return table(("setting", "default", "meaning"), _settings())


def _settings() -> Iterator[tuple[str, str, str]]:
    for prefix, kind in SECTIONS.items():
        names = kind.__struct_fields__ if prefix != AGENT else settings.AGENT_KEYS
        left_out = () if prefix else (*settings.SECTIONS, "agents", "budgets")
        yield from _rows(prefix, kind, [name for name in names if name not in left_out])
        if prefix == AGENT:
            yield from _rows_of_agent(prefix, Agent)


def _rows_of_agent(prefix: str, kind: type[Struct]) -> Iterator[tuple[str, str, str]]:
    """The fields of `Agent` that are settings, and those of its nested values."""
    for name, field in data_fields(kind).items():
        if field.table is None or isinstance(field.default, tuple):
            yield from _rows(prefix, kind, [name])
        else:
            yield from _rows_of_agent(f"{prefix}{name}.", field.table)


def _rows(prefix: str, kind: type[Struct], names: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    words = attribute_words(kind)
    for field in structs.fields(kind):
        if field.name in names:
            text = INSTEAD.get(prefix + field.name) or words[field.name]
            default = _default(field)
            default = default if len(default) < LONG_DEFAULT else "a text"
            yield f"`{prefix}{field.name}`", default, text[0].lower() + text[1:].rstrip(".")


def fields_table(kind: type[Struct]) -> str:
    """The fields of an options value, except those that are options values themselves."""
    words = attribute_words(kind)
    plain = [field for field in structs.fields(kind) if not isinstance(field.default, Struct)]
    rows = ((f"`{field.name}`", _default(field) or "`None`", words[field.name]) for field in plain)
    return table(("field", "default", "meaning"), rows)


def _default(field: structs.FieldInfo) -> str:
    if field.required:
        return ""
    default = field.default if field.default is not NODEFAULT else field.default_factory()
    if default is None or default in ((), {}):
        return "" if not isinstance(default, tuple) else "`[]`"
    return f"`{msgspec.json.encode(default).decode()}`"


def attribute_words(kind: type[Any]) -> dict[str, str]:
    """The docstring of each field of a class."""
    (made,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(kind))).body
    assert isinstance(made, ast.ClassDef)
    words: dict[str, str] = {}
    for before, after in zip(made.body, made.body[1:], strict=False):
        if isinstance(before, ast.AnnAssign) and isinstance(after, ast.Expr):
            assert isinstance(before.target, ast.Name)
            assert isinstance(after.value, ast.Constant)
            words[before.target.id] = " ".join(str(after.value.value).split())
    return words


OPTIONS: Final = (Limits, Policy, Retry, Stream, Calls, ContextLimits, Wording, WorkerOptions)

# --- pages ---------------------------------------------------------------------------------------

TABLES: Final[Mapping[tuple[str, str], Callable[[], str]]] = {
    ("http.md", "routes"): routes,
    ("http.md", "problems"): problems,
    ("http.md", "stream events"): stream_events,
    ("http.md", "fragments"): fragments,
    ("http.md", "ends"): ends,
    ("http.md", "list events"): list_events,
    ("http.md", "limits"): limits,
    ("server.md", "settings"): settings_table,
    **{("policies.md", kind.__name__): partial(fields_table, kind) for kind in OPTIONS},
}


def placed(text: str, name: str, made: str) -> str:
    """The page with its table replaced."""
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, found, rest = text.partition(start)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"there is no {start.strip()} … {end}")
    return f"{before}{start}{made}\n{end}{after}"


def write() -> None:
    for (page, name), make in TABLES.items():
        path = DOCS / page
        path.write_text(placed(path.read_text("utf-8"), name, make()), "utf-8")


if __name__ == "__main__":
    write()
