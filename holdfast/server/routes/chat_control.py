"""Turns of a chat: interrupt, retry, resume, compact, retitle and fork."""

from __future__ import annotations

from holdfast.chat.handle import Chat
from holdfast.chat.listing import ReaderChat, for_reader
from holdfast.chat.snapshots import Snapshot
from holdfast.server.operation import ApiCall, operation
from holdfast.server.shared_request_types import (
    MessageNumber,
    PromptBody,
    RequestStruct,
    Title,
    prompt_of,
)


class ForkChat(RequestStruct, frozen=True):
    """A fork to create."""

    number: MessageNumber
    """Number of the last message copied; with a prompt, of the message that it replaces."""
    prompt: PromptBody | None = None
    title: Title | None = None
    share_workspace: bool = False


@operation(
    "POST", "/chats/{chat}/fork", "Fork a chat: copy its history up to a message", status=201
)
async def fork_chat(call: ApiCall, chat: Chat, body: ForkChat) -> ReaderChat:
    forked = await chat.fork(
        body.number,
        None if body.prompt is None else await prompt_of(call, body.prompt),
        title=body.title,
        share_workspace=body.share_workspace,
        key=call.key,
    )
    return for_reader(forked.first)


@operation("POST", "/chats/{chat}/interrupt", "Interrupt the turn and keep its output", status=202)
async def interrupt_chat(call: ApiCall, chat: Chat) -> Snapshot:
    return await chat.interrupt(key=call.key)


@operation("POST", "/chats/{chat}/retry", "Retry after an error", status=202)
async def retry_chat(call: ApiCall, chat: Chat) -> Snapshot:
    return await chat.retry(key=call.key)


@operation("POST", "/chats/{chat}/resume", "Continue a turn that ended at a limit", status=202)
async def resume_chat(call: ApiCall, chat: Chat) -> Snapshot:
    return await chat.resume(key=call.key)


@operation("POST", "/chats/{chat}/compact", "Summarize the conversation now", status=202)
async def compact_chat(call: ApiCall, chat: Chat) -> Snapshot:
    return await chat.compact(key=call.key)


@operation("POST", "/chats/{chat}/title", "Have a model write a new title now")
async def retitle_chat(call: ApiCall, chat: Chat) -> Snapshot:
    return await chat.retitle(key=call.key)
