"""What has to be right when everything is at rest, however it came to that."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from holdfast.chat import doctor, queries
from holdfast.chat.rows import SELECT_CHAT, ChatRow, chat_of
from holdfast.kernel.history import History
from holdfast.kernel.messages import Message, ToolResult, decode, user_message
from holdfast.kernel.model import Request
from holdfast.kernel.model_context import Trim
from holdfast.kernel.policy import ContextLimits
from holdfast.store.database import Database, Tx
from holdfast.testing import say
from tests.providers.makers import PROTOCOLS, talk
from tests.worker.crash.world import ONCE, RECORDED, World

TRIM: Final = Trim(ContextLimits().trim_over, ContextLimits().trim_to)
LONG: Final = 60
OURS: Final = re.compile(r"\d+-id-\d+")
"""An id that a process made up: which process it was depends on what happened."""
ON_ITS_WAY: Final = 500
"""Questions to the database in which a notice that another process sent arrives, or it is lost."""
_acceptable: Final[set[tuple[str, ...]]] = set()
"""Histories that every provider has accepted."""


class Proof(Struct, frozen=True):
    """What was found when everything was right."""

    transcript: Sequence[str]
    free: int
    """Answers that were to cost something and are not counted: broken off, or lost in a crash."""


async def prove(db: Database, world: World) -> Proof:
    """Check everything."""
    assert not world.wrong, "\n".join(world.wrong)
    await doctor.check(db)
    transcript = []
    results: dict[str, ToolResult] = {}
    chats = await db.read(_chats)
    await _hear(db, world, chats)
    for chat in chats:
        _check_rest(chat)
        _check_versions(chat, world, db.exclusive)
        live = await db.read(partial(_live, chat.id))
        await _check_providers(live)
        transcript += [_end(chat), *map(in_short, live)]
        results |= {one.call_id: one for message in live for one in message.results}
    _check_effects(world, results, await db.read(_asked))
    await _check_messages(db, world)
    return Proof(transcript, world.reported - await _check_usage(db))


def is_one_of(transcript: Sequence[str], ends: Sequence[Sequence[str]]) -> bool:
    """Whether a transcript is as one of these says; their lines are regular expressions."""
    return any(
        len(end) == len(transcript) and all(map(re.fullmatch, end, transcript)) for end in ends
    )


async def _chats(tx: Tx) -> list[ChatRow]:
    rows = await tx.fetch(f"{SELECT_CHAT} ORDER BY depth, created_at, id")
    return [chat_of(row) for row in rows]


async def _live(chat_id: str, tx: Tx) -> list[Message]:
    return [stored.message for stored in await queries.read_history(tx, chat_id)]


async def _asked(tx: Tx) -> frozenset[str]:
    """Every call that was ever committed, also where an edit has superseded it."""
    rows = await tx.fetch("SELECT body FROM messages WHERE kind = 'answer'")
    return frozenset(call.id for row in rows for call in decode(row[0], Message).calls)


def _end(chat: ChatRow) -> str:
    reason = chat.outcome.reason if chat.outcome is not None else "-"
    return f"= {chat.status} {reason}{f' {chat.error.kind}' if chat.error else ''}"


def in_short(message: Message) -> str:
    """One line: what it is, what it says, what it asks for, what came of that."""
    calls = [f"→{call.id}" for call in message.calls]
    said = message.text.partition("\n")[0].strip("[]")
    if message.kind == "note":
        said = said.partition(" because")[0].partition(" as asked")[0]
    if len(said) > LONG:
        said = f"{said[:LONG]}…"
    cut = ["…"] if message.finish == "interrupted" else []
    results = [_result(one) for one in message.results]
    line = " ".join(filter(None, [message.kind, said, *cut, *calls, *results]))
    return OURS.sub("new", line)


def _result(one: ToolResult) -> str:
    maybe = " maybe" if _maybe(one) else ""
    said = f" {one.text}" if one.outcome == "ok" else ""
    return f"<{one.call_id} {one.outcome}{maybe}{said}>"


def _check_rest(chat: ChatRow) -> None:
    """17: nobody has anything to do for it, and nothing of what went wrong is left."""
    assert chat.worker_id is None, f"{chat.id} rests and belongs to {chat.worker_id}"
    assert (chat.crashes, chat.retry, chat.retry_at, chat.compaction) == (0, None, None, None)


async def _hear(db: Database, world: World, chats: Sequence[ChatRow]) -> None:
    """Wait for the newest notices: from one process to another they come after the rows."""
    newest = {(chat.id, chat.snapshot_version) for chat in chats}
    for _ in range(ON_ITS_WAY):
        if db.exclusive or newest.issubset(world.versions):
            return
        await db.read(_chats)


def _check_versions(chat: ChatRow, world: World, alone: bool) -> None:
    """6: each transaction makes one version, and tells of it."""
    told = {version for id, version in world.versions if id == chat.id}
    made = set(range(1, chat.snapshot_version + 1))
    if not alone:  # from one process to another only the newest of a moment is told
        made -= made - told - {chat.snapshot_version}
    assert told == made, (chat.id, sorted(told), chat.snapshot_version)


def _check_effects(world: World, results: Mapping[str, ToolResult], asked: frozenset[str]) -> None:
    """12: what may run once ran once, and what came of it is what the model was told."""
    times = Counter(call_id for name, call_id in world.effects if name in RECORDED)
    for call_id in times:
        assert call_id in asked, f"{call_id} ran, and no message asks for it"
    for name, call_id in world.effects:
        assert name not in ONCE or times[call_id] == 1, f"{call_id} ran {times[call_id]} times"
    for call_id, made in results.items():
        if made.tool in RECORDED and not _maybe(made):
            ran = made.outcome == "ok"
            assert bool(times[call_id]) == ran, f"{call_id} ran {times[call_id]} times: {made}"


def _maybe(made: ToolResult) -> bool:
    """The model was told that nobody knows."""
    return "taken effect" in made.text


async def _check_messages(db: Database, world: World) -> None:
    """10: what was accepted is there, once, unless the person took it back."""
    rows = await db.read(
        lambda tx: tx.fetch("SELECT chat_id, body FROM messages WHERE kind = 'prompt'")
    )
    there = Counter((chat, decode(body, Message).text) for chat, body in rows)
    for said, times in world.accepted.items():
        if said not in world.taken_back:
            assert there[said] == times, f"{said} was accepted {times} times: {there}"
    queued = await db.read(lambda tx: tx.fetch("SELECT id FROM queue"))
    assert not queued


async def _check_usage(db: Database) -> int:
    """19: each attempt reports a number of its own; every answer is counted, and none twice."""
    answers = await db.read(
        lambda tx: tx.fetch(
            "SELECT input, body FROM messages WHERE kind = 'answer' AND epoch IS NOT NULL"
        )
    )
    others = await db.read(lambda tx: tx.fetch("SELECT input FROM usage"))
    for tokens, body in answers:
        answer = decode(body, Message)
        whole = answer.finish in ("stop", "tool_calls")
        assert not whole or tokens is not None, f"{answer} costs nothing"
    counted = Counter(row[0] for row in [*answers, *others] if row[0] is not None)
    assert not [tokens for tokens, times in counted.items() if times > 1], counted
    return len(counted)


async def _check_providers(history: Sequence[Message]) -> None:
    """4: whoever is asked to go on with it accepts it."""
    known = tuple(map(in_short, history))
    if known in _acceptable:
        return
    goes_on = History([*history, user_message("Go on.")], TRIM)
    for protocol in PROTOCOLS:
        fake, model = talk(protocol, [say("Yes.")])
        async for _ in model.stream(Request(messages=goes_on.to_send())):
            pass
        assert not fake.problems, (protocol, fake.problems)
    _acceptable.add(known)
