"""Finding chats by what is said in them: titles, prompts and answers.

A commit notes only that a chat changed. Whoever searches brings the index up to date first, so what
is committed is found, and a step pays next to nothing for it. Words are cut here, the same way for
both databases: without case and accents, and what is written without blanks in pairs of signs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import anyio
from msgspec import Struct

from holdfast.chat.locked import lock_if_there
from holdfast.chat.state import SELECT_MESSAGE, Stored, stored_of
from holdfast.store.database import Database, Tx

MOST_TEXT: Final = 100_000
"""Characters of a message that can be found. A database refuses a word list without bounds."""
MOST_WORD: Final = 64
MOST_WORDS: Final = 20
"""That are looked for at once."""
AT_ONCE: Final = 200
"""Messages that are read in one transaction: whoever commits to that chat waits for it."""
PATIENCE: Final = 2.0
"""Seconds that a search waits for the index."""
SHOWN: Final = 3
"""Passages of a chat that are shown."""
AROUND: Final = 80
"""Characters that are shown on each side of what was found."""

_WORD: Final = re.compile(r"[^\W_]+")
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""Signs of scripts that put no blanks between words."""


class Piece(Struct, frozen=True, omit_defaults=True):
    """Text of a passage; `found` when it is what was looked for."""

    text: str
    found: bool = False


class Match(Struct, frozen=True):
    """Where something was found."""

    number: int | None
    """Of the message; None for the title."""
    snippet: tuple[Piece, ...]


# --- words ---------------------------------------------------------------------------------------


def words_of(text: str) -> list[str]:
    """The words that a text is found by, each once."""
    return list(dict.fromkeys(_words(text)))


def _words(text: str) -> Iterator[str]:
    plain = unicodedata.normalize("NFKD", text.casefold())[:MOST_TEXT]
    kept = "".join(sign for sign in plain if not unicodedata.combining(sign))
    for run in _WORD.findall(kept):
        if _UNSPACED.search(run):
            yield from (run[at : at + 2] for at in range(len(run)))
        else:
            yield run[:MOST_WORD]


class Looked(Struct, frozen=True):
    """What is looked for: passages with all of the words, and one that begins like the last."""

    words: tuple[str, ...]
    begins: str

    def finds(self, word: str) -> bool:
        return any(one in self.words or one.startswith(self.begins) for one in words_of(word))

    @property
    def fts(self) -> str:
        """In the language of SQLite. Words have no sign that means anything to it."""
        return " ".join((*(f'"{word}"' for word in self.words), f'"{self.begins}"*'))

    @property
    def tsquery(self) -> str:
        """In that of PostgreSQL."""
        return " & ".join((*(f"'{word}'" for word in self.words), f"'{self.begins}':*"))


def looked_for(text: str) -> Looked | None:
    """None when there is no word in it."""
    words = words_of(text)[:MOST_WORDS]
    return Looked(tuple(words[:-1]), words[-1]) if words else None


# --- the index -----------------------------------------------------------------------------------


async def catch_up(db: Database, within: float = PATIENCE) -> bool:
    """Bring the index up to date with what is committed, the newest chats first.

    False when there was more than could be read in so many seconds: the next call goes on.
    """
    end = anyio.current_time() + within

    async def behind(tx: Tx) -> Sequence[Any]:
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
    """Take the next messages of a chat into the index; whether there are more."""
    if await lock_if_there(tx, chat_id) is None:
        return False
    given: dict[str, Any] = {"id": chat_id}
    row = await tx.one("SELECT number, titled FROM unsearched WHERE chat_id = :id", given)
    if row is None:
        return False  # somebody else was here first
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


async def _index_messages(tx: Tx, chat_id: str, number: int) -> int | None:
    """The number of the last that was read, when there are more."""
    rows = await tx.fetch(
        f"""
        {SELECT_MESSAGE}
         WHERE chat_id = :id AND number >= :from AND superseded_at IS NULL
           AND kind IN ('prompt', 'answer') AND visibility <> 'model'
         ORDER BY number LIMIT {AT_ONCE}
        """,
        {"id": chat_id, "from": number},
    )
    await _add(tx, chat_id, [(row[0], stored_of(chat_id, row).message.text) for row in rows])
    return rows[-1][0] if len(rows) == AT_ONCE else None


async def _add(tx: Tx, chat_id: str, texts: Sequence[tuple[int, str]]) -> None:
    words = {number: " ".join(words_of(text)) for number, text in texts}
    found = [number for number, listed in words.items() if listed]
    made = [
        await tx.one(
            "INSERT INTO passages (chat_id, number) VALUES (:id, :number) RETURNING id",
            {"id": chat_id, "number": number},
        )
        for number in found
    ]
    await tx.execute_many(
        "INSERT INTO passage_words (rowid, words) VALUES (:id, :words)"
        if tx.dialect.name == "sqlite"
        else "INSERT INTO passage_words (id, words)"
        " VALUES (:id, CAST(CAST(:words AS text) AS tsvector))",
        [{"id": row[0], "words": words[n]} for row, n in zip(made, found, strict=True) if row],
    )


# --- what is found -------------------------------------------------------------------------------


def condition(tx: Tx, looked: Looked) -> tuple[str, dict[str, Any]]:
    """That a passage `p` has what is looked for, with its parameters."""
    if tx.dialect.name == "sqlite":
        found = "SELECT rowid FROM passage_words WHERE passage_words MATCH :looked"
        return f"p.id IN ({found})", {"looked": looked.fts}
    found = "SELECT id FROM passage_words WHERE words @@ CAST(CAST(:looked AS text) AS tsquery)"
    return f"p.id IN ({found})", {"looked": looked.tsquery}


async def matches(tx: Tx, chats: Sequence[str], looked: Looked) -> dict[str, tuple[Match, ...]]:
    """Where in these chats it was found: the title first, then the newest messages."""
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
    """The text around the first word that was looked for, with all of them told apart."""
    plain = unicodedata.normalize("NFC", text)
    found = [word.span() for word in _WORD.finditer(plain) if looked.finds(word[0])]
    first = found[0][0] if found else 0
    start, end = _cut(plain, max(0, first - AROUND), first + 2 * AROUND)
    yield from _pieces(plain, start, end, found)


def _cut(text: str, start: int, end: int) -> tuple[int, int]:
    """Not in the middle of a word, if there is a blank nearby."""
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
