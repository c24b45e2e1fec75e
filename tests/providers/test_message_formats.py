"""Message lists of OpenAI and Anthropic, converted in both directions."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

import msgspec
import pytest

from holdfast.errors import FormatError
from holdfast.messages import (
    File,
    Message,
    Reasoning,
    Text,
    ToolCall,
    dump,
    from_anthropic,
    from_openai,
    load,
    to_anthropic,
    to_openai,
)
from holdfast.testing.fake.anthropic import DIALECT as ANTHROPIC
from holdfast.testing.fake.dialect_interface import ReceivedRequest
from holdfast.testing.fake.openai_chat_rules import request_problem as chat_problem
from tests.kernel.runs import act, requests_of, scripted

Json = dict[str, Any]

PNG: Final = b64encode(b"png").decode()
PDF: Final = b64encode(b"pdf").decode()

OPENAI: Final[list[Json]] = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "And these?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.gif"}},
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
            },
            {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}},
        ],
    },
    {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "act", "arguments": '{"x": 1}'}},
            {"id": "b", "type": "function", "function": {"name": "act", "arguments": "{"}},
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "done"},
    {"role": "tool", "tool_call_id": "b", "content": "failed"},
    {"role": "assistant", "content": "It rises."},
    {"role": "user", "content": "Thanks."},
]

CLAUDE: Final[list[Json]] = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "And these?"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": PNG},
            },
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.gif"}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                "title": "a.pdf",
            },
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "s"},
            {"type": "redacted_thinking", "data": "secret"},
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "a", "name": "act", "input": {"x": 1}},
            {"type": "tool_use", "id": "b", "name": "act", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "done"},
            {"type": "tool_result", "tool_use_id": "b", "content": "no", "is_error": True},
            {"type": "text", "text": "Well?"},
        ],
    },
    {
        "role": "assistant",
        "content": [
            {
                "type": "server_tool_use",
                "id": "srvtoolu_1",
                "name": "web_search",
                "input": {"query": "q"},
            },
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [
                    {
                        "type": "web_search_result",
                        "title": "T",
                        "url": "https://example.org",
                        "encrypted_content": "e",
                    }
                ],
            },
            {"type": "text", "text": "It rises."},
        ],
    },
]


def test_a_list_of_openai_returns_from_a_history_unchanged() -> None:
    history = load(dump(from_openai(OPENAI)))
    assert to_openai(history) == OPENAI


def test_a_list_of_openai_is_a_history_with_kinds_files_and_calls() -> None:
    system, prompt, calls, results, answer, _ = from_openai(OPENAI, model="openai:gpt-5")
    assert (system.kind, system.visibility) == ("context", "model")
    assert prompt.parts[1] == File("image/png", data=b"png")
    assert prompt.parts[2] == File("image/gif", ref="https://example.org/a.gif")
    assert prompt.parts[3] == File("application/pdf", "a.pdf", b"pdf")
    assert calls.calls[0] == ToolCall("a", "act", '{"x": 1}')
    assert calls.calls[1].complaint
    assert [(one.call_id, one.tool, one.text) for one in results.results] == [
        ("a", "act", "done"),
        ("b", "act", "failed"),
    ]
    assert (answer.finish, answer.model) == ("stop", "openai:gpt-5")


def test_a_list_of_anthropic_returns_from_a_history_unchanged() -> None:
    history = load(dump(from_anthropic(CLAUDE)))
    assert to_anthropic(history) == CLAUDE


def test_lists_that_were_written_are_accepted_by_the_providers() -> None:
    foreign = (*from_anthropic(CLAUDE), Message("user", (Text("And?"),), "prompt"))
    data = msgspec.json.encode({"model": "m", "stream": True, "messages": to_openai(foreign)})
    head = {"Authorization": "Bearer k", "Content-Type": "application/json"}
    assert chat_problem(ReceivedRequest("/v1/chat/completions", {}, head, data)) is None
    body = {
        "model": "m",
        "max_tokens": 9,
        "stream": True,
        "messages": to_anthropic(from_openai(OPENAI)),
    }
    headers = {
        "x-api-key": "k",
        "anthropic-version": "2023-06-01",
        "content-type": "application/json",
    }
    received = ReceivedRequest("/v1/messages", {}, headers, msgspec.json.encode(body))
    assert ANTHROPIC.problem(received) is None


def test_reasoning_is_kept_for_its_provider() -> None:
    answer = from_anthropic(CLAUDE)[1]
    assert answer.parts[0].text == "Hm."  # type: ignore[union-attr]
    assert "Hm." not in str(to_openai(from_anthropic(CLAUDE)))
    deepseek = [{"role": "assistant", "content": "Ho", "reasoning_content": "Hm."}]
    assert from_openai(deepseek)[0].parts == (Reasoning("Hm."), Text("Ho"))


async def test_an_agent_continues_a_conversation_of_another_library() -> None:
    agent = scripted(["You are welcome."], act)
    result = await agent.run(history=from_openai(OPENAI))
    assert result.text == "You are welcome."
    assert requests_of(agent)[0].messages[-1].text == "Thanks."


def test_an_open_call_is_run_and_has_a_result_when_it_is_written() -> None:
    history = from_openai(OPENAI[1:3])
    assert [message["role"] for message in to_openai(history)] == [
        "user",
        "assistant",
        "tool",
        "tool",
    ]


class Dumped:
    """A message as an SDK returns it."""

    def model_dump(self, **options: Any) -> Json:
        assert options == {"mode": "json", "exclude_none": True}
        return {"role": "assistant", "content": "Hello."}


def test_an_object_of_an_sdk_is_a_message() -> None:
    assert from_openai([Dumped()])[0].text == "Hello."  # type: ignore[list-item]


def test_all_problems_of_a_list_are_reported_with_their_positions() -> None:
    wrong: list[Any] = [
        {"role": "robot", "content": "x"},
        {"role": "user", "content": ""},
        {"role": "user", "content": [{"type": "video"}, {"type": "image_url", "image_url": {}}]},
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "act"}}]},
        {"role": "tool", "tool_call_id": "z", "content": "?"},
        "Hi",
        {"type": "function_call", "call_id": "1"},
    ]
    with pytest.raises(FormatError) as caught:
        from_openai(wrong)
    lines = str(caught.value).split("\n- ")[1:]
    assert [line.partition(": ")[0] for line in lines] == [
        "messages[0].role",
        "messages[1].content",
        "messages[2].content[0].type",
        "messages[2].content[1].image_url",
        "messages[3].tool_calls[0].function.arguments",
        "messages[4].tool_call_id",
        "messages[5]",
        "messages[6]",
    ]
    with pytest.raises(FormatError, match=r"messages\[0\].content\[0\].source: is a stored file"):
        from_anthropic(
            [{"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]}]
        )
    with pytest.raises(FormatError, match="is not a list of messages"):
        from_anthropic("Hi")  # type: ignore[arg-type]


def test_a_long_list_of_problems_is_shortened() -> None:
    with pytest.raises(FormatError, match="and 5 more"):
        from_openai([{"role": "robot"}] * 25)
