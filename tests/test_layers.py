"""A layer imports only layers below it, and the kernel imports next to nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent

HEIGHTS: Final[tuple[Mapping[str, tuple[str, ...]], ...]] = (
    {"kernel": ("kernel", "agent", "blocking")},
    {"providers": ("providers", "testing"), "observe": ("observe",)},
    {"store": ("store",), "live": ("live",)},
    {"chat": ("chat",)},
    {"worker": ("worker", "host"), "tools": ("tools",)},
    {"server": ("server", "client")},
    {"cli": ("cli", "config", "serving", "__main__")},
    {
        "public": (
            "__init__",
            "chats",
            "errors",
            "events",
            "hooks",
            "messages",
            "models",
            "public_names",
            "options",
            "telemetry",
            "web",
            "workspaces",
        )
    },
)
"""The layers from the lowest up, each with the names in `holdfast` that it is made of."""

LAYER: Final = {name: layer for row in HEIGHTS for layer, names in row.items() for name in names}
HEIGHT: Final = {layer: height for height, row in enumerate(HEIGHTS) for layer in row}

STRANGERS: Final = frozenset({("server", "worker")})
"""They meet in the database, although one is above the other."""

CHAT_IN_TERMINAL: Final = ("holdfast.kernel.terminal", "holdfast.cli.agent_chat")
"""`agent.chat()` is a method of an agent, and what it opens is the top layer, which imports agents.

The one arrow that makes a cycle.
"""
UP_WHEN_NEEDED: Final = frozenset(
    {("holdfast.kernel.named_model", "holdfast.providers.model_factory"), CHAT_IN_TERMINAL}
)
"""The arrows up. The first: an agent may be given the name of a model, and then asks who that is.

Only inside a function: an agent that is given a model imports no provider.
"""

KERNEL_MAY_IMPORT: Final = sys.stdlib_module_names | {"anyio", "msgspec", "holdfast"}
TYPING_EXTENSIONS: Final = frozenset(
    {"holdfast.kernel.type_parameters", "holdfast.kernel.argument_types", "holdfast.agent"}
)
"""Modules of the kernel that may import it: before Python 3.13 anyio does, too."""
SCHEMA: Final = "holdfast.kernel.schema"
SCHEMA_MAY_IMPORT_LATE: Final = frozenset(
    {"jsonschema_rs", "pydantic", "pydantic_core", "typing_extensions"}
)
"""Slow to import and not needed by every run: only in the functions that build and check a schema.

