"""Chats that nobody can go on with: whoever waits for one hears of it, and what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest

from holdfast.agent import Agent
from holdfast.chat.errors import Stranded
from holdfast.chat.host import Host
from holdfast.chat.rows import fence_of
from holdfast.chat.transitions import claims, lifecycle, runner
from holdfast.chat.transitions.lifecycle import NewChat, Spawn
from holdfast.chat.transitions.runner import Outcome
from holdfast.host import serving
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, ports
from holdfast.worker.options import WorkerOptions
from tests.chat.chats import LEASE, ME, Chats, answer, asks, made, prompt, row_of_call


@asynccontextmanager
async def hosting(
    db: Database,
    clock: Clock,
    name: str,
    script: Sequence[Any] = (),
    worker: WorkerOptions | None = WorkerOptions(),  # noqa: B008 - frozen
) -> AsyncIterator[Host]:
    """A process that knows one agent."""
    world = ports(clock=clock)
    agent = Agent(model=ScriptedModel(script), ports=world, name=name)
    async with serving(db, [agent], ports=world, worker=worker, titles=False) as host:
        yield host


async def claim(db: Database, worker: str) -> None:
    """Take what there is, say nothing more, and die."""
    me = claims.WorkerRow(id=worker, agents=("agent",), lease=LEASE)
    await db.write(partial(claims.write_heartbeat, worker=me))
    await db.write(lambda tx: claims.claim(tx, me, {"root": 1}))


async def a_parent_that_waits(chats: Chats, child: str) -> None:
    """For a child with this agent."""
    await chats.running("parent", calls={"spawn": "open"})
    spawn = Spawn(NewChat(id="child", agent=child, message=prompt("go")))
    outcome = Outcome(results=(made("spawn"),), writes={"spawn": (spawn,)})
    await chats.do(runner.commit_step, fence_of(await chats.row("parent")), outcome)
    await chats.commit("parent", answer("let me wait", asks("wait")))
    chat = await chats.row("parent")
    waits = row_of_call(chat, "wait", "waiting", action="child")
    await chats.do(runner.require_action, fence_of(chat), [waits], {"wait": ["child"]})


async def test_a_chat_whose_worker_died_and_whose_agent_nobody_knows_is_stranded(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, "other", worker=None) as host:
        await db.write(
            partial(lifecycle.create, new_chat=NewChat(id="c", agent="agent", message=prompt("?")))
        )
        await claim(db, "w")
        chat = await host.chat("c")
        await anyio.sleep(14)
        assert not (await chat.read()).stranded
        await anyio.sleep(60)
        assert (await chat.read()).stranded


async def test_a_chat_that_is_driven_for_long_is_not_stranded(db: Database, clock: Clock) -> None:
    chats = Chats(db, clock)
    await chats.running("c")
    async with hosting(db, clock, "other", worker=None) as host:
        for _ in range(20):
            await anyio.sleep(10)
            await chats.beat()
        assert not (await (await host.chat("c")).read()).stranded


async def test_waiting_for_a_chat_whose_agent_nobody_knows_ends_and_says_what_to_do(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, "strange", worker=None) as host:
        begun = await host.create("hi")
    async with hosting(db, clock, "agent") as host:
        chat = await host.chat(begun.id)
        with pytest.raises(Stranded, match="open a host with an agent of that name") as refusal:
            await chat.rest()
        assert (refusal.value.chat, refusal.value.agent) == (chat.id, "strange")
    async with hosting(db, clock, "strange", ["Hello"]) as host:
        assert (await (await host.chat(chat.id)).rest()).text == "Hello"


async def test_waiting_for_a_chat_ends_when_nobody_knows_the_agent_of_its_child(
    db: Database, clock: Clock
) -> None:
    await a_parent_that_waits(Chats(db, clock), child="strange")
    async with hosting(db, clock, "agent") as host:
        chat = await host.chat("parent")
        with pytest.raises(Stranded) as refusal:
            await chat.rest()
        assert (refusal.value.chat, refusal.value.agent) == ("child", "strange")


async def test_waiting_for_a_chat_ends_when_its_child_is_done_and_nobody_knows_its_own_agent(
    db: Database, clock: Clock
) -> None:
    chats = Chats(db, clock)
    await a_parent_that_waits(chats, child="agent")
    await chats.claim("child")
    await chats.rest("child")
    await chats.do(claims.leave, ME)
    async with hosting(db, clock, "other") as host:
        chat = await host.chat("parent")
        with pytest.raises(Stranded) as refusal:
            await chat.rest()
        assert (refusal.value.chat, refusal.value.agent) == ("parent", "agent")


async def test_waiting_for_a_chat_that_kills_its_workers_ends_with_its_failure(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, "agent", worker=None) as host:
        chat = await host.create("hi")
        for worker in ("one", "two", "three", "four"):
            await claim(db, worker)
            await anyio.sleep(2 * LEASE / 1_000_000)
        failure = (await chat.rest()).failure
        assert failure is not None
        assert failure.kind == "poison"
