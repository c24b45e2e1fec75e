"""The page opens at all, and what these tests stand on holds: the gate, the kill, the watch."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.harness import PHONE, Model, Pages, Server, axe


def test_the_page_opens_with_its_title(open_page: Pages, server: Server) -> None:
    page = open_page(server)
    expect(page).to_have_title(re.compile("Holdfast"))
    expect(page.get_by_role("main")).to_be_visible()
    assert axe(page) == []


def test_an_unknown_user_gets_the_sign_in_form(open_page: Pages, server: Server) -> None:
    page = open_page(server, signed_in=False)
    expect(page.get_by_role("heading", name="Holdfast")).to_be_visible()
    expect(page.get_by_label("Token")).to_be_visible()
    assert axe(page) == []


def test_the_not_found_page_has_links_on_a_phone_too(open_page: Pages, server: Server) -> None:
    page = open_page(server, "/no/such/place", viewport=PHONE)
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    assert axe(page) == []
    page.get_by_role("link", name="Back to the chats").click()
    expect(page.get_by_role("navigation", name="Chats")).to_be_visible()


def test_the_token_is_removed_from_the_url_and_a_cookie_is_set(page: Page) -> None:
    page.wait_for_url(lambda url: "token" not in url)
    (cookie,) = page.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"


def test_a_web_socket_of_the_same_origin_is_allowed(page: Page) -> None:
    expect(page.get_by_role("navigation", name="Chats")).to_be_visible()
    state = page.evaluate(
        """() => new Promise((resolve) => {
            const protocols = ["holdfast", localStorage["holdfast.session-key"]];
            const socket = new WebSocket(`ws://${location.host}/api/v1/stream`, protocols);
            socket.onopen = () => { socket.close(); resolve("open"); };
            socket.onerror = () => resolve("refused");
        })"""
    )
    assert state == "open"


def test_forbidden_requests_of_the_page_are_refused_and_noticed(
    open_page: Pages, server: Server
) -> None:
    page = open_page(server)
    failures: list[str | None] = []
    page.on("requestfailed", lambda request: failures.append(request.failure))
    put = "const put = (tag, given) => Object.assign(document.createElement(tag), given);"
    page.evaluate(
        f"""async () => {{
            {put}
            document.body.append(put("script", {{text: "window.bad = 1"}}));
            await fetch("https://fetched.example/").catch(() => null);
            const image = put("img", {{src: "https://shown.example/"}});
            const refused = new Promise((resolve) => {{ image.onerror = resolve; }});
            document.body.append(image);
            await refused;
        }}"""
    )
    assert page.evaluate("window.bad") is None
    noticed = "\n".join(open_page.wrong())
    assert "inline script" in noticed
    assert "fetched.example" in noticed
    assert "a request left the origin: https://shown.example/" in noticed
    assert set(failures) == {"csp"}
    open_page.watch(page).forget()


def test_the_scripted_model_waits_for_the_test_and_outlives_the_server(
    server: Server, model: Model
) -> None:
    first, second = model.gate(), model.gate()
    model.says(["Hel", first, "lo"], [second, "Hello"])
    server.ask("/chats", {"prompt": "say hello"})
    first.reached()
    server.kill()
    server.start()
    second.reached()  # asked by the new process, for the same chat
    before, after = (received.json["messages"] for received in model.asked)
    assert after == before
    second.open()
