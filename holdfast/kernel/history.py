"""The committed messages of a run, with everything about them that is kept as they grow."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.kernel.context import Projection, Trim
from holdfast.kernel.messages import Message
from holdfast.kernel.turn import Turn, fold, fold_all


class History:
    """Only grows. Taking one more message in costs the same however many there are."""

    def __init__(self, messages: Sequence[Message], trim: Trim) -> None:
        self._messages = list(messages)
        self._projection = Projection(self._messages, trim)
        self.turn: Turn = fold_all(self._messages)
        self.call_ids = {call.id for message in self._messages for call in message.calls}

    def append(self, message: Message) -> int:
        """Commit a message; its position."""
        turn = fold(self.turn, message)
        self._messages.append(message)
        self.turn = turn
        self._projection.add(message)
        return len(self._messages) - 1

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def messages(self) -> Sequence[Message]:
        """To look at, as long as nothing is appended."""
        return self._messages

    def to_send(self) -> tuple[Message, ...]:
        """What a model is sent of it."""
        return self._projection.messages()

    def last_answer(self) -> Message | None:
        """The last that models may see: a failed one is kept for people only."""
        answers = (m for m in reversed(self._messages) if m.kind == "answer")
        return next((answer for answer in answers if answer.visibility != "user"), None)

    def before_last_calls(self) -> Sequence[Message]:
        """The history that the last answer with calls was an answer to."""
        for position in range(len(self._messages) - 1, -1, -1):
            if self._messages[position].calls:
                return self._messages[:position]
        return ()
