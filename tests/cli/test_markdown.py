"""Markdown as it arrives: nothing is written twice, little is held back, and styles end."""

from __future__ import annotations

import re
import time
from copy import deepcopy
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.cli.inline_markdown import MAX_HELD, MAX_HELD_LINK
from holdfast.cli.markdown import RULE, Markdown
from holdfast.cli.output_stream import RESET, STYLE_CODES

CODE: Final = re.compile(r"\x1b\[([0-9;]+)m")
NAMES: Final = {str(code): name for name, code in STYLE_CODES.items()}


def rendered(text: str) -> str:
    markdown = Markdown()
    return markdown.feed(text) + markdown.end()


def named(text: str) -> str:
    """The styles of a text in words: `<bold>so<>`."""

    def name(match: re.Match[str]) -> str:
        codes = [] if match[1] == "0" else match[1].split(";")
        return f"<{' '.join(NAMES[code] for code in codes)}>"

    return CODE.sub(name, text)


def plain(text: str) -> str:
    return CODE.sub("", text)


# --- Within a line ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a **b** c", "a <bold>b<> c"),
        ("*b* and _i_", "<italic>b<> and <italic>i<>"),
        ("***b***", "<bold italic>b<>"),
        ("**a *b***", "<bold>a <><bold italic>b<>"),
        ("***a*", "***a*"),
        ("*a **b** c*", "<italic>a <><italic bold>b<><italic> c<>"),
        ("**a `**` b**", "<bold>a <><bold cyan>**<><bold> b<>"),
        ("(**b**)", "(<bold>b<>)"),
        ("**API**s", "<bold>API<>s"),
        ("这是**重点**内容", "这是<bold>重点<>内容"),
        ("`a`", "<cyan>a<>"),
        ("`` a`b ``", "<cyan>a`b<>"),
        ("`*a*` `\\*`", "<cyan>*a*<> <cyan>\\*<>"),
        ("\\*a\\* \\`b\\`", "*a* `b`"),
    ],
)
def test_marks_become_styles(text: str, shown: str) -> None:
    assert named(rendered(text)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "snake_case_name and __init__.py",
        "x**2 + 2*3*4",
        "a * b * c",
        "f(*args, **kwargs)",
        "**/*.py and *.txt",
        "matches .*foo.*",
        "https://a.b/_c_/d*e*f",
        "a lone * and a lone ` and **",
        "**not closed",
        "`not closed",
        "**not\nclosed**",
        "x ****",
        "C:\\Users\\name",
        "\\(x_1\\) and \\[y\\]",
        "[ ] to do, [x] done, see [1] and [a][b]",
        "[a](no link",
        "[a](b c d)",
        "<b class='x'>html</b>",
        "a\\",
    ],
)
def test_what_only_looks_like_a_mark_stays(text: str) -> None:
    assert rendered(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[a](http://b)", "<underline>a<><dim> (http://b)<>"),
        ('[a](http://b "title").', "<underline>a<><dim> (http://b)<>."),
        ("[a](<http://b c>)", "<underline>a<><dim> (http://b c)<>"),
        ("[a](http://b/c_(d))", "<underline>a<><dim> (http://b/c_(d))<>"),
        ("[http://b](http://b)", "<underline>http://b<>"),
        ("[http://b](http://b/)", "<underline>http://b<>"),
        ("[x@y.z](mailto:x@y.z)", "<underline>x@y.z<>"),
        ("[http://good](http://evil)", "<underline>http://good<><dim> (http://evil)<>"),
        ("[`a]`](b)", "<underline cyan>a]<><dim> (b)<>"),
        ("**[a](b)**", "<bold underline>a<><bold dim> (b)<>"),
        ("[](http://b)", "<dim>http://b<>"),
        ("[a]()", "<underline>a<>"),
    ],
)
def test_a_link_says_where_it_leads(text: str, shown: str) -> None:
    assert named(rendered(text)) == shown


# --- Line by line -------------------------------------------------------------------------------


def test_a_whole_answer() -> None:
    text = """\
# Title
## With `code`
Some text.

- one
  * two **bold**
+ three
10. ten
1) paren

> quoted *so*
>> twice
>
---
* * *
| a_b | **c** |
|-----|-------|
#hashtag
- ```py
  x = "*a*"  # no heading
  ```
"""
    assert (
        named(rendered(text))
        == f"""\
<bold underline>Title<>
<bold>With <><bold cyan>code<>
Some text.

• one
  • two <bold>bold<>
• three
10. ten
1) paren

<dim>│ <>quoted <italic>so<>
<dim>│ │ <>twice
<dim>│ <>
<dim>{RULE}<>
<dim>{RULE}<>
<dim>|<> a_b <dim>|<> **c** <dim>|<>
<dim>|<>-----<dim>|<>-------<dim>|<>
#hashtag
• <dim>```py<>
  <cyan>x = "*a*"  # no heading<>
  <dim>```<>
"""
    )


