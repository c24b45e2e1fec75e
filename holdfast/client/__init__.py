"""The client: chats on a remote server, with the interface of chats in this process.

Read `connect.py` first: `holdfast.connect` gives a `RemoteHost` (`remote_host.py`), which gives
`RemoteChat`s (`remote_chat.py`, `remote_queue.py`). A program written against `holdfast.open` works
unchanged.

- **Changes take effect once.** Every change carries an idempotency key, so `transport.py` sends a
  request again when no response came (`retry.py` decides when).
- **Streams survive lost connections.** `stream.py` reconnects after the last event and drops what
  the server sends twice, so a reader sees each event once.
- **The same errors.** `errors.py` turns a problem of the server into the exception that a local
  chat would raise; `explain_connection_error.py` explains why a server cannot be reached.
  `request_bodies.py` encodes prompts and answers.

No state is kept here beyond cursors, and no rule of a chat is repeated: the server decides. The
client imports types and decoders of `holdfast.chat` and `holdfast.server`, never a database.
"""
