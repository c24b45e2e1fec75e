"""A server with several users: administrators manage users, others see no user settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.harness import Pages, Server, axe


@pytest.fixture
def team(tmp_path: Path) -> Iterator[tuple[Server, str]]:
    """A server, and the token of Ann, who runs it."""
    server = Server(tmp_path / "home")
    settings = f'[server]\nteam = true\nurls = ["{server.url}"]\n'
    (server.work / "holdfast.toml").write_text(settings)
    token = server.run("token", "--user", "ann", "--role", "admin")
    server.start()
    yield server, token
    server.kill()
    print(*server.log_lines, sep="\n")


def sections(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Settings").get_by_role("link")


def line(page: Page, name: str) -> Locator:
    """The line of a user in the list."""
    return page.get_by_role("listitem").filter(has=page.get_by_label(f"Role of {name}"))


def test_an_administrator_adds_a_member_who_sees_no_users_and_disables_them(
    open_page: Pages, team: tuple[Server, str]
) -> None:
    server, token = team
    ann = open_page(server, "/settings", token=token)
    sections(ann).filter(has_text="Users").click()
    expect(line(ann, "ann")).to_contain_text("you")
    add = ann.get_by_role("button", name="Add", exact=True)
    add.click()
    expect(ann.get_by_text("Enter a name.")).to_be_visible()
    ann.get_by_label("Name", exact=True).fill("bob")
    add.click()
    expect(ann.get_by_label("Role of bob")).to_have_value("member")
    expect(ann.get_by_label("Name", exact=True)).to_have_value("")
    expect(ann.get_by_text("Enter a name.")).to_have_count(0)
    ann.get_by_role("button", name="Tokens of bob").click()
    line(ann, "bob").get_by_role("button", name="Create a token").click()
    line(ann, "bob").get_by_label("What it is for").fill("a telephone")
    line(ann, "bob").get_by_role("button", name="Create token").click()
    made = line(ann, "bob").locator("code")
    expect(made).to_have_text(re.compile("^hf_"))
    assert axe(ann) == []

    bob = open_page(server, "/settings", token=made.inner_text())
    open_page.watch(bob).allow("status of 40[13]")
    expect(sections(bob)).to_have_text(["Providers", "Models", "Agents", "Appearance", "Account"])
    bob.goto("/settings/users")
    expect(bob.get_by_text("Settings page not found.")).to_be_visible()
    bob.goto("/settings/account")
    expect(bob.locator(".settings-who")).to_contain_text("bob")

    line(ann, "bob").get_by_role("button", name="Disable bob").click()
    expect(line(ann, "bob")).to_contain_text("disabled")
    bob.reload()
    expect(bob.get_by_label("Token")).to_be_visible()


def test_a_reader_of_a_chat_has_no_other_actions(
    open_page: Pages, team: tuple[Server, str]
) -> None:
    server, ann = team
    chat = server.ask("/chats", {"prompt": "fail with auth"}, token=ann)["id"]
    bob = server.ask("/users", {"name": "bob", "role": "member"}, token=ann)["id"]
    wish = {"name": "page", "scopes": ["read", "write"], "user": bob}
    made = server.ask("/tokens", wish, token=ann)["token"]
    server.ask(f"/chats/{chat}/shares", {"user": "bob"}, token=ann)
    names = ("Edit", "Fork the chat before this message", "Retry")
    for token, count in ((ann, 1), (made, 0)):
        page = open_page(server, f"/chats/{chat}", token=token)
        expect(page.locator(".banner")).to_be_visible()
        expect(page.locator(".prompt").get_by_role("button", name="Copy")).to_have_count(1)
        for name in names:
            expect(page.get_by_role("button", name=name, exact=True)).to_have_count(count)


def test_the_last_administrator_cannot_be_changed_and_sees_why(
    open_page: Pages, team: tuple[Server, str]
) -> None:
    server, token = team
    ann = open_page(server, "/settings/users", token=token)
    open_page.watch(ann).allow("status of 4")
    role = ann.get_by_label("Role of ann")
    role.select_option("Viewer")
    expect(ann.locator(".notices")).to_contain_text(re.compile("administrator", re.IGNORECASE))
    expect(role).to_have_value("admin")


def test_a_single_user_server_has_no_users_page(open_page: Pages, server: Server) -> None:
    page = open_page(server, "/settings/users")
    expect(page.get_by_text("Settings page not found.")).to_be_visible()
    expect(sections(page).filter(has_text="Users")).to_have_count(0)
