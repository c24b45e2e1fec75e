"""Arguments and answers that a JSON schema describes: validated by jsonschema-rs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.schema.arguments import Arguments, BadArguments, Values
from holdfast.kernel.schema.coerce import TOO_MANY_PROBLEMS, coerced
from holdfast.kernel.schema.problems import (
    ARGUMENT_TERMS,
    ONE_OF,
    InputTerms,
    Path,
    Rank,
    ValidationProblem,
    path_text,
)
from holdfast.kernel.schema.text import MAX_SENTENCE, TOO_DEEP, cut, json_text, quoted

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator


class SchemaArguments(Arguments):
    """Arguments validated by jsonschema-rs: the values are plain JSON."""

    def __init__(self, schema: Mapping[str, Any], terms: InputTerms = ARGUMENT_TERMS) -> None:
        if schema.get("type", "object") != "object":
            raise ConfigError(
                f"the schema of the arguments has the type {schema['type']!r}: use 'object'"
            )
        whole = {**schema, "type": "object", "properties": schema.get("properties") or {}}
        self.schema = whole
        self._terms = terms
        self._validator = _validator(whole)

    def parse(self, text: str) -> Values:
        try:
            value: Values = msgspec.json.decode(text)
            if self._validator.is_valid(value):
                return value
        except (ValueError, RecursionError):  # not JSON, or nested too deeply for the library
            pass
        return coerced(text, self.schema, self._check_tree, self._terms)

    def check(self, value: Mapping[str, Any]) -> Values:
        return self.parse(json_text(value, dict))

    def plain(self, values: Values) -> dict[str, Any]:
        return dict(values)

    def _check_tree(self, tree: Any) -> tuple[Values, list[ValidationProblem]]:
        data = json.dumps(tree, ensure_ascii=False).encode(errors="replace")
        try:
            errors = self._validator.iter_errors(msgspec.json.decode(data))
            problems = list(islice(chain.from_iterable(map(_problems, errors)), TOO_MANY_PROBLEMS))
        except ValueError:
            problems = [ValidationProblem(Rank.VALUE, (), TOO_DEEP)]
        return json.loads(json.dumps(tree)), problems


class StructArguments(SchemaArguments):
    """Arguments validated in the same way, then converted to a type that msgspec supports."""

    def __init__(self, kind: Any, schema: Mapping[str, Any], terms: InputTerms) -> None:
        super().__init__(schema, terms)
        self._kind = kind

    def parse(self, text: str) -> Values:
        plain = super().parse(text)
        try:
            values: Values = msgspec.convert(plain, self._kind)
        except msgspec.ValidationError as error:  # a schema cannot express everything
            words = f"{self._terms.whole}: {cut(str(error), MAX_SENTENCE)}"
            raise BadArguments([words]) from None
        return values


def _validator(schema: dict[str, Any]) -> Validator:
    import jsonschema_rs

    try:
        # Offline: a schema may come from an untrusted server, and `$ref` would read files and open
        # connections.
        return jsonschema_rs.validator_for(schema, offline=True, mask="it")
    except jsonschema_rs.ValidationError as error:
        words = cut(error.message, MAX_SENTENCE)
        if error.instance_path:
            where = path_text(tuple(error.instance_path), "it")
            words = f"{where}: {words}, got {quoted(error.instance)}"
    except ValueError as error:
        words = str(error)
    raise ConfigError(f"the JSON schema is not valid: {words}")


def _problems_of_union(
    path: Path, alternatives: Sequence[Sequence[ValidationError]]
) -> Iterator[ValidationProblem]:
    """The problems of the members that are meant: of one with another tag, the tag is wrong."""
    tags = [_other_tags(path, errors) for errors in alternatives]
    meant = [errors for errors, others in zip(alternatives, tags, strict=True) if not others]
    if meant:
        yield from chain.from_iterable(map(_problems, chain.from_iterable(meant)))
        return
    expected: dict[Path, tuple[Any, list[Any]]] = {}
    for error, options in chain.from_iterable(tags):
        expected.setdefault(tuple(error.instance_path), (error.instance, []))[1].extend(options)
    for where, (value, choices) in expected.items():
        yield _not_one_of(where, value, choices)


def _other_tags(
    path: Path, errors: Sequence[ValidationError]
) -> list[tuple[ValidationError, Sequence[Any]]]:
    """The errors of texts in the object that had to be others, with those."""
    found = []
    for error in errors:
        facts = error.kind.as_dict()
        options = facts.get("options") or [facts.get("expected_value")]
        is_choice = error.kind.name in ("enum", "const")
        of_texts = all(isinstance(text, str) for text in (error.instance, *options))
        if is_choice and of_texts and len(error.instance_path) == len(path) + 1:
            found.append((error, options))
    return found


def _not_one_of(path: Path, value: Any, options: Sequence[Any]) -> ValidationProblem:
    choice = cut(" or ".join(map(quoted, options)), MAX_SENTENCE)
    return ValidationProblem(
        Rank.VALUE, path, f"should be {choice}, got {quoted(value)}", wants=ONE_OF
    )


def _problems(error: ValidationError) -> Iterator[ValidationProblem]:
    """The problems of one jsonschema-rs error; of a union, those of each member."""
    path, value, facts = tuple(error.instance_path), error.instance, error.kind.as_dict()
    match error.kind.name:
        case "required":
            yield ValidationProblem(Rank.MISSING, (*path, facts["property"]), "missing")
        case "additionalProperties" | "unevaluatedProperties":
            yield from (
                ValidationProblem(Rank.UNKNOWN, (*path, name)) for name in facts["unexpected"]
            )
        case "type":
            yield ValidationProblem(Rank.TYPE, path, value=value, wants=frozenset(facts["types"]))
        case "enum" | "const" as keyword:
            options = facts["options"] if keyword == "enum" else [facts["expected_value"]]
            yield _not_one_of(path, value, options)
        case "anyOf" | "oneOf" if any(facts.get("context") or ()):
            yield from _problems_of_union(path, facts["context"])
        case _:
            yield ValidationProblem(
                Rank.VALUE, path, f"{cut(error.message, MAX_SENTENCE)}, got {quoted(value)}"
            )
