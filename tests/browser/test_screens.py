"""Every screen in light, in dark, on a phone and zoomed: axe has nothing to say, nothing is cut."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from playwright.sync_api import FilePayload, Page, ViewportSize, expect

from holdfast.testing import call, call_raw, fail, say, source, think, usage
from tests.browser.harness import DESK, Model, Pages, Server, axe, wait_until_still

SETTINGS: Final = """
[agents.free]
approval = "never"

[agents.careful]
model = "anthropic:claude-sonnet-5"
"""
SMALL: Final = ViewportSize(width=360, height=740)
TABLET: Final = ViewportSize(width=768, height=1024)
ZOOMED: Final = ViewportSize(width=640, height=400)
"""What is left of a small laptop's screen at 200 %."""

MARKDOWN: Final = """# A heading

A paragraph with *emphasis*, **more of it**, ~~none~~, `code`, [a link](https://example.org/) and
![a picture](https://example.org/picture.png).

- one thing
- [x] done
- [ ] not done

1. first
2. second

> A quotation.

```python
def greet(name: str) -> str:
    return f"Hello, {name}, from a line that is far too long to fit on any telephone's screen"
```

| name | size | what it is, in a column that is wide enough to make the table scroll on a phone |
|:-----|-----:|:---|
| `a.txt` | 12 | a file |

---
"""
PIXEL: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
# What runs and what is tried again go on for longer than these tests take on a busy machine.
REACHED: Final = """() => [...document.querySelectorAll("[data-scroller]")]
    .filter((each) => each.checkVisibility({ contentVisibilityAuto: true }))
    .filter((each) => each.scrollWidth > each.clientWidth + 1)
    .every((each) => each.tabIndex === 0)"""
"""All that scrolls sideways is reached by keyboard."""
RUNS: Final = (
    "touch begun; echo begun; for i in $(seq 6000); do [ -e done ] && exit; sleep 0.2; done"
)


@dataclass(frozen=True)
class Rooms:
    """Chats by what is in them."""

    work: str
    asks: str
    question: str
    failed: str
    retries: str


# --- what there is to see ------------------------------------------------------------------------


def until(holds: Callable[[], object]) -> None:
    ends = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < ends, "it does not come to this"
        time.sleep(0.02)


def begin(model: Model, server: Server, prompt: object, status: str, agent: str = "free") -> str:
    """A chat whose planned answers are done and that has reached a status."""
    chat: str = server.ask("/chats", {"prompt": prompt, "agent": agent})["id"]
    until(lambda: not model._turns and server.ask(f"/chats/{chat}")["status"] == status)
    return chat


def at_work(model: Model, server: Server) -> str:
    """A chat with all kinds of rows, a summary, a running command and a queue."""
    (server.work / "app.py").write_text("def greet():\n    return 'hello'\n")
    replaced = [{"old_text": "hello", "new_text": "good morning"}]
    model.says(
        [
            think("It is a small thing. First I look around."),
            say("I look around first."),
            call("read_file", path="app.py"),
            call("search_files", pattern="greet"),
            call("list_files"),
        ],
        [
            call("execute", command="printf '\\033[32mok\\033[0m \\033[1;31mbad\\033[0m\\n'"),
            call("execute", command="echo it is broken; exit 3"),
            call("read_file", path="missing.py"),
            call("edit_file", path="app.py", edits=replaced),
            call("no_such_tool", given={"a": 1}),
            call_raw("read_file", '{"path": '),
        ],
        [say(MARKDOWN), source("https://example.org/", "An example"), usage(input=900, output=90)],
    )
    picture = {"type": "file", "media_type": "image/png", "name": "a picture.png"}
    prompt = [
        {"type": "text", "text": "Make the greeting a better one.\n" * 30},
        {**picture, "data": base64.b64encode(PIXEL).decode()},
        {"type": "file", "media_type": "text/csv", "name": "sizes.csv", "data": "YSwxCg=="},
    ]
    chat = begin(model, server, prompt, "idle")
    messages = f"/chats/{chat}/messages"
    model.says("It was about a greeting.")
    server.ask(f"/chats/{chat}/compact", {})
    until(lambda: "checkpoint" in [m["message"]["kind"] for m in server.ask(messages)["messages"]])
    model.says([say("Now I run it."), call("execute", command=RUNS, timeout=1200)])
    server.ask(messages, {"prompt": "Run it."})
    until((server.work / "begun").exists)
    for line in ("And then the tests.", "Then say what you did, in a sentence that is long."):
        server.ask(messages, {"prompt": line})
    server.ask(messages, {"prompt": "Be quick.", "deliver": "steer"})
    return chat


