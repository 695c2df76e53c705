"""The order in which messages returned to a queue: that of the records of their returns in its log.

A quorum queue gives what returned first, in this order, also after a start. The log of any other queue
forgets it (``keep``).

Invariant, unless it is lost: of the messages that are unsettled and have returned, each is in a run with its
number of returns. What else is in the runs does not count: settled messages, and those that have returned
again since.

The order is lost when more than ``MESSAGES_MAX`` messages or ``RUNS_MAX`` runs count: a client that returns a
million one by one, the newest first, would make the log hold, look through and write a million runs.

Compiled: see ``returns.pxd``.
"""

from __future__ import annotations

from amqp_router.protocol import flags

from .settles import SettleRun, SettleState, pack_runs, settle_run

#: How often a message can return, as far as it is counted.
RETURNS_MAX = 0xFFFF
#: Of so many messages, in so many runs, the order is known.
MESSAGES_MAX = 1 << 16
RUNS_MAX = 1 << 12
#: Runs, and messages in them, that may be kept in vain.
_SPARE_RUNS = 32
_SPARE = 1 << 12

_RETURNS_MAX = RETURNS_MAX  # a C integer where compiled


class ReturnRuns:
    """Those of one log."""

    __slots__ = ("_limit", "_runs", "_runs_limit", "_weight", "is_kept", "is_lost")

    def __init__(self) -> None:
        self.is_kept = True
        self.is_lost = False
        self._begin([])

    def _begin(self, runs: list[SettleRun]) -> None:
        self._runs = runs
        # Messages in the runs; and how many, or how many runs, make it worth to look which of them count.
        self._weight = sum([run.count for run in runs])
        self._limit = 2 * self._weight + _SPARE
        self._runs_limit = 2 * len(runs) + _SPARE_RUNS

    def note(self, first: int, count: int, returns: int, state: SettleState) -> None:
        """``count`` messages from ``first`` on came back, one after the other, for the ``returns``-th time.

        ``state`` knows of it. Offsets among them may hold no unsettled message.
        """
        if not self.is_kept or self.is_lost:
            return
        runs = self._runs
        last = runs[len(runs) - 1] if len(runs) > 0 else None
        if last is not None and last.first + last.count == first and last.returns == returns:
            last.count += count
        else:
            runs.append(settle_run(first, count, flags.RETURN, returns))
        self._weight += count
        if self._weight > self._limit or len(runs) > self._runs_limit:
            self._begin(self.runs(state))
            if self._weight > MESSAGES_MAX or len(self._runs) > RUNS_MAX:
                self.lose()

    def lose(self) -> None:
        """Forget the order until a checkpoint finds no returned message, or a start reads them by offset."""
        self._begin([])
        self.is_lost = True

    def keep(self, is_kept: bool) -> None:
        """Whether the queue asks for the order; if not, it is forgotten."""
        self.is_kept = is_kept
        if not is_kept:
            self._begin([])
            self.is_lost = False

    def kept_runs(self) -> list[SettleRun]:
        """Those that are in memory, whether they count or not."""
        return self._runs

    def runs(self, state: SettleState) -> list[SettleRun]:
        """Those that are unsettled, each once, in the order in which they returned the last time."""
        found: list[SettleRun] = []
        # A count that cannot rise does not tell which return was the last one.
        seen: set[int] = set()
        for place in range(len(self._runs)):
            run = self._runs[len(self._runs) - 1 - place]
            parts = _left(run, state, seen)
            parts.reverse()
            found.extend(parts)
        found.reverse()
        return found

    def pack(self, state: SettleState) -> tuple[int, bytes]:
        """As ``SettleState.pack_returns``, in this order if it is known."""
        if self.is_kept and not self.is_lost:
            runs = self.runs(state)
            return len(runs), pack_runs(runs)
        records, returns = state.pack_returns()
        if records == 0:
            self.is_lost = False
        return records, returns


def next_fresh(state: SettleState, offset: int, limit: int) -> int:
    """As ``SettleState.next_unsettled``, of the messages that have never returned."""
    offset = state.next_unsettled(offset, limit)
    while offset < limit:
        chunk = state.chunks.get(offset >> 16)
        if chunk is None or chunk.counts is None:
            return offset
        counts = chunk.counts
        place = (offset & 65535) << 1
        if place >= len(counts) or not counts[place] | counts[place + 1]:
            return offset
        offset = state.next_unsettled(offset + 1, limit)
    return limit


def _left(run: SettleRun, state: SettleState, seen: set[int]) -> list[SettleRun]:
    """What of ``run`` still counts. This must be quick: it may have a million messages."""
    parts: list[SettleRun] = []
    part = None
    returns = run.returns
    offset = max(run.first, state.settled_below)
    end = run.first + run.count
    while offset < end:
        number = offset >> 16
        stop = min((number + 1) << 16, end)
        chunk = state.chunks.get(number)
        if chunk is None or chunk.counts is None:
            offset = stop
            continue
        counts = chunk.counts
        bits = chunk.bits
        while offset < stop:
            low = offset & 65535
            if low << 1 >= len(counts):
                offset = stop
                break
            found = counts[low << 1] | counts[(low << 1) + 1] << 8
            is_settled = low < len(bits) << 3 and bits[low >> 3] >> (low & 7) & 1
            if found == returns and not is_settled:
                if returns == _RETURNS_MAX and offset in seen:
                    offset += 1
                    continue
                if returns == _RETURNS_MAX:
                    seen.add(offset)
                if part is not None and part.first + part.count == offset:
                    part.count += 1
                else:
                    part = settle_run(offset, 1, flags.RETURN, returns)
                    parts.append(part)
            offset += 1
    return parts
