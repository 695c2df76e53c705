"""What the tests of the store share: a loop, and arbitrary rows and changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

from hypothesis import strategies as st

from persistence.definitions import (
    BindingRow,
    Change,
    DefinitionStore,
    Delete,
    DeleteBindings,
    DeleteVhost,
    ExchangeRow,
    ParameterRow,
    PermissionRow,
    Put,
    QueueRow,
    Row,
    TopicPermissionRow,
    UserRow,
    VhostRow,
)


class Loop:
    """Runs on the test's thread what other threads post."""

    def __init__(self) -> None:
        self.posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.post = self.posted.put

    def run_until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            self.posted.get(timeout=30)()

    def run_posted(self) -> None:
        while not self.posted.empty():
            self.posted.get()()


def started(path: Path, loop: Loop, **options: int) -> DefinitionStore:
    store = DefinitionStore(path, loop.post, **options)
    store.start()
    return store


def wait(store: DefinitionStore, loop: Loop, rev: int) -> None:
    loop.run_until(lambda: store.committed >= rev)


def queue(name: str, incarnation: str = "i", vhost: str = "/") -> QueueRow:
    return QueueRow(vhost, name, False, b"\x00\x00\x00\x00", incarnation)


#: Few names, so that changes meet; among them one that is no UTF-8, an empty one and one with a NUL.
NAMES = st.sampled_from(["a", "b", "ü", "\udcff\udc80", "", "a\x00b", "'", "€\U0001f407"])
ARGUMENTS = st.sampled_from([b"\x00\x00\x00\x00", b"\x00\x00\x00\x05\x01xt\x01\x00", b"\xff\x00"])

ROWS: st.SearchStrategy[Row] = st.one_of(
    st.builds(VhostRow, NAMES, NAMES, st.lists(NAMES, max_size=2).map(tuple), NAMES, st.booleans()),
    st.builds(
        UserRow,
        NAMES,
        NAMES,
        NAMES,
        st.lists(NAMES, max_size=2).map(tuple),
        st.integers(-1, 1 << 62),
        st.integers(-1, 5),
    ),
    st.builds(PermissionRow, NAMES, NAMES, NAMES, NAMES, NAMES),
    st.builds(TopicPermissionRow, NAMES, NAMES, NAMES, NAMES, NAMES),
    st.builds(ParameterRow, NAMES, NAMES, NAMES, NAMES),
    st.builds(ExchangeRow, NAMES, NAMES, NAMES, st.booleans(), st.booleans(), ARGUMENTS),
    st.builds(QueueRow, NAMES, NAMES, st.booleans(), ARGUMENTS, NAMES),
    st.builds(BindingRow, NAMES, NAMES, NAMES, st.sampled_from(["queue", "exchange"]), NAMES, ARGUMENTS),
)
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(Put, ROWS),
    st.builds(Delete.of, ROWS),
    st.builds(
        DeleteBindings,
        NAMES,
        st.none() | NAMES,
        st.none() | NAMES,
        st.sampled_from(["queue", "exchange"]),
    ),
    st.builds(DeleteVhost, NAMES),
)


def applied(rows: dict[object, Row], change: Change) -> None:
    """What a store does, with a dictionary."""
    if isinstance(change, Put):
        rows[change.kind, change.key] = change.row
    elif isinstance(change, DeleteVhost):
        for key in [key for key, row in rows.items() if vhost_of(row) == change.vhost]:
            del rows[key]
    elif isinstance(change, DeleteBindings):
        for key in [key for key, row in rows.items() if is_covered(row, change)]:
            del rows[key]
    else:
        rows.pop((change.kind, change.key), None)


def vhost_of(row: Row) -> str | None:
    """The virtual host that ``row`` belongs to."""
    return row.name if isinstance(row, VhostRow) else getattr(row, "vhost", None)


def is_covered(row: Row, change: DeleteBindings) -> bool:
    """Whether ``change`` removes ``row``."""
    return (
        isinstance(row, BindingRow)
        and row.vhost == change.vhost
        and change.source in (None, row.source)
        and (
            change.destination is None
            or (change.destination, change.destination_type) == (row.destination, row.destination_type)
        )
    )
