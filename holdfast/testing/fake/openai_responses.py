"""OpenAI's Responses API of the fake provider.

Reasoning is sent as a summary, with a new part after each blank line. A `signature` is its
encrypted content. Metadata `{anything: {"item": {…}}}` of a part or a call is merged into its item:
ids, the phase of a message, or all of an item that the provider runs. Answers to requests with
`store` are remembered, and later requests can refer to them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import blake2b
from typing import Any, Final

import msgspec

from holdfast.kernel.messages import (
    File,
    Metadata,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from holdfast.kernel.model import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    PartAdded,
    PartEnded,
    Ping,
    ReasoningDelta,
    TextDelta,
)
from holdfast.providers.request_body import JsonObject
from holdfast.testing.fake.dialect_interface import FakeDialect, Problem, ReceivedRequest, event
from holdfast.testing.fake.openai_responses_rules import ResponseMemory, request_problem

CREATED_AT: Final = 1_760_000_000
PROVIDER_TOOL_ITEMS: Final = {
    "web_search": "web_search_call",
    "code_execution": "code_interpreter_call",
    "file_search": "file_search_call",
    "image_generation": "image_generation_call",
}
"""Items of the tools that the provider runs. Other tools are those of an MCP server."""
ID_PREFIXES: Final = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "mcp_call": "mcp",
}
PROGRESS_EVENTS: Final = {
    "web_search_call": ("in_progress", "searching", "completed"),
    "file_search_call": ("in_progress", "searching", "completed"),
    "code_interpreter_call": ("in_progress", "interpreting", "completed"),
    "image_generation_call": ("in_progress", "generating", "completed"),
    "mcp_call": ("in_progress", "completed"),
}
CODES_BY_STATUS: Final = {
    401: "invalid_api_key",
    404: "model_not_found",
    429: "rate_limit_exceeded",
    500: "server_error",
    503: "server_is_overloaded",
    529: "server_is_overloaded",
}
"""Error codes by status."""
INCOMPLETE_REASONS: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}


def refusal(problem: Problem) -> bytes:
    """Body of a refusal."""
    code = problem.code or CODES_BY_STATUS.get(problem.status)
    kind = "invalid_request_error" if problem.status < 500 else "server_error"
    kind = "insufficient_quota" if code == "insufficient_quota" else kind
    error = {"message": problem.message, "type": kind, "param": None, "code": code}
    return msgspec.json.encode({"error": error})


class _OpenCall:
    """A call whose pieces are being sent."""

    def __init__(self, item: JsonObject, at: int, tool: str) -> None:
        self.item = item
        self.at = at
        self.tool = tool
        self.pieces: list[str] = []
        self.result: ToolResult | None = None

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


class ResponsesEncoder:
    """Encodes one answer, item by item."""

    def __init__(
        self, memory: ResponseMemory, received: ReceivedRequest, usage: Usage | None
    ) -> None:
        try:
            body = received.json
        except msgspec.DecodeError:
            body = {}
        self._body: JsonObject = body if isinstance(body, dict) else {}
        self._memory = memory
        self._id_suffix = blake2b(received.body, digest_size=6).hexdigest()
        """Part of every id, derived from the request."""
        self._number = 0
        self._output: list[JsonObject] = []
        self._open: JsonObject | None = None
        """The open message or reasoning."""
        self._newline = ""
        """A newline that may be half of a blank line."""
        self._calls: dict[str, _OpenCall] = {}
        self._pending_result: _OpenCall | None = None
        """A call of the provider whose result may still follow."""

    # --- the frame ---

    def opening(self) -> Iterable[bytes]:
        yield self._event("response.created", response=self._response("in_progress"))
        yield self._event("response.in_progress", response=self._response("in_progress"))

    def failure(self, problem: Problem) -> Iterable[bytes]:
        code = problem.code or CODES_BY_STATUS.get(problem.status, "server_error")
        error = {"code": code, "message": problem.message}
        yield self._event("error", **error, param=None)
        failed = {**self._response("failed"), "error": error}
        yield self._event("response.failed", response=failed)

    def _event(self, name: str, **fields: Any) -> bytes:
        self._number += 1
        return event({"type": name, "sequence_number": self._number - 1, **fields}, name)

    def _response(self, status: str, usage: JsonObject | None = None) -> JsonObject:
        body = self._body
        return {
            "id": f"resp_{self._id_suffix}",
            "object": "response",
            "created_at": CREATED_AT,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"),
            "model": body.get("model", "fake"),
            "output": list(self._output) if status != "in_progress" else [],
            "parallel_tool_calls": True,
            "previous_response_id": body.get("previous_response_id"),
            "store": body.get("store", True),
            "temperature": 1.0,
            "text": body.get("text") or {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": body.get("tools") or [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": usage,
            "metadata": {},
        }

    def _end(self, finished: Finished) -> Iterator[bytes]:
        yield from self._close()
        for call in list(self._calls.values()):  # truncated
            yield from self._done(call, "incomplete")
        cut = INCOMPLETE_REASONS.get(finished.finish)
        status = "incomplete" if cut else "completed"
        response = self._response(status, _usage(finished.usage or Usage()))
        if cut:
            response["incomplete_details"] = {"reason": cut}
        self._remember()
        yield self._event(f"response.{status}", response=response)

    def _remember(self) -> None:
        for before, item in zip(self._output, self._output[1:], strict=False):
            if before["type"] == "reasoning" and item["type"] != "reasoning":
                self._memory.led_by[item["id"]] = before["id"]
        if self._body.get("store", True) and "input" in self._body:
            context = [*self._memory.context(self._body), *self._output]
            self._memory.stored[f"resp_{self._id_suffix}"] = context

    # --- content ---

    def encode_delta(self, delta: Delta) -> Iterable[bytes]:
        match delta:
            case TextDelta(text):
                yield from self._text(text)
            case ReasoningDelta(text):
                yield from self._think(text)
            case PartEnded(signature, metadata):
                yield from self._end_part(signature, metadata)
            case CallStarted():
                yield from self._start(delta)
            case ArgumentsDelta(call_id, text):
                yield from self._add_arguments(self._calls[call_id], text)
            case CallEnded(call_id, metadata):
                yield from self._end_call(call_id, _item_in_metadata(metadata))
            case PartAdded(part):
                yield from self._add(part)
            case Ping():
                yield self._event("keepalive")
            case Finished():
                yield from self._end(delta)
            case _:
                pass  # not sent by providers

    def _add(self, part: object) -> Iterator[bytes]:
        match part:
            case Text(text, metadata):
                yield from self._text(text)
                yield from self._end_part(None, metadata)
            case Reasoning(text, signature, metadata=metadata):
                yield from self._think(text)
                yield from self._end_part(signature, metadata)
            case ToolCall(id, tool, arguments, metadata=metadata):
                yield from self.encode_delta(CallStarted(id, tool, part.provider_executed))
                yield from self.encode_delta(ArgumentsDelta(id, arguments))
                yield from self.encode_delta(CallEnded(id, metadata))
            case ToolResult():
                if self._pending_result is not None:
                    self._pending_result.result = part
                yield from self._flush()
            case Source(url, title):
                yield from self._cite(url, title or "")
            case File(media_type=media_type, data=bytes(data)):
                picture = {"result": b64encode(data).decode(), "status": "completed"}
                picture["output_format"] = media_type.partition("/")[2]
                yield from self.encode_delta(
                    CallStarted(f"ig_{self._id_suffix}", "image_generation", True)
                )
                yield from self.encode_delta(
                    CallEnded(f"ig_{self._id_suffix}", {"": {"item": picture}})
                )
            case _:
                raise TypeError(f"this protocol has no form for {part!r}")

    # --- messages and reasoning ---

    def _begin(self, item: JsonObject) -> Iterator[bytes]:
        """Open an item of this type, unless one is open."""
        if self._open is not None and self._open["type"] == item["type"]:
            return
        yield from self._close()
        self._open = {"id": self._id(item["type"]), **item}
        self._output.append(self._open)
        yield self._event("response.output_item.added", output_index=self._at, item=self._open)

    @property
    def _at(self) -> int:
        return len(self._output) - 1

    def _id(self, type: str) -> str:
        return f"{ID_PREFIXES[type]}_{self._id_suffix}_{len(self._output)}"

    def _text(self, text: str) -> Iterator[bytes]:
        message = {"type": "message", "role": "assistant", "status": "in_progress", "content": []}
        yield from self._begin(message)
        assert self._open is not None
        if not self._open["content"]:
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            self._open["content"].append(part)
            yield self._content("response.content_part.added", part=dict(part))
        self._open["content"][-1]["text"] += text
        yield self._content("response.output_text.delta", delta=text, logprobs=[])

    def _content(self, name: str, **fields: Any) -> bytes:
        assert self._open is not None
        where = {"item_id": self._open["id"], "output_index": self._at, "content_index": 0}
        return self._event(name, **where, **fields)

    def _cite(self, url: str, title: str) -> Iterator[bytes]:
        yield from self._text("")
        assert self._open is not None
        part = self._open["content"][-1]
        cited: JsonObject = {"type": "url_citation", "url": url, "title": title}
        cited |= {"start_index": 0, "end_index": len(part["text"])}
        part["annotations"].append(cited)
        number = len(part["annotations"]) - 1
        yield self._content(
            "response.output_text.annotation.added", annotation=cited, annotation_index=number
        )

    def _think(self, text: str) -> Iterator[bytes]:
        yield from self._begin({"type": "reasoning", "summary": []})
        assert self._open is not None
        summary = self._open["summary"]
        text = self._newline + text
        self._newline = "\n" if text.endswith("\n") and not text.endswith("\n\n") else ""
        text = text.removesuffix(self._newline)
        for number, piece in enumerate(text.split("\n\n") if text else ()):
            if summary and number:
                yield from self._end_summary(summary)
            if not summary or number:
                summary.append({"type": "summary_text", "text": ""})
                yield self._summary("part.added", part=dict(summary[-1]))
            if piece:
                summary[-1]["text"] += piece
                yield self._summary("text.delta", delta=piece)

    def _summary(self, name: str, **fields: Any) -> bytes:
        assert self._open is not None
        where = {"item_id": self._open["id"], "output_index": self._at}
        where["summary_index"] = len(self._open["summary"]) - 1
        return self._event(f"response.reasoning_summary_{name}", **where, **fields)

    def _end_summary(self, summary: list[JsonObject]) -> Iterator[bytes]:
        yield self._summary("text.done", text=summary[-1]["text"])
        yield self._summary("part.done", part=dict(summary[-1]))

    def _end_part(self, signature: str | None, metadata: Metadata | None) -> Iterator[bytes]:
        if self._open is None:  # reasoning without a summary
            yield from self._begin({"type": "reasoning", "summary": []})
        assert self._open is not None
        if signature is not None:
            self._open["encrypted_content"] = signature
        self._open |= _item_in_metadata(metadata)
        yield from self._close()

    def _close(self) -> Iterator[bytes]:
        """Close the open item."""
        yield from self._flush()
        item = self._open
        if item is None:
            return
        if item["type"] == "message":
            item["status"] = "completed"
            for part in item["content"]:
                yield self._content("response.output_text.done", text=part["text"], logprobs=[])
                yield self._content("response.content_part.done", part=part)
        else:
            if self._newline:
                item["summary"][-1]["text"] += self._newline
                yield self._summary("text.delta", delta=self._newline)
                self._newline = ""
            if item["summary"]:
                yield from self._end_summary(item["summary"])
            if "reasoning.encrypted_content" in (self._body.get("include") or ()):
                item.setdefault("encrypted_content", f"encrypted-{item['id']}")
        self._open = None
        yield self._event("response.output_item.done", output_index=self._at, item=item)

    # --- calls ---

    def _start(self, started: CallStarted) -> Iterator[bytes]:
        yield from self._close()
        type = "function_call"
        if started.provider_executed:
            type = PROVIDER_TOOL_ITEMS.get(started.tool, "mcp_call")
        item: JsonObject = {"id": self._id(type), "type": type, "status": "in_progress"}
        if started.provider_executed:
            item = {**item, **_EMPTY_CALL_FIELDS.get(type, {})}
            item |= {"name": started.tool, "server_label": "fake"} if type == "mcp_call" else {}
        else:
            item |= {"call_id": started.call_id, "name": started.tool, "arguments": ""}
        self._output.append(item)
        self._calls[started.call_id] = _OpenCall(item, self._at, started.tool)
        yield self._event("response.output_item.added", output_index=self._at, item=dict(item))

    def _add_arguments(self, call: _OpenCall, text: str) -> Iterator[bytes]:
        call.pieces.append(text)
        kind = call.item["type"]
        if kind in ("function_call", "mcp_call"):
            name = f"response.{kind}_arguments.delta"
            yield self._call_event(call, name, delta=text)

    def _call_event(self, call: _OpenCall, name: str, **fields: Any) -> bytes:
        return self._event(name, item_id=call.item["id"], output_index=call.at, **fields)

    def _end_call(self, call_id: str, fields: JsonObject) -> Iterator[bytes]:
        call = self._calls[call_id]
        call.item |= fields
        if call.item["type"] == "function_call":
            yield from self._done(call, "completed")
            return
        del self._calls[call_id]
        self._pending_result = call
        if "status" not in fields:
            call.item["status"] = "completed"

    def _done(self, call: _OpenCall, status: str) -> Iterator[bytes]:
        """Close a call that is complete or truncated."""
        self._calls = {id: other for id, other in self._calls.items() if other is not call}
        if call.item["type"] == "function_call":
            call.item |= {"arguments": call.arguments, "status": status}
            if status == "completed":
                name = "response.function_call_arguments.done"
                yield self._call_event(call, name, arguments=call.arguments)
        yield self._event("response.output_item.done", output_index=call.at, item=call.item)

    def _flush(self) -> Iterator[bytes]:
        """Close a call that the provider ran."""
        call, self._pending_result = self._pending_result, None
        if call is None:
            return
        item = call.item
        _fill_call_item(item, call)
        for step in PROGRESS_EVENTS[item["type"]]:
            yield self._call_event(call, f"response.{item['type']}.{step}")
            if item["type"] == "code_interpreter_call" and step == "in_progress":
                name = "response.code_interpreter_call_code"
                yield self._call_event(call, f"{name}.delta", delta=item["code"])
                yield self._call_event(call, f"{name}.done", code=item["code"])
        yield self._event("response.output_item.done", output_index=call.at, item=item)


_EMPTY_CALL_FIELDS: Final[dict[str, JsonObject]] = {
    "web_search_call": {"action": {"type": "search", "query": ""}},
    "code_interpreter_call": {"code": "", "container_id": "cntr_fake", "outputs": None},
    "file_search_call": {"queries": [], "results": None},
    "image_generation_call": {"result": None},
    "mcp_call": {"arguments": ""},
}


def _fill_call_item(item: JsonObject, call: _OpenCall) -> None:
    """Fill the item of a finished call with its arguments and its outcome."""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError:
        arguments = {"query": call.arguments}
    output = call.result.text if call.result is not None else ""
    match item["type"]:
        case "web_search_call":
            item["action"] = arguments.get("action") or {**item["action"], **arguments}
        case "code_interpreter_call":
            item["code"] = arguments.get("code", item["code"])
            if output:
                item["outputs"] = [{"type": "logs", "logs": output}]
        case "mcp_call":
            item["arguments"] = call.arguments or item["arguments"]
            if output:
                item["output"] = output
        case _:
            item |= {key: value for key, value in arguments.items() if key in item}


def _item_in_metadata(metadata: Metadata | None) -> JsonObject:
    for own in (metadata or {}).values():
        if isinstance(own, dict) and isinstance(own.get("item"), dict):
            return dict(own["item"])
    return {}


def _usage(usage: Usage) -> JsonObject:
    read, written = usage.cache_read, usage.cache_write
    return {
        "input_tokens": usage.input + read + written,
        "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + read + written + usage.output,
    }


def new_dialect() -> FakeDialect:
    """Create the dialect of one fake provider, with its memory."""
    memory = ResponseMemory()
    return FakeDialect(
        problem=partial(request_problem, memory=memory),
        refusal=refusal,
        encoder=partial(ResponsesEncoder, memory),
    )


DIALECT: Final = new_dialect
