"""Chats that a person broke by hand, and what the doctor says about each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from msgspec import structs

from holdfast.chat.rows import Charge, fence_of
from holdfast.chat.transitions import runner, user
from holdfast.chat.transitions.claims import MAX_CRASHES
from holdfast.kernel.messages import Message, Text, Usage, encode, results_message
from tests.chat.chats import FAILURE, Chats, answer, asks, made, prompt, row_of_call
from tests.kernel import histories

Given = Callable[[Chats], Awaitable[Any]]


class Broken(NamedTuple):
    """What a chat was, what a person did to it, and how everything begins that the doctor says."""

    given: Given
    by_hand: tuple[str, ...]
    said: tuple[str, ...]


# --- Chats that nothing is wrong with ---


async def worked(chats: Chats, id: str = "c1") -> None:
    """1 prompt, 2 call a, 3 its result, 4 answer: the chat is idle."""
    await chats.running(id, calls={"a": "started"})
    fence = fence_of(await chats.row(id))
    await chats.do(runner.commit_step, fence, runner.Outcome(results=(made("a"),)))
    used = Usage(input=10, output=5, reasoning=2, cache_read=3, cache_write=4, cost=0.1)
    await chats.commit(id, answer("here you are", usage=used))
    await chats.finish(id)


async def asking(chats: Chats, id: str = "c1") -> None:
    """1 prompt, 2 calls a and b: both wait for an approval, one of them for ten seconds."""
    await chats.requires_action(id, calls={"a": 10, "b": None}, action="approval")


async def waiting_for_child(chats: Chats, id: str = "c1") -> None:
    """1 prompt, 2 call spawn, 3 its result, 4 call wait: for the chat `child`, which runs."""
    await chats.running(id)
    await chats.child(id, "child")
    await chats.commit(id, answer("I wait", asks("wait")))
    chat = await chats.row(id)
    rows = [row_of_call(chat, "wait", "waiting", action="child")]
    await chats.do(runner.require_action, fence_of(chat), rows, {"wait": ["child"]})


async def idle(chats: Chats) -> None:
    """1 prompt, 2 answer."""
    await chats.idle()


async def runs(chats: Chats) -> None:
    await chats.running()


async def started(chats: Chats) -> None:
    """1 prompt, 2 calls a and b: one is started, of the other nothing is known."""
    await chats.running(calls={"a": "started", "b": "open"})


async def approved(chats: Chats) -> None:
    await chats.running(calls={"a": "approved"})


async def recorded(chats: Chats) -> None:
    await chats.running(calls={"a": "recorded", "b": "started"})


async def failed(chats: Chats) -> None:
    await chats.error()


async def queued(chats: Chats) -> None:
    await chats.running(queue=["queue", "steer"])


async def retrying(chats: Chats) -> None:
    chat = await chats.running()
    await chats.do(runner.record_retry, fence_of(chat), FAILURE, 3, 60_000_000)


async def partial_answer(chats: Chats) -> None:
    chat = await chats.running()
    await chats.do(runner.write_partial, fence_of(chat), 1, answer("so fa"))


async def edited(chats: Chats) -> None:
    """1 to 4 are superseded, 5 is the prompt that stands for them; call a is of 2."""
    await worked(chats)
    await chats.do(user.edit, "c1", 1, prompt("I meant this"))


async def edited_and_gone_on(chats: Chats) -> None:
    """... and 6 has call b."""
    await edited(chats)
    await chats.claim()
    await chats.commit("c1", answer("so", asks("b")))


async def long(chats: Chats) -> None:
    """1 prompt, 2 answer, 3 prompt, 4 answer."""
    await chats.idle()
    await chats.send("c1", "and this?")
    await chats.rest("c1")


async def compacted(chats: Chats) -> None:
    """1 prompt, 2 answer, 3 prompt, 4 answer, 5 a checkpoint for 1 and 2."""
    await long(chats)
    await chats.do(user.compact, "c1")
    await chats.claim()
    await chats.commit("c1", histories.checkpoint(2))
    await chats.finish("c1")


async def spawned(chats: Chats) -> None:
    """The chat is the child of another, which has come to rest as well."""
    await chats.running("parent")
    await chats.child("parent", "c1")
    await chats.rest("c1")
    await chats.rest("parent")


async def charged(chats: Chats) -> None:
    await chats.running()
    charge = Charge("summary of 1", "summary", Usage(input=7))
    fence = fence_of(await chats.row())
    await chats.do(runner.commit_step, fence, runner.Outcome(charges=(charge,)))


# --- What is done to them ---


def put(number: int, message: Message) -> str:
    """A message is another one, in its columns too."""
    body = encode(message).decode().replace("'", "''")
    return (
        f"UPDATE messages SET body = '{body}', role = '{message.role}', kind = '{message.kind}', "
        f"visibility = '{message.visibility}' WHERE number = {number}"
    )


UNCHARGED: Final = (
    "UPDATE messages SET input = NULL, output = NULL, reasoning = NULL, cache_read = NULL, "
    "cache_write = NULL, cost = NULL WHERE number = 4"
)


def chat(changes: str) -> tuple[str, ...]:
    return (f"UPDATE chats SET {changes} WHERE id = 'c1'",)


def message(number: int, changes: str) -> tuple[str, ...]:
    return (f"UPDATE messages SET {changes} WHERE chat_id = 'c1' AND number = {number}",)


def call(changes: str) -> tuple[str, ...]:
    return (f"UPDATE tool_calls SET {changes} WHERE chat_id = 'c1' AND call_id = 'a'",)


BROKEN: Final[dict[str, dict[str, Broken]]] = {
    "1: numbers, columns, edits": {
        "a message is gone": Broken(
            long,
            ("DELETE FROM messages WHERE number = 2",),
            ("invariant 1: message 3: the one before it has the number 1",),
        ),
        "the last message is gone": Broken(
            idle,
            ("DELETE FROM messages WHERE number = 2",),
            (
                "invariant 1: messages: 2 are counted, and the last has number 1",
                "invariant 6: history_version: it is 3 of 4, and the last change",
            ),
        ),
        "too many are counted": Broken(
            idle,
            chat("messages = 1000000000000"),
            ("invariant 1: messages: 1000000000000 are counted, and the last has number 2",),
        ),
        "a role": Broken(
            idle,
            message(2, "role = 'system'"),
            ("invariant 1: message 2: its role is system, and that of its body is assistant",),
        ),
        "a kind": Broken(
            idle,
            message(2, "kind = 'note'"),
            ("invariant 1: message 2: its kind is note, and that of its body is answer",),
        ),
        "a visibility": Broken(
            idle,
            message(2, "visibility = 'user'"),
            ("invariant 1: message 2: its visibility is user, and that of its body is both",),
        ),
        "a role that there is not": Broken(
            idle,
            message(2, "role = 'ghost'"),
            ("invariant 1: message 2: it has an invalid value: Invalid enum value",),
        ),
        "a body that is cut": Broken(
            idle,
            message(2, 'body = \'{"role":"assis\''),
            ("invariant 1: message 2: its body cannot be read: this is not JSON written",),
        ),
        "a body of another kind": Broken(
            idle,
            message(2, "body = '[]'"),
            ("invariant 1: message 2: its body cannot be read: this is not JSON written",),
        ),
        "an answer is superseded": Broken(
            idle,
            message(2, "superseded_at = 1"),
            (
                "invariant 1: message 2: it is superseded from here on, and is answer",
                "invariant 1: message 2: it is superseded, and nothing stands in its place",
            ),
        ),
        "an answer in the place of what was edited": Broken(
            edited,
            message(5, "kind = 'answer'"),
            (
                "invariant 1: message 5: its kind is answer, and that of its body is prompt",
                "invariant 1: message 5: it stands for what is superseded, and is not a prompt but",
            ),
        ),
    },
    "2, 3, 4: calls and results": {
        "a result is gone": Broken(
            worked,
            (put(3, histories.marker()),),
            ("invariant 2: message 2: call a has no result before message 4",),
        ),
        "a result of nothing": Broken(
            worked,
            (put(2, answer("no calls")),),
            (
                "invariant 2: message 3: no message asks for call a, and this is a result of it",
                "invariant 12: call a: message 2 does not ask for it",
            ),
        ),
        "a result too late": Broken(
            worked,
            (put(3, prompt("wait")), put(4, results_message([made("a")])), UNCHARGED),
            (
                "invariant 2: message 2: call a has no result before message 3",
                "invariant 2: message 4: the result of call a comes too late",
            ),
        ),
        "two results": Broken(
            worked,
            (put(3, results_message([made("a"), made("a")])),),
            ("invariant 2: message 3: call a has a result already",),
        ),
        "an open call in an idle chat": Broken(
            idle,
            (put(2, answer("wait", asks("a"))),),
            ("invariant 2: message 2: call a has no result, and the chat is idle",),
        ),
        "a call twice": Broken(
            worked,
            (put(4, answer("again", asks("a"))), UNCHARGED),
            (
                "invariant 3: message 4: call a has the id of one in message 2",
                "invariant 2: message 4: call a has no result, and the chat is idle",
            ),
        ),
        "a call of an edited message again": Broken(
            edited_and_gone_on,
            (put(6, answer("again", asks("a"))),),
            ("invariant 3: call a: message 6 has a call of this id, and so has message 2",),
        ),
        "an answer of the user": Broken(
            idle,
            (put(2, Message("user", (Text("I am the model"),), "answer")),),
            ("invariant 4: message 2: it is answer, of the assistant, and its role is user",),
        ),
        "a note of the model": Broken(
            idle,
            (put(2, Message("assistant", (Text("hm"),), "note")),),
            ("invariant 4: message 2: it is note, of the user or system, and its role is",),
        ),
        "a call in a prompt": Broken(
            idle,
            (put(1, Message("user", (asks("a"),), "prompt")),),
            ("invariant 4: message 1: only answers have calls, and only messages of results",),
        ),
        "a result in an answer": Broken(
            idle,
            (put(2, Message("assistant", (Text("so"), made("a")), "answer")),),
            ("invariant 4: message 2: an answer has results that are not its provider's",),
        ),
        "a text among results": Broken(
            worked,
            (put(3, Message("tool", (made("a"), Text("so")), "results")),),
            ("invariant 4: message 3: a message of results has something else in it",),
        ),
    },
    "6: versions": {
        "a version of the history": Broken(
            idle,
            chat("history_version = 1"),
            ("invariant 6: history_version: it is 1 of 4, and the last change of a message was 3",),
        ),
        "a version of the queue": Broken(
            idle, chat("queue_version = 99"), ("invariant 6: queue_version: it is 99 of 4",)
        ),
        "a version of nothing": Broken(
            idle,
            chat("snapshot_version = 0"),
            (
                "invariant 6: snapshot_version: it is 0, and begins at 1",
                "invariant 6: history_version: it is 3 of 0, and the last change",
            ),
        ),
        "a revision from the future": Broken(
            idle,
            message(2, "revision = 99"),
            ("invariant 6: history_version: it is 3 of 4, and the last change of a message",),
        ),
        "a revision that goes back": Broken(
            long,
            message(3, "revision = 1"),
            ("invariant 6: message 3: its revision is 1, and one before it has 3",),
        ),
        "a queue that never changed": Broken(
            queued,
            chat("queue_version = 0"),
            ("invariant 6: queue_version: 2 messages wait, and it never changed",),
        ),
    },
    "7: checkpoints": {
        "more is covered than there is": Broken(
            compacted,
            (put(5, histories.checkpoint(9)),),
            ("invariant 7: message 5: it covers 9 messages and shortens 9, and there are 4",),
        ),
        "less than nothing is covered": Broken(
            compacted,
            (put(5, histories.checkpoint(-1)),),
            ("invariant 7: message 5: it covers -1 messages and shortens -1, and there are 4",),
        ),
        "the newest prompt is covered": Broken(
            compacted,
            (put(5, histories.checkpoint(4)),),
            ("invariant 7: message 5: it covers the newest prompt, message 3, and does not",),
        ),
        "what is kept is no prompt": Broken(
            compacted,
            (put(5, histories.checkpoint(2, pinned=1)),),
            ("invariant 7: message 5: it keeps the message at 1, which is not a prompt that",),
        ),
        "what is kept is not context": Broken(
            compacted,
            (put(5, histories.checkpoint(2, context=(1,))),),
            ("invariant 7: message 5: it keeps the message at 1, which is not context that",),
        ),
        "an unanswered prompt is covered": Broken(
            compacted,
            (put(4, prompt("and that?")), put(5, histories.checkpoint(3, pinned=0))),
            ("invariant 7: message 5: it covers an unanswered prompt, message 3, and does not",),
        ),
        "an open call is covered": Broken(
            compacted,
            (
                put(2, answer("wait", asks("a"))),
                put(3, results_message([made("a")])),
                put(5, histories.checkpoint(2, pinned=0)),
            ),
            ("invariant 7: message 5: it covers a call without its result",),
        ),
    },
    "8: the row of the chat": {
        "a status that there is not": Broken(
            idle,
            chat("status = 'asleep'"),
            ("invariant 8: row: it has an invalid value: Invalid enum value 'asleep' -",),
        ),
        "labels that are cut": Broken(
            idle,
            chat("labels = '{'"),
            ("invariant 8: row: its labels cannot be read: this is not JSON written",),
        ),
        "rules of another kind": Broken(
            idle,
            chat("rules = '[1]'"),
            ("invariant 8: row: its rules cannot be read: this is not JSON written",),
        ),
        "an error that nobody can read": Broken(
            failed,
            chat("error = 'it broke'"),
            ("invariant 8: row: its error cannot be read: this is not JSON written",),
        ),
        "an error is gone": Broken(
            failed, chat("error = NULL"), ("invariant 8: error: it has no error, and is error",)
        ),
        "archived by half": Broken(
            idle,
            chat("archived = 2"),
            ("invariant 8: row: it has an invalid value: Expected `bool`, got `int` - at",),
        ),
        "archived while it runs": Broken(
            runs, chat("archived = 1"), ("invariant 8: status: it is archived, and is running",)
        ),
        "a retry of an idle chat": Broken(
            retrying,
            chat("status = 'idle', worker_id = NULL, runnable_since = NULL"),
            ("invariant 8: retry: a retry is shown, and it is idle",),
        ),
        "a wait for no retry": Broken(
            retrying,
            chat("retry = NULL"),
            ("invariant 8: retry_at: it waits for an attempt, and no retry is shown",),
        ),
        "a compaction of an idle chat": Broken(
            idle,
            chat("compaction = 'person'"),
            ("invariant 8: compaction: a compaction is asked for, and it is idle",),
        ),
        "a depth": Broken(
            spawned, chat("depth = 3"), ("invariant 8: depth: it is 3, and its parent's is 0",)
        ),
        "a root": Broken(
            spawned,
            chat("root_id = 'c1'"),
            ("invariant 8: root_id: it is c1, and its parent's is parent",),
        ),
        "a child without a parent": Broken(
            spawned,
            chat("parent_id = NULL"),
            ("invariant 8: parent_id: it has no parent, and a root, a depth or a call as if",),
        ),
        "a parent that is not there": Broken(
            spawned,
            chat("parent_id = 'nobody'"),
            ("invariant 8: parent_id: there is no chat nobody",),
        ),
        "a child that nobody made": Broken(
            spawned,
            chat("spawned_by = NULL"),
            ("invariant 8: spawned_by: it has a parent, and no call that made it",),
        ),
        "a parent that is archived alone": Broken(
            spawned,
            ("UPDATE chats SET archived = 1 WHERE id = 'parent'",),
            ("invariant 8: archived: its parent is archived, and it is not",),
        ),
        "a child of somebody else": Broken(
            spawned,
            chat("owner = 'eve'"),
            ("invariant 20: owner: its owner is not its parent's",),
        ),
        "a chat that is its own parent": Broken(
            idle,
            chat("parent_id = 'c1', spawned_by = 'a', depth = 1"),
            ("invariant 8: depth: it is 1, and its parent's is 1",),
        ),
    },
    "10: the queue": {
        "an idle chat with a queue": Broken(
            queued,
            chat("status = 'idle', worker_id = NULL, runnable_since = NULL"),
            ("invariant 10: queue: 2 messages wait, and it is idle",),
        ),
        "a queued message that is cut": Broken(
            queued,
            ("UPDATE queue SET body = '{' WHERE id = 'q1'",),
            ("invariant 10: queued message q1: its body cannot be read: this is not JSON written",),
        ),
        "a queued answer": Broken(
            queued,
            (f"UPDATE queue SET body = '{encode(answer('first')).decode()}' WHERE id = 'q1'",),
            ("invariant 10: queued message q1: it is not a prompt but answer",),
        ),
        "a queue that is too long": Broken(
            queued,
            (
                "INSERT INTO queue (chat_id, id, position, deliver, body, created_at) "
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) "
                "SELECT 'c1', 'x' || i, 100 + i, 'queue', body, 0 FROM n, queue WHERE id = 'q1'",
            ),
            ("invariant 10: queue: 52 messages wait, and 50 may",),
        ),
    },
    "11: epochs and owners": {
        "an idle chat with a worker": Broken(
            idle,
            chat("worker_id = 'w1'"),
            ("invariant 11: worker_id: a worker has it, and it is idle",),
        ),
        "a worker without an epoch": Broken(
            runs, chat("epoch = 0"), ("invariant 11: epoch: a worker has it, and its epoch is 0",)
        ),
        "a message of the next epoch": Broken(
            idle,
            message(2, "epoch = 9"),
            ("invariant 11: message 2: its epoch is 9, after 0 and with 1 now",),
        ),
        "a message of an epoch that was over": Broken(
            long,
            message(4, "epoch = 0"),
            ("invariant 11: message 4: its epoch is 0, after 1 and with 2 now",),
        ),
        "a call of the next epoch": Broken(
            started,
            call("epoch = 9"),
            ("invariant 11: call a: its epoch is 9, and the chat's is 1",),
        ),
        "a partial answer of the next epoch": Broken(
            partial_answer,
            ("UPDATE partials SET epoch = 9",),
            ("invariant 11: partial answer: its epoch is 9, and the chat's is 1",),
        ),
    },
    "12: the journal": {
        "a call of another message": Broken(
            started, call("number = 1"), ("invariant 12: call a: message 1 does not ask for it",)
        ),
        "a started call by nobody": Broken(
            started,
            call("epoch = NULL"),
            ("invariant 12: call a: it is started, and its time or epoch is missing",),
        ),
        "a call over without a result": Broken(
            started,
            call("state = 'finished', outcome = 'ok'"),
            ("invariant 12: call a: it is over, and has no result, here or in the history",),
        ),
        "a call that is not over has an outcome": Broken(
            started,
            call("outcome = 'ok'"),
            ("invariant 12: call a: it is started, and its outcome is ok",),
        ),
        "a call of the past is started": Broken(
            worked,
            call("state = 'started', outcome = NULL"),
            ("invariant 12: call a: it is started, and the history has gone past it",),
        ),
        "a call has another outcome than the history": Broken(
            worked,
            call("outcome = 'failed'"),
            ("invariant 12: call a: its outcome is failed, and in the history it is ok",),
        ),
        "a call of the past has a result": Broken(
            worked,
            call(f"result = '{encode(made('a')).decode()}'"),
            ("invariant 12: call a: it is finished with a result, and the history has gone",),
        ),
        "a result of another call": Broken(
            recorded,
            call(f"result = '{encode(made('b')).decode()}'"),
            ("invariant 12: call a: it has the result of call b, which was ok",),
        ),
        "a result that is cut": Broken(
            recorded,
            call("result = '{'"),
            ("invariant 12: call a: its result cannot be read: this is not JSON written",),
        ),
        "a result of a call that runs": Broken(
            recorded,
            call("state = 'started', outcome = NULL"),
            ("invariant 12: call a: it is started, and has a result",),
        ),
        "an effect that there is not": Broken(
            started,
            call("effect = 'maybe'"),
            ("invariant 12: call a: it has an invalid value: Invalid enum value 'maybe'",),
        ),
        "a call of a message that was edited": Broken(
            edited,
            call("state = 'started', outcome = NULL"),
            ("invariant 12: call a: it is started, and its message is superseded",),
        ),
        "a call of a message for people": Broken(
            started,
            (put(2, structs.replace(answer("hm", asks("a")), visibility="user")),),
            ("invariant 12: call a: models do not see message 2, which asks for it",),
        ),
        "a child that is awaited by a call that is over": Broken(
            waiting_for_child,
            ("UPDATE tool_calls SET state = 'finished', outcome = 'ok' WHERE call_id = 'wait'",),
            (
                "invariant 12: call wait: it is over, and has no result, here or in the history",
                "invariant 13: call wait: it is open and does not wait, and the chat does",
                "invariant 12: call wait: it waits for chat child, and is over",
            ),
        ),
        "a child that is awaited by an approval": Broken(
            waiting_for_child,
            ("UPDATE tool_calls SET action = 'answer' WHERE call_id = 'wait'",),
            (
                "invariant 13: call wait: it waits for answer, and asks for child of wait",
                "invariant 12: call wait: it is to wait for chat child, and is not a call that",
            ),
        ),
        "a child of another family is awaited": Broken(
            waiting_for_child,
            ("UPDATE awaited SET child_id = 'elsewhere'",),
            ("invariant 12: call wait: it waits for chat elsewhere, which is of another family",),
        ),
    },
    "13: actions and approvals": {
        "a call that waits for nobody": Broken(
            asking,
            call("asked = NULL, action = NULL"),
            ("invariant 13: call a: it waits, and has no action",),
        ),
        "an approval of nothing": Broken(
            approved,
            call("approved = NULL"),
            ("invariant 13: call a: it is approved, and the approval is missing",),
        ),
        "an approval of other arguments": Broken(
            approved,
            call('approved = \'{"digest":"of something else"}\''),
            ("invariant 13: call a: it is approved for other arguments than were shown",),
        ),
        "other arguments are shown": Broken(
            asking,
            call(
                'asked = replace(asked, \'"arguments":"{}","digest"\', '
                '\'"arguments":"{\\"force\\":true}","digest"\')'
            ),
            ("invariant 13: call a: the arguments that are shown are not those that it is",),
        ),
        "a question about another call": Broken(
            asking,
            call("action = 'client'"),
            ("invariant 13: call a: it waits for client, and asks for approval of a",),
        ),
        "a call that runs while the chat waits": Broken(
            asking,
            call("state = 'started', started_at = 1"),
            (
                "invariant 13: call a: it is open and does not wait, and the chat does",
                "invariant 13: deadline: it is 1767225610000000, and the first of its actions'",
            ),
        ),
        "a call of which nothing is known while the chat waits": Broken(
            asking,
            ("DELETE FROM tool_calls WHERE call_id = 'b'",),
            ("invariant 13: call b: it is open and does not wait, and the chat does",),
        ),
        "a chat that waits for nothing": Broken(
            idle,
            chat("status = 'requires_action'"),
            ("invariant 13: status: it requires action, and no call is open",),
        ),
        "a deadline": Broken(
            asking,
            chat("deadline = deadline + 1"),
            ("invariant 13: deadline: it is 1767225610000001, and the first of its actions'",),
        ),
        "a deadline of a chat that runs": Broken(
            runs,
            chat("deadline = 1"),
            ("invariant 13: deadline: it is 1, and the first of its actions' is None",),
        ),
        "an approval in an archived chat": Broken(
            approved,
            chat(
                "status = 'error', archived = 1, worker_id = NULL, runnable_since = NULL, "
                'error = \'{"kind":"internal","message":"It broke."}\''
            ),
            ("invariant 13: call a: it is approved, and the chat is archived",),
        ),
        "an approval of a message that was edited": Broken(
            edited,
            call("state = 'waiting', outcome = NULL"),
            (
                "invariant 13: call a: it waits, and has no action",
                "invariant 13: call a: it is waiting, and its message is superseded",
            ),
        ),
    },
    "14: partial answers": {
        "a partial answer of an idle chat": Broken(
            partial_answer,
            chat("status = 'idle', worker_id = NULL, runnable_since = NULL"),
            ("invariant 14: partial answer: it is kept, and the chat is idle",),
        ),
        "a partial answer to what was not asked": Broken(
            partial_answer,
            ("UPDATE partials SET history_version = 9",),
            ("invariant 14: partial answer: it answers version 9 of the history, and that is",),
        ),
        "a partial answer that is cut": Broken(
            partial_answer,
            ("UPDATE partials SET body = '{'",),
            ("invariant 14: partial answer: its body cannot be read: this is not",),
        ),
    },
    "17, 18: who drives it": {
        "a running chat that does not wait": Broken(
            runs,
            chat("runnable_since = NULL"),
            ("invariant 17: runnable_since: it is running, and does not wait for a worker",),
        ),
        "an idle chat that waits": Broken(
            idle,
            chat("runnable_since = 1"),
            ("invariant 17: runnable_since: it waits for a worker, and is idle",),
        ),
        "a chat that should be parked": Broken(
            runs,
            chat(f"crashes = {MAX_CRASHES}"),
            ("invariant 18: crashes: there are 3, and at 3 a chat is parked",),
        ),
    },
    "19: usage": {
        "usage is gone": Broken(
            worked, (UNCHARGED,), ("invariant 19: message 4: its usage is not what its body says",)
        ),
        "usage is another": Broken(
            worked,
            message(4, "output = 6"),
            ("invariant 19: message 4: its usage is not what its body says",),
        ),
        "usage from nowhere": Broken(
            worked,
            message(2, "input = 1"),
            ("invariant 19: message 2: its usage is not what its body says",),
        ),
        "a debt": Broken(
            charged,
            ("UPDATE usage SET input = -7",),
            ("invariant 19: usage summary of 1: its usage is negative",),
        ),
        "a purpose that there is not": Broken(
            charged,
            ("UPDATE usage SET purpose = 'fun'",),
            ("invariant 19: usage summary of 1: it has an invalid value: Invalid enum",),
        ),
    },
}
"""By the invariants that do not hold."""
