"""The worker: claims chats of a database and drives each of them with a runner.

Read `worker.py` first (lease, claim loop, shutdown), then `runner.py` (load, then decide, do and
commit, until nothing is left to do). `model_step.py` and `tool_step.py` do the steps and return
what they produced. `fenced_chat.py` has the runner's copy of its chat, `tool_calls.py` its tool
calls.

This package does not choose the next step: `holdfast.kernel.decide` does, from the committed state.
It has no SQL: every write is a transition of `holdfast.chat`. It knows nothing of HTTP.

Three ideas:

- A runner has no state of its own. The outcome of a step is a value (`Leftover`) until the runner
  has committed it, and only the commit is ever repeated.
- Every write is fenced. An interrupt, an edit, another owner and a lost acknowledgement are handled
  in the same way: the step is unwound, and the chat is loaded again.
- A call with an effect is recorded in the journal as started before its function is called, so that
  a crash never repeats it silently.
"""
