"""The one way in for a message: routing, queues, counters, the routing log and the receipt.

AMQP's channels, the HTTP API and whatever else takes messages publish through a ``publisher.Publisher``, and
so may a queue.
"""
