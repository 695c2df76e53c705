"""An error of a channel that ends its connection: it goes first, and the others may get what it had."""

from __future__ import annotations

import pytest

from amqp_router.channel.delivery import RETURN_SLICE
from amqp_router.protocol import methods as m
from amqp_router.protocol.errors import FrameError, NotImplementedByServer
from tests.nodes import TRANSIENT, Client, SimNode, publish_frames

#: Prefetch by size, which is not there: 540.
WRONG = m.frame(2, m.BasicQos(1, 0, False))
#: A frame of a kind that is not there: 501.
NO_FRAME = b"\x05\x00\x02\x00\x00\x00\x00\xce"


def two_clients(node: SimNode, count: int, *, no_ack: bool = False) -> tuple[Client, Client]:
    """The first has ``count`` messages on channel 2. Its channel 1, and then the other one, consume too."""
    client, other = Client(node).open(1, 2), Client(node).open(1, 2)
    client.declare("q")
    client.send(m.BasicConsume("q", "f"), channel=2)
    method = m.BasicPublish("", "q")
    other.feed(b"".join(b"".join(publish_frames(2, method, TRANSIENT, b"%d" % n)) for n in range(count)))
    node.settle()
    client.send(m.BasicConsume("q", "o", no_ack=no_ack))
    other.send(m.BasicConsume("q", "w"))
    node.settle()
    for each in (client, other):
        each.take()
    return client, other


def heard(client: Client) -> list[str]:
    return [received.body.decode() or type(received.method).__name__ for received in client.take()]


@pytest.mark.parametrize("no_ack", [False, True])
def test_its_other_channel_may_get_what_the_failed_one_had(no_ack: bool) -> None:
    node = SimNode()
    client, other = two_clients(node, 4, no_ack=no_ack)
    client.feed(WRONG)
    node.settle()
    assert heard(client) == ["0", "2", "ConnectionClose"]
    assert heard(other) == (["1", "3"] if no_ack else ["1", "3", "0", "2"])


def test_an_error_of_the_connection_ends_all_at_once() -> None:
    node = SimNode()
    client, other = two_clients(node, 3)
    client.feed(NO_FRAME)
    client.closed_with(FrameError)
    node.settle()
    assert heard(other) == ["0", "1", "2"]


def test_very_many_return_in_slices() -> None:
    node = SimNode()
    count = 4 * RETURN_SLICE
    client, other = two_clients(node, count)
    client.feed(WRONG + m.frame(2, m.BasicPublish("", "q")) * 3)
    turns = 0
    while not client.machine.shared.stopped:
        node.turn()
        turns += 1
    assert turns > 3
    node.settle()
    *got, last = heard(client)
    assert last == "ConnectionClose"
    assert got == [str(number) for number in range(0, count, 2)]
    again = [str(number) for number in (*range(1, count, 2), *range(0, count, 2))]
    assert heard(other) == again
    assert not node.faults


def test_the_socket_goes_in_the_midst_of_slices() -> None:
    node = SimNode()
    count = 4 * RETURN_SLICE
    client, other = two_clients(node, count)
    client.feed(WRONG)
    node.turn()
    client.drop()
    node.settle()
    assert sorted(map(int, heard(other))) == list(range(count))
    assert node.queue("q").unacked_count == count
    assert not node.faults


def test_the_error_is_that_of_the_method() -> None:
    node = SimNode()
    client, _ = two_clients(node, 1)
    client.feed(WRONG)
    close = client.closed_with(NotImplementedByServer)
    assert (close.class_id, close.method_id) == (60, 10)
