"""Search: what is committed is found, by its words, and what is gone is not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from holdfast import tool
from holdfast.chat import search
from holdfast.chat.search import parse_query, snippet, words_of
from holdfast.store.database import Database, Tx
from holdfast.testing import Clock, call
from tests.server.api import Api, agent, serving_api
from tests.server.test_chats import pages
from tests.server.test_talking import begun

pytestmark = pytest.mark.usefixtures("each_server")


async def found(api: Api, q: str) -> list[str]:
    return [chat["id"] for chat in await pages(api, q=q, limit=1)]


def shown(pieces: Sequence[Any]) -> str:
    return "".join(f"[{p['text']}]" if p.get("found") else p["text"] for p in pieces)


async def test_titles_prompts_and_answers_are_found_with_a_snippet(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent(["The Zebra crosses", "no"], clock)], clock=clock) as api:
        one = await begun(api, "where is the giraffe?", title="A Walk in the ZOO")
        await api.rest(one)
        two = await begun(api.of("bob"), "zebra")
        await api.rest(two)
        for words in ("zebra", "ZEBR", "giraffe", "zoo", "walk zo", "the giraffe where"):
            assert await found(api, words) == [one], words
        for words in ("zebras", "zebra giraffe", "oo", "ebra"):
            assert await found(api, words) == [], words
        (chat,) = await pages(api, q="the")
        assert [(match["number"], shown(match["snippet"])) for match in chat["matches"]] == [
            (None, "A Walk in [the] ZOO"),
            (2, "[The] Zebra crosses"),
            (1, "where is [the] giraffe?"),
        ]


async def test_what_changes_is_found_as_it_is_now(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["first", "second"], clock)], clock=clock) as api:
        id = await begun(api, "apple", title="plum")
        await api.rest(id)
        assert await found(api, "apple") == await found(api, "plum") == [id]
        await api.patch(f"/chats/{id}/messages/1", {"prompt": "pear"})
        await api.patch(f"/chats/{id}", {"title": "cherry"})
        await api.rest(id)
        for gone in ("apple", "first", "plum"):
            assert await found(api, gone) == [], gone
        for now in ("pear", "second", "cherry"):
            assert await found(api, now) == [id], now
        await api.patch(f"/chats/{id}", {"title": None})
        assert await found(api, "cherry") == []
        copy = (await api.post(f"/chats/{id}/fork", {"number": 4})).body["id"]
        assert await found(api, "second") == [copy, id]
        await api.delete(f"/chats/{id}")
        assert await found(api, "second") == [copy]


async def test_what_only_tools_say_is_not_found(db: Database, clock: Clock) -> None:
    @tool
    async def weigh() -> str:
        """Weigh it."""
        return "123456"

    script = [call("weigh"), "done"]
    async with serving_api(db, [agent(script, clock, tools=[weigh])], clock=clock) as api:
        id = await begun(api)
        await api.rest(id)
        assert await found(api, "123456") == []
        assert await found(api, "done") == [id]


async def test_a_search_goes_with_the_other_filters(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        made = [
            (await api.post("/chats", {"title": f"same {n}", "labels": {"n": str(n % 2)}})).body
            for n in range(4)
        ]
        ids = [chat["id"] for chat in made]
        assert await found(api, "same") == ids[::-1]
        assert [c["id"] for c in await pages(api, q="same", label="n:1")] == [ids[3], ids[1]]
        await api.patch(f"/chats/{ids[3]}", {"archived": True})
        assert [c["id"] for c in await pages(api, q="same", archived=True)] == [ids[3]]


async def test_a_long_chat_is_read_in_several_transactions(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "INDEX_BATCH", 2)
    script = [f"word{n}" for n in range(5)]
    async with serving_api(db, [agent(script, clock)], clock=clock) as api:
        id = await begun(api, title="begin")
        await api.rest(id)
        for _ in range(4):
            await api.post(f"/chats/{id}/messages", {"prompt": "more"})
            await api.rest(id)
        for words in ("word0", "word2", "word4", "begin"):
            assert await found(api, words) == [id], words
        assert await db.read(partial(count, "unsearched")) == 0
        assert await db.read(partial(count, "passages")) == 11
        await api.delete(f"/chats/{id}")
        assert await db.read(partial(count, "passages")) == 0
        assert await db.read(partial(count, "passage_words")) == 0


async def test_a_search_that_has_much_to_catch_up_with_says_so_and_goes_on(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search.catch_up, "__defaults__", (0.0,))
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        ids = [(await api.post("/chats", {"title": "same"})).body["id"] for _ in range(3)]
        found = [(await api.get("/chats", q="same")).body for _ in range(4)]
        assert [len(page["chats"]) for page in found] == [1, 2, 3, 3]
        assert [page["complete"] for page in found] == [False, False, True, True]
        assert found[0]["chats"][0]["id"] == ids[-1]


async def count(table: str, tx: Tx) -> int:
    row = await tx.one(f"SELECT count(*) FROM {table}")
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("q", ['"', 'a" OR b*', "NEAR(a b)", "'", "a:b & !c | d", "col:x", "a'b\\"])
async def test_the_language_of_the_index_cannot_be_spoken(
    db: Database, clock: Clock, q: str
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        await api.post("/chats", {"title": "Or near"})
        status, body, _ = await api.get("/chats", q=q)
        assert status == (200 if words_of(q) else 400), body


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Über-Straße, naïve ﬁne", ["uber", "strasse", "naive", "fine"]),
        ("snake_case foo.com/x", ["snake", "case", "foo", "com", "x"]),
        ("東京都 a", ["東京", "京都", "都", "a"]),
        ("a A a", ["a"]),
        ("x" * 100, ["x" * 64]),
        ("!?", []),
    ],
)
def test_words_are_cut_without_case_and_accents(text: str, words: list[str]) -> None:
    assert words_of(text) == words


async def test_what_is_written_without_blanks_is_found_by_its_pieces(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        id = (await api.post("/chats", {"title": "私は東京都に住む"})).body["id"]
        for words in ("東京", "京都", "東", "む", "住む"):
            assert await found(api, words) == [id], words
        assert await found(api, "大阪") == []


def test_a_snippet_is_cut_around_what_was_found() -> None:
    looked = parse_query("needle")
    assert looked is not None
    text = " ".join(["hay"] * 100 + ["Needles"] + ["straw"] * 100)
    pieces = list(snippet(text, looked))
    assert [piece.text for piece in pieces if piece.found] == ["Needles"]
    assert pieces[0].text.startswith("…hay ")
    assert pieces[-1].text.endswith(" straw…")
    assert sum(len(piece.text) for piece in pieces) < 260


async def test_a_huge_message_is_kept_and_found_by_its_beginning(
    db: Database, clock: Clock
) -> None:
    huge = " ".join(["start", "w" * 5000, *(f"n{n}" for n in range(60_000))])
    async with serving_api(db, [agent([huge], clock)], clock=clock) as api:
        id = await begun(api)
        assert (await api.rest(id))["messages"] == 2
        assert await found(api, "start n9") == [id]
        assert await found(api, "n59999") == []
