"""Output of `holdfast run --json`: each event as JSON on its own line."""

from __future__ import annotations

import json
import re

from holdfast.cli.output_stream import OutputStream
from holdfast.kernel.events import Event
from holdfast.kernel.messages import encode


class JsonView:
    """A view that writes JSON lines for programs."""

    def __init__(self, answer: OutputStream) -> None:
        self._answer = answer

    def show(self, event: Event) -> None:
        line = encode(event).decode()
        if not self._answer.holds(line):  # ASCII can express all of JSON
            line = re.sub(r"[^\x00-\x7f]", lambda odd: json.dumps(odd[0])[1:-1], line)
        self._answer.write(f"{line}\n")
        self._answer.flush()

    def show_prompt(self, text: str) -> None:
        """Do nothing: a message that was committed is an event."""

    def new_turn(self) -> None:
        """Do nothing: a run that starts is an event."""

    def void(self) -> None:
        """Do nothing: the committed message has the whole text."""

    def note(self, text: str) -> None:
        """Do nothing: standard error is reserved for errors."""

    def tick(self) -> None:
        """Do nothing: programs need no clock."""

    def stopping(self) -> None:
        """Do nothing: the run reports how it ends."""

    def end(self) -> None:
        """Do nothing: every line is complete."""
