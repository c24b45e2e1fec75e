"""The Anthropic Messages API.

Only this protocol is here: `http_stream.py` one folder up sends requests, and the kernel runs
tools. Claude on OpenRouter uses that gateway's protocol, in `openai_chat`.

Ideas:

- An answer is a list of blocks, and the API wants them back unchanged and in order. Metadata keeps
  what our parts do not contain, such as signatures and the results of tools that the provider ran.
- An answer may pause while the provider runs its own tools. `Anthropic` then sends back what it has
  and continues with another stream; callers see one answer.
- The API caches only marked prefixes: `request.py` places at most four marks.

Read `decoder.py` first: it decodes `event_types.py` into deltas, and `usage.py` adds up the tokens
of all streams. `request.py` encodes a request with `messages.py` and `answer_schema.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from holdfast.kernel.assemble import Assembly
from holdfast.kernel.entry_point import entry_point
from holdfast.kernel.errors import ConfigError, ProviderError
from holdfast.kernel.model import Delta, Effort, Request
from holdfast.kernel.ports import Ports
from holdfast.providers.anthropic.decoder import ERROR_CODES, AnthropicDecoder
from holdfast.providers.anthropic.request import AnthropicTarget, encode
from holdfast.providers.endpoint import address, check_endpoint, headers_for
from holdfast.providers.http import SHARED_CLIENT, Http
from holdfast.providers.http_stream import CONNECTION_ERRORS, WireRequest, stream_answer
from holdfast.providers.profile import UNKNOWN, Profile
from holdfast.providers.reported_context_limits import reported_limit

API_VERSION: Final = "2023-06-01"
"""Version of the API that is requested."""
MAX_PAUSES: Final = 10
"""How often a paused answer is resumed before it is returned as it is."""


class Anthropic:
    """A model of Anthropic, or of another endpoint with its protocol at `base_url`.

    `profile.options["thinking"]` is `adaptive` (the default), or `budget` for models whose thinking
    is limited in tokens.
    """

    @entry_point("Anthropic")
    def __init__(
        self,
        model: str,
        *,
        api_key: str,
        base_url: str = "https://api.anthropic.com",
        provider: str = "anthropic",
        headers: Mapping[str, str] | None = None,
        profile: Profile = UNKNOWN,
        http: Http = SHARED_CLIENT,
        betas: Sequence[str] = (),
    ) -> None:
        """Create the model.

        `betas` are features that must be requested by name; `headers` replace ours.
        """
        check_endpoint(model, provider, base_url, api_key)
        _check_options(profile, betas)
        self.profile = profile
        self._target = AnthropicTarget(provider, model, profile)
        parts = urlsplit(base_url)
        base = parts._replace(path=parts.path.rstrip("/").removesuffix("/v1")).geturl()
        self._url = address(base, "/v1/messages")
        ours = {"anthropic-version": API_VERSION, "x-api-key": api_key}
        if betas:
            ours["anthropic-beta"] = ",".join(betas)
        self._headers = headers_for(ours, headers)
        self._http = http

    def __repr__(self) -> str:
        return f"Anthropic({self.name!r})"

    @property
    def name(self) -> str:
        return self._target.name

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
        if request.provider_tools:  # nothing else makes an answer pause
            return self._stream_with_pauses(request)
        decoder = AnthropicDecoder(self._target.provider, self.profile.price)
        return stream_answer(self._http, self._wire_request(request), decoder, ERROR_CODES)

    async def _stream_with_pauses(self, request: Request) -> AsyncGenerator[Delta]:
        """One answer, resumed when the provider pauses while it runs its own tools.

        A paused answer is sent back exactly as it is, and the provider continues it. Callers see
        one answer.
        """
        decoder = AnthropicDecoder(self._target.provider, self.profile.price, resumable=True)
        assembly = Assembly(self.name, Ports())
        call = self._wire_request(request)
        for pauses_left in range(MAX_PAUSES, -1, -1):
            decoder.resumable = pauses_left > 0
            try:
                async with aclosing(
                    stream_answer(self._http, call, decoder, ERROR_CODES)
                ) as deltas:
                    async for delta in deltas:
                        assembly.feed(delta)
                        yield delta
            except ProviderError as error:
                if not decoder.paused or error.kind not in CONNECTION_ERRORS:
                    raise  # after a pause it does not matter how the connection ended
            partial = assembly.partial("interrupted") if decoder.paused else None
            if partial is None:
                return
            decoder.resume()
            continued = replace(request, messages=(*request.messages, partial))
            call = replace(self._wire_request(continued, decoder.container), notices=())

    def _wire_request(self, request: Request, container: str | None = None) -> WireRequest:
        body, notices = encode(request, self._target, container)
        return WireRequest(self._url, self._headers, body, notices, self.name)


def _check_options(profile: Profile, betas: Sequence[str]) -> None:
    thinking = profile.options.get("thinking", "adaptive")
    if thinking not in ("adaptive", "budget"):
        raise ConfigError(f"thinking is {thinking!r} in the profile: use 'adaptive' or 'budget'")
    if isinstance(betas, str):
        raise ConfigError(f"betas is the text {betas!r}: use a list of names")
    if not (isinstance(betas, Sequence) and all(isinstance(one, str) for one in betas)):
        raise ConfigError(f"betas is {betas!r}: use a list of names")
