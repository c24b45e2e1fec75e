"""The store: SQLite and PostgreSQL behind one contract, `Database`.

Read `database.py` first: transactions, notices, the `Dialect` and the tree of errors. `url.py`
opens the database of a URL; `migrate.py` brings its schema up to date from `migrations/`. The two
implementations are `sqlite/` and `postgres/`.

The store does not know what a chat is: `holdfast.chat` reads and writes the tables, and a
transaction is any `async` function of a `Tx`. No other package imports a database driver.

Three ideas:

- A transaction is passed as one function. SQLite runs it without suspending it; PostgreSQL may run
  it again after a conflict. So it must not have effects outside of the database.
- Transactions that wait at the same time share one commit (`group_commit.py` of either database).
  A rejected transaction does not affect the others in its group.
- Notices are sent after the commit. They are hints: they may be lost, duplicated or late, and every
  reader also polls.
"""
