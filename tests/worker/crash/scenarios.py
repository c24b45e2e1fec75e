"""Canonical scenarios: small, and together they pass every transition of a chat.

What the model says depends on the conversation alone: asked again after a crash, it says the same.
What may come of each is written out, line by line. The first end is the one without a crash.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from holdfast import Limits
from holdfast.chat.budgets import Budgets
from holdfast.chat.rows import JournalCall, Status
from holdfast.hooks import Context
from holdfast.kernel.decide import Approved, Recorded
from holdfast.kernel.messages import Message, Text, ToolResult
from holdfast.kernel.model import Request
from holdfast.kernel.policy import Policy, Retry
from holdfast.kernel.stop_guard import Inject, Stopping
from holdfast.testing import ScriptItem, call_raw, fail, finish, pause, say
from tests.worker.crash.play import Scenario
from tests.worker.crash.world import (
    Person,
    Turn,
    World,
    add,
    ask,
    ask_soon,
    book,
    numbered,
    pay,
    slow,
    spawn,
    wait,
    wipe,
    wire,
)

Act = Callable[[Person], Awaitable[None]]

# --- What models say ------------------------------------------------------------------------------


def call(tool: str, id: str, **arguments: object) -> ScriptItem:
    return call_raw(tool, json.dumps(arguments), id=id)


def last(request: Request) -> Message:
    """What is to be answered: markers are only about it."""
    return [message for message in request.messages if message.kind != "marker"][-1]


def is_prompt(request: Request) -> bool:
    return last(request).kind == "prompt"


def dawdles(world: World, request: Request) -> ScriptItem:
    """Its answer is whole long before its stream ends."""
    said = say(f"{last(request).text}!")
    return [said, world.tokens(), finish("stop"), world.happens("whole"), pause(2)]


def has_nothing_to_say(world: World, request: Request) -> ScriptItem:
    """Until the person has paid; and that costs."""
    return world.slowly("Hello.") if world.signal("paid").is_set() else world.tokens()


def says_hello(world: World, request: Request) -> ScriptItem:
    return world.slowly("Hello.")


def repeats(world: World, request: Request) -> ScriptItem:
    return world.slowly(f"{last(request).text}!")


def uses(tool: str, **arguments: object) -> Turn:
    """A model that calls a tool for each prompt, and then says how it went."""

    def turn(world: World, request: Request) -> ScriptItem:
        if is_prompt(request):
            number = sum(message.kind == "prompt" for message in request.messages)
            calls = call(tool, f"{tool}-{number}", **arguments)
            return [say("So."), pause(1.2), calls, world.tokens()]
        return world.slowly(" ".join(one.outcome for one in last(request).results) + ".")

    return turn


def is_told(world: World, request: Request) -> ScriptItem:
    """Calls a tool, and is told the same from the beginning of the turn to its end."""
    prompt = [message for message in request.messages if message.kind == "prompt"][-1].text
    told = request.system[-1].text
    if world.told.setdefault(prompt, told) != told:
        world.wrong.append(f"{prompt}: it was told {world.told[prompt]!r}, and now {told!r}")
    return uses("add", a=1, b=2)(world, request)


def uses_several(world: World, request: Request) -> ScriptItem:
    if last(request).text == "Hi":
        return [
            call("add", "add-1", a=1, b=2),
            call("wire", "wire-1", amount=3),
            call("slow", "slow-1"),
            call("pay", "pay-1", amount=4),
            world.tokens(),
        ]
    return world.slowly("Done.")


def is_overloaded(world: World, request: Request) -> ScriptItem:
    """Three times in all, with an answer half way, and with one that is empty and costs."""
    if world.attempts == 2:
        return world.tokens()
    if world.attempts <= 3:
        return [say("He"), pause(1.2), fail(status=529)]
    return world.slowly("Hello.")


def is_busy(world: World, request: Request) -> ScriptItem:
    """Once, and for longer than anybody keeps a chat that only waits."""
    if world.attempts == 1:
        return fail(status=429, retry_after=45)
    return world.slowly("Hello.")


def is_refused(world: World, request: Request) -> ScriptItem:
    """Until the person has paid."""
    if not world.signal("paid").is_set():
        return [say("He"), pause(1.2), fail(status=401)]
    return world.slowly("Hello.")


def talks(world: World, request: Request) -> ScriptItem:
    return world.slowly("Hello. " * 200)


def overflows(world: World, request: Request) -> ScriptItem:
    if any(message.kind == "checkpoint" for message in request.messages):
        return world.slowly("Short.")
    if last(request).text == "Again":
        return fail(kind="context_overflow")
    return talks(world, request)


def checks(world: World, request: Request) -> ScriptItem:
    return world.slowly("Hello." if is_prompt(request) else "Checked.")


def wants_a_check(context: Context, stopping: Stopping) -> Inject | None:
    said = "" if stopping.message is None else stopping.message.text
    return None if said == "Checked." else Inject("Check.")


def asks_or_is_content(world: World, request: Request) -> ScriptItem:
    if last(request).text == "Hi":
        asks = [call("ask", "ask-1", what="?"), world.tokens()]
        return [say("So."), world.happens("streaming"), pause(1.5), asks]
    return world.slowly("Fine.")


def adds_and_wipes(world: World, request: Request) -> ScriptItem:
    if is_prompt(request):
        adds, wipes = call("add", "add-1", a=1, b=2), call("wipe", "wipe-1", disk="a")
        return [adds, wipes, world.tokens()]
    return world.slowly("Done.")


AT_LIMIT: Final = "note Stopped: this turn used 2 of 2 steps. Continue to allow the …"


def never_ends(world: World, request: Request) -> ScriptItem:
    number = sum(message.kind == "answer" for message in request.messages) + 1
    return [call("add", f"add-{number}", a=1, b=number), world.tokens()]


def delegates(world: World, request: Request) -> ScriptItem:
    first = next(message for message in request.messages if message.kind == "prompt")
    if first.text == "Help":
        return world.slowly("Helped.")
    made = [one for message in request.messages for one in message.results]
    if not made:
        return [call("spawn", "spawn-1", task="Help"), world.tokens()]
    if len(made) == 1:
        return [call("wait", "wait-1", agents=[made[0].text]), world.tokens()]
    return world.slowly("All done.")


# --- What people do -------------------------------------------------------------------------------


async def asks(person: Person) -> None:
    await person.create("Hi")
    await person.rest()


async def asks_twice(person: Person) -> None:
    await asks(person)
    await person.send("Again")
    await person.rest()


async def asks_in_two_chats(person: Person) -> None:
    await person.create("Hi", "c1")
    await person.create("Ho", "c2")
    await person.rest(id="c1")
    await person.rest(id="c2")


async def approves(person: Person) -> None:
    await person.create("Hi")
    await person.rest(Status.REQUIRES_ACTION)
    await person.resolve(_approval)
    await person.rest()


async def approves_at_once(person: Person) -> None:
    """Without waiting for the chat to wait."""
    await person.create("Hi")
    await person.asked()
    await person.resolve(_approval)
    await person.rest()


def _approval(call: JournalCall) -> Approved:
    assert call.asked is not None
    return Approved(call.asked.digest)


async def answers(person: Person) -> None:
    await person.create("Hi")
    await person.rest(Status.REQUIRES_ACTION)
    await person.resolve(lambda call: Recorded(ToolResult(call.call_id, call.tool, (Text("42"),))))
    await person.rest()


def steers_at(signal: str) -> Act:
    async def steers(person: Person) -> None:
        await person.create("Hi")
        await person.sees(signal)
        await person.send("Rather", "steer")
        await person.rest()

    return steers


def interrupts_at(signal: str) -> Act:
    async def interrupts(person: Person) -> None:
        await person.create("Hi")
        await person.sees(signal)
        await person.interrupt()
        await person.rest()

    return interrupts


async def steers_the_question(person: Person) -> None:
    await person.create("Hi")
    await person.rest(Status.REQUIRES_ACTION)
    await person.send("Rather", "steer")
    await person.rest()


async def interrupts_the_question(person: Person) -> None:
    await person.create("Hi")
    await person.rest(Status.REQUIRES_ACTION)
    await person.interrupt()
    await person.rest()


async def sends_meanwhile(person: Person) -> None:
    await person.create("Hi")
    await person.sees("streaming")
    await person.send("One")
    await person.send("Two")
    await person.rest()


async def sends_to_interrupt(person: Person) -> None:
    await person.create("Hi")
    await person.sees("streaming")
    await person.send("Now", "interrupt")
    await person.rest()


def edits_at(signal: str, text: str = "Ho") -> Act:
    async def edits(person: Person) -> None:
        await person.create("Hi")
        await person.sees(signal)
        await person.send("No longer meant")
        await person.edit(1, text)
        await person.rest()

    return edits


async def rearranges(person: Person) -> None:
    await person.create("Hi")
    await person.sees("streaming")
    for text in ("One", "Two", "Three"):
        await person.send(text)
    await person.remove("Three")
    await person.turn_round()
    await person.replace("One", "Uno")
    await person.promote("Two")
    await person.rest()


async def puts_away(person: Person) -> None:
    await asks(person)
    await person.update(title="Greetings")
    await person.archive()
    await person.unarchive()
    await person.create("Ho", "c2")
    await person.rest(id="c2")
    await person.delete("c2")


async def pays_and_retries(person: Person) -> None:
    await person.create("Hi")
    await person.rest(Status.ERROR)
    person.world.signal("paid").set()
    await person.retry()
    await person.rest(Status.IDLE)


async def retries_in_vain(person: Person) -> None:
    await person.create("Hi")
    await person.rest(Status.ERROR)
    await person.retry()
    await person.rest(Status.ERROR)
    person.world.signal("paid").set()
    await person.retry()
    await person.rest(Status.IDLE)


async def resumes(person: Person) -> None:
    await asks(person)
    await person.resume()
    await person.rest()


async def raises_the_budget(person: Person) -> None:
    """After the first answer it is used up: what is sent then stays, and so does its queue."""
    await person.create("Hi")
    await person.rest(Status.IDLE)
    await person.send("Ho")
    await person.rest(Status.ERROR)
    await person.raise_budget(Budgets(user=Limits(steps=2)))
    await person.retry()
    await person.rest(Status.IDLE)
    await person.send("Hey")
    await person.rest(Status.ERROR)


async def compacts(person: Person) -> None:
    await asks(person)
    await person.compact()
    await person.rest()
    await person.send("Again")
    await person.rest()


async def forks(person: Person) -> None:
    """In the middle of a call, and at rest with another prompt."""
    await person.create("Hi")
    await person.until(lambda chat: chat.messages >= 2)
    await person.fork(2, None, "fork-1")
    await person.rest()
    await person.fork(1, "Ho", "fork-2")
    await person.rest(id="fork-2")


# --- What may come of it --------------------------------------------------------------------------

End = Sequence[str]
"""Regular expressions, line by line."""
IN_ANSWER: Final = "marker The user interrupted while you were answering."
IN_TOOLS: Final = "marker The user interrupted while your tool calls were running."
NUMBERED: Final = r"instructions This is number \d+\."
TALK: Final = "answer (Hello. )+Hell…"
SUMMARY: Final = (
    "checkpoint The conversation before this point was replaced by the follo…",
    "note The earlier conversation was summarized",
)
FOUR: Final = "answer →add-1 →wire-1 →slow-1 →pay-1"


def run(outcome: str, call: str = "pay-1", said: str = "paid 3", prompt: str = "Hi") -> End:
    """A turn with one call."""
    result = f"ok {said}" if outcome == "ok" else f"{outcome} maybe"
    return (
        "= idle stop",
        f"prompt {prompt}",
        f"answer So. →{call}",
        f"results <{call} {result}>",
        f"answer {outcome}.",
    )


def four(added: str, wired: str, slept: str, paid: str) -> str:
    """The results of four calls, each with what may have come of it."""
    calls = {"add-1": added, "wire-1": wired, "slow-1": slept, "pay-1": paid}
    return "results " + " ".join(f"<{call} ({made})>" for call, made in calls.items())


HELLO: Final = ("= idle stop", "prompt Hi", "answer Hello.")
ALL_RUN: Final = four("ok 3", "ok wired 3|lost maybe", "ok slept", "ok paid 4|lost maybe")
SEVERAL: Final = ("= idle stop", "prompt Hi", FOUR, ALL_RUN, "answer Done.")

STEERED: Final = (
    "= idle stop",
    *("prompt Hi", "answer So. →ask-1", "results <ask-1 skipped>"),
    *("prompt Rather", "answer Fine."),
)
SPAWNED: Final = ("answer →spawn-1", "results <spawn-1 ok new>")
HELPED: Final = ("= idle stop", "prompt Help", "answer Helped.")

SCENARIOS: Final = (
    Scenario(name="plain", turn=says_hello, person=asks, ends=[HELLO]),
    Scenario(
        name="pure",
        turn=uses("add", a=1, b=2),
        tools=[add],
        person=asks,
        ends=[run("ok", "add-1", "3")],
    ),
    Scenario(
        name="once",
        turn=uses("pay", amount=3),
        tools=[pay],
        person=asks,
        ends=[run("ok"), run("lost")],
    ),
    Scenario(
        name="idempotent",
        turn=uses("book", seats=2),
        tools=[book],
        person=asks,
        ends=[run("ok", "book-1", "booked 2")],
    ),
    Scenario(
        name="several",
        turn=uses_several,
        tools=[add, wire, slow, pay],
        person=asks,
        ends=[SEVERAL],
    ),
    Scenario(
        name="approval",
        turn=uses("wipe", disk="a"),
        tools=[wipe],
        person=approves,
        ends=[run("ok", "wipe-1", "wiped a"), run("lost", "wipe-1")],
    ),
    Scenario(
        name="approval_at_once",
        turn=adds_and_wipes,
        tools=[add, wipe],
        person=approves_at_once,
        ends=[
            ("= idle stop", "prompt Hi", "answer →add-1 →wipe-1", *results, "answer Done.")
            for results in (
                ["results <add-1 ok 3>", "results <wipe-1 (ok wiped a|lost maybe)>"],
                ["results <add-1 ok 3> <wipe-1 (ok wiped a|lost maybe)>"],
            )
        ],
    ),
    Scenario(
        name="client",
        turn=uses("ask", what="?"),
        tools=[ask],
        person=answers,
        ends=[run("ok", "ask-1", "42")],
    ),
    Scenario(
        name="expired",
        turn=uses("ask_soon", what="?"),
        tools=[ask_soon],
        person=asks,
        ends=[
            (
                "= idle stop",
                "prompt Hi",
                "answer So. →ask_soon-1",
                "results <ask_soon-1 timed_out>",
                "answer timed_out.",
            )
        ],
    ),
    Scenario(
        name="interrupt_question",
        turn=uses("ask", what="?"),
        tools=[ask],
        person=interrupts_the_question,
        ends=[
            (
                "= idle interrupted",
                "prompt Hi",
                "answer So. →ask-1",
                "results <ask-1 interrupted>",
                IN_TOOLS,
            )
        ],
    ),
    Scenario(
        name="steer",
        turn=uses_several,
        tools=[add, wire, slow, pay],
        person=steers_at("wire began"),
        ends=[
            *(
                ("= idle stop", "prompt Hi", FOUR, *results, "prompt Rather", "answer Done.")
                for results in (
                    # It was heard while the calls ran, in whatever life.
                    [four("ok 3|interrupted", "ok wired 3|lost maybe", "interrupted", "skipped")],
                    # It waited when the next life began.
                    [
                        "results <add-1 skipped>( <slow-1 skipped>)?( <pay-1 skipped>)?",
                        "results .*",
                    ],
                    # It came when they were done.
                    [ALL_RUN],
                )
            ),
            (*SEVERAL, "prompt Rather", "answer Done."),
        ],
    ),
    Scenario(
        name="steer_question",
        turn=asks_or_is_content,
        tools=[ask],
        person=steers_the_question,
        ends=[STEERED],
    ),
    Scenario(
        name="steer_before_question",
        turn=asks_or_is_content,
        tools=[ask],
        person=steers_at("streaming"),
        ends=[STEERED, ("= idle stop", "prompt Hi", "prompt Rather", "answer Fine.")],
    ),
    Scenario(
        name="steer_answer",
        turn=repeats,
        person=steers_at("streaming"),
        ends=[
            ("= idle stop", "prompt Hi", "answer Hi!", "prompt Rather", "answer Rather!"),
            ("= idle stop", "prompt Hi", "prompt Rather", "answer Rather!"),
        ],
    ),
    Scenario(
        name="interrupt_answer",
        turn=says_hello,
        person=interrupts_at("streaming"),
        ends=[
            ("= idle interrupted", "prompt Hi", "answer Hel …", IN_ANSWER),
            ("= idle interrupted", "prompt Hi", IN_ANSWER),  # nothing had been kept yet
            ("= idle (interrupted|stop)", "prompt Hi", "answer Hello."),  # it came too late
        ],
    ),
    Scenario(
        name="interrupt_tools",
        turn=uses_several,
        tools=[add, wire, slow, pay],
        person=interrupts_at("wire began"),
        ends=[
            (
                "= idle interrupted",
                "prompt Hi",
                FOUR,
                four(
                    "ok 3|interrupted",
                    "ok wired 3|interrupted maybe|lost maybe",
                    "ok slept|interrupted",
                    "interrupted",
                ),
                IN_TOOLS,
            ),
            SEVERAL,
        ],
    ),
    Scenario(
        name="queue",
        turn=repeats,
        person=sends_meanwhile,
        ends=[
            (
                "= idle stop",
                *("prompt Hi", "answer Hi!"),
                *("prompt One", "answer One!"),
                *("prompt Two", "answer Two!"),
            )
        ],
    ),
    Scenario(
        name="send_interrupt",
        turn=repeats,
        person=sends_to_interrupt,
        ends=[
            ("= idle stop", "prompt Hi", *partly, "prompt Now", "answer Now!")
            for partly in (["answer H …", IN_ANSWER], [IN_ANSWER], ["answer Hi!"])
        ],
    ),
    Scenario(
        name="rearrange",
        turn=repeats,
        person=rearranges,
        ends=[
            ("= idle stop", "prompt Hi", *first, *others)
            for first in (["answer H …", IN_ANSWER], [IN_ANSWER], ["answer Hi!"])
            for others in (
                ["prompt Two", "answer Two!", "prompt (One|Uno)", "answer (One|Uno)!"],
                # The first of them was no longer waiting when the others were moved.
                ["prompt One", "answer One!", "prompt Two", "answer Two!"],
                ["prompt One", "answer On …", IN_ANSWER, "prompt Two", "answer Two!"],
                ["prompt One", IN_ANSWER, "prompt Two", "answer Two!"],
            )
        ],
    ),
    Scenario(name="put_away", turn=says_hello, person=puts_away, ends=[HELLO]),
    Scenario(
        name="edit_answer",
        turn=repeats,
        person=edits_at("streaming"),
        ends=[("= idle stop", "prompt Ho", "answer Ho!")],
    ),
    Scenario(
        name="edit_whole_answer",
        turn=dawdles,
        person=edits_at("whole"),
        ends=[("= idle stop", "prompt Ho", "answer Ho!")],
    ),
    Scenario(
        name="interrupt_whole_answer",
        turn=dawdles,
        person=interrupts_at("whole"),
        ends=[
            ("= idle (interrupted|stop)", "prompt Hi", "answer Hi!"),
            ("= idle interrupted", "prompt Hi", "answer Hi! …", IN_ANSWER),  # kept by a dead one
            ("= idle interrupted", "prompt Hi", IN_ANSWER),
        ],
    ),
    Scenario(
        name="empty",
        turn=has_nothing_to_say,
        person=retries_in_vain,
        agent={"policy": Policy(retry=Retry(attempts=2))},
        ends=[HELLO],
    ),
    Scenario(
        name="edit_tools",
        turn=uses("pay", amount=3),
        tools=[pay],
        person=edits_at("pay began"),
        ends=[
            run("ok", "(new|pay-1)", "paid 3", "Ho"),
            run("lost", "(new|pay-1)", prompt="Ho"),
        ],
    ),
    Scenario(name="overloaded", turn=is_overloaded, person=asks, ends=[HELLO]),
    Scenario(name="later", turn=is_busy, person=asks, ends=[HELLO]),
    Scenario(
        name="refused",
        turn=is_refused,
        person=pays_and_retries,
        ends=[("= idle stop", "prompt Hi", "answer He", "answer Hello.")],
    ),
    Scenario(
        name="budget",
        turn=repeats,
        person=raises_the_budget,
        budgets=Budgets(user=Limits(steps=1)),
        ends=[
            (
                "= error error budget",
                *("prompt Hi", "answer Hi!", "prompt Ho", "answer Ho!", "prompt Hey"),
            )
        ],
    ),
    Scenario(
        name="overflow",
        turn=overflows,
        person=asks_twice,
        ends=[("= idle stop", "prompt Hi", TALK, "prompt Again", *SUMMARY, "answer Short.")],
    ),
    Scenario(
        name="compact",
        turn=talks,
        person=compacts,
        ends=[("= idle stop", "prompt Hi", TALK, *SUMMARY, "prompt Again", TALK)],
    ),
    Scenario(
        name="fork",
        turn=uses("add", a=1, b=2),
        tools=[add],
        person=forks,
        ends=[
            (
                *run("ok", "add-1", "3"),
                *("= idle -", "prompt Hi", "answer So. →add-1", "results <add-1 forked>"),
                *run("ok", "add-1", "3", "Ho"),
            )
        ],
    ),
    Scenario(
        name="guard",
        turn=checks,
        person=asks,
        agent={"guard": wants_a_check},
        ends=[(*HELLO, "injected Check.", "answer Checked.")],
    ),
    Scenario(
        name="instructions",
        turn=is_told,
        tools=[add],
        person=asks_twice,
        agent={"instructions": ["Be brief.", numbered]},
        ends=[
            (
                *("= idle stop", "prompt Hi", NUMBERED),
                *("answer So. →add-1", "results <add-1 ok 3>", "answer ok."),
                *("prompt Again", NUMBERED),
                *("answer So. →add-2", "results <add-2 ok 3>", "answer ok."),
            )
        ],
    ),
    Scenario(
        name="limit",
        turn=never_ends,
        tools=[add],
        person=resumes,
        agent={"limits": Limits(steps=2)},
        ends=[
            (
                "= idle limit",
                "prompt Hi",
                *("answer →add-1", "results <add-1 ok 2>"),
                *("answer →add-2", "results <add-2 ok 3>", AT_LIMIT),
                *("answer →add-3", "results <add-3 ok 4>"),
                *("answer →add-4", "results <add-4 ok 5>", AT_LIMIT),
            )
        ],
    ),
    Scenario(
        name="child",
        turn=delegates,
        tools=[spawn, wait],
        person=asks,
        ends=[
            (
                "= idle stop",
                "prompt Hi",
                *SPAWNED,
                "answer →wait-1",
                'results <wait-1 ok .{"agent":"new","status":"idle","answer":"Helped."}.>',
                "answer All done.",
                *HELPED,
            )
        ],
    ),
    Scenario(
        name="interrupt_child",
        turn=delegates,
        tools=[spawn, wait],
        person=interrupts_at("streaming"),
        ends=[
            (
                "= idle interrupted",
                "prompt Hi",
                *parent,
                "= idle interrupted",
                "prompt Help",
                *child,
            )
            for parent in (
                (*SPAWNED, "answer →wait-1", "results <wait-1 interrupted>", IN_TOOLS),
                (*SPAWNED, IN_TOOLS),
            )
            for child in (["answer Hel …", IN_ANSWER], [IN_ANSWER], ["answer Helped."])
        ],
    ),
    Scenario(
        name="edit_child",
        turn=delegates,
        tools=[spawn, wait],
        person=edits_at("streaming", "Help"),
        ends=[
            *(
                (*HELPED, "= idle interrupted", "prompt Help", *child)
                for child in (["answer Hel …", IN_ANSWER], [IN_ANSWER], ["answer Helped."])
            ),
            (*HELPED, *HELPED),  # the edit did not get through before the child had ended
        ],
    ),
    Scenario(
        name="two",
        turn=repeats,
        person=asks_in_two_chats,
        ends=[
            ("= idle stop", "prompt Hi", "answer Hi!", "= idle stop", "prompt Ho", "answer Ho!"),
        ],
    ),
)
