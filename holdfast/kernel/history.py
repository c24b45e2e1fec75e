"""The committed messages of a run, with the folds over them that are kept up to date."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.kernel.messages import Message
from holdfast.kernel.model_context import NOTHING_REMOVED, Projection, RemovedParts, Trim
from holdfast.kernel.turn import Turn, fold, fold_all


class History:
    """A history that only grows. Appending costs the same, however long it is."""

    def __init__(self, messages: Sequence[Message], trim: Trim) -> None:
        self._messages = list(messages)
        self._projection = Projection(self._messages, trim)
        self.turn: Turn = fold_all(self._messages)
        self.call_ids = {call.id for message in self._messages for call in message.calls}
        """Ids of all calls; a new call with one of them gets another id."""
        self._unchanged_in = -1
        """`turn.began` of the turn whose evaluated instructions equal the ones before."""

    def append(self, message: Message) -> int:
        """Append a message. Returns its position."""
        turn = fold(self.turn, message)
        self._messages.append(message)
        self.turn = turn
        self._projection.add(message)
        if message.role == "assistant":
            self.call_ids.update([call.id for call in message.calls])
        return len(self._messages) - 1

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def messages(self) -> Sequence[Message]:
        """The messages, valid until the next append. Do not change the list."""
        return self._messages

    def to_send(self) -> tuple[Message, ...]:
        """The messages to send to a model."""
        return self._projection.messages()

    def take_removed(self) -> RemovedParts:
        """Parts that were left out of `to_send` since the last call of this."""
        removed = self._projection.removed
        if removed is not NOTHING_REMOVED:
            self._projection.removed = NOTHING_REMOVED
        return removed

    def instructions_stay(self) -> bool:
        """Whether the newest evaluation of instructions is that of this turn.

        An evaluation that equals the one before is not committed. From the first answer of a turn
        on, its evaluation stays.
        """
        turn = self.turn
        return turn.instructed or turn.steps > 0 or self._unchanged_in == turn.began

    def keep_instructions(self) -> None:
        """Note that this turn's instructions equal the newest ones in the history."""
        self._unchanged_in = self.turn.began

    def last_answer(self) -> Message | None:
        """The last answer that models may see; a failed one is for people only."""
        answers = (m for m in reversed(self._messages) if m.kind == "answer")
        return next((answer for answer in answers if answer.visibility != "user"), None)

    def before_last_calls(self) -> Sequence[Message]:
        """The history before the last answer with calls."""
        for position in range(len(self._messages) - 1, -1, -1):
            message = self._messages[position]
            if message.calls and message.visibility != "user":
                return self._messages[:position]
        return ()
