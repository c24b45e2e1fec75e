"""Whether this process lives, and whether it can do its work."""

from __future__ import annotations

from typing import Any, Final, Literal

import anyio
from msgspec import Struct

from holdfast.server.openapi import document
from holdfast.server.operation import Call, operation
from holdfast.server.problem import Refused
from holdfast.store.database import StoreError

PATIENCE: Final = 5.0
"""Seconds that the database may take to say anything."""


class Alive(Struct, frozen=True):
    status: Literal["ok"] = "ok"


class Ready(Struct, frozen=True):
    status: Literal["ready"]
    workers: int
    """How many live."""


class NotReady(Refused):
    kind = "not_ready"
    status = 503


@operation("GET", "/healthz", "Whether the process lives")
async def healthz(call: Call) -> Alive:
    return Alive()


@operation("GET", "/readyz", "Whether it can work: the database answers, and a worker lives")
async def readyz(call: Call) -> Ready:
    try:
        with anyio.fail_after(PATIENCE):
            alive = await call.server.host.workers()
    except TimeoutError:
        raise NotReady(f"the database says nothing for {PATIENCE:g} s", part="database") from None
    except StoreError as error:  # whoever asks may be anybody: why is not for them
        detail = "the database does not answer: the server's log says why"
        raise NotReady(detail, part="database") from error
    if not alive.ids:
        raise NotReady("no worker lives: start one with `holdfast worker`", part="worker")
    return Ready("ready", len(alive.ids))


@operation("GET", "/openapi.json", "This description")
async def openapi(call: Call) -> dict[str, Any]:
    return dict(document())
