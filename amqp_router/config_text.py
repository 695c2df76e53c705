"""The options as text: the flags of the command line with their help, and ``docs/configuration.md``."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from amqp_router.config import KIB, MIB, SIZE_UNITS, Settings, flag


def options() -> Iterator[tuple[str, str, FieldInfo]]:
    """(section, name, field) of every option, in the order of `Settings`."""
    for name, info in Settings.model_fields.items():
        yield _extra(info, "section"), name, info


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add a flag for every option, grouped by section; only those given show up in the namespace."""
    groups: dict[str, Any] = {}
    for section, name, info in options():
        group = groups.get(section) or groups.setdefault(section, parser.add_argument_group(section))
        text = f"{info.description} (default: {default_text(info)}{unit_text(info)})"
        # No type and no choices for argparse: the model checks, as it does for file and environment.
        group.add_argument(
            flag(name),
            dest=name,
            metavar=_metavar(info),
            default=argparse.SUPPRESS,
            help=text.replace("%", "%%"),
        )


def _metavar(info: FieldInfo) -> str:
    """The placeholder of the value in the help: the choices, or else the type."""
    if get_origin(info.annotation) is Literal:
        return "|".join(get_args(info.annotation))
    return "true|false" if info.annotation is bool else type_name(info).upper()


def type_name(info: FieldInfo) -> str:
    """The option's type in a word."""
    if get_origin(info.annotation) is Literal:
        return " or ".join(get_args(info.annotation))
    if (unit := _extra(info, "unit")) in SIZE_UNITS:
        return unit
    names = {
        int: "integer",
        float: "number",
        bool: "true or false",
        str: "text",
        int | None: "integer or none",
    }
    return names.get(info.annotation, "path")  # type: ignore[arg-type]  # an annotation is any object, a dict key too


def default_text(info: FieldInfo) -> str:
    """The default as one would write it."""
    value = info.default
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if _extra(info, "unit") == "bytes":
        return next(
            (f"{value // n} {u}" for n, u in ((MIB, "MiB"), (KIB, "KiB")) if value and value % n == 0),
            str(value),
        )
    return f"{value:g}" if isinstance(value, float) else str(value)


def unit_text(info: FieldInfo) -> str:
    """The unit with a space before it; empty for sizes, whose default has its own."""
    unit = _extra(info, "unit")
    return f" {unit}" if unit and unit not in SIZE_UNITS else ""


def _extra(info: FieldInfo, key: str) -> str:
    extra = info.json_schema_extra
    assert isinstance(extra, dict)
    return str(extra[key])


_INTRODUCTION = """\
# Configuration

<!-- Made by `amqp-router options --markdown` from amqp_router/config.py; do not edit. -->

An option is set in a TOML file (`amqp-router serve --config FILE`, or the path in
`AMQP_ROUTER_CONFIG`), in the environment, or by a flag of `amqp-router serve`. A flag wins over the
environment, the environment over the file. For `amqp_port`:

| where | how |
| --- | --- |
| TOML file | `amqp_port = 5673` |
| environment | `AMQP_ROUTER_AMQP_PORT=5673` |
| flag | `--amqp-port 5673` |

Sizes in bytes may be written with a unit: `64MiB` (in TOML as text: `"64MiB"`). An unknown option, or a
value that does not fit, ends the start with one line that names it and exit code 2."""


def sample_toml() -> str:
    """A TOML file with every option at its default, commented out."""
    lines = [
        "# Options of amqp-router, with their defaults. Made by `amqp-router options --toml`.",
        "# amqp-router serve --config FILE",
    ]
    last = ""
    for section, name, info in options():
        if section != last:
            lines += ["", f"# -- {section} --"]
            last = section
        lines += textwrap.wrap(
            f"{info.description} ({type_name(info)})", 108, initial_indent="# ", subsequent_indent="# "
        )
        lines.append(f"#{name} = {_toml(info)}")
    return "\n".join(lines) + "\n"


def _toml(info: FieldInfo) -> str:
    """The default as TOML has it; an empty text if there is none."""
    value = info.default
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        shown = default_text(info)
        return f'"{shown.replace(" ", "")}"' if " " in shown else repr(value)
    return json.dumps("" if value is None else str(value))


def markdown() -> str:
    """The text of ``docs/configuration.md``."""
    lines = [_INTRODUCTION]
    last = ""
    for section, name, info in options():
        if section != last:
            lines += [
                "",
                f"## {section}",
                "",
                "| option | type | default | meaning |",
                "| --- | --- | --- | --- |",
            ]
            last = section
        default = default_text(info) + unit_text(info)
        lines.append(f"| `{name}` | {type_name(info)} | {default} | {info.description} |")
    return "\n".join(lines) + "\n"
