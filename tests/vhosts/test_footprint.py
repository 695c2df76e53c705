"""What is declared counts in the node's account, and may not fill it."""

from __future__ import annotations

import pytest

from amqp_router.protocol import methods as m
from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.fields import Table
from amqp_router.protocol.kept_table import KeptTable
from tests.nodes import Client, SimNode

BIG: Table = {"x-custom": ("A", [("t", True)] * 60_000)}
MATCH: Table = {"x-match": ("S", b"any"), "a": ("S", b"b" * 300)}


def test_account_is_as_before_when_all_is_deleted() -> None:
    node = SimNode()
    vhost = node.vhost
    before = node.budget.kept
    vhost.declare_exchange("e", "topic", durable=True, arguments=BIG)
    vhost.declare_exchange("f", "headers", auto_delete=True)
    for name in ("q", "r"):
        vhost.declare_queue(name, durable=name == "q", arguments=BIG)
        vhost.bind_queue(name, "e", "key.#", BIG, None)
        vhost.bind_queue(name, "f", "", MATCH, None)
        vhost.bind_queue(name, "f", "", MATCH, None)
    vhost.bind_exchange("e", "f", "", {})
    node.settle()
    assert node.budget.kept - before > 5 * 120_000
    vhost.delete_queue("q")
    vhost.unbind_queue("r", "e", "key.#", BIG, None)
    vhost.delete_exchange("e")
    vhost.delete_queue("r")
    node.settle()
    assert "f" not in vhost.exchanges
    assert node.budget.kept == before


def test_account_of_a_restart_is_that_of_the_declares() -> None:
    node = SimNode()
    node.vhost.declare_exchange("e", "topic", durable=True, arguments=BIG)
    node.vhost.declare_queue("q", durable=True, arguments=BIG)
    node.vhost.bind_queue("q", "e", "key", BIG, None)
    node.settle()
    again = SimNode(node.disk, node.definitions, boot=2)
    assert again.budget.kept == node.budget.kept
    assert isinstance(again.queue("q").arguments, KeptTable)
    assert again.queue("q").arguments == BIG


def test_definitions_take_a_quarter_of_the_limit_and_no_more() -> None:
    node = SimNode(memory_limit=16 << 20)
    client = Client(node).open(1, 2)
    while node.budget.has_room_to_keep(0):
        node.vhost.declare_queue(f"q{len(node.vhost.queues)}", durable=False, arguments=BIG)
    declared = len(node.vhost.queues)
    with pytest.raises(
        PreconditionFailed, match="cannot declare queue 'more' in vhost '/': definitions may take no"
    ):
        node.vhost.declare_queue("more", durable=False)
    assert 25 < declared < 34
    client.send(m.ExchangeDeclare("e", "topic"))
    client.send(m.QueueBind("q0", "amq.topic", "k"), channel=2)
    node.quiet()
    closes = [each.method for each in client.take()]
    assert [(type(each), each.reply_code) for each in closes] == [(m.ChannelClose, 406)] * 2  # type: ignore[attr-defined]
    node.vhost.declare_queue("q0", durable=False, arguments=BIG)  # what is there may be declared again
    node.vhost.delete_queue("q0")
    node.vhost.declare_queue("q0", durable=False, arguments=BIG)


def test_large_tables_cost_units_of_the_chunk() -> None:
    """A dozen of them in one chunk are not decoded in one turn."""
    node = SimNode()
    client = Client(node).open(1)
    chunk = b"".join(
        m.frame(1, m.QueueDeclare(f"q{number}", nowait=True, arguments=BIG)) for number in range(12)
    )
    client.machine.receive_data(chunk)
    turns = 1
    while client.machine.work_left:
        assert len(node.vhost.queues) == turns
        client.machine.receive_more()
        turns += 1
    assert len(node.vhost.queues) == 12
