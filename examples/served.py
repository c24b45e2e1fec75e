"""An agent of your own behind a server: an API, a web page, and chats that survive a restart.

    holdfast serve examples.served:agent
    python examples/served.py

It prints a URL to open. Ask the demo model to `call refund order=7 amount=12`: the call waits for
your approval, and a refund over 100 is denied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import holdfast
from holdfast import Agent, tool
from holdfast.hooks import Context, Deny
from holdfast.messages import ToolCall


@tool(effect="once", approval="ask")
def refund(order: int, amount: int) -> str:
    """Refund an order. A person approves it, and it is never silently repeated."""
    return f"refunded {amount} for order {order}"


def gate(context: Context, called: ToolCall, arguments: Mapping[str, Any]) -> Deny | None:
    """Deny what no person should have to look at."""
    if called.tool == "refund" and arguments["amount"] > 100:
        return Deny("refunds over 100 need a ticket")
    return None


agent = Agent(
    name="support",
    description="Refunds orders.",
    model="demo",
    tools=[refund],
    gate=gate,
    instructions="You answer customers of a shop. Be brief.",
)


if __name__ == "__main__":
    asyncio.run(holdfast.serve(agent))
