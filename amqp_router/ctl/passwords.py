"""Passwords that are not on the command line, where every user of the machine could read them."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path

from amqp_router.ctl.client import USAGE, CtlError


def from_file(path: Path, option: str = "--password-file") -> str:
    """The first line of the file that ``option`` names; ``-`` is standard input.

    Raises:
        CtlError: it cannot be read, or is empty.
    """
    try:
        text = sys.stdin.readline() if str(path) == "-" else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CtlError(f"{option}: {path} cannot be read ({error})", USAGE) from None
    password = text.partition("\n")[0].rstrip("\r")
    if not password:
        raise CtlError(f"{option}: {path} is empty", USAGE)
    return password


def asked(prompt: str) -> str:
    """Ask on the terminal; without one, the first line of standard input.

    Raises:
        CtlError: there is none.
    """
    is_terminal = sys.stdin.isatty()
    password = getpass.getpass(f"{prompt}: ") if is_terminal else sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise CtlError("the password is empty", USAGE)
    return password
