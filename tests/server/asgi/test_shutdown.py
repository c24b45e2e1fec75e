"""Streams end when uvicorn stops: it would wait for them, and the application with it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final

import aiohttp
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

import holdfast
from holdfast import Agent, Host
from holdfast.server.asgi.shutdown_watch import uvicorn_servers
from holdfast.server.event_codec import END_SHUTDOWN, event_of
from holdfast.server.wire_format import API_PREFIX
from tests.server.streams.client import Connection

ROOT: Final = Path(__file__).resolve().parents[3]
PATIENCE: Final = 20.0
"""Seconds that a server may take to stop on a busy machine. One that waits for a stream never
does."""
ENDS: Final = (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.CLOSE)
"""uvicorn closes WebSockets by itself; ours says why, if it is first."""
APPLICATION: Final = """
import contextlib
import os

from fastapi import FastAPI
import holdfast

@contextlib.asynccontextmanager
async def lifespan(app):
    async with holdfast.open(os.environ["DATABASE"], [holdfast.Agent(model="demo")]) as host:
        app.state.host = host
        yield
    print("closed", flush=True)

app = FastAPI(lifespan=lifespan)
app.mount("/agents", holdfast.asgi(lambda: app.state.host, identify=lambda request: "ann"))
"""


async def watch(url: str, stop: Callable[[], None]) -> list[object]:
    """What a stream says after `stop`, which is called when it and a WebSocket have begun."""
    async with aiohttp.ClientSession(f"{url}/agents{API_PREFIX}/") as client:
        async with client.post("chats", json={}) as response:
            chat = (await response.json())["id"]
        path = f"chats/{chat}/stream"
        async with client.get(path) as response, client.ws_connect(path) as socket:
            connection = Connection(response)
            await connection.take(1)
            await socket.receive()
            stop()
            told: list[object] = [event_of(wire) async for wire in connection.events()]
            assert (await socket.receive()).type in ENDS
            return told


def bounded(url: str, stop: Callable[[], None]) -> list[object]:
    async def watched() -> list[object]:
        async with asyncio.timeout(PATIENCE):
            return await watch(url, stop)

    return asyncio.run(watched())


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_streams_and_then_the_application(
    how: signal.Signals, tmp_path: Path
) -> None:
    (tmp_path / "application.py").write_text(APPLICATION)
    with subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "application:app", "--port", "0"],
        cwd=tmp_path,
        env={**os.environ, "DATABASE": f"sqlite:///{tmp_path}/chats.db", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            words = (word for line in process.stderr for word in line.split())
            url = next(word for word in words if word.startswith("http://"))
            assert bounded(url, lambda: process.send_signal(how)) == [END_SHUTDOWN]
            said, _ = process.communicate(timeout=PATIENCE)
            assert "closed" in said
        finally:
            process.kill()


async def test_the_search_for_the_server_keeps_nothing_of_other_tasks_alive() -> None:
    class Held:
        """What a task has for a while."""

    ready, released = asyncio.Event(), asyncio.Event()
    held: list[weakref.ref[Held]] = []

    async def other() -> None:
        mine = Held()
        held.append(weakref.ref(mine))
        ready.set()
        await released.wait()
        del mine
        await asyncio.Event().wait()

    task = asyncio.create_task(other())
    await ready.wait()
    assert uvicorn_servers() == []
    released.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert held[0]() is None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_server_in_a_thread_ends_its_streams_too(tmp_path: Path) -> None:
    hosts: list[Host] = []
    ready = threading.Event()

    async def serve() -> None:
        async with holdfast.open(f"sqlite:///{tmp_path}/chats.db", [Agent(model="demo")]) as host:
            hosts.append(host)
            serving = asyncio.create_task(server.serve())
            while not server.started:  # noqa: ASYNC110 - uvicorn says it in no other way
                await asyncio.sleep(0.01)
            ready.set()
            await serving

    api = holdfast.asgi(lambda: hosts[0], identify=lambda request: "ann")
    app = Starlette(routes=[Mount("/agents", api)])
    config = uvicorn.Config(app, port=0, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        port = server.servers[0].sockets[0].getsockname()[1]

        def stop() -> None:
            server.should_exit = True

        assert bounded(f"http://127.0.0.1:{port}", stop) == [END_SHUTDOWN]
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
    assert not thread.is_alive()
