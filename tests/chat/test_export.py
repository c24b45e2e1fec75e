"""A chat as a file: nothing is lost in JSONL, and people can read the Markdown."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from msgspec import structs

from holdfast.agent import Agent
from holdfast.chat import queries
from holdfast.chat.export import Exported, export, parse
from holdfast.chat.rows import Stored
from holdfast.chat.snapshots import Snapshot, StrandedLimits, read_snapshot
from holdfast.chat.transitions import user
from holdfast.host import serving
from holdfast.kernel.errors import FormatError
from holdfast.kernel.messages import (
    File,
    Message,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    note,
)
from holdfast.kernel.tool import tool
from holdfast.testing import Clock, ScriptedModel, call, pause, ports
from tests.chat.chats import Chats, answer, asks, made, prompt

STRANGE = "NUL \x00, a lone \ud800, \ue000, two\nlines\u2028 and a fence\n````\n"


async def whole(chats: Chats, id: str = "c1") -> tuple[Snapshot, list[Stored]]:
    snapshot = await chats.ask(read_snapshot, id, StrandedLimits(15_000_000, 60_000_000))
    return snapshot, await chats.ask(queries.read_messages, id, limit=1_000, superseded=True)


async def a_rich_chat(chats: Chats) -> None:
    """Every kind of part, text that stores hardly hold, and an edit."""
    await chats.running(title="A *chat*", labels={"a": "b"}, text="first")
    await chats.commit("c1", answer("let me see", asks("x")))
    await chats.results("c1", made("x", STRANGE, "failed"))
    await chats.do(user.edit, "c1", 1, prompt("instead"))
    parts = (
        Reasoning("I think\nso", signature="s1"),
        Text(STRANGE, {"acme": {"id": 1}}),
        File("image/png", "a.png", b"\x00\x01"),
        Source("https://example.com/", "An example"),
        ToolCall("y", "work", '{"a": 1}'),
    )
    await chats.commit("c1", Message("assistant", parts, "answer", model="acme:one"))
    content = (Text("done"), File("text/plain", None, b"abc"))
    await chats.results("c1", ToolResult("y", "work", content))
    await chats.commit("c1", Message("user", (Text("for the model"),), "injected", "model"))
    await chats.commit("c1", note("for people"))


async def test_jsonl_is_read_back_as_it_was(chats: Chats) -> None:
    await a_rich_chat(chats)
    chat, messages = await whole(chats)
    text = export(chat, messages, "jsonl")
    assert parse(text) == Exported(chat, tuple(messages))
    lines = [json.loads(line) for line in text.strip().split("\n")]
    assert [line["type"] for line in lines] == ["chat", *["message"] * 8]
    gone = [line["message"]["superseded_at"] is not None for line in lines[1:]]
    assert gone == [True] * 3 + [False] * 5


async def test_markdown_has_what_people_see_and_says_what_was_superseded(chats: Chats) -> None:
    await a_rich_chat(chats)
    text = export(*await whole(chats), "markdown")
    assert text.startswith("# A *chat*\n\n## 1. user (superseded by an edit)\n\nfirst\n\n")
    for piece in (
        "## 4. user\n\ninstead\n\n",
        "## 5. acme:one\n\n> I think\n> so\n\n",
        "File: `a.png` (image/png, 2 bytes)",
        "Source: [An example](<https://example.com/>)",
        'Call of `work`:\n\n```\n{"a": 1}\n```',
        "Result of `work` (ok):\n\n```\ndone\n```\n\nFile: `without a name` (text/plain, 3 bytes)",
        "## 8. system\n\nfor people\n",
    ):
        assert piece in text
    assert "for the model" not in text
    assert "`````\nNUL" in text, "a fence has to be longer than those in the text"


async def test_markdown_gives_no_orders_to_a_terminal(chats: Chats) -> None:
    await a_rich_chat(chats)
    chat, messages = await whole(chats)
    danger = Text("before\x1b]0;owned\x07\x9b2J after \u200f")
    stored = structs.replace(
        messages[0], message=structs.replace(messages[0].message, parts=(danger,), model="m\x1b[2J")
    )
    text = export(structs.replace(chat, title="t\x1b[1m"), [stored], "markdown")
    assert "# t\\x1b[1m\n" in text
    assert "before\\x1b]0;owned\\x07\\x9b2J after \u200f" in text
    assert not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 for c in text)


async def test_a_chat_exports_itself(chats: Chats, clock: Clock) -> None:
    world = ports(clock=clock)
    agent = Agent(model=ScriptedModel(["Hello", "Again"]), ports=world)
    async with serving(chats.db, [agent], ports=world, titles=False) as host:
        chat = await host.create("hi")
        await chat.rest()
        await chat.edit(1, "hello")
        await chat.rest()
        exported = parse(await chat.export())
        assert exported.chat == await chat.read()
        assert exported.messages == await chat.messages(superseded=True)
        assert len(exported.messages) == 4
        assert "# A conversation" in await chat.export("markdown")


async def test_an_export_of_format_1_is_read_and_can_be_imported(
    chats: Chats, clock: Clock
) -> None:
    old = (Path(__file__).parents[1] / "stored" / "export_1.jsonl").read_text()
    exported = parse(old)
    assert [stored.message.runtime for stored in exported.messages] == [None] * 4
    world = ports(clock=clock)
    clerk = Agent(name="clerk", model=ScriptedModel([]), ports=world)
    async with serving(chats.db, [clerk], ports=world, titles=False) as host:
        chat = await host.restore(old)
        assert [one.message for one in await chat.messages()] == [
            stored.message for stored in exported.messages
        ]


async def test_times_survive_an_export_and_its_import(chats: Chats, clock: Clock) -> None:
    @tool(effect="pure")
    async def slow() -> str:
        await anyio.sleep(2.5)
        return "done"

    world = ports(clock=clock)
    model = ScriptedModel([[pause(1.5), call("slow")], [pause(0.25), "End."]])
    agent = Agent(model=model, tools=(slow,), ports=world)
    async with serving(chats.db, [agent], ports=world, titles=False) as host:
        chat = await host.create("hi")
        await chat.rest()
        text = await chat.export()
        exported, copy = parse(text), await host.restore(text)
        for messages in (exported.messages, await chat.messages(), await copy.messages()):
            assert [one.message.runtime for one in messages] == [None, 1_500, None, 250]
            (result,) = messages[2].message.results
            assert result.seconds == 2.5
            assert result.finished_at is not None
            assert clock.now() - result.finished_at == 250_000
        shown = await chat.export("markdown")
        assert "scripted:model, 1.5 s\n" in shown
        assert "Result of `slow` (ok, 2.5 s)" in shown


async def test_the_runtime_of_a_message_stored_without_it_is_read_from_its_row(
    chats: Chats,
) -> None:
    """Rows had the runtime before messages did."""
    await chats.running("c1")
    await chats.commit("c1", answer("one"))
    await chats.db.write(
        lambda tx: tx.execute("UPDATE messages SET runtime = 42 WHERE kind = 'answer'")
    )
    assert [one.message.runtime for one in await chats.history("c1")] == [None, 42]


@pytest.mark.parametrize(
    "text", ["", "\n", "{}", "not json", '{"type":"chat","format":9,"chat":{}}', '["a"]']
)
def test_what_is_no_export_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse(text)


async def test_a_broken_line_is_refused(chats: Chats) -> None:
    await chats.idle()
    text = export(*await whole(chats), "jsonl")
    with pytest.raises(FormatError):
        parse(text[:-10])
