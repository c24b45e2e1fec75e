"""Converts the failures of every provider into one `ProviderError`. Pure.

Every provider wraps its errors in its own way, and gateways in front of it add theirs. All of them
are read here, because any of them may come from any address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urljoin

import msgspec

from holdfast.kernel.errors import SHARED_ERROR_CODES, ConfigError, FailureKind, ProviderError
from holdfast.providers.http import address

MAX_BODY: Final = 64 * 1024
"""Bytes of a refusal that are read."""
MAX_MESSAGE: Final = 2_000

Codes = Mapping[str, FailureKind]
"""A protocol's own words for its errors, beside those that several share."""

_VAGUE: Final = frozenset({"invalid_request", "server", "unknown"})
"""Kinds whose words are also used when the message says something more exact."""


def refused(
    url: str, status: int, headers: Mapping[str, str], body: bytes, codes: Codes
) -> Exception:
    """An answer that is no stream: a refusal, a redirect, or something else than the provider."""
    if 300 <= status < 400:
        where = _joined(url, headers.get("Location") or "")
        return ConfigError(
            f"{address(url)} sends us on to {where}, and a key does not go there by itself: "
            "set base_url to the address that is meant"
        )
    if status == 407:
        return ConfigError(f"the proxy to {address(url)} refused us (407): check HTTP_PROXY")
    error = _decoded(body)
    if status < 300 and not isinstance(error, str) and not _message(error):
        said = body[:200].decode("utf-8", "replace")
        error = {"message": f"an answer that is no stream, is base_url right? It begins: {said}"}
    if isinstance(error, str):
        message = _readable(error, headers.get("Content-Type") or "")
        error = {"message": message or f"status {status} from {address(url)}"}
    return _failure(error, codes, status, headers)


def _joined(url: str, location: str) -> str:
    try:
        return address(urljoin(url, location))
    except ValueError:  # it is no address
        return "elsewhere"


def reported(error: Any, codes: Codes) -> ProviderError:
    """An error inside a stream that had begun well."""
    return _failure(_unwrapped(error), codes, None, {})


def unframed(body: bytes | bytearray, codes: Codes) -> ProviderError | None:
    """An error that was written into a stream as it is, without being an event of it. None where
    nothing is said that is known."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict) or not value.get("error"):
        return None
    failure = reported(value, codes)
    return None if failure.kind == "unknown" else failure


def unreadable(payload: bytes, reason: str) -> ProviderError:
    """An event of a stream that is not what the protocol says. Another try may bring another."""
    shown = payload[:200].decode("utf-8", "replace")
    return ProviderError(
        f"an event of the stream cannot be read ({reason}): {shown}", kind="server"
    )


# --- What an error says -------------------------------------------------------------------------


def _failure(
    error: Mapping[str, Any], codes: Codes, status: int | None, headers: Mapping[str, str]
) -> ProviderError:
    message = _message(error)
    if status is None or status < 400:
        status = _status(error)
    retry_after = _retry_after(headers)
    if retry_after is None:
        retry_after = _retry_delay(error, message)
    code, named = _named(error, codes)
    kind = None if named in _VAGUE else named
    failure = ProviderError(
        message,
        status=status,
        code=code,
        retry_after=retry_after,
        should_retry=_should_retry(headers),
        kind=_disguised(error, message, kind, status, retry_after) or kind,
    )
    if failure.kind == "unknown" and named is not None:
        failure.kind = named
    if failure.kind == "context_overflow":
        failure.window = _window(error, message)
    return failure


def _named(error: Mapping[str, Any], codes: Codes) -> tuple[str | None, FailureKind | None]:
    """The provider's most exact word for an error, and the kind that it means."""
    words = list(_words(error))
    kinds = {word: codes.get(word) or SHARED_ERROR_CODES.get(word) for word in words}
    exact = [word for word in words if kinds[word] not in (None, *_VAGUE)]
    known = [word for word in words if kinds[word] is not None]
    code = next(iter((*exact, *known, *words)), None)
    return code, kinds[code] if code is not None else None


def _disguised(
    error: Mapping[str, Any],
    message: str,
    kind: FailureKind | None,
    status: int | None,
    retry_after: float | None,
) -> FailureKind | None:
    """What an error really is that is called something else, or None when it is as it is called."""
    if kind in (None, "rate_limit") and _TOO_LARGE.search(message):
        return "context_overflow"  # one request is more than a minute allows: waiting is no help
    if kind in (None, "rate_limit") and _out_of_quota(message, error, retry_after):
        return "quota"
    if kind is None and status == 400 and _WRONG_KEY.search(message):
        return "auth"
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and (metadata.get("flagged_input") or metadata.get("reasons")):
        return "content_filter"  # a gateway that looks at prompts, and says "forbidden"
    return None


_TOO_LARGE: Final = re.compile(
    r"request too large for .{0,200}requested", re.IGNORECASE | re.DOTALL
)
_WRONG_KEY: Final = re.compile(r"(incorrect|invalid) api key|api key not valid", re.IGNORECASE)


