"""Budgets: limits of all chats of a user, of a user's day, and of each chat with its children.

    holdfast.open(…, budgets=Budgets(day=Limits(cost=5.0), chat=Limits(tokens=2_000_000)))

They are compared with committed usage before each model call and each spawn of a child chat, so
every chat that runs may exceed a budget by one model call. Usage is read from the counters of
`spending_counters.py`; deleted chats count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from msgspec import Struct, to_builtins

from holdfast.chat.errors import InvalidInput
from holdfast.chat.rows import ChatRow, document, read_chat
from holdfast.chat.spending_counters import DAY
from holdfast.kernel.entry_point import EntryMeta
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.limits import NOTHING_USED, LimitReached, Limits, Totals, reached
from holdfast.kernel.messages import encode, prepare_to_decode
from holdfast.kernel.model import Model, is_priced
from holdfast.store.database import Tx

BudgetScope = Literal["chat", "day", "user"]
SCOPES: Final[tuple[BudgetScope, ...]] = ("chat", "day", "user")
"""In the order in which they are compared."""
SETTLED: Final = 60_000_000
"""Microseconds after midnight in which a transaction of the day before may still be committed."""
MAX_CACHED: Final = 10_000
"""Maximum number of users whose usage before today is kept."""


class Budgets(Struct, metaclass=EntryMeta, frozen=True, kw_only=True, omit_defaults=True):
    """Limits beyond one turn. None sets no budget."""

    chat: Limits | None = None
    """Limits of each chat together with its child chats."""
    user: Limits | None = None
    """Limits of all chats of a user, since ever."""
    day: Limits | None = None
    """Limits of all chats of a user on one day, from midnight to midnight in UTC."""

    def __post_init__(self) -> None:
        for scope in SCOPES:
            value = getattr(self, scope)
            if value is not None and not isinstance(value, Limits):
                raise ConfigError(f"budgets.{scope} is {value!r}: use Limits(…), or None")

    def __bool__(self) -> bool:
        """Whether any limit applies."""
        return any(getattr(self, scope) for scope in SCOPES)

    @property
    def limits_cost(self) -> BudgetScope | None:
        """The first budget with a limit of cost, which needs models with a known price."""
        for scope in SCOPES:
            limits = getattr(self, scope)
            if limits is not None and limits.cost is not None:
                return scope
        return None

    def over(self, others: Budgets) -> Budgets:
        """These budgets, and those of `others` where there are none here."""
        own: Iterator[tuple[str, Limits | None]] = ((s, getattr(self, s)) for s in SCOPES)
        return Budgets(**{s: getattr(others, s) if one is None else one for s, one in own})


NO_BUDGETS: Final = Budgets()


def check_priced(scope: BudgetScope, model: Model) -> None:
    """Raise a `ConfigError` if a budget of cost would not count the calls of a model."""
    if not is_priced(model):
        raise ConfigError(
            f"budgets.{scope}.cost needs a known price, and the price of {model.name} is unknown: "
            "limit tokens instead, or state its price per million tokens, as in "
            "holdfast.model(…, profile={'price': {'input': 1.0, 'output': 4.0}})"
        )


class BudgetUsage(Struct, frozen=True):
    """Usage that a budget counts."""

    steps: int
    """Number of model answers."""
    tokens: int
    """Tokens of all model calls: input, cached input and output."""
    cost: float
    """Cost in US dollars of the calls with a known price."""
    seconds: float
    """Seconds of work: answers of models and calls of tools."""


class BudgetState(Struct, frozen=True):
    """One budget: its limits, and what was used of them."""

    limits: Limits | None
    """Limits that apply; None, or without any limit, if usage is not limited."""
    used: BudgetUsage | None
    """Usage so far; None for the limits that each chat of a user has."""
    is_set: bool = False
    """Whether the limits were set for this user or chat, and replace the configured ones."""


class BudgetReport(Struct, frozen=True):
    """The budgets of a chat and its owner, or those of a user."""

    chat: BudgetState
    """That of the chat with its child chats. For a user: of each chat."""
    user: BudgetState
    day: BudgetState


class BudgetCheck:
    """Compares the budgets of a host with committed usage. One for each process."""

    def __init__(self, configured: Budgets = NO_BUDGETS) -> None:
        self.configured = configured
        self.limits_cost = configured.limits_cost
        """A budget with a limit of cost, configured or set, as far as this process knows."""
        self._some_are_configured = bool(configured)
        self._some_are_stored = False
        """Whether budgets were set for users or chats, as far as this process knows."""
        self._notes = 0
        """Number of times that budgets were set in this process."""
        self._before_today: dict[str, tuple[int, Totals]] = {}
        """Usage of users before a day, by user."""

    @property
    def applies(self) -> bool:
        """Whether there are any budgets. Without, nothing is read before model calls."""
        return self._some_are_stored or self._some_are_configured

    @property
    def is_short(self) -> bool:
        """Whether a check reads few rows: the usage of a user is summed over all of its chats."""
        return not self._some_are_stored and not self.configured.user

    async def refresh(self, tx: Tx) -> None:
        """Find out which budgets were set for users or chats, in this process or another."""
        notes = self._notes
        row = await tx.one(
            """
            SELECT EXISTS (SELECT 1 FROM budgets),
                   (SELECT scope FROM budgets WHERE limits LIKE '%"cost"%' LIMIT 1)
            """
        )
        assert row is not None
        if notes != self._notes:  # set meanwhile, and perhaps not in what was read
            return
        self._some_are_stored = bool(row[0])
        self.limits_cost = self.configured.limits_cost or row[1]

    def note(self, budgets: Budgets) -> None:
        """Note that budgets were set for a user or a chat."""
        self._notes += 1
        self._some_are_stored = True
        self.limits_cost = self.limits_cost or budgets.limits_cost

    async def reached(self, tx: Tx, chat: ChatRow, model: Model) -> LimitReached | None:
        """The limit that keeps a chat from calling a model; None if it may.

        Raises `ConfigError` for a model without a known price under a limit of cost: it was chosen
        before the limit was set.
        """
        now, of_user, of_chat = await _stored(tx, chat.owner, chat.root_id)
        budgets = Budgets(chat=of_chat).over(of_user).over(self.configured)
        if budgets.limits_cost is not None:
            check_priced(budgets.limits_cost, model)
        for scope in SCOPES:
            limits = getattr(budgets, scope)
            if limits:
                used = await self._used(tx, scope, chat.owner, chat.root_id, now)
                limit = reached(limits, used, scope)
                if limit is not None:
                    return limit
        return None

    async def report_of_chat(self, tx: Tx, id: str) -> BudgetReport:
        """The budgets of a chat and of its owner, with what was used. Raises `ChatNotFound`."""
        chat = await read_chat(tx, id)
        return await self.report(tx, chat.owner, chat.root_id)

    async def report(self, tx: Tx, owner: str, root: str | None = None) -> BudgetReport:
        """The budgets of a user, and of the root chat `root` if given, with what was used."""
        now, of_user, of_chat = await _stored(tx, owner, root or "")
        own = Budgets(chat=of_chat).over(of_user)
        budgets = own.over(self.configured)

        async def state(scope: BudgetScope) -> BudgetState:
            counts = scope != "chat" or root is not None
            used = None
            if counts:
                totals = await self._used(tx, scope, owner, root or "", now)
                used = BudgetUsage(totals.steps, totals.tokens, totals.cost, totals.seconds)
            return BudgetState(getattr(budgets, scope), used, getattr(own, scope) is not None)

        return BudgetReport(await state("chat"), await state("user"), await state("day"))

    async def _used(self, tx: Tx, scope: BudgetScope, owner: str, root: str, now: int) -> Totals:
        match scope:
            case "chat":
                return await _used_by_family(tx, root)
            case "day":
                return await _used_today(tx, owner, now // DAY)
            case _:
                before = await self._used_before_today(tx, owner, now)
                return before + await _used_today(tx, owner, now // DAY)

    async def _used_before_today(self, tx: Tx, owner: str, now: int) -> Totals:
        """Usage of a user until the day began. It is read once a day, from all chats."""
        today = now // DAY
        day, used = self._before_today.get(owner, (None, NOTHING_USED))
        if day == today:
            return used
        used = await _used_before(tx, owner, today)
        if now % DAY > SETTLED:
            if len(self._before_today) >= MAX_CACHED:
                self._before_today.clear()
            self._before_today[owner] = (today, used)
        return used


# --- queries ------------------------------------------------------------------------------------


async def _stored(tx: Tx, owner: str, root: str) -> tuple[int, Budgets, Limits | None]:
    """The time, the budgets that were set for a user, and those of a chat."""
    row = await tx.one(
        f"""
        SELECT {tx.dialect.now},
               (SELECT limits FROM budgets WHERE scope = 'user' AND id = :owner),
               (SELECT limits FROM budgets WHERE scope = 'chat' AND id = :root)
        """,
        {"owner": owner, "root": root},
    )
    assert row is not None
    now, of_user, of_chat = row
    return (
        now,
        NO_BUDGETS if of_user is None else document("", "budget", of_user, Budgets),
        None if of_chat is None else document(root, "budget", of_chat, Limits),
    )


async def _used_by_family(tx: Tx, root: str) -> Totals:
    return await _sum(tx, "spent_{}", "root_id = :root", {"root": root})


async def _used_today(tx: Tx, owner: str, today: int) -> Totals:
    condition = "owner = :owner AND spent_day >= :today"
    return await _sum(tx, "day_{}", condition, {"owner": owner, "today": today})


async def _used_before(tx: Tx, owner: str, today: int) -> Totals:
    column = "spent_{0} - CASE WHEN spent_day >= :today THEN day_{0} ELSE 0 END"
    return await _sum(tx, column, "owner = :owner", {"owner": owner, "today": today})


async def _sum(tx: Tx, column: str, condition: str, params: dict[str, Any]) -> Totals:
    """Sum the counters of chats, deleted ones included."""
    names = ("steps", "tokens", "cost", "time")
    columns = ", ".join(f"{column.format(name)} AS {name}" for name in names)
    row = await tx.one(
        f"""
        SELECT {", ".join(f"COALESCE(sum({name}), 0)" for name in names)}
          FROM (SELECT {columns} FROM chats WHERE {condition}
                UNION ALL SELECT {columns} FROM deleted_spending WHERE {condition}) AS counted
        """,
        params,
    )
    assert row is not None
    steps, tokens, cost, time = row
    return Totals(int(steps), int(tokens), float(cost), int(time) / 1_000_000)


async def set_budget(
    tx: Tx, scope: Literal["chat", "user"], id: str, limits: Budgets | Limits | None
) -> None:
    """Set the budgets of a user, or that of a chat; None returns to the configured ones."""
    key = {"scope": scope, "id": id}
    if limits is None or limits == NO_BUDGETS:
        await tx.execute("DELETE FROM budgets WHERE scope = :scope AND id = :id", key)
        return
    await tx.execute(
        """
        INSERT INTO budgets (scope, id, limits) VALUES (:scope, :id, :limits)
        ON CONFLICT (scope, id) DO UPDATE SET limits = excluded.limits
        """,
        {**key, "limits": encode(_without_none(to_builtins(limits))).decode()},
    )


def _without_none(table: Any) -> Any:
    if not isinstance(table, dict):
        return table
    return {name: _without_none(value) for name, value in table.items() if value is not None}


async def set_budget_of_chat(tx: Tx, id: str, limits: Limits | None) -> None:
    """Set the budget of a root chat. Raises `ChatNotFound`, and `InvalidInput` for a child chat."""
    chat = await read_chat(tx, id)
    if chat.parent_id is not None:
        raise InvalidInput(
            f"chat {id} is a child chat, and shares the budget of chat {chat.root_id}: set that one"
        )
    await set_budget(tx, "chat", id, limits)


DECODED: Final = (Budgets, Limits)
"""Types of JSON columns. They are decoded in threads."""
prepare_to_decode(*DECODED)
