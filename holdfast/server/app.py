"""The API as an aiohttp application: authorises a request, decodes it, runs it and responds.

Authentication is in `identity`, authorisation in `policy`, the operations in `routes`. Every error
becomes `ProblemDetails` here.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import anyio
import msgspec
from aiohttp import web
from msgspec import Struct, structs
from multidict import MultiDict, MultiMapping

from holdfast.chat.errors import ChatNotFound, Corrupt
from holdfast.chat.host import Host
from holdfast.kernel.errors import ConfigError, HoldfastError
from holdfast.kernel.ports import Ports
from holdfast.observe.metrics import MetricRegistry
from holdfast.server.access_policy import (
    POLICY,
    AccessDecision,
    ApiCaller,
    ChatAccess,
    Need,
    authorise,
)
from holdfast.server.chat_list_stream import ChatListNotifier
from holdfast.server.fanout import Hub, StreamOptions
from holdfast.server.identity.audit import keep_pruned
from holdfast.server.identity.auth_config import AuthConfig
from holdfast.server.identity.client_address import address_of
from holdfast.server.json import API_PREFIX as API_PREFIX
from holdfast.server.json import IDEMPOTENCY_HEADER, from_json, to_json
from holdfast.server.operation import (
    DOWNLOAD,
    DOWNLOAD_KEY,
    OPERATIONS,
    ApiCall,
    BytesResponse,
    Operation,
    headers_of,
)
from holdfast.server.problem import (
    INTERNAL_ERROR,
    STATUS_TITLES,
    BadBody,
    BadRequest,
    Forbidden,
    NotFound,
    ProblemDetails,
    RequestRefused,
    TooLarge,
    Unauthenticated,
    problem_of,
)
from holdfast.server.problem_response import problem_response
from holdfast.server.validation_errors import in_words
from holdfast.store.database import Damaged, Database, OutcomeUnknown, Unavailable

LOG: Final = logging.getLogger("holdfast.server")
UNPREFIXED_PATHS: Final = frozenset(("/healthz", "/readyz", "/metrics", "/openapi.json"))
"""Paths that are also served without the prefix, where probes and tools look for them."""
MAX_KEY_LENGTH: Final = 200
"""Longest `Idempotency-Key` in characters."""
MAX_IMPORTS: Final = 2
"""Most imports that are parsed and written at once. Others wait, with their bodies in files."""


class Limits(Struct, frozen=True, kw_only=True):
    """Limits of a server: sizes in bytes, retention in days."""

    body: int = 1024 * 1024
    """Largest JSON body in bytes."""
    file: int = 32 * 1024 * 1024
    """Largest uploaded file in bytes."""
    transfer: int = 64 * 1024 * 1024
    """Largest chat that can be imported, in bytes."""
    quota: int = 5 * 1024 * 1024 * 1024
    """Bytes of all files of one user."""
    audit: int = 365
    """Days that an audit log entry is kept."""
    streams: StreamOptions = StreamOptions()

    def __post_init__(self) -> None:
        for name in ("body", "file", "transfer", "quota", "audit"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"the limit {name} is {getattr(self, name)!r}: use 1 or more")


class Identity(Protocol):
    """Authenticates callers.

    May also have `async still(caller, chat_id) -> bool`: whether a caller may still read a chat
    (None: any), which is checked repeatedly while they watch.
    """

    async def caller(self, request: web.Request) -> ApiCaller | None:
        """The caller; None without a credential. Raises `Unauthenticated` for an invalid one."""
        ...

    async def access(self, caller: ApiCaller, chat_id: str) -> ChatAccess | None:
        """The chat, with how the caller relates to it; None if the caller may not know of it."""
        ...


class ApiServer:
    """State that all requests share: the chats, the database, identity, limits and streams."""

    def __init__(
        self,
        host: Host,
        db: Database,
        identity: Identity,
        ports: Ports | None = None,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        access: AuthConfig = AuthConfig(),  # noqa: B008 - frozen
        meters: MetricRegistry | None = None,
        base_urls: Mapping[str, str] = {},
    ) -> None:
        self.host = host
        self.db = db
        self.identity = identity
        self.ports = ports or Ports()
        self.limits = limits
        self.access = access
        self.meters = meters or MetricRegistry()
        """Metrics of this process."""
        self.base_urls = base_urls
        """Base URLs of providers, where the settings override the default."""
        self.hub = Hub(limits.streams, getattr(identity, "still", None), self._is_there)
        """Hub that serves all streams."""
        self.chat_list_notifier = ChatListNotifier(host.feed, self.hub.spawn)
        self.imports = anyio.Semaphore(MAX_IMPORTS)
        """Semaphore that an import holds while its body is parsed: parsing takes several times its
        size in memory, and its thread competes with the event loop for the GIL."""

    async def _is_there(self, chat_id: str) -> bool:
        try:
            await self.host.chat(chat_id)
        except ChatNotFound:
            return False
        return True


def application(
    server: ApiServer, operations: Iterable[Operation] | None = None
) -> web.Application:
    """The API of a server as an aiohttp application."""
    app = web.Application(middlewares=[problems], client_max_size=server.limits.body)
    if operations is None:
        import holdfast.server.routes  # noqa: F401 - registers the operations

    for each in OPERATIONS.values() if operations is None else operations:
        handler = _handler(server, each, POLICY[each.method, each.path])
        for method in _methods(each):
            app.router.add_route(method, API_PREFIX + each.path, handler)
            if each.path in UNPREFIXED_PATHS:
                app.router.add_route(method, each.path, handler)

    async def end_streams(_: web.Application) -> None:
        await server.hub.close()

    async def begin_pruning(_: web.Application) -> None:
        server.hub.spawn(keep_pruned(server.db, server.limits.audit))

    # Before aiohttp waits for connections: a stream ends only when the hub ends it.
    app.on_shutdown.append(end_streams)
    app.on_startup.append(begin_pruning)
    return app


def _methods(operation: Operation) -> tuple[str, ...]:
    """GET also serves HEAD, except for a stream, which has neither size nor end."""
    ends = operation.method == "GET" and operation.events is None
    return (operation.method, "HEAD") if ends else (operation.method,)


# --- one request ---------------------------------------------------------------------------------


def _handler(
    server: ApiServer, operation: Operation, need: Need
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        _check_names(request)
        request[DOWNLOAD] = operation.download
        try:
            caller, access = await admitted(server, need, request)
        except ChatUnknown:
            if not await _was_done(server, operation, request):
                raise
            return web.Response(status=operation.status)
        call = ApiCall(server, caller, _key(request), _address(server, request))
        arguments = _names(operation, request) | _query_arguments(operation, request)
        if operation.takes_chat:
            assert access is not None  # the policy requires it for all operations with a chat
            arguments["chat"] = server.host.handle(access.row)
        if operation.raw:
            answer = await operation.handle(call, request, **arguments)
            if isinstance(answer, web.StreamResponse):
                return answer
            return _response(operation, answer)
        if operation.body is None:
            answer = await operation.handle(call, **arguments)
        else:
            arguments["body"] = await _body(request, operation.body, server.limits.body)
            answer = await _unless_too_deep(operation.handle(call, **arguments))
        response = _response(operation, answer)
        response.headers.update(call.headers)
        return response

    return handle


async def _unless_too_deep(handled: Awaitable[Any]) -> Any:
    """Turn a body nested too deeply to process into a 400. Nothing was changed then."""
    try:
        return await handled
    except RecursionError:
        raise BadRequest("the body is nested too deeply: send less") from None


def _names(operation: Operation, request: web.Request) -> dict[str, Any]:
    return {
        name: _converted(request.match_info[name], kind, name)
        for name, kind in operation.names.items()
    }


async def _was_done(server: ApiServer, operation: Operation, request: web.Request) -> bool:
    """Whether the chat is missing because this very request, sent before, deleted it."""
    key = _key(request)
    if operation.was_done is None or key is None:
        return False
    call = ApiCall(server, await server.identity.caller(request), key, _address(server, request))
    return bool(await operation.was_done(call, **_names(operation, request)))


async def admitted(
    server: ApiServer, need: Need, request: web.Request
) -> tuple[ApiCaller | None, ChatAccess | None]:
    """The caller and the chat in the path, if this is allowed. The only place that decides it."""
    if need is Need.NOTHING:
        return None, None
    caller = await server.identity.caller(request)
    chat_id = request.match_info.get("chat")
    access = None
    if caller is not None and chat_id is not None:
        access = await server.identity.access(caller, chat_id)
    match authorise(need, caller, None if access is None else access.relation):
        case AccessDecision.ALLOWED:
            return caller, access
        case AccessDecision.UNAUTHENTICATED:
            raise Unauthenticated("authentication is required: send Authorization: Bearer <token>")
        case AccessDecision.FORBIDDEN:
            raise Forbidden("you are not allowed to do this: ask the owner or an administrator")
        case AccessDecision.HIDDEN:
            raise ChatUnknown(f"there is no chat {chat_id!r}", chat=chat_id)


class ChatUnknown(NotFound):
    """The chat does not exist, or the caller may not know that it does: both look the same."""

    kind = "chat_not_found"


def _address(server: ApiServer, request: web.Request) -> str:
    return address_of(request, server.access.proxies)


def _key(request: web.Request) -> str | None:
    key = request.headers.get(IDEMPOTENCY_HEADER)
    if key is not None and not (0 < len(key) <= MAX_KEY_LENGTH and key.isprintable()):
        raise BadRequest(
            f"{IDEMPOTENCY_HEADER} has to be 1 to {MAX_KEY_LENGTH} printable characters"
        )
    return key


def _query_arguments(operation: Operation, request: web.Request) -> dict[str, Any]:
    query = _without_key(request.query) if operation.download else request.query
    if operation.query is not None:
        return {"query": _query(query, operation.query)}
    if query:
        raise BadRequest(f"unknown query parameter ?{next(iter(query))}: leave it out")
    return {}


def _without_key(query: MultiMapping[str]) -> MultiMapping[str]:
    return MultiDict((name, value) for name, value in query.items() if name != DOWNLOAD_KEY)


def _check_names(request: web.Request) -> None:
    """Refuse names in the path with characters that no database can store."""
    for name, value in request.match_info.items():
        if not _storable(value):
            raise NotFound(f"there is no {name} {value!r}")


def _storable(text: str) -> bool:
    return "\x00" not in text and not any("\ud800" <= sign <= "\udfff" for sign in text)


def _query(query: MultiMapping[str], kind: type) -> Any:
    arguments: dict[str, Any] = {}
    for name, value in query.items():
        if name in arguments:
            raise BadRequest(f"?{name} is given twice: give it once")
        if not _storable(value):
            raise BadRequest(f"?{name} has a character that cannot be stored: remove it")
        arguments[name] = value
    return _converted(arguments, kind, "query")


def _converted(value: object, kind: Any, what: str) -> Any:
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{what}: {in_words(error, kind)}") from None


async def _body(request: web.Request, kind: type, limit: int) -> Any:
    if request.can_read_body and request.content_type != "application/json":
        raise UnsupportedMediaType(f"the body is {request.content_type}: send application/json")
    try:
        data = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise TooLarge(f"the body has more than {limit} bytes: send less", limit=limit) from None
    try:
        return from_json(data or b"{}", kind)
    except msgspec.ValidationError as error:
        raise BadBody(f"body: {in_words(error, kind)}") from None
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from None


class UnsupportedMediaType(RequestRefused):
    """The body has a media type that the operation does not accept."""

    kind = "unsupported_media_type"
    status = 415


def _response(operation: Operation, value: object) -> web.Response:
    if isinstance(value, BytesResponse):
        headers = headers_of(value.media, value.name)
        return web.Response(status=operation.status, body=value.body, headers=headers)
    if operation.gives is None:
        return web.Response(status=204)
    return web.Response(
        status=operation.status, body=to_json(value), content_type="application/json"
    )


# --- errors --------------------------------------------------------------------------------------


@web.middleware
async def problems(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Middleware that turns every error into a problem response, and logs those of the server."""
    try:
        return await handler(request)
    except HoldfastError as error:
        headers = error.headers if isinstance(error, RequestRefused) else {}
        problem = _problem_of(request, error)
        if problem is None or problem.status >= 500:
            _log(request, error)
        return problem_response(problem or INTERNAL_ERROR, headers)
    except web.HTTPException as error:
        return problem_response(_of_aiohttp(request, error), error.headers)
    except web.RequestPayloadError:
        return _broken_body()
    except ConnectionError as error:
        if not _is_disconnected(request):
            LOG.exception("%s %r failed", request.method, request.path)
        else:
            LOG.debug(
                "%s %r: the client has disconnected (%s)", request.method, request.path, error
            )
        return problem_response(INTERNAL_ERROR)
    except Exception:
        LOG.exception("%s %r failed", request.method, request.path)
        return problem_response(INTERNAL_ERROR)


