"""Full-text search over titles, prompts and answers.

A commit only marks its chat as changed, which costs a step next to nothing. A search first brings
the index up to date, so that it finds all committed text. Text is split into words here, in the
same way for both databases: case and accents are removed, and scripts written without spaces are
split into pairs of characters.
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

from holdfast.chat.locked_chat import lock_if_exists
from holdfast.chat.queries import fitting
from holdfast.chat.rows import SELECT_MESSAGE, Stored, stored_of
from holdfast.store.database import Database, Tx

MAX_INDEXED_CHARACTERS: Final = 100_000
"""Maximum number of indexed characters of a message. Databases limit the size of a word list."""
MAX_WORD_LENGTH: Final = 64
MAX_QUERY_WORDS: Final = 20
"""Maximum number of words in a query."""
INDEX_BATCH: Final = 200
"""Maximum number of messages indexed per transaction; commits to the chat wait for it."""
INDEX_BATCH_BYTES: Final = 8 * 1024 * 1024
"""Maximum total size in bytes of these messages, except for a single larger one."""
CATCH_UP_TIMEOUT: Final = 2.0
"""Seconds that a search spends on bringing the index up to date."""
MATCHES_PER_CHAT: Final = 3
"""Maximum number of matches returned per chat."""
SNIPPET_CONTEXT: Final = 80
"""Number of characters on each side of a match in its snippet."""

_WORD: Final = re.compile(r"[^\W_]+")
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""Characters of scripts that put no spaces between words."""


class SnippetPart(Struct, frozen=True, omit_defaults=True):
    """A part of a snippet: matching text, or the text around it."""

    text: str
    found: bool = False
    """Whether the text matches the query."""


class Match(Struct, frozen=True):
    """A message or a title that matches the query."""

    number: int | None
    """Number of the message; None for the title."""
    snippet: tuple[SnippetPart, ...]


# --- words ---------------------------------------------------------------------------------------


def words_of(text: str) -> list[str]:
    """Return the distinct words by which a text is found."""
    return list(dict.fromkeys(_words(text)))


def _words(text: str) -> Iterator[str]:
    text = text[:MAX_INDEXED_CHARACTERS].casefold()
    if text.isascii():
        yield from (run[:MAX_WORD_LENGTH] for run in _WORD.findall(text))
        return
    plain = unicodedata.normalize("NFKD", text)[:MAX_INDEXED_CHARACTERS]
    base_characters = "".join(sign for sign in plain if not unicodedata.combining(sign))
    for run in _WORD.findall(base_characters):
        if _UNSPACED.search(run):
            yield from (run[at : at + 2] for at in range(len(run)))
        else:
            yield run[:MAX_WORD_LENGTH]


class TextQuery(Struct, frozen=True):
    """A parsed query: passages must contain all words, the last one as a prefix."""

    words: tuple[str, ...]
    prefix: str

    def matches_word(self, word: str) -> bool:
        """Return whether a word matches the query."""
        return any(part in self.words or part.startswith(self.prefix) for part in words_of(word))

    @property
    def fts(self) -> str:
        """The query in SQLite's syntax. Words contain no character that is special there."""
        return " ".join((*(f'"{word}"' for word in self.words), f'"{self.prefix}"*'))

    @property
    def tsquery(self) -> str:
        """The query in PostgreSQL's syntax."""
        return " & ".join((*(f"'{word}'" for word in self.words), f"'{self.prefix}':*"))


def parse_query(text: str) -> TextQuery | None:
    """Parse a query; None when it contains no word."""
    words = words_of(text)[:MAX_QUERY_WORDS]
    return TextQuery(tuple(words[:-1]), words[-1]) if words else None


# --- the index -----------------------------------------------------------------------------------


