"""What the metrics sample: every message is counted once, by its queue, its exchange and its channel."""

from __future__ import annotations

from amqp_router.protocol import methods as m
from tests.nodes import PERSISTENT, TRANSIENT, Client, SimNode, publish_frames
from vhosts.counters import MessageTotals

NAMES = list(MessageTotals.__slots__)


def figures(totals: MessageTotals) -> dict[str, int]:
    return {name: getattr(totals, name) for name in NAMES if getattr(totals, name)}


def send(client: Client, method: m.BasicPublish, properties: bytes = PERSISTENT, count: int = 1) -> None:
    client.feed(b"".join(publish_frames(1, method, properties, b"body") * count))
    client.node.settle()


def test_every_message_is_counted_where_it_passes() -> None:
    node = SimNode()
    client = Client(node).open(1, 2)
    queue = client.declare("q")
    other = client.declare("other")
    node.vhost.bind_queue("q", "amq.fanout", "", {}, None)
    node.vhost.bind_queue("other", "amq.fanout", "", {}, None)
    node.settle()
    client.feed(m.frame(1, m.ConfirmSelect()))
    send(client, m.BasicPublish("amq.fanout"), count=3)
    send(client, m.BasicPublish("", "q"), TRANSIENT)
    send(client, m.BasicPublish("amq.direct", "nowhere"))
    send(client, m.BasicPublish("amq.direct", "nowhere", mandatory=True))
    exchanges = node.vhost.exchanges
    seen = {
        name: (exchange.counters.publish_in, exchange.counters.publish_out)
        for name, exchange in exchanges.items()
        if exchange.counters.publish_in
    }
    assert seen == {"amq.fanout": (3, 6), "": (1, 1), "amq.direct": (2, 0)}
    publisher = client.machine.channels[1]
    assert figures(publisher.totals()) == {
        "publish": 6, "publish_confirm": 6, "confirm": 6, "return_unroutable": 1, "drop_unroutable": 1,
    }  # fmt: skip

    client.feed(m.frame(2, m.BasicGet("q")) + m.frame(2, m.BasicGet("q", no_ack=True)))
    client.feed(m.frame(2, m.BasicAck(1)) + m.frame(2, m.BasicGet("nothing", no_ack=True)))
    node.settle()
    assert (queue.get_total, queue.get_no_ack_total, queue.ack_total) == (1, 1, 1)
    # The queue "nothing" is not there: the channel was closed, its figures stay.
    assert figures(node.vhost.counters.closed) == {"get": 1, "get_no_ack": 1, "ack": 1}
    client.feed(m.frame(2, m.ChannelCloseOk()) + m.frame(3, m.ChannelOpen()))
    client.feed(m.frame(3, m.BasicConsume("q", "c")) + m.frame(3, m.BasicConsume("other", "n", no_ack=True)))
    node.settle()
    client.feed(m.frame(3, m.BasicNack(1, requeue=True)))
    node.settle()
    client.feed(m.frame(3, m.BasicNack(0, multiple=True, requeue=False)))
    client.feed(m.frame(3, m.BasicGet("q")))
    node.settle()
    assert (queue.publish_total, queue.deliver_total, queue.redeliver_total, queue.ack_total) == (4, 3, 1, 1)
    assert (queue.get_empty_total, other.deliver_no_ack_total, other.deliver_total) == (1, 3, 0)
    consumer = client.machine.channels[3]
    assert figures(consumer.totals()) == {
        "deliver": 3, "deliver_no_ack": 3, "redeliver": 1, "get_empty": 1,
    }  # fmt: skip
    client.feed(m.frame(0, m.ConnectionClose(200, "bye", 0, 0)))
    node.settle()
    assert figures(node.vhost.counters.closed) == {
        "publish": 6, "publish_confirm": 6, "confirm": 6, "return_unroutable": 1, "drop_unroutable": 1,
        "get": 1, "get_no_ack": 1, "get_empty": 1,
        "deliver": 3, "deliver_no_ack": 3, "redeliver": 1, "ack": 1,
    }  # fmt: skip
    assert (node.vhost.counters.channel_created, node.vhost.counters.channel_closed) == (3, 3)
