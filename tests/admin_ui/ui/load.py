"""A small airport's worth of traffic by pika: publishers, consumers quick and slow, and what goes wrong."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import pika
from pika.adapters.blocking_connection import BlockingChannel

TOPIC, FANOUT, HEADERS = "flights", "flights.kennedy", "flights.by-headers"
ORIGINS = ("EWR", "JFK", "LGA")
CARRIERS = ("UA", "B6", "EV", "DL", "AA", "MQ", "US", "WN")
DESTINATIONS = ("LAX", "SFO", "ATL", "BOS", "MCO", "ORD", "CLT", "MIA")
BINDINGS = [
    ("flights.united", "UA.#"),
    ("flights.california", "*.*.LAX"),
    ("flights.california", "*.*.SFO"),
    ("flights.newark", "*.EWR.#"),
    ("flights.archive", "*.*.ATL"),
    ("flights.archive", "*.*.ORD"),
]
#: Queue, consumer's name, prefetch, and 1 if it is so slow that it falls behind now and then.
CONSUMERS = [
    ("flights.united", "united-desk", 100, 0.0),
    ("flights.united", "united-mobile", 100, 0.0),
    ("flights.california", "west-coast", 50, 0.0),
    ("flights.newark", "newark-board", 20, 1.0),
    ("flights.kennedy-1", "kennedy-board", 100, 0.0),
    ("flights.december", "holiday-report", 200, 0.0),
]
TICK_S = 0.1


class Load:
    """Runs from ``start`` to ``stop`` in threads; ``rate``: messages a second of each of three publishers."""

    def __init__(self, port: int, *, rate: int = 60) -> None:
        self.port = port
        self.rate = rate
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Declare everything and begin."""
        with self._connect("topology") as connection:
            declare(connection.channel())
        jobs: list[Callable[[], None]] = [lambda origin=origin: self._publish(origin) for origin in ORIGINS]
        hold_s = 1 / (self.rate * 0.85)
        jobs += [
            lambda q=queue, n=name, p=prefetch, h=hold_s * slow: self._consume(q, n, p, h)
            for queue, name, prefetch, slow in CONSUMERS
        ]
        self._threads = [threading.Thread(target=job, daemon=True) for job in jobs]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all of it."""
        self._stop.set()
        for thread in self._threads:
            thread.join(10)

    def _connect(self, name: str) -> pika.BlockingConnection:
        properties = {"connection_name": name}
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, client_properties=properties)
        )

    def _publish(self, origin: str) -> None:
        chance = random.Random(origin)
        while not self._stop.is_set():
            try:
                with self._connect(f"feed {origin}") as connection:
                    channel = connection.channel()
                    if origin == "JFK":
                        channel.confirm_delivery()
                    while not self._stop.is_set():
                        wave = 0.6 + 0.4 * abs((time.time() % 60) / 30 - 1)
                        for _ in range(int(self.rate * TICK_S * wave)):
                            publish(channel, origin, chance)
                        connection.process_data_events(TICK_S)
            except pika.exceptions.AMQPError:
                self._stop.wait(0.2)  # the broker was stopped, as some tests do

    def _consume(self, queue: str, name: str, prefetch: int, hold_s: float) -> None:
        while not self._stop.is_set():
            try:
                with self._connect(name) as connection:
                    channel = connection.channel()
                    channel.basic_qos(prefetch_count=prefetch)
                    for method, _, _ in channel.consume(queue, inactivity_timeout=TICK_S):
                        if self._stop.wait(hold_s) if hold_s else self._stop.is_set():
                            break
                        if method is not None:
                            channel.basic_ack(method.delivery_tag)
            except pika.exceptions.AMQPError:
                self._stop.wait(0.2)


def publish(channel: BlockingChannel, origin: str, chance: random.Random) -> None:
    """One flight."""
    key = f"{chance.choice(CARRIERS)}.{origin}.{chance.choice(DESTINATIONS)}"
    month = chance.randint(1, 12)
    properties = pika.BasicProperties(
        delivery_mode=2, headers={"month": month, "delay": chance.randint(-5, 90)}
    )
    channel.basic_publish(TOPIC, key, b'{"flight": 1545, "tailnum": "N14228", "distance": 1400}', properties)


def declare(channel: BlockingChannel) -> None:
    """Exchanges, queues and bindings, durable."""
    channel.exchange_declare(TOPIC, "topic", durable=True)
    channel.exchange_declare(FANOUT, "fanout", durable=True)
    channel.exchange_declare(HEADERS, "headers", durable=True)
    channel.exchange_bind(FANOUT, TOPIC, "*.JFK.*")
    channel.exchange_bind(HEADERS, TOPIC, "#")
    for queue in ("kennedy-1", "kennedy-2", "december", "united", "california", "newark", "archive"):
        channel.queue_declare(f"flights.{queue}", durable=True)
    for queue in ("flights.kennedy-1", "flights.kennedy-2"):
        channel.queue_bind(queue, FANOUT, "")
    for queue, key in BINDINGS:
        channel.queue_bind(queue, TOPIC, key)
    channel.queue_bind("flights.december", HEADERS, "", {"x-match": "all", "month": 12})
    channel.queue_declare("desk.replies", auto_delete=True)
