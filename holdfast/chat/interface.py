"""The interface of durable chats: in this process (`handle.py`, `host.py`), or on a server.

A program that is written for these protocols works with both. No signature mentions a database or a
connection, and every value is frozen. Methods are documented here, once; the classes inherit it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Protocol

from msgspec import UNSET, UnsetType

from holdfast.agent import Agent, Resolution
from holdfast.chat.budgets import BudgetReport, Budgets
from holdfast.chat.client_tools import ClientTool
from holdfast.chat.export import Format
from holdfast.chat.queries import Spent
from holdfast.chat.rows import Deliver, Queued, Rule, Stored
from holdfast.chat.snapshots import ChatResult, Pending, Receipt, Revision, Snapshot
from holdfast.chat.stream import Cursor, StreamEvent
from holdfast.kernel.limits import Limits
from holdfast.kernel.messages import Message, Prompt
from holdfast.kernel.model import Effort
from holdfast.kernel.type_parameters import ChatOutputT, NewChatOutputT


class ChatEventStream(Protocol):
    """An iterator over the events of a chat. Close it with `aclose`, or use `async with`."""

    @property
    def cursor(self) -> Cursor:
        """Cursor after everything returned so far."""
        ...

    def __aiter__(self) -> AsyncIterator[StreamEvent]: ...

    async def __anext__(self) -> StreamEvent: ...

    async def __aenter__(self) -> ChatEventStream: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    async def aclose(self) -> None:
        """Stop and release everything."""
        ...


class ChatQueue(Protocol):
    """The queued messages of a chat, in delivery order."""

    async def list(self) -> tuple[Queued, ...]:
        """Return the queued messages in delivery order."""
        ...

    async def edit(
        self,
        id: str,
        prompt: Prompt,
        deliver: Literal["steer", "queue"] | None = None,
        *,
        key: str | None = None,
    ) -> tuple[Queued, ...]:
        """Change the content of a queued message, or how it is delivered."""
        ...

    async def reorder(self, ids: Sequence[str], *, key: str | None = None) -> tuple[Queued, ...]:
        """Reorder the queued messages within each kind. `ids` names every one of them once."""
        ...

    async def remove(self, id: str, *, key: str | None = None) -> Queued:
        """Remove a message before it is delivered."""
        ...

    async def promote(self, id: str, *, key: str | None = None) -> Receipt:
        """Deliver a message now, as if it had been sent to interrupt."""
        ...


class ChatHandle(Protocol[ChatOutputT]):
    """A durable conversation, in this process or on a server. It holds no resources.

    A refused operation changes nothing and raises a `ChatError` with the reason. With a `key` a
    change is carried out once, however often it is requested; repeated requests get the first
    response.
    """

    id: str
    owner: str
    agent: str
    """Name of the agent that answers."""
    first: Snapshot
    """Snapshot from the creation of this handle; with a key, from the first request."""
    queue: ChatQueue
    """The messages that wait to be delivered."""

    # --- reading ---

    async def read(self) -> Snapshot:
        """Return the current snapshot of the chat."""
        ...

    async def messages(
        self,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int = 100,
        superseded: bool = False,
    ) -> tuple[Stored, ...]:
        """Return a page in order: the newest messages before number `before`.

        With `after`, the first messages after that number.
        """
        ...

    async def history(self) -> tuple[Message, ...]:
        """Return all live messages, as `agent.run(history=…)` takes them."""
        ...

    async def actions(self) -> tuple[Pending, ...]:
        """Return the actions that the chat waits for."""
        ...

    async def usage(self, *, tree: bool = False) -> Spent:
        """Return tokens and cost; with `tree`, including all child chats."""
        ...

    async def budget(self) -> BudgetReport:
        """Return the budgets of the chat and of its owner, with what was used of them."""
        ...

    async def set_budget(self, limits: Limits | None, *, key: str | None = None) -> BudgetReport:
        """Set the budget of the chat with its child chats; None returns to that of its owner's
        chats. Raises `ConfigError` for a limit of cost if the price of a model is unknown."""
        ...

    async def export(self, format: Format = "jsonl", *, files: bool = True) -> str:
        """Return the whole chat as text: `jsonl` is lossless, `markdown` is for people.

        `files` includes the bytes of the files that messages refer to; Markdown has only their
        names.
        """
        ...

    def stream(self, after: Cursor | str | None = None, *, follow: bool = False) -> ChatEventStream:
        """Return the event stream of the chat from a cursor.

        It ends when the chat is idle, in error or waiting for an action; with `follow` it
        continues until the chat is deleted.
        """
        ...

    async def rest(self) -> ChatResult[ChatOutputT]:
        """Wait until the chat is idle, in error, or waiting for an action.

        Raises `Stranded` if it cannot continue, because no live worker has its agent.
        """
        ...

    # --- messages and turns ---

    async def send(
        self,
        prompt: Prompt,
        deliver: Deliver = "queue",
        *,
        model: str | None = None,
        effort: Effort | None = None,
        key: str | None = None,
    ) -> Receipt:
        """Send a message. While the chat is busy the message waits in the queue, as `deliver` says:

        `queue`: until the turn ends. `steer`: until the next step boundary. `interrupt`: the turn
        is interrupted for it. `model` and `effort` apply from this message on. With a `key` the
        message is sent once, however often this is called.
        """
        ...

    async def interrupt(self, *, key: str | None = None) -> Snapshot:
        """Interrupt the turn, and keep its output. Does nothing when no turn is running."""
        ...

    async def retry(self, *, key: str | None = None) -> Snapshot:
        """Retry after an error."""
        ...

    async def resume(self, *, key: str | None = None) -> Snapshot:
        """Continue a turn that ended at a limit, and allow the same again.

        Raises `NothingToResume` if the last turn ended otherwise.
        """
        ...

    async def edit(
        self,
        number: int,
        prompt: Prompt,
        *,
        model: str | None = None,
        effort: Effort | None = None,
        key: str | None = None,
    ) -> Revision:
        """Replace message `number`: it and all messages after it are superseded."""
        ...

    async def fork(
        self,
        number: int,
        prompt: Prompt | None = None,
        *,
        title: str | None = None,
        share_workspace: bool = False,
        key: str | None = None,
    ) -> ChatHandle[ChatOutputT]:
        """Return a new chat with the history up to message `number`.

        A given prompt replaces that message.
        """
        ...

    async def compact(self, *, key: str | None = None) -> Snapshot:
        """Summarize the conversation now."""
        ...

    async def resolve(
        self,
        answers: Mapping[str, Resolution],
        *,
        allow_for_chat: Rule | None = None,
        key: str | None = None,
    ) -> Snapshot:
        """Answer actions by call id: all of them, or none if one answer is refused.

        Answers are the same as for `agent.run(resolve=…)`: `approve(action)`, `Deny(reason)`, or
        the result. Calls that match `allow_for_chat` need no approval in this chat from then on.
        """
        ...

    # --- title, settings and lifecycle ---

    async def rename(self, title: str | None, *, key: str | None = None) -> Snapshot:
        """Set the title. None removes it: the next turn generates a new one."""
        ...

    async def retitle(self, *, key: str | None = None) -> Snapshot:
        """Have a model write another title now. On `TitleFailed` the old title stays."""
        ...

    async def update(
        self,
        *,
        agent: str | UnsetType = UNSET,
        labels: Mapping[str, str] | UnsetType = UNSET,
        model: str | UnsetType | None = UNSET,
        effort: Effort | UnsetType | None = UNSET,
        client_tools: Sequence[ClientTool] | UnsetType = UNSET,
        key: str | None = None,
    ) -> Snapshot:
        """Change the given settings together. None selects the agent's own model or effort.

        `agent` continues the chat from the next step on; if calls of the current agent are open,
        once they have ended (until then it is `next_agent`).
        `client_tools` replace all tools that were declared for this chat, from the next step on.
        """
        ...

    async def archive(self, *, key: str | None = None) -> Snapshot:
        """Archive the chat, with all its child chats."""
        ...

    async def unarchive(self, *, key: str | None = None) -> Snapshot:
        """Unarchive the chat, with all its child chats."""
        ...

    async def delete(self, *, key: str | None = None) -> None:
        """Delete the chat permanently, with all its child chats."""
        ...


class ChatHost(Protocol):
    """Durable chats of a database or of a server: create, find, list, restore."""

    async def create(
        self,
        prompt: Prompt | None,
        *,
        agent: str | Agent[Any, NewChatOutputT] | None = None,
        title: str | None = None,
        labels: Mapping[str, str] | None = None,
        owner: str = "",
        model: str | None = None,
        effort: Effort | None = None,
        client_tools: Sequence[ClientTool] = (),
        key: str | None = None,
    ) -> ChatHandle[NewChatOutputT]:
        """Create a chat; without a prompt it waits for its first message.

        `agent` is the name of an agent, the host's first by default; or the agent itself, of which
        only the name counts, and whose output type is that of the chat's results. On a server the
        chat belongs to the owner of the token, and `owner` stays empty. `client_tools` are
        additional tools of this chat: each call waits until `resolve` gives its result. With a
        `key` the chat is
        created once, however often this is called: the same key of the same owner returns the same
        chat.
        """
        ...

    async def restore(
        self, text: str, *, agent: str | None = None, owner: str = "", key: str | None = None
    ) -> ChatHandle:
        """Create a chat with the messages of a JSONL export.

        `agent` defaults to the agent of the exported chat. Approval rules are not restored; a model
        that is not available there is replaced by the agent's own. Raises `FormatError`.
        """
        ...

    async def chat(
        self,
        id: str,
        *,
        owner: str | None = None,
        agent: Agent[Any, NewChatOutputT] | None = None,
    ) -> ChatHandle[NewChatOutputT]:
        """Return the chat of this id. Raises `ChatNotFound`, also if another `owner` has it.

        Pass the owner wherever a user gives the id. On a server, the token has to be allowed to
        read the chat, and `owner` stays empty. `agent` is the agent that answers in the chat, for
        its output type.
        """
        ...

    async def budgets(self, owner: str = "") -> BudgetReport:
        """Return the budgets of a user, with what was used of them.

        On a server that is the owner of the token, or another for an administrator.
        """
        ...

    async def set_budgets(
        self, budgets: Budgets | None, *, owner: str = "", key: str | None = None
    ) -> BudgetReport:
        """Set the budgets of a user. A budget that is None is the configured one, and `Limits()`
        limits nothing."""
        ...

    async def list(
        self,
        *,
        owner: str | None = None,
        parent: str | None = None,
        archived: bool = False,
        before: str | None = None,
        limit: int = 100,
    ) -> tuple[Snapshot, ...]:
        """Return chats, newest first. `before` is the id of the last one seen."""
        ...
