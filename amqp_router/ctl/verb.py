"""What a verb is made of."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from amqp_router.ctl.client import USAGE, Client, CtlError
from amqp_router.nearest import did_you_mean

Run = Callable[[Client, argparse.Namespace], int]


@dataclass(frozen=True)
class Argument:
    """An argument of a verb, in argparse's terms."""

    names: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)


def argument(*names: str, **options: Any) -> Argument:
    """Shorthand."""
    return Argument(names, options)


@dataclass(frozen=True)
class Verb:
    """One verb: its name, what it does, how it is used, and the function."""

    name: str
    help: str
    run: Run
    arguments: tuple[Argument, ...] = ()
    examples: tuple[str, ...] = ()
    #: Columns that may be chosen, for completion.
    columns: tuple[str, ...] = ()


VHOST = argument("-p", "--vhost", metavar="NAME", default="/", help="virtual host (default: /)")


def checked(given: Iterable[str], known: Iterable[str], what: str) -> list[str]:
    """The names, each of which must be known.

    Raises:
        CtlError: one is not; the text has the nearest name.
    """
    names, listed = list(given), list(known)
    for name in names:
        if name not in listed:
            hint = did_you_mean(name, listed) or f"there are {', '.join(listed)}"
            raise CtlError(f"unknown {what}: {name}; {hint}", USAGE)
    return names
