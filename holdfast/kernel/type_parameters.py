"""Type parameters of agents, runs, contexts and tools, with their defaults."""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 13):
    from typing import TypeVar
else:  # the standard library has no defaults of type parameters yet
    from typing_extensions import TypeVar

DepsT = TypeVar("DepsT", contravariant=True, default=None)
"""Type of the deps that an agent takes."""
OutputT = TypeVar("OutputT", covariant=True, default=str)
"""Type of the final answer of an agent or a run."""
ChatOutputT = TypeVar("ChatOutputT", covariant=True, default=Any)
"""Type of the final answers of a durable chat; Any if only the name of its agent is known."""
NewChatOutputT = TypeVar("NewChatOutputT", default=Any)
"""The same, of the chat that a method of a host returns."""
ContextDepsT = TypeVar("ContextDepsT", covariant=True, default=object)
"""Type of the deps that a context has. A hook that does not use them fits every agent."""
HookDepsT = TypeVar("HookDepsT", default=Any)
"""Type of the deps in the context that a hook is called with."""
CheckedT = TypeVar("CheckedT", default=Any)
"""Type of the answer that a check is called with."""
FunctionT = TypeVar("FunctionT", covariant=True, default=Any)
"""Type of a tool's function."""
