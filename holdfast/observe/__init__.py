"""Observability: logs, metrics, traces and recordings of a process.

Everything here observes and nothing decides: no other code reads what was recorded. Not here: the
HTTP endpoint for metrics (`server/prometheus.py`) and the settings that enable these (`cli/`).
Public names are in `holdfast.telemetry`.

Ideas:

- `Observer`, in `kernel/observer.py`, is the one interface between agents and whatever watches
  them. Each chat that a worker drives, and each run in memory, gets a `ChatObserver` from it. Both
  are called on the event loop between steps: they must return quickly, never wait and never raise.
- A process, a host and an agent may each have an observer. `instrument.py` sets the process's.
- Log lines carry the chat, worker, epoch and attempt from a context variable, so that code which
  logs need not know them.
- Secrets are removed once, at the exit: `redact.py` filters logs, traces and recordings.

Read `kernel/observer.py` first. `metrics_observer.py` (with `metrics.py`), `tracing.py`,
`otel_metrics.py` and `model_call_recorder.py` implement it; `genai_conventions.py` has the words of
OpenTelemetry; `logs.py` formats log lines.
"""