async def catch_up(db: Database, within: float = CATCH_UP_TIMEOUT) -> bool:
    """Bring the index up to date with the committed messages, newest chats first.

    Stops after `within` seconds and then returns False; the next call continues.
    """
    deadline = anyio.current_time() + within

    async def read_changed_chats(tx: Tx) -> Sequence[Any]:
        """Read the ids of chats that changed since they were indexed."""
        return await tx.fetch("SELECT chat_id FROM unsearched ORDER BY chat_id DESC LIMIT 500")

    while rows := await db.read(read_changed_chats):
        for (chat_id,) in rows:
            has_more = True
            while has_more:
                has_more = await db.write(partial(_index_next, chat_id))
                if anyio.current_time() >= deadline:
                    return (
                        not has_more
                        and chat_id == rows[-1][0]
                        and not await db.read(read_changed_chats)
                    )
    return True


async def _index_next(chat_id: str, tx: Tx) -> bool:
    """Index the next messages of a chat; returns whether there are more."""
    if await lock_if_exists(tx, chat_id) is None:
        return False
    params: dict[str, Any] = {"id": chat_id}
    row = await tx.one("SELECT number, titled FROM unsearched WHERE chat_id = :id", params)
    if row is None:
        return False  # a concurrent search has indexed the chat
    number, title_changed = row
    await tx.execute(
        """
        DELETE FROM passages
         WHERE chat_id = :id AND (number >= :from OR (:titled = 1 AND number = 0))
        """,
        {**params, "from": number, "titled": title_changed},
    )
    if title_changed:
        await _index_title(tx, chat_id)
    last_number = await _index_messages(tx, chat_id, number)
    if last_number is None:
        await tx.execute("DELETE FROM unsearched WHERE chat_id = :id", params)
        return False
    await tx.execute(
        "UPDATE unsearched SET number = :next, titled = 0 WHERE chat_id = :id",
        {**params, "next": last_number + 1},
    )
    return True


async def _index_title(tx: Tx, chat_id: str) -> None:
    row = await tx.one("SELECT title FROM chats WHERE id = :id", {"id": chat_id})
    if row is not None and row[0] is not None:
        await _add(tx, chat_id, [(0, row[0])])


INDEXED_MESSAGES: Final = """
     WHERE chat_id = :id AND number >= :from AND superseded_at IS NULL
       AND kind IN ('prompt', 'answer') AND visibility <> 'model'
     ORDER BY number LIMIT :limit
    """


async def _index_messages(tx: Tx, chat_id: str, number: int) -> int | None:
    """Index messages. Returns the number of the last one, if there are more; else None."""
    params: dict[str, Any] = {"id": chat_id, "from": number, "limit": INDEX_BATCH}
    lengths = await tx.fetch(
        f"SELECT number, octet_length(body) FROM messages {INDEXED_MESSAGES}", params
    )
    count = fitting((length for _, length in lengths), INDEX_BATCH_BYTES)
    rows = await tx.fetch(f"{SELECT_MESSAGE} {INDEXED_MESSAGES}", {**params, "limit": count})
    await _add(tx, chat_id, ((row[0], stored_of(chat_id, row).message.text) for row in rows))
    return rows[-1][0] if count < len(lengths) or count == INDEX_BATCH else None


async def _add(tx: Tx, chat_id: str, texts: Iterable[tuple[int, str]]) -> None:
    """Add messages to the index, one after the other.

    On PostgreSQL this runs on the event loop, and splitting a long message takes milliseconds.
    """
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
        passage = await tx.one(
            "INSERT INTO passages (chat_id, number) VALUES (:id, :number) RETURNING id",
            {"id": chat_id, "number": number},
        )
        if passage is not None:
            await tx.execute(insert, {"id": passage[0], "words": words})


# --- matches -------------------------------------------------------------------------------------


