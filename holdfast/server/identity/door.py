"""All that stands in front of an application, put there at once."""

from __future__ import annotations

from aiohttp import web

from holdfast.server.app import Server
from holdfast.server.identity.guard import Front, guarded, secured
from holdfast.server.identity.refusals import noted


def protect(
    app: web.Application,
    server: Server,
    front: Front | None = None,
    internal: Front | None = None,
) -> web.Application:
    """The application behind its front. None: of a server on loopback.

    `internal`: what other replicas call it.

    First what is refused is written down, then it is refused, then comes the application's own.
    """
    app.middlewares.append(noted(server.db, server.ports, server.access.proxies))
    app.middlewares.append(guarded(front, internal))
    app.on_response_prepare.append(secured(server.access.secure))
    return app
