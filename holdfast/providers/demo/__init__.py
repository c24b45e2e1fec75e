"""The demo model: a small program that answers plain requests. It is not a language model.

It needs no key and no network, always gives the same answer to the same request, and really calls
the tools: everything around a model can be tried by hand, and tested. `help` lists its requests.

    model.py         the `Model`: pace, window, attempts; an answer as deltas
    parser.py        a prompt → parts of answers, by a table of phrases
    request_progress.py  the history → what was asked last and how much is done; summaries, titles
    reply.py         parts → one answer, up to its tool calls
    example.py       a value that matches a JSON schema
    texts.py         what it says; longer texts are in help.md, long_answer.md and markdown.md
"""

from holdfast.providers.demo.model import Demo
from holdfast.providers.demo.texts import SPEECH

__all__ = ["SPEECH", "Demo"]
