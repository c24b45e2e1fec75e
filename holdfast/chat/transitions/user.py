"""Transitions that users request, such as send, interrupt, edit, retry, resume and resolve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct, structs

from holdfast.chat import queue
from holdfast.chat.charges import charge
from holdfast.chat.errors import (
    InvalidInput,
    MessageNotFound,
    NotAPrompt,
    NothingToCompact,
    NothingToResume,
    NothingWaits,
    WrongAnswer,
)
from holdfast.chat.files import lock_files
from holdfast.chat.journal import (
    NO_RESULT_TEXT,
    answer_open,
    earliest,
    open_calls,
    put_call,
    read_journal,
    read_tail,
    take_results,
    turn_of,
)
from holdfast.chat.locked_chat import LockedChat, begin, lock
from holdfast.chat.rows import (
    SELECT_MESSAGE,
    ActionAnswer,
    Charge,
    ChatRow,
    Deliver,
    JournalCall,
    Queued,
    Rule,
    Status,
    Stored,
    TurnOutcome,
    check_text,
    read_chat,
    stored_of,
)
from holdfast.chat.state_machine import Transition, check
from holdfast.chat.transitions.interrupt import begin_interrupt, interrupt_children, interrupt_tree
from holdfast.kernel.decide import Approved
from holdfast.kernel.messages import Message, Text, ToolOutcome, ToolResult, encode
from holdfast.store.database import Tx

SENDS: Final[Mapping[Deliver, Transition]] = {
    "queue": Transition.SEND_QUEUE,
    "steer": Transition.SEND_STEER,
    "interrupt": Transition.SEND_INTERRUPT,
}


UPDATABLE: Final = frozenset(
    {"agent", "title", "labels", "model", "effort", "rules", "client_tools"}
)


class Sent(Struct, frozen=True):
    """Where a sent message is: in the history, or in the queue."""

    chat: ChatRow
    number: int | None = None
    queued: str | None = None


async def send(tx: Tx, chat_id: str, message: Queued) -> Sent:
    """Append a message to the history of an idle chat, or queue it."""
    _check_choice(message.model, message.effort)
    locked = await begin(tx, chat_id, SENDS[message.deliver])
    await lock_files(tx, locked.chat.owner, message.message)
    status = locked.chat.status
    if status is Status.IDLE:
        await answer_open(locked, "skipped")
        queue.choose(locked, message.model, message.effort)
        await locked.append([message.message], author=message.author)
        locked.set(status=Status.RUNNING, outcome=None, compaction=None)
        return Sent(await locked.close(), number=locked.chat.messages)
    await queue.push(locked, message)
    if status is Status.ERROR:
        await _leave_error(locked)
        await _deliver_head(locked, "skipped")
    elif status is Status.REQUIRES_ACTION and message.deliver != "queue":
        if message.deliver == "interrupt":
            await interrupt_children(locked)
        await _deliver_head(locked, "skipped" if message.deliver == "steer" else "interrupted")
    elif status is Status.RUNNING and message.deliver == "interrupt":
        await begin_interrupt(locked)
    elif status is Status.RUNNING and message.deliver == "steer":
        locked.retry_now()
    return await _sent(locked, message.id)


def _check_choice(model: str | None, effort: str | None) -> None:
    check_text("model", model)
    check_text("effort", effort)


async def _sent(locked: LockedChat, queued: str) -> Sent:
    chat = await locked.close()
    number = locked.delivered.get(queued)
    return Sent(chat, queued=queued) if number is None else Sent(chat, number=number)


async def _deliver_head(locked: LockedChat, open_calls: ToolOutcome) -> None:
    await queue.deliver(
        locked, queue.head(await queue.read_queue(locked.tx, locked.chat.id)), open_calls
    )
    locked.set(status=Status.RUNNING, outcome=None, compaction=None)


async def _leave_error(locked: LockedChat) -> None:
    if locked.chat.status is Status.ERROR:
        locked.set(outcome=None)  # the outcome was this error, and the turn continues
    locked.set(status=Status.RUNNING, error=None, retry=None, retry_at=None, attempt=1)


async def interrupt(tx: Tx, chat_id: str) -> ChatRow:
    """Interrupt the turn, and keep its output."""
    locked = await begin(tx, chat_id, Transition.INTERRUPT)
    await interrupt_tree(locked)
    return await locked.close()


# --- the queue ---


async def promote(tx: Tx, chat_id: str, id: str) -> Sent:
    """Deliver a queued message now, as if it had been sent to interrupt."""
    locked = await begin(tx, chat_id, Transition.PROMOTE)
    status = locked.chat.status
    await queue.to_front_as_interrupt(locked, id)
    if status is Status.RUNNING:
        await begin_interrupt(locked)
    elif status is Status.REQUIRES_ACTION:
        await interrupt_children(locked)
        await _deliver_head(locked, "interrupted")
    elif status is Status.ERROR:
        await _leave_error(locked)
        await _deliver_head(locked, "skipped")
    return await _sent(locked, id)


async def edit_queued(
    tx: Tx, chat_id: str, id: str, message: Message, deliver: Deliver | None = None
) -> list[Queued]:
    """Change the content of a queued message. Its position stays, unless its kind changes."""
    locked = await begin(tx, chat_id, Transition.EDIT_QUEUED)
    queued = await queue.find(locked, id)
    await lock_files(tx, locked.chat.owner, message)
    await tx.execute(
        "UPDATE queue SET body = :body WHERE chat_id = :chat AND id = :id",
        {"chat": chat_id, "id": id, "body": encode(message).decode()},
    )
    if deliver is not None and deliver != queued.deliver:
        if deliver == "interrupt":
            raise InvalidInput(
                "a queued message cannot be changed to interrupt: promote it instead"
            )
        await queue.drop(locked, [queued])
        await queue.push(locked, structs.replace(queued, message=message, deliver=deliver))
        if deliver == "steer":
            locked.retry_now()
    locked.queue_changed()
    await locked.close()
    return await queue.read_queue(tx, chat_id)


async def reorder(tx: Tx, chat_id: str, ids: Sequence[str]) -> list[Queued]:
    """Reorder the queued messages within each kind."""
    locked = await begin(tx, chat_id, Transition.REORDER)
    if ids or await queue.read_queue(tx, chat_id):
        await queue.put_in_order(locked, ids)
        await locked.close()
    return await queue.read_queue(tx, chat_id)


async def remove_queued(tx: Tx, chat_id: str, id: str) -> Queued:
    """Remove a message before it is delivered."""
    locked = await begin(tx, chat_id, Transition.REMOVE_QUEUED)
    queued = await queue.find(locked, id)
    await queue.drop(locked, [queued])
    await locked.close()
    return queued


# --- edit, retry, resume, compact ---


class Edited(Struct, frozen=True):
    """The result of an edit."""

    chat: ChatRow
    number: int
    """Number of the message that replaces the edited one."""
    superseded: tuple[int, ...]
    dropped: tuple[Queued, ...]
    """Queued messages that the edit discarded."""


async def edit(
    tx: Tx,
    chat_id: str,
    number: int,
    message: Message,
    *,
    author: str | None = None,
    model: str | None = None,
    effort: str | None = None,
) -> Edited:
    """Replace a prompt: that message and all after it are superseded."""
    _check_choice(model, effort)
    locked = await begin(tx, chat_id, Transition.EDIT)
    await _check_prompt(tx, chat_id, number)
    await lock_files(tx, locked.chat.owner, message)
    superseded = await _supersede(locked, number)
    dropped = await queue.read_queue(tx, chat_id)
    await queue.drop(locked, dropped)
    await interrupt_children(locked, since=number)
    queue.choose(locked, model, effort)
    await locked.append([message], author=author)
    locked.set(status=Status.RUNNING, error=None, outcome=None, compaction=None, deadline=None)
    chat = await locked.close()
    return Edited(chat, chat.messages, tuple(superseded), tuple(dropped))


async def _check_prompt(tx: Tx, chat_id: str, number: int) -> None:
    row = await tx.one(
        f"{SELECT_MESSAGE} WHERE chat_id = :id AND number = :number AND superseded_at IS NULL",
        {"id": chat_id, "number": number},
    )
    if row is None:
        raise MessageNotFound(number)
    kind = stored_of(chat_id, row).message.kind
    if kind != "prompt":
        raise NotAPrompt(number, kind)


async def _supersede(locked: LockedChat, number: int) -> list[int]:
    """Supersede a message and all after it, with their calls."""
    params = {"id": locked.chat.id, "from": number, "version": locked.version, "at": locked.now}
    rows = await locked.tx.fetch(
        """
        UPDATE messages SET superseded_at = :at, revision = :version
         WHERE chat_id = :id AND number >= :from AND superseded_at IS NULL
        RETURNING number
        """,
        params,
    )
    await locked.tx.execute(
        """
        DELETE FROM awaited WHERE chat_id = :id AND call_id IN
               (SELECT call_id FROM tool_calls WHERE chat_id = :id AND number >= :from)
        """,
        {"id": locked.chat.id, "from": number},
    )
    await locked.tx.execute(
        """
        UPDATE tool_calls
           SET outcome = COALESCE(outcome, 'edited'), state = 'finished', result = NULL,
               finished_at = COALESCE(finished_at, :at)
         WHERE chat_id = :id AND number >= :from AND (state <> 'finished' OR result IS NOT NULL)
        """,
        {"id": locked.chat.id, "from": number, "at": locked.now},
    )
    return sorted(row[0] for row in rows)


async def retry(tx: Tx, chat_id: str) -> ChatRow:
    """Retry after an error: the same history with a new budget."""
    locked = await begin(tx, chat_id, Transition.RETRY)
    await _leave_error(locked)
    return await locked.close()


async def resume(tx: Tx, chat_id: str) -> ChatRow:
    """Continue a turn that ended at a limit. Its usage is counted anew from the note about that.

    A turn that a budget stopped is retried: it continues if the budget was raised.
    """
    chat = await read_chat(tx, chat_id)
    if chat.status is Status.ERROR and chat.outcome is not None and chat.outcome.limit is not None:
        return await retry(tx, chat_id)
    locked = await begin(tx, chat_id, Transition.RESUME)
    outcome = locked.chat.outcome
    if outcome is None or outcome.reason != "limit":
        raise NothingToResume
    locked.set(status=Status.RUNNING, outcome=None)
    return await locked.close()


async def compact(tx: Tx, chat_id: str) -> ChatRow:
    """Request a summary of the conversation now."""
    locked = await begin(tx, chat_id, Transition.COMPACT)
    if not await _compactable(tx, chat_id):
        raise NothingToCompact
    if locked.chat.status is Status.IDLE and locked.chat.outcome is None:
        await _mark_interrupted(locked)
    await _leave_error(locked)
    locked.set(compaction="person")
    return await locked.close()


async def _mark_interrupted(locked: LockedChat) -> None:
    """Mark an unfinished last turn of a copied chat as interrupted, so that it does not resume."""
    if turn_of(await read_tail(locked.tx, locked.chat.id)).last != "answer":
        locked.set(outcome=TurnOutcome("interrupted"))


async def _compactable(tx: Tx, chat_id: str) -> bool:
    """Return whether there is an answer since the last summary."""
    answer = await tx.one(
        """
        SELECT number FROM messages
         WHERE chat_id = :id AND superseded_at IS NULL AND kind = 'answer'
           AND visibility <> 'user'
         ORDER BY number DESC LIMIT 1
        """,
        {"id": chat_id},
    )
    if answer is None:
        return False
    rows = await tx.fetch(
        f"""
        {SELECT_MESSAGE} WHERE chat_id = :id AND superseded_at IS NULL AND kind = 'checkpoint'
           AND number > :answer
        """,
        {"id": chat_id, "answer": answer[0]},
    )
    return not any(_is_summary(stored_of(chat_id, row)) for row in rows)


def _is_summary(stored: Stored) -> bool:
    checkpoint = stored.message.checkpoint
    return checkpoint is not None and checkpoint.summarized


# --- actions ---


async def resolve(
    tx: Tx, chat_id: str, answers: Mapping[str, ActionAnswer], *rules: Rule | None
) -> ChatRow:
    """Answer actions: all of them, or none if one answer is refused."""
    locked = await begin(tx, chat_id, Transition.RESOLVE)
    journal = await read_journal(tx, chat_id)
    waiting = {call.call_id: call for call in journal.values() if call.state == "waiting"}
    unknown = [call_id for call_id in answers if call_id not in waiting]
    if unknown or not answers:
        raise NothingWaits(unknown, list(waiting))
    for call_id, answer in answers.items():
        await put_call(locked, with_answer(waiting[call_id], answer, locked.now))
    new_rules = [rule for rule in rules if rule is not None and rule not in locked.chat.rules]
    if new_rules:
        locked.set(rules=(*locked.chat.rules, *dict.fromkeys(new_rules)))
    if locked.chat.status is Status.REQUIRES_ACTION:
        await continue_if_possible(locked)
    return await locked.close()


def with_answer(call: JournalCall, answer: ActionAnswer, now: int) -> JournalCall:
    """Return the row of a waiting call with its answer, detached from the runner's epoch."""
    if isinstance(answer, Approved):
        assert call.asked is not None
        if call.action != "approval":
            raise WrongAnswer(call.call_id, f"{call.tool} waits for a result, not an approval")
        if answer.digest != call.asked.digest:
            raise WrongAnswer(
                call.call_id,
                "this approval is for another question: read the action again and answer it",
            )
        return structs.replace(call, state="approved", approved=answer, deadline=None, epoch=None)
    result = answer.result
    if result.call_id != call.call_id:
        raise WrongAnswer(call.call_id, f"the result given is for {result.call_id}")
    if call.started_at is not None and result.outcome == "refused":
        result = _refusal_of_rerun(result, call.started_at)
    return structs.replace(
        call,
        epoch=None,
        state="finished",
        result=result,
        outcome=result.outcome,
        finished_at=now,
        deadline=None,
    )


