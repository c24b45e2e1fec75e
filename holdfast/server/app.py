"""The API as an aiohttp application: routes requests, sends responses, and answers every error."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Final, assert_never

from aiohttp import web

from holdfast.kernel.errors import HoldfastError
from holdfast.server import sse, websocket
from holdfast.server.access_policy import POLICY
from holdfast.server.api_state import ApiState
from holdfast.server.dispatch import UNPREFIXED_PATHS, ApiResponse, dispatch, methods_of, refusal
from holdfast.server.identity.audit import keep_pruned
from holdfast.server.operation import (
    OPERATIONS,
    EncodedResponse,
    EventsResponse,
    Operation,
    PiecesResponse,
)
from holdfast.server.problem import INTERNAL_ERROR, STATUS_TITLES, ProblemDetails
from holdfast.server.problem_response import problem_response
from holdfast.server.wire_format import API_PREFIX

LOG: Final = logging.getLogger("holdfast.server")


def application(server: ApiState, operations: Iterable[Operation] | None = None) -> web.Application:
    """The API of a server as an aiohttp application."""
    app = web.Application(middlewares=[problems], client_max_size=server.limits.body)
    if operations is None:
        import holdfast.server.routes  # noqa: F401 - registers the operations

    for each in OPERATIONS.values() if operations is None else operations:
        handler = _handler(server, each)
        for method in methods_of(each):
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


def _handler(
    server: ApiState, operation: Operation
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    need = POLICY[operation.method, operation.path]

    async def handle(request: web.Request) -> web.StreamResponse:
        return await _send(server, request, await dispatch(server, operation, need, request))

    return handle


async def _send(
    server: ApiState, request: web.Request, response: ApiResponse
) -> web.StreamResponse:
    match response:
        case EncodedResponse(status, body, headers):
            return web.Response(status=status, body=body, headers=headers)
        case PiecesResponse():
            return await _send_pieces(request, response)
        case EventsResponse(subject, cursor, caller):
            respond = websocket.respond if websocket.is_handshake(request) else sse.respond
            with server.hub.admitted(response.user):
                return await respond(server.hub, request, subject, cursor, caller)
        case _:
            assert_never(response)


async def _send_pieces(request: web.Request, pieces: PiecesResponse) -> web.StreamResponse:
    response = web.StreamResponse(headers=pieces.headers)
    async with aclosing(pieces.rest):
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        try:
            async for piece in pieces.encoded():
                await response.write(piece)
        except Exception:
            if request.transport is not None:
                request.transport.abort()
            raise
    await response.write_eof()
    return response


# --- errors --------------------------------------------------------------------------------------


@web.middleware
async def problems(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Middleware that turns every error into a problem response, and logs those of the server."""
    try:
        return await handler(request)
    except HoldfastError as error:
        answer = refusal(request, error)
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
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
