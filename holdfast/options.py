"""Options: the policy of an agent, the worker of a host, and the ports to the outside world."""

from __future__ import annotations

from holdfast.kernel.policy import (
    Calls as Calls,
    ContextLimits as ContextLimits,
    Policy as Policy,
    Retry as Retry,
    Stream as Stream,
    Wording as Wording,
)
from holdfast.kernel.ports import (
    Ports as Ports,
)
from holdfast.server.relay.relay_options import (
    RelayOptions as RelayOptions,
)
from holdfast.worker.options import (
    WorkerOptions as WorkerOptions,
)
