"""The relay: live deltas between replicas, so that a chat can be watched on any of them.

Committed messages reach every replica through the database. Deltas of a running attempt exist only
in the process that runs it, so a replica with readers of that chat subscribes to its owner.

Read `replica_subscriber.py` first.

- `replica_subscriber.py` looks up the owner of each chat that is watched here, keeps one
  connection per replica, and mirrors the deltas into the local live buffer.
- `replica_publisher.py` serves such connections: everything of one tick in one message.
- `frames.py` has the messages, `cluster_secret.py` the mutual proof of the cluster's secret. The
  secret itself is never sent.

Nothing here is needed for correctness: while a replica cannot be reached, its chats are shown step
by step instead of word by word. Nothing here writes to the database.
"""
