"""What is a secret does not appear, however it is written; what is none stays."""

from __future__ import annotations

import json

import pytest

from holdfast.observe.redact import HIDDEN, Redactor, secrets_in

KEY = "sk-test-5a1b9c"


def redactor(*secrets: str) -> Redactor:
    made = Redactor()
    made.know(*secrets)
    return made


@pytest.mark.parametrize(
    "secret", [KEY, 'with "quotes" and \\', "ümläut-päss", "per%cent/slash@at", "line\nbreak"]
)
def test_a_known_secret_is_hidden_however_it_is_spelled(secret: str) -> None:
    hide = redactor(secret)
    once = json.dumps({"text": f"it is {secret}."}, ensure_ascii=False)
    twice = json.dumps({"arguments": once}, ensure_ascii=False)
    assert hide(f"it is {secret}.") == f"it is {HIDDEN}."
    assert json.loads(hide(once)) == {"text": f"it is {HIDDEN}."}
    assert json.loads(json.loads(hide(twice))["arguments"]) == {"text": f"it is {HIDDEN}."}


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer {}",
        "authorization=Basic {}",
        '{{"x-api-key": "{}"}}',
        "{{'api_key': '{}'}}",
        "apiKey={}&x=1",
        '{{\\"password\\": \\"{}\\"}}',
        "Cookie: {}",
        '{{"Set-Cookie": "{}"}}',
        "postgresql://app:{}@db.internal/chats",
        "sent Bearer {}",
    ],
)
def test_what_names_a_secret_hides_one_that_nobody_knew(text: str) -> None:
    hidden = Redactor()(text.format(KEY))
    assert KEY not in hidden
    assert hidden == text.format(HIDDEN)


def test_every_cookie_of_a_header_is_hidden() -> None:
    assert Redactor()(f"Cookie: theme=dark; session={KEY}\nHost: a") == f"Cookie: {HIDDEN}\nHost: a"


def test_a_token_of_ours_is_known_by_its_looks() -> None:
    token = "hf_" + "Ab3-_" * 8 + "xyz"
    assert Redactor()(f"http://127.0.0.1:8765/#token={token}").endswith(f"#token={HIDDEN}")


@pytest.mark.parametrize(
    "text",
    [
        '{"max_tokens": 4096, "cache_key": "chat-1", "input_tokens": 7}',
        "the password is wrong",
        "http://127.0.0.1:8765/a@b",
        "a bearer of news",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redactor(KEY)(text) == text


def test_of_two_secrets_the_longer_is_hidden_whole() -> None:
    assert redactor("secret", "secret-longer")("a secret-longer one") == f"a {HIDDEN} one"


def test_what_is_too_short_to_be_a_secret_hides_nothing() -> None:
    assert redactor("app", "")("an app") == "an app"


def test_variables_that_are_named_like_secrets_are_known() -> None:
    environ = {
        "GROQ_API_KEY": "1", "GH_TOKEN": "2", "DB_PASSWORD": "3", "HOLDFAST_SECRET_KEY": "4",
        "OPENAI_API_KEY_2": "5", "HOME": "/root", "KEYBOARD": "de", "TOKENS": "7",
    }  # fmt: skip
    assert secrets_in(environ) == ["1", "2", "3", "4", "5"]
