"""Run the program that the README begins with, exactly as it stands there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

README: Final = Path(__file__).resolve().parent.parent / "README.md"
OPENING: Final = "```python\n"
CLOSING: Final = "```\n"


def first_program(text: str) -> str:
    """The first Python block, on the lines it has in `text`, so that a traceback points there."""
    before, opening, rest = text.partition(OPENING)
    program, closing, _ = rest.partition(CLOSING)
    if not (opening and closing):
        raise SystemExit(f"{README.name} has no Python block")
    return "\n" * (before + opening).count("\n") + program


if __name__ == "__main__":
    program = compile(first_program(README.read_text("utf-8")), README, "exec")
    exec(program, {"__name__": "__main__"})
