"""A model that works through a turn of thousands of steps, and counts tokens as a provider does."""

from __future__ import annotations

from typing import Any, Final

from holdfast import Tool, tool
from holdfast.kernel.model import Request
from holdfast.kernel.model_context import estimate_all
from holdfast.kernel.summary_checkpoint import SUMMARY_INSTRUCTIONS, SUMMARY_SECTIONS
from holdfast.options import ContextLimits, Policy
from holdfast.testing import ScriptedModel, call, usage

WINDOW: Final = 32_000
RESULT: Final = "word " * 720
"""About 900 tokens, and too short to be trimmed."""
SUMMARY: Final = "\n".join(f"## {section}\nSome." for section in SUMMARY_SECTIONS)


def asks_for_summary(request: Request) -> bool:
    return any(block.text == SUMMARY_INSTRUCTIONS for block in request.system)


class LongTurn:
    """Calls `look` as often as it is told, then says that it is done."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.sizes: list[int] = []
        """Tokens of each request for an answer."""
        self.lengths: list[int] = []
        """Messages of each request for an answer."""
        self.summaries = 0

    def model(self) -> ScriptedModel:
        return ScriptedModel(default=self._turn, window=WINDOW)

    def _turn(self, request: Request) -> Any:
        if asks_for_summary(request):
            self.summaries += 1
            return SUMMARY
        size = estimate_all(request.messages)
        self.sizes.append(size)
        self.lengths.append(len(request.messages))
        self.left -= 1
        return ["Done." if self.left < 0 else call("look"), usage(input=size, output=5)]


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return RESULT


TOOLS: Final[tuple[Tool, ...]] = (look,)
POLICY: Final = Policy(context=ContextLimits())
