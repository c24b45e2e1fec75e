"""The turn of a chat: stop it, try it again, have it summarized, take another way from here."""

from __future__ import annotations

from holdfast.chat.listing import Shown, shown
from holdfast.chat.view import Snapshot
from holdfast.server.given import Given, Id, Number, Said, Title, prompt_of
from holdfast.server.operation import Call, operation


class ForkChat(Given, frozen=True):
    number: Number
    """The last message that is taken along; with a prompt, the one that it stands in for."""
    prompt: Said | None = None
    title: Title | None = None
    share_workspace: bool = False


@operation("POST", "/chats/{chat}/fork", "A new chat with the history up to a message", status=201)
async def fork_chat(call: Call, chat: Id, body: ForkChat) -> Shown:
    held = await call.server.host.chat(chat)
    made = await held.fork(
        body.number,
        None if body.prompt is None else await prompt_of(call, body.prompt),
        title=body.title,
        share_workspace=body.share_workspace,
        key=call.key,
    )
    return shown(made.first)


@operation("POST", "/chats/{chat}/interrupt", "Stop the turn and keep what it produced", status=202)
async def interrupt_chat(call: Call, chat: Id) -> Snapshot:
    return await (await call.server.host.chat(chat)).interrupt(key=call.key)


@operation("POST", "/chats/{chat}/retry", "Try again after an error", status=202)
async def retry_chat(call: Call, chat: Id) -> Snapshot:
    return await (await call.server.host.chat(chat)).retry(key=call.key)


@operation("POST", "/chats/{chat}/compact", "Have the conversation summarized now", status=202)
async def compact_chat(call: Call, chat: Id) -> Snapshot:
    return await (await call.server.host.chat(chat)).compact(key=call.key)
