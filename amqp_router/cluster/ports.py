"""What a node asks of whoever coordinates the nodes: a small tree of versioned entries, and sessions.

An entry is a path with data and a version that counts its writes. Writing names the version it expects
(compare-and-set), several writes go in one transaction, and an ephemeral entry goes with the session that
made it.

A write has three outcomes, and the third is the one that matters: *unknown*. The request or its answer was
lost, so the write may have happened, or may still happen until the session ends. Whoever gets it must read,
and must be able to tell its own write from another's (put something into the data that nobody else would
write). To repeat the write is no cure: the repetition of a success is a conflict.

Answers come by callback on the event loop, after the call has returned.

Source: the three outcomes are those of ZooKeeper's clients (ZooKeeper Programmer's Guide).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

#: Made once: each start encodes the state of every queue.
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """A node: its name, the data directory it runs on, and this one run of it.

    A message from an earlier boot is told from one of this boot, and a node that lost its disk from one that
    has it.
    """

    name: str
    store_id: str
    boot_id: str


@dataclass(frozen=True, slots=True)
class QueueState:
    """Who leads a queue, in which epoch, and which nodes have everything that was confirmed (ISR).

    The epoch rises with each change of leader, and with each start of the leader.
    """

    leader: str
    leader_boot: str
    epoch: int
    isr: tuple[str, ...]

    def encode(self) -> bytes:
        """The data of the queue's entry."""
        values = {
            "leader": self.leader,
            "leader_boot": self.leader_boot,
            "epoch": self.epoch,
            "isr": self.isr,
        }
        return _ENCODE(values).encode()

    @classmethod
    def decode(cls, data: bytes) -> QueueState:
        """Inverse of ``encode``.

        Raises:
            ValueError: this is no queue's entry.
        """
        try:
            values = json.loads(data)
            return cls(values["leader"], values["leader_boot"], int(values["epoch"]), tuple(values["isr"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"not the state of a queue: {data!r}") from error


@dataclass(frozen=True, slots=True)
class Entry:
    """Data at a path; ``version`` is 0 when it is created and one more after each write."""

    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Create:
    """Add an entry that must not exist; the entry above it must, and must not be ephemeral."""

    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Replace:
    """Put other data into the entry if its version is ``version``."""

    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove the entry if its version is ``version``; it must have no entries below."""

    path: str
    version: int


Operation: TypeAlias = Create | Replace | Remove


@dataclass(frozen=True, slots=True)
class Done:
    """All operations were applied."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """No operation was applied: the one on ``path`` could not be, where ``current`` is (None: nothing)."""

    path: str
    current: Entry | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """The operations were applied, or were not, or will be; ``reason`` is for the log."""

    reason: str


Outcome: TypeAlias = Done | Conflict | Unknown


class Registry(Protocol):
    """The coordinator, as one session of one node sees it."""

    #: Names the session; ephemeral entries made through this object belong to it.
    session_id: str

    def write(self, operations: Sequence[Operation], answer: Callable[[Outcome], None]) -> None:
        """Apply all of ``operations``, each seeing those before it, or none."""

    def read(self, path: str, answer: Callable[[Entry | Unknown | None], None]) -> None:
        """Get an entry; None if there is none."""

    def children(self, path: str, answer: Callable[[list[str] | Unknown], None]) -> None:
        """Names of the entries directly below ``path``, sorted; none if there is no such entry."""

    def close(self) -> None:
        """End the session; its ephemeral entries go at once."""
