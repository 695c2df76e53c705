"""The coordinator of a node that is alone: the same ports, in memory.

Nothing of the tree outlives the process, for the nodes it would coordinate do not either. What must outlive
it is that epochs rise: each start counts in a file, and the count is the epoch of every queue led by that
start, unless the queue's log has seen a higher one. So a start writes one small file, however many queues
there are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from amqp_router.cluster.ports import (
    Conflict,
    Create,
    Done,
    Entry,
    NodeIdentity,
    Operation,
    Outcome,
    QueueState,
    Remove,
    Unknown,
)
from persistence.errors import PersistenceError
from persistence.files import Disk, join, read_file, replace_file

#: Runs a callable on the event loop, soon.
Post: TypeAlias = Callable[[Callable[[], None]], object]

BOOTS_FILE = "boots.json"

#: The entries of the queues stand below it, under their incarnations.
QUEUES = "/queues"


class BootsDamaged(PersistenceError):
    """The count of starts cannot be read."""


def count_boot(disk: Disk, directory: str) -> int:
    """Count this start, durably; the first is 1.

    Raises:
        BootsDamaged: the file is not what was written.
        OSError: it cannot be read or written.
    """
    path = join(directory, BOOTS_FILE)
    boots = (_read_boots(disk, path) if disk.exists(path) else 0) + 1
    replace_file(disk, path, json.dumps({"boots": boots}).encode())
    return boots


def _read_boots(disk: Disk, path: str) -> int:
    try:
        boots = json.loads(read_file(disk, path))["boots"]
        if isinstance(boots, int) and boots > 0:
            return boots
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    # Without it epochs go on from the logs', which is safe for all that was ever synced.
    raise BootsDamaged(f"{path}: is damaged; remove it to go on from the epochs that the logs hold")


class StandaloneRegistry:
    """A ``Registry`` in memory with one session.

    Args:
        session_id: Names the session.
        post: Answers are given through it, so that they come after the call has returned.
    """

    def __init__(self, session_id: str, post: Post) -> None:
        self.session_id = session_id
        self._post = post
        self._entries: dict[str, Entry] = {"/": Entry(b"", 0)}
        self._children: dict[str, set[str]] = {"/": set()}
        self._ephemeral: set[str] = set()
        self._lost_answers: list[bool] = []
        self._open = True

    def apply(self, operations: Sequence[Operation]) -> Done | Conflict:
        """As ``write``, but at once: nothing stands between this coordinator and its node."""
        undo: list[Callable[[], None]] = []
        for operation in operations:
            conflict = self._conflict(operation)
            if conflict is not None:
                for step in reversed(undo):
                    step()
                return conflict
            undo.append(self._perform(operation))
        return Done()

    def get(self, path: str) -> Entry | None:
        """As ``read``, but at once."""
        return self._entries.get(path)

    def write(self, operations: Sequence[Operation], answer: Callable[[Outcome], None]) -> None:
        """Apply all of ``operations`` or none."""
        outcome: Outcome
        if not self._open:
            outcome = Unknown("the session has ended")
        elif not self._lost_answers:
            outcome = self.apply(operations)
        else:
            if self._lost_answers.pop(0):
                self.apply(operations)
            outcome = Unknown("the answer was lost")
        self._post(partial(answer, outcome))

    def read(self, path: str, answer: Callable[[Entry | Unknown | None], None]) -> None:
        """Get an entry."""
        found = self.get(path) if self._open else Unknown("the session has ended")
        self._post(partial(answer, found))

    def children(self, path: str, answer: Callable[[list[str] | Unknown], None]) -> None:
        """Names of the entries directly below ``path``."""
        found = sorted(self._children.get(path, ())) if self._open else Unknown("the session has ended")
        self._post(partial(answer, found))

    def close(self) -> None:
        """End the session."""
        self._open = False
        for path in sorted(self._ephemeral):
            self._remove(path)

    def lose_answer(self, *, applied: bool) -> None:
        """Answer the next write with ``Unknown``, after applying it or not; for tests of what follows."""
        self._lost_answers.append(applied)

    def _conflict(self, operation: Operation) -> Conflict | None:
        path = operation.path
        entry = self._entries.get(path)
        if isinstance(operation, Create):
            above, _ = _split(path)
            if above not in self._entries or above in self._ephemeral:
                return Conflict(above, self._entries.get(above))
            return None if entry is None else Conflict(path, entry)
        if entry is None or entry.version != operation.version:
            return Conflict(path, entry)
        if isinstance(operation, Remove) and self._children[path]:
            return Conflict(path, entry)
        return None

    def _perform(self, operation: Operation) -> Callable[[], None]:
        """Apply an operation without conflict; returns what takes it back."""
        path = operation.path
        if isinstance(operation, Create):
            self._add(path, Entry(operation.data, 0), operation.ephemeral)
            return partial(self._remove, path)
        entry = self._entries[path]
        if isinstance(operation, Remove):
            ephemeral = path in self._ephemeral
            self._remove(path)
            return partial(self._add, path, entry, ephemeral)
        self._entries[path] = Entry(operation.data, entry.version + 1)
        return partial(self._entries.__setitem__, path, entry)

    def _add(self, path: str, entry: Entry, ephemeral: bool) -> None:
        above, name = _split(path)
        self._entries[path] = entry
        self._children[path] = set()
        self._children[above].add(name)
        if ephemeral:
            self._ephemeral.add(path)

    def _remove(self, path: str) -> None:
        above, name = _split(path)
        del self._entries[path], self._children[path]
        self._children[above].discard(name)
        self._ephemeral.discard(path)


class StandaloneQueues:
    """The queues of a node that is alone: it leads them all, in the epoch of this start.

    Args:
        registry: Where the states stand.
        node: This node in this boot.
        boot: What ``count_boot`` said.
    """

    def __init__(self, registry: StandaloneRegistry, node: NodeIdentity, boot: int) -> None:
        self._registry = registry
        self._node = node
        self._boot = boot
        #: The last state, as that of all queues is the same after most starts, and its octets.
        self._state: QueueState | None = None
        self._encoded = b""
        made = registry.apply([Create(QUEUES, b"")])
        assert isinstance(made, Done), "one node is alone with its registry"

    def lead(self, incarnation: str, lowest_epoch: int = 1) -> QueueState:
        """Begin to lead a queue; the state has the epoch, not below the ``lowest_epoch`` its log asks for."""
        epoch = max(self._boot, lowest_epoch)
        state = self._state
        if state is None or state.epoch != epoch:
            state = QueueState(self._node.name, self._node.boot_id, epoch, (self._node.name,))
            self._state, self._encoded = state, state.encode()
        led = self._registry.apply([Create(_path(incarnation), self._encoded)])
        assert isinstance(led, Done), "a queue is led once in a boot"
        return state

    def forget(self, incarnation: str) -> None:
        """The queue is deleted."""
        path = _path(incarnation)
        entry = self._registry.get(path)
        assert entry is not None, "only a queue that is led is deleted"
        self._registry.apply([Remove(path, entry.version)])


def _path(incarnation: str) -> str:
    return f"{QUEUES}/{incarnation}"


def _split(path: str) -> tuple[str, str]:
    above, _, name = path.rpartition("/")
    return above or "/", name
