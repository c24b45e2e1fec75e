"""Carries out requests: authorises one, decodes it, calls its operation and encodes the result.

Authentication is in `identity`, authorisation in `policy`, the operations in `routes`. Nothing here
depends on the server that received the request: `app.py` serves requests with aiohttp, and `asgi`
serves those of other web applications.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import structs
from multidict import MultiDict, MultiMapping

from holdfast.chat.errors import Corrupt
from holdfast.kernel.errors import HoldfastError
from holdfast.observe.caller_trace import TRACEPARENT, sent_by
from holdfast.server.access_policy import AccessDecision, ApiCaller, ChatAccess, Need, authorise
from holdfast.server.api_state import ApiState
from holdfast.server.http_request import HttpRequest, read_body
from holdfast.server.identity.client_address import address_of
from holdfast.server.operation import (
    DOWNLOAD,
    DOWNLOAD_KEY,
    ApiCall,
    BytesResponse,
    EncodedResponse,
    EventsResponse,
    Operation,
    PiecesResponse,
    headers_of,
)
from holdfast.server.problem import (
    INTERNAL_ERROR,
    BadBody,
    BadRequest,
    Forbidden,
    NotFound,
    ProblemDetails,
    RequestRefused,
    Unauthenticated,
    problem_of,
)
from holdfast.server.problem_response import encoded_problem
from holdfast.server.validation_messages import in_words
from holdfast.server.wire_format import IDEMPOTENCY_HEADER, from_json, to_json
from holdfast.store.database import Damaged, OutcomeUnknown, Unavailable

LOG: Final = logging.getLogger("holdfast.server")
UNPREFIXED_PATHS: Final = frozenset(("/healthz", "/readyz", "/metrics", "/openapi.json"))
"""Paths that are also served without the prefix, where probes and tools look for them."""
MAX_KEY_LENGTH: Final = 200
"""Longest `Idempotency-Key` in characters."""
ApiResponse: TypeAlias = EncodedResponse | PiecesResponse | EventsResponse
"""What a request is answered with."""


def methods_of(operation: Operation) -> tuple[str, ...]:
    """GET also serves HEAD, except for a stream, which has neither size nor end."""
    ends = operation.method == "GET" and operation.events is None
    return (operation.method, "HEAD") if ends else (operation.method,)


async def dispatch(
    server: ApiState, operation: Operation, need: Need, request: HttpRequest
) -> ApiResponse:
    """Carry out a request. Raises the errors that `refusal` answers."""
    with sent_by(request.headers.get(TRACEPARENT)):
        return await _carried_out(server, operation, need, request)


async def _carried_out(
    server: ApiState, operation: Operation, need: Need, request: HttpRequest
) -> ApiResponse:
    _check_names(request)
    request[DOWNLOAD] = operation.download
    try:
        caller, access = await admitted(server, need, request)
    except ChatUnknown:
        if not await _was_done(server, operation, request):
            raise
        return EncodedResponse(operation.status)
    call = ApiCall(server, caller, _key(request), _address(server, request))
    arguments = _names(operation, request) | _query_arguments(operation, request)
    if operation.takes_chat:
        assert access is not None  # the policy requires it for all operations with a chat
        arguments["chat"] = server.host.handle(access.row)
    if operation.raw:
        return _encoded(operation, await operation.handle(call, request, **arguments), call)
    if operation.body is None:
        return _encoded(operation, await operation.handle(call, **arguments), call)
    arguments["body"] = await _body(request, operation.body, server.limits.body)
    return _encoded(operation, await _unless_too_deep(operation.handle(call, **arguments)), call)


def _encoded(operation: Operation, value: object, call: ApiCall) -> ApiResponse:
    match value:
        case PiecesResponse() | EventsResponse():
            return value
        case BytesResponse(body, media, name):
            headers = headers_of(media, name)
        case _ if operation.gives is None:
            return EncodedResponse(204, headers=call.headers)
        case _:
            body, headers = to_json(value), {"Content-Type": "application/json"}
    return EncodedResponse(operation.status, body, {**headers, **call.headers})


# --- decoding ------------------------------------------------------------------------------------


async def _unless_too_deep(handled: Awaitable[Any]) -> Any:
    """Turn a body nested too deeply to process into a 400. Nothing was changed then."""
    try:
        return await handled
    except RecursionError:
        raise BadRequest("the body is nested too deeply: send less") from None


def _names(operation: Operation, request: HttpRequest) -> dict[str, Any]:
    return {
        name: _converted(request.match_info[name], kind, name)
        for name, kind in operation.names.items()
    }


async def _was_done(server: ApiState, operation: Operation, request: HttpRequest) -> bool:
    """Whether the chat is missing because this very request, sent before, deleted it."""
    key = _key(request)
    if operation.was_done is None or key is None:
        return False
    call = ApiCall(server, await server.identity.caller(request), key, _address(server, request))
    return bool(await operation.was_done(call, **_names(operation, request)))


async def admitted(
    server: ApiState, need: Need, request: HttpRequest
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


def _address(server: ApiState, request: HttpRequest) -> str:
    return address_of(request, server.access.proxies)


def _key(request: HttpRequest) -> str | None:
    key = request.headers.get(IDEMPOTENCY_HEADER)
    if key is not None and not (0 < len(key) <= MAX_KEY_LENGTH and key.isprintable()):
        raise BadRequest(
            f"{IDEMPOTENCY_HEADER} has to be 1 to {MAX_KEY_LENGTH} printable characters"
        )
    return key


def _query_arguments(operation: Operation, request: HttpRequest) -> dict[str, Any]:
    query = _without_key(request.query) if operation.download else request.query
    if operation.query is not None:
        return {"query": _query(query, operation.query)}
    if query:
        raise BadRequest(f"unknown query parameter ?{next(iter(query))}: leave it out")
    return {}


def _without_key(query: MultiMapping[str]) -> MultiMapping[str]:
    return MultiDict((name, value) for name, value in query.items() if name != DOWNLOAD_KEY)


def _check_names(request: HttpRequest) -> None:
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


async def _body(request: HttpRequest, kind: type, limit: int) -> Any:
    if request.can_read_body and request.content_type != "application/json":
        raise UnsupportedMediaType(f"the body is {request.content_type}: send application/json")
    data = await read_body(request, limit)
    try:
        return from_json(bytes(data) or b"{}", kind)
    except msgspec.ValidationError as error:
        raise BadBody(f"body: {in_words(error, kind)}") from None
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from None


class UnsupportedMediaType(RequestRefused):
    """The body has a media type that the operation does not accept."""

    kind = "unsupported_media_type"
    status = 415


# --- errors --------------------------------------------------------------------------------------


def refusal(request: HttpRequest, error: HoldfastError) -> EncodedResponse:
    """The problem response for an error. Errors of the server are logged."""
    headers = error.headers if isinstance(error, RequestRefused) else {}
    problem = _problem_of(request, error)
    if problem is None or problem.status >= 500:
        _log(request, error)
    return encoded_problem(problem or INTERNAL_ERROR, headers)


def _problem_of(request: HttpRequest, error: HoldfastError) -> ProblemDetails | None:
    problem = problem_of(error)
    chat = request.match_info.get("chat")
    if isinstance(error, Damaged) and problem is not None and chat is not None:
        detail = f"chat {chat}: {problem.detail}"
        return structs.replace(problem, detail=detail, facts={"chat": chat})
    return problem


def _log(request: HttpRequest, error: HoldfastError) -> None:
    """Log one line for a database error, and a traceback for any other, which is a bug here."""
    cause = error.__cause__ if isinstance(error, RequestRefused) else error
    if isinstance(cause, (Unavailable, OutcomeUnknown, Damaged, Corrupt)):
        LOG.error("%s %r failed: %s", request.method, request.path, cause)
    elif isinstance(error, RequestRefused):
        LOG.error("%s %r failed: %s", request.method, request.path, error)
    else:
        LOG.error("%s %r failed", request.method, request.path, exc_info=error)
