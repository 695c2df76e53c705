"""Exchanges and queues of the demonstration, and what each queue must get according to the data set itself.

    publish -> flights (topic) -+- UA.#                      -> united
                                +- *.*.LAX, *.*.SFO          -> california
                                +- *.EWR.#                   -> newark
                                +- *.JFK.* -> kennedy (fanout) -+-> kennedy-1
                                |                               +-> kennedy-2
                                +- # -> by-headers (headers) -+- month = 12, delay present -> december
                                                              +- delay = 0                 -> on-the-minute

A flight that none of them wants is unroutable, and comes back to the publisher.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pika.adapters.blocking_connection import BlockingChannel

from demo.flights import Flight

TOPIC, FANOUT, HEADERS = "flights", "flights.kennedy", "flights.by-headers"


class Expected(NamedTuple):
    """A queue, how it is bound, and which flights belong there."""

    queue: str
    binding: str
    wants: Callable[[Flight], bool]


QUEUES = [
    Expected("flights.united", "topic UA.#", lambda flight: flight.carrier == "UA"),
    Expected("flights.california", "topic *.*.LAX, *.*.SFO", lambda flight: flight.dest in ("LAX", "SFO")),
    Expected("flights.newark", "topic *.EWR.#", lambda flight: flight.origin == "EWR"),
    Expected("flights.kennedy-1", "fanout behind *.JFK.*", lambda flight: flight.origin == "JFK"),
    Expected("flights.kennedy-2", "fanout behind *.JFK.*", lambda flight: flight.origin == "JFK"),
    Expected(
        "flights.december",
        "headers month=12, delay",
        lambda flight: flight.month == 12 and flight.delay is not None,
    ),
    Expected("flights.on-the-minute", "headers delay=0", lambda flight: flight.delay == 0),
]


def wanted(flight: Flight) -> bool:
    """Does any queue want it?"""
    return any(expected.wants(flight) for expected in QUEUES)


def declare(channel: BlockingChannel) -> None:
    """Make everything, durable and empty, whatever was there before."""
    remove(channel)
    channel.exchange_declare(TOPIC, "topic", durable=True)
    channel.exchange_declare(FANOUT, "fanout", durable=True)
    channel.exchange_declare(HEADERS, "headers", durable=True)
    channel.exchange_bind(destination=FANOUT, source=TOPIC, routing_key="*.JFK.*")
    channel.exchange_bind(destination=HEADERS, source=TOPIC, routing_key="#")
    for expected in QUEUES:
        channel.queue_declare(expected.queue, durable=True)
    for queue, pattern in (
        ("united", "UA.#"),
        ("california", "*.*.LAX"),
        ("california", "*.*.SFO"),
        ("newark", "*.EWR.#"),
    ):
        channel.queue_bind(f"flights.{queue}", TOPIC, pattern)
    for queue in ("kennedy-1", "kennedy-2"):
        channel.queue_bind(f"flights.{queue}", FANOUT)
    by_headers: dict[str, dict[str, Any]] = {
        "december": {"x-match": "all", "month": 12, "delay": None},
        "on-the-minute": {"x-match": "all", "delay": 0},
    }
    for queue, arguments in by_headers.items():
        channel.queue_bind(f"flights.{queue}", HEADERS, arguments=arguments)


def remove(channel: BlockingChannel) -> None:
    """Delete everything that `declare` makes."""
    for expected in QUEUES:
        channel.queue_delete(expected.queue)
    for exchange in (TOPIC, FANOUT, HEADERS):
        channel.exchange_delete(exchange)
