"""What the databases refuse by themselves, whoever asks for it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from holdfast.chat.errors import Corrupt
from holdfast.chat.locked_chat import lock
from holdfast.chat.rows import fence_of
from holdfast.chat.transitions import runner, user
from holdfast.store.database import Tx, Violation
from tests.chat.chats import Chats, answer, asks, prompt

CHAT: Final = "UPDATE chats SET {} WHERE id = 'c1'"
IDLE: Final = "UPDATE chats SET {} WHERE id = 'idle'"
MESSAGE: Final = "UPDATE messages SET {} WHERE chat_id = 'c1' AND number = 1"
OLD: Final = "UPDATE messages SET {} WHERE chat_id = 'edited' AND number = 1"
QUEUED: Final = "UPDATE queue SET {} WHERE chat_id = 'c1' AND id = 'q1'"
CALL: Final = "UPDATE tool_calls SET {} WHERE chat_id = 'c1' AND call_id = '%s'"
A_MESSAGE: Final = (
    "INSERT INTO messages (chat_id, number, revision, role, kind, visibility, body, epoch,"
    " created_at) VALUES ({}, 'user', 'prompt', 'both', '{{}}', {}, 0)"
)
A_CALL: Final = (
    "INSERT INTO tool_calls (chat_id, call_id, number, tool, effect, state, epoch, started_at)"
    " VALUES ('c1', 'new', {}, 'work', 'once', 'started', {}, 0)"
)
A_PARTIAL: Final = (
    "INSERT INTO partials (chat_id, epoch, history_version, attempt, seq, body, updated_at)"
    " VALUES ({}, {}, 1, 1, 1, '{{}}', 0)"
)

REFUSED: Final[dict[str, list[str]]] = {
    "a status, an archived flag or a cause that does not exist": [
        CHAT.format("status = 'paused'"),
        CHAT.format("archived = 2"),
        CHAT.format("titled_by = 'nobody'"),
        CHAT.format("compaction = 'whim'"),
    ],
    "a state that a chat cannot be in": [
        CHAT.format("archived = 1"),
        CHAT.format("error = '{}'"),
        CHAT.format("status = 'error', worker_id = NULL"),
        CHAT.format("status = 'idle'"),
        IDLE.format("worker_id = 'w1'"),
        CHAT.format("parent_id = 'idle'"),
        CHAT.format("root_id = 'idle'"),
        CHAT.format("parent_id = 'nowhere', root_id = 'idle'"),
    ],
    "a number that cannot be": [
        CHAT.format("crashes = -1"),
        CHAT.format("attempt = 0"),
        CHAT.format("history_version = snapshot_version + 1"),
        CHAT.format("queue_version = snapshot_version + 1"),
    ],
    "a version that goes back": [
        CHAT.format("epoch = epoch - 1"),
        CHAT.format("snapshot_version = snapshot_version - 1"),
        CHAT.format("history_version = history_version - 1"),
        CHAT.format("queue_version = queue_version - 1"),
        CHAT.format("messages = messages - 1"),
    ],
    "a chat without what every chat has": [
        CHAT.format(f"{column} = NULL")
        for column in ("owner", "agent", "labels", "rules", "root_id", "status", "created_at")
    ],
    "a message of an unknown kind": [
        MESSAGE.format("role = 'ghost'"),
        MESSAGE.format("kind = 'rumour'"),
        MESSAGE.format("visibility = 'nobody'"),
        A_MESSAGE.format("'c1', 0, 1", "NULL"),
        A_MESSAGE.format("'nowhere', 1, 1", "NULL"),
    ],
    "a number twice": [A_MESSAGE.format("'c1', 1, 1", "NULL")],
    "a change of a committed message": [
        MESSAGE.format('body = \'{"role": "user"}\''),
        MESSAGE.format("role = 'system'"),
        MESSAGE.format("kind = 'note'"),
        MESSAGE.format("visibility = 'model'"),
        MESSAGE.format("number = 99"),
        MESSAGE.format("chat_id = 'idle', number = 99"),
        OLD.format("superseded_at = NULL"),
        OLD.format("superseded_at = 1"),
        OLD.format("revision = revision + 1"),
    ],
    "a row of another epoch than the chat's": [
        A_MESSAGE.format("'c1', 99, 1", "0"),
        A_MESSAGE.format("'c1', 99, 1", "2"),
        A_CALL.format("2", "0"),
        A_CALL.format("2", "2"),
        (CALL % "a").format("epoch = 0"),
        (CALL % "a").format("epoch = 2"),
        A_PARTIAL.format("'c1'", "0"),
        A_PARTIAL.format("'c1'", "2"),
    ],
    "two messages in one place of the queue": [
        QUEUED.format("position = 2"),
        QUEUED.format("id = 'q2', position = 9"),
        QUEUED.format("deliver = 'someday'"),
        QUEUED.format("chat_id = 'nowhere'"),
    ],
    "a call in a state that it cannot be in": [
        (CALL % "a").format("effect = 'none'"),
        (CALL % "a").format("state = 'paused'"),
        (CALL % "a").format("action = 'prayer'"),
        (CALL % "a").format("state = 'waiting'"),
        (CALL % "a").format("state = 'approved'"),
        (CALL % "a").format("started_at = NULL"),
        (CALL % "a").format("epoch = NULL"),
        (CALL % "a").format("state = 'finished'"),
        (CALL % "a").format("outcome = 'ok'"),
        (CALL % "a").format("result = '{}'"),
        (CALL % "b").format("asked = NULL"),
        (CALL % "b").format("action = NULL"),
        (CALL % "c").format("approved = NULL"),
        (CALL % "d").format("outcome = NULL"),
        A_CALL.format("99", "1"),
    ],
    "rows of what does not exist": [
        "INSERT INTO awaited VALUES ('c1', 'b', 'nowhere')",
        "INSERT INTO awaited VALUES ('c1', 'nothing', 'idle')",
        A_PARTIAL.format("'nowhere'", "1"),
        "INSERT INTO usage VALUES ('nowhere', 'u', 'title', NULL, 0, 0, 0, 0, 0, NULL, 0)",
        "INSERT INTO usage VALUES ('c1', 'u', 'fun', NULL, 0, 0, 0, 0, 0, NULL, 0)",
        "DELETE FROM messages WHERE chat_id = 'c1' AND number = 2",
    ],
}


async def execute(tx: Tx, sql: str) -> int:
    return await tx.execute(sql)


async def bring(chats: Chats) -> None:
    await chats.idle("idle")
    await chats.running("edited")
    await chats.do(user.edit, "edited", 1, prompt("else"))
    calls: Any = {"a": "started", "b": "waiting", "c": "approved", "d": "recorded"}
    chat = await chats.running("c1", calls=calls, queue=("queue", "queue"))
    assert (chat.epoch, chat.messages) == (1, 2)


@pytest.mark.parametrize("what", REFUSED)
async def test_the_database_itself_refuses(chats: Chats, what: str) -> None:
    await bring(chats)
    before = await chats.everything()
    for statement in REFUSED[what]:
        with pytest.raises(Violation):
            await chats.do(execute, statement)
            pytest.fail(f"accepted: {statement}")
    assert await chats.everything() == before


async def test_the_same_statements_are_accepted_where_they_are_right(chats: Chats) -> None:
    """So that a refusal above is for the reason that is given."""
    await bring(chats)
    fine = [
        CHAT.format("archived = 0, titled_by = 'model', compaction = 'overflow', crashes = 2"),
        CHAT.format("epoch = epoch + 0, history_version = snapshot_version"),
        CHAT.format("parent_id = 'idle', root_id = 'idle'"),
        CHAT.format("parent_id = NULL, root_id = 'c1'"),
        CHAT.format("status = 'error', error = '{}', worker_id = NULL"),
        CHAT.format("status = 'running', error = NULL, worker_id = 'w1'"),
        MESSAGE.format("revision = revision + 1"),
        A_MESSAGE.format("'c1', 3, 1", "1"),
        A_MESSAGE.format("'c1', 4, 1", "NULL"),
        A_CALL.format("2", "1"),
        (CALL % "a").format("epoch = 1, effect = 'pure', action = 'client'"),
        (CALL % "a").format("state = 'finished', outcome = 'ok', result = '{}'"),
        A_PARTIAL.format("'c1'", "1"),
        QUEUED.format("position = 9, deliver = 'steer'"),
        "INSERT INTO awaited VALUES ('c1', 'b', 'idle')",
        "INSERT INTO usage VALUES ('c1', 'u', 'title', NULL, 0, 0, 0, 0, 0, NULL, 0)",
        MESSAGE.format("superseded_at = 1"),
    ]
    for statement in fine:
        assert await chats.do(execute, statement) == 1, statement


async def test_a_runner_that_lost_its_chat_is_refused_by_the_database_too(chats: Chats) -> None:
    """Also when the condition of its statement were forgotten."""
    chat = await chats.running("c1", calls={"a": "started"})
    await chats.do(runner.release, fence_of(chat))
    assert await chats.claim(worker="w2") == ["c1"]

    async def write_without_asking(tx: Tx) -> None:
        locked = await lock(tx, "c1")
        await locked.append([answer("too late", asks("b"))], epoch=chat.epoch)
        await locked.close()

    before = await chats.everything()
    with pytest.raises(Violation):
        await chats.db.write(write_without_asking)
    assert await chats.everything() == before


async def test_a_row_that_was_changed_by_hand_is_named_and_touched_by_nobody(chats: Chats) -> None:
    await chats.running("c1", queue=("queue",))

    async def damage(tx: Tx) -> None:
        await tx.execute("UPDATE queue SET body = '{\"role\":' WHERE chat_id = 'c1'")
        await tx.execute("UPDATE chats SET labels = 'none' WHERE id = 'c1'")

    await chats.db.write(damage)
    before = await chats.everything()
    with pytest.raises(Corrupt) as refusal:
        await chats.send("c1", "hello?")
    assert (refusal.value.chat, refusal.value.where) == ("c1", "labels")
    assert await chats.everything() == before
