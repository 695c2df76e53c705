"""Fuzzers: AMQP and HTTP against a broker process, every kind of file against a start.

``make fuzz`` runs them. A case follows from the seed and its number alone. A finding is made as small as it
gets and saved with what replays it.
"""
