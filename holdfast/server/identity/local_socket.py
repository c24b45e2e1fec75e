"""The Unix socket of a local server, for the command line.

Any program of the machine can listen on the port while the server is not running, and would receive
the token of a client that connects. Only the owner can create files in the data directory: so the
command line connects to a socket there, named after the port, and sends its token to no other
listener.

The sockets are also the record of the servers that run, whatever their ports. When a process ends
in any way, the system refuses connections to the socket that it left. A file with a pid could name
another process by then, and a nonce would have to be requested over HTTP.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

SOCKETS_DIRECTORY: Final = "sockets"
MAX_SOCKET_PATH: Final = 100
"""Longest path of a socket, in bytes, that every system accepts."""


def socket_path(data: Path, port: int) -> Path:
    """Path of the socket of the server on this port."""
    return data / SOCKETS_DIRECTORY / str(port)


def port_of(name: object) -> int:
    """The port that a socket is named after; 0 for a name that is not one of ours."""
    last = os.path.basename(name) if isinstance(name, str) else ""
    return int(last) if last.isdecimal() else 0


@contextmanager
def bound_socket(data: Path, port: int) -> Iterator[socket.socket]:
    """A listening socket for the server on this port, removed at the end. Raises `OSError`."""
    path = socket_path(data, port)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with closing(socket.socket(socket.AF_UNIX)) as listener, short_name(path) as name:
        with suppress(FileNotFoundError):
            path.unlink()  # left by a server that was killed: the port is ours now
        listener.bind(name)
        try:
            path.chmod(0o600)
            yield listener
        finally:
            path.unlink(missing_ok=True)


def is_own_socket(path: Path) -> bool:
    """Whether this is a socket that belongs to the current user."""
    try:
        folder, facts = path.parent.lstat(), path.lstat()
    except OSError:
        return False
    own = folder.st_uid == facts.st_uid == os.geteuid()
    return own and stat.S_ISDIR(folder.st_mode) and stat.S_ISSOCK(facts.st_mode)


def running_ports(data: Path) -> tuple[int, ...]:
    """Ports of the servers of this data directory that run now."""
    try:
        ports = sorted(map(port_of, os.listdir(data / SOCKETS_DIRECTORY)))
    except OSError:  # no server ever ran here
        return ()
    return tuple(port for port in ports if port and _listens(socket_path(data, port)))


def _listens(path: Path) -> bool:
    """Whether the current user's process listens at a socket. Nothing is sent to it."""
    if not is_own_socket(path):
        return False
    with socket.socket(socket.AF_UNIX) as client, short_name(path) as name:
        client.setblocking(False)  # a server that accepts nothing at the moment runs, too
        try:
            client.connect(name)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True


@contextmanager
def short_name(path: Path) -> Iterator[str]:
    """A path to the socket that the system accepts: through a symbolic link if it is too long."""
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        yield str(path)
        return
    with TemporaryDirectory(prefix="holdfast-") as directory:
        link = os.path.join(directory, "sockets")
        os.symlink(path.parent, link)
        yield os.path.join(link, path.name)