The last two come with pydantic, which before Python 3.12 takes a TypedDict from there alone.
"""


@dataclass(frozen=True, slots=True)
class Import:
    """One arrow: a module that is imported, and where."""

    target: str
    line: int
    late: bool = False
    """Inside a function or for the type checker alone: not followed when the module is imported."""
    for_types: bool = False
    """For the type checker alone."""
    names: tuple[str, ...] = ()
    """What is imported from the module, which may be modules too."""


def check(module: str, source: str) -> list[str]:
    """What is wrong with the imports of a module, one sentence each.

    The name of a package's own module ends in `.__init__`.
    """
    wrong = [
        f"{module}:{arrow.line}: {why}"
        for arrow in imports(source)
        if (why := refuse(module, arrow))
    ]
    if module != "holdfast.__init__" and part(module) not in LAYER:
        wrong.insert(0, f"{module} is in no layer: give it one in {Path(__file__).name}")
    return wrong


def refuse(module: str, arrow: Import) -> str | None:
    """Why `module` may not have this import, or None when it may."""
    target = arrow.target
    top = target.partition(".")[0]
    if not top:
        return f"{target} is relative: an import says where it points"
    if module == "holdfast.__init__":
        if top == "holdfast" and not arrow.late:
            return f"{target} must be imported late: whoever imports holdfast may not need it"
        return None
    layer = LAYER.get(part(module))
    if layer is None:
        return None  # said once, of the module itself
    if top != "holdfast":
        return refuse_in_kernel(module, arrow, top) if layer == "kernel" else None
    if target == "holdfast":
        return "a module of holdfast must import from where a name is defined, not from the top"
    below = LAYER.get(part(target))
    if below is None:
        return f"{target} is in no layer"
    if arrow.late and (module, target) in UP_WHEN_NEEDED:
        return None
    if layer != below and HEIGHT[layer] <= HEIGHT[below]:
        return f"{layer} must not import {target}: {below} is not below it"
    if (layer, below) in STRANGERS:
        return f"{layer} must not import {target}: {layer} and {below} do not know each other"
    return None


def refuse_in_kernel(module: str, arrow: Import, top: str) -> str | None:
    if top in KERNEL_MAY_IMPORT or (top == "typing_extensions" and module in TYPING_EXTENSIONS):
        return None
    if f"{module}.".startswith(f"{SCHEMA}.") and top in SCHEMA_MAY_IMPORT_LATE:
        return None if arrow.late else f"{top} must be imported inside the function that needs it"
    return f"the kernel must not import {top}"


def part(module: str) -> str:
    """The piece of holdfast that a module belongs to: `kernel` for `holdfast.kernel.decide`."""
    return module.split(".")[1]


def imports(source: str) -> Iterator[Import]:
    """Every import of a module, wherever it stands."""
    found: list[tuple[ast.AST, bool, bool]] = [(ast.parse(source), False, False)]
    while found:
        node, late, for_types = found.pop()
        match node:
            case ast.Import():
                for alias in node.names:
                    yield Import(alias.name, node.lineno, late, for_types)
            case ast.ImportFrom(level=0, module=str(module)):
                names = tuple(alias.name for alias in node.names)
                for target in targets(module, node):
                    yield Import(target, node.lineno, late, for_types, names)
            case ast.ImportFrom():
                target = "." * node.level + (node.module or "")
                yield Import(target, node.lineno, late, for_types)
            case ast.Call(
                func=ast.Name("import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(str(module)), *_],
            ):
                yield Import(module, node.lineno, late, for_types)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                late = True
            case ast.If(test=ast.Name("TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                found.extend((child, late, for_types) for child in node.orelse)
                found.extend((child, True, True) for child in node.body)
                continue
        found.extend((child, late, for_types) for child in ast.iter_child_nodes(node))


def targets(module: str, node: ast.ImportFrom) -> set[str]:
    """The modules that `from module import names` reaches: from the top, each name may be one."""
    if module != "holdfast":
        return {module}
    return {f"holdfast.{alias.name}" if alias.name in LAYER else "holdfast" for alias in node.names}


def modules() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "holdfast").rglob("*.py")):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts), path.read_text("utf-8")


def cycle(sources: Iterable[tuple[str, str]]) -> list[str]:
    """Modules each of which imports the next, and the last is the first; empty if there are none.

    Imports in functions count, those for the type checker alone and `CHAT_IN_TERMINAL` do not. An
    import of a package is one of its own module.
    """
    by_name = {module.removesuffix(".__init__"): source for module, source in sources}
    graph: dict[str, set[str]] = {}
    for module, source in by_name.items():
        arrows = [arrow for arrow in imports(source) if not arrow.for_types]
        names = {name for arrow in arrows for name in imported(arrow, by_name)}
        names -= {up for below, up in [CHAT_IN_TERMINAL] if below == module}
        graph[module] = names & by_name.keys() - {module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def imported(arrow: Import, modules: Container[str]) -> set[str]:
    """The modules that an import reaches: `from package import name` may name a module or not."""
    paths = [f"{arrow.target}.{name}" for name in arrow.names]
    return {path if path in modules else arrow.target for path in paths} or {arrow.target}


def test_every_import_points_down() -> None:
    wrong = [complaint for module, source in modules() for complaint in check(module, source)]
    assert not wrong, "\n" + "\n".join(wrong)


def test_no_modules_import_each_other() -> None:
    assert cycle(modules()) == []


@pytest.mark.parametrize(
    "back",
    [
        pytest.param("import holdfast.chat.a", id="module"),
        pytest.param("from holdfast.chat import a", id="from_package"),
        pytest.param("from holdfast.chat.a import name", id="name"),
        pytest.param("def f():\n    from holdfast.chat.a import name", id="late"),
        pytest.param("from holdfast.chat import d", id="over_another"),
    ],
)
def test_a_cycle_is_found(back: str) -> None:
    sources = {
        "holdfast.chat.__init__": "",
        "holdfast.chat.a": "from holdfast.chat import b\nfrom holdfast.chat.c import name",
        "holdfast.chat.b": back,
        "holdfast.chat.c": "from msgspec import Struct",
        "holdfast.chat.d": "from holdfast.chat import a",
    }
    found = cycle(sources.items())
    assert found[0] == found[-1]
    assert {"holdfast.chat.a", "holdfast.chat.b"} <= set(found)
    assert "holdfast.chat.c" not in found


def test_an_import_for_types_makes_no_cycle() -> None:
    for_types = "if TYPE_CHECKING:\n    from holdfast.chat import a\nelse:\n    a = None"
    sources = {"holdfast.chat.a": "from holdfast.chat import b", "holdfast.chat.b": for_types}
    assert cycle(sources.items()) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        pytest.param("holdfast.kernel.loop", "import holdfast.store.sqlite.database", id="up"),
        pytest.param(
            "holdfast.kernel.named_model", "from holdfast.providers import demo", id="up_by_name"
        ),
        pytest.param(
            "holdfast.kernel.named_model",
            "import holdfast.providers.model_factory",
            id="names_early",
        ),
        pytest.param(
            "holdfast.kernel.named_model",
            "class A:\n    from holdfast.providers.model_factory import model",
            id="names_in_a_class",
        ),
        pytest.param(
            "holdfast.kernel.named_model",
            "def f():\n    import holdfast.providers.http",
            id="not_the_names",
        ),
        pytest.param(
            "holdfast.kernel.named_model",
            "def f():\n    from holdfast.providers import x",
            id="all_of_them",
        ),
        pytest.param(
            "holdfast.kernel.prepare",
            "def f():\n    from holdfast.providers.model_factory import model",
            id="names_elsewhere",
        ),
        pytest.param(
            "holdfast.chat.idempotency", "from holdfast import server", id="up_from_the_top"
        ),
        pytest.param("holdfast.live.relay", "def f():\n    import holdfast.cli", id="up_late"),
        pytest.param(
            "holdfast.kernel.model",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import holdfast.testing",
            id="up_for_types",
        ),
        pytest.param(
            "holdfast.kernel.loop",
            "from importlib import import_module\nimport_module('holdfast.worker')",
            id="up_by_call",
        ),
        pytest.param(
            "holdfast.store.sqlite.database", "import holdfast.live.broadcast", id="sideways"
        ),
        pytest.param("holdfast.server.app", "import holdfast.worker", id="server_worker"),
        pytest.param("holdfast.client", "from holdfast.host import open", id="client_host"),
        pytest.param(
            "holdfast.worker.runner", "import holdfast.server.wire_format", id="worker_server"
        ),
        pytest.param("holdfast.cli.serve", "from holdfast import Agent", id="the_top"),
        pytest.param("holdfast.kernel.loop", "from .. import store", id="relative"),
        pytest.param("holdfast.kernel.loop", "import httpx", id="third_party"),
        pytest.param("holdfast.kernel.loop", "def f():\n    import httpx", id="third_party_late"),
        pytest.param("holdfast.kernel.tool", "def f():\n    import pydantic", id="not_schema"),
        pytest.param("holdfast.kernel.schema", "import pydantic", id="schema_early"),
        pytest.param("holdfast.kernel.schema", "class A:\n    import pydantic", id="schema_class"),
        pytest.param("holdfast.attic", "", id="module_in_no_layer"),
        pytest.param("holdfast.attic.box", "", id="package_in_no_layer"),
        pytest.param("holdfast.cli.serve", "import holdfast.attic", id="import_of_no_layer"),
        pytest.param("holdfast.__init__", "import holdfast.agent", id="top_early"),
    ],
)
def test_a_wrong_import_is_found(module: str, source: str) -> None:
    assert len(check(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("holdfast.__init__", "def __getattr__(name):\n    import holdfast.server"),
        (
            "holdfast.__init__",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import holdfast.agent",
        ),
        ("holdfast.agent", "import holdfast.kernel.loop"),
        (
            "holdfast.kernel.named_model",
            "def f():\n    from holdfast.providers.model_factory import model",
        ),
        (
            "holdfast.kernel.loop",
            "import holdfast.agent, asyncio, anyio.abc\nfrom msgspec import Struct",
        ),
        ("holdfast.kernel.schema", "def f():\n    import pydantic\n    import jsonschema_rs"),
        (
            "holdfast.kernel.schema.typed_arguments",
            "if typing.TYPE_CHECKING:\n    from pydantic import TypeAdapter",
        ),
        ("holdfast.testing.server", "import aiohttp\nimport holdfast.providers.demo"),
        ("holdfast.server.app", "import starlette\nfrom holdfast import chat, live"),
        ("holdfast.cli.serve", "import holdfast.server, holdfast.worker, holdfast.tools"),
    ],
)
def test_a_right_import_is_left_alone(module: str, source: str) -> None:
    assert check(module, source) == []


def test_the_arrows_up_are_there_once() -> None:
    up = [
        (module, arrow.target)
        for module, source in modules()
        if LAYER.get(part(module)) == "kernel"
        for arrow in imports(source)
        if LAYER.get(part(f"{arrow.target}.")) not in (None, "kernel")
    ]
    assert sorted(up) == sorted(UP_WHEN_NEEDED)


SLOW: Final = frozenset({"pydantic", "pydantic_core", "jsonschema_rs"})
NETWORK: Final = frozenset(
    {"aiohttp", "httpx", "requests", "urllib3", "ssl", "http.client", "urllib.request"}
)


def loaded_by(program: str) -> set[str]:
    """The modules that a fresh interpreter has after running `program`."""
    report = f"{program}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", report], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_holdfast_imports_nothing_slow() -> None:
    assert loaded_by("import holdfast").isdisjoint(SLOW | NETWORK | {"asyncio"})


def test_an_agent_that_is_given_a_model_imports_no_provider() -> None:
    program = """
import holdfast
class Mute:
    name, window = "mute:1", None
    def stream(self, request): ...
holdfast.Agent(model=Mute())
"""
    assert not any(name.startswith("holdfast.providers") for name in loaded_by(program))


def test_an_agent_needs_neither_a_schema_library_nor_the_network() -> None:
    new = loaded_by("import holdfast; holdfast.Agent") - loaded_by("import asyncio, anyio, msgspec")
    assert new.isdisjoint(SLOW | NETWORK)
