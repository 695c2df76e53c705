"""``--definitions FILE``: definitions that a start imports before clients are served.

Users, permissions and policies of the file replace those that are there; queues and exchanges that exist stay
as they are. What this broker does not have is left out, and the log names it; with ``definitions_strict`` it
is an error.

Source: RabbitMQ, "Schema Definition Export and Import", "Definition Import at Node Boot Time".
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from admin_ui import json_text
from admin_ui.importing import Import
from admin_ui.replies import ApiError
from amqp_router.broker import Broker

#: Seconds between two looks whether everything is stored.
LOOK_S = 0.01


class DefinitionsError(Exception):
    """The file cannot be imported; the text is one line that names it, the rule and the way out."""


def read(path: Path) -> dict[str, Any]:
    """The content of a file of definitions.

    Raises:
        DefinitionsError: it cannot be read, or is no JSON object.
    """
    try:
        found = json_text.loads(path.read_bytes())
    except OSError as error:
        raise DefinitionsError(f"definitions: {path} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise DefinitionsError(f"definitions: {path} is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise DefinitionsError(f"definitions: {path} is not a JSON object")
    return found


async def load(broker: Broker, path: Path, *, strict: bool = False) -> None:
    """Import ``path``, and wait until it is stored.

    Raises:
        DefinitionsError: the file cannot be read or imported, or the definition store fails.
    """
    began = time.monotonic()
    try:
        importing = Import(broker, read(path), strict=strict)
        steps = importing.steps()
        broker.tick.now_us = broker.wall_us()
        broker.enter(_all, steps)
    except ApiError as error:
        reason = error.body["reason"] if error.body else ""
        raise DefinitionsError(f"definitions: {path} cannot be imported: {_text(reason)}") from None
    commits = broker.commits
    while commits.committed < importing.rev:
        if commits.failed is not None:
            raise DefinitionsError(f"definitions: {path} cannot be stored: {commits.failed}")
        await asyncio.sleep(LOOK_S)
    for left_out in importing.left_out:
        broker.event(logging.WARNING, "definition left out", file=path, **_plain(left_out))
    seconds = round(time.monotonic() - began, 3)
    broker.event(logging.INFO, "definitions imported", file=path, seconds=seconds)


def _all(steps: Iterator[None]) -> None:
    for _ in steps:
        pass  # whole at once: nobody is served yet


def _text(reason: object) -> str:
    text = " ".join(map(str, reason)) if isinstance(reason, list) else str(reason)
    return " ".join(text.split())  # reasons of parameters have several lines


def _plain(about: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in about.items()}
