"""How far a stream has read each log: the JSON that Spark keeps in a checkpoint, and the share of a batch.

    {"version": 1, "table": "messages", "offsets": {"<node>/<log id>": {"<partition>": next offset}}}

All keys are sorted, because Spark compares offsets as text. ``offsets`` is what the option
``startingOffsets`` takes. Further keys, where they are needed:

- ``holes``, as ``offsets``: below this offset of a queue's log, records were gone before the stream began.
- ``initial``: true if these are offsets at which a new stream begins.
- ``began``: in the end of a stream's first batch, ``offsets`` and ``holes`` of its beginning. Spark does not
  keep the beginning. If it repeats the first batch after a crash, it asks for a new one, which may be later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .errors import CheckpointError

VERSION = 1


class LogKey(NamedTuple):
    """A partition of a log: ``log`` is ``<node>/<log id>``."""

    log: str
    partition: int

    @property
    def node(self) -> str:
        return self.log.rpartition("/")[0]

    @property
    def id(self) -> str:
        return self.log.rpartition("/")[2]


Positions = dict[LogKey, int]


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """The next offset of each log (``offsets``); the other fields are those of the JSON."""

    table: str
    offsets: Positions
    holes: Positions = field(default_factory=dict)
    is_initial: bool = False
    began: tuple[Positions, Positions] | None = None

    def to_json(self) -> dict[str, Any]:
        """A document whose text is the same for the same offsets."""
        document: dict[str, Any] = {}
        if self.began is not None:
            document["began"] = _document(*self.began)
        document |= _document(self.offsets, self.holes)
        if self.is_initial:
            document["initial"] = True
        document["table"] = self.table
        document["version"] = VERSION
        return document


def parse_offsets(document: Any, table: str) -> StreamOffsets:
    """The offsets in a checkpoint.

    Raises:
        CheckpointError: they are of another version, table or source.
    """
    if not isinstance(document, dict) or "version" not in document:
        raise CheckpointError("its offsets are not those of a stream of amqp_router")
    version = document["version"]
    if version != VERSION:
        raise CheckpointError(f"its offsets have version {version!r}, this release knows version {VERSION}")
    if document.get("table") != table:
        raise CheckpointError(f"it is of table {document.get('table')!r}, and this stream reads {table!r}")
    try:
        began = document.get("began")
        return StreamOffsets(
            table,
            _positions(document["offsets"]),
            _positions(document.get("holes", {})),
            document.get("initial") is True,
            None if began is None else (_positions(began["offsets"]), _positions(began.get("holes", {}))),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise CheckpointError(f"its offsets are damaged: {document!r}") from None


def check_nodes(keys: Iterable[LogKey], nodes: Collection[str]) -> None:
    """Check that every log belongs to a data directory that is read.

    Raises:
        CheckpointError: one does not.
    """
    for key in keys:
        if key.node not in nodes:
            known = ", ".join(sorted(nodes))
            raise CheckpointError(
                f"it has log {key.id} of node {key.node}, which is not among the data directories read "
                f"(their nodes: {known})"
            )


def ranges(start: StreamOffsets, end: StreamOffsets) -> dict[LogKey, tuple[int, int]]:
    """The offsets ``[low, high)`` of the batch between two offsets, for each log that has any.

    A log that the start does not name is new and begins at 0. One that the end does not name was deleted.

    Raises:
        CheckpointError: the batch would end before it begins.
    """
    offsets = start.offsets
    if start.is_initial and end.began is not None:
        offsets = end.began[0]
    found = {}
    for key, high in end.offsets.items():
        low = offsets.get(key, 0)
        if low > high:
            raise CheckpointError(f"a batch of log {key.log}/{key.partition} ends at {high}, before {low}")
        if low < high:
            found[key] = low, high
    return found


def holes_of(start: StreamOffsets, end: StreamOffsets) -> Positions:
    """The ``holes`` that apply to the batch between two offsets."""
    return end.began[1] if start.is_initial and end.began is not None else start.holes


def shares(sizes: Mapping[LogKey, int], limit: int | None) -> Positions:
    """How much of each log (all have some) goes into a batch of at most ``limit`` offsets.

    It is in proportion to what the log has. If the limit suffices, every log gets one offset at least, so
    that a short log does not wait behind long ones.
    """
    total = sum(sizes.values())
    if limit is None or total <= limit:
        return dict(sizes)
    least = 1 if limit >= len(sizes) else 0
    rest, room = total - least * len(sizes), limit - least * len(sizes)
    given = {key: least + (size - least) * room // rest for key, size in sizes.items()}
    left = limit - sum(given.values())
    for key in sorted(sizes, key=lambda key: (given[key] - sizes[key], key))[:left]:
        given[key] += 1
    return given


def _document(offsets: Positions, holes: Positions) -> dict[str, Any]:
    document = {"holes": _nested(holes)} if holes else {}
    document["offsets"] = _nested(offsets)
    return document


def _nested(positions: Positions) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for key in sorted(positions, key=lambda key: (key.log, str(key.partition))):
        nested.setdefault(key.log, {})[str(key.partition)] = positions[key]
    return nested


def _positions(nested: Any) -> Positions:
    found = {}
    for log, partitions in nested.items():
        for partition, offset in partitions.items():
            if type(offset) is not int or offset < 0 or "/" not in log:
                raise ValueError(log)
            found[LogKey(log, int(partition))] = offset
    return found
