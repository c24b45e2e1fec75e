"""Turns of durable chats are linked to the spans of the callers that caused them."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest
from opentelemetry.sdk.trace import Span

import holdfast
from holdfast import Agent, approve, tool
from holdfast.host import serving
from holdfast.observe.caller_trace import caller_trace, sent_by
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, call, pause, ports, say
from tests.databases import OpenDatabase
from tests.observe.spans import Spans, parent_id
from tests.server.api import agent as served_agent
from tests.server.api import serving_api
from tests.worker.test_takeover import another

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def spans() -> Iterator[Spans]:
    """Spans of this process, while a test runs."""
    kept = Spans()
    undo = holdfast.instrument(tracer_provider=kept.provider)
    yield kept
    undo()


@tool(approval="ask")
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def links(span: Span) -> list[int]:
    return [link.context.span_id for link in span.links]


async def test_turns_are_linked_to_the_callers_that_sent_their_messages_and_answers(
    db: Database, clock: Clock, spans: Spans
) -> None:
    world = ports(clock=clock)
    script = [call("pay", amount=3), "Paid.", "Good bye.", "Again."]
    agent = Agent(model=ScriptedModel(script), tools=[pay], ports=world)
    async with serving(db, [agent], ports=world, titles=False) as host:
        with spans.tracer.start_as_current_span("create"):
            chat = await host.create("pay 3")
            result = await chat.rest()
        with spans.tracer.start_as_current_span("resolve"):
            action = result.actions[0]
            await chat.resolve({action.call.id: approve(action)}, key="once")
            await chat.rest()
        with spans.tracer.start_as_current_span("send"):
            await chat.send("bye")
            await chat.rename("Payments")
            await chat.rest()
        await chat.send("without a caller")
        await chat.rest()
    turns = [span for span in spans.all if span.name == "invoke_agent agent"]
    create, resolve, send = (spans.named(n).context.span_id for n in ("create", "resolve", "send"))
    first, second, third, fourth = map(links, turns)
    assert first == [create]
    assert second[-1:] == [resolve]
    assert (third, fourth) == ([send], [])
    assert {parent_id(turn) for turn in turns} == {None}


async def test_a_turn_of_another_process_is_linked_to_its_caller(
    db: Database, open_db: OpenDatabase, clock: Clock, spans: Spans
) -> None:
    world = ports(clock=clock)
    agent = Agent(model=ScriptedModel(["Hi."]), ports=world)
    async with serving(db, [agent], ports=world, worker=None) as host:
        with spans.tracer.start_as_current_span("request"):
            chat = await host.create("hello")
    async with (
        another(db, open_db) as theirs,
        serving(theirs, [agent], ports=world, titles=False) as other,
    ):
        await (await other.chat(chat.id)).rest()
    assert links(spans.named("invoke_agent agent")) == [spans.named("request").context.span_id]


async def test_each_queued_message_links_its_own_turn(
    db: Database, clock: Clock, spans: Spans
) -> None:
    world = ports(clock=clock)
    agent = Agent(model=ScriptedModel([[pause(5), say("One.")], "Two."]), ports=world)
    async with serving(db, [agent], ports=world, titles=False) as host:
        with spans.tracer.start_as_current_span("create"):
            chat = await host.create("one")
        await anyio.sleep(1)
        with spans.tracer.start_as_current_span("send"):
            await chat.send("two")
        await chat.rest()
    turns = [span for span in spans.all if span.name == "invoke_agent agent"]
    assert [links(turn) for turn in turns] == [
        [spans.named("create").context.span_id],
        [spans.named("send").context.span_id],
    ]


async def test_a_request_over_http_links_the_turn_to_the_span_that_it_names(
    db: Database, clock: Clock, spans: Spans
) -> None:
    async with serving_api(db, [served_agent(["Hi.", "Again."], clock)], clock=clock) as api:
        sent = {"traceparent": CALLER}
        made = (await api.ask("POST", "/chats", {"prompt": "hi"}, headers=sent)).body
        await api.rest(made["id"])
        path = f"/chats/{made['id']}/messages"
        await api.ask("POST", path, {"prompt": "again"}, headers={"traceparent": "00-x"})
        await api.rest(made["id"])
    turns = [span for span in spans.all if span.name == "invoke_agent agent"]
    assert [links(turn) for turn in turns] == [[0x00F067AA0BA902B7], []]


def test_a_caller_is_the_current_span_or_else_the_sender_of_the_request(spans: Spans) -> None:
    assert caller_trace() is None
    with sent_by(CALLER):
        assert caller_trace() == CALLER
        with spans.tracer.start_as_current_span("handler") as span:
            assert f"{span.get_span_context().span_id:016x}" in (caller_trace() or "")
    with sent_by("00-00000000000000000000000000000000-00f067aa0ba902b7-01"):
        assert caller_trace() is None
