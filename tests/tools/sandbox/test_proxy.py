"""A command reaches the hosts that its policy allows through the proxy, and nothing else."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from holdfast.tools.sandbox import launcher
from holdfast.tools.sandbox.command import NOBODY, in_bubblewrap
from holdfast.tools.sandbox.policy import SandboxPolicy
from holdfast.tools.sandbox.proxy import EgressProxy, Outside, Streams, proxy_variables
from holdfast.tools.sandbox.support import support

INTERPRETER: Final = "/usr/bin/python3"
pytestmark = [
    pytest.mark.skipif(support().profile != "bubblewrap", reason="no user namespaces here"),
    pytest.mark.skipif(not os.path.exists(INTERPRETER), reason=f"no {INTERPRETER}"),
]

NAMES: Final = {
    "allowed.test": ["93.184.215.14"],
    "other.test": ["93.184.215.14"],
    "inside.test": ["93.184.215.14", "127.0.0.1"],
    "metadata.test": ["169.254.169.254"],
}
FETCH: Final = """
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
except OSError as error:
    print("failed", error)
"""
TUNNEL: Final = """
import http.client
connection = http.client.HTTPConnection("127.0.0.1", 3128, timeout=10)
connection.set_tunnel("allowed.test", 443)
try:
    connection.request("GET", "/through-a-tunnel")
    print(connection.getresponse().read().decode())
except OSError as error:
    print("failed", error)
"""


@pytest.fixture
def work() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="proxy-"))
    if not os.geteuid():
        os.chown(path, NOBODY, NOBODY)
    yield path
    shutil.rmtree(path)


@asynccontextmanager
async def internet(connected: list[tuple[str, int]]) -> AsyncIterator[Outside]:
    """A web server that every public address leads to."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        body = f"served {head.split()[1]}".encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def resolve(host: str, _: int) -> Sequence[str]:
        return NAMES[host]

    async def connect(address: str, number: int) -> Streams:
        connected.append((address, number))
        return await asyncio.open_connection("127.0.0.1", port)

    async with server:
        yield Outside(resolve, connect)


def output(
    work: Path, code: str, *arguments: str, allowed: Sequence[str] = ("allowed.test",)
) -> tuple[str, list[str], list[tuple[str, int]]]:
    """What a program prints inside, what was refused, and the connections that were made."""
    return asyncio.run(_output(work, code, arguments, allowed))  # in the time of the processes


async def _output(
    work: Path, code: str, arguments: Sequence[str], allowed: Sequence[str]
) -> tuple[str, list[str], list[tuple[str, int]]]:
    policy = SandboxPolicy(
        directory=str(work),
        network=tuple(allowed),
        environ=proxy_variables(),
        protected=(),
    )
    command = ["/bin/sh", "-c", shlex.join([INTERPRETER, "-I", "-c", code, *arguments])]
    connected: list[tuple[str, int]] = []
    async with internet(connected) as outside:
        proxy = EgressProxy(policy.network, outside)
        with in_bubblewrap(policy, support().program, command, str(work)) as prepared:
            assert prepared.channel
            async with proxy.serve(prepared.channel):
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", launcher.__file__, str(prepared.plan)),
                    pass_fds=prepared.descriptors,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )
                text, _ = await process.communicate()
    return text.decode().strip(), list(proxy.refusals), connected


def test_an_allowed_host_is_reached(work: Path) -> None:
    text, refused, connected = output(work, FETCH, "http://allowed.test/page")
    assert (text, refused) == ("served /page", [])
    assert connected == [("93.184.215.14", 80)]


def test_an_allowed_host_is_reached_through_a_tunnel(work: Path) -> None:
    text, _, connected = output(work, TUNNEL)
    assert text == "served /through-a-tunnel"
    assert connected == [("93.184.215.14", 443)]


def test_another_host_is_refused_and_reported(work: Path) -> None:
    text, refused, connected = output(work, FETCH, "http://other.test/")
    assert text.startswith("403 other.test:80 is not allowed by the policy")
    assert refused == [text.removeprefix("403 ")]
    assert connected == []


@pytest.mark.parametrize("host", ["inside.test", "metadata.test"])
def test_an_allowed_name_with_a_private_address_is_refused(work: Path, host: str) -> None:
    text, refused, connected = output(work, FETCH, f"http://{host}/", allowed=(host,))
    assert "is not on the internet" in text
    assert len(refused) == 1
    assert connected == []


def test_nothing_is_reached_without_the_proxy(work: Path) -> None:
    code = """
import socket
for address in (("127.0.0.1", 22), ("93.184.215.14", 80), ("169.254.169.254", 80)):
    with socket.socket() as s:
        s.settimeout(5)
        print(s.connect_ex(address) == 0)
print(len(socket.if_nameindex()))
"""
    text, _, connected = output(work, code)
    assert text.split() == ["False", "False", "False", "1"]
    assert connected == []


def test_a_command_that_uses_no_network_leaves_nothing_open(work: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    text, _, _ = output(work, "print('quiet')")
    assert text == "quiet"
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # asyncio may keep one of its own
