"""What was said comes back to the API as it came, and what others said in a form it takes."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.kernel.assemble import Assembly
from holdfast.kernel.messages import (
    Content,
    File,
    Message,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    dump,
    load,
    results_message,
)
from holdfast.kernel.model import Request
from holdfast.providers.google.contents import FOREIGN_SIGNATURE, LEADING_USER_TEXT
from holdfast.providers.google.decoder import GoogleDecoder
from holdfast.providers.google.request import encode
from holdfast.providers.profile import UNKNOWN, Profile
from holdfast.testing import ports

Json = dict[str, Any]

BUDGET = Profile(options={"thinking": "budget", "mix_tools": False})
RICH = Profile(options={"signatures": True})
PNG = File("image/png", "a.png", b"hi")
INLINE: Json = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}


def contents(
    *messages: Message, profile: Profile = UNKNOWN, notices: list[str] | None = None
) -> list[Json]:
    """The contents of a request with these messages, which were stored in between."""
    request = Request(messages=load(dump(messages)))
    body, told = encode(request, "google:gemini", "google", profile)
    if notices is not None:
        notices.extend(told)
    made: list[Json] = msgspec.json.decode(body)["contents"]
    return made


def user(*parts: Part) -> Message:
    return Message("user", parts, "prompt")


ASKED = user(Text("Hi"))
SAID: Json = {"role": "user", "parts": [{"text": "Hi"}]}


def answered(*parts: Json) -> Message:
    """The message that an answer of the API becomes."""
    decoder = GoogleDecoder("google", UNKNOWN)
    assembly = Assembly("google:gemini", ports())
    said: list[Json] = [{"candidates": [{"content": {"parts": [part]}}]} for part in parts]
    said.append({"candidates": [{"finishReason": "STOP"}]})
    for delta in [*decoder.feed([msgspec.json.encode(chunk) for chunk in said]), *decoder.end()]:
        assembly.feed(delta)
    return assembly.message()


def replayed(*parts: Json, profile: Profile = UNKNOWN) -> list[Json]:
    """The parts as they are sent back."""
    encoded, *rest = contents(ASKED, answered(*parts), profile=profile)
    assert encoded == SAID
    return [part for content in rest for part in content["parts"]]


def foreign(*parts: Part, model: str = "anthropic:claude") -> Message:
    return Message("assistant", parts, "answer", finish="stop", model=model)


# --- Our own answers ----------------------------------------------------------------------------

SIGNED_CALL: Json = {
    "functionCall": {"id": "f1", "name": "look", "args": {"at": 1.5}},
    "thoughtSignature": "QQ==",
}
CODE: Json = {
    "executableCode": {"language": "PYTHON", "code": "print(1)", "id": "c1"},
    "thoughtSignature": "Qg==",
}
OUTPUT: Json = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n", "id": "c1"}}
SEARCH: Json = {
    "toolCall": {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["a"]}},
    "thoughtSignature": "Qw==",
}
FOUND: Json = {
    "toolResponse": {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "response": {"found": [1]}}
}


def test_a_rich_answer_is_replayed_as_it_came() -> None:
    parts: list[Json] = [
        {"text": "Hm", "thought": True},
        {"text": ".", "thought": True, "thoughtSignature": "RA=="},
        SEARCH,
        FOUND,
        CODE,
        OUTPUT,
        INLINE | {"thoughtSignature": "RQ=="},
        {"text": "So "},
        {"text": "it is", "thoughtSignature": "Rg=="},
        {"text": "."},
        {"text": "", "thoughtSignature": "Rw=="},
        SIGNED_CALL,
        {"functionCall": {"name": "look", "args": {}}},
        {"text": "", "thoughtSignature": "SA=="},
    ]
    assert replayed(*parts) == parts


def merged(parts: list[Json]) -> list[Json]:
    """The parts as they may be sent back: text without a signature between may be merged, and
    thoughts that nobody signed need not be sent."""
    made: list[Json] = []
    for part in parts:
        if part.get("text") == "" and "thoughtSignature" not in part:
            continue
        last = made[-1] if made else {}
        joins = part.keys() == last.keys() and "text" in part and "thoughtSignature" not in part
        if joins:
            made[-1] = {**part, "text": last["text"] + part["text"]}
        else:
            made.append(part)
    return [part for at, part in enumerate(made) if not _unsigned_thought(made, at)]


def _unsigned_thought(parts: list[Json], at: int) -> bool:
    following = parts[at + 1] if at + 1 < len(parts) else {}
    runs_on = following.get("thought") and "thoughtSignature" in following
    return bool(parts[at].get("thought") and "thoughtSignature" not in parts[at] and not runs_on)


texts = st.text(max_size=4)
signatures = st.sampled_from([{}, {}, {"thoughtSignature": "QQ=="}, {"thoughtSignature": "Qg=="}])
arguments = st.dictionaries(texts, st.integers() | texts, max_size=2)
parts_of_text = st.builds(
    lambda text, kind, signature: {"text": text, **kind, **signature},
    texts,
    st.sampled_from([{}, {}, {"thought": True}]),
    signatures,
)
parts_of_calls = st.builds(
    lambda id, args, signature: {
        "functionCall": {**id, "name": "look", "args": args},
        **signature,
    },
    st.sampled_from([{}, {"id": "f1"}, {"id": "f2"}]),
    arguments,
    signatures,
)
other_parts = st.sampled_from([CODE, OUTPUT, SEARCH, FOUND, INLINE])


@given(st.lists(parts_of_text | parts_of_calls | other_parts, max_size=8))
@example([{"text": "a"}, {"text": "", "thoughtSignature": "QQ=="}, {"text": "b"}])
@example([{"text": "a", "thought": True}, {"text": "", "thoughtSignature": "QQ=="}])
@example([{"text": "\x00\ue000", "thoughtSignature": "QQ=="}])
@example([{"functionCall": {"id": "f1", "name": "look", "args": {}}}] * 2)
def test_whatever_an_answer_is_made_of_comes_back_as_it_came(parts: list[Json]) -> None:
    assert replayed(*parts, profile=Profile(options={"signatures": False})) == merged(parts)


def test_thoughts_that_nobody_signed_are_not_sent_back() -> None:
    assert replayed({"text": "Hm", "thought": True}, {"text": "So."}) == [{"text": "So."}]


def test_results_carry_the_ids_that_the_api_gave() -> None:
    called = answered(
        SIGNED_CALL,
        {"functionCall": {"name": "look", "args": {}}},
        {"functionCall": {"name": "feel", "args": {}}},
    )
    results = [
        ToolResult(call.id, call.tool, (Text(f"result {at}"),))
        for at, call in enumerate(called.calls)
    ]
    said = contents(ASKED, called, results_message(results))[2]
    assert said == {
        "role": "user",
        "parts": [
            {
                "functionResponse": {
                    "id": "f1",
                    "name": "look",
                    "response": {"output": "result 0"},
                }
            },
            {"functionResponse": {"name": "look", "response": {"output": "result 1"}}},
            {"functionResponse": {"name": "feel", "response": {"output": "result 2"}}},
        ],
    }


def test_a_call_whose_id_was_taken_keeps_the_one_that_the_api_gave() -> None:
    called = answered(SIGNED_CALL, SIGNED_CALL)
    first, second = called.calls
    assert first.id != second.id
    results = [ToolResult(call.id, call.tool, (Text("x"),)) for call in (first, second)]
    _, calls, said = contents(ASKED, called, results_message(results))
    assert [part["functionCall"]["id"] for part in calls["parts"]] == ["f1", "f1"]
    assert [part["functionResponse"]["id"] for part in said["parts"]] == ["f1", "f1"]


def test_steps_of_video_are_not_sent_back() -> None:
    """The API refuses them."""
    step: Json = {"toolCall": {"id": "m1"}}
    assert replayed(step, {"toolResponse": {"id": "m1"}}, {"text": "So."}) == [{"text": "So."}]


def test_a_model_that_does_not_mix_tools_is_told_in_words_what_another_ran() -> None:
    assert replayed(SEARCH, FOUND, CODE, OUTPUT, profile=BUDGET) == [
        {"text": '[web_search {"queries":["a"]} → {"found":[1]}]'},
        CODE,
        OUTPUT,
    ]


# --- The answers of others ----------------------------------------------------------------------


def test_what_others_thought_is_left_out_and_what_they_ran_is_told() -> None:
    message = foreign(
        Reasoning("Hm", "sig"),
        Text("Let me look."),
        ToolCall("s1", "web_search", '{"query":"a"}', provider_executed=True),
        ToolResult("s1", "web_search", (Text("found"),), provider_executed=True),
        Source("https://a.test"),
        Text("Here."),
    )
    assert contents(ASKED, message)[1:] == [
        {
            "role": "model",
            "parts": [
                {"text": "Let me look."},
                {"text": '[web_search {"query":"a"} → found]'},
                {"text": "Here."},
            ],
        }
    ]


def test_the_first_call_of_an_answer_that_nobody_signed_says_so() -> None:
    message = foreign(ToolCall("a", "look", "{}"), ToolCall("b", "look", "{}"))
    called: Json = {"functionCall": {"name": "look", "args": {}}}
    assert contents(ASKED, message)[1]["parts"] == [
        {**called, "thoughtSignature": FOREIGN_SIGNATURE},
        called,
    ]
    unsigned = answered(called, called)  # by an older model of the same provider
    assert contents(ASKED, unsigned)[1]["parts"] == [
        {**called, "thoughtSignature": FOREIGN_SIGNATURE},
        called,
    ]


@pytest.mark.parametrize(
    ("options", "signs"),
    [
        ({}, True),
        ({"thinking": "level"}, True),
        ({"thinking": "budget"}, False),
        ({"thinking": "budget", "signatures": True}, True),
        ({"thinking": "level", "signatures": False}, False),
    ],
)
def test_only_models_that_demand_signatures_are_given_one_in_their_place(
    options: Json, signs: bool
) -> None:
    message = foreign(ToolCall("a", "look", "{}"))
    (part,) = contents(ASKED, message, profile=Profile(options=options))[1]["parts"]
    assert ("thoughtSignature" in part) is signs


@pytest.mark.parametrize(
    "signed",
    [
        {"text": "Let me look.", "thoughtSignature": "QQ=="},
        {"text": "Hm", "thought": True, "thoughtSignature": "QQ=="},
    ],
)
def test_the_first_call_says_so_although_something_else_is_signed(signed: Json) -> None:
    """Gemini 2.5 signs the first part of an answer, whatever that is; Gemini 3 wants the call."""
    called: Json = {"functionCall": {"name": "look", "args": {}}}
    assert replayed(signed, called, called) == [
        signed,
        {**called, "thoughtSignature": FOREIGN_SIGNATURE},
        called,
    ]
    assert replayed(called, SIGNED_CALL) == [
        {**called, "thoughtSignature": FOREIGN_SIGNATURE},
        SIGNED_CALL,
    ]
    assert replayed(SIGNED_CALL, called) == [SIGNED_CALL, called]


def test_the_ids_of_others_are_not_sent() -> None:
    message = foreign(ToolCall("toolu_1", "look", "{}"))
    result = results_message([ToolResult("toolu_1", "look", (Text("x"),))])
    assert "toolu_1" not in str(contents(ASKED, message, result))


def test_a_chat_that_went_elsewhere_and_comes_back_has_everything_again() -> None:
    parts: list[Json] = [{"text": "Hm.", "thought": True, "thoughtSignature": "RA=="}, SIGNED_CALL]
    own = answered(*parts)
    result = results_message([ToolResult("f1", "look", (Text("x"),))])
    elsewhere = [user(Text("And?")), foreign(Text("There.")), user(Text("Go on."))]
    history = load(dump([ASKED, own, result, *elsewhere]))
    assert contents(*history)[1] == {"role": "model", "parts": parts}
    body, _ = encode(Request(messages=history), "other:gemini", "other", UNKNOWN)
    assert "RA==" not in body.decode()
    assert "QQ==" not in body.decode()


# --- Calls and results --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ("[1]", {"_raw": "[1]"}),
        ('{"a": ', {"_raw": '{"a": '}),
        ('{"a": NaN}', {"_raw": '{"a": NaN}'}),
        ("[" * 5_000, {"_raw": "[" * 5_000}),
    ],
)
def test_arguments_are_sent_as_an_object_whatever_they_are(text: str, sent: Json) -> None:
    message = foreign(ToolCall("a", "look", text))
    assert contents(ASKED, message)[1]["parts"][0]["functionCall"]["args"] == sent


def test_arguments_keep_the_text_in_which_they_were_written() -> None:
    request = Request(messages=(ASKED, foreign(ToolCall("a", "look", '{"a":  1.10}'))))
    body, _ = encode(request, "google:gemini", "google", UNKNOWN)
    assert b'"args":{"a":  1.10}' in body


@pytest.mark.parametrize(
    ("tool", "sent"),
    [
        ("look", "look"),
        ("default_api:look.at-it_1", "default_api:look.at-it_1"),
        ("", "unnamed"),
        ("look at this!", "look_at_this_"),
        ("\ud800ö", "__"),
        ("1st", "_1st"),
        (".", "_."),
        ("a" * 128, "a" * 128),
        ("a" * 200, "a" * 128),
        ("1" * 128, "_" + "1" * 127),
    ],
)
def test_a_name_that_no_function_can_have_is_mended_in_call_and_result(
    tool: str, sent: str
) -> None:
    """Otherwise a history that holds one is refused for good."""
    called = foreign(ToolCall("a", tool, "{}"))
    answer = results_message([ToolResult("a", tool, (Text("x"),))])
    _, model_said, results = contents(ASKED, called, answer)
    assert model_said["parts"][0]["functionCall"]["name"] == sent
    assert results["parts"][0]["functionResponse"]["name"] == sent


def result(*content: Content, outcome: ToolOutcome = "ok") -> Message:
    return results_message([ToolResult("a", "look", content, outcome)])


LOOKED = foreign(ToolCall("a", "look", "{}"))


@pytest.mark.parametrize(
    ("outcome", "key"),
    [
        ("ok", "output"),
        ("failed", "error"),
        ("refused", "error"),
        ("skipped", "error"),
        ("interrupted", "error"),
        ("lost", "error"),
        ("timed_out", "error"),
    ],
)
def test_a_result_says_whether_it_is_one(outcome: ToolOutcome, key: str) -> None:
    (part,) = contents(ASKED, LOOKED, result(Text("x"), outcome=outcome))[2]["parts"]
    assert part["functionResponse"]["response"] == {key: "x"}


def test_a_picture_in_a_result_is_held_by_it_where_the_model_takes_that() -> None:
    said = contents(ASKED, LOOKED, result(Text("see"), PNG), profile=RICH)[2:]
    assert said == [
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "name": "look",
                        "response": {"output": "see"},
                        "parts": [INLINE],
                    }
                }
            ],
        }
    ]


def test_a_picture_in_a_result_is_said_behind_all_results_otherwise() -> None:
    both = results_message(
        [
            ToolResult("a", "look", (Text("see"), PNG)),
            ToolResult("b", "feel", (Text("soft"),)),
        ]
    )
    called = foreign(ToolCall("a", "look", "{}"), ToolCall("b", "feel", "{}"))
    said = contents(ASKED, called, both, user(Text("Well?")))[2:]
    assert said == [
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "look", "response": {"output": "see"}}},
                {"functionResponse": {"name": "feel", "response": {"output": "soft"}}},
            ],
        },
        {
            "role": "user",
            "parts": [{"text": "[a.png, from look:]"}, INLINE, {"text": "Well?"}],
        },
    ]


def test_a_picture_that_is_elsewhere_is_said_behind_the_result() -> None:
    """A result can hold bytes only."""
    away = File("image/png", "a.png", ref="https://a.test/a.png")
    results, files = contents(ASKED, LOOKED, result(Text("see"), away), profile=RICH)[2:]
    assert results["parts"] == [
        {"functionResponse": {"name": "look", "response": {"output": "see"}}}
    ]
    assert files["parts"] == [
        {"text": "[a.png, from look:]"},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://a.test/a.png"}},
    ]


def test_a_picture_in_a_result_is_its_bytes_and_nothing_else() -> None:
    """What may stand beside the bytes in a prompt is unknown there."""
    signed = File("image/png", "a.png", b"hi", metadata={"google": {"thoughtSignature": "QQ=="}})
    (part,) = contents(ASKED, LOOKED, result(signed), profile=RICH)[2]["parts"]
    assert part["functionResponse"]["parts"] == [INLINE]


@pytest.mark.parametrize("kind", ["image/jpg", "IMAGE/JPEG", "image/jpeg; q=1"])
def test_a_picture_in_a_result_has_its_type_as_the_api_spells_it(kind: str) -> None:
    (part,) = contents(ASKED, LOOKED, result(File(kind, data=b"hi")), profile=RICH)[2]["parts"]
    assert part["functionResponse"]["parts"] == [
        {"inlineData": {"mimeType": "image/jpeg", "data": "aGk="}}
    ]


def test_text_files_in_a_result_are_spelled_out() -> None:
    notes = File("text/plain", "n.txt", b"one")
    (part,) = contents(ASKED, LOOKED, result(Text("see"), notes), profile=RICH)[2]["parts"]
    assert part["functionResponse"]["response"] == {
        "output": "see\n<file name='n.txt'>\none\n</file>"
    }


# --- Who says what ------------------------------------------------------------------------------


def test_speakers_take_turns_and_the_user_begins() -> None:
    marker = Message("system", (Text("Interrupted."),), "marker", "model")
    encoded = contents(foreign(Text("A")), foreign(Text("B")), marker, user(Text("C"), Text("")))
    assert encoded == [
        {"role": "user", "parts": [{"text": LEADING_USER_TEXT}]},
        {"role": "model", "parts": [{"text": "A"}, {"text": "B"}]},
        {"role": "user", "parts": [{"text": "Interrupted."}, {"text": "C"}]},
    ]


def test_a_message_of_which_nothing_is_left_is_not_sent() -> None:
    encoded = contents(ASKED, foreign(Reasoning("Hm", "sig")), user(Text("Well?")))
    assert encoded == [{"role": "user", "parts": [{"text": "Hi"}, {"text": "Well?"}]}]


def test_what_follows_results_is_a_content_of_its_own() -> None:
    """In one content with results, the API takes it for the model's own words."""
    encoded = contents(ASKED, LOOKED, result(Text("x")), user(Text("Hurry.")))
    assert [content["role"] for content in encoded] == ["user", "model", "user", "user"]
    assert encoded[3]["parts"] == [{"text": "Hurry."}]


