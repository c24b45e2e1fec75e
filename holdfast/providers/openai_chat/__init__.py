"""OpenAI's Chat Completions, at OpenAI or any compatible endpoint.

Local servers, gateways and most other providers use this protocol. OpenAI's own models use the
Responses API by default, in `openai_responses`.

Ideas:

- Compatible endpoints differ. What a request must look like is described in `quirks.py`, one value
  per endpoint; the encoder reads these fields and never the name of a provider.
- Answers need no such description: the decoder reads every known form from any endpoint. `calls.py`
  assembles the pieces of tool calls, `think_tags.py` finds reasoning in the text.
- Reasoning is sent back only to the provider that wrote it, in the field that it wants.

Read `quirks.py` first, then `request.py` with `messages.py`. `decoder.py` decodes chunks into
deltas; `usage.py` reads tokens and costs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from holdfast.kernel.entry_point import entry_point
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.model import EFFORTS, Delta, Effort, Request
from holdfast.providers.endpoint import address, check_endpoint, headers_for
from holdfast.providers.http import SHARED_CLIENT, Http
from holdfast.providers.http_stream import WireRequest, stream_answer
from holdfast.providers.openai_chat.decoder import ERROR_CODES, ChatDecoder
from holdfast.providers.openai_chat.messages import ChatEndpoint
from holdfast.providers.openai_chat.quirks import Quirks, quirks_of
from holdfast.providers.openai_chat.request import cache_key, encode
from holdfast.providers.profile import UNKNOWN, Profile
from holdfast.providers.reported_context_limits import reported_limit

COMPLETIONS_PATH: Final = "/chat/completions"


class OpenAIChat:
    """A model of OpenAI's Chat Completions, or of a compatible endpoint at `base_url`."""

    @entry_point("OpenAIChat")
    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str = "https://api.openai.com/v1",
        provider: str = "openai",
        headers: Mapping[str, str] | None = None,
        profile: Profile = UNKNOWN,
        quirks: Quirks | None = None,
        http: Http = SHARED_CLIENT,
    ) -> None:
        """Create the model. `headers` replace ours.

        Without `api_key` no key is sent, since a local server needs none. `quirks` describe how the
        endpoint differs from OpenAI; the default is what is known about `provider`.
        """
        check_endpoint(model, provider, base_url, api_key, needs_key=False)
        quirks = quirks_of(provider) if quirks is None else quirks
        if not isinstance(quirks, Quirks):
            raise ConfigError(f"quirks is {quirks!r}: use Quirks(…), or replace(COMPATIBLE, …)")
        self.profile = profile
        self._endpoint = ChatEndpoint(provider, model, profile, quirks)
        self._url = _url(base_url, quirks.query)
        self._headers = headers_for(_auth(api_key, quirks.auth_header), headers)
        self._http = http

    def __repr__(self) -> str:
        return f"OpenAIChat({self.name!r})"

    @property
    def name(self) -> str:
        return self._endpoint.name

    @property
    def window(self) -> int | None:
        return reported_limit(self._http, self._url, self.name) or self.profile.window

    @property
    def efforts(self) -> tuple[Effort, ...] | None:
        endpoint = self._endpoint
        efforts = endpoint.efforts
        return EFFORTS if efforts is None and endpoint.ignores_efforts else efforts

    @property
    def priced(self) -> bool:
        return self.profile.price is not None or self._endpoint.quirks.reports_cost

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        quirks = self._endpoint.quirks
        decoder = ChatDecoder(
            self._endpoint.provider,
            self.profile.price,
            think_tags=quirks.think_tags,
            keeps_details=quirks.replay == "reasoning_details",
        )
        return stream_answer(self._http, self._wire_request(request), decoder, ERROR_CODES)

    def _wire_request(self, request: Request) -> WireRequest:
        body, notices = encode(request, self._endpoint)
        headers = self._headers
        name = self._endpoint.quirks.cache_header
        if name is not None and request.cache_key is not None:
            headers = {name: cache_key(request.cache_key), **headers}
        return WireRequest(self._url, headers, body, notices, self.name)


def _auth(api_key: str | None, header: str) -> dict[str, str]:
    if api_key is None:
        return {}
    bare = header.lower() != "authorization"
    return {header: api_key if bare else f"Bearer {api_key}"}


def _url(base_url: str, query: Mapping[str, str]) -> str:
    """The URL to post to. A query in the base URL stays."""
    parts = urlsplit(address(base_url, COMPLETIONS_PATH))
    query_text = urlencode({**dict(parse_qsl(parts.query)), **query})
    return parts._replace(query=query_text).geturl()
