"""Export and import over HTTP: what comes back is what was there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from random import Random
from typing import Any, Final

import aiohttp
import anyio
import pytest
from msgspec import structs

from holdfast.chat import doctor, handle, message_rows
from holdfast.chat.export import EXPORT_FORMAT
from holdfast.chat.files import add_file
from holdfast.chat.transitions import lifecycle
from holdfast.kernel.messages import File
from holdfast.kernel.model import Request
from holdfast.server.api_state import MAX_IMPORTS, ServerLimits
from holdfast.server.wire_format import API_PREFIX, from_json, to_json
from holdfast.store.database import Database, Tx, Unavailable
from holdfast.testing import Clock, call, ports, think
from tests.server.api import USER, Answer, Api, agent, serving_api
from tests.server.test_files import PNG, upload
from tests.server.test_talking import begun, waiting
from tests.test_host import ask_user

pytestmark = pytest.mark.usefixtures("each_server")

MEDIA = {"Content-Type": "application/x-ndjson"}


async def restore(api: Api, data: bytes, key: str | None = None, **query: Any) -> Answer:
    return await api.ask("POST", "/chats/import", data, query=query, headers=MEDIA, key=key)


async def messages(api: Api, id: str) -> list[Any]:
    found = (await api.get(f"/chats/{id}/messages", superseded=True)).body["messages"]
    for message in found:
        message.pop("revision")
    return found  # type: ignore[no-any-return]


async def test_an_import_has_the_same_history_as_what_was_exported(
    db: Database, clock: Clock
) -> None:
    script = [[think("hm"), "one \x00 \ud800"], "two", "three"]
    async with serving_api(db, [agent(script, clock)], clock=clock) as api:
        id = await begun(api, title="Old", labels={"a": "b"}, effort="low")
        await api.rest(id)
        await api.patch(f"/chats/{id}/messages/1", {"prompt": "again"})
        await api.rest(id)
        status, data, headers = await api.get(f"/chats/{id}/export")
        assert (status, headers["Content-Type"]) == (200, "application/x-ndjson; charset=utf-8")
        assert headers["Content-Disposition"] == f"attachment; filename*=UTF-8''chat-{id}.jsonl"
        other = api.of("bob")
        status, made, _ = await restore(other, data)
        assert status == 201
        same = ("title", "labels", "effort", "agent", "messages", "model")
        chat = (await api.get(f"/chats/{id}")).body
        assert {name: made[name] for name in same} == {name: chat[name] for name in same}
        assert (made["owner"], made["status"]) == ("bob", "idle")
        assert made["id"] != id
        assert await messages(other, made["id"]) == await messages(api, id)
        await other.post(f"/chats/{made['id']}/messages", {"prompt": "more"})
        assert (await other.rest(made["id"]))["messages"] == 6
        # The price was paid once.
        assert (await other.get(f"/chats/{made['id']}/usage")).body["calls"] <= 1


async def test_a_call_that_was_open_is_answered_in_the_import(db: Database, clock: Clock) -> None:
    script = [call("ask_user")]
    async with serving_api(db, [agent(script, clock, tools=[ask_user])], clock=clock) as api:
        id = await begun(api)
        assert len(await waiting(api, id)) == 1
        data = (await api.get(f"/chats/{id}/export")).body
        made = (await restore(api, data)).body
        assert (made["status"], made["messages"]) == ("idle", 3)
        assert (await messages(api, made["id"]))[:2] == await messages(api, id)


async def test_markdown_is_for_people(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["Hello"], clock)], clock=clock) as api:
        id = await begun(api, title="Greetings")
        await api.rest(id)
        status, data, headers = await api.get(f"/chats/{id}/export", format="markdown")
        assert (status, headers["Content-Type"]) == (200, "text/markdown; charset=utf-8")
        assert data.startswith(b"# Greetings\n")
        assert b"Hello" in data


async def test_another_agent_may_go_on(db: Database, clock: Clock) -> None:
    agents = [agent(["Hello"], clock), agent((), clock, name="other")]
    async with serving_api(db, agents, clock=clock) as api:
        id = await begun(api)
        await api.rest(id)
        data = (await api.get(f"/chats/{id}/export")).body
        assert (await restore(api, data, agent="other")).body["agent"] == "other"
        status, problem, _ = await restore(api, data, agent="nobody")
        assert (status, problem["kind"]) == (422, "invalid_input")


async def test_the_same_key_imports_once(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["Hello"], clock)], clock=clock) as api:
        id = await begun(api)
        await api.rest(id)
        data = (await api.get(f"/chats/{id}/export")).body
        first, again = [await restore(api, data, key="k") for _ in range(2)]
        assert first[:2] == again[:2]
        status, problem, _ = await restore(api, data + b"\n", key="k")
        assert (status, problem["kind"]) == (409, "key_reused")


async def test_an_import_is_read_and_encoded_beside_the_event_loop(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside: list[str] = []
    encoded: list[str] = []
    world = ports(clock=clock)
    row_of = message_rows.message_row

    def watched_row(*args: Any, **more: Any) -> dict[str, Any]:
        encoded.append(beside[-1])
        return row_of(*args, **more)

    async def in_thread(function: Callable[[], Any]) -> Any:
        beside.append("begins")
        done = await world.in_thread(function)
        beside.append("ends")
        return done

    watched = structs.replace(world, in_thread=in_thread)
    async with serving_api(db, [agent(["Hello"], clock)], world=watched) as api:
        id = await begun(api)
        await api.rest(id)
        data = (await api.get(f"/chats/{id}/export")).body
        assert beside == []
        monkeypatch.setattr(lifecycle, "message_row", watched_row)
        assert (await restore(api, data)).status == 201
        assert beside == ["begins", "ends"] * 2
        assert encoded == ["begins"] * 2
        assert (await restore(api, b"no json")).status == 422
        assert beside == [*["begins", "ends"] * 2, "begins"]


async def test_few_imports_are_in_memory_at_a_time(db: Database, clock: Clock) -> None:
    world, under_way, most = ports(clock=clock), 0, 0

    async def in_thread(function: Callable[[], Any]) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await anyio.sleep(1)
        under_way -= 1
        return await world.in_thread(function)

    watched = structs.replace(world, in_thread=in_thread)
    async with serving_api(db, [agent(["Hello"], clock)], world=watched) as api:
        id = await begun(api)
        await api.rest(id)
        data = (await api.get(f"/chats/{id}/export")).body
        made = await asyncio.gather(*(restore(api, data) for _ in range(6)))
        assert [one.status for one in made] == [201] * 6
        assert most == MAX_IMPORTS


async def test_an_import_does_not_wait_for_slow_uploads(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["Hello"], clock)], clock=clock) as api:
        id = await begun(api)
        await api.rest(id)
        data = (await api.get(f"/chats/{id}/export")).body
        begun_uploads, rest = anyio.Semaphore(0), anyio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield data[:10]
            begun_uploads.release()
            await rest.wait()
            yield data[10:]

        async def upload_slowly() -> int:
            url = f"{api.url}{API_PREFIX}/chats/import"
            headers = {**MEDIA, USER: api.user or ""}
            async with api.session.post(url, data=slow(), headers=headers) as response:
                return response.status

        uploads = [asyncio.create_task(upload_slowly()) for _ in range(MAX_IMPORTS)]
        for _ in uploads:
            await begun_uploads.acquire()
        assert (await restore(api, data)).status == 201
        assert [upload.result() for upload in uploads if upload.done()] == []
        rest.set()
        assert await asyncio.gather(*uploads) == [201] * MAX_IMPORTS


BROKEN: Final[Mapping[str, Callable[[str], str | bytes]]] = {
    "empty": lambda text: "",
    "no JSON": lambda text: "no json",
    "no UTF-8": lambda text: b"\xff",
    "of a later version": lambda text: text.replace(
        f'"format":{EXPORT_FORMAT}', f'"format":{EXPORT_FORMAT + 1}'
    ),
    "with a gap": lambda text: "\n".join((text.splitlines()[0], text.splitlines()[2])),
    "of the year 30000": lambda text: text.replace('"created_at":', '"created_at":9'),
    "with an impossible runtime": lambda text: text.replace(
        '"runtime":', '"runtime":9999999999999999'
    ),
    "counted backwards": lambda text: text.replace('"number":1', '"number":-1'),
    "of nobody": lambda text: text.replace('"role":"user"', '"role":"nobody"'),
    "too deep": lambda text: "[" * 100_000,
    "too deep inside": lambda text: text.replace(
        '"kind":"answer"', '"kind":"answer","metadata":' + '{"a":' * 9999 + "1" + "}" * 9999
    ),
    "with a title as long as a book": lambda text: text.replace(
        '"title":null', f'"title":"{"x" * 201}"'
    ),
    "with a title that is no text": lambda text: text.replace('"title":null', '"title":"\\u0000"'),
    "with too many labels": lambda text: text.replace(
        '"labels":{}', '"labels":{' + ",".join(f'"{n}":"x"' for n in range(33)) + "}"
    ),
    "with lines of another kind": lambda text: text.replace('"type":"message"', '"type":"else"'),
    "with two first lines": lambda text: text.splitlines()[0] + "\n" + text,
    "with a number that no database has": lambda text: text.replace(
        '"created_at":', '"created_at":99999999'
    ),
    "with a call that no database can hold": lambda text: text.replace(
        '"parts":[', '"parts":[{"type":"call","id":"a\\u0000","tool":"t","arguments":"{}"},', 1
    ),
    "with the name of a file that no database can hold": lambda text: text.replace(
        '"parts":[', '"parts":[{"type":"file","media_type":"a/b","ref":"holdfast:f\\u0000"},', 1
    ),
    "with a file that nobody names": lambda text: text + attached("f9"),
}


def attached(id: str = "f1", media: str = "image/png", data: str = "eA==", **more: Any) -> str:
    """A line for a file."""
    line = {"type": "file", "id": id, "media_type": media, "name": None, "data": data, **more}
    return f"{to_json(line).decode()}\n"


@pytest.mark.parametrize("how", BROKEN)
async def test_what_is_no_export_is_refused(db: Database, clock: Clock, how: str) -> None:
    async with serving_api(db, [agent(["Hello"], clock)], clock=clock) as api:
        id = await begun(api)
        await api.rest(id)
        good = (await api.get(f"/chats/{id}/export")).body.decode()
        bad = BROKEN[how](good)
        assert bad != good
        status, problem, _ = await restore(api, bad if isinstance(bad, bytes) else bad.encode())
        assert (status, problem["kind"]) in ((422, "invalid_body"), (422, "invalid_input"))
        assert len((await api.get("/chats")).body["chats"]) == 1


# --- files ---


async def with_files(api: Api) -> str:
    """A chat of Ann's that names one file twice, and another."""
    one, two = [(await upload(api, data, name="n")).body["id"] for data in (PNG, b"other")]
    named: list[Any] = [{"type": "file", "file": id} for id in (one, two)]
    id = await begun(api, named)
    await api.rest(id)
    await api.post(f"/chats/{id}/messages", {"prompt": named[:1]})
    await api.rest(id)
    return id


