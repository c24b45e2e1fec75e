"""Whatever happens to a page, its connection or its server: it shows what is stored, once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, Route, WebSocketRoute, expect

from holdfast.testing import call
from tests.browser.harness import (
    HeldRequests,
    Model,
    Pages,
    Server,
    Talk,
    import_chat,
    wait_until_still,
)

SETTINGS = """
[agents.careful]

[agents.free]
approval = "never"

[worker]
heartbeat = 1
lease = 3
poll = 1
"""
LOST = "The connection is lost"


# --- another look at the same --------------------------------------------------------------------


def test_a_reload_in_the_middle_of_an_answer_shows_its_beginning_and_then_the_rest(
    open_page: Pages, server: Server, model: Model
) -> None:
    gate = model.gate()
    model.says(["The first half, ", gate, "and the other one."])
    talk = Talk.begin(open_page, server, "Say something in two halves")
    expect(talk.live).to_contain_text("The first half,")
    talk.page.reload()
    expect(talk.live).to_contain_text("The first half,")
    gate.open()
    expect(talk.rows.last).to_contain_text("The first half, and the other one.")
    talk.converges()


def test_two_tabs_show_the_same_from_the_middle_of_an_answer_on(
    open_page: Pages, server: Server, model: Model
) -> None:
    gate = model.gate()
    model.says(["Both of you ", gate, "see this."], "And this too.")
    one = Talk.begin(open_page, server, "Speak to both")
    expect(one.live).to_contain_text("Both of you")
    two = Talk.open(open_page, server, one.id, beside=one.page)
    expect(two.live).to_contain_text("Both of you")
    gate.open()
    for talk in (one, two):
        talk.converges()
    two.send("From the second tab")
    expect(one.rows.filter(has_text="From the second tab")).to_have_count(1)
    for talk in (one, two):
        expect(talk.rows.last).to_contain_text("And this too.")
        talk.converges()


# --- a server that is killed ---------------------------------------------------------------------


def test_a_page_whose_server_is_killed_in_mid_answer_says_so_and_shows_the_next_attempt(
    open_page: Pages, server: Server, model: Model
) -> None:
    old, new = model.gate(), model.gate()
    model.says(["Stale words ", old], ["Fresh words ", new, "to the end."])
    talk = Talk.begin(open_page, server, "Say something")
    expect(talk.live).to_contain_text("Stale words")
    server.kill()
    expect(talk.tail).to_contain_text(LOST)
    expect(talk.live).to_contain_text("Stale words")  # there is nothing better yet
    server.start()
    expect(talk.live).to_contain_text("Fresh words")
    expect(talk.log).not_to_contain_text("Stale words")
    expect(talk.tail).not_to_contain_text(LOST)
    new.open()
    expect(talk.rows.last).to_contain_text("Fresh words to the end.")
    talk.converges()


def test_a_call_that_was_running_when_the_server_was_killed_is_shown_as_lost(
    open_page: Pages, server: Server, model: Model
) -> None:
    model.says(call("execute", command="echo begun; sleep 60"), "I do not know what it did.")
    talk = Talk.begin(open_page, server, "Run it", "free")
    running = talk.call("execute")
    expect(running).to_have_attribute("data-state", "running")
    expect(running).to_contain_text("begun")
    server.kill()
    expect(talk.tail).to_contain_text(LOST)
    server.start()
    expect(running).to_have_attribute("data-state", "lost")
    expect(talk.rows.last).to_contain_text("I do not know what it did.")
    talk.converges()


def test_an_approval_survives_a_restart_of_the_server(
    open_page: Pages, server: Server, model: Model
) -> None:
    model.says(call("write_file", path="kept.txt", content="kept\n"), "It is written.")
    talk = Talk.begin(open_page, server, "Write it", "careful")
    allow = talk.log.get_by_role("button", name="Allow once")
    expect(allow).to_be_visible()
    server.kill()
    expect(talk.page.get_by_text("keeps working without this page")).to_be_visible()
    server.start()
    expect(talk.page.get_by_text("keeps working without this page")).to_be_hidden()
    allow.click()
    expect(talk.rows.last).to_contain_text("It is written.")
    assert (server.work / "kept.txt").read_text() == "kept\n"
    talk.converges()


def test_a_message_that_is_sent_while_the_server_is_down_arrives_once_when_it_is_back(
    open_page: Pages, server: Server, model: Model
) -> None:
    model.says("I heard you.")
    talk = Talk.begin(open_page, server)
    server.kill()
    talk.send("Are you there?")
    waiting = talk.page.locator("[data-unsent]", has_text="Are you there?").first
    expect(waiting).to_contain_text("Sending…")
    server.start()
    expect(talk.rows.last).to_contain_text("I heard you.")
    talk.converges()
    assert prompts(server, talk.id) == ["Are you there?"]


def test_a_message_that_cannot_be_sent_can_be_discarded(
    open_page: Pages, server: Server, model: Model
) -> None:
    model.says("I heard you.")
    talk = Talk.begin(open_page, server)
    server.kill()
    talk.send("Not so")
    talk.send("But so")
    waiting = talk.page.locator("article[data-unsent]")
    waiting.filter(has_text="Not so").get_by_role("button", name="Discard").click()
    expect(waiting).to_have_count(1)
    expect(talk.field).to_be_focused()
    expect(talk.page.locator(".notice")).to_contain_text("Discarded.")
    server.start()
    expect(talk.rows.last).to_contain_text("I heard you.")
    talk.converges()
    assert prompts(server, talk.id) == ["But so"]


def test_an_unsent_message_survives_a_reload(
    open_page: Pages, server: Server, model: Model
) -> None:
    model.says("To the first.", "To the second.")
    talk = Talk.begin(open_page, server)
    server.kill()
    talk.send("The first")
    talk.send("The second")
    expect(talk.page.locator("article[data-unsent]")).to_have_count(2)
    talk.page.goto("about:blank")  # no page can send it any more
    server.start()
    talk.page.goto(f"{server.url}/chats/{talk.id}")
    expect(talk.rows.last).to_contain_text("To the second.")
    talk.converges()
    assert prompts(server, talk.id) == ["The first", "The second"]


def test_a_message_whose_response_was_lost_is_sent_again_and_is_there_once(
    open_page: Pages, server: Server, model: Model
) -> None:
    gate = model.gate()
    model.says([gate, "I heard you."])
    talk = Talk.begin(open_page, server)
    receipts: list[int] = []

    def lose(route: Route) -> None:
        """The first receipt gets lost on its way back."""
        answer = route.fetch()
        receipts.append(answer.status)
        if len(receipts) > 1:
            route.fulfill(response=answer)
        else:
            route.abort()

    talk.page.route("**/messages", lose)
    open_page.watch(talk.page).allow("net::ERR_FAILED")
    talk.page.evaluate(FOLLOW, "wombat")
    # The first answer never gets there: what does is the second, whenever the page asks again.
    with talk.page.expect_response("**/messages"):
        talk.send("Tell me of the wombat")
        expect(talk.rows).to_contain_text(["wombat"])
        gate.open()
    talk.page.unroute("**/messages")
    expect(talk.rows.last).to_contain_text("I heard you.")
    talk.converges()
    assert receipts == [202, 202]
    assert prompts(server, talk.id) == ["Tell me of the wombat"]
    seen = talk.page.evaluate("followed")
    assert seen["counts"] == [0, 1]  # never twice, and never gone again
    assert len(seen["tops"]) == 1, seen


@pytest.mark.parametrize("agents_are_read", [True, False])
def test_a_chat_whose_response_was_lost_is_created_once_also_over_a_reload(
    open_page: Pages, server: Server, model: Model, agents_are_read: bool
) -> None:
    model.says("I heard you.")
    page = open_page(server, "/new")
    open_page.watch(page).allow("net::ERR_FAILED")
    made: list[str] = []

    def lose(route: Route) -> None:
        if route.request.method == "POST":
            made.append(route.fetch().json()["id"])
            route.abort()
        else:
            route.fallback()

    page.route("**/api/v1/chats", lose)
    field = page.get_by_role("textbox", name="Message", exact=True)
    picker = page.get_by_role("button", name="Model: ")
    expect(picker).to_be_visible()
    field.fill("Begin, once")
    field.press("Enter")
    expect(page.locator(".notice")).to_contain_text("cannot be reached")
    page.unroute("**/api/v1/chats")
    held = None if agents_are_read else HeldRequests(page, "**/api/v1/agents")
    page.reload()
    expect(picker).to_be_visible(visible=agents_are_read)
    expect(field).to_have_value("Begin, once")
    field.press("Enter")
    page.wait_for_url(f"{server.url}/chats/{made[0]}")
    if held is not None:
        held.release()
    talk = Talk(page, server, made[0])
    expect(talk.rows.last).to_contain_text("I heard you.")
    talk.converges()
    page.goto(f"{server.url}/new")
    expect(field).to_have_value("")


FOLLOW = """(word) => {
    window.followed = { counts: [], tops: [] };
    const { counts, tops } = window.followed;
    const log = document.querySelector('[role="log"]');
    const look = () => {
        const found = [...log.querySelectorAll(".prompt-text")]
            .filter((each) => each.textContent.includes(word));
        if (counts.at(-1) !== found.length) counts.push(found.length);
        for (const each of found) {
            const top = each.getBoundingClientRect().top;
            if (tops.at(-1) !== top) tops.push(top);
        }
    };
    new MutationObserver(look).observe(log, { subtree: true, childList: true, attributes: true });
    const frame = () => { look(); requestAnimationFrame(frame); };
    frame();
}"""


def prompts(server: Server, chat: str) -> list[str]:
    messages = server.ask(f"/chats/{chat}/messages")["messages"]
    sent = [each["message"] for each in messages if each["message"]["kind"] == "prompt"]
    return [part["text"] for message in sent for part in message["parts"]]


# --- a network that is cut -----------------------------------------------------------------------


def test_messages_sent_while_the_page_was_offline_appear_when_it_is_back(
    open_page: Pages, server: Server, model: Model
) -> None:
    gate, last = model.gate(), model.gate()
    model.says(["Before the cut, ", gate, "during it, ", last, "after it."])
    talk = Talk.begin(open_page, server, "Keep talking")
    elsewhere = Talk.open(open_page, server, talk.id)
    open_page.watch(talk.page).allow("ERR_INTERNET_DISCONNECTED")
    expect(talk.live).to_contain_text("Before the cut,")
    talk.page.context.set_offline(True)
    expect(talk.tail).to_contain_text(LOST)
    gate.open()
    expect(elsewhere.live).to_contain_text("during it,")
    expect(talk.log).not_to_contain_text("during it,")
    talk.page.context.set_offline(False)
    expect(talk.live).to_contain_text("Before the cut, during it,")
    last.open()
    expect(talk.rows.last).to_contain_text("Before the cut, during it, after it.")
    talk.converges()


class Cut:
    """Web sockets of a page, which can be cut and kept from coming back."""

    def __init__(self, page: Page) -> None:
        self._open: list[WebSocketRoute] = []
        self._is_cut = False
        page.route_web_socket("**/stream*", self._opens)

    def _opens(self, socket: WebSocketRoute) -> None:
        if self._is_cut:
            socket.close()
            return
        socket.connect_to_server()
        self._open.append(socket)

    def cut(self) -> None:
        self._is_cut = True
        for socket in self._open:
            socket.close()
        self._open.clear()

    def mend(self) -> None:
        self._is_cut = False


def test_an_answer_that_ended_while_the_web_socket_was_broken_is_shown_whole(
    open_page: Pages, server: Server, model: Model
) -> None:
    gate = model.gate()
    model.says(["Half of it, ", gate, "and all of it."])
    chat = server.ask("/chats", {"prompt": "Speak"})["id"]
    elsewhere = Talk.open(open_page, server, chat)
    page = open_page(server)
    sockets = Cut(page)
    page.goto(f"{server.url}/chats/{chat}")
    talk = Talk(page, server, chat)
    expect(talk.live).to_contain_text("Half of it,")
    sockets.cut()
    expect(talk.tail).to_contain_text(LOST)
    gate.open()
    elsewhere.converges()
    expect(talk.live).to_have_text("Half of it,")
    sockets.mend()
    expect(talk.rows.last).to_contain_text("Half of it, and all of it.")
    talk.converges()


# --- the hand-over -------------------------------------------------------------------------------

PROBE = """(word) => {
    const log = document.querySelector('[role="log"]');
    const row = document.querySelector("[data-live]");
    const marked = [row, ...row.querySelectorAll("*")];
    const seen = { counts: new Set(), tops: new Set(), scrolls: new Set(), shifts: [] };
    const look = () => {
        seen.counts.add(log.textContent.split(word).length - 1);
        seen.tops.add(row.getBoundingClientRect().top);
        seen.scrolls.add(log.scrollTop);
    };
    new MutationObserver(look).observe(log, {
        subtree: true, childList: true, characterData: true, attributes: true,
    });
    const frame = () => { look(); requestAnimationFrame(frame); };
    frame();
    new PerformanceObserver((list) => {
        for (const shift of list.getEntries()) {
            for (const { node } of shift.sources) {
                if (log.contains(node)) seen.shifts.push(node.outerHTML ?? node.textContent);
            }
        }
    }).observe({ type: "layout-shift" });
    window.seen = () => ({
        counts: [...seen.counts], tops: [...seen.tops], scrolls: [...seen.scrolls],
        shifts: seen.shifts, replaced: marked.filter((each) => !each.isConnected).length,
        fresh: [...row.querySelectorAll(".markdown *")].filter((e) => !marked.includes(e)).length,
    });
}"""


@pytest.mark.parametrize("lines", [1, 60])
def test_an_answer_becomes_a_message_without_a_flicker(
    open_page: Pages, server: Server, model: Model, lines: int
) -> None:
    """What fits the screen, and what is followed at its end."""
    gate = model.gate()
    text = "\n\n".join(f"Line {number} of the answer." for number in range(lines))
    model.says([f"{text}\n\nIt ends with a *wombat* and `code`.", gate])
    talk = Talk.begin(open_page, server, "Speak")
    expect(talk.live).to_contain_text("wombat")
    wait_until_still(talk.page)
    talk.page.evaluate(PROBE, "wombat")
    gate.open()
    expect(talk.live).to_have_count(0)
    talk.rests()
    wait_until_still(talk.page)
    seen = talk.page.evaluate("seen()")
    assert seen["counts"] == [1]
    assert len(seen["tops"]) == 1, seen
    assert len(seen["scrolls"]) == 1, seen
    assert seen["shifts"] == []
    assert (seen["replaced"], seen["fresh"]) == (0, 0)


def test_a_call_keeps_its_place_from_its_first_argument_to_its_result(
    open_page: Pages, server: Server, model: Model
) -> None:
    gate = model.gate()
    command = "while [ ! -e wombat ]; do sleep 0.05; done"
    model.says(["I run it.", call("execute", command=command), gate], "It is there.")
    talk = Talk.begin(open_page, server, "Wait for it", "free")
    row = talk.call("execute")
    expect(row).to_contain_text("wombat")
    element = row.element_handle()
    wait_until_still(talk.page)
    talk.page.evaluate(PROBE, "I run it.")
    gate.open()
    expect(row).to_have_attribute("data-state", "running")
    (server.work / "wombat").touch()
    expect(row).to_have_attribute("data-state", "done")
    expect(talk.rows.last).to_contain_text("It is there.")
    assert element is not None
    assert element.evaluate("(element) => element.isConnected")
    seen = talk.page.evaluate("seen()")
    assert seen["counts"] == [1]
    assert len(seen["tops"]) == 1, seen
    talk.converges()


# --- a long history ------------------------------------------------------------------------------

LONG = 1_200


def long_history() -> Iterator[dict[str, Any]]:
    """A message and an answer, again and again, of different lengths."""
    for number in range(1, LONG + 1):
        role, kind = ("user", "prompt") if number % 2 else ("assistant", "answer")
        text = f"Message {number}. {'So it goes on. ' * (number % 7)}".strip()
        yield {"role": role, "kind": kind, "parts": [{"type": "text", "text": text}]}


TOPS = """() => {
    const log = document.querySelector('[role="log"]').getBoundingClientRect();
    return [...document.querySelectorAll("[data-row]")]
        .map((row) => [row.dataset.row, row.getBoundingClientRect()])
        .filter(([, place]) => place.bottom > log.top && place.top < log.bottom)
        .map(([row, place]) => [row, place.top]);
}"""

# After each painting: before one, the page may still move back what has moved. The browser's own
# `layout-shift` does not do: it reckons where a row was from where its group is now. A row that
# comes in front within the group is a shift of the others to it, and they stay where they are.
# Less than a pixel does not count: rows have heights in parts of one, and scrolling has none.
WATCH = """(before) => {
    window.moved = [];
    const look = () => {
        for (const [row, top] of before) {
            const place = document.querySelector(`[data-row="${row}"]`)?.getBoundingClientRect();
            if (!(Math.abs(place?.top - top) < 1)) window.moved.push([row, top, place?.top]);
        }
    };
    const painted = new MessageChannel();
    painted.port1.onmessage = look;
    const frame = () => { painted.port2.postMessage(null); requestAnimationFrame(frame); };
    frame();
}"""


def read_up(talk: Talk) -> None:
    """Go to the top, and wait for what comes in front of it."""
    count = talk.rows.count()
    talk.log.evaluate("(log) => { log.scrollTop = 0; }")
    expect(talk.rows).not_to_have_count(count)


@pytest.mark.parametrize("pages", [0, 1])
def test_a_long_chat_is_read_from_its_end_and_earlier_pages_move_nothing(
    open_page: Pages, server: Server, model: Model, pages: int
) -> None:
    """Whether much or little of a page belongs into the group of rows that is at the top."""
    talk = Talk.open(open_page, server, import_chat(server, long_history()))
    page = talk.page
    expect(talk.rows.last).to_be_in_viewport()
    expect(talk.rows.last).to_contain_text(f"Message {LONG}.")
    wait_until_still(page)
    assert talk.rows.count() < LONG / 4
    for _ in range(pages):
        read_up(talk)
    wait_until_still(page)
    reading = page.get_by_text("Loading earlier messages")
    expect(reading).to_have_count(0)
    held = HeldRequests(page, "**/messages?before=*")
    with page.expect_request("**/messages?before=*"):
        talk.log.evaluate("(log) => { log.scrollTop = 0; }")
    expect(reading).to_be_visible()
    wait_until_still(page)
    count = talk.rows.count()
    page.evaluate(WATCH, page.evaluate(TOPS))
    held.release()
    expect(talk.rows).not_to_have_count(count)
    wait_until_still(page)
    assert page.evaluate("moved") == []


LATE = """{
    const Real = window.IntersectionObserver;
    window.kept = [];
    window.IntersectionObserver = class extends Real {
        constructor(callback, options) {
            super((entries, self) => {
                if (options?.root == null) callback(entries, self);
                else window.kept.push({ callback, entries, self });
            }, options);
        }
    };
    const isTop = ({ target }) => target.dataset.more !== undefined;
    const has = (near) => ({ entries }) =>
        entries.some((one) => isTop(one) && one.isIntersecting === near);
    window.until = (near) => new Promise((done) => {
        const look = () => (kept.some(has(near)) ? done() : requestAnimationFrame(look));
        look();
    });
    window.deliver = () => {
        const all = Map.groupBy(window.kept.splice(0), ({ self }) => self);
        for (const [self, kept] of all) {
            kept[0].callback(kept.flatMap(({ entries }) => entries), self);
        }
    };
}"""
"""What a busy browser may do: say at once what came in sight, and what had not been before."""


def test_earlier_messages_load_when_the_top_came_near_before_the_observer_reported_it_far(
    open_page: Pages, server: Server
) -> None:
    page = open_page(server)
    page.context.add_init_script(LATE)
    chat = import_chat(server, long_history())
    page.goto(f"/chats/{chat}")
    talk = Talk(page, server, chat)
    expect(talk.rows.last).to_be_in_viewport()
    page.evaluate("until(false)")
    count = talk.rows.count()
    talk.log.evaluate("(log) => { log.scrollTop = 0; }")
    page.evaluate("until(true)")
    page.evaluate("deliver()")
    expect(talk.rows).not_to_have_count(count)


def test_reading_far_up_is_not_disturbed_by_an_answer_and_everything_can_be_read(
    open_page: Pages, server: Server, model: Model
) -> None:
    gate = model.gate()
    model.says(["A new answer " * 50, gate, "ends."])
    talk = Talk.open(open_page, server, import_chat(server, long_history()))
    page = talk.page
    expect(talk.rows.last).to_be_in_viewport()
    first = page.locator('[data-row="m1"]')
    while first.count() == 0:
        read_up(talk)
    talk.log.evaluate("(log) => { log.scrollTop = log.scrollHeight / 2; }")
    wait_until_still(page)
    page.evaluate(WATCH, page.evaluate(TOPS))
    server.ask(f"/chats/{talk.id}/messages", {"prompt": "Go on"})
    expect(talk.live).to_contain_text("A new answer")
    gate.open()
    talk.rests()
    wait_until_still(page)
    assert page.evaluate("moved") == []
    page.get_by_role("button", name="Jump to the newest, 2 new messages").click()
    expect(talk.rows.last).to_be_in_viewport()
    talk.converges()
