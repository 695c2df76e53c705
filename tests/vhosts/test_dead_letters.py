"""Dead-lettering through a whole node. Expectations are those measured with RabbitMQ 3.10.8."""

from __future__ import annotations

import contextlib
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from amqp_router.protocol import methods as m
from amqp_router.protocol.flags import PERSISTENT as PERSISTENT_FLAG
from amqp_router.protocol.message import Message, build_message
from amqp_router.protocol.properties import decode_properties, encode_properties
from persistence.options import LogOptions
from tests.nodes import Client, SimNode
from tests.persistence.log.simdisk import PowerLoss, SimDisk
from tests.persistence.log.support import unsettled
from tests.vhosts.fakes import FakeQueue
from tests.vhosts.queues.local import declared, drained, message, text_of, typed
from vhosts import dead_letters
from vhosts import letter as letters
from vhosts.queues.queue import Queue
from vhosts.queues.settings import NO_SETTINGS, QueueSettings
from vhosts.waiting_letters import ENTRY_BYTES, LINE_BYTES

OPTIONS = LogOptions(batch_bytes_max=4000)
TO_DEAD: dict[str, Any] = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}


@pytest.fixture
def node() -> SimNode:
    return SimNode(log_options=OPTIONS)


def made(body: bytes = b"m", *, persistent: bool = True, **properties: Any) -> Message:
    headers = properties.pop("headers", None)
    if headers is not None:
        properties["headers"] = headers
    if persistent:
        properties["delivery_mode"] = 2
    built = build_message(b"\x00\x01q", encode_properties(properties), body)
    built.flags = PERSISTENT_FLAG if persistent else 0
    return built


def publish(node: SimNode, queue: Queue, *messages: Message) -> None:
    name = queue.name.encode()
    for each in messages:
        each.route = b"\x00%c%b" % (len(name), name)
        node.enter(queue.publish, each)
    node.settle()


def reject(node: SimNode, queue: Queue) -> None:
    taken = queue.take(False)
    assert taken is not None
    taken.content = None if taken.flags & 4 else taken.content  # as a channel does
    node.enter(queue.settle, taken, 2)
    node.settle()


def letter(queue: Queue) -> tuple[Message, dict[str, Any]]:
    found = queue.take(True)
    assert found is not None, "no dead letter"
    return found, decode_properties(found.properties())


def deaths(properties: dict[str, Any]) -> list[dict[str, Any]]:
    tag, items = properties["headers"]["x-death"]
    assert tag == "A"
    return [dict(item[1]) for item in items]


def plain(entry: dict[str, Any]) -> dict[str, Any]:
    entry = dict(entry)
    assert entry.pop("time")[0] == "T"
    keys = entry.pop("routing-keys")
    shown = {name: value.decode() if tag == "S" else (tag, value) for name, (tag, value) in entry.items()}
    shown["routing-keys"] = [value.decode() for _, value in keys[1]]
    return shown


FIRST = {"x-first-death-exchange": "", "x-first-death-queue": "src"}


def first(properties: dict[str, Any]) -> dict[str, str]:
    headers = properties["headers"]
    return {name: headers[name][1].decode() for name in headers if name.startswith("x-first-death-")}


# -- what a letter says -----------------------------------------------------------------------------


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


# -- cycles -----------------------------------------------------------------------------------------


def test_a_cycle_that_nobody_rejected_ends(node: SimNode) -> None:
    queue = declared(node, "cy", message_ttl=50, dead_letter_exchange="", dead_letter_routing_key="cy")
    publish(node, queue, made())
    for _ in range(3):
        node.sleep(0.1)
        node.settle()
    assert queue.is_empty()
    assert unsettled(queue.log) == []


def test_a_cycle_by_length_ends(node: SimNode) -> None:
    queue = declared(node, "cy", max_length=1, dead_letter_exchange="", dead_letter_routing_key="cy")
    publish(node, queue, made(b"1"), made(b"2"))
    assert drained(queue) == ["2"]


