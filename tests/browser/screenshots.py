"""Pictures of the main screens for docs/images: `python -m tests.browser.screenshots`.

The chats in them are made by a model that plays a script, on a small project in a directory: they
are the same whenever they are taken, but for the times.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from holdfast.testing import call, say, think, usage
from tests.browser import chromium
from tests.browser.harness import ROOT, Model, Pages, Server

IMAGES: Final = ROOT / "docs" / "images"
LARGEST: Final = 150_000
"""Bytes of a picture: they are in the repository."""
DESK: Final = ViewportSize(width=1280, height=800)
PHONE: Final = ViewportSize(width=390, height=780)
SETTINGS: Final = """
[agents.coder]
model = "anthropic:claude-sonnet-5"

[agents.reviewer]
model = "anthropic:claude-opus-5-5"
"""
PROJECT: Final = {
    "README.md": "# shelf\n\nPrices of books, with discounts for many.\n",
    "shelf/prices.py": '''"""What books cost."""

DISCOUNTS = {10: 5, 50: 10, 100: 20}


def price(each: int, count: int) -> int:
    """In cents, with the discount for so many."""
    percent = 0
    for least, discount in DISCOUNTS.items():
        if count > least:
            percent = discount
    return each * count * (100 - percent) // 100
''',
    "tests/test_prices.py": """from shelf.prices import price


def test_one_book_costs_its_price():
    assert price(1200, 1) == 1200


def test_ten_books_are_cheaper():
    assert price(1000, 10) == 9500
