from __future__ import annotations

import pytest

from holdfast.cli.run_texts import headline
from holdfast.kernel.messages import Message, Text, ToolCall, ToolResult

CALL = ToolCall("c1", "write_file", '{"path": "big')
RESULT = ToolResult("c1", "write_file", (Text("Not run."),), "interrupted")


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (Message("assistant", (Text("Hello."), CALL), "answer"), "Hello."),
        (Message("assistant", (CALL,), "answer"), "(write_file)"),
        (Message("assistant", (CALL, RESULT), "answer", "user"), "(write_file: interrupted)"),
        (Message("tool", (RESULT, RESULT), "results"), "(write_file: interrupted, write_file: …)"),
        (Message("user", (), "prompt"), "(prompt)"),
    ],
)
def test_a_message_without_text_is_listed_by_its_calls_and_results(
    message: Message, line: str
) -> None:
    assert headline(message) == line.replace("…", "interrupted")
