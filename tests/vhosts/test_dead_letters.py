"""What a dead letter says, and where it goes. Expectations are those measured with RabbitMQ 3.10.8."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_router.protocol import methods as m
from tests.nodes import Client, SimNode
from tests.persistence.log.support import unsettled
from tests.vhosts.dying import OPTIONS, TO_DEAD, deaths, letter, made, plain, publish, reject
from tests.vhosts.queues.local import declared, drained, typed
from vhosts.queues.settings import NO_SETTINGS, QueueSettings


@pytest.fixture
def node() -> SimNode:
    return SimNode(log_options=OPTIONS)


FIRST = {"x-first-death-exchange": "", "x-first-death-queue": "src"}


def first(properties: dict[str, Any]) -> dict[str, str]:
    headers = properties["headers"]
    return {name: headers[name][1].decode() for name in headers if name.startswith("x-first-death-")}


# -- what a letter says -------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [False, True])
def test_rejected(node: SimNode, durable: bool) -> None:
    queue, dead = declared(node, "src", durable=durable, **TO_DEAD), declared(node, "dead", durable=durable)
    headers = {"h": ("I", 1)}
    publish(
        node,
        queue,
        made(
            b"rej",
            content_type="text/plain",
            headers=headers,
            message_id="m1",
            expiration="60000",
            priority=3,
        ),
    )
    reject(node, queue)
    found, properties = letter(dead)
    assert (found.route, found.body()) == (b"\x00\x04dead", b"rej")
    assert not found.flags & 2
    assert deaths(properties)[0]["count"] == ("l", 1)
    assert deaths(properties)[0]["time"] == ("T", node.clock.wall_us() // 1_000_000)
    assert [plain(each) for each in deaths(properties)] == [
        {
            "count": ("l", 1),
            "reason": "rejected",
            "queue": "src",
            "exchange": "",
            "routing-keys": ["src"],
            "original-expiration": "60000",
        }
    ]
    assert first(properties) == {**FIRST, "x-first-death-reason": "rejected"}
    assert properties["headers"]["h"] == ("I", 1)
    assert "expiration" not in properties
    kept = {name: properties[name] for name in ("content_type", "message_id", "priority", "delivery_mode")}
    assert kept == {"content_type": "text/plain", "message_id": "m1", "priority": 3, "delivery_mode": 2}
    assert queue.budget.used == 0
    node.settle()
    assert not durable or unsettled(queue.log) == unsettled(dead.log) == []


def test_expired(node: SimNode) -> None:
    queue, dead = declared(node, "src", message_ttl=100, **TO_DEAD), declared(node, "dead")
    publish(node, queue, made(b"ttl"))
    node.sleep(0.2)
    node.settle()
    found, properties = letter(dead)
    assert found.body() == b"ttl"
    assert [plain(each)["reason"] for each in deaths(properties)] == ["expired"]
    assert queue.expired_total == 1


def test_too_many(node: SimNode) -> None:
    queue, dead = declared(node, "src", max_length=1, **TO_DEAD), declared(node, "dead")
    publish(node, queue, made(b"1"), made(b"2"))
    found, properties = letter(dead)
    assert (found.body(), plain(deaths(properties)[0])["reason"]) == (b"1", "maxlen")
    assert drained(queue) == ["2"]


@pytest.mark.parametrize("durable", [False, True])
def test_refused_with_a_letter(node: SimNode, durable: bool) -> None:
    options = {"max_length": 1, "overflow": "reject-publish-dlx", **TO_DEAD}
    queue = declared(node, "src", durable=durable, **options)
    dead = declared(node, "dead", durable=durable)
    client = Client(node).open(1)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    for body in (b"0", b"1", b"2"):
        client.publish(body, "src")
    node.settle()
    nacked = [each.method.delivery_tag for each in client.take() if isinstance(each.method, m.BasicNack)]
    assert nacked == [2, 3]
    assert [each.body() for each, _ in (letter(dead), letter(dead))] == [b"1", b"2"]
    assert drained(queue) == ["0"]
    assert queue.budget.used == 0


def test_with_a_key_of_its_own_cc_goes(node: SimNode) -> None:
    queue, dead, copied = declared(node, "src", **TO_DEAD), declared(node, "dead"), declared(node, "cc")
    headers = {"CC": ("A", [("S", b"cc")])}
    publish(node, queue, made(b"cc", headers=headers))
    reject(node, queue)
    _, properties = letter(dead)
    assert plain(deaths(properties)[0])["routing-keys"] == ["src", "cc"]
    assert "CC" not in properties["headers"]
    assert copied.is_empty()


def test_without_a_key_it_keeps_those_it_had(node: SimNode) -> None:
    node.vhost.declare_exchange("dlx", "topic", durable=True)
    queue, dead = declared(node, "src", dead_letter_exchange="dlx"), declared(node, "dead")
    node.vhost.bind_queue("dead", "dlx", "k.2", {}, None)
    node.settle()
    one = made(b"cc", headers={"CC": ("A", [("S", b"k.2")])})
    node.enter(queue.publish, one)
    one.route = b"\x09amq.topic\x03k.1"
    reject(node, queue)
    found, properties = letter(dead)
    assert found.route.startswith(b"\x03dlx")
    assert properties["headers"]["CC"] == ("A", [("S", b"k.2")])
    assert plain(deaths(properties)[0])["routing-keys"][1:] == ["k.2"]


def test_two_hops_and_a_second_round(node: SimNode) -> None:
    a = declared(node, "a", message_ttl=50, dead_letter_exchange="", dead_letter_routing_key="b")
    declared(node, "b", message_ttl=50, **TO_DEAD)
    dead = declared(node, "dead")
    publish(node, a, made(b"hop", expiration="40"))
    for _ in range(3):
        node.sleep(0.06)
        node.settle()
    _, properties = letter(dead)
    shown = [plain(each) for each in deaths(properties)]
    assert [(each["queue"], each["reason"], each["count"]) for each in shown] == [
        ("b", "expired", ("l", 1)),
        ("a", "expired", ("l", 1)),
    ]
    assert shown[1]["original-expiration"] == "40"
    assert first(properties)["x-first-death-queue"] == "a"


def test_deaths_that_the_client_wrote(node: SimNode) -> None:
    queue, dead = declared(node, "src", message_ttl=50, **TO_DEAD), declared(node, "dead")
    known = {"queue": ("S", b"src"), "reason": ("S", b"expired"), "count": ("l", 5), "exchange": ("S", b"")}
    other = {"queue": ("S", b"zzz"), "reason": ("S", b"rejected")}
    headers = {"x-death": ("A", [("F", other), ("F", known)]), "x-first-death-queue": ("S", b"zzz")}
    publish(node, queue, made(b"hop2", headers=headers))
    node.sleep(1)
    node.settle()
    _, properties = letter(dead)
    assert deaths(properties) == [{**known, "count": ("l", 6)}, other]
    assert first(properties) == {"x-first-death-queue": "zzz"}


@pytest.mark.parametrize(
    "value", [("S", b"text"), ("A", [("S", b"x")]), ("A", [("F", {"count": ("S", b"z")})])]
)
def test_odd_deaths_that_the_client_wrote(node: SimNode, value: Any) -> None:
    queue, dead = declared(node, "src", **TO_DEAD), declared(node, "dead")
    publish(node, queue, made(headers={"x-death": value}))
    reject(node, queue)
    _, properties = letter(dead)
    assert plain(deaths(properties)[0])["queue"] == "src"


# -- targets ------------------------------------------------------------------------------------------


def test_an_internal_exchange_takes_letters(node: SimNode) -> None:
    """No client may publish to it; the permission to declare was enough."""
    node.vhost.declare_exchange("inner", "fanout", internal=True)
    dead = declared(node, "dead")
    node.vhost.bind_queue("dead", "inner", "", {}, None)
    queue = declared(node, dead_letter_exchange="inner")
    publish(node, queue, made())
    reject(node, queue)
    assert letter(dead)[0].route == b"\x05inner\x01q"


def test_no_such_exchange_is_a_silent_drop(node: SimNode) -> None:
    queue = declared(node, "src", dead_letter_exchange="nowhere")
    publish(node, queue, made())
    reject(node, queue)
    assert unsettled(queue.log) == []
    declared(node, "none", **TO_DEAD)
    publish(node, node.queue("none"), made())
    reject(node, node.queue("none"))
    assert unsettled(node.queue("none").log) == []


def test_the_target_is_read_when_a_message_dies(node: SimNode) -> None:
    queue, dead = declared(node, "src", message_ttl=100), declared(node, "dead")
    publish(node, queue, made(b"waits"))
    queue.apply_settings(
        QueueSettings(message_ttl_ms=100, dead_letter_exchange="", dead_letter_routing_key="dead")
    )
    node.sleep(0.2)
    node.settle()
    assert letter(dead)[0].body() == b"waits"
    queue.apply_settings(NO_SETTINGS)


def test_neighbours_say_each_what_is_its_own(node: SimNode) -> None:
    """What one letter says of its death is kept for the next; any difference makes that useless."""
    dead = declared(node, "dead", durable=True)
    one = declared(node, "one", durable=True, **TO_DEAD)
    other = declared(node, "other", durable=True, **TO_DEAD)
    keeps = declared(node, "keeps", durable=True, dead_letter_exchange="amq.fanout")
    node.vhost.bind_queue("dead", "amq.fanout", "", {}, None)
    cc = {"CC": ("A", [("S", b"dead")])}
    messages = [
        (one, made(b"a")),
        (one, made(b"b")),
        (one, made(b"longer")),
        (one, made(b"c", message_id="7")),
        (one, made(b"d", priority=3)),
        (other, made(b"e", priority=3)),
        (one, made(b"f", headers=dict(cc))),
        (keeps, made(b"g", headers=dict(cc))),
        (one, made(bytes(1 << 21))),
        (one, made(b"h", persistent=False)),
        (one, made(b"i", persistent=False)),
    ]
    for queue, each in messages:
        publish(node, queue, each)
        reject(node, queue)
    letters_ = [letter(dead) for _ in messages]
    assert [found.body() for found, _ in letters_] == [each.body() for _, each in messages]
    assert [plain(deaths(said)[0])["queue"] for _, said in letters_] == [queue.name for queue, _ in messages]
    assert [said.get("message_id") for _, said in letters_] == [None] * 3 + ["7"] + [None] * 7
    assert [said.get("priority") for _, said in letters_] == [None] * 4 + [3, 3] + [None] * 5
    assert [said.get("delivery_mode") for _, said in letters_] == [2] * 9 + [None] * 2
    assert ["CC" in said["headers"] for _, said in letters_] == [False] * 7 + [True] + [False] * 3


def test_purge_and_the_end_of_a_queue_are_no_deaths(node: SimNode) -> None:
    queue, dead = declared(node, "src", expires=100, **TO_DEAD), declared(node, "dead")
    publish(node, queue, made())
    queue.empty()
    publish(node, queue, made())
    node.sleep(1)
    node.settle()
    assert queue.deleted
    assert dead.is_empty()


# -- many, and crashes --------------------------------------------------------------------------------


def test_arguments_come_back_as_declared(node: SimNode) -> None:
    queue = declared(node, "src", **TO_DEAD)
    assert dict(queue.arguments) == dict(typed(**TO_DEAD))


def test_a_reject_after_the_queue_was_deleted_makes_no_letter(node: SimNode) -> None:
    client = Client(node).open(1)
    queue, dead = declared(node, "src", **TO_DEAD), declared(node, "dead")
    publish(node, queue, made(persistent=False))
    client.call(m.BasicGet("src"), m.BasicGetOk)
    node.enter(node.vhost.delete_queue, "src")
    node.settle()
    client.send(m.BasicReject(1, False))
    node.settle()
    assert dead.message_count() == 0
    client.call(m.QueueDeclare("dead", passive=True, durable=True), m.QueueDeclareOk)  # it is no error
