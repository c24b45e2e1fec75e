from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from holdfast.kernel.assemble import Assembly
from holdfast.kernel.errors import FailureKind, ProviderError, classify
from holdfast.kernel.messages import (
    File,
    FinishReason,
    Message,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from holdfast.kernel.model import Delta, Finished, Ping, ReasoningDelta, TextDelta
from holdfast.providers.google.decoder import FAILED_FINISHES, FINISH_REASONS, GoogleDecoder
from holdfast.providers.profile import UNKNOWN, Price, Profile
from holdfast.testing import ports

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its source warns when it is compiled
    from google.genai import types

Json = dict[str, Any]


def chunk(*parts: Json, finish: str | None = None, **candidate: Any) -> Json:
    """One chunk of an answer, with these parts."""
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, **candidate}]}


def decode(*chunks: Json, profile: Profile = UNKNOWN) -> list[Delta]:
    decoder = GoogleDecoder("google", profile)
    deltas = decoder.feed([msgspec.json.encode(said) for said in chunks])
    return [*deltas, *decoder.end()]


def assembled(deltas: Iterable[Delta]) -> Message:
    assembly = Assembly("google:gemini", ports())
    for delta in deltas:
        assembly.feed(delta)
    return assembly.message()


def answer(*parts: Json, finish: str = "STOP") -> Message:
    """The message that an answer becomes whose parts come one a chunk."""
    return assembled(decode(*(chunk(part) for part in parts), chunk(finish=finish)))


def own(**fields: Any) -> Json:
    return {"google": fields}


def ended(deltas: list[Delta]) -> Finished:
    assert isinstance(deltas[-1], Finished)
    return deltas[-1]


# --- Text and thoughts --------------------------------------------------------------------------


def test_text_and_thoughts_come_piece_by_piece() -> None:
    deltas = decode(
        chunk({"text": "Let me", "thought": True}),
        chunk({"text": " see.", "thought": True}, {"text": "It "}),
        chunk({"text": "is sunny."}, finish="STOP"),
    )
    assert deltas[:-1] == [
        ReasoningDelta("Let me"),
        ReasoningDelta(" see."),
        TextDelta("It "),
        TextDelta("is sunny."),
    ]
    message = assembled(deltas)
    assert [(type(part), getattr(part, "text", None)) for part in message.parts] == [
        (Reasoning, "Let me see."),
        (Text, "It is sunny."),
    ]


def test_a_signed_text_is_a_part_of_its_own() -> None:
    message = answer({"text": "One.", "thoughtSignature": "QQ=="}, {"text": "Two."})
    assert message.parts == (Text("One.", own(thoughtSignature="QQ==")), Text("Two."))


def test_a_signed_piece_ends_the_text_and_remembers_how_much_of_it_was_signed() -> None:
    message = answer({"text": "Sun"}, {"text": "ny", "thoughtSignature": "QQ=="}, {"text": "!"})
    assert message.parts == (
        Text("Sunny", own(thoughtSignature="QQ==", signed=2)),
        Text("!"),
    )


def test_a_signature_without_text_belongs_to_the_end_of_the_text_before_it() -> None:
    message = answer({"text": "Sunny"}, {"text": "", "thoughtSignature": "QQ=="})
    assert message.parts == (Text("Sunny", own(thoughtSignature="QQ==", signed=0)),)


def test_a_signature_with_no_text_before_it_is_kept() -> None:
    message = answer(
        {"functionCall": {"name": "look", "args": {}}}, {"text": "", "thoughtSignature": "QQ=="}
    )
    last = message.parts[-1]
    assert isinstance(last, Reasoning)
    assert last.text == ""
    assert last.metadata == own(part={"text": "", "thoughtSignature": "QQ=="})


def test_a_signed_text_does_not_sign_the_thought_before_it() -> None:
    message = answer(
        {"text": "Hm", "thought": True},
        {"text": "", "thoughtSignature": "QQ=="},
    )
    thought, signed = message.parts
    assert isinstance(thought, Reasoning)
    assert (thought.text, thought.signature) == ("Hm", None)
    assert signed.metadata == own(part={"text": "", "thoughtSignature": "QQ=="})


