"""Opens the page in the user's browser."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Final

DISPLAY_VARIABLES: Final = ("DISPLAY", "WAYLAND_DISPLAY")
REMOTE_VARIABLES: Final = ("CI", "SSH_CONNECTION")
"""Variables set where the user's screen is not this machine's."""


def has_screen(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether the user at the terminal would see a browser."""
    if any(environ.get(name) for name in REMOTE_VARIABLES):
        return False
    return platform in ("darwin", "win32") or any(environ.get(name) for name in DISPLAY_VARIABLES)


def open_browser(url: str, directory: Path) -> bool:
    """Open the URL; returns whether there was a browser. May take a moment.

    The URL contains a credential, and command lines are visible to all users of the machine. So the
    browser is given a file that only this user can read, which redirects there.
    """
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    if type(browser) is webbrowser.GenericBrowser:  # it would take over this terminal
        return False
    return browser.open(redirect_file(url, directory / "open.html").as_uri())


def redirect_file(url: str, file: Path) -> Path:
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    there = escape(url)
    with os.fdopen(descriptor, "w", encoding="utf-8") as output:
        output.write(
            f'<!doctype html><meta charset="utf-8"><title>Holdfast</title>'
            f'<meta http-equiv="refresh" content="0;url={there}"><a href="{there}">Holdfast</a>\n'
        )
    return file