@pytest.mark.parametrize("count", [2, 10])
def test_of_many_queues_only_that_of_the_cycle_is_left_out(
    node: SimNode, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(letters, "WIDE", 4)
    node.vhost.declare_exchange("all", "fanout")
    queue = declared(node, "src", max_length=1, dead_letter_exchange="all")
    others = [declared(node, f"q{number}") for number in range(count - 1)]
    for each in (queue, *others):
        node.vhost.bind_queue(each.name, "all", "", {}, None)
    for each_made in (made(b"1"), made(b"2")):
        each_made.route = b"\x00\x03src"
        node.enter(queue.publish, each_made)
    seen = looked_at(node)
    while node.ready or node.work() or node.posted:
        if node.posted:
            node.hear()
        node.turn()
        seen |= looked_at(node)
    assert drained(queue) == ["2"]
    assert [drained(each) for each in others] == [["1"]] * (count - 1)
    assert seen == (set() if count == 2 else {4, 8})


def looked_at(node: SimNode) -> set[int]:
    """How many queues of their routes letters have looked at so far, those that need more than one turn."""
    under_way = [each for each in node.vhost.dead_letters._letters if each is not None]
    return {each.sift.looked_at for each in under_way if each.sift is not None}


def test_a_retry_loop_with_rejections_goes_on(node: SimNode) -> None:
    work = declared(node, "work", dead_letter_exchange="", dead_letter_routing_key="retry")
    declared(node, "retry", message_ttl=60, dead_letter_exchange="", dead_letter_routing_key="work")
    publish(node, work, made(b"retry"))
    for _ in range(3):
        reject(node, work)
        node.sleep(0.1)
        node.settle()
    _, properties = letter(work)
    counts = [(plain(each)["queue"], plain(each)["count"]) for each in deaths(properties)]
    assert counts == [("retry", ("l", 3)), ("work", ("l", 3))]


def test_a_long_chain_of_queues_needs_no_stack(node: SimNode) -> None:
    count = 300
    for number in range(count):
        declared(
            node,
            f"q{number}",
            max_length=0,
            dead_letter_exchange="",
            dead_letter_routing_key=f"q{number + 1}",
        )
    last = declared(node, f"q{count}")
    publish(node, node.queue("q0"), made(b"far"))
    found, properties = letter(last)
    assert found.body() == b"far"
    assert len(deaths(properties)) == count


class Touched(FakeQueue):
    """Counts its turns."""

    turns = 0

    def touch(self) -> None:
        self.turns += 1


def test_very_many_queues_that_wait_for_room_have_their_turn_in_slices(node: SimNode) -> None:
    """100,000 of them all had it as soon as there was room for one letter."""
    dead, queue = declared(node, "dead"), declared(node, **TO_DEAD)
    publish(node, queue, made())
    waiting = [Touched() for _ in range(6 * dead_letters.WAKE_SLICE)]
    for each in waiting:
        node.vhost.dead_letters.wait(each)
    taken = queue.take(False)
    assert taken is not None
    node.enter(queue.settle, taken, 2)
    counts = [0]
    while node.ready or node.posted or node.work():
        if node.ready:
            node.ready.popleft()()
        elif node.posted:
            node.hear()
        counts.append(sum(each.turns for each in waiting))
    assert [each.turns for each in waiting] == [1] * len(waiting)
    assert max(after - before for before, after in pairwise(counts)) <= 2 * dead_letters.WAKE_SLICE
    assert letter(dead)


# -- targets ----------------------------------------------------------------------------------------


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


# -- many, and crashes ------------------------------------------------------------------------------


def test_very_many_die_in_slices_in_their_order(node: SimNode) -> None:
    count = 3 * dead_letters.ROOM
    queue, dead = declared(node, "src", message_ttl=1000, **TO_DEAD), declared(node, "dead")
    for number in range(count):
        queue.publish(message(number, persistent=True))
    node.settle()
    longest = most = 0
    timers = node.clock.advance(1.5)
    node.tick.now_us = node.clock.wall_us()
    for timer in timers:
        node.enter(timer.go_off)
    for _ in range(100_000):
        if not node.ready and not node.work() and not node.posted:
            break
        if node.posted:
            node.hear()
        before = dead.message_count()
        node.turn()
        longest = max(longest, dead.message_count() - before)
        under_way = node.vhost.dead_letters
        most = max(most, under_way.count())
    assert longest <= 3 * dead_letters.SLICE
    assert most <= dead_letters.ROOM
    assert drained(dead) == [str(number) for number in range(count)]
    assert unsettled(queue.log) == []


@pytest.mark.parametrize("persistent", [True, False])
def test_very_many_rejected_together_are_sent_in_turn(node: SimNode, *, persistent: bool) -> None:
    """Those that the log has take 8 bytes each until their turn comes; few are on their way at a time."""
    count = 5 * dead_letters.ROOM
    queue, dead = declared(node, "src", **TO_DEAD), declared(node, "dead")
    for number in range(count):
        node.enter(queue.publish, made(str(number).encode(), persistent=persistent))
    node.settle()
    kept, held = node.budget.kept, node.budget.held
    taken = list(iter(lambda: queue.take(False), None))
    for each in taken:
        if persistent:
            each.content = None
        queue.settle(each, 2)
    under_way = node.vhost.dead_letters
    waiting = count - dead_letters.ROOM
    if persistent:
        assert len(under_way._letters) == dead_letters.ROOM
        assert node.budget.kept - kept == ENTRY_BYTES * waiting + LINE_BYTES
        assert node.budget.held - held == dead_letters.ROOM * dead_letters.LETTER_BYTES
    else:
        assert node.budget.held - held == count * dead_letters.LETTER_BYTES
    most = 0
    for _ in range(100_000):
        if not node.ready and not node.work() and not node.posted:
            break
        if node.posted:
            node.hear()
        node.turn()
        most = max(most, len(under_way._unsafe))
    assert most <= dead_letters.ROOM + dead_letters.SLICE
    assert drained(dead) == [str(number) for number in range(count)]
    node.settle()
    assert unsettled(queue.log) == []
    assert (node.budget.used, node.budget.held) == (0, held)
    assert node.budget.kept == kept + dead.remembered


def test_large_contents_are_dead_lettered(node: SimNode) -> None:
    queue, dead = declared(node, "src", **TO_DEAD), declared(node, "dead")
    bodies = [b"x" * 20_000, b"y" * 300_000, b"z" * 1_500_000]
    publish(node, queue, *[made(body) for body in bodies])
    for _ in bodies:
        reject(node, queue)
    assert [letter(dead)[0].body() for _ in bodies] == bodies


@pytest.mark.parametrize("seed", range(100))
def test_a_crash_loses_no_letter(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever the power fails: each message is in the source or in the target, or in both."""
    monkeypatch.setattr(dead_letters, "SLICE", 3)
    random = Random(seed)
    disk = SimDisk()
    node = SimNode(disk, log_options=OPTIONS)
    queue = declared(node, "src", message_ttl=1000, **TO_DEAD)
    declared(node, "dead")
    publish(node, queue, *[made(b"%d" % number) for number in range(20)])
    timers = node.clock.advance(2)
    node.tick.now_us = node.clock.wall_us()
    disk.steps_left = random.randrange(30)
    with contextlib.suppress(PowerLoss):
        for timer in timers:
            node.enter(timer.go_off)
        for _ in range(200):
            choice = random.randrange(4)
            if choice == 0:
                node.turn()
            elif choice == 1:
                node.work()
            elif choice == 2 and node.posted:
                node.hear()
            elif choice == 3:
                # Then the source's log may be durable before the target's.
                node.enter(queue.publish, made(b"later"))
    disk.steps_left = -1
    disk.power_loss(random)
    node = SimNode(disk, node.definitions, boot=2, log_options=OPTIONS)
    node.clock.now = 1000.0
    node.tick.now_us = 0
    left = [text_of(found) for found in iter(lambda: node.queue("src").take(False), None)]
    came = drained(node.queue("dead"))
    assert {*left, *came} - {"later"} == {str(number) for number in range(20)}
    assert came == sorted(set(came), key=int)


@pytest.mark.parametrize("is_cut_again", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_a_letter_that_came_before_a_crash_does_not_come_again(seed: int, is_cut_again: bool) -> None:
    """Whenever the power fails: the next start sends what may be lost, and each target takes it once."""
    random = Random(seed)
    disk = SimDisk()
    node = SimNode(disk, log_options=OPTIONS)
    queue = declared(node, "src", message_ttl=1000, **TO_DEAD)
    declared(node, "dead")
    publish(node, queue, *[made(b"%d" % number) for number in range(20)])
    for boot in range(2, 4 if is_cut_again else 3):
        timers = node.clock.advance(2)
        node.tick.now_us = node.clock.wall_us()
        disk.steps_left = random.randrange(30)
        with contextlib.suppress(PowerLoss):
            for timer in timers:
                node.enter(timer.go_off)
            for _ in range(200):
                random.choice([node.turn, node.work, node.hear if node.posted else node.turn])()
        disk.steps_left = -1
        disk.power_loss(random)
        node = SimNode(disk, node.definitions, boot=boot, log_options=OPTIONS)
    for _ in range(5):
        timers = node.clock.advance(2)
        node.tick.now_us = node.clock.wall_us()
        for timer in timers:
            node.enter(timer.go_off)
        node.settle()
    assert node.queue("src").message_count() == 0
    came = drained(node.queue("dead"))
    assert sorted(came, key=int) == [str(number) for number in range(20)]


def test_a_letter_is_not_taken_for_that_of_a_message_which_a_crash_took_back() -> None:
    """The target has the letter of a message that its own log lost, and the next message gets its offset."""
    disk = SimDisk()
    node = SimNode(disk, log_options=OPTIONS)
    queue, dead = declared(node, "src", message_ttl=1000, **TO_DEAD), declared(node, "dead")
    big = b"x" * 200_000  # their logs are synced one by one, in the second round the target's first
    node.enter(dead.publish, made(big))
    node.enter(dead.publish, made(big))
    node.enter(queue.publish, made(big, expiration="0"))
    node.quiet()
    assert queue.log is not None
    lost = queue.log.end - 1

    def fail(operation: str, path: str) -> None:
        if operation == "sync" and f"/{queue.incarnation}/0/" in path and path.endswith(".log"):
            raise PowerLoss

    disk.hook = fail
    with pytest.raises(PowerLoss):
        node.settle()
    disk.hook = None
    disk.power_loss(Random(4))
    node = SimNode(disk, node.definitions, boot=2, log_options=OPTIONS)
    queue, dead = node.queue("src"), node.queue("dead")
    assert (queue.message_count(), dead.message_count()) == (0, 3)
    publish(node, queue, made(b"next"))
    assert queue.log is not None
    assert unsettled(queue.log) == [lost]
    disk.power_loss(Random(4))
    node = SimNode(disk, node.definitions, boot=3, log_options=OPTIONS)
    node.sleep(2)
    node.settle()
    assert node.queue("src").message_count() == 0
    assert drained(node.queue("dead"))[3:] == ["next"]


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


def test_a_letter_whose_queue_was_stored_by_the_stop_does_not_come_again() -> None:
    """The stop stores definitions last, so the letter is safe when its queue's log is closed."""
    disk = SimDisk()
    node = SimNode(disk, log_options=OPTIONS)
    queue = declared(node, "src", max_length=1, **TO_DEAD)
    node.vhost.declare_queue("dead", durable=True)
    node.quiet()
    assert node.definitions.pending
    for number in range(3):
        node.enter(queue.publish, made(b"%d" % number))
    node.quiet()
    node.stop()
    node = SimNode(disk, node.definitions, boot=2, log_options=OPTIONS)
    node.settle()
    assert drained(node.queue("src")) == ["2"]
    assert drained(node.queue("dead")) == ["0", "1"]
