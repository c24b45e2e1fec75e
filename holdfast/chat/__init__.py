"""Durable chats: the rows of a chat, the state machine that changes them, and queries on them.

The row of a chat is the only authority, and only this package writes it. It calls no model, runs
no tool and knows nothing of HTTP: runners (`holdfast.worker`) and the server (`holdfast.server`)
call its transitions and read the result.

Read `state_machine.py` first: which transition is allowed in which status, and why. Then
`locked_chat.py` (how a transition locks, changes and writes a chat) and `transitions/`.

Three ideas:

- A transition is one transaction: lock the row, check the fence and the table, raise the version,
  write, commit. Notices are sent after the commit, and are only hints.
- A runner's write names the state that it was started on (`rows.Fence`). If that no longer holds,
  nothing is written, and the runner reads the chat again.
- Every change raises `snapshot_version`, so that a reader with an older version receives only the
  changes since then (`stream.py`).

`host.py` and `handle.py` are the interface for programs; `doctor.py` checks every invariant.
"""
