"""The worker: claims chats of a database and drives each of them with a runner.

Read `worker.py` first (lease, claim loop, shutdown), then `runner.py` (load, then decide, do and
commit, until nothing is left to do). A step is done by `model_step.py` or `tool_step.py`; `step.py`
is the step that is running, and `fenced_chat.py` the runner's copy of its chat.

Nothing here decides what comes next: `holdfast.kernel.decide` does, from what is committed. Nothing
here writes SQL: every write is a transition of `holdfast.chat`. Nothing here knows HTTP.

Three ideas:

- A runner keeps no state that matters. What a step has produced is in memory only until it is
  committed, and only the commit is ever repeated.
- Every write is fenced. An interrupt, an edit, another owner and a lost acknowledgement all end in
  the same place: the step is unwound, the chat is loaded again.
- A call with an effect is recorded in the journal as started before its function is called, so that
  a crash never repeats it silently.
"""
