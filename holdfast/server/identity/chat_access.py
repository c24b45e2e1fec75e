"""The chats that each caller may know of, and how they relate to them."""

from __future__ import annotations

from holdfast.chat.errors import InvalidInput
from holdfast.chat.rows import chat_of, check_text
from holdfast.server.access_policy import ApiCaller, ChatAccess, ChatRelation
from holdfast.server.identity import shares
from holdfast.server.identity.expiring_cache import CACHE_SECONDS, CACHE_SIZE, Cache
from holdfast.store.database import Database


class ChatAccesses:
    """Looks up how callers relate to chats. Lookups are cached for `CACHE_SECONDS`."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._cache: Cache[tuple[str, str], ChatAccess] = Cache(CACHE_SIZE, CACHE_SECONDS)

    async def access(self, caller: ApiCaller, chat_id: str) -> ChatAccess | None:
        """The chat, if the caller owns it or may read it; None otherwise."""
        key = (caller.user, chat_id)
        cached = self._cache.get(key)
        if cached is not None:
            return cached
        try:
            check_text("chat", chat_id)
        except InvalidInput:
            return None  # no chat has such an id
        reach = await self._db.read(lambda tx: shares.reach(tx, chat_id, caller.user))
        if reach is None:
            return None
        relation = ChatRelation(
            owns=caller.link is None and reach.owner == caller.user,
            shared=reach.shared or caller.link in reach.above,
        )
        if not (relation.owns or relation.shared):
            return None  # not cached, so that a new share takes effect at once
        access = ChatAccess(chat_of(reach.columns), relation)
        self._cache.put(key, access)
        return access