@pytest.mark.parametrize(
    ("parts", "signed"),
    [
        ([{"text": "Hm.", "thought": True, "thoughtSignature": "QQ=="}], None),
        (
            [
                {"text": "H", "thought": True},
                {"text": "m.", "thought": True, "thoughtSignature": "QQ=="},
            ],
            2,
        ),
        (
            [
                {"text": "Hm.", "thought": True},
                {"text": "", "thought": True, "thoughtSignature": "QQ=="},
            ],
            0,
        ),
    ],
)
def test_a_thought_keeps_its_signature(parts: list[Json], signed: int | None) -> None:
    thought = answer(*parts).parts[0]
    assert isinstance(thought, Reasoning)
    assert (thought.text, thought.signature) == ("Hm.", "QQ==")
    assert thought.metadata == (None if signed is None else own(signed=signed))


def test_text_that_is_empty_says_nothing() -> None:
    assert decode(chunk({"text": ""}), chunk({"text": "", "thought": True})) == []


# --- Calls --------------------------------------------------------------------------------------


def calls(*parts: Json) -> tuple[ToolCall, ...]:
    return answer(*parts).calls


def test_a_call_has_its_id_its_signature_and_its_arguments_as_they_were_written() -> None:
    wire = (
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"pay","id":"fc-1",'
        b'"args":{"sum":  1.10}},"thoughtSignature":"QQ=="}]},"finishReason":"STOP"}]}'
    )
    decoder = GoogleDecoder("google", UNKNOWN)
    (call,) = assembled([*decoder.feed([wire]), *decoder.end()]).calls
    assert (call.id, call.tool, call.arguments) == ("fc-1", "pay", '{"sum":  1.10}')
    assert call.metadata == own(id="fc-1", thoughtSignature="QQ==")


def test_calls_without_ids_get_different_ones() -> None:
    first, second = calls(
        {"functionCall": {"name": "look", "args": {"at": 1}}},
        {"functionCall": {"name": "look", "args": {"at": 2}}},
    )
    assert first.id != second.id
    assert first.metadata is second.metadata is None


@pytest.mark.parametrize("call", [{"name": "look"}, {"name": "look", "args": None}])
def test_a_call_without_arguments_has_an_empty_object(call: Json) -> None:
    (made,) = calls({"functionCall": call})
    assert (made.arguments, made.complaint) == ("{}", None)


def test_an_answer_with_calls_finishes_for_them() -> None:
    deltas = decode(chunk({"functionCall": {"name": "look"}}, finish="STOP"))
    assert ended(deltas).finish == "tool_calls"


# --- What the API runs itself -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "kept"),
    [
        ("OUTCOME_OK", "ok"),
        ("OUTCOME_FAILED", "failed"),
        ("OUTCOME_DEADLINE_EXCEEDED", "timed_out"),
        ("OUTCOME_NEW", "ok"),
    ],
)
def test_code_that_was_run_is_a_call_with_its_result(outcome: str, kept: str) -> None:
    code = {
        "executableCode": {"language": "PYTHON", "code": "print(1)"},
        "thoughtSignature": "QQ==",
    }
    output = {"codeExecutionResult": {"outcome": outcome, "output": "1\n"}}
    call, result = answer(code, output).parts
    assert isinstance(call, ToolCall)
    assert isinstance(result, ToolResult)
    assert (call.tool, call.provider_executed) == ("code_execution", True)
    assert msgspec.json.decode(call.arguments) == {"language": "PYTHON", "code": "print(1)"}
    assert (result.call_id, result.tool, result.text) == (call.id, "code_execution", "1\n")
    assert (result.outcome, result.provider_executed) == (kept, True)
    assert (call.metadata, result.metadata) == (own(part=code), own(part=output))


def test_results_find_their_calls_by_id() -> None:
    message = answer(
        {"executableCode": {"code": "a", "id": "x1"}},
        {"executableCode": {"code": "b", "id": "x2"}},
        {"codeExecutionResult": {"output": "of a", "id": "x1"}},
        {"codeExecutionResult": {"output": "of b", "id": "x2"}},
    )
    assert [(result.call_id, result.text) for result in message.results] == [
        ("x1", "of a"),
        ("x2", "of b"),
    ]


