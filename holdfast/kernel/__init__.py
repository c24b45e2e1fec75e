"""The kernel: the agent loop, in memory and without side effects of its own.

Here live messages, events, errors, tools, the `Model` protocol, and the loop that drives them. Not
here: databases, HTTP, providers. The kernel imports the standard library, anyio and msgspec only
(`tests/test_layers.py`), and time, randomness, ids and threads reach it as `Ports`.

Three ideas carry it:

- The next step is a pure function of what is committed: `decide(turn, facts, rules)`. Starting,
  continuing and resuming after a crash are the same call.
- A history only grows. Counters (steps, recoveries, failures of a tool) are a fold over it, kept in
  `Turn`; a compaction appends a checkpoint and changes only what is sent.
- A failure is a value: every failed tool call is a result for the model, every failed model call a
  classified `Failure`.

Read `decide.py` first, then `loop.py`, the driver in memory. `messages.py` and `events.py` are the
public data; `policy.py` has every constant. `worker/` is the other driver, over a database.
"""
