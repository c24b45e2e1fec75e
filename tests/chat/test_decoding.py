"""What store threads decode: msgspec has looked at each of these types before, in one thread."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final, get_args

import msgspec
import pytest

import holdfast.chat
from holdfast.chat import budgets, idempotency, invariants, rows

ON_THE_LOOP: Final = frozenset({"holdfast.chat.export"})
"""Modules that decode nothing that a store thread reads."""
PLACE: Final = {"decode": 1, "document": 3, "_once": 1}
"""Where a function has the type."""
CHOSEN: Final = frozenset({"kind", "column_type"})
"""Variables that hold a type of these tables: what else they hold is found where it is given."""
TABLES: Final = (
    *rows.JSON_COLUMNS.values(),
    *(what for table in invariants.TABLES.values() for what in table.documents.values()),
)

FIRST: Final = """
import sys, threading
from holdfast.chat import budgets, idempotency, rows
from holdfast.chat.transitions import user
from holdfast.kernel.decide import Approved
from holdfast.kernel.errors import Failure
from holdfast.kernel.events import Action
from holdfast.kernel.messages import Message, Text, ToolCall, ToolResult, Usage, decode, encode

call = ToolCall("1", "look", "{}")
said = Message("assistant", (Text("Hm."), call), "answer", usage=Usage(input=1), model="a:b")
failure = Failure("network", "It broke.")
retry, rest, rule = rows.PendingRetry(1, 3, failure), rows.TurnOutcome("stop", 2), rows.Rule("look")
values = dict.fromkeys(field.name for field in rows.CHAT_FIELDS)
for name in ("id", "owner", "agent", "root_id"):
    values[name] = "x"
for field in rows.CHAT_FIELDS:
    if field.type is int:
        values[field.name] = 1
values |= {"labels": {"a": "b"}, "rules": (rule,), "status": rows.Status.IDLE, "archived": False,
           "error": failure, "retry": retry, "outcome": rest, "compaction": "person"}
chat = rows.ChatRow(**values)
queued = rows.Queued("q", "steer", said, 0)
made = {
    Message: said,
    ToolResult: ToolResult("1", "look", (Text("seen"),)),
    Action: Action("approval", call, "{}", "0"),
    Approved: Approved("0", {"a": 1}),
    dict[str, str]: {"a": "b"},
    tuple[rows.Rule, ...]: (rule,),
    tuple[rows.ClientTool, ...]: (rows.ClientTool("look"),),
    Failure: failure,
    rows.PendingRetry: retry,
    rows.TurnOutcome: rest,
    rows.ChatRow: chat,
    user.Sent: user.Sent(chat, 1),
    user.Edited: user.Edited(chat, 1, (1,), (queued,)),
    rows.Queued: queued,
    list[rows.Queued]: [queued],
    tuple[str, ...]: ("a",),
}
assert set(made) == {*rows.DECODED, *idempotency.DECODED}
order = list(made.items())
if sys.argv[1] == "reversed":
    order.reverse()
texts = [(kind, value, encode(value)) for kind, value in order]
barrier = threading.Barrier(16)
equal = []

def read():
    for kind, value, text in texts:
        barrier.wait()
        equal.append(decode(text, kind) == value)

sys.setswitchinterval(1e-6)
readers = [threading.Thread(target=read) for _ in range(barrier.parties)]
for reader in readers:
    reader.start()
for reader in readers:
    reader.join()
assert all(equal) and len(equal) == len(texts) * len(readers)
"""


@pytest.mark.parametrize("order", ["as they are", "reversed"])
def test_many_threads_may_decode_a_type_for_the_first_time_at_once(order: str) -> None:
    """In a process that has decoded nothing yet."""
    script = [sys.executable, "-c", FIRST, order]
    done = subprocess.run(script, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()


def decoded() -> Iterator[tuple[str, Any]]:
    """Each type that a function of `chat/` decodes, with its place."""
    for found in pkgutil.iter_modules(holdfast.chat.__path__, "holdfast.chat."):
        module = importlib.import_module(found.name)
        assert module.__file__ is not None
        if found.name in ON_THE_LOOP:
            continue
        with open(module.__file__) as file:
            tree = ast.parse(file.read())
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            where = f"{found.name}:{node.lineno}"
            given = [*node.args[PLACE[name] :]][:1] if name in PLACE else []
            given += [word.value for word in node.keywords if word.arg == "type"]
            for kind in given:
                if not (isinstance(kind, ast.Name) and kind.id in CHOSEN):
                    yield where, eval(ast.unparse(kind), vars(module))
    yield from (("a table", kind) for kind in TABLES)


def structs(kind: Any) -> set[Any]:
    """What msgspec keeps its knowledge on: of a plain type it keeps none."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {kind}
    return {one for part in get_args(kind) for one in structs(part)}


def test_every_type_that_is_decoded_is_prepared() -> None:
    prepared = {
        one
        for each in (*rows.DECODED, *idempotency.DECODED, *budgets.DECODED)
        for one in structs(each)
    }
    found = list(decoded())
    assert len(found) > 20
    assert [place for place in found if not structs(place[1]) <= prepared] == []
