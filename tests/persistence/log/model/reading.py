"""What is read from a log as it is: its messages, and the times of its batches."""

from __future__ import annotations

from collections.abc import Iterator

from amqp_router.protocol.message import Message
from persistence.log.format.record import HEADER_SIZE, BatchHeader, parse_header
from persistence.log.format.segment import Segment
from persistence.log.queue.queue_log import QueueLog


def drain(log: QueueLog) -> list[Message]:
    """All messages that are not settled, read a few at a time."""
    messages: list[Message] = []
    offset = 0
    while True:
        found, offset = log.read(offset, log.end, 3, 400)
        if not found:
            return messages
        messages += found


def headers(log: QueueLog, segment: Segment) -> Iterator[BatchHeader]:
    """The headers of the batches of a segment."""
    position = 0
    while position < segment.written:
        data = log.partition.read(segment, position, HEADER_SIZE)
        header = parse_header(data, 0, log.partition.salt)
        assert header is not None
        yield header
        position += header.length


def last_time(log: QueueLog) -> int:
    """The time of the last batch that is written; 0 if there is none."""
    written = [segment for segment in log.partition.segments if segment.written]
    times = [each.base_ts + each.max_ts_delta for segment in written[-1:] for each in headers(log, segment)]
    return times[-1] if times else 0


def check_times(log: QueueLog) -> None:
    """Times never fall within a segment: readers know it by its first and its last one."""
    for segment in log.partition.segments:
        last_us = 0
        for header in headers(log, segment):
            assert header.base_ts >= last_us, f"{segment.path}: times fall within the segment"
            last_us = header.base_ts + header.max_ts_delta
