"""The recipes for web frameworks, behind uvicorn as a user starts it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from holdfast.events import ChatChanged, LiveDelta, MessageChanged
from holdfast.server.event_codec import event_of
from holdfast.server.wire_format import API_PREFIX
from tests.server.streams.client import Connection
from tests.test_docs import BLOCK, ROOT

COOKBOOK: Final = ROOT / "docs" / "cookbook"
API: Final = f"/agents{API_PREFIX}"
ANSWER: Final = "long answer of 100 words"


def saved(page: str, file: Path) -> None:
    """Save the program of a page."""
    (program,) = BLOCK.findall((COOKBOOK / page).read_text("utf-8"))
    file.write_text(program, "utf-8")


def environment(**variables: str) -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **variables}


@contextmanager
def uvicorn(application: str, folder: Path, **variables: str) -> Iterator[str]:
    """The URL of an application. In the end it is stopped by a signal, and has to end by itself."""
    with subprocess.Popen(
        [sys.executable, "-m", "uvicorn", application, "--port", "0"],
        cwd=folder,
        env=environment(**variables),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            said: list[str] = []
            for line in process.stderr:
                said.append(line)
                if found := re.search(r"running on (\S+)", line):
                    break
            assert found, "".join(said)
            yield found[1]
            process.send_signal(signal.SIGTERM)
            _, rest = process.communicate(timeout=20)
            assert process.returncode in (0, -signal.SIGTERM), rest
            assert "Traceback" not in rest, rest
        finally:
            process.kill()


def session(url: str) -> aiohttp.ClientSession:
    """A client with cookies, which also takes those of an address."""
    return aiohttp.ClientSession(url, cookie_jar=aiohttp.CookieJar(unsafe=True))


async def status(request: AbstractAsyncContextManager[aiohttp.ClientResponse]) -> int:
    async with request as response:
        return response.status


async def deltas(client: aiohttp.ClientSession, chat: str) -> tuple[int, str]:
    """How many deltas a reader of a chat sees until it is idle, and the answer."""
    seen, answer = 0, ""
    async with client.get(f"{API}/chats/{chat}/stream") as response:
        assert response.status == 200, await response.text()
        async for wire in Connection(response).events():
            match event_of(wire):
                case LiveDelta():
                    seen += 1
                case MessageChanged(message=stored) if stored.message.role == "assistant":
                    answer = stored.message.text
                case ChatChanged(chat=changed) if changed.status == "idle" and answer:
                    return seen, answer
    raise AssertionError("the stream ended before the chat was idle")


def bounded(test: Any) -> None:
    async def run() -> None:
        async with asyncio.timeout(45):
            await test

    asyncio.run(run())


def test_two_processes_of_fastapi_stream_the_tokens_of_each_others_chats(
    tmp_path: Path, postgres_url: str
) -> None:
    saved("fastapi.md", tmp_path / "app.py")
    shared = {
        "DATABASE": postgres_url,
        "SESSION_SECRET": "the same for both",
        "HOLDFAST_CLUSTER_SECRET": "the same secret for both",
    }

    async def test(first: str, second: str) -> None:
        async with session(first) as ann, session(second) as same, session(first) as bob:
            assert await status(ann.post("/tickets/7/chat")) == 401
            wrong = {"user": "ann", "password": "wrong"}
            assert await status(ann.post("/session", json=wrong)) == 401
            right = {"user": "ann", "password": "correct horse"}
            for client in (ann, same):
                assert await status(client.post("/session", json=right)) == 204
            async with ann.post("/tickets/7/chat") as response:
                chat = (await response.json())["chat"]
            async with same.post("/tickets/7/chat") as response:
                assert (await response.json())["chat"] == chat
            (here, answer), (there, same_answer) = await asyncio.gather(
                deltas(ann, chat), deltas(same, chat)
            )
            assert answer == same_answer
            assert min(here, there) > 3, "one of them saw the answer only when it was whole"
            assert await status(bob.get(f"{API}/chats/{chat}")) == 401
            other = {"user": "bob", "password": "battery staple"}
            assert await status(bob.post("/session", json=other)) == 204
            assert await status(bob.get(f"{API}/chats/{chat}")) == 404

    with ExitStack() as stack:
        urls = [stack.enter_context(uvicorn("app:app", tmp_path, **shared)) for _ in range(2)]
        bounded(test(*urls))


def test_django_gives_chats_to_its_own_users(tmp_path: Path) -> None:
    saved("django.md", tmp_path / "project.py")
    password = {"DJANGO_SUPERUSER_PASSWORD": "correct horse"}
    for command in (
        ["migrate", "--verbosity", "0"],
        ["createsuperuser", "--noinput", "--username", "ann", "--email", "ann@example.com"],
    ):
        subprocess.run(
            [sys.executable, "project.py", *command],
            cwd=tmp_path,
            env=environment(**password),
            check=True,
            capture_output=True,
            timeout=60,
        )

    async def test(url: str) -> None:
        async with session(url) as ann:
            assert await status(ann.get("/")) == 401
            assert await status(ann.post(f"{API}/chats", json={})) == 401
            async with ann.get("/login") as response:
                form = await response.text()
            (token,) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', form)
            fields = {"csrfmiddlewaretoken": token, "username": "ann", "password": "correct horse"}
            async with ann.post("/login", data=fields, headers={"Referer": url}) as response:
                assert await response.json() == {"user": "ann", "chats": []}
            body = {"prompt": ANSWER, "title": "Words"}
            async with ann.post(f"{API}/chats", json=body) as response:
                chat = (await response.json())["id"]
            seen, _ = await deltas(ann, chat)
            assert seen > 3
            async with ann.get("/") as response:
                assert await response.json() == {"user": "ann", "chats": ["Words"]}
            async with ann.get(f"{API}/me") as response:
                me = await response.json()
            assert (me["name"], me["role"]) == ("ann", "admin")

    with uvicorn("project:application", tmp_path) as url:
        bounded(test(url))
