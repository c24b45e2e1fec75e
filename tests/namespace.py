"""Generate the tables of docs/python.md: every public name and what it is.

`python -m tests.namespace` rewrites them; a test fails when they are out of date. What a name is
comes from the first line of its docstring.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import holdfast
from docs.build import NAMESPACES as NAMESPACES
from docs.build import TESTING as TESTING
from tests.server.reference import placed, table

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "python.md"
PACKAGE: Final = Path(holdfast.__file__).parent
COMMAND: Final = "python -m tests.namespace"
FRONT: Final = "holdfast"


def public_names(namespace: str) -> dict[str, str]:
    """The names of a namespace, each with the module that defines it."""
    name = "__init__" if namespace == FRONT else namespace
    stub = PACKAGE / f"{name}.pyi"  # of names that are imported on first use
    module = stub.with_suffix(".py")
    package = stub.with_suffix("") / "__init__.py"
    source = next(path for path in (stub, module, package) if path.exists())
    return {
        alias.name: str(node.module)
        for node in ast.parse(source.read_text("utf-8")).body
        if isinstance(node, ast.ImportFrom) and node.module not in ("holdfast", "__future__")
        for alias in node.names
    }


def summary_of(module: str, name: str) -> str:
    """First paragraph of the docstring of a name, on one line."""
    path = PACKAGE.parent.joinpath(*module.split("."))
    source = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    docstrings = dict(docstrings_of(ast.parse(source.read_text("utf-8"))))
    return " ".join(docstrings[name].strip().partition("\n\n")[0].split())


def docstrings_of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Docstrings of classes and functions, and the texts after type aliases."""
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        match node, after:
            case ((ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef()), _):
                yield node.name, ast.get_docstring(node) or ""
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, text
            case ast.ImportFrom(module=module), _ if module and module.startswith("holdfast."):
                continue
            case _:
                pass


def names_table(namespace: str) -> str:
    rows = sorted(public_names(namespace).items(), key=lambda row: row[0].lower())
    return table(
        ("name", "what it is"),
        ((f"`{name}`", summary_of(module, name)) for name, module in rows),
    )


def page(text: str) -> str:
    """The page with its tables replaced."""
    for namespace in (FRONT, *NAMESPACES, TESTING):
        text = placed(text, namespace, names_table(namespace))
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
