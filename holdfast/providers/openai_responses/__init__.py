"""OpenAI's Responses API and compatible endpoints: `POST {base_url}/responses`.

    OpenAIResponses("gpt-5.6", api_key=key)
    OpenAIResponses(
        "my-deployment",
        api_key=None,
        base_url="https://my-resource.openai.azure.com/openai/v1",
        provider="azure",
        headers={"api-key": key},
    )

Ideas:

- The provider stores nothing by default: a request brings all that its answer needs, including
  encrypted reasoning. With `chain=True` answers are stored, and a turn that continues a stored
  answer sends only what is new.
- Two refusals are not failures, since the request can be sent in another form and no content has
  been emitted: the stored answer is missing, or the reasoning cannot be read.
- An answer is a list of items, and these are sent back as they came.

Read `call_items.py` first. `request.py` encodes requests; `decoder.py` decodes `event_types.py`
into deltas.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Final

from holdfast.kernel.entry_point import entry_point
from holdfast.kernel.errors import ProviderError
from holdfast.kernel.model import Delta, Effort, Notice, Ping, Request
from holdfast.providers.endpoint import address, check_endpoint, headers_for
from holdfast.providers.http import SHARED_CLIENT, Http
from holdfast.providers.http_stream import WireRequest, stream_answer
from holdfast.providers.openai_responses.call_items import ResponseItem, names_of_tools
from holdfast.providers.openai_responses.decoder import ResponsesDecoder
from holdfast.providers.openai_responses.event_types import ERROR_CODES
from holdfast.providers.openai_responses.request import EncodedRequest, digest, encode
from holdfast.providers.profile import UNKNOWN, Profile
from holdfast.providers.reported_context_limits import reported_limit


class OpenAIResponses:
    """A model of the Responses API, of OpenAI or of a compatible endpoint at `base_url`."""

    @entry_point("OpenAIResponses")
    def __init__(
        self,
        model: str,
        *,
        api_key: str | None,
        base_url: str = "https://api.openai.com/v1",
        provider: str = "openai",
        headers: Mapping[str, str] | None = None,
        profile: Profile = UNKNOWN,
        http: Http = SHARED_CLIENT,
        chain: bool = False,
    ) -> None:
        """Create the model. `headers` replace ours.

        `api_key=None` sends no key: give one in `headers`, or none to a server that needs none.
        With `chain` the provider stores answers, and later requests refer to them.
        """
        check_endpoint(model, provider, base_url, api_key, needs_key=False)
        self.profile = profile
        self._model = model
        self._provider = provider
        self._http = http
        self._chains = chain
        self._sends_reasoning = True
        """Whether reasoning is sent back. False once the model has reported that it does not
        reason."""
        self._url = address(base_url, "/responses")
        ours = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._headers = headers_for(ours, headers)

    def __repr__(self) -> str:
        return f"OpenAIResponses({self.name!r})"

    @property
    def name(self) -> str:
        return f"{self._provider}:{self._model}"

    @property
    def window(self) -> int | None:
        return reported_limit(self._http, self._url, self.name) or self.profile.window

    @property
    def efforts(self) -> tuple[Effort, ...] | None:
        return self.profile.efforts

    @property
    def priced(self) -> bool:
        return self.profile.price is not None

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        encoded = self._encode(request, self._sends_reasoning)
        given_for = digest(_flat(encoded.items)) if self._chains else None
        link = self._stored_answer(request, encoded) if self._chains else None
        if link is None:
            return self._stream_whole(request, encoded, given_for)
        at, id = link
        body = encoded.body(encoded.items[at + 1 :], previous_response_id=id)
        linked = self._stream_body(request, encoded, body, given_for, id)
        return _with_alternative(
            lambda error: _is_previous_missing(error) or _is_reasoning_error(error),
            linked,
            lambda: self._stream_whole(request, encoded, given_for),
        )

    def _encode(self, request: Request, thoughts: bool) -> EncodedRequest:
        return encode(
            request,
            self._model,
            self._provider,
            self.profile,
            store=self._chains,
            thoughts=thoughts,
        )

    def _stream_whole(
        self, request: Request, encoded: EncodedRequest, given_for: str | None
    ) -> AsyncGenerator[Delta]:
        """Stream the answer to the whole request.

        If the provider cannot read its reasoning, the request is sent without it.
        """
        whole = self._stream_body(request, encoded, encoded.body(encoded.items), given_for)
        if not self._sends_reasoning or self.profile.efforts == ():
            return whole

        def without_thoughts() -> AsyncGenerator[Delta]:
            plain = self._encode(request, thoughts=False)
            return self._stream_body(request, plain, plain.body(plain.items), given_for)

        return _with_alternative(self._is_reasoning_refused, whole, without_thoughts)

    def _is_reasoning_refused(self, error: ProviderError) -> bool:
        refused = _is_reasoning_error(error)
        if refused and _NEVER_SUPPORTED.search(error.message):
            self._sends_reasoning = False
        return refused

    def _stream_body(
        self,
        request: Request,
        encoded: EncodedRequest,
        body: bytes,
        given_for: str | None,
        previous: str | None = None,
    ) -> AsyncGenerator[Delta]:
        call = WireRequest(self._url, self._headers, body, encoded.notices, self.name)
        decoder = ResponsesDecoder(
            self._provider,
            price=self.profile.price,
            names=names_of_tools(request.tools, self._provider),
            input=given_for,
            previous=previous,
        )
        return stream_answer(self._http, call, decoder, ERROR_CODES)

    # --- building upon a stored answer ---

    def _stored_answer(self, request: Request, encoded: EncodedRequest) -> tuple[int, str] | None:
        """Position and id of the stored answer that the request continues, if there is one.

        A stored answer is usable if only users wrote since, and nothing before it was changed.
        """
        at = len(request.messages) - 1
        while at >= 0 and request.messages[at].role == "user":
            at -= 1
        if at < 0 or not any(encoded.items[at + 1 :]):
            return None
        answer = request.messages[at]
        # An answer that calls a tool, or was truncated, cannot be continued.
        if answer.model != self.name or answer.finish != "stop":
            return None
        metadata = (answer.metadata or {}).get(self._provider) or {}
        kinds = [str(item.get("type")) for item in encoded.items[at]]
        if metadata.get("output") != digest([answer.text, kinds]):
            return None
        if metadata.get("input") != digest(_flat(encoded.items[:at])):
            return None
        id = metadata.get("response_id")
        return (at, id) if id else None


def _flat(items: Iterable[Iterable[ResponseItem]]) -> list[ResponseItem]:
    return [item for some in items for item in some]


async def _with_alternative(
    applies: Callable[[ProviderError], bool],
    first: AsyncGenerator[Delta],
    other: Callable[[], AsyncGenerator[Delta]],
) -> AsyncGenerator[Delta]:
    """Stream the first answer, or the alternative if the first was refused before any content."""
    has_content = False
    notices: set[Notice] = set()
    async with aclosing(first):
        try:
            async for delta in first:
                if isinstance(delta, Notice):
                    notices.add(delta)
                elif not isinstance(delta, Ping):
                    has_content = True
                yield delta
            return
        except ProviderError as error:
            if has_content or not applies(error):
                raise
    async with aclosing(other()) as again:
        async for delta in again:
            if not isinstance(delta, Notice) or delta not in notices:
                yield delta


_PREVIOUS_IN_MESSAGE: Final = re.compile(r"previous[_ ]response", re.IGNORECASE)


def _is_previous_missing(error: ProviderError) -> bool:
    """Whether the stored answer was refused: expired, of another account, or never stored."""
    if error.code == "previous_response_not_found":
        return True
    return error.status in (None, 400, 404) and bool(_PREVIOUS_IN_MESSAGE.search(error.message))


_REASONING_IN_MESSAGE: Final = re.compile(r"encrypted content|reasoning input items", re.IGNORECASE)
_NEVER_SUPPORTED: Final = re.compile(r"not supported|can only be provided to", re.IGNORECASE)
"""Messages that concern the model, not the reasoning it was sent."""


def _is_reasoning_error(error: ProviderError) -> bool:
    """Whether the reasoning was refused: the model does not reason, or cannot decrypt it."""
    if error.code == "invalid_encrypted_content":
        return True
    return error.status in (None, 400) and bool(_REASONING_IN_MESSAGE.search(error.message))
