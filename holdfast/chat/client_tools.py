"""Tools that a client declares for one chat, and runs itself by answering actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from holdfast.agent import Agent
from holdfast.chat.errors import InvalidInput
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.messages import encode
from holdfast.kernel.tool import Tool

MAX_TOOLS: Final = 64
"""Maximum number of client tools of one chat."""
MAX_BYTES: Final = 64 * 1024
"""Maximum size of all client tools of one chat, as JSON."""


class ClientTool(Struct, frozen=True, omit_defaults=True):
    """A tool that a client declares for one chat. Each call becomes an action of kind `client`."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON schema of the arguments."""
    timeout: float | None = None
    """Seconds that a call waits for its result; None for no limit."""

    def tool(self) -> Tool:
        """The tool as an agent has it. Raises `ConfigError`."""
        return Tool(
            name=self.name,
            description=self.description,
            schema=self.schema,
            timeout=self.timeout,
        )


def agent_with(agent: Agent, client_tools: Sequence[ClientTool]) -> Agent:
    """The agent of a chat with these client tools.

    A tool of the agent takes precedence over one of its name. That happens only if the agent got it
    later: `check_client_tools` refuses a name that the agent has.
    """
    tools = [tool.tool() for tool in client_tools if tool.name not in agent.toolset]
    return agent.replace(tools=(*agent.tools, *tools)) if tools else agent


def check_client_tools(agent: Agent, client_tools: Sequence[ClientTool]) -> tuple[ClientTool, ...]:
    """The client tools of a chat of this agent. Raises `InvalidInput`."""
    if isinstance(client_tools, (str, bytes, Mapping)) or not isinstance(client_tools, Sequence):
        raise InvalidInput(f"client_tools is {client_tools!r:.80}: use a list of ClientTool(…)")
    for tool in client_tools:
        if not isinstance(tool, ClientTool):
            raise InvalidInput(f"client_tools has {tool!r:.80}: use ClientTool(…)")
        if tool.name in agent.toolset:
            raise InvalidInput(f"{agent.name} has a tool {tool.name!r} already: use another name")
    if len(client_tools) > MAX_TOOLS:
        raise InvalidInput(
            f"{len(client_tools)} client tools are too many: use at most {MAX_TOOLS}"
        )
    try:
        agent.replace(tools=(*agent.tools, *(tool.tool() for tool in client_tools)))
    except ConfigError as error:
        raise InvalidInput(f"client_tools: {error}") from None
    size = len(encode(client_tools))
    if size > MAX_BYTES:
        raise InvalidInput(f"the client tools have {size} bytes as JSON: use at most {MAX_BYTES}")
    return tuple(client_tools)
