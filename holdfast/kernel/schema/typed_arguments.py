"""Arguments of typed functions, and answers of a type: validated by pydantic."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from holdfast.kernel.errors import describe
from holdfast.kernel.schema.arguments import Arguments, Values
from holdfast.kernel.schema.coerce import ABSENT, TOO_MANY_PROBLEMS, coerced, step
from holdfast.kernel.schema.problems import (
    ARGUMENT_TERMS,
    ONE_OF,
    InputTerms,
    Rank,
    ValidationProblem,
)
from holdfast.kernel.schema.schema_walk import located, schemas_at, tags_of
from holdfast.kernel.schema.text import MAX_SENTENCE, TOO_DEEP, cut, json_text, quoted

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails


class TypedArguments(Arguments):
    """Arguments validated by pydantic: the values have the annotated types."""

    def __init__(
        self,
        adapter: TypeAdapter[Any],
        schema: Mapping[str, Any],
        terms: InputTerms = ARGUMENT_TERMS,
    ) -> None:
        self.schema = schema
        self._terms = terms
        self._adapter = adapter
        self._validate: Callable[..., Values] = adapter.validator.validate_json
        # pydantic writes this for sets, whose order differs between processes.
        self._has_sets = '"uniqueItems"' in json.dumps(schema)

    def parse(self, text: str) -> Values:
        # Strict: pydantic's own leniency takes true for 1, and "yes" for true. Ours is the same for
        # both kinds of tools: `coerce.py`.
        try:
            # pydantic accepts these two, but they are not JSON.
            if "NaN" not in text and "Infinity" not in text:
                return self._validate(text, strict=True)
        except Exception:  # examined in `_check_tree`
            pass
        return coerced(text, self.schema, self._check_tree, self._terms)

    def check(self, value: Mapping[str, Any]) -> Values:
        from pydantic_core import to_jsonable_python

        # A gate receives models and dates, and may return them.
        return self.parse(json_text(value, partial(to_jsonable_python, by_alias=True)))

    def plain(self, values: Values) -> dict[str, Any]:
        mode: Literal["json", "python"] = "python" if self._has_sets else "json"
        dumped: dict[str, Any] = self._adapter.dump_python(
            dict(values), mode=mode, by_alias=True, warnings=False, fallback=str
        )
        if not self._has_sets:
            return dumped
        from pydantic_core import to_jsonable_python

        return dict(to_jsonable_python(_sorted_sets(dumped), fallback=str))

    def _check_tree(self, tree: Any) -> tuple[Values, list[ValidationProblem]]:
        from pydantic import ValidationError

        text = json.dumps(tree, ensure_ascii=False)
        data = text.encode(errors="replace")
        try:
            values = self._validate(data, strict=True)
            if data.decode() != text:  # only Python's strings hold a lone surrogate
                # Not strict, because that would refuse a date in a string here; the line above has
                # already been strict.
                values = self._adapter.validate_python(json.loads(json.dumps(tree)))
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=False)
            return {}, [
                _problem(detail, tree, self.schema) for detail in details[:TOO_MANY_PROBLEMS]
            ]
        except Exception as error:  # a validator of the user's may raise anything
            words = f"checking failed with {cut(describe(error), MAX_SENTENCE)}"
            return {}, [ValidationProblem(Rank.VALUE, (), words)]
        return values, []


def _sorted_sets(value: Any) -> Any:
    from pydantic_core import to_json

    if isinstance(value, (set, frozenset)):
        return sorted(map(_sorted_sets, value), key=to_json)
    if isinstance(value, dict):
        return {key: _sorted_sets(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sorted_sets(item) for item in value]
    return value


_WANTS: Final[Mapping[str, set[str]]] = {
    "integer": {"int"},
    "number": {"float", "decimal"},
    "boolean": {"bool"},
    "string": {"string", "bytes"},
    "array": {"list", "tuple", "set", "frozen_set", "named_tuple"},
    "object": {"dict", "mapping", "model", "model_attributes", "dataclass", "named_tuple"},
    "null": {"none_required"},
}
"""pydantic's error types by the JSON type that they ask for; most end in `_type`."""


def _problem(detail: ErrorDetails, tree: Any, schema: Mapping[str, Any]) -> ValidationProblem:
    kind, where, value = detail["type"], detail["loc"], detail["input"]
    words = _sentence(detail["msg"])
    if kind in ("missing", "extra_forbidden"):
        path, union = located(where[:-1], tree, schema)
        path = (*path, where[-1])
        if kind == "extra_forbidden":
            return ValidationProblem(Rank.UNKNOWN, path, member=union)
        return ValidationProblem(Rank.MISSING, path, "missing", member=union)
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return _tag_problem(detail, tree, schema)
    path, union = located(where, tree, schema)
    if where and where[-1] == "[key]":
        return ValidationProblem(Rank.VALUE, path, f"its name {words}", member=union)
    if kind == "json_invalid":  # we wrote the JSON ourselves, so it can only be the nesting
        return ValidationProblem(Rank.VALUE, path, TOO_DEEP)
    words = f"{words}, got {quoted(value)}"
    if kind in ("literal_error", "enum"):
        return ValidationProblem(Rank.VALUE, path, words, wants=ONE_OF, member=union)
    short = kind.removesuffix("_type")
    if wants := frozenset(name for name, kinds in _WANTS.items() if short in kinds):
        return ValidationProblem(Rank.TYPE, path, value=value, wants=wants)
    if short != kind:  # a type that JSON does not have
        return ValidationProblem(Rank.TYPE, path, words, wants=frozenset({short}))
    return ValidationProblem(Rank.VALUE, path, words, member=union)


def _tag_problem(detail: ErrorDetails, tree: Any, schema: Mapping[str, Any]) -> ValidationProblem:
    """The problem of a union whose discriminator is missing, or is not one of its tags."""
    path, _ = located(detail["loc"], tree, schema)
    for inner in schemas_at(path, schema):
        if tags := tags_of(inner):
            name = str(inner["discriminator"]["propertyName"])
            choice = cut(" or ".join(map(quoted, tags)), MAX_SENTENCE)
            value = step(detail["input"], name)
            if value is ABSENT:
                words = f"missing; should be {choice}"
                return ValidationProblem(Rank.MISSING, (*path, name), words)
            words = f"should be {choice}, got {quoted(value)}"
            return ValidationProblem(Rank.VALUE, (*path, name), words, wants=ONE_OF)
    # A function tells the members apart.
    return ValidationProblem(Rank.VALUE, path, _sentence(detail["msg"]))


def _sentence(message: str) -> str:
    """pydantic's message, without prefixes that only a programmer understands."""
    for prefix in ("Input ", "Value error, ", "Assertion failed, "):
        message = message.removeprefix(prefix)
    return cut(message, MAX_SENTENCE)