def _decoded(body: bytes) -> Mapping[str, Any] | str:
    """The error of a body, or the body as text when it has none that we know."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body.decode("utf-8", "replace")
    if isinstance(value, list) and value:
        value = value[0]
    return _unwrapped(value) if isinstance(value, dict) else str(value)


def _unwrapped(value: Any) -> Mapping[str, Any]:
    """`{"error": {…}}`, `{"error": "…"}`, `{"response": {"error": {…}}}` or the error itself."""
    if not isinstance(value, dict):
        return {"message": str(value)}
    inner = value.get("error")
    if isinstance(inner, dict):
        return inner
    if isinstance(inner, str):
        return {**value, "message": inner}
    return value


def _message(error: Mapping[str, Any]) -> str:
    for key in ("message", "detail", "error_message", "title"):
        said = error.get(key)
        if isinstance(said, str) and said:
            break
        if said:
            said = msgspec.json.encode(said).decode()
            break
    else:
        said = ""
    metadata = error.get("metadata")
    upstream = metadata.get("raw") if isinstance(metadata, dict) else None
    if isinstance(upstream, str) and upstream:  # a gateway passes on what its provider said
        said = f"{said}: {upstream}"
    return said[:MAX_MESSAGE]


def _words(error: Mapping[str, Any]) -> Iterator[str]:
    """What the error is called, the most exact word first."""
    details = error.get("details")
    if isinstance(details, dict) and isinstance(details.get("error_code"), str):
        yield details["error_code"]
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and isinstance(detail.get("reason"), str):
            yield detail["reason"]
    for key in ("code", "type", "status"):
        word = error.get(key)
        if isinstance(word, str) and word and not word.isdigit():
            yield word


def _status(error: Mapping[str, Any]) -> int | None:
    for key in ("code", "status", "http_code"):
        value = error.get(key)
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, int) and 400 <= value < 600:
            return value
    return None


_TITLE: Final = re.compile(r"<title[^>]*>([^<]{1,200})", re.IGNORECASE)


def _readable(text: str, content_type: str) -> str:
    """What a person can read of a body that is no JSON."""
    if "html" in content_type or text.lstrip()[:1] == "<":
        title = _TITLE.search(text)
        named = f" titled {' '.join(title[1].split())!r}" if title else ""
        return f"a web page{named} instead of an answer: is base_url right?"
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:300]


# --- Quota --------------------------------------------------------------------------------------

_NO_MONEY: Final = re.compile(
    r"credit balance is too low|insufficient[ _](balance|credits?|funds|quota)"
    r"|(spend(ing)?|billing|budget|credit) (hard )?limit (has been |was )?(reached|exceeded)"
    r"|(out of|no|not enough|run out of|used all( available)?) credits|payment required"
    r"|reached your specified (workspace )?API usage limits",
    re.IGNORECASE,
)
_QUOTA: Final = re.compile(r"exceeded your current quota", re.IGNORECASE)


def _out_of_quota(message: str, error: Mapping[str, Any], retry_after: float | None) -> bool:
    """Whether waiting will not help, although it may be called a rate limit."""
    if _NO_MONEY.search(message):
        return True
    details = str(error.get("details"))
    if "PerDay" in details:
        return True
    return "PerMinute" not in details and retry_after is None and bool(_QUOTA.search(message))


# --- When to try again --------------------------------------------------------------------------


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, in each of the spellings that are used for it."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1_000
    given = headers.get("retry-after")
    if given is None:
        return None
    seconds = _number(given)
    return seconds if seconds is not None else _until(given, headers.get("date"))


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _until(text: str, now: str | None) -> float | None:
    """Seconds to a date, by the clock of whoever gave it."""
    try:
        then = parsedate_to_datetime(text)
        since = parsedate_to_datetime(now) if now else datetime.now(UTC)
        return max(0.0, (then - since).total_seconds())
    except (TypeError, ValueError):
        return None


_IN_WORDS: Final = re.compile(
    r"(?:try again|retry) in ((?:\d+h)?(?:\d+m(?!s))?(?:\d+(?:\.\d+)?(?:ms|s))?)", re.IGNORECASE
)
_UNIT: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0}


def _retry_delay(error: Mapping[str, Any], message: str) -> float | None:
    """Seconds to wait as the body says it: in a field, or in words."""
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str):
            return _duration(delay)
    words = _IN_WORDS.search(message)
    return _duration(words[1]) if words else None


def _duration(text: str) -> float | None:
    """`20s`, `1m3.5s`, `350ms`."""
    units = _UNIT.findall(text)
    return sum(float(amount) * _SECONDS[unit] for amount, unit in units) if units else None


def _should_retry(headers: Mapping[str, str]) -> bool | None:
    said = (headers.get("x-should-retry") or "").lower()
    return {"true": True, "false": False}.get(said)


# --- How much fits ------------------------------------------------------------------------------

_LIMIT: Final = re.compile(
    r"exceed context limit: \d+ \+ \d+ > (\d{3,8})"
    r"|(?:maximum (?:context|prompt|model) length (?:is|of)|context length (?:is|of)(?: only)?"
    r"|tokens allowed|token limit|context (?:limit|length|size))[: (]*(\d{3,8})|n_ctx: (\d{3,8})"
    r"|Limit:? (\d{3,8}),? Requested|> (\d{3,8}) maximum|with (\d{3,8}) maximum context",
    re.IGNORECASE,
)


def _window(error: Mapping[str, Any], message: str) -> int | None:
    said = error.get("n_ctx")
    if isinstance(said, int) and said > 0:
        return said
    found = _LIMIT.search(message)
    return int(next(filter(None, found.groups()))) if found else None