@pytest.mark.parametrize(
    ("kind", "tool"),
    [
        ("GOOGLE_SEARCH_WEB", "web_search"),
        ("URL_CONTEXT", "web_fetch"),
        ("FILE_SEARCH", "file_search"),
        (None, "media_processing"),
    ],
)
def test_a_tool_of_the_api_is_a_call_with_its_result(kind: str | None, tool: str) -> None:
    call_part = {
        "toolCall": {"id": "t1", "toolType": kind, "args": {"queries": ["x"]}},
        "thoughtSignature": "QQ==",
    }
    result_part = {"toolResponse": {"id": "t1", "toolType": kind, "response": {"found": 2}}}
    call, result = answer(call_part, result_part).parts
    assert isinstance(call, ToolCall)
    assert isinstance(result, ToolResult)
    assert (call.id, call.tool, call.arguments) == ("t1", tool, '{"queries":["x"]}')
    assert (result.call_id, result.tool, result.text) == ("t1", tool, '{"found":2}')
    assert (call.metadata, result.metadata) == (own(part=call_part), own(part=result_part))


def test_what_the_api_runs_itself_is_no_call_for_us() -> None:
    deltas = decode(chunk({"executableCode": {"code": "1"}}, finish="STOP"))
    assert ended(deltas).finish == "stop"


# --- Files and sources --------------------------------------------------------------------------


def test_pictures_and_files_of_an_answer_are_kept() -> None:
    message = answer(
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "QQ=="},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "https://files.test/v"}},
    )
    assert message.parts == (
        File("image/png", data=b"hi", metadata=own(thoughtSignature="QQ==")),
        File("video/mp4", ref="https://files.test/v"),
    )


