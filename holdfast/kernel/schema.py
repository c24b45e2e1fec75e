"""Arguments of a tool: their JSON schema, and the way from the model's text to checked values.

A typed function is checked by pydantic, a raw JSON schema by jsonschema-rs; both are imported only
when a tool is built. Text that is right is checked by one call into the library. Text that is wrong
takes the slow way: its problems are found, trivial mistakes among them are mended, and whatever is
left is told to the model, all at once and in the same words for both kinds.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import itertools
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import ConfigError, HoldfastError

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError as SchemaError
    from jsonschema_rs import Validator
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

Values: TypeAlias = Mapping[str, Any]
"""Validated arguments by name, as the function will get them."""

MAX_QUOTE: Final = 80
"""Characters of a wrong value, a name or a bad piece of JSON that are shown to the model."""
MAX_PROBLEMS: Final = 20
"""Problems that are told to the model."""
MANY_PROBLEMS: Final = 10_000
"""From here on nothing is mended and nothing more is looked at: it would take too long."""
MAX_WORDS: Final = 300
"""Characters of a sentence that a library or a validator of the user's wrote."""
ROUNDS: Final = 4
"""How many strings within strings are opened to find the value that was meant."""
EXACT: Final = 2**53
"""Above this, floats leave out whole numbers: the one that was meant may be missing."""


class BadArguments(HoldfastError):
    """Arguments that the tool cannot be run with. The message is for the model."""

    def __init__(self, problems: Sequence[str], more: int = 0) -> None:
        self.problems = tuple(problems)
        self.more = more
        """How many further problems are not listed."""
        rest = (f"and {more} more",) if more else ()
        super().__init__("\n- ".join(("These arguments are not valid:", *self.problems, *rest)))


class Arguments(ABC):
    """Schema and validator of one tool's arguments."""

    schema: Mapping[str, Any]
    """JSON schema of an object; `properties` is always there."""

    @abstractmethod
    def parse(self, text: str) -> Values:
        """The values in what the model wrote; nothing at all counts as no arguments."""

    @abstractmethod
    def check(self, value: Mapping[str, Any]) -> Values:
        """The same for arguments that did not come as text, for example from a gate."""

    @abstractmethod
    def plain(self, values: Values) -> dict[str, Any]:
        """Values as builtins that JSON knows; equal values give equal builtins in every process."""

    @abstractmethod
    def _attempt(self, tree: Any) -> tuple[Values, list[_Problem]]:
        """The values in a JSON tree, or all that is wrong with it."""

    def _look(self, tree: Any) -> tuple[Values, list[_Problem]]:
        values, problems = self._attempt(tree)
        inside = {
            problem.path[:depth] for problem in problems for depth in range(len(problem.path))
        }
        # One member of a union looked inside the value, so its type was right: the others, which
        # wanted another type, were not meant.
        return values, [each for each in problems if each.rank != TYPE or each.path not in inside]

    def _mend(self, text: str) -> Values:
        """The slow way: find the problems, mend the trivial ones, refuse with the others."""
        try:
            tree = {} if _is_blank(text) else _load(text)
            values, problems = _mended(tree, self._look, _optional(self.schema))
        except _NotJson as error:
            raise BadArguments([f"arguments: not JSON: {error}"]) from None
        except RecursionError:
            raise BadArguments([f"arguments: {TOO_DEEP}"]) from None
        if problems:
            raise _refusal(problems, self.schema)
        return values


# --- From a typed function ----------------------------------------------------------------------


