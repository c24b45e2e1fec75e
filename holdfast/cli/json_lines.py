"""What `holdfast run --json` says: each event as JSON on a line of its own."""

from __future__ import annotations

import json
import re

from holdfast.cli.terminal import Out
from holdfast.kernel.events import Event
from holdfast.kernel.messages import encode


class JsonLines:
    """A view for programs."""

    def __init__(self, answer: Out) -> None:
        self._answer = answer

    def show(self, event: Event) -> None:
        line = encode(event).decode()
        if not self._answer.holds(line):  # JSON can say everything in ASCII
            line = re.sub(r"[^\x00-\x7f]", lambda odd: json.dumps(odd[0])[1:-1], line)
        self._answer.write(f"{line}\n")
        self._answer.flush()

    def note(self, text: str) -> None:
        """Nothing: standard error is kept for what went wrong."""

    def tick(self) -> None:
        """Nothing: a program counts the seconds itself."""

    def stopping(self) -> None:
        """Nothing: the run says how it ends."""

    def end(self) -> None:
        """Nothing: every line is complete."""
