"""Binding of an approval: the digest of call, arguments and attempt that a person agrees to.

An approval names the digest of the action it answers. Admission computes the digest of the call
again and accepts the approval only if both are equal, so that an approval covers exactly one run
of exactly these arguments.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec

from holdfast.kernel.events import Action, ActionKind
from holdfast.kernel.messages import ToolCall, encode

AGAIN: Final = (
    "This call began before a restart and may have taken effect already. If it is allowed, it runs "
    "again."
)


def action(
    kind: ActionKind,
    call: ToolCall,
    arguments: str,
    preview: str | None,
    *,
    again: bool = False,
    attempt: int = 0,
) -> Action:
    """The action that a call waits for, bound to exactly these arguments (canonical JSON).

    With `again`, it asks whether a call that had started may run again, and is bound to the
    attempt as well.
    """
    if again:
        preview = AGAIN if preview is None else f"{AGAIN}\n\n{preview}"
    bound = digest(call.id, call.tool, arguments, again=again, attempt=attempt)
    return Action(kind, call, arguments, bound, preview, again, attempt)


def canonical(value: object) -> str:
    """Canonical JSON of a value: keys sorted, no spaces."""
    plain = msgspec.to_builtins(value, order="sorted")
    try:
        return msgspec.json.encode(plain).decode()
    except UnicodeEncodeError:  # a lone surrogate: JSON can hold it as an escape
        return json.dumps(plain, separators=(",", ":"))


def digest(
    call_id: str, tool: str, arguments: str, *, again: bool = False, attempt: int = 0
) -> str:
    """SHA-256 over what an approval is for: approving one run does not approve the next.

    With `again` and no attempt, the digest is the one of approvals stored before attempts were
    counted.
    """
    from hashlib import sha256

    what: list[object] = [call_id, tool, arguments]
    if again:
        what += ["again", attempt] if attempt else ["again"]
    return sha256(encode(what)).hexdigest()