def furnish(model: Model, server: Server) -> Rooms:
    work = at_work(model, server)
    model.says(call("write_file", path="notes/today.md", content="# Today\n\n- greet\n"))
    asks = begin(model, server, "Write it down", "requires_action", "careful")
    options = [{"label": "Red", "description": "As roses are"}, {"label": "Blue"}]
    colours = {"question": "Which colours?", "options": options, "multiple": True}
    model.says(call("ask_user", questions=[colours, {"question": "What else?"}]))
    question = begin(model, server, "Ask me", "requires_action")
    model.says(fail("This model is not for you.", status=403))
    failed = begin(model, server, "Fail", "error")
    again = [fail("Too many at once.", status=429, retry_after=280)] * 20  # no other request now
    model.says(*again)
    retries = server.ask("/chats", {"prompt": "Wait", "agent": "free"})["id"]
    until(lambda: len(model._turns) < len(again))
    server.ask(f"/chats/{asks}", {"pinned": True}, "PATCH")
    return Rooms(work, asks, question, failed, retries)


@pytest.fixture(scope="module")
def furnished(scripted_pair: tuple[Model, Server]) -> Iterator[tuple[Server, Rooms]]:
    model, server = scripted_pair
    yield server, furnish(model, server)
    (server.work / "done").touch()


@pytest.fixture
def server(furnished: tuple[Server, Rooms]) -> Server:
    """As it was furnished: nothing of it is taken away between two tests."""
    return furnished[0]


# --- the ways to each ----------------------------------------------------------------------------


def log(page: Page, chat: str) -> None:
    page.goto(f"/chats/{chat}")
    expect(page.get_by_role("log")).to_have_attribute("aria-busy", "false")


