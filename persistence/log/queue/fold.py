"""The fold of a log: computes the state after a batch from the state before it and the batch.

It uses neither files nor time. A start takes the state of a checkpoint, or of an empty log, and folds in all
batches above it. The log then continues from that state (FORMAT.md, "The fold").
"""

from __future__ import annotations

from amqp_router.protocol.flags import RETURN

from ..format.checkpoint import LogState
from ..format.lately import pull_back
from ..format.messages import message_offsets
from ..format.producers import note_sequence
from ..format.record import (
    CHECKPOINT,
    CONTROL,
    EPOCH_START,
    HOLE,
    MESSAGE_SIZE,
    MESSAGES,
    PURGE,
    SETTLES,
    BatchHeader,
    check_kind,
    iterate_settles,
    parse_control,
)
from ..format.sections import parse_sections, unknown_attributes
from ..format.settles import SettleState
from ..format.sources import note_source


def fold(state: LogState, header: BatchHeader, payload: bytes) -> None:
    """Apply the next batch to ``state``, whose ``recovery_offset`` moves to the batch's end.

    For a MESSAGES batch, ``payload`` has only the fixed records and the optional sections.

    Raises:
        ValueError: the payload does not fit its header.
    """
    if header.attributes:
        unknown = unknown_attributes(header.attributes, is_messages=header.kind == MESSAGES)
        if unknown:
            raise ValueError(f"batch attributes {unknown:#x} are not known")
    settles = state.settles
    first = state.recovery_offset
    end = state.recovery_offset = header.last + 1
    if header.base_ts < state.last_us:
        pull_back(state.sources, header.base_ts)
        pull_back(state.producers, header.base_ts)
    state.last_us = header.base_ts + header.max_ts_delta
    if header.kind == MESSAGES:
        if header.record_size < MESSAGE_SIZE:
            raise ValueError("a message record is too short")
        _fold_messages(settles, header.base, end, header.record_size, header.records, payload, first)
        if header.attributes:
            _fold_extras(state, header, payload)
        return
    settles.note_gap(first, end)
    if header.kind == SETTLES:
        for run in iterate_settles(payload, header.record_size, header.records):
            check_kind(run)
            run_end = min(run.first + run.count, end)
            if run.kind != RETURN:
                settles.settle_range(run.first, run_end)
                continue
            at = settles.next_unsettled(run.first, run_end)
            while at < run_end:
                settles.set_returned(at, run.returns)
                at = settles.next_unsettled(at + 1, run_end)
            if run.first < run_end:
                state.returned.note(run.first, run_end - run.first, run.returns, settles)
    elif header.kind == CONTROL:
        control = parse_control(payload)
        if control.type == EPOCH_START:
            state.epoch = control.epoch
            state.epochs.append((control.epoch, header.base))
        elif control.type == PURGE:
            settles.purge(control.up_to, control.kept)
        elif control.type not in (CHECKPOINT, HOLE):
            raise ValueError(f"control type {control.type} is not known")
    else:
        raise ValueError(f"batch kind {header.kind} is not known in the log of a queue")


def _fold_extras(state: LogState, header: BatchHeader, payload: bytes) -> None:
    sections = payload[header.records * header.record_size :]
    time_us = header.base_ts + header.max_ts_delta
    extras = parse_sections(header.attributes, sections, header.records)
    for number in sorted(extras):
        each = extras[number]
        if each.source:
            note_source(state.sources, each, time_us)
        if each.session:
            note_sequence(state.producers, each.session, each.channel, each.sequence, time_us)


def _fold_messages(
    settles: SettleState, base: int, end: int, record_size: int, records: int, payload: bytes, first: int
) -> None:
    settles.live += records
    if records == end - first:
        return
    for offset in message_offsets(payload, record_size, base, records):
        if offset > first:
            settles.note_gap(first, offset)
        first = offset + 1
    if first < end:
        settles.note_gap(first, end)
