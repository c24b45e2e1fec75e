"""Loads recordings of a server as scripts, to replay a failed turn in a test.

model = ScriptedModel(recorded("chat.jsonl"))
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import msgspec

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.model import Delta, Finished
from holdfast.testing.script import ScriptItem, cut, fail

_KINDS: dict[str, Any] = {kind.__name__: kind for kind in get_args(Delta)}


def recorded(path: str | Path) -> list[ScriptItem]:
    """What each call of a model yielded, in the order of the calls: turns for a `ScriptedModel`.

    One that ended with an error ends so again, with one of the same kind; one that was stopped is
    cut there.
    """
    turns: list[list[ScriptItem]] = []
    for number, text in enumerate(Path(path).read_text("utf-8").splitlines(), 1):
        try:
            line = msgspec.json.decode(text)
            match line["what"]:
                case "request":
                    turns.append([])
                case "delta":
                    kind = _KINDS[line["kind"]]
                    turns[-1].append(msgspec.convert(line["delta"], kind))
                case "end":
                    turns[-1].extend(_end(turns[-1], line.get("error")))
        except (msgspec.DecodeError, msgspec.ValidationError, KeyError, IndexError, TypeError):
            raise ConfigError(f"{path}, line {number}: this is no recording") from None
    return [*turns]


def _end(said: list[ScriptItem], error: dict[str, str] | None) -> list[ScriptItem]:
    if error is not None and "kind" in error:
        return [fail(error["message"], kind=error["kind"])]  # type: ignore[arg-type]
    return [] if said and isinstance(said[-1], Finished) else [cut()]
