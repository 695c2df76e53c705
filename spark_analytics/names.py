"""The ``.names`` file of a routing log's segment: the meaning of its route numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from . import layout
from .errors import CorruptLog, FormatVersionError


class Names:
    """Exchange and queues of each route of one segment, as Arrow columns."""

    def __init__(self, exchanges: list[str], queues: list[list[str]], fanouts: list[int]) -> None:
        self.count = len(exchanges)
        #: Names per route; a number that is no route has "" and no queues.
        self.exchange_names = exchanges
        self.queue_names = queues
        self.exchange = pa.array(exchanges, pa.string())
        self.queues = pa.array(queues, pa.list_(pa.field("element", pa.string())))
        # Not the number of names: reply queues share a name, and a very large route does not name all its
        # queues.
        self.fanout = np.array(fanouts, np.int32)

    def wanted(self, exchanges: Iterable[str] | None, queues: Iterable[str] | None) -> Any:
        """A flag per route: published to one of the exchanges and routed to one of the queues; None = all."""
        if exchanges is None and queues is None:
            return None
        flags = np.ones(self.count, np.bool_)
        if exchanges is not None:
            flags &= np.array([name in exchanges for name in self.exchange_names], np.bool_)
        if queues is not None:
            flags &= np.array([not set(names).isdisjoint(queues) for names in self.queue_names], np.bool_)
        return flags


def read_names(directory: str, base: int, salt: int) -> Names:
    """Read every complete entry. A torn one at the end belongs to no durable batch.

    Raises:
        CorruptLog: the file is missing, or is not the names file of that segment.
        FormatVersionError: another version wrote it.
    """
    path = os.path.join(directory, layout.file_name(base, layout.NAMES_SUFFIX))
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        raise CorruptLog(path, 0, base, "the names of this segment's routes are missing") from None
    if len(data) < layout.NAMES_HEADER.size:
        raise CorruptLog(path, 0, base, "the file ends inside its header")
    magic, version, _, found = layout.NAMES_HEADER.unpack_from(data)
    if magic != layout.NAMES_MAGIC or found != base:
        raise CorruptLog(path, 0, base, "these are not the names of this segment's routes")
    if version > layout.NAMES_VERSION:
        raise FormatVersionError(path, version, layout.NAMES_VERSION)
    if not version:
        salt = 0
    exchanges: list[str] = []
    queues: list[list[str]] = []
    fanouts: list[int] = []
    texts: dict[int, str] = {}
    at = layout.NAMES_HEADER.size
    while at + layout.NAMES_ENTRY.size <= len(data):
        length, crc, number = layout.NAMES_ENTRY.unpack_from(data, at)
        payload = at + layout.NAMES_ENTRY.size
        end = payload + length
        if end > len(data) or crc32(data[payload - 4 : end], salt) != crc or number != len(exchanges):
            break
        entry = json.loads(data[payload:end])
        at = end
        if not isinstance(entry, dict):
            # A name or a binding to which routes refer, not a route.
            texts[number] = layout.text(entry) if isinstance(entry, str) else ""
            exchanges.append("")
            queues.append([])
            fanouts.append(0)
            continue
        exchanges.append(layout.text(entry["exchange"]))
        queues.append(
            [texts[name] if isinstance(name, int) else layout.text(name) for name in entry["queues"]]
        )
        fanouts.append(int(entry["fanout"]))
    return Names(exchanges, queues, fanouts)