async def test_the_files_of_a_chat_go_with_it(db: Database, clock: Clock) -> None:
    asked: list[Request] = []

    def again(request: Request) -> str:
        asked.append(request)
        return "again"

    async with serving_api(db, [agent(["nice", "yes", again], clock)], clock=clock) as api:
        id = await with_files(api)
        data = (await api.get(f"/chats/{id}/export")).body
        lines: list[Any] = [from_json(line, Any) for line in data.splitlines()]
        assert [line["type"] for line in lines] == ["chat", *["message"] * 4, "file", "file"]
        await api.delete(f"/chats/{id}")
        for file in (await api.get("/files")).body["files"]:
            assert (await api.delete(f"/files/{file['id']}")).status == 204
        bob = api.of("bob")
        status, made, _ = await restore(bob, data)
        assert (status, made["messages"]) == (201, 4)
        files = (await bob.get("/files")).body["files"]
        assert {(file["size"], file["name"]) for file in files} == {(len(PNG), "n"), (5, "n")}
        old = {line["id"] for line in lines if line["type"] == "file"}
        assert not old & {file["id"] for file in files}
        await bob.post(f"/chats/{made['id']}/messages", {"prompt": "and now?"})
        await bob.rest(made["id"])
        parts = [part for message in asked[0].messages for part in message.parts]
        sent = [part.data for part in parts if isinstance(part, File)]
        assert sent == [PNG, b"other", PNG]