def test_a_picture_that_was_only_thought_is_left_out() -> None:
    sketch = {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thought": True}
    assert answer(sketch, {"text": "Done."}).parts == (Text("Done."),)


def test_what_an_answer_is_grounded_on_are_its_sources() -> None:
    grounding = {
        "groundingChunks": [
            {"web": {"uri": "https://a.test", "title": "A"}},
            {"maps": {"uri": "https://maps.test", "title": "M"}},
            {"image": {"sourceUri": "https://img.test"}},
            {"web": {"uri": "https://a.test", "title": "again"}},
            {"retrievedContext": {"text": "no address"}},
        ],
        "webSearchQueries": ["a"],
    }
    deltas = decode(
        chunk({"text": "So "}, groundingMetadata={"webSearchQueries": []}),
        chunk({"text": "it is."}, finish="STOP", groundingMetadata=grounding),
    )
    assert assembled(deltas).parts == (
        Text("So it is."),
        Source("https://a.test", "A"),
        Source("https://maps.test", "M"),
        Source("https://img.test"),
    )
    metadata = ended(deltas).metadata
    assert metadata is not None
    assert metadata["google"]["groundingMetadata"] == grounding


@pytest.mark.parametrize(
    "chunks", [None, 7, {"web": {}}, [None, 7, {"web": None}, {"web": {"uri": 7}}]]
)
def test_grounding_that_is_told_in_another_way_breaks_nothing(chunks: Any) -> None:
    deltas = chunk({"text": "So."}, finish="STOP", groundingMetadata={"groundingChunks": chunks})
    assert assembled(decode(deltas)).parts == (Text("So."),)


def test_pages_that_were_read_and_works_that_were_cited_are_sources() -> None:
    success, failure = "URL_RETRIEVAL_STATUS_SUCCESS", "URL_RETRIEVAL_STATUS_ERROR"
    deltas = decode(
        chunk(
            {"text": "So."},
            finish="STOP",
            urlContextMetadata={
                "urlMetadata": [
                    {"retrievedUrl": "https://read.test", "urlRetrievalStatus": success},
                    {"retrievedUrl": "https://gone.test", "urlRetrievalStatus": failure},
                ]
            },
            citationMetadata={"citationSources": [{"uri": "https://cited.test"}, {"license": "x"}]},
        )
    )
    sources = [part for part in assembled(deltas).parts if isinstance(part, Source)]
    assert sources == [Source("https://read.test"), Source("https://cited.test")]


# --- The end ------------------------------------------------------------------------------------

ENDS: dict[str, FinishReason] = {
    "STOP": "stop",
    "NO_IMAGE": "stop",
    "A_NEW_REASON": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "TOO_MANY_TOOL_CALLS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
}


@pytest.mark.parametrize(("reason", "finish"), ENDS.items())
def test_why_an_answer_ended(reason: str, finish: FinishReason) -> None:
    end = ended(decode(chunk({"text": "So."}, finish=reason)))
    assert end.finish == finish
    told = (end.metadata or {}).get("google", {}).get("finishReason")
    assert told == (None if reason in ("STOP", "MAX_TOKENS") else reason)


NO_ENDS: dict[str, tuple[FailureKind, bool]] = {
    "MALFORMED_FUNCTION_CALL": ("server", True),
    "MALFORMED_RESPONSE": ("server", True),
    "UNEXPECTED_TOOL_CALL": ("server", True),
    "OTHER": ("server", True),
    "IMAGE_OTHER": ("server", True),
    "FINISH_REASON_UNSPECIFIED": ("server", True),
    "MISSING_THOUGHT_SIGNATURE": ("invalid_request", False),
}


@pytest.mark.parametrize(("reason", "meaning"), NO_ENDS.items())
def test_an_answer_that_went_wrong_is_a_failure(
    reason: str, meaning: tuple[FailureKind, bool]
) -> None:
    with pytest.raises(ProviderError, match=f"{reason}: what it said") as caught:
        decode(chunk({"text": "So"}), chunk(finish=reason, finishMessage="what it said"))
    failure = classify(caught.value)
    assert (failure.kind, failure.retryable) == meaning
    assert caught.value.code == reason


def test_every_reason_that_the_official_client_knows_is_known_here() -> None:
    known = {reason.value for reason in types.FinishReason}
    assert known <= FINISH_REASONS.keys() | FAILED_FINISHES.keys()
    assert (
        ENDS.keys() - {"A_NEW_REASON"}
    ) | NO_ENDS.keys() == FINISH_REASONS.keys() | FAILED_FINISHES.keys()


def test_an_answer_without_a_reason_to_end_was_cut() -> None:
    deltas = decode(chunk({"text": "Half an ans"}))
    assert deltas == [TextDelta("Half an ans")]


def test_the_stream_goes_on_after_a_reason_to_end() -> None:
    """Some models give one with every chunk."""
    deltas = decode(chunk({"text": "One "}, finish="STOP"), chunk({"text": "two."}, finish="STOP"))
    assert [type(delta) for delta in deltas] == [TextDelta, TextDelta, Finished]


@pytest.mark.parametrize("reason", ["SAFETY", "OTHER", "BLOCKLIST", "A_NEW_REASON"])
def test_a_prompt_that_was_blocked_is_filtered(reason: str) -> None:
    deltas = decode({"promptFeedback": {"blockReason": reason}, "usageMetadata": {}})
    assert ended(deltas).finish == "content_filter"
    assert ended(deltas).metadata == own(promptFeedback={"blockReason": reason})


def test_the_answer_says_which_it_is() -> None:
    said = {**chunk({"text": "x"}, finish="STOP"), "responseId": "r1", "modelVersion": "gemini-9"}
    assert ended(decode(said, said)).metadata == own(responseId="r1", modelVersion="gemini-9")


# --- Usage --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({"promptTokenCount": 10, "candidatesTokenCount": 4}, Usage(10, 4)),
        (
            {"promptTokenCount": 10, "candidatesTokenCount": 4, "thoughtsTokenCount": 6},
            Usage(10, 10, 6),
        ),
        (
            {"promptTokenCount": 10, "cachedContentTokenCount": 7, "candidatesTokenCount": 1},
            Usage(3, 1, cache_read=7),
        ),
        (
            {"promptTokenCount": 10, "toolUsePromptTokenCount": 5, "totalTokenCount": 99},
            Usage(15),
        ),
        ({"promptTokenCount": None, "cachedContentTokenCount": 3}, Usage(cache_read=3)),
        (None, None),
    ],
)
def test_tokens_are_counted(counts: Json | None, usage: Usage | None) -> None:
    said = {**chunk({"text": "x"}, finish="STOP"), "usageMetadata": counts}
    assert ended(decode(said)).usage == usage


