"""Definitions: exported and imported, of the node or of one virtual host."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from admin_ui import body, sessions
from admin_ui.documents import definitions
from admin_ui.endpoints import Call, administered
from admin_ui.importing import Import
from admin_ui.json_text import NESTED_MAX
from admin_ui.large_json import read_object
from admin_ui.replies import Body, Done, bad_request, dumps
from admin_ui.turns import TURN_S, Turns
from admin_ui.writing import change, entered_vhost, flag, is_blank, stored

#: Octets of a file of definitions.
FILE_BYTES_MAX = 50 << 20
#: Levels around an object in a file: the file and the section.
AROUND = 2
#: Objects of a file that are freed between two readings of the clock.
FREED = 64
#: Characters that the name of a downloaded file may not have.
UNSAFE = re.compile(r"[^\w.-]", re.ASCII)


async def export(call: Call) -> Body:
    """All definitions."""
    return await _exported(call, definitions.document(call.state))


async def export_vhost(call: Call) -> Body:
    """The definitions of one virtual host."""
    return await _exported(call, definitions.of_vhost(call.vhost(), call.state.broker.parameters))


async def _exported(call: Call, sections: definitions.Sections) -> Body:
    file = call.request.query.get("download")
    if file:
        call.headers["Content-Disposition"] = f"attachment; filename={UNSAFE.sub('_', file)}"
    reply = call.new_body()
    before = b"{"
    for name, content in sections.items():
        reply.add(before + dumps(name) + b":")
        before = b","
        if isinstance(content, str):
            reply.add(dumps(content))
        else:
            await reply.add_rows(content, call.turns)
    reply.add(b"}")
    return reply


async def load(call: Call) -> Any:
    """Import definitions: a JSON file as body, or as the field ``file`` of a form.

    204 if everything was taken; else 200 with what was left out and why, or 400 with ``strict=true``.
    """
    return await _load(call, None)


async def load_vhost(call: Call) -> Any:
    """Import the definitions of one virtual host."""
    return await _load(call, entered_vhost(call).name)


async def _load(call: Call, vhost: str | None) -> Any:
    strict = flag(call, "strict")
    content = await read_file(call)
    changed = partial(sessions.follow, call.request)
    try:
        importing = Import(call.state.broker, content, vhost=vhost, strict=strict, changed=changed)
        steps = importing.steps()
        try:
            while await change(call, partial(_some, steps), wait=False):
                await call.turns.next()
        finally:
            await stored(call, importing.rev)
    finally:
        await let_go(content, call.turns)
    if importing.left_out:
        return {"left_out": importing.left_out}
    return Done(204)


def _some(steps: Iterator[None]) -> tuple[bool, int]:
    """Import what there is time for in this turn; False if nothing is left."""
    end = time.monotonic() + TURN_S
    while time.monotonic() < end:
        if next(steps, steps) is steps:
            return False, 0
    return True, 0


async def read_file(call: Call) -> dict[str, Any]:
    """The file of definitions in the body.

    Raises:
        ApiError: it is no JSON object (400), too large, or does not come in time (408).
    """
    async with call.state.large_bodies:
        if call.request.content_type.startswith("multipart/"):
            pieces = await body.read_field(call.request, "file", FILE_BYTES_MAX)
        else:
            pieces = await body.read_pieces(call.request, FILE_BYTES_MAX)
    found: dict[str, Any] = {}
    if await is_blank(call, pieces):
        return found
    await call.turns.next()
    try:
        for _ in read_object(pieces, found, nested_max=NESTED_MAX + AROUND):
            await call.turns.next()
    except (ValueError, RecursionError):
        await let_go(found, call.turns)
        raise bad_request("failed_to_parse_json") from None
    return found


async def let_go(file: dict[str, Any], turns: Turns) -> None:
    """Empty the sections of a file that is done with, in turns: 50,000 objects freed at once take 20 ms."""
    for section in file.values():
        if isinstance(section, list):
            while section:
                del section[-FREED:]
                await turns.next()


ENDPOINTS = [
    administered("/definitions", export, post=load),
    administered("/all-configuration", export, post=load),
    administered("/definitions/{vhost}", export_vhost, post=load_vhost),
]
