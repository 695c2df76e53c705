"""The offsets of a log that still hold an unsettled message, and how often each was returned.

There is one bit for each offset. It is one if there is nothing to deliver: the message is settled, or the
offset belongs to a SETTLES or CONTROL batch or to a transient message. So a zero bit below the log's end is
an unsettled message, and zeros are counted to count messages. Bits are in chunks of 65,536 offsets. A chunk
of zeros has no entry; a chunk of ones is replaced by a shared object. A queue that is consumed in order has
one chunk, however long it lives. The bits of a chunk reach as far as one was set: most queues have few
messages, and 8 KiB for each would be most of their memory and of their checkpoints.

Invariants: every offset below ``settled_below`` is settled and has no chunk; ``live`` is the number of zero
bits in [``settled_below``, end), where the end is the log's. Whoever moves it over messages adds them to
``live``.
"""

from __future__ import annotations

from amqp_router.protocol import flags
from amqp_router.protocol._buf import Buf

from .bitmaps import LEAST_BYTES, count_ones, grown

#: Bits set in a byte value.
_ONES = bytes(bin(value).count("1") for value in range(256))


class Chunk:
    """65,536 bits, and return counts (u16 each) if a message in it was returned.

    Both reach as far as one was set: what is not there is 0.
    """

    __slots__ = ("bits", "counts", "number", "ones")

    def __init__(self) -> None:
        self.number = 0
        self.bits = bytearray(LEAST_BYTES)
        self.ones = 0
        self.counts: bytearray | None = None


