"""Hand-off: another agent continues the conversation, with its instructions, tools and model.

The hand-off is committed together with the result of the call: in the history as a note, in a
durable chat in its row, too. From the next step on, the other agent continues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Union

from holdfast.kernel.errors import ConfigError, ExpectedFailure
from holdfast.kernel.messages import Message, Text
from holdfast.kernel.tool import Commit, HandOff, Tool, ToolContext

if TYPE_CHECKING:
    from holdfast.agent import Agent

OWNER: Final = "holdfast"
"""Name under which the metadata of a note has the agent."""


def handoff(
    to: Union[Sequence[Union[Agent[Any, Any], str]], Mapping[str, str]],
    *,
    name: str = "handoff",
    description: str | None = None,
    limit: int = 5,
) -> Tool:
    """A tool by which the model hands the conversation over to another agent.

    `to` has the agents, or the names of agents that other agents of the run or the host bring; as
    a mapping, with their descriptions for the model.
    `limit` is the maximum number of hand-offs in one turn, so that agents cannot pass a question
    back and forth for ever.
    """
    agents = _targets(to)
    if limit < 1:
        raise ConfigError(f"limit is {limit}: use at least 1")

    async def hand_over(context: ToolContext, agent: str, message: str = "") -> Commit:
        if agent == context.agent:
            raise ExpectedFailure(f"you are {agent}: answer the user yourself")
        if handoffs_in_turn(context.history) >= limit:
            raise ExpectedFailure(
                f"the conversation was handed over {limit} times since the user's last message: "
                "answer the user yourself"
            )
        note = f" {message}" if message else ""
        return Commit(f"{agent} continues the conversation.{note}", (HandOff(agent),))

    tool = Tool(
        name=name,
        description=description or _description(agents, to if isinstance(to, Mapping) else {}),
        function=hand_over,
        schema=_schema(tuple(agents)),
        effect="commit",
        exclusive=True,
    )
    tool.agents, tool.hands_off = MappingProxyType(agents), True
    return tool


def _targets(to: Any) -> dict[str, Agent[Any, Any] | None]:
    if isinstance(to, str) or not isinstance(to, Sequence | Mapping) or not to:
        raise ConfigError(f"to is {to!r:.80}: use a list of agents or of their names")
    agents: dict[str, Agent[Any, Any] | None] = {}
    for one in to:
        if not (isinstance(one, str) or hasattr(one, "toolset")):
            raise ConfigError(f"to has {one!r:.80}: use agents, or their names")
        name = one if isinstance(one, str) else one.name
        if name in agents:
            raise ConfigError(f"to has two agents named {name!r}: set another name=…")
        agents[name] = None if isinstance(one, str) else one
    return agents


def _description(
    agents: Mapping[str, Agent[Any, Any] | None], descriptions: Mapping[str, str]
) -> str:
    texts = {
        name: descriptions.get(name) if agent is None else agent.description
        for name, agent in agents.items()
    }
    lines = [f"- {name}: {text}" if text else f"- {name}" for name, text in texts.items()]
    return "\n".join(
        [
            "Hand the conversation over to another agent, which then answers the user instead of "
            "you. It reads the whole conversation. The agents:",
            *lines,
        ]
    )


def _schema(names: Sequence[str]) -> dict[str, Any]:
    about = "What the other agent should know beyond the conversation"
    return {
        "type": "object",
        "properties": {
            "agent": {"enum": list(names), "description": "Which agent continues"},
            "message": {"type": "string", "description": about},
        },
        "required": ["agent"],
        "additionalProperties": False,
    }


# --- In the history -----------------------------------------------------------------------------


def handover_note(agent: str) -> Message:
    """The note, for people and for later runs, that another agent continues."""
    text = Text(f"{agent} continues the conversation.")
    return Message("system", (text,), "note", "user", metadata={OWNER: {"agent": agent}})


def handed_to(message: Message) -> str | None:
    """The agent that continues after this message; None for every message but such a note."""
    if message.kind != "note" or message.metadata is None:
        return None
    own = message.metadata.get(OWNER)
    agent = own.get("agent") if isinstance(own, Mapping) else None
    return agent if isinstance(agent, str) else None


def agent_after(history: Sequence[Message]) -> str | None:
    """The agent to which the conversation was last handed over; None if it never was."""
    return next(filter(None, map(handed_to, reversed(history))), None)


def handoffs_in_turn(history: Sequence[Message]) -> int:
    """Number of hand-offs since the user's last message."""
    count = 0
    for message in reversed(history):
        if message.kind == "prompt":
            break
        count += handed_to(message) is not None
    return count
