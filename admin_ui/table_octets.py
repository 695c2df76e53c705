"""A JSON object as the octets of an AMQP table, made in steps, and no more of them than a frame has room for.

A table of 128 KiB may have 65,000 values. To make them all takes longer than anybody should wait, so others
have their turn between them. One that is too large is refused when it is seen to be, whatever follows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from admin_ui.endpoints import Call
from admin_ui.replies import bad_request
from admin_ui.writing import argument, arguments_object, octets
from amqp_router.protocol.errors import FieldError
from amqp_router.protocol.fields import encode_table
from amqp_router.protocol.kept_table import Arguments, read_arguments
from amqp_router.protocol.nested import DECODED_DEPTH

#: Octets of a frame around its payload.
ENVELOPE = 8
#: Values between two steps.
STEP = 256
#: Octets of an encoded table around its one value, whose name is empty.
_BEFORE_VALUE = 5


def table_octets(found: dict[str, Any], octets_max: int) -> Generator[None, None, bytes]:
    """The encoded table, its u32 size first; integers are signed 64-bit ones, other numbers doubles.

    Raises:
        ApiError: it has a value that such tables cannot have, or more than ``octets_max`` octets (400).
        FieldError: it is nested too deep.
    """
    made = _Octets(octets_max)
    yield from made.put_table(found, 0)
    return bytes(made.out)


async def made_table(call: Call, found: dict[str, Any], octets_max: int) -> bytes:
    """As ``table_octets``, while others have their turn between the steps."""
    steps = table_octets(found, octets_max)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: bytes = end.value
            return made
        await call.turns.next()


def frame_payload_max(call: Call) -> int:
    """Octets of the largest frame's payload."""
    return call.state.broker.options.frame_max - ENVELOPE


async def arguments_of(call: Call, content: dict[str, Any]) -> Arguments:
    """The arguments of a declaration as ``admin_ui.writing.arguments`` gives them, made in turns.

    Large ones stay encoded, as those of a client do: a declaration encodes what is decoded several times.

    Raises:
        ApiError: they are not an object, have a value that AMQP tables cannot have, or do not fit into a
            frame, so that no client could declare the same (400).
    """
    found = arguments_object(content)
    try:
        octets = await made_table(call, found, frame_payload_max(call))
    except FieldError as error:
        raise bad_request(f"arguments: {error}") from None
    await call.turns.next()
    return read_arguments(octets, 0)[0]


class _Octets:
    def __init__(self, octets_max: int) -> None:
        self.out = bytearray()
        self._octets_max = octets_max
        self._values = 0

    def put_table(self, found: dict[str, Any], depth: int) -> Generator[None]:
        yield from self._put_all(found.items(), depth, is_table=True)

    def _put_all(self, items: Iterable[tuple[str, Any]], depth: int, *, is_table: bool) -> Generator[None]:
        if depth > DECODED_DEPTH:
            raise FieldError(f"tables nested more than {DECODED_DEPTH} deep")
        out = self.out
        out += bytes(4)
        start = len(out)
        for name, value in items:
            if is_table:
                data = octets("the name of an argument", name)
                out.append(len(data))
                out += data
            if isinstance(value, dict):
                out += b"F"
                yield from self.put_table(value, depth + 1)
            elif isinstance(value, list):
                out += b"A"
                yield from self._put_all((("", each) for each in value), depth + 1, is_table=False)
            else:
                out += encode_table({"": argument(value)})[_BEFORE_VALUE:]
            if len(out) > self._octets_max:
                raise bad_request(f"a table of more than the {self._octets_max} octets that fit into a frame")
            self._values += 1
            if self._values % STEP == 0:
                yield
        out[start - 4 : start] = (len(out) - start).to_bytes(4, "big")
