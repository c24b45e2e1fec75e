"""A split screen with keys that a test types, and a terminal that a test reads."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from holdfast.cli.screen import SplitScreen
from tests.cli.person import Glass

WIDTH = 80
ROUNDS = 20
"""Of the event loop: enough for keys to arrive and for what follows to be drawn."""


class Terminal:
    """What a person has before them."""

    def __init__(self, pipe: PipeInput, **more: Any) -> None:
        self._pipe = pipe
        self.width = WIDTH
        self.written = io.StringIO(newline="")
        output = Vt100_Output(self.written, lambda: Size(24, self.width), term="xterm")
        output.enable_cpr = False
        self.screen = SplitScreen(pipe, output, **more)
        self.screen._app.max_render_postpone_time = None  # or it waits for a loop without work

    async def types(self, *keys: str) -> None:
        for key in keys:
            self._pipe.send_text(key)
            await self.settles()

    async def settles(self) -> None:
        for _ in range(ROUNDS):
            await asyncio.sleep(0)

    async def shows(self) -> str:
        await self.settles()
        glass = Glass(self.width)
        glass.feed(self.written.getvalue())
        return str(glass)


@asynccontextmanager
async def typing_at(**more: Any) -> AsyncIterator[Terminal]:
    with create_pipe_input() as pipe:
        terminal = Terminal(pipe, **more)
        async with terminal.screen.open():
            await terminal.settles()
            yield terminal
