"""Implements `holdfast completion`: scripts that complete command lines in a shell.

The scripts are generated from the parsers and contain the names of known models, so completing
starts no Python process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.parsers.argument_parser import Parser, Verb
from holdfast.providers import profile_lookup
from holdfast.providers.model_factory import DEMO_NAME
from holdfast.providers.provider_catalog import PROVIDERS

if TYPE_CHECKING:
    from argparse import Action


def main(shell: str, top: Parser, verbs: Mapping[str, Verb]) -> int:
    print(script(shell, top, verbs), end="")
    return ExitCode.FINISHED


def script(shell: str, top: Parser, verbs: Mapping[str, Verb]) -> str:
    commands = [described("", top)]
    commands += [described(name, verb.parser(), verb.summary) for name, verb in verbs.items()]
    lines = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)
    return "".join(f"{line}\n" for line in lines)


# --- What there is to complete ------------------------------------------------------------------

ValueKind = Literal["none", "text", "file", "directory", "model", "provider", "choice"]

_KINDS: Final[dict[str, ValueKind]] = {
    "FILE": "file",
    "DIR": "directory",
    "MODEL": "model",
    "PROVIDER": "provider",
}
"""Kind of a value, by its metavar."""


class OptionSpec(NamedTuple):
    """An option, or a positional argument, which has no names."""

    names: tuple[str, ...]
    help: str
    kind: ValueKind
    """Kind of its value: `none` if it takes none, `text` if it cannot be completed."""
    choices: tuple[str, ...]
    repeats: bool


class CommandSpec(NamedTuple):
    """The program (without a name), or one of its verbs."""

    name: str
    options: tuple[OptionSpec, ...]
    words: tuple[OptionSpec, ...]
    summary: str


def described(name: str, parser: Parser, summary: str = "") -> CommandSpec:
    found = [_described(action) for action in parser._actions]
    return CommandSpec(
        name,
        tuple(option for option in found if option.names),
        tuple(option for option in found if not option.names),
        summary,
    )


def _described(action: Action) -> OptionSpec:
    choices = tuple(action.choices or ())
    kind: ValueKind = "text"
    if action.nargs == 0:
        kind = "none"
    elif choices:
        kind = "choice"
    elif isinstance(action.metavar, str):
        kind = _KINDS.get(action.metavar, "text")
    if kind in ("model", "provider"):
        choices = model_names() if kind == "model" else (DEMO_NAME, *PROVIDERS)
    repeats = type(action).__name__ == "_AppendAction"
    help = (action.help or "").partition(";")[0]
    return OptionSpec(tuple(action.option_strings), help, kind, choices, repeats)


def model_names() -> tuple[str, ...]:
    known = (f"{name}:{id}" for name in PROVIDERS for id in profile_lookup.models(name))
    return (DEMO_NAME, *known)


def _header(shell: str) -> str:
    return f"# Completion of holdfast for {shell}, made by: holdfast completion {shell}"


# --- bash ---------------------------------------------------------------------------------------

# bash splits words at : and =, which occur in model names and --option=value: words are joined
# again, and the part that readline keeps on the line is cut off the answers.
_BASH: Final = r"""
_holdfast_words() {
    local word
    for word in "${@:2}"; do
        if [[ $word == "$1"* ]]; then COMPREPLY+=("$word"); fi
    done
}

_holdfast_paths() {
    local path
    compopt -o filenames 2>/dev/null
    while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen "$1" -- "$2")
}

_holdfast_value() {
    case "$1" in
@VALUES@
    *) return 1 ;;
    esac
}

