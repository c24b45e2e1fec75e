"""Sends responses that are not streams of events: whole, or while they are produced."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing

import anyio

from holdfast.server.asgi.asgi_request import AsgiMessage, AsgiRequest, Receive, Send
from holdfast.server.identity.origin_check import SECURITY_HEADERS
from holdfast.server.operation import EncodedResponse, PiecesResponse

DENIAL: str = "websocket.http.response"
"""Extension of ASGI: a handshake can be refused with a response."""
POLICY_VIOLATION: int = 1008


class ResponseSender:
    """Sends the response of one request."""

    def __init__(self, request: AsgiRequest, send: Send) -> None:
        self._request = request
        self._send = send
        self._kind = DENIAL if request.is_websocket else "http.response"
        self.started = False
        """Whether a part of the response is sent, so that it cannot be another."""

    def starting(self, send: Send) -> Send:
        """Send messages of a response that is sent elsewhere."""

        async def send_and_note(message: AsgiMessage) -> None:
            self.started = True
            await send(message)

        return send_and_note

    async def send(self, response: EncodedResponse | PiecesResponse, receive: Receive) -> None:
        """Send a response."""
        if isinstance(response, PiecesResponse):
            await self._send_pieces(response, receive)
        else:
            await self.send_whole(response)

    async def send_whole(self, response: EncodedResponse) -> None:
        """Send a response that is encoded. A handshake is refused by it."""
        if self._request.is_websocket and DENIAL not in self._request.scope.get("extensions", {}):
            await self._send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        body, headers = response.body or b"", dict(response.headers)
        if response.status != 204:
            headers["Content-Length"] = str(len(body))
        await self._start(response.status, headers)
        await self._send_body(body)

    async def _send_pieces(self, pieces: PiecesResponse, receive: Receive) -> None:
        """Send what is produced meanwhile, until it ends or the client disconnects."""
        async with aclosing(pieces.rest):
            await self._start(200, pieces.headers)
            if self._request.method != "HEAD":
                async with anyio.create_task_group() as group:
                    group.start_soon(_until_disconnected, receive, group.cancel_scope)
                    async for piece in pieces.encoded():
                        await self._send_body(piece, more=True)
                    group.cancel_scope.cancel()
            await self._send_body(b"")

    async def _start(self, status: int, headers: Mapping[str, str]) -> None:
        self.started = True
        encoded = encoded_headers({**SECURITY_HEADERS, **headers})
        await self._send({"type": f"{self._kind}.start", "status": status, "headers": encoded})

    async def _send_body(self, body: bytes, more: bool = False) -> None:
        message: AsgiMessage = {"type": f"{self._kind}.body", "body": body, "more_body": more}
        await self._send(message)


def encoded_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as ASGI servers take them."""
    return [(name.lower().encode(), text.encode()) for name, text in headers.items()]


async def _until_disconnected(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
