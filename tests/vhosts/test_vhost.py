"""A virtual host: exchanges, queues, bindings, and the start."""

from __future__ import annotations

from sys import getsizeof
from typing import Any

import pytest

from amqp_router.protocol import errors
from amqp_router.protocol.fields import decode_table, encode_plain
from persistence.definitions.records import BindingRow, ExchangeRow, QueueRow
from tests.vhosts.declaring import ME, OTHER, bind, queue, typed
from tests.vhosts.fakes import FakeDefinitions, new_vhost
from vhosts.following import LoadError
from vhosts.vhost import VirtualHost

LOCKED = (
    "cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally declared on "
    "another connection or the exclusive property value does not match that of the original declaration."
)


@pytest.fixture
def definitions() -> FakeDefinitions:
    return FakeDefinitions()


@pytest.fixture
def vhost(definitions: FakeDefinitions) -> VirtualHost:
    return new_vhost(definitions)


def text_of(error: pytest.ExceptionInfo[Any]) -> str:
    return str(error.value.text)


def test_a_declare_grows_the_queues_or_the_routes_to_them(vhost: VirtualHost) -> None:
    """A dict of 87,382 entries that grows takes 8 ms; two of them in one declare held the loop for 19 ms."""
    dicts = vhost.queues, vhost.table.default_routes
    grown = [0, 0]
    for number in range(3000):
        before = [*map(getsizeof, dicts)]
        queue(vhost, f"q{number}")
        grows = [getsizeof(each) > was for each, was in zip(dicts, before, strict=True)]
        assert number < 100 or not all(grows)
        grown = [times + grew for times, grew in zip(grown, grows, strict=True)]
    assert min(grown) > 5  # and small ones take no time


# -- exchanges ----------------------------------------------------------------------------------------


def test_what_every_virtual_host_has(vhost: VirtualHost, definitions: FakeDefinitions) -> None:
    assert {name: exchange.type for name, exchange in vhost.exchanges.items()} == {
        "": "direct",
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.headers": "headers",
        "amq.match": "headers",
        "amq.rabbitmq.trace": "topic",
        "amq.topic": "topic",
    }
    assert vhost.exchanges["amq.rabbitmq.trace"].internal
    assert vhost.declare_exchange("amq.direct", "direct", durable=True) == 0
    assert definitions.submitted == []


def test_declare_exchange(vhost: VirtualHost, definitions: FakeDefinitions) -> None:
    arguments = typed(**{"alternate-exchange": "a", "foo": 1})
    before = vhost.generation
    assert vhost.declare_exchange("x", "topic", durable=True, internal=True, arguments=arguments) == 1
    assert vhost.generation > before
    [row] = definitions.of_kind("exchange")
    assert row == ExchangeRow("/", "x", "topic", False, True, row.arguments)
    assert decode_table(row.arguments, 0)[0] == arguments
    assert vhost.exchanges["x"].alternate == "a"
    # The revision of the first declaration, as it may not be stored yet.
    assert vhost.declare_exchange("x", "topic", durable=True, internal=True, arguments=arguments) == 1
    assert vhost.declare_exchange("x", "nonsense", passive=True) == 1
    assert vhost.declare_exchange("lost", "fanout") == 0
    assert len(definitions.submitted) == 1


def test_declare_exchange_errors(vhost: VirtualHost) -> None:
    vhost.declare_exchange("x", "direct")
    with pytest.raises(
        errors.PreconditionFailed, match="inequivalent arg 'type' for exchange 'x' in vhost '/'"
    ):
        vhost.declare_exchange("x", "fanout")
    with pytest.raises(errors.NotFound, match="no exchange 'nope' in vhost '/'"):
        vhost.declare_exchange("nope", "direct", passive=True)
    with pytest.raises(errors.CommandInvalid, match="unknown exchange type 'nope'"):
        vhost.declare_exchange("y", "nope")
    with pytest.raises(errors.CommandInvalid, match="invalid exchange type ''"):
        vhost.declare_exchange("y", "")
    with pytest.raises(
        errors.PreconditionFailed, match="invalid type 'signedint' for arg 'alternate-exchange'"
    ):
        vhost.declare_exchange("y", "direct", arguments=typed(**{"alternate-exchange": 1}))
    assert "y" not in vhost.exchanges


