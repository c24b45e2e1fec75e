"""A turn that ends at a limit: what the page says, and how it continues."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import expect

from holdfast.testing import call
from tests.browser.harness import Model, Pages, Server, Talk

SETTINGS: Final = """
[agents.brief]
tools = ["bundled"]
limits = {steps = 1}
"""


def test_a_turn_that_ended_at_a_limit_continues_without_a_message(
    open_page: Pages, server: Server, model: Model
) -> None:
    model.says(call("list_files", path="."), "That is all.")
    talk = Talk.begin(open_page, server, "Look around", "brief")
    expect(talk.tail).to_contain_text("Stopped at the limit of 1 step")
    expect(talk.tail).to_contain_text(
        "The turn used 1 of 1 steps. Continue to allow the same again"
    )
    talk.tail.get_by_role("button", name="Continue").click()
    expect(talk.rows.last).to_contain_text("That is all.")
    expect(talk.tail).not_to_contain_text("Stopped")
    prompts = talk.page.locator('[data-kind="prompt"]')
    expect(prompts).to_have_count(1)
    model.is_spent()


def test_the_command_resumes_only_after_a_limit(
    open_page: Pages, server: Server, model: Model
) -> None:
    model.says(call("list_files", path="."), "That is all.")
    talk = Talk.begin(open_page, server, "Look around", "brief")
    expect(talk.tail).to_contain_text("Stopped at the limit")
    talk.send("/resume")
    expect(talk.rows.last).to_contain_text("That is all.")
    talk.field.fill("/resume")
    expect(talk.page.get_by_role("option", name="resume")).to_be_disabled()
    expect(talk.page.get_by_role("option", name="resume")).to_contain_text("after a limit")
