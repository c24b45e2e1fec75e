"""The worker of a process: a lease, a claim loop, and a runner for each chat."""

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
from holdfast.chat.errors import ChatError
from holdfast.chat.idempotency import forget_old_keys
from holdfast.chat.rows import Chat
from holdfast.chat.tombstones import forget_gone
from holdfast.chat.transitions import claims
from holdfast.chat.transitions.claims import Pool
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import Ports
from holdfast.live.broadcast import Live
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
from holdfast.worker.failure_log import FailureLog
from holdfast.worker.options import MICRO, WorkerOptions
from holdfast.worker.runner import Runner

LOG: Final = logging.getLogger("holdfast.worker")
LAST_WRITE: Final = 5.0
SILENCE: Final = 1.0
"""Seconds after which a stopping worker logs what it waits for."""
ALONE: Final = 64
"""Maximum number of chats per claim where no other process can want them."""
TIDY_EVERY: Final = 720
"""Polls between two clean-ups: about an hour."""

POOLS: Final[Sequence[Pool]] = ("urgent", "root", "child")

Rested = Callable[[Chat], Awaitable[None]]
Unfollowed = Callable[[], Awaitable[Sequence[Chat]]]
TAKEN: Final[WeakSet[Database]] = WeakSet()
"""Exclusive databases that already have a worker here. Such a worker treats every other owner as
dead, so two would steal from each other."""


async def _claim(me: claims.Worker, limits: Mapping[Pool, int], tx: Tx) -> dict[Pool, list[Chat]]:
    return await claims.claim(tx, me, limits)


async def _claim_again(me: claims.Worker, chat: Chat, tx: Tx) -> Chat | None:
    return await claims.claim_again(tx, me, chat)


class Worker:
    """Claims and drives as many chats at once as its options allow.

    `rested` is called for each chat whose turn ended here, in whatever way, and at the start for
    those that `missed` returns; `observer` for everything worth counting.
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
        self._failures = FailureLog(self._me.id)
        self._runners: dict[str, Runner] = {}
        self._dropped: set[str] = set()
        """Chats whose runner ended by a defect, and which this worker still owns."""
        self._group: TaskGroup
        self._wake = anyio.Event()
        self._claimed = anyio.Event()
        """Set when the last claim was made."""
        self._full = False
        """Whether there was no room for more chats at the last claim."""
        self._stopping = False
        self._empty = anyio.Event()

    @property
    def id(self) -> str:
        """Id of the worker."""
        return self._me.id

    # --- beginning and end ---

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Worker]:
        """Claim and drive chats for as long as the block lasts, then release them."""
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
                "this database already has a worker in this process: use the host that has it, "
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
                except BaseException as error:  # an error of the block, not of this task group
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
                await self._quietly("leave", lambda tx: claims.leave(tx, self._me.id))

    async def stop(self) -> None:
        """Stop claiming, let running steps finish within the grace, then release all chats."""
        self._stopping = True
        self._wake.set()
        for runner in tuple(self._runners.values()):
            runner.drain()
        self._group.start_soon(self._say_that_it_waits)
        with anyio.move_on_after(self._options.grace):
            await self._claimed.wait()  # chats that it claims are to be released too
            await self._none_left()
        for runner in tuple(self._runners.values()):
            runner.cut()
        # A tool has its grace to clean up, and then is abandoned. A database that does not answer
        # may not delay the end either: the lease then expires.
        tools = max((agent.policy.calls.grace for agent in self._agents.values()), default=0.0)
        with anyio.move_on_after(tools + LAST_WRITE):
            await self._claimed.wait()
            await self._none_left()

    async def _say_that_it_waits(self) -> None:
        """Log what the worker waits for: otherwise the process would seem to hang."""
        await anyio.sleep(SILENCE)
        if self._runners:
            chats, grace = len(self._runners), self._options.grace
            LOG.warning(
                "waiting up to %g s for the steps of %d %s; unfinished steps are left to "
                "the next worker",
                grace,
                chats,
                "chat" if chats == 1 else "chats",
            )

    async def _none_left(self) -> None:
        while self._runners:
            self._empty = anyio.Event()
            await self._empty.wait()

    # --- the lease ---

    async def _beat(self) -> None:
        """Write heartbeats, from the event loop itself: a process whose loop hangs loses its
        lease."""
        while True:
            await anyio.sleep(self._options.heartbeat)
            await self._quietly("renew its lease", lambda tx: claims.beat(tx, self._me))

    async def _quietly(self, task: str, write: Callable[[Tx], Awaitable[None]]) -> None:
        try:
            await self._db.write(write, short=True)
        except StoreError as error:
            self._failures.failed(task, error)
        else:
            self._failures.succeeded(task)

    # --- claiming ---

    def _hear(self, notice: Notice) -> None:
        if type(notice) is Changed:  # sent with every step of every chat
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
            if waited or anyio.current_time() >= due:  # on time, however much there is to claim
                polls, due = polls + 1, anyio.current_time() + self._options.poll
                await self._look_after()
            try:
                more = await self._claim_once()
                if not polls % TIDY_EVERY:
                    polls += 1
                    await self._db.write(self._tidy)
            except (StoreError, ChatError) as error:
                self._failures.failed("claim chats", error)
                more = False
            else:
                self._failures.succeeded("claim chats")
            waited = not more and not await self._woken(due)

    async def _woken(self, due: float) -> bool:
        """Wait until there may be something to claim; False at the timeout.

        The clock cannot tell: a timer may fire slightly early.
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
        """Claim once. Returns whether there may be more."""
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
        if running is not None:  # it lost the chat and claimed it again: the new runner waits
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
            LOG.exception("the runner of chat %s ended with an error", runner.chat_id)
            self._dropped.add(runner.chat_id)
        finally:
            if self._runners.get(runner.chat_id) is runner:
                del self._runners[runner.chat_id]
            runner.ended.set()
            self._empty.set()
            if self._full:
                self._wake.set()

    async def _look_after(self) -> None:
        """Start runners for owned chats without one; rouse runners whose notice was lost."""
        try:
            owned = await self._db.read(lambda tx: claims.owned(tx, self._me.id))
        except (StoreError, ChatError) as error:
            self._failures.failed("check its chats", error)
            return
        self._failures.succeeded("check its chats")
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
        """Start a runner for a chat whose runner ended, or whose claim was not acknowledged."""
        again: Chat | None = chat
        if chat.id in self._dropped:
            try:
                again = await self._db.write(partial(_claim_again, self._me, chat))
            except (StoreError, ChatError) as error:
                LOG.warning("worker %s cannot claim chat %s: %s", self._me.id, chat.id, error)
                if isinstance(error, OutcomeUnknown):  # the claim may be committed
                    self._dropped.discard(chat.id)
                return
        if again is not None:
            self._dropped.discard(chat.id)
            self._start(again)

    # --- what comes after ---

    def _on_rest(self, chat: Chat) -> None:
        """Start the work that follows a turn. It can neither fail nor repeat a step."""
        if self._rested is not None and not self._stopping:
            self._group.start_soon(self._after, self._rested, chat)

    async def _make_up(self) -> None:
        """Start the work that a process missed when it ended just after a turn."""
        if self._missed is None:
            return
        try:
            missed = await self._missed()
        except Exception:
            LOG.warning("could not read which chats need follow-up work", exc_info=True)
            return
        for chat in missed:
            self._on_rest(chat)

    async def _after(self, rested: Rested, chat: Chat) -> None:
        try:
            await rested(chat)
        except Exception:
            LOG.warning("follow-up work of chat %s failed", chat.id, exc_info=True)
