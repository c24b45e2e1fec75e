"""What a chat was given as context is part of every request, however often it is compacted."""

from __future__ import annotations

from typing import Any

from holdfast.chat.locked_chat import lock
from holdfast.kernel.messages import Message, Text
from holdfast.store.database import Database, Tx
from holdfast.testing import Clock, say
from tests.kernel.long_turns import POLICY, TOOLS, LongTurn, asks_for_summary
from tests.worker.workers import living

CONTEXT = Message("system", (Text("Use tabs."),), "context", "model")


async def give_context(db: Database, chat_id: str) -> None:
    async def change(tx: Tx) -> None:
        locked = await lock(tx, chat_id)
        await locked.append([CONTEXT])
        await locked.close()

    await db.write(change)


def beginnings(requests: Any) -> list[list[Message]]:
    """The messages of each request for an answer up to its summary, or up to its third."""
    found = []
    for request in requests:
        if not asks_for_summary(request):
            kinds = [message.kind for message in request.messages]
            until = kinds.index("checkpoint") if "checkpoint" in kinds else 3
            found.append(list(request.messages[:until]))
    return found


async def test_context_of_a_durable_chat_survives_compactions_and_another_worker(
    db: Database, clock: Clock
) -> None:
    async with living(db, [say("Hello.")], TOOLS, clock=clock, policy=POLICY) as life:
        chat_id = await life.begin("Hello?")
        await life.rest(chat_id)
        await give_context(db, chat_id)
    for seed in (1, 2):
        turn = LongTurn(100)
        model = turn.model()
        async with living(db, model, TOOLS, clock=clock, seed=seed, policy=POLICY) as life:
            await life.send(chat_id, "go")
            chat = await life.rest(chat_id, 10_000)
            assert chat.error is None
        assert turn.summaries > 3
        for beginning in beginnings(model.requests):
            assert CONTEXT in beginning
        assert beginnings(model.requests)[-1] == [CONTEXT]
    first = beginnings(model.requests)[0]
    assert first == [CONTEXT]  # also the first request of the worker that took the chat over
