"""Durable chats: the rows of a chat, the state machine that changes them, and what is read of them.

The row of a chat is the only authority, and this package is the only code that writes it. Nothing
here calls a model, runs a tool or knows HTTP: runners (`holdfast.worker`) and the server
(`holdfast.server`) call transitions, and read the result.

Read `state_machine.py` first: which transition is allowed in which status, and why. Then
`row_lock.py` (how a transition locks, changes and writes a chat) and `transitions/`.

Three ideas:

- A transition is one transaction: lock the row, check the fence and the table, raise the version,
  write, commit. Notices are sent after the commit, and are only hints.
- A runner's write names the state that it was started on (`rows.Fence`). If that no longer holds,
  nothing is written, and the runner reads the chat again.
- Every change raises `snapshot_version`, so a reader with a version can be sent what changed since
  (`stream.py`).

`host.py` and `handle.py` are the interface for programs; `doctor.py` checks every invariant.
"""