async def test_an_export_may_leave_the_bytes_out(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["nice", "yes"], clock)], clock=clock) as api:
        id = await with_files(api)
        data = (await api.get(f"/chats/{id}/export", files=False)).body
        assert f'"type":"chat","format":{EXPORT_FORMAT}'.encode() in data
        assert len(data.splitlines()) == 5
        status, _, headers = await api.ask("HEAD", f"/chats/{id}/export")
        assert (status, headers["Content-Type"]) == (200, "application/x-ndjson; charset=utf-8")


async def test_an_export_that_breaks_off_does_not_look_whole(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(tx: Tx, hash: str) -> bytes:
        raise Unavailable("the database is away")

    async with serving_api(db, [agent(["nice", "yes"], clock)], clock=clock) as api:
        id = await with_files(api)
        monkeypatch.setattr(handle, "find_data", lost)
        with pytest.raises(aiohttp.ClientError):
            await api.get(f"/chats/{id}/export")


async def test_who_leaves_in_the_middle_of_an_export_is_no_failure_of_ours(
    db: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving_api(db, [agent(["nice"], clock)], clock=clock) as api:
        data = bytes(20_000_000)
        await db.write(lambda tx: add_file(tx, "f1", "ann", "hash", data, "image/png", None))
        id = await begun(api, [{"type": "file", "file": "f1"}])
        await api.rest(id)
        url = f"{api.url}/api/v1/chats/{id}/export"
        async with api.session.get(url, headers={"X-Test-User": "ann"}) as response:
            await response.content.readany()
            response.close()
        await anyio.sleep(5)
        assert [record for record in caplog.records if record.levelname == "ERROR"] == []
        assert (await api.get(f"/chats/{id}")).status == 200


HOSTILE: Final[Mapping[str, Callable[[str], str]]] = {
    "twice": lambda text: text + text.splitlines()[-1],
    "of no media type": lambda text: text.replace('"image/png","name":"n","data"', '"x","data"'),
    "with a header in its media type": lambda text: text.replace(
        '"media_type":"image/png","name":"n","data"',
        '"media_type":"image/png\\r\\nX: y","name":"n","data"',
    ),
    "that is no base64": lambda text: text.replace('"data":"', '"data":"!'),
    "with a name as long as a book": lambda text: text.replace(
        '"name":"n","data"', f'"name":"{"x" * 256}","data"'
    ),
    "too large for the quota": lambda text: text.replace('"data":"', '"data":"' + "AAAA" * 500),
}


@pytest.mark.parametrize("how", HOSTILE)
async def test_a_file_that_cannot_be_kept_is_refused_and_nothing_is(
    db: Database, clock: Clock, how: str
) -> None:
    limits = ServerLimits(quota=1500)
    script = ["nice", "yes"]
    async with serving_api(db, [agent(script, clock)], clock=clock, limits=limits) as api:
        good = (await api.get(f"/chats/{await with_files(api)}/export")).body.decode()
        bad = HOSTILE[how](good)
        assert bad != good
        bob = api.of("bob")
        status, problem, _ = await restore(bob, bad.encode())
        kinds = ("invalid_body", "invalid_input", "quota_exceeded")
        assert problem["kind"] in kinds, problem
        assert status == (413 if problem["kind"] == "quota_exceeded" else 422)
        assert (await bob.get("/files")).body["files"] == []
        assert (await bob.get("/chats")).body["chats"] == []


async def test_an_import_opens_no_file_of_others(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["nice", "yes"], clock)], clock=clock) as api:
        id = await with_files(api)
        data = (await api.get(f"/chats/{id}/export", files=False)).body
        file = (await api.get("/files")).body["files"][0]["id"]
        bob = api.of("bob")
        made = (await restore(bob, data)).body
        assert (await bob.get(f"/chats/{made['id']}/files/{file}")).status == 404
        assert (await bob.get(f"/files/{file}")).status == 404
        exported = (await bob.get(f"/chats/{made['id']}/export")).body
        assert b'"type":"file","id"' not in exported


