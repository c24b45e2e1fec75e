"""ARCHITECTURE.md shows the table of transitions as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from holdfast.chat.rows import Status
from holdfast.chat.state_machine import TRANSITIONS, diagram

ARCHITECTURE: Final = Path(__file__).resolve().parents[2] / "ARCHITECTURE.md"


def test_the_diagram_in_the_architecture_is_the_one_of_the_table() -> None:
    text = ARCHITECTURE.read_text("utf-8")
    _, start, rest = text.partition("<!-- states -->")
    shown, end, _ = rest.partition("<!-- /states -->")
    assert (start, end) == ("<!-- states -->", "<!-- /states -->")
    assert shown.strip() == "```mermaid\n" + diagram() + "\n```"


def test_every_change_of_status_is_an_arrow_with_its_transitions() -> None:
    lines = diagram().splitlines()
    assert lines[:2] == ["stateDiagram-v2", "    [*] --> running: create"]
    shown = {
        (start.strip(), end, name)
        for start, end, names in (_arrow(line) for line in lines[2:])
        for name in names
    }
    assert shown == {
        (status.value, outcome.value, transition.words)
        for (status, transition), outcomes in TRANSITIONS.items()
        for outcome in outcomes
        if outcome is not status
    }
    assert {end for _, end, _ in shown} == {status.value for status in Status}


def _arrow(line: str) -> tuple[str, str, list[str]]:
    start, _, rest = line.partition(" --> ")
    end, _, names = rest.partition(": ")
    return start, end, names.split(", ")
