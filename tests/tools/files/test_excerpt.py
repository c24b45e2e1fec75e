"""Some lines of a file that is too large to be held."""

from __future__ import annotations

import asyncio
import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.files import excerpt as module
from holdfast.tools.files.excerpt import Excerpt, part


class Held:
    """A file that is a text in memory."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._rest = io.BytesIO(data)

    async def read(self, most: int) -> bytes:
        return self._rest.read(most)

    async def close(self) -> None:
        pass


def read(data: bytes, first: int, count: int, until: float = math.inf) -> Excerpt:
    async def both() -> Excerpt:
        file = Held(data)
        return await part(file, first, count, until, await file.read(module.READ_SIZE))

    return asyncio.run(both())


@given(
    st.lists(st.text("ab€", max_size=4), max_size=12),
    st.booleans(),
    st.integers(1, 14),
    st.integers(1, 5),
    st.integers(1, 7),
)
def test_any_part_has_the_lines_that_were_asked_for(
    lines: list[str], ended: bool, first: int, count: int, chunk: int
) -> None:
    data = "\n".join(lines).encode() + (b"\n" if ended and lines else b"")
    whole = data.decode().removesuffix("\n").split("\n") if data else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "READ_SIZE", chunk)
        found = read(data, first, count)
    assert found.total == len(whole)
    assert found.lines == whole[first - 1 : first - 1 + count]


def test_of_a_line_without_an_end_only_the_beginning_is_kept() -> None:
    found = read(b"x" * (3 * module.READ_SIZE) + b"\nlast", 1, 2)
    assert [len(line) for line in found.lines] == [module.MAX_LINE_BYTES, 4]


def test_counting_stops_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_SIZE", 2)
    found = read(b"a\nb\nc\nd\n", 1, 1, until=0.0)
    assert found == Excerpt(["a"], 1, complete=False)
