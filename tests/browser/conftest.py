"""Fixtures: a browser per test process, a model and a server per module, pages per test."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser import chromium as installed
from tests.browser.harness import Model, Pages, Server, one_test, scripted

FAILED: pytest.StashKey[bool] = pytest.StashKey()


@pytest.fixture(scope="session")
def _launched() -> Iterator[tuple[Browser, asyncio.AbstractEventLoop]]:
    path = installed.find()
    if path is None:
        if installed.required():
            pytest.fail(installed.MISSING, pytrace=False)
        pytest.skip(installed.MISSING)
    expect.set_options(timeout=15_000)
    with sync_playwright() as playwright:
        only_here = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
        made = playwright.chromium.launch(executable_path=path, args=[only_here])
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield made, loop
        asyncio._set_running_loop(loop)
        made.close()


@pytest.fixture(autouse=True)
def browser(_launched: tuple[Browser, asyncio.AbstractEventLoop]) -> Iterator[Browser]:
    """Sets playwright's event loop as the running one during browser tests only."""
    made, loop = _launched
    asyncio._set_running_loop(loop)
    yield made
    asyncio._set_running_loop(None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(scope="module")
def scripted_pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Model, Server]]:
    """The model and the server of a module, with its SETTINGS."""
    home = tmp_path_factory.mktemp(request.module.__name__.rpartition(".")[2]) / "home"
    with scripted(home, getattr(request.module, "SETTINGS", "")) as both:
        yield both


@pytest.fixture
def model(scripted_pair: tuple[Model, Server]) -> Model:
    return scripted_pair[0]


@pytest.fixture
def server(scripted_pair: tuple[Model, Server], request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server whose model gives the answers that the test plans."""
    start = len(scripted_pair[1].log_lines)
    with one_test(*scripted_pair) as server:
        yield server
        if not request.node.stash.get(FAILED, False):
            scripted_pair[0].is_spent()
        print(*server.log_lines[start:], sep="\n")  # shown with a test that failed


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Server]:
    """A server with the demo model, for one test."""
    server = Server(tmp_path / "home")
    server.start()
    yield server
    server.kill()
    print(*server.log_lines, sep="\n")


@pytest.fixture
def open_page(browser: Browser, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pages]:
    """Opens pages: `open_page(server, "/settings")`."""
    pages = Pages(browser)
    yield pages
    if request.node.stash.get(FAILED, False):
        pages.show(tmp_path)
    pages.close()
    assert pages.wrong() == []


@pytest.fixture
def page(open_page: Pages, server: Server) -> Page:
    """The start page, signed in."""
    return open_page(server)
