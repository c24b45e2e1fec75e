"""What a chat waits for from outside: client tools, approvals, questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, Union

from msgspec import Meta, Struct

from holdfast.agent import Agent
from holdfast.chat import people
from holdfast.chat.errors import NothingWaits, WrongAnswer
from holdfast.chat.state import Answer, Chat, Rule
from holdfast.chat.view import Pending, Snapshot, snapshot_of
from holdfast.chat.waiting import Asked, Place, read_asked
from holdfast.kernel.decide import Approved
from holdfast.kernel.messages import ToolResult
from holdfast.kernel.results import content
from holdfast.kernel.tool import Deny
from holdfast.kernel.way import canonical
from holdfast.server.given import CursorText, Given, GivenPart, Id, Limit, Name
from holdfast.server.once import answered, once
from holdfast.server.operation import Call, operation
from holdfast.server.pages import cursor_holding, cut, value_of
from holdfast.server.problem import BadBody
from holdfast.store.database import Tx


class Actions(Struct, frozen=True):
    actions: tuple[Pending, ...]


@operation("GET", "/chats/{chat}/actions", "Read what the chat waits for")
async def list_actions(call: Call, chat: Id) -> Actions:
    return Actions(await (await call.server.host.chat(chat)).actions())


class ListAsked(Given, frozen=True):
    cursor: CursorText | None = None
    limit: Limit = 50


class AskedPage(Struct, frozen=True):
    """What waits, the newest first."""

    actions: tuple[Asked, ...]
    next: str | None
    """The cursor of the next page; None when this is the last."""


@operation("GET", "/actions", "Read what waits for the caller, in all of their chats")
async def list_asked(call: Call, query: ListAsked) -> AskedPage:
    """Also in chats that theirs set to work. Answer it in the chat that asks."""
    before = value_of("actions", query.cursor, Place)

    async def read(tx: Tx) -> list[Asked]:
        return await read_asked(tx, call.user, before=before, limit=query.limit + 1)

    found = await call.server.db.read(read)
    page, more = cut(found, query.limit)
    return AskedPage(page, cursor_holding("actions", page[-1].place) if more else None)


class Allow(GivenPart, frozen=True, tag="allow"):
    """The call may run."""

    digest: Annotated[str, Meta(min_length=1, max_length=200)]
    """Of the action, as it was shown: an approval is good for nothing else."""
    arguments: dict[str, Any] | None = None
    """Other arguments to run it with."""
    for_chat: Literal["call", "tool"] | None = None
    """`call`: the same call, with the arguments that it runs with now, may run again in this chat
    without being asked. `tool`: any call of this tool."""


class Refuse(GivenPart, frozen=True, tag="deny"):
    """The call may not run."""

    reason: Annotated[str, Meta(max_length=10_000)] = ""
    """For the model."""


class Result(GivenPart, frozen=True, tag="result"):
    """What the client's tool gave, or what somebody answered to a question."""

    result: Any
    """Text, or anything that is JSON."""
    failed: bool = False


Said: TypeAlias = Union[Allow, Refuse, Result]


class AnswerAction(Given, frozen=True):
    answer: Said


@operation("POST", "/chats/{chat}/actions/{id}", "Answer something the chat waits for", status=202)
async def answer_action(call: Call, chat: Id, id: Id, body: AnswerAction) -> Snapshot:
    return await _resolve(call, chat, {id: body.answer})


class AllowedCalls(Given, frozen=True):
    tool: Name
    arguments: str | None = None
    """Canonical JSON that the arguments have to be; None for any."""


class AnswerActions(Given, frozen=True):
    answers: Annotated[dict[Id, Said], Meta(min_length=1, max_length=100)]
    allow_for_chat: AllowedCalls | None = None
    """Calls that may run in this chat from now on without being asked about."""


@operation(
    "POST",
    "/chats/{chat}/actions",
    "Answer several things at once: all of them, or, when one is refused, none",
    status=202,
)
async def answer_actions(call: Call, chat: Id, body: AnswerActions) -> Snapshot:
    given = body.allow_for_chat
    rule = None if given is None else Rule(given.tool, given.arguments)
    return await _resolve(call, chat, body.answers, rule)


async def _resolve(
    call: Call, chat_id: str, answers: Mapping[str, Said], rule: Rule | None = None
) -> Snapshot:
    chat, what = await call.server.host.chat(chat_id), f"resolve {chat_id}"
    body = answers if rule is None else (answers, rule)
    waiting = {action.call.id: action for action in await chat.actions()}
    # Asked behind the actions: what was answered in between is found in one of the two.
    first = await answered(call, what, body, Chat)
    if first is not None:
        return snapshot_of(first)
    unknown = [id for id in answers if id not in waiting]
    if unknown:
        raise NothingWaits(unknown, list(waiting))
    agent = call.server.host.agent(chat.agent)
    if rule is not None and rule.tool not in agent.toolset:
        raise BadBody(f"{agent.name} has no tool {rule.tool!r} to allow")
    given = {id: _answer(agent, waiting[id], said) for id, said in answers.items()}
    rules = [rule, *(_rule(agent, waiting[id], said) for id, said in answers.items())]

    async def resolve(tx: Tx) -> Chat:
        return await people.resolve(tx, chat_id, given, *rules)

    return snapshot_of(await once(call, what, body, Chat, resolve))


def _answer(agent: Agent, action: Pending, said: Said) -> Answer:
    match said:
        case Allow():
            if action.kind != "approval":
                raise WrongAnswer(action.call.id, f"{action.call.tool} waits for a result: give it")
            return agent.answer(action.call, Approved(said.digest, said.arguments))
        case Refuse():
            return agent.answer(action.call, Deny(said.reason or "no reason was given"))
        case Result():
            if action.kind == "approval":
                raise WrongAnswer(action.call.id, "it waits for allow or deny, not for a result")
            if not said.failed:
                return agent.answer(action.call, said.result)
            made = content(said.result)
            result = ToolResult(action.call.id, action.call.tool, made, "failed")
            return agent.answer(action.call, result)


def _rule(agent: Agent, action: Pending, said: Said) -> Rule | None:
    """What else may run from now on. `said` is known to be an answer to the action."""
    if not isinstance(said, Allow) or said.for_chat is None:
        return None
    tool = action.call.tool
    if said.for_chat == "tool":
        return Rule(tool)
    if said.arguments is None:
        return Rule(tool, action.arguments)
    # To what was asked for nobody has agreed: only to what was made of it.
    known = agent.toolset[tool].arguments
    return Rule(tool, canonical(known.plain(known.check(said.arguments))))
