"""What is found is gone to: the message itself, wherever in its chat it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.harness import Model, Pages, Server, Talk, import_chat, wait_until_still

LENGTH: Final = 440
WORDS: Final = {13: "numbat", 424: "bilby"}
"""One that is far up and has to be read first, and one that is read when the chat is opened."""


def messages() -> Iterator[Mapping[str, Any]]:
    for number in range(1, LENGTH + 1):
        role, kind = ("user", "prompt") if number % 2 else ("assistant", "answer")
        text = f"Message {number}. {WORDS.get(number, 'Nothing.')} {'And so on. ' * (number % 7)}"
        yield {"role": role, "kind": kind, "parts": [{"type": "text", "text": text}]}


@pytest.fixture(scope="module")
def chat(scripted_pair: tuple[Model, Server]) -> str:
    return import_chat(scripted_pair[1], messages())


def go_to(page: Page, number: int) -> None:
    """Open a message by the search."""
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill(WORDS[number])
    page.get_by_role("option", name=re.compile(rf"Message {number}\. {WORDS[number]}")).click()
    page.wait_for_url(f"**/chats/*#m{number}")


def assert_at(talk: Talk, number: int) -> None:
    """The message is at the top of the visible part, and stays there."""
    row = talk.page.locator(f'[data-row="m{number}"]')
    expect(row).to_be_in_viewport(ratio=1)
    wait_until_still(talk.page)
    expect(row).to_be_in_viewport(ratio=1)
    place = "(row) => row.getBoundingClientRect().top - row.closest('[role=log]').offsetTop"
    assert 0 <= row.evaluate(place) < 100
    expect(talk.page.get_by_role("button", name="Jump to the newest")).to_be_visible()


@pytest.mark.parametrize("number", WORDS)
def test_a_search_result_opens_the_chat_at_the_message(
    open_page: Pages, server: Server, chat: str, number: int
) -> None:
    page = open_page(server, "/new")
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    go_to(page, number)
    assert_at(Talk(page, server, chat), number)


def test_the_open_chat_scrolls_to_another_message_and_back(
    open_page: Pages, server: Server, chat: str
) -> None:
    talk = Talk.open(open_page, server, chat)
    far, near = WORDS
    for number in (near, far):
        go_to(talk.page, number)
        assert_at(talk, number)
    talk.page.go_back()
    assert_at(talk, near)
    talk.page.reload()
    assert_at(talk, near)


def test_the_page_scrolls_to_a_message_that_arrives_after_those_before_it(
    open_page: Pages, server: Server, chat: str
) -> None:
    """As in a slow browser: the first events are shown, and the rest arrive later."""
    page = open_page(server, "/new")
    few, later = 10, list[str | bytes]()
    sockets: list[WebSocketRoute] = []
    shown = 0

    def opens(socket: WebSocketRoute) -> None:
        def forward(frame: str | bytes) -> None:
            nonlocal shown
            shown += '"event":"message"' in str(frame)
            later.append(frame) if shown > few else socket.send(frame)

        sockets.append(socket)
        socket.connect_to_server().on_message(forward)

    page.route_web_socket(f"**/chats/{chat}/stream*", opens)
    _, near = WORDS
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    go_to(page, near)
    talk = Talk(page, server, chat)
    expect(talk.rows).to_have_count(few)
    wait_until_still(page)
    for frame in later:
        sockets[-1].send(frame)
    assert_at(talk, near)
