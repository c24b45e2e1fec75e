"""The API as an ASGI application: routes requests, sends responses, and answers every error.

app.mount("/agents", holdfast.asgi(host, identify=current_user))
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Final, Union

from holdfast.chat.host import Host
from holdfast.kernel.errors import ConfigError, HoldfastError
from holdfast.server.access_policy import POLICY
from holdfast.server.api_state import ApiState, ServerLimits
from holdfast.server.asgi.app_identity import AppIdentity, ApplicationError, Identify
from holdfast.server.asgi.asgi_request import (
    AsgiRequest,
    AsgiScope,
    ClientDisconnected,
    Receive,
    Send,
)
from holdfast.server.asgi.cross_site import check_site, checked_origins
from holdfast.server.asgi.event_streams import send_over_websocket, send_sse
from holdfast.server.asgi.mounted_operations import mounted_operations
from holdfast.server.asgi.response_sender import ResponseSender
from holdfast.server.asgi.router import NotAStream, Router
from holdfast.server.asgi.shutdown_watch import ShutdownWatch
from holdfast.server.dispatch import ApiResponse, dispatch, refusal
from holdfast.server.identity.audit import keep_pruned
from holdfast.server.identity.auth_config import AuthConfig
from holdfast.server.operation import EncodedResponse, EventsResponse, Operation
from holdfast.server.problem import INTERNAL_ERROR
from holdfast.server.problem_response import encoded_problem

LOG: Final = logging.getLogger("holdfast.server")


def asgi(
    host: Union[Host, Callable[[], Host]],
    *,
    identify: Identify,
    origins: Iterable[str] = (),
    limits: ServerLimits = ServerLimits(),  # noqa: B008 - frozen
) -> AsgiApplication:
    """An ASGI application with the API of a host, to be mounted into one with its own users.

    `host` is an open host, or a function that returns it, for an application that is put together
    before its host is open. `identify` finds the user who sends a request: it returns the id of
    the user, an `AsgiUser`, or None, and may be async. It is called for every request, and every
    other second while a stream is open. `origins` are those of other sites whose pages may send
    requests with cookies. Streams end when the web server stops, when the host is closed, and by
    `close()`.
    """
    if not callable(identify):
        raise ConfigError(
            f"identify is {identify!r:.80}: use a function that takes a request and returns the "
            "id of its user, or None"
        )
    if not isinstance(host, Host) and (not callable(host) or hasattr(host, "__aenter__")):
        what = "not open yet" if hasattr(host, "__aenter__") else f"a {type(host).__name__}"
        raise ConfigError(
            f"host is {what}: use the host of `async with holdfast.open(…)`, or a function that "
            "returns it"
        )

    def server_of(host: Host) -> ApiState:
        db = host.feed.db
        access = AuthConfig(local=False)
        return ApiState(host, db, AppIdentity(db, identify), None, limits, access)

    return AsgiApplication(
        HostServers(host, server_of), mounted_operations(), checked_origins(origins)
    )


class HostServers:
    """The server of the application's host: another one when it has opened another host."""

    def __init__(
        self, host: Union[Host, Callable[[], Host]], server_of: Callable[[Host], ApiState]
    ) -> None:
        self._host = host
        self._server_of = server_of
        self.current: ApiState | None = None

    def __call__(self) -> ApiState:
        host = self._host if isinstance(self._host, Host) else self._opened(self._host)
        if self.current is None or self.current.host is not host:
            self.current = self._server_of(host)
            self.current.hub.spawn(keep_pruned(host.feed.db, self.current.limits.audit))
            host.on_close(self.current.hub.close)
        return self.current

    def _opened(self, function: Callable[[], Host]) -> Host:
        try:
            host: object = function()
            if isinstance(host, Host):
                return host
            raise ConfigError(
                f"the host is {host!r:.80}: open it with `async with holdfast.open(…)` when the "
                "application starts"
            )
        except Exception as error:
            raise ApplicationError(error) from error


class AsgiApplication:
    """An ASGI application with the API of a host, made by `holdfast.asgi`."""

    def __init__(
        self,
        servers: Callable[[], ApiState],
        operations: Iterable[Operation],
        origins: frozenset[str] = frozenset(),
    ) -> None:
        self._servers = servers
        self._router = Router(operations)
        self._origins = origins
        self._watch = ShutdownWatch(self._end_streams)
        self._server: ApiState | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._serve(AsgiRequest(scope, receive), receive, send)
            case "websocket":
                await receive()  # websocket.connect
                await self._serve(AsgiRequest(scope, receive), receive, send)
            case "lifespan":
                await self._live(receive, send)
            case other:
                raise NotImplementedError(f"holdfast.asgi serves http and websocket, not {other}")

    async def close(self) -> None:
        """End all streams, with an event that says to reconnect. New ones end at once."""
        if self._server is not None:
            await self._server.hub.close()

    async def _live(self, receive: Receive, send: Send) -> None:
        """The lifespan of an application that is served by itself."""
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    def _end_streams(self) -> None:
        task = asyncio.get_running_loop().create_task(self.close())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- requests ---

    async def _serve(self, request: AsgiRequest, receive: Receive, send: Send) -> None:
        sender = ResponseSender(request, send)
        try:
            response = await self._respond(request)
            if isinstance(response, EventsResponse):
                await self._stream(request, response, receive, sender.starting(send))
            else:
                await sender.send(response, receive)
        except ClientDisconnected:
            LOG.debug("%s %r: the client has disconnected", request.method, request.path)
        except ApplicationError as error:
            raise error.error from None
        except Exception as error:
            if sender.started:
                raise  # the web server closes the connection: the response must not look whole
            await sender.send_whole(self._refusal(request, error))

    def _refusal(self, request: AsgiRequest, error: Exception) -> EncodedResponse:
        if isinstance(error, HoldfastError):
            return refusal(request, error)
        LOG.error("%s %r failed", request.method, request.path, exc_info=error)
        return encoded_problem(INTERNAL_ERROR)

    async def _respond(self, request: AsgiRequest) -> ApiResponse:
        operation, request.match_info = self._router.find(
            request.method, request.path, request.segments, request.root_path
        )
        if request.is_websocket and operation.events is None:
            raise NotAStream(f"{request.path} is not a stream: request it over HTTP")
        check_site(request, self._origins)
        self._server = self._servers()
        need = POLICY[operation.method, operation.path]
        return await dispatch(self._server, operation, need, request)

    async def _stream(
        self, request: AsgiRequest, response: EventsResponse, receive: Receive, send: Send
    ) -> None:
        server, caller = self._server, response.caller
        assert server is not None  # it has made the response
        with ExitStack() as stack:
            stack.enter_context(server.hub.admitted(response.user))
            stack.enter_context(self._watch.watching())
            if isinstance(server.identity, AppIdentity) and caller is not None:
                caller = stack.enter_context(server.identity.watched(caller, request))
            if request.is_websocket:
                await send_over_websocket(server.hub, response, caller, request, receive, send)
            else:
                await send_sse(server.hub, response, caller, receive, send)
