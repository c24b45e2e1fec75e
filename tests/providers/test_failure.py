"""What providers say when they fail, in all their wrappings, as our kinds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from holdfast.kernel.errors import ConfigError, FailureKind, ProviderError, classify
from holdfast.providers.failure import ErrorCodes, response_error, stream_error

URL = "https://key:secret@api.example/v1/chat?key=secret"
WORDS: ErrorCodes = {
    "RESOURCE_EXHAUSTED": "rate_limit",
    "INTERNAL": "server",
    "on_fire": "overloaded",
}


def refusal(
    status: int = 400, body: Any = b"", headers: dict[str, str] | None = None
) -> ProviderError:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    error = response_error(URL, status, CIMultiDict(headers or {}), raw, WORDS)
    assert isinstance(error, ProviderError)
    return error


# --- Wrappings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        ({"error": {"message": "No.", "type": "api_error", "code": None}}, "No.", "api_error"),
        ({"type": "error", "error": {"type": "api_error", "message": "No."}}, "No.", "api_error"),
        ([{"error": {"code": 400, "message": "No.", "status": "INTERNAL"}}], "No.", "INTERNAL"),
        ({"object": "error", "message": "No.", "type": "BadRequest"}, "No.", "BadRequest"),
        ({"error": "No."}, "No.", None),
        ({"detail": "No."}, "No.", None),
        ({"detail": [{"loc": ["body"], "msg": "No."}]}, '[{"loc":["body"],"msg":"No."}]', None),
        (b"No.\nmore", "No.", None),
        ({"error": {"message": "Upstream", "metadata": {"raw": "No."}}}, "Upstream: No.", None),
        ({}, "status 400", None),
        ("just text", "just text", None),
        (b"", "status 400 from https://api.example/v1/chat", None),
    ],
)
def test_the_message_and_the_code_are_found_in_each_wrapping(
    body: Any, message: str, code: str | None
) -> None:
    error = refusal(400, body)
    assert str(error) == message
    assert error.code == code


@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", ""])
def test_of_a_web_page_only_its_title_is_told(content_type: str) -> None:
    page = b"<!doctype html><html><head><TITLE>502 Bad\n Gateway</TITLE></head><body>x</body>"
    error = refusal(502, page, {"Content-Type": content_type})
    assert str(error).startswith("a web page titled '502 Bad Gateway' instead of a response")
    assert (error.kind, error.status) == ("server", 502)


def test_a_redirect_is_refused_and_says_where_it_led() -> None:
    error = response_error(
        URL, 307, CIMultiDict({"location": "https://a:b@else.where/v2?k=1"}), b"", {}
    )
    assert isinstance(error, ConfigError)
    assert "https://else.where/v2" in str(error)
    assert "base_url" in str(error)
    assert not any(secret in str(error) for secret in ("secret", "a:b", "k=1"))


@pytest.mark.parametrize(
    ("location", "told"), [("/login", "https://api.example/login"), ("http://h:99999/", "h:99999")]
)
def test_a_redirect_says_where_it_led_however_that_is_spelled(location: str, told: str) -> None:
    error = response_error(
        "https://api.example/v1", 302, CIMultiDict({"location": location}), b"", {}
    )
    assert told in str(error)


def test_a_proxy_that_wants_to_know_us_is_told_apart() -> None:
    error = response_error(URL, 407, CIMultiDict(), b"", {})
    assert isinstance(error, ConfigError)
    assert "check HTTP_PROXY" in str(error)


@given(st.binary(max_size=300), st.integers(400, 599).filter(lambda status: status != 407))
def test_any_body_is_some_failure(body: bytes, status: int) -> None:
    error = refusal(status, body)
    assert error.status == status
    assert classify(error).kind == error.kind


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "code", "type", "status", "details", "metadata", "raw"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_json_is_some_failure_also_inside_a_stream(body: Any) -> None:
    assert classify(refusal(500, body)).kind
    assert classify(stream_error(body, WORDS)).kind


# --- Kinds --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (429, {"type": "insufficient_quota", "code": "insufficient_quota"}, "quota"),
        (429, {"type": "tokens", "code": "rate_limit_exceeded"}, "rate_limit"),
        (429, {"message": "You exceeded your current quota, check your plan."}, "quota"),
        (429, {"message": "You have insufficient credits."}, "quota"),
        (400, {"type": "invalid_request_error", "message": "credit balance is too low"}, "quota"),
        (402, {"message": "Insufficient Balance"}, "quota"),
        (403, {"message": "Your team has used all available credits"}, "quota"),
        (429, {"message": "add a payment method at /account/billing"}, "rate_limit"),
        (413, {"type": "tokens", "code": "rate_limit_exceeded"}, "rate_limit"),
        (
            400,
            {"type": "invalid_request_error", "message": "prompt is too long"},
            "context_overflow",
        ),
        (400, {"code": 400, "type": "exceed_context_size_error"}, "context_overflow"),
        (503, {"code": 503, "message": "x", "status": "INTERNAL"}, "overloaded"),
        (400, {"type": "on_fire"}, "overloaded"),
        (400, {"type": "never_heard_of"}, "invalid_request"),
        (404, {"type": "api_error"}, "not_found"),
        (401, {"type": "api_error"}, "auth"),
        (400, {"type": "api_error"}, "invalid_request"),
        (500, {"type": "api_error"}, "server"),
        (400, {"message": "Incorrect API key provided: xa***"}, "auth"),
        (403, {"message": "No.", "metadata": {"reasons": ["violence"]}}, "content_filter"),
    ],
)
def test_the_most_exact_fact_says_the_kind(
    status: int, error: dict[str, Any], kind: FailureKind
) -> None:
    assert refusal(status, {"error": error}).kind == kind


def test_a_rate_limit_that_is_called_a_quota_is_one_when_it_says_how_long_it_lasts() -> None:
    error = {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota.",
        "details": [{"@type": "RetryInfo", "retryDelay": "34.5s"}],
    }
    failure = refusal(429, {"error": error})
    assert (failure.kind, failure.retry_after) == ("rate_limit", 34.5)


def test_a_limit_for_a_minute_is_one_also_when_nobody_says_how_long_it_lasts() -> None:
    error = {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota.",
        "details": [{"violations": [{"quotaId": "GenerateRequestsPerMinutePerProject"}]}],
    }
    assert refusal(429, {"error": error}).kind == "rate_limit"


@pytest.mark.parametrize("status", [413, 429])
def test_a_request_that_is_more_than_a_minute_allows_is_too_long(status: int) -> None:
    message = (
        "Request too large for gpt-4o in organization org-1 on tokens per min (TPM): "
        "Limit 30000, Requested 46832. The input or output tokens must be reduced."
    )
    error = refusal(status, {"error": {"message": message, "code": "rate_limit_exceeded"}})
    assert (error.kind, error.window) == ("context_overflow", 30_000)


def test_an_answer_without_a_stream_shows_how_it_begins() -> None:
    error = refusal(200, {"choices": [{"message": {"content": "Hello."}}]})
    assert "not a stream" in str(error)
    assert '{"choices"' in str(error)


def test_a_quota_for_the_day_is_not_waited_for() -> None:
    violation = {"quotaId": "GenerateRequestsPerDayPerProject"}
    error = {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "message": "Quota exceeded.",
        "details": [{"violations": [violation]}, {"retryDelay": "34s"}],
    }
    assert refusal(429, {"error": error}).kind == "quota"


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        ({"type": "error", "error": {"type": "overloaded_error"}}, "overloaded", None),
        ({"error": {"message": "x", "code": 502}}, "server", 502),
        ({"error": {"message": "x", "code": "429"}}, "rate_limit", 429),
        ({"code": "server_error", "message": "x"}, "server", None),
        ({"code": "rate_limit_exceeded", "message": "try again in 1.5s"}, "rate_limit", None),
        (
            {"type": "invalid_request_error", "message": "prompt is too long"},
            "context_overflow",
            None,
        ),
        ({"status": "INTERNAL"}, "server", None),
        ("it broke", "unknown", None),
    ],
)
def test_an_error_inside_a_stream_says_its_kind_without_a_status(
    error: Any, kind: FailureKind, status: int | None
) -> None:
    failure = stream_error(error, WORDS)
    assert (failure.kind, failure.status) == (kind, status)


# --- When to try again --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"Retry-After": "1.5"}, 1.5),
        ({"RETRY-AFTER-MS": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        (
            {
                "date": "Mon, 16 Nov 2026 10:00:00 GMT",
                "retry-after": "Mon, 16 Nov 2026 10:01:30 GMT",
            },
            90.0,
        ),
        (
            {
                "date": "Mon, 16 Nov 2026 10:00:00 GMT",
                "retry-after": "Mon, 16 Nov 2026 09:00:00 GMT",
            },
            0.0,
        ),
        ({"retry-after": "Sat, 01 Jan 2000 00:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait_is_read_in_each_spelling(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert refusal(429, b"slow down", headers).retry_after == seconds


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Rate limit reached. Please try again in 20s.", 20.0),
        ("Please try again in 1m3.5s. Visit", 63.5),
        ("Please try again in 350ms.", 0.35),
        ("Please retry in 2h", 7_200.0),
        ("Please try again in a while.", None),
        ("It came to 20s.", None),
    ],
)
def test_how_long_to_wait_is_read_from_the_sentence_when_nothing_else_says_it(
    message: str, seconds: float | None
) -> None:
    error = refusal(429, {"error": {"message": message, "code": "rate_limit_exceeded"}})
    assert error.retry_after == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(("said", "retried"), [("false", False), ("true", True), ("FALSE", False)])
def test_whether_to_try_again_is_the_providers_to_say(said: str, retried: bool) -> None:
    error = refusal(500, b"", {"x-should-retry": said})
    assert error.should_retry is retried
    assert classify(error).retryable is retried


# --- How much fits ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "window"),
    [
        ({"message": "This model's maximum context length is 8192 tokens. However"}, 8_192),
        ({"message": "prompt is too long: 205000 tokens > 200000 maximum"}, 200_000),
        (
            {
                "message": "The input token count (1048577) exceeds the maximum number of tokens "
                "allowed (1048576)."
            },
            1_048_576,
        ),
        ({"message": "This model's maximum prompt length is 131072 but the request"}, 131_072),
        ({"message": "too large for model with 32768 maximum context length"}, 32_768),
        ({"message": "Your request exceeded model token limit: 131072 (requested: 1)"}, 131_072),
        ({"type": "exceed_context_size_error", "n_ctx": 4096, "message": "x"}, 4_096),
        ({"message": "prompt is too long"}, None),
        ({"message": "prompt too long; exceeded max context length by 4021 tokens"}, None),
        (
            {
                "message": "The number of tokens to keep from the initial prompt is greater than "
                "the context length (n_keep: 13055>= n_ctx: 4096). Try to load the model with"
            },
            4_096,
        ),
        (
            {
                "message": "The number of tokens to keep from the initial prompt is greater than "
                "the context length. Try to load the model with a larger context length"
            },
            None,
        ),
        (
            {
                "message": "The input (516368 tokens) is longer than the model's context length "
                "(262144 tokens)."
            },
            262_144,
        ),
        (
            {
                "message": "request (12000 tokens) exceeds the available context size "
                "(8192 tokens), try increasing it"
            },
            8_192,
        ),
        (
            {"message": "The prompt is too long: 140000, model maximum context length: 131071"},
            131_071,
        ),
    ],
)
def test_an_overflow_may_say_how_much_fits(error: dict[str, Any], window: int | None) -> None:
    failure = refusal(400, {"error": error})
    assert failure.kind == "context_overflow"
    assert failure.window == window