class SettleState:
    """The fold of a log's MESSAGES, SETTLES and PURGE records."""

    __slots__ = ("_last", "chunks", "live", "settled_below")

    def __init__(self) -> None:
        self.chunks: dict[int, Chunk] = {}
        #: Below this everything is settled.
        self.settled_below = 0
        #: Unsettled messages.
        self.live = 0
        # The chunk used last; ``_FULL`` (number -1) when there is none.
        self._last = FULL

    def note_gap(self, first: int, end: int) -> None:
        """The log's end moved over ``[first, end)``, which hold no message."""
        while first < end:
            number = first >> 16
            stop = (number + 1) << 16
            if stop > end:
                stop = end
            self._fill(self._chunk(number), first & 65535, stop - (number << 16))
            first = stop

    def settle(self, offset: int) -> int:
        """Mark one message settled; 1 if it was not before, else 0."""
        if offset < self.settled_below:
            return 0
        number = offset >> 16
        chunk = self._last
        if chunk.number != number:
            chunk = self._chunk(number)
        place = (offset & 65535) >> 3
        mask = 1 << (offset & 7)
        if chunk is FULL:
            return 0
        bits = chunk.bits
        if place >= len(bits):
            bits = grown(bits, place)
            chunk.bits = bits
        elif bits[place] & mask:
            return 0
        bits[place] |= mask
        chunk.ones += 1
        self.live -= 1
        if chunk.ones == 65536:
            self._full(chunk)
        return 1

    def settle_range(self, first: int, end: int) -> int:
        """Mark all of ``[first, end)`` settled; how many messages that settled."""
        if first < self.settled_below:
            first = self.settled_below
        settled = 0
        while first < end:
            number = first >> 16
            stop = (number + 1) << 16
            if stop > end:
                stop = end
            settled += self._fill(self._chunk(number), first & 65535, stop - (number << 16))
            first = stop
        self.live -= settled
        return settled

    def purge(self, up_to: int, kept: list[tuple[int, int]]) -> None:
        """Mark everything below ``up_to`` settled but the runs ``kept`` (first, count), which rise."""
        first = self.settled_below
        for kept_first, count in kept:
            self.settle_range(first, kept_first)
            first = kept_first + count
        self.settle_range(first, up_to)

    def is_settled(self, offset: int) -> bool:
        if offset < self.settled_below:
            return True
        number = offset >> 16
        chunk = self._last
        if chunk.number != number:
            found = self.chunks.get(number)
            if found is None:
                return False
            chunk = found
            self._last = chunk
        if chunk is FULL:
            return True
        place = (offset & 65535) >> 3
        bits = chunk.bits
        return place < len(bits) and (bits[place] >> (offset & 7)) & 1 != 0

    def next_unsettled(self, offset: int, limit: int) -> int:
        """The first offset from ``offset`` on with a zero bit; ``limit`` if there is none before it."""
        if offset < self.settled_below:
            offset = self.settled_below
        while offset < limit:
            number = offset >> 16
            chunk = self._last
            if chunk.number != number:
                found = self.chunks.get(number)
                if found is None:
                    return offset
                if found is FULL:
                    offset = (number + 1) << 16
                    continue
                chunk = found
                self._last = chunk
            place = (offset & 65535) >> 3
            bits = chunk.bits
            size = len(bits)
            if place >= size:
                return offset
            value = bits[place] >> (offset & 7)
            if not value & 1:
                return offset
            # The rest of this byte, then whole bytes.
            bit = offset & 7
            while bit < 8 and value & 1:
                value >>= 1
                bit += 1
            if bit < 8:
                offset = (number << 16) + (place << 3) + bit
                continue
            place += 1
            while place < size and bits[place] == 255:
                place += 1
            offset = (number << 16) + (place << 3)
        return limit

    def unsettled_in(self, first: int, end: int) -> int:
        """Zero bits in ``[first, end)``."""
        if first < self.settled_below:
            first = self.settled_below
        total = 0
        while first < end:
            number = first >> 16
            stop = (number + 1) << 16
            if stop > end:
                stop = end
            chunk = self.chunks.get(number)
            if chunk is None:
                total += stop - first
            elif chunk is not FULL:
                total += (stop - first) - count_ones(chunk.bits, first & 65535, stop - (number << 16))
            first = stop
        return total

    def returned(self, offset: int) -> int:
        """How often the message at ``offset`` was returned."""
        chunk = self.chunks.get(offset >> 16)
        if chunk is None or chunk.counts is None:
            return 0
        place = (offset & 65535) << 1
        if place >= len(chunk.counts):
            return 0
        return chunk.counts[place] | chunk.counts[place + 1] << 8

    def has_returns(self, offset: int) -> bool:
        """Whether any message in the chunk of ``offset`` was returned."""
        chunk = self.chunks.get(offset >> 16)
        return chunk is not None and chunk.counts is not None

    def set_returned(self, offset: int, count: int) -> None:
        """Set the number of returns of the unsettled message at ``offset``."""
        chunk = self._chunk(offset >> 16)
        if chunk is FULL or offset < self.settled_below:
            return
        place = (offset & 65535) << 1
        counts = chunk.counts
        if counts is None or place >= len(counts):
            counts = grown(counts, place)
            chunk.counts = counts
        counts[place] = count & 255
        counts[place + 1] = count >> 8

    def advance(self, end: int) -> None:
        """Move ``settled_below`` up as far as everything is settled, at most to the log's end."""
        below = self.next_unsettled(self.settled_below, end)
        if below >> 16 != self.settled_below >> 16:
            for number in [number for number in self.chunks if number < below >> 16]:
                del self.chunks[number]
            if self._last.number < below >> 16:
                self._last = FULL
        self.settled_below = below

    def pack_returns(self) -> tuple[int, bytes]:
        """The returned and unsettled messages for a checkpoint: number of SETTLES records, and their bytes.

        This must be quick, because the event loop waits: after a client has gone there may be a million of
        them.
        """
        out = Buf()
        records = 0
        first = 0
        end = 0
        returns = 0
        for number in sorted(self.chunks):
            chunk = self.chunks[number]
            counts = chunk.counts
            if chunk is FULL or counts is None:
                continue
            bits = chunk.bits
            size = len(bits) << 3
            offset = number << 16
            for low in range(len(counts) >> 1):
                found = counts[low << 1] | counts[(low << 1) + 1] << 8
                is_settled = low < size and bits[low >> 3] >> (low & 7) & 1
                if found > 0 and offset >= self.settled_below and not is_settled:
                    if found != returns or offset != end:
                        if returns > 0:
                            records += 1
                            _put_run(out, first, end - first, flags.RETURN, returns)
                        first = offset
                        returns = found
                    end = offset + 1
                offset += 1
        if returns > 0:
            records += 1
            _put_run(out, first, end - first, flags.RETURN, returns)
        return records, out.take()

    def load_chunk(self, number: int, bits: bytes) -> None:
        """Set a chunk read from a checkpoint; no bytes mean all ones."""
        if bits:
            self._load(number, bits)
        else:
            self.chunks[number] = FULL

    def cut(self, end: int) -> None:
        """Clear every bit from ``end`` on. A checkpoint may have bits of offsets that no batch covers yet."""
        self.settled_below = min(self.settled_below, end)
        for number in [number for number in self.chunks if (number + 1) << 16 > end]:
            first = number << 16
            old = self.chunks.pop(number)
            if end <= first:
                continue
            kept = end - first
            size = (kept + 7) >> 3
            bits = bytearray(b"\xff") * size if old is FULL else old.bits[:size]
            if len(bits) == size and kept & 7:
                bits[size - 1] &= (1 << (kept & 7)) - 1
            self._load(number, bits).counts = old.counts
        self._last = FULL

    def _load(self, number: int, bits: bytes | bytearray) -> Chunk:
        """Make a chunk with these ``bits``."""
        chunk = Chunk()
        chunk.number = number
        bits = bits.rstrip(b"\0")
        size = len(bits)
        if size > LEAST_BYTES:
            chunk.bits = grown(None, size - 1)
        chunk.bits[:size] = bits
        chunk.ones = int.from_bytes(bits, "little").bit_count()
        self.chunks[number] = chunk
        return chunk

    def _chunk(self, number: int) -> Chunk:
        chunk = self.chunks.get(number)
        if chunk is None:
            chunk = Chunk()
            chunk.number = number
            self.chunks[number] = chunk
        if chunk is not FULL:
            self._last = chunk
        return chunk

    def _full(self, chunk: Chunk) -> None:
        self.chunks[chunk.number] = FULL
        self._last = FULL

    def _fill(self, chunk: Chunk, low: int, high: int) -> int:
        """Set bits ``[low, high)``; returns how many were zero."""
        if chunk is FULL:
            return 0
        if low == 0 and high == 65536:
            changed = 65536 - chunk.ones
            self._full(chunk)
            return changed
        bits = chunk.bits
        if low < high and (high - 1) >> 3 >= len(bits):
            bits = grown(bits, (high - 1) >> 3)
            chunk.bits = bits
        changed = 0
        while low < high and low & 7:
            if not bits[low >> 3] >> (low & 7) & 1:
                bits[low >> 3] |= 1 << (low & 7)
                changed += 1
            low += 1
        while low + 8 <= high:
            changed += 8 - _ONES[bits[low >> 3]]
            bits[low >> 3] = 255
            low += 8
        while low < high:
            if not bits[low >> 3] >> (low & 7) & 1:
                bits[low >> 3] |= 1 << (low & 7)
                changed += 1
            low += 1
        chunk.ones += changed
        if chunk.ones == 65536:
            self._full(chunk)
        return changed


