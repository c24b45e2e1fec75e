"""Measures the web page with a long chat and a long answer: main-thread time per frame.

A chat of 5,000 messages is imported and scrolled to its beginning. Then a model writes 60 kB into
it, at two speeds; the goal is for the first. The floor is a handwritten page that appends the same
text at the same speed, as unformatted paragraphs after the same messages. The tasks of the main
thread are taken from the browser's trace, by CPU time, and summed per frame.
"""

from __future__ import annotations

import gzip
import json
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, expect, sync_playwright

from holdfast.server.static_files import BUILT
from holdfast.testing import pause
from tests.browser import chromium
from tests.browser.harness import Model, Pages, Server, Talk, import_chat, scripted

MESSAGES: Final = 5_000
LENGTH: Final = 60_000
PIECE: Final = 40
FAST: Final = 0.02
"""Seconds between two pieces: about 500 tokens a second, faster than nearly all models."""
FASTEST: Final = 0.005
"""Seconds between two pieces at four times that speed."""
GOAL: Final = 16.0
"""Goal for the 95th percentile in milliseconds: sixty frames per second."""
GOAL_START: Final = 250
"""Goal for the compressed size in kilobytes of what the page needs to start."""
PAGE: Final = BUILT
CATEGORIES: Final = ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline.frame"]
TEXT: Final = """A paragraph with *emphasis*, **more of it**, `code` and [a link](https://example.org/).

- one thing
- another thing with `code`

```python
def greet(name: str) -> str:
    return f"Hello, {name}!"
```

| name | size |
|:-----|-----:|
| `a.txt` | 12 |

> A quotation that is a little longer than the others, so that it takes more than a line.

"""


