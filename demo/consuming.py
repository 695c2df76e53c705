"""The consumer: takes every queue at once, compares each message with the flight that it claims to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pika

from demo.flights import Flight
from demo.topology import TOPIC

PREFETCH = 2_000
#: Acknowledge every so many messages of a queue.
ACK_EVERY = 500
#: Give up after so many seconds without a message.
STALLED_SECONDS = 20


@dataclass
class Received:
    """What came out of one queue. ``rows`` are row numbers of the data set, in order of arrival."""

    expected: int
    rows: list[int] = field(default_factory=list)
    changed: int = 0
    redelivered: int = 0


class Consumer:
    """One channel per queue; ends when each queue has given as many messages as the data set says."""

    def __init__(
        self,
        parameters: pika.ConnectionParameters,
        flights: Sequence[Flight],
        expected: Mapping[str, int],
        progress: Callable[[str, int], None],
    ) -> None:
        self.received = {queue: Received(count) for queue, count in expected.items()}
        self.problem = ""
        self._flights = flights
        self._progress = progress
        self._missing = sum(expected.values())
        self._seen_missing = -1
        self._connection = pika.SelectConnection(
            parameters,
            on_open_callback=self._opened,
            on_open_error_callback=lambda _connection, error: self._stop(str(error)),
            on_close_callback=lambda _connection, reason: self._stop(str(reason)),
        )

    def run(self) -> None:
        """Until everything expected has come, or nothing comes any more (then ``problem`` says so)."""
        self._connection.ioloop.call_later(STALLED_SECONDS, self._watch)
        self._connection.ioloop.start()

    def _opened(self, connection: Any) -> None:
        if not self._missing:
            connection.close()
            return
        for queue in self.received:
            connection.channel(on_open_callback=self._consume_from(queue))

    def _consume_from(self, queue: str) -> Callable[[Any], None]:
        received = self.received[queue]

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            self._check(received, method, properties, body)
            count = len(received.rows)
            if count % ACK_EVERY == 0 or count == received.expected:
                channel.basic_ack(method.delivery_tag, multiple=True)
                self._progress(queue, count)
            self._missing -= 1
            if not self._missing:
                self._connection.close()

        def on_channel(channel: Any) -> None:
            channel.basic_qos(prefetch_count=PREFETCH)
            channel.basic_consume(queue, on_message)

        return on_channel

    def _check(self, received: Received, method: Any, properties: Any, body: bytes) -> None:
        row = int(properties.message_id)
        flight = self._flights[row]
        received.rows.append(row)
        received.redelivered += method.redelivered
        received.changed += (
            body != flight.body
            or properties.headers != flight.headers
            or properties.timestamp != flight.timestamp
            or method.routing_key != flight.routing_key
            or method.exchange != TOPIC
        )

    def _watch(self) -> None:
        if self._missing == self._seen_missing:
            self._stop(f"{self._missing} messages did not come within {STALLED_SECONDS} s")
            return
        self._seen_missing = self._missing
        self._connection.ioloop.call_later(STALLED_SECONDS, self._watch)

    def _stop(self, reason: str) -> None:
        if self._missing:
            self.problem = self.problem or reason
        self._connection.ioloop.stop()
