"""The worker of a process: its lease, its claim loop, and a runner for each of its chats."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, Final
from weakref import WeakSet

import anyio
from anyio.abc import TaskGroup

from holdfast.agent import Agent
from holdfast.chat.budgets import BudgetCheck
from holdfast.chat.deleted_or_unshared import forget_tombstones
from holdfast.chat.errors import ChatError
from holdfast.chat.idempotency import forget_old_keys
from holdfast.chat.rows import ChatRow
from holdfast.chat.transitions import claims
from holdfast.chat.transitions.claims import ClaimPool
from holdfast.kernel.agent_deps import DepsProvider
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.observer import UNOBSERVED, Observer, observer_of
from holdfast.kernel.ports import Ports
from holdfast.live.broadcast import Live
from holdfast.store.database import (
    Changed,
    ChangeNotice,
    Database,
    NoticesLost,
    OutcomeUnknown,
    StoreError,
    Tx,
)
from holdfast.worker.options import MICRO, WorkerOptions
from holdfast.worker.repeated_failures import FailureLog
from holdfast.worker.resettable_event import ResettableEvent
from holdfast.worker.runner import Runner

LOG: Final = logging.getLogger("holdfast.worker")
LAST_WRITE_TIMEOUT: Final = 5.0
"""Seconds that a stopping worker waits for a database that does not answer."""
SHUTDOWN_LOG_DELAY: Final = 1.0
"""Seconds after which a stopping worker logs what it waits for."""
CLAIMS_IF_EXCLUSIVE: Final = 64
"""Maximum number of chats per claim of an exclusive database: no other worker claims any."""
POLLS_PER_CLEANUP: Final = 720
"""Number of polls between two clean-ups: about an hour."""

NO_PROVIDERS: Final[Mapping[str, DepsProvider[Any]]] = MappingProxyType({})

POOLS: Final[Sequence[ClaimPool]] = ("urgent", "root", "child")

IdleHook = Callable[[ChatRow], Awaitable[None]]
FollowUpQuery = Callable[[], Awaitable[Sequence[ChatRow]]]
DRIVEN: Final[WeakSet[Database]] = WeakSet()
"""Exclusive databases that already have a worker here. Such a worker treats every other owner as
dead, so two would steal from each other."""


async def _claim(
    me: claims.WorkerRow, limits: Mapping[ClaimPool, int], tx: Tx
) -> dict[ClaimPool, list[ChatRow]]:
    return await claims.claim(tx, me, limits)


async def _claim_again(me: claims.WorkerRow, chat: ChatRow, tx: Tx) -> ChatRow | None:
    return await claims.claim_again(tx, me, chat)


class Worker:
    """Claims and drives as many chats at once as its options allow.

    `on_idle` is called for each chat whose turn ended here, whether it finished or failed, and at
    the start for the chats that `needs_follow_up` returns. `observer` is notified of everything
    worth counting. `deps` has the providers of the agents' deps, by name.
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
        on_idle: IdleHook | None = None,
        needs_follow_up: FollowUpQuery | None = None,
        observer: Observer = UNOBSERVED,
        budgets: BudgetCheck | None = None,
        deps: Mapping[str, DepsProvider[Any]] = NO_PROVIDERS,
    ) -> None:
        self._db = db
        self._budgets = BudgetCheck() if budgets is None else budgets
        self._live = live
        self._agents = agents
        self._ports = ports
        self._options = options
        self._on_idle = on_idle
        self._needs_follow_up = needs_follow_up
        self._observer = observer
        self._deps = deps
        self._me = claims.WorkerRow(
            id=ports.new_id(),
            agents=tuple(agents),
            url=url,
            lease=int(options.lease * MICRO),
            exclusive=db.exclusive,
        )
        self._failures = FailureLog(self._me.id)
        self._runners: dict[str, Runner] = {}
        self._without_runner: set[str] = set()
        """Owned chats whose runner ended with an unexpected error."""
        self._group: TaskGroup
        self._wakeup = ResettableEvent()
        self._claiming_ended = anyio.Event()
        """Set when the claim loop has ended."""
        self._stopping = anyio.Event()
        self._runner_ended = ResettableEvent()

    @property
    def id(self) -> str:
        """Id of the worker."""
        return self._me.id

    # --- start and shutdown ---

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Worker]:
        """Claim and drive chats until the block ends, then release them."""
        with self._only_one():
            async with self._working():
                yield self

    @contextmanager
    def _only_one(self) -> Iterator[None]:
        if not self._db.exclusive:
            yield
            return
        if self._db in DRIVEN:
            raise ConfigError(
                "this database already has a worker in this process: use the host that has it, "
                "or a second one with worker=None"
            )
        DRIVEN.add(self._db)
        try:
            yield
        finally:
            DRIVEN.discard(self._db)

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[None]:
        await self._db.write(lambda tx: claims.write_heartbeat(tx, self._me))
        await self._db.read(self._budgets.refresh)
        stop_listening = self._db.listen(self._on_notice)
        block_error: BaseException | None = None
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                group.start_soon(self._beat)
                group.start_soon(self._claim)
                group.start_soon(self._catch_up)
                try:
                    yield
                except (asyncio.CancelledError, GeneratorExit):
                    raise
                except BaseException as error:  # an error of the block, not of this task group
                    block_error = error
                finally:
                    with anyio.CancelScope(shield=True):
                        await self.stop()
                    group.cancel_scope.cancel()
            if block_error is not None:
                raise block_error
        finally:
            stop_listening()
            with anyio.move_on_after(LAST_WRITE_TIMEOUT, shield=True):
                await self._try_write("leave", lambda tx: claims.leave(tx, self._me.id))

    async def stop(self) -> None:
        """Stop claiming, let running steps finish within the grace period, then release all
        chats."""
        self._stopping.set()
        self._wakeup.set()
        for runner in tuple(self._runners.values()):
            runner.drain()
        self._group.start_soon(self._log_wait)
        with anyio.move_on_after(self._options.grace):
            await self._claiming_ended.wait()  # chats of the last claim must be released, too
            await self._none_left()
        for runner in tuple(self._runners.values()):
            runner.stop_now()
        # A tool may clean up during its grace period, and is then abandoned. Nor may a database
        # that does not answer delay the shutdown: the lease then expires.
        tools = max((agent.policy.calls.grace for agent in self._agents.values()), default=0.0)
        with anyio.move_on_after(tools + LAST_WRITE_TIMEOUT):
            await self._claiming_ended.wait()
            await self._none_left()

    async def _log_wait(self) -> None:
        """Log what the shutdown waits for: without it the process would seem to hang."""
        await anyio.sleep(SHUTDOWN_LOG_DELAY)
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
            self._runner_ended.reset()
            await self._runner_ended.wait()

    # --- the lease ---

    async def _beat(self) -> None:
        """Write heartbeats on the event loop: a process whose loop hangs loses its lease."""
        while True:
            await anyio.sleep(self._options.heartbeat)
            await self._try_write(
                "renew its lease", lambda tx: claims.write_heartbeat(tx, self._me)
            )

    async def _try_write(self, task: str, write: Callable[[Tx], Awaitable[None]]) -> None:
        try:
            await self._db.write(write, short=True)
        except StoreError as error:
            self._failures.failed(task, error)
        else:
            self._failures.succeeded(task)

    # --- claiming ---

    def _on_notice(self, notice: ChangeNotice) -> None:
        if type(notice) is Changed:  # sent with every step of every chat
            runner = self._runners.get(notice.chat)
            if runner is not None:
                runner.receive_notice(notice.version)
            return
        self._wakeup.set()
        if type(notice) is NoticesLost:
            for runner in self._runners.values():
                runner.receive_notice(None)

    async def _claim(self) -> None:
        try:
            await self._claim_repeatedly()
        finally:
            self._claiming_ended.set()

    async def _claim_repeatedly(self) -> None:
        polls, next_poll, timed_out = 0, anyio.current_time() + self._options.poll, False
        while not self._stopping.is_set():
            self._wakeup.reset()
            if (
                timed_out or anyio.current_time() >= next_poll
            ):  # on time, however much there is to claim
                polls, next_poll = polls + 1, anyio.current_time() + self._options.poll
                await self._check_owned()
            try:
                more = await self._claim_once()
                if not polls % POLLS_PER_CLEANUP:
                    polls += 1
                    await self._db.write(self._clean_up)
            except (StoreError, ChatError) as error:
                self._failures.failed("claim chats", error)
                more = False
            else:
                self._failures.succeeded("claim chats")
            timed_out = not more and not await self._woken(next_poll)

    async def _woken(self, deadline: float) -> bool:
        """Wait until there may be something to claim; False at the deadline.

        The caller cannot compare the clock instead: a timer may fire slightly early.
        """
        with anyio.CancelScope(deadline=deadline):
            await self._wakeup.wait()
            return True
        return False

    async def _clean_up(self, tx: Tx) -> None:
        await claims.forget_dead(tx, self._me.lease)
        await forget_old_keys(tx)
        await forget_tombstones(tx)

    async def _claim_once(self) -> bool:
        """Claim chats once. Returns whether there may be more."""
        batch = (
            max(self._options.batch, CLAIMS_IF_EXCLUSIVE)
            if self._me.exclusive
            else self._options.batch
        )
        limits = {pool: min(batch, self._room(pool)) for pool in POOLS}
        limits = {pool: limit for pool, limit in limits.items() if limit > 0}
        claimed = await self._db.write(partial(_claim, self._me, limits), short=True)
        for chat in chain.from_iterable(claimed.values()):
            observer_of(None, self._observer).claimed(taken_over=chat.crashes > 0)
            self._start(chat)
        return any(len(claimed[pool]) == limit for pool, limit in limits.items())

    def _room(self, pool: ClaimPool) -> int:
        if pool == "urgent":
            return self._options.batch
        children = sum(runner.is_child for runner in self._runners.values())
        if pool == "child":
            return self._options.children - children
        return self._options.chats - (len(self._runners) - children)

    def _start(self, chat: ChatRow) -> None:
        running = self._runners.get(chat.id)
        if running is not None:  # it lost the chat and claimed it again: the new runner waits
            running.stop_now()
            self._group.start_soon(self._start_after, running, chat)
            return
        agent = self._agents[chat.agent].durable
        runner = Runner(
            self._db,
            self._live,
            agent,
            chat,
            self._options,
            self._follow_up_on,
            self._observer,
            self._budgets,
            self._deps.get(chat.agent),
        )
        if self._stopping.is_set():
            runner.drain()
        self._runners[chat.id] = runner
        self._group.start_soon(self._run, runner, name=f"chat {chat.id}")

    async def _start_after(self, runner: Runner, chat: ChatRow) -> None:
        await runner.ended.wait()
        self._start(chat)

    async def _run(self, runner: Runner) -> None:
        try:
            await runner.run()
        except Exception:
            LOG.exception("the runner of chat %s ended with an error", runner.chat_id)
            self._without_runner.add(runner.chat_id)
        finally:
            if any(self._room(pool) <= 0 for pool in POOLS):
                self._wakeup.set()
            if self._runners.get(runner.chat_id) is runner:
                del self._runners[runner.chat_id]
            runner.ended.set()
            self._runner_ended.set()

    async def _check_owned(self) -> None:
        """Start the missing runners of owned chats, and notify runners whose notice was lost."""
        try:
            owned = await self._db.read(lambda tx: claims.owned(tx, self._me.id))
            await self._db.read(self._budgets.refresh)  # others may have set some
        except (StoreError, ChatError) as error:
            self._failures.failed("check its chats", error)
            return
        self._failures.succeeded("check its chats")
        for chat in owned:
            runner = self._runners.get(chat.id)
            if runner is not None:
                runner.receive_notice(chat.snapshot_version)
            elif not self._stopping.is_set():
                await self._start_again(chat)
        owned_ids = {chat.id for chat in owned}
        self._without_runner.intersection_update(owned_ids)
        for chat_id, runner in self._runners.items():
            if chat_id not in owned_ids:
                runner.receive_notice(None)

    async def _start_again(self, chat: ChatRow) -> None:
        """Start a runner for an owned chat without one.

        Its runner ended with an error, or the claim was not acknowledged.
        """
        claimed: ChatRow | None = chat
        if chat.id in self._without_runner:
            try:
                claimed = await self._db.write(partial(_claim_again, self._me, chat))
            except (StoreError, ChatError) as error:
                LOG.warning("worker %s cannot claim chat %s: %s", self._me.id, chat.id, error)
                if isinstance(error, OutcomeUnknown):  # the claim may be committed
                    self._without_runner.discard(chat.id)
                return
        if claimed is not None:
            self._without_runner.discard(chat.id)
            self._start(claimed)

    # --- follow-up work ---

    def _follow_up_on(self, chat: ChatRow) -> None:
        """Start the follow-up work of a turn. It can neither fail nor repeat a step."""
        if self._on_idle is not None and not self._stopping.is_set():
            self._group.start_soon(self._follow_up, self._on_idle, chat)

    async def _catch_up(self) -> None:
        """Start the follow-up work of chats whose process ended just after a turn."""
        if self._needs_follow_up is None:
            return
        try:
            needs_follow_up = await self._needs_follow_up()
        except Exception:
            LOG.warning("could not read which chats need follow-up work", exc_info=True)
            return
        for chat in needs_follow_up:
            self._follow_up_on(chat)

    async def _follow_up(self, on_idle: IdleHook, chat: ChatRow) -> None:
        try:
            await on_idle(chat)
        except Exception:
            LOG.warning("follow-up work of chat %s failed", chat.id, exc_info=True)