def from_function(function: Callable[..., Any], *, skip_first: bool) -> Arguments:
    """Arguments of a typed function; `skip_first` leaves out the parameter for the context."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[skip_first:]
    except (ValueError, TypeError, NameError) as error:
        raise ConfigError(f"{_name(function)} has no signature to read: {error}") from None
    documented = _documented(inspect.getdoc(function) or "")
    fields: dict[str, Any] = {}
    optional: set[str] = set()
    extra: Any = None
    for parameter in parameters:
        annotation = _annotation(function, parameter)
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = annotation
            continue
        fields[parameter.name] = _described(annotation, documented.get(parameter.name))
        if parameter.default is not parameter.empty:
            optional.add(parameter.name)
            fields[parameter.name] = Annotated[fields[parameter.name], _Default(parameter.default)]
    try:
        adapter = _adapter(fields, optional, extra)
        return _Typed(adapter, _typed_schema(adapter))
    except Exception as error:  # a type may bring any code of its own
        raise _unusable(function, fields, error) from error


class _Typed(Arguments):
    def __init__(self, adapter: TypeAdapter[Any], schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self._adapter = adapter
        self._validate: Callable[..., Values] = adapter.validator.validate_json
        # pydantic says this of sets, whose order changes from one process to the next.
        self._has_sets = '"uniqueItems"' in json.dumps(schema)

    def parse(self, text: str) -> Values:
        # Strict: pydantic's own leniency takes true for 1, and "yes" for true. What we are lenient
        # about is the same for both kinds of tools and stands in `_closest`.
        try:
            # pydantic reads these two, and JSON has neither.
            if "NaN" not in text and "Infinity" not in text:
                return self._validate(text, strict=True)
        except ValueError:  # pydantic's ValidationError is one
            pass
        return self._mend(text)

    def check(self, value: Mapping[str, Any]) -> Values:
        from pydantic_core import to_jsonable_python

        # A gate that was shown models and dates may hand them back.
        return self.parse(_dumped(value, functools.partial(to_jsonable_python, by_alias=True)))

    def plain(self, values: Values) -> dict[str, Any]:
        mode: Literal["json", "python"] = "python" if self._has_sets else "json"
        dumped: dict[str, Any] = self._adapter.dump_python(
            dict(values), mode=mode, by_alias=True, warnings=False, fallback=str
        )
        if not self._has_sets:
            return dumped
        from pydantic_core import to_jsonable_python

        return dict(to_jsonable_python(_sorted_sets(dumped), fallback=str))

    def _attempt(self, tree: Any) -> tuple[Values, list[_Problem]]:
        from pydantic import ValidationError

        data, exact = _encoded(tree)
        try:
            values = self._validate(data, strict=True)
            if not exact:
                # Only Python's strings hold a lone surrogate. Not strict, because that would refuse
                # a date in a string here; the line above has already been strict.
                values = self._adapter.validate_python(json.loads(json.dumps(tree)))
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=False)
            return {}, [_from_pydantic(detail, tree) for detail in details[:MANY_PROBLEMS]]
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


def _annotation(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The type of one parameter, or a ConfigError that says what to do about it."""
    where = f"parameter {parameter.name!r} of {_name(function)}"
    if parameter.kind is parameter.VAR_POSITIONAL or parameter.kind is parameter.POSITIONAL_ONLY:
        raise ConfigError(f"{where} cannot be given by name: make it ordinary")
    if parameter.annotation is parameter.empty:
        if parameter.kind is parameter.VAR_KEYWORD:
            return Any
        raise ConfigError(f"{where} has no type: annotate it")
    if type(parameter.default).__module__ == "pydantic.fields":
        raise ConfigError(f"{where} has a Field as default: write Annotated[type, Field(…)]")

    def holder() -> None: ...

    holder.__annotations__ = {parameter.name: parameter.annotation}
    try:
        return get_type_hints(holder, *_names(function), include_extras=True)[parameter.name]
    except Exception as error:  # an annotation is any expression
        raise ConfigError(
            f"{where} is annotated {parameter.annotation!r}, which cannot be resolved ({error}): "
            "define the type at the top level of its module, outside `if TYPE_CHECKING`, "
            "or do not put the annotation in quotes (nor use `from __future__ import annotations`)"
        ) from error


