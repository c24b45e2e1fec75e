"""Validator and JSON schema of a function's arguments, or of a type, by pydantic."""

from __future__ import annotations

import collections.abc
import inspect
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, get_args, get_origin

from holdfast.kernel.errors import ConfigError, describe
from holdfast.kernel.schema import docstring, signature
from holdfast.kernel.schema.arguments import VALUE

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def of(function: Callable[..., Any], skip_first: bool) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    """Validator and schema of a function's arguments. Raises `ConfigError` if it has none."""
    _, documented = docstring.split(function)
    fields: dict[str, Any] = {}
    extra: Any = None
    for parameter in signature.parameters(function)[skip_first:]:
        kind = _described(_annotation(function, parameter), documented.get(parameter.name))
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = kind
        elif parameter.default is parameter.empty:
            fields[parameter.name] = kind
        else:
            fields[parameter.name] = NotRequired[Annotated[kind, _Default(parameter.default)]]
    try:
        adapter = _adapter(fields, extra)
        return adapter, _schema(adapter)
    except Exception as error:  # a type may bring any code of its own
        raise _unusable(function, fields, error) from error


def of_type(kind: Any) -> tuple[TypeAdapter[Any], dict[str, Any], bool]:
    """Validator of a type, schema of an object, and whether the type is its field `VALUE`.

    Raises whatever pydantic, or the type itself, raises.
    """
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    adapter.rebuild(raise_errors=True)
    if dereferenced(plain_schema(adapter)).get("type") == "object":
        return adapter, _schema(adapter), False
    adapter = _adapter({VALUE: kind})
    return adapter, _schema(adapter), True


def _annotation(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The type of one parameter. Raises `ConfigError` if it has no usable one."""
    where = f"parameter {parameter.name!r} of {signature.name(function)}"
    if parameter.kind is parameter.VAR_POSITIONAL or parameter.kind is parameter.POSITIONAL_ONLY:
        raise ConfigError(f"{where} cannot be passed by name: make it an ordinary parameter")
    if parameter.annotation is parameter.empty:
        if parameter.kind is parameter.VAR_KEYWORD:
            return Any
        if parameter.name == "self":
            raise ConfigError(
                f"{where} belongs to no instance: use tool(thing.method), not @tool in a class"
            )
        raise ConfigError(f"{where} has no type: annotate it")
    if type(parameter.default).__module__ == "pydantic.fields":
        raise ConfigError(f"{where} has a Field as default: write Annotated[type, Field(…)]")
    try:
        return signature.resolved(function, parameter)
    except Exception as error:  # an annotation is any expression
        raise ConfigError(
            f"{where} is annotated {parameter.annotation!r}, which cannot be resolved ({error}): "
            "define the type at the top level of its module, outside `if TYPE_CHECKING`, "
            "or do not put the annotation in quotes (nor use `from __future__ import annotations`)"
        ) from error


def _described(annotation: Any, documented: str | None) -> Any:
    """The annotation with its description for pydantic; a bare string is a description."""
    from pydantic import Field

    kind, *metadata = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    if get_origin(kind) is collections.abc.Iterable:
        kind = list[get_args(kind)]  # type: ignore[misc]  # pydantic would check it only when read
    if documented:  # first, so that the others take precedence
        kind = Annotated[kind, Field(description=documented)]
    for each in metadata:
        kind = Annotated[kind, Field(description=each) if isinstance(each, str) else each]
    return kind


class _Default:
    """Shows a default in the schema without filling it in: the function applies its own."""

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


def _adapter(fields: Mapping[str, Any], extra: Any = None) -> TypeAdapter[Any]:
    """Validator whose values are a plain dict, so that any parameter name is possible."""
    from pydantic import ConfigDict, TypeAdapter
    from typing_extensions import TypedDict

    typed_dict: Any = TypedDict  # made while running, which mypy cannot follow
    config = ConfigDict(allow_inf_nan=False, validate_by_name=True)
    if extra is None:
        config["extra"] = "forbid"
        shape = typed_dict("Arguments", fields)
    else:
        shape = typed_dict("Arguments", fields, extra_items=extra)
    shape.__pydantic_config__ = config
    adapter: TypeAdapter[Any] = TypeAdapter(shape)
    adapter.rebuild(raise_errors=True)
    return adapter


def _schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """The schema of an object, without titles that only repeat names."""
    schema = dereferenced(plain_schema(adapter))
    schema.pop("title", None)
    for name, definition in schema.get("$defs", {}).items():
        if definition.get("title") == name:
            del definition["title"]
        if definition.get("properties") == {}:  # a type without fields, not any object
            definition.setdefault("additionalProperties", False)
    return {"type": "object", "properties": schema.pop("properties", {}), **schema}


def plain_schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """The schema of a type, without titles of fields."""
    from pydantic.json_schema import GenerateJsonSchema

    class WithoutTitles(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False  # they only repeat the name

    return adapter.json_schema(schema_generator=WithoutTitles)


def dereferenced(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, or the definition that it refers to if it contains only a reference."""
    definitions = schema.get("$defs", {})
    definition = definitions.get(str(schema.get("$ref")).removeprefix("#/$defs/"))
    return schema if definition is None else {**definition, "$defs": definitions}


def _unusable(function: Any, fields: Mapping[str, Any], error: Exception) -> ConfigError:
    """The error that names the parameter whose type pydantic cannot handle."""
    where = f"a parameter of {signature.name(function)}"
    for name, kind in fields.items():
        try:
            _schema(_adapter({name: kind}))
        except Exception as own:
            where, error = f"parameter {name!r} of {signature.name(function)}", own
            if getattr(kind, "__name__", "") == "ToolContext":
                return ConfigError(f"{where} is a ToolContext and not the first: put it first")
            break
    words = describe(error).splitlines()[0]
    return ConfigError(f"{where} has a type that JSON cannot become: {words}")
