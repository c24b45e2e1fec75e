"""Instructions of an agent: text, and functions that are called once in each turn.

What the functions return is committed to the history as a message of kind `instructions`, unless it
equals the evaluation before. The system prefix of a request is built from that message, so it is
the same after a crash, in another process and in each attempt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.history import History
from holdfast.kernel.hook_call import call_hook
from holdfast.kernel.hook_context import Context
from holdfast.kernel.inbox import Interruption
from holdfast.kernel.messages import Evaluation, Message, Text
from holdfast.kernel.model import Block
from holdfast.kernel.type_parameters import HookDepsT

if TYPE_CHECKING:
    from holdfast.agent import Agent

Evaluated: TypeAlias = Union[str, Block, Sequence[Union[str, Block]], None]
"""Result of a function of the instructions: text, blocks, or nothing."""
InstructionsFunction: TypeAlias = Callable[
    [Context[HookDepsT]], Union[Evaluated, Awaitable[Evaluated]]
]
"""Function of the context that returns a part of the instructions."""


class DynamicBlock(Struct, frozen=True):
    """A block of the instructions that a function returns, called once in each turn.

    `cache` marks its end as the end of what should be cached.
    """

    function: InstructionsFunction
    cache: bool = False


Instruction: TypeAlias = Union[str, Block, DynamicBlock, InstructionsFunction[HookDepsT]]
"""An item of a list of instructions. Text and a function are blocks without a cache mark."""
Instructions: TypeAlias = Union[
    str, InstructionsFunction[HookDepsT], Sequence[Instruction[HookDepsT]]
]
"""Instructions of an agent. Text or a function alone is cached to its end."""

USE: Final = "use text, a function, or a list of text, functions, Block(…) and DynamicBlock(…)"


def instruction_blocks(given: Instructions) -> tuple[Block | DynamicBlock, ...]:
    """The instructions as blocks. Raises `ConfigError`."""
    if isinstance(given, str):
        return (Block(given, cache=True),) if given else ()
    if callable(given):
        return (replace(_block(given), cache=True),)
    if not isinstance(given, Iterable):
        raise ConfigError(f"instructions are {given!r}: {USE}")
    return _with_marks(tuple(map(_block, given)))


def _block(given: object) -> Block | DynamicBlock:
    if isinstance(given, Block):
        return given
    if isinstance(given, str):
        return Block(given)
    function = given.function if isinstance(given, DynamicBlock) else given
    if not callable(function) or isinstance(function, type):
        raise ConfigError(f"instructions contain {given!r}: {USE}")
    return given if isinstance(given, DynamicBlock) else DynamicBlock(function)


def _with_marks(blocks: tuple[Block | DynamicBlock, ...]) -> tuple[Block | DynamicBlock, ...]:
    """Mark the end of the text before the first function, and the end, if nothing is marked."""
    dynamic = [at for at, block in enumerate(blocks) if isinstance(block, DynamicBlock)]
    if not dynamic or any(block.cache for block in blocks):
        return blocks
    marked = {dynamic[0] - 1, len(blocks) - 1}
    return tuple(replace(block, cache=at in marked) for at, block in enumerate(blocks))


# --- Evaluation ---------------------------------------------------------------------------------


def instructions_due(agent: Agent, history: History) -> bool:
    """Whether the functions of the agent's instructions are to be called: once in each turn, and
    when the newest evaluation is of another agent, or of another number of functions."""
    newest = history.turn.instructions
    if newest is None or newest.evaluation is None:
        return True
    evaluation = newest.evaluation
    if evaluation.agent != agent.name or len(evaluation.counts) != len(agent.dynamic):
        return True
    return not history.instructions_stay()


async def evaluate(
    agent: Agent, history: History, context: Context, interruption: Interruption
) -> tuple[Message, ...]:
    """The message that commits the instructions of this turn; none if they are unchanged.

    Raises `Interrupted`, and `PrepareError` if a function raises or takes too long.
    """
    texts: list[Text] = []
    counts: list[int] = []
    cached: list[int] = []
    for block in agent.dynamic:
        blocks = await _call(block, context, agent.policy.instructions_timeout, interruption)
        cached += [len(texts) + at for at, one in enumerate(blocks) if one.cache]
        texts += [Text(one.text) for one in blocks]
        counts.append(len(blocks))
    evaluation = Evaluation(agent.name, tuple(counts), tuple(cached))
    newest = history.turn.instructions
    if newest is not None and (newest.parts, newest.evaluation) == (tuple(texts), evaluation):
        history.keep_instructions()
        return ()
    return (Message("system", tuple(texts), "instructions", "model", evaluation=evaluation),)


async def _call(
    block: DynamicBlock, context: Context, seconds: float, interruption: Interruption
) -> list[Block]:
    name = getattr(block.function, "__name__", repr(block.function))
    evaluated = await call_hook(
        f"the function {name} of the instructions",
        interruption,
        block.function,
        context,
        seconds=seconds,
    )
    blocks = list(_evaluated(name, evaluated))
    if blocks and block.cache:
        blocks[-1] = replace(blocks[-1], cache=True)
    return blocks


def _evaluated(name: str, evaluated: Any) -> Iterator[Block]:
    """The blocks that a function returned, without empty ones."""
    several = isinstance(evaluated, Sequence) and not isinstance(evaluated, (str, bytes))
    for one in evaluated if several else (evaluated,):
        block = Block(one) if isinstance(one, str) else one
        if isinstance(block, Block) and isinstance(block.text, str):
            if block.text.strip():
                yield block
        elif one is not None:
            raise ConfigError(
                f"the function {name} of the instructions returned {evaluated!r:.80}: return text, "
                "a Block(…), a list of these, or None"
            )


# --- The system prefix --------------------------------------------------------------------------


def system_prefix(agent: Agent, history: History) -> tuple[Block, ...]:
    """The system prefix of the next request: the agent's text, and the newest evaluation."""
    newest = history.turn.instructions
    if not agent.dynamic or newest is None or newest.evaluation is None:
        return agent.system
    prefix: list[Block] = []
    evaluated = _blocks_of_functions(newest, newest.evaluation)
    for block in agent.prefix:
        prefix += (block,) if isinstance(block, Block) else next(evaluated, ())
    return tuple(prefix)


def _blocks_of_functions(message: Message, evaluation: Evaluation) -> Iterator[list[Block]]:
    """The blocks that each function returned."""
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    start = 0
    for count in evaluation.counts:
        end = start + count
        yield [
            Block(text, cache=at in evaluation.cached)
            for at, text in enumerate(texts[start:end], start)
        ]
        start = end
