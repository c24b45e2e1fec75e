"""Conversations: messages during and after a turn, edits, retries, attachments."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from playwright.sync_api import Locator, Route, WebSocketRoute, expect

from holdfast.kernel.model import PartEnded, ReasoningDelta
from holdfast.kernel.summary_checkpoint import SUMMARY_SECTIONS
from holdfast.testing import call, fail, lost
from tests.browser.harness import (
    HeldRequests,
    Model,
    Pages,
    Server,
    Talk,
    axe,
    import_chat,
    messages_of,
)

SETTINGS = """
[agents.free]
approval = "never"
"""


@pytest.fixture
def talk(open_page: Pages, server: Server) -> Talk:
    """An empty chat."""
    return Talk.begin(open_page, server)


def queue(talk: Talk) -> Locator:
    return talk.page.get_by_role("region", name="Queue").get_by_role("listitem")


# --- while it works ------------------------------------------------------------------------------


def test_a_message_during_a_turn_is_queued_and_delivered_after_it(talk: Talk, model: Model) -> None:
    gate = model.gate()
    model.says(["At work ", gate, "and done."], "Now for the other thing.")
    talk.send("Begin")
    expect(talk.live).to_contain_text("At work")
    talk.send("And then the other thing")
    expect(queue(talk)).to_contain_text("And then the other thing")
    expect(queue(talk)).to_contain_text("after this turn")
    expect(talk.field).to_have_value("")
    gate.open()
    expect(talk.rows.last).to_contain_text("Now for the other thing.")
    expect(queue(talk)).to_have_count(0)
    talk.converges()


def test_a_steering_message_reaches_the_agent_before_its_next_step(
    talk: Talk, model: Model
) -> None:
    gate = model.gate()
    model.says([call("list_files"), gate], "As you say.")
    talk.send("Look around")
    expect(talk.call("list_files")).to_be_visible()
    talk.send("Be brief about it", "Control+Enter")
    expect(queue(talk)).to_contain_text("before the next step")
    gate.open()
    expect(talk.rows.last).to_contain_text("As you say.")
    assert "Be brief about it" in messages_of(model, 1)
    talk.converges()


@pytest.mark.parametrize("how", ["keys", "menu"])
def test_an_interrupting_message_ends_the_turn_and_is_delivered_at_once(
    talk: Talk, model: Model, how: str
) -> None:
    gate = model.gate()
    model.says(["The long way ", gate], "The short way.")
    talk.send("Begin")
    expect(talk.live).to_contain_text("The long way")
    talk.field.fill("Stop, do it otherwise")
    if how == "keys":
        talk.field.press("Control+Shift+Enter")
    else:
        talk.page.get_by_role("button", name="Other ways to send").click()
        talk.page.get_by_role("menuitem", name="Interrupt").click()
    expect(talk.rows.last).to_contain_text("The short way.")
    talk.converges()
    gate.open()


@pytest.mark.parametrize("how", ["button", "Escape"])
def test_a_stop_is_pending_until_the_server_confirms_it(talk: Talk, model: Model, how: str) -> None:
    gate = model.gate()
    model.says(["Half an answer ", gate])
    talk.send("Begin")
    expect(talk.live).to_contain_text("Half an answer")
    held = HeldRequests(talk.page, "**/interrupt")
    with talk.page.expect_request("**/interrupt"):
        if how == "button":
            talk.page.get_by_role("button", name="Stop", exact=True).click()
        else:
            talk.page.keyboard.press("Escape")
    expect(talk.tail).to_contain_text("Stopping…")
    expect(talk.page.get_by_role("button", name="Stopping…")).to_be_disabled()
    held.release()
    expect(talk.tail).to_contain_text("The turn was interrupted.")
    expect(talk.page.get_by_role("button", name="Stop")).to_have_count(0)
    expect(talk.rows.last).to_contain_text("Half an answer")
    talk.agrees()
    gate.open()


def test_escape_stops_a_streaming_answer_before_the_snapshot_says_running(
    open_page: Pages, server: Server, model: Model
) -> None:
    """Live output and snapshots arrive separately, and the snapshot may be later."""
    model.says(["Half an answer ", gate := model.gate()])
    page = open_page(server)
    chat = server.ask("/chats", {})["id"]
    late: list[str | bytes] = []

    def opens(socket: WebSocketRoute) -> None:
        def hand_on(message: str | bytes) -> None:
            runs = '"event":"chat"' in str(message) and '"status":"running"' in str(message)
            late.append(message) if runs else socket.send(message)

        socket.connect_to_server().on_message(hand_on)

    page.route_web_socket(f"**/chats/{chat}/stream*", opens)
    page.goto(f"/chats/{chat}")
    talk = Talk(page, server, chat)
    expect(talk.log).to_have_attribute("aria-busy", "false")  # it knows the chat, at rest
    talk.send("Begin")
    expect(talk.live).to_contain_text("Half an answer")
    assert late
    talk.field.press("Escape")
    expect(talk.tail).to_contain_text("The turn was interrupted.")
    expect(talk.rows.last).to_contain_text("Half an answer")
    gate.open()


# --- what waits ----------------------------------------------------------------------------------


def test_queued_messages_can_be_edited_moved_removed_and_sent_now(talk: Talk, model: Model) -> None:
    gate, last = model.gate(), model.gate()
    model.says(
        ["Busy ", gate], ["To the third. ", last, "Done."], "To the second.", "To the first."
    )
    talk.send("Begin")
    expect(talk.live).to_contain_text("Busy")
    for word in ("first", "second", "third"):
        talk.send(f"The {word} thing")
    expect(queue(talk)).to_contain_text([f"The {w} thing" for w in ("first", "second", "third")])

    button = talk.page.get_by_role("button", name="Move up: The second thing")
    button.click()
    expect(queue(talk)).to_contain_text([f"The {w} thing" for w in ("second", "first", "third")])
    expect(button).to_be_focused()

    talk.page.get_by_role("button", name="Edit: The first thing").click()
    field = talk.page.get_by_role("textbox", name="Edited message")
    field.fill("The very first thing")
    talk.page.get_by_role("button", name="Save", exact=True).click()
    expect(queue(talk).nth(1)).to_contain_text("The very first thing")

    talk.page.get_by_role("button", name="Remove: The very first thing").click()
    expect(queue(talk)).to_have_count(2)
    talk.page.get_by_role("button", name="Undo").click()
    expect(queue(talk)).to_contain_text(["second", "third", "The very first thing"])

    talk.page.get_by_role("button", name="Interrupt the turn and send now: The third thing").click()
    expect(talk.live).to_contain_text("To the third.")
    expect(queue(talk)).to_contain_text(["second", "The very first thing"])
    last.open()
    expect(talk.rows.last).to_contain_text("To the first.")
    talk.converges()
    gate.open()


def test_undo_restores_a_removed_message_in_the_visible_composer(
    open_page: Pages, server: Server, talk: Talk, model: Model
) -> None:
    gate = model.gate()
    model.says(["Busy ", gate, "and done."])
    page = talk.page
    talk.send("Begin")
    expect(talk.live).to_contain_text("Busy")
    talk.send("The next thing")
    page.get_by_role("button", name="Remove: The next thing").click()
    undo = page.get_by_role("button", name="Undo")
    undo.hover()
    page.keyboard.press("Alt+n")
    page.wait_for_url("**/new")
    page.go_back()
    gate.open()
    expect(talk.rows.last).to_contain_text("and done.")
    talk.rests()
    expect(talk.field).to_have_value("")
    undo.click()
    expect(talk.field).to_have_value("The next thing")
    talk.converges()


# --- who answers ---------------------------------------------------------------------------------


def test_an_error_of_the_model_list_is_shown_and_can_be_retried(
    open_page: Pages, server: Server
) -> None:
    page = open_page.blank(server)
    open_page.watch(page).allow("status of 500")
    page.route("**/api/v1/models", lambda route: route.fulfill(status=500, body="no"))
    chat = server.ask("/chats", {"prompt": None})["id"]
    page.goto(f"{server.url}/chats/{chat}")
    page.get_by_role("button", name="Model").click()
    panel = page.get_by_role("dialog", name="Model and effort")
    expect(panel.get_by_role("alert")).to_contain_text("500")
    again = panel.get_by_role("button", name="Try again")
    with page.expect_response("**/api/v1/models"):
        again.click()
    expect(again).to_be_focused()
    assert axe(page) == []
    page.unroute("**/api/v1/models")
    again.click()
    expect(panel.get_by_role("combobox", name="Search models")).to_be_focused()


def test_a_failed_deletion_does_not_navigate_a_user_who_has_moved_on(
    talk: Talk, open_page: Pages
) -> None:
    page = talk.page
    open_page.watch(page).allow("status of 403")
    refusal = {"kind": "no", "status": 403, "detail": "Not so."}
    held: list[Route] = []
    page.route(f"**/api/v1/chats/{talk.id}", lambda route: held.append(route))

    def delete() -> Route:
        page.get_by_role("button", name="More actions for this chat").click()
        page.get_by_role("menuitem", name="Delete…").click()
        with page.expect_request(lambda asked: asked.method == "DELETE"):
            page.get_by_role("button", name="Delete permanently").click()
        page.wait_for_url(f"{talk.server.url}/")
        return held.pop()

    delete().fulfill(status=403, json=refusal)
    page.wait_for_url(f"**/chats/{talk.id}")
    route = delete()
    page.keyboard.press("Alt+i")
    page.wait_for_url("**/inbox")
    route.fulfill(status=403, json=refusal)
    expect(page.locator(".notice")).to_have_count(2)
    assert page.url.endswith("/inbox")


# --- earlier messages ----------------------------------------------------------------------------


def test_an_earlier_message_is_edited_after_a_warning_or_forked_instead(
    talk: Talk, model: Model
) -> None:
    model.says("One.", "Two.", "Three instead.", "Four, elsewhere.")
    for number, word in enumerate(("One.", "Two.")):
        talk.send(f"Prompt {number}")
        expect(talk.rows.last).to_contain_text(word)
        talk.rests()

    first = talk.rows.first
    first.hover()
    first.get_by_role("button", name="Edit").click()
    expect(talk.page.get_by_text("Replaces this message and the 3 below it.")).to_be_visible()
    field = talk.page.get_by_role("textbox", name="Edited message")
    expect(field).to_have_value("Prompt 0")
    field.press("Escape")
    expect(field).to_be_hidden()
    expect(talk.rows).to_have_count(4)

    first.hover()
    first.get_by_role("button", name="Edit").click()
    field.fill("Another prompt")
    talk.page.get_by_role("button", name="Save and send").click()
    expect(talk.rows.last).to_contain_text("Three instead.")
    talk.converges()
    expect(talk.rows).to_have_count(2)

    talk.rows.first.hover()
    talk.rows.first.get_by_role("button", name="Edit").click()
    field.fill("A third prompt")
    with talk.page.expect_navigation(url=re.compile(rf"/chats/(?!{talk.id})")):
        talk.page.get_by_role("button", name="Fork instead").click()
    forked = Talk(talk.page, talk.server, talk.page.url.rpartition("/")[2])
    expect(forked.rows.last).to_contain_text("Four, elsewhere.")
    forked.converges()
    talk.page.go_back()
    expect(talk.rows.last).to_contain_text("Three instead.")
    talk.converges()


def test_chats_with_the_same_name_show_their_start_time_in_the_list(
    open_page: Pages, server: Server
) -> None:
    page = open_page(server)
    server.ask("/chats", {"title": "Prices of books"})
    rows = page.locator(".sidebar-row", has_text="Prices of books")
    expect(rows).to_have_count(1)
    expect(rows).not_to_contain_text("Started")
    server.ask("/chats", {"title": "Prices of books"})
    expect(rows).to_have_count(2)
    expect(rows).to_contain_text(["Started", "Started"])


def test_a_pending_edit_does_not_close_the_next_one(talk: Talk, model: Model) -> None:
    model.says("One.", "Two.", "Two instead.")
    for number, word in enumerate(("One.", "Two.")):
        talk.send(f"Prompt {number}")
        expect(talk.rows.last).to_contain_text(word)
        talk.rests()
    held = HeldRequests(talk.page, "**/messages/*")
    field = talk.page.get_by_role("textbox", name="Edited message")
    talk.rows.nth(2).hover()
    talk.rows.nth(2).get_by_role("button", name="Edit").click()
    field.fill("Another prompt")
    field.press("Enter")
    talk.rows.first.hover()
    talk.rows.first.get_by_role("button", name="Edit").click()
    expect(field).to_have_value("Prompt 0")
    field.fill("Half a thought")
    held.release()
    expect(talk.rows.last).to_contain_text("Two instead.")
    talk.rests()
    expect(field).to_have_value("Half a thought")


def test_text_written_while_a_chat_is_created_moves_into_it(
    open_page: Pages, server: Server, model: Model
) -> None:
    model.says("Well begun.")
    page = open_page(server)
    field = page.get_by_role("textbox", name="Message", exact=True)
    held = HeldRequests(page, "**/api/v1/chats")
    field.fill("Begin")
    with page.expect_request("**/api/v1/chats"):
        field.press("Enter")
    field.press_sequentially(" and go on")
    held.release()
    page.wait_for_url("**/chats/*")
    expect(field).to_have_value("and go on")
    expect(page.locator("[data-row]").last).to_contain_text("Well begun.")
    page.get_by_role("link", name="New chat").first.click()
    page.wait_for_url("**/new")
    expect(field).to_have_value("")


def test_a_draft_survives_a_reload_and_earlier_messages_are_recalled(
    talk: Talk, model: Model
) -> None:
    model.says("One.", "Two.")
    for number, word in enumerate(("One.", "Two.")):
        talk.send(f"Prompt {number}")
        expect(talk.rows.last).to_contain_text(word)
        talk.rests()
    talk.field.press("ArrowUp")
    expect(talk.field).to_have_value("Prompt 1")
    talk.field.press("ArrowUp")
    expect(talk.field).to_have_value("Prompt 0")
    talk.field.press("ArrowDown")
    expect(talk.field).to_have_value("Prompt 1")
    talk.field.press("ArrowDown")
    expect(talk.field).to_have_value("")
    talk.field.fill("Half of a thou")
    talk.page.reload()
    expect(talk.field).to_have_value("Half of a thou")


# --- trouble -------------------------------------------------------------------------------------

TAILS = """() => {
    const tail = document.querySelector(".tail");
    window.tails = [];
    new MutationObserver(() => tails.push(tail.textContent)).observe(tail, {
        subtree: true, childList: true, characterData: true,
    });
}"""
"""All that the end of the chat ever says: what it says for a second may be over when one looks."""


def test_a_retried_model_call_shows_why_and_when(talk: Talk, model: Model) -> None:
    model.says([fail("Slow down.", status=429, retry_after=1)], "Here I am.")
    talk.page.evaluate(TAILS)
    talk.send("Begin")
    expect(talk.rows.last).to_contain_text("Here I am.")
    talk.converges()
    shown = "\n".join(talk.page.evaluate("tails"))
    assert "The provider's rate limit was reached" in shown
    assert re.search(r"Retrying in 1 s · attempt 2 of 10", shown)


@pytest.mark.parametrize("wrong", [-3_600, 3_600])
def test_a_wrong_browser_clock_does_not_change_the_retry_countdown(
    open_page: Pages, server: Server, model: Model, wrong: int
) -> None:
    model.says([fail("Slow down.", status=429, retry_after=2)], "Here I am.")
    chat = server.ask("/chats", {"prompt": None})["id"]
    page = open_page.blank(server)
    page.clock.install(time=time.time() + wrong)
    page.goto(f"{server.url}/chats/{chat}")
    talk = Talk(page, server, chat)
    expect(talk.log).to_have_attribute("aria-busy", "false")
    page.evaluate(TAILS)
    talk.send("Begin")
    expect(talk.rows.last).to_contain_text("Here I am.")
    shown = "\n".join(page.evaluate("tails"))
    assert re.search(r"Retrying in [1-4] s · attempt", shown), shown


def test_a_cut_off_answer_is_replaced_by_the_next_attempt(talk: Talk, model: Model) -> None:
    gate = model.gate()
    model.says(["A stale beginn", gate, lost()], "A fresh beginning.")
    talk.send("Begin")
    expect(talk.live).to_contain_text("A stale beginn")
    gate.open()
    expect(talk.rows.last).to_contain_text("A fresh beginning.")
    expect(talk.log).not_to_contain_text("stale")
    talk.converges()


def test_a_failed_turn_shows_its_error_and_can_be_retried(talk: Talk, model: Model) -> None:
    model.says([fail("This key is not known.", status=401)], "This time it works.")
    talk.send("Begin")
    expect(talk.tail).to_contain_text("The provider does not accept the key")
    expect(talk.tail.get_by_role("link", name="Open the provider settings")).to_be_visible()
    expect(talk.tail.locator("p").first).not_to_be_empty()
    talk.tail.get_by_text("Details").click()
    expect(talk.tail).to_contain_text("HTTP 401")
    expect(talk.tail).to_contain_text("This key is not known.")
    talk.tail.get_by_role("button", name="Retry").click()
    expect(talk.rows.last).to_contain_text("This time it works.")
    talk.converges()


# --- what it does --------------------------------------------------------------------------------


def test_a_conversation_is_summarized_on_demand(talk: Talk, model: Model) -> None:
    gate = model.gate()
    summary = "".join(f"## {section}\nNone.\n" for section in SUMMARY_SECTIONS)
    model.says("A long answer. " * 500, [f"{summary}It was about ", gate, "nothing."])
    talk.send("Say a lot")
    expect(talk.rows.last).to_contain_text("A long answer.")
    talk.rests()
    talk.field.fill("/compact")
    expect(talk.page.get_by_role("option", name="compact")).to_be_visible()
    talk.field.press("Enter")
    expect(talk.log.get_by_text("Summarizing…")).to_be_visible()
    gate.open()
    entry = talk.page.get_by_role("article", name="Summary")
    expect(entry).to_contain_text(re.compile(r"Summarized \d+ messages?, .+ → .+ tokens"))
    expect(talk.log.get_by_text("Summarizing…")).to_have_count(0)
    entry.get_by_role("button").click()
    expect(entry).to_contain_text("It was about nothing.")
    talk.converges()


def test_reasoning_is_expanded_while_it_grows_and_collapses_when_it_is_done(
    talk: Talk, model: Model
) -> None:
    thinks, answers = model.gate(), model.gate()
    model.says([ReasoningDelta("Let me see. "), thinks, PartEnded(None), "So: ", answers, "yes."])
    talk.send("Think")
    thoughts = talk.log.locator(".reasoning")
    expect(thoughts).to_contain_text("Thinking…")
    expect(thoughts.get_by_text("Let me see.")).to_be_visible()
    thinks.open()
    expect(talk.live).to_contain_text("So:")
    expect(thoughts).to_contain_text("Thought for")
    expect(thoughts.get_by_text("Let me see.")).to_be_hidden()
    answers.open()
    expect(talk.live).to_have_count(0)
    thoughts.get_by_role("button").click()
    expect(thoughts.get_by_text("Let me see.")).to_be_visible()
    talk.converges()


def test_a_command_shows_its_output_while_it_runs_and_how_it_ended(
    talk: Talk, model: Model
) -> None:
    command = "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo ended"
    model.says(call("execute", command=command), call("execute", command="exit 3"), "Both ran.")
    talk.send("Run it")
    first, second = talk.call("execute").nth(0), talk.call("execute").nth(1)
    expect(first).to_have_attribute("data-state", "running")
    expect(first.locator(".call-line")).to_contain_text("Running")
    expect(first.locator(".call-scroll")).to_have_text("begun")
    (talk.server.work / "go").touch()
    expect(first).to_have_attribute("data-state", "done")
    expect(first.locator(".call-line")).to_contain_text("Ran")
    expect(first.locator(".call-scroll")).to_have_text("begun\nended")
    expect(second.locator(".call-line")).to_contain_text("exit code 3")
    expect(talk.rows.last).to_contain_text("Both ran.")
    talk.converges()


def test_output_is_shown_in_its_ansi_colours(open_page: Pages, server: Server) -> None:
    text = "\x1b[32mgreen\x1b[0m and <b>plain</b>\n[exit code 0, 0.1 s]"
    made = {"type": "call", "id": "c", "tool": "execute", "arguments": '{"command": "paint"}'}
    result = {"type": "result", "call_id": "c", "tool": "execute"}
    messages = [
        {"role": "user", "kind": "prompt", "parts": [{"type": "text", "text": "Paint"}]},
        {"role": "assistant", "kind": "answer", "parts": [made]},
        {
            "role": "tool",
            "kind": "results",
            "parts": [{**result, "content": [{"type": "text", "text": text}]}],
        },
    ]
    talk = Talk.open(open_page, server, import_chat(server, messages))
    row = talk.call("execute")
    row.get_by_role("button").first.click()
    output = row.locator(".call-scroll")
    expect(output).to_have_text("green and <b>plain</b>")
    expect(output.locator("b")).to_have_count(0)
    expect(output.locator(".ansi-green-fg")).to_have_text("green")
    assert colour(output.locator(".ansi-green-fg")) != colour(output)


def colour(element: Locator) -> Any:
    return element.evaluate("(element) => getComputedStyle(element).color")


def test_calls_that_read_write_and_edit_files_have_rows(talk: Talk, model: Model) -> None:
    writing = model.gate()
    (talk.server.work / "there.txt").write_text("one\ntwo\n")
    edits = [{"old_text": "two", "new_text": "three"}]
    model.says(
        call("read_file", path="there.txt"),
        call("edit_file", path="there.txt", edits=edits),
        [call("write_file", path="new.txt", content="fresh\n"), writing],
        call("edit_file", path="none.txt", edits=edits),
        "All of them.",
    )
    talk.send("Do things with files")
    expect(talk.call("write_file")).to_have_attribute("data-state", re.compile("writing|starting"))
    expect(talk.call("write_file").locator(".call-line")).to_contain_text("new.txt")
    writing.open()
    expect(talk.rows.last).to_contain_text("All of them.")

    read = talk.call("read_file")
    expect(read.locator(".call-line")).to_contain_text("Read there.txt")
    read.get_by_role("button").first.click()
    expect(read.locator("table")).to_contain_text("two")

    edited = talk.call("edit_file").first
    expect(edited.locator(".call-line")).to_contain_text("Edited there.txt")
    expect(edited.locator(".diff-lines")).to_contain_text("three")
    expect(edited.locator(".diff-added")).to_contain_text("1")
    expect(edited.locator(".diff-removed")).to_contain_text("1")

    written = talk.call("write_file")
    expect(written.locator(".call-line")).to_contain_text("Wrote new.txt")
    expect(written.locator(".diff-lines")).to_contain_text("fresh")

    failed = talk.call("edit_file").nth(1)
    expect(failed).to_have_attribute("data-state", "failed")
    expect(failed.locator(".call-body")).to_contain_text("none.txt")
    talk.converges()


def test_files_are_attached_by_choosing_and_by_pasting(talk: Talk, model: Model) -> None:
    model.says("Three files.")
    tiles = talk.page.get_by_role("list", name="Attached files").get_by_role("listitem")
    with talk.page.expect_file_chooser() as chooser:
        talk.page.get_by_role("button", name="Attach files").click()
    chooser.value.set_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"chosen"})
    expect(tiles).to_have_count(1)
    paste(talk.field, "x" * 2_000)
    expect(tiles).to_have_count(2)
    paste(talk.field, "", "dot.gif")
    expect(tiles).to_have_count(3)
    expect(tiles).to_contain_text(["a.txt", "pasted.txt", "dot.gif"])
    for tile in tiles.all():
        expect(tile).to_have_attribute("data-is", "done")
    talk.page.reload()
    expect(tiles).to_have_count(3)
    talk.send("Look at these")
    expect(tiles).to_have_count(0)
    expect(talk.rows.last).to_contain_text("Three files.")
    expect(talk.rows.first).to_contain_text("a.txt")
    expect(talk.rows.first).to_contain_text("pasted.txt")
    picture = talk.rows.first.locator("img")
    picture.evaluate("(image) => image.decode()")
    talk.converges()
    (prompt, _) = talk.server.ask(f"/chats/{talk.id}/messages")["messages"]
    assert [part["type"] for part in prompt["message"]["parts"]] == ["text", *["file"] * 3]


PASTE = """(field, { text, name }) => {
    const data = new DataTransfer();
    if (text) data.setData("text/plain", text);
    const dot = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";
    const bytes = Uint8Array.from(atob(dot), (each) => each.charCodeAt(0));
    if (name) data.items.add(new File([bytes], name, { type: "image/gif" }));
    field.dispatchEvent(
        new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }),
    );
}"""


def paste(field: Locator, text: str, name: str | None = None) -> None:
    field.evaluate(PASTE, {"text": text, "name": name})


def test_durations_of_calls_and_answers_are_shown_after_a_reload(
    open_page: Pages, server: Server
) -> None:
    asks = {"type": "call", "id": "a", "tool": "wait_agents", "arguments": "{}"}
    ran = {"type": "result", "call_id": "a", "tool": "wait_agents", "content": []}
    messages: list[dict[str, Any]] = [
        {"role": "user", "kind": "prompt", "parts": [{"type": "text", "text": "Wait"}]},
        {"role": "assistant", "kind": "answer", "parts": [asks], "runtime": 1_500},
        {
            "role": "tool",
            "kind": "results",
            "parts": [{**ran, "started_at": 1_000_000, "finished_at": 3_500_000}],
        },
        {
            "role": "assistant",
            "kind": "answer",
            "parts": [{"type": "text", "text": "Done."}],
            "runtime": 250,
        },
    ]
    talk = Talk.open(open_page, server, import_chat(server, messages))
    for _ in range(2):
        expect(talk.call("wait_agents")).to_contain_text("2.5 s")
        foot = talk.page.locator(".answer-foot [title*='model calls took']")
        expect(foot).to_have_attribute("title", re.compile(r"model calls took 1\.8 s"))
        talk.page.reload()
