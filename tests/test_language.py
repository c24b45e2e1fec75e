"""Documents, docstrings and messages avoid a few forms that readers have to decode.

The list is short on purpose, so that it is easy to obey. CONTRIBUTING.md has the glossary. Code in
documents (fenced blocks and `inline code`) is not scanned.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = ROOT / "holdfast"

FORMS: Final = {
    "whoever: name the person or the process": r"\bwhoever\b",
    "nobody or somebody as a subject: name it, or write 'no worker', 'a person'": (
        r"(?:^|[.:;,(]\s+|\b(?:that|which|when|where|if|because|what|and|but|while|so|whether)\s+)"
        r"(?:nobody|somebody)\b"
    ),
    "is no X: write 'is not an X'": (
        r"(?<!here )\b(?:is|are) no (?!longer\b|more\b|other\b|\w+er than\b)\w"
    ),
    "believed whom: say which header is trusted": r"\bbelieved whom\b",
    "behind it: write 'after it'": r"\bbehind (?:it|them)\b",
    "beneath, beside: write 'inside', 'next to'": r"\b(?:beneath|beside)\b",
    "Who as a subject: name the person or the process": (
        r"(?:^|[.!?;]\s+)who(?:se|m)?\b[^?]*?(?:[.!]|$)"
    ),
    "What as a subject: write the noun": r"(?:^|[.!?]\s+)what\b[^?.:]*?\.(?:\s|$)",
    "One as a subject: repeat the noun": r"(?:^|[.!?;]\s+)one (?:that|which|who)\b",
    "is told: write 'gets', 'is notified', or what it reads": r"(?<!\bmodel )\b(?:is|are) told\b",
    "goes on: write 'continues'": r"\b(?:go|goes|going|went) on\b",
    "comes back: write 'reconnects', 'returns'": r"\b(?:come|comes|coming|came) back\b",
    "is gone: write 'is deleted', 'has disconnected'": r"\b(?:is|are|was|were) gone\b",
    "hears: write 'receives', 'is notified'": r"\b(?:hear|hears|heard)\b",
    "trouble: write 'error', 'failure'": r"\btroubles?\b",
    "by itself alone: write 'by itself', or 'without' and the noun": (
        r"\b(?:by|for|in|of) (?:it|them)sel(?:f|ves) alone\b"
    ),
}
"""Each form that we do not use: what to write instead, and its pattern."""

LEVELS: Final = {"debug", "info", "warning", "error", "exception", "critical"}
CODE: Final = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def found(text: str) -> list[str]:
    """The forms in a text, each with the words around it."""
    words = " ".join(text.split())
    return [
        f"{form}: …{words[max(0, hit.start() - 30) : hit.end() + 30]}…"
        for form, pattern in FORMS.items()
        for hit in re.finditer(pattern, words, re.IGNORECASE)
    ]


def documents() -> list[str]:
    pages = sorted(f"{path.relative_to(ROOT)}" for path in (ROOT / "docs").rglob("*.md"))
    return ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", *pages]


def folders() -> list[str]:
    """Every folder with modules, relative to holdfast/; `.` is holdfast/ itself."""
    return sorted({f"{path.parent.relative_to(PACKAGE)}" for path in PACKAGE.rglob("*.py")})


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """First lines of docstrings, and the messages of errors and log lines, with line numbers."""
    for node in ast.walk(tree):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                if text := ast.get_docstring(node):
                    yield getattr(node, "lineno", 1), text.partition("\n")[0]
            case ast.Raise(exc=ast.Call() as made):
                yield from messages(made)
            case ast.Call(func=ast.Attribute(attr=level)) if level in LEVELS:
                yield from messages(node)
            case _:
                pass


def messages(made: ast.Call) -> Iterator[tuple[int, str]]:
    for given in (*made.args, *(keyword.value for keyword in made.keywords)):
        match given:
            case ast.Constant(value=str(text)):
                yield given.lineno, text
            case ast.JoinedStr(values=parts):
                pieces = [part.value if isinstance(part, ast.Constant) else "…" for part in parts]
                yield given.lineno, "".join(map(str, pieces))
            case _:
                pass


@pytest.mark.parametrize("document", documents())
def test_a_document_uses_none_of_these_forms(document: str) -> None:
    paragraphs = CODE.sub("`code`", (ROOT / document).read_text("utf-8")).split("\n\n")
    assert [form for paragraph in paragraphs for form in found(paragraph)] == []


@pytest.mark.parametrize("folder", folders())
def test_a_folder_uses_none_of_these_forms_in_docstrings_and_messages(folder: str) -> None:
    assert [
        f"{path.relative_to(ROOT)}:{line}: {form}"
        for path in sorted((PACKAGE / folder).glob("*.py"))
        for line, text in texts(ast.parse(path.read_text("utf-8")))
        for form in found(text)
    ] == []


@pytest.mark.parametrize(
    "text",
    [
        "Whoever reads it.",
        "Nobody is asked.",
        "It is not known when somebody reads it.",
        "That is no cursor.",
        "They are believed whom they speak for.",
        "The page behind it.",
        "Files beneath the directory.",
        "The module beside this one.",
        "Who comes later reads the newest page.",
        "The server notices; whose connection is lost may reconnect.",
        "What a hook is called with.",
        "The list is complete. What is missing was deleted.",
        "Close connections. One that is in use stays open.",
        "The agent is told that it failed.",
        "The chat goes on.",
        "A reader that comes back resumes.",
        "The chat is gone.",
        "No other process heard of it.",
        "The number of troubles.",
        "The server starts by itself alone.",
    ],
)
def test_a_form_that_we_do_not_use_is_found(text: str) -> None:
    assert found(text)


@pytest.mark.parametrize(
    "text",
    [
        "There is no such chat.",
        "The chat is no longer shared.",
        "A step is no slower than before.",
        "The proxy in front of three replicas; they run behind a proxy.",
        "A slow reader costs nobody else anything.",
        "Who may read a chat?",
        "Identity: who a caller is.",
        "What is it for? See the next page.",
        "| what | the meaning |",
        "The model is told that the call is lost.",
        "Going by the log, it was one that works.",
        "The database is back.",
    ],
)
def test_ordinary_english_is_not_found(text: str) -> None:
    assert not found(text)
