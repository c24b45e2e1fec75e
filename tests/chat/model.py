"""A chat as a small pure model: what people and its runner do, and what has to come of it.

Written from the design, not from the code. One chat, no family.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from holdfast.chat.rows import Deliver, Status
from holdfast.kernel.messages import MARKER_TEXTS

Kind = Literal["prompt", "answer", "shown", "results", "marker"]
"""`shown`: an answer that people see and models do not."""
RANK: dict[Deliver, int] = {"interrupt": 0, "steer": 1, "queue": 2}
POISON = 3
LEASE = 16
"""Seconds after which a worker that died is surely taken for dead."""


class Refused(Exception):
    """Nothing may change."""


@dataclass(frozen=True)
class Entry:
    number: int
    kind: Kind
    text: str = ""
    calls: tuple[str, ...] = ()
    results: tuple[tuple[str, str], ...] = ()

    @property
    def short(self) -> str:
        calls = [f"?{call}" for call in self.calls]
        results = [f"{call}={outcome}" for call, outcome in self.results]
        return " ".join([*([self.text] if self.text else []), *calls, *results])


@dataclass(frozen=True)
class Call:
    """A call that the journal knows: waiting, approved, started, or with a result."""

    state: Literal["waiting", "approved", "started", "finished"]
    approval: bool = False
    deadline: int | None = None
    outcome: str = "ok"


@dataclass
class Model:
    now: int = 0
    status: Status = Status.RUNNING
    archived: bool = False
    history: list[Entry] = field(default_factory=list)
    queue: list[tuple[str, Deliver]] = field(default_factory=list)
    """In the order in which they came or were put."""
    journal: dict[str, Call] = field(default_factory=dict)
    messages: int = 0
    compaction: bool = False
    attempt: int = 1
    retry_at: int | None = None
    owned: bool = False
    epoch: int = 0
    crashes: int = 0
    snapshot: int = 0
    history_version: int = 0
    queue_version: int = 0

    def copy(self) -> Model:
        return replace(self, history=[*self.history], queue=[*self.queue], journal={**self.journal})

    # --- what can be seen of it ---

    @property
    def waiting(self) -> list[str]:
        return [id for id, _ in sorted(self.queue, key=lambda queued: RANK[queued[1]])]

    @property
    def steering(self) -> list[str]:
        kinds = dict(self.queue)
        return [id for id in self.waiting if kinds[id] != "queue"]

    @property
    def open(self) -> list[str]:
        """The calls of the last answer that have no result."""
        calls: list[str] = []
        for entry in self.history:
            if entry.kind == "answer":
                calls = list(entry.calls)
            calls = [call for call in calls if call not in dict(entry.results)]
        return calls

    @property
    def actions(self) -> list[str]:
        return [call for call in self.open if self.state(call) == "waiting"]

    @property
    def prompts(self) -> list[int]:
        return [entry.number for entry in self.history if entry.kind == "prompt"]

    @property
    def deadline(self) -> int | None:
        deadlines = [self.journal[call].deadline for call in self.actions]
        return min((d for d in deadlines if d is not None), default=None)

    @property
    def due(self) -> bool:
        return self.deadline is not None and self.deadline <= self.now

    @property
    def runnable(self) -> bool:
        return not self.archived and (
            (self.status is Status.RUNNING and (self.retry_at is None or self.retry_at <= self.now))
            or self.status is Status.INTERRUPTING
            or (self.status is Status.REQUIRES_ACTION and self.due)
        )

    def state(self, call: str) -> str | None:
        return self.journal[call].state if call in self.journal else None

    # --- parts of transitions ---

    def _by_people(self, *statuses: Status) -> None:
        if self.archived or self.status not in statuses:
            raise Refused
        self.snapshot += 1

    def _by_runner(self, *statuses: Status) -> None:
        if not self.owned or self.status not in statuses:
            raise Refused
        self.snapshot += 1

    def _append(self, entry_kind: Kind, text: str = "", **more: tuple[object, ...]) -> None:
        self.messages += 1
        self.history.append(Entry(self.messages, entry_kind, text, **more))  # type: ignore[arg-type]
        self.history_version = self.snapshot
        self.attempt, self.retry_at = 1, None

    def _results(self, results: list[tuple[str, str]]) -> None:
        if results:
            self._append("results", results=tuple(results))
            for call, _ in results:
                self.journal.pop(call, None)

    def _answer_open(self, outcome: str) -> None:
        last = [
            (call, self.journal[call].outcome if self.state(call) == "finished" else outcome)
            for call in self.open
        ]
        self._results(last)

    def _push(self, id: str, deliver: Deliver) -> None:
        self.queue.append((id, deliver))
        self.queue_version = self.snapshot

    def _drop(self, ids: list[str]) -> None:
        if ids:
            self.queue = [queued for queued in self.queue if queued[0] not in ids]
            self.queue_version = self.snapshot

    def _deliver(self, ids: list[str], outcome: str) -> None:
        self._answer_open(outcome)
        self._drop(ids)
        for id in ids:
            self._append("prompt", id)

    def _head(self) -> list[str]:
        return self.steering or self.waiting[:1]

    def _head_or_rest(self, outcome: str) -> None:
        head = self._head()
        if head:
            self._deliver(head, outcome)
        self._become(Status.RUNNING if head else Status.IDLE)

    def _become(self, status: Status) -> None:
        if status is not self.status and status not in (Status.RUNNING, Status.INTERRUPTING):
            self.owned = False
        self.status = status

    def _run_with_head(self, outcome: str) -> None:
        self._deliver(self._head(), outcome)
        self._become(Status.RUNNING)
        self.compaction = False

    def _leave_error(self) -> None:
        self.attempt, self.retry_at = 1, None
        self._become(Status.RUNNING)

    def _begin_interrupt(self) -> None:
        self._become(Status.INTERRUPTING)
        self.compaction, self.retry_at = False, None

    def _go_on(self) -> None:
        calls = self.open
        ended = [call for call in calls if self.state(call) == "finished"]
        waits = self.actions
        self._results([(call, self.journal[call].outcome) for call in ended])
        if not waits or len(waits) + len(ended) < len(calls):
            self._become(Status.RUNNING)

    # --- people ---

    def send(self, id: str, deliver: Deliver) -> None:
        self._by_people(*Status)
        if self.status is Status.IDLE:
            self._answer_open("skipped")
            self._append("prompt", id)
            self._become(Status.RUNNING)
            self.compaction = False
            return
        self._push(id, deliver)
        if self.status is Status.ERROR:
            self._leave_error()
            self._run_with_head("skipped")
        elif self.status is Status.REQUIRES_ACTION and deliver != "queue":
            self._run_with_head("skipped" if deliver == "steer" else "interrupted")
        elif self.status is Status.RUNNING and deliver == "interrupt":
            self._begin_interrupt()
        elif self.status is Status.RUNNING and deliver == "steer":
            self.retry_at = None

    def interrupt(self) -> None:
        if not self.archived and self.status in (Status.IDLE, Status.INTERRUPTING, Status.ERROR):
            return
        self._by_people(Status.RUNNING, Status.REQUIRES_ACTION)
        if self.status is Status.RUNNING:
            self._begin_interrupt()
            return
        self._answer_open("interrupted")
        self._append("marker", MARKER_TEXTS["interrupted_tools"])
        self._head_or_rest("interrupted")
        self.compaction = False

    def promote(self, id: str) -> None:
        self._by_people(Status.RUNNING, Status.INTERRUPTING, Status.REQUIRES_ACTION, Status.ERROR)
        self._find(id)
        self.queue = [(id, "interrupt"), *[queued for queued in self.queue if queued[0] != id]]
        self.queue_version = self.snapshot
        if self.status is Status.RUNNING:
            self._begin_interrupt()
        elif self.status is Status.REQUIRES_ACTION:
            self._run_with_head("interrupted")
        elif self.status is Status.ERROR:
            self._leave_error()
            self._run_with_head("skipped")

    def remove(self, id: str) -> None:
        self._by_people(Status.RUNNING, Status.INTERRUPTING, Status.REQUIRES_ACTION, Status.ERROR)
        self._find(id)
        self._drop([id])

    def make(self, id: str, deliver: Deliver) -> None:
        """Edit a waiting message so that it becomes of another kind, or stays of its own."""
        self._by_people(Status.RUNNING, Status.INTERRUPTING, Status.REQUIRES_ACTION, Status.ERROR)
        self._find(id)
        if dict(self.queue)[id] != deliver:
            self._drop([id])
            self._push(id, deliver)
            if deliver == "steer":
                self.retry_at = None
        self.queue_version = self.snapshot

    def reverse(self) -> None:
        self._by_people(Status.RUNNING, Status.INTERRUPTING, Status.REQUIRES_ACTION, Status.ERROR)
        if not self.queue:
            self.snapshot -= 1
            return
        kinds = dict(self.queue)
        self.queue = [(id, kinds[id]) for id in reversed(self.waiting)]
        self.queue_version = self.snapshot

    def _find(self, id: str) -> None:
        if id not in dict(self.queue):
            raise Refused

    def edit(self, number: int, text: str) -> None:
        self._by_people(*Status)
        self.history = [entry for entry in self.history if entry.number < number]
        self.journal = {}
        self._drop(self.waiting)
        self._append("prompt", text)
        self._become(Status.RUNNING)
        self.compaction = False

    def retry(self) -> None:
        self._by_people(Status.ERROR)
        self._leave_error()

    def compact(self) -> None:
        self._by_people(Status.IDLE, Status.ERROR)
        if not any(entry.kind == "answer" for entry in self.history):
            raise Refused
        self._leave_error()
        self.compaction = True

    def resolve(self, calls: list[str]) -> None:
        self._by_people(Status.RUNNING, Status.REQUIRES_ACTION)
        if not calls:
            raise Refused
        for call in calls:
            known = self.journal[call]
            self.journal[call] = Call("approved" if known.approval else "finished", known.approval)
        if self.status is Status.REQUIRES_ACTION:
            self._go_on()

    def update(self) -> None:
        self._by_people(*Status)

    def archive(self) -> None:
        self._by_people(Status.IDLE, Status.ERROR)
        self.archived = True

    def unarchive(self) -> None:
        if not self.archived:
            raise Refused
        self.snapshot += 1
        self.archived = False

    # --- workers ---

    def claim(self) -> None:
        if self.runnable and not self.owned:
            self.snapshot += 1
            self.owned = True
            self.epoch += 1

    def crash(self) -> None:
        """Whoever has it is not heard of any more, and another worker looks."""
        self.now += LEASE
        if not (self.runnable and self.owned):
            self.claim()
            return
        self.snapshot += 1
        self.epoch += 1
        self.crashes += 1
        if self.crashes == POISON:
            self.crashes, self.compaction, self.retry_at = 0, False, None
            self._become(Status.ERROR)

    def release(self) -> None:
        self._by_runner(*Status)
        self.owned = False

    def start(self, calls: list[str]) -> None:
        self._by_runner(Status.RUNNING)
        for call in calls:
            self.journal[call] = Call("started")

    def wait(self, calls: list[str], approval: bool, seconds: int | None) -> None:
        self._by_runner(Status.RUNNING)
        for call in calls:
            until = None if seconds is None else self.now + seconds
            self.journal[call] = Call("waiting", approval, until)

    def finish_call(self, call: str) -> None:
        self._by_runner(Status.RUNNING, Status.INTERRUPTING)
        if call not in self.open or self.state(call) == "finished":
            raise Refused
        self.journal[call] = Call("finished")
        self.crashes = 0

    def answer(self, text: str, calls: tuple[str, ...]) -> None:
        self._by_runner(Status.RUNNING)
        self._append("answer", text, calls=calls)
        self.crashes = 0

    def results(self, calls: list[str]) -> None:
        """The calls that ran have ended; what others brought meanwhile is taken along."""
        self._by_runner(Status.RUNNING)
        ended = [call for call in self.open if call in calls or self.state(call) == "finished"]
        self._results([(call, self._outcome(call)) for call in ended])
        self.crashes = 0

    def _outcome(self, call: str) -> str:
        return self.journal[call].outcome if self.state(call) == "finished" else "ok"

    def require_action(self) -> None:
        self._by_runner(Status.RUNNING)
        for call in self.open:
            self.journal.setdefault(call, Call("waiting"))
        self.crashes = 0
        if not self.steering and self.open and len(self.actions) == len(self.open):
            self._become(Status.REQUIRES_ACTION)

    def expire(self) -> None:
        self._by_runner(Status.REQUIRES_ACTION)
        for call in self.actions:
            deadline = self.journal[call].deadline
            if deadline is not None and deadline <= self.now:
                self.journal[call] = Call("finished", outcome="timed_out")
        self._go_on()
        self.crashes = 0
        if self.status is Status.REQUIRES_ACTION:
            self.owned = False

    def deliver(self) -> None:
        self._by_runner(Status.RUNNING)
        if not self.steering:
            self.snapshot -= 1
            return
        self._deliver(self.steering, "skipped")
        self.crashes = 0

    def record_retry(self, seconds: int, release: bool) -> None:
        self._by_runner(Status.RUNNING)
        self.attempt += 1
        self.retry_at = None if self.steering else self.now + seconds
        if release and self.retry_at is not None:
            self.owned = False

    def finish_turn(self) -> None:
        self._by_runner(Status.RUNNING)
        self._head_or_rest("skipped")
        self.crashes, self.compaction, self.retry_at = 0, False, None

    def settle(self, text: str, calls: list[str]) -> None:
        self._by_runner(Status.INTERRUPTING)
        if text:
            self._append("answer", text)
        ended = [call for call in self.open if call in calls or self.state(call) == "finished"]
        self._results([(call, self._outcome(call)) for call in ended])
        self._answer_open("interrupted")
        self._head_or_rest("interrupted")
        self.crashes, self.compaction, self.retry_at = 0, False, None

    def fail(self, text: str) -> None:
        self._by_runner(Status.RUNNING, Status.INTERRUPTING, Status.REQUIRES_ACTION)
        if text:
            self._append("shown", text)
        self.crashes, self.compaction, self.retry_at = 0, False, None
        self._become(Status.ERROR)
