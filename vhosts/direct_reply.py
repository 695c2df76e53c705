"""Direct reply-to: queues for the replies to one channel, which only their names lead to.

Such a queue is transient, has one consumer, and goes with it. It is no queue of the virtual host: it is not
listed, nobody can bind or declare it, and no policy applies. Its name cannot be guessed, and whoever knows it
may reply.

Source: RabbitMQ, "Direct Reply-to".
"""

from __future__ import annotations

from collections.abc import Callable

from vhosts.exchanges.route import default_route
from vhosts.ports import QueueFactory
from vhosts.publishing.checks import DIRECT_REPLY
from vhosts.queues.destination import Host
from vhosts.queues.handle import QueueHandle
from vhosts.topology import QUEUE_BYTES, Topology


class ReplyQueues:
    """The reply queues of one virtual host. ``generate_name`` makes a unique name from a prefix."""

    def __init__(
        self,
        host: Host,
        topology: Topology,
        make_queue: QueueFactory,
        generate_name: Callable[[str], str],
    ) -> None:
        self._host = host
        self._topology = topology
        self._make_queue = make_queue
        self._generate_name = generate_name

    def __contains__(self, name: str) -> bool:
        """Whether replies to ``name`` find somebody; the pseudo-queue itself always does, as in RabbitMQ."""
        return name == DIRECT_REPLY or name in self._topology.reply_queues

    def open(self, owner: object) -> QueueHandle:
        """Make a reply queue for a channel of the connection ``owner``."""
        topology = self._topology
        name = self._generate_name(self._generate_name(DIRECT_REPLY + ".") + ".")
        queue = self._make_queue(
            vhost=self._host,
            name=name,
            durable=False,
            exclusive_owner=owner,
            auto_delete=False,
            arguments={},
            incarnation="",
        )
        topology.account.kept += QUEUE_BYTES
        topology.reply_queues[name] = queue
        route = default_route(queue, topology.exchanges[""].counters)
        route.has_replies = route.is_reply = True
        topology.table.default_routes[name.encode()] = route
        return queue

    def close(self, queue: QueueHandle) -> None:
        """Delete ``queue``, which has no consumer any more. Later replies are unroutable."""
        topology = self._topology
        del topology.reply_queues[queue.name]
        topology.account.kept -= QUEUE_BYTES
        topology.table.default_routes.pop(queue.name.encode()).let_go()
        queue.delete(0)


def is_reply_name(name: str) -> bool:
    """Whether ``name`` is, or looks like, that of a reply queue."""
    return name.startswith(DIRECT_REPLY)