""",
}
FIX: Final = [{"old_text": "if count > least:", "new_text": "if count >= least:"}]
FAILS: Final = """\\033[1mtests/test_prices.py\\033[0m \\033[32m.\\033[31mF\\033[0m

\\033[31mE   assert 10000 == 9500\\033[0m
\\033[31mE    +  where 10000 = price(1000, 10)\\033[0m

\\033[31m1 failed\\033[0m, \\033[32m1 passed\\033[0m in 0.03s
"""
PASSES: Final = """\\033[1mtests/test_prices.py\\033[0m \\033[32m..\\033[0m

\\033[32m2 passed\\033[0m in 0.02s
"""
SUMMARY: Final = """The discount began one book too late. `price` asked for **more than** ten, \
where the table means *ten or more*:

```python
if count >= least:
    percent = discount
```

| books | before | now |
|------:|-------:|----:|
| 9 | 90.00 | 90.00 |
| 10 | 100.00 | **95.00** |
| 50 | 475.00 | **450.00** |

Both tests pass. Nothing else reads `DISCOUNTS`.
"""
FAILING: Final = f"printf '{FAILS}'; exit 1"


def until(holds: Callable[[], object]) -> None:
    ends = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


class Studio:
    """A server with a project, and the chats that are on the pictures."""

    def __init__(self, model: Model, server: Server) -> None:
        self.model, self.server = model, server
        for name, text in PROJECT.items():
            path = server.work / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        # What the command is called matters on a picture, not what it is.
        runs = server.work / "test.sh"
        runs.write_text(f"grep -q '>=' shelf/prices.py && printf '{PASSES}' && exit; {FAILING}")

    def begin(self, title: str, prompt: str, status: str, agent: str = "coder") -> str:
        given = {"title": title, "prompt": prompt, "agent": agent}
        chat: str = self.server.ask("/chats", given)["id"]
        self.comes_to(chat, status)
        return chat

    def comes_to(self, chat: str, status: str) -> None:
        def is_there() -> bool:
            now = self.server.ask(f"/chats/{chat}")
            return not self.model._turns and now["status"] == status

        until(is_there)

    def allow(self, chat: str, for_chat: str | None = None) -> None:
        actions = self.server.ask(f"/chats/{chat}/actions")["actions"]
        for action in actions:
            answer = {"type": "allow", "digest": action["digest"], "for_chat": for_chat}
            path = f"/chats/{chat}/actions/{action['call']['id']}"
            self.server.ask(path, {"answer": answer})

    def others(self) -> None:
        """What else is in the list."""
        self.model.says(say("They are in `NOTES.md`: three lines, one for each change."))
        self.begin("Notes for the release", "Write the notes of the release", "idle")
        question = {
            "question": "Which rate is to be used?",
            "header": "Rates",
            "options": [
                {"label": "Of the day of the order", "description": "As on the invoice"},
                {"label": "Of today", "description": "Simpler; totals change from day to day"},
            ],
        }
        self.model.says([say("One thing is open."), call("ask_user", questions=[question])])
        self.begin(
            "Other currencies", "Show prices in other currencies", "requires_action", "reviewer"
        )
        self.model.says([think("Each row asks the database."), say("I measure"), self.model.gate()])
        self.begin("Why the import is slow", "Find out why the import is slow", "running")
        self.model.says(say("Two remarks, both about names."))
        review = self.begin("Review of the open change", "Please review it", "idle", "reviewer")
        self.server.ask(f"/chats/{review}", {"pinned": True}, "PATCH")

    def mends(self) -> str:
        """The chat of most pictures, up to where it asks for an edit."""
        self.model.says(
            [
                think("Ten books cost the full price. I should read how the table is used."),
                say("I read how prices are made, and what the tests say."),
                call("read_file", path="shelf/prices.py"),
                call("read_file", path="tests/test_prices.py"),
                call("search_files", pattern="DISCOUNTS"),
                usage(input=4_100, output=180),
            ],
            [call("execute", command="sh test.sh"), usage(input=5_300, output=60)],
        )
        chat = self.begin(
            "Discount for ten books",
            "Customers say that they pay the full price for ten books. Find out why, and mend it.",
            "requires_action",
        )
        self.model.says(
            [
                say("The test fails too: ten is not *more than* ten."),
                call("edit_file", path="shelf/prices.py", edits=FIX),
                usage(input=6_000, output=120),
            ]
        )
        self.allow(chat, "tool")
        until(lambda: "edit_file" in str(self.server.ask(f"/chats/{chat}/actions")))
        return chat

    def goes_on(self, chat: str) -> None:
        self.model.says(
            [call("execute", command="sh test.sh"), usage(input=6_400, output=50)],
            [say(SUMMARY), usage(input=6_800, output=260)],
        )
        self.allow(chat)
        self.comes_to(chat, "idle")


class Camera:
    def __init__(self, browser: Browser, server: Server) -> None:
        self._pages, self._server = Pages(browser), server

    def page(self, path: str, viewport: ViewportSize = DESK, theme: str = "light") -> Page:
        is_phone = viewport is PHONE
        page = self._pages(
            self._server,
            path,
            viewport=viewport,
            color_scheme=theme,
            reduced_motion="reduce",
            has_touch=is_phone,
            is_mobile=is_phone,
        )
        expect(page.locator('[aria-busy="true"]')).to_have_count(0)
        return page

    def takes(self, page: Page, name: str) -> None:
        page.evaluate("() => document.fonts.ready")
        page.mouse.move(0, 0)
        path = IMAGES / f"{name}.png"
        page.screenshot(path=path, scale="css")
        size = path.stat().st_size
        print(f"{path.relative_to(ROOT)}: {size / 1000:.0f} kB")
        assert size < LARGEST, f"{name} is too large for the repository"


def of_work(camera: Camera, studio: Studio) -> None:
    chat = studio.mends()
    studio.server.ask(f"/chats/{chat}/messages", {"prompt": "Then add a line to the README."})
    page = camera.page(f"/chats/{chat}")
    expect(page.get_by_role("button", name="Allow once")).to_be_visible()
    camera.takes(page, "approval")
    phone = camera.page(f"/chats/{chat}", PHONE)
    expect(phone.get_by_role("button", name="Allow once")).to_be_visible()
    camera.takes(phone, "phone-approval")
    camera.takes(camera_at(camera, "/inbox", "Waiting for you: 2"), "inbox")
    (queued,) = studio.server.ask(f"/chats/{chat}/queue")["queue"]
    studio.server.ask(f"/chats/{chat}/queue/{queued['id']}", method="DELETE")
    studio.goes_on(chat)
    for theme in ("light", "dark"):
        page = camera.page(f"/chats/{chat}", theme=theme)
        expect(page.get_by_text("Nothing else reads")).to_be_in_viewport()
        expect(page.locator(".hljs-keyword, [class*=hljs]").first).to_be_attached()
        camera.takes(page, f"chat-{theme}")
    page = camera.page(f"/chats/{chat}")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("books")
    expect(page.get_by_role("option").filter(has_text="Customers")).not_to_have_count(0)
    camera.takes(page, "search")


def camera_at(camera: Camera, path: str, heading: str) -> Page:
    page = camera.page(path)
    expect(page.get_by_role("heading", name=heading)).to_be_visible()
    return page


def of_places(camera: Camera) -> None:
    camera.takes(camera_at(camera, "/new", "What should the agent do?"), "new")
    camera.takes(camera_at(camera, "/settings/models", "Models"), "settings")
    phone = camera.page("/", PHONE)
    expect(phone.locator(".sidebar-row")).not_to_have_count(0)
    camera.takes(phone, "phone-chats")


def main() -> int:
    path = chromium.find()
    if path is None:
        print(chromium.MISSING, file=sys.stderr)
        return 1
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, Model().serving() as model:
        server = Server(Path(home) / "shelf", model, SETTINGS)
        server.start()
        try:
            studio = Studio(model, server)
            studio.others()
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=path)
                camera = Camera(browser, server)
                of_work(camera, studio)
                of_places(camera)
                browser.close()
        finally:
            server.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
