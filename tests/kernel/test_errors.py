from __future__ import annotations

import asyncio
import socket
from typing import Final, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.errors import (
    FAILURE_KINDS,
    MAX_DETAIL,
    SHARED_ERROR_CODES,
    STATUS_KINDS,
    ConfigError,
    ContentFiltered,
    EmptyResponse,
    Escalated,
    Failure,
    FailureKind,
    FormatError,
    HoldfastError,
    ModelError,
    PrepareError,
    ProviderError,
    StillOverLimit,
    StreamCut,
    StreamSilent,
    StreamTooLong,
    classify,
    describe,
    redact,
)
from holdfast.kernel.messages import decode, encode
from holdfast.kernel.summary_checkpoint import SummaryFailed

RETRYABLE_STATUSES: Final = {408, 409, 425, 429, 500, 502, 503, 504, *range(520, 530)}
RETRYABLE_KINDS: Final = {
    "rate_limit",
    "overloaded",
    "timeout",
    "stream_silent",
    "stream_cut",
    "empty_response",
    "network",
    "server",
    "prepare",
}
FAILOVER_KINDS: Final = {
    "rate_limit",
    "quota",
    "overloaded",
    "timeout",
    "stream_silent",
    "stream_cut",
    "network",
    "server",
}
SECRET: Final = "Xq3vT9mB7rLk2Zp8"


class Mute(Exception):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class MuteConfig(ConfigError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


# --- The table of kinds -------------------------------------------------------------------------


def test_every_kind_has_its_facts() -> None:
    assert set(FAILURE_KINDS) == set(get_args(FailureKind))


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_every_kind_has_a_sentence_for_people(kind: FailureKind) -> None:
    sentence = classify(ProviderError(kind=kind), "acme:one").message
    assert sentence.endswith(".")
    assert "{" not in sentence
    without_model = classify(ProviderError(kind=kind)).message
    assert without_model[0].isupper()
    assert "None" not in without_model


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_only_what_may_pass_by_itself_is_retryable(kind: FailureKind) -> None:
    assert classify(ProviderError(kind=kind)).retryable is (kind in RETRYABLE_KINDS)


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_only_what_another_model_may_not_have_is_eligible_for_failover(kind: FailureKind) -> None:
    assert classify(ProviderError(kind=kind)).failover is (kind in FAILOVER_KINDS)


# --- Statuses -----------------------------------------------------------------------------------


def test_exactly_the_statuses_of_the_table_are_retried() -> None:
    failures = [classify(ProviderError("x", status=status)) for status in range(100, 600)]
    assert {failure.status for failure in failures if failure.retryable} == RETRYABLE_STATUSES


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request"),
        (401, "auth"),
        (402, "quota"),
        (403, "permission"),
        (404, "not_found"),
        (405, "invalid_request"),
        (408, "timeout"),
        (409, "server"),
        (413, "invalid_request"),
        (418, "invalid_request"),
        (422, "invalid_request"),
        (425, "server"),
        (429, "rate_limit"),
        (500, "server"),
        (501, "unknown"),
        (502, "server"),
        (503, "overloaded"),
        (504, "timeout"),
        (520, "server"),
        (528, "server"),
        (529, "overloaded"),
        (None, "unknown"),
        (302, "unknown"),
    ],
)
def test_a_status_alone_says_the_kind(status: int | None, kind: FailureKind) -> None:
    assert classify(ProviderError("went wrong", status=status)).kind == kind


def test_every_status_of_the_table_has_the_retryability_of_its_kind() -> None:
    for status, kind in STATUS_KINDS.items():
        assert (status in RETRYABLE_STATUSES) is FAILURE_KINDS[kind].retryable, status


# --- Codes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("insufficient_quota", "quota"),
        ("billing_error", "quota"),
        ("rate_limit_exceeded", "rate_limit"),
        ("rate_limit_error", "rate_limit"),
        ("overloaded_error", "overloaded"),
        ("invalid_api_key", "auth"),
        ("authentication_error", "auth"),
        ("permission_error", "permission"),
        ("model_not_found", "not_found"),
        ("not_found_error", "not_found"),
        ("context_length_exceeded", "context_overflow"),
        ("content_filter", "content_filter"),
        ("invalid_request_error", "invalid_request"),
        ("timeout_error", "timeout"),
        ("api_error", "server"),
        ("server_error", "server"),
    ],
)
def test_a_code_alone_says_the_kind(code: str, kind: FailureKind) -> None:
    assert SHARED_ERROR_CODES[code] == kind
    assert classify(ProviderError("", code=code)).kind == kind


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (429, "insufficient_quota", "quota"),
        (403, "billing_error", "quota"),
        (400, "invalid_api_key", "auth"),
        (400, "context_length_exceeded", "context_overflow"),
        (200, "overloaded_error", "overloaded"),  # an error event inside a stream
        (500, "overloaded_error", "overloaded"),
        (429, "a_word_of_its_own", "rate_limit"),
    ],
)
def test_a_code_is_more_exact_than_a_status(status: int, code: str, kind: FailureKind) -> None:
    assert classify(ProviderError("", status=status, code=code)).kind == kind


