"""The hooks of a durable chat know the chat, its owner and its labels."""

from __future__ import annotations

import anyio

from holdfast.chat.transitions import lifecycle
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.kernel.messages import user_message
from holdfast.store.database import Database
from holdfast.testing import Clock, call
from tests.kernel.test_hook_context import HOOKS, Recorder
from tests.worker.workers import living


async def test_every_hook_of_a_durable_chat_knows_the_chat_its_owner_and_its_labels(
    db: Database, clock: Clock
) -> None:
    recorder = Recorder()
    script = [call("work"), "Done."]
    async with living(db, script, [recorder.tool()], clock=clock, **recorder.hooks()) as life:
        new = NewChat(
            id="c1",
            agent=life.agent.name,
            owner="ann",
            labels={"team": "billing"},
            message=user_message("Go."),
        )
        await life.do(lifecycle.create, new)
        await life.rest("c1")
    assert recorder.contexts.keys() == HOOKS
    for context in recorder.contexts.values():
        assert (context.agent, context.chat, context.owner) == (life.agent.name, "c1", "ann")
        assert context.labels == {"team": "billing"}


async def test_an_interrupt_ends_a_hook_that_prepares_a_request(db: Database, clock: Clock) -> None:
    async def forever(context: object) -> list[str]:
        await anyio.sleep_forever()
        return []

    async with living(db, ["Never."], clock=clock, active=forever) as life:
        chat_id = await life.begin()
        await anyio.sleep(2)
        await life.interrupted(chat_id)
        prompt, marker = await life.lines(chat_id)
        assert (prompt, marker.partition(":")[0]) == ("prompt: ?", "marker")
