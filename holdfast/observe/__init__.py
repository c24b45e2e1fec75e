"""Observability: logs, metrics, traces and recordings of a process.

Everything here observes and nothing decides: no other code reads what was recorded. Not here: the
HTTP endpoint for metrics (`server/prometheus.py`) and the settings that enable these (`cli/`).

Ideas:

- `Observer` is the one interface between a worker and whatever watches it. Each chat that the
  worker drives gets a `ChatObserver` from it. Both are called on the event loop between steps: they
  must return quickly, never wait and never raise.
- Log lines carry the chat, worker, epoch and attempt from a context variable, so that code which
  logs need not know them.
- Secrets are removed once, at the exit: `redact.py` filters logs, traces and recordings.

Read `observer.py` first. `metrics_observer.py` (with `metrics.py`), `tracing.py` and
`model_call_recorder.py` implement it; `logs.py` formats log lines.
"""
