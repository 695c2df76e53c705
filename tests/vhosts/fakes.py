"""A virtual host without disks: queues that count, definitions that are listed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from amqp_router.protocol.errors import AMQPError
from amqp_router.protocol.fields import Table
from persistence.definitions.records import Change, Delete, DeleteBindings, DeleteVhost, Put, Row
from persistence.errors import PersistenceError
from tests.persistence.definitions.support import applied
from vhosts.ports import InSlices
from vhosts.queues.destination import Asker
from vhosts.queues.handle import QueueHandle
from vhosts.vhost import VirtualHost


class FakeQueue(QueueHandle):
    """A queue of which only the counts are real."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = 0
        self.deleted_rev: int | None = None

    def message_count(self) -> int:
        return self.ready

    def consumer_count(self) -> int:
        return len(self.consumers)

    def is_empty(self) -> bool:
        return self.ready == 0

    def is_unused(self) -> bool:
        return not self.consumers

    def empty(self) -> int:
        count, self.ready = self.ready, 0
        return count

    def count(self, asker: Asker) -> None:
        asker.counted(self.ready, len(self.consumers))

    def purge(self, asker: Asker) -> None:
        asker.removed(self.empty(), 0)

    def remove(self, asker: Asker, if_unused: bool, if_empty: bool) -> None:
        try:
            removed = self.vhost.delete_queue(
                self.name, if_unused=if_unused, if_empty=if_empty, owner=self.exclusive_owner
            )
        except AMQPError as error:
            asker.refused(error)
        else:
            asker.removed(*removed)

    def delete(self, rev: int) -> int:
        self.deleted = True
        self.deleted_rev = rev
        return self.empty()

    def __repr__(self) -> str:
        return f"<queue {self.name}>"


class FakeDefinitions:
    """Applies changes to a dict of rows, as the store does to its tables."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, Any], Row] = {}
        self.submitted: list[Sequence[Change]] = []
        self.error: PersistenceError | None = None

    def submit(self, changes: Sequence[Change]) -> int:
        assert changes
        if self.error is not None:
            raise self.error
        self.submitted.append(list(changes))
        for change in changes:
            if isinstance(change, Put):
                self.rows[change.kind, change.key] = change.row
            elif isinstance(change, DeleteBindings | DeleteVhost):
                applied(self.rows, change)
            else:
                assert isinstance(change, Delete)
                assert (change.kind, change.key) in self.rows, change
                del self.rows[change.kind, change.key]
        return len(self.submitted)

    def of_kind(self, kind: str) -> list[Any]:
        return [row for (row_kind, _), row in self.rows.items() if row_kind == kind]


def make_queue(
    *,
    vhost: Any,
    name: str,
    durable: bool,
    exclusive_owner: Any,
    auto_delete: bool,
    arguments: Table,
    incarnation: str,
) -> FakeQueue:
    queue = FakeQueue()
    queue.vhost = vhost
    queue.name = name
    queue.durable = durable
    queue.exclusive_owner = exclusive_owner
    queue.auto_delete = auto_delete
    queue.arguments = arguments
    queue.incarnation = incarnation or f"life of {name}"
    return queue


def at_once(step: Callable[[], bool]) -> None:
    """All slices, without a pause."""
    while not step():
        pass


def new_vhost(
    definitions: FakeDefinitions | None = None, name: str = "/", in_slices: InSlices = at_once
) -> VirtualHost:
    numbers = itertools.count(1)
    return VirtualHost(
        name,
        definitions=definitions or FakeDefinitions(),
        make_queue=make_queue,
        generate_name=lambda prefix: f"{prefix}{next(numbers):022}",
        in_slices=in_slices,
    )


def publish_args(exchange: str, key: str, *, mandatory: bool = False, immediate: bool = False) -> bytes:
    """The argument octets of basic.publish."""
    texts = [text.encode("utf-8", "surrogateescape") for text in (exchange, key)]
    return (
        b"\0\0" + b"".join(bytes([len(text)]) + text for text in texts) + bytes([mandatory | immediate << 1])
    )
