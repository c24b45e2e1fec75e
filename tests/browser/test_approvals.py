"""What an agent needs from a person: in its chat, in the inbox, and in another tab."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, expect

from holdfast.testing import ScriptItem, call
from tests.browser.harness import HeldRequests, Model, Pages, Server, Talk, axe, messages_of


def write(path: str, content: str = "words\n") -> ScriptItem:
    return call("write_file", path=path, content=content)


def card(talk: Talk) -> Locator:
    return talk.log.get_by_role("article", name="The agent wants to write a file")


def test_a_change_is_shown_before_it_is_allowed_and_made_after(
    open_page: Pages, server: Server, model: Model
) -> None:
    model.says(write("once.txt"), write("twice.txt"), "Both are written.")
    talk = Talk.begin(open_page, server, "Write two files")
    expect(card(talk).locator(".diff")).to_contain_text("words")
    expect(talk.tail).to_contain_text("Waiting for an answer")
    expect(talk.page).to_have_title(re.compile(r"^\(1\) "))
    assert axe(talk.page) == []
    assert not (server.work / "once.txt").exists()
    card(talk).get_by_role("button", name="Allow once").click()
    expect(talk.call("write_file").first).to_have_attribute("data-state", "done")
    assert (server.work / "once.txt").read_text() == "words\n"
    # Once is once: the second one asks again.
    expect(card(talk)).to_contain_text("twice.txt")
    card(talk).press("a")
    expect(talk.rows.last).to_contain_text("Both are written.")
    assert (server.work / "twice.txt").exists()
    expect(talk.page).not_to_have_title(re.compile(r"^\("))
    talk.converges()


def test_a_call_allowed_for_a_chat_needs_no_second_approval(
    open_page: Pages, server: Server, model: Model
) -> None:
    model.says(write("a.txt"), write("b.txt"), "Both are written.")
    talk = Talk.begin(open_page, server, "Write two files")
    card(talk).get_by_role("button", name="Allow for this chat").click()
    talk.page.get_by_role("menuitem", name="Every call to write_file").click()
    expect(talk.rows.last).to_contain_text("Both are written.")
    assert (server.work / "b.txt").exists()
    talk.converges()


def test_arguments_are_changed_before_a_call_runs(
    open_page: Pages, server: Server, model: Model
) -> None:
    model.says(write("changed.txt", "theirs\n"), "It is written.")
    talk = Talk.begin(open_page, server, "Write a file")
    card(talk).get_by_role("button", name="Change arguments").click()
    field = card(talk).get_by_label("Arguments for this call")
    allow = card(talk).get_by_role("button", name="Allow with these arguments")
    field.fill('{"path": "changed.txt"')
    expect(allow).to_be_disabled()
    field.fill('{"path": "changed.txt", "content": "mine\\n"}')
    allow.click()
    expect(talk.rows.last).to_contain_text("It is written.")
    assert (server.work / "changed.txt").read_text() == "mine\n"
    talk.converges()


def test_the_model_gets_the_reason_of_a_denied_call(
    open_page: Pages, server: Server, model: Model
) -> None:
    model.says(write("denied.txt"), "Then I leave it.")
    talk = Talk.begin(open_page, server, "Write a file")
    card(talk).get_by_role("button", name="Deny").click()
    card(talk).get_by_label("Reason, or").fill("Not in this directory")
    card(talk).get_by_role("button", name="Deny").click()
    expect(talk.rows.last).to_contain_text("Then I leave it.")
    expect(talk.call("write_file")).to_have_attribute("data-state", "refused")
    assert "Not in this directory" in messages_of(model, 1)
    assert not (server.work / "denied.txt").exists()
    talk.converges()


def test_cancelling_a_form_returns_the_focus_to_its_button(
    open_page: Pages, server: Server, model: Model
) -> None:
    model.says(write("later.txt"), "It is written.")
    talk = Talk.begin(open_page, server, "Write a file")
    for name, field in (("Deny", "Reason, or"), ("Change arguments", "Arguments for this call")):
        button = card(talk).get_by_role("button", name=name)
        button.press("Enter")
        expect(card(talk).get_by_label(field)).to_be_focused()
        talk.page.keyboard.press("Escape")
        expect(button).to_be_focused()
        button.press("Enter")
        card(talk).get_by_role("button", name="Cancel").press("Enter")
        expect(button).to_be_focused()
    talk.page.keyboard.press("a")  # the focus is in the card
    expect(talk.rows.last).to_contain_text("It is written.")


def test_questions_are_answered_in_a_form(open_page: Pages, server: Server, model: Model) -> None:
    options = [{"label": "Red", "description": "Like a rose"}, {"label": "Blue"}]
    questions = [
        {"question": "Which colour?", "header": "Colour", "options": options},
        {"question": "Which sizes?", "options": [{"label": "S"}, {"label": "L"}], "multiple": True},
        {"question": "What else?"},
    ]
    model.says(call("ask_user", questions=questions), "Thank you.")
    talk = Talk.begin(open_page, server, "Ask me")
    form = talk.log.get_by_role("article", name="The agent has a question")
    send = form.get_by_role("button", name="Send answer")
    expect(send).to_be_disabled()
    assert axe(talk.page) == []
    form.get_by_role("radio", name="Blue").check()
    form.get_by_role("checkbox", name="S").check()
    form.get_by_role("checkbox", name="L").check()
    form.get_by_label("Your answer").fill("A hat")
    send.click()
    expect(talk.rows.last).to_contain_text("Thank you.")
    asked = talk.call("ask_user")
    expect(asked).to_contain_text("Blue")
    expect(asked).to_contain_text("S, L")
    expect(asked).to_contain_text("A hat")
    for answer in ("Blue", "A hat"):
        assert answer in messages_of(model, 1)
    talk.converges()


def test_the_inbox_shows_the_pending_actions_of_all_chats(
    open_page: Pages, server: Server, model: Model
) -> None:
    # The plan goes by the order of the requests: each chat is to have asked before the next does.
    model.says(write("one.txt"), [written := model.gate(), "Written."], write("two.txt"), "Denied.")
    page = open_page(server, "/inbox")
    expect(page.get_by_role("heading", name="Nothing is waiting for you")).to_be_visible()
    one = server.ask("/chats", {"prompt": "Write one", "title": "The first"})["id"]
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    with_one = page.locator(".inbox-group", has_text="The first")
    with_one.get_by_role("button", name="Allow once").wait_for()
    with_one.get_by_role("button", name="Allow once").click()
    expect(with_one).to_contain_text("Allowed")
    expect(page).not_to_have_title(re.compile(r"^\("))
    written.reached()
    written.open()
    two = server.ask("/chats", {"prompt": "Write two", "title": "The second"})["id"]
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    with_two = page.locator(".inbox-group", has_text="The second")
    with_two.get_by_role("article").press("d")
    with_two.get_by_label("Reason, or").press("Enter")
    expect(with_two).to_contain_text("Denied")
    expect(page).not_to_have_title(re.compile(r"^\("))
    with_one.get_by_role("link", name="The first").click()
    Talk(page, server, one).converges()
    page.goto(f"/chats/{two}")
    Talk(page, server, two).converges()


def test_two_waiting_chats_are_both_counted(open_page: Pages, server: Server, model: Model) -> None:
    model.says(write("x.txt"), write("y.txt"), "Written.", "Written.")
    page = open_page(server, "/inbox")
    chats = [server.ask("/chats", {"prompt": "Please write x"})["id"]]
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    chats.append(server.ask("/chats", {"prompt": "Please write y"})["id"])
    expect(page).to_have_title(re.compile(r"^\(2\) "))
    expect(page.get_by_role("heading", name="Waiting for you: 2")).to_be_visible()
    # Neither has a title yet: each is known by its first words, as in the list.
    names = page.locator(".inbox-group").get_by_role("heading", level=2)
    expect(names).to_contain_text(["Please write x", "Please write y"])
    assert axe(page) == []
    # By keys alone: to the first card, allow it, and the next one has the focus.
    page.keyboard.press("j")
    page.keyboard.press("a")
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    # The title may know of it before the card does.
    expect(page.locator(".card")).to_have_count(1)
    expect(page.locator(".card")).to_be_focused()
    page.keyboard.press("a")
    expect(page).not_to_have_title(re.compile(r"^\("))
    expect(page.get_by_role("heading", name="Waiting for you", exact=True)).to_be_visible()
    for chat, path in zip(chats, ("x.txt", "y.txt"), strict=True):
        talk = Talk.open(open_page, server, chat, beside=page)
        expect(talk.rows.last).to_contain_text("Written.")
        talk.converges()
        assert (server.work / path).exists()


def test_an_action_answered_in_another_tab_is_shown_as_answered(
    open_page: Pages, server: Server, model: Model
) -> None:
    model.says(write("tabs.txt"), "Written.")
    one = Talk.begin(open_page, server, "Write a file")
    open_page.watch(one.page).allow("status of 409")
    inbox = open_page(server, "/inbox", beside=one.page)
    expect(inbox.get_by_role("button", name="Allow once")).to_be_visible()
    two = Talk.open(open_page, server, one.id, beside=one.page)
    held = HeldRequests(two.page, "**/actions/*")
    with two.page.expect_request("**/actions/*"):
        card(two).get_by_role("button", name="Allow once").click()
    # Both have clicked: the first tab is faster.
    card(one).get_by_role("button", name="Allow once").click()
    expect(one.rows.last).to_contain_text("Written.")
    held.release()
    expect(two.page.locator(".notices")).to_contain_text("Already answered")
    expect(inbox.locator(".card-settled")).to_contain_text("no longer needed")
    for talk in (one, two):
        expect(talk.rows.last).to_contain_text("Written.")
        talk.converges()
