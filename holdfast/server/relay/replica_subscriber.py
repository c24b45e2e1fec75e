"""The subscribing side of the relay: mirrors chats that are read here and run on another replica.

The owner of a chat is looked up when a reader arrives, and again with every notice of it, for all
such chats in one query. A lost connection is opened again and continues where it was: readers see a
pause. If the chat has moved on meanwhile, they receive the reset that they would have received
anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from time import time
from typing import TYPE_CHECKING, Final

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import Struct

from holdfast.chat.change_feed import Feed
from holdfast.chat.transitions.claims import Owner, owners
from holdfast.kernel.ports import uniform
from holdfast.live.broadcast import Live, Mirror
from holdfast.live.buffer import AttemptId
from holdfast.server.relay.cluster_secret import PROOF_HEADER, ClusterSecret
from holdfast.server.relay.frames import (
    MAX_PUBLISHER_MESSAGE,
    RELAY_PATH,
    AttemptDeltas,
    AttemptOver,
    PublisherFrame,
    SubscriberFrame,
    SubscriptionEnd,
    Unsubscribe,
    attempt_key_of,
    decode_publisher_frames,
    encode_subscriber_frame,
    subscribe_frame,
)
from holdfast.store.database import Changed, ChangeNotice, Claimable, NoticesLost, StoreError, Tx

if TYPE_CHECKING:
    import aiohttp

LOG: Final = logging.getLogger("holdfast.server")


class SubscriberOptions(Struct, frozen=True, kw_only=True):
    """How other replicas are subscribed to. Times are in seconds."""

    pause: float = 0.02
    """Pause between two lookups of owners: all changes meanwhile share one query."""
    connect: float = 5.0
    """Timeout of opening a connection."""
    first: float = 0.1
    """Wait before a lost connection is opened again; doubled after each failure."""
    longest: float = 10.0
    """Longest wait before a connection is opened again."""
    heartbeat: float = 10.0
    """Interval of WebSocket pings."""
    idle: float = 60.0
    """A connection without subscriptions for this long is closed."""


class RelaySubscriber:
    """Subscribes to other replicas for chats read here. Belongs to one event loop."""

    def __init__(
        self,
        feed: Feed,
        secret: ClusterSecret,
        options: SubscriberOptions = SubscriberOptions(),  # noqa: B008 - frozen
        random: Callable[[], float] = uniform,
    ) -> None:
        """`random`: uniform in [0, 1), to spread the attempts of many replicas to reconnect."""
        self._feed = feed
        self._secret = secret
        self._options = options
        self._random = random
        self._peers: dict[str, Peer] = {}
        self._routes: dict[str, Peer] = {}
        """By mirrored chat: the replica that runs it."""
        self._dirty: set[str] = set()
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        """Number of replicas subscribed to."""
        return len(self._peers)

    @property
    def chats(self) -> int:
        """Number of chats subscribed to."""
        return len(self._routes)

    @property
    def failing(self) -> int:
        """Number of replicas that cannot be reached."""
        return sum(peer.failing for peer in self._peers.values())

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RelaySubscriber]:
        """Run the relay while the block runs."""
        import aiohttp

        loop, live = asyncio.get_running_loop(), self._feed.live

        def watched(chat: str) -> None:
            # A reader may be garbage collected, and so leave, in any thread.
            self._dirty.add(chat)
            loop.call_soon_threadsafe(self._wake.set)

        self._dirty.update(live.watched())
        live.on_watch = watched
        end = self._feed.db.listen(self._on_notice)
        jar, connector = aiohttp.DummyCookieJar(), aiohttp.TCPConnector(limit=0)
        raised: BaseException | None = None
        async with aiohttp.ClientSession(cookie_jar=jar, connector=connector) as session:
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._look_up_owners, group, session)
                    try:
                        yield self
                    except (asyncio.CancelledError, GeneratorExit):
                        raise
                    except BaseException as error:  # raised by the block: kept out of our group
                        raised = error
                    group.cancel_scope.cancel()
            finally:
                end()
                live.on_watch = None
                for peer in self._peers.values():
                    peer.drop_all()
        if raised is not None:
            raise raised

    # --- owners ---

    def _on_notice(self, notice: ChangeNotice) -> None:
        match notice:
            case Changed(chat, _):
                live = self._feed.live
                if live.is_watched(chat) and not live.runs(chat):
                    self._dirty.add(chat)
                    self._wake.set()
            case Claimable():
                pass  # for workers
            case NoticesLost():
                self._dirty.update(self._feed.live.watched())
                self._wake.set()

    async def _look_up_owners(self, group: TaskGroup, session: aiohttp.ClientSession) -> None:
        while True:
            with anyio.move_on_after(self._feed.poll) as waiting:
                await self._wake.wait()
            self._wake.clear()
            if waiting.cancelled_caught:  # in case a notice was lost
                self._dirty.update(self._feed.live.watched())
            dirty, self._dirty = self._dirty, set()
            try:
                owner_by_chat = await self._owners(dirty)
            except StoreError as error:
                LOG.warning("relay: could not look up the owners of chats; will retry: %s", error)
                self._dirty |= dirty
                await anyio.sleep(self._feed.poll)
                continue
            for chat in dirty:
                self._route(chat, owner_by_chat.get(chat), group, session)
            await anyio.sleep(self._options.pause)

    async def _owners(self, chats: Iterable[str]) -> dict[str, Owner]:
        watched = [chat for chat in chats if self._feed.live.is_watched(chat)]
        if not watched:
            return {}
        return await self._feed.db.read(partial(_owners, watched))

    def _route(
        self, chat: str, owner: Owner | None, group: TaskGroup, session: aiohttp.ClientSession
    ) -> None:
        """Subscribe to the replica that runs a chat, and unsubscribe from any other."""
        peer = None
        if owner is not None and owner.url is not None and owner.id != self._feed.worker:
            peer = self._peers.get(owner.id)
            if peer is None:
                peer = Peer(
                    self._feed.live,
                    self._secret,
                    owner.id,
                    owner.url,
                    self._options,
                    self._random,
                )
                self._peers[owner.id] = peer
                group.start_soon(self._run, peer, session)
        before = self._routes.pop(chat, None)
        if before is not None and before is not peer:
            before.unwant(chat)
        if peer is not None:
            self._routes[chat] = peer
            peer.want(chat)

    async def _run(self, peer: Peer, session: aiohttp.ClientSession) -> None:
        try:
            await peer.run(session)
        finally:
            del self._peers[peer.worker]


async def _owners(chats: list[str], tx: Tx) -> dict[str, Owner]:
    return await owners(tx, chats)


class Subscription:
    """A subscription to one chat."""

    __slots__ = ("chat", "leaving", "mirror", "number", "stale")

    def __init__(self, number: int, chat: str) -> None:
        self.number = number
        self.chat = chat
        self.mirror: Mirror | None = None
        self.stale = False
        """Earlier deltas are missing: the chat has to be requested from the start."""
        self.leaving = False

    def end(self) -> None:
        """Close the mirror."""
        if self.mirror is not None:
            self.mirror.close()
            self.mirror = None


class Peer:
    """Another replica, subscribed to over one connection."""

    def __init__(
        self,
        live: Live,
        secret: ClusterSecret,
        worker: str,
        url: str,
        options: SubscriberOptions,
        random: Callable[[], float],
    ) -> None:
        self.worker = worker
        self._live = live
        self._secret = secret
        self._url = url.rstrip("/") + RELAY_PATH
        self._options = options
        self._random = random
        self._by_chat: dict[str, Subscription] = {}
        self._by_number: dict[int, Subscription] = {}
        self._numbers = 0
        self._outgoing: list[SubscriberFrame] = []
        self._wake = asyncio.Event()
        self._connected = False
        self.failing = False
        """The last connection failed. Logged once per outage."""

    # --- subscriptions ---

    def want(self, chat: str) -> None:
        """Subscribe to a chat, or renew a subscription that went stale."""
        subscription = self._by_chat.get(chat)
        if subscription is None:
            self._numbers += 1
            subscription = self._by_chat[chat] = Subscription(self._numbers, chat)
            self._by_number[subscription.number] = subscription
            self._subscribe(subscription)
        elif subscription.stale or (subscription.mirror is not None and subscription.mirror.closed):
            subscription.mirror, subscription.stale = None, False
            self._subscribe(subscription)

    def unwant(self, chat: str) -> None:
        """Unsubscribe from a chat. Deltas under way still arrive, while there is a connection."""
        subscription = self._by_chat.pop(chat, None)
        if subscription is None:
            return
        if self._connected and self._live.is_watched(chat):
            subscription.leaving = True
        else:
            subscription.end()
            del self._by_number[subscription.number]
        self._enqueue(Unsubscribe(subscription.number))

    def drop_all(self) -> None:
        """End all subscriptions at once."""
        for subscription in self._by_number.values():
            subscription.end()
        self._by_chat.clear()
        self._by_number.clear()

    def _subscribe(self, subscription: Subscription) -> None:
        after = None if subscription.mirror is None else subscription.mirror.cursor
        self._enqueue(subscribe_frame(subscription.number, subscription.chat, after))

    def _enqueue(self, frame: SubscriberFrame) -> None:
        if self._connected:  # otherwise all subscriptions are sent on connecting
            self._outgoing.append(frame)
        self._wake.set()

    # --- the connection ---

    async def run(self, session: aiohttp.ClientSession) -> None:
        """Keep a connection open until there are no subscriptions."""
        import aiohttp

        delay = self._options.first
        while self._by_chat:
            began = anyio.current_time()
            try:
                await self._connect(session)
            except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError) as error:
                self._log_failure(error)
            except UnicodeError as error:  # the address has an invalid host name, such as x..y
                self._log_failure(error)
            finally:
                self._lose()
            if anyio.current_time() - began > self._options.longest:
                delay = self._options.first
            if self._by_chat:
                await anyio.sleep(delay * (0.5 + self._random() / 2))
                delay = min(2 * delay, self._options.longest)

    def _log_failure(self, error: Exception) -> None:
        level = logging.DEBUG if self.failing else logging.WARNING
        self.failing = True
        LOG.log(
            level,
            "relay: cannot reach worker %s at %s; its chats stream here per step: %s",
            self.worker,
            self._url,
            error or type(error).__name__,
        )

    async def _connect(self, session: aiohttp.ClientSession) -> None:
        import aiohttp

        proof = self._secret.subscriber_proof(self.worker, int(time()))
        with anyio.fail_after(self._options.connect):
            socket = await session.ws_connect(
                self._url,
                params={"worker": self.worker},
                headers={PROOF_HEADER: proof.sent},
                heartbeat=self._options.heartbeat,
                max_msg_size=MAX_PUBLISHER_MESSAGE,
                timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
            )
        async with socket:
            with anyio.fail_after(self._options.connect):
                answer = await socket.receive()
            if not proof.is_confirmed_by(answer.data):
                raise aiohttp.ClientError("it does not have the cluster's secret")
            self._begin()
            decode_error: msgspec.DecodeError | None = None
            async with anyio.create_task_group() as group:
                group.start_soon(self._send, socket, group)
                decode_error = await self._listen(socket)
                group.cancel_scope.cancel()
            if decode_error is not None:  # raised here, since a task group would wrap it
                raise decode_error

    def _begin(self) -> None:
        self._connected, self.failing = True, False
        for subscription in self._by_chat.values():
            self._subscribe(subscription)

    def _lose(self) -> None:
        """Keep the mirrors: the attempt may continue, and so do they."""
        self._connected = False
        self._outgoing.clear()
        for subscription in list(self._by_number.values()):
            if subscription.leaving:
                subscription.end()
                del self._by_number[subscription.number]

    async def _send(self, socket: aiohttp.ClientWebSocketResponse, group: TaskGroup) -> None:
        with suppress(ConnectionError):  # the receiving half notices it too
            while True:
                frames, self._outgoing = self._outgoing, []
                for frame in frames:
                    await socket.send_bytes(encode_subscriber_frame(frame))
                self._wake.clear()
                limit = None if self._by_number else self._options.idle
                with anyio.move_on_after(limit) as idle:
                    if not self._outgoing:
                        await self._wake.wait()
                if idle.cancelled_caught and not self._by_number:
                    group.cancel_scope.cancel()

    async def _listen(self, socket: aiohttp.ClientWebSocketResponse) -> msgspec.DecodeError | None:
        """Receive until the end; return the error of an undecodable message (a later version's)."""
        import aiohttp

        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY:
                break
            try:
                frames = decode_publisher_frames(message.data)
            except msgspec.DecodeError as error:
                return error
            for frame in frames:
                self._on_frame(frame)
        return None

    # --- frames ---

    def _on_frame(self, frame: PublisherFrame) -> None:
        subscription = self._by_number.get(frame.number)
        if subscription is None:
            return
        match frame:
            case AttemptDeltas():
                self._on_deltas(subscription, frame)
            case AttemptOver(_, place):
                if (
                    subscription.mirror is not None
                    and attempt_key_of(subscription.mirror.attempt) == place
                ):
                    subscription.end()
            case SubscriptionEnd():
                if subscription.leaving:
                    subscription.end()
                    del self._by_number[subscription.number]
                    self._wake.set()

    def _on_deltas(self, subscription: Subscription, deltas: AttemptDeltas) -> None:
        mirror = subscription.mirror
        if mirror is None or attempt_key_of(mirror.attempt) != deltas.place:
            mirror = None
            if deltas.runs[0].first == 1:
                mirror = self._live.mirror(subscription.chat, AttemptId(*deltas.place))
            subscription.mirror, subscription.stale = mirror, mirror is None
        if mirror is None or mirror.closed:
            return
        try:
            mirror.add(deltas.runs)
        except ValueError as error:
            LOG.warning("relay: requesting chat %s again: %s", subscription.chat, error)
            subscription.end()
            self._subscribe(subscription)
