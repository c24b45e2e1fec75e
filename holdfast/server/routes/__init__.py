"""The operations of the API, one file per resource. Importing this registers all of them.

Read `chats.py` first. Each operation is a function with a decorator:

    @operation("GET", "/chats/{chat}/queue", "Read the queue")
    async def read_queue(call: ApiCall, chat: Chat) -> QueuedMessages: ...

- The signature defines the request and the response; the summary and the docstring become the
  OpenAPI description, so they are written for callers of the API.
- A function is called only for an authorised request: what each route requires is in
  `server/access_policy.py`, not here. `chat` is the handle of the chat that the authorisation has
  read; declared as an `Id`, it is the id alone.
- A change goes through `idempotency.once`, or passes `call.key` on to the chat.

Rules of chats do not belong here: an operation decodes, calls `holdfast.chat` or `server/identity`,
and returns. It raises errors that `server/problem.py` knows.
"""

from holdfast.server.routes import (
    audit,
    budgets,
    catalog,
    chat_control,
    chats,
    export_and_import,
    files,
    health,
    me,
    messages,
    metrics,
    pending_actions,
    provider_keys,
    queue,
    result,
    sessions,
    shares,
    streams,
    tokens,
    usage,
    users,
)

__all__ = [
    "audit",
    "budgets",
    "catalog",
    "chat_control",
    "chats",
    "export_and_import",
    "files",
    "health",
    "me",
    "messages",
    "metrics",
    "pending_actions",
    "provider_keys",
    "queue",
    "result",
    "sessions",
    "shares",
    "streams",
    "tokens",
    "usage",
    "users",
]
