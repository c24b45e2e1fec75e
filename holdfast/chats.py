"""Durable chats: handles, snapshots, queued messages, and hosts that are on a server.

`holdfast.open` and `holdfast.connect` return a host; a host returns chats. `ChatHost` and
`ChatHandle` are the interface of both.
"""

from __future__ import annotations

from holdfast.chat.budgets import (
    BudgetReport as BudgetReport,
    BudgetState as BudgetState,
    BudgetUsage as BudgetUsage,
)
from holdfast.chat.client_tools import (
    ClientTool as ClientTool,
)
from holdfast.chat.interface import (
    ChatEventStream as ChatEventStream,
    ChatHandle as ChatHandle,
    ChatHost as ChatHost,
    ChatQueue as ChatQueue,
)
from holdfast.chat.queries import (
    Spent as Spent,
)
from holdfast.chat.rows import (
    Queued as Queued,
    Rule as Rule,
    Status as Status,
    Stored as Stored,
)
from holdfast.chat.snapshots import (
    ChatResult as ChatResult,
    Pending as Pending,
    Receipt as Receipt,
    Revision as Revision,
    Snapshot as Snapshot,
)
from holdfast.chat.stream import (
    ChatStream as ChatStream,
    Cursor as Cursor,
)
from holdfast.client.remote_chat import (
    RemoteChat as RemoteChat,
)
from holdfast.client.remote_host import (
    RemoteHost as RemoteHost,
)
