"""x-recent-history as a client sees it; measured on RabbitMQ 3.10.8."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from amqp_router.protocol import errors
from amqp_router.protocol import methods as m
from amqp_router.protocol.fields import decode_table, encode_plain
from amqp_router.protocol.properties import encode_properties
from persistence.errors import PersistenceError
from tests.nodes import PERSISTENT, TRANSIENT, Client, SimNode, publish_frames
from vhosts.exchanges import recent_history
from vhosts.exchanges.recent_history import RecentHistoryExchange


def typed(**values: Any) -> Any:
    return decode_table(encode_plain({name.replace("_", "-"): value for name, value in values.items()}), 0)[0]


@pytest.fixture
def client() -> Client:
    return Client(SimNode()).open(1)


def declare(client: Client, length: int | None = None, name: str = "x") -> RecentHistoryExchange:
    arguments = {} if length is None else typed(x_recent_history_length=length)
    client.call(m.ExchangeDeclare(name, "x-recent-history", arguments=arguments), m.ExchangeDeclareOk)
    exchange = client.node.vhost.exchanges[name]
    assert isinstance(exchange, RecentHistoryExchange)
    return exchange


def publish(client: Client, *bodies: bytes, headers: Any = None, exchange: str = "x") -> None:
    properties = b"\0\0" if headers is None else encode_properties({"headers": headers})
    for body in bodies:
        client.publish(body, f"key of {body.decode()}"[:200], exchange, properties)
    client.node.quiet()


def bind(client: Client, queue: str = "q", key: str = "") -> None:
    client.call(m.QueueBind(queue, "x", key), m.QueueBindOk)


def bodies(client: Client, queue: str = "q") -> list[bytes]:
    """What is in the queue, which is emptied; each message says where it was published."""
    found = []
    while True:
        client.send(m.BasicGet(queue, no_ack=True))
        client.node.quiet()
        (received,) = client.take()
        if isinstance(received.method, m.BasicGetEmpty):
            return found
        assert isinstance(received.method, m.BasicGetOk)
        assert (received.method.exchange, received.method.routing_key) == (
            "x",
            f"key of {received.body.decode()}",
        )
        found.append(received.body)


def test_new_bindings_get_the_last_messages(client: Client) -> None:
    declare(client, 3)
    client.declare("q")
    publish(client, b"1", b"2", b"3", b"4", b"5")
    bind(client)
    publish(client, b"6")
    assert bodies(client) == [b"3", b"4", b"5", b"6"]
    bind(client)  # it is there already
    assert bodies(client) == []
    bind(client, key="another")
    assert bodies(client) == [b"4", b"5", b"6"]
    publish(client, b"7")
    assert bodies(client) == [b"7"]


def test_twenty_by_default(client: Client) -> None:
    exchange = declare(client)
    publish(client, *[b"%d" % number for number in range(30)])
    assert len(exchange.history) == 20


def test_what_is_not_to_be_stored(client: Client) -> None:
    declare(client)
    client.declare("q")
    no_store = "x-recent-history-no-store"
    publish(client, b"never", headers={no_store: ("t", True)})
    publish(client, b"no", headers={no_store: ("t", False)})
    publish(client, b"text", headers={no_store: ("S", b"true")})
    bind(client)
    assert bodies(client) == [b"no", b"text"]
    publish(client, b"now", headers={no_store: ("t", True)})
    assert bodies(client) == [b"now"]


def test_bcc_is_not_in_the_history(client: Client) -> None:
    exchange = declare(client)
    publish(client, b"1", headers={"BCC": ("A", [("S", b"k")]), "h": ("t", True)})
    (kept,) = exchange.history
    assert kept.properties() == encode_properties({"headers": {"h": ("t", True)}})


def test_history_of_what_comes_by_other_exchanges(client: Client) -> None:
    exchange = declare(client)
    client.call(m.ExchangeBind("x", "amq.fanout", ""), m.ExchangeBindOk)
    publish(client, b"1", exchange="amq.fanout")
    publish(client, b"2", exchange="amq.fanout")
    publish(client, b"3", exchange="amq.direct")
    assert [message.body() for message in exchange.history] == [b"1", b"2"]


def test_history_goes_through_a_bound_exchange(client: Client) -> None:
    declare(client)
    client.declare("q")
    client.declare("r")
    client.call(m.QueueBind("q", "amq.direct", "key of 2"), m.QueueBindOk)
    client.call(m.QueueBind("r", "amq.direct", "key of 3"), m.QueueBindOk)
    publish(client, b"1", b"2", b"3")
    client.call(m.ExchangeBind("amq.direct", "x", ""), m.ExchangeBindOk)
    assert bodies(client) == [b"2"]
    assert bodies(client, "r") == [b"3"]


def test_persistent_history_is_stored_with_the_queue(client: Client) -> None:
    node = client.node
    declare(client)
    client.declare("q", durable=True)
    client.publish(b"1", "key of 1", "x", PERSISTENT)
    client.node.quiet()
    bind(client)
    node.settle()
    client.drop()
    node.settle()
    again = SimNode(node.disk, node.definitions, boot=2)
    assert again.queue("q").message_count() == 1


def test_no_history_if_the_binding_is_refused(client: Client) -> None:
    client.call(m.ExchangeDeclare("y", "x-recent-history"), m.ExchangeDeclareOk)
    client.send(m.ExchangeDeclare("x", "x-recent-history", durable=True))
    client.node.settle()
    client.take()
    queue = client.declare("q", durable=True)
    publish(client, b"1")
    client.node.fail_definitions(PersistenceError("no"))
    client.send(m.QueueBind("q", "x", ""))
    client.node.quiet()
    assert queue.message_count() == 0


def test_a_long_history_goes_in_slices(client: Client) -> None:
    declare(client, 5000)
    queue = client.declare("q")
    publish(client, *[b"%d" % number for number in range(3000)])
    client.send(m.QueueBind("q", "x", ""))
    client.node.turn()
    assert 0 < queue.message_count() < 3000
    client.node.quiet()
    client.take()
    assert bodies(client) == [b"%d" % number for number in range(3000)]


def test_memory_of_the_history_is_bounded_and_counted(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_history, "HISTORY_BYTES_MAX", 10_000)
    budget = client.node.budget
    before = budget.kept
    exchange = declare(client, 1 << 40)
    publish(client, *[b"%04d" % number for number in range(1000)])
    assert 20 < len(exchange.history) < 50
    assert exchange.history[-1].body() == b"0999"
    assert budget.kept - before > 5000
    publish(client, bytes(20_000))  # larger than all room: the history is empty
    assert not exchange.history
    publish(client, b"1")
    client.call(m.ExchangeDelete("x"), m.ExchangeDeleteOk)
    assert budget.kept == before


def test_short_memory_shortens_the_history() -> None:
    client = Client(SimNode(memory_limit=1 << 20)).open(1)
    exchange = declare(client, 1 << 40)
    publish(client, *[b"%0500d" % number for number in range(1000)])
    assert client.node.budget.kept <= (1 << 20) // 4
    assert 50 < len(exchange.history) < 500
    assert int(exchange.history[-1].body()) == 999


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (-1, "-1"),
        ("a", '<<"a">>'),
        ("ä", '<<"ä">>'),
        ("À", "<<195,128>>"),
        (True, "true"),
        (1.5, "1.5"),
        ({"credit": 1, "drain": True}, '[{<<"credit">>,signedint,1},{<<"drain">>,bool,true}]'),
        (Decimal("1.5"), "{1,15}"),
        ([1, "q", [None]], '[{signedint,1},{longstr,<<"q">>},{array,[{void,undefined}]}]'),
    ],
)
def test_wrong_lengths(client: Client, value: Any, shown: str) -> None:
    arguments = typed(x_recent_history_length=value)
    client.send(m.ExchangeDeclare("x", "x-recent-history", arguments=arguments))
    close = client.closed_with(errors.PreconditionFailed)
    wanted = f"Invalid argument {shown}, 'x-recent-history-length' must be a positive integer"
    assert close.reply_text == f"PRECONDITION_FAILED - {wanted}"


def test_what_is_published_behind_a_binding_comes_after_a_long_history(client: Client) -> None:
    """It is passed on in slices, and the client's later frames wait. So it has one copy of it at a time."""
    exchange = declare(client, 5000)
    publish(client, *[b"%d" % number for number in range(4000)])
    assert len(exchange.history) == 4000
    passing = client.node.vhost.topology.passing
    client.declare("q")
    client.declare("r")
    client.feed(
        m.frame(1, m.QueueBind("q", "x", "", nowait=True))
        + m.frame(1, m.QueueBind("r", "x", "", nowait=True))
        + b"".join(publish_frames(1, m.BasicPublish("x", "key of last"), TRANSIENT, b"last"))
    )
    most = 0
    while client.node.ready:
        most = max(most, len(passing._left))
        client.node.turn()
    assert most == 1
    assert bodies(client) == bodies(client, "r") == [*[b"%d" % number for number in range(4000)], b"last"]
