"""Holdfast: a durable agent loop for Python."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Looked up on first use: importing holdfast costs nothing until something of it is needed.
_HOMES = {
    "holdfast.agent": ("Agent", "approve"),
    "holdfast.chat.errors": (
        "ChatArchived",
        "ChatError",
        "ChatNotFound",
        "Corrupt",
        "FamilyBusy",
        "InvalidInput",
        "KeyReused",
        "MessageNotFound",
        "NotAPrompt",
        "NotARoot",
        "NotArchived",
        "NothingToCompact",
        "NothingWaits",
        "QueueFull",
        "QueuedNotFound",
        "Stranded",
        "TitleFailed",
        "TooDeep",
        "TransitionNotAllowed",
        "WrongAnswer",
        "WrongOrder",
    ),
    "holdfast.chat.handle": ("Chat",),
    "holdfast.chat.host": ("Host",),
    "holdfast.chat.queries": ("Spent",),
    "holdfast.chat.rows": ("Queued", "Rule", "Status", "Stored"),
    "holdfast.chat.stream": (
        "ActionsChanged",
        "ChatChanged",
        "ChatStream",
        "Cursor",
        "LiveDelta",
        "MessageChanged",
        "QueueChanged",
        "Reset",
        "StreamEvent",
        "Superseded",
    ),
    "holdfast.chat.snapshots": ("ChatResult", "Pending", "Receipt", "Revision", "Snapshot"),
    "holdfast.client.chat": ("RemoteChat",),
    "holdfast.client.connect": ("connect",),
    "holdfast.client.errors": ("NotHoldfast", "RemoteError", "Unreachable"),
    "holdfast.client.host": ("RemoteHost",),
    "holdfast.host": ("open",),
    "holdfast.kernel.decide": ("Approved",),
    "holdfast.kernel.errors": (
        "ConfigError",
        "ExpectedFailure",
        "Failure",
        "FormatError",
        "HoldfastError",
        "InvalidOutput",
        "ProviderError",
        "ToolFailed",
    ),
    "holdfast.kernel.events": (
        "Action",
        "Compacted",
        "Compacting",
        "Delivered",
        "Event",
        "MessageCommitted",
        "Retrying",
        "RunEnded",
        "RunStarted",
        "StepStarted",
        "Summary",
        "ToolCalled",
        "ToolFinished",
        "ToolProgressed",
        "ToolStarted",
        "Warned",
    ),
    "holdfast.kernel.fallback": ("Fallback",),
    "holdfast.kernel.stop_guard": ("Escalate", "Inject", "Stopping"),
    "holdfast.kernel.result": ("RunFailed", "RunOver", "RunResult"),
    "holdfast.kernel.messages": (
        "File",
        "Message",
        "Reasoning",
        "Source",
        "Text",
        "ToolCall",
        "ToolResult",
        "Usage",
        "dump",
        "load",
    ),
    "holdfast.kernel.model": (
        "ArgumentsDelta",
        "Block",
        "CallEnded",
        "CallStarted",
        "Delta",
        "Finished",
        "Model",
        "Notice",
        "Opened",
        "PartAdded",
        "PartEnded",
        "Ping",
        "ProviderTool",
        "ReasoningDelta",
        "Request",
        "Settings",
        "Shape",
        "TextDelta",
        "ToolSpec",
    ),
    "holdfast.kernel.policy": (
        "Calls",
        "Context",
        "Policy",
        "Retry",
        "Stream",
        "Wording",
    ),
    "holdfast.kernel.ports": ("Ports",),
    "holdfast.kernel.run": ("Run",),
    "holdfast.kernel.tool": ("Allow", "Deny", "Rewrite", "Tool", "ToolContext", "tool"),
    "holdfast.live.fragments": ("Omitted",),
    "holdfast.providers.anthropic": ("Anthropic",),
    "holdfast.providers.google": ("Google",),
    "holdfast.providers.openai_chat": ("OpenAIChat",),
    "holdfast.providers.openai_responses": ("OpenAIResponses",),
    "holdfast.providers.profile": ("Price", "Profile"),
    "holdfast.providers.registry": ("model", "unusable_providers", "usable_providers"),
    "holdfast.server.chat_list_stream": ("ChatDeleted", "ChatListed", "ListVoid"),
    "holdfast.store.database": ("StoreError",),
    "holdfast.worker.options": ("WorkerOptions",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

if TYPE_CHECKING:
    from holdfast.agent import Agent as Agent
    from holdfast.agent import approve as approve
    from holdfast.chat.errors import ChatArchived as ChatArchived
    from holdfast.chat.errors import ChatError as ChatError
    from holdfast.chat.errors import ChatNotFound as ChatNotFound
    from holdfast.chat.errors import Corrupt as Corrupt
    from holdfast.chat.errors import FamilyBusy as FamilyBusy
    from holdfast.chat.errors import InvalidInput as InvalidInput
    from holdfast.chat.errors import KeyReused as KeyReused
    from holdfast.chat.errors import MessageNotFound as MessageNotFound
    from holdfast.chat.errors import NotAPrompt as NotAPrompt
    from holdfast.chat.errors import NotArchived as NotArchived
    from holdfast.chat.errors import NotARoot as NotARoot
    from holdfast.chat.errors import NothingToCompact as NothingToCompact
    from holdfast.chat.errors import NothingWaits as NothingWaits
    from holdfast.chat.errors import QueuedNotFound as QueuedNotFound
    from holdfast.chat.errors import QueueFull as QueueFull
    from holdfast.chat.errors import Stranded as Stranded
    from holdfast.chat.errors import TitleFailed as TitleFailed
    from holdfast.chat.errors import TooDeep as TooDeep
    from holdfast.chat.errors import TransitionNotAllowed as TransitionNotAllowed
    from holdfast.chat.errors import WrongAnswer as WrongAnswer
    from holdfast.chat.errors import WrongOrder as WrongOrder
    from holdfast.chat.handle import Chat as Chat
    from holdfast.chat.host import Host as Host
    from holdfast.chat.queries import Spent as Spent
    from holdfast.chat.rows import Queued as Queued
    from holdfast.chat.rows import Rule as Rule
    from holdfast.chat.rows import Status as Status
    from holdfast.chat.rows import Stored as Stored
    from holdfast.chat.snapshots import ChatResult as ChatResult
    from holdfast.chat.snapshots import Pending as Pending
    from holdfast.chat.snapshots import Receipt as Receipt
    from holdfast.chat.snapshots import Revision as Revision
    from holdfast.chat.snapshots import Snapshot as Snapshot
    from holdfast.chat.stream import ActionsChanged as ActionsChanged
    from holdfast.chat.stream import ChatChanged as ChatChanged
    from holdfast.chat.stream import ChatStream as ChatStream
    from holdfast.chat.stream import Cursor as Cursor
    from holdfast.chat.stream import LiveDelta as LiveDelta
    from holdfast.chat.stream import MessageChanged as MessageChanged
    from holdfast.chat.stream import QueueChanged as QueueChanged
    from holdfast.chat.stream import Reset as Reset
    from holdfast.chat.stream import StreamEvent as StreamEvent
    from holdfast.chat.stream import Superseded as Superseded
    from holdfast.client.chat import RemoteChat as RemoteChat
    from holdfast.client.connect import connect as connect
    from holdfast.client.errors import NotHoldfast as NotHoldfast
    from holdfast.client.errors import RemoteError as RemoteError
    from holdfast.client.errors import Unreachable as Unreachable
    from holdfast.client.host import RemoteHost as RemoteHost
    from holdfast.host import open as open
    from holdfast.kernel.decide import Approved as Approved
    from holdfast.kernel.errors import ConfigError as ConfigError
    from holdfast.kernel.errors import ExpectedFailure as ExpectedFailure
    from holdfast.kernel.errors import Failure as Failure
    from holdfast.kernel.errors import FormatError as FormatError
    from holdfast.kernel.errors import HoldfastError as HoldfastError
    from holdfast.kernel.errors import InvalidOutput as InvalidOutput
    from holdfast.kernel.errors import ProviderError as ProviderError
    from holdfast.kernel.errors import ToolFailed as ToolFailed
    from holdfast.kernel.events import Action as Action
    from holdfast.kernel.events import Compacted as Compacted
    from holdfast.kernel.events import Compacting as Compacting
    from holdfast.kernel.events import Delivered as Delivered
    from holdfast.kernel.events import Event as Event
    from holdfast.kernel.events import MessageCommitted as MessageCommitted
    from holdfast.kernel.events import Retrying as Retrying
    from holdfast.kernel.events import RunEnded as RunEnded
    from holdfast.kernel.events import RunStarted as RunStarted
    from holdfast.kernel.events import StepStarted as StepStarted
    from holdfast.kernel.events import Summary as Summary
    from holdfast.kernel.events import ToolCalled as ToolCalled
    from holdfast.kernel.events import ToolFinished as ToolFinished
    from holdfast.kernel.events import ToolProgressed as ToolProgressed
    from holdfast.kernel.events import ToolStarted as ToolStarted
    from holdfast.kernel.events import Warned as Warned
    from holdfast.kernel.fallback import Fallback as Fallback
    from holdfast.kernel.messages import File as File
    from holdfast.kernel.messages import Message as Message
    from holdfast.kernel.messages import Reasoning as Reasoning
    from holdfast.kernel.messages import Source as Source
    from holdfast.kernel.messages import Text as Text
    from holdfast.kernel.messages import ToolCall as ToolCall
    from holdfast.kernel.messages import ToolResult as ToolResult
    from holdfast.kernel.messages import Usage as Usage
    from holdfast.kernel.messages import dump as dump
    from holdfast.kernel.messages import load as load
    from holdfast.kernel.model import ArgumentsDelta as ArgumentsDelta
    from holdfast.kernel.model import Block as Block
    from holdfast.kernel.model import CallEnded as CallEnded
    from holdfast.kernel.model import CallStarted as CallStarted
    from holdfast.kernel.model import Delta as Delta
    from holdfast.kernel.model import Finished as Finished
    from holdfast.kernel.model import Model as Model
    from holdfast.kernel.model import Notice as Notice
    from holdfast.kernel.model import Opened as Opened
    from holdfast.kernel.model import PartAdded as PartAdded
    from holdfast.kernel.model import PartEnded as PartEnded
    from holdfast.kernel.model import Ping as Ping
    from holdfast.kernel.model import ProviderTool as ProviderTool
    from holdfast.kernel.model import ReasoningDelta as ReasoningDelta
    from holdfast.kernel.model import Request as Request
    from holdfast.kernel.model import Settings as Settings
    from holdfast.kernel.model import Shape as Shape
    from holdfast.kernel.model import TextDelta as TextDelta
    from holdfast.kernel.model import ToolSpec as ToolSpec
    from holdfast.kernel.policy import Calls as Calls
    from holdfast.kernel.policy import Context as Context
    from holdfast.kernel.policy import Policy as Policy
    from holdfast.kernel.policy import Retry as Retry
    from holdfast.kernel.policy import Stream as Stream
    from holdfast.kernel.policy import Wording as Wording
    from holdfast.kernel.ports import Ports as Ports
    from holdfast.kernel.result import RunFailed as RunFailed
    from holdfast.kernel.result import RunOver as RunOver
    from holdfast.kernel.result import RunResult as RunResult
    from holdfast.kernel.run import Run as Run
    from holdfast.kernel.stop_guard import Escalate as Escalate
    from holdfast.kernel.stop_guard import Inject as Inject
    from holdfast.kernel.stop_guard import Stopping as Stopping
    from holdfast.kernel.tool import Allow as Allow
    from holdfast.kernel.tool import Deny as Deny
    from holdfast.kernel.tool import Rewrite as Rewrite
    from holdfast.kernel.tool import Tool as Tool
    from holdfast.kernel.tool import ToolContext as ToolContext
    from holdfast.kernel.tool import tool as tool
    from holdfast.live.fragments import Omitted as Omitted
    from holdfast.providers.anthropic import Anthropic as Anthropic
    from holdfast.providers.google import Google as Google
    from holdfast.providers.openai_chat import OpenAIChat as OpenAIChat
    from holdfast.providers.openai_responses import OpenAIResponses as OpenAIResponses
    from holdfast.providers.profile import Price as Price
    from holdfast.providers.profile import Profile as Profile
    from holdfast.providers.registry import model as model
    from holdfast.providers.registry import unusable_providers as unusable_providers
    from holdfast.providers.registry import usable_providers as usable_providers
    from holdfast.server.chat_list_stream import ChatDeleted as ChatDeleted
    from holdfast.server.chat_list_stream import ChatListed as ChatListed
    from holdfast.server.chat_list_stream import ListVoid as ListVoid
    from holdfast.store.database import StoreError as StoreError
    from holdfast.worker.options import WorkerOptions as WorkerOptions

# Written out, because type checkers read it. Not among it: `open`, which is also Python's own.
__all__ = [
    "Action",
    "ActionsChanged",
    "Agent",
    "Allow",
    "Anthropic",
    "Approved",
    "ArgumentsDelta",
    "Block",
    "CallEnded",
    "CallStarted",
    "Calls",
    "Chat",
    "ChatArchived",
    "ChatChanged",
    "ChatDeleted",
    "ChatError",
    "ChatListed",
    "ChatNotFound",
    "ChatResult",
    "ChatStream",
    "Compacted",
    "Compacting",
    "ConfigError",
    "Context",
    "Corrupt",
    "Cursor",
    "Delivered",
    "Delta",
    "Deny",
    "Escalate",
    "Event",
    "ExpectedFailure",
    "Failure",
    "Fallback",
    "FamilyBusy",
    "File",
    "Finished",
    "FormatError",
    "Google",
    "HoldfastError",
    "Host",
    "Inject",
    "InvalidInput",
    "InvalidOutput",
    "KeyReused",
    "ListVoid",
    "LiveDelta",
    "Message",
    "MessageChanged",
    "MessageCommitted",
    "MessageNotFound",
    "Model",
    "NotAPrompt",
    "NotARoot",
    "NotArchived",
    "NotHoldfast",
    "NothingToCompact",
    "NothingWaits",
    "Notice",
    "Omitted",
    "OpenAIChat",
    "OpenAIResponses",
    "Opened",
    "PartAdded",
    "PartEnded",
    "Pending",
    "Ping",
    "Policy",
    "Ports",
    "Price",
    "Profile",
    "ProviderError",
    "ProviderTool",
    "QueueChanged",
    "QueueFull",
    "Queued",
    "QueuedNotFound",
    "Reasoning",
    "ReasoningDelta",
    "Receipt",
    "RemoteChat",
    "RemoteError",
    "RemoteHost",
    "Request",
    "Reset",
    "Retry",
    "Retrying",
    "Revision",
    "Rewrite",
    "Rule",
    "Run",
    "RunEnded",
    "RunFailed",
    "RunOver",
    "RunResult",
    "RunStarted",
    "Settings",
    "Shape",
    "Snapshot",
    "Source",
    "Spent",
    "Status",
    "StepStarted",
    "Stopping",
    "StoreError",
    "Stored",
    "Stranded",
    "Stream",
    "StreamEvent",
    "Summary",
    "Superseded",
    "Text",
    "TextDelta",
    "TitleFailed",
    "TooDeep",
    "Tool",
    "ToolCall",
    "ToolCalled",
    "ToolContext",
    "ToolFailed",
    "ToolFinished",
    "ToolProgressed",
    "ToolResult",
    "ToolSpec",
    "ToolStarted",
    "TransitionNotAllowed",
    "Unreachable",
    "Usage",
    "Warned",
    "Wording",
    "WorkerOptions",
    "WrongAnswer",
    "WrongOrder",
    "__version__",
    "approve",
    "connect",
    "dump",
    "load",
    "model",
    "tool",
    "unusable_providers",
    "usable_providers",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "open"])
