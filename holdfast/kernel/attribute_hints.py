"""Attributes that other libraries have: reading one raises an error that says what to write.

Each is a descriptor of the class. A `__getattr__` would cost every access to the attributes that do
exist, also in the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NoReturn, TypeVar

C = TypeVar("C", bound=type)

_RUN: Final = "await agent.run(…), or agent.run_sync(…) in a program without an event loop"
_EVENTS: Final = "`async for event in agent.run(…)`, or `for event in agent.stream_sync(…)`"
_TOOLS: Final = "@tool on a function, and Agent(tools=[…])"
_CHATS: Final = "a durable chat of holdfast.open(…)"
_SEND: Final = "`await chat.send(…)`, then `result = await chat.rest()`"
_NO_SUCCESS: Final = "result.reason, which is 'stop' after a complete answer"
_VALUE: Final = "result.output, a value of the agent's output type, or result.text"
_HISTORY: Final = ("all_messages", "messages", "to_input_list", "chat_history", "raw_responses")
_TEXT: Final = ("content", "answer", "response", "message", "output_text", "last_message")
_PENDING: Final = ("interruptions", "interrupts", "tool_calls", "pending_approvals")
_STREAM: Final = (
    "stream_events",
    "stream_text",
    "stream_output",
    "stream_responses",
    "stream_structured",
)

FOREIGN_ATTRIBUTES: Final[Mapping[str, Mapping[str, str]]] = {
    "Agent": {
        **dict.fromkeys(("tool", "tool_plain", "add_tool", "register_tool", "bind_tools"), _TOOLS),
        **dict.fromkeys(("system_prompt", "prompt", "system_message"), "Agent(instructions=…)"),
        **dict.fromkeys(("output_validator", "result_validator"), "Agent(validate=…)"),
        **dict.fromkeys(("output_type", "result_type"), "agent.output"),
        "model_settings": "agent.settings",
        "max_turns": "agent.limits.steps",
        "handoffs": "handoff([…]) in Agent(tools=[…])",
        **dict.fromkeys(
            ("invoke", "ainvoke", "arun", "execute", "generate", "kickoff", "predict", "query"),
            _RUN,
        ),
        **dict.fromkeys(("stream", "astream", "astream_events", "iter", *_STREAM), _EVENTS),
        **dict.fromkeys(("run_stream", "run_streamed", "run_stream_events"), _EVENTS),
        "run_stream_sync": "`for event in agent.stream_sync(…)`",
        "to_cli": "await agent.chat(), which takes deps= and history=",
        "to_cli_sync": "agent.chat_sync(), which takes deps= and history=",
        **dict.fromkeys(("copy", "clone", "model_copy", "with_config"), "agent.replace(…)"),
        **dict.fromkeys(("to_a2a", "to_ag_ui", "to_web", "serve"), "holdfast.serve([agent])"),
        **dict.fromkeys(("memory", "checkpointer", "session", "get_state"), _CHATS),
    },
    "Run": {
        **dict.fromkeys(_STREAM, _EVENTS),
        **dict.fromkeys(("get_output", "result", "get"), "`result = await run`"),
        **dict.fromkeys(("cancel", "stop", "abort"), "run.interrupt(), or `await run.aclose()`"),
        **dict.fromkeys(_HISTORY, "run.history"),
    },
    "RunResult": {
        **dict.fromkeys(("data", "final_output", "structured_response", "value"), _VALUE),
        **dict.fromkeys(_TEXT, "result.text"),
        **dict.fromkeys((*_HISTORY, "all_messages_json"), "result.history"),
        **dict.fromkeys(("new_messages", "new_items", "new_messages_json"), "result.new"),
        **dict.fromkeys(_PENDING, "result.actions"),
        **dict.fromkeys(("error", "exception"), "result.failure"),
        **dict.fromkeys(("stop_reason", "finish_reason", "status"), "result.reason"),
        **dict.fromkeys(("ok", "success", "done"), _NO_SUCCESS),
        "cost": "result.usage.cost",
        "timestamp": "your own clock when the run has ended: messages of a run have no time",
        "run_id": "an id of your own; a durable chat has chat.id",
        **dict.fromkeys(_STREAM, _EVENTS),
    },
    "ChatResult": {
        **dict.fromkeys(("data", "final_output"), "result.output"),
        **dict.fromkeys(_TEXT, "result.text"),
        **dict.fromkeys(("history", "new", *_HISTORY), "await chat.history()"),
        **dict.fromkeys(_PENDING, "result.actions"),
        **dict.fromkeys(("error", "exception"), "result.failure"),
        **dict.fromkeys(("stop_reason", "finish_reason", "status"), "result.reason"),
    },
    "Chat": {
        **dict.fromkeys(("run", "invoke", "ainvoke", "ask", "prompt", "send_message"), _SEND),
        **dict.fromkeys(("result", "wait", "join"), "`result = await chat.rest()`"),
        **dict.fromkeys(("events", "subscribe", "watch"), "`async for event in chat.stream()`"),
        **dict.fromkeys(("cancel", "stop", "abort"), "await chat.interrupt()"),
        **dict.fromkeys(("approve", "respond"), "await chat.resolve({action id: answer})"),
    },
    "Tool": {
        **dict.fromkeys(("func", "fn", "run", "invoke", "on_invoke_tool"), "tool.function"),
        **dict.fromkeys(
            ("args", "args_schema", "parameters", "input_schema", "params_json_schema"),
            "tool.spec.schema",
        ),
    },
}
"""Attributes that other libraries have, by the name of our class: what to write."""


class ForeignAttribute:
    """An attribute that a class does not have, because it has another instead."""

    def __init__(self, remedy: str) -> None:
        self._remedy = remedy

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__} has no attribute {self._name!r}: {self._remedy}")


def answer_foreign_attributes(cls: C) -> C:
    """Decorator of a class: reading an attribute of another library says what to write.

    `dir` does not list these attributes, so that they are not completed.
    """
    for name, remedy in FOREIGN_ATTRIBUTES[cls.__name__].items():
        if not hasattr(cls, name):
            attribute = ForeignAttribute(f"use {remedy}")
            attribute.__set_name__(cls, name)
            setattr(cls, name, attribute)
    type.__setattr__(cls, "__dir__", _own_names)
    return cls


def _own_names(self: object) -> Iterable[str]:
    classes = type(self).__mro__
    foreign = {
        name
        for one in classes
        for name, value in vars(one).items()
        if isinstance(value, ForeignAttribute)
    }
    return sorted({*object.__dir__(self)} - foreign)
