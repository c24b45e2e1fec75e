"""PostgreSQL as a store, for more than one process.

Read `database.py` first: it owns a pool for transactions, and three single-purpose connections.

- `connect.py`, `pool.py`, `run.py`: opening connections, lending them, running transactions on them
  with retries where these are safe. `transaction.py` is the `Tx`.
- `group_commit.py`: the committer, which commits the steps of many chats in one statement.
- `notification_sender.py`, `listener.py`: notices to and from other processes by NOTIFY and LISTEN.
- `pooler.py`: the same through PgBouncer, with no state kept on a connection.
- `errors.py`: the only place that translates errors of the server and of asyncpg.

The ideas: if the connection is lost before COMMIT, nothing was changed, and a retry is safe; if it
is lost during COMMIT, the error is `OutcomeUnknown` and the store does not retry. Notices are sent
outside of the transaction, because a commit that notifies holds a lock of the whole cluster.
"""