def new(page: Page, _: Rooms) -> None:
    page.goto("/new")
    expect(page.get_by_role("heading", name="What should the agent do?")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^Model:"))).to_be_visible()


def nowhere(page: Page, _: Rooms) -> None:
    page.goto("/chats/00000000-0000-7000-8000-000000000000")
    expect(page.get_by_role("heading", name="This chat cannot be shown")).to_be_visible()


def chats(page: Page, _: Rooms) -> None:
    page.goto("/")
    expect(page.get_by_role("navigation", name="Chats").get_by_role("link")).not_to_have_count(0)
    expect(page.locator(".sidebar-row")).not_to_have_count(0)


def row_menu(page: Page, rooms: Rooms) -> None:
    chats(page, rooms)
    page.locator(".sidebar-row-link").first.click(button="right")
    expect(page.get_by_role("menu")).to_be_visible()


def renaming(page: Page, rooms: Rooms) -> None:
    chats(page, rooms)
    page.locator(".sidebar-row-link").first.press("F2")
    expect(page.get_by_role("textbox", name="Title")).to_be_focused()


def filters(page: Page, rooms: Rooms) -> None:
    chats(page, rooms)
    page.get_by_role("button", name="Filter the list").click()
    expect(page.get_by_role("dialog", name="Filter the list")).to_be_visible()


def themes(page: Page, rooms: Rooms) -> None:
    chats(page, rooms)
    page.get_by_role("button", name="Theme").click()
    expect(page.get_by_role("menu")).to_be_visible()


def deleting(page: Page, rooms: Rooms) -> None:
    chats(page, rooms)
    page.locator(".sidebar-row-link").first.press("Delete")
    expect(page.get_by_role("dialog")).to_be_visible()


def work(page: Page, rooms: Rooms) -> None:
    log(page, rooms.work)
    expect(page.locator('.call[data-state="running"]')).to_be_visible()
    expect(page.locator(".queue-row")).to_have_count(3)


def unfolded(page: Page, rooms: Rooms) -> None:
    """With everything open that opens, twice: there are calls behind calls."""
    work(page, rooms)
    for _ in range(2):
        page.evaluate(
            """() => {
                const closed = 'button.call-line[aria-expanded="false"]';
                for (const one of document.querySelectorAll(closed)) one.click();
            }"""
        )
    expect(page.locator(".diff-text").first).to_be_attached()
    expect(page.get_by_role("group", name="Thoughts")).to_be_attached()


def top(page: Page, rooms: Rooms) -> None:
    unfolded(page, rooms)
    page.get_by_role("log").evaluate("(log) => { log.scrollTop = 0; }")
    expect(page.locator('[data-kind="prompt"]').first).to_be_in_viewport()


def editing(page: Page, rooms: Rooms) -> None:
    work(page, rooms)
    row = page.locator('[data-kind="prompt"]').last
    row.hover()
    row.get_by_role("button", name="Edit").click()
    expect(page.get_by_role("textbox", name="Edited message")).to_be_focused()


def written(page: Page, rooms: Rooms) -> None:
    """A draft with files while the agent works, and the other ways to send it."""
    work(page, rooms)
    files = page.get_by_label("Files to attach")
    picture = FilePayload(name="a picture.png", mimeType="image/png", buffer=PIXEL)
    table = FilePayload(name="a.csv", mimeType="text/csv", buffer=b"a,1")
    files.set_input_files([picture, table])
    page.get_by_role("textbox", name="Message", exact=True).fill("A zero\u200bwidth space")
    page.get_by_role("button", name="Other ways to send").click()
    expect(page.get_by_role("menu", name="Ways to send")).to_be_visible()


def slash(page: Page, rooms: Rooms) -> None:
    work(page, rooms)
    page.get_by_role("textbox", name="Message", exact=True).fill("/")
    expect(page.get_by_role("listbox", name="Commands")).to_be_visible()


def picker(page: Page, rooms: Rooms) -> None:
    work(page, rooms)
    page.get_by_role("button", name=re.compile("^Model:")).click()
    expect(page.get_by_role("listbox", name="Models")).to_be_visible()


def meter(page: Page, rooms: Rooms) -> None:
    work(page, rooms)
    page.get_by_role("button", name=re.compile("^Context:")).click()
    expect(page.get_by_role("dialog", name="Context and usage")).to_contain_text("Model calls")


def head_menu(page: Page, rooms: Rooms) -> None:
    work(page, rooms)
    page.get_by_role("button", name="More actions for this chat").click()
    expect(page.get_by_role("menu")).to_be_visible()


def head_delete(page: Page, rooms: Rooms) -> None:
    head_menu(page, rooms)
    page.get_by_role("menuitem", name="Delete").click()
    expect(page.get_by_role("dialog")).to_be_visible()


def approval(page: Page, rooms: Rooms) -> None:
    log(page, rooms.asks)
    expect(page.get_by_role("button", name="Allow once")).to_be_visible()


def changing(page: Page, rooms: Rooms) -> None:
    approval(page, rooms)
    page.get_by_role("button", name="Change arguments").click()
    page.get_by_role("textbox", name="Arguments for this call").fill("{")
    expect(page.locator(".card-bad")).not_to_be_empty()


def question(page: Page, rooms: Rooms) -> None:
    log(page, rooms.question)
    page.get_by_label("Red").check()


def failed(page: Page, rooms: Rooms) -> None:
    log(page, rooms.failed)
    expect(page.get_by_role("button", name="Retry")).to_be_visible()
    page.get_by_text("Details").click()


def retries(page: Page, rooms: Rooms) -> None:
    log(page, rooms.retries)
    expect(page.get_by_text("Retrying in")).to_be_visible()


def search(page: Page, rooms: Rooms) -> None:
    chats(page, rooms)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("greeting")
    expect(page.get_by_role("option").filter(has_text="better one")).not_to_have_count(0)


def keys(page: Page, rooms: Rooms) -> None:
    chats(page, rooms)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("shortcuts")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()


def inbox(page: Page, _: Rooms) -> None:
    page.goto("/inbox")
    expect(page.get_by_role("heading", name="Waiting for you: 2")).to_be_visible()
    expect(page.get_by_role("button", name="Allow once")).to_be_visible()


def empty_inbox(page: Page, _: Rooms) -> None:
    nothing: dict[str, Any] = {"actions": [], "next": None}
    page.route("**/api/v1/actions*", lambda route: route.fulfill(json=nothing))
    page.goto("/inbox")
    expect(page.get_by_role("heading", name="Nothing is waiting for you")).to_be_visible()


def section(name: str) -> Callable[[Page, Rooms], None]:
    def go(page: Page, _: Rooms) -> None:
        page.goto(f"/settings/{name}")
        expect(page.locator(".settings-section").locator("h2, p").first).to_be_visible()
        expect(page.locator(".settings-section .spinner")).to_have_count(0)

    return go


def each() -> Iterator[Callable[[Page, Rooms], None]]:
    yield from (new, nowhere, chats, row_menu, renaming, filters, themes, deleting)
    yield from (work, unfolded, top, editing, written, slash, picker, meter, head_menu, head_delete)
    yield from (approval, changing, question, failed, retries, search, keys, inbox, empty_inbox)


SECTIONS: Final = ("models", "providers", "agents", "appearance", "account", "nothing")
SCREENS: Final = {one.__name__: one for one in each()} | {
    f"settings {name}": section(name) for name in SECTIONS
}

CUT_OFF: Final = """() => {
    const width = document.documentElement.clientWidth;
    const scrolls = (one) => one && one !== document.body && one !== document.documentElement
        && (/auto|scroll/.test(getComputedStyle(one).overflowX) || scrolls(one.parentElement));
    const isOut = ({ left, right, width: own }) => own > 0 && (left < -1 || right > width + 1);
    const spills = (one) => one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1
        && getComputedStyle(one).overflowX === "visible";
    const cut = [...document.querySelectorAll("button, a, input, textarea, select, h1, h2, p")]
        .filter((one) => one.checkVisibility({ visibilityProperty: true }))
        .filter((one) => one.closest(".hidden-text, .skip") === null)
        .filter((one) => isOut(one.getBoundingClientRect()) || spills(one))
        .filter((one) => !scrolls(one.parentElement))
        .map((one) => one.outerHTML.slice(0, 200));
    const { scrollWidth } = document.scrollingElement;
    return scrollWidth > width ? [`the page is ${scrollWidth} wide of ${width}`, ...cut] : cut;
}"""


OPENED: Final = "[role=menu], [role=dialog], [role=listbox], dialog[open], textarea"
ZOOMS: Final = (
    *("chats", "row_menu", "written", "editing", "picker", "meter", "head_delete"),
    *("approval", "changing", "question", "search", "keys", "inbox", "settings providers"),
)


class Looks:
    """At one screen in all its forms, in one page: what is against any of them is kept."""

    def __init__(self, page: Page, origin: str, rooms: Rooms, screen: str) -> None:
        self.page, self.origin, self.rooms, self.screen = page, origin, rooms, screen
        self.against: list[str] = []
        self._devtools = page.context.new_cdp_session(page)

    def go(self, viewport: ViewportSize, *, touch: bool = False) -> None:
        """What it takes to get to the screen is pressed in this size, and nothing is left over."""
        self.page.goto("about:blank")
        everything = {"origin": self.origin, "storageTypes": "local_storage,indexeddb"}
        self._devtools.send("Storage.clearDataForOrigin", everything)
        self.size(viewport, touch=touch)
        SCREENS[self.screen](self.page, self.rooms)
        self.is_reached()

    def size(self, viewport: ViewportSize, *, touch: bool = False) -> None:
        self._devtools.send("Emulation.setTouchEmulationEnabled", {"enabled": touch})
        self.page.set_viewport_size(viewport)

    def is_reached(self) -> None:
        """What scrolls now is found out when there is time."""
        self.page.wait_for_function(REACHED)

    def note(self, form: str, found: Iterable[str]) -> None:
        self.against += [f"{self.screen}, {form}: {what}" for what in found]

    def at_the_desk(self) -> None:
        self.go(DESK)
        self.note("light", axe(self.page))
        self.note("light", self.page.evaluate(CUT_OFF))
        self.page.emulate_media(color_scheme="dark")
        # Colours that are inherited would change one level of the page after the other.
        assert self.page.evaluate("document.getAnimations().length") == 0
        # The elements are those of before, in the same places: only what they are painted in is
        # another, and contrast is the only rule of axe about that.
        self.note("dark", axe(self.page, "color-contrast"))
        self.page.emulate_media(color_scheme="light")

    def zoomed(self) -> None:
        self.go(ZOOMED)
        self.note("at twice the size", self.page.evaluate(CUT_OFF))
        focused = self.page.locator(":focus")
        if focused.count():
            expect(focused).to_be_in_viewport()

    def on_a_phone(self) -> None:
        """Whole: what is shown, how large it is and what is under it are all others there."""
        if self.screen in ZOOMS:
            self.turn_into_a_phone()
        else:
            self.go(SMALL, touch=True)
        self.note("on a small phone", axe(self.page))
        self.note("on a small phone", self.page.evaluate(CUT_OFF))

    def turn_into_a_phone(self) -> None:
        """A narrow page becomes a narrower one. Most of what a screen costs is the way to it."""
        there = self.page.locator(OPENED)
        count = there.count()
        self.size(SMALL, touch=True)
        wait_until_still(self.page)
        self.is_reached()
        expect(there).to_have_count(count)


@pytest.mark.parametrize("screen", SCREENS)
def test_each_screen_is_accessible_and_not_cut_off_in_all_sizes_and_themes(
    open_page: Pages, furnished: tuple[Server, Rooms], screen: str
) -> None:
    server, rooms = furnished
    page = open_page.blank(server, color_scheme="light", reduced_motion="reduce")
    if screen == "nowhere":
        open_page.watch(page).allow(
            "status of 404|Unexpected response code: 404|WebSocket is closed before"
        )
    looks = Looks(page, server.url, rooms, screen)
    looks.at_the_desk()
    if screen in ZOOMS:
        looks.zoomed()
    looks.on_a_phone()
    assert looks.against == []


def test_the_buttons_of_an_edit_are_at_the_right_also_on_two_lines(
    open_page: Pages, furnished: tuple[Server, Rooms]
) -> None:
    server, rooms = furnished
    page = open_page(server, viewport=SMALL, reduced_motion="reduce")
    editing(page, rooms)
    right = """(button) => button.getBoundingClientRect().right"""
    fork = page.get_by_role("button", name="Fork instead")
    save = page.get_by_role("button", name="Save and send")
    assert save.evaluate(right) == pytest.approx(fork.evaluate(right), abs=1)


def test_a_key_can_be_set_for_providers_that_need_one_and_not_for_local_ones(
    open_page: Pages, server: Server
) -> None:
    page = open_page(server, "/settings/providers")
    expect(page.get_by_role("button", name="Set key for groq")).to_be_visible()
    expect(page.locator(".settings-list > li", has_text="ollama")).to_be_visible()
    expect(page.get_by_role("button", name="Set key for ollama")).to_have_count(0)


def test_settings_use_the_width_beside_the_list(open_page: Pages, server: Server) -> None:
    page = open_page(server, "/settings/providers", viewport=TABLET)
    expect(page.get_by_role("button", name="Set key for groq")).to_be_visible()
    section = page.locator(".settings-section").bounding_box()
    settings = page.locator(".settings").bounding_box()
    assert section is not None
    assert settings is not None
    assert section["width"] > 0.9 * settings["width"]


def test_editing_a_title_on_a_phone_does_not_move_the_conversation(
    open_page: Pages, furnished: tuple[Server, Rooms]
) -> None:
    server, rooms = furnished
    page = open_page(server, f"/chats/{rooms.failed}", viewport=SMALL)
    log = page.get_by_role("log")
    expect(log).to_have_attribute("aria-busy", "false")
    before = log.bounding_box()
    page.get_by_role("button", name="More actions for this chat").click()
    page.get_by_role("menuitem", name="Rename").click()
    expect(page.get_by_role("textbox", name="Title")).to_be_focused()
    assert log.bounding_box() == before


def test_the_sign_in_form_is_accessible(open_page: Pages, server: Server) -> None:
    for window in ({}, {"viewport": SMALL, "has_touch": True}, {"color_scheme": "dark"}):
        page = open_page(server, signed_in=False, reduced_motion="reduce", **window)
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_be_visible()
        assert axe(page) == []
        assert page.evaluate(CUT_OFF) == []


def test_an_unreachable_server_has_its_own_screen(open_page: Pages, server: Server) -> None:
    page = open_page(server, reduced_motion="reduce")
    open_page.watch(page).allow("ERR_FAILED")
    page.route("**/api/v1/**", lambda route: route.abort())
    page.reload()
    expect(page.get_by_role("heading", name="The server is not responding")).to_be_visible()
    assert axe(page) == []
    page.unroute("**/api/v1/**")
    page.get_by_role("button", name="Try now").click()
    expect(page.get_by_role("heading", name="What should the agent do?")).to_be_visible()
