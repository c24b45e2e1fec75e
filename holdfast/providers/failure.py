"""Converts the errors of every provider into one `ProviderError`. Pure.

Every provider wraps its errors in its own way, and gateways add their own forms. All of them are
read here, because any form may come from any address.
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

MAX_ERROR_BODY: Final = 64 * 1024
"""Bytes of an error response that are read."""
MAX_MESSAGE: Final = 2_000

ErrorCodes = Mapping[str, FailureKind]
"""Error codes of one protocol with their kinds, in addition to the codes that several share."""

_VAGUE_KINDS: Final = frozenset({"invalid_request", "server", "unknown"})
"""Kinds whose codes are also used when the message says something more exact."""


def response_error(
    url: str, status: int, headers: Mapping[str, str], body: bytes, codes: ErrorCodes
) -> Exception:
    """Error for a response that is not a stream: a refusal, a redirect, or another server."""
    if 300 <= status < 400:
        where = _redirect_target(url, headers.get("Location") or "")
        return ConfigError(
            f"{address(url)} redirects to {where}, and the key is not sent there by itself: "
            "set base_url to the right address"
        )
    if status == 407:
        return ConfigError(
            f"the proxy to {address(url)} refused the request (407): check HTTP_PROXY"
        )
    error = _decoded(body)
    if status < 300 and not isinstance(error, str) and not _message(error):
        beginning = body[:200].decode("utf-8", "replace")
        error = {
            "message": f"the response is not a stream, is base_url right? It begins: {beginning}"
        }
    if isinstance(error, str):
        message = _readable_body(error, headers.get("Content-Type") or "")
        error = {"message": message or f"status {status} from {address(url)}"}
    return _failure(error, codes, status, headers)


def _redirect_target(url: str, location: str) -> str:
    try:
        return address(urljoin(url, location))
    except ValueError:  # it is not an address
        return "elsewhere"


def stream_error(error: Any, codes: ErrorCodes) -> ProviderError:
    """Error that the provider reported inside a stream."""
    return _failure(_unwrapped(error), codes, None, {})


def unframed_error(body: bytes | bytearray, codes: ErrorCodes) -> ProviderError | None:
    """Error that was written into a stream outside its events; None if it is not a known one."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict) or not value.get("error"):
        return None
    failure = stream_error(value, codes)
    return None if failure.kind == "unknown" else failure


def unreadable_event(payload: bytes, reason: str) -> ProviderError:
    """Error for an event that does not fit the protocol. A retry may succeed."""
    excerpt = payload[:200].decode("utf-8", "replace")
    return ProviderError(
        f"an event of the stream cannot be read ({reason}): {excerpt}", kind="server"
    )


# --- Reading an error -----------------------------------------------------------------------------


def _failure(
    error: Mapping[str, Any], codes: ErrorCodes, status: int | None, headers: Mapping[str, str]
) -> ProviderError:
    message = _message(error)
    if status is None or status < 400:
        status = _status(error)
    retry_after = _retry_after(headers)
    if retry_after is None:
        retry_after = _retry_delay(error, message)
    code, code_kind = _code_and_kind(error, codes)
    kind = None if code_kind in _VAGUE_KINDS else code_kind
    failure = ProviderError(
        message,
        status=status,
        code=code,
        retry_after=retry_after,
        should_retry=_should_retry(headers),
        kind=_actual_kind(error, message, kind, status, retry_after) or kind,
    )
    if failure.kind == "unknown" and code_kind is not None:
        failure.kind = code_kind
    if failure.kind == "context_overflow":
        failure.window = _reported_window(error, message)
    return failure


def _code_and_kind(
    error: Mapping[str, Any], codes: ErrorCodes
) -> tuple[str | None, FailureKind | None]:
    """The provider's most exact code for an error, and the kind that the code means."""
    own_codes = list(_codes_of(error))
    kinds = {word: codes.get(word) or SHARED_ERROR_CODES.get(word) for word in own_codes}
    exact = [word for word in own_codes if kinds[word] not in (None, *_VAGUE_KINDS)]
    recognized = [word for word in own_codes if kinds[word] is not None]
    code = next(iter((*exact, *recognized, *own_codes)), None)
    return code, kinds[code] if code is not None else None


def _actual_kind(
    error: Mapping[str, Any],
    message: str,
    kind: FailureKind | None,
    status: int | None,
    retry_after: float | None,
) -> FailureKind | None:
    """Kind of an error whose code or status is misleading; None if they are right."""
    if kind in (None, "rate_limit") and _TOO_LARGE.search(message):
        return "context_overflow"  # one request exceeds the limit per minute: waiting does not help
    if kind in (None, "rate_limit") and _out_of_quota(message, error, retry_after):
        return "quota"
    if kind is None and status == 400 and _WRONG_KEY.search(message):
        return "auth"
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and (metadata.get("flagged_input") or metadata.get("reasons")):
        return "content_filter"  # a gateway that moderates prompts, and answers "forbidden"
    return None


