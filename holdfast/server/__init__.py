"""The server: the HTTP API, its streams, identity, the relay between replicas, and the web page.

Read `operation.py` first, then one file of `routes`, then `dispatch.py`: an operation is a function
whose signature defines its route's types; `dispatch.py` authorises the request, decodes it, calls
the function and turns every error into a problem (`problem.py`). The OpenAPI document
(`openapi.py`) is generated from the same signatures. `app.py` serves all of it with aiohttp.

- **Authorisation is one table.** `access_policy.py` maps each route to what it requires. A route
  that is not in the table is not served. Authentication is in `identity`.
- **One stream, many readers.** `fanout.py` writes to all readers together, once per tick, and
  shares one query and one encoding between readers at the same cursor. `event_codec.py` encodes;
  `sse.py` and `websocket.py` are the two kinds of connection; `chat_list_stream.py` is the stream
  of a user's chat list. `relay` fetches deltas from the replica that runs a chat.
- **A change happens once.** `idempotency.py` stores the response of each `Idempotency-Key`.

No state of a chat is decided here: that is `holdfast.chat`. Nothing here drives a chat: that is
`holdfast.worker`.
"""