def _refusal_of_rerun(refusal: ToolResult, started_at: int) -> ToolResult:
    """Return the result of a started call whose re-run is refused: that does not undo it."""
    text = f"{NO_RESULT_TEXT['lost']} It does not run again. {refusal.text}"
    return structs.replace(refusal, outcome="lost", content=(Text(text),), started_at=started_at)


async def continue_if_possible(locked: LockedChat) -> None:
    """Append the recorded results to the history, and become running if any call can run now."""
    journal = await read_journal(locked.tx, locked.chat.id)
    calls = await open_calls(locked.tx, locked.chat.id)
    results = [journal[call.id].result for call in calls if call.id in journal]
    await take_results(locked, [result for result in results if result is not None])
    is_waiting = [call.id in journal and journal[call.id].state == "waiting" for call in calls]
    has_result = [call.id in journal and journal[call.id].result is not None for call in calls]
    if not any(is_waiting) or sum(is_waiting) + sum(has_result) < len(calls):
        locked.set(status=Status.RUNNING, deadline=None)
    else:
        locked.set(deadline=earliest(journal))


# --- title and settings ---


async def update(tx: Tx, chat_id: str, changes: Mapping[str, Any]) -> ChatRow:
    """Change agent, title, labels, model, effort, rules or client tools; all or nothing."""
    locked = await begin(tx, chat_id, Transition.UPDATE)
    if unknown_columns := sorted(changes.keys() - UPDATABLE):
        raise InvalidInput(
            f"cannot change {', '.join(unknown_columns)}: use one of {', '.join(sorted(UPDATABLE))}"
        )
    for name in ("agent", "title", "model", "effort"):
        check_text(name, changes.get(name))
    if "title" in changes:
        locked.set(titled_by="person" if changes["title"] is not None else None)
    if "client_tools" in changes:
        changes = {**changes, "client_tools": changes["client_tools"] or None}
    agent = changes.get("agent")
    locked.set(**{name: value for name, value in changes.items() if name != "agent"})
    if agent is not None:
        await _choose_agent(locked, agent)
    return await locked.close()


