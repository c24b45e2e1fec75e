"""The part of a process that claims chats: a lease, a claim loop, and a runner for each chat."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import chain
from typing import Final
from weakref import WeakSet

import anyio
from anyio.abc import TaskGroup

from holdfast.agent import Agent
from holdfast.chat import claims
from holdfast.chat.claims import Pool
from holdfast.chat.errors import ChatError
from holdfast.chat.gone import forget_gone
from holdfast.chat.machine import forget_old_keys
from holdfast.chat.state import Chat
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import Ports
from holdfast.live.deltas import Live
from holdfast.observe.observer import UNOBSERVED, Observer
from holdfast.store.database import (
    Changed,
    Database,
    Missed,
    Notice,
    OutcomeUnknown,
    StoreError,
    Tx,
)
from holdfast.worker.options import MICRO, WorkerOptions
from holdfast.worker.runner import Runner

LOG: Final = logging.getLogger("holdfast.worker")
LAST_WRITE: Final = 5.0
SILENCE: Final = 1.0
"""Seconds of waiting after which a worker that stops says why it has not yet."""
ALONE: Final = 64
"""Chats that are claimed at once where nobody else could take some of them."""
TIDY_EVERY: Final = 720
"""Polls between two clean-ups: about an hour."""

POOLS: Final[Sequence[Pool]] = ("urgent", "root", "child")

Rested = Callable[[Chat], Awaitable[None]]
Unfollowed = Callable[[], Awaitable[Sequence[Chat]]]
TAKEN: Final[WeakSet[Database]] = WeakSet()
"""Databases of this process alone that a worker drives. It takes whoever else has a chat for dead,
and a second one would do the same to it."""


async def _claim(me: claims.Worker, limits: Mapping[Pool, int], tx: Tx) -> dict[Pool, list[Chat]]:
    return await claims.claim(tx, me, limits)


async def _claim_again(me: claims.Worker, chat: Chat, tx: Tx) -> Chat | None:
    return await claims.claim_again(tx, me, chat)


class Worker:
    """Drives every chat that it can get, as many at once as it may.

    `rested` is told of each that came to the end of a turn here, in whatever way, and at the start
    of those that `missed` gives; `observer` of everything that is worth counting.
    """

    def __init__(
        self,
        db: Database,
        live: Live,
        agents: Mapping[str, Agent],
        ports: Ports,
        options: WorkerOptions,
        *,
        url: str | None = None,
        rested: Rested | None = None,
        missed: Unfollowed | None = None,
        observer: Observer = UNOBSERVED,
    ) -> None:
        self._db = db
        self._live = live
        self._agents = agents
        self._ports = ports
        self._options = options
        self._rested = rested
        self._missed = missed
        self._observer = observer
        self._me = claims.Worker(
            id=ports.new_id(),
            agents=tuple(agents),
            url=url,
            lease=int(options.lease * MICRO),
            alone=db.exclusive,
        )
        self._runners: dict[str, Runner] = {}
        self._dropped: set[str] = set()
        """Chats whose runner ended by a defect, and which are still ours."""
        self._group: TaskGroup
        self._wake = anyio.Event()
        self._claimed = anyio.Event()
        """The last claim was made."""
        self._full = False
        """There was no room for more chats when they were last looked for."""
        self._stopping = False
        self._empty = anyio.Event()

    @property
    def id(self) -> str:
        return self._me.id

    # --- beginning and end ---

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Worker]:
        """Claim and drive chats for as long as the block lasts, then give them away."""
        with self._only_one():
            async with self._at_work():
                yield self

    @contextmanager
    def _only_one(self) -> Iterator[None]:
        if not self._db.exclusive:
            yield
            return
        if self._db in TAKEN:
            raise ConfigError(
                "this database has a worker in this process already: use the host that has it, "
                "or a second one with worker=None"
            )
        TAKEN.add(self._db)
        try:
            yield
        finally:
            TAKEN.discard(self._db)

    @asynccontextmanager
    async def _at_work(self) -> AsyncIterator[None]:
        await self._db.write(lambda tx: claims.beat(tx, self._me))
        end = self._db.listen(self._hear)
        raised: BaseException | None = None
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                group.start_soon(self._beat)
                group.start_soon(self._claim)
                group.start_soon(self._make_up)
                try:
                    yield
                except (asyncio.CancelledError, GeneratorExit):
                    raise
                except BaseException as error:  # it is the block's: not one of a group of ours
                    raised = error
                finally:
                    with anyio.CancelScope(shield=True):
                        await self.stop()
                    group.cancel_scope.cancel()
            if raised is not None:
                raise raised
        finally:
            end()
            with anyio.move_on_after(LAST_WRITE, shield=True):
                await self._quietly(lambda tx: claims.leave(tx, self._me.id))

    async def stop(self) -> None:
        """Claim no more, let steps in flight finish within the grace, then give everything away."""
        self._stopping = True
        self._wake.set()
        for runner in tuple(self._runners.values()):
            runner.drain()
        self._group.start_soon(self._say_that_it_waits)
        with anyio.move_on_after(self._options.grace):
            await self._claimed.wait()  # what it brings is to be given away too
            await self._none_left()
        for runner in tuple(self._runners.values()):
            runner.cut()
        # A tool has its grace to clean up, and then is left behind. A database that does not
        # answer may not hold the end up either: the lease then runs out.
        tools = max((agent.policy.calls.grace for agent in self._agents.values()), default=0.0)
        with anyio.move_on_after(tools + LAST_WRITE):
            await self._claimed.wait()
            await self._none_left()

    async def _say_that_it_waits(self) -> None:
        """A program that does not end looks as if it hung."""
        await anyio.sleep(SILENCE)
        if self._runners:
            chats, grace = len(self._runners), self._options.grace
            LOG.warning(
                "waiting up to %g s for the steps of %d chats; what is not done then is left to "
                "the next worker",
                grace,
                chats,
            )

    async def _none_left(self) -> None:
        while self._runners:
            self._empty = anyio.Event()
            await self._empty.wait()

    # --- the lease ---

    async def _beat(self) -> None:
        """From the event loop itself: a process whose loop hangs loses its lease."""
        while True:
            await anyio.sleep(self._options.heartbeat)
            await self._quietly(lambda tx: claims.beat(tx, self._me))

    async def _quietly(self, write: Callable[[Tx], Awaitable[None]]) -> None:
        try:
            await self._db.write(write, short=True)
        except StoreError as error:
            LOG.warning("worker %s: %s", self._me.id, error)

    # --- claiming ---

    def _hear(self, notice: Notice) -> None:
        if type(notice) is Changed:  # with every step of every chat
            runner = self._runners.get(notice.chat)
            if runner is not None:
                runner.hear(notice.version)
            return
        self._wake.set()
        if type(notice) is Missed:
            for runner in self._runners.values():
                runner.hear(None)

    async def _claim(self) -> None:
        try:
            await self._claim_on()
        finally:
            self._claimed.set()

    async def _claim_on(self) -> None:
        polls, due, waited = 0, anyio.current_time() + self._options.poll, False
        while not self._stopping:
            self._wake = anyio.Event()
            if waited or anyio.current_time() >= due:  # however much there is to do
                polls, due = polls + 1, anyio.current_time() + self._options.poll
                await self._look_after()
            try:
                more = await self._claim_once()
                if not polls % TIDY_EVERY:
                    polls += 1
                    await self._db.write(self._tidy)
            except (StoreError, ChatError) as error:
                LOG.warning("worker %s cannot claim: %s", self._me.id, error)
                more = False
            waited = not more and not await self._woken(due)

    async def _woken(self, due: float) -> bool:
        """Wait until there is something to claim; False when the time is over before that.

        The clock does not tell: a timer may fire a little before its time.
        """
        with anyio.CancelScope(deadline=due):
            await self._wake.wait()
            return True
        return False

    async def _tidy(self, tx: Tx) -> None:
        await claims.forget_dead(tx, self._me.lease)
        await forget_old_keys(tx)
        await forget_gone(tx)

    async def _claim_once(self) -> bool:
        """Take what may be taken. Whether there may be more."""
        at_once = max(self._options.batch, ALONE) if self._me.alone else self._options.batch
        limits = {pool: min(at_once, self._room(pool)) for pool in POOLS}
        limits = {pool: limit for pool, limit in limits.items() if limit > 0}
        self._full = len(limits) < len(POOLS)
        claimed = await self._db.write(partial(_claim, self._me, limits), short=True)
        for chat in chain.from_iterable(claimed.values()):
            self._observer.claimed(taken_over=chat.crashes > 0)
            self._start(chat)
        return any(len(claimed[pool]) == limit for pool, limit in limits.items())

    def _room(self, pool: Pool) -> int:
        if pool == "urgent":
            return self._options.batch
        children = sum(runner.is_child for runner in self._runners.values())
        if pool == "child":
            return self._options.children - children
        return self._options.chats - (len(self._runners) - children)

    def _start(self, chat: Chat) -> None:
        running = self._runners.get(chat.id)
        if running is not None:  # it has lost the chat and found it again: the new one waits
            running.cut()
            self._group.start_soon(self._start_after, running, chat)
            return
        agent = self._agents[chat.agent]
        runner = Runner(
            self._db, self._live, agent, chat, self._options, self._on_rest, self._observer
        )
        if self._stopping:
            runner.drain()
        self._runners[chat.id] = runner
        self._group.start_soon(self._run, runner, name=f"chat {chat.id}")

    async def _start_after(self, runner: Runner, chat: Chat) -> None:
        await runner.ended.wait()
        self._start(chat)

    async def _run(self, runner: Runner) -> None:
        try:
            await runner.run()
        except Exception:
            LOG.exception("the runner of chat %s ended", runner.chat_id)
            self._dropped.add(runner.chat_id)
        finally:
            if self._runners.get(runner.chat_id) is runner:
                del self._runners[runner.chat_id]
            runner.ended.set()
            self._empty.set()
            if self._full:
                self._wake.set()

    async def _look_after(self) -> None:
        """A chat of ours without a runner gets one; a runner whose notice was lost looks again."""
        try:
            owned = await self._db.read(lambda tx: claims.owned(tx, self._me.id))
        except (StoreError, ChatError) as error:
            LOG.warning("worker %s cannot look after its chats: %s", self._me.id, error)
            return
        for chat in owned:
            runner = self._runners.get(chat.id)
            if runner is not None:
                runner.hear(chat.snapshot_version)
            elif not self._stopping:
                await self._start_again(chat)
        held = {chat.id for chat in owned}
        self._dropped &= held
        for chat_id, runner in self._runners.items():
            if chat_id not in held:
                runner.hear(None)

    async def _start_again(self, chat: Chat) -> None:
        """Nobody drives it: its runner ended, or we never heard that we had claimed it."""
        again: Chat | None = chat
        if chat.id in self._dropped:
            try:
                again = await self._db.write(partial(_claim_again, self._me, chat))
            except (StoreError, ChatError) as error:
                LOG.warning("worker %s cannot claim chat %s: %s", self._me.id, chat.id, error)
                if isinstance(error, OutcomeUnknown):  # if it was: nobody has driven it since
                    self._dropped.discard(chat.id)
                return
        if again is not None:
            self._dropped.discard(chat.id)
            self._start(again)

    # --- what comes after ---

    def _on_rest(self, chat: Chat) -> None:
        """Work after the outcome can neither fail nor repeat a step."""
        if self._rested is not None and not self._stopping:
            self._group.start_soon(self._after, self._rested, chat)

    async def _make_up(self) -> None:
        """A process may have ended between the end of a turn and what was to follow it."""
        if self._missed is None:
            return
        try:
            missed = await self._missed()
        except Exception:
            LOG.warning("what is left to do after turns is not known", exc_info=True)
            return
        for chat in missed:
            self._on_rest(chat)

    async def _after(self, rested: Rested, chat: Chat) -> None:
        try:
            await rested(chat)
        except Exception:
            LOG.warning("after chat %s came to rest", chat.id, exc_info=True)
