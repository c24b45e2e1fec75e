"""What a newcomer sees within two minutes: no key, no settings, a directory and the demo."""

from __future__ import annotations

import re
import time
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.harness import Pages, Server, Talk

TWO_MINUTES: Final = 120


class Tour:
    def __init__(self, page: Page, server: Server) -> None:
        self.page, self.server = page, server

    @property
    def talk(self) -> Talk:
        return Talk(self.page, self.server, self.page.url.rpartition("/")[2])

    def begins(self, suggestion: str) -> Talk:
        """Choose a suggested prompt."""
        self.page.keyboard.press("Alt+n")
        self.page.get_by_role("button", name=suggestion).click()
        self.page.wait_for_url("**/chats/*")
        return self.talk

    def streams_and_thinks(self) -> None:
        talk = self.begins("Reasoning, then text")
        expect(talk.live.locator(".reasoning")).to_be_visible()
        expect(talk.rows.last.locator(".markdown table")).to_be_visible()
        talk.rests()
        expect(talk.rows.last.locator(".reasoning .call-line")).to_contain_text("Thought")

    def uses_tools(self) -> None:
        talk = self.begins("Tools on a directory")
        for tool in ("list_files", "search_files"):
            expect(talk.call(tool)).to_have_attribute("data-state", "done")
        talk.call("search_files").get_by_role("button").first.click()
        expect(talk.call("search_files")).to_contain_text("TODO: say more")
        talk.rests()

    def asks_before_it_writes(self) -> None:
        talk = self.begins("A write that needs your approval")
        expect(talk.log.locator(".diff")).to_contain_text("hello")
        expect(self.page).to_have_title(re.compile(r"^\(1\)"))
        assert not (self.server.work / "notes.txt").exists()
        talk.log.get_by_role("button", name="Allow once").click()
        expect(talk.call("write_file")).to_have_attribute("data-state", "done")
        talk.rests()
        assert (self.server.work / "notes.txt").read_text().startswith("hello")

    def queues_steers_and_stops(self) -> None:
        talk = self.begins("A long answer to stop or steer")
        expect(talk.live).to_be_visible()
        talk.send("say queued words")
        expect(self.page.locator(".queue-row")).to_contain_text("after this turn")
        talk.send("say steering words", "Control+Enter")
        expect(self.page.locator(".queue-row").first).to_contain_text("before the next step")
        talk.send("say stopping words", "Control+Shift+Enter")
        expect(talk.rows.filter(has_text="say stopping words")).to_have_count(1)
        talk.field.press("Escape")
        # What it says at its end depends on how far it was by then: it may have been done already.
        expect(self.page.locator("[data-unsent], [data-live]")).to_have_count(0)

    def is_stopped(self) -> None:
        talk = self.begins("A long answer to stop or steer")
        expect(talk.live).to_be_visible()
        talk.field.press("Escape")
        expect(talk.tail).to_contain_text("The turn was interrupted.")
        expect(talk.rows.last).to_have_attribute("data-kind", "answer")

    def edits_and_forks(self) -> None:
        talk = self.begins("Everything it understands")
        talk.rests()
        talk.send("say apples")
        expect(talk.rows).to_have_count(4)
        talk.rests()
        prompt = talk.rows.nth(2)
        prompt.hover()
        prompt.get_by_role("button", name="Edit").click()
        field = self.page.get_by_role("textbox", name="Edited message")
        field.fill("say pears")
        field.press("Enter")
        expect(talk.rows.last).to_contain_text("pears")
        expect(talk.log).not_to_contain_text("say apples")
        talk.rests()
        prompt.hover()
        prompt.get_by_role("button", name="Edit").click()
        field.fill("say plums")
        self.page.get_by_role("button", name="Fork instead").click()
        self.page.wait_for_url(lambda url: talk.id not in url)
        expect(self.talk.rows.last).to_contain_text("plums")
        self.talk.rests()

    def waits_out_a_failure(self) -> None:
        talk = self.begins("Errors and retries")
        expect(talk.tail).to_contain_text("attempt")
        expect(talk.rows.last).to_have_attribute("data-kind", "answer")
        talk.rests()

    def summarizes(self) -> None:
        talk = self.begins("A summary")
        expect(talk.rows).to_have_count(2)
        talk.rests()
        talk.send("/compact")
        expect(talk.log).to_contain_text("Summarized")
        talk.rests()

    def survives_a_reload(self) -> None:
        self.page.keyboard.press("Alt+n")
        field = self.page.get_by_role("textbox", name="Message")
        field.fill("slowly say one two three four five six seven eight nine ten")
        field.press("Enter")
        self.page.wait_for_url("**/chats/*")
        expect(self.talk.live).to_contain_text("one")
        self.page.reload()
        expect(self.talk.live).to_contain_text("one")
        expect(self.talk.rows.last).to_contain_text("ten")
        self.talk.converges()


@pytest.mark.timeout(TWO_MINUTES)
def test_a_new_user_can_see_all_features_in_two_minutes(open_page: Pages, demo: Server) -> None:
    (demo.work / "app.py").write_text("print('hello')  # TODO: say more\n")
    began = time.monotonic()
    page = open_page(demo)
    tour = Tour(page, demo)
    tour.streams_and_thinks()
    tour.uses_tools()
    tour.asks_before_it_writes()
    tour.queues_steers_and_stops()
    tour.is_stopped()
    tour.edits_and_forks()
    tour.waits_out_a_failure()
    tour.summarizes()
    tour.survives_a_reload()
    print(f"the tour took {time.monotonic() - began:.0f} s")
