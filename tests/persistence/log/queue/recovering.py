"""Nodes that start over the disk of another one, and what that disk has."""

from __future__ import annotations

import copy

from tests.persistence.log.simdisk import Inode, SimDisk
from tests.persistence.log.support import Node

DIRECTORY = "d/queues/a/0"
FIRST = f"{DIRECTORY}/{0:020d}.log"


def inode(disk: SimDisk, path: str) -> Inode:
    found = disk.names[path]
    assert found is not None
    return found


def reopened(disk: SimDisk) -> Node:
    node = Node(copy.deepcopy(disk))
    node.catalog.open("a")
    return node


def contents(disk: SimDisk) -> dict[str, bytes]:
    """The logs' files."""
    return {
        name: bytes(found.now)
        for name, found in disk.names.items()
        if found is not None and "/queues/" in name
    }
