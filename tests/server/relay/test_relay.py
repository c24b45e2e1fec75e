"""A chat that runs on one replica is read on another as if it ran there."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from time import time

import aiohttp
import pytest
from msgspec import Struct

from holdfast.chat.stream import LiveDelta
from holdfast.server.relay import replica_publisher
from holdfast.server.relay.cluster_secret import PROOF_HEADER, ClusterSecret
from holdfast.server.relay.frames import RELAY_PATH
from holdfast.server.relay.replica_publisher import PublisherOptions
from holdfast.server.relay.replica_subscriber import SubscriberOptions
from tests.server.relay.cluster import (
    SECRET,
    Replica,
    Spoken,
    begun,
    reading,
    replica,
    resets,
    run,
    until,
)
from tests.server.streams.client import Watching

QUICK = SubscriberOptions(first=0.01, longest=0.05)


def words(count: int, start: int = 0) -> list[str]:
    return [f"word {number} " for number in range(start, start + count)]


def test_a_reader_elsewhere_sees_every_delta_in_order_and_once(postgres_url: str) -> None:
    async def test() -> None:
        model = Spoken()
        async with (
            replica(postgres_url, model, drives=True) as a,
            replica(postgres_url, model) as b,
        ):
            chat = await begun(a)
            async with reading(b, chat) as watching:
                for piece in words(200):
                    model.say(piece)
                    await asyncio.sleep(0.001)
                await until(lambda: watching.text == "".join(words(200)))
                model.end()
            assert watching.finished == [("".join(words(200)),) * 2]
            deltas = [event for event in watching.events if isinstance(event, LiveDelta)]
            assert [d.first for d in deltas] == [1, *(d.last + 1 for d in deltas[:-1])]
            assert len(deltas) > 3, "it came in one piece"
            assert resets(watching) == 1, "more than that of its end"
            assert a.wire.made == 1

    run(test())


def test_who_begins_in_the_middle_or_comes_from_another_replica_misses_nothing(
    postgres_url: str,
) -> None:
    async def test() -> None:
        model = Spoken()
        async with (
            replica(postgres_url, model, drives=True) as a,
            replica(postgres_url, model) as b,
            replica(postgres_url, model) as c,
        ):
            chat = await begun(a)
            moved = Watching()
            model.say(*words(10))
            async with reading(b, chat) as first:
                await until(lambda: first.text == "".join(words(10)))
                async with asyncio.TaskGroup() as group:
                    group.create_task(moved.follow(a.api, chat.id, 5))
                    group.create_task(keep_talking(model, 10, 20))
                async with reading(b, chat) as late, reading(c, chat, moved):
                    model.say(*words(10, 30))
                    for each in (first, late, moved):
                        await until(lambda each=each: each.text == "".join(words(40)))  # type: ignore[misc]
                    model.end()
            for each in (first, late, moved):
                assert each.finished == [("".join(words(40)),) * 2]
                assert resets(each) == 1

    async def keep_talking(model: Spoken, start: int, count: int) -> None:
        for piece in words(count, start):
            model.say(piece)
            await asyncio.sleep(0.03)

    run(test())


def test_all_chats_go_over_one_connection(postgres_url: str) -> None:
    async def test() -> None:
        model = Spoken()
        async with (
            replica(postgres_url, model, drives=True) as a,
            replica(postgres_url, model) as b,
            AsyncExitStack() as stack,
        ):
            names = [f"chat {number}" for number in range(20)]
            chats = {name: await begun(a, name) for name in names}
            watching = {
                name: await stack.enter_async_context(reading(b, chat))
                for name, chat in chats.items()
            }
            for name in names:
                model.say(*words(5), name, to=name)
            for name in names:
                await until(lambda name=name: watching[name].text.endswith(name))  # type: ignore[misc]
            assert (a.wire.made, len(a.owner), a.owner.subscriptions) == (1, 1, 20)
            assert (len(b.relay), b.relay.chats) == (1, 20)
            for name in names:
                model.end(to=name)

    run(test())


def test_what_nobody_reads_is_not_asked_for(postgres_url: str) -> None:
    async def test() -> None:
        model = Spoken()
        async with (
            replica(postgres_url, model, drives=True) as a,
            replica(postgres_url, model, asking=SubscriberOptions(idle=0.05)) as b,
        ):
            chat, other = await begun(a), await begun(a, "other")
            model.say("some")
            left = Watching()
            await left.follow(b.api, chat.id, 3)
            assert left.text == "some"
            await until(lambda: a.owner.subscriptions == 0 and len(a.owner) == 0)
            assert (a.wire.made, b.relay.chats, len(b.relay)) == (1, 0, 0)
            assert len(b.host.feed.live) == 0
            async with reading(b, chat, left):
                model.say(" and more")
                await until(lambda: left.text == "some and more")
                model.end()
            assert resets(left) == 1
            async with reading(b, other) as watching:  # and it can be asked again
                model.say("more", to="other")
                await until(lambda: watching.text == "more")
                model.end(to="other")

    run(test())


def test_a_chat_that_runs_here_is_not_asked_for(postgres_url: str) -> None:
    async def test() -> None:
        model = Spoken()
        async with (
            replica(postgres_url, model, drives=True) as a,
            replica(postgres_url, model) as b,
        ):
            chat = await begun(a)
            async with reading(a, chat) as here, reading(b, chat) as there:
                model.say("some")
                await until(lambda: here.text == there.text == "some")
                assert (a.relay.chats, b.relay.chats) == (0, 1)
                model.end()

    run(test())


@pytest.mark.parametrize("shown", [None, "", "x", "1 2 3", "9" * 30 + " a b"])
def test_who_does_not_have_the_secret_is_refused(postgres_url: str, shown: str | None) -> None:
    async def test() -> None:
        async with replica(postgres_url, Spoken(), drives=True) as a:
            headers = {} if shown is None else {PROOF_HEADER: shown}
            assert await status(a, headers) == 401

    run(test())


def test_a_proof_is_good_for_one_worker_and_not_for_long(postgres_url: str) -> None:
    async def test() -> None:
        async with replica(postgres_url, Spoken(), drives=True) as a:
            worker = a.host.feed.worker
            assert worker is not None
            now = int(time())
            assert (
                await status(a, {PROOF_HEADER: SECRET.subscriber_proof("other", now).sent}) == 401
            )
            assert (
                await status(a, {PROOF_HEADER: SECRET.subscriber_proof(worker, now - 1000).sent})
                == 401
            )
            wrong = ClusterSecret(b"something else altogether").subscriber_proof(worker, now)
            assert await status(a, {PROOF_HEADER: wrong.sent}) == 401
            proof = SECRET.subscriber_proof("other", now).sent
            assert await status(a, {PROOF_HEADER: proof}, "other") == 421
            assert (
                await status(a, {PROOF_HEADER: SECRET.subscriber_proof(worker, now).sent}) == 400
            ), "no upgrade"

    run(test())


def test_a_proof_that_somebody_saw_is_good_for_nothing(postgres_url: str) -> None:
    async def test() -> None:
        async with replica(postgres_url, Spoken(), drives=True) as a:
            assert a.host.feed.worker is not None
            proof = SECRET.subscriber_proof(a.host.feed.worker, int(time())).sent
            assert await status(a, {PROOF_HEADER: proof}) == 400, "no upgrade"
            assert await status(a, {PROOF_HEADER: proof}) == 401

    run(test())


async def status(a: Replica, headers: dict[str, str], worker: str | None = None) -> int:
    params = {"worker": worker or a.host.feed.worker or ""}
    async with aiohttp.ClientSession() as client:
        async with client.get(a.api.url + RELAY_PATH, headers=headers, params=params) as response:
            return response.status


def test_without_the_same_secret_readers_still_get_every_message(postgres_url: str) -> None:
    async def test() -> None:
        model = Spoken()
        async with (
            replica(postgres_url, model, drives=True) as a,
            replica(postgres_url, model, secret=ClusterSecret(b"of others"), asking=QUICK) as b,
        ):
            chat = await begun(a)
            async with reading(b, chat) as watching:
                model.say("all")
                await until(lambda: b.relay.failing == 1)
                assert watching.text == ""
                model.end()
            assert watching.finished == [("", "all")]

    run(test())


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "http://x..y:80", "http://", "nowhere"])
def test_a_replica_with_a_wrong_address_is_no_trouble_of_others(
    postgres_url: str, address: str
) -> None:
    async def test() -> None:
        model = Spoken()
        async with (
            replica(postgres_url, model, drives=True, advertised=address) as a,
            replica(postgres_url, model, asking=QUICK) as b,
        ):
            chat = await begun(a)
            async with reading(b, chat) as watching:
                model.say("all")
                await until(lambda: b.relay.failing == 1)
                model.end()
            assert watching.finished == [("", "all")]

    run(test())


def test_after_a_cut_it_goes_on_where_it_was(postgres_url: str) -> None:
    async def test() -> None:
        model = Spoken()
        async with (
            replica(postgres_url, model, drives=True) as a,
            replica(postgres_url, model, asking=QUICK) as b,
        ):
            chat = await begun(a)
            async with reading(b, chat) as watching:
                for start in range(0, 50, 10):
                    model.say(*words(5, start))
                    await until(lambda start=start: watching.text == "".join(words(start + 5)))  # type: ignore[misc]
                    a.wire.sever()
                    await until(lambda: a.wire.connections == 0)
                    model.say(*words(5, start + 5))
                    a.wire.cut = False
                    await until(lambda start=start: watching.text == "".join(words(start + 10)))  # type: ignore[misc]
                model.end()
            assert resets(watching) == 1, "there was nothing to reset"
            assert watching.finished == [("".join(words(50)),) * 2]
            assert a.wire.made >= 6

    run(test())


def test_what_ends_during_a_cut_is_told_by_the_database(postgres_url: str) -> None:
    async def test() -> None:
        model = Spoken()
        async with (
            replica(postgres_url, model, drives=True) as a,
            replica(postgres_url, model, asking=QUICK) as b,
        ):
            chat = await begun(a)
            async with reading(b, chat) as watching:
                model.say("some")
                await until(lambda: watching.text == "some")
                a.wire.sever()
                model.say(" more")
                model.end()
            assert watching.finished == [("some", "some more")]
            assert watching.text == ""
            a.wire.cut = False
            await chat.send("again")
            async with reading(b, chat) as second:
                model.say("new", to="again")
                await until(lambda: second.text == "new")
                model.end(to="again")

    run(test())


def test_a_slow_peer_is_told_less_often_and_costs_no_memory(postgres_url: str) -> None:
    async def test() -> None:
        model = Spoken()
        options = PublisherOptions(message=64 * 1024)
        async with (
            replica(postgres_url, model, drives=True, owner=options) as a,
            replica(postgres_url, model) as b,
        ):
            chat = await begun(a)
            async with reading(b, chat) as watching:
                model.say("first")
                await until(lambda: watching.text == "first")
                a.wire.flows.clear()
                total = 0
                for _ in range(100):  # 10 MB
                    model.say("x" * 100_000)
                    total += 100_000
                    await asyncio.sleep(0.001)
                (line,) = a.owner._connections
                assert line._transport is not None
                held = line._transport.get_write_buffer_size()
                assert held < 4_000_000, f"{held} bytes wait for a peer that takes nothing"
                a.wire.flows.set()
                await until(lambda: len(watching.text) == total + 5)
                model.end()
            assert watching.finished[0][0] == watching.finished[0][1]

    run(test())


def test_a_peer_that_takes_nothing_for_long_is_cut(postgres_url: str) -> None:
    async def test() -> None:
        model = Spoken()
        async with (
            replica(postgres_url, model, drives=True, owner=PublisherOptions(slow=0.2)) as a,
            replica(postgres_url, model, asking=QUICK) as b,
        ):
            chat = await begun(a)
            async with reading(b, chat) as watching:
                model.say("first")
                await until(lambda: watching.text == "first")
                a.wire.flows.clear()
                for _ in range(100):
                    model.say("x" * 100_000)
                    await asyncio.sleep(0.002)
                await until(lambda: len(a.owner) == 0)
                a.wire.flows.set()
                await until(lambda: len(watching.text) == 10_000_005)
                model.end()
            assert watching.finished[0][0] == watching.finished[0][1]

    run(test())


class Unheard(Struct, array_like=True, tag="unheard of"):
    """What a replica of a later version may say."""

    number: int


def test_a_peer_that_is_not_understood_costs_words_and_nothing_else(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        replica_publisher, "publisher_frame_of", lambda number, taken: Unheard(number)
    )

    async def test() -> None:
        model = Spoken()
        async with (
            replica(postgres_url, model, drives=True) as a,
            replica(postgres_url, model, asking=QUICK) as b,
        ):
            chat = await begun(a)
            async with reading(b, chat) as watching:
                model.say("some")
                await until(lambda: b.relay.failing == 1 and a.wire.made > 2)
                assert watching.text == ""
                model.say(" more")
                model.end()
            assert watching.finished == [("", "some more")]

    run(test())
