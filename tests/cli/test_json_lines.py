"""Events as lines of JSON."""

from __future__ import annotations

import io
import json

from holdfast.cli.json_lines import JsonView
from holdfast.cli.output_stream import OutputStream
from holdfast.kernel.model import TextDelta


def test_a_line_is_json_in_every_encoding() -> None:
    text = "“ä” 🙂 …\n"
    for encoding in ("utf-8", "latin-1", "ascii"):
        written = io.BytesIO()
        stream = io.TextIOWrapper(written, encoding=encoding)
        JsonView(OutputStream.of(stream, {})).show(TextDelta(text))
        assert json.loads(written.getvalue().decode(encoding))["text"] == text


def test_a_line_is_there_when_its_event_is() -> None:
    stream = io.StringIO()
    lines = JsonView(OutputStream(stream, terminal=False, color=False))
    lines.show(TextDelta("a"))
    assert stream.getvalue() == '{"type":"text_delta","text":"a"}\n'
