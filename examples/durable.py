"""A chat that survives `kill -9`.

    python examples/durable.py invoices.db

Kill it at any moment and start it again: it resumes where it was. No customer is charged twice: a
charge that the kill interrupted may or may not have happened, so it is not run again, and the model
is told that its outcome is unknown.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import holdfast
from holdfast import Agent, tool
from holdfast.events import LiveDelta, MessageChanged, TextDelta, ToolStarted

WORK = "call charge customer=ann amount=3, then call charge customer=bob amount=4, then say done"


async def main(path: str) -> None:
    ledger = Path(f"{path}.ledger")

    @tool(effect="once")
    def charge(customer: str, amount: int) -> str:
        """Charge a customer. Takes a while, and must not happen twice."""
        with ledger.open("a") as lines:
            lines.write(f"{customer} {amount}\n")
        time.sleep(1)
        return f"charged {customer} {amount}"

    agent = Agent(model="demo", tools=[charge])
    async with holdfast.open(f"sqlite:///{path}", agents=[agent]) as host:
        # The same key returns the same chat: a second start resumes the chat of the first.
        chat = await host.create(WORK, key="invoices of May")
        async for event in chat.stream():
            match event:
                case LiveDelta(fragment=TextDelta(text)):
                    print(text, end="", flush=True)
                case LiveDelta(fragment=ToolStarted(label=label)):
                    print(f"\n[{label} starts]", flush=True)
                case MessageChanged(message=stored):
                    for result in stored.message.results:
                        print(f"[{result.tool}: {result.outcome}]\n", flush=True)
        ended = await chat.rest()
        print(f"\n[the chat is idle: {ended.reason}]")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "invoices.db"))