class SettleRun:
    """``count`` offsets from ``first`` on that were settled alike: a record of a SETTLES batch.

    ``kind`` is one of those in ``amqp_router.protocol.flags``; when it is written, the octet above it is the
    reason. ``returns`` is how often the messages were returned (0 unless ``kind`` is RETURN). Of the offsets
    ``settled`` were messages not settled before; that is not in the record.
    """

    __slots__ = ("count", "first", "kind", "returns", "settled")

    def __init__(self) -> None:
        self.first = 0
        self.count = 0
        self.kind = 0
        self.returns = 0
        self.settled = 0


def settle_run(first: int, count: int, kind: int, returns: int, settled: int = 0) -> SettleRun:
    """A run with these values."""
    run = SettleRun()
    run.first = first
    run.count = count
    run.kind = kind
    run.returns = returns
    run.settled = settled
    return run


class SettleRuns:
    """Settles for the next SETTLES batch. Neighbours of the same kind and return count form one run."""

    __slots__ = ("_end", "_first", "_kind", "_returns", "_runs", "_settled", "count")

    def __init__(self) -> None:
        #: Number of runs begun since ``take``.
        self.count = 0
        # The open run, [first, end); ``_kind`` is 0 if there is none.
        self._first = 0
        self._end = 0
        self._kind = 0
        self._returns = 0
        self._settled = 0
        self._runs: list[SettleRun] = []

    def extend(self, offset: int, gap: int, kind: int, returns: int, settled: int) -> bool:
        """Add the settle of ``offset`` to the run, if that ends ``gap`` offsets (no messages) before it."""
        if self._kind == kind and offset - gap == self._end and returns == self._returns:
            self._end = offset + 1
            self._settled += settled
            return True
        return False

    def begin(self, offset: int, kind: int, returns: int, settled: int) -> None:
        """A new run."""
        if self._kind:
            self._close()
        self.count += 1
        self._first = offset
        self._end = offset + 1
        self._kind = kind
        self._returns = returns
        self._settled = settled

    def _close(self) -> None:
        first = self._first
        self._runs.append(settle_run(first, self._end - first, self._kind, self._returns, self._settled))

    def take(self) -> list[SettleRun]:
        """Return and clear the runs."""
        if self._kind:
            self._close()
        self._kind = 0
        self.count = 0
        runs = self._runs
        self._runs = []
        return runs


#: Stands for every chunk whose bits are all ones.
FULL = Chunk()
FULL.number = -1


def pack_runs(runs: list[SettleRun]) -> bytes:
    """The records of a SETTLES batch."""
    out = Buf()
    for run in runs:
        _put_run(out, run.first, run.count, run.kind, run.returns)
    return out.take()


def _put_run(out: Buf, first: int, count: int, kind: int, returns: int) -> None:
    out.le64(first)
    out.le32(count)
    out.le16(kind)
    out.le16(returns)
    out.le64(0)
