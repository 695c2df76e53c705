"""The definition store: changes get a rev at once, and a thread stores them soon after.

``submit`` returns before anything is on disk. A thread stores everything submitted meanwhile in one
transaction, and then reports the rev up to which everything is stored. So a hundred declares that arrive
together share one sync, and one that arrives alone waits for one sync.

Revs count up by one and are stored in their order; ``committed`` never passes a rev that is not stored. If a
transaction fails with a passing error (no space, the file is locked, the disk fails), it is tried again, and
no further change is accepted meanwhile. In the end it is stored, so memory and file agree. After any other
failure (the file is damaged, another process has written to it) nothing is stored any more, because later
changes may depend on the lost ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TypeAlias

from persistence.definitions import statements
from persistence.definitions.codec import encode_changes
from persistence.definitions.database import Database, Submission
from persistence.definitions.errors import DefinitionsError, StoreFailed, StoreStopped
from persistence.definitions.records import Change, Row, Snapshot
from persistence.memory import MemoryBudget

#: Runs a callable soon on the event loop's thread. It can be called from any thread.
Post: TypeAlias = Callable[[Callable[[], None]], object]

#: Submissions in one transaction. With more, the first ones would wait longer.
BATCH_MAX = 1024

#: Memory of a row that is not stored yet: bytes beside its octets, and copies of its octets (text for the
#: change log, and values for the table).
ROW_BYTES = 400
ROW_COPIES = 2
#: Seconds before the first attempt after a passing error, and the longest wait before a further one.
RETRY_FIRST_S = 0.25
RETRY_LAST_S = 5.0


@dataclass(frozen=True, slots=True)
class Accepted:
    """The changes have got ``rev``; they are stored once ``on_committed`` reaches it."""

    rev: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """Other changes came first: the last rev is now ``rev``, and nothing was changed."""

    rev: int


class DefinitionStore:
    """Definitions on disk, in a SQLite file at ``path``.

    All methods are called on one thread, the event loop's. ``on_committed`` and ``on_failed`` are called
    there too, through ``post``, never from within a method other than ``flush_and_stop``.

    Args:
        path: The file; made, with its directory, if it does not exist.
        post: Hands a callable to the event loop.
        revs_kept: How many of the latest revs ``since`` can give.
        account: Counts, as ``held``, the changes that are not stored yet.
    """

    def __init__(
        self, path: Path, post: Post, *, revs_kept: int = 10_000, account: MemoryBudget | None = None
    ) -> None:
        self.path = path
        #: The last rev given to changes.
        self.rev = 0
        #: Everything up to this rev is stored.
        self.committed = 0
        #: Why nothing is stored, for now or for good; or None.
        self.failed: DefinitionsError | None = None
        #: Called with the new value whenever ``committed`` has risen.
        self.on_committed: Callable[[int], None] = _ignore
        #: Called with the changes that are taken, at once.
        self.on_submitted: Callable[[Sequence[Change]], None] = _ignore
        #: Called when storing has failed. The callee must tell those who wait for a rev above ``committed``.
        self.on_failed: Callable[[DefinitionsError], None] = _ignore
        #: Called when an error has passed, after ``on_committed``.
        self.on_recovered: Callable[[], None] = _nothing
        self._stopping = Event()
        self._post = post
        self._account = account or MemoryBudget()
        #: Revs that are not stored yet, with their sizes.
        self._waiting: deque[tuple[int, int]] = deque()
        self._database = Database(path, revs_kept=revs_kept)
        self._submissions: SimpleQueue[Submission | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._error: DefinitionsError | None = None  # set by the thread before it ends

    def start(self) -> None:
        """Open the file, bring it to this release's schema, and begin to store.

        Raises:
            SchemaTooNew, NotADefinitionStore: the file is not ours, or too new; it is left as it is.
            StoreFailed: the file cannot be read or written.
            OSError: the file or its directory cannot be made.
        """
        self._database.open()
        self.rev = self.committed = self._database.rev
        self._thread = Thread(target=self._store, name="definitions", daemon=True)
        self._thread.start()

    def snapshot(self) -> Snapshot:
        """All stored rows, as of a rev not below ``committed``. Reads the file: meant for the start."""
        return self._database.snapshot()

    def since(self, rev: int) -> list[tuple[int, tuple[Change, ...]]]:
        """The stored changes after ``rev``, oldest first. Reads the file.

        Raises:
            RevTrimmed: some are no longer kept; take a snapshot.
        """
        return self._database.since(rev)

    def was_put(self, row: Row) -> bool:
        """Whether the changes that are still kept have stored just this ``row``. Reads the file."""
        return self._database.was_put(row)

    def submit(self, changes: Sequence[Change]) -> int:
        """Add ``changes`` (all or none) after those submitted before; returns their rev.

        They are stored once ``on_committed`` reaches that rev. Without changes the result is 0, a rev that is
        always reached.

        Raises:
            StoreFailed: storing has failed before.
            StoreStopped: the store is not running.
            ValueError: a name cannot be stored.
        """
        if self.failed is not None:
            raise self.failed.with_traceback(None)  # each raise would add a frame to it
        if self._thread is None:
            raise StoreStopped(self.path)
        if not changes:
            return 0
        # Invalid changes must raise here, in the caller, and not in the thread.
        prepared = [statements.prepare(change) for change in changes]
        submission = Submission(self.rev + 1, encode_changes(changes), prepared)
        self.rev = submission.rev
        size = len(submission.encoded) * ROW_COPIES + ROW_BYTES * len(prepared)
        self._account.held += size
        self._waiting.append((submission.rev, size))
        self._submissions.put(submission)
        self.on_submitted(changes)
        return submission.rev

    def commit(self, changes: Sequence[Change], expected_rev: int) -> Accepted | Conflict:
        """As ``submit``, but only if ``expected_rev`` is the last rev.

        Raises:
            StoreFailed, StoreStopped, ValueError: as ``submit``.
        """
        if expected_rev != self.rev:
            return Conflict(self.rev)
        self.submit(changes)
        return Accepted(self.rev)

    def flush_and_stop(self) -> None:
        """Store all that was submitted, tell ``on_committed``, and close the file. Blocks until done."""
        if self._thread is None:
            return
        self._stopping.set()
        self._submissions.put(None)
        self._thread.join()
        self._thread = None
        # The loop may not have run the thread's last post yet.
        self._committed(self._database.rev)
        if self._error is not None:
            self._fail(self._error)
        self._database.close()

    def _store(self) -> None:
        """The thread: write what is submitted until told to stop, or until writing fails."""
        try:
            while batch := self._next_batch():
                self._write(batch)
                self._post(partial(self._committed, batch[-1].rev))
        except Exception as error:  # not a DefinitionsError but a bug of ours, which is final too
            if isinstance(error, DefinitionsError):
                self._error = error
            else:
                self._error = StoreFailed(self.path, repr(error))
                self._error.__cause__ = error
            self._post(partial(self._fail, self._error))

    def _write(self, batch: list[Submission]) -> None:
        """Write ``batch``. After a passing error try again until it is written or the store is stopped."""
        delay = RETRY_FIRST_S
        is_told = False
        while True:
            try:
                self._database.write(batch)
            except StoreFailed as error:
                if not error.passing or self._stopping.is_set():
                    raise
                if not is_told:
                    is_told = True
                    self._post(partial(self._fail, error))
                self._stopping.wait(delay)
                delay = min(delay * 2, RETRY_LAST_S)
            else:
                if is_told:
                    self._post(partial(self._recovered, batch[-1].rev))
                return

    def _next_batch(self) -> list[Submission]:
        """Wait for a submission and take those behind it; an empty batch means stop."""
        batch: list[Submission] = []
        submission = self._submissions.get()
        while submission is not None:
            batch.append(submission)
            if len(batch) == BATCH_MAX:
                return batch
            try:
                submission = self._submissions.get_nowait()
            except Empty:
                return batch
        if batch:
            self._submissions.put(None)  # found again after these have been written
        return batch

    def _committed(self, rev: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] <= rev:
            self._account.held -= waiting.popleft()[1]
        if rev > self.committed:
            self.committed = rev
            self.on_committed(rev)

    def _fail(self, error: DefinitionsError) -> None:
        if self.failed is None:
            self.failed = error
            self.on_failed(error)

    def _recovered(self, rev: int) -> None:
        self.failed = None
        self._committed(rev)
        self.on_recovered()


def _nothing() -> None:
    """Default callback."""


def _ignore(_: object) -> None:
    """Default callback."""
