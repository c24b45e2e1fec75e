"""The page is opened for somebody who is there to see it, and the token stays with them."""

from __future__ import annotations

import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.browser import has_screen, redirect_file
from tests.cli.test_serve import HIDDEN, serving


@pytest.mark.parametrize(
    ("environ", "platform", "seen"),
    [
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "linux", False),
        ({"DISPLAY": ""}, "linux", False),
        ({}, "darwin", True),
        ({}, "win32", True),
        ({"DISPLAY": ":0", "CI": "true"}, "linux", False),
        ({"DISPLAY": "localhost:10.0", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, "linux", False),
        ({"SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, "darwin", False),
    ],
)
def test_a_browser_is_for_somebody_at_a_screen(
    environ: dict[str, str], platform: str, seen: bool
) -> None:
    assert has_screen(environ, platform) is seen


def test_the_file_that_leads_to_the_page_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "open.html"
    file.write_text("old")
    file.chmod(0o644)
    made = redirect_file("http://127.0.0.1:8765/#token=a&b", file)
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert 'content="0;url=http://127.0.0.1:8765/#token=a&amp;b"' in made.read_text()


def opened_by(home: Path, *arguments: str, **environ: str) -> str | None:
    """What a browser was called with by a server at a terminal; None when none was."""
    home.mkdir()
    called, browser = home / "called", home / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {called}.part && mv {called}.part {called}\n')
    browser.chmod(0o755)
    clean = {k: v for k, v in os.environ.items() if not any(part in k for part in HIDDEN)}
    for name in ("CI", "SSH_CONNECTION"):
        clean.pop(name, None)
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "serve", "--listen", "0", *arguments],
        cwd=home,
        env={
            **clean,
            "HOLDFAST_HOME": str(home / "data"),
            "DISPLAY": ":0",
            "BROWSER": f"{browser} %s &",
            **environ,
        },
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    try:
        assert child.stderr is not None
        assert any("Ctrl-C" in line for line in child.stderr)
        child.terminate()  # it ends when the browser was opened
        child.communicate(timeout=30)
        return called.read_text().strip() if called.exists() else None
    finally:
        child.kill()
        child.wait()
        os.close(ours)


def test_at_a_terminal_the_page_is_opened_without_showing_the_token(tmp_path: Path) -> None:
    home = tmp_path / "home"
    given = opened_by(home)
    assert given == (home / "data" / "open.html").as_uri()
    token = (home / "data" / "token").read_text().strip()
    assert f"/#token={token}" in (home / "data" / "open.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "environ"), [(["--no-open"], {}), ([], {"CI": "true"}), ([], {"DISPLAY": ""})]
)
def test_no_page_is_opened_that_nobody_wants_to_see(
    tmp_path: Path, arguments: list[str], environ: dict[str, str]
) -> None:
    home = tmp_path / "home"
    assert opened_by(home, *arguments, **environ) is None
    assert not (home / "data" / "open.html").exists()


def test_a_server_that_is_piped_opens_no_page(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "0", DISPLAY=":0", BROWSER="true %s &") as server:
        server.until("Ctrl-C")
        assert server.end() == 0
    assert not (tmp_path / "open.html").exists()
