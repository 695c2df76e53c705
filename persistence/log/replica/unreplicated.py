"""What other nodes have not acknowledged of the logs that this node leads, in octets and by peer.

Who streams a log to its followers keeps an ``Unreplicated`` of it: it tells when the log has new batches
(``appended``) and what a follower has durably (``acknowledged``). The sums over all logs are in the node's
``PeerOctets``, by which publishers can be held back.
"""

from __future__ import annotations

from bisect import bisect_right

from ..queue.queue_log import QueueLog

#: Ends of batches remembered for a log. If a peer is further behind, every second one is forgotten.
ENDS_MAX = 4096


class PeerOctets:
    """The sums over the logs of one node. A peer is there while it follows at least one."""

    def __init__(self) -> None:
        self.by_peer: dict[str, int] = {}
        self._logs: dict[str, int] = {}

    def join(self, peer: str, octets: int) -> None:
        """``peer`` follows one more log, of which it lacks so many octets."""
        self._logs[peer] = self._logs.get(peer, 0) + 1
        self.by_peer[peer] = self.by_peer.get(peer, 0) + octets

    def change(self, peer: str, octets: int) -> None:
        """``peer`` lacks so many octets more."""
        self.by_peer[peer] += octets

    def leave(self, peer: str, octets: int) -> None:
        """``peer`` follows one log less, of which it lacked so many octets."""
        self.by_peer[peer] -= octets
        self._logs[peer] -= 1
        if not self._logs[peer]:
            del self._logs[peer], self.by_peer[peer]


class Unreplicated:
    """Those of one log, as long as this node leads it."""

    def __init__(self, log: QueueLog, account: PeerOctets) -> None:
        self._log = log
        self._account = account
        #: Octets of the batches appended since this began, and the ends of these batches with the octets up
        #: to each, both rising.
        self._total = 0
        self._ends = [log.batches.closed.end]
        self._octets = [0]
        #: By peer: the octets up to what it has acknowledged; negative if that lies before the beginning.
        self._positions: dict[str, int] = {}

    def appended(self) -> None:
        """The log has perhaps closed batches.

        Those that the sync has written already count up to an entry of the sparse index too much.
        """
        closed = self._log.batches.closed
        noted, before = self._ends[-1], self._total
        if closed.end == noted:
            return
        batches = [batch for batch in closed.tail.all() if batch.base >= noted]
        first = batches[0].base if batches else closed.end
        if first > noted:
            self._note(first, self._stored(noted) - sum(batch.length for batch in batches))
        for batch in batches:
            self._note(batch.last + 1, batch.length)
        if self._total != before:
            for peer in self._positions:
                self._account.change(peer, self._total - before)
            if not self._positions:
                self._keep(len(self._ends) - 1)
            elif len(self._ends) > ENDS_MAX:
                del self._ends[1:-1:2], self._octets[1:-1:2]

    def join(self, peer: str, end: int) -> None:
        """``peer`` follows the log and has everything below ``end`` durably."""
        self.leave(peer)
        self.appended()
        self._positions[peer] = self._position(end)
        self._account.join(peer, self._total - self._positions[peer])

    def acknowledged(self, peer: str, end: int) -> None:
        """``peer``, which follows, has everything below ``end`` durably."""
        position = max(self._position(end), self._positions[peer])
        self._account.change(peer, self._positions[peer] - position)
        self._positions[peer] = position
        lowest = min(self._positions.values())
        self._keep(bisect_right(self._octets, lowest) - 1)

    def leave(self, peer: str) -> None:
        """``peer`` does not follow any more."""
        position = self._positions.pop(peer, None)
        if position is not None:
            self._account.leave(peer, self._total - position)

    def close(self) -> None:
        """This node does not lead the log any more."""
        for peer in list(self._positions):
            self.leave(peer)

    def _note(self, end: int, octets: int) -> None:
        self._total += octets
        self._ends.append(end)
        self._octets.append(self._total)

    def _keep(self, first: int) -> None:
        """Forget the ends before number ``first``: all peers have them."""
        if first > 0:
            del self._ends[:first], self._octets[:first]

    def _position(self, end: int) -> int:
        """The octets up to offset ``end``: to the last whole batch below it."""
        at = bisect_right(self._ends, end) - 1
        if at >= 0:
            return self._octets[at]
        return self._total - self._stored(end)

    def _stored(self, first: int) -> int:
        """Octets of the segments from offset ``first`` on, and up to an entry of the sparse index more."""
        found = 0
        for segment in self._log.partition.segments:
            if segment.end > first:
                index = segment.index
                found += segment.size
                if index is not None and first > segment.base:
                    found -= index.position_of(first - segment.base)
        return found
