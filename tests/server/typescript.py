"""The types of the API in TypeScript, for the page: ui/src/api/schema.ts.

`python -m tests.server.typescript` writes the file, and with `--check` says whether that is due.
The OpenAPI document is all that it reads. It knows the JSON Schema that msgspec makes and no more:
a keyword that is new stops it, so that none is left out in silence.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from holdfast.server.routes.health import document
from holdfast.server.wire_format import API_PREFIX

Schema: TypeAlias = Mapping[str, Any]

FILE: Final = Path(__file__).resolve().parents[2] / "ui" / "src" / "api" / "schema.ts"
STREAMS: Final = {"/chats/{chat}/stream": "ChatEvents", "/stream": "ListEvents"}
"""What the events of a stream are called, all together."""
JSON: Final = "application/json"
PLAIN: Final = {
    "boolean": "boolean",
    "integer": "number",
    "null": "null",
    "number": "number",
    "string": "string",
}
SHAPE: Final = frozenset(
    ("$ref", "additionalProperties", "anyOf", "const", "enum", "items", "prefixItems", "type")
)
"""Keywords that decide what a type is, beside `properties` and `required`."""
BESIDE: Final = re.compile(
    "contentEncoding|default|description|discriminator|format|multipleOf|pattern|propertyNames"
    "|title|uniqueItems|(exclusive)?(max|min|Max|Min)(imum|Items|Length|Properties)"
)
"""Keywords that TypeScript has no type for."""
HEAD: Final = """\
// Made from the server's OpenAPI document by `make types`. Not to be edited.
//
// A field that may be left out stands for the value behind @default.
"""


class UnknownSchema(Exception):
    pass


def typescript(api: Schema) -> str:
    """The whole file."""
    paths = {path.removeprefix(API_PREFIX): each for path, each in api["paths"].items()}
    operations = {
        (method.upper(), path): operation
        for path, methods in sorted(paths.items())
        for method, operation in methods.items()
    }
    streams = {path: each for (_, path), each in operations.items() if "x-events" in each}
    if streams.keys() != STREAMS.keys():
        raise UnknownSchema(f"the streams are {sorted(streams)}: name them in STREAMS")
    parts = [
        HEAD,
        f"/** In front of every path. */\nexport const PREFIX = {quoted(API_PREFIX)};\n",
        interface("Schemas", "", schemas(api["components"]["schemas"])),
        *(
            interface(name, "The data of each event, by its name.", events(streams[path]))
            for path, name in STREAMS.items()
        ),
        interface("Operations", "By method and path.", described_operations(operations)),
    ]
    return "\n".join(parts)


def interface(name: str, words: str, members: Iterable[str]) -> str:
    return f"{comment(words)}export interface {name} {{\n{indented(members)}\n}}\n"


def schemas(components: Mapping[str, Schema]) -> Iterator[str]:
    for name, schema in sorted(components.items()):
        yield f"{comment(schema.get('description', ''))}{name}: {type_of(schema)};"


def events(operation: Schema) -> Iterator[str]:
    for name, schema in operation["x-events"].items():
        yield f"{name}: {type_of(schema)};"


def described_operations(operations: Mapping[tuple[str, str], Schema]) -> Iterator[str]:
    for (method, path), operation in operations.items():
        members = [
            f"path: {parameters(operation, 'path')};",
            f"query: {parameters(operation, 'query')};",
            f"body: {body(operation)};",
            f"answer: {answer(operation)};",
        ]
        yield comment(operation["summary"]) + f"{quoted(f'{method} {path}')}: {braced(members)};"


def parameters(operation: Schema, place: str) -> str:
    found = [each for each in operation["parameters"] if each["in"] == place]
    if not found:
        return "undefined"
    return braced(member(each["name"], each["schema"], each["required"]) for each in found)


def body(operation: Schema) -> str:
    """`undefined` when there is none; a union with it when it may be left out."""
    if "requestBody" not in operation:
        return "undefined"
    content = operation["requestBody"]["content"]
    made = type_of(content[JSON]["schema"]) if JSON in content else "BodyInit"
    return made if operation["requestBody"]["required"] else f"{made} | undefined"


def answer(operation: Schema) -> str:
    (done,) = (each for code, each in operation["responses"].items() if code != "default")
    content = done.get("content", {})
    if not content:
        return "undefined"
    if JSON in content:
        return type_of(content[JSON]["schema"])
    if "text/event-stream" in content:
        return "ReadableStream<Uint8Array>"
    return "Blob" if "*/*" in content else "string"


# --- one schema ----------------------------------------------------------------------------------


def type_of(schema: Schema) -> str:
    known = SHAPE | {"properties", "required"}
    unknown = [word for word in schema if word not in known and not BESIDE.fullmatch(word)]
    if unknown:
        raise UnknownSchema(f"{unknown} in {json.dumps(schema)}: say here what it is")
    match schema:
        case {"$ref": ref}:
            return f"Schemas[{quoted(ref.rsplit('/', 1)[1])}]"
        case {"anyOf": several}:
            return " | ".join(dict.fromkeys(map(type_of, several)))
        case {"enum": values}:
            return " | ".join(map(quoted, values))
        case {"const": value}:
            return quoted(value)
        case {"prefixItems": items}:
            return f"[{', '.join(map(type_of, items))}]"
        case {"type": "array"}:
            return f"Array<{type_of(schema.get('items', {}))}>"
        case {"type": "object"}:
            return object_type(schema)
        case {"type": str(name)}:
            return PLAIN[name]
        case _ if not schema.keys() & SHAPE:
            return "unknown"
    raise UnknownSchema(f"{json.dumps(schema)}: say here what it is")


def object_type(schema: Schema) -> str:
    if "properties" not in schema:
        return f"Record<string, {type_of(schema.get('additionalProperties', {}))}>"
    required = schema.get("required", ())
    return braced(
        member(name, each, name in required) for name, each in schema["properties"].items()
    )


def member(name: str, schema: Schema, required: bool) -> str:
    words = schema.get("description", "")
    if not required and "default" in schema:
        default = schema["default"]
        default = sorted(default) if schema.get("uniqueItems") else default  # a set has no order
        words = f"{words}\n@default {json.dumps(default)}".strip()
    key = name if name.isidentifier() else quoted(name)
    return f"{comment(words)}{key}{'' if required else '?'}: {type_of(schema)};"


# --- letters -------------------------------------------------------------------------------------


def braced(members: Iterable[str]) -> str:
    inside = indented(members)
    return f"{{\n{inside}\n}}" if inside else "Record<string, never>"


def indented(members: Iterable[str]) -> str:
    return "\n".join(f"  {line}" for each in members for line in each.splitlines())


def comment(words: str) -> str:
    if not words:
        return ""
    lines = words.replace("*/", "*\\/").splitlines()
    if len(lines) == 1:
        return f"/** {lines[0]} */\n"
    return "/**\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */\n"


def quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def main(arguments: list[str]) -> int:
    made = typescript(document())
    if "--check" in arguments:
        if FILE.exists() and FILE.read_text("utf-8") == made:
            return 0
        print("ui/src/api/schema.ts is not what the server says: run make types", file=sys.stderr)
        return 1
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
