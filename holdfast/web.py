"""Web applications: arguments and results of `holdfast.asgi`."""

from __future__ import annotations

from holdfast.server.api_state import (
    ServerLimits as ServerLimits,
)
from holdfast.server.asgi.app_identity import (
    AsgiUser as AsgiUser,
    Identify as Identify,
)
from holdfast.server.asgi.application import (
    AsgiApplication as AsgiApplication,
)
from holdfast.server.asgi.asgi_request import (
    AsgiRequest as AsgiRequest,
)
from holdfast.server.fanout import (
    StreamOptions as StreamOptions,
)
