"""The definition store: changes are given a rev at once, and stored soon after by a thread.

``submit`` returns before anything is on disk. A thread takes all that has been submitted meanwhile into one
transaction, and then says up to which rev everything is stored. So a hundred declares that arrive together
share one sync, and one that arrives alone waits for one.

Order is total: revs count up by one, are stored in their order, and ``committed`` never passes one that is
not. While a transaction cannot be stored because of an error that passes (no space, the file is locked), it
is tried again, and nothing further is taken: what was taken is stored in the end, so memory and file agree.
Any other failure is the last word. Nothing is stored after it, for what follows may rest on what was lost.
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
from persistence.definitions.records import Change, Snapshot
from persistence.log.memory import MemoryBudget

#: Runs a callable on the event loop's thread, soon; safe to call from any thread.
Post: TypeAlias = Callable[[Callable[[], None]], None]

#: Submissions in one transaction. More would only make those in front wait longer.
BATCH_MAX = 1024

#: What a row that is not stored yet takes beside its octets, and how often it holds those: as text for the
#: change log and as values for the table.
ROW_BYTES = 400
ROW_COPIES = 2
#: Seconds before the first and at the most before a further attempt after an error that passes.
RETRY_FIRST_S = 0.25
RETRY_LAST_S = 5.0


@dataclass(frozen=True, slots=True)
class Accepted:
    """The changes have their place in the order; they are stored once ``on_committed`` reaches ``rev``."""

    rev: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """Others came first: the last rev is ``rev`` now, and nothing was changed."""

    rev: int


class DefinitionStore:
    """Definitions on disk, in a SQLite file at ``path``.

    All methods are called on one thread, the event loop's. ``on_committed`` and ``on_failed`` are called
    there too, through ``post``, never from within a method other than ``flush_and_stop``.

    Args:
        path: The file; made, with its directory, if it does not exist.
        post: Hands a callable to the event loop.
        revs_kept: How many of the latest revs ``since`` can give.
        account: Has what is not stored yet as ``held``.
    """

    def __init__(
        self, path: Path, post: Post, *, revs_kept: int = 10_000, account: MemoryBudget | None = None
    ) -> None:
        self.path = path
        #: The last rev given to changes.
        self.rev = 0
        #: Everything up to this rev is stored.
        self.committed = 0
        #: Why nothing is stored any more, or for now; or None.
        self.failed: DefinitionsError | None = None
        #: Called with the new value whenever ``committed`` has risen.
        self.on_committed: Callable[[int], None] = _ignore
        #: Called when storing has failed: those who wait for what is above ``committed`` must hear so.
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
        self._error: DefinitionsError | None = None  # set by the thread as it ends

    def start(self) -> None:
        """Open the file, bring it to this release's schema, and begin to store.

        Raises:
            SchemaTooNew, NotADefinitionStore: the file is not ours to write; it is left as it is.
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

    def submit(self, changes: Sequence[Change]) -> int:
        """Put ``changes``, all or none, after those submitted before; returns their rev.

        They are stored once ``on_committed`` reaches that rev. No changes need no rev: the answer is 0, which
        is always reached.

        Raises:
            StoreFailed: storing has failed before.
            StoreStopped: the store is not running.
            ValueError: a name cannot be stored.
        """
        if self.failed is not None:
            raise self.failed.with_traceback(None)  # or it would grow by a frame each time
        if self._thread is None:
            raise StoreStopped(self.path)
        if not changes:
            return 0
        # All that can be wrong with changes shows here, in the caller's hands: the thread must not meet it.
        prepared = [statements.prepare(change) for change in changes]
        submission = Submission(self.rev + 1, encode_changes(changes), prepared)
        self.rev = submission.rev
        size = len(submission.encoded) * ROW_COPIES + ROW_BYTES * len(prepared)
        self._account.held += size
        self._waiting.append((submission.rev, size))
        self._submissions.put(submission)
        return submission.rev

    def commit(self, changes: Sequence[Change], expected_rev: int) -> Accepted | Conflict:
        """As ``submit``, provided that no changes came after ``expected_rev``.

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
        # What the thread posted last may still be waiting for the loop to run.
        self._committed(self._database.rev)
        if self._error is not None:
            self._fail(self._error)
        self._database.close()

    def _store(self) -> None:
        """Write what is submitted until told to stop, or until writing fails. The thread's whole life."""
        try:
            while batch := self._next_batch():
                self._write(batch)
                self._post(partial(self._committed, batch[-1].rev))
        except Exception as error:  # not a DefinitionsError: a bug of ours, and no less final
            if isinstance(error, DefinitionsError):
                self._error = error
            else:
                self._error = StoreFailed(self.path, repr(error))
                self._error.__cause__ = error
            self._post(partial(self._fail, self._error))

    def _write(self, batch: list[Submission]) -> None:
        """Write ``batch``, after errors that pass again and again until the store is stopped."""
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
        """Wait for a submission and take those behind it; nothing when told to stop."""
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
            self._submissions.put(None)  # to be met again when these have been written
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
    """What is called before anybody listens."""


def _ignore(_: object) -> None:
    """What is called before anybody listens."""
