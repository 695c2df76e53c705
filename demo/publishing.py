"""The publisher: pika's callback connection, publisher confirms, at most ``WINDOW`` messages unconfirmed.

A confirm is counted when its delivery tag is settled by a basic.ack of the broker, alone or as part of a
``multiple`` one, and only once. Whatever is left in ``outstanding`` when it ends was never confirmed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pika

from demo.flights import Flight
from demo.topology import TOPIC

WINDOW = 10_000
#: Publishes between two looks at the socket.
SLICE = 200
#: Give up after so many seconds without a confirm.
STALLED_SECONDS = 60


class Publisher:
    """Publishes all flights and waits for the answer to each."""

    def __init__(
        self,
        parameters: pika.ConnectionParameters,
        flights: Sequence[Flight],
        progress: Callable[[int, int], None],
    ) -> None:
        self.published = 0
        self.confirmed = 0
        self.nacked = 0
        self.unexpected = 0
        self.returned: list[int] = []
        self.problem = ""
        self._flights = flights
        self._progress = progress
        self._outstanding: deque[int] = deque()
        self._settled: set[int] = set()
        self._seen_confirmed = -1
        self._channel: Any = None
        self._connection = pika.SelectConnection(
            parameters,
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
            on_open_error_callback=lambda _connection, error: self._stop(str(error)),
            on_close_callback=lambda _connection, reason: self._stop(str(reason)),
        )

    def run(self) -> None:
        """Until every message is answered, or the broker stops answering (then ``problem`` says so)."""
        self._connection.ioloop.call_later(STALLED_SECONDS, self._watch)
        self._connection.ioloop.start()

    def _opened(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_return_callback(self._on_return)
        channel.add_on_close_callback(lambda _channel, reason: self._stop(str(reason)))
        channel.confirm_delivery(ack_nack_callback=self._on_answer, callback=lambda _frame: self._publish())

    def _publish(self) -> None:
        """Publish a slice; come again while the window is open."""
        for index in range(self.published, min(self.published + SLICE, len(self._flights))):
            flight = self._flights[index]
            properties = pika.BasicProperties(
                content_type="application/json",
                delivery_mode=pika.DeliveryMode.Persistent,
                headers=flight.headers,
                timestamp=flight.timestamp,
                message_id=str(index),
            )
            self._channel.basic_publish(TOPIC, flight.routing_key, flight.body, properties, mandatory=True)
            self._outstanding.append(index + 1)
            self.published += 1
        self._progress(self.published, self.confirmed)
        if self.published < len(self._flights) and len(self._outstanding) < WINDOW:
            self._connection.ioloop.call_later(0, self._publish)

    def _on_return(self, _channel: Any, _method: Any, properties: Any, _body: bytes) -> None:
        self.returned.append(int(properties.message_id))

    def _on_answer(self, frame: Any) -> None:
        was_open = len(self._outstanding) < WINDOW
        method = frame.method
        acked = isinstance(method, pika.spec.Basic.Ack)
        for _ in range(self._settle(method.delivery_tag, method.multiple)):
            self.confirmed += acked
            self.nacked += not acked
        self._progress(self.published, self.confirmed)
        if self.published == len(self._flights) and not self._outstanding:
            self._connection.close()
        elif not was_open and len(self._outstanding) < WINDOW and self.published < len(self._flights):
            self._connection.ioloop.call_later(0, self._publish)

    def _settle(self, tag: int, multiple: bool) -> int:
        """How many outstanding tags this answer settles. Single answers may overtake each other."""
        count = 0
        if not multiple:
            if tag in self._settled or not self._outstanding or tag < self._outstanding[0]:
                self.unexpected += 1
                return 0
            self._settled.add(tag)
            count = 1
        else:
            while self._outstanding and self._outstanding[0] <= tag:
                first = self._outstanding.popleft()
                if first in self._settled:
                    self._settled.remove(first)
                else:
                    count += 1
            self.unexpected += not count
        while self._outstanding and self._outstanding[0] in self._settled:
            self._settled.remove(self._outstanding.popleft())
        return count

    def _watch(self) -> None:
        if self.confirmed == self._seen_confirmed:
            self._stop(f"no confirm for {STALLED_SECONDS} s")
            return
        self._seen_confirmed = self.confirmed
        self._connection.ioloop.call_later(STALLED_SECONDS, self._watch)

    def _stop(self, reason: str) -> None:
        if self.published < len(self._flights) or self._outstanding:
            self.problem = self.problem or reason
        self._connection.ioloop.stop()