def test_a_longer_history_begins_with_the_same_bytes() -> None:
    history = [
        ASKED,
        answered({"text": "Hm", "thought": True}, SIGNED_CALL),
        results_message([ToolResult("f1", "look", (Text("x"), PNG))]),
        foreign(Text("So."), ToolCall("a", "look", "{}")),
        result(Text("y")),
        user(Text("And?")),
    ]
    bodies = []
    for length in range(1, len(history) + 1):
        request = Request(messages=tuple(history[:length]))
        bodies.append(encode(request, "google:gemini", "google", UNKNOWN)[0])
        assert bodies[-1] == encode(request, "google:gemini", "google", UNKNOWN)[0]
    for shorter, longer in itertools.pairwise(bodies):
        assert longer.startswith(shorter.removesuffix(b"]}]}"))


# --- Files --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "sent"),
    [
        (PNG, INLINE),
        (
            File("image/jpg; q=1", data=b"hi"),
            {"inlineData": {"mimeType": "image/jpeg", "data": "aGk="}},
        ),
        (
            File("IMAGE/PNG", data=b"hi"),
            {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        ),
        (
            File("image/JPG", ref="https://a.test/a.jpg"),
            {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://a.test/a.jpg"}},
        ),
        (
            File("audio/x-wav", data=b"hi"),
            {"inlineData": {"mimeType": "audio/wav", "data": "aGk="}},
        ),
        (
            File("application/pdf", data=b"hi"),
            {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}},
        ),
        (
            File("video/mp4", ref="https://v.test/v.mp4"),
            {"fileData": {"mimeType": "video/mp4", "fileUri": "https://v.test/v.mp4"}},
        ),
        (
            File("video/mp4", data=b"hi", metadata={"google": {"videoMetadata": {"fps": 2}}}),
            {
                "inlineData": {"mimeType": "video/mp4", "data": "aGk="},
                "videoMetadata": {"fps": 2},
            },
        ),
        (
            File("application/json", "a.json", b"{}"),
            {"text": "<file name='a.json'>\n{}\n</file>"},
        ),
    ],
)
def test_files_are_sent_as_the_api_takes_them(file: File, sent: Json) -> None:
    notices: list[str] = []
    assert contents(user(file), notices=notices)[0]["parts"] == [sent]
    assert notices == []


