"""The OpenAPI document, generated from the operations."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any, Final

import msgspec

from holdfast.server.access_policy import POLICY, Need
from holdfast.server.operation import DOWNLOAD_KEY, Operation
from holdfast.server.problem import PROBLEM_MEDIA_TYPE, ProblemDetails
from holdfast.server.wire_format import API_PREFIX

REF_TEMPLATE: Final = "#/components/schemas/{name}"
JSON_MEDIA_TYPE: Final = "application/json"


def described(operations: Iterable[Operation]) -> dict[str, Any]:
    """The OpenAPI document of these operations."""
    every = list(operations)
    schemas, components = _schemas(every)
    paths: dict[str, dict[str, Any]] = {}
    for each in every:
        paths.setdefault(API_PREFIX + each.path, {})[each.method.lower()] = _operation(
            each, schemas
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": version("holdfast"),
            "description": "Durable agent chats. See docs/http.md for the concepts.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schemas(operations: Iterable[Operation]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of each type, by its repr, and the components that these refer to."""
    types: list[Any] = [ProblemDetails]
    for each in operations:
        gives = each.gives if each.media == JSON_MEDIA_TYPE else None
        types += [kind for kind in (each.query, each.body, gives) if kind is not None]
        types += [*each.names.values(), *(each.events or {}).values()]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF_TEMPLATE)
    return dict(zip(map(repr, types), schemas, strict=True)), components


def _operation(operation: Operation, schemas: Mapping[str, Any]) -> dict[str, Any]:
    need = POLICY[operation.method, operation.path]
    spec: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": _parameters(operation, schemas),
        "responses": _responses(operation, schemas),
        "security": [] if need is Need.NOTHING else [{"token": []}],
        "x-needs": need.value,
    }
    if operation.handle.__doc__:
        spec["description"] = inspect.cleandoc(operation.handle.__doc__)
    if operation.events is not None:
        spec["x-events"] = {name: schemas[repr(kind)] for name, kind in operation.events.items()}
    if operation.body is not None:
        content = {"application/json": {"schema": schemas[repr(operation.body)]}}
        spec["requestBody"] = {"required": _required(operation.body), "content": content}
    elif operation.takes is not None:
        spec["requestBody"] = {"required": True, "content": {operation.takes: {"schema": {}}}}
    return spec


def _required(body: type) -> bool:
    return any(field.required for field in msgspec.structs.fields(body))


def _parameters(operation: Operation, schemas: Mapping[str, Any]) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": schemas[repr(kind)]}
        for name, kind in operation.names.items()
    ]
    if operation.query is not None:
        parameters += _query(operation.query)
    if operation.download:
        text = {"type": "string"}
        parameters.append({"name": DOWNLOAD_KEY, "in": "query", "required": False, "schema": text})
    if operation.events is not None:
        what = "Id of the last event received: the stream continues after it."
        parameters.append(_header("Last-Event-ID", what, {"type": "string"}))
    if operation.keyed:
        what = "Names the request: sent again with the same key, it takes effect once."
        schema = {"type": "string", "minLength": 1, "maxLength": 200}
        parameters.append(_header("Idempotency-Key", what, schema))
    return parameters


def _header(name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": description, "schema": schema}


def _query(kind: type) -> list[dict[str, Any]]:
    schema = msgspec.json.schema(kind, ref_template=REF_TEMPLATE)
    properties = schema["$defs"][kind.__name__] if "$defs" in schema else schema
    return [
        {
            "name": name,
            "in": "query",
            "required": name in properties.get("required", ()),
            "schema": one,
        }
        for name, one in properties["properties"].items()
    ]


def _responses(operation: Operation, schemas: Mapping[str, Any]) -> dict[str, Any]:
    problem = {PROBLEM_MEDIA_TYPE: {"schema": schemas[repr(ProblemDetails)]}}
    done: dict[str, Any] = {"description": operation.summary}
    if operation.gives is not None:
        schema = schemas[repr(operation.gives)] if operation.media == JSON_MEDIA_TYPE else {}
        done["content"] = {media: {"schema": schema} for media in operation.media.split(", ")}
    return {
        str(operation.status): done,
        "default": {"description": "Why the request failed", "content": problem},
    }