def _names(function: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the annotations of a function may refer to: its globals, and what it closes over."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if not hasattr(function, "__code__"):
        function = getattr(type(function), "__call__", function)  # noqa: B004
    function = getattr(function, "__func__", function)
    try:
        return function.__globals__, dict(inspect.getclosurevars(function).nonlocals)
    except (AttributeError, TypeError, ValueError):  # not written in Python; or a cell still empty
        return getattr(function, "__globals__", {}), {}


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


_ENTRY: Final = re.compile(r"\s+\*{0,2}(\w+)(?: \(.*?\))?:\s*(.*)")


def _documented(doc: str) -> dict[str, str]:
    """Descriptions from a Google-style `Args:` section."""
    _, _, section = doc.partition("\nArgs:\n")
    found: dict[str, str] = {}
    name, indent = "", 0
    for line in section.splitlines():
        depth = len(line) - len(line.lstrip())
        if line and not depth:  # the next section
            break
        entry = _ENTRY.fullmatch(line)
        if entry and (not found or depth <= indent):
            name, indent = entry[1], depth
            found[name] = entry[2].strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _described(annotation: Any, documented: str | None) -> Any:
    """The annotation with its description as pydantic knows it; a bare string is one."""
    from pydantic import Field

    kind, *metadata = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    if get_origin(kind) is collections.abc.Iterable:
        kind = list[get_args(kind)]  # type: ignore[misc]  # pydantic would check it only when read
    texts = [each for each in metadata if isinstance(each, str)]
    metadata = [each for each in metadata if not isinstance(each, str)]
    if texts:
        metadata.append(Field(description=" ".join(texts)))
    if documented:
        metadata.insert(0, Field(description=documented))  # first, so that the others win
    for each in metadata:
        kind = Annotated[kind, each]
    return kind


class _Default:
    """Shows a default in the schema. It is not filled in, so that the function's own applies."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __get_pydantic_json_schema__(self, core: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import to_jsonable_python

        schema = handler(core)
        try:
            default = to_jsonable_python(self.value)
            json.dumps(default, allow_nan=False)
        except ValueError:  # JSON cannot show it
            return schema
        return {**schema, "default": default}


def _adapter(fields: Mapping[str, Any], optional: set[str], extra: Any) -> TypeAdapter[Any]:
    """A validator whose values are a plain dict: no name of a parameter can clash with its own."""
    import typing_extensions
    from pydantic import ConfigDict, TypeAdapter

    typed_dict: Any = typing_extensions.TypedDict  # made while running, which mypy cannot follow
    config = ConfigDict(allow_inf_nan=False, validate_by_name=True)
    items: dict[str, Any] = {
        name: typing_extensions.NotRequired[kind] if name in optional else kind
        for name, kind in fields.items()
    }
    if extra is None:
        config["extra"] = "forbid"
        shape = typed_dict("Arguments", items)
    else:
        shape = typed_dict("Arguments", items, extra_items=extra)
    shape.__pydantic_config__ = config
    adapter: TypeAdapter[Any] = TypeAdapter(shape)
    adapter.rebuild(raise_errors=True)
    return adapter


def _typed_schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    from pydantic.json_schema import GenerateJsonSchema

    class WithoutTitles(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False  # they only repeat the name

    schema = adapter.json_schema(schema_generator=WithoutTitles)
    del schema["title"]
    for name, definition in schema.get("$defs", {}).items():
        if definition.get("title") == name:
            del definition["title"]
    return {"type": "object", "properties": schema.pop("properties", {}), **schema}


def _unusable(
    function: Callable[..., Any], fields: Mapping[str, Any], error: Exception
) -> ConfigError:
    """Says which parameter it is that pydantic can do nothing with."""
    for name in fields:
        try:
            _typed_schema(_adapter({name: fields[name]}, set(), None))
        except Exception as own:
            where = f"parameter {name!r} of {_name(function)}"
            return ConfigError(f"{where} has a type that JSON cannot become: {_first_line(own)}")
    return ConfigError(f"the parameters of {_name(function)} give no schema: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _from_pydantic(detail: ErrorDetails, tree: Any) -> _Problem:
    kind, where, value = detail["type"], detail["loc"], detail["input"]
    if kind in ("missing", "extra_forbidden"):
        path, union = _located(where[:-1], tree)
        hint = f" (for {union})" if union.isidentifier() else ""
        path = (*path, where[-1])
        return _Problem(MISSING, path, f"missing{hint}") if kind == "missing" else _unknown(path)
    path, _ = _located(where, tree)
    if where and where[-1] == "[key]":
        return _Problem(VALUE, path, f"its name {_sentence(detail['msg'])}")
    if kind in PYDANTIC_WANTS:
        return _Problem(TYPE, path, value=value, wants=PYDANTIC_WANTS[kind])
    if kind == "json_invalid":  # we wrote the JSON ourselves, so it can only be the nesting
        return _Problem(VALUE, path, TOO_DEEP)
    words = f"{_sentence(detail['msg'])}, got {_quoted(value)}"
    if kind in ("literal_error", "enum"):
        return _Problem(VALUE, path, words, value=value, wants=ONE_OF)
    return _Problem(TYPE if kind.endswith("_type") else VALUE, path, words)


def _located(where: Sequence[str | int], tree: Any) -> tuple[Path, str]:
    """Where in the tree pydantic means, and the last member of a union that it names on the way."""
    path: list[str | int] = []
    union = ""
    for step in where:
        inside = _step(tree, step)
        if inside is NOTHING:
            union = str(step)
        else:
            tree = inside
            path.append(step)
    return tuple(path), union


def _sentence(message: str) -> str:
    """pydantic's message, without what only a programmer understands."""
    for prefix in ("Input ", "Value error, ", "Assertion failed, "):
        message = message.removeprefix(prefix)
    return _cut(message, MAX_WORDS)


# --- From a raw JSON schema ---------------------------------------------------------------------


def from_schema(schema: Mapping[str, Any]) -> Arguments:
    """Arguments that a JSON schema describes. The values are the plain JSON."""
    import jsonschema_rs

    if schema.get("type", "object") != "object":
        raise ConfigError(f"arguments are an object, but the schema's type is {schema['type']!r}")
    whole = {**schema, "type": "object", "properties": schema.get("properties") or {}}
    try:
        # Offline: a schema may come from a server that we do not know, and `$ref` would make us
        # read files and open connections for it.
        validator = jsonschema_rs.validator_for(whole, offline=True, mask="it")
    except jsonschema_rs.ValidationError as error:
        message = _cut(error.message, MAX_WORDS)
        if error.instance_path:
            where = _shown_path(tuple(error.instance_path))
            message = f"{where}: {message}, got {_quoted(error.instance)}"
        raise ConfigError(f"the JSON schema is not valid: {message}") from None
    except ValueError as error:
        raise ConfigError(f"the JSON schema is not valid: {error}") from None
    return _Raw(validator, whole)


class _Raw(Arguments):
    def __init__(self, validator: Validator, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self._validator = validator

    def parse(self, text: str) -> Values:
        try:
            value: Values = msgspec.json.decode(text)
            if self._validator.is_valid(value):
                return value
        except (ValueError, RecursionError):  # not JSON; or more than the library can walk
            pass
        return self._mend(text)

    def check(self, value: Mapping[str, Any]) -> Values:
        return self.parse(_dumped(value, dict))

    def plain(self, values: Values) -> dict[str, Any]:
        return dict(values)

    def _attempt(self, tree: Any) -> tuple[Values, list[_Problem]]:
        data, exact = _encoded(tree)
        plain = msgspec.json.decode(data)
        try:
            errors = self._validator.iter_errors(plain)
            found = (problem for error in errors for problem in _from_jsonschema(error))
            problems = list(itertools.islice(found, MANY_PROBLEMS))
        except ValueError:
            problems = [_Problem(VALUE, (), TOO_DEEP)]
        return (plain if exact else json.loads(json.dumps(tree))), problems


def _from_jsonschema(error: SchemaError) -> Iterator[_Problem]:
    path, value, facts = tuple(error.instance_path), error.instance, error.kind.as_dict()
    match error.kind.name:
        case "required":
            yield _Problem(MISSING, (*path, facts["property"]), "missing")
        case "additionalProperties" | "unevaluatedProperties":
            for name in facts["unexpected"]:
                yield _unknown((*path, name))
        case "type":
            yield _Problem(TYPE, path, value=value, wants=frozenset(facts["types"]))
        case "enum" | "const" as keyword:
            options = facts["options"] if keyword == "enum" else [facts["expected_value"]]
            words = f"should be {_listed(map(_quoted, options), ' or ')}, got {_quoted(value)}"
            yield _Problem(VALUE, path, words, value=value, wants=ONE_OF)
        case "anyOf" | "oneOf" if any(facts.get("context") or ()):
            for alternative in facts["context"]:
                for inner in alternative:
                    yield from _from_jsonschema(inner)
        case _:
            words = f"{_cut(error.message, MAX_WORDS)}, got {_quoted(value)}"
            yield _Problem(VALUE, path, words)


# --- Problems -----------------------------------------------------------------------------------

Path: TypeAlias = tuple[str | int, ...]
MISSING, TYPE, VALUE, UNKNOWN = range(4)  # in the order in which they are told


class _Problem(Struct, frozen=True):
    rank: int
    path: Path
    words: str = ""
    """Made from `wants` when empty."""
    value: Any = None
    wants: frozenset[str] = frozenset()
    """Types, by their JSON schema name, that would have been right."""


TYPE_WORDS: Final[Mapping[str, str]] = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "a string",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
ONE_OF: Final = frozenset({"one of"})
"""Wanted is one of a few values, whatever their types."""
TOO_DEEP: Final = "nested too deeply"

PYDANTIC_WANTS: Final[Mapping[str, frozenset[str]]] = {
    "int_type": frozenset({"integer"}),
    "float_type": frozenset({"number"}),
    "decimal_type": frozenset({"number"}),
    "bool_type": frozenset({"boolean"}),
    "string_type": frozenset({"string"}),
    "bytes_type": frozenset({"string"}),
    "list_type": frozenset({"array"}),
    "tuple_type": frozenset({"array"}),
    "set_type": frozenset({"array"}),
    "frozen_set_type": frozenset({"array"}),
    "named_tuple_type": frozenset({"array", "object"}),
    "dict_type": frozenset({"object"}),
    "mapping_type": frozenset({"object"}),
    "model_type": frozenset({"object"}),
    "model_attributes_type": frozenset({"object"}),
    "dataclass_type": frozenset({"object"}),
    "none_required": frozenset({"null"}),
}
"""pydantic's kinds of errors that mean a wrong type."""


def _unknown(path: Path) -> _Problem:
    return _Problem(UNKNOWN, path, "unknown argument" if len(path) == 1 else "unknown")


def _refusal(problems: Iterable[_Problem], schema: Mapping[str, Any]) -> BadArguments:
    """What the model is told: one line for each problem, in an order that does not vary."""
    merged: dict[tuple[int, Path, str], _Problem] = {}
    for problem in problems:
        key = (problem.rank, problem.path, problem.words)
        # Each member of a union complains on its own about the same value.
        wants = problem.wants | merged.get(key, problem).wants
        merged[key] = msgspec.structs.replace(problem, wants=wants)
    told = sorted(merged.values(), key=_order)
    known = _listed(map(_shown, schema["properties"]), ", ") or "none"
    lines = [_line(problem, known) for problem in told[:MAX_PROBLEMS]]
    return BadArguments(lines, more=max(0, len(told) - MAX_PROBLEMS))


def _order(problem: _Problem) -> tuple[object, ...]:
    steps = [(0, step, "") if isinstance(step, int) else (1, 0, step) for step in problem.path]
    return problem.rank, steps, problem.words


def _line(problem: _Problem, known: str) -> str:
    words = problem.words
    if not words:
        wants = problem.wants - {"integer"} if "number" in problem.wants else problem.wants
        kinds = " or ".join(text for kind, text in TYPE_WORDS.items() if kind in wants)
        words = f"should be {kinds}, got {_quoted(problem.value)}"
    elif problem.rank == UNKNOWN and len(problem.path) == 1:
        words = f"{words}; known: {known}"
    return f"{_shown_path(problem.path)}: {words}"


def _shown_path(path: Path) -> str:
    if not path:
        return "arguments"
    steps = [f"[{step}]" if isinstance(step, int) else f".{_shown(step)}" for step in path[-8:]]
    return ("…" if len(path) > 8 else "") + "".join(steps).removeprefix(".")


def _listed(texts: Iterable[str], joint: str) -> str:
    every = list(texts)
    more = [f"{len(every) - MAX_PROBLEMS} more"] if len(every) > MAX_PROBLEMS else []
    return joint.join(every[:MAX_PROBLEMS] + more)


def _quoted(value: Any) -> str:
    """A value as JSON, cut. Takes no longer for a large value than for a small one."""
    if isinstance(value, str):
        return _shown(json.dumps(value[: MAX_QUOTE + 1], ensure_ascii=False))
    text = ""
    for piece in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value):
        text += piece[: MAX_QUOTE + 1]
        if len(text) > MAX_QUOTE:
            break
    return _shown(text)


def _shown(text: str) -> str:
    return _cut(text, MAX_QUOTE)


def _cut(text: str, limit: int) -> str:
    """At most `limit` characters, all of which a request to a model can hold."""
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    return text.encode(errors="backslashreplace").decode()


# --- Mending ------------------------------------------------------------------------------------

NOTHING: Final = object()
DROP: Final = object()

Attempt: TypeAlias = Callable[[Any], tuple[Values, list[_Problem]]]


class _Change(Struct, frozen=True):
    path: Path
    old: Any
    new: Any


def _mended(tree: Any, attempt: Attempt, optional: frozenset[str]) -> tuple[Values, list[_Problem]]:
    """The values of a tree whose trivial mistakes are corrected, or the problems that remain.

    Only what a validator complained about is changed, and a change after which it still complains
    is taken back. Opening a string may show the next mistake: hence the rounds.
    """
    root = [tree]  # so that the tree itself can be replaced like any value in it
    values, problems = attempt(root[0])
    hopeless: set[Path] = set()
    for _ in range(ROUNDS):
        if len(problems) == MANY_PROBLEMS:
            break
        changes = [each for each in _changes(root, problems, optional) if each.path not in hopeless]
        if not changes:
            break
        for change in changes:
            _put(root, change.path, change.new)
        values, problems = attempt(root[0])
        blamed = {problem.path for problem in problems}
        failed = [change for change in changes if change.path in blamed]
        for change in failed:
            _put(root, change.path, change.old)
        if failed:
            hopeless.update(change.path for change in failed)
            values, problems = attempt(root[0])
    return values, problems


def _changes(
    root: list[Any], problems: Iterable[_Problem], optional: frozenset[str]
) -> Iterator[_Change]:
    wants: dict[Path, set[str]] = {}
    wrong: set[Path] = set()
    for problem in problems:
        if problem.rank == TYPE or (problem.rank == VALUE and problem.wants):
            wants.setdefault(problem.path, set()).update(problem.wants)
        else:
            wrong.add(problem.path)
    for path, kinds in wants.items():
        if path in wrong:  # the right type for one member of a union: then that one was meant
            continue
        old = _get(root, path)
        null = old is None and len(path) == 1 and path[0] in optional
        new = DROP if null else _closest(old, kinds)
        if new is not NOTHING:
            yield _Change(path, old, new)


def _closest(value: Any, wants: set[str]) -> Any:
    """The value of a wanted type that this one stands for without any loss, or NOTHING."""
    as_text = bool(wants & {"string", *ONE_OF})
    match value:
        case str() if "string" not in wants:
            return _opened(value, wants)
        case bool():
            return NOTHING
        case float() if "integer" in wants and value.is_integer() and abs(value) <= EXACT:
            return int(value)
        case float() if as_text:
            return value.text if isinstance(value, _Number) else repr(value)
        case int() if as_text:
            return str(value)
        case _:
            return NOTHING


def _opened(text: str, wants: set[str]) -> Any:
    """What a string contains as JSON, if it is of a wanted type."""
    if "boolean" in wants and text.lower() in ("true", "false"):  # also as Python writes it
        return text.lower() == "true"
    try:
        value = _load(text)
    except _NotJson:
        return NOTHING
    match value:
        case None:
            return None
        case bool():
            return value if wants & {"boolean", *ONE_OF} else NOTHING
        case int():
            return value if wants & {"integer", "number", *ONE_OF} else NOTHING
        case float() if wants & {"number", *ONE_OF}:
            return value
        case float():
            return _closest(value, wants - {"string"})
        case list():
            return value if "array" in wants else NOTHING
        case dict():
            return value if "object" in wants else NOTHING
        case _:
            return NOTHING


def _optional(schema: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(schema["properties"]) - frozenset(schema.get("required") or ())


def _get(root: list[Any], path: Path) -> Any:
    return functools.reduce(_step, path, root[0])


def _step(node: Any, step: str | int) -> Any:
    match node:
        case dict():
            return node.get(step, NOTHING)
        case list() if isinstance(step, int) and step < len(node):
            return node[step]
        case _:
            return NOTHING


def _put(root: list[Any], path: Path, value: Any) -> None:
    node: Any = root
    *steps, last = (0, *path)
    for step in steps:
        node = node[step]
    if value is DROP:
        del node[last]
    else:
        node[last] = value


# --- JSON ---------------------------------------------------------------------------------------


def complaint(text: str) -> str | None:
    """Why a text is not JSON, in a few words; None when it is. No text at all counts as JSON."""
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        pass
    else:
        return None
    # It refuses lone surrogates, which Python can hold; and its complaints count in bytes.
    try:
        if not _is_blank(text):
            _load(text)
    except _NotJson as error:
        return str(error)
    return None


class _NotJson(ValueError):
    pass


class _Number(float):
    """A number that remembers how it was written: as a string, 1.10 is not 1.1."""

    text: str

    def __new__(cls, text: str) -> _Number:
        self = super().__new__(cls, text)
        if math.isinf(self):
            raise _NotJson(f"the number {_shown(text)} is too large")
        self.text = text
        return self


def _refuse_constant(name: str) -> Any:
    raise _NotJson(f"{name} is no JSON value")


def _load(text: str) -> Any:
    try:
        return json.loads(text, parse_float=_Number, parse_constant=_refuse_constant)
    except RecursionError:
        raise _NotJson(TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise _NotJson(_explained(error)) from None
    except _NotJson:
        raise
    except ValueError:  # Python's limit on the digits of a whole number
        raise _NotJson("a whole number has too many digits") from None


def _explained(error: json.JSONDecodeError) -> str:
    text, at = error.doc, error.pos
    ends_early = at >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
    hint = ", the text ends too early" if ends_early else ""
    near = _quoted(text[max(0, at - 30) : at + 30])
    message = error.msg.removesuffix(" at")
    place = f"character {min(at + 1, len(text))} of {len(text)}"
    return f"{message} ({place}{hint}), near {near}"


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _encoded(tree: Any) -> tuple[bytes, bool]:
    """JSON of a tree for a validator, and whether it is exact.

    UTF-8 has no lone surrogates, so the validators know none. They are shown a question mark in
    their place, which is as long and as good a string.
    """
    text = json.dumps(tree, ensure_ascii=False)
    try:
        return text.encode(), True
    except UnicodeEncodeError:
        return text.encode(errors="replace"), False


def _dumped(value: Mapping[str, Any], to_builtins: Callable[[Any], Any]) -> str:
    try:
        return json.dumps(to_builtins(value))
    except (TypeError, ValueError, RecursionError) as error:
        message = _cut(str(error), MAX_WORDS)
        raise BadArguments([f"arguments: cannot be written as JSON: {message}"]) from None
