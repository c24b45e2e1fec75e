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
    """The recorded answers in the order of the calls, as turns for a `ScriptedModel`.

    An answer that ended with an error ends with an error of the same kind; an interrupted one is
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
            raise ConfigError(f"{path}, line {number}: this is not a recording") from None
    return [*turns]


def _end(deltas: list[ScriptItem], error: dict[str, str] | None) -> list[ScriptItem]:
    if error is not None and "kind" in error:
        return [fail(error["message"], kind=error["kind"])]  # type: ignore[arg-type]
    return [] if deltas and isinstance(deltas[-1], Finished) else [cut()]
