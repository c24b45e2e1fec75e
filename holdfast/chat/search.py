"""Full-text search over titles, prompts and answers.

A commit only marks a chat as changed. A search brings the index up to date first, so committed text
is found, and a step pays next to nothing for it. Words are split here, the same way for both
databases: case and accents are removed, and scripts written without spaces are split into pairs of
characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import takewhile
from typing import Any, Final

import anyio
from msgspec import Struct

from holdfast.chat.queries import fitting
from holdfast.chat.row_lock import lock_if_there
from holdfast.chat.rows import SELECT_MESSAGE, Stored, stored_of
from holdfast.store.database import Database, Tx

MOST_TEXT: Final = 100_000
"""Maximum number of indexed characters of a message. Databases limit the size of a word list."""
MOST_WORD: Final = 64
MOST_WORDS: Final = 20
"""Maximum number of words in a query."""
AT_ONCE: Final = 200
"""Messages indexed per transaction; commits to that chat wait for it."""
AT_ONCE_BYTES: Final = 8 * 1024 * 1024
"""Maximum size in bytes of these messages, unless one alone has more."""
PATIENCE: Final = 2.0
"""Seconds that a search waits for the index to catch up."""
SHOWN: Final = 3
"""Number of passages shown per chat."""
AROUND: Final = 80
"""Characters shown on each side of a match."""

_WORD: Final = re.compile(r"[^\W_]+")
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""Characters of scripts that put no spaces between words."""


class Piece(Struct, frozen=True, omit_defaults=True):
    """Text of a passage; `found` when it matches the query."""

    text: str
    found: bool = False


class Match(Struct, frozen=True):
    """A passage that matches the query."""

    number: int | None
    """Number of the message; None for the title."""
    snippet: tuple[Piece, ...]


# --- words ---------------------------------------------------------------------------------------


def words_of(text: str) -> list[str]:
    """Return the words by which a text is found, each once."""
    return list(dict.fromkeys(_words(text)))


def _words(text: str) -> Iterator[str]:
    text = text[:MOST_TEXT].casefold()
    if text.isascii():
        yield from (run[:MOST_WORD] for run in _WORD.findall(text))
        return
    plain = unicodedata.normalize("NFKD", text)[:MOST_TEXT]
    kept = "".join(sign for sign in plain if not unicodedata.combining(sign))
    for run in _WORD.findall(kept):
        if _UNSPACED.search(run):
            yield from (run[at : at + 2] for at in range(len(run)))
        else:
            yield run[:MOST_WORD]


class Looked(Struct, frozen=True):
    """A parsed query: passages must contain all words, the last one as a prefix."""

    words: tuple[str, ...]
    begins: str

    def finds(self, word: str) -> bool:
        """Return whether a word matches the query."""
        return any(one in self.words or one.startswith(self.begins) for one in words_of(word))

    @property
    def fts(self) -> str:
        """The query in SQLite's syntax. Words contain no character that is special there."""
        return " ".join((*(f'"{word}"' for word in self.words), f'"{self.begins}"*'))

    @property
    def tsquery(self) -> str:
        """The query in PostgreSQL's syntax."""
        return " & ".join((*(f"'{word}'" for word in self.words), f"'{self.begins}':*"))


def looked_for(text: str) -> Looked | None:
    """Parse a query; None when it contains no word."""
    words = words_of(text)[:MOST_WORDS]
    return Looked(tuple(words[:-1]), words[-1]) if words else None


# --- the index -----------------------------------------------------------------------------------


async def catch_up(db: Database, within: float = PATIENCE) -> bool:
    """Bring the index up to date with what is committed, newest chats first.

    False when that took more than so many seconds: the next call continues.
    """
    end = anyio.current_time() + within

    async def behind(tx: Tx) -> Sequence[Any]:
        """Read the ids of chats that changed since they were indexed."""
        return await tx.fetch("SELECT chat_id FROM unsearched ORDER BY chat_id DESC LIMIT 500")

    while rows := await db.read(behind):
        for (chat_id,) in rows:
            more = True
            while more:
                more = await db.write(partial(_read_on, chat_id))
                if anyio.current_time() >= end:
                    return not more and chat_id == rows[-1][0] and not await db.read(behind)
    return True


async def _read_on(chat_id: str, tx: Tx) -> bool:
    """Index the next messages of a chat; returns whether there are more."""
    if await lock_if_there(tx, chat_id) is None:
        return False
    given: dict[str, Any] = {"id": chat_id}
    row = await tx.one("SELECT number, titled FROM unsearched WHERE chat_id = :id", given)
    if row is None:
        return False  # a concurrent search was faster
    number, titled = row
    await tx.execute(
        """
        DELETE FROM passages
         WHERE chat_id = :id AND (number >= :from OR (:titled = 1 AND number = 0))
        """,
        {**given, "from": number, "titled": titled},
    )
    if titled:
        await _index_title(tx, chat_id)
    last = await _index_messages(tx, chat_id, number)
    if last is None:
        await tx.execute("DELETE FROM unsearched WHERE chat_id = :id", given)
        return False
    await tx.execute(
        "UPDATE unsearched SET number = :next, titled = 0 WHERE chat_id = :id",
        {**given, "next": last + 1},
    )
    return True


async def _index_title(tx: Tx, chat_id: str) -> None:
    row = await tx.one("SELECT title FROM chats WHERE id = :id", {"id": chat_id})
    if row is not None and row[0] is not None:
        await _add(tx, chat_id, [(0, row[0])])


