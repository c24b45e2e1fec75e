"""Parts of browser tests: a server, a model that waits for the test, and watched pages.

The server is the real command in its own process, so that it can be killed. The model behind it is
a provider in this process: it outlives the server, and sends each piece when the test allows it.

    model.says(["Hello ", gate := model.gate(), "world"])
    gate.reached()
    server.kill()
    server.start()

Time is real. A test waits for what it expects to see (`expect` of playwright), never for time.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    Route,
    ViewportSize,
    WebError,
    expect,
)

from holdfast.kernel.title_request import TITLE_INSTRUCTIONS
from holdfast.testing import FakeProvider, ScriptItem, say
from holdfast.testing.fake.dialect_interface import ReceivedRequest

ROOT: Final = Path(__file__).resolve().parents[2]
AXE: Final = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"
HIDDEN: Final = ("_API_KEY", "_BASE_URL", "_HOST", "_TOKEN", "HOLDFAST_")
HOLDFAST: Final = (sys.executable, "-m", "holdfast")
DESK: Final = ViewportSize(width=1280, height=800)
PHONE: Final = ViewportSize(width=390, height=844)
TIMEOUT: Final = 30.0
"""Seconds after which waiting for something fails."""


# --- the model -----------------------------------------------------------------------------------


class Gate:
    """A point in a model's answer where it waits for the test."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._opened = asyncio.Event()
        self._reached = threading.Event()

    async def __call__(self, _: object) -> None:
        self._reached.set()
        await self._opened.wait()

    def reached(self) -> None:
        """Wait until the model is here."""
        assert self._reached.wait(TIMEOUT), "the model was not asked, or did not get there"

    def open(self) -> None:
        self._loop.call_soon_threadsafe(self._opened.set)


class Model:
    """A model that gives the planned answers in order. Requests for titles do not count."""

    title = "A scripted chat"

    def __init__(self) -> None:
        self._turns: deque[ScriptItem] = deque()
        self._taken = threading.Condition()
        self.unplanned: list[str] = []
        """Requests without a planned answer."""
        self.asked: list[ReceivedRequest] = []
        """The requests so far, without those for titles: a title is requested when a chat is idle,
        which may be after its test, and would shift the indexes."""
        self.provider = FakeProvider("anthropic", default=self._turn)
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()

    def says(self, *turns: ScriptItem) -> None:
        """Plan answers, each as a script has them: `holdfast.testing`."""
        self._turns.extend(turns)

    def gate(self) -> Gate:
        return Gate(self._loop)

    def _turn(self, received: ReceivedRequest) -> ScriptItem:
        if TITLE_INSTRUCTIONS[:40] in received.body.decode():
            return say(self.title)
        self.asked.append(received)
        if not self._turns:
            self.unplanned.append(received.body.decode()[-500:])
            return say("Nothing was planned.")
        with self._taken:
            self._taken.notify_all()
            return self._turns.popleft()

    def is_spent(self) -> None:
        """Wait until all planned answers were requested: a page may show enough before that."""
        with self._taken:
            self._taken.wait_for(lambda: not self._turns, TIMEOUT)

    @contextmanager
    def serving(self) -> Iterator[Model]:
        ready = threading.Event()

        async def serve() -> None:
            async with self.provider.serve() as self.url:
                ready.set()
                await self._stop.wait()

        def run() -> None:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(serve())

        thread = threading.Thread(target=run, name="model")
        thread.start()
        try:
            assert ready.wait(TIMEOUT)
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._stop.set)
            thread.join(TIMEOUT)


# --- the server ----------------------------------------------------------------------------------