_TOO_LARGE: Final = re.compile(
    r"request too large for .{0,200}requested", re.IGNORECASE | re.DOTALL
)
_WRONG_KEY: Final = re.compile(r"(incorrect|invalid) api key|api key not valid", re.IGNORECASE)


def _decoded(body: bytes) -> Mapping[str, Any] | str:
    """The error in a body, or the body as text if it contains no error in a known form."""
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
        message = error.get(key)
        if isinstance(message, str) and message:
            break
        if message:
            message = msgspec.json.encode(message).decode()
            break
    else:
        message = ""
    metadata = error.get("metadata")
    upstream = metadata.get("raw") if isinstance(metadata, dict) else None
    if isinstance(upstream, str) and upstream:  # a gateway passes on its provider's message
        message = f"{message}: {upstream}"
    return message[:MAX_MESSAGE]


def _codes_of(error: Mapping[str, Any]) -> Iterator[str]:
    """Codes of an error, the most exact first."""
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


def _readable_body(text: str, content_type: str) -> str:
    """Readable part of a body that is not JSON."""
    if "html" in content_type or text.lstrip()[:1] == "<":
        title = _TITLE.search(text)
        title_text = f" titled {' '.join(title[1].split())!r}" if title else ""
        return f"a web page{title_text} instead of a response: is base_url right?"
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:300]


# --- Quota --------------------------------------------------------------------------------------

_NO_MONEY: Final = re.compile(
    r"credit balance is too low|insufficient[ _](balance|credits?|funds|quota)"
    r"|(spend(ing)?|billing|budget|credit) (hard )?limit (has been |was )?(reached|exceeded)"
    r"|(out of|no|not enough|run out of|used all( available)?) credits|payment required"
    r"|reached your specified (workspace )?API usage limits",
    re.IGNORECASE,
)
_QUOTA_EXCEEDED: Final = re.compile(r"exceeded your current quota", re.IGNORECASE)


def _out_of_quota(message: str, error: Mapping[str, Any], retry_after: float | None) -> bool:
    """Whether the quota is used up.

    Then waiting does not help, although the error may be called a rate limit.
    """
    if _NO_MONEY.search(message):
        return True
    details = str(error.get("details"))
    if "PerDay" in details:
        return True
    return (
        "PerMinute" not in details and retry_after is None and bool(_QUOTA_EXCEEDED.search(message))
    )


# --- When to try again --------------------------------------------------------------------------


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, read from any of the headers in use for it."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1_000
    value = headers.get("retry-after")
    if value is None:
        return None
    seconds = _number(value)
    return seconds if seconds is not None else _seconds_until(value, headers.get("date"))


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _seconds_until(text: str, now: str | None) -> float | None:
    """Seconds until a date, by the clock of the server that sent it."""
    try:
        then = parsedate_to_datetime(text)
        since = parsedate_to_datetime(now) if now else datetime.now(UTC)
        return max(0.0, (then - since).total_seconds())
    except (TypeError, ValueError):
        return None


_RETRY_IN_MESSAGE: Final = re.compile(
    r"(?:try again|retry) in ((?:\d+h)?(?:\d+m(?!s))?(?:\d+(?:\.\d+)?(?:ms|s))?)", re.IGNORECASE
)
_UNIT: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0}


def _retry_delay(error: Mapping[str, Any], message: str) -> float | None:
    """Seconds to wait according to the body: a field, or the message."""
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str):
            return _duration(delay)
    words = _RETRY_IN_MESSAGE.search(message)
    return _duration(words[1]) if words else None


def _duration(text: str) -> float | None:
    """Seconds of a duration such as `20s`, `1m3.5s` or `350ms`."""
    units = _UNIT.findall(text)
    return sum(float(amount) * _SECONDS[unit] for amount, unit in units) if units else None


def _should_retry(headers: Mapping[str, str]) -> bool | None:
    value = (headers.get("x-should-retry") or "").lower()
    return {"true": True, "false": False}.get(value)


# --- How much fits ------------------------------------------------------------------------------

_WINDOW_IN_MESSAGE: Final = re.compile(
    r"exceed context limit: \d+ \+ \d+ > (\d{3,8})"
    r"|(?:maximum (?:context|prompt|model) length (?:is|of)|context length (?:is|of)(?: only)?"
    r"|tokens allowed|token limit|context (?:limit|length|size))[: (]*(\d{3,8})|n_ctx: (\d{3,8})"
    r"|Limit:? (\d{3,8}),? Requested|> (\d{3,8}) maximum|with (\d{3,8}) maximum context",
    re.IGNORECASE,
)


def _reported_window(error: Mapping[str, Any], message: str) -> int | None:
    size = error.get("n_ctx")
    if isinstance(size, int) and size > 0:
        return size
    match = _WINDOW_IN_MESSAGE.search(message)
    return int(next(filter(None, match.groups()))) if match else None
