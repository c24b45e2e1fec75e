"""Requests that nobody would think of, made from the API's own description of itself.

None makes the server fail, each answer is as it is described, and what the description does not
allow is refused.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import jsonschema_rs
import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import (
    content_type_conformance,
    negative_data_rejection,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.core.failures import FailureGroup
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.definitions import OPENAPI_31

from holdfast.agent import Agent
from holdfast.kernel.ports import Ports
from holdfast.providers.demo import Demo
from holdfast.server.identity.api_tokens import NewToken, issue
from holdfast.server.routes.health import document
from holdfast.store.database import Tx
from holdfast.store.url import open_database
from tests.server.api import USER, serving_api

EXAMPLES: Final = 4
"""Of each operation, in each of the two modes."""
CHECKS: Final = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
ENDLESS: Final = ("/api/v1/stream", "/api/v1/chats/{chat}/stream")
"""Streams say something for as long as they are listened to: they have tests of their own."""
LONGEST: Final = 8_000
"""Of an address: what is longer never comes to the API, since HTTP itself refuses it."""
HEADERS: Final = {USER: "ann:admin"}


@contextmanager
def served(url: str) -> Iterator[str]:
    """The URL of a server with a worker, in a thread of its own."""
    ready = threading.Event()
    held: dict[str, Any] = {}

    async def serve() -> None:
        held["loop"], held["end"] = asyncio.get_running_loop(), asyncio.Event()
        world = Ports()
        agent = Agent(model=Demo(pace=0))
        async with open_database(url, now=world.now) as db:
            await db.write(add_user)
            async with serving_api(db, [agent], world=world) as api:
                held["url"] = api.url
                ready.set()
                await held["end"].wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(30)
        yield held["url"]
    finally:
        held["loop"].call_soon_threadsafe(held["end"].set)
        thread.join(30)


def described() -> Sequence[Any]:
    """All that ends, without who may ask: here everybody says who they are in another way."""
    whole = msgspec.json.decode(msgspec.json.encode(document()))
    del whole["components"]["securitySchemes"]
    for path, methods in tuple(whole["paths"].items()):
        if path in ENDLESS:
            del whole["paths"][path]
        for one in methods.values():
            del one["security"]
    schema: Any = schemathesis.openapi.from_dict(whole)
    return [found.ok() for found in schema.get_all_operations()]


async def add_user(tx: Tx) -> None:
    """Who asks, with the token that is shown."""
    await tx.execute(
        f"INSERT INTO users (id, name, role, created_at) VALUES "
        f"('ann', 'ann', 'admin', {tx.dialect.now})"
    )
    await issue(tx, NewToken(id="test", user="ann", name="x", secret="hf_ann", lifetime=None))


@schemathesis.serializer("application/x-ndjson")
def lines(context: Any, value: Any) -> Any:
    """Whatever it makes up, as a line."""
    return value if isinstance(value, bytes) else msgspec.json.encode(value)


def seeded(url: str) -> Mapping[str, list[str]]:
    """Things that are there, so that not every request is about nothing."""
    with requests.Session() as session:
        session.headers.update(HEADERS)
        chats = [
            session.post(f"{url}/api/v1/chats", json={"prompt": "hello", "title": "one"}),
            session.post(f"{url}/api/v1/chats", json={}),
        ]
        files = [session.post(f"{url}/api/v1/files", data=b"x")]
        return {
            "chat": [made.json()["id"] for made in chats],
            "id": [made.json()["id"] for made in files],
            "number": ["1"],
        }


def made_up(operation: Any, mode: GenerationMode) -> list[Any]:
    """Requests for an operation: as it is described, or not."""
    cases: list[Any] = []

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def take(case: Any) -> None:
        cases.append(case)

    try:
        take()
    except Unsatisfiable:
        assert mode.is_negative  # it takes nothing that could be wrong
    return cases


@pytest.fixture(scope="module")
def cases() -> Sequence[tuple[GenerationMode, Any]]:
    """Made once for both databases: to make them up takes longer than to ask."""
    operations = described()
    assert len(operations) > 40
    return [(m, case) for one in operations for m in GenerationMode for case in made_up(one, m)]


def asked(
    case: Any,
    mode: GenerationMode,
    url: str,
    known: Mapping[str, list[str]],
    dice: Random,
    session: requests.Session,
) -> None:
    names = case.path_parameters or {}
    real = {name: dice.choice(known[name]) for name in names if name in known}
    real = {name: value for name, value in real.items() if dice.random() < 0.7}
    wrong = mode.is_negative and not real
    case.path_parameters = {**names, **real}
    response = case.call(base_url=url, session=session, headers=HEADERS, timeout=20)
    case.path_parameters = names  # for the other database
    if len(response.request.url) > LONGEST:
        return
    case.validate_response(
        response, checks=[*CHECKS, negative_data_rejection] if wrong else list(CHECKS)
    )


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_no_request_makes_the_server_fail(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    cases: Sequence[tuple[GenerationMode, Any]],
    kind: str,
) -> None:
    url = f"sqlite:///{tmp_path}/chats.db"
    if kind == "postgres":
        url = request.getfixturevalue("postgres_url")
    wrong, dice = [], Random(1)
    with served(url) as base, requests.Session() as session:
        known = seeded(base)
        for mode, case in cases:
            try:
                asked(case, mode, base, known, dice, session)
            except FailureGroup as failures:
                wrong.append(str(failures))
    assert wrong == []


def test_the_description_is_valid_openapi() -> None:
    whole = msgspec.json.decode(msgspec.json.encode(document()))
    wrong = jsonschema_rs.validator_for(OPENAPI_31).iter_errors(whole)
    assert [(error.instance_path, error.message) for error in wrong] == []
