"""Implements `holdfast worker`: the process of `holdfast serve`, without the API."""

from __future__ import annotations

from holdfast.cli import serve
from holdfast.config import ServeOptions


def main(options: ServeOptions) -> int:
    return serve.main(options)