def test_the_default_exchange_is_not_touched(vhost: VirtualHost) -> None:
    queue(vhost)
    for call in (
        lambda: vhost.declare_exchange("", "direct"),
        lambda: vhost.declare_exchange("", "direct", passive=True),
        lambda: vhost.delete_exchange(""),
        lambda: vhost.bind_queue("q", "", "q", {}, ME),
        lambda: vhost.unbind_queue("q", "", "q", {}, ME),
        lambda: vhost.bind_exchange("", "amq.direct", "", {}),
        lambda: vhost.bind_exchange("amq.direct", "", "", {}),
        lambda: vhost.unbind_exchange("", "amq.direct", "", {}),
        lambda: vhost.unbind_exchange("amq.direct", "", "", {}),
    ):
        with pytest.raises(errors.AccessRefused) as error:
            call()
        assert text_of(error) == "operation not permitted on the default exchange"


def test_delete_exchange(vhost: VirtualHost, definitions: FakeDefinitions) -> None:
    vhost.declare_exchange("x", "direct", durable=True)
    queue(vhost, durable=True)
    bind(vhost, "q", "x", "k")
    vhost.bind_exchange("x", "amq.topic", "#", {})
    with pytest.raises(
        errors.PreconditionFailed, match="PRECONDITION_FAILED - exchange 'x' in vhost '/' in use"
    ):
        vhost.delete_exchange("x", if_unused=True)
    rev = vhost.delete_exchange("x")
    assert rev == len(definitions.submitted)
    assert definitions.of_kind("exchange") == []
    assert definitions.of_kind("binding") == []
    assert len(vhost.bindings) == 0
    assert vhost.delete_exchange("x") == rev  # gone, but perhaps not stored so yet


def test_delete_exchange_unused_while_others_lead_to_it(vhost: VirtualHost) -> None:
    vhost.declare_exchange("x", "direct")
    vhost.bind_exchange("x", "amq.topic", "#", {})
    vhost.delete_exchange("x", if_unused=True)
    assert len(vhost.bindings) == 0


def test_system_exchanges_stay(vhost: VirtualHost) -> None:
    for name in ("amq.direct", "amq.nope"):
        with pytest.raises(errors.AccessRefused) as error:
            vhost.delete_exchange(name)
        assert text_of(error) == f"deletion of system exchange '{name}' in vhost '/' not allowed"


# -- queues -------------------------------------------------------------------------------------------


def test_declare_queue(vhost: VirtualHost, definitions: FakeDefinitions) -> None:
    arguments = typed(**{"x-queue-mode": "lazy"})
    found, rev = vhost.declare_queue("q", durable=True, auto_delete=True, arguments=arguments, owner=ME)
    assert rev == 1 == found.definition_rev
    [row] = definitions.of_kind("queue")
    assert row == QueueRow("/", "q", True, row.arguments, "life of q")
    assert decode_table(row.arguments, 0)[0] == arguments
    same = vhost.declare_queue("q", durable=True, auto_delete=True, arguments=arguments, owner=OTHER)
    assert same == (found, 1)
    assert vhost.counters.queue_declared == 2
    assert vhost.counters.queue_created == 1


def test_a_transient_queue_is_not_stored(vhost: VirtualHost, definitions: FakeDefinitions) -> None:
    assert vhost.declare_queue("q", owner=ME)[1] == 0
    assert bind(vhost, "q", "amq.direct", "k") == 0
    assert vhost.delete_queue("q", owner=ME) == (0, 0)
    assert definitions.submitted == []


def test_an_exclusive_queue_is_never_durable(vhost: VirtualHost, definitions: FakeDefinitions) -> None:
    found = queue(vhost, durable=True, exclusive=True)
    assert not found.durable
    assert found.exclusive_owner is ME
    assert definitions.submitted == []
    assert vhost.declare_queue("q", durable=True, exclusive=True, owner=ME)[0] is found
    assert vhost.declare_queue("q", exclusive=True, owner=ME)[0] is found


def test_a_locked_queue(vhost: VirtualHost) -> None:
    queue(vhost, exclusive=True)
    for call in (
        lambda: vhost.declare_queue("q", exclusive=True, owner=OTHER),
        lambda: vhost.declare_queue("q", owner=OTHER),
        lambda: vhost.declare_queue("q", owner=ME),
        lambda: vhost.find_queue("q", OTHER),
        lambda: vhost.delete_queue("q", owner=OTHER),
        lambda: vhost.bind_queue("q", "amq.direct", "a", {}, OTHER),
    ):
        with pytest.raises(errors.ResourceLocked) as error:
            call()
        assert text_of(error) == LOCKED
    assert vhost.find_queue("q", ME)
    assert vhost.unbind_queue("q", "amq.direct", "a", {}, OTHER) == 0  # there is no such binding
    bind(vhost, "q", "amq.direct", "a")
    with pytest.raises(errors.ResourceLocked):
        vhost.unbind_queue("q", "amq.direct", "a", {}, OTHER)


