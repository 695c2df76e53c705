"""Routes that are long to find are found in slices, and nothing of that connection overtakes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amqp_router.connection.machine import CHUNK_UNITS, Machine
from amqp_router.protocol import methods as m
from amqp_router.protocol.fields import decode_table, encode_plain
from amqp_router.protocol.properties import encode_properties
from amqp_router.protocol.tick import Tick
from persistence.log.routing.names import WideNames
from persistence.log.routing.recorder import Backlog, Recorder, RouteEntry
from tests.nodes import Client, SimNode, publish_frames
from vhosts.exchanges.recent_history import RecentHistoryExchange
from vhosts.exchanges.route_names import RouteNames
from vhosts.publishing.keeping import KEEP_SLICE
from vhosts.vhost import VirtualHost

BINDINGS = 20_000
#: One turn looks at no more bindings than this.
LOOKS_MAX = 4096
STEPS = BINDINGS // LOOKS_MAX

PROPERTIES = encode_properties({"headers": decode_table(encode_plain({"a": 1}), 0)[0]})


def publish(exchange: str, key: str, body: bytes = b"x", channel: int = 1) -> bytes:
    return b"".join(publish_frames(channel, m.BasicPublish(exchange, key), PROPERTIES, body))


def finish(machine: Machine) -> int:
    """Let the machine work off what it has; returns the turns."""
    turns = 0
    while machine.work_left:
        machine.receive_more()
        assert machine.work.units <= 2 * CHUNK_UNITS
        turns += 1
        assert turns < 100
    return turns


def methods_of(client: Client) -> list[m.Method]:
    client.node.tick.wake()
    client.node.quiet()
    return [received.method for received in client.take()]


@pytest.fixture(scope="module")
def wide() -> SimNode:
    """Many bindings of two queues, at exchanges named as their types; each matches every publish here."""
    node = SimNode()
    vhost = node.vhost
    for name in ("q0", "q1"):
        vhost.declare_queue(name)
    for kind in ("headers", "fanout", "topic"):
        vhost.declare_exchange(kind, kind)
        for number in range(BINDINGS):
            arguments = {"x-match": "any", "a": 1, "b": number}
            table = decode_table(encode_plain(arguments), 0)[0]
            vhost.bind_queue(f"q{number % 2}", kind, "#", table, None)
    return node


@pytest.fixture(params=["headers", "fanout", "topic"])
def exchange(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(wide: SimNode) -> Client:
    for queue in wide.vhost.queues.values():
        queue.empty()
    return Client(wide).open(1, 2)


def test_later_frames_wait_for_a_long_route(client: Client, exchange: str) -> None:
    client.machine.receive_data(publish(exchange, "k1") + m.frame(1, m.QueuePurge("q0")))
    assert client.node.queue("q0").message_count() == 0
    client.machine.receive_data(m.frame(2, m.QueuePurge("q1")))
    assert finish(client.machine) >= STEPS
    assert methods_of(client) == [m.QueuePurgeOk(1), m.QueuePurgeOk(1)]


def test_a_long_route_is_remembered(client: Client, exchange: str) -> None:
    client.machine.receive_data(publish(exchange, "k2"))
    assert finish(client.machine) >= STEPS
    client.machine.receive_data(publish(exchange, "k2") * 10)
    assert not client.machine.work_left
    assert client.node.queue("q0").message_count() == 11


@pytest.mark.parametrize("size", [1, 300_000])
def test_content_that_came_in_pieces(client: Client, exchange: str, size: int) -> None:
    method, *content = publish_frames(1, m.BasicPublish(exchange, f"k3-{size}"), PROPERTIES, b"x" * size)
    begun = b"".join(publish_frames(2, m.BasicPublish("", "q0"), PROPERTIES, b"x")[:2])
    client.machine.receive_data(begun + method)
    for frame in content:
        client.machine.receive_data(frame)
    client.machine.receive_data(m.frame(1, m.QueuePurge("q0")))
    assert finish(client.machine) >= STEPS
    assert methods_of(client) == [m.QueuePurgeOk(1)]
    assert client.machine.dispatch.assembling == 1
    client.machine.receive_data(
        m.frame(1, m.ChannelClose(0, "", 0, 0)) + m.frame(2, m.ChannelClose(0, "", 0, 0))
    )
    assert client.machine.dispatch.assembling == 0


def test_bindings_that_change_meanwhile(client: Client, exchange: str) -> None:
    vhost = client.node.vhost
    client.machine.receive_data(publish(exchange, "k4"))
    assert client.machine.work_left
    vhost.declare_queue("late")
    vhost.bind_queue("late", exchange, "#", {"a": ("I", 1)}, None)
    vhost.declare_queue("gone")
    vhost.bind_queue("gone", exchange, "#", {"a": ("I", 1)}, None)
    client.machine.receive_more()
    vhost.delete_queue("gone")
    finish(client.machine)
    counts = {queue.name: queue.message_count() for queue in vhost.queues.values()}
    assert (counts["q0"], counts["q1"]) == (1, 1)
    assert counts["late"] <= 1  # it came while the message was on its way
    client.machine.receive_data(publish(exchange, "k4"))  # nothing of that way is remembered
    finish(client.machine)
    assert client.node.queue("late").message_count() == counts["late"] + 1
    vhost.delete_queue("late")


def test_a_walk_ends_though_bindings_never_cease_to_change(client: Client, exchange: str) -> None:
    """In as many turns as beside nobody, none of them longer."""
    vhost = client.node.vhost
    vhost.declare_queue("other")
    client.machine.receive_data(publish(exchange, "k5"))
    turns = 0
    while client.machine.work_left:
        vhost.bind_queue("other", exchange, f"{turns}.#", {"a": ("I", turns)}, None)
        vhost.unbind_queue("other", exchange, f"{turns - 1}.#", {"a": ("I", turns - 1)}, None)
        client.machine.receive_more()
        assert client.machine.work.units <= 2 * CHUNK_UNITS
        turns += 1
        assert turns <= 2 * STEPS
    assert client.node.queue("q0").message_count() == 1
    vhost.delete_queue("other")


def test_publishers_of_one_user_take_turns(client: Client, exchange: str) -> None:
    """They share what is remembered of routes, but each has its own way to go."""
    other = Client(client.node).open(1)
    client.machine.receive_data(publish(exchange, "k7"))
    other.machine.receive_data(publish(exchange, "k8"))
    turns = 0
    while client.machine.work_left or other.machine.work_left:
        client.machine.receive_more()
        other.machine.receive_more()
        turns += 1
        assert turns <= 2 * STEPS
    assert client.node.queue("q0").message_count() == 2


def test_the_exchange_goes_meanwhile() -> None:
    node = SimNode()
    node.vhost.declare_queue("q")
    node.vhost.declare_exchange("x", "fanout")
    for number in range(LOOKS_MAX + 1):
        node.vhost.bind_queue("q", "x", str(number), {}, None)
    client = Client(node).open(1)
    client.machine.receive_data(publish("x", "k"))
    assert client.machine.work_left
    node.vhost.delete_exchange("x")
    finish(client.machine)
    [closed] = methods_of(client)
    assert isinstance(closed, m.ChannelClose)
    assert closed.reply_code == 404
    assert node.queue("q").message_count() == 0


def test_the_connection_goes_meanwhile(client: Client, exchange: str) -> None:
    client.machine.receive_data(publish(exchange, "k6"))
    assert client.machine.work_left
    client.machine.stop()
    other = Client(client.node).open(1)
    other.machine.receive_data(publish(exchange, "k6"))
    finish(other.machine)
    assert client.node.queue("q0").message_count() == 1


# -- many exchanges on the way ---------------------------------------------------------------------

EXCHANGES = 2000


def alternates(vhost: VirtualHost) -> None:
    """Each exchange is the alternate of the one before."""
    for number in range(EXCHANGES):
        arguments = decode_table(encode_plain({"alternate-exchange": f"x{number + 1}"}), 0)[0]
        vhost.declare_exchange(f"x{number}", "direct", arguments=arguments)
    vhost.declare_exchange(f"x{EXCHANGES}", "fanout")


def chain(vhost: VirtualHost) -> None:
    """Each exchange is bound to the one before."""
    for number in range(EXCHANGES + 1):
        vhost.declare_exchange(f"x{number}", "fanout")
    for number in range(EXCHANGES):
        vhost.bind_exchange(f"x{number + 1}", f"x{number}", "", {})


@pytest.mark.parametrize("made", [alternates, chain])
def test_exchanges_on_the_way_count_as_much_as_they_cost(made: Callable[[VirtualHost], None]) -> None:
    """A visit of one takes as long as a look at many bindings, also if it has none."""
    node = SimNode()
    made(node.vhost)
    node.vhost.declare_queue("q")
    node.vhost.bind_queue("q", f"x{EXCHANGES}", "", {}, None)
    client = Client(node).open(1)
    client.machine.receive_data(publish("x0", "k"))
    assert node.queue("q").message_count() == 0
    assert finish(client.machine) >= EXCHANGES // 500
    assert node.queue("q").message_count() == 1


def test_exchanges_that_keep_messages_get_one_in_slices() -> None:
    node = SimNode()
    vhost = node.vhost
    vhost.declare_exchange("x", "fanout")
    names = [f"x{number}" for number in range(EXCHANGES)]
    for name in names:
        vhost.declare_exchange(name, "x-recent-history")
        vhost.bind_exchange(name, "x", "", {})
    kept = [vhost.exchanges[name] for name in names]

    def count() -> int:
        return sum(len(exchange.history) for exchange in kept if isinstance(exchange, RecentHistoryExchange))

    client = Client(node).open(1)
    client.machine.receive_data(publish("x", "k") + m.frame(1, m.BasicQos(0, 1)))
    before = most = count()
    while client.machine.work_left:
        client.machine.receive_more()
        before, most = count(), max(most, count() - before)
    assert before == EXCHANGES
    assert most <= KEEP_SLICE
    assert [type(each) for each in methods_of(client)] == [m.BasicQosOk]


def test_the_first_messages_to_many_queues_are_charged_for_their_names(client: Client) -> None:
    """The routing log gets a name for each queue."""
    node = client.node

    class Log:
        def entry(self, exchange: str, key: bytes, names: bytes | WideNames) -> RouteEntry:
            return RouteEntry(recorder, key, names)

    recorder = Recorder("d", Tick(lambda call: None), Backlog(), 1 << 20)
    node.vhost.table.names = RouteNames(Log())
    for number in range(500):
        node.vhost.declare_queue(f"named-{number}")
    frames = b"".join(publish("", f"named-{number}") for number in range(500))
    client.machine.receive_data(frames)
    assert finish(client.machine) >= 4
    client.machine.receive_data(frames)
    assert finish(client.machine) == 0


def test_bindings_that_go_are_charged_to_who_deletes_their_exchange(client: Client) -> None:
    vhost = client.node.vhost
    for number in range(30):
        vhost.declare_exchange(f"gone-{number}", "fanout")
        for key in range(90):
            vhost.bind_queue("q0", f"gone-{number}", str(key), {}, None)
    sent = b"".join(m.frame(1, m.ExchangeDelete(f"gone-{number}", nowait=True)) for number in range(30))
    client.machine.receive_data(sent)
    assert finish(client.machine) >= 5
