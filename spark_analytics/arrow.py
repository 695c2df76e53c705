"""Splits to record batches, and the same tables without Spark: ``read_arrow``."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from . import layout
from .decode import decode_routing
from .decode_messages import decode_messages
from .errors import DataLoss
from .names import Names, read_names
from .options import ReadOptions, Selection, check_batch, parse_options
from .outcomes import Outcomes, read_outcomes
from .planning import LogRef, Split, gap_text, loss_text, plan, segment_path
from .schema import LATER_COLUMNS, arrow_schema
from .segments import Gap, LeftOut, Piece, Window, read_windows
from .snapshot import end_offsets_of, take_snapshot

logger = logging.getLogger(__name__)

#: Batches are not joined beyond this size. With bodies, a few rows can be large.
_JOINED_BYTES_MAX = 8 << 20


def read_arrow(path: str | os.PathLike[str] | None = None, **options: Any) -> Any:
    """A table of a data directory as a ``pyarrow.Table``; options as for Spark (docs/analytics.md).

    Raises:
        OptionError, NotADataDirectory, FormatVersionError, CorruptLog, DataLoss: see there.
    """
    return read_batches(path, **options).read_all()


def read_batches(path: str | os.PathLike[str] | None = None, **options: Any) -> Any:
    """As ``read_arrow``, but a ``pyarrow.RecordBatchReader``: one batch in memory at a time."""
    asked = parse_options({"path": None if path is None else os.fspath(path), **options})
    check_batch(asked)
    splits = plan(take_snapshot(asked), asked, asked.selection, cores=1)
    schema = arrow_schema(asked.columns)
    batches = (batch for split in splits for batch in read_split(split, asked, asked.selection, schema))
    return pa.RecordBatchReader.from_batches(schema, batches)


def end_offsets(path: str | os.PathLike[str], table: str = "routing") -> str:
    """How far each log is durable now, as JSON for the option ``endingOffsets`` (or ``startingOffsets``).

    Reads with the same ``endingOffsets`` give the same rows, whatever the broker writes meanwhile.
    """
    options = parse_options({"path": os.fspath(path), "table": table})
    return json.dumps(end_offsets_of(take_snapshot(options)), sort_keys=True)


#: Tells whether rows of a log may be missing since it was planned, without loss.
MayLack = Callable[[LogRef], bool]


def read_split(
    split: Split,
    options: ReadOptions,
    selection: Selection,
    schema: Any,
    may_lack: MayLack = lambda _: False,
) -> Iterator[Any]:
    """Record batches of a split's pieces with the columns of ``schema``; small ones are joined.

    Rows that are gone are no error if ``may_lack`` says so of their log.

    Raises:
        CorruptLog, FormatVersionError, DataLoss: see there.
    """
    small: list[Any] = []
    rows = size = 0
    for batch in _read(split, options, selection, schema, may_lack):
        if not small and batch.num_rows * 4 >= options.batch_rows:
            yield batch
            continue
        if small and (rows + batch.num_rows > options.batch_rows or size > _JOINED_BYTES_MAX):
            yield from _joined(small)
            small, rows, size = [], 0, 0
        small.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if small:
        yield from _joined(small)


def _joined(batches: list[Any]) -> list[Any]:
    return list(pa.Table.from_batches(batches).combine_chunks().to_batches())


def _read(
    split: Split, options: ReadOptions, selection: Selection, schema: Any, may_lack: MayLack
) -> Iterator[Any]:
    known = _Known()
    for piece in split.pieces:
        log = split.logs[piece.log]
        try:
            yield from _read_piece(log, piece, known, options, selection, schema)
        except DataLoss:
            if not may_lack(log):
                raise
            logger.warning("%s was deleted; offsets %d to %d were not read", log, piece.low, piece.high - 1)


class _Known:
    """What the piece before has read and the next one may need again."""

    def __init__(self) -> None:
        #: (directory, base of the segment, names).
        self.names: tuple[str, int, Names] | None = None
        #: (directory, outcomes).
        self.outcomes: tuple[str, Outcomes] | None = None


def _read_piece(
    log: LogRef, planned: Piece, known: _Known, options: ReadOptions, selection: Selection, schema: Any
) -> Iterator[Any]:
    path = segment_path(log.directory, planned.base)
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        _lost(log, planned, options)
        return
    try:
        piece = _as_is(file, log, planned, options)
        if options.table == "messages":
            outcomes = None
            if LATER_COLUMNS.intersection(schema.names):
                if known.outcomes is None or known.outcomes[0] != log.directory:
                    fails = options.fail_on_data_loss
                    known.outcomes = log.directory, read_outcomes(log, piece, fail_on_data_loss=fails)
                outcomes = known.outcomes[1]
            yield from _messages(file, path, log, piece, outcomes, options, selection, schema)
            return
        if known.names is None or known.names[:2] != (log.directory, piece.base):
            found = _names(log, piece, options)
            if found is None:
                return
            known.names = (log.directory, piece.base, found)
        yield from _events(file, path, log, piece, known.names[2], options, selection, schema)
    finally:
        os.close(file)


def _lost(log: LogRef, piece: Piece, options: ReadOptions) -> None:
    """Rows of the piece are gone.

    Raises:
        DataLoss: ``failOnDataLoss`` makes this an error; otherwise a warning tells of it.
    """
    if options.fail_on_data_loss:
        raise DataLoss(loss_text(log, piece.low, piece.high))
    logger.warning(
        "offsets %d to %d of %s are gone or were cleaned; what is left is read",
        piece.low,
        piece.high - 1,
        log,
    )


def _as_is(file: int, log: LogRef, piece: Piece, options: ReadOptions) -> Piece:
    """The piece, adapted to its segment if that was rewritten since.

    Raises:
        DataLoss: it was rewritten, so rows are missing, and ``failOnDataLoss`` makes this an error.
    """
    status = os.fstat(file)
    if status.st_ino == piece.inode:
        return piece
    _lost(log, piece, options)
    return piece._replace(start=0, end=status.st_size, first=piece.base, next=-1, inode=status.st_ino)


def _names(log: LogRef, piece: Piece, options: ReadOptions) -> Names | None:
    """The names of the piece's segment; None if retention removed the segment meanwhile."""
    path = segment_path(log.directory, piece.base)
    try:
        return read_names(log.directory, piece.base, log.salt)
    except Exception:
        if os.path.exists(path):
            raise
    _lost(log, piece, options)
    return None


