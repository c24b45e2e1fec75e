"""Names chats: once a turn has come to rest, a model is asked for a title.

Work after the outcome: whatever goes wrong is logged, leaves no trace but its cost, and is tried
again after the next turn, or when a worker starts: a process may have ended just after a chat's
only turn. A title that a person gave is never touched.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

import anyio

from holdfast.agent import Agent
from holdfast.chat import people, queries
from holdfast.chat.errors import ChatNotFound
from holdfast.chat.state import Charge, Chat
from holdfast.chat.view import read_answer, read_first_prompt
from holdfast.kernel.assemble import Assembly
from holdfast.kernel.events import Event
from holdfast.kernel.generate import Caller
from holdfast.kernel.inbox import Interruption
from holdfast.kernel.model import Model, Request
from holdfast.kernel.outcome import Tally
from holdfast.kernel.ports import Ports
from holdfast.kernel.prepare import model_of
from holdfast.kernel.title import cleaned, title_request
from holdfast.observe.observer import NOBODY, UNOBSERVED, Observer, Stretch, Watched
from holdfast.store.database import Database, Tx

LOG: Final = logging.getLogger("holdfast.worker")
PATIENCE: Final = 30.0
"""Seconds that a title may take."""
LATELY: Final = 24 * 3600 * 1_000_000
"""Microseconds that a chat may have been at rest for a worker to make up for its title ..."""
AT_ONCE: Final = 8
"""... and of how many: nobody expects a start to ask for hundreds."""


class Titles:
    """What a worker does when a chat has come to rest."""

    def __init__(
        self,
        db: Database,
        agents: Mapping[str, Agent],
        ports: Ports,
        model: Model | None = None,
        observer: Observer = UNOBSERVED,
    ) -> None:
        """`model` writes the titles; without one, each chat's own does."""
        self._db = db
        self._agents = agents
        self._ports = ports
        self._model = model
        self._observer = observer

    async def __call__(self, chat: Chat) -> None:
        if chat.parent_id is not None or chat.title is not None or chat.error is not None:
            return
        try:
            with anyio.fail_after(PATIENCE):
                await self._name(chat)
        except ChatNotFound:
            pass  # nobody asks for its title any more
        except Exception as error:
            LOG.warning("chat %s has no title yet: %s", chat.id, error or type(error).__name__)

    async def missed(self) -> list[Chat]:
        """Chats that were not named, most likely because their process ended."""
        agents, since = tuple(self._agents), self._ports.now() - LATELY
        return await self._db.read(lambda tx: queries.unnamed(tx, agents, since, AT_ONCE))

    async def _name(self, chat: Chat) -> None:
        prompt, answer = await self._db.read(lambda tx: _about(tx, chat.id))
        if not (prompt.strip() or answer.strip()):
            return
        agent = self._agents[chat.agent]
        model = self._writer_of(agent, chat)
        said = Assembly(model.name, self._ports)
        try:
            await self._ask(agent, model, title_request(prompt, answer), said)
        except Exception:
            await self._give(chat, None, said)
            raise
        text = said.message().text
        title = cleaned(text)
        if title is None:
            LOG.warning("chat %s has no title yet: %r is none", chat.id, text[:80])
        await self._give(chat, title, said)

    async def _give(self, chat: Chat, title: str | None, said: Assembly) -> None:
        """The title, if it is one; and what was asked for it is paid for in any case."""
        charges: tuple[Charge, ...] = ()
        if said.usage is not None:
            id = f"title {self._ports.new_id()}"  # of this very call: another may come too late
            charges = (Charge(id, "title", said.usage, said.model),)
        if title is not None or charges:
            await self._db.write(lambda tx: people.set_generated_title(tx, chat.id, title, charges))

    def _writer_of(self, agent: Agent, chat: Chat) -> Model:
        model = self._model
        if model is None:
            model = model_of(agent if chat.model is None else agent.replace(model=chat.model))
        stretch = Stretch(chat.id, chat.agent, chat.worker_id or "", chat.epoch, lambda: 1)
        witness = self._observer.names(stretch)
        if witness is NOBODY:
            return model
        return Watched(model, witness, asyncio.get_running_loop().time, why="title")

    async def _ask(self, agent: Agent, model: Model, request: Request, said: Assembly) -> None:
        """The model's answer, whole. Asked once: there will be another turn."""
        caller = Caller(agent.policy.stream, _Nowhere(), Interruption(), Tally())
        try:
            await caller.call(model, request, said)
        finally:
            caller.close()


async def _about(tx: Tx, chat_id: str) -> tuple[str, str]:
    return await read_first_prompt(tx, chat_id), await read_answer(tx, chat_id)


class _Nowhere:
    """A `Sink`: nobody watches a title being written."""

    full = False

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def put(self, event: Event) -> None:
        pass

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    async def room(self) -> None:
        return
