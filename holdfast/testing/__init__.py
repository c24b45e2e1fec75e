"""Tools for testing agents: scripted models, fake providers, virtual time, a check for leaks.

Everything here is for tests and benchmarks of users and of this project; no code outside tests may
depend on it. It needs no test framework: pytest is not imported.

- **A script replaces the model.** A `ScriptedModel` yields deltas; a `FakeProvider` plays the same
  script in a real protocol, in memory or on loopback, and refuses what the real provider refuses.
- **The test controls time.** On a `VirtualLoop` the clock jumps to the next timer, so a test that
  waits for an hour takes no time. `ports` makes ids and randomness deterministic.
- **Failures are items of a script**: `fail`, `cut`, `hang`, `lost` and others stand where they
  should happen.
- **Every model keeps one contract**, and so does every workspace. `conformance` has the cases for
  any model, `workspace_conformance` those for any kind of workspace.

Read `script.py` first, then `virtual_time.py`. `fake` has one module per protocol; `postgres.py`
starts a private server; `recorded.py` replays the recordings of a server.
"""

import typing

from holdfast.testing.deterministic_ports import ports
from holdfast.testing.fake.faults import (
    dripping,
    endless,
    garbled,
    lost,
    opens,
    raw,
    respond,
    swapped,
)
from holdfast.testing.fake.provider import FakeProvider
from holdfast.testing.leaks import no_leaked_tasks
from holdfast.testing.script import (
    Cut,
    ScriptedCall,
    ScriptedModel,
    ScriptedTurn,
    ScriptEnded,
    ScriptItem,
    call,
    call_raw,
    cut,
    fail,
    file,
    finish,
    hang,
    notice,
    pause,
    ping,
    say,
    source,
    think,
    usage,
)
from holdfast.testing.tool_context import tool_context
from holdfast.testing.virtual_time import START, Clock, Deadlock, VirtualLoop, run_virtual

__all__ = [
    "START",
    "Clock",
    "Cut",
    "Deadlock",
    "FakeProvider",
    "ScriptEnded",
    "ScriptItem",
    "ScriptedCall",
    "ScriptedModel",
    "ScriptedTurn",
    "VirtualLoop",
    "call",
    "call_raw",
    "cut",
    "dripping",
    "endless",
    "fail",
    "file",
    "finish",
    "garbled",
    "hang",
    "lost",
    "no_leaked_tasks",
    "notice",
    "opens",
    "pause",
    "ping",
    "ports",
    "raw",
    "respond",
    "run_virtual",
    "say",
    "source",
    "swapped",
    "think",
    "tool_context",
    "usage",
]


if not typing.TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> object:
        from holdfast.kernel.import_hints import FOREIGN_NAMES, missing_name

        foreign = FOREIGN_NAMES.get(name, "")
        raise missing_name(__name__, name, foreign and f"use {foreign}")
