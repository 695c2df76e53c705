"""Batches of another node, as they go into a log: checked, and cut to what is still missing."""

from __future__ import annotations

from zlib import crc32

from ...errors import PersistenceError
from ..format.messages import live_batch
from ..format.record import (
    CONTROL,
    EPOCH_START,
    HEADER_SIZE,
    MESSAGES,
    SETTLES,
    Batch,
    BatchHeader,
    check_settles,
    parse_control,
    parse_header,
)
from ..format.sections import unknown_attributes
from ..format.settles import SettleState


class NotCopied(PersistenceError):
    """A batch of another node does not go into this log; nothing was changed."""


def check_batch(data: bytes, salt: int) -> BatchHeader:
    """The header of a whole batch whose checksums are right and of which everything is known.

    Raises:
        NotCopied: it is not one.
    """
    header = parse_header(data, 0, salt)
    if header is None or header.length != len(data):
        raise NotCopied("not one whole batch of this log")
    payload = memoryview(data)[HEADER_SIZE:]
    if crc32(payload) != header.payload_crc:
        raise NotCopied(f"the batch at offset {header.base}: checksum of the payload is wrong")
    unknown = unknown_attributes(header.attributes, is_messages=header.kind == MESSAGES)
    if unknown:
        raise NotCopied(f"the batch at offset {header.base}: attributes {unknown:#x} are not known")
    try:
        if header.kind == SETTLES:
            check_settles(bytes(payload), header.record_size, header.records)
        elif header.kind == CONTROL:
            parse_control(bytes(payload))
        elif header.kind != MESSAGES:
            raise ValueError(f"batch kind {header.kind} is not known in the log of a queue")
    except ValueError as error:
        raise NotCopied(f"the batch at offset {header.base}: {error}") from None
    return header


def starts_epoch(header: BatchHeader, data: bytes) -> bool:
    """Whether the batch is the EPOCH-START of its epoch."""
    if header.kind != CONTROL:
        return False
    control = parse_control(data[HEADER_SIZE:])
    return control.type == EPOCH_START and control.epoch == header.epoch


def clip(header: BatchHeader, data: bytes, first: int, end: int) -> Batch | None:
    """The messages of the batch at offsets in ``[first, end)``, as a batch of that range; None without any.

    Cleaning extends the ranges of the batches that it keeps, so one may reach over what is wanted.
    """
    if header.kind != MESSAGES:
        return None
    outside = SettleState()
    outside.settled_below = first
    outside.settle_range(end, header.last + 1)
    batch = live_batch(header, data[HEADER_SIZE:], outside, first)
    batch.last = min(header.last, end - 1)
    return batch if batch.count else None
