"""The node beside the lists, compared after every move:

- each queue has as many ready messages as its list, and nobody with credit waits while one is ready;
- what was delivered is what the lists gave, in their order, and says each death, flag and count that they
  foretell;
- a publisher is answered by ack, or by nack if a queue was full;
- no delivery has been out for longer than its timeout, and no channel was closed before.

After every start, clean or not, each log has what it must and nothing that it must not (``starts``).
"""

from __future__ import annotations

from typing import Any

from amqp_router.protocol import methods as m
from tests.model.endings import hearing
from tests.model.endings.clients import Channel
from tests.model.endings.queue import ModelQueue
from tests.model.endings.setting import Setting

#: A channel closes so much later than the timeout of its deliveries says, at most.
LATE_US = 210_000


class World(Setting):
    """A setting whose node is compared with the lists after every move."""

    def connect(self) -> None:
        """All clients, and what their channels begin with."""
        self.declaring = []
        for peer in self.peers:
            peer.connect(self.node)
        self.publisher.client.send(m.ConfirmSelect())
        self.publisher.channels[1].expected.append(m.ConfirmSelectOk())
        self.publisher.channels[1].confirming = True
        self.come_to_rest()

    def come_to_rest(self) -> None:
        """``look`` and ``compare`` after a move in which the model has nothing to do."""
        self.look()
        self.compare()

    def compare(self) -> None:
        """Let the lists come to rest too, and compare."""
        hearing.note_closed_channels(self)
        self.lists.rest()
        received, self.received = self.received, []
        for peer, each in received:
            hearing.hear(self, peer, each)
        for queue in self.lists.queues.values():
            assert not queue.given, f"{queue.name} gives {[e.serial for e in queue.given]} to nobody"
            is_foretold = not queue.arrived or queue.kind.priorities is None
            assert not (is_foretold and queue.is_out_of_order), f"{queue.name} did not give its head"
            queue.arrived, queue.returned, queue.is_out_of_order = 0, 0, False
            self._compare(queue)
        for peer in self.peers:
            for channel in peer.channels.values():
                where = f"{peer.name}, channel {channel.number}"
                assert not channel.cancels, f"{where} was not told of {channel.cancels}"
                assert not channel.expected, f"{where} did not get {channel.expected}"
                self._check_timeouts(where, channel)
        self._note_pages()

    def _compare(self, queue: ModelQueue) -> None:
        """Compare one queue with its list."""
        real = self.node.queue(queue.name)
        ready = [entry.serial for entry in queue.ready]
        assert real.message_count() == len(ready), f"{queue.name}: {real.message_count()}, not {ready}"
        assert real.unacked_count == queue.out, queue.name
        assert real.consumer_count() == len(queue.consumers)
        assert not ready or queue.credit() <= 0, f"{queue.name} keeps a consumer waiting"

    def _check_timeouts(self, where: str, channel: Channel) -> None:
        """No delivery is out for longer than its timeout."""
        settled = channel.settled()
        for tag, out in channel.out.items():
            timeout_us = out.timeout_us()
            if timeout_us and tag not in settled:
                age_us = self.lists.now_us - out.since_us
                limit_us = timeout_us + max(timeout_us // 4, LATE_US)
                assert age_us <= limit_us, f"{where} is not closed: a delivery is {age_us} µs old"

    def _note_pages(self) -> None:
        """Messages that are in a page file have met paging."""
        for queue in self.lists.queues.values():
            ready: Any = self.node.queue(queue.name).ready
            if getattr(ready, "pager", None) is None:
                continue
            # Behind what is in memory.
            behind = queue.ready[len(ready.requeued or ()) + ready.in_memory() :]  # no quorum queue has one
            for entry in behind:
                if not entry.logged:
                    self.lists.note(queue, entry, "paging")
