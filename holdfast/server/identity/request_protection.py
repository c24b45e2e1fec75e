"""Installs the middlewares that protect an application."""

from __future__ import annotations

from aiohttp import web

from holdfast.server.api_state import ApiState
from holdfast.server.identity.origin_check import Front, origin_checker, secured
from holdfast.server.identity.refusal_audit import refusal_recorder


def protect(
    app: web.Application,
    server: ApiState,
    front: Front | None = None,
    internal: Front | None = None,
) -> web.Application:
    """Add the middlewares to an application: record refusals, check origins, add headers.

    `front`: names and origins that the server answers to; None for a server on loopback.
    `internal`: the same for requests of other replicas.

    The recorder comes first, so that it sees what the origin check refuses.
    """
    app.middlewares.append(refusal_recorder(server.db, server.ports, server.access.proxies))
    app.middlewares.append(origin_checker(front, internal))
    app.on_response_prepare.append(secured(server.access.secure))
    return app
