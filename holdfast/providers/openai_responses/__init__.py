"""OpenAI's Responses API, and whoever speaks it: `POST {base_url}/responses`.

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
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from typing import Final

from holdfast.kernel.errors import ProviderError
from holdfast.kernel.model import Delta, Notice, Ping, Request
from holdfast.providers.endpoint import address, check, headers_for
from holdfast.providers.http import SHARED, Http
from holdfast.providers.openai_responses.events import CODES
from holdfast.providers.openai_responses.items import Item, names_of_tools
from holdfast.providers.openai_responses.request import Encoded, digest, encode
from holdfast.providers.openai_responses.stream import Decoder
from holdfast.providers.profile import UNKNOWN, Profile
from holdfast.providers.wire import Call, answer


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
        return self.profile.window

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        encoded = encode(request, self._model, self._provider, self.profile, store=self._chain)
        if not self._chain:
            return self._ask(request, encoded, encoded.body(encoded.items))
        given_for = digest(_flat(encoded.items))
        whole = self._ask(request, encoded, encoded.body(encoded.items), given_for)
        link = self._link(request, encoded)
        if link is None:
            return whole
        at, id = link
        body = encoded.body(encoded.items[at + 1 :], previous_response_id=id)
        return _unless_lost(self._ask(request, encoded, body, given_for), whole)

    def _ask(
        self, request: Request, encoded: Encoded, body: bytes, given_for: str | None = None
    ) -> AsyncGenerator[Delta]:
        call = Call(self._url, self._headers, body, encoded.notices)
        decoder = Decoder(
            self._provider,
            price=self.profile.price,
            names=names_of_tools(request.tools, self._provider),
            input=given_for,
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
        if kept.get("output") != digest(said.text):
            return None
        if kept.get("input") != digest(_flat(encoded.items[:at])):
            return None
        id = kept.get("response_id")
        return (at, id) if id else None


def _flat(items: Iterable[Iterable[Item]]) -> list[Item]:
    return [item for some in items for item in some]


async def _unless_lost(
    linked: AsyncGenerator[Delta], whole: AsyncGenerator[Delta]
) -> AsyncGenerator[Delta]:
    """The answer to the short request; to the whole one, if the stored answer is not there any
    more. That is no failure: nothing has been said yet, and asking in full is as good."""
    shown = False
    async with aclosing(linked), aclosing(whole):
        try:
            async for delta in linked:
                shown = shown or not isinstance(delta, (Ping, Notice))
                yield delta
            return
        except ProviderError as error:
            if shown or not _is_lost(error):
                raise
        async for delta in whole:
            yield delta


_LOST: Final = re.compile(r"previous[_ ]response", re.IGNORECASE)


def _is_lost(error: ProviderError) -> bool:
    """Whether it is the stored answer that was refused: gone, of somebody else, or never stored."""
    if error.code == "previous_response_not_found":
        return True
    return error.status in (None, 400, 404) and bool(_LOST.search(error.message))
