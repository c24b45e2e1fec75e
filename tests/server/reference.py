"""The tables of docs/http.md and docs/server.md that are made from the code.

`python -m tests.server.reference` writes them anew; a test says when that is due. Each table stands
in its page between two comments with its name. What code cannot say, a row's words, is here.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, get_args

import msgspec
from aiohttp import web
from msgspec import NODEFAULT, Struct, structs

import holdfast.server.identity.door
import holdfast.server.identity.patience
import holdfast.server.routes  # noqa: F401 - which makes all operations and their refusals
from holdfast.chat import queue as chat_queue
from holdfast.chat import stream as chat_stream
from holdfast.chat.errors import ChatError
from holdfast.cli import settings
from holdfast.kernel.errors import ConfigError
from holdfast.live import replay
from holdfast.live.fragments import Fragment
from holdfast.server import app, events, given, roster
from holdfast.server.fanout import StreamOptions
from holdfast.server.identity import guard, sessions, shares, tokens
from holdfast.server.identity.patience import Patience
from holdfast.server.operation import OPERATIONS, Operation
from holdfast.server.policy import POLICY
from holdfast.server.problem import _STATUS, INTERNAL, Problem, Refused, problem_of
from holdfast.store.database import OutcomeUnknown, StoreError, Unavailable

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
COMMAND: Final = "python -m tests.server.reference"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("|  |", "| |")


# --- routes --------------------------------------------------------------------------------------


def routes() -> str:
    """In the order of the table that says who may."""
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
    "bad_cursor": "the cursor of a page is not one of this list",
    "bad_request": "the path, the query, a header or the JSON cannot be read",
    "chat_archived": "the chat is archived: unarchive or fork it first",
    "chat_not_found": "there is no such chat, or it is not the caller's to know of",
    "conflict": "it does not go with how things are",
    "corrupt": "a stored row cannot be right: see `holdfast doctor`",
    "cross_site": "a page of another site sent it",
    "csrf": "a session changes something without its `X-CSRF-Token`",
    "database_refused": "the database does not do it; the server's log says why",
    "database_unavailable": "the database does not answer: try again",
    "family_busy": "the chat, or one below it, is at work: stop it first",
    "file_in_use": "a chat of the caller's refers to the file: delete that first",
    "file_not_found": "the caller has no such file, or the chat does not refer to it",
    "forbidden": "the caller may not: the role, the scope of the token, or another owner",
    "headers_too_large": "the headers are larger than a request may have",
    "http": "what aiohttp itself refuses, as an `Expect` that nobody knows",
    "internal": "a defect: the log has it",
    "invalid_body": "the body is JSON, but not what is asked for: the place is named",
    "invalid_input": "a value that cannot be: an unknown model, agent or cursor of a stream",
    "key_reused": "the `Idempotency-Key` was used for another request",
    "last_admin": "there would be no administrator any more",
    "message_not_found": "there is no such message, or an edit took it out",
    "method_not_allowed": "the path has other methods: `Allow` lists them",
    "misdirected": "`Host` is not a name of this server",
    "name_taken": "another user has the name",
    "no_secret_key": "the server has no key to keep secrets with",
    "no_such_path": "nothing is served there",
    "not_a_prompt": "only what a person said can be edited",
    "not_a_root": "the chat above it is archived: unarchive that one",
    "not_archived": "the chat is not archived",
    "not_found": "there is no such thing",
    "not_ready": "the database does not answer, or no worker lives: `part` says which",
    "nothing_to_compact": "no answer came since the last summary",
    "nothing_waits": "what is answered is not waited for (any more)",
    "outcome_unknown": "the database was lost in the commit: ask again with the same key",
    "provider_not_found": "there is no such provider, or no key of it is stored",
    "quota_exceeded": "all files of the caller together would be too large: delete some",
    "queue_full": "too many messages wait already",
    "queued_not_found": "no such message waits: it may have been delivered",
    "share_not_found": "the chat has no such share",
    "stranded": "no worker that lives knows the chat's agent",
    "timed_out": "the body came too slowly",
    "token_not_found": "the caller has no such token",
    "too_deep": "a chat below a chat below a chat: one too many",
    "too_large": "the body has more bytes than are read",
    "too_many": "there are as many of these as there may be",
    "too_many_streams": "the caller has as many streams open here as they may: close some",
    "transition_not_allowed": "the chat's status does not allow it: the facts name both",
    "unauthenticated": "no token, session or link was shown, or it is no good",
    "unsupported_media_type": "the body is not `application/json`",
    "user_not_found": "there is no such user",
    "wrong_answer": "the action waits for another kind of answer, or was shown otherwise",
    "wrong_order": "the order does not name every waiting message once",
}


def problems() -> str:
    """Every kind that the server may answer with."""
    found = dict(_kinds())
    rows = [(f"`{kind}`", _status(kind, found[kind]), WHEN[kind]) for kind in sorted(found)]
    return table(("kind", "status", "when"), rows)


def _status(kind: str, status: int) -> str:
    return "its own" if kind == "http" else f"{status}"


def _kinds() -> Iterator[tuple[str, int]]:
    for refused in _below(Refused):
        yield refused.kind, refused.status
    for error in _below(ChatError):
        if "kind" in vars(error):
            yield error.kind, _STATUS.get(error, 409)
    others = [ConfigError(""), OutcomeUnknown(""), Unavailable(""), StoreError("")]
    for problem in (*map(problem_of, others), *_of_aiohttp(), INTERNAL):
        assert problem is not None
        yield problem.kind, problem.status


def _of_aiohttp() -> Iterator[Problem]:
    request: Any = SimpleNamespace(path="/", method="GET")
    yield app._of_aiohttp(request, web.HTTPNotFound())
    yield app._of_aiohttp(request, web.HTTPMethodNotAllowed("GET", ["POST"]))
    yield app._of_aiohttp(request, web.HTTPExpectationFailed())


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    """Of Holdfast itself: tests have some of their own."""
    for each in kind.__subclasses__():
        if each.__module__.startswith("holdfast."):
            yield each
        yield from _below(each)


# --- streams -------------------------------------------------------------------------------------

OF_CHAT: Final[Mapping[str, str]] = {
    "chat": "the chat itself; first on every connection, and again on each change",
    "message": "a committed message, by its `number`: one that is there already is replaced",
    "superseded": "an edit took these out",
    "queue": "what waits, all of it, in order",
    "actions": "what is waited for from outside, all of it",
    "delta": "the running attempt said something: its deltas `first` to `last`, as one fragment",
    "reset": "`live`: drop the fragments. `history`: drop everything, the newest page follows; "
    "there are earlier messages than `more_before`",
    "end": "the server ends the stream; without an id",
}
OF_LIST: Final[Mapping[str, str]] = {
    "chat": "a chat that the caller has, or may read, is new, or changed; one with an older "
    "`snapshot_version` than you have is to be dropped",
    "deleted": "it is gone, or shared no longer",
    "reset": "more changed than is told one by one, or the cursor is yet to come: read "
    "`GET /chats` again",
    "end": "as in the stream of a chat",
}
ENDS: Final[Mapping[str, str]] = {
    "shutdown": "this process stops: come back, to another one or later",
    "slow": "nothing was taken from the connection for too long",
    "failed": "something went wrong here",
    "revoked": "the token, session, share or user is no longer good for it",
    "deleted": "the chat is gone",
}
SHOWN: Final[Mapping[str, str]] = {
    "text_delta": "a piece of the answer",
    "reasoning_delta": "a piece of the reasoning",
    "call_started": "the model begins to write a call",
    "arguments_delta": "a piece of the arguments of a call, as JSON text",
    "tool_called": "a call is complete",
    "tool_started": "a call runs",
    "tool_progressed": "a running call says how far it is",
    "tool_finished": "a call has its result",
    "compacting": "the conversation is being summarized; a piece of the summary",
    "warning": "something odd that the turn survives",
    "omitted": "output of these calls was left out here: the committed message has it",
}


def stream_events() -> str:
    rows = [
        (f"`{name}`", _data(name, kind), OF_CHAT[name]) for name, kind in events.PAYLOADS.items()
    ]
    return table(("event", "data", "says"), rows)


def list_events() -> str:
    rows = [
        (f"`{name}`", _data(name, kind), OF_LIST[name])
        for name, kind in events.LIST_PAYLOADS.items()
    ]
    return table(("event", "data", "says"), rows)


def _data(name: str, kind: type[Struct]) -> str:
    fields = [f"`{field}`" for field in kind.__struct_fields__]
    return f"`{kind.__name__}`" if len(fields) > 6 else ", ".join(fields)


def fragments() -> str:
    rows = []
    for kind in get_args(Fragment):
        tag = str(kind.__struct_config__.tag)
        fields = ", ".join(f"`{field}`" for field in kind.__struct_fields__)
        rows.append((f"`{tag}`", fields, SHOWN[tag]))
    return table(("`type`", "fields", "says"), rows)


def ends() -> str:
    known = {end.reason: end for end in vars(events).values() if isinstance(end, events.End)}
    rows = [
        (f"`{reason}`", "yes" if known[reason].reconnect else "no", ENDS[reason])
        for reason in get_args(events.Reason)
    ]
    return table(("`reason`", "`reconnect`", "because"), rows)


# --- limits --------------------------------------------------------------------------------------


def limits() -> str:
    bounds, patience, streams = app.Limits(), Patience(), StreamOptions()
    (page,) = get_args(given.Limit)[1:]
    rows = [
        ("a body of JSON", _size(bounds.body), "`too_large`"),
        ("an upload", _size(bounds.file), "`too_large`"),
        ("an import", _size(bounds.transfer), "`too_large`"),
        (
            "all files of a user",
            f"{bounds.quota // 2**30} GiB",
            "`quota_exceeded`: delete some",
        ),
        ("all headers of a request", _size(guard.HEADERS), "`headers_too_large`, or 431 alone"),
        ("the headers of a request to arrive", _seconds(patience.head), "408"),
        (
            "a body to arrive",
            f"{_seconds(patience.body)}, and 1 s more for each {_size(patience.rate)}",
            "`timed_out`",
        ),
        ("a connection without a request", _seconds(patience.idle), "it is closed"),
        ("an `Idempotency-Key`", f"{app.KEY_LENGTH} characters", "`bad_request`"),
        ("a page", f"{page.le} at once; 1000 of users and of the audit log", "`bad_request`"),
        ("messages of a page", f"{_size(chat_stream.SIZE)}, or one", "fewer, and `next` goes on"),
        ("messages that wait in a chat", f"{chat_queue.MAX_WAITING}", "`queue_full`"),
        ("tokens of a user", f"{tokens.MOST} at the same time", "`too_many`"),
        ("shares of a chat", f"{shares.MOST}", "`too_many`"),
        (
            "streams that a user has open with one process",
            f"{streams.per_user}",
            "`too_many_streams`: close some",
        ),
        ("an entry of the audit log", f"{bounds.audit} days", "it is removed"),
        ("the life of a token", f"{tokens.LONGEST // tokens.DAY} days", "`invalid_body`"),
        ("... that another one makes", "as long as that", "`forbidden`"),
        (
            "a session that is not used",
            f"{sessions.IDLE // (tokens.DAY * 10**6)} days",
            "`unauthenticated`",
        ),
        ("a session", f"{sessions.LONGEST // (tokens.DAY * 10**6)} days", "`unauthenticated`"),
        (
            "the page that a long chat opens with",
            f"{chat_stream.PAGE} messages",
            "`reset` with `more_before`",
        ),
        ("messages told to who comes back", f"{chat_stream.MOST}", "`reset` with `history`"),
        ("chats told to who comes back", f"{roster.MOST}", "`reset`"),
        (
            "output of running calls in a stream",
            _size(replay.OUTPUT_LIMIT),
            "head and tail, and an `omitted`",
        ),
        (
            "bytes that a reader has not taken",
            _size(streams.buffer),
            f"it is written nothing more; after {_seconds(streams.slow)} `end` with `slow`",
        ),
        ("silence of the server on a stream", _seconds(streams.heartbeat), "a comment, or a ping"),
    ]
    return table(("of", "at most", "beyond that"), rows)


def _size(number: int) -> str:
    return f"{number // 2**20} MiB" if number >= 2**20 else f"{number // 2**10} KiB"


def _seconds(number: float) -> str:
    return f"{number:g} s"


# --- settings ------------------------------------------------------------------------------------

SECTIONS: Final[Mapping[str, type[Struct]]] = {
    "": settings.Settings,
    "agents.NAME.": settings.AgentSettings,
    **{f"{name}.": kind for name, kind in settings.SECTIONS.items()},
}
INSTEAD: Final[Mapping[str, str]] = {
    "database": "`sqlite:///chats.db`, `postgresql://user@host/name`; a file in the data directory",
    "record": "a directory: what models are asked and say is written down there "
    "([recordings](operations.md#recordings))",
    "providers": "options of a provider by its name, as `[providers.openai]`: `base_url`, "
    "`headers`, `profile`. Keys are never here",
    "agents.NAME.model": "as `provider:model`; `HOLDFAST_MODEL`, then the first provider that "
    "has a key, or else the demo",
    "agents.NAME.instructions": "what it is to be",
    "agents.NAME.instructions_file": "the same, from a file beside this one",
    "agents.NAME.dir": "where the bundled tools work; beside this file, unless that is a home",
    "agents.NAME.effort": "how hard it thinks; the provider decides",
    "agents.NAME.max_steps": "answers of the model in one turn",
    "server.urls": "where people reach it, when that is not where it listens",
    "server.team": "several people, each with a token of their own ([team mode](#team-mode))",
    "log.level": "from which on lines are written: `debug`, `info`, `warning`, `error`",
    "worker.children": "how many chats beside these that other chats have spawned",
    "traces.enabled": "[traces](operations.md#traces) by OpenTelemetry, which has to be installed",
}


def settings_table() -> str:
    return table(("setting", "default", "means"), _settings())


def _settings() -> Iterator[tuple[str, str, str]]:
    for prefix, kind in SECTIONS.items():
        words = attribute_words(kind)
        for field in structs.fields(kind):
            name = prefix + field.name
            if field.name in settings.SECTIONS or name == "agents":
                continue
            text = INSTEAD.get(name) or words[field.name]
            yield f"`{name}`", _default(field), text[0].lower() + text[1:].rstrip(".")


def _default(field: structs.FieldInfo) -> str:
    default = field.default if field.default is not NODEFAULT else field.default_factory()
    if default is None or default in ((), {}):
        return "" if not isinstance(default, tuple) else "`[]`"
    return f"`{msgspec.json.encode(default).decode()}`"


def attribute_words(kind: type[Any]) -> dict[str, str]:
    """What stands below each field of a class."""
    (made,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(kind))).body
    assert isinstance(made, ast.ClassDef)
    words: dict[str, str] = {}
    for before, after in zip(made.body, made.body[1:], strict=False):
        if isinstance(before, ast.AnnAssign) and isinstance(after, ast.Expr):
            assert isinstance(before.target, ast.Name)
            assert isinstance(after.value, ast.Constant)
            words[before.target.id] = " ".join(str(after.value.value).split())
    return words


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
}


def placed(text: str, name: str, made: str) -> str:
    """A page with a table where its comments are."""
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