@pytest.mark.parametrize(
    ("file", "profile"),
    [
        (File("image/gif", "a.gif", b"hi"), UNKNOWN),
        (File("image/svg+xml", "a.svg", b"<svg/>"), UNKNOWN),
        (File("application/zip", "a.zip", b"hi"), UNKNOWN),
        (File("image/png", "a.png", ref="blob:1"), UNKNOWN),
        (File("image/png", "a.png", b""), UNKNOWN),
        (File("application/pdf", "a.pdf", b"", ref="https://a.test/a.pdf"), UNKNOWN),
        (File("audio/wav", "a.wav", b"hi"), Profile(files=("image",))),
    ],
)
def test_what_the_model_does_not_take_is_said_to_be_missing(file: File, profile: Profile) -> None:
    notices: list[str] = []
    (part,) = contents(user(file), profile=profile, notices=notices)[0]["parts"]
    assert part["text"].startswith(f"[{file.name} ({file.media_type}) ")
    assert len(notices) == 1
    assert file.name is not None
    assert file.name in notices[0]


def test_a_source_in_a_prompt_is_told() -> None:
    encoded = contents(user(Text("See"), Source("https://a.test", "A")))
    assert encoded[0]["parts"] == [{"text": "See"}, {"text": "[A: https://a.test]"}]


def test_text_that_no_request_can_hold_is_replaced() -> None:
    assert contents(user(Text("a\ud800b")))[0]["parts"] == [{"text": "a\ufffdb"}]
    called = foreign(ToolCall("a", "look", '{"a": "\ud800"}'))
    (part,) = contents(ASKED, called)[1]["parts"]
    assert part["functionCall"]["args"] == {"_raw": '{"a": "\ufffd"}'}