def test_exclusive_on_a_shared_queue(vhost: VirtualHost) -> None:
    queue(vhost)
    with pytest.raises(errors.ResourceLocked) as error:
        vhost.declare_queue("q", exclusive=True, owner=ME)
    assert text_of(error) == LOCKED


def test_the_lock_is_looked_at_before_anything_else(vhost: VirtualHost) -> None:
    queue(vhost)
    with pytest.raises(errors.ResourceLocked):
        vhost.declare_queue("q", durable=True, exclusive=True, arguments=typed(**{"x-expires": 1}), owner=ME)


def test_a_refused_queue_leaves_nothing(vhost: VirtualHost, definitions: FakeDefinitions) -> None:
    with pytest.raises(errors.PreconditionFailed, match="is not supported yet"):
        vhost.declare_queue("q", durable=True, arguments=typed(**{"x-partitions": 2}), owner=ME)
    assert vhost.queues == {}
    assert definitions.submitted == []


def test_delete_queue(vhost: VirtualHost, definitions: FakeDefinitions) -> None:
    found = queue(vhost, durable=True)
    bind(vhost, "q", "amq.topic", "#")
    bind(vhost, "q", "amq.direct", "q")
    found.ready = 3
    found.consumers[object()] = None
    with pytest.raises(
        errors.PreconditionFailed, match="PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"
    ):
        vhost.delete_queue("q", if_empty=True, if_unused=True, owner=ME)
    with pytest.raises(
        errors.PreconditionFailed, match="PRECONDITION_FAILED - queue 'q' in vhost '/' in use"
    ):
        vhost.delete_queue("q", if_unused=True, owner=ME)
    assert vhost.delete_queue("q", owner=ME) == (3, 4)
    assert found.deleted
    assert found.deleted_rev == 4
    assert definitions.rows == {}
    assert len(definitions.submitted[3]) == 3  # all in one: bindings and queue
    assert vhost.delete_queue("q", owner=ME) == (0, 4)
    assert vhost.counters.queue_deleted == 1


def test_a_queue_declared_anew_is_another(vhost: VirtualHost) -> None:
    first = queue(vhost)
    bind(vhost, "q", "amq.fanout")
    vhost.delete_queue("q", owner=ME)
    second = queue(vhost)
    assert first is not second
    assert not second.deleted
    assert len(vhost.bindings) == 0


def test_exclusive_queues_go_with_their_owner(vhost: VirtualHost) -> None:
    names = [f"mine{number}" for number in range(5)]
    for name in names:
        queue(vhost, name, exclusive=True)
        bind(vhost, name, "amq.fanout")
    queue(vhost, "theirs", OTHER, exclusive=True)
    queue(vhost, "shared")
    assert vhost.remove_exclusive_queues(ME, 3)
    assert len(vhost.queues) == 4
    assert not vhost.remove_exclusive_queues(ME, 3)
    assert list(vhost.queues) == ["theirs", "shared"]
    assert not vhost.remove_exclusive_queues(ME, 3)
    assert len(vhost.bindings) == 0
    vhost.delete_queue("theirs", owner=OTHER)
    assert not vhost.remove_exclusive_queues(OTHER, 1)


# -- bindings -----------------------------------------------------------------------------------------


def test_bindings_are_told_apart_by_arguments(vhost: VirtualHost, definitions: FakeDefinitions) -> None:
    queue(vhost, durable=True)
    revs = [
        bind(vhost, "q", "amq.direct", "k"),
        bind(vhost, "q", "amq.direct", "k", a=1, b=2),
        bind(vhost, "q", "amq.direct", "k", b=2, a=1),  # the same, in another order
        bind(vhost, "q", "amq.direct", "k"),
    ]
    assert revs == [2, 3, 3, 3]
    assert len(vhost.bindings) == 2
    assert {row.arguments for row in definitions.of_kind("binding")} == {
        encode_plain({}),
        encode_plain({"a": 1, "b": 2}),
    }
    assert vhost.unbind_queue("q", "amq.direct", "k", typed(b=2, a=1), ME) == 4
    assert vhost.unbind_queue("q", "amq.direct", "k", typed(b=2, a=1), ME) == 4  # gone, once that is stored
    [left] = vhost.bindings
    assert left.arguments == {}
    assert [each.arguments for each in definitions.of_kind("binding")] == [encode_plain({})]


