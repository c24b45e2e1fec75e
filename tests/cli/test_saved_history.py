"""Saved histories become chats, and chats histories."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given

from holdfast.chat.export import parse
from holdfast.chat.journal import NO_RESULT_TEXT
from holdfast.cli.history_to_chat import exported, is_history
from holdfast.cli.import_ import read
from holdfast.kernel.errors import ConfigError
from holdfast.messages import Message, dump, load
from tests.cli.test_transfer import say
from tests.kernel import histories
from tests.kernel.histories import answer, prompt


@given(histories.histories)
def test_a_history_is_the_messages_of_its_chat(messages: list[Message]) -> None:
    data = dump(messages)
    assert is_history(data) == bool(messages)
    chat = parse(exported(data, {}, 7))
    assert [one.message for one in chat.messages] == messages
    assert [one.number for one in chat.messages] == list(range(1, len(messages) + 1))


def test_a_call_that_a_crash_cut_off_is_lost() -> None:
    asked = answer(histories.call("a", "pay"), histories.call("b", "pay"))
    data = json.loads(dump([prompt(), asked])) | {"started": ["a", "gone"]}
    chat = parse(exported(json.dumps(data).encode(), {}, 7))
    (result,) = chat.messages[-1].message.results
    assert (result.call_id, result.outcome, result.text) == ("a", "lost", NO_RESULT_TEXT["lost"])


@pytest.mark.parametrize(
    "content",
    [
        b"Dear diary,",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"format":1}',
        b'{"format":3,"messages":[]}',
        b'{"format":2,"messages":[]}',
    ],
)
def test_what_is_neither_a_chat_nor_a_history_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="is neither an exported chat nor a saved history"):
        read(str(path))


def test_a_history_is_imported_for_its_directory_and_exported_again(tmp_path: Path) -> None:
    talk = tmp_path / "work" / "talk.json"
    talk.parent.mkdir()
    asked = answer(histories.call("a", "pay"), histories.call("b", "pay"))
    history = [prompt("say one"), answer("one"), prompt("Pay."), asked]
    talk.write_text(json.dumps(json.loads(dump(history)) | {"started": ["a"]}))
    id, _ = say(tmp_path, "import", str(talk))
    lines, _ = say(tmp_path, "export", id.strip())
    assert json.loads(lines.splitlines()[0])["chat"]["labels"] == {
        "directory": os.path.dirname(talk)
    }
    again, _ = say(tmp_path, "export", id.strip(), "--format", "json")
    messages = load(again)
    assert [one.text for one in messages[:3]] == ["say one", "one", "Pay."]
    outcomes = {one.call_id: one.outcome for message in messages for one in message.results}
    assert outcomes == {"a": "lost", "b": "forked"}
