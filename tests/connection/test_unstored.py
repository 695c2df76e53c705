"""A client that changes definitions faster than they are stored waits for the store."""

from __future__ import annotations

import pytest

from amqp_router.connection.ports import ConnectionOptions
from amqp_router.connection.reading import TRICKLE_INFLOWS, TRICKLE_S
from amqp_router.connection.transport import Transport
from amqp_router.protocol import methods as m
from amqp_router.protocol.fields import Table
from tests.connection.test_transport import Socket, opened
from tests.nodes import SimNode

LIMIT = 1 << 18
LARGE: Table = {"x-custom": ("S", bytes(20_000))}


def opened_channel() -> tuple[SimNode, Transport, Socket]:
    node = SimNode(options=ConnectionOptions(unsynced_bytes_max=LIMIT))
    transport, sock = opened(node, 60)
    transport.data_received(m.frame(1, m.ChannelOpen()))
    return node, transport, sock


def declares(number: int, *, nowait: bool) -> bytes:
    declare = m.QueueDeclare(f"q{number}", durable=True, nowait=nowait, arguments=LARGE)
    return m.frame(1, declare) + m.frame(1, m.QueueDelete(f"q{number}", nowait=nowait))


@pytest.mark.parametrize("nowait", [True, False])
@pytest.mark.parametrize("alarm", [True, False])
def test_client_is_not_read_while_too_many_of_its_changes_are_not_stored(nowait: bool, alarm: bool) -> None:
    """Whether it wants answers or not; deleted queues leave nothing but the changes."""
    node, transport, sock = opened_channel()
    if alarm:
        node.alarms.set("memory")
    sent = 0
    while not sock.paused and sent < 100:
        transport.data_received(declares(sent, nowait=nowait))
        node.quiet()
        sent += 1
    assert 5 <= sent <= 7  # each is held twice
    assert not transport.machine.blocked
    node.commit(6)
    node.quiet()
    assert sock.paused
    node.settle()
    assert not sock.paused
    assert transport.machine.inflow.unsynced == 0
    transport.connection_lost(None)


def test_other_connections_declare_meanwhile() -> None:
    node, transport, sock = opened_channel()
    other, other_sock = opened(node, 60)
    other.data_received(m.frame(1, m.ChannelOpen()))
    for number in range(10):
        transport.data_received(declares(number, nowait=True))
    node.quiet()
    other.data_received(m.frame(1, m.QueueDeclare("other", durable=True)))
    node.quiet()
    assert (sock.paused, other_sock.paused) == (True, False)
    node.settle()
    assert b"other" in b"".join(other_sock.written)
    for each in (transport, other):
        each.connection_lost(None)


def test_trickle_of_a_consumer_ends_when_far_too_many_are_not_stored() -> None:
    node, transport, sock = opened_channel()
    transport.data_received(m.frame(1, m.QueueDeclare("c")) + m.frame(1, m.BasicConsume("c")))
    for number in range(100):
        transport.data_received(declares(number, nowait=True))
        node.quiet()
        if transport.machine.inflow.unsynced > TRICKLE_INFLOWS * LIMIT:
            break
        node.sleep(TRICKLE_S)
        assert not sock.paused  # for a chunk, which may bring acknowledgements
    node.sleep(10 * TRICKLE_S)
    assert sock.paused
    node.settle()
    assert not sock.paused
    transport.connection_lost(None)


def test_changes_that_cannot_be_stored_hold_nobody() -> None:
    """The client must be read to hear that its declarations fail."""
    node, transport, sock = opened_channel()
    for number in range(10):
        transport.data_received(declares(number, nowait=True))
    node.quiet()
    assert sock.paused
    changes = transport.machine.shared.unstored_changes
    assert changes is not None
    node.commits.failed = OSError("no space")
    changes.failed()
    assert not sock.paused
    changes.add(1000, 1 << 20)
    assert not sock.paused
    node.settle()  # the store has recovered
    node.commits.failed = None
    assert transport.machine.inflow.unsynced == 0
    transport.data_received(declares(10, nowait=True))
    node.settle()
    assert transport.machine.inflow.unsynced == 0
    transport.connection_lost(None)


def test_connection_that_is_gone_waits_for_nothing() -> None:
    node, transport, _ = opened_channel()
    for number in range(10):
        transport.data_received(declares(number, nowait=True))
    transport.connection_lost(None)
    node.settle()
    assert node.faults == []
