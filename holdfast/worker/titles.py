"""Titles of chats: a model writes one when a turn has ended.

A failure never affects the turn: it is logged, its usage is charged, and the opening words of the
prompt become the title. The next attempt follows the next turn, or the start of a worker, because
a process may have ended just after a chat's only turn. A title set by a person is never changed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

import anyio

from holdfast.agent import Agent
from holdfast.chat import queries
from holdfast.chat.budgets import BudgetCheck
from holdfast.chat.errors import ChatNotFound, InvalidInput, TitleFailed
from holdfast.chat.idempotency import Key, once
from holdfast.chat.rows import Charge, ChatRow
from holdfast.chat.snapshots import read_answer, read_first_prompt
from holdfast.chat.transitions import user
from holdfast.kernel.assemble import Assembly
from holdfast.kernel.errors import classify
from holdfast.kernel.events import Event
from holdfast.kernel.inbox import Interruption
from holdfast.kernel.model import Effort, Model, Request, known_efforts
from holdfast.kernel.observed_call import caller_of
from holdfast.kernel.observer import UNOBSERVED, Observer, observer_of
from holdfast.kernel.ports import Ports
from holdfast.kernel.prepare import model_of
from holdfast.kernel.result import RunCounters
from holdfast.kernel.title_request import cleaned, title_request
from holdfast.store.database import Database, Tx
from holdfast.worker.fenced_chat import stretch_of

LOG: Final = logging.getLogger("holdfast.worker")
TITLE_TIMEOUT: Final = 30.0
"""Seconds after which the generation of a title is cancelled."""
MAX_IDLE_TIME: Final = 24 * 3600 * 1_000_000
"""A starting worker writes the missing title of a chat that was idle for fewer microseconds."""
TITLES_AT_START: Final = 8
"""Maximum number of missing titles that a starting worker writes."""


class Unusable(Exception):
    """The answer of a model contains no usable title."""

    def __init__(self, text: str) -> None:
        super().__init__(f"the model answered {text[:80]!r}")


class NoBudget(Exception):
    """A budget is used up, so that no model is called."""


class Titles:
    """Writes the titles of chats that have become idle."""

    def __init__(
        self,
        db: Database,
        agents: Mapping[str, Agent],
        ports: Ports,
        model: Model | None = None,
        observer: Observer = UNOBSERVED,
        budgets: BudgetCheck | None = None,
    ) -> None:
        """`model` writes the titles; by default each chat's own model does."""
        self._db = db
        self._agents = agents
        self._ports = ports
        self.model = model
        """The model that writes the titles; None for each chat's own."""
        self._observer = observer
        self._budgets = BudgetCheck() if budgets is None else budgets

    async def __call__(self, chat: ChatRow) -> None:
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

    async def rewrite(self, chat: ChatRow, key: Key | None) -> ChatRow:
        """Replace the title of a chat on request. Raises `TitleFailed`."""
        prompt, answer = await self._db.read(lambda tx: _texts_of(tx, chat.id))
        if not (prompt.strip() or answer.strip()):
            raise InvalidInput("the chat has no text for a title: send a message first")
        charges: list[Charge] = []
        try:
            title = await self._generate(chat, prompt, answer, charges)
        except Exception as error:
            await self._db.write(lambda tx: user.retitle(tx, chat, None, charges))
            raise TitleFailed(_reason(error)) from error
        return await once(
            self._db, key, ChatRow, lambda tx: user.retitle(tx, chat, title, charges), short=True
        )

    async def without_title(self) -> list[ChatRow]:
        """Return recent chats that have no title, most likely because their process ended."""
        agents, since = tuple(self._agents), self._ports.now() - MAX_IDLE_TIME
        return await self._db.read(
            lambda tx: queries.without_title(tx, agents, since, TITLES_AT_START)
        )

    async def _name(self, chat: ChatRow) -> None:
        """Set a title that a model writes, or else the opening words of the prompt."""
        prompt, answer = await self._db.read(lambda tx: _texts_of(tx, chat.id))
        if not (prompt.strip() or answer.strip()):
            return
        set_title, charges = user.set_generated_title, list[Charge]()
        try:
            title: str | None = await self._generate(chat, prompt, answer, charges)
        except Exception as error:
            reason = _reason(error)
            LOG.warning("chat %s: the model wrote no title, using the prompt: %s", chat.id, reason)
            set_title, title = user.set_provisional_title, None if chat.title else cleaned(prompt)
        if charges or title is not None:
            await self._db.write(lambda tx: set_title(tx, chat.id, title, charges))

    async def _generate(
        self, chat: ChatRow, prompt: str, answer: str, charges: list[Charge]
    ) -> str:
        """Have a model write a title. Adds the usage to `charges`, also on failure."""
        agent = self._agents[chat.agent]
        model = self._writer_of(agent, chat)
        await self._check_budget(chat, model)
        with anyio.fail_after(TITLE_TIMEOUT):
            for effort in _efforts_for(model):
                assembly = Assembly(model.name, self._ports)
                request = title_request(prompt, answer, effort)
                try:
                    await self._ask(agent, chat, model, request, assembly)
                    break
                except Exception as error:
                    if effort is None or classify(error, model.name).kind != "invalid_request":
                        raise
                finally:
                    charges.extend(self._cost(assembly))
        title = cleaned(assembly.message().text)
        if title is None:
            raise Unusable(assembly.message().text)
        return title

    async def _check_budget(self, chat: ChatRow, model: Model) -> None:
        if self._budgets.applies:
            limit = await self._db.read(lambda tx: self._budgets.reached(tx, chat, model))
            if limit is not None:
                raise NoBudget(limit.sentence)

    def _cost(self, assembly: Assembly) -> Sequence[Charge]:
        if assembly.usage is None:
            return ()
        id = f"title {self._ports.new_id()}"  # so that each call is charged
        return (Charge(id, "title", assembly.usage, assembly.model),)

    def _writer_of(self, agent: Agent, chat: ChatRow) -> Model:
        if self.model is not None:
            return self.model
        return model_of(agent if chat.model is None else agent.replace(model=chat.model))

    async def _ask(
        self, agent: Agent, chat: ChatRow, model: Model, request: Request, assembly: Assembly
    ) -> None:
        """Stream the model's answer into `assembly`. Not retried: the next turn tries again."""
        stretch = stretch_of(chat, model.name, lambda: 1)
        observer = observer_of(agent.observer, self._observer).names(stretch)
        limits, sink = agent.policy.stream, _NullSink()
        caller = caller_of(limits, sink, Interruption(), RunCounters(), observer, "title")
        try:
            await caller.call(model, request, assembly)
        finally:
            caller.close()


def _reason(error: Exception) -> str:
    """Explain to people why there is no title."""
    if isinstance(error, TimeoutError):
        return f"the model took more than {TITLE_TIMEOUT:g} s"
    if isinstance(error, (Unusable, NoBudget)):
        return str(error)
    return classify(error).message.rstrip(".")


def _efforts_for(model: Model) -> tuple[Effort | None, ...]:
    """Return the efforts to try, in order; None sends no effort.

    An endpoint may refuse an effort, and some are not known to take one at all.
    """
    return (None,) if known_efforts(model) is None else ("none", None)


async def _texts_of(tx: Tx, chat_id: str) -> tuple[str, str]:
    return await read_first_prompt(tx, chat_id), await read_answer(tx, chat_id)


class _NullSink:
    """A `Sink` that discards all events: clients do not see how a title is written."""

    full = False
    has_reader = False

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def put(self, event: Event) -> None:
        pass

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    async def room(self) -> None:
        return
