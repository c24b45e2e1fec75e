"""The doctor finds what people broke by hand, names the row, and finds nothing else.

Every broken database was made by transitions, and then changed by a person who had taken the guards
of the database away.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from msgspec import structs

from holdfast.chat import doctor
from holdfast.chat.doctor import Finding
from holdfast.chat.history_invariants import Walk, checkpoints
from holdfast.chat.rows import Status, fence_of
from holdfast.chat.state_machine import Transition
from holdfast.chat.transitions import lifecycle, runner, user
from holdfast.chat.transitions.claims import MAX_CRASHES
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.kernel.messages import Message, Part, ToolResult, results_message
from holdfast.kernel.model_context import NO_RESULT, Projection, Trim, view, whole_pairs
from holdfast.store.database import Database, Unavailable
from holdfast.testing import Clock
from tests.chat.broken import (
    BROKEN,
    Given,
    asking,
    charged,
    idle,
    partial_answer,
    queued,
    started,
    waiting_for_child,
    worked,
)
from tests.chat.cells import ACTS, ACTS_FOR, CELLS, bring
from tests.chat.chats import FAILURE, LEASE, TABLES, Chats, answer, asks, leftover, made, prompt
from tests.databases import Databases, OpenDatabase
from tests.kernel import histories

ByHand = Callable[..., Awaitable[None]]


@pytest.fixture
def unguarded() -> set[str]:
    """The databases whose checks are gone, by their URL."""
    return set()


@pytest.fixture
def postgres_url(
    databases: Databases, postgres_template: str, unguarded: set[str]
) -> Iterator[str]:
    """Of a database that no other test gets when it has lost its checks."""
    name = databases.take(postgres_template)
    yield databases.url(name)
    (databases.drop if databases.url(name) in unguarded else databases.give)(name)


@pytest.fixture
def by_hand(
    request: pytest.FixtureRequest, db: Database, tmp_path: Path, unguarded: set[str]
) -> ByHand:
    """Runs SQL as a person might who takes every guard away that is in the way."""
    if db.dialect.name == "sqlite":
        return partial(_by_hand_on_sqlite, tmp_path / "chats.db")
    return partial(_by_hand_on_postgres, request.getfixturevalue("postgres_url"), unguarded)


async def _by_hand_on_sqlite(path: Path, *statements: str) -> None:
    import apsw

    connection = apsw.Connection(str(path))
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.pragma("ignore_check_constraints", True)
    for statement in statements:
        connection.execute(statement)
    connection.close()


NO_CHECKS: Final = """
DO $$
DECLARE each record;
BEGIN
    FOR each IN SELECT conname, conrelid::regclass::text AS name FROM pg_constraint
                 WHERE contype = 'c' AND connamespace = 'public'::regnamespace
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', each.name, each.conname);
    END LOOP;
