"""Counts of a virtual host since it was opened, for metrics to sample. They only grow."""

from __future__ import annotations


class Counters:
    """How often queues were declared, made and deleted; in the words of RabbitMQ's HTTP API.

    A program that declares and deletes a queue for each request shows here before it hurts.
    """

    __slots__ = ("queue_created", "queue_declared", "queue_deleted")

    def __init__(self) -> None:
        #: All that succeeded, of queues that exist too.
        self.queue_declared = 0
        self.queue_created = 0
        self.queue_deleted = 0
