"""Completion of the command line for bash, zsh and fish.

The words come from argparse's own tables, so a new command or option is completed without a change here.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from amqp_router.ctl.verbs import VERBS

SHELLS = ("bash", "zsh", "fish")

_BASH = """\
# Completion of amqp-router for bash; made by `amqp-router ctl completion bash`.
_amqp_router() {{
    local word path="" words
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$path $word" in
{paths}
        esac
    done
    case "$path" in
{words}
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
    [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o filenames -F _amqp_router amqp-router"""

_ZSH = """\
#compdef amqp-router
# Completion of amqp-router for zsh; made by `amqp-router ctl completion zsh`.
_amqp_router() {{
    local word where=""
    local -a found
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        case "$where $word" in
{paths}
        esac
    done
    case "$where" in
{words}
    esac
    compadd -a found || _files
}}
if [ "$funcstack[1]" = "_amqp_router" ]; then _amqp_router "$@"; else compdef _amqp_router amqp-router; fi"""


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The completion of ``parser`` for one of `SHELLS`."""
    found = list(_commands(parser, ()))
    if shell == "fish":
        return "\n".join(_fish(found))
    paths = [
        f'            "{" ".join(["", *path[:-1]]).lstrip() and " " + " ".join(path[:-1])} {path[-1]}") '
        f'{"path" if shell == "bash" else "where"}=" {" ".join(path)}" ;;'
        for path, _ in found
        if path
    ]
    lines = []
    for path, words in found:
        key = f" {' '.join(path)}" if path else ""
        names = " ".join(words)
        lines.append(
            f'        "{key}") words="{names}" ;;'
            if shell == "bash"
            else f'        "{key}") found=({names}) ;;'
        )
    form = _BASH if shell == "bash" else _ZSH
    return form.format(paths="\n".join(paths), words="\n".join(lines))


def _commands(
    parser: argparse.ArgumentParser, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Each command as a path of words, with the words that may follow it."""
    words = [name for action in parser._actions for name in action.option_strings if name.startswith("--")]
    subs: dict[str, Any] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            subs |= action.choices
        elif action.choices is not None and not action.option_strings:
            words += map(str, action.choices)
    if path[:1] == ("ctl",) and len(path) == 2 and path[1] in VERBS:
        words += VERBS[path[1]].columns
    yield path, [*subs, *words]
    for name, sub in subs.items():
        yield from _commands(sub, (*path, name))


def _fish(found: list[tuple[tuple[str, ...], list[str]]]) -> Iterator[str]:
    yield "# Completion of amqp-router for fish; made by `amqp-router ctl completion fish`."
    yield "complete -c amqp-router -f"
    known = dict(found)
    for path, words in found:
        seen = "; and ".join([f"__fish_seen_subcommand_from {name}" for name in path]) or "true"
        nested = [word for word in words if (*path, word) in known]
        if nested:
            seen += f"; and not __fish_seen_subcommand_from {' '.join(nested)}"
        plain = [word for word in words if not word.startswith("--")]
        if plain:
            yield f"complete -c amqp-router -n '{seen}' -a '{' '.join(plain)}'"
        for word in words:
            if word.startswith("--"):
                yield f"complete -c amqp-router -n '{seen}' -l {word[2:]}"