END $$;
"""


async def _by_hand_on_postgres(url: str, unguarded: set[str], *statements: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    # Neither triggers nor foreign keys.
    await connection.execute("SET session_replication_role = replica")
    for statement in statements:
        try:
            await connection.execute(statement)
        except asyncpg.CheckViolationError:
            unguarded.add(url)
            await connection.execute(NO_CHECKS)
            await connection.execute(statement)
    await connection.close()


async def findings_in(db: Database) -> list[Finding]:
    async with aclosing(doctor.examine(db)) as findings:
        return [finding async for finding in findings]


async def findings_of_chat(db: Database, chat: str = "c1") -> list[str]:
    """What is found of a chat."""
    findings = [str(finding) for finding in await findings_in(db) if finding.chat == chat]
    return [finding.replace(f"chat {chat}, ", "") for finding in findings]


# --- A healthy database -------------------------------------------------------------------------

BY_A_RUNNER_THAT_IS_WRONG: Final = frozenset({Transition.COMMIT_STEP})
"""The test of the table has it answer while calls are open. No run does."""


@pytest.mark.parametrize("status", Status)
async def test_nothing_is_found_wherever_the_table_leads_to(chats: Chats, status: Status) -> None:
    for number, each in enumerate(CELLS):
        start, transition, outcome = each
        if start is status and transition not in BY_A_RUNNER_THAT_IS_WRONG:
            chat = await bring(chats, f"c{number}", start, transition, outcome)
            await ACTS_FOR.get(each, ACTS[transition])(chats, chat)
    await doctor.check(chats.db)


async def test_nothing_is_found_in_an_empty_database(db: Database) -> None:
    assert await findings_in(db) == []
    assert await doctor.count(db) == 0


async def test_nothing_is_found_in_copies(chats: Chats) -> None:
    await worked(chats, "edited")
    await chats.do(user.edit, "edited", 1, prompt("I meant this"))
    await chats.do(lifecycle.fork, "edited", 5, NewChat(id="fork", agent="agent", message=None))
    await worked(chats, "worked")
    await chats.do(lifecycle.fork, "worked", 4, NewChat(id="used", agent="agent", message=None))
    await asking(chats, "asking")
    await chats.do(lifecycle.fork, "asking", 2, NewChat(id="cut", agent="agent", message=None))
    await doctor.check(chats.db)
    assert await doctor.count(chats.db) == 6


async def test_nothing_is_found_in_chats_that_were_stopped(chats: Chats) -> None:
    interrupted = await chats.interrupting("settled", calls={"a": "started", "b": "recorded"})
    half = answer("so fa", asks("c"))
    left = leftover(results=(made("a"),))
    await chats.do(runner.settle, fence_of(interrupted), left, histories.marker())
    failing = await chats.running("failed")
    for_people = structs.replace(half, visibility="user")
    await chats.do(runner.fail, fence_of(failing), FAILURE, for_people)
    await chats.running("poison", calls={"a": "started"})
    for worker in range(MAX_CRASHES):
        chats.clock.advance(LEASE)
        await chats.claim(worker=f"dead {worker}")
    assert (await chats.row("poison")).status is Status.ERROR
    await doctor.check(chats.db)


async def test_nothing_is_found_in_a_family_that_is_put_away(chats: Chats) -> None:
    await waiting_for_child(chats, "parent")
    await chats.rest("child")
    await chats.claim("urgent")
    await chats.do(runner.expire, fence_of(await chats.row("parent")))
    await chats.rest("parent")
    await chats.do(lifecycle.archive, "parent")
    await doctor.check(chats.db)


# --- What people break --------------------------------------------------------------------------


def begins(findings: Sequence[str], beginnings: Sequence[str]) -> bool:
    """Return whether these are the findings, given by the beginning of each."""
    pairs = zip(findings, beginnings, strict=False)
    return len(findings) == len(beginnings) and all(one.startswith(begin) for one, begin in pairs)


@pytest.mark.parametrize("invariants", BROKEN)
async def test_what_a_person_broke_is_found_and_named(
    chats: Chats, by_hand: ByHand, invariants: str
) -> None:
    for name, case in BROKEN[invariants].items():
        await case.given(chats)
        await doctor.check(chats.db)
        await by_hand(*case.by_hand)
        findings = await findings_of_chat(chats.db)
        assert begins(findings, case.said), (name, findings)
        await by_hand(*(f"DELETE FROM {table}" for table in TABLES))


async def test_a_check_lists_everything_that_it_found(chats: Chats, by_hand: ByHand) -> None:
    await chats.idle("c1")
    await chats.idle("c2")
    await by_hand("UPDATE chats SET runnable_since = 1")
    with pytest.raises(AssertionError) as failure:
        await doctor.check(chats.db)
    assert str(failure.value).splitlines() == [
        "the doctor has 2 findings:",
        "invariant 17: chat c1, runnable_since: it waits for a worker, and is idle",
        "invariant 17: chat c2, runnable_since: it waits for a worker, and is idle",
    ]


async def test_chats_beyond_the_first_page_are_looked_at(
    chats: Chats, by_hand: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "IDS_PER_QUERY", 2)
    ids = [f"c{number}" for number in range(5)]
    for id in ids:
        await chats.create(id)
    await by_hand("UPDATE chats SET runnable_since = NULL")
    assert [finding.chat for finding in await findings_in(chats.db)] == ids


async def test_a_chat_that_is_deleted_meanwhile_is_passed_over(
    chats: Chats, by_hand: ByHand
) -> None:
    for id in ("c1", "c2", "c3"):
        await chats.create(id)
    await by_hand("UPDATE chats SET runnable_since = NULL")
    async with aclosing(doctor.examine(chats.db)) as findings:
        assert (await anext(findings)).chat == "c1"
        await by_hand("DELETE FROM messages WHERE chat_id = 'c2'")
        await by_hand("DELETE FROM chats WHERE id = 'c2'")
        assert [finding.chat async for finding in findings] == ["c3"]


async def test_a_database_that_is_not_there_is_no_finding(open_db: OpenDatabase) -> None:
    async with open_db() as db:
        pass
    with pytest.raises(Unavailable):
        await doctor.check(db)


async def test_a_database_that_goes_away_is_no_finding(chats: Chats, by_hand: ByHand) -> None:
    await chats.create("c1")
    await chats.create("c2")
    await by_hand("UPDATE chats SET runnable_since = NULL")
    async with aclosing(doctor.examine(chats.db)) as findings:
        assert (await anext(findings)).chat == "c1"
        await chats.db.close()  # type: ignore[attr-defined]
        with pytest.raises(Unavailable):
            await anext(findings)


@pytest.mark.parametrize(
    ("table", "given"),
    [
        ("messages", idle),
        ("queue", queued),
        ("tool_calls", started),
        ("awaited", waiting_for_child),
        ("partials", partial_answer),
        ("usage", charged),
    ],
)
async def test_rows_that_outlived_their_chat_are_found(
    chats: Chats, by_hand: ByHand, table: str, given: Given
) -> None:
    await given(chats)
    await by_hand("DELETE FROM chats")
    lost = [finding.where for finding in await findings_in(chats.db) if finding.chat == "c1"]
    assert table in lost


async def test_a_worker_whose_agents_nobody_can_read_is_found(
    chats: Chats, by_hand: ByHand
) -> None:
    await chats.beat("w1")
    await by_hand("UPDATE workers SET agents = 'all'")
    (finding,) = await findings_in(chats.db)
    assert str(finding).startswith("invariant 17: worker w1: its agents cannot be read: ")


async def test_a_request_that_was_carried_out_and_not_answered_is_found(
    chats: Chats, by_hand: ByHand
) -> None:
    await by_hand("INSERT INTO requests VALUES ('ann', 'k1', 'f', '', NULL, 0)")
    (finding,) = await findings_in(chats.db)
    assert (finding.invariant, finding.chat, finding.where) == (10, "", "key k1")


# --- What only SQLite can hold ------------------------------------------------------------------


@pytest.fixture
async def sqlite(tmp_path: Path, clock: Clock) -> AsyncIterator[Chats]:
    from holdfast.store.sqlite.database import open_sqlite

    path = tmp_path / "chats.db"
    async with open_sqlite(path, now=clock.now, thread=False) as db:
        yield Chats(db, clock)


async def test_a_text_that_is_no_text_is_found(sqlite: Chats, tmp_path: Path) -> None:
    await sqlite.idle("c1")
    await sqlite.idle("c2")
    await _by_hand_on_sqlite(
        tmp_path / "chats.db",
        "UPDATE messages SET body = CAST(x'ff' AS TEXT) WHERE chat_id = 'c1' AND number = 1",
        "UPDATE chats SET runnable_since = 1 WHERE id = 'c2'",
    )
    first, second = await findings_in(sqlite.db)
    assert str(first).startswith("invariant 1: chat c1, rows: a stored text is not UTF-8: ")
    assert (second.invariant, second.chat) == (17, "c2")


async def test_rows_that_point_to_nothing_are_counted(sqlite: Chats, tmp_path: Path) -> None:
    await sqlite.idle()
    await _by_hand_on_sqlite(
        tmp_path / "chats.db",
        "INSERT INTO usage VALUES ('c9', 'x', 'title', NULL, 0, 0, 0, 0, 0, NULL, 0)",
        "INSERT INTO usage VALUES ('c9', 'y', 'title', NULL, 0, 0, 0, 0, 0, NULL, 0)",
    )
    assert [str(finding) for finding in await findings_in(sqlite.db)] == [
        "invariant 5: the database: 2 of usage point to chats that are not there",
        "invariant 5: chat c9, usage: there are rows, and no such chat",
    ]


async def test_a_damaged_file_is_found_and_read_as_far_as_it_can_be(
    tmp_path: Path, clock: Clock
) -> None:
    from holdfast.store.sqlite.database import open_sqlite

    path = tmp_path / "chats.db"
    open_it = partial(open_sqlite, path, now=clock.now, thread=False)
    async with open_it() as db:
        chats = Chats(db, clock)
        for number in range(50):
            await chats.create(f"c{number}", "x" * 3_000)
    content = bytearray(path.read_bytes())
    half = len(content) // 2 // 4096 * 4096
    content[half:] = b"\xa5" * (len(content) - half)
    path.write_bytes(content)
    async with open_it() as db:
        findings = await findings_in(db)
    assert {finding.invariant for finding in findings} == {5}
    assert "it cannot be read to its end: " in findings[-1].description


# --- What depends on the history, of any history ------------------------------------------------


def complaints(history: Sequence[Message]) -> list[tuple[int, str, str]]:
    live = list(enumerate(history, start=1))
    walk = Walk()
    return [
        *(each for number, message in live for each in walk.add(number, message)),
        *checkpoints(live, walk),
    ]


@given(histories.conversations())
def test_nothing_is_found_in_what_a_run_may_produce(history: list[Message]) -> None:
    assert complaints(history) == []


def work(turns: int) -> int:
    """Functions that are called to look at a history with a call and a summary in each turn."""
    called = 0

    def count(*_: object) -> None:
        nonlocal called
        called += 1

    findings_of_chat = [
        message
        for turn in range(turns)
        for message in (
            prompt("?"),
            answer("let me see", asks(f"call {turn}")),
            results_message([made(f"call {turn}")]),
            histories.checkpoint(4 * turn, pinned=4 * turn - 4 if turn else None),
        )
    ]
    sys.setprofile(count)
    try:
        findings_in = complaints(findings_of_chat)
    finally:
        sys.setprofile(None)
    assert findings_in == []
    return called


def test_a_history_of_many_summaries_is_looked_at_once() -> None:
    assert work(400) < 5 * work(100)


@given(histories.histories)
def test_a_history_without_a_complaint_is_sent_as_it_is(history: list[Message]) -> None:
    """The other way round: whatever has to be repaired before it is sent is complained of."""
    if complaints(history):
        return
    trim = Trim(over=1_000_000, to=1_000_000)
    sent = Projection(history, trim).messages()
    kept = [part for message in sent for part in message.parts if not _made_up(part)]
    seen = [part for message in view(history, trim) for part in whole_pairs(message).parts]
    assert sorted(kept, key=repr) == sorted(seen, key=repr)


def _made_up(part: Part) -> bool:
    return isinstance(part, ToolResult) and part.text == NO_RESULT
