"""Every test of the directory that tools work in fails when it leaves a descriptor open."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_descriptor_is_left() -> Iterator[None]:
    before = os.listdir("/dev/fd")
    yield
    assert set(os.listdir("/dev/fd")) <= set(before)  # of another test's, some may go meanwhile
