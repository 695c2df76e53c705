"""A map that grows by small steps, for definitions of which one client can make very many.

A plain dict is rebuilt as a whole whenever it has doubled: 4 ms at 87,382 entries, 50 ms at 700,000. The
event loop serves nobody meanwhile, and several dicts that get an entry for the same binding are rebuilt in
the same call. This map keeps few entries in one plain dict. More entries stand in many plain dicts, the
buckets. Whenever they have become too full on average, one bucket is split in two (linear hashing). An
insertion thus costs at most the split of one bucket, however large the map is.

Entries come in the order of their insertion while they stand in one bucket, and in no order afterwards.

Buckets are never merged, and a split moves entries to a later bucket only. So a reader that takes bucket
after bucket (``steady_keys``) while the map changes finds every key that is there the whole time, some twice.

The bucket of a key depends on its hash. Clients choose keys and know the hash of a number, so the hash is
mixed with a secret first. Otherwise they could put all entries into one bucket.

Compiled: see ``spread_map.pxd``. What keys and values are says ``spread_map.pyi``.

Source: Litwin, Linear Hashing: A New Tool for File and Table Addressing, VLDB 1980.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import chain

#: Up to so many entries stand in one plain dict.
FEW = 2048
#: Entries of a bucket beyond that, on average; one that is not split yet has up to twice as many.
BUCKET_ENTRIES = 512
# C integers where compiled (see spread_map.pxd).
_FEW = FEW
_BUCKET_ENTRIES = BUCKET_ENTRIES

_BITS = 0xFFFF_FFFF_FFFF_FFFF
# Python's own secret: its hash of a text differs from process to process.
_FACTOR = (hash("the first factor") & _BITS) | 1
_SECOND_FACTOR = (hash("the second factor") & _BITS) | 1


class SpreadMap:
    """Like a dict where it has the methods of one."""

    __slots__ = ("_buckets", "_count", "_first", "_mask")

    def __init__(self) -> None:
        self._count = 0
        #: All entries, while ``_buckets`` is None.
        self._first: dict[Hashable, object] = {}
        self._buckets: list[dict[Hashable, object]] | None = None
        #: The lowest 2**n - 1 that is not below the number of the last bucket.
        self._mask = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: object) -> bool:
        return key in self.bucket_of(hash(key))

    def __getitem__(self, key: Hashable) -> object:
        return self.bucket_of(hash(key))[key]

    def __setitem__(self, key: Hashable, value: object) -> None:
        bucket = self.bucket_of(hash(key))
        before = len(bucket)
        bucket[key] = value
        if len(bucket) != before:
            self._entered()

    def __delitem__(self, key: Hashable) -> None:
        bucket = self.bucket_of(hash(key))
        del bucket[key]
        self._left()

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._first) if self._buckets is None else chain.from_iterable(self._buckets)

    def get(self, key: Hashable, default: object = None) -> object:
        """As ``dict.get``."""
        return self.bucket_of(hash(key)).get(key, default)

    def setdefault(self, key: Hashable, default: object) -> object:
        """As ``dict.setdefault``."""
        bucket = self.bucket_of(hash(key))
        before = len(bucket)
        value = bucket.setdefault(key, default)
        if len(bucket) != before:
            self._entered()
        return value

    def pop(self, key: Hashable, default: object) -> object:
        """As ``dict.pop`` with a default."""
        bucket = self.bucket_of(hash(key))
        before = len(bucket)
        value = bucket.pop(key, default)
        if len(bucket) != before:
            self._left()
        return value

    def popitem(self) -> tuple[Hashable, object]:
        """Remove an entry and return its key and value; the last one inserted while there are few.

        Raises:
            KeyError: the map is empty.
        """
        buckets = self._buckets
        bucket = self._first
        if buckets is not None:
            self._cut_empty_end()
            bucket = buckets[len(buckets) - 1]
        item = bucket.popitem()
        self._left()
        return item

    def values(self) -> Iterable[object]:
        """As ``dict.values``, but to be iterated once."""
        return (
            self._first.values()
            if self._buckets is None
            else chain.from_iterable(map(_values, self._buckets))
        )

    def items(self) -> Iterable[tuple[Hashable, object]]:
        """As ``dict.items``, but to be iterated once."""
        return (
            self._first.items() if self._buckets is None else chain.from_iterable(map(_items, self._buckets))
        )

    def bucket_keys(self, index: int) -> list[Hashable] | None:
        """A copy of the keys of bucket ``index``, counted from 0; None after the last bucket."""
        if self._buckets is None:
            return list(self._first) if index == 0 else None
        return list(self._buckets[index]) if index < len(self._buckets) else None

    def steady_keys(self) -> Iterable[Hashable]:
        """See the function ``steady_keys``."""
        return list(self._first) if self._buckets is None else _bucket_by_bucket(self)

    def bucket_of(self, hashed: int) -> dict[Hashable, object]:
        """The bucket of the keys with this hash."""
        buckets = self._buckets
        if buckets is None:
            return self._first
        index = _mixed(hashed) & self._mask
        if index >= len(buckets):
            index &= self._mask >> 1
        return buckets[index]

    def _entered(self) -> None:
        """An entry was added: split a bucket if they are too full on average."""
        self._count += 1
        buckets = self._buckets
        if buckets is None:
            if self._count <= _FEW:
                return
            buckets = self._buckets = [self._first]
        if self._count <= _BUCKET_ENTRIES * len(buckets):
            return
        new = len(buckets)
        if new > self._mask:
            self._mask = 2 * self._mask + 1
        parent = new & (self._mask >> 1)
        stay: dict[Hashable, object] = {}
        move: dict[Hashable, object] = {}
        for key, value in buckets[parent].items():
            if _mixed(hash(key)) & self._mask == new:
                move[key] = value
            else:
                stay[key] = value
        buckets[parent] = stay
        buckets.append(move)
        self._first = buckets[0]

    def _cut_empty_end(self) -> None:
        """Remove the empty buckets at the end; nothing has to move for that."""
        buckets = self._buckets
        assert buckets is not None
        while len(buckets) > 1 and not buckets[len(buckets) - 1]:
            buckets.pop()
            if len(buckets) - 1 <= self._mask >> 1:
                self._mask >>= 1

    def _left(self) -> None:
        """An entry was removed."""
        self._count -= 1
        if self._count == 0 and self._buckets is not None:
            self._first = {}
            self._buckets = None
            self._mask = 0


#: A plain dict while there are few entries, see ``roomy``.
Entries = dict | SpreadMap


def roomy(entries: Entries) -> Entries:
    """``entries``, or if it is a dict that must not grow further, a ``SpreadMap`` that takes its place.

    For places where most maps stay small, because a dict takes less memory. The caller calls this after each
    insertion, and uses a dict that was taken no more.
    """
    if not isinstance(entries, dict) or len(entries) <= _FEW:
        return entries
    spread = SpreadMap()
    spread._first = entries  # without copying
    spread._count = len(entries)
    return spread


def steady_keys(entries: Entries) -> Iterable[Hashable]:
    """The keys of ``entries``, also while it changes: every key that is there the whole time, some twice.

    They are copied bucket by bucket, as a copy of all would take long.
    """
    if isinstance(entries, dict):
        return list(entries)
    return entries.steady_keys()


def _bucket_by_bucket(entries: SpreadMap) -> Iterator[Hashable]:
    index = 0
    keys = entries.bucket_keys(0)
    while keys is not None:
        yield from keys
        index += 1
        keys = entries.bucket_keys(index)


def _mixed(hashed: int) -> int:
    """``hashed`` so that its low bits depend on all of its bits and on the secret."""
    bits = ((hashed & _BITS) * _FACTOR) & _BITS
    bits = ((bits ^ (bits >> 32)) * _SECOND_FACTOR) & _BITS
    return bits ^ (bits >> 32)


def _values(bucket: dict[Hashable, object]) -> Iterable[object]:
    return bucket.values()


def _items(bucket: dict[Hashable, object]) -> Iterable[tuple[Hashable, object]]:
    return bucket.items()
