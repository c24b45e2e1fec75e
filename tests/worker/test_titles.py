"""A chat gets a title after its first turn, and nothing of that can disturb the chat."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from holdfast.agent import Agent
from holdfast.chat.errors import ChatArchived, InvalidInput, TitleFailed
from holdfast.chat.handle import Chat
from holdfast.chat.host import Host
from holdfast.host import serving
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.model import Model, Request
from holdfast.kernel.title_request import TITLE_INSTRUCTIONS, is_title_request
from holdfast.providers.openai_chat import OpenAIChat
from holdfast.providers.profile import Profile
from holdfast.store.database import Database, Tx
from holdfast.testing import Clock, FakeProvider, ScriptedModel, fail, hang, pause, usage
from holdfast.testing.fake.dialect_interface import ReceivedRequest
from holdfast.worker.titles import TITLES_AT_START
from tests.worker.workers import world_of


@asynccontextmanager
async def hosting(
    db: Database,
    clock: Clock,
    script: Sequence[Any],
    titles: bool | Model = True,
    seed: int = 0,
) -> AsyncIterator[Host]:
    world = world_of(clock, seed)
    agent = Agent(model=ScriptedModel(script), ports=world)
    async with serving(db, [agent], ports=world, titles=titles) as host:
        yield host


async def titled(chat: Chat) -> tuple[str | None, str | None]:
    """Who has named it what, once there was time for it."""
    await chat.rest()
    await anyio.sleep(60)
    now = await chat.read()
    return now.title, now.titled_by


async def charges(db: Database) -> list[tuple[Any, ...]]:
    async def read(tx: Tx) -> list[tuple[Any, ...]]:
        rows = await tx.fetch("SELECT purpose, input, output FROM usage ORDER BY id")
        return [tuple(row) for row in rows]

    return await db.read(read)


async def test_a_chat_is_named_by_its_own_model_after_its_first_turn(
    db: Database, clock: Clock
) -> None:
    asked: list[Request] = []

    def name_it(request: Request) -> Any:
        asked.append(request)
        return ['"Tests are **fixed**."', usage(input=30, output=5)]

    async with hosting(db, clock, ["They are fixed.", name_it, "Linted."]) as host:
        chat = await host.create("fix the tests")
        assert await titled(chat) == ("Tests are fixed", "model")
        await chat.send("and lint")
        assert (await titled(chat))[0] == "Tests are fixed"
        spent = await chat.usage()
    (request,) = asked
    assert is_title_request(request)
    assert "fix the tests" in request.messages[0].text
    assert "They are fixed." in request.messages[0].text
    assert await charges(db) == [("title", 30, 5)]
    assert (spent.usage.input, spent.usage.output) == (30, 5)


async def test_another_model_can_be_asked_for_titles(db: Database, clock: Clock) -> None:
    small = ScriptedModel(["A small title"])
    async with hosting(db, clock, ["Fixed."], titles=small) as host:
        assert await titled(await host.create("fix")) == ("A small title", "model")


async def test_titles_can_be_switched_off(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, ["Fixed."], titles=False) as host:
        assert await titled(await host.create("fix")) == (None, None)


async def test_a_chat_that_has_a_title_is_not_named(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, ["Fixed."]) as host:
        assert await titled(await host.create("fix", title="Mine")) == ("Mine", "person")


async def test_a_person_who_renames_meanwhile_wins_and_the_title_is_paid_for(
    db: Database, clock: Clock
) -> None:
    script = ["Fixed.", [pause(5), "Too late", usage(input=1, output=1)]]
    async with hosting(db, clock, script) as host:
        chat = await host.create("fix")
        await chat.rest()
        await anyio.sleep(1)
        await chat.rename("Mine")
        assert await titled(chat) == ("Mine", "person")
    assert await charges(db) == [("title", 1, 1)]


async def test_a_title_of_a_chat_that_is_archived_meanwhile_is_paid_for_and_not_given(
    db: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    script = ["Fixed.", [pause(5), "Too late", usage(input=1, output=1)]]
    async with hosting(db, clock, script) as host:
        chat = await host.create("fix")
        await chat.rest()
        await anyio.sleep(1)
        before = await chat.archive()
        assert await titled(chat) == (None, None)
        assert (await chat.read()).snapshot_version == before.snapshot_version
    assert await charges(db) == [("title", 1, 1)]
    assert caplog.text == ""


class Picky:
    """An endpoint that refuses `reasoning_effort`, as many that are compatible with OpenAI do."""

    def __init__(self, **facts: Any) -> None:
        self.fake = FakeProvider("openai_chat", default=self._object, check=False)
        self.model = OpenAIChat(
            "local", provider="compatible", profile=Profile(**facts), http=self.fake
        )
        self.efforts: list[str | None] = []
        """What was asked for with each request for a title."""

    def _object(self, received: ReceivedRequest) -> Any:
        if TITLE_INSTRUCTIONS not in str(received.json):
            return "Fixed."
        self.efforts.append(received.json.get("reasoning_effort"))
        if "reasoning_effort" in received.json:
            return fail(status=400, kind="invalid_request")
        return "A title"


@pytest.mark.parametrize(
    ("facts", "efforts"),
    [({}, [None]), ({"efforts": ("none", "high")}, ["none", None])],
    ids=["no profile", "a profile that is wrong"],
)
async def test_an_endpoint_that_refuses_an_effort_is_asked_for_a_title_without_one(
    db: Database, clock: Clock, facts: dict[str, Any], efforts: list[str | None]
) -> None:
    picky = Picky(**facts)
    world = world_of(clock)
    agent = Agent(model=picky.model, ports=world)
    async with serving(db, [agent], ports=world) as host:
        assert await titled(await host.create("fix the tests")) == ("A title", "model")
    assert picky.efforts == efforts


@pytest.mark.parametrize("said", [["..."], []], ids=["dots", "nothing"])
async def test_what_is_no_title_is_paid_for_all_the_same(
    db: Database, clock: Clock, said: list[Any]
) -> None:
    spent = usage(input=1, output=1)
    script = ["Fixed.", [*said, spent], "Two.", ["A title", usage(input=2)]]
    async with hosting(db, clock, script) as host:
        chat = await host.create("fix")
        assert await titled(chat) == ("fix", None)
        assert await charges(db) == [("title", 1, 1)]
        await chat.send("more")
        assert await titled(chat) == ("A title", "model")
        assert (await chat.usage()).usage.input == 3


@pytest.mark.parametrize(
    "trouble",
    [lambda: fail(status=503), hang, lambda: "...", lambda: fail(KeyError("ours"))],
    ids=["fails", "hangs", "says nothing", "breaks"],
)
async def test_a_title_that_fails_is_the_first_words_until_one_is_written_after_the_next_turn(
    db: Database, clock: Clock, trouble: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    script = ["One.", trouble(), "Two.", trouble(), "Three.", "A title"]
    async with hosting(db, clock, script) as host:
        chat = await host.create("Fix the **tests**.\n\nThey fail.")
        with caplog.at_level(logging.WARNING, "holdfast.worker"):
            assert await titled(chat) == ("Fix the tests", None)
        assert f"chat {chat.id}: the model wrote no title" in caplog.text
        assert await charges(db) == []
        await chat.send("more")
        await chat.rest()
        before = await chat.read()
        assert await titled(chat) == ("Fix the tests", None)
        assert await chat.read() == before
        await chat.send("more")
        assert await titled(chat) == ("A title", "model")


async def test_a_prompt_without_words_leaves_no_title_when_the_model_writes_none(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, ["One.", "...", "Two.", "A title"]) as host:
        chat = await host.create("?!")
        assert await titled(chat) == (None, None)
        await chat.send("more")
        assert await titled(chat) == ("A title", "model")


async def test_the_first_words_do_not_replace_a_title_that_came_meanwhile(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, ["One.", hang(), "Two.", "A title"]) as host:
        chat = await host.create("fix")
        await chat.rest()
        await anyio.sleep(1)
        await chat.send("more")
        assert await titled(chat) == ("A title", "model")


async def test_a_title_replaces_the_first_words_that_came_meanwhile(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, ["One.", hang(), "Two.", [pause(29), "A title"]]) as host:
        chat = await host.create("fix")
        await chat.rest()
        await anyio.sleep(20)
        await chat.send("more")
        await chat.rest()
        await anyio.sleep(15)
        assert (await chat.read()).title == "fix"
        assert await titled(chat) == ("A title", "model")


# --- on request ---


async def test_a_title_is_written_anew_on_request(db: Database, clock: Clock) -> None:
    script = ["Fixed.", "A title", ["Another title", usage(input=7)]]
    async with hosting(db, clock, script) as host:
        chat = await host.create("fix")
        await titled(chat)
        now = await chat.retitle(key="k")
        assert (now.title, now.titled_by) == ("Another title", "model")
        assert await chat.retitle(key="k") == now
        assert (await chat.read()).title == "Another title"
    assert await charges(db) == [("title", 7, 0)]


async def test_a_title_that_a_person_gave_is_replaced_on_request(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, ["Fixed.", "Better"]) as host:
        chat = await host.create("fix", title="Mine")
        await chat.rest()
        await chat.retitle()
        assert await titled(chat) == ("Better", "model")


async def test_a_request_for_a_title_that_fails_changes_nothing_and_says_why(
    db: Database, clock: Clock
) -> None:
    script = ["Fixed.", "A title", [usage(input=7), "..."], fail(status=401), hang()]
    async with hosting(db, clock, script) as host:
        chat = await host.create("fix")
        await titled(chat)
        before = await chat.read()
        for why in (r"answered '\.\.\.'", "key", "more than 30 s"):
            with pytest.raises(TitleFailed, match=why):
                await chat.retitle()
        assert await chat.read() == before
    assert await charges(db) == [("title", 7, 0)]


async def test_a_person_who_renames_during_a_request_for_a_title_wins(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, ["Fixed.", "A title", [pause(5), "Too late"]]) as host:
        chat = await host.create("fix")
        await titled(chat)
        async with anyio.create_task_group() as group:
            group.start_soon(chat.retitle)
            await anyio.sleep(1)
            await chat.rename("Mine")
        assert await titled(chat) == ("Mine", "person")


async def test_a_chat_that_is_archived_or_empty_or_a_host_without_titles_writes_none(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, ["Fixed."], titles=False) as host:
        chat = await host.create("fix")
        await chat.rest()
        with pytest.raises(ConfigError, match="titles=True"):
            await chat.retitle()
        await chat.archive()
    async with hosting(db, clock, [], seed=1) as host:
        with pytest.raises(ChatArchived):
            await (await host.chat(chat.id)).retitle()
        with pytest.raises(InvalidInput, match="send a message first"):
            await (await host.create(None)).retitle()


async def test_a_host_without_a_worker_writes_a_title_on_request(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, ["Fixed."], titles=False) as host:
        chat = await host.create("fix")
        await chat.rest()
    world = world_of(clock, 1)
    agent = Agent(model=ScriptedModel(["A title"]), ports=world)
    async with serving(db, [agent], ports=world, worker=None) as host:
        assert (await (await host.chat(chat.id)).retitle()).title == "A title"


async def test_a_turn_that_failed_asks_nobody_for_a_title(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, [fail(kind="auth"), "Two.", "A title"]) as host:
        chat = await host.create("fix")
        assert await titled(chat) == (None, None)
        await chat.retry()
        assert await titled(chat) == ("A title", "model")
        assert (await chat.rest()).text == "Two."


async def test_a_turn_is_not_held_up_by_a_title(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, ["One.", hang(), "Two.", "A title"]) as host:
        chat = await host.create("fix")
        await chat.rest()
        await anyio.sleep(1)
        await chat.send("more")
        with anyio.fail_after(1):
            assert (await chat.rest()).text == "Two."


async def test_a_chat_that_is_deleted_meanwhile_is_not_missed(
    db: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with hosting(db, clock, ["One.", [pause(5), "Too late"]]) as host:
        chat = await host.create("fix")
        await chat.rest()
        await anyio.sleep(1)
        await chat.delete()
        await anyio.sleep(10)
    assert caplog.text == ""


async def test_a_chat_whose_process_ended_after_its_only_turn_is_named_by_the_next(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, ["One.", [pause(5), "Too late", usage(input=1)]]) as host:
        chat = await host.create("fix")
        await chat.rest()
    async with hosting(db, clock, [["A title", usage(input=2)]], seed=1) as host:
        chat = await host.chat(chat.id)
        assert await titled(chat) == ("A title", "model")
    assert await charges(db) == [("title", 2, 0)]


async def test_a_start_asks_for_no_titles_but_those_of_recent_chats_at_rest(
    db: Database, clock: Clock
) -> None:
    asked: list[str] = []

    def name_it(request: Request) -> Any:
        asked.append(request.messages[0].text)
        return "A title"

    async with hosting(db, clock, ["One."], titles=False) as host:
        await (await host.create("old")).rest()
    clock.advance(25 * 3600)
    script = ["Two.", fail(kind="auth"), "Three.", "Four."]
    async with hosting(db, clock, script, titles=False, seed=1) as host:
        await (await host.create("named", title="Mine")).rest()
        await (await host.create("failed")).rest()
        away = await host.create("archived")
        await away.rest()
        await away.archive()
        await host.create(None)
        wanted = await host.create("wanted")
        await wanted.rest()
    async with hosting(db, clock, [name_it], seed=2) as host:
        assert await titled(await host.chat(wanted.id)) == ("A title", "model")
    (only,) = asked
    assert "wanted" in only


async def test_no_more_chats_are_named_at_a_start_than_anybody_expects(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, ["Done."] * (TITLES_AT_START + 2), titles=False) as host:
        for number in range(TITLES_AT_START + 2):
            await (await host.create(str(number))).rest()
            await anyio.sleep(1)
    async with hosting(db, clock, ["A title"] * (TITLES_AT_START + 2), seed=1) as host:
        await anyio.sleep(60)
        titles = [chat.title for chat in await host.list()]
    assert titles.count("A title") == TITLES_AT_START


async def test_a_host_that_ends_does_not_wait_for_titles(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, ["One.", hang()]) as host:
        chat = await host.create("fix")
        await chat.rest()
        await anyio.sleep(1)
        before = anyio.current_time()
    assert anyio.current_time() - before < 1