async def _choose_agent(locked: LockedChat, agent: str) -> None:
    """Give the chat another agent: now, or once a step and its calls have ended.

    The calls of an answer belong to the agent that it was written for.
    """
    chat = locked.chat
    is_driven = chat.status is Status.INTERRUPTING or (
        chat.status is Status.RUNNING and chat.worker_id is not None
    )
    if agent == chat.agent:
        locked.set(next_agent=None)
    elif is_driven or await open_calls(locked.tx, chat.id):
        locked.set(next_agent=agent)
    else:
        await locked.use_agent(agent)


async def set_generated_title(
    tx: Tx, chat_id: str, title: str | None, charges: Sequence[Charge] = ()
) -> bool:
    """Set a title that a model wrote, unless the chat has a final title or is archived.

    The charges are recorded in any case, even if the model wrote no usable title.
    """
    locked = await _lock_and_charge(tx, chat_id, charges)
    if title is None or locked.chat.titled_by is not None:
        return False
    return await _set_title(locked, title, "model")


async def set_provisional_title(
    tx: Tx, chat_id: str, title: str | None, charges: Sequence[Charge] = ()
) -> bool:
    """Set a provisional title, unless the chat has any title or is archived.

    `charges` is the usage of the failed attempt to generate a better one.
    """
    locked = await _lock_and_charge(tx, chat_id, charges)
    if title is None or locked.chat.title is not None:
        return False
    return await _set_title(locked, title, None)


async def retitle(
    tx: Tx, chat_before: ChatRow, title: str | None, charges: Sequence[Charge] = ()
) -> ChatRow:
    """Replace the title by one that a model wrote on request.

    Nothing is replaced if the title differs from that of `chat_before`, or the chat is archived.
    The charges are recorded in any case.
    """
    locked = await _lock_and_charge(tx, chat_before.id, charges)
    chat = locked.chat
    if title is not None and (chat.title, chat.titled_by) == (
        chat_before.title,
        chat_before.titled_by,
    ):
        await _set_title(locked, title, "model")
    return locked.chat


async def _lock_and_charge(tx: Tx, chat_id: str, charges: Sequence[Charge]) -> LockedChat:
    locked = await lock(tx, chat_id)
    await charge(locked, charges)
    return locked


async def _set_title(locked: LockedChat, title: str, by: Literal["model"] | None) -> bool:
    if locked.chat.archived:
        return False
    check(locked.chat.status, Transition.UPDATE)
    locked.set(title=title, titled_by=by)
    await locked.close()
    return True
