"""The publishing side of the relay: sends deltas of the chats that run here to other replicas.

A replica has one connection for all chats. Pending deltas are taken once per tick, and only when
the connection has room: until then they stay in the live buffer, which is kept once for all. So a
slow peer costs its cursor in each chat and a write buffer.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from time import time
from typing import Final

import anyio
import msgspec
from aiohttp import WSCloseCode, WSMsgType, web
from msgspec import Struct

from holdfast.chat.change_feed import Feed
from holdfast.live.broadcast import Live, Tap
from holdfast.server.identity.origin_check import Misdirected
from holdfast.server.problem import Unauthenticated
from holdfast.server.relay.frames import (
    LONGEST_ASK,
    PATH,
    Left,
    Message,
    Subscribe,
    Unsubscribe,
    answer_of,
    ask_of,
)
from holdfast.server.relay.secret import ASKING, SKEW, Secret

LOG: Final = logging.getLogger("holdfast.server")


class OwnerOptions(Struct, frozen=True, kw_only=True):
    """How deltas are published. Times are in seconds."""

    tick: float = 0.025
    """Each peer is sent at most one batch in this time, with everything since the last."""
    message: int = 32 * 1024
    """Bytes: a message that is larger is sent, and the rest follows in the next."""
    slow: float = 20.0
    """A peer that reads nothing for this long is disconnected."""
    heartbeat: float = 10.0
    """Interval of WebSocket pings."""


class Owner:
    """Publishes the chats of this replica to others that have the cluster's secret."""

    def __init__(
        self,
        feed: Feed,
        secret: Secret,
        options: OwnerOptions = OwnerOptions(),  # noqa: B008 - frozen
    ) -> None:
        self._feed = feed
        self._secret = secret
        self._options = options
        self._lines: set[Line] = set()
        self._shown: dict[str, int] = {}
        """Accepted proofs and their expiry, to refuse replays."""

    def __len__(self) -> int:
        """Number of connected replicas."""
        return len(self._lines)

    @property
    def subscriptions(self) -> int:
        """Number of subscriptions of all connected replicas."""
        return sum(map(len, self._lines))

    def attach(self, app: web.Application) -> None:
        """Add the relay's route to an application."""
        app.router.add_get(PATH, self.answer)
        app.on_shutdown.append(self._end)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Handle the WebSocket of another replica."""
        proof = self._admit(request)
        socket = web.WebSocketResponse(
            compress=False, heartbeat=self._options.heartbeat, max_msg_size=LONGEST_ASK
        )
        await socket.prepare(request)
        await socket.send_str(proof)
        line = Line(self._feed.live, socket, request.transport, self._options)
        self._lines.add(line)
        try:
            await line.serve()
        finally:
            self._lines.discard(line)
        return socket

    def _admit(self, request: web.Request) -> str:
        worker = request.query.get("worker", "")
        shown = request.headers.get(ASKING, "")
        now = int(time())
        proof = self._secret.answer(shown, worker, now)
        if proof is None or not self._is_new(shown, now):
            raise Unauthenticated(
                "only other replicas may connect here: give all replicas the same cluster secret, "
                "and synchronise their clocks"
            )
        if worker != self._feed.worker:  # checked only for a peer that has the secret
            raise Misdirected(
                "this is another worker: correct the advertised address that led here"
            )
        return proof

    def _is_new(self, shown: str, now: int) -> bool:
        self._shown = {one: until for one, until in self._shown.items() if until >= now}
        if shown in self._shown:
            return False
        self._shown[shown] = now + 2 * SKEW
        return True

    async def _end(self, _: web.Application) -> None:
        for line in list(self._lines):
            await line.end()


class Line:
    """The connection of one subscribing replica."""

    def __init__(
        self,
        live: Live,
        socket: web.WebSocketResponse,
        transport: asyncio.Transport | None,
        options: OwnerOptions,
    ) -> None:
        self._live = live
        self._socket = socket
        self._transport = transport
        self._options = options
        self._taps: dict[int, Tap] = {}
        self._leaving: dict[int, None] = {}
        self._dirty: dict[int, None] = {}
        self._wake = anyio.Event()

    def __len__(self) -> int:
        """Number of subscriptions."""
        return len(self._taps)

    async def serve(self) -> None:
        """Serve subscriptions until the connection ends."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._tell)
                await self._listen()
                group.cancel_scope.cancel()
        finally:
            for tap in self._taps.values():
                tap.close()
            self._taps.clear()

    async def end(self) -> None:
        """Close the connection."""
        with anyio.move_on_after(1.0):
            await self._socket.close(code=WSCloseCode.GOING_AWAY)

    # --- receiving ---

    async def _listen(self) -> None:
        async for asked in self._socket:
            if asked.type is not WSMsgType.BINARY:
                break
            try:
                ask = ask_of(asked.data)
            except msgspec.DecodeError as error:
                LOG.warning("relay: a replica sent an unknown message: %s", error)
                await self._socket.close(code=WSCloseCode.UNSUPPORTED_DATA)
                break
            match ask:
                case Subscribe(number, chat):
                    self._unsubscribe(number)
                    self._taps[number] = self._live.tap(chat, ask.after)
                case Unsubscribe(number):
                    self._leaving[number] = None
            self._mark(number)

    def _unsubscribe(self, number: int) -> None:
        tap = self._taps.pop(number, None)
        if tap is not None:
            tap.close()

    def _mark(self, number: int) -> None:
        self._dirty[number] = None
        self._wake.set()

    # --- sending ---

    async def _tell(self) -> None:
        told = float("-inf")
        while True:
            await self._wake.wait()
            await anyio.sleep_until(told + self._options.tick)
            told = anyio.current_time()
            self._wake = anyio.Event()
            while self._dirty:
                message = self._message()
                if message and not await self._send(message.bytes()):
                    return

    def _message(self) -> Message:
        """Pending answers, until the message is large enough."""
        message, largest = Message(), self._options.message
        while self._dirty and len(message) < largest:
            number = next(iter(self._dirty))
            del self._dirty[number]
            tap = self._taps.get(number)
            if tap is not None:
                for taken in tap.take():
                    message.add(answer_of(number, taken))
            if number in self._leaving:
                del self._leaving[number]
                self._unsubscribe(number)
                message.add(Left(number))
            elif tap is not None:
                tap.when_roused(partial(self._mark, number))
        return message

    async def _send(self, data: bytes) -> bool:
        """Send a message; return whether the peer accepted it."""
        with anyio.move_on_after(self._options.slow) as scope:
            try:
                await self._socket.send_bytes(data)
            except (ConnectionError, RuntimeError):  # it is closing: the peer reconnects
                return False
        if scope.cancelled_caught:
            LOG.warning(
                "relay: a replica read nothing for %g s; disconnected it", self._options.slow
            )
            if self._transport is not None:
                self._transport.abort()
        return not scope.cancelled_caught
