"""Changes as JSON text, for the change log.

A record holds the changes of one transaction: a list of ``[rev, changes]``. A change is ``[kind, fields]``
for a put, ``[kind, null, key]`` for a deletion and ``[kind, null, null, fields]`` for the deletion of all
bindings between two ends, or of a virtual host with all that belongs to it. Bytes are written as
``{"b": base64}``. The text is ASCII. Other characters are escaped and decoded unchanged, also those that
stand for bytes of a name that is not UTF-8.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence

from persistence.definitions.records import (
    ROW_TYPES,
    Change,
    Delete,
    DeleteBindings,
    DeleteVhost,
    Put,
    values_of,
)


def encode_changes(changes: Sequence[Change]) -> str:
    """The changes of one rev as text."""
    return _ENCODER.encode([_encoded(change) for change in changes])


def join_record(encoded: Iterable[tuple[int, str]]) -> str:
    """One record of revs and their encoded changes."""
    return "[" + ",".join(f"[{rev},{text}]" for rev, text in encoded) + "]"


def decode_record(text: str) -> list[tuple[int, tuple[Change, ...]]]:
    """The revs of a record with their changes.

    Raises:
        ValueError: ``text`` is not a record.
    """
    try:
        return [
            (rev, tuple(_decoded(*change) for change in changes)) for rev, changes in _DECODER.decode(text)
        ]
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a record of changes: {error!r}") from error


def _encoded(change: Change) -> tuple[object, ...]:
    if isinstance(change, Put):
        return change.kind, values_of(change.row)
    if isinstance(change, DeleteBindings):
        fields = (change.vhost, change.source, change.destination, change.destination_type)
        return change.kind, None, None, fields
    if isinstance(change, DeleteVhost):
        return change.kind, None, None, (change.vhost,)
    return change.kind, None, change.key


def _decoded(
    kind: str, fields: list[object] | None, key: list[str] | None = None, ends: list[str] | None = None
) -> Change:
    if fields is not None:
        # Only the field ``tags`` is a list; all other fields are scalars.
        return Put(ROW_TYPES[kind](*(tuple(each) if isinstance(each, list) else each for each in fields)))
    if ends is not None:
        return DeleteVhost(*ends) if kind == DeleteVhost.kind else DeleteBindings(*ends)
    if key is None:
        raise TypeError("neither a row nor a key")
    return Delete(kind, tuple(key))


def _encode_bytes(value: object) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"b": b64encode(value).decode("ascii")}
    raise TypeError(f"{type(value).__name__} is no field of a row")


def _decode_bytes(value: dict[str, str]) -> bytes:
    return b64decode(value["b"])


_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_encode_bytes)
_DECODER = json.JSONDecoder(object_hook=_decode_bytes)
