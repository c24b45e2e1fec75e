"""The page's files: what a browser is sent, what it may do with it, and what nobody gets."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from aiohttp import web
from yarl import URL

from holdfast.server.app import problems
from holdfast.server.identity.origin_check import origin_checker, secured
from holdfast.server.static_files import Asset, encoding_for, serve_page
from tests.server.api import listening, session

HTML: Final = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
SCRIPT: Final = b"console.log('hello')" * 50
INDEX: Final = '<!doctype html><script type="module" src="/assets/main-1.js"></script>'


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str]


class Browser:
    def __init__(self, url: str) -> None:
        self.url = url

    async def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        async with session() as client:
            url = URL(self.url + path, encoded=True)
            async with client.request(method, url, headers=sent) as response:
                return Answer(response.status, await response.read(), response.headers)


@asynccontextmanager
async def page(directory: Path) -> AsyncIterator[Browser]:
    """With its front, and a route of the API."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"ok": True})

    app = web.Application(middlewares=[problems])
    app.router.add_get("/api/v1/chats", answer)
    app.router.add_get("/healthz", answer)
    serve_page(app, directory)
    app.middlewares.append(origin_checker(None))
    app.on_response_prepare.append(secured(False))
    async with listening(app) as url:
        yield Browser(url)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    directory = tmp_path / "page"
    (directory / "assets").mkdir(parents=True)
    (directory / "index.html").write_text(INDEX)
    (directory / "icon.svg").write_text("<svg/>")
    (directory / "assets/main-1.js").write_bytes(SCRIPT)
    (directory / "assets/main-1.js.gz").write_bytes(gzip.compress(SCRIPT))
    (directory / "assets/main-1.js.br").write_bytes(b"as brotli has it")
    (tmp_path / "secret").write_text("secret")
    return directory


@pytest.mark.parametrize("path", ["/", "/index.html", "/chats/c1", "/settings/providers", "/a.b"])
async def test_every_place_in_the_page_is_the_page(built: Path, path: str) -> None:
    async with page(built) as browser:
        answer = await browser.ask(path, **HTML)
        assert answer.status == 200
        assert answer.body.decode() == INDEX
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize(
    "path", ["/api", "/api/v1/nothing", "/internal/nothing", "/assets", "/assets/gone-2.js"]
)
async def test_what_is_not_there_is_no_place_in_the_page(built: Path, path: str) -> None:
    async with page(built) as browser:
        answer = await browser.ask(path, **HTML)
        assert answer.status == 404
        assert answer.headers["Content-Type"].startswith("application/problem+json")


async def test_a_program_is_told_that_there_is_nothing(built: Path) -> None:
    async with page(built) as browser:
        assert (await browser.ask("/chats/c1", Accept="application/json")).status == 404
        assert (await browser.ask("/chats/c1", "POST", **HTML)).status == 404


async def test_the_api_is_where_it_was(built: Path) -> None:
    async with page(built) as browser:
        for path in ("/api/v1/chats", "/healthz"):
            assert (await browser.ask(path, **HTML)).body == b'{"ok": true}'


async def test_the_page_may_load_its_own_files_alone(built: Path) -> None:
    async with page(built) as browser:
        headers = (await browser.ask("/", **HTML)).headers
        allowed = dict(
            rule.strip().split(" ", 1) for rule in headers["Content-Security-Policy"].split(";")
        )
        assert allowed == {
            "default-src": "'self'",
            "script-src": "'self'",
            "style-src": "'self'",
            "connect-src": "'self'",
            "img-src": "'self' data: blob:",
            "object-src": "'none'",
            "base-uri": "'none'",
            "form-action": "'self'",
            "frame-ancestors": "'none'",
        }
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"


async def test_a_browser_that_has_the_page_is_sent_no_body_but_the_same_rules(built: Path) -> None:
    async with page(built) as browser:
        first = await browser.ask("/", **HTML)
        again = await browser.ask("/", **HTML, If_None_Match=first.headers["ETag"])
        assert (again.status, again.body) == (304, b"")
        same = ("Content-Security-Policy", "Cache-Control", "ETag")
        assert [again.headers[name] for name in same] == [first.headers[name] for name in same]
        changed = await browser.ask("/", **HTML, If_None_Match='"another"')
        assert (changed.status, changed.body) == (200, first.body)