def history(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        is_answer = number % 2 == 1
        said = TEXT if is_answer else f"Question {number}: what is in the files?"
        yield {
            "role": "assistant" if is_answer else "user",
            "kind": "answer" if is_answer else "prompt",
            "parts": [{"type": "text", "text": said.strip()}],
        }


def read_all(talk: Talk, count: int) -> None:
    """Scroll up to the first message, page by page."""
    first = talk.page.locator('[data-row="m1"]')
    while first.count() == 0:
        shown = talk.rows.count()
        talk.log.evaluate("(log) => { log.scrollTop = 0; }")
        expect(talk.rows).not_to_have_count(shown, timeout=60_000)
    expect(talk.rows).to_have_count(count)
    talk.log.evaluate("(log) => { log.scrollTop = log.scrollHeight; }")


def frames_of(browser: Browser, home: Path, messages: int, length: int, pace: float) -> list[float]:
    """Main-thread time in milliseconds of each frame while an answer is written."""
    with scripted(home) as (model, server):
        pages = Pages(browser)
        talk = Talk.open(pages, server, import_chat(server, history(messages)))
        read_all(talk, messages)
        try:
            return work_of(traced(browser, talk, model, server, length, pace))
        finally:
            pages.close()


def pieces_of(length: int) -> list[str]:
    whole = (TEXT * (length // len(TEXT) + 1))[:length]
    return [whole[at : at + PIECE] for at in range(0, length, PIECE)]


def traced(
    browser: Browser, talk: Talk, model: Model, server: Server, length: int, pace: float
) -> list[Any]:
    gate = model.gate()
    model.says([gate, *([piece, pause(pace)] for piece in pieces_of(length)), "\n\nThe end."])
    server.ask(f"/chats/{talk.id}/messages", {"prompt": "Write"})
    gate.reached()
    browser.start_tracing(page=talk.page, categories=CATEGORIES)
    gate.open()
    # Poll the server, not the page: examining 5,000 rows would be work of the same thread.
    while server.ask(f"/chats/{talk.id}")["status"] != "idle":
        time.sleep(0.1)
    events: list[Any] = json.loads(browser.stop_tracing())["traceEvents"]
    expect(talk.rows.last).to_contain_text("The end.", timeout=60_000)
    return events


def floor_frames(browser: Browser, messages: int, length: int, pace: float) -> list[float]:
    """The same for a page that only shows the text and scrolls to its end."""
    page = browser.new_page()
    rows = [row["parts"][0]["text"] for row in history(messages)]
    page.set_content(FLOOR)
    page.evaluate("show", rows)
    browser.start_tracing(page=page, categories=CATEGORIES)
    page.evaluate("([pieces, pace]) => write(pieces, pace)", [pieces_of(length), pace * 1000])
    events: list[Any] = json.loads(browser.stop_tracing())["traceEvents"]
    page.close()
    return work_of(events)


FLOOR: Final = """<!doctype html>
<style>
    main { height: 100vh; overflow-y: auto; font: 16px sans-serif; }
    section { content-visibility: auto; contain-intrinsic-block-size: auto 4000px; }
    p { width: 46rem; margin: 12px auto; white-space: pre-wrap; }
</style>
<main></main>
<script>
    const main = document.querySelector("main");
    let box, last;
    const paragraph = () => { last = document.createElement("p"); box.append(last); };
    const begin = () => { box = document.createElement("section"); main.append(box); };
    function show(rows) {
        for (const [at, row] of rows.entries()) {
            if (at % 40 === 0) begin();
            for (const text of row.split("\\n\\n")) { paragraph(); last.textContent = text; }
        }
        begin();
        paragraph();
    }
    let isAsked = false;
    function follow() { isAsked = false; main.scrollTop = main.scrollHeight; }
    function add(piece) {
        const [first, ...others] = piece.split("\\n\\n");
        last.append(first);
        for (const text of others) { paragraph(); last.append(text); }
        if (!isAsked) requestAnimationFrame(follow);
        isAsked = true;
    }
    function write(pieces, pace) {
        return new Promise((resolve) => {
            const timer = setInterval(() => {
                const piece = pieces.shift();
                if (piece !== undefined) add(piece);
                else { clearInterval(timer); resolve(); }
            }, pace);
        });
    }
</script>"""


def work_of(events: list[Any]) -> list[float]:
    """Main-thread time of each frame since the previous one."""
    frames = [event for event in events if event["name"] == "BeginMainThreadFrame"]
    threads = [(event["pid"], event["tid"]) for event in frames]
    busiest = max(set(threads), key=threads.count)
    ours = [event for event in events if (event["pid"], event["tid"]) == busiest]
    starts = sorted(event["ts"] for event in frames if (event["pid"], event["tid"]) == busiest)
    tasks = sorted(
        (event["ts"], event.get("tdur", event["dur"]) / 1000)
        for event in ours
        if event["name"] == "ThreadControllerImpl::RunTask" and event["ph"] == "X"
    )
    return list(gathered(starts, tasks))


def gathered(starts: list[float], tasks: list[tuple[float, float]]) -> Iterator[float]:
    at = 0
    for end in starts[1:]:
        work = 0.0
        while at < len(tasks) and tasks[at][0] < end:
            work += tasks[at][1]
            at += 1
        yield work


def p95(work: list[float]) -> float:
    return sorted(work)[int(len(work) * 0.95)]


def start_size() -> float:
    """Compressed size in kilobytes of what the page needs before it shows anything."""
    html = (PAGE / "index.html").read_text("utf-8")
    named = re.findall(r'(?:src|href)="/(assets/[^"]+\.(?:js|css))"', html)
    assert named, "the page is not built: python ui/build.py"
    return sum(len(gzip.compress((PAGE / name).read_bytes(), 9)) for name in named) / 1000


def main() -> None:
    path = chromium.find()
    if path is None:
        raise SystemExit(chromium.MISSING)
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        expect.set_options(timeout=30_000)
        for pace in (FAST, FASTEST):
            floor = floor_frames(browser, MESSAGES, LENGTH, pace)
            work = frames_of(browser, Path(home) / f"home-{pace}", MESSAGES, LENGTH, pace)
            row = {"characters_per_second": PIECE / pace, "frames": len(work)}
            row |= {"p50": sorted(work)[len(work) // 2], "p95": p95(work), "max": max(work)}
            row["floor"] = p95(floor)
            print(json.dumps({**row, "goal": GOAL} if pace == FAST else row), flush=True)
        browser.close()
    print(json.dumps({"kilobytes": start_size(), "goal": GOAL_START}))


if __name__ == "__main__":
    main()
