"""Budgets: what users and chats may spend, and what they have spent of it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, structs

from holdfast.chat.budgets import BudgetReport, Budgets, set_budget, set_budget_of_chat
from holdfast.chat.handle import Chat
from holdfast.kernel.limits import LIMIT_NAMES, Limits
from holdfast.kernel.messages import prepare_to_decode
from holdfast.server.idempotency import once
from holdfast.server.identity.audit import entry, record
from holdfast.server.identity.users import find_user
from holdfast.server.operation import ApiCall, operation
from holdfast.server.problem import Forbidden
from holdfast.server.shared_request_types import MAX_SAFE_INTEGER, RequestStruct
from holdfast.store.database import Tx

prepare_to_decode(BudgetReport)


class SetLimits(RequestStruct, frozen=True):
    """Limits to set. An absent limit does not apply."""

    steps: Annotated[int, Meta(ge=1, le=MAX_SAFE_INTEGER)] | None = None
    """Maximum number of model answers."""
    tokens: Annotated[int, Meta(ge=1, le=MAX_SAFE_INTEGER)] | None = None
    """Maximum tokens of all model calls: input, cached input and output."""
    cost: Annotated[float, Meta(gt=0)] | None = None
    """Maximum cost in US dollars. The price of every model must be known."""
    seconds: Annotated[float, Meta(gt=0)] | None = None
    """Maximum seconds of work: answers of models and calls of tools."""


class SetBudgets(RequestStruct, frozen=True):
    """Budgets of a user. An absent one is the configured one; one without limits limits nothing."""

    chat: SetLimits | None = None
    """Limits of each chat with its child chats."""
    user: SetLimits | None = None
    """Limits of all chats, since ever."""
    day: SetLimits | None = None
    """Limits of all chats of one day, in UTC."""


class SetBudget(RequestStruct, frozen=True):
    """The budget of a chat; null returns to that of its owner's chats."""

    limits: SetLimits | None


def _limits(body: SetLimits | None) -> Limits | None:
    return None if body is None else Limits(**structs.asdict(body))


def _budgets(body: SetBudgets) -> Budgets:
    return Budgets(chat=_limits(body.chat), user=_limits(body.user), day=_limits(body.day))


@operation("GET", "/budgets", "The caller's budgets, and what was used of them")
async def get_budgets(call: ApiCall) -> BudgetReport:
    return await call.server.host.budgets(call.user)


@operation("PUT", "/budgets", "Set the caller's own budgets")
async def put_budgets(call: ApiCall, body: SetBudgets) -> BudgetReport:
    """For administrators: they replace the configured ones."""
    return await _set(call, call.user, "PUT /budgets", body)


@operation("GET", "/users/{user}/budgets", "A user's budgets, and what was used of them")
async def get_user_budgets(call: ApiCall, user: str) -> BudgetReport:
    await call.server.db.read(lambda tx: find_user(tx, user))
    return await call.server.host.budgets(user)


@operation("PUT", "/users/{user}/budgets", "Set a user's budgets")
async def put_user_budgets(call: ApiCall, user: str, body: SetBudgets) -> BudgetReport:
    """They replace the configured ones. A body without budgets returns to those."""
    await call.server.db.read(lambda tx: find_user(tx, user))
    return await _set(call, user, f"PUT /users/{user}/budgets", body)


async def _set(call: ApiCall, user: str, what: str, body: SetBudgets) -> BudgetReport:
    host, budgets = call.server.host, _budgets(body)
    host.check_budgets(budgets)

    async def change(tx: Tx) -> BudgetReport:
        await set_budget(tx, "user", user, budgets)
        await record(tx, entry(call, "budget.set", user, **_detail(budgets)))
        return await host.budget_check.report(tx, user)

    report = await once(call, what, body, BudgetReport, change)
    host.budget_check.note(budgets)
    return report


@operation("GET", "/chats/{chat}/budget", "Budgets that apply to a chat, and what was used")
async def get_chat_budget(call: ApiCall, chat: Chat) -> BudgetReport:
    """Those of the chat with its child chats, and of its owner."""
    return await chat.budget()


@operation("PUT", "/chats/{chat}/budget", "Set the budget of a chat")
async def put_chat_budget(call: ApiCall, chat: Chat, body: SetBudget) -> BudgetReport:
    """Child chats share it. Only an administrator may allow more than the budget of the user's
    chats."""
    host, budget = call.server.host, Budgets(chat=_limits(body.limits))
    host.check_budgets(budget)

    async def change(tx: Tx) -> BudgetReport:
        owner = await host.budget_check.report(tx, chat.owner)
        if budget.chat is not None and not _is_admin(call):
            _refuse_more(budget.chat, owner.chat.limits)
        await set_budget_of_chat(tx, chat.id, budget.chat)
        await record(tx, entry(call, "budget.set", chat.id, **_detail(budget)))
        return await host.budget_check.report(tx, chat.owner, chat.id)

    report = await once(call, f"PUT /chats/{chat.id}/budget", body, BudgetReport, change)
    host.budget_check.note(budget)
    return report


def _is_admin(call: ApiCall) -> bool:
    caller = call.caller
    return caller is not None and caller.role == "admin" and "admin" in caller.scopes


def _refuse_more(wanted: Limits, allowed: Limits | None) -> None:
    """Raise `Forbidden` for limits that allow more than those of the user's chats."""
    for name in LIMIT_NAMES:
        most = None if allowed is None else getattr(allowed, name)
        amount = getattr(wanted, name)
        if most is not None and (amount is None or amount > most):
            raise Forbidden(
                f"{name} may be at most {most} for chats of this user: set a lower limit, or ask "
                "an administrator"
            )


def _detail(budgets: Budgets) -> dict[str, dict[str, float]]:
    """The limits that were set, for the audit log."""
    scopes = {scope: getattr(budgets, scope) for scope in ("chat", "user", "day")}
    return {
        scope: {name: value for name, value in structs.asdict(limits).items() if value is not None}
        for scope, limits in scopes.items()
        if limits is not None
    }
