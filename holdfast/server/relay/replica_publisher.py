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
from holdfast.server.relay.cluster_secret import MAX_CLOCK_SKEW, PROOF_HEADER, ClusterSecret
from holdfast.server.relay.frames import (
    MAX_SUBSCRIBER_MESSAGE,
    RELAY_PATH,
    FrameBatch,
    Subscribe,
    SubscriptionEnd,
    Unsubscribe,
    decode_subscriber_frame,
    publisher_frame_of,
)

LOG: Final = logging.getLogger("holdfast.server")


class PublisherOptions(Struct, frozen=True, kw_only=True):
    """How deltas are published. Times are in seconds."""

    tick: float = 0.025
    """Each peer is sent at most one batch in this time, with everything since the last."""
    message: int = 32 * 1024
    """Size in bytes at which a message is sent; the rest follows in the next one."""
    slow: float = 20.0
    """A peer that reads nothing for this long is disconnected."""
    heartbeat: float = 10.0
    """Interval of WebSocket pings."""


class RelayPublisher:
    """Publishes the chats of this replica to others that have the cluster's secret."""

    def __init__(
        self,
        feed: Feed,
        secret: ClusterSecret,
        options: PublisherOptions = PublisherOptions(),  # noqa: B008 - frozen
    ) -> None:
        self._feed = feed
        self._secret = secret
        self._options = options
        self._connections: set[SubscriberConnection] = set()
        self._accepted_proofs: dict[str, int] = {}
        """Accepted proofs and their expiry, to refuse replays."""

    def __len__(self) -> int:
        """Number of connected replicas."""
        return len(self._connections)

    @property
    def subscriptions(self) -> int:
        """Number of subscriptions of all connected replicas."""
        return sum(map(len, self._connections))

    def attach(self, app: web.Application) -> None:
        """Add the relay's route to an application."""
        app.router.add_get(RELAY_PATH, self.answer)
        app.on_shutdown.append(self._end)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Handle the WebSocket of another replica."""
        proof = self._admit(request)
        socket = web.WebSocketResponse(
            compress=False, heartbeat=self._options.heartbeat, max_msg_size=MAX_SUBSCRIBER_MESSAGE
        )
        await socket.prepare(request)
        await socket.send_str(proof)
        connection = SubscriberConnection(self._feed.live, socket, request.transport, self._options)
        self._connections.add(connection)
        try:
            await connection.serve()
        finally:
            self._connections.discard(connection)
        return socket

    def _admit(self, request: web.Request) -> str:
        worker = request.query.get("worker", "")
        sent_proof = request.headers.get(PROOF_HEADER, "")
        now = int(time())
        proof = self._secret.publisher_proof(sent_proof, worker, now)
        if proof is None or not self._is_new(sent_proof, now):
            raise Unauthenticated(
                "only other replicas may connect here: give all replicas the same cluster secret, "
                "and synchronise their clocks"
            )
        if worker != self._feed.worker:  # checked only for a peer that has the secret
            raise Misdirected(
                "this is another worker: correct the advertised address that led here"
            )
        return proof

    def _is_new(self, sent_proof: str, now: int) -> bool:
        self._accepted_proofs = {
            one: until for one, until in self._accepted_proofs.items() if until >= now
        }
        if sent_proof in self._accepted_proofs:
            return False
        self._accepted_proofs[sent_proof] = now + 2 * MAX_CLOCK_SKEW
        return True

    async def _end(self, _: web.Application) -> None:
        for connection in list(self._connections):
            await connection.end()


class SubscriberConnection:
    """The connection of one subscribing replica."""

    def __init__(
        self,
        live: Live,
        socket: web.WebSocketResponse,
        transport: asyncio.Transport | None,
        options: PublisherOptions,
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
                group.start_soon(self._publish)
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
        async for message in self._socket:
            if message.type is not WSMsgType.BINARY:
                break
            try:
                frame = decode_subscriber_frame(message.data)
            except msgspec.DecodeError as error:
                LOG.warning("relay: a replica sent an unknown message: %s", error)
                await self._socket.close(code=WSCloseCode.UNSUPPORTED_DATA)
                break
            match frame:
                case Subscribe(number, chat):
                    self._unsubscribe(number)
                    self._taps[number] = self._live.tap(chat, frame.after)
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

    async def _publish(self) -> None:
        sent_at = float("-inf")
        while True:
            await self._wake.wait()
            await anyio.sleep_until(sent_at + self._options.tick)
            sent_at = anyio.current_time()
            self._wake = anyio.Event()
            while self._dirty:
                message = self._message()
                if message and not await self._send(message.bytes()):
                    return

    def _message(self) -> FrameBatch:
        """Pending frames, until the message is large enough."""
        message, largest = FrameBatch(), self._options.message
        while self._dirty and len(message) < largest:
            number = next(iter(self._dirty))
            del self._dirty[number]
            tap = self._taps.get(number)
            if tap is not None:
                for taken in tap.take():
                    message.add(publisher_frame_of(number, taken))
            if number in self._leaving:
                del self._leaving[number]
                self._unsubscribe(number)
                message.add(SubscriptionEnd(number))
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
