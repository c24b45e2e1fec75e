"""A model behind the Gemini API: how it is made, what it asks, how it fails."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import example, given
from hypothesis import strategies as st
from multidict import CIMultiDict

from holdfast import Agent, tool
from holdfast.errors import ConfigError, ProviderError, RunFailed
from holdfast.kernel.assemble import Assembly
from holdfast.kernel.errors import FailureKind, classify
from holdfast.kernel.events import Retrying, Warned
from holdfast.kernel.messages import (
    File,
    Message,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    results_message,
)
from holdfast.kernel.model import (
    EFFORTS,
    Delta,
    Effort,
    Finished,
    Notice,
    PartAdded,
    PartEnded,
    Ping,
    ProviderTool,
    Request,
    Settings,
    Shape,
    TextDelta,
    ToolSpec,
)
from holdfast.kernel.policy import Retry
from holdfast.options import Policy
from holdfast.providers import profile_lookup
from holdfast.providers.google import Google
from holdfast.providers.google.decoder import GoogleDecoder
from holdfast.providers.http import HttpClient
from holdfast.providers.profile import UNKNOWN, Profile
from holdfast.providers.sse import EventParser
from holdfast.testing import (
    call,
    call_raw,
    cut,
    fail,
    file,
    finish,
    pause,
    ping,
    ports,
    say,
    source,
    think,
    usage,
)
from holdfast.testing.fake.dialect_interface import ReceivedRequest
from holdfast.testing.fake.faults import garbled, lost, raw, respond
from holdfast.testing.fake.google import DIALECT, FAKE_SIGNATURE
from holdfast.testing.fake.provider import FakeProvider
from holdfast.testing.script import ScriptedTurn, ScriptItem, ScriptPlayer
from tests.server.api import listening

Json = dict[str, Any]

ASKED = Message("user", (Text("Hi"),), "prompt")
REQUEST = Request(messages=(ASKED,))
PICTURES = (
    File("image/png", data=b"x"),
    File("image/JPG", data=b"x"),
    File("image/png", data=b""),
    File("image/png", ref="https://a.test/a.png"),
)
NESTED = Shape(
    {
        "type": "object",
        "properties": {"a": {"const": 1}, "b": {"$ref": "#/$defs/B", "description": "b"}},
        "$defs": {"B": {"type": "object", "properties": {}}},
    }
)


def google(
    *script: ScriptedTurn, model: str = "gemini-3-flash", **more: Any
) -> tuple[Google, FakeProvider]:
    fake = FakeProvider("google", script)
    return Google(model, api_key="secret", http=fake, **more), fake


async def answer_deltas(model: Google, request: Request = REQUEST) -> list[Delta]:
    return [delta async for delta in model.stream(request)]


def assembled(deltas: Sequence[Delta]) -> Message:
    assembly = Assembly("google:gemini-3-flash", ports())
    for delta in deltas:
        assembly.feed(delta)
    return assembly.message()


async def failure(*script: ScriptedTurn) -> ProviderError:
    model, _ = google(*script)
    with pytest.raises(ProviderError) as caught:
        await answer_deltas(model)
    return caught.value


@tool(effect="pure")
async def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


# --- How it is made -----------------------------------------------------------------------------


async def test_a_request_goes_to_the_model_with_the_key_in_a_header() -> None:
    model, fake = google(say("Hello."))
    await answer_deltas(model)
    (received,) = fake.requests
    assert received.path == "/v1beta/models/gemini-3-flash:streamGenerateContent"
    assert received.query == {"alt": "sse"}
    assert received.headers["X-Goog-Api-Key"] == "secret"
    assert received.headers["User-Agent"].startswith("holdfast/")
    assert received.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("base_url", "model", "path"),
    [
        ("https://g.test", "gemini-3", "/v1beta/models/gemini-3"),
        ("https://g.test/", "gemini-3", "/v1beta/models/gemini-3"),
        ("https://g.test/v1alpha/", "gemini-3", "/v1alpha/models/gemini-3"),
        ("https://g.test/proxy/v1beta", "models/gemini-3", "/proxy/v1beta/models/gemini-3"),
        ("https://g.test/v1beta", "tunedModels/mine", "/v1beta/tunedModels/mine"),
        ("https://g.test/v1beta", "a b?c", "/v1beta/models/a%20b%3Fc"),
        ("https://g.test/v1beta", "../../x", "/v1beta/models/..%2F..%2Fx"),
        ("https://g.test/v1beta", "tunedModels/../x", "/v1beta/tunedModels/..%2Fx"),
        ("https://g.test/v1beta", "a%2Fb#c", "/v1beta/models/a%252Fb%23c"),
        ("https://g.test/v1beta", "..", "/v1beta/models/.."),
    ],
)
async def test_the_address_of_a_model(base_url: str, model: str, path: str) -> None:
    fake = FakeProvider("google", ["Hello."], check=False)
    await answer_deltas(Google(model, api_key="k", base_url=base_url, http=fake))
    assert fake.requests[0].path == f"{path}:streamGenerateContent"


async def test_headers_of_a_user_win_however_they_are_spelled() -> None:
    model, fake = google(say("Hello."), headers={"X-GOOG-API-KEY": "other", "X-More": "1"})
    await answer_deltas(model)
    headers = fake.requests[0].headers
    assert isinstance(headers, CIMultiDict)
    assert headers.getall("x-goog-api-key") == ["other"]
    assert headers["X-More"] == "1"


def test_a_model_has_a_name_and_a_window_and_hides_its_key() -> None:
    model = Google("gemini-3", api_key="secret", provider="mine", profile=Profile(window=9))
    assert (model.name, model.window) == ("mine:gemini-3", 9)
    assert repr(model) == "Google('mine:gemini-3')"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"model": " "}, "name that google uses"),
        ({"api_key": ""}, "pass api_key"),
        ({"api_key": "two words"}, "no key has"),
        ({"api_key": "line\n"}, "no key has"),
        ({"base_url": "generativelanguage.googleapis.com"}, "use http"),
        ({"provider": "a:b"}, "without a colon"),
        ({"provider": ""}, "without a colon"),
        ({"profile": Profile(options={"thinking": "deep"})}, "'level' or 'budget'"),
    ],
)
def test_arguments_that_cannot_be_right_are_refused(wrong: Json, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        Google(**{"model": "gemini-3", "api_key": "k", **wrong})
    assert "two words" not in str(caught.value)


# --- An answer ----------------------------------------------------------------------------------

RICH: ScriptItem = [
    think("Let me think. ", signature="QQ==", chunks=3),
    say("So: ", chunks=2),
    call_raw("code_execution", '{"code":"print(1)"}', id="x1", provider_executed=True, chunks=1),
    PartAdded(ToolResult("x1", "code_execution", (Text("1\n"),), provider_executed=True)),
    ping(),
    file("image/png", b"\x89PNG"),
    say("grüße, 世界 🌍", chunks=5),
    PartEnded(metadata={"google": {"thoughtSignature": "Qg=="}}),
    source("https://a.test", "A"),
    call("look", what="ünder"),
    call("look", what="it"),
    usage(input=100, output=50, reasoning=20, cache_read=40),
]


async def test_an_answer_is_what_the_script_says() -> None:
    model, fake = google(RICH)
    message = assembled(await answer_deltas(model))
    assert fake.problems == []
    thought, so, code, output, picture, text, *rest = message.parts
    assert isinstance(thought, Reasoning)
    assert (thought.text, thought.signature) == ("Let me think. ", "QQ==")
    assert so == Text("So: ")
    assert isinstance(code, ToolCall)
    assert (code.id, code.provider_executed) == ("x1", True)
    assert isinstance(output, ToolResult)
    assert (output.call_id, output.text) == ("x1", "1\n")
    assert picture == File("image/png", data=b"\x89PNG")
    assert isinstance(text, Text)
    assert text.text == "grüße, 世界 🌍"
    assert text.metadata == {"google": {"thoughtSignature": "Qg==", "signed": 0}}
    assert [(made.tool, made.arguments) for made in message.calls[1:]] == [
        ("look", '{"what":"ünder"}'),
        ("look", '{"what":"it"}'),
    ]
    assert rest[-1] == Source("https://a.test", "A")
    assert message.finish == "tool_calls"
    assert message.usage == Usage(100, 50, 20, 40)
    assert message.metadata is not None
    assert message.metadata["google"]["modelVersion"] == "gemini-3-flash"


async def test_a_run_with_tools_gives_back_what_it_was_given() -> None:
    model, fake = google(RICH, say("Done."))
    result = await Agent(model=model, tools=[look], ports=ports()).run("Hi")
    assert result.text == "Done."
    assert fake.problems == []
    _, model_said, results = fake.requests[1].json["contents"]
    assert [next(iter(part)) for part in model_said["parts"]] == [
        "text",
        "text",
        "text",
        "executableCode",
        "codeExecutionResult",
        "inlineData",
        "text",
        "text",
        "functionCall",
        "functionCall",
    ]
    assert model_said["parts"][8] == {
        "functionCall": {"id": "call_1", "name": "look", "args": {"what": "ünder"}},
        "thoughtSignature": FAKE_SIGNATURE,
    }
    assert [part["functionResponse"]["id"] for part in results["parts"]] == ["call_1", "call_2"]


async def test_calls_without_ids_are_answered_without_ids() -> None:
    model, fake = google(
        [call_raw("look", '{"what":"a"}', id=""), call_raw("look", '{"what":"b"}', id="")],
        [call_raw("look", '{"what":"c"}', id="")],
        say("Done."),
    )
    result = await Agent(model=model, tools=[look], ports=ports()).run("Hi")
    assert fake.problems == []
    assert '"id"' not in fake.requests[2].body.decode()
    ids = [made.id for message in result.history for made in message.calls]
    assert len(set(ids)) == 3
    outputs = [
        part["functionResponse"]["response"]["output"]
        for content in fake.requests[2].json["contents"]
        for part in content["parts"]
        if "functionResponse" in part
    ]
    assert outputs == ["saw a", "saw b", "saw c"]


async def test_an_answer_comes_over_a_real_connection() -> None:
    fake = FakeProvider("google", [say("Hello.", chunks=3)])
    http = HttpClient()
    async with fake.serve() as base_url:
        model = Google("gemini-3-flash", api_key="k", base_url=base_url, http=http)
        assert assembled(await answer_deltas(model)).text == "Hello."
        await http.close()
    assert fake.problems == []


@pytest.mark.parametrize(
    "name",
    ["../../x", "..", ".", "a/../../../x", "..%2F..%2Fx", "models/../../x", "x?y#z", "\\..\\x"],
)
async def test_no_name_of_a_model_leaves_the_path_of_the_base_url(name: str) -> None:
    targets: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        targets.append(request.raw_path)
        return web.Response(status=404)

    app, http = web.Application(), HttpClient()
    app.router.add_route("*", "/{path:.*}", answer)
    async with listening(app) as url:
        with pytest.raises(ProviderError):
            await answer_deltas(
                Google(name, api_key="k", base_url=f"{url}/proxy/v1beta", http=http)
            )
        await http.close()
    (target,) = targets
    path = target.removesuffix(":streamGenerateContent?alt=sse")
    assert path.startswith("/proxy/v1beta/models/")
    assert path.count("/") == len(["", "proxy", "v1beta", "models", ""]) - 1


async def test_people_are_told_what_was_left_out() -> None:
    model, _ = google(say("Hello."), profile=Profile(sampling=False))
    request = Request(messages=(ASKED,), settings=Settings(temperature=1.0))
    first, *_ = await answer_deltas(model, request)
    assert first == Notice("google:gemini-3-flash does not take temperature: it was left out.")


async def test_a_chunk_that_says_nothing_is_a_sign_of_life() -> None:
    model, _ = google([ping(), say("Hello.")])
    first, *_ = await answer_deltas(model)
    assert first == Ping()


OLDER = (  # not in the file
    "gemini-1.5-pro",
    "gemini-2.0-flash",
    "gemini-2.0-flash-lite-001",
    "gemini-2.5-pro-preview-tts",
    "gemini-2.5-flash-image",
    "gemini-2.5-computer-use-preview-10-2025",
    "gemini-2.5-flash-lite-preview-06-17",
    "models/gemini-2.5-flash",
    "models/gemini-2.5-flash-lite",
    "models/gemini-2.5-pro",
)


@pytest.mark.parametrize("effort", [None, *EFFORTS])
@pytest.mark.parametrize("id", [*profile_lookup.models("google"), *OLDER])
async def test_every_model_is_asked_in_a_way_that_it_takes(id: str, effort: Effort | None) -> None:
    model, fake = google(say("Hello."), model=id, profile=profile_lookup.lookup("google", id))
    request = Request(
        messages=(
            ASKED,
            Message("assistant", (ToolCall("a", "look", "{}"),), "answer", model="other:model"),
            results_message([ToolResult("a", "look", (Text("x"), *PICTURES))]),
        ),
        tools=(ToolSpec("look", "", {"type": "object", "properties": {}}),),
        provider_tools=(ProviderTool("web_search"),),
        output=NESTED,
        settings=Settings(temperature=1.0, max_output_tokens=100),
        effort=effort,
    )
    assert assembled(await answer_deltas(model, request)).text == "Hello."
    assert fake.problems == []


async def test_a_shape_alone_is_asked_for_in_a_way_that_the_model_takes() -> None:
    model, fake = google(say("{}"))
    await answer_deltas(model, Request(messages=(ASKED,), output=NESTED))
    assert fake.problems == []


@pytest.mark.parametrize(
    ("id", "config"),
    [
        ("gemini-2.5-flash-preview-09-2030", {"thinkingBudget": 1_024, "includeThoughts": True}),
        ("Gemini-2.5-Flash-Preview", {"thinkingBudget": 1_024, "includeThoughts": True}),
        ("google/gemini-2.5-flash", {"thinkingBudget": 1_024, "includeThoughts": True}),
        ("gemini-2.0-flash", None),
        ("models/gemini-1.5-pro", None),
        ("gemini-3-flash", {"thinkingLevel": "low", "includeThoughts": True}),
        ("gemini-10-flash", {"thinkingLevel": "low", "includeThoughts": True}),
        ("my-gemini-2-like", {"thinkingLevel": "low", "includeThoughts": True}),
    ],
)
async def test_an_older_model_that_is_not_known_is_asked_by_its_name(
    id: str, config: Json | None
) -> None:
    fake = FakeProvider("google", [say("Hello.")], check=False)
    model = Google(id, api_key="k", http=fake)
    await answer_deltas(model, Request(messages=(ASKED,), effort="low"))
    assert fake.requests[0].json.get("generationConfig", {}).get("thinkingConfig") == config


async def test_what_a_profile_says_goes_before_what_a_name_says() -> None:
    fake = FakeProvider("google", [say("Hello.")], check=False)
    profile = Profile(efforts=("low",), options={"thinking": "level", "mix_output": True})
    model = Google("gemini-2.0-flash", api_key="k", http=fake, profile=profile)
    tools = (ToolSpec("look", "", {"type": "object", "properties": {}}),)
    await answer_deltas(model, Request(messages=(ASKED,), tools=tools, output=NESTED, effort="low"))
    config = fake.requests[0].json["generationConfig"]
    assert config["thinkingConfig"]["thinkingLevel"] == "low"
    assert "responseJsonSchema" in config


@pytest.mark.parametrize(
    "turn",
    [
        (ToolCall("c", "", "{}"),),
        (ToolCall("c", "look at this!", "{}"),),
        (Reasoning("Hm", "c2ln"), ToolCall("c", "look", "{}")),
        (Text("Well.", {"google": {"thoughtSignature": "c2ln"}}), ToolCall("c", "look", "{}")),
    ],
)
@pytest.mark.parametrize("by", ["google:gemini-2.5-flash", "vllm:m"])
async def test_a_chat_that_another_model_began_can_go_on(turn: tuple[Part, ...], by: str) -> None:
    called = Message("assistant", turn, "answer", model=by)
    (made,) = called.calls
    results = results_message([ToolResult(made.id, made.tool, (Text("x"),))])
    model, fake = google(say("Hello."))
    await answer_deltas(model, Request(messages=(ASKED, called, results)))
    assert fake.problems == []


# --- Wherever the bytes are cut -----------------------------------------------------------------


def wire(turn: ScriptItem) -> bytes:
    """The body of an answer."""
    path = "/v1beta/models/gemini-3-flash:streamGenerateContent"
    received = ReceivedRequest(path, {}, {}, b"")
    steps = ScriptPlayer([turn]).steps(0, None)
    speaker = DIALECT.encoder(received, None)
    events: list[bytes] = []
    for step in steps:
        assert not callable(step)
        events += speaker.encode_delta(step)  # type: ignore[arg-type]
    return b"".join(events)


def read(pieces: Sequence[bytes]) -> list[Delta]:
    events, decoder = EventParser(), GoogleDecoder("google", UNKNOWN)
    deltas = [delta for piece in pieces for delta in decoder.feed(events.feed(piece))]
    return [*deltas, *decoder.feed(events.end()), *decoder.end()]


BODY = wire(RICH)
WHOLE = read([BODY])


@given(st.lists(st.integers(0, len(BODY)), max_size=12), st.booleans())
@example(list(range(len(BODY))), False)
def test_an_answer_is_the_same_however_it_is_cut(cuts: list[int], crlf: bool) -> None:
    at = [0, *sorted(cuts), len(BODY)]
    pieces = [BODY[start:end] for start, end in pairwise(at)]
    if crlf:
        pieces = [piece.replace(b"\n", b"\r\n") for piece in pieces]
    deltas = read(pieces)
    assert deltas == WHOLE
    assert assembled(deltas) == assembled(WHOLE)


def test_an_answer_that_is_cut_anywhere_has_no_end() -> None:
    events = BODY.split(b"\n\n")[:-1]
    for count in range(len(events)):
        deltas = read([b"\n\n".join(events[:count]) + b"\n\n"])
        assert not any(isinstance(delta, Finished) for delta in deltas)


# --- Failures -----------------------------------------------------------------------------------


def refusal(
    code: int, status: str, message: str = "no", details: Sequence[Json] = ()
) -> ScriptItem:
    error: Json = {"code": code, "message": message, "status": status}
    if details:
        error["details"] = list(details)
    return respond(code, {"error": error})


REASON = "type.googleapis.com/google.rpc.ErrorInfo"
QUOTA = "type.googleapis.com/google.rpc.QuotaFailure"
RETRY = "type.googleapis.com/google.rpc.RetryInfo"


@pytest.mark.parametrize(
    ("code", "status", "kind", "retryable"),
    [
        (400, "INVALID_ARGUMENT", "invalid_request", False),
        (400, "FAILED_PRECONDITION", "permission", False),
        (400, "OUT_OF_RANGE", "invalid_request", False),
        (401, "UNAUTHENTICATED", "auth", False),
        (403, "PERMISSION_DENIED", "permission", False),
        (404, "NOT_FOUND", "not_found", False),
        (409, "ABORTED", "server", True),
        (429, "RESOURCE_EXHAUSTED", "rate_limit", True),
        (499, "CANCELLED", "stream_cut", True),
        (500, "INTERNAL", "server", True),
        (500, "UNKNOWN", "server", True),
        (503, "UNAVAILABLE", "overloaded", True),
        (504, "DEADLINE_EXCEEDED", "timeout", True),
    ],
)
async def test_what_a_refusal_means(
    code: int, status: str, kind: FailureKind, retryable: bool
) -> None:
    error = await failure(refusal(code, status))
    assert (error.kind, error.status, error.code) == (kind, code, status)
    assert classify(error).retryable is retryable
    inside = await failure([say("So"), raw(_event(code, status))])
    assert (inside.kind, inside.status) == (kind, code)


def _event(code: int, status: str) -> bytes:
    error = {"error": {"code": code, "message": "no", "status": status}}
    return b"data: " + msgspec.json.encode(error) + b"\n\n"


@pytest.mark.parametrize(
    ("code", "status", "reason", "kind"),
    [
        (400, "INVALID_ARGUMENT", "API_KEY_INVALID", "auth"),
        (400, "INVALID_ARGUMENT", "API_KEY_EXPIRED", "auth"),
        (401, "UNAUTHENTICATED", "ACCESS_TOKEN_EXPIRED", "auth"),
        (401, "UNAUTHENTICATED", "CREDENTIALS_MISSING", "auth"),
        (403, "PERMISSION_DENIED", "API_KEY_SERVICE_BLOCKED", "permission"),
        (403, "PERMISSION_DENIED", "SERVICE_DISABLED", "permission"),
        (403, "PERMISSION_DENIED", "BILLING_DISABLED", "quota"),
        (403, "PERMISSION_DENIED", "CONSUMER_SUSPENDED", "permission"),
        (429, "RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED", "rate_limit"),
    ],
)
async def test_the_details_of_a_refusal_say_more_than_its_status(
    code: int, status: str, reason: str, kind: FailureKind
) -> None:
    error = await failure(refusal(code, status, details=[{"@type": REASON, "reason": reason}]))
    assert (error.kind, error.code) == (kind, reason)


async def test_a_quota_for_a_day_is_used_up_and_one_for_a_minute_is_waited_for() -> None:
    said_so = "You exceeded your current quota, please check your plan and billing details."
    minute = {"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}
    day = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}
    wait = {"@type": RETRY, "retryDelay": "22.5s"}

    async def kind(*details: Json) -> tuple[FailureKind, float | None]:
        error = await failure(refusal(429, "RESOURCE_EXHAUSTED", said_so, details))
        return error.kind, error.retry_after

    assert await kind({"@type": QUOTA, "violations": [minute]}, wait) == ("rate_limit", 22.5)
    assert (await kind({"@type": QUOTA, "violations": [day]}, wait))[0] == "quota"
    assert await kind() == ("quota", None)


async def test_a_prompt_that_is_too_long_says_how_much_fits() -> None:
    message = (
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
    )
    error = await failure(refusal(400, "INVALID_ARGUMENT", message))
    assert (error.kind, error.window) == ("context_overflow", 1048576)


async def test_a_refusal_may_come_in_a_list_and_with_status_200() -> None:
    error = {"code": 503, "message": "busy", "status": "UNAVAILABLE"}
    assert (await failure(respond(503, [{"error": error}]))).kind == "overloaded"
    assert (await failure(respond(200, [{"error": error}]))).kind == "overloaded"


async def test_no_failure_shows_the_key() -> None:
    for turn in (refusal(400, "INVALID_ARGUMENT"), respond(302, b"", {"Location": "http://x/y"})):
        model, _ = google(turn)
        with pytest.raises((ConfigError, ProviderError)) as caught:
            await answer_deltas(model)
        assert "secret" not in str(caught.value)
        assert "secret" not in repr(caught.value)


async def test_an_error_inside_the_stream_fails_the_attempt_and_the_next_answers() -> None:
    model, _ = google([say("So"), fail("busy", status=503)], say("Done."))
    events = [event async for event in Agent(model=model, ports=ports()).run("Hi")]
    (again,) = [event for event in events if isinstance(event, Retrying)]
    assert again.kind == "overloaded"


async def test_a_call_that_nobody_can_read_is_asked_for_again() -> None:
    model, fake = google(call_raw("look", '{"what": '), [call("look", what="a")], say("Done."))
    agent = Agent(model=model, tools=[look], ports=ports())
    events = [event async for event in agent.run("Hi")]
    (again,) = [event for event in events if isinstance(event, Retrying)]
    assert again.kind == "server"
    assert fake.left == 0


ONCE = Policy(retry=Retry(attempts=1))


@pytest.mark.parametrize(
    ("turn", "kind"),
    [
        ([say("Half an ans"), cut()], "stream_cut"),
        ([say("Half an ans"), lost()], "stream_cut"),
        ([say("Half"), garbled(), say("an answer")], "server"),
        ([say("Half"), raw("data: {nonsense\n\n")], "server"),
        (finish("stop"), "empty_response"),
        (finish("content_filter"), "content_filter"),
        (
            finish("stop", metadata={"google": {"promptFeedback": {"blockReason": "SAFETY"}}}),
            "content_filter",
        ),
        ([pause(120), say("late")], "stream_silent"),
    ],
)
async def test_a_broken_answer_is_no_answer(turn: ScriptedTurn, kind: FailureKind) -> None:
    model, fake = google(turn)
    with pytest.raises(RunFailed) as caught:
        await Agent(model=model, policy=ONCE, ports=ports()).run("Hi")
    assert caught.value.failure.kind == kind
    assert fake.open == 0


async def test_what_was_visible_of_a_filtered_answer_is_kept() -> None:
    model, _ = google([say("Up to here"), finish("content_filter")])
    result = await Agent(model=model, ports=ports()).run("Hi")
    assert (result.text, result.history[-1].finish) == ("Up to here", "content_filter")


async def test_an_answer_is_complete_although_its_connection_breaks_behind_it() -> None:
    model, _ = google([say("All of it."), Finished("stop"), lost()])
    assert assembled(await answer_deltas(model)).text == "All of it."


async def test_a_notice_reaches_the_run() -> None:
    model, _ = google(say("Hello."))
    prompt: list[Part] = [Text("See"), File("application/zip", "a.zip", b"x")]
    events = [event async for event in Agent(model=model, ports=ports()).run(prompt)]
    assert [event.text for event in events if isinstance(event, Warned)] == [
        "a.zip was not sent to google:gemini-3-flash, which does not take application/zip."
    ]


def test_a_delta_of_text_is_nothing_but_its_text() -> None:
    assert [type(delta) for delta in read([wire(say("abc", chunks=3))])] == [
        TextDelta,
        TextDelta,
        TextDelta,
        Finished,
    ]