def test_nothing_in_a_block_of_code_is_interpreted() -> None:
    code = "# a\n- b\n**c**\n> d\n``` e\n~~~\n\n    ```\n| f\n\\*\n"
    shown = rendered(f"````md\n{code}````\n**g**")
    assert plain(shown) == f"````md\n{code}````\ng"
    assert "\x1b[36m**c**\x1b[0m\n" in shown


def test_a_block_of_code_ends_with_the_quotation_that_it_is_in() -> None:
    shown = named(rendered("> ```\n> *a*\nthen *b*"))
    assert shown == "<dim>│ ```<>\n<dim>│ <><cyan>*a*<>\nthen <italic>b<>"


def test_what_stays_open_is_over_at_the_end() -> None:
    markdown = Markdown()
    assert markdown.feed("```\n*a*\n") + markdown.end() == "\x1b[2m```\x1b[0m\n\x1b[36m*a*\x1b[0m\n"
    assert named(markdown.feed("*b*") + markdown.end()) == "<italic>b<>"


def test_others_may_write_in_the_middle_of_a_style() -> None:
    markdown = Markdown()
    assert markdown.feed("# One") == "\x1b[1;4mOne"
    assert markdown.pause() == RESET
    assert markdown.pause() == ""
    assert markdown.feed(" two\n") == "\x1b[1;4m two\x1b[0m\n"


def test_what_a_terminal_would_obey_is_spelled_everywhere() -> None:
    bad = "\x1bc\u202e"
    text = f"{bad} **{bad}** `{bad}` [{bad}](http://{bad})\n# {bad}\n```{bad}\n{bad}\n```\n|{bad}|"
    shown = plain(rendered(text))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert shown.count(r"\x1bc\u202e") == 9


# --- What is held back --------------------------------------------------------------------------


def test_it_comes_as_soon_as_it_is_certain() -> None:
    markdown = Markdown()
    pieces = ["a ", "*", "*b", "** c ", "`d", "` [e", "](f", ") -", "\n", "-", " g\n", "1", ". h"]
    assert [named(markdown.feed(piece)) for piece in pieces] == [
        "a ",
        "",
        "",
        "<bold>b<> c ",
        "",
        "<cyan>d<> ",
        "",
        "<underline>e<><dim> (f)<> -",
        "\n",
        "",
        "• g\n",
        "1",
        ". h",
    ]


ORDINARY: Final = st.text(st.sampled_from("aZ é世0,.!?;:()/'\"& \n")) | st.text(
    st.characters(categories=["L", "N", "Zs"], include_characters="\n")
)


@given(st.lists(ORDINARY))
def test_ordinary_text_comes_unchanged_and_at_once(pieces: list[str]) -> None:
    markdown = Markdown()
    for piece in pieces:
        assert markdown.feed(piece) == piece
    assert markdown.end() == ""


TRICKY: Final = st.lists(
    st.sampled_from(
        [
            *"*_`[]()#>-+~|\\!<= \t\n\r1.ab世",
            *("**", "***", "```", "~~~", "[a](b)", "\n> ", "\n- ", "\n```py\n", "\n```\n", "\n# "),
            *("\x1b[0m", "\u202e", "a" * (MAX_HELD - 3), "b" * MAX_HELD_LINK),
        ]
    ),
    max_size=40,
).map("".join)


@st.composite
def cut(draw: st.DrawFn) -> list[str]:
    text = draw(TRICKY)
    ends = draw(st.lists(st.integers(0, len(text)), max_size=20).map(sorted))
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]


@given(cut())
def test_pieces_make_no_difference(pieces: list[str]) -> None:
    markdown = Markdown()
    shown = "".join(map(markdown.feed, pieces)) + markdown.end()
    assert shown == rendered("".join(pieces))


@given(TRICKY)
@example("> ```\n> a\nb")
def test_single_characters_make_no_difference(text: str) -> None:
    markdown = Markdown()
    assert "".join(map(markdown.feed, text)) + markdown.end() == rendered(text)


@given(TRICKY)
def test_each_line_ends_its_styles(text: str) -> None:
    for line in rendered(text).split("\n"):
        codes = CODE.findall(line)
        assert codes[-1:] in ([], ["0"])
        assert all((code == "0") == bool(at % 2) for at, code in enumerate(codes))
        assert "\x1b" not in CODE.sub("", line)


@given(TRICKY)
def test_lines_stay_lines(text: str) -> None:
    assert rendered(text).count("\n") == text.count("\n")


@given(cut())
def test_never_more_than_a_little_is_held_back(pieces: list[str]) -> None:
    markdown = Markdown()
    for piece in pieces:
        markdown.feed(piece)
        assert len(plain(deepcopy(markdown).end())) <= MAX_HELD + MAX_HELD_LINK


@pytest.mark.parametrize(
    "text", ["*a " * 2_000, "[" * 6_000, "[a](" * 1_500, "**a *b " * 900, "- " * 3_000, "`" * 6_000]
)
def test_marks_that_never_end_cost_little(text: str) -> None:
    began = time.process_time()
    assert plain(rendered(text)).count("a") == text.count("a")
    assert time.process_time() - began < 5