def test_a_kind_that_the_adapter_found_is_more_exact_than_both() -> None:
    error = ProviderError("", status=500, code="overloaded_error", kind="quota")
    assert classify(error).kind == "quota"


# --- Text comes last ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 128000 tokens. However, you requested 130000",
        "prompt is too long: 205000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: context window exceeded",
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
        "Your input exceeds the context window of this model.",
        "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "the request exceeds the available context size, try increasing it",
        "Your request exceeded model token limit: 131072 (requested: 140000)",
        "Please reduce the length of the messages or completion.",
        "`inputs` tokens + `max_new_tokens` must be <= 8193",
        "The model is loaded with context length of only 4096 tokens, which is not enough",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "Input is too long for requested model.",
        "a web page titled '413 Request Entity Too Large' instead of an answer",
        "too many tokens in the request",
        "prompt too long; exceeded max context length by 4021 tokens",
        "The number of tokens to keep from the initial prompt is greater than the context length",
        "The input (516368 tokens) is longer than the model's context length (262144 tokens).",
    ],
)
@pytest.mark.parametrize("status", [400, 413, 422, None])
@pytest.mark.parametrize("code", [None, "invalid_request_error", "unknown_word"])
def test_a_prompt_that_is_too_long_is_known_by_the_providers_sentence(
    message: str, status: int | None, code: str | None
) -> None:
    assert classify(ProviderError(message, status=status, code=code)).kind == "context_overflow"


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
        "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens",
        "messages.0.content.1.image: image exceeds 5 MB maximum",
        "Invalid value for temperature: must be at most 2",
    ],
)
def test_another_limit_than_the_window_is_no_overflow(message: str) -> None:
    assert classify(ProviderError(message, status=400)).kind == "invalid_request"


@pytest.mark.parametrize("status", [401, 403, 404, 408, 429, 500, 503, 529])
def test_a_status_that_says_it_beats_the_text(status: int) -> None:
    error = ProviderError("prompt is too long: maximum context length", status=status)
    assert classify(error).kind == STATUS_KINDS.get(status, "server")


@pytest.mark.parametrize("code", ["rate_limit_error", "authentication_error", "timeout_error"])
def test_a_code_that_says_it_beats_the_text(code: str) -> None:
    error = ProviderError("prompt is too long", status=400, code=code)
    assert classify(error).kind == SHARED_ERROR_CODES[code]


WORDS: Final = (
    "quota billing insufficient_quota overloaded rate limit 429 529 unauthorized forbidden "
    "invalid api key eof unavailable timeout timed out connection reset content_filter "
    "prompt is too long maximum context length context_length_exceeded"
)


@pytest.mark.parametrize("word", ["", WORDS])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError, "internal"),
        (RuntimeError, "internal"),
        (ConnectionError, "network"),
        (TimeoutError, "timeout"),
        (PrepareError, "prepare"),
        (Escalated, "escalated"),
        (SummaryFailed, "empty_response"),
        (asyncio.CancelledError, "cancelled"),
    ],
)
def test_text_that_no_provider_wrote_never_decides(
    error: type[BaseException], kind: FailureKind, word: str
) -> None:
    """What a user or a model wrote may stand in any message: only the type counts."""
    assert classify(error(word)).kind == kind


@given(st.text(), st.sampled_from(sorted(RETRYABLE_STATUSES)))
def test_no_text_changes_what_a_telling_status_says(text: str, status: int) -> None:
    assert classify(ProviderError(text, status=status)).kind == (
        classify(ProviderError("", status=status)).kind
    )


# --- Our own exceptions, and everybody's --------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (StreamSilent(60), "stream_silent"),
        (StreamCut(), "stream_cut"),
        (StreamTooLong(10, "bytes"), "stream_too_long"),
        (EmptyResponse(), "empty_response"),
        (ContentFiltered(), "content_filter"),
        (StillOverLimit(900, 700), "still_over_limit"),
        (StillOverLimit(900, None), "still_over_limit"),
        (Escalated("no"), "escalated"),
        (PrepareError("no"), "prepare"),
        (ModelError("no"), "unknown"),
        (ConfigError("set it"), "config"),
        (FormatError("no JSON"), "internal"),
        (HoldfastError("ours"), "internal"),
        (TimeoutError(), "timeout"),
        (ConnectionResetError(), "network"),
        (ConnectionRefusedError(), "network"),
        (BrokenPipeError(), "network"),
        (socket.gaierror(-2, "Name or service not known"), "network"),
        (OSError(101, "Network is unreachable"), "network"),
        (asyncio.CancelledError(), "cancelled"),
        (KeyError("x"), "internal"),
        (AssertionError(), "internal"),
        (RecursionError(), "internal"),
        (ExceptionGroup("two", [ValueError("a"), KeyError("b")]), "internal"),
    ],
)
def test_an_exception_has_the_kind_of_its_type(error: BaseException, kind: FailureKind) -> None:
    failure = classify(error)
    assert failure.kind == kind
    assert failure.retryable is FAILURE_KINDS[kind].retryable
    assert failure.failover is FAILURE_KINDS[kind].failover


