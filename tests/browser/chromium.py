"""The browser that tests use: one that is installed, or Debian's, which is installed where it may.

python -m tests.browser.chromium
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGES: Final = ("chromium", "fonts-dejavu-core")
"""Without any font there is nothing to see."""
INSTALL: Final = f"apt-get install --no-install-recommends {' '.join(PACKAGES)}"
MISSING: Final = f"no Chromium on PATH: {INSTALL}, or name one in CHROMIUM"
REQUIRED: Final = "HOLDFAST_TEST_BROWSER"
"""Set to `required`, a browser that is missing is a failure. So it is where CI is set."""


def find() -> str | None:
    if named := os.environ.get("CHROMIUM"):
        return shutil.which(named)
    return next(filter(None, map(shutil.which, NAMES)), None)


def required() -> bool:
    return os.environ.get(REQUIRED) == "required" or bool(os.environ.get("CI"))


def main() -> int:
    if find() is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        print(INSTALL, flush=True)
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], env=quiet, check=False)
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES]
        subprocess.run(command, env=quiet, stdout=subprocess.DEVNULL, check=False)
    if find() is not None:
        return 0
    if required():
        print(f"the tests in a browser cannot run: {MISSING}", file=sys.stderr)
        return 1
    print(f"the tests in a browser are skipped: {MISSING}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
