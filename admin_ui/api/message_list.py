"""The JSON of messages that were taken, made in slices and as fast as the client reads it.

A character may become six octets of JSON, and to make 16 MiB of them takes a quarter of a second. The
headers of a hundred messages that have 128 KiB of small ones each take longer.
"""

from __future__ import annotations

from typing import Any

from admin_ui.documents.properties import properties_document
from admin_ui.query import Columns, pick
from admin_ui.replies import Body, dump_in_turns, dumps
from admin_ui.turns import Turns

#: Characters of payload, and messages, that become JSON in one turn of the event loop.
TEXT_SLICE = 64 << 10
SLICE = 100
#: Characters of payload that take no longer than an octet of properties.
PER_OCTET = 8


async def add_messages(
    body: Body, documents: list[dict[str, Any]], columns: Columns | None, turns: Turns
) -> None:
    """Append a list of ``documents``, which is empty afterwards. Their properties are octets. A long payload
    stands last in its object.
    """
    documents.reverse()
    before = b"["
    while documents:
        some: list[Any] = []
        size, payload = 0, ""
        while documents and size < TEXT_SLICE and len(some) < SLICE and not payload:
            document = documents.pop()
            octets = document["properties"]
            if columns is None or "properties" in columns:
                size += PER_OCTET * len(octets)
                document["properties"] = properties_document(octets)
            some.append(document if columns is None else pick(document, columns))
            text = some[-1].get("payload", "") if some[-1] else ""  # a list if it has none of the columns
            size += len(text)
            if len(text) > TEXT_SLICE:
                payload = text
                some[-1] = {name: value for name, value in some[-1].items() if name != "payload"}
        made = before + (await dump_in_turns(some, turns))[1:-1]
        before = b","
        if not payload:
            await body.add_in_turns(made, turns)
        else:
            made = made[:-1] + (b',"payload":"' if some[-1] else b'"payload":"')
            await body.add_in_turns(made, turns)
            for start in range(0, len(payload), TEXT_SLICE):
                body.add(dumps(payload[start : start + TEXT_SLICE])[1:-1])
                await body.pass_on(turns)
            body.add(b'"}')
        await body.pass_on(turns)
    body.add(b"]" if before == b"," else b"[]")
