"""Files over HTTP: given once, kept once, shown to nobody else, and safe to open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

import pytest

from holdfast.kernel.messages import File
from holdfast.kernel.model import Request
from holdfast.server.app import Limits
from holdfast.store.database import Database, Tx
from holdfast.testing import Clock
from tests.server.kit import Answer, Api, agent, serving_api

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
        assert (await other.get("/files")).body == {"files": [], "next": None}
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
    limits = Limits(file=1000)
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
        assert "'image' is no media type" in problem["detail"]


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
