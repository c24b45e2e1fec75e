"""Title of a conversation: the request to the model, and the title in its answer. Pure."""

from __future__ import annotations

import re
from typing import Final

from holdfast.kernel.messages import Message, Text
from holdfast.kernel.model import Block, Effort, Request, Settings

TITLE_INSTRUCTIONS: Final = """\
You name conversations. You are given how one begins and what was last answered in it. Reply with \
a title for it and nothing else: at most six words, on one line, in the language of the \
conversation, without quotes, Markdown or a full stop. Do not answer the conversation."""
BEGINS: Final = "The conversation begins:\n\n"
ANSWERED: Final = "\n\nThe last answer:\n\n"
MAX_EXCERPT: Final = 2_000
"""Maximum characters of the prompt, and of the answer, that are sent to the model."""
MAX_TITLE_TOKENS: Final = 200
"""Maximum output: enough for a title and a model's minimal reasoning."""
MAX_TITLE_TOKENS_THINKING: Final = 1_000
"""Maximum output of a model without an effort, which may reason first."""
MAX_TITLE: Final = 80
"""Maximum characters of a title."""

_QUOTES: Final = "\"'“”„«»\u2018\u2019"
_LEADING: Final = " *-–—:;,#>"
_TRAILING: Final = " *-–—:;,."
_LABEL: Final = re.compile(r"^title\s*:", re.IGNORECASE)


def title_request(prompt: str, answer: str, effort: Effort | None = "none") -> Request:
    """The request for a title. With `effort=None` no effort is sent."""
    about = f"{BEGINS}{prompt[:MAX_EXCERPT]}{ANSWERED}{answer[:MAX_EXCERPT]}"
    return Request(
        system=(Block(TITLE_INSTRUCTIONS),),
        messages=(Message("user", (Text(about),), "prompt"),),
        settings=Settings(
            max_output_tokens=MAX_TITLE_TOKENS_THINKING if effort is None else MAX_TITLE_TOKENS
        ),
        effort=effort,
    )


def is_title_request(request: Request) -> bool:
    """Whether a request asks for a title."""
    return any(block.text == TITLE_INSTRUCTIONS for block in request.system)


def prompt_of(request: Request) -> str:
    """The prompt in a request for a title."""
    text = request.messages[-1].text if request.messages else ""
    return text.removeprefix(BEGINS).partition(ANSWERED)[0]


def cleaned(text: str) -> str | None:
    """The title in a model's answer, as one short line; None if there is none."""
    lines = (_line(line) for line in text.splitlines())
    line = next((line for line in lines if any(map(str.isalnum, line))), "")
    if len(line) > MAX_TITLE:
        line = line[:MAX_TITLE].rpartition(" ")[0].rstrip(_TRAILING) or line[: MAX_TITLE - 1]
        line += "…"
    return line[:MAX_TITLE] or None


def _line(text: str) -> str:
    shown = "".join(character if character.isprintable() else " " for character in text)
    bare = " ".join(shown.replace("**", "").replace("`", "").split())
    return _bare(_LABEL.sub("", _bare(bare)))


def _bare(text: str) -> str:
    """The text without marks, a full stop and quotes around it."""
    text = text.lstrip(_LEADING).rstrip(_TRAILING)
    if len(text) > 1 and text[0] in _QUOTES and text[-1] in _QUOTES:
        return _bare(text[1:-1])
    return text