def _teller(path: str, log: LogRef, options: ReadOptions) -> LeftOut | None:
    """The function that logs damage that is left out; None if damage is an error."""
    return None if options.fail_on_data_loss else partial(_left_out, path, log)


def _left_out(path: str, log: LogRef, position: int, low: int, high: int, text: str) -> None:
    logger.warning(
        "%s at byte %d: %s; %d offsets of %s, %d to %d, are left out",
        path,
        position,
        text,
        high - low,
        log,
        low,
        high - 1,
    )


def _payloads(piece: Piece, options: ReadOptions) -> bool:
    return options.verify == "all" or (options.verify == "tail" and piece.is_last)


def _events(
    file: int,
    path: str,
    log: LogRef,
    piece: Piece,
    names: Names,
    options: ReadOptions,
    selection: Selection,
    schema: Any,
) -> Iterator[Any]:
    for window in _windows(file, path, log, piece, layout.KIND_ROUTING, options):
        yield from decode_routing(
            window, log, piece, names, schema.names, selection, options.batch_rows, schema
        )


def _messages(
    file: int,
    path: str,
    log: LogRef,
    piece: Piece,
    outcomes: Outcomes | None,
    options: ReadOptions,
    selection: Selection,
    schema: Any,
) -> Iterator[Any]:
    for window in _windows(file, path, log, piece, layout.KIND_MESSAGES, options):
        yield from decode_messages(
            window, log, piece, outcomes, schema.names, selection, options.batch_rows, schema
        )


def _windows(
    file: int, path: str, log: LogRef, piece: Piece, kind: int, options: ReadOptions
) -> Iterator[Window]:
    """The piece's batches of this kind, as much of the file at a time as fits a window.

    Raises:
        DataLoss: batches that the piece needs are gone, and the options do not allow that.
    """
    told = _teller(path, log, options)
    payloads = _payloads(piece, options)
    try:
        yield from read_windows(file, path, piece, kind, log.salt, payloads=payloads, left_out=told)
    except Gap as gap:
        if options.fail_on_data_loss:
            raise DataLoss(gap_text(log, gap.low, gap.high)) from None
        logger.warning("offsets %d to %d of %s are missing", gap.low, gap.high - 1, log)