class Server:
    """`holdfast serve` with its own directory and port, which stay the same after a restart."""

    def __init__(self, home: Path, model: Model | None = None, settings: str = "") -> None:
        """Without a model the demo answers. `settings`: content of holdfast.toml."""
        self.data, self.work = home / "data", home / "work"
        self.work.mkdir(parents=True)
        (self.work / "holdfast.toml").write_text(settings)
        self.log_lines: list[str] = []
        self.outages = 0
        """Number of times the server was stopped."""
        self.url = f"http://127.0.0.1:{free_port()}"
        self._model = model
        self._child: subprocess.Popen[str] | None = None
        self._reading: threading.Thread | None = None

    @property
    def token(self) -> str:
        return (self.data / "token").read_text().strip()

    @property
    def is_up(self) -> bool:
        return self._child is not None

    def start(self) -> None:
        self._child = subprocess.Popen(
            [*HOLDFAST, "serve", "--listen", self.url.rpartition(":")[2]],
            cwd=self.work,
            env=self._environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        serves = threading.Event()
        self._reading = threading.Thread(target=self._read, args=(self._child, serves))
        self._reading.start()
        assert serves.wait(TIMEOUT), f"it does not serve: {self.log_lines}"
        assert self._child.poll() is None, f"it ended: {self.log_lines}"

    def run(self, *arguments: str) -> str:
        """The output of another verb of the command, with the same data directory."""
        command = [*HOLDFAST, *arguments]
        done = subprocess.run(
            command,
            cwd=self.work,
            env=self._environ(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def _environ(self) -> dict[str, str]:
        environ = {k: v for k, v in os.environ.items() if not any(part in k for part in HIDDEN)}
        environ["HOLDFAST_HOME"] = str(self.data)
        environ["HOLDFAST_CONFIG"] = str(self.work / "holdfast.toml")
        if self._model is not None:
            environ |= {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": self._model.url}
        return environ

    def _read(self, child: subprocess.Popen[str], serves: threading.Event) -> None:
        assert child.stderr is not None
        for line in child.stderr:
            self.log_lines.append(line.rstrip())
            if "Press Ctrl-C" in line:
                serves.set()
        serves.set()

    def ask(
        self, path: str, body: Any = None, method: str | None = None, token: str | None = None
    ) -> Any:
        """The API's response to a request of the owner, or of the user of `token`."""
        headers = {
            "Authorization": f"Bearer {token or self.token}",
            "Content-Type": "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            return json.loads(response.read() or b"null")

    def kill(self) -> None:
        """Kill the server as a power failure does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the server as Ctrl-C does."""
        self._end(signal.SIGTERM)

    def _end(self, how: int) -> None:
        if self._child is None:
            return
        self.outages += 1
        self._child.send_signal(how)
        try:
            self._child.wait(TIMEOUT)
        finally:
            self._child.kill()
            self._child.wait()
            assert self._reading is not None
            self._reading.join(TIMEOUT)
            assert self._child.stderr is not None
            self._child.stderr.close()
            self._child = None


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


# --- the page ------------------------------------------------------------------------------------


class Watch:
    """Records requests, console messages and errors of a window, and reports unexpected ones."""

    OUTAGE: Final = re.compile(r"net::ERR_|WebSocket connection to .* failed|status of 50[234]")
    """What Chromium logs when a server is unreachable."""
    UNKNOWN: Final = re.compile(r"Failed to load resource: .* status of 401")
    """What Chromium logs for requests before the sign-in."""

    def __init__(self, context: BrowserContext, server: Server) -> None:
        self._server = server
        self._allowed = [self.UNKNOWN]
        self._asked_for: set[str] = set()
        self._wrong: list[tuple[str, str]] = []
        self.requests: list[str] = []
        context.on("request", self._requested)
        context.on("console", self._wrote)
        context.on("weberror", self._raised)

    def allow(self, pattern: str) -> None:
        """Allow console messages that match."""
        self._allowed.append(re.compile(pattern))

    def forget(self) -> None:
        """Drop the problems recorded so far: the test expected them."""
        self._wrong.clear()

    def allow_request(self, url: str) -> None:
        """Allow a request to another host. A tab that cannot connect repeats it."""
        self._asked_for.add(url)

    def _requested(self, request: Request) -> None:
        self.requests.append(request.url)
        parts = urlsplit(request.url)
        inside = parts.scheme in ("data", "blob")
        if not inside and f"{parts.scheme}://{parts.netloc}" != self._server.url:
            self._wrong.append(("a request left the origin", request.url))

    def _wrote(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._wrong.append((f"console {message.type}", message.text))

    def _raised(self, error: WebError) -> None:
        self._wrong.append(("an uncaught error", str(error.error)))

    def wrong(self) -> list[str]:
        """The unexpected problems so far."""
        allowed = [*self._allowed, *([self.OUTAGE] if self._server.outages else [])]
        return [
            f"{what}: {text}"
            for what, text in self._wrong
            if text not in self._asked_for
            and not (what.startswith("console") and any(one.search(text) for one in allowed))
        ]


class Pages:
    """Browser windows with pages of a server, and a `Watch` for each."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._windows: dict[BrowserContext, Watch] = {}

    def __call__(
        self,
        server: Server,
        path: str = "/",
        *,
        signed_in: bool = True,
        token: str | None = None,
        beside: Page | None = None,
        viewport: ViewportSize = DESK,
        **window: Any,
    ) -> Page:
        """A page in a window of its own, or in a new tab beside another one.

        `token`: of another user than the owner of the server.
        """
        if beside is not None:
            page = beside.context.new_page()
        else:
            page = self._window(server, viewport=viewport, **window).new_page()
        if not signed_in or beside is not None:
            page.goto(f"{server.url}{path}")
            return page
        with page.expect_response("**/api/v1/session") as answer:
            page.goto(f"{server.url}{path}#token={token or server.token}")
        assert answer.value.status == 201  # from here on there is a cookie
        return page

    def blank(self, server: Server, viewport: ViewportSize = DESK, **window: Any) -> Page:
        """An empty page in a signed-in window, for a test that navigates itself."""
        made = self._window(server, viewport=viewport, **window)
        answer = made.request.post("/api/v1/session", data={"token": server.token})
        assert answer.status == 201
        key = answer.json()["key"]  # which the page itself would keep
        keep = f"localStorage['holdfast.session-key'] ??= '{key}'"
        made.add_init_script(f"if (location.origin === '{server.url}') {keep}")
        return made.new_page()

    def _window(self, server: Server, **window: Any) -> BrowserContext:
        made = self._browser.new_context(base_url=server.url, **window)
        self._windows[made] = Watch(made, server)
        return made

    def watch(self, page: Page) -> Watch:
        return self._windows[page.context]

    def wrong(self) -> list[str]:
        return [wrong for watch in self._windows.values() for wrong in watch.wrong()]

    def show(self, directory: Path) -> None:
        """Save screenshots of the pages, to investigate a failure."""
        for number, page in enumerate(page for window in self._windows for page in window.pages):
            picture = directory / f"page-{number}.png"
            page.screenshot(path=picture)
            print(f"{page.url} as it was: {picture}")

    def close(self) -> None:
        for window in self._windows:
            window.close()


def axe(page: Page, *rules: str) -> list[str]:
    """The violations that axe finds in the page: rule, element and finding.

    `rules`: only these rules.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text("utf-8"))
    # What it would fetch anew before it looks is for rules about films and sound: there are none.
    options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
    options |= {"runOnly": rules} if rules else {}
    found: Any = page.evaluate("(options) => axe.run(document, options)", options)
    return [
        f"{one['id']} ({one['impact']}): {', '.join(map(str, node['target']))}: "
        + "; ".join(check["message"] for check in node["any"] + node["all"] + node["none"])
        for one in found["violations"]
        for node in one["nodes"]
    ]


# --- a conversation ------------------------------------------------------------------------------


@contextmanager
def scripted(home: Path, settings: str = "") -> Iterator[tuple[Model, Server]]:
    """A model and a server that many tests share, each with its own chats."""
    with Model().serving() as model:
        server = Server(home, model, settings)
        server.start()
        try:
            yield model, server
        finally:
            server.kill()


@contextmanager
def one_test(model: Model, server: Server) -> Iterator[Server]:
    """Model and server of `scripted`, reset before a test and checked after it."""
    model.asked.clear()
    model.unplanned.clear()
    if not server.is_up:
        server.start()
    for asked in server.ask("/actions")["actions"]:
        server.ask(f"/chats/{asked['chat_id']}/interrupt", method="POST")
    yield server
    left, unplanned = list(model._turns), list(model.unplanned)
    model._turns.clear()
    assert unplanned == [], "the model was asked for more than was planned"
    assert left == [], "the model was asked for less than was planned"


def messages_of(model: Model, number: int) -> str:
    """The messages of a request to the model, as text."""
    return str(model.asked[number].json["messages"])


class Talk:
    """A chat that is open in a page: what a user does there, and what the user sees."""

    SHOWN: Final = """() => [...document.querySelectorAll("[data-row]")].map((row) => {
        const { row: key, kind } = row.dataset;
        if (kind === "prompt") {
            const words = [...row.querySelectorAll(".prompt-text")];
            return [key, kind, ...words.map((each) => each.textContent)];
        }
        if (kind !== "answer") return [key, kind];
        const items = [...row.querySelectorAll(".answer > *")].flatMap((item) => {
            if (item.matches(".markdown")) return [item.textContent];
            if (item.matches(".reasoning")) return ["reasoning"];
            return item.matches(".call") ? [`${item.dataset.tool} ${item.dataset.state}`] : [];
        });
        return [key, kind, ...items];
    })"""

    def __init__(self, page: Page, server: Server, id: str) -> None:
        self.page, self.server, self.id = page, server, id

    @classmethod
    def begin(
        cls, pages: Pages, server: Server, prompt: str | None = None, agent: str | None = None
    ) -> Talk:
        """Create a chat and open it in its own window."""
        made = server.ask("/chats", {"prompt": prompt, "agent": agent})
        return cls.open(pages, server, made["id"])

    @classmethod
    def open(cls, pages: Pages, server: Server, id: str, beside: Page | None = None) -> Talk:
        talk = cls(pages(server, f"/chats/{id}", beside=beside), server, id)
        expect(talk.log).to_have_attribute("aria-busy", "false")
        return talk

    @property
    def log(self) -> Locator:
        return self.page.get_by_role("log", name="Conversation")

    @property
    def field(self) -> Locator:
        return self.page.get_by_role("textbox", name="Message", exact=True)

    @property
    def rows(self) -> Locator:
        return self.page.locator("[data-row]")

    @property
    def live(self) -> Locator:
        """The row of the streaming answer."""
        return self.page.locator("[data-live]")

    @property
    def tail(self) -> Locator:
        """The chat's status banner."""
        return self.page.locator(".tail")

    def call(self, tool: str) -> Locator:
        return self.page.locator(f'.call[data-tool="{tool}"]')

    def send(self, text: str, keys: str = "Enter") -> None:
        self.field.fill(text)
        self.field.press(keys)

    def rests(self) -> None:
        """Wait until the page shows an idle chat without unsent messages."""
        expect(self.page.locator(".tail-quiet, .banner, [data-unsent], [data-live]")).to_have_count(
            0
        )

    def converges(self) -> None:
        """The chat is idle, and the page shows exactly the stored messages, in order."""
        self.rests()
        assert self.server.ask(f"/chats/{self.id}")["status"] == "idle"
        self.agrees()

    def agrees(self) -> None:
        stored = stored_rows(self.server, self.id)
        expect(self.rows).to_have_count(len(stored))
        assert self.page.evaluate(self.SHOWN) == stored


STILL: Final = """() => new Promise((resolve) => {
    let before = "", same = 0;
    const look = () => {
        const rows = [...document.querySelectorAll("[data-row]")];
        const now = rows.map((row) => row.getBoundingClientRect().top).join();
        same = now === before ? same + 1 : 0;
        before = now;
        if (same === 10) resolve();
        else requestAnimationFrame(look);
    };
    look();
})"""


def wait_until_still(page: Page) -> None:
    """Wait until nothing moves: parts out of sight are measured only when they come near."""
    page.evaluate(STILL)


def stored_rows(server: Server, chat: str) -> list[list[str]]:
    """The expected rows of a chat, from its messages in the API."""
    messages: list[Any] = []
    before = ""
    while True:
        page = server.ask(f"/chats/{chat}/messages?limit=200{before}")
        messages = [*page["messages"], *messages]
        if page["next"] is None:
            break
        before = f"&before={page['next']}"
    outcomes = {
        part["call_id"]: part.get("outcome", "ok")
        for each in messages
        for part in each["message"]["parts"]
        if part["type"] == "result"
    }
    return [
        [f"m{each['number']}", each["message"]["kind"], *_pieces(each["message"], outcomes)]
        for before, each in zip([None, *messages], messages, strict=False)
        if _is_shown(each["message"], before and before["message"])
    ]


def _is_shown(message: Any, before: Any) -> bool:
    kind: str = message["kind"]
    if kind == "note" and before is not None and before["kind"] == "checkpoint":
        return False  # shown in the row of the checkpoint
    if kind == "results":
        return False  # shown with their calls
    return kind == "checkpoint" or str(message.get("visibility")) != "model"


def _pieces(message: Any, outcomes: dict[str, str]) -> Iterator[str]:
    if message["kind"] not in ("prompt", "answer"):
        return
    for part in message["parts"]:
        if part["type"] == "text":
            yield part["text"]
        elif part["type"] == "reasoning":
            yield "reasoning"
        elif part["type"] == "call":
            outcome = outcomes[part["id"]]
            yield f"{part['tool']} {'done' if outcome == 'ok' else outcome}"


def import_chat(server: Server, messages: Iterable[Mapping[str, Any]]) -> str:
    """Import a chat with these messages, and return its id."""
    chat = server.ask("/chats", {"title": "From elsewhere"})["id"]
    lines: list[Any] = [{"type": "chat", "format": 1, "chat": server.ask(f"/chats/{chat}")}]
    for number, message in enumerate(messages, 1):
        about = {"number": number, "revision": 1, "created_at": number, "author": None}
        stored = {**about, "superseded_at": None, "message": message}
        lines.append({"type": "message", "message": stored})
    request = urllib.request.Request(
        f"{server.url}/api/v1/chats/import",
        "\n".join(map(json.dumps, lines)).encode(),
        {"Authorization": f"Bearer {server.token}", "Content-Type": "application/x-ndjson"},
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        made: str = json.loads(response.read())["id"]
    return made


class HeldRequests:
    """Requests of a page that are held until the test releases them."""

    def __init__(self, page: Page, pattern: str) -> None:
        self._page, self._pattern = page, pattern
        self._routes: list[Route] = []
        page.route(pattern, lambda route: self._routes.append(route))

    def release(self) -> None:
        for route in self._routes:
            route.continue_()
        self._page.unroute(self._pattern)
