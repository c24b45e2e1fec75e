"""Models of OpenAI's Responses API and compatible endpoints: `POST {base_url}/responses`.

    OpenAIResponses("gpt-5.6", api_key=key)
    OpenAIResponses(
        "my-deployment",
        api_key=None,
        base_url="https://my-resource.openai.azure.com/openai/v1",
        provider="azure",
        headers={"api-key": key},
    )

Nothing is stored over there: a request brings all that its answer needs. With `chain=True` answers
are stored, and a turn that begins where an answer left off sends only what is new.

Two refusals are no failures, since asking otherwise is as good and nothing has been said yet: the
stored answer is not there any more, or the reasoning that is sent back cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Final

from holdfast.kernel.errors import ProviderError
from holdfast.kernel.model import Delta, Effort, Notice, Ping, Request
from holdfast.providers.context_limits import reported
from holdfast.providers.endpoint import address, check, headers_for
from holdfast.providers.http import SHARED, Http
from holdfast.providers.model_stream import Call, answer
from holdfast.providers.openai_responses.events import CODES
from holdfast.providers.openai_responses.items import Item, names_of_tools
from holdfast.providers.openai_responses.request import Encoded, digest, encode
from holdfast.providers.openai_responses.stream import Decoder
from holdfast.providers.profile import UNKNOWN, Profile


class OpenAIResponses:
    """A model behind the Responses API, of OpenAI or of whoever speaks it at `base_url`."""

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None,
        base_url: str = "https://api.openai.com/v1",
        provider: str = "openai",
        headers: Mapping[str, str] | None = None,
        profile: Profile = UNKNOWN,
        http: Http = SHARED,
        chain: bool = False,
    ) -> None:
        """`headers` win over ours. `api_key=None` sends no key: give one in `headers`, or none to a
        server that wants none. `chain` has answers stored, and builds upon them."""
        check(model, provider, base_url, api_key, needs_key=False)
        self.profile = profile
        self._model = model
        self._provider = provider
        self._http = http
        self._chain = chain
        self._thoughts = True
        """Whether reasoning is sent back. False once the model has said that it does not think."""
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
        return reported(self._http, self._url, self.name) or self.profile.window

    @property
    def efforts(self) -> tuple[Effort, ...] | None:
        return self.profile.efforts

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        encoded = self._encode(request, self._thoughts)
        given_for = digest(_flat(encoded.items)) if self._chain else None
        link = self._link(request, encoded) if self._chain else None
        if link is None:
            return self._whole(request, encoded, given_for)
        at, id = link
        body = encoded.body(encoded.items[at + 1 :], previous_response_id=id)
        linked = self._ask(request, encoded, body, given_for, id)
        return _unless(
            lambda error: _is_lost(error) or _is_unread(error),
            linked,
            lambda: self._whole(request, encoded, given_for),
        )

    def _encode(self, request: Request, thoughts: bool) -> Encoded:
        return encode(
            request,
            self._model,
            self._provider,
            self.profile,
            store=self._chain,
            thoughts=thoughts,
        )

    def _whole(
        self, request: Request, encoded: Encoded, given_for: str | None
    ) -> AsyncGenerator[Delta]:
        """The answer to all of it; without the reasoning, if that cannot be read over there."""
        whole = self._ask(request, encoded, encoded.body(encoded.items), given_for)
        if not self._thoughts or self.profile.efforts == ():
            return whole

        def without_thoughts() -> AsyncGenerator[Delta]:
            plain = self._encode(request, thoughts=False)
            return self._ask(request, plain, plain.body(plain.items), given_for)

        return _unless(self._is_unread, whole, without_thoughts)

    def _is_unread(self, error: ProviderError) -> bool:
        unread = _is_unread(error)
        if unread and _NEVER.search(error.message):
            self._thoughts = False
        return unread

    def _ask(
        self,
        request: Request,
        encoded: Encoded,
        body: bytes,
        given_for: str | None,
        previous: str | None = None,
    ) -> AsyncGenerator[Delta]:
        call = Call(self._url, self._headers, body, encoded.notices, self.name)
        decoder = Decoder(
            self._provider,
            price=self.profile.price,
            names=names_of_tools(request.tools, self._provider),
            input=given_for,
            previous=previous,
        )
        return answer(self._http, call, decoder, CODES)

    # --- building upon a stored answer ---

    def _link(self, request: Request, encoded: Encoded) -> tuple[int, str] | None:
        """Where the answer is that the request goes on from, and what it is stored as.

        None unless people alone spoke since, and nothing before it has been changed: what is stored
        is what was asked then, and the answer that was given then.
        """
        at = len(request.messages) - 1
        while at >= 0 and request.messages[at].role == "user":
            at -= 1
        if at < 0 or not any(encoded.items[at + 1 :]):
            return None
        said = request.messages[at]
        # One that calls a tool, or was cut off, ends otherwise.
        if said.model != self.name or said.finish != "stop":
            return None
        kept = (said.metadata or {}).get(self._provider) or {}
        kinds = [str(item.get("type")) for item in encoded.items[at]]
        if kept.get("output") != digest([said.text, kinds]):
            return None
        if kept.get("input") != digest(_flat(encoded.items[:at])):
            return None
        id = kept.get("response_id")
        return (at, id) if id else None


def _flat(items: Iterable[Iterable[Item]]) -> list[Item]:
    return [item for some in items for item in some]


async def _unless(
    refused: Callable[[ProviderError], bool],
    first: AsyncGenerator[Delta],
    other: Callable[[], AsyncGenerator[Delta]],
) -> AsyncGenerator[Delta]:
    """The first answer; the other one, if that was refused before anything had been said."""
    shown = False
    told: set[Notice] = set()
    async with aclosing(first):
        try:
            async for delta in first:
                if isinstance(delta, Notice):
                    told.add(delta)
                elif not isinstance(delta, Ping):
                    shown = True
                yield delta
            return
        except ProviderError as error:
            if shown or not refused(error):
                raise
    async with aclosing(other()) as again:
        async for delta in again:
            if not isinstance(delta, Notice) or delta not in told:
                yield delta


_LOST: Final = re.compile(r"previous[_ ]response", re.IGNORECASE)


def _is_lost(error: ProviderError) -> bool:
    """Whether it is the stored answer that was refused: gone, of somebody else, or never stored."""
    if error.code == "previous_response_not_found":
        return True
    return error.status in (None, 400, 404) and bool(_LOST.search(error.message))


_UNREAD: Final = re.compile(r"encrypted content|reasoning input items", re.IGNORECASE)
_NEVER: Final = re.compile(r"not supported|can only be provided to", re.IGNORECASE)
"""Said of a model, and not of what one has sent it."""


def _is_unread(error: ProviderError) -> bool:
    """Whether it is the reasoning that was refused: by a model that does not think, or because it
    is of another account and cannot be deciphered."""
    if error.code == "invalid_encrypted_content":
        return True
    return error.status in (None, 400) and bool(_UNREAD.search(error.message))