INDEXED: Final = """
     WHERE chat_id = :id AND number >= :from AND superseded_at IS NULL
       AND kind IN ('prompt', 'answer') AND visibility <> 'model'
     ORDER BY number LIMIT :limit
    """


async def _index_messages(tx: Tx, chat_id: str, number: int) -> int | None:
    """Index messages; returns the number of the last one read, when there are more."""
    given: dict[str, Any] = {"id": chat_id, "from": number, "limit": AT_ONCE}
    near = await tx.fetch(f"SELECT number, octet_length(body) FROM messages {INDEXED}", given)
    count = fitting((length for _, length in near), AT_ONCE_BYTES)
    rows = await tx.fetch(f"{SELECT_MESSAGE} {INDEXED}", {**given, "limit": count})
    await _add(tx, chat_id, ((row[0], stored_of(chat_id, row).message.text) for row in rows))
    return rows[-1][0] if count < len(near) or count == AT_ONCE else None


async def _add(tx: Tx, chat_id: str, texts: Iterable[tuple[int, str]]) -> None:
    """Add messages to the index one after the other: on PostgreSQL this runs on the event loop, and
    splitting a long message into words takes several milliseconds."""
    insert = (
        "INSERT INTO passage_words (rowid, words) VALUES (:id, :words)"
        if tx.dialect.name == "sqlite"
        else "INSERT INTO passage_words (id, words)"
        " VALUES (:id, CAST(CAST(:words AS text) AS tsvector))"
    )
    for number, text in texts:
        words = " ".join(words_of(text))
        if not words:
            continue
        made = await tx.one(
            "INSERT INTO passages (chat_id, number) VALUES (:id, :number) RETURNING id",
            {"id": chat_id, "number": number},
        )
        if made is not None:
            await tx.execute(insert, {"id": made[0], "words": words})


# --- what is found -------------------------------------------------------------------------------


def condition(tx: Tx, looked: Looked) -> tuple[str, dict[str, Any]]:
    """Return the condition that a passage `p` matches the query, with its parameters."""
    if tx.dialect.name == "sqlite":
        found = "SELECT rowid FROM passage_words WHERE passage_words MATCH :looked"
        return f"p.id IN ({found})", {"looked": looked.fts}
    found = "SELECT id FROM passage_words WHERE words @@ CAST(CAST(:looked AS text) AS tsquery)"
    return f"p.id IN ({found})", {"looked": looked.tsquery}


async def matches(tx: Tx, chats: Sequence[str], looked: Looked) -> dict[str, tuple[Match, ...]]:
    """Read the matches in these chats: the title first, then the newest messages."""
    where, given = condition(tx, looked)
    rows = await tx.fetch(
        f"""
        SELECT chat_id, number
          FROM (SELECT p.chat_id, p.number, row_number() OVER
                       (PARTITION BY p.chat_id ORDER BY p.number = 0 DESC, p.number DESC) AS place
                  FROM passages p WHERE {tx.dialect.one_of("p.chat_id", "chats")} AND {where}) f
         WHERE place <= {SHOWN} ORDER BY chat_id, place
        """,
        {"chats": list(chats), **given},
    )
    found: dict[str, tuple[Match, ...]] = {}
    for chat_id, number in rows:
        text = await _text(tx, chat_id, number)
        match = Match(number or None, tuple(snippet(text, looked)))
        found[chat_id] = (*found.get(chat_id, ()), match)
    return found


async def _text(tx: Tx, chat_id: str, number: int) -> str:
    given = {"id": chat_id, "number": number}
    if number == 0:
        row = await tx.one("SELECT title FROM chats WHERE id = :id", {"id": chat_id})
        return (row[0] or "") if row is not None else ""
    row = await tx.one(f"{SELECT_MESSAGE} WHERE chat_id = :id AND number = :number", given)
    stored: Stored | None = None if row is None else stored_of(chat_id, row)
    return "" if stored is None else stored.message.text


def snippet(text: str, looked: Looked) -> Iterator[Piece]:
    """Return the text around the first match, with all matches marked."""
    plain = unicodedata.normalize("NFC", text[:MOST_TEXT])
    finds = lru_cache(None)(looked.finds)  # a long text contains each of its words many times
    words = _WORD.finditer(plain)
    found = next((word.span() for word in words if finds(word[0])), (0, 0))
    start, end = _cut(plain, max(0, found[0] - AROUND), found[0] + 2 * AROUND)
    shown = takewhile(lambda word: word.start() < end, words)
    more = [word.span() for word in shown if finds(word[0])]
    yield from _pieces(plain, start, end, [found, *more] if found[1] else [])


def _cut(text: str, start: int, end: int) -> tuple[int, int]:
    """Move a cut to a nearby space, so that it does not split a word."""
    if start > 0:
        blank = text.find(" ", start, start + AROUND // 2)
        start = blank + 1 if blank >= 0 else start
    if end < len(text):
        blank = text.rfind(" ", end - AROUND // 2, end)
        end = blank if blank >= 0 else end
    return start, min(end, len(text))


def _pieces(text: str, start: int, end: int, found: Iterable[tuple[int, int]]) -> Iterator[Piece]:
    at = start
    before, behind = "…" if start > 0 else "", "…" if end < len(text) else ""
    for first, last in found:
        if first < at or last > end:
            continue
        if first > at or before:
            yield Piece(before + text[at:first])
        yield Piece(text[first:last], found=True)
        at, before = last, ""
    if at < end or before or behind:
        yield Piece(before + text[at:end] + behind)
