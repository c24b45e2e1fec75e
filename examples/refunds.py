"""An agent with deps, a typed output, a call that a person approves, and limits.

    python examples/refunds.py
    holdfast serve examples.refunds:agent --deps examples.refunds:shop

The first runs it in this process; the second serves it with an API and a web page.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from holdfast import Agent, Limits, ToolContext, approve, tool
from holdfast.hooks import ChatInfo


@dataclass
class Shop:
    customer: str
    ledger: Path


@dataclass
class Decision:
    order: int
    refunded: int


@tool(effect="once", approval="ask")
def refund(context: ToolContext[Shop], order: int, amount: int) -> str:
    """Refund an order."""
    with context.deps.ledger.open("a") as ledger:
        ledger.write(f"{context.deps.customer}: {amount} for order {order}\n")
    return f"refunded {amount}"


def shop(chat: ChatInfo) -> Shop:
    return Shop(chat.owner or "ann", Path(os.environ.get("LEDGER", "ledger.txt")))


agent = Agent(
    "openai:gpt-5-mini",
    name="refunds",
    instructions="You decide about refunds.",
    deps_type=Shop,
    output=Decision,
    tools=[refund],
    limits=Limits(steps=10),
)

if __name__ == "__main__":
    deps = shop(ChatInfo(agent="refunds"))
    result = agent.run_sync("Refund 12 euros of order 7.", deps=deps)
    answers = {action.call.id: approve(action) for action in result.actions}
    result = agent.run_sync(history=result.history, resolve=answers, deps=deps)
    print(f"Refunded {result.output.refunded} euros of order {result.output.order}.")
