"""x-delayed-message: when messages come, and the header and arguments that say so.

docs/exchanges.md has the contract.
"""

from __future__ import annotations

from typing import Any

import pytest

from amqp_router.protocol import errors
from amqp_router.protocol import methods as m
from amqp_router.protocol.fields import Field
from amqp_router.protocol.properties import encode_properties
from tests.nodes import Client, SimNode
from tests.vhosts.delaying import bound, declare, pass_time, publish, ready, taken, typed, waiting
from vhosts.exchanges.delayed import DELAY_MAX, delay_ms, without_delay


@pytest.fixture
def client() -> Client:
    return Client(SimNode()).open(1)


# -- waiting ------------------------------------------------------------------------------------------


def test_messages_come_when_they_are_due(client: Client) -> None:
    declare(client)
    bound(client)
    publish(client, b"late", 5000)
    publish(client, b"soon", 1000)
    publish(client, b"now")
    assert (waiting(client), ready(client)) == (2, 1)
    pass_time(client, 0.9)
    assert ready(client) == 1
    pass_time(client, 0.2)
    assert (waiting(client), ready(client)) == (1, 2)
    pass_time(client, 3.8)
    assert ready(client) == 2
    pass_time(client, 0.2)
    assert (waiting(client), ready(client)) == (0, 3)
    assert [body for body, _ in taken(client)] == [b"now", b"soon", b"late"]
    assert not client.node.faults


def test_a_delivered_message_shows_its_delay_negated(client: Client) -> None:
    declare(client)
    bound(client)
    publish(client, b"1", 1000, headers={"h": ("I", 7)}, message_id="m", priority=3)
    pass_time(client, 1.1)
    ((body, properties),) = taken(client)
    assert body == b"1"
    assert properties["headers"] == {"h": ("I", 7), "x-delay": ("I", -1000)}
    assert (properties["message_id"], properties["priority"]) == ("m", 3)


def test_equal_due_times_keep_their_order(client: Client) -> None:
    declare(client)
    bound(client)
    for number in range(100):
        publish(client, b"%d" % number, 1000)
    pass_time(client, 2)
    assert [body for body, _ in taken(client)] == [b"%d" % number for number in range(100)]


def test_routed_as_at_the_time_when_it_is_due(client: Client) -> None:
    declare(client, "topic")
    bound(client, "a.*", "before")
    publish(client, b"1", 1000, "a.b")
    client.send(m.QueueUnbind("before", "x", "a.*"))
    bound(client, "#.b", "after")
    pass_time(client, 2)
    assert (ready(client, "before"), ready(client, "after")) == (0, 1)


@pytest.mark.parametrize("kind", ["fanout", "headers", "x-random", "x-modulus-hash", "x-recent-history"])
def test_other_types(client: Client, kind: str) -> None:
    declare(client, kind)
    bound(client, "1")
    publish(client, b"1", 1000)
    assert ready(client) == 0
    pass_time(client, 2)
    assert ready(client) == 1
    if kind == "x-recent-history":
        bound(client, "2", "r")
        assert ready(client, "r") == 1


def test_keys_of_cc_and_bcc_count_when_it_is_due(client: Client) -> None:
    declare(client)
    for queue in ("to", "cc", "bcc"):
        bound(client, queue, queue)
    keys = {name: ("A", [("S", name.lower().encode())]) for name in ("CC", "BCC")}
    publish(client, b"1", 1000, "to", headers=keys)
    pass_time(client, 2)
    for queue in ("to", "cc", "bcc"):
        ((_, properties),) = taken(client, queue)
        assert properties["headers"] == {"CC": keys["CC"], "x-delay": ("I", -1000)}


def test_between_exchanges(client: Client) -> None:
    """A copy that another exchange passes on waits; what the consumer sees is the first exchange."""
    declare(client, "fanout")
    bound(client)
    client.send(m.ExchangeBind("x", "amq.fanout", ""))
    bound(client, "", "at once")
    client.send(m.QueueUnbind("at once", "x", ""), m.QueueBind("at once", "amq.fanout", ""))
    client.node.settle()
    publish(client, b"1", 1000, "some key", "amq.fanout")
    assert (ready(client), ready(client, "at once")) == (0, 1)
    pass_time(client, 2)
    client.take()
    got = client.call(m.BasicGet("q", no_ack=True), m.BasicGetOk)
    assert (got.exchange, got.routing_key) == ("amq.fanout", "some key")


def test_alternate_exchange_when_it_is_due(client: Client) -> None:
    declare(client, **{"alternate-exchange": "amq.fanout"})
    client.send(m.QueueDeclare("spare"), m.QueueBind("spare", "amq.fanout", ""))
    client.node.settle()
    client.take()
    publish(client, b"1", 1000)
    assert ready(client, "spare") == 0
    pass_time(client, 2)
    assert ready(client, "spare") == 1


def test_time_to_live_begins_when_it_is_due(client: Client) -> None:
    declare(client)
    bound(client)
    publish(client, b"1", 5000, expiration="1000")
    pass_time(client, 5.5)
    assert ready(client) == 1
    pass_time(client, 1)
    assert ready(client) == 0