_holdfast() {
    COMPREPLY=()
    local -a words=("${COMP_WORDS[0]}")
    local i word last
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]} last=$((${#words[@]} - 1))
        if [[ $i -gt 1 && $word && ($word == [:=]* || ${COMP_WORDS[i - 1]} == *[:=]) ]]; then
            words[last]+=$word
        else
            words+=("$word")
        fi
    done
    last=$((${#words[@]} - 1))
    local current=${words[last]} before= verb=
    if ((last > 0)); then before=${words[last - 1]}; fi
    if ((last > 1)); then verb=${words[1]}; fi
    if [[ " ${words[*]:0:last} " == *" -- "* ]]; then return; fi

    if [[ $current == --*=* ]]; then
        before=${current%%=*} current=${current#*=}
        _holdfast_value "$verb $before" "$current"
        if [[ $COMP_WORDBREAKS != *=* ]]; then COMPREPLY=("${COMPREPLY[@]/#/$before=}"); fi
    elif [[ $before == -* ]] && _holdfast_value "$verb $before" "$current"; then
        :
    elif [[ $current == -* ]]; then
        case "$verb" in
@OPTIONS@
        esac
    else
        _holdfast_value "$verb " "$current"
    fi
    if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${current%"${current##*:}"}"}")
    fi
}

complete -F _holdfast holdfast"""


def _bash(commands: Sequence[CommandSpec]) -> Iterator[str]:
    values: list[str] = []
    options: list[str] = []
    for name, known, words, _ in commands:
        for option in known:
            if option.kind != "none":
                patterns = "|".join(quote(f"{name} {one}") for one in option.names)
                values.append(f"    {patterns}) {_bash_value(option)} ;;")
        for word in words:
            values.append(f"    {quote(f'{name} ')}) {_bash_value(word)} ;;")
        if not name:
            verbs = " ".join(command.name for command in commands if command.name)
            values.append(f"""    ' ') _holdfast_words "$2" {verbs} ;;""")
        names = " ".join(one for option in known for one in option.names)
        options.append(f'        {quote(name)}) _holdfast_words "$current" {names} ;;')
    yield _header("bash")
    yield _BASH.replace("@VALUES@", "\n".join(values)).replace("@OPTIONS@", "\n".join(options))


def _bash_value(option: OptionSpec) -> str:
    match option.kind:
        case "file":
            return '_holdfast_paths -f "$2"'
        case "directory":
            return '_holdfast_paths -d "$2"'
        case "choice" | "model" | "provider":
            return f'_holdfast_words "$2" {" ".join(map(quote, option.choices))}'
        case "text" | "none":
            return ":"


# --- zsh ----------------------------------------------------------------------------------------


def _zsh(commands: Sequence[CommandSpec]) -> Iterator[str]:
    yield "#compdef holdfast"
    yield _header("zsh")
    top, *verbs = commands
    yield "_holdfast() {"
    yield "    local curcontext=$curcontext state line"
    yield "    typeset -A opt_args"
    yield f"    _arguments -C {' '.join(_zsh_specs(top))} '1:verb:->verb' '*::word:->words'"
    yield "    case $state in"
    yield "    verb)"
    yield f"        local -a verbs=({' '.join(quote(_zsh_verb(verb)) for verb in verbs)})"
    yield "        _describe verb verbs ;;"
    yield "    words)"
    yield "        case $line[1] in"
    for verb in verbs:
        yield f"        {verb.name}) _arguments -s {' '.join(_zsh_specs(verb))} ;;"
    yield "        esac ;;"
    yield "    esac"
    yield "}"
    yield ""
    for kind, function in _ZSH_LISTS.items():
        names = next(o.choices for c in commands for o in (*c.options, *c.words) if o.kind == kind)
        yield f"{function}() {{"
        yield f"    compadd -- {' '.join(map(quote, names))}"
        yield "}"
        yield ""
    yield 'if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _holdfast "$@"; else'
    yield "    compdef _holdfast holdfast"
    yield "fi"


_ZSH_LISTS: Final = {"model": "_holdfast_models", "provider": "_holdfast_providers"}


def _zsh_verb(verb: CommandSpec) -> str:
    return f"{verb.name}:{verb.summary}"


def _zsh_specs(command: CommandSpec) -> Iterator[str]:
    for option in command.options:
        shut_out = "*" if option.repeats else f"({' '.join(option.names)})"
        for name in option.names:
            value = _zsh_value(option)
            ends = "" if not value else "=" if name.startswith("--") else "+"
            yield quote(f"{shut_out}{name}{ends}[{_zsh_text(option.help)}]{value}")
    for word in command.words:
        yield quote(f"{'*' if word.kind == 'text' else ''}{_zsh_value(word)}")


def _zsh_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("]", "\\]").replace("[", "\\[").replace(":", "\\:")


def _zsh_value(option: OptionSpec) -> str:
    match option.kind:
        case "file":
            return ":file:_files"
        case "directory":
            return ":directory:_files -/"
        case "choice":
            return f":one of:({' '.join(option.choices)})"
        case "model" | "provider":
            return f":{option.kind}:{_ZSH_LISTS[option.kind]}"
        case "text":
            return ":text:()"
        case "none":
            return ""


# --- fish ---------------------------------------------------------------------------------------


_FISH: Final = """
function __holdfast_after
    set -l words (commandline -opc)
    test "$words[2]" = "$argv[1]"
end

complete -c holdfast -f"""


def _fish(commands: Sequence[CommandSpec]) -> Iterator[str]:
    yield _header("fish")
    yield _FISH
    for command in commands:
        here = f"complete -c holdfast -n '__holdfast_after \"{command.name}\"'"
        if command.name:
            about = _fish_quote(command.summary)
            yield f"complete -c holdfast -n '__holdfast_after \"\"' -a {command.name} -d {about}"
        for option in command.options:
            yield f"{here} {_fish_option(option)}"
        for word in command.words:
            if word.choices:
                yield f"{here} -a {_fish_quote(' '.join(word.choices))}"


def _fish_option(option: OptionSpec) -> str:
    names = " ".join(
        f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
    )
    return f"{names}{_fish_value(option)} -d {_fish_quote(option.help)}"


def _fish_value(option: OptionSpec) -> str:
    match option.kind:
        case "file":
            return " -r -F"
        case "directory":
            return " -x -a '(__fish_complete_directories)'"
        case "choice" | "model" | "provider":
            return f" -x -a {_fish_quote(' '.join(option.choices))}"
        case "text":
            return " -x"
        case "none":
            return ""


def _fish_quote(text: str) -> str:
    """Quote for fish: within single quotes only these two characters are special."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
