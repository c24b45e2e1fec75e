"""SQLite as a store: one file, written by one process.

Read `database.py` first: it submits transactions to two executors, for writes and for reads.

- `file.py`: opening the file, its lock, its connections and its write-ahead log.
- `replaced_file.py`: whether the open files are still the files at that path.
- `executors.py`: where a transaction runs, on the event loop or in a thread, and how a busy loop
  yields the GIL to that thread.
- `group_commit.py`: transactions that wait at the same time share one commit.
- `transaction.py`: the `Tx`, and the translation of SQLite's errors.

The ideas: the lock on the file proves that no other process writes, so every other owner of a chat
is dead. A transaction is never suspended, so it needs no lock against others in this process. While
the disk is fast, a short transaction runs on the event loop, because waking a thread takes longer.
"""
