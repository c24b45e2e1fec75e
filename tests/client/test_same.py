"""A chat on a server reads as one in this process: the same names, the same values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest

from holdfast.agent import approve
from holdfast.chat.errors import NothingToResume
from holdfast.chat.export import parse
from holdfast.chat.files import add_file
from holdfast.chat.handle import Chat, Queue
from holdfast.chat.host import Host
from holdfast.chat.interface import ChatHandle, ChatHost, ChatQueue
from holdfast.chat.rows import Rule
from holdfast.chat.stream import ChatStream, MessageChanged
from holdfast.client.remote_chat import RemoteChat
from holdfast.client.remote_host import RemoteHost
from holdfast.client.remote_queue import RemoteQueue
from holdfast.client.stream import RemoteStream
from holdfast.host import serving
from holdfast.kernel.attribute_hints import ForeignAttribute
from holdfast.kernel.messages import File, Part, Source, Text
from holdfast.kernel.summary_checkpoint import SUMMARY_SECTIONS
from holdfast.kernel.tool import Deny
from holdfast.server.identity.shares import NewShare, share
from holdfast.server.identity.users import create_user
from holdfast.server.wire_format import to_json
from holdfast.store.database import Database, Tx
from holdfast.testing import Clock, call, fail, pause, usage
from tests.client.served import connected
from tests.server.api import _world, agent
from tests.test_host import ask_user, pay

HERE_ONLY = frozenset(
    (
        *("agents", "feed", "agent", "check_choice", "workers", "handle", "adopt", "export_pieces"),
        *("on_close", "run_close_callbacks", "check_budgets", "budget_check"),
    )
)
"""What is for those who serve it: agents are objects, and stay here."""
THERE_ONLY = frozenset(("watch",))
"""Who has the chats in this process hears of them by its feed."""
OF_A_STREAM = ("__aiter__", "__anext__", "__aenter__", "__aexit__", "aclose", "cursor")


IMPLEMENTATIONS: list[tuple[type, type]] = [
    (ChatHost, Host),
    (ChatHost, RemoteHost),
    (ChatHandle, Chat),
    (ChatHandle, RemoteChat),
    (ChatQueue, Queue),
    (ChatQueue, RemoteQueue),
]


def public(kind: type) -> dict[str, Any]:
    """Methods and attributes, without those that only say what to write instead of them."""
    return {
        name: value
        for name, value in vars(kind).items()
        if not name.startswith("_") and not isinstance(value, ForeignAttribute)
    }


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


@pytest.mark.parametrize(("interface", "kind"), IMPLEMENTATIONS)
def test_a_method_has_the_arguments_of_the_interface(interface: type, kind: type) -> None:
    declared, defined = public(interface), public(kind)
    assert set(declared) == set(defined) - HERE_ONLY - THERE_ONLY
    for name, method in declared.items():
        assert parameters(defined[name]) == parameters(method), name
        is_coroutine = inspect.iscoroutinefunction(defined[name])
        assert is_coroutine == inspect.iscoroutinefunction(method), name


@pytest.mark.parametrize(("interface", "kind"), IMPLEMENTATIONS)
def test_a_method_has_the_docstring_of_the_interface(interface: type, kind: type) -> None:
    for name in public(interface):
        assert vars(kind)[name].__doc__ is None, name
        text = inspect.getdoc(getattr(kind, name))
        assert text, name
        assert text == inspect.getdoc(getattr(interface, name)), name


def test_both_streams_are_read_in_the_same_way() -> None:
    for name in OF_A_STREAM:
        ours, theirs = getattr(ChatStream, name), getattr(RemoteStream, name)
        assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs), name
        assert isinstance(ours, property) == isinstance(theirs, property), name


# --- one story, told twice ---

SCRIPT: list[Any] = [
    ["Hello", usage(input=3, output=1)],
    "seen",
    "again",
    ["half", fail(status=401)],
    "whole",
    "forked",
    [call("pay", amount=3), call("pay", amount=4)],
    call("pay", amount=3),
    "paid",
    call("ask_user"),
    "thanks",
    "\n".join(f"## {name}\n-" for name in SUMMARY_SECTIONS),
    ["one ", pause(60), "two"],
    ["slow", pause(60)],
    "promoted",
    "delivered",
]
PARTS: list[Part] = [
    Text("look \ud800"),
    File("image/png", "a.png", data=b"\x89PNG"),
    File("image/png", ref="https://x.test/a.png"),
    Source("https://x.test", "X"),
]


async def story(host: ChatHost, tell: Callable[[object], None]) -> None:
    chat = await host.create("hi", title="A  chat", labels={"b": "2", "a": "1"}, key="first")
    tell(chat.first)
    again = await host.create("hi", title="A  chat", labels={"b": "2", "a": "1"}, key="first")
    assert again.id == chat.id
    tell((chat.owner == chat.first.owner, chat.agent, chat.id == chat.first.id))
    tell(await chat.rest())
    tell(await chat.send(PARTS, key="k"))
    tell(await chat.send(PARTS, key="k"))
    tell(await chat.rest())
    tell(await chat.edit(3, "better", effort="low"))
    tell(await chat.rest())
    tell(await chat.send("fail", model=None))
    tell(await chat.rest())
    tell(await chat.retry())
    tell(await chat.rest())
    with pytest.raises(NothingToResume):
        await chat.resume()
    await reading(chat, tell)
    await changing(host, chat, tell)
    await answering(host, tell)
    await waiting(host, tell)


async def reading(chat: ChatHandle, tell: Callable[[object], None]) -> None:
    tell(await chat.read())
    for asked in (
        {},
        {"limit": 2},
        {"before": 5},
        {"before": 0},
        {"after": 2, "limit": 3},
        {"after": -1, "before": 4},
        {"superseded": True, "limit": 1_000},
    ):
        tell(await chat.messages(**asked))  # type: ignore[arg-type]
    tell(await chat.history())
    tell((await chat.actions(), await chat.usage(), await chat.usage(tree=True)))
    tell(await chat.export())
    tell((await chat.export("markdown")).replace("\ud800", "?"))  # which UTF-8 cannot say
    cursor = None
    async with chat.stream() as stream:
        async for event in stream:
            cursor = event.cursor
            if isinstance(event, MessageChanged):
                tell(event.message)
    tell((cursor, stream.cursor))
    tell([event async for event in chat.stream(str(cursor))])


async def changing(host: ChatHost, chat: ChatHandle, tell: Callable[[object], None]) -> None:
    copy = await chat.fork(2)
    tell((copy.first, await copy.rest()))
    other = await chat.fork(1, "instead", title="Another", share_workspace=True)
    tell((other.first, await other.rest()))
    tell(await other.rename("New"))
    tell(await other.rename(None))
    tell(await other.update(labels={"x": "y"}, effort="high"))
    tell(await other.update(effort=None, key="update"))
    tell(await other.archive())
    tell([one.title for one in await host.list(archived=True)])
    tell(await other.unarchive())
    kept = await host.restore(await chat.export())
    tell((kept.first, await kept.history()))
    tell([one.id for one in await host.list()])
    tell([one.id for one in await host.list(before=copy.id, limit=1)])
    tell(await host.list(parent=chat.id))
    tell((await host.chat(chat.id)).id)
    await kept.delete()
    assert kept.id not in [one.id for one in await host.list()]


async def answering(host: ChatHost, tell: Callable[[object], None]) -> None:
    chat = await host.create("pay")
    waits = await chat.rest()
    tell(waits)
    assert waits.actions == await chat.actions()
    one, two = waits.actions
    tell([type(event).__name__ async for event in chat.stream()])
    answers = {one.call.id: approve(one), two.call.id: Deny("too much")}
    tell(await chat.resolve(answers, allow_for_chat=Rule("pay"), key="resolve"))
    tell((await chat.rest(), (await chat.read()).rules))
    await chat.send("ask me")
    (question,) = (await chat.rest()).actions
    tell(await chat.resolve({question.call.id: {"colour": "blue"}}))
    tell((await chat.rest(), await chat.history()))
    tell(await chat.compact())
    tell((await chat.rest(), await chat.history()))


async def waiting(host: ChatHost, tell: Callable[[object], None]) -> None:
    chat = await host.create("count")
    await anyio.sleep(1)
    tell(await chat.interrupt())
    tell(await chat.rest())
    await chat.send("go")
    await anyio.sleep(1)
    a, b, c = [(await chat.send(text)).queued or "" for text in ("a", "b", "c")]
    tell(await chat.queue.list())
    tell(await chat.queue.edit(a, "A", "queue"))
    tell(await chat.queue.reorder([c, a, b]))
    tell(await chat.queue.remove(b, key="remove"))
    tell(await chat.queue.remove(b, key="remove"))
    tell(await chat.queue.promote(a))
    tell((await chat.rest(), await chat.history()))


def plain(told: object) -> Any:
    """Without what differs between any two chats: ids, times, owners. What is in no list may be."""
    names: dict[str, str] = {}
    text = to_json(msgspec.to_builtins(told)).decode()
    text = re.sub(r"id-\d{6}", lambda m: names.setdefault(m[0], f"#{len(names)}"), text)
    text = re.sub(r'(\\*"(?:\w+_at|deadline|context)\\*":)(\d+|null)', r"\g<1>0", text)
    return text.replace('"owner":"ann"', '"owner":""').replace(
        '\\"owner\\":\\"ann\\"', '\\"owner\\":\\"\\"'
    )


async def test_the_same_story_has_the_same_results_here_and_there(
    db: Database, clock: Clock
) -> None:
    here: list[object] = []
    there: list[object] = []
    tools = [pay, ask_user]
    world = _world(clock)
    async with serving(db, [agent(SCRIPT, clock, tools=tools)], ports=world, titles=False) as host:
        await story(host, here.append)
    async with connected(db, [agent(SCRIPT, clock, tools=tools)], clock, world=world) as (_, far):
        await story(far, there.append)
    assert len(here) == len(there) > 60
    for ours, theirs in zip(here, there, strict=True):
        assert plain(theirs) == plain(ours)
        assert type(theirs) is type(ours)


async def test_what_others_share_is_not_listed_as_ones_own(db: Database, clock: Clock) -> None:
    async with connected(db, [agent((), clock)], clock) as (api, host):
        mine, theirs = [await api.host.create(None, owner=name) for name in ("ann", "bob")]

        async def shared(tx: Tx) -> None:
            for name in ("ann", "bob"):
                await create_user(tx, name, name, "member")
            await share(tx, NewShare(id="s", chat=theirs.id, by="bob", user="ann"))

        await db.write(shared)
        assert [chat.id for chat in await host.list()] == [mine.id]


async def test_a_chat_with_large_files_goes_to_a_server_and_back(
    db: Database, clock: Clock
) -> None:
    data = bytes(3_000_000)
    async with connected(db, [agent(["nice"], clock)], clock) as (api, host):
        await db.write(lambda tx: add_file(tx, "f1", "ann", "hash", data, "image/png", None))
        part = File("image/png", ref="holdfast:f1")
        chat = await host.chat((await api.host.create([part], owner="ann")).id)
        await chat.rest()
        text = await chat.export()
        assert len(text) > len(data)
        made = await host.restore(text)
        (kept,) = parse(await made.export()).files
        assert (kept.data == data, kept.id == "f1") == (True, False)
        assert len(await made.history()) == 2
