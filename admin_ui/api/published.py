"""The message in the body of a request that publishes: its properties and its payload, made in slices."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any

from admin_ui.endpoints import Call
from admin_ui.large_json import Pieces
from admin_ui.replies import bad_request
from admin_ui.table_octets import frame_payload_max, made_table
from admin_ui.writing import shown_value, text
from amqp_router.protocol.errors import FieldError
from amqp_router.protocol.message import Message, build_message
from amqp_router.protocol.properties import PROPERTIES, encode_properties

#: Octets of a content header's payload before its property flags.
BEFORE_PROPERTIES = 12
#: Octets of a payload that an error shows.
SHOWN_MAX = 1000


async def properties_of(call: Call, found: Any) -> dict[str, Any]:
    """The properties as AMQP has them, the headers as octets. Names that AMQP does not have are ignored.

    Raises:
        ApiError: a value has another type, or the headers do not fit into a frame (400).
    """
    if found == []:  # what some clients make of an empty object
        return {}
    if not isinstance(found, dict):
        raise bad_request("properties is not an object")
    return {
        name: await _headers(call, name, found[name]) if kind == "t" else _property(name, kind, found[name])
        for name, (_, kind) in PROPERTIES.items()
        if name in found
    }


async def _headers(call: Call, name: str, value: Any) -> bytes:
    if value == []:  # what some clients make of an empty table
        value = {}
    if not isinstance(value, dict):
        raise bad_request(f"{name} is not an object")
    try:
        return await made_table(call, value, octets_max(call))
    except FieldError as error:
        raise bad_request(f"properties: {error}") from None


def _property(name: str, kind: str, value: Any) -> Any:
    if kind == "s":
        if not isinstance(value, str):
            raise bad_request(["not_string", name])
        return text({name: value}, name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_request(["not_int", name])
    return value


def octets_max(call: Call) -> int:
    """Octets of properties that fit into one frame, which a content header must."""
    return frame_payload_max(call) - BEFORE_PROPERTIES


async def payload_of(call: Call, content: dict[str, Any]) -> bytes:
    """The octets of the payload.

    Raises:
        ApiError: it is not in its encoding, or there is no such encoding (400).
    """
    payload, encoding = content["payload"], content["payload_encoding"]
    if not isinstance(payload, (str, Pieces)):
        raise bad_request("payload_not_string")
    pieces: list[bytes] = payload if isinstance(payload, Pieces) else [payload.encode()]
    if encoding == "base64":
        await _decode(call, pieces)
    elif encoding != "string":
        raise bad_request(["unsupported_encoding", shown_value(encoding)])
    return b"".join(pieces)


async def _decode(call: Call, pieces: list[bytes]) -> None:
    """Replace ``pieces`` of base64 by their octets."""
    first = pieces[0][:SHOWN_MAX].decode(errors="ignore")
    rest = b""
    try:
        for index, piece in enumerate(pieces):
            is_last = index == len(pieces) - 1
            plain = rest + b"".join(piece.split())
            end = len(plain) if is_last else len(plain) // 4 * 4
            rest = plain[end:]
            if not is_last and b"=" in plain[:end] and await _follows(call, rest, pieces[index + 1 :]):
                raise ValueError("something follows the end")
            pieces[index] = base64.b64decode(plain[:end], validate=True)
            await call.turns.next()
    except (binascii.Error, ValueError):
        raise bad_request(["not_base64", first]) from None


async def _follows(call: Call, rest: bytes, pieces: Iterable[bytes]) -> bool:
    """Whether anything but white space comes after a piece."""
    if rest:
        return True
    for piece in pieces:
        if not piece.isspace():
            return True
        await call.turns.next()
    return False


def message_of(call: Call, properties: dict[str, Any], body: bytes) -> Message:
    """The message, not yet published.

    Raises:
        ApiError: its properties are none, or do not fit into a frame (400).
    """
    try:
        octets = encode_properties(properties)
        if len(octets) > octets_max(call):
            raise FieldError(f"{len(octets)} octets, {octets_max(call)} fit into a frame")
        return build_message(b"", octets, memoryview(body))  # copied once
    except (FieldError, RecursionError) as error:
        raise bad_request(f"properties: {error}") from None
