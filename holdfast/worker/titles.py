"""Titles of chats: a model writes one when a turn has ended.

A failure never affects the turn: it is logged and charged, and the chat is called by the opening
words of its prompt. A model is asked again after the next turn, or when a worker starts, because a
process may have ended just after a chat's only turn. A title that a person gave is never changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

import anyio

from holdfast.agent import Agent
from holdfast.chat import queries
from holdfast.chat.errors import ChatNotFound, InvalidInput, TitleFailed
from holdfast.chat.idempotency import Key, once
from holdfast.chat.rows import Charge, Chat
from holdfast.chat.snapshots import read_answer, read_first_prompt
from holdfast.chat.transitions import user
from holdfast.kernel.assemble import Assembly
from holdfast.kernel.errors import classify
from holdfast.kernel.events import Event
from holdfast.kernel.generate import ModelCaller
from holdfast.kernel.inbox import Interruption
from holdfast.kernel.model import Effort, Model, Request, known_efforts
from holdfast.kernel.ports import Ports
from holdfast.kernel.prepare import model_of
from holdfast.kernel.result import RunCounters
from holdfast.kernel.title import cleaned, title_request
from holdfast.observe.observer import UNOBSERVED, UNOBSERVED_CHAT, ObservedModel, Observer, Stretch
from holdfast.store.database import Database, Tx

LOG: Final = logging.getLogger("holdfast.worker")
PATIENCE: Final = 30.0
"""Timeout of a title in seconds."""
LATELY: Final = 24 * 3600 * 1_000_000
"""Microseconds for which a chat may have been idle for a starting worker to write its missing
title."""
AT_ONCE: Final = 8
"""Maximum number of missing titles that a starting worker writes."""


class Unusable(Exception):
    """The answer of a model contains no usable title."""

    def __init__(self, text: str) -> None:
        super().__init__(f"the model answered {text[:80]!r}")


class Titles:
    """Writes titles when chats come to rest."""

    def __init__(
        self,
        db: Database,
        agents: Mapping[str, Agent],
        ports: Ports,
        model: Model | None = None,
        observer: Observer = UNOBSERVED,
    ) -> None:
        """`model` writes the titles; by default each chat's own model does."""
        self._db = db
        self._agents = agents
        self._ports = ports
        self._model = model
        self._observer = observer

    async def __call__(self, chat: Chat) -> None:
        if chat.parent_id is not None or chat.titled_by is not None or chat.error is not None:
            return
        try:
            await self._name(chat)
        except ChatNotFound:
            pass  # the chat was deleted meanwhile
        except Exception as error:
            LOG.warning(
                "chat %s: no title could be set: %s", chat.id, error or type(error).__name__
            )

    async def rewrite(self, chat: Chat, key: Key | None) -> Chat:
        """Replace the title of a chat on request. Raises `TitleFailed`."""
        prompt, answer = await self._db.read(lambda tx: _about(tx, chat.id))
        if not (prompt.strip() or answer.strip()):
            raise InvalidInput("the chat has no text for a title: send a message first")
        charges: list[Charge] = []
        try:
            title = await self._written(chat, prompt, answer, charges)
        except Exception as error:
            await self._db.write(lambda tx: user.retitle(tx, chat, None, charges))
            raise TitleFailed(_reason(error)) from error
        return await once(
            self._db, key, Chat, lambda tx: user.retitle(tx, chat, title, charges), short=True
        )

    async def missed(self) -> list[Chat]:
        """Return recent chats without a title, most likely because their process ended."""
        agents, since = tuple(self._agents), self._ports.now() - LATELY
        return await self._db.read(lambda tx: queries.unnamed(tx, agents, since, AT_ONCE))

    async def _name(self, chat: Chat) -> None:
        """Set a title that a model writes, or else the opening words of the prompt."""
        prompt, answer = await self._db.read(lambda tx: _about(tx, chat.id))
        if not (prompt.strip() or answer.strip()):
            return
        give, charges = user.set_generated_title, list[Charge]()
        try:
            title: str | None = await self._written(chat, prompt, answer, charges)
        except Exception as error:
            why = _reason(error)
            LOG.warning("chat %s: the model wrote no title, using the prompt: %s", chat.id, why)
            give, title = user.set_provisional_title, None if chat.title else cleaned(prompt)
        if charges or title is not None:
            await self._db.write(lambda tx: give(tx, chat.id, title, charges))

    async def _written(self, chat: Chat, prompt: str, answer: str, charges: list[Charge]) -> str:
        """Have a model write a title. Adds the usage to `charges`, also on failure."""
        agent = self._agents[chat.agent]
        model = self._writer_of(agent, chat)
        with anyio.fail_after(PATIENCE):
            for effort in _efforts_for(model):
                said = Assembly(model.name, self._ports)
                request = title_request(prompt, answer, effort)
                try:
                    await self._ask(agent, self._watched(model, chat), request, said)
                    break
                except Exception as error:
                    if effort is None or classify(error, model.name).kind != "invalid_request":
                        raise
                finally:
                    charges.extend(self._cost(said))
        title = cleaned(said.message().text)
        if title is None:
            raise Unusable(said.message().text)
        return title

    def _cost(self, said: Assembly) -> Sequence[Charge]:
        if said.usage is None:
            return ()
        id = f"title {self._ports.new_id()}"  # so that each call is charged
        return (Charge(id, "title", said.usage, said.model),)

    def _writer_of(self, agent: Agent, chat: Chat) -> Model:
        if self._model is not None:
            return self._model
        return model_of(agent if chat.model is None else agent.replace(model=chat.model))

    def _watched(self, model: Model, chat: Chat) -> Model:
        stretch = Stretch(chat.id, chat.agent, chat.worker_id or "", chat.epoch, lambda: 1)
        witness = self._observer.names(stretch)
        if witness is UNOBSERVED_CHAT:
            return model
        return ObservedModel(model, witness, asyncio.get_running_loop().time, why="title")

    async def _ask(self, agent: Agent, model: Model, request: Request, said: Assembly) -> None:
        """Return the model's complete answer. No retries: the next turn asks again."""
        caller = ModelCaller(agent.policy.stream, _Nowhere(), Interruption(), RunCounters())
        try:
            await caller.call(model, request, said)
        finally:
            caller.close()


def _reason(error: Exception) -> str:
    """Explain to people why there is no title."""
    if isinstance(error, TimeoutError):
        return f"the model took more than {PATIENCE:g} s"
    return str(error) if isinstance(error, Unusable) else classify(error).message.rstrip(".")


def _efforts_for(model: Model) -> tuple[Effort | None, ...]:
    """Return the efforts to try in order: none where an endpoint refuses it, or is not known to
    take one."""
    return (None,) if known_efforts(model) is None else ("none", None)


async def _about(tx: Tx, chat_id: str) -> tuple[str, str]:
    return await read_first_prompt(tx, chat_id), await read_answer(tx, chat_id)


class _Nowhere:
    """A `Sink` that discards everything: the writing of a title is not shown."""

    full = False

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def put(self, event: Event) -> None:
        pass

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    async def room(self) -> None:
        return
