"""Decodes the events of OpenAI's Responses API into deltas. Pure.

Every event says which item it is about. Items are told again when they are done, and once more with
the whole answer: what has been said already is not said twice, and what was left out is said then,
because servers that copy the protocol leave out this and that.
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
from holdfast.providers.failure import reported
from holdfast.providers.openai_responses.events import (
    CODES,
    Event,
    Response,
    read_event,
    response_of,
    type_of,
)
from holdfast.providers.openai_responses.items import (
    QUOTED,
    Item,
    arguments_of,
    dicts,
    kept_of,
    picture_of,
    ran,
    tool_of,
)
from holdfast.providers.openai_responses.request import digest
from holdfast.providers.profile import Price
from holdfast.providers.surrogates import Halves


class _Open:
    """An item as far as it has come."""

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
        "ran_there",
        "refusal",
        "text",
        "tool",
        "type",
    )

    def __init__(self, type: str, id: str, at: int | None) -> None:
        self.type = type
        self.id = id
        self.at = at
        """Its place in the answer."""
        self.ended = False
        # Of a message and of reasoning:
        self.part = 0
        """Which of its texts is being said."""
        self.text = ""
        """Whether that is a summary, or the reasoning itself."""
        self.length = 0
        """How much of it has been said."""
        self.fresh = False
        """Something has been said that nobody has put an end to."""
        self.refusal = False
        self.annotations: list[Item] = []
        # Of a call:
        self.call_id = ""
        """Set once the call has been announced."""
        self.tool = ""
        self.ran_there = False
        self.pieces: list[str] = []
        """Of the arguments, as they were passed on; or as they wait for the call to be known."""


class Decoder:
    """One answer. `names` are the tools of ours that the provider declares itself."""

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
        self._halves = Halves()
        self._price = price
        self._names = names or {}
        self._input = input
        """What the answer is given for, by a short name, when the answer is to be built upon."""
        self._previous = previous
        """The stored answer that it has to go on from."""
        self._items: dict[int | str, _Open] = {}
        self._open: _Open | None = None
        """The message or the reasoning that is being said."""
        self._called = False
        self._refused = False
        self._cited: set[str] = set()
        self._finished = False
        self._usage: Usage | None = None
        """Of an answer that failed."""

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

    def _read_again(self, data: bytes) -> Event | None:
        """An event that could not be read. None when it is of a kind that is new, or that nobody
        reads."""
        data = self._halves.joined(data)
        try:
            return read_event(data)
        except msgspec.DecodeError:
            if type_of(data) in _HANDLERS:
                raise
            return None

    @property
    def complete(self) -> bool:
        return self._finished

    def end(self) -> list[Delta]:
        return []  # an answer says itself that it is complete

    def spent(self) -> Usage | None:
        return self._usage

    def _created(self, event: Event, out: list[Delta]) -> None:
        """Refuse an answer that has begun without the stored one. There are servers that take the
        id of that and do nothing with it: all that had been said would be lost, unnoticed."""
        if self._previous is None or response_of(event).previous_response_id == self._previous:
            return
        raise ProviderError(
            "the previous response was not taken up",
            code="previous_response_not_found",
            kind="invalid_request",
        )

    def _fail(self, event: Event, out: list[Delta]) -> None:
        error = event.error or {"code": event.code, "message": event.message}
        if event.type == "response.failed":
            response = response_of(event)
            self._usage = self._counted(response)
            said = response.error or event.error
            error = said or {"code": "server_error", "message": "it failed"}
        elif not event.type and not event.error:
            return  # no event of ours
        raise reported(error, CODES)

    # --- items ---

    def _item(self, event: Event, type: str) -> _Open:
        """The item that an event is about. Also one that has not been announced."""
        id = event.item_id or ""
        key = id if event.output_index is None else event.output_index
        item = self._items.get(key)
        if item is None:
            item = self._items[key] = _Open(type, id, event.output_index)
        return item

    def _announced(self, event: Event) -> tuple[_Open, Item]:
        given = event.item or {}
        type = str(given.get("type") or "")
        item = self._item(event, type)
        item.type = type or item.type
        item.id = str(given.get("id") or item.id)
        return item, given

    def _added(self, event: Event, out: list[Delta]) -> None:
        item, given = self._announced(event)
        if item.type in ("message", "reasoning"):
            self._turn_to(item, out)
        elif item.type != "image_generation_call":  # a picture is no call, and comes at once
            self._start(item, given, out)

    def _done(self, event: Event, out: list[Delta]) -> None:
        item, given = self._announced(event)
        self._complete(item, given, out)

    def _complete(self, item: _Open, given: Item, out: list[Delta]) -> None:
        if item.ended:
            return
        if item.type == "message":
            self._message(item, given, out)
        elif item.type == "reasoning":
            self._reasoning(item, given, out)
        elif (picture := picture_of(given)) is not None:
            self._close(out)
            file, kept = picture
            out.append(PartAdded(replace(file, metadata=self._mine({"item": kept}))))
        else:
            self._call(item, given, out)
        item.ended = True

    def _turn_to(self, item: _Open, out: list[Delta]) -> None:
        """From here on this item is being said."""
        if self._open is not item:
            self._close(out)
            self._open = item

    def _close(self, out: list[Delta], **more: Any) -> None:
        """End the text that is being said, with what has to be sent back beside it."""
        item, self._open = self._open, None
        if item is None or not item.fresh:
            return
        item.fresh = False
        if item.type == "reasoning":
            out.append(PartEnded())
            return
        kept: Item = {"id": item.id} if item.id else {}
        kept["index"] = item.part
        if item.refusal:
            kept["refusal"] = True
        if item.annotations:
            kept["annotations"] = item.annotations
        out.append(PartEnded(metadata=self._mine({**kept, **more})))
        self._cite(item.annotations, out)

    def _mine(self, kept: Item) -> Metadata:
        return {self._provider: kept}

    # --- text ---

    def _say(self, event: Event, out: list[Delta]) -> None:
        item = self._open
        if (
            item is None
            or item.part != event.content_index
            or item.at != event.output_index
            or not item.fresh
        ):
            item = self._begun(event, False, out)
        self._tell(item, event.delta or "", out)

    def _refuse(self, event: Event, out: list[Delta]) -> None:
        self._tell(self._begun(event, True, out), event.delta or "", out)

    def _tell(self, item: _Open, text: str, out: list[Delta]) -> None:
        if text and not item.ended:
            item.length += len(text)
            item.fresh = True
            out.append(TextDelta(text))

    def _begun(self, event: Event, refusal: bool, out: list[Delta]) -> _Open:
        item = self._item(event, "message")
        if not item.ended:
            self._begin(item, event.content_index or 0, refusal, out)
        return item

    def _begin(self, item: _Open, index: int, refusal: bool, out: list[Delta]) -> None:
        """From here on this text of this message is being said."""
        if item.part != index:
            if self._open is item:
                self._close(out)
            item.part, item.length, item.annotations = index, 0, []
        self._turn_to(item, out)
        item.refusal = refusal
        self._refused = self._refused or refusal

    def _rest(self, event: Event, out: list[Delta]) -> None:
        """A text is complete: what of it did not come in pieces comes now."""
        item, index = self._item(event, "message"), event.content_index or 0
        missing = (event.text or "")[item.length if index == item.part else 0 :]
        if missing and index >= item.part and not item.ended:
            self._begin(item, index, False, out)
            self._tell(item, missing, out)

    def _annotate(self, event: Event, out: list[Delta]) -> None:
        if event.annotation is not None:
            self._item(event, "message").annotations.append(event.annotation)

    def _message(self, item: _Open, given: Item, out: list[Delta]) -> None:
        for index, content in enumerate(dicts(given.get("content"))):
            refusal = content.get("type") == "refusal"
            text = content.get("refusal" if refusal else "text")
            if index < item.part or not isinstance(text, str):
                continue  # said, and closed, before
            self._begin(item, index, refusal, out)
            self._tell(item, text[item.length :], out)
            item.annotations = dicts(content.get("annotations")) or item.annotations
        if self._open is item:
            beside = ("type", "role", "content", "id")
            self._close(out, item={k: v for k, v in given.items() if k not in beside})

    def _cite(self, annotations: Sequence[Item], out: list[Delta]) -> None:
        for annotation in annotations:
            url = annotation.get("url")
            if isinstance(url, str) and url and url not in self._cited:
                self._cited.add(url)
                out.append(PartAdded(Source(url, annotation.get("title"))))

    # --- reasoning ---

    def _think(self, event: Event, out: list[Delta]) -> None:
        """Pieces of a summary, or of the reasoning itself, with a blank line between two texts."""
        item = self._item(event, "reasoning")
        if not event.delta or item.ended:
            return
        self._turn_to(item, out)
        text = "" if event.summary_index is None else "summary"
        part = (event.content_index if event.summary_index is None else event.summary_index) or 0
        if item.length and (text, part) != (item.text, item.part):
            out.append(ReasoningDelta("\n\n"))
        item.text, item.part = text, part
        item.length += len(event.delta)
        item.fresh = True
        out.append(ReasoningDelta(event.delta))

    def _reasoning(self, item: _Open, given: Item, out: list[Delta]) -> None:
        self._turn_to(item, out)
        if not item.length:
            texts = [*dicts(given.get("summary")), *dicts(given.get("content"))]
            text = "\n\n".join(str(part["text"]) for part in texts if part.get("text"))
            if text:
                out.append(ReasoningDelta(text))
        self._open = None
        out.append(PartEnded(metadata=self._mine({"item": given})))

    # --- calls ---

    def _start(self, item: _Open, given: Item, out: list[Delta]) -> None:
        if item.call_id:
            return
        self._close(out)
        named = given.get("call_id") or given.get("id") or item.id
        item.call_id = str(named or f"{item.type}_{item.at}")
        item.tool, item.ran_there = tool_of(given, self._names)
        out.append(CallStarted(item.call_id, item.tool, item.ran_there))
        if item.pieces:  # they came before we knew whose they are
            out.append(ArgumentsDelta(item.call_id, "".join(item.pieces)))

    def _argue(self, event: Event, out: list[Delta]) -> None:
        self._pass_on(self._item(event, "function_call"), event.delta or "", out)

    def _quote(self, event: Event, out: list[Delta]) -> None:
        """A piece of an argument that is plain text: passed on as a piece of JSON."""
        type = _PLAIN[event.type]
        item = self._item(event, type)
        opening = "" if item.pieces else f'{{"{QUOTED[type]}":"'
        self._pass_on(item, opening + msgspec.json.encode(event.delta or "").decode()[1:-1], out)

    def _pass_on(self, item: _Open, piece: str, out: list[Delta]) -> None:
        if piece and not item.ended:
            item.pieces.append(piece)
            if item.call_id:
                out.append(ArgumentsDelta(item.call_id, piece))

    def _call(self, item: _Open, given: Item, out: list[Delta]) -> None:
        self._start(item, given, out)
        said, whole = "".join(item.pieces), arguments_of(given)
        if whole.startswith(said) and whole != said:
            out.append(ArgumentsDelta(item.call_id, whole[len(said) :]))
        if item.ran_there:
            out.append(CallEnded(item.call_id, self._mine({"item": given})))
            out.append(PartAdded(ran(given, item.call_id, item.tool)))
        elif given.get("status") != "incomplete":  # else it was cut off, and is none
            _check_arguments(said, whole)
            self._called = True
            out.append(CallEnded(item.call_id, self._mine({"item": kept_of(given)})))

    # --- the end ---

    def _finish(self, event: Event, out: list[Delta]) -> None:
        response = response_of(event)
        cut = event.type == "response.incomplete" or response.status == "incomplete"
        for given, item in self._matched(response.output or ()):
            if cut and given.get("status") == "in_progress":
                given = {**given, "status": "incomplete"}
            self._complete(item, given, out)
        self._close(out)
        self._finished = True
        kept: Item = {"response_id": response.id} if response.id else {}
        if kept and self._input is not None:
            kinds = [str(given.get("type")) for given in response.output or ()]
            kept |= {"input": self._input, "output": digest([response.said, kinds])}
        metadata = self._mine(kept) if kept else None
        out.append(Finished(self._reason(cut, response), self._counted(response), metadata))

    def _counted(self, response: Response) -> Usage | None:
        return response.usage.usage(self._price) if response.usage is not None else None

    def _matched(self, output: Sequence[Item]) -> list[tuple[Item, _Open]]:
        """The items of the whole answer, each with what we have of it.

        By id where it is the same; else the first of its type that is left, since there are servers
        that give an item another id each time.
        """
        known = {item.id: item for item in self._items.values() if item.id}
        same = [known.get(str(given.get("id") or "")) for given in output]
        left = [item for item in self._items.values() if item not in same]
        pairs: list[tuple[Item, _Open]] = []
        for given, item in zip(output, same, strict=True):
            type = str(given.get("type") or "")
            if item is None:
                item = next((other for other in left if other.type == type), None)
                if item is not None:
                    left.remove(item)
            pairs.append((given, item or _Open(type, str(given.get("id") or ""), None)))
        return pairs

    def _reason(self, cut: bool, response: Response) -> FinishReason:
        if cut:
            return "content_filter" if response.cut_by == "content_filter" else "length"
        if self._refused:
            return "content_filter"
        return "tool_calls" if self._called else "stop"


def _check_arguments(said: str, whole: str) -> None:
    """Refuse a call that came in pieces which do not make up the whole: it must not run with
    arguments that the model did not write."""
    if not whole or whole.startswith(said):
        return
    try:
        if msgspec.json.decode(said) == msgspec.json.decode(whole):
            return
    except msgspec.DecodeError:
        pass
    raise ProviderError("the arguments of a call came in pieces that do not fit", kind="server")


_PLAIN: Final[Mapping[str, str]] = {
    "response.code_interpreter_call_code.delta": "code_interpreter_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
}
_HANDLERS: Final[Mapping[str, Callable[[Decoder, Event, list[Delta]], None]]] = {
    "response.output_text.delta": Decoder._say,
    "response.output_text.done": Decoder._rest,
    "response.output_text.annotation.added": Decoder._annotate,
    "response.refusal.delta": Decoder._refuse,
    "response.reasoning_summary_text.delta": Decoder._think,
    "response.reasoning_text.delta": Decoder._think,
    "response.function_call_arguments.delta": Decoder._argue,
    "response.mcp_call_arguments.delta": Decoder._argue,
    "response.code_interpreter_call_code.delta": Decoder._quote,
    "response.custom_tool_call_input.delta": Decoder._quote,
    "response.output_item.added": Decoder._added,
    "response.output_item.done": Decoder._done,
    "response.created": Decoder._created,
    "response.completed": Decoder._finish,
    "response.incomplete": Decoder._finish,
    "response.failed": Decoder._fail,
    "error": Decoder._fail,
    "": Decoder._fail,
}
"""Who takes which event. What is not here is of no use to us."""
