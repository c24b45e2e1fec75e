"""The API as an aiohttp application: a request is let in, read, carried out and answered.

Everything particular is elsewhere: who asks in `identity`, who may in `policy`, what is done in
`routes`. What goes wrong becomes a `Problem` here, whatever it is.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec
from aiohttp import web
from msgspec import Struct

from holdfast.chat.errors import ChatNotFound
from holdfast.chat.host import Host
from holdfast.kernel.errors import ConfigError, HoldfastError
from holdfast.kernel.ports import Ports
from holdfast.observe.meters import Meters
from holdfast.server.fanout import Hub, StreamOptions
from holdfast.server.identity.access import Access
from holdfast.server.identity.address import address_of
from holdfast.server.identity.audit import keep_pruned
from holdfast.server.mistake import in_words
from holdfast.server.operation import OPERATIONS, Call, Content, Operation, headers_of
from holdfast.server.policy import POLICY, Caller, Need, Standing, Verdict, verdict
from holdfast.server.problem import (
    AWAY,
    INTERNAL,
    MEDIA,
    TITLES,
    BadBody,
    BadRequest,
    Forbidden,
    NotFound,
    Problem,
    Refused,
    TooLarge,
    Unauthenticated,
    problem_of,
)
from holdfast.server.roster import Rosters
from holdfast.server.wire import KEY, from_json, to_json
from holdfast.server.wire import PREFIX as PREFIX
from holdfast.store.database import Database, Unavailable

LOG: Final = logging.getLogger("holdfast.server")
ROOTED: Final = frozenset(("/healthz", "/readyz", "/metrics", "/openapi.json"))
"""What is served without the prefix too: where those who look for it look."""
KEY_LENGTH: Final = 200
KNOWN: Final = web.RequestKey("known", bool)
"""Of a request of somebody who was let in."""


class Limits(Struct, frozen=True, kw_only=True):
    body: int = 1024 * 1024
    """Bytes of JSON."""
    file: int = 32 * 1024 * 1024
    transfer: int = 64 * 1024 * 1024
    """Bytes of a chat that is imported."""
    quota: int = 5 * 1024 * 1024 * 1024
    """Bytes of all files of a user."""
    audit: int = 365
    """Days that an entry of the audit log is kept."""
    streams: StreamOptions = StreamOptions()

    def __post_init__(self) -> None:
        for name in ("body", "file", "transfer", "quota", "audit"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"the limit {name} is {getattr(self, name)!r}: use 1 or more")


class Identity(Protocol):
    """Knows who asks. With `async still(caller, chat_id) -> bool` it also says whether they still
    may, which is asked again and again while they watch (`chat_id`: None for all their chats)."""

    async def caller(self, request: web.Request) -> Caller | None:
        """None for somebody who shows nothing. `Unauthenticated` when what they show is no good."""
        ...

    async def standing(self, caller: Caller, chat_id: str) -> Standing | None:
        """How they stand to a chat; None when there is no such chat."""
        ...


class Server:
    """What all requests work with."""

    def __init__(
        self,
        host: Host,
        db: Database,
        identity: Identity,
        ports: Ports | None = None,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        access: Access = Access(),  # noqa: B008 - frozen
        meters: Meters | None = None,
        base_urls: Mapping[str, str] = {},
    ) -> None:
        self.host = host
        self.db = db
        self.identity = identity
        self.ports = ports or Ports()
        self.limits = limits
        self.access = access
        self.meters = meters or Meters()
        """The numbers of this process."""
        self.base_urls = base_urls
        """Of providers that the settings name another one for than their own."""
        self.hub = Hub(limits.streams, getattr(identity, "still", None), self._is_there)
        """Serves the streams."""
        self.rosters = Rosters(host.feed, self.hub.spawn)

    async def _is_there(self, chat_id: str) -> bool:
        try:
            await self.host.chat(chat_id)
        except ChatNotFound:
            return False
        return True


def application(server: Server, operations: Iterable[Operation] | None = None) -> web.Application:
    """The API over what a server has."""
    app = web.Application(middlewares=[problems], client_max_size=server.limits.body)
    if operations is None:
        import holdfast.server.routes  # noqa: F401 - which makes them

    for each in OPERATIONS.values() if operations is None else operations:
        handler = _handler(server, each, POLICY[each.method, each.path])
        for method in _methods(each):
            app.router.add_route(method, PREFIX + each.path, handler)
            if each.path in ROOTED:
                app.router.add_route(method, each.path, handler)

    async def end_streams(_: web.Application) -> None:
        await server.hub.close()

    async def begin_pruning(_: web.Application) -> None:
        server.hub.spawn(keep_pruned(server.db, server.limits.audit))

    # Before connections are waited for: a stream ends only when it is told to.
    app.on_shutdown.append(end_streams)
    app.on_startup.append(begin_pruning)
    return app


def _methods(operation: Operation) -> tuple[str, ...]:
    """What can be read can be asked about. A stream has no size and no end."""
    ends = operation.method == "GET" and operation.events is None
    return (operation.method, "HEAD") if ends else (operation.method,)


# --- one request ---------------------------------------------------------------------------------


def _handler(
    server: Server, operation: Operation, need: Need
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        _check_names(request)
        try:
            caller = await admitted(server, need, request)
        except ChatUnknown:
            if not await _was_done(server, operation, request):
                raise
            return web.Response(status=operation.status)
        request[KNOWN] = caller is not None
        call = Call(server, caller, _key(request), _address(server, request))
        given = _names(operation, request) | _asked(operation, request)
        if operation.raw:
            answer = await operation.handle(call, request, **given)
            if isinstance(answer, web.StreamResponse):
                return answer
            return _response(operation, answer)
        if operation.body is None:
            answer = await operation.handle(call, **given)
        else:
            given["body"] = await _body(request, operation.body, server.limits.body)
            answer = await _unless_too_deep(operation.handle(call, **given))
        made = _response(operation, answer)
        made.headers.update(call.headers)
        return made

    return handle


async def _unless_too_deep(handled: Awaitable[Any]) -> Any:
    """What could just be read may be too deep to be looked through. Nothing was changed then."""
    try:
        return await handled
    except RecursionError:
        raise BadRequest("the body has too much inside of one another: send less") from None


def _names(operation: Operation, request: web.Request) -> dict[str, Any]:
    return {
        name: _converted(request.match_info[name], kind, name)
        for name, kind in operation.names.items()
    }


async def _was_done(server: Server, operation: Operation, request: web.Request) -> bool:
    """Whether there is no such chat because the caller has asked for just this already."""
    key = _key(request)
    if operation.was_done is None or key is None:
        return False
    call = Call(server, await server.identity.caller(request), key, _address(server, request))
    return bool(await operation.was_done(call, **_names(operation, request)))


async def admitted(server: Server, need: Need, request: web.Request) -> Caller | None:
    """Who asks, when they may. The one place where that is decided."""
    if need is Need.NOTHING:
        return None
    caller = await server.identity.caller(request)
    chat_id = request.match_info.get("chat")
    standing = None
    if caller is not None and chat_id is not None:
        standing = await server.identity.standing(caller, chat_id)
    match verdict(need, caller, standing):
        case Verdict.YES:
            return caller
        case Verdict.WHO:
            raise Unauthenticated("say who you are: send Authorization: Bearer <token>")
        case Verdict.NO:
            raise Forbidden("you may not do this: ask whoever it belongs to, or an administrator")
        case Verdict.UNKNOWN:
            raise ChatUnknown(f"there is no chat {chat_id!r}", chat=chat_id)


class ChatUnknown(NotFound):
    """As the chat itself would say it: nobody learns from it what there is."""

    kind = "chat_not_found"


def _address(server: Server, request: web.Request) -> str:
    return address_of(request, server.access.proxies)


def _key(request: web.Request) -> str | None:
    key = request.headers.get(KEY)
    if key is not None and not (0 < len(key) <= KEY_LENGTH and key.isprintable()):
        raise BadRequest(f"{KEY} has to be 1 to {KEY_LENGTH} printable characters")
    return key


def _asked(operation: Operation, request: web.Request) -> dict[str, Any]:
    if operation.query is not None:
        return {"query": _query(request, operation.query)}
    if request.query:
        raise BadRequest(f"nothing can be asked with ?{next(iter(request.query))}: leave it out")
    return {}


def _check_names(request: web.Request) -> None:
    """That no name in the path has a character which no database holds."""
    for name, value in request.match_info.items():
        if not _storable(value):
            raise NotFound(f"there is no {name} {value!r}")


def _storable(text: str) -> bool:
    return "\x00" not in text and not any("\ud800" <= sign <= "\udfff" for sign in text)


def _query(request: web.Request, kind: type) -> Any:
    given: dict[str, Any] = {}
    for name, value in request.query.items():
        if name in given:
            raise BadRequest(f"?{name} is given twice: give it once")
        if not _storable(value):
            raise BadRequest(f"?{name} has a character that cannot be stored: remove it")
        given[name] = value
    return _converted(given, kind, "query")


def _converted(value: object, kind: Any, what: str) -> Any:
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{what}: {in_words(error, kind)}") from None


async def _body(request: web.Request, kind: type, limit: int) -> Any:
    if request.can_read_body and request.content_type != "application/json":
        raise Unsupported(f"the body is {request.content_type}: send application/json")
    try:
        data = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise TooLarge(f"the body has more than {limit} bytes: send less", limit=limit) from None
    try:
        return from_json(data or b"{}", kind)
    except msgspec.ValidationError as error:
        raise BadBody(f"body: {in_words(error, kind)}") from None
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body is no JSON: {error}") from None


class Unsupported(Refused):
    kind = "unsupported_media_type"
    status = 415


def _response(operation: Operation, value: object) -> web.Response:
    if isinstance(value, Content):
        headers = headers_of(value.media, value.name)
        return web.Response(status=operation.status, body=value.body, headers=headers)
    if operation.gives is None:
        return web.Response(status=204)
    return web.Response(
        status=operation.status, body=to_json(value), content_type="application/json"
    )


# --- what goes wrong -----------------------------------------------------------------------------


@web.middleware
async def problems(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except HoldfastError as error:
        headers = error.headers if isinstance(error, Refused) else {}
        problem = problem_of(error)
        if isinstance(error, Unavailable) and not request.get(KNOWN, False):
            problem = AWAY
        if problem is None or problem.status >= 500:
            LOG.error("%s %r failed", request.method, request.path, exc_info=error)
        return problem_response(problem or INTERNAL, headers)
    except web.HTTPException as error:
        return problem_response(_of_aiohttp(request, error), error.headers)
    except web.RequestPayloadError:
        return _broken_body()
    except ConnectionError as error:
        if not _is_gone(request):
            LOG.exception("%s %r failed", request.method, request.path)
        else:
            LOG.debug(
                "%s %r: nobody waits for it any more (%s)", request.method, request.path, error
            )
        return problem_response(INTERNAL)
    except Exception:
        LOG.exception("%s %r failed", request.method, request.path)
        return problem_response(INTERNAL)


def _broken_body() -> web.Response:
    """Nobody knows where it ends: so nothing more is read from this connection."""
    detail = "the body breaks off, or is not encoded as its headers say: send it again"
    response = problem_response(Problem("bad_request", 400, TITLES[400], detail))
    response.force_close()
    return response


def _is_gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def problem_response(problem: Problem, headers: Mapping[str, str] = {}) -> web.Response:
    more = {name: value for name, value in headers.items() if name.lower() in _KEPT}
    body = to_json(problem)
    return web.Response(status=problem.status, body=body, content_type=MEDIA, headers=more)


_KEPT: Final = frozenset(("allow", "www-authenticate", "retry-after"))


def _of_aiohttp(request: web.Request, error: web.HTTPException) -> Problem:
    match error:
        case web.HTTPNotFound():
            detail = f"there is no {request.path}: {PREFIX}/openapi.json lists what there is"
            return Problem("no_such_path", 404, TITLES[404], detail)
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            detail = f"{request.path} has no {request.method}: use {allowed}"
            return Problem("method_not_allowed", 405, TITLES[405], detail)
        case _:
            title = TITLES.get(error.status, error.reason)
            return Problem("http", error.status, title, error.text or error.reason)