def test_every_model_error_of_ours_has_a_kind_of_the_table() -> None:
    for error in ModelError.__subclasses__():
        assert error.kind in FAILURE_KINDS, error


# --- What the provider wants --------------------------------------------------------------------


@pytest.mark.parametrize("status", sorted(RETRYABLE_STATUSES))
def test_a_provider_that_says_not_to_retry_is_not_asked_again(status: int) -> None:
    failure = classify(ProviderError("", status=status, should_retry=False))
    assert not failure.retryable
    assert failure.kind == classify(ProviderError("", status=status)).kind


@pytest.mark.parametrize("kind", ["auth", "quota", "invalid_request", "content_filter"])
def test_a_provider_that_says_to_retry_does_not_make_a_lasting_failure_pass(
    kind: FailureKind,
) -> None:
    assert not classify(ProviderError(kind=kind, should_retry=True)).retryable


def test_a_failure_carries_the_facts() -> None:
    failure = classify(
        ProviderError("slow down", status=429, code="rate_limit_error", retry_after=7), "acme:one"
    )
    assert failure.status == 429
    assert failure.retry_after == 7
    assert failure.model == "acme:one"
    assert failure.detail == "ProviderError: slow down"
    assert failure.message == "acme:one is rate limiting requests."


def test_the_sentence_for_people_never_repeats_what_the_provider_wrote() -> None:
    failure = classify(ProviderError("<html>quux</html>", status=500), "acme:one")
    assert "quux" not in failure.message
    assert "quux" in failure.detail


def test_a_mistake_in_the_set_up_is_told_in_its_own_words() -> None:
    assert classify(ConfigError("use at least 1")).message == "use at least 1"


def test_a_failure_survives_storage() -> None:
    failure = classify(ProviderError("a\x00b\ud800", status=503, retry_after=2.5), "acme:one")
    assert decode(encode(failure), Failure) == failure


# --- Details for operators ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f"authorization: bearer {SECRET}",
        f"Authorization: Basic {SECRET}==",
        f"x-api-key: {SECRET}",
        f"api_key={SECRET}",
        f"apikey={SECRET}&x=1",
        f"{{'api_key': '{SECRET}'}}",
        f'{{"access_token":"{SECRET}"}}',
        f"token = {SECRET}",
        f"password={SECRET}",
        f"client_secret: {SECRET}",
        f"Incorrect API key provided: {SECRET}.",
        f"your API key is {SECRET}",
        f"bad key sk-proj-{SECRET}",
        f"bad key sk-ant-api03-{SECRET}",
        f"bad key AIza{SECRET}",
        f"bad key xai-{SECRET}",
        f"bad key gsk_{SECRET}",
        f"bad key ghp_{SECRET}",
        f"bad key github_pat_{SECRET}",
        f"bad key AKIA{SECRET.upper()}",
        f"bad token eyJhbGciOiJIUzI1NiJ9.{SECRET}.{SECRET}",
        f"GET https://api.example/v1?key={SECRET} failed",
        f"GET https://api.example/v1?a=1&key={SECRET}#frag failed",
        f"GET https://user:{SECRET}@api.example/v1 failed",
        f"proxy socks5://{SECRET}@10.0.0.1:1080 refused",
        f"Bearer\n\t {SECRET}",
        f"token: Bearer {SECRET}",
        f"Bearer token {SECRET}",
        f"bad credential eyJhbGciOiJIUzI1NiJ9.{SECRET}.{SECRET}",
    ],
)
def test_a_credential_never_reaches_the_detail(text: str) -> None:
    for error in (ProviderError(text, status=401), RuntimeError(text), ConnectionError(text)):
        detail = classify(error).detail
        assert SECRET.lower() not in detail.lower()
        assert "[redacted]" in detail


def test_where_it_happened_stays_readable() -> None:
    line = redact(f"POST https://user:{SECRET}@api.example/v1/chat?key={SECRET}: 500")
    assert "https://" in line
    assert "api.example/v1/chat" in line


