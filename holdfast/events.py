"""The events of runs, of durable chats and of chat lists.

`Event` is the union of what a `Run` emits. `StreamEvent` is the union of what the stream of a
durable chat emits. `Delta` is the union of what a model emits: the fragments of an answer.
"""

from __future__ import annotations

from holdfast.chat.stream import (
    ActionsChanged as ActionsChanged,
    ChatChanged as ChatChanged,
    LiveDelta as LiveDelta,
    MessageChanged as MessageChanged,
    QueueChanged as QueueChanged,
    Reset as Reset,
    StreamEvent as StreamEvent,
    Superseded as Superseded,
)
from holdfast.kernel.events import (
    Action as Action,
    Compacted as Compacted,
    Compacting as Compacting,
    Delivered as Delivered,
    HandedOver as HandedOver,
    Event as Event,
    MessageCommitted as MessageCommitted,
    OutputDelta as OutputDelta,
    Retrying as Retrying,
    RunEnded as RunEnded,
    RunStarted as RunStarted,
    StepStarted as StepStarted,
    Summary as Summary,
    ToolCalled as ToolCalled,
    ToolFinished as ToolFinished,
    ToolProgressed as ToolProgressed,
    ToolStarted as ToolStarted,
    Warned as Warned,
)
from holdfast.kernel.limits import (
    LimitReached as LimitReached,
)
from holdfast.kernel.partial_output import (
    PartialOutput as PartialOutput,
)
from holdfast.kernel.model import (
    ArgumentsDelta as ArgumentsDelta,
    CallEnded as CallEnded,
    CallStarted as CallStarted,
    Delta as Delta,
    Finished as Finished,
    Notice as Notice,
    Opened as Opened,
    PartAdded as PartAdded,
    PartEnded as PartEnded,
    Ping as Ping,
    ReasoningDelta as ReasoningDelta,
    TextDelta as TextDelta,
)
from holdfast.live.delta_fragments import (
    Omitted as Omitted,
)
from holdfast.server.chat_list_stream import (
    ChatDeleted as ChatDeleted,
    ChatListed as ChatListed,
    ListVoid as ListVoid,
)