def test_the_last_count_is_the_one_that_counts() -> None:
    first = {**chunk({"text": "x"}), "usageMetadata": {"promptTokenCount": 1}}
    last = {**chunk(finish="STOP"), "usageMetadata": {"promptTokenCount": 2}}
    assert ended(decode(first, last)).usage == Usage(2)
    assert ended(decode(first, chunk(finish="STOP"))).usage == Usage(1)


def test_an_answer_that_was_cut_has_taken_what_was_counted_last() -> None:
    """What went in is said with the first chunk, and again when the answer ends."""
    decoder = GoogleDecoder("google", UNKNOWN)
    assert decoder.spent() is None
    counts = [{"promptTokenCount": 9}, {"promptTokenCount": 9, "candidatesTokenCount": 4}]
    said = [{**chunk({"text": "x"}), "usageMetadata": one} for one in counts]
    deltas = decoder.feed(list(map(msgspec.json.encode, said)))
    assert deltas == [Ping(Usage(9)), TextDelta("x"), TextDelta("x")]
    assert decoder.spent() == Usage(9, 4)


def test_an_answer_costs_what_its_model_costs() -> None:
    said = {
        **chunk({"text": "x"}, finish="STOP"),
        "usageMetadata": {"promptTokenCount": 1_000_000, "candidatesTokenCount": 500_000},
    }
    usage = ended(decode(said, profile=Profile(price=Price(2, 10)))).usage
    assert usage is not None
    assert usage.cost == 7


# --- Trouble ------------------------------------------------------------------------------------


def test_an_error_inside_the_stream_is_raised() -> None:
    error = {"error": {"code": 503, "message": "overloaded, sorry", "status": "UNAVAILABLE"}}
    with pytest.raises(ProviderError, match="overloaded, sorry") as caught:
        decode(chunk({"text": "So"}), error)
    assert (caught.value.kind, caught.value.status) == ("overloaded", 503)


def test_what_is_new_is_skipped() -> None:
    message = answer(
        {"text": "a", "aNewField": {"deep": [1]}},
        {"aNewKindOfPart": {"x": 1}},
        {"thoughtSignature": "QQ=="},  # of nothing: it is refused when it is sent back
        {"text": "b"},
    )
    assert message.parts == (Text("ab"),)
    unknown = {"aNewThing": True, "candidates": [{"aNewFact": {}, "content": {"role": "model"}}]}
    assert decode(unknown, {"candidates": None}, {"candidates": []}, {}) == []


def test_only_the_first_of_several_answers_is_ours() -> None:
    deltas = decode(
        chunk({"text": "first"}, index=0),
        chunk({"text": "second"}, index=1),
        chunk(finish="STOP", index=0),
        chunk(finish="OTHER", index=1),
    )
    assert assembled(deltas).text == "first"


@pytest.mark.parametrize("event", [b'{"candidates":[{"content', b"nonsense", b'{"candidates":7}'])
def test_an_event_that_cannot_be_read_is_an_error(event: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        GoogleDecoder("google", UNKNOWN).feed([event])


def test_metadata_is_kept_under_the_name_of_the_provider() -> None:
    decoder = GoogleDecoder("my-gateway", UNKNOWN)
    deltas = chunk({"text": "x", "thoughtSignature": "QQ=="}, finish="STOP")
    message = assembled([*decoder.feed([msgspec.json.encode(deltas)]), *decoder.end()])
    assert message.parts[0].metadata == {"my-gateway": {"thoughtSignature": "QQ=="}}