def _problem_of(request: web.Request, error: HoldfastError) -> ProblemDetails | None:
    problem = problem_of(error)
    chat = request.match_info.get("chat")
    if isinstance(error, Damaged) and problem is not None and chat is not None:
        detail = f"chat {chat}: {problem.detail}"
        return structs.replace(problem, detail=detail, facts={"chat": chat})
    return problem


def _log(request: web.Request, error: HoldfastError) -> None:
    """Log one line for a database error, and a traceback for any other, which is a bug here."""
    cause = error.__cause__ if isinstance(error, RequestRefused) else error
    if isinstance(cause, (Unavailable, OutcomeUnknown, Damaged, Corrupt)):
        LOG.error("%s %r failed: %s", request.method, request.path, cause)
    elif isinstance(error, RequestRefused):
        LOG.error("%s %r failed: %s", request.method, request.path, error)
    else:
        LOG.error("%s %r failed", request.method, request.path, exc_info=error)


def _broken_body() -> web.Response:
    """A 400 that closes the connection, since the end of the body is unknown."""
    detail = "the body is incomplete, or not encoded as its headers say: send it again"
    response = problem_response(ProblemDetails("bad_request", 400, STATUS_TITLES[400], detail))
    response.force_close()
    return response


def _is_disconnected(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def _of_aiohttp(request: web.Request, error: web.HTTPException) -> ProblemDetails:
    match error:
        case web.HTTPNotFound():
            detail = f"there is no {request.path}: {API_PREFIX}/openapi.json lists all paths"
            return ProblemDetails("no_such_path", 404, STATUS_TITLES[404], detail)
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            detail = f"{request.path} does not accept {request.method}: use {allowed}"
            return ProblemDetails("method_not_allowed", 405, STATUS_TITLES[405], detail)
        case _:
            title = STATUS_TITLES.get(error.status, error.reason)
            return ProblemDetails("http", error.status, title, error.text or error.reason)