@pytest.mark.parametrize(
    "text",
    [
        "ProviderError: status 500",
        "connection to api.example:443 refused",
        "maximum context length is 128000 tokens",
        "skip_the_validation_step is no tool",
        "the task skateboarding_lesson_1 failed",
        "what? no",
    ],
)
def test_a_text_without_credentials_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


@given(st.text(max_size=5_000))
def test_a_detail_is_one_short_line(text: str) -> None:
    line = redact(text)
    assert len(line) <= MAX_DETAIL
    assert len(line.splitlines()) <= 1


@given(st.text(max_size=200), st.text(max_size=200))
def test_a_bearer_token_is_redacted_whatever_stands_around_it(before: str, after: str) -> None:
    assert SECRET not in redact(f"{before} Bearer {SECRET} {after}")


def test_a_long_detail_says_that_it_goes_on() -> None:
    assert redact("x " * 1_000).endswith("…")


# --- Describing never fails ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no"), "ValueError: no"),
        (ValueError(), "ValueError"),
        (Mute(), "Mute"),
        (ExceptionGroup("g", [ValueError("a"), Mute()]), "ExceptionGroup: ValueError: a; Mute"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_an_exception_is_described_by_its_type_and_what_it_says(
    error: BaseException, text: str
) -> None:
    assert describe(error) == text


@pytest.mark.parametrize(
    "error",
    [
        Mute(),
        MuteConfig(),
        ExceptionGroup("g", [Mute(), MuteConfig()]),
        BaseExceptionGroup("g", [asyncio.CancelledError(), Mute()]),
        ProviderError("", status=None),
        ProviderError("\ud800\x00", status=-1, code="", retry_after=float("nan")),
        KeyboardInterrupt(),
        SystemExit(3),
        GeneratorExit(),
    ],
)
def test_classifying_never_raises(error: BaseException) -> None:
    failure = classify(error, "acme:{one}")
    assert failure.message
    assert failure.detail


def test_a_group_within_groups_is_described_and_classified() -> None:
    error: Exception = ValueError("innermost")
    for _ in range(2_000):
        error = ExceptionGroup("g", [error])
    assert describe(error).startswith("ExceptionGroup")
    assert classify(error).kind == "internal"


@given(st.text(), st.integers() | st.none(), st.text() | st.none(), st.floats() | st.none())
def test_whatever_a_provider_says_has_a_kind(
    message: str, status: int | None, code: str | None, retry_after: float | None
) -> None:
    error = ProviderError(message, status=status, code=code, retry_after=retry_after)
    assert classify(error).kind in FAILURE_KINDS


# --- Wrapped and local errors -------------------------------------------------------------------


def test_a_group_around_one_error_is_that_error() -> None:
    inner = ProviderError("slow down", status=429, retry_after=3)
    failure = classify(ExceptionGroup("of a task group", [ExceptionGroup("again", [inner])]))
    assert (failure.kind, failure.status, failure.retry_after) == ("rate_limit", 429, 3)


def test_a_group_of_several_errors_is_none_of_them() -> None:
    group = ExceptionGroup("two", [ProviderError(status=429), ValueError("x")])
    assert classify(group).kind == "internal"


@pytest.mark.parametrize("error", [FileNotFoundError("x"), PermissionError("x")])
def test_an_error_of_the_file_system_is_no_network_error(error: OSError) -> None:
    assert classify(error).kind == "internal"


def test_a_clients_own_error_around_the_networks_is_one_of_the_network() -> None:
    class ClientError(Exception):
        """As HTTP clients have them."""

    def raised(cause: Exception) -> ClientError:
        try:
            raise ClientError("it failed") from cause
        except ClientError as error:
            return error

    assert classify(raised(ConnectionResetError())).kind == "network"
    assert classify(raised(raised(TimeoutError()))).kind == "timeout"
    assert classify(raised(ValueError())).kind == "internal"


@pytest.mark.parametrize(
    "text",
    [
        "API key not valid. Please pass a valid API key.",
        "a token limit of 4096",
        "You can find your API key at https://platform.example/account/api-keys.",
        "give one as a bearer token",
        "Unexpected token: identifier",
        "the password is wrong",
    ],
)
def test_a_sentence_about_keys_is_told_as_it_is(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("status", [500, 502, 520, 524])
def test_trouble_of_a_gateway_is_retried_whatever_it_is_called(status: int) -> None:
    error = ProviderError("x", status=status, code="invalid_request_error")
    assert classify(error).retryable


@pytest.mark.parametrize(
    ("status", "kind"), [(404, "not_found"), (401, "auth"), (400, "invalid_request")]
)
def test_a_status_that_says_it_beats_a_word_for_everything(status: int, kind: FailureKind) -> None:
    assert classify(ProviderError("x", status=status, code="api_error")).kind == kind
