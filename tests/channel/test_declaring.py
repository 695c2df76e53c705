from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from amqp_router.channel import declaring, questions
from amqp_router.channel.delivery import Delivery
from amqp_router.channel.listener import ChannelListener
from amqp_router.channel.replies import HeldReplies
from amqp_router.protocol import errors, methods
from amqp_router.protocol.fields import Table, decode_table, encode_plain, encode_table
from amqp_router.protocol.kept_table import KeptTable, read_arguments
from amqp_router.protocol.methods import METHODS, Method
from persistence.memory import MemoryBudget
from tests.vhosts.fakes import FakeDefinitions, FakeQueue, new_vhost
from vhosts.vhost import VirtualHost

Q = "queue 'q' in vhost '/'"
ALL: dict[type[Method], Callable[[Any, Any], None]] = {**declaring.METHODS, **questions.METHODS}


class FakePermissions:
    """Everything is allowed but what is refused; remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.refused: set[tuple[str, str, str]] = set()

    def check_topic(self, operation: str, exchange: str, key: str) -> None:
        pass

    def check(self, operation: str, kind: str, name: str) -> None:
        self.asked.append((operation, kind, name))
        if (operation, kind, name) in self.refused:
            raise errors.AccessRefused(f"{operation} of {kind} '{name}' refused")


class FakeConnection:
    """Its cancelled consumers hear of their end at once."""

    def __init__(self) -> None:
        self.held_cancels: dict[Any, Any] = {}

    def in_slices(self, step: Callable[[], bool]) -> None:
        while not step():
            pass


class FakeChannel(ChannelListener):
    number = 1

    def __init__(self, vhost: VirtualHost, connection: Any = None) -> None:
        self.vhost = vhost
        self.connection = connection or FakeConnection()
        self.asking: Any = None
        self.pending = HeldReplies()
        self.delivery = Delivery()
        self.getters: dict[Any, Any] = {}
        self.publishing = SimpleNamespace(publisher=SimpleNamespace(account=MemoryBudget(0)))
        self.permissions = FakePermissions()
        self.last_queue = ""
        self.replies: list[tuple[Method | None, int]] = []

    def reply(self, method: Method | None, rev: int) -> None:
        self.replies.append((method, rev))

    def call(self, method: Method) -> Method | None:
        """Carry out ``method`` and return its reply."""
        ALL[type(method)](self, method)
        reply, _ = self.replies[-1]
        return reply

    def refusal(self, method: Method) -> str:
        """The text with which ``method`` is refused; there is no reply."""
        before = len(self.replies)
        with pytest.raises(errors.AMQPError) as error:
            ALL[type(method)](self, method)
        assert len(self.replies) == before
        return error.value.reply_text


@pytest.fixture
def definitions() -> FakeDefinitions:
    return FakeDefinitions()


@pytest.fixture
def channel(definitions: FakeDefinitions) -> FakeChannel:
    return FakeChannel(new_vhost(definitions))


def typed(**values: Any) -> Table:
    return decode_table(encode_plain(values), 0)[0]


def test_every_method_of_the_two_classes() -> None:
    assert {each for each in ALL if each.CLASS_ID != 60} == {
        cls for (class_id, _), cls in METHODS.items() if class_id in (40, 50) and not cls.NAME.endswith("-ok")
    }


# -- replies ----------------------------------------------------------------------------------------


def test_replies_wait_for_their_revision(channel: FakeChannel) -> None:
    for method in (
        methods.ExchangeDeclare("x", "direct", durable=True),
        methods.QueueDeclare("q", durable=True),
        methods.QueueBind("q", "x", "k"),
        methods.ExchangeBind("x", "amq.topic", "#"),
        methods.QueuePurge("q"),
        methods.QueueUnbind("q", "x", "k"),
        methods.ExchangeUnbind("x", "amq.topic", "#"),
        methods.QueueDelete("q"),
        methods.ExchangeDelete("x"),
    ):
        channel.call(method)
    assert channel.replies == [
        (methods.ExchangeDeclareOk(), 1),
        (methods.QueueDeclareOk("q", 0, 0), 2),
        (methods.QueueBindOk(), 3),
        (methods.ExchangeBindOk(), 4),
        (methods.QueuePurgeOk(0), 0),
        (methods.QueueUnbindOk(), 5),
        (methods.ExchangeUnbindOk(), 6),
        (methods.QueueDeleteOk(0), 7),
        (methods.ExchangeDeleteOk(), 8),
    ]


def test_nowait_has_no_reply_but_its_revision(channel: FakeChannel) -> None:
    for method in (
        methods.ExchangeDeclare("x", "direct", durable=True, nowait=True),
        methods.QueueDeclare("q", durable=True, nowait=True),
        methods.QueueBind("q", "x", "k", nowait=True),
        methods.ExchangeBind("x", "x", "k", nowait=True),
        methods.QueuePurge("q", nowait=True),
        methods.ExchangeUnbind("x", "x", "k", nowait=True),
        methods.QueueDelete("q", nowait=True),
        methods.ExchangeDelete("x", nowait=True),
    ):
        channel.call(method)
    assert channel.replies == [(None, rev) for rev in (1, 2, 3, 4, 0, 5, 6, 7)]


def test_counts(channel: FakeChannel) -> None:
    channel.call(methods.QueueDeclare("q"))
    queue = channel.vhost.queues["q"]
    assert isinstance(queue, FakeQueue)
    queue.ready = 5
    queue.consumers[object()] = None
    assert channel.call(methods.QueueDeclare("q")) == methods.QueueDeclareOk("q", 5, 1)
    assert channel.call(methods.QueueDeclare("q", passive=True)) == methods.QueueDeclareOk("q", 5, 1)
    assert channel.call(methods.QueuePurge("q")) == methods.QueuePurgeOk(5)
    queue.ready = 2
    assert channel.call(methods.QueueDelete("q")) == methods.QueueDeleteOk(2)


# -- names ------------------------------------------------------------------------------------------


def test_the_server_names_a_queue(channel: FakeChannel) -> None:
    reply = channel.call(methods.QueueDeclare("", exclusive=True))
    assert isinstance(reply, methods.QueueDeclareOk)
    assert reply.queue.startswith("amq.gen-")
    assert len(reply.queue) == len("amq.gen-") + 22
    assert channel.last_queue == reply.queue
    assert channel.call(methods.QueueDeclare("", nowait=True)) is None
    assert channel.last_queue != reply.queue


def test_an_empty_name_is_the_last_queue(channel: FakeChannel) -> None:
    channel.call(methods.QueueDeclare("first"))
    channel.call(methods.QueueDeclare("q"))
    channel.call(methods.QueueBind("", "amq.direct", "k"))
    channel.call(methods.QueueBind("", "amq.direct", ""))
    assert {(each.destination.name, each.routing_key) for each in channel.vhost.bindings} == {
        ("q", "k"),
        ("q", "q"),
    }
    channel.call(methods.QueueUnbind("", "amq.direct", ""))
    assert {each.routing_key for each in channel.vhost.bindings} == {"k"}
    assert channel.call(methods.QueuePurge("")) == methods.QueuePurgeOk(0)
    channel.call(methods.QueueDeclare("first", passive=True))
    channel.call(methods.QueueDelete(""))
    assert list(channel.vhost.queues) == ["q"]


def test_a_named_queue_keeps_its_empty_key(channel: FakeChannel) -> None:
    channel.call(methods.QueueDeclare("q"))
    channel.call(methods.QueueBind("q", "amq.direct", ""))
    assert [each.routing_key for each in channel.vhost.bindings] == [""]


@pytest.mark.parametrize(
    "method",
    [
        methods.QueueBind("", "amq.direct", "a"),
        methods.QueueUnbind("", "amq.direct", "a"),
        methods.QueuePurge(""),
        methods.QueueDelete(""),
    ],
)
def test_no_last_queue(channel: FakeChannel, method: Method) -> None:
    assert channel.refusal(method) == "NOT_FOUND - no previously declared queue"


def test_passive_declare_has_no_shortcut(channel: FakeChannel) -> None:
    channel.call(methods.QueueDeclare("q"))
    assert channel.refusal(methods.QueueDeclare("", passive=True)) == "NOT_FOUND - no queue '' in vhost '/'"


def test_line_ends_are_taken_out_of_names(channel: FakeChannel) -> None:
    assert channel.call(methods.QueueDeclare("q\r\n")) == methods.QueueDeclareOk("q", 0, 0)
    assert channel.call(methods.QueueDelete("\n")) == methods.QueueDeleteOk(0)  # not the last one declared
    channel.call(methods.ExchangeDeclare("x\n", "direct"))
    channel.call(methods.QueueBind("q\n", "\nx", "k\n"))
    assert [each.key[:4] for each in channel.vhost.bindings] == [("x", "q", "queue", "k\n")]


# -- refusals, measured on RabbitMQ 3.10.8 ----------------------------------------------------------

DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (methods.QueueDeclare("nope", passive=True), "NOT_FOUND - no queue 'nope' in vhost '/'"),
        (methods.ExchangeDeclare("nope", passive=True), "NOT_FOUND - no exchange 'nope' in vhost '/'"),
        (methods.QueueBind("nope", "x.d", "a"), "NOT_FOUND - no queue 'nope' in vhost '/'"),
        (methods.QueueBind("q", "nope", "a"), "NOT_FOUND - no exchange 'nope' in vhost '/'"),
        (methods.QueueBind("nope", "nope2", "a"), "NOT_FOUND - no exchange 'nope2' in vhost '/'"),
        (methods.ExchangeBind("x.d", "nope", "a"), "NOT_FOUND - no exchange 'nope' in vhost '/'"),
        (methods.ExchangeBind("nope", "x.d", "a"), "NOT_FOUND - no exchange 'nope' in vhost '/'"),
        (methods.QueuePurge("nope"), "NOT_FOUND - no queue 'nope' in vhost '/'"),
        (methods.ExchangeDeclare(""), DEFAULT),
        (methods.ExchangeDeclare("", passive=True), DEFAULT),
        (methods.ExchangeDelete(""), DEFAULT),
        (methods.QueueBind("q", "", "q"), DEFAULT),
        (methods.QueueUnbind("q", "", "q"), DEFAULT),
        (methods.ExchangeBind("", "x.d", "a"), DEFAULT),
        (methods.ExchangeBind("x.d", "", "a"), DEFAULT),
        (methods.ExchangeUnbind("", "x.d", "a"), DEFAULT),
        (methods.ExchangeUnbind("x.d", "", "a"), DEFAULT),
        (
            methods.ExchangeDeclare("amq.foo"),
            "ACCESS_REFUSED - exchange name 'amq.foo' contains reserved prefix 'amq.*'",
        ),
        (
            methods.QueueDeclare("amq.foo"),
            "ACCESS_REFUSED - queue name 'amq.foo' contains reserved prefix 'amq.*'",
        ),
        (
            methods.ExchangeDelete("amq.direct"),
            "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed",
        ),
        (
            methods.ExchangeDeclare("amq.direct", "fanout", durable=True),
            "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.direct' in vhost '/': "
            "received 'fanout' but current is 'direct'",
        ),
        (
            methods.QueueDeclare("q"),
            f"PRECONDITION_FAILED - inequivalent arg 'durable' for {Q}: "
            "received 'false' but current is 'true'",
        ),
        (
            methods.QueueDeclare("q", durable=True, auto_delete=True),
            f"PRECONDITION_FAILED - inequivalent arg 'auto_delete' for {Q}: "
            "received 'true' but current is 'false'",
        ),
        (
            methods.QueueDeclare("q", durable=True, arguments=typed(**{"x-message-ttl": 100})),
            f"PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for {Q}: "
            "received the value '100' of type 'signedint' but current is none",
        ),
        (
            methods.QueueDeclare("new", arguments=typed(**{"x-partitions": 2})),
            "PRECONDITION_FAILED - x-partitions for queue 'new' in vhost '/' is not supported yet",
        ),
        (methods.ExchangeDeclare("x.q", "nope"), "COMMAND_INVALID - unknown exchange type 'nope'"),
        (methods.ExchangeDeclare("x.q", ""), "COMMAND_INVALID - invalid exchange type ''"),
        (
            methods.QueueBind("q", "amq.headers", "", arguments=typed(**{"x-match": 1})),
            "PRECONDITION_FAILED - Invalid x-match field type signedint (value 1); expected longstr",
        ),
        (
            methods.QueueBind("q", "x.d", "", arguments=dict.fromkeys(map(str, range(2049)), ("V", None))),
            "PRECONDITION_FAILED - a binding of exchange 'x.d' in vhost '/' with 2049 arguments: "
            "at most 2048 are allowed",
        ),
    ],
)
def test_refusals(channel: FakeChannel, method: Method, text: str) -> None:
    channel.call(methods.QueueDeclare("q", durable=True))
    channel.call(methods.ExchangeDeclare("x.d", "direct", durable=True))
    assert channel.refusal(method) == text


@pytest.mark.parametrize(
    "method",
    [
        methods.QueueUnbind("q", "x.d", "zzz"),
        methods.QueueUnbind("nope", "x.d", "zzz"),
        methods.QueueUnbind("q", "nope", "zzz"),
        methods.ExchangeUnbind("x.d", "nope", "zzz"),
        methods.QueueDelete("nope"),
        methods.QueueDelete("amq.foo"),
        methods.ExchangeDelete("nope"),
        methods.ExchangeDeclare("x.d", "fanout", passive=True),
        methods.ExchangeDeclare("amq.direct", "direct", durable=True),
        methods.ExchangeDeclare("x.d", "direct", durable=True, arguments=typed(foo="a")),
        methods.QueueDeclare(
            "q", True, exclusive=True, auto_delete=True, arguments=typed(**{"x-message-ttl": 1})
        ),
        methods.QueueDeclare("q", durable=True, arguments=typed(**{"x-foo": 100})),
    ],
)
def test_no_error(channel: FakeChannel, method: Method) -> None:
    channel.call(methods.QueueDeclare("q", durable=True))
    channel.call(methods.ExchangeDeclare("x.d", "direct", durable=True))
    assert channel.call(method) is not None


def test_a_server_named_queue_is_not_declared_by_its_name_again(channel: FakeChannel) -> None:
    channel.call(methods.QueueDeclare(""))
    name = channel.last_queue
    text = f"ACCESS_REFUSED - queue name '{name}' contains reserved prefix 'amq.*'"
    assert channel.refusal(methods.QueueDeclare(name)) == text
    assert channel.call(methods.QueueDeclare(name, passive=True)) is not None


@pytest.mark.parametrize(
    "method",
    [
        methods.QueueDeclare("q", exclusive=True),
        methods.QueueDeclare("q", passive=True),
        methods.QueuePurge("q"),
        methods.QueueDelete("q"),
        methods.QueueBind("q", "amq.direct", "a"),
    ],
)
def test_a_queue_of_another_connection(channel: FakeChannel, method: Method) -> None:
    channel.call(methods.QueueDeclare("q", exclusive=True))
    text = FakeChannel(channel.vhost).refusal(method)
    assert text.startswith(f"RESOURCE_LOCKED - cannot obtain exclusive access to locked {Q}. It could be ")
    same_connection = FakeChannel(channel.vhost, channel.connection)
    assert same_connection.call(methods.QueueDelete("q")) == methods.QueueDeleteOk(0)


# -- permissions: RabbitMQ, "Access Control" --------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "needed"),
    [
        (methods.ExchangeDeclare("x"), [("configure", "exchange", "x")]),
        (methods.ExchangeDeclare("amq.direct", durable=True), [("configure", "exchange", "amq.direct")]),
        (
            methods.ExchangeDeclare("x", arguments=typed(**{"alternate-exchange": "a"})),
            [("configure", "exchange", "x"), ("read", "exchange", "x"), ("write", "exchange", "a")],
        ),
        (methods.ExchangeDelete("x"), [("configure", "exchange", "x")]),
        (methods.QueueDeclare("new"), [("configure", "queue", "new")]),
        (methods.QueueDeclare("q"), [("configure", "queue", "q")]),
        (methods.QueueDeclare("q", passive=True), []),
        (methods.ExchangeDeclare("amq.direct", passive=True), []),
        (methods.QueueDelete("q"), [("configure", "queue", "q")]),
        (methods.QueuePurge("q"), [("read", "queue", "q")]),
        (
            methods.QueueBind("q", "amq.topic", "#"),
            [("write", "queue", "q"), ("read", "exchange", "amq.topic")],
        ),
        (
            methods.QueueUnbind("q", "amq.topic", "#"),
            [("write", "queue", "q"), ("read", "exchange", "amq.topic")],
        ),
        (
            methods.ExchangeBind("amq.direct", "amq.topic", "#"),
            [("write", "exchange", "amq.direct"), ("read", "exchange", "amq.topic")],
        ),
        (
            methods.ExchangeUnbind("amq.direct", "amq.topic", "#"),
            [("write", "exchange", "amq.direct"), ("read", "exchange", "amq.topic")],
        ),
    ],
)
def test_permissions_needed(channel: FakeChannel, method: Method, needed: list[tuple[str, str, str]]) -> None:
    channel.vhost.declare_queue("q")
    for refused in needed:
        channel.permissions.refused = {refused}
        operation, kind, name = refused
        assert channel.refusal(method) == f"ACCESS_REFUSED - {operation} of {kind} '{name}' refused"
    assert len(channel.vhost.exchanges) == 7
    assert list(channel.vhost.queues) == ["q"]
    channel.permissions.refused.clear()
    channel.permissions.asked.clear()
    channel.call(method)
    assert channel.permissions.asked == needed


def test_dead_lettering_needs_permissions_before_all_else(channel: FakeChannel) -> None:
    method = methods.QueueDeclare("q", arguments=typed(**{"x-dead-letter-exchange": "x", "x-expires": 0}))
    for refused in (("read", "queue", "q"), ("write", "exchange", "x")):
        channel.permissions.refused = {refused}
        assert channel.refusal(method).startswith("ACCESS_REFUSED")
    channel.permissions.refused.clear()
    assert "invalid arg 'x-expires'" in channel.refusal(method)


def test_very_many_arguments_are_looked_through_and_not_decoded(
    channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """7,000 of them, which fit into a frame, held everybody up for 200 ms at each declaration."""
    decoded: list[KeptTable] = []
    table_of = KeptTable.table
    monkeypatch.setattr(KeptTable, "table", lambda kept: decoded.append(kept) or table_of(kept))
    many = {**{f"n{number}": ("I", 1) for number in range(2000)}, "x-expires": ("I", 60_000)}
    kept, _ = read_arguments(encode_table(many), 0)
    for method in (
        methods.QueueDeclare("many", durable=True, arguments=kept),
        methods.QueueDeclare("many", durable=True, arguments=kept),
        methods.ExchangeDeclare("many", "direct", durable=True, arguments=kept),
        methods.QueueBind("many", "many", "", arguments=kept),
        methods.QueueBind("many", "many", "", arguments=kept),
        methods.QueueUnbind("many", "many", "", arguments=kept),
        methods.QueueUnbind("many", "many", "", arguments=dict.fromkeys(map(str, range(2049)), ("V", None))),
    ):
        assert channel.call(method) is not None
    assert decoded == []
    wrong, _ = read_arguments(encode_table({**many, "x-max-age": ("S", b"1D"), "x-partitions": ("I", 2)}), 0)
    text = "PRECONDITION_FAILED - invalid arg 'x-max-age' for queue 'wrong' in vhost '/' of queue type"
    assert channel.refusal(methods.QueueDeclare("wrong", arguments=wrong)).startswith(text)
