"""Connects a process of `holdfast serve` or `holdfast worker` to the other replicas."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.cli.settings import ServerSettings
from holdfast.kernel.errors import ConfigError
from holdfast.server.listening import bind

if TYPE_CHECKING:
    from holdfast.server.relay.cluster_link import RelayLink
    from holdfast.server.relay.cluster_secret import ClusterSecret

LOG: Final = logging.getLogger("holdfast.serve")
SECRET_FILE: Final = "cluster.secret"


def cluster_secret(
    server: ServerSettings, environ: Mapping[str, str], directory: str, data: str
) -> ClusterSecret | None:
    """The cluster secret: from the environment, the settings' file, or the data directory."""
    from holdfast.server.relay.cluster_secret import find_secret

    if server.cluster_secret_file is None:
        return find_secret(environ, Path(data, SECRET_FILE))
    file = Path(directory, server.cluster_secret_file)
    secret = find_secret(environ, file)
    if secret is None:
        raise ConfigError(
            f"server.cluster_secret_file names {file}, which does not exist: create it with "
            "`openssl rand -base64 32`, the same for all replicas"
        )
    return secret


@asynccontextmanager
async def linked(
    secret: ClusterSecret | None, server: ServerSettings, listen: tuple[str, int]
) -> AsyncIterator[RelayLink | None]:
    """The link of this process to its cluster; None without a secret, which is logged once."""
    from holdfast.server.relay.cluster_link import link_at

    if secret is None:
        LOG.warning(
            "no cluster secret: answers run by another process are shown here step by step, "
            "not word by word. Set HOLDFAST_CLUSTER_SECRET to the same value everywhere"
        )
        yield None
        return
    with closing(bind(*listen)) as listening:
        link = link_at(listening, listen[0], secret, advertise=server.advertise, tick=server.tick)
        if link.url is None:
            LOG.warning(
                "other replicas cannot reach this one, which listens on all addresses: set "
                "server.advertise to a URL like http://10.0.0.5:8765"
            )
        yield link