def test_bind_errors(vhost: VirtualHost) -> None:
    queue(vhost)
    with pytest.raises(errors.NotFound, match="no queue 'nope' in vhost '/'"):
        bind(vhost, "nope", "amq.direct", "a")
    with pytest.raises(errors.NotFound, match="no exchange 'nope' in vhost '/'"):
        bind(vhost, "q", "nope", "a")
    with pytest.raises(errors.NotFound, match="no exchange 'nope2' in vhost '/'"):
        bind(vhost, "nope", "nope2", "a")
    for ends in (("amq.direct", "nope"), ("nope", "amq.direct"), ("nope2", "nope")):
        with pytest.raises(errors.NotFound, match="no exchange 'nope' in vhost '/'"):
            vhost.bind_exchange(*ends, "a", {})
    before = vhost.generation
    with pytest.raises(errors.PreconditionFailed, match="Invalid x-match field value"):
        bind(vhost, "q", "amq.headers", **{"x-match": "foo"})
    assert len(vhost.bindings) == 0
    assert vhost.generation == before


def test_unbinding_what_is_not_there(vhost: VirtualHost) -> None:
    queue(vhost)
    for queue_name, exchange in (("q", "amq.direct"), ("nope", "amq.direct"), ("q", "nope")):
        assert vhost.unbind_queue(queue_name, exchange, "zzz", {}, ME) == 0
    assert vhost.unbind_exchange("amq.direct", "nope", "zzz", {}) == 0
    assert vhost.unbind_exchange("nope", "amq.direct", "zzz", {}) == 0


def test_only_bindings_between_durable_ends_are_stored(
    vhost: VirtualHost, definitions: FakeDefinitions
) -> None:
    vhost.declare_exchange("lasting", "fanout", durable=True)
    vhost.declare_exchange("passing", "fanout")
    queue(vhost, "kept", durable=True)
    queue(vhost, "lost")
    for source in ("lasting", "passing"):
        for name in ("kept", "lost"):
            bind(vhost, name, source)
    vhost.bind_exchange("lasting", "passing", "", {})
    vhost.bind_exchange("passing", "lasting", "", {})
    vhost.bind_exchange("lasting", "lasting", "", {})
    assert definitions.of_kind("binding") == [
        BindingRow("/", "lasting", "kept", "queue", ""),
        BindingRow("/", "lasting", "lasting", "exchange", ""),
    ]


def test_an_auto_delete_exchange_goes_with_its_last_binding(vhost: VirtualHost) -> None:
    vhost.declare_exchange("x", "direct", auto_delete=True)
    vhost.bind_exchange("x", "amq.fanout", "", {})
    queue(vhost)
    bind(vhost, "q", "x", "a")
    bind(vhost, "q", "x", "b")
    vhost.unbind_queue("q", "x", "a", {}, ME)
    assert "x" in vhost.exchanges
    vhost.unbind_queue("q", "x", "b", {}, ME)
    assert "x" not in vhost.exchanges
    assert len(vhost.bindings) == 0


def test_auto_deletion_passes_on(vhost: VirtualHost, definitions: FakeDefinitions) -> None:
    """A chain longer than Python's stack: each exchange loses its only binding to the next."""
    length = 3000
    for number in range(length):
        vhost.declare_exchange(f"x{number}", "fanout", durable=True, auto_delete=True)
    for number in range(length - 1):
        vhost.bind_exchange(f"x{number + 1}", f"x{number}", "", {})
    queue(vhost, durable=True)
    bind(vhost, "q", f"x{length - 1}")
    vhost.delete_queue("q", owner=ME)
    assert definitions.rows == {}
    assert len(vhost.exchanges) == 7


def test_an_exchange_bound_to_itself_can_be_deleted(vhost: VirtualHost) -> None:
    vhost.declare_exchange("x", "direct", auto_delete=True)
    vhost.bind_exchange("x", "x", "k", {})
    vhost.delete_exchange("x")
    assert len(vhost.bindings) == 0


# -- start --------------------------------------------------------------------------------------------


def test_load_refuses_unknown_types(vhost: VirtualHost) -> None:
    with pytest.raises(
        LoadError, match="exchange 'x' in vhost '/' is of type 'x-odd', which is not registered"
    ):
        vhost.load([ExchangeRow("/", "x", "x-odd")], [], [])


def test_load_leaves_out_bindings_without_ends(vhost: VirtualHost) -> None:
    rows = [BindingRow("/", "nope", "q", "queue", ""), BindingRow("/", "amq.direct", "nope", "queue", "")]
    assert vhost.load([], [QueueRow("/", "q", False, encode_plain({}), "id")], rows) == rows
    assert vhost.queues["q"].incarnation == "id"
