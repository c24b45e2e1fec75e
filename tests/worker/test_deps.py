"""The deps of durable chats: made when a runner takes a chat, closed when it lets go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

import holdfast
from holdfast import Agent, ToolContext, handoff, tool
from holdfast.chat.transitions import lifecycle, user
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.errors import ConfigError
from holdfast.hooks import ChatInfo
from holdfast.kernel.messages import user_message
from holdfast.options import Policy, Retry, WorkerOptions
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, call, pause
from tests.kernel.test_hook_context import HOOKS, Recorder
from tests.worker.workers import Life, living

ONE_RETRY = Policy(retry=Retry(attempts=2, first_delay=1), deps_timeout=10)


@dataclass
class Shop:
    name: str = "tea shop"
    open: bool = True


@dataclass
class Provider:
    """Notes the chats that it is called for, and what becomes of their deps."""

    events: list[str] = field(default_factory=list)
    infos: list[ChatInfo] = field(default_factory=list)
    failing: int = 0
    """How many of the next calls raise."""
    seconds: float = 0.0
    closing: float = 0.0

    def __call__(self, info: ChatInfo) -> AbstractAsyncContextManager[Shop]:
        return self.shop(info)

    @asynccontextmanager
    async def shop(self, info: ChatInfo) -> AsyncIterator[Shop]:
        self.infos.append(info)
        self.events.append("opens")
        if self.failing:
            self.failing -= 1
            raise OSError("the shop is on fire")
        shop = Shop()
        try:
            await anyio.sleep(self.seconds)
            async with anyio.create_task_group():  # as in a client with tasks of its own
                yield shop
        finally:
            await anyio.sleep(self.closing)
            shop.open = False
            self.events.append("closed")


@tool(effect="pure")
async def shop_name(context: ToolContext[Shop]) -> str:
    """The name of the shop."""
    assert context.deps.open
    return context.deps.name


@tool
async def slowly(context: ToolContext[Shop]) -> str:
    """Take a while."""
    await anyio.sleep(100)
    return context.deps.name


async def results(life: Life, chat_id: str) -> list[str]:
    history = await life.history(chat_id)
    return [result.text for message in history for result in message.results]


async def test_the_provider_is_called_once_for_each_time_that_a_runner_takes_the_chat(
    db: Database, clock: Clock
) -> None:
    provider = Provider()
    script = [call("shop_name"), call("shop_name"), "Tea.", call("shop_name"), "More tea."]
    async with living(db, script, [shop_name], clock=clock, deps_type=Shop, deps=provider) as life:
        new = NewChat(
            id="c1",
            agent=life.agent.name,
            owner="ann",
            labels={"team": "billing"},
            message=user_message("Go."),
        )
        await life.do(lifecycle.create, new)
        await life.rest("c1")
        await anyio.sleep(1)
        assert provider.events == ["opens", "closed"]
        await life.send("c1", "More.")
        await life.rest("c1")
        assert await results(life, "c1") == ["tea shop"] * 3
    assert provider.events == ["opens", "closed"] * 2
    info = ChatInfo(agent="agent", chat="c1", owner="ann", labels={"team": "billing"})
    assert provider.infos == [info, info]


async def test_every_hook_of_a_durable_chat_has_the_deps(db: Database, clock: Clock) -> None:
    recorder, shop = Recorder(), Shop()
    async with living(
        db,
        [call("work"), "Done."],
        [recorder.tool()],
        clock=clock,
        deps_type=Shop,
        deps=lambda info: shop,
        instructions=lambda context: f"You work for {context.deps.name}.",
        **recorder.hooks(),
    ) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        assert "instructions: You work for tea shop." in await life.lines(chat_id)
    assert recorder.contexts.keys() == HOOKS
    assert all(context.deps is shop for context in recorder.contexts.values())


async def test_a_provider_may_be_a_function_or_an_async_one(db: Database, clock: Clock) -> None:
    async def provide(info: ChatInfo) -> Shop:
        await anyio.sleep(1)
        return Shop(info.owner or "nobody's shop")

    for seed, deps in enumerate((provide, lambda info: Shop("nobody's shop"))):
        async with living(
            db,
            [call("shop_name"), "Tea."],
            [shop_name],
            clock=clock,
            seed=seed,
            deps_type=Shop,
            deps=deps,
        ) as life:
            chat_id = await life.begin()
            await life.rest(chat_id)
            assert await results(life, chat_id) == ["nobody's shop"]


async def test_deps_that_are_a_context_manager_themselves_are_not_entered(
    db: Database, clock: Clock
) -> None:
    class Client:
        async def __aenter__(self) -> Client:
            raise AssertionError("entered")

        async def __aexit__(self, *error: object) -> None:
            raise AssertionError("left")

    seen: list[object] = []

    @tool
    async def look(context: ToolContext[Client]) -> None:
        """Look."""
        seen.append(context.deps)

    shared = Client()
    async with living(
        db, [call("look"), "."], [look], clock=clock, deps_type=Client, deps=lambda info: shared
    ) as life:
        await life.rest(await life.begin())
    assert seen == [shared]


# --- Errors --------------------------------------------------------------------------------------


async def test_a_provider_that_raises_is_called_again(db: Database, clock: Clock) -> None:
    provider = Provider(failing=1)
    async with living(
        db,
        [call("shop_name"), "Tea."],
        [shop_name],
        clock=clock,
        deps_type=Shop,
        deps=provider,
        policy=ONE_RETRY,
    ) as life:
        chat_id = await life.begin()
        chat = await life.rest(chat_id)
        assert chat.error is None
        assert await results(life, chat_id) == ["tea shop"]
    assert provider.events == ["opens", "opens", "closed"]


async def test_a_provider_that_keeps_raising_fails_the_chat_and_loses_no_message(
    db: Database, clock: Clock
) -> None:
    provider = Provider(failing=2)
    async with living(
        db,
        [call("shop_name"), "Tea."],
        [shop_name],
        clock=clock,
        deps_type=Shop,
        deps=provider,
        policy=ONE_RETRY,
    ) as life:
        chat_id = await life.begin("What is it called?")
        chat = await life.rest(chat_id)
        assert chat.error is not None
        assert chat.error.kind == "prepare"
        assert "the provider of the deps failed: OSError: the shop is on fire" in chat.error.detail
        assert await life.lines(chat_id) == ["prompt: What is it called?"]
        await life.do(user.retry, chat_id)
        chat = await life.rest(chat_id)
        assert chat.error is None
        assert await results(life, chat_id) == ["tea shop"]


async def test_a_mistake_in_a_provider_fails_the_chat_at_once(db: Database, clock: Clock) -> None:
    @asynccontextmanager
    async def misspelt(info: Any) -> AsyncIterator[Shop]:
        yield Shop(info.ownr)

    async with living(db, ["."], clock=clock, deps_type=Shop, deps=misspelt) as life:
        began = anyio.current_time()
        chat = await life.rest(await life.begin())
        assert anyio.current_time() - began < 1
        assert chat.error is not None
        assert (chat.error.kind, chat.error.retryable) == ("prepare", False)
        assert "no attribute 'ownr' (test_deps.py, line " in chat.error.detail


async def test_deps_of_another_type_fail_the_chat_at_once(db: Database, clock: Clock) -> None:
    async def forgot_the_decorator(info: ChatInfo) -> AsyncIterator[Shop]:
        yield Shop()

    @contextmanager
    def not_async(info: ChatInfo) -> Iterator[Shop]:
        yield Shop()

    for seed, (deps, problem) in enumerate(
        (
            (
                lambda info: "tea",
                "returned a str, and the deps_type of agent is Shop: return a Shop",
            ),
            (forgot_the_decorator, "is Shop: decorate it with @contextlib.asynccontextmanager"),
            (not_async, "is Shop: make it async, and decorate it with @contextlib.async"),
        )
    ):
        async with living(db, ["."], clock=clock, seed=seed, deps_type=Shop, deps=deps) as life:
            chat_id = await life.begin()
            chat = await life.rest(chat_id)
            assert chat.error is not None
            assert chat.error.kind == "config"
            assert problem in f"{chat.error.message} {chat.error.detail}"


async def test_a_provider_that_hangs_is_stopped_and_called_again(
    db: Database, clock: Clock
) -> None:
    provider = Provider(seconds=1_000)
    async with living(
        db, ["."], clock=clock, deps_type=Shop, deps=provider, policy=ONE_RETRY
    ) as life:
        chat = await life.rest(await life.begin())
        assert chat.error is not None
        assert "the provider of the deps took longer than 10 s" in chat.error.detail
    assert provider.events == ["opens", "closed"] * 2


async def test_deps_that_fail_while_they_are_used_are_made_again(
    db: Database, clock: Clock
) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def connected(info: ChatInfo) -> AsyncIterator[Shop]:
        events.append("opens")
        shop = Shop()
        try:
            async with anyio.create_task_group() as group:
                if len(events) == 1:
                    group.start_soon(loses_its_connection)
                yield shop
        finally:
            shop.open = False

    async def loses_its_connection() -> None:
        await anyio.sleep(5)
        raise OSError("the connection was lost")

    @tool
    async def wait_a_while() -> None:
        """Take longer than the connection lasts."""
        await anyio.sleep(10)

    script = [[call("wait_a_while")], [call("shop_name")], ["Done."]]
    async with living(
        db, script, [wait_a_while, shop_name], clock=clock, deps_type=Shop, deps=connected
    ) as life:
        chat_id = await life.begin()
        assert (await life.rest(chat_id)).error is None
        assert await results(life, chat_id) == ["done", "tea shop"]
    assert events == ["opens"] * 2


async def test_a_provider_that_raises_a_cancellation_of_its_own_is_called_again(
    db: Database, clock: Clock
) -> None:
    """As one whose client has cancelled a task that the provider awaits."""
    seconds = []

    async def awaiting(info: ChatInfo) -> Shop:
        seconds.append(anyio.current_time())
        lost: asyncio.Future[Shop] = asyncio.get_running_loop().create_future()
        lost.cancel()
        return await lost

    async with living(
        db, ["."], clock=clock, deps_type=Shop, deps=awaiting, policy=ONE_RETRY
    ) as life:
        chat = await life.rest(await life.begin())
        assert chat.error is not None
        assert "it awaited a task or a future that was cancelled" in chat.error.detail
    first, second = seconds
    assert second - first < 5


async def test_a_call_that_a_crash_interrupted_is_not_repeated_after_a_failed_provider(
    db: Database, clock: Clock
) -> None:
    async with living(
        db, [call("slowly")], [slowly], clock=clock, deps_type=Shop, deps=Provider()
    ) as life:
        chat_id = await life.begin()
        await anyio.sleep(10)
        await life.die()
    async with living(
        db,
        ["Oh."],
        [slowly],
        clock=clock,
        seed=1,
        deps_type=Shop,
        deps=Provider(failing=1),
        policy=ONE_RETRY,
    ) as life:
        chat = await life.rest(chat_id, 1_000)
        assert chat.error is None
        assert [line.partition(":")[0] for line in await life.lines(chat_id)] == [
            "prompt",
            "answer",
            "results",
            "answer",
        ]
        (message,) = [m for m in await life.history(chat_id) if m.results]
        assert [result.outcome for result in message.results] == ["lost"]


# --- The end -------------------------------------------------------------------------------------


async def test_an_interrupt_does_not_wait_for_a_provider(db: Database, clock: Clock) -> None:
    provider = Provider(seconds=1_000)
    async with living(db, ["."], clock=clock, deps_type=Shop, deps=provider) as life:
        chat_id = await life.begin()
        await anyio.sleep(2)
        began = anyio.current_time()
        await life.interrupted(chat_id)
        assert anyio.current_time() - began < 1
        await anyio.sleep(1)
        assert provider.events == ["opens", "closed"]


async def test_the_deps_are_closed_after_an_interrupt_and_at_the_shutdown(
    db: Database, clock: Clock
) -> None:
    provider = Provider(closing=1)
    async with living(
        db,
        [call("slowly"), call("slowly")],
        [slowly],
        clock=clock,
        deps_type=Shop,
        deps=provider,
        options=WorkerOptions(grace=1),
    ) as life:
        chat_id = await life.begin()
        await anyio.sleep(2)
        await life.interrupted(chat_id)
        await anyio.sleep(2)
        assert provider.events == ["opens", "closed"]
        await life.send(chat_id, "Again.")
        await anyio.sleep(2)
    assert provider.events == ["opens", "closed"] * 2


async def test_a_runner_that_crashes_closes_the_deps(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.worker.runner import Runner

    provider = Provider()

    async def crash(self: Runner, calls: object) -> None:
        raise BaseExceptionGroup("a defect", [RuntimeError()])

    async with living(
        db, [call("shop_name"), "Tea."], [shop_name], clock=clock, deps_type=Shop, deps=provider
    ) as life:
        with monkeypatch.context() as patched:
            patched.setattr(Runner, "_handle_internal_error", crash)
            patched.setattr(Runner, "_run_calls", crash)
            chat_id = await life.begin()
            await anyio.sleep(2)
            assert provider.events == ["opens", "closed"]
        await life.rest(chat_id, 1_000)
        assert await results(life, chat_id) == ["tea shop"]
    assert provider.events == ["opens", "closed"] * 2


async def test_deps_that_do_not_close_hold_nothing_up(db: Database, clock: Clock) -> None:
    provider = Provider(closing=1_000)
    async with living(db, ["One.", "Two."], clock=clock, deps_type=Shop, deps=provider) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        await life.send(chat_id, "More.")
        await life.rest(chat_id, 30)
        assert await life.lines(chat_id) == [
            "prompt: ?",
            "answer: One.",
            "prompt: More.",
            "answer: Two.",
        ]


async def test_settling_an_interrupt_needs_no_deps(db: Database, clock: Clock) -> None:
    async with living(db, [[pause(100)]], clock=clock, deps_type=Shop, deps=Provider()) as life:
        chat_id = await life.begin()
        await anyio.sleep(2)
        await life.die()
    async with living(
        db, [], clock=clock, seed=1, deps_type=Shop, deps=(broken := Provider(failing=99))
    ) as life:
        chat = await life.chat(chat_id)
        assert chat.worker_id is not None or chat.busy
        await life.do(user.interrupt, chat_id)
        assert (await life.rest(chat_id, 1_000)).error is None
    assert len(broken.events) <= 1


# --- Several agents ------------------------------------------------------------------------------


async def test_each_agent_of_a_handoff_has_deps_of_its_own_provider(
    db: Database, clock: Clock
) -> None:
    first, second = Provider(), Provider()
    clerk = Agent(
        model=ScriptedModel([call("shop_name"), "Tea."]),
        name="clerk",
        tools=[shop_name],
        deps_type=Shop,
    )
    async with living(
        db,
        [call("handoff", agent="clerk")],
        [handoff([clerk])],
        clock=clock,
        name="triage",
        deps_type=Shop,
        deps={"triage": first, "clerk": second},
    ) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        assert (await results(life, chat_id))[-1] == "tea shop"
    assert first.events == second.events == ["opens", "closed"]
    assert [info.agent for info in (*first.infos, *second.infos)] == ["triage", "clerk"]


async def test_the_provider_of_a_child_chat_knows_its_parent(db: Database, clock: Clock) -> None:
    provider = Provider()
    clerk = Agent(
        model=ScriptedModel([call("shop_name"), "Tea."]),
        name="clerk",
        tools=[shop_name],
        deps_type=Shop,
    )
    async with living(
        db,
        [call("clerk", prompt="?"), "Done."],
        [clerk.as_tool()],
        clock=clock,
        deps={"clerk": provider},
    ) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        assert await results(life, chat_id) == ["Tea."]
    assert [info.parent for info in provider.infos] == [chat_id]


# --- Hosts ---------------------------------------------------------------------------------------

clerk = Agent(model="demo", name="clerk", deps_type=Shop)
porter = Agent(model="demo", name="porter")


@pytest.mark.parametrize(
    ("deps", "problem"),
    [
        (None, "clerk needs deps of type Shop, which a durable chat gets from a provider: pass de"),
        (Shop(), "deps is Shop(name='tea shop', open=True): pass a function of the chat's"),
        ({}, "clerk needs deps of type Shop"),
        ({"clerk": Provider(), "porter": Provider()}, "'porter', and it has no deps_type: leave"),
        ({"clerk": Provider(), "cook": Provider()}, "'cook', and no agent has this name"),
    ],
)
async def test_a_host_without_the_right_providers_is_refused(deps: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        async with holdfast.open("sqlite:///:memory:", agents=[clerk, porter], deps=deps):
            pass
    assert problem in str(caught.value)


async def test_a_provider_without_an_agent_that_takes_deps_is_refused() -> None:
    with pytest.raises(ConfigError, match="no agent has a deps_type"):
        async with holdfast.open("sqlite:///:memory:", agents=[porter], deps=Provider()):
            pass


async def test_a_host_without_a_worker_needs_no_provider() -> None:
    async with holdfast.open("sqlite:///:memory:", agents=[clerk], worker=None) as host:
        await host.create("Hello")


async def test_an_override_replaces_the_provider_of_a_host() -> None:
    agent = Agent(
        model=ScriptedModel([call("shop_name"), "Tea."]), tools=[shop_name], deps_type=Shop
    )
    with agent.override(deps=Shop("test shop")):
        async with holdfast.open("sqlite:///:memory:", agents=[agent], titles=False) as host:
            chat = await host.create("?")
            await chat.rest()
            history = await chat.history()
    assert history[2].results[0].text == "test shop"
