"""Files over HTTP: given once, kept once, shown to nobody else, and safe to open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from hashlib import sha256
from typing import Any

import anyio
import pytest

from holdfast import Tool, tool
from holdfast.chat.files import (
    FileInUse,
    FileNotFound,
    add_file,
    delete_file,
    read_data,
    refuse_in_use,
)
from holdfast.kernel.messages import File
from holdfast.kernel.model import Request
from holdfast.server import routes
from holdfast.server.api_state import ServerLimits
from holdfast.server.idempotency import once
from holdfast.store.database import Database, Tx
from holdfast.store.postgres.database import open_postgres
from holdfast.testing import Clock, call
from tests.chat.chats import Chats
from tests.server.api import Answer, Api, agent, serving_api

pytestmark = pytest.mark.usefixtures("each_server")

PNG = b"\x89PNG\r\n\x1a\n\x00rest"


async def upload(api: Api, data: bytes, media: str = "image/png", **query: Any) -> Answer:
    return await api.ask("POST", "/files", data, query=query, headers={"Content-Type": media})


async def test_a_file_comes_back_as_it_was_given(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        status, file, _ = await upload(api, PNG, name="pic.png")
        assert status == 201
        assert (file["hash"], file["size"]) == (sha256(PNG).hexdigest(), len(PNG))
        assert (file["media_type"], file["name"], file["owner"]) == ("image/png", "pic.png", "ann")
        status, data, headers = await api.get(f"/files/{file['id']}")
        assert (status, data, headers["Content-Type"]) == (200, PNG, "image/png")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "Content-Disposition" not in headers


@pytest.mark.parametrize("media", ["text/html", "image/svg+xml", "application/pdf", "text/plain"])
async def test_what_could_act_in_a_browser_is_only_for_saving(
    db: Database, clock: Clock, media: str
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        name = 'ü "x"\r\n.html'
        file = (await upload(api, b"<script>", media, name=name)).body
        headers = (await api.get(f"/files/{file['id']}")).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Content-Disposition"] == (
            "attachment; filename*=UTF-8''%C3%BC%20%22x%22%0D%0A.html"
        )


async def test_the_same_bytes_are_stored_once(db: Database, clock: Clock) -> None:
    async def count(tx: Tx) -> Any:
        return await tx.one("SELECT (SELECT count(*) FROM blobs), (SELECT count(*) FROM files)")

    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        one = (await upload(api, PNG)).body
        two = (await upload(api.of("bob"), PNG, "text/plain")).body
        assert one["id"] != two["id"]
        assert tuple(await db.read(count)) == (1, 2)


async def test_a_file_is_its_owners_alone(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        id = (await upload(api, PNG)).body["id"]
        other = api.of("bob")
        status, problem, _ = await other.get(f"/files/{id}")
        assert (status, problem["kind"]) == (404, "file_not_found")
        assert (await other.get("/files")).body["files"] == []
        body = {"prompt": [{"type": "file", "file": id}]}
        status, problem, _ = await other.post("/chats", body)
        assert (status, problem["kind"]) == (404, "file_not_found")


async def test_files_are_listed_in_pages(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        made = [(await upload(api, bytes([n]))).body["id"] for n in range(5)]
        seen, cursor = [], None
        while True:
            page = (await api.get("/files", limit=2, cursor=cursor)).body
            seen += [file["id"] for file in page["files"]]
            cursor = page["next"]
            if cursor is None:
                break
        assert seen == made[::-1]


async def test_too_much_is_refused_before_it_is_all_read(db: Database, clock: Clock) -> None:
    limits = ServerLimits(file=1000)
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(100_000):
            taken += 1
            yield bytes(1000)

    async with serving_api(db, [agent((), clock)], clock=clock, limits=limits) as api:
        assert (await upload(api, bytes(1000))).status == 201
        status, problem, _ = await upload(api, bytes(1001))
        assert (status, problem["kind"], problem["facts"]) == (413, "too_large", {"limit": 1000})
        url = f"{api.url}/api/v1/files"
        headers = {"X-Test-User": "ann", "Content-Type": "image/png"}
        try:
            async with api.session.post(url, data=endless(), headers=headers) as response:
                assert response.status == 413
        except OSError:
            pass  # it stopped listening while we still spoke
        assert taken < 100_000


async def test_a_file_without_a_proper_media_type_is_refused(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        status, problem, _ = await upload(api, PNG, "image")
        assert (status, problem["kind"]) == (400, "bad_request")
        assert "'image' is not a media type" in problem["detail"]


async def test_the_model_is_given_the_bytes_of_a_file_that_was_uploaded(
    db: Database, clock: Clock
) -> None:
    asked: list[Request] = []

    def see(request: Request) -> str:
        asked.append(request)
        return "nice"

    async with serving_api(db, [agent([see], clock)], clock=clock) as api:
        file = (await upload(api, PNG, name="pic.png")).body
        parts = [{"type": "text", "text": "look"}, {"type": "file", "file": file["id"]}]
        chat = (await api.post("/chats", {"prompt": parts})).body
        await api.rest(chat["id"])
        (message, _) = (await api.get(f"/chats/{chat['id']}/messages")).body["messages"]
        kept = message["message"]["parts"][1]
        assert "data" not in kept
        assert kept["ref"] == f"holdfast:{file['id']}"
        sent = asked[0].messages[0].parts[1]
        assert isinstance(sent, File)
        assert (sent.data, sent.media_type, sent.name) == (PNG, "image/png", "pic.png")


# --- deleting ---


async def blobs(db: Database) -> int:
    async def count(tx: Tx) -> Any:
        return await tx.one("SELECT count(*) FROM blobs")

    return int((await db.read(count))[0])


async def test_a_file_is_deleted_by_its_owner_and_its_bytes_with_the_last_that_has_them(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        mine = (await upload(api, PNG)).body["id"]
        other = api.of("bob")
        theirs = (await upload(other, PNG)).body["id"]
        assert (await api.delete(f"/files/{theirs}")).status == 404
        assert (await api.delete(f"/files/{mine}"))[:2] == (204, None)
        assert (await api.get(f"/files/{mine}")).status == 404
        assert (await api.delete(f"/files/{mine}")).body["kind"] == "file_not_found"
        assert (await other.get(f"/files/{theirs}")).body == PNG
        assert await blobs(db) == 1
        assert (await other.delete(f"/files/{theirs}")).status == 204
        assert await blobs(db) == 0
        assert (await upload(api, PNG)).status == 201


@pytest.mark.parametrize("where", ["message", "queue"])
async def test_a_file_that_a_chat_refers_to_is_not_deleted(
    db: Database, clock: Clock, where: str
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock, worker=None) as api:
        id = (await upload(api, PNG)).body["id"]
        said = {"prompt": [{"type": "file", "file": id}]}
        if where == "queue":
            chat = (await api.post("/chats", {"prompt": "hi"})).body["id"]
            await api.post(f"/chats/{chat}/messages", said)
        else:
            chat = (await api.post("/chats", said)).body["id"]
        status, problem, _ = await api.delete(f"/files/{id}")
        assert (status, problem["kind"]) == (409, "file_in_use")
        assert problem["facts"] == {"id": id, "chats": [chat]}
        await api.post(f"/chats/{chat}/interrupt")
        mentioned = (await upload(api, b"other")).body["id"]
        await api.post("/chats", {"prompt": f"what is holdfast:{mentioned}?"})
        assert (await api.delete(f"/files/{mentioned}")).status == 204


def giving(id: str) -> Tool:
    @tool(effect="once", parallel=True)
    def show() -> File:
        """Show a file."""
        return File("image/png", ref=f"holdfast:{id}")

    return show


async def test_a_file_that_only_the_result_of_a_tool_names_is_not_deleted(
    db: Database, clock: Clock
) -> None:
    script = [call("show"), "There it is."]
    await db.write(lambda tx: add_file(tx, "f1", "ann", "hash", PNG, "image/png", None))
    agents = [agent(script, clock, tools=[giving("f1")])]
    async with serving_api(db, agents, clock=clock) as api:
        chat = (await api.post("/chats", {"prompt": "hi"})).body["id"]
        await api.rest(chat)
        status, problem, _ = await api.delete("/files/f1")
        assert (status, problem["kind"]) == (409, "file_in_use")
        assert problem["facts"]["chats"] == [chat]
        data = (await api.get(f"/chats/{chat}/export")).body
        await api.delete(f"/chats/{chat}")
        assert (await api.delete("/files/f1")).status == 204
        made = (await restored(api, data)).body["id"]
        (again,) = (await api.get("/files")).body["files"]
        status, problem, _ = await api.delete(f"/files/{again['id']}")
        assert (status, problem["facts"]["chats"]) == (409, [made])


async def restored(api: Api, data: bytes) -> Answer:
    media = {"Content-Type": "application/x-ndjson"}
    return await api.ask("POST", "/chats/import", data, headers=media)


async def test_a_file_in_a_result_that_waits_for_others_is_not_deleted(
    db: Database, clock: Clock
) -> None:
    @tool(effect="once", parallel=True)
    async def wait() -> None:
        """Wait."""
        await anyio.sleep_forever()

    script = [[call("show"), call("wait")]]
    await db.write(lambda tx: add_file(tx, "f1", "ann", "hash", PNG, "image/png", None))
    agents = [agent(script, clock, tools=[giving("f1"), wait])]
    async with serving_api(db, agents, clock=clock) as api:
        chat = (await api.post("/chats", {"prompt": "hi"})).body["id"]
        await anyio.sleep(1)
        assert (await api.get(f"/chats/{chat}")).body["messages"] == 2
        status, problem, _ = await api.delete("/files/f1")
        assert (status, problem["facts"]["chats"]) == (409, [chat])
        await api.post(f"/chats/{chat}/interrupt")
        await api.rest(chat)


@pytest.mark.parametrize("looked", [True, False])
async def test_a_file_is_not_deleted_because_the_clock_was_set_back_before_it_was_named(
    db: Database, clock: Clock, looked: bool
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock, worker=None) as api:
        id = (await upload(api, PNG)).body["id"]
        clock.advance(-30)
        await api.post("/chats", {"prompt": [{"type": "file", "file": id}]})
        clock.advance(300)
        with pytest.raises(FileInUse):
            if looked:
                await db.read(lambda tx: refuse_in_use(tx, "ann", id))
            await db.write(lambda tx: delete_file(tx, "ann", id))


async def test_a_file_that_is_named_while_it_is_looked_for_is_not_deleted(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock, worker=None) as api:
        id = (await upload(api, PNG)).body["id"]
        chat = (await api.post("/chats", {})).body["id"]
        clock.advance(200)

        async def late(*args: Any) -> Any:
            await api.post(f"/chats/{chat}/messages", {"prompt": [{"type": "file", "file": id}]})
            return await once(*args)

        monkeypatch.setattr(routes.files, "once", late)
        status, problem, _ = await api.delete(f"/files/{id}")
        assert (status, problem["kind"]) == (409, "file_in_use")
        assert (await api.get(f"/files/{id}")).status == 200


@pytest.mark.parametrize("how", ["create", "fork", "send", "edit", "queue", "edit queued"])
async def test_a_file_that_is_deleted_before_it_is_named_refuses_the_message(
    db: Database, clock: Clock, how: str
) -> None:
    gone = [File("image/png", ref="holdfast:gone")]
    async with serving_api(db, [agent(["hello"], clock)], clock=clock, worker=None) as api:
        chats, host = Chats(db, clock), api.host
        await (chats.running("c1") if "queue" in how else chats.idle("c1"))
        chat = await host.chat("c1")
        waiting = await chat.send("wait") if how == "edit queued" else None
        before = await chats.everything()
        with pytest.raises(FileNotFound, match="no file 'gone'"):
            match how:
                case "create":
                    await host.create(gone)
                case "fork":
                    await chat.fork(1, gone)
                case "edit":
                    await chat.edit(1, gone)
                case "edit queued":
                    assert waiting is not None
                    assert waiting.queued is not None
                    await chat.queue.edit(waiting.queued, gone)
                case _:
                    await chat.send(gone)
        assert await chats.everything() == before


async def test_a_file_that_is_named_and_deleted_at_once_is_one_of_the_two(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock, worker=None) as api:
        for _ in range(20):
            id = (await upload(api, PNG)).body["id"]
            status: dict[str, int] = {}

            async def name(id: str, status: dict[str, int]) -> None:
                said = {"prompt": [{"type": "file", "file": id}]}
                status["named"] = (await api.post("/chats", said)).status

            async def delete(id: str, status: dict[str, int]) -> None:
                status["deleted"] = (await api.delete(f"/files/{id}")).status

            async with anyio.create_task_group() as group:
                group.start_soon(name, id, status)
                group.start_soon(delete, id, status)
            assert (status["named"], status["deleted"]) in ((201, 409), (404, 204))


async def test_a_file_can_be_deleted_when_its_chat_is_gone(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["nice"], clock)], clock=clock) as api:
        id = (await upload(api, PNG)).body["id"]
        chat = (await api.post("/chats", {"prompt": [{"type": "file", "file": id}]})).body["id"]
        await api.rest(chat)
        assert (await api.delete(f"/files/{id}")).status == 409
        await api.delete(f"/chats/{chat}")
        assert (await api.delete(f"/files/{id}")).status == 204


async def test_nobody_stores_more_than_their_quota(db: Database, clock: Clock) -> None:
    limits = ServerLimits(quota=1000)
    async with serving_api(db, [agent((), clock)], clock=clock, limits=limits) as api:
        first = (await upload(api, bytes(600))).body["id"]
        status, problem, _ = await upload(api, bytes(401))
        assert (status, problem["kind"]) == (413, "quota_exceeded")
        assert problem["facts"] == {"limit": 1000, "used": 600, "size": 401}
        assert "600 of 1000 bytes" in problem["detail"]
        assert (await upload(api, bytes(400))).status == 201
        assert (await upload(api.of("bob"), bytes(1000))).status == 201
        page = (await api.get("/files")).body
        assert (page["used"], page["quota"]) == (1000, 1000)
        await api.delete(f"/files/{first}")
        assert (await upload(api, bytes(600))).status == 201


async def test_bytes_that_are_deleted_while_they_are_given_again_are_there(
    postgres_url: str, clock: Clock
) -> None:
    """Two sessions of the database, in every order that they can have."""
    hash = sha256(PNG).hexdigest()

    async def add(id: str, tx: Tx) -> None:
        await add_file(tx, id, "a", hash, PNG, "image/png", None)

    async def delete(id: str, tx: Tx) -> None:
        await delete_file(tx, "a", id)

    async with open_postgres(postgres_url, now=clock.now, probe=None) as db:
        for n in range(20):
            old, new = f"old{n}", f"new{n}"
            await db.write(partial(add, old))
            async with anyio.create_task_group() as group:
                group.start_soon(db.write, partial(delete, old))
                group.start_soon(db.write, partial(add, new))
            assert await db.read(lambda tx: read_data(tx, hash)) == PNG
            await db.write(partial(delete, new))


async def test_what_can_be_read_can_be_asked_about(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        id = (await upload(api, PNG)).body["id"]
        status, body, headers = await api.ask("HEAD", f"/files/{id}")
        assert (status, body, headers["Content-Length"]) == (200, None, str(len(PNG)))
        assert (await api.ask("HEAD", "/healthz", prefix="")).status == 200
        assert (await api.ask("HEAD", "/files/nothing")).status == 404
        status, _, headers = await api.ask("HEAD", "/stream")
        assert (status, headers["Allow"]) == (405, "GET")
        assert (await api.of("").ask("HEAD", "/chats")).status == 401
