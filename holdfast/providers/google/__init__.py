"""The Gemini API, with streamed answers.

Only this protocol is here: `http_stream.py` one folder up sends requests. Vertex AI is not
supported; the bridge to pydantic-ai reaches it.

Ideas:

- A chunk contains whole parts; only text and thoughts are spread over several. So `decoder.py`
  needs little state.
- Signatures must be sent back with exactly the part that they came with, and newer models refuse
  calls without one. Metadata keeps them, and calls of other providers get a fixed one.
- Models before Gemini 3 support less. `names.py` derives that from a model's name, as options of
  its profile, so that the encoder does not look at names.

Read `contents.py` first: it encodes messages. `request.py` adds tools and settings,
`answer_schema.py` the form of the answer; `decoder.py` decodes `chunk_types.py` into deltas.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final
from urllib.parse import quote, urlsplit

from holdfast.kernel.entry_point import entry_point
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.model import Delta, Effort, Request
from holdfast.providers.endpoint import address, check_endpoint, headers_for
from holdfast.providers.google.decoder import ERROR_CODES, GoogleDecoder
from holdfast.providers.google.names import with_defaults
from holdfast.providers.google.request import encode
from holdfast.providers.http import SHARED_CLIENT, Http
from holdfast.providers.http_stream import WireRequest, stream_answer
from holdfast.providers.profile import UNKNOWN, Profile
from holdfast.providers.reported_context_limits import reported_limit

DEFAULT_BASE_URL: Final = "https://generativelanguage.googleapis.com/v1beta"
DEFAULT_VERSION_PATH: Final = "/v1beta"
"""Path that is added to a base URL that is only a host."""
COLLECTIONS: Final = ("models", "tunedModels")
"""Path prefixes that a model's name may start with; the first is the default."""


class Google:
    """A model of the Gemini API, or of a gateway that implements it.

    Arguments and answers are described in JSON schema, which the API accepts for every model; its
    subset of OpenAPI schemas is not used.

    `options` of the profile; a missing option follows from the names of models before Gemini 3:

    - `thinking`: `"level"` (Gemini 3 and later; the default) or `"budget"` (2.5), and `min_budget`,
      the tokens of a model that cannot stop thinking;
    - `thinks`: false if the model thinks only on request;
    - `signatures`: calls that another provider wrote must be marked as such (default: true if
      `thinking` is `"level"`);
    - `result_files`: results of tools can contain images (default: as `signatures`);
    - `mix_tools`, `mix_output`: false if the API's own tools, or a schema for the answer, cannot be
      combined with other tools.
    """

    @entry_point("Google")
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

    @property
    def priced(self) -> bool:
        return self.profile.price is not None

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
