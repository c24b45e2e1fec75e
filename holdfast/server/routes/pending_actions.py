"""Pending actions of chats, and answering them: client tools, approvals, questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, Union

from msgspec import Meta, Struct

from holdfast.agent import Agent
from holdfast.chat.errors import NothingWaits, WrongAnswer
from holdfast.chat.handle import Chat
from holdfast.chat.pending_actions import ActionPosition, ListedAction, read_actions_of_owner
from holdfast.chat.rows import ActionAnswer, ChatRow, Rule
from holdfast.chat.snapshots import Pending, Snapshot, snapshot_of
from holdfast.chat.transitions import user
from holdfast.kernel.approval import canonical
from holdfast.kernel.decide import Approved
from holdfast.kernel.messages import ToolResult
from holdfast.kernel.tool import Deny
from holdfast.kernel.tool_results import content
from holdfast.server.idempotency import once, stored_response
from holdfast.server.operation import ApiCall, operation
from holdfast.server.pagination import cursor_holding, cut, value_of
from holdfast.server.problem import BadBody
from holdfast.server.shared_request_types import (
    CursorText,
    Id,
    Limit,
    Name,
    RequestStruct,
    TaggedRequestStruct,
)
from holdfast.store.database import Tx


class ActionList(Struct, frozen=True):
    """Pending actions of a chat."""

    actions: tuple[Pending, ...]


@operation("GET", "/chats/{chat}/actions", "List the pending actions of a chat")
async def list_actions(call: ApiCall, chat: Chat) -> ActionList:
    return ActionList(await chat.actions())


class ListPendingActions(RequestStruct, frozen=True):
    """Query of `GET /actions`."""

    cursor: CursorText | None = None
    limit: Limit = 50


class PendingActionPage(Struct, frozen=True):
    """Pending actions, newest first."""

    actions: tuple[ListedAction, ...]
    next: str | None
    """Cursor of the next page; None on the last page."""


@operation("GET", "/actions", "List the pending actions of all chats of the caller")
async def list_asked(call: ApiCall, query: ListPendingActions) -> PendingActionPage:
    """Includes actions of child chats. Answer each in the chat that it belongs to."""
    before = value_of("actions", query.cursor, ActionPosition)

    async def read(tx: Tx) -> list[ListedAction]:
        return await read_actions_of_owner(tx, call.user, before=before, limit=query.limit + 1)

    rows = await call.server.db.read(read)
    page, more = cut(rows, query.limit)
    return PendingActionPage(page, cursor_holding("actions", page[-1].position) if more else None)


class AllowAnswer(TaggedRequestStruct, frozen=True, tag="allow"):
    """Approve a tool call."""

    digest: Annotated[str, Meta(min_length=1, max_length=200)]
    """Digest of the action as it was shown: the approval is valid for nothing else."""
    arguments: dict[str, Any] | None = None
    """Arguments to run the call with instead."""
    for_chat: Literal["call", "tool"] | None = None
    """`call`: also approve later calls in this chat with the same arguments. `tool`: also approve
    all later calls of this tool in this chat."""


class DenyAnswer(TaggedRequestStruct, frozen=True, tag="deny"):
    """Deny a tool call."""

    reason: Annotated[str, Meta(max_length=10_000)] = ""
    """Reason, for the model."""


class ResultAnswer(TaggedRequestStruct, frozen=True, tag="result"):
    """The result of a client tool, or the answer to a question."""

    result: Any
    """Text, or any JSON value."""
    failed: bool = False
    expected: bool = False
    """For a failure: it is a regular negative answer such as *not found*, and does not count
    against the tool."""


SubmittedAnswer: TypeAlias = Union[AllowAnswer, DenyAnswer, ResultAnswer]
"""An answer to an action."""


class AnswerAction(RequestStruct, frozen=True):
    """The answer to one action."""

    answer: SubmittedAnswer


@operation("POST", "/chats/{chat}/actions/{id}", "Answer a pending action", status=202)
async def answer_action(call: ApiCall, chat: Chat, id: Id, body: AnswerAction) -> Snapshot:
    return await _resolve(call, chat, {id: body.answer})


class AllowedCalls(RequestStruct, frozen=True):
    """Calls that are approved in advance."""

    tool: Name
    arguments: str | None = None
    """Canonical JSON that the arguments must equal; None: any arguments."""


class AnswerActions(RequestStruct, frozen=True):
    """Answers to several actions, by id."""

    answers: Annotated[dict[Id, SubmittedAnswer], Meta(min_length=1, max_length=100)]
    allow_for_chat: AllowedCalls | None = None
    """Calls that may run in this chat from now on without approval."""


@operation(
    "POST",
    "/chats/{chat}/actions",
    "Answer several pending actions at once: all of them, or none if one is refused",
    status=202,
)
async def answer_actions(call: ApiCall, chat: Chat, body: AnswerActions) -> Snapshot:
    allowed = body.allow_for_chat
    rule = None if allowed is None else Rule(allowed.tool, allowed.arguments)
    return await _resolve(call, chat, body.answers, rule)


async def _resolve(
    call: ApiCall, chat: Chat, answers: Mapping[str, SubmittedAnswer], rule: Rule | None = None
) -> Snapshot:
    what = f"resolve {chat.id}"
    body = answers if rule is None else (answers, rule)
    pending = {action.call.id: action for action in await chat.actions()}
    # Read after the actions: an answer given in between is found in one of the two.
    first = await stored_response(call, what, body, ChatRow)
    if first is not None:
        return snapshot_of(first)
    unknown = [id for id in answers if id not in pending]
    if unknown:
        raise NothingWaits(unknown, list(pending))
    agent = call.server.host.agent(chat.agent)
    if rule is not None and rule.tool not in agent.toolset:
        raise BadBody(f"{agent.name} has no tool {rule.tool!r} to allow")
    resolutions = {id: _answer(agent, pending[id], answer) for id, answer in answers.items()}
    rules = [rule, *(_rule(agent, pending[id], answer) for id, answer in answers.items())]

    async def resolve(tx: Tx) -> ChatRow:
        return await user.resolve(tx, chat.id, resolutions, *rules)

    return snapshot_of(await once(call, what, body, ChatRow, resolve))


def _answer(agent: Agent, action: Pending, answer: SubmittedAnswer) -> ActionAnswer:
    match answer:
        case AllowAnswer():
            if action.kind != "approval":
                raise WrongAnswer(action.call.id, f"{action.call.tool} needs a result: send one")
            return agent.answer(action.call, Approved(answer.digest, answer.arguments))
        case DenyAnswer():
            return agent.answer(action.call, Deny(answer.reason or "no reason was given"))
        case ResultAnswer():
            if action.kind == "approval":
                raise WrongAnswer(action.call.id, "it needs allow or deny, not a result")
            if not answer.failed:
                return agent.answer(action.call, answer.result)
            parts = content(answer.result)
            result = ToolResult(
                action.call.id, action.call.tool, parts, "failed", expected=answer.expected
            )
            return agent.answer(action.call, result)


def _rule(agent: Agent, action: Pending, answer: SubmittedAnswer) -> Rule | None:
    """The calls that an answer approves from now on. `said` is a valid answer to the action."""
    if not isinstance(answer, AllowAnswer) or answer.for_chat is None:
        return None
    tool = action.call.tool
    if answer.for_chat == "tool":
        return Rule(tool)
    if answer.arguments is None:
        return Rule(tool, action.arguments)
    # The person approved the changed arguments, not those that the model asked for.
    schema = agent.toolset[tool].arguments
    return Rule(tool, canonical(schema.plain(schema.check(answer.arguments))))
