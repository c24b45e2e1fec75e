"""Everything by keys alone: the focus can always be seen, and is never lost."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Locator, Page, expect

from holdfast.testing import call
from tests.browser.harness import Model, Pages, Server, Talk

SETTINGS: Final = '[agents.careful]\n\n[agents.free]\napproval = "never"\n'
SEEN: Final = """(one) => {
    const look = (each, part) => {
        const style = getComputedStyle(each, part);
        const outline = style.outlineStyle === "none" ? "" : style.outline;
        return [outline, style.boxShadow, style.borderColor, style.backgroundColor].join();
    };
    const places = [one, one.parentElement, one.closest(".composer-box, .search-line") ?? one];
    const looks = () => {
        for (const each of document.getAnimations()) {
            if (each instanceof CSSTransition) each.finish();
        }
        return places.map((each) => look(each) + look(each, "::after")).join();
    };
    const { top, bottom, left, right } = one.getBoundingClientRect();
    const onScreen = bottom > 0 && top < innerHeight && right > 0 && left < innerWidth;
    const focused = looks();
    one.blur();
    const blurred = looks();
    one.focus({ preventScroll: true, focusVisible: true });
    return onScreen && focused !== blurred;
}"""
"""Whether the place of the focus is on the screen and looks other than without it."""


class Keys:
    """Somebody without a mouse."""

    def __init__(self, page: Page) -> None:
        self.page = page

    @property
    def focus(self) -> Locator:
        return self.page.locator("*:focus")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def types(self, text: str) -> None:
        self.page.keyboard.type(text)

    def is_somewhere(self) -> None:
        """The focus is at something that can be used, and can be seen."""
        self.page.wait_for_function("() => document.activeElement !== document.body", timeout=9_000)
        assert self.focus.evaluate(SEEN), self.focus.evaluate(
            "(one) => one.outerHTML.slice(0, 300)"
        )

    def go_to(self, wanted: Locator, key: str = "Tab", most: int = 60) -> None:
        """By one key, again and again, as often as it takes."""
        expect(wanted).to_be_visible()
        for _ in range(most):
            if wanted.evaluate("(one) => one === document.activeElement"):
                return self.is_somewhere()
            self.press(key)
        raise AssertionError(f"{key} does not get there: {wanted}")


def test_a_chat_is_started_stopped_and_found_by_keyboard(
    open_page: Pages, server: Server, model: Model
) -> None:
    gate = model.gate()
    model.says(["It begins ", gate])
    page = open_page(server)
    keys = Keys(page)
    message = page.get_by_role("textbox", name="Message")
    expect(message).to_be_focused()
    skip = page.get_by_role("button", name="Skip to the conversation")
    keys.go_to(skip, "Shift+Tab")
    expect(skip).to_be_in_viewport()
    keys.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    keys.press("Alt+n")
    page.wait_for_url("**/new")
    expect(message).to_be_focused()
    keys.types("Begin something")
    keys.press("Enter")
    page.wait_for_url("**/chats/*")
    expect(page.locator("[data-live]")).to_contain_text("It begins")
    expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_focused()
    keys.press("Escape")
    expect(page.locator(".tail")).to_contain_text("The turn was interrupted.")
    keys.is_somewhere()
    keys.press("Alt+n", "Control+k")
    expect(page.get_by_role("combobox")).to_be_focused()
    keys.types("Begin something")
    expect(page.get_by_role("option").filter(has_text="Begin something")).not_to_have_count(0)
    keys.press("Escape")
    expect(message).to_be_focused()
    keys.press("Control+k")
    expect(page.get_by_role("combobox")).to_be_focused()
    keys.types("Begin something")
    found = page.get_by_role("option").filter(has_text="Begin something")
    expect(found).not_to_have_count(0)
    for _ in range(10):
        if "Begin something" in page.locator('[role="option"][aria-selected="true"]').inner_text():
            break
        keys.press("ArrowDown")
    keys.press("Enter")
    page.wait_for_url("**/chats/*")
    expect(page.locator("[data-kind=prompt]")).to_be_in_viewport()
    keys.is_somewhere()


def test_the_queue_is_filled_edited_moved_and_emptied_by_keyboard(
    open_page: Pages, server: Server, model: Model
) -> None:
    gate = model.gate()
    model.says(["I am at it ", gate, "and done."], "Said last.")
    talk = Talk.begin(open_page, server, "Work")
    page, keys = talk.page, Keys(talk.page)
    expect(talk.live).to_contain_text("I am at it")
    for line in ("First", "Second", "Third"):
        keys.types(line)
        keys.press("Enter")
    rows = page.locator(".queue-row")
    expect(rows).to_have_count(3)
    keys.go_to(page.get_by_role("button", name="Move down: First"), "Shift+Tab")
    keys.press("Enter")
    expect(rows.nth(1)).to_contain_text("First")
    expect(page.get_by_role("button", name="Move down: First")).to_be_focused()
    keys.go_to(page.get_by_role("button", name="Edit: First"))
    keys.press("Enter")
    expect(page.get_by_role("textbox", name="Edited message")).to_be_focused()
    keys.types(" of all")
    keys.press("Enter")
    expect(rows.nth(1)).to_contain_text("First of all")
    keys.is_somewhere()
    for name in ("Second", "Third"):
        keys.go_to(page.get_by_role("button", name=f"Remove: {name}"), "Shift+Tab")
        # The row leaves the page before the server has answered; the turn may not end before that.
        with page.expect_response(lambda response: response.request.method == "DELETE"):
            keys.press("Enter")
        expect(rows.filter(has_text=name)).to_have_count(0)
        keys.is_somewhere()
    gate.open()
    expect(talk.rows.last).to_contain_text("Said last.")
    expect(rows).to_have_count(0)
    keys.is_somewhere()


def test_a_notice_stays_under_the_pointer_or_focus_and_returns_the_focus(
    open_page: Pages, server: Server, model: Model
) -> None:
    gate = model.gate()
    model.says(["I am at it ", gate, "and done."], "Said last.")
    talk = Talk.begin(open_page, server, "Work")
    page, keys = talk.page, Keys(talk.page)
    expect(talk.live).to_contain_text("I am at it")
    keys.types("Not now")
    keys.press("Enter")
    remove, undo = (page.get_by_role("button", name=name) for name in ("Remove: Not now", "Undo"))
    page.clock.install()
    remove.click()
    undo.hover()
    page.clock.fast_forward(7_000)
    expect(undo).to_be_visible()
    talk.field.focus()
    keys.go_to(undo, "Shift+Tab")
    page.mouse.move(400, 400)
    page.clock.fast_forward(7_000)
    expect(undo).to_be_focused()
    keys.press("Enter")
    expect(undo).to_have_count(0)
    expect(remove).to_be_visible()
    keys.is_somewhere()

    keys.go_to(remove)
    keys.press("Enter")
    expect(undo).to_be_visible()
    keys.go_to(undo, "Shift+Tab")
    keys.press("Tab", "Tab")
    expect(undo).not_to_be_focused()
    page.clock.fast_forward(7_000)
    expect(undo).to_have_count(0)
    keys.is_somewhere()
    gate.open()
    talk.send("Then this")
    expect(talk.rows.last).to_contain_text("Said last.")


def test_the_focus_moves_on_from_removed_and_discarded_elements(
    open_page: Pages, server: Server, model: Model
) -> None:
    model.says("Well.")
    talk = Talk.begin(open_page, server, "Begin")
    page, keys = talk.page, Keys(talk.page)
    talk.rests()
    for name in ("a.txt", "b.txt"):
        page.get_by_label("Files to attach").set_input_files(
            {"name": name, "mimeType": "text/plain", "buffer": b"words"}
        )
    tiles = page.get_by_role("list", name="Attached files").get_by_role("listitem")
    expect(tiles).to_have_count(2)
    keys.go_to(page.get_by_role("button", name="Remove a.txt"), "Shift+Tab")
    keys.press("Enter")
    expect(tiles).to_have_count(1)
    expect(page.get_by_role("button", name="Remove b.txt")).to_be_focused()
    keys.press("Enter")
    expect(talk.field).to_be_focused()

    open_page.watch(page).allow("status of 422")
    refusal = {"kind": "no", "status": 422, "detail": "Not so."}
    page.route("**/messages", lambda route: route.fulfill(status=422, json=refusal))
    keys.types("Refused")
    keys.press("Enter")
    keys.go_to(page.get_by_role("button", name="Discard"), "Shift+Tab")
    keys.press("Enter")
    expect(page.get_by_text("Not so.")).to_be_hidden()
    expect(talk.field).to_be_focused()


def test_pending_actions_are_answered_by_keyboard_in_the_chat_and_in_the_inbox(
    open_page: Pages, server: Server, model: Model
) -> None:
    model.says(call("write_file", path="a.txt", content="a\n"), "The first is written.")
    talk = Talk.begin(open_page, server, "Write a", "careful")
    page, keys = talk.page, Keys(talk.page)
    keys.go_to(page.get_by_role("button", name="Allow once"), "Shift+Tab")
    keys.press("a")
    expect(talk.rows.last).to_contain_text("The first is written.")
    assert (server.work / "a.txt").read_text() == "a\n"
    keys.is_somewhere()
    for name in ("b", "c"):
        model.says(call("write_file", path=f"{name}.txt", content="x\n"))
        chat = server.ask("/chats", {"prompt": f"Write {name}", "agent": "careful"})["id"]
        other = Talk.open(open_page, server, chat)
        expect(other.page.get_by_role("button", name="Allow once")).to_be_visible()
    keys.press("Alt+i")
    page.wait_for_url("**/inbox")
    expect(page.get_by_role("heading", name="Waiting for you: 2")).to_be_visible()
    model.says("Not written, then.")
    keys.press("j")
    keys.is_somewhere()
    keys.press("d")
    expect(page.get_by_role("textbox", name="Reason, or")).to_be_focused()
    keys.types("Not now")
    keys.press("Enter")
    expect(page.get_by_role("heading", name="Waiting for you: 1")).to_be_visible()
    keys.is_somewhere()
    model.says("The last is written.")
    keys.go_to(page.get_by_role("button", name="Allow once"))
    keys.press("Enter")
    expect(page.get_by_text("Allowed", exact=True)).to_be_visible()
    keys.is_somewhere()
    expect(page.get_by_role("heading", name="Waiting for you", exact=True)).to_be_visible()


def test_chats_are_renamed_archived_and_deleted_by_keyboard(
    open_page: Pages, server: Server, model: Model
) -> None:
    for title in ("Kept", "Put away", "Thrown away"):
        server.ask("/chats", {"title": title})
    page = open_page(server)
    keys = Keys(page)
    row = page.locator(".sidebar-row-link")
    keys.go_to(row.filter(has_text="Thrown away"), "Shift+Tab")
    keys.press("ArrowDown", "ArrowDown")
    expect(row.filter(has_text="Kept")).to_be_focused()
    keys.press("F2")
    expect(page.get_by_role("textbox", name="Title")).to_be_focused()
    keys.types("Kept for good")
    keys.press("Enter")
    expect(row.filter(has_text="Kept for good")).to_be_focused()
    keys.go_to(row.filter(has_text="Put away"), "ArrowUp")
    keys.press("Shift+F10")
    expect(page.get_by_role("menuitem").first).to_be_focused()
    keys.press("Escape")
    expect(row.filter(has_text="Put away")).to_be_focused()
    keys.press("Shift+F10")
    keys.go_to(page.get_by_role("menuitem", name="Archive"), "ArrowDown", 6)
    keys.press("Enter")
    expect(row.filter(has_text="Put away")).to_have_count(0)
    keys.is_somewhere()
    keys.go_to(row.filter(has_text="Thrown away"), "ArrowUp", 6)
    keys.press("Delete")
    keep = page.get_by_role("button", name="Cancel")
    keys.go_to(keep)
    keys.press("Enter")
    expect(row.filter(has_text="Thrown away")).to_be_focused()
    keys.press("Delete")
    keys.go_to(page.get_by_role("button", name="Delete permanently"))
    keys.press("Enter")
    expect(row.filter(has_text="Thrown away")).to_have_count(0)
    keys.is_somewhere()


def test_settings_theme_menus_and_dialogs_open_by_keyboard_and_return_the_focus(
    open_page: Pages, server: Server, model: Model
) -> None:
    page = open_page(server)
    keys = Keys(page)
    keys.press("Alt+n")
    model_button = page.get_by_role("button", name="Model:")
    keys.go_to(model_button)
    keys.press("Enter")
    expect(page.get_by_role("combobox", name="Search models")).to_be_focused()
    keys.is_somewhere()
    keys.press("Escape")
    expect(model_button).to_be_focused()
    theme = page.get_by_role("button", name="Theme")
    keys.go_to(theme, "Shift+Tab")
    keys.press("Enter", "End")
    expect(page.get_by_role("menuitemradio", name="Dark")).to_be_focused()
    keys.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(theme).to_be_focused()
    shortcuts = page.get_by_role("button", name="Keyboard shortcuts")
    keys.go_to(shortcuts, "Shift+Tab")
    keys.press("Enter")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    keys.is_somewhere()
    keys.press("Escape")
    expect(shortcuts).to_be_focused()
    keys.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    keys.press("Escape")
    keys.go_to(page.get_by_role("link", name="Settings"), "Shift+Tab")
    keys.press("Enter")
    page.wait_for_url("**/settings")
    keys.is_somewhere()
    keys.go_to(page.get_by_role("link", name="Appearance"))
    keys.press("Enter")
    page.wait_for_url("**/settings/appearance")
    light = page.get_by_role("radio", name="Light")
    keys.go_to(page.get_by_role("radio", name="Dark"))
    keys.go_to(light, "ArrowUp", 3)
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_the_list_is_hidden_and_shown_by_keyboard_without_losing_the_focus(
    open_page: Pages, server: Server
) -> None:
    page = open_page(server, "/inbox")
    keys = Keys(page)
    hide = page.get_by_role("button", name="Hide the list")
    show = page.get_by_role("button", name="Show the list")
    hide.press("Enter")
    expect(show).to_be_focused()
    keys.press("Enter")
    expect(hide).to_be_focused()
    page.get_by_role("link", name="New chat").first.press("Enter")
    field = page.get_by_role("textbox", name="Message", exact=True)
    expect(field).to_be_focused()
    keys.press("Alt+b")
    expect(show).to_be_visible()
    expect(field).to_be_focused()
    keys.press("Alt+b")
    expect(hide).to_be_visible()
    expect(field).to_be_focused()


def test_a_provider_key_is_stored_and_removed_by_keyboard(open_page: Pages, server: Server) -> None:
    page = open_page(server, "/settings/providers")
    keys = Keys(page)
    give = page.get_by_role("button", name="Set key for groq")
    give.press("Enter")
    expect(page.get_by_label("Key for groq")).to_be_focused()
    page.get_by_role("button", name="Cancel").press("Enter")
    expect(give).to_be_focused()
    keys.press("Enter")
    keys.types("not-a-key")
    keys.press("Enter")
    replace = page.get_by_role("button", name="Replace key for groq")
    expect(replace).to_be_focused()
    keys.press("Tab", "Enter")
    page.get_by_role("button", name="Remove", exact=True).press("Enter")
    expect(give).to_be_focused()


def test_a_token_is_created_and_revoked_by_keyboard(open_page: Pages, server: Server) -> None:
    page = open_page(server, "/settings/account")
    keys = Keys(page)
    make = page.get_by_role("button", name="Create a token")
    make.press("Enter")
    expect(page.get_by_label("What it is for")).to_be_focused()
    page.get_by_role("button", name="Cancel").press("Enter")
    expect(make).to_be_focused()
    keys.press("Enter")
    keys.types("for a program")
    keys.press("Enter")
    expect(page.get_by_role("button", name="Copy")).to_be_focused()
    keys.press("Tab", "Enter")
    expect(make).to_be_focused()
    revoke = page.get_by_role("button", name="Revoke for a program")
    revoke.press("Enter")
    page.get_by_role("button", name="Revoke", exact=True).press("Enter")
    expect(revoke).to_have_count(0)
    keys.is_somewhere()


def test_the_focus_is_visible_at_every_tab_stop(
    open_page: Pages, server: Server, model: Model
) -> None:
    model.says("# Done\n\n[A link](https://example.org/) and\n\n```python\nprint(1)\n```\n")
    talk = Talk.begin(open_page, server, "Say something")
    expect(talk.rows.last).to_contain_text("A link")
    talk.rests()
    keys = Keys(talk.page)
    for _ in range(40):
        keys.press("Tab")
        if talk.page.evaluate("document.activeElement === document.body"):
            continue  # the browser's own bars come between the last and the first
        keys.is_somewhere()
