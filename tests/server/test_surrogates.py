"""Half of a surrogate pair anywhere in a body: JSON can write it, UTF-8 cannot.

The bodies are generated from the table of operations and the types of their bodies.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import pytest
from msgspec import inspect

from holdfast.chat.export import EXPORT_FORMAT
from holdfast.kernel.messages import ESCAPE
from holdfast.server.operation import OPERATIONS, Operation
from holdfast.server.wire_format import from_json
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.server.api import Api, agent, serving_api
from tests.server.identity.team_server import house

pytestmark = pytest.mark.usefixtures("each_server")

HALF: Final = "\ud800"
JSON: Final = {"Content-Type": "application/json"}
DEEPEST: Final = 6


class Hit(NamedTuple):
    """A value with half of a surrogate pair somewhere in it."""

    value: Any
    is_text: bool
    """Whether it stands where any text may: such a text is judged by the operation itself."""


def valid(kind: inspect.Type, deep: int = 0) -> Any:
    """A value that this type takes: the least of them."""
    match kind:
        case inspect.Metadata():
            return valid(kind.type, deep)
        case inspect.UnionType():
            return valid(kind.types[0], deep)
        case inspect.StructType():
            made = {
                field.encode_name: valid(field.type, deep + 1)
                for field in kind.fields
                if field.required
            }
            return made if kind.tag_field is None else {kind.tag_field: kind.tag, **made}
        case inspect.StrType():
            return "x" * max(kind.min_length or 0, 1)
        case inspect.IntType():
            return max(kind.ge or 0, 0)
        case inspect.BoolType():
            return True
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.DictType():
            return {"x": valid(kind.value_type, deep + 1)}
        case inspect.CollectionType():
            return [valid(kind.item_type, deep + 1)]
        case _:
            return None


def hits(kind: inspect.Type, deep: int = 0) -> Iterator[Hit]:
    """Values with `HALF` in the place of each field name and of each value, one at a time."""
    if deep > DEEPEST:
        return
    match kind:
        case inspect.Metadata():
            yield from hits(kind.type, deep)
        case inspect.UnionType():
            takes_text = any(map(_is_text, kind.types))
            for one in kind.types:
                for hit in hits(one, deep):
                    yield hit._replace(is_text=takes_text) if hit.value == HALF else hit
        case inspect.StructType():
            yield Hit(HALF, is_text=False)
            yield from _of_struct(kind, deep)
        case inspect.DictType():
            yield Hit(HALF, is_text=False)
            yield Hit({HALF: valid(kind.value_type)}, is_text=True)
            for hit in hits(kind.value_type, deep + 1):
                yield Hit({"x": hit.value}, hit.is_text)
        case inspect.CollectionType():
            yield Hit(HALF, is_text=False)
            for hit in hits(kind.item_type, deep + 1):
                yield Hit([hit.value], hit.is_text)
        case inspect.AnyType():
            yield Hit(HALF, is_text=True)
            yield Hit({HALF: HALF}, is_text=True)
        case _:
            yield Hit(HALF, is_text=_is_text(kind))


def _is_text(kind: inspect.Type) -> bool:
    return isinstance(kind.type if isinstance(kind, inspect.Metadata) else kind, inspect.StrType)


def _of_struct(kind: inspect.StructType, deep: int) -> Iterator[Hit]:
    whole = valid(kind)
    yield Hit({**whole, HALF: 1}, is_text=not kind.forbid_unknown_fields)
    if kind.tag_field is not None:
        yield Hit({**whole, kind.tag_field: HALF}, is_text=False)
    for field in kind.fields:
        for hit in hits(field.type, deep + 1):
            yield Hit({**whole, field.encode_name: hit.value}, hit.is_text)


WITH_BODY: Final = [one for one in OPERATIONS.values() if one.body is not None]


async def path_of(operation: Operation, api: Api) -> str:
    chat = (await api.post("/chats", {})).body["id"]
    names = dict.fromkeys(operation.names, "1") | {"chat": chat}
    return operation.path.format(**names)


@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda one: one.id)
async def test_half_a_pair_in_a_body_is_refused_where_no_text_may_stand(
    db: Database, clock: Clock, operation: Operation
) -> None:
    bodies = list(hits(inspect.type_info(operation.body)))
    assert any(not hit.is_text for hit in bodies)
    async with serving_api(db, [agent((), clock)], clock=clock, user="ann:admin") as api:
        path = await path_of(operation, api)
        wrong = []
        for hit in bodies:
            body = json.dumps(hit.value).encode()
            answer = await api.ask(operation.method, path, body, headers=JSON)
            if answer.status >= 500 or (not hit.is_text and answer.status != 400):
                wrong.append((answer.status, body))
            elif not hit.is_text:
                assert "half of a surrogate pair" in answer.body["detail"]
            nul = body.replace(b"\\ud800", b"\\u0000")  # the other text that no column holds
            answer = await api.ask(operation.method, path, nul, headers=JSON)
            if answer.status >= 500:
                wrong.append((answer.status, nul))
        assert wrong == []


def test_every_operation_with_a_json_body_is_tried() -> None:
    tried = {(one.method, one.path) for one in WITH_BODY}
    assert len(tried) > 15
    assert {("POST", "/session"), ("POST", "/chats"), ("PATCH", "/chats/{chat}")} <= tried


async def test_signing_in_with_half_a_pair_is_refused_before_anything_is_known_of_the_caller(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as home:
        for body in ({HALF: "x"}, {"token": HALF}, {"token": "x", HALF: 1}, HALF):
            answer = await home.ask("POST", "/session", body)
            text = body == {"token": HALF}
            assert answer.status == (401 if text else 400), body


async def test_half_a_pair_in_an_import_is_refused(db: Database, clock: Clock) -> None:
    chat: Mapping[str, Any] = {"title": "x", "labels": {}, "agent": "agent"}
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        for change in (
            {HALF: 1},
            {"title": HALF},
            {"title": f"{ESCAPE}d800"},
            {"labels": {f"{ESCAPE}d800": "x"}},
            {"labels": {"x": f"{ESCAPE}d800"}},
            {"agent": f"{ESCAPE}d800"},
            {"model": f"{ESCAPE}d800"},
        ):
            for line in ("", f'{{"{HALF}":1}}', f'{{"number":"{ESCAPE}d800"}}'):
                data = json.dumps({"format": EXPORT_FORMAT, "chat": {**chat, **change}})
                sent = f"{data}\n{line}\n".encode(errors="surrogatepass")
                answer = await api.ask("POST", "/chats/import", sent)
                assert 400 <= answer.status < 500, (change, answer.body)


async def test_half_a_pair_in_a_query_is_refused(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        for query in ("%ED%A0%80=1", "limit=%ED%A0%80", "q=%ED%A0%80", "status=%ED%A0%80"):
            answer = await api.get(f"/chats?{query}")
            assert answer.status < 500, query


class Numbered(msgspec.Struct, forbid_unknown_fields=True):
    number: int = 0


@pytest.mark.parametrize("value", [{HALF: 1}, {"number": HALF}, {"number": [HALF]}, HALF, [HALF]])
def test_a_misplaced_half_is_a_decode_error(value: Any) -> None:
    with pytest.raises(msgspec.DecodeError):
        from_json(json.dumps(value).encode(), Numbered)
