"""What hooks decide: whether a call runs, and whether a run may stop."""

from __future__ import annotations

from holdfast.kernel.hook_context import (
    ChatInfo as ChatInfo,
    Context as Context,
)
from holdfast.kernel.agent_deps import (
    DepsProvider as DepsProvider,
)
from holdfast.kernel.decide import (
    Approved as Approved,
)
from holdfast.kernel.stop_guard import (
    Escalate as Escalate,
    Inject as Inject,
    Stopping as Stopping,
)
from holdfast.kernel.turn import (
    Turn as Turn,
)
from holdfast.kernel.tool import (
    Allow as Allow,
    Deny as Deny,
    Rewrite as Rewrite,
)
