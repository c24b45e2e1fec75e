"""Models of the Gemini API, with streamed answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final
from urllib.parse import quote, urlsplit

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.model import Delta, Effort, Request
from holdfast.providers.context_limits import reported_limit
from holdfast.providers.endpoint import address, check_endpoint, headers_for
from holdfast.providers.google.names import with_defaults
from holdfast.providers.google.request import encode
from holdfast.providers.google.stream import ERROR_CODES, GoogleDecoder
from holdfast.providers.http import SHARED_CLIENT, Http
from holdfast.providers.model_stream import WireRequest, stream_answer
from holdfast.providers.profile import UNKNOWN, Profile

DEFAULT_BASE_URL: Final = "https://generativelanguage.googleapis.com/v1beta"
DEFAULT_VERSION_PATH: Final = "/v1beta"
"""Added to an address that is only a host."""
COLLECTIONS: Final = ("models", "tunedModels")
"""Path prefixes that a model's name may start with; the first is the default."""


class Google:
    """A model behind the Gemini API, or behind a gateway that speaks it.

    Arguments and answers are described in JSON schema, which the API takes for every model; the
    subset of OpenAPI's schema objects that it knows as well is not spoken.

    What a profile's `options` say here; what they leave out is gathered from the name of a model
    before Gemini 3:

    - `thinking`: `"level"` (Gemini 3 and later; also when nothing is said) or `"budget"` (2.5), and
      `min_budget`, the tokens of a model that cannot stop thinking;
    - `thinks`: false where a model thinks only when it is told to;
    - `signatures`: calls that another provider wrote have to be marked as such (otherwise as
      `thinking` is `"level"`);
    - `result_files`: results of tools can hold images (otherwise as `signatures` is);
    - `mix_tools`, `mix_output`: false where the API's own tools, or a schema for the answer, cannot
      stand beside other tools.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str,
        base_url: str = DEFAULT_BASE_URL,
        provider: str = "google",
        headers: Mapping[str, str] | None = None,
        profile: Profile = UNKNOWN,
        http: Http = SHARED_CLIENT,
    ) -> None:
        check_endpoint(model, provider, base_url, api_key)
        style = profile.options.get("thinking", "level")
        if style not in ("level", "budget"):
            raise ConfigError(f"the profile's thinking is {style!r}: use 'level' or 'budget'")
        self.name = f"{provider}:{model}"
        self.profile = with_defaults(profile, model)
        self._provider = provider
        self._http = http
        self._url = _url(base_url, model)
        self._headers = headers_for({"x-goog-api-key": api_key}, headers)

    def __repr__(self) -> str:
        return f"Google({self.name!r})"

    @property
    def window(self) -> int | None:
        return reported_limit(self._http, self._url, self.name) or self.profile.window

    @property
    def efforts(self) -> tuple[Effort, ...] | None:
        return self.profile.efforts

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        body, notices = encode(request, self.name, self._provider, self.profile)
        call = WireRequest(self._url, self._headers, body, notices, self.name)
        return stream_answer(
            self._http, call, GoogleDecoder(self._provider, self.profile), ERROR_CODES
        )


def _url(base_url: str, model: str) -> str:
    collection, slash, id = model.partition("/")  # a tuned model names its collection
    if not slash or collection not in COLLECTIONS:
        collection, id = COLLECTIONS[0], model
    # One segment, whatever the name is: a request with the key must not leave the base URL.
    path = f"/{collection}/{quote(id, safe=':@')}:streamGenerateContent"
    if not urlsplit(base_url).path.strip("/"):
        path = DEFAULT_VERSION_PATH + path
    posted = address(base_url, path)
    return f"{posted}{'&' if urlsplit(posted).query else '?'}alt=sse"
