"""Transitions of a chat, one transaction each, grouped by the party that requests them.

- `user.py`: send, interrupt, edit, retry, resume, compact, resolve, and changes of the queue.
- `runner.py`: what a runner writes, under its fence, until it releases the chat. `commit_step.py`
  is its most frequent write, with a form that commits the steps of many chats at once.
- `claims.py`: workers claim chats and renew their lease.
- `lifecycle.py`: create, spawn, fork, restore, archive, delete.
- `interrupt.py`: interrupts a chat with all chats below it; used by the others.

A transition is a function of a `Tx`. It locks its chat with `locked_chat.begin` or, for a runner,
with `begin_fenced`; changes the chat as a value; and closes it. It must not wait for anything but
the database, and must not send notices itself. Chats are locked from parent to child, never
upwards.

Read `user.py` first. The caller of users' transitions is `chat/handle.py`; runners call theirs
through `worker/fenced_chat.py`.
"""
