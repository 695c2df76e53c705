"""The text format of Prometheus, version 0.0.4.

Source: Prometheus, "Exposition formats".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Kind: TypeAlias = Literal["counter", "gauge", "untyped"]
Value: TypeAlias = int | float


@dataclass(frozen=True)
class Metric:
    """One metric of a sort of object; ``read`` gives its value for an object."""

    name: str
    kind: Kind
    help: str
    read: Callable[[Any], Value]


def head(name: str, kind: Kind, text: str) -> str:
    """The two lines before the samples of a metric."""
    return f"# HELP {name} {_escaped_help(text)}\n# TYPE {name} {kind}\n"


def sample(name: str, labels: str, value: Value) -> str:
    """One line; ``labels`` is what ``labels_text`` made, or empty."""
    return f"{name}{labels} {number(value)}\n"


def number(value: Value) -> str:
    """A value as Prometheus writes it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return repr(value)


def labels_text(**labels: str) -> str:
    """``{vhost="/",queue="orders"}``."""
    return "{" + ",".join([f'{name}="{escaped(value)}"' for name, value in labels.items()]) + "}"


def escaped(value: str) -> str:
    """A label's value. Octets that are not UTF-8, which names may have, are shown as ``\\xNN``."""
    if not value.isprintable() or '"' in value or "\\" in value:
        value = value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value


def _escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
