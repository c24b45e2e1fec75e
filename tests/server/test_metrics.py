"""What Prometheus is told: the numbers of the process, and what the database says of all."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from holdfast.host import serving
from holdfast.observe.metrics import METRICS_MEDIA_TYPE, MetricRegistry
from holdfast.observe.metrics_observer import MetricsObserver
from holdfast.server.api_state import ApiState
from holdfast.server.app import application
from holdfast.store.database import Database, Transaction, Unavailable
from holdfast.store.metered import MeteredDatabase
from holdfast.testing import Clock, pause
from tests.server.api import Api, Named, agent, listening, serving_api, session

pytestmark = pytest.mark.usefixtures("each_server")

ROOT: Final = Path(__file__).resolve().parent.parent.parent


def numbers(text: bytes) -> dict[str, float]:
    told = [line for line in text.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in told)}


async def scraped(api: Api) -> dict[str, float]:
    answer = await api.of("root:admin").get("/metrics")
    assert answer.status == 200
    return numbers(answer.body)


async def test_a_process_tells_its_numbers_to_an_administrator(db: Database, clock: Clock) -> None:
    meters = MetricRegistry()
    timed = MeteredDatabase(db, meters)
    answers = agent(["Hi."], clock)
    async with serving(timed, [answers], titles=False, observer=MetricsObserver(meters)) as host:
        server = ApiState(host, timed, Named(timed), meters=meters)
        async with listening(application(server)) as url, session() as client:
            api = Api(url, client, server)
            chat = (await api.post("/chats", {"prompt": "hi"})).body["id"]
            await api.rest(chat)
            answer = await api.of("root:admin").ask("GET", "/metrics", prefix="")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == METRICS_MEDIA_TYPE
    told = numbers(answer.body)
    assert told['holdfast_turns_total{reason="stop"}'] == 1
    assert told["holdfast_claims_total"] == 1
    assert told["holdfast_live_workers"] == 1
    assert told["holdfast_database_up"] == 1
    assert told["holdfast_stream_readers"] == 0
    assert told['holdfast_database_seconds_count{kind="commit"}'] >= 1
    assert told['holdfast_database_seconds_count{kind="read"}'] >= 1
    assert told['holdfast_database_seconds_count{kind="write"}'] >= 1


async def test_the_document_names_every_meter_and_no_other(db: Database, clock: Clock) -> None:
    document = (ROOT / "docs" / "operations.md").read_text("utf-8")
    meters = MetricRegistry()
    timed = MeteredDatabase(db, meters)
    MetricsObserver(meters)
    async with serving_api(timed, [agent([], clock)], clock=clock) as api:
        api.server.meters = meters
        text = (await api.of("root:admin").get("/metrics")).body.decode()
    told = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    named = set(re.findall(r"^\| `(holdfast_\w+)` \|", document, re.MULTILINE))
    # Those of the relay are there where there are other replicas: tests/cli/test_cluster.py.
    assert {name for name in named if not name.startswith("holdfast_relay_")} == told


async def test_nobody_else_is_told(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent([], clock)], clock=clock) as api:
        assert (await api.get("/metrics")).status == 403
        assert (await api.of("").get("/metrics")).status == 401


async def test_what_waits_for_a_worker_is_counted(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent([], clock)], clock=clock, worker=None) as api:
        assert (await scraped(api))["holdfast_waiting_chats"] == 0
        chat = (await api.post("/chats", {"prompt": "hi"})).body["id"]
        await api.post("/chats", {"prompt": "hi"})
        for _ in range(3):
            await api.post(f"/chats/{chat}/messages", {"prompt": "and"})
        if db.dialect.name == "sqlite":  # PostgreSQL goes by its own clock
            clock.advance(90)
        told = await scraped(api)
    assert told["holdfast_waiting_chats"] == 2
    assert told["holdfast_queued_messages"] == 3
    assert told["holdfast_driven_chats"] == told["holdfast_live_workers"] == 0
    if db.dialect.name == "sqlite":
        assert 90 <= told["holdfast_longest_wait_seconds"] < 100


async def test_what_runs_is_counted_and_waits_no_more(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent([[pause(20), "Hi."]], clock)], clock=clock) as api:
        chat = (await api.post("/chats", {"prompt": "hi"})).body["id"]
        await anyio.sleep(5)
        told = await scraped(api)
        await api.rest(chat)
        after = await scraped(api)
    assert (told["holdfast_driven_chats"], told["holdfast_waiting_chats"]) == (1, 0)
    assert told["holdfast_longest_wait_seconds"] == 0
    assert after["holdfast_driven_chats"] == 0


async def test_a_reader_of_a_stream_is_counted(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent([], clock)], clock=clock, worker=None) as api:
        chat = (await api.post("/chats", {"prompt": "hi"})).body["id"]
        headers = {"X-Test-User": "ann"}
        url = f"{api.url}/api/v1/chats/{chat}/stream"
        async with api.session.get(url, headers=headers) as response:
            await response.content.readany()
            assert (await scraped(api))["holdfast_stream_readers"] == 1


async def test_a_database_that_does_not_answer_leaves_the_other_numbers(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent([], clock)], clock=clock, worker=None) as api:
        meters = MetricRegistry()
        broken = MeteredDatabase(db, meters)
        broken._db = _Refusing()  # type: ignore[assignment]
        api.server.db, api.server.meters = broken, meters
        told = await scraped(api)
    assert told["holdfast_database_up"] == 0
    assert told['holdfast_database_errors_total{kind="read"}'] == 1
    assert "holdfast_waiting_chats" not in told
    assert "holdfast_stream_readers" in told


class _Refusing:
    async def read(self, transaction: Transaction[Any], *, short: bool = False) -> Any:
        raise Unavailable("gone")