def test_confirmed_when_it_is_stored_and_never_returned(client: Client) -> None:
    declare(client)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    properties = encode_properties({"delivery_mode": 2, "headers": {"x-delay": ("I", 1000)}})
    client.publish(b"1", "nobody", "x", properties, mandatory=True)
    client.node.quiet()
    assert client.take() == []
    client.node.settle()
    (received,) = client.take()
    assert isinstance(received.method, m.BasicAck)
    pass_time(client, 2)
    assert client.take() == []
    assert waiting(client) == 0


def test_counted_once(client: Client) -> None:
    declare(client)
    bound(client)
    publish(client, b"1", 1000)
    pass_time(client, 2)
    counters = client.node.vhost.exchanges["x"].counters
    assert (counters.publish_in, counters.publish_out) == (1, 1)


# -- header and arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "delay"),
    [
        (("I", 1), 1),
        (("b", 100), 100),
        (("l", DELAY_MAX), DELAY_MAX),
        (("l", DELAY_MAX + 1), 0),
        (("I", 0), 0),
        (("I", -5), 0),
        (("S", b"250"), 250),
        (("S", b"-250"), 0),
        (("d", 1.9), 1),
        (("d", float("inf")), 0),
        (("d", float("nan")), 0),
        (("D", (1, 25)), 2),
        (("t", True), 0),
        (("V", None), 0),
        (("x", b"5"), 0),
    ],
)
def test_values_of_the_header(field: Field, delay: int) -> None:
    headers = {"x-delay": field}
    assert delay_ms(headers) == delay
    if delay:
        assert delay_ms(without_delay(headers)) == 0
        assert without_delay(headers)["x-delay"][1] == -delay


def test_a_text_that_is_no_number(client: Client) -> None:
    declare(client)
    publish(client, b"1", ("S", b"soon"))
    close = client.closed_with(errors.PreconditionFailed)
    assert close.reply_text == "PRECONDITION_FAILED - invalid x-delay 'soon': no_integer"


@pytest.mark.parametrize("value", [None, 1, "x-delayed-message"])
def test_wrong_types(client: Client, value: Any) -> None:
    table = typed({} if value is None else {"x-delayed-type": value})
    client.send(m.ExchangeDeclare("x", "x-delayed-message", arguments=table))
    close = client.closed_with(errors.PreconditionFailed)
    wanted = "Invalid argument, 'x-delayed-type' must be an existing exchange type"
    assert close.reply_text == f"PRECONDITION_FAILED - {wanted}"


def test_an_unknown_type(client: Client) -> None:
    client.send(m.ExchangeDeclare("x", "x-delayed-message", arguments=typed({"x-delayed-type": "nope"})))
    assert client.closed_with(errors.CommandInvalid).reply_text.endswith("unknown exchange type 'nope'")


def test_arguments_of_the_inner_type_are_checked(client: Client) -> None:
    declare(client, "x-consistent-hash")
    client.send(m.QueueDeclare("q"), m.QueueBind("q", "x", "no weight"))
    client.node.settle()
    assert "must be an integer" in client.closed_with(errors.PreconditionFailed).reply_text


# -- restarts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [False, True])
def test_the_due_time_survives_a_restart(clean: bool) -> None:
    node = SimNode()
    client = Client(node).open(1)
    declare(client)
    bound(client)
    publish(client, b"late", 50_000)
    publish(client, b"soon", 10_000)
    publish(client, b"transient", 10_000, delivery_mode=1)
    client.drop()
    node.settle()
    node.sleep(5)
    if clean:
        node.stop()
    again = SimNode(node.disk, node.definitions, boot=2, clock=node.clock)
    client = Client(again).open(1)
    assert waiting(client) == 2
    pass_time(client, 4)
    assert ready(client) == 0
    pass_time(client, 2)
    assert [body for body, _ in taken(client)] == [b"soon"]
    pass_time(client, 50)
    assert [body for body, _ in taken(client)] == [b"late"]


def test_what_was_due_meanwhile_comes_at_the_start() -> None:
    node = SimNode()
    client = Client(node).open(1)
    declare(client)
    bound(client)
    for number in range(50):
        publish(client, b"%d" % number, 1000)
    node.clock.advance(100)
    again = SimNode(node.disk, node.definitions, boot=2, clock=node.clock)
    client = Client(again).open(1)
    pass_time(client, 0.01)
    assert (waiting(client), ready(client)) == (0, 50)


def test_a_crash_between_release_and_settle_releases_once() -> None:
    """The target has it on disk, the internal queue's log does not know yet."""
    node = SimNode()
    client = Client(node).open(1)
    declare(client)
    bound(client)
    publish(client, b"1", 1000)
    node.sleep(1.1)
    node.sync_once()
    before = node.queue("q").message_count()
    again = SimNode(node.disk, node.definitions, boot=2, clock=node.clock)
    client = Client(again).open(1)
    pass_time(client, 1)
    assert before == 1
    assert (waiting(client), ready(client)) == (0, 1)
