"""What a server refuses is raised as the chat itself would raise it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from holdfast.chat import errors
from holdfast.chat.errors import ChatError, InvalidInput
from holdfast.chat.files import FileInUse, FileNotFound, QuotaExceeded
from holdfast.chat.handle import Chat
from holdfast.chat.host import Host
from holdfast.chat.queue import MAX_QUEUED
from holdfast.chat.rows import Rule, Status
from holdfast.chat.state_machine import Transition
from holdfast.client.errors import RemoteError, error_of
from holdfast.client.remote_chat import RemoteChat
from holdfast.client.remote_host import RemoteHost
from holdfast.host import serving
from holdfast.kernel.decide import Approved
from holdfast.kernel.errors import ConfigError, FormatError, HoldfastError
from holdfast.kernel.messages import File, Message, Text
from holdfast.server.problem import Forbidden, ProblemDetails, problem_of
from holdfast.server.wire_format import from_json, to_json
from holdfast.store.database import Database, OutcomeUnknown, StoreError, Unavailable
from holdfast.testing import Clock, call, pause
from holdfast.worker.options import WorkerOptions
from tests.client.served import connected
from tests.server.api import agent
from tests.test_host import ask_user, pay

EXAMPLES = [
    errors.ChatNotFound("c1"),
    errors.TransitionNotAllowed(Transition.RETRY, Status.REQUIRES_ACTION),
    errors.ChatArchived("c1"),
    errors.NotArchived("c1"),
    errors.QueueFull(100),
    errors.QueuedNotFound("q1"),
    errors.WrongOrder(["a"], ["a", "b"]),
    errors.MessageNotFound(7),
    errors.NotAPrompt(2, "answer"),
    errors.NothingWaits(["x"], []),
    errors.WrongAnswer("call", "it waits for allow or deny"),
    errors.NothingToCompact(),
    errors.NothingToResume(),
    errors.TitleFailed("the model did not answer"),
    errors.FamilyBusy("c1", Status.RUNNING),
    errors.NotARoot("c1", "c0"),
    errors.TooDeep("children", 10),
    errors.KeyReused("k"),
    errors.Stranded("c1", "ops"),
    errors.InvalidInput("no cursor"),
    errors.Corrupt("c1", "message 3", "no JSON"),
    FileNotFound("f1"),
    FileInUse("f1", ["c1"]),
    QuotaExceeded(10, 8, 3),
]


def over_the_wire(error: HoldfastError) -> HoldfastError:
    problem = problem_of(error)
    assert problem is not None
    return error_of(from_json(to_json(problem), ProblemDetails))


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: error.kind)
def test_a_refusal_arrives_with_its_class_its_sentence_and_its_facts(error: ChatError) -> None:
    arrived = over_the_wire(error)
    assert isinstance(arrived, type(error))
    assert type(arrived) is type(error) or type(error) is InvalidInput
    assert (str(arrived), arrived.args) == (str(error), error.args)
    assert vars(arrived) == vars(error)
    for name, fact in vars(error).items():
        assert type(getattr(arrived, name)) is type(fact)


def test_every_refusal_of_a_chat_is_among_these_examples() -> None:
    def all_of(kind: type[ChatError]) -> set[type[ChatError]]:
        below = {
            each for each in kind.__subclasses__() if each.__module__.startswith("holdfast.chat")
        }
        return below.union(*map(all_of, below))

    assert {type(error) for error in EXAMPLES} == all_of(ChatError)


@pytest.mark.parametrize("error", [OutcomeUnknown("lost"), Unavailable("away"), StoreError("no")])
def test_what_the_database_refuses_arrives_as_its_error(error: StoreError) -> None:
    assert type(over_the_wire(error)) is type(error)


def test_what_no_chat_refuses_arrives_with_all_that_is_known_of_it() -> None:
    arrived = over_the_wire(Forbidden("you may not", who="ann"))
    assert isinstance(arrived, RemoteError)
    assert (arrived.kind, arrived.status, arrived.detail) == ("forbidden", 403, "you may not")
    assert arrived.facts == {"who": "ann"}


def test_a_fact_of_a_newer_server_is_kept_as_it_is() -> None:
    facts = {"transition": "dream", "status": "dreaming"}
    arrived = error_of(
        ProblemDetails("transition_not_allowed", 409, "Conflict", "cannot dream", facts)
    )
    assert isinstance(arrived, errors.TransitionNotAllowed)
    assert vars(arrived) == facts


# --- here and there ---

SCRIPT: list[Any] = [
    "one",
    [call("pay", amount=3), call("ask_user")],
    [pause(1000), "never"],
]


async def refusals(host: Host | RemoteHost) -> dict[str, Exception]:
    """All that can be refused, by what was asked."""
    raised: dict[str, Exception] = {}

    async def refused(name: str, asked: Callable[[], Awaitable[object]]) -> None:
        try:
            await asked()
        except Exception as error:
            raised[name] = error
        else:
            raise AssertionError(f"{name} was not refused")

    chat = await host.create("go", key="first")
    await chat.rest()
    await refused("key_reused", lambda: host.create("other", key="first"))
    await refused("no key", lambda: chat.send("x", key=""))
    await refused("no chat", lambda: host.chat("nowhere"))
    await refused("no id", lambda: host.chat(""))
    await refused("no agent", lambda: host.create("x", agent="nobody"))
    await refused("empty", lambda: host.create(" "))
    await refused("effort", lambda: chat.send("x", effort="huge"))  # type: ignore[arg-type]
    await refused("deliver", lambda: chat.send("x", "soon"))  # type: ignore[arg-type]
    await refused("title", lambda: chat.rename(" "))
    await refused("labels", lambda: chat.update(labels={"": "x"}))
    await refused("nothing", lambda: chat.update())
    await refused("limit", lambda: chat.messages(limit=0))
    await refused("limit of list", lambda: host.list(limit=1_001))
    await refused("format", lambda: chat.export("pdf"))  # type: ignore[arg-type]
    await refused("no export", lambda: host.restore("no JSONL"))
    await refused("retry", chat.retry)
    await refused("resume", chat.resume)
    await refused("no message", lambda: chat.edit(9, "x"))
    await refused("no prompt", lambda: chat.edit(2, "x"))
    await refused("fork", lambda: chat.fork(9))
    await refused("queued", lambda: chat.queue.remove("nothing"))
    await refused("order", lambda: chat.queue.reorder(["nothing"]))
    await refused("not archived", chat.unarchive)
    await chat.archive()
    await refused("archived", chat.archive)
    await refused("archived send", lambda: chat.send("x"))
    await of_actions(await host.create("pay"), refused)
    await of_the_rest(await host.create("wait"), refused)
    with pytest.raises(InvalidInput, match="cursor"):
        chat.stream("nowhere")
    return raised


async def of_actions(chat: Chat | RemoteChat, refused: Any) -> None:
    waits = await chat.rest()
    bill, question = waits.actions
    await refused("compact", chat.compact)
    await refused("nobody waits", lambda: chat.resolve({"nobody": "x"}))
    await refused("no answers", lambda: chat.resolve({}))
    await refused("object", lambda: chat.resolve({question.call.id: object()}))
    wrong = {bill.call.id: Approved("of something else")}
    await refused("digest", lambda: chat.resolve(wrong))
    right = {bill.call.id: Approved(bill.digest)}
    await refused("rule", lambda: chat.resolve(right, allow_for_chat=Rule("steal")))


async def of_the_rest(chat: Chat | RemoteChat, refused: Any) -> None:
    await anyio.sleep(1)
    await refused("busy", chat.archive)
    for _ in range(MAX_QUEUED):
        await chat.send("x")
    await refused("full", lambda: chat.send("x"))
    await refused("busy delete", chat.delete)
    for one in await chat.queue.list():
        await chat.queue.remove(one.id)
    await chat.interrupt()
    await chat.rest()
    await chat.delete()
    await refused("gone", chat.read)
    await refused("gone send", lambda: chat.send("x"))
    await refused("gone rest", chat.rest)
    await refused("gone stream", chat.stream().__anext__)
    await refused("gone delete", chat.delete)


async def test_what_is_refused_here_is_refused_there_in_the_same_way(
    db: Database, clock: Clock
) -> None:
    def played() -> Any:
        return [agent(SCRIPT, clock, tools=[pay, ask_user])]

    async with serving(db, played(), titles=False) as host:
        here = await refusals(host)
    async with connected(db, played(), clock) as (_, far):
        there = await refusals(far)
    assert list(here) == list(there)
    for name, ours in here.items():
        theirs = there[name]
        assert isinstance(theirs, type(ours)), (name, ours, theirs)
        if not isinstance(ours, (InvalidInput, ConfigError, FormatError)):
            assert vars(theirs).keys() == vars(ours).keys(), name


# --- there alone ---


async def test_a_chat_that_nobody_can_run_says_so(db: Database, clock: Clock) -> None:
    options = WorkerOptions(stranded=5)
    async with serving(db, [agent((), clock, name="ops")], worker=None, titles=False) as host:
        id = (await host.create("x", owner="ann")).id
    async with connected(db, [agent((), clock)], clock, worker=options) as (_, far):
        with pytest.raises(errors.Stranded):
            await (await far.chat(id)).rest()


async def test_who_may_only_read_is_refused_a_change(db: Database, clock: Clock) -> None:
    async with connected(db, [agent((), clock)], clock, token="hf_viewer") as (_, far):
        with pytest.raises(RemoteError, match="you are not allowed to do this") as refused:
            await far.create("x")
    assert (refused.value.kind, refused.value.status) == ("forbidden", 403)


async def test_an_owner_is_whoever_has_the_token(db: Database, clock: Clock) -> None:
    async with connected(db, [agent((), clock)], clock) as (_, far):
        assert (await far.create(None)).owner == "ann"
        for asked in (far.create(None, owner="bob"), far.list(owner="bob")):
            with pytest.raises(InvalidInput, match="the owner of the token"):
                await asked


@pytest.mark.parametrize(
    "prompt",
    [
        Text("x", metadata={"a": {"b": 1}}),
        Message("user", (Text("x"),), "prompt", visibility="model"),
    ],
)
async def test_what_cannot_be_sent_is_refused_and_not_left_out(
    db: Database, clock: Clock, prompt: Any
) -> None:
    async with connected(db, [agent((), clock)], clock) as (_, far):
        with pytest.raises(InvalidInput):
            await far.create(prompt)
        assert await far.list() == ()


async def test_a_result_that_is_no_text_is_refused(db: Database, clock: Clock) -> None:
    played = agent([call("ask_user")], clock, tools=[ask_user])
    async with connected(db, [played], clock) as (_, far):
        chat = await far.create("x")
        (question,) = (await chat.rest()).actions
        with pytest.raises(InvalidInput, match="pass text or JSON"):
            await chat.resolve({question.call.id: File("image/png", data=b"x")})
