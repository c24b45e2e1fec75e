"""Liveness and readiness probes, and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal

import anyio
from msgspec import Struct

from holdfast.server.openapi import described
from holdfast.server.operation import OPERATIONS, ApiCall, operation
from holdfast.server.problem import RequestRefused
from holdfast.store.database import StoreError

READINESS_TIMEOUT: Final = 5.0
"""Seconds to wait for the database."""


class Liveness(Struct, frozen=True):
    """The process is alive."""

    status: Literal["ok"] = "ok"


class Readiness(Struct, frozen=True):
    """The server is ready."""

    status: Literal["ready"]
    workers: int
    """Number of live workers."""


class NotReady(RequestRefused):
    """The server is not ready: the database or the workers are missing."""

    kind = "not_ready"
    status = 503


@operation("GET", "/healthz", "Liveness: whether the process is alive")
async def healthz(call: ApiCall) -> Liveness:
    return Liveness()


@operation(
    "GET", "/readyz", "Readiness: the database responds and is writable, and a worker is alive"
)
async def readyz(call: ApiCall) -> Readiness:
    _refuse_unwritable(call)
    try:
        with anyio.fail_after(READINESS_TIMEOUT):
            alive = await call.server.host.workers()
    except TimeoutError:
        raise NotReady(
            f"no response from the database for {READINESS_TIMEOUT:g} s", part="database"
        ) from None
    except StoreError as error:  # not authenticated: the cause is for the log only
        detail = "the database does not respond: the server's log says why"
        raise NotReady(detail, part="database") from error
    if not alive.ids:
        raise NotReady("no worker is alive: start one with `holdfast worker`", part="worker")
    return Readiness("ready", len(alive.ids))


def _refuse_unwritable(call: ApiCall) -> None:
    try:
        call.server.db.check_writable()
    except StoreError as error:
        detail = "the database cannot be written to: the server's log says why"
        raise NotReady(detail, part="database") from error


@cache
def document() -> Mapping[str, Any]:
    """The OpenAPI document of all operations."""
    return described(OPERATIONS.values())


@operation("GET", "/openapi.json", "The OpenAPI document of this API")
async def openapi(call: ApiCall) -> dict[str, Any]:
    return dict(document())
