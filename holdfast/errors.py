"""The exceptions that Holdfast raises on purpose, as one tree.

HoldfastError                 base class of all of them
├── ConfigError               an option or argument is wrong; also a ValueError
│   ├── UnknownKeyword        there is no such keyword argument; also a TypeError
│   ├── TooManyArguments      the other arguments need a name; also a TypeError
│   └── NotConfigured         an address of a provider is missing, when its model is used
│       └── NeedsKey          a key of a provider is missing, when its model is used
├── FormatError               a stored history cannot be read; also a ValueError
├── ModelError
│   ├── ProviderError         a provider refused or failed; its facts are in a `Failure`
│   └── InvalidOutput         the answer does not fit the output type
├── ToolFailed                raised by a tool; the model reads the message
│   ├── ExpectedFailure       raised by a tool for a regular negative answer
│   └── Rejected              raised by a check of an answer or a call; the model reads the message
├── RunFailed                 the run ended with an error
├── LimitExceeded             the run ended at a limit, without a final answer
├── RunOver                   the run has ended and accepts no more input
├── ChatError                 a chat refused a request, which changed nothing
│   └── ChatNotFound, …       one class for each reason
├── StoreError                the database is not available, or refused
└── RemoteError               a server refused a request
    ├── NotHoldfast           the response did not come from a Holdfast server
    └── Unreachable           the server did not respond; a change may have been made
"""

from __future__ import annotations

from holdfast.chat.errors import (
    ChatArchived as ChatArchived,
    ChatError as ChatError,
    ChatNotFound as ChatNotFound,
    Corrupt as Corrupt,
    FamilyBusy as FamilyBusy,
    InvalidInput as InvalidInput,
    KeyReused as KeyReused,
    MessageNotFound as MessageNotFound,
    NotAPrompt as NotAPrompt,
    NotArchived as NotArchived,
    NotARoot as NotARoot,
    NothingToCompact as NothingToCompact,
    NothingToResume as NothingToResume,
    NothingWaits as NothingWaits,
    QueuedNotFound as QueuedNotFound,
    QueueFull as QueueFull,
    Stranded as Stranded,
    TitleFailed as TitleFailed,
    TooDeep as TooDeep,
    TransitionNotAllowed as TransitionNotAllowed,
    WrongAnswer as WrongAnswer,
    WrongOrder as WrongOrder,
)
from holdfast.client.errors import (
    NotHoldfast as NotHoldfast,
    RemoteError as RemoteError,
    Unreachable as Unreachable,
)
from holdfast.kernel.errors import (
    ConfigError as ConfigError,
    ExpectedFailure as ExpectedFailure,
    Failure as Failure,
    FormatError as FormatError,
    HoldfastError as HoldfastError,
    InvalidOutput as InvalidOutput,
    MissingDescription as MissingDescription,
    ModelError as ModelError,
    NeedsKey as NeedsKey,
    NotConfigured as NotConfigured,
    ProviderError as ProviderError,
    Rejected as Rejected,
    ToolFailed as ToolFailed,
    TooManyArguments as TooManyArguments,
    UnknownKeyword as UnknownKeyword,
)
from holdfast.kernel.result import (
    LimitExceeded as LimitExceeded,
    RunFailed as RunFailed,
    RunOver as RunOver,
)
from holdfast.store.database import (
    StoreError as StoreError,
)
