"""The bridge to pydantic-ai: requests there, events back, errors by their type."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai import exceptions as theirs
from pydantic_ai.messages import (
    BinaryContent,
    BinaryImage,
    Citation,
    CompactionPart,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturnPart,
    UserPromptPart,
    WebCitationSource,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingPart,
    DeltaToolCall,
    FunctionModel,
)
from pydantic_ai.models.test import TestModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.usage import RequestUsage

from holdfast import Agent, Limits
from holdfast.kernel.errors import ConfigError, FailureKind, ProviderError, classify
from holdfast.kernel.events import Retrying
from holdfast.kernel.messages import (
    File,
    Message,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    dump,
    injected,
    load,
    results_message,
    user_message,
)
from holdfast.kernel.model import (
    ArgumentsDelta,
    Block,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    Notice,
    PartAdded,
    ProviderTool,
    Request,
    Settings,
    Shape,
    TextDelta,
    ToolSpec,
)
from holdfast.options import Policy, Retry
from holdfast.providers.provider_catalog import WireProtocol
from holdfast.providers.pydantic_ai import PydanticAI
from holdfast.providers.pydantic_ai.decoder import PydanticDecoder
from holdfast.providers.pydantic_ai.failure import translated
from holdfast.testing import (
    ScriptedTurn,
    call_raw,
    cut,
    endless,
    fail,
    garbled,
    hang,
    lost,
    ports,
    respond,
    say,
    think,
)
from holdfast.testing.conformance.bench import ask, collect, described, until_content
from holdfast.testing.fake.provider import FakeProvider
from tests.kernel.runs import act, events_of, later, look, only, outcome
from tests.providers.bridges import Said, functioning, talking
from tests.providers.makers import PROTOCOLS

ROOT = Path(__file__).resolve().parents[2]


class Heard:
    """A model that notes what it is asked, and says one word."""

    def __init__(self, profile: ModelProfile | None = None) -> None:
        self.messages: list[ModelMessage] = []
        self.info: AgentInfo
        self.model = FunctionModel(stream_function=self._speak, model_name="noted", profile=profile)

    async def _speak(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        self.messages, self.info = messages, info
        yield "Yes."

    async def ask(self, request: Request, **more: Any) -> list[Delta]:
        record = await collect(PydanticAI(self.model, **more), request)
        assert record.message.text == "Yes."
        return record.deltas


def saying(*said: Said) -> PydanticAI:
    async def speak(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Said]:
        for item in said:
            yield item

    return PydanticAI(FunctionModel(stream_function=speak, model_name="said"))


# --- Making one ---------------------------------------------------------------------------------


def test_a_bridged_model_is_named_after_the_bridge_its_provider_and_itself() -> None:
    model = PydanticAI(TestModel())
    assert (model.name, model.window) == ("pydantic-ai:test:test", None)
    assert PydanticAI(TestModel(), name="mine", window=9_000).name == "pydantic-ai:mine"
    assert PydanticAI(TestModel(), name="mine", window=9_000).window == 9_000


def test_the_window_is_the_one_that_pydantic_ai_knows() -> None:
    assert PydanticAI(Heard(ModelProfile(context_window=32_000)).model).window == 32_000


def test_a_model_may_be_given_by_its_name() -> None:
    assert PydanticAI("test").name == "pydantic-ai:test:test"
    with pytest.raises(ConfigError, match="pydantic-ai has no model 'nobody:nothing': "):
        PydanticAI("nobody:nothing")


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="model is a int: use a model of pydantic-ai"):
        PydanticAI(7)  # type: ignore[arg-type]


def test_without_pydantic_ai_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.partition(".")[0] == "pydantic_ai":
            monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r'pip install "holdfast\[pydantic-ai\]"'):
        PydanticAI("openai:gpt-5")


def test_pydantic_ai_is_not_imported_before_a_model_is_made() -> None:
    program = (
        "import sys, holdfast, holdfast.providers.pydantic_ai as bridge\n"
        "assert bridge.PydanticAI and 'pydantic_ai' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


# --- What is asked ------------------------------------------------------------------------------


async def test_settings_are_called_what_pydantic_ai_calls_them() -> None:
    noted = Heard()
    settings = Settings(temperature=0.5, top_k=3, max_output_tokens=100)
    await noted.ask(Request(messages=ask().messages, settings=settings, effort="high"))
    assert noted.info.model_settings == {"max_retries": 0, "temperature": 0.5, "top_k": 3} | {
        "max_tokens": 100
    }
    assert noted.info.model_request_parameters.thinking is None  # as this model cannot think


async def test_the_most_particular_setting_wins() -> None:
    noted = Heard()
    settings = Settings(temperature=0.5, options={"pydantic-ai": {"seed": 7}, "other": {"x": 1}})
    request = Request(messages=ask().messages, settings=settings, cache_key="chat-1")
    await noted.ask(request, settings={"temperature": 0.1, "top_p": 0.9, "max_retries": 2})
    assert noted.info.model_settings == {
        "max_retries": 2,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "openai_prompt_cache_key": "chat-1",
    }


async def test_a_model_that_cannot_be_told_not_to_retry_is_not_told() -> None:
    class Stubborn(FunctionModel):
        unsupported_settings = frozenset({"max_retries"})

    noted = Heard()
    noted.model = Stubborn(stream_function=noted._speak)
    await noted.ask(ask())
    assert not noted.info.model_settings


@pytest.mark.parametrize(("effort", "thinking"), [("none", False), ("low", "low"), (None, None)])
async def test_effort_is_said_as_thinking(effort: Any, thinking: object) -> None:
    noted = Heard(ModelProfile(supports_thinking=True))
    await noted.ask(Request(messages=ask().messages, effort=effort))
    assert noted.info.model_request_parameters.thinking == thinking


async def test_the_system_prefix_is_instructions_and_its_cached_part_is_static() -> None:
    noted = Heard()
    system = (Block("One."), Block("Two.", cache=True), Block("Three."))
    await noted.ask(Request(system=system, messages=ask().messages))
    parts = noted.info.model_request_parameters.instruction_parts
    assert parts is not None
    assert [(part.content, part.dynamic) for part in parts] == [
        ("One.", False),
        ("Two.", False),
        ("Three.", True),
    ]


async def test_tools_are_declared_with_their_schemas() -> None:
    noted = Heard()
    schema = {"type": "object", "properties": {"what": {"type": "string"}}}
    tool = ToolSpec("look", "Look at it.", schema)
    await noted.ask(Request(messages=ask().messages, tools=(tool,)))
    (declared,) = noted.info.function_tools
    assert (declared.name, declared.description) == ("look", "Look at it.")
    assert declared.parameters_json_schema == schema


@pytest.mark.parametrize(("native", "mode"), [(True, "native"), (False, "prompted")])
async def test_a_shape_is_asked_for_as_the_model_can(native: bool, mode: str) -> None:
    noted = Heard(ModelProfile(supports_json_schema_output=native))
    shape = Shape({"type": "object", "properties": {}}, "verdict")
    await noted.ask(Request(messages=ask().messages, output=shape))
    asked = noted.info.model_request_parameters
    assert (asked.output_mode, asked.allow_text_output) == (mode, True)
    assert asked.output_object is not None
    assert (asked.output_object.name, asked.output_object.json_schema) == ("verdict", shape.schema)
    assert bool(asked.instruction_parts) is not native


async def test_what_is_said_in_a_row_is_one_request() -> None:
    noted = Heard()
    answer = Message(
        "assistant",
        (ToolCall("call_a", "look", '{"what": "a"}'),),
        "answer",
        model="pydantic-ai:function:noted",
    )
    failed = ToolResult("call_a", "look", (Text("No."),), "failed")
    messages = (
        user_message("?"),
        Message("system", (Text("There is a README."),), "context", "model"),
        answer,
        results_message([failed]),
        injected("Go on."),
    )
    await noted.ask(Request(messages=messages))
    first, second, third = noted.messages
    assert isinstance(first, ModelRequest)
    assert isinstance(second, ModelResponse)
    assert isinstance(third, ModelRequest)
    assert [type(part) for part in first.parts] == [UserPromptPart, UserPromptPart]
    assert "There is a README." in str(first.parts[1])
    assert [(type(part), part.content) for part in third.parts] == [  # type: ignore[union-attr]
        (ToolReturnPart, "No."),
        (UserPromptPart, "Go on."),
    ]
    assert third.parts[0].outcome == "failed"  # type: ignore[union-attr]


async def test_a_system_message_is_one_where_the_model_knows_them() -> None:
    noted = Heard(ModelProfile(supports_inline_system_prompts=True))
    told_later = Message("system", (Text("Be brief."),), "context", "model")
    await noted.ask(Request(messages=(user_message("?"), told_later)))
    assert isinstance(noted.messages[0].parts[1], SystemPromptPart)


async def test_files_are_sent_as_the_model_takes_them() -> None:
    noted = Heard(ModelProfile(supports_video_input=False))
    files = (
        File("image/png", "a.png", b"png"),
        File("image/png", "b.png", ref="https://pictures.example/b.png"),
        File("text/plain", "c.txt", b"text"),
        File("video/mp4", "d.mp4", b"mp4"),
        File("application/x-thing", "e", b"?"),
        File("image/png", "f.png", ref="store:9"),
    )
    deltas = await noted.ask(Request(messages=(Message("user", files, "prompt"),)))
    (prompt,) = noted.messages[0].parts
    assert isinstance(prompt, UserPromptPart)
    image, linked, text, *instead = list(prompt.content)
    assert image == BinaryContent(b"png", media_type="image/png")
    assert linked == ImageUrl("https://pictures.example/b.png", media_type="image/png")
    assert "c.txt" in str(text)
    assert len(instead) == 3
    assert all(isinstance(item, str) for item in instead)
    notices = [delta.text for delta in deltas if isinstance(delta, Notice)]
    assert [notice.partition(" ")[0] for notice in notices] == ["d.mp4", "e", "f.png"]


async def test_a_tool_of_the_provider_is_declared_natively() -> None:
    noted = Heard()
    tools = (
        ProviderTool("web_search", {"max_uses": 3, "allowed_domains": ["met.example"]}),
        ProviderTool("fetch", native={"pydantic-ai": {"kind": "web_fetch", "max_uses": 1}}),
        ProviderTool("telepathy"),
    )
    deltas = await noted.ask(Request(messages=ask().messages, provider_tools=tools))
    search, fetch = noted.info.model_request_parameters.native_tools
    assert search == WebSearchTool(max_uses=3, allowed_domains=["met.example"])
    assert fetch.kind == "web_fetch"
    assert Notice("pydantic-ai:function:noted has no telepathy.") in deltas


async def test_a_restriction_that_does_not_hold_leaves_the_tool_out() -> None:
    class Lax(FunctionModel):
        def unsupported_native_tool_settings(self, native_tool: Any) -> frozenset[str]:
            return frozenset({"max_uses"})

    noted = Heard()
    noted.model = Lax(stream_function=noted._speak, model_name="lax")
    tools = (ProviderTool("web_search", {"max_uses": 3}),)
    deltas = await noted.ask(Request(messages=ask().messages, provider_tools=tools))
    assert noted.info.model_request_parameters.native_tools == []
    assert Notice("pydantic-ai:function:lax has web_search only without max_uses.") in deltas


async def test_options_that_do_not_fit_are_a_mistake_in_the_set_up() -> None:
    tools = (ProviderTool("web_search", {"max_uses": "many"}),)
    record = await collect(saying("?"), Request(messages=ask().messages, provider_tools=tools))
    assert record.failure.kind == "config"
    assert "the options of web_search are not valid in pydantic-ai" in record.failure.message


async def test_a_foreign_id_is_made_to_fit_with_its_result() -> None:
    noted = Heard()
    call = ToolCall("call_1|fc_2", "look", '{"what": "a"}')
    answer = Message("assistant", (Text("Hm."), call), "answer", model="openai:gpt-5")
    result = results_message([ToolResult("call_1|fc_2", "look", (Text("a tree"),))])
    await noted.ask(Request(messages=(user_message("?"), answer, result)))
    asked, returned = noted.messages[1].parts[1], noted.messages[2].parts[0]
    assert isinstance(asked, ToolCallPart)
    assert isinstance(returned, ToolReturnPart)
    assert asked.tool_call_id == returned.tool_call_id
    assert asked.tool_call_id.replace("_", "").isalnum()


# --- What is answered ---------------------------------------------------------------------------


async def test_a_call_in_pieces_is_whole_in_the_end() -> None:
    model = saying(
        {0: DeltaToolCall("lo", tool_call_id="call_a")},
        {0: DeltaToolCall("ok", '{"what": ')},
        {1: DeltaToolCall("look", '{"what": ', tool_call_id="call_b")},
        {0: DeltaToolCall(json_args='"a"}')},
        {1: DeltaToolCall(json_args='"b"}')},
    )
    record = await collect(model, ask())
    assert described(record.message) == ['call: look {"what":"a"}', 'call: look {"what":"b"}']
    assert [call.id for call in record.message.calls] == ["call_a", "call_b"]


async def test_a_call_that_is_complete_ends_before_the_answer_does() -> None:
    model = saying(
        {0: DeltaToolCall("look", '{"what": "a"}', tool_call_id="call_a")},
        {1: DeltaToolCall("look", '{"what": "b"}', tool_call_id="call_b")},
    )
    deltas = (await collect(model, ask())).deltas
    assert deltas.index(CallEnded("call_a")) < deltas.index(CallStarted("call_b", "look"))


def reading(*events: Any) -> list[Delta]:
    """What the events come to, up to the end of a good answer."""
    state = PydanticDecoder()
    fed = [delta for event in events for delta in state.feed(event)]
    end = state.finish(ModelResponse(parts=[], finish_reason="stop", model_name="m"))
    return [*fed, *end[:-1]]


def test_arguments_that_come_as_values_are_written_as_json() -> None:
    part = ToolCallPart("look", {"what": "ä"}, "call_a")
    assert reading(PartStartEvent(index=0, part=part), PartEndEvent(index=0, part=part)) == [
        CallStarted("call_a", "look"),
        ArgumentsDelta("call_a", '{"what":"ä"}'),
        CallEnded("call_a"),
    ]


def test_arguments_that_come_after_the_next_call_began_are_not_lost() -> None:
    first, second = ToolCallPart("look", '{"what"', "a"), ToolCallPart("look", "{}", "b")
    late = PartDeltaEvent(index=0, delta=ToolCallPartDelta(args_delta=': "a"}'))
    deltas = reading(
        PartStartEvent(index=0, part=first),
        PartEndEvent(index=0, part=first),
        PartStartEvent(index=1, part=second),
        late,
        PartEndEvent(index=1, part=second),
    )
    assert "".join(
        d.text for d in deltas if getattr(d, "call_id", "") == "a" and hasattr(d, "text")
    ) == ('{"what": "a"}')
    assert deltas.index(CallEnded("a")) > deltas.index(ArgumentsDelta("a", ': "a"}'))


def test_a_part_that_is_replaced_is_passed_on_once() -> None:
    first = NativeToolCallPart("web_search", None, "srv_1")
    whole = NativeToolCallPart("web_search", {"query": "Oslo"}, "srv_1")
    deltas = reading(
        PartStartEvent(index=0, part=first),
        PartEndEvent(index=0, part=whole),
        PartStartEvent(index=0, part=whole),
        PartEndEvent(index=0, part=whole),
        PartStartEvent(index=1, part=TextPart("So.")),
        PartStartEvent(index=0, part=whole),
    )
    calls = [delta.part for delta in deltas if isinstance(delta, PartAdded)]
    assert [call.arguments for call in calls if isinstance(call, ToolCall)] == ['{"query":"Oslo"}']


def test_citations_are_sources_also_when_they_come_late() -> None:
    page = WebCitationSource("https://met.example", title="Met")
    cited = TextPart("Sunny.", citations=[Citation([page, page])])
    late = PartDeltaEvent(index=0, delta=TextPartDelta("", citations_delta=[Citation([page])]))
    for events in (
        [PartStartEvent(index=0, part=cited), PartEndEvent(index=0, part=cited)],
        [
            PartStartEvent(index=0, part=TextPart("Sunny.")),
            PartEndEvent(index=0, part=TextPart("Sunny.")),
            PartStartEvent(index=1, part=TextPart("Warm.")),
            late,
        ],
    ):
        found = [delta.part for delta in reading(*events) if isinstance(delta, PartAdded)]
        assert found == [Source("https://met.example", "Met")]


def test_a_file_is_a_part() -> None:
    part = FilePart(BinaryContent(b"png", media_type="image/png"))
    (added,) = reading(PartStartEvent(index=0, part=part))
    assert isinstance(added, PartAdded)
    assert isinstance(added.part, File)
    assert (added.part.media_type, added.part.data) == ("image/png", b"png")


def test_usage_does_not_count_the_cache_twice() -> None:
    used = RequestUsage(
        input_tokens=1_000,
        cache_read_tokens=600,
        cache_write_tokens=100,
        output_tokens=50,
        output_reasoning_tokens=20,
    )
    response = ModelResponse(parts=[], usage=used, finish_reason="stop")
    finished = PydanticDecoder().finish(response)[-1]
    assert isinstance(finished, Finished)
    assert finished.usage == Usage(300, 50, 20, 600, 100)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("tool_call", "tool_calls"),
        (None, "stop"),
    ],
)
def test_finish_reasons_are_called_what_we_call_them(reason: Any, finish: str) -> None:
    finished = PydanticDecoder().finish(ModelResponse(parts=[], finish_reason=reason))[-1]
    assert isinstance(finished, Finished)
    assert finished.finish == finish


@pytest.mark.parametrize(
    ("reason", "calls"), [("stop", 2), ("tool_call", 2), ("length", 1), ("content_filter", 1)]
)
def test_a_call_that_was_broken_off_is_no_call(reason: Any, calls: int) -> None:
    whole, half = ToolCallPart("look", "{}", "a"), ToolCallPart("look", '{"what', "b")
    state = PydanticDecoder()
    deltas = [
        *state.feed(PartStartEvent(index=0, part=whole)),
        *state.feed(PartEndEvent(index=0, part=whole)),
        *state.feed(PartStartEvent(index=1, part=half)),
        *state.feed(PartEndEvent(index=1, part=half)),
        *state.finish(ModelResponse(parts=[], finish_reason=reason)),
    ]
    ended = [delta.call_id for delta in deltas if isinstance(delta, CallEnded)]
    assert ended == ["a", "b"][:calls]


def test_an_answer_that_ended_with_an_error_is_a_failure() -> None:
    details = {"finish_reason": "MALFORMED_FUNCTION_CALL"}
    response = ModelResponse(parts=[], finish_reason="error", provider_details=details)
    with pytest.raises(ProviderError, match="MALFORMED_FUNCTION_CALL") as caught:
        PydanticDecoder().finish(response)
    assert classify(caught.value).retryable


class Pausing(FunctionModel):
    """Says that it is not done, this often."""

    pauses = 1
    asked: tuple[list[ModelMessage], ...] = ()

    @asynccontextmanager
    async def request_stream(self, messages: Any, *more: Any) -> AsyncIterator[StreamedResponse]:
        self.asked = (*self.asked, messages)
        async with super().request_stream(messages, *more) as stream:
            stream.state = "suspended" if len(self.asked) <= self.pauses else "complete"
            yield stream


def pausing(pauses: int) -> Pausing:
    async def speak(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield f"{len(model.asked)} "

    model = Pausing(stream_function=speak)
    model.pauses = pauses
    return model


async def test_an_answer_that_pauses_is_asked_to_go_on() -> None:
    model = pausing(2)
    record = await collect(PydanticAI(model), ask())
    assert record.message.text == "1 2 3 "
    assert [type(message) for message in model.asked[2]] == [ModelRequest, ModelResponse]
    assert [part.content for part in model.asked[2][1].parts] == ["1 ", "2 "]  # type: ignore[union-attr]
    assert record.message.usage is not None
    assert record.message.usage.output == 3 * 1


async def test_an_answer_that_pauses_fills_the_window_once() -> None:
    at_once = await collect(PydanticAI(pausing(0)), ask())
    in_goes = await collect(PydanticAI(pausing(2)), ask())
    assert at_once.message.usage is not None
    assert in_goes.message.usage is not None
    assert in_goes.message.usage.context < 2 * at_once.message.usage.context


async def test_an_answer_that_pauses_for_ever_is_a_failure() -> None:
    record = await collect(PydanticAI(pausing(99)), ask())
    assert record.failure.kind == "server"
    assert "paused 10 times" in record.failure.detail


async def test_an_answer_in_the_background_is_refused() -> None:
    class Background(Pausing):
        def continuation_delay(self, response: ModelResponse) -> float:
            return 2.0

    model = Background(stream_function=pausing(9).stream_function)  # type: ignore[arg-type]
    record = await collect(PydanticAI(model), ask())
    assert record.failure.kind == "config"
    assert "switch its background mode off" in record.failure.message


# --- Replayed -----------------------------------------------------------------------------------

PARTS: tuple[Any, ...] = (
    ThinkingPart("Hm.", id="rs_1", signature="sig", provider_name="openai"),
    ThinkingPart("", id="redacted_thinking", signature="data", provider_name="anthropic"),
    TextPart("So.", id="msg_1", provider_name="openai", provider_details={"phase": "final_answer"}),
    NativeToolCallPart(
        "web_search", {"query": "Oslo"}, "ws_1", provider_name="openai", provider_details={"a": 1}
    ),
    NativeToolReturnPart(
        "web_search", {"results": [{"url": "https://met.example"}]}, "ws_1", provider_name="openai"
    ),
    FilePart(BinaryImage(b"png", media_type="image/png"), id="file_1", provider_name="openai"),
    CompactionPart(None, id="cmp_1", provider_name="openai", provider_details={"e": "secret"}),
    ToolCallPart("look", '{"what": "a"}', "call_a", id="fc_1", provider_name="openai"),
)


def replayable(part: Any) -> dict[str, Any]:
    """A part without when it was made."""
    fields = {name: getattr(part, name) for name in part.__dataclass_fields__}
    fields.pop("timestamp", None)
    if isinstance(part, NativeToolCallPart):
        fields["args"] = part.args_as_dict()
    return fields


async def played_back(parts: Sequence[Any]) -> Sequence[Any]:
    """What is sent of an answer with these parts, after it was stored."""
    state = PydanticDecoder()
    events = [
        event
        for index, part in enumerate(parts)
        for event in (PartStartEvent(index=index, part=part), PartEndEvent(index=index, part=part))
    ]
    deltas = [delta for event in events for delta in state.feed(event)]
    end = ModelResponse(
        parts=[],
        finish_reason="tool_call",
        model_name="gpt-5",
        provider_name="openai",
        provider_url="https://api.openai.example",
        provider_response_id="resp_1",
        provider_details={"finish_reason": "completed"},
    )
    from holdfast.kernel.assemble import Assembly

    assembly = Assembly("pydantic-ai:openai:gpt-5", ports())
    for delta in [*deltas, *state.finish(end)]:
        assembly.feed(delta)
    result = results_message([ToolResult("call_a", "look", (Text("a tree"),))])
    history = load(dump([user_message("?"), assembly.message(), result]))
    noted = Heard()
    await noted.ask(Request(messages=history))
    response = noted.messages[1]
    assert isinstance(response, ModelResponse)
    assert response.provider_response_id == "resp_1"
    assert (response.provider_name, response.model_name) == ("openai", "gpt-5")
    return response.parts


async def test_an_answer_is_replayed_as_it_came() -> None:
    parts = await played_back(PARTS)
    assert [type(part) for part in parts] == [type(part) for part in PARTS]
    for part, meant in zip(parts, PARTS, strict=True):
        assert replayable(part) == replayable(meant)


async def test_somebody_else_reads_of_it_only_what_is_for_everybody() -> None:
    noted = Heard()
    answer = Message(
        "assistant",
        (
            Reasoning("Hm.", "sig", metadata={"anthropic": {"x": 1}}),
            ToolCall("srv_1", "web_search", '{"query": "Oslo"}', provider_executed=True),
            ToolResult("srv_1", "web_search", (Text("sunny"),), provider_executed=True),
            Text("It is.", metadata={"anthropic": {"y": 2}}),
        ),
        "answer",
        model="anthropic:claude",
        metadata={"anthropic": {"id": "msg_1"}},
    )
    await noted.ask(Request(messages=(user_message("?"), answer, user_message("!"))))
    response = noted.messages[1]
    assert [type(part) for part in response.parts] == [TextPart, TextPart]
    assert "sunny" in str(response.parts[0])
    assert response.provider_response_id is None  # type: ignore[union-attr]


async def test_a_signature_on_an_empty_text_is_replayed_in_its_place() -> None:
    signed = TextPart("", provider_name="google", provider_details={"thought_signature": "c2ln"})
    call = ToolCallPart("look", '{"what": "a"}', "call_a")
    for meant in ((TextPart("So."), call, signed), (signed, call)):
        parts = await played_back(meant)
        assert [replayable(part) for part in parts] == [replayable(part) for part in meant]


async def test_an_empty_text_that_says_nothing_else_is_left_out() -> None:
    call = ToolCallPart("look", '{"what": "a"}', "call_a")
    assert [type(part) for part in await played_back((TextPart("", id="msg_1"), call))] == [
        ToolCallPart
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("own", [True, False])
async def test_an_answer_that_is_no_unicode_can_be_replayed(
    protocol: WireProtocol, own: bool
) -> None:
    fake = FakeProvider(protocol, ["Yes."])
    async with talking(fake, protocol) as model:
        parts = (
            Reasoning("Hm\udce9."),
            Text("caf\udce9"),
            ToolCall("call_a", "look", '{"what": "the \udce9"}'),
        )
        answer = Message("assistant", parts, "answer", model=model.name if own else "other:model")
        result = results_message([ToolResult("call_a", "look", (Text("a tree"),))])
        history = (user_message("?"), answer, result, user_message("!"))
        assert (await collect(model, Request(messages=history))).message.text == "Yes."
    assert fake.problems == []
    assert b"caf" in fake.requests[-1].body


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_answer_can_be_replayed_after_another_model_was_asked(
    protocol: WireProtocol,
) -> None:
    first = [think("Hm.", signature="c2ln"), say("One.")] if protocol != "openai_chat" else "One."
    fake = FakeProvider(protocol, [first, "Three."])
    async with talking(fake, protocol) as model:
        own = (await collect(model, ask())).message
        other = Message("assistant", (Text("Two."),), "answer", model="other:model")
        more = user_message("More?")
        history = load(dump([*ask().messages, own, more, other, more]))
        await collect(model, Request(messages=history))
    assert fake.problems == []
    body = fake.requests[-1].body
    assert all(said in body for said in (b"One.", b"Two."))
    if protocol != "openai_chat":
        assert b"c2ln" in body


# --- Failures -----------------------------------------------------------------------------------


def http(category: Any, status: int, **more: Any) -> theirs.ModelHTTPError:
    return theirs.ModelHTTPError.for_category(category, status_code=status, model_name="m", **more)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (http(theirs.ModelRateLimitError, 429), "rate_limit"),
        (http(theirs.ModelQuotaExceededError, 429), "quota"),
        (http(theirs.ModelOverloadedError, 529), "overloaded"),
        (http(theirs.ModelUnavailableError, 503), "overloaded"),
        (http(theirs.ModelServerError, 500), "server"),
        (http(theirs.ModelContextWindowExceededError, 400), "context_overflow"),
        (http(theirs.ModelAuthenticationError, 401), "auth"),
        (http(theirs.ModelAuthenticationError, 403), "permission"),
        (http(theirs.ModelNotFoundError, 404), "not_found"),
        (http(theirs.ModelRequestRejectedError, 400), "invalid_request"),
        (http(None, 418), "invalid_request"),
        (http(None, 408), "timeout"),
        (theirs.ModelRateLimitError("m", "slow down"), "rate_limit"),
        (theirs.ModelTimeoutError("m", "late"), "timeout"),
        (theirs.ModelRequestTimeout("m", 5.0), "timeout"),
        (theirs.ModelConnectionError("m", "refused", phase="connect"), "network"),
        (theirs.ModelAPIError("m", "what is this"), "server"),
        (theirs.ModelAPIError("m", "?", body={"type": "overloaded_error"}), "overloaded"),
        (theirs.ContentFilterError("no"), "content_filter"),
        (theirs.UnexpectedModelBehavior("odd"), "server"),
        (theirs.UserError("set the key"), "config"),
        (ConnectionResetError("gone"), "network"),
        (ValueError("a bug"), "internal"),
    ],
)
def test_what_pydantic_ai_raises_is_known_by_its_type(error: Exception, kind: FailureKind) -> None:
    assert classify(translated(error, begun=False)).kind == kind


def test_a_connection_that_breaks_in_an_answer_is_a_cut() -> None:
    error = theirs.ModelConnectionError("m", "reset", phase="read")
    assert classify(translated(error, begun=True)).kind == "stream_cut"


def test_what_a_provider_says_about_trying_again_is_kept() -> None:
    headers = {"Retry-After": "17", "x-should-retry": "false"}
    error = http(theirs.ModelRateLimitError, 429, headers=headers)
    failure = classify(translated(error, begun=False))
    assert (failure.retry_after, failure.retryable, failure.status) == (17, False, 429)


def test_how_much_fits_is_kept() -> None:
    body = {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}
    error = translated(http(theirs.ModelContextWindowExceededError, 400, body=body), begun=False)
    assert isinstance(error, ProviderError)
    assert error.window == 200_000


def test_of_several_models_the_last_one_says_why() -> None:
    errors = [http(theirs.ModelAuthenticationError, 401), http(theirs.ModelOverloadedError, 529)]
    group = theirs.FallbackExceptionGroup("all failed", errors)
    assert classify(translated(group, begun=False)).kind == "overloaded"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_cut_is_heard_of_every_provider(protocol: WireProtocol) -> None:
    """Also where pydantic-ai takes what came for the whole answer."""
    fake = FakeProvider(protocol, [[say("Half"), cut()], "Whole."])
    async with talking(fake, protocol) as model:
        run = Agent(model=model, ports=ports()).run("?")
        events = await events_of(run)
        result = await outcome(run)
    assert [event.kind for event in only(Retrying, events)] == ["stream_cut"]
    assert result.text == "Whole."


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        (lost(), "network"),
        ([say("Half"), lost()], "stream_cut"),
        ([say("Half"), garbled(), say(" of it.")], "server"),
        (respond(503, "Not now"), "overloaded"),
    ],
    ids=["lost", "lost_inside", "garbled", "refused"],
)
async def test_trouble_is_known_of_every_provider(
    protocol: WireProtocol, trouble: ScriptedTurn, kind: FailureKind
) -> None:
    fake = FakeProvider(protocol, [trouble, "Whole."])
    async with talking(fake, protocol) as model:
        run = Agent(model=model, ports=ports()).run("?")
        events = await events_of(run)
        result = await outcome(run)
    assert [event.kind for event in only(Retrying, events)] == [kind]
    assert (result.text, len(fake.requests)) == ("Whole.", 2)


async def left_alone(fake: FakeProvider) -> None:
    """Nobody reads what it says: it notices when it says the next thing."""
    assert fake.open == 1
    await anyio.sleep(30)
    assert fake.open == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_stream_that_is_closed_leaves_its_provider(protocol: WireProtocol) -> None:
    fake = FakeProvider(protocol, [[say("Once"), endless(TextDelta(" more"), 1.0)]])
    async with talking(fake, protocol) as model:
        stream = model.stream(ask())
        await until_content(stream)
        await stream.aclose()
        await left_alone(fake)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_stream_that_is_cancelled_leaves_its_provider(protocol: WireProtocol) -> None:
    fake = FakeProvider(protocol, [[say("Once"), endless(TextDelta(" more"), 1.0)]])
    async with talking(fake, protocol) as model:
        with anyio.move_on_after(5) as scope:
            await collect(model, ask())
        assert scope.cancelled_caught
        await left_alone(fake)


# --- Through an agent ---------------------------------------------------------------------------


async def test_a_test_model_runs_an_agent() -> None:
    agent = Agent(model=PydanticAI(TestModel()), tools=[look], ports=ports())
    result = await agent.run("?")
    assert [message.kind for message in result.history] == ["prompt", "answer", "results", "answer"]
    assert [made.text for made in result.history[2].results] == ["saw "]
    assert result.text == '{"look":"saw "}'


async def test_an_answer_with_everything_runs_an_agent() -> None:
    model = functioning(
        [
            [
                think("Hm.", signature="sig", chunks=2),
                say("Let me see.", chunks=3),
                call_raw("look", '{"what": "a"}', id="call_a", chunks=4),
                call_raw("act", '{"what": "b"}', id="call_b"),
            ],
            [say("Half"), fail(status=529)],
            "Done.",
        ]
    )
    run = Agent(model=model, tools=[look, act], ports=ports()).run("?")
    events = await events_of(run)
    result = await outcome(run)
    assert described(result.history[1]) == [
        "reasoning: Hm.",
        "text: Let me see.",
        'call: look {"what":"a"}',
        'call: act {"what":"b"}',
    ]
    assert [made.text for made in result.history[2].results] == ["saw a", "did b"]
    assert [event.kind for event in only(Retrying, events)] == ["overloaded"]
    assert result.text == "Done."


async def test_an_interrupt_closes_the_stream() -> None:
    closed = anyio.Event()

    async def speak(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        try:
            yield "Once upon"
            await anyio.sleep_forever()
        finally:
            closed.set()

    run = Agent(model=PydanticAI(FunctionModel(stream_function=speak)), ports=ports()).run("?")
    later(1, run.interrupt)
    result = await outcome(run)
    assert closed.is_set()
    assert (result.reason, result.history[1].text) == ("interrupted", "Once upon")


async def test_a_silent_model_is_given_up() -> None:
    model = functioning([[say("Half"), hang()], "Done."])
    run = Agent(model=model, ports=ports(), policy=Policy(retry=Retry(attempts=2))).run("?")
    events = await events_of(run)
    assert [event.kind for event in only(Retrying, events)] == ["stream_silent"]
    assert (await outcome(run)).text == "Done."


async def test_thinking_is_signed_when_it_ends() -> None:
    model = saying(
        {0: DeltaThinkingPart(content="Hm.")}, {0: DeltaThinkingPart(signature="s")}, "So."
    )
    message = (await collect(model, ask())).message
    first = message.parts[0]
    assert isinstance(first, Reasoning)
    assert (first.text, first.signature) == ("Hm.", "s")
    assert TextDelta("So.") in (await collect(model, ask())).deltas


class Named(TestModel):
    """A model with the name of one whose price is known."""

    @property
    def system(self) -> str:
        return "openai"

    @property
    def model_name(self) -> str:
        return "gpt-4o"


def test_a_limit_of_cost_accepts_models_whose_price_pydantic_ai_knows() -> None:
    assert PydanticAI(Named()).priced
    Agent(model=PydanticAI(Named()), limits=Limits(cost=1))
    with pytest.raises(ConfigError, match="the price of pydantic-ai:test:test is unknown"):
        Agent(model=PydanticAI(TestModel()), limits=Limits(cost=1))
