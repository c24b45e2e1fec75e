"""The session of a page: a cookie that the browser sends to every port, and the key beside it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from playwright.sync_api import Page, expect

from tests.browser.harness import Model, Pages, Server, Talk

PAGE: Final = b'<!doctype html><title>Other</title><link rel="icon" href="data:,">'
"""Asks for nothing else."""


@contextmanager
def other_program() -> Iterator[tuple[str, list[str]]]:
    """A web server on another port of this machine: its URL, and the cookies that it was sent."""
    cookies: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cookies.append(self.headers.get("Cookie", ""))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(PAGE)))
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", cookies
        finally:
            server.shutdown()
            thread.join()


def status(url: str, cookie: str) -> int:
    try:
        with urlopen(Request(url, headers={"Cookie": cookie})) as response:
            return int(response.status)
    except HTTPError as error:
        return error.code


def is_in(page: Page) -> None:
    expect(page.get_by_role("navigation", name="Chats")).to_be_visible()


def test_the_cookie_alone_does_not_sign_in(open_page: Pages, server: Server) -> None:
    page = open_page(server)
    is_in(page)
    with other_program() as (url, cookies):
        page.context.new_page().goto(url)
        open_page.watch(page).forget()  # that a request left the origin
    assert "hfs_" in cookies[0]
    for path in ("/me", "/chats", "/models"):
        assert status(f"{server.url}/api/v1{path}", cookies[0]) == 401


def test_a_session_survives_a_reload_and_is_shared_with_new_tabs(
    open_page: Pages, server: Server
) -> None:
    page = open_page(server)
    is_in(page)
    page.reload()
    is_in(page)
    is_in(open_page(server, beside=page))
    with page.context.expect_page() as opened:
        page.evaluate("() => { open('/', '_blank', 'noopener') }")
    is_in(opened.value)


def test_a_sign_in_also_signs_in_waiting_tabs(open_page: Pages, server: Server) -> None:
    first = open_page(server, signed_in=False)
    expect(first.get_by_label("Token")).to_be_visible()
    second = open_page(server, beside=first)
    second.get_by_label("Token").fill(server.token)
    second.get_by_role("button", name="Sign in").click()
    is_in(second)
    is_in(first)


def test_a_chat_is_exported_by_its_url_and_the_cookie(
    open_page: Pages, server: Server, model: Model
) -> None:
    talk = Talk.begin(open_page, server)
    with talk.page.expect_download() as saved:
        talk.field.fill("/export markdown")
        talk.field.press("Enter")
    assert saved.value.suggested_filename == f"chat-{talk.id}.md"
    assert saved.value.path().read_text().startswith("# ")