async def test_an_asset_is_kept_for_good(built: Path) -> None:
    async with page(built) as browser:
        answer = await browser.ask("/assets/main-1.js", Accept_Encoding="identity")
        assert (answer.status, answer.body) == (200, SCRIPT)
        assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert answer.headers["Vary"] == "Accept-Encoding"


async def test_an_asset_is_sent_as_packed_as_the_browser_takes_it(built: Path) -> None:
    async with page(built) as browser:
        small = await browser.ask("/assets/main-1.js", Accept_Encoding="gzip, deflate")
        assert small.headers["Content-Encoding"] == "gzip"
        assert small.headers["Content-Type"] == "text/javascript; charset=utf-8"
        assert gzip.decompress(small.body) == SCRIPT
        best = await browser.ask("/assets/main-1.js", Accept_Encoding="gzip, br")
        assert (best.headers["Content-Encoding"], best.body) == ("br", b"as brotli has it")
        assert (await browser.ask("/assets/main-1.js.gz", **HTML)).status == 404


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("", None),
        ("identity", None),
        ("gzip", "gzip"),
        ("GZIP;q=0.5", "gzip"),
        ("gzip;q=0", None),
        ("br; q=0.0, gzip; q=1.0", "gzip"),
        ("deflate, gzip, br, zstd", "br"),
    ],
)
def test_an_encoding_is_one_that_was_asked_for(accepted: str, encoding: str | None) -> None:
    asset = Asset("/assets/x.js", b"", "", {"br": b"", "gzip": b""}, "")
    assert encoding_for(accepted, asset) == encoding


@pytest.mark.parametrize("path", ["/", "/chats/c1", "/assets/main-1.js", "/icon.svg"])
async def test_asking_for_the_head_gives_the_head(built: Path, path: str) -> None:
    async with page(built) as browser:
        whole, head = await browser.ask(path, **HTML), await browser.ask(path, "HEAD", **HTML)
        assert (head.status, head.body) == (200, b"")
        assert head.headers["Content-Length"] == str(len(whole.body))
        assert head.headers["Content-Type"] == whole.headers["Content-Type"]


@pytest.mark.parametrize(
    "path",
    [
        "/../secret",
        "/assets/../../secret",
        "/assets/..%2f..%2fsecret",
        "/%2e%2e/secret",
        "/assets/%2e%2e/%2e%2e/secret",
        "//secret",
        "/assets/main-1.js%00",
    ],
)
async def test_no_path_leads_out_of_the_directory(built: Path, path: str) -> None:
    async with page(built) as browser:
        for accept in ("text/html", "*/*"):
            assert b"secret" not in (await browser.ask(path, Accept=accept)).body[:6]


async def test_a_file_that_comes_later_is_not_served(built: Path) -> None:
    async with page(built) as browser:
        (built / "assets/late-3.js").write_text("late")
        (built / "index.html").write_text("later")
        assert (await browser.ask("/assets/late-3.js")).status == 404
        assert (await browser.ask("/", **HTML)).body.decode() == INDEX


@pytest.mark.parametrize("path", ["/", "/chats/c1", "/assets/main-1.js"])
async def test_the_page_is_for_those_alone_who_ask_by_the_servers_name(
    built: Path, path: str
) -> None:
    async with page(built) as browser:
        answer = await browser.ask(path, **HTML, Host="evil.example")
        assert answer.status == 421
        assert INDEX.encode() not in answer.body


@pytest.mark.parametrize("path", ["/", "/chats/c1"])
async def test_without_the_built_files_it_says_how_to_build_them(tmp_path: Path, path: str) -> None:
    async with page(tmp_path / "none") as browser:
        html = await browser.ask(path, **HTML)
        assert (html.status, html.headers["Content-Type"]) == (503, "text/html; charset=utf-8")
        assert b"make run" in html.body
        assert b"<h1>" in html.body
        text = await browser.ask("/", Accept="*/*")
        assert (text.status, text.headers["Content-Type"]) == (503, "text/plain; charset=utf-8")
        assert b"make run" in text.body
        assert (await browser.ask("/api/v1/chats")).status == 200
