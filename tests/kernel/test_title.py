"""What of a model's answer is a title."""

from __future__ import annotations

import pytest

from holdfast.kernel.title_request import (
    MAX_EXCERPT,
    MAX_TITLE,
    cleaned,
    is_title_request,
    prompt_of,
    title_request,
)


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("Fix the tests", "Fix the tests"),
        ('"Fix the tests."', "Fix the tests"),
        ("**Title: “Fix the tests”**", "Fix the tests"),
        ("\n\n# Fix `the` tests\n\nI hope this helps!", "Fix the tests"),
        ("- Fix\tthe \x07 tests", "Fix the tests"),
        ("Learning C#", "Learning C#"),
        (".gitignore rules", ".gitignore rules"),
        ("What is “truth”", "What is “truth”"),
        ("Title", "Title"),
        ("...", None),
        ('"', None),
        ("", None),
    ],
)
def test_a_title_is_one_plain_line(said: str, title: str | None) -> None:
    assert cleaned(said) == title


@pytest.mark.parametrize("said", ["word " * 40, "x" * 200, "a" + " b" * 100])
def test_a_title_that_is_too_long_is_cut(said: str) -> None:
    title = cleaned(said)
    assert title is not None
    assert len(title) <= MAX_TITLE
    assert title.endswith("…")
    assert said.startswith(title[:-1])


def test_a_title_is_asked_for_with_little() -> None:
    long = 10 * MAX_EXCERPT
    request = title_request("p" * long, "a" * long)
    assert len(request.messages[0].text) < 2 * MAX_EXCERPT + 100
    assert prompt_of(request) == "p" * MAX_EXCERPT
    assert is_title_request(request)
    assert request.tools == ()
    assert request.settings.max_output_tokens is not None
