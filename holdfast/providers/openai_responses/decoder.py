"""Decodes the events of OpenAI's Responses API into deltas. Pure.

Every event names its item. Items are repeated when they are done, and again with the whole answer.
A text that was emitted is not emitted twice, and a missing one is emitted then, because servers
that copy the protocol leave out some events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.kernel.errors import ProviderError
from holdfast.kernel.messages import FinishReason, Metadata, Source, Usage
from holdfast.kernel.model import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    PartAdded,
    PartEnded,
    ReasoningDelta,
    TextDelta,
)
from holdfast.providers.failure import stream_error
from holdfast.providers.openai_responses.call_items import (
    PLAIN_TEXT_ARGUMENTS,
    ResponseItem,
    arguments_of,
    executed_result,
    item_to_keep,
    objects_in,
    picture_of,
    tool_of,
)
from holdfast.providers.openai_responses.event_types import (
    ERROR_CODES,
    Response,
    ResponsesEvent,
    event_type,
    read_event,
    response_of,
)
from holdfast.providers.openai_responses.request import digest
from holdfast.providers.profile import Price
from holdfast.providers.split_surrogates import SurrogateJoiner


class _OpenItem:
    """An item of the answer, as far as it has arrived."""

    __slots__ = (
        "annotations",
        "at",
        "call_id",
        "ended",
        "fresh",
        "id",
        "length",
        "part",
        "pieces",
        "refusal",
        "runs_at_provider",
        "text",
        "tool",
        "type",
    )

    def __init__(self, type: str, id: str, at: int | None) -> None:
        self.type = type
        self.id = id
        self.at = at
        """Position in the answer."""
        self.ended = False
        # Of a message and of reasoning:
        self.part = 0
        """Index of the open text."""
        self.text = ""
        """Kind of the open reasoning text: `summary`, or empty for the reasoning itself."""
        self.length = 0
        """Number of characters emitted of the open text."""
        self.fresh = False
        """Whether text was emitted that no `PartEnded` has ended."""
        self.refusal = False
        self.annotations: list[ResponseItem] = []
        # Of a call:
        self.call_id = ""
        """Id of the call; empty until `CallStarted` was emitted."""
        self.tool = ""
        self.runs_at_provider = False
        self.pieces: list[str] = []
        """Pieces of the arguments, emitted or waiting for `CallStarted`."""


class ResponsesDecoder:
    """Decodes one answer. `names`: our tools that the provider declares itself."""

    def __init__(
        self,
        provider: str,
        *,
        price: Price | None = None,
        names: Mapping[str, str] | None = None,
        input: str | None = None,
        previous: str | None = None,
    ) -> None:
        self.deltas: list[Delta] = []
        self._provider = provider
        self._joiner = SurrogateJoiner()
        self._price = price
        self._names = names or {}
        self._input = input
        """Digest of the input, if the answer is stored."""
        self._previous = previous
        """Id of the stored answer that this answer must continue."""
        self._items: dict[int | str, _OpenItem] = {}
        self._open: _OpenItem | None = None
        """The open message or reasoning."""
        self._has_call = False
        self._refused = False
        self._cited: set[str] = set()
        self._finished = False
        self._usage: Usage | None = None
        """Usage of a failed answer."""

    def feed(self, events: list[bytes]) -> list[Delta]:
        out = self.deltas = []
        for data in events:
            try:
                event = read_event(data)
            except msgspec.DecodeError:
                again = self._read_again(data)
                if again is None:
                    continue
                event = again
            handle = _HANDLERS.get(event.type)
            if handle is not None and not self._finished:
                handle(self, event, out)
        return out

    def _read_again(self, data: bytes) -> ResponsesEvent | None:
        """Parse an event again, with its characters joined.

        None for an event that is not needed.
        """
        data = self._joiner.joined(data)
        try:
            return read_event(data)
        except msgspec.DecodeError:
            if event_type(data) in _HANDLERS:
                raise
            return None

    @property
    def complete(self) -> bool:
        return self._finished

    def end(self) -> list[Delta]:
        return []  # the last event finishes the answer

    def spent(self) -> Usage | None:
        return self._usage

    def _response_created(self, event: ResponsesEvent, out: list[Delta]) -> None:
        """Fail if the answer does not continue the stored one.

        Some servers ignore the id of the stored answer: the conversation before it would be lost
        unnoticed.
        """
        if self._previous is None or response_of(event).previous_response_id == self._previous:
            return
        raise ProviderError(
            "the server ignored the previous response",
            code="previous_response_not_found",
            kind="invalid_request",
        )

    def _failed(self, event: ResponsesEvent, out: list[Delta]) -> None:
        error = event.error or {"code": event.code, "message": event.message}
        if event.type == "response.failed":
            response = response_of(event)
            self._usage = self._usage_of(response)
            reported = response.error or event.error
            error = reported or {"code": "server_error", "message": "the response failed"}
        elif not event.type and not event.error:
            return  # not an event of this protocol
        raise stream_error(error, ERROR_CODES)

    # --- items ---

    def _item(self, event: ResponsesEvent, type: str) -> _OpenItem:
        """The item of an event, created if it has not been announced."""
        id = event.item_id or ""
        key = id if event.output_index is None else event.output_index
        item = self._items.get(key)
        if item is None:
            item = self._items[key] = _OpenItem(type, id, event.output_index)
        return item

    def _announced(self, event: ResponsesEvent) -> tuple[_OpenItem, ResponseItem]:
        raw = event.item or {}
        type = str(raw.get("type") or "")
        item = self._item(event, type)
        item.type = type or item.type
        item.id = str(raw.get("id") or item.id)
        return item, raw

    def _item_added(self, event: ResponsesEvent, out: list[Delta]) -> None:
        item, raw = self._announced(event)
        if item.type in ("message", "reasoning"):
            self._open_item(item, out)
        elif item.type != "image_generation_call":  # an image is not a call, and arrives whole
            self._start(item, raw, out)

    def _item_done(self, event: ResponsesEvent, out: list[Delta]) -> None:
        item, raw = self._announced(event)
        self._complete(item, raw, out)

    def _complete(self, item: _OpenItem, raw: ResponseItem, out: list[Delta]) -> None:
        if item.ended:
            return
        if item.type == "message":
            self._message(item, raw, out)
        elif item.type == "reasoning":
            self._reasoning(item, raw, out)
        elif (picture := picture_of(raw)) is not None:
            self._close(out)
            file, stored = picture
            out.append(PartAdded(replace(file, metadata=self._metadata({"item": stored}))))
        else:
            self._call(item, raw, out)
        item.ended = True

    def _open_item(self, item: _OpenItem, out: list[Delta]) -> None:
        """Make this item the open one."""
        if self._open is not item:
            self._close(out)
            self._open = item

    def _close(self, out: list[Delta], **more: Any) -> None:
        """End the open text, with the metadata that must be sent back."""
        item, self._open = self._open, None
        if item is None or not item.fresh:
            return
        item.fresh = False
        if item.type == "reasoning":
            out.append(PartEnded())
            return
        fields: ResponseItem = {"id": item.id} if item.id else {}
        fields["index"] = item.part
        if item.refusal:
            fields["refusal"] = True
        if item.annotations:
            fields["annotations"] = item.annotations
        out.append(PartEnded(metadata=self._metadata({**fields, **more})))
        self._cite(item.annotations, out)

    def _metadata(self, fields: ResponseItem) -> Metadata:
        return {self._provider: fields}

    # --- text ---

    def _text_delta(self, event: ResponsesEvent, out: list[Delta]) -> None:
        item = self._open
        if (
            item is None
            or item.part != event.content_index
            or item.at != event.output_index
            or not item.fresh
        ):
            item = self._text_item(event, False, out)
        self._emit_text(item, event.delta or "", out)

    def _refusal_delta(self, event: ResponsesEvent, out: list[Delta]) -> None:
        self._emit_text(self._text_item(event, True, out), event.delta or "", out)

    def _emit_text(self, item: _OpenItem, text: str, out: list[Delta]) -> None:
        if text and not item.ended:
            item.length += len(text)
            item.fresh = True
            out.append(TextDelta(text))

    def _text_item(self, event: ResponsesEvent, refusal: bool, out: list[Delta]) -> _OpenItem:
        item = self._item(event, "message")
        if not item.ended:
            self._open_text(item, event.content_index or 0, refusal, out)
        return item

    def _open_text(self, item: _OpenItem, index: int, refusal: bool, out: list[Delta]) -> None:
        """Make a text of a message the open one."""
        if item.part != index:
            if self._open is item:
                self._close(out)
            item.part, item.length, item.annotations = index, 0, []
        self._open_item(item, out)
        item.refusal = refusal
        self._refused = self._refused or refusal

    def _text_done(self, event: ResponsesEvent, out: list[Delta]) -> None:
        """Emit the part of a complete text that did not arrive in pieces."""
        item, index = self._item(event, "message"), event.content_index or 0
        missing = (event.text or "")[item.length if index == item.part else 0 :]
        if missing and index >= item.part and not item.ended:
            self._open_text(item, index, False, out)
            self._emit_text(item, missing, out)

    def _annotation_added(self, event: ResponsesEvent, out: list[Delta]) -> None:
        if event.annotation is not None:
            self._item(event, "message").annotations.append(event.annotation)

    def _message(self, item: _OpenItem, raw: ResponseItem, out: list[Delta]) -> None:
        for index, content in enumerate(objects_in(raw.get("content"))):
            refusal = content.get("type") == "refusal"
            text = content.get("refusal" if refusal else "text")
            if index < item.part or not isinstance(text, str):
                continue  # emitted and ended before
            self._open_text(item, index, refusal, out)
            self._emit_text(item, text[item.length :], out)
            item.annotations = objects_in(content.get("annotations")) or item.annotations
        if self._open is item:
            known = ("type", "role", "content", "id")
            self._close(out, item={k: v for k, v in raw.items() if k not in known})

    def _cite(self, annotations: Sequence[ResponseItem], out: list[Delta]) -> None:
        for annotation in annotations:
            url = annotation.get("url")
            if isinstance(url, str) and url and url not in self._cited:
                self._cited.add(url)
                out.append(PartAdded(Source(url, annotation.get("title"))))

    # --- reasoning ---

    def _reasoning_delta(self, event: ResponsesEvent, out: list[Delta]) -> None:
        """Emit a piece of a summary, or of the reasoning, with a blank line between two texts."""
        item = self._item(event, "reasoning")
        if not event.delta or item.ended:
            return
        self._open_item(item, out)
        text = "" if event.summary_index is None else "summary"
        part = (event.content_index if event.summary_index is None else event.summary_index) or 0
        if item.length and (text, part) != (item.text, item.part):
            out.append(ReasoningDelta("\n\n"))
        item.text, item.part = text, part
        item.length += len(event.delta)
        item.fresh = True
        out.append(ReasoningDelta(event.delta))

    def _reasoning(self, item: _OpenItem, raw: ResponseItem, out: list[Delta]) -> None:
        self._open_item(item, out)
        if not item.length:
            texts = [*objects_in(raw.get("summary")), *objects_in(raw.get("content"))]
            text = "\n\n".join(str(part["text"]) for part in texts if part.get("text"))
            if text:
                out.append(ReasoningDelta(text))
        self._open = None
        out.append(PartEnded(metadata=self._metadata({"item": raw})))

    # --- calls ---

    def _start(self, item: _OpenItem, raw: ResponseItem, out: list[Delta]) -> None:
        if item.call_id:
            return
        self._close(out)
        provider_id = raw.get("call_id") or raw.get("id") or item.id
        item.call_id = str(provider_id or f"{item.type}_{item.at}")
        item.tool, item.runs_at_provider = tool_of(raw, self._names)
        out.append(CallStarted(item.call_id, item.tool, item.runs_at_provider))
        if item.pieces:  # they arrived before the name of the tool
            out.append(ArgumentsDelta(item.call_id, "".join(item.pieces)))

    def _arguments_delta(self, event: ResponsesEvent, out: list[Delta]) -> None:
        self._emit_arguments(self._item(event, "function_call"), event.delta or "", out)

    def _plain_text_delta(self, event: ResponsesEvent, out: list[Delta]) -> None:
        """Emit a piece of a plain-text argument as a piece of JSON."""
        type = _PLAIN_TEXT_EVENTS[event.type]
        item = self._item(event, type)
        opening = "" if item.pieces else f'{{"{PLAIN_TEXT_ARGUMENTS[type]}":"'
        self._emit_arguments(
            item, opening + msgspec.json.encode(event.delta or "").decode()[1:-1], out
        )

    def _emit_arguments(self, item: _OpenItem, piece: str, out: list[Delta]) -> None:
        if piece and not item.ended:
            item.pieces.append(piece)
            if item.call_id:
                out.append(ArgumentsDelta(item.call_id, piece))

    def _call(self, item: _OpenItem, raw: ResponseItem, out: list[Delta]) -> None:
        self._start(item, raw, out)
        streamed, whole = "".join(item.pieces), arguments_of(raw)
        if whole.startswith(streamed) and whole != streamed:
            out.append(ArgumentsDelta(item.call_id, whole[len(streamed) :]))
        if item.runs_at_provider:
            out.append(CallEnded(item.call_id, self._metadata({"item": raw})))
            out.append(PartAdded(executed_result(raw, item.call_id, item.tool)))
        elif raw.get("status") != "incomplete":  # otherwise it was truncated, and is dropped
            _check_arguments(streamed, whole)
            self._has_call = True
            out.append(CallEnded(item.call_id, self._metadata({"item": item_to_keep(raw)})))

    # --- the end ---

    def _response_finished(self, event: ResponsesEvent, out: list[Delta]) -> None:
        response = response_of(event)
        cut = event.type == "response.incomplete" or response.status == "incomplete"
        for raw, item in self._matched(response.output or ()):
            if cut and raw.get("status") == "in_progress":
                raw = {**raw, "status": "incomplete"}
            self._complete(item, raw, out)
        self._close(out)
        self._finished = True
        fields: ResponseItem = {"response_id": response.id} if response.id else {}
        if fields and self._input is not None:
            kinds = [str(raw.get("type")) for raw in response.output or ()]
            fields |= {"input": self._input, "output": digest([response.text, kinds])}
        metadata = self._metadata(fields) if fields else None
        out.append(Finished(self._reason(cut, response), self._usage_of(response), metadata))

    def _usage_of(self, response: Response) -> Usage | None:
        return response.usage.usage(self._price) if response.usage is not None else None

    def _matched(self, output: Sequence[ResponseItem]) -> list[tuple[ResponseItem, _OpenItem]]:
        """The items of the whole answer, each with its state so far.

        Items match by id, or else by type and order, since some servers give an item another id
        each time.
        """
        by_id = {item.id: item for item in self._items.values() if item.id}
        same = [by_id.get(str(raw.get("id") or "")) for raw in output]
        unmatched = [item for item in self._items.values() if item not in same]
        pairs: list[tuple[ResponseItem, _OpenItem]] = []
        for raw, item in zip(output, same, strict=True):
            type = str(raw.get("type") or "")
            if item is None:
                item = next((other for other in unmatched if other.type == type), None)
                if item is not None:
                    unmatched.remove(item)
            pairs.append((raw, item or _OpenItem(type, str(raw.get("id") or ""), None)))
        return pairs

    def _reason(self, cut: bool, response: Response) -> FinishReason:
        if cut:
            return "content_filter" if response.cut_by == "content_filter" else "length"
        if self._refused:
            return "content_filter"
        return "tool_calls" if self._has_call else "stop"


def _check_arguments(streamed: str, whole: str) -> None:
    """Fail if the pieces of a call do not make up the whole.

    A call must not run with arguments that the model did not write.
    """
    if not whole or whole.startswith(streamed):
        return
    try:
        if msgspec.json.decode(streamed) == msgspec.json.decode(whole):
            return
    except msgspec.DecodeError:
        pass
    raise ProviderError("the pieces of a call's arguments do not match the whole", kind="server")


_PLAIN_TEXT_EVENTS: Final[Mapping[str, str]] = {
    "response.code_interpreter_call_code.delta": "code_interpreter_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
}
_HANDLERS: Final[Mapping[str, Callable[[ResponsesDecoder, ResponsesEvent, list[Delta]], None]]] = {
    "response.output_text.delta": ResponsesDecoder._text_delta,
    "response.output_text.done": ResponsesDecoder._text_done,
    "response.output_text.annotation.added": ResponsesDecoder._annotation_added,
    "response.refusal.delta": ResponsesDecoder._refusal_delta,
    "response.reasoning_summary_text.delta": ResponsesDecoder._reasoning_delta,
    "response.reasoning_text.delta": ResponsesDecoder._reasoning_delta,
    "response.function_call_arguments.delta": ResponsesDecoder._arguments_delta,
    "response.mcp_call_arguments.delta": ResponsesDecoder._arguments_delta,
    "response.code_interpreter_call_code.delta": ResponsesDecoder._plain_text_delta,
    "response.custom_tool_call_input.delta": ResponsesDecoder._plain_text_delta,
    "response.output_item.added": ResponsesDecoder._item_added,
    "response.output_item.done": ResponsesDecoder._item_done,
    "response.created": ResponsesDecoder._response_created,
    "response.completed": ResponsesDecoder._response_finished,
    "response.incomplete": ResponsesDecoder._response_finished,
    "response.failed": ResponsesDecoder._failed,
    "error": ResponsesDecoder._failed,
    "": ResponsesDecoder._failed,
}
"""Handlers by type of event. Other types are ignored."""
