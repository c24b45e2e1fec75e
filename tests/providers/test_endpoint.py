"""Where a model is asked, as whom, and with what."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from holdfast.kernel.errors import ConfigError
from holdfast.providers.endpoint import address, check_endpoint, headers_for
from holdfast.providers.request_body import encoded, merged

GOOD: dict[str, Any] = {
    "model": "m",
    "provider": "p",
    "base_url": "https://api.example/v1",
    "api_key": "key",
}


def test_what_can_be_right_is_taken() -> None:
    check_endpoint(**GOOD)
    check_endpoint(**{**GOOD, "base_url": "http://localhost:11434/v1?api-version=1"})
    check_endpoint(**{**GOOD, "api_key": None}, needs_key=False)


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"model": ""}, "use the name that p uses"),
        ({"model": None}, "use the name that p uses"),
        ({"provider": "a:b"}, "without a colon"),
        ({"provider": ""}, "without a colon"),
        ({"base_url": "api.example/v1"}, "http(s)://host/path"),
        ({"base_url": "https://"}, "http(s)://host/path"),
        ({"base_url": "http://[::1"}, "http(s)://host/path"),
        ({"base_url": None}, "http(s)://host/path"),
        ({"base_url": "http://localhost:99999"}, "http(s)://host/path"),
        ({"base_url": "http://localhost:abc/v1"}, "http(s)://host/path"),
        ({"base_url": "https://x y"}, "http(s)://host/path"),
        ({"base_url": "https://user:secret@host/v1"}, "pass headers"),
        ({"base_url": "htps://user:secret@host/v1"}, "http(s)://host/path"),
        ({"api_key": " "}, "pass api_key"),
        ({"api_key": ""}, "pass api_key"),
        ({"api_key": None}, "pass api_key"),
        ({"api_key": "se cret"}, "was a line end copied"),
        ({"api_key": "secret\n"}, "was a line end copied"),
        ({"api_key": "sécret"}, "was a line end copied"),
    ],
)
def test_what_cannot_be_right_is_refused_with_advice(wrong: dict[str, Any], advice: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_endpoint(**{**GOOD, **wrong})
    assert advice in str(caught.value)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("base_url", "posted"),
    [
        ("https://a.example/v1", "https://a.example/v1/ask"),
        ("https://a.example/v1/", "https://a.example/v1/ask"),
        ("https://a.example/v1?api-version=2#x", "https://a.example/v1/ask?api-version=2"),
        ("https://a.example", "https://a.example/ask"),
    ],
)
def test_the_path_goes_between_the_base_url_and_its_query(base_url: str, posted: str) -> None:
    assert address(base_url, "/ask") == posted


def test_a_base_url_that_has_the_path_already_is_refused() -> None:
    with pytest.raises(ConfigError, match="leave it out"):
        address("https://a.example/v1/ask/", "/ask")


def test_headers_that_are_given_win_however_they_are_spelled() -> None:
    headers = headers_for({"X-Key": "ours"}, {"x-key": "theirs", "USER-AGENT": "me", "More": "1"})
    assert headers == {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "x-key": "theirs",
        "USER-AGENT": "me",
        "More": "1",
    }
    assert headers_for({}, None)["User-Agent"].startswith("holdfast/")


@pytest.mark.parametrize(
    "given", [{"X-Team": 5}, {"X-Team": None}, {"X-Team": "a\nb"}, {"X Team": "a"}, {5: "a"}, ["a"]]
)
def test_what_cannot_be_a_header_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="header"):
        headers_for({}, given)


def test_options_are_merged_object_by_object_and_change_nothing_that_was_given() -> None:
    body = {"a": {"b": 1, "c": [1]}, "d": 1}
    options = {"a": MappingProxyType({"c": [2], "e": 3}), "d": {"f": 1}}
    assert merged(body, options) == {"a": {"b": 1, "c": [2], "e": 3}, "d": {"f": 1}}
    assert body == {"a": {"b": 1, "c": [1]}, "d": 1}


@pytest.mark.parametrize(
    ("text", "sent"), [("\ud83d", "\ufffd"), ("\ud83d\ude00", "😀"), ("a\udc00b", "a\ufffdb")]
)
def test_half_a_character_does_not_stop_a_request(text: str, sent: str) -> None:
    body = {"messages": ({text: [text]},), "schema": MappingProxyType({"x": text})}
    assert msgspec.json.decode(encoded(body)) == {
        "messages": [{sent: [sent]}],
        "schema": {"x": sent},
    }


def test_a_schema_may_be_any_mapping() -> None:
    assert encoded({"schema": MappingProxyType({"type": "object"})}) == (
        b'{"schema":{"type":"object"}}'
    )