def condition(tx: Tx, query: TextQuery) -> tuple[str, dict[str, Any]]:
    """Return the condition that a passage `p` matches the query, with its parameters."""
    if tx.dialect.name == "sqlite":
        matching = "SELECT rowid FROM passage_words WHERE passage_words MATCH :looked"
        return f"p.id IN ({matching})", {"looked": query.fts}
    matching = "SELECT id FROM passage_words WHERE words @@ CAST(CAST(:looked AS text) AS tsquery)"
    return f"p.id IN ({matching})", {"looked": query.tsquery}


async def matches(tx: Tx, chats: Sequence[str], query: TextQuery) -> dict[str, tuple[Match, ...]]:
    """Read the matches in these chats: the title first, then the newest messages."""
    where, params = condition(tx, query)
    rows = await tx.fetch(
        f"""
        SELECT chat_id, number
          FROM (SELECT p.chat_id, p.number, row_number() OVER
                       (PARTITION BY p.chat_id ORDER BY p.number = 0 DESC, p.number DESC) AS place
                  FROM passages p WHERE {tx.dialect.one_of("p.chat_id", "chats")} AND {where}) f
         WHERE place <= {MATCHES_PER_CHAT} ORDER BY chat_id, place
        """,
        {"chats": list(chats), **params},
    )
    matches_by_chat: dict[str, tuple[Match, ...]] = {}
    for chat_id, number in rows:
        text = await _text(tx, chat_id, number)
        match = Match(number or None, tuple(snippet(text, query)))
        matches_by_chat[chat_id] = (*matches_by_chat.get(chat_id, ()), match)
    return matches_by_chat


async def _text(tx: Tx, chat_id: str, number: int) -> str:
    params = {"id": chat_id, "number": number}
    if number == 0:
        row = await tx.one("SELECT title FROM chats WHERE id = :id", {"id": chat_id})
        return (row[0] or "") if row is not None else ""
    row = await tx.one(f"{SELECT_MESSAGE} WHERE chat_id = :id AND number = :number", params)
    stored: Stored | None = None if row is None else stored_of(chat_id, row)
    return "" if stored is None else stored.message.text


def snippet(text: str, query: TextQuery) -> Iterator[SnippetPart]:
    """Return the text around the first match, with all matches marked."""
    plain = unicodedata.normalize("NFC", text[:MAX_INDEXED_CHARACTERS])
    is_match = lru_cache(None)(query.matches_word)  # a long text repeats most of its words
    words = _WORD.finditer(plain)
    first_match = next((word.span() for word in words if is_match(word[0])), (0, 0))
    start, end = _move_to_spaces(
        plain, max(0, first_match[0] - SNIPPET_CONTEXT), first_match[0] + 2 * SNIPPET_CONTEXT
    )
    words_in_range = takewhile(lambda word: word.start() < end, words)
    other_matches = [word.span() for word in words_in_range if is_match(word[0])]
    yield from _snippet_parts(
        plain, start, end, [first_match, *other_matches] if first_match[1] else []
    )


def _move_to_spaces(text: str, start: int, end: int) -> tuple[int, int]:
    """Move the ends of a range to nearby spaces, so that they do not split a word."""
    if start > 0:
        blank = text.find(" ", start, start + SNIPPET_CONTEXT // 2)
        start = blank + 1 if blank >= 0 else start
    if end < len(text):
        blank = text.rfind(" ", end - SNIPPET_CONTEXT // 2, end)
        end = blank if blank >= 0 else end
    return start, min(end, len(text))


def _snippet_parts(
    text: str, start: int, end: int, matches: Iterable[tuple[int, int]]
) -> Iterator[SnippetPart]:
    at = start
    leading, trailing = "…" if start > 0 else "", "…" if end < len(text) else ""
    for start_of_match, end_of_match in matches:
        if start_of_match < at or end_of_match > end:
            continue
        if start_of_match > at or leading:
            yield SnippetPart(leading + text[at:start_of_match])
        yield SnippetPart(text[start_of_match:end_of_match], found=True)
        at, leading = end_of_match, ""
    if at < end or leading or trailing:
        yield SnippetPart(leading + text[at:end] + trailing)
