# The names of `holdfast` itself, and its namespaces. Type checkers read this file, and so does
# `__init__.py`, to import each name on first use: a name is added here and nowhere else.

from holdfast import (
    chats as chats,
)
from holdfast import (
    errors as errors,
)
from holdfast import (
    events as events,
)
from holdfast import (
    hooks as hooks,
)
from holdfast import (
    messages as messages,
)
from holdfast import (
    models as models,
)
from holdfast import (
    options as options,
)
from holdfast import (
    telemetry as telemetry,
)
from holdfast import (
    testing as testing,
)
from holdfast import (
    tools as tools,
)
from holdfast import (
    web as web,
)
from holdfast import (
    workspaces as workspaces,
)
from holdfast.agent import Agent as Agent
from holdfast.agent import approve as approve
from holdfast.blocking import SyncRun as SyncRun
from holdfast.chat.budgets import Budgets as Budgets
from holdfast.chat.handle import Chat as Chat
from holdfast.chat.host import Host as Host
from holdfast.client.connect import connect as connect
from holdfast.host import open as open
from holdfast.kernel.handoff import handoff as handoff
from holdfast.kernel.limits import Limits as Limits
from holdfast.kernel.result import RunResult as RunResult
from holdfast.kernel.run import Run as Run
from holdfast.kernel.tool import Tool as Tool
from holdfast.kernel.tool import ToolContext as ToolContext
from holdfast.kernel.tool import tool as tool
from holdfast.observe.instrument import instrument as instrument
from holdfast.providers.model_factory import model as model
from holdfast.server.asgi.application import asgi as asgi
from holdfast.serving import serve as serve
from holdfast.serving import serve_sync as serve_sync

__version__: str