NASTY: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    2**70,
    1e308,
    "",
    "\x00",
    "x" * 10,
    [],
    {},
    [[]],
    {"type": "file"},
)


@pytest.mark.parametrize("seed", range(6))
async def test_an_export_in_which_anything_was_changed_is_taken_or_refused(
    db: Database, clock: Clock, seed: int
) -> None:
    script = [[think("hm"), call("ask_user")], "yes", "more"]
    async with serving_api(db, [agent(script, clock, tools=[ask_user])], clock=clock) as api:
        id = await begun(api, title="T", labels={"a": "b"})
        (action,) = await waiting(api, id)
        answer = {"answer": {"type": "result", "result": "me"}}
        await api.post(f"/chats/{id}/actions/{action['call']['id']}", answer)
        await api.rest(id)
        lines = (await api.get(f"/chats/{id}/export")).body.splitlines()
        random = Random(seed)
        for _ in range(40):
            values: list[Any] = [from_json(line, Any) for line in lines]
            _spoil(random, random.choice(values))
            data = b"\n".join(to_json(value) for value in values)
            status, made, _ = await restore(api, data)
            assert status in (201, 422), made
            if status == 201:
                assert (await api.get(f"/chats/{made['id']}/messages")).status == 200
                assert (await api.get(f"/chats/{made['id']}/export")).status == 200
    await doctor.check(db)


def _spoil(random: Random, value: Any) -> None:
    """Put something else in some place."""
    while True:
        places = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not places:
            return
        place = random.choice(places)
        if random.random() < 0.6 and isinstance(value[place], (dict, list)) and value[place]:
            value = value[place]
            continue
        if isinstance(value, dict) and random.random() < 0.2:
            del value[place]
        else:
            value[place] = random.choice(NASTY)
        return
