"""pika: every adapter for a loop of events, each with the same scenarios.

The scenarios follow the subjects of pika's own acceptance tests of its adapters, which are not on PyPI.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import pika
from checks import HOST, LARGE, PORT, check, fresh, main
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.adapters.gevent_connection import GeventConnection
from pika.adapters.tornado_connection import TornadoConnection
from pika.adapters.twisted_connection import TwistedProtocolConnection
from pika.exceptions import ChannelClosedByBroker, ProbableAccessDeniedError, ProbableAuthenticationError
from tornado.ioloop import IOLoop
from twisted.internet import defer, protocol, reactor

#: Calls an asynchronous method with a callback, and gets what the callback was given.
Scenario = Generator[Callable[[Callable[..., None]], object], Any, None]
PARAMETERS = pika.ConnectionParameters(HOST, PORT)


class Run:
    """A scenario on a connection; the loop ends with it."""

    def __init__(self, adapter: str, scenario: Callable[[Any], Scenario]) -> None:
        self.error: BaseException | None = None
        self.is_done = False
        self.connection = self._make(adapter)
        self._scenario = scenario
        self._steps: Scenario | None = None
        loop = self.connection.ioloop
        self._stop = loop.stop
        if isinstance(loop, asyncio.AbstractEventLoop):
            loop.run_forever()
        else:
            loop.start()
        if self.error is not None:
            raise self.error
        assert self.is_done, "the connection closed before the scenario's end"

    def _make(self, adapter: str) -> Any:
        callbacks = {
            "on_open_callback": self._opened,
            "on_open_error_callback": lambda _, error: self._end(error),
            "on_close_callback": lambda *_: self._stop(),
        }
        if adapter == "asyncio":
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
            return AsyncioConnection(PARAMETERS, custom_ioloop=loop, **callbacks)
        if adapter == "tornado":
            return TornadoConnection(PARAMETERS, custom_ioloop=IOLoop(), **callbacks)
        return {"select": pika.SelectConnection, "gevent": GeventConnection}[adapter](PARAMETERS, **callbacks)

    def _opened(self, connection: Any) -> None:
        self._steps = self._scenario(connection)
        self._next(None)

    def _next(self, value: Any) -> None:
        assert self._steps is not None
        try:
            begin = self._steps.send(value)
            begin(lambda *given: self._next(given[0] if len(given) == 1 else given))
        except StopIteration:
            self.is_done = True
            self.connection.close()
        except Exception as error:
            self._end(error)

    def _end(self, error: BaseException) -> None:
        self.error = error
        if self.connection.is_open:
            self.connection.close()
        else:
            self._stop()


def a_channel(connection: Any) -> Callable[[Callable[..., None]], object]:
    return lambda done: connection.channel(on_open_callback=done)


def confirms_come_for_all_that_is_published(connection: Any) -> Scenario:
    channel = yield a_channel(connection)
    queue = (yield lambda done: channel.queue_declare("", exclusive=True, callback=done)).method.queue
    settled: set[int] = set()
    waiting: list[Callable[..., None]] = []

    def on_confirm(frame: Any) -> None:
        tag = frame.method.delivery_tag
        settled.update(range(1, tag + 1) if frame.method.multiple else (tag,))
        assert isinstance(frame.method, pika.spec.Basic.Ack), frame
        if len(settled) == 50:
            waiting[0](None)

    yield lambda done: channel.confirm_delivery(on_confirm, callback=done)
    for number in range(50):
        channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=2))
    yield waiting.append
    assert settled == set(range(1, 51))


def messages_are_consumed_in_order_and_cancelled(connection: Any) -> Scenario:
    channel = yield a_channel(connection)
    queue = (yield lambda done: channel.queue_declare("", exclusive=True, callback=done)).method.queue
    got: list[bytes] = []
    waiting: list[Callable[..., None]] = []

    def on_message(_: Any, method: Any, properties: Any, body: bytes) -> None:
        got.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(got) == 31:
            waiting[0](None)

    yield lambda done: channel.basic_qos(prefetch_count=7, callback=done)
    tags: list[str] = []
    yield lambda done: tags.append(channel.basic_consume(queue, on_message, callback=done))
    for number in range(30):
        channel.basic_publish("", queue, b"%d" % number)
    channel.basic_publish("", queue, LARGE)
    yield waiting.append
    assert got == [*(b"%d" % number for number in range(30)), LARGE]
    yield lambda done: channel.basic_cancel(tags[0], callback=done)
    channel.basic_publish("", queue, b"after")
    _, _, _, body = yield lambda done: channel.basic_get(queue, done, auto_ack=True)
    assert (body, len(got)) == (b"after", 31)


def what_cannot_be_routed_comes_back(connection: Any) -> Scenario:
    channel = yield a_channel(connection)
    missing = fresh()

    def publish(done: Callable[..., None]) -> None:
        channel.add_on_return_callback(done)
        channel.basic_publish("", missing, b"lost", mandatory=True)

    _, method, _, body = yield publish
    assert (method.reply_code, method.reply_text, method.routing_key, body) == (
        312,
        "NO_ROUTE",
        missing,
        b"lost",
    )


def one_message_is_got_and_returned(connection: Any) -> Scenario:
    channel = yield a_channel(connection)
    queue = (yield lambda done: channel.queue_declare("", exclusive=True, callback=done)).method.queue
    channel.basic_publish("", queue, b"one")
    _, method, _, body = yield lambda done: channel.basic_get(queue, done)
    assert (body, method.redelivered) == (b"one", False)
    channel.basic_nack(method.delivery_tag)
    _, method, _, body = yield lambda done: channel.basic_get(queue, done, auto_ack=True)
    assert (body, method.redelivered) == (b"one", True)
    assert (yield lambda done: channel.queue_purge(queue, callback=done)).method.message_count == 0


def transactions_are_committed_and_rolled_back(connection: Any) -> Scenario:
    channel = yield a_channel(connection)
    queue = (yield lambda done: channel.queue_declare("", exclusive=True, callback=done)).method.queue
    yield lambda done: channel.tx_select(callback=done)
    channel.basic_publish("", queue, b"dropped")
    yield lambda done: channel.tx_rollback(callback=done)
    channel.basic_publish("", queue, b"kept")
    yield lambda done: channel.tx_commit(callback=done)
    found = yield lambda done: channel.queue_declare(queue, passive=True, callback=done)
    assert found.method.message_count == 1


def exchanges_are_bound_and_deleted(connection: Any) -> Scenario:
    channel = yield a_channel(connection)
    queue = (yield lambda done: channel.queue_declare("", exclusive=True, callback=done)).method.queue
    inner, outer = fresh("exchange"), fresh("exchange")
    for name, kind in ((inner, "topic"), (outer, "fanout")):
        yield lambda done, name=name, kind=kind: channel.exchange_declare(name, kind, callback=done)
    yield lambda done: channel.exchange_bind(inner, outer, callback=done)
    yield lambda done: channel.queue_bind(queue, inner, "a.#", callback=done)
    channel.basic_publish(outer, "a.b", b"through both")
    _, method, _, body = yield lambda done: channel.basic_get(queue, done, auto_ack=True)
    assert (body, method.exchange) == (b"through both", outer)
    yield lambda done: channel.exchange_unbind(inner, outer, callback=done)
    yield lambda done: channel.queue_unbind(queue, inner, "a.#", callback=done)
    for name in (inner, outer):
        yield lambda done, name=name: channel.exchange_delete(name, callback=done)


def an_error_closes_the_channel_alone(connection: Any) -> Scenario:
    channel = yield a_channel(connection)
    missing = fresh()

    def ask(done: Callable[..., None]) -> None:
        channel.add_on_close_callback(done)
        channel.queue_declare(missing, passive=True)

    _, reason = yield ask
    assert isinstance(reason, ChannelClosedByBroker), reason
    assert (reason.reply_code, reason.reply_text) == (404, f"NOT_FOUND - no queue '{missing}' in vhost '/'")
    again = yield a_channel(connection)
    yield lambda done: again.queue_declare("", exclusive=True, callback=done)


def a_deleted_queue_cancels_its_consumer(connection: Any) -> Scenario:
    channel = yield a_channel(connection)
    queue = fresh()
    yield lambda done: channel.queue_declare(queue, callback=done)
    yield lambda done: channel.basic_consume(queue, lambda *_: None, callback=done)

    def delete(done: Callable[..., None]) -> None:
        channel.add_on_cancel_callback(done)
        channel.queue_delete(queue)

    yield delete
    assert not channel.consumer_tags


SCENARIOS = (
    confirms_come_for_all_that_is_published,
    messages_are_consumed_in_order_and_cancelled,
    what_cannot_be_routed_comes_back,
    one_message_is_got_and_returned,
    transactions_are_committed_and_rolled_back,
    exchanges_are_bound_and_deleted,
    an_error_closes_the_channel_alone,
    a_deleted_queue_cancels_its_consumer,
)


def register(adapter: str, scenario: Callable[[Any], Scenario]) -> None:
    def function() -> None:
        Run(adapter, scenario)

    function.__name__ = f"{adapter}: {scenario.__name__}"
    check(function)


for name in ("select", "asyncio", "tornado", "gevent"):
    for each in SCENARIOS:
        register(name, each)


def refused(**options: object) -> BaseException:
    """What the connection says that cannot be opened."""
    found: list[BaseException] = []

    def on_error(connection: Any, error: BaseException) -> None:
        found.append(error)
        connection.ioloop.stop()

    parameters = pika.ConnectionParameters(HOST, PORT, **options)
    pika.SelectConnection(parameters, on_open_error_callback=on_error).ioloop.start()
    return found[0]


@check
def a_refused_connection_says_why() -> None:
    wrong = refused(credentials=pika.PlainCredentials("guest", "wrong"))
    assert isinstance(wrong, ProbableAuthenticationError), repr(wrong)
    missing = refused(virtual_host="nope")
    assert isinstance(missing, ProbableAccessDeniedError), repr(missing)


@defer.inlineCallbacks
def with_deferreds() -> Generator[Any, Any, None]:
    creator = protocol.ClientCreator(reactor, TwistedProtocolConnection, PARAMETERS)
    connection = yield creator.connectTCP(HOST, PORT)
    yield connection.ready
    channel = yield connection.channel()
    queue = fresh()
    yield channel.queue_declare(queue, durable=True)
    yield channel.confirm_delivery()
    for number in range(30):
        yield channel.basic_publish("", queue, b"%d" % number)
    yield channel.basic_qos(prefetch_count=7)
    messages, _ = yield channel.basic_consume(queue)
    for number in range(30):
        _, method, _, body = yield messages.get()
        assert body == b"%d" % number, body
        yield channel.basic_ack(method.delivery_tag)
    yield channel.queue_delete(queue)
    missing: list[Any] = []
    yield channel.queue_declare(queue, passive=True).addErrback(missing.append)
    assert [failure.value.reply_code for failure in missing] == [404], missing
    yield connection.close()


@check
def twisted_confirms_consumes_and_says_what_is_wrong() -> None:
    failed: list[Any] = []
    done = with_deferreds()
    done.addErrback(failed.append)
    done.addBoth(lambda _: reactor.stop())
    reactor.run(installSignalHandlers=False)
    if failed:
        failed[0].raiseException()


main()
