"""Nothing that a model, a tool or a person says can do anything in the page but be read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

import pytest
from playwright.sync_api import Dialog, Page, expect

from holdfast.testing import call, call_raw, say, source, think
from tests.browser.harness import ROOT, Model, Pages, Server, Talk, import_chat

CORPUS: Final[list[str]] = json.loads((ROOT / "ui/src/timeline/xss.json").read_text("utf-8"))
SETTINGS: Final = '[agents.free]\napproval = "never"\n'
GUARD: Final = """(() => {
    const own = location.origin;
    const bad = window.__bad = [];
    const never = "script, iframe, frame, object, embed, style, base, link, meta, template, video,"
        + " audio, marquee, math, form";
    const urls = ["href", "src", "action", "formaction", "xlink:href", "srcdoc", "data", "srcset"];
    const look = (one) => {
        const inHead = one.closest("head, .card, .dialog, .search") !== null;
        if (!inHead && one.matches(never)) bad.push(one.outerHTML.slice(0, 300));
        for (const { name, value } of one.attributes) {
            const url = urls.includes(name) ? value.replace(/[\\u0000-\\u0020]/g, "") : "";
            const isBad = /^(javascript|vbscript|data:text|data:image.svg|blob|file)/i.test(url);
            const isShown = one.matches("img, image, use, source");
            const isRemote = isShown && /^(https?:)?\\/\\//.test(url) && !url.startsWith(own);
            if (name.startsWith("on") || isBad || isRemote)
                bad.push(`${name}: ${one.outerHTML.slice(0, 300)}`);
        }
    };
    const deep = (node) => {
        if (!(node instanceof Element)) return;
        look(node);
        for (const one of node.querySelectorAll("*")) look(one);
    };
    new MutationObserver((records) => {
        for (const { type, target, addedNodes } of records)
            if (type === "attributes") look(target);
            else for (const node of addedNodes) deep(node);
    }).observe(document, { subtree: true, childList: true, attributes: true });
})()"""
"""Looks at every element and attribute that is ever there, however short."""


class Guarded:
    """A page in which nothing may happen."""

    def __init__(self, pages: Pages, server: Server, chat: str) -> None:
        self.page = pages(server)
        self.dialogs: list[str] = []
        self.page.on("dialog", self._dialog)
        self.page.context.add_init_script(GUARD)
        self.page.goto(f"/chats/{chat}")
        self.talk = Talk(self.page, server, chat)
        expect(self.talk.log).to_have_attribute("aria-busy", "false")

    def _dialog(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def nothing_happened(self) -> None:
        assert self.page.evaluate("window.__bad") == []
        assert self.page.evaluate("typeof window.__xss") == "undefined"
        assert self.dialogs == []
        assert len(self.page.context.pages) == 1

    def unfold(self) -> None:
        for _ in range(3):
            closed = '[role="log"] button[aria-expanded="false"]'
            self.page.evaluate(
                f"() => document.querySelectorAll('{closed}').forEach((one) => one.click())"
            )


def chat_of(server: Server, messages: Iterable[list[dict[str, Any]]], kind: str = "answer") -> str:
    """A chat in which each of these is a message."""
    role = "assistant" if kind == "answer" else "user"
    return import_chat(server, ({"role": role, "kind": kind, "parts": parts} for parts in messages))


def texts(messages: list[str]) -> list[list[dict[str, Any]]]:
    return [[{"type": "text", "text": each}] for each in messages]


def test_the_corpus_has_enough_payloads() -> None:
    assert len(set(CORPUS)) >= 40


@pytest.mark.parametrize("kind", ["answer", "prompt"])
def test_no_stored_message_runs_script_or_creates_unsafe_elements(
    open_page: Pages, server: Server, kind: str
) -> None:
    guarded = Guarded(open_page, server, chat_of(server, texts(CORPUS), kind))
    expect(guarded.talk.rows).to_have_count(len(CORPUS))
    guarded.talk.log.evaluate("(log) => { log.scrollTop = 0; }")
    expect(guarded.talk.rows.first).to_be_in_viewport()
    for link in guarded.page.get_by_text("press", exact=True).all():
        link.dispatch_event("mouseover")
    guarded.nothing_happened()


def test_no_followable_link_of_the_corpus_runs_script(open_page: Pages, server: Server) -> None:
    guarded = Guarded(open_page, server, chat_of(server, texts(CORPUS)))
    found = guarded.page.evaluate(
        """() => [...document.querySelectorAll('[role="log"] a')].map((one) => (
            [one.protocol, one.target, one.rel]))"""
    )
    for protocol, target, rel in found:
        assert protocol in ("http:", "https:", "mailto:")
        assert target == "_blank"
        assert "noopener" in rel
    guarded.nothing_happened()


def test_no_streaming_answer_runs_script_or_creates_unsafe_elements(
    open_page: Pages, server: Server, model: Model
) -> None:
    """Cut anywhere: half of a mark is another mark than the whole."""
    begins = model.gate()
    text = "\n\n".join(CORPUS)
    pieces = [text[at : at + 9] for at in range(0, len(text), 9)]
    thought = [text[at : at + 31] for at in range(0, len(text), 31)]
    model.says([begins, think("\n\n".join(CORPUS[:9]), chunks=len(thought)), *pieces, "\n\nDone."])
    chat = server.ask("/chats", {"prompt": "Do your worst", "agent": "free"})["id"]
    begins.reached()
    guarded = Guarded(open_page, server, chat)
    begins.open()
    expect(guarded.talk.rows.last).to_contain_text("Done.")
    guarded.talk.rests()
    guarded.unfold()
    guarded.nothing_happened()


def test_tool_names_arguments_and_output_are_only_text(
    open_page: Pages, server: Server, model: Model
) -> None:
    payloads = "\n".join(f"\x1b[1;3{n % 8}m{one}\x1b[0m" for n, one in enumerate(CORPUS))
    links = "\x1b]8;;javascript:window.__xss=1\x1b\\press\x1b]8;;\x1b\\\n"
    (server.work / "out.txt").write_text(links + payloads)
    name = "out<img src=x onerror=window.__xss=1>.txt"
    (server.work / name).write_text(payloads)
    image = "<img src=x onerror=window.__xss=2>"
    model.says(
        [
            call("execute", command="cat out.txt"),
            call("read_file", path=name),
            call("search_files", pattern="onerror"),
            call("list_files"),
            call("read_file", path=image),
            call("write_file", path="new<svg onload=window.__xss=3>.html", content=payloads),
            call(image, given=CORPUS),
            call_raw("execute", f'{{"command": "{image}'),
            call("execute", command=f"echo '{image}' # {image}"),
            source("javascript:window.__xss=4", image),
        ],
        "That was all.",
    )
    chat = server.ask("/chats", {"prompt": "Try all", "agent": "free"})["id"]
    guarded = Guarded(open_page, server, chat)
    expect(guarded.talk.rows.last).to_contain_text("That was all.")
    guarded.unfold()
    expect(guarded.talk.call("execute").first).to_contain_text("press")
    expect(guarded.talk.call("execute").first).to_contain_text(CORPUS[-2][:20])
    expect(guarded.talk.call("execute").first.locator(".ansi-red-fg")).not_to_have_count(0)
    guarded.nothing_happened()


def test_titles_file_names_and_search_results_are_only_text(
    open_page: Pages, server: Server
) -> None:
    image = "<img src=x onerror=window.__xss=1>"
    name = f"{image}.png"
    files = {"type": "file", "media_type": "image/svg+xml", "name": name, "data": "PHN2Zy8+"}
    parts = [[{"type": "text", "text": f"A wombat {image} wombat"}, files]]
    chat = chat_of(server, parts, "prompt")
    server.ask(f"/chats/{chat}", {"title": f"A quokka {image}"}, "PATCH")
    guarded = Guarded(open_page, server, chat)
    page = guarded.page
    expect(page.get_by_role("heading", name=image)).to_be_visible()
    expect(guarded.talk.log).to_contain_text(name)
    for word in ("wombat", "quokka"):
        page.keyboard.press("Control+k")
        page.get_by_role("combobox").fill(word)
        expect(page.get_by_role("option").filter(has_text=image)).not_to_have_count(0)
        expect(page.locator("mark").filter(has_text=word)).not_to_have_count(0)
        page.keyboard.press("Escape")
    page.get_by_role("button", name="More actions for this chat").click()
    page.get_by_role("menuitem", name="Delete").click()
    expect(page.get_by_role("dialog", name=image)).to_be_visible()
    guarded.nothing_happened()


def test_a_remote_image_is_fetched_only_on_request_and_in_another_tab(
    open_page: Pages, server: Server
) -> None:
    chat = chat_of(server, texts(["![a map](https://pictures.example/map.png)"]))
    guarded = Guarded(open_page, server, chat)
    button = guarded.page.get_by_role("button", name="Load picture from pictures.example")
    expect(button).to_contain_text("a map")
    expect(guarded.talk.log.locator("img")).to_have_count(0)
    assert open_page.wrong() == []
    open_page.watch(guarded.page).allow_request("https://pictures.example/map.png")
    opened(guarded.page, button.click, "https://pictures.example/map.png")


def test_a_link_opens_in_a_tab_without_access_to_this_one(open_page: Pages, server: Server) -> None:
    chat = chat_of(server, texts(["Look [there](https://link.example/page)."]))
    guarded = Guarded(open_page, server, chat)
    link = guarded.page.get_by_role("link", name="there")
    expect(link).to_have_attribute("rel", re.compile("noopener"))
    open_page.watch(guarded.page).allow_request("https://link.example/page")
    opened(guarded.page, link.click, "https://link.example/page")


def opened(page: Page, press: Any, url: str) -> None:
    with page.context.expect_event("request", lambda request: request.url == url) as asked:
        press()
    assert asked.value.is_navigation_request()
    assert "referer" not in asked.value.headers
    assert "/chats/" in page.url


def test_a_source_link_can_be_followed(open_page: Pages, server: Server, model: Model) -> None:
    model.says([say("See there."), source("https://link.example/a", "A page")])
    chat = server.ask("/chats", {"prompt": "Look", "agent": "free"})["id"]
    guarded = Guarded(open_page, server, chat)
    expect(guarded.page.get_by_role("link", name="A page")).to_have_attribute("target", "_blank")
    guarded.nothing_happened()


def test_a_table_uses_the_width_of_the_text_before_it_scrolls(
    open_page: Pages, server: Server
) -> None:
    words = "several words that may as well go over two lines"
    table = f"| a | b | c |\n|---|---|---|\n| {words} | {words} | {words} |"
    wide = "|" + " averylongword |" * 20
    rule = "|" + "---|" * 20
    chat = chat_of(server, texts([table, f"{wide}\n{rule}\n{wide}"]))
    talk = Talk.open(open_page, server, chat)
    scrolls = "(each) => each.scrollWidth > each.clientWidth"
    tables = talk.log.locator(".markdown-table")
    expect(tables).to_have_count(2)
    assert [each.evaluate(scrolls) for each in tables.all()] == [False, True]
